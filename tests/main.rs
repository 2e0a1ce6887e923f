//! Integration tests.

#[test]
fn empty() {}
