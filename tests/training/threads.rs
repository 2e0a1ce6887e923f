//! A run is the same bits for any number of threads.

use std::fs;
use std::path::Path;

use super::Workbench;
use super::program::{command, train};
use crate::support::Run;

#[test]
fn run_is_the_same_bits_on_one_thread_and_on_several() {
    let workbench = Workbench::new(101);
    // Wide enough for several tasks in every kernel, and for products that are cut along the sum.
    let sizes =
        ["model.gpt2.hidden_size=96", "model.gpt2.seq_length=160", "schedule.train_steps=3"];
    let sizes = sizes.iter().flat_map(|size| ["--set", size]);
    let runs = ["1", "2", "5"].map(|threads| {
        let out = workbench.new_run();
        let flags: Vec<&str> = ["--threads", threads].into_iter().chain(sizes.clone()).collect();
        let run = train(&workbench, &out, &flags);
        assert_eq!(run.code, 0, "{}", run.stderr);
        out
    });
    let [one, two, five] = runs.each_ref().map(|out| state(out));
    assert!(one == two, "1 thread and 2");
    assert!(one == five, "1 thread and 5");
}

#[test]
fn threads_that_make_no_sense_are_refused_wherever_they_come_from() {
    let workbench = Workbench::new(101);
    for (value, code) in [("99999", 2), ("-1", 2), ("many", 2), ("3", 0), ("0", 0), ("", 0)] {
        let out = workbench.new_run();
        let mut command = command(&workbench, &out, &["--set", "schedule.train_steps=1"]);
        let run = Run::of(command.env("RAYON_NUM_THREADS", value));
        assert_eq!(run.code, code, "{value:?}: {}", run.stderr);
        let refused = run.stderr.contains("a whole number from 1 to 1024 is needed");
        assert_eq!(refused, code == 2, "{}", run.stderr);
    }
    let run = train(&workbench, &workbench.new_run(), &["--threads", "5000"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("5000 is not in 1..=1024"), "{}", run.stderr);
}

/// The files of weights and moments after the last step.
fn state(run: &Path) -> [Vec<u8>; 2] {
    let checkpoints = fs::read_dir(run.join("checkpoints")).unwrap();
    let mut checkpoints: Vec<_> = checkpoints.map(|entry| entry.unwrap().path()).collect();
    checkpoints.retain(|path| path.is_dir());
    checkpoints.sort();
    let last = checkpoints.last().unwrap();
    ["model.safetensors", "optimizer.safetensors"].map(|file| fs::read(last.join(file)).unwrap())
}
