//! What is told of RACE: who beats chance, table, page and CSV.

use super::markup::{self, check_coordinates, text_of};
use super::sample::ground;
use super::told::race::{
    Accuracies, Accuracy, FineTuned, Race, RaceModel, RaceReport, paper_models,
};
use super::told::{ModelShape, PartState};

fn accuracy(right: u64, questions: u64) -> Accuracy {
    let share = right as f64 / questions as f64;
    Accuracy {
        accuracy: share,
        stderr: (share * (1.0 - share) / questions as f64).sqrt(),
        questions,
    }
}

/// Of 100 questions, 40 of middle and 60 of high school, of which `right` are right.
fn accuracies([middle, high]: [u64; 2]) -> Accuracies {
    Accuracies {
        overall: accuracy(middle + high, 100),
        middle: Some(accuracy(middle, 40)),
        high: Some(accuracy(high, 60)),
    }
}

fn seed(seed: u64, dev: [u64; 2], test: [u64; 2]) -> FineTuned {
    FineTuned {
        seed,
        steps: 30,
        final_loss: Some(1.375),
        dev: accuracies(dev),
        test: accuracies(test),
        seconds: 61.0,
        scoring_seconds: 9.0,
    }
}

fn model(name: &str, parameters: u64) -> RaceModel {
    RaceModel {
        name: name.to_owned(),
        model: ModelShape {
            num_layers: 4,
            hidden_size: 128,
            num_attention_heads: 4,
            seq_length: 512,
            vocab_size: 30_522,
            padded_vocab_size: 30_592,
        },
        parameters,
        pretraining_tokens: 1_024_000,
        pretraining_validation_loss: Some(6.125),
        pretraining_seconds: 300.0,
        seeds: vec![
            seed(1, [10, 15], [10, 14]),
            seed(2, [12, 20], [13, 20]),
            seed(3, [15, 20], [16, 24]),
        ],
        median_seed: 2,
        ensemble_dev: accuracies([14, 20]),
        ensemble_test: accuracies([14, 21]),
    }
}

fn found(models: Vec<RaceModel>) -> Race {
    Race {
        ground: ground(),
        data: "RACE".to_owned(),
        questions: [87_866, 100, 100],
        test_questions_article_cut: 12,
        chance: 0.25,
        models,
        paper: paper_models(),
    }
}

fn cells(report: &RaceReport) -> String {
    report.table(|rows| rows.iter().map(|row| format!("{}\n", row.join(" | "))).collect())
}

#[test]
fn better_than_chance_is_what_lies_two_standard_errors_of_guessing_above_it() {
    // Of 100 questions a guess is right in 25 ± 4.33.
    for (right, beats) in [(25, false), (33, false), (34, true)] {
        assert_eq!(accuracy(right, 100).beats_chance(), beats, "{right}");
    }
    assert!(!accuracy(16, 32).beats_chance() || 0.25 > 2.0 * (0.1875_f64 / 32.0).sqrt());
    assert!(!accuracy(0, 32).beats_chance());
    let report = RaceReport::of(found(vec![model("tiny", 5_000_000)]));
    let verdict = &report.verdicts[0];
    assert_eq!((verdict.median_beats_chance, verdict.ensemble_beats_chance), (false, true));
    let told = "33.00% of 100 test questions right by the median of 3 seeds, 35.00% by their ensemble; \
                the ensemble better than, the median NOT better than the 25% of chance.";
    assert!(cells(&report).contains(told), "{}", cells(&report));
    assert!(text_of(&markup::read(&report.page())).contains(told));
}

#[test]
fn few_questions_are_said_to_tell_little() {
    let mut few = found(vec![model("tiny", 5_000_000)]);
    few.questions = [60, 100, 100];
    let report = RaceReport::of(few);
    assert!(report.cautions.iter().any(|it| it.starts_with("60 questions to learn from")));
    assert!(report.cautions.iter().any(|it| it.contains("right in 25% ± 4.3")), "{report:?}");
    assert!(report.cautions.iter().any(|it| it.starts_with("Of 12 of 100 test questions the end")));
    let questions = [87_866, 4_887, 4_934];
    let many = Race { questions, test_questions_article_cut: 0, ..found(Vec::new()) };
    assert!(RaceReport::of(many).cautions.is_empty());
}

#[test]
fn what_was_not_scored_makes_it_partial() {
    let whole = RaceReport::of(found(vec![model("tiny", 5_000_000)]));
    assert!(!whole.partial);
    let mut missing = found(vec![model("tiny", 5_000_000)]);
    missing.ground.parts[3].state = PartState::Missing;
    assert!(cells(&RaceReport::of(missing)).contains("PARTIAL; not done: train medium"));
    let mut limited = found(vec![model("tiny", 5_000_000)]);
    limited.questions = [87_866, 100, 101];
    assert!(RaceReport::of(limited).page().contains("PARTIAL; a limit left questions unscored"));
}

#[test]
fn the_page_is_well_formed_with_one_model_two_or_none() {
    let odd = RaceModel { name: "<a> & b".to_owned(), ..model("", 1) };
    let mut limited = model("half", 2);
    limited.seeds[0].test.high = None;
    limited.ensemble_test.middle = None;
    for models in [vec![model("tiny", 5_000_000)], vec![odd, model("b", 9)], vec![limited], vec![]]
    {
        let charts = usize::from(!models.is_empty()) + 1;
        let page = RaceReport::of(found(models)).page();
        let pieces = markup::read(&page);
        assert_eq!(check_coordinates(&pieces), charts);
        assert!(text_of(&pieces).contains("paper: 3.9B, ensemble of 5"));
    }
}

#[test]
fn the_csv_has_seeds_ensembles_and_the_paper() {
    let report = RaceReport::of(found(vec![model("big", 9), model("small", 5)]));
    let csv = report.csv();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    // The name of a row of the paper's has a comma, and stands in quotes.
    let ours: Vec<_> = rows.iter().filter(|row| row[0] == "ours" || row[0] == "ensemble").collect();
    let names: Vec<_> = ours.iter().map(|row| (row[0], row[1], row[2])).collect();
    let of = |name| {
        [("ours", name, "1"), ("ours", name, "2"), ("ours", name, "3"), ("ensemble", name, "")]
    };
    assert_eq!(names, [of("small"), of("big")].concat(), "by parameters");
    assert!(ours.iter().all(|row| row.len() == rows[0].len()), "{csv}");
    let column = |name| rows[0].iter().position(|it| *it == name).unwrap();
    assert_eq!(ours[1][column("is_median_of_dev")], "true");
    assert_eq!(ours[1][column("test_accuracy")], "0.33");
    assert_eq!(ours[1][column("test_accuracy_middle")], (13.0 / 40.0).to_string());
    assert!(csv.contains("paper,336M,"), "{csv}");
    assert!(csv.contains("\"3.9B, ensemble of 5\""), "{csv}");
}
