//! Writes a data folder beside its final place, and moves it there when it is whole.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::workplace::Workplace;
use super::{DataFolder, DataManifest, MANIFEST, SHARD, TOKENIZER};
use crate::CorpusError;
use crate::pending_file::{FileSummary, sync_folder, temporary_sibling};
use crate::shard::ShardWriter;

/// A data folder being written; dropped before [`finish`](Self::finish), it leaves nothing behind.
#[derive(Debug)]
pub struct DataFolderWriter {
    path: PathBuf,
    existing: Existing,
    temporary: Workplace,
}

impl DataFolderWriter {
    /// Begins the folder that will be `path`; [`DataFolder::create`] is the way here.
    pub(super) fn create(path: &Path, existing: Existing) -> Result<Self, CorpusError> {
        let named = path;
        let path = without_links(named)?;
        check_target(&path, existing)?;
        let temporary = Workplace::take(temporary_sibling(&path, "partial"), named)?;
        temporary.empty()?;
        // Once the place is held, no other run can be about to put its folder there.
        restore_replaced(&path)?;
        check_target(&path, existing)?;
        remove_folder(&temporary_sibling(&path, "replaced"))?;
        Ok(Self { path, existing, temporary })
    }

    /// Where the file of this name lies until the folder is finished.
    pub fn file(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }

    /// Begins the folder's shard for tokens below `vocab_size`.
    ///
    /// # Errors
    ///
    /// As [`ShardWriter::create`].
    pub fn shard(&self, vocab_size: usize) -> Result<ShardWriter, CorpusError> {
        ShardWriter::create(&self.file(SHARD), vocab_size)
    }

    /// Makes the file at `from` a file of this folder, under this name. The file stays where it is
    /// as well, where the file system can give one file two names: what it was made for is then not
    /// lost when this folder is not finished.
    ///
    /// # Errors
    ///
    /// Where it can be neither linked nor copied.
    pub fn adopt(&self, from: &Path, name: &str) -> Result<(), CorpusError> {
        let to = self.file(name);
        if fs::hard_link(from, &to).is_err() {
            fs::copy(from, &to).map_err(CorpusError::io("copy", from))?;
            sync_file(&to)?;
        }
        Ok(())
    }

    /// Writes the file of this name.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), CorpusError> {
        let path = self.file(name);
        fs::write(&path, content).map_err(CorpusError::io("write", &path))
    }

    /// Writes `value` as the JSON file of this name.
    ///
    /// # Errors
    ///
    /// Where the file cannot be written.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), CorpusError> {
        let path = self.file(name);
        let mut text = serde_json::to_vec_pretty(value)
            .map_err(|source| CorpusError::Json { path: path.clone(), source })?;
        text.push(b'\n');
        self.write(name, &text)
    }

    /// Writes the tokenizer's definition where it has a file, completes `manifest` by the files
    /// that it does not list yet, writes it last, and gives the folder its name.
    ///
    /// # Errors
    ///
    /// Where something cannot be read or written; [`CorpusError::OutputKept`] where the folder is
    /// finished and cannot have its name, because it is taken meanwhile or cannot be given.
    pub fn finish(mut self, mut manifest: DataManifest) -> Result<DataFolder, CorpusError> {
        if let Some(definition) = &manifest.definition {
            let path = self.file(TOKENIZER);
            fs::write(&path, definition.as_bytes()).map_err(CorpusError::io("write", &path))?;
            TOKENIZER.clone_into(&mut manifest.tokenizer.name);
        }
        for path in self.other_files(&manifest.files)? {
            manifest.files.push(FileSummary::of(&path)?);
            sync_file(&path)?;
        }
        self.write_json(MANIFEST, &manifest)?;
        sync_file(&self.file(MANIFEST))?;
        sync_folder(Some(self.temporary.path()))?;

        if let Err(error) = self.put_in_place() {
            let kept = self.temporary.keep();
            return Err(CorpusError::OutputKept { kept, source: Box::new(error) });
        }
        sync_folder(self.path.parent())?;
        let replaced = temporary_sibling(&self.path, "replaced");
        if let Err(error) = remove_folder(&replaced) {
            tracing::warn!("{error}. It is the folder that was replaced: remove it by hand");
        }
        DataFolder::open(&self.path)
    }

    /// Gives the finished folder its name; what has come to stand there since it was begun is held
    /// against the same rule as then.
    fn put_in_place(&mut self) -> Result<(), CorpusError> {
        check_target(&self.path, self.existing)?;
        if self.existing == Existing::Replace && self.path.exists() {
            rename(&self.path, &temporary_sibling(&self.path, "replaced"))?;
        }
        self.temporary.rename(&self.path).inspect_err(|_| {
            // The error to report is that of the new folder; the old one is restored by the next
            // run where it cannot be now.
            let _ = restore_replaced(&self.path);
        })
    }

    /// Files in the folder that are not in `listed`, by name.
    fn other_files(&self, listed: &[FileSummary]) -> Result<Vec<PathBuf>, CorpusError> {
        let mut paths = Vec::new();
        let folder = self.temporary.path();
        for entry in fs::read_dir(folder).map_err(CorpusError::io("list", folder))? {
            let entry = entry.map_err(CorpusError::io("list", folder))?;
            if !listed.iter().any(|file| entry.file_name() == file.name.as_str()) {
                paths.push(entry.path());
            }
        }
        paths.sort();
        Ok(paths)
    }
}

