//! The stage that writes the shard: kept texts to tokens, in input order.
//!
//! Texts come through the memory map, are encoded on all threads, each into a block of its own, and
//! are appended to the shard while the next are encoded. After each segment the shard is
//! checkpointed, so that a later process goes on from there.

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use corpus::shard::{ShardBlock, ShardCheckpoint, ShardPaths, ShardSummary, ShardWriter};
use corpus::tokenizer::{EncodeScratch, Encoded, Tokenizer};
use corpus::{SHARD, Sequences, Unit};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::documents::{Documents, StoredBatch, StoredDocument};
use crate::near_duplicates::kept_rows;
use crate::outcomes::Outcomes;
use crate::run::Run;
use crate::stop::stop_if_asked;
use crate::{CurationError, CurationPlan};

/// Name of the stage.
const STAGE: &str = "tokenize";

/// Name of the entry for the finished shard.
const FINISHED: &str = "shard";

/// Text that one thread encodes into one block; one document at least.
const BLOCK_BYTES: usize = 256 << 10;

/// Batches of a round, for each thread.
const ROUND_BATCHES_PER_THREAD: usize = 4;

/// The shard with its first segments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct TokenizedSegment {
    checkpoint: ShardCheckpoint,
    cuts: WordCuts,
}

/// Words too long to be encoded in one piece.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WordCuts {
    /// How many cuts were made; the tokens at one may differ from those of the whole word.
    pub(crate) number: u64,
    /// Documents that hold one.
    pub(crate) documents: u64,
    /// The first: number of its document, and place in its text, in bytes.
    pub(crate) first: Option<(u32, u64)>,
}

/// Writes the shard of all kept documents into the stage folder.
pub(crate) fn tokenize(
    plan: &CurationPlan,
    documents: &Documents,
    outcomes: &Outcomes,
    run: &mut Run<'_>,
) -> Result<(ShardSummary, WordCuts), CurationError> {
    run.observer.begin(STAGE, Some(u64::from(outcomes.num_kept())), Unit::Documents);
    let tokenizer = &*plan.tokenizer;
    let (mut writer, mut done, first_segment) =
        match ShardInProgress::open(tokenizer, outcomes, run)? {
            ShardInProgress::Finished(summary, cuts) => {
                run.observer.skip(summary.documents);
                run.observer.finish();
                return Ok((summary, cuts));
            }
            ShardInProgress::At { writer, done, next_segment } => (writer, done, next_segment),
        };
    run.observer.skip(done.checkpoint.documents);
    for segment in first_segment..documents.num_segments() {
        let encoder = SegmentEncoder { tokenizer, sequences: plan.sequences, outcomes, run };
        let cuts = encoder.encode(documents, segment, &mut writer)?;
        done.cuts.add(&cuts);
        done.checkpoint = writer.checkpoint()?;
        run.stages.record(STAGE, Vec::new(), &done)?;
    }
    let summary = writer.finish()?;
    run.stages.record(FINISHED, summary.files.to_vec(), &summary)?;
    run.observer.finish();
    Ok((summary, done.cuts))
}

/// Stem of the shard while it is in the stage folder.
fn stem(run: &Run<'_>) -> PathBuf {
    run.stages.file(SHARD)
}

/// How far the shard is.
enum ShardInProgress {
    Finished(ShardSummary, WordCuts),
    At { writer: Box<ShardWriter>, done: TokenizedSegment, next_segment: usize },
}

impl ShardInProgress {
    fn open(
        tokenizer: &dyn Tokenizer,
        outcomes: &Outcomes,
        run: &mut Run<'_>,
    ) -> Result<Self, CurationError> {
        let (stem, vocab_size) = (stem(run), tokenizer.vocab_size());
        let written: Vec<TokenizedSegment> = run.stages.upcoming(STAGE)?;
        let done = written.last().cloned().unwrap_or_default();

        let is_whole = |summary: &ShardSummary| {
            let data = &summary.files[0];
            data.bytes == done.checkpoint.data.bytes
                && data.xxh3_128 == done.checkpoint.data.xxh3_128
                && summary.documents == u64::from(outcomes.num_kept())
                && summary.documents == done.checkpoint.documents
                && summary.tokens == done.checkpoint.tokens
        };
        if let Ok(Some(summary)) = ShardSummary::finished(&stem)
            && is_whole(&summary)
        {
            while run.stages.replay::<TokenizedSegment>(STAGE)?.is_some() {}
            if run.stages.replay::<ShardSummary>(FINISHED)?.is_none() {
                run.stages.record(FINISHED, summary.files.to_vec(), &summary)?;
            }
            return Ok(Self::Finished(summary, done.cuts));
        }
        // A shard whose index has its name, and that is not whole, was damaged since. One whose data
        // alone have theirs was being finished.
        let paths = ShardPaths::new(&stem);
        let was_finished = paths.index.exists();
        if was_finished {
            for path in [paths.data, paths.index] {
                fs::remove_file(&path).map_err(CurationError::io("remove", &path))?;
            }
        }
        if !written.is_empty() && !was_finished {
            match ShardWriter::resume(&stem, vocab_size, &done.checkpoint) {
                Ok(writer) => {
                    let next_segment = written.len();
                    while run.stages.replay::<TokenizedSegment>(STAGE)?.is_some() {}
                    return Ok(Self::At { writer: Box::new(writer), done, next_segment });
                }
                // Files that are gone or not as they were; what else is wrong with the folder comes up
                // when the shard is begun.
                Err(error) => tracing::warn!("{error}: the shard is made again"),
            }
        }
        let writer = ShardWriter::resume(&stem, vocab_size, &ShardCheckpoint::default())?;
        let writer = Box::new(writer);
        Ok(Self::At { writer, done: TokenizedSegment::default(), next_segment: 0 })
    }
}

