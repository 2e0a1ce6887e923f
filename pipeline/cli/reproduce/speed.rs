//! How fast this machine multiplies matrices: the bound under the time of a training.

use std::time::{Duration, Instant};

use corpus::{CorpusError, Observer};
use training::backend::cpu::matrix::{Matrix, Write, multiply};

/// Rows and columns of the matrices: small enough to be multiplied while other programs that the
/// cores are shared with wait, ...
const SMALL: usize = 384;
/// ... and large enough that many threads have work.
const LARGE: usize = 1_024;

/// How long products are made that are not measured, until threads and clocks are up.
const WARM_UP: Duration = Duration::from_millis(100);
/// How often is measured: what shares the cores comes and goes, ...
const ROUNDS: usize = 6;
/// ... and for how long each time, each of the sizes once at least.
const ROUND: Duration = Duration::from_millis(60);

/// Floating-point operations a second of the kernels of training, on all threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Speed {
    /// Those of the fastest product of all: a machine that is busy now is no slow one.
    pub(super) fastest: f64,
    /// Those of the fastest product of the slowest round: how much the machine swings.
    pub(super) slowest: f64,
}

impl Speed {
    /// Measures it, in half a second or so.
    ///
    /// # Errors
    ///
    /// [`CorpusError::Stopped`] where `observer` asks to stop.
    pub(super) fn measure(observer: &dyn Observer) -> Result<Self, CorpusError> {
        let [left, right] = [0.5_f32, 0.25].map(|value| vec![value; LARGE * LARGE]);
        let mut output = vec![0.0; LARGE * LARGE];
        let mut product = |size: usize| {
            let area = size * size;
            let (left, right) =
                (Matrix::new(&left[..area], size), Matrix::new(&right[..area], size));
            let started = Instant::now();
            multiply(left, right, &mut output[..area], Write::Replace);
            2.0 * (size as f64).powi(3) / started.elapsed().as_secs_f64().max(1e-9)
        };
        let mut fastest_of = |time: Duration| {
            let (started, mut fastest) = (Instant::now(), 0.0_f64);
            loop {
                for size in [SMALL, SMALL, LARGE] {
                    if observer.stop_requested() {
                        return Err(CorpusError::Stopped);
                    }
                    fastest = fastest.max(product(size));
                }
                if started.elapsed() > time {
                    return Ok(fastest);
                }
            }
        };
        fastest_of(WARM_UP)?;
        let rounds: Vec<f64> =
            (0..ROUNDS).map(|_| fastest_of(ROUND)).collect::<Result<_, CorpusError>>()?;
        Ok(Self {
            fastest: rounds.iter().copied().fold(0.0, f64::max),
            slowest: rounds.iter().copied().fold(f64::INFINITY, f64::min),
        })
    }
}

/// A speed in words.
pub(super) fn gflops(flops_per_second: f64) -> String {
    let giga = flops_per_second / 1e9;
    if giga < 10.0 { format!("{giga:.1}") } else { format!("{giga:.0}") }
}
