//! What the decontamination of a corpus comes to: the part of `report.json` under `contamination`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::config::Rule;
use super::overlap::{OverlapReport, Seen};
use super::{Contamination, Decontamination};
use crate::records::Location;

/// Documents that a report shows by way of example.
pub(crate) const EXAMPLES_SHOWN: usize = 10;

/// Counts of the decontamination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContaminationReport {
    /// Documents that were looked at: those that the earlier stages left.
    pub documents: u64,
    /// Those of them that have a title.
    pub titled_documents: u64,
    /// Titles of test articles that the rule `title` compares; `None` where it is off.
    pub test_titles: Option<u64>,
    /// Records of a test set whose text is `null`, by test set: they match nothing.
    pub null_records: BTreeMap<String, u64>,
    /// Documents that went, for each rule that is on.
    pub flagged: BTreeMap<Rule, u64>,
    /// How much of the test sets these documents hold, for each number of words of an n-gram.
    pub overlap: Vec<OverlapReport>,
    /// The first documents that went, by way of example.
    pub examples: Vec<ContaminationExample>,
}

/// A document that went, and what it shares with a test set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContaminationExample {
    /// The document.
    pub document: Location,
    /// The item of a test set that shows it.
    pub item: Location,
    /// The rule that applies.
    pub rule: Rule,
    /// Distinct n-grams that both hold; `None` by the rule `title`.
    pub shared: Option<usize>,
    /// The longest passage that both hold, or its beginning; `None` by the rule `title`.
    pub excerpt: Option<String>,
}

/// Counts of the documents that were judged, or of a part of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContaminationCounts {
    /// Documents that were judged.
    pub documents: u64,
    /// Those of them that have a title.
    pub titled_documents: u64,
    /// Those that are contaminated, for each rule that found some.
    pub flagged: BTreeMap<Rule, u64>,
}

impl ContaminationCounts {
    /// Counts a document and what was found of it.
    pub fn add(&mut self, title: Option<&str>, found: Option<&Contamination>) {
        self.documents += 1;
        self.titled_documents += u64::from(title.is_some());
        if let Some(found) = found {
            *self.flagged.entry(found.rule()).or_default() += 1;
        }
    }

    /// Adds the counts of another part of the corpus.
    pub fn merge(&mut self, other: &Self) {
        self.documents += other.documents;
        self.titled_documents += other.titled_documents;
        for (&rule, count) in &other.flagged {
            *self.flagged.entry(rule).or_default() += count;
        }
    }
}

impl ContaminationReport {
    /// The report on all documents that were judged.
    #[must_use]
    pub fn new(test_sets: &Decontamination, seen: &Seen, counts: ContaminationCounts) -> Self {
        let mut flagged: BTreeMap<Rule, u64> =
            test_sets.rules().into_iter().map(|rule| (rule, 0)).collect();
        flagged.extend(counts.flagged);
        Self {
            documents: counts.documents,
            titled_documents: counts.titled_documents,
            test_titles: test_sets.num_titles().map(|titles| titles as u64),
            null_records: test_sets
                .null_records
                .iter()
                .map(|(path, count)| (path.display().to_string(), *count))
                .collect(),
            flagged,
            overlap: test_sets.overlap(seen),
            examples: Vec::new(),
        }
    }

    /// Adds a document that went, by way of example.
    pub fn add_example(
        &mut self,
        document: Location,
        found: &Contamination,
        test_sets: &Decontamination,
    ) {
        self.examples.push(ContaminationExample {
            document,
            item: Location::of_item(&test_sets.items()[found.item()]),
            rule: found.rule(),
            shared: found.shared().map(|shared| shared.shared),
            excerpt: found.shared().map(|shared| shared.excerpt.clone()),
        });
    }

    /// What a user should look at: signs that the rules find nothing, or everything.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let null_records = self.null_records.iter().map(|(file, count)| {
            format!(
                "{count} records of the test set {file} have null for a text, and match nothing"
            )
        });
        let items_without_ngrams = self.overlap.iter().filter_map(OverlapReport::warning);
        let titles = (self.test_titles.is_some() && self.titled_documents == 0).then(|| {
            format!(
                "decontamination by title found nothing to compare: none of {} documents has a \
                 title under its source's title_key or title_column",
                self.documents
            )
        });
        null_records
            .chain(items_without_ngrams)
            .chain(titles)
            .chain(self.flagged_warning())
            .collect()
    }

    fn flagged_warning(&self) -> Option<String> {
        let (documents, flagged) = (self.documents, self.flagged.values().sum::<u64>());
        if 2 * flagged > documents {
            let share = 100.0 * flagged as f64 / documents as f64;
            return Some(format!(
                "decontamination removed {share:.0}% of the documents that reached it ({flagged} \
                 of {documents}): their spans in removed.jsonl show what they share"
            ));
        }
        if flagged > 0 || documents == 0 {
            return None;
        }
        let compared = self.overlap.iter().map(|overlap| {
            let (all, matched) = overlap.distinct();
            let words = overlap.ngram_words;
            format!("{all} test {words}-grams, of which {matched} occur")
        });
        let titles = self.test_titles.map(|titles| format!("{titles} test titles"));
        let compared: Vec<String> = compared.chain(titles).collect();
        Some(format!(
            "decontamination removed none of {documents} documents; it compared them with {}",
            compared.join(", and with ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decontaminate::TestSetOverlap;

    fn report(documents: u64, flagged: u64) -> ContaminationReport {
        let test_set = TestSetOverlap {
            file: "wiki.test.tokens".to_owned(),
            items: 3,
            items_without_ngrams: 0,
            ngrams: 500,
            matched_ngrams: 10,
            share: 0.02,
            distinct_ngrams: 450,
            matched_distinct_ngrams: 9,
            matched_items: 1,
            most_matched: Vec::new(),
        };
        ContaminationReport {
            documents,
            titled_documents: 1,
            test_titles: Some(2),
            null_records: BTreeMap::new(),
            flagged: [(Rule::NGram, flagged), (Rule::Title, 0)].into(),
            overlap: vec![OverlapReport {
                ngram_words: 8,
                rules: vec![Rule::NGram],
                test_sets: vec![test_set],
            }],
            examples: Vec::new(),
        }
    }

    #[test]
    fn nothing_flagged_is_said_with_what_was_compared() {
        assert_eq!(
            report(20, 0).warnings(),
            [
                "decontamination removed none of 20 documents; it compared them with 450 test 8-grams, \
              of which 9 occur, and with 2 test titles"
            ]
        );
        assert_eq!(report(0, 0).warnings(), [""; 0]);
    }

    #[test]
    fn more_than_half_flagged_is_warned_of() {
        assert_eq!(report(20, 10).warnings(), [""; 0]);
        let [warning] = &report(20, 11).warnings()[..] else { panic!("one warning") };
        assert!(warning.starts_with(
            "decontamination removed 55% of the documents that reached it (11 of 20)"
        ));
    }

    #[test]
    fn rules_with_nothing_to_compare_are_warned_of() {
        let mut untitled = report(20, 1);
        untitled.titled_documents = 0;
        assert!(untitled.warnings()[0].contains("none of 20 documents has a title"));

        let mut short = report(20, 1);
        short.overlap[0].test_sets[0].items_without_ngrams = 2;
        assert_eq!(
            short.warnings(),
            ["2 of 3 items of the test sets have fewer than 8 words, and match nothing by n-grams"]
        );
    }
}
