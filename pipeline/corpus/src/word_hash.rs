//! The hash of one word, computed at once.
//!
//! A word of up to 16 bytes is hashed by one multiplication of its two halves. For the bytes of
//! ASCII words, setting one bit is the lower case: it makes `A` to `Z` small, is set in digits and
//! small letters already, and gives `_` a value that no other of them has.

/// The bit that lower-cases an ASCII letter, in each of eight bytes.
const LOWER_CASE: u64 = 0x2020_2020_2020_2020;

/// The highest bit of each of eight bytes, which no ASCII character has.
const BEYOND_ASCII: u64 = 0x8080_8080_8080_8080;

/// Multiplied with the halves of a word; random, with bytes that are in no word (0x13, 0x1A), so
/// that no factor becomes zero.
const FACTORS: [u64; 2] = [0x9E37_79B9_7F4A_7C13, 0xC4CE_B9FE_1A85_EC53];

/// Bytes that are hashed at once.
const PIECE: usize = 16;

/// For each length of a piece, the bits that belong to it in its two halves.
const PIECE_MASKS: [[u64; 2]; PIECE + 1] = {
    let mut masks = [[0; 2]; PIECE + 1];
    let mut length = 1;
    while length <= PIECE {
        masks[length] = masks[length - 1];
        masks[length][(length - 1) / 8] |= 0xFF << (8 * ((length - 1) % 8));
        length += 1;
    }
    masks
};

/// The hash of the ASCII word at `text[start..end]`, in whatever case.
///
/// # Panics
///
/// Where the text has no such bytes.
#[inline]
#[must_use]
pub fn hash_ascii_word(text: &[u8], start: usize, end: usize) -> u64 {
    let mut hash = 0;
    let mut at = start;
    loop {
        let masks = PIECE_MASKS[(end - at).min(PIECE)];
        let [low, high] = two_halves(text, at);
        hash = add_piece(hash, [(low | LOWER_CASE) & masks[0], (high | LOWER_CASE) & masks[1]]);
        at += PIECE;
        if at >= end {
            return hash;
        }
    }
}

/// The same hash of a word in any script, which is in lower case already.
#[must_use]
pub fn hash_lower_case_word(word: &[u8]) -> u64 {
    word.chunks(PIECE).fold(0, |hash, piece| {
        let masks = PIECE_MASKS[piece.len()];
        let halves = two_halves(piece, 0);
        let fold = |half: usize| (halves[half] | (!halves[half] & BEYOND_ASCII) >> 2) & masks[half];
        add_piece(hash, [fold(0), fold(1)])
    })
}

/// The 16 bytes of `text` from `at` on as two numbers; zeros follow where it ends.
#[inline]
fn two_halves(text: &[u8], at: usize) -> [u64; 2] {
    let piece = match text[at..].first_chunk::<PIECE>() {
        Some(piece) => *piece,
        None => {
            let mut piece = [0; PIECE];
            piece[..text.len() - at].copy_from_slice(&text[at..]);
            piece
        }
    };
    let whole = u128::from_le_bytes(piece);
    [whole as u64, (whole >> 64) as u64]
}

/// Adds up to 16 bytes of a word to its hash: the product of the halves, folded to 64 bits as in
/// wyhash. No byte of a word is zero, so that zeros behind its end say how long it is.
#[inline]
fn add_piece(hash: u64, [low, high]: [u64; 2]) -> u64 {
    let product = u128::from(low ^ FACTORS[0] ^ hash) * u128::from(high ^ FACTORS[1]);
    product as u64 ^ (product >> 64) as u64
}
