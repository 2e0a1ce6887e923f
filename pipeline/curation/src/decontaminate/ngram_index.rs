//! Which n-grams of the test sets a text holds, and which items hold them.

use std::ops::Range;
use std::path::Path;

use corpus::ngram::SortedHashes;
use corpus::test_set::TestItem;
use corpus::{NormalizedText, Observer};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::screen::{Screen, push_word_ends};
use crate::CurationError;
use crate::stop::stop_if_asked;

/// Bytes of a shared passage that a report shows.
const EXCERPT_BYTES: usize = 300;

/// The n-grams of all items, for one number of words.
pub(super) struct NGramIndex {
    pub(super) ngram_words: usize,
    screen: Screen,
    /// The distinct n-grams, by their hashes.
    numbers: SortedHashes<u128>,
    holders: Holders,
    items: Vec<ItemNGrams>,
}

/// For each n-gram by its number, the items that hold it, ascending.
struct Holders {
    /// The items of all n-grams, one n-gram after the other.
    items: Vec<u32>,
    /// Where those of each n-gram begin, and at last their number.
    starts: Vec<u32>,
}

/// The n-grams of one item.
pub(super) struct ItemNGrams {
    /// Number of the n-gram at each position of the text.
    pub(super) positions: Box<[u32]>,
    /// Number of distinct ones.
    pub(super) distinct: usize,
}

/// What a text has in common with the test sets.
pub(super) struct Matches {
    /// The shared n-grams, by number: ascending and distinct.
    pub(super) ngrams: Vec<u32>,
    /// Each place of a shared n-gram in bytes of the text, and its number, in text order.
    places: Vec<(Range<usize>, u32)>,
    /// Distinct n-grams of the text.
    document_ngrams: usize,
}

/// What a document and one item have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// Index of the item, in the order of the test sets.
    pub item: usize,
    /// Distinct n-grams of the item.
    pub item_ngrams: usize,
    /// Distinct n-grams of the document.
    pub document_ngrams: usize,
    /// Distinct n-grams that both hold.
    pub shared: usize,
    /// Bytes of the document's text that the n-grams behind the verdict cover, in order and without
    /// overlap.
    pub spans: Vec<Range<usize>>,
    /// The longest of these passages, the first of equals: no more than its beginning.
    pub excerpt: String,
}

impl NGramIndex {
    /// Indexes the n-grams of `ngram_words` words, at least one.
    ///
    /// # Errors
    ///
    /// [`CurationError::TestSet`] for a file in which no item has an n-gram;
    /// [`CurationError::Stopped`] where the observer asks to stop.
    pub(super) fn new(
        ngram_words: usize,
        items: &[(TestItem, String)],
        observer: &dyn Observer,
    ) -> Result<Self, CurationError> {
        let hashes = |(_, text): &(TestItem, String)| -> Result<Vec<u128>, CurationError> {
            stop_if_asked(observer)?;
            Ok(NormalizedText::new(text).ngrams(ngram_words).map(|ngram| ngram.hash).collect())
        };
        // Hashes are made twice: to keep those of all positions would take more memory than all
        // else.
        let of_items: Vec<Vec<u128>> = items.par_iter().map(hashes).collect::<Result<_, _>>()?;
        let numbers = SortedHashes::new(of_items.into_iter().flatten().collect());
        let numbered = |item: &(TestItem, String)| -> Result<ItemNGrams, CurationError> {
            let number = |hash| numbers.number(hash).expect("the n-grams of all items are there");
            Ok(ItemNGrams::new(hashes(item)?.into_iter().map(number).collect()))
        };
        let of_items: Vec<ItemNGrams> = items.par_iter().map(numbered).collect::<Result<_, _>>()?;
        let index = Self {
            ngram_words,
            screen: Screen::new(ngram_words, items.iter().map(|(_, text)| text.as_str())),
            holders: Holders::new(numbers.len(), &of_items),
            numbers,
            items: of_items,
        };
        index.check_files(items)?;
        Ok(index)
    }

    /// Refuses a file with which nothing would be found.
    fn check_files(&self, items: &[(TestItem, String)]) -> Result<(), CurationError> {
        let paired: Vec<(&Path, &ItemNGrams)> =
            items.iter().map(|(item, _)| &*item.file).zip(&self.items).collect();
        for of_file in paired.chunk_by(|(one, _), (next, _)| one == next) {
            if of_file.iter().all(|(_, ngrams)| ngrams.distinct == 0) {
                let words = self.ngram_words;
                let problem = format!(
                    "no item has the {words} words of an n-gram, so nothing would be found. Set a \
                     lower ngram_words, or name another file in test_sets"
                );
                return Err(CurationError::test_set(of_file[0].0, problem));
            }
        }
        Ok(())
    }

    /// The n-grams of each item, in the order of the test sets.
    pub(super) fn items(&self) -> &[ItemNGrams] {
        &self.items
    }

    /// Number of distinct n-grams of all items.
    pub(super) fn num_distinct(&self) -> usize {
        self.numbers.len()
    }

