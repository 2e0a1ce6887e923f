//! An evaluation that is stopped or killed goes on from its scores and ends with the same numbers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use corpus::{Observer, Silent, Unit};
use evaluation::lambada::Lambada;
use evaluation::{
    EvalError, EvalPlan, EvalReport, PartialScores, Protocol, Task, evaluate,
    evaluate_keeping_scores,
};
use tempfile::TempDir;

use super::checkpoint::{TrainedRun, total_nll};
use super::{assert_close, made_text, positive, task};
use crate::support::Shared;

/// A trained run, and the report of its evaluation that nothing interrupts.
struct Evaluated {
    run: TrainedRun,
    report: OnceLock<EvalReport>,
}

static RUN: Shared<Evaluated> = Shared::new();

/// Asks to stop once so many windows were scored, and counts what was scored and what was not.
#[derive(Default)]
pub(super) struct Watch {
    stop_after: Option<u64>,
    scored: AtomicU64,
    skipped: AtomicU64,
    is_scoring: std::sync::atomic::AtomicBool,
}

impl Watch {
    pub(super) fn until(windows: u64) -> Self {
        Self { stop_after: Some(windows), ..Self::default() }
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        (self.skipped.load(Ordering::SeqCst), self.scored.load(Ordering::SeqCst))
    }

    fn add(&self, to: &AtomicU64, amount: u64) {
        if self.is_scoring.load(Ordering::SeqCst) {
            to.fetch_add(amount, Ordering::SeqCst);
        }
    }
}

impl Observer for Watch {
    fn begin(&self, _stage: &str, _total: Option<u64>, unit: Unit) {
        // Files are read and samples are made beforehand.
        let is_scoring = matches!(unit, Unit::Windows | Unit::Examples | Unit::Samples);
        self.is_scoring.store(is_scoring, Ordering::SeqCst);
    }

    fn advance(&self, amount: u64) {
        self.add(&self.scored, amount);
    }

    fn skip(&self, amount: u64) {
        self.add(&self.skipped, amount);
    }

    fn finish(&self) {}

    fn stop_requested(&self) -> bool {
        self.stop_after.is_some_and(|windows| self.scored.load(Ordering::SeqCst) >= windows)
    }
}

/// A place for a report, with the scores of an evaluation that has not ended beside it.
struct Place(TempDir, Arc<Evaluated>);

impl Place {
    fn new() -> Self {
        let made = || Evaluated { run: TrainedRun::new(), report: OnceLock::new() };
        Self(tempfile::tempdir().unwrap(), RUN.get(made))
    }

    fn partial(&self) -> PathBuf {
        self.0.path().join("report.json.partial")
    }

    /// The evaluation of the trained run on its text, two windows at a time.
    fn plan(&self) -> EvalPlan {
        let partial_scores = PartialScores::File { path: self.partial(), replace: false };
        let run = &self.1.run;
        EvalPlan { partial_scores, ..run.plan(&run.path("run"), 2, 1) }
    }

    /// Stops the evaluation after `windows` windows, and returns what the file holds then.
    fn stopped_after(&self, windows: u64) -> Vec<u8> {
        let error = evaluate(&self.plan(), &Watch::until(windows)).unwrap_err();
        match &error {
            EvalError::StoppedWithScores { path, windows: kept } => {
                assert_eq!((path, *kept), (&self.partial(), windows));
            }
            other => panic!("{other}"),
        }
        assert!(error.to_string().contains("the same command goes on"), "{error}");
        fs::read(self.partial()).unwrap()
    }

    /// The report without an interruption.
    fn uninterrupted(&self) -> &EvalReport {
        let plan = EvalPlan { partial_scores: PartialScores::Nowhere, ..self.plan() };
        self.1.report.get_or_init(|| evaluate(&plan, &Silent).unwrap())
    }

    #[track_caller]
    fn refused(&self, plan: &EvalPlan, part: &str) -> EvalError {
        let before = fs::read(self.partial()).unwrap();
        let error = evaluate(plan, &Silent).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().contains("report.json.partial"), "{error}");
        assert_eq!(fs::read(self.partial()).unwrap(), before, "a refusal changes nothing");
        error
    }
}

/// The report without the time it took.
pub(super) fn numbers(report: &EvalReport) -> String {
    let mut report = report.clone();
    for result in &mut report.results {
        result.seconds = 0.0;
    }
    serde_json::to_string(&report).unwrap()
}

