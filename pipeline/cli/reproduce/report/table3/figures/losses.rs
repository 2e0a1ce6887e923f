//! Loss against tokens seen, by size.

use super::super::super::curve::at;
use super::super::super::curves::{self, Curves, Shown};
use super::super::super::figure::Figure;
use super::super::super::numerals::{loss, short};
use super::super::super::words::listed;
use super::super::Table3Report;

/// Loss against tokens, by size; none without a point.
pub(crate) fn losses(report: &Table3Report) -> Option<Figure> {
    let sizes = &report.found.sizes;
    let curves = sizes.iter().map(|size| Curves {
        model: size.name.clone(),
        label: format!("{}, {}", size.name, short(size.parameters as f64)),
        line: at(&size.training.loss_curve),
        marks: at(&size.training.validation_curve),
    });
    let ends: Vec<_> = sizes
        .iter()
        .filter_map(|it| Some(format!("{} {}", it.name, loss(it.training.validation_loss?))))
        .collect();
    let description = match ends.as_slice() {
        [] => "One line for each size: its loss in training against the tokens seen.".to_owned(),
        ends => format!(
            "One line for each size: its loss in training against the tokens seen. Validation loss \
             at the end: {}.",
            listed(ends, "and")
        ),
    };
    let shown = Shown {
        id: "losses",
        title: "Loss against tokens seen, by size",
        y_title: "loss, nats a token",
        names: ["training loss", "validation loss"],
        is_log: false,
        text: loss,
        description,
        caption: "Lines: loss in training, each point the mean of a stretch of steps. Marks: loss on \
                  documents that were held out of training.",
    };
    curves::figure(shown, &curves.collect::<Vec<_>>())
}
