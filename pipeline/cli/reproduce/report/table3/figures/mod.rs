//! The page's figures: what each shows, what is said of it, and its numbers as a table.

mod contamination;
mod losses;
mod scores;

pub(super) use contamination::contamination;
pub(super) use losses::losses;
pub(super) use scores::{strict_accuracy, target_perplexity, word_perplexity};

use super::super::chart::Scale;
use super::super::figure::TICKS;

/// A scale for shares from 0 on, which has room for something where all are 0.
fn share_scale(shares: impl Iterator<Item = f64>) -> Scale {
    let highest = shares.filter(|it| it.is_finite()).fold(0.0, f64::max);
    Scale::linear([0.0, if highest == 0.0 { 0.01 } else { highest }], TICKS)
}
