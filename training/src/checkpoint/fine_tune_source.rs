//! What a fine-tuned model begins with: pre-trained weights under a fresh head.

use std::collections::HashSet;

use tracing::info;

use super::InitialWeights;
use crate::TrainError;
use crate::architecture::Architecture;
use crate::parameters::{KeyedInit, ParameterSource, ParameterSpec};

/// The parameters of a pre-trained model where it has them, and all others drawn from a seed.
///
/// That the sizes of both are the same was checked ([`InitialWeights::check`]), so that the model
/// lacks none but those of a head that it was not pre-trained with.
#[derive(Debug)]
pub(crate) struct FineTuneSource<'a> {
    pretrained: &'a InitialWeights,
    /// Names of the parameters that it has.
    names: HashSet<String>,
    fresh: KeyedInit,
}

impl<'a> FineTuneSource<'a> {
    /// The weights of `pretrained`, and of a parameter that it lacks what `seed` draws.
    pub(crate) fn new(pretrained: &'a InitialWeights, seed: u64) -> Self {
        let specs = pretrained.architecture().parameters();
        let names = specs.into_iter().map(|spec| spec.name).collect();
        Self { pretrained, names, fresh: KeyedInit { seed } }
    }

    /// Says which parameters of `model` are drawn and which of the pre-trained model's are left out.
    pub(crate) fn tell(&self, model: &Architecture) {
        let specs = model.parameters();
        let own: HashSet<&str> = specs.iter().map(|spec| &*spec.name).collect();
        let drawn = specs.iter().map(|spec| &*spec.name).filter(|name| !self.names.contains(*name));
        let theirs = self.pretrained.architecture().parameters();
        let left = theirs.iter().map(|spec| &*spec.name).filter(|name| !own.contains(name));
        let list = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
        let (drawn, left) = (list(&mut drawn.into_iter()), list(&mut left.into_iter()));
        let (path, seed) = (&self.pretrained.record().path, self.fresh.seed);
        match drawn.is_empty() {
            true => info!(
                "beginning with {path}, which chooses among answers already: its classifier is taken \
                 too"
            ),
            false => info!(
                "beginning with {path}: drawn anew by the seed {seed}: {drawn}; left out: {left}"
            ),
        }
    }
}

impl ParameterSource for FineTuneSource<'_> {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        match self.names.contains(&spec.name) {
            true => self.pretrained.local(spec, rank, size),
            false => self.fresh.local(spec, rank, size),
        }
    }
}
