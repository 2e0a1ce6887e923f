//! The loss on held-out documents is the one that training measures.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use corpus::{DataFolder, DataManifest, Existing, Silent};
use evaluation::validation::{Measured, Validation};
use evaluation::{EvalPlan, EvalReport, PartialScores, Task, evaluate};
use tempfile::TempDir;
use training::config::TrainConfig;
use training::data::Part;
use training::plan::RunOptions;

use super::checkpoint::NARROW;
use super::{assert_close, plan, positive};
use crate::support::Shared;

/// A finished run on twenty documents, of which it has held out six for validation and four for
/// test.
struct Run(TempDir);

impl Run {
    fn shared() -> Arc<Self> {
        static RUN: Shared<Run> = Shared::new();
        RUN.get(Self::new)
    }

    fn new() -> Self {
        let run = Self(tempfile::tempdir().unwrap());
        let tokenizer = corpus::tokenizer::open("gpt2").unwrap();
        let writer = DataFolder::create(&run.path("data"), Existing::Refuse).unwrap();
        let mut shard = writer.shard(tokenizer.vocab_size()).unwrap();
        for document in 0..20 {
            let mut tokens = Vec::new();
            tokenizer.encode(&crate::support::words(document, 30), &mut tokens).unwrap();
            tokens.push(tokenizer.eod());
            shard.push_document(&tokens).unwrap();
        }
        let summary = shard.finish().unwrap();
        writer.finish(DataManifest::new(&*tokenizer, &summary)).unwrap();
        let config = NARROW.replace("100,0,0", "10,6,4");
        let config = format!("{config}\n[validation]\ninterval_steps = 3\n");
        let config: TrainConfig = toml::from_str(&config).unwrap();
        let options = RunOptions::new(run.path("data"), run.path("run"));
        training::train(&config.validate(options).unwrap(), &Silent).unwrap();
        run
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn plan(&self, data: PathBuf, part: Part) -> EvalPlan {
        let task = Task::Validation(Validation { name: "validation".to_owned(), data, part });
        EvalPlan {
            checkpoint: self.path("run"),
            tasks: vec![task],
            micro_batch_size: positive(2),
            ..plan(32, 1)
        }
    }

    /// The last validation loss that the run logged.
    fn logged(&self) -> f64 {
        let log = fs::read_to_string(self.path("run/metrics.jsonl")).unwrap();
        let lines =
            log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter_map(|line| line["validation_loss"].as_f64()).next_back().unwrap()
    }
}

fn measured(report: &EvalReport) -> &Measured {
    match &report.results[0].measured {
        evaluation::Measured::Validation(measured) => measured,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_loss_is_that_of_the_trainings_last_validation() {
    let run = Run::shared();
    let plan = run.plan(run.path("data"), Part::Validation);
    let report = evaluate(&plan, &Silent).unwrap();
    let Measured { metrics, counts, settings, protocol } = measured(&report);
    // The same batches: only the order in which f64 sums are taken may differ.
    assert_close(metrics.loss, run.logged(), 1e-12);
    assert_eq!(metrics.perplexity, metrics.loss.exp());
    assert_eq!(*protocol, "training");
    assert_eq!((counts.documents, settings.split), (6, Part::Validation));
    assert_eq!(counts.targets, counts.sequences * 32);
    assert_eq!(counts.tokens, counts.sequences * 32 + 1 + counts.tokens_left_over);
    assert!(counts.tokens_left_over < 32 && counts.sequences > 5, "{counts:?}");
    assert_eq!(
        (&*settings.split_weights.to_string(), settings.split_weights_from),
        ("10,6,4", "checkpoint")
    );
    assert!(!report.results[0].partial);

    let json = serde_json::to_value(&report).unwrap();
    let result = &json["results"][0];
    assert!(result["metrics"]["loss"].is_number() && result["metrics"]["perplexity"].is_number());
    assert!(result["counts"]["targets"].is_number());
    assert_eq!(result["settings"]["split"], "validation");
}

#[test]
fn batches_ranks_and_copies_change_nothing() {
    let run = Run::shared();
    let logged = run.logged();
    for (micro_batch_size, tp, dp) in [(1, 1, 1), (5, 1, 1), (2, 2, 1), (3, 1, 4), (100, 1, 2)] {
        let plan = EvalPlan {
            micro_batch_size: positive(micro_batch_size),
            tensor_parallel_size: positive(tp),
            data_parallel_size: positive(dp),
            ..run.plan(run.path("data"), Part::Validation)
        };
        let report = evaluate(&plan, &Silent).unwrap();
        assert_close(measured(&report).metrics.loss, logged, 1e-6);
    }
}

#[test]
fn every_part_and_every_division_can_be_asked_for() {
    let run = Run::shared();
    let of = |part, weights: Option<&str>| {
        let split_weights = weights.map(|weights| weights.parse().unwrap());
        let plan = EvalPlan { split_weights, ..run.plan(run.path("data"), part) };
        measured(&evaluate(&plan, &Silent).unwrap()).clone()
    };
    assert_eq!(of(Part::Train, None).counts.documents, 10);
    assert_eq!(of(Part::Test, None).counts.documents, 4);
    let half = of(Part::Validation, Some("50,50,0"));
    assert_eq!((half.counts.documents, half.settings.split_weights_from), (10, "configuration"));
    let all = of(Part::Train, Some("1,0,0"));
    let parts =
        [Part::Train, Part::Validation, Part::Test].map(|part| of(part, None).counts.tokens);
    assert_eq!(all.counts.tokens, parts.iter().sum::<u64>());
}

#[test]
fn a_limit_takes_the_first_sequences_and_a_stopped_one_goes_on() {
    let run = Run::shared();
    let place = tempfile::tempdir().unwrap();
    let plan = EvalPlan {
        partial_scores: PartialScores::Folder(place.path().to_owned()),
        ..run.plan(run.path("data"), Part::Validation)
    };
    let limited = EvalPlan { limit: Some(positive(3)), ..plan.clone() };
    let report = evaluate(&limited, &Silent).unwrap();
    assert!(report.results[0].partial);
    assert_eq!(measured(&report).counts.sequences, 3);
    let summary = limited.summary(&Silent).unwrap();
    assert_eq!((summary.tasks[0].windows, summary.tasks[0].targets), (Some(3), 96));
    assert!(summary.tasks[0].partial);

    let stopped = super::resume::Watch::until(4);
    evaluate(&plan, &stopped).unwrap_err();
    let going_on = super::resume::Watch::default();
    let report = evaluate(&plan, &going_on).unwrap();
    assert_close(measured(&report).metrics.loss, run.logged(), 1e-12);
    let sequences = measured(&report).counts.sequences;
    assert_eq!(going_on.counts(), (4, sequences - 4));
}

#[test]
fn a_shard_of_another_program_does_as_well() {
    let run = Run::shared();
    let shard = run.path("foreign");
    for ending in ["bin", "idx"] {
        let from = run.path(&format!("data/corpus.{ending}"));
        fs::copy(from, shard.with_extension(ending)).unwrap();
    }
    let report = evaluate(&run.plan(shard, Part::Validation), &Silent).unwrap();
    assert_close(measured(&report).metrics.loss, run.logged(), 1e-12);
}

#[test]
fn data_that_cannot_be_used_is_refused_with_what_would_be_right() {
    let run = Run::shared();
    let refused = |data: PathBuf, part, weights: Option<&str>, message: &str| {
        let split_weights = weights.map(|weights| weights.parse().unwrap());
        let plan = EvalPlan { split_weights, ..run.plan(data, part) };
        let errors = [
            plan.summary(&Silent).map(drop).unwrap_err().to_string(),
            evaluate(&plan, &Silent).unwrap_err().to_string(),
        ];
        for error in errors {
            assert!(error.contains(message), "{error}");
        }
    };
    let data = || run.path("data");
    refused(
        data(),
        Part::Test,
        Some("1,1,0"),
        "the test part has 0 of 20 documents by the split \"1,1,0\", with 0 tokens; one sequence \
         needs 33; choose another --split",
    );
    refused(run.path("nowhere"), Part::Validation, None, "nowhere: no data folder there");
    refused(run.path("run"), Part::Validation, None, "no data folder there");
    let sentences = crate::bert::runs::DATA.path("data");
    refused(sentences, Part::Validation, None, "and the model's is gpt2 of 50257");

    // Another tokenizer of the same name, and sources with weights.
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(data()).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, copy.path().join(from.file_name().unwrap())).unwrap();
    }
    let manifest = copy.path().join("manifest.json");
    let original: serde_json::Value =
        serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    let mut other = original.clone();
    other["tokenizer"]["fingerprint"] = "0".repeat(32).into();
    fs::write(&manifest, other.to_string()).unwrap();
    refused(copy.path().to_owned(), Part::Validation, None, "and the model's is gpt2 of 50257");
    let mut weighted = original;
    weighted["spans"] = serde_json::json!([
        { "source": "a", "first_document": 0, "documents": 12, "tokens": 1, "weight": 0.5 },
        { "source": "b", "first_document": 12, "documents": 8, "tokens": 1, "weight": 0.5 },
    ]);
    fs::write(&manifest, weighted.to_string()).unwrap();
    refused(copy.path().to_owned(), Part::Validation, None, "its sources have weights");
}
