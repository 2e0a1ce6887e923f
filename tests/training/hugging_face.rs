//! Models of Hugging Face's form, in both directions, and Megatron's files for each rank.
//!
//! Reference values: `fixtures/gpt2_micro`, whose weights `transformers` wrote.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use corpus::tokenizer::{JsonTokenizer, Tokenizer};
use corpus::{DataFolder, DataManifest, Observer, Silent, Unit};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize_to_file};
use serde_json::{Value, json};
use training::backend::Cpu;
use training::checkpoint::{
    Checkpoint, Existing, HuggingFaceModel, QkvOrder, export, import, merge, reshard,
};
use training::config::{ModelConfig, TrainConfig};
use training::model::Gpt2;
use training::parallel::{ParallelDims, launch};
use training::plan::RunOptions;
use training::{TrainError, train};

use super::{StopAfter, Workbench, logged, micro, number, steps};
use crate::micro_gpt2::{self, Tensors};
use crate::support::read_json;

/// The `config.json` that `transformers` writes beside the micro model, for what counts.
fn micro_config() -> Value {
    json!({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 96,
        "n_positions": 64, "n_ctx": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": null,
        "activation_function": "gelu", "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
        "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "scale_attn_weights": true,
        "scale_attn_by_inverse_layer_idx": false, "reorder_and_upcast_attn": false,
        "eos_token_id": 95, "tie_word_embeddings": true,
    })
}

/// Type, shape and bytes of a tensor.
type Owned = (Dtype, Vec<usize>, Vec<u8>);

fn tensors(path: &Path) -> BTreeMap<String, Owned> {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let whole = |view: TensorView<'_>| (view.dtype(), view.shape().to_vec(), view.data().to_vec());
    file.tensors().into_iter().map(|(name, view)| (name, whole(view))).collect()
}