/// What to do with a data folder that exists under the name of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Refuse to begin.
    #[default]
    Refuse,
    /// Put the new one in its place when that is whole.
    Replace,
}

/// The place that `path` names. A link is followed, so that its folder is written and the link
/// stays; what no folder can be moved to is refused.
fn without_links(path: &Path) -> Result<PathBuf, CorpusError> {
    let refuse = |remedy| Err(CorpusError::OutputExists { path: path.to_owned(), remedy });
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() && !path.exists() => {
            return refuse(
                "It is a link that leads nowhere: make the folder that it leads to, or choose \
                 another name",
            );
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return std::path::absolute(path).map_err(CorpusError::io("resolve", path));
        }
        Err(error) => return Err(CorpusError::io("read", path)(error)),
    }
    let path = fs::canonicalize(path).map_err(CorpusError::io("resolve", path))?;
    let device_of =
        |path: &Path| fs::metadata(path).map(|it| it.dev()).map_err(CorpusError::io("read", path));
    let is_mount_point = match path.parent() {
        Some(parent) => device_of(parent)? != device_of(&path)?,
        None => true,
    };
    if is_mount_point {
        return refuse("It is a mount point, which cannot be renamed: choose a folder inside it");
    }
    Ok(path)
}

/// Whether a data folder can be written at `path`, as far as can be told without making anything.
pub(super) fn check_place(path: &Path, existing: Existing) -> Result<(), CorpusError> {
    check_target(&without_links(path)?, existing)
}

fn check_target(path: &Path, existing: Existing) -> Result<(), CorpusError> {
    let refuse = |remedy| Err(CorpusError::OutputExists { path: path.to_owned(), remedy });
    if !path.exists() {
        return Ok(());
    }
    if !path.is_dir() {
        return refuse("It is no folder: choose another name");
    }
    match existing {
        _ if is_empty(path)? => Ok(()),
        Existing::Refuse => refuse("Choose another name, or pass --overwrite"),
        Existing::Replace if holds_only_a_data_folder(path)? => Ok(()),
        Existing::Replace => refuse(
            "It holds other things than a data folder, so it is not overwritten: choose another name",
        ),
    }
}

fn is_empty(folder: &Path) -> Result<bool, CorpusError> {
    Ok(fs::read_dir(folder).map_err(CorpusError::io("list", folder))?.next().is_none())
}

/// Whether all that lies in `path` is a data folder's manifest and the files that this lists, whole
/// or broken.
fn holds_only_a_data_folder(path: &Path) -> Result<bool, CorpusError> {
    let Ok(text) = fs::read(path.join(MANIFEST)) else { return Ok(false) };
    let Ok(manifest) = serde_json::from_slice::<DataManifest>(&text) else { return Ok(false) };
    for entry in fs::read_dir(path).map_err(CorpusError::io("list", path))? {
        let name = entry.map_err(CorpusError::io("list", path))?.file_name();
        if name != MANIFEST && !manifest.files.iter().any(|file| name == file.name.as_str()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Gives an old folder its name back where a death, or an error, came between its going and the new
/// one's coming.
fn restore_replaced(path: &Path) -> Result<(), CorpusError> {
    let replaced = temporary_sibling(path, "replaced");
    let is_free = !path.exists() || is_empty(path)?;
    if replaced.exists() && is_free {
        rename(&replaced, path)?;
        tracing::warn!(
            "{}: restored from {}: a run that was to replace it did not end",
            path.display(),
            replaced.display()
        );
    }
    Ok(())
}

fn rename(from: &Path, to: &Path) -> Result<(), CorpusError> {
    fs::rename(from, to).map_err(CorpusError::io("rename", from))
}

fn remove_folder(path: &Path) -> Result<(), CorpusError> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(CorpusError::io("remove", path))
    } else {
        Ok(())
    }
}

fn sync_file(path: &Path) -> Result<(), CorpusError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(CorpusError::io("sync", path))
}
