//! Records and whole-file documents, good and bad.

use super::*;

#[test]
fn empty_white_and_null_texts_are_items_of_their_own() {
    let lines = b"{\"text\":\"\"}\n{\"text\":\"   \\n\"}\n{\"text\":null}\n{\"text\":\"words\"}\n";
    let input = Input::new(&[("a.jsonl", lines)]);
    let found = items(input.jsonl(&["a.jsonl"]), OnBadLine::Fail);
    let kinds: Vec<_> = found
        .iter()
        .map(|item| match item {
            Item::Document(document) => Some(document.text.as_str()),
            Item::NullText(provenance) => {
                assert_eq!(provenance.line, Some(3));
                None
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, [Some(""), Some("   \n"), None, Some("words")]);
}

#[test]
fn missing_key_stops_with_file_line_and_remedy() {
    let good = "{\"text\":\"a\"}\n";
    let lines = format!("{good}{good}{{\"content\":\"b\"}}\n{}", good.repeat(7));
    let first = b"{\"content\":\"b\"}\n{\"text\":\"a\"}\n";
    let input = Input::new(&[("file.jsonl", lines.as_bytes()), ("first.jsonl", first)]);
    let mut sources = open(input.jsonl(&["file.jsonl"]), OnBadLine::Fail);
    assert_eq!(sources.by_ref().take(2).filter(Result::is_ok).count(), 2);
    let error = sources.next().unwrap().unwrap_err();
    assert_eq!(
        input.message(&error),
        "file.jsonl:3: no key \"text\" (keys present: content). Use --text-key content if all records \
         have it (those before have \"text\"), or --on-bad-line skip to pass over such records (the \
         record begins at byte 26)"
    );
    let first = open(input.jsonl(&["first.jsonl"]), OnBadLine::Fail).find_map(Result::err);
    assert_eq!(
        input.message(&first.unwrap()),
        "first.jsonl:1: no key \"text\" (keys present: content). Use --text-key content, \
         or --on-bad-line skip to pass over such records (the record begins at byte 0)"
    );
    assert!(sources.next().is_none(), "nothing follows an error");
}

#[test]
fn skipping_keeps_all_good_lines_and_reports_the_bad_ones() {
    let lines = concat!(
        "{\"text\":\"one\",\"id\":\"x\"}\n",
        "{\"content\":\"b\"}\n",
        "{\"text\":42}\n",
        "{\"text\":[\"a\",\"b\"]}\n",
        "[1,2]\n",
        "\n",
        "{\"text\":\"ok\"} trailing\n",
        "{\"text\":\"two\"}\n",
    );
    let input = Input::new(&[("a.jsonl", lines.as_bytes())]);
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for item in items(input.jsonl(&["a.jsonl"]), OnBadLine::Skip) {
        match item {
            Item::Document(document) => {
                good.push((document.text, document.provenance.line.unwrap()))
            }
            Item::Rejected(reject) => {
                bad.push((
                    reject.provenance.line.unwrap(),
                    reject.byte_offset,
                    reject.reason.name(),
                ));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(good, [("one".to_owned(), 1), ("two".to_owned(), 8)]);
    assert_eq!(
        bad,
        [
            (2, 24, "missing_key"),
            (3, 40, "wrong_type"),
            (4, 52, "wrong_type"),
            (5, 71, "not_an_object"),
            (6, 77, "blank_line"),
            (7, 92, "syntax"),
        ]
    );
}

/// Line 7 holds invalid UTF-8, line 8 half a surrogate pair, line 9 a byte order mark, line 10 NUL
/// and U+2028.
fn lines_of_broken_text() -> Vec<u8> {
    let mut lines = b"{\"text\":\"good\"}\n".repeat(6);
    lines.extend(b"{\"text\":\"a\xff\xfe\xe6b\"}\n");
    lines.extend(br#"{"text":"c\ud800d"}"#);
    lines.extend(b"\n\xef\xbb\xbf{\"text\":\"marked\"}\n");
    lines.extend("{\"text\":\"nul\\u0000 line\u{2028}end\"}\n".bytes());
    lines
}

#[test]
fn invalid_text_stops_with_line_and_byte_by_default() {
    let lines = lines_of_broken_text();
    let input = Input::new(&[("a.jsonl", &lines), ("b.jsonl", &lines[6 * 16 + 17..])]);
    let error = |name| open(input.jsonl(&[name]), OnBadLine::Fail).find_map(Result::err).unwrap();
    let remedy = "Use --on-bad-line replace to read it as U+FFFD, or --on-bad-line skip to pass over such records";
    assert_eq!(
        input.message(&error("a.jsonl")),
        format!("a.jsonl:7: invalid UTF-8 (byte 106). {remedy}")
    );
    assert_eq!(
        input.message(&error("b.jsonl")),
        format!("b.jsonl:1: half of a surrogate pair in a \\u escape (byte 10). {remedy}")
    );
}

#[test]
fn invalid_text_is_skipped_or_replaced_on_demand() {
    let input = Input::new(&[("a.jsonl", &lines_of_broken_text())]);
    let read = |on_bad_line| items(input.jsonl(&["a.jsonl"]), on_bad_line).split_off(6);

    let [
        Item::Rejected(utf8),
        Item::Rejected(surrogate),
        Item::Document(marked),
        Item::Document(nul),
    ] = &read(OnBadLine::Skip)[..]
    else {
        panic!("two lines skipped, two read");
    };
    assert_eq!((utf8.provenance.line, utf8.byte_offset), (Some(7), 106));
    assert_eq!((surrogate.provenance.line, surrogate.byte_offset), (Some(8), 123));
    assert_eq!((marked.text.as_str(), nul.text.as_str()), ("marked", "nul\0 line\u{2028}end"));

    let [
        Item::Repaired(utf8, repair),
        Item::Repaired(surrogate, _),
        Item::Document(_),
        Item::Document(_),
    ] = &read(OnBadLine::Replace)[..]
    else {
        panic!("two lines repaired, two read");
    };
    assert_eq!(utf8.text, "a\u{fffd}\u{fffd}\u{fffd}b");
    assert_eq!(surrogate.text, "c\u{fffd}d");
    assert_eq!((repair.reason.name(), repair.byte_offset), ("invalid_utf8", 106));
}

#[test]
fn empty_file_has_no_documents_and_line_ends_may_be_dos() {
    let input = Input::new(&[("a.jsonl", b""), ("b.jsonl", b"{\"text\":\"b\"}\r\n")]);
    assert_eq!(texts(input.jsonl(&["a.jsonl", "b.jsonl"])), ["b"]);
}

#[test]
fn files_without_a_record_are_listed_and_others_are_not() {
    let input = Input::new(&[
        ("a.jsonl", b""),
        ("b.jsonl", b"\n"),
        ("c.jsonl", b"{\"text\":null}\n"),
        ("d.jsonl.gz", &gzip(b"")),
    ]);
    let names = ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl.gz"];
    let mut sources = open(input.jsonl(&names), OnBadLine::Skip);
    assert_eq!(sources.by_ref().filter(Result::is_ok).count(), 2);
    let empty: Vec<&Path> = sources.empty_files().collect();
    assert_eq!(empty, [input.path("a.jsonl"), input.path("d.jsonl.gz")]);
}

#[test]
fn utf16_is_refused_with_its_remedy() {
    let utf16 = |mark: [u8; 2]| {
        [&mark[..], &"{\"text\":\"a\"}\n".bytes().flat_map(|it| [it, 0]).collect::<Vec<_>>()]
            .concat()
    };
    for mark in [[0xff, 0xfe], [0xfe, 0xff]] {
        for (name, bytes) in [
            ("a.jsonl", utf16(mark)),
            ("a.jsonl.gz", gzip(&utf16(mark))),
            ("a.txt", utf16(mark)),
            ("a.txt.zst", zstd(&utf16(mark))),
        ] {
            let input = Input::new(&[(name, &bytes)]);
            let source = SourceConfig::detect(input.path(name)).unwrap();
            let error = open(source, OnBadLine::Skip).find_map(Result::err).unwrap();
            assert_eq!(
                input.message(&error),
                format!(
                    "{name}: its text is UTF-16. Convert it to UTF-8, as \
                     iconv -f UTF-16 -t UTF-8 does"
                )
            );
        }
    }
}

#[test]
fn text_files_follow_the_same_policy() {
    let input = Input::new(&[("a.txt", b"\xef\xbb\xbfab\xffc")]);
    let source = || input.text(&["*.txt"], &[]);
    let error = open(source(), OnBadLine::Fail).next().unwrap().unwrap_err();
    assert!(input.message(&error).starts_with("a.txt: invalid UTF-8 (byte 5). Use --on-bad-line"));
    assert!(matches!(&items(source(), OnBadLine::Skip)[..], [Item::Rejected(_)]));
    let repaired = items(source(), OnBadLine::Replace);
    let [Item::Repaired(document, reject)] = &repaired[..] else { panic!("{repaired:?}") };
    assert_eq!((document.text.as_str(), reject.byte_offset), ("ab\u{fffd}c", 5));
}
