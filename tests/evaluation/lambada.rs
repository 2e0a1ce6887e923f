//! LAMBADA's protocol: what is asked of a passage, on the published test set and on models whose
//! answers are known.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corpus::tokenizer::{EncodeScratch, Encoded, Gpt2Tokenizer, Sink, Tokenizer};
use corpus::{CorpusError, Silent};
use evaluation::cloze::{self, ClozeExample};
use evaluation::lambada::{Lambada, Measured};
use evaluation::{EvalError, EvalPlan, EvaluatedModel, Items, Protocol, Task, TaskResult};

use super::{
    Known, Zeros, assert_close, evaluated, identity, narrow_gpt2, plan, positive, published_file,
    reference, sha256,
};

/// Four passages whose last word is one token, is two, has a mark before it, and stands in the text
/// twice.
const PASSAGES: [&str; 4] = [
    "In my palm is a clear stone",
    "She had known him for years, and yet there was nobody whom she trusted less than Harlin",
    "Nobody had seen it before him.\n\nHe looked at the thing in her hand for a while and then \
     he said, \"stone",
    "A stone fell on another stone",
];

fn task(data: impl Into<PathBuf>) -> Task {
    Task::Lambada(Lambada {
        name: "made".to_owned(),
        data: data.into(),
        protocol: Protocol::Megatron,
    })
}

/// Runs the task on `lines`, written to a file.
fn run_on_lines(
    lines: impl AsRef<[u8]>,
    model: &mut EvaluatedModel,
    plan: &EvalPlan,
) -> Result<TaskResult, EvalError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.jsonl");
    fs::write(&file, lines).unwrap();
    task(file).run(model, plan, &Silent)
}

fn jsonl(texts: &[&str]) -> String {
    texts.iter().map(|text| serde_json::json!({ "text": text }).to_string() + "\n").collect()
}

fn measured(result: &TaskResult) -> &Measured {
    match &result.measured {
        evaluation::Measured::Lambada(measured) => measured,
        other => panic!("{other:?}"),
    }
}

/// The passages as a model with the window `seq_length` is asked about them.
fn examples(texts: &[&str], seq_length: usize) -> Vec<ClozeExample> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.jsonl");
    fs::write(&file, jsonl(texts)).unwrap();
    let model = identity(&narrow_gpt2(seq_length));
    let passages = cloze::read(&file).unwrap();
    passages.iter().map(|passage| ClozeExample::new(passage, &model).unwrap()).collect()
}

fn decoded(tokens: &[u32]) -> String {
    corpus::tokenizer::open("gpt2").unwrap().decode(tokens)
}

#[test]
fn the_last_word_is_asked_for_with_its_space_and_the_marks_that_touch_it() {
    let words = [" stone", " Harlin", " \"stone", " stone"];
    let num_labels = [1, 2, 2, 1];
    for ((example, passage), (word, count)) in
        examples(&PASSAGES, 64).iter().zip(PASSAGES).zip(words.iter().zip(num_labels))
    {
        assert_eq!(decoded(example.strict.labels()), *word);
        assert_eq!(example.strict.labels().len(), count);
        let context = passage.strip_suffix(word).unwrap();
        assert_eq!(decoded(example.strict.context()), context);
        assert_eq!(example.last_token, None, "one pass answers both");
    }
}

#[test]
fn a_line_end_before_the_last_word_takes_a_pass_of_its_own_for_the_last_token() {
    let example = &examples(&["Nobody came.\n\nStone  \n"], 64)[0];
    assert_eq!(decoded(example.strict.context()), "Nobody came.");
    assert_eq!(decoded(example.strict.labels()), " Stone");
    let last_token = example.last_token.as_ref().unwrap();
    assert_eq!(
        decoded(last_token.context()) + &decoded(last_token.labels()),
        "Nobody came.\n\nStone"
    );
    assert_eq!(last_token.labels().len(), 1);
}

