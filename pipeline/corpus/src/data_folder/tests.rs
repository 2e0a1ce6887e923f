//! Data folders: whole or not there, and held against their manifest.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::shard::{DType, ShardWriter};
use crate::tokenizer::{Gpt2Tokenizer, JsonTokenizer, Tokenizer, fingerprint_of};
use crate::{Silent, verify};

/// A place for data folders.
struct Place {
    folder: TempDir,
    tokenizer: Gpt2Tokenizer,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), tokenizer: Gpt2Tokenizer::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the folder `name` with one document per list of tokens.
    fn write(
        &self,
        name: &str,
        existing: Existing,
        documents: &[&[u32]],
    ) -> Result<DataFolder, CorpusError> {
        let writer = DataFolder::create(&self.path(name), existing)?;
        self.fill(writer, documents)
    }

    /// Finishes a folder with one document per list of tokens.
    fn fill(
        &self,
        writer: DataFolderWriter,
        documents: &[&[u32]],
    ) -> Result<DataFolder, CorpusError> {
        let mut shard = writer.shard(self.tokenizer.vocab_size())?;
        for document in documents {
            shard.push_document(document)?;
        }
        let shard = shard.finish()?;
        writer.write_json(REPORT, &json!({"documents_in": documents.len()}))?;
        fs::write(writer.file(PROVENANCE), "{}\n").unwrap();
        fs::write(writer.file(REMOVED), "").unwrap();
        let mut manifest = DataManifest::new(&self.tokenizer, &shard);
        manifest.config = json!({"seed": 1});
        manifest.dropped.insert("empty".to_owned(), 2);
        writer.finish(manifest)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn finished_folder_holds_all_and_is_verified() {
    let place = Place::new();
    let written = place.write("data", Existing::Refuse, &[&[1, 2, 50256], &[3, 50256]]).unwrap();
    let opened = DataFolder::open(&place.path("data")).unwrap();
    assert_eq!(opened.manifest(), written.manifest());
    let manifest = opened.manifest();
    assert_eq!((manifest.documents, manifest.tokens, manifest.dtype), (2, 5, DType::Uint16));
    assert_eq!((manifest.tokenizer.name.as_str(), manifest.tokenizer.eod), ("gpt2", 50256));
    assert_eq!(manifest.tokenizer.fingerprint.len(), 32);
    let names: Vec<_> = manifest.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(
        names,
        ["corpus.bin", "corpus.idx", "provenance.jsonl", "removed.jsonl", "report.json"]
    );
    assert_eq!(opened.shard().unwrap().document(1).unwrap(), [3, 50256]);
    let checked = verify(&place.path("data"), &Silent).unwrap();
    assert_eq!((checked.len(), checked[0].tokens, checked[0].max_token), (1, 5, Some(50256)));
    assert_eq!(place.names(), ["data"]);
}

#[test]
fn unfinished_folder_leaves_nothing() {
    let place = Place::new();
    let writer = DataFolder::create(&place.path("data"), Existing::Refuse).unwrap();
    let mut shard = writer.shard(100).unwrap();
    shard.push_document(&[1]).unwrap();
    assert_eq!(place.names(), [".data.partial"]);
    drop((writer, shard));
    assert!(place.names().is_empty());
}

#[test]
fn leavings_of_a_killed_run_are_not_mixed_in() {
    let place = Place::new();
    fs::create_dir(place.path(".data.partial")).unwrap();
    fs::write(place.path(".data.partial/stale.jsonl"), "old").unwrap();
    let folder = place.write("data", Existing::Refuse, &[&[1]]).unwrap();
    assert!(folder.manifest().files.iter().all(|file| file.name != "stale.jsonl"));
    assert!(!place.path("data/stale.jsonl").exists());
}

#[test]
fn two_writers_of_one_folder_do_not_mix() {
    let place = Place::new();
    let first = DataFolder::create(&place.path("data"), Existing::Refuse).unwrap();
    fs::write(first.file("note"), "of the first").unwrap();
    for existing in [Existing::Refuse, Existing::Replace] {
        let error = DataFolder::create(&place.path("data"), existing).unwrap_err().to_string();
        let start =
            format!("{}: another run is writing this folder. ", place.path("data").display());
        assert!(error.starts_with(&start), "{error}");
    }
    assert_eq!(fs::read_to_string(first.file("note")).unwrap(), "of the first");
    assert_eq!(place.names(), [".data.partial"]);
    drop(first);
    place.write("data", Existing::Refuse, &[&[1]]).unwrap();
    assert_eq!(place.names(), ["data"]);
}

#[test]
fn used_folder_is_refused_unless_it_is_to_be_replaced() {
    let place = Place::new();
    place.write("data", Existing::Refuse, &[&[1]]).unwrap();
    let error = place.write("data", Existing::Refuse, &[&[2]]).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("data exists already. Choose another name, or pass --overwrite")
    );
    let replaced = place.write("data", Existing::Replace, &[&[2]]).unwrap();
    assert_eq!(replaced.shard().unwrap().document(0).unwrap(), [2]);
    assert_eq!(place.names(), ["data"]);
}

