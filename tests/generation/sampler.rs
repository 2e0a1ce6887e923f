//! From logits to a token.

use std::num::NonZeroUsize;

use training::generation::Sampling;
use training::parallel::random::KeyedUniform;

/// How often each token is drawn in so many draws.
fn counts(sampling: &Sampling, logits: &[f32], draws: u64) -> Vec<u64> {
    let mut counts = vec![0; logits.len()];
    for position in 0..draws {
        counts[sampling.draw(logits, 0, position).unwrap() as usize] += 1;
    }
    counts
}

/// Checks that tokens are drawn as often as `probabilities` say, within five standard deviations.
fn assert_drawn(sampling: &Sampling, logits: &[f32], probabilities: &[f64]) {
    const DRAWS: u64 = 20_000;
    let counts = counts(sampling, logits, DRAWS);
    for (token, (&count, &probability)) in counts.iter().zip(probabilities).enumerate() {
        let (expected, draws) = (probability * DRAWS as f64, DRAWS as f64);
        let deviation = (draws * probability * (1.0 - probability)).sqrt();
        let error = (count as f64 - expected).abs();
        assert!(error <= 5.0 * deviation, "token {token}: {count}, expected {expected:.0}");
    }
}

/// Logits of tokens with these probabilities, moved by some constant.
fn logits(probabilities: &[f64]) -> Vec<f32> {
    probabilities.iter().map(|probability| (probability.ln() + 3.0) as f32).collect()
}

const PROBABILITIES: [f64; 5] = [0.1, 0.4, 0.05, 0.25, 0.2];

fn sampling(temperature: f64, top_k: usize, top_p: f64) -> Sampling {
    Sampling { temperature, top_k: NonZeroUsize::new(top_k), top_p, seed: 3 }
}

#[test]
fn tokens_are_drawn_as_often_as_their_probabilities_say() {
    let logits = logits(&PROBABILITIES);
    assert_drawn(&sampling(1.0, 0, 1.0), &logits, &PROBABILITIES);
    // More tokens than there are cut nothing.
    assert_drawn(&sampling(1.0, 99, 1.0), &logits, &PROBABILITIES);
    // At half the temperature probabilities go by their squares, which add up to 0.275.
    let squares = PROBABILITIES.map(|probability| probability * probability / 0.275);
    assert_drawn(&sampling(0.5, 0, 1.0), &logits, &squares);
}

#[test]
fn top_k_and_top_p_leave_the_most_probable() {
    let logits = logits(&PROBABILITIES);
    assert_drawn(&sampling(1.0, 2, 1.0), &logits, &[0.0, 0.4 / 0.65, 0.0, 0.25 / 0.65, 0.0]);
    // 0.4 and 0.25 are less than 0.7; with 0.2 it is enough.
    let three = [0.0, 0.4 / 0.85, 0.0, 0.25 / 0.85, 0.2 / 0.85];
    assert_drawn(&sampling(1.0, 0, 0.7), &logits, &three);
    // Of the two that top-k leaves, the first has 0.615 of what is left: more than 0.6.
    assert_drawn(&sampling(1.0, 2, 0.6), &logits, &[0.0, 1.0, 0.0, 0.0, 0.0]);
    // The most probable stays, however small the share.
    assert_drawn(&sampling(1.0, 0, 1e-9), &logits, &[0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_drawn(&sampling(1.0, 1, 1.0), &logits, &[0.0, 1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn of_equal_tokens_the_lower_is_the_more_probable() {
    let logits = [1.0, 2.0, 2.0, 2.0, 0.0];
    assert_eq!(Sampling::greedy().draw(&logits, 0, 0), Some(1));
    assert_drawn(&sampling(1.0, 2, 1.0), &logits, &[0.0, 0.5, 0.5, 0.0, 0.0]);
    // Each of the three has 0.29 of the probability.
    assert_drawn(&sampling(1.0, 0, 0.5), &logits, &[0.0, 0.5, 0.5, 0.0, 0.0]);
}

#[test]
fn large_vocabularies_are_cut_as_sorting_all_of_them_would() {
    // A thousand tokens of slowly falling probability, in an order of their own.
    let count = 1000;
    let place = |token: usize| token * 389 % count;
    let logits: Vec<f32> = (0..count).map(|token| -0.004 * place(token) as f32).collect();
    let total: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    for share in [0.2, 0.5, 0.9, 0.999] {
        let mut sum = 0.0;
        let mut kept = 0;
        while sum < share * total {
            sum += (-0.004 * kept as f64).exp();
            kept += 1;
        }
        let drawn = counts(&sampling(1.0, 0, share), &logits, 30_000);
        let last = (0..count).filter(|&token| drawn[token] > 0).map(place).max().unwrap();
        assert!(last < kept, "{share}: place {last} of {kept}");
        // Each of the last places comes up 30 times by expectation where few are kept.
        assert!(last + 40 > kept, "{share}: place {last} of {kept}");
    }
}

#[test]
fn extreme_temperatures_and_logits_are_no_trouble() {
    let cold = sampling(1e-300, 0, 1.0);
    assert_eq!(counts(&cold, &[0.0, 1.0, 0.5], 100), [0, 100, 0]);
    let hot = sampling(1e300, 0, 1.0);
    assert_drawn(&hot, &[-50.0, 1.0, 80.0, 0.0], &[0.25; 4]);
    let wide = [f32::MIN, f32::MAX, f32::NEG_INFINITY];
    assert_eq!(counts(&sampling(1.0, 0, 1.0), &wide, 100), [0, 100, 0]);
    assert_eq!(counts(&sampling(1.0, 0, 1.0), &[f32::NEG_INFINITY, -3.0], 100), [0, 100]);
}

#[test]
fn logits_that_are_no_numbers_give_no_token() {
    let bad: [&[f32]; 4] = [&[0.0, f32::NAN], &[f32::INFINITY, 1.0], &[f32::NEG_INFINITY; 3], &[]];
    for logits in bad {
        for sampling in [Sampling::greedy(), Sampling::default(), sampling(1.0, 1, 0.5)] {
            assert_eq!(sampling.draw(logits, 0, 0), None, "{logits:?}");
        }
    }
}

#[test]
fn draws_are_a_function_of_seed_sample_and_position() {
    let at = |seed, sample, position| KeyedUniform::new(seed, sample).at(position);
    let base = at(1, 2, 3);
    assert_eq!(at(1, 2, 3), base);
    for other in [at(2, 2, 3), at(1, 3, 3), at(1, 2, 4), at(1 + (1 << 32), 2, 3)] {
        assert_ne!(other, base);
    }
    for other in [at(1, 2 + (1 << 32), 3), at(1, 2, 3 + (1 << 32))] {
        assert_ne!(other, base);
    }
    let numbers: Vec<f64> = (0..10_000).map(|position| at(9, 0, position)).collect();
    assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
    let mean = numbers.iter().sum::<f64>() / 1e4;
    // The mean's standard deviation is 0.0029.
    assert!((mean - 0.5).abs() < 0.015, "{mean}");
}
