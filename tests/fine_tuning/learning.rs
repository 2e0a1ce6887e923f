//! What a run learns, and what it says of that.

use std::fs;

use serde_json::Value;
use training::fine_tuning::FineTuneConfig;

use super::{BENCH, FINE_TUNING, MODEL, QUESTIONS, config, run, runs};
use crate::support::{lines_of, pipeline_in};
use crate::training::logged;

#[test]
fn right_answers_are_learned_and_told_beside_the_loss() {
    let (_folder, [out]) = runs(["run"]);
    let report = run(
        &out,
        config(|config| {
            let FineTuneConfig::Race(race) = config.finetune.as_mut().unwrap();
            race.epochs = Some(6.0);
            config.optimizer.lr = 5e-3;
            config.validation.as_mut().unwrap().interval_steps = 36.try_into().unwrap();
        }),
    );
    assert_eq!(report.steps, 6 * 96 / 8);
    let losses = logged(&out, "loss");
    assert!((1.1..1.7).contains(&losses[0]), "about ln 4: {}", losses[0]);
    assert!(report.final_loss.unwrap() < 0.5, "{losses:?}");
    let accuracy = report.validation_accuracy.unwrap();
    assert!(accuracy > 0.8, "{accuracy}");

    let names = ["validation_loss", "validation_accuracy", "validation_accuracy_stderr"];
    let [loss, accuracies, errors] = names.map(|name| logged(&out, name));
    assert_eq!((loss.len(), accuracies.len()), (2, 2));
    assert_eq!(accuracies[1], accuracy);
    assert!(loss[1] < loss[0]);
    let count = QUESTIONS[1] as f64;
    for (accuracy, error) in accuracies.iter().zip(errors) {
        assert_eq!((accuracy * count).round(), accuracy * count, "of {count} questions");
        assert!((error - (accuracy * (1.0 - accuracy) / count).sqrt()).abs() < 1e-12);
    }
    let lines = lines_of(&fs::read_to_string(out.join("metrics.jsonl")).unwrap());
    let targets: Vec<&Value> = lines.iter().map(|line| &line["targets"]).collect();
    assert!(targets.contains(&&Value::from(QUESTIONS[1])), "{targets:?}");
    // Every token of the four rows of a question counts.
    assert_eq!(report.tokens, report.steps * 8 * 4 * 24);
}

#[test]
fn program_tells_what_is_fresh_and_that_a_model_only_guesses() {
    let (_folder, [out]) = runs(["run"]);
    let toml = BENCH.write("guess.toml", format!("{MODEL}{FINE_TUNING}"));
    let line = format!(
        "train --config {} --data RACE --out {} --init-from bert --set optimizer.lr=1e-30",
        toml.display(),
        out.display()
    );
    let told = pipeline_in(&BENCH, &line).success();
    for part in [
        "drawn anew by the seed 7: classifier.weight, classifier.bias; left out: \
         cls.predictions.transform.dense.weight",
        "cls.seq_relationship.bias",
    ] {
        assert!(told.stderr.contains(part), "{}", told.stderr);
    }
    assert!(told.stdout.contains("validation accuracy"), "{}", told.stdout);
    let warning = "not better than chance (25%) after 6 steps: ";
    assert!(told.stderr.contains(warning), "{}", told.stderr);
    assert!(told.stderr.contains("% of 48 questions"), "{}", told.stderr);
    // The finished run says so again, with the same number.
    let again = pipeline_in(&BENCH, &line).success();
    let warned = |text: &str| text.lines().find(|line| line.contains(warning)).map(str::to_owned);
    let after = |text: Option<String>| {
        text.and_then(|line| Some(line.split_once("not better")?.1.to_owned()))
    };
    assert_eq!(after(warned(&again.stderr)), after(warned(&told.stderr)));

    // Without a validation nothing is known.
    let silent = format!("{MODEL}{FINE_TUNING}").replace("[validation]\ninterval_steps = 3\n", "");
    BENCH.write("silent.toml", silent);
    let line = format!(
        "train --config silent.toml --data RACE --out {}-silent --init-from bert --set \
         optimizer.lr=1e-30",
        out.display()
    );
    let told = pipeline_in(&BENCH, &line).success();
    assert!(!told.stderr.contains("chance") && !told.stdout.contains("accuracy"));
}
