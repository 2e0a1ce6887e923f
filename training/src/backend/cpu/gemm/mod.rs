//! Products of matrices in single precision.
//!
//! `C = A · B` is made tile by tile. A micro-kernel (`Kernel`) keeps a tile of `C` in registers,
//! `M_R × N_R` numbers, and adds to it, for one step of the depth `k` after the other, a column of
//! `A` times a row of `B`. All around it serves to have those numbers at hand:
//!
//! 1. **Packing** (`panels`). `A` and `B` are copied into panels, `M_R` rows or `N_R` columns
//!    each, in the order in which the kernel reads them.
//! 2. **Blocking** (`blocks`). A panel of `B` is used for all rows of a block of `A`, which lies
//!    in the second cache for that time.
//! 3. **Threads** (`threads`). One operand is packed once for all threads; the other is cut into
//!    tasks, each of which packs its own part: nothing is packed twice.
//!
//! ```text
//!              N                       for each piece of the depth
//!        ┌───┬───┬───┐                   pack a block of B           (second cache, or shared)
//!      B │   │N_R│   │ k                 for each block of rows
//!        └───┴───┴───┘                     pack a block of A         (second cache)
//!   k    ┌───┬───┬───┐                     for each N_R columns      (a panel of B)
//! ┌───┐  │   │   │   │                       for each M_R rows       (a panel of A)
//! │M_R│  │   │ C │   │ M                       multiply the panels   (a tile of C in registers)
//! └───┘  └───┴───┴───┘
//!   A
//! ```
//!
//! `M_R × N_R` is 12 × 32 with AVX-512 ([`kernel_avx512`]), 6 × 16 with AVX2 ([`kernel_avx2`]). A
//! left operand by rows need not be packed: the kernel reads it where it lies ([`left`]). A block of
//! `A` has up to 288 KiB, one of `B` 512 KiB; a piece of the depth has up to 512 steps.
//!
//! # Order of sums
//!
//! Every number of `C` is summed in the same order, whatever its neighbors, the number of threads
//! and the sizes of the other two dimensions: along equal pieces of the depth (`blocks::DEPTH`), in
//! each from its first product to its last, with one rounding for a product and its addition.
//! AVX-512 and AVX2 give the same bits.
//!
//! # Sources
//!
//! Blocks and panels are those of Goto and van de Geijn, *Anatomy of High-Performance Matrix
//! Multiplication*, ACM Transactions on Mathematical Software 34 (3), 2008; names are those of Van
//! Zee and van de Geijn, *BLIS: A Framework for Rapidly Instantiating BLAS Functionality*, 41 (3),
//! 2015.

mod blocks;
#[cfg(target_arch = "x86_64")]
mod kernel_avx2;
#[cfg(target_arch = "x86_64")]
mod kernel_avx512;
mod kernel_portable;
mod left;
#[cfg(target_arch = "x86_64")]
mod pack_avx2;
mod panels;
mod prefetch;
mod scratch;
mod threads;

use self::blocks::{Operand, piece_depth};
use self::kernel_portable::Portable;
use self::left::Left;
#[cfg(target_arch = "x86_64")]
use self::{kernel_avx2::Avx2, kernel_avx512::Avx512};
use super::matrix::{Matrix, MatrixMut, Write};
use super::vector::Vector;

/// Multiply-adds below which threads cost more than they save.
const FEWEST_FOR_THREADS: usize = 1 << 20;

/// Which operand of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The left one; its lines are its rows.
    Left,
    /// The right one; its lines are its columns.
    Right,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// A micro-kernel: makes a tile of a product from a panel of each operand.
trait Kernel: Copy + Send + Sync {
    /// Rows of a tile, `M_R`.
    const ROWS: usize;
    /// Columns of a tile, `N_R`.
    const COLUMNS: usize;
    /// Whether it takes [`Left::Rows`].
    const READS_IN_PLACE: bool;

    /// Packs an operand, whose rows are its lines, as panels that begin `stride` numbers after each
    /// other.
    fn pack(self, side: Side, lines: Matrix<'_>, panels: &mut [f32], stride: usize);

    /// Writes to `output`, which is a tile or, at the edge, less, the product of `left` and the
    /// panel `right`. Meanwhile it fetches `next` into the second cache, a line each few steps.
    fn multiply(
        self,
        left: Left<'_>,
        right: &[f32],
        next: &[f32],
        output: MatrixMut<'_>,
        write: Write<'_>,
    );

    /// Lines of a panel.
    fn width(side: Side) -> usize {
        match side {
            Side::Left => Self::ROWS,
            Side::Right => Self::COLUMNS,
        }
    }
}

/// `output` = `left · right`, or what [`Write`] says, on all threads of the pool.
///
/// # Panics
///
/// When shapes disagree.
pub fn multiply(
    vector: Vector,
    left: Matrix<'_>,
    right: Matrix<'_>,
    output: MatrixMut<'_>,
    write: Write<'_>,
) {
    let small = left.rows * left.columns * right.columns < FEWEST_FOR_THREADS;
    Product { left, right, output, write, threads: !small }.make(vector);
}

/// [`multiply`] on the thread that calls it alone, with the same result.
///
/// # Panics
///
/// When shapes disagree.
pub fn multiply_here(
    vector: Vector,
    left: Matrix<'_>,
    right: Matrix<'_>,
    output: MatrixMut<'_>,
    write: Write<'_>,
) {
    Product { left, right, output, write, threads: false }.make(vector);
}

/// A product to make.
struct Product<'a> {
    left: Matrix<'a>,
    right: Matrix<'a>,
    output: MatrixMut<'a>,
    write: Write<'a>,
    /// Whether on all threads of the pool.
    threads: bool,
}

impl Product<'_> {
    /// Makes it with the best kernel for `vector`.
    fn make(mut self, vector: Vector) {
        let [m, n] = [self.left.rows, self.right.columns];
        assert_eq!(self.left.columns, self.right.rows, "inner dimensions");
        assert_eq!([self.output.rows(), self.output.columns()], [m, n], "output of {m} × {n}");
        if let Write::Bias(bias) = self.write {
            assert_eq!(bias.len(), n, "a bias for each column");
        }
        if m == 0 || n == 0 {
            return;
        }
        if self.left.columns == 0 {
            return write_nothing(&mut self.output, self.write);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(kernel) = Avx512::new(vector) {
            return self.make_with(kernel);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(kernel) = Avx2::new(vector) {
            return self.make_with(kernel);
        }
        self.make_with(Portable(vector));
    }

    fn make_with<K: Kernel>(self, kernel: K) {
        let (left, right) = (self.left, self.right.transposed());
        if self.threads {
            threads::multiply(kernel, left, right, self.output, self.write);
        } else {
            let (left, right) = (Operand::left::<K>(left), Operand::Plain(right));
            let piece = piece_depth(self.left.columns);
            blocks::multiply(kernel, left, right, piece, self.output, self.write);
        }
    }
}

/// Writes a product of depth 0.
fn write_nothing(output: &mut MatrixMut<'_>, write: Write<'_>) {
    for row in 0..output.rows() {
        match write {
            Write::Replace => output.row(row).fill(0.0),
            Write::Add => {}
            Write::Bias(bias) => output.row(row).copy_from_slice(bias),
        }
    }
}
