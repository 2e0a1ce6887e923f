//! Where a run that computes no numbers any more has lost them.
//!
//! Before such a run ends it does its last step's forward pass once more, layer by layer, and looks
//! for the first that returns a value which is no number; gradients and weights are searched too.
//! What is found goes into a file of the run folder, beside the samples of the step, so that the
//! step can be done again elsewhere.

use std::path::PathBuf;

use burn::tensor::backend::Backend;
use burn::tensor::{ElementConversion, Tensor};
use serde::Serialize;
use tracing::warn;

use crate::TrainError;
use crate::backend::TrainingBackend;
use crate::checkpoint::write_json;
use crate::data::Batch;
use crate::error::NonFinite;
use crate::objective::{Layer, Objective};
use crate::parallel::Rank;
use crate::parallel::collective::{CollectiveError, ReduceOp};
use crate::parallel::random::DropoutKey;
use crate::parameter_walk::for_each_weight;
use crate::plan::TrainPlan;
use crate::state::TrainState;

/// `non-finite-step-N.json`
#[derive(Debug, Serialize)]
struct Diagnosis<'a> {
    /// The step, counted from 1.
    step: u64,
    /// What ended the run.
    found: String,
    /// The scale of the loss after the step, where there is one.
    loss_scale: Option<f64>,
    /// The samples of the step's global batch, in order.
    sample_ids: Vec<u64>,
    /// The first part of the forward pass that returned a value which is no number: `embedding`,
    /// `layers.3`, `loss`.
    first_layer: Option<String>,
    /// The first parameter on the way of the backward pass, from the end of the model to its
    /// beginning, whose gradient has one.
    first_gradient: Option<&'a str>,
    /// The first parameter, in the order of the model, that has one itself.
    first_weight: Option<&'a str>,
}

/// The error that ends a run in which `found` was found in the state's last step. Writes where the
/// numbers were lost into the run folder; all ranks call it together.
pub(crate) fn end_of_run<B, M>(
    plan: &TrainPlan,
    state: &TrainState<B, M>,
    found: NonFinite,
    rank: &Rank,
) -> TrainError
where
    B: TrainingBackend,
    M: Objective<B>,
{
    let dump = write(plan, state, found, rank);
    // Why the run ends is what has to be told, also where it cannot be written down.
    let dump = dump.inspect_err(|error| warn!("cannot tell where the numbers were lost: {error}"));
    TrainError::NonFinite { step: state.step, found, dump: dump.ok() }
}

fn write<B, M>(
    plan: &TrainPlan,
    state: &TrainState<B, M>,
    found: NonFinite,
    rank: &Rank,
) -> Result<PathBuf, TrainError>
where
    B: TrainingBackend,
    M: Objective<B>,
{
    let step = state.step;
    let names: Vec<&str> = state.specs.iter().map(|spec| spec.path.as_str()).collect();
    // A backward pass comes from the end of the model, and hands on what it has lost.
    let from_end = state.gradients().parameters().rev().position(|values| !is_finite(values));
    let from_end = earliest(from_end, names.len(), "diagnosis.gradients", rank)?;
    let first_gradient = from_end.map(|place| names.len() - 1 - place);
    let first_weight = first_weight(state)?;
    let first_weight = earliest(first_weight, names.len(), "diagnosis.weights", rank)?;
    let diagnosis = Diagnosis {
        step,
        found: found.to_string(),
        loss_scale: state.loss_scaler.as_ref().map(|scaler| scaler.scale()),
        sample_ids: if step == 0 { Vec::new() } else { plan.sample_ids(step) },
        first_layer: first_layer(plan, state, rank)?,
        first_gradient: first_gradient.map(|index| names[index]),
        first_weight: first_weight.map(|index| names[index]),
    };
    let path = plan.options.out.join(format!("non-finite-step-{step}.json"));
    if rank.is_main() {
        write_json(&path, &diagnosis)?;
    }
    wait_for_main(rank);
    Ok(path)
}

