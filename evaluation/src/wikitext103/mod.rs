//! WikiText103 perplexity, by one of two protocols whose numbers do not compare.
//!
//! | | [`megatron`] | [`lm_eval`] |
//! |---|---|---|
//! | file | `wiki.test.tokens`, rare words as `<unk>` | `wiki.test.raw`, with all words |
//! | cut into | nothing: one stream | pages, at lines like level-1 headings |
//! | before the first token | nothing, it is no target | the token that ends documents |
//! | windows | one every `overlap` tokens | disjoint, the last one filled up from before |
//! | words | between single spaces, less one | between runs of white space, with empty ends |
//!
//! One model can have 13.0 by the one and 8.8 by the other. Both undo the text's tokenization by the
//! same rules, those of [`detokenizer`](crate::detokenizer).

mod articles;
mod form;
pub mod lm_eval;
pub mod megatron;
mod test_text;

use std::path::PathBuf;

pub use articles::{Article, cut};
use corpus::Observer;
pub use form::Form;
pub use megatron::{Counts, Measured, Metrics, Settings};
pub use test_text::TestText;

use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::model::EvaluatedModel;
use crate::protocol::Protocol;
use crate::report::TaskResult;
use crate::summary::TaskSummary;

/// What reports call the task on the benchmark's own text.
pub const NAME: &str = "wikitext103";

/// Word perplexity of a text in WikiText103's form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WikiText103 {
    /// What the report calls the task: [`NAME`] for the benchmark, another name for any other text.
    pub name: String,
    /// The test file.
    pub data: PathBuf,
    /// Whose rules.
    pub protocol: Protocol,
}

impl WikiText103 {
    /// Scores the text of the test file with `model`.
    ///
    /// # Errors
    ///
    /// When the file cannot be used, a setting does not fit the model, the model fails or gives a
    /// loss that is no number, or `observer` asks to stop.
    pub fn run(
        &self,
        model: &mut EvaluatedModel,
        plan: &EvalPlan,
        observer: &dyn Observer,
    ) -> Result<TaskResult, EvalError> {
        match self.protocol {
            Protocol::Megatron => megatron::run(self, model, plan, observer),
            Protocol::LmEval => lm_eval::run(self, model, plan, observer),
        }
    }

    /// What [`run`](Self::run) would do.
    ///
    /// # Errors
    ///
    /// When the file cannot be used, or a setting does not fit the model.
    pub fn summary(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<TaskSummary, EvalError> {
        match self.protocol {
            Protocol::Megatron => megatron::summary(self, model, plan),
            Protocol::LmEval => lm_eval::summary(self, model, plan),
        }
    }
}
