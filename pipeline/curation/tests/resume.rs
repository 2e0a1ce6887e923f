//! A curation that is stopped goes on from what it has done, and makes the same bytes as one that
//! is not.
#![allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use corpus::{Existing, Observer, Silent, Unit};
use curation::decontaminate::DecontaminationConfig;
use curation::{CurationConfig, CurationError, curate};
use generate::Random;
use workspace::{Workspace, words};

mod generate;
mod workspace;

/// Files that are the same bytes however a run came to its end.
const RESULTS: [&str; 5] =
    ["corpus.bin", "corpus.idx", "removed.jsonl", "provenance.jsonl", "rejects.jsonl"];

/// Counts how often it is asked, and which stages begin; asks to stop at one of the questions.
struct Questions {
    asked: AtomicU64,
    stop_at: u64,
    stages: Mutex<Vec<String>>,
}

impl Questions {
    fn stop_at(stop_at: u64) -> Self {
        Self { asked: AtomicU64::new(0), stop_at, stages: Mutex::default() }
    }
}

impl Observer for Questions {
    fn begin(&self, stage: &str, _total: Option<u64>, _unit: Unit) {
        self.stages.lock().unwrap().push(stage.to_owned());
    }

    fn advance(&self, _amount: u64) {}

    fn finish(&self) {}

    fn stop_requested(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) + 1 >= self.stop_at
    }
}

/// A corpus with something to drop for every stage, in two files, one of them packed.
fn corpus(workspace: &Workspace) -> CurationConfig {
    let mut random = Random::new(7);
    let mut texts: Vec<String> = (0..120).map(|seed| words(seed, 180)).collect();
    for copy in 0..20 {
        texts.insert(3 * copy, texts[100 + copy].clone());
        let mut near: Vec<&str> = texts[90 - copy].split(' ').collect();
        let changed = random.words(1);
        near[5] = &changed[0];
        texts.push(near.join(" "));
    }
    texts.push("too short".to_owned());
    let article = words(500, 60);
    texts.push(format!("{} {article} {}", words(501, 60), words(502, 60)));
    let (first, second) = texts.split_at(70);
    workspace.write("in/a.jsonl", &workspace::jsonl(first));
    workspace.write("in/b.jsonl", &workspace::jsonl(second));
    let test_set = workspace.write("wiki.test.tokens", &format!(" = Title = \n {article} \n"));
    let mut config = workspace.config();
    config.decontamination = Some(DecontaminationConfig::by_article(vec![test_set]));
    config
}

fn results(out: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    RESULTS.iter().map(|&name| (name, fs::read(out.join(name)).unwrap())).collect()
}

#[test]
fn stopped_at_any_question_and_gone_on_with_it_makes_the_same_bytes() {
    let workspace = Workspace::new();
    let plan = corpus(&workspace).validate().unwrap();
    let whole = Questions::stop_at(u64::MAX);
    curate(&plan, &workspace.path("whole"), &whole).unwrap();
    let expected = results(&workspace.path("whole"));
    let questions = whole.asked.into_inner();
    assert!(questions > 50, "{questions} chances to stop");

    let mut resumed = 0;
    // All are tried in a few runs: each is stopped at a question, and the next at one further on.
    for stop_at in (1..=questions).step_by(3) {
        let out = workspace.path(&format!("out-{stop_at}"));
        let stopped = curate(&plan, &out, &Questions::stop_at(stop_at));
        match stopped {
            Err(CurationError::Stopped { stages: Some(folder) }) => {
                assert!(folder.is_dir() && !out.exists());
                resumed += 1;
            }
            Err(CurationError::Stopped { stages: None }) => {
                assert!(!workspace.path(&format!(".out-{stop_at}.stages")).exists());
            }
            // Threads may ask a little more or less often.
            Ok(_) => assert!(stop_at + 20 > questions, "not stopped at {stop_at}"),
            Err(error) => panic!("{error}"),
        }
        curate(&plan, &out, &Silent).unwrap();
        assert_eq!(results(&out), expected, "stopped at question {stop_at}");
        assert!(!workspace.path(&format!(".out-{stop_at}.stages")).exists());
    }
    assert!(resumed > 10, "{resumed} runs had something to go on with");
}

