//! Choices that are known beforehand, and what is counted of them.

use std::collections::HashSet;
use std::path::Path;

use corpus::Silent;
use evaluation::race::LevelAccuracy;
use evaluation::{Accuracy, EvalError, EvalPlan, EvaluatedModel, Items, Task};
use serde_json::{Value, json};
use training::architecture::Architecture;
use training::inference::ChoiceScorer;
use training::model::{KeyedInit, ParameterSource};

use super::{Chooser, Folder, Zeros, article, config, items, layout, measured, positive};
use crate::evaluation::assert_close;

/// Seven questions of middle school, of which the chooser gets five; six of high school, of which it
/// gets two.
const MIDDLE: [(usize, usize); 7] = [(0, 0), (1, 1), (2, 2), (3, 3), (0, 0), (1, 2), (3, 0)];
const HIGH: [(usize, usize); 6] = [(2, 2), (3, 3), (0, 1), (1, 0), (2, 3), (3, 2)];

#[test]
fn model_of_known_choices_is_told_by_level_and_by_question() {
    let folder = Folder::new(&MIDDLE, &HIGH);
    for (tp, dp) in [(1, 1), (2, 1), (1, 3)] {
        let result = folder.answered(Chooser, 32, &layout(4, tp, dp));
        let found = measured(&result);
        assert_eq!(found.protocol, "megatron");
        assert_eq!(found.metrics.accuracy, 7.0 / 13.0);
        assert_eq!(found.metrics.middle_accuracy, Some(5.0 / 7.0));
        assert_eq!(found.metrics.high_accuracy, Some(2.0 / 6.0));
        let error = |share: f64, items: f64| (share * (1.0 - share) / items).sqrt();
        assert_close(found.metrics.stderr, error(7.0 / 13.0, 13.0), 1e-12);
        assert_close(found.metrics.middle_stderr.unwrap(), error(5.0 / 7.0, 7.0), 1e-12);
        assert_close(found.metrics.high_stderr.unwrap(), error(2.0 / 6.0, 6.0), 1e-12);
        assert_eq!((found.counts.questions, found.counts.questions_in_split), (13, 13));
        assert_eq!((found.counts.middle, found.counts.high), (7, 6));
        assert_eq!((found.counts.middle_articles, found.counts.high_articles), (4, 3));
        assert!(!result.partial && !found.settings.published_split);

        let items = items(&result);
        let ids: HashSet<&str> = items.iter().map(|item| item.id.as_str()).collect();
        assert_eq!((items.len(), ids.len()), (13, 13));
        assert_eq!(items[3].id, "dev/middle/middle1.txt#1");
        assert_eq!(items[12].id, "dev/high/high2.txt#1");
        for (item, (good, right)) in items.iter().zip(MIDDLE.iter().chain(&HIGH)) {
            let letters = [good, right].map(|&option| ['A', 'B', 'C', 'D'][option]);
            assert_eq!([item.predicted, item.answer], letters, "{}", item.id);
            assert_eq!(item.correct, good == right);
            assert_close(item.probabilities.iter().sum(), 1.0, 1e-12);
            let logits = item.logits.unwrap();
            assert!((0..4).all(|option| option == *good || logits[option] < logits[*good]));
            assert_close(item.nll, -item.probabilities[*right].ln(), 1e-12);
        }
    }
}

#[test]
fn numbers_have_the_names_that_tools_read() {
    let result = Folder::new(&MIDDLE, &HIGH).answered(Chooser, 32, &layout(4, 1, 1));
    let json = serde_json::to_value(&result).unwrap();
    for name in ["accuracy", "middle_accuracy", "high_accuracy", "stderr", "chance", "loss"] {
        assert!(json["metrics"][name].is_number(), "{name}: {json}");
    }
    for name in ["questions", "middle", "high", "middle_questions_article_cut", "questions_cut"] {
        assert!(json["counts"][name].is_u64(), "{name}: {json}");
    }
    assert_eq!((&json["task"], &json["settings"]["split"]), (&json!("made"), &json!("dev")));
    assert_eq!(json["settings"]["window"], 32);
    let mut lines = Vec::new();
    result.items.as_ref().map(|items: &Items| items.write_jsonl(&mut lines).unwrap()).unwrap();
    let text = String::from_utf8(lines).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["id"], "dev/middle/middle0.txt#0");
    assert_eq!((&first["level"], &first["predicted"]), (&json!("middle"), &json!("A")));
    assert_eq!((&first["answer"], &first["correct"]), (&json!("A"), &json!(true)));
    assert_eq!(first["logits"].as_array().unwrap().len(), 4);
    assert!(first["probabilities"][0].as_f64() > first["probabilities"][1].as_f64());
}

