//! Attention against plain operations under burn's own gradients, and what must hold of it to the
//! bit.

use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Tensor, TensorData};
use training::backend::cpu::attention::{Attention, backward, forward};
use training::backend::cpu::vector::Vector;
use training::backend::{AttentionSettings, CpuAutodiff, VisibleKeys, attention};
use training::parallel::random::{DropoutMask, DropoutSite};

use super::levels::assert_levels_agree;
use super::{NO_NUMBERS, T, assert_near, leaf, made_up, mask, mask_values};
use crate::tensors::{self, constant, values};

const BATCH: usize = 3;
const HEADS: usize = 2;
const HEAD_SIZE: usize = 7;
const WIDTH: usize = HEADS * HEAD_SIZE;
/// Three blocks of queries, the last of which is not whole, and one that is smaller than a block.
const LENGTHS: [usize; 2] = [150, 29];

fn dropout() -> DropoutMask {
    mask(DropoutSite::AttentionProbabilities)
}

fn settings(visible: VisibleKeys, mask: Option<DropoutMask>) -> AttentionSettings {
    AttentionSettings { heads: HEADS, scale: 0.6, visible, mask }
}

/// All keys of one sample, one of another, and none of the third.
fn padded(seq: usize) -> VisibleKeys {
    VisibleKeys::Padded([seq, 1, 0].into())
}

/// Each combination of visible keys and dropout, for `seq` positions.
fn all_settings(seq: usize) -> [AttentionSettings; 5] {
    [
        settings(VisibleKeys::Causal, None),
        settings(VisibleKeys::Causal, Some(dropout())),
        settings(padded(seq), None),
        settings(padded(seq), Some(dropout())),
        settings(VisibleKeys::Padded([seq - 5, 12, 27].into()), Some(dropout())),
    ]
}

/// 1 where a query sees a key, else 0: `[batch, heads, seq, seq]`.
fn visible(settings: &AttentionSettings, seq: usize) -> Vec<f32> {
    let mut visible = Vec::new();
    for sample in 0..BATCH {
        for query in (0..HEADS).flat_map(|_| 0..seq) {
            let keys = match &settings.visible {
                VisibleKeys::Causal => query + 1,
                VisibleKeys::Padded(lengths) => lengths[sample],
            };
            visible.extend((0..seq).map(|key| f32::from(u8::from(key < keys))));
        }
    }
    visible
}

/// Attention as it is written down, with every score and probability at once.
fn plain(query_key_value: T<3>, settings: &AttentionSettings) -> T<3> {
    let [_, seq, _] = query_key_value.dims();
    let [query, key, value] = [0, 1, 2].map(|part| {
        let part = query_key_value.clone().narrow(2, part * WIDTH, WIDTH);
        part.reshape([BATCH, seq, HEADS, HEAD_SIZE]).swap_dims(1, 2)
    });
    let shape = [BATCH, HEADS, seq, seq];
    let visible = visible(settings, seq);
    let hidden: Vec<bool> = visible.iter().map(|&visible| visible == 0.0).collect();
    let hidden = TensorData::new(hidden, shape);
    let hidden = Tensor::<CpuAutodiff, 4, Bool>::from_data(hidden, &Default::default());
    let scores = query.matmul(key.swap_dims(2, 3)) * settings.scale;
    // The last factor is for rows that see nothing.
    let mut probabilities = softmax(scores.mask_fill(hidden, -1e4), 3) * constant(&visible, shape);
    if let Some(mask) = &settings.mask {
        probabilities =
            probabilities * constant(&mask_values(mask, BATCH, HEADS, seq * seq), shape);
    }
    probabilities.matmul(value).swap_dims(1, 2).reshape([BATCH, seq, WIDTH])
}

/// The context, and the gradient of queries, keys and values for a made-up one of the context.
fn run(
    seq: usize,
    settings: &AttentionSettings,
    operation: impl Fn(T<3>, &AttentionSettings) -> T<3>,
) -> [Vec<f32>; 2] {
    let input = leaf(1, [BATCH, seq, 3 * WIDTH]);
    let context = operation(input.clone(), settings);
    let shape = [BATCH, seq, WIDTH];
    let weights = constant(&made_up(2, shape.iter().product()), shape);
    let grads = (context.clone() * weights).sum().backward();
    [values(context), values(input.grad(&grads).unwrap())]
}

fn fused(query_key_value: T<3>, settings: &AttentionSettings) -> T<3> {
    attention(query_key_value, settings.clone())
}

#[test]
fn attention_equals_plain_operations() {
    for seq in LENGTHS {
        for settings in all_settings(seq) {
            let what = format!("{seq} positions, {settings:?}");
            let [context, gradient] = run(seq, &settings, fused);
            let [plain_context, plain_gradient] = run(seq, &settings, plain);
            assert_near(&context, &plain_context, 1e-5, &what);
            assert_near(&gradient, &plain_gradient, 2e-5, &what);
        }
    }
}

/// The kernels on made-up numbers: context, normalizers, gradient.
fn kernels(vector: Vector, seq: usize, settings: &AttentionSettings) -> [Vec<f32>; 3] {
    let input = made_up(1, BATCH * seq * 3 * WIDTH);
    let attention = Attention::new(&input, [BATCH, seq, 3 * WIDTH], settings);
    // What memory held before must not matter.
    let mut context = vec![f32::NAN; BATCH * seq * WIDTH];
    let mut normalizers = vec![[f32::NAN; 2]; BATCH * seq * HEADS];
    forward(vector, attention, &mut context, &mut normalizers);
    let mut gradient = vec![f32::NAN; input.len()];
    let context_gradient = made_up(2, context.len());
    backward(vector, attention, &normalizers, &context_gradient, &mut gradient);
    [context, normalizers.into_iter().flatten().collect(), gradient]
}

