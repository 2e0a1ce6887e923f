//! Tables that are plain rows and columns.

use super::super::super::numerals::{
    bytes, duration, grouped, loss, or_dash, percent, perplexity, rate,
};
use super::super::super::page::{Column, Table};
use super::super::Table3Report;
use super::super::facts::{Lambada, Size, Task, WikiText103};
use super::super::verdict::Metric;
use super::scores::score;

/// What the scores on one test set depend on.
pub(super) struct Protocol {
    pub(super) title: String,
    pub(super) text: &'static str,
    pub(super) table: Table,
}

pub(super) fn test_sets(report: &Table3Report) -> Table {
    let rows = report.found.test_sets.iter().map(|test_set| {
        let published = match test_set.published {
            true => format!("the published {}", test_set.task.benchmark()),
            false => format!("in the form of {}, not the benchmark", test_set.task.benchmark()),
        };
        vec![test_set.name.clone(), published, test_set.file.clone()]
    });
    let columns = ["test set", "what it is", "file"];
    Table {
        columns: columns.map(|name| Column { name: name.to_owned(), is_number: false }).to_vec(),
        rows: rows.collect(),
    }
}

/// A line of a table that has a column for each size.
type Line = (&'static str, fn(&Size) -> String);

/// A table with a column for each size.
fn by_size(first: &str, sizes: &[&Size], lines: &[Line]) -> Table {
    let columns = [first.to_owned()].into_iter().chain(sizes.iter().map(|it| it.name.clone()));
    let rows = lines.iter().map(|(name, value)| {
        [(*name).to_owned()].into_iter().chain(sizes.iter().map(|size| value(size))).collect()
    });
    Table::named(columns, rows.collect())
}

pub(super) fn models(sizes: &[Size]) -> Table {
    const LINES: &[Line] = &[
        ("parameters, the vocabulary padded", |it| grouped(it.parameters)),
        ("parameters without the padding", |it| grouped(it.parameters_without_padding)),
        ("layers", |it| it.model.num_layers.to_string()),
        ("hidden size", |it| grouped(it.model.hidden_size as u64)),
        ("attention heads", |it| it.model.num_attention_heads.to_string()),
        ("sequence length", |it| grouped(it.model.seq_length as u64)),
        ("vocabulary", |it| grouped(it.model.vocab_size as u64)),
        ("vocabulary, padded", |it| grouped(it.model.padded_vocab_size)),
        ("tokens seen", |it| grouped(it.training.tokens)),
        ("epochs", |it| or_dash(it.training.epochs, |epochs| format!("{epochs:.2}"))),
        ("steps", |it| grouped(it.training.steps)),
        ("sequences of a step", |it| grouped(it.training.global_batch_size as u64)),
        ("highest learning rate", |it| rate(it.training.lr)),
        ("tensor-parallel × data-parallel ranks", |it| {
            format!("{} × {}", it.training.tensor_parallel_size, it.training.data_parallel_size)
        }),
        ("training loss at the end, nats a token", |it| or_dash(it.training.final_loss, loss)),
        ("validation loss at the end, nats a token", |it| {
            or_dash(it.training.validation_loss, loss)
        }),
        ("training, wall time", |it| duration(it.training.seconds)),
        ("tokens a second", |it| {
            or_dash(it.training.tokens_per_second(), |speed| grouped(speed as u64))
        }),
        ("peak memory of the process", |it| or_dash(it.peak_rss_bytes, bytes)),
        ("stands beside the paper's", |it| or_dash(it.paper_row.clone(), |name| name)),
    ];
    by_size("model", &sizes.iter().collect::<Vec<_>>(), LINES)
}

pub(super) fn protocols(report: &Table3Report) -> Vec<Protocol> {
    const WIKITEXT103: &[Line] = &[
        ("word perplexity", |it| of_wikitext103(it, |_| score(Metric::WordPerplexity, it))),
        ("token perplexity", |it| of_wikitext103(it, |s| perplexity(s.token_perplexity))),
        ("bits a byte", |it| of_wikitext103(it, |s| format!("{:.4}", s.bits_per_byte))),
        ("negative log-likelihood, nats", |it| {
            of_wikitext103(it, |s| grouped(s.total_nll.max(0.0).round() as u64))
        }),
        ("T, tokens after detokenizing", |it| of_wikitext103(it, |s| grouped(s.tokens))),
        ("To, words of the file", |it| of_wikitext103(it, |s| grouped(s.original_tokens))),
        ("(T - 1) / (To - 1)", |it| of_wikitext103(it, |s| format!("{:.6}", s.token_ratio))),
        ("targets scored", |it| of_wikitext103(it, |s| grouped(s.targets))),
        ("window, tokens", |it| of_wikitext103(it, |s| grouped(s.window as u64))),
        ("overlap, tokens", |it| of_wikitext103(it, |s| grouped(s.overlap as u64))),
        ("protocol", |it| of_wikitext103(it, |s| s.protocol.clone())),
        ("wall time", |it| of_wikitext103(it, |s| duration(s.seconds))),
    ];
    const LAMBADA: &[Line] = &[
        ("strict accuracy", |it| of_lambada(it, |_| score(Metric::StrictAccuracy, it))),
        ("last-token accuracy", |it| {
            of_lambada(it, |s| {
                format!("{} ± {}", percent(s.last_token_accuracy), percent(s.last_token_stderr))
            })
        }),
        ("target perplexity", |it| of_lambada(it, |s| perplexity(s.target_perplexity))),
        ("the same, all tokens alike", |it| {
            of_lambada(it, |s| perplexity(s.uniform_target_perplexity(it.model.vocab_size)))
        }),
        ("examples", |it| of_lambada(it, |s| grouped(s.examples))),
        ("tokens of the last words", |it| of_lambada(it, |s| grouped(s.label_tokens))),
        ("window, tokens", |it| of_lambada(it, |s| grouped(s.window as u64))),
        ("protocol", |it| of_lambada(it, |s| s.protocol.clone())),
        ("wall time", |it| of_lambada(it, |s| duration(s.seconds))),
    ];
    let found = &report.found;
    let of = |task, text, lines: &[Line], has: fn(&Size) -> bool| {
        let sizes: Vec<_> = found.sizes.iter().filter(|size| has(size)).collect();
        (!sizes.is_empty()).then(|| Protocol {
            title: found.name_of(task),
            text,
            table: by_size("model", &sizes, lines),
        })
    };
    let wikitext103 = of(
        Task::WikiText103,
        "Word perplexity is exp(NLL / (To - 1)): the likelihood of the detokenized text's tokens, \
         per word of the original file. Windows of the model's sequence length start every \
         overlap tokens; each token is scored once.",
        WIKITEXT103,
        |size| size.wikitext103.is_some(),
    );
    let lambada = of(
        Task::Lambada,
        "Strict accuracy: every token of the last word must be the most probable one. Last-token \
         accuracy asks for the last token only and is always shown apart. Target perplexity: exp \
         of the mean negative log-likelihood of a last word, summed over its tokens.",
        LAMBADA,
        |size| size.lambada.is_some(),
    );
    wikitext103.into_iter().chain(lambada).collect()
}

fn of_wikitext103(size: &Size, text: impl FnOnce(&WikiText103) -> String) -> String {
    or_dash(size.wikitext103.as_ref(), text)
}

fn of_lambada(size: &Size, text: impl FnOnce(&Lambada) -> String) -> String {
    or_dash(size.lambada.as_ref(), text)
}
