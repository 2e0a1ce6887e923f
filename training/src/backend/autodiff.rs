//! Gradients of the fused operations, for every device that has the kernels.
//!
//! Each operation saves what its backward kernel needs, which is less than the elementary
//! operations it stands for would have saved. Collectives inside a backward pass come in the order
//! of the graph, which is the same on all ranks of a group.

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::ops::{FloatTensor, IntTensor};
use burn::tensor::{FloatDType, TensorMetadata};
use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind, unary};

use super::{
    Activation, AttentionSettings, HeadExtras, Precision, TpBackend, TpKernels, TrainingBackend,
    running_sums,
};
use crate::parallel::random::DropoutMask;
use crate::parallel::{Region, Targets, TensorParallelGroup, TokenScore, VocabularyRange};

/// A tensor by which [`Gradients`] find the gradient of `$node`. Nothing else of it counts, so that
/// any tensor of the backend will do.
macro_rules! handle {
    ($node:expr, $any:expr) => {{
        let mut handle = Autodiff::<B>::from_inner($any);
        handle.node = $node;
        handle
    }};
}

impl<B: TpKernels, C: CheckpointStrategy> TpBackend for Autodiff<B, C> {
    fn copy_to_region(input: FloatTensor<Self>, region: &Region) -> FloatTensor<Self> {
        match CopyToRegion.prepare::<C>([input.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(region.clone(), input.primitive),
            OpsKind::UnTracked(prep) => prep.finish(input.primitive),
        }
    }

    fn reduce_from_region(partial: FloatTensor<Self>, region: &Region) -> FloatTensor<Self> {
        let output = B::all_reduce(partial.primitive, region.reduce_name(), region.group());
        ReduceFromRegion.prepare::<C>([partial.node]).compute_bound().stateless(output)
    }

    fn fused_layer_norm(
        input: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let saved = (input.primitive.clone(), gain.primitive.clone(), epsilon);
        let output =
            B::layer_norm_forward(input.primitive, gain.primitive, bias.primitive, epsilon);
        let nodes = [input.node, gain.node, bias.node];
        match LayerNorm.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(saved, output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn convert(tensor: FloatTensor<Self>, precision: Precision) -> FloatTensor<Self> {
        let from = Precision::of(tensor.primitive.dtype());
        let output = <B as TpKernels>::convert(tensor.primitive, precision);
        match Convert.prepare::<C>([tensor.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(from, output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn fused_linear(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
    ) -> FloatTensor<Self> {
        let saved = (input.primitive.clone(), weight.primitive.clone());
        let bias_primitive = bias.as_ref().map(|bias| bias.primitive.clone());
        let output =
            B::linear_forward(input.primitive.clone(), weight.primitive.clone(), bias_primitive);
        match &bias {
            None => {
                let nodes = [input.node.clone(), weight.node.clone()];
                match Linear.prepare::<C>(nodes).compute_bound().stateful() {
                    OpsKind::Tracked(prep) => prep.finish(saved, output),
                    OpsKind::UnTracked(prep) => prep.finish(output),
                }
            }
            Some(bias) => {
                let nodes = [&input.node, &weight.node, &bias.node].map(Clone::clone);
                match Linear.prepare::<C>(nodes).compute_bound().stateful() {
                    OpsKind::Tracked(prep) => prep.finish(saved, output),
                    OpsKind::UnTracked(prep) => prep.finish(output),
                }
            }
        }
    }

    fn bias_add(input: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self> {
        let output = B::bias_add_forward(input.primitive, bias.primitive);
        BiasAdd.prepare::<C>([input.node, bias.node]).compute_bound().stateless(output)
    }

    fn bias_gelu(
        input: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self> {
        let saved = (input.primitive.clone(), bias.primitive.clone(), activation);
        let output = B::bias_gelu_forward(input.primitive, bias.primitive, activation);
        match BiasGelu.prepare::<C>([input.node, bias.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(saved, output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn bias_dropout_add(
        input: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        mask: Option<DropoutMask>,
    ) -> FloatTensor<Self> {
        let output =
            B::bias_dropout_add_forward(input.primitive, bias.primitive, residual.primitive, mask);
        let nodes = [input.node, bias.node, residual.node];
        match BiasDropoutAdd.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(mask, output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn dropout(input: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        let output = B::apply_dropout(input.primitive, mask);
        match Dropout.prepare::<C>([input.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(mask, output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn fused_attention(
        query_key_value: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> FloatTensor<Self> {
        let input = query_key_value.primitive;
        let [context, normalizers] = B::attention_forward(input.clone(), &settings);
        match Attention.prepare::<C>([query_key_value.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((input, settings, normalizers), context),
            OpsKind::UnTracked(prep) => prep.finish(context),
        }
    }

    fn masked_lookup(
        weight: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        vocabulary: &VocabularyRange,
    ) -> FloatTensor<Self> {
        let shape = weight.primitive.shape();
        let [rows, hidden] = [shape[0], shape[1]];
        let output = B::lookup_forward(weight.primitive, tokens.clone(), vocabulary);
        let saved = LookupState { tokens, vocabulary: *vocabulary, shape: [rows, hidden] };
        match MaskedLookup.prepare::<C>([weight.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(saved, output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn head_loss(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        targets: &Targets,
        vocabulary: &VocabularyRange,
        group: &TensorParallelGroup,
    ) -> FloatTensor<Self> {
        let extras = HeadExtras {
            hidden_gradient: hidden.is_tracked(),
            weight_gradient: weight.is_tracked(),
            bias_gradient: bias.as_ref().is_some_and(|bias| bias.is_tracked()),
            predictions: false,
        };
        let precisions = [&hidden, &weight].map(|input| Precision::of(input.primitive.dtype()));
        let (nodes, bias_node) =
            ([hidden.node, weight.node], bias.as_ref().map(|it| it.node.clone()));
        let bias = bias.map(|bias| bias.primitive);
        let (hidden, weight) = (hidden.primitive, weight.primitive);
        let head = B::head(hidden, weight, bias, targets, vocabulary, group, extras);
        let saved = HeadState {
            gradients: [head.hidden_gradient, head.weight_gradient, head.bias_gradient],
            precisions: [precisions[0], precisions[1], Precision::F32],
        };
        match bias_node {
            None => match HeadLoss.prepare::<C>(nodes).compute_bound().stateful() {
                OpsKind::Tracked(prep) => prep.finish(saved, head.loss),
                OpsKind::UnTracked(prep) => prep.finish(head.loss),
            },
            Some(bias) => {
                let [hidden, weight] = nodes;
                match HeadLoss.prepare::<C>([hidden, weight, bias]).compute_bound().stateful() {
                    OpsKind::Tracked(prep) => prep.finish(saved, head.loss),
                    OpsKind::UnTracked(prep) => prep.finish(head.loss),
                }
            }
        }
    }

    fn head_token_scores(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        targets: &[u32],
        vocabulary: &VocabularyRange,
        group: &TensorParallelGroup,
    ) -> Vec<TokenScore> {
        let (hidden, weight) = (hidden.primitive, weight.primitive);
        let bias = bias.map(|bias| bias.primitive);
        B::head_token_scores(hidden, weight, bias, targets, vocabulary, group)
    }
}

impl<B: TpKernels, C: CheckpointStrategy> TrainingBackend for Autodiff<B, C> {
    fn lend_sum(parameter: FloatTensor<Self>, sum: FloatTensor<Self>) {
        running_sums::lend(parameter.node.id.value, sum.primitive);
    }

    fn reclaim_sum(parameter: FloatTensor<Self>) -> Option<FloatTensor<Self>> {
        running_sums::take(parameter.node.id.value).map(Self::from_inner)
    }

    fn with_gradients<const N: usize>(
        outputs: [FloatTensor<Self>; N],
        gradients: [FloatTensor<Self>; N],
    ) -> FloatTensor<Self> {
        let gradients = gradients.map(|gradient| gradient.primitive);
        let device = gradients.first().map(|gradient| B::float_device(gradient));
        let device = device.expect("at least one output");
        let zero = B::float_zeros([1].into(), &device, FloatDType::F32);
        // By reference: a graph whose last tensor is dropped before the new node is registered can
        // be freed by another thread's backward pass, and its gradients are lost without a word.
        let nodes = outputs.each_ref().map(|output| output.node.clone());
        match WithGradients.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(gradients, zero),
            OpsKind::UnTracked(prep) => prep.finish(zero),
        }
    }
}

/// *f*.
#[derive(Debug)]
struct CopyToRegion;

impl<B: TpKernels> Backward<B, 1> for CopyToRegion {
    type State = Region;

    fn backward(self, ops: Ops<Region, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let region = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |gradient| {
            B::all_reduce(gradient, region.copy_name(), region.group())
        });
    }
}

/// *g*.
#[derive(Debug)]
struct ReduceFromRegion;

impl<B: TpKernels> Backward<B, 1> for ReduceFromRegion {
    type State = ();

    fn backward(self, ops: Ops<(), 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |gradient| gradient);
    }
}

#[derive(Debug)]
struct Convert;

impl<B: TpKernels> Backward<B, 1> for Convert {
    /// The precision of the input.
    type State = Precision;

    fn backward(self, ops: Ops<Precision, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let precision = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |gradient| {
            <B as TpKernels>::convert(gradient, precision)
        });
    }
}

#[derive(Debug)]
struct Linear;

/// Of (input, weight), or of (input, weight, bias).
impl<B: TpKernels, const N: usize> Backward<B, N> for Linear {
    /// Input and weight.
    type State = (FloatTensor<B>, FloatTensor<B>);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let (input, weight) = ops.state;
        let parent = |place: usize| ops.parents.get(place).and_then(Option::as_ref);
        if let Some(bias) = parent(2) {
            grads.register::<B>(bias.id, B::bias_gradient(gradient.clone()));
        }
        if let Some(parent) = parent(1) {
            let handle = handle!(parent.clone(), weight.clone());
            add_in_place::<B>(grads, &handle, |sum| {
                B::linear_weight_gradient(input, gradient.clone(), sum)
            });
        }
        if let Some(parent) = parent(0) {
            grads.register::<B>(parent.id, B::linear_input_gradient(weight, gradient));
        }
    }
}

#[derive(Debug)]
struct WithGradients;

impl<B: TpKernels, const N: usize> Backward<B, N> for WithGradients {
    /// The gradients of the outputs.
    type State = [FloatTensor<B>; N];

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward_with::<B, _, N>(ops, grads, |gradients, _| gradients);
    }
}

#[derive(Debug)]
struct BiasAdd;

impl<B: TpKernels> Backward<B, 2> for BiasAdd {
    type State = ();

    fn backward(self, ops: Ops<(), 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward_with::<B, _, 2>(ops, grads, |(), gradient| {
            let bias = B::bias_gradient(gradient.clone());
            [gradient, bias]
        });
    }
}

#[derive(Debug)]
struct LayerNorm;

impl<B: TpKernels> Backward<B, 3> for LayerNorm {
    /// Input, gain, epsilon.
    type State = (FloatTensor<B>, FloatTensor<B>, f64);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward_with::<B, _, 3>(ops, grads, |(input, gain, epsilon), gradient| {
            B::layer_norm_backward(input, gain, epsilon, gradient)
        });
    }
}

#[derive(Debug)]
struct BiasGelu;

impl<B: TpKernels> Backward<B, 2> for BiasGelu {
    /// Input, bias, form.
    type State = (FloatTensor<B>, FloatTensor<B>, Activation);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward_with::<B, _, 2>(ops, grads, |(input, bias, activation), gradient| {
            B::bias_gelu_backward(input, bias, activation, gradient)
        });
    }
}

#[derive(Debug)]
struct BiasDropoutAdd;

impl<B: TpKernels> Backward<B, 3> for BiasDropoutAdd {
    type State = Option<DropoutMask>;

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward_with::<B, _, 3>(ops, grads, |mask, residual| {
            let [input, bias] = B::bias_dropout_add_backward(residual.clone(), mask);
            [input, bias, residual]
        });
    }
}

#[derive(Debug)]
struct Dropout;

impl<B: TpKernels> Backward<B, 1> for Dropout {
    type State = DropoutMask;

    fn backward(self, ops: Ops<DropoutMask, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let mask = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |gradient| B::apply_dropout(gradient, mask));
    }
}

#[derive(Debug)]
struct Attention;

impl<B: TpKernels> Backward<B, 1> for Attention {
    /// Queries, keys and values; settings; normalizers.
    type State = (FloatTensor<B>, AttentionSettings, FloatTensor<B>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (query_key_value, settings, normalizers) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |gradient| {
            B::attention_backward(query_key_value, &settings, normalizers, gradient)
        });
    }
}

#[derive(Debug)]
struct MaskedLookup;

#[derive(Debug, Clone)]
struct LookupState<B: Backend> {
    tokens: IntTensor<B>,
    vocabulary: VocabularyRange,
    shape: [usize; 2],
}

impl<B: TpKernels> Backward<B, 1> for MaskedLookup {
    type State = LookupState<B>;

    /// Adds the rows' gradients to the one that the head has left for the tied weight, in place:
    /// as two whole gradients they would be added in a second buffer of the table's size.
    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let [Some(weight)] = ops.parents else { return };
        let LookupState { tokens, vocabulary, shape } = ops.state;
        let device = B::float_device(&gradient);
        let handle = handle!(weight.clone(), gradient.clone());
        add_in_place::<B>(grads, &handle, |sum| {
            let sum = sum
                .unwrap_or_else(|| B::float_zeros(shape.into(), &device, gradient.dtype().into()));
            B::lookup_backward(sum, tokens, &vocabulary, gradient)
        });
    }
}

#[derive(Debug)]
struct HeadLoss;

#[derive(Debug, Clone)]
struct HeadState<B: Backend> {
    /// The gradients of the loss for hidden states, weight and bias in `f32`, where they are needed.
    gradients: [Option<FloatTensor<B>>; 3],
    /// The precisions of the three.
    precisions: [Precision; 3],
}

/// Of (hidden states, weight), or of (hidden states, weight, bias).
impl<B: TpKernels, const N: usize> Backward<B, N> for HeadLoss {
    type State = HeadState<B>;

    /// Scales before it rounds: what a loss scale is for.
    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let factor = grads.consume::<B>(&ops.node);
        let HeadState { gradients, precisions } = ops.state;
        let inputs = ops.parents.into_iter().zip(gradients).zip(precisions);
        for ((parent, gradient), precision) in inputs {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                let gradient = B::scale(gradient, &factor);
                let gradient = <B as TpKernels>::convert(gradient, precision);
                register::<B>(grads, &handle!(parent, gradient.clone()), gradient);
            }
        }
    }
}

/// Registers the gradient that `add` makes of what the node of `handle` has so far, the sum that was
/// lent for it or another gradient: in its memory, where registering a second one would add both in
/// a third.
fn add_in_place<B: Backend>(
    grads: &mut Gradients,
    handle: &FloatTensor<Autodiff<B>>,
    add: impl FnOnce(Option<FloatTensor<B>>) -> FloatTensor<B>,
) {
    let id = handle.node.id;
    let sum = grads.remove::<B>(handle).or_else(|| running_sums::take(id.value));
    grads.register::<B>(id, add(sum));
}

/// Adds `gradient` to what the node of `handle` has so far.
fn register<B: TpKernels>(
    grads: &mut Gradients,
    handle: &FloatTensor<Autodiff<B>>,
    gradient: FloatTensor<B>,
) {
    add_in_place::<B>(grads, handle, |sum| match sum {
        Some(sum) => B::add(sum, gradient),
        None => gradient,
    });
}

/// Gives each tracked parent the gradient that `gradients` makes of (state, output's gradient).
fn backward_with<B: TpKernels, S, const N: usize>(
    ops: Ops<S, N>,
    grads: &mut Gradients,
    gradients: impl FnOnce(S, FloatTensor<B>) -> [FloatTensor<B>; N],
) {
    let gradient = grads.consume::<B>(&ops.node);
    for (parent, gradient) in ops.parents.into_iter().zip(gradients(ops.state, gradient)) {
        if let Some(parent) = parent {
            register::<B>(grads, &handle!(parent, gradient.clone()), gradient);
        }
    }
}
