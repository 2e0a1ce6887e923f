//! *f*, *g*, and a column-parallel layer followed by a row-parallel one.

use burn::module::Module;
use burn::tensor::Tensor;
use training::TrainError;
use training::backend::{Activation, CpuAutodiff, bias_gelu};
use training::model::{Init, ParameterSource, ParameterSpec, Split};
use training::parallel::{
    ColumnParallelLinear, ColumnParallelLinearConfig, ParallelDims, Region, RowParallelLinear,
    RowParallelLinearConfig, TensorParallelGroup, copy_to_region, launch, reduce_from_region,
};
use training::parameters::ParameterLoader;

use crate::tensors::{assert_close, constant, leaf, made_up, values};

#[test]
fn f_is_the_identity_and_its_gradient_the_sum_over_ranks() {
    let results = launch(ParallelDims::one_replica(3), |rank| {
        let region = Region::new(&rank.tensor_parallel, "test");
        let x = leaf(&[1.0, 2.0], [2]);
        let y = copy_to_region(x.clone(), &region);
        let own = [10.0, 100.0, 1000.0][rank.index()];
        let grads = (y.clone() * constant(&[own, 2.0 * own], [2])).sum().backward();
        Ok((values(y), values(x.grad(&grads).unwrap())))
    });
    for (output, gradient) in results.unwrap() {
        assert_eq!(output, [1.0, 2.0]);
        assert_eq!(gradient, [1110.0, 2220.0]);
    }
}

#[test]
fn g_sums_over_ranks_and_its_gradient_is_the_identity() {
    let results = launch(ParallelDims::one_replica(3), |rank| {
        let region = Region::new(&rank.tensor_parallel, "test");
        let own = [1.0, 10.0, 100.0][rank.index()];
        let x = leaf(&[own, 2.0 * own], [2]);
        let y = reduce_from_region(x.clone(), &region);
        let grads = (y.clone() * constant(&[3.0, 5.0], [2])).sum().backward();
        Ok((values(y), values(x.grad(&grads).unwrap())))
    });
    for (output, gradient) in results.unwrap() {
        assert_eq!(output, [111.0, 222.0]);
        assert_eq!(gradient, [3.0, 5.0]);
    }
}

#[test]
fn a_group_of_one_makes_f_and_g_the_identity() {
    let region = Region::new(&TensorParallelGroup::single(), "test");
    let x = leaf(&[1.0, -2.0], [2]);
    let y = reduce_from_region(copy_to_region(x.clone(), &region), &region);
    let grads = (y.clone() * constant(&[3.0, 5.0], [2])).sum().backward();
    assert_eq!(values(y), [1.0, -2.0]);
    assert_eq!(values(x.grad(&grads).unwrap()), [3.0, 5.0]);
}

/// The gradient through *f*, a different function on each rank, and *g* is the derivative of the
/// sum of those functions.
#[test]
fn f_and_g_around_a_function_agree_with_finite_differences() {
    let point = [0.3_f32, -0.7, 1.1];
    let loss_and_gradient = |point: [f32; 3]| {
        let results = launch(ParallelDims::one_replica(2), |rank| {
            let region = Region::new(&rank.tensor_parallel, "test");
            let x = leaf(&point, [3]);
            let copied = copy_to_region(x.clone(), &region);
            let own = if rank.is_main() { copied.exp() } else { copied.sin() * 2.0 };
            let loss = reduce_from_region(own, &region).powf_scalar(2.0).sum();
            let value = loss.clone().into_scalar();
            Ok((value, values(x.grad(&loss.backward()).unwrap())))
        });
        results.unwrap().swap_remove(1)
    };
    let (_, gradient) = loss_and_gradient(point);
    for i in 0..3 {
        // The rounding of a loss around 10 in f32 over 2e-2 leaves 1e-4 of noise; the third
        // derivative adds about as much.
        let step = 1e-2;
        let moved = |sign: f32| {
            let mut moved = point;
            moved[i] += sign * step;
            loss_and_gradient(moved).0
        };
        let numeric = (moved(1.0) - moved(-1.0)) / (2.0 * step);
        assert!((numeric - gradient[i]).abs() < 3e-3 * numeric.abs().max(1.0));
    }
}

