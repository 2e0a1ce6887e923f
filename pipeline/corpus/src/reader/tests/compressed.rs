//! Compressed files read as what they are compressed from.

use proptest::prelude::*;

use super::*;

/// What is read of a file: line and text or fault of each item.
fn read(input: &Input, name: &str) -> Vec<(u64, String)> {
    items(input.jsonl(&[name]), OnBadLine::Skip)
        .into_iter()
        .map(|item| match item {
            Item::Document(document) => (document.provenance.line.unwrap(), document.text),
            Item::Rejected(reject) => (
                reject.provenance.line.unwrap(),
                format!("{} at {}", reject.reason.name(), reject.byte_offset),
            ),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn every_form_of_the_same_records_gives_the_same_documents() {
    let plain = records(50);
    let (one, two) = plain.split_at(2_000);
    let input = Input::new(&[
        ("a.jsonl", &plain),
        ("a.jsonl.gz", &gzip(&plain)),
        ("members.jsonl.gz", &[gzip(one), gzip(two)].concat()),
        ("empty-member.jsonl.gz", &[gzip(b""), gzip(&plain), gzip(b"")].concat()),
        ("a.jsonl.zst", &zstd(&plain)),
        ("frames.jsonl.zst", &[zstd(one), zstd(two)].concat()),
        ("skippable.jsonl.zst", &[b"\x50\x2a\x4d\x18\x02\0\0\0xx", &zstd(&plain)[..]].concat()),
    ]);
    let expected = read(&input, "a.jsonl");
    assert_eq!(expected.len(), 50);
    for name in [
        "a.jsonl.gz",
        "members.jsonl.gz",
        "empty-member.jsonl.gz",
        "a.jsonl.zst",
        "frames.jsonl.zst",
        "skippable.jsonl.zst",
    ] {
        assert!(read(&input, name) == expected, "{name}");
    }
}

#[test]
fn any_cut_into_members_or_frames_gives_the_same_items() {
    let line = prop_oneof![
        4 => "[a-zé😀 ]{0,40}".prop_map(|text| format!("{{\"text\":\"{text}\"}}").into_bytes()),
        1 => prop::collection::vec(any::<u8>().prop_filter("line feed", |&byte| byte != b'\n'), 0..20),
    ];
    let case = (prop::collection::vec(line, 0..20), prop::collection::vec(any::<u16>(), 0..6));
    proptest!(ProptestConfig::with_cases(64), |((lines, cuts) in case, ends_in_feed: bool)| {
        let mut text = lines.join(&b'\n');
        // A last line without its line feed must be a record: else it is a break, which other tests
        // see to.
        if ends_in_feed { text.push(b'\n') } else { text.extend(b"\n{\"text\":\"last\"}") }
        let mut cuts: Vec<usize> = cuts.iter().map(|&cut| cut as usize % (text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let packed = |pack: fn(&[u8]) -> Vec<u8>| -> Vec<u8> {
            cuts.windows(2).flat_map(|cut| pack(&text[cut[0]..cut[1]])).collect()
        };
        let input = Input::new(&[
            ("a.jsonl", &text),
            ("a.jsonl.gz", &packed(gzip)),
            ("a.jsonl.zst", &packed(zstd)),
        ]);
        // Noise may begin as a compressed file does, and is then refused under a plain name.
        prop_assume!(!text.starts_with(b"\x1f\x8b"));
        // Or as UTF-16 does.
        prop_assume!(!text.starts_with(b"\xff\xfe") && !text.starts_with(b"\xfe\xff"));
        let expected = read(&input, "a.jsonl");
        prop_assert_eq!(&read(&input, "a.jsonl.gz"), &expected);
        prop_assert_eq!(&read(&input, "a.jsonl.zst"), &expected);
    });
}

#[test]
fn zero_padding_after_gzip_members_is_passed_over() {
    let (one, two) = (records(3), records(5));
    let padding = [0; 200_000];
    let input = Input::new(&[
        ("end.jsonl.gz", &[&gzip(&one)[..], &padding].concat()),
        ("between.jsonl.gz", &[&gzip(&one)[..], &padding[..512], &gzip(&two), b"\0"].concat()),
    ]);
    assert_eq!(read(&input, "end.jsonl.gz").len(), 3);
    assert_eq!(read(&input, "between.jsonl.gz").len(), 3 + 5);
}

#[test]
fn lines_longer_than_the_buffer_are_whole() {
    let long = "0123456789abcdef".repeat(100_000);
    let text = format!("{{\"text\":\"a\"}}\n{{\"text\":\"{long}\"}}\n{{\"text\":\"b\"}}\n");
    let input = Input::new(&[
        ("a.jsonl.gz", &gzip(text.as_bytes())),
        ("a.jsonl.zst", &zstd(text.as_bytes())),
    ]);
    for name in ["a.jsonl.gz", "a.jsonl.zst"] {
        assert!(texts(input.jsonl(&[name])) == ["a", &long, "b"], "{name}");
    }
}

#[test]
fn windows_of_two_gibibytes_are_read() {
    let record = b"{\"text\":\"far back\"}\n";
    // A frame as `zstd --ultra --long=31` writes it, with one raw block: RFC 8878, section 3.1.1.
    let window_log_31 = (31 - 10) << 3;
    let block = (record.len() as u32) << 3 | 1;
    let mut frame = b"\x28\xb5\x2f\xfd\0".to_vec();
    frame.push(window_log_31);
    frame.extend(&block.to_le_bytes()[..3]);
    frame.extend(record);
    let input = Input::new(&[("a.jsonl.zst", &frame)]);
    assert_eq!(texts(input.jsonl(&["a.jsonl.zst"])), ["far back"]);
}

#[test]
fn offsets_are_those_of_the_uncompressed_text_and_say_so() {
    let text = b"{\"text\":\"a\"}\n{\"text\":\"b\xff\"}\n";
    let input = Input::new(&[("a.jsonl.gz", &gzip(text))]);
    let error = open(input.jsonl(&["a.jsonl.gz"]), OnBadLine::Fail).find_map(Result::err).unwrap();
    let message = input.message(&error);
    let expected = "a.jsonl.gz:2: invalid UTF-8 (byte 23 of its uncompressed text). Use";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn progress_counts_bytes_on_disk() {
    let packed = zstd(&records(2_000));
    let input = Input::new(&[
        ("a.jsonl.zst", &packed),
        ("b.jsonl.gz", &gzip(&records(10))),
        ("c.jsonl", &records(1)),
    ]);
    let files = ["a.jsonl.zst", "b.jsonl.gz", "c.jsonl"];
    let mut sources = open(input.jsonl(&files), OnBadLine::Fail);
    let on_disk: u64 = files.map(|name| fs::metadata(input.path(name)).unwrap().len()).iter().sum();
    assert_eq!((sources.total_bytes(), sources.bytes_read()), (on_disk, 0));
    let mut before = 0;
    while let Some(item) = sources.next() {
        item.unwrap();
        assert!((before..=on_disk).contains(&sources.bytes_read()));
        before = sources.bytes_read();
    }
    assert_eq!(sources.bytes_read(), on_disk);
}

#[test]
fn text_files_are_unpacked_into_one_document_each() {
    let text = "line one\n\u{e9}\n".repeat(40_000);
    let input = Input::new(&[
        ("in/a.txt", text.as_bytes()),
        ("in/b.txt.gz", &gzip(text.as_bytes())),
        ("in/c.txt.zst", &[zstd(b"\xef\xbb\xbf"), zstd(text.as_bytes())].concat()),
        ("in/d.txt.gz", &gzip(b"")),
    ]);
    let mut source = input.text(&[], &[]);
    source.paths = vec![input.path("in")];
    assert!(texts(source) == [&text[..], &text, &text, ""]);
}
