//! WikiText103's protocol on models whose losses are known.

use std::fs;

use corpus::Silent;
use evaluation::detokenizer::{count_original_tokens, detokenize};
use evaluation::wikitext103::{Measured, TestText, cut, lm_eval};
use evaluation::{ArticleScore, EvalPlan, Items, TaskResult};

use super::{
    Known, Zeros, assert_close, evaluated, identity, made_text, measured, narrow_gpt2, plan,
    positive, reference, run_on_text, sha256, task, wikitext103_test_file,
};

/// Three articles. Marks of one pair with those of the next, an equation looks like a heading, and
/// the last heading is joined to the text before it by the rule for brackets.
const ARTICLES: &str = " \n = Tin ( element ) = \n \n Tin melts at 231 @.@ 9 ° C , and is \" soft ( as \
                        such \n \n = = Uses = = \n \n It is used for resistance of \n = 1 ohm at \
                        frequency f = \n 2 hertz . \n \n = Zinc ) \" blende \" = \n \n Zinc 's not \
                        naïve – 好 , <unk> ( \n \n = Lead ) = \n \n Lead is heavy . \n";

fn articles(result: &TaskResult) -> &[ArticleScore] {
    match &result.items {
        Some(Items::Articles(articles)) => articles,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_uniform_model_has_word_perplexity_of_vocabulary_to_the_token_ratio() {
    for tensor_parallel_size in [1, 2] {
        let mut model = evaluated(&narrow_gpt2(64), Zeros, tensor_parallel_size);
        let result = run_on_text(made_text(), &mut model, &plan(32, tensor_parallel_size)).unwrap();
        let Measured { metrics, counts, settings, .. } = measured(&result);
        let ratio = (counts.tokens - 1) as f64 / (counts.original_tokens - 1) as f64;
        assert_eq!(settings.token_ratio, ratio);
        assert_eq!(counts.targets, counts.tokens - 1);
        // The loss is an f32: 1e-7 relative, times the exponent of about 13.
        assert_close(metrics.word_perplexity, 50_257_f64.powf(ratio), 3e-6);
        assert_close(metrics.token_perplexity, 50_257.0, 3e-6);
        assert_close(metrics.total_nll, 50_257_f64.ln() * counts.targets as f64, 2e-7);
        let bits = 50_257_f64.log2() * counts.targets as f64;
        assert_close(metrics.bits_per_byte, bits / made_text().len() as f64, 2e-7);
    }
}

#[test]
fn a_bigram_model_scores_the_same_total_in_windows_as_pair_by_pair() {
    let config = narrow_gpt2(64);
    let bigram = Known::bigram(&config);
    let tokenizer = corpus::tokenizer::open("gpt2").unwrap();
    let mut tokens = Vec::new();
    tokenizer.encode(&detokenize(&made_text()), &mut tokens).unwrap();
    let expected: f64 = tokens.windows(2).map(|pair| bigram.nll(pair[0], 0, pair[1])).sum();

    let mut model = evaluated(&config, bigram, 1);
    for overlap in [64, 32, 7] {
        let result = run_on_text(made_text(), &mut model, &plan(overlap, 1)).unwrap();
        // f32 losses of some 10 nats, summed over 350 targets in f64.
        let Measured { metrics, counts, .. } = measured(&result);
        assert_close(metrics.total_nll, expected, 1e-6);
        // Times the exponent of about 14.
        let words = (count_original_tokens(&made_text()) - 1) as f64;
        assert_close(metrics.word_perplexity, (expected / words).exp(), 2e-5);
        let targets = (tokens.len() - 1) as f64;
        assert_close(metrics.token_perplexity, (expected / targets).exp(), 2e-5);
        assert_close(metrics.bits_per_byte, expected / 2_f64.ln() / made_text().len() as f64, 1e-6);
        assert_eq!(counts.targets, tokens.len() - 1);
    }
}

#[test]
fn every_article_has_its_part_of_the_words_the_targets_and_the_loss() {
    let config = narrow_gpt2(16);
    let bigram = Known::bigram(&config);
    let tokenizer = corpus::tokenizer::open("gpt2").unwrap();
    let text = detokenize(ARTICLES);
    let mut tokens = Vec::new();
    tokenizer.encode(&text, &mut tokens).unwrap();
    // Where the articles begin in the detokenized text, which has lost the line end before one.
    let starts = [0, text.find("= Zinc").unwrap(), text.find("= Lead").unwrap()];
    assert_eq!(&text[starts[2] - 1..starts[2]], "(", "{text:?}");
    // A token's first byte: what is decoded so far, but for the part of a character at its end.
    let place = |index: usize| {
        let decoded = tokenizer.decode(&tokens[..index]);
        decoded.trim_end_matches('\u{fffd}').len()
    };
    let mut nll = [0.0; 3];
    let mut targets = [0; 3];
    for index in 1..tokens.len() {
        let article = starts.iter().filter(|&&start| start <= place(index)).count() - 1;
        nll[article] += bigram.nll(tokens[index - 1], 0, tokens[index]);
        targets[article] += 1;
    }

    let mut model = evaluated(&config, bigram, 1);
    let result = run_on_text(ARTICLES, &mut model, &plan(5, 1)).unwrap();
    let items = articles(&result);
    let titles: Vec<_> = items.iter().map(|item| item.title.as_deref().unwrap()).collect();
    assert_eq!(titles, ["Tin ( element )", "Zinc ) \" blende \"", "Lead )"]);
    assert_eq!(items.iter().map(|item| item.line).collect::<Vec<_>>(), [2, 12, 16]);
    for (item, (nll, targets)) in items.iter().zip(nll.into_iter().zip(targets)) {
        assert_eq!((item.targets, item.scored), (targets, targets), "{item:?}");
        assert_close(item.nll, nll, 1e-6);
        // Every original token has a space before it, but for the first.
        let part =
            ARTICLES[item.bytes.clone()].trim_matches(|it: char| item.index == 0 && it == ' ');
        let part = if item.index == 0 { part.trim_start() } else { part };
        let part = if item.index == 2 { part.trim_end() } else { part };
        assert_eq!(item.words, part.matches(' ').count(), "{part:?}");
    }
    let Measured { counts, .. } = measured(&result);
    assert_eq!(items.iter().map(|item| item.words).sum::<usize>(), counts.original_tokens - 1);
    assert_eq!(items.iter().map(|item| item.targets).sum::<usize>(), counts.tokens - 1);
    assert_eq!((items[0].bytes.start, items[2].bytes.end), (0, ARTICLES.len()));
    assert!(items.windows(2).all(|pair| pair[0].bytes.end == pair[1].bytes.start));
}

#[test]
fn a_limit_leaves_the_articles_that_were_reached() {
    let mut model = evaluated(&narrow_gpt2(16), Zeros, 1);
    let plan = EvalPlan { limit: Some(positive(2)), ..plan(16, 1) };
    let result = run_on_text(ARTICLES, &mut model, &plan).unwrap();
    let [item] = articles(&result) else { panic!("{:?}", result.items) };
    assert_eq!(item.scored, 32);
    assert!(item.targets > 32, "{item:?}");
    // Words count in proportion, so a uniform model has the same perplexity for the article.
    let ratio = item.targets as f64 / item.words as f64;
    assert_close(item.word_perplexity.unwrap(), 50_257_f64.powf(ratio), 3e-6);
}

#[test]
fn items_are_lines_of_json() {
    let mut model = evaluated(&narrow_gpt2(16), Zeros, 1);
    let result = run_on_text(ARTICLES, &mut model, &plan(16, 1)).unwrap();
    let mut lines = Vec::new();
    result.items.as_ref().unwrap().write_jsonl(&mut lines).unwrap();
    let lines = crate::support::lines_of(std::str::from_utf8(&lines).unwrap());
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (&lines[1]["title"], &lines[1]["line"]),
        (&"Zinc ) \" blende \"".into(), &12.into())
    );
    assert!(
        lines.iter().all(|line| line["nll"].is_number() && line["word_perplexity"].is_number())
    );
    // They are no part of the report.
    assert!(serde_json::to_value(&result).unwrap().get("items").is_none());
}

#[test]
fn wikitext103_has_the_references_tokens_and_none_of_its_wrong_counts() {
    let Some(data) = wikitext103_test_file() else { return };
    let expected = &reference("evaldata")["wikitext103_test"];
    let model = identity(&narrow_gpt2(1024));
    let tokens = TestText::read(&data, &model).unwrap().tokens;
    assert_eq!(tokens.len() as u64, expected["tokens"]);
    assert_eq!(serde_json::json!(tokens[..20]), expected["first20"]);
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    assert_eq!(sha256(bytes), expected["sha256_ids_u32le"].as_str().unwrap());

    let text = fs::read_to_string(&data).unwrap();
    assert_eq!(sha256(&text), expected["sha256_text"].as_str().unwrap());
    let wrong = &expected["wrong"];
    assert_eq!(model.encode(&text).unwrap().len() as u64, wrong["no_detok_tokens"]);
    assert_eq!(text.split_whitespace().count() as u64, wrong["whitespace_words"]);
    assert_eq!(lm_eval::count_words(&text) as u64, wrong["regex_split_words_lm_eval"]);
    // Sixty articles; two lines of equations are headings to lm-evaluation-harness.
    assert_eq!((cut(&text).len(), lm_eval::pages(&text).len()), (60, 62));
}

#[test]
fn the_report_states_every_setting() {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    let result = run_on_text(made_text(), &mut model, &plan(32, 1)).unwrap();
    let json =
        serde_json::to_value(evaluation::EvalReport { results: vec![result.clone()] }).unwrap();
    let result_json = &json["results"][0];
    assert_eq!(result_json["task"], "made");
    assert_eq!(result_json["protocol"], "megatron");
    assert_eq!(result_json["partial"], false);
    assert_eq!(result_json["settings"]["window"], 64);
    assert_eq!(result_json["settings"]["overlap"], 32);
    assert_eq!(result_json["settings"]["published_test_split"], false);
    assert_eq!(result_json["settings"]["tokenizer"], "gpt2");
    assert_eq!(result_json["settings"]["padded_vocabulary"], "masked");
    let table = evaluation::EvalReport { results: vec![result] }.to_string();
    for section in ["metrics", "counts", "settings"] {
        for name in result_json[section].as_object().unwrap().keys() {
            assert!(table.contains(name.as_str()), "{name} is missing in\n{table}");
        }
    }
}

#[test]
fn a_limit_scores_that_many_windows_and_marks_the_result_partial() {
    let mut model = evaluated(&narrow_gpt2(64), Zeros, 1);
    let plan = EvalPlan { limit: Some(positive(3)), ..plan(32, 1) };
    let result = run_on_text(made_text(), &mut model, &plan).unwrap();
    let Measured { metrics, counts, settings, .. } = measured(&result);
    assert!(result.partial);
    assert_eq!((counts.windows_scored, counts.targets), (3, 64 + 32 + 32));
    // Words count in proportion, so a uniform model keeps its perplexity.
    assert_close(metrics.word_perplexity, 50_257_f64.powf(settings.token_ratio), 3e-6);
}

#[test]
fn wikitext103_has_the_papers_counts() {
    let Some(data) = wikitext103_test_file() else { return };
    let expected = &reference("evaldata")["wikitext103_test"];
    let mut model = evaluated(&narrow_gpt2(1024), Zeros, 1);
    let plan = EvalPlan { limit: Some(positive(2)), ..plan(32, 1) };
    let result = task(data).run(&mut model, &plan, &Silent).unwrap();
    let Measured { counts, settings, .. } = measured(&result);
    assert_eq!(counts.bytes as u64, expected["bytes"].as_u64().unwrap());
    assert!(settings.published_test_split);
    assert_eq!(counts.original_tokens, 245_566);
    assert_eq!(counts.tokens, 270_330);
    assert_eq!(counts.windows, 8_448);
    assert_eq!(settings.token_ratio, 1.100_844_990_124_814_3);
}
