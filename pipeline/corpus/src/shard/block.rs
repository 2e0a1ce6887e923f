//! Documents on their way into a shard, as bytes.
//!
//! Threads that encode text each fill a block of their own, and one writer appends the blocks in
//! order: tokens are narrowed to the shard's number format straight from the encoder's buffer, and
//! copied once more into the file.

use super::DType;

/// Tokens of some documents in the number format of a shard.
///
/// What cannot stand in the shard (a token outside the vocabulary, a document without tokens) is
/// noted when it is pushed, and refused by
/// [`ShardWriter::push_block`](super::ShardWriter::push_block), which knows the document's place.
///
/// ```
/// use corpus::shard::ShardBlock;
///
/// let mut block = ShardBlock::new(50_257);
/// block.push_document([&[15496, 995][..], &[50256]]);
/// assert_eq!((block.num_documents(), block.num_tokens(), block.num_bytes()), (1, 3, 6));
/// ```
#[derive(Debug, Clone)]
pub struct ShardBlock {
    vocab_size: usize,
    dtype: DType,
    bytes: Vec<u8>,
    /// Tokens of each sequence.
    lengths: Vec<usize>,
    /// Sequences before the end of each document.
    document_ends: Vec<usize>,
    /// Place of the first token that belongs to no ended sequence, in bytes.
    sequence_start: usize,
    misfit: Option<Misfit>,
}

/// Whether all tokens lie below `vocab_size`, told without a branch for each; `false` may also mean
/// that they have to be looked at.
fn are_all_below(vocab_size: usize, tokens: &[u32]) -> bool {
    let highest = (vocab_size as u32).wrapping_sub(1);
    // The sign of a difference says which is larger where neither number has a sign itself.
    let signs = tokens.iter().fold(0, |signs, &token| signs | token | highest.wrapping_sub(token));
    signs >> 31 == 0
}

/// The first thing in a block that a shard cannot hold.
#[derive(Debug, Clone, Copy)]
pub(super) enum Misfit {
    /// A token outside the vocabulary, in a document of the block.
    Token { token: u32, document: u64 },
    /// A sequence of the block without tokens.
    EmptySequence { sequence: u64 },
}

impl ShardBlock {
    /// An empty block for tokens below `vocab_size`.
    #[must_use]
    pub fn new(vocab_size: usize) -> Self {
        Self::with_dtype(DType::for_vocabulary(vocab_size), vocab_size)
    }

    /// An empty block for tokens below `vocab_size`, which fit into `dtype`.
    pub(super) fn with_dtype(dtype: DType, vocab_size: usize) -> Self {
        Self {
            vocab_size,
            dtype,
            bytes: Vec::new(),
            lengths: Vec::new(),
            document_ends: Vec::new(),
            sequence_start: 0,
            misfit: None,
        }
    }

    /// Adds a document of one sequence, whose tokens are those of `parts` one after another.
    pub fn push_document<'p>(&mut self, parts: impl IntoIterator<Item = &'p [u32]>) {
        for part in parts {
            self.push_tokens(part);
        }
        self.end_document();
    }

    /// Adds tokens to the sequence at hand.
    pub fn push_tokens(&mut self, tokens: &[u32]) {
        self.dtype.encode(tokens, &mut self.bytes);
        if !are_all_below(self.vocab_size, tokens) {
            let outside = tokens.iter().find(|&&token| token as usize >= self.vocab_size);
            if let Some(&token) = outside {
                self.note(Misfit::Token { token, document: self.num_documents() });
            }
        }
    }

    /// Ends the sequence at hand, such as a sentence: the next token begins another one of the same
    /// document.
    pub fn end_sequence(&mut self) {
        let tokens = (self.bytes.len() - self.sequence_start) / self.dtype.width();
        if tokens == 0 {
            self.note(Misfit::EmptySequence { sequence: self.lengths.len() as u64 });
        }
        self.lengths.push(tokens);
        self.sequence_start = self.bytes.len();
    }

    /// Ends the document at hand, and its last sequence with it where that was not ended.
    pub fn end_document(&mut self) {
        let first_sequence = self.document_ends.last().copied().unwrap_or(0);
        let is_empty = self.lengths.len() == first_sequence;
        if is_empty || self.sequence_start < self.bytes.len() {
            self.end_sequence();
        }
        self.document_ends.push(self.lengths.len());
    }

    /// Ends the document at hand, all of whose sequences were ended: it may have none.
    pub fn end_document_of_sequences(&mut self) {
        self.document_ends.push(self.lengths.len());
    }

    /// Makes the block empty, and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
        self.document_ends.clear();
        self.sequence_start = 0;
        self.misfit = None;
    }

    /// Number of documents that were ended.
    #[must_use]
    pub fn num_documents(&self) -> u64 {
        self.document_ends.len() as u64
    }

    /// Number of tokens.
    #[must_use]
    pub fn num_tokens(&self) -> u64 {
        (self.bytes.len() / self.dtype.width()) as u64
    }

    /// Size of the tokens, in bytes.
    #[must_use]
    pub fn num_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the last document was ended.
    pub(super) fn is_complete(&self) -> bool {
        self.sequence_start == self.bytes.len()
            && self.document_ends.last().copied().unwrap_or(0) == self.lengths.len()
    }

    pub(super) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(super) fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn misfit(&self) -> Option<Misfit> {
        self.misfit
    }

    /// Lengths of the sequences of each document, in tokens.
    pub(super) fn documents(&self) -> impl Iterator<Item = &[usize]> {
        let mut start = 0;
        self.document_ends.iter().map(move |&end| {
            let lengths = &self.lengths[start..end];
            start = end;
            lengths
        })
    }

    fn note(&mut self, misfit: Misfit) {
        self.misfit.get_or_insert(misfit);
    }
}
