//! Made-up findings, whole and with parts missing.

use serde_json::json;

use super::told::table3::{
    Contamination, CorpusState, Lambada, NGramOverlap, PaperOverlap, PaperRow, Size, Table3, Task,
    TestSet, WikiText103,
};
use super::told::{
    Curation, CurvePoint, Dropped, Ground, Machine, ModelShape, Part, PartState, Text, TextKind,
    Training, thinned,
};

/// Three sizes, of which each bigger one is better, on the published test sets.
pub(crate) fn reproduction() -> Table3 {
    Table3 {
        ground: ground(),
        paper_scale: false,
        test_sets: vec![
            test_set(Task::WikiText103, "wikitext103", "wiki.test.tokens"),
            test_set(Task::Lambada, "lambada", "lambada_test.jsonl"),
        ],
        contamination: contamination(),
        sizes: vec![
            size("small", 2, 64, 3_300_000, 0),
            size("medium", 6, 192, 12_400_000, 1),
            size("large", 8, 384, 33_700_000, 2),
        ],
        paper: PaperRow::table3(),
        paper_overlap: PaperOverlap::table3(),
    }
}

/// What it stands on.
pub(crate) fn ground() -> Ground {
    Ground {
        experiment: "table3-tiny".to_owned(),
        title: "Table 3 at the scale of one machine".to_owned(),
        date: "2026-11-30T20:17:54Z".to_owned(),
        version: "0.1.0".to_owned(),
        command: Some("pipeline reproduce --config configs/reproduce/table3-tiny.toml".to_owned()),
        machine: Machine {
            processor: Some("Made-up CPU @ 2.0 GHz".to_owned()),
            cores: 2,
            vector_kernels: "AVX-512".to_owned(),
            memory_bytes: Some(16_000_000_000),
        },
        text: Text {
            kind: TextKind::Machine,
            root: "~/.cargo/registry/src".to_owned(),
            documents: 12_345,
            bytes: 98_765_432,
            held_out_documents: 100,
        },
        curation: Some(Curation {
            documents_in: 12_245,
            dropped: vec![
                dropped("language", 120),
                dropped("too_short", 1_900),
                dropped("exact_duplicate", 3_025),
                dropped("near_duplicate", 1_011),
                dropped("contaminated", 3),
            ],
            documents_kept: 6_186,
            tokens: 9_876_543,
            tokenizer: "gpt2".to_owned(),
        }),
        settings: json!({
            "data": { "filter": { "min_words": 128 }, "near_duplicates": { "jaccard": 0.7 } },
            "train": { "seed": 1234, "optimizer": { "lr": 0.003 } },
            "sizes": [{ "name": "small" }, { "name": "medium" }, { "name": "large" }],
        }),
        parts: vec![
            part("text", PartState::Kept, 12.3),
            part("dedup", PartState::Kept, 45.6),
            part("train small", PartState::Done, 301.0),
            part("train medium", PartState::Done, 812.0),
            part("train large", PartState::Done, 1_204.0),
            part("evaluate", PartState::Done, 222.0),
        ],
        warnings: Vec::new(),
    }
}

