//! Steps of PyTorch: `torch_step.py` in a process of its own.

use std::env;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::step::model::Model;
use crate::step::steps::Steps;
use crate::{Failure, printed};

/// How torch computes attention: by its fused operation, or with a product, a softmax and another.
pub(crate) const ATTENTIONS: [&str; 2] = ["sdpa", "plain"];

/// A Python that has torch: the one that is named, by argument or by `TORCH_PYTHON`, or `python3`.
/// Otherwise, why there is none.
pub(crate) fn find(named: Option<&str>) -> Result<String, String> {
    let python = named.map(str::to_owned).or_else(|| env::var("TORCH_PYTHON").ok());
    let python = python.unwrap_or_else(|| "python3".to_owned());
    let has_torch = Command::new(&python).args(["-c", "import torch"]).output();
    if has_torch.is_ok_and(|output| output.status.success()) {
        return Ok(python);
    }
    Err(format!("not compared, for {python} has no torch: name one that has by TORCH_PYTHON"))
}

/// Adds the steps of one process, and returns torch's version.
pub(crate) fn add_steps(
    python: &str,
    model: &Model,
    threads: usize,
    attention: &str,
    steps: &mut Steps,
) -> Result<String, Failure> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/torch_step.py");
    let Model { layers, hidden, heads, seq, batch, .. } = *model;
    let words = model.padded_vocabulary();
    let sizes = [model.steps, threads, layers, hidden, heads, seq, batch, words];
    let mut command = Command::new(python);
    command.arg(script).arg(attention).args(sizes.map(|size| size.to_string()));
    let output = printed(command.env("OMP_NUM_THREADS", threads.to_string()).output(), python)?;
    steps.add(&output)?;
    let last: Value = serde_json::from_str(output.lines().last().unwrap_or_default())?;
    Ok(last["version"].as_str().unwrap_or_default().to_owned())
}
