//! Merged corpora are the concatenation of their parts, or not there.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::shard::foreign::write_shard;
use crate::tokenizer::{Gpt2Tokenizer, Tokenizer};
use crate::{DataManifest, PROVENANCE, REMOVED, REPORT, Silent, Unit, verify};

/// Documents, each a list of sequences.
type Documents = Vec<Vec<Vec<i64>>>;

fn read(stem: &Path) -> Documents {
    let shard = ShardReader::open(stem).unwrap();
    let sequences = |document| shard.index().document_sequences(document).unwrap();
    let tokens = |sequence| shard.sequence(sequence).unwrap().into_iter().map(i64::from).collect();
    (0..shard.num_documents()).map(|document| sequences(document).map(tokens).collect()).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn shards_are_concatenated_with_their_documents_and_sequences() {
    let sequence = prop::collection::vec(0_i64..128, 0..5);
    let documents = prop::collection::vec(prop::collection::vec(sequence, 0..3), 0..4);
    let shard = (prop::sample::select(vec![1_u8, 2, 3, 4, 5, 8]), documents);
    let shards = prop::collection::vec(shard, 1..5);
    proptest!(ProptestConfig::with_cases(64), |(shards in shards)| {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let inputs: Vec<PathBuf> = (0..shards.len()).map(|n| path(&n.to_string())).collect();
        for (input, (code, documents)) in inputs.iter().zip(&shards) {
            write_shard(input, *code, documents);
        }
        let merged = merge(&inputs, &path("out"), Existing::Refuse, &Silent).unwrap();
        let expected: Documents = shards.iter().flat_map(|(_, it)| it.clone()).collect();
        prop_assert_eq!(merged.documents, expected.len() as u64);
        prop_assert_eq!(read(&path("out")), expected);
        prop_assert_eq!(&verify(&path("out"), &Silent).unwrap()[0], &merged);
    });
}

#[test]
fn tokens_that_16_bits_do_not_hold_make_the_format_wider() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_shard(&path("narrow"), 8, &[vec![vec![65_535]]]);
    write_shard(&path("bytes"), 1, &[vec![vec![255]]]);
    write_shard(&path("wide"), 4, &[vec![vec![70_000]]]);
    write_shard(&path("huge"), 5, &[vec![vec![1 << 31]]]);
    let merged = |inputs: &[&str], out: &str| {
        let inputs: Vec<_> = inputs.iter().map(|name| path(name)).collect();
        merge(&inputs, &path(out), Existing::Refuse, &Silent)
    };
    assert_eq!(merged(&["narrow", "bytes"], "a").unwrap().dtype, DType::Uint16);
    assert_eq!(merged(&["bytes", "wide", "narrow"], "b").unwrap().dtype, DType::Int32);
    assert_eq!(read(&path("b")), [vec![vec![255]], vec![vec![70_000]], vec![vec![65_535]]]);
    let error = merged(&["narrow", "huge"], "c").unwrap_err().to_string();
    assert!(error.contains("token 2147483648 of document 1 lies outside"), "{error}");
    assert!(!names(folder.path()).iter().any(|name| name.contains('c')), "nothing is left");
}

#[test]
fn a_folder_of_shards_stands_for_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("parts")).unwrap();
    for (name, token) in [("parts/b", 2), ("parts/a", 1), ("single", 3)] {
        write_shard(&path(name), 8, &[vec![vec![token]]]);
    }
    let inputs = [path("parts"), path("single.idx")];
    merge(&inputs, &path("out"), Existing::Refuse, &Silent).unwrap();
    assert_eq!(read(&path("out")), [vec![vec![1]], vec![vec![2]], vec![vec![3]]]);
}

#[test]
fn inputs_and_outputs_that_do_not_go_together_are_refused_and_nothing_is_left() {
    let (folder, data) = data_folders(&[("data", &[&[1][..]])]);
    let path = |name: &str| folder.path().join(name);
    write_shard(&path("a"), 8, &[vec![vec![1]]]);
    write_shard(&path("b"), 8, &[vec![vec![2]]]);
    write_shard(&path("broken"), 8, &[vec![vec![2]]]);
    fs::write(path("broken.bin"), [1]).unwrap();
    let before = names(folder.path());
    for (inputs, out, message) in [
        (vec![path("a"), path("b"), path("a")], "out", "read already"),
        (vec![path("a"), path("a.idx")], "out", "read already"),
        (vec![path("a")], "b", "b.bin exists already"),
        (vec![path("a"), path("b.bin")], "b", "lies in the input"),
        (vec![path("a"), data[0].clone()], "out", "one is a data folder and the other is none"),
        (vec![path("a"), path("broken")], "out", "broken.bin: data of 1 bytes: expected 2"),
        (vec![path("a"), path("none")], "out", "none.idx"),
        (vec![data[0].clone()], "data", "lies in the input"),
    ] {
        let error = merge(&inputs, &path(out), Existing::Refuse, &Silent).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert_eq!(names(folder.path()), before, "{message}");
    }
    merge(&[path("a")], &path("out"), Existing::Refuse, &Silent).unwrap();
    merge(&[path("b")], &path("out"), Existing::Replace, &Silent).unwrap();
    assert_eq!(read(&path("out")), [vec![vec![2]]]);
}

