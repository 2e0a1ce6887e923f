//! Which tokens of a sample are to be predicted, and what stands in their place.
//!
//! Whole words are masked, a token that goes on with a word (`##ing`) together with those before it,
//! one to [`max_ngram`](MaskedLmConfig::max_ngram) words in a row, `n` of them in proportion to
//! `1 / n`. Words are gone through in a random order; an n-gram that would exceed the number of
//! tokens to predict is shortened until it fits or left out, and so is one that holds a word
//! which is taken. Of the tokens that are to be predicted 80% become `[MASK]`, 10% stay, and 10%
//! become any token of the vocabulary, each for itself.
//!
//! To be predicted are `round(mask_prob · length)` of a sample's `length` tokens, one at least, but
//! never more than `mask_prob` times the length that the sample was aimed at. Short aims thus leave
//! nothing to predict: below seven tokens at 15%.
//!
//! Source: `create_masked_lm_predictions` of Megatron-LM v1.0. There a token that goes on with a
//! word joins the one before it also across `[SEP]`, where a truncated segment begins; here a segment
//! begins with a word.

use std::ops::Range;
use std::sync::Arc;

use corpus::tokenizer::MaskedVocabulary;

use super::form::MaskedLmConfig;
use super::keyed_draws::KeyedDraws;

/// How tokens are masked.
#[derive(Debug, Clone)]
pub struct Masking {
    vocabulary: Arc<MaskedVocabulary>,
    mask_prob: f64,
    /// Chance that an n-gram has at most 1, 2, … words.
    ngram_chances: Vec<f64>,
}

impl Masking {
    /// Masking by `config` in the tokens of `vocabulary`.
    #[must_use]
    pub fn new(config: &MaskedLmConfig, vocabulary: Arc<MaskedVocabulary>) -> Self {
        let shares = (1..=config.max_ngram).map(|words| 1.0 / f64::from(words));
        let total: f64 = shares.clone().sum();
        let mut chance = 0.0;
        let ngram_chances = shares.map(|share| {
            chance += share / total;
            chance
        });
        let ngram_chances = ngram_chances.collect();
        Self { vocabulary, mask_prob: config.mask_prob, ngram_chances }
    }

    /// The vocabulary.
    #[must_use]
    pub fn vocabulary(&self) -> &MaskedVocabulary {
        &self.vocabulary
    }

    /// Most tokens that are predicted of a sample of `length` tokens, `[CLS]` and `[SEP]` among
    /// them, that was aimed at `target_length`.
    #[must_use]
    pub fn budget(&self, length: usize, target_length: usize) -> usize {
        // Python's rounding: half to even.
        let wanted = (length as f64 * self.mask_prob).round_ties_even().max(1.0);
        wanted.min(self.mask_prob * target_length as f64) as usize
    }

    /// Masks up to `budget` of `tokens` in place; returns their places in ascending order.
    pub fn mask(&self, tokens: &mut [u32], budget: usize, draws: &mut KeyedDraws) -> Vec<usize> {
        let words = self.words(tokens);
        let mut places = Vec::with_capacity(budget);
        for ngram in self.choose(&words, budget, draws) {
            for place in words[ngram].iter().cloned().flatten() {
                tokens[place] = self.replacement(tokens[place], draws);
                places.push(place);
            }
        }
        places.sort_unstable();
        places
    }

    /// The words of `tokens`, as places of their tokens; `[CLS]` and `[SEP]` are in none.
    #[must_use]
    pub fn words(&self, tokens: &[u32]) -> Vec<Range<usize>> {
        let mut words: Vec<Range<usize>> = Vec::new();
        let mut goes_on = false;
        for (place, &token) in tokens.iter().enumerate() {
            if token == self.vocabulary.cls || token == self.vocabulary.sep {
                goes_on = false;
                continue;
            }
            match words.last_mut() {
                Some(word) if goes_on && self.vocabulary.continues_word(token) => word.end += 1,
                _ => words.push(place..place + 1),
            }
            goes_on = true;
        }
        words
    }

    /// The n-grams of `words` that are masked, with up to `budget` tokens in all, in the order in
    /// which they are taken.
    #[must_use]
    pub fn choose(
        &self,
        words: &[Range<usize>],
        budget: usize,
        draws: &mut KeyedDraws,
    ) -> Vec<Range<usize>> {
        let mut order: Vec<u32> = (0..words.len() as u32).collect();
        let mut is_taken = vec![false; words.len()];
        let (mut chosen, mut left) = (Vec::new(), budget);
        for place in 0..order.len() {
            if left == 0 {
                break;
            }
            let rest = (order.len() - place) as u32;
            order.swap(place, place + draws.below(rest) as usize);
            let first = order[place] as usize;
            let drawn = draws.uniform();
            let most = self.ngram_chances.iter().take_while(|&&chance| chance <= drawn).count() + 1;
            // A sum that rounds to less than 1 cannot make it one more than there are.
            let most = most.min(self.ngram_chances.len());
            let fitting = (1..=most).rev().find_map(|number| {
                let ngram = first..words.len().min(first + number);
                let tokens: usize = words[ngram.clone()].iter().map(Range::len).sum();
                (tokens <= left).then_some((ngram, tokens))
            });
            let Some((ngram, tokens)) = fitting else { continue };
            if is_taken[ngram.clone()].contains(&true) {
                continue;
            }
            is_taken[ngram.clone()].fill(true);
            left -= tokens;
            chosen.push(ngram);
        }
        chosen
    }

    /// What stands in the place of a token that is to be predicted.
    fn replacement(&self, token: u32, draws: &mut KeyedDraws) -> u32 {
        if draws.uniform() < 0.8 {
            self.vocabulary.mask
        } else if draws.uniform() < 0.5 {
            token
        } else {
            draws.below(self.vocabulary.vocab_size() as u32)
        }
    }
}
