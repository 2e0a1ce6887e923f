//! How the kernels of this folder become vector code, and the functions they are made of.
//!
//! A kernel is a plain loop that the compiler turns into vector instructions. The macro
//! `vectorized!` compiles it three times, for AVX-512, for AVX2 with fused multiply-add and for
//! whatever the build targets; [`Vector`] says which to run. The exponential and the normal
//! distribution are short formulas, since calls into the C library would keep a loop scalar.
//!
//! AVX-512 pays where a kernel computes much for each number: on one core of a Zen 4, bias and GELU
//! of 1,024 × 1,536 numbers take 0.76 ms in place of AVX2's 1.16, and a dropout mask of 1,024 × 384
//! is drawn in 0.23 ms in place of 0.30. What reads and adds is no faster, a layer norm's backward
//! pass even slower (0.32 ms in place of 0.24, for the sums over its lanes). Both give the same bits.
//!
//! A closure that is no more than a few operations is inlined into a kernel, a larger one may become
//! a function of its own that has no vector instructions: large steps are loops.
//!
//! What is not a number stays so in every function: a diverged run must be seen.

/// The instructions that a kernel runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vector(Instructions);

/// From the fewest to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Instructions {
    Portable,
    Avx2,
    Avx512,
}

impl Vector {
    /// The best that this processor has.
    #[must_use]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let has_avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq");
            return Self(if has_avx512 { Instructions::Avx512 } else { Instructions::Avx2 });
        }
        Self::portable()
    }

    /// What every processor of the build's target has.
    #[must_use]
    pub fn portable() -> Self {
        Self(Instructions::Portable)
    }

    /// All that this processor has, from the portable to the best: what tests compare.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let known = [Instructions::Portable, Instructions::Avx2, Instructions::Avx512];
        known.into_iter().filter(|&known| known <= Self::best().0).map(Self).collect()
    }

    /// What the instructions are called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Instructions::Portable => "portable",
            Instructions::Avx2 => "AVX2 with FMA",
            Instructions::Avx512 => "AVX-512",
        }
    }

    /// Whether AVX2 and fused multiply-add may be used; then the processor has them.
    #[must_use]
    pub fn has_avx2(self) -> bool {
        self.0 >= Instructions::Avx2
    }

    /// Whether AVX-512 (F, VL, BW and DQ) may be used beside AVX2; then the processor has it.
    #[must_use]
    pub fn has_avx512(self) -> bool {
        self.0 >= Instructions::Avx512
    }
}

/// Defines a kernel: a function of a [`Vector`] and its own arguments.
///
/// In the body, the constant `FMA` says whether `a·b + c` is one instruction, for [`fma`].
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?)
     $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "a kernel's inputs and outputs")]
        $vis fn $name(vector: $crate::backend::cpu::vector::Vector, $($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "a kernel's inputs and outputs")]
            fn body<const FMA: bool>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            if vector.has_avx512() {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
                #[allow(clippy::too_many_arguments, reason = "a kernel's inputs and outputs")]
                fn avx512($($arg: $ty),*) $(-> $ret)? {
                    body::<true>($($arg),*)
                }
                // SAFETY: a `Vector` has AVX-512 only where the processor was found to have it.
                return unsafe { avx512($($arg),*) };
            }
            #[cfg(target_arch = "x86_64")]
            if vector.has_avx2() {
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments, reason = "a kernel's inputs and outputs")]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    body::<true>($($arg),*)
                }
                // SAFETY: a `Vector` has AVX2 only where the processor was found to have it.
                return unsafe { avx2($($arg),*) };
            }
            let _ = vector;
            body::<{ cfg!(target_arch = "aarch64") }>($($arg),*)
        }
    };
}
pub(crate) use vectorized;

/// `a·b + c`, in one instruction where `FMA` says that there is one.
#[inline(always)]
pub(crate) fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `e^x`, with a relative error below 2e-7; `x` is cut to -87.3 ..= 88.3, where the result is a
/// normal number.
///
/// `x = n·ln 2 + r` with an integer `n`; `e^r` is the Taylor polynomial of degree 7, whose own
/// error for `|r| ≤ ln 2 / 2` is 5e-9. The factor `2^n` is made of its exponent's bits, which are
/// any bits where `x` is no number; a product with what is no number stays none.
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    // Adding 1.5·2^23 leaves the nearest integer in the low bits of the sum; 127 more, the bias of
    // an exponent.
    const TO_INTEGER: f32 = 12_582_912.0 + 127.0;
    // ln 2 in two parts, the first with enough trailing zeros for n·ln 2 to be exact.
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = -2.121_944_4e-4;

    // Comparisons, not `clamp`'s min and max, keep what is not a number.
    let x = if x < -87.3 { -87.3 } else { x };
    let x = if x > 88.3 { 88.3 } else { x };
    let shifted = fma::<FMA>(x, std::f32::consts::LOG2_E, TO_INTEGER);
    let n = shifted - TO_INTEGER;
    let r = fma::<FMA>(n, -LN_2_LOW, fma::<FMA>(n, -LN_2_HIGH, x));
    let mut power = 1.0 / 5040.0;
    power = fma::<FMA>(power, r, 1.0 / 720.0);
    power = fma::<FMA>(power, r, 1.0 / 120.0);
    power = fma::<FMA>(power, r, 1.0 / 24.0);
    power = fma::<FMA>(power, r, 1.0 / 6.0);
    power = fma::<FMA>(power, r, 0.5);
    power = fma::<FMA>(power, r * r, r) + 1.0;
    power * f32::from_bits(shifted.to_bits() << 23)
}