#[test]
fn foreign_folder_is_never_replaced_and_empty_one_no_obstacle() {
    let place = Place::new();
    fs::create_dir(place.path("home")).unwrap();
    fs::write(place.path("home/thesis.tex"), "precious").unwrap();
    for existing in [Existing::Refuse, Existing::Replace] {
        assert!(place.write("home", existing, &[&[1]]).is_err());
    }
    assert!(place.path("home/thesis.tex").exists());
    fs::create_dir(place.path("empty")).unwrap();
    place.write("empty", Existing::Refuse, &[&[1]]).unwrap();
}

#[test]
fn what_appears_at_the_output_during_the_run_is_kept_and_so_is_the_finished_folder() {
    for existing in [Existing::Refuse, Existing::Replace] {
        let place = Place::new();
        let writer = DataFolder::create(&place.path("data"), existing).unwrap();
        fs::create_dir(place.path("data")).unwrap();
        fs::write(place.path("data/thesis.tex"), "precious").unwrap();
        let error = place.fill(writer, &[&[1, 2]]).unwrap_err().to_string();
        let kept = place.path(".data.partial");
        assert!(error.contains("data exists already. "), "{error}");
        assert!(error.contains(&format!("kept in {}: move", kept.display())), "{error}");
        assert_eq!(fs::read_to_string(place.path("data/thesis.tex")).unwrap(), "precious");
        assert_eq!(place.names(), [".data.partial", "data"]);
        assert_eq!(DataFolder::open(&kept).unwrap().manifest().tokens, 2);
    }
}

#[test]
fn data_folder_that_appears_during_the_run_is_replaced_only_on_request() {
    for existing in [Existing::Refuse, Existing::Replace] {
        let place = Place::new();
        place.write("other", Existing::Refuse, &[&[1]]).unwrap();
        let writer = DataFolder::create(&place.path("data"), existing).unwrap();
        fs::rename(place.path("other"), place.path("data")).unwrap();
        let finished = place.fill(writer, &[&[1, 2]]);
        assert_eq!(finished.is_ok(), existing == Existing::Replace);
        let tokens = DataFolder::open(&place.path("data")).unwrap().manifest().tokens;
        assert_eq!(tokens, if finished.is_ok() { 2 } else { 1 });
    }
}

#[test]
fn link_to_a_folder_stays_and_its_folder_is_written() {
    let place = Place::new();
    fs::create_dir_all(place.path("disk/data")).unwrap();
    symlink(place.path("disk/data"), place.path("link")).unwrap();
    for (existing, tokens) in [(Existing::Refuse, &[1][..]), (Existing::Replace, &[1, 2])] {
        place.write("link", existing, &[tokens]).unwrap();
        assert!(place.path("link").is_symlink());
        let folder = DataFolder::open(&place.path("disk/data")).unwrap();
        assert_eq!(folder.manifest().tokens, tokens.len() as u64);
        assert_eq!(place.names(), ["disk", "link"]);
    }
}

#[test]
fn outputs_to_which_no_folder_can_be_moved_are_refused_at_once() {
    let place = Place::new();
    symlink(place.path("nothing"), place.path("dangling")).unwrap();
    for existing in [Existing::Refuse, Existing::Replace] {
        let refused = |path: &Path| DataFolder::create(path, existing).unwrap_err().to_string();
        let error = refused(&place.path("dangling"));
        assert!(error.contains("It is a link that leads nowhere: make the folder"), "{error}");
        for mount_point in ["/proc", "/"] {
            let error = refused(Path::new(mount_point));
            assert!(error.contains("It is a mount point, which cannot be renamed"), "{error}");
        }
    }
    assert_eq!(place.names(), ["dangling"]);
}

