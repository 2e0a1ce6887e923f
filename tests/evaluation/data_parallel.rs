//! Scoring on several copies of a model: no window is scored twice, and no number changes.

use std::fs;

use corpus::Silent;
use evaluation::lambada::Lambada;
use evaluation::{EvalError, EvalPlan, EvaluatedModel, Protocol, Task};
use training::architecture::Architecture;
use training::inference::{Scorer, Window};
use training::model::Gpt2Config;
use training::parameters::{KeyedInit, ParameterSource};

use super::{
    assert_close, identity, made_text, measured, narrow_gpt2, plan, positive, run_on_text,
};

/// The model of `source` in `dp` copies of `tp` ranks each.
fn copies<S>(config: &Gpt2Config, source: S, (tp, dp): (usize, usize)) -> EvaluatedModel
where
    S: ParameterSource + Send + 'static,
{
    let scorer = Scorer::with_copies(config, source, positive(tp), positive(dp)).unwrap();
    EvaluatedModel::new(identity(config), scorer)
}

fn layout(micro_batch_size: usize, (tp, dp): (usize, usize)) -> EvalPlan {
    let data_parallel_size = positive(dp);
    EvalPlan { micro_batch_size: positive(micro_batch_size), data_parallel_size, ..plan(8, tp) }
}

#[test]
fn the_total_does_not_depend_on_batches_ranks_or_copies() {
    let config = narrow_gpt2(24);
    let run = |micro_batch_size, grid| {
        let mut model = copies(&config, KeyedInit { seed: 5 }, grid);
        let plan = layout(micro_batch_size, grid);
        let result = run_on_text(made_text(), &mut model, &plan).unwrap();
        let measured = measured(&result).clone();
        assert_eq!(measured.settings.scoring.data_parallel_size, grid.1);
        assert_eq!(measured.counts.targets, measured.counts.tokens - 1, "each target once");
        measured
    };
    let expected = run(1, (1, 1));
    for micro_batch_size in [1, 3, 8] {
        for tp in [1, 2] {
            let one_copy = run(micro_batch_size, (tp, 1));
            assert_close(one_copy.metrics.total_nll, expected.metrics.total_nll, 1e-6);
            for dp in [2, 3, 5] {
                let found = run(micro_batch_size, (tp, dp));
                // The same batches on another copy: the same bits.
                assert_eq!(found.metrics, one_copy.metrics, "{micro_batch_size} {tp} {dp}");
                assert_eq!(found.counts, one_copy.counts);
            }
        }
    }
}

/// As many examples as leave a remainder for every number of copies: what pads the list of examples
/// to a multiple of the copies counts some twice.
#[test]
fn examples_that_do_not_divide_by_the_copies_count_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.jsonl");
    let lines: Vec<String> = (0..13)
        .map(|number| format!("{{\"text\": \"the miners weigh {number} stones of tin\"}}\n"))
        .collect();
    fs::write(&file, lines.concat()).unwrap();
    let task = Task::Lambada(Lambada {
        name: "made".to_owned(),
        data: file,
        protocol: Protocol::Megatron,
    });
    let config = narrow_gpt2(24);
    let run = |dp| {
        let mut model = copies(&config, KeyedInit { seed: 5 }, (1, dp));
        let result = task.run(&mut model, &layout(2, (1, dp)), &Silent).unwrap();
        match result.measured {
            evaluation::Measured::Lambada(measured) => measured,
            other => panic!("{other:?}"),
        }
    };
    let expected = run(1);
    assert_eq!(expected.counts.examples, 13);
    for dp in [2, 4, 8, 16] {
        let found = run(dp);
        assert_eq!((found.metrics, found.counts), (expected.metrics, expected.counts), "{dp}");
    }
}

#[test]
fn a_copy_that_fails_ends_the_evaluation_with_its_error() {
    /// Weights of which only the first copy gets all.
    struct OnceOnly(std::sync::atomic::AtomicUsize);
    impl ParameterSource for OnceOnly {
        fn local(
            &self,
            spec: &training::parameters::ParameterSpec,
            rank: usize,
            size: usize,
        ) -> Result<Vec<f32>, training::TrainError> {
            let is_first = spec.name == "transformer.ln_f.bias";
            let loaded =
                self.0.fetch_add(usize::from(is_first), std::sync::atomic::Ordering::SeqCst);
            if is_first && loaded > 0 {
                let path = spec.path.clone();
                return Err(training::TrainError::UnknownParameter { path });
            }
            KeyedInit { seed: 1 }.local(spec, rank, size)
        }
    }
    let source = OnceOnly(std::sync::atomic::AtomicUsize::new(0));
    let mut scorer =
        Scorer::with_copies(&narrow_gpt2(24), source, positive(1), positive(2)).unwrap();
    let tokens: Vec<u32> = (0..9).collect();
    let windows = [Window { tokens: &tokens, scored: 0..8 }];
    let batches: Vec<&[Window<'_>]> = vec![&windows; 2];
    let error = scorer.score_side_by_side(&batches).unwrap_err();
    assert!(error.to_string().contains("has no parameter"), "{error}");
}

/// Batches that nobody has are no reason to hold a model.
#[test]
fn no_more_copies_are_made_than_there_are_batches_for() {
    let config = narrow_gpt2(24);
    let source = KeyedInit { seed: 5 };
    let mut scorer = Scorer::with_copies(&config, source, positive(1), positive(1_000)).unwrap();
    assert_eq!((scorer.num_copies(), scorer.num_copies_made()), (1_000, 1));
    let tokens: Vec<u32> = (0..9).collect();
    let windows = [Window { tokens: &tokens, scored: 0..8 }];
    let batches: Vec<&[Window<'_>]> = vec![&windows; 3];
    let scores = scorer.score_side_by_side(&batches).unwrap();
    assert_eq!((scores.len(), scorer.num_copies_made()), (3, 3));
    assert!(scores.iter().all(|of_batch| *of_batch == scores[0]));
    scorer.score(&windows).unwrap();
    assert_eq!(scorer.num_copies_made(), 3, "those that are there serve again");
}

#[test]
fn copies_that_do_not_fit_into_memory_are_refused_with_how_many_do() {
    let config = Architecture::Gpt2(narrow_gpt2(24));
    let weights = 4 * config.num_parameters(1) as u64;
    let plan = |dp| layout(1, (1, dp));
    plan(1).check_memory(&config, Some(2 * weights)).unwrap();
    plan(1_000).check_memory(&config, None).unwrap();
    let error = plan(1_000).check_memory(&config, Some(100 * weights)).unwrap_err();
    let EvalError::Memory { copies: 1_000, of_copy, most: Some(most), .. } = error else {
        panic!("{error}")
    };
    assert!(of_copy > weights, "the batch counts too: {of_copy} of {weights}");
    assert_eq!(most.get() as u64, 100 * weights / of_copy);
    plan(most.get()).check_memory(&config, Some(100 * weights)).unwrap();
    plan(most.get() + 1).check_memory(&config, Some(100 * weights)).unwrap_err();
    let error = plan(1).check_memory(&config, Some(weights)).unwrap_err().to_string();
    assert!(error.contains("take a smaller micro_batch_size, or a machine with more"), "{error}");
}
