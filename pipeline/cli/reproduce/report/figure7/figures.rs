//! The figures: losses and gradient norms against tokens seen.

use super::super::curve::at;
use super::super::curves::{self, Curves, Shown};
use super::super::figure::Figure;
use super::super::numerals::{figures as three_figures, loss};
use super::super::words::listed;
use super::facts::Run;
use super::{Figure7Report, GradNormPoint};

/// Losses of masked tokens against tokens; none without a point.
pub(super) fn losses(report: &Figure7Report) -> Option<Figure> {
    let curves = report.found.runs.iter().map(|run| Curves {
        model: run.name.clone(),
        label: run.name.clone(),
        line: at(&run.training.loss_curve),
        marks: at(&run.training.validation_curve),
    });
    let ends = report.found.runs.iter().map(|run| match run.diverged_at {
        Some(step) => format!("{} diverged in step {step}", run.name),
        None => {
            let end = run.training.validation_loss.map_or_else(|| "unknown".to_owned(), loss);
            format!("{} {end}", run.name)
        }
    });
    let shown = Shown {
        id: "losses",
        title: "Loss of masked tokens against tokens seen, by arrangement and depth",
        y_title: "loss of masked tokens, nats",
        names: ["training loss", "validation loss"],
        is_log: false,
        text: loss,
        description: format!(
            "One line for each model: its loss in training. Validation loss at the end: {}.",
            listed(&ends.collect::<Vec<_>>(), "and")
        ),
        caption: "Lines: loss of masked tokens in training, each point the mean of a stretch of steps. \
                  Marks: the same on documents that were held out of training.",
    };
    curves::figure(shown, &curves.collect::<Vec<_>>())
}

/// Gradient norms against tokens; none without a point.
pub(super) fn grad_norms(report: &Figure7Report) -> Option<Figure> {
    let point = |point: &GradNormPoint| (point.tokens, point.grad_norm);
    let curves = report.found.runs.iter().map(|run| Curves {
        model: run.name.clone(),
        label: run.name.clone(),
        line: run.grad_norm_curve.iter().map(point).collect(),
        marks: Vec::new(),
    });
    let largest =
        |run: &Run| Some(format!("{} {}", run.name, three_figures(run.largest_grad_norm?)));
    let largest: Vec<_> = report.found.runs.iter().filter_map(largest).collect();
    let shown = Shown {
        id: "grad-norms",
        title: "Gradient norm against tokens seen, by arrangement and depth",
        y_title: "norm of the gradient before clipping",
        names: ["gradient norm", ""],
        is_log: true,
        text: three_figures,
        description: format!(
            "One line for each model: the norm of its gradient. The largest behind the warm-up: {}.",
            listed(&largest, "and")
        ),
        caption: "The norm of the whole gradient before it is clipped, each point the largest of a \
                  stretch of steps, on a logarithmic axis.",
    };
    curves::figure(shown, &curves.collect::<Vec<_>>())
}
