//! Sums of a few `f64` over a group, to the last bit.

use super::{Collective, CollectiveError};

/// The sum of each of `values` over the ranks, added in `f64` in rank order: the same bits on every
/// rank.
///
/// Collectives carry `f32`. Each rank sends the 64 bits of a number as four whole numbers below
/// 65,536, which `f32` holds exactly, so that nothing is lost on the way whatever the number's
/// size.
///
/// # Errors
///
/// When the ranks have come apart.
pub fn sum_exactly<const N: usize>(
    collective: &dyn Collective,
    name: &str,
    values: [f64; N],
) -> Result<[f64; N], CollectiveError> {
    let sums = sum_all_exactly(collective, name, &values)?;
    Ok(std::array::from_fn(|i| sums[i]))
}

/// [`sum_exactly`] of as many values as there are.
///
/// # Errors
///
/// When the ranks have come apart.
pub fn sum_all_exactly(
    collective: &dyn Collective,
    name: &str,
    values: &[f64],
) -> Result<Vec<f64>, CollectiveError> {
    let parts: Vec<f32> = values.iter().flat_map(|value| split(*value)).collect();
    let gathered = collective.all_gather(name.into(), &parts)?;
    let mut sums = vec![0.0; values.len()];
    for rank in gathered.chunks_exact(parts.len()) {
        for (sum, parts) in sums.iter_mut().zip(rank.chunks_exact(4)) {
            *sum += join(parts);
        }
    }
    Ok(sums)
}

fn split(value: f64) -> [f32; 4] {
    [48, 32, 16, 0].map(|shift| f32::from((value.to_bits() >> shift) as u16))
}

fn join(parts: &[f32]) -> f64 {
    f64::from_bits(parts.iter().fold(0, |bits, &part| bits << 16 | u64::from(part as u16)))
}
