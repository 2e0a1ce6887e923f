//! What changes from step to step on one rank, and how one optimizer step changes it.

use std::marker::PhantomData;

use crate::TrainError;
use crate::backend::{Recompute, TrainingBackend};
use crate::data::Batch;
use crate::losses::Losses;
use crate::objective::Objective;
use crate::optim::{AdamW, DynamicLossScaler, GradientBuffer, clip_coefficient, grad_norm};
use crate::parallel::Rank;
use crate::parallel::random::DropoutKey;
use crate::parameter_walk::for_each_weight;
use crate::parameters::ParameterSpec;
use crate::pass::{PassSettings, forward_backward};
use crate::timers::{Phase, StepTimers};

/// A model in training, as one rank holds it.
#[derive(Debug)]
pub struct TrainState<B, M> {
    /// This rank's part of the model.
    pub model: M,
    /// This rank's part of the optimizer.
    pub optimizer: AdamW,
    /// The loss scale, where the precision needs one; the same on every rank.
    pub loss_scaler: Option<DynamicLossScaler>,
    /// The model's parameter table.
    pub specs: Vec<ParameterSpec>,
    /// Steps done: global batches taken. Those that were skipped are no updates of the optimizer.
    pub step: u64,
    gradients: GradientBuffer,
    backend: PhantomData<fn() -> B>,
}

/// The numbers of one step that the plan decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepSettings {
    /// Learning rate of this update.
    pub learning_rate: f64,
    /// Largest global norm of the gradient.
    pub clip_grad: f64,
    /// Seed of the dropout masks.
    pub seed: u64,
    /// What a forward pass keeps for the backward pass.
    pub recompute: Recompute,
    /// What goes wrong on purpose on this rank.
    pub injected: Injected,
}

impl StepSettings {
    /// A step that keeps all for its backward pass, and in which nothing goes wrong on purpose.
    #[must_use]
    pub const fn new(learning_rate: f64, clip_grad: f64, seed: u64) -> Self {
        let injected = Injected { nan_loss: false, inf_gradient: false };
        Self { learning_rate, clip_grad, seed, recompute: Recompute::None, injected }
    }
}

/// What goes wrong on purpose in a step, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Injected {
    /// The loss is no number.
    pub nan_loss: bool,
    /// A number of the gradient is infinite.
    pub inf_gradient: bool,
}

/// What one step measured, before it changed the weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepOutcome {
    /// Mean loss over the scored targets of the global batch, in nats; where it has several parts,
    /// the sum of their means.
    pub loss: f64,
    /// The parts of the loss.
    pub losses: Losses,
    /// Global norm of the gradient before clipping, without the loss scale.
    pub grad_norm: f64,
    /// What the loss was multiplied by, where it was scaled.
    pub loss_scale: Option<f64>,
    /// Whether loss or gradient were no numbers: weights, moments and schedule are as before then.
    pub skipped: bool,
}

