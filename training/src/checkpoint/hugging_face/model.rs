//! A folder of Hugging Face's, opened: a GPT-2 or a BERT whose weights any layout can take.
//!
//! The tensors are read where they are mapped, one slice at a time. GPT-2's names may have the prefix
//! `transformer.` or not; BERT's are those of a model with both heads of pre-training, or with the
//! one of multiple choice. Their numbers may be `F32`, `F16` or `BF16`, and they may lie in one file
//! or in several with an index.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use corpus::{FileSummary, Observer, TokenizerIdentity, Unit};
use serde_json::Value;
use tracing::warn;

use super::super::manifest::read_json;
use super::super::tensor_map::TensorMap;
use super::super::{HUGGING_FACE_CONFIG, MANIFEST, MODEL, named};
use super::bert::{self, joined, tensors_of};
use super::config::read_config;
use crate::TrainError;
use crate::architecture::Architecture;
use crate::checkpoint::CheckpointError;
use crate::model::{BertConfig, Gpt2Config};
use crate::parameters::{ParameterSource, ParameterSpec};

/// The list of a model's tensors where they lie in several files.
const INDEX: &str = "model.safetensors.index.json";
/// What the tensors' names begin with in a model with a head.
const PREFIX: &str = "transformer.";
/// The embedding, which is the head as well.
const EMBEDDING: &str = "transformer.wte.weight";
/// The head, where a file repeats it.
const HEAD: &str = "lm_head.weight";

/// Tables are padded to multiples of these powers of two.
const PADDED_TO: std::ops::RangeInclusive<u32> = 3..=12;

/// A model in Hugging Face's form.
#[derive(Debug)]
pub struct HuggingFaceModel {
    folder: PathBuf,
    architecture: Architecture,
    /// The token that ends a text, where the folder says so.
    end_of_text: Option<u32>,
    files: Vec<PathBuf>,
    tensors: TensorMap,
}

impl HuggingFaceModel {
    /// Opens the folder and holds its tensors against its sizes.
    ///
    /// # Errors
    ///
    /// When there is no `config.json` of such a model or no weights as safetensors, the configuration
    /// asks for what this model does not do, a tensor is missing, superfluous or of another shape,
    /// or the head is not the embedding.
    pub fn open(folder: &Path) -> Result<Self, TrainError> {
        let path = folder.join(HUGGING_FACE_CONFIG);
        if !path.is_file() {
            return Err(no_model(
                folder,
                "no config.json here, which says what model the weights are; put the one that was \
                 published with them there",
            ));
        }
        let value: Value = read_json(&path)?;
        let architecture = read_config(&path, &value)?;
        let files = weight_files(folder)?;
        let tensors = match &architecture {
            Architecture::Gpt2(model) => open_gpt2(folder, &files, model)?,
            Architecture::Bert(model) => open_bert(folder, &files, model)?,
            Architecture::BertChoice(model) => open_bert_choice(&files, model)?,
        };
        let end_of_text = value["eos_token_id"].as_u64().and_then(|id| u32::try_from(id).ok());
        Ok(Self { folder: folder.to_owned(), architecture, end_of_text, files, tensors })
    }

    /// Whether the folder `path` is of this form, and not a checkpoint of this program, which has a
    /// `config.json` too.
    #[must_use]
    pub fn is_at(path: &Path) -> bool {
        path.join(HUGGING_FACE_CONFIG).is_file() && !path.join(MANIFEST).exists()
    }

