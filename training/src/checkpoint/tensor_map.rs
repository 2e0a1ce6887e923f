//! Reading safetensors files from many ranks: memory maps from which each copies the runs of its
//! slices.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};

use super::number_type::NumberType;
use crate::TrainError;
use crate::checkpoint::CheckpointError;
use crate::parameters::ParameterSpec;

/// The tensors of one or several mapped files, by name.
#[derive(Debug)]
pub(super) struct TensorMap {
    /// The file, or the first of several.
    path: PathBuf,
    maps: Vec<Mmap>,
    tensors: HashMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Which of the maps.
    map: usize,
    numbers: NumberType,
    shape: Vec<usize>,
    /// Byte offset in the file.
    begin: usize,
}

impl TensorMap {
    /// Maps a file of `f32` tensors.
    pub(super) fn open(path: &Path) -> Result<Self, TrainError> {
        let is_f32 = |numbers| numbers == NumberType::F32;
        Self::open_all(&[path.to_owned()], &is_f32, |name| Some(name.to_owned()))
    }

    /// Maps files of floating-point tensors; each tensor gets the name that `rename` makes of its
    /// own, and those of which it makes none are left out.
    pub(super) fn open_floats(
        paths: &[PathBuf],
        rename: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, TrainError> {
        Self::open_all(paths, &|_| true, rename)
    }

    fn open_all(
        paths: &[PathBuf],
        accepts: &dyn Fn(NumberType) -> bool,
        rename: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, TrainError> {
        let path = paths.first().cloned().unwrap_or_default();
        let mut opened = Self { path, maps: Vec::new(), tensors: HashMap::new() };
        for path in paths {
            opened.add(path, accepts, &rename)?;
        }
        Ok(opened)
    }

    fn add(
        &mut self,
        path: &Path,
        accepts: &dyn Fn(NumberType) -> bool,
        rename: &impl Fn(&str) -> Option<String>,
    ) -> Result<(), TrainError> {
        let file = File::open(path).map_err(|source| TrainError::io("open", path, source))?;
        // SAFETY: checkpoints are written under another name and renamed when complete, and never
        // changed after that.
        let map =
            unsafe { Mmap::map(&file) }.map_err(|source| TrainError::io("map", path, source))?;
        let malformed = |source| {
            TrainError::from(CheckpointError::SafeTensors { path: path.to_owned(), source })
        };
        let (header_bytes, metadata) = SafeTensors::read_metadata(&map).map_err(malformed)?;
        for (name, info) in metadata.tensors() {
            let Some(own) = rename(&name) else { continue };
            let numbers = number_type(info.dtype).filter(|&numbers| accepts(numbers));
            let Some(numbers) = numbers else {
                let (path, found) = (path.to_owned(), format!("{:?}", info.dtype));
                return Err(CheckpointError::TensorType { path, name, found }.into());
            };
            // Behind the eight bytes of the header's length, and the header.
            let begin = size_of::<u64>() + header_bytes + info.data_offsets.0;
            let entry = Entry { map: self.maps.len(), numbers, shape: info.shape.clone(), begin };
            if self.tensors.insert(own, entry).is_some() {
                return Err(CheckpointError::TensorTwice { path: path.to_owned(), name }.into());
            }
        }
        self.maps.push(map);
        Ok(())
    }

    /// Whether there is a tensor `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Demands exactly the tensors `expected`, with these shapes.
    pub(super) fn check(&self, expected: &[(String, &[usize])]) -> Result<(), TrainError> {
        let path = || self.path.clone();
        let missing = expected.iter().map(|(name, _)| name.as_str());
        let missing: Vec<&str> = missing.filter(|name| !self.has(name)).collect();
        if !missing.is_empty() {
            let name = missing.join(", ");
            return Err(CheckpointError::TensorMissing { path: path(), name }.into());
        }
        for (name, shape) in expected {
            let entry = self.entry(name)?;
            if entry.shape != *shape {
                return Err(CheckpointError::TensorShape {
                    path: path(),
                    name: name.clone(),
                    expected: shape.to_vec(),
                    found: entry.shape.clone(),
                }
                .into());
            }
        }
        let expected: HashSet<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
        let names = self.tensors.keys().map(String::as_str);
        let mut unexpected: Vec<&str> = names.filter(|name| !expected.contains(name)).collect();
        unexpected.sort_unstable();
        if unexpected.is_empty() {
            return Ok(());
        }
        let name = unexpected.join(", ");
        Err(CheckpointError::TensorUnexpected { path: path(), name }.into())
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
        let entry = self.entry(name)?;
        let mut slice = vec![0.0; spec.local_shape(rank, size).iter().product()];
        for run in spec.local_runs(rank, size) {
            self.read(entry, run.logical_offset, &mut slice[run.local_range()]);
        }
        Ok(slice)
    }

    /// The whole tensor `name`, which must have the shape `shape`.
    pub(super) fn whole(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, TrainError> {
        let entry = self.entry(name)?;
        if entry.shape != shape {
            return Err(CheckpointError::TensorShape {
                path: self.path.clone(),
                name: name.to_owned(),
                expected: shape.to_vec(),
                found: entry.shape.clone(),
            }
            .into());
        }
        let mut values = vec![0.0; shape.iter().product()];
        self.read(entry, 0, &mut values);
        Ok(values)
    }

    /// Whether two tensors hold the same numbers in the same shape, of whatever types.
    pub(super) fn are_equal(&self, left: &str, right: &str) -> Result<bool, TrainError> {
        const NUMBERS_AT_ONCE: usize = 1 << 16;
        let (left, right) = (self.entry(left)?, self.entry(right)?);
        if left.shape != right.shape {
            return Ok(false);
        }
        let count: usize = left.shape.iter().product();
        let mut parts = [vec![0.0; NUMBERS_AT_ONCE], vec![0.0; NUMBERS_AT_ONCE]];
        for start in (0..count).step_by(NUMBERS_AT_ONCE) {
            let length = NUMBERS_AT_ONCE.min(count - start);
            for (part, entry) in parts.iter_mut().zip([left, right]) {
                self.read(entry, start, &mut part[..length]);
            }
            if parts[0][..length] != parts[1][..length] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the numbers from `first` on.
    fn read(&self, entry: &Entry, first: usize, values: &mut [f32]) {
        let width = entry.numbers.bytes();
        let begin = entry.begin + first * width;
        let bytes = &self.maps[entry.map][begin..begin + values.len() * width];
        entry.numbers.read(bytes, values);
    }

    fn entry(&self, name: &str) -> Result<&Entry, TrainError> {
        self.tensors.get(name).ok_or_else(|| {
            TrainError::from(CheckpointError::TensorMissing {
                path: self.path.clone(),
                name: name.to_owned(),
            })
        })
    }
}

fn number_type(dtype: Dtype) -> Option<NumberType> {
    match dtype {
        Dtype::F32 => Some(NumberType::F32),
        Dtype::F16 => Some(NumberType::F16),
        Dtype::BF16 => Some(NumberType::BF16),
        _ => None,
    }
}
