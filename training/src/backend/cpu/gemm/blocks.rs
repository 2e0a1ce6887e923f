//! A product on one thread: the loops around the micro-kernel.

use std::ops::Range;

use super::super::matrix::{Matrix, MatrixMut, Write};
use super::left::{Left, is_readable_in_place};
use super::panels::Panels;
use super::scratch::with_scratch;
use super::{Kernel, Side};

/// Depth that a tile is kept in registers for, at most. Deeper products are cut into equal pieces,
/// so that the order of a sum is a matter of the depth alone; a tile is read, added to and written
/// once for each piece, which takes about 1% of the time at this depth.
pub(super) const DEPTH: usize = 512;

/// Numbers of a block of the left operand at most: 288 KiB, a part of the second cache.
const LEFT_BLOCK: usize = 72 << 10;
/// Numbers of a packed block of the right operand at most: 512 KiB, half of the second cache.
const RIGHT_BLOCK: usize = 128 << 10;

/// An operand of a product on one thread.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand<'a> {
    /// To be packed; its rows are its lines.
    Plain(Matrix<'a>),
    /// A left one that the kernel reads where it is.
    InPlace(Matrix<'a>),
    /// Packed before.
    Packed(Panels<'a>),
}

/// A block of an operand, as the kernel reads it.
#[derive(Debug, Clone, Copy)]
enum Block<'a> {
    Rows(Matrix<'a>),
    Panels(Panels<'a>),
}

/// Depth of a piece of `depth`.
pub(super) fn piece_depth(depth: usize) -> usize {
    depth.div_ceil(depth.div_ceil(DEPTH))
}

/// Lines of a block of an operand.
pub(super) fn block_lines<K: Kernel>(side: Side, piece: usize) -> usize {
    let (numbers, width) = match side {
        Side::Left => (LEFT_BLOCK, K::ROWS),
        Side::Right => (RIGHT_BLOCK, K::COLUMNS),
    };
    (numbers / piece).next_multiple_of(width)
}

/// Cuts `len` into pieces of `size` and a last one.
pub(super) fn pieces(len: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(size).map(move |start| start..len.min(start.saturating_add(size)))
}

impl<'a> Operand<'a> {
    /// A left operand, which is packed if it must be.
    pub(super) fn left<K: Kernel>(left: Matrix<'a>) -> Self {
        let in_place = K::READS_IN_PLACE && is_readable_in_place(left);
        if in_place { Self::InPlace(left) } else { Self::Plain(left) }
    }

    fn depth(self) -> usize {
        match self {
            Self::Plain(lines) | Self::InPlace(lines) => lines.columns,
            Self::Packed(panels) => panels.depth,
        }
    }

    /// Lines of a block, of `lines` in all.
    fn block_lines<K: Kernel>(self, side: Side, lines: usize, piece: usize) -> usize {
        match (self, side) {
            // Whatever the number of panels on the right: only one at a time is in the cache.
            (Self::Packed(_), Side::Right) => lines,
            _ => block_lines::<K>(side, piece).min(lines),
        }
    }

    /// Room that a block takes which is packed.
    fn room<K: Kernel>(self, side: Side, lines: usize, piece: usize) -> usize {
        match self {
            Self::Plain(_) => Panels::room(K::width(side), lines, piece),
            Self::InPlace(_) | Self::Packed(_) => 0,
        }
    }

    /// A block, which is packed to `room` if need be.
    fn block<'b, K: Kernel>(
        self,
        kernel: K,
        side: Side,
        lines: Range<usize>,
        depth: Range<usize>,
        room: &'b mut [f32],
    ) -> Block<'b>
    where
        'a: 'b,
    {
        match self {
            Self::Plain(matrix) => {
                let (width, len) = (K::width(side), depth.len());
                kernel.pack(side, matrix.part(lines, depth), room, Panels::stride(width, len));
                Block::Panels(Panels::new(room, width, len))
            }
            Self::InPlace(matrix) => Block::Rows(matrix.part(lines, depth)),
            Self::Packed(panels) => Block::Panels(panels.part(lines, depth)),
        }
    }
}

impl<'a> Block<'a> {
    /// What the kernel multiplies for a tile of `rows`, from that many panels on.
    fn left(self, panel: usize, rows: &Range<usize>) -> Left<'a> {
        match self {
            Self::Rows(matrix) => Left::Rows(matrix.part(rows.clone(), 0..matrix.columns)),
            Self::Panels(panels) => Left::Panel(panels.panel(panel)),
        }
    }
}

/// `output` = the product of the operands, or what `write` says, in pieces of the depth of `piece`.
pub(super) fn multiply<K: Kernel>(
    kernel: K,
    left: Operand<'_>,
    right: Operand<'_>,
    piece: usize,
    mut output: MatrixMut<'_>,
    write: Write<'_>,
) {
    let (m, n, depth) = (output.rows(), output.columns(), left.depth());
    let block_rows = left.block_lines::<K>(Side::Left, m, piece);
    let block_columns = right.block_lines::<K>(Side::Right, n, piece);
    let left_room = left.room::<K>(Side::Left, block_rows, piece);
    let right_room = right.room::<K>(Side::Right, block_columns, piece);

    with_scratch(left_room + right_room, |room| {
        let (left_room, right_room) = room.split_at_mut(left_room);
        for columns in pieces(n, block_columns) {
            for depth in pieces(depth, piece) {
                let right_block =
                    right.block(kernel, Side::Right, columns.clone(), depth.clone(), right_room);
                let write = if depth.start == 0 { write.columns(&columns) } else { Write::Add };
                for rows in pieces(m, block_rows) {
                    let left_block =
                        left.block(kernel, Side::Left, rows.clone(), depth.clone(), left_room);
                    let output = output.part(rows, columns.clone());
                    multiply_block(kernel, left_block, right_block, output, write);
                }
            }
        }
    });
}

/// Multiplies blocks tile by tile.
fn multiply_block<K: Kernel>(
    kernel: K,
    left: Block<'_>,
    right: Block<'_>,
    mut output: MatrixMut<'_>,
    write: Write<'_>,
) {
    let Block::Panels(right) = right else { unreachable!("a right operand is packed") };
    let (m, n) = (output.rows(), output.columns());
    let tiles = m.div_ceil(K::ROWS);
    for (j, columns) in pieces(n, K::COLUMNS).enumerate() {
        // Each tile with this panel fetches a part of the next.
        let next = if columns.end < n { right.panel(j + 1) } else { &[] };
        let mut next = next.chunks(next.len().div_ceil(tiles).max(1));
        let write = write.columns(&columns);
        for (i, rows) in pieces(m, K::ROWS).enumerate() {
            let next = next.next().unwrap_or_default();
            let left = left.left(i, &rows);
            let output = output.part(rows, columns.clone());
            kernel.multiply(left, right.panel(j), next, output, write);
        }
    }
}
