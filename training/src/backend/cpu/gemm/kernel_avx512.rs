//! The micro-kernel for AVX-512: a tile of 12 × 32 in 24 of the 32 registers.
//!
//! For each step along the depth it loads 32 numbers of the right panel as 2 registers, spreads
//! each of 12 numbers of the left panel over a third, and makes 24 multiply-adds with them: 14 loads
//! for 24 multiply-adds keep the multipliers busy, and 24 independent sums hide their latency.

use std::arch::x86_64::*;

use super::super::matrix::{Matrix, MatrixMut, Write};
use super::super::vector::Vector;
use super::left::{InPlace, Left, Packed, Rows};
use super::panels::pack;
use super::prefetch::{CACHE_LINE, prefetch, prefetch_all};
use super::{Kernel, Side};

/// Numbers of a register.
const LANES: usize = 16;
const ROWS: usize = 12;
const COLUMNS: usize = 2 * LANES;
/// Steps for which one cache line is fetched.
const STEPS: usize = 4;

/// The kernel; there is one only where the processor has AVX-512.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx512(Vector);

impl Avx512 {
    /// The kernel, if `vector` has its instructions.
    pub(super) fn new(vector: Vector) -> Option<Self> {
        vector.has_avx512().then_some(Self(vector))
    }
}

impl Kernel for Avx512 {
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
        // SAFETY: `self` exists only where `Vector` found AVX-512.
        unsafe { multiply(left, right, next, output, write) }
    }
}

/// Calls the code for the tile's size: whole tiles lose nothing to edges, and edges little.
#[target_feature(enable = "avx512f")]
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
    for_rows!(1 2 3 4 5 6 7 8 9 10 11 12)
}

/// A tile of `R` rows and up to `V` registers of columns.
#[target_feature(enable = "avx512f")]
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

    let mut sums = [[_mm512_setzero_ps(); V]; R];
    let mut lines = (0..next.len()).step_by(CACHE_LINE);
    for (depth, right) in right.iter().enumerate() {
        if depth % STEPS == 0
            && let Some(line) = lines.next()
        {
            prefetch(next, line);
        }
        let mut registers = [_mm512_setzero_ps(); V];
        for (register, numbers) in registers.iter_mut().zip(right.chunks_exact(LANES)) {
            *register = load(numbers);
        }
        for (i, sums) in sums.iter_mut().enumerate() {
            // SAFETY: `depth` counts the right side, and the left side has the same depth.
            let number = _mm512_set1_ps(unsafe { left.get(i, depth) });
            for (sum, &register) in sums.iter_mut().zip(&registers) {
                *sum = _mm512_fmadd_ps(number, register, *sum);
            }
        }
    }

    for (i, sums) in sums.into_iter().enumerate() {
        let row = output.row(i);
        for (v, sum) in sums.into_iter().enumerate() {
            let columns = v * LANES..columns.min((v + 1) * LANES);
            let numbers = match write {
                Write::Replace => sum,
                Write::Add => _mm512_add_ps(sum, load(&row[columns.clone()])),
                Write::Bias(bias) => _mm512_add_ps(sum, load(&bias[columns.clone()])),
            };
            store(&mut row[columns], numbers);
        }
    }
}

/// Up to 16 numbers, then zeros.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32]) -> __m512 {
    // SAFETY: the mask names no more numbers than there are; others are not touched.
    unsafe { _mm512_maskz_loadu_ps(mask(values.len()), values.as_ptr()) }
}

/// Writes as many of the numbers as there is room for.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(values: &mut [f32], numbers: __m512) {
    // SAFETY: the mask names no more numbers than there is room for; others are not touched.
    unsafe { _mm512_mask_storeu_ps(values.as_mut_ptr(), mask(values.len()), numbers) }
}

/// The first `count` of 16.
#[inline]
fn mask(count: usize) -> __mmask16 {
    if count >= LANES { !0 } else { (1 << count) - 1 }
}
