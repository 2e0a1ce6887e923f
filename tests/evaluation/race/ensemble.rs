//! The vote of several models, of answers that are made by hand and of those in files.

use std::fs;
use std::path::Path;

use corpus::race::RaceLevel;
use evaluation::race::{Ensemble, Prediction, Predictions};
use evaluation::{Accuracy, EvalError, Items};

use super::{Chooser, Folder, items, layout};
use crate::evaluation::assert_close;

/// A model's answers to three questions, of which C, A and B are right.
fn model(name: &str, probabilities: [[f64; 4]; 3]) -> Predictions {
    let about = [("dev/middle/1.txt#0", 2), ("dev/high/2.txt#0", 0), ("dev/high/2.txt#1", 1)];
    let questions = about.into_iter().zip(probabilities).map(|((id, answer), probabilities)| {
        let level = if id.contains("middle") { RaceLevel::Middle } else { RaceLevel::High };
        Prediction { id: id.to_owned(), level, answer, probabilities }
    });
    Predictions { model: name.to_owned(), questions: questions.collect() }
}

#[test]
fn mean_of_the_probabilities_decides_and_of_equal_ones_the_first() {
    // Each of the two is right once by itself; together they are sure of the first question, and of
    // the last A and B have the same share.
    let one = model("one", [[0.4, 0.0, 0.35, 0.25], [0.5, 0.5, 0.0, 0.0], [0.75, 0.25, 0.0, 0.0]]);
    let two =
        model("two", [[0.0, 0.45, 0.35, 0.2], [0.0, 0.9, 0.05, 0.05], [0.25, 0.75, 0.0, 0.0]]);
    let ensemble = Ensemble::of(&[one.clone(), two.clone()]).unwrap();
    let choices: Vec<usize> =
        ensemble.predictions.questions.iter().map(Prediction::choice).collect();
    assert_eq!(choices, [2, 1, 0]);
    assert_close(ensemble.predictions.questions[0].probabilities[1], 0.225, 1e-12);
    assert_eq!(ensemble.accuracy().all(), Accuracy { right: 1, items: 3 });
    assert_eq!(ensemble.accuracy().middle, Accuracy { right: 1, items: 1 });
    let alone: Vec<u64> = ensemble.members.iter().map(|it| it.accuracy.all().right).collect();
    assert_eq!(alone, [1, 1]);
    // The order of a member's questions is of no account: they go by their names.
    let mut shuffled = two;
    shuffled.questions.reverse();
    assert_eq!(Ensemble::of(&[one, shuffled]).unwrap().predictions, ensemble.predictions);
}

#[test]
fn the_member_in_the_middle_is_told() {
    let sure = |option: usize| std::array::from_fn(|at| if at == option { 1.0 } else { 0.0 });
    // So many are right.
    let of = |name: &str, right: usize| {
        let answers = [2, 0, 1];
        let chosen = |at: usize| sure(if at < right { answers[at] } else { 3 });
        model(name, [chosen(0), chosen(1), chosen(2)])
    };
    let median = |members: &[(&str, usize)]| {
        let members: Vec<_> = members.iter().map(|&(name, right)| of(name, right)).collect();
        Ensemble::of(&members).unwrap().median().model.clone()
    };
    assert_eq!(median(&[("a", 3), ("b", 0), ("c", 1), ("d", 2), ("e", 3)]), "d");
    assert_eq!(median(&[("a", 3), ("b", 1), ("c", 2), ("d", 0)]), "b", "the lower of two");
    assert_eq!(median(&[("a", 2), ("b", 2), ("c", 2)]), "a", "of equal ones the first");
    assert_eq!(median(&[("a", 1)]), "a");
}

#[test]
fn models_that_were_not_asked_the_same_cannot_vote() {
    let one = || model("one", [[0.25; 4]; 3]);
    let refused = |members: &[Predictions], told: &str| {
        let error = Ensemble::of(members).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    };
    let mut lacks = one();
    lacks.model = "lacks".to_owned();
    lacks.questions.pop();
    refused(
        &[one(), lacks.clone()],
        "lacks: question dev/high/2.txt#1 is there in one and not here; have all models answer",
    );
    refused(&[lacks, one()], "one: question dev/high/2.txt#1 is not there in lacks");
    let mut other = one();
    other.questions[1].answer = 3;
    refused(&[one(), other], "the answer to question dev/high/2.txt#0 is A in one and D here");
    let mut twice = one();
    twice.questions.push(twice.questions[0].clone());
    refused(&[one(), twice], "question dev/middle/1.txt#0 is there twice");
    refused(&[], "no answer of a model is given");
}

#[test]
fn answers_in_a_file_vote_as_those_at_hand() {
    let folder = Folder::new(&[(0, 0), (1, 2)], &[(3, 3)]);
    let result = folder.answered(Chooser, 32, &layout(2, 1, 1));
    let at_hand = Predictions::of_items(items(&result));
    assert_eq!(at_hand.accuracy().all(), Accuracy { right: 2, items: 3 });
    let mut others = items(&result).to_vec();
    others.iter_mut().for_each(|item| item.model = "other".to_owned());
    let path = folder.0.path("items.jsonl");
    let mut file = Vec::new();
    result.items.as_ref().unwrap().write_jsonl(&mut file).unwrap();
    Items::Choices(others.clone()).write_jsonl(&mut file).unwrap();
    // The vote of an earlier evaluation is no model.
    others.iter_mut().for_each(|item| item.model = "ensemble".to_owned());
    Items::Choices(others).write_jsonl(&mut file).unwrap();
    fs::write(&path, &file).unwrap();
    let read = Predictions::read(&path).unwrap();
    assert_eq!(read.iter().map(|it| &*it.model).collect::<Vec<_>>(), ["made in a test", "other"]);
    assert_eq!(read[0], at_hand, "to the last bit");

    let refused = |line: &str, told: &str| {
        fs::write(&path, [&file, line.as_bytes()].concat()).unwrap();
        let error = Predictions::read(&path).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    };
    refused("{\"index\": 1}\n", "items.jsonl:10: missing field `model`");
    refused("nothing\n", "items.jsonl:10: ");
    let good = String::from_utf8(file.clone()).unwrap();
    let good = good.lines().next().unwrap().to_owned();
    refused(&good.replace("\"middle\"", "\"low\""), "the level \"low\" is neither middle nor high");
    refused(
        &good.replace("\"answer\":\"A\"", "\"answer\":\"E\""),
        "the answer is 'E'; A, B, C or D",
    );
    fs::write(&path, "").unwrap();
    assert!(matches!(Predictions::read(&path), Err(EvalError::Empty { .. })));
    assert!(matches!(Predictions::read(Path::new("nowhere")), Err(EvalError::Read { .. })));
}
