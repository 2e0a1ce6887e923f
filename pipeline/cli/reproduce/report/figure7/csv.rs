//! The report as CSV: one row for each model, what is absent being empty.

use super::super::csv::{line, text};
use super::Figure7Report;
use super::facts::Run;

/// A column: its name, and its value for a model.
type Column = (&'static str, fn(&Run) -> Option<String>);

const COLUMNS: &[Column] = &[
    ("name", |it| text(&it.name)),
    ("arrangement", |it| text(it.arrangement.name())),
    ("layers", |it| text(it.model.num_layers)),
    ("hidden_size", |it| text(it.model.hidden_size)),
    ("attention_heads", |it| text(it.model.num_attention_heads)),
    ("seq_length", |it| text(it.model.seq_length)),
    ("vocab_size", |it| text(it.model.vocab_size)),
    ("padded_vocab_size", |it| text(it.model.padded_vocab_size)),
    ("parameters", |it| text(it.parameters)),
    ("parameters_without_padding", |it| text(it.parameters_without_padding)),
    ("tokens_seen", |it| text(it.training.tokens)),
    ("steps", |it| text(it.training.steps)),
    ("global_batch_size", |it| text(it.training.global_batch_size)),
    ("lr", |it| text(it.training.lr)),
    ("epochs", |it| text(it.training.epochs?)),
    ("final_mlm_loss", |it| text(it.training.final_loss?)),
    ("validation_mlm_loss", |it| text(it.training.validation_loss?)),
    ("validation_mlm_perplexity", |it| {
        text(it.validation_perplexity().filter(|it| it.is_finite())?)
    }),
    ("validation_targets", |it| text(it.validation_targets?)),
    ("largest_grad_norm", |it| text(it.largest_grad_norm?)),
    ("diverged_at", |it| text(it.diverged_at?)),
    ("training_seconds", |it| text(it.training.seconds)),
    ("peak_rss_bytes", |it| text(it.peak_rss_bytes?)),
];

impl Figure7Report {
    /// The report as CSV, its header first.
    pub(crate) fn csv(&self) -> String {
        let mut csv = line(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
        for run in &self.found.runs {
            csv.push_str(&line(COLUMNS.iter().map(|(_, value)| value(run).unwrap_or_default())));
        }
        csv
    }
}
