//! Test sets: what must not be trained on, cut into items.
//!
//! The name of a file says its form. What a source would read as JSONL or Parquet (`*.jsonl`, `*.jsonl.gz`, `*.parquet`) is
//! a benchmark such as LAMBADA with one item a record, whose text stands under a key. Every other file is text in WikiText's form: an article
//! begins at each level-1 heading (` = Title = `, between blank lines), and a file without headings is one item. Nothing is compared across the
//! border of two items.

use std::path::Path;
use std::sync::Arc;

use corpus::CorpusError;
use corpus::reader::{
    Item, JsonlConfig, ParquetConfig, ReadPolicy, RejectReason, SourceConfig, SourceFormat, Sources,
};

use crate::CurationError;

/// An item of a test set: an article, or a record of a benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestItem {
    /// File of the test set.
    pub file: Arc<Path>,
    /// Line of the heading or of the record, counted from 1; 1 for text before the first heading.
    pub line: u64,
    /// The heading, without its marks; `None` for a record and for text before the first heading.
    pub title: Option<String>,
    /// The record's own identifier.
    pub id: Option<String>,
}

impl TestItem {
    /// The title of an article, the identifier of a record.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.title.as_deref().or(self.id.as_deref())
    }
}

/// The items of a file with their texts, in file order. An article's text begins with its heading.
///
/// # Errors
///
/// [`CurationError::TestSet`] for a file that cannot be read, that is empty, or in which a record or the encoding is
/// faulty.
pub(super) fn read(path: &Path, text_key: &str) -> Result<Vec<(TestItem, String)>, CurationError> {
    let items = match benchmark(path, text_key) {
        Some(source) => read_records(source),
        None => read_articles(path),
    };
    let items = items.map_err(|problem| fault(path, problem))?;
    if items.iter().all(|(_, text)| text.trim().is_empty()) {
        return Err(fault(path, "it is empty. Name another file in test_sets".to_owned()));
    }
    Ok(items)
}

/// Maker of [`CurationError::TestSet`] values.
pub(super) fn fault(path: &Path, problem: String) -> CurationError {
    CurationError::TestSet { path: path.to_owned(), problem }
}

/// The file as a source of records; `None` for text.
fn benchmark(path: &Path, text_key: &str) -> Option<SourceConfig> {
    let source = SourceConfig::detect(path).ok()?;
    let text = text_key.to_owned();
    let format = match source.format {
        SourceFormat::Jsonl(keys) => SourceFormat::Jsonl(JsonlConfig { text_key: text, ..keys }),
        SourceFormat::Parquet(columns) => {
            SourceFormat::Parquet(ParquetConfig { text_column: text, ..columns })
        }
        SourceFormat::Text(_) => return None,
    };
    Some(SourceConfig { format, ..source })
}

fn read_records(source: SourceConfig) -> Result<Vec<(TestItem, String)>, String> {
    let sources = Sources::open(&[source], ReadPolicy::default()).map_err(record_problem)?;
    sources
        .filter_map(|item| match item {
            Ok(Item::Document(document)) => {
                let provenance = document.provenance;
                let line = provenance.line.unwrap_or(1);
                let item = TestItem { file: provenance.file, line, title: None, id: provenance.id };
                Some(Ok((item, document.text)))
            }
            // A record whose text is null has nothing to keep out; others that do not read are errors here.
            Ok(_) => None,
            Err(error) => Some(Err(record_problem(error))),
        })
        .collect()
}

/// What is wrong with a benchmark, without its name.
fn record_problem(error: CorpusError) -> String {
    match error {
        CorpusError::BadRecord(reject) => {
            let line = reject.provenance.line.unwrap_or(1);
            match &reject.reason {
                RejectReason::MissingKey { key, present, .. } => format!(
                    "line {line} has no key \"{key}\" (keys present: {}). Set \
                     decontamination.text_key",
                    present.join(", ")
                ),
                reason => format!(
                    "line {line}: {reason} (byte {}). Mend or remove the line",
                    reject.byte_offset
                ),
            }
        }
        CorpusError::BrokenFile(broken) => format!(
            "it breaks off at byte {}, after item {}: {}. Get the file anew",
            broken.byte_offset, broken.documents, broken.problem
        ),
        CorpusError::Io { action, source, .. } => cannot(action, &source),
        other => other.to_string(),
    }
}

fn read_articles(path: &Path) -> Result<Vec<(TestItem, String)>, String> {
    let bytes = std::fs::read(path).map_err(|error| cannot("read", &error))?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let offset = error.valid_up_to();
        let line = 1 + bytes[..offset].iter().filter(|&&byte| byte == b'\n').count();
        format!("line {line} is no UTF-8 (byte {offset}). Convert the file to UTF-8")
    })?;
    let file: Arc<Path> = path.into();
    Ok(articles(text.strip_prefix('\u{feff}').unwrap_or(text))
        .into_iter()
        .map(|(line, title, text)| {
            let title = title.map(str::to_owned);
            (TestItem { file: file.clone(), line, title, id: None }, text.to_owned())
        })
        .collect())
}

fn cannot(action: &str, error: &std::io::Error) -> String {
    format!("cannot {action} it: {error}. Check decontamination.test_sets")
}