/// One of the sizes; `rank` says how good it is.
pub(crate) fn size(
    name: &str,
    num_layers: usize,
    hidden_size: usize,
    parameters: u64,
    rank: usize,
) -> Size {
    let word_perplexity = [1_912.4, 1_105.9, 803.2][rank];
    Size {
        name: name.to_owned(),
        paper_row: Some(["355M", "2.5B", "8.3B"][rank].to_owned()),
        model: ModelShape {
            num_layers,
            hidden_size,
            num_attention_heads: 4,
            seq_length: 256,
            vocab_size: 50_257,
            padded_vocab_size: 50_304,
        },
        parameters,
        parameters_without_padding: parameters - 47 * hidden_size as u64,
        training: training(rank),
        wikitext103: Some(WikiText103 {
            protocol: "megatron".to_owned(),
            word_perplexity,
            token_perplexity: word_perplexity.powf(1.0 / 1.100_844_990_124_814_3),
            capped: false,
            total_nll: word_perplexity.ln() * 245_565.0,
            bits_per_byte: word_perplexity.ln() * 245_565.0 / 2_f64.ln() / 1_281_077.0,
            tokens: 270_330,
            original_tokens: 245_566,
            token_ratio: 1.100_844_990_124_814_3,
            targets: 270_329,
            window: 256,
            overlap: 256,
            partial: false,
            seconds: 31.4,
        }),
        lambada: Some(Lambada {
            protocol: "megatron".to_owned(),
            strict_accuracy: [0.000_194, 0.000_776, 0.004_852][rank],
            strict_stderr: [0.000_194, 0.000_388, 0.000_968][rank],
            last_token_accuracy: [0.012, 0.02, 0.031][rank],
            last_token_stderr: [0.001_5, 0.002, 0.002_4][rank],
            target_perplexity: [91_234.0, 40_321.0, 18_765.0][rank],
            examples: 5_153,
            label_tokens: 6_542,
            window: 256,
            partial: false,
            seconds: 21.0,
        }),
        peak_rss_bytes: Some(1_800_000_000),
    }
}

fn training(rank: usize) -> Training {
    let floor = [6.05, 5.35, 4.85][rank];
    let loss = |step: u64| floor + (10.82 - floor) * (-(step as f64) / 90.0).exp();
    let point = |step: u64| {
        // A batch's own luck, always the same.
        let noise = ((step * 2_654_435_761 % 1_000) as f64 / 1_000.0 - 0.5) * 0.3;
        CurvePoint { tokens: step * 8_192, loss: loss(step) + noise }
    };
    let validation = |step: u64| CurvePoint { tokens: step * 8_192, loss: loss(step) + 0.06 };
    Training {
        tokens: 1_000 * 8_192,
        epochs: Some(0.83),
        steps: 1_000,
        global_batch_size: 32,
        lr: 0.003,
        tensor_parallel_size: 1,
        data_parallel_size: 2,
        final_loss: Some(loss(1_000)),
        validation_loss: Some(loss(1_000) + 0.06),
        loss_curve: thinned((1..=1_000).map(point), 400),
        validation_curve: (1..=10).map(|it| validation(it * 100)).collect(),
        seconds: [301.0, 812.0, 1_204.0][rank],
    }
}

fn dropped(reason: &str, documents: u64) -> Dropped {
    Dropped { reason: reason.to_owned(), documents }
}

fn test_set(task: Task, name: &str, file: &str) -> TestSet {
    TestSet { task, name: name.to_owned(), file: file.to_owned(), published: true }
}

fn part(name: &str, state: PartState, seconds: f64) -> Part {
    let name = name.to_owned();
    let (seconds, peak_rss_bytes) = (Some(seconds), Some(1_500_000_000));
    Part { name, state, seconds, peak_rss_bytes, warnings: Vec::new() }
}

fn contamination() -> Vec<Contamination> {
    let of = |test_set: &str, corpus, positions: u64, first: f64| Contamination {
        test_set: test_set.to_owned(),
        corpus,
        by_ngram: (5..=13)
            .map(|ngram_words| {
                let matched = (first * 0.45_f64.powi(ngram_words as i32 - 5)) as u64;
                NGramOverlap {
                    ngram_words,
                    positions: positions - ngram_words as u64,
                    matched_positions: matched,
                    distinct: positions - 3 * ngram_words as u64,
                    matched_distinct: matched * 9 / 10,
                }
            })
            .collect(),
    };
    vec![
        of("wikitext103", CorpusState::Raw, 206_598, 9_120.0),
        of("wikitext103", CorpusState::Curated, 206_598, 1_410.0),
        of("lambada", CorpusState::Raw, 280_363, 612.0),
        of("lambada", CorpusState::Curated, 280_363, 40.0),
    ]
}
