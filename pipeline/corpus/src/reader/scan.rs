//! Lines of JSON as nearly all are: an object whose strings hold no raw control characters, read
//! from its first byte to its last in one pass.
//!
//! This is the fast road beside [`record`](super::record). It decides nothing: whatever is unusual
//! in a line, and whatever is wrong with it, makes it answer `None`, and the line is read again by
//! a parser that explains. What it does answer is what that parser would, which a property test
//! holds it to.
//!
//! A text is copied once into a buffer that serves every line, escapes replaced, and from there
//! into memory of its length.

use super::JsonlConfig;
use super::plain_run::copy_plain_run;
use super::record::Record;

/// Nesting that is followed; what is deeper is read by the other parser.
const MAX_DEPTH: u32 = 64;

/// Longest number that is taken for an identifier as it is written: no such number is beyond the
/// range of its type, which the other parser asks about.
const MAX_NUMBER_BYTES: usize = 300;

/// The record in `line`; `None` where that takes a closer look. `buffer` holds nothing between
/// calls but its memory.
pub(super) fn record(line: &str, keys: &JsonlConfig, buffer: &mut String) -> Option<Record> {
    let line = line.trim_end_matches(['\r', ' ']);
    if line.bytes().fold(false, |found, byte| found | (byte < b' ')) {
        return None;
    }
    Scanner { text: line, at: 0, buffer }.record(keys)
}

struct Scanner<'t, 'b> {
    text: &'t str,
    /// Offset of the next byte.
    at: usize,
    buffer: &'b mut String,
}

