//! `pipeline shard` on shards that are whole and on shards that are not.

use std::fs::{self, File};
use std::path::Path;

use corpus::shard::{ShardReader, ShardWriter};
use serde_json::json;

use crate::cli::tiny_corpus;
use crate::support::{Dir, Run, jsonl, lines_of, pipeline, pipeline_in, words};

/// Writes the shard `name` with one document per list of tokens.
fn write_shard(dir: &Dir, name: &str, documents: &[&[u32]]) {
    let mut shard = ShardWriter::create(&dir.path(name), 50_257).expect("a new shard");
    for document in documents {
        shard.push_document(document).expect("room for a shard");
    }
    shard.finish().expect("room for a shard");
}

fn shard(action: &str, path: &Path) -> Run {
    pipeline(["shard".as_ref(), action.as_ref(), path.as_os_str(), "--json".as_ref()])
}

fn cut(path: &Path, bytes: u64) {
    let file = File::options().write(true).open(path).expect("a file of the shard");
    let length = file.metadata().expect("a file of the shard").len();
    file.set_len(length - bytes).expect("a shorter file");
}

#[test]
fn whole_shards_are_counted() {
    let dir = Dir::new();
    write_shard(&dir, "a", &[&[1, 2, 3], &[4, 50_256]]);
    write_shard(&dir, "b", &[]);
    let checks = shard("verify", &dir.path("")).success().json();
    assert_eq!(checks[0]["documents"], 2);
    assert_eq!(checks[0]["tokens"], 5);
    assert_eq!(checks[0]["dtype"], "uint16");
    assert_eq!(checks[0]["max_token"], 50_256);
    assert_eq!(checks[1]["documents"], 0);
    assert_eq!(checks[1]["max_token"], serde_json::Value::Null);
}

