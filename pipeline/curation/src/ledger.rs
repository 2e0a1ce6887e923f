//! Every document of the input in order, and what was decided about it.
//!
//! Stages look at the documents that are still in, and take some out with a reason and the evidence
//! for it. Nothing is forgotten: reports and lists are made from here at the end.

use std::collections::BTreeMap;

use corpus::{Document, Provenance};

use crate::decontaminate::Contamination;
use crate::dedup::Jaccard;
use crate::filter::DropReason;

/// The documents of a corpus, numbered in input order.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    documents: Vec<Document>,
    removals: Vec<Option<Removal>>,
}

/// Why a document is not in the curated corpus, and what shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) reason: DropReason,
    pub(crate) evidence: Evidence,
}

/// What shows that a removal is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The document itself.
    Itself,
    /// An earlier document, by its number.
    Copy { witness: usize },
    /// An earlier document that was kept, by its number, and the similarity.
    Neighbor { witness: usize, jaccard: Jaccard },
    /// An item of a test set.
    TestItem(Contamination),
}

impl Evidence {
    /// Number of the earlier document that the evidence names, and their similarity from 0 to 1.
    pub(crate) fn witness(&self) -> Option<(usize, f64)> {
        match *self {
            Self::Copy { witness } => Some((witness, 1.0)),
            Self::Neighbor { witness, jaccard } => Some((witness, jaccard.value())),
            Self::Itself | Self::TestItem(_) => None,
        }
    }
}

impl Ledger {
    /// Adds a document that is in.
    pub(crate) fn add(&mut self, document: Document) {
        self.documents.push(document);
        self.removals.push(None);
    }

    /// Adds a document that has no text to judge.
    pub(crate) fn add_without_text(&mut self, provenance: Provenance) {
        self.documents.push(Document { provenance, title: None, text: String::new() });
        let removal = Removal { reason: DropReason::NullText, evidence: Evidence::Itself };
        self.removals.push(Some(removal));
    }

    /// Number of all documents.
    pub(crate) fn len(&self) -> usize {
        self.documents.len()
    }

    /// The document of a number.
    pub(crate) fn document(&self, number: usize) -> &Document {
        &self.documents[number]
    }

    /// Why a document was taken out; `None` while it is in.
    pub(crate) fn removal(&self, number: usize) -> Option<&Removal> {
        self.removals[number].as_ref()
    }

    /// Takes out a document that is in.
    pub(crate) fn remove(&mut self, number: usize, reason: DropReason, evidence: Evidence) {
        let removal = &mut self.removals[number];
        assert!(removal.is_none(), "document {number} was taken out before");
        *removal = Some(Removal { reason, evidence });
    }

    /// Numbers of the documents that are in, ascending.
    pub(crate) fn kept(&self) -> Vec<usize> {
        (0..self.len()).filter(|&number| self.removals[number].is_none()).collect()
    }

    /// How many documents were taken out for each reason that occurred.
    pub(crate) fn dropped(&self) -> BTreeMap<DropReason, u64> {
        let mut dropped = BTreeMap::new();
        for removal in self.removals.iter().flatten() {
            *dropped.entry(removal.reason).or_default() += 1;
        }
        dropped
    }
}
