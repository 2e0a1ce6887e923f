//! Which files a source consists of, and in which order.
//!
//! A path of a source is a file, a folder or a glob. The files of a folder or a glob come in the
//! order of their paths, compared byte by byte, on every machine. No file is lost without a word:
//! what is hidden (a leading dot: an archive's `._part.jsonl` is no data) and links to folders
//! (which may lead in a circle) are left out and listed, and a file whose name stands for no known
//! form is refused. Links to files are read: caches of downloaded corpora are made of them. A file
//! that is met twice in one run is refused, since its documents would all be there twice, unless
//! two sources read texts of it under different keys.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use globset::{GlobSet, GlobSetBuilder};
use walkdir::{DirEntry, WalkDir};

use super::form::{self, Content, Form};
use super::pattern::{self, PathPattern};
use super::{SourceConfig, SourceFormat, TextTreeConfig};
use crate::CorpusError;

/// A file of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
    pub(super) form: Form,
    /// The file's path without links, which is the same under whatever name it is met.
    identity: PathBuf,
    is_link: bool,
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) bytes: u64,
    /// When the file was last written, in nanoseconds since 1970.
    pub(super) modified_ns: i64,
}

impl Stamp {
    pub(super) fn of(metadata: &fs::Metadata) -> Self {
        let seconds_ns = metadata.mtime().saturating_mul(1_000_000_000);
        let modified_ns = seconds_ns.saturating_add(metadata.mtime_nsec());
        Self { bytes: metadata.len(), modified_ns }
    }
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
    /// It is a symbolic link to a folder.
    LinkToFolder,
    /// It is a symbolic link to a file of the same folder or glob, which is read under another
    /// name.
    SecondName,
    /// It is a folder that matches a glob, and a glob selects files.
    Folder,
}

/// The reason as a user reads it.
impl fmt::Display for SkipReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Hidden => "hidden",
            Self::LinkToFolder => "link to a folder",
            Self::SecondName => "link to a file that is read already",
            Self::Folder => "folder, where the pattern selects files",
        })
    }
}

/// The files of all sources of one run.
#[derive(Debug, Default)]
pub(super) struct FileList {
    pub(super) skipped: Vec<Skipped>,
    /// The path under which each file was met first, for each of the texts that it holds.
    met: HashMap<(PathBuf, String), PathBuf>,
}

impl FileList {
    /// The files of one more source, in result order.
    pub(super) fn add(&mut self, source: &SourceConfig) -> Result<Vec<SourceFile>, CorpusError> {
        let names = Names::of(source)?;
        let mut files = Vec::new();
        for path in &source.paths {
            files.extend(list(path, &names, &mut self.skipped)?);
        }
        let text = source.format.text_key();
        for file in &files {
            let met = (file.identity.clone(), text.to_owned());
            if let Some(first) = self.met.insert(met, file.path.clone()) {
                return Err(CorpusError::FileTwice { path: file.path.clone(), first });
            }
        }
        Ok(files)
    }
}

/// Files of any known form that a path stands for.
pub(super) fn list_any(path: &Path) -> Result<Vec<SourceFile>, CorpusError> {
    let names = Names { reads: Reads::Known(None), include: None, exclude: GlobSet::empty() };
    list(path, &names, &mut Vec::new())
}

