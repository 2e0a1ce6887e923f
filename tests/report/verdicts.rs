//! What follows from the numbers.

use proptest::prelude::*;

use super::sample::{reproduction, size};
use super::told::CurvePoint;
use super::told::table3::verdict::{Comparison, Metric, Outcome, Trend, Verdict};
use super::told::table3::{Size, Table3, Table3Report};
use super::told::{thinned, utc};

fn trend(report: &Table3Report, metric: Metric) -> &Trend {
    report.trends.iter().find(|trend| trend.metric == metric).unwrap()
}

/// Three sizes with these validation losses.
fn with_losses(losses: [f64; 3]) -> Table3Report {
    let mut found = reproduction();
    for (size, loss) in found.sizes.iter_mut().zip(losses) {
        size.training.validation_loss = Some(loss);
    }
    Table3Report::of(found)
}

/// Three sizes that have so many of 5,153 examples right.
fn with_right(right: [u64; 3]) -> Table3Report {
    let mut found = reproduction();
    for (size, right) in found.sizes.iter_mut().zip(right) {
        let score = size.lambada.as_mut().unwrap();
        let chance = right as f64 / 5_153.0;
        score.strict_accuracy = chance;
        score.strict_stderr = (chance * (1.0 - chance) / 5_153.0).sqrt();
    }
    Table3Report::of(found)
}

#[test]
fn bigger_is_better_when_it_is_in_every_pair() {
    let report = with_losses([6.0, 5.5, 5.0]);
    let trend = trend(&report, Metric::ValidationLoss);
    assert_eq!((trend.verdict, trend.sizes), (Verdict::Better, 3));
    assert!(trend.worse.is_empty() && trend.equal.is_empty());
}

#[test]
fn bigger_is_not_better_when_one_pair_breaks_it_and_the_pair_is_named() {
    let report = with_losses([6.0, 5.0, 5.5]);
    let trend = trend(&report, Metric::ValidationLoss);
    assert_eq!(trend.verdict, Verdict::NotBetter);
    let [pair] = trend.worse.as_slice() else { panic!("{trend:?}") };
    assert_eq!((pair.smaller.as_str(), pair.bigger.as_str()), ("medium", "large"));
    assert_eq!((pair.smaller_value, pair.bigger_value), (5.0, 5.5));
    assert_eq!(with_losses([5.0, 5.5, 6.0]).trends[0].worse.len(), 3);
}

#[test]
fn equal_values_decide_nothing() {
    let report = with_losses([6.0, 5.0, 5.0]);
    let trend = trend(&report, Metric::ValidationLoss);
    assert_eq!((trend.verdict, trend.equal.len()), (Verdict::Undecided, 1));
}

#[test]
fn accuracies_within_their_error_are_not_different() {
    let report = with_right([0, 1, 2]);
    let accuracy = trend(&report, Metric::StrictAccuracy);
    assert_eq!((accuracy.verdict, accuracy.equal.len()), (Verdict::Undecided, 3));
    // A bigger model that is a little worse is not called worse.
    let report = with_right([3, 2, 1]);
    assert_eq!(trend(&report, Metric::StrictAccuracy).verdict, Verdict::Undecided);
    // By one standard error of the difference, √(2 · 0.05 · 0.95 / 5,153) or 22 examples, nothing
    // is shown; by more than two it is.
    let report = with_right([258, 280, 258]);
    assert_eq!(trend(&report, Metric::StrictAccuracy).verdict, Verdict::Undecided);
    let report = with_right([258, 310, 380]);
    assert_eq!(trend(&report, Metric::StrictAccuracy).verdict, Verdict::Better);
    let report = with_right([258, 380, 310]);
    let accuracy = trend(&report, Metric::StrictAccuracy);
    assert_eq!((accuracy.verdict, accuracy.worse.len()), (Verdict::NotBetter, 1));
}

#[test]
fn one_size_or_sizes_alike_are_too_few() {
    let mut found = reproduction();
    found.sizes.truncate(1);
    let report = Table3Report::of(found);
    assert!(report.trends.iter().all(|it| it.verdict == Verdict::TooFew && it.sizes == 1));
    let mut found = reproduction();
    found.sizes.iter_mut().for_each(|size| size.parameters = 1_000);
    let report = Table3Report::of(found);
    assert!(report.trends.iter().all(|it| it.verdict == Verdict::TooFew && it.sizes == 3));
}

#[test]
fn what_is_no_number_is_no_value() {
    let report = with_losses([6.0, f64::NAN, 5.0]);
    let trend = trend(&report, Metric::ValidationLoss);
    assert_eq!((trend.verdict, trend.sizes), (Verdict::Better, 2));
}

