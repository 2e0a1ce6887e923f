//! Integration tests: one binary, so that burn is linked once. One module for each area.

#![allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod evaluation;
mod inference;
mod tokenizer;
mod training;
