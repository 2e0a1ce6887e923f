//! The loss over a split vocabulary, against a reference in f64.

use serde_json::Value;
use training::backend::Cpu;
use training::parallel::{
    LmHead, ParallelDims, Region, Targets, VocabularyRange, launch, vocab_parallel_cross_entropy,
};

use crate::tensors::{assert_close, constant, leaf, made_up, values};

/// Positions and vocabulary of the reference.
const ROWS: usize = 15;
const VOCABULARY: usize = 16;

struct Reference {
    logits: Vec<f32>,
    targets: Vec<u32>,
    loss_gradients: Vec<f32>,
    losses: Vec<f32>,
    logit_gradients: Vec<f32>,
}

impl Reference {
    fn read() -> Self {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/vocab_parallel_cross_entropy.json"
        );
        let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let numbers = |name: &str| -> Vec<f32> {
            flatten(&file[name]).into_iter().map(|x| x as f32).collect()
        };
        Self {
            logits: numbers("logits"),
            targets: numbers("target").into_iter().map(|x| x as u32).collect(),
            loss_gradients: numbers("grad_output"),
            losses: numbers("loss"),
            logit_gradients: numbers("grad_logits"),
        }
    }
}

fn flatten(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(flatten).collect(),
        number => vec![number.as_f64().unwrap()],
    }
}

/// A part of the vocabulary, and the rows of the identity for it: with these as the table, the
/// hidden states are the logits.
fn part_of_identity(rank: usize, size: usize) -> (VocabularyRange, Vec<f32>) {
    let rows = VOCABULARY / size;
    let first = rank * rows;
    let mut table = vec![0.0; rows * VOCABULARY];
    for row in 0..rows {
        table[row * VOCABULARY + first + row] = 1.0;
    }
    (VocabularyRange { first, rows, tokens: rows }, table)
}

#[test]
fn losses_and_logit_gradients_are_those_of_the_reference() {
    let reference = Reference::read();
    let targets = Targets::new(&reference.targets, &reference.loss_gradients);
    for size in [1, 2, 4, 8] {
        let results = launch(ParallelDims::one_replica(size), |rank| {
            let region = Region::new(&rank.tensor_parallel, "test");
            let (vocabulary, table) = part_of_identity(rank.index(), size);
            let logits = leaf(&reference.logits, [ROWS, VOCABULARY]);
            let table = constant(&table, [vocabulary.rows, VOCABULARY]);
            let copied = training::parallel::copy_to_region(logits.clone(), &region);
            let loss =
                vocab_parallel_cross_entropy(copied, table, None, &targets, &vocabulary, &region);
            let value = loss.clone().into_scalar();
            Ok((value, values(logits.grad(&loss.backward()).unwrap())))
        });
        let weighted = reference.losses.iter().zip(&reference.loss_gradients);
        let expected: f32 = weighted.map(|(loss, weight)| loss * weight).sum();
        for (loss, gradient) in results.unwrap() {
            assert!((loss - expected).abs() < 1e-5 * expected, "{loss}, expected {expected}");
            // Probabilities times weights below 1, in f32.
            assert_close(&gradient, &reference.logit_gradients, 1e-6);
        }
    }
}

#[test]
fn token_losses_are_those_of_the_reference_with_a_padded_vocabulary() {
    let reference = Reference::read();
    for size in [1, 2] {
        let results = launch(ParallelDims::one_replica(size), |rank| {
            // Rank 0 holds 128 rows, of which 16 are tokens; rank 1 holds padding only.
            let head = LmHead::new("head", VOCABULARY, &rank.tensor_parallel);
            let mut table = vec![0.0; 128 * VOCABULARY];
            if rank.is_main() {
                table[..VOCABULARY * VOCABULARY].copy_from_slice(&part_of_identity(0, 1).1);
            }
            let hidden = constant::<2>(&reference.logits, [ROWS, VOCABULARY]).inner();
            let table = constant::<2>(&table, [128, VOCABULARY]).inner();
            Ok(head.token_scores::<Cpu>(hidden, table, None, &reference.targets))
        });
        for scores in results.unwrap() {
            let losses: Vec<f32> = scores.iter().map(|score| score.loss).collect();
            assert_close(&losses, &reference.losses, 1e-5);
        }
    }
}

