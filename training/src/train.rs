//! The training loop.
//!
//! Every rank runs the same lines in step with the others; what only one of them does is said where
//! it stands. Everything random is a function of the plan and the step, so a loop that starts at
//! step 200 from a checkpoint goes on exactly as one that came there.

use std::sync::Arc;
use std::time::Instant;

use corpus::{Observer, Unit, machine};
use tracing::info;

use crate::TrainError;
use crate::architecture::Architecture;
use crate::backend::{CpuAutodiff, TrainingBackend};
use crate::chance::warn_of_guessing;
use crate::checkpoint::{
    self, CHECKPOINTS, Checkpoint, FineTuneSource, Retention, Saved, Snapshot, TrainingState,
};
use crate::collective_dump;
use crate::collective_trace::CollectiveTrace;
use crate::diagnosis;
use crate::error::NonFinite;
use crate::metrics::{MetricsLog, SampleLog};
use crate::model::{Bert, BertMultipleChoice, Gpt2};
use crate::objective::{Objective, Scored};
use crate::optim::{AdamW, DynamicLossScaler, Moments};
use crate::parallel::{
    ParallelDims, Rank, TensorParallelGroup, Watch, hang_message, launch_watched,
};
use crate::parameters::{KeyedInit, ParameterSource};
use crate::plan::TrainPlan;
use crate::report::{Measured, RunLog, TrainReport};
use crate::run_folder;
use crate::saves::Saves;
use crate::state::{StepOutcome, TrainState};
use crate::timers::{Phase, StepTimers};
use crate::validation::validation_loss;

/// Trains as planned, on one thread per rank, and leaves the run folder complete.
///
/// A run that was stopped or killed goes on where its newest complete checkpoint is. When the
/// observer asks to stop, all ranks leave before the next micro-batch, and the steps that are done
/// are saved; what was taken of a step or of a validation is dropped, and taken first when the run
/// goes on.
///
/// # Errors
///
/// When the machine cannot hold the model, the run folder is another run's or another process's, a
/// file cannot be written, a rank fails, or the loss, a validation's or a weight to be saved is no
/// number ([`TrainError::NonFinite`]).
pub fn train(plan: &TrainPlan, observer: &dyn Observer) -> Result<TrainReport, TrainError> {
    let started = Instant::now();
    plan.check_memory(machine::memory_bytes())?;
    let run = run_folder::prepare(plan, observer)?; // this process's alone until it is dropped
    let resumed = run.resumed.as_ref();
    observer.begin("training", Some(plan.train_steps), Unit::Steps);
    if let Some(checkpoint) = resumed.filter(|done| done.step() == plan.train_steps) {
        let losses = MetricsLog::losses(&plan.options.out, plan.train_steps)?;
        if !losses.lacks_validation(plan, plan.train_steps) {
            let log = RunLog::read_only(losses, started);
            let report = finished(plan, checkpoint, log, observer)?;
            warn_of_guessing(plan, &report);
            return Ok(report);
        }
    }
    plan.check_start(resumed.is_some())?;
    let seed = KeyedInit { seed: plan.seed };
    let pretrained =
        plan.init_from.as_deref().map(|weights| FineTuneSource::new(weights, plan.seed));
    if let (None, Some(pretrained), Architecture::BertChoice(_)) =
        (resumed, &pretrained, &plan.architecture)
    {
        pretrained.tell(&plan.architecture);
    }
    let source = source(resumed, pretrained.as_ref(), &seed);
    // A copy for all checkpoints to come: the data folder may be gone by then.
    let tokenizer = plan.tokenizer.kept_in(&plan.options.out)?.seen_from(&plan.options.out)?;
    let trace = CollectiveTrace::open(plan, resumed.map_or(0, Checkpoint::step))?;
    let watch = Watch {
        timeout: plan.timeout,
        on_failure: &|ranks, failure| collective_dump::write(&plan.options.out, ranks, failure),
        on_hang: &|failure, places| {
            observer.hangs(&format!("training failed: {}", hang_message(failure, places)));
        },
    };
    let reports = launch_watched(plan.parallel, &watch, |rank| {
        let run = RankRun {
            plan,
            saves: Saves::new(resumed, run.init_from.as_ref(), &tokenizer),
            log: RunLog::open(plan, resumed.map_or(0, Checkpoint::step), rank.is_main(), started)?,
            trace: trace.as_ref(),
            rank: &rank,
            observer,
        };
        let (group, device) = (&rank.tensor_parallel, Default::default());
        match &plan.architecture {
            Architecture::Gpt2(config) => {
                let model = Gpt2::<CpuAutodiff>::init(config, source, group, &device)?;
                let model = model.with_precision(plan.precision);
                train_rank(run, begin(plan, resumed, model, group)?)
            }
            Architecture::Bert(config) => {
                let model = Bert::<CpuAutodiff>::init(config, source, group, &device)?;
                let model = model.with_precision(plan.precision);
                train_rank(run, begin(plan, resumed, model, group)?)
            }
            Architecture::BertChoice(config) => {
                let model =
                    BertMultipleChoice::<CpuAutodiff>::init(config, source, group, &device)?;
                let model = model.with_precision(plan.precision);
                train_rank(run, begin(plan, resumed, model, group)?)
            }
        }
    });
    observer.finish();
    let report = reports.map_err(TrainError::without_rank)?.swap_remove(0);
    warn_of_guessing(plan, &report);
    Ok(report)
}

