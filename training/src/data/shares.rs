//! Weights as whole numbers: what a [`Blend`](super::Blend) can count with.
//!
//! A weight is read as the decimal that was written, so `0.999` and `0.001` are 999 and 1 of 1,000
//! and not two floats near them: the blend's period is then 1,000 samples, and after each of them
//! every source has had its share to the sample. Weights whose common denominator is out of reach
//! (a third next to a seventh of something, in 17 digits) are rounded to multiples of 2⁻³², which
//! moves a source's share by less than a sample in four billion.

/// Whole numbers of samples in which sources share a period; their sum is the period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shares {
    /// Samples of each source in a period.
    pub(super) parts: Vec<u64>,
    /// Their sum.
    pub(super) period: u64,
}

/// Longest period that is kept exact: lags, which are below it, then have 15 bits to spare in 64.
const MAX_PERIOD: u128 = 1 << 48;

/// Longest period, or beginning of one, for which a blend is willing to note its way.
const MAX_NOTED: u64 = 1 << 32;

/// A positive fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fraction {
    numerator: u128,
    denominator: u128,
}

impl Shares {
    /// The shares of a run of `length` samples between groups of weighted sources: a group's weight
    /// is divided between its sources by theirs. All weights are finite and above 0.
    pub(super) fn new(groups: &[(f64, Vec<f64>)], length: u64) -> Self {
        let exact = exact(groups).filter(|shares| shares.period.min(length) <= MAX_NOTED);
        exact.unwrap_or_else(|| rounded(groups))
    }
}

/// The shares as the decimals say, where their period is one that can be counted with.
fn exact(groups: &[(f64, Vec<f64>)]) -> Option<Shares> {
    let mut shares = Vec::new();
    for (weight, sources) in groups {
        let weight = Fraction::decimal(*weight)?;
        let sources: Vec<_> =
            sources.iter().map(|&it| Fraction::decimal(it)).collect::<Option<_>>()?;
        let mut sum = sources[0];
        for &source in &sources[1..] {
            sum = sum.plus(source)?;
        }
        for source in sources {
            shares.push(weight.times(source)?.over(sum)?);
        }
    }
    let mut denominator: u128 = 1;
    for share in &shares {
        denominator =
            denominator.checked_mul(share.denominator / gcd(denominator, share.denominator))?;
    }
    let mut parts = Vec::new();
    for share in &shares {
        parts.push(share.numerator.checked_mul(denominator / share.denominator)?);
    }
    let common = parts.iter().copied().fold(0, gcd);
    let mut period: u128 = 0;
    for part in &mut parts {
        *part /= common;
        period = period.checked_add(*part)?;
    }
    (period <= MAX_PERIOD).then(|| Shares {
        parts: parts.iter().map(|&part| part as u64).collect(),
        period: period as u64,
    })
}

/// The shares as multiples of 2⁻³², none of them 0.
fn rounded(groups: &[(f64, Vec<f64>)]) -> Shares {
    const PERIOD: u64 = MAX_NOTED;
    let mut shares = Vec::new();
    let weights: Vec<f64> = groups.iter().map(|(weight, _)| *weight).collect();
    for (share, (_, sources)) in divided(&weights).zip(groups) {
        shares.extend(divided(sources).map(|of_group| share * of_group));
    }
    let parts = shares.iter().map(|share| ((share * PERIOD as f64).round() as u64).max(1));
    let mut parts: Vec<u64> = parts.collect();
    // What rounding left over or lacks, at most one per source, goes to the largest.
    let largest = (0..parts.len()).max_by_key(|&part| parts[part]).expect("there are sources");
    let others: u64 = parts.iter().sum::<u64>() - parts[largest];
    parts[largest] = PERIOD - others;
    Shares { parts, period: PERIOD }
}

/// What share of the sum each weight has, also where the sum is more than an `f64` holds.
fn divided(weights: &[f64]) -> impl Iterator<Item = f64> {
    let largest = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let sum: f64 = weights.iter().map(|weight| weight / largest).sum();
    weights.iter().map(move |weight| weight / largest / sum)
}

impl Fraction {
    /// The decimal by which `value` is written in the fewest digits.
    fn decimal(value: f64) -> Option<Self> {
        let text = value.to_string();
        let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
        let numerator = format!("{whole}{part}").parse().ok()?;
        let denominator = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
        Some(Self { numerator, denominator }.reduced())
    }

    fn plus(self, other: Self) -> Option<Self> {
        let numerator = self
            .numerator
            .checked_mul(other.denominator)?
            .checked_add(other.numerator.checked_mul(self.denominator)?)?;
        let denominator = self.denominator.checked_mul(other.denominator)?;
        Some(Self { numerator, denominator }.reduced())
    }

    fn times(self, other: Self) -> Option<Self> {
        let numerator = self.numerator.checked_mul(other.numerator)?;
        let denominator = self.denominator.checked_mul(other.denominator)?;
        Some(Self { numerator, denominator }.reduced())
    }

    fn over(self, other: Self) -> Option<Self> {
        self.times(Self { numerator: other.denominator, denominator: other.numerator })
    }

    fn reduced(self) -> Self {
        let common = gcd(self.numerator, self.denominator);
        Self { numerator: self.numerator / common, denominator: self.denominator / common }
    }
}

/// The greatest common divisor; that of 0 and a number is the number.
fn gcd(mut left: u128, mut right: u128) -> u128 {
    while right > 0 {
        (left, right) = (right, left % right);
    }
    left
}
