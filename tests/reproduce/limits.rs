//! The paper's own runs: what they lack here, and what they take.

use std::path::{Path, PathBuf};

use indicatif::HumanCount;
use serde_json::Value;

use crate::support::{Dir, Run, program};

fn config(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/reproduce").join(name)
}

/// `pipeline reproduce` on one of the shipped configurations, in a folder of its own.
fn reproduce(dir: &Dir, name: &str, more: &str) -> Run {
    let mut command = program();
    command.current_dir(dir.path("")).arg("reproduce").arg("--config").arg(config(name));
    Run::of(command.args(more.split_whitespace()))
}

/// What a shipped configuration would take.
fn plan(name: &str) -> Value {
    let dir = Dir::new();
    let run = reproduce(&dir, name, "--dry-run --json").success();
    assert_eq!(std::fs::read_dir(dir.path("")).unwrap().count(), 0, "a dry run writes nothing");
    run.json()
}

#[test]
fn the_papers_runs_are_the_papers_to_the_last_parameter_and_token() {
    for (name, parameters, ranks) in [
        ("table3-355m.toml", 354_871_296_u64, 1),
        ("table3-2.5b.toml", 2_488_934_400, 2),
        ("table3-8.3b.toml", 8_317_040_640, 8),
    ] {
        let plan = plan(name);
        let size = &plan["sizes"][0];
        assert_eq!(size["parameters"], parameters, "{name}");
        assert_eq!(size["ranks"], ranks, "{name}");
        assert_eq!(size["tokens"], 300_000_u64 * 512 * 1_024, "{name}");
        assert!(size["bytes"].as_u64().unwrap() > 16 * parameters, "{name}");
        let parts: Vec<_> = plan["parts"].as_object().unwrap().keys().cloned().collect();
        let size = size["name"].as_str().unwrap();
        let expected = [
            "corpus".to_owned(),
            "contamination".into(),
            format!("train.{size}"),
            format!("eval.{size}.wikitext103"),
            format!("eval.{size}.lambada"),
            "page".into(),
        ];
        assert_eq!(parts, expected, "{name}");
    }
}

#[test]
fn the_papers_runs_say_all_that_they_lack_at_once() {
    let dir = Dir::new();
    dir.write("wiki.tokens", " \n = Title = \n \n some words \n");
    for name in ["table3-355m.toml", "table3-2.5b.toml", "table3-8.3b.toml"] {
        let run = reproduce(&dir, name, "").refused(2, "not given: --text DIR");
        assert!(run.stderr.contains("this machine's text is no substitute"), "{}", run.stderr);
        assert!(run.stderr.contains("not given: --wikitext103 FILE"), "{}", run.stderr);
        let run =
            reproduce(&dir, name, "--wikitext103 wiki.tokens").refused(2, "not given: --lambada");
        assert!(!run.stderr.contains("not given: --wikitext103"), "{}", run.stderr);
        assert_eq!(std::fs::read_dir(dir.path("")).unwrap().count(), 1, "nothing is made");
    }
}

#[test]
fn a_machine_that_is_too_small_or_too_slow_is_refused_with_the_numbers() {
    let dir = Dir::new();
    // 16 bytes a parameter alone are 37 GiB and 124 GiB.
    let memory = corpus::machine::memory_bytes();
    for (name, size, ranks) in
        [("table3-2.5b.toml", "2.5b", "2 ranks"), ("table3-8.3b.toml", "8.3b", "8 ranks")]
    {
        let run = reproduce(&dir, name, "").refused(2, "cannot reproduce table3");
        if memory.is_some_and(|bytes| bytes < 36 << 30) {
            let line = run.stderr.lines().find(|line| line.contains("memory: "));
            let line = line.unwrap_or_else(|| panic!("{}", run.stderr));
            assert!(line.contains(size) && line.contains(ranks), "{line}");
            assert!(line.contains("GiB in all, and this machine has"), "{line}");
        }
        // No machine's cores multiply 1.5e20 numbers in 60 days.
        let line = run.stderr.lines().find(|line| line.contains("time: "));
        let line = line.unwrap_or_else(|| panic!("{}", run.stderr));
        assert!(
            line.contains("157,286,400,000 tokens") && line.contains("limits.max_days is 60"),
            "{line}"
        );
        assert!(line.contains("days at the") && line.contains("GFLOP/s"), "{line}");
    }
    // A longer run may be allowed; it still is told how long it is.
    let run =
        reproduce(&dir, "table3-355m.toml", "--set limits.max_days=1e9").refused(2, "--text DIR");
    assert!(!run.stderr.contains("time: "), "{}", run.stderr);
}

