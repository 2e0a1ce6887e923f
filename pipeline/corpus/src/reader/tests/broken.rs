//! Files that break off or are damaged.

use super::*;

const KEEP: ReadPolicy =
    ReadPolicy { on_bad_line: OnBadLine::Fail, on_bad_file: OnBadFile::KeepPrefix };

fn error_of(input: &Input, source: SourceConfig, on_bad_line: OnBadLine) -> String {
    input.message(&open(source, on_bad_line).find_map(Result::err).unwrap())
}

/// The texts that are kept, and the files that are listed as broken.
fn kept(source: SourceConfig) -> (Vec<String>, Vec<BrokenFile>) {
    let mut sources = Sources::open(&[source], KEEP).unwrap();
    let mut texts = Vec::new();
    for item in sources.by_ref() {
        match item.unwrap() {
            Item::Document(document) => texts.push(document.text),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sources.bytes_read(), sources.total_bytes());
    (texts, sources.broken().to_vec())
}

/// Bytes of the whole records among the first `documents` of `records`.
fn bytes_of(documents: usize) -> usize {
    records(documents).len()
}

#[test]
fn compressed_file_cut_at_nine_tenths_fails_with_file_documents_and_offset() {
    for (name, packed) in
        [("a.jsonl.gz", gzip(&records(100))), ("a.jsonl.zst", zstd(&records(100)))]
    {
        let cut = &packed[..packed.len() * 9 / 10];
        let input = Input::new(&[(name, cut), ("b.jsonl", b"{\"text\":\"next\"}\n")]);
        let (texts, broken) = kept(input.jsonl(&[name, "b.jsonl"]));

        let [broken] = &broken[..] else { panic!("{name}: {broken:?}") };
        let documents = broken.documents as usize;
        assert!(matches!(broken.problem, FileProblem::CutOff { .. }), "{name}: {broken}");
        assert!(documents < 100, "{name}: {documents}");
        assert!(
            (bytes_of(documents)..bytes_of(documents + 1)).contains(&(broken.byte_offset as usize)),
            "{name}: {broken}"
        );
        assert_eq!(texts.len(), documents + 1, "{name}: the next file follows");

        let message = error_of(&input, input.jsonl(&[name, "b.jsonl"]), OnBadLine::Skip);
        let (offset, line) = (broken.byte_offset, documents + 1);
        let start = format!(
            "{name}: breaks off at byte {offset} of its uncompressed text, in line {line}, after {documents} documents: "
        );
        assert!(message.starts_with(&start), "{message}");
        assert!(message.ends_with("with --on-bad-file keep-prefix"), "{message}");
    }
}

#[test]
fn no_cut_passes_unnoticed_but_between_members_or_frames() {
    let (one, two) = (records(3), records(2));
    let whole = texts_of(&[&one[..], &two].concat());
    for (name, first, second) in
        [("a.jsonl.gz", gzip(&one), gzip(&two)), ("a.jsonl.zst", zstd(&one), zstd(&two))]
    {
        let packed = [&first[..], &second].concat();
        for cut in 0..packed.len() {
            let input = Input::new(&[(name, &packed[..cut])]);
            let (texts, broken) = kept(input.jsonl(&[name]));
            assert_eq!(broken.is_empty(), cut == first.len(), "{name} cut at {cut}");
            assert_eq!(texts, whole[..texts.len()], "{name} cut at {cut}");
            if let [broken] = &broken[..] {
                assert_eq!(broken.documents, texts.len() as u64);
            }
        }
    }
}

fn texts_of(plain: &[u8]) -> Vec<String> {
    texts(Input::new(&[("a.jsonl", plain)]).jsonl(&["a.jsonl"]))
}

#[test]
fn damage_is_found_by_checksums_and_what_follows_a_part_must_be_one() {
    let text = records(20);
    let mut wrong_checksum = gzip(&text);
    let crc = wrong_checksum.len() - 8;
    wrong_checksum[crc] ^= 1;
    let mut wrong_frame = zstd(&text);
    *wrong_frame.last_mut().unwrap() ^= 1;
    for (name, bytes, documents, problem) in [
        ("crc.jsonl.gz", wrong_checksum, 20, "its gzip data are damaged ("),
        // The decoder keeps the last piece of a frame to itself until its checksum is right.
        ("xxh.jsonl.zst", wrong_frame, 0, "its Zstandard data are damaged ("),
        (
            "garbage.jsonl.gz",
            [gzip(&text), b"garbage".to_vec()].concat(),
            20,
            "bytes that are no gzip follow a complete part",
        ),
        (
            "garbage.jsonl.zst",
            [zstd(&text), b"garbage".to_vec()].concat(),
            20,
            "its Zstandard data are damaged (",
        ),
        (
            "half-mark.jsonl.gz",
            [gzip(&text), b"\x1f".to_vec()].concat(),
            20,
            "the file is cut off, its gzip data are not complete",
        ),
    ] {
        let input = Input::new(&[(name, &bytes)]);
        let message = error_of(&input, input.jsonl(&[name]), OnBadLine::Fail);
        assert!(message.contains(&format!("after {documents} documents: ")), "{message}");
        assert!(message.contains(problem), "{message}");
        let (texts, broken) = kept(input.jsonl(&[name]));
        assert_eq!(
            (texts.len(), broken[0].byte_offset),
            (documents, bytes_of(documents) as u64),
            "{name}"
        );
    }
}

#[test]
fn last_line_may_lack_its_end_but_not_half_of_itself() {
    let input = Input::new(&[
        ("whole.jsonl", b"{\"text\":\"a\"}\n{\"text\":\"b\"}"),
        ("cut.jsonl", b"{\"text\":\"a\"}\n{\"text\":\"b"),
        ("cut.jsonl.gz", &gzip(b"{\"text\":\"a\"}\n{\"text\":\"b")),
        ("character.jsonl", b"{\"text\":\"a\"}\n{\"text\":\"b\xc3"),
        ("wrong.jsonl", b"{\"text\":\"a\"}\n{\"content\":\"b\"}"),
    ]);
    assert_eq!(texts(input.jsonl(&["whole.jsonl"])), ["a", "b"]);
    for on_bad_line in [OnBadLine::Fail, OnBadLine::Skip, OnBadLine::Replace] {
        assert_eq!(
            error_of(&input, input.jsonl(&["cut.jsonl"]), on_bad_line),
            "cut.jsonl: breaks off at byte 23, in line 2, after 1 document: the last record is cut off. \
             Get the file anew, or keep what stands before the break with --on-bad-file keep-prefix"
        );
    }
    for name in ["cut.jsonl", "cut.jsonl.gz", "character.jsonl"] {
        let (texts, broken) = kept(input.jsonl(&[name, "whole.jsonl"]));
        assert_eq!(texts, ["a", "a", "b"], "{name}");
        let [broken] = &broken[..] else { panic!("{name}: {broken:?}") };
        assert_eq!((broken.documents, broken.line), (1, Some(2)), "{name}");
        assert_eq!(broken.problem, FileProblem::HalfRecord, "{name}");
    }
    // A whole last record that is wrong is a bad line, not a bad file.
    let message = error_of(&input, input.jsonl(&["wrong.jsonl"]), OnBadLine::Fail);
    assert!(message.starts_with("wrong.jsonl:2: no key"), "{message}");
}

#[test]
fn records_that_break_off_before_the_last_line_are_bad_lines() {
    let input = Input::new(&[("a.jsonl", b"{\"text\":\"b\n{\"text\":\"a\"}\n")]);
    let message = error_of(&input, input.jsonl(&["a.jsonl"]), OnBadLine::Fail);
    assert_eq!(
        message,
        "a.jsonl:1: the record breaks off before its end (byte 10). Write each record as one object on one line, \
         or use --on-bad-line skip to pass over such records"
    );
}

#[test]
fn text_file_that_breaks_off_is_kept_up_to_the_break_on_request() {
    let text = "\u{e9}".repeat(5_000);
    let stored = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let input = Input::new(&[("a.txt.gz", &stored[..stored.len() - 101])]);
    let source = || SourceConfig { paths: vec![input.path("a.txt.gz")], ..input.text(&[], &[]) };
    let message = error_of(&input, source(), OnBadLine::Fail);
    assert!(message.contains("after 0 documents: the file is cut off"), "{message}");
    let (texts, broken) = kept(source());
    assert_eq!((texts.len(), broken.len(), broken[0].documents), (1, 1, 1));
    assert!(text.starts_with(&texts[0]));
    assert!((broken[0].byte_offset as usize - texts[0].len()) < 2, "no half character is kept");
}
