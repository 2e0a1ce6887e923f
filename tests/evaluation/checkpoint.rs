//! Evaluation of checkpoints that training has written.

use std::fs;
use std::path::{Path, PathBuf};

use corpus::{DataFolder, DataManifest, Existing, Silent};
use evaluation::{EvalError, EvalPlan, EvalReport, evaluate};
use tempfile::TempDir;
use training::config::TrainConfig;
use training::plan::{Resume, RunOptions};

use super::{assert_close, made_text, measured, plan, positive, task};

/// A GPT-2 with the real vocabulary that trains in a second.
pub(super) const NARROW: &str = r#"
[model.gpt2]
num_layers = 1
hidden_size = 8
num_attention_heads = 2
seq_length = 32

[batch]
micro_batch_size = 2
global_batch_size = 2

[optimizer]
lr = 1e-2
min_lr = 1e-3

[schedule]
train_steps = 3
warmup_steps = 1

[data]
split = "100,0,0"
"#;

/// A run on the made text, and the text itself as a test file.
pub(super) struct TrainedRun {
    folder: TempDir,
}

impl TrainedRun {
    pub(super) fn new() -> Self {
        Self::with_seed(7)
    }

    pub(super) fn with_seed(seed: u64) -> Self {
        Self::with(&format!("seed = {seed}\n"), "")
    }

    /// A run of the narrow model's configuration, with these lines before and behind it.
    fn with(before: &str, behind: &str) -> Self {
        let run = Self { folder: tempfile::tempdir().unwrap() };
        let tokenizer = corpus::tokenizer::open("gpt2").unwrap();
        let mut tokens = Vec::new();
        tokenizer.encode(&made_text(), &mut tokens).unwrap();
        tokens.push(tokenizer.eod());

        let writer = DataFolder::create(&run.path("data"), Existing::Refuse).unwrap();
        let mut shard = writer.shard(tokenizer.vocab_size()).unwrap();
        shard.push_document(&tokens).unwrap();
        let summary = shard.finish().unwrap();
        writer.finish(DataManifest::new(&*tokenizer, &summary)).unwrap();

        let config: TrainConfig = toml::from_str(&format!("{before}{NARROW}{behind}")).unwrap();
        let options = RunOptions {
            resume: Resume::Never,
            ..RunOptions::new(run.path("data"), run.path("run"))
        };
        training::train(&config.validate(options).unwrap(), &Silent).unwrap();
        fs::write(run.path("test.tokens"), made_text()).unwrap();
        run
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The plan to evaluate `checkpoint` on the made text.
    pub(super) fn plan(
        &self,
        checkpoint: &Path,
        micro_batch_size: usize,
        ranks: usize,
    ) -> EvalPlan {
        EvalPlan {
            checkpoint: checkpoint.to_owned(),
            tasks: vec![task(self.path("test.tokens"))],
            micro_batch_size: positive(micro_batch_size),
            ..plan(8, ranks)
        }
    }
}

pub(super) fn total_nll(report: &EvalReport) -> f64 {
    measured(&report.results[0]).metrics.total_nll
}

#[test]
fn a_trained_run_evaluates_alike_for_every_batch_size_and_number_of_ranks() {
    let run = TrainedRun::new();
    let evaluated = |micro_batch_size, ranks| {
        evaluate(&run.plan(&run.path("run"), micro_batch_size, ranks), &Silent).unwrap()
    };
    let report = evaluated(1, 1);
    let measured_alone = measured(&report.results[0]);
    assert_eq!(report.results[0].task, "made");
    assert!(!report.results[0].partial);
    assert_eq!(measured_alone.settings.scoring.window, 32);
    assert!(measured_alone.settings.scoring.checkpoint.ends_with("step-3"), "{measured_alone:?}");
    // Three steps on the very text: better than no knowledge at all.
    assert!(measured_alone.metrics.token_perplexity < 50_257.0);
    for (micro_batch_size, ranks) in [(3, 1), (8, 1), (1, 2), (3, 2), (8, 2)] {
        let total = total_nll(&evaluated(micro_batch_size, ranks));
        assert_close(total, total_nll(&report), 1e-6);
    }
}

#[test]
fn the_summary_of_a_plan_names_checkpoint_model_and_tasks() {
    let run = TrainedRun::new();
    let summary = run.plan(&run.path("run"), 8, 2).summary(&corpus::Silent).unwrap();
    assert_eq!(summary.step, Some(3));
    assert!(summary.checkpoint.ends_with("run/checkpoints/step-3"), "{summary:?}");
    assert_eq!((summary.model.layers().num_layers, summary.model.seq_length()), (1, 32));
    assert_eq!(summary.parameters, summary.model.num_parameters(2) as u64);
    assert_eq!(summary.tasks.len(), 1);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["tasks"][0]["task"], "made");
    assert!(json["tasks"][0]["token_positions"].as_u64().unwrap() > 0);
}

