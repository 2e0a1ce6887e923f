//! Where the dynamic loader would find a library, without loading it.
//!
//! The loader looks in the folders of `LD_LIBRARY_PATH`, then in its cache, then in the system's
//! folders. The cache is read through `ldconfig -p`; where there is no such program, the system's
//! folders have to do.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that loaders look in by themselves, and those into which drivers are mounted.
const SYSTEM_FOLDERS: [&str; 8] = [
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
];

/// The places in which libraries are looked for.
pub(super) struct Libraries {
    folders: Vec<PathBuf>,
    cache: String,
}

impl Libraries {
    /// The places of this machine's loader.
    pub(super) fn of_loader() -> Self {
        let own = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let cache = ["ldconfig", "/sbin/ldconfig"].into_iter().find_map(|program| {
            let output = Command::new(program).arg("-p").output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        });
        Self { folders: env::split_paths(&own).collect(), cache: cache.unwrap_or_default() }
    }

    /// The first library of one of these names, the earlier name first.
    pub(super) fn find(&self, names: &[&str]) -> Option<PathBuf> {
        let in_folder =
            |folder: &Path, name: &str| Some(folder.join(name)).filter(|it| it.is_file());
        names.iter().find_map(|name| {
            let in_own = self.folders.iter().find_map(|folder| in_folder(folder, name));
            in_own.or_else(|| self.in_cache(name)).or_else(|| {
                SYSTEM_FOLDERS.iter().find_map(|folder| in_folder(Path::new(folder), name))
            })
        })
    }

    /// From a line such as `libz.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1`.
    fn in_cache(&self, name: &str) -> Option<PathBuf> {
        let line = self.cache.lines().find(|line| line.split_whitespace().next() == Some(name))?;
        line.split_once(" => ").map(|(_, path)| PathBuf::from(path.trim()))
    }
}
