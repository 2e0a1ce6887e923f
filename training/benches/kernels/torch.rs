//! PyTorch's times: `kernels_torch.py` in a process of its own.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::times::Times;
use crate::{BATCH, CALLS, Failure, HEADS, HIDDEN, LAYERS, SEQ, VOCABULARY};

/// PyTorch, or why there is none.
pub(crate) struct Torch {
    python: Result<String, String>,
    version: String,
    kernels: BTreeMap<String, Times>,
}

/// What the script prints.
#[derive(Deserialize)]
struct Printed {
    version: String,
    kernels: BTreeMap<String, Times>,
}

impl Torch {
    /// The Python that is named, by argument or by `TORCH_PYTHON`, or `python3`.
    pub(crate) fn find(named: Option<String>) -> Self {
        let python = named.or_else(|| env::var("TORCH_PYTHON").ok());
        let python = python.unwrap_or_else(|| "python3".to_owned());
        let found = Command::new(&python).args(["-c", "import torch"]).output();
        let python = match found {
            Ok(output) if output.status.success() => Ok(python),
            _ => Err(format!("{python} has no torch: name one that has by TORCH_PYTHON")),
        };
        Self { python, version: String::new(), kernels: BTreeMap::new() }
    }

    /// A round of all kernels whose names have `filter` in them.
    pub(crate) fn run(&mut self, filter: &str) -> Result<(), Failure> {
        let Ok(python) = &self.python else { return Ok(()) };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/kernels_torch.py");
        let threads = rayon::current_num_threads();
        let sizes = [CALLS, threads, LAYERS, HIDDEN, HEADS, SEQ, BATCH, VOCABULARY];
        let mut command = Command::new(python);
        command.arg(script).arg(filter).args(sizes.map(|size| size.to_string()));
        let output = command.env("OMP_NUM_THREADS", threads.to_string()).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let printed: Printed = serde_json::from_slice(&output.stdout)?;
        self.version = printed.version;
        for (name, times) in printed.kernels {
            let sum = self.kernels.entry(name).or_default();
            sum.forward.extend(&times.forward);
            sum.backward.extend(&times.backward);
        }
        Ok(())
    }

    /// What was measured of a kernel; nothing without torch.
    pub(crate) fn times(&self, name: &str) -> Times {
        self.kernels.get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn describe(&self) -> &str {
        match &self.python {
            Ok(_) => &self.version,
            Err(reason) => reason,
        }
    }
}
