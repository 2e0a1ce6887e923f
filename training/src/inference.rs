//! Losses and predictions of text under a trained model, without gradients.
//!
//! A [`Scorer`] keeps one thread per tensor-parallel rank alive, each with its part of the model,
//! and hands every batch to all of them; so a batch costs no start of threads and no second copy of
//! the weights. A rank that fails ends its peers through the group, and the call that waits for the
//! batch returns the first cause.
//!
//! Only the positions that a caller scores go through the head, which is most of the work where
//! windows overlap.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::backend::Cpu;
use crate::error::TrainError;
use crate::model::{Gpt2, Gpt2Config};
use crate::parallel::{ParallelDims, Rank, TokenScore, launch};
use crate::parameters::ParameterSource;

/// Consecutive tokens of a text, of which some are scored as predictions from those before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window<'a> {
    /// The inputs and, one place later, their targets: position `i` predicts `tokens[i + 1]`.
    pub tokens: &'a [u32],
    /// The positions that are scored, within `0..tokens.len() - 1`.
    pub scored: Range<usize>,
}

/// Scores windows with a model that is split over rank threads.
///
/// Dropping it ends the threads.
#[derive(Debug)]
pub struct Scorer {
    seq_length: usize,
    vocab_size: usize,
    ranks: RankThreads,
}

impl Scorer {
    /// Builds the model from `source` on `tensor_parallel_size` rank threads.
    ///
    /// # Errors
    ///
    /// When the sizes do not split over the ranks, which is found before anything is allocated, or
    /// `source` lacks a parameter.
    pub fn new<S>(
        config: &Gpt2Config,
        source: S,
        tensor_parallel_size: NonZeroUsize,
    ) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        config.check_tensor_parallel(tensor_parallel_size.get())?;
        Ok(Self {
            seq_length: config.seq_length,
            vocab_size: config.vocab_size,
            ranks: RankThreads::start(config.clone(), source, tensor_parallel_size)?,
        })
    }

    /// Tokens that the model sees at most.
    #[must_use]
    pub fn seq_length(&self) -> usize {
        self.seq_length
    }

    /// Tokens of the model's vocabulary, without padding.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Loss and prediction at the scored positions: one list per window, in the order of the
    /// positions.
    ///
    /// The windows make one batch; the result does not depend, beyond rounding, on what else is in
    /// it.
    ///
    /// # Errors
    ///
    /// When a rank fails. The scorer is of no use then.
    ///
    /// # Panics
    ///
    /// After an error; or when a window has more inputs than `seq_length`, scores a position that
    /// it does not have, or holds a token outside the vocabulary.
    pub fn score(&mut self, windows: &[Window<'_>]) -> Result<Vec<Vec<TokenScore>>, TrainError> {
        for window in windows {
            self.check(window);
        }
        let batch = Batch::new(windows);
        if batch.rows.is_empty() {
            return Ok(vec![Vec::new(); windows.len()]);
        }
        let scores = self.ranks.run(batch)?;
        let mut rest = scores.as_slice();
        let per_window = windows.iter().map(|window| {
            let (own, others) = rest.split_at(window.scored.len());
            rest = others;
            own.to_vec()
        });
        Ok(per_window.collect())
    }

    fn check(&self, window: &Window<'_>) {
        let num_inputs = window.tokens.len().saturating_sub(1);
        assert!(
            num_inputs <= self.seq_length && window.scored.end <= num_inputs,
            "a window of {num_inputs} inputs that scores {:?} for a model of {} positions",
            window.scored,
            self.seq_length
        );
        for &token in window.tokens {
            assert!((token as usize) < self.vocab_size, "token {token} of {}", self.vocab_size);
        }
    }
}

/// Windows side by side, up to the last position that any of them scores.
///
/// Shorter windows are filled up with token 0 behind their end, where attention cannot see it from
/// a scored position.
#[derive(Debug)]
struct Batch {
    num_windows: usize,
    length: usize,
    /// `[num_windows, length]`.
    inputs: Vec<i32>,
    /// The token after each scored position.
    targets: Vec<u32>,
    /// The scored positions, as indices into `inputs`.
    rows: Vec<usize>,
}

