//! Packing with AVX2: see [`super::panels`].

use std::arch::x86_64::*;
use std::ops::Range;

use super::super::matrix::Matrix;
use super::panels::copy;

/// Packs whole panels.
#[target_feature(enable = "avx2")]
pub(super) fn pack<const W: usize>(operand: Matrix<'_>, panels: &mut [f32], stride: usize) {
    if operand.row_stride == 1 {
        return copy::<W>(operand, panels, stride);
    }
    for (i, panel) in panels.chunks_exact_mut(stride).enumerate() {
        let lines = operand.part(i * W..(i + 1) * W, 0..operand.columns);
        transpose(
            lines.values,
            lines.row_stride,
            &mut panel.as_chunks_mut::<W>().0[..lines.columns],
        );
    }
}

/// Packs `W` lines that are each in one piece and begin `stride` numbers after each other.
///
/// Blocks of 8 lines, then 4, are transposed in registers, along the depth: memory is read in few
/// runs at a time.
#[target_feature(enable = "avx2")]
fn transpose<const W: usize>(values: &[f32], stride: usize, panel: &mut [[f32; W]]) {
    let depth = panel.len();
    let blocked = depth - depth % 8;
    for line in (0..W).step_by(8) {
        for depth in (0..blocked).step_by(8) {
            let values = &values[line * stride + depth..];
            let panel = &mut panel[depth..depth + 8];
            match W - line {
                8.. => transpose_8x8(values, stride, panel, line),
                4.. => {
                    transpose_4x8(values, stride, panel, line);
                    copy_lines(values, stride, panel, line, line + 4..W);
                }
                _ => copy_lines(values, stride, panel, line, line..W),
            }
        }
    }
    if blocked < depth {
        copy_lines(&values[blocked..], stride, &mut panel[blocked..], 0, 0..W);
    }
}

/// Packs some lines number by number; `values` begins with line `first`.
#[inline]
fn copy_lines<const W: usize>(
    values: &[f32],
    stride: usize,
    panel: &mut [[f32; W]],
    first: usize,
    lines: Range<usize>,
) {
    for line in lines {
        for (packed, &number) in panel.iter_mut().zip(&values[(line - first) * stride..]) {
            packed[line] = number;
        }
    }
}

/// Packs 8 lines of depth 8, the first of which begins with `values`, as those from `line` on.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_8x8<const W: usize>(
    values: &[f32],
    stride: usize,
    panel: &mut [[f32; W]],
    line: usize,
) {
    // Depths 0 to 3 of lines i and i + 4 in one register, and the same of depths 4 to 7.
    let mut halves = [[_mm256_setzero_ps(); 4]; 2];
    for i in 0..4 {
        let (upper, lower) = (&values[i * stride..][..8], &values[(i + 4) * stride..][..8]);
        halves[0][i] = load_pair(&upper[..4], &lower[..4]);
        halves[1][i] = load_pair(&upper[4..], &lower[4..]);
    }
    for (half, panel) in halves.into_iter().zip(panel.chunks_exact_mut(4)) {
        for (register, packed) in transpose_4x4(half).into_iter().zip(panel) {
            store(&mut packed[line..][..8], register);
        }
    }
}

/// Packs 4 lines of depth 8, the first of which begins with `values`, as those from `line` on.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_4x8<const W: usize>(
    values: &[f32],
    stride: usize,
    panel: &mut [[f32; W]],
    line: usize,
) {
    let mut lines = [_mm256_setzero_ps(); 4];
    for i in 0..4 {
        let numbers = &values[i * stride..][..8];
        lines[i] = load_pair(&numbers[..4], &numbers[4..]);
    }
    // Depth i of the 4 lines in the lower half, depth i + 4 in the upper.
    for (i, register) in transpose_4x4(lines).into_iter().enumerate() {
        store_half(&mut panel[i][line..][..4], _mm256_castps256_ps128(register));
        store_half(&mut panel[i + 4][line..][..4], _mm256_extractf128_ps::<1>(register));
    }
}

/// The transposes of the 4 × 4 numbers in the lower halves and of those in the upper.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_4x4(lines: [__m256; 4]) -> [__m256; 4] {
    let [a, b, c, d] = lines;
    let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    [
        _mm256_shuffle_ps::<0x44>(ab_low, cd_low),
        _mm256_shuffle_ps::<0xee>(ab_low, cd_low),
        _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
        _mm256_shuffle_ps::<0xee>(ab_high, cd_high),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_pair(low: &[f32], high: &[f32]) -> __m256 {
    assert!(low.len() >= 4 && high.len() >= 4);
    // SAFETY: 4 numbers are there each, and the instruction asks for no alignment.
    unsafe { _mm256_loadu2_m128(high.as_ptr(), low.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(values: &mut [f32], register: __m256) {
    assert!(values.len() >= 8);
    // SAFETY: there is room for 8 numbers, and the instruction asks for no alignment.
    unsafe { _mm256_storeu_ps(values.as_mut_ptr(), register) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_half(values: &mut [f32], register: __m128) {
    assert!(values.len() >= 4);
    // SAFETY: there is room for 4 numbers, and the instruction asks for no alignment.
    unsafe { _mm_storeu_ps(values.as_mut_ptr(), register) }
}
