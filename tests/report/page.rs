//! The page of a reproduction, whole and with parts missing.

use serde_json::json;

use super::markup::{self, check_coordinates, elements, text_of};
use super::sample::{self, reproduction};
use super::told::table3::{Table3, Table3Report, TestSet};
use super::told::{CurvePoint, PartState, TextKind};

/// Changes of the sample that a page has to bear, each with its name.
fn variants() -> Vec<(&'static str, Table3)> {
    let changed = |change: fn(&mut Table3)| {
        let mut found = reproduction();
        change(&mut found);
        found
    };
    vec![
        ("whole", reproduction()),
        ("one size", changed(|it| it.sizes.truncate(1))),
        ("no size", changed(|it| it.sizes.clear())),
        (
            "no LAMBADA",
            changed(|it| {
                it.test_sets.truncate(1);
                it.sizes.iter_mut().for_each(|size| size.lambada = None);
            }),
        ),
        (
            "no score",
            changed(|it| {
                for size in &mut it.sizes {
                    (size.lambada, size.wikitext103) = (None, None);
                }
            }),
        ),
        (
            "nothing dropped",
            changed(|it| {
                let curation = it.ground.curation.as_mut().unwrap();
                curation.dropped.clear();
                curation.documents_kept = curation.documents_in;
            }),
        ),
        (
            "no document",
            changed(|it| {
                let curation = it.ground.curation.as_mut().unwrap();
                (curation.documents_in, curation.documents_kept, curation.tokens) = (0, 0, 0);
                curation.dropped.clear();
            }),
        ),
        (
            "one point",
            changed(|it| {
                for size in &mut it.sizes {
                    size.training.loss_curve.truncate(1);
                    size.training.validation_curve.clear();
                }
            }),
        ),
        (
            "no curve",
            changed(|it| {
                for size in &mut it.sizes {
                    size.training.loss_curve.clear();
                    size.training.validation_curve.clear();
                    (size.training.final_loss, size.training.validation_loss) = (None, None);
                }
            }),
        ),
        (
            "validation only",
            changed(|it| {
                it.sizes.iter_mut().for_each(|size| size.training.loss_curve.clear());
            }),
        ),
        (
            "no numbers",
            changed(|it| {
                for size in &mut it.sizes {
                    size.training.loss_curve.push(CurvePoint { tokens: 1, loss: f64::NAN });
                    size.training.validation_loss = Some(f64::INFINITY);
                    size.wikitext103.as_mut().unwrap().word_perplexity = f64::NAN;
                    size.lambada.as_mut().unwrap().strict_stderr = f64::NAN;
                }
            }),
        ),
        (
            "huge",
            changed(|it| {
                for size in &mut it.sizes {
                    let score = size.wikitext103.as_mut().unwrap();
                    (score.word_perplexity, score.token_perplexity) = (20_f64.exp(), 1e300);
                    score.capped = true;
                    size.lambada.as_mut().unwrap().target_perplexity = 1e200;
                    size.parameters = u64::MAX;
                    size.training.tokens = u64::MAX;
                }
            }),
        ),
        (
            "all right",
            changed(|it| {
                for size in &mut it.sizes {
                    let score = size.lambada.as_mut().unwrap();
                    (score.strict_accuracy, score.strict_stderr) = (1.0, 0.0);
                    score.target_perplexity = 1.0;
                }
            }),
        ),
        (
            "none right",
            changed(|it| {
                for size in &mut it.sizes {
                    let score = size.lambada.as_mut().unwrap();
                    (score.strict_accuracy, score.strict_stderr) = (0.0, 0.0);
                }
            }),
        ),
        ("no contamination", changed(|it| it.contamination.clear())),
        (
            "8-grams only",
            changed(|it| {
                for overlap in &mut it.contamination {
                    overlap.by_ngram.retain(|it| it.ngram_words == 8);
                }
            }),
        ),
        (
            "clean",
            changed(|it| {
                for overlap in it.contamination.iter_mut().flat_map(|it| &mut it.by_ngram) {
                    (overlap.matched_positions, overlap.matched_distinct) = (0, 0);
                }
            }),
        ),
        (
            "many sizes",
            changed(|it| {
                let more = (0..9).map(|index| {
                    sample::size(&format!("size {index}"), 2, 64, 4_000_000 + index, 0)
                });
                it.sizes.extend(more);
            }),
        ),
        (
            "hardly anything",
            changed(|it| {
                it.ground.curation = None;
                it.test_sets.clear();
                it.contamination.clear();
                it.sizes.clear();
                it.paper.clear();
                it.paper_overlap.clear();
                it.ground.parts.clear();
                it.ground.settings = json!(null);
                it.ground.command = None;
                it.ground.machine.processor = None;
                it.ground.machine.memory_bytes = None;
            }),
        ),
        ("long names", changed(|it| it.sizes[1].name = "long ".repeat(40))),
    ]
}

