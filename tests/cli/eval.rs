//! `pipeline eval`: the report on standard output and in a file.

use std::fs;

use serde_json::Value;

use super::signals::names;
use super::{tiny_corpus, tiny_run};
use crate::support::{Dir, Run, lines_of, pipeline_in, program, read_json};

fn eval(dir: &Dir, more: &str) -> Run {
    let task = "--task wikitext103 --data test.tokens --set overlap=4";
    pipeline_in(dir, &format!("eval --checkpoint run {task} {more}"))
}

#[test]
fn the_result_is_the_same_on_more_ranks_and_prints_every_setting() {
    let dir = tiny_run();
    let before = names(&dir);
    let nll = |result: &Value| result["results"][0]["metrics"]["total_nll"].as_f64().unwrap();
    let alone = nll(&eval(&dir, "--json").success().json());
    let at_two = nll(&eval(&dir, "--tp 2 --json").success().json());
    // Two ranks add the same numbers in another order, in f32.
    assert!((alone / at_two - 1.0).abs() < 1e-6, "{alone} {at_two}");
    for more in ["--dp 2", "--dp 3 --threads 1", "--threads 2", "--threads 5"] {
        let found = nll(&eval(&dir, &format!("{more} --json")).success().json());
        assert_eq!(found, alone, "{more}");
    }
    let many = nll(&eval(&dir, "--tp 2 --dp 2 --set micro_batch_size=3 --json").success().json());
    assert!((alone / many - 1.0).abs() < 1e-6, "{alone} {many}");
    let table = eval(&dir, "").success().stdout;
    for word in ["word_perplexity", "overlap", "detokenizer", "token_ratio", "data_parallel_size"] {
        assert!(table.contains(word), "{table}");
    }
    assert_eq!(names(&dir), before, "no scores are left");
}

#[test]
fn a_report_is_written_whole_and_never_over_another_unasked() {
    let dir = tiny_run();
    let printed = eval(&dir, "--out report.json --json").success().json();
    assert_eq!(read_json(&dir.path("report.json")), printed);

    let before = fs::read(dir.path("report.json")).unwrap();
    eval(&dir, "--out report.json").refused(2, "report.json exists already");
    assert_eq!(fs::read(dir.path("report.json")).unwrap(), before);
    eval(&dir, "--out report.json --overwrite --limit 1").success();
    assert_eq!(read_json(&dir.path("report.json"))["results"][0]["partial"], true);

    // An evaluation that fails leaves neither a report nor a part of one.
    let before = names(&dir);
    eval(&dir, "--out other.json --overlap 100").refused(2, "overlap");
    assert_eq!(names(&dir), before);
}

#[test]
fn a_report_that_cannot_be_printed_is_written_all_the_same() {
    let full = "/dev/full";
    if !std::path::Path::new(full).exists() {
        eprintln!("skipped: this system has no {full}");
        return;
    }
    let dir = tiny_run();
    let line = "eval --checkpoint run --task wikitext103 --data test.tokens --set overlap=4 \
                --out report.json";
    let mut command = program();
    command.current_dir(dir.path("")).args(line.split_whitespace());
    let output = command.stdout(fs::File::create(full).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("cannot write to standard output"), "{told}");
    let report = read_json(&dir.path("report.json"));
    assert!(report["results"][0]["metrics"]["word_perplexity"].is_number());
}

#[test]
fn places_where_no_report_can_be_written_are_refused_before_the_work() {
    let dir = tiny_run();
    for (more, message) in [
        ("--out run", "run is a folder: name a file in it"),
        ("--out nowhere/report.json", "No such file or directory"),
        ("--out test.tokens/report.json", "Not a directory"),
        ("--overwrite", "--out <FILE>"),
        ("--overlap 0", "a whole number of at least 1 is needed"),
        ("--set overlap=0", "--set overlap=0: invalid value"),
    ] {
        eval(&dir, more).refused(2, message);
    }
    pipeline_in(&dir, "eval --checkpoint nowhere --task wikitext103 --data test.tokens")
        .refused(2, "nowhere: no checkpoint here");
    pipeline_in(&dir, "eval --checkpoint run --task wikitext103 --data nowhere --overlap 4")
        .refused(2, "cannot read test file nowhere");
}

