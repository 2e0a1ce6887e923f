//! The micro-kernel for AVX2 with fused multiply-add: a tile of 6 × 16 in 12 of the 16 registers.
//!
//! Two more hold 16 numbers of the right panel, and one a number of the left panel: what
//! [`super::kernel_avx512`] does in less room.

use std::arch::x86_64::*;

use super::super::matrix::{Matrix, MatrixMut, Write};
use super::super::vector::Vector;
use super::left::{InPlace, Left, Packed, Rows};
use super::panels::pack;
use super::prefetch::{CACHE_LINE, prefetch, prefetch_all};
use super::{Kernel, Side};

/// Numbers of a register.
const LANES: usize = 8;
const ROWS: usize = 6;
const COLUMNS: usize = 2 * LANES;
/// Steps for which one cache line is fetched.
const STEPS: usize = 4;

/// The kernel; there is one only where the processor has AVX2 and fused multiply-add.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(Vector);

impl Avx2 {
    /// The kernel, if `vector` has its instructions.
    pub(super) fn new(vector: Vector) -> Option<Self> {
        vector.has_avx2().then_some(Self(vector))
    }
}

impl Kernel for Avx2 {
    const ROWS: usize = ROWS;
    const COLUMNS: usize = COLUMNS;
    const READS_IN_PLACE: bool = true;

    fn pack(self, side: Side, lines: Matrix<'_>, panels: &mut [f32], stride: usize) {
        match side {
            Side::Left => pack::<ROWS>(self.0, lines, panels, stride),
            Side::Right => pack::<COLUMNS>(self.0, lines, panels, stride),
        }
    }

    fn multiply(
        self,
        left: Left<'_>,
        right: &[f32],
        next: &[f32],
        output: MatrixMut<'_>,
        write: Write<'_>,
    ) {
        let right = right.as_chunks().0;
        // SAFETY: `self` exists only where `Vector` found AVX2 and fused multiply-add.
        unsafe { multiply(left, right, next, output, write) }
    }
}

/// Calls the code for the tile's size: whole tiles lose nothing to edges, and edges little.
#[target_feature(enable = "avx2,fma")]
fn multiply(
    left: Left<'_>,
    right: &[[f32; COLUMNS]],
    next: &[f32],
    output: MatrixMut<'_>,
    write: Write<'_>,
) {
    let (depth, narrow) = (right.len(), output.columns() <= LANES);
    macro_rules! for_rows {
        ($($rows:literal)*) => {
            match (output.rows(), left, narrow) {
                $(($rows, Left::Panel(panel), false) => {
                    let left = Packed::<ROWS>::new(panel, depth);
                    tile::<$rows, 2, _>(left, right, next, output, write);
                }
                ($rows, Left::Panel(panel), true) => {
                    let left = Packed::<ROWS>::new(panel, depth);
                    tile::<$rows, 1, _>(left, right, next, output, write);
                }
                ($rows, Left::Rows(rows), false) => {
                    let left = InPlace::<$rows>::new(rows, depth);
                    tile::<$rows, 2, _>(left, right, next, output, write);
                }
                ($rows, Left::Rows(rows), true) => {
                    let left = InPlace::<$rows>::new(rows, depth);
                    tile::<$rows, 1, _>(left, right, next, output, write);
                })*
                (rows, ..) => unreachable!("a tile of {rows} rows"),
            }
        };
    }
    for_rows!(1 2 3 4 5 6)
}

/// A tile of `R` rows and up to `V` registers of columns.
#[target_feature(enable = "avx2,fma")]
fn tile<const R: usize, const V: usize, L: Rows>(
    left: L,
    right: &[[f32; COLUMNS]],
    next: &[f32],
    mut output: MatrixMut<'_>,
    write: Write<'_>,
) {
    assert_eq!(left.depth(), right.len(), "panels of one depth");
    let columns = output.columns();
    for i in 0..R {
        prefetch_all(output.row(i));
    }

    let mut sums = [[_mm256_setzero_ps(); V]; R];
    let mut lines = (0..next.len()).step_by(CACHE_LINE);
    for (depth, right) in right.iter().enumerate() {
        if depth % STEPS == 0
            && let Some(line) = lines.next()
        {
            prefetch(next, line);
        }
        let mut registers = [_mm256_setzero_ps(); V];
        for (register, numbers) in registers.iter_mut().zip(right.chunks_exact(LANES)) {
            *register = load(numbers);
        }
        for (i, sums) in sums.iter_mut().enumerate() {
            // SAFETY: `depth` counts the right side, and the left side has the same depth.
            let number = _mm256_set1_ps(unsafe { left.get(i, depth) });
            for (sum, &register) in sums.iter_mut().zip(&registers) {
                *sum = _mm256_fmadd_ps(number, register, *sum);
            }
        }
    }

    for (i, sums) in sums.into_iter().enumerate() {
        let row = output.row(i);
        for (v, sum) in sums.into_iter().enumerate() {
            let columns = v * LANES..columns.min((v + 1) * LANES);
            let numbers = match write {
                Write::Replace => sum,
                Write::Add => _mm256_add_ps(sum, load(&row[columns.clone()])),
                Write::Bias(bias) => _mm256_add_ps(sum, load(&bias[columns.clone()])),
            };
            store(&mut row[columns], numbers);
        }
    }
}

/// Up to 8 numbers, then zeros.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn load(values: &[f32]) -> __m256 {
    if values.len() >= LANES {
        // SAFETY: 8 numbers are there, and the instruction asks for no alignment.
        return unsafe { _mm256_loadu_ps(values.as_ptr()) };
    }
    let mut numbers = [0.0; LANES];
    numbers[..values.len()].copy_from_slice(values);
    load(&numbers)
}

/// Writes as many of the numbers as there is room for.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn store(values: &mut [f32], numbers: __m256) {
    if values.len() >= LANES {
        // SAFETY: there is room for 8 numbers, and the instruction asks for no alignment.
        return unsafe { _mm256_storeu_ps(values.as_mut_ptr(), numbers) };
    }
    let mut room = [0.0; LANES];
    store(&mut room, numbers);
    values.copy_from_slice(&room[..values.len()]);
}
