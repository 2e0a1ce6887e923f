//! Charts: scales and their ticks, and what is drawn of any numbers.

use proptest::prelude::*;

use super::markup::{check_coordinates, elements, pieces};
use super::told::chart::{
    Axis, Bar, BarChart, BarKind, Format, Heading, Line, LineChart, Marks, Point, Reference, Scale,
    Series,
};

fn heading() -> Heading {
    Heading { id: "chart".to_owned(), title: "made up".to_owned(), description: String::new() }
}

fn axis(scale: Scale, format: Format) -> Axis {
    Axis { title: "value".to_owned(), scale, format }
}

/// Numbers of all sizes, and some that are none.
fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -1e6..1e6_f64,
        2 => (-200..200_i32, 1.0..10.0_f64).prop_map(|(power, digits)| digits * 10_f64.powi(power)),
        1 => prop_oneof![
            Just(0.0),
            Just(-0.0),
            Just(1.0),
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY),
            Just(f64::MAX),
            Just(f64::MIN_POSITIVE),
        ],
    ]
}

proptest! {
    /// Ticks ascend, are at most so many, and cover the values.
    #[test]
    fn linear_ticks_cover_the_values(
        values in prop::collection::vec(any_number(), 0..20),
        most in 3_usize..12,
    ) {
        let scale = Scale::linear(values.iter().copied(), most);
        let ticks = scale.ticks();
        prop_assert!((2..=most).contains(&ticks.len()), "{ticks:?}");
        prop_assert!(ticks.iter().all(|tick| tick.is_finite()), "{ticks:?}");
        prop_assert!(ticks.is_sorted_by(|one, other| one < other), "{ticks:?}");
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        let slack = 1e-6 * (high - low);
        for value in values.iter().filter(|it| it.is_finite() && it.abs() <= 1e100) {
            prop_assert!((low - slack..=high + slack).contains(value), "{value} in {ticks:?}");
        }
        // No more room than a step at either end, so that the values fill the chart.
        let steps = (high - low) / (ticks[1] - ticks[0]);
        prop_assert!((steps - (ticks.len() - 1) as f64).abs() < 1e-6);
    }

    /// The same for powers of ten and their simple multiples.
    #[test]
    fn log_ticks_cover_the_values(
        values in prop::collection::vec(any_number(), 0..20),
        most in 3_usize..12,
    ) {
        let scale = Scale::log(values.iter().copied(), most);
        let ticks = scale.ticks();
        prop_assert!((2..=most).contains(&ticks.len()), "{ticks:?}");
        prop_assert!(ticks.iter().all(|tick| tick.is_finite() && *tick > 0.0), "{ticks:?}");
        prop_assert!(ticks.is_sorted_by(|one, other| one < other), "{ticks:?}");
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        for value in values.iter().filter(|it| it.is_finite() && (1e-100..=1e100).contains(*it)) {
            let slack = 1.0 + 1e-6;
            prop_assert!((low / slack..=high * slack).contains(value), "{value} in {ticks:?}");
        }
    }

    /// A place lies on its axis, and a greater value no lower.
    #[test]
    fn places_follow_the_values(
        values in prop::collection::vec(any_number(), 1..20),
        is_log in any::<bool>(),
    ) {
        let scale = match is_log {
            true => Scale::log(values.iter().copied(), 8),
            false => Scale::linear(values.iter().copied(), 8),
        };
        let mut numbers: Vec<f64> = values.into_iter().filter(|it| !it.is_nan()).collect();
        numbers.sort_by(f64::total_cmp);
        let places: Vec<_> = numbers.iter().map(|&it| scale.position(it)).collect();
        prop_assert!(places.iter().all(|place| (0.0..=1.0).contains(place)), "{places:?}");
        prop_assert!(places.is_sorted(), "{numbers:?} at {places:?}");
    }

    /// Any points make a chart that is well-formed and stays within its view box.
    #[test]
    fn any_points_are_drawn_within_the_chart(
        points in prop::collection::vec((any_number(), any_number(), any_number()), 0..12),
        name in "\\PC{0,40}",
        is_log in any::<bool>(),
        style in 0_usize..9,
        level in any_number(),
    ) {
        let scale = |values: Vec<f64>| match is_log {
            true => Scale::log(values, 8),
            false => Scale::linear(values, 8),
        };
        let series = |marks, line, style| Series {
            name: name.clone(),
            style,
            line,
            marks,
            points: points
                .iter()
                .map(|&(x, y, error)| Point {
                    x,
                    y,
                    error: Some(error),
                    label: Some(name.clone()),
                    hint: name.clone(),
                })
                .collect(),
        };
        let chart = LineChart {
            heading: heading(),
            size: (456.0, 300.0),
            x: axis(scale(points.iter().map(|it| it.0).collect()), Format::Short),
            y: axis(scale(points.iter().map(|it| it.1).collect()), Format::Percent),
            series: vec![
                series(Marks::None, Line::Joined, style),
                series(Marks::Hollow, Line::None, style + 1),
                series(Marks::Filled, Line::Joined, style + 2),
            ],
            references: vec![Reference { y: level, label: name.clone() }],
        };
        check_coordinates(&pieces(&chart.svg()));
    }

    /// Any bars too.
    #[test]
    fn any_bars_are_drawn_within_the_chart(
        ends in prop::collection::vec((any_number(), any_number()), 0..8),
        whole in any_number(),
        name in "\\PC{0,60}",
    ) {
        let bar = |&(from, to): &(f64, f64)| Bar {
            name: name.clone(),
            from,
            to,
            kind: BarKind::Gone,
            value: name.clone(),
        };
        let bars = ends.iter().map(bar).collect();
        let chart = BarChart { heading: heading(), width: 736.0, whole, bars };
        check_coordinates(&pieces(&chart.svg()));
    }
}

