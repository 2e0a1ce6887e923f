//! What is done again, and from where.

use std::fs;
use std::path::Path;

use super::{LINE, PARTS, all_but, content, kept, losses, micro, passage, reproduced};
use crate::support::{Running, pipeline_in, read_json, words};

#[test]
fn a_changed_evaluation_is_done_again_and_nothing_else() {
    let (dir, _) = reproduced();
    let before = read_json(&dir.path("out/report.json"));
    let run = pipeline_in(&dir, &format!("{LINE} --set eval.overlap=16")).success();
    let changed = ["eval small wikitext103", "eval large wikitext103", "page"];
    assert_eq!(kept(&run), all_but(&changed), "LAMBADA knows no overlap");
    let after = read_json(&dir.path("out/report.json"));
    assert_eq!(after["sizes"][0]["wikitext103"]["overlap"], 16);
    assert_ne!(
        after["sizes"][0]["wikitext103"]["total_nll"],
        before["sizes"][0]["wikitext103"]["total_nll"]
    );
    assert_eq!(after["sizes"][0]["lambada"], before["sizes"][0]["lambada"]);
    let states: Vec<_> = after["parts"].as_array().unwrap().iter().map(|it| &it["state"]).collect();
    assert_eq!(states, ["kept", "kept", "kept", "kept", "done", "kept", "kept", "done", "kept"]);
}

#[test]
fn what_changes_no_result_does_nothing_again() {
    let (dir, _) = reproduced();
    for more in [
        "--tp 2",
        "--threads 1",
        "--set eval.micro_batch_size=3",
        "--set train.batch.micro_batch_size=1",
        "--set train.checkpoint.keep_last=2",
        "--set limits.max_days=1",
    ] {
        assert_eq!(kept(&pipeline_in(&dir, &format!("{LINE} {more}")).success()), PARTS, "{more}");
    }
}

#[test]
fn a_changed_training_is_done_again_with_its_scores_on_the_same_corpus() {
    let (dir, _) = reproduced();
    let corpus = content(&dir.path("out/data"));
    let run = pipeline_in(&dir, &format!("{LINE} --set train.optimizer.lr=2e-3 --redo")).success();
    assert_eq!(kept(&run), ["text", "corpus", "contamination"]);
    assert!(content(&dir.path("out/data")) == corpus);
    assert_eq!(read_json(&dir.path("out/runs/large/run.json"))["config"]["optimizer"]["lr"], 2e-3);
}

#[test]
fn a_changed_size_is_done_again_alone() {
    let (dir, _) = reproduced();
    let set = "--set size.1.model.gpt2.num_layers=2 --redo";
    let run = pipeline_in(&dir, &format!("{LINE} {set}")).success();
    assert_eq!(kept(&run), all_but(&["train large", "eval large", "page"]));
    assert_eq!(read_json(&dir.path("out/report.json"))["sizes"][1]["model"]["num_layers"], 2);
}

#[test]
fn changed_text_is_read_again_and_touched_text_is_not_trained_on_again() {
    let (dir, _) = reproduced();
    let path = dir.path("text/crate-00/README.md");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text).unwrap(); // another time of change, the same text
    let run = pipeline_in(&dir, LINE).success();
    assert_eq!(kept(&run), all_but(&["text"]));
    // All of it, for a document more may be one that is not trained on: then scores stay too.
    for seed in 0..24 {
        let text = format!("# More\n\n{}\n\n{}\n", words(seed + 50, 600), passage(seed + 50));
        dir.write(&format!("text/crate-{seed:02}/README.md"), text);
    }
    let run = pipeline_in(&dir, &format!("{LINE} --redo")).success();
    assert!(kept(&run).is_empty(), "{}", run.stderr);
}

