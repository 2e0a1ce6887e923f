//! One line of JSONL to a text and an identifier.
//!
//! Only the two keys that matter are turned into values; all others are skipped where they stand, and the text is the only
//! thing copied. Of a key that stands twice in one object the last value counts, as in Python's `json`.
//!
//! Two things are read although strict JSON forbids them, because nothing is lost by it: a byte order mark before the
//! object, and raw control characters inside strings, which some exporters fail to escape.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::JsonlConfig;
use super::reject::RejectReason;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a line holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The text; `None` where the key holds `null`.
    pub(super) text: Option<String>,
    /// The identifier, where there is one.
    pub(super) id: Option<String>,
}

/// Why a line is no record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Offset in the line, in bytes.
    pub(super) offset: usize,
    pub(super) reason: RejectReason,
}

/// The text and its identifier in `line`, which has no line feed at its end.
pub(super) fn parse(line: &[u8], keys: &JsonlConfig) -> Result<Record, Fault> {
    let body = without_mark(line);
    let mark = line.len() - body.len();
    let text = std::str::from_utf8(body).map_err(|error| Fault {
        offset: mark + error.valid_up_to(),
        reason: RejectReason::InvalidUtf8,
    })?;
    parse_str(text, keys).map_err(|fault| Fault { offset: mark + fault.offset, ..fault })
}

/// [`parse`] after writing U+FFFD for what is no character: invalid UTF-8 and lone surrogates.
pub(super) fn parse_replacing(line: &[u8], keys: &JsonlConfig) -> Result<Record, Fault> {
    let text = String::from_utf8_lossy(without_mark(line));
    match lone_surrogate(&text) {
        Some(_) => parse_str(&replace_lone_surrogates(&text), keys),
        None => parse_str(&text, keys),
    }
}

/// `bytes` without a byte order mark at their start.
pub(super) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)
}

fn parse_str(text: &str, keys: &JsonlConfig) -> Result<Record, Fault> {
    if text.trim_ascii().is_empty() {
        return Err(Fault { offset: 0, reason: RejectReason::BlankLine });
    }
    let error = match deserialize(text, keys) {
        Ok(line) => return judge(line, text, keys),
        Err(error) => error,
    };
    if let Some(escaped) = escape_control_characters(text)
        && let Ok(line) = deserialize(&escaped, keys)
    {
        return judge(line, &escaped, keys);
    }
    if let Some(offset) = lone_surrogate(text)
        && deserialize(&replace_lone_surrogates(text), keys).is_ok()
    {
        return Err(Fault { offset, reason: RejectReason::LoneSurrogate });
    }
    if error.is_eof() {
        return Err(Fault { offset: text.len(), reason: RejectReason::Truncated });
    }
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default().to_owned();
    Err(Fault {
        offset: error.column().saturating_sub(1),
        reason: RejectReason::Syntax { message },
    })
}

fn judge(line: Line<'_>, text: &str, keys: &JsonlConfig) -> Result<Record, Fault> {
    let reason = match line {
        Line::Object { text: Field::Text(text), id } => {
            return Ok(Record { text: Some(text.into_owned()), id });
        }
        Line::Object { text: Field::Null, id } => return Ok(Record { text: None, id }),
        Line::Object { text: Field::Other(found), .. } => {
            RejectReason::WrongType { key: keys.text_key.clone(), found }
        }
        Line::Object { text: Field::Missing, .. } => {
            RejectReason::MissingKey { key: keys.text_key.clone(), present: keys_of(text) }
        }
        Line::Other(found) => RejectReason::NotAnObject { found },
    };
    Err(Fault { offset: 0, reason })
}

/// A line as far as it matters.
enum Line<'de> {
    Object { text: Field<'de>, id: Option<String> },
    Other(&'static str),
}

/// The value under a key.
enum Field<'de> {
    Missing,
    Null,
    Text(Cow<'de, str>),
    Other(&'static str),
}

fn deserialize<'de>(text: &'de str, keys: &JsonlConfig) -> Result<Line<'de>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let line = deserializer.deserialize_any(LineVisitor(keys))?;
    deserializer.end()?;
    Ok(line)
}

/// Names of the keys of the object in `text`, in its order.
fn keys_of(text: &str) -> Vec<String> {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text)
        .map(|object| object.into_iter().map(|(key, _)| key).collect())
        .unwrap_or_default()
}

/// Methods of a visitor that answers everything but a string, `null` and an object with what it is called.
macro_rules! name_other_values {
    ($wrap:path) => {
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($wrap("a boolean"))
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($wrap("a number"))
        }

        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($wrap("a number"))
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($wrap("a number"))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
            while array.next_element::<IgnoredAny>()?.is_some() {}
            Ok($wrap("an array"))
        }
    };
}

