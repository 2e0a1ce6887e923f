//! One line of JSONL to a text, an identifier and a title.
//!
//! Only the keys that matter are turned into values; all others are skipped where they stand.
//! Nearly every line goes the fast road of [`scan`]; this module reads the others, and explains
//! what is wrong. A key that matters and stands twice in one object is a fault: most parsers keep
//! the last value without a word, and the other one, which may be the text, is lost.
//!
//! Two things are read although strict JSON forbids them, because nothing is lost by it: a byte
//! order mark before the object, and raw control characters inside strings, which some exporters
//! fail to escape.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::JsonlConfig;
use super::escapes::{
    escape_control_characters, lone_surrogate, offset_before_escaping, replace_lone_surrogates,
};
use super::identifier::{Identifier, IdentifierSeed};
use super::reject::{PresentKeys, RejectReason};
use super::scan;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a line holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The text; `None` where the key holds `null`.
    pub(super) text: Option<String>,
    /// The identifier, where there is one.
    pub(super) id: Option<String>,
    /// The title, where one is asked for and there is one.
    pub(super) title: Option<String>,
}

/// Why a line is no record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Offset in the line, in bytes.
    pub(super) offset: usize,
    pub(super) reason: RejectReason,
}

/// Reads lines under the keys of one source.
#[derive(Debug)]
pub(super) struct RecordParser<'k> {
    keys: &'k JsonlConfig,
    /// Memory that every line uses again.
    buffer: String,
}

impl<'k> RecordParser<'k> {
    pub(super) fn new(keys: &'k JsonlConfig) -> Self {
        Self { keys, buffer: String::new() }
    }

    /// The text, its identifier and its title in `line`, which has no line feed at its end.
    pub(super) fn parse(&mut self, line: &[u8]) -> Result<Record, Fault> {
        let body = without_mark(line);
        let mark = line.len() - body.len();
        let text = std::str::from_utf8(body).map_err(|error| Fault {
            offset: mark + error.valid_up_to(),
            reason: RejectReason::InvalidUtf8,
        })?;
        self.parse_str(text).map_err(|fault| Fault { offset: mark + fault.offset, ..fault })
    }

    /// [`parse`](Self::parse) after writing U+FFFD for what is no character: invalid UTF-8 and lone
    /// surrogates.
    pub(super) fn parse_replacing(&mut self, line: &[u8]) -> Result<Record, Fault> {
        let text = String::from_utf8_lossy(without_mark(line));
        match lone_surrogate(&text) {
            Some(_) => self.parse_str(&replace_lone_surrogates(&text)),
            None => self.parse_str(&text),
        }
    }

    /// Whether `line` is the beginning of a record whose end is missing, whatever else is wrong
    /// with it.
    pub(super) fn breaks_off(&mut self, line: &[u8]) -> bool {
        match self.parse_replacing(line).map_err(|fault| fault.reason) {
            Err(RejectReason::Truncated) => true,
            // What parsers call a wrong number is one that ends at its sign, point or exponent.
            Err(RejectReason::Syntax { .. })
                if line.last().is_some_and(|last| b"-+.eE".contains(last)) =>
            {
                self.breaks_off(&[line, b"0"].concat())
            }
            _ => false,
        }
    }

    fn parse_str(&mut self, text: &str) -> Result<Record, Fault> {
        match scan::record(text, self.keys, &mut self.buffer) {
            Some(record) => Ok(record),
            None => parse_closely(text, self.keys),
        }
    }
}

/// `bytes` without a byte order mark at their start.
pub(super) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)
}

/// What a line holds, or what is wrong with it.
fn parse_closely(text: &str, keys: &JsonlConfig) -> Result<Record, Fault> {
    if text.trim_ascii().is_empty() {
        return Err(Fault { offset: 0, reason: RejectReason::BlankLine });
    }
    if let Ok(line) = deserialize(text, keys) {
        return judge(line, text, keys);
    }
    // A raw control character is no fault, and must not hide the fault that comes after it.
    let escaped = escape_control_characters(text);
    let escaped = escaped.as_deref().unwrap_or(text);
    let error = match deserialize(escaped, keys) {
        Ok(line) => return judge(line, escaped, keys),
        Err(error) => error,
    };
    if let Some(offset) = lone_surrogate(text)
        && deserialize(&replace_lone_surrogates(escaped), keys).is_ok()
    {
        return Err(Fault { offset, reason: RejectReason::LoneSurrogate });
    }
    if error.is_eof() {
        return Err(Fault { offset: text.len(), reason: RejectReason::Truncated });
    }
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default().to_owned();
    Err(Fault {
        offset: offset_before_escaping(text, escaped, error.column().saturating_sub(1)),
        reason: RejectReason::Syntax { message },
    })
}

