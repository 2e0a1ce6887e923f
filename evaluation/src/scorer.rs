//! What computes the scores of a model of each kind.

use std::num::NonZeroUsize;

use training::TrainError;
use training::architecture::Architecture;
use training::inference::{ChoiceScorer, MaskedLmScorer, Scorer};
use training::parameters::ParameterSource;

/// Scores what a model of its architecture can be asked.
#[derive(Debug)]
pub enum ModelScorer {
    /// Windows of text.
    Gpt2(Scorer),
    /// Masked pairs of sentences.
    Bert(MaskedLmScorer),
    /// The answers of questions.
    BertChoice(ChoiceScorer),
}

impl ModelScorer {
    /// Up to `copies` copies of the model, each on `ranks` rank threads, with the weights of
    /// `source`.
    ///
    /// # Errors
    ///
    /// When the sizes do not split over the ranks, or `source` lacks a parameter.
    pub(crate) fn new<S>(
        architecture: &Architecture,
        source: S,
        ranks: NonZeroUsize,
        copies: NonZeroUsize,
    ) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        Ok(match architecture {
            Architecture::Gpt2(config) => {
                Self::Gpt2(Scorer::with_copies(config, source, ranks, copies)?)
            }
            Architecture::Bert(config) => {
                Self::Bert(MaskedLmScorer::with_copies(config, source, ranks, copies)?)
            }
            Architecture::BertChoice(config) => {
                Self::BertChoice(ChoiceScorer::with_copies(config, source, ranks, copies)?)
            }
        })
    }

    /// Copies that there may be, which is how many batches are scored side by side.
    pub(crate) fn num_copies(&self) -> usize {
        match self {
            Self::Gpt2(scorer) => scorer.num_copies(),
            Self::Bert(scorer) => scorer.num_copies(),
            Self::BertChoice(scorer) => scorer.num_copies(),
        }
    }

    /// Copies that there were batches for.
    pub(crate) fn num_copies_made(&self) -> usize {
        match self {
            Self::Gpt2(scorer) => scorer.num_copies_made(),
            Self::Bert(scorer) => scorer.num_copies_made(),
            Self::BertChoice(scorer) => scorer.num_copies_made(),
        }
    }

    /// The scorer of windows.
    ///
    /// # Panics
    ///
    /// When the model is no GPT-2: a task asks models of its kind alone.
    pub(crate) fn gpt2(&mut self) -> &mut Scorer {
        match self {
            Self::Gpt2(scorer) => scorer,
            other => panic!("windows of text for {other:?}"),
        }
    }

    /// The scorer of masked pairs.
    ///
    /// # Panics
    ///
    /// When the model is no BERT: a task asks models of its kind alone.
    pub(crate) fn bert(&mut self) -> &mut MaskedLmScorer {
        match self {
            Self::Bert(scorer) => scorer,
            other => panic!("masked pairs for {other:?}"),
        }
    }

    /// The scorer of answers.
    ///
    /// # Panics
    ///
    /// When the model does not choose among answers: a task asks models of its kind alone.
    pub(crate) fn bert_choice(&mut self) -> &mut ChoiceScorer {
        match self {
            Self::BertChoice(scorer) => scorer,
            other => panic!("questions for {other:?}"),
        }
    }
}

impl From<Scorer> for ModelScorer {
    fn from(scorer: Scorer) -> Self {
        Self::Gpt2(scorer)
    }
}

impl From<ChoiceScorer> for ModelScorer {
    fn from(scorer: ChoiceScorer) -> Self {
        Self::BertChoice(scorer)
    }
}

impl From<MaskedLmScorer> for ModelScorer {
    fn from(scorer: MaskedLmScorer) -> Self {
        Self::Bert(scorer)
    }
}
