//! Fine-tuned checkpoints: what their training measured, going on where one was stopped, and votes.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use corpus::Silent;
use evaluation::race::Predictions;
use evaluation::{
    EvalError, EvalPlan, EvalReport, Items, Measured, PartialScores, ScoresOnDisk, evaluate,
    evaluate_ensemble_keeping_scores,
};
use tempfile::TempDir;
use training::checkpoint::{Checkpoint, Existing, export};

use super::{items, measured, positive, race_plan};
use crate::evaluation::assert_close;
use crate::evaluation::resume::{Watch, numbers};
use crate::fine_tuning::{BENCH, config, run};
use crate::support::Shared;
use crate::training::logged;

/// Two fine-tuned runs of different seeds.
pub(crate) struct Runs(TempDir);

impl Runs {
    pub(crate) fn shared() -> Arc<Self> {
        static RUNS: Shared<Runs> = Shared::new();
        RUNS.get(|| {
            let runs = Self(tempfile::tempdir().unwrap());
            for (name, seed) in [("one", 7), ("two", 8)] {
                run(&runs.path(name), config(|config| config.seed = seed));
            }
            runs
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn plan(&self, name: &str) -> EvalPlan {
        race_plan(&self.path(name), &BENCH.path("RACE"))
    }
}

#[test]
fn numbers_are_those_of_the_trainings_last_validation() {
    let runs = Runs::shared();
    let report = evaluate(&runs.plan("one"), &Silent).unwrap();
    let found = measured(&report.results[0]);
    let last = |name: &str| *logged(&runs.path("one"), name).last().unwrap();
    assert_eq!(found.metrics.accuracy, last("validation_accuracy"));
    // Rows are padded to the longest of a batch here, and to the window there.
    assert_close(found.metrics.loss, last("validation_loss"), 1e-6);
    assert_eq!((found.counts.questions, found.counts.middle, found.counts.high), (48, 24, 24));
    assert_eq!(found.settings.scoring.checkpoint_step, Some(6));
    assert_eq!((found.settings.split, found.settings.published_split), ("dev", false));
}

#[test]
fn stopped_one_goes_on_to_the_bit_and_other_layouts_take_its_answers() {
    let runs = Runs::shared();
    let whole = evaluate(&runs.plan("one"), &Silent).unwrap();
    let place = tempfile::tempdir().unwrap();
    let partial_scores = PartialScores::Folder(place.path().to_owned());
    let plan = EvalPlan { partial_scores, ..runs.plan("one") };
    let error = evaluate(&plan, &Watch::until(10)).unwrap_err();
    assert!(matches!(error, EvalError::StoppedWithScores { windows: 10, .. }), "{error}");
    let going_on = Watch::default();
    let report = evaluate(&plan, &going_on).unwrap();
    assert_eq!(going_on.counts(), (10, 38));
    assert_eq!(numbers(&report), numbers(&whole));
    assert_eq!(report.results[0].items, whole.results[0].items);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "gone when all is answered");

    evaluate(&plan, &Watch::until(10)).unwrap_err();
    let other = EvalPlan {
        micro_batch_size: positive(5),
        tensor_parallel_size: positive(2),
        data_parallel_size: positive(2),
        ..plan
    };
    let going_on = Watch::default();
    let report = evaluate(&other, &going_on).unwrap();
    assert_eq!(going_on.counts().0, 10);
    let [found, expected] = [&report, &whole].map(|it| measured(&it.results[0]).metrics.loss);
    assert_close(found, expected, 1e-6);
}

#[test]
fn exported_folders_answer_as_the_checkpoint_does() {
    let runs = Runs::shared();
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().join("hf");
    let checkpoint = Checkpoint::open(&runs.path("one")).unwrap();
    export(&checkpoint, &folder, Existing::Refuse, &Silent).unwrap();
    let own = evaluate(&runs.plan("one"), &Silent).unwrap();
    let theirs = evaluate(&race_plan(&folder, &BENCH.path("RACE")), &Silent).unwrap();
    assert_eq!(measured(&theirs.results[0]).metrics, measured(&own.results[0]).metrics);
    assert_eq!(measured(&theirs.results[0]).settings.scoring.checkpoint_step, None);
}

fn vote(plans: &[EvalPlan], observer: &Watch) -> Result<EvalReport, EvalError> {
    let (report, scores) = evaluate_ensemble_keeping_scores(plans, observer)?;
    scores.into_iter().for_each(ScoresOnDisk::forget);
    Ok(report)
}

#[test]
fn several_models_are_told_each_and_together() {
    let runs = Runs::shared();
    let plans = [runs.plan("one"), runs.plan("two")];
    let report = vote(&plans, &Watch::default()).unwrap();
    assert_eq!(report.results.len(), 3);
    let Measured::RaceEnsemble(found) = &report.results[2].measured else { panic!("a vote") };
    for (place, plan) in plans.iter().enumerate() {
        let alone = evaluate(plan, &Silent).unwrap();
        assert_eq!(measured(&report.results[place]), measured(&alone.results[0]));
        let member = &found.metrics.members[place];
        assert_eq!(member.accuracy, measured(&alone.results[0]).metrics.accuracy);
        assert_eq!(member.model, found.settings.models[place]);
    }
    let accuracies: Vec<f64> = found.metrics.members.iter().map(|it| it.accuracy).collect();
    assert_eq!(found.metrics.median_accuracy, accuracies[0].min(accuracies[1]));
    assert_eq!(found.counts, measured(&report.results[0]).counts);
    // By hand, of the items.
    let mut right = 0;
    let members = [items(&report.results[0]), items(&report.results[1])];
    for ((one, two), both) in members[0].iter().zip(members[1]).zip(items(&report.results[2])) {
        let pairs = one.probabilities.into_iter().zip(two.probabilities);
        let mean: Vec<f64> = pairs.map(|(a, b)| (a + b) / 2.0).collect();
        assert_eq!(both.probabilities.to_vec(), mean);
        let largest = mean.iter().copied().fold(0.0, f64::max);
        let first = mean.iter().position(|&share| share == largest).unwrap();
        right += usize::from(['A', 'B', 'C', 'D'][first] == both.answer);
        assert_eq!((&one.id, &both.id), (&two.id, &one.id));
    }
    assert_eq!(found.metrics.accuracy, right as f64 / 48.0);

    let mut lines = Vec::new();
    for result in &report.results {
        result.items.as_ref().map(|items: &Items| items.write_jsonl(&mut lines).unwrap()).unwrap();
    }
    let path = runs.path("items.jsonl");
    fs::write(&path, lines).unwrap();
    let read = Predictions::read(&path).unwrap();
    let ensemble = evaluation::race::Ensemble::of(&read).unwrap();
    assert_eq!(ensemble.accuracy().all().right, right as u64, "from the file as at once");
    let table = report.to_string();
    for part in ["race-ensemble (protocol megatron)", "median_member", "members", "accuracy 0."] {
        assert!(table.contains(part), "{table}");
    }
}

#[test]
fn stopped_vote_goes_on_from_the_answers_of_all_models() {
    let runs = Runs::shared();
    let place = tempfile::tempdir().unwrap();
    let plan = |name: &str| EvalPlan {
        partial_scores: PartialScores::Folder(place.path().to_owned()),
        ..runs.plan(name)
    };
    let plans = [plan("one"), plan("two")];
    let expected = vote(&[runs.plan("one"), runs.plan("two")], &Watch::default()).unwrap();
    let error = vote(&plans, &Watch::until(48 + 10)).unwrap_err();
    assert!(matches!(error, EvalError::StoppedWithScores { windows: 10, .. }), "{error}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "the first one's stay");
    let going_on = Watch::default();
    let report = vote(&plans, &going_on).unwrap();
    assert_eq!(going_on.counts(), (48 + 10, 38));
    assert_eq!(numbers(&report), numbers(&expected));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn vote_that_is_stopped_between_two_models_tells_what_it_goes_on_from() {
    let runs = Runs::shared();
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| place.path().join(format!("{name}.partial"));
    let plan = |name: &str| EvalPlan {
        partial_scores: PartialScores::File { path: file(name), replace: false },
        ..runs.plan(name)
    };
    let plans = [plan("one"), plan("two")];
    let before = vote(&plans, &Watch::until(0)).unwrap_err();
    assert!(matches!(before, EvalError::Stopped), "{before}");
    let error = vote(&plans, &Watch::until(48)).unwrap_err();
    match &error {
        EvalError::StoppedWithScores { path, windows: 48 } => assert_eq!(*path, file("one")),
        other => panic!("{other}"),
    }
    assert!(error.to_string().contains("the same command goes on from there"), "{error}");
    assert!(file("one").is_file() && !file("two").exists());
    let going_on = Watch::default();
    vote(&plans, &going_on).unwrap();
    assert_eq!(going_on.counts(), (48, 48));
}