/// The page of `found`, and all its text.
fn page_text(found: Table3) -> (String, String) {
    let page = Table3Report::of(found).page();
    let text = text_of(&markup::read(&page));
    (page, text)
}

#[test]
fn every_page_is_well_formed_and_draws_within_its_charts() {
    for (name, found) in variants() {
        println!("{name}");
        let page = Table3Report::of(found).page();
        let charts = check_coordinates(&markup::read(&page));
        let least = match name {
            "hardly anything" => 0,
            "no size" | "no score" => 3,
            _ => 4,
        };
        assert!(charts >= least, "{charts} charts");
        let text = text_of(&markup::read(&page));
        for number in ["NaN", "inf", "Infinity"] {
            assert!(!text.split([' ', '%', '×']).any(|word| word == number), "{number} in {name}");
        }
    }
}

#[test]
fn the_page_stands_alone() {
    let (page, _) = page_text(reproduction());
    for outside in ["http", "src=", "<script", "<link", "<img", "<iframe", "url(", "@import", "//"]
    {
        // The sample's text is a folder `~/.cargo/registry/src`, which is no attribute.
        assert!(!page.to_lowercase().contains(outside), "{outside} is in the page");
    }
    let pieces = markup::read(&page);
    assert!(elements(&pieces).all(|(_, attributes)| !attributes.contains_key("href")));
    assert!(elements(&pieces).all(|(_, it)| it.keys().all(|key| !key.starts_with("on"))));
}

#[test]
fn what_comes_from_the_user_is_text_and_no_markup() {
    let evil = "</title><b a=\"1\">&amp; 'x' <script>alert(1)</script>";
    let mut found = reproduction();
    for place in [
        &mut found.ground.experiment,
        &mut found.ground.title,
        &mut found.ground.text.root,
        &mut found.sizes[0].name,
        &mut found.test_sets[0].name,
        &mut found.contamination[0].test_set,
        &mut found.ground.curation.as_mut().unwrap().dropped[0].reason,
        &mut found.ground.parts[0].name,
        &mut found.ground.machine.vector_kernels,
        &mut found.paper[0].name,
    ] {
        *place = evil.to_owned();
    }
    // A test set of that name is drawn by its own name when it is not the published one.
    found.test_sets[0].published = false;
    found.test_sets[1].file = evil.to_owned();
    found.ground.curation.as_mut().unwrap().tokenizer = evil.to_owned();
    found.ground.command = Some(evil.to_owned());
    found.ground.warnings.push(evil.to_owned());
    found.ground.settings = json!({ "<b>": evil });
    let (page, text) = page_text(found);
    assert!(!page.contains("<b ") && !page.contains("<script"), "markup of the user's");
    let times = text.matches("<script>alert(1)</script>").count();
    assert!(times > 20, "the text stands in the page {times} times only");
    let pieces = markup::read(&page);
    check_coordinates(&pieces);
}

#[test]
fn control_characters_do_not_break_a_chart() {
    let mut found = reproduction();
    found.sizes[0].name = "a\u{0}b\u{1b}[31m\nc".to_owned();
    let page = Table3Report::of(found).page();
    let charts = page.split("<svg").skip(1).map(|it| it.split("</svg>").next().unwrap());
    assert!(charts.flat_map(str::chars).all(|it| it == '\n' || !it.is_control()));
}

#[test]
fn the_page_has_our_values_the_papers_and_what_they_rest_on() {
    let (_, text) = page_text(reproduction());
    for part in [
        "small 3.30M 8.19M 6.110 1,912.4 91,234 0.02% ± 0.02%",
        "large 33.7M 8.19M 4.910 803.20 18,765 0.49% ± 0.10%",
        "355M 355M 157B - 19.31 - 45.18%",
        "2.5B 2.49B 157B - 12.76 - 61.73%",
        "8.3B 8.32B 157B - 10.81 - 66.51%",
        "kNN-LM - - - 15.79 - -",
        "not reproduced at this scale",
        "window 256, overlap 256, T = 270,330, To = 245,566, ratio 1.100845",
        "5,153 examples, 6,542 label tokens",
        "6,186 of 12,245 documents (50.5%)",
        "near duplicate 1,011 (8.3%)",
        "831 of 206,590 positions have an 8-gram in common (0.40%)",
        "The paper states at most 10.8% of 8-grams for WikiText103",
        "train.optimizer.lr = 0.003",
        "sizes.2.name = \"large\"",
        "2026-11-30 20:17 UTC",
        "Made-up CPU @ 2.0 GHz",
        "done by an earlier call",
        "pipeline reproduce --config configs/reproduce/table3-tiny.toml",
    ] {
        assert!(text.contains(part), "no {part:?} in the page");
    }
    assert!(!text.contains("PARTIAL"));
}

