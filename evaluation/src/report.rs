//! The result of an evaluation, as JSON and as a table.
//!
//! A number stands beside everything it depends on. Tools read `results[i].metrics`; people read
//! the table, which prints every setting and count too, so that no figure is copied without its
//! protocol.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use tracing::warn;

use crate::config::EvalPlan;
use crate::identity::{CheckpointKind, ModelIdentity};
use crate::items::Items;
use crate::perplexity::is_cut;
use crate::{contamination, lambada, race, validation, wikitext103};

/// What an evaluation found, one result per task in the plan's order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvalReport {
    /// The results.
    pub results: Vec<TaskResult>,
}

/// What one task found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskResult {
    /// The task's name, as its plan gives it.
    pub task: String,
    /// The metrics with their protocol, counts and settings.
    #[serde(flatten)]
    pub measured: Measured,
    /// Whether a limit left windows or examples unscored: such a result compares with no other.
    pub partial: bool,
    /// Wall time in seconds, from reading the test set to its last loss: of the process that ended
    /// the evaluation, where earlier ones have scored a part.
    pub seconds: f64,
    /// What was found of each item; no part of the report's JSON. `None` for a task without items,
    /// and where a tokenizer that changes its text does not tell which tokens are whose.
    #[serde(skip)]
    pub items: Option<Items>,
}

/// What a task found: metrics `M`, over the counts `C`, under the settings `S`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Findings<M, C, S> {
    /// Whose rules the numbers follow: other programs define others under the same names.
    pub protocol: &'static str,
    /// The numbers.
    pub metrics: M,
    /// What they were computed over.
    pub counts: C,
    /// How.
    pub settings: S,
}

/// What the numbers of every task that scores a model depend on, and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoringSettings {
    /// Tokens that a prediction can see at most: the model's `seq_length`. The paper's models have
    /// 1024.
    pub window: usize,
    /// The model's tokenizer.
    pub tokenizer: String,
    /// Tokens of the model's vocabulary, without padding.
    pub vocab_size: usize,
    /// What happens to the rows that only pad the vocabulary: `masked`, they have no probability and
    /// are never predicted.
    pub padded_vocabulary: &'static str,
    /// The test set.
    pub data: PathBuf,
    /// The model's checkpoint.
    pub checkpoint: PathBuf,
    /// What the checkpoint is.
    pub checkpoint_kind: CheckpointKind,
    /// Optimizer steps that the checkpoint has behind it; `None` where that is not known.
    pub checkpoint_step: Option<u64>,
    /// Ranks that shared each copy of the model.
    pub tensor_parallel_size: usize,
    /// Copies of the model that scored side by side.
    pub data_parallel_size: usize,
    /// Windows, examples or sequences per forward pass.
    pub micro_batch_size: usize,
    /// Windows, pages, examples or sequences after which scoring stopped, where that was asked for.
    pub limit: Option<usize>,
}

impl ScoringSettings {
    /// Those of a plan that has `model` score the test set `data`.
    pub(crate) fn new(data: &Path, model: &ModelIdentity, plan: &EvalPlan) -> Self {
        Self {
            window: model.seq_length(),
            tokenizer: model.tokenizer.name().to_owned(),
            vocab_size: model.vocab_size(),
            padded_vocabulary: "masked",
            data: data.to_owned(),
            checkpoint: model.checkpoint.clone(),
            checkpoint_kind: model.kind,
            checkpoint_step: model.step,
            tensor_parallel_size: plan.tensor_parallel_size.get(),
            data_parallel_size: plan.data_parallel_size.get(),
            micro_batch_size: plan.micro_batch_size.get(),
            limit: plan.limit.map(NonZeroUsize::get),
        }
    }
}

