//! Every document of the input, by its number in input order, in files of the stage folder.
//!
//! Documents lie in *segments* of about 256 MiB of text, in the order in which they were read. A
//! segment is opened when one of its documents is asked for, and read through the memory map: what
//! is held for it is some kilobytes, whatever the size of its texts.

mod segment;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use corpus::reader::Sources;
use segment::Segment;
pub(crate) use segment::{JudgedDocument, SegmentWriter, StoredBatch, StoredDocument};

use crate::CurationError;
use crate::records::Location;
use crate::stages::StageFolder;

/// The documents of a corpus.
#[derive(Debug)]
pub(crate) struct Documents {
    /// Source and path of every input file, by its number.
    files: Vec<InputName>,
    /// Number of the first document of each segment, and one past the last.
    starts: Vec<u32>,
    segments: Vec<LazySegment>,
}

/// What an input file is called.
#[derive(Debug, Clone)]
pub(crate) struct InputName {
    pub(crate) source: Arc<str>,
    pub(crate) path: Arc<Path>,
}

#[derive(Debug)]
struct LazySegment {
    path: std::path::PathBuf,
    segment: OnceLock<Segment>,
}

impl Documents {
    /// The documents of segments of these lengths, in a stage folder.
    pub(crate) fn new(files: Vec<InputName>, lengths: &[u32], stages: &StageFolder) -> Self {
        let starts = std::iter::once(0)
            .chain(lengths.iter().scan(0_u32, |end, length| {
                *end += length;
                Some(*end)
            }))
            .collect();
        let segments = (0..lengths.len())
            .map(|number| LazySegment {
                path: stages.file(&file_name(number)),
                segment: OnceLock::new(),
            })
            .collect();
        Self { files, starts, segments }
    }

    /// Number of all documents.
    pub(crate) fn len(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Number of segments.
    pub(crate) fn num_segments(&self) -> usize {
        self.segments.len()
    }

    /// The batches of a segment, each with the number of its first document.
    pub(crate) fn batches(
        &self,
        segment: usize,
    ) -> Result<impl Iterator<Item = (u32, &StoredBatch)>, CurationError> {
        let first = self.starts[segment];
        let batches = self.segment(segment)?.batches();
        Ok(batches.map(move |(start, batch)| (first + start, batch)))
    }

    /// The document of a number.
    pub(crate) fn document(&self, number: u32) -> Result<StoredDocument<'_>, CurationError> {
        let segment = self.starts.partition_point(|&start| start <= number) - 1;
        Ok(self.segment(segment)?.document(number - self.starts[segment]))
    }

    /// What the file of this number is called.
    pub(crate) fn file(&self, number: u32) -> &InputName {
        &self.files[number as usize]
    }

    /// Where a document stands in the input.
    pub(crate) fn location(&self, document: &StoredDocument<'_>) -> Location {
        let InputName { source, path } = self.file(document.file);
        Location {
            source: Some(source.to_string()),
            file: path.display().to_string(),
            line: document.line,
            id: document.id.map(str::to_owned),
        }
    }

    /// Where the document of this number stands in the input.
    pub(crate) fn location_of(&self, number: u32) -> Result<Location, CurationError> {
        Ok(self.location(&self.document(number)?))
    }

    fn segment(&self, number: usize) -> Result<&Segment, CurationError> {
        let lazy = &self.segments[number];
        if let Some(segment) = lazy.segment.get() {
            return Ok(segment);
        }
        let opened = Segment::open(&lazy.path)?;
        Ok(lazy.segment.get_or_init(|| opened))
    }
}

impl InputName {
    /// The files of `sources`, in the order of their numbers.
    pub(crate) fn all_of(sources: &Sources) -> Vec<Self> {
        sources
            .files()
            .map(|file| Self { source: file.source.into(), path: file.path.into() })
            .collect()
    }
}

/// Name of the segment of a number.
pub(crate) fn file_name(segment: usize) -> String {
    format!("documents-{segment:05}.arrow")
}
