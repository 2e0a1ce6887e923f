//! What was decided about every document: kept so far, or dropped and why.

use std::collections::BTreeMap;

use crate::CurationError;
use crate::documents::Documents;
use crate::filter::DropReason;

/// One verdict for each document, a byte each.
#[derive(Debug)]
pub(crate) struct Outcomes {
    reasons: Vec<Option<DropReason>>,
    num_kept: u32,
}

impl Outcomes {
    /// The verdicts that reading came to.
    pub(crate) fn of_reading(documents: &Documents) -> Result<Self, CurationError> {
        let mut reasons = Vec::with_capacity(documents.len() as usize);
        for segment in 0..documents.num_segments() {
            for (_, batch) in documents.batches(segment)? {
                reasons.extend((0..batch.len()).map(|row| batch.reason(row)));
            }
        }
        Ok(Self::new(reasons))
    }

    fn new(reasons: Vec<Option<DropReason>>) -> Self {
        let num_kept = reasons.iter().filter(|reason| reason.is_none()).count() as u32;
        Self { reasons, num_kept }
    }

    /// Why a document was dropped; `None` while it is in.
    pub(crate) fn reason(&self, document: u32) -> Option<DropReason> {
        self.reasons[document as usize]
    }

    /// Drops a document that is in.
    pub(crate) fn drop(&mut self, document: u32, reason: DropReason) {
        let verdict = &mut self.reasons[document as usize];
        assert!(verdict.is_none(), "document {document} was dropped before");
        *verdict = Some(reason);
        self.num_kept -= 1;
    }

    /// Number of all documents.
    pub(crate) fn len(&self) -> u32 {
        self.reasons.len() as u32
    }

    /// Number of documents that are in.
    pub(crate) fn num_kept(&self) -> u32 {
        self.num_kept
    }

    /// Numbers of the documents that are in, ascending.
    pub(crate) fn kept(&self) -> impl Iterator<Item = u32> + '_ {
        self.reasons.iter().zip(0..).filter(|(reason, _)| reason.is_none()).map(|(_, it)| it)
    }

    /// How many documents were dropped for each reason that occurred.
    pub(crate) fn dropped(&self) -> BTreeMap<DropReason, u64> {
        let mut dropped = BTreeMap::new();
        for &reason in self.reasons.iter().flatten() {
            *dropped.entry(reason).or_default() += 1;
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_counted_and_no_longer_in() {
        let mut outcomes = Outcomes::new(vec![None, Some(DropReason::Empty), None, None]);
        outcomes.drop(2, DropReason::NearDuplicate);
        assert_eq!(outcomes.kept().collect::<Vec<_>>(), [0, 3]);
        assert_eq!(outcomes.num_kept(), 2);
        let dropped = outcomes.dropped();
        assert_eq!(dropped[&DropReason::Empty], 1);
        assert_eq!(dropped[&DropReason::NearDuplicate], 1);
    }
}
