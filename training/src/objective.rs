//! What the training loop asks of a model, so that one loop trains every architecture.
//!
//! A [`Batch`] is host data; only here does it become tensors.

use std::sync::Arc;

use burn::module::{AutodiffModule, Module};
use burn::tensor::activation::log_softmax;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor, TensorData};

use crate::backend::{TpBackend, TrainingBackend, VisibleKeys};
use crate::data::Batch;
use crate::data::Segments;
use crate::model::bert::{BertInputs, MaskedPositions};
use crate::model::{Bert, BertMultipleChoice, Gpt2, TransformerBlock};
use crate::parallel::random::DropoutKey;

/// A model that training can improve: an embedding, layers one after the other, and a loss.
///
/// The pieces are asked for one by one so that a pass can run a layer again
/// ([`pass`](crate::pass)). Without a key nothing is dropped.
pub trait Objective<B: AutodiffBackend>: AutodiffModule<B> {
    /// One layer.
    type Layer: Layer<B>;

    /// What the parts of the loss are called, in order; their sum is the loss.
    const LOSSES: &'static [&'static str];

    /// Which keys the queries of a batch see, in every layer.
    fn visible_keys(batch: &Batch) -> VisibleKeys;

    /// What the first layer sees, `[num_samples, seq_length, hidden_size]`.
    fn embed(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Tensor<B, 3>;

    /// The layers, which lie at `layers.0`, `layers.1` and so on in the model.
    fn layers(&self) -> &[Self::Layer];

    /// The batch's weighted sums of losses, each `[1]`, from what the last layer returned: one for
    /// each of [`LOSSES`](Self::LOSSES).
    fn head_losses(
        &self,
        hidden: Tensor<B, 3>,
        batch: &Batch,
        dropout: Option<&DropoutKey>,
    ) -> Vec<Tensor<B, 1>>;

    /// The parameter that both the embedding and the loss have gradients for, if one is.
    fn tied_weight(&self) -> Option<Tensor<B, 2>>;

    /// [`head_losses`](Self::head_losses) with the graph of the whole model behind them.
    fn losses(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Vec<Tensor<B, 1>> {
        let visible = Self::visible_keys(batch);
        let embedded = self.embed(batch, dropout);
        let layers = self.layers().iter();
        self.head_losses(
            layers.fold(embedded, |hidden, layer| layer.with_graph(hidden, &visible, dropout)),
            batch,
            dropout,
        )
    }
}

/// A layer in training.
pub trait Layer<B: AutodiffBackend>: AutodiffModule<B> {
    /// What it makes of `hidden` `[num_samples, seq_length, hidden_size]`.
    fn with_graph(
        &self,
        hidden: Tensor<B, 3>,
        visible: &VisibleKeys,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B, 3>;

    /// The same numbers as [`with_graph`](Self::with_graph), with nothing kept for a backward pass.
    fn without_graph(
        &self,
        hidden: Tensor<B::InnerBackend, 3>,
        visible: &VisibleKeys,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B::InnerBackend, 3>;
}

impl<B> Layer<B> for TransformerBlock<B>
where
    B: TrainingBackend,
    B::InnerBackend: TpBackend,
    Self: AutodiffModule<B, InnerModule = TransformerBlock<B::InnerBackend>>,
{
    fn with_graph(
        &self,
        hidden: Tensor<B, 3>,
        visible: &VisibleKeys,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B, 3> {
        self.forward(hidden, visible, dropout)
    }

    fn without_graph(
        &self,
        hidden: Tensor<B::InnerBackend, 3>,
        visible: &VisibleKeys,
        dropout: Option<&DropoutKey>,
    ) -> Tensor<B::InnerBackend, 3> {
        self.valid().forward(hidden, visible, dropout)
    }
}

/// A model whose losses can be read without a graph.
pub trait Scored<B: Backend>: Module<B> {
    /// What a validation measures: losses, of which the first is the one that runs are compared by,
    /// and shares of what was right.
    const MEASURES: &'static [&'static str];

    /// The measures of the batch's targets, added up: one sum for each of
    /// [`MEASURES`](Self::MEASURES).
    /// What the targets weigh in training is of no account beyond whether they weigh anything.
    fn score(&self, batch: &Batch) -> Vec<LossSum>;
}

/// What a masked language model made of one sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairScore {
    /// The losses of its masked tokens.
    pub masked_lm: LossSum,
    /// The loss of the order of its segments, in nats.
    pub order_loss: f32,
    /// Whether the order is the more probable one of the two; of two alike, that which is not
    /// swapped.
    pub is_order_right: bool,
}

/// The share of the questions of a validation whose right answer was chosen, by name.
pub(crate) const VALIDATION_ACCURACY: &str = "validation_accuracy";

/// Losses of several targets, or how many of these were right.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LossSum {
    /// Their sum in nats, of `f32` losses added in `f64` in the order of the targets.
    pub total: f64,
    /// How many targets.
    pub targets: u64,
}

impl LossSum {
    /// The sum of `losses`.
    pub(crate) fn of(losses: impl IntoIterator<Item = f32>) -> Self {
        losses.into_iter().fold(Self::default(), |sum, loss| Self {
            total: sum.total + f64::from(loss),
            targets: sum.targets + 1,
        })
    }
}

impl<B> Objective<B> for Gpt2<B>
where
    B: TrainingBackend,
    B::InnerBackend: TpBackend,
    Self: AutodiffModule<B>,
    TransformerBlock<B>: AutodiffModule<B, InnerModule = TransformerBlock<B::InnerBackend>>,
{
    type Layer = TransformerBlock<B>;

    const LOSSES: &'static [&'static str] = &["lm_loss"];

    fn visible_keys(_: &Batch) -> VisibleKeys {
        VisibleKeys::Causal
    }

    fn embed(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Tensor<B, 3> {
        Gpt2::embed(self, input_tokens(batch, &self.devices()[0]), dropout)
    }

    fn layers(&self) -> &[TransformerBlock<B>] {
        &self.layers
    }

    fn head_losses(
        &self,
        hidden: Tensor<B, 3>,
        batch: &Batch,
        _: Option<&DropoutKey>,
    ) -> Vec<Tensor<B, 1>> {
        vec![self.head_loss(hidden, &batch.targets, &batch.loss_weights)]
    }

    fn tied_weight(&self) -> Option<Tensor<B, 2>> {
        Some(self.embedding.word_embeddings.weight.val())
    }
}

impl<B: TpBackend> Scored<B> for Gpt2<B> {
    const MEASURES: &'static [&'static str] = &["validation_loss"];

    fn score(&self, batch: &Batch) -> Vec<LossSum> {
        let tokens = input_tokens(batch, &self.devices()[0]);
        let rows: Vec<usize> = (0..batch.targets.len()).collect();
        let scores = self.token_scores(tokens, &batch.targets, &rows);
        vec![LossSum::of(scores.iter().map(|score| score.loss))]
    }
}

