//! The head that chooses among answers, against transformers' `MegatronBertForMultipleChoice`.

use std::path::{Path, PathBuf};

use corpus::Silent;
use serde_json::json;
use training::TrainError;
use training::architecture::Architecture;
use training::backend::{CpuAutodiff, Recompute};
use training::checkpoint::{
    Checkpoint, Existing, HuggingFaceModel, QkvOrder, export, import, merge, reshard,
};
use training::data::{Batch, Segments};
use training::inference::ChoiceScorer;
use training::model::{Arrangement, BertMultipleChoice, ParameterSource, ParameterSpec};
use training::objective::{Objective, Scored};
use training::optim::GradientBuffer;
use training::parallel::random::DropoutKey;
use training::parallel::{ParallelDims, launch};
use training::pass::{PassSettings, forward_backward};

use super::folder::{self, Tensors, opened};
use super::{ARRANGEMENTS, tiny};
use crate::support::word_pieces::word_pieces;
use crate::tensors::assert_close;
use crate::training::timers;

/// A model without the heads of pre-training, beside a classifier.
struct Choosing {
    rest: HuggingFaceModel,
    classifier: Tensors,
}

impl Choosing {
    /// Of tensors under `MegatronBertForMultipleChoice`'s names.
    fn new(tensors: Tensors, classifier: Tensors) -> Self {
        let mut rest = tensors;
        rest.0.retain(|name, _| name.starts_with("bert."));
        // What a folder of pre-training has beside them, and this model leaves out.
        let heads = Tensors::read("model_megatron_names_hf.safetensors");
        rest.0.extend(heads.0.into_iter().filter(|(name, _)| name.starts_with("cls.")));
        Self { rest: opened(&rest, Arrangement::PreNorm), classifier }
    }
}

impl ParameterSource for Choosing {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        match spec.name.strip_prefix("classifier.") {
            Some(name) => Ok(self.classifier.floats(name).to_vec()),
            None => self.rest.local(spec, rank, size),
        }
    }
}

fn batch(file: &Tensors) -> Batch {
    let whole = |name: &str| -> Vec<u32> {
        file.floats(name).iter().map(|&number| number as u32).collect()
    };
    let tokens = whole("in.ids");
    let lengths = file.floats("in.pad").chunks_exact(24);
    Batch {
        targets: tokens.clone(),
        loss_weights: vec![0.0; tokens.len()],
        num_samples: tokens.len() / 24,
        seq_length: 24,
        first_sample: 0,
        segments: Some(Segments {
            token_types: whole("in.types"),
            lengths: lengths.map(|row| row.iter().sum::<f32>() as usize).collect(),
            labels: whole("in.label"),
            label_weights: vec![0.5; 2],
        }),
        tokens,
    }
}

#[test]
fn loss_and_every_gradient_of_a_choice_are_those_of_the_reference() {
    let file = Tensors::read("multiple_choice.safetensors");
    let weights = Choosing::new(
        Tensors::read("model_megatron_names_hf.safetensors"),
        file.with_prefix("param.classifier."),
    );
    let expected = Choosing::new(file.with_prefix("grad."), file.with_prefix("grad.classifier."));
    let config = tiny(Arrangement::PreNorm);
    let specs = config.multiple_choice_parameters();
    let (batch, loss) = (batch(&file), f64::from(file.floats("out.loss")[0]));
    for (size, recompute) in [(1, Recompute::None), (2, Recompute::Layer), (4, Recompute::None)] {
        let ranks = launch(ParallelDims::one_replica(size), |rank| {
            let (group, device) = (&rank.tensor_parallel, Default::default());
            let model = BertMultipleChoice::<CpuAutodiff>::init(&config, &weights, group, &device)?;
            let shapes = specs.iter().map(|spec| spec.local_shape(group.rank(), group.size()));
            let sizes = shapes.map(|shape| shape.iter().product());
            let mut gradients = GradientBuffer::new(&specs, sizes);
            gradients.begin();
            let dropout = DropoutKey { seed: 5, step: 1, first_sample: 0 };
            let found = forward_backward::<CpuAutodiff, _>(
                &model,
                &batch,
                &PassSettings { dropout, loss_scale: 1.0, recompute },
                &mut gradients,
                &mut timers(&rank),
            );
            let scored = burn::module::AutodiffModule::valid(&model).score(&batch);
            let gradients: Vec<_> = gradients.parameters().map(<[f32]>::to_vec).collect();
            Ok((found.total(), scored[0], gradients))
        })
        .unwrap();
        for (rank, (found, scored, gradients)) in ranks.into_iter().enumerate() {
            assert!((found - loss).abs() < 1e-5, "{found}, not {loss}");
            assert_eq!(scored.targets, 2);
            assert!((scored.total / 2.0 - loss).abs() < 1e-5);
            for (spec, found) in specs.iter().zip(gradients) {
                let whole = expected.local(spec, 0, 1).unwrap();
                let largest = whole.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
                let own = spec.slice(&whole, rank, size);
                for (found, own) in found.iter().zip(&own) {
                    let off = (found - own).abs();
                    // A bias of keys, and of the one number that is compared, has no gradient but
                    // rounding noise.
                    assert!(off <= 1e-5 * largest.max(1e-2), "{}: {found}, not {own}", spec.path);
                }
            }
        }
    }
}