#[test]
fn sizes_are_told_in_the_order_of_their_parameters() {
    let mut found = reproduction();
    found.sizes.reverse();
    let report = Table3Report::of(found);
    let names: Vec<_> = report.found.sizes.iter().map(|size| size.name.as_str()).collect();
    assert_eq!(names, ["small", "medium", "large"]);
    assert_eq!(trend(&report, Metric::WordPerplexity).verdict, Verdict::Better);
}

fn comparison<'r>(report: &'r Table3Report, row: &str, metric: Metric) -> &'r Comparison {
    let is_it = |it: &&Comparison| it.paper_row == row && it.metric == metric;
    report.comparisons.iter().find(is_it).unwrap()
}

/// A model of the paper's smallest size, trained as long as it was, with these scores.
fn at_paper_scale(word_perplexity: f64, strict_accuracy: f64) -> Table3 {
    let mut found = reproduction();
    let mut ours: Size = size("ours", 24, 1_024, 354_871_296, 2);
    ours.paper_row = Some("355M".to_owned());
    ours.training.tokens = 157_286_400_000;
    let score = ours.wikitext103.as_mut().unwrap();
    (score.word_perplexity, score.window, score.overlap) = (word_perplexity, 1_024, 32);
    ours.lambada.as_mut().unwrap().strict_accuracy = strict_accuracy;
    found.sizes = vec![ours];
    found
}

#[test]
fn a_smaller_model_reproduces_nothing_however_good_it_is() {
    let mut found = reproduction();
    found.sizes[0].wikitext103.as_mut().unwrap().word_perplexity = 5.0;
    let report = Table3Report::of(found);
    let comparison = comparison(&report, "355M", Metric::WordPerplexity);
    let Outcome::NotAtThisScale { times_parameters, times_tokens, published_test_set, .. } =
        comparison.outcome
    else {
        panic!("{comparison:?}");
    };
    assert_eq!(times_parameters, Some(354_871_296.0 / 3_300_000.0));
    assert_eq!(times_tokens, Some(19_200.0));
    assert!(published_test_set);
    assert_eq!(comparison.size.as_deref(), Some("small"));
    assert_eq!(comparison.ratio, Some(5.0 / 19.31));
}

#[test]
fn at_the_papers_scale_five_percent_decide() {
    let report = Table3Report::of(at_paper_scale(20.2, 0.43));
    assert_eq!(comparison(&report, "355M", Metric::WordPerplexity).outcome, Outcome::Reproduced);
    assert_eq!(comparison(&report, "355M", Metric::StrictAccuracy).outcome, Outcome::Reproduced);
    let report = Table3Report::of(at_paper_scale(20.4, 0.42));
    let outcome = |metric| comparison(&report, "355M", metric).outcome;
    assert_eq!(outcome(Metric::WordPerplexity), Outcome::NotReproduced);
    assert_eq!(outcome(Metric::StrictAccuracy), Outcome::NotReproduced);
    // The paper's bigger ones stand beside the biggest of ours, and are not reproduced by it.
    let bigger = comparison(&report, "8.3B", Metric::WordPerplexity);
    assert_eq!(bigger.size.as_deref(), Some("ours"));
    assert!(matches!(bigger.outcome, Outcome::NotAtThisScale { times_tokens: None, .. }));
}

#[test]
fn another_test_set_reproduces_nothing() {
    let mut found = at_paper_scale(19.31, 0.4518);
    found.test_sets[0].published = false;
    let report = Table3Report::of(found);
    assert_eq!(
        comparison(&report, "355M", Metric::WordPerplexity).outcome,
        Outcome::NotAtThisScale {
            times_parameters: None,
            times_tokens: None,
            published_test_set: false,
            whole_test_set: true,
            paper_windows: true,
        }
    );
    assert_eq!(comparison(&report, "355M", Metric::StrictAccuracy).outcome, Outcome::Reproduced);
}

#[test]
fn a_bigger_model_that_is_better_reproduces_no_smaller_row() {
    let mut found = at_paper_scale(10.0, 0.7);
    let ours = &mut found.sizes[0];
    (ours.paper_row, ours.parameters) = (Some("8.3B".to_owned()), 8_314_143_744);
    let report = Table3Report::of(found.clone());
    for row in ["355M", "2.5B"] {
        let comparison = comparison(&report, row, Metric::WordPerplexity);
        assert_eq!((comparison.outcome, &comparison.size), (Outcome::NotMeasured, &None), "{row}");
    }
    assert_eq!(comparison(&report, "8.3B", Metric::WordPerplexity).outcome, Outcome::Reproduced);
    // Nor does one that was put beside the row on purpose.
    found.sizes[0].paper_row = Some("355M".to_owned());
    let report = Table3Report::of(found);
    let comparison = comparison(&report, "355M", Metric::StrictAccuracy);
    assert!(matches!(comparison.outcome, Outcome::NotAtThisScale { times_tokens: None, .. }));
    assert!(report.page().contains("ours has 23.4 times the parameters"));
}

