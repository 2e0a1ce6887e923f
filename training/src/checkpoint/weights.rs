//! The weights of a model, in whichever of the two forms they lie.

use std::path::Path;

use corpus::Observer;

use super::{Checkpoint, HuggingFaceModel};
use crate::TrainError;
use crate::parameters::{ParameterSource, ParameterSpec};

/// Weights that have been opened.
#[derive(Debug)]
pub enum Weights {
    /// A checkpoint of this program.
    Checkpoint(Box<Checkpoint>),
    /// A folder in Hugging Face's form.
    HuggingFace(Box<HuggingFaceModel>),
}

impl Weights {
    /// The folder that holds them.
    #[must_use]
    pub fn folder(&self) -> &Path {
        match self {
            Self::Checkpoint(checkpoint) => checkpoint.folder(),
            Self::HuggingFace(model) => model.folder(),
        }
    }

    /// Hashes of the files that hold them. A checkpoint's manifest has its hash; the files of a
    /// Hugging Face folder are read for theirs.
    ///
    /// # Errors
    ///
    /// When a file cannot be read; [`TrainError::Stopped`] when the observer asks to stop.
    pub fn fingerprint(&self, observer: &dyn Observer) -> Result<String, TrainError> {
        match self {
            Self::Checkpoint(checkpoint) => checkpoint.model_hash(),
            Self::HuggingFace(model) => model.fingerprint(observer),
        }
    }
}

impl ParameterSource for Weights {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        match self {
            Self::Checkpoint(checkpoint) => checkpoint.local(spec, rank, size),
            Self::HuggingFace(model) => model.local(spec, rank, size),
        }
    }
}