/// Thirteen questions leave a remainder in every layout: one that drops or repeats some shows.
#[test]
fn every_question_is_asked_once_in_every_layout_with_the_same_answers() {
    let folder = Folder::new(&MIDDLE, &HIGH);
    // Articles of several lengths, so that batches are padded differently.
    for (number, words) in [3, 17, 9].into_iter().enumerate() {
        let mut longer = article(&MIDDLE[2 * number..2 * number + 2]);
        longer["article"] = json!("sun b c d ".repeat(words));
        folder.write("middle", number, &longer);
    }
    let source = KeyedInit { seed: 5 };
    let expected = folder.answered(source, 32, &layout(1, 1, 1));
    for (micro_batch_size, tp, dp) in [(1, 2, 1), (3, 1, 1), (4, 1, 2), (5, 2, 3), (100, 1, 1)] {
        let found = folder.answered(source, 32, &layout(micro_batch_size, tp, dp));
        assert_eq!(measured(&found).counts, measured(&expected).counts);
        assert_close(measured(&found).metrics.loss, measured(&expected).metrics.loss, 1e-6);
        assert_eq!(measured(&found).metrics.accuracy, measured(&expected).metrics.accuracy);
        for (found, expected) in items(&found).iter().zip(items(&expected)) {
            let pairs = found.logits.unwrap().into_iter().zip(expected.logits.unwrap());
            assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-5), "{}", found.id);
            assert_eq!(found.id, expected.id);
        }
    }
}

#[test]
fn all_options_alike_give_the_first() {
    let result = Folder::new(&MIDDLE, &HIGH).answered(Zeros, 32, &layout(4, 1, 1));
    assert!(items(&result).iter().all(|item| item.predicted == 'A'));
    assert_close(measured(&result).metrics.loss, 4.0_f64.ln(), 1e-12);
}

#[test]
fn what_finds_no_room_is_counted_and_every_blank_is_filled() {
    let folder = Folder::new(&MIDDLE[..2], &HIGH[..2]);
    let mut long = article(&[(2, 2), (1, 1)]);
    long["article"] = json!("sun ".repeat(60));
    long["questions"] = json!(["what _ is _ there ?", "a ".repeat(40)]);
    folder.write("high", 9, &long);
    let result = folder.answered(Chooser, 24, &layout(4, 1, 1));
    let counts = measured(&result).counts;
    assert_eq!((counts.middle_questions_article_cut, counts.high_questions_article_cut), (0, 2));
    // In a window of 24 tokens a question has at most 20 of them.
    assert_eq!((counts.questions_cut, measured(&result).settings.max_question_tokens), (1, 20));
    // Two blanks hold the word twice, and the chooser sees it; of the other the options are cut off.
    assert_eq!(items(&result)[4].predicted, 'C');
    assert_eq!(items(&result)[5].predicted, 'A');
    assert_eq!(counts.questions, 6);
}

#[test]
fn a_limit_takes_the_first_questions_and_tells_no_accuracy_of_none() {
    let folder = Folder::new(&MIDDLE, &HIGH);
    let plan = EvalPlan { limit: Some(positive(3)), ..layout(2, 1, 1) };
    let result = folder.answered(Chooser, 32, &plan);
    assert!(result.partial);
    let found = measured(&result);
    assert_eq!((found.counts.questions, found.counts.questions_in_split), (3, 13));
    assert_eq!((found.counts.middle, found.counts.high, found.counts.middle_articles), (3, 0, 2));
    assert_eq!((found.metrics.middle_accuracy, found.metrics.high_accuracy), (Some(1.0), None));
    let summary = folder.task().summary(&folder.identity(32), &plan).unwrap();
    assert_eq!((summary.examples, summary.forward_passes, summary.partial), (Some(3), 2, true));
}