#[test]
fn strict_and_last_token_accuracy_are_those_of_a_model_with_known_answers() {
    let config = narrow_gpt2(64);
    let asked: Vec<_> = examples(&PASSAGES, 64).into_iter().map(|example| example.strict).collect();
    let position = |index: usize| asked[index].context().len() - 1;
    let label = |index: usize, label: usize| asked[index].labels()[label];
    // Right in the first two passages; in the third in the last token only; in the fourth in none.
    let script = [
        (position(0), label(0, 0)),
        (position(1), label(1, 0)),
        (position(1) + 1, label(1, 1)),
        (position(2), 0),
        (position(2) + 1, label(2, 1)),
        (position(3), 0),
    ];
    assert!((1..script.len()).all(|i| script[..i].iter().all(|other| other.0 != script[i].0)));
    let known = Known::scripted(&config, &script);
    let nll: f64 = asked
        .iter()
        .map(|question| {
            let window = question.window();
            let target = |position: usize| {
                known.nll(window.tokens[position], position, window.tokens[position + 1])
            };
            window.scored.map(target).sum::<f64>()
        })
        .sum();

    for (micro_batch_size, ranks) in [(8, 1), (1, 1), (3, 1), (3, 2), (8, 4)] {
        let config = training::model::Gpt2Config { num_attention_heads: 4, ..config.clone() };
        let mut model = evaluated(&config, known.clone(), ranks);
        let plan = EvalPlan { micro_batch_size: positive(micro_batch_size), ..plan(32, ranks) };
        let result = run_on_lines(jsonl(&PASSAGES), &mut model, &plan).unwrap();
        let Measured { metrics, counts, .. } = measured(&result);
        assert_eq!(metrics.strict_accuracy, 0.5);
        assert_eq!(metrics.strict_stderr, 0.25);
        assert_eq!(metrics.last_token_accuracy, 0.75);
        assert_close(metrics.last_token_stderr, (0.75_f64 * 0.25 / 4.0).sqrt(), 1e-12);
        // The sum over the vocabulary is f32: 50,000 exponentials with 2e-7 of error each.
        assert_close(metrics.total_nll, nll, 3e-6);
        // Times the exponent of about 7.
        assert_close(metrics.target_perplexity, (nll / 4.0).exp(), 3e-5);
        assert_eq!((counts.examples, counts.label_tokens, counts.multi_token_words), (4, 6, 2));
        assert!(!result.partial);
    }
}

#[test]
fn every_example_is_told_with_what_was_guessed() {
    let config = narrow_gpt2(64);
    let asked: Vec<_> = examples(&PASSAGES, 64).into_iter().map(|example| example.strict).collect();
    let long = asked[2].context().len() - 1;
    // In the third passage the last token is right and the one before is not.
    let script = [(long, 17), (long + 1, asked[2].labels()[1])];
    let mut model = evaluated(&config, Known::scripted(&config, &script), 1);
    let result = run_on_lines(jsonl(&PASSAGES), &mut model, &plan(32, 1)).unwrap();
    let Some(Items::Examples(items)) = &result.items else { panic!("{:?}", result.items) };
    assert_eq!(items.len(), 4);
    let item = &items[2];
    assert_eq!((item.index, item.line), (2, 3));
    assert_eq!((item.strict, item.last_token), (false, true));
    assert_eq!(item.target, " \"stone");
    assert_eq!(item.target_tokens, asked[2].labels());
    assert_eq!(item.predicted_tokens, [17, asked[2].labels()[1]]);
    assert_eq!(item.predicted, decoded(&item.predicted_tokens));
    assert_eq!(item.context_tail.chars().count(), 80);
    assert!(PASSAGES[2].strip_suffix(" \"stone").unwrap().ends_with(&item.context_tail));
    assert_eq!(items[0].context_tail, "In my palm is a clear");
    let total: f64 = items.iter().map(|item| item.nll).sum();
    assert_close(total, measured(&result).metrics.total_nll, 1e-12);

    let mut lines = Vec::new();
    result.items.as_ref().unwrap().write_jsonl(&mut lines).unwrap();
    let lines = crate::support::lines_of(std::str::from_utf8(&lines).unwrap());
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[2]["target"], " \"stone");
    assert_eq!((&lines[2]["strict"], &lines[2]["last_token"]), (&false.into(), &true.into()));
}

#[test]
fn the_last_token_of_a_text_with_a_line_end_before_its_last_word_is_scored_in_its_own_context() {
    let text = "Nobody came.\n\nStone";
    let asked = examples(&[text], 64).remove(0);
    let last_token = asked.last_token.unwrap();
    let config = narrow_gpt2(64);
    let script = [(last_token.context().len() - 1, last_token.labels()[0])];
    assert_ne!(script[0].0, asked.strict.context().len() - 1);
    let mut model = evaluated(&config, Known::scripted(&config, &script), 1);
    let result = run_on_lines(jsonl(&[text]), &mut model, &plan(32, 1)).unwrap();
    let Measured { metrics, counts, .. } = measured(&result);
    assert_eq!((metrics.strict_accuracy, metrics.last_token_accuracy), (0.0, 1.0));
    assert_eq!(counts.examples_encoded_twice, 1);
}

