//! Steps of one program: what its processes print, gathered.

use serde::Deserialize;

use crate::Failure;

/// A step, in seconds. What a program does not tell is 0.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StepSeconds {
    pub(crate) step: f64,
    data: f64,
    forward: f64,
    backward: f64,
    communication: f64,
    optimizer: f64,
}

/// The steps of one program over all rounds.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    steps: Vec<StepSeconds>,
    peak_bytes: u64,
}

/// The columns that [`Steps::cells`] fills.
pub(crate) const COLUMNS: [&str; 9] = [
    "step",
    "data",
    "forward",
    "backward",
    "comm.",
    "optimizer",
    "tokens/s",
    "slow to fast",
    "peak MiB",
];

impl Steps {
    /// Adds the steps after the first of what a process printed, and the memory that it took.
    pub(crate) fn add(&mut self, output: &str) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Peak {
            peak_bytes: u64,
        }
        let lines: Vec<&str> = output.lines().filter(|line| line.starts_with('{')).collect();
        let (last, steps) = lines.split_last().ok_or("nothing was printed")?;
        for step in steps.iter().skip(1) {
            self.steps.push(serde_json::from_str(step)?);
        }
        self.peak_bytes = self.peak_bytes.max(serde_json::from_str::<Peak>(last)?.peak_bytes);
        Ok(())
    }

    /// The median of a part in seconds.
    fn median(&self, part: impl Fn(&StepSeconds) -> f64) -> f64 {
        let mut values: Vec<f64> = self.steps.iter().map(part).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Seconds of the median step.
    pub(crate) fn seconds(&self) -> f64 {
        self.median(|step| step.step)
    }

    /// Step and parts in milliseconds, tokens per second with their spread, and memory.
    pub(crate) fn cells(&self, tokens: usize) -> [String; COLUMNS.len()] {
        let parts: [fn(&StepSeconds) -> f64; 5] = [
            |step| step.data,
            |step| step.forward,
            |step| step.backward,
            |step| step.communication,
            |step| step.optimizer,
        ];
        let [data, forward, backward, communication, optimizer] =
            parts.map(|part| match self.median(part) {
                0.0 => "-".to_owned(),
                seconds => format!("{:.1}", seconds * 1e3),
            });
        let rate = |seconds: f64| tokens as f64 / seconds;
        let rates = self.steps.iter().map(|step| rate(step.step));
        let (slowest, fastest) = rates
            .fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
        [
            format!("{:.0}", self.seconds() * 1e3),
            data,
            forward,
            backward,
            communication,
            optimizer,
            format!("{:.0}", rate(self.seconds())),
            format!("{slowest:.0} to {fastest:.0}"),
            format!("{:.0}", self.peak_bytes as f64 / f64::from(1 << 20)),
        ]
    }
}