/// Whole numbers, so that logits are exact and ties are ties; all below 0, so that a row of
/// padding, whose product is 0, would win if it took part.
#[test]
fn the_lowest_token_of_the_largest_logit_is_predicted_and_never_padding() {
    const TOKENS: usize = 200;
    let row_of_table = |token: usize| {
        let is_late = f32::from(token == 150 || token == 199);
        [(token * 7 % 4) as f32, is_late, token as f32, -1000.0]
    };
    let hidden = [
        [1.0, 0.0, 0.0, 1.0],  // token 1, with 49 others as large
        [-1.0, 0.0, 0.0, 1.0], // token 0, with 49 others
        [0.0, 1.0, 0.0, 1.0],  // token 150 before 199, both on the second of two ranks
        [0.0, 0.0, 1.0, 1.0],  // token 199, the last
        [0.0, 0.0, 0.0, 1.0],  // every token alike
        [f32::NAN, 0.0, 0.0, 1.0],
    ];
    let expected = [1, 0, 150, 199, 0, 0];
    for size in [1, 2, 4] {
        let results = launch(ParallelDims::one_replica(size), |rank| {
            let head = LmHead::new("head", TOKENS, &rank.tensor_parallel);
            let VocabularyRange { first, rows, tokens } =
                VocabularyRange::new(TOKENS, &rank.tensor_parallel);
            let mut table: Vec<f32> = (first..first + tokens).flat_map(row_of_table).collect();
            table.resize(rows * 4, 0.0);
            let hidden = constant::<2>(hidden.as_flattened(), [hidden.len(), 4]).inner();
            let table = constant::<2>(&table, [rows, 4]).inner();
            Ok(head.token_scores::<Cpu>(hidden, table, None, &[0; 6]))
        });
        for scores in results.unwrap() {
            let predicted: Vec<u32> = scores.iter().map(|score| score.predicted).collect();
            assert_eq!(predicted, expected, "on {size} ranks");
            assert!(scores[5].loss.is_nan());
        }
    }
}

/// More rows than one chunk, logits far apart between ranks, and a table and a bias whose gradients
/// are asked for, against burn's own operations on the whole.
#[test]
fn large_and_lopsided_logits_agree_with_plain_operations() {
    use burn::tensor::activation::log_softmax;
    const WIDTH: usize = 8;
    const TOKENS: usize = 256;
    let rows = 700;
    let hidden = made_up(1, rows * WIDTH);
    // The second half of the vocabulary scores hundreds below the first, so that on two ranks
    // one rank's exponentials vanish beside the other's.
    let mut table = made_up(2, TOKENS * WIDTH);
    let hidden: Vec<f32> =
        hidden.chunks_exact(WIDTH).flat_map(|row| [&[1.0], &row[1..]].concat()).collect();
    for (token, row) in table.chunks_exact_mut(WIDTH).enumerate() {
        row[0] = if token < TOKENS / 2 { 3.0 } else { -300.0 };
    }
    let targets: Vec<u32> = (0..rows as u32).map(|i| (i * 37) % TOKENS as u32).collect();
    let weights = made_up(3, rows);
    // Of numbers up to 10, so that losses of either sign do not cancel to next to nothing.
    let bias: Vec<f32> = made_up(4, TOKENS).iter().map(|number| 10.0 * number).collect();

    let plain = {
        let (hidden, table) = (leaf(&hidden, [rows, WIDTH]), leaf(&table, [TOKENS, WIDTH]));
        let bias = leaf(&bias, [1, TOKENS]);
        let logits = hidden.clone().matmul(table.clone().transpose()) + bias.clone();
        let log_probs = log_softmax(logits, 1);
        let indices: Vec<i64> = targets.iter().map(|&target| i64::from(target)).collect();
        let indices = burn::tensor::Tensor::from_data(
            burn::tensor::TensorData::new(indices, [rows, 1]),
            &Default::default(),
        );
        let weights = constant(&weights, [rows, 1]);
        let loss = -(log_probs.gather(1, indices) * weights).sum();
        let value = loss.clone().into_scalar();
        let grads = loss.backward();
        let [hidden, table, bias] =
            [hidden, table, bias].map(|leaf| values(leaf.grad(&grads).unwrap()));
        (value, hidden, table, bias)
    };

    for size in [1, 2] {
        let part = TOKENS / size;
        let results = launch(ParallelDims::one_replica(size), |rank| {
            let region = Region::new(&rank.tensor_parallel, "test");
            let first = rank.index() * part;
            let own = &table[first * WIDTH..(first + part) * WIDTH];
            let (hidden, own) = (leaf(&hidden, [rows, WIDTH]), leaf(own, [part, WIDTH]));
            let bias = leaf(&bias[first..first + part], [part]);
            let vocabulary = VocabularyRange { first, rows: part, tokens: part };
            let copied = training::parallel::copy_to_region(hidden.clone(), &region);
            let targets = Targets::new(&targets, &weights);
            let loss = vocab_parallel_cross_entropy(
                copied,
                own.clone(),
                Some(bias.clone()),
                &targets,
                &vocabulary,
                &region,
            );
            let value = loss.clone().into_scalar();
            // A loss that is scaled afterwards scales its gradients.
            let grads = (loss * 2.0).backward();
            let [hidden, own] = [hidden, own].map(|leaf| values(leaf.grad(&grads).unwrap()));
            Ok((value, hidden, own, values(bias.grad(&grads).unwrap())))
        });
        for (rank, (loss, hidden, table, bias)) in results.unwrap().into_iter().enumerate() {
            assert!((loss - plain.0).abs() < 1e-4 * plain.0.abs());
            let doubled = |values: &[f32]| values.iter().map(|x| 2.0 * x).collect::<Vec<_>>();
            // Gradients of the hidden states reach 600, those of the table 10.
            assert_close(&hidden, &doubled(&plain.1), 1e-3);
            let first = rank * part * WIDTH;
            assert_close(&table, &doubled(&plain.2[first..first + part * WIDTH]), 1e-4);
            assert_close(&bias, &doubled(&plain.3[rank * part..(rank + 1) * part]), 1e-4);
        }
    }
}
