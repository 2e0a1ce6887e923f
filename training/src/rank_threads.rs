//! Threads that each hold one rank's part of a model and answer requests together.
//!
//! Starting a thread and loading a model for every batch would cost more than the batch, so the
//! ranks stay: every request goes to all of them, and rank 0, which has the answer as all others
//! do, sends it back. A rank that fails ends its peers through the group, and the call that waits
//! for the answer returns the first cause.

use std::num::NonZeroUsize;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::error::TrainError;
use crate::parallel::{ParallelDims, Rank, launch};

/// What a rank keeps between requests, and what it does with one.
pub(crate) trait Serve: 'static {
    /// What every rank is handed.
    type Request: Send + Sync + 'static;
    /// What every rank makes of it, all alike.
    type Answer: Send + 'static;

    /// The rank's part of the work; ranks may speak with each other in it.
    fn answer(&mut self, request: &Self::Request) -> Self::Answer;
}

/// The threads that serve with `W`, and the queues to and from them.
///
/// Dropping it ends the threads.
#[derive(Debug)]
pub(crate) struct RankThreads<W: Serve> {
    /// Requests to each rank. Dropping the queues ends the threads.
    requests: Vec<Sender<Arc<W::Request>>>,
    /// Answers of rank 0; the first, without content, says that every rank is ready.
    answers: Receiver<Option<W::Answer>>,
    /// Joins the ranks and has the first cause of their end.
    launched: Option<JoinHandle<Result<Vec<()>, TrainError>>>,
}

/// A rank's ends of the queues.
struct Endpoint<W: Serve> {
    requests: Receiver<Arc<W::Request>>,
    /// Rank 0's alone, so that its end is heard at once.
    answers: Option<Sender<Option<W::Answer>>>,
}

impl<W: Serve> RankThreads<W> {
    /// Starts `size` threads and waits until `build` has made what each rank keeps.
    ///
    /// # Errors
    ///
    /// What `build` answers on the first rank that fails.
    pub(crate) fn start(
        size: NonZeroUsize,
        build: impl Fn(&Rank) -> Result<W, TrainError> + Send + Sync + 'static,
    ) -> Result<Self, TrainError> {
        let (answers_out, answers) = mpsc::channel();
        let mut answers_out = Some(answers_out);
        let mut requests = Vec::new();
        let mut endpoints = Vec::new();
        for _ in 0..size.get() {
            let (requests_out, requests_in) = mpsc::channel();
            requests.push(requests_out);
            let endpoint = Endpoint { requests: requests_in, answers: answers_out.take() };
            endpoints.push(Mutex::new(Some(endpoint)));
        }
        let launched = thread::spawn(move || {
            launch(ParallelDims::one_replica(size.get()), |rank| {
                let endpoint = endpoints[rank.index()].lock().ok().and_then(|mut slot| slot.take());
                let endpoint: Endpoint<W> = endpoint.expect("each rank runs once");
                let worker = build(&rank)?;
                rank.tensor_parallel.collective().barrier("ranks.ready")?;
                endpoint.serve(worker);
                Ok(())
            })
        });
        let mut threads = Self { requests, answers, launched: Some(launched) };
        threads.receive()?;
        Ok(threads)
    }

    /// Hands `request` to every rank and waits for the answer.
    ///
    /// # Errors
    ///
    /// When a rank fails. The threads are of no use then.
    ///
    /// # Panics
    ///
    /// After an error.
    pub(crate) fn ask(&mut self, request: W::Request) -> Result<W::Answer, TrainError> {
        self.send(request);
        self.answer()
    }

    /// Hands `request` to every rank and does not wait: [`answer`](Self::answer) has to be called
    /// before the next one is sent.
    pub(crate) fn send(&mut self, request: W::Request) {
        let request = Arc::new(request);
        for queue in &self.requests {
            // A rank that is gone does not answer: `receive` finds out why.
            let _ = queue.send(Arc::clone(&request));
        }
    }

    /// Waits for the answer to what was [sent](Self::send).
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    ///
    /// # Panics
    ///
    /// As [`ask`](Self::ask).
    pub(crate) fn answer(&mut self) -> Result<W::Answer, TrainError> {
        Ok(self.receive()?.expect("only the first answer is without content"))
    }

    fn receive(&mut self) -> Result<Option<W::Answer>, TrainError> {
        match self.answers.recv() {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.first_cause()),
        }
    }

    /// Ends the threads and says why the first of them had ended.
    fn first_cause(&mut self) -> TrainError {
        match self.join().expect("ranks are not asked again after one failed") {
            Ok(Err(cause)) => cause,
            Ok(Ok(_)) => unreachable!("a rank that stops answering has failed"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn join(&mut self) -> Option<thread::Result<Result<Vec<()>, TrainError>>> {
        self.requests.clear();
        self.launched.take().map(JoinHandle::join)
    }
}

/// Waits for the threads, so that the model's memory is free afterwards.
impl<W: Serve> Drop for RankThreads<W> {
    fn drop(&mut self) {
        // A failure that nobody asked about has been told, or concerns no result.
        let _ = self.join();
    }
}

impl<W: Serve> Endpoint<W> {
    /// Answers every request, until the queue of requests is dropped.
    fn serve(self, mut worker: W) {
        self.send(None);
        while let Ok(request) = self.requests.recv() {
            self.send(Some(worker.answer(&request)));
        }
    }

    fn send(&self, answer: Option<W::Answer>) {
        if let Some(queue) = &self.answers {
            // Nobody listens when the threads have been dropped: the requests end next.
            let _ = queue.send(answer);
        }
    }
}
