//! The source that a path given on the command line stands for.

use std::path::{Path, PathBuf};

use super::files::{self, SourceFile};
use super::form::{Content, glob_of_endings};
use super::{JsonlConfig, ParquetConfig, SourceConfig, SourceFormat, TextTreeConfig};
use crate::CorpusError;

impl SourceConfig {
    /// The source that fits what a file, a folder or a glob holds, named after it.
    ///
    /// # Errors
    ///
    /// A path that does not exist or holds no file, a file of unknown form, and a folder that holds
    /// several forms.
    pub fn detect(path: impl Into<PathBuf>) -> Result<Self, CorpusError> {
        let path = path.into();
        let files = files::list_any(&path)?;
        let content = the_one_content(&path, &files)?;
        let format = match content {
            Content::Jsonl => SourceFormat::Jsonl(JsonlConfig::default()),
            Content::Parquet => SourceFormat::Parquet(ParquetConfig::default()),
            Content::Text => SourceFormat::Text(TextTreeConfig::default()),
        };
        Ok(Self::new(path, format))
    }
}

/// The content that all of `files` have.
fn the_one_content(path: &Path, files: &[SourceFile]) -> Result<Content, CorpusError> {
    let mut contents: Vec<Content> = files.iter().map(|file| file.form.content).collect();
    contents.sort_unstable();
    contents.dedup();
    if let [content] = contents[..] {
        return Ok(content);
    }
    let of_content = |content: Content| {
        files.iter().filter(move |file| file.form.content == content).map(|file| &*file.path)
    };
    let held: Vec<String> = contents
        .iter()
        .filter_map(|&content| {
            let example = of_content(content).next()?.display();
            Some(format!("{} of {content}, such as {example}", of_content(content).count()))
        })
        .collect();
    let globs: Vec<String> = contents
        .iter()
        .map(|&content| format!("'{}'", glob_of_endings(path, of_content(content)).display()))
        .collect();
    Err(CorpusError::MixedForms {
        path: path.to_owned(),
        held: held.join("; "),
        remedy: if path.is_dir() {
            format!("Give each form as a source of its own: {}", globs.join(" "))
        } else {
            "Give each form a pattern of its own".to_owned()
        },
    })
}