#[test]
fn the_dry_run_of_the_tiny_table_shows_its_parts_and_what_it_takes() {
    let dir = Dir::new();
    dir.write("text/README.md", "Some text.\n");
    let run = reproduce(&dir, "table3-tiny.toml", "--dry-run --text text").success();
    for part in ["text", "corpus", "contamination", "train.small", "eval.large.lambada", "page"] {
        let line = run.stdout.lines().find(|line| line.trim_start().starts_with(part));
        assert!(line.is_some_and(|line| line.ends_with("to do")), "{part}: {}", run.stdout);
    }
    // In words: no names of keys, and no number without its unit.
    assert!(!run.stdout.contains("flops per second"), "{}", run.stdout);
    let line = |start: &str| {
        let mut lines = run.stdout.lines().filter(|line| line.starts_with(start));
        lines.next_back().unwrap_or_else(|| panic!("{start}: {}", run.stdout)).to_owned()
    };
    assert!(line("memory ").contains("MiB at most for training"));
    assert!(line("time ").contains("GFLOP/s; limits.max_days is 1"));
    assert!(!dir.path("table3-tiny-out").exists());
    let json = reproduce(&dir, "table3-tiny.toml", "--dry-run --text text --json").success().json();
    let sizes = json["sizes"].as_array().unwrap();
    let grouped = |key: &str| HumanCount(sizes[2][key].as_u64().unwrap()).to_string();
    let large = line("large ");
    assert!(
        large.contains(&grouped("parameters")) && large.contains(&grouped("tokens")),
        "{large}"
    );
    let train = line("train.large ");
    assert!(train.contains(&format!("{} parameters, ", grouped("parameters"))), "{train}");
    let parameters: Vec<_> = sizes.iter().map(|it| it["parameters"].as_u64().unwrap()).collect();
    assert!(parameters.windows(2).all(|pair| pair[1] >= 3 * pair[0]), "{parameters:?}");
    assert_eq!(json["config_sources"]["eval.overlap"].as_str().unwrap().rsplit(':').count(), 2);
    assert_eq!(
        json["config"]["eval"]["overlap"],
        json["config"]["size"][0]["model"]["gpt2"]["seq_length"]
    );
}

#[test]
fn a_machine_is_refused_for_its_time_only_well_beyond_the_limit() {
    let dir = Dir::new();
    dir.write("text/README.md", "Some text.\n");
    let plan = |more: &str| {
        let line = format!("--dry-run --json --text text {more}");
        reproduce(&dir, "table3-tiny.toml", &line).success().json()
    };
    let days = plan("")["days_at_least"].as_f64().unwrap();
    for limit in [days / 1.2, days / 5.0] {
        let plan = plan(&format!("--set limits.max_days={limit}"));
        let speed = |key: &str| plan[key].as_f64().unwrap();
        assert!(
            speed("matrix_flops_per_second") >= speed("matrix_flops_per_second_slowest"),
            "{plan}"
        );
        let refusals = plan["refusals"].as_array().unwrap();
        let is_refused = refusals.iter().any(|it| it.as_str().unwrap().starts_with("time: "));
        assert_eq!(is_refused, speed("days_at_least") > 1.5 * limit, "{plan}");
    }
}
