//! What a forward and a backward pass compute in, and whether a layer's activations are kept.

use burn::tensor::{DType, FloatDType};
use serde::{Deserialize, Serialize};

/// The numbers of activations and of their gradients.
///
/// Parameters, their gradients and the optimizer's moments are `f32` in every precision. A layer
/// rounds its weights to the precision of its input, and multiplies what was rounded; products and
/// sums of a row (softmax, layer norm, loss, biases' gradients) add up in `f32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 24 bits of precision. The default.
    #[default]
    F32,
    /// 8 bits of precision with the range of `f32`: needs no loss scale.
    Bf16,
    /// 11 bits of precision with a narrow range, 6e-8 to 65,504: needs a loss scale. The paper's
    /// choice.
    F16,
}

impl Precision {
    /// Bytes of one number.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// The precision that a tensor's numbers have; `f32` for whatever is none of the three.
    #[must_use]
    pub fn of(dtype: DType) -> Self {
        match dtype {
            DType::BF16 => Self::Bf16,
            DType::F16 => Self::F16,
            _ => Self::F32,
        }
    }

    /// The type of its numbers, as burn calls it.
    #[must_use]
    pub fn dtype(self) -> FloatDType {
        match self {
            Self::F32 => FloatDType::F32,
            Self::Bf16 => FloatDType::BF16,
            Self::F16 => FloatDType::F16,
        }
    }
}

/// What a forward pass keeps for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recompute {
    /// Everything that the backward pass needs. The default.
    #[default]
    None,
    /// The input of each layer; the rest is computed again, layer by layer, in the backward pass.
    /// The gradients are the same bits, for a third more work. The paper's choice.
    Layer,
}