impl<B> Objective<B> for Bert<B>
where
    B: TrainingBackend,
    B::InnerBackend: TpBackend,
    Self: AutodiffModule<B>,
    TransformerBlock<B>: AutodiffModule<B, InnerModule = TransformerBlock<B::InnerBackend>>,
{
    type Layer = TransformerBlock<B>;

    const LOSSES: &'static [&'static str] = &["mlm_loss", "sop_loss"];

    fn visible_keys(batch: &Batch) -> VisibleKeys {
        unpadded(batch)
    }

    fn embed(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Tensor<B, 3> {
        Bert::embed(self, segment_inputs(batch, &self.devices()[0]), dropout)
    }

    fn layers(&self) -> &[TransformerBlock<B>] {
        &self.layers
    }

    fn head_losses(
        &self,
        hidden: Tensor<B, 3>,
        batch: &Batch,
        _: Option<&DropoutKey>,
    ) -> Vec<Tensor<B, 1>> {
        let Segments { labels, label_weights, .. } = segments(batch);
        let masked = MaskedPositions::new(&batch.targets, &batch.loss_weights);
        Bert::head_losses(self, hidden, &masked, labels, label_weights).into()
    }

    fn tied_weight(&self) -> Option<Tensor<B, 2>> {
        Some(self.embedding.word_embeddings.weight.val())
    }
}

impl<B> Objective<B> for BertMultipleChoice<B>
where
    B: TrainingBackend,
    B::InnerBackend: TpBackend,
    Self: AutodiffModule<B>,
    TransformerBlock<B>: AutodiffModule<B, InnerModule = TransformerBlock<B::InnerBackend>>,
{
    type Layer = TransformerBlock<B>;

    const LOSSES: &'static [&'static str] = &["choice_loss"];

    fn visible_keys(batch: &Batch) -> VisibleKeys {
        unpadded(batch)
    }

    fn embed(&self, batch: &Batch, dropout: Option<&DropoutKey>) -> Tensor<B, 3> {
        BertMultipleChoice::embed(self, segment_inputs(batch, &self.devices()[0]), dropout)
    }

    fn layers(&self) -> &[TransformerBlock<B>] {
        &self.layers
    }

    fn head_losses(
        &self,
        hidden: Tensor<B, 3>,
        batch: &Batch,
        dropout: Option<&DropoutKey>,
    ) -> Vec<Tensor<B, 1>> {
        let Segments { labels, label_weights, .. } = segments(batch);
        vec![self.head_loss(hidden, labels, label_weights, dropout)]
    }

    fn tied_weight(&self) -> Option<Tensor<B, 2>> {
        None
    }
}

impl<B: TpBackend> Scored<B> for Bert<B> {
    const MEASURES: &'static [&'static str] = &["validation_loss", "validation_sop_loss"];

    /// The loss of each masked token, and that of each sample's order.
    fn score(&self, batch: &Batch) -> Vec<LossSum> {
        let (losses, order) = masked_losses(self, batch);
        vec![LossSum::of(losses), LossSum::of(class_losses(order, &segments(batch).labels))]
    }
}