#[test]
fn a_stopped_evaluation_goes_on_and_ends_with_the_same_bits() {
    let place = Place::new();
    place.stopped_after(4);
    place.stopped_after_more(6, 4);
    let watch = Watch::default();
    let report = evaluate(&place.plan(), &watch).unwrap();
    let windows = super::measured(&report.results[0]).counts.windows_scored as u64;
    assert_eq!(watch.counts(), (10, windows - 10), "no window twice");
    assert_eq!(numbers(&report), numbers(place.uninterrupted()));
    assert!(!place.partial().exists(), "gone when all is scored");
}

impl Place {
    /// Goes on with `kept` windows and stops after `windows` more.
    fn stopped_after_more(&self, windows: u64, kept: u64) {
        let watch = Watch::until(windows);
        let error = evaluate(&self.plan(), &watch).unwrap_err();
        let EvalError::StoppedWithScores { windows: all, .. } = error else { panic!("{error}") };
        assert_eq!((all, watch.counts()), (kept + windows, (kept, windows)));
    }
}

#[test]
fn it_goes_on_with_other_batches_ranks_copies_and_limits() {
    let expected = total_nll(Place::new().uninterrupted());
    for (micro_batch_size, tp, dp) in [(3, 1, 1), (2, 2, 1), (1, 1, 3), (2, 1, 2)] {
        let place = Place::new();
        place.stopped_after(6);
        let plan = EvalPlan {
            micro_batch_size: positive(micro_batch_size),
            tensor_parallel_size: positive(tp),
            data_parallel_size: positive(dp),
            ..place.plan()
        };
        let watch = Watch::default();
        assert_close(total_nll(&evaluate(&plan, &watch).unwrap()), expected, 1e-6);
        assert_eq!(watch.counts().0, 6);
    }
    // A first look that was stopped is part of the whole, and the whole of a first look.
    let place = Place::new();
    let first_look = EvalPlan { limit: Some(positive(8)), ..place.plan() };
    evaluate(&first_look, &Watch::until(4)).unwrap_err();
    let watch = Watch::until(8);
    evaluate(&place.plan(), &watch).unwrap_err();
    let watch = Watch::default();
    let report = evaluate(&first_look, &watch).unwrap();
    assert!(report.results[0].partial);
    assert_eq!(watch.counts().0 + watch.counts().1, 8);
    assert!(watch.counts().0 >= 4, "{:?}", watch.counts());
}

#[test]
fn a_first_look_deletes_no_score_beyond_its_limit() {
    let place = Place::new();
    place.stopped_after(8);
    let first_look = EvalPlan { limit: Some(positive(4)), ..place.plan() };
    for _ in 0..2 {
        let watch = Watch::default();
        let report = evaluate(&first_look, &watch).unwrap();
        assert!(report.results[0].partial);
        assert_eq!(watch.counts().1, 0, "all of it was scored before");
        assert!(place.partial().exists(), "what lies beyond the limit stays");
    }
    let watch = Watch::default();
    let report = evaluate(&place.plan(), &watch).unwrap();
    assert_eq!(watch.counts().0, 8);
    assert_eq!(numbers(&report), numbers(place.uninterrupted()));
    assert!(!place.partial().exists(), "gone when all is scored");
}

#[test]
fn the_time_of_an_evaluation_is_that_of_all_its_processes() {
    let place = Place::new();
    place.stopped_after(6);
    let seconds_of = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["seconds"].as_f64()
    };
    let kept = fs::read_to_string(place.partial()).unwrap();
    let spent: f64 = kept.lines().filter_map(seconds_of).sum();
    assert!(spent > 0.0, "{kept}");
    let report = evaluate(&place.plan(), &Silent).unwrap();
    assert!(report.results[0].seconds > spent, "{} of {spent}", report.results[0].seconds);
}

