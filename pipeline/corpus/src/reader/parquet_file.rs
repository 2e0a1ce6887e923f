//! The rows of a Parquet file, one row group after the other.
//!
//! Columns are read as the byte arrays that they are on disk. All that Arrow makes of text (`Utf8`,
//! `LargeUtf8`, `Utf8View`, dictionaries) lies there in the same way, so one path serves every
//! type; and a text that is no UTF-8 is one row that cannot be read, not a batch, as it would be to
//! the reader that makes Arrow arrays. A few rows of the three columns that matter are held at a
//! time, by their length: a book takes as much memory as a thousand lines.

use std::fs::File;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::ParquetConfig;
use super::broken::{Break, FileProblem, Stop};
use super::columns::{self, Columns};
use super::form::{Content, Form};
use super::rows::{Id, Row, RowBlock, RowsEnd};
use crate::CorpusError;

/// The most rows that are read at a time.
const BATCH_ROWS: u64 = 1_024;

/// Bytes of text that are read at a time, as near as whole rows of middle length come to it.
const BATCH_BYTES: u64 = 1 << 20;

/// The rows of one file in blocks, in order.
pub(super) struct RowBlocks {
    path: Arc<Path>,
    config: Arc<ParquetConfig>,
    /// The file, once the first block was asked for.
    opened: Option<Box<OpenedFile>>,
    /// Rows before the next block.
    rows: u64,
}

impl std::fmt::Debug for RowBlocks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RowBlocks")
            .field("path", &self.path)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl RowBlocks {
    /// The rows of the file at `path` behind the first `rows`.
    pub(super) fn new(path: Arc<Path>, config: Arc<ParquetConfig>, rows: u64) -> Self {
        Self { path, config, opened: None, rows }
    }

    /// Bytes of the row groups that were read to their end.
    pub(super) fn bytes_read(&self) -> u64 {
        self.opened.as_ref().map_or(0, |opened| opened.bytes_read)
    }

    /// Rows before the next block.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// The next rows; none at the end of the file.
    pub(super) fn next_block(&mut self) -> Result<RowBlock, CorpusError> {
        let rows_before = self.rows;
        let (rows, end) = match self.next_rows() {
            Ok(rows) if rows.is_empty() => (rows, RowsEnd::EndOfFile),
            Ok(rows) => (rows, RowsEnd::More),
            Err(Stop::Broken(at)) => (Vec::new(), RowsEnd::Break(at)),
            Err(Stop::Failed(error)) => return Err(error),
        };
        self.rows += rows.len() as u64;
        Ok(RowBlock { rows, rows_before, end })
    }

    fn next_rows(&mut self) -> Result<Vec<Row>, Stop> {
        let opened = match &mut self.opened {
            Some(opened) => opened,
            None => {
                let opened = OpenedFile::open(&self.path, &self.config, self.rows)?;
                self.opened.insert(Box::new(opened))
            }
        };
        let read = caught(|| opened.next_batch());
        read.map(Option::unwrap_or_default).map_err(|error| {
            let (number, byte_offset) = (opened.row_group + 1, opened.row_group_offset());
            stop(&self.path, error, Some(number), byte_offset, self.rows)
        })
    }
}

/// An open file, and the row group that is read.
struct OpenedFile {
    file: SerializedFileReader<File>,
    /// Places of the columns among all of the file.
    columns: Columns<usize>,
    /// Whether whole numbers in the column of identifiers have no sign.
    has_unsigned_ids: bool,
    /// Index of the row group that is read.
    row_group: usize,
    /// Rows of that row group that were read.
    rows_of_group: u64,
    readers: Option<Columns<ColumnReader>>,
    /// Rows that are still to be passed over.
    to_skip: u64,
    bytes_read: u64,
}

impl OpenedFile {
    /// Opens a file to be read behind its first `to_skip` rows.
    fn open(path: &Path, config: &ParquetConfig, to_skip: u64) -> Result<Self, Stop> {
        let file = File::open(path).map_err(CorpusError::io("open", path))?;
        check_first_bytes(path, &file)?;
        let bytes = file.metadata().map_err(CorpusError::io("read", path))?.len();
        let file = caught(|| SerializedFileReader::new(file))
            .map_err(|error| stop(path, error, None, bytes, 0))?;
        check_row_groups(&file).map_err(|error| stop(path, error, None, bytes, 0))?;
        let all = file.metadata().file_metadata().schema_descr().columns();
        let columns = Columns::find(path, all, config)?;
        let has_unsigned_ids = columns.id.is_some_and(|id| columns::is_unsigned(&all[id]));
        Ok(Self {
            file,
            columns,
            has_unsigned_ids,
            row_group: 0,
            rows_of_group: 0,
            readers: None,
            to_skip,
            bytes_read: 0,
        })
    }

