//! What a run amounts to before anything is allocated: parameters, memory, messages, tokens, work.
//!
//! Sizes follow from the configuration alone, so that a run can be planned on a machine that holds
//! neither its data nor its model: the vocabulary and the tokens of an epoch are then those that
//! the configuration writes down.

use serde::Serialize;

use crate::TrainError;
use crate::architecture::{Architecture, MASKED_SHARE};
use crate::backend::cpu::head::CHUNK_ROWS;
use crate::backend::{Precision, Recompute};
use crate::config::TrainConfig;
use crate::data::{DataSourceSummary, SampleForm};
use crate::fine_tuning::RunLength;
use crate::model::LayerConfig;
use crate::parallel::ParallelDims;
use crate::parameters::padded_vocab_size;
use crate::plan::TrainPlan;

/// What a plan amounts to. A number that no 64 bits hold is the largest that they do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanSummary {
    /// Parameters of the whole model with its vocabulary padded.
    pub parameters: u64,
    /// The same by part.
    pub parameters_by_part: ParametersByPart,
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
    /// What activations and messages are computed in.
    pub precision: Precision,
    /// What a forward pass keeps for the backward pass.
    pub recompute: Recompute,
    /// Weights, gradients and optimizer of one whole model: 16 bytes per parameter.
    pub state_bytes: u64,
    /// Optimizer steps of the run.
    pub train_steps: u64,
    /// Steps over which the learning rate rises.
    pub warmup_steps: u64,
    /// Sequences of a sample, where it has several: a question has four.
    #[serde(skip_serializing_if = "is_one")]
    pub rows_per_sample: u64,
    /// Memory of one rank by use; activations are an estimate.
    pub bytes_per_rank: BytesPerRank,
    /// All-reduces of activations in the layers for one forward and backward pass, that is, per
    /// micro-batch: two forward and two backward in each layer, as the paper counts. Those of the
    /// embedding and of the loss are not among them, nor those of layers that run again. 0 where
    /// one rank holds the model.
    pub all_reduces_per_step: u64,
    /// Bytes of these all-reduces, per micro-batch too.
    pub all_reduce_bytes_per_step: u64,
    /// Everything that a rank exchanges with those that share its model in one micro-batch, by
    /// name, layers that run again included. A few numbers per step are not among them: what ranks
    /// agree on.
    pub messages_per_micro_batch: Vec<MessageTotal>,
    /// Calls of all of these in an optimizer step, over its micro-batches.
    pub messages_per_step: u64,
    /// Bytes that a rank brings to them.
    pub message_bytes_per_step: u64,
    /// Numbers in each of the three exchanges of the loss.
    pub loss_exchange_numbers: u64,
    /// Numbers that gathering all logits would exchange instead.
    pub gathered_logits_numbers: u64,
    /// How many times more that is: the padded vocabulary.
    pub gathered_logits_per_loss_number: u64,
    /// Bytes of gradients that a rank all-reduces with the other copies of the model in an
    /// optimizer step; 0 where there are none.
    pub gradient_all_reduce_bytes_per_step: u64,
    /// Forward and backward passes of each copy per optimizer step.
    pub grad_accumulation_steps: u64,
    /// Targets that training sees in an epoch: those of the data, or else `data.epoch_tokens`.
    pub tokens_per_epoch: Option<u64>,
    /// Optimizer steps that see each training sample once.
    pub steps_per_epoch: Option<f64>,
    /// Targets per optimizer step, over all copies.
    pub tokens_per_step: u64,
    /// Targets of the whole run.
    pub tokens_total: u64,
    /// How often the run sees each training sample.
    pub epochs: Option<f64>,
    /// Floating-point operations of the model in an optimizer step
    /// ([`flops_per_token`](Architecture::flops_per_token)); recomputation is not among them.
    pub model_flops_per_step: f64,
    /// What the samples are drawn from; nothing where the data is not at hand.
    pub sources: Vec<DataSourceSummary>,
}