/// What one rank trains with, beside the state.
struct RankRun<'a> {
    plan: &'a TrainPlan,
    saves: Saves<'a>,
    log: RunLog,
    trace: Option<&'a CollectiveTrace>,
    rank: &'a Rank,
    observer: &'a dyn Observer,
}

/// The loop, as one rank runs it.
fn train_rank<B, M>(
    run: RankRun<'_>,
    mut state: TrainState<B, M>,
) -> Result<TrainReport, TrainError>
where
    B: TrainingBackend,
    M: Objective<B>,
    M::InnerModule: Scored<B::InnerBackend>,
{
    let RankRun { plan, mut saves, mut log, trace, rank, observer } = run;
    if rank.is_main() {
        observer.skip(state.step);
    }

    let mut timers = StepTimers::new(Arc::clone(&rank.calls));
    let stop = || rank.any("stop", observer.stop_requested());
    // Copies need not wait for each other between micro-batches.
    let copy_stops = || Ok(rank.tensor_parallel.any("stop", observer.stop_requested())?);
    let mut is_stopped = false;
    // The main rank has read the logs of all earlier steps, and the others wait for it.
    if rank.any_at_last("validation.missing", log.lacks_validation(plan, state.step))? {
        is_stopped = !validate(plan, &state, &mut log, rank, observer)?;
    }
    while !is_stopped && state.step < plan.train_steps && !stop()? {
        let started = Instant::now();
        let step = state.step + 1; // the first step is step 1
        let settings = plan.step_settings(step, state.updates() + 1, rank.index());
        let micro_batches = plan.micro_batches(step, &rank.data_parallel);
        let faults = &plan.options.faults;
        let micro_batches = faults.within(step, rank.index(), plan.timeout, micro_batches);
        rank.calls.begin_step(step);
        let loss = state.accumulate(micro_batches, &settings, &mut timers, copy_stops)?;
        let is_broken_off = plan.grad_accumulation_steps > 1 && rank.any("stop", loss.is_none())?;
        let Some(loss) = loss.filter(|_| !is_broken_off) else { break };
        let outcome;
        (state, outcome) = state.update(loss, &settings, rank, &mut timers)?;
        if let Some(trace) = trace {
            trace.push(step, rank.index(), rank.calls.take_totals())?;
        }
        let measured = Measured { elapsed: started.elapsed(), times: timers.take() };
        log.step(plan, &state, settings.learning_rate, outcome, measured)?;
        if let Some(found) = lost_numbers(&state, &outcome) {
            return Err(diagnosis::end_of_run(plan, &state, found, rank));
        }

        is_stopped = !validate(plan, &state, &mut log, rank, observer)?;
        if saves.are_due(plan, state.step, outcome.skipped, rank)? {
            let saved = timers.run(Phase::Save, || save(plan, &state, &mut log, &saves, rank))?;
            saves.note(state.step, saved);
        }
        if rank.is_main() {
            observer.advance(1);
        }
    }
    let newest = match saves.folder_of(state.step) {
        Some(folder) => folder,
        None => {
            let saved = save(plan, &state, &mut log, &saves, rank)?;
            saves.finish(state.step, saved, rank)?
        }
    };
    Ok(log.into_report(plan, (state.step, state.updates()), newest))
}

/// What in a step ends the run: loss or gradient without a number, and no loss scale that could be
/// lowered. Every rank finds the same.
fn lost_numbers<B, M>(state: &TrainState<B, M>, outcome: &StepOutcome) -> Option<NonFinite> {
    let StepOutcome { loss, grad_norm, skipped, .. } = *outcome;
    match &state.loss_scaler {
        None => skipped.then_some(NonFinite::Step { loss, grad_norm }),
        Some(scaler) => {
            let scale = scaler.scale();
            scaler.stuck().map(|skipped| NonFinite::Stuck { skipped, scale })
        }
    }
}