impl Batch {
    fn new(windows: &[Window<'_>]) -> Self {
        let length = windows.iter().map(|window| window.scored.end).max().unwrap_or(0);
        let mut inputs = vec![0; windows.len() * length];
        let mut targets = Vec::new();
        let mut rows = Vec::new();
        for (index, window) in windows.iter().enumerate() {
            let start = index * length;
            for (slot, &token) in inputs[start..start + length].iter_mut().zip(window.tokens) {
                *slot = token as i32;
            }
            rows.extend(window.scored.clone().map(|position| start + position));
            targets.extend(window.scored.clone().map(|position| window.tokens[position + 1]));
        }
        Self { num_windows: windows.len(), length, inputs, targets, rows }
    }

    fn scores(&self, model: &Gpt2<Cpu>, device: &Device<Cpu>) -> Vec<TokenScore> {
        let inputs = TensorData::new(self.inputs.clone(), [self.num_windows, self.length]);
        let inputs = Tensor::<Cpu, 2, Int>::from_data(inputs, device);
        model.token_scores(inputs, &self.targets, &self.rows)
    }
}

/// The threads that hold the model, and the queues to and from them.
#[derive(Debug)]
struct RankThreads {
    /// Batches to each rank. Dropping the queues ends the threads.
    batches: Vec<Sender<Arc<Batch>>>,
    /// Scores from rank 0, which every rank has alike.
    scores: Receiver<Vec<TokenScore>>,
    /// Joins the ranks and has the first cause of their end.
    launched: Option<JoinHandle<Result<Vec<()>, TrainError>>>,
}

/// A rank's ends of the queues.
struct Endpoint {
    batches: Receiver<Arc<Batch>>,
    /// Rank 0's alone, so that its end is heard at once.
    scores: Option<Sender<Vec<TokenScore>>>,
}

impl RankThreads {
    /// Starts the threads and waits until each has its part of the model.
    fn start<S>(config: Gpt2Config, source: S, size: NonZeroUsize) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        let (scores_out, scores) = mpsc::channel();
        let mut scores_out = Some(scores_out);
        let mut batches = Vec::new();
        let mut endpoints = Vec::new();
        for _ in 0..size.get() {
            let (batches_out, batches_in) = mpsc::channel();
            batches.push(batches_out);
            let endpoint = Endpoint { batches: batches_in, scores: scores_out.take() };
            endpoints.push(Mutex::new(Some(endpoint)));
        }
        let launched = thread::spawn(move || {
            launch(ParallelDims::one_replica(size.get()), |rank| {
                let endpoint = endpoints[rank.index()].lock().ok().and_then(|mut slot| slot.take());
                serve(&config, &source, &rank, endpoint.expect("each rank runs once"))
            })
        });
        let mut threads = Self { batches, scores, launched: Some(launched) };
        threads.answer()?;
        Ok(threads)
    }

    /// Hands a batch to every rank and waits for its scores.
    fn run(&mut self, batch: Batch) -> Result<Vec<TokenScore>, TrainError> {
        let batch = Arc::new(batch);
        for queue in &self.batches {
            // A rank that is gone does not answer: `answer` finds out why.
            let _ = queue.send(Arc::clone(&batch));
        }
        self.answer()
    }

    fn answer(&mut self) -> Result<Vec<TokenScore>, TrainError> {
        match self.scores.recv() {
            Ok(scores) => Ok(scores),
            Err(_) => Err(self.first_cause()),
        }
    }
}

/// The body of a rank's thread: builds its part of the model, then scores every batch it is handed.
fn serve(
    config: &Gpt2Config,
    source: &dyn ParameterSource,
    rank: &Rank,
    endpoint: Endpoint,
) -> Result<(), TrainError> {
    let device = Device::<Cpu>::default();
    let model = Gpt2::<Cpu>::init(config, source, &rank.tensor_parallel, &device)?;
    // The first answer, an empty one, says that every rank has come this far.
    rank.tensor_parallel.collective().barrier("scorer.ready")?;
    endpoint.answer(Vec::new());
    while let Ok(batch) = endpoint.batches.recv() {
        endpoint.answer(batch.scores(&model, &device));
    }
    Ok(())
}

impl Endpoint {
    fn answer(&self, scores: Vec<TokenScore>) {
        if let Some(queue) = &self.scores {
            // Nobody listens when the scorer has been dropped: its queues end the thread next.
            let _ = queue.send(scores);
        }
    }
}

impl RankThreads {
    /// Ends the threads and says why the first of them had ended.
    fn first_cause(&mut self) -> TrainError {
        match self.join().expect("a scorer is not used again after it failed") {
            Ok(Err(cause)) => cause,
            Ok(Ok(_)) => unreachable!("a rank that stops answering has failed"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn join(&mut self) -> Option<thread::Result<Result<Vec<()>, TrainError>>> {
        self.batches.clear();
        self.launched.take().map(JoinHandle::join)
    }
}

/// Waits for the threads, so that the model's memory is free afterwards.
impl Drop for RankThreads {
    fn drop(&mut self) {
        // A failure that nobody asked about has been told, or concerns no result.
        let _ = self.join();
    }
}