#[test]
fn two_standard_errors_of_a_guess_are_not_better_than_chance() {
    let of = |right: u64| {
        let half = |right| Accuracy { right, items: 50 };
        LevelAccuracy { middle: half(right / 2), high: half(right - right / 2) }
    };
    // Of 100 questions a guess gets 25, give or take 4.33.
    assert!(!of(25).is_better_than_chance() && !of(33).is_better_than_chance());
    assert!(of(34).is_better_than_chance());
    assert_eq!(of(34).all(), Accuracy { right: 34, items: 100 });
}

#[test]
fn logits_that_are_no_numbers_are_an_error_with_their_question() {
    /// A classifier whose bias is no number.
    struct Broken;
    impl ParameterSource for Broken {
        fn local(
            &self,
            spec: &training::model::ParameterSpec,
            rank: usize,
            size: usize,
        ) -> Result<Vec<f32>, training::TrainError> {
            match spec.name.as_str() {
                "classifier.bias" => Ok(vec![f32::NAN]),
                _ => Chooser.local(spec, rank, size),
            }
        }
    }
    let folder = Folder::new(&MIDDLE, &HIGH);
    let scorer = ChoiceScorer::new(&config(32), Broken, positive(1)).unwrap();
    let mut model = EvaluatedModel::new(folder.identity(32), scorer);
    let error = Task::Race(folder.task()).run(&mut model, &layout(4, 1, 1), &Silent).unwrap_err();
    let told = "NaN for option A of question dev/middle/middle0.txt#0 of made";
    assert!(error.to_string().contains(told), "{error}");
}

/// Each question is four rows of the model's length.
#[test]
fn memory_of_a_batch_is_that_of_all_answers() {
    let folder = Folder::new(&MIDDLE, &HIGH);
    let model = Architecture::BertChoice(config(512));
    let of_copy = |tasks: Vec<Task>| {
        let plan = EvalPlan { tasks, ..layout(100, 1, 1) };
        let error = plan.check_memory(&model, Some(1)).unwrap_err();
        let EvalError::Memory { of_copy, .. } = error else { panic!("{error}") };
        of_copy - 4 * model.num_parameters(1) as u64
    };
    let windows = of_copy(layout(1, 1, 1).tasks);
    assert_eq!(of_copy(vec![Task::Race(folder.task())]), 4 * windows);
}

/// Real articles, where they are, under BERT's own tokenizer.
#[test]
fn real_questions_are_read_and_asked() {
    let race = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/race/sample");
    if !race.is_dir() {
        eprintln!("skipped: no {}", race.display());
        return;
    }
    let task = evaluation::race::Race {
        name: evaluation::race::NAME.to_owned(),
        data: race,
        split: corpus::race::RaceSplit::Dev,
    };
    let sizes = training::model::BertConfig { vocab_size: 30_522, ..config(512) };
    let mut identity = Folder::new(&MIDDLE, &HIGH).identity(512);
    identity.architecture = Architecture::BertChoice(sizes.clone());
    identity.tokenizer = corpus::tokenizer::open("bert").unwrap();
    let scorer = ChoiceScorer::new(&sizes, KeyedInit { seed: 3 }, positive(1)).unwrap();
    let mut model = EvaluatedModel::new(identity, scorer);
    let result = Task::Race(task).run(&mut model, &layout(8, 1, 1), &Silent).unwrap();
    let counts = measured(&result).counts;
    assert_eq!((counts.middle_articles, counts.high_articles), (4, 4));
    assert_eq!(counts.questions, counts.middle + counts.high);
    assert_eq!(counts.questions, items(&result).len());
    assert!(counts.questions >= 16, "{counts:?}");
    let ids: std::collections::HashSet<_> = items(&result).iter().map(|item| &item.id).collect();
    assert_eq!(ids.len(), counts.questions);
}
