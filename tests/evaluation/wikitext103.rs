//! WikiText103's protocol on models whose losses are known.

use corpus::Silent;
use evaluation::EvalPlan;
use evaluation::detokenizer::detokenize;
use evaluation::wikitext103::Measured;

use super::{
    Known, Zeros, assert_close, evaluated, made_text, measured, narrow_gpt2, plan, positive,
    reference, run_on_text, task, wikitext103_test_file,
};

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
        assert_close(measured(&result).metrics.total_nll, expected, 1e-6);
    }
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
