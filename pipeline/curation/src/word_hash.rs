//! Hashes of runs of words: what shingles and the search for test data are made of.
//!
//! The hash of a run of words is a polynomial in [`K`] over theirs, rolled from one run to the next,
//! so that its cost does not depend on its length.

/// Multiplier of the word hash and of the polynomial over word hashes; `K ≡ 3 mod 8`, so that
/// exchanging two words of a run of five loses at most four of the 64 bits that tell the two apart.
pub(crate) const K: u64 = 0x9E37_79B9_7F4A_7C13;

/// The hash of a whole text of few words; differs from that of any run of words.
pub(crate) fn hash_short_text(words: &[u64]) -> u64 {
    // Begins with the number of words, where a run begins with 0.
    mix(words.iter().fold(words.len() as u64, |sum, &word| append(sum, word)))
}

/// Replaces word hashes, in text order, by the hashes of the runs of `run_words` words that start
/// at each of them.
///
/// A text of fewer words has no run.
pub(crate) fn words_to_runs(hashes: &mut Vec<u64>, run_words: usize) {
    let Some(num_runs) = (hashes.len() + 1).checked_sub(run_words) else {
        hashes.clear();
        return;
    };
    // The word that leaves a run was multiplied by K^(run_words - 1). Each hash is overwritten once
    // the last run that needs it is made.
    let leaving_factor = (1..run_words).fold(1_u64, |power, _| power.wrapping_mul(K));
    let mut rolling = hashes[..run_words - 1].iter().fold(0, |sum, &word| append(sum, word));
    for first in 0..num_runs {
        let leaving = hashes[first];
        rolling = append(rolling, hashes[first + run_words - 1]);
        hashes[first] = mix(rolling);
        rolling = rolling.wrapping_sub(leaving.wrapping_mul(leaving_factor));
    }
    hashes.truncate(num_runs);
}

/// Adds a word's hash to a run's polynomial.
fn append(sum: u64, word: u64) -> u64 {
    sum.wrapping_mul(K).wrapping_add(word)
}

/// Spreads every bit of `value` over all 64: the finalizer of MurmurHash3.
#[inline]
pub(crate) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    value = (value ^ (value >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    value ^ (value >> 33)
}

#[cfg(test)]
mod tests {
    use corpus::hash_ascii_word;

    use super::*;

    #[test]
    fn a_run_has_the_same_hash_wherever_it_stands() {
        let runs = |words: &[u64], run_words| {
            let mut hashes = words.to_vec();
            words_to_runs(&mut hashes, run_words);
            hashes
        };
        let words: Vec<u64> = (0..40).map(|n| mix(n % 13)).collect();
        for run_words in [1, 2, 5, 8, 40] {
            let all = runs(&words, run_words);
            assert_eq!(all.len(), 41 - run_words);
            for (place, window) in words.windows(run_words).enumerate() {
                assert_eq!(runs(window, run_words), [all[place]]);
            }
        }
        assert!(runs(&words, 41).is_empty() && runs(&[], 1).is_empty() && runs(&[], 2).is_empty());
    }

    #[test]
    fn order_and_number_of_words_matter() {
        let run = |mut words: Vec<u64>| {
            let length = words.len();
            words_to_runs(&mut words, length);
            words[0]
        };
        let [a, b] = [hash_ascii_word(b"a", 0, 1), hash_ascii_word(b"b", 0, 1)];
        assert_ne!(run(vec![a, b]), run(vec![b, a]));
        assert_ne!(run(vec![a, a]), run(vec![a]));
        assert_ne!(run(vec![a, b]), hash_short_text(&[a, b]));
    }
}
