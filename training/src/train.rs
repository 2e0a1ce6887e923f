//! The training loop.
//!
//! Every rank runs the same lines in step with the others; what only one of them does is said where
//! it stands. Everything random is a function of the plan and the step, so a loop that starts at
//! step 200 from a checkpoint goes on exactly as one that came there.

use std::path::PathBuf;
use std::time::Instant;

use burn::tensor::backend::AutodiffBackend;
use corpus::{Observer, Unit, machine};
use tracing::info;

use crate::TrainError;
use crate::architecture::Architecture;
use crate::backend::CpuAutodiff;
use crate::checkpoint::{self, CHECKPOINTS, Checkpoint, Snapshot};
use crate::model::Gpt2;
use crate::objective::{Objective, Scored};
use crate::optim::{AdamW, Moments};
use crate::parallel::{ParallelDims, Rank, TensorParallelGroup, launch};
use crate::parameters::{KeyedInit, ParameterSource};
use crate::plan::TrainPlan;
use crate::report::{RunLog, TrainReport};
use crate::run_folder;
use crate::state::TrainState;
use crate::validation::validation_loss;

/// Trains as planned, on one thread per rank, and leaves the run folder complete.
///
/// A run that was stopped or killed goes on where its newest complete checkpoint is. When the
/// observer asks to stop, the loop ends after the step at hand with a checkpoint.
///
/// # Errors
///
/// When the machine cannot hold the model, the run folder is another run's or another process's, a
/// file cannot be written, a rank fails, or the loss is no number ([`TrainError::NonFinite`]).
pub fn train(plan: &TrainPlan, observer: &dyn Observer) -> Result<TrainReport, TrainError> {
    plan.check_memory(machine::memory_bytes())?;
    let run = run_folder::prepare(plan)?; // this process's alone until it is dropped
    let resumed = run.resumed.as_ref();
    observer.begin("training", Some(plan.train_steps), Unit::Steps);
    if let Some(checkpoint) = resumed.filter(|done| done.step() == plan.train_steps) {
        return finished(plan, checkpoint, observer);
    }
    let reports = launch(plan.parallel, |rank| {
        let Architecture::Gpt2(_) = &plan.architecture;
        let state = gpt2_state(plan, resumed, &rank.tensor_parallel)?;
        let newest = resumed.map(|checkpoint| checkpoint.folder().to_owned());
        train_rank(plan, state, newest, &rank, observer)
    });
    observer.finish();
    Ok(reports.map_err(TrainError::without_rank)?.swap_remove(0))
}

/// The loop, as one rank runs it. `newest` is the checkpoint that `state` comes from.
fn train_rank<B, M>(
    plan: &TrainPlan,
    mut state: TrainState<B, M>,
    mut newest: Option<PathBuf>,
    rank: &Rank,
    observer: &dyn Observer,
) -> Result<TrainReport, TrainError>
where
    B: AutodiffBackend,
    M: Objective<B>,
    M::InnerModule: Scored<B::InnerBackend>,
{
    let mut log = RunLog::open(plan, state.step, rank.is_main())?;
    if rank.is_main() {
        observer.skip(state.step);
    }

    while state.step < plan.train_steps && !rank.any("stop", observer.stop_requested())? {
        let started = Instant::now();
        let settings = plan.step_settings(state.step + 1); // the first update is step 1
        let micro_batches = plan.micro_batches(state.step + 1, &rank.data_parallel);
        let outcome;
        (state, outcome) = state.optimizer_step(micro_batches, &settings, rank)?;
        newest = None;
        log.step(plan, state.step, settings.learning_rate, outcome, started.elapsed())?;

        if let Some(validation) = plan.validation_due(state.step) {
            let started = Instant::now();
            let loss = validation_loss(&state.model.valid(), validation, &rank.data_parallel)?;
            log.validation(plan, state.step, loss, started.elapsed())?;
        }
        if plan.checkpoint_due(state.step) {
            newest = Some(save(plan, &state, rank)?);
        }
        if rank.is_main() {
            observer.advance(1);
        }
    }
    let newest = match newest {
        Some(folder) => folder,
        None => save(plan, &state, rank)?,
    };
    Ok(log.into_report(plan, state.step, newest))
}

/// The report of a run that has done all its steps before, on the ranks that did them.
fn finished(
    plan: &TrainPlan,
    checkpoint: &Checkpoint,
    observer: &dyn Observer,
) -> Result<TrainReport, TrainError> {
    let step = checkpoint.step();
    info!("already at step {step} of {}", plan.train_steps);
    observer.skip(step);
    observer.finish();
    let ParallelDims { tensor, data } = checkpoint.written_by()?;
    let log = RunLog::open(plan, step, true)?;
    Ok(TrainReport {
        tensor_parallel_size: tensor,
        data_parallel_size: data,
        ..log.into_report(plan, step, checkpoint.folder().to_owned())
    })
}

/// A GPT-2 before its first step, or as `resumed` holds it.
fn gpt2_state(
    plan: &TrainPlan,
    resumed: Option<&Checkpoint>,
    group: &TensorParallelGroup,
) -> Result<TrainState<CpuAutodiff, Gpt2<CpuAutodiff>>, TrainError> {
    let Architecture::Gpt2(config) = &plan.architecture;
    let seed = KeyedInit { seed: plan.seed };
    let source: &dyn ParameterSource = match resumed {
        Some(checkpoint) => checkpoint,
        None => &seed,
    };
    let model = Gpt2::init(config, source, group, &Default::default())?;
    let specs = config.parameters();
    let (rank, size) = (group.rank(), group.size());
    let (moments, step) = match resumed {
        Some(checkpoint) => (checkpoint.moments(rank, size)?, checkpoint.step()),
        None => (Moments::start(&specs, rank, size), 0),
    };
    let optimizer = AdamW::new(plan.optimizer.clone(), &specs, moments, step);
    Ok(TrainState::new(model, optimizer, specs, step))
}

fn save<B: AutodiffBackend, M: Objective<B>>(
    plan: &TrainPlan,
    state: &TrainState<B, M>,
    rank: &Rank,
) -> Result<PathBuf, TrainError> {
    let snapshot = Snapshot {
        state: plan.training_state(state.step),
        architecture: &plan.architecture,
        tokenizer: &plan.tokenizer,
        config: &plan.config,
        specs: &state.specs,
        model: &state.model,
        optimizer: &state.optimizer,
    };
    let keep = plan.checkpoint.keep.map(std::num::NonZero::get);
    checkpoint::save(&snapshot, &plan.paths.out.join(CHECKPOINTS), keep, rank)
}