    /// What `text` shares with the test sets, if anything; `words` are the hashes of its words,
    /// from the screen.
    pub(super) fn matches(&self, text: &str, words: Vec<u64>) -> Option<Matches> {
        let mut runs = words;
        let hits = self.screen.hits(&mut runs);
        if hits.is_empty() {
            return None;
        }
        let mut ends = Vec::with_capacity(runs.len() + self.ngram_words);
        push_word_ends(text, &mut ends);
        let mut places = Vec::new();
        for stretch in hits.chunk_by(|one, next| one + 1 == *next) {
            self.compare(text, &ends, stretch, &mut places);
        }
        let numbers: Vec<u32> = places.iter().map(|&(_, number)| number).collect();
        let ngrams = distinct(&numbers);
        if ngrams.is_empty() {
            return None;
        }
        runs.sort_unstable();
        runs.dedup();
        Some(Matches { ngrams, places, document_ngrams: runs.len() })
    }

    /// Adds the n-grams at the consecutive positions of a stretch that a test set really holds.
    fn compare(
        &self,
        text: &str,
        ends: &[usize],
        stretch: &[usize],
        places: &mut Vec<(Range<usize>, u32)>,
    ) {
        let (first, last) = (stretch[0], stretch[stretch.len() - 1]);
        let start = if first == 0 { 0 } else { ends[first - 1] };
        let words = NormalizedText::new(&text[start..ends[last + self.ngram_words - 1]]);
        for ngram in words.ngrams(self.ngram_words) {
            if let Some(number) = self.numbers.number(ngram.hash) {
                places.push((start + ngram.span.start..start + ngram.span.end, number));
            }
        }
    }

    /// The first item of whose n-grams the text holds more than half, or that holds more than half
    /// of the text's.
    pub(super) fn covered_item(&self, text: &str, matches: &Matches) -> Option<Shared> {
        let (item, shared) = self.shared_by_item(matches).into_iter().find(|&(item, shared)| {
            2 * shared > self.items[item as usize].distinct || 2 * shared > matches.document_ngrams
        })?;
        let is_of_item = |number: u32| self.holders.of(number).binary_search(&item).is_ok();
        Some(self.shared(text, matches, item, shared, is_of_item))
    }

    /// The item that shares the most n-grams with the text, the first of equals, with all places of
    /// shared n-grams.
    pub(super) fn closest_item(&self, text: &str, matches: &Matches) -> Shared {
        let (item, shared) = self
            .shared_by_item(matches)
            .into_iter()
            .rev()
            .max_by_key(|&(_, shared)| shared)
            .expect("there are matches, and an item holds each");
        self.shared(text, matches, item, shared, |_| true)
    }

    /// The number of distinct n-grams that each item shares with the text, by item, for those that
    /// share any.
    fn shared_by_item(&self, matches: &Matches) -> Vec<(u32, usize)> {
        let mut items: Vec<u32> =
            matches.ngrams.iter().flat_map(|&ngram| self.holders.of(ngram)).copied().collect();
        items.sort_unstable();
        items.chunk_by(|one, next| one == next).map(|same| (same[0], same.len())).collect()
    }

    fn shared(
        &self,
        text: &str,
        matches: &Matches,
        item: u32,
        shared: usize,
        counts: impl Fn(u32) -> bool,
    ) -> Shared {
        let places = matches.places.iter().filter(|(_, number)| counts(*number));
        let spans = joined(places.map(|(span, _)| span.clone()));
        Shared {
            item: item as usize,
            item_ngrams: self.items[item as usize].distinct,
            document_ngrams: matches.document_ngrams,
            shared,
            excerpt: excerpt(text, &spans),
            spans,
        }
    }
}

impl ItemNGrams {
    fn new(positions: Box<[u32]>) -> Self {
        let distinct = distinct(&positions).len();
        Self { positions, distinct }
    }
}

impl Holders {
    /// Who holds each of `num_ngrams` n-grams.
    fn new(num_ngrams: usize, items: &[ItemNGrams]) -> Self {
        let mut starts = vec![0_u32; num_ngrams + 1];
        for ngram in items.iter().flat_map(|item| distinct(&item.positions)) {
            starts[ngram as usize + 1] += 1;
        }
        for ngram in 0..num_ngrams {
            let next = starts[ngram].checked_add(starts[ngram + 1]);
            starts[ngram + 1] = next.expect("the items have fewer than 2^32 n-grams");
        }
        let mut free = starts.clone();
        let mut holders = vec![0; starts[num_ngrams] as usize];
        for (item, number) in items.iter().zip(0..) {
            for ngram in distinct(&item.positions) {
                holders[free[ngram as usize] as usize] = number;
                free[ngram as usize] += 1;
            }
        }
        Self { items: holders, starts }
    }

    /// The items that hold an n-gram.
    fn of(&self, ngram: u32) -> &[u32] {
        let ngram = ngram as usize;
        &self.items[self.starts[ngram] as usize..self.starts[ngram + 1] as usize]
    }
}

/// The distinct ones of some n-grams, ascending.
pub(super) fn distinct(ngrams: &[u32]) -> Vec<u32> {
    let mut distinct = ngrams.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

/// The beginning of the longest span of a text, the first of equals.
fn excerpt(text: &str, spans: &[Range<usize>]) -> String {
    let longest = spans.iter().rev().max_by_key(|span| span.len()).cloned().unwrap_or_default();
    let passage = &text[longest];
    passage[..passage.floor_char_boundary(EXCERPT_BYTES)].to_owned()
}

/// Joins spans, ordered by their start, that overlap or touch.
fn joined(spans: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => joined.push(span),
        }
    }
    joined
}
