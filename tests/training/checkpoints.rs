//! Checkpoints: any layout reads what any layout wrote, and nothing half written is ever taken for
//! one.

use std::collections::BTreeMap;
use std::fs;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};

use corpus::FileSummary;
use safetensors::SafeTensors;
use training::TrainError;
use training::checkpoint::{Checkpoint, CheckpointError};
use training::config::TrainConfig;
use training::parameters::ParameterSource;

use super::{Workbench, logged, logged_samples, micro, number, relative_difference, set_layout};

fn every_step(config: &mut TrainConfig) {
    config.checkpoint.interval_steps = Some(NonZeroU64::MIN);
}

/// A finished run of ten steps, and its newest checkpoint.
fn trained(change: impl FnOnce(&mut TrainConfig)) -> (Workbench, PathBuf, PathBuf) {
    let workbench = Workbench::new(101);
    let (report, run) = workbench.train(micro(change));
    (workbench, run, report.checkpoint)
}

/// The whole tensors of a file, by name.
fn tensors(path: &Path) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let whole =
        |view: safetensors::tensor::TensorView<'_>| (view.shape().to_vec(), view.data().to_vec());
    tensors.tensors().into_iter().map(|(name, view)| (name, whole(view))).collect()
}

#[test]
fn tensors_have_their_logical_shapes_and_hugging_face_names() {
    let (_workbench, _, folder) = trained(|config| set_layout(config, (4, 1)));
    let model = tensors(&folder.join("model.safetensors"));
    let shape = |name: &str| model[name].0.clone();
    assert_eq!(shape("transformer.wte.weight"), [101, 32], "the true vocabulary");
    assert_eq!(shape("transformer.h.1.attn.c_attn.weight"), [32, 96]);
    assert_eq!(shape("transformer.ln_f.bias"), [32]);
    // A file that transformers wrote for as many layers has the same tensors.
    let reference =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gpt2_micro/model.safetensors");
    assert!(model.keys().eq(tensors(&reference).keys()), "{:?}", model.keys());
    let optimizer = tensors(&folder.join("optimizer.safetensors"));
    assert_eq!(optimizer.len(), 2 * model.len());
    assert_eq!(optimizer["exp_avg_sq.transformer.wpe.weight"].0, [16, 32]);

    let config: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["model_type"], "gpt2");
    assert_eq!((&config["vocab_size"], &config["n_positions"]), (&101.into(), &16.into()));
}

#[test]
fn every_layout_reads_what_every_layout_wrote() {
    for writers in [(1, 1), (2, 1), (4, 1), (2, 2)] {
        let (_workbench, run, folder) = trained(|config| {
            config.batch.micro_batch_size = number(2);
            set_layout(config, writers);
        });
        let model = tensors(&folder.join("model.safetensors"));
        let checkpoint = Checkpoint::open(&run).unwrap();
        for readers in [1, 2, 4] {
            for rank in 0..readers {
                for spec in checkpoint.architecture().parameters() {
                    let local = checkpoint.local(&spec, rank, readers).unwrap();
                    let whole: Vec<f32> = model[&spec.name]
                        .1
                        .chunks_exact(4)
                        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
                        .collect();
                    assert_eq!(local, spec.slice(&whole, rank, readers), "{}", spec.name);
                }
            }
        }
    }
}

#[test]
fn run_goes_on_in_another_layout() {
    let (workbench, whole, _) = trained(|_| {});
    for layouts in [[(1, 1), (2, 2)], [(2, 1), (4, 1)], [(4, 2), (1, 1)], [(1, 4), (2, 1)]] {
        let out = workbench.new_run();
        let config = |layout| {
            micro(|config| {
                config.batch.micro_batch_size = number(1);
                set_layout(config, layout);
            })
        };
        let plan = config(layouts[0]).validate(workbench.options(&out)).unwrap();
        training::train(&plan, &super::StopAfter::new(5)).unwrap();
        workbench.train_into(&out, config(layouts[1]));
        // Only the order of sums over ranks changes.
        let difference = relative_difference(&logged(&out, "loss"), &logged(&whole, "loss"));
        assert!(difference < 1e-5, "{layouts:?}: {difference:e}");
        assert_eq!(logged_samples(&out), logged_samples(&whole), "{layouts:?}");
    }
}

