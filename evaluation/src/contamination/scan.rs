//! The one pass over the corpora.
//!
//! Work goes in rounds of some megabytes. Cutting records out of files is sequential and cheap;
//! while one round is parsed and searched on all threads, the next is cut. What depends on the
//! order of documents is decided when a round is taken back, in order.

use corpus::ngram::{NGramDictionary, NGramWindow};
use corpus::reader::{Item, ParsedBlock, RecordBlock};
use corpus::{Document, Observer, Unit};
use rayon::prelude::*;
use tracing::warn;

use super::corpora::{Corpus, TextCorpus, TokenCorpus};
use super::document::{Matches, Matching, Place, Worst};
use super::plan::ContaminationPlan;
use super::seen::Seen;
use crate::error::EvalError;

/// Bytes of records that are searched in one round, for each thread.
const ROUND_BYTES_PER_THREAD: u64 = 2 << 20;

/// Blocks of one round, where they are small files.
const ROUND_BLOCKS: usize = 4096;

/// Tokens of a data folder that a thread takes at a time; a document at least.
const TASK_TOKENS: u64 = 1 << 18;

/// A pass over corpora in search of the n-grams of test sets.
pub(super) struct Scan<'d> {
    dictionaries: &'d [NGramDictionary],
    /// The size by whose n-grams documents are judged.
    primary: usize,
    primary_words: u64,
    seen: Vec<Seen>,
    worst: Vec<Worst>,
    /// Documents that share an n-gram with each test set.
    contaminated: Vec<u64>,
    read: Read,
}

/// What was read of the corpora.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Read {
    pub(super) documents: u64,
    /// Records whose text is null.
    pub(super) null_texts: u64,
    /// Records that could not be read and were passed over.
    pub(super) rejected: u64,
    /// Files of which only the beginning could be read.
    pub(super) broken_files: u64,
    /// Bytes on disk.
    pub(super) bytes: u64,
    /// Bytes of text.
    pub(super) text_bytes: u64,
    pub(super) words: u64,
    /// Words of the longest document.
    pub(super) longest: u64,
}

/// What a pass found.
pub(super) struct Found {
    seen: Vec<Seen>,
    of: Vec<FoundOfTestSet>,
}

/// What a pass found of one test set, beside its n-grams.
pub(super) struct FoundOfTestSet {
    pub(super) read: Read,
    pub(super) contaminated: u64,
    /// The documents that share the most, with what the report says of where they stand.
    pub(super) worst: Vec<(DocumentPlace, Matches)>,
}

/// Where a document stands, in words.
#[derive(Debug, Clone, Default)]
pub(super) struct DocumentPlace {
    pub(super) corpus: String,
    /// Number in its data folder, from 0.
    pub(super) document: Option<u64>,
    pub(super) source: Option<String>,
    pub(super) file: Option<String>,
    pub(super) line: Option<u64>,
    pub(super) id: Option<String>,
}

/// What the documents of a block share with each test set.
#[derive(Default)]
struct Searched {
    read: Read,
    /// For documents that share something: place in the block, test set, and what.
    matches: Vec<(usize, usize, Matches)>,
}

/// Working memory of a thread.
struct Search<'s> {
    scan: &'s Scan<'s>,
    window: NGramWindow,
    matching: Vec<Matching>,
}

impl<'d> Scan<'d> {
    pub(super) fn new(plan: &ContaminationPlan, dictionaries: &'d [NGramDictionary]) -> Self {
        let primary = plan.primary_size();
        Self {
            dictionaries,
            primary,
            primary_words: plan.sizes()[primary] as u64,
            seen: dictionaries.iter().map(Seen::none).collect(),
            worst: dictionaries.iter().map(|_| Worst::default()).collect(),
            contaminated: vec![0; dictionaries.len()],
            read: Read::default(),
        }
    }

    /// Reads all corpora.
    ///
    /// # Errors
    ///
    /// Where one cannot be read, or `observer` asks to stop.
    pub(super) fn run(
        mut self,
        mut corpora: Vec<Corpus>,
        observer: &dyn Observer,
    ) -> Result<Found, EvalError> {
        let bytes = corpora.iter().map(Corpus::bytes).sum();
        observer.begin("contamination", Some(bytes), Unit::Bytes);
        for (number, corpus) in corpora.iter_mut().enumerate() {
            let words_before = self.read.words;
            match corpus {
                Corpus::Folder(folder) => self.search_folder(number, folder, observer)?,
                Corpus::Text(text) => self.search_text(text, observer)?,
            }
            if self.read.words == words_before {
                warn!("{}: there is no word in it", corpus.path().display());
            }
        }
        observer.finish();
        self.check_words(&corpora)?;
        self.read.bytes = bytes;
        let (read, seen) = (self.read, self.seen);
        let of = self.worst.into_iter().zip(self.contaminated).map(|(worst, contaminated)| {
            let documents = worst.into_documents().into_iter();
            let worst = documents.map(|(place, matches)| Ok((place.told(&corpora)?, matches)));
            Ok(FoundOfTestSet {
                read,
                contaminated,
                worst: worst.collect::<Result<_, EvalError>>()?,
            })
        });
        Ok(Found { of: of.collect::<Result<_, EvalError>>()?, seen })
    }

