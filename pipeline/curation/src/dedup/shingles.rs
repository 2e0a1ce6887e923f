//! Cutting a text into the set of its word 5-grams.
//!
//! A *shingle* is a run of consecutive [words](super::words), five by default, held as a 64-bit
//! hash; a text is compared by the sorted set of its distinct shingles. A text of fewer words than
//! a shingle has is one shingle as a whole, and a text without words has none and so resembles
//! nothing. Scripts that write no spaces make one long word of a sentence, so near-duplicates in
//! them are not found.
//!
//! The paper says only "Jaccard similarity greater than 0.7" and not of what; the tool that was
//! published with it used character 5-grams. Words are the usual reading since then, and five of
//! them make a chance match rare.

use std::num::NonZeroUsize;

use super::words::push_word_hashes;
use crate::word_hash::{hash_short_text, words_to_runs};

/// Puts the sorted, distinct shingle hashes of `text` into `out`, whose former content is lost.
///
/// `shingle_words` is the number of words of one shingle. The result depends on nothing but the two
/// arguments.
pub fn shingles(text: &str, shingle_words: NonZeroUsize, out: &mut Vec<u64>) {
    out.clear();
    push_word_hashes(text, out);
    if (1..shingle_words.get()).contains(&out.len()) {
        let whole = hash_short_text(out);
        out.clear();
        out.push(whole);
    } else {
        words_to_runs(out, shingle_words.get());
    }
    sort_and_dedup(out);
}

/// The largest number of top bits by which hashes are distributed before they are sorted.
const MAX_BUCKET_BITS: u32 = 12;

/// Larger buckets are sorted by themselves.
const SMALL_BUCKET: u32 = 16;

/// Sorts hashes and removes repeated ones.
///
/// They are distributed by their top bits over about as many buckets as there are hashes. As hashes
/// fill them evenly, nearly all are in order then, and one pass of insertions moves the others.
fn sort_and_dedup(hashes: &mut Vec<u64>) {
    let num_hashes = hashes.len();
    if num_hashes < 16 {
        hashes.sort_unstable();
        hashes.dedup();
        return;
    }
    let bits = (num_hashes.ilog2() + 1).min(MAX_BUCKET_BITS);
    let bucket_of = |hash: u64| (hash >> (u64::BITS - bits)) as usize;

    // First how many fall into each bucket, then where it begins.
    let mut buckets = [0_u32; 1 << MAX_BUCKET_BITS];
    let buckets = &mut buckets[..1 << bits];
    for &hash in &*hashes {
        buckets[bucket_of(hash)] += 1;
    }
    let (mut start, mut largest) = (0, 0);
    for bucket in &mut *buckets {
        largest = largest.max(*bucket);
        start += std::mem::replace(bucket, start);
    }

    // The distributed hashes stand behind the given ones; each bucket's number becomes its end.
    hashes.resize(2 * num_hashes, 0);
    let (given, distributed) = hashes.split_at_mut(num_hashes);
    for &hash in &*given {
        let place = &mut buckets[bucket_of(hash)];
        distributed[*place as usize] = hash;
        *place += 1;
    }
    if largest > SMALL_BUCKET {
        let mut start = 0;
        for &end in &*buckets {
            if end - start > SMALL_BUCKET {
                distributed[start as usize..end as usize].sort_unstable();
            }
            start = end;
        }
    }
    for place in 1..num_hashes {
        let hash = distributed[place];
        let mut free = place;
        while free > 0 && distributed[free - 1] > hash {
            distributed[free] = distributed[free - 1];
            free -= 1;
        }
        distributed[free] = hash;
    }

    // Back to the front, each once: a repeated one is written over by the next.
    let mut distinct = 1;
    given[0] = distributed[0];
    for pair in distributed.windows(2) {
        given[distinct.min(num_hashes - 1)] = pair[1];
        distinct += usize::from(pair[0] != pair[1]);
    }
    hashes.truncate(distinct);
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use proptest::prelude::*;

    use super::*;

    const FIVE: NonZeroUsize = NonZeroUsize::new(5).unwrap();

    fn shingle_set(text: &str) -> Vec<u64> {
        let mut out = vec![99];
        shingles(text, FIVE, &mut out);
        out
    }

    /// Words by the definition: split, then lower-case each.
    fn plain_words(text: &str) -> Vec<String> {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    }

    #[test]
    fn case_spacing_and_punctuation_do_not_matter() {
        let plain = shingle_set("the quick brown fox jumps over the lazy dog_7");
        assert_eq!(plain.len(), 5);
        assert_eq!(shingle_set("The QUICK, brown\nfox -- jumps “over” the (lazy) dog_7!"), plain);
    }

    #[test]
    fn short_texts_are_one_shingle_and_empty_ones_none() {
        assert_eq!(shingle_set("cat").len(), 1);
        assert_eq!(shingle_set("a b c d").len(), 1);
        assert_ne!(shingle_set("cat"), shingle_set("dog"));
        assert_ne!(shingle_set("a b c d"), shingle_set("a b c"));
        assert!(shingle_set("").is_empty());
        assert!(shingle_set(" \n — … !").is_empty());
    }

    #[test]
    fn repeated_shingles_count_once_and_order_is_ascending() {
        let set = shingle_set(&"a b c d e ".repeat(20));
        assert_eq!(set.len(), 5);
        assert!(set.is_sorted());
    }

    proptest! {
        #[test]
        fn any_text_gives_the_distinct_windows_of_its_words(
            text in "([a-cA-C]{1,2}|[ -~]|[Σßé“À-ſ]|\\PC){0,60}",
        ) {
            let words = plain_words(&text);
            let expected: HashSet<Vec<String>> = if words.is_empty() {
                HashSet::new()
            } else if words.len() < 5 {
                HashSet::from([words.clone()])
            } else {
                words.windows(5).map(<[String]>::to_vec).collect()
            };
            prop_assert_eq!(shingle_set(&text).len(), expected.len());
        }

        #[test]
        fn hashes_are_sorted_as_std_does(
            hashes in prop::collection::vec(
                prop_oneof![any::<u64>(), 0_u64..3, Just(u64::MAX)], 0..400),
            repeats in 1_usize..60,
        ) {
            let mut hashes = hashes.repeat(repeats);
            let expected: BTreeSet<u64> = hashes.iter().copied().collect();
            sort_and_dedup(&mut hashes);
            prop_assert_eq!(hashes, Vec::from_iter(expected));
        }
    }
}
