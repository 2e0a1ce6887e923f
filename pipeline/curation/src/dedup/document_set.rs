//! A set of documents, one bit for each of the corpus.

/// A set of documents, one bit for each of the corpus.
pub(super) struct DocumentSet {
    bits: Vec<u64>,
}

impl DocumentSet {
    pub(super) fn empty(num_documents: u32) -> Self {
        Self { bits: vec![0; (num_documents as usize).div_ceil(64)] }
    }

    pub(super) fn insert(&mut self, document: u32) {
        self.bits[document as usize / 64] |= 1 << (document % 64);
    }

    pub(super) fn contains(&self, document: u32) -> bool {
        self.bits[document as usize / 64] >> (document % 64) & 1 == 1
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.bits)
    }
}
