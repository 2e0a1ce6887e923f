//! lm-evaluation-harness's protocol: its pages, words and windows, on models whose losses are known.
//!
//! Whether its own program gives the same numbers is asked by `tests/lm_eval.rs`.

use std::fs;

use corpus::Silent;
use evaluation::cloze::{self, ClozeExample};
use evaluation::detokenizer::detokenize;
use evaluation::lambada::Lambada;
use evaluation::wikitext103::lm_eval::{Measured, count_words, pages};
use evaluation::wikitext103::{Form, WikiText103};
use evaluation::{
    EvalError, EvalPlan, EvaluatedModel, Items, PageScore, Protocol, Task, TaskResult, lambada,
};

use super::{Known, Zeros, assert_close, evaluated, identity, narrow_gpt2, plan, positive};

/// The token that ends documents.
const EOD: u32 = 50_256;

/// Three pages, the second of which is an equation; headings of several levels.
pub(crate) const RAW: &str = " \n = Tin ( element ) = \n \n Tin @-@ plate , 1 @,@ 000 tons . \n \n = = \
                              Uses = = \n \n = = = Old \u{a0} = = = \n \n It 's = soft = . \n = 1 rad \
                              and k = \n naïve – 好 \n \n = Zinc = \n \n \" Zinc \" ( Zn ) . \n";

/// Runs the task on `text`, written to a file.
fn run_on(
    text: &str,
    model: &mut EvaluatedModel,
    plan: &EvalPlan,
) -> Result<TaskResult, EvalError> {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("wiki.test.raw");
    fs::write(&data, text).unwrap();
    let name = "made".to_owned();
    Task::WikiText103(WikiText103 { name, data, protocol: Protocol::LmEval })
        .run(model, plan, &Silent)
}

fn measured(result: &TaskResult) -> &Measured {
    match &result.measured {
        evaluation::Measured::WikiText103LmEval(measured) => measured,
        other => panic!("{other:?}"),
    }
}

