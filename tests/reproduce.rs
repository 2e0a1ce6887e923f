//! `pipeline reproduce`: the whole road on a small text, what is done again and what is not, and
//! whom it refuses.

mod configuration;
mod figure7;
mod limits;
mod losses;
mod outputs;
mod race;
mod resume;
mod road;

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::{Dir, Run, pipeline_in, words};

/// An experiment of two models that train in a moment.
const MICRO: &str = "\
experiment = \"table3\"
title = \"A micro experiment\"

[text]
max_bytes = 1_000_000

[data.length]
min_tokens = 16

[data.near_duplicates]

[contamination]
ngram_words = [5, 8]

[train.batch]
micro_batch_size = 2
global_batch_size = 2

[train.optimizer]
lr = 1e-3

[train.schedule]
train_steps = 4
warmup_steps = 1

[train.data]
split = \"8,2,0\"

[train.validation]
interval_steps = 2
batches = 1

[[size]]
name = \"small\"
paper = \"355M\"
[size.model.gpt2]
num_layers = 1
hidden_size = 8
num_attention_heads = 2
seq_length = 32

[[size]]
name = \"large\"
[size.model.gpt2]
num_layers = 1
hidden_size = 16
num_attention_heads = 2
seq_length = 32

[eval]
overlap = 32
";

/// The command line on [`micro`]'s folder.
const LINE: &str = "reproduce --config micro.toml --text text --out out";

/// Every part of it, by its key.
const PARTS: [&str; 10] = [
    "text",
    "corpus",
    "contamination",
    "train small",
    "eval small wikitext103",
    "eval small lambada",
    "train large",
    "eval large wikitext103",
    "eval large lambada",
    "page",
];

/// Made-up sentences that make one passage whose last word stands in it before.
fn passage(seed: u64) -> String {
    let made = words(seed + 1_000, 36).replace(['.', '\n'], " ");
    let mut made: Vec<&str> = made.split_whitespace().collect();
    made[35] = made[0];
    let sentences = [&made[..12], &made[12..24], &made[24..]].map(|it| it.join(" "));
    format!("The {}. The {}. The {}.", sentences[0], sentences[1], sentences[2])
}

/// A folder with twenty-four documents in `text`, a test set of each form, and the configuration
/// `micro.toml`.
fn micro() -> Dir {
    let dir = Dir::new();
    for seed in 0..24 {
        let text = format!("# Document {seed}\n\n{}\n\n{}\n", words(seed, 600), passage(seed));
        dir.write(&format!("text/crate-{seed:02}/README.md"), text);
    }
    let article = words(900, 150).replace('\n', " ");
    dir.write("wiki.tokens", format!(" \n = Title = \n \n {article} \n"));
    let passages = (900..903).map(|seed| {
        let text = passage(seed);
        format!("{}\n", json!({"text": text.strip_suffix('.').unwrap()}))
    });
    dir.write("lambada.jsonl", passages.collect::<String>());
    dir.write("micro.toml", MICRO);
    dir
}

/// [`micro`] with documents of sentences, of which pairs can be made.
fn sentences() -> Dir {
    let dir = micro();
    for document in 0..24 {
        let passages = (0..12).map(|part| passage(100 * document + part));
        let text = passages.collect::<Vec<_>>().join(" ");
        let path = format!("text/crate-{document:02}/README.md");
        dir.write(&path, format!("# Document {document}\n\n{text}\n"));
    }
    dir
}

/// Writes a corpus of sources, not all of whose records are fit to be read, and `sources.toml`, by
/// which it is reproduced. Returns the command line.
fn write_sources(dir: &Dir) -> &'static str {
    let record = |text: &str| format!("{}\n", json!({"body": text, "text": "not this"}));
    let mut lines: Vec<String> = (0..12).map(|seed| record(&words(seed, 600))).collect();
    // What holds a passage of LAMBADA goes, and a line that is no JSON is passed over.
    lines.push(record(&format!("{} {}", words(40, 30), passage(900))));
    lines.push("no JSON\n".to_owned());
    dir.write("corpus/in.jsonl", lines.concat());
    let source = "\
[data]
on_bad_line = \"skip\"

[data.decontamination.ngram]
ngram_words = 8

[[data.source]]
name = \"in\"
paths = [\"in.jsonl\"]
[data.source.jsonl]
text_key = \"body\"

[data.length]
";
    let config = MICRO.replace("[text]\nmax_bytes = 1_000_000\n", "");
    dir.write("sources.toml", config.replace("[data.length]\n", source));
    "reproduce --config sources.toml --text corpus --out out --wikitext103 wiki.tokens \
     --lambada lambada.jsonl"
}

/// The parts that a run says were done before it, whose lines are ` INFO 1/10 text: done before`.
fn kept(run: &Run) -> Vec<String> {
    let lines = run.stderr.lines().filter_map(|line| line.strip_suffix(": done before"));
    let parts = lines.map(|line| line.split_once('/').unwrap().1.split_once(' ').unwrap().1);
    parts.map(str::to_owned).collect()
}

/// The parts but those whose names begin with one of `changed`.
fn all_but(changed: &[&str]) -> Vec<String> {
    let is_changed = |part: &&str| changed.iter().any(|it| part.starts_with(it));
    PARTS.iter().filter(|part| !is_changed(part)).map(|&part| part.to_owned()).collect()
}

/// The files below a folder with their content, in order.
fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.push((name, fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The losses of a run, step by step.
fn losses(dir: &Dir, run: &str) -> Vec<f64> {
    let text = fs::read_to_string(dir.path(run).join("metrics.jsonl")).unwrap();
    let lines = crate::support::lines_of(&text);
    lines.iter().filter_map(|line| line["loss"].as_f64()).collect()
}

/// [`micro`], reproduced.
fn reproduced() -> (Dir, Run) {
    let dir = micro();
    let run = pipeline_in(&dir, LINE).success();
    (dir, run)
}
