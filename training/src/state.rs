//! What changes from step to step on one rank, and how one optimizer step changes it.

use std::marker::PhantomData;

use burn::tensor::ElementConversion;
use burn::tensor::backend::AutodiffBackend;

use crate::TrainError;
use crate::data::Batch;
use crate::error::NonFinite;
use crate::objective::Objective;
use crate::optim::{AdamW, GradientBuffer, clip_coefficient, grad_norm};
use crate::parallel::Rank;
use crate::parallel::collective::sum_exactly;
use crate::parallel::random::DropoutKey;
use crate::parameter_walk::for_each_weight;
use crate::parameters::ParameterSpec;
use crate::timers::{Phase, StepTimers};

/// A model in training, as one rank holds it.
#[derive(Debug)]
pub struct TrainState<B, M> {
    /// This rank's part of the model.
    pub model: M,
    /// This rank's part of the optimizer.
    pub optimizer: AdamW,
    /// The model's parameter table.
    pub specs: Vec<ParameterSpec>,
    /// Optimizer steps done.
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
}

/// What one step measured, before it changed the weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepOutcome {
    /// Mean loss over the scored targets of the global batch, in nats.
    pub loss: f64,
    /// Global norm of the gradient before clipping.
    pub grad_norm: f64,
}

impl<B: AutodiffBackend, M: Objective<B>> TrainState<B, M> {
    /// The state after `step` steps that left `model` and `optimizer`.
    pub fn new(model: M, optimizer: AdamW, specs: Vec<ParameterSpec>, step: u64) -> Self {
        let sizes = optimizer.moments().map(|moments| moments.exp_avg.len());
        let gradients = GradientBuffer::new(&specs, sizes);
        Self { model, optimizer, specs, step, gradients, backend: PhantomData }
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

    /// One optimizer step on one global batch, of which `micro_batches` are this copy's share.
    ///
    /// Every rank calls it; those that share a copy of the model with the same batches.
    ///
    /// # Errors
    ///
    /// When a batch cannot be read, or loss or gradient are no numbers; the weights are those of
    /// the step before then.
    ///
    /// # Panics
    ///
    /// When another rank fails during a pass; [`launch`](crate::parallel::launch) makes an error of
    /// it.
    pub fn optimizer_step(
        mut self,
        mut micro_batches: impl Iterator<Item = Result<Batch, TrainError>>,
        settings: &StepSettings,
        rank: &Rank,
        timers: &mut StepTimers,
    ) -> Result<(Self, StepOutcome), TrainError> {
        let step = self.step + 1; // the first update is step 1
        self.gradients.begin();
        let mut loss = 0.0;
        while let Some(batch) = timers.run(Phase::Data, || micro_batches.next()) {
            let batch = batch?;
            let first_sample = batch.first_sample as u64;
            let dropout = DropoutKey { seed: settings.seed, step, first_sample };
            // Divided by the scored targets of the whole global batch, so that the sum is its mean.
            loss += forward_backward(&self.model, &batch, &dropout, &mut self.gradients, timers);
        }
        let running = timers.start(Phase::Optimizer);
        let [loss] = sum_exactly(rank.data_parallel.collective(), "loss", [loss])?;
        self.gradients.all_reduce(&rank.data_parallel)?;
        let grad_norm = grad_norm(self.gradients.parameters(), &self.specs, &rank.tensor_parallel)?;
        // The same bits on every rank, and so the same decision.
        if !(loss.is_finite() && grad_norm.is_finite()) {
            let found = NonFinite::Step { loss, grad_norm };
            return Err(TrainError::NonFinite { step, found });
        }
        let clip = clip_coefficient(grad_norm, settings.clip_grad);
        self.model = self.optimizer.step(settings.learning_rate, clip, self.model, &self.gradients);
        self.step = step;
        timers.stop(running);
        Ok((self, StepOutcome { loss, grad_norm }))
    }
}

/// The batch's share of the loss; its gradients go into `gradients`.
fn forward_backward<B: AutodiffBackend, M: Objective<B>>(
    model: &M,
    batch: &Batch,
    dropout: &DropoutKey,
    gradients: &mut GradientBuffer,
    timers: &mut StepTimers,
) -> f64 {
    let (loss, value) = timers.run(Phase::Forward, || {
        let loss = model.loss(batch, Some(dropout));
        let value = loss.clone().inner().into_scalar().elem::<f64>();
        (loss, value)
    });
    timers.run(Phase::Backward, || gradients.add(model, loss.backward()));
    value
}