/// Input 12, inner 20, output 12, with biases.
struct MadeUpMlp;

const WIDTH: usize = 12;
const INNER: usize = 20;

impl MadeUpMlp {
    fn table() -> Vec<ParameterSpec> {
        let spec = |path: &str, shape: &[usize], split| ParameterSpec {
            path: path.to_owned(),
            name: path.to_owned(),
            shape: shape.to_vec(),
            split,
            init: Init::Zeros,
            weight_decay: true,
        };
        vec![
            spec("up.weight", &[WIDTH, INNER], Split::Dim { dim: 1, blocks: 1 }),
            spec("up.bias", &[INNER], Split::Dim { dim: 0, blocks: 1 }),
            spec("down.weight", &[INNER, WIDTH], Split::Dim { dim: 0, blocks: 1 }),
            spec("down.bias", &[WIDTH], Split::Replicated),
        ]
    }
}

impl ParameterSource for MadeUpMlp {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        let full = made_up(spec.path.len() as u32, spec.num_elements());
        Ok(spec.slice(&full, rank, size))
    }
}

#[derive(Module, Debug)]
struct Mlp<B: training::backend::TpBackend> {
    up: ColumnParallelLinear<B>,
    down: RowParallelLinear<B>,
}

/// Output, and gradients of (input, up.weight, up.bias, down.weight, down.bias), on each rank.
fn run_mlp(size: usize) -> Vec<[Vec<f32>; 6]> {
    let results = launch(ParallelDims::one_replica(size), |rank| {
        let (table, device) = (MadeUpMlp::table(), Default::default());
        let parameters: ParameterLoader<'_, CpuAutodiff> =
            ParameterLoader::new(&table, &MadeUpMlp, &rank.tensor_parallel, &device);
        let up = ColumnParallelLinearConfig::new("mlp", WIDTH, INNER);
        let down = RowParallelLinearConfig::new("mlp", INNER, WIDTH);
        let mlp = Mlp {
            up: up.init(&parameters.child("up"))?,
            down: down.init(&parameters.child("down"))?,
        };
        let shape = [2, 3, WIDTH];
        let x: Tensor<CpuAutodiff, 3> = leaf(&made_up(1, 6 * WIDTH), shape);
        let units = bias_gelu(mlp.up.product(x.clone()), mlp.up.bias.val(), Activation::Gelu);
        let y = mlp.down.forward(units);
        let grads = (y.clone() * constant(&made_up(2, 6 * WIDTH), shape)).sum().backward();
        Ok([
            values(y),
            values(x.grad(&grads).unwrap()),
            values(mlp.up.weight.val().grad(&grads).unwrap()),
            values(mlp.up.bias.val().grad(&grads).unwrap()),
            values(mlp.down.weight.val().grad(&grads).unwrap()),
            values(mlp.down.bias.val().grad(&grads).unwrap()),
        ])
    });
    results.unwrap()
}

#[test]
fn column_then_row_equals_dense() {
    let dense = run_mlp(1).remove(0);
    // Sums of 20 products of numbers below 1 in other orders.
    let tolerance = 1e-5;
    for size in [2, 4] {
        for (rank, results) in run_mlp(size).iter().enumerate() {
            assert_close(&results[0], &dense[0], tolerance);
            assert_close(&results[1], &dense[1], tolerance);
            for (spec, i) in MadeUpMlp::table().iter().zip(2..) {
                assert_close(&results[i], &spec.slice(&dense[i], rank, size), tolerance);
            }
        }
    }
}

#[test]
fn a_width_that_does_not_divide_is_named() {
    let result = launch(ParallelDims::one_replica(3), |rank| {
        let (table, device) = (MadeUpMlp::table(), Default::default());
        let parameters: ParameterLoader<'_, CpuAutodiff> =
            ParameterLoader::new(&table, &MadeUpMlp, &rank.tensor_parallel, &device);
        ColumnParallelLinearConfig::new("mlp", WIDTH, INNER)
            .init(&parameters.child("up"))
            .map(|_| ())
    });
    let message = result.unwrap_err().to_string();
    let expected = "up.d_output = 20 does not split over 3 tensor-parallel ranks";
    assert!(message.ends_with(expected), "{message}");
}
