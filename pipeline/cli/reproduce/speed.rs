//! How fast this machine multiplies matrices: the bound under the time of a training.

use std::time::{Duration, Instant};

use training::backend::cpu::matrix::{Matrix, Write, multiply};

/// Rows and columns of the matrices: small enough to be multiplied while other programs that the
/// cores are shared with wait, ...
const SMALL: usize = 384;
/// ... and large enough that many threads have work.
const LARGE: usize = 1_024;

/// How long each of them is multiplied, once at least.
const TIME: Duration = Duration::from_millis(200);

/// Floating-point operations a second of the kernels of training, on all threads: those of the
/// fastest product that a moment holds, so that a machine that is busy now is not taken for a slow
/// one.
pub(super) fn flops_per_second() -> f64 {
    let [left, right] = [0.5_f32, 0.25].map(|value| vec![value; LARGE * LARGE]);
    let mut output = vec![0.0; LARGE * LARGE];
    let mut product = |size: usize| {
        let area = size * size;
        let (left, right) = (Matrix::new(&left[..area], size), Matrix::new(&right[..area], size));
        let started = Instant::now();
        multiply(left, right, &mut output[..area], Write::Replace);
        2.0 * (size as f64).powi(3) / started.elapsed().as_secs_f64().max(1e-9)
    };
    product(SMALL); // starts the threads
    let mut fastest = 0.0_f64;
    for size in [SMALL, LARGE] {
        let started = Instant::now();
        loop {
            fastest = fastest.max(product(size));
            if started.elapsed() > TIME {
                break;
            }
        }
    }
    fastest
}
