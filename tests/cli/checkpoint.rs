//! `pipeline checkpoint`: what it shows, writes and refuses, and models that go around through other
//! programs' forms.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::tiny_run;
use crate::support::{Dir, pipeline, pipeline_in, program, read_json};

#[test]
fn checkpoint_is_shown_once_it_is_verified() {
    let dir = tiny_run();
    let shown = pipeline_in(&dir, "checkpoint show run --json").success().json();
    assert_eq!((&shown["step"], &shown["verified"]), (&3.into(), &true.into()));
    assert_eq!(shown["tokenizer"]["name"], "gpt2");
    assert_eq!(shown["has_training_state"], true);
    let table = pipeline_in(&dir, "checkpoint show run").success().stdout;
    assert!(table.contains("model.safetensors") && table.contains("50,257"), "{table}");

    fs::write(dir.path("run/checkpoints/step-3/config.json"), "{}").unwrap();
    pipeline_in(&dir, "checkpoint show run").refused(2, "config.json: bytes: expected ");
    pipeline_in(&dir, "checkpoint show data").refused(2, "a data folder, no checkpoint");
    pipeline_in(&dir, "checkpoint show nowhere").refused(2, "nowhere: no checkpoint here");
}

#[test]
fn model_goes_to_hugging_face_and_back_and_is_evaluated_alike() {
    let dir = tiny_run();
    let exported = pipeline_in(&dir, "checkpoint export --hf exported run --json").success().json();
    assert_eq!((&exported["vocab_size"], &exported["step"]), (&50_257.into(), &3.into()));
    for name in ["tokenizer.json", "vocab.json", "merges.txt", "generation_config.json"] {
        assert!(dir.path("exported").join(name).is_file(), "{name}");
    }
    let merges = fs::read_to_string(dir.path("exported/merges.txt")).unwrap();
    assert!(merges.starts_with("#version: 0.2\nĠ t\nĠ a\nh e\n"), "{}", &merges[..40]);
    assert_eq!(read_json(&dir.path("exported/vocab.json"))["<|endoftext|>"], 50_256);

    let again = pipeline_in(&dir, "checkpoint export --hf exported run");
    assert!(again.refused(2, "exported is there already").stderr.contains("--overwrite"));
    pipeline_in(&dir, "checkpoint export --hf exported run --overwrite").success();
    pipeline_in(&dir, "checkpoint export --hf data run --overwrite")
        .refused(2, "that is no part of what is written");

    pipeline_in(&dir, "checkpoint import exported imported").success();
    let manifest = read_json(&dir.path("imported/manifest.json"));
    assert_eq!(manifest["tokenizer"]["name"], "gpt2", "known again");
    let score = |checkpoint: &str| {
        let line = format!(
            "eval --checkpoint {checkpoint} --task wikitext103 --data test.tokens --overlap 8 --limit 4 --json"
        );
        let report = pipeline_in(&dir, &line).success().json();
        report["results"][0]["metrics"].clone()
    };
    assert_eq!(score("imported"), score("run"));

    // A run begins with it; the data's tokenizer is the model's.
    let line = "train --config train.toml --data data --out tuned --init-from imported";
    pipeline_in(&dir, line).success();
    let record = read_json(&dir.path("tuned/run.json"));
    assert!(record["init_from"]["path"].as_str().unwrap().ends_with("imported"));
    pipeline_in(&dir, &format!("{line} --overwrite --set model.gpt2.num_layers=2"))
        .refused(2, "num_layers is 1 there and 2 here");
    pipeline_in(&dir, "train --config train.toml --data data --out other --resume imported")
        .refused(2, "begin with them (--init-from)");
    pipeline_in(&dir, "train --config train.toml --data data --out other --init-from in.jsonl")
        .refused(2, "in.jsonl: no config.json here");
    assert!(!dir.path("other/run.json").exists());
}

#[test]
fn model_goes_to_megatrons_ranks_and_back() {
    let dir = tiny_run();
    let written =
        pipeline_in(&dir, "checkpoint reshard --tp 2 run sharded --json").success().json();
    assert_eq!(
        (&written["padded_vocab_size"], &written["checkpoint_version"]),
        (&50_432.into(), &"2.0".into())
    );
    assert!(dir.path("sharded/iter_0000003/mp_rank_01/model.safetensors").is_file());
    pipeline_in(&dir, "checkpoint reshard --merge sharded merged").success();
    let read = |path: &str| fs::read(dir.path(path)).unwrap();
    assert!(read("merged/model.safetensors") == read("run/checkpoints/step-3/model.safetensors"));

    pipeline_in(&dir, "checkpoint reshard --tp 3 run other").refused(2, "allowed: 1, 2");
    pipeline_in(&dir, "checkpoint reshard run other").refused(2, "--tp");
    pipeline_in(&dir, "checkpoint reshard --merge --tp 2 sharded other")
        .refused(2, "cannot be used");
    pipeline_in(&dir, "checkpoint reshard --merge run other").refused(2, "no megatron.json here");
    pipeline_in(&dir, "checkpoint show run --set seed=1").refused(2, "reads no configuration");
    let file = dir.path("sharded/iter_0000003/mp_rank_01/model.safetensors");
    fs::write(&file, "broken").unwrap();
    pipeline_in(&dir, "checkpoint reshard --merge sharded other")
        .refused(2, "mp_rank_01/model.safetensors: bytes: expected ");
    assert!(!dir.path("other").exists());
}

