//! The report in the terminal.

use super::super::Layout;
use super::super::date::readable;
use super::super::ground::described;
use super::super::numerals::{grouped, or_dash, percent, short};
use super::Table3Report;
use super::facts::{CorpusState, Size, Task};
use super::verdict::{Metric, Trend};

impl Table3Report {
    /// The report as text, laid out by `layout`: the scores beside the paper's, what follows from
    /// them, and what they rest on.
    pub(crate) fn table(&self, layout: Layout) -> String {
        let found = &self.found;
        let date = readable(&found.ground.date);
        let mut text = format!("{} ({}, {date})\n", found.ground.title, found.ground.experiment);
        text.extend(self.partial_sentence().map(|it| format!("{it}\n")));
        text.push('\n');
        text.push_str(&layout(&self.score_rows()));
        text.push('\n');
        text.push_str(&layout(&self.trend_rows()));
        text.push('\n');
        text.extend(self.paper_sentence().map(|it| format!("{it}\n\n")));
        text.push_str(&layout(&self.ground_rows()));
        if !self.cautions.is_empty() {
            text.push('\n');
            text.extend(self.cautions.iter().map(|caution| format!("note: {caution}\n")));
        }
        text
    }

    /// Ours, then the paper's.
    fn score_rows(&self) -> Vec<Vec<String>> {
        let found = &self.found;
        let mut over = vec![String::new(); 3];
        let mut header = ["model", "parameters", "tokens seen"].map(str::to_owned).to_vec();
        for metric in Metric::ALL {
            over.push(metric.task().map_or("validation".to_owned(), |task| found.name_of(task)));
            header.push(metric.short_name().to_owned());
        }
        let mut rows = vec![over, header];
        for size in &found.sizes {
            let mut row = vec![
                size.name.clone(),
                short(size.parameters as f64),
                short(size.training.tokens as f64),
            ];
            row.extend(Metric::ALL.map(|metric| or_dash(metric.text_of(size), |text| text)));
            rows.push(row);
        }
        for row in &found.paper {
            rows.push(vec![
                format!("{}: {}", if row.megatron { "paper" } else { "before" }, row.name),
                or_dash(row.parameters, |it| short(it as f64)),
                or_dash(row.tokens, |it| short(it as f64)),
                "-".to_owned(),
                or_dash(row.word_perplexity, |it| Metric::WordPerplexity.text(it)),
                "-".to_owned(),
                or_dash(row.strict_accuracy, |it| Metric::StrictAccuracy.text(it)),
            ]);
        }
        rows
    }

    fn trend_rows(&self) -> Vec<Vec<String>> {
        let row = |trend: &Trend| {
            let reason = trend.reason();
            vec![format!(
                "{}: {}{}{reason}",
                self.found.metric_name(trend.metric),
                trend.label(),
                if reason.is_empty() { "" } else { "; " }
            )]
        };
        self.trends.iter().map(row).collect()
    }

    /// What the numbers rest on.
    fn ground_rows(&self) -> Vec<Vec<String>> {
        let found = &self.found;
        let mut lines = found.ground.text_lines();
        let mut add = |name: &str, value: String| lines.push((name.to_owned(), value));
        for overlap in self.headline_overlaps() {
            add("overlap", overlap);
        }
        if let Some(protocol) = found.sizes.iter().find_map(Size::wikitext103_protocol) {
            add(&found.name_of(Task::WikiText103), protocol);
        }
        if let Some(protocol) = found.sizes.iter().find_map(Size::lambada_protocol) {
            add(&found.name_of(Task::Lambada), protocol);
        }
        lines.extend(found.ground.machine_lines());
        described(lines)
    }

    /// The overlap of each test set with the curated corpus, and with the raw one, in the n-grams
    /// that the paper counts in.
    fn headline_overlaps(&self) -> Vec<String> {
        let ngram_words = self.found.paper_overlap.first().map_or(8, |it| it.ngram_words);
        let mut lines = Vec::new();
        for found in &self.found.contamination {
            let Some(overlap) = found.by_ngram.iter().find(|it| it.ngram_words == ngram_words)
            else {
                continue;
            };
            lines.push(format!(
                "{} and the {} corpus: {} of {} positions have an {ngram_words}-gram in common \
                 ({})",
                found.test_set,
                match found.corpus {
                    CorpusState::Raw => "raw",
                    CorpusState::Curated => "curated",
                },
                grouped(overlap.matched_positions),
                grouped(overlap.positions),
                percent(overlap.position_share())
            ));
        }
        lines
    }
}

impl Size {
    /// What its word perplexity depends on, in one line.
    pub(super) fn wikitext103_protocol(&self) -> Option<String> {
        let score = self.wikitext103.as_ref()?;
        Some(format!(
            "protocol {}: window {}, overlap {}, T = {}, To = {}, ratio {:.6}",
            score.protocol,
            grouped(score.window as u64),
            score.overlap,
            grouped(score.tokens),
            grouped(score.original_tokens),
            score.token_ratio
        ))
    }

    /// What its accuracy depends on, in one line.
    pub(super) fn lambada_protocol(&self) -> Option<String> {
        let score = self.lambada.as_ref()?;
        Some(format!(
            "protocol {}, strict: {} examples, {} label tokens, context of at most {} tokens",
            score.protocol,
            grouped(score.examples),
            grouped(score.label_tokens),
            grouped(score.window as u64)
        ))
    }
}