/// Parameters by part, with the vocabulary padded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ParametersByPart {
    /// The word embedding, which is the output layer too.
    pub embedding: u64,
    /// The learned positions.
    pub positions: u64,
    /// Attention of one layer.
    pub attention_per_layer: u64,
    /// MLP of one layer.
    pub mlp_per_layer: u64,
    /// Both layer norms of one layer.
    pub norms_per_layer: u64,
    /// All layers.
    pub layers: u64,
    /// The layer norm after the last layer.
    pub final_norm: u64,
    /// BERT's two segments; 0 for a GPT-2, and then not told of.
    #[serde(skip_serializing_if = "is_zero")]
    pub token_types: u64,
    /// BERT's heads: that of masked tokens, the pooler and that of the order of segments, or the
    /// pooler and the classifier of answers; 0 for a GPT-2, whose head is the word embedding, and
    /// then not told of.
    #[serde(skip_serializing_if = "is_zero")]
    pub heads: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_one(number: &u64) -> bool {
    *number == 1
}

/// Memory of one rank in bytes.
///
/// In mixed precision a parameter takes 2 bytes as the layers multiply it and 2 for its gradient,
/// and the optimizer keeps 4 of the master weight and 4 for each of the two moments; in `f32` it
/// takes 4, 4 and twice 4. Both are 16.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BytesPerRank {
    /// Weights in the precision of the layers. In mixed precision the division between weights,
    /// gradients and optimizer is the usual one, 2 + 2 + 12 bytes of a parameter. Ranks on a CPU take
    /// the same sum in another way: weights and summed gradients are `f32`, and layers round weights
    /// as they use them.
    pub weights: u64,
    /// Gradients in the same precision.
    pub gradients: u64,
    /// Both moments in `f32`; in mixed precision also the master weights.
    pub optimizer: u64,
    /// What a forward pass keeps for the backward pass of one micro-batch, as the run is
    /// configured; estimated.
    pub activations: u64,
    /// The same with `recompute = "none"`.
    pub activations_kept: u64,
    /// The same with `recompute = "layer"`.
    pub activations_recomputed: u64,
    /// What a pass holds beside them, in `f32`: where several micro-batches add up, the gradient of
    /// the vocabulary table before it is added to the sum (all others are added in place); in mixed
    /// precision, the table as the head multiplies it.
    pub passing: u64,
    /// Weights, gradients, optimizer, activations and what passes.
    pub total: u64,
}

/// What messages of one name come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MessageTotal {
    /// What they are for.
    pub name: &'static str,
    /// Calls.
    pub calls: u64,
    /// Numbers that the rank brings.
    pub numbers: u64,
    /// Bytes of these numbers.
    pub bytes: u64,
}

/// Bytes of an `f32`.
const NUMBER_BYTES: u64 = size_of::<f32>() as u64;

/// What sizes follow from.
struct Sizes<'a> {
    model: &'a Architecture,
    layers: LayerConfig,
    form: SampleForm,
    parallel: ParallelDims,
    precision: Precision,
    recompute: Recompute,
    micro_batch_size: usize,
    global_batch_size: usize,
    length: RunLength,
    tokens_per_epoch: Option<u64>,
}

impl TrainConfig {
    /// What a run of this configuration amounts to, on data that is not at hand: of a vocabulary
    /// of `model.gpt2.vocab_size` tokens, and `data.epoch_tokens` to an epoch.
    ///
    /// # Errors
    ///
    /// As [`validate`](Self::validate), where no data is needed to find the mistake;
    /// [`TrainError::NoVocabulary`].
    pub fn summary(&self) -> Result<PlanSummary, TrainError> {
        let vocab_size = self.model.vocab_size().ok_or(TrainError::NoVocabulary)?;
        let form = self.sample_form()?;
        let model = self.architecture(vocab_size.get());
        let epoch_tokens = self.data.epoch_tokens.map(std::num::NonZero::get);
        let samples = epoch_tokens.map(|tokens| tokens / model.tokens_per_sample() as u64);
        let length = self.length(samples)?;
        self.check(&model, length)?;
        let sizes = Sizes {
            model: &model,
            layers: model.layers(),
            form,
            parallel: self.parallel.dims(),
            precision: self.precision,
            recompute: self.recompute,
            micro_batch_size: self.batch.micro_batch_size.get(),
            global_batch_size: self.batch.global_batch_size.get(),
            length,
            tokens_per_epoch: epoch_tokens,
        };
        Ok(sizes.summary())
    }
}

