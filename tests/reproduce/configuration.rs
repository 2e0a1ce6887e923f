//! Mistakes in a configuration, each with its place.

use std::fs;
use std::path::Path;

use super::{LINE, MICRO, micro};
use crate::support::{Dir, Run, pipeline_in, program};

#[test]
fn every_shipped_experiment_is_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/reproduce");
    let dir = Dir::new();
    dir.write("text/README.md", "Some text.\n");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let mut command = program();
        command.current_dir(dir.path("")).args(["reproduce", "--dry-run", "--text", "text"]);
        let name = entry.unwrap().path();
        let is_tiny = name.file_stem().unwrap().to_string_lossy().ends_with("-tiny");
        // The paper's own need its sources below the folder, and are planned without.
        if !is_tiny {
            command = program();
            command.current_dir(dir.path("")).args(["reproduce", "--dry-run"]);
        }
        let run = Run::of(command.arg("--json").arg("--config").arg(&name)).success();
        if is_tiny {
            // Trainings of minutes: a death costs little of them.
            let checkpoint = &run.json()["config"]["train"]["checkpoint"];
            assert!(checkpoint["interval_minutes"].as_f64().unwrap() <= 1.0, "{checkpoint}");
        }
        count += 1;
    }
    assert_eq!(count, 6);
}

#[test]
fn a_mistake_is_told_with_its_line_or_its_flag() {
    let dir = micro();
    let line = MICRO.lines().position(|line| line.starts_with("max_bytes")).unwrap() + 1;
    dir.write("micro.toml", MICRO.replace("max_bytes", "max_byte"));
    pipeline_in(&dir, LINE).refused(2, &format!("micro.toml:{line}: unknown key `max_byte`"));
    dir.write("micro.toml", MICRO.replace("\"table3\"", "\"table4\""));
    pipeline_in(&dir, LINE).refused(
        2,
        "micro.toml:1: unknown choice `table4`, expected one of `table3`, `figure7`, `race`",
    );
    dir.write("micro.toml", MICRO);
    for (set, message) in [
        ("train.model=1", "unknown key `model`"),
        ("train.optimizer.rate=1", "unknown key `rate`"),
        ("data.source=[]", ""),
        ("size.0.name=a/b", "it is the name of a folder"),
        ("size.1.name=small", "size \"small\" is given twice"),
        ("size.0.paper=9B", "is no row of the paper's Table 3; allowed: 355M, 2.5B, 8.3B"),
        ("size.0.model.gpt2.seq_length=16", "would not see the same samples"),
        ("size.0.model.gpt2.num_attention_heads=3", "num_attention_heads = 3"),
        ("limits.max_days=0", "limits.max_days = 0: must be above 0"),
        ("contamination.ngram_words=[]", "contamination.ngram_words = []"),
        ("eval.overlap=33", "overlap = 33"),
        ("data.decontamination.title={}", "title"),
        ("data.near_duplicates.threshold=2.0", "near_duplicates.threshold = 2"),
        ("eval.tensor_parallel_size=3", "cannot be split over --tp 3"),
        ("train.batch.micro_batch_size=3", "micro_batch_size"),
        ("train.schedule.train_steps=0", "expected a whole number of at least 1"),
    ] {
        // What an empty list of sources is, is what is written there: nothing.
        if set == "data.source=[]" {
            pipeline_in(&dir, &format!("{LINE} --dry-run --set {set}")).success();
            continue;
        }
        pipeline_in(&dir, &format!("{LINE} --set {set}")).refused(2, message);
        assert!(!dir.path("out").exists(), "{set}");
    }
    let without = MICRO.replace("[text]\nmax_bytes = 1_000_000\n", "");
    dir.write("micro.toml", without);
    pipeline_in(&dir, LINE).refused(2, "neither [text] nor [[data.source]] is given");
}

#[test]
fn help_teaches_by_examples() {
    let help = crate::support::pipeline(["reproduce", "--help"]).success().stdout;
    for part in ["Examples:", "configs/reproduce/table3-tiny.toml", "--wikitext103", "--dry-run"] {
        assert!(help.contains(part), "{part}");
    }
}
