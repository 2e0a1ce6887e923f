//! RACE: a model whose choices are known, fine-tuned ones, their vote, and what a user sees when the
//! folder is wrong.

mod ensemble;
pub(crate) mod fine_tuned;
mod known;
mod refusals;

use std::path::Path;

use corpus::race::RaceSplit;
use evaluation::race::{Measured, Race};
use evaluation::{
    CheckpointKind, ChoiceScore, EvalPlan, EvaluatedModel, Items, ModelIdentity, Task, TaskResult,
};
use serde_json::{Value, json};
use training::TrainError;
use training::architecture::Architecture;
use training::backend::Activation;
use training::inference::ChoiceScorer;
use training::model::{Arrangement, BertConfig, ParameterSource, ParameterSpec};

use super::{Zeros, plan, positive};
use crate::support::Dir;
use crate::support::word_pieces::word_pieces_of;

/// The words of the made questions; `good` is that of the options that the model of a known choice
/// chooses.
const WORDS: [&str; 16] = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "what", "is", "there", "?", ".", "a",
    "b", "c", "d", "sun",
];

fn config(seq_length: usize) -> BertConfig {
    BertConfig {
        num_layers: 1,
        hidden_size: 8,
        num_attention_heads: 2,
        seq_length,
        vocab_size: WORDS.len(),
        ffn_hidden_size: None,
        hidden_dropout: 0.0,
        attention_dropout: 0.0,
        activation: Activation::Gelu,
        layer_norm_epsilon: 1e-5,
        init_std: 0.02,
        arrangement: Arrangement::PreNorm,
    }
}

/// A model that chooses the option with the word `good`.
///
/// Attention is uniform, so that what it adds to `[CLS]` is the mean of all tokens; only `good` has
/// anything at one place of that, and this place is what the classifier looks at.
#[derive(Clone, Copy)]
struct Chooser;

impl ParameterSource for Chooser {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        let width = 8;
        let mut whole = vec![0.0; spec.num_elements()];
        match spec.name.as_str() {
            name if name.ends_with("word_embeddings.weight") => {
                for (token, row) in whole.chunks_exact_mut(width).enumerate() {
                    let place = if WORDS.get(token) == Some(&"good") { 3 } else { 0 };
                    (row[place], row[place + 1]) = (1.0, -1.0);
                }
            }
            name if name.ends_with("query_key_value.weight") => {
                (0..width).for_each(|at| whole[at * 3 * width + 2 * width + at] = 1.0);
            }
            name if name.ends_with("attention.output.dense.weight")
                || name.ends_with("pooler.dense.weight") =>
            {
                (0..width).for_each(|at| whole[at * width + at] = 1.0);
            }
            "classifier.weight" => whole[3] = 1.0,
            name if name.ends_with("ln.weight") => whole.fill(1.0),
            _ => return Zeros.local(spec, rank, size),
        }
        Ok(spec.slice(&whole, rank, size))
    }
}

/// A folder in RACE's form with both levels of the split `dev`, and the tokenizer of its words.
struct Folder(Dir);

impl Folder {
    /// Questions by level: which option is the good one, and which is right.
    fn new(middle: &[(usize, usize)], high: &[(usize, usize)]) -> Self {
        let folder = Self(Dir::new());
        folder.0.write("tokenizer.json", word_pieces_of(&WORDS.map(str::to_owned)));
        for (level, questions) in [("middle", middle), ("high", high)] {
            // Two questions on an article.
            for (number, questions) in questions.chunks(2).enumerate() {
                folder.write(level, number, &article(questions));
            }
        }
        folder
    }

    fn write(&self, level: &str, number: usize, article: &Value) {
        self.0.write(&format!("RACE/dev/{level}/{number}.txt"), article.to_string());
    }

    fn task(&self) -> Race {
        Race { name: "made".to_owned(), data: self.0.path("RACE"), split: RaceSplit::Dev }
    }

    fn identity(&self, seq_length: usize) -> ModelIdentity {
        let tokenizer = self.0.path("tokenizer.json");
        ModelIdentity {
            checkpoint: "made in a test".into(),
            kind: CheckpointKind::Trained,
            step: Some(7),
            architecture: Architecture::BertChoice(config(seq_length)),
            split_weights: None,
            masked_lm: None,
            tokenizer: corpus::tokenizer::open(tokenizer.to_str().unwrap()).unwrap(),
        }
    }

    /// The answers of the model of `source` in `dp` copies of `tp` ranks.
    fn answered<S>(&self, source: S, seq_length: usize, plan: &EvalPlan) -> TaskResult
    where
        S: ParameterSource + Send + 'static,
    {
        let (tp, dp) = (plan.tensor_parallel_size, plan.data_parallel_size);
        let scorer = ChoiceScorer::with_copies(&config(seq_length), source, tp, dp).unwrap();
        let mut model = EvaluatedModel::new(self.identity(seq_length), scorer);
        Task::Race(self.task()).run(&mut model, plan, &corpus::Silent).unwrap()
    }
}

/// An article with questions that have one good option each, and the others alike.
fn article(questions: &[(usize, usize)]) -> Value {
    let options = |&(good, _): &(usize, usize)| {
        (0..4).map(|at| if at == good { "good" } else { "a" }).collect::<Vec<_>>()
    };
    json!({
        "article": "sun is there .",
        "questions": questions.iter().enumerate()
            .map(|(number, _)| ["what is there ?", "there is _ ."][number % 2])
            .collect::<Vec<_>>(),
        "options": questions.iter().map(options).collect::<Vec<_>>(),
        "answers": questions.iter().map(|&(_, right)| ["A", "B", "C", "D"][right])
            .collect::<Vec<_>>(),
    })
}

fn layout(micro_batch_size: usize, tp: usize, dp: usize) -> EvalPlan {
    EvalPlan {
        micro_batch_size: positive(micro_batch_size),
        tensor_parallel_size: positive(tp),
        data_parallel_size: positive(dp),
        ..plan(32, 1)
    }
}

/// The evaluation of a checkpoint on a folder of RACE.
fn race_plan(checkpoint: &Path, data: &Path) -> EvalPlan {
    let name = evaluation::race::NAME.to_owned();
    let task = Race { name, data: data.to_owned(), split: RaceSplit::Dev };
    EvalPlan { checkpoint: checkpoint.to_owned(), tasks: vec![Task::Race(task)], ..layout(2, 1, 1) }
}

fn measured(result: &TaskResult) -> &Measured {
    match &result.measured {
        evaluation::Measured::Race(measured) => measured,
        other => panic!("{other:?}"),
    }
}

fn items(result: &TaskResult) -> &[ChoiceScore] {
    match &result.items {
        Some(Items::Choices(items)) => items,
        other => panic!("{other:?}"),
    }
}