#[test]
fn stopped_over_and_over_it_comes_to_its_end() {
    let workspace = Workspace::new();
    let plan = corpus(&workspace).validate().unwrap();
    curate(&plan, &workspace.path("whole"), &Silent).unwrap();
    let out = workspace.path("out");
    let mut runs = 0;
    for stop_at in (150..).step_by(10) {
        runs += 1;
        match curate(&plan, &out, &Questions::stop_at(stop_at)) {
            Ok(_) => break,
            Err(CurationError::Stopped { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(runs > 1, "it was stopped at least once");
    assert_eq!(results(&out), results(&workspace.path("whole")));
}

/// Stops after the documents were signed, and returns the stage folder.
fn stop_before_the_decisions(workspace: &Workspace, config: &CurationConfig) -> PathBuf {
    let plan = config.clone().validate().unwrap();
    let out = workspace.path("out");
    for stop_at in 1.. {
        let folder = match curate(&plan, &out, &Questions::stop_at(stop_at)) {
            Err(CurationError::Stopped { stages: Some(folder) }) => folder,
            Err(CurationError::Stopped { stages: None }) => continue,
            other => panic!("{other:?}"),
        };
        if folder.join("signatures-00000.arrow").exists() {
            return folder;
        }
        fs::remove_dir_all(folder).unwrap();
    }
    unreachable!("every stage asks")
}

#[test]
fn a_damaged_stage_file_is_made_again_with_all_that_follows() {
    let workspace = Workspace::new();
    let config = corpus(&workspace);
    let plan = config.clone().validate().unwrap();
    curate(&plan, &workspace.path("whole"), &Silent).unwrap();
    for damaged in ["documents-00000.arrow", "copies.arrow", "signatures-00000.arrow"] {
        let folder = stop_before_the_decisions(&workspace, &config);
        let path = folder.join(damaged);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        let out = workspace.path("out");
        curate(&plan, &out, &Silent).unwrap();
        assert_eq!(results(&out), results(&workspace.path("whole")), "{damaged}");
        fs::remove_dir_all(out).unwrap();
    }
}

#[test]
fn a_damaged_shard_is_made_again_and_never_adopted() {
    let workspace = Workspace::new();
    let config = corpus(&workspace);
    let plan = config.validate().unwrap();
    let whole = Questions::stop_at(u64::MAX);
    curate(&plan, &workspace.path("whole"), &whole).unwrap();
    let questions = whole.asked.into_inner();
    let out = workspace.path("out");
    for name in ["corpus.bin", "corpus.idx"] {
        // The last questions are those of the lists, which come when the shard is complete.
        let folder = (1..=questions)
            .rev()
            .find_map(|stop_at| match curate(&plan, &out, &Questions::stop_at(stop_at)) {
                Err(CurationError::Stopped { stages }) => stages,
                _ => {
                    fs::remove_dir_all(&out).unwrap();
                    None
                }
            })
            .unwrap();
        let mut bytes = fs::read(folder.join(name)).unwrap();
        let place = bytes.len() - 9;
        bytes[place] ^= 1;
        fs::write(folder.join(name), bytes).unwrap();
        curate(&plan, &out, &Silent).unwrap();
        assert_eq!(results(&out), results(&workspace.path("whole")), "{name}");
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn stages_that_outlived_their_end_are_removed_by_the_next_run() {
    let workspace = Workspace::new();
    let plan = corpus(&workspace).validate().unwrap();
    let out = workspace.path("out");
    curate(&plan, &out, &Silent).unwrap();
    let stages = workspace.path(".out.stages");
    fs::create_dir(&stages).unwrap();
    fs::copy(out.join("origin.json"), stages.join("origin.json")).unwrap();
    fs::write(stages.join("documents-00000.arrow"), "large").unwrap();
    curate(&plan, &out, &Silent).unwrap();
    assert!(!stages.exists());
}

#[test]
fn test_sets_of_one_name_are_told_apart() {
    let workspace = Workspace::new();
    workspace.write_texts(&[words(1, 200)]);
    for folder in ["one", "two"] {
        fs::create_dir(workspace.path(folder)).unwrap();
        workspace
            .write(&format!("{folder}/test.tokens"), &format!(" = A = \n {} \n", words(9, 60)));
    }
    let mut config = workspace.config();
    let test_sets = ["one/test.tokens", "two/test.tokens"].map(|name| workspace.path(name));
    config.decontamination = Some(DecontaminationConfig::by_article(test_sets.to_vec()));
    let plan = config.validate().unwrap();
    curate(&plan, &workspace.path("out"), &Silent).unwrap();
    workspace.write("one/test.tokens", &format!(" = A = \n {} \n", words(8, 60)));
    let message = curate(&plan, &workspace.path("out"), &Silent).unwrap_err().to_string();
    assert!(message.contains("one/test.tokens"), "{message}");
}

#[test]
fn stages_of_another_config_or_input_are_refused_with_what_changed() {
    let workspace = Workspace::new();
    let written = corpus(&workspace);
    let folder = stop_before_the_decisions(&workspace, &written);
    let out = workspace.path("out");

    let mut config = written.clone();
    config.near_duplicates.as_mut().unwrap().threshold = 0.8;
    let message = curate(&config.validate().unwrap(), &out, &Silent).unwrap_err().to_string();
    assert!(message.contains("near_duplicates.threshold: 0.7 before, 0.8 now"), "{message}");
    assert!(message.contains("--overwrite"), "{message}");
    assert!(folder.exists(), "what was done is still there");

    workspace.write("in/a.jsonl", &workspace::jsonl(&[words(1, 200)]));
    let mut plan = written.validate().unwrap();
    let message = curate(&plan, &out, &Silent).unwrap_err().to_string();
    assert!(message.contains("a.jsonl: ") && message.contains(" bytes before, "), "{message}");

    plan.existing = Existing::Replace;
    curate(&plan, &out, &Silent).unwrap();
    assert!(!folder.exists());
}

#[test]
fn a_folder_that_the_same_run_has_made_is_left_as_it_is_and_another_is_refused() {
    let workspace = Workspace::new();
    let config = corpus(&workspace);
    let plan = config.clone().validate().unwrap();
    let out = workspace.path("out");
    let report = curate(&plan, &out, &Silent).unwrap();
    let made = fs::metadata(out.join("manifest.json")).unwrap().modified().unwrap();

    let again = Questions::stop_at(u64::MAX);
    assert_eq!(curate(&plan, &out, &again).unwrap(), report);
    assert_eq!(fs::metadata(out.join("manifest.json")).unwrap().modified().unwrap(), made);
    assert!(again.stages.into_inner().unwrap().is_empty(), "no stage ran");

    let without_length = CurationConfig { length: None, ..config };
    let message =
        curate(&without_length.validate().unwrap(), &out, &Silent).unwrap_err().to_string();
    assert!(message.contains("length: {\"min_tokens\":128} before, nothing now"), "{message}");
}

#[test]
fn a_run_goes_on_under_another_limit_and_other_threads() {
    let workspace = Workspace::new();
    let config = corpus(&workspace);
    stop_before_the_decisions(&workspace, &config);
    let mut plan = config.validate().unwrap();
    curate(&plan, &workspace.path("whole"), &Silent).unwrap();
    plan.max_memory = Some(curation::LEAST_MEMORY);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let out = workspace.path("out");
    pool.install(|| curate(&plan, &out, &Silent)).unwrap();
    assert_eq!(results(&out), results(&workspace.path("whole")));
}
