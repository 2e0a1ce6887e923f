//! The protocol of lm-evaluation-harness, in whose form most models' numbers are published.
//!
//! The raw split is cut into pages, and each is scored by itself: detokenized, encoded, and
//! predicted from its first token on, the first one from the token that ends documents, in windows
//! that roll over it. The losses of all pages are then spread over the words and the bytes of the
//! pages as they stand in the file.
//!
//! A page begins at every line that looks like a level-1 heading once marks of deeper headings are
//! joined. That takes some lines of equations for headings, so WikiText's 60 test articles are 62
//! pages; they are cut there all the same, for so do all the numbers to compare with.
//!
//! # Source
//!
//! EleutherAI's lm-evaluation-harness 0.4.13: the task `wikitext`, version 2.0
//! (`lm_eval/tasks/wikitext`), its data set `EleutherAI/wikitext_document_level`, and
//! `loglikelihood_rolling` of `lm_eval/models/huggingface.py`.

use std::num::NonZeroUsize;
use std::time::Instant;

use corpus::{Observer, Unit};
use serde::Serialize;
use tracing::info;
use training::inference::Window;
use training::parallel::TokenScore;

use super::WikiText103;
use super::form::Form;
use crate::batches::Batches;
use crate::config::EvalPlan;
use crate::detokenizer::{self, detokenize, is_space};
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::items::{Items, PageScore};
use crate::model::{EvaluatedModel, Stage};
use crate::perplexity::unlimited_perplexity;
use crate::report::{self, ScoringSettings, TaskResult};
use crate::summary::TaskSummary;
use crate::{test_file, windows};

/// What the task found by this protocol.
pub type Measured = report::Findings<Metrics, Counts, Settings>;

/// The numbers that the harness gives for its task `wikitext`, by its names.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Metrics {
    /// `exp(total_nll / words)`.
    pub word_perplexity: f64,
    /// `exp(total_nll / bytes)`.
    pub byte_perplexity: f64,
    /// `total_nll`, in bits, per byte of the pages.
    pub bits_per_byte: f64,
    /// `exp(total_nll / targets)`; the harness does not give it.
    pub token_perplexity: f64,
    /// Sum over the targets of the negative natural logarithm of their probability.
    pub total_nll: f64,
}

/// Sizes of a text and of its evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Pages scored: all of the file, unless a limit left some out.
    pub pages: usize,
    /// Pages of the file.
    pub pages_in_file: usize,
    /// Pieces of the scored pages between runs of white space, the empty ones at their ends
    /// included.
    pub words: usize,
    /// Bytes of the scored pages.
    pub bytes: usize,
    /// Tokens of the scored pages after detokenizing: every one is a target.
    pub targets: usize,
    /// Windows of the scored pages.
    pub windows: usize,
}

/// What the numbers depend on, and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// Whose numbers these compare with.
    pub comparable_with: &'static str,
    /// How the windows lie.
    pub windows: &'static str,
    /// The token before each page.
    pub prefix_token: u32,
    /// Rules that undo the text's tokenization.
    pub detokenizer: &'static str,
    /// What a word is.
    pub word: &'static str,
    /// `targets / words`: the word perplexity is the token perplexity to this power.
    pub token_ratio: f64,
    /// The model, whose window is the harness's `max_length`, the test file, and how many windows
    /// were scored at a time.
    #[serde(flatten)]
    pub scoring: ScoringSettings,
}

/// A page for a model.
struct Page {
    line: usize,
    title: String,
    words: usize,
    bytes: usize,
    /// The token that ends documents, then the page's own.
    tokens: Vec<u32>,
}

/// A test file and what the protocol makes of it.
struct RawText {
    pages: Vec<Page>,
    pages_in_file: usize,
    form: Form,
    prefix_token: u32,
}

/// [`WikiText103::run`] by this protocol.
pub(super) fn run(
    task: &WikiText103,
    model: &mut EvaluatedModel,
    plan: &EvalPlan,
    observer: &dyn Observer,
) -> Result<TaskResult, EvalError> {
    let start = Instant::now();
    let text = RawText::read(task, &model.identity, plan)?;
    text.form.warn_if_not_raw(&task.data);
    let windows = text.windows(&model.identity);
    info!(task = task.name, pages = text.pages.len(), windows = windows.len(), "scoring");

    let name = format!("{}, lm-eval", task.name);
    let stage = Stage { name: &name, unit: Unit::Windows, windows: &windows };
    let scores = model.score(&stage, plan.micro_batch_size, observer)?;
    let items = text.items(&scores);

    let counts = text.counts(windows.len());
    let total_nll = items.iter().map(|page| page.nll).sum();
    let metrics = Metrics::new(&counts, total_nll);
    report::warn_if_worse_than_guessing(&task.name, metrics.token_perplexity, &model.identity);
    let measured = Measured {
        protocol: task.protocol.name(),
        metrics,
        counts,
        settings: settings(task, &text, &counts, &model.identity, plan),
    };
    Ok(TaskResult {
        task: task.name.clone(),
        measured: report::Measured::WikiText103LmEval(measured),
        partial: text.is_partial(),
        seconds: start.elapsed().as_secs_f64(),
        items: Some(Items::Pages(items)),
    })
}

/// [`WikiText103::summary`] by this protocol.
pub(super) fn summary(
    task: &WikiText103,
    model: &ModelIdentity,
    plan: &EvalPlan,
) -> Result<TaskSummary, EvalError> {
    let text = RawText::read(task, model, plan)?;
    let windows = text.windows(model);
    let batches = Batches::new(&windows, plan.micro_batch_size);
    let targets = text.counts(windows.len()).targets;
    Ok(TaskSummary {
        task: task.name.clone(),
        data: task.data.clone(),
        tokens: targets,
        windows: Some(windows.len()),
        examples: None,
        targets,
        forward_passes: batches.iter().len(),
        token_positions: batches.token_positions(),
        partial: text.is_partial(),
    })
}

