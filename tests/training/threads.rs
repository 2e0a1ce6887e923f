//! A run is the same bits for any number of threads.

use std::fs;
use std::path::Path;

use super::Workbench;
use super::program::train;

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

/// The files of weights and moments after the last step.
fn state(run: &Path) -> [Vec<u8>; 2] {
    let checkpoints = fs::read_dir(run.join("checkpoints")).unwrap();
    let mut checkpoints: Vec<_> = checkpoints.map(|entry| entry.unwrap().path()).collect();
    checkpoints.retain(|path| path.is_dir());
    checkpoints.sort();
    let last = checkpoints.last().unwrap();
    ["model.safetensors", "optimizer.safetensors"].map(|file| fs::read(last.join(file)).unwrap())
}
