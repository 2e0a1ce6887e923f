//! Long texts in pieces.
//!
//! Encoding needs working memory of ten times its input and more, and cannot be stopped, so a long
//! text is encoded piece by piece. A piece ends where that changes no token. Only where a text
//! offers no such place, as in a megabyte of one letter, it is cut by force, and the cut is told:
//! the tokens at it may differ from those of the whole.

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'t> {
    pub(super) text: &'t str,
    /// Whether it was cut off by force.
    pub(super) is_forced: bool,
}

/// `text` in pieces of roughly `piece_bytes`, cut between two characters for which `may_cut`
/// answers that the cut changes no token, or at `limit_bytes`, wherever that is.
pub(super) fn pieces(
    text: &str,
    piece_bytes: usize,
    limit_bytes: usize,
    may_cut: impl Fn(char, char) -> bool,
) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = if rest.len() <= piece_bytes {
            Some(rest.len())
        } else {
            place_to_cut(rest, piece_bytes, limit_bytes, &may_cut)
        };
        let (text, tail) = rest.split_at(end.unwrap_or(rest.floor_char_boundary(limit_bytes)));
        rest = tail;
        Some(Piece { text, is_forced: end.is_none() })
    })
}

/// The first place to cut, or the end, from `from` up to `limit` bytes.
fn place_to_cut(
    text: &str,
    from: usize,
    limit: usize,
    may_cut: &impl Fn(char, char) -> bool,
) -> Option<usize> {
    let from = text.floor_char_boundary(from);
    let mut last = None;
    for (offset, next) in text[from..].char_indices() {
        if from + offset > limit {
            return None;
        }
        if last.is_some_and(|last| may_cut(last, next)) {
            return Some(from + offset);
        }
        last = Some(next);
    }
    (text.len() <= limit).then_some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before_space(last: char, next: char) -> bool {
        last != ' ' && next == ' '
    }

    fn cut(text: &str, bytes: usize) -> Vec<&str> {
        pieces(text, bytes, 12, before_space).map(|piece| piece.text).collect()
    }

    #[test]
    fn pieces_end_where_they_may() {
        assert_eq!(cut("one two  three", 4), ["one two", "  three"]);
        assert_eq!(cut("one two  three", 100), ["one two  three"]);
        assert_eq!(cut("", 4), [""; 0]);
        assert_eq!(cut("a      b", 2), ["a      b"]);
    }

    #[test]
    fn only_text_without_a_place_to_cut_is_cut_by_force() {
        let forced = |text| {
            pieces(text, 4, 12, before_space)
                .map(|piece| (piece.text.len(), piece.is_forced))
                .collect::<Vec<_>>()
        };
        assert_eq!(cut("ééééééééé", 4), ["éééééé", "ééé"]);
        assert_eq!(forced("ééééééééé"), [(12, true), (6, false)]);
        assert_eq!(forced("aaaaaaaaaaaa"), [(12, false)]);
        assert_eq!(forced("aaaaaaaaaaaaa"), [(12, true), (1, false)]);
        assert_eq!(forced("aaaaaaaaaaaa b"), [(12, false), (2, false)]);
        assert_eq!(forced("aaaaaaaaaaaaa b"), [(12, true), (3, false)]);
    }
}
