//! What a reproduction found, gathered from what its parts left.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use corpus::machine;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use training::metrics::METRICS_FILE;

use super::inputs::TextInput;
use super::journal::{Journal, State};
use super::parts::{Part, Parts, run_of};
use super::report::{
    Contamination, CorpusState, Curation, CurvePoint, Dropped, Lambada, Machine, ModelShape,
    NGramOverlap, PaperOverlap, PaperRow, PartState, Reproduction, Size, Task, TestSet, Text,
    TextKind, Training, WikiText103, thinned, utc,
};
use crate::doctor;

/// Points of a curve at the most: more than a chart has room for.
const CURVE_POINTS: usize = 400;

/// All that was found, where every part but the page is done. `done_now` are the keys of the parts
/// that this call has done.
///
/// # Errors
///
/// Where the output of a part cannot be read.
pub(super) fn gather(
    parts: &Parts<'_>,
    journal: &Journal,
    name: &str,
    done_now: &[String],
) -> anyhow::Result<Reproduction> {
    let config = parts.config;
    let sizes = (0..config.sizes.len()).map(|size| size_of(parts, journal, size));
    let corpus = result(parts, journal, Part::Corpus)?;
    let mut warnings = text_warnings(parts, journal)?;
    warnings.extend(field::<Vec<String>>(corpus, "warnings")?);
    Ok(Reproduction {
        experiment: name.to_owned(),
        title: config.title.clone(),
        paper_scale: config.text.is_none(),
        date: utc(SystemTime::now()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: Some(command()),
        machine: this_machine(),
        text: text_of(parts, journal)?,
        curation: Some(Curation {
            documents_in: field(corpus, "documents_in")?,
            dropped: dropped(corpus)?,
            documents_kept: field(corpus, "documents_kept")?,
            tokens: field(corpus, "tokens")?,
            tokenizer: config.data.tokenizer.clone(),
        }),
        test_sets: test_sets(parts, journal)?,
        contamination: contamination(parts, journal)?,
        sizes: sizes.collect::<Result<_, _>>()?,
        paper: PaperRow::table3(),
        paper_overlap: PaperOverlap::table3(),
        settings: serde_json::to_value(config)?,
        parts: parts_of(parts, journal, done_now),
        warnings,
    })
}

/// The result of a part that is done.
fn result<'a>(parts: &Parts<'_>, journal: &'a Journal, part: Part) -> anyhow::Result<&'a Value> {
    let key = parts.key(part);
    journal.result(&key).with_context(|| format!("the part {key} is not done"))
}

/// A value in a result.
fn field<T: DeserializeOwned>(result: &Value, key: &str) -> anyhow::Result<T> {
    T::deserialize(result.get(key).unwrap_or(&Value::Null))
        .with_context(|| format!("the journal's {key:?}"))
}

/// The command line, as a shell reads it.
fn command() -> String {
    let quoted = |arg: std::ffi::OsString| {
        let arg = arg.to_string_lossy().into_owned();
        let is_plain = |c: char| c.is_alphanumeric() || "-_./=,:@+%".contains(c);
        match !arg.is_empty() && arg.chars().all(is_plain) {
            true => arg,
            false => format!("'{}'", arg.replace('\'', "'\\''")),
        }
    };
    let args: Vec<_> = std::env::args_os().skip(1).map(quoted).collect();
    format!("pipeline {}", args.join(" "))
}

fn this_machine() -> Machine {
    Machine {
        processor: processor(),
        cores: machine::cores(),
        vector_kernels: doctor::vector_kernels().to_owned(),
        memory_bytes: machine::memory_bytes(),
    }
}

/// The processor's name, where Linux tells it.
fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(line.trim_start_matches([' ', '\t', ':']).trim().to_owned())
}

fn text_of(parts: &Parts<'_>, journal: &Journal) -> anyhow::Result<Text> {
    let corpus = result(parts, journal, Part::Corpus)?;
    Ok(match &parts.inputs.text {
        Some(TextInput::Documents { root, .. }) => {
            let text = result(parts, journal, Part::Text)?;
            let held_out: u64 = field(text, "num_held_out")?;
            Text {
                kind: if root.is_registry { TextKind::Machine } else { TextKind::Own },
                root: root.path.display().to_string(),
                documents: field::<u64>(text, "num_documents")? + held_out,
                bytes: field(text, "bytes")?,
                held_out_documents: held_out,
            }
        }
        Some(TextInput::Corpus { folder }) => Text {
            kind: TextKind::Own,
            root: folder.display().to_string(),
            documents: field(corpus, "documents_in")?,
            bytes: field(corpus, "bytes_in")?,
            held_out_documents: 0,
        },
        None => return Err(anyhow!("there is no text")),
    })
}