#[test]
fn a_dry_run_tells_what_would_be_scored_and_writes_nothing() {
    let dir = tiny_run();
    let plan = eval(&dir, "--tp 2 --out report.json --dry-run --json").success().json();
    assert_eq!(plan["step"], 3);
    assert_eq!(plan["config"]["overlap"], 4);
    assert_eq!(plan["config_sources"]["overlap"], "--set");
    assert_eq!(plan["config_sources"]["tensor_parallel_size"], "--tp");
    assert_eq!(plan["data_parallel_size"], 1);
    assert!(plan["floating_point_operations"].as_f64().unwrap() > 1e6, "{plan}");
    assert_eq!(plan["config_sources"]["micro_batch_size"], "default");
    let scored = eval(&dir, "--json").success().json();
    assert_eq!(plan["tasks"][0]["targets"], scored["results"][0]["counts"]["targets"]);
    let table = eval(&dir, "--dry-run").success().stdout;
    assert!(table.contains("overlap = 4") && table.contains("targets"), "{table}");
    assert!(!dir.path("report.json").exists());
}

/// The program on the last words of `lines`.
fn lambada(dir: &Dir, lines: &str, more: &str) -> Run {
    dir.write("words.jsonl", lines);
    pipeline_in(dir, &format!("eval --checkpoint run --task lambada --data words.jsonl {more}"))
}

const PASSAGES: &str = "{\"text\": \"a stone fell on another stone\"}\n{\"text\": \"one\\ntwo\"}\n";

#[test]
fn both_accuracies_of_the_last_words_are_printed_by_name() {
    let dir = tiny_run();
    let result = lambada(&dir, PASSAGES, "--json").success().json();
    let result = &result["results"][0];
    assert_eq!(result["task"], "lambada");
    for metric in ["strict_accuracy", "strict_stderr", "last_token_accuracy", "target_perplexity"] {
        assert!(result["metrics"][metric].is_number(), "{metric}: {result}");
    }
    assert_eq!(result["counts"]["examples"], 2);
    let table = lambada(&dir, PASSAGES, "").success().stdout;
    for word in ["strict_accuracy", "last_token_accuracy", "target_perplexity", "examples_cut"] {
        assert!(table.contains(word), "{table}");
    }
}

#[test]
fn a_line_without_a_last_word_to_guess_is_refused_with_its_number() {
    let dir = tiny_run();
    for (bad, message) in [
        ("{\"words\": \"a b\"}", "words.jsonl:3: no key \"text\" (keys present: words)"),
        ("{\"text\": \"word\"}", "words.jsonl:3: the text is one word"),
        ("not JSON", "words.jsonl:3: no JSON"),
    ] {
        lambada(&dir, &format!("{PASSAGES}{bad}\n"), "").refused(2, message);
        lambada(&dir, &format!("{PASSAGES}{bad}\n"), "--dry-run").refused(2, message);
    }
    lambada(&dir, "", "").refused(2, "words.jsonl is empty");
}

#[test]
fn a_dry_run_names_the_checkpoint_and_marks_what_a_limit_leaves_out() {
    let dir = tiny_run();
    let plan = lambada(&dir, PASSAGES, "--dry-run --json").success().json();
    assert_eq!(plan["tasks"][0]["task"], "lambada");
    assert_eq!(plan["tasks"][0]["examples"], 2);
    let plan = eval(&dir, "--dry-run --json --limit 2").success().json();
    assert_eq!(plan["tasks"][0]["windows"], 2);
    assert_eq!(plan["tasks"][0]["partial"], true);
}

#[test]
fn a_dry_run_refuses_the_report_that_the_run_would_refuse() {
    let dir = tiny_run();
    dir.write("report.json", "{}");
    for dry_run in ["", "--dry-run"] {
        eval(&dir, &format!("--out report.json {dry_run}"))
            .refused(2, "report.json exists already");
    }
    assert_eq!(fs::read_to_string(dir.path("report.json")).unwrap(), "{}");
}

#[test]
fn windows_are_no_setting_of_the_last_words() {
    lambada(&tiny_run(), PASSAGES, "--overlap 4").refused(2, "lambada has no windows");
}

