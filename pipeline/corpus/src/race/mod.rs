//! RACE: articles of English examinations with multiple-choice questions, and the rows of tokens
//! that a model is asked by.
//!
//! [`RaceSet::read`] takes the folder as it is published; [`RaceRows`] makes of a question one row
//! for each of its four options, as the paper's implementation does. Nothing here knows a model.
//!
//! # Source
//!
//! Lai et al. 2017, *RACE: Large-scale ReAding Comprehension Dataset From Examinations*; Shoeybi et
//! al., section 5.3; the original's `tasks/race/data.py`. The data set is for research only and
//! belongs to whoever has it.

mod fingerprint;
mod question;
mod reader;
mod rows;

pub use question::{OPTIONS, RaceArticle, RaceLevel, RaceQuestion, RaceSplit};
pub use reader::RaceSet;
pub use rows::{RaceRow, RaceRows, clean_text};

#[cfg(test)]
mod tests;
