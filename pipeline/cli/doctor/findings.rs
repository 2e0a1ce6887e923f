//! Cores, vector instructions, memory, disk, and the backends of this build.

use std::env;

use corpus::machine;
use indicatif::HumanBytes;
use serde_json::json;
use training::backend::cpu::vector::Vector;

use super::Finding;

/// Bytes that training holds for a parameter: weight, summed gradient, the gradient of a pass and
/// Adam's two moments, each in `f32`.
const TRAINING_BYTES_PER_PARAMETER: u64 = 20;

/// Bytes of a parameter in a checkpoint: weight and Adam's two moments.
const CHECKPOINT_BYTES_PER_PARAMETER: u64 = 12;

pub(super) fn cores() -> Finding {
    let cores = machine::cores();
    let advice = match cores {
        1 => "a rank is a thread: more than one would share the core".to_owned(),
        _ => {
            format!("a rank is a thread: up to {cores} (--tp times --dp) have a core of their own")
        }
    };
    Finding {
        key: "cores",
        title: "cores",
        found: cores.to_string(),
        advice,
        values: json!({ "count": cores }),
    }
}

pub(super) fn vector_instructions() -> Finding {
    let [avx2_fma, avx512, neon] = instructions();
    let found: Vec<_> = [(avx2_fma, "AVX2 with FMA"), (avx512, "AVX-512"), (neon, "NEON")]
        .into_iter()
        .filter_map(|(is_there, name)| is_there.then_some(name))
        .collect();
    let kernels = kernels();
    let advice = if Vector::best() == Vector::portable() && !neon {
        "the kernels of training have no vector form for this: expect them to be slower".to_owned()
    } else {
        format!("the kernels of training use {kernels}")
    };
    Finding {
        key: "vector_instructions",
        title: "vector instructions",
        found: if found.is_empty() { "none known".to_owned() } else { found.join(", ") },
        advice,
        values: json!({ "avx2_fma": avx2_fma, "avx512": avx512, "neon": neon, "kernels": kernels }),
    }
}

/// The vector instructions that the kernels of training use.
pub(crate) fn kernels() -> &'static str {
    let [.., neon] = instructions();
    let best = Vector::best();
    if best == Vector::portable() && neon { "NEON" } else { best.name() }
}

/// Whether this processor has AVX2 with FMA, AVX-512, and NEON.
fn instructions() -> [bool; 3] {
    #[cfg(target_arch = "x86_64")]
    return [
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        is_x86_feature_detected!("avx512f"),
        false,
    ];
    #[cfg(target_arch = "aarch64")]
    return [false, false, std::arch::is_aarch64_feature_detected!("neon")];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    [false; 3]
}

pub(super) fn memory() -> Finding {
    let (bytes, limit, available) =
        (machine::memory_bytes(), machine::memory_limit_bytes(), machine::available_memory_bytes());
    let found = match (bytes, limit) {
        (None, _) => "the system does not tell".to_owned(),
        (Some(bytes), None) => HumanBytes(bytes).to_string(),
        (Some(_), Some(limit)) => format!("{}, the limit of its control group", HumanBytes(limit)),
    };
    let advice = match available {
        None => "20 bytes for each parameter train in f32, activations aside".to_owned(),
        Some(available) => format!(
            "{} can be taken: enough to train {} parameters in f32 at 20 bytes each, \
             activations aside",
            HumanBytes(available),
            rounded(available / TRAINING_BYTES_PER_PARAMETER)
        ),
    };
    Finding {
        key: "memory",
        title: "memory",
        found,
        advice,
        values: json!({ "bytes": bytes, "limit_bytes": limit, "available_bytes": available }),
    }
}

pub(super) fn disk() -> Finding {
    let free = env::current_dir().ok().and_then(|folder| {
        let free = machine::free_disk_bytes(&folder)?;
        Some((folder, free))
    });
    let (found, advice) = match &free {
        None => {
            let advice = "a checkpoint takes 12 bytes for each parameter, a shard 2 for each token";
            ("the system does not tell".to_owned(), advice.to_owned())
        }
        Some((folder, free)) => (
            format!("{} free in {}", HumanBytes(*free), folder.display()),
            format!(
                "enough for one checkpoint of {} parameters at 12 bytes each, or {} tokens at 2",
                rounded(free / CHECKPOINT_BYTES_PER_PARAMETER),
                rounded(free / 2)
            ),
        ),
    };
    let (path, free) = free.unzip();
    Finding {
        key: "disk",
        title: "disk",
        found,
        advice,
        values: json!({ "path": path, "free_bytes": free }),
    }
}

pub(super) fn backend() -> Finding {
    Finding {
        key: "backend",
        title: "this build",
        found: format!("version {}, backend cpu", env!("CARGO_PKG_VERSION")),
        advice:
            "training and evaluation run on the CPU; no compiler or linker is needed to run them"
                .to_owned(),
        values: json!({ "version": env!("CARGO_PKG_VERSION"), "backends": ["cpu"] }),
    }
}

/// `1.5 billion`, `730 million`: two figures are all that an estimate has.
fn rounded(count: u64) -> String {
    for (unit, name) in [(1_000_000_000, "billion"), (1_000_000, "million")] {
        let amount = count as f64 / unit as f64;
        if amount >= 1.0 {
            return if amount < 10.0 {
                format!("{amount:.1} {name}")
            } else {
                format!("{amount:.0} {name}")
            };
        }
    }
    format!("{} thousand", count / 1000)
}
