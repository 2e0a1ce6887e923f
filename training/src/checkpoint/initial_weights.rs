//! Weights that a run begins with, where a seed does not draw them: another run's checkpoint, or a
//! model of Hugging Face's.
//!
//! Only the weights are taken. The optimizer is fresh, and the run begins at step 0 with its own
//! data and schedule.

use std::path::Path;

use corpus::tokenizer::{
    BertTokenizer, FoundTokenizer, Gpt2Tokenizer, JsonTokenizer, Tokenizer, find_tokenizer,
    open as open_tokenizer,
};
use corpus::{Observer, TokenizerIdentity};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;

use super::weights_only::TOKENIZER;
use super::{Checkpoint, HuggingFaceModel, MANIFEST, Weights, folder_of_checkpoints};
use crate::TrainError;
use crate::architecture::Architecture;
use crate::checkpoint::CheckpointError;
use crate::parameters::{ParameterSource, ParameterSpec};

/// Which weights they are: what a run remembers of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitRecord {
    /// Where they were found.
    pub path: String,
    /// Names and hashes of the files that hold them; what makes two of them the same.
    pub fingerprint: String,
}

/// Weights to begin with.
#[derive(Debug)]
pub struct InitialWeights {
    source: Weights,
    record: InitRecord,
}

impl InitialWeights {
    /// Opens a run folder, a checkpoint or a folder in Hugging Face's form. Reads all of it once, for
    /// its hash.
    ///
    /// # Errors
    ///
    /// When it is none of them, or not whole; [`TrainError::Stopped`] when the observer asks to stop.
    pub fn open(path: &Path, observer: &dyn Observer) -> Result<Self, TrainError> {
        if !path.exists() {
            return Err(CheckpointError::NoSuchFolder { path: path.to_owned() }.into());
        }
        let is_ours = path.join(MANIFEST).exists() || folder_of_checkpoints(path).is_some();
        let source = if is_ours {
            Weights::Checkpoint(Box::new(Checkpoint::open_observed(path, observer)?))
        } else {
            Weights::HuggingFace(Box::new(HuggingFaceModel::open(path)?))
        };
        let fingerprint = source.fingerprint(observer)?;
        let folder = std::path::absolute(source.folder())
            .map_err(|error| TrainError::io("resolve", path, error))?;
        let record = InitRecord { path: folder.display().to_string(), fingerprint };
        Ok(Self { source, record })
    }

    /// What the run remembers of them.
    pub fn record(&self) -> &InitRecord {
        &self.record
    }

    /// The folder that holds them.
    pub fn folder(&self) -> &Path {
        self.source.folder()
    }

    /// Demands that they are those of a BERT, with whichever heads.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::InitDiffers`] when they are another model's.
    pub(crate) fn check_is_bert(&self) -> Result<(), TrainError> {
        match self.architecture() {
            Architecture::Bert(_) | Architecture::BertChoice(_) => Ok(()),
            other @ Architecture::Gpt2(_) => Err(CheckpointError::InitDiffers {
                path: self.folder().to_owned(),
                differences: vec![format!("the model is {} there and bert here", other.name())],
            }
            .into()),
        }
    }

    /// The model that they are of.
    pub fn architecture(&self) -> &Architecture {
        match &self.source {
            Weights::Checkpoint(checkpoint) => checkpoint.architecture(),
            Weights::HuggingFace(model) => model.architecture(),
        }
    }

    /// The tokenizer that they were trained by, under a name by which it is found from any folder;
    /// `None` where their folder holds none that can be opened there.
    ///
    /// # Errors
    ///
    /// When its file cannot be read.
    pub fn tokenizer(&self) -> Result<Option<TokenizerIdentity>, TrainError> {
        let folder = match &self.source {
            Weights::Checkpoint(checkpoint) => return checkpoint.tokenizer().map(Some),
            Weights::HuggingFace(model) => model.folder(),
        };
        let path = folder.join(TOKENIZER);
        Ok(match find_tokenizer(folder)? {
            Some(FoundTokenizer::Gpt2) => Some(TokenizerIdentity::of(&Gpt2Tokenizer::new())),
            Some(FoundTokenizer::Bert) => Some(TokenizerIdentity::of(&BertTokenizer::new())),
            Some(FoundTokenizer::Definition(_)) if path.is_file() => {
                let path = std::path::absolute(&path)
                    .map_err(|error| TrainError::io("resolve", &path, error))?;
                Some(TokenizerIdentity::of(&JsonTokenizer::open(&path)?))
            }
            Some(FoundTokenizer::Definition(_)) | None => None,
        })
    }

