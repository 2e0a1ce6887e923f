//! How much of each test set is in the corpus.

use super::super::super::chart::{
    Axis, Bar, BarChart, BarKind, Format, Heading, Line, LineChart, Marks, Point, Scale, Series,
};
use super::super::super::figure::{Figure, HALF, heading};
use super::super::super::numerals::{grouped, percent};
use super::super::super::page::Table;
use super::super::Table3Report;
use super::super::facts::{Contamination, CorpusState, NGramOverlap};
use super::share_scale;

/// For each test set, how much of it is in the corpus.
pub(crate) fn contamination(report: &Table3Report) -> Vec<(String, Figure)> {
    let found = &report.found;
    let mut names: Vec<&str> = Vec::new();
    for it in &found.contamination {
        if !names.contains(&it.test_set.as_str()) && !it.by_ngram.is_empty() {
            names.push(&it.test_set);
        }
    }
    names
        .into_iter()
        .enumerate()
        .map(|(index, name)| {
            let of_set: Vec<_> =
                found.contamination.iter().filter(|it| it.test_set == name).collect();
            (name.to_owned(), contamination_of(report, index, name, &of_set))
        })
        .collect()
}

fn contamination_of(
    report: &Table3Report,
    index: usize,
    name: &str,
    states: &[&Contamination],
) -> Figure {
    let sentences: Vec<_> = states.iter().filter_map(|it| eight_gram_sentence(it)).collect();
    let heading = heading(
        &format!("contamination-{index}"),
        &format!("Share of {name} that is in the corpus"),
        sentences.join(" "),
    );
    let is_one_length = states.iter().all(|it| it.by_ngram.len() == 1);
    let svg = if is_one_length {
        contamination_bars(heading, states).svg()
    } else {
        contamination_lines(heading, states).svg()
    };
    let task = report.found.test_sets.iter().find(|it| it.name == name).map(|it| it.task);
    let mut caption = sentences.join(" ");
    for paper in report.found.paper_overlap.iter().filter(|it| Some(it.task) == task) {
        caption.push_str(&format!(
            " The paper states at most {} of {}-grams for {} and its own corpus.",
            short_percent(paper.at_most),
            paper.ngram_words,
            paper.task.benchmark()
        ));
    }
    Figure { svg, caption, table: overlap_table(states) }
}

fn eight_gram_sentence(found: &Contamination) -> Option<String> {
    let overlap =
        found.by_ngram.iter().find(|it| it.ngram_words == 8).or(found.by_ngram.first())?;
    Some(format!(
        "{}: {} of {} positions have an {}-gram in common ({}).",
        capitalized(corpus_name(found.corpus)),
        grouped(overlap.matched_positions),
        grouped(overlap.positions),
        overlap.ngram_words,
        percent(overlap.position_share())
    ))
}

fn contamination_lines(heading: Heading, states: &[&Contamination]) -> LineChart {
    let overlaps = || states.iter().flat_map(|it| &it.by_ngram);
    let series = states.iter().map(|state| Series {
        name: match state.corpus {
            CorpusState::Raw => "raw".to_owned(),
            CorpusState::Curated => "curated".to_owned(),
        },
        style: match state.corpus {
            CorpusState::Raw => 1,
            CorpusState::Curated => 0,
        },
        line: Line::Joined,
        marks: match state.corpus {
            CorpusState::Raw => Marks::Hollow,
            CorpusState::Curated => Marks::Filled,
        },
        points: state.by_ngram.iter().map(|it| overlap_point(state.corpus, it)).collect(),
    });
    LineChart {
        heading,
        size: HALF,
        x: Axis {
            title: "words of an n-gram".to_owned(),
            scale: Scale::linear(overlaps().map(|it| it.ngram_words as f64), 10),
            format: Format::Plain,
        },
        y: Axis {
            title: "share of positions in the corpus".to_owned(),
            scale: share_scale(overlaps().map(NGramOverlap::position_share)),
            format: Format::Percent,
        },
        series: series.collect(),
        references: Vec::new(),
    }
}

fn overlap_point(corpus: CorpusState, overlap: &NGramOverlap) -> Point {
    let share = overlap.position_share();
    Point {
        x: overlap.ngram_words as f64,
        y: share,
        error: None,
        label: None,
        hint: format!("{}, {}-grams: {}", corpus_name(corpus), overlap.ngram_words, percent(share)),
    }
}

fn contamination_bars(heading: Heading, states: &[&Contamination]) -> BarChart {
    let bars: Vec<_> = states
        .iter()
        .flat_map(|state| state.by_ngram.iter().map(|it| (state.corpus, it)))
        .map(|(corpus, overlap)| Bar {
            name: format!("{}, {}-grams", corpus_name(corpus), overlap.ngram_words),
            from: 0.0,
            to: overlap.position_share(),
            kind: BarKind::There,
            value: percent(overlap.position_share()),
        })
        .collect();
    // The bars compare with one another: of the whole test set they would mostly be nothing.
    let whole = bars.iter().map(|bar| bar.to).fold(0.0, f64::max);
    BarChart { heading, width: HALF.0, whole, bars }
}

fn overlap_table(states: &[&Contamination]) -> Table {
    let columns = [
        "corpus",
        "words",
        "positions",
        "in the corpus",
        "share",
        "distinct",
        "in the corpus",
        "share",
    ];
    let row = |corpus, it: &NGramOverlap| {
        vec![
            corpus_name(corpus).to_owned(),
            it.ngram_words.to_string(),
            grouped(it.positions),
            grouped(it.matched_positions),
            percent(it.position_share()),
            grouped(it.distinct),
            grouped(it.matched_distinct),
            percent(it.distinct_share()),
        ]
    };
    let rows = states.iter().flat_map(|it| it.by_ngram.iter().map(|of_n| row(it.corpus, of_n)));
    Table::named(columns.map(str::to_owned), rows.collect())
}

fn corpus_name(corpus: CorpusState) -> &'static str {
    match corpus {
        CorpusState::Raw => "raw corpus",
        CorpusState::Curated => "curated corpus",
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `10.8%`: a share as the paper prints it.
fn short_percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}
