//! A BERT's losses on held-out documents are those that its training measures.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corpus::{DataFolder, DataManifest, Existing, Sequences, Silent};
use evaluation::lambada::Lambada;
use evaluation::validation::Validation;
use evaluation::validation::masked_lm::Measured;
use evaluation::{
    CheckpointKind, EvalError, EvalPlan, EvalReport, EvaluatedModel, ModelIdentity, PartialScores,
    Protocol, Task, TaskResult, evaluate,
};
use tempfile::TempDir;
use training::TrainError;
use training::architecture::Architecture;
use training::backend::Activation;
use training::checkpoint::{self, Checkpoint, export};
use training::data::Part;
use training::inference::MaskedLmScorer;
use training::model::{Arrangement, BertConfig, ParameterSource, ParameterSpec};

use super::resume::{Watch, numbers};
use super::{Zeros, assert_close, plan, positive, task};
use crate::bert::folder;
use crate::bert::runs::{DATA, config, run};
use crate::support::word_pieces::word_pieces_of;
use crate::support::{Dir, Shared};
use crate::training::logged;

/// A run on sixty documents, of which it has held out twelve, with a validation after its last step.
struct Run(TempDir);

impl Run {
    fn shared() -> Arc<Self> {
        static RUN: Shared<Run> = Shared::new();
        RUN.get(|| Self::new(Arrangement::PreNorm))
    }

    fn new(arrangement: Arrangement) -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        run(
            &made.path("run"),
            config(arrangement, |config| {
                config.schedule.train_steps = Some(3.try_into().unwrap());
                config.validation.as_mut().unwrap().batches = None;
            }),
        );
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn plan(&self) -> EvalPlan {
        plan_of(&self.path("run"), &DATA.path("data"), Part::Validation)
    }

    /// The last losses that the run logged: of masked tokens, and of the order of segments.
    fn logged(&self) -> [f64; 2] {
        ["validation_loss", "validation_sop_loss"]
            .map(|name| *logged(&self.path("run"), name).last().unwrap())
    }
}

fn validation(data: &Path, part: Part) -> Validation {
    Validation { name: "validation".to_owned(), data: data.to_owned(), part }
}

fn plan_of(checkpoint: &Path, data: &Path, part: Part) -> EvalPlan {
    EvalPlan {
        checkpoint: checkpoint.to_owned(),
        tasks: vec![Task::Validation(validation(data, part))],
        micro_batch_size: positive(2),
        ..plan(32, 1)
    }
}

fn found(result: &TaskResult) -> &Measured {
    match &result.measured {
        evaluation::Measured::MaskedLm(measured) => measured,
        other => panic!("{other:?}"),
    }
}

fn measured(report: &EvalReport) -> &Measured {
    found(&report.results[0])
}

#[test]
fn the_losses_are_those_of_the_trainings_last_validation() {
    for arrangement in [Arrangement::PreNorm, Arrangement::PostNorm] {
        let run = Run::new(arrangement);
        let report = evaluate(&run.plan(), &Silent).unwrap();
        let Measured { metrics, counts, settings, protocol } = measured(&report);
        let [masked_lm, order] = run.logged();
        // The same batches: only the order in which f64 sums are taken may differ.
        assert_close(metrics.mlm_loss, masked_lm, 1e-12);
        assert_close(metrics.sop_loss, order, 1e-12);
        assert_eq!(metrics.mlm_perplexity, metrics.mlm_loss.exp());
        assert_close(metrics.total_nll, metrics.mlm_loss * counts.targets as f64, 1e-12);
        let orders = counts.samples as f64;
        let right = metrics.sop_accuracy * orders;
        assert!((right - right.round()).abs() < 1e-9 && (0.0..=orders).contains(&right));
        assert_eq!(*protocol, "training");
        assert_eq!((counts.documents, counts.samples), (12, counts.samples_in_part));
        assert_eq!((counts.documents_of_one_sentence, counts.documents_with_long_sentence), (0, 0));
        assert!(counts.targets >= counts.samples && counts.samples >= 12, "{counts:?}");
        assert_eq!(settings.masked_lm_from, "checkpoint");
        assert_eq!(settings.split_weights_from, "checkpoint");
        assert!(!report.results[0].partial);

        let json = serde_json::to_value(&report).unwrap();
        let result = &json["results"][0];
        for name in ["mlm_loss", "mlm_perplexity", "sop_loss", "sop_accuracy", "sop_stderr"] {
            assert!(result["metrics"][name].is_number(), "{name}: {result}");
        }
        let settings = &result["settings"];
        assert_eq!(settings["split_weights"], "80,20,0");
        assert_eq!((&settings["mask_prob"], &settings["max_ngram"]), (&0.15.into(), &3.into()));
        assert_eq!(settings["short_seq_prob"], 0.1);
    }
}