fn write_tensors(path: &Path, tensors: &BTreeMap<String, Owned>) {
    let views = tensors.iter().map(|(name, (dtype, shape, data))| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    serialize_to_file(views, None, path).unwrap();
}

/// A folder as `transformers` would leave it.
struct Folder(tempfile::TempDir);

impl Folder {
    /// The micro model, its tensors changed by `change`.
    fn new(change: impl FnOnce(&mut BTreeMap<String, Owned>)) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let mut micro = tensors(&micro_gpt2::path("gpt2_micro", "model.safetensors"));
        change(&mut micro);
        write_tensors(&folder.path("model.safetensors"), &micro);
        folder.configure(|_| {});
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn configure(&self, change: impl FnOnce(&mut Value)) {
        let mut config = micro_config();
        change(&mut config);
        fs::write(self.path("config.json"), config.to_string()).unwrap();
    }

    fn open(&self) -> Result<HuggingFaceModel, TrainError> {
        HuggingFaceModel::open(self.0.path())
    }

    #[track_caller]
    fn check_refused(&self, parts: &[&str]) {
        let error = self.open().unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    /// The largest difference of its logits to the reference's.
    fn distance(&self, size: usize) -> f32 {
        let model = self.open().unwrap();
        let expected = Tensors::read("gpt2_micro", "forward_backward.safetensors");
        let tokens = expected.tokens("in.tokens");
        let inputs: Vec<i64> = tokens
            .chunks_exact(25)
            .flat_map(|sequence| sequence[..24].iter().map(|&id| i64::from(id)))
            .collect();
        let ranks = launch(ParallelDims::one_replica(size), |rank| {
            let device = Default::default();
            let built = Gpt2::<Cpu>::init(model.config()?, &model, &rank.tensor_parallel, &device)?;
            let data = burn::tensor::TensorData::new(inputs.clone(), [2, 24]);
            let inputs =
                burn::tensor::Tensor::<Cpu, 2, burn::tensor::Int>::from_data(data, &device);
            Ok(built.logits(inputs).into_data().to_vec::<f32>().unwrap())
        });
        let differences = ranks.unwrap().into_iter().flat_map(|logits| {
            let pairs: Vec<_> = logits.into_iter().zip(expected.floats("out.logits")).collect();
            pairs.into_iter().map(|(found, expected)| (found - expected).abs())
        });
        differences.fold(0.0, f32::max)
    }
}

/// What is left of an `f32` in the upper half of its bits.
fn as_bf16(tensors: &mut BTreeMap<String, Owned>) {
    for (dtype, _, data) in tensors.values_mut() {
        *dtype = Dtype::BF16;
        *data = data.chunks_exact(4).flat_map(|bytes| [bytes[2], bytes[3]]).collect();
    }
}

/// Cut off, not rounded: enough for weights of this size.
fn as_f16(tensors: &mut BTreeMap<String, Owned>) {
    for (dtype, _, data) in tensors.values_mut() {
        *dtype = Dtype::F16;
        *data = data
            .chunks_exact(4)
            .flat_map(|bytes| {
                let bits = u32::from_le_bytes(bytes.try_into().unwrap());
                let (sign, exponent) = (bits >> 16 & 0x8000, (bits >> 23 & 0xff) as i32 - 127);
                let fraction = bits & 0x7f_ffff | 0x80_0000;
                let magnitude = match exponent {
                    ..-24 => 0,
                    -24..-14 => fraction >> (13 - 14 - exponent),
                    _ => (((exponent + 15) as u32) << 10) + (fraction & 0x7f_ffff) / 0x2000,
                };
                ((sign | magnitude) as u16).to_le_bytes()
            })
            .collect();
    }
}

#[test]
fn weights_that_transformers_wrote_give_its_logits_in_every_form() {
    assert!(Folder::new(|_| {}).distance(1) < 1e-5);
    assert!(Folder::new(|_| {}).distance(4) < 1e-5);
    let without_prefix = Folder::new(|tensors| {
        *tensors = std::mem::take(tensors)
            .into_iter()
            .map(|(name, tensor)| (name.replacen("transformer.", "", 1), tensor))
            .collect();
        // Buffers that older versions wrote.
        for layer in 0..2 {
            let mask = (Dtype::U8, vec![1, 1, 64, 64], vec![1; 64 * 64]);
            tensors.insert(format!("h.{layer}.attn.bias"), mask);
            let masked = (Dtype::F32, vec![1], vec![0; 4]);
            tensors.insert(format!("h.{layer}.attn.masked_bias"), masked);
        }
    });
    assert!(without_prefix.distance(2) < 1e-5);
    let with_head = Folder::new(|tensors| {
        tensors.insert("lm_head.weight".to_owned(), tensors["transformer.wte.weight"].clone());
    });
    assert!(with_head.distance(1) < 1e-5);
    // Eight bits of fraction, and eleven: logits are of size one.
    assert!((1e-5..0.1).contains(&Folder::new(as_bf16).distance(1)));
    assert!((1e-6..0.01).contains(&Folder::new(as_f16).distance(1)));
}

#[test]
fn weights_in_several_files_are_one_model() {
    let folder = Folder::new(|_| {});
    let whole = tensors(&folder.path("model.safetensors"));
    fs::remove_file(folder.path("model.safetensors")).unwrap();
    let mut index = serde_json::Map::new();
    for (number, layer) in ["h.0.", "h.1."].iter().enumerate() {
        let file = format!("model-0000{}-of-00002.safetensors", number + 1);
        let mut part = whole.clone();
        part.retain(|name, _| name.contains(layer) || (number == 0 && !name.contains(".h.")));
        index.extend(part.keys().map(|name| (name.clone(), file.clone().into())));
        write_tensors(&folder.path(&file), &part);
    }
    let text = json!({ "metadata": {}, "weight_map": index }).to_string();
    fs::write(folder.path("model.safetensors.index.json"), text).unwrap();
    assert!(folder.distance(1) < 1e-5);

    fs::remove_file(folder.path("model-00002-of-00002.safetensors")).unwrap();
    folder.check_refused(&["cannot open", "model-00002-of-00002.safetensors"]);
    let outside = json!({ "weight_map": { "wte.weight": "../model.safetensors" } });
    fs::write(folder.path("model.safetensors.index.json"), outside.to_string()).unwrap();
    folder.check_refused(&["lists no files"]);
}

#[test]
fn foreign_models_that_do_not_fit_are_refused_by_name() {
    let folder = Folder::new(|_| {});
    for (field, value) in [
        ("model_type", json!("llama")),
        ("scale_attn_weights", json!(false)),
        ("scale_attn_by_inverse_layer_idx", json!(true)),
        ("add_cross_attention", json!(true)),
        ("tie_word_embeddings", json!(false)),
        ("activation_function", json!("relu")),
        ("activation_function", json!(7)),
        ("n_layer", json!(0)),
        ("layer_norm_epsilon", json!("small")),
    ] {
        folder.configure(|config| config[field] = value.clone());
        folder.check_refused(&["config.json: ", &format!("{field} = {value}: ")]);
    }
    folder.configure(|config| config["n_head"] = json!(5));
    folder.check_refused(&["hidden_size = 32: must be a multiple of num_attention_heads = 5"]);
    folder.configure(|config| config["n_layer"] = json!(3));
    folder.check_refused(&["model.safetensors: tensor transformer.h.2.", " is missing"]);
    folder.configure(|config| config["n_layer"] = json!(1));
    folder.check_refused(&["tensor transformer.h.1.", " is none of the model's"]);
    folder.configure(|config| config["n_positions"] = json!(32));
    folder.check_refused(&["transformer.wpe.weight has shape [64, 32], the model needs [32, 32]"]);
    folder.configure(|config| config["n_inner"] = json!(64));
    folder.check_refused(&["mlp.c_fc.weight has shape [32, 128], the model needs [32, 64]"]);

    let untied = Folder::new(|tensors| {
        let mut head = tensors["transformer.wte.weight"].clone();
        head.2[7] ^= 1;
        tensors.insert("lm_head.weight".to_owned(), head);
    });
    untied.check_refused(&["lm_head.weight is not wte.weight"]);
    let whole_numbers = Folder::new(|tensors| {
        tensors.get_mut("transformer.ln_f.bias").unwrap().0 = Dtype::I32;
    });
    whole_numbers.check_refused(&["transformer.ln_f.bias has type I32", "F16 and BF16"]);

    let pickled = Folder::new(|_| {});
    fs::rename(pickled.path("model.safetensors"), pickled.path("pytorch_model.bin")).unwrap();
    pickled.check_refused(&["pytorch_model.bin", "save_pretrained"]);
    fs::remove_file(pickled.path("pytorch_model.bin")).unwrap();
    pickled.check_refused(&["neither model.safetensors nor model.safetensors.index.json here"]);
    fs::remove_file(pickled.path("config.json")).unwrap();
    pickled.check_refused(&["no config.json here"]);
}

/// A tokenizer of every byte and the end of a document: 257 tokens.
fn byte_tokenizer(path: &Path) -> JsonTokenizer {
    // Printable bytes stand for themselves, the others for the characters from U+0100 on.
    let is_printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let others = (0..=255_u8).filter(|byte| !is_printable(byte)).count() as u32;
    let characters = (0..=255_u8)
        .filter(is_printable)
        .map(char::from)
        .chain((0..others).map(|other| char::from_u32(0x100 + other).unwrap()));
    let mut vocabulary = serde_json::Map::new();
    for (id, character) in characters.enumerate() {
        vocabulary.insert(character.to_string(), id.into());
    }
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
    });
    let definition = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": [{
            "id": 256, "content": "<|endoftext|>", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true,
        }],
        "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": vocabulary, "merges": [],
        },
    });
    fs::write(path, definition.to_string()).unwrap();
    JsonTokenizer::open(path).unwrap()
}