impl<'t> Scanner<'t, '_> {
    fn record(mut self, keys: &JsonlConfig) -> Option<Record> {
        let (mut text, mut id, mut title) = (None, None, None);
        self.skip_spaces();
        self.expect(b'{')?;
        loop {
            self.skip_spaces();
            let key = self.plain_string()?;
            self.skip_spaces();
            self.expect(b':')?;
            self.skip_spaces();
            // A second value under a key is a fault, which is not looked for here.
            let is_first = if key == keys.text_key {
                text.replace(self.text_or_null()?).is_none()
            } else if key == keys.id_key {
                id.replace(self.identifier()?).is_none()
            } else if Some(key) == keys.title_key.as_deref() {
                title.replace(self.text_or_null()?).is_none()
            } else {
                self.skip_value()?;
                true
            };
            self.skip_spaces();
            match self.next()? {
                _ if !is_first => return None,
                b',' => {}
                b'}' => break,
                _ => return None,
            }
        }
        self.skip_spaces();
        let is_whole = self.at == self.text.len();
        is_whole.then_some(Record { text: text?, id: id.flatten(), title: title.flatten() })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn skip_spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Goes on to the next quotation mark or backslash, behind it, and tells which it was.
    fn skip_plain(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += memchr::memchr2(b'"', b'\\', rest)?;
        self.next()
    }

    /// A string without escapes.
    fn plain_string(&mut self) -> Option<&'t str> {
        self.expect(b'"')?;
        let start = self.at;
        (self.skip_plain()? == b'"').then(|| &self.text[start..self.at - 1])
    }

    /// A string, or `null`.
    fn text_or_null(&mut self) -> Option<Option<String>> {
        match self.peek()? {
            b'"' => self.string().map(Some),
            _ => self.literal("null").map(|()| None),
        }
    }

    fn literal(&mut self, word: &str) -> Option<()> {
        let is_there = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += word.len();
        is_there.then_some(())
    }

    /// A string whose escapes are replaced by what they stand for.
    fn string(&mut self) -> Option<String> {
        self.expect(b'"')?;
        self.buffer.clear();
        loop {
            self.at += copy_plain_run(&self.text[self.at..], self.buffer)?;
            if self.next()? == b'"' {
                return Some(self.buffer.as_str().to_owned());
            }
            // Escapes often follow one another.
            loop {
                let character = self.escape()?;
                self.buffer.push(character);
                if self.peek()? != b'\\' {
                    break;
                }
                self.at += 1;
            }
        }
    }

    /// The character that an escape stands for, behind its backslash.
    fn escape(&mut self) -> Option<char> {
        Some(match self.next()? {
            b'n' => '\n',
            b'"' => '"',
            b'\\' => '\\',
            b't' => '\t',
            b'/' => '/',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => return self.unicode_escape(),
            _ => return None,
        })
    }

    /// The character of one escape, or of two that are a pair of surrogates.
    fn unicode_escape(&mut self) -> Option<char> {
        let unit = self.four_digits()?;
        if !(0xd800..0xe000).contains(&unit) {
            return char::from_u32(unit);
        }
        self.expect(b'\\')?;
        self.expect(b'u')?;
        let second = self.four_digits()?;
        let is_pair = unit < 0xdc00 && (0xdc00..0xe000).contains(&second);
        let code = 0x1_0000 + ((unit & 0x3ff) << 10 | second & 0x3ff);
        is_pair.then(|| char::from_u32(code)).flatten()
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))
    }

    /// A string, or a number as it is written; whatever else stands there is no identifier.
    fn identifier(&mut self) -> Option<Option<String>> {
        match self.peek()? {
            b'"' => self.string().map(Some),
            b'-' | b'0'..=b'9' => self.number().map(Some),
            _ => self.skip_value().map(|()| None),
        }
    }

    /// A number whose value is surely in the range of its type.
    fn number(&mut self) -> Option<String> {
        let start = self.at;
        self.skip_number()?;
        let number = &self.text[start..self.at];
        let is_in_range = number.len() <= MAX_NUMBER_BYTES && !number.contains(['e', 'E']);
        is_in_range.then(|| number.to_owned())
    }

    fn skip_number(&mut self) -> Option<()> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        // A zero stands alone before the point.
        if self.peek()? == b'0' {
            self.at += 1;
        } else {
            self.skip_digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.skip_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek()?, b'+' | b'-') {
                self.at += 1;
            }
            self.skip_digits()?;
        }
        Some(())
    }

    /// At least one digit.
    fn skip_digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn skip_string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        while self.skip_plain()? == b'\\' {
            match self.next()? {
                b'u' => {
                    self.four_digits()?;
                }
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                _ => return None,
            }
        }
        Some(())
    }

    /// A value of any kind, with all that is in it.
    fn skip_value(&mut self) -> Option<()> {
        // Whether each of the arrays and objects that are open is an object, the innermost first.
        let (mut objects, mut depth) = (0_u64, 0);
        loop {
            self.skip_spaces();
            match self.peek()? {
                open @ (b'{' | b'[') => {
                    self.at += 1;
                    self.skip_spaces();
                    let is_object = open == b'{';
                    if self.peek()? == if is_object { b'}' } else { b']' } {
                        self.at += 1;
                    } else {
                        (objects, depth) = (objects << 1 | u64::from(is_object), depth + 1);
                        if depth > MAX_DEPTH {
                            return None;
                        }
                        if is_object {
                            self.skip_key()?;
                        }
                        continue;
                    }
                }
                b'"' => self.skip_string()?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                _ => self.skip_number()?,
            }
            // Behind a value stand the ends of what it is the last of, or the next.
            loop {
                if depth == 0 {
                    return Some(());
                }
                let is_object = objects & 1 == 1;
                self.skip_spaces();
                match self.next()? {
                    b',' => {
                        self.skip_spaces();
                        if is_object {
                            self.skip_key()?;
                        }
                        break;
                    }
                    b'}' if is_object => {}
                    b']' if !is_object => {}
                    _ => return None,
                }
                (objects, depth) = (objects >> 1, depth - 1);
            }
        }
    }

    /// A key and its colon.
    fn skip_key(&mut self) -> Option<()> {
        self.skip_string()?;
        self.skip_spaces();
        self.expect(b':')
    }
}