/// What a reader should know of the text, where it was read into documents.
fn text_warnings(parts: &Parts<'_>, journal: &Journal) -> anyhow::Result<Vec<String>> {
    let mut warnings = Vec::new();
    let Some(TextInput::Documents { request, .. }) = &parts.inputs.text else {
        return Ok(warnings);
    };
    let text = result(parts, journal, Part::Text)?;
    let unreadable: u64 = field(text, "num_unreadable")?;
    if unreadable > 0 {
        warnings.push(format!("{unreadable} files of the text are no UTF-8 and were left out."));
    }
    if request.lambada && field::<u64>(text, "num_passages")? == 0 {
        warnings.push(
            "LAMBADA is left out: the text has no passage that ends in a word to guess, and \
             --lambada names none."
                .to_owned(),
        );
    }
    Ok(warnings)
}

fn dropped(corpus: &Value) -> anyhow::Result<Vec<Dropped>> {
    let dropped: serde_json::Map<String, Value> = field(corpus, "dropped")?;
    let dropped = dropped.into_iter().map(|(reason, documents)| {
        let documents = documents.as_u64().context("documents dropped")?;
        Ok(Dropped { reason, documents })
    });
    dropped.collect()
}

fn test_sets(parts: &Parts<'_>, journal: &Journal) -> anyhow::Result<Vec<TestSet>> {
    let sets = parts.test_sets(journal).into_iter().map(|set| {
        let key = match set.task {
            Task::WikiText103 => "published_test_split",
            Task::Lambada => "published_test_set",
        };
        // All sizes were scored on one file.
        let score = result(parts, journal, Part::Eval(0, set.task))?;
        Ok(TestSet {
            task: set.task,
            name: set.name.to_owned(),
            file: set.path.display().to_string(),
            published: field(&score["settings"], key)?,
        })
    });
    sets.collect()
}

fn contamination(parts: &Parts<'_>, journal: &Journal) -> anyhow::Result<Vec<Contamination>> {
    let found = result(parts, journal, Part::Contamination)?;
    let mut overlaps = Vec::new();
    for (state, corpus) in [("raw", CorpusState::Raw), ("curated", CorpusState::Curated)] {
        let results: Vec<Value> = field(found, state)?;
        for (set, result) in parts.test_sets(journal).iter().zip(&results) {
            overlaps.push(Contamination {
                test_set: set.name.to_owned(),
                corpus,
                by_ngram: field::<Vec<NGramOverlap>>(result, "by_ngram_words")?,
            });
        }
    }
    Ok(overlaps)
}

fn size_of(parts: &Parts<'_>, journal: &Journal, size: usize) -> anyhow::Result<Size> {
    let section = &parts.config.sizes[size];
    let model = section.gpt2();
    let training = result(parts, journal, Part::Train(size))?;
    // Padded as it was trained, whatever --tp says now.
    let mut train = parts.config.train_config(section);
    train.parallel.tensor_parallel_size = field(training, "tensor_parallel_size")?;
    let plan = train.summary()?;
    let of_size = parts.all(journal).into_iter().filter(|part| part.size() == Some(size));
    let of_size: Vec<_> = of_size.collect();
    let entries = of_size.iter().filter_map(|&part| journal.entry(&parts.key(part)));
    // The journal may still have a score on a test set that an earlier text was made into.
    let scored = |task| {
        let part = of_size.iter().find(|&&part| part == Part::Eval(size, task));
        part.and_then(|&part| journal.result(&parts.key(part)))
    };
    Ok(Size {
        name: section.name.clone(),
        paper_row: section.paper.clone(),
        model: ModelShape {
            num_layers: model.num_layers.get(),
            hidden_size: model.hidden_size.get(),
            num_attention_heads: model.num_attention_heads.get(),
            seq_length: model.seq_length.get(),
            vocab_size: section.vocab_size(),
            padded_vocab_size: plan.padded_vocab_size,
        },
        parameters: plan.parameters,
        parameters_without_padding: field(training, "parameters")?,
        training: training_of(parts, journal, size)?,
        wikitext103: scored(Task::WikiText103).map(wikitext103).transpose()?,
        lambada: scored(Task::Lambada).map(lambada).transpose()?,
        peak_rss_bytes: entries.filter_map(|it| it.peak_rss_bytes).max(),
    })
}