/// A workbench whose data are bytes of text, and a finished run on them at `tp` ranks.
fn trained_on_bytes(tp: usize) -> (Workbench, PathBuf) {
    let workbench = Workbench::new(101);
    let folder = workbench.data();
    fs::remove_dir_all(&folder).unwrap();
    let tokenizer = byte_tokenizer(&folder.with_file_name("bytes.json"));
    let writer = DataFolder::create(&folder, corpus::Existing::Refuse).unwrap();
    let mut shard = writer.shard(tokenizer.vocab_size()).unwrap();
    for document in 0..40 {
        let mut tokens = Vec::new();
        tokenizer.encode(&crate::support::words(document, 20), &mut tokens).unwrap();
        tokens.push(tokenizer.eod());
        shard.push_document(&tokens).unwrap();
    }
    let summary = shard.finish().unwrap();
    writer.finish(DataManifest::new(&tokenizer, &summary)).unwrap();
    let (_, run) = workbench.train(micro(|config| super::set_layout(config, (tp, 1))));
    (workbench, run)
}

#[test]
fn model_that_goes_out_and_comes_back_has_the_same_bits() {
    let (workbench, run) = trained_on_bytes(2);
    let checkpoint = Checkpoint::open(&run).unwrap();
    let exported = workbench.new_run();
    let report = export(&checkpoint, &exported, Existing::Refuse, &Silent).unwrap();
    assert_eq!((report.step, report.vocab_size), (10, 257));
    let mut names: Vec<_> = fs::read_dir(&exported)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut told = report.files.clone();
    told.sort();
    assert_eq!(names, told);
    assert_eq!(
        names,
        [
            "config.json",
            "generation_config.json",
            "merges.txt",
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
            "vocab.json"
        ]
    );
    let ours = tensors(&checkpoint.folder().join("model.safetensors"));
    let theirs = tensors(&exported.join("model.safetensors"));
    assert_eq!(theirs, ours);
    assert_eq!(theirs["transformer.wte.weight"].1, [257, 32], "the true vocabulary");
    assert!(!theirs.contains_key("lm_head.weight"), "the tied head once");
    let bytes = fs::read(exported.join("model.safetensors")).unwrap();
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
    assert_eq!(read_json(&exported.join("config.json"))["eos_token_id"], 256);
    assert_eq!(read_json(&exported.join("vocab.json")).as_object().unwrap().len(), 257);
    assert_eq!(read_json(&exported.join("tokenizer_config.json"))["eos_token"], "<|endoftext|>");

    let imported = workbench.new_run();
    let manifest = import(&exported, &imported, None, Existing::Refuse, &Silent).unwrap();
    assert_eq!((manifest.step, manifest.tokenizer.eod), (0, 256));
    let again = Checkpoint::open(&imported).unwrap();
    assert_eq!(again.tokenizer().unwrap().fingerprint, checkpoint.tokenizer().unwrap().fingerprint);
    assert_eq!(tensors(&imported.join("model.safetensors")), ours);
    assert!(!again.has_training_state());
    let error = again.moments(0, 1).unwrap_err().to_string();
    assert!(error.contains("without a state of training"), "{error}");

    // Neither is written over unasked, nor where anything else lies.
    for existing in [Existing::Refuse, Existing::Replace] {
        if existing == Existing::Replace {
            export(&checkpoint, &exported, existing, &Silent).unwrap();
            fs::write(exported.join("notes.txt"), "mine").unwrap();
        }
        let error = export(&checkpoint, &exported, existing, &Silent).unwrap_err().to_string();
        let reason =
            if existing == Existing::Refuse { "pass --overwrite" } else { "it holds notes.txt" };
        assert!(error.contains(reason), "{error}");
    }
    assert_eq!(fs::read_to_string(exported.join("notes.txt")).unwrap(), "mine");
}