impl TrainPlan {
    /// What the plan amounts to. Nothing of the model is allocated for it.
    pub fn summary(&self) -> PlanSummary {
        PlanSummary { sources: self.sources.clone(), ..self.sizes().summary() }
    }

    /// Refuses a run that does not fit into `memory_bytes` on all ranks together; the ranks are
    /// threads of one process. Nothing is refused where the machine does not tell its size.
    ///
    /// Counted is the total of [`BytesPerRank`]. A run takes more, so that nothing is refused that
    /// would fit.
    ///
    /// # Errors
    ///
    /// [`TrainError::ModelTooLarge`] with both sizes.
    pub fn check_memory(&self, memory_bytes: Option<u64>) -> Result<(), TrainError> {
        let ranks = self.parallel.num_ranks();
        let needed = self.sizes().bytes_per_rank().total.saturating_mul(ranks as u64);
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

    fn sizes(&self) -> Sizes<'_> {
        let model = &self.architecture;
        let samples_per_epoch = self.train.samples.samples().per_epoch();
        Sizes {
            model,
            layers: model.layers(),
            form: self.form,
            parallel: self.parallel,
            precision: self.precision,
            recompute: self.recompute,
            micro_batch_size: self.train.micro_batch_size,
            global_batch_size: self.train.global_batch_size,
            length: RunLength {
                train_steps: self.train_steps,
                warmup_steps: self.schedule.warmup_steps,
            },
            tokens_per_epoch: Some(samples_per_epoch * model.tokens_per_sample() as u64),
        }
    }
}

