//! Where the documents of a corpus come from, as it is written in a config file.
//!
//! The form of a source is the name of its table, so that a misspelt option is reported at its own
//! line:
//!
//! ```toml
//! [[source]]
//! name = "bookscorpus"
//! paths = ["books/", "more/part-*.jsonl.gz"]
//! weight = 0.1
//! exclude_for = ["gpt2"]
//! [source.jsonl]
//! text_key = "text"
//!
//! [[source]]
//! name = "wikipedia"
//! paths = ["wikipedia/**/*.parquet"]
//! [source.parquet]
//! text_column = "text"
//! title_column = "title"
//!
//! [[source]]
//! name = "manuals"
//! paths = ["manuals/"]
//! [source.text]
//! include = ["*.md", "*.txt.gz"]
//! ```
//!
//! A path is a file, a folder that is read in whole, or a glob: `*` stays within a name, `**`
//! crosses folders, `{a,b}` is either. A path that exists is what it names, whatever characters it
//! has.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::CorpusError;

/// One source of documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WrittenSource", into = "WrittenSource")]
pub struct SourceConfig {
    /// Name by which reports call the source.
    pub name: String,
    /// Files, folders and globs, read in this order. A file that several sources name has a text
    /// for each, under a key of its own.
    pub paths: Vec<PathBuf>,
    /// Share of the training samples that is drawn from the source, relative to the weights of the
    /// others: a finite number above 0. Where no source has one, each counts by its tokens.
    pub weight: Option<f64>,
    /// Models whose corpus leaves the source out, such as one whose test set overlaps it.
    pub exclude_for: Vec<ModelFamily>,
    /// How documents lie in the files.
    pub format: SourceFormat,
}

/// A kind of model that a corpus is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelFamily {
    /// GPT-2: predicts the next token.
    Gpt2,
    /// BERT: fills in masked tokens.
    Bert,
}

/// As it is written in a config file.
impl fmt::Display for ModelFamily {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Gpt2 => "gpt2",
            Self::Bert => "bert",
        })
    }
}

/// How documents lie in the files of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceFormat {
    /// One JSON object per line.
    Jsonl(JsonlConfig),
    /// One row of a table each.
    Parquet(ParquetConfig),
    /// One document per file.
    Text(TextTreeConfig),
}

impl SourceFormat {
    /// Key or column that holds the text; empty where a document is a whole file.
    pub(super) fn text_key(&self) -> &str {
        match self {
            Self::Jsonl(keys) => &keys.text_key,
            Self::Parquet(columns) => &columns.text_column,
            Self::Text(_) => "",
        }
    }
}

/// Table `[source.jsonl]`: one JSON object per line, in files named `*.jsonl`, `*.ndjson` or
/// `*.json`, with `.gz` or `.zst` where they are compressed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JsonlConfig {
    /// Key that holds the text.
    pub text_key: String,
    /// Key that holds the document's identifier. A record may lack it; an identifier is a string or
    /// a number.
    pub id_key: String,
    /// Key that holds the document's title; none is read unless this is set. A record may lack it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title_key: Option<String>,
}

impl Default for JsonlConfig {
    fn default() -> Self {
        Self { text_key: "text".to_owned(), id_key: "id".to_owned(), title_key: None }
    }
}

/// Table `[source.parquet]`: one document per row, in files named `*.parquet`, of any number of row
/// groups. A text or title column holds strings of whatever Arrow type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ParquetConfig {
    /// Column that holds the text.
    pub text_column: String,
    /// Column that holds the document's identifier, strings or whole numbers. A file may lack it.
    pub id_column: String,
    /// Column that holds the document's title; none is read unless this is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title_column: Option<String>,
}

impl Default for ParquetConfig {
    fn default() -> Self {
        Self { text_column: "text".to_owned(), id_column: "id".to_owned(), title_column: None }
    }
}

/// Table `[source.text]`: every file is one document. One whose name ends in `.gz` or `.zst` is
/// unpacked.
///
/// A pattern without a slash is compared with a name at any depth (`*.md`, `LICENSE*`), one with a
/// slash with the whole path relative to the source's folder, where `*` stays within a name and
/// `**` crosses folders (`docs/**/*.txt`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TextTreeConfig {
    /// Files of a folder to read, whatever they are named. Where this is empty all files must be
    /// named as text is: `*.txt`, `*.txt.gz` or `*.txt.zst`. A file that is named as a path of the
    /// source or matches one is read whatever its name. Names of records (`*.jsonl`, `*.ndjson`,
    /// `*.parquet`) are always refused.
    pub include: Vec<String>,
    /// Files to leave out, and folders to leave out with all they hold.
    pub exclude: Vec<String>,
}

impl SourceConfig {
    /// A source of the files that one path stands for, named after it.
    pub fn new(path: impl Into<PathBuf>, format: SourceFormat) -> Self {
        let path = path.into();
        Self {
            name: path.display().to_string(),
            paths: vec![path],
            weight: None,
            exclude_for: Vec::new(),
            format,
        }
    }

