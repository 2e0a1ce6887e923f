//! Whole continuations: with and without the cache, on ranks, side by side, past the window.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use burn::tensor::{Int, Tensor, TensorData};
use corpus::{Observer, Silent, Unit};
use training::TrainError;
use training::backend::{Activation, Cpu};
use training::generation::{Continuation, Finish, GenerationRequest, Sampling};
use training::model::{Gpt2, KeyedInit, ParameterSource, ParameterSpec};
use training::parallel::TensorParallelGroup;

use super::{Weights, generate, generator, measured, models, odd_model, request};
use crate::evaluation::positive;
use crate::micro_gpt2::{self, Tensors};

/// Greedy, the model's own distribution, and all cuts at once.
fn samplings() -> [Sampling; 3] {
    let cut = Sampling {
        temperature: 0.7,
        top_k: NonZeroUsize::new(20),
        top_p: 0.9,
        ..Sampling::default()
    };
    [Sampling::greedy(), Sampling { seed: 5, ..Sampling::default() }, cut]
}

#[test]
fn tokens_are_the_same_with_the_cache_as_without_at_every_length() {
    for (name, config, weights) in models() {
        for ranks in [1, 2] {
            let mut generator = generator(&config, weights(), ranks);
            for sampling in samplings() {
                // To the end of the window and one token further; after the shortest prompt every
                // length of text comes up, after others the prompt is read at once.
                for prompt in [1, config.seq_length / 2, config.seq_length] {
                    let max_tokens = config.seq_length - prompt + 1;
                    let cached = GenerationRequest { sampling, ..request(prompt, max_tokens) };
                    let plain = GenerationRequest { use_cache: false, ..cached.clone() };
                    let expected = generate(&mut generator, &plain);
                    assert_eq!(expected[0].tokens.len(), max_tokens);
                    let found = generate(&mut generator, &cached);
                    assert_eq!(found, expected, "{name}, {ranks} ranks, {sampling:?}, {prompt}");
                }
            }
        }
    }
}

#[test]
fn tokens_are_the_same_past_the_window_which_slides_by_half() {
    for (name, config, weights) in models() {
        let mut generator = generator(&config, weights(), 2);
        for sampling in samplings() {
            // Two texts of three windows.
            let cached = GenerationRequest {
                sampling,
                num_samples: positive(2),
                ..request(config.seq_length, 2 * config.seq_length)
            };
            let plain = GenerationRequest { use_cache: false, ..cached.clone() };
            let (found, speed) = measured(&mut generator, &cached);
            assert_eq!(found, generate(&mut generator, &plain), "{name}, {sampling:?}");
            assert!(found.iter().all(|text| text.tokens.len() == 2 * config.seq_length));
            // The first when the prompt is full, then every half window.
            assert_eq!(speed.slides, 4, "{name}");
        }
    }
}

#[test]
fn after_a_slide_the_model_sees_the_last_half_of_its_window() {
    let config = odd_model();
    let mut generator = generator(&config, Weights::Drawn(KeyedInit { seed: 7 }), 1);
    let long = GenerationRequest { sampling: Sampling::greedy(), ..request(21, 3) };
    let tokens = generate(&mut generator, &long).remove(0).tokens;
    // 22 tokens do not fit into 21: of them the last 11 are gone on with.
    let seen = [&long.prompt[11..], &tokens[..1]].concat();
    let short = GenerationRequest { prompt: seen, ..GenerationRequest::clone(&long) };
    assert_eq!(generate(&mut generator, &short)[0].tokens[..2], tokens[1..]);
}

