//! A product on all threads of the pool.
//!
//! The operand with fewer lines is packed first, by all threads, for all of them. The lines of the
//! other are cut in two again and again, down to tasks that fit a block: a thread that has none
//! left takes over half of what another one still has. Each task packs its own lines.
//!
//! Both operands of a deep product could be large, so the packed one is bounded: the depth is
//! walked in spans.

use super::super::buffers;
use super::super::matrix::{Matrix, MatrixMut, Write};
use super::blocks::{self, Operand, block_lines, piece_depth, pieces};
use super::panels::Panels;
use super::prefetch::CACHE_LINE;
use super::scratch::aligned;
use super::{Kernel, Side};

/// Numbers of the packed operand at most, as long as a span has one piece of the depth: 8 MiB, a
/// part of the third cache.
const SHARED: usize = 2 << 20;
/// Numbers that a thread packs at least.
const FEWEST_TO_PACK: usize = 16 << 10;
/// Tasks for each thread, where there are lines enough: one that is held up keeps the others
/// waiting for no longer than a task takes.
const TASKS_PER_THREAD: usize = 4;

/// `output` = `left` · `right`, or what `write` says; the rows of both operands are their lines.
pub(super) fn multiply<K: Kernel>(
    kernel: K,
    left: Matrix<'_>,
    right: Matrix<'_>,
    output: MatrixMut<'_>,
    write: Write<'_>,
) {
    // In the pool from here on: waiting threads work, and tasks are not handed in one by one.
    rayon::scope(|_| {
        if left.rows >= right.rows {
            return multiply_spans(kernel, Side::Right, right, left, output, write);
        }
        match Operand::left::<K>(left) {
            shared @ Operand::InPlace(_) => {
                let (side, split, piece) = (Side::Left, right, piece_depth(left.columns));
                Task { kernel, shared, side, split, piece, output, write }.run_all();
            }
            _ => multiply_spans(kernel, Side::Left, left, right, output, write),
        }
    });
}

/// Multiplies `shared`, the operand on a side, with `split`, the other, span by span of the depth.
fn multiply_spans<K: Kernel>(
    kernel: K,
    side: Side,
    shared: Matrix<'_>,
    split: Matrix<'_>,
    mut output: MatrixMut<'_>,
    write: Write<'_>,
) {
    let (depth, width) = (shared.columns, K::width(side));
    let piece = piece_depth(depth);
    let span = (SHARED / shared.rows / piece).max(1) * piece;
    let room = Panels::room(width, shared.rows, span.min(depth));
    let mut buffer = buffers::take(room + CACHE_LINE);
    let room = aligned(&mut buffer);
    for span in pieces(depth, span) {
        let room = &mut room[..Panels::room(width, shared.rows, span.len())];
        pack(kernel, side, shared.part(0..shared.rows, span.clone()), room);
        let shared = Operand::Packed(Panels::new(room, width, span.len()));
        let split = split.part(0..split.rows, span.clone());
        let output = output.part(0..output.rows(), 0..output.columns());
        let write = if span.start == 0 { write } else { Write::Add };
        Task { kernel, shared, side, split, piece, output, write }.run_all();
    }
}

/// Packs an operand on all threads.
fn pack<K: Kernel>(kernel: K, side: Side, lines: Matrix<'_>, room: &mut [f32]) {
    let (width, depth) = (K::width(side), lines.columns);
    let stride = Panels::stride(width, depth);
    let half = lines.rows.div_ceil(width) / 2;
    if half == 0 || room.len() < 2 * FEWEST_TO_PACK {
        return kernel.pack(side, lines, room, stride);
    }
    let (first, second) = room.split_at_mut(half * stride);
    let [before, after] = [0..half * width, half * width..lines.rows];
    rayon::join(
        || pack(kernel, side, lines.part(before, 0..depth), first),
        || pack(kernel, side, lines.part(after, 0..depth), second),
    );
}

/// A part of a product.
struct Task<'a, K> {
    kernel: K,
    /// The operand that all tasks read.
    shared: Operand<'a>,
    /// Its side.
    side: Side,
    /// The other operand's lines for the part.
    split: Matrix<'a>,
    /// Depth of a piece of the whole product, of which the part may have a span.
    piece: usize,
    output: MatrixMut<'a>,
    write: Write<'a>,
}

impl<K: Kernel> Task<'_, K> {
    /// Makes the product in tasks that fit a block, and are some for each thread.
    fn run_all(self) {
        let tasks = TASKS_PER_THREAD * rayon::current_num_threads();
        let lines = self.split.rows.div_ceil(tasks).next_multiple_of(K::width(self.side.other()));
        let block = block_lines::<K>(self.side.other(), self.piece);
        self.run(lines.min(block));
    }

    /// Makes the part, cut into tasks of at most `most` lines.
    fn run(self, most: usize) {
        let width = K::width(self.side.other());
        let lines = self.split.rows;
        let half = lines.div_ceil(width) / 2 * width;
        if lines <= most || half == 0 {
            return self.multiply();
        }
        let (first, second) = self.cut(half);
        rayon::join(|| first.run(most), || second.run(most));
    }

    /// The part's first `at` lines, and the others.
    fn cut(self, at: usize) -> (Self, Self) {
        let Self { kernel, shared, side, split, piece, output, write } = self;
        let (outputs, writes) = match side {
            Side::Right => (output.split_rows(at), [write; 2]),
            Side::Left => {
                let all = output.columns();
                (output.split_columns(at), [0..at, at..all].map(|columns| write.columns(&columns)))
            }
        };
        let [before, after] =
            [0..at, at..split.rows].map(|lines| split.part(lines, 0..split.columns));
        (
            Self {
                kernel,
                shared,
                side,
                split: before,
                piece,
                output: outputs.0,
                write: writes[0],
            },
            Self { kernel, shared, side, split: after, piece, output: outputs.1, write: writes[1] },
        )
    }

    fn multiply(self) {
        let (left, right) = match self.side {
            Side::Right => (Operand::left::<K>(self.split), self.shared),
            Side::Left => (self.shared, Operand::Plain(self.split)),
        };
        blocks::multiply(self.kernel, left, right, self.piece, self.output, self.write);
    }
}
