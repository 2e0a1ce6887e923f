//! The report as CSV, read back.

use std::collections::BTreeMap;

use super::sample::reproduction;
use super::told::table3::Table3Report;

/// The records of a CSV text by RFC 4180.
///
/// # Panics
///
/// If a quote stands where none may, or the text does not end with a record.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                assert!(field.is_empty(), "a quote within a bare field");
                loop {
                    match letters.next().expect("a quoted field ends") {
                        '"' if letters.next_if_eq(&'"').is_some() => field.push('"'),
                        '"' => break,
                        inside => field.push(inside),
                    }
                }
                assert!(matches!(letters.peek(), Some(',' | '\n')), "text after a quoted field");
            }
            ',' => record.push(std::mem::take(&mut field)),
            '\n' => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            bare => field.push(bare),
        }
    }
    assert!(record.is_empty() && field.is_empty(), "the last line has no end");
    records
}

/// The rows by column.
fn rows(report: &Table3Report) -> Vec<BTreeMap<String, String>> {
    let records = records(&report.csv());
    let (header, rows) = records.split_first().expect("a header");
    rows.iter()
        .map(|row| {
            assert_eq!(row.len(), header.len());
            header.iter().cloned().zip(row.iter().cloned()).collect()
        })
        .collect()
}

#[test]
fn a_row_for_each_size_and_each_row_of_the_paper() {
    let report = Table3Report::of(reproduction());
    let rows = rows(&report);
    let names: Vec<_> =
        rows.iter().map(|row| (row["source"].as_str(), row["name"].as_str())).collect();
    assert_eq!(
        names,
        [
            ("ours", "small"),
            ("ours", "medium"),
            ("ours", "large"),
            ("paper", "355M"),
            ("paper", "2.5B"),
            ("paper", "8.3B"),
            ("earlier", "kNN-LM"),
            ("earlier", "GPT-2 1.5B"),
        ]
    );
    assert_eq!(rows[3]["wikitext103_word_perplexity"], "19.31");
    assert_eq!(rows[3]["lambada_strict_accuracy"], "0.4518");
    assert_eq!(rows[3]["wikitext103_outcome"], "not reproduced at this scale");
    assert_eq!(rows[3]["layers"], "");
    assert_eq!(rows[6]["lambada_strict_accuracy"], "");
    assert_eq!(rows[0]["partial"], "false");
    assert_eq!(rows[0]["wikitext103_published"], "true");
}

#[test]
fn numbers_come_back_as_they_were() {
    let report = Table3Report::of(reproduction());
    for (row, size) in rows(&report).iter().zip(&report.found.sizes) {
        let number = |name: &str| row[name].parse::<f64>().unwrap();
        let (wikitext103, lambada) = (size.wikitext103.as_ref(), size.lambada.as_ref());
        assert_eq!(number("parameters"), size.parameters as f64);
        assert_eq!(number("validation_loss"), size.training.validation_loss.unwrap());
        assert_eq!(number("wikitext103_total_nll"), wikitext103.unwrap().total_nll);
        assert_eq!(number("lambada_strict_stderr"), lambada.unwrap().strict_stderr);
        assert_eq!(row["paper_row"], *size.paper_row.as_ref().unwrap());
    }
}

#[test]
fn names_come_back_as_they_were() {
    for name in ["a,b", "say \"so\"", "two\nlines", " leading", "trailing ", "", "\"", "é, ü", "\r"]
    {
        let mut found = reproduction();
        found.sizes[1].name = name.to_owned();
        let report = Table3Report::of(found);
        assert_eq!(rows(&report)[1]["name"], name);
    }
}
