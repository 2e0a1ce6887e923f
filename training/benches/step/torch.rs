//! Steps of PyTorch: `torch_step.py` in a process of its own.

use std::env;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{BATCH, Failure, HEADS, HIDDEN, LAYERS, SEQ, STEPS, Steps, printed};

/// GPT-2's vocabulary, padded as the program pads its own.
const VOCABULARY: usize = 50_304;

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
pub(crate) fn add_steps(python: &str, steps: &mut Steps) -> Result<String, Failure> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/torch_step.py");
    let threads = corpus::machine::cores();
    let sizes = [STEPS, threads, LAYERS, HIDDEN, HEADS, SEQ, BATCH, VOCABULARY];
    let output = Command::new(python).arg(script).args(sizes.map(|size| size.to_string())).output();
    let output = printed(output, python)?;
    steps.add(&output)?;
    let last: Value = serde_json::from_str(output.lines().last().unwrap_or_default())?;
    Ok(last["version"].as_str().unwrap_or_default().to_owned())
}