#[test]
fn greedy_text_is_that_of_the_reference_models_plain_logits() {
    for (name, activation) in
        [("gpt2_micro", Activation::Gelu), ("gpt2_micro_gelu_new", Activation::GeluTanh)]
    {
        let config = micro_gpt2::config(activation);
        let weights = || Tensors::read(name, "model.safetensors");
        let (group, device) = (TensorParallelGroup::single(), Default::default());
        let model = Gpt2::<Cpu>::init(&config, &weights(), &group, &device).unwrap();
        let plain_next = |text: &[u32]| {
            let tokens: Vec<i32> = text.iter().map(|&token| token as i32).collect();
            let tokens = TensorData::new(tokens, [1, text.len()]);
            let logits = model.logits(Tensor::<Cpu, 2, Int>::from_data(tokens, &device));
            let logits: Vec<f32> = logits.into_data().to_vec().unwrap();
            let last = logits[logits.len() - config.vocab_size..].iter().enumerate();
            last.max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0 as u32
        };
        let mut generators =
            [1, 2, 4].map(|ranks| generator(&config, Weights::Read(weights()), ranks));
        let mut drawn = std::collections::BTreeSet::new();
        for prompt in 1..=60 {
            let asked = GenerationRequest { sampling: Sampling::greedy(), ..request(prompt, 4) };
            let mut expected = asked.prompt.clone();
            for _ in 0..4 {
                expected.push(plain_next(&expected));
            }
            let expected = &expected[prompt..];
            for generator in &mut generators {
                assert_eq!(generate(generator, &asked)[0].tokens, expected, "{name}, {prompt}");
            }
            drawn.extend(expected.to_vec());
        }
        assert!(drawn.len() > 20, "{drawn:?}");
    }
}

#[test]
fn ranks_draw_the_same_text() {
    for (name, config, weights) in models() {
        for sampling in samplings() {
            let asked = GenerationRequest { sampling, ..request(3, config.seq_length - 3) };
            let alone = generate(&mut generator(&config, weights(), 1), &asked);
            assert_eq!(generate(&mut generator(&config, weights(), 2), &asked), alone, "{name}");
        }
    }
}

#[test]
fn a_sample_is_the_same_alone_as_among_others_of_which_some_end() {
    let config = odd_model();
    let mut generator = generator(&config, Weights::Drawn(KeyedInit { seed: 7 }), 2);
    let mut of = |num_samples: usize, end| {
        let asked = GenerationRequest { num_samples: positive(num_samples), end, ..request(2, 30) };
        generate(&mut generator, &asked)
    };
    let endless = of(6, None);
    let distinct: std::collections::BTreeSet<_> = endless.iter().map(|it| &it.tokens).collect();
    assert_eq!(distinct.len(), 6, "each sample has draws of its own");
    assert_eq!(of(2, None), endless[..2]);
    assert_eq!(of(1, None), endless[..1]);

    // A token that some draw early and some never.
    let end = endless[2].tokens[4];
    let ended = of(6, Some(end));
    let mut finishes = Vec::new();
    for (ended, endless) in ended.iter().zip(&endless) {
        let place = endless.tokens.iter().position(|&token| token == end);
        let expected = match place {
            Some(place) => Continuation {
                tokens: endless.tokens[..place].to_vec(),
                finish: Finish::EndOfDocument,
            },
            None => endless.clone(),
        };
        assert_eq!(ended, &expected);
        finishes.push(ended.finish);
    }
    for finish in [Finish::EndOfDocument, Finish::MaxTokens] {
        assert!(finishes.contains(&finish), "{finishes:?}");
    }
}

#[test]
fn the_seed_decides_and_rows_that_pad_the_vocabulary_are_never_drawn() {
    let config = odd_model();
    // Weights that are all 0 but for gains: every token is as probable as any other.
    struct Uniform;
    impl ParameterSource for Uniform {
        fn local(
            &self,
            spec: &ParameterSpec,
            rank: usize,
            size: usize,
        ) -> Result<Vec<f32>, TrainError> {
            Ok(vec![0.0; spec.local_shape(rank, size).iter().product()])
        }
    }
    for ranks in [1, 2] {
        let uniform = super::Generator::new(&config, Uniform, positive(ranks)).unwrap();
        let mut generator = uniform;
        let of_seed = |seed| GenerationRequest {
            sampling: Sampling { seed, ..Sampling::default() },
            num_samples: positive(40),
            ..request(1, 20)
        };
        let texts = generate(&mut generator, &of_seed(1));
        let mut seen = [false; 101];
        texts.iter().flat_map(|text| &text.tokens).for_each(|&token| seen[token as usize] = true);
        // Of 800 draws each of 101 tokens is missed with a chance of 3e-4.
        assert!(seen.iter().filter(|&&seen| seen).count() >= 99);
        assert_eq!(generate(&mut generator, &of_seed(1)), texts);
        assert_ne!(generate(&mut generator, &of_seed(2)), texts);
    }
}

