//! Integration tests: one binary, so that burn is linked once. One module for each area.

#![allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod bert;
mod cli;
mod collective;
mod curation;
mod demo;
mod evaluation;
mod fine_tuning;
mod generation;
mod inference;
mod kernels;
mod lm_eval;
mod micro_gpt2;
mod model;
mod parallel;
mod readers;
mod report;
mod reproduce;
mod shards;
mod support;
mod tensors;
mod tokenizer;
mod training;
mod transformers;