#[test]
fn a_file_that_was_cut_off_anywhere_is_gone_on_from() {
    let place = Place::new();
    let whole = place.stopped_after(6);
    let expected = numbers(place.uninterrupted());
    let lines: Vec<usize> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    // Nothing, in the first line, at its end, in and at the end of others, and garbage behind.
    let cuts = [0, 1, 20, lines[0], lines[0] + 1, lines[1] - 5, lines[1], lines[2] + 1, lines[3]];
    for cut in cuts {
        fs::write(place.partial(), &whole[..cut]).unwrap();
        let watch = Watch::default();
        assert_eq!(numbers(&evaluate(&place.plan(), &watch).unwrap()), expected, "cut at {cut}");
        let whole_batches = lines.iter().filter(|&&end| end < cut).count().saturating_sub(1);
        assert_eq!(watch.counts().0, 2 * whole_batches as u64, "cut at {cut}");
    }
    let torn = [&whole[..], b"{\"task\":0,\"stage\":\"made\",\"win\0\0\0"].concat();
    fs::write(place.partial(), torn).unwrap();
    assert_eq!(numbers(&evaluate(&place.plan(), &Silent).unwrap()), expected);
}

#[test]
fn a_file_damaged_in_its_middle_is_an_error_with_its_line() {
    let place = Place::new();
    let whole = place.stopped_after(6);
    let second_line = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let first_score =
        second_line + whole[second_line..].windows(3).position(|it| it == b"[[0").unwrap();
    for (at, line) in [(40, 1), (first_score + 40, 2), (whole.len() - 3, 4)] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(place.partial(), damaged).unwrap();
        let error = place.refused(&place.plan(), "delete the file, or pass --overwrite");
        assert!(error.to_string().contains(&format!("partial:{line}: ")), "{error}");
    }
    let path = place.partial();
    let replace =
        EvalPlan { partial_scores: PartialScores::File { path, replace: true }, ..place.plan() };
    let report = evaluate(&replace, &Silent).unwrap();
    assert_eq!(numbers(&report), numbers(place.uninterrupted()));
}

#[test]
fn scores_of_another_evaluation_are_refused_by_what_differs() {
    let place = Place::new();
    place.stopped_after(4);
    let plan = place.plan();
    let other = EvalPlan { overlap: positive(16), ..plan.clone() };
    let error = place.refused(&other, "overlap is 8 there and 16 here");
    assert!(error.to_string().contains("choose another --out, or pass --overwrite"), "{error}");

    let text = place.0.path().join("other.tokens");
    fs::write(&text, made_text().replace("tin", "lead")).unwrap();
    let other = EvalPlan { tasks: vec![task(text)], ..plan.clone() };
    place.refused(&other, "the hash of the test file is ");

    let words = place.0.path().join("words.jsonl");
    fs::write(&words, "{\"text\": \"one two three\"}\n").unwrap();
    let lambada = Task::Lambada(Lambada {
        name: "words".to_owned(),
        data: words,
        protocol: Protocol::Megatron,
    });
    let other = EvalPlan { tasks: vec![lambada], ..plan.clone() };
    place.refused(&other, "the task is made there and words here");

    let run = TrainedRun::with_seed(8);
    let other = EvalPlan { checkpoint: run.path("run"), ..plan.clone() };
    place.refused(&other, "the checkpoint is ");

    // Asked for, it begins anew.
    let path = place.partial();
    let other = EvalPlan {
        overlap: positive(16),
        partial_scores: PartialScores::File { path, replace: true },
        ..plan
    };
    let watch = Watch::default();
    evaluate(&other, &watch).unwrap();
    assert_eq!(watch.counts().0, 0);
}

#[test]
fn two_tasks_of_one_name_keep_their_scores_apart() {
    let place = Place::new();
    let text = place.0.path().join("other.tokens");
    fs::write(&text, made_text().replace("tin", "lead")).unwrap();
    let tasks = vec![task(&text), place.plan().tasks[0].clone()];
    let plan = EvalPlan { tasks, ..place.plan() };
    let expected = numbers(&evaluate(&plan, &Silent).unwrap());
    let windows = super::measured(&place.uninterrupted().results[0]).counts.windows_scored as u64;
    // In the second of the two.
    evaluate(&plan, &Watch::until(windows + 8)).unwrap_err();
    let watch = Watch::default();
    assert_eq!(numbers(&evaluate(&plan, &watch).unwrap()), expected);
    assert!(watch.counts().0 >= windows + 8, "{:?}", watch.counts());
}

