//! RACE: a BERT pre-trained on a small text and fine-tuned from three seeds on a few questions.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::{content, kept, sentences};
use crate::fine_tuning::article;
use crate::support::{Dir, lines_of, pipeline_in, read_json};

const CONFIG: &str = "\
experiment = \"race\"
title = \"A micro RACE\"

[text]
max_bytes = 1_000_000

[data]
tokenizer = \"bert\"

[data.length]
min_tokens = 16

[train.batch]
micro_batch_size = 2
global_batch_size = 2

[train.optimizer]
lr = 1e-3

[train.schedule]
train_steps = 2
warmup_steps = 1

[train.data]
split = \"8,2,0\"

[[size]]
name = \"tiny\"
[size.model.bert]
num_layers = 1
hidden_size = 8
num_attention_heads = 2
seq_length = 48

[finetune]
seeds = [7, 8, 9]

[finetune.race]
epochs = 1.0
warmup_share = 0.5

[finetune.batch]
micro_batch_size = 4
global_batch_size = 4

[finetune.optimizer]
lr = 1e-2

[finetune.schedule]
decay = \"linear\"
";

const LINE: &str = "reproduce --config race.toml --text text --race RACE --out out";

/// Articles of each split, of two questions each.
const ARTICLES: [(&str, usize); 3] = [("train", 4), ("dev", 6), ("test", 8)];

fn folder() -> Dir {
    let dir = sentences();
    for (split, articles) in ARTICLES {
        for number in 0..articles {
            let level = ["middle", "high"][number % 2];
            let path = format!("RACE/{split}/{level}/{number}.txt");
            dir.write(&path, article(split, number).to_string());
        }
    }
    dir.write("race.toml", CONFIG);
    dir
}

/// The parts of `seeds`, by what messages call them.
fn parts(seeds: &[u64]) -> Vec<String> {
    let mut parts = ["text", "corpus", "train tiny"].map(str::to_owned).to_vec();
    for seed in seeds {
        parts.push(format!("fine-tune tiny, seed {seed}"));
        parts.extend(["dev", "test"].map(|split| format!("race tiny, seed {seed}, {split}")));
    }
    parts.push("page".to_owned());
    parts
}

/// The answers of each seed to the questions of a split: probabilities, and the right option.
fn answers(dir: &Dir, split: &str) -> Vec<BTreeMap<String, ([f64; 4], usize)>> {
    let of_seed = |seed| {
        let path = dir.path(&format!("out/race/tiny/seed-{seed}.{split}.items.jsonl"));
        let lines = lines_of(&fs::read_to_string(path).unwrap());
        let answer = |line: &Value| {
            let shares = [0, 1, 2, 3].map(|option| line["probabilities"][option].as_f64().unwrap());
            let right = "ABCD".find(line["answer"].as_str().unwrap()).unwrap();
            (line["id"].as_str().unwrap().to_owned(), (shares, right))
        };
        lines.iter().map(answer).collect()
    };
    [7, 8, 9].map(of_seed).to_vec()
}

/// The share of questions whose right option is the first of the likeliest.
fn accuracy<'a>(answers: impl IntoIterator<Item = &'a ([f64; 4], usize)>) -> f64 {
    let is_right = |(shares, right): &([f64; 4], usize)| {
        let best = (1..4).fold(0, |best, at| if shares[at] > shares[best] { at } else { best });
        best == *right
    };
    let found: Vec<bool> = answers.into_iter().map(is_right).collect();
    found.iter().filter(|it| **it).count() as f64 / found.len() as f64
}

