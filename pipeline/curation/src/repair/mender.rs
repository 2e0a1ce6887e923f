//! The repair itself, line by line, on top of `plsfix`.

use corpus::Observer;
use plsfix::fix_text;

use crate::CurationError;
use crate::stop::stop_if_asked;

/// Bytes of a line that are mended at once. `plsfix` would cut a line of a million bytes wherever
/// it likes, in the middle of a character too.
const MAX_PIECE_BYTES: usize = 64 << 10;

/// `plsfix` with its defaults, which are those of `ftfy`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mender;

impl Mender {
    /// The mended text; `None` where nothing is changed.
    pub(super) fn mend(
        self,
        text: &str,
        observer: &dyn Observer,
    ) -> Result<Option<String>, CurationError> {
        // The text up to the first change is copied when there is one.
        let mut mended: Option<String> = None;
        let mut offset = 0;
        let mut has_markup = false;
        for piece in text.split_inclusive('\n').flat_map(pieces) {
            has_markup |= piece.contains('<');
            let changed = if needs_no_mending(piece, has_markup) {
                None
            } else {
                stop_if_asked(observer)?;
                Some(fix_text(piece, None)).filter(|fixed| fixed != piece)
            };
            match (&mut mended, changed) {
                (None, None) => {}
                (None, Some(changed)) => mended = Some(text[..offset].to_owned() + &changed),
                (Some(mended), changed) => mended.push_str(changed.as_deref().unwrap_or(piece)),
            }
            offset += piece.len();
        }
        Ok(mended)
    }
}

/// Whether a piece is left alone: plain ASCII, or one whose entities must stay.
///
/// After a `<` a text is taken for HTML or for a text about it, in which `&lt;` means what it says,
/// as `ftfy` does by default. `plsfix` resolves entities nevertheless, so that such a line is not
/// given to it.
fn needs_no_mending(piece: &str, has_markup: bool) -> bool {
    let has_ampersand = piece.contains('&');
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if has_ampersand { has_markup } else { piece.bytes().all(is_plain) }
}

/// A line, or parts of a long one: cut behind a space where there is one.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let end = if rest.len() <= MAX_PIECE_BYTES {
            rest.len()
        } else {
            let longest = rest.floor_char_boundary(MAX_PIECE_BYTES);
            rest[..longest].rfind(' ').map_or(longest, |space| space + 1)
        };
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use corpus::Silent;
    use proptest::prelude::*;

    use super::*;

    fn mended(text: &str) -> Option<String> {
        Mender.mend(text, &Silent).unwrap()
    }

    /// Expected values: `ftfy.fix_text` of ftfy 6.3.1.
    #[test]
    fn mojibake_entities_line_ends_and_controls_are_mended() {
        for (broken, text) in [
            ("The Mona Lisa doesnâ€™t have eyebrows.", "The Mona Lisa doesn't have eyebrows."),
            ("âœ” No problems", "✔ No problems"),
            ("sÃ³", "só"),
            ("l\u{e2}\u{80}\u{99}humanit\u{e9}", "l'humanité"),
            ("caf&eacute; &amp; bar", "café & bar"),
            ("one\r\ntwo\rthree", "one\ntwo\nthree"),
            ("\u{201c}quoted\u{201d}", "\"quoted\""),
            ("ﬂow Ａ", "flow A"),
            ("Cafe\u{301}", "Café"),
            ("bell\u{7}", "bell"),
        ] {
            assert_eq!(mended(broken).as_deref(), Some(text), "{broken}");
            assert_eq!(mended(text), None, "{text} is mended");
            let around = format!("as it is\n{broken}\nas it is, too\n");
            assert_eq!(mended(&around), Some(format!("as it is\n{text}\nas it is, too\n")));
        }
    }

    #[test]
    fn sound_text_of_any_script_stays() {
        for text in ["", "plain\tASCII\n", "naïve café", "Привет", "日本語の本", "😀", "ü", "Ã"]
        {
            assert_eq!(mended(text), None, "{text}");
        }
    }

    #[test]
    fn entities_stay_in_a_text_with_markup() {
        let text = "Write &amp; first.\nThe tag <b> is written &lt;b&gt;.\nCafÃ©\n";
        let expected = "Write & first.\nThe tag <b> is written &lt;b&gt;.\nCafé\n";
        assert_eq!(mended(text).as_deref(), Some(expected));
    }

    #[test]
    fn a_line_of_any_length_is_mended_in_pieces() {
        let spaced = "cafÃ© ".repeat(1 << 18);
        assert_eq!(mended(&spaced), Some("café ".repeat(1 << 18)));
        // Three bytes a character, of which no piece holds a part.
        assert_eq!(mended(&"本".repeat(1 << 20)), None);
    }

    proptest! {
        #[test]
        fn what_is_not_looked_at_would_not_change(line in "[ -%'-~\\t]{0,60}\\n?") {
            prop_assert!(needs_no_mending(&line, false));
            prop_assert_eq!(fix_text(&line, None), line);
        }

        #[test]
        fn no_text_makes_it_panic(text in "(\\PC|[Ã-ÿâ€™œ&;#\u{80}-\u{9f}\u{1b}\\r\\n<]){0,80}") {
            let _ = mended(&text);
        }
    }
}
