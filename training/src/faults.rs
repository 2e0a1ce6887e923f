//! Faults that are put into a run on purpose, so that tests see how it bears them.
//!
//! A fault is written as `KIND@STEPS` or `KIND@STEPS:rankN`: `nan@7`, `inf@7-8`, `inf@7-` (to the
//! end of the run), `die@12:rank1`, `sleep@12:rank1`. Steps and what happens in them are the same
//! in every run, so that a test can say what has to come of it.

use std::fmt;
use std::iter;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use crate::TrainError;
use crate::parallel::ParallelDims;

/// How many times the others' patience a rank sleeps: as good as for ever.
const SLEEPS_PER_PATIENCE: u32 = 60;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// `nan`: the loss is no number.
    Nan,
    /// `inf`: a gradient overflows.
    Inf,
    /// `die`: a rank panics in the middle of the step.
    Die,
    /// `sleep`: a rank sleeps in the middle of the step, for far longer than the others wait.
    Sleep,
}

impl FaultKind {
    const ALL: [Self; 4] = [Self::Nan, Self::Inf, Self::Die, Self::Sleep];

    fn name(self) -> &'static str {
        match self {
            Self::Nan => "nan",
            Self::Inf => "inf",
            Self::Die => "die",
            Self::Sleep => "sleep",
        }
    }

    /// Whether it befalls one rank: a run in which all die or sleep tests nothing.
    fn needs_rank(self) -> bool {
        matches!(self, Self::Die | Self::Sleep)
    }
}

/// One fault: what, in which steps, on which rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    kind: FaultKind,
    /// The first step that it strikes, counted from 1.
    first: u64,
    /// The last step that it strikes; none for all that follow.
    last: Option<u64>,
    /// The rank that it strikes, counted from 0 over the whole grid; none for all.
    rank: Option<usize>,
}

impl Fault {
    fn strikes(&self, kind: FaultKind, step: u64, rank: usize) -> bool {
        self.kind == kind
            && step >= self.first
            && self.last.is_none_or(|last| step <= last)
            && self.rank.is_none_or(|struck| struck == rank)
    }

    fn refused(&self, reason: String) -> TrainError {
        TrainError::Fault { written: self.to_string(), reason }
    }
}

/// The fault as it is written.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, first, last, rank } = self;
        write!(f, "{}@{first}", kind.name())?;
        match last {
            None => write!(f, "-")?,
            Some(last) if last == first => {}
            Some(last) => write!(f, "-{last}")?,
        }
        rank.map_or(Ok(()), |rank| write!(f, ":rank{rank}"))
    }
}

impl FromStr for Fault {
    type Err = TrainError;

    fn from_str(written: &str) -> Result<Self, TrainError> {
        let refuse = |reason: String| TrainError::Fault { written: written.to_owned(), reason };
        let (kind, rest) = written.split_once('@').ok_or_else(|| {
            refuse("write it as KIND@STEP, with a kind of nan, inf, die or sleep".to_owned())
        })?;
        let kind = FaultKind::ALL
            .into_iter()
            .find(|known| known.name() == kind)
            .ok_or_else(|| refuse(format!("no kind \"{kind}\"; known are nan, inf, die, sleep")))?;
        let (steps, rank) = match rest.split_once(':') {
            None => (rest, None),
            Some((steps, rank)) => {
                let rank = rank.strip_prefix("rank").and_then(|rank| rank.parse().ok());
                let wanted = || refuse("after the colon, a rank is wanted, as rank1".to_owned());
                (steps, Some(rank.ok_or_else(wanted)?))
            }
        };
        let step = |step: &str| match step.parse() {
            Ok(0) | Err(_) => Err(refuse(format!("\"{step}\" is no step; the first step is 1"))),
            Ok(step) => Ok(step),
        };
        let (first, last) = match steps.split_once('-') {
            None => (step(steps)?, Some(step(steps)?)),
            Some((first, "")) => (step(first)?, None),
            Some((first, last)) => (step(first)?, Some(step(last)?)),
        };
        if last.is_some_and(|last| last < first) {
            return Err(refuse("its last step comes before its first".to_owned()));
        }
        if kind.needs_rank() && rank.is_none() {
            let name = kind.name();
            return Err(refuse(format!("say which rank, as {name}@{first}:rank1")));
        }
        Ok(Self { kind, first, last, rank })
    }
}

/// All faults of a run; none in any run that is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl From<Vec<Fault>> for Faults {
    fn from(faults: Vec<Fault>) -> Self {
        Self(faults)
    }
}

impl Faults {
    /// Whether a fault of `kind` strikes step `step`, counted from 1, on rank `rank` of the grid.
    #[must_use]
    pub fn strikes(&self, kind: FaultKind, step: u64, rank: usize) -> bool {
        self.0.iter().any(|fault| fault.strikes(kind, step, rank))
    }

    /// Refuses faults that would never strike: a test that waits for one could not fail.
    pub(crate) fn check(&self, dims: ParallelDims, train_steps: u64) -> Result<(), TrainError> {
        let ranks = dims.num_ranks();
        for fault in &self.0 {
            if let Some(rank) = fault.rank.filter(|&rank| rank >= ranks) {
                let reason =
                    format!("there is no rank {rank}; the run has {ranks}, from rank 0 on");
                return Err(fault.refused(reason));
            }
            if fault.kind == FaultKind::Sleep && ranks == 1 {
                return Err(fault.refused("no other rank would miss it".to_owned()));
            }
            if fault.first > train_steps {
                return Err(fault.refused(format!("the run has {train_steps} steps")));
            }
        }
        Ok(())
    }

    /// `items`, the micro-batches of step `step` on rank `rank`. After the first of them the rank
    /// panics, or sleeps for many times the `patience` that the others have, if it is to.
    pub(crate) fn within<T>(
        &self,
        step: u64,
        rank: usize,
        patience: Duration,
        items: impl Iterator<Item = Result<T, TrainError>>,
    ) -> impl Iterator<Item = Result<T, TrainError>> {
        let mut taken = 0;
        let mut items = items;
        iter::from_fn(move || {
            if taken == 1 {
                if self.strikes(FaultKind::Sleep, step, rank) {
                    thread::sleep(patience.saturating_mul(SLEEPS_PER_PATIENCE));
                }
                let dies = self.strikes(FaultKind::Die, step, rank);
                assert!(!dies, "an injected fault in step {step}");
            }
            taken += 1;
            items.next()
        })
    }
}
