//! A linear layer as one operation, against burn's product and sum.

use burn::tensor::{Tensor, s};
use training::backend::{Precision, convert, lend_sum, linear, reclaim_sum};

use super::{BATCH, SEQ, T, assert_near, leaf};
use crate::tensors::values;

const IN: usize = 37;
const OUT: usize = 53;

fn inputs() -> (T<3>, T<2>, T<1>, T<3>) {
    let (input, weight) = (leaf(1, [BATCH, SEQ, IN]), leaf(2, [IN, OUT]));
    // What the gradient of the output is made of.
    (input, weight, leaf(3, [OUT]), leaf(4, [BATCH, SEQ, OUT]))
}

#[test]
fn linear_is_product_plus_bias_forward_and_backward() {
    let (input, weight, bias, factor) = inputs();
    for has_bias in [true, false] {
        let output = linear(input.clone(), weight.clone(), has_bias.then(|| bias.clone()));
        let mut expected = input.clone().matmul(weight.clone().unsqueeze());
        if has_bias {
            expected = expected + bias.clone().unsqueeze();
        }
        assert_near(&values(output.clone()), &values(expected.clone()), 1e-5, "output");

        let found = (output * factor.clone()).sum().backward();
        let known = (expected * factor.clone()).sum().backward();
        let gradients = |of: &_| {
            let (input, weight) = (input.grad(of).unwrap(), weight.grad(of).unwrap());
            (values(input), values(weight), bias.grad(of).map(values))
        };
        let (found, known) = (gradients(&found), gradients(&known));
        assert_near(&found.0, &known.0, 1e-5, "gradient of the input");
        assert_near(&found.1, &known.1, 1e-5, "gradient of the weight");
        assert_eq!(found.2.is_some(), has_bias);
        if let (Some(found), Some(known)) = (found.2, known.2) {
            assert_near(&found, &known, 1e-5, "gradient of the bias");
        }
    }
}

#[test]
fn input_that_is_a_view_of_another_tensor_is_read_where_it_lies() {
    let (input, weight, bias, _) = inputs();
    let whole = Tensor::cat(vec![input.clone(), input.clone() + 1.0], 2);
    let view = whole.slice(s![.., .., IN..]);
    let output = linear(view, weight.clone(), Some(bias.clone()));
    let expected = linear(input + 1.0, weight, Some(bias));
    assert_eq!(values(output), values(expected));
}

#[test]
fn weight_that_is_used_twice_gets_the_sum_of_both_gradients() {
    let (input, weight, _, factor) = inputs();
    let both = linear(input.clone(), weight.clone(), None) * factor.clone()
        + linear(input.clone() * 2.0, weight.clone(), None) * factor.clone();
    let both = weight.grad(&both.sum().backward()).unwrap();
    let once = (linear(input, weight.clone(), None) * factor).sum().backward();
    let once = weight.grad(&once).unwrap() * 3.0;
    assert_near(&values(both), &values(once), 1e-5, "sum");
}

#[test]
fn lent_sum_is_added_to_in_its_own_memory() {
    let (input, weight, bias, factor) = inputs();
    let pass = |bias: Option<T<1>>| {
        let output = linear(input.clone(), weight.clone(), bias);
        let mut found = (output * factor.clone()).sum().backward();
        weight.grad_remove(&mut found).unwrap()
    };
    let once = values(pass(None));
    let sum: T<2> = Tensor::full([IN, OUT], 0.5, &weight.device());
    let sum = sum.into_data();
    let place = sum.as_bytes().as_ptr();
    lend_sum(weight.clone(), Tensor::from_data(sum, &weight.device()));
    let found = pass(None);
    let expected: Vec<f32> = once.iter().map(|value| value + 0.5).collect();
    let found = found.into_data();
    assert_eq!(found.as_bytes().as_ptr(), place);
    assert_near(found.as_slice().unwrap(), &expected, 1e-5, "sum");
    assert!(reclaim_sum(weight.clone()).is_none(), "the pass took it");
    assert_eq!(values(pass(None)), once, "the next pass knows nothing of it");

    // A parameter that no kernel adds to in place keeps what was lent.
    let sum = Tensor::full([OUT], 0.25, &weight.device());
    lend_sum(bias.clone(), Tensor::from_inner(sum));
    pass(Some(bias.clone()));
    assert_eq!(values(reclaim_sum(bias).unwrap()), [0.25; OUT]);
}

#[test]
fn in_16_bits_the_sum_is_rounded_once_and_the_weights_gradient_not_at_all() {
    let (input, weight, bias, _) = inputs();
    for precision in [Precision::Bf16, Precision::F16] {
        let narrow = convert(input.clone(), precision);
        let output = linear(narrow.clone(), weight.clone(), Some(bias.clone()));
        assert_eq!(Precision::of(output.dtype()), precision);
        let wide = |tensor: T<2>| convert(convert(tensor, precision), Precision::F32);
        let exact =
            linear(convert(narrow, Precision::F32), wide(weight.clone()), Some(bias.clone()));
        let expected = convert(exact, precision);
        let (found, expected) =
            (convert(output, Precision::F32), convert(expected, Precision::F32));
        assert_eq!(values(found.clone()), values(expected));
        let found = found.sum().backward();
        assert_eq!(Precision::of(weight.grad(&found).unwrap().dtype()), Precision::F32);
    }
}