#[test]
fn opens_from_the_run_its_checkpoints_and_the_step() {
    let (_workbench, run, folder) = trained(every_step);
    for path in [run.clone(), run.join("checkpoints"), folder.clone()] {
        assert_eq!(Checkpoint::open(&path).unwrap().folder(), folder);
    }
    assert_eq!(Checkpoint::open(&run.join("checkpoints/step-3")).unwrap().step(), 3);
    assert_eq!(fs::read_to_string(run.join("checkpoints/latest")).unwrap().trim(), "step-10");
    let checkpoint = Checkpoint::open(&run).unwrap();
    let tokenizer = checkpoint.tokenizer().unwrap();
    assert_eq!((tokenizer.name.as_str(), tokenizer.eod), ("numbers", 100));

    let error = Checkpoint::open(&run.join("nothing")).unwrap_err();
    assert!(
        matches!(error, TrainError::Checkpoint(CheckpointError::NoCheckpoint { .. })),
        "{error}"
    );
}

#[test]
fn only_the_newest_are_kept_and_nothing_foreign_is_touched() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    let config = || {
        micro(|config| {
            every_step(config);
            config.checkpoint.keep_last = NonZeroUsize::new(2);
        })
    };
    let plan = config().validate(workbench.options(&out)).unwrap();
    training::train(&plan, &super::StopAfter::new(3)).unwrap();
    let checkpoints = out.join("checkpoints");
    for foreign in ["step-007", "step-1-good", "backup"] {
        fs::create_dir(checkpoints.join(foreign)).unwrap();
    }
    fs::write(checkpoints.join("step-1.txt"), "mine").unwrap();
    workbench.train_into(&out, config());
    let mut names: Vec<_> =
        fs::read_dir(&checkpoints).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        names,
        ["backup", "latest", "step-007", "step-1-good", "step-1.txt", "step-10", "step-9"]
    );
}

#[test]
fn half_written_folder_is_never_taken_for_a_checkpoint() {
    let (workbench, run, folder) = trained(every_step);
    // A death while step 11 was being written, and one between the rename and `latest`.
    let partial = run.join("checkpoints/.step-11.partial");
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join("model.safetensors"), "half").unwrap();
    fs::remove_file(run.join("checkpoints/latest")).unwrap();
    assert_eq!(Checkpoint::open(&run).unwrap().folder(), folder);

    // The next save clears it away.
    fs::remove_dir_all(&folder).unwrap();
    workbench.train_into(&run, micro(every_step));
    assert!(!partial.exists() && folder.exists());
}

#[test]
fn damaged_files_are_refused_by_name() {
    let (_workbench, run, folder) = trained(|_| {});
    for name in ["model.safetensors", "optimizer.safetensors", "state.json", "config.json"] {
        let path = folder.join(name);
        let whole = fs::read(&path).unwrap();

        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let error = Checkpoint::open(&run).unwrap_err().to_string();
        let sizes = format!("bytes: expected {}, found {}", whole.len(), whole.len() - 1);
        assert!(error.contains(name) && error.contains(&sizes), "{error}");

        let mut flipped = whole.clone();
        let last = flipped.len() - 2;
        flipped[last] ^= 1;
        fs::write(&path, flipped).unwrap();
        let error = Checkpoint::open(&run).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("xxh3-128"), "{error}");

        fs::remove_file(&path).unwrap();
        assert!(Checkpoint::open(&run).unwrap_err().to_string().contains(name));
        fs::write(&path, whole).unwrap();
    }
    assert!(Checkpoint::open(&run).is_ok());
}