#[test]
fn batches_ranks_and_copies_change_nothing() {
    let run = Run::shared();
    let [masked_lm, order] = run.logged();
    for (micro_batch_size, tp, dp) in [(1, 1, 1), (5, 1, 1), (2, 2, 1), (3, 1, 4), (100, 1, 2)] {
        let plan = EvalPlan {
            micro_batch_size: positive(micro_batch_size),
            tensor_parallel_size: positive(tp),
            data_parallel_size: positive(dp),
            ..run.plan()
        };
        let report = evaluate(&plan, &Silent).unwrap();
        assert_close(measured(&report).metrics.mlm_loss, masked_lm, 1e-6);
        assert_close(measured(&report).metrics.sop_loss, order, 1e-6);
    }
}

#[test]
fn stopped_one_goes_on_to_the_bit_and_a_limit_takes_the_first_samples() {
    let run = Run::shared();
    let place = tempfile::tempdir().unwrap();
    let whole = evaluate(&run.plan(), &Silent).unwrap();
    let partial_scores = PartialScores::Folder(place.path().to_owned());
    let plan = EvalPlan { partial_scores, ..run.plan() };
    let error = evaluate(&plan, &Watch::until(6)).unwrap_err();
    assert!(matches!(error, EvalError::StoppedWithScores { windows: 6, .. }), "{error}");
    let going_on = Watch::default();
    let report = evaluate(&plan, &going_on).unwrap();
    let samples = measured(&whole).counts.samples;
    assert_eq!(going_on.counts().0, 6);
    assert!(going_on.counts().1 >= samples - 6, "{:?} of {samples}", going_on.counts());
    assert_eq!(numbers(&report), numbers(&whole));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "gone when all is scored");

    let limited = EvalPlan { limit: Some(positive(3)), ..plan };
    let report = evaluate(&limited, &Silent).unwrap();
    assert!(report.results[0].partial);
    let counts = measured(&report).counts;
    assert_eq!((counts.samples, counts.samples_in_part), (3, samples));
    let summary = limited.summary(&Silent).unwrap();
    let of_task = &summary.tasks[0];
    assert_eq!((of_task.examples, of_task.targets as u64), (Some(3), counts.targets));
    assert!(of_task.partial);
}

/// The division of `--set split_weights`, and a shard by itself.
#[test]
fn every_part_and_every_division_can_be_asked_for() {
    let run = Run::shared();
    let of = |data: &Path, part, weights: Option<&str>| {
        let split_weights = weights.map(|weights| weights.parse().unwrap());
        let plan = plan_of(&run.path("run"), data, part);
        measured(&evaluate(&EvalPlan { split_weights, ..plan }, &Silent).unwrap()).clone()
    };
    let data = DATA.path("data");
    assert_eq!(of(&data, Part::Train, None).counts.documents, 48);
    let few = of(&data, Part::Validation, Some("97,3,0"));
    assert_eq!((few.counts.documents, few.settings.split_weights_from), (2, "configuration"));
    let shard = run.path("foreign");
    for ending in ["bin", "idx"] {
        let from = DATA.path(&format!("data/corpus.{ending}"));
        fs::copy(from, shard.with_extension(ending)).unwrap();
    }
    let own = of(&data, Part::Validation, None);
    let foreign = of(&shard, Part::Validation, None);
    assert_eq!((foreign.metrics, foreign.counts), (own.metrics, own.counts));
}