    /// Some more rows; `None` after the last row group.
    fn next_batch(&mut self) -> Result<Option<Vec<Row>>, ParquetError> {
        while self.row_group < self.file.num_row_groups() {
            if self.readers.is_none() && self.skips_row_group() {
                self.end_row_group();
                continue;
            }
            let readers = match &mut self.readers {
                Some(readers) => readers,
                None => {
                    let mut readers = open_columns(&self.file, self.row_group, &self.columns)?;
                    let skipped = mem::take(&mut self.to_skip);
                    skip_rows(&mut readers, skipped)?;
                    self.rows_of_group = skipped;
                    self.readers.insert(readers)
                }
            };
            let group = self.file.metadata().row_group(self.row_group);
            let count = rows_of_batch(group, self.columns.text);
            let rows = read_rows(readers, count, self.has_unsigned_ids)?;
            self.rows_of_group += rows.len() as u64;
            let declared = u64::try_from(group.num_rows()).unwrap_or(0);
            check_rows(self.rows_of_group, declared, rows.is_empty())?;
            if !rows.is_empty() {
                return Ok(Some(rows));
            }
            self.end_row_group();
        }
        Ok(None)
    }

    /// Whether the row group at hand lies before the first row that is wanted.
    fn skips_row_group(&mut self) -> bool {
        let rows = self.file.metadata().row_group(self.row_group).num_rows();
        let rows = u64::try_from(rows).unwrap_or(0);
        let is_skipped = self.to_skip > 0 && self.to_skip >= rows;
        if is_skipped {
            self.to_skip -= rows;
        }
        is_skipped
    }

    fn end_row_group(&mut self) {
        let group = self.file.metadata().row_group(self.row_group);
        self.bytes_read += u64::try_from(group.compressed_size()).unwrap_or(0);
        self.readers = None;
        self.row_group += 1;
        self.rows_of_group = 0;
    }

    /// Where the row group that is read begins in the file.
    fn row_group_offset(&self) -> u64 {
        let text = self.file.metadata().row_group(self.row_group).column(self.columns.text);
        let offset = text.dictionary_page_offset().unwrap_or_else(|| text.data_page_offset());
        u64::try_from(offset).unwrap_or(0)
    }
}

/// Refuses a file whose row groups do not have the rows that it declares.
fn check_row_groups(file: &SerializedFileReader<File>) -> Result<(), ParquetError> {
    let metadata = file.metadata();
    let declared = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    let mut rows = metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()));
    let sum = rows.try_fold(0_u64, |sum, rows| sum.checked_add(rows.ok()?));
    check_rows(sum.unwrap_or(u64::MAX), declared, true)
}

/// Refuses what has given more rows than are declared, or fewer when it `is_at_end`.
fn check_rows(read: u64, declared: u64, is_at_end: bool) -> Result<(), ParquetError> {
    if read > declared || is_at_end && read < declared {
        let message = format!("it holds {read} rows where {declared} are declared");
        return Err(ParquetError::General(message));
    }
    Ok(())
}

fn check_first_bytes(path: &Path, mut file: &File) -> Result<(), CorpusError> {
    use std::io::Read;

    let mut first = Vec::new();
    file.by_ref().take(8).read_to_end(&mut first).map_err(CorpusError::io("read", path))?;
    Form { content: Content::Parquet, compression: None }.check_first_bytes(path, &first)
}

fn open_columns(
    file: &SerializedFileReader<File>,
    row_group: usize,
    columns: &Columns<usize>,
) -> Result<Columns<ColumnReader>, ParquetError> {
    let row_group = file.get_row_group(row_group)?;
    let open = |index: usize| row_group.get_column_reader(index);
    Ok(Columns {
        text: open(columns.text)?,
        id: columns.id.map(open).transpose()?,
        title: columns.title.map(open).transpose()?,
    })
}

/// Passes over the first `count` rows of a row group.
fn skip_rows(columns: &mut Columns<ColumnReader>, count: u64) -> Result<(), ParquetError> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let skip = |column: &mut ColumnReader| match column {
        ColumnReader::ByteArrayColumnReader(reader) => reader.skip_records(count),
        ColumnReader::Int32ColumnReader(reader) => reader.skip_records(count),
        ColumnReader::Int64ColumnReader(reader) => reader.skip_records(count),
        _ => Ok(count),
    };
    let columns = [Some(&mut columns.text), columns.id.as_mut(), columns.title.as_mut()];
    for column in columns.into_iter().flatten() {
        let skipped = skip(column)?;
        check_rows(skipped as u64, count as u64, true)?;
    }
    Ok(())
}

