//! What was found for Figure 7.

use anyhow::{Context, bail};
use training::FINAL_STEPS;
use training::model::Arrangement as ModelArrangement;

use super::super::journal::Journal;
use super::super::parts::{Part, Parts};
use super::super::report::figure7::{Arrangement, Figure7, GradNormPoint, Run, peaks};
use super::super::report::{Ground, Training, thinned};
use super::runs::{self, CURVE_POINTS, MetricsLine};
use super::{field, result};

/// All that was found, on `ground`.
///
/// # Errors
///
/// Where the output of a part cannot be read.
pub(super) fn gather(
    parts: &Parts<'_>,
    journal: &Journal,
    ground: Ground,
) -> anyhow::Result<Figure7> {
    let runs = (0..parts.config.sizes.len()).map(|size| run(parts, journal, size));
    Ok(Figure7 { ground, runs: runs.collect::<Result<_, _>>()? })
}

fn run(parts: &Parts<'_>, journal: &Journal, size: usize) -> anyhow::Result<Run> {
    let section = &parts.config.sizes[size];
    let bert = section.bert().context("figure 7 is of BERT")?;
    let trained = result(parts, journal, Part::Train(size))?;
    let (model, parameters) = runs::model(parts, journal, size)?;
    let lines = runs::metrics(parts, size)?;
    let norms = grad_norms(&lines);
    Ok(Run {
        name: section.name.clone(),
        arrangement: match bert.arrangement {
            ModelArrangement::PreNorm => Arrangement::PreNorm,
            ModelArrangement::PostNorm => Arrangement::PostNorm,
        },
        model,
        parameters,
        parameters_without_padding: field(trained, "parameters")?,
        training: training(parts, journal, size, &lines)?,
        validation_targets: lines.iter().rev().find_map(|line| line.targets),
        largest_grad_norm: largest_behind_warmup(parts, &norms),
        grad_norm_curve: peaks(&norms, CURVE_POINTS),
        diverged_at: field(trained, "diverged_at")?,
        peak_rss_bytes: runs::peak_rss_bytes(parts, journal, size),
    })
}

/// How a model was trained, its losses being those of masked tokens alone.
fn training(
    parts: &Parts<'_>,
    journal: &Journal,
    size: usize,
    lines: &[MetricsLine],
) -> anyhow::Result<Training> {
    let losses = runs::curve(lines, |line| line.mlm_loss);
    if losses.is_empty() && !lines.is_empty() {
        bail!("the metrics of {} have no mlm_loss", parts.size(size));
    }
    let last = &losses[losses.len().saturating_sub(FINAL_STEPS)..];
    let final_loss = last.iter().map(|point| point.loss).sum::<f64>() / last.len() as f64;
    Ok(Training {
        final_loss: final_loss.is_finite().then_some(final_loss),
        loss_curve: thinned(losses, CURVE_POINTS),
        ..runs::training(parts, journal, size)?
    })
}

fn grad_norms(lines: &[MetricsLine]) -> Vec<GradNormPoint> {
    let point = |line: &MetricsLine| {
        Some(GradNormPoint { tokens: line.tokens, grad_norm: line.grad_norm? })
    };
    lines.iter().filter_map(point).collect()
}

/// The largest norm of the steps behind the warm-up.
fn largest_behind_warmup(parts: &Parts<'_>, norms: &[GradNormPoint]) -> Option<f64> {
    let warmup = parts.config.train.schedule.warmup_steps.unwrap_or(0) as usize;
    let norms = norms.iter().skip(warmup).map(|point| point.grad_norm);
    norms.filter(|norm| norm.is_finite()).reduce(f64::max)
}
