//! Matrix products against a plain triple loop, and each kind of vector code against the others.

use rayon::ThreadPoolBuilder;
use training::backend::cpu::gemm;
use training::backend::cpu::matrix::{Matrix, MatrixMut, Write};
use training::backend::cpu::vector::Vector;

/// Numbers without a pattern, between -1 and 1: xorshift.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn up_to(&mut self, most: usize) -> usize {
        self.next() as usize % (most + 1)
    }

    fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
    }
}

/// A matrix as it lies in memory: by rows or transposed, in rows that may be longer than it is wide.
struct Stored {
    values: Vec<f32>,
    rows: usize,
    columns: usize,
    stride: usize,
    transposed: bool,
}

impl Stored {
    fn made_up(numbers: &mut Numbers, rows: usize, columns: usize) -> Self {
        let (transposed, gap) = (numbers.up_to(1) == 1, numbers.up_to(1) * numbers.up_to(9));
        let (lines, width) = if transposed { (columns, rows) } else { (rows, columns) };
        let values = numbers.values(lines * (width + gap));
        Self { values, rows, columns, stride: width + gap, transposed }
    }

    fn matrix(&self) -> Matrix<'_> {
        if self.transposed {
            Matrix::strided(&self.values, self.columns, self.rows, self.stride).transposed()
        } else {
            Matrix::strided(&self.values, self.rows, self.columns, self.stride)
        }
    }

    fn index(&self, row: usize, column: usize) -> usize {
        if self.transposed { column * self.stride + row } else { row * self.stride + column }
    }
}

/// A product to check.
struct Case {
    left: Stored,
    right: Stored,
    bias: Vec<f32>,
    /// What the output holds before: `right.columns` numbers a row, and then some that no product
    /// may change.
    before: Vec<f32>,
    stride: usize,
}

impl Case {
    fn made_up(numbers: &mut Numbers, [m, n, k]: [usize; 3]) -> Self {
        let stride = n + numbers.up_to(5);
        Self {
            left: Stored::made_up(numbers, m, k),
            right: Stored::made_up(numbers, k, n),
            bias: numbers.values(n),
            before: numbers.values(m * stride),
            stride,
        }
    }

    fn writes(&self) -> [Write<'_>; 3] {
        [Write::Replace, Write::Add, Write::Bias(&self.bias)]
    }

    /// The output of a product with `vector`, with numbers around it.
    fn product(&self, vector: Vector, write: Write<'_>, threads: bool) -> Vec<f32> {
        let mut output = self.before.clone();
        let (m, n) = (self.left.rows, self.right.columns);
        let matrix = MatrixMut::strided(&mut output, m, n, self.stride);
        let multiply = if threads { gemm::multiply } else { gemm::multiply_here };
        multiply(vector, self.left.matrix(), self.right.matrix(), matrix, write);
        output
    }

    /// Checks an output against sums in `f64`: the error of a sum of `k` products of numbers up to
    /// 1 is at most `k` roundings of numbers up to `k`, and in practice far less.
    fn check(&self, output: &[f32], write: Write<'_>) {
        let (m, n, k) = (self.left.rows, self.right.columns, self.left.columns);
        for row in 0..m {
            for column in 0..self.stride {
                let i = row * self.stride + column;
                if column >= n {
                    assert_eq!(output[i], self.before[i], "a number beyond the output");
                    continue;
                }
                let product = |depth: usize| {
                    let left = self.left.values[self.left.index(row, depth)];
                    f64::from(left) * f64::from(self.right.values[self.right.index(depth, column)])
                };
                let start = match write {
                    Write::Replace => 0.0,
                    Write::Add => self.before[i],
                    Write::Bias(bias) => bias[column],
                };
                let expected = (0..k).map(product).sum::<f64>() + f64::from(start);
                let tolerance = 1e-6 * (1.0 + k as f64).sqrt() + 1e-6;
                let error = (f64::from(output[i]) - expected).abs();
                assert!(
                    error <= tolerance,
                    "{m} × {n} × {k} at {row}, {column}: {}, expected {expected}",
                    output[i]
                );
            }
        }
    }

    /// Checks every kind of vector code, on one thread and on all.
    fn check_all(&self) {
        for write in self.writes() {
            for vector in Vector::all() {
                let here = self.product(vector, write, false);
                self.check(&here, write);
                assert_same(&self.product(vector, write, true), &here, "on all threads");
            }
        }
    }
}

/// Checks that outputs are the same to the bit.
fn assert_same(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.to_bits(), expected.to_bits(), "{what} at {i}: {found}, {expected}");
    }
}

#[test]
fn small_products_equal_plain_sums() {
    let mut numbers = Numbers(0x1234_5678_9abc_def1);
    for _ in 0..150 {
        let [m, n] = [numbers.up_to(40), numbers.up_to(70)];
        let k = numbers.up_to(50);
        Case::made_up(&mut numbers, [m, n, k]).check_all();
    }
}

