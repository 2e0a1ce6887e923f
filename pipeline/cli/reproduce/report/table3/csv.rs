//! The report as CSV: one row for each size and each row of the paper's table.
//!
//! RFC 4180, with lines ended by a line feed; shares are shares, not percent; what is absent is
//! empty. The columns, in this order:
//!
//! | columns | of |
//! |---|---|
//! | `source` | `ours`, `paper`, or `earlier`: published before the paper |
//! | `name`, `parameters` (with the padded vocabulary), `tokens_seen` | all |
//! | `layers` to `training_seconds` | our models and their training |
//! | `wikitext103_*` | word perplexity (all), and what ours depends on |
//! | `lambada_*` | strict accuracy (all), and what ours depends on |
//! | `paper_row` | the row of the paper's that ours stands beside |
//! | `wikitext103_outcome`, `lambada_outcome` | rows of the paper: whether they were reproduced |
//! | `peak_rss_bytes`, `partial`, `parameters_without_padding`, `padded_vocab_size` | ours |

use super::super::csv::{line, text};
use super::Table3Report;
use super::facts::{Lambada, Size, Task, WikiText103};
use super::paper::PaperRow;
use super::verdict::Metric;

/// What a row is about.
enum Row<'r> {
    Ours(&'r Size),
    Paper(&'r PaperRow),
}

/// A column: its name, and its value in a row.
type Column = (&'static str, fn(&Table3Report, &Row<'_>) -> Option<String>);

const COLUMNS: &[Column] = &[
    ("source", |_, row| Some(row.source().to_owned())),
    ("name", |_, row| Some(row.name().to_owned())),
    ("parameters", |_, row| match row {
        Row::Ours(size) => text(size.parameters),
        Row::Paper(row) => row.parameters.and_then(text),
    }),
    ("tokens_seen", |_, row| match row {
        Row::Ours(size) => text(size.training.tokens),
        Row::Paper(row) => row.tokens.and_then(text),
    }),
    ("layers", |_, row| text(row.ours()?.model.num_layers)),
    ("hidden_size", |_, row| text(row.ours()?.model.hidden_size)),
    ("attention_heads", |_, row| text(row.ours()?.model.num_attention_heads)),
    ("seq_length", |_, row| text(row.ours()?.model.seq_length)),
    ("vocab_size", |_, row| text(row.ours()?.model.vocab_size)),
    ("steps", |_, row| text(row.ours()?.training.steps)),
    ("global_batch_size", |_, row| text(row.ours()?.training.global_batch_size)),
    ("lr", |_, row| text(row.ours()?.training.lr)),
    ("epochs", |_, row| text(row.ours()?.training.epochs?)),
    ("final_loss", |_, row| text(row.ours()?.training.final_loss?)),
    ("validation_loss", |_, row| text(row.ours()?.training.validation_loss?)),
    ("training_seconds", |_, row| text(row.ours()?.training.seconds)),
    ("wikitext103_word_perplexity", |_, row| match row {
        Row::Ours(size) => text(size.wikitext103.as_ref()?.word_perplexity),
        Row::Paper(row) => text(row.word_perplexity?),
    }),
    ("wikitext103_token_perplexity", |_, row| text(row.wikitext103()?.token_perplexity)),
    ("wikitext103_capped", |_, row| text(row.wikitext103()?.capped)),
    ("wikitext103_total_nll", |_, row| text(row.wikitext103()?.total_nll)),
    ("wikitext103_bits_per_byte", |_, row| text(row.wikitext103()?.bits_per_byte)),
    ("wikitext103_tokens", |_, row| text(row.wikitext103()?.tokens)),
    ("wikitext103_original_tokens", |_, row| text(row.wikitext103()?.original_tokens)),
    ("wikitext103_window", |_, row| text(row.wikitext103()?.window)),
    ("wikitext103_overlap", |_, row| text(row.wikitext103()?.overlap)),
    ("wikitext103_protocol", |_, row| text(&row.wikitext103()?.protocol)),
    ("wikitext103_published", |report, row| {
        row.wikitext103().and(report.published(Task::WikiText103))
    }),
    ("wikitext103_seconds", |_, row| text(row.wikitext103()?.seconds)),
    ("lambada_strict_accuracy", |_, row| match row {
        Row::Ours(size) => text(size.lambada.as_ref()?.strict_accuracy),
        Row::Paper(row) => text(row.strict_accuracy?),
    }),
    ("lambada_strict_stderr", |_, row| text(row.lambada()?.strict_stderr)),
    ("lambada_last_token_accuracy", |_, row| text(row.lambada()?.last_token_accuracy)),
    ("lambada_target_perplexity", |_, row| {
        text(Some(row.lambada()?.target_perplexity).filter(|it| it.is_finite())?)
    }),
    ("lambada_examples", |_, row| text(row.lambada()?.examples)),
    ("lambada_protocol", |_, row| text(&row.lambada()?.protocol)),
    ("lambada_published", |report, row| row.lambada().and(report.published(Task::Lambada))),
    ("lambada_seconds", |_, row| text(row.lambada()?.seconds)),
    ("paper_row", |_, row| row.ours()?.paper_row.clone()),
    ("wikitext103_outcome", |report, row| report.outcome(row, Metric::WordPerplexity)),
    ("lambada_outcome", |report, row| report.outcome(row, Metric::StrictAccuracy)),
    ("peak_rss_bytes", |_, row| text(row.ours()?.peak_rss_bytes?)),
    ("partial", |report, row| row.ours().and(text(report.partial))),
    ("parameters_without_padding", |_, row| text(row.ours()?.parameters_without_padding)),
    ("padded_vocab_size", |_, row| text(row.ours()?.model.padded_vocab_size)),
];

impl Table3Report {
    /// The report as CSV, its header first.
    pub(crate) fn csv(&self) -> String {
        let sizes = self.found.sizes.iter().map(Row::Ours);
        let rows = sizes.chain(self.found.paper.iter().map(Row::Paper));
        let mut csv = line(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
        for row in rows {
            let cells = COLUMNS.iter().map(|(_, value)| value(self, &row).unwrap_or_default());
            csv.push_str(&line(cells));
        }
        csv
    }

    fn published(&self, task: Task) -> Option<String> {
        text(self.found.test_set(task)?.published)
    }

    fn outcome(&self, row: &Row<'_>, metric: Metric) -> Option<String> {
        let Row::Paper(row) = row else { return None };
        let comparison =
            self.comparisons.iter().find(|it| it.paper_row == row.name && it.metric == metric)?;
        Some(comparison.label().to_owned())
    }
}

impl<'r> Row<'r> {
    fn source(&self) -> &'static str {
        match self {
            Self::Ours(_) => "ours",
            Self::Paper(PaperRow { megatron: true, .. }) => "paper",
            Self::Paper(_) => "earlier",
        }
    }

    fn name(&self) -> &'r str {
        match self {
            Self::Ours(size) => &size.name,
            Self::Paper(row) => &row.name,
        }
    }

    fn ours(&self) -> Option<&'r Size> {
        match self {
            Self::Ours(size) => Some(size),
            Self::Paper(_) => None,
        }
    }

    fn wikitext103(&self) -> Option<&'r WikiText103> {
        self.ours()?.wikitext103.as_ref()
    }

    fn lambada(&self) -> Option<&'r Lambada> {
        self.ours()?.lambada.as_ref()
    }
}