#[test]
fn import_needs_a_tokenizer_of_the_models_size() {
    let folder = Folder::new(|_| {});
    let out = folder.path("out");
    let fail = |tokenizer: Option<&str>| {
        let error = import(folder.0.path(), &out, tokenizer, Existing::Refuse, &Silent);
        assert!(!out.exists());
        error.unwrap_err().to_string()
    };
    assert!(fail(None).contains("name the tokenizer with --tokenizer"));
    let error = fail(Some("gpt2"));
    assert!(error.contains("the model has 96 tokens and the tokenizer 50257"), "{error}");
    let left: Vec<_> = fs::read_dir(folder.0.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "nothing half written: {left:?}");
}

#[test]
fn files_for_megatrons_ranks_go_out_and_come_back_bit_for_bit() {
    let (workbench, run) = trained_on_bytes(1);
    let checkpoint = Checkpoint::open(&run).unwrap();
    let ours = tensors(&checkpoint.folder().join("model.safetensors"));
    for size in [1, 2, 4] {
        for version in [QkvOrder::Version0, QkvOrder::Version1, QkvOrder::Version2] {
            let (sharded, merged) = (workbench.new_run(), workbench.new_run());
            let existing = Existing::Refuse;
            let written = reshard(&checkpoint, size, version, &sharded, existing, &Silent).unwrap();
            assert_eq!(written.padded_vocab_size, 257_usize.next_multiple_of(128 * size));
            let rank = tensors(&sharded.join("iter_0000010/mp_rank_00/model.safetensors"));
            let shape = |name: &str| rank[&format!("language_model.{name}")].1.clone();
            let rows = written.padded_vocab_size / size;
            assert_eq!(shape("embedding.word_embeddings.weight"), [rows, 32]);
            let layer = "transformer.layers.1";
            let qkv = format!("{layer}.attention.query_key_value");
            assert_eq!(shape(&format!("{qkv}.weight")), [96 / size, 32]);
            assert_eq!(shape(&format!("{qkv}.bias")), [96 / size]);
            assert_eq!(shape(&format!("{layer}.mlp.dense_4h_to_h.weight")), [32, 128 / size]);
            assert_eq!(shape("transformer.final_layernorm.weight"), [32]);
            let tracker = sharded.join("latest_checkpointed_iteration.txt");
            assert_eq!(fs::read_to_string(tracker).unwrap(), "10");

            let manifest = merge(&sharded, &merged, Existing::Refuse, &Silent).unwrap();
            assert_eq!(manifest.step, 10);
            assert_eq!(tensors(&merged.join("model.safetensors")), ours, "{size} {version:?}");
            assert_eq!(Checkpoint::open(&merged).unwrap().manifest().tokenizer.vocab_size, 257);
        }
    }
    let refused = reshard(
        &checkpoint,
        3,
        QkvOrder::Version2,
        &workbench.new_run(),
        Existing::Refuse,
        &Silent,
    );
    assert!(refused.unwrap_err().to_string().contains("allowed: 1, 2, 4"));
    let error =
        merge(&run, &workbench.new_run(), Existing::Refuse, &Silent).unwrap_err().to_string();
    assert!(error.contains("no megatron.json here"), "{error}");
}

