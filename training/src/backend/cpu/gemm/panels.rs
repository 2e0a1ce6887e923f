//! Operands in the order in which the micro-kernel reads them.
//!
//! The lines of an operand are the rows of the left one and the columns of the right one; its depth
//! is the dimension that the product sums over. A panel holds `W` lines, the height or the width of
//! a tile: first the `W` numbers at depth 0, then those at depth 1, and so on. The kernel reads it
//! from start to end, whatever strides the operand has.
//!
//! ```text
//! operand, 5 lines of depth 3      panels of W = 4
//! a0 a1 a2                         a0 b0 c0 d0  a1 b1 c1 d1  a2 b2 c2 d2
//! b0 b1 b2                         e0 0  0  0   e1 0  0  0   e2 0  0  0
//! c0 c1 c2
//! d0 d1 d2
//! e0 e1 e2
//! ```

use std::ops::Range;

use super::super::matrix::Matrix;
use super::super::vector::Vector;
#[cfg(target_arch = "x86_64")]
use super::pack_avx2;

/// Numbers between two panels. Without them, panels would often be a multiple of 4 KiB apart, and
/// what is written to all of them in turn would push each other out of the first cache.
const GAP: usize = 16;

/// An operand, or a block of one, that was packed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panels<'a> {
    values: &'a [f32],
    /// Lines of a panel.
    width: usize,
    /// Depth of them all.
    pub(super) depth: usize,
    /// Numbers from the start of one panel to that of the next.
    stride: usize,
}

impl<'a> Panels<'a> {
    /// Numbers from the start of a panel of `width` lines of `depth` to that of the next.
    pub(super) fn stride(width: usize, depth: usize) -> usize {
        width * depth + GAP
    }

    /// Numbers that `lines` lines take as panels.
    pub(super) fn room(width: usize, lines: usize, depth: usize) -> usize {
        lines.div_ceil(width) * Self::stride(width, depth)
    }

    /// Panels of `width` lines of `depth`, as they were packed.
    pub(super) fn new(values: &'a [f32], width: usize, depth: usize) -> Self {
        Self { values, width, depth, stride: Self::stride(width, depth) }
    }

    /// Some of the lines, beginning with those of a panel, at some of the depths.
    pub(super) fn part(self, lines: Range<usize>, depth: Range<usize>) -> Self {
        let first = lines.start / self.width * self.stride + depth.start * self.width;
        Self { values: &self.values[first..], depth: depth.len(), ..self }
    }

    /// A panel.
    pub(super) fn panel(self, index: usize) -> &'a [f32] {
        &self.values[index * self.stride..][..self.width * self.depth]
    }
}

/// Packs an operand, whose rows are the lines, as panels of `W` that begin `stride` numbers after
/// each other; the last is filled up with zeros.
///
/// # Panics
///
/// When `panels` does not have room for them.
pub(super) fn pack<const W: usize>(
    vector: Vector,
    operand: Matrix<'_>,
    panels: &mut [f32],
    stride: usize,
) {
    assert!(panels.len() >= operand.rows.div_ceil(W) * stride, "room for the panels");
    assert!(stride >= W * operand.columns, "panels that do not overlap");
    let whole = operand.rows - operand.rows % W;
    let (panels, last) = panels.split_at_mut(whole / W * stride);
    pack_whole::<W>(vector, operand.part(0..whole, 0..operand.columns), panels, stride);
    if whole < operand.rows {
        let lines = operand.part(whole..operand.rows, 0..operand.columns);
        pack_last::<W>(lines, last.as_chunks_mut().0);
    }
}

/// Packs whole panels.
fn pack_whole<const W: usize>(
    vector: Vector,
    operand: Matrix<'_>,
    panels: &mut [f32],
    stride: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if vector.has_avx2() {
        // SAFETY: a `Vector` has AVX2 only where the processor was found to have it.
        return unsafe { pack_avx2::pack::<W>(operand, panels, stride) };
    }
    let _ = vector;
    if operand.row_stride == 1 {
        copy::<W>(operand, panels, stride);
    } else {
        for (i, panel) in panels.chunks_exact_mut(stride).enumerate() {
            let lines = operand.part(i * W..(i + 1) * W, 0..operand.columns);
            pack_last::<W>(lines, panel.as_chunks_mut().0);
        }
    }
}

/// Packs whole panels of lines whose numbers of one depth lie side by side.
///
/// All panels get a depth before the next one is read, so that memory is read from start to end.
#[inline(always)]
pub(super) fn copy<const W: usize>(operand: Matrix<'_>, panels: &mut [f32], stride: usize) {
    for depth in 0..operand.columns {
        let numbers =
            operand.values[depth * operand.column_stride..][..operand.rows].as_chunks::<W>().0;
        for (numbers, panel) in numbers.iter().zip(panels.chunks_exact_mut(stride)) {
            panel[depth * W..][..W].copy_from_slice(numbers);
        }
    }
}

/// Packs up to `W` lines of any strides, number by number.
fn pack_last<const W: usize>(lines: Matrix<'_>, panel: &mut [[f32; W]]) {
    for (depth, packed) in panel.iter_mut().take(lines.columns).enumerate() {
        *packed = [0.0; W];
        let numbers = lines.values[depth * lines.column_stride..].iter().step_by(lines.row_stride);
        for (packed, &number) in packed.iter_mut().take(lines.rows).zip(numbers) {
            *packed = number;
        }
    }
}
