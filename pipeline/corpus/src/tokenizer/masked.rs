//! What a masked language model has to know of its vocabulary.

/// Special tokens of a masked language model, by role, in the order in which they are told of.
pub(super) const ROLES: [(&str, &str); 5] = [
    ("cls_token", "[CLS]"),
    ("sep_token", "[SEP]"),
    ("mask_token", "[MASK]"),
    ("pad_token", "[PAD]"),
    ("unk_token", "[UNK]"),
];

/// The special tokens of a masked language model, and which tokens go on with a word.
///
/// ```
/// # fn main() -> Result<(), corpus::CorpusError> {
/// let vocabulary = corpus::tokenizer::open("bert")?.masked_vocabulary()?;
/// assert_eq!((vocabulary.cls, vocabulary.sep, vocabulary.mask), (101, 102, 103));
/// assert!(vocabulary.continues_word(2075), "##ing");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedVocabulary {
    /// Begins every sample: `[CLS]`.
    pub cls: u32,
    /// Ends every segment: `[SEP]`.
    pub sep: u32,
    /// Stands where a token is to be predicted: `[MASK]`.
    pub mask: u32,
    /// Fills a sample up: `[PAD]`.
    pub pad: u32,
    /// Stands for a word that the vocabulary cannot spell: `[UNK]`.
    pub unk: u32,
    /// Whether each token goes on with the word of the one before it.
    continues: Vec<bool>,
}

impl MaskedVocabulary {
    /// The vocabulary whose token `id` goes on with a word where `continues[id]`; `special` are the
    /// tokens of [`ROLES`].
    pub(super) fn new(special: [u32; 5], continues: Vec<bool>) -> Self {
        let [cls, sep, mask, pad, unk] = special;
        Self { cls, sep, mask, pad, unk, continues }
    }

    /// Size of the vocabulary: one more than the highest token.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.continues.len()
    }

    /// Whether `token` goes on with the word of the token before it, as `##ing` does.
    #[must_use]
    pub fn continues_word(&self, token: u32) -> bool {
        self.continues.get(token as usize).is_some_and(|&continues| continues)
    }
}

/// What a tokenizer without the special tokens `missing` lacks, in the user's words.
pub(super) fn lacks(missing: &[&str]) -> String {
    format!(
        "has no {}: a masked language model needs {}. Use bert, or a tokenizer.json of such a model",
        missing.join(", "),
        ROLES.map(|(_, name)| name).join(", ")
    )
}