/// Data folders of these names and documents, the sources of which are their names.
fn data_folders(folders: &[(&str, &[&[u32]])]) -> (TempDir, Vec<PathBuf>) {
    let place = tempfile::tempdir().unwrap();
    let tokenizer = Gpt2Tokenizer::new();
    let paths = folders.iter().map(|(name, documents)| {
        let path = place.path().join(name);
        let writer = DataFolder::create(&path, Existing::Refuse).unwrap();
        let mut shard = writer.shard(tokenizer.vocab_size()).unwrap();
        let mut lines = String::new();
        for (number, document) in documents.iter().enumerate() {
            shard.push_document(document).unwrap();
            lines += &format!("{{\"source\":\"{name}\",\"line\":{number}}}\n");
        }
        let summary = shard.finish().unwrap();
        writer.write_json(REPORT, &json!({"documents_in": 7})).unwrap();
        fs::write(writer.file(PROVENANCE), lines).unwrap();
        fs::write(writer.file(REMOVED), format!("{{\"source\":\"{name}\"}}\n")).unwrap();
        let mut manifest = DataManifest::new(&tokenizer, &summary);
        manifest.config = json!({"tokenizer": "gpt2"});
        manifest.dropped.insert("empty".to_owned(), 2);
        writer.finish(manifest).unwrap();
        path
    });
    let paths = paths.collect();
    (place, paths)
}

#[test]
fn data_folders_give_a_data_folder_that_names_them_all() {
    let (place, inputs) =
        data_folders(&[("a", &[&[1, 2][..], &[3]]), ("b", &[]), ("c", &[&[50_256][..]])]);
    let out = place.path().join("out");
    let merged = merge(&inputs, &out, Existing::Refuse, &Silent).unwrap();
    assert_eq!((merged.documents, merged.tokens, merged.max_token), (3, 4, Some(50_256)));
    let folder = DataFolder::open(&out).unwrap();
    assert_eq!(folder.verify(&Silent).unwrap(), merged);
    assert_eq!(read(&merged.stem), [vec![vec![1, 2]], vec![vec![3]], vec![vec![50_256]]]);
    let line = |document| folder.provenance(document).unwrap();
    assert_eq!(line(1).unwrap(), "{\"source\":\"a\",\"line\":1}\n");
    assert_eq!(line(2).unwrap(), "{\"source\":\"c\",\"line\":0}\n");
    assert_eq!(line(3), None);
    assert_eq!(fs::read_to_string(out.join(REMOVED)).unwrap().lines().count(), 3);
    let manifest = folder.manifest();
    assert_eq!(manifest.dropped["empty"], 6);
    assert_eq!(manifest.config["merged_from"][1]["folder"], inputs[1].display().to_string());
    assert_eq!(manifest.config["merged_from"][1]["config"]["tokenizer"], "gpt2");
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join(REPORT)).unwrap()).unwrap();
    assert_eq!(report["merged_from"][2]["report"]["documents_in"], 7);

    let again = place.path().join("again");
    assert!(merge(std::slice::from_ref(&out), &again, Existing::Refuse, &Silent).is_ok());
    let files = ["corpus.bin", "corpus.idx", PROVENANCE, REMOVED];
    let bytes = |folder: &Path| files.map(|name| fs::read(folder.join(name)).unwrap());
    assert_eq!(bytes(&again), bytes(&out));
}

#[test]
fn data_folders_of_other_tokenizers_or_without_their_provenance_are_refused() {
    let (place, inputs) = data_folders(&[("a", &[&[1][..]]), ("b", &[&[2][..]])]);
    let out = place.path().join("out");
    let manifest_path = inputs[1].join(MANIFEST);
    let good = fs::read_to_string(&manifest_path).unwrap();
    let fingerprint = Gpt2Tokenizer::new().fingerprint();
    fs::write(&manifest_path, good.replace(&fingerprint, &"0".repeat(32))).unwrap();
    let refused = |message: &str| {
        let error = merge(&inputs, &out, Existing::Refuse, &Silent).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert_eq!(names(place.path()), ["a", "b"]);
    };
    refused("b: their tokens are of different tokenizers. Merge like with like");

    let mut manifest: serde_json::Value = serde_json::from_str(&good).unwrap();
    fs::write(inputs[1].join(PROVENANCE), "").unwrap();
    let files = manifest["files"].as_array_mut().unwrap();
    let entry = files.iter_mut().find(|file| file["name"] == PROVENANCE).unwrap();
    let summary = crate::FileSummary::of(&inputs[1].join(PROVENANCE)).unwrap();
    *entry = serde_json::to_value(summary).unwrap();
    fs::write(&manifest_path, manifest.to_string()).unwrap();
    refused("provenance.jsonl: lines: expected 1, found 0");
}

/// Asks to stop at the `0`-th look.
struct StopsAt(AtomicUsize);

impl Observer for StopsAt {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {}

    fn advance(&self, _amount: u64) {}

    fn finish(&self) {}

    fn stop_requested(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 0
    }
}

#[test]
fn a_stop_at_any_look_leaves_nothing() {
    let (place, inputs) = data_folders(&[("a", &[&[1][..]]), ("b", &[&[2][..]])]);
    let out = place.path().join("out");
    let mut stops = 0;
    loop {
        let observer = StopsAt(AtomicUsize::new(stops));
        match merge(&inputs, &out, Existing::Refuse, &observer) {
            Ok(_) => break,
            Err(error) => assert!(matches!(error, CorpusError::Stopped), "{error}"),
        }
        assert_eq!(names(place.path()), ["a", "b"]);
        stops += 1;
    }
    assert!(stops > 10, "{stops} looks");
}
