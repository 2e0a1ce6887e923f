//! Runs from text to a checkpoint, through the same program as GPT-2's.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use corpus::Silent;
use serde_json::Value;
use training::checkpoint::{
    Checkpoint, Existing, HuggingFaceModel, QkvOrder, export, import, merge, reshard,
};
use training::config::{ModelConfig, TrainConfig};
use training::model::{Arrangement, ParameterSource, ParameterSpec};
use training::plan::RunOptions;
use training::{TrainReport, train};

use super::ARRANGEMENTS;
use crate::support::{Dir, jsonl, pipeline_in, read_json, words};
use crate::training::{StopAfter, logged};

const CONFIG: &str = r#"
seed = 7

[model.bert]
num_layers = 2
hidden_size = 32
num_attention_heads = 4
seq_length = 48

[batch]
micro_batch_size = 2
global_batch_size = 4

[optimizer]
lr = 1e-3
min_lr = 0.0

[schedule]
train_steps = 6
warmup_steps = 2
decay = "linear"

[data]
split = "80,20,0"

[validation]
interval_steps = 3
batches = 2
"#;

pub(crate) fn config(
    arrangement: Arrangement,
    change: impl FnOnce(&mut TrainConfig),
) -> TrainConfig {
    let mut config: TrainConfig = toml::from_str(CONFIG).unwrap();
    let ModelConfig::Bert(section) = &mut config.model else { panic!("a BERT") };
    section.arrangement = arrangement;
    change(&mut config);
    config
}

/// A data folder of 60 documents of a dozen sentences, as `pipeline dedup` writes it for BERT.
pub(crate) static DATA: LazyLock<Dir> = LazyLock::new(|| {
    let dir = Dir::new();
    let documents: Vec<String> = (0..60)
        .map(|document| {
            (0..12).fold(String::new(), |mut text, sentence| {
                let words = words(document * 100 + sentence, 9);
                write!(text, "The {words}. ").unwrap();
                text
            })
        })
        .collect();
    dir.write("in.jsonl", jsonl(&documents));
    pipeline_in(&dir, "dedup in.jsonl --out data --tokenizer bert").success();
    dir
});

pub(crate) fn run(out: &Path, config: TrainConfig) -> TrainReport {
    let options = RunOptions::new(DATA.path("data"), out.to_owned());
    train(&config.validate(options).unwrap(), &Silent).unwrap()
}

/// The whole parameters of a model, by name.
fn parameters(specs: &[ParameterSpec], source: &dyn ParameterSource) -> Vec<(String, Vec<f32>)> {
    specs.iter().map(|spec| (spec.name.clone(), source.local(spec, 0, 1).unwrap())).collect()
}

fn weights(checkpoint: &Path) -> Vec<(String, Vec<f32>)> {
    let checkpoint = Checkpoint::open(checkpoint).unwrap();
    parameters(&checkpoint.architecture().parameters(), &checkpoint)
}

fn set_layout(config: &mut TrainConfig, (tensor, data): (usize, usize)) {
    config.parallel.tensor_parallel_size = tensor.try_into().unwrap();
    config.parallel.data_parallel_size = data.try_into().unwrap();
    config.batch.micro_batch_size = (4 / data).min(2).try_into().unwrap();
}

