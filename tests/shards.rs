//! `pipeline shard` on shards that are whole and on shards that are not.

use std::fs::{self, File};
use std::path::Path;

use corpus::shard::ShardWriter;

use crate::support::{Dir, Run, pipeline};

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
    assert_eq!(shown.json()["tokens"], serde_json::json!([4, 5]));
    let refused = pipeline(["shard", "show", &path.to_string_lossy(), "--doc", "2"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("2 documents"), "{}", refused.stderr);
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
            |dir| {
                let mut index = fs::read(dir.path("a.idx")).expect("an index");
                index[34] ^= 1;
                fs::write(dir.path("a.idx"), index).expect("an index");
            },
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
