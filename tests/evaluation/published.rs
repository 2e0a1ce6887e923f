//! Both published test sets, whole, under a small model with made-up weights.

use corpus::Silent;
use evaluation::lambada::{self, Lambada};
use evaluation::wikitext103::{self, WikiText103};
use evaluation::{EvalPlan, EvalReport, EvaluatedModel, Items, Measured, Protocol, Task};
use training::model::Gpt2Config;
use training::parameters::KeyedInit;

use super::{assert_close, evaluated, narrow_gpt2, plan, positive, published_file};

/// What is measured of a report: that of the text and that of the last words.
fn measured(report: &EvalReport) -> (&wikitext103::Measured, &lambada::Measured) {
    match [&report.results[0].measured, &report.results[1].measured] {
        [Measured::WikiText103(text), Measured::Lambada(words)] => (text, words),
        other => panic!("{other:?}"),
    }
}

fn run(plan: &EvalPlan, model: &mut EvaluatedModel) -> EvalReport {
    let results = plan.tasks.iter().map(|task| task.run(model, plan, &Silent).unwrap());
    EvalReport { results: results.collect() }
}

#[test]
fn both_test_sets_are_scored_whole_and_alike_by_other_batches_and_ranks() {
    let Some(text) = published_file("wiki.test.tokens") else { return };
    let Some(passages) = published_file("lambada_test.jsonl") else { return };
    let config = Gpt2Config { hidden_size: 16, ..narrow_gpt2(256) };
    let protocol = Protocol::Megatron;
    let tasks = vec![
        Task::WikiText103(WikiText103 { name: wikitext103::NAME.into(), data: text, protocol }),
        Task::Lambada(Lambada { name: lambada::NAME.into(), data: passages, protocol }),
    ];
    let evaluated = |micro_batch_size, ranks| {
        let mut model = evaluated(&config, KeyedInit { seed: 3 }, ranks);
        let plan = EvalPlan {
            tasks: tasks.clone(),
            micro_batch_size: positive(micro_batch_size),
            ..plan(256, ranks)
        };
        run(&plan, &mut model)
    };
    let report = evaluated(8, 1);
    let (text, words) = measured(&report);

    assert_eq!((text.counts.original_tokens, text.counts.tokens), (245_566, 270_330));
    assert_eq!((text.counts.targets, text.counts.windows), (270_329, 1_056));
    assert_eq!(text.settings.token_ratio, 1.100_844_990_124_814_3);
    assert!(text.settings.published_test_split);
    // As its weights are small numbers around zero, the model hardly knows one token from another.
    assert_close(text.metrics.token_perplexity, 50_257.0, 0.05);
    let ratio = text.settings.token_ratio;
    assert_close(text.metrics.word_perplexity, text.metrics.token_perplexity.powf(ratio), 1e-9);
    assert_close(
        text.metrics.bits_per_byte,
        text.metrics.total_nll / 2_f64.ln() / 1_281_077.0,
        1e-12,
    );

    assert_eq!((words.counts.examples, words.counts.label_tokens), (5_153, 6_542));
    assert_eq!((words.counts.multi_token_words, words.counts.examples_cut), (1_140, 0));
    assert!(words.settings.common.published_test_set);
    assert!(words.metrics.strict_accuracy <= words.metrics.last_token_accuracy);
    assert_close(words.metrics.total_nll / 6_542.0, 50_257_f64.ln(), 0.01);

    let Some(Items::Articles(articles)) = &report.results[0].items else { panic!() };
    assert_eq!(articles.len(), 60);
    let sum = |of: fn(&evaluation::ArticleScore) -> usize| articles.iter().map(of).sum::<usize>();
    assert_eq!((sum(|it| it.words), sum(|it| it.targets)), (245_565, 270_329));
    assert_close(articles.iter().map(|it| it.nll).sum(), text.metrics.total_nll, 1e-12);
    let Some(Items::Examples(examples)) = &report.results[1].items else { panic!() };
    assert_eq!(examples.iter().filter(|it| it.target_tokens.len() > 1).count(), 1_140);

    let other = evaluated(3, 2);
    let (other_text, other_words) = measured(&other);
    assert_close(other_text.metrics.total_nll, text.metrics.total_nll, 1e-6);
    assert_close(other_words.metrics.total_nll, words.metrics.total_nll, 1e-6);
    assert_eq!(other_text.counts, text.counts);
}