#[test]
fn exported_folders_are_scored_as_the_checkpoint_is() {
    for arrangement in [Arrangement::PreNorm, Arrangement::PostNorm] {
        let run = Run::new(arrangement);
        let own = evaluate(&run.plan(), &Silent).unwrap();
        let out = run.path("exported");
        let checkpoint = Checkpoint::open(&run.path("run")).unwrap();
        export(&checkpoint, &out, checkpoint::Existing::Refuse, &Silent).unwrap();
        let split_weights = Some("80,20,0".parse().unwrap());
        let of_folder = || {
            let plan = plan_of(&out, &DATA.path("data"), Part::Validation);
            evaluate(&EvalPlan { split_weights: split_weights.clone(), ..plan }, &Silent)
        };
        let theirs = of_folder().unwrap();
        assert_eq!(measured(&theirs).metrics, measured(&own).metrics);
        let settings = &measured(&theirs).settings;
        assert_eq!(settings.scoring.checkpoint_kind, CheckpointKind::HuggingFace);
        assert_eq!(settings.masked_lm_from, "default");
        // A folder without a tokenizer has the usual one of a vocabulary of that size.
        for name in ["tokenizer.json", "vocab.txt", "tokenizer_config.json"] {
            let _ = fs::remove_file(out.join(name));
        }
        assert_eq!(measured(&of_folder().unwrap()).metrics, measured(&own).metrics);
    }
}

/// A BERT of BERT's vocabulary and hardly anything else.
fn narrow_bert() -> BertConfig {
    BertConfig {
        num_layers: 1,
        hidden_size: 8,
        num_attention_heads: 2,
        seq_length: 48,
        vocab_size: 30_522,
        ffn_hidden_size: None,
        hidden_dropout: 0.0,
        attention_dropout: 0.0,
        activation: Activation::Gelu,
        layer_norm_epsilon: 1e-5,
        init_std: 0.02,
        arrangement: Arrangement::PreNorm,
    }
}

/// The model of `source` on the validation documents.
fn scored<S>(source: S) -> Result<TaskResult, EvalError>
where
    S: ParameterSource + Send + 'static,
{
    let config = narrow_bert();
    let identity = ModelIdentity {
        checkpoint: "made in a test".into(),
        kind: CheckpointKind::Trained,
        step: Some(0),
        architecture: Architecture::Bert(config.clone()),
        split_weights: Some("80,20,0".parse().unwrap()),
        masked_lm: None,
        tokenizer: corpus::tokenizer::open("bert").unwrap(),
    };
    let scorer = MaskedLmScorer::new(&config, source, positive(1)).unwrap();
    let mut model = EvaluatedModel::new(identity, scorer);
    let task = Task::Validation(validation(&DATA.path("data"), Part::Validation));
    task.run(&mut model, &plan(32, 1), &Silent)
}

#[test]
fn model_that_finds_all_alike_has_the_losses_of_a_guess_on_the_masks_of_every_model() {
    let result = scored(Zeros).unwrap();
    let Measured { metrics, counts, .. } = found(&result);
    // Logits of 0: f32 rounds the logarithm.
    assert_close(metrics.mlm_loss, 30_522.0_f64.ln(), 1e-6);
    assert_close(metrics.sop_loss, std::f64::consts::LN_2, 1e-6);
    // Of two orders alike the straight one is taken: about half of the samples are.
    assert!((0.2..0.8).contains(&metrics.sop_accuracy), "{metrics:?}");
    let of_run = evaluate(&Run::shared().plan(), &Silent).unwrap();
    assert_eq!(*counts, measured(&of_run).counts, "the same samples, and as many masks");
}

#[test]
fn losses_that_are_no_numbers_are_an_error_with_their_sample() {
    /// A head whose bias is no number.
    struct Broken;
    impl ParameterSource for Broken {
        fn local(
            &self,
            spec: &ParameterSpec,
            rank: usize,
            size: usize,
        ) -> Result<Vec<f32>, TrainError> {
            let values = Zeros.local(spec, rank, size)?;
            let is_broken = spec.path == "binary_head.bias";
            Ok(if is_broken { vec![f32::NAN; values.len()] } else { values })
        }
    }
    let error = scored(Broken).unwrap_err();
    assert!(matches!(error, EvalError::NonFiniteSample { .. }), "{error}");
    let told = "NaN for the loss of the order of its segments of sample 0, counted from 0,";
    assert!(error.to_string().contains(told), "{error}");
}

