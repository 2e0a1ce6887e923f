//! What the machine gives this process: cores, memory and room on disks.
//!
//! A container's memory limit, not the machine's size, is what ends a process that takes more, so
//! [`memory_bytes`] is the least of physical memory and of the limits of the process's control
//! group and all those above it, in both versions that Linux has (cgroup v1:
//! `memory.limit_in_bytes`; v2: `memory.max`). Everything is read from `/proc` and
//! `/sys/fs/cgroup`; on a system without them the answer is `None`, and what depends on it says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

/// Cores that this process may use: what a processor mask or a container's quota leaves of the
/// machine's.
#[must_use]
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Memory that this process may fill, in bytes: the machine's, or its control group's limit where
/// that is lower. `None` where the system does not tell.
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    Machine::this().memory_bytes()
}

/// Memory limit of this process's control group, in bytes; `None` where there is none.
#[must_use]
pub fn memory_limit_bytes() -> Option<u64> {
    Machine::this().memory_limit_bytes()
}

/// Memory that can still be taken without swapping and within the control group's limit, in bytes.
/// `None` where the system does not tell.
#[must_use]
pub fn available_memory_bytes() -> Option<u64> {
    Machine::this().available_memory_bytes()
}

/// The most memory that this process has held so far, in bytes; `None` where the system does not
/// tell.
#[must_use]
pub fn peak_rss_bytes() -> Option<u64> {
    Machine::this().kibibytes("proc/self/status", "VmHWM:")
}

/// Has [`peak_rss_bytes`] count from now on. Returns whether the system can do that.
pub fn reset_peak_rss() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Memory that this process holds for itself, in bytes: without the pages of files that it has
/// mapped, which the system takes back whenever it needs them. `None` where the system does not
/// tell.
#[must_use]
pub fn anonymous_bytes() -> Option<u64> {
    Machine::this().kibibytes("proc/self/status", "RssAnon:")
}

/// Bytes that this process may still write to the file system on which `path` lies, which has to
/// exist. `None` where the system does not tell.
#[must_use]
pub fn free_disk_bytes(path: &Path) -> Option<u64> {
    let status = rustix::fs::statvfs(path).ok()?;
    if status.f_blocks == 0 {
        return None; // some network file systems answer with nothing but zeros
    }
    Some(status.f_bavail.saturating_mul(status.f_frsize))
}

/// The files by which Linux describes a machine, below the root folder or, in tests, below another.
struct Machine<'a> {
    root: &'a Path,
}

/// A control group's limit and what is used of it, caches that the kernel gives back not counted.
struct ControlGroup {
    limit: u64,
    used: Option<u64>,
}

impl Machine<'static> {
    fn this() -> Self {
        Self { root: Path::new("/") }
    }
}

impl Machine<'_> {
    fn memory_bytes(&self) -> Option<u64> {
        let physical = self.kibibytes("proc/meminfo", "MemTotal:")?;
        Some(self.memory_limit_bytes().map_or(physical, |limit| limit.min(physical)))
    }

    fn memory_limit_bytes(&self) -> Option<u64> {
        // Version 1 writes "no limit" as a number near 2^63, which no memory has.
        let physical = self.kibibytes("proc/meminfo", "MemTotal:").unwrap_or(u64::MAX);
        let limits = self.control_groups().into_iter().map(|group| group.limit);
        limits.filter(|&limit| limit < physical).min()
    }

    fn available_memory_bytes(&self) -> Option<u64> {
        let free = self.kibibytes("proc/meminfo", "MemAvailable:")?;
        let left = self
            .control_groups()
            .into_iter()
            .filter_map(|group| Some(group.limit.saturating_sub(group.used?)));
        left.chain([free]).min()
    }

    /// The value in bytes of a line such as `MemTotal:   24684096 kB`.
    fn kibibytes(&self, file: &str, key: &str) -> Option<u64> {
        let text = fs::read_to_string(self.root.join(file)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes * 1024)
    }

    /// The memory control groups that the process lies in and that have a limit, from its own up.
    ///
    /// `/proc/self/cgroup` has a line `0::/PATH` for version 2 and `N:memory:/PATH` for version 1.
    /// Inside a container the path may be the host's and the folder not be there: the root of the
    /// mount, which then is the container's own group, is looked at too.
    fn control_groups(&self) -> Vec<ControlGroup> {
        let membership = fs::read_to_string(self.root.join("proc/self/cgroup")).unwrap_or_default();
        let mut groups = Vec::new();
        for line in membership.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let path = Path::new(path.trim_start_matches('/'));
            let is_v1 = controllers.split(',').any(|controller| controller == "memory");
            for folder in path.ancestors() {
                if controllers.is_empty() {
                    let folder = self.root.join("sys/fs/cgroup").join(folder);
                    groups.extend(ControlGroup::read(&folder, &VERSION_2));
                } else if is_v1 {
                    let folder = self.root.join("sys/fs/cgroup/memory").join(folder);
                    groups.extend(ControlGroup::read(&folder, &VERSION_1));
                }
            }
        }
        groups
    }
}

