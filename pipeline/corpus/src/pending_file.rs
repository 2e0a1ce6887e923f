//! A file that appears under its name only when it is whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::CorpusError;

/// Size and checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSummary {
    /// Its name, without folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its xxh3-128 hash, in hexadecimal.
    pub xxh3_128: String,
}

impl FileSummary {
    /// Reads the file at `path` for its size and checksum.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read.
    pub fn of(path: &Path) -> Result<Self, CorpusError> {
        let mut hashed = Hashed { inner: io::sink(), hash: Xxh3::new(), bytes: 0 };
        File::open(path)
            .and_then(|mut file| io::copy(&mut file, &mut hashed))
            .map_err(CorpusError::io("read", path))?;
        Ok(hashed.summary(path))
    }
}

/// A file being written under a temporary name beside its own; dropped before it is committed, it
/// is gone.
#[derive(Debug)]
pub struct PendingFile {
    path: PathBuf,
    temporary: PathBuf,
    /// `None` once the bytes are on disk.
    writer: Option<BufWriter<Hashed<File>>>,
    renamed: bool,
}

impl PendingFile {
    /// Begins the file that will be `path`, which must not exist.
    ///
    /// # Errors
    ///
    /// Where something of this name exists, or the file cannot be made.
    pub fn create(path: &Path) -> Result<Self, CorpusError> {
        if path.exists() {
            let remedy = "Remove it or choose another name";
            return Err(CorpusError::OutputExists { path: path.to_owned(), remedy });
        }
        Self::replace(path)
    }

    /// Begins the file that will be `path`; a file of this name stays as it is until this one is
    /// whole.
    ///
    /// # Errors
    ///
    /// Where the file cannot be made.
    pub fn replace(path: &Path) -> Result<Self, CorpusError> {
        let temporary = temporary_sibling(path, "partial");
        let file = File::create(&temporary).map_err(CorpusError::io("create", &temporary))?;
        let hashed = Hashed { inner: file, hash: Xxh3::new(), bytes: 0 };
        let writer = Some(BufWriter::with_capacity(1 << 20, hashed));
        Ok(Self { path: path.to_owned(), temporary, writer, renamed: false })
    }

    /// Name that the file will have.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Hands the file to `write`, and names it where that fails.
    ///
    /// # Errors
    ///
    /// The error of `write`.
    ///
    /// # Panics
    ///
    /// Where the file has been synced.
    pub fn write(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CorpusError> {
        let writer = self.writer.as_mut().expect("a file is written before it is synced");
        write(writer).map_err(CorpusError::io("write", &self.temporary))
    }

    /// Waits until all bytes are on disk.
    ///
    /// # Errors
    ///
    /// Where they cannot be written.
    ///
    /// # Panics
    ///
    /// Where the file has been synced already.
    pub fn sync(&mut self) -> Result<FileSummary, CorpusError> {
        let hashed = self.flushed()?;
        hashed.inner.sync_all().map_err(CorpusError::io("write", &self.temporary))?;
        Ok(hashed.summary(&self.path))
    }

    /// Hands all bytes to the system, without waiting until they are on disk: for a file whose
    /// checksum is compared before it is used again.
    ///
    /// # Errors
    ///
    /// Where they cannot be written.
    ///
    /// # Panics
    ///
    /// Where the file has been closed or synced already.
    pub fn close(&mut self) -> Result<FileSummary, CorpusError> {
        Ok(self.flushed()?.summary(&self.path))
    }

    fn flushed(&mut self) -> Result<Hashed<File>, CorpusError> {
        let writer = self.writer.take().expect("a file is closed once");
        writer
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
            .map_err(CorpusError::io("write", &self.temporary))
    }

    /// Gives the closed file its name.
    ///
    /// # Errors
    ///
    /// Where it cannot be renamed.
    ///
    /// # Panics
    ///
    /// Where the file has been neither synced nor closed.
    pub fn commit(mut self) -> Result<(), CorpusError> {
        assert!(self.writer.is_none(), "a file is closed before it is named");
        fs::rename(&self.temporary, &self.path)
            .map_err(CorpusError::io("rename", &self.temporary))?;
        self.renamed = true;
        sync_folder(self.path.parent())
    }
}

/// For libraries that write to a [`Write`]: errors do not name the file.
impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().expect("a file is written before it is closed").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().expect("a file is written before it is closed").flush()
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.renamed {
            // Nothing is to be done about a file that cannot be removed, and the first error is the
            // one to report.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// A writer that counts and hashes what goes through it.
struct Hashed<W> {
    inner: W,
    hash: Xxh3,
    bytes: u64,
}

impl<W> std::fmt::Debug for Hashed<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hashed").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<W> Hashed<W> {
    fn summary(&self, path: &Path) -> FileSummary {
        FileSummary {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bytes: self.bytes,
            xxh3_128: format!("{:032x}", self.hash.digest128()),
        }
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// `.NAME.WORD` beside `path`: hidden, so that nobody takes it for finished.
pub(crate) fn temporary_sibling(path: &Path, word: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name.push(word);
    path.with_file_name(name)
}

/// Makes renames in a folder durable. An empty parent is the working folder.
///
/// # Errors
///
/// Where the system cannot wait for the folder.
pub fn sync_folder(folder: Option<&Path>) -> Result<(), CorpusError> {
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(CorpusError::io("sync", folder))
}