    /// Whether the folder `path` holds the weights of this form, and lacks what describes them.
    #[must_use]
    pub fn lacks_config(path: &Path) -> bool {
        let is_there = |name: &str| path.join(name).exists();
        (is_there(MODEL) || is_there(INDEX))
            && !is_there(HUGGING_FACE_CONFIG)
            && !is_there(MANIFEST)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The model and its sizes.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The sizes of a GPT-2.
    ///
    /// # Errors
    ///
    /// [`TrainError::OtherArchitecture`] when it is another model.
    pub fn config(&self) -> Result<&Gpt2Config, TrainError> {
        self.architecture.gpt2()
    }

    /// Whether the table has as many rows as there are `tokens`, or more that only pad it.
    #[must_use]
    pub fn has_vocabulary_of(&self, tokens: usize) -> bool {
        let rows = self.architecture.vocab_size();
        rows == tokens
            || PADDED_TO.into_iter().any(|bits| rows == tokens.next_multiple_of(1 << bits))
    }

    /// The model with as many tokens as `tokenizer` has: rows that pad the table are left out, so
    /// that none of them is ever scored.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::ForeignTokenizer`] when it has another number of tokens.
    pub fn config_for(&self, tokenizer: &TokenizerIdentity) -> Result<Architecture, TrainError> {
        let mut architecture = self.architecture.clone();
        let (rows, tokens) = (architecture.vocab_size(), tokenizer.vocab_size);
        if !self.has_vocabulary_of(tokens) {
            let path = self.folder.clone();
            return Err(
                CheckpointError::ForeignTokenizer { path, model: rows, tokenizer: tokens }.into()
            );
        }
        if rows != tokens {
            warn!(
                "{}: the table has {rows} rows and the tokenizer {tokens} tokens: the last {} rows \
                 are padding, and left out",
                self.folder.display(),
                rows - tokens
            );
            match &mut architecture {
                Architecture::Gpt2(model) => model.vocab_size = tokens,
                Architecture::Bert(model) | Architecture::BertChoice(model) => {
                    model.vocab_size = tokens;
                }
            }
        }
        if let Some(end) = self.end_of_text.filter(|&end| end != tokenizer.eod) {
            warn!(
                "{}: config.json says that token {end} ends a text, the tokenizer says {}",
                self.folder.display(),
                tokenizer.eod
            );
        }
        Ok(architecture)
    }

    /// The token that ends a text, where the folder says so.
    pub fn end_of_text(&self) -> Option<u32> {
        self.end_of_text
    }

    /// Names and hashes of the files that hold the weights, which are read for it.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or the observer asks to stop.
    pub fn fingerprint(&self, observer: &dyn Observer) -> Result<String, TrainError> {
        let sizes = self.files.iter().filter_map(|path| path.metadata().ok());
        let total = sizes.map(|file| file.len()).sum();
        observer.begin("read weights", Some(total), Unit::Bytes);
        let summaries: Result<Vec<_>, _> =
            self.files.iter().map(|path| FileSummary::observed(path, observer)).collect();
        observer.finish();
        let hashes = summaries?.into_iter().map(|file| format!("{} {}", file.name, file.xxh3_128));
        Ok(hashes.collect::<Vec<_>>().join(", "))
    }
}

impl ParameterSource for HuggingFaceModel {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        let model = match &self.architecture {
            Architecture::Gpt2(_) => return self.tensors.slice(&spec.name, spec, rank, size),
            Architecture::Bert(model) | Architecture::BertChoice(model) => model,
        };
        // Rows that pad the vocabulary stand at the end, and are not read.
        let read = |tensor: &ParameterSpec| self.tensors.slice(&tensor.name, tensor, 0, 1);
        let parts: Vec<_> =
            tensors_of(spec, model).iter().map(read).collect::<Result<_, TrainError>>()?;
        Ok(spec.slice(&joined(spec, &parts), rank, size))
    }
}

/// The tensors of a GPT-2, held against its sizes.
fn open_gpt2(
    folder: &Path,
    files: &[PathBuf],
    model: &Gpt2Config,
) -> Result<TensorMap, TrainError> {
    let tensors = TensorMap::open_floats(files, own_name)?;
    let specs = model.parameters();
    let mut expected: Vec<_> = named(&specs, "").collect();
    if tensors.has(HEAD) {
        expected.push((HEAD.to_owned(), &*specs[0].shape));
    }
    tensors.check(&expected)?;
    if tensors.has(HEAD) && !tensors.are_equal(HEAD, EMBEDDING)? {
        return Err(CheckpointError::HeadUntied { path: folder.to_owned() }.into());
    }
    Ok(tensors)
}

