//! `pipeline eval` on RACE: numbers, items and votes, and what is refused.

use std::fs;

use serde_json::Value;

use crate::evaluation::race::fine_tuned::Runs;
use crate::fine_tuning::{BENCH, article};
use crate::support::{Dir, Run, lines_of, pipeline_in, read_json};

/// `pipeline eval --task race MORE` with the fine-tuned runs at `@one` and `@two`.
fn race(dir: &Dir, runs: &Runs, line: &str) -> Run {
    let paths = [("@one", runs.path("one")), ("@two", runs.path("two"))];
    let line = paths
        .iter()
        .fold(line.to_owned(), |line, (name, path)| line.replace(name, path.to_str().unwrap()));
    let data = BENCH.path("RACE");
    let line = line.replace("@RACE", data.to_str().unwrap());
    pipeline_in(dir, &format!("eval --task race {line}"))
}

#[test]
fn a_fine_tuned_model_is_told_with_every_question_and_a_guess_is_warned_of() {
    let (dir, runs) = (Dir::new(), Runs::shared());
    let line = "--checkpoint @one --data @RACE --split dev --items items.jsonl --out report.json";
    let run = race(&dir, &runs, &format!("{line} --json")).success();
    let result = run.json()["results"][0].clone();
    assert_eq!(read_json(&dir.path("report.json"))["results"][0]["metrics"], result["metrics"]);
    assert_eq!((&result["task"], &result["protocol"]), (&"race".into(), &"megatron".into()));
    assert_eq!(result["counts"]["questions"], 48);
    assert_eq!(result["settings"]["split"], "dev");
    let items = lines_of(&fs::read_to_string(dir.path("items.jsonl")).unwrap());
    let right = items.iter().filter(|item| item["correct"] == true).count();
    assert_eq!(items.len(), 48);
    assert_eq!(result["metrics"]["accuracy"].as_f64().unwrap(), right as f64 / 48.0);
    assert!(run.stderr.contains("not RACE's published split"), "{}", run.stderr);
    // Six steps teach little; what is told depends on the number alone.
    let is_told = run.stderr.contains("not better than chance (0.25) after 6 steps");
    assert_eq!(is_told, result["metrics"]["better_than_chance"] == false, "{}", run.stderr);

    let table = race(&dir, &runs, "--checkpoint @one --data @RACE --split dev --limit 3").success();
    for word in ["PARTIAL", "middle_accuracy", "stderr", "chance", "max_question_tokens", "split"] {
        assert!(table.stdout.contains(word), "{word}: {}", table.stdout);
    }
    assert!(table.stdout.contains("high_accuracy       -"), "{}", table.stdout);
    // Items are written over items alone.
    race(&dir, &runs, "--checkpoint @one --data @RACE --split dev --items items.jsonl --overwrite")
        .success();
    let plan = race(&dir, &runs, "--checkpoint @one --data @RACE --split dev --dry-run --json");
    assert_eq!(plan.success().json()["tasks"][0]["examples"], 48);
}

#[test]
fn several_models_vote() {
    let (dir, runs) = (Dir::new(), Runs::shared());
    let line = "--checkpoint @one --checkpoint @two --data @RACE --split dev";
    let run = race(&dir, &runs, &format!("{line} --json --items items.jsonl")).success();
    let report = run.json();
    let results = report["results"].as_array().unwrap();
    let names: Vec<&Value> = results.iter().map(|result| &result["task"]).collect();
    assert_eq!(names, ["race", "race", "race-ensemble"]);
    let members = results[2]["metrics"]["members"].as_array().unwrap();
    for (member, result) in members.iter().zip(results) {
        assert_eq!(member["accuracy"], result["metrics"]["accuracy"]);
    }
    assert!(results[2]["metrics"]["median_member"].is_string());
    // What is told depends on the number alone; one question is too few for any.
    let told = "the vote of 2 models is not better than chance (0.25)";
    let is_better = &results[2]["metrics"]["better_than_chance"];
    assert_eq!(run.stderr.contains(told), is_better == false, "{}", run.stderr);
    let of_one = race(&dir, &runs, &format!("{line} --limit 1")).success();
    assert!(of_one.stderr.contains(told), "{}", of_one.stderr);
    let items = lines_of(&fs::read_to_string(dir.path("items.jsonl")).unwrap());
    assert_eq!(items.len(), 3 * 48);
    let table = race(&dir, &runs, line).success().stdout;
    assert!(table.contains("race-ensemble (protocol megatron)"), "{table}");
    let plan = race(&dir, &runs, &format!("{line} --dry-run --json")).success().json();
    assert_eq!(plan["models"].as_array().unwrap().len(), 2);
}