#[test]
fn broken_newest_checkpoint_is_passed_over() {
    let (workbench, run, folder) = trained(every_step);
    let whole = logged(&run, "loss");
    fs::write(folder.join("model.safetensors"), "").unwrap();
    workbench.train_into(&run, micro(every_step));
    assert_eq!(logged(&run, "loss"), whole, "step 10 was done again from step 9");
    assert!(Checkpoint::open(&folder).is_ok(), "and its checkpoint made again");
}

#[test]
fn checkpoint_of_another_run_is_passed_over() {
    let (workbench, run, folder) = trained(every_step);
    let whole = logged(&run, "loss");
    for (field, foreign) in [("seed", 8), ("samples_consumed", 41)] {
        let path = folder.join("state.json");
        let mut state: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        state[field] = foreign.into();
        fs::write(&path, state.to_string()).unwrap();
        // Whole by its manifest, and still not this run's.
        let manifest = folder.join("manifest.json");
        let mut value: serde_json::Value =
            serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
        for file in value["files"].as_array_mut().unwrap() {
            if file["name"] == "state.json" {
                *file = serde_json::to_value(FileSummary::of(&path).unwrap()).unwrap();
            }
        }
        fs::write(&manifest, value.to_string()).unwrap();
        assert!(Checkpoint::open(&folder).is_ok());
        let plan = micro(every_step).validate(workbench.options(&run)).unwrap();
        // Steps 1 to 9 are there already: one is done again.
        assert_eq!(training::train(&plan, &super::StopAfter::new(10)).unwrap().steps, 10);
        assert_eq!(logged(&run, "loss"), whole, "{field}");
        assert_ne!(fs::read_to_string(&path).unwrap(), state.to_string(), "written again");
        // It is whole, and somebody's: it is kept under another name.
        let name = if field == "seed" { "superseded-step-10" } else { "superseded-step-10-2" };
        let aside = run.join("checkpoints").join(name).join("state.json");
        assert_eq!(fs::read_to_string(aside).unwrap(), state.to_string());
    }
}

