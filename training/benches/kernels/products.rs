//! The matrix products of a step.

use burn::tensor::{Tensor, TensorData};
use training::backend::Cpu;
use training::backend::cpu::matrix::{Matrix, Write, multiply};

use super::operation::{Call, numbers};
use super::times::{Calls, Times};
use super::torch::Torch;
use crate::table::Table;
use crate::{BATCH, CALLS, HIDDEN, SEQ, VOCABULARY};

const ROWS: usize = BATCH * SEQ;
/// Rows of the head's chunks.
const CHUNK: usize = 512;

/// `[m, k]` times `[k, n]`.
pub(crate) struct Product {
    pub(crate) name: &'static str,
    sizes: [usize; 3],
    ours: Calls,
    gemm: Calls,
    stock: Calls,
    call_ours: Call,
    call_gemm: Call,
    call_stock: Call,
}

/// How the two sides lie in memory.
#[derive(Clone, Copy)]
enum Stored {
    /// Both by rows.
    Plain,
    /// The left one by columns.
    LeftTransposed,
    /// The right one by columns.
    RightTransposed,
}

/// Names are known to `kernels_torch.py`.
pub(crate) fn all() -> Vec<Product> {
    use Stored::{LeftTransposed, Plain, RightTransposed};
    let (wide, words) = (4 * HIDDEN, VOCABULARY);
    vec![
        Product::new("product: query, key and value", [ROWS, HIDDEN, 3 * HIDDEN], Plain),
        Product::new("product: attention's output", [ROWS, HIDDEN, HIDDEN], Plain),
        Product::new("product: MLP up", [ROWS, HIDDEN, wide], Plain),
        Product::new("product: MLP down", [ROWS, wide, HIDDEN], Plain),
        Product::new("product: MLP up, input gradient", [ROWS, wide, HIDDEN], RightTransposed),
        Product::new("product: MLP up, weight gradient", [HIDDEN, ROWS, wide], LeftTransposed),
        Product::new("product: logits", [CHUNK, HIDDEN, words], RightTransposed),
        Product::new("product: head, input gradient", [CHUNK, words, HIDDEN], Plain),
        Product::new("product: head, weight gradient", [words, CHUNK, HIDDEN], LeftTransposed),
    ]
}

impl Product {
    fn new(name: &'static str, sizes: [usize; 3], stored: Stored) -> Self {
        let [m, k, n] = sizes;
        let call_ours: Call = {
            let (left, right) = (numbers(m * k, 1), numbers(k * n, 2));
            let output = std::cell::RefCell::new(vec![0.0; m * n]);
            Box::new(move |times| {
                let (left, right) = match stored {
                    Stored::Plain => (Matrix::new(&left, k), Matrix::new(&right, n)),
                    Stored::LeftTransposed => {
                        (Matrix::new(&left, m).transposed(), Matrix::new(&right, n))
                    }
                    Stored::RightTransposed => {
                        (Matrix::new(&left, k), Matrix::new(&right, k).transposed())
                    }
                };
                let output = &mut output.borrow_mut()[..];
                times.forward.measure(|| multiply(left, right, output, Write::Replace));
            })
        };
        let call_gemm: Call = {
            let (left, right) = (numbers(m * k, 1), numbers(k * n, 2));
            let output = std::cell::RefCell::new(vec![0.0; m * n]);
            Box::new(move |times| {
                let output = &mut output.borrow_mut()[..];
                times.forward.measure(|| gemm_crate(sizes, stored, &left, &right, output));
            })
        };
        let call_stock: Call = {
            let tensor = |rows: usize, columns: usize| {
                let values = TensorData::new(numbers(rows * columns, 1), [rows, columns]);
                Tensor::<Cpu, 2>::from_data(values, &Default::default())
            };
            let (left, right) = match stored {
                Stored::Plain => (tensor(m, k), tensor(k, n)),
                Stored::LeftTransposed => (tensor(k, m).transpose(), tensor(k, n)),
                Stored::RightTransposed => (tensor(m, k), tensor(n, k).transpose()),
            };
            Box::new(move |times| {
                let (left, right) = (left.clone(), right.clone());
                times.forward.measure(|| left.matmul(right));
            })
        };
        let [ours, gemm, stock] = [(); 3].map(|()| Calls::default());
        Self { name, sizes, ours, gemm, stock, call_ours, call_gemm, call_stock }
    }

    /// A round: all in turn.
    pub(crate) fn run(&mut self) {
        for call in 0..=CALLS {
            for (calls, work) in [
                (&mut self.ours, &self.call_ours),
                (&mut self.gemm, &self.call_gemm),
                (&mut self.stock, &self.call_stock),
            ] {
                let mut times = Times::default();
                work(&mut times);
                // The first of a round warms up.
                if call > 0 {
                    calls.extend(&times.forward);
                }
            }
        }
    }

    /// Speed, as median with the slowest and the fastest.
    fn rate(&self, calls: &Calls) -> String {
        let operations = 2.0 * self.sizes.iter().map(|&size| size as f64).product::<f64>();
        match calls.spread().map(|all| all.map(|seconds| operations / seconds / 1e9)) {
            Some([fastest, median, slowest]) => {
                format!("{median:.0} ({slowest:.0} to {fastest:.0})")
            }
            None => "-".to_owned(),
        }
    }
}

pub(crate) fn table(products: &[Product], torch: &Torch) -> Table {
    let mut table = Table::new(["product", "m x k x n", "ours", "gemm crate", "burn's", "torch's"]);
    for product in products {
        let name = product.name.trim_start_matches("product: ").to_owned();
        let peer = torch.times(product.name).forward;
        let rates =
            [&product.ours, &product.gemm, &product.stock, &peer].map(|calls| product.rate(calls));
        let sizes = product.sizes.map(|size| size.to_string()).join(" x ");
        table.push([name, sizes].into_iter().chain(rates));
    }
    table
}

/// The product by the `gemm` crate, which this crate's own took the place of.
fn gemm_crate([m, k, n]: [usize; 3], stored: Stored, left: &[f32], right: &[f32], out: &mut [f32]) {
    let (left_strides, right_strides) = match stored {
        Stored::Plain => ([k, 1], [n, 1]),
        Stored::LeftTransposed => ([1, m], [n, 1]),
        Stored::RightTransposed => ([k, 1], [1, k]),
    };
    let ([left_row, left_column], [right_row, right_column]) =
        (left_strides.map(|stride| stride as isize), right_strides.map(|stride| stride as isize));
    assert_eq!([left.len(), right.len(), out.len()], [m * k, k * n, m * n]);
    // SAFETY: the strides stay within the slices, which hold as many numbers as the sizes say.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            false,
            left.as_ptr(),
            left_column,
            left_row,
            right.as_ptr(),
            right_column,
            right_row,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::Rayon(0),
        );
    }
}
