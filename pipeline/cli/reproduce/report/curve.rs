//! A loss over the tokens seen, few enough points to draw.

use serde::{Deserialize, Serialize};

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct CurvePoint {
    /// Tokens seen.
    pub(crate) tokens: u64,
    /// Loss in nats a token.
    pub(crate) loss: f64,
}

/// At most `most` points that stand for `points`: each the mean of a stretch of them, all stretches
/// being of one length but the last. Losses that are no number are left out.
///
/// # Panics
///
/// If `most` is 0.
pub(crate) fn thinned(
    points: impl IntoIterator<Item = CurvePoint>,
    most: usize,
) -> Vec<CurvePoint> {
    let points: Vec<_> = points.into_iter().filter(|point| point.loss.is_finite()).collect();
    let stretch = points.len().div_ceil(most).max(1);
    points.chunks(stretch).map(mean).collect()
}

fn mean(points: &[CurvePoint]) -> CurvePoint {
    let count = points.len();
    let tokens: u128 = points.iter().map(|point| u128::from(point.tokens)).sum();
    let loss: f64 = points.iter().map(|point| point.loss).sum();
    CurvePoint { tokens: (tokens / count as u128) as u64, loss: loss / count as f64 }
}
