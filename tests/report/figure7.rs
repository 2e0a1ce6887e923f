//! What is told of Figure 7: statements by rule, table, page and CSV.

use super::markup::{self, check_coordinates, elements, text_of};
use super::sample::ground;
use super::told::figure7::verdict::Claim;
use super::told::figure7::{Arrangement, Figure7, Figure7Report, GradNormPoint, Run, peaks};
use super::told::{CurvePoint, ModelShape, PartState, Training};

fn run(arrangement: Arrangement, num_layers: usize, loss: f64) -> Run {
    let points = || (1..=40).map(|step| (step * 1_024, loss + 40.0 / (4 + step) as f64));
    Run {
        name: format!("{}-{num_layers}", arrangement.name()),
        arrangement,
        model: ModelShape {
            num_layers,
            hidden_size: 128,
            num_attention_heads: 4,
            seq_length: 128,
            vocab_size: 30_522,
            padded_vocab_size: 30_592,
        },
        parameters: 4_000_000 + 200_000 * num_layers as u64,
        parameters_without_padding: 3_990_000 + 200_000 * num_layers as u64,
        training: Training {
            tokens: 40_960,
            epochs: Some(0.5),
            steps: 40,
            global_batch_size: 8,
            lr: 1e-3,
            tensor_parallel_size: 1,
            data_parallel_size: 1,
            final_loss: Some(loss + 0.9),
            validation_loss: Some(loss),
            loss_curve: points().map(|(tokens, loss)| CurvePoint { tokens, loss }).collect(),
            validation_curve: vec![CurvePoint { tokens: 40_960, loss }],
            seconds: 12.5,
        },
        grad_norm_curve: points()
            .map(|(tokens, grad_norm)| GradNormPoint { tokens, grad_norm })
            .collect(),
        validation_targets: Some(100_000),
        largest_grad_norm: Some(2.25),
        diverged_at: None,
        peak_rss_bytes: Some(300_000_000),
    }
}

/// The paper's outcome: post-norm gains nothing from depth, pre-norm does.
fn runs() -> Vec<Run> {
    vec![
        run(Arrangement::PreNorm, 16, 4.5),
        run(Arrangement::PostNorm, 16, 5.1),
        run(Arrangement::PostNorm, 4, 5.0),
        run(Arrangement::PreNorm, 4, 4.9),
    ]
}

fn report(runs: Vec<Run>) -> Figure7Report {
    Figure7Report::of(Figure7 { ground: ground(), runs })
}

fn diverged(arrangement: Arrangement, num_layers: usize) -> Run {
    let mut run = run(arrangement, num_layers, 5.0);
    run.diverged_at = Some(17);
    (run.training.final_loss, run.training.validation_loss) = (None, None);
    run
}

fn holds(report: &Figure7Report) -> Vec<Option<bool>> {
    report.statements.iter().map(|statement| statement.holds).collect()
}

#[test]
fn the_papers_outcome_holds_and_its_opposite_does_not() {
    let found = report(runs());
    assert_eq!(holds(&found), [Some(true); 3]);
    let claims: Vec<_> = found.statements.iter().map(|statement| statement.claim).collect();
    assert_eq!(
        claims,
        [Claim::DeeperIsBetterPreNorm, Claim::PreNormIsBetterWhenDeep, Claim::PostNormGainsLess]
    );
    // The runs that tell, the one that is to be better first.
    let names = |place: usize| {
        let runs = found.statements[place].runs.as_ref().unwrap();
        runs.each_ref().map(|it| it.run.as_str())
    };
    assert_eq!(names(0), ["pre-norm-16", "pre-norm-4"]);
    assert_eq!(names(1), ["pre-norm-16", "post-norm-16"]);

    let mut opposite = runs();
    for run in &mut opposite {
        run.arrangement = match run.arrangement {
            Arrangement::PreNorm => Arrangement::PostNorm,
            Arrangement::PostNorm => Arrangement::PreNorm,
        };
    }
    let found = report(opposite);
    assert_eq!(holds(&found), [Some(false); 3]);
    assert!(found.table(|_| String::new()).contains("0 hold at this size, 3 do NOT"));
}

#[test]
fn losses_that_are_equal_or_too_close_tell_nothing() {
    let mut equal = runs();
    equal.iter_mut().for_each(|run| run.training.validation_loss = Some(5.0));
    assert_eq!(holds(&report(equal)), [None; 3]);
    // 4.5 and 4.9 after 200 masked tokens, 4.5 / sqrt(200) = 0.32 each way, are 0.9 errors apart.
    let mut few = runs();
    few.iter_mut().for_each(|run| run.validation_targets = Some(200));
    let found = report(few);
    assert_eq!(holds(&found), [None; 3]);
    assert!(found.page().contains("pre-norm-16 4.500, pre-norm-4 4.900, too close to tell"));
    // After 3,000 they are 3.3 apart, and 4.5 and 5.1 are 4.8; the gains 0.4 and -0.1 only 2.8.
    let mut more = runs();
    more.iter_mut().for_each(|run| run.validation_targets = Some(3_000));
    assert_eq!(holds(&report(more)), [Some(true); 3]);
    let mut unknown = runs();
    unknown.iter_mut().for_each(|run| run.validation_targets = None);
    assert_eq!(holds(&report(unknown)), [None; 3]);
}

