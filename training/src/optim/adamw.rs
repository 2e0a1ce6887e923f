//! AdamW: Adam with decoupled weight decay, in one pass over all parameters.
//!
//! With gradient `g` (already clipped), step `t` from 1 and learning rate `η`:
//!
//! ```text
//! m ← β₁ m + (1 - β₁) g          v ← β₂ v + (1 - β₂) g²
//! θ ← θ (1 - η λ) - η m / (1 - β₁ᵗ) / (√v / √(1 - β₂ᵗ) + ε)
//! ```
//!
//! `λ` is 0 for biases and layer norms; the parameter table says which. Powers of `β` are taken in
//! `f64`: `1 - 0.999¹` in `f32` is off by 1e-5. Update, decay, clipping factor and both moments
//! share one pass over memory, which is what an optimizer step costs: 28 bytes for each number, 15 ms
//! for 30 million on two cores that move 55 GB a second. This is the form of PyTorch's `AdamW` and of
//! apex's `FusedAdam`.
//!
//! The chunks of all parameters are shared out to the threads in one go, since most parameters are
//! small. Nothing is fused into one rounding, so that every processor finds the same bits.

use burn::module::{AutodiffModule, ModuleMapper, Param};
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::GradientBuffer;
use crate::backend::cpu::vector::{Vector, vectorized};
use crate::parameter_walk::ParameterIndex;
use crate::parameters::ParameterSpec;

/// `[optimizer]`: AdamW and the clipping of gradients.
///
/// The defaults are the paper's: a minimum of 1e-5, weight decay 0.01 and clipping at 1.0; `β` and
/// `ε` are those of the original implementation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdamWConfig {
    /// Peak of the learning rate. The paper: 1.5e-4 for GPT-2, 1e-4 for BERT.
    pub lr: f64,
    /// Floor of the learning rate's decay. The paper: 1e-5 for GPT-2, which is the default.
    #[serde(default = "paper::min_lr")]
    pub min_lr: f64,
    /// Decoupled weight decay, of weights and embeddings only.
    #[serde(default = "paper::weight_decay")]
    pub weight_decay: f64,
    /// Decay of the running mean of the gradient, per step.
    #[serde(default = "paper::beta1")]
    pub beta1: f64,
    /// Decay of the running mean of the squared gradient, per step.
    #[serde(default = "paper::beta2")]
    pub beta2: f64,
    /// Added to the square root of the second moment.
    #[serde(default = "paper::eps")]
    pub eps: f64,
    /// Largest global norm of the gradient; larger ones are scaled down to it.
    #[serde(default = "paper::clip_grad")]
    pub clip_grad: f64,
}

mod paper {
    pub(super) fn min_lr() -> f64 {
        1e-5
    }
    pub(super) fn weight_decay() -> f64 {
        0.01
    }
    pub(super) fn beta1() -> f64 {
        0.9
    }
    pub(super) fn beta2() -> f64 {
        0.999
    }
    pub(super) fn eps() -> f64 {
        1e-8
    }
    pub(super) fn clip_grad() -> f64 {
        1.0
    }
}

/// What AdamW remembers of one parameter: this rank's slice, flat.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// Running mean of the gradient, `m`.
    pub exp_avg: Vec<f32>,
    /// Running mean of the squared gradient, `v`.
    pub exp_avg_sq: Vec<f32>,
}

impl Moments {
    /// The moments of `len` numbers before the first step: zeros.
    pub fn zeros(len: usize) -> Self {
        Self { exp_avg: vec![0.0; len], exp_avg_sq: vec![0.0; len] }
    }

    /// The moments before the first step, of every parameter that rank `rank` of `size` holds.
    pub fn start(specs: &[ParameterSpec], rank: usize, size: usize) -> Vec<Self> {
        specs
            .iter()
            .map(|spec| Self::zeros(spec.local_shape(rank, size).iter().product()))
            .collect()
    }
}

