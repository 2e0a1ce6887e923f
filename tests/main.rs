//! Integration tests: one binary, so that burn is linked once. One module for each area.

#![allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod collective;
mod kernels;
mod model;
mod parallel;
mod training;