/// Cuts a text at its level-1 headings: line, title and content (heading included) of each article.
///
/// A heading stands between blank lines. An article may hold an equation that its line breaks
/// make look like one (` = 1 rad / s and a nominal impedance k = `).
fn articles(text: &str) -> Vec<(u64, Option<&str>, &str)> {
    let mut starts = vec![(0, 1, None)];
    let mut lines = text.split_inclusive('\n').zip(1_u64..).peekable();
    let (mut offset, mut follows_blank) = (0, true);
    while let Some((line, number)) = lines.next() {
        let precedes_blank = lines.peek().is_none_or(|(next, _)| next.trim().is_empty());
        if follows_blank
            && precedes_blank
            && let Some(title) = level_1_title(line)
        {
            starts.push((offset, number, Some(title)));
        }
        follows_blank = line.trim().is_empty();
        offset += line.len();
    }
    let ends = starts.iter().skip(1).map(|&(start, ..)| start).chain([text.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(&(start, line, title), end)| (line, title, &text[start..end]))
        .filter(|(_, title, content)| title.is_some() || !content.trim().is_empty())
        .collect()
}

/// The title in a line ` = Title = `; deeper headings are written ` = = Title = = `.
fn level_1_title(line: &str) -> Option<&str> {
    let title = line.trim().strip_prefix("= ")?.strip_suffix(" =")?.trim();
    let is_deeper = title.starts_with("= ") || title.ends_with(" =");
    (!title.is_empty() && title != "=" && !is_deeper).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(name: &str, content: &[u8]) -> Result<Vec<(TestItem, String)>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        read(&path, "text").map_err(|error| {
            let message = error.to_string();
            message.strip_prefix(&format!("test set {}: ", path.display())).unwrap().to_owned()
        })
    }

    #[test]
    fn only_level_1_headings_are_titles() {
        assert_eq!(level_1_title(" = Robert Boulter = \n"), Some("Robert Boulter"));
        assert_eq!(level_1_title("= E = mc2 =\n"), Some("E = mc2"));
        for line in
            [" = = Career = = \n", " = = = Film = = = ", " = ", "= =", "= = =", "= a", "a =", ""]
        {
            assert_eq!(level_1_title(line), None, "{line}");
        }
    }

    #[test]
    fn articles_begin_at_level_1_headings() {
        let text = b"before \n \n = A = \n \n x \n \n = = B = = \n \n y \n \n = C = \n";
        let items = read_as("a.tokens", text);
        let seen: Vec<_> = items
            .unwrap()
            .into_iter()
            .map(|(item, text)| (item.line, item.title, text.split_whitespace().count()))
            .collect();
        assert_eq!(seen, [(1, None, 1), (3, Some("A".into()), 10), (11, Some("C".into()), 3)]);
    }

    #[test]
    fn equations_inside_an_article_are_no_headings() {
        let text = "= A =\r\n\r\nThe frequency is omega\r\n= 1 rad / s and k =\r\n1 ohm\r\n";
        for text in [text, " = A = \n \n L \n = 1 H and C = \n \n x \n \n = 2 V and I = \n 1 \n"] {
            let items = read_as("a.tokens", text.as_bytes()).unwrap();
            assert_eq!(items.len(), 1, "{items:?}");
            assert_eq!((items[0].0.name(), items[0].1.as_str()), (Some("A"), text));
        }
    }

    #[test]
    fn text_without_headings_is_one_item() {
        let items = read_as("a.txt", "\u{feff}one\ntwo\n".as_bytes()).unwrap();
        assert_eq!((items.len(), items[0].1.as_str()), (1, "one\ntwo\n"));
    }

    #[test]
    fn each_record_of_a_benchmark_is_an_item() {
        let lines = b"{\"text\": \"one\"}\n{\"text\": null}\n{\"id\": 7, \"text\": \"= two =\"}\n";
        for name in ["a.jsonl", "a.ndjson"] {
            let items = read_as(name, lines).unwrap();
            let seen: Vec<_> = items
                .iter()
                .map(|(item, text)| (item.line, item.id.as_deref(), text.as_str()))
                .collect();
            assert_eq!(seen, [(1, None, "one"), (3, Some("7"), "= two =")]);
            assert!(items.iter().all(|(item, _)| item.title.is_none()));
        }
    }

    #[test]
    fn faults_have_their_place_and_a_remedy() {
        for (name, content, problem) in [
            ("a.tokens", &b" \n\n"[..], "it is empty. Name another file"),
            ("a.jsonl", b"", "it is empty. Name another file"),
            ("a.jsonl", b"{\"text\": \" \"}\n", "it is empty. Name another file"),
            ("a.tokens", b"one\ntwo \xff", "line 2 is no UTF-8 (byte 8). Convert the file"),
            ("a.jsonl", b"{\"text\": \"\xff\"}", "line 1: invalid UTF-8 (byte 10). Mend or remove"),
            (
                "a.jsonl",
                b"{\"text\": \"a\"}\n{\"text\": 7}\n",
                "line 2: key \"text\" holds a number",
            ),
            (
                "a.jsonl",
                b"{\"text\": \"a\"}\n{\"te",
                "it breaks off at byte 18, after item 1: the last record is cut off. Get the file",
            ),
            (
                "a.jsonl",
                b"{\"question\": \"a\"}\n",
                "line 1 has no key \"text\" (keys present: question). Set decontamination.text_key",
            ),
        ] {
            let found = read_as(name, content).unwrap_err();
            assert!(found.starts_with(problem), "{found}");
        }
        for name in ["no/such.tokens", "no/such.jsonl"] {
            let error = read(Path::new(name), "text").unwrap_err().to_string();
            assert!(error.starts_with(&format!("test set {name}: cannot read it: No such file")));
            assert!(error.ends_with("Check decontamination.test_sets"), "{error}");
        }
    }
}
