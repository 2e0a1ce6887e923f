//! Escapes in JSON text: those that should be there and are not, and those that stand for no
//! character.

/// `text` with raw control characters inside its strings written as escapes; `None` where it has
/// none.
pub(super) fn escape_control_characters(text: &str) -> Option<String> {
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

/// Offset in `text` of what stands at `offset` in `escaped`, which
/// [`escape_control_characters`] made of it.
pub(super) fn offset_before_escaping(text: &str, escaped: &str, offset: usize) -> usize {
    let (mut rest, mut passed) = (escaped.as_bytes(), 0);
    for (index, byte) in text.bytes().enumerate() {
        let width = if rest.first() == Some(&byte) { 1 } else { ESCAPE_BYTES };
        passed += width;
        if passed > offset {
            return index;
        }
        rest = rest.get(width..).unwrap_or_default();
    }
    text.len()
}

/// Offset of the first `\u` escape that is half of a surrogate pair without the other half.
pub(super) fn lone_surrogate(text: &str) -> Option<usize> {
    lone_surrogates(text).next()
}

/// `text` with U+FFFD in place of every lone surrogate; no longer or shorter than before.
pub(super) fn replace_lone_surrogates(text: &str) -> String {
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

    #[test]
    fn control_characters_are_escaped_inside_strings_only() {
        assert_eq!(
            escape_control_characters("{\t\"a\": \"b\tc\\\"\0\"}\r").unwrap(),
            "{\t\"a\": \"b\\u0009c\\\"\\u0000\"}\r"
        );
        assert_eq!(escape_control_characters("{\t\"a\": 1}\r"), None);
    }

    #[test]
    fn offsets_are_found_again_in_front_of_escaping() {
        let text = "{\"a\": \"b\tc\0d\"} x";
        let escaped = escape_control_characters(text).unwrap();
        for (index, letter) in text.char_indices().filter(|(_, it)| !it.is_control()) {
            let offset = escaped.find(letter).unwrap();
            if text.find(letter) == Some(index) && letter != '0' {
                assert_eq!(offset_before_escaping(text, &escaped, offset), index, "{letter}");
            }
        }
        assert_eq!(offset_before_escaping(text, &escaped, escaped.len()), text.len());
    }

    #[test]
    fn only_halves_without_the_other_are_lone() {
        assert_eq!(lone_surrogate(r#""\ud83d\ude00 \\ud800 \u0041""#), None);
        assert_eq!(lone_surrogate(r#""\ud83d\ud83d\ude00""#), Some(1));
        assert_eq!(lone_surrogate(r#""\ud83d\ude00\ude00""#), Some(13));
        assert_eq!(lone_surrogate(r#""\ud8"#), None);
    }

    #[test]
    fn replacing_keeps_the_length() {
        let text = r#""\ude00 \ud83dx \ud83d\ude00 é""#;
        let replaced = replace_lone_surrogates(text);
        assert_eq!(replaced, r#""\ufffd \ufffdx \ud83d\ude00 é""#);
        assert_eq!(replaced.len(), text.len());
    }
}