/// The files that one path stands for, in result order.
fn list(
    path: &Path,
    names: &Names,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<SourceFile>, CorpusError> {
    let pattern = PathPattern::parse(path)
        .map_err(|source| CorpusError::BadGlob { origin: path.display().to_string(), source })?;
    if let Some(pattern) = pattern {
        return Walk { path, root: &pattern.folder, pattern: Some(&pattern), names }.list(skipped);
    }
    let metadata = fs::metadata(path).map_err(CorpusError::io("read", path))?;
    if metadata.is_dir() {
        return Walk { path, root: path, pattern: None, names }.list(skipped);
    }
    let form = names.form(path, true)?;
    let identity = canonical(path)?;
    Ok(vec![source_file(path.to_owned(), &metadata, form, identity, false)?])
}

fn source_file(
    path: PathBuf,
    metadata: &fs::Metadata,
    form: Form,
    identity: PathBuf,
    is_link: bool,
) -> Result<SourceFile, CorpusError> {
    if !metadata.is_file() {
        return Err(CorpusError::UnreadForm {
            path,
            found: "a pipe or a device".to_owned(),
            remedy: "Write its content to a file first".to_owned(),
        });
    }
    Ok(SourceFile { path, stamp: Stamp::of(metadata), form, identity, is_link })
}

/// What a source says about names.
pub(super) struct Names {
    reads: Reads,
    /// Files of a folder to read; all of them where this is `None`.
    include: Option<GlobSet>,
    exclude: GlobSet,
}

/// How names are understood.
#[derive(Clone, Copy)]
enum Reads {
    /// Files whose names stand for a known form: of one content, or of any.
    Known(Option<Content>),
    /// Whatever is named or selected, as text.
    AnyText { is_selective: bool },
}

impl Names {
    pub(super) fn of(source: &SourceConfig) -> Result<Self, CorpusError> {
        let of_content = |content| Self {
            reads: Reads::Known(Some(content)),
            include: None,
            exclude: GlobSet::empty(),
        };
        let (include, exclude) = match &source.format {
            SourceFormat::Jsonl(_) => return Ok(of_content(Content::Jsonl)),
            SourceFormat::Parquet(_) => return Ok(of_content(Content::Parquet)),
            SourceFormat::Text(TextTreeConfig { include, exclude }) => (include, exclude),
        };
        let compiled = |patterns: &[String]| {
            compile(patterns).map_err(|error| CorpusError::BadGlob {
                origin: format!("source \"{}\"", source.name),
                source: error,
            })
        };
        let is_selective = !include.is_empty();
        Ok(Self {
            reads: Reads::AnyText { is_selective },
            include: is_selective.then(|| compiled(include)).transpose()?,
            exclude: compiled(exclude)?,
        })
    }

    /// Whether the source leaves the file or folder at `relative` out.
    pub(super) fn leaves_out(&self, relative: &Path) -> bool {
        self.exclude.is_match(relative)
    }

    /// The form in which a file is to be read, or why it is refused. `is_chosen` says that the file
    /// was named or matches a glob, and did not just lie in a folder.
    fn form(&self, path: &Path, is_chosen: bool) -> Result<Form, CorpusError> {
        let content = match self.reads {
            Reads::AnyText { is_selective } if is_selective || is_chosen => {
                return form_of_text(path);
            }
            Reads::AnyText { .. } => Some(Content::Text),
            Reads::Known(content) => content,
        };
        let form = Form::of_name(path).ok_or_else(|| form::unknown(path))?;
        match content {
            Some(content) if content != form.content => Err(CorpusError::UnreadForm {
                path: path.to_owned(),
                found: format!("a {} file in a source of {content}", form.content),
                remedy: format!(
                    "Give each form a source of its own, and select its files with a glob ({})",
                    content.names()
                ),
            }),
            _ => Ok(form),
        }
    }
}

/// The form of a file that is to be read as text, whatever it is named, but for names that no text
/// has: its records would make one document.
fn form_of_text(path: &Path) -> Result<Form, CorpusError> {
    let form = Form::text(path);
    let bare = form.compression.map_or_else(|| path.to_owned(), |_| path.with_extension(""));
    let extension = bare.extension().unwrap_or_default().as_bytes();
    let found = match extension {
        b"jsonl" | b"ndjson" => Content::Jsonl,
        b"parquet" => Content::Parquet,
        _ => return Ok(form),
    };
    Err(CorpusError::UnreadForm {
        path: path.to_owned(),
        found: format!("a {found} file in a source of text, which would read it as one document"),
        remedy: "Give it a source of its own form, or another name where it is one text".to_owned(),
    })
}

/// Files below a folder.
struct Walk<'a> {
    /// The path as it was written.
    path: &'a Path,
    root: &'a Path,
    pattern: Option<&'a PathPattern>,
    names: &'a Names,
}

