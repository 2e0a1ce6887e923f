//! Losses under a trained model: equal to the reference's, whatever the batch size and the number
//! of ranks.
//!
//! Reference values: `fixtures/gpt2_micro`.

use evaluation::windows::OverlapWindows;
use training::TrainError;
use training::backend::Activation;
use training::inference::{Scorer, Window};
use training::parameters::{KeyedInit, ParameterSource, ParameterSpec};

use crate::evaluation::{assert_close, positive, reference};
use crate::micro_gpt2::{self, Tensors};

fn micro_scorer(tensor_parallel_size: usize) -> Scorer {
    Scorer::new(
        &micro_gpt2::config(Activation::Gelu),
        Tensors::read("gpt2_micro", "model.safetensors"),
        positive(tensor_parallel_size),
    )
    .unwrap()
}

/// The reference's 101 tokens.
fn micro_stream() -> Vec<u32> {
    serde_json::from_value(reference("gpt2_micro")["eval_stream"].clone()).unwrap()
}

/// Sum of the losses of `tokens` in windows of `window`, one every `overlap`, `batch_size` at a
/// time.
fn total_nll(
    scorer: &mut Scorer,
    tokens: &[u32],
    (window, overlap): (usize, usize),
    batch_size: usize,
) -> f64 {
    let windows = OverlapWindows::new(tokens, window, positive(overlap));
    let scoring: Vec<Window<'_>> = windows.scoring().collect();
    let losses = scoring.chunks(batch_size).flat_map(|batch| scorer.score(batch).unwrap());
    losses.flatten().map(|score| f64::from(score.loss)).sum()
}

#[test]
fn totals_of_overlapping_windows_are_the_references() {
    let tokens = micro_stream();
    let expected = reference("gpt2_micro")["overlap_eval"].as_array().unwrap().clone();
    assert_eq!(expected.len(), 6);
    for tensor_parallel_size in [1, 2] {
        let mut scorer = micro_scorer(tensor_parallel_size);
        for case in &expected {
            let size = |name: &str| case[name].as_u64().unwrap() as usize;
            let (window, overlap) = (size("window"), size("overlap"));
            let windows = OverlapWindows::new(&tokens, window, positive(overlap));
            assert_eq!(windows.num_windows(), size("windows"));
            let total = total_nll(&mut scorer, &tokens, (window, overlap), 4);
            // The reference is f32 too: some 1e-7 of each loss is rounding, less of the sum of a
            // hundred.
            assert_close(total, case["total_nll"].as_f64().unwrap(), 1e-7);
        }
    }
}

#[test]
fn totals_do_not_depend_on_batch_size_or_ranks() {
    let tokens = micro_stream();
    let expected = total_nll(&mut micro_scorer(1), &tokens, (64, 16), 1);
    for tensor_parallel_size in [1, 2, 4] {
        let mut scorer = micro_scorer(tensor_parallel_size);
        for batch_size in [1, 3, 8] {
            let total = total_nll(&mut scorer, &tokens, (64, 16), batch_size);
            assert_close(total, expected, 1e-6);
        }
    }
}

#[test]
fn predictions_do_not_depend_on_ranks() {
    let tokens = micro_stream();
    let window = Window { tokens: &tokens[..65], scored: 0..64 };
    let predicted = |tensor_parallel_size| -> Vec<u32> {
        let scores = micro_scorer(tensor_parallel_size).score(std::slice::from_ref(&window));
        scores.unwrap()[0].iter().map(|score| score.predicted).collect()
    };
    let expected = predicted(1);
    assert!(expected.iter().any(|&token| token != expected[0]), "{expected:?}");
    assert_eq!(predicted(2), expected);
    assert_eq!(predicted(4), expected);
}

#[test]
fn a_shorter_neighbor_in_the_batch_changes_no_loss() {
    let tokens = micro_stream();
    let long = Window { tokens: &tokens[..65], scored: 60..64 };
    let short = Window { tokens: &tokens[30..36], scored: 2..5 };
    let none = Window { tokens: &tokens[..1], scored: 0..0 };
    let mut scorer = micro_scorer(1);
    let together = scorer.score(&[short.clone(), none.clone(), long.clone()]).unwrap();
    assert_eq!(together.iter().map(Vec::len).collect::<Vec<_>>(), [3, 0, 4]);
    for (window, scores) in [short, long].iter().zip([&together[0], &together[2]]) {
        let alone = &scorer.score(std::slice::from_ref(window)).unwrap()[0];
        for (alone, together) in alone.iter().zip(scores) {
            assert_close(f64::from(together.loss), f64::from(alone.loss), 2e-6);
            assert_eq!(together.predicted, alone.predicted);
        }
    }
    assert_eq!(scorer.score(&[none]).unwrap(), [vec![]]);
    assert!(scorer.score(&[]).unwrap().is_empty());
}

#[test]
fn a_rank_without_its_parameters_ends_the_scorer_with_its_error() {
    struct FailsOnRank1;
    impl ParameterSource for FailsOnRank1 {
        fn local(
            &self,
            spec: &ParameterSpec,
            rank: usize,
            size: usize,
        ) -> Result<Vec<f32>, TrainError> {
            if rank == 1 {
                return Err(TrainError::UnknownParameter { path: spec.path.clone() });
            }
            KeyedInit { seed: 1 }.local(spec, rank, size)
        }
    }
    let error =
        Scorer::new(&micro_gpt2::config(Activation::Gelu), FailsOnRank1, positive(2)).unwrap_err();
    assert!(error.to_string().starts_with("rank 1: the model has no parameter "), "{error}");
}

#[test]
fn a_rank_that_panics_ends_the_scorer_with_its_message() {
    struct PanicsOnRank1;
    impl ParameterSource for PanicsOnRank1 {
        fn local(
            &self,
            spec: &ParameterSpec,
            rank: usize,
            size: usize,
        ) -> Result<Vec<f32>, TrainError> {
            assert!(rank == 0, "no memory for {}", spec.path);
            KeyedInit { seed: 1 }.local(spec, rank, size)
        }
    }
    let error =
        Scorer::new(&micro_gpt2::config(Activation::Gelu), PanicsOnRank1, positive(2)).unwrap_err();
    assert!(error.to_string().starts_with("rank 1 panicked: no memory for "), "{error}");
}

#[test]
fn heads_that_do_not_split_are_refused_before_anything_is_allocated() {
    struct Unreachable;
    impl ParameterSource for Unreachable {
        fn local(&self, _: &ParameterSpec, _: usize, _: usize) -> Result<Vec<f32>, TrainError> {
            unreachable!("no parameter is asked for")
        }
    }
    let error =
        Scorer::new(&micro_gpt2::config(Activation::Gelu), Unreachable, positive(3)).unwrap_err();
    let expected = "4 attention heads cannot be split over --tp 3; allowed: 1, 2, 4";
    assert_eq!(error.to_string(), expected);
}
