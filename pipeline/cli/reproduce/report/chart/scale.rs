//! From values to places on an axis, and the round values that the axis names.

/// An axis's range, from its first tick to its last.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    is_log: bool,
    ticks: Vec<f64>,
}

/// Values beyond this are drawn at it: the steps between ticks stay numbers.
const LARGEST: f64 = 1e100;

/// The same for what a logarithm is taken of.
const SMALLEST: f64 = 1e-100;

/// Ranges narrower than this part of their values are as good as a single value.
const FLAT: f64 = 1e-9;

impl Scale {
    /// A linear scale over the numbers of `values` with at most `most_ticks` ticks, of which there
    /// are two at least, and for no value at all those of 0 and 1.
    ///
    /// # Panics
    ///
    /// If `most_ticks` is less than 3: three may be needed to cover a range across a round value.
    pub(crate) fn linear(values: impl IntoIterator<Item = f64>, most_ticks: usize) -> Self {
        assert!(most_ticks >= 3, "{most_ticks} ticks cannot cover every range");
        let (mut low, mut high) =
            range(values.into_iter().map(|it| it.clamp(-LARGEST, LARGEST))).unwrap_or((0.0, 1.0));
        let size = low.abs().max(high.abs());
        if high - low <= FLAT * size || size == 0.0 {
            let margin = if size == 0.0 { 1.0 } else { 0.1 * size };
            // A single value that cannot be negative gets no negative axis.
            (low, high) = (if low == 0.0 { 0.0 } else { low - margin }, high + margin);
        }
        let mut step = RoundStep::at_least((high - low) / (most_ticks - 1) as f64);
        loop {
            let size = step.size();
            let (first, last) = ((low / size + FLAT).floor(), (high / size - FLAT).ceil());
            let count = (last - first) as usize + 1;
            if (2..=most_ticks).contains(&count) {
                let ticks = (0..count).map(|index| (first + index as f64) * size).collect();
                return Self { is_log: false, ticks };
            }
            step = step.next();
        }
    }

    /// A logarithmic scale over the numbers of `values` that are above 0, with at most `most_ticks`
    /// ticks, of which there are two at least; without such a value, from 1 to 10.
    ///
    /// # Panics
    ///
    /// If `most_ticks` is less than 3.
    pub(crate) fn log(values: impl IntoIterator<Item = f64>, most_ticks: usize) -> Self {
        assert!(most_ticks >= 3, "{most_ticks} ticks cannot cover every range");
        let positive = values.into_iter().filter(|&it| it > 0.0);
        let (low, high) =
            range(positive.map(|it| it.clamp(SMALLEST, LARGEST))).unwrap_or((1.0, 10.0));
        // Candidates from the finest on: 1, 2 and 5 of each power of ten, the powers, every second
        // of them and so on.
        let first_power = low.log10().floor() as i32 - 1;
        let last_power = high.log10().ceil() as i32 + 1;
        let fine = (first_power..=last_power)
            .flat_map(|power| FACTORS.map(|factor| round_value(factor, power)));
        if let Some(ticks) = covering(fine, low, high).filter(|it| it.len() <= most_ticks) {
            return Self { is_log: true, ticks };
        }
        let mut stride = 1;
        loop {
            let first = (first_power + 1).div_euclid(stride) * stride;
            let powers = (0..=(last_power - first) / stride + 1)
                .map(|index| round_value(1.0, first + index * stride));
            if let Some(ticks) = covering(powers, low, high).filter(|it| it.len() <= most_ticks) {
                return Self { is_log: true, ticks };
            }
            stride += 1;
        }
    }

    /// The round values from the lower end to the upper one, ascending.
    pub(crate) fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// Where `value` lies from the lower end, 0, to the upper one, 1; what lies beyond an end, at
    /// that end. What is no number lies at the lower end.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let (low, high) = (self.ticks[0], self.ticks[self.ticks.len() - 1]);
        let position = if self.is_log {
            (value.max(low) / low).log10() / (high / low).log10()
        } else {
            (value - low) / (high - low)
        };
        if position.is_nan() { 0.0 } else { position.clamp(0.0, 1.0) }
    }

    /// Distance of two ticks of a linear scale.
    pub(crate) fn step(&self) -> Option<f64> {
        (!self.is_log).then(|| self.ticks[1] - self.ticks[0])
    }
}

/// The least and the greatest of the finite `values`.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|it| it.is_finite()).fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

/// Of ascending `candidates` the run of two or more that goes from the last one at or below `low`
/// to the first at or above `high`; none where they do not reach so far.
fn covering(candidates: impl Iterator<Item = f64>, low: f64, high: f64) -> Option<Vec<f64>> {
    let candidates: Vec<f64> = candidates.collect();
    let mut first = candidates.iter().rposition(|&it| it <= low * (1.0 + FLAT))?;
    let last = candidates.iter().position(|&it| it >= high * (1.0 - FLAT))?;
    if last <= first {
        first = last.checked_sub(1)?;
    }
    Some(candidates[first..=last].to_vec())
}

/// 1, 2 or 5 times a power of ten.
#[derive(Debug, Clone, Copy)]
struct RoundStep {
    power: i32,
    factor: usize,
}

const FACTORS: [f64; 3] = [1.0, 2.0, 5.0];

impl RoundStep {
    fn at_least(size: f64) -> Self {
        let mut step = Self { power: size.log10().floor() as i32, factor: 0 };
        while step.size() < size * (1.0 - FLAT) {
            step = step.next();
        }
        step
    }

    fn next(self) -> Self {
        match self.factor {
            2 => Self { power: self.power + 1, factor: 0 },
            factor => Self { factor: factor + 1, ..self },
        }
    }

    fn size(self) -> f64 {
        round_value(FACTORS[self.factor], self.power)
    }
}

/// `factor * 10^power`, the nearest number to it for powers that matter: 3 / 10 is, 3 * 0.1 is not.
fn round_value(factor: f64, power: i32) -> f64 {
    match power {
        0.. => factor * 10_f64.powi(power),
        _ => factor / 10_f64.powi(-power),
    }
}
