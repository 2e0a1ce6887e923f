//! Models that answer no questions, and folders that are not in RACE's form.

use corpus::Silent;
use evaluation::{EvalPlan, Task, evaluate};
use serde_json::json;
use training::architecture::Architecture;

use super::fine_tuned::Runs;
use super::{Folder, article, config, race_plan};
use crate::evaluation::{narrow_gpt2, plan, task};
use crate::fine_tuning::BENCH;

#[track_caller]
fn refused(plan: &EvalPlan, part: &str) {
    let errors = [
        plan.summary(&Silent).map(drop).unwrap_err().to_string(),
        evaluate(plan, &Silent).unwrap_err().to_string(),
    ];
    for error in errors {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn only_a_fine_tuned_bert_answers_questions_and_it_does_nothing_else() {
    let race = BENCH.path("RACE");
    refused(
        &race_plan(&BENCH.path("bert"), &race),
        "race is nothing for a bert: a bert is measured by validation or, once fine-tuned on RACE \
         (`pipeline train` with [finetune.race]), by race",
    );
    // A folder of Hugging Face's says what it is when it is opened.
    refused(&race_plan(&BENCH.path("hf"), &race), "race is nothing for a bert");
    let gpt2 = Architecture::Gpt2(narrow_gpt2(32));
    let error = race_plan(&race, &race).check(&gpt2).unwrap_err().to_string();
    assert!(
        error.contains("race is nothing for a gpt2: a gpt2 is measured by wikitext103"),
        "{error}"
    );
    let runs = Runs::shared();
    let text = BENCH.write("text.tokens", "one two three");
    let plan = EvalPlan { checkpoint: runs.path("one"), tasks: vec![task(text)], ..plan(16, 1) };
    refused(&plan, "made is nothing for a bert_choice: a bert that was fine-tuned to choose");
    let choice = Architecture::BertChoice(config(32));
    let race = Folder::new(&[(0, 0)], &[(0, 0)]);
    assert!(Task::Race(race.task()).check_model(&choice, &race.0.path("")).is_ok());
}

#[test]
fn folders_and_lines_in_another_form_are_told() {
    let runs = Runs::shared();
    let of = |folder: &Folder| race_plan(&runs.path("one"), &folder.0.path("RACE"));
    let folder = || Folder::new(&[(0, 0)], &[(0, 0)]);
    let no_level = folder();
    std::fs::remove_dir_all(no_level.0.path("RACE/dev/high")).unwrap();
    refused(&of(&no_level), "RACE/dev: no folder high here (there are middle)");
    let no_split = folder();
    std::fs::rename(no_split.0.path("RACE/dev"), no_split.0.path("RACE/test")).unwrap();
    refused(&of(&no_split), "no folder dev here (there are test)");
    let mut three = article(&[(0, 0)]);
    three["options"] = json!([["a", "b", "c"]]);
    let bad = folder();
    bad.write("high", 5, &three);
    refused(&of(&bad), "high/5.txt:1: question 0 has 3 options; it needs 4");
    let mut fifth = article(&[(0, 0)]);
    fifth["answers"] = json!(["E"]);
    let bad = folder();
    bad.write("middle", 5, &fifth);
    refused(&of(&bad), "middle/5.txt:1: the answer to question 0 is \"E\"; A, B, C or D is needed");
}
