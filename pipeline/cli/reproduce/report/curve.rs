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

/// At most `most` points that stand for `points`: each the mean of a stretch of them, the stretches
/// being as equally long as they can be. Losses that are no number are left out.
pub(crate) fn thinned(
    points: impl IntoIterator<Item = CurvePoint>,
    most: usize,
) -> Vec<CurvePoint> {
    let points: Vec<_> = points.into_iter().filter(|point| point.loss.is_finite()).collect();
    let count = points.len().min(most);
    let start = |stretch: usize| stretch * points.len() / count;
    (0..count).map(|stretch| mean(&points[start(stretch)..start(stretch + 1)])).collect()
}

fn mean(points: &[CurvePoint]) -> CurvePoint {
    let count = points.len();
    let tokens: u128 = points.iter().map(|point| u128::from(point.tokens)).sum();
    let loss: f64 = points.iter().map(|point| point.loss).sum();
    CurvePoint { tokens: (tokens / count as u128) as u64, loss: loss / count as f64 }
}

/// The points as values with the tokens that were seen.
pub(super) fn at(points: &[CurvePoint]) -> Vec<(u64, f64)> {
    points.iter().map(|point| (point.tokens, point.loss)).collect()
}