#[test]
fn the_loss_on_held_out_documents_is_the_runs_own() {
    let dir = tiny_corpus();
    let train = "train --config train.toml --data data --out run --set validation.batches=1000";
    pipeline_in(&dir, train).success();
    let validation = "eval --checkpoint run --task validation --data data";
    let log = fs::read_to_string(dir.path("run/metrics.jsonl")).unwrap();
    let losses: Vec<f64> =
        lines_of(&log).iter().filter_map(|line| line["validation_loss"].as_f64()).collect();
    let result = pipeline_in(&dir, &format!("{validation} --json")).success().json();
    let result = &result["results"][0];
    let loss = result["metrics"]["loss"].as_f64().unwrap();
    assert!((loss / losses.last().unwrap() - 1.0).abs() < 1e-6, "{loss} {losses:?}");
    assert_eq!(result["settings"]["split"], "validation");
    assert_eq!(result["counts"]["documents"], 1);

    let train = pipeline_in(&dir, &format!("{validation} --split train --limit 2 --json"));
    let train = train.success().json();
    assert_eq!(train["results"][0]["settings"]["split"], "train");
    assert_eq!(train["results"][0]["partial"], true);
    let table = pipeline_in(&dir, validation).success().stdout;
    assert!(table.contains("validation (protocol training)"), "{table}");
    for (more, message) in [
        ("--split test", "the test part has 0 of 6 documents"),
        ("--split held-out", "train, validation or test is needed"),
        ("--overlap 4", "the sequences of validation do not overlap"),
        ("--set split_weights=1,2,3,4", "at most 3 are possible"),
    ] {
        pipeline_in(&dir, &format!("{validation} {more}")).refused(2, message);
    }
    pipeline_in(&dir, "eval --checkpoint run --task lambada --data in.jsonl --split test")
        .refused(2, "only validation has a data folder that is divided");
}

#[test]
fn a_model_that_was_exported_is_evaluated_as_the_checkpoint_is() {
    let dir = tiny_run();
    pipeline_in(&dir, "checkpoint export --hf hf run").success();
    let of = |checkpoint: &str| {
        let line = format!("eval --checkpoint {checkpoint} --task wikitext103 --data test.tokens");
        pipeline_in(&dir, &format!("{line} --overlap 4 --json")).success()
    };
    let (run, exported) = (of("run"), of("hf"));
    let result = &exported.json()["results"][0];
    assert_eq!(result["metrics"], run.json()["results"][0]["metrics"]);
    assert_eq!(result["settings"]["checkpoint_kind"], "hugging_face");
    assert_eq!(result["settings"]["checkpoint_step"], Value::Null);
    assert!(exported.stderr.contains("hf: its tokenizer is GPT-2's"), "{}", exported.stderr);
    assert_eq!(run.json()["results"][0]["settings"]["checkpoint_kind"], "trained");

    for name in ["tokenizer.json", "vocab.json", "merges.txt"] {
        fs::remove_file(dir.path("hf").join(name)).unwrap();
    }
    let without = of("hf");
    assert!(without.stderr.contains("no tokenizer there; taking GPT-2's"), "{}", without.stderr);
    assert_eq!(without.json()["results"][0]["metrics"], result["metrics"]);
}

#[test]
fn only_a_report_is_overwritten_by_a_report() {
    let dir = tiny_run();
    let weights = "run/checkpoints/step-3/model.safetensors";
    let before = [fs::read(dir.path("test.tokens")).unwrap(), fs::read(dir.path(weights)).unwrap()];
    for victim in ["test.tokens", weights, "/dev/null"] {
        eval(&dir, &format!("--out {victim} --overwrite")).refused(2, "is no report");
    }
    let after = [fs::read(dir.path("test.tokens")).unwrap(), fs::read(dir.path(weights)).unwrap()];
    assert!(before == after);
    eval(&dir, "--out report.json").success();
    eval(&dir, "--out report.json --overwrite --limit 1").success();
    assert_eq!(read_json(&dir.path("report.json"))["results"][0]["partial"], true);
}

const RAW: &str =
    " \n = Title = \n \n a well @-@ known stone , it 's here . \n \n = = Part = = \n \n b . \n";

/// The program on the pages of a raw split.
fn lm_eval(dir: &Dir, more: &str) -> Run {
    dir.write("wiki.test.raw", RAW);
    let task = "--task wikitext103 --data wiki.test.raw --protocol lm-eval";
    pipeline_in(dir, &format!("eval --checkpoint run {task} {more}"))
}