/// The tensors of a BERT with the heads of pre-training, held against its sizes.
fn open_bert(
    folder: &Path,
    files: &[PathBuf],
    model: &BertConfig,
) -> Result<TensorMap, TrainError> {
    let mut tensors = TensorMap::open_floats(files, bert::own_name)?;
    if tensors.has(bert::DECODER_BIAS) && !tensors.has(bert::BIAS) {
        tensors = TensorMap::open_floats(files, |name| match bert::own_name(name) {
            Some(name) if name == bert::DECODER_BIAS => Some(bert::BIAS.to_owned()),
            other => other,
        })?;
    }
    let specs: Vec<_> =
        model.parameters().iter().flat_map(|spec| tensors_of(spec, model)).collect();
    let mut expected: Vec<_> = named(&specs, "").collect();
    let rows = [model.vocab_size, model.hidden_size];
    for (repeated, own, shape) in
        [(bert::DECODER, bert::EMBEDDING, &rows[..]), (bert::DECODER_BIAS, bert::BIAS, &rows[..1])]
    {
        if tensors.has(repeated) {
            expected.push((repeated.to_owned(), shape));
            if tensors.has(own) && !tensors.are_equal(repeated, own)? {
                return Err(CheckpointError::HeadUntied { path: folder.to_owned() }.into());
            }
        }
    }
    tensors.check(&expected)?;
    Ok(tensors)
}

/// The tensors of a BERT that chooses among answers, held against its sizes.
fn open_bert_choice(files: &[PathBuf], model: &BertConfig) -> Result<TensorMap, TrainError> {
    let tensors = TensorMap::open_floats(files, bert::own_name)?;
    let specs = model.multiple_choice_parameters();
    let specs: Vec<_> = specs.iter().flat_map(|spec| tensors_of(spec, model)).collect();
    tensors.check(&named(&specs, "").collect::<Vec<_>>())?;
    Ok(tensors)
}

/// The name that this program knows a tensor by; none for buffers, which hold no weights.
fn own_name(name: &str) -> Option<String> {
    let is_buffer = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
    match name {
        _ if is_buffer => None,
        HEAD => Some(HEAD.to_owned()),
        _ if name.starts_with(PREFIX) => Some(name.to_owned()),
        _ => Some(format!("{PREFIX}{name}")),
    }
}

/// The files that hold the weights: one, or those that the index lists.
fn weight_files(folder: &Path) -> Result<Vec<PathBuf>, TrainError> {
    let whole = folder.join(MODEL);
    if whole.is_file() {
        return Ok(vec![whole]);
    }
    let index = folder.join(INDEX);
    if !index.is_file() {
        let is_pickled = folder.join("pytorch_model.bin").is_file()
            || folder.join("pytorch_model.bin.index.json").is_file();
        return Err(if is_pickled {
            no_model(
                folder,
                "its weights are a pytorch_model.bin, which runs code when it is read: load the \
                 folder with transformers and write it with save_pretrained, which makes a \
                 model.safetensors",
            )
        } else {
            no_model(folder, "neither model.safetensors nor model.safetensors.index.json here")
        });
    }
    let value: Value = read_json(&index)?;
    let listed = value["weight_map"].as_object().into_iter().flatten();
    let names: BTreeSet<&str> = listed.filter_map(|(_, file)| file.as_str()).collect();
    // A name leads to a file of this folder, and nowhere else.
    let is_plain = |name: &&str| Path::new(name).file_name().is_some_and(|file| file == *name);
    if names.is_empty() || !names.iter().all(is_plain) {
        return Err(no_model(folder, "its model.safetensors.index.json lists no files"));
    }
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

fn no_model(folder: &Path, found: &'static str) -> TrainError {
    TrainError::from(CheckpointError::NoForeignModel { path: folder.to_owned(), found })
}