    /// Refuses corpora that hold no word, and warns of those that cannot hold an n-gram.
    fn check_words(&self, corpora: &[Corpus]) -> Result<(), EvalError> {
        let Read { documents, null_texts, words, longest, .. } = self.read;
        if words == 0 {
            let paths = corpora.iter().map(|corpus| corpus.path().to_owned()).collect();
            return Err(EvalError::EmptyCorpus { paths, documents, null_texts });
        }
        if longest < self.primary_words {
            warn!(
                "no document of the corpus is longer than {longest} words: it has no n-gram of {} \
                 words, and the overlap is 0 whatever the test set",
                self.primary_words
            );
        }
        Ok(())
    }

    fn search_text(
        &mut self,
        corpus: &mut TextCorpus,
        observer: &dyn Observer,
    ) -> Result<(), EvalError> {
        let sources = &mut corpus.sources;
        let mut ahead = cut(sources);
        while !ahead.is_empty() {
            let blocks = ahead;
            let scan = &*self;
            let search = || -> Result<Vec<(ParsedBlock, Searched)>, EvalError> {
                let search = |block: RecordBlock| {
                    if observer.stop_requested() {
                        return Err(EvalError::Stopped);
                    }
                    let block = block.parse();
                    let searched = Search::new(scan).items(block.items());
                    Ok((block, searched))
                };
                blocks.into_par_iter().map(search).collect()
            };
            let (searched, next) = rayon::join(search, || cut(sources));
            ahead = next;
            let before = sources.bytes_read();
            for (block, searched) in searched? {
                let count = block.items().len();
                let items = sources.accept(block)?;
                self.add(searched, |place| Place::of(&items[place]));
                // What could be read of the last record of a file that breaks off.
                let salvaged = &items[count..];
                let searched = Search::new(self).items(salvaged);
                self.add(searched, |place| Place::of(&salvaged[place]));
            }
            observer.advance(sources.bytes_read() - before);
        }
        self.read.broken_files += sources.broken().len() as u64;
        Ok(())
    }

    fn search_folder(
        &mut self,
        number: usize,
        corpus: &TokenCorpus,
        observer: &dyn Observer,
    ) -> Result<(), EvalError> {
        let documents = corpus.shard.num_documents();
        let mut first = 0;
        while first < documents {
            let tasks = tasks(corpus, first)?;
            let scan = &*self;
            let search = |task: &std::ops::Range<u64>| {
                let mut search = Search::new(scan);
                let mut searched = Searched::default();
                for document in task.clone() {
                    if observer.stop_requested() {
                        return Err(EvalError::Stopped);
                    }
                    let place = (document - task.start) as usize;
                    search.text(place, &corpus.text(document)?, &mut searched);
                }
                Ok(searched)
            };
            let searched = tasks.par_iter().map(search).collect::<Result<Vec<_>, EvalError>>()?;
            for (task, searched) in tasks.iter().zip(searched) {
                self.add(searched, |place| Place::Folder(number, task.start + place as u64));
                let mut tokens = 0;
                for document in task.clone() {
                    let places = corpus.shard.document_tokens(document)?;
                    tokens += places.end - places.start;
                }
                observer.advance(corpus.bytes_of(tokens));
                first = task.end;
            }
        }
        Ok(())
    }

    /// Takes what the next documents share.
    fn add(&mut self, searched: Searched, place_of: impl Fn(usize) -> Place) {
        self.read.add(searched.read);
        for (place, test_set, matches) in searched.matches {
            self.contaminated[test_set] += 1;
            self.worst[test_set].add(place_of(place), matches);
        }
    }
}

impl<'s> Search<'s> {
    fn new(scan: &'s Scan<'s>) -> Self {
        let matching = scan.dictionaries.iter().map(|_| Matching::default()).collect();
        Self { scan, window: NGramWindow::default(), matching }
    }

    fn items(&mut self, items: &[Item]) -> Searched {
        let mut searched = Searched::default();
        for (place, item) in items.iter().enumerate() {
            match item {
                Item::Document(document) | Item::Repaired(document, _) => {
                    self.text(place, &document.text, &mut searched);
                }
                Item::NullText(_) => searched.read.null_texts += 1,
                // Where the policy is to fail, accepting the block ends the pass with the reason.
                Item::Rejected(_) => searched.read.rejected += 1,
            }
        }
        searched
    }

