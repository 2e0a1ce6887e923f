//! What a plan amounts to before anything is allocated: parameters, memory, messages and tokens.

use serde::Serialize;

use crate::TrainError;
use crate::architecture::Architecture;
use crate::data::DataSourceSummary;
use crate::model::Gpt2Config;
use crate::parameters::padded_vocab_size;
use crate::plan::TrainPlan;

/// What a plan amounts to. A number that no 64 bits hold is the largest that they do.
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
    /// All-reduces of activations in the layers for one forward and backward pass, that is, per
    /// micro-batch: two forward and two backward in each layer, as the paper counts. Those of the
    /// embedding and of the loss are not among them. 0 where one rank holds the model.
    pub all_reduces_per_step: u64,
    /// Bytes of these all-reduces, per micro-batch too.
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
    /// What the samples are drawn from.
    pub sources: Vec<DataSourceSummary>,
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
        let rows = self.rows(model);
        let activation_bytes = NUMBER_BYTES.saturating_mul(self.activation(model));
        let all_reduces = if ranks > 1 { 4 * model.num_layers as u64 } else { 0 };
        let has_copies = self.parallel.data > 1;
        PlanSummary {
            parameters: model.num_parameters(ranks) as u64,
            parameters_per_rank: local,
            padded_vocab_size: padded,
            heads_per_rank: (model.num_attention_heads / ranks) as u64,
            tensor_parallel_size: ranks as u64,
            data_parallel_size: self.parallel.data as u64,
            bytes_per_rank: self.bytes_per_rank(),
            all_reduces_per_step: all_reduces,
            all_reduce_bytes_per_step: all_reduces.saturating_mul(activation_bytes),
            loss_exchange_numbers: rows,
            gathered_logits_numbers: rows.saturating_mul(padded),
            gradient_all_reduce_bytes_per_step: if has_copies { NUMBER_BYTES * local } else { 0 },
            grad_accumulation_steps: self.grad_accumulation_steps as u64,
            steps_per_epoch: self.train.samples.samples().per_epoch() as f64
                / self.train.global_batch_size as f64,
            tokens_per_step: self.tokens_per_step(),
            tokens_total: self.tokens_per_step().saturating_mul(self.train_steps),
            sources: self.sources.clone(),
        }
    }

    /// Refuses a run that does not fit into `memory_bytes` on all ranks together; the ranks are
    /// threads of one process. Nothing is refused where the machine does not tell its size.
    ///
    /// Counted are [`BytesPerRank`], and what a pass holds beside it: the gradients that it has not
    /// yet added to the sums, and one more vocabulary table. Runs were measured to take 1.45 times
    /// the plan's bytes.
    ///
    /// # Errors
    ///
    /// [`TrainError::ModelTooLarge`] with both sizes.
    pub fn check_memory(&self, memory_bytes: Option<u64>) -> Result<(), TrainError> {
        let ranks = self.parallel.num_ranks();
        let needed = self.peak_bytes_per_rank().saturating_mul(ranks as u64);
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

    fn bytes_per_rank(&self) -> BytesPerRank {
        let Architecture::Gpt2(model) = &self.architecture;
        let local = self.parameters_per_rank();
        BytesPerRank {
            weights: NUMBER_BYTES * local,
            gradients: NUMBER_BYTES * local,
            optimizer: 2 * NUMBER_BYTES * local,
            activations: NUMBER_BYTES.saturating_mul(self.activation_numbers(model)),
        }
    }

    /// Bytes that a rank takes at most.
    fn peak_bytes_per_rank(&self) -> u64 {
        let Architecture::Gpt2(model) = &self.architecture;
        let ranks = self.parallel.tensor;
        let BytesPerRank { weights, gradients, optimizer, activations } = self.bytes_per_rank();
        let table_rows = padded_vocab_size(model.vocab_size, ranks) / ranks;
        let table = NUMBER_BYTES * (table_rows * model.hidden_size) as u64;
        (weights + 2 * gradients + optimizer + table).saturating_add(activations)
    }

    /// Tokens of a micro-batch.
    fn rows(&self, model: &Gpt2Config) -> u64 {
        (self.train.micro_batch_size as u64).saturating_mul(model.seq_length as u64)
    }

    /// Numbers of one activation of a micro-batch.
    fn activation(&self, model: &Gpt2Config) -> u64 {
        self.rows(model).saturating_mul(model.hidden_size as u64)
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
        let activation = self.activation(model);
        let row_of_scores =
            (model.seq_length as u64).saturating_mul(model.num_attention_heads as u64);
        let probabilities = self.rows(model).saturating_mul(row_of_scores);
        let split = activation.saturating_mul(12).saturating_add(probabilities.saturating_mul(2));
        let per_layer = activation.saturating_mul(8).saturating_add(split / ranks);
        per_layer.saturating_mul(model.num_layers as u64)
    }
}
