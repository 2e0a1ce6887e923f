//! Integration tests.

mod evaluation;
mod inference;
mod tokenizer;
mod training;
