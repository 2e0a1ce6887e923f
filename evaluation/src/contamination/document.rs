//! What one document of the corpus shares with a test set, and the documents that share the most.

use std::cmp::Reverse;
use std::ops::Range;

use corpus::Provenance;
use corpus::ngram::FoundNGram;

/// Documents that a report lists.
pub(super) const DOCUMENTS_SHOWN: usize = 20;

/// Bytes of a shared passage that a report shows.
const EXCERPT_BYTES: usize = 300;

/// What a document shares with a test set while it is searched, by n-grams of one size.
#[derive(Debug, Default)]
pub(super) struct Matching {
    numbers: Vec<u32>,
    /// The passage that the last match belongs to, and the longest before it.
    open: Range<usize>,
    longest: Range<usize>,
}

/// What a document shares with a test set.
#[derive(Debug, Clone)]
pub(super) struct Matches {
    /// Positions of the document at which a shared n-gram begins.
    pub(super) positions: u64,
    /// Positions at which any begins.
    pub(super) ngrams: u64,
    /// The shared n-grams: ascending and distinct.
    pub(super) numbers: Vec<u32>,
    /// The beginning of the longest passage that shared n-grams cover, the first of equals.
    pub(super) excerpt: String,
}

/// Where a document stands.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// In a file of text.
    Text(Provenance),
    /// In a data folder: place of the corpus in the plan, number of the document.
    Folder(usize, u64),
}

/// The documents that share the most n-grams with a test set, the first of equals before the
/// others.
#[derive(Debug, Default)]
pub(super) struct Worst {
    documents: Vec<(Place, Matches)>,
    /// A document comes in that shares more n-grams than this.
    threshold: usize,
}

impl Matching {
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        (self.open, self.longest) = (0..0, 0..0);
    }

    /// Adds the next n-gram of the document, in its order.
    #[inline]
    pub(super) fn add(&mut self, found: &FoundNGram) {
        self.numbers.push(found.number);
        if self.numbers.len() > 1 && found.span.start <= self.open.end {
            self.open.end = found.span.end;
        } else {
            self.close();
            self.open = found.span.clone();
        }
    }

    fn close(&mut self) {
        if self.open.len() > self.longest.len() {
            self.longest = self.open.clone();
        }
    }

    /// What the document shares, if anything; of one that shares no more than `threshold` n-grams
    /// the excerpt is left out.
    pub(super) fn matches(&mut self, text: &str, ngrams: u64, threshold: usize) -> Option<Matches> {
        if self.numbers.is_empty() {
            return None;
        }
        let positions = self.numbers.len() as u64;
        self.numbers.sort_unstable();
        self.numbers.dedup();
        if self.numbers.len() <= threshold {
            let numbers = vec![self.numbers[0]];
            return Some(Matches { positions, ngrams, numbers, excerpt: String::new() });
        }
        self.close();
        let passage = &text[self.longest.clone()];
        let excerpt = passage[..passage.floor_char_boundary(EXCERPT_BYTES)].to_owned();
        Some(Matches { positions, ngrams, numbers: self.numbers.clone(), excerpt })
    }
}

impl Worst {
    /// A document that shares no more n-grams than this does not come in, whatever follows.
    pub(super) fn threshold(&self) -> usize {
        self.threshold
    }

    /// Adds the next document of the corpus.
    pub(super) fn add(&mut self, place: Place, matches: Matches) {
        if matches.numbers.len() <= self.threshold {
            return;
        }
        self.documents.push((place, matches));
        if self.documents.len() >= 2 * DOCUMENTS_SHOWN {
            self.cut();
        }
    }

    fn cut(&mut self) {
        // A stable sort keeps the order of the corpus among equals.
        self.documents.sort_by_key(|(_, matches)| Reverse(matches.numbers.len()));
        self.documents.truncate(DOCUMENTS_SHOWN);
        if let Some((_, last)) = self.documents.get(DOCUMENTS_SHOWN - 1) {
            self.threshold = last.numbers.len();
        }
    }

    /// The documents, the worst first.
    pub(super) fn into_documents(mut self) -> Vec<(Place, Matches)> {
        self.cut();
        self.documents
    }
}