#[test]
fn an_output_that_is_gone_is_made_again_and_is_the_same() {
    let (dir, _) = reproduced();
    let scores = content(&dir.path("out/eval"));
    let before = losses(&dir, "out/runs/large");
    for (gone, part) in [
        ("out/eval/small.lambada.json", "eval small lambada"),
        ("out/contamination.json", "contamination"),
        ("out/table3.html", "page"),
        ("out/data", "corpus"),
        ("out/runs/large/checkpoints", "train large"),
    ] {
        let path = dir.path(gone);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap()
        } else {
            fs::remove_file(&path).unwrap()
        }
        let run = pipeline_in(&dir, LINE).success();
        assert_eq!(kept(&run), all_but(&[part]), "{gone}");
        assert!(path.exists(), "{gone}");
    }
    assert_eq!(losses(&dir, "out/runs/large"), before);
    assert_eq!(scores.len(), content(&dir.path("out/eval")).len());
}

#[test]
fn a_training_that_a_signal_stops_goes_on_and_comes_to_the_same_end() {
    let steps = "--set train.schedule.train_steps=600 --set train.validation.interval_steps=300";
    let dir = micro();
    let line = format!("{LINE} {steps}");
    let mut first = Running::start(&dir, &line);
    first.until("7/10 train large: ");
    first.until("training: 600 steps");
    // The lock is held, and no other process may work there.
    pipeline_in(&dir, &line).refused(2, "another process is reproducing into out");
    first.signal("TERM");
    let stopped = first.end();
    assert_eq!(stopped.status.code(), Some(75), "{}", stopped.stderr);
    assert!(
        stopped.stderr.contains("stopped by a signal in the part train large: 6 of 10 parts"),
        "{}",
        stopped.stderr
    );
    assert!(stopped.stdout.is_empty() && !dir.path("out/report.json").exists());
    let journal = read_json(&dir.path("out/reproduce.json"));
    let entry = &journal["parts"][6];
    assert_eq!((&entry["part"], &entry["state"]), (&"train.large".into(), &"begun".into()));
    let spent = entry["seconds"].as_f64().unwrap();
    let plan = pipeline_in(&dir, &format!("{line} --dry-run --json")).success().json();
    assert_eq!(plan["parts"]["eval.small.lambada"], "done");
    assert_eq!(plan["parts"]["train.large"], "broken off: goes on");
    assert_eq!(plan["parts"]["eval.large.lambada"], "to do");

    let second = pipeline_in(&dir, &line).success();
    assert_eq!(kept(&second), PARTS[..6]);
    assert!(
        second.stderr.contains("train large: goes on where it was broken off"),
        "{}",
        second.stderr
    );
    let journal = read_json(&dir.path("out/reproduce.json"));
    assert!(journal["parts"][6]["seconds"].as_f64().unwrap() > spent, "all calls together");

    let whole = format!("reproduce --config micro.toml --text text --out whole {steps}");
    pipeline_in(&dir, &whole).success();
    let [one, other] = ["out", "whole"].map(|out| losses(&dir, &format!("{out}/runs/large")));
    assert_eq!(one.len(), 600);
    assert_eq!(one, other);
    let [one, other] = ["out", "whole"].map(|out| {
        let report = read_json(&dir.path(&format!("{out}/report.json")));
        (
            report["sizes"][1]["wikitext103"]["total_nll"].clone(),
            report["sizes"][1]["lambada"]["target_perplexity"].clone(),
        )
    });
    assert_eq!(one, other);
}

#[test]
fn a_process_that_is_killed_leaves_what_the_next_goes_on_from() {
    let dir = micro();
    let steps = "--set train.schedule.train_steps=300 --set train.checkpoint.interval_steps=10";
    let line = format!("{LINE} {steps} --set train.validation.interval_steps=300");
    let mut first = Running::start(&dir, &line);
    first.until("saved out/runs/small/checkpoints/step-");
    first.signal("KILL");
    assert_eq!(first.end().status.code(), None);
    let second = pipeline_in(&dir, &line).success();
    assert_eq!(kept(&second), PARTS[..3]);
    assert!(second.stderr.contains("resuming from out/runs/small"), "{}", second.stderr);
    assert_eq!(losses(&dir, "out/runs/small").len(), 300);
}