    /// A source of JSONL under the usual keys, named after its path.
    pub fn jsonl(path: impl Into<PathBuf>) -> Self {
        Self::new(path, SourceFormat::Jsonl(JsonlConfig::default()))
    }

    /// Makes relative paths relative to `folder`, such as the one a config file lies in.
    pub fn resolve_from(&mut self, folder: &Path) {
        for path in &mut self.paths {
            *path = folder.join(&*path);
        }
    }
}

/// [`SourceConfig`] as its table is written: one optional table per form.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSource {
    name: String,
    paths: Vec<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    exclude_for: Vec<ModelFamily>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonl: Option<JsonlConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parquet: Option<ParquetConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextTreeConfig>,
}

impl TryFrom<WrittenSource> for SourceConfig {
    type Error = CorpusError;

    fn try_from(written: WrittenSource) -> Result<Self, CorpusError> {
        let bad = |problem| CorpusError::BadSource { name: written.name.clone(), problem };
        let mut formats = [
            written.jsonl.map(SourceFormat::Jsonl),
            written.parquet.map(SourceFormat::Parquet),
            written.text.map(SourceFormat::Text),
        ]
        .into_iter()
        .flatten();
        let format = match (formats.next(), formats.next()) {
            (Some(format), None) => format,
            (None, _) => {
                return Err(bad(
                    "names no format: add a table [source.jsonl], [source.parquet] or [source.text]",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(bad(
                    "has two formats: keep one of [source.jsonl], [source.parquet] and [source.text]",
                ));
            }
        };
        if written.paths.is_empty() {
            return Err(bad("names no path: list files or folders in `paths`"));
        }
        if written.weight.is_some_and(|weight| !weight.is_finite() || weight <= 0.0) {
            return Err(bad("has a weight that is no share: write a finite number above 0"));
        }
        let WrittenSource { name, paths, weight, exclude_for, .. } = written;
        Ok(Self { name, paths, weight, exclude_for, format })
    }
}

impl From<SourceConfig> for WrittenSource {
    fn from(source: SourceConfig) -> Self {
        let SourceConfig { name, paths, weight, exclude_for, format } = source;
        let (jsonl, parquet, text) = (None, None, None);
        let mut written = Self { name, paths, weight, exclude_for, jsonl, parquet, text };
        match format {
            SourceFormat::Jsonl(jsonl) => written.jsonl = Some(jsonl),
            SourceFormat::Parquet(parquet) => written.parquet = Some(parquet),
            SourceFormat::Text(text) => written.text = Some(text),
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn format_is_the_name_of_a_table() {
        let written = json!({"name": "a", "paths": ["a.jsonl"], "jsonl": {"text_key": "body"}});
        let source: SourceConfig = serde_json::from_value(written).unwrap();
        let SourceFormat::Jsonl(jsonl) = &source.format else { panic!("{source:?}") };
        assert_eq!((jsonl.text_key.as_str(), jsonl.id_key.as_str()), ("body", "id"));
        assert_eq!(
            serde_json::to_value(&source).unwrap(),
            json!({"name": "a", "paths": ["a.jsonl"], "jsonl": {"text_key": "body", "id_key": "id"}})
        );
    }

    #[test]
    fn weight_and_excluded_models_are_read_and_written_where_they_are_set() {
        let written = json!({
            "name": "books", "paths": ["b/"], "weight": 0.25, "exclude_for": ["gpt2", "bert"],
            "text": {"include": [], "exclude": []},
        });
        let source: SourceConfig = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(source.weight, Some(0.25));
        assert_eq!(source.exclude_for, [ModelFamily::Gpt2, ModelFamily::Bert]);
        assert_eq!(serde_json::to_value(&source).unwrap(), written);
    }

    #[test]
    fn sources_without_one_format_or_with_unknown_keys_are_refused() {
        for (written, message) in [
            (json!({"name": "a", "paths": ["x"]}), "names no format"),
            (json!({"name": "a", "paths": ["x"], "jsonl": {}, "text": {}}), "two formats"),
            (json!({"name": "a", "paths": [], "text": {}}), "names no path"),
            (json!({"name": "a", "paths": ["x"], "text": {}, "weight": 0}), "write a finite"),
            (json!({"name": "a", "paths": ["x"], "text": {}, "weight": -0.5}), "write a finite"),
            (json!({"name": "a", "paths": ["x"], "text": {}, "weight": "1"}), "invalid type"),
            (json!({"name": "a", "paths": ["x"], "text": {}, "exclude_for": ["gpt"]}), "gpt2"),
            (json!({"name": "a", "paths": ["x"], "jsonl": {"txt_key": "b"}}), "txt_key"),
            (json!({"name": "a", "paths": ["x"], "jsnl": {}}), "jsnl"),
        ] {
            let error = serde_json::from_value::<SourceConfig>(written).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
