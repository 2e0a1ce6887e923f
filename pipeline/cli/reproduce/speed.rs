//! How fast this machine multiplies matrices: the bound under the time of a training.

use std::time::{Duration, Instant};

use training::backend::cpu::matrix::{Matrix, Write, multiply};

/// Rows and columns of the matrices: large enough that all threads have work.
const SIZE: usize = 1_024;

/// How long is measured, beyond a first product that starts the threads.
const TIME: Duration = Duration::from_millis(400);

/// Floating-point operations a second of the kernels of training, on all threads: the fastest
/// product of those that a moment holds.
pub(super) fn flops_per_second() -> f64 {
    let [left, right] = [0.5_f32, 0.25].map(|value| vec![value; SIZE * SIZE]);
    let mut output = vec![0.0; SIZE * SIZE];
    let mut product = || {
        let started = Instant::now();
        let (left, right) = (Matrix::new(&left, SIZE), Matrix::new(&right, SIZE));
        multiply(left, right, &mut output, Write::Replace);
        started.elapsed()
    };
    product();
    let started = Instant::now();
    let mut fastest = product();
    while started.elapsed() < TIME {
        fastest = fastest.min(product());
    }
    2.0 * (SIZE as f64).powi(3) / fastest.as_secs_f64().max(1e-9)
}