#[test]
fn the_harness_numbers_are_given_by_its_names_with_what_they_compare_with() {
    let dir = tiny_run();
    let result = lm_eval(&dir, "--json").success().json()["results"][0].clone();
    assert_eq!((&result["task"], &result["protocol"]), (&"wikitext103".into(), &"lm-eval".into()));
    for metric in ["word_perplexity", "byte_perplexity", "bits_per_byte"] {
        assert!(result["metrics"][metric].is_number(), "{metric}: {result}");
    }
    let run = lm_eval(&dir, "").success();
    for word in ["protocol lm-eval", "comparable_with", "task wikitext", "byte_perplexity"] {
        assert!(run.stdout.contains(word), "{word}: {}", run.stdout);
    }
    assert!(!run.stderr.contains("WARN"), "{}", run.stderr);
    let plan = lm_eval(&dir, "--dry-run --json").success().json();
    assert_eq!(plan["tasks"][0]["targets"], result["counts"]["targets"]);
    lm_eval(&dir, "--overlap 4").refused(2, "windows of --protocol lm-eval are disjoint");

    let result = lambada(&dir, PASSAGES, "--protocol lm-eval --json").success().json();
    for metric in ["acc", "acc_stderr", "perplexity"] {
        assert!(result["results"][0]["metrics"][metric].is_number(), "{metric}: {result}");
    }
}

#[test]
fn a_text_in_the_other_protocols_form_is_told() {
    let dir = tiny_run();
    let on = |text: &str, protocol: &str| {
        dir.write("text", text);
        let task = format!("--task wikitext103 --data text --protocol {protocol}");
        pipeline_in(&dir, &format!("eval --checkpoint run {task} --set overlap=4")).success().stderr
    };
    let tokens = RAW.replace("stone", "<unk>");
    for (text, protocol, told) in [
        (
            RAW,
            "megatron",
            "the text has no <unk>, so it may be the raw split, which --protocol lm-eval",
        ),
        ("plain text, as people write it", "megatron", "the text has no \" @-@ \""),
        (&tokens, "lm-eval", "the text has <unk>, so it may be wiki.test.tokens"),
        ("plain text, as people write it", "lm-eval", "the text has no \" @-@ \""),
        ("a @-@ b\t<unk>\nc\td\ne\tf\tg\th", "megatron", "words are not between spaces"),
    ] {
        let stderr = on(text, protocol);
        assert!(stderr.contains(told) && stderr.contains("WARN"), "{told}: {stderr}");
        assert!(stderr.contains(&format!("the {protocol} protocol is for")), "{stderr}");
    }
    assert!(!on(&tokens, "megatron").contains("protocol is for"));
}

#[test]
fn a_model_that_knows_less_than_none_is_told() {
    let dir = tiny_run();
    let line = "train --config train.toml --data data --out bad --set optimizer.lr=0.5 \
                --set optimizer.min_lr=0.1 --set schedule.train_steps=4";
    pipeline_in(&dir, line).success();
    let told = "token perplexity exceeds its vocabulary";
    let run = "eval --checkpoint bad --task";
    for task in [
        "wikitext103 --data test.tokens --set overlap=4",
        "lambada --data words.jsonl",
        "validation --data data",
    ] {
        dir.write("words.jsonl", PASSAGES);
        let stderr = pipeline_in(&dir, &format!("{run} {task}")).success().stderr;
        assert!(stderr.contains(told), "{task}: {stderr}");
    }
    assert!(!eval(&dir, "").success().stderr.contains(told));
}

#[test]
fn items_are_written_whole_a_line_each_and_never_over_anything_else() {
    let dir = tiny_run();
    lambada(&dir, PASSAGES, "--items items.jsonl").success();
    let items = lines_of(&fs::read_to_string(dir.path("items.jsonl")).unwrap());
    assert_eq!(items.len(), 2);
    assert_eq!((&items[0]["line"], &items[0]["target"]), (&1.into(), &" stone".into()));
    assert_eq!(items[0]["context_tail"], "a stone fell on another");
    for key in ["target_tokens", "predicted_tokens"] {
        assert!(items[0][key].is_array(), "{items:?}");
    }
    assert!(items[0]["strict"].is_boolean() && items[0]["last_token"].is_boolean(), "{items:?}");

    // An article, or a page, a line.
    eval(&dir, "--items articles.jsonl").success();
    let articles = lines_of(&fs::read_to_string(dir.path("articles.jsonl")).unwrap());
    assert_eq!((articles.len(), &articles[0]["title"]), (1, &"Title".into()));
    lm_eval(&dir, "--items articles.jsonl").refused(2, "articles.jsonl exists already");
    lm_eval(&dir, "--items articles.jsonl --overwrite").success();
    let pages = lines_of(&fs::read_to_string(dir.path("articles.jsonl")).unwrap());
    assert_eq!((pages.len(), &pages[0]["title"]), (1, &"= Title =".into()));

    let before = fs::read(dir.path("test.tokens")).unwrap();
    for dry_run in ["", "--dry-run"] {
        eval(&dir, &format!("--items test.tokens --overwrite {dry_run}"))
            .refused(2, "test.tokens holds no items of an evaluation");
    }
    assert_eq!(fs::read(dir.path("test.tokens")).unwrap(), before);
    eval(&dir, "--items one --out one").refused(2, "report and items cannot be one file");
    pipeline_in(&dir, "eval --checkpoint run --task validation --data data --items none.jsonl")
        .refused(2, "--items: validation packs documents");
    pipeline_in(&dir, "eval --checkpoint run --task validation --data data --protocol lm-eval")
        .refused(2, "--protocol lm-eval: the harness has no such task");
    // What fails leaves nothing.
    lambada(&dir, "{\"text\": \"word\"}", "--items none.jsonl").refused(2, "the text is one word");
    let names: Vec<_> =
        fs::read_dir(dir.path("")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("none.jsonl")), "{names:?}");
}

