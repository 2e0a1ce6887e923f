//! Integration tests.

mod training;