#[test]
fn vector_and_portable_attention_agree() {
    for settings in all_settings(LENGTHS[0]) {
        assert_levels_agree(1e-5, |vector| {
            let [context, _, gradient] = kernels(vector, LENGTHS[0], &settings);
            vec![("attention", context), ("attention, gradient", gradient)]
        });
    }
}

#[test]
fn attention_does_not_depend_on_the_number_of_threads() {
    let bits = |found: [Vec<f32>; 3]| found.map(|values| values.into_iter().map(f32::to_bits));
    for settings in all_settings(LENGTHS[0]) {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            bits(pool.install(|| kernels(Vector::best(), LENGTHS[0], &settings)))
                .map(Iterator::collect::<Vec<_>>)
        };
        let alone = run(1);
        assert!(alone == run(2) && alone == run(3), "{settings:?}");
    }
}

/// A rank that holds one head computes the columns that it has among both, to the bit: it draws
/// the same mask and adds in the same order.
#[test]
fn a_head_alone_is_what_it_is_among_others() {
    let seq = LENGTHS[0];
    let both = settings(VisibleKeys::Causal, Some(dropout()));
    let [context, _] = run(seq, &both, fused);
    for head in 0..HEADS {
        let input = made_up(1, BATCH * seq * 3 * WIDTH);
        let columns = |width: usize, values: &[f32]| -> Vec<f32> {
            let rows = values.chunks_exact(width);
            rows.flat_map(|row| row[head * HEAD_SIZE..][..HEAD_SIZE].to_vec()).collect()
        };
        let alone = AttentionSettings {
            heads: 1,
            mask: Some(dropout().with_first_head(head)),
            ..both.clone()
        };
        // Rows of queries, of keys, of values, in turn.
        let input = constant(&columns(WIDTH, &input), [BATCH, seq, 3 * HEAD_SIZE]);
        assert!(values(attention(input, alone)) == columns(WIDTH, &context), "head {head}");
    }
}

#[test]
fn what_pads_a_sample_has_no_gradient_and_no_say() {
    let seq = LENGTHS[0];
    let lengths = [seq - 5, 12, 0];
    for mask in [None, Some(dropout())] {
        let settings = settings(VisibleKeys::Padded(lengths.into()), mask);
        let run = |change: f32| {
            let mut input = made_up(1, BATCH * seq * 3 * WIDTH);
            for (row, numbers) in input.chunks_exact_mut(3 * WIDTH).enumerate() {
                if row % seq >= lengths[row / seq] {
                    numbers[WIDTH..].iter_mut().for_each(|number| *number *= change);
                }
            }
            let input = tensors::leaf(&input, [BATCH, seq, 3 * WIDTH]);
            let context = attention(input.clone(), settings.clone());
            let grads = context.clone().powf_scalar(2.0).sum().backward();
            [values(context), values(input.grad(&grads).unwrap())]
        };
        let [context, gradient] = run(1.0);
        assert!(context.iter().chain(&gradient).all(|number| number.is_finite()));
        for (row, gradient) in gradient.chunks_exact(3 * WIDTH).enumerate() {
            if row % seq >= lengths[row / seq] {
                assert!(gradient[WIDTH..].iter().all(|&number| number == 0.0), "row {row}");
            }
        }
        assert!(context[2 * seq * WIDTH..].iter().all(|&number| number == 0.0), "sees nothing");
        assert!(run(f32::NAN) == [context, gradient], "padding is never read");
    }
}

/// Context of one sample and head of one column, whose queries, keys and values are given.
fn of_one_column(vector: Vector, rows: &[[f32; 3]], scale: f64) -> Vec<f32> {
    let settings = AttentionSettings { heads: 1, scale, visible: VisibleKeys::Causal, mask: None };
    let attention = Attention::new(rows.as_flattened(), [1, rows.len(), 3], &settings);
    let mut context = vec![0.0; rows.len()];
    forward(vector, attention, &mut context, &mut vec![[0.0; 2]; rows.len()]);
    context
}

#[test]
fn extreme_scores_and_what_is_not_a_number() {
    for vector in Vector::all() {
        // One key: its value, whatever its score.
        assert_eq!(of_one_column(vector, &[[1e18, -1e18, 3.0]], 1.0), [3.0]);
        // Equal scores: the mean of the values so far.
        let rows: Vec<[f32; 3]> = (0..70).map(|i| [1e4, 1e4, i as f32]).collect();
        for (query, found) in of_one_column(vector, &rows, 1.0).iter().enumerate() {
            assert!((found - query as f32 / 2.0).abs() <= 1e-5 * query as f32, "{query}: {found}");
        }
        // Far from all others: the value of the largest score alone.
        let rows = [[1.0, 1e6, 1.0], [1.0, 2e6, 2.0], [1.0, -1e30, 3.0], [-1.0, 0.0, 4.0]];
        assert_eq!(of_one_column(vector, &rows, 1.0), [1.0, 2.0, 2.0, 3.0]);
        // A query that is not a number takes its row; a key or value all that see it.
        let parts = [(0, 1..2), (1, 1..3), (2, 1..3)];
        for ((part, lost), no_number) in
            parts.iter().cloned().flat_map(|part| NO_NUMBERS.map(|number| (part.clone(), number)))
        {
            let mut rows = [[0.5; 3]; 3];
            rows[1][part] = no_number;
            let found = of_one_column(vector, &rows, 1.0);
            assert!(found[lost].iter().all(|number| number.is_nan()), "{part}: {found:?}");
        }
    }
}