#[test]
fn folder_with_more_than_a_data_folder_is_never_replaced() {
    let place = Place::new();
    fs::create_dir(place.path("checkpoint")).unwrap();
    fs::write(place.path("checkpoint/manifest.json"), "{\"step\": 400}").unwrap();
    assert!(place.write("checkpoint", Existing::Replace, &[&[1]]).is_err());
    assert!(place.path("checkpoint/manifest.json").exists());

    place.write("data", Existing::Refuse, &[&[1]]).unwrap();
    fs::create_dir(place.path("data/run")).unwrap();
    assert!(place.write("data", Existing::Replace, &[&[1]]).is_err());
    assert!(place.path("data/run").exists());
    fs::remove_dir(place.path("data/run")).unwrap();
    place.write("data", Existing::Replace, &[&[1, 2]]).unwrap();
}

#[test]
fn old_folder_comes_back_after_a_death_between_its_going_and_the_new_ones_coming() {
    let place = Place::new();
    place.write("data", Existing::Refuse, &[&[1, 2, 3]]).unwrap();
    fs::rename(place.path("data"), place.path(".data.replaced")).unwrap();
    assert!(place.write("data", Existing::Refuse, &[&[4]]).is_err());
    assert_eq!(DataFolder::open(&place.path("data")).unwrap().manifest().tokens, 3);
    assert_eq!(place.names(), ["data"]);
}

#[test]
fn old_folder_is_not_lost_to_an_empty_one_and_a_stale_one_goes_when_a_run_begins() {
    let place = Place::new();
    place.write("data", Existing::Refuse, &[&[1, 2, 3]]).unwrap();
    fs::rename(place.path("data"), place.path(".data.replaced")).unwrap();
    fs::create_dir(place.path("data")).unwrap();
    assert!(place.write("data", Existing::Refuse, &[&[4]]).is_err());
    assert_eq!(DataFolder::open(&place.path("data")).unwrap().manifest().tokens, 3);

    fs::create_dir(place.path(".data.replaced")).unwrap();
    fs::write(place.path(".data.replaced/corpus.bin"), "old").unwrap();
    drop(DataFolder::create(&place.path("data"), Existing::Replace).unwrap());
    assert_eq!(place.names(), ["data"]);
}

#[test]
fn files_that_differ_from_the_manifest_are_refused() {
    let place = Place::new();
    let refused = |name: &str, message: &str| {
        let error = verify(&place.path(name), &Silent).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    };
    let documents: [&[u32]; 2] = [&[1, 2, 3], &[4, 5]];

    place.write("cut", Existing::Refuse, &documents).unwrap();
    let data = fs::read(place.path("cut/corpus.bin")).unwrap();
    fs::write(place.path("cut/corpus.bin"), &data[..8]).unwrap();
    refused("cut", "cut/corpus.bin: bytes: expected 10, found 8");

    // The same sizes, other tokens: only the checksum tells.
    place.write("other", Existing::Refuse, &[&[9, 9, 9], &[9, 9]]).unwrap();
    place.write("mixed", Existing::Refuse, &documents).unwrap();
    fs::copy(place.path("other/corpus.bin"), place.path("mixed/corpus.bin")).unwrap();
    refused("mixed", "mixed/corpus.bin: xxh3_128: expected ");

    // The same size of data, other documents.
    place.write("lengths", Existing::Refuse, &[&[1, 2], &[3, 4, 5]]).unwrap();
    fs::copy(place.path("lengths/corpus.idx"), place.path("mixed/corpus.idx")).unwrap();
    fs::copy(place.path("lengths/corpus.bin"), place.path("mixed/corpus.bin")).unwrap();
    refused("mixed", "mixed/corpus.idx: xxh3_128: expected ");

    place.write("gone", Existing::Refuse, &documents).unwrap();
    fs::remove_file(place.path("gone/corpus.idx")).unwrap();
    refused("gone", "gone/corpus.idx");

    place.write("future", Existing::Refuse, &documents).unwrap();
    let text = fs::read_to_string(place.path("future/manifest.json")).unwrap();
    fs::write(place.path("future/manifest.json"), text.replace("\"version\": 1", "\"version\": 2"))
        .unwrap();
    refused("future", "future/manifest.json: version: expected 1, found 2");
}

