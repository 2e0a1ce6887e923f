//! What the search needs to know of a document, and how it is made from the text: [`sign`].
//!
//! The search itself never sees a text. It reads shingle sets and signatures through
//! [`SignedCorpus`], so that they can lie in files; [`SignedDocuments`] holds them in memory.

use corpus::Observer;
use rayon::prelude::*;

use super::rule::NearDuplicateRule;
use super::shingles::shingles;
use super::signature::signature;
use crate::CurationError;
use crate::stop::stop_if_asked;

/// Documents of one buffer; also the unit of parallel work.
const BLOCK_DOCUMENTS: usize = 64;

/// Shingle sets and signatures of documents that are numbered from 0 in input order.
///
/// Reading a document costs no more than a look into memory or a memory map: the search does it
/// many times for one document, from all threads.
pub trait SignedCorpus: Sync {
    /// Number of documents.
    fn len(&self) -> u32;

    /// Whether there is no document at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of a document's shingle set.
    fn num_shingles(&self, document: u32) -> usize;

    /// The shingle set of a document: ascending, each once.
    fn shingles(&self, document: u32) -> &[u64];

    /// The signature of a document, [`NearDuplicateRule::bins`] numbers; without meaning where it
    /// has no shingles.
    fn signature(&self, document: u32) -> &[u32];
}

/// Makes the shingle set and the signature of a text.
///
/// `shingles_out` is overwritten with the set, ascending; `signature_out`, of
/// [`NearDuplicateRule::bins`] numbers, with the signature, or with zeros for a text without words.
/// The result depends on nothing but the text and the rule.
///
/// # Panics
///
/// When `signature_out` has another length.
pub fn sign(
    text: &str,
    rule: &NearDuplicateRule,
    shingles_out: &mut Vec<u64>,
    signature_out: &mut [u32],
) {
    assert_eq!(signature_out.len(), rule.bins(), "numbers of a signature");
    shingles(text, rule.shingle_words, shingles_out);
    if shingles_out.is_empty() {
        signature_out.fill(0);
    } else if !signature_out.is_empty() {
        signature(shingles_out, rule.seed, signature_out);
    }
}

/// The shingle set and the signature of each of a list of texts, held in memory.
///
/// Takes 8 bytes per distinct shingle (about 1.4 times the size of English text) and 4 bytes per
/// number of a signature.
#[derive(Debug)]
pub struct SignedDocuments {
    blocks: Vec<SignedBlock>,
    bins: usize,
    num_documents: u32,
}

/// [`BLOCK_DOCUMENTS`] consecutive documents.
#[derive(Debug)]
struct SignedBlock {
    /// The sets of all documents, one after another.
    shingles: Vec<u64>,
    /// Where in `shingles` the set of each document ends.
    ends: Vec<usize>,
    /// The signatures of all documents, one after another.
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
    ///
    /// # Panics
    ///
    /// With 2^32 texts or more.
    pub fn sign(
        texts: &[&str],
        rule: &NearDuplicateRule,
        observer: &dyn Observer,
    ) -> Result<Self, CurationError> {
        let num_documents = u32::try_from(texts.len()).expect("fewer than 2^32 texts in memory");
        let blocks = texts
            .par_chunks(BLOCK_DOCUMENTS)
            .map(|block| {
                let signed = SignedBlock::sign(block, rule, observer)?;
                observer.advance(block.iter().map(|text| text.len() as u64).sum());
                Ok(signed)
            })
            .collect::<Result<Vec<_>, CurationError>>()?;
        Ok(Self { blocks, bins: rule.bins(), num_documents })
    }

    /// The block that holds a document, and its place there.
    fn block(&self, document: u32) -> (&SignedBlock, usize) {
        let document = document as usize;
        (&self.blocks[document / BLOCK_DOCUMENTS], document % BLOCK_DOCUMENTS)
    }
}

impl SignedCorpus for SignedDocuments {
    fn len(&self) -> u32 {
        self.num_documents
    }

    fn num_shingles(&self, document: u32) -> usize {
        self.shingles(document).len()
    }

    fn shingles(&self, document: u32) -> &[u64] {
        let (block, place) = self.block(document);
        let start = if place == 0 { 0 } else { block.ends[place - 1] };
        &block.shingles[start..block.ends[place]]
    }

    fn signature(&self, document: u32) -> &[u32] {
        let (block, place) = self.block(document);
        &block.signatures[place * self.bins..(place + 1) * self.bins]
    }
}

impl SignedBlock {
    fn sign(
        texts: &[&str],
        rule: &NearDuplicateRule,
        observer: &dyn Observer,
    ) -> Result<Self, CurationError> {
        let bins = rule.bins();
        let mut block = Self {
            shingles: Vec::new(),
            ends: Vec::with_capacity(texts.len()),
            signatures: vec![0; texts.len() * bins],
        };
        let mut set = Vec::new();
        for (place, text) in texts.iter().enumerate() {
            stop_if_asked(observer)?;
            let signature = &mut block.signatures[place * bins..(place + 1) * bins];
            sign(text, rule, &mut set, signature);
            block.shingles.extend_from_slice(&set);
            block.ends.push(block.shingles.len());
        }
        block.shingles.shrink_to_fit();
        Ok(block)
    }
}