#[test]
fn help_of_each_part_teaches_it() {
    for part in ["show", "export", "import", "reshard"] {
        let help = pipeline(["checkpoint", part, "--help"]).success().stdout;
        assert!(help.contains("Usage: pipeline checkpoint") && help.contains("--json"), "{help}");
    }
    let help = pipeline(["checkpoint", "--help"]).success().stdout;
    assert!(help.contains("pipeline checkpoint export --hf exported runs/tiny"), "{help}");
}

/// Has `line` stopped by a signal when it comes to `stage`; returns its exit code and messages.
fn stopped_in(dir: &Dir, line: &str, stage: &str) -> (Option<i32>, String) {
    let mut command = program();
    command.current_dir(dir.path("")).args(line.split_whitespace());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    let mut seen = String::new();
    while !seen.contains(stage) {
        assert!(messages.read_line(&mut seen).unwrap() > 0, "ended before {stage:?}:\n{seen}");
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    messages.read_to_string(&mut seen).unwrap();
    (child.wait().unwrap().code(), seen)
}

/// Writes a model of Hugging Face's form with `layers` layers, whose file holds nothing but zeros
/// behind its header.
fn write_hollow_model(folder: &Path, layers: usize) {
    let width = 1024;
    let mut shapes = vec![
        ("wte.weight".to_owned(), vec![50_257, width]),
        ("wpe.weight".to_owned(), vec![16, width]),
        ("ln_f.weight".to_owned(), vec![width]),
        ("ln_f.bias".to_owned(), vec![width]),
    ];
    for layer in 0..layers {
        for (name, shape) in [
            ("ln_1.weight", vec![width]),
            ("ln_1.bias", vec![width]),
            ("attn.c_attn.weight", vec![width, 3 * width]),
            ("attn.c_attn.bias", vec![3 * width]),
            ("attn.c_proj.weight", vec![width, width]),
            ("attn.c_proj.bias", vec![width]),
            ("ln_2.weight", vec![width]),
            ("ln_2.bias", vec![width]),
            ("mlp.c_fc.weight", vec![width, 4 * width]),
            ("mlp.c_fc.bias", vec![4 * width]),
            ("mlp.c_proj.weight", vec![4 * width, width]),
            ("mlp.c_proj.bias", vec![width]),
        ] {
            shapes.push((format!("h.{layer}.{name}"), shape));
        }
    }
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    for (name, shape) in shapes {
        let begin = end;
        end += 4 * shape.iter().product::<usize>();
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [begin, end] });
        header.insert(name, entry);
    }
    let header = json!(header).to_string();
    fs::create_dir_all(folder).unwrap();
    let mut file = File::create(folder.join("model.safetensors")).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len((8 + header.len() + end) as u64).unwrap();
    let config = json!({
        "model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": 16, "n_positions": 16,
        "vocab_size": 50_257, "eos_token_id": 50_256,
    });
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

#[test]
fn signal_ends_the_work_and_leaves_nothing() {
    let dir = tiny_run();
    // Gigabytes to write, which the first signal cuts short.
    write_hollow_model(&dir.path("hollow"), 48);
    // Gigabytes to read, of which the disk holds next to nothing.
    let newest = dir.path("run/checkpoints/step-3");
    let manifest = newest.join("manifest.json");
    let mut value = read_json(&manifest);
    for file in value["files"].as_array_mut().unwrap() {
        if file["name"] == "model.safetensors" {
            file["bytes"] = json!(8_u64 << 30);
        }
    }
    fs::write(&manifest, value.to_string()).unwrap();
    let model = File::options().write(true).open(newest.join("model.safetensors")).unwrap();
    model.set_len(8 << 30).unwrap();

    for (line, stage) in [
        ("checkpoint import hollow out --tokenizer gpt2", "weights: "),
        ("checkpoint export --hf out run", "verify checkpoint: "),
        ("checkpoint reshard --tp 2 run out", "verify checkpoint: "),
        ("checkpoint show run", "verify checkpoint: "),
    ] {
        let (code, messages) = stopped_in(&dir, line, stage);
        assert_eq!(code, Some(1), "{line}: {messages}");
        assert!(messages.contains("stopped by a signal: nothing was written"), "{messages}");
        assert!(!dir.path("out").exists() && !dir.path(".out.partial").exists(), "{line}");
    }
    for (line, code, message) in [
        ("train --config train.toml --data data --out run", 75, "stopped by a signal before the"),
        (
            "eval --checkpoint run --task wikitext103 --data test.tokens --overlap 16",
            75,
            "there is no result",
        ),
        ("generate --checkpoint run --prompt a", 1, "stopped by a signal before the first token"),
    ] {
        let (found, messages) = stopped_in(&dir, line, "verify checkpoint: ");
        assert_eq!(found, Some(code), "{line}: {messages}");
        assert!(messages.contains(message), "{messages}");
    }
}