impl Sizes<'_> {
    fn summary(&self) -> PlanSummary {
        let Self { model, ref layers, parallel, precision, recompute, .. } = *self;
        let ranks = parallel.tensor;
        let parameters = model.num_parameters(ranks) as u64;
        let parameters_per_rank = self.parameters_per_rank();
        let padded_vocab_size = padded_vocab_size(model.vocab_size(), ranks) as u64;
        let scored_rows = self.scored_rows();
        let message_bytes = self.activation().saturating_mul(precision.bytes() as u64);
        let all_reduces = if ranks > 1 { 4 * layers.num_layers as u64 } else { 0 };
        let gradient_bytes = NUMBER_BYTES * parameters_per_rank;
        let tokens_per_step = (self.global_batch_size * model.tokens_per_sample()) as u64;
        let RunLength { train_steps, warmup_steps } = self.length;
        let tokens_total = tokens_per_step.saturating_mul(train_steps);
        let messages = self.messages();
        let micro_batches = self.micro_batches();
        let epochs_of =
            |tokens: u64| self.tokens_per_epoch.map(|epoch| tokens as f64 / epoch as f64);
        let flops_per_token = model.flops_per_token();
        PlanSummary {
            parameters,
            parameters_by_part: self.parameters_by_part(),
            parameters_per_rank,
            padded_vocab_size,
            heads_per_rank: (layers.num_attention_heads / ranks) as u64,
            tensor_parallel_size: ranks as u64,
            data_parallel_size: parallel.data as u64,
            precision,
            recompute,
            state_bytes: 16 * parameters,
            train_steps,
            warmup_steps,
            rows_per_sample: model.rows_per_sample() as u64,
            bytes_per_rank: self.bytes_per_rank(),
            all_reduces_per_step: all_reduces,
            all_reduce_bytes_per_step: all_reduces.saturating_mul(message_bytes),
            messages_per_step: messages.iter().map(|it| it.calls).sum::<u64>() * micro_batches,
            message_bytes_per_step: messages.iter().map(|it| it.bytes).sum::<u64>() * micro_batches,
            messages_per_micro_batch: messages,
            loss_exchange_numbers: scored_rows,
            gathered_logits_numbers: scored_rows.saturating_mul(padded_vocab_size),
            gathered_logits_per_loss_number: padded_vocab_size,
            gradient_all_reduce_bytes_per_step: if parallel.data > 1 { gradient_bytes } else { 0 },
            grad_accumulation_steps: micro_batches,
            tokens_per_epoch: self.tokens_per_epoch,
            steps_per_epoch: epochs_of(tokens_per_step).map(|epochs| 1.0 / epochs),
            tokens_per_step,
            tokens_total,
            epochs: epochs_of(tokens_total),
            model_flops_per_step: flops_per_token * tokens_per_step as f64,
            sources: Vec::new(),
        }
    }

    fn parameters_by_part(&self) -> ParametersByPart {
        let (ranks, layers) = (self.parallel.tensor, self.layers.num_layers as u64);
        let mut parts = ParametersByPart::default();
        for spec in self.model.parameters() {
            let path = spec.path.as_str();
            let part = match path {
                path if path.starts_with("embedding.word") => &mut parts.embedding,
                path if path.starts_with("embedding.position") => &mut parts.positions,
                path if path.starts_with("embedding.token_type") => &mut parts.token_types,
                path if path.starts_with("final_layernorm") => &mut parts.final_norm,
                path if path.contains(".attention.") => &mut parts.attention_per_layer,
                path if path.contains(".mlp.") => &mut parts.mlp_per_layer,
                path if path.starts_with("layers.") => &mut parts.norms_per_layer,
                _ => &mut parts.heads,
            };
            *part += spec.num_padded_elements(ranks) as u64;
        }
        parts.layers = parts.attention_per_layer + parts.mlp_per_layer + parts.norms_per_layer;
        parts.attention_per_layer /= layers;
        parts.mlp_per_layer /= layers;
        parts.norms_per_layer /= layers;
        parts
    }

    fn bytes_per_rank(&self) -> BytesPerRank {
        let parameters = self.parameters_per_rank();
        let number = self.precision.bytes() as u64;
        let (weights, gradients) = (number * parameters, number * parameters);
        let optimizer = (16 - 2 * number) * parameters;
        let [activations_kept, activations_recomputed] = self.activation_bytes();
        let activations = match self.recompute {
            Recompute::None => activations_kept,
            Recompute::Layer => activations_recomputed,
        };
        let passing = self.passing_bytes();
        let total = (weights + gradients + optimizer + passing).saturating_add(activations);
        BytesPerRank {
            weights,
            gradients,
            optimizer,
            activations,
            activations_kept,
            activations_recomputed,
            passing,
            total,
        }
    }

    /// Bytes of the vocabulary tables that the head holds: a gradient that is not yet added to the
    /// sum, and the weights rounded. A head that chooses among answers has none.
    fn passing_bytes(&self) -> u64 {
        if self.scored_rows() == 0 {
            return 0;
        }
        let table = NUMBER_BYTES * self.vocabulary_rows() * self.layers.hidden_size as u64;
        let gradients = u64::from(self.micro_batches() > 1);
        let rounded = u64::from(self.precision != Precision::F32);
        (gradients + rounded) * table
    }

    /// Micro-batches of a step that each copy of the model takes.
    fn micro_batches(&self) -> u64 {
        (self.global_batch_size / (self.micro_batch_size * self.parallel.data)) as u64
    }

    /// Everything that is exchanged in a micro-batch.
    fn messages(&self) -> Vec<MessageTotal> {
        if self.parallel.tensor == 1 {
            return Vec::new();
        }
        let layers = self.layers.num_layers as u64;
        let forward = match self.recompute {
            Recompute::None => layers,
            Recompute::Layer => 2 * layers,
        };
        let (activation, hidden) = (self.activation(), self.layers.hidden_size as u64);
        let number_bytes = self.precision.bytes() as u64;
        // The loss takes the positions in chunks, and computes in f32.
        let rows = self.scored_rows();
        let chunks = rows.div_ceil(CHUNK_ROWS as u64);
        let head = u64::from(rows > 0);
        let loss = |name| MessageTotal {
            name,
            calls: chunks,
            numbers: rows,
            bytes: rows.saturating_mul(NUMBER_BYTES),
        };
        [
            ("embedding.g", 1, activation),
            ("layer.attention.g", forward, activation),
            ("layer.mlp.g", forward, activation),
            ("layer.attention.f", layers, activation),
            ("layer.mlp.f", layers, activation),
            ("head.f", head, rows.saturating_mul(hidden)),
        ]
        .map(|(name, calls, numbers)| {
            let numbers = numbers.saturating_mul(calls);
            MessageTotal { name, calls, numbers, bytes: numbers.saturating_mul(number_bytes) }
        })
        .into_iter()
        .chain(["loss.max", "loss.target", "loss.sum"].map(loss))
        .filter(|message| message.calls > 0)
        .collect()
    }

    /// Tokens of a micro-batch.
    fn rows(&self) -> u64 {
        (self.micro_batch_size as u64).saturating_mul(self.model.tokens_per_sample() as u64)
    }

    /// Tokens of a micro-batch that are scored: all of them, or the share that is masked, which full
    /// samples come to and shorter ones remain below; none where answers are chosen.
    fn scored_rows(&self) -> u64 {
        let share = match (self.model, self.form) {
            (Architecture::Gpt2(_), _) => return self.rows(),
            (Architecture::BertChoice(_), _) => return 0,
            (Architecture::Bert(_), SampleForm::SentencePairs(masked)) => masked.mask_prob,
            (Architecture::Bert(_), _) => MASKED_SHARE,
        };
        (self.rows() as f64 * share).ceil() as u64
    }

    /// Numbers of one activation of a micro-batch.
    fn activation(&self) -> u64 {
        self.rows().saturating_mul(self.layers.hidden_size as u64)
    }

    /// Rows of the vocabulary that a rank holds.
    fn vocabulary_rows(&self) -> u64 {
        let ranks = self.parallel.tensor;
        (padded_vocab_size(self.model.vocab_size(), ranks) / ranks) as u64
    }

    /// Parameters that each rank holds, padded rows of the vocabulary included.
    fn parameters_per_rank(&self) -> u64 {
        let size = self.parallel.tensor;
        let table = self.model.parameters();
        table.iter().map(|spec| spec.local_shape(0, size).iter().product::<usize>() as u64).sum()
    }

    /// Bytes of what a forward pass keeps, estimated: with everything kept, and with layers that
    /// run again, where each keeps its input and one of them has everything at a time.
    ///
    /// Beside the layers there are the embedding's output, input and output of the last norm, the
    /// gradient that the head leaves, and the logits of one chunk of positions in `f32`. Measured on
    /// a model 512 wide, on one rank and on two, a layer's share of a run's peak above its
    /// parameters was 1.0 to 1.2 times this in `f32`, 1.4 times in `bf16`, whose kernels widen what
    /// they read, and with recomputation up to 2.5 times the little that is left.
    fn activation_bytes(&self) -> [u64; 2] {
        let (layer, layers) = (self.layer_numbers(), self.layers.num_layers as u64);
        let activation = self.activation();
        let around = activation.saturating_mul(4);
        let logits =
            self.scored_rows().min(CHUNK_ROWS as u64).saturating_mul(self.vocabulary_rows());
        let kept = layer.saturating_mul(layers);
        let recomputed = activation.saturating_mul(layers).saturating_add(layer);
        [kept, recomputed].map(|numbers| {
            let numbers = numbers.saturating_add(around);
            let bytes = numbers.saturating_mul(self.precision.bytes() as u64);
            bytes.saturating_add(logits.saturating_mul(NUMBER_BYTES))
        })
    }

    /// Numbers that a layer keeps. Every rank keeps whole the inputs and outputs of both norms; its
    /// share of query, key, value, context, and of the MLP's units before and after GELU; and two
    /// numbers for each row of attention probabilities, which are computed again.
    fn layer_numbers(&self) -> u64 {
        let Self { layers, parallel, .. } = self;
        let (rows, activation) = (self.rows(), self.activation());
        let numbers_of_row = 2 * (layers.ffn_hidden_size + layers.num_attention_heads) as u64;
        let split =
            activation.saturating_mul(4).saturating_add(rows.saturating_mul(numbers_of_row));
        activation.saturating_mul(4).saturating_add(split / parallel.tensor as u64)
    }
}
