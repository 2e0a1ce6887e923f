//! Writing one safetensors file from many ranks: everybody knows where each number goes, nobody
//! holds them all.
//!
//! The format is a length, a JSON header and the tensors one after another
//! (<https://github.com/huggingface/safetensors>), so that every offset follows from names and
//! shapes alone. The main rank creates the file with its header; then each rank writes the runs of
//! its slices at their places. Positional writes, not a shared memory map: a full disk has to be an
//! error, not a signal.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::TrainError;
use crate::parameters::{ParameterSpec, Split};

/// Where each tensor of a file lies.
#[derive(Debug)]
pub(crate) struct TensorLayout {
    header: Vec<u8>,
    /// Byte offset in the file, per tensor in the order given.
    offsets: Vec<u64>,
    bytes: u64,
}

impl TensorLayout {
    /// The layout of `f32` tensors, in the order given; names are unique.
    pub(crate) fn new<'a>(tensors: impl IntoIterator<Item = (String, &'a [usize])>) -> Self {
        let mut entries = Map::new();
        entries.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
        let (mut offsets, mut end) = (Vec::new(), 0_u64);
        for (name, shape) in tensors {
            let begin = end;
            end += size_of::<f32>() as u64 * shape.iter().map(|&dim| dim as u64).product::<u64>();
            offsets.push(begin);
            entries.insert(
                name,
                json!({ "dtype": "F32", "shape": shape, "data_offsets": [begin, end] }),
            );
        }
        let mut json = serde_json::to_vec(&Value::Object(entries)).expect("names and numbers");
        // Readers map the file: numbers have to lie at multiples of eight bytes.
        json.resize(json.len().next_multiple_of(8), b' ');
        let mut header = (json.len() as u64).to_le_bytes().to_vec();
        header.append(&mut json);
        let data = header.len() as u64;
        for offset in &mut offsets {
            *offset += data;
        }
        Self { header, offsets, bytes: data + end }
    }

    /// Bytes of the whole file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What stands before the tensors.
    pub(crate) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Creates the file with its header, and no tensor yet.
    pub(crate) fn create(&self, path: &Path) -> Result<(), TrainError> {
        let file =
            File::create_new(path).map_err(|source| TrainError::io("create", path, source))?;
        file.write_all_at(&self.header, 0).map_err(|source| TrainError::io("write", path, source))
    }
}

/// One rank's hand on a file that others write too.
#[derive(Debug)]
pub(crate) struct TensorFileWriter<'a> {
    layout: &'a TensorLayout,
    path: PathBuf,
    file: File,
    rank: usize,
    size: usize,
}

impl<'a> TensorFileWriter<'a> {
    /// Opens a file that [`TensorLayout::create`] made.
    pub(crate) fn open(
        layout: &'a TensorLayout,
        path: &Path,
        rank: usize,
        size: usize,
    ) -> Result<Self, TrainError> {
        let file = OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(|source| TrainError::io("open", path, source))?;
        Ok(Self { layout, path: path.to_owned(), file, rank, size })
    }

    /// Writes this rank's slice of tensor number `tensor`; of a replicated one only the first rank
    /// writes. Returns how many bytes that were.
    pub(crate) fn write(
        &self,
        tensor: usize,
        spec: &ParameterSpec,
        slice: &[f32],
    ) -> Result<u64, TrainError> {
        if matches!(spec.split, Split::Replicated) && self.rank != 0 {
            return Ok(0);
        }
        let begin = self.layout.offsets[tensor];
        let (mut bytes, mut written) = (Vec::new(), 0);
        for run in spec.local_runs(self.rank, self.size) {
            bytes.clear();
            bytes.extend(slice[run.local_range()].iter().flat_map(|value| value.to_le_bytes()));
            self.file
                .write_all_at(&bytes, begin + (run.logical_offset * size_of::<f32>()) as u64)
                .map_err(|source| TrainError::io("write", &self.path, source))?;
            written += bytes.len() as u64;
        }
        Ok(written)
    }

    /// Waits until the disk has what this rank wrote.
    pub(crate) fn finish(self) -> Result<(), TrainError> {
        self.file.sync_all().map_err(|source| TrainError::io("sync", &self.path, source))
    }
}
