//! Between `f32` and the two types of half its size.
//!
//! The kernels compute in `f32`: a tensor of another type is widened before, and what comes of it
//! is rounded after, to nearest and half to even.

use burn::tensor::{DType, Element, FloatDType, Shape, TensorMetadata, bf16, f16};
use burn_flex::FlexTensor;
use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::buffers;

/// Numbers per task.
const CHUNK: usize = 1 << 15;

/// The tensor in the type `dtype`; without a copy where it has that type.
///
/// # Panics
///
/// When one of the types is none of `f32`, `bf16` and `f16`.
#[must_use]
pub fn convert(tensor: FlexTensor, dtype: FloatDType) -> FlexTensor {
    let (from, to) = (tensor.dtype(), DType::from(dtype));
    if from == to {
        return tensor;
    }
    let tensor = tensor.to_contiguous();
    let shape = tensor.shape();
    match (from, to) {
        (DType::F32, DType::BF16) => narrowed::<bf16>(numbers(tensor.as_slice()), shape),
        (DType::F32, DType::F16) => narrowed::<f16>(numbers(tensor.as_slice()), shape),
        (DType::BF16, DType::F32) => widened::<bf16>(numbers(tensor.as_slice()), shape),
        (DType::F16, DType::F32) => widened::<f16>(numbers(tensor.as_slice()), shape),
        (DType::BF16 | DType::F16, DType::BF16 | DType::F16) => {
            convert(convert(tensor, FloatDType::F32), dtype)
        }
        _ => panic!("no conversion from {from:?} to {to:?}"),
    }
}

/// The numbers of a contiguous tensor of its own type.
fn numbers<E>(slice: Option<&[E]>) -> &[E] {
    slice.expect("a contiguous tensor of its own type")
}

fn narrowed<H>(values: &[f32], shape: Shape) -> FlexTensor
where
    H: Element + Pod,
    [H]: HalfFloatSliceExt,
{
    // Two numbers in the place of one.
    let mut buffer = buffers::take(values.len().div_ceil(2));
    let narrow: &mut [H] = bytemuck::cast_slice_mut(&mut buffer);
    narrow[..values.len()]
        .par_chunks_mut(CHUNK)
        .zip(values.par_chunks(CHUNK))
        .for_each(|(narrow, values)| narrow.convert_from_f32_slice(values));
    buffer.into_tensor_of(H::dtype(), shape)
}

fn widened<H>(values: &[H], shape: Shape) -> FlexTensor
where
    H: Element,
    [H]: HalfFloatSliceExt,
{
    let mut wide = buffers::take(values.len());
    wide.par_chunks_mut(CHUNK)
        .zip(values.par_chunks(CHUNK))
        .for_each(|(wide, values)| values.convert_to_f32_slice(wide));
    wide.into_tensor(shape)
}