    /// Demands that they are weights of `model` over the vocabulary of `tokenizer`; of a model that
    /// chooses among answers those of a BERT as it is pre-trained do. Dropout and what initial
    /// weights are drawn with is the run's own affair.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::InitDiffers`] with every value that differs.
    pub fn check(
        &self,
        model: &Architecture,
        tokenizer: &TokenizerIdentity,
    ) -> Result<(), TrainError> {
        let (source, folder) = (&self.source, self.source.folder());
        let theirs = self.architecture();
        let mut differences = match (model, theirs) {
            (Architecture::BertChoice(_), Architecture::Bert(bert)) => {
                model.differences(&Architecture::BertChoice(bert.clone()))
            }
            _ => model.differences(theirs),
        };
        match source {
            Weights::Checkpoint(checkpoint) => {
                let theirs = checkpoint.tokenizer()?;
                if theirs.fingerprint != tokenizer.fingerprint {
                    differences.push(format!(
                        "its tokenizer is {}, and the data's is {}",
                        theirs.name, tokenizer.name
                    ));
                }
            }
            Weights::HuggingFace(model) => {
                match find_tokenizer(folder)? {
                    None => warn!(
                        "{}: no tokenizer there; that it is the data's, {}, is not known",
                        folder.display(),
                        tokenizer.name
                    ),
                    Some(found) if !is_same(&found, folder, tokenizer) => {
                        differences.push(format!(
                            "its tokenizer is another one than the data's, {}",
                            tokenizer.name
                        ));
                    }
                    Some(_) => {}
                }
                if let Some(end) = model.end_of_text().filter(|&end| end != tokenizer.eod) {
                    warn!(
                        "{}: token {end} ends a text there, and {} in the data",
                        folder.display(),
                        tokenizer.eod
                    );
                }
            }
        }
        if differences.is_empty() {
            return Ok(());
        }
        Err(CheckpointError::InitDiffers { path: folder.to_owned(), differences }.into())
    }
}

/// Whether the tokenizer that was found in `folder` is the data's: the same file, or one that says
/// the same.
fn is_same(found: &FoundTokenizer, folder: &Path, data: &TokenizerIdentity) -> bool {
    let fingerprint = |path: &Path| JsonTokenizer::open(path).ok().map(|it| it.fingerprint());
    let file = folder.join(TOKENIZER);
    if fingerprint(&file).is_some_and(|found| found == data.fingerprint) {
        return true;
    }
    match found {
        FoundTokenizer::Gpt2 => Gpt2Tokenizer::new().fingerprint() == data.fingerprint,
        FoundTokenizer::Bert => BertTokenizer::new().fingerprint() == data.fingerprint,
        FoundTokenizer::Definition(text) => {
            let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
            let own = open_tokenizer(&data.name).ok().and_then(|it| it.definition());
            own.is_some_and(|own| parsed(text).is_some_and(|text| parsed(&own) == Some(text)))
        }
    }
}

impl ParameterSource for InitialWeights {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        self.source.local(spec, rank, size)
    }
}

impl Architecture {
    /// What makes weights of `theirs` none of this model's, in the user's words.
    pub(crate) fn differences(&self, theirs: &Self) -> Vec<String> {
        let differ = |name: &str, theirs: String, ours: String| {
            format!("{name} is {theirs} there and {ours} here")
        };
        if self.name() != theirs.name() {
            return vec![differ("the model", theirs.name().to_owned(), self.name().to_owned())];
        }
        let (our, their) = (self.layers(), theirs.layers());
        let sizes = [
            ("num_layers", our.num_layers, their.num_layers),
            ("hidden_size", our.hidden_size, their.hidden_size),
            ("num_attention_heads", our.num_attention_heads, their.num_attention_heads),
            ("seq_length", self.seq_length(), theirs.seq_length()),
            ("vocab_size", self.vocab_size(), theirs.vocab_size()),
            ("ffn_hidden_size", our.ffn_hidden_size, their.ffn_hidden_size),
        ];
        let mut found: Vec<String> = sizes
            .into_iter()
            .filter(|(_, ours, theirs)| ours != theirs)
            .map(|(name, ours, theirs)| differ(name, theirs.to_string(), ours.to_string()))
            .collect();
        if our.activation != their.activation {
            found.push(differ("activation", json(their.activation), json(our.activation)));
        }
        if our.arrangement != their.arrangement {
            found.push(differ("arrangement", json(their.arrangement), json(our.arrangement)));
        }
        if our.layer_norm_epsilon != their.layer_norm_epsilon {
            let (theirs, ours) = (their.layer_norm_epsilon, our.layer_norm_epsilon);
            found.push(differ("layer_norm_epsilon", theirs.to_string(), ours.to_string()));
        }
        found
    }
}

fn json(value: impl Serialize) -> String {
    serde_json::to_string(&value).unwrap_or_default()
}