#[test]
fn every_chart_has_a_text_alternative_and_a_table_of_its_numbers() {
    let page = Table3Report::of(reproduction()).page();
    let figures: Vec<_> = page.split("<figure>").skip(1).collect();
    assert_eq!(figures.len(), 7);
    for figure in figures {
        let figure = figure.split("</figure>").next().unwrap();
        let pieces = markup::pieces(figure);
        let count = |name: &str| elements(&pieces).filter(|(it, _)| *it == name).count();
        assert_eq!((count("svg"), count("desc"), count("table")), (1, 1, 1));
        // Each mark's own number is in the table below.
        let table = text_of(&markup::pieces(&figure[figure.find("<details>").unwrap()..]));
        let chart = &figure[..figure.find("</svg>").unwrap()];
        for hint in chart.split("<title>").skip(1) {
            let hint = hint.split("</title>").next().unwrap();
            let is_number = |it: &&str| it.chars().next().is_some_and(|it| it.is_ascii_digit());
            let last = hint.split(['(', ' ']).filter(is_number).find(|it| it.contains(['.', ',']));
            if let Some(number) = last {
                assert!(table.contains(number), "no {number:?} of {hint:?} in {table:?}");
            }
        }
    }
}

#[test]
fn the_page_says_so_where_bigger_is_not_better() {
    let mut found = reproduction();
    found.sizes[2].wikitext103.as_mut().unwrap().word_perplexity = 1_400.0;
    let (_, text) = page_text(found);
    assert!(text.contains("Bigger is NOT better by WikiText103 word perplexity."), "{text}");
    assert!(text.contains("large with 1,400.0 is worse than medium with 1,105.9"), "{text}");
    assert!(text.contains("Bigger is better by validation loss and LAMBADA target perplexity."));
}

#[test]
fn a_test_set_that_is_not_published_does_not_go_by_the_benchmarks_name() {
    let mut found = reproduction();
    for TestSet { name, published, .. } in &mut found.test_sets {
        (*name, *published) = (format!("demo-{name}"), false);
    }
    let (page, text) = page_text(found);
    assert!(text.contains("demo-wikitext103 word perplexity"));
    assert!(text.contains("demo-lambada is not the published test set of LAMBADA"));
    assert!(text.contains("the test set is not the published one"));
    // No ratio of values of different test sets.
    let row = "WikiText103 word perplexity 10.81 803.20 on demo-wikitext103 - not reproduced";
    assert!(text.contains(row), "{text}");
    let chart = &page[page.find("figure-wordperplexity").unwrap()..];
    let chart = &chart[..chart.find("</svg>").unwrap()];
    assert!(chart.contains("medium") && !chart.contains("paper"), "{chart}");
}

#[test]
fn the_papers_accuracies_are_drawn_where_one_scale_shows_both() {
    let accuracies = |page: &str| {
        let chart = page[page.find("figure-strictaccuracy").unwrap()..].to_owned();
        chart[..chart.find("</svg>").unwrap()].to_owned()
    };
    let tiny = Table3Report::of(reproduction()).page();
    assert!(!accuracies(&tiny).contains("paper 355M"));
    let mut found = reproduction();
    found.sizes[2].lambada.as_mut().unwrap().strict_accuracy = 0.43;
    let big = Table3Report::of(found).page();
    assert!(accuracies(&big).contains("paper 355M"));
}

#[test]
fn what_is_missing_is_said_to_be_partial() {
    type Change = fn(&mut Table3);
    let changes: [(Change, &str); 4] = [
        (|it| it.ground.parts[4].state = PartState::Missing, "not done: train large"),
        (|it| it.sizes[1].lambada = None, "not measured on LAMBADA: medium"),
        (
            |it| it.sizes[1].lambada.as_mut().unwrap().partial = true,
            "measured on a part only of LAMBADA: medium",
        ),
        (
            |it| it.sizes.iter_mut().for_each(|it| it.wikitext103.as_mut().unwrap().partial = true),
            "measured on a part only of WikiText103: small, medium and large",
        ),
    ];
    for (change, reason) in changes {
        let mut found = reproduction();
        change(&mut found);
        let report = Table3Report::of(found);
        assert!(report.partial);
        let sentence = format!("PARTIAL; {reason}. Compare these numbers with no other.");
        assert!(text_of(&markup::read(&report.page())).contains(&sentence), "{reason}");
        assert!(report.table(one_line_a_row).contains(&sentence), "{reason}");
    }
    assert!(!Table3Report::of(reproduction()).partial);
}

