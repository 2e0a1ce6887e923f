//! Models and their trainings: what the runs have left.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use training::metrics::METRICS_FILE;

use super::super::config::SizeSection;
use super::super::journal::Journal;
use super::super::parts::{Part, Parts, run_of};
use super::super::report::{CurvePoint, ModelShape, Training, thinned};
use super::{field, result};

/// Points of a curve at the most: more than a chart has room for.
pub(super) const CURVE_POINTS: usize = 400;

/// A line of a run's metrics, as far as it is a point of a curve.
#[derive(Debug, Deserialize)]
pub(super) struct MetricsLine {
    /// Tokens seen.
    pub(super) tokens: u64,
    /// Loss of a step.
    pub(super) loss: Option<f64>,
    /// That of masked tokens, where it has other parts.
    pub(super) mlm_loss: Option<f64>,
    /// Norm of a step's gradient before it is clipped.
    pub(super) grad_norm: Option<f64>,
    /// Loss of a validation; of a masked language model that of masked tokens.
    pub(super) validation_loss: Option<f64>,
    /// Targets that a validation scored.
    pub(super) targets: Option<u64>,
}

/// What a run has written down, line by line.
///
/// # Errors
///
/// Where it cannot be read, with the line.
pub(super) fn metrics(parts: &Parts<'_>, size: usize) -> anyhow::Result<Vec<MetricsLine>> {
    read(&parts.out.join(run_of(parts.size(size))).join(METRICS_FILE))
}

fn read(path: &Path) -> anyhow::Result<Vec<MetricsLine>> {
    let cannot = || format!("cannot read {}", path.display());
    let text = fs::read_to_string(path).with_context(cannot)?;
    let line = |(index, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), index + 1))
    };
    text.lines().enumerate().map(line).collect()
}

/// The curve of `value`, where a line has it.
pub(super) fn curve(
    lines: &[MetricsLine],
    value: impl Fn(&MetricsLine) -> Option<f64>,
) -> Vec<CurvePoint> {
    let point = |line: &MetricsLine| Some(CurvePoint { tokens: line.tokens, loss: value(line)? });
    lines.iter().filter_map(point).collect()
}

/// Sizes of the model of `section` and its parameters with the vocabulary padded, as it was trained,
/// whatever --tp says now.
///
/// # Errors
///
/// Where it is not trained.
pub(super) fn model(
    parts: &Parts<'_>,
    journal: &Journal,
    size: usize,
) -> anyhow::Result<(ModelShape, u64)> {
    let section = &parts.config.sizes[size];
    let mut train = parts.config.train_config(section);
    let training = result(parts, journal, Part::Train(size))?;
    train.parallel.tensor_parallel_size = field(training, "tensor_parallel_size")?;
    let plan = train.summary()?;
    Ok((shape(section, plan.padded_vocab_size), plan.parameters))
}

fn shape(section: &SizeSection, padded_vocab_size: u64) -> ModelShape {
    let model = section.model.with_vocab_size(section.vocab_size());
    let layers = model.layers();
    ModelShape {
        num_layers: layers.num_layers,
        hidden_size: layers.hidden_size,
        num_attention_heads: layers.num_attention_heads,
        seq_length: model.seq_length(),
        vocab_size: model.vocab_size(),
        padded_vocab_size,
    }
}

/// How a model was trained.
///
/// # Errors
///
/// Where it is not trained, or what it left cannot be read.
pub(super) fn training(
    parts: &Parts<'_>,
    journal: &Journal,
    size: usize,
) -> anyhow::Result<Training> {
    let result = result(parts, journal, Part::Train(size))?;
    let entry = journal.entry(&parts.key(Part::Train(size))).context("the training is not done")?;
    let lines = metrics(parts, size)?;
    let train = &parts.config.train;
    Ok(Training {
        tokens: field(result, "tokens")?,
        epochs: field(result, "epochs")?,
        steps: field(result, "steps")?,
        global_batch_size: train.batch.global_batch_size.get(),
        lr: train.optimizer.lr,
        tensor_parallel_size: field(result, "tensor_parallel_size")?,
        data_parallel_size: field(result, "data_parallel_size")?,
        final_loss: field(result, "final_loss")?,
        validation_loss: field(result, "validation_loss")?,
        loss_curve: thinned(curve(&lines, |line| line.loss), CURVE_POINTS),
        validation_curve: curve(&lines, |line| line.validation_loss),
        seconds: entry.seconds,
    })
}

/// The most memory that the process held while it worked on a size.
pub(super) fn peak_rss_bytes(parts: &Parts<'_>, journal: &Journal, size: usize) -> Option<u64> {
    let of_size = parts.all(journal).into_iter().filter(|part| part.size() == Some(size));
    let entries = of_size.filter_map(|part| journal.entry(&parts.key(part)));
    entries.filter_map(|entry| entry.peak_rss_bytes).max()
}