#[test]
fn only_own_files_of_megatrons_ranks_are_replaced() {
    let (workbench, run) = trained_on_bytes(1);
    let checkpoint = Checkpoint::open(&run).unwrap();
    let write = |out: &Path| {
        reshard(&checkpoint, 2, QkvOrder::Version2, out, Existing::Replace, &Silent)
            .map_err(|error| error.to_string())
    };
    // A checkpoint of Megatron-LM itself, of the same step.
    let theirs = workbench.new_run();
    let rank = theirs.join("iter_0000010/mp_rank_00");
    fs::create_dir_all(&rank).unwrap();
    fs::write(theirs.join("latest_checkpointed_iteration.txt"), "10").unwrap();
    fs::write(rank.join("model_optim_rng.pt"), "months of work").unwrap();
    let error = write(&theirs).unwrap_err();
    assert!(error.contains("that is no part of what is written"), "{error}");
    assert_eq!(fs::read_to_string(rank.join("model_optim_rng.pt")).unwrap(), "months of work");

    let ours = workbench.new_run();
    write(&ours).unwrap();
    write(&ours).unwrap();
    let added = ours.join("iter_0000010/mp_rank_01/model_optim_rng.pt");
    fs::write(&added, "mine").unwrap();
    let error = write(&ours).unwrap_err();
    assert!(error.contains("it holds iter_0000010/mp_rank_01/model_optim_rng.pt"), "{error}");
    assert_eq!(fs::read_to_string(&added).unwrap(), "mine");
    fs::remove_file(&added).unwrap();

    // Every rank's file is one of those that are verified.
    let description = ours.join("megatron.json");
    let whole = read_json(&description);
    let merged = workbench.new_run();
    let refused = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut value = whole.clone();
        change(value["files"].as_array_mut().unwrap());
        fs::write(&description, value.to_string()).unwrap();
        let error = merge(&ours, &merged, Existing::Refuse, &Silent).unwrap_err().to_string();
        assert!(error.contains("megatron.json: files: expected iter_0000010/"), "{error}");
        assert!(!merged.exists());
    };
    refused(&|files| drop(files.pop()));
    refused(&|files| files.push(files[0].clone()));
    refused(&|files| files[1]["name"] = json!("../secret"));
}