#[track_caller]
fn refused(plan: &EvalPlan, part: &str) {
    let errors = [
        plan.summary(&Silent).map(drop).unwrap_err().to_string(),
        evaluate(plan, &Silent).unwrap_err().to_string(),
    ];
    for error in errors {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn tasks_of_another_model_are_refused_with_what_measures_it() {
    let run = Run::shared();
    let text = run.path("text.jsonl");
    fs::write(&text, "{\"text\": \"one two\"}\n").unwrap();
    let lambada = Task::Lambada(Lambada {
        name: "lambada".to_owned(),
        data: text.clone(),
        protocol: Protocol::Megatron,
    });
    for (tasks, name) in [(vec![lambada], "lambada"), (vec![task(&text)], "made")] {
        let told = format!(
            "{name} is nothing for a bert: a bert is measured by validation or, once fine-tuned on \
             RACE"
        );
        refused(&EvalPlan { tasks, ..run.plan() }, &told);
    }
}

#[test]
fn data_that_cannot_be_used_is_refused_with_what_would_be_right() {
    let run = Run::shared();
    let of = |data: &Path, weights: &str| EvalPlan {
        split_weights: Some(weights.parse().unwrap()),
        ..plan_of(&run.path("run"), data, Part::Validation)
    };
    let data = DATA.path("data");
    refused(&of(&data, "100,0,0"), "no document of the validation part gives a pair of sentences");
    let dir = Dir::new();
    // GPT-2's tokens, and BERT's in whole documents.
    let folder = |name: &str, tokenizer: &str| {
        let tokenizer = corpus::tokenizer::open(tokenizer).unwrap();
        let writer = DataFolder::create(&dir.path(name), Existing::Refuse).unwrap();
        let mut shard = writer.shard(tokenizer.vocab_size()).unwrap();
        (0..10).for_each(|_| shard.push_document(&[7, 8, 9, 10]).unwrap());
        let summary = shard.finish().unwrap();
        writer.finish(DataManifest::new(&*tokenizer, &summary)).unwrap();
        dir.path(name)
    };
    refused(&of(&folder("gpt2", "gpt2"), "50,50,0"), "and the model's is bert of 30522");
    let documents = folder("documents", "bert");
    refused(&of(&documents, "50,50,0"), "BERT is trained on pairs of sentences");
    refused(&of(&documents.join("corpus.bin"), "50,50,0"), "is the shard of a data folder");
    let bare = dir.path("bare");
    for ending in ["bin", "idx"] {
        let from = dir.path(&format!("documents/corpus.{ending}"));
        fs::copy(from, bare.with_extension(ending)).unwrap();
    }
    refused(&of(&bare, "50,50,0"), "each of its documents is one sequence");
}

/// The weights of the reference under a tokenizer that has no mask.
#[test]
fn tokenizer_without_a_mask_is_refused_by_name() {
    let tensors = folder::Tensors::read("model_megatron_names_hf.safetensors");
    let model = folder::write_folder(&tensors, Arrangement::PreNorm);
    let tokens: Vec<String> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
        .map(str::to_owned)
        .into_iter()
        .chain((4..128).map(|id| format!("w{id}")))
        .collect();
    let definition = model.path().join("tokenizer.json");
    fs::write(&definition, word_pieces_of(&tokens)).unwrap();
    let tokenizer = corpus::tokenizer::open(definition.to_str().unwrap()).unwrap();
    let dir = Dir::new();
    let writer = DataFolder::create(&dir.path("data"), Existing::Refuse).unwrap();
    let mut shard = writer.shard(tokenizer.vocab_size()).unwrap();
    for _ in 0..4 {
        (0..3).for_each(|_| shard.push_sequence(&[7, 8, 9, 10]).unwrap());
        shard.end_document().unwrap();
    }
    let summary = shard.finish().unwrap();
    let manifest = DataManifest::new(&*tokenizer, &summary);
    writer.finish(manifest.with_sequences(Sequences::Sentences, &summary)).unwrap();
    refused(&plan_of(model.path(), &dir.path("data"), Part::Validation), "[MASK]");
}
