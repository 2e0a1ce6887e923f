//! A file that appears under its name only when it is whole.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::CorpusError;
use crate::observer::{Observer, Silent, stop_if_asked};

/// Bytes that are read between two looks at an observer.
const BLOCK_BYTES: u64 = 1 << 24;

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
        Self::observed(path, &Silent)
    }

    /// Reads the file at `path` for its size and checksum, and tells `observer` of the bytes.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read, or the observer asks to stop.
    pub fn observed(path: &Path, observer: &dyn Observer) -> Result<Self, CorpusError> {
        let mut file = File::open(path).map_err(CorpusError::io("open", path))?;
        let mut hashed = Hashed { inner: io::sink(), hash: Box::default(), bytes: 0 };
        loop {
            stop_if_asked(observer)?;
            let copied = io::copy(&mut (&mut file).take(BLOCK_BYTES), &mut hashed)
                .map_err(CorpusError::io("read", path))?;
            if copied == 0 {
                return Ok(hashed.summary(path));
            }
            observer.advance(copied);
        }
    }
}

/// The beginning of a file: so many bytes, of this xxh3-128 hash in hexadecimal. The default is the
/// beginning of a file in which nothing is yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilePrefix {
    /// Length of the beginning.
    pub bytes: u64,
    /// Its hash; empty where the beginning is.
    pub xxh3_128: String,
}

impl FilePrefix {
    /// Reads this beginning of the file at `path` and leaves the file at its end.
    fn read(&self, path: &Path, mut file: File) -> Result<Hashed<File>, CorpusError> {
        let mut hashed = Hashed { inner: io::sink(), hash: Box::default(), bytes: 0 };
        io::copy(&mut (&mut file).take(self.bytes), &mut hashed)
            .map_err(CorpusError::io("read", path))?;
        let differ = |what, expected, found| {
            let remedy = "";
            Err(CorpusError::ManifestMismatch {
                path: path.to_owned(),
                what,
                expected,
                found,
                remedy,
            })
        };
        let found = hashed.prefix();
        if found.bytes != self.bytes {
            return differ("bytes written", self.bytes.to_string(), found.bytes.to_string());
        }
        if self.bytes > 0 && found.xxh3_128 != self.xxh3_128 {
            return differ("xxh3_128 of what was written", self.xxh3_128.clone(), found.xxh3_128);
        }
        Ok(Hashed { inner: file, hash: hashed.hash, bytes: hashed.bytes })
    }
}

/// A file being written under a temporary name beside its own; dropped before it is committed, it
/// is gone, unless it was begun to be resumed.
#[derive(Debug)]
pub struct PendingFile {
    path: PathBuf,
    temporary: PathBuf,
    /// `None` once the bytes are on disk.
    writer: Option<BufWriter<Hashed<File>>>,
    /// Whether the bytes written stay when this is dropped.
    is_kept: bool,
    /// Holds the lock by which no other process writes the same, until the file has its name.
    _lock: Option<File>,
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
    /// Where the file cannot be made, or another process is writing it.
    pub fn replace(path: &Path) -> Result<Self, CorpusError> {
        let temporary = temporary_sibling(path, "partial");
        let file = begin_alone(path, &temporary)?;
        // What a process that died has left of it.
        file.set_len(0).map_err(CorpusError::io("create", &temporary))?;
        let lock = file.try_clone().map_err(CorpusError::io("open", &temporary))?;
        let hashed = Hashed { inner: file, hash: Box::default(), bytes: 0 };
        Ok(Self::over(path, temporary, hashed, false, Some(lock)))
    }

