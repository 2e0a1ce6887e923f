//! What became of the documents of each source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::filter::DropReason;

/// Documents of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCounts {
    /// In the input.
    #[serde(rename = "in")]
    pub documents_in: u64,
    /// In the curated corpus.
    pub kept: u64,
    /// Number of documents dropped, for each reason that occurred.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Tokens in the curated corpus, ends of documents among them.
    pub tokens: u64,
    /// Bytes of text in the input.
    pub bytes: u64,
    /// Bytes of text in the curated corpus.
    pub bytes_kept: u64,
}

impl SourceCounts {
    /// Counts a document of the curated corpus.
    pub fn add_kept(&mut self, text_bytes: u64, tokens: u64) {
        self.documents_in += 1;
        self.kept += 1;
        self.tokens += tokens;
        self.bytes += text_bytes;
        self.bytes_kept += text_bytes;
    }

    /// Counts a document that went.
    pub fn add_dropped(&mut self, text_bytes: u64, reason: DropReason) {
        self.documents_in += 1;
        self.bytes += text_bytes;
        *self.dropped.entry(reason).or_default() += 1;
    }

    /// Documents that went.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.documents_in - self.kept
    }
}

/// The counts of all sources together.
#[must_use]
pub fn total<'s>(sources: impl IntoIterator<Item = &'s SourceCounts>) -> SourceCounts {
    let mut total = SourceCounts::default();
    for source in sources {
        total.documents_in += source.documents_in;
        total.kept += source.kept;
        total.tokens += source.tokens;
        total.bytes += source.bytes;
        total.bytes_kept += source.bytes_kept;
        for (&reason, count) in &source.dropped {
            *total.dropped.entry(reason).or_default() += count;
        }
    }
    total
}

/// A warning for each source that lost more than half of its documents.
pub(crate) fn source_warnings(sources: &BTreeMap<String, SourceCounts>) -> Vec<String> {
    sources
        .iter()
        .filter(|(_, counts)| 2 * counts.lost() > counts.documents_in)
        .map(|(name, counts)| {
            let share = 100.0 * counts.lost() as f64 / counts.documents_in as f64;
            format!(
                "source {name} lost {share:.0}% of its documents ({} of {}{})",
                counts.lost(),
                counts.documents_in,
                main_reason(counts)
            )
        })
        .collect()
}

/// `, 12 of them near_duplicate`: the reason for which most went, the first of equals.
fn main_reason(counts: &SourceCounts) -> String {
    let most = counts.dropped.iter().rev().max_by_key(|(_, count)| **count);
    most.map_or_else(String::new, |(reason, count)| format!(", {count} of them {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(kept: u64, dropped: &[(DropReason, u64)]) -> SourceCounts {
        let mut counts = SourceCounts::default();
        (0..kept).for_each(|_| counts.add_kept(10, 3));
        for &(reason, count) in dropped {
            (0..count).for_each(|_| counts.add_dropped(4, reason));
        }
        counts
    }

    #[test]
    fn what_is_kept_and_what_goes_make_up_what_came_in() {
        let one = counts(2, &[(DropReason::TooShort, 3), (DropReason::NearDuplicate, 1)]);
        assert_eq!((one.documents_in, one.kept, one.lost(), one.tokens), (6, 2, 4, 6));
        assert_eq!((one.bytes, one.bytes_kept), (36, 20));
        let all = total([&one, &counts(1, &[(DropReason::TooShort, 1)])]);
        assert_eq!((all.documents_in, all.kept, all.tokens, all.bytes), (8, 3, 9, 50));
        assert_eq!(all.dropped, [(DropReason::TooShort, 4), (DropReason::NearDuplicate, 1)].into());
    }

    #[test]
    fn a_source_that_loses_more_than_half_is_warned_of() {
        let sources = [
            ("a".to_owned(), counts(1, &[(DropReason::TooShort, 1)])),
            ("b".to_owned(), counts(1, &[(DropReason::Empty, 1), (DropReason::TooShort, 1)])),
            ("c".to_owned(), counts(0, &[(DropReason::Empty, 1), (DropReason::NearDuplicate, 3)])),
        ];
        assert_eq!(
            source_warnings(&sources.into()),
            [
                "source b lost 67% of its documents (2 of 3, 1 of them empty)",
                "source c lost 100% of its documents (4 of 4, 3 of them near_duplicate)"
            ]
        );
    }
}
