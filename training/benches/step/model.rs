//! The models whose steps are timed, and what a step sees of them.

use crate::Failure;

/// A GPT-2 and its batch, without dropout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    /// By which the command line calls it.
    pub(crate) name: &'static str,
    pub(crate) layers: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) seq: usize,
    pub(crate) batch: usize,
    /// Tokens of the vocabulary, padded to a multiple of 128 in the model.
    pub(crate) vocabulary: usize,
    /// Steps of a process, of which the first warms up.
    pub(crate) steps: usize,
}

/// The model of most measurements.
pub(crate) const SMALL: Model = Model {
    name: "6x384",
    layers: 6,
    hidden: 384,
    heads: 6,
    seq: 256,
    batch: 4,
    vocabulary: GPT2_VOCABULARY,
    steps: 5,
};

/// A model whose head is no more work than its layers.
const TINY: Model =
    Model { name: "6x128", hidden: 128, heads: 4, vocabulary: 8192, steps: 12, ..SMALL };

/// GPT-2's smallest.
const GPT2_124M: Model = Model {
    name: "12x768",
    layers: 12,
    hidden: 768,
    heads: 12,
    seq: 512,
    batch: 1,
    vocabulary: GPT2_VOCABULARY,
    steps: 4,
};

/// Tokens of GPT-2's tokenizer.
pub(crate) const GPT2_VOCABULARY: usize = 50_257;

pub(crate) const MODELS: [Model; 3] = [SMALL, TINY, GPT2_124M];

impl Model {
    pub(crate) fn named(name: &str) -> Result<Self, Failure> {
        let found = MODELS.into_iter().find(|model| model.name == name);
        found.ok_or_else(|| {
            let names = MODELS.map(|model| model.name).join(", ");
            format!("no model is called {name:?}; there are {names}").into()
        })
    }

    /// Rows of the table of words.
    pub(crate) fn padded_vocabulary(&self) -> usize {
        self.vocabulary.next_multiple_of(128)
    }

    /// Tokens of a step.
    pub(crate) fn tokens(&self) -> usize {
        self.batch * self.seq
    }

    /// The model in words.
    pub(crate) fn describe(&self) -> String {
        let Self { layers, hidden, heads, seq, batch, .. } = self;
        let words = self.padded_vocabulary();
        format!("{layers} x {hidden}, {heads} heads, {words} words, {batch} x {seq} tokens")
    }
}
