//! Tables in the stage folder: written batch by batch, read through the memory map.
//!
//! They are Arrow IPC files, so that any tool that reads Arrow can look into a stage folder. A
//! batch that is read is not copied: its arrays lie where the file is mapped, and count as memory
//! of the system, not of this process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef, UInt32Type};
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::writer::FileWriter;
use arrow::ipc::{Block, convert, root_as_footer};
use bytes::Bytes;
use corpus::{FileSummary, PendingFile};
use memmap2::Mmap;

use crate::CurationError;

/// Bytes at the end of a file: the length of the footer, and a mark.
const TRAILER_BYTES: usize = 10;

/// A table being written. Dropped before it is finished, it leaves no file.
pub(crate) struct ArrowFileWriter {
    path: PathBuf,
    writer: FileWriter<PendingFile>,
}

impl ArrowFileWriter {
    /// Begins the table that will be the file `path`, in place of one that is there.
    pub(crate) fn create(path: &Path, schema: &Schema) -> Result<Self, CurationError> {
        let file = PendingFile::replace(path)?;
        let writer = FileWriter::try_new(file, schema).map_err(CurationError::stage_file(path))?;
        Ok(Self { path: path.to_owned(), writer })
    }

    /// Adds a batch of rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), CurationError> {
        self.writer.write(batch).map_err(CurationError::stage_file(&self.path))
    }

    /// Completes the file.
    pub(crate) fn finish(mut self) -> Result<FileSummary, CurationError> {
        let failed = |error| CurationError::stage_file(&self.path)(error);
        self.writer.finish().map_err(failed)?;
        let mut file = self.writer.into_inner().map_err(failed)?;
        let summary = file.close()?;
        file.commit()?;
        Ok(summary)
    }
}

/// A table that is read through the memory map.
#[derive(Debug)]
pub(crate) struct ArrowFile {
    path: PathBuf,
    decoder: FileDecoder,
    blocks: Vec<Block>,
    data: Buffer,
}

impl ArrowFile {
    /// Opens the table in a file.
    pub(crate) fn open(path: &Path) -> Result<Self, CurationError> {
        let data = map(path)?;
        let (decoder, blocks) = read_footer(&data).map_err(CurationError::stage_file(path))?;
        Ok(Self { path: path.to_owned(), decoder, blocks, data })
    }

    /// The batches in order.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, CurationError>> + '_ {
        self.blocks.iter().map(|block| {
            self.read_batch(block).map_err(|error| CurationError::stage_file(&self.path)(error))
        })
    }

    fn read_batch(&self, block: &Block) -> Result<RecordBatch, ArrowError> {
        let end = |length: i64| block.offset().checked_add(length);
        let length = i64::from(block.metaDataLength()).checked_add(block.bodyLength());
        let range = (usize::try_from(block.offset()), length.and_then(end).map(usize::try_from));
        let (Ok(start), Some(Ok(end))) = range else { return Err(damaged("a batch's place")) };
        if start > end || end > self.data.len() {
            return Err(damaged("a batch's place"));
        }
        let batch = self.data.slice_with_length(start, end - start);
        self.decoder.read_record_batch(block, &batch)?.ok_or_else(|| damaged("an empty batch"))
    }
}

/// The column of this name, which a table in a stage folder has.
pub(crate) fn u32_column(
    batch: &RecordBatch,
    name: &str,
    path: &Path,
) -> Result<UInt32Array, CurationError> {
    batch
        .column_by_name(name)
        .and_then(|column| column.as_primitive_opt::<UInt32Type>())
        .cloned()
        .ok_or_else(|| CurationError::stage_form(path, name))
}

fn map(path: &Path) -> Result<Buffer, CurationError> {
    let file = File::open(path).map_err(CurationError::io("open", path))?;
    // SAFETY: the file lies in the stage folder, which this process holds by a lock; it was renamed
    // to this name when it was complete and is written no more.
    let mapped = unsafe { Mmap::map(&file) }.map_err(CurationError::io("map", path))?;
    Ok(Buffer::from(Bytes::from_owner(mapped)))
}

fn read_footer(data: &Buffer) -> Result<(FileDecoder, Vec<Block>), ArrowError> {
    let trailer = data.len().checked_sub(TRAILER_BYTES).ok_or_else(|| damaged("its length"))?;
    let footer_length =
        data[trailer..].try_into().map_err(|_| damaged("its end")).and_then(read_footer_length)?;
    let start = trailer.checked_sub(footer_length).ok_or_else(|| damaged("its footer"))?;
    let footer =
        root_as_footer(&data[start..trailer]).map_err(|error| damaged(&error.to_string()))?;
    let schema: SchemaRef =
        Arc::new(footer.schema().map(convert::fb_to_schema).ok_or_else(|| damaged("no schema"))?);
    let blocks = footer.recordBatches().map(|it| it.iter().copied().collect()).unwrap_or_default();
    Ok((FileDecoder::new(schema, footer.version()), blocks))
}

fn damaged(what: &str) -> ArrowError {
    ArrowError::IpcError(format!("damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, UInt64Array};
    use arrow::datatypes::{DataType, Field};

    use super::*;

    fn write(path: &Path, batches: &[Vec<u64>]) -> FileSummary {
        let schema = Schema::new(vec![Field::new("number", DataType::UInt64, false)]);
        let mut writer = ArrowFileWriter::create(path, &schema).unwrap();
        for batch in batches {
            let column = Arc::new(UInt64Array::from(batch.clone()));
            writer
                .write(&RecordBatch::try_new(Arc::new(schema.clone()), vec![column]).unwrap())
                .unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn batches_come_back_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.arrow");
        let batches = [vec![1, 2, 3], vec![4]];
        let summary = write(&path, &batches);
        assert_eq!(FileSummary::of(&path).unwrap(), summary);
        let read: Vec<Vec<u64>> = ArrowFile::open(&path)
            .unwrap()
            .batches()
            .map(|batch| {
                let batch = batch.unwrap();
                let column = batch.column(0).as_any().downcast_ref::<UInt64Array>().unwrap();
                column.values().to_vec()
            })
            .collect();
        assert_eq!(read, batches);
    }

    #[test]
    fn a_cut_file_is_an_error_and_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.arrow");
        write(&path, &[(0..100).collect(), (0..5).collect()]);
        let whole = std::fs::read(&path).unwrap();
        for length in (0..whole.len()).step_by(7) {
            std::fs::write(&path, &whole[..length]).unwrap();
            if let Ok(table) = ArrowFile::open(&path) {
                assert!(table.batches().any(|batch| batch.is_err()), "cut to {length}");
            }
        }
    }
}