#[test]
fn one_document_is_shown() {
    let dir = Dir::new();
    write_shard(&dir, "a", &[&[1, 2, 3], &[4, 5]]);
    let path = dir.path("a");
    let shown =
        pipeline(["shard", "show", &path.to_string_lossy(), "--doc", "1", "--json"]).success();
    assert_eq!(shown.json()["tokens"], json!([4, 5]));
    let folder = path.parent().unwrap().to_string_lossy().into_owned();
    let in_folder = pipeline(["shard", "show", &folder, "--doc", "1", "--json"]).success();
    assert_eq!(in_folder.json()["tokens"], json!([4, 5]));
    write_shard(&dir, "b", &[&[6]]);
    pipeline(["shard", "show", &folder, "--doc", "0"]).refused(2, "holds several shards");
    let refused = pipeline(["shard", "show", &path.to_string_lossy(), "--doc", "2"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("2 documents"), "{}", refused.stderr);
}

#[test]
fn document_of_another_program_is_text_by_the_tokenizer_that_is_named() {
    let dir = Dir::new();
    write_shard(&dir, "a", &[&[15_496, 995, 50_256]]);
    let run = pipeline_in(&dir, "shard show a --doc 0 --tokenizer gpt2").success();
    assert_eq!(run.stdout, "document 0, 3 tokens\nHello world<|endoftext|>\n");
    pipeline_in(&dir, "shard show a --tokenizer gpt2").refused(2, "--doc");
    pipeline_in(&dir, "shard show a --doc 0 --tokenizer none").refused(2, "no such name or file");
}

#[test]
fn document_of_a_data_folder_is_shown_with_its_text_and_source() {
    let dir = Dir::new();
    let texts = [words(1, 200), words(2, 200)];
    dir.write("corpus/wiki.jsonl", jsonl(&texts));
    pipeline_in(&dir, "dedup corpus/wiki.jsonl --out data").success();
    let run = pipeline_in(&dir, "shard show data --doc 1").success();
    let (head, text) = run.stdout.split_once("\n").expect("a line about the document");
    assert!(head.starts_with("document 1, "), "{head}");
    let (source, text) = text.split_once("\n").expect("a line about the source");
    assert_eq!(source, "from corpus/wiki.jsonl:2");
    assert_eq!(text.trim_end(), texts[1].clone() + "<|endoftext|>");

    let shown = pipeline_in(&dir, "shard show data --doc 0 --json").success().json();
    assert_eq!(shown["source"]["file"], "corpus/wiki.jsonl");
    assert_eq!(shown["source"]["line"], 1);
    pipeline_in(&dir, "shard show data --doc 2").refused(2, "data holds 2 documents");
    pipeline_in(&dir, "shard show data --doc 0 --tokenizer gpt2")
        .refused(2, "a data folder names its tokenizer itself");
}

#[test]
fn merged_shards_are_the_concatenation_of_their_documents() {
    let dir = Dir::new();
    write_shard(&dir, "a", &[&[1, 2, 3], &[4, 50_256]]);
    write_shard(&dir, "empty", &[]);
    write_shard(&dir, "c", &[&[7]]);
    let merged = pipeline_in(&dir, "shard merge all a empty c --json").success().json();
    assert_eq!((&merged[0]["documents"], &merged[0]["tokens"]), (&json!(3), &json!(6)));
    let all = ShardReader::open(&dir.path("all")).expect("a shard");
    let documents: Vec<_> = (0..3).map(|n| all.document(n).expect("a document")).collect();
    assert_eq!(documents, [&[1, 2, 3][..], &[4, 50_256], &[7]]);

    pipeline_in(&dir, "shard merge all a c").refused(2, "all.bin exists already");
    pipeline_in(&dir, "shard merge all a a --overwrite").refused(2, "read already");
    pipeline_in(&dir, "shard merge all a c --overwrite").success();
    cut(&dir.path("c.bin"), 1);
    pipeline_in(&dir, "shard merge more a c").refused(2, "c.bin: data of 1 bytes: expected 2");
    assert!(!dir.path("more.bin").exists());
}

#[test]
fn merged_data_folders_are_a_data_folder_to_train_on() {
    let dir = Dir::new();
    for (name, seed) in [("a", 1), ("b", 2)] {
        let texts = [words(seed, 200), words(seed + 10, 200)];
        dir.write(&format!("{name}.jsonl"), jsonl(&texts));
        pipeline_in(&dir, &format!("dedup {name}.jsonl --out {name}")).success();
    }
    pipeline_in(&dir, "shard merge both a b").success();
    pipeline_in(&dir, "shard verify both").success();
    let shown = pipeline_in(&dir, "shard show both --doc 3 --json").success().json();
    assert_eq!(shown["text"], words(12, 200) + "<|endoftext|>");
    assert_eq!(shown["source"]["source"], "b.jsonl");
    assert_eq!(
        lines_of(&fs::read_to_string(dir.path("both/provenance.jsonl")).expect("a list")).len(),
        4
    );
    pipeline_in(&dir, "shard merge both b a").refused(2, "exists already");
    pipeline_in(&dir, "shard merge both b a --overwrite").success();
}

#[test]
fn broken_shards_are_refused_with_file_expected_and_found() {
    type Damage = fn(&Dir);
    let damages: [(Damage, &str); 6] = [
        (|dir| cut(&dir.path("a.idx"), 1), "a.idx: index of 81 bytes: expected 82"),
        (|dir| cut(&dir.path("a.idx"), 82), "a.idx: index of 0 bytes: expected at least 34"),
        (|dir| cut(&dir.path("a.bin"), 2), "a.bin: data of 8 bytes: expected 10"),
        (|dir| fs::remove_file(dir.path("a.idx")).expect("an index"), "a.idx: missing"),
        (
            |dir| {
                write_shard(dir, "other", &[&[1, 2, 3, 4]]);
                fs::rename(dir.path("other.bin"), dir.path("a.bin"))
                    .expect("data of another shard");
                fs::remove_file(dir.path("other.idx")).expect("an index");
            },
            "a.bin: data of 8 bytes: expected 10",
        ),
        (
            |dir| flip_bit(&dir.path("a.idx"), 34),
            "a.idx: sequence 1 begins at byte 6 of the data: expected 4",
        ),
    ];
    for (damage, message) in damages {
        let dir = Dir::new();
        write_shard(&dir, "a", &[&[1, 2, 3], &[4, 5]]);
        damage(&dir);
        let run = shard("verify", &dir.path(""));
        assert_ne!(run.code, 0, "{message}");
        assert!(run.stdout.is_empty(), "{}", run.stdout);
        assert!(run.stderr.contains(message), "{}", run.stderr);
    }
}

#[test]
fn broken_data_folders_are_refused_by_verify_and_by_train_before_anything_is_computed() {
    type Damage = fn(&Dir);
    let damages: [(Damage, &str); 6] = [
        (|dir| cut(&dir.path("data/corpus.idx"), 1), "data/corpus.idx: bytes: expected "),
        (|dir| fs::write(dir.path("data/corpus.idx"), "").expect("an index"), "found 0"),
        (|dir| cut(&dir.path("data/corpus.bin"), 2), "data/corpus.bin: bytes: expected "),
        (|dir| fs::remove_file(dir.path("data/corpus.idx")).expect("an index"), "data/corpus.idx"),
        (|dir| flip_bit(&dir.path("data/corpus.idx"), 34), "data/corpus.idx"),
        (|dir| flip_bit(&dir.path("data/corpus.bin"), 7), "data/corpus.bin: xxh3_128: expected "),
    ];
    for (damage, message) in damages {
        let dir = tiny_corpus();
        damage(&dir);
        pipeline_in(&dir, "shard verify data").refused(2, message);
        pipeline_in(&dir, "train --config train.toml --data data --out run").refused(2, message);
        assert!(!dir.path("run").exists(), "{message}");
    }
}

fn flip_bit(path: &Path, byte: usize) {
    let mut bytes = fs::read(path).expect("a file of the shard");
    bytes[byte] ^= 1;
    fs::write(path, bytes).expect("a file of the shard");
}

#[test]
fn texts_become_a_data_folder_as_they_are() {
    let dir = Dir::new();
    let text = words(1, 200);
    dir.write("in.jsonl", jsonl(&["short", &text, &text, "", "short"]));
    let report = pipeline_in(&dir, "shard from-text in.jsonl --out data --json").success().json();
    assert_eq!(report["documents_kept"], 4);
    assert_eq!(report["dropped"], json!({"empty": 1}));
    for (document, expected) in [(0, "short"), (1, &text), (2, &text), (3, "short")] {
        let line = format!("shard show data --doc {document} --json");
        let shown = pipeline_in(&dir, &line).success().json();
        assert_eq!(shown["text"], format!("{expected}<|endoftext|>"));
    }
    pipeline_in(&dir, "shard verify data").success();
    pipeline_in(&dir, "shard from-text --out data").refused(2, "INPUT");
}
