//! A rank's part in generation: its part of the model, and the keys and values of its heads.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::backend::Cpu;
use crate::error::TrainError;
use crate::model::{Gpt2, Gpt2Config, KeyValueCache};
use crate::parallel::Rank;
use crate::parameters::ParameterSource;
use crate::rank_threads::Serve;

/// A rank that computes what comes next.
#[derive(Debug)]
pub(super) struct GeneratingRank {
    model: Gpt2<Cpu>,
    cache: Option<KeyValueCache<Cpu>>,
}

/// New tokens of every text, and where they belong.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) rows: Rows,
    /// `[rows, seq]`, the same number for each text.
    pub(super) tokens: Vec<u32>,
    /// Whether the logits of what comes after them are wanted.
    pub(super) wants_logits: bool,
}

/// Which texts the tokens belong to.
#[derive(Debug)]
pub(super) enum Rows {
    /// New ones, of up to `capacity` tokens; what was kept of others is dropped.
    New { count: usize, capacity: usize },
    /// For each the one of those that are kept which it goes on from.
    From(Vec<usize>),
    /// Those that are kept.
    Same,
}

impl GeneratingRank {
    pub(super) fn new(
        config: &Gpt2Config,
        source: &dyn ParameterSource,
        rank: &Rank,
    ) -> Result<Self, TrainError> {
        let model = Gpt2::init(config, source, &rank.tensor_parallel, &Device::<Cpu>::default())?;
        Ok(Self { model, cache: None })
    }
}

impl Serve for GeneratingRank {
    type Request = Append;
    /// `[rows, vocab_size]`; empty where they are not wanted.
    type Answer = Vec<f32>;

    fn answer(&mut self, append: &Append) -> Vec<f32> {
        let device = Device::<Cpu>::default();
        let rows = match &append.rows {
            Rows::New { count, capacity } => {
                // Dropped before the new one is made: both at once may not fit.
                self.cache = None;
                self.cache = Some(self.model.cache(*count, *capacity, &device));
                *count
            }
            Rows::From(rows) => {
                self.cache.as_mut().expect("texts are begun before they go on").select_rows(rows);
                rows.len()
            }
            Rows::Same => self.cache.as_ref().expect("texts are begun before they go on").rows(),
        };
        let cache = self.cache.as_mut().expect("made or kept above");
        let tokens: Vec<i32> = append.tokens.iter().map(|&token| token as i32).collect();
        let seq = tokens.len() / rows;
        let tokens = TensorData::new(tokens, [rows, seq]);
        let tokens = Tensor::<Cpu, 2, Int>::from_data(tokens, &device);
        let hidden = self.model.forward_cached(tokens, cache);
        if append.wants_logits { self.model.next_logits(hidden) } else { Vec::new() }
    }
}