/// Returns once the main rank is done: a rank that left before then would end its exchanges.
fn wait_for_main(rank: &Rank) {
    // Whoever leaves last may find the groups ended by those who left before: all is written then.
    let _ = rank.data_parallel.collective().barrier("diagnosis.written");
    let _ = rank.tensor_parallel.collective().barrier("diagnosis.written");
}

/// The first parameter of this rank that holds a value which is no number.
fn first_weight<B, M>(state: &TrainState<B, M>) -> Result<Option<usize>, TrainError>
where
    B: TrainingBackend,
    M: Objective<B>,
{
    let mut first: Option<usize> = None;
    for_each_weight(&state.model, &state.specs, |index, values| {
        if !is_finite(values) {
            first = Some(first.map_or(index, |first| first.min(index)));
        }
        Ok(())
    })?;
    Ok(first)
}

/// The first part of the forward pass that returns a value which is no number, in the first
/// micro-batch in which one does.
fn first_layer<B, M>(
    plan: &TrainPlan,
    state: &TrainState<B, M>,
    rank: &Rank,
) -> Result<Option<String>, TrainError>
where
    B: TrainingBackend,
    M: Objective<B>,
{
    let num_layers = state.model.layers().len();
    if state.step == 0 {
        return Ok(None); // weights that came without numbers
    }
    for batch in plan.micro_batches(state.step, &rank.data_parallel) {
        let batch = batch?;
        let first_sample = batch.first_sample as u64;
        let dropout = DropoutKey { seed: plan.seed, step: state.step, first_sample };
        let place = first_place(&state.model, &batch, &dropout);
        if let Some(place) = earliest(place, num_layers + 2, "diagnosis.layers", rank)? {
            return Ok(Some(match place {
                0 => "embedding".to_owned(),
                place if place <= num_layers => format!("layers.{}", place - 1),
                _ => "loss".to_owned(),
            }));
        }
    }
    Ok(None)
}

/// The first place of a forward pass that is not finite: 0 is the embedding, then come the layers,
/// then the loss. Every rank goes through all of them, for they exchange in each.
fn first_place<B, M>(model: &M, batch: &Batch, dropout: &DropoutKey) -> Option<usize>
where
    B: TrainingBackend,
    M: Objective<B>,
{
    let mut places = Vec::with_capacity(model.layers().len() + 2);
    let visible = M::visible_keys(batch);
    let mut hidden = model.embed(batch, Some(dropout)).inner();
    places.push(tensor_is_finite(&hidden));
    for layer in model.layers() {
        hidden = layer.without_graph(hidden, &visible, Some(dropout));
        places.push(tensor_is_finite(&hidden));
    }
    let losses = model.head_losses(Tensor::from_inner(hidden), batch, Some(dropout));
    let is_finite = |loss: Tensor<B, 1>| loss.inner().into_scalar().elem::<f64>().is_finite();
    places.push(losses.into_iter().all(is_finite));
    places.into_iter().position(|is_finite| !is_finite)
}

fn tensor_is_finite<B: Backend>(tensor: &Tensor<B, 3>) -> bool {
    tensor.to_data().iter::<f32>().all(f32::is_finite)
}

fn is_finite(values: &[f32]) -> bool {
    values.iter().all(|value| value.is_finite())
}

/// The smallest of the ranks' places below `count`.
fn earliest(
    place: Option<usize>,
    count: usize,
    name: &str,
    rank: &Rank,
) -> Result<Option<usize>, CollectiveError> {
    // Counted from the end, so that the largest is the first, and 0 is none.
    let mut from_end = [place.map_or(0.0, |place| (count - place) as f32)];
    for collective in [rank.tensor_parallel.collective(), rank.data_parallel.collective()] {
        collective.all_reduce(name.into(), (&mut from_end).into(), ReduceOp::Max)?;
    }
    let from_end = from_end[0] as usize;
    Ok((from_end > 0).then(|| count - from_end))
}