#[test]
fn bytes_that_other_systems_put_into_a_text_are_refused_with_their_line() {
    let dir = tiny_run();
    for (bytes, message) in [
        ("\u{feff} \n = A = \n", "test.tokens:1: the line begins with a byte order mark"),
        (" \n = A = \r\n b", "test.tokens:2: the line ends in a carriage return"),
        ("", "test.tokens is empty; give one with text"),
        ("word\n", "has 1 word and 2 tokens"),
    ] {
        dir.write("test.tokens", bytes);
        eval(&dir, "").refused(2, message);
    }
    for (lines, message) in [
        ("", "words.jsonl is empty"),
        ("{\"text\": null}\n", "words.jsonl:1: the text is null"),
        ("{\"text\": \"a b\"}\r\n\r\n{\"text\": \"word\"}\r\n", "words.jsonl:"),
    ] {
        lambada(&dir, lines, "").refused(2, message);
    }
    // Lines of JSON may end as they like, and a mark before them is none of theirs.
    let lines = PASSAGES.replace('\n', "\r\n");
    let run = lambada(&dir, &lines, "--json").success();
    assert_eq!(run.json()["results"][0]["counts"]["examples"], 2);
    lambada(&dir, &format!("\u{feff}{PASSAGES}"), "").success();
    // Whatever it is called, an empty file is an empty file.
    dir.write("words", "");
    pipeline_in(&dir, "eval --checkpoint run --task lambada --data words")
        .refused(2, "words is empty");
}

#[test]
fn an_overlap_that_the_model_has_not_is_refused_before_its_weights_are_read() {
    let dir = tiny_run();
    // Weights that would be refused, were they looked at.
    let weights = dir.path("run/checkpoints/step-3/model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&weights, bytes).unwrap();
    for dry_run in ["", "--dry-run"] {
        let message = "overlap = 17 exceeds the model's seq_length; allowed: 1 to 16";
        eval(&dir, &format!("--overlap 17 {dry_run}")).refused(2, message);
        eval(&dir, &format!("--overlap 16 {dry_run}")).refused(2, "model.safetensors");
    }
}

#[test]
fn more_copies_than_there_is_room_for_are_refused_before_weights_are_read() {
    let dir = tiny_run();
    let weights = dir.path("run/checkpoints/step-3/model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&weights, bytes).unwrap();
    for dry_run in ["", "--dry-run"] {
        eval(&dir, &format!("--dp 1000000000 {dry_run}")).refused(2, "allowed: --dp 1 to ");
        // Nor does it take a look at the weights to see that there is nothing to score.
        let line = |data: &str| {
            format!("eval --checkpoint run --task wikitext103 --data {data} --overlap 4 {dry_run}")
        };
        pipeline_in(&dir, &line("nowhere")).refused(2, "cannot read test file nowhere");
        dir.write("empty.tokens", "");
        pipeline_in(&dir, &line("empty.tokens")).refused(2, "test file empty.tokens is empty");
        pipeline_in(&dir, &line("test.tokens")).refused(2, "model.safetensors");
    }
}

#[test]
fn items_are_never_written_where_scores_are_kept() {
    let dir = tiny_run();
    eval(&dir, "--out report.json --items report.json.partial")
        .refused(2, "--items report.json.partial: scores are kept there");
}

#[test]
fn copies_that_no_batch_is_left_for_are_told() {
    let dir = tiny_run();
    let told = eval(&dir, "--dp 90 --set micro_batch_size=100").success().stderr;
    assert!(told.contains("--dp 90: there were never more than 1 batches"), "{told}");
}
