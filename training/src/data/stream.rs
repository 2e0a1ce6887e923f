//! Documents one behind the other, as one stream of tokens.
//!
//! Where the documents lie, in one shard or in several, in one piece or in many, is forgotten here:
//! documents and tokens are counted from 0 through all of them.

use std::ops::Range;
use std::sync::Arc;

use corpus::CorpusError;
use corpus::shard::ShardReader;

/// The tokens of some documents.
#[derive(Debug, Clone, Default)]
pub struct TokenStream {
    runs: Vec<Run>,
}

/// Consecutive documents of a shard.
#[derive(Debug, Clone)]
struct Run {
    shard: Arc<ShardReader>,
    /// The documents, as the shard counts them.
    documents: Range<u64>,
    /// Their tokens, as places of the shard.
    tokens: Range<u64>,
    /// Documents of the stream before these.
    first_document: u64,
    /// Tokens of the stream before these.
    first_token: u64,
    /// Their sequences, as the shard counts them.
    sequences: Range<u64>,
    /// Sequences of the stream before these.
    first_sequence: u64,
}

impl TokenStream {
    /// The documents `documents` of `shard`.
    ///
    /// # Panics
    ///
    /// When the shard has no such documents.
    #[must_use]
    pub fn new(shard: &Arc<ShardReader>, documents: Range<u64>) -> Self {
        let mut stream = Self::default();
        stream.push(shard, documents);
        stream
    }

    /// The documents of all `streams`, one stream behind the other.
    #[must_use]
    pub fn join(streams: impl IntoIterator<Item = Self>) -> Self {
        let mut joined = Self::default();
        for run in streams.into_iter().flat_map(|stream| stream.runs) {
            joined.push(&run.shard, run.documents);
        }
        joined
    }

    fn push(&mut self, shard: &Arc<ShardReader>, documents: Range<u64>) {
        if documents.is_empty() {
            return;
        }
        let place = |document| shard.document_tokens(document).expect("a document of the shard");
        let tokens = place(documents.start).start..place(documents.end - 1).end;
        let sequences = |document| shard.document_sequences(document).expect("one of the shard");
        self.runs.push(Run {
            shard: Arc::clone(shard),
            tokens,
            first_document: self.num_documents(),
            first_token: self.num_tokens(),
            sequences: sequences(documents.start).start..sequences(documents.end - 1).end,
            first_sequence: self.num_sequences(),
            documents,
        });
    }

    /// Documents.
    #[must_use]
    pub fn num_documents(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.first_document + count(&run.documents))
    }

    /// Tokens, ends of documents among them.
    #[must_use]
    pub fn num_tokens(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.first_token + count(&run.tokens))
    }

    /// Sequences: documents, or their sentences.
    #[must_use]
    pub fn num_sequences(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.first_sequence + count(&run.sequences))
    }

    /// The sequences of document `document`.
    ///
    /// # Panics
    ///
    /// When there is no such document.
    #[must_use]
    pub fn document_sequences(&self, document: u64) -> Range<u64> {
        let run = self.runs.partition_point(|run| run.first_document <= document) - 1;
        let run = &self.runs[run];
        let number = run.documents.start + (document - run.first_document);
        let sequences = run.shard.document_sequences(number).expect("a document of the shard");
        let number = |sequence: u64| sequence - run.sequences.start + run.first_sequence;
        number(sequences.start)..number(sequences.end)
    }

    /// Places of the tokens of sequence `sequence`.
    ///
    /// # Panics
    ///
    /// When there is no such sequence.
    #[must_use]
    pub fn sequence_tokens(&self, sequence: u64) -> Range<u64> {
        let run = self.runs.partition_point(|run| run.first_sequence <= sequence) - 1;
        let run = &self.runs[run];
        let number = run.sequences.start + (sequence - run.first_sequence);
        let tokens = run.shard.sequence_tokens(number).expect("a sequence of the shard");
        let place = |token: u64| token - run.tokens.start + run.first_token;
        place(tokens.start)..place(tokens.end)
    }

    /// The stream of the documents `documents` of this one.
    ///
    /// # Panics
    ///
    /// When there are no such documents.
    #[must_use]
    pub fn part(&self, documents: &Range<u64>) -> Self {
        assert!(documents.end <= self.num_documents(), "documents {documents:?} of a stream");
        let mut part = Self::default();
        for run in &self.runs {
            let within = |document: u64| {
                document.saturating_sub(run.first_document).min(count(&run.documents))
            };
            let (begin, end) = (within(documents.start), within(documents.end));
            part.push(&run.shard, run.documents.start + begin..run.documents.start + end);
        }
        part
    }

    /// Places of the tokens of document `document`.
    ///
    /// # Panics
    ///
    /// When there is no such document.
    #[must_use]
    pub fn document_tokens(&self, document: u64) -> Range<u64> {
        let run = self.runs.partition_point(|run| run.first_document <= document) - 1;
        let run = &self.runs[run];
        let number = run.documents.start + (document - run.first_document);
        let tokens = run.shard.document_tokens(number).expect("a document of the shard");
        let place = |token: u64| token - run.tokens.start + run.first_token;
        place(tokens.start)..place(tokens.end)
    }

    /// Fills `tokens` with those from place `begin` on, across the ends of documents.
    ///
    /// # Errors
    ///
    /// When a shard cannot be read there.
    ///
    /// # Panics
    ///
    /// When the stream ends before.
    pub fn read(&self, begin: u64, tokens: &mut [u32]) -> Result<(), CorpusError> {
        let end = begin + tokens.len() as u64;
        assert!(end <= self.num_tokens(), "tokens {begin} to {end} of {}", self.num_tokens());
        let mut run = self.runs.partition_point(|run| run.first_token <= begin).saturating_sub(1);
        let (mut place, mut rest) = (begin, tokens);
        while !rest.is_empty() {
            let Run { shard, tokens, first_token, .. } = &self.runs[run];
            let start = tokens.start + (place - first_token);
            let here = (tokens.end - start).min(rest.len() as u64) as usize;
            let (filled, after) = rest.split_at_mut(here);
            shard.read(start, filled)?;
            (place, rest, run) = (place + here as u64, after, run + 1);
        }
        Ok(())
    }
}

fn count(range: &Range<u64>) -> u64 {
    range.end - range.start
}
