//! Why each dropped document went, and what shows it: the results of all stages, joined.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::vec;

use crate::CurationError;
use crate::contaminated::Contaminated;
use crate::decontaminate::Contamination;
use crate::dedup::{Copy, Jaccard};
use crate::exact::copies;
use crate::filter::DropReason;
use crate::near_duplicates::{Decided, InInputOrder};
use crate::outcomes::Outcomes;
use crate::run::Run;

/// What shows that a removal is right.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Evidence {
    /// The document itself.
    Itself,
    /// An earlier document with the same text.
    Copy { first: u32 },
    /// An earlier document that was kept, and the similarity.
    Neighbor { witness: u32, jaccard: Jaccard },
    /// An item of a test set.
    TestItem(Contamination),
}

/// The evidence for every removal, in input order: each stage left its own in that order.
pub(crate) struct Verdicts<'c> {
    outcomes: &'c Outcomes,
    copies: Peekable<vec::IntoIter<Copy>>,
    near_duplicates: InInputOrder,
    /// What decontamination found in the segment at hand; nothing where it is off.
    contaminated: Option<Contaminated>,
    is_decontaminated: bool,
}

impl<'c> Verdicts<'c> {
    /// The verdicts on the documents of `outcomes`.
    pub(crate) fn new(
        outcomes: &'c Outcomes,
        stages: CompletedStages<'_>,
        run: &Run<'_>,
    ) -> Result<Self, CurationError> {
        Ok(Self {
            outcomes,
            copies: if stages.exact_duplicates { copies(run)? } else { Vec::new() }
                .into_iter()
                .peekable(),
            near_duplicates: stages.near_duplicates.in_input_order()?,
            contaminated: None,
            is_decontaminated: stages.decontaminated,
        })
    }

    /// Goes on to the documents of a segment.
    pub(crate) fn enter(&mut self, segment: usize, run: &Run<'_>) -> Result<(), CurationError> {
        if self.is_decontaminated {
            self.contaminated = Some(Contaminated::of_segment(segment, run)?);
        }
        Ok(())
    }

    /// Why the next document that is dropped went; `None` where it is kept. To be asked for every
    /// document, in input order.
    pub(crate) fn of(
        &mut self,
        document: u32,
    ) -> Result<Option<(DropReason, Evidence)>, CurationError> {
        let Some(reason) = self.outcomes.reason(document) else { return Ok(None) };
        let evidence = match reason {
            DropReason::ExactDuplicate => self
                .copies
                .next_if(|copy| copy.document == document)
                .map(|copy| Evidence::Copy { first: copy.first }),
            DropReason::NearDuplicate => self.near_duplicates.take(document)?.map(|removal| {
                Evidence::Neighbor { witness: removal.witness, jaccard: removal.jaccard }
            }),
            DropReason::Contaminated | DropReason::Title => self
                .contaminated
                .as_mut()
                .and_then(Iterator::next)
                .transpose()?
                .filter(|it| it.document == document)
                .map(|it| Evidence::TestItem(it.found)),
            _ => Some(Evidence::Itself),
        };
        let evidence = evidence.expect("every removal by a stage is in that stage's files");
        Ok(Some((reason, evidence)))
    }
}

/// What the stages that need evidence came to.
#[derive(Clone, Copy)]
pub(crate) struct CompletedStages<'c> {
    /// Whether exact duplicates were searched for.
    pub(crate) exact_duplicates: bool,
    /// Whether there were test sets.
    pub(crate) decontaminated: bool,
    pub(crate) near_duplicates: &'c Decided,
}

/// The similarity of each of some removed duplicates with its witness.
pub(crate) fn similarities(
    removed: &BTreeSet<u32>,
    stages: CompletedStages<'_>,
    run: &Run<'_>,
) -> Result<BTreeMap<u32, f64>, CurationError> {
    let mut found = BTreeMap::new();
    if stages.exact_duplicates {
        let copies = copies(run)?.into_iter().map(|copy| (copy.document, 1.0));
        found.extend(copies.filter(|(document, _)| removed.contains(document)));
    }
    stages.near_duplicates.for_each_removal(|removal| {
        if removed.contains(&removal.document) {
            found.insert(removal.document, removal.jaccard.value());
        }
    })?;
    Ok(found)
}

impl Evidence {
    /// The witness and the similarity with it, where the witness is a document.
    pub(crate) fn witness(&self) -> Option<(u32, f64)> {
        match self {
            Self::Copy { first } => Some((*first, 1.0)),
            Self::Neighbor { witness, jaccard } => Some((*witness, jaccard.value())),
            Self::Itself | Self::TestItem(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn witnesses_are_documents() {
        let jaccard = Jaccard { shared: 4, union: 5 };
        assert_eq!(Evidence::Neighbor { witness: 3, jaccard }.witness(), Some((3, 0.8)));
        assert_eq!(Evidence::Copy { first: 2 }.witness(), Some((2, 1.0)));
        assert_eq!(Evidence::Itself.witness(), None);
    }
}
