//! The model of a checkpoint, wherever it comes from: a run, a checkpoint, or a Hugging Face folder.

use std::path::Path;
use std::sync::Arc;

use corpus::tokenizer::{
    BertTokenizer, FoundTokenizer, Gpt2Tokenizer, JsonTokenizer, Tokenizer, find_tokenizer,
};
use corpus::{Observer, TokenizerIdentity};
use tracing::{info, warn};
use training::checkpoint::{Checkpoint, HuggingFaceModel, Weights};

use crate::error::EvalError;
use crate::model::{CheckpointKind, ModelIdentity};

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
                config: model.config_for(&TokenizerIdentity::of(&*tokenizer))?.gpt2()?.clone(),
                split_weights: None,
                tokenizer,
            })
        }
    }
}

/// The tokenizer of a Hugging Face folder; GPT-2's where there is none and the vocabulary is of its
/// size.
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
        None => {
            let gpt2 = Gpt2Tokenizer::new();
            let vocab_size = model.config()?.vocab_size;
            if !model.has_vocabulary_of(gpt2.vocab_size()) {
                return Err(EvalError::UnknownTokenizer { path: folder.to_owned(), vocab_size });
            }
            warn!(
                "{}: no tokenizer there; taking GPT-2's, whose vocabulary has the size of the \
                 model's ({vocab_size})",
                folder.display()
            );
            Ok(Arc::new(gpt2))
        }
    }
}