#[test]
fn names_that_lead_out_of_the_folder_are_refused() {
    let (workbench, run, folder) = trained(|_| {});
    let manifest = folder.join("manifest.json");
    let whole = fs::read(&manifest).unwrap();
    let secret = run.join("secret");
    fs::write(&secret, "secret").unwrap();
    let absolute = secret.display().to_string();
    for name in ["../../secret", &absolute, "..", "sub/state.json", "manifest.json", "state.json"] {
        let mut value: serde_json::Value = serde_json::from_slice(&whole).unwrap();
        let mut entry = serde_json::to_value(FileSummary::of(&secret).unwrap()).unwrap();
        entry["name"] = name.into();
        value["files"].as_array_mut().unwrap().push(entry);
        fs::write(&manifest, value.to_string()).unwrap();
        let error = Checkpoint::open(&folder).unwrap_err().to_string();
        let message = "manifest.json: files: expected names in this folder, each once, found ";
        assert!(error.contains(message) && error.ends_with(name), "{error}");
        let out = workbench.new_run();
        let resume = training::Resume::From(folder.clone());
        let options = training::RunOptions { resume, ..workbench.options(&out) };
        let plan = micro(|_| {}).validate(options).unwrap();
        training::train(&plan, &corpus::Silent).unwrap_err();
        assert!(!out.join("checkpoints").exists());
    }
    let mut value: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    value["files"].as_array_mut().unwrap().retain(|file| file["name"] != "model.safetensors");
    fs::write(&manifest, value.to_string()).unwrap();
    let error = Checkpoint::open(&folder).unwrap_err().to_string();
    assert!(
        error.contains("files: expected model.safetensors, found a list without it"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
}

#[test]
fn manifest_that_was_changed_is_not_believed() {
    let (_workbench, run, folder) = trained(|_| {});
    let path = folder.join("manifest.json");
    let manifest = fs::read_to_string(&path).unwrap();
    for (written, changed, message) in [
        (
            "\"num_attention_heads\": 4",
            "\"num_attention_heads\": 2",
            "num_attention_heads is 4 there and 2 here",
        ),
        (
            "\"activation\": \"gelu\"",
            "\"activation\": \"gelu_tanh\"",
            "activation is \"gelu\" there",
        ),
        ("\"eod\": 100", "\"eod\": 10", "tokenizer.eod is 100 there and 10 here"),
    ] {
        assert!(manifest.contains(written), "{manifest}");
        fs::write(&path, manifest.replace(written, changed)).unwrap();
        let error = Checkpoint::open(&run).unwrap_err().to_string();
        assert!(error.contains("manifest.json: not the model of config.json"), "{error}");
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn run_whose_newest_checkpoints_are_broken_opens_at_the_one_before() {
    let (_workbench, run, folder) = trained(every_step);
    let checkpoints = run.join("checkpoints");
    let opened = || Checkpoint::open(&run).map(|it| it.step());
    fs::write(folder.join("model.safetensors"), "broken").unwrap();
    assert_eq!(opened().unwrap(), 9, "latest names a broken one");
    fs::remove_file(checkpoints.join("latest")).unwrap();
    fs::remove_file(checkpoints.join("step-9/state.json")).unwrap();
    assert_eq!(opened().unwrap(), 8, "and without latest");
    assert_eq!(Checkpoint::open(&checkpoints).unwrap().step(), 8);
    for step in 1..9 {
        fs::remove_dir_all(checkpoints.join(format!("step-{step}"))).unwrap();
    }
    let error = opened().unwrap_err().to_string();
    assert!(error.contains("step-10/model.safetensors: bytes: expected "), "{error}");
}

#[test]
fn disk_that_does_not_answer_is_no_broken_checkpoint() {
    let (workbench, run, folder) = trained(every_step);
    let model = folder.join("model.safetensors");
    fs::remove_file(&model).unwrap();
    std::os::unix::fs::symlink("model.safetensors", &model).unwrap(); // leads in circles
    let plan = micro(every_step).validate(workbench.options(&run)).unwrap();
    for error in [
        training::train(&plan, &corpus::Silent).unwrap_err().to_string(),
        Checkpoint::open(&run).unwrap_err().to_string(),
    ] {
        assert!(error.contains("cannot read ") && error.contains("step-10/model"), "{error}");
    }
    assert!(folder.exists());
}

#[test]
fn broken_checkpoints_that_were_passed_over_take_no_good_ones_place() {
    let (workbench, run, _) = trained(every_step);
    for step in 8..=10 {
        let folder = run.join(format!("checkpoints/step-{step}"));
        fs::write(folder.join("model.safetensors"), "broken").unwrap();
    }
    let config = micro(|config| {
        config.checkpoint.interval_steps = NonZeroU64::new(2);
        config.checkpoint.keep_last = NonZeroUsize::new(2);
    });
    workbench.train_into(&run, config);
    let mut names: Vec<_> = fs::read_dir(run.join("checkpoints"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["broken-step-9", "latest", "step-10", "step-8"]);
    // Whoever begins again wants none of them.
    let resume = training::Resume::Overwrite;
    let options = training::RunOptions { resume, ..workbench.options(&run) };
    training::train(&micro(|_| {}).validate(options).unwrap(), &super::StopAfter::new(1)).unwrap();
    assert!(!run.join("checkpoints/broken-step-9").exists());
}

#[test]
fn run_without_a_usable_checkpoint_is_an_error_and_keeps_its_log() {
    let (workbench, run, folder) = trained(|_| {});
    let whole = logged(&run, "loss");
    fs::write(folder.join("model.safetensors"), "").unwrap();
    let plan = micro(|_| {}).validate(workbench.options(&run)).unwrap();
    let error = training::train(&plan, &corpus::Silent).unwrap_err();
    assert!(
        matches!(error, TrainError::Checkpoint(CheckpointError::NoUsableCheckpoint { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("--overwrite"), "{error}");
    assert_eq!(logged(&run, "loss"), whole);
}

#[test]
fn broken_checkpoint_of_a_later_step_never_costs_a_good_one() {
    let (workbench, run, folder) = trained(every_step);
    fs::write(folder.join("model.safetensors"), "").unwrap();
    // As if the steps after the fifth had never been saved, but for the broken one of the tenth.
    for step in 6..10 {
        fs::remove_dir_all(run.join(format!("checkpoints/step-{step}"))).unwrap();
    }
    let config = micro(|config| {
        every_step(config);
        config.checkpoint.keep_last = NonZeroUsize::new(1);
    });
    let plan = config.validate(workbench.options(&run)).unwrap();
    let report = training::train(&plan, &super::StopAfter::new(7)).unwrap();
    assert!(report.stopped);
    assert_eq!(Checkpoint::open(&report.checkpoint).unwrap().step(), 7);
    assert_eq!(Checkpoint::open(&run).unwrap().step(), 7, "what `latest` names");
}

#[test]
fn complete_checkpoint_that_is_later_than_latest_is_taken() {
    let (_workbench, run, folder) = trained(every_step);
    fs::write(run.join("checkpoints/latest"), "step-8\n").unwrap();
    assert_eq!(Checkpoint::open(&run).unwrap().folder(), folder);
    fs::write(folder.join("model.safetensors"), "broken").unwrap();
    assert_eq!(Checkpoint::open(&run).unwrap().step(), 9, "broken ones are passed over");
}

#[test]
fn failed_save_leaves_nothing_half_written() {
    let workbench = Workbench::new(101);
    let run = workbench.new_run();
    let plan =
        micro(|config| set_layout(config, (2, 1))).validate(workbench.options(&run)).unwrap();
    training::train(&plan, &super::StopAfter::new(5)).unwrap();
    // What is in the way of the last checkpoint is no folder, and is not deleted.
    let obstacle = run.join("checkpoints/step-10");
    fs::write(&obstacle, "mine").unwrap();
    let error = training::train(&plan, &corpus::Silent).unwrap_err().to_string();
    assert!(error.contains("step 10 is not saved: ") && error.contains("it is a file"), "{error}");
    assert!(error.contains("the run goes on from step 5, which is kept"), "{error}");
    assert!(!run.join("checkpoints/.step-10.partial").exists());
    assert_eq!(fs::read_to_string(&obstacle).unwrap(), "mine");
    assert_eq!(Checkpoint::open(&run).unwrap().step(), 5);
}

#[test]
fn latest_that_names_nothing_does_not_hide_what_is_there() {
    let (_workbench, run, folder) = trained(every_step);
    fs::write(run.join("checkpoints/latest"), "junk\n").unwrap();
    assert_eq!(Checkpoint::open(&run).unwrap().folder(), folder);
}

#[test]
fn tensors_of_another_model_are_named() {
    let (_workbench, run, folder) = trained(|_| {});
    let path = folder.join("manifest.json");
    let manifest = fs::read_to_string(&path).unwrap();
    let with = |layers: &str| {
        fs::write(&path, manifest.replace("\"num_layers\": 2", layers)).unwrap();
        Checkpoint::open(&run).unwrap_err().to_string()
    };
    let error = with("\"num_layers\": 3");
    assert!(error.contains("tensor transformer.h.2.") && error.ends_with("is missing"), "{error}");
    let error = with("\"num_layers\": 1");
    assert!(
        error.contains("tensor transformer.h.1.") && error.ends_with("is none of the model's"),
        "{error}"
    );

    fs::write(&path, manifest.replace("\"seq_length\": 16", "\"seq_length\": 17")).unwrap();
    let error = Checkpoint::open(&run).unwrap_err().to_string();
    assert!(
        error.contains("transformer.wpe.weight has shape [16, 32], the model needs [17, 32]"),
        "{error}"
    );
}