/// Names of a control group's files, and of its file cache in `memory.stat`.
struct GroupFiles {
    limit: &'static str,
    usage: &'static str,
    inactive_cache: &'static str,
}

const VERSION_1: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    inactive_cache: "total_inactive_file ",
};

const VERSION_2: GroupFiles =
    GroupFiles { limit: "memory.max", usage: "memory.current", inactive_cache: "inactive_file " };

impl ControlGroup {
    /// The group whose files lie in `folder`; `None` where it has no limit (`max`) or is not there.
    fn read(folder: &Path, files: &GroupFiles) -> Option<Self> {
        let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let limit = number(folder.join(files.limit))?;
        let statistics = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let cache = statistics
            .lines()
            .find_map(|line| line.strip_prefix(files.inactive_cache)?.trim().parse::<u64>().ok());
        let used =
            number(folder.join(files.usage)).map(|usage| usage.saturating_sub(cache.unwrap_or(0)));
        Some(Self { limit, used })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 1,000 KiB, 800 of them free, with more files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let memory = ("proc/meminfo", "MemTotal:  1000 kB\nMemFree: 5 kB\nMemAvailable:  800 kB\n");
        for (name, text) in files.iter().chain([&memory]) {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn kibibytes(root: &tempfile::TempDir) -> (Option<u64>, Option<u64>, Option<u64>) {
        let machine = Machine { root: root.path() };
        let of = |bytes: Option<u64>| bytes.map(|bytes| bytes / 1024);
        (
            of(machine.memory_bytes()),
            of(machine.memory_limit_bytes()),
            of(machine.available_memory_bytes()),
        )
    }

    #[test]
    fn a_machine_without_limit_gives_its_memory() {
        assert_eq!(kibibytes(&machine(&[])), (Some(1000), None, Some(800)));
    }

    #[test]
    fn the_lowest_limit_of_the_groups_counts_in_version_2() {
        let root = machine(&[
            ("proc/self/cgroup", "0::/slice/job\n"),
            ("sys/fs/cgroup/slice/job/memory.max", "max\n"),
            ("sys/fs/cgroup/slice/memory.max", "512000\n"),
            ("sys/fs/cgroup/slice/memory.current", "307200\n"),
            ("sys/fs/cgroup/slice/memory.stat", "anon 1\ninactive_file 102400\nfile 7\n"),
        ]);
        assert_eq!(kibibytes(&root), (Some(500), Some(500), Some(300)));
    }

    #[test]
    fn a_container_that_sees_its_group_as_root_has_its_limit_in_version_1() {
        let root = machine(&[
            ("proc/self/cgroup", "4:cpu,memory:/docker/0123\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "921600\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "614400\n"),
        ]);
        assert_eq!(kibibytes(&root), (Some(900), Some(900), Some(300)));
    }

    #[test]
    fn no_limit_in_version_1_is_none() {
        let root = machine(&[
            ("proc/self/cgroup", "4:memory:/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "614400\n"),
        ]);
        assert_eq!(kibibytes(&root), (Some(1000), None, Some(800)));
    }

    #[test]
    fn a_system_without_these_files_does_not_tell() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(kibibytes(&root), (None, None, None));
    }

    #[test]
    fn a_folder_that_is_there_has_room_that_is_known_and_another_has_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_disk_bytes(folder.path()).is_some());
        assert_eq!(free_disk_bytes(&folder.path().join("nowhere")), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_fits_into_its_machine() {
        let (peak, memory) = (peak_rss_bytes().unwrap(), memory_bytes().unwrap());
        assert!(0 < peak && peak <= memory, "{peak} of {memory}");
        assert!(available_memory_bytes().unwrap() <= memory);
        assert!(cores() >= 1);
    }
}
