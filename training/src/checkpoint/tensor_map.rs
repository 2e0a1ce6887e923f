//! Reading one safetensors file from many ranks: a memory map from which each copies the runs of
//! its slices.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};

use crate::TrainError;
use crate::parameters::ParameterSpec;

/// The tensors of a mapped file, by name.
#[derive(Debug)]
pub(super) struct TensorMap {
    path: PathBuf,
    map: Mmap,
    tensors: HashMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    shape: Vec<usize>,
    /// Byte offset in the file.
    begin: usize,
}

impl TensorMap {
    /// Maps a file of `f32` tensors.
    pub(super) fn open(path: &Path) -> Result<Self, TrainError> {
        let file = File::open(path).map_err(|source| TrainError::io("open", path, source))?;
        // SAFETY: checkpoints are written under another name and renamed when complete, and never
        // changed after that.
        let map =
            unsafe { Mmap::map(&file) }.map_err(|source| TrainError::io("map", path, source))?;
        let malformed = |source| TrainError::SafeTensors { path: path.to_owned(), source };
        let (header_bytes, metadata) = SafeTensors::read_metadata(&map).map_err(malformed)?;
        let mut tensors = HashMap::new();
        for (name, info) in metadata.tensors() {
            if info.dtype != Dtype::F32 {
                return Err(TrainError::TensorType {
                    path: path.to_owned(),
                    name,
                    found: format!("{:?}", info.dtype),
                });
            }
            // Behind the eight bytes of the header's length, and the header.
            let begin = size_of::<u64>() + header_bytes + info.data_offsets.0;
            tensors.insert(name, Entry { shape: info.shape.clone(), begin });
        }
        Ok(Self { path: path.to_owned(), map, tensors })
    }

    /// Demands exactly the tensors `expected`, with these shapes.
    pub(super) fn check(&self, expected: &[(String, &[usize])]) -> Result<(), TrainError> {
        let path = || self.path.clone();
        for (name, shape) in expected {
            let entry = self
                .tensors
                .get(name)
                .ok_or_else(|| TrainError::TensorMissing { path: path(), name: name.clone() })?;
            if entry.shape != *shape {
                return Err(TrainError::TensorShape {
                    path: path(),
                    name: name.clone(),
                    expected: shape.to_vec(),
                    found: entry.shape.clone(),
                });
            }
        }
        let expected: HashSet<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
        let mut unexpected: Vec<&String> =
            self.tensors.keys().filter(|name| !expected.contains(name.as_str())).collect();
        unexpected.sort();
        match unexpected.first() {
            Some(name) => Err(TrainError::TensorUnexpected { path: path(), name: (*name).clone() }),
            None => Ok(()),
        }
    }

    /// Slice of rank `rank` of `size` of the tensor `name`, which has the shape and the split of
    /// `spec`. Padded rows are zeros.
    pub(super) fn slice(
        &self,
        name: &str,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        let entry = self.tensors.get(name).ok_or_else(|| TrainError::TensorMissing {
            path: self.path.clone(),
            name: name.to_owned(),
        })?;
        let mut slice = vec![0.0; spec.local_shape(rank, size).iter().product()];
        for run in spec.local_runs(rank, size) {
            let begin = entry.begin + run.logical_offset * size_of::<f32>();
            let bytes = &self.map[begin..begin + run.len * size_of::<f32>()];
            for (value, bytes) in
                slice[run.local_range()].iter_mut().zip(bytes.chunks_exact(size_of::<f32>()))
            {
                *value = f32::from_le_bytes(bytes.try_into().expect("chunks of four bytes"));
            }
        }
        Ok(slice)
    }
}
