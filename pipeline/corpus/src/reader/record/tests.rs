//! Lines of every kind, good and bad.

use proptest::prelude::*;

use super::*;

fn parse(line: &[u8], keys: &JsonlConfig) -> Result<Record, Fault> {
    RecordParser::new(keys).parse(line)
}

fn parse_replacing(line: &[u8], keys: &JsonlConfig) -> Result<Record, Fault> {
    RecordParser::new(keys).parse_replacing(line)
}

fn breaks_off(line: &[u8], keys: &JsonlConfig) -> bool {
    RecordParser::new(keys).breaks_off(line)
}

fn parsed(line: &str) -> Result<Record, Fault> {
    parse(line.as_bytes(), &JsonlConfig::default())
}

fn text_of(line: &str) -> String {
    parsed(line).unwrap().text.unwrap()
}

fn reason_of(line: &str) -> RejectReason {
    parsed(line).unwrap_err().reason
}

#[test]
fn text_and_identifier_are_found_among_other_keys() {
    let line = r#"{"meta": {"a": [1, {"text": "no"}]}, "id": 7, "text": "yes\n", "z": null}"#;
    let record = parsed(line).unwrap();
    assert_eq!(
        record,
        Record { text: Some("yes\n".to_owned()), id: Some("7".to_owned()), title: None }
    );
    assert_eq!(parsed(r#"{"text": "a", "id": ["x"]}"#).unwrap().id, None);
}

#[test]
fn number_that_identifies_is_kept_as_it_is_written() {
    let id_of = |line: &str| parsed(line).unwrap().id;
    for number in
        ["7", "-7", "12345678901234567891234567", "1.0", "1e3", "-0.10", "18446744073709551615"]
    {
        for line in [
            format!(r#"{{"id": {number}, "text": "a"}}"#),
            format!(r#"{{"text":"\"id\":3 {{","b":{{"id":[4.5]}},"\u0069d" : {number} }}"#),
        ] {
            assert_eq!(id_of(&line).as_deref(), Some(number), "{line}");
        }
    }
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    for other in ["null", "true", "[1e999]", r#"{"a": "\ud800"}"#, &deep] {
        assert_eq!(id_of(&format!(r#"{{"id": {other}, "text": "a"}}"#)), None);
    }
}

#[test]
fn title_is_read_only_where_its_key_is_configured() {
    let keys = JsonlConfig { title_key: Some("title".to_owned()), ..JsonlConfig::default() };
    let title_of = |line: &str| {
        parse(line.as_bytes(), &keys).map(|record| record.title).map_err(|it| it.reason)
    };
    assert_eq!(title_of(r#"{"title": "Ti\u0074le", "text": "a"}"#), Ok(Some("Title".to_owned())));
    assert_eq!(title_of(r#"{"title": null, "text": "a"}"#), Ok(None));
    assert_eq!(title_of(r#"{"text": "a"}"#), Ok(None));
    let wrong = RejectReason::WrongType { key: "title".to_owned(), found: "a number" };
    assert_eq!(title_of(r#"{"title": 7, "text": "a"}"#), Err(wrong.clone()));
    assert_eq!(title_of(r#"{"title": 7, "text": null}"#), Err(wrong));
    for line in [r#"{"title": "T", "text": "a"}"#, r#"{"title": 7, "text": "a"}"#] {
        assert_eq!(parsed(line).unwrap().title, None);
    }
}

#[test]
fn key_that_matters_and_stands_twice_is_a_fault() {
    let titled = JsonlConfig { title_key: Some("title".to_owned()), ..JsonlConfig::default() };
    for (line, key) in [
        (r#"{"text": 1, "text": "first", "text": "last"}"#, "text"),
        (r#"{"text": "first", "te\u0078t": "last"}"#, "text"),
        (r#"{"text": null, "text": "last"}"#, "text"),
        (r#"{"id": null, "text": "a", "id": 7}"#, "id"),
        (r#"{"title": null, "text": "a", "title": "b"}"#, "title"),
    ] {
        let reason = parse(line.as_bytes(), &titled).unwrap_err().reason;
        assert_eq!(reason, RejectReason::DuplicateKey { key: key.to_owned() }, "{line}");
        assert!(reason.to_string().contains("stands there twice"), "{reason}");
    }
    assert_eq!(text_of(r#"{"a": 1, "a": 2, "text": "a", "title": "b", "title": "c"}"#), "a");
}

#[test]
fn fast_road_reads_what_the_close_look_reads() {
    let pieces = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "{}",
        "[]",
        "\"text\": ",
        "\"id\":",
        "\"title\":",
        "\"a\": ",
        "\"a\": {\"b\": [1, {}], \"c\": \"d\"}, ",
        "\"\"",
        "\"a\"",
        "\"é\\n\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"\\ude00\\ud83d\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\\"\\\\\\/\\b\\f\\r\\t\"",
        "null",
        "nul",
        "true",
        "false",
        "0",
        "-0",
        "01",
        "1.",
        "1.50",
        "-7e2",
        "1E+3",
        "1e",
        "1e999",
        "-",
        " ",
        "\t",
        "\r",
        "\u{feff}",
    ]);
    let titled = JsonlConfig { title_key: Some("title".to_owned()), ..JsonlConfig::default() };
    let check = |line: &str| {
        if let Some(record) = scan::record(line, &titled, &mut String::new()) {
            assert_eq!(Ok(record), parse_closely(line, &titled), "{line}");
        }
    };
    let config = ProptestConfig::with_cases(4_000);
    proptest!(config, |(pieces in prop::collection::vec(pieces, 0..12), key: bool, close: bool)| {
        let (open, end) = (if key { "{\"text\": " } else { "{" }, if close { "}" } else { "" });
        check(&format!("{open}{}{end}", pieces.concat()));
    });
    let deep = |depth: usize| {
        format!(r#"{{"a": {}{}, "text": "b"}}"#, "[".repeat(depth), "]".repeat(depth))
    };
    let number = "1".repeat(400);
    for line in [
        r#"{"a": [1, {"b": [], "c": {"d": "e"}}, [[]]], "text": "f", "id": {"g": null}}"#,
        r#" { "text" : "\u00e9\ud83d\ude00\n\\" , "id" : -0.10 , "title" : null } "#,
        &deep(64),
        &deep(65),
        &deep(300),
        &format!(r#"{{"text": "a", "id": {number}}}"#),
    ] {
        check(line);
    }
    let read = |line: &str| scan::record(line, &titled, &mut String::new()).is_some();
    assert!(read(r#"{"a": [1, {"b": [], "c": {"d": "e"}}, [[]]], "text": "f\n", "id": null}"#));
    assert!(!read(r#"{"text": "a", "text": "b"}"#));
}

#[test]
fn missing_key_is_told_with_the_keys_there_are_and_the_longest_string() {
    let found = |line| match reason_of(line) {
        RejectReason::MissingKey { key, present, longest, .. } => {
            assert_eq!(key, "text");
            (present.to_string(), longest)
        }
        other => panic!("{other}"),
    };
    assert_eq!(
        found(r#"{"id": "short", "n": 1, "body": "the text itself \ud800", "url": "a/b"}"#),
        ("id, n, body, url".to_owned(), Some("body".to_owned()))
    );
    assert_eq!(found(r#"{"n": 1}"#), ("n".to_owned(), None));
    let deep = format!(r#"{{"n": {}{}}}"#, "[".repeat(5000), "]".repeat(5000));
    assert_eq!(found(&deep), ("n".to_owned(), None));
}

#[test]
fn of_many_keys_the_first_are_told_and_the_rest_counted() {
    let keys: Vec<String> = (0..200_000).map(|number| format!("\"k{number}\":0")).collect();
    let reason = reason_of(&format!("{{{}}}", keys.join(",")));
    let message = reason.to_string();
    assert!(message.starts_with("no key \"text\" (keys present: k0, k1, "), "{message}");
    assert!(message.ends_with(", k19 and 199980 more)"), "{message}");
}

#[test]
fn every_beginning_of_a_record_breaks_off() {
    let keys = JsonlConfig::default();
    let line = r#"{"a": [1.5e-3, -2, true, null, {"b": "\u00e9\ud83d\ude00 \\\" é😀"}], "id": 17, "text": "the \n é end"}"#;
    assert!(parse(line.as_bytes(), &keys).is_ok());
    assert!(!breaks_off(line.as_bytes(), &keys));
    for end in 1..line.len() {
        assert!(
            breaks_off(&line.as_bytes()[..end], &keys),
            "{}",
            &line[..line.floor_char_boundary(end)]
        );
    }
    let raw = "{\"a\": \"\t\", \"text\": \"the\t\r end\"}";
    assert!(parse(raw.as_bytes(), &keys).is_ok());
    for end in 1..raw.len() {
        assert!(breaks_off(&raw.as_bytes()[..end], &keys), "{}", &raw[..end]);
    }
    for whole in ["", " ", "[1]", "nul x", r#"{"content": "x"}"#, r#"{"text": "ok"} tra"#] {
        assert!(!breaks_off(whole.as_bytes(), &keys), "{whole}");
    }
}

#[test]
fn no_line_panics() {
    let pieces = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "text",
        "\"text\":",
        "\"id\":",
        "\"a\":",
        "null",
        "1e999",
        "-",
        "7",
        "\\",
        "\\u",
        "d800",
        "\\ude00",
        "\u{feff}",
        "\0",
        "\t",
        "\r",
        " ",
        "é",
        "true",
    ]);
    proptest!(|(pieces in prop::collection::vec(pieces, 0..24), noise in any::<Vec<u8>>())| {
        for line in [pieces.concat().as_bytes(), &noise] {
            let keys = JsonlConfig::default();
            if let Err(fault) = parse(line, &keys) {
                prop_assert!(fault.offset <= line.len());
                prop_assert!(!fault.reason.to_string().is_empty());
            }
            let _ = parse_replacing(line, &keys);
        }
    });
    assert_eq!(reason_of(r#"{"a": 1e999}"#).name(), "syntax");
}

#[test]
fn null_is_no_text_and_no_fault() {
    assert_eq!(parsed(r#"{"text": null}"#).unwrap(), Record { text: None, id: None, title: None });
}

#[test]
fn other_values_are_named() {
    for (line, name, words) in [
        (r#"{"content": "a", "id": 1}"#, "missing_key", "(keys present: content, id)"),
        (r#"{}"#, "missing_key", r#"no key "text" (keys present: )"#),
        (r#"{"text": 42}"#, "wrong_type", r#"key "text" holds a number, not a string"#),
        (r#"{"text": ["a", "b"]}"#, "wrong_type", "an array"),
        (r#"{"text": {"a": 1}}"#, "wrong_type", "an object"),
        (r#"{"text": true}"#, "wrong_type", "a boolean"),
        ("[1,2]", "not_an_object", "an array where an object should be"),
        ("null", "not_an_object", "null"),
        ("\"text\"", "not_an_object", "a string"),
        ("", "blank_line", "blank line"),
        (" \t\r", "blank_line", "blank line"),
        (r#"{"text":"ok"} trailing"#, "syntax", "trailing characters"),
        (r#"{"text":"ok"}{"text":"two"}"#, "syntax", "trailing characters"),
        (r#"{"text": ok}"#, "syntax", "expected"),
        (r#"{"text": "cut in mid-str"#, "truncated", "breaks off"),
    ] {
        let reason = reason_of(line);
        assert_eq!(reason.name(), name, "{line}");
        assert!(reason.to_string().contains(words), "{line}: {reason}");
    }
}

#[test]
fn faults_have_the_offset_of_their_byte() {
    assert_eq!(parsed(r#"{"text":"ok"} trailing"#).unwrap_err().offset, 14);
    assert_eq!(parsed(r#"{"text":"a\ud800b"}"#).unwrap_err().offset, 10);
    assert_eq!(parsed(r#"{"text":"cut"#).unwrap_err().offset, 12);
    let fault = parse(b"\xef\xbb\xbf{\"text\":\"\xff\xfe\xe6\"}", &JsonlConfig::default());
    assert_eq!(fault, Err(Fault { offset: 12, reason: RejectReason::InvalidUtf8 }));
}

#[test]
fn raw_control_character_hides_no_other_fault() {
    let fault = parsed("{\"text\": \"a\tb\"} tail").unwrap_err();
    assert_eq!(fault.offset, 16);
    assert!(fault.reason.to_string().contains("trailing characters"), "{}", fault.reason);
    assert_eq!(reason_of("{\"text\": \"a\tb"), RejectReason::Truncated);
    let surrogate = "{\"text\": \"a\t\\ud800b\"}";
    assert_eq!(
        parsed(surrogate).unwrap_err(),
        Fault { offset: 12, reason: RejectReason::LoneSurrogate }
    );
}

#[test]
fn byte_order_mark_nul_and_line_separator_are_read() {
    assert_eq!(text_of("\u{feff}{\"text\": \"a\"}"), "a");
    assert_eq!(text_of("{\"text\": \"a\\u0000b\u{2028}c\"}"), "a\0b\u{2028}c");
    assert_eq!(text_of("{\"text\": \"a\0b\tc\\\"\0\"}"), "a\0b\tc\"\0");
    assert_eq!(reason_of("{\0\"text\": \"a\"}").name(), "syntax");
}

#[test]
fn surrogates_are_characters_only_in_pairs() {
    assert_eq!(text_of(r#"{"text": "\ud83d\ude00"}"#), "\u{1f600}");
    assert_eq!(text_of(r#"{"text": "\\ud800"}"#), "\\ud800");
    for line in
        [r#"{"text": "\ud800"}"#, r#"{"text": "\ude00 \ud83dx"}"#, r#"{"text": "\ud83d\u0041"}"#]
    {
        assert_eq!(reason_of(line), RejectReason::LoneSurrogate, "{line}");
    }
    // Where nobody reads it, it does no harm.
    assert_eq!(text_of(r#"{"other": "\ud800", "text": "a"}"#), "a");
}

#[test]
fn replacing_writes_the_replacement_character() {
    let replaced =
        |line: &[u8]| parse_replacing(line, &JsonlConfig::default()).unwrap().text.unwrap();
    assert_eq!(replaced(b"{\"text\": \"a\xffb\"}"), "a\u{fffd}b");
    assert_eq!(
        replaced(br#"{"text": "\ude00 \ud83dx \ud83d\ude00"}"#),
        "\u{fffd} \u{fffd}x \u{1f600}"
    );
    let fault = parse_replacing(b"{\"text\": \"\xff", &JsonlConfig::default()).unwrap_err();
    assert_eq!(fault.reason, RejectReason::Truncated);
}
