//! The data folders and shards that a run is given, opened.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corpus::shard::{ShardPaths, ShardReader};
use corpus::{
    CorpusError, DataFolder, FileSummary, ForeignShard, MANIFEST, Observer, SHARD, Sequences,
    SourceSpan, TokenizerIdentity, shards_at, tokenizer,
};
use tracing::{info, warn};

use super::error::DataError;
use super::form::SampleForm;
use super::masking::Masking;
use super::sentence_pairs::PairRecipe;
use super::stream::TokenStream;
use super::weighted_path::WeightedPath;
use crate::TrainError;

/// The files of a data folder that hold tokens.
const SHARD_FILES: [&str; 2] = ["corpus.bin", "corpus.idx"];

/// All that a run is given.
#[derive(Debug)]
pub(crate) struct DataInputs {
    inputs: Vec<DataInput>,
    tokenizer: TokenizerIdentity,
}

/// One data folder or shard.
#[derive(Debug)]
pub(super) struct DataInput {
    pub(super) written: WeightedPath,
    /// `None` where its weight is 0: it is not read.
    content: Option<Content>,
}

#[derive(Debug)]
enum Content {
    Folder(Box<DataFolder>),
    Shard(ForeignShard),
}

/// Documents that are drawn from by a weight of their own.
#[derive(Debug)]
pub(super) struct Source {
    /// What messages call it.
    pub(super) name: String,
    /// Its name in its data folder, where it is a part of one.
    pub(super) part: Option<String>,
    /// Its weight among those of its data folder.
    pub(super) weight: f64,
    pub(super) stream: TokenStream,
}

impl DataInputs {
    /// Opens what `written` names: manifests and indices are read, no tokens. `tokenizer` is the
    /// name or file of the tokenizer for shards that have no manifest.
    ///
    /// # Errors
    ///
    /// When something is no data or broken, weights are none or lacking, or not all of it was made
    /// by one tokenizer.
    pub(crate) fn open(
        written: &[WeightedPath],
        tokenizer: Option<&str>,
    ) -> Result<Self, TrainError> {
        check_weights(written)?;
        check_distinct(written)?;
        let inputs = written.iter().map(DataInput::open).collect::<Result<Vec<_>, _>>()?;
        check_all_weighted(&inputs)?;
        let given = tokenizer.map(named_tokenizer).transpose()?;
        let tokenizer = common_tokenizer(&inputs, given)?;
        Ok(Self { inputs, tokenizer })
    }

    /// Opens one data folder or shard, whose tokens are to be those of `tokenizer`.
    ///
    /// # Errors
    ///
    /// When it is no data or broken, or a data folder that another tokenizer made.
    pub(crate) fn of_one(path: &Path, tokenizer: &TokenizerIdentity) -> Result<Self, TrainError> {
        let input = DataInput::open(&WeightedPath::unweighted(path.to_owned()))?;
        if let Some(Content::Folder(folder)) = &input.content {
            let found = folder.tokenizer_identity()?;
            if found.fingerprint != tokenizer.fingerprint {
                return Err(DataError::ModelTokenizer {
                    path: path.to_owned(),
                    tokenizer: found.name,
                    vocab_size: found.vocab_size,
                    model_tokenizer: tokenizer.name.clone(),
                    model_vocab_size: tokenizer.vocab_size,
                }
                .into());
            }
        }
        Ok(Self { inputs: vec![input], tokenizer: tokenizer.clone() })
    }

    /// The tokenizer that made all of it.
    pub(crate) fn tokenizer(&self) -> &TokenizerIdentity {
        &self.tokenizer
    }