fn items(result: &TaskResult) -> &[PageScore] {
    match &result.items {
        Some(Items::Pages(pages)) => pages,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_page_begins_at_each_line_like_a_level_1_heading() {
    let found = pages(RAW);
    assert_eq!(found.iter().map(|page| page.0).collect::<Vec<_>>(), [2, 11, 14]);
    assert!(found[0].1.starts_with(" = Tin ( element ) = \n \n Tin"), "{found:?}");
    assert!(found[0].1.ends_with("It 's = soft = . "), "without the line's end: {found:?}");
    assert_eq!(found[1].1, " = 1 rad and k = \n naïve – 好 \n ");
    assert_eq!(found[2].1, " = Zinc = \n \n \" Zinc \" ( Zn ) . \n");

    // What is written before the first heading is a page; a file without headings is one.
    assert_eq!(pages("a \n= b =\nc"), [(1, "a "), (2, "= b =\nc")]);
    assert_eq!(pages("a\nb\n"), [(1, "a\nb\n")]);
    // Deeper headings, and marks without a blank beside them, begin none.
    for line in
        ["= = b = =", "= = = b = = =", "= = = = b = = = =", "=b=", "= b = =", "= = b =", "="]
    {
        assert_eq!(pages(&format!("a\n{line}\nc")).len(), 1, "{line}");
    }
}

#[test]
fn words_are_one_more_than_the_runs_of_white_space() {
    for (page, words) in
        [("", 1), (" ", 2), ("a", 1), (" a ", 3), ("a \n b", 2), (" = A = \n\u{a0}\u{1f}b\n", 6)]
    {
        assert_eq!(count_words(page), words, "{page:?}");
    }
}

#[test]
fn a_uniform_model_has_the_vocabulary_to_the_targets_per_word_and_byte() {
    for tensor_parallel_size in [1, 2] {
        let mut model = evaluated(&narrow_gpt2(16), Zeros, tensor_parallel_size);
        let result = run_on(RAW, &mut model, &plan(16, tensor_parallel_size)).unwrap();
        let Measured { protocol, metrics, counts, settings } = measured(&result);
        assert_eq!(*protocol, "lm-eval");
        // The pages without the two line ends between them and the blank line before the first.
        assert_eq!(counts.bytes, RAW.len() - 2 - 2);
        assert_eq!(counts.words, pages(RAW).iter().map(|page| count_words(page.1)).sum::<usize>());
        let targets = counts.targets as f64;
        let (words, bytes) = (counts.words as f64, counts.bytes as f64);
        assert_close(metrics.word_perplexity, 50_257_f64.powf(targets / words), 3e-6);
        assert_close(metrics.byte_perplexity, 50_257_f64.powf(targets / bytes), 3e-6);
        assert_close(metrics.bits_per_byte, 50_257_f64.log2() * targets / bytes, 3e-7);
        assert!(settings.comparable_with.contains("lm-evaluation-harness"));
        assert_eq!(settings.prefix_token, EOD);
        assert!(!result.partial);
    }
}

#[test]
fn a_bigram_model_predicts_every_token_of_a_page_the_first_from_the_end_of_a_document() {
    let config = narrow_gpt2(16);
    let bigram = Known::bigram(&config);
    let identity = identity(&config);
    let expected: Vec<(usize, f64)> = pages(RAW)
        .iter()
        .map(|(_, page)| {
            let mut tokens = vec![EOD];
            tokens.extend(identity.encode(&detokenize(page)).unwrap());
            let losses = tokens.windows(2).map(|pair| bigram.nll(pair[0], 0, pair[1]));
            (tokens.len() - 1, losses.sum())
        })
        .collect();
    // One page takes several windows, of which the last is not full; one is shorter than a window.
    assert!(expected[0].0 > 32 && !expected[0].0.is_multiple_of(16), "{expected:?}");
    assert!(expected[1].0 < 16, "{expected:?}");

    let mut model = evaluated(&config, bigram, 1);
    let result = run_on(RAW, &mut model, &plan(16, 1)).unwrap();
    for (item, (targets, nll)) in items(&result).iter().zip(&expected) {
        assert_eq!(item.targets, *targets);
        assert_close(item.nll, *nll, 1e-6);
        assert_close(item.word_perplexity, (nll / item.words as f64).exp(), 2e-5);
    }
    let titles: Vec<&str> = items(&result).iter().map(|item| item.title.as_str()).collect();
    assert_eq!(titles, ["= Tin ( element ) =", "= 1 rad and k =", "= Zinc ="]);
    let total: f64 = expected.iter().map(|it| it.1).sum();
    let Measured { metrics, counts, .. } = measured(&result);
    assert_close(metrics.total_nll, total, 1e-6);
    assert_close(metrics.word_perplexity, (total / counts.words as f64).exp(), 2e-5);
    assert_eq!(counts.windows, expected.iter().map(|it| it.0.div_ceil(16)).sum::<usize>());
}

#[test]
fn a_limit_scores_whole_pages_and_counts_only_their_words() {
    let mut model = evaluated(&narrow_gpt2(16), Zeros, 1);
    let plan = EvalPlan { limit: Some(positive(2)), ..plan(16, 1) };
    let result = run_on(RAW, &mut model, &plan).unwrap();
    let counts = measured(&result).counts;
    assert!(result.partial);
    assert_eq!((counts.pages, counts.pages_in_file), (2, 3));
    assert_eq!(counts.words, count_words(pages(RAW)[0].1) + count_words(pages(RAW)[1].1));
}

#[test]
fn ends_of_lines_of_other_systems_change_nothing() {
    let run = |text: &str| {
        let mut model = evaluated(&narrow_gpt2(16), Zeros, 1);
        measured(&run_on(text, &mut model, &plan(16, 1)).unwrap()).clone()
    };
    let expected = run(RAW);
    for end in ["\r\n", "\r"] {
        let other = run(&RAW.replace('\n', end));
        assert_eq!((other.metrics, other.counts), (expected.metrics, expected.counts));
    }
}

#[test]
fn the_form_of_a_text_is_told_by_its_marks() {
    let form = Form::of("a @-@ b <unk> c @-@ d , <unk>");
    assert_eq!((form.unknown_words, form.separated_hyphens), (2, 2));
    assert_eq!(Form::of(RAW).unknown_words, 0);
}

/// The passages as lm-evaluation-harness asks about them.
fn asked(text: &str) -> Result<ClozeExample, EvalError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.jsonl");
    fs::write(&file, serde_json::json!({ "text": text }).to_string()).unwrap();
    let passages = cloze::read(&file).unwrap();
    ClozeExample::lm_eval(&passages[0], &identity(&narrow_gpt2(64)))
}

fn decoded(tokens: &[u32]) -> String {
    corpus::tokenizer::open("gpt2").unwrap().decode(tokens)
}

#[test]
fn a_passage_is_cut_at_its_last_space() {
    for (text, context, target) in [
        ("a clear stone", "a clear", " stone"),
        // A line end is no space.
        ("Nobody came.\nA\n\nStone", "Nobody", " came.\nA\n\nStone"),
        // White space before the last one is guessed too.
        ("a clear  \n stone", "a clear", "  \n stone"),
        // Without a space the end of a document stands before all.
        ("one\ntwo", "<|endoftext|>", " one\ntwo"),
    ] {
        let question = asked(text).unwrap().strict;
        assert_eq!(decoded(question.context()), context, "{text:?}");
        assert_eq!(decoded(question.labels()), target, "{text:?}");
    }
    assert_eq!(asked("one\ntwo").unwrap().strict.context(), [EOD]);
    for text in ["a b ", " \n a\nb"] {
        let message = asked(text).unwrap_err().to_string();
        assert!(message.contains("made.jsonl:1: ") && message.contains("last space"), "{message}");
    }
}

#[test]
fn accuracy_and_perplexity_of_passages_have_the_harness_names() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("made.jsonl");
    let texts =
        ["a clear stone", "a thing whom she trusted less than Harlin", "one two", "two one"];
    let lines = texts.map(|text| serde_json::json!({ "text": text }).to_string() + "\n").concat();
    fs::write(&data, lines).unwrap();
    let task = Task::Lambada(Lambada { name: "made".into(), data, protocol: Protocol::LmEval });
    let config = narrow_gpt2(64);
    let question = asked(texts[0]).unwrap().strict;
    let script = [(question.context().len() - 1, question.labels()[0])];
    let mut model = evaluated(&config, Known::scripted(&config, &script), 1);
    let result = task.run(&mut model, &plan(32, 1), &Silent).unwrap();
    let evaluation::Measured::LambadaLmEval(lambada::lm_eval::Measured {
        metrics, settings, ..
    }) = &result.measured
    else {
        panic!("{:?}", result.measured)
    };
    assert_eq!(metrics.acc, 0.25);
    // The sample's deviation: one less than the examples.
    assert_close(metrics.acc_stderr, (0.25_f64 * 0.75 / 3.0).sqrt(), 1e-12);
    assert_close(metrics.perplexity, (metrics.total_nll / 4.0).exp(), 1e-12);
    assert!(settings.comparable_with.contains("lambada_openai"));
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["protocol"], "lm-eval");
    assert!(json["settings"]["window"] == 64 && json["metrics"]["acc"].is_number(), "{json}");
}