#[test]
fn a_uniform_model_has_target_perplexity_of_the_vocabulary_to_the_tokens_of_a_word() {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 2);
    let result = run_on_lines(jsonl(&PASSAGES), &mut model, &plan(32, 2)).unwrap();
    let metrics = measured(&result).metrics;
    // Six label tokens in four words; the loss is an f32: 1e-7 relative, times the exponent of
    // about 16.
    assert_close(metrics.target_perplexity, 50_257_f64.powf(1.5), 3e-6);
    // Of equal tokens the lowest is predicted, which is no word.
    assert_eq!((metrics.strict_accuracy, metrics.last_token_accuracy), (0.0, 0.0));
}

#[test]
fn a_context_longer_than_the_window_loses_its_beginning_and_is_counted() {
    let cut = examples(&PASSAGES, 8);
    for (cut, whole) in cut.iter().zip(examples(&PASSAGES, 64)) {
        assert_eq!(cut.strict.labels(), whole.strict.labels());
        assert!(whole.strict.context().ends_with(cut.strict.context()));
        assert_eq!(cut.strict.num_cut() + cut.strict.context().len(), whole.strict.context().len());
        // Every position of the window is used: the last label is no input.
        let num_inputs = cut.strict.context().len() + cut.strict.labels().len() - 1;
        assert!(num_inputs == 8 || cut.strict.num_cut() == 0);
    }
    let mut model = evaluated(&narrow_gpt2(8), Zeros, 1);
    let result = run_on_lines(jsonl(&PASSAGES), &mut model, &plan(8, 1)).unwrap();
    let counts = measured(&result).counts;
    assert_eq!(counts.examples_cut, 2);
    assert_eq!(
        counts.context_tokens_cut,
        cut.iter().map(|example| example.strict.num_cut()).sum::<usize>()
    );
    assert_eq!(counts.context_tokens + counts.label_tokens, {
        let whole = examples(&PASSAGES, 64);
        whole.iter().map(|example| example.strict.num_tokens()).sum::<usize>()
    });
}

/// GPT-2's tokenizer, but for texts that end in a stone: each of these is one token.
struct Stones(Gpt2Tokenizer);

impl Tokenizer for Stones {
    fn name(&self) -> &str {
        "stones"
    }

    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }

    fn eod(&self) -> u32 {
        self.0.eod()
    }

    fn fingerprint(&self) -> String {
        "stones".to_owned()
    }

    fn encode_to(
        &self,
        text: &str,
        scratch: &mut EncodeScratch,
        sink: Sink<'_>,
    ) -> Result<Encoded, CorpusError> {
        let text = if text.ends_with("stone") { " stone" } else { text };
        self.0.encode_to(text, scratch, sink)
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.0.decode(ids)
    }
}

#[test]
fn a_tokenizer_that_makes_one_token_of_context_and_word_is_an_error_with_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.jsonl");
    fs::write(&file, jsonl(&["a clear stone"])).unwrap();
    let mut model = identity(&narrow_gpt2(64));
    model.tokenizer = Arc::new(Stones(Gpt2Tokenizer::new()));
    let passages = cloze::read(&file).unwrap();
    for example in [ClozeExample::new, ClozeExample::lm_eval] {
        let error = example(&passages[0], &model).unwrap_err().to_string();
        assert!(
            error.contains("made.jsonl:1: ") && error.contains("leave the line out"),
            "{error}"
        );
    }
}

#[test]
fn white_space_is_what_the_original_takes_for_it() {
    // The separators of ASCII are white space there, and none for most others.
    let example = &examples(&["a clear\u{1f}stone\u{1c}"], 64)[0];
    assert_eq!(decoded(example.strict.context()), "a clear");
    assert_eq!(decoded(example.strict.labels()), " stone");
}

