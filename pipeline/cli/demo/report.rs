//! What the demo found: `report.json` and one table.

use std::path::Path;

use anyhow::{Context, bail};
use curation::CurationReport;
use evaluation::wikitext103::{Counts, Metrics, Settings};
use evaluation::{EvalReport, Measured};
use indicatif::HumanCount;
use serde::Serialize;
use training::TrainReport;

use super::text::DemoText;
use super::{Folders, TEST_NAME};
use crate::output::{self, ReportFile};

/// The whole road in numbers.
#[derive(Debug, Serialize)]
pub(super) struct DemoReport {
    text: DemoText,
    curation: CurationReport,
    training: Training,
    evaluation: Evaluation,
}

#[derive(Debug, Serialize)]
struct Training {
    #[serde(flatten)]
    report: TrainReport,
    /// Mean loss in nats of predicting each token of the training documents by its frequency in them: the best that a model
    /// without context can do.
    unigram_loss: f64,
}

#[derive(Debug, Serialize)]
struct Evaluation {
    wikitext: Wikitext,
}

/// The score of the test text: by the benchmark's protocol, but not the benchmark.
#[derive(Debug, Serialize)]
struct Wikitext {
    /// Always [`TEST_NAME`].
    task: String,
    #[serde(flatten)]
    metrics: Metrics,
    counts: Counts,
    settings: Settings,
    seconds: f64,
}

impl DemoReport {
    /// Puts together what the stages reported; `evaluation` has one task, the test text's.
    pub(super) fn new(
        text: DemoText,
        curation: CurationReport,
        training: TrainReport,
        unigram_loss: f64,
        evaluation: EvalReport,
    ) -> anyhow::Result<Self> {
        let result =
            evaluation.results.into_iter().next().context("the evaluation has no result")?;
        let Measured::WikiText103(measured) = result.measured else {
            bail!("the evaluation has another task's result");
        };
        let wikitext = Wikitext {
            task: result.task,
            metrics: measured.metrics,
            counts: measured.counts,
            settings: measured.settings,
            seconds: result.seconds,
        };
        Ok(Self {
            text,
            curation,
            training: Training { report: training, unigram_loss },
            evaluation: Evaluation { wikitext },
        })
    }

    /// Writes the report to `path`, whole or not at all.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        ReportFile::begin(path, true)?.finish(self)
    }

    /// One table of all stages, and the commands that repeat them one by one.
    pub(super) fn table(&self, folders: &Folders) -> String {
        let count = |number: u64| HumanCount(number).to_string();
        let decimal = |number: f64| format!("{number:.2}");
        let loss =
            |loss: Option<f64>| loss.map_or_else(|| "-".to_owned(), |loss| format!("{loss:.3}"));
        let row = |stage: &str, name: &str, value: String| vec![format!("{stage:<7}{name}"), value];
        let (curation, training) = (&self.curation, &self.training.report);
        let wikitext = &self.evaluation.wikitext;

        let mut rows = vec![row("dedup", "documents in", count(curation.documents_in))];
        for (reason, &dropped) in &curation.dropped {
            rows.push(row("", &format!("  {reason}"), count(dropped)));
        }
        rows.extend([
            row("", "documents kept", count(curation.documents_kept)),
            row("", "tokens", count(curation.tokens)),
            row("", "seconds", format!("{:.1}", curation.seconds)),
            row("train", "parameters", count(training.parameters)),
            row("", "tensor-parallel size", training.tensor_parallel_size.to_string()),
            row("", "steps", count(training.steps)),
            row("", "tokens", count(training.tokens)),
            row("", "first loss", loss(training.first_loss)),
            row("", "final loss", loss(training.final_loss)),
            row("", "unigram loss", loss(Some(self.training.unigram_loss))),
            row("", "validation loss", loss(training.validation_loss)),
            row("", "tokens per second", count(training.tokens_per_second as u64)),
            row("", "seconds", format!("{:.1}", training.seconds)),
            row(
                "eval",
                &format!("{TEST_NAME}, words"),
                count(wikitext.counts.original_tokens as u64),
            ),
            row("", "word perplexity", decimal(wikitext.metrics.word_perplexity)),
            row("", "token perplexity", decimal(wikitext.metrics.token_perplexity)),
            row("", "seconds", format!("{:.1}", wikitext.seconds)),
        ]);
        let mut table = output::table(&rows);
        table.push_str(&format!(
            "\n{TEST_NAME} is made of {} documents held out of this text; its perplexities compare with no benchmark.\n",
            self.text.num_held_out
        ));
        table.push_str(&format!(
            "Look closer: pipeline shard show {}; less {}\n",
            folders.data.display(),
            folders.data.join(corpus::REMOVED).display()
        ));
        table
    }
}
