//! A model of Hugging Face's as a checkpoint of this program: to evaluate, and to begin with.

use std::path::Path;

use corpus::tokenizer::{
    BertTokenizer, FoundTokenizer, Gpt2Tokenizer, JsonTokenizer, Tokenizer, find_tokenizer,
    open as open_tokenizer,
};
use corpus::{Observer, TokenizerIdentity};

use super::super::output_folder::Existing;
use super::super::weights_only::{self, WeightsOnly};
use super::HuggingFaceModel;
use crate::TrainError;
use crate::checkpoint::CheckpointError;
use crate::checkpoint::Manifest;

/// The name of BERT's own tokenizer.
const BERT: &str = "bert";

/// Writes the model in the folder `from` to the checkpoint folder `out`, one tensor at a time.
///
/// The tokenizer is that of the folder, or the one called `tokenizer` where that is given: `gpt2`,
/// `bert`, or the path of a `tokenizer.json`. What comes of it is a checkpoint without a state of training:
/// it can be evaluated, and a run can begin with it.
///
/// # Errors
///
/// What [`HuggingFaceModel::open`] finds; when there is no tokenizer or one of another vocabulary,
/// `out` is there and not to be replaced, a file cannot be written, or the observer asks to stop.
pub fn import(
    from: &Path,
    out: &Path,
    tokenizer: Option<&str>,
    existing: Existing,
    observer: &dyn Observer,
) -> Result<Manifest, TrainError> {
    let model = HuggingFaceModel::open(from)?;
    let found = match tokenizer {
        None => find_tokenizer(from)?,
        Some(name) => {
            let opened = open_tokenizer(name)?;
            Some(match opened.definition() {
                Some(text) => FoundTokenizer::Definition(text.to_string()),
                None if opened.name() == BERT => FoundTokenizer::Bert,
                None => FoundTokenizer::Gpt2,
            })
        }
    };
    let Some(found) = found else {
        return Err(CheckpointError::NoForeignModel {
            path: from.to_owned(),
            found: "neither tokenizer.json nor vocab.json and merges.txt here: name the \
                    tokenizer with --tokenizer",
        }
        .into());
    };
    let weights = WeightsOnly { step: 0, from, source: &model };
    let describe = |folder: &Path| {
        let identity = write_tokenizer(&found, folder)?;
        let architecture = model.config_for(&identity)?;
        Ok((identity, architecture))
    };
    weights_only::write(&weights, describe, out, existing, observer)
}

/// Puts the tokenizer's file into `folder`, where it has one, and returns the identity as a manifest
/// in that folder has it.
fn write_tokenizer(found: &FoundTokenizer, folder: &Path) -> Result<TokenizerIdentity, TrainError> {
    let text = match found {
        FoundTokenizer::Gpt2 => return Ok(TokenizerIdentity::of(&Gpt2Tokenizer::new())),
        FoundTokenizer::Bert => return Ok(TokenizerIdentity::of(&BertTokenizer::new())),
        FoundTokenizer::Definition(text) => text,
    };
    let path = folder.join(weights_only::TOKENIZER);
    super::super::manifest::replace_file(&path, text.as_bytes())?;
    let opened = JsonTokenizer::open(&path)?;
    let eod = opened.eod();
    Ok(TokenizerIdentity {
        name: weights_only::TOKENIZER.to_owned(),
        eod,
        ..TokenizerIdentity::of(&opened)
    })
}