/// Encodes the kept documents of a segment.
struct SegmentEncoder<'e, 'r> {
    tokenizer: &'e dyn Tokenizer,
    sequences: Sequences,
    outcomes: &'e Outcomes,
    run: &'e Run<'r>,
}

/// A kept document: its batch, the number of the batch's first document, its row.
type Place<'s> = (&'s StoredBatch, u32, usize);

impl SegmentEncoder<'_, '_> {
    fn encode(
        &self,
        documents: &Documents,
        segment: usize,
        writer: &mut ShardWriter,
    ) -> Result<WordCuts, CurationError> {
        let mut cuts = WordCuts::default();
        let mut unwritten: Vec<ShardBlock> = Vec::new();
        let batches: Vec<(u32, &StoredBatch)> = documents.batches(segment)?.collect();
        let round = ROUND_BATCHES_PER_THREAD * rayon::current_num_threads();
        for batches in batches.chunks(round) {
            let places = batches.iter().flat_map(|&(start, batch)| {
                kept_rows(batch, start, self.outcomes)
                    .into_iter()
                    .map(move |row| (batch, start, row))
            });
            let places: Vec<Place<'_>> = places.collect();
            let encode = || {
                in_blocks(&places)
                    .into_par_iter()
                    .map(|block| self.encode_block(block))
                    .collect::<Result<Vec<_>, CurationError>>()
            };
            let write = || -> Result<(), CurationError> {
                for block in unwritten.drain(..) {
                    writer.push_block(&block)?;
                }
                Ok(())
            };
            let (encoded, written) = rayon::join(encode, write);
            written?;
            for (block, block_cuts) in encoded? {
                unwritten.push(block);
                cuts.add(&block_cuts);
            }
            self.run.observer.advance(places.len() as u64);
            self.run.sample_memory();
        }
        for block in unwritten {
            writer.push_block(&block)?;
        }
        Ok(cuts)
    }

    fn encode_block(&self, places: &[Place<'_>]) -> Result<(ShardBlock, WordCuts), CurationError> {
        let mut block = ShardBlock::new(self.tokenizer.vocab_size());
        let mut cuts = WordCuts::default();
        let mut scratch = EncodeScratch::default();
        for &(batch, start, row) in places {
            stop_if_asked(self.run.observer)?;
            let document = batch.document(row);
            let encoded = match self.sequences {
                Sequences::Documents => self.encode_whole(&document, &mut scratch, &mut block)?,
                Sequences::Sentences => {
                    self.encode_sentences(document.text, &mut scratch, &mut block)?
                }
            };
            cuts.add(&WordCuts {
                number: encoded.cut_words as u64,
                documents: u64::from(encoded.cut_words > 0),
                first: encoded.first_cut.map(|place| (start + row as u32, place as u64)),
            });
        }
        Ok((block, cuts))
    }

    /// A document of one sequence, with the token that ends it.
    fn encode_whole(
        &self,
        document: &StoredDocument<'_>,
        scratch: &mut EncodeScratch,
        block: &mut ShardBlock,
    ) -> Result<Encoded, CurationError> {
        let encoded = match document.tokens {
            Some(tokens) => {
                block.push_tokens(tokens);
                Encoded::default()
            }
            None => self.encode_text(document.text, scratch, block)?,
        };
        block.push_tokens(&[self.tokenizer.eod()]);
        block.end_document();
        Ok(encoded)
    }

    /// A document with a sequence for each sentence; sentences without a token, such as one of
    /// control characters, are none.
    fn encode_sentences(
        &self,
        text: &str,
        scratch: &mut EncodeScratch,
        block: &mut ShardBlock,
    ) -> Result<Encoded, CurationError> {
        let mut all = Encoded::default();
        for sentence in corpus::sentences(text) {
            let encoded = self.encode_text(sentence, scratch, block)?;
            if encoded.tokens > 0 {
                block.end_sequence();
            }
            let start = sentence.as_ptr() as usize - text.as_ptr() as usize;
            all.tokens += encoded.tokens;
            all.cut_words += encoded.cut_words;
            all.first_cut = all.first_cut.or(encoded.first_cut.map(|place| start + place));
        }
        block.end_document_of_sequences();
        Ok(all)
    }

    /// Appends the tokens of `text` to the sequence at hand.
    fn encode_text(
        &self,
        text: &str,
        scratch: &mut EncodeScratch,
        block: &mut ShardBlock,
    ) -> Result<Encoded, CurationError> {
        let mut push = |tokens: &[u32]| {
            block.push_tokens(tokens);
            if self.run.observer.stop_requested() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let encoded = self.tokenizer.encode_to(text, scratch, &mut push)?;
        stop_if_asked(self.run.observer)?;
        Ok(encoded)
    }
}

/// Documents in runs that fill a block each.
fn in_blocks<'p, 's>(places: &'p [Place<'s>]) -> Vec<&'p [Place<'s>]> {
    let mut bytes = 0;
    let mut block = 0;
    places
        .chunk_by(|&(batch, _, row), _| {
            bytes += batch.text(row).len();
            let is_same = bytes / BLOCK_BYTES == block;
            block = bytes / BLOCK_BYTES;
            is_same
        })
        .collect()
}

impl WordCuts {
    /// Adds the cuts of later documents.
    fn add(&mut self, later: &Self) {
        self.number += later.number;
        self.documents += later.documents;
        self.first = self.first.or(later.first);
    }
}
