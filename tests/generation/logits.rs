//! Logits behind a cache, to the last bit, and beside those of a plain forward pass.

use burn::tensor::{Int, Tensor, TensorData};
use training::backend::Cpu;
use training::backend::cpu::row_product;
use training::backend::cpu::vector::Vector;
use training::model::Gpt2;
use training::parallel::{ParallelDims, TensorParallelGroup, launch};

use super::models;
use crate::tensors::made_up;

type Tokens = Tensor<Cpu, 2, Int>;

fn tokens(rows: &[&[i32]]) -> Tokens {
    let shape = [rows.len(), rows[0].len()];
    Tokens::from_data(TensorData::new(rows.concat(), shape), &Default::default())
}

fn text(length: usize) -> Vec<i32> {
    (0..length as i32).map(|i| (i * i * 7 + 13 * i + 5) % 96).collect()
}

/// The logits behind each position of `text`, computed in pieces of the given lengths.
fn in_pieces(model: &Gpt2<Cpu>, text: &[i32], pieces: &[usize]) -> Vec<f32> {
    let mut cache = model.cache(1, text.len(), &Default::default());
    let mut rest = text;
    let mut logits = Vec::new();
    for &length in pieces {
        let (piece, later) = rest.split_at(length);
        logits = model.next_logits(model.forward_cached(tokens(&[piece]), &mut cache));
        rest = later;
    }
    assert!(rest.is_empty());
    assert_eq!(cache.length(), text.len());
    logits
}

#[test]
fn logits_are_the_same_bits_however_the_text_was_cut() {
    for (name, config, weights) in models() {
        for ranks in [1, 2] {
            launch(ParallelDims::one_replica(ranks), |rank| {
                let (group, device) = (&rank.tensor_parallel, Default::default());
                let model = Gpt2::<Cpu>::init(&config, &weights(), group, &device)?;
                for length in 1..=config.seq_length {
                    let text = text(length);
                    let whole = in_pieces(&model, &text, &[length]);
                    let one_by_one = in_pieces(&model, &text, &vec![1; length]);
                    assert!(whole == one_by_one, "{name}, {ranks} ranks, {length} tokens");
                    let (first, rest) = (length / 3, length - length / 3);
                    if first > 0 {
                        let in_two = in_pieces(&model, &text, &[first, rest]);
                        assert!(whole == in_two, "{name}, {ranks} ranks, {length} tokens");
                    }
                }
                Ok(())
            })
            .unwrap();
        }
    }
}

#[test]
fn logits_are_those_of_a_plain_forward_pass_up_to_rounding() {
    for (name, config, weights) in models() {
        let (group, device) = (TensorParallelGroup::single(), Default::default());
        let model = Gpt2::<Cpu>::init(&config, &weights(), &group, &device).unwrap();
        let text = text(config.seq_length);
        let plain = model.logits(tokens(&[&text])).into_data();
        let plain = plain.as_slice::<f32>().unwrap().chunks_exact(config.vocab_size);
        for (length, plain) in (1..=config.seq_length).zip(plain) {
            let cached = in_pieces(&model, &text[..length], &[length]);
            let largest = plain.iter().fold(0.0_f32, |largest, logit| largest.max(logit.abs()));
            for (cached, plain) in cached.iter().zip(plain) {
                // Two orders of summation in f32, through up to three layers.
                let error = (cached - plain).abs();
                assert!(error <= 2e-5 * largest, "{name} at {length}: {cached} {plain}");
            }
        }
    }
}

#[test]
fn a_text_is_the_same_bits_alone_as_among_others_and_after_they_left() {
    for (name, config, weights) in models() {
        let (group, device) = (TensorParallelGroup::single(), Default::default());
        let model = Gpt2::<Cpu>::init(&config, &weights(), &group, &device).unwrap();
        let (first, second) = (text(9), text(9).into_iter().rev().collect::<Vec<_>>());
        let mut cache = model.cache(2, 11, &device);
        let both = model.forward_cached(tokens(&[&first, &second]), &mut cache);
        let both = model.next_logits(both);
        assert!(both[config.vocab_size..] == in_pieces(&model, &second, &[9]), "{name}");

        // The second goes on twice, the first not at all.
        cache.select_rows(&[1, 1]);
        let next = model.forward_cached(tokens(&[&[3], &[4]]), &mut cache);
        let next = model.next_logits(next);
        for (row, token) in [3, 4].into_iter().enumerate() {
            let alone = in_pieces(&model, &[&second[..], &[token]].concat(), &[10]);
            assert!(next[row * config.vocab_size..][..config.vocab_size] == alone, "{name}");
        }
    }
}

#[test]
fn products_are_right_and_rows_do_not_depend_on_their_number() {
    // Sizes on both sides of those at which the kernel divides its work.
    for (rows, k, n) in [(1, 1, 1), (5, 7, 3), (3, 40, 130), (67, 45, 600), (2, 300, 515)] {
        let (left, right) = (made_up(1, rows * k), made_up(2, k * n));
        let transposed: Vec<f32> =
            (0..n * k).map(|index| right[index % k * n + index / k]).collect();
        for vector in [Vector::best(), Vector::portable()] {
            let product = row_product::multiply(vector, &left, &right, k, n);
            let by_dots = row_product::multiply_transposed(vector, &left, &transposed, k, n);
            for row in 0..rows {
                let left = &left[row * k..][..k];
                let range = row * n..(row + 1) * n;
                assert!(
                    product[range.clone()] == row_product::multiply(vector, left, &right, k, n)
                );
                let dots = row_product::multiply_transposed(vector, left, &transposed, k, n);
                assert!(by_dots[range.clone()] == dots);
                for (column, index) in range.enumerate() {
                    let terms = left.iter().enumerate();
                    let exact: f64 =
                        terms.map(|(i, &x)| f64::from(x) * f64::from(right[i * n + column])).sum();
                    // As many roundings as terms, each of half a unit of the sum's magnitude.
                    let bound = 1e-6 * (k as f64).sqrt();
                    assert!((f64::from(product[index]) - exact).abs() < bound, "{k} {exact}");
                    assert!((f64::from(by_dots[index]) - exact).abs() < bound, "{k} {exact}");
                }
            }
        }
    }
}
