//! Whether what a part has left is still what it left: sizes, and hashes where they are read in a
//! moment.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use corpus::{CorpusError, DataFolder, FileSummary, MANIFEST, Observer, Unit};
use serde::{Deserialize, Serialize};
use training::checkpoint::{CHECKPOINTS, Manifest};

/// The most bytes of a part whose hashes are compared at each call: a few seconds. Of more, sizes
/// are, and hashes where the corpus or the checkpoint is used.
const MOST_HASHED_BYTES: u64 = 8 << 30;

/// A file that a part has left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputFile {
    /// Its path, relative to the reproduction's folder.
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) xxh3_128: String,
}

/// What is wrong with the output of a part that is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// A file is not there.
    Gone(String),
    /// A file is not what it was.
    Damaged(String),
}

impl Fault {
    /// The fault as a sentence without its end.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Gone(path) => format!("{path} is gone"),
            Self::Damaged(what) => what.clone(),
        }
    }
}

impl OutputFile {
    /// The file at `path` below `out` as it is now.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, or `observer` asks to stop.
    pub(super) fn of(out: &Path, path: &str, observer: &dyn Observer) -> Result<Self, CorpusError> {
        let summary = FileSummary::observed(&out.join(path), observer)?;
        Ok(Self::listed(path.to_owned(), summary))
    }

    fn listed(path: String, summary: FileSummary) -> Self {
        Self { path, bytes: summary.bytes, xxh3_128: summary.xxh3_128 }
    }

    /// The files of the data folder `folder` below `out`, as its manifest has them, and the
    /// manifest.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub(super) fn of_data(
        out: &Path,
        folder: &str,
        data: &DataFolder,
        observer: &dyn Observer,
    ) -> Result<Vec<Self>, CorpusError> {
        Self::of_manifest(out, folder, &data.manifest().files, observer)
    }

    /// The files of the checkpoint `name` of the run `run` below `out`, as its manifest has them,
    /// and the manifest.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub(super) fn of_checkpoint(
        out: &Path,
        run: &str,
        name: &str,
        manifest: &Manifest,
        observer: &dyn Observer,
    ) -> Result<Vec<Self>, CorpusError> {
        let folder = format!("{run}/{CHECKPOINTS}/{name}");
        Self::of_manifest(out, &folder, &manifest.files, observer)
    }

    fn of_manifest(
        out: &Path,
        folder: &str,
        files: &[FileSummary],
        observer: &dyn Observer,
    ) -> Result<Vec<Self>, CorpusError> {
        let path = |name: &str| format!("{folder}/{name}");
        let listed = |file: &FileSummary| Self::listed(path(&file.name), file.clone());
        let mut found = vec![Self::of(out, &path(MANIFEST), observer)?];
        found.extend(files.iter().map(listed));
        Ok(found)
    }
}

/// The first thing that is wrong with `files` below `out`: sizes first.
///
/// # Errors
///
/// Where one cannot be read though it is there, or `observer` asks to stop.
pub(super) fn fault_of(
    files: &[OutputFile],
    out: &Path,
    observer: &dyn Observer,
) -> Result<Option<Fault>, CorpusError> {
    for file in files {
        let path = out.join(&file.path);
        let shown = path.display();
        match fs::metadata(&path) {
            Ok(found) if found.is_file() && found.len() == file.bytes => {}
            Ok(found) if found.is_file() => {
                let (found, expected) = (found.len(), file.bytes);
                let what = format!("{shown} is damaged: it has {found} bytes, not {expected}");
                return Ok(Some(Fault::Damaged(what)));
            }
            Ok(_) => return Ok(Some(Fault::Damaged(format!("{shown} is no file")))),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(Some(Fault::Gone(shown.to_string())));
            }
            Err(source) => return Err(CorpusError::Io { action: "read", path, source }),
        }
    }
    if files.iter().map(|file| file.bytes).sum::<u64>() > MOST_HASHED_BYTES {
        return Ok(None);
    }
    for file in files {
        let path = out.join(&file.path);
        if FileSummary::observed(&path, observer)?.xxh3_128 != file.xxh3_128 {
            let shown = path.display();
            let what = format!("{shown} is damaged: its content is not what was written");
            return Ok(Some(Fault::Damaged(what)));
        }
    }
    Ok(None)
}

/// Bytes of those of `files` that are read in [`fault_of`].
fn hashed_bytes(files: &[OutputFile]) -> u64 {
    let bytes = files.iter().map(|file| file.bytes).sum();
    if bytes > MOST_HASHED_BYTES { 0 } else { bytes }
}

/// [`fault_of`] for several parts, one stage of progress for all.
///
/// # Errors
///
/// As [`fault_of`].
pub(super) fn faults_of<'a>(
    parts: impl Iterator<Item = (&'a str, &'a [OutputFile])> + Clone,
    out: &Path,
    observer: &dyn Observer,
) -> Result<Vec<(String, Fault)>, CorpusError> {
    let total = parts.clone().map(|(_, files)| hashed_bytes(files)).sum::<u64>();
    if total > 0 {
        observer.begin("checking what is done", Some(total), Unit::Bytes);
    }
    let mut faults = Vec::new();
    for (key, files) in parts {
        if let Some(fault) = fault_of(files, out, observer)? {
            faults.push((key.to_owned(), fault));
        }
    }
    observer.finish();
    Ok(faults)
}
