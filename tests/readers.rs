//! Every form of input through the program: the same shards from the same documents, and no shard
//! from what cannot be read.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, LargeStringArray, RecordBatch, StringArray, StringViewArray,
};
use arrow::datatypes::Int32Type;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};

use crate::support::{Dir, Run, jsonl, lines_of, pipeline_in, read_json, words};

/// `pipeline dedup ARGUMENTS` in `dir`, to which paths are relative.
fn dedup(dir: &Dir, arguments: &str) -> Run {
    pipeline_in(dir, &format!("dedup {arguments}"))
}

/// Texts of fifty documents that are long enough and all different.
fn texts() -> Vec<String> {
    (0..50).map(|seed| words(seed, 150)).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// Writes the texts to a Parquet file in row groups of `rows_per_group`.
fn write_parquet(path: &Path, texts: &[String], rows_per_group: usize) {
    let schema = parse_message_type("message table { OPTIONAL BYTE_ARRAY text (UTF8); }").unwrap();
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let file = fs::File::create(path).unwrap();
    let mut table =
        SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).unwrap();
    for group in texts.chunks(rows_per_group) {
        let values: Vec<ByteArray> = group.iter().map(|text| text.as_str().into()).collect();
        let mut row_group = table.next_row_group().unwrap();
        let mut column = row_group.next_column().unwrap().unwrap();
        let is_there = vec![1; values.len()];
        column.typed::<ByteArrayType>().write_batch(&values, Some(&is_there), None).unwrap();
        column.close().unwrap();
        row_group.close().unwrap();
    }
    table.close().unwrap();
}

