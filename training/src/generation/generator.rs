//! [`Generator`]: the loop that draws one token after another.

use crate::generation::GenerationError;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use corpus::{Observer, machine};

use super::rank::{Append, GeneratingRank, Rows};
use super::request::{Continuation, Finish, GenerationRequest};
use crate::error::TrainError;
use crate::model::Gpt2Config;
use crate::parallel::Rank;
use crate::parameters::ParameterSource;
use crate::rank_threads::RankThreads;

/// Positions that are computed at a time, over all texts: enough for the products to run at full
/// speed, and a request to stop is heard in between.
const POSITIONS_AT_A_TIME: usize = 64;

/// Writes texts with a model that is split over rank threads.
///
/// Dropping it ends the threads.
#[derive(Debug)]
pub struct Generator {
    config: Gpt2Config,
    ranks: RankThreads<GeneratingRank>,
}

/// What a call of [`Generator::generate`] took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GenerationSpeed {
    /// Time until the prompt was read.
    pub prompt: Duration,
    /// Time of everything after that.
    pub continuation: Duration,
    /// Tokens that were drawn, those that end a text included.
    pub drawn_tokens: usize,
    /// How often the window was full and half of it was encoded again.
    pub slides: usize,
}

/// Hears of each token as it is drawn: the number of its text, and the token. It breaks to have no
/// more of any text.
pub type TokenSink<'s> = &'s mut dyn FnMut(usize, u32) -> ControlFlow<()>;

impl Generator {
    /// Builds the model from `source` on `tensor_parallel_size` rank threads.
    ///
    /// # Errors
    ///
    /// When the sizes do not split over the ranks, which is found before anything is allocated, or
    /// `source` lacks a parameter.
    pub fn new<S>(
        config: &Gpt2Config,
        source: S,
        tensor_parallel_size: NonZeroUsize,
    ) -> Result<Self, TrainError>
    where
        S: ParameterSource + Send + 'static,
    {
        config.check_tensor_parallel(tensor_parallel_size.get())?;
        let model = config.clone();
        let ranks = move |rank: &Rank| GeneratingRank::new(&model, &source, rank);
        let ranks = RankThreads::start(tensor_parallel_size, ranks)?;
        Ok(Self { config: config.clone(), ranks })
    }

    /// Continues the prompt of `request`: one [`Continuation`] for each sample.
    ///
    /// `observer` hears of each token and is asked whether to stop before each; a text that is
    /// stopped keeps what it has.
    ///
    /// # Errors
    ///
    /// What [`GenerationRequest::validate`] finds; [`GenerationError::Logits`] where the model gives
    /// none; when a rank fails, and then the generator is of no use.
    ///
    /// # Panics
    ///
    /// When the prompt is empty, or after a rank failed.
    pub fn generate(
        &mut self,
        request: &GenerationRequest,
        observer: &dyn Observer,
        sink: TokenSink<'_>,
    ) -> Result<(Vec<Continuation>, GenerationSpeed), TrainError> {
        request.validate(&self.config, machine::memory_bytes())?;
        let began = Instant::now();
        let mut speed = GenerationSpeed::default();
        let mut texts = Texts::new(request, self.config.seq_length);

        let window = texts.window(&[0]);
        let capacity = request.capacity(&self.config);
        let mut logits = self.encode(&window, 1, capacity, observer)?;
        // The prompt's one row of logits is where every text goes on from.
        let (mut rows, mut kept) = (vec![0; texts.going.len()], 1);
        speed.prompt = began.elapsed();
        while let Some(next) = logits {
            let drawn = texts.draw(&next, &rows, self.config.vocab_size, request)?;
            speed.drawn_tokens += rows.len();
            observer.advance(rows.len() as u64);
            rows = texts.append(&drawn, &rows, request, sink);
            if rows.is_empty() {
                break;
            }
            let count = rows.len();
            let has_slid = texts.slide();
            speed.slides += usize::from(has_slid);
            logits = if has_slid || !request.use_cache {
                let window = texts.window(&texts.going);
                self.encode(&window, count, capacity, observer)?
            } else if observer.stop_requested() {
                None
            } else {
                Some(self.ranks.ask(texts.append_last(&rows, kept))?)
            };
            kept = count;
            rows = (0..count).collect();
        }
        speed.continuation = began.elapsed() - speed.prompt;
        Ok((texts.into_continuations(request), speed))
    }