#[test]
fn folder_is_not_replaced_by_what_is_read_from_it_nor_where_it_is_foreign() {
    let (workbench, run) = trained_on_bytes(1);
    let (exported, imported) = (workbench.new_run(), workbench.new_run());
    let checkpoint = Checkpoint::open(&run).unwrap();
    export(&checkpoint, &exported, Existing::Refuse, &Silent).unwrap();
    let write = |from: &Path, out: &Path| {
        import(from, out, None, Existing::Replace, &Silent).map_err(|error| error.to_string())
    };
    write(&exported, &imported).unwrap();
    write(&exported, &imported).unwrap();
    let error = write(&imported, &imported).unwrap_err();
    assert!(error.contains("it is what is read; choose another folder"), "{error}");
    // Names alone make no earlier import: it is its manifest that tells.
    fs::remove_file(imported.join("manifest.json")).unwrap();
    let error = write(&exported, &imported).unwrap_err();
    assert!(error.contains("that is no part of what is written"), "{error}");
    assert!(imported.join("model.safetensors").exists());
}

#[test]
fn rows_that_pad_a_table_are_left_out() {
    let (workbench, run) = trained_on_bytes(1);
    let checkpoint = Checkpoint::open(&run).unwrap();
    let (exported, imported) = (workbench.new_run(), workbench.new_run());
    export(&checkpoint, &exported, Existing::Refuse, &Silent).unwrap();
    let model = exported.join("model.safetensors");
    let ours = tensors(&model);
    let pad_to = |rows: usize| {
        let mut padded = ours.clone();
        let (_, shape, data) = padded.get_mut("transformer.wte.weight").unwrap();
        shape[0] = rows;
        data.resize(rows * 32 * 4, 1);
        write_tensors(&model, &padded);
        let mut config = read_json(&exported.join("config.json"));
        config["vocab_size"] = rows.into();
        fs::write(exported.join("config.json"), config.to_string()).unwrap();
    };
    pad_to(384);
    let manifest = import(&exported, &imported, None, Existing::Refuse, &Silent).unwrap();
    assert_eq!(manifest.model.vocab_size(), 257);
    assert_eq!(tensors(&imported.join("model.safetensors")), ours);
    pad_to(300);
    let error = import(&exported, &imported, None, Existing::Replace, &Silent).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("the model has 300 tokens and the tokenizer 257"), "{error}");
}

