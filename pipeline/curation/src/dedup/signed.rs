//! Shingle sets and signatures of many documents, made in parallel and held in flat buffers.

use corpus::Observer;
use rayon::prelude::*;

use super::bands::BandLayout;
use super::greedy::NearDuplicateRule;
use super::shingles::shingles;
use super::signature::signature;
use crate::CurationError;
use crate::stop::stop_if_asked;

/// Documents of one buffer; also the unit of parallel work.
const BLOCK_DOCUMENTS: usize = 64;

/// The shingle set and the signature of each of a list of texts, numbered as the list is.
///
/// Takes 8 bytes per distinct shingle (about 1.4 times the size of English text) and 4 bytes per
/// bin of a signature.
#[derive(Debug)]
pub struct SignedDocuments {
    blocks: Vec<SignedBlock>,
    layout: BandLayout,
    num_documents: usize,
}

/// [`BLOCK_DOCUMENTS`] consecutive documents.
#[derive(Debug)]
struct SignedBlock {
    /// The sets of all documents, one after another.
    shingles: Vec<u64>,
    /// Where in `shingles` the set of each document ends.
    ends: Vec<usize>,
    /// The signatures of all documents, one after another; zeros for a text without words.
    signatures: Vec<u32>,
}

impl SignedDocuments {
    /// Signs `texts`, on all threads of the current rayon pool; the result does not depend on their
    /// number.
    ///
    /// The observer hears the bytes of text that are done.
    ///
    /// # Errors
    ///
    /// [`CurationError::Stopped`] when the observer asked for it.
    pub fn sign(
        texts: &[&str],
        rule: &NearDuplicateRule,
        observer: &dyn Observer,
    ) -> Result<Self, CurationError> {
        let blocks = texts
            .par_chunks(BLOCK_DOCUMENTS)
            .map(|block| {
                let signed = SignedBlock::sign(block, rule, observer)?;
                observer.advance(block.iter().map(|text| text.len() as u64).sum());
                Ok(signed)
            })
            .collect::<Result<Vec<_>, CurationError>>()?;
        Ok(Self { blocks, layout: rule.layout, num_documents: texts.len() })
    }

    /// Number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.num_documents
    }

    /// Whether there is no document at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.num_documents == 0
    }

    /// The sorted shingle set of a document.
    #[must_use]
    pub fn shingles(&self, document: usize) -> &[u64] {
        let (block, place) = (&self.blocks[document / BLOCK_DOCUMENTS], document % BLOCK_DOCUMENTS);
        let start = if place == 0 { 0 } else { block.ends[place - 1] };
        &block.shingles[start..block.ends[place]]
    }

    /// The signature of a document; without meaning where it has no shingles.
    #[must_use]
    pub fn signature(&self, document: usize) -> &[u32] {
        let (block, place) = (&self.blocks[document / BLOCK_DOCUMENTS], document % BLOCK_DOCUMENTS);
        let bins = self.layout.bins();
        &block.signatures[place * bins..(place + 1) * bins]
    }
}

impl SignedBlock {
    fn sign(
        texts: &[&str],
        rule: &NearDuplicateRule,
        observer: &dyn Observer,
    ) -> Result<Self, CurationError> {
        let bins = rule.layout.bins();
        let mut block = Self {
            shingles: Vec::new(),
            ends: Vec::with_capacity(texts.len()),
            signatures: vec![0; texts.len() * bins],
        };
        let mut set = Vec::new();
        for (text, signature_out) in texts.iter().zip(block.signatures.chunks_exact_mut(bins)) {
            stop_if_asked(observer)?;
            shingles(text, rule.shingle_words, &mut set);
            if !set.is_empty() {
                signature(&set, rule.seed, signature_out);
            }
            block.shingles.extend_from_slice(&set);
            block.ends.push(block.shingles.len());
        }
        block.shingles.shrink_to_fit();
        Ok(block)
    }
}
