//! The matrices of linear layers, which other programs hold the other way round.

use crate::parameters::ParameterSpec;

/// Whether a parameter is the matrix of a linear layer, `[d_input, d_output]` here; the tables of the
/// embeddings are not.
pub(super) fn is_linear_weight(spec: &ParameterSpec) -> bool {
    spec.shape.len() == 2 && !spec.path.starts_with("embedding.")
}

/// `[columns, rows]` of what is `[rows, columns]`.
pub(super) fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns)
        .flat_map(|column| (0..rows).map(move |row| row * columns + column))
        .map(|index| values[index])
        .collect()
}