/// Protocol, metrics, counts and settings of a task's kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Measured {
    /// Perplexity of a text in WikiText103's form.
    WikiText103(wikitext103::Measured),
    /// The same text by lm-evaluation-harness's protocol.
    WikiText103LmEval(wikitext103::lm_eval::Measured),
    /// Accuracy on the last words of passages in LAMBADA's form.
    Lambada(lambada::Measured),
    /// The same passages by lm-evaluation-harness's protocol.
    LambadaLmEval(lambada::lm_eval::Measured),
    /// Loss of a GPT-2 on held-out documents.
    Validation(validation::Measured),
    /// Losses of a BERT on held-out documents.
    MaskedLm(validation::masked_lm::Measured),
    /// Accuracy of one model on the questions of RACE.
    Race(Box<race::Measured>),
    /// Accuracy of the vote of several models on them.
    RaceEnsemble(Box<Findings<race::EnsembleMetrics, race::Counts, race::EnsembleSettings>>),
    /// How much of a test set stands in a corpus.
    Contamination(Box<contamination::Measured>),
}

/// Warns of a model that knows less than one to which all tokens are alike.
pub(crate) fn warn_if_worse_than_guessing(
    task: &str,
    token_perplexity: f64,
    model: &ModelIdentity,
) {
    let vocab_size = model.vocab_size();
    if is_cut(token_perplexity) {
        warn!(task, "the mean loss is above 20: the perplexity is cut at exp(20), and really more");
    }
    // A uniform model's perplexity is its vocabulary, give or take the rounding of its losses.
    if token_perplexity > vocab_size as f64 * 1.001 {
        warn!(
            task,
            token_perplexity,
            vocab_size,
            "the model's token perplexity exceeds its vocabulary: guessing among all tokens alike \
             would be better. Is it trained, with this tokenizer, and on text of this kind?"
        );
    }
}

/// The table: per task its metrics, counts and settings, a value a line.
impl fmt::Display for EvalReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, result) in self.results.iter().enumerate() {
            if index > 0 {
                writeln!(formatter)?;
            }
            write!(formatter, "{result}")?;
        }
        Ok(())
    }
}

impl fmt::Display for TaskResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The JSON form is the one list of what a result holds, so the table is made from it.
        let Ok(Value::Object(fields)) = serde_json::to_value(self) else { return Err(fmt::Error) };
        writeln!(formatter, "{} (protocol {})", self.task, text_of(&fields["protocol"]))?;
        if self.partial {
            writeln!(
                formatter,
                "  PARTIAL: a limit left some of the test unscored; compare with nothing"
            )?;
        }
        for section in ["metrics", "counts", "settings"] {
            if let Some(Value::Object(entries)) = fields.get(section) {
                write_section(formatter, section, entries)?;
            }
        }
        if let Measured::Contamination(measured) = &self.measured {
            write!(formatter, "{}", contamination::Tables(measured))?;
        }
        writeln!(formatter, "  {:<9} {:.1} s", "time", self.seconds)
    }
}

fn write_section(
    formatter: &mut fmt::Formatter<'_>,
    section: &str,
    entries: &Map<String, Value>,
) -> fmt::Result {
    let width = entries.keys().map(String::len).max().unwrap_or(0);
    for (index, (name, value)) in entries.iter().enumerate() {
        let title = if index == 0 { section } else { "" };
        if let Value::Array(items) = value
            && items.iter().any(Value::is_object)
        {
            write_items(formatter, name, items)?;
            continue;
        }
        let note = note_on(name, value);
        writeln!(formatter, "  {title:<9} {name:<width$}  {}{note}", text_of(value))?;
    }
    Ok(())
}

/// The items of a list, one a line with its names and values.
fn write_items(formatter: &mut fmt::Formatter<'_>, name: &str, items: &[Value]) -> fmt::Result {
    writeln!(formatter, "  {:<9} {name}", "")?;
    for item in items {
        let fields = item.as_object().into_iter().flatten();
        let fields: Vec<String> =
            fields.map(|(name, value)| format!("{name} {}", text_of(value))).collect();
        writeln!(formatter, "  {:<9}   {}", "", fields.join(", "))?;
    }
    Ok(())
}

/// What a reader of the table has to know of a value that its name does not say.
fn note_on(name: &str, value: &Value) -> &'static str {
    match name {
        _ if name.ends_with("perplexity") && value.as_f64().is_some_and(is_cut) => {
            "  cut at exp(20): the mean loss is above 20"
        }
        "windows_scored" => "  of them, those that score a target",
        _ => "",
    }
}

/// A value without JSON's quotes; an absent one as a dash.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}