#[test]
fn scorer_s_logits_are_those_of_the_reference() {
    let file = Tensors::read("multiple_choice.safetensors");
    let config = tiny(Arrangement::PreNorm);
    for size in [1, 2] {
        let weights = Choosing::new(
            Tensors::read("model_megatron_names_hf.safetensors"),
            file.with_prefix("param.classifier."),
        );
        let mut scorer = ChoiceScorer::new(&config, weights, size.try_into().unwrap()).unwrap();
        let logits = scorer.logits(batch(&file)).unwrap();
        assert_eq!(logits.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4]);
        assert_close(&logits.concat(), file.floats("out.logits"), 1e-5);
    }
}

#[test]
fn pooled_vectors_are_dropped_by_key_in_training_alone() {
    let file = Tensors::read("multiple_choice.safetensors");
    let weights = Choosing::new(
        Tensors::read("model_megatron_names_hf.safetensors"),
        file.with_prefix("param.classifier."),
    );
    let mut config = tiny(Arrangement::PreNorm);
    config.hidden_dropout = 0.5;
    let batch = batch(&file);
    let losses = launch(ParallelDims::one_replica(1), |rank| {
        let (group, device) = (&rank.tensor_parallel, Default::default());
        let model = BertMultipleChoice::<CpuAutodiff>::init(&config, &weights, group, &device)?;
        let loss = |dropout: Option<DropoutKey>| {
            let losses = Objective::<CpuAutodiff>::losses(&model, &batch, dropout.as_ref());
            losses.into_iter().next().unwrap().into_scalar()
        };
        let key = |seed| Some(DropoutKey { seed, step: 1, first_sample: 0 });
        Ok([loss(None), loss(key(1)), loss(key(1)), loss(key(2))])
    });
    let [plain, one, again, other] = losses.unwrap().swap_remove(0);
    assert!((plain - file.floats("out.loss")[0]).abs() < 1e-5);
    assert_eq!(one, again);
    assert!(one != plain && one != other);
}

/// A folder of `…ForMultipleChoice` in `arrangement`, of the reference's weights, and the tokenizer
/// that its table is for.
fn published(arrangement: Arrangement, dir: &Path) -> PathBuf {
    let out = dir.join(format!("published-{arrangement:?}"));
    std::fs::create_dir_all(&out).unwrap();
    let mut tensors = Tensors::read("model_megatron_names_hf.safetensors");
    tensors.0.retain(|name, _| name.starts_with("bert."));
    let file = Tensors::read("multiple_choice.safetensors").with_prefix("param.");
    let mut classifier = file.0["classifier.weight"].clone();
    classifier.0 = vec![1, 32];
    tensors.0.insert("classifier.weight".to_owned(), classifier);
    tensors.0.insert("classifier.bias".to_owned(), (vec![1], vec![0.25]));
    if arrangement == Arrangement::PostNorm {
        let norms = |name: &str| {
            let name = name.replace("encoder.ln.", "encoder.layer.1.output.LayerNorm.");
            let name = name.replace("layer.0.attention.ln.", "embeddings.LayerNorm.");
            let name = name.replace("encoder.embeddings", "embeddings");
            let name = name.replace("layer.1.attention.ln.", "layer.0.output.LayerNorm.");
            let layer = |name: String, layer: usize| {
                name.replace(
                    &format!("layer.{layer}.ln."),
                    &format!("layer.{layer}.attention.output.LayerNorm."),
                )
            };
            layer(layer(name, 0), 1)
        };
        tensors.0 = tensors.0.into_iter().map(|(name, tensor)| (norms(&name), tensor)).collect();
    }
    tensors.write(&out.join("model.safetensors"));
    let mut config = folder::config(arrangement);
    let class = match arrangement {
        Arrangement::PreNorm => "MegatronBertForMultipleChoice",
        Arrangement::PostNorm => "BertForMultipleChoice",
    };
    config["architectures"] = json!([class]);
    std::fs::write(out.join("config.json"), config.to_string()).unwrap();
    out
}

