//! The paper's benchmarks, each with its protocol.
//!
//! [`evaluate()`] is the stage: it opens a checkpoint and runs every [`Task`] of an [`EvalPlan`] on
//! it. A task reads a test set, has an [`EvaluatedModel`] compute the loss of its tokens, and makes
//! a [`TaskResult`] that states each number with the counts and the settings it depends on:
//! perplexities of one model differ by tens of percent between protocols, so a number without its
//! settings says nothing. Whose rules a task follows is its [`Protocol`]; how every article or
//! passage went are its [`Items`].
//!
//! | task | modules |
//! |---|---|
//! | WikiText103 perplexity | [`wikitext103`], with [`detokenizer`] and [`windows`] |
//! | LAMBADA accuracy | [`lambada`], with [`cloze`] |
//! | losses on held-out documents | [`validation`] |
//! | RACE accuracy, of one model and of several | [`race`] |
//! | 8-gram contamination, which needs no model | [`contamination`] |
//!
//! Beneath the tasks, `weights` opens a model wherever it comes from, `model` scores `samples` with it
//! in batches ([`batches`] of windows, for example), and `score_log` keeps the scores in a file until the evaluation has ended, so
//! that one that was stopped goes on: `scores_of` says which evaluation they belong to, and `kept`
//! what is kept of a window.
//!
//! What a user writes is [`EvalConfig`]; what it means, [`EvalPlan`]. The result is an
//! [`EvalReport`], as JSON or as a table; [`EvalPlan::summary`] says beforehand what it would take.
//! Nothing here prints.

mod accuracy;
pub mod batches;
pub mod cloze;
mod config;
pub mod contamination;
pub mod detokenizer;
mod error;
mod evaluate;
mod found_model;
mod identity;
mod items;
mod kept;
pub mod lambada;
mod memory;
mod model;
mod perplexity;
mod protocol;
pub mod race;
mod report;
mod samples;
mod score_log;
mod scorer;
mod scores_of;
mod summary;
mod test_file;
pub mod validation;
mod weights;
pub mod wikitext103;
pub mod windows;

pub use accuracy::Accuracy;
pub use config::{EvalConfig, EvalPlan, PartialScores, Task};
pub use error::EvalError;
pub use evaluate::{
    ScoresOnDisk, evaluate, evaluate_ensemble_keeping_scores, evaluate_keeping_scores,
};
pub use identity::{CheckpointKind, ModelIdentity};
pub use items::{ArticleScore, ChoiceScore, ExampleScore, Items, PageScore};
pub use model::{EvaluatedModel, Stage};
pub use protocol::Protocol;
pub use report::{EvalReport, Findings, Measured, ScoringSettings, TaskResult};
pub use scorer::ModelScorer;
pub use summary::{EvalSummary, TaskSummary, summary_of_ensemble};