#[test]
fn a_run_that_diverged_is_worse_than_any_that_did_not() {
    let mut found = runs();
    found[1] = diverged(Arrangement::PostNorm, 16);
    let found = report(found);
    assert_eq!(holds(&found), [Some(true); 3]);
    let page = found.page();
    assert!(page.contains("diverged in step 17"), "{page}");
    assert!(found.table(|rows| format!("{rows:?}")).contains("diverged"));
    // In JSON the loss is null, not a number that is none.
    let json = serde_json::to_value(&found).unwrap();
    assert!(json["statements"][1]["runs"][1]["validation_loss"].is_null());
    let read: Figure7Report = serde_json::from_value(json).unwrap();
    assert_eq!(read, found);

    // Where both did, nothing can be said of what one gains.
    let all = [(Arrangement::PreNorm, 4), (Arrangement::PreNorm, 16)];
    let all = all.into_iter().chain([(Arrangement::PostNorm, 4), (Arrangement::PostNorm, 16)]);
    let found = report(all.map(|(arrangement, depth)| diverged(arrangement, depth)).collect());
    assert_eq!(holds(&found), [None; 3]);
}

#[test]
fn without_the_runs_that_tell_nothing_is_claimed() {
    let mut few = runs();
    few.truncate(1);
    let found = report(few);
    assert_eq!(holds(&found), [None; 3]);
    assert!(found.page().contains("cannot be judged"));
    // Other depths do not compare across arrangements.
    let mut uneven = runs();
    uneven[1].model.num_layers = 12;
    assert_eq!(holds(&report(uneven)), [Some(true), None, None]);
    assert_eq!(holds(&report(Vec::new())), [None; 3]);
}

#[test]
fn a_part_that_was_not_done_makes_it_partial() {
    let mut found = Figure7 { ground: ground(), runs: runs() };
    found.ground.parts[3].state = PartState::Missing;
    let found = Figure7Report::of(found);
    assert!(found.partial);
    for text in [found.page(), found.table(|_| String::new())] {
        assert!(text.contains("PARTIAL; not done: train medium"), "{text}");
    }
}

#[test]
fn the_page_draws_four_curves_twice_and_escapes_names() {
    let mut found = runs();
    found[0].name = "<b>&\"deep\"".to_owned();
    let page = report(found).page();
    assert!(!page.contains("<b>"), "a name is text");
    let pieces = markup::read(&page);
    assert_eq!(check_coordinates(&pieces), 3, "losses, gradient norms, what became of documents");
    for figure in ["figure-losses", "figure-grad-norms", "figure-funnel"] {
        assert!(page.contains(figure), "{figure}");
    }
    let is_series = |it: &&str| it.contains("series");
    let classes = elements(&pieces).filter_map(|(_, it)| it.get("class").map(String::as_str));
    let series = classes.filter(is_series).count();
    assert_eq!(series, 4 * 3 + 4 * 2, "of losses lines, marks and names, of norms lines and names");
    let text = text_of(&pieces);
    for part in ["(a) post-norm, the original BERT", "so it is here", "figure 7", "90.0"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_csv_has_a_row_for_each_model_in_order() {
    let csv = report(runs()).csv();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
    let names: Vec<_> = rows[1..].iter().map(|row| row[0]).collect();
    assert_eq!(names, ["post-norm-4", "post-norm-16", "pre-norm-4", "pre-norm-16"]);
    let column = |name| rows[0].iter().position(|it| *it == name).unwrap();
    assert_eq!(rows[4][column("validation_mlm_loss")], "4.5");
    assert_eq!(rows[4][column("validation_mlm_perplexity")], 4.5_f64.exp().to_string());
    assert_eq!(rows[4][column("diverged_at")], "");
}

#[test]
fn peaks_are_kept_where_points_are_thinned() {
    let point = |tokens: u64| GradNormPoint {
        tokens,
        grad_norm: if tokens == 57 { 99.0 } else { 1.0 / tokens as f64 },
    };
    let points: Vec<_> = (1..=100).map(point).collect();
    let thinned = peaks(&points, 10);
    assert_eq!(thinned.len(), 10);
    assert!(thinned.contains(&point(57)), "the spike");
    assert_eq!(thinned[0], point(1));
    assert_eq!(peaks(&points, 100), points);
    let broken = [GradNormPoint { tokens: 1, grad_norm: f64::NAN }, point(2)];
    assert_eq!(peaks(&broken, 10), [point(2)]);
    assert!(peaks(&[], 10).is_empty());
}
