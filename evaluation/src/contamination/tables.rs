//! What a table for people has beside metrics, counts and settings.

use std::fmt;

use super::clean_subset::{CleanSubset, SubsetScore};
use super::report::{DocumentOverlap, ItemOverlap, Measured};

/// Characters of a passage that a table shows.
const EXCERPT_CHARACTERS: usize = 100;

/// Entries of a list that a table shows; JSON has them all.
const ENTRIES_SHOWN: usize = 10;

/// The parts of a result that are lists, a title and its lines each.
pub(crate) struct Tables<'m>(pub(crate) &'m Measured);

impl fmt::Display for Tables<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sizes(out)?;
        self.clean_subset(out)?;
        self.items(out)?;
        self.documents(out)
    }
}

impl Tables<'_> {
    fn sizes(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "  {:<9} {:>3}  {:>10}  {:>22}  {:>10}  {:>22}",
            "by words", "n", "positions", "matched", "distinct", "matched"
        )?;
        for it in &self.0.by_ngram_words {
            writeln!(
                out,
                "  {:<9} {:>3}  {:>10}  {:>22}  {:>10}  {:>22}",
                "",
                it.ngram_words,
                it.positions,
                part(it.matched_positions, it.position_share),
                it.distinct,
                part(it.matched_distinct, it.distinct_share),
            )?;
        }
        Ok(())
    }

    fn clean_subset(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(clean) = &self.0.clean_subset else { return Ok(()) };
        writeln!(
            out,
            "  clean     {}: score on the items of which so much is in the corpus",
            clean.task
        )?;
        if let Some(problem) = &clean.problem {
            writeln!(out, "            not told: {problem}")?;
        }
        for subset in &clean.subsets {
            let CleanSubset { items_with, items, targets, score, .. } = subset;
            let score = score.map_or_else(|| "no item, no score".to_owned(), told);
            writeln!(
                out,
                "            {items_with:<18} {items:>6} items {targets:>8} targets  {score}"
            )?;
        }
        Ok(())
    }

    fn items(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = &self.0.most_matched_items;
        for (number, item) in items.iter().take(ENTRIES_SHOWN).enumerate() {
            let ItemOverlap { file, line, name, ngrams, matched_ngrams, share } = item;
            let title = if number == 0 { "items" } else { "" };
            let name = name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
            let matched = part(*matched_ngrams, *share);
            writeln!(out, "  {title:<9} {matched} of {ngrams}  {file}:{line}{name}")?;
        }
        more(out, items.len())
    }

    fn documents(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let documents = &self.0.worst_documents;
        for (number, document) in documents.iter().take(ENTRIES_SHOWN).enumerate() {
            let title = if number == 0 { "documents" } else { "" };
            let DocumentOverlap { shared_ngrams, matched_positions, positions, item, .. } =
                document;
            let name = item.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
            writeln!(
                out,
                "  {title:<9} {shared_ngrams} n-grams at {matched_positions} of {positions} \
                 positions  {}",
                place(document)
            )?;
            writeln!(
                out,
                "            {} of them with {}:{}{name}",
                item.shared_ngrams, item.file, item.line
            )?;
            writeln!(out, "            \"{}\"", one_line(&document.excerpt))?;
        }
        more(out, documents.len())
    }
}

fn more(out: &mut fmt::Formatter<'_>, entries: usize) -> fmt::Result {
    match entries.checked_sub(ENTRIES_SHOWN) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(out, "            and {more} more, listed by --json"),
    }
}

/// A count and what share of all it is.
fn part(count: u64, share: f64) -> String {
    format!("{count} ({:.4}%)", 100.0 * share)
}

fn told(score: SubsetScore) -> String {
    match score {
        SubsetScore::Text(score) => format!(
            "word_perplexity {:.4}, token_perplexity {:.4}{}",
            score.word_perplexity,
            score.token_perplexity,
            if score.capped { ", cut at exp(20)" } else { "" }
        ),
        SubsetScore::Cloze(score) => format!(
            "strict_accuracy {:.4} ± {:.4}, last_token_accuracy {:.4} ± {:.4}, target_perplexity {:.4}",
            score.strict_accuracy,
            score.strict_stderr,
            score.last_token_accuracy,
            score.last_token_stderr,
            score.target_perplexity
        ),
    }
}

/// Where a document stands.
fn place(document: &DocumentOverlap) -> String {
    let DocumentOverlap { corpus, document: number, file, line, id, .. } = document;
    let mut place = match number {
        Some(number) => format!("{corpus}, document {number}"),
        None => String::new(),
    };
    if let Some(file) = file {
        let from = if place.is_empty() { "" } else { ", from " };
        place.push_str(from);
        place.push_str(file);
        if let Some(line) = line {
            place.push_str(&format!(":{line}"));
        }
    }
    if let Some(id) = id {
        place.push_str(&format!(" (id {id})"));
    }
    place
}

/// The beginning of a passage, its white space made single spaces.
fn one_line(excerpt: &str) -> String {
    let joined = excerpt.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line: String = joined.chars().take(EXCERPT_CHARACTERS).collect();
    if line.len() < joined.len() {
        line.push('…');
    }
    line
}