#[test]
fn prompts_and_settings_that_make_no_sense_are_refused() {
    let config = odd_model();
    let mut generator = generator(&config, Weights::Drawn(KeyedInit { seed: 7 }), 1);
    let good = request(2, 2);
    let sampling = |temperature, top_p| GenerationRequest {
        sampling: Sampling { temperature, top_p, ..Sampling::default() },
        ..good.clone()
    };
    for (request, message) in [
        (request(22, 1), "the prompt has 22 tokens, and the model sees 21 at most; shorten it"),
        (GenerationRequest { prompt: vec![5, 101], ..good.clone() }, "the prompt has token 101"),
        (sampling(-0.1, 1.0), "temperature = -0.1: a number of at least 0 is needed"),
        (sampling(f64::NAN, 1.0), "temperature = NaN"),
        (sampling(f64::INFINITY, 1.0), "temperature = inf"),
        (sampling(1.0, 0.0), "top_p = 0: a number above 0 and of at most 1 is needed"),
        (sampling(1.0, 1.01), "top_p = 1.01"),
        (sampling(1.0, f64::NAN), "top_p = NaN"),
        (
            GenerationRequest { num_samples: NonZeroUsize::MAX, ..good.clone() },
            "ask for fewer samples",
        ),
    ] {
        let error = generator.generate(&request, &Silent, &mut |_, _| ControlFlow::Continue(()));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    // The generator is as good as before.
    assert_eq!(generate(&mut generator, &good)[0].tokens.len(), 2);
}

#[test]
fn weights_that_are_no_numbers_are_an_error_that_says_so() {
    struct NotANumber;
    impl ParameterSource for NotANumber {
        fn local(
            &self,
            spec: &ParameterSpec,
            rank: usize,
            size: usize,
        ) -> Result<Vec<f32>, TrainError> {
            Ok(vec![f32::NAN; spec.local_shape(rank, size).iter().product()])
        }
    }
    let mut generator = super::Generator::new(&odd_model(), NotANumber, positive(1)).unwrap();
    for sampling in samplings() {
        let asked = GenerationRequest { sampling, ..request(2, 2) };
        let error = generator.generate(&asked, &Silent, &mut |_, _| ControlFlow::Continue(()));
        let expected =
            "the model's logits at position 2 are no numbers; its weights are not usable";
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}

#[test]
fn what_is_out_stays_when_nobody_wants_more() {
    let config = odd_model();
    let mut generator = generator(&config, Weights::Drawn(KeyedInit { seed: 7 }), 1);
    let asked = request(2, 15);
    let whole = generate(&mut generator, &asked).remove(0).tokens;
    let mut heard = Vec::new();
    let (found, _) = generator
        .generate(&asked, &Silent, &mut |sample, token| {
            assert_eq!(sample, 0);
            heard.push(token);
            if heard.len() == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(heard, whole[..4]);
    let stopped =
        |tokens: &[u32]| vec![Continuation { tokens: tokens.to_vec(), finish: Finish::Stopped }];
    assert_eq!(found, stopped(&whole[..4]));

    /// Stops the work when it has heard of so many tokens.
    struct StopsAfter(u64, std::sync::atomic::AtomicU64);
    impl Observer for StopsAfter {
        fn begin(&self, _: &str, _: Option<u64>, _: Unit) {}
        fn advance(&self, amount: u64) {
            self.1.fetch_add(amount, std::sync::atomic::Ordering::Relaxed);
        }
        fn finish(&self) {}
        fn stop_requested(&self) -> bool {
            self.1.load(std::sync::atomic::Ordering::Relaxed) >= self.0
        }
    }
    for use_cache in [true, false] {
        for tokens in [0, 1, 5] {
            let asked = GenerationRequest { use_cache, ..asked.clone() };
            let observer = StopsAfter(tokens as u64, Default::default());
            let sink: &mut dyn FnMut(usize, u32) -> ControlFlow<()> =
                &mut |_, _| ControlFlow::Continue(());
            let (found, _) = generator.generate(&asked, &observer, sink).unwrap();
            assert_eq!(found, stopped(&whole[..tokens]));
        }
    }
}
