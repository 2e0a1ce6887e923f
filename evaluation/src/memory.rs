//! Whether the machine has room for as many copies of a model as are asked for.

use std::num::NonZeroUsize;

use corpus::race::OPTIONS;
use training::architecture::Architecture;

use crate::config::{EvalPlan, Task};
use crate::error::EvalError;

/// Bytes of a number.
const NUMBER_BYTES: u64 = 4;

impl EvalPlan {
    /// Refuses more copies of a model of these sizes than fit into `memory_bytes`; `None` where the
    /// system does not tell how much there is.
    ///
    /// # Errors
    ///
    /// [`EvalError::Memory`] with what one copy takes and how many there is room for.
    pub fn check_memory(
        &self,
        model: &Architecture,
        memory_bytes: Option<u64>,
    ) -> Result<(), EvalError> {
        let copies = self.data_parallel_size.get();
        let of_copy = self.bytes_per_copy(model);
        match memory_bytes {
            Some(present) if of_copy.saturating_mul(copies as u64) > present => {
                let most = NonZeroUsize::new((present / of_copy) as usize);
                Err(EvalError::Memory { copies, of_copy, present, most })
            }
            _ => Ok(()),
        }
    }

    /// About how many bytes a copy of the model takes on all its ranks: the weights, and what is
    /// there at once of a forward pass. That is, for each position and rank, the residual stream,
    /// its norm and a sum; and over all ranks once, whichever is more of queries, keys, values and
    /// context, or of the MLP's inner layer before and after its activation.
    fn bytes_per_copy(&self, model: &Architecture) -> u64 {
        let ranks = self.tensor_parallel_size.get();
        let wide = |size: usize| size as u64;
        let layers = model.layers();
        let (hidden, ffn) = (wide(layers.hidden_size), wide(layers.ffn_hidden_size));
        let position = 3 * hidden * wide(ranks) + (4 * hidden).max(2 * ffn);
        let is_of_choices = self.tasks.iter().any(|task| matches!(task, Task::Race(_)));
        let rows = if is_of_choices { OPTIONS } else { 1 };
        let positions = wide(self.micro_batch_size.get().saturating_mul(rows))
            .saturating_mul(wide(model.seq_length()));
        let weights = wide(model.num_parameters(ranks));
        weights.saturating_add(positions.saturating_mul(position)).saturating_mul(NUMBER_BYTES)
    }
}