#[test]
fn token_that_the_manifest_s_tokenizer_lacks_is_named_with_its_place() {
    let place = Place::new();
    place.write("data", Existing::Refuse, &[&[1, 2, 3], &[4, 5000]]).unwrap();
    let path = place.path("data/manifest.json");
    let mut manifest = read_json::<serde_json::Value>(&path).unwrap();
    manifest["tokenizer"]["vocab_size"] = 5000.into();
    fs::write(&path, manifest.to_string()).unwrap();
    let error = verify(&place.path("data"), &Silent).unwrap_err().to_string();
    let expected = "corpus.bin: token 1 of sequence 1 is 5000: expected 0 to 4999";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn shards_without_a_manifest_are_verified_one_by_one() {
    let place = Place::new();
    let error = verify(place.folder.path(), &Silent).unwrap_err();
    assert!(
        error.to_string().ends_with("no shard here: expected files *.bin and *.idx"),
        "{error}"
    );
    for (name, tokens) in [("b", &[1, 2][..]), ("a", &[3])] {
        let mut shard = ShardWriter::create(&place.path(name), 100).unwrap();
        shard.push_document(tokens).unwrap();
        shard.finish().unwrap();
    }
    let tokens: Vec<_> = verify(place.folder.path(), &Silent)
        .unwrap()
        .iter()
        .map(|checked| checked.tokens)
        .collect();
    assert_eq!(tokens, [1, 2]);
    assert_eq!(verify(&place.path("b.bin"), &Silent).unwrap()[0].max_token, Some(2));
    fs::remove_file(place.path("a.idx")).unwrap();
    let error = verify(place.folder.path(), &Silent).unwrap_err();
    assert!(error.to_string().contains("a.idx: missing"), "{error}");
}

/// The identity of a tokenizer in a file of this text.
fn in_a_file(path: &Path, text: &str) -> TokenizerIdentity {
    fs::write(path, text).unwrap();
    TokenizerIdentity {
        name: path.display().to_string(),
        vocab_size: 2,
        eod: 1,
        fingerprint: fingerprint_of(text.as_bytes()),
    }
}

#[test]
fn tokenizer_of_a_file_goes_with_the_folder() {
    let place = Place::new();
    let definition = json!({
        "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "unk_token": "<eos>", "vocab": {"word": 0, "<eos>": 1}},
    });
    fs::write(place.path("mine.json"), definition.to_string()).unwrap();
    let tokenizer = JsonTokenizer::open(&place.path("mine.json")).unwrap();
    let writer = DataFolder::create(&place.path("data"), Existing::Refuse).unwrap();
    let mut shard = writer.shard(tokenizer.vocab_size()).unwrap();
    shard.push_document(&[0, 1]).unwrap();
    let summary = shard.finish().unwrap();
    writer.finish(DataManifest::new(&tokenizer, &summary)).unwrap();

    fs::remove_file(place.path("mine.json")).unwrap();
    fs::rename(place.path("data"), place.path("moved")).unwrap();
    let folder = DataFolder::open(&place.path("moved")).unwrap();
    folder.verify(&Silent).unwrap();
    assert_eq!(folder.manifest().tokenizer.name, "tokenizer.json");
    assert_eq!(folder.tokenizer().unwrap().vocab_size(), 2);
    assert_eq!(
        folder.tokenizer_identity().unwrap().name,
        place.path("moved/tokenizer.json").display().to_string()
    );

    fs::write(place.path("moved/tokenizer.json"), definition.to_string() + " ").unwrap();
    let error = folder.tokenizer().err().unwrap().to_string();
    assert!(error.contains("tokenizer.json: fingerprint: expected"), "{error}");
}

#[test]
fn kept_tokenizer_is_the_one_that_was_opened() {
    let place = Place::new();
    let identity = in_a_file(&place.path("mine.json"), "{}");
    let kept = identity.kept_in(place.folder.path()).unwrap();
    assert_eq!((kept.name.as_str(), kept.file_name()), ("tokenizer.json", Some("tokenizer.json")));
    assert_eq!(fs::read_to_string(place.path("tokenizer.json")).unwrap(), "{}");
    let seen = kept.seen_from(place.folder.path()).unwrap();
    assert_eq!(seen.name, place.path("tokenizer.json").display().to_string());

    fs::write(place.path("mine.json"), "[]").unwrap();
    let error = identity.kept_in(place.folder.path()).unwrap_err().to_string();
    assert!(error.contains("mine.json: fingerprint: expected"), "{error}");
    let built_in = TokenizerIdentity::of(&place.tokenizer);
    assert_eq!(built_in.kept_in(place.folder.path()).unwrap(), built_in);
    assert_eq!(built_in.seen_from(place.folder.path()).unwrap(), built_in);
}
