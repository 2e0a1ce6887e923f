//! Kernels by the vector instructions that they run on.

use std::cell::RefCell;
use std::time::Instant;

use training::backend::cpu::attention::Attention;
use training::backend::cpu::vector::Vector;
use training::backend::cpu::{attention, bias_gelu, dropout, layer_norm};
use training::backend::{Activation, AttentionSettings, VisibleKeys};
use training::parallel::random::{DropoutKey, DropoutMask, DropoutSite};

use super::operation::numbers;
use crate::table::Table;
use crate::{BATCH, HEADS, HIDDEN, SEQ};

const ROWS: usize = BATCH * SEQ;

/// A kernel, on the instructions that it is told.
type Kernel = (&'static str, Box<dyn Fn(Vector)>);

pub(crate) fn print(filter: &str) {
    const CALLS: usize = 21;
    let levels = Vector::all();
    let mut kernels: Vec<Kernel> = norm().into_iter().chain(activation()).collect();
    kernels.extend(masked());
    kernels.extend(attended());
    kernels.retain(|(name, _)| name.contains(filter));
    if kernels.is_empty() {
        return;
    }
    let mut table =
        Table::new(["kernel"].into_iter().chain(levels.iter().map(|level| level.name())));
    for (name, kernel) in kernels {
        let mut seconds = vec![Vec::new(); levels.len()];
        for _ in 0..CALLS {
            for (&level, seconds) in levels.iter().zip(&mut seconds) {
                let start = Instant::now();
                kernel(level);
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
        let medians = seconds.into_iter().map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            format!("{:.2}", seconds[CALLS / 2] * 1e3)
        });
        table.push([name.to_owned()].into_iter().chain(medians));
    }
    println!("\nms by vector instructions, median of {CALLS}\n\n{table}");
}

fn norm() -> [Kernel; 2] {
    let [input, output] = [1, 2].map(|seed| numbers(ROWS * HIDDEN, seed));
    let (gain, bias) = (numbers(HIDDEN, 3), numbers(HIDDEN, 4));
    let (gradient, other) = (RefCell::new(output.clone()), (input.clone(), gain.clone()));
    let output = RefCell::new(output);
    [
        (
            "layer norm, forward",
            Box::new(move |vector| {
                let output = &mut output.borrow_mut();
                layer_norm::forward(vector, &input, &gain, &bias, 1e-5, output);
            }),
        ),
        (
            "layer norm, backward",
            Box::new(move |vector| {
                let gradient = &mut gradient.borrow_mut();
                drop(layer_norm::backward(vector, &other.0, &other.1, 1e-5, gradient));
            }),
        ),
    ]
}

fn activation() -> [Kernel; 2] {
    let (input, bias) = (numbers(ROWS * 4 * HIDDEN, 1), numbers(4 * HIDDEN, 2));
    let (output, gradient) = (RefCell::new(input.clone()), RefCell::new(input.clone()));
    let other = (input.clone(), bias.clone());
    [
        (
            "bias and GELU, forward",
            Box::new(move |vector| {
                let output = &mut output.borrow_mut();
                bias_gelu::forward(vector, &input, &bias, Activation::Gelu, output);
            }),
        ),
        (
            "bias and GELU, backward",
            Box::new(move |vector| {
                let gradient = &mut gradient.borrow_mut();
                let (input, bias) = &other;
                drop(bias_gelu::backward(vector, input, bias, Activation::Gelu, gradient));
            }),
        ),
    ]
}

fn masked() -> [Kernel; 1] {
    let values = RefCell::new(numbers(ROWS * HIDDEN, 1));
    let key = DropoutKey { seed: 1, step: 1, first_sample: 0 };
    let mask = DropoutMask::new(&key, DropoutSite::Embedding, 0, 0.1);
    let call = move |vector| dropout::apply(vector, &mut values.borrow_mut(), SEQ * HIDDEN, &mask);
    [("dropout", Box::new(call))]
}

/// Products run on the best instructions in each case: softmax differs.
fn attended() -> [Kernel; 2] {
    let scale = ((HIDDEN / HEADS) as f64).powf(-0.5);
    let settings =
        AttentionSettings { heads: HEADS, scale, visible: VisibleKeys::Causal, mask: None };
    let shape = [BATCH, SEQ, 3 * HIDDEN];
    let input = numbers(ROWS * 3 * HIDDEN, 1);
    let mut context = vec![0.0; ROWS * HIDDEN];
    let mut normalizers = vec![[0.0; 2]; ROWS * HEADS];
    let taken = Attention::new(&input, shape, &settings);
    attention::forward(Vector::best(), taken, &mut context, &mut normalizers);

    let (other, gradient) = (input.clone(), RefCell::new(vec![0.0; input.len()]));
    let (other_settings, context_gradient) = (settings.clone(), numbers(ROWS * HIDDEN, 2));
    let outputs = RefCell::new((context, normalizers.clone()));
    [
        (
            "attention, forward",
            Box::new(move |vector| {
                let (context, normalizers) = &mut *outputs.borrow_mut();
                let attention = Attention::new(&input, shape, &settings);
                attention::forward(vector, attention, context, normalizers);
            }),
        ),
        (
            "attention, backward",
            Box::new(move |vector| {
                let gradient = &mut gradient.borrow_mut();
                let attention = Attention::new(&other, shape, &other_settings);
                let given = (&normalizers[..], &context_gradient[..]);
                attention::backward(vector, attention, given.0, given.1, gradient);
            }),
        ),
    ]
}
