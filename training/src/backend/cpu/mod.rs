//! The kernels of the CPU: one a file, or a folder where it has parts of its own (`gemm/`,
//! `attention/`), shared out to threads by rows. They are plain loops over slices, which the
//! compiler makes vector code of; intrinsics are in `gemm/` only.
//!
//! They compute in `f32`. What comes in `bf16` or `f16` is widened first, and what leaves is rounded
//! to the type that came in: here, so that no kernel knows of it. Results lie in [`buffers`], whose
//! memory is used again.

pub mod add;
pub mod attention;
pub mod bias_add;
pub mod bias_gelu;
pub mod buffers;
pub mod cached_attention;
pub mod column_sums;
pub mod convert;
pub mod dropout;
pub mod gemm;
pub mod head;
pub mod layer_norm;
pub mod linear;
pub mod lookup;
pub mod matrix;
pub mod row_product;
pub mod scale;
pub mod softmax;
pub mod vector;

use burn::tensor::TensorMetadata;
use burn::tensor::ops::{FloatTensor, IntTensor};
use burn::tensor::{FloatDType, Shape, TensorData};
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

use self::attention::Attention;
use self::buffers::Buffer;
use self::cached_attention::KeyValues;
use self::column_sums::column_sums;
use self::convert::convert;
use self::matrix::Write;
use self::vector::{CHUNK, Vector};
use super::{
    Activation, AttentionSettings, HeadExtras, HeadOutput, IncrementalKernels, KeyValueShape,
    Precision, TpKernels,
};
use crate::parallel::collective::{Message, ReduceOp};
use crate::parallel::random::DropoutMask;
use crate::parallel::{Targets, TensorParallelGroup, VocabularyRange};

impl TpKernels for Flex {
    fn all_reduce(
        partial: FloatTensor<Self>,
        name: &str,
        group: &TensorParallelGroup,
    ) -> FloatTensor<Self> {
        if group.size() == 1 {
            return partial;
        }
        let (shape, precision) = (partial.shape(), Precision::of(partial.dtype()));
        // As a vector of its own, which the ranks show each other without a copy; added up in f32.
        let mut values = copy_of(&Values::of(&partial)).into_vec();
        let message = Message { name, number_bytes: precision.bytes() };
        group.all_reduce(message, &mut values, ReduceOp::Sum);
        convert(Buffer::of_vec(values).into_tensor(shape), precision.dtype())
    }

    fn layer_norm_forward(
        input: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let precision = Precision::of(input.dtype());
        let (input, gain, bias) = (Values::of(&input), Values::of(&gain), Values::of(&bias));
        let mut output = buffers::take(input.len());
        layer_norm::forward(Vector::best(), &input, &gain, &bias, epsilon as f32, &mut output);
        convert(output.into_tensor(input.shape()), precision.dtype())
    }

    fn layer_norm_backward(
        input: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        epsilon: f64,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 3] {
        let (input, gain) = (Values::of(&input), Values::of(&gain));
        let mut sums = [Buffer::default(), Buffer::default()];
        let gradient = in_place(gradient, |gradient| {
            sums = layer_norm::backward(Vector::best(), &input, &gain, epsilon as f32, gradient);
        });
        let [gain_sums, bias_sums] = sums.map(|sums| sums.into_tensor(gain.shape()));
        [gradient, gain_sums, bias_sums]
    }

    fn convert(tensor: FloatTensor<Self>, precision: Precision) -> FloatTensor<Self> {
        convert(tensor, precision.dtype())
    }

    fn linear_forward(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
    ) -> FloatTensor<Self> {
        let precision = Precision::of(input.dtype());
        let weight = Values::of(&convert(weight, precision.dtype()));
        let (input, bias) = (Values::of(&input), bias.map(|bias| Values::of(&bias)));
        let (n, mut shape) = (weight.shape()[1], input.shape());
        *last_of(&mut shape) = n;
        let mut output = buffers::take(shape.num_elements());
        linear::forward(&input, &weight, n, bias.as_deref(), &mut output);
        convert(output.into_tensor(shape), precision.dtype())
    }

