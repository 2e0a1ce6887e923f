//! Trainings that a changed call would throw away.

use std::fs;

use super::{LINE, PARTS, all_but, content, kept, micro, reproduced, words, write_sources};
use crate::support::{Dir, pipeline_in, read_json};

/// The command line with both test files.
fn with_test_files() -> String {
    format!("{LINE} --wikitext103 wiki.tokens --lambada lambada.jsonl")
}

/// [`micro`], reproduced with both test files.
fn reproduced_with_test_files() -> Dir {
    let dir = micro();
    pipeline_in(&dir, &with_test_files()).success();
    dir
}

/// Whether something is set aside in `out`.
fn has_aside(dir: &Dir) -> bool {
    let names = fs::read_dir(dir.path("out")).unwrap();
    names.into_iter().any(|it| it.unwrap().file_name().to_string_lossy().starts_with(".aside-"))
}

#[test]
fn a_forgotten_flag_throws_no_training_away() {
    let dir = reproduced_with_test_files();
    let runs = content(&dir.path("out/runs"));
    let run = pipeline_in(&dir, LINE).refused(2, "trainings in out would be thrown away:");
    for part in [
        "train small, finished, ",
        "train large, finished, ",
        "wikitext103: was wiki.tokens, now the demo set",
        "lambada: was lambada.jsonl, now the demo set",
        " of work would be lost.",
        "pass --redo",
    ] {
        assert!(run.stderr.contains(part), "{part:?}: {}", run.stderr);
    }
    assert!(content(&dir.path("out/runs")) == runs);
    assert!(has_aside(&dir), "the corpus that they rest on");
    // Asked again, it is refused again, at once.
    let again = pipeline_in(&dir, LINE).refused(2, "lambada: was lambada.jsonl, now the demo set");
    assert!(!again.stderr.contains("dedup"), "nothing is made again: {}", again.stderr);
    // As before: all is as it was.
    let plan =
        pipeline_in(&dir, &format!("{} --dry-run --json", with_test_files())).success().json();
    assert_eq!(plan["parts"]["corpus"], "done: what was set aside is put back");
    assert_eq!(plan["parts"]["train.large"], "done");
    assert_eq!(plan["parts"]["eval.large.lambada"], "done");
    assert_eq!((&plan["parts"]["page"], &plan["days_at_least"]), (&"done".into(), &0.0.into()));
    let run = pipeline_in(&dir, &with_test_files()).success();
    assert_eq!(kept(&run), PARTS);
    assert!(!has_aside(&dir));
    assert!(content(&dir.path("out/runs")) == runs);
    // And where it is meant, it is done.
    let run = pipeline_in(&dir, &format!("{LINE} --redo")).success();
    assert!(kept(&run).is_empty(), "{}", run.stderr);
    assert!(!has_aside(&dir));
    assert!(content(&dir.path("out/runs")) != runs);
}

#[test]
fn a_refusal_may_be_answered_with_redo_and_the_new_corpus_is_not_made_again() {
    let dir = reproduced_with_test_files();
    pipeline_in(&dir, LINE).refused(2, "pass --redo");
    let run = pipeline_in(&dir, &format!("{LINE} --redo")).success();
    assert_eq!(kept(&run), ["text", "corpus"]);
    assert!(!has_aside(&dir));
    assert_eq!(kept(&pipeline_in(&dir, LINE).success()), PARTS);
}

#[test]
fn a_process_that_dies_while_a_corpus_is_set_aside_loses_nothing() {
    let dir = reproduced_with_test_files();
    pipeline_in(&dir, LINE).refused(2, "pass --redo");
    // Noted as set aside, and not yet renamed; nothing has been begun in its place.
    let path = dir.path("out/reproduce.json");
    let mut journal = read_json(&path);
    journal["parts"].as_array_mut().unwrap().retain(|entry| entry["part"] != "corpus");
    fs::write(&path, journal.to_string()).unwrap();
    fs::remove_dir_all(dir.path("out/data")).unwrap();
    fs::rename(dir.path("out/.aside-data"), dir.path("out/data")).unwrap();
    assert_eq!(kept(&pipeline_in(&dir, &with_test_files()).success()), PARTS);
}