impl Walk<'_> {
    fn list(&self, skipped: &mut Vec<Skipped>) -> Result<Vec<SourceFile>, CorpusError> {
        let skipped_before = skipped.len();
        let canonical_root = canonical(self.root)?;
        let mut files = Vec::new();
        let mut walk = WalkDir::new(self.root).min_depth(1).into_iter();
        while let Some(entry) = walk.next() {
            let entry = entry.map_err(|error| walk_error(self.root, error))?;
            let relative =
                entry.path().strip_prefix(self.root).expect("a walk stays below its root");
            let is_folder =
                entry.file_type().is_dir() || entry.path_is_symlink() && entry.path().is_dir();
            let is_wanted = !self.names.leaves_out(relative)
                && if is_folder { self.enters(relative) } else { self.selects(relative) };
            let reason = self.reason_to_skip(&entry, is_folder, is_wanted, relative);
            if is_wanted && reason.is_none() && !is_folder {
                let identity = canonical_root.join(relative);
                files.push(self.file(&entry, identity)?);
                continue;
            }
            if entry.file_type().is_dir() && !(is_wanted && reason.is_none()) {
                walk.skip_current_dir();
            }
            skipped.extend(reason.map(|reason| Skipped { path: entry.into_path(), reason }));
        }
        files.sort_by(|a, b| a.path.as_os_str().as_bytes().cmp(b.path.as_os_str().as_bytes()));
        pass_over_second_names(&mut files, skipped);
        if files.is_empty() {
            return Err(self.no_files(skipped.len() - skipped_before));
        }
        Ok(files)
    }

    /// Whether files that are wanted may lie below the folder at `relative`.
    fn enters(&self, relative: &Path) -> bool {
        self.pattern.is_none_or(|pattern| pattern.may_lie_below(relative))
    }

    /// Whether the file at `relative` is wanted.
    fn selects(&self, relative: &Path) -> bool {
        match self.pattern {
            Some(pattern) => pattern.matches(relative),
            None => self.names.include.as_ref().is_none_or(|include| include.is_match(relative)),
        }
    }

    fn reason_to_skip(
        &self,
        entry: &DirEntry,
        is_folder: bool,
        is_wanted: bool,
        relative: &Path,
    ) -> Option<SkipReason> {
        let is_matched = || self.pattern.is_some_and(|pattern| pattern.matches(relative));
        match is_wanted {
            true if entry.file_name().as_bytes().starts_with(b".") => Some(SkipReason::Hidden),
            true if is_folder && entry.path_is_symlink() => Some(SkipReason::LinkToFolder),
            false if is_folder && is_matched() => Some(SkipReason::Folder),
            _ => None,
        }
    }

    fn file(&self, entry: &DirEntry, identity: PathBuf) -> Result<SourceFile, CorpusError> {
        let path = entry.path();
        let form = self.names.form(path, self.pattern.is_some())?;
        let metadata = fs::metadata(path).map_err(CorpusError::io("read", path))?;
        let is_link = entry.path_is_symlink();
        let identity = if is_link { canonical(path)? } else { identity };
        // `./` is only how the walk calls the working folder.
        let path = path.strip_prefix("./").unwrap_or(path).to_owned();
        source_file(path, &metadata, form, identity, is_link)
    }

    fn no_files(&self, num_skipped: usize) -> CorpusError {
        let selects = self.pattern.is_some() || self.names.include.is_some();
        let mut problem = if selects { "no file matches" } else { "holds no file" }.to_owned();
        if num_skipped > 0 {
            problem += &format!(" but what is left out: {num_skipped} hidden or linked");
        }
        let remedy = match (self.pattern, self.names.reads) {
            (Some(_), _) => "Check the pattern, and the folder that it is relative to",
            (None, Reads::AnyText { .. }) => "Check the folder, `include` and `exclude`",
            (None, Reads::Known(_)) => "Name files, or a folder that holds some",
        };
        CorpusError::NoFiles { path: self.path.to_owned(), problem, remedy }
    }
}

/// Takes out links to files that are among `files` under another name: their own, or that of an
/// earlier link.
fn pass_over_second_names(files: &mut Vec<SourceFile>, skipped: &mut Vec<Skipped>) {
    if !files.iter().any(|file| file.is_link) {
        return;
    }
    let mut read: HashSet<PathBuf> =
        files.iter().filter(|file| !file.is_link).map(|file| file.identity.clone()).collect();
    files.retain(|file| {
        let is_kept = !file.is_link || read.insert(file.identity.clone());
        if !is_kept {
            skipped.push(Skipped { path: file.path.clone(), reason: SkipReason::SecondName });
        }
        is_kept
    });
}

/// A pattern without a slash means a name at any depth.
fn compile(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let anchored = if pattern.contains('/') { pattern } else { &format!("**/{pattern}") };
        set.add(pattern::glob(anchored)?);
    }
    set.build()
}

fn canonical(path: &Path) -> Result<PathBuf, CorpusError> {
    fs::canonicalize(path).map_err(CorpusError::io("read", path))
}

fn walk_error(root: &Path, error: walkdir::Error) -> CorpusError {
    let path = error.path().unwrap_or(root).to_owned();
    let source = error.into_io_error().unwrap_or_else(|| std::io::Error::other("circular folders"));
    CorpusError::Io { action: "list", path, source }
}
