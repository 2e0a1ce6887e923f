//! Integration tests: one binary, one module per area, so that burn is linked once.

#![allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod training;