#[test]
fn run_tells_both_losses_and_takes_the_same_steps_in_every_layout() {
    let folder = tempfile::tempdir().unwrap();
    for arrangement in ARRANGEMENTS {
        let runs = [(1, 1), (2, 1), (2, 2), (1, 4)].map(|layout| {
            let out = folder.path().join(format!("{arrangement:?}-{layout:?}"));
            let report = run(&out, config(arrangement, |config| set_layout(config, layout)));
            assert_eq!((report.steps, report.skipped), (6, 0));
            out
        });
        let columns = |run: &Path| ["loss", "mlm_loss", "sop_loss"].map(|name| logged(run, name));
        let expected = columns(&runs[0]);
        let [losses, masked, order] = &expected;
        assert_eq!(losses.len(), 6);
        for ((loss, masked), order) in losses.iter().zip(masked).zip(order) {
            assert!((loss - (masked + order)).abs() < 1e-12);
            // About what a model that knows nothing has: ln 30522 and ln 2.
            assert!((9.0..11.5).contains(masked) && (0.3..1.2).contains(order), "{masked} {order}");
        }
        let events: Vec<u8> = fs::read_dir(runs[0].join("tensorboard"))
            .unwrap()
            .flat_map(|entry| fs::read(entry.unwrap().path()).unwrap())
            .collect();
        for tag in ["mlm_loss", "sop_loss", "validation_sop_loss"] {
            let count = events.windows(tag.len()).filter(|it| *it == tag.as_bytes()).count();
            assert!(count >= 2, "{tag} is drawn");
        }
        let validations = ["validation_loss", "validation_sop_loss"];
        for run in &runs {
            for (found, expected) in columns(run).iter().zip(&expected) {
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(expected) {
                    assert!((found - expected).abs() < 1e-5 * expected, "{found}, {expected}");
                }
            }
            for name in validations {
                let [found, expected] = [run, &runs[0]].map(|run| logged(run, name));
                assert_eq!(found.len(), 2);
                for (found, expected) in found.iter().zip(&expected) {
                    assert!((found - expected).abs() < 1e-5 * expected, "{found}, {expected}");
                }
            }
        }
    }
}

#[test]
fn stopped_run_goes_on_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let change = |config: &mut TrainConfig| {
        config.precision = training::backend::Precision::F16;
        config.recompute = training::backend::Recompute::Layer;
        set_layout(config, (2, 1));
    };
    for arrangement in ARRANGEMENTS {
        let whole = folder.path().join(format!("{arrangement:?}-whole"));
        let report = run(&whole, config(arrangement, change));
        let parts = folder.path().join(format!("{arrangement:?}-parts"));
        let plan = || {
            let options = RunOptions::new(DATA.path("data"), parts.clone());
            config(arrangement, change).validate(options).unwrap()
        };
        let stopped = train(&plan(), &StopAfter::new(2)).unwrap();
        assert!(stopped.stopped && stopped.steps < 6);
        let resumed = train(&plan(), &Silent).unwrap();
        assert_eq!(resumed.steps, 6);
        for name in ["mlm_loss", "sop_loss", "grad_norm", "validation_loss"] {
            assert_eq!(logged(&parts, name), logged(&whole, name), "{name}");
        }
        assert!(weights(&resumed.checkpoint) == weights(&report.checkpoint));
    }
}

/// A trained model of each arrangement.
pub(super) fn trained(arrangement: Arrangement) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let report = run(
        &folder.path().join("run"),
        config(arrangement, |config| {
            config.schedule.train_steps = 1.try_into().ok();
            config.validation = None;
        }),
    );
    (folder, report.checkpoint)
}

#[test]
fn exported_folder_holds_the_same_model_and_comes_back_as_it_was() {
    for arrangement in ARRANGEMENTS {
        let (folder, path) = trained(arrangement);
        let checkpoint = Checkpoint::open(&path).unwrap();
        let out = folder.path().join("exported");
        export(&checkpoint, &out, Existing::Refuse, &Silent).unwrap();
        export(&checkpoint, &out, Existing::Replace, &Silent).unwrap();
        let config: Value = read_json(&out.join("config.json"));
        let (model_type, class, norm) = match arrangement {
            Arrangement::PreNorm => {
                ("megatron-bert", "MegatronBertForPreTraining", "bert.encoder.ln.weight")
            }
            Arrangement::PostNorm => {
                ("bert", "BertForPreTraining", "bert.encoder.layer.1.output.LayerNorm.weight")
            }
        };
        assert_eq!(config["model_type"], model_type);
        assert_eq!(config["architectures"], serde_json::json!([class]));
        let tensors = super::folder::Tensors::at(&out.join("model.safetensors"));
        assert!(tensors.0.contains_key(norm));
        assert_eq!(tensors.0["bert.encoder.layer.0.attention.self.key.weight"].0, [32, 32]);

        let opened = HuggingFaceModel::open(&out).unwrap();
        assert_eq!(opened.architecture(), checkpoint.architecture());
        let specs = checkpoint.architecture().parameters();
        assert!(parameters(&specs, &opened) == parameters(&specs, &checkpoint));

        let back = folder.path().join("imported");
        import(&out, &back, Some("bert"), Existing::Refuse, &Silent).unwrap();
        assert!(weights(&back) == weights(&path));
        let [own, back] = [&path, &back].map(|it| fs::read(it.join("model.safetensors")).unwrap());
        assert!(own == back, "the same file");
    }
}

