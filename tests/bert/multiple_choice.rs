//! The head that chooses among answers, against transformers' `MegatronBertForMultipleChoice`.

use training::TrainError;
use training::backend::{CpuAutodiff, Recompute};
use training::checkpoint::HuggingFaceModel;
use training::data::{Batch, Segments};
use training::inference::ChoiceScorer;
use training::model::{Arrangement, BertMultipleChoice, ParameterSource, ParameterSpec};
use training::objective::{Objective, Scored};
use training::optim::GradientBuffer;
use training::parallel::random::DropoutKey;
use training::parallel::{ParallelDims, launch};
use training::pass::{PassSettings, forward_backward};

use super::folder::{Tensors, opened};
use super::tiny;
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