/// The optimizer of one rank.
#[derive(Debug, Clone)]
pub struct AdamW {
    config: AdamWConfig,
    /// Updates done so far.
    step: u64,
    /// One entry per parameter, in the order of the parameter table.
    slots: Vec<Slot>,
    index: ParameterIndex,
}

#[derive(Debug, Clone)]
struct Slot {
    moments: Moments,
    decays: bool,
}

impl AdamW {
    /// The optimizer of a model with the parameters `specs`, after `step` updates that left
    /// `moments`.
    ///
    /// # Panics
    ///
    /// When `specs` and `moments` differ in length.
    pub fn new(
        config: AdamWConfig,
        specs: &[ParameterSpec],
        moments: Vec<Moments>,
        step: u64,
    ) -> Self {
        assert_eq!(specs.len(), moments.len(), "one pair of moments per parameter");
        let slots = specs
            .iter()
            .zip(moments)
            .map(|(spec, moments)| Slot { moments, decays: spec.weight_decay })
            .collect();
        Self { config, step, slots, index: ParameterIndex::new(specs) }
    }

    /// Updates done so far.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.step
    }

    /// Moments by parameter, in the order of the parameter table.
    pub fn moments(&self) -> impl Iterator<Item = &Moments> {
        self.slots.iter().map(|slot| &slot.moments)
    }

    /// Updates every parameter of `model` with `clip · gradients` at learning rate `lr`.
    ///
    /// Where nothing else holds a parameter's buffer it is updated in place.
    ///
    /// # Panics
    ///
    /// When the model and the parameter table disagree.
    pub fn step<B, M>(&mut self, lr: f64, clip: f64, model: M, gradients: &GradientBuffer) -> M
    where
        B: AutodiffBackend,
        M: AutodiffModule<B>,
    {
        self.step += 1;
        let update = Update::new(&self.config, lr, clip, self.step);
        let mut walk = WeightWalk {
            index: &self.index,
            path: Vec::new(),
            weights: self.slots.iter().map(|_| None).collect(),
        };
        let model = model.map(&mut walk);
        let taken = walk.weights.iter_mut().zip(gradients.parameters()).zip(&mut self.slots);
        update.apply_all(taken.map(|((weights, gradient), slot)| {
            let weights = weights.as_mut().expect("the model has all parameters of its table");
            Parameter {
                weights: weights.as_mut_slice().expect("parameters are f32"),
                gradient,
                moments: &mut slot.moments,
                decays: slot.decays,
            }
        }));
        model.map(&mut walk)
    }
}

/// The numbers of one step that are the same for every parameter.
#[derive(Debug, Clone, Copy)]
pub struct Update {
    clip: f32,
    one_minus_beta1: f32,
    beta2: f32,
    one_minus_beta2: f32,
    step_size: f32,
    second_moment_scale: f32,
    eps: f32,
    keep: f32,
}

impl Update {
    /// Update number `step`, counted from 1.
    pub fn new(config: &AdamWConfig, lr: f64, clip: f64, step: u64) -> Self {
        let bias_correction = |beta: f64| 1.0 - beta.powf(step as f64);
        Self {
            clip: clip as f32,
            one_minus_beta1: (1.0 - config.beta1) as f32,
            beta2: config.beta2 as f32,
            one_minus_beta2: (1.0 - config.beta2) as f32,
            step_size: (lr / bias_correction(config.beta1)) as f32,
            second_moment_scale: (1.0 / bias_correction(config.beta2).sqrt()) as f32,
            eps: config.eps as f32,
            keep: (1.0 - lr * config.weight_decay) as f32,
        }
    }

    /// Updates one parameter.
    ///
    /// # Panics
    ///
    /// When its slices differ in length.
    pub fn apply(&self, parameter: Parameter<'_>) {
        self.apply_all([parameter]);
    }