#[test]
fn files_of_ranks_come_together_as_the_same_model() {
    let (folder, path) = trained(Arrangement::PreNorm);
    let checkpoint = Checkpoint::open(&path).unwrap();
    for (size, order) in [(2, QkvOrder::Version0), (4, QkvOrder::Version2)] {
        let (cut, back) =
            (folder.path().join(format!("cut-{size}")), folder.path().join(format!("back-{size}")));
        reshard(&checkpoint, size, order, &cut, Existing::Refuse, &Silent).unwrap();
        merge(&cut, &back, Existing::Refuse, &Silent).unwrap();
        assert!(weights(&back) == weights(&path), "{size} ranks");
    }
}

#[test]
fn run_begins_with_imported_weights_of_its_own_arrangement_alone() {
    let (folder, path) = trained(Arrangement::PostNorm);
    let out = folder.path().join("exported");
    export(&Checkpoint::open(&path).unwrap(), &out, Existing::Refuse, &Silent).unwrap();
    let options = |run: &str| RunOptions {
        init_from: Some(out.clone()),
        ..RunOptions::new(DATA.path("data"), folder.path().join(run))
    };
    let error = config(Arrangement::PreNorm, |_| {}).validate(options("other")).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("arrangement is \"post-norm\" there and \"pre-norm\" here"), "{error}");
    let plan = config(Arrangement::PostNorm, |config| {
        config.schedule.train_steps = 1.try_into().ok();
        config.validation = None;
        config.optimizer.lr = 1e-30; // so small that no weight moves
    });
    let report = train(&plan.validate(options("same")).unwrap(), &Silent).unwrap();
    assert!(weights(&report.checkpoint) == weights(&path));
}

#[test]
fn gpt2_s_tasks_and_its_section_of_the_configuration_refuse_a_bert() {
    let (_folder, path) = trained(Arrangement::PreNorm);
    let shown = pipeline_in(&DATA, &format!("checkpoint show {} --json", path.display()));
    assert_eq!(shown.success().json()["model"]["bert"]["arrangement"], "pre-norm");
    let line = format!("generate --checkpoint {} --prompt a", path.display());
    let told = "generate is nothing for a bert: a bert is measured by validation or, once fine-tuned on \
                RACE";
    pipeline_in(&DATA, &line).refused(2, told);
    let config = config(Arrangement::PreNorm, |_| {});
    let mut value = toml::Value::try_from(&config).unwrap();
    let model = value["model"].as_table_mut().unwrap();
    let mut section = model.remove("bert").unwrap();
    section.as_table_mut().unwrap().remove("arrangement");
    model.insert("gpt2".to_owned(), section);
    let empty = toml::Value::Table(toml::Table::new());
    value["data"].as_table_mut().unwrap().insert("masked_lm".to_owned(), empty);
    let config: TrainConfig = value.try_into().unwrap();
    let options = RunOptions::new(DATA.path("data"), DATA.path("refused"));
    let error = config.validate(options).unwrap_err().to_string();
    assert!(error.contains("data.masked_lm") || error.contains("sentence"), "{error}");
}