fn training_of(parts: &Parts<'_>, journal: &Journal, size: usize) -> anyhow::Result<Training> {
    let result = result(parts, journal, Part::Train(size))?;
    let entry = journal.entry(&parts.key(Part::Train(size))).context("the training is not done")?;
    let [loss_curve, validation_curve] =
        curves(&parts.out.join(run_of(parts.size(size))).join(METRICS_FILE))?;
    let train = &parts.config.train;
    Ok(Training {
        tokens: field(result, "tokens")?,
        epochs: field(result, "epochs")?,
        steps: field(result, "steps")?,
        global_batch_size: train.batch.global_batch_size.get(),
        lr: train.optimizer.lr,
        tensor_parallel_size: field(result, "tensor_parallel_size")?,
        data_parallel_size: field(result, "data_parallel_size")?,
        final_loss: field(result, "final_loss")?,
        validation_loss: field(result, "validation_loss")?,
        loss_curve: thinned(loss_curve, CURVE_POINTS),
        validation_curve,
        seconds: entry.seconds,
    })
}

/// A line of a run's metrics, as far as it is a point of a curve.
#[derive(Deserialize)]
struct Line {
    tokens: u64,
    loss: Option<f64>,
    validation_loss: Option<f64>,
}

/// The losses in training and in validation that a run has written down.
fn curves(metrics: &Path) -> anyhow::Result<[Vec<CurvePoint>; 2]> {
    let cannot = || format!("cannot read {}", metrics.display());
    let text = fs::read_to_string(metrics).with_context(cannot)?;
    let (mut losses, mut validations) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let line: Line = serde_json::from_str(line)
            .with_context(|| format!("{}:{}", metrics.display(), index + 1))?;
        let point = |loss| CurvePoint { tokens: line.tokens, loss };
        losses.extend(line.loss.map(point));
        validations.extend(line.validation_loss.map(point));
    }
    Ok([losses, validations])
}

fn wikitext103(score: &Value) -> anyhow::Result<WikiText103> {
    let [metrics, counts, settings] = ["metrics", "counts", "settings"].map(|key| &score[key]);
    Ok(WikiText103 {
        protocol: field(score, "protocol")?,
        word_perplexity: field(metrics, "word_perplexity")?,
        token_perplexity: field(metrics, "token_perplexity")?,
        capped: field(metrics, "capped")?,
        total_nll: field(metrics, "total_nll")?,
        bits_per_byte: field(metrics, "bits_per_byte")?,
        tokens: field(counts, "tokens")?,
        original_tokens: field(counts, "original_tokens")?,
        token_ratio: field(settings, "token_ratio")?,
        targets: field(counts, "targets")?,
        window: field(settings, "window")?,
        overlap: field(settings, "overlap")?,
        partial: field(score, "partial")?,
        seconds: field(score, "seconds")?,
    })
}

fn lambada(score: &Value) -> anyhow::Result<Lambada> {
    let [metrics, counts, settings] = ["metrics", "counts", "settings"].map(|key| &score[key]);
    Ok(Lambada {
        protocol: field(score, "protocol")?,
        strict_accuracy: field(metrics, "strict_accuracy")?,
        strict_stderr: field(metrics, "strict_stderr")?,
        last_token_accuracy: field(metrics, "last_token_accuracy")?,
        last_token_stderr: field(metrics, "last_token_stderr")?,
        // JSON has no infinity.
        target_perplexity: field::<Option<f64>>(metrics, "target_perplexity")?
            .unwrap_or(f64::INFINITY),
        examples: field(counts, "examples")?,
        label_tokens: field(counts, "label_tokens")?,
        window: field(settings, "window")?,
        partial: field(score, "partial")?,
        seconds: field(score, "seconds")?,
    })
}

fn parts_of(parts: &Parts<'_>, journal: &Journal, done_now: &[String]) -> Vec<super::report::Part> {
    let all = parts.all(journal).into_iter().filter(|&part| part != Part::Page);
    all.map(|part| {
        let name = parts.key(part);
        let entry = journal.entry(&name);
        let state = match entry.map(|entry| entry.state) {
            Some(State::Done) if done_now.contains(&name) => PartState::Done,
            Some(State::Done) => PartState::Kept,
            _ => PartState::Missing,
        };
        super::report::Part {
            state,
            seconds: entry.map(|entry| entry.seconds),
            peak_rss_bytes: entry.and_then(|entry| entry.peak_rss_bytes),
            warnings: entry.map(|entry| entry.warnings.clone()).unwrap_or_default(),
            name,
        }
    })
    .collect()
}