#[test]
fn products_of_every_tile_equal_plain_sums() {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    for m in 1..=25 {
        for n in [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49] {
            Case::made_up(&mut numbers, [m, n, 1 + m % 9]).check_all();
        }
    }
}

#[test]
fn products_of_many_blocks_equal_plain_sums() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    // Taller, wider and deeper than a block, and large enough for threads.
    for shape in [[261, 67, 130], [61, 1100, 40], [37, 29, 1537], [13, 900, 520], [1, 3000, 513]] {
        Case::made_up(&mut numbers, shape).check_all();
    }
}

#[test]
fn a_row_alone_is_the_same_as_among_others() {
    let mut numbers = Numbers(0xdead_beef_cafe_f00d);
    let case = Case::made_up(&mut numbers, [50, 40, 700]);
    let all = case.product(Vector::best(), Write::Replace, true);
    for row in [0, 12, 49] {
        let left = case.left.matrix().part(row..row + 1, 0..700);
        let mut alone = vec![0.0; 40];
        let output = MatrixMut::new(&mut alone, 40);
        gemm::multiply_here(Vector::best(), left, case.right.matrix(), output, Write::Replace);
        assert_same(&alone, &all[row * case.stride..][..40], "a row alone");
    }
}

#[test]
fn vector_codes_with_fused_multiply_add_agree_to_the_bit() {
    let mut numbers = Numbers(0x0123_4567_89ab_cdef);
    let case = Case::made_up(&mut numbers, [45, 83, 600]);
    let expected = case.product(Vector::best(), Write::Add, true);
    for vector in Vector::all().into_iter().filter(|vector| vector.has_avx2()) {
        assert_same(&case.product(vector, Write::Add, true), &expected, vector.name());
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let mut numbers = Numbers(0xfeed_face_0bad_cafe);
    // By rows, by columns, and so deep that the packed operand is walked in spans, each in some
    // orders of the operands.
    for shape in [[300, 100, 300], [70, 700, 200], [60, 50, 50_000], [40, 60, 60_000]].repeat(4) {
        let case = Case::made_up(&mut numbers, shape);
        let here = case.product(Vector::best(), Write::Add, false);
        for threads in [1, 2, 3, 8] {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            let output = pool.install(|| case.product(Vector::best(), Write::Add, true));
            assert_same(&output, &here, "on some threads");
        }
    }
}

#[test]
fn products_at_the_same_time_do_not_disturb_each_other() {
    let mut numbers = Numbers(0x0f0f_0f0f_1234_4321);
    let cases = [[150, 200, 180], [90, 310, 260]].map(|shape| Case::made_up(&mut numbers, shape));
    let alone = cases.each_ref().map(|case| case.product(Vector::best(), Write::Replace, false));
    std::thread::scope(|scope| {
        for (case, alone) in cases.iter().zip(&alone) {
            scope.spawn(move || {
                for _ in 0..20 {
                    let together = case.product(Vector::best(), Write::Replace, true);
                    assert_same(&together, alone, "beside another product");
                }
            });
        }
    });
}

#[test]
fn what_is_no_number_stays_so() {
    for vector in Vector::all() {
        for (bad, times, expected_nan) in [(f32::NAN, 0.0, true), (f32::INFINITY, 2.0, false)] {
            let (mut left, mut right) = (vec![1.0; 20 * 30], vec![1.0; 30 * 40]);
            left[7 * 30 + 11] = bad;
            right[11 * 40 + 39] = times;
            let mut output = vec![0.0; 20 * 40];
            let matrix = MatrixMut::new(&mut output, 40);
            let (left, right) = (Matrix::new(&left, 30), Matrix::new(&right, 40));
            gemm::multiply(vector, left, right, matrix, Write::Replace);
            for (i, &value) in output.iter().enumerate() {
                match i / 40 {
                    7 if expected_nan => assert!(value.is_nan(), "{vector:?} at {i}: {value}"),
                    7 => assert_eq!(value, f32::INFINITY, "{vector:?} at {i}"),
                    _ if i % 40 == 39 => assert_eq!(value, 29.0 + times),
                    _ => assert_eq!(value, 30.0),
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "inner dimensions")]
fn operands_that_do_not_fit_are_refused() {
    let (values, mut output) = ([0.0; 6], [0.0; 9]);
    let (left, right) = (Matrix::new(&values, 2), Matrix::new(&values, 2));
    let output = MatrixMut::new(&mut output, 3);
    gemm::multiply(Vector::best(), left, right, output, Write::Replace);
}

#[test]
#[should_panic(expected = "rows that do not overlap")]
fn an_output_of_overlapping_rows_is_refused() {
    let _ = MatrixMut::strided(&mut [0.0; 9], 3, 3, 2);
}