#[test]
fn a_perplexity_beyond_all_numbers_is_told_as_the_largest() {
    let config = narrow_gpt2(64);
    let asked = examples(&PASSAGES[..1], 64).remove(0).strict;
    let mut wrong = Known::scripted(&config, &[(asked.context().len() - 1, 17)]);
    wrong.embeddings.iter_mut().for_each(|weight| *weight *= 1e3);
    let mut model = evaluated(&config, wrong, 1);
    let result = run_on_lines(jsonl(&PASSAGES[..1]), &mut model, &plan(32, 1)).unwrap();
    let metrics = measured(&result).metrics;
    assert!(metrics.total_nll > 1e3 && metrics.total_nll.is_finite(), "{metrics:?}");
    assert_eq!(metrics.target_perplexity, f64::MAX);
    let json = serde_json::to_value(&result).unwrap();
    assert!(json["metrics"]["target_perplexity"].is_number(), "{json}");
}

#[test]
fn a_limit_scores_the_first_examples_and_marks_the_result_partial() {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    let plan = EvalPlan { limit: Some(positive(2)), ..plan(32, 1) };
    let result = run_on_lines(jsonl(&PASSAGES), &mut model, &plan).unwrap();
    let Measured { counts, settings, .. } = measured(&result);
    assert!(result.partial);
    assert_eq!((counts.examples, counts.examples_in_file, counts.label_tokens), (2, 4, 3));
    assert_eq!(settings.common.scoring.limit, Some(2));
}

#[test]
fn the_table_names_both_accuracies_and_every_setting() {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    let result = run_on_lines(jsonl(&PASSAGES), &mut model, &plan(32, 1)).unwrap();
    let report = evaluation::EvalReport { results: vec![result] };
    let json = serde_json::to_value(&report).unwrap();
    let table = report.to_string();
    for section in ["metrics", "counts", "settings"] {
        for name in json["results"][0][section].as_object().unwrap().keys() {
            assert!(table.contains(name.as_str()), "{name} is missing in\n{table}");
        }
    }
    assert!(json["results"][0]["metrics"]["strict_accuracy"].is_number());
    assert!(json["results"][0]["metrics"]["last_token_accuracy"].is_number());
    assert_eq!(json["results"][0]["settings"]["published_test_set"], false);
}

