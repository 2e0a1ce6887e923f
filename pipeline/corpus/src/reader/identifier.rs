//! The identifier in a line of JSON: a string, or a number as it is written.
//!
//! A number of any length identifies a document, so its digits are what counts, not a value that
//! rounds them. Whatever else stands under the key is no identifier, and no fault.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// What stands under the key of the identifier.
pub(super) enum Identifier {
    /// No string and no number, or nothing.
    None,
    /// A string, or a number that its value gives back.
    Known(String),
    /// A number whose digits its value may have lost.
    Rounded,
}

impl Identifier {
    /// The identifier of the object in `text`, where it stands under `key`.
    pub(super) fn written(self, text: &str, key: &str) -> Option<String> {
        match self {
            Self::None => None,
            Self::Known(id) => Some(id),
            Self::Rounded => number_under(text, key).map(str::to_owned),
        }
    }
}

/// The number that the last key `key` of the object in `text` holds, as it is written there. The
/// text is an object of JSON.
fn number_under<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let bytes = text.as_bytes();
    let (mut position, mut depth, mut number) = (0, 0_usize, None);
    while position < bytes.len() {
        match bytes[position] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(bytes, position);
                let after = text[end..].trim_ascii_start();
                if depth == 1
                    && let Some(value) = after.strip_prefix(':')
                    && serde_json::from_str::<Cow<'_, str>>(&text[position..end])
                        .is_ok_and(|found| found == key)
                {
                    number = value.trim_ascii().split([',', '}', ' ', '\t', '\r', '\n']).next();
                }
                position = end;
                continue;
            }
            _ => {}
        }
        position += 1;
    }
    number
}

/// Offset after the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut position = start + 1;
    while let Some(offset) = memchr::memchr2(b'"', b'\\', bytes.get(position..).unwrap_or_default())
    {
        position += offset;
        if bytes[position] == b'"' {
            return position + 1;
        }
        position += 2;
    }
    bytes.len()
}

/// Reads the value under the key of the identifier.
pub(super) struct IdentifierSeed;

impl<'de> DeserializeSeed<'de> for IdentifierSeed {
    type Value = Identifier;

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Identifier, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for IdentifierSeed {
    type Value = Identifier;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an identifier")
    }

    fn visit_str<E: Error>(self, id: &str) -> Result<Identifier, E> {
        Ok(Identifier::Known(id.to_owned()))
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<Identifier, E> {
        Ok(Identifier::Known(id.to_string()))
    }

    fn visit_i64<E: Error>(self, id: i64) -> Result<Identifier, E> {
        Ok(Identifier::Known(id.to_string()))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Identifier, E> {
        Ok(Identifier::Rounded)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Identifier, E> {
        Ok(Identifier::None)
    }

    fn visit_unit<E: Error>(self) -> Result<Identifier, E> {
        Ok(Identifier::None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Identifier, A::Error> {
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Identifier::None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Identifier, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Identifier::None)
    }
}
