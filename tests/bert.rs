//! BERT in both arrangements of the paper's figure 7, against PyTorch's reference and against itself
//! in every layout.

pub(crate) mod folder;
mod heads;
mod hugging_face;
mod layouts;
mod messages;
mod minilm;
mod multiple_choice;
mod peers;
mod planner;
mod reference;
mod reference_run;
pub(crate) mod runs;

use std::sync::Arc;

use training::TrainError;
use training::backend::{Activation, CpuAutodiff};
use training::data::{Batch, Segments};
use training::model::{Arrangement, Bert, BertConfig, ParameterSource};
use training::parallel::Rank;

use self::folder::Tensors;

const ARRANGEMENTS: [Arrangement; 2] = [Arrangement::PreNorm, Arrangement::PostNorm];

/// The reference's sizes, without dropout.
fn tiny(arrangement: Arrangement) -> BertConfig {
    BertConfig {
        num_layers: 2,
        hidden_size: 32,
        num_attention_heads: 4,
        seq_length: 64,
        vocab_size: 128,
        ffn_hidden_size: None,
        hidden_dropout: 0.0,
        attention_dropout: 0.0,
        activation: Activation::Gelu,
        layer_norm_epsilon: 1e-5,
        init_std: 0.02,
        arrangement,
    }
}

/// Sizes with dropout and a vocabulary that needs padding.
fn small(arrangement: Arrangement) -> BertConfig {
    BertConfig {
        seq_length: SEQ_LENGTH,
        vocab_size: 301,
        hidden_dropout: 0.1,
        attention_dropout: 0.2,
        // Larger than in training, so that softmaxes are not flat.
        init_std: 0.1,
        ..tiny(arrangement)
    }
}

fn model(
    config: &BertConfig,
    source: &dyn ParameterSource,
    rank: &Rank,
) -> Result<Bert<CpuAutodiff>, TrainError> {
    Bert::init(config, source, &rank.tensor_parallel, &Default::default())
}

/// A batch of the reference, whose tensors' names begin with `prefix`.
fn reference_batch(file: &Tensors, prefix: &str) -> Batch {
    let floats = |name: &str| file.floats(&format!("{prefix}{name}")).to_vec();
    let whole = |name: &str| -> Vec<u32> {
        floats(name).into_iter().map(|number| number.max(0.0) as u32).collect()
    };
    let (num_samples, seq_length) = (whole("sop").len(), 24);
    let mask = floats("loss_mask");
    let scored: f32 = mask.iter().sum();
    let lengths = floats("pad");
    let lengths = lengths.chunks_exact(seq_length).map(|row| row.iter().sum::<f32>() as usize);
    Batch {
        tokens: whole("ids"),
        targets: whole("labels"),
        loss_weights: mask.iter().map(|masked| masked / scored).collect(),
        num_samples,
        seq_length,
        first_sample: 0,
        segments: Some(Segments {
            token_types: whole("types"),
            lengths: lengths.collect(),
            labels: whole("sop"),
            label_weights: vec![1.0 / num_samples as f32; num_samples],
        }),
    }
}

/// The samples `places` of `batch`, as a micro-batch of it.
fn part(batch: &Batch, places: std::ops::Range<usize>) -> Batch {
    let width = batch.seq_length;
    let elements = places.start * width..places.end * width;
    let segments = batch.segments.as_ref().unwrap();
    Batch {
        tokens: batch.tokens[elements.clone()].to_vec(),
        targets: batch.targets[elements.clone()].to_vec(),
        loss_weights: batch.loss_weights[elements.clone()].to_vec(),
        num_samples: places.len(),
        seq_length: width,
        first_sample: batch.first_sample + places.start,
        segments: Some(Segments {
            token_types: segments.token_types[elements].to_vec(),
            lengths: segments.lengths[places.clone()].into(),
            labels: segments.labels[places.clone()].to_vec(),
            label_weights: segments.label_weights[places].to_vec(),
        }),
    }
}

/// Samples of the made-up batch, and tokens of each.
const SAMPLES: usize = 4;
const SEQ_LENGTH: usize = 24;

/// A global batch that looks random, of samples of several lengths.
fn made_up_batch() -> Batch {
    let lengths = [24, 17, 9, 21];
    let at = |i: usize, step: usize| ((i * step + 17) % 301) as u32;
    let elements = 0..SAMPLES * SEQ_LENGTH;
    let place = |i: usize| (i / SEQ_LENGTH, i % SEQ_LENGTH);
    let is_masked = |&i: &usize| {
        let (sample, position) = place(i);
        position > 0 && position < lengths[sample] - 1 && position % 5 == 2
    };
    let masked = elements.clone().filter(is_masked).count();
    let weight = |i: usize| if is_masked(&i) { (1.0 / masked as f64) as f32 } else { 0.0 };
    Batch {
        tokens: elements.clone().map(|i| if is_masked(&i) { 3 } else { at(i, 7919) }).collect(),
        targets: elements.clone().map(|i| at(i, 104_729)).collect(),
        loss_weights: elements.clone().map(weight).collect(),
        num_samples: SAMPLES,
        seq_length: SEQ_LENGTH,
        first_sample: 0,
        segments: Some(Segments {
            token_types: elements
                .map(place)
                .map(|(sample, position)| {
                    u32::from((lengths[sample] / 2..lengths[sample]).contains(&position))
                })
                .collect(),
            lengths: Arc::new(lengths),
            labels: vec![0, 1, 1, 0],
            label_weights: vec![0.25; SAMPLES],
        }),
    }
}
