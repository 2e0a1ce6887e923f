//! GPT-2 on burn with tensor parallelism, and the loop that trains it.
//!
//! How one step flows through the modules:
//!
//! 1. [`config`] is what a user wrote; [`plan`] checks it against the data and says what it means.
//! 2. [`data`] takes the step's samples from the data folder and puts them into micro-batches.
//! 3. [`architecture`] is which model it is; [`model`] reads as the model on one device would, and
//!    [`objective`] is what the loop asks of it. Its layers are those of [`parallel`], split over
//!    the ranks of a group: the paper's section 3. [`backend`] adds to burn the fused operations
//!    and the collectives that have gradients.
//! 4. [`state`] does the step: forward, backward, clip, update. [`pass`] is one micro-batch's way
//!    through the model and back, [`optim`] has the arithmetic.
//! 5. [`metrics`] writes the step down, and on request which samples it took, [`validation`] takes
//!    the loss on held-out documents, and [`checkpoint`] saves everything in a form that any number
//!    of ranks can load.
//!
//! The loop itself is [`train()`]. [`parameters`] is the one table that says what each parameter is
//! called, how it is shaped, split and started. [`fine_tuning`] is what differs where a pre-trained
//! model learns a task. [`inference`] computes losses under a trained
//! model, and [`generation`] has it write on.

pub mod architecture;
pub mod backend;
mod chance;
pub mod checkpoint;
mod collective_dump;
mod collective_trace;
pub mod config;
pub mod data;
mod diagnosis;
pub mod error;
pub mod faults;
pub mod fine_tuning;
pub mod generation;
pub mod inference;
mod json_lines;
pub mod losses;
pub mod metrics;
pub mod model;
pub mod objective;
pub mod optim;
pub mod parallel;
mod parameter_walk;
pub mod parameters;
pub mod pass;
mod patient_file;
pub mod plan;
mod rank_threads;
mod report;
mod run_folder;
mod running_score;
mod saves;
pub mod state;
mod summary;
mod tensorboard;
pub mod timers;
mod train;
pub mod validation;

pub use config::TrainConfig;
pub use error::TrainError;
pub use faults::{Fault, FaultKind, Faults};
pub use plan::{Resume, RunOptions, TrainPlan};
pub use report::{FINAL_STEPS, TrainReport};
pub use summary::{BytesPerRank, MessageTotal, ParametersByPart, PlanSummary};
pub use train::train;