    /// Begins `count` texts of the tokens `window`, `[count, length]`, and returns the logits of
    /// what comes next; `None` when it was asked to stop.
    fn encode(
        &mut self,
        window: &[u32],
        count: usize,
        capacity: usize,
        observer: &dyn Observer,
    ) -> Result<Option<Vec<f32>>, TrainError> {
        let length = window.len() / count;
        let at_a_time = (POSITIONS_AT_A_TIME / count).max(1);
        let mut logits = Vec::new();
        for first in (0..length).step_by(at_a_time) {
            if observer.stop_requested() {
                return Ok(None);
            }
            let end = length.min(first + at_a_time);
            let tokens = window.chunks_exact(length).flat_map(|text| &text[first..end]);
            let rows = if first == 0 { Rows::New { count, capacity } } else { Rows::Same };
            let tokens = tokens.copied().collect();
            logits = self.ranks.ask(Append { rows, tokens, wants_logits: end == length })?;
        }
        Ok(Some(logits))
    }
}

/// All texts, of which those that go on have the same length.
struct Texts {
    prompt: usize,
    seq_length: usize,
    /// Prompt and new tokens of each.
    tokens: Vec<Vec<u32>>,
    finish: Vec<Option<Finish>>,
    /// The texts that go on.
    going: Vec<usize>,
    /// The first token that the model sees.
    first_seen: usize,
}

impl Texts {
    fn new(request: &GenerationRequest, seq_length: usize) -> Self {
        let count = request.num_samples.get();
        Self {
            prompt: request.prompt.len(),
            seq_length,
            tokens: vec![request.prompt.clone(); count],
            finish: vec![None; count],
            going: (0..count).collect(),
            first_seen: 0,
        }
    }

    /// Tokens of each text that goes on.
    fn length(&self) -> usize {
        self.going.first().map_or(0, |&text| self.tokens[text].len())
    }

    /// What the model sees of `texts`, one after the other.
    fn window(&self, texts: &[usize]) -> Vec<u32> {
        texts.iter().flat_map(|&text| &self.tokens[text][self.first_seen..]).copied().collect()
    }

    /// Draws the next token of each text that goes on; `rows` says which row of the logits is its.
    fn draw(
        &self,
        logits: &[f32],
        rows: &[usize],
        vocab_size: usize,
        request: &GenerationRequest,
    ) -> Result<Vec<u32>, TrainError> {
        let position = self.length();
        let texts = self.going.iter().zip(rows);
        let draw = texts.map(|(&text, &row)| {
            let logits = &logits[row * vocab_size..][..vocab_size];
            let token = request.sampling.draw(logits, text as u64, position as u64);
            token.ok_or(TrainError::from(GenerationError::Logits { position }))
        });
        draw.collect()
    }

    /// Appends a token to each text that goes on, and returns the rows of those that still do.
    fn append(
        &mut self,
        drawn: &[u32],
        rows: &[usize],
        request: &GenerationRequest,
        sink: TokenSink<'_>,
    ) -> Vec<usize> {
        let full = self.prompt + request.max_tokens.get();
        let (mut going, mut still) = (Vec::new(), Vec::new());
        let mut is_wanted = true;
        for ((&text, &row), &token) in self.going.iter().zip(rows).zip(drawn) {
            if request.end == Some(token) {
                self.finish[text] = Some(Finish::EndOfDocument);
                continue;
            }
            self.tokens[text].push(token);
            is_wanted &= sink(text, token).is_continue();
            if self.tokens[text].len() == full {
                self.finish[text] = Some(Finish::MaxTokens);
            } else {
                going.push(text);
                still.push(row);
            }
        }
        self.going = going;
        if is_wanted { still } else { Vec::new() }
    }

    /// The last token of each text that goes on, to be appended to row `rows[i]` of the `kept` rows
    /// that the ranks have.
    fn append_last(&self, rows: &[usize], kept: usize) -> Append {
        let last = self.going.iter().filter_map(|&text| self.tokens[text].last());
        let is_same = rows.len() == kept && rows.iter().enumerate().all(|(i, &row)| i == row);
        Append {
            rows: if is_same { Rows::Same } else { Rows::From(rows.to_vec()) },
            tokens: last.copied().collect(),
            wants_logits: true,
        }
    }

    /// Where there are more tokens than the model sees, lets it see the last half of a window;
    /// whether that was so.
    fn slide(&mut self) -> bool {
        let length = self.length();
        let is_full = length - self.first_seen > self.seq_length;
        if is_full {
            self.first_seen = length - self.seq_length.div_ceil(2);
        }
        is_full
    }

    fn into_continuations(self, request: &GenerationRequest) -> Vec<Continuation> {
        let texts = self.tokens.into_iter().zip(self.finish);
        texts
            .map(|(mut tokens, finish)| Continuation {
                tokens: tokens.split_off(request.prompt.len()),
                finish: finish.unwrap_or(Finish::Stopped),
            })
            .collect()
    }
}
