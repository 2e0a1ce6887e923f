//! `pipeline doctor`: what it says of this machine, and of one with libraries that it has not.

use serde_json::Value;

use crate::support::{Dir, pipeline, pipeline_with};

#[test]
fn every_finding_has_a_line_of_advice() {
    let found = pipeline(["doctor", "--json"]).success().json();
    let keys = [
        "cores",
        "vector_instructions",
        "memory",
        "disk",
        "cuda_driver",
        "nvrtc",
        "nccl",
        "backend",
    ];
    assert_eq!(found.as_object().unwrap().keys().collect::<Vec<_>>(), keys);
    let table = pipeline(["doctor"]).success().stdout;
    assert_eq!(table.lines().count(), 2 * keys.len(), "{table}");
    for key in keys {
        assert!(!found[key]["advice"].as_str().unwrap().is_empty(), "{key}");
    }
    assert!(found["cores"]["count"].as_u64().unwrap() >= 1);
    assert!(found["memory"]["bytes"].as_u64().unwrap() > 1 << 20);
    assert!(found["disk"]["free_bytes"].as_u64().is_some());
}

#[test]
fn libraries_are_found_where_the_loader_would_look() {
    let dir = Dir::new();
    let nccl = dir.write("libnccl.so.2", "");
    let nvrtc = dir.write("libnvrtc.so.12", "");
    let folder = dir.path("");
    let run = pipeline_with(["doctor", "--json"], &[("LD_LIBRARY_PATH", folder.as_os_str())]);
    let found = run.success().json();
    // The machine that runs the tests may have the plain name, which is the one looked for first.
    for (key, own, plain) in [("nccl", nccl, "libnccl.so"), ("nvrtc", nvrtc, "libnvrtc.so")] {
        let library = found[key]["library"].as_str().unwrap();
        assert!(library == own.to_str().unwrap() || library.ends_with(plain), "{library}");
    }
    let nothing = pipeline_with(["doctor", "--json"], &[("LD_LIBRARY_PATH", "".as_ref())]);
    assert_ne!(nothing.success().json()["nvrtc"]["library"], Value::from(folder.to_str().unwrap()));
}
