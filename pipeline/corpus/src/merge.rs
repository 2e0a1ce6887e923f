//! Several corpora made one.
//!
//! Data folders give a data folder, with the provenance of every document; shards of other programs
//! give a shard. Documents stay what they are, one input after another: sequences and the ends of
//! documents are kept, and only the number format may become wider. Nothing is filtered: a document
//! that stands in two inputs stands in the result twice.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::CorpusError;
use crate::data_folder::{DataFolder, Existing, MANIFEST, merge_folders};
use crate::observer::{Observer, Unit};
use crate::shard::{DType, ShardPaths, ShardReader, ShardWriter};
use crate::verify::{ShardCheck, check_shards, shards_at};

/// Merges the data folders, or the shards (by stem, by file or by folder), at `inputs` into `out`,
/// in order. Every input is verified first.
///
/// # Errors
///
/// Where an input is broken, is there twice or is of another kind or tokenizer than the first;
/// where `out` exists and is not to be replaced, or is one of the inputs; where something cannot
/// be read or written; and where the observer asks to stop. Nothing is left of `out` then.
///
/// # Panics
///
/// Where there is no input.
pub fn merge(
    inputs: &[PathBuf],
    out: &Path,
    existing: Existing,
    observer: &dyn Observer,
) -> Result<ShardCheck, CorpusError> {
    let first = inputs.first().expect("there is something to merge");
    let is_folder = |path: &Path| path.join(MANIFEST).is_file();
    if let Some(other) = inputs.iter().find(|input| is_folder(input) != is_folder(first)) {
        return Err(CorpusError::Unmergeable {
            first: first.clone(),
            other: other.clone(),
            problem: "one is a data folder and the other is none",
        });
    }
    if is_folder(first) {
        refuse_overlap(inputs, out)?;
        let folders =
            inputs.iter().map(|input| DataFolder::open(input)).collect::<Result<Vec<_>, _>>()?;
        return merge_folders(&folders, out, existing, observer);
    }
    let mut stems = Vec::new();
    for input in inputs {
        stems.extend(shards_at(input)?);
    }
    refuse_overlap(&stems, out)?;
    merge_shards(stems, out, existing, observer)
}

/// Refuses an input that is there twice, or is the output.
fn refuse_overlap(inputs: &[PathBuf], out: &Path) -> Result<(), CorpusError> {
    // A folder is known by itself, a shard by its data.
    let identity = |path: &Path| {
        let path = if path.is_dir() { path.to_owned() } else { ShardPaths::new(path).data };
        fs::canonicalize(&path).unwrap_or(path)
    };
    let mut known = HashMap::new();
    for input in inputs {
        if let Some(first) = known.insert(identity(input), input) {
            return Err(CorpusError::FileTwice { path: input.clone(), first: first.clone() });
        }
    }
    match known.get(&identity(out)) {
        None => Ok(()),
        Some(&input) => {
            Err(CorpusError::OutputInInput { path: out.to_owned(), input: input.clone() })
        }
    }
}

fn merge_shards(
    stems: Vec<PathBuf>,
    out: &Path,
    existing: Existing,
    observer: &dyn Observer,
) -> Result<ShardCheck, CorpusError> {
    let open = |stem: PathBuf| Ok((stem.clone(), ShardReader::open(&stem)?));
    let shards: Vec<_> = stems.into_iter().map(open).collect::<Result<_, CorpusError>>()?;
    let checks = check_shards(&shards, observer)?;

    let dtype = widest(&checks);
    let mut writer = ShardWriter::begin(out, dtype, tokens_in(dtype), existing)?;
    append_all(&mut writer, shards.iter().map(|(_, shard)| shard), observer)?;
    let summary = writer.finish()?;
    Ok(ShardCheck::merged(out, &summary, &checks))
}

/// Appends shards, as one stage of work.
pub(crate) fn append_all<'s>(
    writer: &mut ShardWriter,
    shards: impl Iterator<Item = &'s ShardReader> + Clone,
    observer: &dyn Observer,
) -> Result<(), CorpusError> {
    let bytes = shards.clone().map(|shard| shard.index().data_bytes()).sum();
    observer.begin("merge", Some(bytes), Unit::Bytes);
    for shard in shards {
        writer.append(shard, observer)?;
    }
    observer.finish();
    Ok(())
}

/// The narrowest format of those that are written that holds the tokens of all shards.
fn widest(checks: &[ShardCheck]) -> DType {
    let is_narrow = checks.iter().all(|check| check.dtype.width() <= DType::Uint16.width());
    if is_narrow { DType::Uint16 } else { DType::Int32 }
}

/// Number of tokens that a format which is written can hold.
fn tokens_in(dtype: DType) -> usize {
    match dtype {
        DType::Uint16 => 1 << 16,
        _ => 1 << 31,
    }
}

#[cfg(test)]
mod tests;
