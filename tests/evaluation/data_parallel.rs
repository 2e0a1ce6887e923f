//! Scoring on several copies of a model: no window is scored twice, and no number changes.

use std::fs;

use corpus::Silent;
use evaluation::lambada::Lambada;
use evaluation::{EvalPlan, EvaluatedModel, Protocol, Task};
use training::inference::Scorer;
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
    let error =
        Scorer::with_copies(&narrow_gpt2(24), source, positive(1), positive(2)).unwrap_err();
    assert!(error.to_string().contains("has no parameter"), "{error}");
}
