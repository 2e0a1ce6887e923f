//! The gradient's norm and AdamW, over all parameters of the model.

use std::cell::RefCell;

use burn::tensor::{Tensor, TensorData};
use training::backend::{Activation, Cpu};
use training::model::Gpt2Config;
use training::optim::{AdamWConfig, Moments, Parameter, Update, grad_norm};
use training::parallel::TensorParallelGroup;
use training::parameters::ParameterSpec;

use super::operation::{Call, Operation, numbers};
use crate::{HEADS, HIDDEN, LAYERS, SEQ, VOCABULARY};

pub(crate) fn all() -> Vec<Operation> {
    vec![
        Operation::new("norm of the gradient", norm(), stock_norm()),
        Operation::new("AdamW", adamw(), stock_adamw()),
    ]
}

fn specs() -> Vec<ParameterSpec> {
    let config = Gpt2Config {
        num_layers: LAYERS,
        hidden_size: HIDDEN,
        num_attention_heads: HEADS,
        seq_length: SEQ,
        vocab_size: VOCABULARY,
        ffn_hidden_size: None,
        hidden_dropout: 0.0,
        attention_dropout: 0.0,
        activation: Activation::Gelu,
        layer_norm_epsilon: 1e-5,
        init_std: 0.02,
    };
    config.parameters()
}

/// Numbers for every parameter.
fn flat() -> Vec<Vec<f32>> {
    let size = |spec: &ParameterSpec| spec.local_shape(0, 1).iter().product();
    specs().iter().map(|spec| numbers(size(spec), 1)).collect()
}

fn tensors() -> Vec<Tensor<Cpu, 1>> {
    let tensor = |values: Vec<f32>| {
        let len = values.len();
        Tensor::from_data(TensorData::new(values, [len]), &Default::default())
    };
    flat().into_iter().map(tensor).collect()
}

fn norm() -> Call {
    let (specs, gradients, group) = (specs(), flat(), TensorParallelGroup::single());
    Box::new(move |times| {
        let gradients = gradients.iter().map(Vec::as_slice);
        let norm = times.forward.measure(|| grad_norm(gradients, &specs, &group));
        norm.expect("a group of one does not come apart");
    })
}

fn stock_norm() -> Call {
    let gradients = tensors();
    Box::new(move |times| {
        times.forward.measure(|| {
            let squares = gradients.iter().map(|gradient| {
                f64::from((gradient.clone() * gradient.clone()).sum().into_scalar())
            });
            squares.sum::<f64>().sqrt()
        });
    })
}

const SETTINGS: AdamWConfig = AdamWConfig {
    lr: 1e-4,
    min_lr: 0.0,
    weight_decay: 0.01,
    beta1: 0.9,
    beta2: 0.999,
    eps: 1e-8,
    clip_grad: 1.0,
};

fn adamw() -> Call {
    let gradients = flat();
    let state = RefCell::new((flat(), Moments::start(&specs(), 0, 1)));
    let update = Update::new(&SETTINGS, SETTINGS.lr, 0.5, 10);
    Box::new(move |times| {
        let (weights, moments) = &mut *state.borrow_mut();
        let all = weights.iter_mut().zip(&gradients).zip(moments);
        times.forward.measure(|| {
            update.apply_all(all.map(|((weights, gradient), moments)| Parameter {
                weights,
                gradient,
                moments,
                decays: true,
            }));
        });
    })
}

fn stock_adamw() -> Call {
    let gradients = tensors();
    let zeros = || gradients.iter().map(Tensor::zeros_like).collect::<Vec<_>>();
    let state = RefCell::new((tensors(), zeros(), zeros()));
    Box::new(move |times| {
        let (weights, means, squares) = &mut *state.borrow_mut();
        let AdamWConfig { lr, weight_decay, beta1, beta2, eps, .. } = SETTINGS;
        let step = |weight: Tensor<Cpu, 1>, mean, square, gradient: &Tensor<Cpu, 1>| {
            let mean: Tensor<Cpu, 1> = mean * beta1 + gradient.clone() * (1.0 - beta1);
            let squared = gradient.clone() * gradient.clone();
            let square: Tensor<Cpu, 1> = square * beta2 + squared * (1.0 - beta2);
            let correction = 1.0 - beta2.powi(10);
            let denominator = (square.clone() / correction).sqrt() + eps;
            let update = mean.clone() / (1.0 - beta1.powi(10)) / denominator;
            (weight * (1.0 - lr * weight_decay) - update * lr, mean, square)
        };
        times.forward.measure(|| {
            for (i, gradient) in gradients.iter().enumerate() {
                let taken = (weights[i].clone(), means[i].clone(), squares[i].clone());
                (weights[i], means[i], squares[i]) = step(taken.0, taken.1, taken.2, gradient);
            }
        });
    })
}
