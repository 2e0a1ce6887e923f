//! What the demo found: `report.json` and one table.

use std::path::Path;

use anyhow::{Context, bail};
use curation::CurationReport;
use evaluation::{EvalReport, Measured, TaskResult, lambada, wikitext103};
use indicatif::HumanCount;
use serde::Serialize;
use training::TrainReport;

use super::Folders;
use crate::machine_text::{LAMBADA_NAME, MachineText, WIKITEXT_NAME};
use crate::output::{self, ReportFile};

/// The whole road in numbers.
#[derive(Debug, Serialize)]
pub(super) struct DemoReport {
    text: MachineText,
    curation: CurationReport,
    training: Training,
    evaluation: Evaluation,
}

#[derive(Debug, Serialize)]
struct Training {
    #[serde(flatten)]
    report: TrainReport,
    /// Mean loss in nats of predicting each token of the training documents by its frequency in
    /// them: the best that a model without context can do.
    unigram_loss: f64,
}

#[derive(Debug, Serialize)]
struct Evaluation {
    wikitext: Wikitext,
    /// Absent where the text has no passage that ends in a word to guess.
    lambada: Option<Lambada>,
}

/// The score on a test set: by the benchmark's protocol, but not the benchmark.
#[derive(Debug, Serialize)]
struct Score<M, C, S> {
    task: String,
    protocol: &'static str,
    /// Whether a limit left a part unscored.
    partial: bool,
    #[serde(flatten)]
    metrics: M,
    counts: C,
    settings: S,
    seconds: f64,
}

type Wikitext = Score<wikitext103::Metrics, wikitext103::Counts, wikitext103::Settings>;

#[derive(Debug, Serialize)]
struct Lambada {
    #[serde(flatten)]
    score: Score<lambada::Metrics, lambada::Counts, lambada::Settings>,
    /// Passages, as in the counts.
    examples: usize,
    /// Target perplexity of a model to which all tokens are alike.
    uniform_target_perplexity: f64,
}

impl DemoReport {
    /// Puts together what the stages reported; `evaluation` has the text's task first, then that of
    /// the last words if there is one.
    pub(super) fn new(
        text: MachineText,
        curation: CurationReport,
        training: TrainReport,
        unigram_loss: f64,
        evaluation: EvalReport,
    ) -> anyhow::Result<Self> {
        let (mut wikitext, mut lambada) = (None, None);
        for TaskResult { task, measured, partial, seconds, .. } in evaluation.results {
            match measured {
                Measured::WikiText103(found) => {
                    let wikitext103::Measured { protocol, metrics, counts, settings } = found;
                    wikitext =
                        Some(Score { task, protocol, partial, metrics, counts, settings, seconds });
                }
                Measured::Lambada(found) => {
                    let lambada::Measured { protocol, metrics, counts, settings } = found;
                    let tokens_per_word = counts.label_tokens as f64 / counts.examples as f64;
                    lambada = Some(Lambada {
                        examples: counts.examples,
                        uniform_target_perplexity: (settings.common.scoring.vocab_size as f64)
                            .powf(tokens_per_word),
                        score: Score {
                            task,
                            protocol,
                            partial,
                            metrics,
                            counts,
                            settings,
                            seconds,
                        },
                    });
                }
                other => bail!("the evaluation has the result of another task: {other:?}"),
            }
        }
        let wikitext = wikitext.context("the evaluation has no result for the test text")?;
        Ok(Self {
            text,
            curation,
            training: Training { report: training, unigram_loss },
            evaluation: Evaluation { wikitext, lambada },
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
            row(
                "",
                "tokens per second",
                training.tokens_per_second.map_or("-".into(), |speed| count(speed as u64)),
            ),
            row("", "seconds", format!("{:.1}", training.seconds)),
            row(
                "eval",
                &format!("{WIKITEXT_NAME}, words"),
                count(wikitext.counts.original_tokens as u64),
            ),
            row("", "word perplexity", decimal(wikitext.metrics.word_perplexity)),
            row("", "token perplexity", decimal(wikitext.metrics.token_perplexity)),
            row("", "seconds", format!("{:.1}", wikitext.seconds)),
        ]);
        if let Some(Lambada { score, examples, uniform_target_perplexity }) =
            &self.evaluation.lambada
        {
            let percent = |share: f64| format!("{:.1}%", 100.0 * share);
            let perplexity = |number: f64| count(number.round() as u64);
            rows.extend([
                row("", &format!("{LAMBADA_NAME}, examples"), count(*examples as u64)),
                row("", "strict accuracy", percent(score.metrics.strict_accuracy)),
                row("", "last-token accuracy", percent(score.metrics.last_token_accuracy)),
                row("", "target perplexity", perplexity(score.metrics.target_perplexity)),
                row("", "  of a uniform model", perplexity(*uniform_target_perplexity)),
                row("", "seconds", format!("{:.1}", score.seconds)),
            ]);
        }
        let mut table = output::table(&rows);
        if wikitext.partial || self.evaluation.lambada.as_ref().is_some_and(|it| it.score.partial) {
            table.push_str("\nPARTIAL: a limit left a part of the tests unscored.\n");
        }
        table.push_str(&format!(
            "\n{WIKITEXT_NAME} and {LAMBADA_NAME} are made of {} documents held out of this \
             text; their numbers compare with no benchmark.\n",
            self.text.num_held_out
        ));
        let tests = self.text.lambada.as_ref().or(self.text.wikitext.as_ref());
        table.push_str(&format!(
            "Look closer: pipeline shard show {}; less {}; less {}\n",
            folders.data.display(),
            folders.data.join(corpus::REMOVED).display(),
            tests.unwrap_or(&self.text.documents).display()
        ));
        table
    }
}
