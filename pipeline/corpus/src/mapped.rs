//! A whole file as one slice of bytes, without reading it into memory.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use crate::CorpusError;

/// A file mapped into memory, read-only. An empty file is an empty slice.
#[derive(Debug)]
pub(crate) struct MappedFile {
    map: Option<Mmap>,
}

impl MappedFile {
    /// Maps the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, CorpusError> {
        let file = File::open(path).map_err(CorpusError::io("open", path))?;
        let length = file.metadata().map_err(CorpusError::io("read", path))?.len();
        if length == 0 {
            return Ok(Self { map: None });
        }
        // SAFETY: the map is read-only and lives as long as the slices lent from it. Inputs and
        // finished shards are not written by this program; a foreign process that cuts the file
        // short meanwhile ends this one with SIGBUS, which is the known price of reading by memory
        // map.
        let map = unsafe { Mmap::map(&file) }.map_err(CorpusError::io("map", path))?;
        Ok(Self { map: Some(map) })
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}