#[test]
fn lines_that_are_no_examples_are_refused_with_file_line_and_remedy() {
    let good = r#"{"text": "a good line"}"#;
    for (bad, problem) in [
        (&br#"{"content": "some words"}"#[..], "no key \"text\" (keys present: content)"),
        (br#"{"text": 5}"#, "key \"text\" holds"),
        (br#"{"text": null}"#, "the text is null"),
        (br#"["some words"]"#, "an array where an object should be"),
        (b"some words", "no JSON"),
        (br#"{"text": "some "#, "breaks off"),
        (b"{\"text\": \"some \xff\"}", "invalid UTF-8"),
        (b"", "blank line"),
        (br#"{"text": ""}"#, "the text is empty"),
        (br#"{"text": " \n "}"#, "the text is empty"),
        (br#"{"text": " word\n"}"#, "the text is one word, with no context"),
    ] {
        let lines = [good.as_bytes(), b"\n", bad, b"\n", good.as_bytes()].concat();
        let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
        let error = run_on_lines(lines, &mut model, &plan(32, 1)).unwrap_err();
        assert!(matches!(error, EvalError::BadExample { line: 2, .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains("made.jsonl:2: ") && message.contains(problem), "{message}");
        assert!(message.contains("each line must be an object {\"text\""), "{message}");
    }
}

#[test]
fn a_test_file_without_lines_is_refused() {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    let error = run_on_lines("", &mut model, &plan(32, 1)).unwrap_err();
    assert!(error.to_string().contains("made.jsonl is empty"), "{error}");
}

#[test]
fn a_word_of_more_tokens_than_the_model_sees_is_refused() {
    let mut model = evaluated(&narrow_gpt2(4), Zeros, 1);
    let text = "the longest word is Pneumonoultramicroscopicsilicovolcanoconiosis";
    let error = run_on_lines(jsonl(&[text]), &mut model, &plan(4, 1)).unwrap_err();
    assert!(error.to_string().contains("too many for a model that sees 4"), "{error}");
}

/// The published test set as a model with a window of 1,024 is asked about it.
fn published() -> Option<(PathBuf, Vec<ClozeExample>)> {
    let data = published_file("lambada_test.jsonl")?;
    let model = identity(&narrow_gpt2(1024));
    let passages = cloze::read(&data).unwrap();
    let examples = passages.iter().map(|passage| ClozeExample::new(passage, &model).unwrap());
    Some((data.clone(), examples.collect()))
}

/// sha256 of token ids one after another, as the reference has them.
fn sha256_of_tokens<'a>(tokens: impl Iterator<Item = &'a [u32]>) -> String {
    sha256(tokens.flatten().flat_map(|token| token.to_le_bytes()).collect::<Vec<u8>>())
}

#[test]
fn the_published_test_set_has_the_references_tokens() {
    let Some((_, examples)) = published() else { return };
    let expected = &reference("evaldata")["lambada"];

    let strict = &expected["strict"];
    let contexts = || examples.iter().map(|example| example.strict.context());
    let labels = || examples.iter().map(|example| example.strict.labels());
    assert_eq!(sha256_of_tokens(contexts()), strict["sha256_context"]);
    assert_eq!(sha256_of_tokens(labels()), strict["sha256_labels"]);

    let last_token = &expected["nonstrict"];
    let whole: Vec<Vec<u32>> = examples
        .iter()
        .map(|example| {
            let question = example.last_token.as_ref().unwrap_or(&example.strict);
            [question.context(), question.labels()].concat()
        })
        .collect();
    let contexts = whole.iter().map(|tokens| &tokens[..tokens.len() - 1]);
    let labels = whole.iter().map(|tokens| &tokens[tokens.len() - 1..]);
    assert_eq!(sha256_of_tokens(contexts), last_token["sha256_context"]);
    assert_eq!(sha256_of_tokens(labels), last_token["sha256_labels"]);

    let encoded_twice: Vec<usize> =
        (0..examples.len()).filter(|&index| examples[index].last_token.is_some()).collect();
    assert_eq!(serde_json::json!(encoded_twice), expected["newline_before_last_word"]);
    for example in expected["examples"].as_array().unwrap() {
        let index = example["i"].as_u64().unwrap() as usize;
        assert_eq!(serde_json::json!(examples[index].strict.labels()), example["strict_label_ids"]);
    }
}

#[test]
fn the_published_test_set_has_the_references_counts() {
    let Some((data, _)) = published() else { return };
    let expected = &reference("evaldata")["lambada"];
    let model = identity(&narrow_gpt2(1024));
    let plan = plan(32, 1);
    let summary = task(&data).summary(&model, &plan).unwrap();
    assert_eq!((summary.examples, summary.targets), (Some(5_153), 6_542));
    assert_eq!(summary.tokens, 423_675 + 6_542);
    // 5,153 examples and 7 more for their last token, 8 at a time.
    assert_eq!(summary.forward_passes, 5_153_usize.div_ceil(8) + 1);
    // Less than one position in 200 is padding; no example computes its last label.
    let computed = summary.tokens - 5_153;
    assert!((computed..computed + computed / 200).contains(&summary.token_positions));

    let mut model = evaluated(&narrow_gpt2(1024), Zeros, 1);
    let limited = EvalPlan { limit: Some(positive(20)), ..plan };
    let result = task(&data).run(&mut model, &limited, &Silent).unwrap();
    assert!(measured(&result).settings.common.published_test_set);
    assert_eq!(measured(&result).counts.examples_in_file, 5_153);
    assert_eq!(expected["strict"]["label_tokens"], 6_542);
}

#[test]
fn the_whole_published_test_set_is_scored_by_a_uniform_model() {
    let Some((data, _)) = published() else { return };
    let mut model = evaluated(&narrow_gpt2(256), Zeros, 1);
    let result = task(data).run(&mut model, &plan(32, 1), &Silent).unwrap();
    let Measured { metrics, counts, .. } = measured(&result);
    assert_eq!((counts.examples, counts.label_tokens), (5_153, 6_542));
    assert_eq!((counts.multi_token_words, counts.longest_example), (1_140, 224));
    assert_eq!((counts.context_tokens, counts.examples_cut), (423_675, 0));
    assert_eq!(counts.examples_encoded_twice, 7);
    assert_close(metrics.target_perplexity, 50_257_f64.powf(6_542.0 / 5_153.0), 3e-6);
}

#[test]
fn a_missing_test_file_is_named() {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    let error = task(Path::new("no/such/file.jsonl")).run(&mut model, &plan(32, 1), &Silent);
    assert!(error.unwrap_err().to_string().contains("no/such/file.jsonl"));
}
