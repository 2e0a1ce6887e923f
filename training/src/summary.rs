//! What a plan amounts to before anything is allocated: parameters, memory, messages and tokens.

use serde::Serialize;

use crate::TrainError;
use crate::architecture::Architecture;
use crate::model::Gpt2Config;
use crate::parameters::padded_vocab_size;
use crate::plan::TrainPlan;

/// What a plan amounts to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanSummary {
    /// Parameters of the whole model with its vocabulary padded.
    pub parameters: u64,
    /// Parameters that one rank holds.
    pub parameters_per_rank: u64,
    /// Rows of the vocabulary with padding.
    pub padded_vocab_size: u64,
    /// Attention heads that one rank holds.
    pub heads_per_rank: u64,
    /// Ranks that share a copy of the model.
    pub tensor_parallel_size: u64,
    /// Copies of the model.
    pub data_parallel_size: u64,
    /// Memory of one rank by use; activations are an estimate.
    pub bytes_per_rank: BytesPerRank,
    /// All-reduces of activations per micro-batch in layers: two forward and two backward in each.
    pub all_reduces_per_step: u64,
    /// Their bytes.
    pub all_reduce_bytes_per_step: u64,
    /// Numbers in each of the three exchanges of the loss.
    pub loss_exchange_numbers: u64,
    /// Numbers that gathering all logits would exchange instead.
    pub gathered_logits_numbers: u64,
    /// Bytes of gradients that a rank all-reduces with the other copies of the model in an
    /// optimizer step; 0 where there are none.
    pub gradient_all_reduce_bytes_per_step: u64,
    /// Forward and backward passes of each copy per optimizer step.
    pub grad_accumulation_steps: u64,
    /// Optimizer steps that see each training sample once.
    pub steps_per_epoch: f64,
    /// Targets per optimizer step, over all copies.
    pub tokens_per_step: u64,
    /// Targets of the whole run.
    pub tokens_total: u64,
}

/// Memory of one rank in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BytesPerRank {
    /// Weights in `f32`.
    pub weights: u64,
    /// Summed gradients in `f32`.
    pub gradients: u64,
    /// Both moments in `f32`.
    pub optimizer: u64,
    /// What a forward pass keeps for the backward pass of one micro-batch; estimated.
    pub activations: u64,
}

/// Bytes of an `f32`.
const NUMBER_BYTES: u64 = size_of::<f32>() as u64;

impl TrainPlan {
    /// What the plan amounts to. Nothing of the model is allocated for it.
    pub fn summary(&self) -> PlanSummary {
        let Architecture::Gpt2(model) = &self.architecture;
        let ranks = self.parallel.tensor;
        let local = self.parameters_per_rank();
        let padded = padded_vocab_size(model.vocab_size, ranks) as u64;
        let rows = (self.train.micro_batch_size * model.seq_length) as u64;
        let activation = rows * model.hidden_size as u64;
        let layers = model.num_layers as u64;
        let has_copies = self.parallel.data > 1;
        PlanSummary {
            parameters: model.num_parameters(ranks) as u64,
            parameters_per_rank: local,
            padded_vocab_size: padded,
            heads_per_rank: (model.num_attention_heads / ranks) as u64,
            tensor_parallel_size: ranks as u64,
            data_parallel_size: self.parallel.data as u64,
            bytes_per_rank: BytesPerRank {
                weights: NUMBER_BYTES * local,
                gradients: NUMBER_BYTES * local,
                optimizer: 2 * NUMBER_BYTES * local,
                activations: NUMBER_BYTES * self.activation_numbers(model),
            },
            all_reduces_per_step: 4 * layers,
            all_reduce_bytes_per_step: 4 * layers * activation * NUMBER_BYTES,
            loss_exchange_numbers: rows,
            gathered_logits_numbers: rows * padded,
            gradient_all_reduce_bytes_per_step: if has_copies { NUMBER_BYTES * local } else { 0 },
            grad_accumulation_steps: self.grad_accumulation_steps as u64,
            steps_per_epoch: self.train.samples.samples().len() as f64
                / self.train.global_batch_size as f64,
            tokens_per_step: self.tokens_per_step(),
            tokens_total: self.tokens_per_step() * self.train_steps,
        }
    }

    /// Refuses a model whose weights, gradients and moments do not fit into `memory_bytes` on all
    /// ranks together; the ranks are threads of one process. Nothing is refused where the machine
    /// does not tell its size.
    ///
    /// # Errors
    ///
    /// [`TrainError::ModelTooLarge`] with both sizes.
    pub fn check_memory(&self, memory_bytes: Option<u64>) -> Result<(), TrainError> {
        let ranks = self.parallel.num_ranks();
        let needed = (ranks as u64).saturating_mul(4 * NUMBER_BYTES * self.parameters_per_rank());
        match memory_bytes {
            Some(present) if needed > present => Err(TrainError::ModelTooLarge {
                needed,
                present,
                ranks,
                has_copies: self.parallel.data > 1,
            }),
            _ => Ok(()),
        }
    }

    /// Parameters that each rank holds, padded rows of the vocabulary included.
    fn parameters_per_rank(&self) -> u64 {
        let size = self.parallel.tensor;
        let table = self.architecture.parameters();
        table.iter().map(|spec| spec.local_shape(0, size).iter().product::<usize>() as u64).sum()
    }

    /// Numbers that a forward pass keeps, estimated. Per layer: eight activations that every rank
    /// holds whole (both norms' inputs and outputs, both residual branches and their dropped
    /// forms); twelve that are split (query, key, value, context and twice the MLP's width of
    /// four); and the attention probabilities before and after dropout.
    fn activation_numbers(&self, model: &Gpt2Config) -> u64 {
        let ranks = self.parallel.tensor as u64;
        let rows = (self.train.micro_batch_size * model.seq_length) as u64;
        let activation = rows * model.hidden_size as u64;
        let probabilities = rows * (model.seq_length * model.num_attention_heads) as u64;
        model.num_layers as u64 * (8 * activation + (12 * activation + 2 * probabilities) / ranks)
    }
}
