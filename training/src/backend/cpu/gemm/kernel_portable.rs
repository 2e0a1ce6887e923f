//! The micro-kernel for any processor: plain loops over arrays, which the compiler turns into the
//! vector instructions of the target.

use super::super::matrix::{Matrix, MatrixMut, Write};
use super::super::vector::{Vector, fma};
use super::left::Left;
use super::panels::pack;
use super::{Kernel, Side};

/// Whether the target has a fused multiply-add: then it has 32 registers, too.
const FMA: bool = cfg!(target_arch = "aarch64");
const ROWS: usize = if FMA { 8 } else { 4 };
const COLUMNS: usize = 8;

/// The kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable(pub(super) Vector);

impl Kernel for Portable {
    const ROWS: usize = ROWS;
    const COLUMNS: usize = COLUMNS;
    const READS_IN_PLACE: bool = false;

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
        _next: &[f32],
        mut output: MatrixMut<'_>,
        write: Write<'_>,
    ) {
        let mut sums = [[0.0; COLUMNS]; ROWS];
        let Left::Panel(left) = left else { unreachable!("rows that were to be packed") };
        let (left, right) = (left.as_chunks::<ROWS>().0, right.as_chunks::<COLUMNS>().0);
        for (left, right) in left.iter().zip(right) {
            for (sums, &a) in sums.iter_mut().zip(left) {
                for (sum, &b) in sums.iter_mut().zip(right) {
                    *sum = fma::<FMA>(a, b, *sum);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate().take(output.rows()) {
            let numbers = output.row(i).iter_mut().zip(sums);
            match write {
                Write::Replace => numbers.for_each(|(number, sum)| *number = *sum),
                Write::Add => numbers.for_each(|(number, sum)| *number += sum),
                Write::Bias(bias) => {
                    numbers.zip(bias).for_each(|((number, sum), bias)| *number = sum + bias);
                }
            }
        }
    }
}
