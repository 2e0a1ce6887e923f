//! Accuracy on `test` by model and seed, beside chance.

use super::super::chart::{Axis, Format, Line, LineChart, Marks, Point, Reference, Scale, Series};
use super::super::figure::{Figure, TICKS, WHOLE, heading};
use super::super::numerals::percent;
use super::super::page::Table;
use super::RaceReport;
use super::facts::{Accuracies, CHANCE, RaceModel};

/// The accuracies of each model's seeds and of its ensemble; none without a model.
pub(super) fn accuracies(report: &RaceReport) -> Option<Figure> {
    let models = &report.found.models;
    if models.iter().all(|model| model.seeds.is_empty()) {
        return None;
    }
    let series = models.iter().enumerate().flat_map(|(style, model)| {
        let of =
            |name: String, marks, points| Series { name, style, line: Line::None, marks, points };
        [
            of(String::new(), Marks::Hollow, seeds(model)),
            of(model.name.clone(), Marks::Filled, vec![ensemble(model)]),
        ]
    });
    let series: Vec<_> = series.collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let reach = |point: &Point| {
        let error = point.error.unwrap_or(0.0);
        [point.y - error, point.y + error]
    };
    let chart = LineChart {
        heading: heading(
            "accuracies",
            "Accuracy on the test questions by seed, and of the ensemble",
            report.finding_sentence(),
        ),
        size: WHOLE,
        x: Axis {
            title: "seed, in the order of the configuration; last the ensemble".to_owned(),
            scale: Scale::linear([0.0].into_iter().chain(points().map(|it| it.x + 0.5)), TICKS),
            format: Format::Plain,
        },
        y: Axis {
            title: "share of the test questions answered rightly".to_owned(),
            scale: Scale::linear(points().flat_map(reach).chain([0.0, CHANCE]), TICKS),
            format: Format::Percent,
        },
        series: series.clone(),
        references: vec![Reference { y: CHANCE, label: "chance".to_owned() }],
    };
    Some(Figure {
        svg: chart.svg(),
        caption: "Outlined: the model of each seed. Filled: the ensemble, which averages their \
                  probabilities question by question. Bars are standard errors."
            .to_owned(),
        table: table(models),
    })
}

fn seeds(model: &RaceModel) -> Vec<Point> {
    let point = |(place, seed): (usize, &super::FineTuned)| {
        point(place + 1, &seed.test, format!("{}, seed {}", model.name, seed.seed))
    };
    model.seeds.iter().enumerate().map(point).collect()
}

fn ensemble(model: &RaceModel) -> Point {
    point(model.seeds.len() + 1, &model.ensemble_test, format!("{}, ensemble", model.name))
}

fn point(place: usize, found: &Accuracies, name: String) -> Point {
    Point {
        x: place as f64,
        y: found.overall.accuracy,
        error: Some(found.overall.stderr),
        label: None,
        hint: format!("{name}: {}", percent(found.overall.accuracy)),
    }
}

fn table(models: &[RaceModel]) -> Table {
    let columns = ["model, seed", "all", "middle", "high"].map(str::to_owned);
    let row = |name: String, found: &Accuracies| {
        [name].into_iter().chain(found.texts()).collect::<Vec<_>>()
    };
    let rows = models.iter().flat_map(|model| {
        let seeds = model.seeds.iter();
        let seeds = seeds.map(|it| row(format!("{}, {}", model.name, it.seed), &it.test));
        seeds.chain([row(format!("{}, ensemble", model.name), &model.ensemble_test)])
    });
    Table::named(columns, rows.collect())
}
