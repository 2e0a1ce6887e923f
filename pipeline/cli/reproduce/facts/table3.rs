//! What was found for Table 3.

use serde_json::Value;

use super::super::journal::Journal;
use super::super::parts::{Part, Parts};
use super::super::report::Ground;
use super::super::report::table3::{
    Contamination, CorpusState, Lambada, NGramOverlap, PaperOverlap, PaperRow, Size, Table3, Task,
    TestSet, WikiText103,
};
use super::{field, result, runs};

/// All that was found, on `ground`.
///
/// # Errors
///
/// Where the output of a part cannot be read.
pub(super) fn gather(
    parts: &Parts<'_>,
    journal: &Journal,
    ground: Ground,
) -> anyhow::Result<Table3> {
    let config = parts.config;
    let sizes = (0..config.sizes.len()).map(|size| size_of(parts, journal, size));
    Ok(Table3 {
        ground,
        paper_scale: config.text.is_none(),
        test_sets: test_sets(parts, journal)?,
        contamination: contamination(parts, journal)?,
        sizes: sizes.collect::<Result<_, _>>()?,
        paper: PaperRow::table3(),
        paper_overlap: PaperOverlap::table3(),
    })
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
    let (model, parameters) = runs::model(parts, journal, size)?;
    let of_size = parts.all(journal).into_iter().filter(|part| part.size() == Some(size));
    let of_size: Vec<_> = of_size.collect();
    // The journal may still have a score on a test set that an earlier text was made into.
    let scored = |task| {
        let part = of_size.iter().find(|&&part| part == Part::Eval(size, task));
        part.and_then(|&part| journal.result(&parts.key(part)))
    };
    Ok(Size {
        name: section.name.clone(),
        paper_row: section.paper.clone(),
        model,
        parameters,
        parameters_without_padding: field(
            result(parts, journal, Part::Train(size))?,
            "parameters",
        )?,
        training: runs::training(parts, journal, size)?,
        wikitext103: scored(Task::WikiText103).map(wikitext103).transpose()?,
        lambada: scored(Task::Lambada).map(lambada).transpose()?,
        peak_rss_bytes: runs::peak_rss_bytes(parts, journal, size),
    })
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
