//! The model of a checkpoint, wherever it comes from: a run, a checkpoint, or a Hugging Face folder.

use std::path::Path;
use std::sync::Arc;

use corpus::tokenizer::{
    BertTokenizer, FoundTokenizer, Gpt2Tokenizer, JsonTokenizer, Tokenizer, find_tokenizer,
};
use corpus::{Observer, TokenizerIdentity};
use tracing::{info, warn};
use training::architecture::Architecture;
use training::checkpoint::{Checkpoint, HuggingFaceModel, Weights};

use crate::error::EvalError;
use crate::identity::{CheckpointKind, ModelIdentity};

/// Opens the newest whole checkpoint of a run, a checkpoint, or a Hugging Face folder.
///
/// # Errors
///
/// When it is none of them or not whole: a tensor that is missing, superfluous or of another shape
/// is named; or when `observer` asks to stop.
pub(crate) fn open(path: &Path, observer: &dyn Observer) -> Result<Weights, EvalError> {
    if HuggingFaceModel::is_at(path) || HuggingFaceModel::lacks_config(path) {
        return Ok(Weights::HuggingFace(Box::new(HuggingFaceModel::open(path)?)));
    }
    Ok(Weights::Checkpoint(Box::new(Checkpoint::open_observed(path, observer)?)))
}

/// What the model of `weights` is.
///
/// # Errors
///
/// When its tokenizer is not found, or is not the model's.
pub(crate) fn identity(weights: &Weights) -> Result<ModelIdentity, EvalError> {
    match weights {
        Weights::Checkpoint(checkpoint) => ModelIdentity::new(checkpoint),
        Weights::HuggingFace(model) => {
            let tokenizer = tokenizer_of(model)?;
            Ok(ModelIdentity {
                checkpoint: model.folder().to_owned(),
                kind: CheckpointKind::HuggingFace,
                step: None,
                // Rows beyond the tokenizer's tokens only pad the table, and are not read.
                architecture: model.config_for(&TokenizerIdentity::of(&*tokenizer))?,
                split_weights: None,
                masked_lm: None,
                tokenizer,
            })
        }
    }
}

/// The tokenizer of a Hugging Face folder; where there is none, the built-in one of its model if the
/// vocabulary is of that size.
fn tokenizer_of(model: &HuggingFaceModel) -> Result<Arc<dyn Tokenizer>, EvalError> {
    let folder = model.folder();
    match find_tokenizer(folder)? {
        Some(FoundTokenizer::Gpt2) => {
            info!("{}: its tokenizer is GPT-2's", folder.display());
            Ok(Arc::new(Gpt2Tokenizer::new()))
        }
        Some(FoundTokenizer::Bert) => {
            info!("{}: its tokenizer is BERT's uncased one", folder.display());
            Ok(Arc::new(BertTokenizer::new()))
        }
        Some(FoundTokenizer::Definition(text)) => {
            Ok(Arc::new(JsonTokenizer::of_definition(&folder.join("tokenizer.json"), text)?))
        }
        None => usual_tokenizer(model),
    }
}

/// The tokenizer that models of the kind usually have, for a folder that holds none.
fn usual_tokenizer(model: &HuggingFaceModel) -> Result<Arc<dyn Tokenizer>, EvalError> {
    let (tokenizer, whose): (Arc<dyn Tokenizer>, _) = match model.architecture() {
        Architecture::Gpt2(_) => (Arc::new(Gpt2Tokenizer::new()), "GPT-2's"),
        Architecture::Bert(_) | Architecture::BertChoice(_) => {
            (Arc::new(BertTokenizer::new()), "BERT's uncased one")
        }
    };
    let (vocab_size, usual) = (model.architecture().vocab_size(), tokenizer.vocab_size());
    if !model.has_vocabulary_of(usual) {
        let path = model.folder().to_owned();
        return Err(EvalError::UnknownTokenizer { path, vocab_size, whose, usual });
    }
    warn!(
        "{}: no tokenizer there; taking {whose}, whose vocabulary has the size of the model's \
         ({vocab_size})",
        model.folder().display()
    );
    Ok(tokenizer)
}