#[test]
fn a_changed_setting_of_a_training_is_refused_before_anything_is_changed() {
    let (dir, _) = reproduced();
    let before = content(&dir.path("out"));
    let line = format!("{LINE} --set train.optimizer.lr=2e-3");
    let run = pipeline_in(&dir, &line).refused(2, "train.optimizer.lr: was 0.001, now 0.002");
    assert!(run.stderr.contains("train small, finished"), "{}", run.stderr);
    assert!(content(&dir.path("out")) == before);
    let plan = pipeline_in(&dir, &format!("{line} --dry-run")).success();
    assert!(plan.stderr.contains("the run would be refused: trainings in out would be"));
    let line = plan.stdout.lines().find(|line| line.starts_with("train.large")).unwrap();
    assert!(line.ends_with("to do again: train.optimizer.lr: was 0.001, now 0.002"), "{line}");
    // One size, and only that.
    let line = format!("{LINE} --set size.1.model.gpt2.num_layers=2");
    let run = pipeline_in(&dir, &line).refused(2, "size.large.model.gpt2.num_layers: was 1, now 2");
    assert!(!run.stderr.contains("train small"), "{}", run.stderr);
}

#[test]
fn a_text_that_has_changed_is_named_and_trainings_on_it_stay() {
    let (dir, _) = reproduced();
    let runs = content(&dir.path("out/runs"));
    dir.write("text/crate-50/README.md", format!("# More\n\n{}\n", words(50, 600)));
    let plan = pipeline_in(&dir, &format!("{LINE} --dry-run --json")).success().json();
    assert_eq!(plan["parts"]["text"], "to do again: text: text has changed");
    assert_eq!(plan["parts"]["train.small"], "to do again if a part before it comes out different");
    pipeline_in(&dir, LINE).refused(2, "text: text has changed");
    assert!(content(&dir.path("out/runs")) == runs);
    fs::remove_dir_all(dir.path("text/crate-50")).unwrap();
    assert_eq!(kept(&pipeline_in(&dir, LINE).success()), PARTS);
}

/// What is not read into documents first is known by its corpus alone.
#[test]
fn a_corpus_that_comes_out_the_same_is_not_trained_on_again() {
    let dir = micro();
    let line = write_sources(&dir);
    pipeline_in(&dir, line).success();
    let path = dir.path("corpus/in.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text).unwrap(); // another time of change, the same text
    let run = pipeline_in(&dir, line).success();
    assert_eq!(kept(&run), all_but(&["text", "corpus", "contamination"]), "{}", run.stderr);
    assert!(!has_aside(&dir));
    // Another line that cannot be read is another count for the page, and no other corpus.
    fs::write(&path, format!("{text}no JSON\n")).unwrap();
    let run = pipeline_in(&dir, line).success();
    assert_eq!(kept(&run)[..2], ["train small", "eval small wikitext103"], "{}", run.stderr);
}

#[test]
fn a_training_that_was_broken_off_is_spared_too() {
    let dir = micro();
    let steps = "--set train.schedule.train_steps=300 --set train.checkpoint.interval_steps=10 \
                 --set train.validation.interval_steps=300";
    let line = format!("{LINE} {steps}");
    let mut first = crate::support::Running::start(&dir, &line);
    first.until("saved out/runs/small/checkpoints/step-");
    first.signal("TERM");
    assert_eq!(first.end().status.code(), Some(75));
    pipeline_in(&dir, &format!("{line} --set train.seed=7")).refused(2, "train small, broken off");
    // One that cannot go on, since what it goes on from is damaged.
    for entry in fs::read_dir(dir.path("out/runs/small/checkpoints")).unwrap() {
        let model = entry.unwrap().path().join("model.safetensors");
        if model.exists() {
            fs::write(model, "broken").unwrap();
        }
    }
    let run = pipeline_in(&dir, &line).refused(2, "train small cannot go on: ");
    assert!(run.stderr.contains("model.safetensors") && !run.stderr.contains("--overwrite"));
    assert!(run.stderr.contains("pass --redo to begin the training again"), "{}", run.stderr);
    let run = pipeline_in(&dir, &format!("{line} --redo")).success();
    assert_eq!(kept(&run), PARTS[..3]);
}

#[test]
fn what_a_training_has_taken_tells_how_long_the_others_take() {
    let (dir, _) = reproduced();
    let line = format!("{LINE} --set size.1.model.gpt2.num_layers=2 --dry-run");
    let plan = pipeline_in(&dir, &format!("{line} --json")).success().json();
    let number = |key: &str| plan[key].as_f64().unwrap();
    let trained = number("trained_flops_per_second");
    assert!(trained > 0.0 && number("matrix_flops_per_second") >= trained, "{plan}");
    let days = number("days_at_least") * number("matrix_flops_per_second") / trained;
    assert!((number("days_as_trained") / days - 1.0).abs() < 1e-9, "{plan}");
    let text = pipeline_in(&dir, &line).success().stdout;
    assert!(text.contains(" GFLOP/s of a training that is done"), "{text}");
    // The corpus is there, so how often it is seen is known.
    assert!(plan["sizes"][1]["epochs"].as_f64().unwrap() > 0.0, "{plan}");
}
