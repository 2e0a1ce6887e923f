//! `pipeline checkpoint`: what it shows, writes and refuses, and models that go around through other
//! programs' forms.

use std::fs;

use super::tiny_run;
use crate::support::{pipeline, pipeline_in, read_json};

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
