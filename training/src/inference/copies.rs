//! Copies of a model side by side, each on rank threads of its own.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::error::TrainError;
use crate::parallel::Rank;
use crate::rank_threads::{RankThreads, Serve};

/// Up to so many copies of a model, of which `W` is a rank's part. A copy is made when there is a
/// request for it, and not before.
///
/// Dropping it ends the threads.
pub(super) struct Copies<W: Serve> {
    /// Copies that there may be.
    most: usize,
    /// Makes another copy.
    make: Box<dyn Fn() -> Result<RankThreads<W>, TrainError> + Send>,
    /// The threads of each copy.
    made: Vec<RankThreads<W>>,
}

impl<W: Serve> std::fmt::Debug for Copies<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Copies")
            .field("most", &self.most)
            .field("made", &self.made.len())
            .finish_non_exhaustive()
    }
}

impl<W: Serve> Copies<W> {
    /// The first of up to `most` copies, on `ranks` threads each of which keeps what `build` makes
    /// for it.
    ///
    /// # Errors
    ///
    /// What `build` answers on the first rank that fails.
    pub(super) fn start(
        ranks: NonZeroUsize,
        most: NonZeroUsize,
        build: impl Fn(&Rank) -> Result<W, TrainError> + Send + Sync + 'static,
    ) -> Result<Self, TrainError> {
        let build = Arc::new(build);
        let make = Box::new(move || {
            let build = Arc::clone(&build);
            RankThreads::start(ranks, move |rank: &Rank| build(rank))
        });
        Ok(Self { most: most.get(), made: vec![make()?], make })
    }

    /// Copies that there may be.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Copies that there were requests for.
    pub(super) fn num_made(&self) -> usize {
        self.made.len()
    }

    /// Hands each request to a copy of its own and waits for all answers; none for a copy that is
    /// asked nothing. Copies that are lacking are made.
    ///
    /// # Errors
    ///
    /// When a copy cannot be made or a rank fails. The copies are of no use then.
    ///
    /// # Panics
    ///
    /// After an error, and when there are more requests than copies.
    pub(super) fn ask(
        &mut self,
        requests: Vec<Option<W::Request>>,
    ) -> Result<Vec<Option<W::Answer>>, TrainError> {
        let most = self.most;
        assert!(requests.len() <= most, "{} batches for {most} copies", requests.len());
        while self.made.len() < requests.len() {
            self.made.push((self.make)()?);
        }
        let mut is_asked = Vec::with_capacity(requests.len());
        for (copy, request) in self.made.iter_mut().zip(requests) {
            is_asked.push(request.is_some());
            if let Some(request) = request {
                copy.send(request);
            }
        }
        let answers = self.made.iter_mut().zip(is_asked);
        answers
            .map(|(copy, is_asked)| match is_asked {
                true => copy.answer().map(Some),
                false => Ok(None),
            })
            .collect()
    }

    /// [`ask`](Self::ask) where every copy is asked something.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    ///
    /// # Panics
    ///
    /// As [`ask`](Self::ask).
    pub(super) fn ask_all(
        &mut self,
        requests: Vec<W::Request>,
    ) -> Result<Vec<W::Answer>, TrainError> {
        let answers = self.ask(requests.into_iter().map(Some).collect())?;
        Ok(answers.into_iter().flatten().collect())
    }
}
