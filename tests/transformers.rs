//! Models that go to Python's `transformers` and come from there: the same logits and tokens on both
//! sides.
//!
//! Needs an interpreter with `torch` and `transformers`, which `peers/run` makes and `PEERS_PYTHON`
//! names; without that the test is left out.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use burn::tensor::{Int, Tensor, TensorData};
use corpus::Silent;
use corpus::tokenizer::{Gpt2Tokenizer, Tokenizer};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize_to_file};
use serde_json::json;
use training::backend::Cpu;
use training::checkpoint::{Checkpoint, Existing, HuggingFaceModel, export};
use training::model::{Gpt2, Gpt2Config, ParameterSource};
use training::parallel::TensorParallelGroup;

use crate::cli::tiny_corpus;
use crate::support::pipeline_in;

/// What is asked of logits that two programs compute in `f32`.
const TOLERANCE: f32 = 1e-4;

/// Texts that tokenizers differ on, if they differ.
const TEXTS: [&str; 4] = [
    "Hello, I'm a language model,",
    " \n\n  a  1234 numbers, they'll go on…",
    "<|endoftext|> is text like any other to us",
    "ünïcödé 好 🙂\t",
];

/// Logits of `model` after each of the tokens, `[tokens, vocabulary]`.
fn logits(config: &Gpt2Config, model: &dyn ParameterSource, tokens: &[i64]) -> Vec<f32> {
    let (group, device) = (TensorParallelGroup::single(), Default::default());
    let model = Gpt2::<Cpu>::init(config, model, &group, &device).unwrap();
    let inputs = TensorData::new(tokens.to_vec(), [1, tokens.len()]);
    model.logits(Tensor::<Cpu, 2, Int>::from_data(inputs, &device)).into_data().to_vec().unwrap()
}

/// Leaves tokens and our logits for them in a file.
fn write_expected(path: &Path, tokens: &[i64], logits: &[f32]) {
    let tokens_bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    let logits_bytes: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
    let shape = vec![tokens.len(), logits.len() / tokens.len()];
    let views = [
        ("tokens", TensorView::new(Dtype::I64, vec![tokens.len()], &tokens_bytes).unwrap()),
        ("logits", TensorView::new(Dtype::F32, shape, &logits_bytes).unwrap()),
    ];
    serialize_to_file(views, None, path).unwrap();
}

/// Runs `peers/check_transformers.py` with `words`, and returns what it found.
fn python(interpreter: &str, words: &[&Path]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/check_transformers.py");
    let output = Command::new(interpreter).arg(script).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{messages}");
    said
}

#[test]
#[ignore = "needs Python with torch and transformers: tests/peers/run makes it and runs this"]
fn transformers_computes_what_this_program_does_both_ways() {
    let interpreter = env::var("PEERS_PYTHON").expect("tests/peers/run sets it");

    // Out: a trained model and its tokenizer.
    let dir = tiny_corpus();
    let line = "train --config train.toml --data data --out run --tp 2 \
                --set schedule.train_steps=20 --set optimizer.lr=1e-2";
    pipeline_in(&dir, line).success();
    let checkpoint = Checkpoint::open(&dir.path("run")).unwrap();
    let exported = dir.path("exported");
    export(&checkpoint, &exported, Existing::Refuse, &Silent).unwrap();
    let tokens: Vec<i64> = (0..16).map(|place| place * 3_137 % 50_257).collect();
    let expected = logits(checkpoint.model_config().unwrap(), &checkpoint, &tokens);
    write_expected(&dir.path("expected.safetensors"), &tokens, &expected);
    let tokenizer = Gpt2Tokenizer::new();
    let encoded = TEXTS.map(|text| {
        let mut tokens = Vec::new();
        tokenizer.encode(text, &mut tokens).unwrap();
        json!({ "text": text, "tokens": tokens })
    });
    fs::write(dir.path("texts.json"), json!(encoded).to_string()).unwrap();
    let (expected, texts) = (dir.path("expected.safetensors"), dir.path("texts.json"));
    println!("{}", python(&interpreter, &[Path::new("out"), &exported, &expected, &texts]));

    // Our own folder loads as it is, too.
    println!("{}", python(&interpreter, &[Path::new("out"), checkpoint.folder(), &expected]));

    // In: models that transformers writes, in one file and in several.
    let made = dir.path("made");
    python(&interpreter, &[Path::new("in"), &made]);
    for name in ["whole", "sharded", "half"] {
        let folder = made.join(name);
        let model = HuggingFaceModel::open(&folder).unwrap();
        let bytes = fs::read(folder.join("expected.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let numbers = |name: &str| file.tensor(name).unwrap().data().to_vec();
        let tokens: Vec<i64> = numbers("tokens")
            .chunks_exact(8)
            .map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        let theirs = numbers("logits");
        let theirs = theirs.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap()));
        let ours = logits(model.config().unwrap(), &model, &tokens);
        let differences = ours.iter().zip(theirs).map(|(ours, theirs)| (ours - theirs).abs());
        let largest = differences.fold(0.0, f32::max);
        assert!(largest < TOLERANCE, "{name}: {largest:e}");
        println!("{name}: a model that transformers wrote has its logits within {largest:.1e}");
    }
}
