//! The models of plans, opened and found fit before anything is scored.

use std::fs;
use std::path::PathBuf;

use corpus::Observer;
use training::checkpoint::Weights;

use crate::config::EvalPlan;
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::weights;

/// A model that a plan can be carried out on. Its weights are on disk still.
#[derive(Debug)]
pub(crate) struct FoundModel {
    /// What it is.
    pub(crate) identity: ModelIdentity,
    /// Its parameters.
    pub(crate) weights: Weights,
}

impl FoundModel {
    /// The model of `plan`.
    ///
    /// # Errors
    ///
    /// When the checkpoint cannot be read, does not fit the plan or the machine, or does not split
    /// over the ranks, or its tokenizer is not found or is not the one that the model was trained
    /// with; when `observer`, which hears how far the reading is, asks to stop.
    pub(crate) fn open(plan: &EvalPlan, observer: &dyn Observer) -> Result<Self, EvalError> {
        plan.check_beforehand()?;
        let weights = weights::open(&plan.checkpoint, observer)?;
        let identity = weights::identity(&weights)?;
        plan.check_here(&identity.architecture)?;
        identity.architecture.check_tensor_parallel(plan.tensor_parallel_size.get())?;
        Ok(Self { identity, weights })
    }

    /// The models of `plans`, each of which has a vote.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), for any of them; [`EvalError::ModelTwice`] where two plans name one
    /// model, under whatever names.
    pub(crate) fn voters(
        plans: &[EvalPlan],
        observer: &dyn Observer,
    ) -> Result<Vec<Self>, EvalError> {
        // What can be told at once must not wait until the weights of others have been read.
        plans.iter().try_for_each(EvalPlan::check_beforehand)?;
        let (mut models, mut folders) = (Vec::new(), Vec::new());
        for plan in plans {
            let model = Self::open(plan, observer)?;
            let folder = model.folder();
            if let Some(place) = folders.iter().position(|other| *other == folder) {
                return Err(EvalError::ModelTwice {
                    first: plans[place].checkpoint.clone(),
                    again: plan.checkpoint.clone(),
                    folder,
                });
            }
            folders.push(folder);
            models.push(model);
        }
        Ok(models)
    }

    /// The folder of its checkpoint, without links.
    fn folder(&self) -> PathBuf {
        let folder = self.weights.folder();
        fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
    }
}