/// Takes the validation that is due after the state's step, if one is. Returns whether it came to
/// its end: one that is stopped leaves nothing.
fn validate<B, M>(
    plan: &TrainPlan,
    state: &TrainState<B, M>,
    log: &mut RunLog,
    rank: &Rank,
    observer: &dyn Observer,
) -> Result<bool, TrainError>
where
    B: TrainingBackend,
    M: Objective<B>,
    M::InnerModule: Scored<B::InnerBackend>,
{
    let step = state.step;
    let Some(validation) = plan.validation_due(step) else { return Ok(true) };
    let started = Instant::now();
    let stop_requested = || observer.stop_requested();
    let taken = validation_loss(&state.model.valid(), validation, rank, stop_requested)?;
    let Some(taken) = taken else { return Ok(false) };
    // The same bits on every rank, and so the same decision.
    if let Some(&(_, loss)) = taken.means.iter().find(|(_, loss)| !loss.is_finite()) {
        return Err(diagnosis::end_of_run(plan, state, NonFinite::Validation { loss }, rank));
    }
    log.validation(plan, step, &taken, started.elapsed())?;
    Ok(true)
}

/// The report of a run that has done all its steps before, on the ranks that did them.
fn finished(
    plan: &TrainPlan,
    checkpoint: &Checkpoint,
    log: RunLog,
    observer: &dyn Observer,
) -> Result<TrainReport, TrainError> {
    let step = checkpoint.step();
    info!("already at step {step} of {}", plan.train_steps);
    observer.skip(step);
    observer.finish();
    let updates = checkpoint.state()?.updates;
    let ParallelDims { tensor, data } = checkpoint.written_by()?;
    if plan.options.log_samples && !SampleLog::is_complete(plan, step)? {
        SampleLog::open(plan, step)?;
    }
    Ok(TrainReport {
        tensor_parallel_size: tensor,
        data_parallel_size: data,
        ..log.into_report(plan, (step, updates), checkpoint.folder().to_owned())
    })
}

/// Where the weights of a run come from: `resumed`, the weights that it begins with, or `seed`.
fn source<'a>(
    resumed: Option<&'a Checkpoint>,
    pretrained: Option<&'a FineTuneSource<'_>>,
    seed: &'a KeyedInit,
) -> &'a dyn ParameterSource {
    match (resumed, pretrained) {
        (Some(checkpoint), _) => checkpoint,
        (None, Some(weights)) => weights,
        (None, None) => seed,
    }
}

/// The state of `model` before its first step, or as `resumed` holds it.
fn begin<B: TrainingBackend, M: Objective<B>>(
    plan: &TrainPlan,
    resumed: Option<&Checkpoint>,
    model: M,
    group: &TensorParallelGroup,
) -> Result<TrainState<B, M>, TrainError> {
    let specs = plan.architecture.parameters();
    let (rank, size) = (group.rank(), group.size());
    let done = resumed.map(Checkpoint::state).transpose()?;
    let moments = match resumed {
        Some(checkpoint) => checkpoint.moments(rank, size)?,
        None => Moments::start(&specs, rank, size),
    };
    let updates = done.map_or(0, |done| done.updates);
    let optimizer = AdamW::new(plan.optimizer.clone(), &specs, moments, updates);
    let loss_scaler =
        plan.loss_scale.clone().map(|config| match done.and_then(|done| done.loss_scaler) {
            Some(state) => DynamicLossScaler::resumed(config, state),
            None => DynamicLossScaler::new(config),
        });
    let step = done.map_or(0, |done| done.step);
    Ok(TrainState::new(model, optimizer, specs, step).with_loss_scaler(loss_scaler))
}

/// Saves the state, unless the last update ruined it; what the log says of it is on the disk first.
fn save<B, M>(
    plan: &TrainPlan,
    state: &TrainState<B, M>,
    log: &mut RunLog,
    saves: &Saves<'_>,
    rank: &Rank,
) -> Result<Saved, TrainError>
where
    B: TrainingBackend,
    M: Objective<B>,
{
    if rank.any("weights", !state.has_finite_weights()?)? {
        return Err(diagnosis::end_of_run(plan, state, NonFinite::Weights, rank));
    }
    let snapshot = Snapshot {
        state: TrainingState {
            step: state.step,
            updates: state.updates(),
            samples_consumed: plan.samples_consumed(state.step),
            seed: plan.seed,
            loss_scaler: state.loss_scaler.as_ref().map(DynamicLossScaler::state),
        },
        architecture: &plan.architecture,
        tokenizer: saves.tokenizer,
        config: &plan.config,
        data: &plan.data,
        init_from: saves.init_from,
        specs: &state.specs,
        model: &state.model,
        optimizer: &state.optimizer,
    };
    let checkpoints = plan.options.out.join(CHECKPOINTS);
    let retention = Retention::of(&plan.checkpoint);
    checkpoint::save(&snapshot, &checkpoints, retention, rank, || log.sync())
}
