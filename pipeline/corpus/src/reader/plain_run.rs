//! The characters of a JSON string up to its next quotation mark or backslash, copied while they
//! are looked for.
//!
//! In prose such a run is some dozens of bytes long, too short for a search and a copy that are
//! each good at long ones. Sixteen bytes are loaded, stored and compared at once, and what is
//! stored too much is written over by the next run.

/// Appends what stands in `source` before its first quotation mark or backslash to `target`, and
/// returns its length in bytes; `None` where there is neither.
pub(super) fn copy_plain_run(source: &str, target: &mut String) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has SSE2.
    let start = unsafe { vector::copy_plain_vectors(source, target) };
    #[cfg(not(target_arch = "x86_64"))]
    let start = Start::Plain(0);
    match start {
        Start::Run(length) => Some(length),
        Start::Plain(length) => {
            let rest = &source[length..];
            let end = memchr::memchr2(b'"', b'\\', rest.as_bytes())?;
            target.push_str(&rest[..end]);
            Some(length + end)
        }
    }
}

/// What was copied of a run from its beginning.
enum Start {
    /// The whole of it, of so many bytes.
    Run(usize),
    /// So many bytes, which end with a character.
    Plain(usize),
}

#[cfg(target_arch = "x86_64")]
mod vector {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
        _mm_storeu_si128,
    };

    use super::Start;

    /// Bytes of a vector.
    const WIDTH: usize = 16;

    /// Copies whole vectors of `source` behind `target` until one holds the end of the run.
    #[target_feature(enable = "sse2")]
    pub(super) fn copy_plain_vectors(source: &str, target: &mut String) -> Start {
        let mark = _mm_set1_epi8(b'"'.cast_signed());
        let backslash = _mm_set1_epi8(b'\\'.cast_signed());
        target.reserve(source.len());
        // SAFETY: what is appended below are whole characters of `source`.
        let target = unsafe { target.as_mut_vec() };
        let filled = target.len();
        let (mut at, mut run) = (0, None);
        while run.is_none() && at + WIDTH <= source.len() {
            // SAFETY: `at + WIDTH` bytes lie in `source`, and `target` has room for as many behind
            // `filled`, since it has room for all of `source` there.
            let bytes = unsafe {
                let bytes = _mm_loadu_si128(source.as_ptr().add(at).cast::<__m128i>());
                let place = target.as_mut_ptr().add(filled + at).cast::<__m128i>();
                _mm_storeu_si128(place, bytes);
                bytes
            };
            let ends = _mm_or_si128(_mm_cmpeq_epi8(bytes, mark), _mm_cmpeq_epi8(bytes, backslash));
            match _mm_movemask_epi8(ends) {
                0 => at += WIDTH,
                ends => run = Some(at + ends.trailing_zeros() as usize),
            }
        }
        // A run ends with a character; the last vector may end within one.
        let length = run.unwrap_or_else(|| source.floor_char_boundary(at));
        // SAFETY: these bytes were written by the loop, and there is room for them.
        unsafe { target.set_len(filled + length) };
        run.map_or(Start::Plain(length), Start::Run)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn run_is_what_a_search_and_a_copy_give() {
        let piece = prop::sample::select(vec![
            "a",
            "é",
            "\u{1f600}",
            " words ",
            "\"",
            "\\",
            "plain text that is long",
        ]);
        proptest!(|(pieces in prop::collection::vec(piece, 0..12), before in "[a-é]{0,20}")| {
            let source = pieces.concat();
            let mut target = before.clone();
            let run = copy_plain_run(&source, &mut target);
            prop_assert_eq!(run, source.find(['"', '\\']));
            if let Some(length) = run {
                prop_assert_eq!(target, before + &source[..length]);
            }
        });
    }
}