#[test]
fn a_score_that_a_signal_stops_goes_on_from_what_is_scored() {
    let dir = micro();
    let text = words(901, 3_000).replace('\n', " ");
    dir.write("long.tokens", format!(" \n = Title = \n \n {text} \n"));
    let line = format!("{LINE} --wikitext103 long.tokens --set eval.overlap=1");
    let mut first = Running::start(&dir, &line);
    first.until("wikitext103: ");
    let scores = dir.path("out/eval/small.wikitext103.partial");
    first.while_not(|| fs::metadata(&scores).is_ok_and(|file| file.len() > 1_000));
    first.signal("INT");
    let stopped = first.end();
    assert_eq!(stopped.status.code(), Some(75), "{}", stopped.stderr);
    let second = pipeline_in(&dir, &line).success();
    assert_eq!(kept(&second), PARTS[..4]);
    assert!(second.stderr.contains("are scored already; going on from there"), "{}", second.stderr);
    assert!(!dir.path("out/eval/small.wikitext103.partial").exists());
}

#[test]
fn a_folder_with_anything_else_in_it_is_refused_and_left_as_it_is() {
    let dir = micro();
    dir.write("mine/notes.txt", "mine");
    let line = "reproduce --config micro.toml --text text --out mine";
    for more in ["", "--overwrite"] {
        pipeline_in(&dir, &format!("{line} {more}"))
            .refused(2, "mine holds something else than a reproduction");
    }
    assert_eq!(content(&dir.path("mine")).len(), 1);
    // Another experiment's folder, until it is told to be overwritten, with what is not its own.
    pipeline_in(&dir, LINE).success();
    dir.write("out/notes.txt", "mine");
    fs::copy(dir.path("micro.toml"), dir.path("other.toml")).unwrap();
    let line = "reproduce --config other.toml --text text --out out";
    pipeline_in(&dir, line).refused(2, "out holds the reproduction micro, not other");
    let run = pipeline_in(&dir, &format!("{line} --overwrite")).success();
    assert!(kept(&run).is_empty());
    assert_eq!(fs::read_to_string(dir.path("out/notes.txt")).unwrap(), "mine");
    // Text in the folder that is written to.
    fs::rename(dir.path("text"), dir.path("out/own")).unwrap();
    let line = "reproduce --config other.toml --text out/own --out out";
    pipeline_in(&dir, line).refused(2, "lies in the folder that --out names");
    assert!(dir.path("out/own/crate-00").exists());
}

/// Whether a process has the file `name` open, where the system tells.
fn has_open(pid: u32, name: &Path) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.into_iter().any(|link| link == name)
}

#[test]
fn a_signal_while_the_inputs_are_read_is_told_as_one() {
    if !Path::new("/proc/self/fd").exists() {
        println!("skipped: no /proc");
        return;
    }
    let dir = micro();
    // A hole, which takes seconds to read and no room.
    let file = dir.write("large.jsonl", "");
    let file = file.canonicalize().unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_len(1 << 36).unwrap();
    for more in ["", " --dry-run"] {
        let line = format!("{LINE} --lambada large.jsonl{more}");
        let mut first = Running::start(&dir, &line);
        let pid = first.child.id();
        first.while_not(|| has_open(pid, &file));
        first.signal("TERM");
        let stopped = first.end();
        assert_eq!(stopped.status.code(), Some(75), "{}", stopped.stderr);
        let message = "stopped by a signal before a part was begun";
        assert!(stopped.stderr.contains(message), "{}", stopped.stderr);
        assert!(!stopped.stderr.contains("cannot read"), "{}", stopped.stderr);
        assert!(!dir.path("out").exists());
    }
}