/// `(Φ(x), e^(-x²/2))`: the normal distribution with an absolute error below 3e-7, and the
/// exponential that it and its density share.
///
/// Abramowitz and Stegun, *Handbook of Mathematical Functions*, 7.1.26, for `erf(|x| / √2)`; in
/// the lower tail the relative error stays small too, since nothing is subtracted from 1.
#[inline(always)]
pub(crate) fn normal_cdf<const FMA: bool>(x: f32) -> (f32, f32) {
    const P: f32 = 0.327_591_1 * std::f32::consts::FRAC_1_SQRT_2;
    const A: [f32; 5] = [0.254_829_6, -0.284_496_74, 1.421_413_7, -1.453_152, 1.061_405_4];

    let density = exp::<FMA>(-0.5 * x * x);
    let t = 1.0 / fma::<FMA>(P, x.abs(), 1.0);
    let mut sum = A[4];
    for a in [A[3], A[2], A[1], A[0]] {
        sum = fma::<FMA>(sum, t, a);
    }
    let tail = 0.5 * sum * t * density;
    (if x < 0.0 { tail } else { 1.0 - tail }, density)
}

/// `tanh(x)`, with an absolute error below 3e-7.
#[inline(always)]
pub(crate) fn tanh<const FMA: bool>(x: f32) -> f32 {
    1.0 - 2.0 / (exp::<FMA>(2.0 * x) + 1.0)
}

/// Numbers per task of a loop over all numbers of a tensor.
pub(crate) const CHUNK: usize = 1 << 16;

vectorized! {
    /// Adds to each of `sums` its number in `addends`.
    pub(crate) fn add_slice(sums: &mut [f32], addends: &[f32]) {
        for (sum, addend) in sums.iter_mut().zip(addends) {
            *sum += addend;
        }
    }
}

vectorized! {
    /// Multiplies each of `values` by its number in `factors`.
    pub(crate) fn multiply_slice(values: &mut [f32], factors: &[f32]) {
        for (value, factor) in values.iter_mut().zip(factors) {
            *value *= factor;
        }
    }
}

vectorized! {
    /// Multiplies all `values` by `factor`.
    pub(crate) fn scale_slice(values: &mut [f32], factor: f32) {
        for value in values {
            *value *= factor;
        }
    }
}

/// How many partial results a reduction keeps, so that it vectorizes: four AVX2 registers.
pub(crate) const LANES: usize = 32;

/// One number of all lanes: halves of them are joined again and again, which takes five steps in a
/// row where going from lane to lane takes 31.
///
/// The lanes go through memory first. Otherwise the compiler sees through to the loop that made
/// them, and keeps them there in pieces of two: a layer norm takes a third longer.
#[inline(always)]
pub(crate) fn fold(lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = std::hint::black_box(lanes);
    for half in [LANES / 2, LANES / 4, LANES / 8, LANES / 16, LANES / 32] {
        for lane in 0..half {
            lanes[lane] = join(lanes[lane], lanes[lane + half]);
        }
    }
    lanes[0]
}

#[inline(always)]
pub(crate) fn add(a: f32, b: f32) -> f32 {
    a + b
}

/// The larger of two; not a number if one of them is not.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b <= a || a.is_nan() { a } else { b }
}

/// The largest of `values`; not a number if one of them is not.
#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, value);
        }
    }
    rest.iter().fold(fold(lanes, larger), |largest, &value| larger(largest, value))
}

/// The sum of `values`, always in the same order.
#[inline(always)]
pub(crate) fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    fold(lanes, add) + rest.iter().sum::<f32>()
}

/// The sum of products of `a` and `b`, always in the same order.
#[inline(always)]
pub(crate) fn dot<const FMA: bool>(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let ((a_chunks, a_rest), (b_chunks, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            lanes[lane] = fma::<FMA>(a[lane], b[lane], lanes[lane]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    fold(lanes, add) + rest
}

/// Replaces each value by `e^((value - shift) · scale)` and returns the sum.
#[inline(always)]
pub(crate) fn exp_and_sum<const FMA: bool>(values: &mut [f32], shift: f32, scale: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *value = exp::<FMA>((*value - shift) * scale);
            *lane += *value;
        }
    }
    let mut total = fold(lanes, add);
    for value in rest {
        *value = exp::<FMA>((*value - shift) * scale);
        total += *value;
    }
    total
}
