//! What an evaluation would do, without running the model.

use std::fs;

use evaluation::EvalPlan;
use evaluation::lambada::Lambada;
use evaluation::{Protocol, Task, wikitext103};

use super::{
    Zeros, evaluated, identity, made_text, narrow_gpt2, plan, positive, run_on_text, task,
};

#[test]
fn windows_targets_and_positions_are_those_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.tokens");
    fs::write(&file, made_text()).unwrap();
    let config = narrow_gpt2(64);
    for limit in [None, Some(positive(3))] {
        let plan = EvalPlan { limit, ..plan(32, 1) };
        let summary = task(&file).summary(&identity(&config), &plan).unwrap();
        let mut model = evaluated(&config, Zeros, 1);
        let result = run_on_text(made_text(), &mut model, &plan).unwrap();
        let wikitext103::Counts { tokens, targets, windows_scored, .. } =
            super::measured(&result).counts;
        assert_eq!((summary.tokens, summary.targets), (tokens, targets));
        assert_eq!((summary.windows, summary.examples), (Some(windows_scored), None));
        assert_eq!(summary.partial, limit.is_some());
        assert_eq!(summary.forward_passes, windows_scored.div_ceil(8));
        assert!(summary.token_positions <= windows_scored * 64);
    }
}

#[test]
fn padding_counts_among_the_positions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.jsonl");
    // Ten, six and three tokens, of which the last is no input.
    let texts = [
        "one two three four five six seven eight nine ten",
        "one two three four five six",
        "one two three",
    ];
    let lines: Vec<String> =
        texts.iter().map(|text| serde_json::json!({ "text": text }).to_string()).collect();
    fs::write(&file, lines.join("\n")).unwrap();
    let task = Task::Lambada(Lambada {
        name: "made".to_owned(),
        data: file,
        protocol: Protocol::Megatron,
    });
    for (micro_batch_size, positions) in [(1, 9 + 5 + 2), (2, 9 + 9 + 2), (3, 9 + 9 + 9)] {
        let plan = EvalPlan { micro_batch_size: positive(micro_batch_size), ..plan(32, 1) };
        let summary = task.summary(&identity(&narrow_gpt2(64)), &plan).unwrap();
        assert_eq!(summary.token_positions, positions);
        assert_eq!((summary.examples, summary.targets), (Some(3), 3));
    }
}