    /// Searches one document, the one at `place` of its block.
    fn text(&mut self, place: usize, text: &str, searched: &mut Searched) {
        let Self { scan, window, matching } = self;
        matching.iter_mut().for_each(Matching::clear);
        let words = NGramDictionary::search(scan.dictionaries, text, window, |test_set, found| {
            scan.seen[test_set].mark(found.size, found.number);
            if found.size == scan.primary {
                matching[test_set].add(&found);
            }
        });
        let ngrams = (words + 1).saturating_sub(scan.primary_words);
        for (test_set, matching) in matching.iter_mut().enumerate() {
            let threshold = scan.worst[test_set].threshold();
            if let Some(matches) = matching.matches(text, ngrams, threshold) {
                searched.matches.push((place, test_set, matches));
            }
        }
        searched.read.documents += 1;
        searched.read.text_bytes += text.len() as u64;
        searched.read.words += words;
        searched.read.longest = searched.read.longest.max(words);
    }
}

impl Read {
    fn add(&mut self, more: Self) {
        self.documents += more.documents;
        self.null_texts += more.null_texts;
        self.rejected += more.rejected;
        self.broken_files += more.broken_files;
        self.bytes += more.bytes;
        self.text_bytes += more.text_bytes;
        self.words += more.words;
        self.longest = self.longest.max(more.longest);
    }
}

impl Found {
    /// The n-grams of the test set at `place` that were seen.
    pub(super) fn seen(&self, place: usize) -> &Seen {
        &self.seen[place]
    }

    /// What else was found of it.
    pub(super) fn of(&self, place: usize) -> &FoundOfTestSet {
        &self.of[place]
    }
}

impl Place {
    fn of(item: &Item) -> Self {
        Self::Text(match item {
            Item::Document(Document { provenance, .. })
            | Item::Repaired(Document { provenance, .. }, _)
            | Item::NullText(provenance) => provenance.clone(),
            Item::Rejected(reject) => reject.provenance.clone(),
        })
    }

    /// Where the document stands, in words.
    fn told(&self, corpora: &[Corpus]) -> Result<DocumentPlace, EvalError> {
        match self {
            Self::Text(provenance) => Ok(DocumentPlace {
                corpus: provenance.source.to_string(),
                document: None,
                source: Some(provenance.source.to_string()),
                file: Some(provenance.file.display().to_string()),
                line: provenance.line,
                id: provenance.id.clone(),
            }),
            Self::Folder(number, document) => {
                let corpus = corpora[*number].path().display().to_string();
                let mut told =
                    DocumentPlace { corpus, document: Some(*document), ..Default::default() };
                if let Corpus::Folder(corpus) = &corpora[*number] {
                    told.add_provenance(&corpus.folder, *document)?;
                }
                Ok(told)
            }
        }
    }
}

impl DocumentPlace {
    /// Adds what the folder knows of where the document came from.
    fn add_provenance(
        &mut self,
        folder: &corpus::DataFolder,
        document: u64,
    ) -> Result<(), EvalError> {
        let Some(line) = folder.provenance(document)? else { return Ok(()) };
        let Ok(known) = serde_json::from_str::<serde_json::Value>(&line) else { return Ok(()) };
        let text = |key: &str| known[key].as_str().map(str::to_owned);
        (self.source, self.file, self.id) = (text("source"), text("file"), text("id"));
        self.line = known["line"].as_u64();
        Ok(())
    }
}

/// Cuts the records of the next round out of their files; none at the end.
fn cut(sources: &mut corpus::reader::Sources) -> Vec<RecordBlock> {
    let wanted = ROUND_BYTES_PER_THREAD * rayon::current_num_threads() as u64;
    let (mut blocks, mut bytes) = (Vec::new(), 0);
    while bytes < wanted && blocks.len() < ROUND_BLOCKS {
        let Some(block) = sources.next_block() else { break };
        bytes += block.bytes();
        blocks.push(block);
    }
    blocks
}

/// The documents of the next round, a range for each task.
fn tasks(corpus: &TokenCorpus, first: u64) -> Result<Vec<std::ops::Range<u64>>, EvalError> {
    let documents = corpus.shard.num_documents();
    let (mut tasks, mut start) = (Vec::new(), first);
    while start < documents && tasks.len() < 4 * rayon::current_num_threads() {
        let (mut end, mut tokens) = (start, 0);
        while end < documents && tokens < TASK_TOKENS {
            let places = corpus.shard.document_tokens(end)?;
            tokens += places.end - places.start;
            end += 1;
        }
        tasks.push(start..end);
        start = end;
    }
    Ok(tasks)
}