/// The loss of each masked token of `batch`, row by row, and the logits of the order of each
/// sample's segments, `[num_samples, 2]`.
fn masked_losses<B: TpBackend>(model: &Bert<B>, batch: &Batch) -> (Vec<f32>, Tensor<B, 2>) {
    let masked = MaskedPositions::new(&batch.targets, &batch.loss_weights);
    let (scores, order) = model.scores(segment_inputs(batch, &model.devices()[0]), &masked);
    // The position that stands in where nothing is masked is no target.
    let count = batch.loss_weights.iter().filter(|&&weight| weight != 0.0).count();
    (scores.iter().take(count).map(|score| score.loss).collect(), order)
}

/// What `model` makes of each sample of `batch`.
pub(crate) fn pair_scores<B: TpBackend>(model: &Bert<B>, batch: &Batch) -> Vec<PairScore> {
    let (losses, order) = masked_losses(model, batch);
    let labels = &segments(batch).labels;
    let are_right = are_right(order.clone(), labels);
    let orders = class_losses(order, labels).into_iter().zip(are_right);
    let mut losses = losses.into_iter();
    let samples = batch.loss_weights.chunks_exact(batch.seq_length);
    let score = |(weights, (order_loss, is_order_right)): (&[f32], (f32, bool))| {
        let masked = weights.iter().filter(|&&weight| weight != 0.0).count();
        let masked_lm = LossSum::of(losses.by_ref().take(masked));
        PairScore { masked_lm, order_loss, is_order_right }
    };
    samples.zip(orders).map(score).collect()
}

impl<B: TpBackend> Scored<B> for BertMultipleChoice<B> {
    const MEASURES: &'static [&'static str] = &["validation_loss", VALIDATION_ACCURACY];

    /// The loss of each question, and whether the right answer was chosen.
    fn score(&self, batch: &Batch) -> Vec<LossSum> {
        let (logits, labels) = (choice_logits(self, batch), &segments(batch).labels);
        let right = are_right(logits.clone(), labels).into_iter();
        let right = right.map(|is_right| f32::from(u8::from(is_right)));
        vec![LossSum::of(class_losses(logits, labels)), LossSum::of(right)]
    }
}

/// How well the samples of `batch` answer their questions, `[questions, choices]`; it has one label
/// for each question.
pub(crate) fn choice_logits<B: TpBackend>(
    model: &BertMultipleChoice<B>,
    batch: &Batch,
) -> Tensor<B, 2> {
    let questions = segments(batch).labels.len();
    let inputs = segment_inputs(batch, &model.devices()[0]);
    model.logits(inputs, batch.num_samples / questions.max(1))
}

/// The cross-entropy of each row of `logits` `[rows, classes]`.
fn class_losses<B: Backend>(logits: Tensor<B, 2>, labels: &[u32]) -> Vec<f32> {
    let [_, classes] = logits.dims();
    let log_shares = log_softmax(logits, 1).into_data();
    let log_shares = log_shares.as_slice::<f32>().expect("logits of classes are f32");
    let rows = log_shares.chunks_exact(classes).zip(labels);
    rows.map(|(row, &label)| -row[label as usize]).collect()
}

/// Whether the largest of each row of `logits` `[rows, classes]` is the label's; of equal ones the
/// first is the largest.
fn are_right<B: Backend>(logits: Tensor<B, 2>, labels: &[u32]) -> Vec<bool> {
    let [_, classes] = logits.dims();
    let logits = logits.into_data();
    let logits = logits.as_slice::<f32>().expect("logits of classes are f32");
    let largest = |row: &[f32]| {
        (1..row.len()).fold(0, |best, class| if row[class] > row[best] { class } else { best })
    };
    let rows = logits.chunks_exact(classes).zip(labels);
    rows.map(|(row, &label)| largest(row) == label as usize).collect()
}

/// What samples of two segments have beside their tokens.
///
/// # Panics
///
/// When the samples are windows of running text: a plan gives each architecture its own form.
fn segments(batch: &Batch) -> &Segments {
    batch.segments.as_ref().expect("samples of two segments")
}

/// The keys of each sample that are no padding.
fn unpadded(batch: &Batch) -> VisibleKeys {
    VisibleKeys::Padded(Arc::clone(&segments(batch).lengths))
}

/// What a BERT reads of a batch.
fn segment_inputs<B: TpBackend>(batch: &Batch, device: &B::Device) -> BertInputs<B> {
    let shape = [batch.num_samples, batch.seq_length];
    BertInputs {
        tokens: input_tokens(batch, device),
        token_types: whole_numbers(&segments(batch).token_types, shape, device),
        visible: unpadded(batch),
    }
}

/// The batch's inputs, `[num_samples, seq_length]`.
fn input_tokens<B: Backend>(batch: &Batch, device: &B::Device) -> Tensor<B, 2, Int> {
    whole_numbers(&batch.tokens, [batch.num_samples, batch.seq_length], device)
}

fn whole_numbers<B: Backend>(
    numbers: &[u32],
    shape: [usize; 2],
    device: &B::Device,
) -> Tensor<B, 2, Int> {
    let numbers: Vec<i64> = numbers.iter().map(|&number| i64::from(number)).collect();
    Tensor::from_data(TensorData::new(numbers, shape), device)
}