/// Writes a column of texts, of whatever type Arrow holds them in, in row groups of 30 rows.
fn write_arrow(path: &Path, texts: ArrayRef) {
    let batch = RecordBatch::try_from_iter_with_nullable([("text", texts, true)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(30)).build();
    let file = fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// The bytes of every shard file of a data folder, by name.
fn shard(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "bin" || it == "idx"))
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Names of everything in `dir`, sorted.
fn names_in(dir: &Dir) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_same_documents_give_the_same_shards_in_every_form() {
    let (dir, texts) = (Dir::new(), texts());
    let lines = jsonl(&texts).into_bytes();
    let (one, two) = lines.split_at(lines.len() / 2);
    dir.write("plain.jsonl", &lines);
    dir.write("one.jsonl.gz", gzip(&lines));
    dir.write("two-members.jsonl.gz", [gzip(one), gzip(two)].concat());
    dir.write("one.jsonl.zst", zstd(&lines));
    dir.write("two-frames.jsonl.zst", [zstd(one), zstd(two)].concat());
    for (number, text) in texts.iter().enumerate() {
        dir.write(&format!("text/{number:02}.txt"), text);
        dir.write(&format!("packed-text/{number:02}.txt.gz"), gzip(text.as_bytes()));
        let record = jsonl(&texts[number..=number]);
        dir.write(&format!("parts/{number:02}.jsonl.zst"), zstd(record.as_bytes()));
    }
    dir.write("parts/._00.jsonl.zst", "no data");
    write_parquet(&dir.path("two-groups.parquet"), &texts, 30);
    let some: Vec<Option<&str>> = texts.iter().map(|text| Some(text.as_str())).collect();
    write_arrow(&dir.path("utf8.parquet"), Arc::new(StringArray::from(some.clone())));
    write_arrow(&dir.path("large-utf8.parquet"), Arc::new(LargeStringArray::from(some.clone())));
    write_arrow(&dir.path("utf8-view.parquet"), Arc::new(StringViewArray::from(some.clone())));
    let dictionary: DictionaryArray<Int32Type> = some.into_iter().collect();
    write_arrow(&dir.path("dictionary.parquet"), Arc::new(dictionary));

    dedup(&dir, "plain.jsonl --out plain").success();
    let expected = shard(&dir.path("plain"));
    assert_eq!(expected.len(), 2);
    for (number, input) in [
        "one.jsonl.gz",
        "two-members.jsonl.gz",
        "one.jsonl.zst",
        "two-frames.jsonl.zst",
        "text",
        "packed-text",
        "two-groups.parquet",
        "utf8.parquet",
        "large-utf8.parquet",
        "utf8-view.parquet",
        "dictionary.parquet",
        "parts",
        "parts/*.jsonl.zst",
        "{plain,nothing-else}.jsonl",
    ]
    .iter()
    .enumerate()
    {
        let out = format!("out-{number}");
        dedup(&dir, &format!("{input} --out {out}")).success();
        assert!(shard(&dir.path(&out)) == expected, "{input}");
    }
}

#[test]
fn hidden_files_are_listed_with_their_reason_and_warned_of() {
    let dir = Dir::new();
    dir.write("in/x.jsonl", jsonl(&texts()[..2]));
    dir.write("in/._x.jsonl", b"\0\x05\x16\x07");
    let run = dedup(&dir, "in --out out").success();
    assert!(run.stderr.contains("in/._x.jsonl (hidden)"), "{}", run.stderr);
    assert!(run.stdout.contains("files left out"), "{}", run.stdout);
    let report = read_json(&dir.path("out/report.json"));
    assert_eq!(report["skipped_files"], json!([{"file": "in/._x.jsonl", "reason": "hidden"}]));
    assert!(report["warnings"][0].as_str().unwrap().contains("left out of the input"), "{report}");
}

#[test]
fn inputs_of_no_or_several_forms_are_refused_with_the_path_and_a_remedy() {
    let (dir, texts) = (Dir::new(), texts());
    let one = jsonl(&texts[..1]);
    fs::create_dir(dir.path("empty")).unwrap();
    dir.write("data.xyz", "?");
    dir.write("in/a.jsonl", &one);
    dir.write("in/README.md", "no data");
    dir.write("mixed/a.jsonl", &one);
    dir.write("mixed/b.txt", &texts[1]);
    dir.write("wrong.jsonl", gzip(b"{}\n"));
    dir.write("a.jsonl.gz", &one);
    let before = names_in(&dir);
    for (inputs, path, remedy) in [
        ("data.xyz", "data.xyz", "name a glob"),
        ("empty", "empty", "holds no file"),
        ("in/*.gz", "in/*.gz", "no file matches"),
        ("missing.jsonl", "missing.jsonl", "No such file"),
        ("in", "in/README.md", "name a glob that selects the files wanted"),
        ("mixed", "mixed", "Give each form as a source of its own: 'mixed/**/*.jsonl'"),
        ("wrong.jsonl", "wrong.jsonl", "Rename it to wrong.jsonl.gz"),
        ("a.jsonl.gz", "a.jsonl.gz", "its first bytes say nothing that is compressed"),
        ("in/a.jsonl in/*.jsonl", "in/a.jsonl", "name it once"),
        ("in/a.jsonl in/a.jsonl", "in/a.jsonl", "name it once"),
    ] {
        let run = dedup(&dir, &format!("{inputs} --out out")).refused(2, remedy);
        assert!(run.stderr.contains(&format!("{path}: ")), "{inputs}: {}", run.stderr);
    }
    assert_eq!(names_in(&dir), before, "nothing is left behind");

    dedup(&dir, "mixed/**/*.jsonl mixed/**/*.txt --out out").success();
}

/// The only truncated file of a report.
fn truncated(report: &Value) -> &Value {
    let truncated = report["truncated_files"].as_array().unwrap();
    assert_eq!(truncated.len(), 1, "{report}");
    &truncated[0]
}

#[test]
fn compressed_files_that_are_cut_leave_no_shard_or_their_readable_beginning() {
    // Several blocks of Zstandard, which are read whole or not at all.
    let texts: Vec<String> = (0..100).map(|seed| words(seed, 900)).collect();
    let lines = jsonl(&texts).into_bytes();
    for (name, packed) in [("a.jsonl.gz", gzip(&lines)), ("a.jsonl.zst", zstd(&lines))] {
        let dir = Dir::new();
        dir.write(name, &packed[..packed.len() * 9 / 10]);
        let failed = dedup(&dir, &format!("{name} --out out --on-bad-line skip"));
        assert_eq!(names_in(&dir), [name], "no shard, no manifest");

        let table = dedup(&dir, &format!("{name} --out out --on-bad-file keep-prefix")).success();
        assert!(table.stderr.contains("breaks off at byte"), "{}", table.stderr);
        assert!(table.stdout.contains("documents kept of the broken"), "{}", table.stdout);
        let report = read_json(&dir.path("out/report.json"));
        let truncated = truncated(&report);
        let documents = truncated["documents"].as_u64().unwrap();
        assert!((50..100).contains(&documents), "{name}: {documents}");
        assert_eq!(truncated["file"], name);
        assert!(truncated["problem"].as_str().unwrap().contains("the file is cut off"));
        assert_eq!(report["documents_kept"], documents);

        let (offset, line) = (&truncated["byte_offset"], documents + 1);
        let message = format!(
            "{name}: breaks off at byte {offset} of its uncompressed text, in line {line}, after {documents} documents"
        );
        assert_eq!(truncated["line"], line);
        assert!(report["warnings"].to_string().contains(&message), "{report}");
        let failed = failed.refused(2, &message);
        assert!(failed.stderr.contains("--on-bad-file keep-prefix"), "{}", failed.stderr);

        dir.write("prefix.jsonl", jsonl(&texts[..documents as usize]));
        dedup(&dir, "prefix.jsonl --out prefix").success();
        assert!(shard(&dir.path("out")) == shard(&dir.path("prefix")), "{name}");
    }
}

#[test]
fn a_parquet_file_that_is_cut_has_no_row_and_its_text_column_can_be_named() {
    let dir = Dir::new();
    write_parquet(&dir.path("a.parquet"), &texts()[..4], 2);
    let bytes = fs::read(dir.path("a.parquet")).unwrap();
    let cut = bytes.len() * 9 / 10;
    dir.write("cut.parquet", &bytes[..cut]);
    let message = format!("cut.parquet: breaks off at byte {cut}, in row 1, after 0 documents: ");
    dedup(&dir, "cut.parquet --out out").refused(2, &message);
    let both = "cut.parquet a.parquet --out out --on-bad-file keep-prefix --json";
    let report = dedup(&dir, both).success().json();
    assert_eq!(report["documents_kept"], 4);
    assert_eq!(truncated(&report)["documents"], 0);

    let message = "column \"content\" is absent (columns present: text)";
    dedup(&dir, "a.parquet --out other --text-key content").refused(2, message);
    assert!(!dir.path("other").exists());
}

#[test]
fn a_last_line_that_is_cut_leaves_no_shard_or_the_lines_before_it() {
    let dir = Dir::new();
    let lines = jsonl(&texts()[..10]);
    let cut = lines.len() - 200;
    dir.write("a.jsonl", &lines[..cut]);
    for policy in ["fail", "skip", "replace"] {
        let message = format!(
            "a.jsonl: breaks off at byte {cut}, in line 10, after 9 documents: the last record is cut off"
        );
        dedup(&dir, &format!("a.jsonl --out out --on-bad-line {policy}")).refused(2, &message);
        assert_eq!(names_in(&dir), ["a.jsonl"]);
    }
    let kept = dedup(&dir, "a.jsonl --out out --set on_bad_file=keep-prefix --json");
    let report = kept.success().json();
    assert_eq!(report["documents_kept"], 9);
    assert_eq!(truncated(&report)["byte_offset"], cut);
}

#[test]
fn a_missing_key_among_good_lines_is_named_with_its_offset_and_both_remedies() {
    let (dir, texts) = (Dir::new(), texts());
    let (first, rest) = (jsonl(&texts[..2]), jsonl(&texts[2..9]));
    dir.write("file.jsonl", format!("{first}{{\"content\":\"...\"}}\n{rest}"));
    let message = "file.jsonl:3: no key \"text\" (keys present: content). Use --text-key content if all records have it";
    let run = dedup(&dir, "file.jsonl --out out").refused(2, message);
    assert!(run.stderr.contains(&format!("at byte {}", first.len())), "{}", run.stderr);
    let report = dedup(&dir, "file.jsonl --out out --on-bad-line skip --json").success().json();
    assert_eq!(report["documents_kept"], 9);
    assert_eq!(report["rejected"], json!({"missing_key": 1}));
}

#[test]
fn text_that_is_no_unicode_follows_the_policy_and_marks_and_controls_are_read() {
    let (dir, texts) = (Dir::new(), texts());
    // A record whose text begins with bytes as they stand in the file.
    let record = |number: usize, bytes: &[u8]| {
        let text = jsonl(&texts[number..=number]);
        [b"{\"text\":\"", bytes, b" ", text.strip_prefix("{\"text\":\"").unwrap().as_bytes()]
            .concat()
    };
    let text_offset = "{\"text\":\"".len();
    let mut lines = jsonl(&texts[..6]).into_bytes();
    let seventh = lines.len() + text_offset;
    lines.extend(record(6, b"\xff\xfe\xe6"));
    let eighth = lines.len() + text_offset;
    lines.extend(record(7, b"\\ud800"));
    lines.extend(b"\xef\xbb\xbf");
    lines.extend(record(8, b""));
    lines.extend(record(9, "\0\u{2028}".as_bytes()));
    dir.write("a.jsonl", &lines);

    let message = format!("a.jsonl:7: invalid UTF-8 (byte {seventh})");
    dedup(&dir, "a.jsonl --out out").refused(2, &message);
    for (policy, kept, key) in [("skip", 8, "rejected"), ("replace", 10, "repaired")] {
        let run = dedup(&dir, &format!("a.jsonl --out {policy} --on-bad-line {policy} --json"));
        let report = run.success().json();
        assert_eq!(report["documents_kept"], kept);
        assert_eq!(report[key], json!({"invalid_utf8": 1, "lone_surrogate": 1}));
        let rejects = fs::read_to_string(dir.path(policy).join("rejects.jsonl")).unwrap();
        let places: Vec<_> = lines_of(&rejects)
            .iter()
            .map(|reject| (reject["line"].clone(), reject["byte_offset"].clone()))
            .collect();
        assert_eq!(places, [(json!(7), json!(seventh)), (json!(8), json!(eighth))]);
    }
}

#[test]
fn damage_that_a_decoder_does_not_expect_is_told_in_one_line() {
    let fixture = "pipeline/corpus/tests/fixtures/parquet/utf8-delta-plain.parquet";
    let mut bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture)).unwrap();
    bytes[314] ^= 0xff; // a length that its decoder takes at its word, and panics over
    let dir = Dir::new();
    dir.write("a.parquet", bytes);
    let told = dedup(&dir, "a.parquet --out out").refused(2, "a.parquet");
    assert!(!told.stderr.contains("panic"), "{}", told.stderr);
    let traced = dedup(&dir, "a.parquet --out out -v").stderr;
    assert!(traced.contains("panicked"), "the log has its place: {traced}");
}
