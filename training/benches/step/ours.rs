//! Steps of this program: a whole run on a corpus of made-up text, in this process.

use std::fs;
use std::path::{Path, PathBuf};

use corpus::tokenizer::{Gpt2Tokenizer, JsonTokenizer, Tokenizer};
use corpus::{DataFolder, DataManifest, Existing, Silent, machine};
use serde_json::{Map, Value, json};
use training::{RunOptions, TrainConfig, train};

use crate::Failure;
use crate::step::model::{GPT2_VOCABULARY, Model};

/// One way to train.
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    precision: &'static str,
    recompute: &'static str,
    tensor_parallel_size: usize,
}

impl Variant {
    pub(crate) fn all() -> [Self; 6] {
        let of = |name, precision, recompute, tensor_parallel_size| Self {
            name,
            precision,
            recompute,
            tensor_parallel_size,
        };
        [
            of("f32", "f32", "none", 1),
            of("f32, recompute", "f32", "layer", 1),
            of("f32, 2 ranks", "f32", "none", 2),
            of("bf16", "bf16", "none", 1),
            of("bf16, recompute", "bf16", "layer", 1),
            of("f16", "f16", "none", 1),
        ]
    }

    pub(crate) fn named(name: &str) -> Result<Self, Failure> {
        let found = Self::all().into_iter().find(|variant| variant.name == name);
        found.ok_or_else(|| format!("no variant is called {name:?}").into())
    }

    fn config(&self, model: &Model) -> Result<TrainConfig, Failure> {
        let mut config = json!({
            "seed": 1,
            "precision": self.precision,
            "recompute": self.recompute,
            "model": { "gpt2": {
                "num_layers": model.layers,
                "hidden_size": model.hidden,
                "num_attention_heads": model.heads,
                "seq_length": model.seq,
                "hidden_dropout": 0.0,
                "attention_dropout": 0.0,
            } },
            "batch": { "micro_batch_size": model.batch, "global_batch_size": model.batch },
            "optimizer": { "lr": 1e-4 },
            "schedule": { "train_steps": model.steps, "warmup_steps": 1 },
            "parallel": { "tensor_parallel_size": self.tensor_parallel_size },
            "data": { "split": "1,0,0" },
        });
        if self.precision == "f16" {
            // The default begins so high that the first steps are skipped, update and all.
            config["loss_scale"] = json!({ "initial": 1024.0 });
        }
        Ok(serde_json::from_value(config)?)
    }
}

/// Trains and prints each step as a line of JSON, in seconds, and the peak memory last.
pub(crate) fn run(model: Model, variant: Variant) -> Result<(), Failure> {
    let folder = Folder::new()?;
    let (data, out) = (folder.0.join("data"), folder.0.join("run"));
    write_corpus(&model, &folder)?;
    let plan = variant.config(&model)?.validate(RunOptions::new(data, out.clone()))?;
    train(&plan, &Silent)?;
    for line in fs::read_to_string(out.join("metrics.jsonl"))?.lines() {
        let step: Value = serde_json::from_str(line)?;
        let seconds = |value: &Value| json!(value.as_f64().unwrap_or(f64::NAN) / 1e3);
        let mut line = json!({ "step": seconds(&step["milliseconds"]) });
        for part in ["data", "forward", "backward", "communication", "optimizer"] {
            line[part] = seconds(&step["timers"][part]);
        }
        println!("{line}");
    }
    println!("{}", json!({ "peak_bytes": machine::peak_rss_bytes() }));
    Ok(())
}

/// As many documents of made-up tokens as the steps need.
fn write_corpus(model: &Model, folder: &Folder) -> Result<(), Failure> {
    let vocabulary = model.vocabulary;
    let tokenizer: Box<dyn Tokenizer> = match vocabulary {
        GPT2_VOCABULARY => Box::new(Gpt2Tokenizer::new()),
        words => Box::new(JsonTokenizer::open(&write_tokenizer(words, &folder.0)?)?),
    };
    let writer = DataFolder::create(&folder.0.join("data"), Existing::Refuse)?;
    let mut shard = writer.shard(vocabulary)?;
    let tokens = 2 * (model.steps * model.batch * (model.seq + 1)) as u32;
    let tokens: Vec<u32> = (0..tokens).map(|place| place * 7919 % vocabulary as u32).collect();
    for document in tokens.chunks(1000) {
        shard.push_document(document)?;
    }
    let summary = shard.finish()?;
    writer.finish(DataManifest::new(&*tokenizer, &summary))?;
    Ok(())
}

/// A tokenizer of `words` made-up words, the first of which ends a document.
fn write_tokenizer(words: usize, folder: &Path) -> Result<PathBuf, Failure> {
    let end = "<|endoftext|>";
    let word = |id: usize| if id == 0 { end.to_owned() } else { format!("w{id}") };
    let vocabulary: Map<String, Value> = (0..words).map(|id| (word(id), json!(id))).collect();
    let definition = json!({
        "version": "1.0",
        "added_tokens": [{
            "id": 0, "content": end, "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false
        }],
        "pre_tokenizer": { "type": "Whitespace" },
        "model": { "type": "WordLevel", "unk_token": "w1", "vocab": vocabulary },
    });
    let path = folder.join("words.json");
    fs::write(&path, definition.to_string())?;
    Ok(path)
}

/// A folder of this process that vanishes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("step-bench-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left in the system's folder of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