fn settings(
    task: &WikiText103,
    text: &RawText,
    counts: &Counts,
    model: &ModelIdentity,
    plan: &EvalPlan,
) -> Settings {
    Settings {
        comparable_with: "lm-evaluation-harness 0.4, task wikitext (version 2.0), of models with \
                          the same max_length; not with the paper's",
        windows: "disjoint, a page at a time; a page's last window is filled up from before",
        prefix_token: text.prefix_token,
        detokenizer: detokenizer::NAME,
        word: "piece of the page between runs of white space, empty ones at its ends included",
        token_ratio: counts.targets as f64 / counts.words as f64,
        scoring: ScoringSettings::new(&task.data, model, plan),
    }
}

/// The pages of a text whose lines end in line feeds, each with its line, from 1.
///
/// Between two pages a line feed is lost. What stands before the first heading is a page unless it
/// is blank; the last page is one even then.
#[must_use]
pub fn pages(text: &str) -> Vec<(usize, &str)> {
    let mut starts = vec![(0, 1)];
    let mut offset = 0;
    for (index, line) in text.split('\n').enumerate() {
        if looks_like_a_heading(line) && offset > 0 {
            starts.push((offset, index + 1));
        }
        offset += line.len() + 1;
    }
    let ends = starts.iter().skip(1).map(|&(start, _)| start - 1).chain([text.len()]);
    let last = starts.len() - 1;
    starts
        .iter()
        .zip(ends)
        .map(|(&(start, line), end)| (line, &text[start..end]))
        .enumerate()
        .filter(|(index, (_, page))| *index == last || !page.trim_matches(is_space).is_empty())
        .map(|(_, page)| page)
        .collect()
}

fn looks_like_a_heading(line: &str) -> bool {
    let joined = line.replace("= = =", "===").replace("= =", "==");
    let joined = joined.trim_matches(is_space);
    joined.starts_with("= ") && joined.ends_with(" =")
}

/// Number of pieces between runs of white space: one more than there are runs, so that the nothing
/// before a page's first space counts, and that behind its last.
#[must_use]
pub fn count_words(page: &str) -> usize {
    let mut words = 1;
    let mut in_word = true;
    for character in page.chars() {
        if is_space(character) {
            words += usize::from(in_word);
            in_word = false;
        } else {
            in_word = true;
        }
    }
    words
}

impl RawText {
    /// Reads the test file and as many of its pages as the plan allows.
    fn read(task: &WikiText103, model: &ModelIdentity, plan: &EvalPlan) -> Result<Self, EvalError> {
        let prefix_token = model.end_of_document()?;
        // The harness's reader takes all ends of lines for line feeds.
        let text = test_file::read(&task.data)?.replace("\r\n", "\n").replace('\r', "\n");
        let all = pages(&text);
        let limit = plan.limit.map_or(usize::MAX, NonZeroUsize::get);
        let encoded = |&(line, page): &(usize, &str)| -> Result<Page, EvalError> {
            let mut tokens = vec![prefix_token];
            tokens.extend(model.encode(&detokenize(page))?);
            let title = page.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
            let (words, bytes) = (count_words(page), page.len());
            Ok(Page { line, title: title.to_owned(), words, bytes, tokens })
        };
        Ok(Self {
            pages: all.iter().take(limit).map(encoded).collect::<Result<_, _>>()?,
            pages_in_file: all.len(),
            form: Form::of(&text),
            prefix_token,
        })
    }

    fn is_partial(&self) -> bool {
        self.pages.len() < self.pages_in_file
    }

    fn windows(&self, model: &ModelIdentity) -> Vec<Window<'_>> {
        let rolling = |page| windows::rolling(page, model.seq_length());
        self.pages.iter().flat_map(|page| rolling(&page.tokens)).collect()
    }

    fn counts(&self, windows: usize) -> Counts {
        let sum = |of: fn(&Page) -> usize| self.pages.iter().map(of).sum();
        Counts {
            pages: self.pages.len(),
            pages_in_file: self.pages_in_file,
            words: sum(|page| page.words),
            bytes: sum(|page| page.bytes),
            targets: sum(|page| page.tokens.len() - 1),
            windows,
        }
    }

    /// Every page's part of `scores`, those of all windows in order.
    fn items(&self, scores: &[Vec<TokenScore>]) -> Vec<PageScore> {
        let mut losses = scores.iter().flatten().map(|score| f64::from(score.loss));
        let scored = |(index, page): (usize, &Page)| {
            let targets = page.tokens.len() - 1;
            let nll = losses.by_ref().take(targets).sum::<f64>();
            PageScore {
                index,
                title: page.title.clone(),
                line: page.line,
                words: page.words,
                bytes: page.bytes,
                targets,
                nll,
                word_perplexity: unlimited_perplexity(nll / page.words as f64),
            }
        };
        self.pages.iter().enumerate().map(scored).collect()
    }
}

impl Metrics {
    fn new(counts: &Counts, total_nll: f64) -> Self {
        let per = |count: usize| total_nll / count as f64;
        Self {
            word_perplexity: unlimited_perplexity(per(counts.words)),
            byte_perplexity: unlimited_perplexity(per(counts.bytes)),
            bits_per_byte: per(counts.bytes) / std::f64::consts::LN_2,
            token_perplexity: unlimited_perplexity(per(counts.targets)),
            total_nll,
        }
    }
}