/// Deletes a folder once training has begun.
struct Deletes<'a>(&'a Path);

impl Observer for Deletes<'_> {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {}

    /// What counts one by one are steps.
    fn advance(&self, amount: u64) {
        if amount == 1 && self.0.exists() {
            fs::remove_dir_all(self.0).unwrap();
        }
    }

    fn finish(&self) {}
}

#[test]
fn run_saves_its_tokenizer_though_the_data_folder_is_gone() {
    let (workbench, _) = trained_on_bytes(1);
    let out = workbench.new_run();
    let plan = micro(|config| config.checkpoint.interval_steps = Some(steps(3)))
        .validate(workbench.options(&out))
        .unwrap();
    let report = train(&plan, &Deletes(&workbench.data())).unwrap();
    assert_eq!(report.steps, 10);
    assert!(report.checkpoint.join("tokenizer.json").is_file());
    Checkpoint::open(&out).unwrap();
}

#[test]
fn weights_over_another_tokenizer_are_refused() {
    let (workbench, run) = trained_on_bytes(1);
    let exported = workbench.new_run();
    export(&Checkpoint::open(&run).unwrap(), &exported, Existing::Refuse, &Silent).unwrap();
    let begins = || micro(|_| {}).validate(beginning_with(&workbench, &exported));
    let path = exported.join("tokenizer.json");
    let text = fs::read_to_string(&path).unwrap();
    // Written another way it is the same; with two tokens changed about it is not.
    let mut value: Value = serde_json::from_str(&text).unwrap();
    fs::write(&path, serde_json::to_string_pretty(&value).unwrap()).unwrap();
    begins().unwrap();
    value["model"]["vocab"]["a"] = json!(65);
    value["model"]["vocab"]["b"] = json!(64);
    fs::write(&path, value.to_string()).unwrap();
    let error = begins().unwrap_err().to_string();
    assert!(error.contains("its tokenizer is another one than the data's"), "{error}");
    for name in ["tokenizer.json", "vocab.json", "merges.txt"] {
        fs::remove_file(exported.join(name)).unwrap();
    }
    begins().unwrap();
}

/// Reference: `qkv_order` of `fixtures/misc`, rows of four heads of two places in one rank of one
/// and of two.
#[test]
fn queries_keys_and_values_stand_in_megatrons_order() {
    let expected = read_json(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/training/qkv_order.json"),
    );
    let names = |heads: std::ops::Range<usize>| -> Vec<String> {
        ["q", "k", "v"]
            .iter()
            .flat_map(|kind| {
                heads
                    .clone()
                    .flat_map(move |head| (0..2).map(move |at| format!("{kind}{head}.{at}")))
            })
            .collect()
    };
    let ordered = |order: QkvOrder, heads: std::ops::Range<usize>| -> Vec<String> {
        let names = names(heads.clone());
        order.rows(heads.len(), 2).into_iter().map(|row| names[row].clone()).collect()
    };
    for (order, key) in [
        (QkvOrder::Version0, "version0_full"),
        (QkvOrder::Version1, "version1_full"),
        (QkvOrder::Version2, "version2_full"),
    ] {
        assert_eq!(json!(ordered(order, 0..4)), expected[key], "{key}");
    }
    for (order, key) in
        [(QkvOrder::Version0, "version0_rank"), (QkvOrder::Version2, "version2_rank")]
    {
        assert_eq!(json!([ordered(order, 0..2), ordered(order, 2..4)]), expected[key], "{key}");
    }
}

/// Options of a run in a new folder that begins with the weights at `from`.
fn beginning_with(workbench: &Workbench, from: &Path) -> RunOptions {
    RunOptions { init_from: Some(from.to_owned()), ..workbench.options(&workbench.new_run()) }
}