fn judge(line: Line<'_>, line_text: &str, keys: &JsonlConfig) -> Result<Record, Fault> {
    let fault = |reason| Fault { offset: 0, reason };
    let Fields { text: text_field, id, title, second } = match line {
        Line::Object(fields) => fields,
        Line::Other(found) => return Err(fault(RejectReason::NotAnObject { found })),
    };
    if let Some(key) = second {
        return Err(fault(RejectReason::DuplicateKey { key }));
    }
    let wrong_type = |key: &str, found| RejectReason::WrongType { key: key.to_owned(), found };
    let text = match text_field {
        Field::Text(text) => Some(text.into_owned()),
        Field::Null => None,
        Field::Other(found) => return Err(fault(wrong_type(&keys.text_key, found))),
        Field::Missing => return Err(fault(missing_key(&keys.text_key, line_text))),
    };
    let title = match (title, &keys.title_key) {
        (Field::Text(title), _) => Some(title.into_owned()),
        (Field::Other(found), Some(key)) => return Err(fault(wrong_type(key, found))),
        _ => None,
    };
    Ok(Record { text, id: id.written(line_text, &keys.id_key), title })
}

/// A line as far as it matters.
enum Line<'de> {
    Object(Fields<'de>),
    Other(&'static str),
}

/// The values under the configured keys.
struct Fields<'de> {
    text: Field<'de>,
    id: Identifier,
    title: Field<'de>,
    /// The first of these keys that stands there a second time.
    second: Option<String>,
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

/// The fault of the object in `text`, which has no key `key`.
fn missing_key(key: &str, text: &str) -> RejectReason {
    let text = replace_lone_surrogates(text);
    let Entries { present, longest } =
        match serde_json::Deserializer::from_str(&text).deserialize_map(EntriesVisitor) {
            Ok(entries) => entries,
            // Values that were passed over may hold what no value can be made of, such as the
            // number 1e999.
            Err(error) => return RejectReason::Syntax { message: error.to_string() },
        };
    let longest = longest.map(|(_, key)| key);
    RejectReason::MissingKey { key: key.to_owned(), present, longest, others_have_it: false }
}

/// What is told of an object that lacks a key.
#[derive(Default)]
struct Entries {
    present: PresentKeys,
    /// Length and key of the longest string; of equally long ones the first.
    longest: Option<(usize, String)>,
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut entries = Entries::default();
        while let Some(key) = object.next_key::<String>()? {
            entries.present.push(&key);
            if let Field::Text(text) = object.next_value_seed(FieldSeed)?
                && entries.longest.as_ref().is_none_or(|(bytes, _)| text.len() > *bytes)
            {
                entries.longest = Some((text.len(), key));
            }
        }
        Ok(entries)
    }
}

/// Methods of a visitor that answers everything but a string, `null` and an object with what it is
/// called.
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
        let (mut text, mut id, mut title) = (Field::Missing, Identifier::None, Field::Missing);
        let (mut met, mut second) = (Vec::new(), None);
        while let Some(key) = object.next_key_seed(KeySeed(self.0))? {
            match key {
                Key::Text => text = object.next_value_seed(FieldSeed)?,
                Key::Id => id = object.next_value_seed(IdentifierSeed)?,
                Key::Title => title = object.next_value_seed(FieldSeed)?,
                Key::Other => {
                    object.next_value::<IgnoredAny>()?;
                    continue;
                }
            }
            if second.is_none() && met.contains(&key) {
                second = Some(key.name(self.0).to_owned());
            }
            met.push(key);
        }
        Ok(Line::Object(Fields { text, id, title, second }))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Line::Other("a string"))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Line::Other("null"))
    }

    name_other_values!(Line::Other);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Text,
    Id,
    Title,
    Other,
}

impl Key {
    fn name(self, keys: &JsonlConfig) -> &str {
        match self {
            Self::Text => &keys.text_key,
            Self::Id => &keys.id_key,
            Self::Title => keys.title_key.as_deref().unwrap_or_default(),
            Self::Other => "",
        }
    }
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
            key if Some(key) == self.0.title_key.as_deref() => Key::Title,
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

#[cfg(test)]
mod tests;
