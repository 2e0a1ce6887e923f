//! What became of the documents.

use super::chart::{Bar, BarChart, BarKind};
use super::figure::{Figure, WHOLE, heading};
use super::ground::Curation;
use super::numerals::{grouped, share};
use super::page::Table;
use super::words::listed;

/// What became of the documents.
pub(super) fn funnel(curation: &Curation) -> Figure {
    let all = curation.documents_in;
    let value = |count| format!("{} ({})", grouped(count), share(count, all));
    let bar = |name: &str, from: u64, to: u64, kind| Bar {
        name: name.to_owned(),
        from: from as f64,
        to: to as f64,
        kind,
        value: value(to.abs_diff(from)),
    };
    let mut bars = vec![bar("documents in", 0, all, BarKind::There)];
    let mut left = all;
    for dropped in &curation.dropped {
        let rest = left.saturating_sub(dropped.documents);
        bars.push(Bar {
            value: value(dropped.documents),
            ..bar(&words_of(&dropped.reason), rest, left, BarKind::Gone)
        });
        left = rest;
    }
    bars.push(bar("kept", 0, curation.documents_kept, BarKind::There));
    let rows = bars.iter().map(|bar| vec![bar.name.clone(), bar.value.clone()]).collect();
    let description = format!(
        "{} of {} documents are kept; {}.",
        grouped(curation.documents_kept),
        grouped(all),
        match curation.dropped.as_slice() {
            [] => "none was dropped".to_owned(),
            dropped => {
                let reasons: Vec<_> = dropped
                    .iter()
                    .map(|it| format!("{} for {}", grouped(it.documents), words_of(&it.reason)))
                    .collect();
                format!("dropped were {}", listed(&reasons, "and"))
            }
        }
    );
    let chart = BarChart {
        heading: heading("funnel", "What became of the documents", description),
        width: WHOLE.0,
        whole: all as f64,
        bars,
    };
    Figure {
        svg: chart.svg(),
        caption:
            "From the top: what came in, what each reason took of the rest, and what is left. \
                  A document goes for the first reason that it gives."
                .to_owned(),
        table: Table::named(["documents".to_owned(), "number".to_owned()], rows),
    }
}

/// A reason as words: `too short`.
fn words_of(reason: &str) -> String {
    reason.replace('_', " ")
}