#[test]
fn every_seed_is_fine_tuned_and_asked_and_the_median_and_ensemble_follow() {
    let dir = folder();
    let run = pipeline_in(&dir, LINE).success();
    let all = parts(&[7, 8, 9]);
    for (index, part) in all.iter().enumerate() {
        let line = format!("{}/{} {part}: ", index + 1, all.len());
        assert!(run.stderr.contains(&line), "{line} {}", run.stderr);
    }
    let report = read_json(&dir.path("out/report.json"));
    assert_eq!(report["questions"], serde_json::json!([8, 12, 16]));
    assert_eq!(report["partial"], false);
    let model = &report["models"][0];
    let seeds = model["seeds"].as_array().unwrap();
    assert_eq!(seeds.iter().map(|it| it["seed"].as_u64().unwrap()).collect::<Vec<_>>(), [7, 8, 9]);
    let (dev, test) = (answers(&dir, "dev"), answers(&dir, "test"));
    for (seed, (dev, test)) in seeds.iter().zip(dev.iter().zip(&test)) {
        assert_eq!(seed["steps"], 2, "8 questions, 4 at a time, once");
        assert_eq!((dev.len(), test.len()), (12, 16));
        assert_eq!(seed["dev"]["overall"]["accuracy"].as_f64(), Some(accuracy(dev.values())));
        assert_eq!(seed["test"]["overall"]["accuracy"].as_f64(), Some(accuracy(test.values())));
        assert_eq!(seed["test"]["middle"]["questions"], 8);
    }
    // Each seed is another model.
    assert!(test[0] != test[1] && test[1] != test[2]);

    let mut by_dev: Vec<f64> = dev.iter().map(|answers| accuracy(answers.values())).collect();
    by_dev.sort_by(f64::total_cmp);
    let median = model["median_seed"].as_u64().unwrap();
    let median = seeds.iter().find(|it| it["seed"] == median).unwrap();
    assert_eq!(median["dev"]["overall"]["accuracy"].as_f64(), Some(by_dev[1]));

    let mean = |id: &String, right: usize| {
        let shares = [0, 1, 2, 3].map(|at| test.iter().map(|it| it[id].0[at]).sum::<f64>() / 3.0);
        (shares, right)
    };
    let votes: Vec<_> = test[0].iter().map(|(id, (_, right))| mean(id, *right)).collect();
    let ensemble = model["ensemble_test"]["overall"]["accuracy"].as_f64().unwrap();
    assert_eq!(ensemble, accuracy(&votes));
    let beats = |accuracy: f64| accuracy - 0.25 > 2.0 * (0.25_f64 * 0.75 / 16.0).sqrt();
    assert_eq!(report["verdicts"][0]["ensemble_beats_chance"], beats(ensemble));

    let page = fs::read_to_string(dir.path("out/race.html")).unwrap();
    for text in ["A micro RACE", "figure-accuracies", "chance", "paper: 3.9B, ensemble of 5"] {
        assert!(page.contains(text), "{text}");
    }
    let csv = fs::read_to_string(dir.path("out/race.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 3 + 1 + 8, "{csv}");
    assert!(run.stdout.contains("median of dev"), "{}", run.stdout);

    let before = content(&dir.path("out"));
    let second = pipeline_in(&dir, LINE).success();
    assert_eq!(kept(&second), all);
    assert!(content(&dir.path("out")) == before);
    assert_eq!(pipeline_in(&dir, &format!("{LINE} --json")).success().json(), report);
}

#[test]
fn only_what_depends_on_a_change_is_done_again() {
    let dir = folder();
    pipeline_in(&dir, LINE).success();
    let kept_of = |changed: &[&str], seeds: &[u64]| -> Vec<String> {
        let is_changed = |part: &String| changed.iter().any(|it| part.contains(it));
        parts(seeds).into_iter().filter(|part| !is_changed(part)).collect()
    };
    // One seed more: what is there stays.
    let more = format!("{LINE} --set finetune.seeds=[7,8,9,10]");
    let run = pipeline_in(&dir, &more).success();
    assert_eq!(kept(&run), kept_of(&["seed 10", "page"], &[7, 8, 9, 10]));
    // Other questions of a split have its models asked again, and none trained.
    for split in ["test", "dev"] {
        dir.write(&format!("RACE/{split}/high/1.txt"), article("dev", 33).to_string());
        let run = pipeline_in(&dir, LINE).success();
        assert_eq!(kept(&run), kept_of(&[split, "page"], &[7, 8, 9]));
    }
    // Another learning rate would cost the fine-tunings, and not the pre-training.
    let other = format!("{LINE} --set finetune.optimizer.lr=2e-2");
    pipeline_in(&dir, &other).refused(2, "fine-tune tiny, seed 7, finished");
    let run = pipeline_in(&dir, &format!("{other} --redo")).success();
    assert_eq!(kept(&run), ["text", "corpus", "train tiny"]);
}

#[test]
fn mistakes_are_told_before_anything_is_done() {
    let dir = folder();
    let without = LINE.replace(" --race RACE", "");
    pipeline_in(&dir, &without).refused(2, "not given: --race DIR, RACE's folder with train, dev");
    for (arguments, message) in [
        ("--set finetune.seeds=[]", "finetune.seeds = []: give one at least"),
        ("--set finetune.seeds=[1,2,1]", "finetune.seeds: 1 is there twice"),
        ("--set finetune.race.epochs=0", "finetune.race.epochs = 0"),
        ("--set finetune.schedule.train_steps=3", "finetune.race.epochs"),
        ("--set finetune.batch.micro_batch_size=3", "micro_batch_size"),
        ("--set eval.overlap=16", "[eval] is of no use in the experiment race"),
        ("--wikitext103 wiki.tokens", "the experiment race is scored on no test set"),
    ] {
        pipeline_in(&dir, &format!("{LINE} {arguments}")).refused(2, message);
    }
    let start = CONFIG.find("[finetune]").unwrap();
    dir.write("race.toml", &CONFIG[..start]);
    pipeline_in(&dir, LINE).refused(2, "[finetune] is not given: the experiment race fine-tunes");
    dir.write("race.toml", CONFIG);
    let line = LINE.replace("race.toml", "micro.toml");
    pipeline_in(&dir, &line).refused(2, "--race RACE: the experiment table3 fine-tunes nothing");
    fs::remove_dir_all(dir.path("RACE/dev")).unwrap();
    pipeline_in(&dir, LINE).refused(2, "dev");
    assert!(!dir.path("out").exists());
}
