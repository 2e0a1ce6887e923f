//! The same run in every layout.

use std::path::Path;

use training::backend::{Precision, Recompute};
use training::config::TrainConfig;

use super::{config, run, runs, weights};
use crate::training::logged;

fn set_layout(config: &mut TrainConfig, [tensor, data, micro]: [usize; 3]) {
    config.parallel.tensor_parallel_size = tensor.try_into().unwrap();
    config.parallel.data_parallel_size = data.try_into().unwrap();
    config.batch.micro_batch_size = micro.try_into().unwrap();
}

/// The largest relative difference between what two runs logged as `name`.
fn difference(name: &str, runs: [&Path; 2]) -> f64 {
    let [one, other] = runs.map(|run| logged(run, name));
    assert_eq!(one.len(), other.len());
    assert!(!one.is_empty());
    let off = one.iter().zip(&other).map(|(one, other)| (one - other).abs() / other.abs());
    off.fold(0.0, f64::max)
}

#[test]
fn ranks_copies_and_micro_batches_change_nothing_but_rounding() {
    let layouts = [[1, 1, 8], [2, 1, 8], [1, 1, 1], [1, 4, 2], [2, 2, 2]];
    let (_folder, outs) = runs(["one", "ranks", "accumulated", "copies", "both"]);
    for (out, layout) in outs.iter().zip(layouts) {
        run(out, config(|config| set_layout(config, layout)));
    }
    for (out, [tensor, ..]) in outs.iter().zip(layouts).skip(1) {
        let bound = if tensor > 1 { 1e-5 } else { 1e-6 };
        let found = difference("loss", [out, &outs[0]]);
        assert!(found < bound, "{found} in {}", out.display());
        assert!(difference("validation_loss", [out, &outs[0]]) < 1e-5);
        assert_eq!(
            logged(out, "validation_accuracy"),
            logged(&outs[0], "validation_accuracy"),
            "{}",
            out.display()
        );
        let samples = |run: &Path| std::fs::read_to_string(run.join("samples.jsonl")).unwrap();
        assert_eq!(samples(out), samples(&outs[0]));
    }
}

#[test]
fn layers_that_run_again_give_the_same_bits_and_sixteen_bits_nearly_the_same_losses() {
    let (_folder, [exact, kept, again]) = runs(["exact", "kept", "again"]);
    run(&exact, config(|_| {}));
    let rounded = |config: &mut TrainConfig| config.precision = Precision::Bf16;
    let report = run(&kept, config(rounded));
    let recomputed = run(
        &again,
        config(|config| {
            rounded(config);
            config.recompute = Recompute::Layer;
        }),
    );
    assert!(weights(&recomputed.checkpoint) == weights(&report.checkpoint));
    for name in ["loss", "grad_norm", "validation_loss"] {
        assert_eq!(logged(&again, name), logged(&kept, name), "{name}");
    }
    assert_ne!(logged(&kept, "loss"), logged(&exact, "loss"), "something is rounded");
    assert!(difference("loss", [&kept, &exact]) < 2e-2);
}