    /// Where the tokenizer is named, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.used().next().expect("data is used").written.path
    }

    pub(super) fn inputs(&self) -> &[DataInput] {
        &self.inputs
    }

    /// What is read.
    pub(super) fn used(&self) -> impl Iterator<Item = &DataInput> {
        self.inputs.iter().filter(|input| input.content.is_some())
    }

    /// Refuses data whose sequences are not what samples of `form` are made of.
    ///
    /// # Errors
    ///
    /// With the data, and what to do.
    pub(crate) fn check_form(&self, form: SampleForm) -> Result<(), DataError> {
        self.used().try_for_each(|input| input.check_form(form))
    }

    /// What pairs of sentences are made by, where `form` asks for pairs.
    ///
    /// # Errors
    ///
    /// When the tokenizer cannot be opened, or its vocabulary is not a masked language model's.
    pub(crate) fn pair_recipe(
        &self,
        form: SampleForm,
        seq_length: usize,
    ) -> Result<Option<PairRecipe>, TrainError> {
        let SampleForm::SentencePairs(config) = form else { return Ok(None) };
        let vocabulary = tokenizer::open(&self.tokenizer.name)?.masked_vocabulary()?;
        let masking = Arc::new(Masking::new(&config, Arc::new(vocabulary)));
        Ok(Some(PairRecipe { seq_length, short_seq_prob: config.short_seq_prob, masking }))
    }

    /// Whether samples are drawn by weights.
    pub(super) fn is_weighted(&self) -> bool {
        self.used().any(|input| input.written.weight.is_some() || input.has_weighted_sources())
    }
}

impl DataInput {
    fn open(written: &WeightedPath) -> Result<Self, TrainError> {
        if written.weight == Some(0.0) {
            info!("--data {} has weight 0 and is not used", written.path.display());
            return Ok(Self { written: written.clone(), content: None });
        }
        let content = Some(Content::open(&written.path)?);
        Ok(Self { written: written.clone(), content })
    }

    fn check_form(&self, form: SampleForm) -> Result<(), DataError> {
        let path = || self.written.path.clone();
        if self.content.is_some() && form == SampleForm::Questions {
            return Err(DataError::NotRace { path: path() });
        }
        let wants_sentences = matches!(form, SampleForm::SentencePairs(_));
        match &self.content {
            None => Ok(()),
            Some(Content::Folder(folder)) => match (folder.manifest().sequences, wants_sentences) {
                (Sequences::Documents, true) => Err(DataError::NotSentences { path: path() }),
                (Sequences::Sentences, false) => Err(DataError::NotDocuments { path: path() }),
                _ => Ok(()),
            },
            Some(Content::Shard(shard)) => {
                let shard = shard.shard();
                let has_sentences = (0..shard.num_documents()).any(|document| {
                    let sequences = shard.document_sequences(document);
                    sequences.is_ok_and(|sequences| sequences.end - sequences.start > 1)
                });
                if wants_sentences && !has_sentences {
                    return Err(DataError::ShardOfDocuments { path: path() });
                }
                if !wants_sentences && has_sentences {
                    warn!(
                        "--data {}: its documents have several sequences, as a shard for BERT has, \
                         which are read as one text; is there a token that ends a document?",
                        self.written.path.display()
                    );
                }
                Ok(())
            }
        }
    }

    /// Reads all of it once, where it is used: it is what its manifest says, and every token is one
    /// of the vocabulary. Returns its fingerprint.
    pub(super) fn verify(
        &self,
        vocab_size: usize,
        observer: &dyn Observer,
    ) -> Result<Option<String>, TrainError> {
        let Some(content) = &self.content else { return Ok(None) };
        let name = |file: &FileSummary| format!("{} {}", file.name, file.xxh3_128);
        let files: Vec<String> = match content {
            Content::Folder(folder) => {
                folder.verify(observer)?;
                let files = folder.manifest().files.iter();
                files.filter(|file| SHARD_FILES.contains(&&*file.name)).map(name).collect()
            }
            // Under the names that the files of a data folder have: a shard may be renamed.
            Content::Shard(shard) => {
                let files = shard.verify(vocab_size, observer)?;
                let names = SHARD_FILES.iter().zip(files);
                names.map(|(&name, file)| format!("{name} {}", file.xxh3_128)).collect()
            }
        };
        Ok(Some(files.join(", ")))
    }

    /// Names and hashes of the files with its tokens, as its manifest has them; `None` where it has
    /// no manifest.
    pub(super) fn manifest_hashes(&self) -> Option<String> {
        let Some(Content::Folder(folder)) = &self.content else { return None };
        let files = folder.manifest().files.iter();
        let files = files.filter(|file| SHARD_FILES.contains(&&*file.name));
        let hashes: Vec<_> = files.map(|file| format!("{} {}", file.name, file.xxh3_128)).collect();
        Some(hashes.join(", "))
    }

