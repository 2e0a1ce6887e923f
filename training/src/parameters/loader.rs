//! Hands each layer its parameters while a model is built.

use burn::module::{Param, ParamId};
use burn::tensor::{Tensor, TensorData};

use super::{ParameterSource, ParameterSpec};
use crate::backend::TpBackend;
use crate::error::TrainError;
use crate::parallel::TensorParallelGroup;

/// A place in the module tree, and what is needed to fill the parameters below it.
///
/// A layer asks for its own parameters by name ([`load`](Self::load)) and passes
/// [`child`](Self::child) loaders on to the layers it is made of.
#[derive(Clone)]
pub struct ParameterLoader<'a, B: TpBackend> {
    table: &'a [ParameterSpec],
    source: &'a dyn ParameterSource,
    group: &'a TensorParallelGroup,
    device: &'a B::Device,
    path: String,
}

impl<'a, B: TpBackend> ParameterLoader<'a, B> {
    /// The root of a model with the given table.
    pub fn new(
        table: &'a [ParameterSpec],
        source: &'a dyn ParameterSource,
        group: &'a TensorParallelGroup,
        device: &'a B::Device,
    ) -> Self {
        Self { table, source, group, device, path: String::new() }
    }

    /// The place `name` below this one.
    #[must_use]
    pub fn child(&self, name: impl std::fmt::Display) -> Self {
        Self { path: self.path_of(name), ..self.clone() }
    }

    /// The group over which layers are split.
    #[must_use]
    pub fn group(&self) -> &'a TensorParallelGroup {
        self.group
    }

    /// The share of each rank in a dimension of `size`.
    ///
    /// # Errors
    ///
    /// [`TrainError::Indivisible`] when `size` is no multiple of the group's size.
    pub fn part_of(&self, what: &str, size: usize) -> Result<usize, TrainError> {
        let ranks = self.group.size();
        if size.is_multiple_of(ranks) {
            return Ok(size / ranks);
        }
        Err(TrainError::Indivisible { what: self.path_of(what), size, ranks })
    }

    /// The attention heads of this rank, of `heads` in the model.
    ///
    /// # Errors
    ///
    /// [`TrainError::Indivisible`] when `heads` is no multiple of the group's size.
    pub fn heads(&self, heads: usize) -> Result<HeadRange, TrainError> {
        let count = self.part_of("num_attention_heads", heads)?;
        Ok(HeadRange { first: self.group.rank() * count, count })
    }

    /// This rank's part of the parameter `name`, which must have the given shape.
    ///
    /// # Errors
    ///
    /// [`TrainError::UnknownParameter`] and [`TrainError::ParameterShape`] when the model's table
    /// and the layer disagree, and whatever the source answers.
    pub fn load<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
    ) -> Result<Param<Tensor<B, D>>, TrainError> {
        let path = self.path_of(name);
        let Some(spec) = self.table.iter().find(|spec| spec.path == path) else {
            return Err(TrainError::UnknownParameter { path });
        };
        let (rank, size) = (self.group.rank(), self.group.size());
        let found = spec.local_shape(rank, size);
        let values = self.source.local(spec, rank, size)?;
        if found != shape || values.len() != shape.iter().product::<usize>() {
            let name = spec.name.clone();
            return Err(TrainError::ParameterShape { name, expected: shape.to_vec(), found });
        }
        // Every rank makes its own parameter: one that two ranks shared would put both ranks'
        // graphs under one lock, and their collectives in the backward pass would deadlock.
        let tensor = Tensor::from_data(TensorData::new(values, shape), self.device);
        Ok(Param::initialized(ParamId::new(), tensor.require_grad()))
    }

    fn path_of(&self, name: impl std::fmt::Display) -> String {
        if self.path.is_empty() { name.to_string() } else { format!("{}.{name}", self.path) }
    }
}

/// A range of a model's attention heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadRange {
    /// The first, counted among all heads of the model.
    pub first: usize,
    /// How many.
    pub count: usize,
}