struct LineVisitor<'k>(&'k JsonlConfig);

impl<'de> Visitor<'de> for LineVisitor<'_> {
    type Value = Line<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Line<'de>, A::Error> {
        let (mut text, mut id) = (Field::Missing, None);
        while let Some(key) = object.next_key_seed(KeySeed(self.0))? {
            match key {
                Key::Text => text = object.next_value_seed(FieldSeed)?,
                Key::Id => id = object.next_value::<serde_json::Value>().map(identifier)?,
                Key::Other => {
                    object.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Line::Object { text, id })
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Line::Other("a string"))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Line::Other("null"))
    }

    name_other_values!(Line::Other);
}

/// Strings and numbers identify a document; anything else does not.
fn identifier(value: serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(id) => Some(id),
        serde_json::Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

enum Key {
    Text,
    Id,
    Other,
}

struct KeySeed<'k>(&'k JsonlConfig);

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Key;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Key;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Key, E> {
        Ok(match key {
            key if key == self.0.text_key => Key::Text,
            key if key == self.0.id_key => Key::Id,
            _ => Key::Other,
        })
    }
}

struct FieldSeed;

impl<'de> DeserializeSeed<'de> for FieldSeed {
    type Value = Field<'de>;

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Field<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldSeed {
    type Value = Field<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Field::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Field::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Field::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Other("an object"))
    }

    name_other_values!(Field::Other);
}

/// `text` with raw control characters inside its strings written as escapes; `None` where it has none.
fn escape_control_characters(text: &str) -> Option<String> {
    let mut escaped = String::new();
    let (mut copied, mut in_string, mut after_backslash) = (0, false, false);
    for (index, byte) in text.bytes().enumerate() {
        if in_string && byte < b' ' {
            escaped.push_str(&text[copied..index]);
            escaped.push_str(&format!("\\u{byte:04x}"));
            copied = index + 1;
        }
        in_string ^= byte == b'"' && !after_backslash;
        after_backslash = byte == b'\\' && !after_backslash;
    }
    if copied == 0 {
        return None;
    }
    escaped.push_str(&text[copied..]);
    Some(escaped)
}

/// Offset of the first `\u` escape that is half of a surrogate pair without the other half.
fn lone_surrogate(text: &str) -> Option<usize> {
    lone_surrogates(text).next()
}

/// `text` with U+FFFD in place of every lone surrogate; no longer or shorter than before.
fn replace_lone_surrogates(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut copied = 0;
    for offset in lone_surrogates(text) {
        whole.push_str(&text[copied..offset]);
        whole.push_str("\\ufffd");
        copied = offset + ESCAPE_BYTES;
    }
    whole.push_str(&text[copied..]);
    whole
}

/// Length of a `\u` escape.
const ESCAPE_BYTES: usize = 6;

fn lone_surrogates(text: &str) -> impl Iterator<Item = usize> + '_ {
    let bytes = text.as_bytes();
    let mut position = 0;
    std::iter::from_fn(move || {
        loop {
            let offset = position + memchr::memchr(b'\\', bytes.get(position..)?)?;
            let code = utf16_escape(bytes, offset);
            position = offset + code.map_or(2, |_| ESCAPE_BYTES);
            match code {
                Some(0xd800..=0xdbff) => match utf16_escape(bytes, position) {
                    Some(0xdc00..=0xdfff) => position += ESCAPE_BYTES,
                    _ => return Some(offset),
                },
                Some(0xdc00..=0xdfff) => return Some(offset),
                _ => {}
            }
        }
    })
}

/// The UTF-16 unit that an escape at `offset` stands for.
fn utf16_escape(bytes: &[u8], offset: usize) -> Option<u16> {
    let digits = bytes.get(offset..offset + ESCAPE_BYTES)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(record, Record { text: Some("yes\n".to_owned()), id: Some("7".to_owned()) });
        assert_eq!(parsed(r#"{"text": "a", "id": ["x"]}"#).unwrap().id, None);
    }

    #[test]
    fn last_of_equal_keys_counts() {
        assert_eq!(text_of(r#"{"text": 1, "text": "first", "text": "last"}"#), "last");
    }

    #[test]
    fn null_is_no_text_and_no_fault() {
        assert_eq!(parsed(r#"{"text": null}"#).unwrap(), Record { text: None, id: None });
    }

    #[test]
    fn other_values_are_named() {
        for (line, name, words) in [
            (
                r#"{"content": "a", "id": 1}"#,
                "missing_key",
                "(keys present: content, id). Use --text-key content",
            ),
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
        for line in [
            r#"{"text": "\ud800"}"#,
            r#"{"text": "\ude00 \ud83dx"}"#,
            r#"{"text": "\ud83d\u0041"}"#,
        ] {
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
}