    /// Whether its sources have weights of their own.
    pub(super) fn has_weighted_sources(&self) -> bool {
        match &self.content {
            Some(Content::Folder(folder)) => is_weighted(&folder.manifest().spans),
            _ => false,
        }
    }

    /// Its sources: those of its manifest that have a weight above 0, or all of it as one.
    pub(super) fn sources(&self) -> Result<Vec<Source>, TrainError> {
        let path = &self.written.path;
        let whole = |shard: &Arc<ShardReader>| Source {
            name: path.display().to_string(),
            part: None,
            weight: 1.0,
            stream: TokenStream::new(shard, 0..shard.num_documents()),
        };
        match &self.content {
            None => Ok(Vec::new()),
            Some(Content::Shard(shard)) => Ok(vec![whole(shard.shard())]),
            Some(Content::Folder(folder)) => {
                let shard = Arc::new(folder.shard()?);
                if !is_weighted(&folder.manifest().spans) {
                    return Ok(vec![whole(&shard)]);
                }
                weighted_sources(folder, &shard)
            }
        }
    }
}

impl Content {
    fn open(path: &Path) -> Result<Self, TrainError> {
        if path.join(MANIFEST).is_file() {
            return Ok(Self::Folder(Box::new(DataFolder::open(path)?)));
        }
        if path.is_dir() || !ForeignShard::is_at(path) {
            let holds_shards = path.is_dir() && shards_at(path).is_ok();
            return Err(DataError::NoData { path: path.to_owned(), holds_shards }.into());
        }
        let data = ShardPaths::new(path).data;
        if let Some(folder) = data.parent()
            && data.file_stem().is_some_and(|stem| stem == SHARD)
            && folder.join(MANIFEST).is_file()
        {
            let (path, folder) = (path.to_owned(), folder.to_owned());
            return Err(DataError::ShardOfFolder { path, folder }.into());
        }
        Ok(Self::Shard(ForeignShard::open(path)?))
    }
}

/// The sources of a data folder whose manifest gives them weights; the spans of one are joined.
fn weighted_sources(
    folder: &DataFolder,
    shard: &Arc<ShardReader>,
) -> Result<Vec<Source>, TrainError> {
    let path = folder.path();
    let spans = &folder.manifest().spans;
    let mut sources: Vec<Source> = Vec::new();
    for (span, documents) in spans.iter().zip(places(folder, shard)?) {
        let refuse = |problem: String| DataError::SourceWeights {
            path: path.to_owned(),
            source_name: span.source.clone(),
            problem,
        };
        let weight = span.weight.ok_or_else(|| refuse("no weight, and others have".to_owned()))?;
        if !weight.is_finite() || weight < 0.0 {
            return Err(refuse(format!("the weight {weight}, which is none")).into());
        }
        let stream = TokenStream::new(shard, documents);
        let earlier = sources.iter_mut().find(|source| source.part.as_ref() == Some(&span.source));
        match earlier {
            Some(source) if source.weight != weight => {
                let problem = format!("two weights, {} and {weight}", source.weight);
                return Err(refuse(problem).into());
            }
            Some(source) => {
                source.stream = TokenStream::join([std::mem::take(&mut source.stream), stream]);
            }
            None => sources.push(Source {
                name: format!("{} ({})", path.display(), span.source),
                part: Some(span.source.clone()),
                weight,
                stream,
            }),
        }
    }
    sources.retain(|source| {
        if source.weight == 0.0 {
            info!("source {} has weight 0 and is not used", source.name);
        }
        source.weight > 0.0
    });
    if sources.is_empty() { Err(DataError::NoWeight.into()) } else { Ok(sources) }
}

/// The documents of each span of a data folder, which together are all of its documents.
fn places(folder: &DataFolder, shard: &ShardReader) -> Result<Vec<Range<u64>>, CorpusError> {
    let mismatch = |what, expected: u64, found: u64| CorpusError::ManifestMismatch {
        path: folder.path().join(MANIFEST),
        what,
        expected: expected.to_string(),
        found: found.to_string(),
        remedy: "; make the folder again",
    };
    let mut end = 0_u64;
    let mut places = Vec::new();
    for span in &folder.manifest().spans {
        if span.first_document != end {
            return Err(mismatch("first document of a source's span", end, span.first_document));
        }
        let after = end.checked_add(span.documents).filter(|&end| end <= shard.num_documents());
        let left = shard.num_documents() - end;
        let after = after.ok_or_else(|| mismatch("documents of a span", left, span.documents))?;
        places.push(end..after);
        end = after;
    }
    if end != shard.num_documents() {
        return Err(mismatch("documents of all spans", shard.num_documents(), end));
    }
    Ok(places)
}