#[test]
fn a_part_of_a_test_set_or_other_windows_reproduce_nothing() {
    type Change = fn(&mut Size);
    let changes: [(Change, &str); 3] = [
        (
            |it| it.wikitext103.as_mut().unwrap().partial = true,
            "only a part of the test set was scored",
        ),
        (|it| it.wikitext103.as_mut().unwrap().overlap = 1_024, "windows or their overlap"),
        (|it| it.wikitext103.as_mut().unwrap().window = 512, "windows or their overlap"),
    ];
    for (change, reason) in changes {
        let mut found = at_paper_scale(19.31, 0.4518);
        change(&mut found.sizes[0]);
        let report = Table3Report::of(found);
        let outcome = |metric| comparison(&report, "355M", metric).outcome;
        assert!(
            matches!(outcome(Metric::WordPerplexity), Outcome::NotAtThisScale { .. }),
            "{reason}"
        );
        assert_eq!(outcome(Metric::StrictAccuracy), Outcome::Reproduced, "{reason}");
        assert!(report.page().contains(reason), "{reason}");
    }
}

#[test]
fn a_perplexity_beyond_all_numbers_is_told_and_not_compared() {
    let mut found = reproduction();
    found.sizes[2].lambada.as_mut().unwrap().target_perplexity = f64::INFINITY;
    let report = Table3Report::of(found);
    assert_eq!(trend(&report, Metric::TargetPerplexity).sizes, 2);
    let told = "large: its target perplexity is beyond all numbers";
    assert!(report.cautions.iter().any(|it| it.contains(told)), "{:?}", report.cautions);
    assert!(!report.csv().contains("inf"));
    // As is one that is a number, and more than that of a model that knows nothing.
    let mut found = reproduction();
    found.sizes[0].lambada.as_mut().unwrap().target_perplexity = 7_023_588.0;
    let cautions = Table3Report::of(found).cautions;
    let told = "small: a target perplexity of 7,023,588 is worse than the 929,848";
    assert!(cautions.iter().any(|it| it.contains(told)), "{cautions:?}");
    assert!(Table3Report::of(reproduction()).cautions.is_empty());
    // JSON has no infinity, and gives it back all the same.
    let again: Table3Report =
        serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(again, report);
}

#[test]
fn without_a_score_nothing_is_compared() {
    let mut found = reproduction();
    found.sizes.iter_mut().for_each(|size| size.lambada = None);
    let report = Table3Report::of(found);
    let outcome = comparison(&report, "2.5B", Metric::StrictAccuracy).outcome;
    assert_eq!(outcome, Outcome::NotMeasured);
}

#[test]
fn dates_are_utc() {
    let date = |seconds| utc(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds));
    assert_eq!(date(0), "1970-01-01T00:00:00Z");
    assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
    assert_eq!(date(1_709_251_199), "2024-02-29T23:59:59Z");
    assert_eq!(date(4_107_542_400), "2100-03-01T00:00:00Z");
}

proptest! {
    /// A thinned curve has the points that were asked for, in order, and the mean stays near.
    #[test]
    fn a_thinned_curve_is_made_of_means(
        losses in prop::collection::vec(0.0..12.0_f64, 1..900),
        most in 1_usize..500,
    ) {
        let points: Vec<_> = losses
            .iter()
            .zip(1_u64..)
            .map(|(&loss, step)| CurvePoint { tokens: step * 100, loss })
            .collect();
        let thin = thinned(points.iter().copied(), most);
        prop_assert_eq!(thin.len(), most.min(points.len()));
        prop_assert!(thin.is_sorted_by(|one, other| one.tokens < other.tokens));
        if most >= points.len() {
            prop_assert_eq!(&thin, &points);
        }
        let range = |points: &[CurvePoint]| {
            let losses = || points.iter().map(|it| it.loss);
            (losses().fold(f64::MAX, f64::min), losses().fold(f64::MIN, f64::max))
        };
        let ((low, high), (least, most)) = (range(&thin), range(&points));
        prop_assert!(low >= least - 1e-9 && high <= most + 1e-9);
    }
}

#[test]
fn a_curve_leaves_out_what_is_no_number() {
    let point = |tokens, loss| CurvePoint { tokens, loss };
    let curve = [point(1, 3.0), point(2, f64::NAN), point(3, f64::INFINITY), point(4, 1.0)];
    assert_eq!(thinned(curve, 400), [point(1, 3.0), point(4, 1.0)]);
    assert_eq!(thinned(curve, 1), [point(2, 2.0)]);
    assert_eq!(thinned([point(1, f64::NAN)], 400), []);
}