/// Rows of a row group that are read at a time, by the length of a text in the middle.
fn rows_of_batch(group: &RowGroupMetaData, text: usize) -> usize {
    let bytes = u64::try_from(group.column(text).uncompressed_size()).unwrap_or(0);
    let rows = u64::try_from(group.num_rows()).unwrap_or(0);
    let rows_of_batch = rows.saturating_mul(BATCH_BYTES) / bytes.max(1);
    rows_of_batch.clamp(1, BATCH_ROWS) as usize
}

/// Up to `count` more rows of a row group; none at its end.
fn read_rows(
    columns: &mut Columns<ColumnReader>,
    count: usize,
    has_unsigned_ids: bool,
) -> Result<Vec<Row>, ParquetError> {
    let texts = read_texts(&mut columns.text, count)?;
    let ids = columns.id.as_mut().map(|ids| read_ids(ids, count, has_unsigned_ids)).transpose()?;
    let titles = columns.title.as_mut().map(|titles| read_texts(titles, count)).transpose()?;
    let same = |length: Option<usize>| length.is_none_or(|length| length == texts.len());
    if !same(ids.as_ref().map(Vec::len)) || !same(titles.as_ref().map(Vec::len)) {
        return Err(ParquetError::General("columns of different lengths".to_owned()));
    }
    let mut ids = ids.into_iter().flatten();
    let mut titles = titles.into_iter().flatten();
    Ok(texts
        .into_iter()
        .map(|text| Row { text, id: ids.next().flatten(), title: titles.next().flatten() })
        .collect())
}

fn read_texts(
    column: &mut ColumnReader,
    count: usize,
) -> Result<Vec<Option<ByteArray>>, ParquetError> {
    match column {
        ColumnReader::ByteArrayColumnReader(reader) => read_values(reader, count),
        _ => Err(ParquetError::General("a column of text holds none".to_owned())),
    }
}

fn read_ids(
    column: &mut ColumnReader,
    count: usize,
    is_unsigned: bool,
) -> Result<Vec<Option<Id>>, ParquetError> {
    fn ids<T>(values: Vec<Option<T>>, id: impl Fn(T) -> Id) -> Vec<Option<Id>> {
        values.into_iter().map(|value| value.map(&id)).collect()
    }
    Ok(match column {
        ColumnReader::ByteArrayColumnReader(reader) => ids(read_values(reader, count)?, Id::Text),
        ColumnReader::Int32ColumnReader(reader) => ids(read_values(reader, count)?, |id| {
            Id::Number(if is_unsigned { id.cast_unsigned().to_string() } else { id.to_string() })
        }),
        ColumnReader::Int64ColumnReader(reader) => ids(read_values(reader, count)?, |id| {
            Id::Number(if is_unsigned { id.cast_unsigned().to_string() } else { id.to_string() })
        }),
        _ => return Err(ParquetError::General("a column of identifiers holds none".to_owned())),
    })
}

/// The next values of a column that has one for each row, or `null`.
fn read_values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let (rows, ..) = reader.read_records(count, Some(&mut levels), None, &mut values)?;
    if levels.is_empty() {
        // A column that must not hold `null` has no levels.
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    // The highest level of a column at the root is 1: the value is there.
    Ok(levels
        .iter()
        .take(rows)
        .map(|&level| if level > 0 { values.next() } else { None })
        .collect())
}

/// What `read` finds. The decoders of this format index what the file says without asking whether
/// it is there, so that some damage ends in a panic: it is an error of the file, which is not
/// touched again after it.
fn caught<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    panic::catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(ParquetError::General("its lengths or offsets contradict one another".to_owned()))
    })
}

/// Where and why a file cannot be read on.
fn stop(
    path: &Path,
    error: ParquetError,
    row_group_number: Option<usize>,
    byte_offset: u64,
    rows: u64,
) -> Stop {
    let error = match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(source) if source.raw_os_error().is_some() => {
                return Stop::Failed(CorpusError::io("read", path)(*source));
            }
            Ok(source) => ParquetError::External(source),
            Err(source) => ParquetError::External(source),
        },
        error => error,
    };
    let message = match (error, row_group_number) {
        (ParquetError::General(message), None) => message,
        (ParquetError::General(message), Some(number)) => format!("row group {number}: {message}"),
        (error, None) => error.to_string(),
        (error, Some(number)) => format!("row group {number}: {error}"),
    };
    Stop::from(Break {
        byte_offset,
        line: Some(rows + 1),
        problem: FileProblem::Damaged { form: "Parquet".into(), message },
        salvaged: None,
    })
}