#[test]
fn run_begins_with_weights_from_elsewhere_and_remembers_them() {
    let (workbench, run) = trained_on_bytes(1);
    let checkpoint = Checkpoint::open(&run).unwrap();
    let exported = workbench.new_run();
    export(&checkpoint, &exported, Existing::Refuse, &Silent).unwrap();
    // A rate of nothing at first: the first loss is that of the weights.
    let config = || micro(|config: &mut TrainConfig| config.seed = 99);
    let mut first = Vec::new();
    fs::remove_file(run.join("checkpoints/latest")).unwrap();
    for from in [&run, &run.join("checkpoints"), &exported] {
        let options = beginning_with(&workbench, from);
        let plan = config().validate(options.clone()).unwrap();
        let report = train(&plan, &StopAfter::new(4)).unwrap();
        assert_eq!((report.steps, logged(&options.out, "updates")[0]), (4, 1.0));
        first.push(logged(&options.out, "loss"));
        let record = read_json(&options.out.join("run.json"));
        assert!(record["init_from"]["path"].as_str().unwrap().starts_with(from.to_str().unwrap()));

        // Its checkpoints have them; named again they are the same, and others are not.
        let plain = RunOptions { init_from: None, ..options.clone() };
        train(&config().validate(plain).unwrap(), &StopAfter::new(6)).unwrap();
        train(&config().validate(options.clone()).unwrap(), &StopAfter::new(7)).unwrap();
        let earlier = workbench.train(config()).1;
        let others = RunOptions { init_from: Some(earlier), ..options };
        let error = train(&config().validate(others).unwrap(), &Silent).unwrap_err().to_string();
        assert!(error.contains("it began with the weights of "), "{error}");
    }
    assert!(first[1..].iter().all(|it| *it == first[0]), "the same weights by every way");
    let fresh = workbench.losses(config());
    let trained = logged(&run, "loss");
    assert!(first[0][0] < fresh[0] - 0.05, "{} of {}", first[0][0], fresh[0]);
    assert!((first[0][0] - trained[9]).abs() < 0.3, "{} after {}", first[0][0], trained[9]);
}

#[test]
fn weights_of_another_model_are_refused_with_every_difference() {
    let (workbench, run) = trained_on_bytes(1);
    let refused = |change: &dyn Fn(&mut TrainConfig), parts: &[&str]| {
        let options = beginning_with(&workbench, &run);
        let error = micro(change).validate(options).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    refused(
        &|config| {
            let ModelConfig::Gpt2(section) = &mut config.model else { panic!("a GPT-2") };
            section.num_layers = number(4);
            section.hidden_size = number(64);
            section.layer_norm_epsilon = 1e-6;
        },
        &[
            "num_layers is 2 there and 4 here",
            "hidden_size is 32 there and 64 here",
            "ffn_hidden_size is 128 there and 256 here",
            "layer_norm_epsilon is 0.00001 there and 0.000001 here",
        ],
    );
    let other = Workbench::new(257);
    let options = beginning_with(&other, &run);
    let error = micro(|_| {}).validate(options).unwrap_err().to_string();
    assert!(
        error.contains("its tokenizer is ") && error.contains("the data's is numbers"),
        "{error}"
    );

    // Weights alone are no run to go on from.
    let exported = workbench.new_run();
    export(&Checkpoint::open(&run).unwrap(), &exported, Existing::Refuse, &Silent).unwrap();
    let imported = workbench.new_run();
    import(&exported, &imported, None, Existing::Refuse, &Silent).unwrap();
    let options = RunOptions {
        resume: training::Resume::From(imported),
        ..workbench.options(&workbench.new_run())
    };
    let error = train(&micro(|_| {}).validate(options).unwrap(), &Silent).unwrap_err().to_string();
    assert!(error.contains("a run can begin with them (--init-from)"), "{error}");
}