impl<B, M> TrainState<B, M>
where
    B: TrainingBackend,
    M: Objective<B>,
{
    /// The state after `step` steps that left `model` and `optimizer`, without a loss scale.
    pub fn new(model: M, optimizer: AdamW, specs: Vec<ParameterSpec>, step: u64) -> Self {
        let sizes = optimizer.moments().map(|moments| moments.exp_avg.len());
        let gradients = GradientBuffer::new(&specs, sizes);
        Self { model, optimizer, loss_scaler: None, specs, step, gradients, backend: PhantomData }
    }

    /// The same state with a loss scale.
    #[must_use]
    pub fn with_loss_scaler(self, loss_scaler: Option<DynamicLossScaler>) -> Self {
        Self { loss_scaler, ..self }
    }

    /// Updates of the optimizer so far: the steps that were not skipped.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.optimizer.updates()
    }

    /// The sums of the last step's gradients, times its loss scale.
    pub(crate) fn gradients(&self) -> &GradientBuffer {
        &self.gradients
    }

    /// A copy of this rank's weights by parameter, in the order of the parameter table.
    ///
    /// # Errors
    ///
    /// None on the CPU; a device may fail to hand out a tensor.
    pub fn weights(&self) -> Result<Vec<Vec<f32>>, TrainError> {
        let mut weights = vec![Vec::new(); self.specs.len()];
        for_each_weight(&self.model, &self.specs, |index, values| {
            weights[index] = values.to_vec();
            Ok(())
        })?;
        Ok(weights)
    }

    /// Whether every weight of this rank is a finite number.
    ///
    /// # Errors
    ///
    /// None on the CPU; a device may fail to hand out a tensor.
    pub fn has_finite_weights(&self) -> Result<bool, TrainError> {
        let mut are_finite = true;
        for_each_weight(&self.model, &self.specs, |_, values| {
            are_finite &= values.iter().all(|value| value.is_finite());
            Ok(())
        })?;
        Ok(are_finite)
    }

    /// One optimizer step on one global batch, of which `micro_batches` are this copy's share:
    /// [`accumulate`](Self::accumulate), then [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// When a batch cannot be read.
    ///
    /// # Panics
    ///
    /// As [`accumulate`](Self::accumulate).
    pub fn optimizer_step(
        mut self,
        micro_batches: impl Iterator<Item = Result<Batch, TrainError>>,
        settings: &StepSettings,
        rank: &Rank,
        timers: &mut StepTimers,
    ) -> Result<(Self, StepOutcome), TrainError> {
        let losses = self.accumulate(micro_batches, settings, timers, || Ok(false))?;
        self.update(losses.expect("nothing breaks it off"), settings, rank, timers)
    }

    /// Takes the gradients of the next step's `micro_batches`, this copy's share of a global batch,
    /// and returns this copy's share of the loss.
    ///
    /// Every rank calls it; those that share a copy of the model with the same batches. Before each
    /// micro-batch but the first, `breaks_off` is asked, which has to say the same on every rank:
    /// then there is no loss, and the state is as before the call.
    ///
    /// # Errors
    ///
    /// When a batch cannot be read, or whatever `breaks_off` answers.
    ///
    /// # Panics
    ///
    /// When another rank fails during a pass; [`launch`](crate::parallel::launch) makes an error of
    /// it.
    pub fn accumulate(
        &mut self,
        mut micro_batches: impl Iterator<Item = Result<Batch, TrainError>>,
        settings: &StepSettings,
        timers: &mut StepTimers,
        mut breaks_off: impl FnMut() -> Result<bool, TrainError>,
    ) -> Result<Option<Losses>, TrainError> {
        self.gradients.begin();
        let mut losses = Losses::zero(M::LOSSES);
        if settings.injected.nan_loss {
            losses.spoil();
        }
        let mut is_first = true;
        while let Some(batch) = timers.run(Phase::Data, || micro_batches.next()) {
            let is_later = !std::mem::take(&mut is_first);
            if is_later && timers.run(Phase::Data, &mut breaks_off)? {
                return Ok(None);
            }
            let batch = batch?;
            let first_sample = batch.first_sample as u64;
            let pass = PassSettings {
                dropout: DropoutKey { seed: settings.seed, step: self.step + 1, first_sample },
                loss_scale: self.loss_scaler.as_ref().map_or(1.0, DynamicLossScaler::scale),
                recompute: settings.recompute,
            };
            // Divided by the scored targets of the whole global batch, so that the sum is its mean.
            losses.add(&forward_backward(&self.model, &batch, &pass, &mut self.gradients, timers));
        }
        Ok(Some(losses))
    }

    /// Ends the step whose gradients were accumulated: sums loss and gradients over the copies of
    /// the model, clips, and updates the weights.
    ///
    /// Where loss or gradient are no numbers, all ranks find so and skip the update.
    ///
    /// # Errors
    ///
    /// When the ranks have come apart.
    pub fn update(
        mut self,
        losses: Losses,
        settings: &StepSettings,
        rank: &Rank,
        timers: &mut StepTimers,
    ) -> Result<(Self, StepOutcome), TrainError> {
        let running = timers.start(Phase::Optimizer);
        if settings.injected.inf_gradient {
            self.gradients.overflow();
        }
        let losses = losses.summed(rank.data_parallel.collective(), "loss")?;
        let loss = losses.total();
        self.gradients.all_reduce(&rank.data_parallel)?;
        let loss_scale = self.loss_scaler.as_ref().map(DynamicLossScaler::scale);
        let scale = loss_scale.unwrap_or(1.0);
        let norm = grad_norm(self.gradients.parameters(), &self.specs, &rank.tensor_parallel)?;
        let grad_norm = norm / scale;

        let has_numbers = loss.is_finite() && grad_norm.is_finite();
        let skipped = rank.any("skipped", !has_numbers)?;
        if let Some(scaler) = &mut self.loss_scaler {
            scaler.update(skipped);
        }
        if !skipped {
            let factor = clip_coefficient(grad_norm, settings.clip_grad) / scale;
            let lr = settings.learning_rate;
            self.model = self.optimizer.step(lr, factor, self.model, &self.gradients);
        }
        self.step += 1;
        timers.stop(running);
        Ok((self, StepOutcome { loss, losses, grad_norm, loss_scale, skipped }))
    }
}