    /// Updates all `parameters`, on all threads.
    ///
    /// # Panics
    ///
    /// When the slices of one differ in length.
    pub fn apply_all<'a>(&self, parameters: impl IntoIterator<Item = Parameter<'a>>) {
        self.apply_all_on(Vector::best(), parameters);
    }

    /// [`apply_all`](Self::apply_all) on instructions that the caller chooses.
    ///
    /// # Panics
    ///
    /// As [`apply_all`](Self::apply_all).
    pub fn apply_all_on<'a>(
        &self,
        vector: Vector,
        parameters: impl IntoIterator<Item = Parameter<'a>>,
    ) {
        let chunks: Vec<Chunk<'_>> =
            parameters.into_iter().flat_map(|parameter| self.chunks_of(parameter)).collect();
        chunks.into_par_iter().for_each(|chunk| apply_to_chunk(vector, self, chunk));
    }

    fn chunks_of<'a>(&self, parameter: Parameter<'a>) -> impl Iterator<Item = Chunk<'a>> {
        /// Numbers per task: 64 KiB of each of the four arrays.
        const CHUNK: usize = 1 << 14;
        let Parameter { weights, gradient, moments, decays } = parameter;
        assert_eq!(weights.len(), gradient.len(), "one gradient per weight");
        assert_eq!(weights.len(), moments.exp_avg.len(), "one moment per weight");
        let keep = if decays { self.keep } else { 1.0 };
        weights
            .chunks_mut(CHUNK)
            .zip(gradient.chunks(CHUNK))
            .zip(moments.exp_avg.chunks_mut(CHUNK).zip(moments.exp_avg_sq.chunks_mut(CHUNK)))
            .map(move |((weights, gradient), (m, v))| Chunk { weights, gradient, m, v, keep })
    }
}

/// One parameter, to be updated: this rank's slice, flat.
#[derive(Debug)]
pub struct Parameter<'a> {
    /// Its numbers.
    pub weights: &'a mut [f32],
    /// Their gradient, before clipping.
    pub gradient: &'a [f32],
    /// Its moments.
    pub moments: &'a mut Moments,
    /// Whether weight decay applies.
    pub decays: bool,
}

/// What one task updates: a part of one parameter.
struct Chunk<'a> {
    weights: &'a mut [f32],
    gradient: &'a [f32],
    m: &'a mut [f32],
    v: &'a mut [f32],
    /// What weight decay leaves of a weight.
    keep: f32,
}

vectorized! {
    fn apply_to_chunk(update: &Update, chunk: Chunk<'_>) {
        let moments = chunk.m.iter_mut().zip(chunk.v);
        let weights = chunk.weights.iter_mut().zip(chunk.gradient);
        for ((weight, gradient), (m, v)) in weights.zip(moments) {
            let g = gradient * update.clip;
            *m += (g - *m) * update.one_minus_beta1;
            *v = *v * update.beta2 + g * g * update.one_minus_beta2;
            let denominator = v.sqrt() * update.second_moment_scale + update.eps;
            *weight = *weight * chunk.keep - update.step_size * (*m / denominator);
        }
    }
}

/// Takes the weights out of a model on its first walk and puts them back on its second.
struct WeightWalk<'a> {
    index: &'a ParameterIndex,
    path: Vec<String>,
    /// What was taken, in the order of the parameter table.
    weights: Vec<Option<TensorData>>,
}

impl<B: AutodiffBackend> ModuleMapper<B> for WeightWalk<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let place = &mut self.weights[self.index.of(&self.path)];
        let (id, tensor, mapper) = param.consume();
        let device = tensor.device();
        let tensor = match place.take() {
            None => {
                *place = Some(tensor.inner().into_data());
                Tensor::zeros([1; D], &device)
            }
            Some(weights) => Tensor::from_inner(Tensor::from_data(weights, &device)).require_grad(),
        };
        Param::from_mapped_value(id, tensor, mapper)
    }
}