    /// Goes on with the file that will be `path` behind `written`, what an earlier process wrote
    /// of it: what stands after that is cut off. Dropped, the file keeps its temporary name, to be
    /// resumed once more.
    ///
    /// # Errors
    ///
    /// Where the file cannot be opened, or does not begin as `written` says.
    pub(crate) fn resume(path: &Path, written: &FilePrefix) -> Result<Self, CorpusError> {
        let temporary = temporary_sibling(path, "partial");
        if path.exists() && !temporary.exists() {
            // The earlier process ended between naming the file and noting that it was whole.
            fs::rename(path, &temporary).map_err(CorpusError::io("rename", path))?;
        }
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&temporary)
            .map_err(CorpusError::io("open", &temporary))?;
        let hashed = written.read(&temporary, file)?;
        hashed.inner.set_len(written.bytes).map_err(CorpusError::io("cut", &temporary))?;
        Ok(Self::over(path, temporary, hashed, true, None))
    }

    fn over(
        path: &Path,
        temporary: PathBuf,
        file: Hashed<File>,
        is_kept: bool,
        lock: Option<File>,
    ) -> Self {
        let writer = Some(BufWriter::with_capacity(1 << 20, file));
        Self { path: path.to_owned(), temporary, writer, is_kept, _lock: lock }
    }

    /// Waits until what was written is on disk, and returns what [`resume`](Self::resume) needs to
    /// go on from here.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    ///
    /// # Panics
    ///
    /// Where the file has been synced.
    pub(crate) fn checkpoint(&mut self) -> Result<FilePrefix, CorpusError> {
        let writer = self.writer.as_mut().expect("a file is written before it is synced");
        writer
            .flush()
            .and_then(|()| writer.get_ref().inner.sync_data())
            .map_err(CorpusError::io("write", &self.temporary))?;
        Ok(writer.get_ref().prefix())
    }

    /// Hands all that was written so far to `read`, from the start.
    ///
    /// # Errors
    ///
    /// Where it cannot be written, or the error of `read`.
    ///
    /// # Panics
    ///
    /// Where the file has been synced.
    pub(crate) fn read_back(
        &mut self,
        read: impl FnOnce(&mut dyn Read) -> Result<(), CorpusError>,
    ) -> Result<(), CorpusError> {
        self.write(|writer| writer.flush())?;
        let mut file =
            File::open(&self.temporary).map_err(CorpusError::io("open", &self.temporary))?;
        read(&mut file)
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
        self.is_kept = true;
        sync_folder(self.path.parent())
    }

    /// Removes the file, whether or not it was begun to be resumed.
    pub(crate) fn discard(mut self) {
        self.is_kept = false;
    }
}

/// Opens the file `temporary` for this process alone, which another one may be writing, or may have
/// left when it died.
fn begin_alone(path: &Path, temporary: &Path) -> Result<File, CorpusError> {
    loop {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(temporary)
            .map_err(CorpusError::io("create", temporary))?;
        match file.try_lock() {
            // Between the two steps the other process may have given it its name, or removed it.
            Ok(()) if !is_at(&file, temporary) => {}
            // A file system without locks does as well as it can.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                return Err(CorpusError::FileInUse { path: path.to_owned() });
            }
        }
    }
}

/// Whether `path` still leads to `file`.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |file: fs::Metadata| (file.dev(), file.ino());
    match (file.metadata(), path.metadata()) {
        (Ok(file), Ok(there)) => place(file) == place(there),
        _ => false,
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
        if !self.is_kept {
            // Nothing is to be done about a file that cannot be removed, and the first error is the
            // one to report.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// A writer that counts and hashes what goes through it.
struct Hashed<W> {
    inner: W,
    /// Boxed, for it is half a kilobyte.
    hash: Box<Xxh3>,
    bytes: u64,
}

impl<W> std::fmt::Debug for Hashed<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hashed").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl<W> Hashed<W> {
    fn prefix(&self) -> FilePrefix {
        FilePrefix { bytes: self.bytes, xxh3_128: format!("{:032x}", self.hash.digest128()) }
    }

    fn summary(&self, path: &Path) -> FileSummary {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let FilePrefix { bytes, xxh3_128 } = self.prefix();
        FileSummary { name, bytes, xxh3_128 }
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
