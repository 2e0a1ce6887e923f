//! What there is of CUDA: the driver with its devices, the run-time compiler, and NCCL.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::Finding;
use super::libraries::Libraries;

/// The driver, its version and its devices.
pub(super) fn driver() -> Finding {
    let version = driver_version();
    let devices = device_files();
    let library = Libraries::of_loader().find(&["libcuda.so.1", "libcuda.so"]);
    let found = match (&version, devices.len()) {
        (None, 0) => "no NVIDIA driver".to_owned(),
        (version, count) => format!(
            "NVIDIA driver {}, {count} {}",
            version.as_deref().unwrap_or("of unknown version"),
            if count == 1 { "device" } else { "devices" }
        ),
    };
    let advice = match (version.is_some() || !devices.is_empty(), &library) {
        (false, None) => "nothing is missing: training runs on the CPU".to_owned(),
        (true, Some(library)) => format!(
            "{} is there, but this build has no CUDA backend: training runs on the CPU",
            library.display()
        ),
        (true, None) => "libcuda.so.1 is not where the loader looks: \
             a container may lack the driver's libraries"
            .to_owned(),
        (false, Some(library)) => {
            format!("{} is there without a driver, and of no use", library.display())
        }
    };
    Finding {
        key: "cuda_driver",
        title: "CUDA driver",
        found,
        advice,
        values: json!({
            "version": version,
            "device_files": devices,
            "library": path(library.as_deref()),
        }),
    }
}

/// NVRTC, which compiles kernels when a program on CUDA starts.
pub(super) fn compiler() -> Finding {
    let library = Libraries::of_loader().find(&["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]);
    library_finding(
        "nvrtc",
        "CUDA compiler",
        library.as_deref(),
        "a CUDA backend compiles its kernels with it; the CPU needs none",
    )
}

/// NCCL, which exchanges numbers between GPUs.
pub(super) fn nccl() -> Finding {
    let library = Libraries::of_loader().find(&["libnccl.so", "libnccl.so.2"]);
    let advice = match &library {
        Some(library) if library.ends_with("libnccl.so.2") => {
            "a program that loads it by the name libnccl.so needs a link of that name beside it"
        }
        _ => "GPUs exchange numbers through it; ranks on the CPU are threads and need none",
    };
    library_finding("nccl", "NCCL", library.as_deref(), advice)
}

fn library_finding(
    key: &'static str,
    title: &'static str,
    library: Option<&Path>,
    advice: &str,
) -> Finding {
    Finding {
        key,
        title,
        found: library.map_or_else(|| "not found".to_owned(), |path| path.display().to_string()),
        advice: advice.to_owned(),
        values: json!({ "library": path(library) }),
    }
}

fn path(library: Option<&Path>) -> Value {
    library.map_or(Value::Null, |path| json!(path))
}

/// `550.54.15`, from the line `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...`.
fn driver_version() -> Option<String> {
    let text = fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let is_version = |word: &&str| {
        word.contains('.') && word.bytes().all(|it| it.is_ascii_digit() || it == b'.')
    };
    text.split_whitespace().find(is_version).map(str::to_owned)
}

/// `/dev/nvidia0` and so on, in the order of their numbers.
fn device_files() -> Vec<String> {
    let mut numbers: Vec<u32> = fs::read_dir("/dev")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("nvidia")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers.iter().map(|number| format!("/dev/nvidia{number}")).collect()
}