fn weights(path: &Path) -> Vec<Vec<f32>> {
    let checkpoint = Checkpoint::open(path).unwrap();
    let specs = checkpoint.architecture().parameters();
    specs.iter().map(|spec| checkpoint.local(spec, 0, 1).unwrap()).collect()
}

#[test]
fn model_that_chooses_goes_to_other_programs_and_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let tokenizer = dir.path().join("tokenizer.json");
    std::fs::write(&tokenizer, word_pieces(128)).unwrap();
    for arrangement in ARRANGEMENTS {
        let published = published(arrangement, dir.path());
        let path = |name: &str| dir.path().join(format!("{name}-{arrangement:?}"));
        let [own, out, cut, merged] = ["own", "out", "cut", "merged"].map(path);
        let name = tokenizer.to_str();
        import(&published, &own, name, Existing::Refuse, &Silent).unwrap();
        let checkpoint = Checkpoint::open(&own).unwrap();
        let mut sizes = tiny(arrangement);
        sizes.hidden_dropout = 0.0;
        assert_eq!(checkpoint.architecture(), &Architecture::BertChoice(sizes.clone()));
        assert_eq!(checkpoint.architecture().bert_choice().unwrap(), &sizes);
        let refused = checkpoint.architecture().bert().unwrap_err().to_string();
        assert_eq!(refused, "a bert model is needed here, and this is a bert_choice model");

        export(&checkpoint, &out, Existing::Refuse, &Silent).unwrap();
        let [theirs, ours] =
            [&published, &out].map(|it| Tensors::at(&it.join("model.safetensors")).0);
        assert!(theirs == ours, "the same names, shapes and numbers");
        let opened = HuggingFaceModel::open(&out).unwrap();
        assert_eq!(opened.architecture(), checkpoint.architecture());

        reshard(&checkpoint, 2, QkvOrder::Version2, &cut, Existing::Refuse, &Silent).unwrap();
        let rank = Tensors::at(&cut.join("iter_0000000/mp_rank_01/model.safetensors"));
        assert_eq!(rank.0["multichoice_head.weight"].0, [1, 32]);
        assert!(rank.0.contains_key("language_model.pooler.dense.bias"));
        merge(&cut, &merged, Existing::Refuse, &Silent).unwrap();
        assert!(weights(&merged) == weights(&own));
    }
}

#[test]
fn head_that_chooses_costs_a_pooler_and_one_number_for_each_row() {
    let sizes = tiny(Arrangement::PreNorm);
    let (h, s) = (32.0, 64.0);
    let layers = 2.0 * (24.0 * h * h + 4.0 * s * h);
    let expected = 3.0 * (layers + (2.0 * h * h + 2.0 * h) / s);
    let choice = Architecture::BertChoice(sizes.clone());
    assert!((choice.flops_per_token() / expected - 1.0).abs() < 1e-12);
    // Without the heads of pre-training, and with one number for each of the 32 places, and a bias.
    let heads = (32 * 32 + 32) + 2 * 32 + 128 + (2 * 32 + 2);
    let both = Architecture::Bert(sizes).num_parameters(1);
    assert_eq!(choice.num_parameters(1), both - heads + 33);
    assert!(choice.parameters().iter().any(|spec| spec.path == "pooler.dense.weight"));
}
