//! Which files a source consists of, and in which order.
//!
//! Files of a folder come in the order of their paths relative to it, compared byte by byte, on every machine. Hidden
//! files and folders (a leading dot) and symbolic links are left out and listed: an archive's `._part.jsonl` is no data,
//! and a link may lead in a circle. Packed JSONL is refused rather than left out.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use walkdir::{DirEntry, WalkDir};

use super::{SourceConfig, SourceFormat, TextTreeConfig};
use crate::CorpusError;

/// A file of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// A file or folder that was left out though nobody asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The file or folder.
    pub path: PathBuf,
    /// Why it was left out.
    pub reason: SkipReason,
}

/// Why a file or folder was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// Its name begins with a dot.
    Hidden,
    /// It is a symbolic link.
    SymbolicLink,
    /// It lies in a folder of JSONL but is not named as JSONL.
    NotJsonl,
}

/// Files of `source` in result order; what was left out is added to `skipped`.
pub(super) fn list(
    source: &SourceConfig,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<SourceFile>, CorpusError> {
    let selection = Selection::new(source)?;
    let mut files = Vec::new();
    for path in &source.paths {
        let metadata = std::fs::metadata(path).map_err(CorpusError::io("read", path))?;
        if metadata.is_dir() {
            files.extend(selection.list_folder(path, skipped)?);
        } else {
            selection.check_named_file(path)?;
            files.push(SourceFile { path: path.clone(), bytes: metadata.len() });
        }
    }
    Ok(files)
}

/// Which files of a folder belong to a source.
enum Selection {
    Jsonl,
    Text { include: GlobSet, exclude: GlobSet, wanted: String },
}

impl Selection {
    fn new(source: &SourceConfig) -> Result<Self, CorpusError> {
        let SourceFormat::Text(TextTreeConfig { include, exclude }) = &source.format else {
            return Ok(Self::Jsonl);
        };
        let compiled = |patterns: &[String]| {
            compile(patterns)
                .map_err(|error| CorpusError::BadGlob { name: source.name.clone(), source: error })
        };
        Ok(Self::Text {
            include: compiled(include)?,
            exclude: compiled(exclude)?,
            wanted: include.join(", "),
        })
    }

    /// Refuses a file that was named as an input but cannot be what the source says it is.
    fn check_named_file(&self, path: &Path) -> Result<(), CorpusError> {
        match self {
            Self::Text { .. } => Ok(()),
            Self::Jsonl if is_jsonl(path) => Ok(()),
            Self::Jsonl => Err(not_jsonl(path)),
        }
    }

    fn list_folder(
        &self,
        root: &Path,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<SourceFile>, CorpusError> {
        let mut files = Vec::new();
        let mut walk = WalkDir::new(root).min_depth(1).into_iter();
        while let Some(entry) = walk.next() {
            let entry = entry.map_err(|error| walk_error(root, error))?;
            let relative = entry.path().strip_prefix(root).expect("a walk stays below its root");
            let reason = if is_hidden(&entry) {
                self.might_include(&entry, relative).then_some(SkipReason::Hidden)
            } else if self.excludes(relative) {
                None
            } else if entry.path_is_symlink() {
                Some(SkipReason::SymbolicLink)
            } else if entry.file_type().is_dir() {
                continue;
            } else if self.includes(entry.path(), relative)? {
                let metadata = entry.metadata().map_err(|error| walk_error(root, error))?;
                files.push(SourceFile { path: entry.into_path(), bytes: metadata.len() });
                continue;
            } else {
                matches!(self, Self::Jsonl).then_some(SkipReason::NotJsonl)
            };
            if entry.file_type().is_dir() {
                walk.skip_current_dir();
            }
            skipped.extend(reason.map(|reason| Skipped { path: entry.into_path(), reason }));
        }
        if files.is_empty() {
            return Err(self.no_files(root));
        }
        files.sort_by(|a, b| a.path.as_os_str().as_bytes().cmp(b.path.as_os_str().as_bytes()));
        Ok(files)
    }

    /// Whether a reader of the patterns would look for this hidden entry among the input: any folder, and a file of a fitting name.
    fn might_include(&self, entry: &DirEntry, relative: &Path) -> bool {
        match self {
            Self::Text { include, .. } => entry.file_type().is_dir() || include.is_match(relative),
            Self::Jsonl => true,
        }
    }

    fn excludes(&self, relative: &Path) -> bool {
        matches!(self, Self::Text { exclude, .. } if exclude.is_match(relative))
    }

    fn includes(&self, path: &Path, relative: &Path) -> Result<bool, CorpusError> {
        match self {
            Self::Text { include, .. } => Ok(include.is_match(relative)),
            Self::Jsonl if packed_form(path).is_some() => Err(not_jsonl(path)),
            Self::Jsonl => Ok(is_jsonl(path)),
        }
    }

    fn no_files(&self, root: &Path) -> CorpusError {
        let (wanted, remedy) = match self {
            Self::Jsonl => ("*.jsonl", "Name the files themselves, or a folder that holds some"),
            Self::Text { wanted, .. } => (wanted.as_str(), "Check `include` and `exclude`"),
        };
        CorpusError::NoFiles { path: root.to_owned(), wanted: wanted.to_owned(), remedy }
    }
}

/// A pattern without a slash means a name at any depth.
fn compile(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let anchored = if pattern.contains('/') { pattern } else { &format!("**/{pattern}") };
        set.add(GlobBuilder::new(anchored).literal_separator(true).build()?);
    }
    set.build()
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().as_bytes().starts_with(b".")
}

fn is_jsonl(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl" || extension == "ndjson")
}

/// What a packed file is called by its name.
fn packed_form(path: &Path) -> Option<&'static str> {
    match path.extension()?.as_bytes() {
        b"gz" => Some("gzip"),
        b"zst" => Some("Zstandard"),
        b"parquet" => Some("Parquet"),
        b"bz2" => Some("bzip2"),
        b"xz" => Some("xz"),
        _ => None,
    }
}

fn not_jsonl(path: &Path) -> CorpusError {
    let (found, remedy) = match packed_form(path) {
        Some(form) => (form.to_owned(), "Unpack it first"),
        None => (
            "unknown file type".to_owned(),
            "Name it *.jsonl if it holds one JSON object per line, or read it with [source.text]",
        ),
    };
    CorpusError::NotPlainJsonl { path: path.to_owned(), found, remedy }
}

fn walk_error(root: &Path, error: walkdir::Error) -> CorpusError {
    let path = error.path().unwrap_or(root).to_owned();
    let source = error.into_io_error().unwrap_or_else(|| std::io::Error::other("circular folders"));
    CorpusError::Io { action: "list", path, source }
}