#[test]
fn ticks_are_round() {
    let linear = |low, high| Scale::linear([low, high], 8).ticks().to_vec();
    assert_eq!(linear(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(linear(4.9, 10.8), [4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    assert_eq!(linear(0.0, 0.0057), [0.0, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006]);
    let log = |low, high| Scale::log([low, high], 8).ticks().to_vec();
    assert_eq!(log(10.81, 1_912.0), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3]);
    assert_eq!(log(3.3e6, 8.3e9), [1e6, 1e7, 1e8, 1e9, 1e10]);
    assert_eq!(log(5.0, 5.0), [2.0, 5.0]);
}

#[test]
fn ticks_are_written_as_short_as_they_can_be() {
    let labels = |scale, format| axis(scale, format).labels();
    let parameters = labels(Scale::log([3.3e6, 8.3e9], 8), Format::Short);
    assert_eq!(parameters, ["1M", "10M", "100M", "1B", "10B"]);
    let tokens = labels(Scale::linear([0.0, 8_192_000.0], 8), Format::Short);
    assert_eq!(tokens, ["0", "2M", "4M", "6M", "8M", "10M"]);
    let shares = labels(Scale::linear([0.0, 0.0057], 8), Format::Percent);
    assert_eq!(shares[..3], ["0.0%", "0.1%", "0.2%"]);
    let losses = labels(Scale::linear([5.0, 6.0], 8), Format::Plain);
    assert_eq!(losses, ["5.0", "5.2", "5.4", "5.6", "5.8", "6.0"]);
    let words = labels(Scale::linear([5.0, 13.0], 10), Format::Plain);
    assert_eq!(words, ["5", "6", "7", "8", "9", "10", "11", "12", "13"]);
    let small = labels(Scale::log([0.02, 1.5], 8), Format::Short);
    assert_eq!(small, ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]);
}

#[test]
fn names_at_the_ends_of_lines_do_not_overlap() {
    let line = |index: usize| Series {
        name: format!("line {index}"),
        style: index,
        line: Line::Joined,
        marks: Marks::None,
        points: [0.0, 1.0]
            .map(|x| Point { x, y: 1.0, error: None, label: None, hint: String::new() })
            .to_vec(),
    };
    let chart = LineChart {
        heading: heading(),
        size: (736.0, 380.0),
        x: axis(Scale::linear([0.0, 1.0], 8), Format::Plain),
        y: axis(Scale::linear([0.0, 1.0], 8), Format::Plain),
        series: (0..6).map(line).collect(),
        references: Vec::new(),
    };
    let svg = chart.svg();
    let pieces = pieces(&svg);
    let mut heights: Vec<f64> = elements(&pieces)
        .filter(|(name, attributes)| *name == "text" && attributes["class"] == "name")
        .map(|(_, attributes)| attributes["y"].parse().unwrap())
        .collect();
    assert_eq!(heights.len(), 6);
    heights.sort_by(f64::total_cmp);
    assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 14.0), "{heights:?}");
}