fn is_weighted(spans: &[SourceSpan]) -> bool {
    spans.iter().any(|span| span.weight.is_some())
}

fn check_weights(written: &[WeightedPath]) -> Result<(), DataError> {
    for data in written {
        if let Some(weight) = data.weight.filter(|weight| !weight.is_finite() || *weight < 0.0) {
            return Err(DataError::Weight { written: data.to_string(), weight });
        }
    }
    if written.iter().all(|data| data.weight == Some(0.0)) {
        return Err(DataError::NoWeight);
    }
    Ok(())
}

/// No place is given twice, under whatever name.
fn check_distinct(written: &[WeightedPath]) -> Result<(), DataError> {
    let place = |data: &WeightedPath| -> PathBuf {
        let path = &data.path;
        let file = if path.is_dir() { path.clone() } else { ShardPaths::new(path).data };
        file.canonicalize().unwrap_or(file)
    };
    for (number, data) in written.iter().enumerate() {
        if written[..number].iter().any(|earlier| place(earlier) == place(data)) {
            return Err(DataError::Twice { path: data.path.clone() });
        }
    }
    Ok(())
}

/// Either nothing has a weight, or everything: a folder whose sources have weights needs one beside
/// others, for its sources' weights say nothing of those.
fn check_all_weighted(inputs: &[DataInput]) -> Result<(), DataError> {
    if inputs.len() == 1 {
        return Ok(());
    }
    let without = inputs.iter().find(|input| input.written.weight.is_none());
    let with = inputs
        .iter()
        .find(|input| input.written.weight.is_some())
        .map(|input| format!("--data {} has", input.written));
    let with = with.or_else(|| {
        let blend = inputs.iter().find(|input| input.has_weighted_sources())?;
        Some(format!("the sources in --data {} have", blend.written))
    });
    let (Some(without), Some(with)) = (without, with) else { return Ok(()) };
    Err(DataError::MissingWeight { without: without.written.path.display().to_string(), with })
}

/// The tokenizer that the configuration names, under a name by which it is found from any folder.
pub(crate) fn named_tokenizer(name: &str) -> Result<TokenizerIdentity, TrainError> {
    let tokenizer = tokenizer::open(name)?;
    let mut identity = TokenizerIdentity::of(&*tokenizer);
    if tokenizer.definition().is_some() {
        let path = Path::new(name);
        let place = std::path::absolute(path);
        let place = place.map_err(|source| TrainError::io("resolve", path, source))?;
        identity.name = place.display().to_string();
    }
    Ok(identity)
}

/// The one tokenizer of all data; `given` by the configuration, or found in the manifests.
fn common_tokenizer(
    inputs: &[DataInput],
    given: Option<TokenizerIdentity>,
) -> Result<TokenizerIdentity, TrainError> {
    let is_given = given.is_some();
    let mut common = given.map(|identity| ("data.tokenizer".to_owned(), identity));
    for input in inputs {
        let path = &input.written.path;
        let found = match &input.content {
            None => continue,
            Some(Content::Folder(folder)) => folder.tokenizer_identity()?,
            // The manifest of a folder beside it does not speak for it.
            Some(Content::Shard(_)) if !is_given => {
                return Err(DataError::NoTokenizer { path: path.clone() }.into());
            }
            Some(Content::Shard(_)) => continue,
        };
        match &common {
            Some((other, identity)) if identity.fingerprint != found.fingerprint => {
                return Err(DataError::Tokenizers {
                    path: path.clone(),
                    tokenizer: found.name,
                    vocab_size: found.vocab_size,
                    other: other.clone(),
                    other_tokenizer: identity.name.clone(),
                    other_vocab_size: identity.vocab_size,
                }
                .into());
            }
            Some(_) => {}
            None => common = Some((path.display().to_string(), found)),
        }
    }
    let (_, identity) = common.expect("some data is used, and what is used has a tokenizer");
    Ok(identity)
}