/// Passages of which some take a pass of their own for their last token, a stage of its own.
#[test]
fn last_words_go_on_in_either_of_their_stages() {
    let place = Place::new();
    let data = place.0.path().join("words.jsonl");
    let passages = (0..9).map(|number| {
        let space = if number % 3 == 0 { "\n" } else { " " };
        serde_json::json!({ "text": format!("the miners weigh {number} stones of{space}tin") })
    });
    fs::write(&data, passages.map(|passage| format!("{passage}\n")).collect::<String>()).unwrap();
    for (protocol, windows) in [(Protocol::Megatron, 9 + 3), (Protocol::LmEval, 9)] {
        let name = "words".to_owned();
        let tasks = vec![Task::Lambada(Lambada { name, data: data.clone(), protocol })];
        let plan = EvalPlan { tasks, ..place.plan() };
        let expected = evaluate(&plan, &Silent).unwrap();
        for stop_after in [4, windows - 2] {
            evaluate(&plan, &Watch::until(stop_after)).unwrap_err();
            let watch = Watch::default();
            let report = evaluate(&plan, &watch).unwrap();
            let (skipped, scored) = watch.counts();
            assert!(skipped >= stop_after && scored > 0, "{skipped} {scored}");
            assert_eq!(skipped + scored, windows, "no passage twice");
            assert_eq!(numbers(&report), numbers(&expected));
            assert_eq!(report.results[0].items, expected.results[0].items);
        }
    }
}

#[test]
fn a_file_of_something_else_or_in_use_is_left_alone() {
    let place = Place::new();
    let path = place.partial();
    let replace = EvalPlan {
        partial_scores: PartialScores::File { path: path.clone(), replace: true },
        ..place.plan()
    };
    for content in ["a letter", "{\"format\":\"another\"}\n", "\n"] {
        fs::write(&path, content).unwrap();
        place.refused(&place.plan(), "holds no scores of an evaluation");
        place.refused(&replace, "holds no scores of an evaluation");
    }
    fs::remove_file(&path).unwrap();
    place.stopped_after(4);
    let other_process = File::open(&path).unwrap();
    other_process.lock().unwrap();
    place.refused(&place.plan(), "another process is evaluating with this file");
    place.refused(&replace, "another process is evaluating with this file");
    drop(other_process);
    evaluate(&place.plan(), &Silent).unwrap();
}

#[test]
fn without_a_report_the_file_is_named_after_the_evaluation() {
    let place = Place::new();
    let folder = place.0.path().to_owned();
    let names = || -> Vec<String> {
        let entries = fs::read_dir(&folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let plan = EvalPlan { partial_scores: PartialScores::Folder(folder.clone()), ..place.plan() };
    evaluate(&plan, &Watch::until(4)).unwrap_err();
    let first = names();
    let [name] = &first[..] else { panic!("{first:?}") };
    assert!(name.starts_with("eval-made-") && name.ends_with(".partial"), "{name}");
    let other = EvalPlan { overlap: positive(16), ..plan.clone() };
    evaluate(&other, &Watch::until(4)).unwrap_err();
    assert_eq!(names().len(), 2, "each evaluation has its own");
    let watch = Watch::default();
    evaluate(&plan, &watch).unwrap();
    assert_eq!(watch.counts().0, 4);
    assert_eq!(names().len(), 1);
}

#[test]
fn scores_stay_until_the_report_is_safe() {
    let place = Place::new();
    let (report, scores) = evaluate_keeping_scores(&place.plan(), &Silent).unwrap();
    assert_eq!(numbers(&report), numbers(place.uninterrupted()));
    // As if the report could not be written.
    drop(scores);
    assert!(place.partial().exists());
    let watch = Watch::default();
    let (report, scores) = evaluate_keeping_scores(&place.plan(), &watch).unwrap();
    assert_eq!(numbers(&report), numbers(place.uninterrupted()));
    let windows = super::measured(&report.results[0]).counts.windows_scored as u64;
    assert_eq!(watch.counts(), (windows, 0), "nothing is scored again");
    scores.forget();
    assert!(!place.partial().exists());
}

#[test]
fn an_evaluation_without_a_score_leaves_no_file() {
    let place = Place::new();
    let error = evaluate(&place.plan(), &Watch::until(0)).unwrap_err();
    assert!(matches!(error, EvalError::Stopped), "{error}");
    assert!(!place.partial().exists());
    let nowhere = Path::new("no/such/folder/report.json.partial").to_owned();
    let plan = EvalPlan {
        partial_scores: PartialScores::File { path: nowhere, replace: false },
        ..place.plan()
    };
    // No place for scores is no reason not to evaluate.
    assert_eq!(numbers(&evaluate(&plan, &Silent).unwrap()), numbers(place.uninterrupted()));
}