    fn linear_input_gradient(
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let precision = Precision::of(gradient.dtype());
        let weight = Values::of(&convert(weight, precision.dtype()));
        let gradient = Values::of(&gradient);
        let ([k, n], mut shape) = ([0, 1].map(|dim| weight.shape()[dim]), gradient.shape());
        *last_of(&mut shape) = k;
        let mut output = buffers::take(shape.num_elements());
        linear::input_gradient(&gradient, &weight, n, &mut output);
        convert(output.into_tensor(shape), precision.dtype())
    }

    fn linear_weight_gradient(
        input: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        sum: Option<FloatTensor<Self>>,
    ) -> FloatTensor<Self> {
        let (input, gradient) = (Values::of(&input), Values::of(&gradient));
        let [k, n] = [input.width(), gradient.width()];
        if let Some(sum) = sum {
            return in_place(sum, |sum| {
                linear::weight_gradient(&input, &gradient, n, sum, Write::Add);
            });
        }
        let mut output = buffers::take(k * n);
        linear::weight_gradient(&input, &gradient, n, &mut output, Write::Replace);
        output.into_tensor(Shape::from([k, n]))
    }

    fn bias_add_forward(input: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self> {
        let bias = Values::of(&bias);
        in_place(input, |values| bias_add::forward(Vector::best(), values, &bias))
    }

    fn bias_gradient(gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        let gradient = Values::of(&gradient);
        let width = gradient.width();
        column_sums(Vector::best(), &gradient, width).into_tensor(Shape::from([width]))
    }

    fn bias_gelu_forward(
        input: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self> {
        let precision = Precision::of(input.dtype());
        let (input, bias) = (Values::of(&input), Values::of(&bias));
        let mut output = buffers::take(input.len());
        bias_gelu::forward(Vector::best(), &input, &bias, activation, &mut output);
        convert(output.into_tensor(input.shape()), precision.dtype())
    }

    fn bias_gelu_backward(
        input: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2] {
        let (input, bias) = (Values::of(&input), Values::of(&bias));
        let mut sums = Buffer::default();
        let gradient = in_place(gradient, |gradient| {
            sums = bias_gelu::backward(Vector::best(), &input, &bias, activation, gradient);
        });
        [gradient, sums.into_tensor(bias.shape())]
    }

    fn bias_dropout_add_forward(
        input: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        mask: Option<DropoutMask>,
    ) -> FloatTensor<Self> {
        let seq = input.shape()[1];
        let (bias, residual) = (Values::of(&bias), Values::of(&residual));
        in_place(input, |values| {
            let vector = Vector::best();
            dropout::bias_dropout_add(vector, values, &bias, &residual, seq, mask.as_ref());
        })
    }

    fn bias_dropout_add_backward(
        gradient: FloatTensor<Self>,
        mask: Option<DropoutMask>,
    ) -> [FloatTensor<Self>; 2] {
        let shape = gradient.shape();
        let [seq, width] = [shape[1], shape[2]];
        let mut sums = Buffer::default();
        let gradient = in_place(gradient, |gradient| {
            let vector = Vector::best();
            let mask = mask.as_ref();
            sums = dropout::bias_dropout_add_backward(vector, gradient, width, seq, mask);
        });
        [gradient, sums.into_tensor(Shape::from([width]))]
    }

    fn apply_dropout(tensor: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        let shape = tensor.shape();
        let sample_len = shape[1] * shape[2];
        in_place(tensor, |values| dropout::apply(Vector::best(), values, sample_len, &mask))
    }

    fn attention_forward(
        query_key_value: FloatTensor<Self>,
        settings: &AttentionSettings,
    ) -> [FloatTensor<Self>; 2] {
        let precision = Precision::of(query_key_value.dtype());
        let query_key_value = Values::of(&query_key_value);
        let [batch, seq] = [0, 1].map(|dim| query_key_value.shape()[dim]);
        let attention = attention_of(&query_key_value, settings);
        let (width, heads) = (attention.width(), settings.heads);
        let mut context = buffers::take(batch * seq * width);
        let mut normalizers = buffers::take(batch * seq * heads * 2);
        let (pairs, _) = normalizers.as_chunks_mut();
        attention::forward(Vector::best(), attention, &mut context, pairs);
        let context = context.into_tensor(Shape::from([batch, seq, width]));
        let normalizers = normalizers.into_tensor(Shape::from([batch, seq, heads, 2]));
        [convert(context, precision.dtype()), normalizers]
    }

    fn attention_backward(
        query_key_value: FloatTensor<Self>,
        settings: &AttentionSettings,
        normalizers: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let precision = Precision::of(query_key_value.dtype());
        let query_key_value = Values::of(&query_key_value);
        let [normalizers, gradient] = [&normalizers, &gradient].map(Values::of);
        let attention = attention_of(&query_key_value, settings);
        let mut output = buffers::take(query_key_value.len());
        let (pairs, _) = normalizers.as_chunks();
        attention::backward(Vector::best(), attention, pairs, &gradient, &mut output);
        convert(output.into_tensor(query_key_value.shape()), precision.dtype())
    }

    fn lookup_forward(
        weight: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        vocabulary: &VocabularyRange,
    ) -> FloatTensor<Self> {
        let [batch, seq] = [tokens.shape()[0], tokens.shape()[1]];
        let width = weight.shape()[1];
        let mut output = buffers::take(batch * seq * width);
        let (table, tokens) = (Values::of(&weight), token_ids(tokens));
        lookup::forward(&table, &tokens, vocabulary, width, &mut output);
        output.into_tensor(Shape::from([batch, seq, width]))
    }

    fn lookup_backward(
        weight_gradient: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        vocabulary: &VocabularyRange,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let width = weight_gradient.shape()[1];
        let (gradient, tokens) = (Values::of(&gradient), token_ids(tokens));
        in_place(weight_gradient, |sums| {
            lookup::backward(&gradient, &tokens, vocabulary, width, sums);
        })
    }

    fn head(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        targets: &Targets,
        vocabulary: &VocabularyRange,
        group: &TensorParallelGroup,
        extras: HeadExtras,
    ) -> HeadOutput<Self> {
        let width = weight.shape()[1];
        // Multiplied is the table as it reads in the precision of the hidden states.
        let table = Values::of(&convert(weight, Precision::of(hidden.dtype()).dtype()));
        let (hidden, bias) = (Values::of(&hidden), bias.map(|bias| Values::of(&bias)));
        let bias = bias.as_deref();
        let head = head::Head { hidden: &hidden, table: &table, bias, width, targets, vocabulary };
        let result = head::head(Vector::best(), head, group, extras);
        // Many small numbers: added in f64, so that the order of micro-batches hardly shows.
        let weighted = result.row_losses.iter().zip(targets.weights.iter());
        let loss: f64 = weighted.map(|(loss, weight)| f64::from(loss * weight)).sum();
        HeadOutput {
            loss: tensor(vec![loss as f32], Shape::from([1])),
            row_losses: result.row_losses,
            predictions: result.predictions,
            hidden_gradient: result
                .hidden_gradient
                .map(|values| values.into_tensor(hidden.shape())),
            weight_gradient: result.table_gradient.map(|values| values.into_tensor(table.shape())),
            bias_gradient: result
                .bias_gradient
                .map(|values| values.into_tensor(Shape::from([vocabulary.rows]))),
        }
    }

    fn add(sum: FloatTensor<Self>, addend: FloatTensor<Self>) -> FloatTensor<Self> {
        let addend = Values::of(&addend);
        in_place(sum, |sum| add::add(Vector::best(), sum, &addend))
    }

    fn scale(tensor: FloatTensor<Self>, factor: &FloatTensor<Self>) -> FloatTensor<Self> {
        let factor = Values::of(factor)[0];
        if factor == 1.0 {
            return tensor;
        }
        in_place(tensor, |values| scale::scale(Vector::best(), values, factor))
    }
}

impl IncrementalKernels for Flex {
    type KeyValues = KeyValues;

    fn key_values(shape: KeyValueShape, _device: &Self::Device) -> KeyValues {
        KeyValues::new(shape)
    }

    fn select_rows(key_values: &mut KeyValues, rows: &[usize]) {
        key_values.select_rows(rows);
    }

    fn row_product(input: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        let (input, weight) = (Values::of(&input), Values::of(&weight));
        let ([rows, seq, k], n) = ([0, 1, 2].map(|dim| input.shape()[dim]), weight.shape()[1]);
        let product = row_product::multiply(Vector::best(), &input, &weight, k, n);
        tensor(product, Shape::from([rows, seq, n]))
    }

    fn cached_attention(
        query_key_value: FloatTensor<Self>,
        key_values: &mut KeyValues,
        scale: f64,
    ) -> FloatTensor<Self> {
        let query_key_value = Values::of(&query_key_value);
        let [rows, seq, width] = [0, 1, 2].map(|dim| query_key_value.shape()[dim]);
        let context = key_values.attend(Vector::best(), &query_key_value, scale as f32);
        tensor(context, Shape::from([rows, seq, width / 3]))
    }

    fn logits(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        vocabulary: &VocabularyRange,
    ) -> Vec<f32> {
        let (hidden, table) = (Values::of(&hidden), Values::of(&weight));
        let (rows, width) = (hidden.shape()[0], table.shape()[1]);
        let mut logits = vec![f32::NEG_INFINITY; rows * vocabulary.rows];
        if vocabulary.tokens > 0 {
            let table = &table[..vocabulary.tokens * width];
            let scored = row_product::multiply_transposed(
                Vector::best(),
                &hidden,
                table,
                width,
                vocabulary.tokens,
            );
            let rows = scored.chunks_exact(vocabulary.tokens);
            for (logits, scored) in logits.chunks_exact_mut(vocabulary.rows).zip(rows) {
                logits[..vocabulary.tokens].copy_from_slice(scored);
            }
        }
        logits
    }
}

/// The numbers of a tensor, by rows.
struct Values(FlexTensor);

impl Values {
    /// Without a copy unless the tensor is a strided view or no `f32`.
    fn of(tensor: &FlexTensor) -> Self {
        Self(convert(tensor.to_contiguous(), FloatDType::F32))
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }

    /// The size of the last dimension.
    fn width(&self) -> usize {
        *last_of(&mut self.shape())
    }
}

impl std::ops::Deref for Values {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        self.0.as_slice().expect("a contiguous tensor of f32")
    }
}

fn last_of(shape: &mut Shape) -> &mut usize {
    shape.last_mut().expect("a tensor of at least one dimension")
}

/// Changes the numbers of a tensor; copies them first if they are shared, strided or no `f32`.
fn in_place(tensor: FlexTensor, change: impl FnOnce(&mut [f32])) -> FlexTensor {
    let (precision, numbers) = (Precision::of(tensor.dtype()), tensor.shape().num_elements());
    let mut tensor = if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() };
    tensor = convert(tensor, FloatDType::F32);
    match tensor.try_storage_mut() {
        Some(values) if values.len() == numbers => change(values),
        _ => {
            let mut values = copy_of(&Values::of(&tensor));
            change(&mut values);
            tensor = values.into_tensor(tensor.shape());
        }
    }
    convert(tensor, precision.dtype())
}

/// A buffer with the same numbers.
fn copy_of(values: &[f32]) -> Buffer {
    let mut copy = buffers::take(values.len());
    let chunks = copy.par_chunks_mut(CHUNK).zip(values.par_chunks(CHUNK));
    chunks.for_each(|(copy, values)| copy.copy_from_slice(values));
    copy
}

/// A tensor of numbers that are no buffer's.
fn tensor(values: Vec<f32>, shape: Shape) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

fn token_ids(tokens: IntTensor<Flex>) -> Vec<usize> {
    tokens.into_data().iter::<i64>().map(|token| token as usize).collect()
}

fn attention_of<'a>(query_key_value: &'a Values, settings: &'a AttentionSettings) -> Attention<'a> {
    let shape = query_key_value.shape();
    Attention::new(query_key_value, [shape[0], shape[1], shape[2]], settings)
}