#[test]
fn a_run_its_checkpoints_and_one_checkpoint_are_the_same_model() {
    let run = TrainedRun::new();
    let evaluated = |path: PathBuf| evaluate(&run.plan(&path, 8, 1), &Silent).unwrap();
    let report = evaluated(run.path("run"));
    for path in ["run/checkpoints", "run/checkpoints/step-3"] {
        assert_eq!(total_nll(&evaluated(run.path(path))), total_nll(&report), "of {path}");
    }
}

#[test]
fn of_a_run_that_still_trains_the_newest_whole_checkpoint_is_taken() {
    let run = TrainedRun::new();
    let expected = total_nll(&evaluate(&run.plan(&run.path("run"), 8, 1), &Silent).unwrap());
    // One that is being written, and one that lost a file.
    let (whole, checkpoints) = (run.path("run/checkpoints/step-3"), run.path("run/checkpoints"));
    for (name, files) in [
        (".step-5.partial", &["model.safetensors"][..]),
        ("step-4", &["manifest.json", "config.json", "model.safetensors"]),
    ] {
        fs::create_dir(checkpoints.join(name)).unwrap();
        for file in files {
            fs::copy(whole.join(file), checkpoints.join(name).join(file)).unwrap();
        }
    }
    let report = evaluate(&run.plan(&run.path("run"), 8, 1), &Silent).unwrap();
    assert_eq!(total_nll(&report), expected);
    assert_eq!(measured(&report.results[0]).settings.scoring.checkpoint_step, Some(3));
}

/// While the only checkpoint is read, its run saves the next one and deletes it.
#[test]
fn a_checkpoint_that_is_deleted_while_it_is_read_is_followed_by_the_next() {
    struct Replace {
        old: PathBuf,
        aside: PathBuf,
        new: PathBuf,
    }
    impl corpus::Observer for Replace {
        fn begin(&self, stage: &str, _total: Option<u64>, _unit: corpus::Unit) {
            if stage == "verify checkpoint" && self.aside.exists() {
                fs::rename(&self.aside, &self.new).unwrap();
                fs::remove_dir_all(&self.old).unwrap();
            }
        }
        fn advance(&self, _amount: u64) {}
        fn finish(&self) {}
    }
    let run = TrainedRun::with("seed = 7\n", "\n[checkpoint]\ninterval_steps = 1\nkeep_last = 2\n");
    let checkpoints = run.path("run/checkpoints");
    let expected = total_nll(&evaluate(&run.plan(&run.path("run"), 8, 1), &Silent).unwrap());
    let (old, new, aside) = (checkpoints.join("step-2"), checkpoints.join("step-3"), run.path("3"));
    assert!(old.is_dir(), "two checkpoints");
    fs::rename(&new, &aside).unwrap();
    let observer = Replace { old, aside, new };
    let report = evaluate(&run.plan(&run.path("run"), 8, 1), &observer).unwrap();
    assert_eq!(total_nll(&report), expected);
}

#[test]
fn a_checkpoint_with_another_tokenizer_of_the_same_name_is_refused() {
    let run = TrainedRun::new();
    let manifest = run.path("run/checkpoints/step-3/manifest.json");
    let mut json: serde_json::Value =
        serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    json["tokenizer"]["fingerprint"] = "0".repeat(32).into();
    fs::write(&manifest, serde_json::to_vec(&json).unwrap()).unwrap();
    let error = evaluate(&run.plan(&run.path("run"), 8, 1), &Silent).unwrap_err();
    assert!(matches!(error, EvalError::OtherTokenizer { .. }), "{error}");
}

#[test]
fn a_data_folder_is_called_one_where_a_checkpoint_is_expected() {
    let run = TrainedRun::new();
    let error = evaluate(&run.plan(&run.path("data"), 8, 1), &Silent).unwrap_err().to_string();
    let expected =
        "data: a data folder, no checkpoint; give a run folder, its checkpoints folder or";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_folder_that_is_no_checkpoint_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let test = folder.path().join("test.tokens");
    fs::write(&test, super::made_text()).unwrap();
    let checkpoint = folder.path().join("model");
    fs::create_dir(&checkpoint).unwrap();
    let plan = EvalPlan { checkpoint, tasks: vec![super::task(test)], ..plan(32, 1) };
    let found = evaluate(&plan, &Silent).unwrap_err().to_string();
    assert!(found.contains(&folder.path().display().to_string()), "{found}");
}