#[test]
fn nothing_right_is_no_proof_of_nothing() {
    let mut found = reproduction();
    for size in &mut found.sizes {
        let score = size.lambada.as_mut().unwrap();
        (score.strict_accuracy, score.strict_stderr) = (0.0, 0.0);
    }
    let (page, text) = page_text(found);
    assert!(text.contains("None right of 5,153 leaves room for an accuracy of up to 0.06%."));
    assert!(text.contains("no two sizes differ by more than the test set can show"));
    // The axis has room for little, not for everything.
    let chart = &page[page.find("figure-strictaccuracy").unwrap()..];
    assert!(!chart[..chart.find("</svg>").unwrap()].contains("100%"));
}

#[test]
fn a_capped_perplexity_is_a_bound() {
    let mut found = reproduction();
    let score = found.sizes[0].wikitext103.as_mut().unwrap();
    (score.word_perplexity, score.capped) = (20_f64.exp(), true);
    let (_, text) = page_text(found);
    assert!(text.contains("at least 485,165,195"), "{text}");
}

#[test]
fn sizes_that_were_not_trained_alike_are_named() {
    let mut found = reproduction();
    found.sizes[2].training.tokens *= 2;
    found.sizes[2].training.global_batch_size = 64;
    let (_, text) = page_text(found);
    let expected = "not trained alike: they differ in tokens seen and sequences of a step.";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn the_table_is_what_the_page_says() {
    let mut found = reproduction();
    found.ground.text.kind = TextKind::Own;
    let report = Table3Report::of(found);
    let table = report.table(one_line_a_row);
    for part in [
        "model|parameters|tokens seen|loss|word ppl|target ppl|strict acc",
        "small|3.30M|8.19M|6.110|1,912.4|91,234|0.02%",
        "paper: 8.3B|8.32B|157B|-|10.81|-|66.51%",
        "before: GPT-2 1.5B|-|-|-|-|-|63.24%",
        "validation loss: bigger is better",
        "LAMBADA strict accuracy: undecided",
        "The paper's Table 3 is not reproduced at this scale",
        "together smaller by a factor of 4,740,000",
        "text of your own, ~/.cargo/registry/src: 12,345 documents, 98.8 MB",
        "lambada and the curated corpus: 3 of 280,355 positions",
        "43 min 17 s",
    ] {
        assert!(table.contains(part), "no {part:?} in\n{table}");
    }
}

/// A layout that tests can read.
fn one_line_a_row(rows: &[Vec<String>]) -> String {
    rows.iter().map(|row| format!("{}\n", row.join("|"))).collect()
}

#[test]
fn json_holds_the_whole_report() {
    for (name, found) in variants() {
        // JSON has no word for what is no number, and no score is one.
        if name == "no numbers" {
            continue;
        }
        let report = Table3Report::of(found);
        let text = serde_json::to_string(&report).unwrap();
        let read: Table3Report = serde_json::from_str(&text).unwrap();
        assert_eq!(read, report, "{name}");
    }
    let value = serde_json::to_value(Table3Report::of(reproduction())).unwrap();
    assert_eq!(value["sizes"][0]["wikitext103"]["word_perplexity"], 1_912.4);
    assert_eq!(value["trends"][0]["verdict"], "better");
    assert_eq!(value["comparisons"][5]["paper_row"], "8.3B");
    assert_eq!(value["contamination"][1]["corpus"], "curated");
    assert_eq!(value["paper"][2]["word_perplexity"], 10.81);
}

#[test]
fn reasons_for_which_documents_went_are_words() {
    let page = Table3Report::of(reproduction()).page();
    assert!(page.contains("too short") && page.contains("1,900 for too short"), "{page}");
    assert!(!page.contains("too_short"), "{page}");
}

#[test]
fn what_several_parts_warn_of_is_told_once() {
    let mut found = reproduction();
    found.ground.parts[2].warnings = vec!["the corpus has few <documents>".to_owned()];
    found.ground.parts[3].warnings =
        vec!["the corpus has few <documents>".to_owned(), "slow".to_owned()];
    let page = Table3Report::of(found).page();
    assert_eq!(page.matches("the corpus has few &#60;documents&#62;").count(), 1, "{page}");
    assert!(page.contains(">train small, train medium</td>"), "{page}");
    assert!(!Table3Report::of(reproduction()).page().contains("What they warned of"));
}

#[test]
fn parameters_are_told_with_the_padding_and_without() {
    let report = Table3Report::of(reproduction());
    let page = report.page();
    let size = &report.found.sizes[0];
    for (name, number) in [
        ("parameters, the vocabulary padded", size.parameters),
        ("parameters without the padding", size.parameters_without_padding),
        ("vocabulary, padded", size.model.padded_vocab_size),
    ] {
        let row = page.split("<tr>").find(|row| row.contains(&format!(">{name}</td>"))).unwrap();
        let number = indicatif::HumanCount(number).to_string();
        assert!(row.contains(&format!(">{number}</td>")), "{row}");
    }
}