#[test]
fn one_model_has_one_vote_under_whatever_names() {
    let (dir, runs) = (Dir::new(), Runs::shared());
    std::os::unix::fs::symlink(runs.path("one"), dir.path("link")).unwrap();
    let folder = runs.path("one").join("checkpoints/step-6").canonicalize().unwrap();
    let first = runs.path("one").display().to_string();
    for again in ["@one/checkpoints", "@one/checkpoints/step-6", "@one/../one", "link"] {
        let name = again.replace("@one", &first);
        let told = format!(
            "--checkpoint {name}: is the model that --checkpoint {first} names, too ({})",
            folder.display()
        );
        for more in ["", " --out report.json", " --dry-run"] {
            let line = "--checkpoint @one --checkpoint @two --data @RACE --split dev";
            let run = race(&dir, &runs, &format!("{line} --checkpoint {again}{more}"));
            let run = run.refused(2, &told);
            assert!(!run.stderr.contains("answering"), "{}", run.stderr);
        }
    }
    let left = fs::read_dir(dir.path("")).unwrap().count();
    assert_eq!(left, 1, "the link alone: nothing was scored");
}

#[test]
fn wrong_folders_lines_and_flags_are_refused() {
    let (dir, runs) = (Dir::new(), Runs::shared());
    for (line, told) in [
        ("--checkpoint @one --data @RACE", "no folder test here (there are dev, train)"),
        ("--checkpoint @one --data nowhere", "nowhere"),
        ("--checkpoint @one --data @RACE --split validation", "train, dev or test is needed"),
        ("--checkpoint @one --data @RACE --overlap 4", "race has no windows"),
        ("--checkpoint @one --data @RACE --protocol lm-eval", "the original's protocol alone"),
        ("--checkpoint @one --checkpoint @one --data @RACE", "is given twice"),
        ("--data @RACE", "name the model to score with --checkpoint"),
    ] {
        race(&dir, &runs, line).refused(2, told);
    }
    let bert = BENCH.path("bert");
    let line = format!("--checkpoint {} --data @RACE --split dev", bert.display());
    race(&dir, &runs, &line).refused(2, "once fine-tuned on RACE");
    let line = format!(
        "eval --task lambada --data in.jsonl --checkpoint {0} --checkpoint {0}-2",
        bert.display()
    );
    pipeline_in(&dir, &line).refused(2, "only for race several models can be given");
    let line =
        format!("eval --task validation --data data --split dev --checkpoint {}", bert.display());
    pipeline_in(&dir, &line).refused(2, "train, validation or test is needed");

    let good = article("dev", 1).to_string();
    for level in ["middle", "high"] {
        dir.write(&format!("bad/dev/{level}/1.txt"), &good);
    }
    for (name, from, to, told) in [
        (
            "2.txt",
            "\"answers\":[\"",
            "\"answers\":[\"Z",
            "2.txt:2: the answer to question 0 is \"Z",
        ),
        (
            "2.txt",
            "\"options\":[[",
            "\"options\":[[\"fifth\",",
            "2.txt:2: question 0 has 5 options",
        ),
    ] {
        let first = good.replace("\"1.txt\"", "\"3.txt\"");
        let bad = good.replace("\"1.txt\"", "\"2.txt\"").replace(from, to);
        dir.write(&format!("bad/dev/high/{name}"), format!("{first}\n{bad}\n"));
        let line = "--checkpoint @one --data bad --split dev";
        race(&dir, &runs, line).refused(2, told);
        race(&dir, &runs, &format!("{line} --dry-run")).refused(2, told);
    }
}
