//! Reading safetensors files from many ranks: memory maps from which each copies the runs of its
//! slices.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use super::number_type::NumberType;
use crate::TrainError;
use crate::checkpoint::{CheckpointError, TensorFault};
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
            let (bytes, announced) = (map.len() as u64, announced_bytes(&map));
            let path = path.to_owned();
            TrainError::from(CheckpointError::SafeTensors { path, bytes, announced, source })
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
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Tensors`] with everything that is missing, has another shape or is none of
    /// them.
    pub(super) fn check(&self, expected: &[(String, &[usize])]) -> Result<(), TrainError> {
        let mut faults = Vec::new();
        for (name, shape) in expected {
            match self.tensors.get(name) {
                None => faults.push(TensorFault::Missing { name: name.clone() }),
                Some(entry) if entry.shape != *shape => faults.push(TensorFault::Shape {
                    name: name.clone(),
                    expected: shape.to_vec(),
                    found: entry.shape.clone(),
                }),
                Some(_) => {}
            }
        }
        let expected: HashSet<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
        let mut unexpected: Vec<&String> =
            self.tensors.keys().filter(|name| !expected.contains(name.as_str())).collect();
        unexpected.sort();
        let unexpected = unexpected.into_iter().cloned();
        faults.extend(unexpected.map(|name| TensorFault::Unexpected { name }));
        match faults.is_empty() {
            true => Ok(()),
            false => Err(CheckpointError::Tensors { path: self.path.clone(), faults }.into()),
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
            return Err(self.fault(TensorFault::Shape {
                name: name.to_owned(),
                expected: shape.to_vec(),
                found: entry.shape.clone(),
            }));
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
        self.tensors
            .get(name)
            .ok_or_else(|| self.fault(TensorFault::Missing { name: name.to_owned() }))
    }

    fn fault(&self, fault: TensorFault) -> TrainError {
        CheckpointError::Tensors { path: self.path.clone(), faults: vec![fault] }.into()
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

/// Bytes of the whole file as its header has them, where that much of it can be read.
fn announced_bytes(map: &[u8]) -> Option<u64> {
    let (length, rest) = map.split_first_chunk::<8>()?;
    let length = u64::from_le_bytes(*length);
    let header = rest.get(..usize::try_from(length).ok()?)?;
    let header: HashMap<String, Value> = serde_json::from_slice(header).ok()?;
    let end = header.values().filter_map(|tensor| tensor["data_offsets"][1].as_u64()).max()?;
    end.checked_add(length)?.checked_add(size_of::<u64>() as u64)
}
