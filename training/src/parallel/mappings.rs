//! The paper's operators *f* and *g*, between which a block is split over the ranks.
//!
//! | operator                              | forward    | backward   |
//! |---------------------------------------|------------|------------|
//! | *f*, [`copy_to_region`]               | identity   | all-reduce |
//! | *g*, [`reduce_from_region`]           | all-reduce | identity   |
//!
//! Each is the other with forward and backward swapped: *f* lets every rank use the whole input,
//! so its gradient is the sum of what the ranks did with it; *g* adds the ranks' partial outputs,
//! and each part's gradient is that of the sum. Shoeybi et al., section 3 and code 1.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorPrimitive};

use super::group::TensorParallelGroup;
use crate::backend::TpBackend;

/// A part of the model that is split over the ranks of a group, from *f* to *g*.
#[derive(Clone, Debug)]
pub struct Region {
    group: TensorParallelGroup,
    copy_name: Arc<str>,
    reduce_name: Arc<str>,
}

impl Region {
    /// The region `name`, whose collectives are called `name.f` and `name.g`.
    #[must_use]
    pub fn new(group: &TensorParallelGroup, name: &str) -> Self {
        Self {
            group: group.clone(),
            copy_name: format!("{name}.f").into(),
            reduce_name: format!("{name}.g").into(),
        }
    }

    /// The group that shares the region.
    #[must_use]
    pub fn group(&self) -> &TensorParallelGroup {
        &self.group
    }

    /// What the all-reduce of *f* is called.
    #[must_use]
    pub fn copy_name(&self) -> &str {
        &self.copy_name
    }

    /// What the all-reduce of *g* is called.
    #[must_use]
    pub fn reduce_name(&self) -> &str {
        &self.reduce_name
    }
}

/// *f*: `input` as it is; its gradient is summed over the ranks.
///
/// # Panics
///
/// In the backward pass, when another rank of the group has failed.
pub fn copy_to_region<B: TpBackend, const D: usize>(
    input: Tensor<B, D>,
    region: &Region,
) -> Tensor<B, D> {
    let output = B::copy_to_region(input.into_primitive().tensor(), region);
    Tensor::from_primitive(TensorPrimitive::Float(output))
}

/// *g*: the sum of `partial` over the ranks; its gradient passes as it is.
///
/// # Panics
///
/// When another rank of the group has failed.
pub fn reduce_from_region<B: TpBackend, const D: usize>(
    partial: Tensor<B, D>,
    region: &Region,
) -> Tensor<B, D> {
    let output = B::reduce_from_region(partial.into_primitive().tensor(), region);
    Tensor::from_primitive(TensorPrimitive::Float(output))
}
