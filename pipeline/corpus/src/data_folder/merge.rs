//! Data folders made one: their shards and lists one after another, and a manifest that names all
//! of them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Value, json};

use super::{DataFolder, DataManifest, Existing, PROVENANCE, REPORT, SourceSpan, check, read_json};
use crate::CorpusError;
use crate::merge::append_all;
use crate::observer::{Observer, stop_if_asked};
use crate::pending_file::PendingFile;
use crate::verify::ShardCheck;

/// Merges `folders`, which must be of one tokenizer, into the data folder `out`.
pub(crate) fn merge_folders(
    folders: &[DataFolder],
    out: &Path,
    existing: Existing,
    observer: &dyn Observer,
) -> Result<ShardCheck, CorpusError> {
    refuse_other_tokenizers(folders)?;
    refuse_other_sequences(folders)?;
    let mut checks = Vec::new();
    for folder in folders {
        checks.push(folder.verify(observer)?);
    }

    let tokenizer = folders[0].tokenizer()?;
    let writer = DataFolder::create(out, existing)?;
    let mut shard = writer.shard(tokenizer.vocab_size())?;
    let shards = folders.iter().map(DataFolder::shard).collect::<Result<Vec<_>, _>>()?;
    append_all(&mut shard, shards.iter(), observer)?;
    let summary = shard.finish()?;
    for list in lists(folders) {
        concatenate(list, folders, &writer.file(list), observer)?;
    }
    let sequences = folders[0].manifest.sequences;
    let mut manifest =
        DataManifest::new(tokenizer.as_ref(), &summary).with_sequences(sequences, &summary);
    let mut documents_before = 0;
    for folder in folders {
        manifest.sources.extend(folder.manifest.sources.iter().cloned());
        manifest.spans.extend(folder.manifest.spans.iter().cloned().map(|span| SourceSpan {
            first_document: documents_before + span.first_document,
            ..span
        }));
        documents_before += folder.manifest.documents;
        for (reason, count) in &folder.manifest.dropped {
            *manifest.dropped.entry(reason.clone()).or_default() += count;
        }
    }
    manifest.config = merged(folders, |folder| Ok(("config", folder.manifest.config.clone())))?;
    let reports = merged(folders, |folder| Ok(("report", read_json(&folder.path.join(REPORT))?)))?;
    writer.write_json(REPORT, &reports)?;
    let folder = writer.finish(manifest)?;
    Ok(ShardCheck::merged(&folder.stem(), &summary, &checks))
}

fn refuse_other_tokenizers(folders: &[DataFolder]) -> Result<(), CorpusError> {
    let fingerprint = |folder: &DataFolder| folder.manifest.tokenizer.fingerprint.clone();
    match folders.iter().find(|folder| fingerprint(folder) != fingerprint(&folders[0])) {
        None => Ok(()),
        Some(other) => Err(CorpusError::Unmergeable {
            first: folders[0].path.clone(),
            other: other.path.clone(),
            problem: "their tokens are of different tokenizers",
        }),
    }
}

fn refuse_other_sequences(folders: &[DataFolder]) -> Result<(), CorpusError> {
    let sequences = |folder: &DataFolder| folder.manifest.sequences;
    match folders.iter().find(|folder| sequences(folder) != sequences(&folders[0])) {
        None => Ok(()),
        Some(other) => Err(CorpusError::Unmergeable {
            first: folders[0].path.clone(),
            other: other.path.clone(),
            problem: "the sequences of one are documents, and those of the other sentences",
        }),
    }
}

/// Names of the lists of lines that the folders hold, by name.
fn lists(folders: &[DataFolder]) -> Vec<&str> {
    let files = folders.iter().flat_map(|folder| &folder.manifest.files);
    let mut names: Vec<&str> = files
        .map(|file| file.name.as_str())
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Writes the lines of the lists of one name, one folder after another. Every folder has as many
/// lines of provenance as documents.
fn concatenate(
    name: &str,
    folders: &[DataFolder],
    out: &Path,
    observer: &dyn Observer,
) -> Result<(), CorpusError> {
    let mut merged = PendingFile::replace(out)?;
    for folder in folders {
        let path = folder.path.join(name);
        let is_provenance = name == PROVENANCE;
        if !is_provenance && !path.exists() {
            continue;
        }
        let lines = copy_lines(&path, &mut merged, observer)?;
        if is_provenance {
            check(&path, "lines", folder.manifest.documents, lines)?;
        }
    }
    merged.sync()?;
    merged.commit()
}

/// Appends the lines of the file at `path` and returns their number.
fn copy_lines(
    path: &Path,
    out: &mut PendingFile,
    observer: &dyn Observer,
) -> Result<u64, CorpusError> {
    let file = File::open(path).map_err(CorpusError::io("open", path))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut lines = 0;
    let mut last = b'\n';
    loop {
        stop_if_asked(observer)?;
        let bytes = file.fill_buf().map_err(CorpusError::io("read", path))?;
        let Some(&end) = bytes.last() else { break };
        last = end;
        lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        out.write(|out| out.write_all(bytes))?;
        let length = bytes.len();
        file.consume(length);
    }
    if last != b'\n' {
        lines += 1;
        out.write(|out| out.write_all(b"\n"))?;
    }
    Ok(lines)
}

/// What each folder says of itself, with the folder.
fn merged(
    folders: &[DataFolder],
    of: impl Fn(&DataFolder) -> Result<(&'static str, Value), CorpusError>,
) -> Result<Value, CorpusError> {
    let entries = folders
        .iter()
        .map(|folder| {
            let (key, value) = of(folder)?;
            let mut entry = json!({ "folder": folder.path });
            entry[key] = value;
            Ok(entry)
        })
        .collect::<Result<Vec<_>, CorpusError>>()?;
    Ok(json!({ "merged_from": entries }))
}
