//! One forward and backward pass of a micro-batch: its share of the loss, and of the gradients.
//!
//! Either the whole model has one graph, or each layer has its own. In the second case a pass first
//! runs the layers without a graph and keeps what each of them sees. Then, from the last layer
//! down, it runs a layer again, now with a graph, and takes that graph back at once: at no time is
//! there more than one layer's. Dropout is drawn by key, so that a layer that runs again drops the
//! same elements; and each sum is taken in the same order, so that both ways give the same bits.

use burn::tensor::backend::AutodiffBackend;
use burn::tensor::{ElementConversion, Tensor};

use crate::backend::{Recompute, TrainingBackend, with_gradient, with_gradients};
use crate::data::Batch;
use crate::losses::Losses;
use crate::objective::{Layer, Objective};
use crate::optim::GradientBuffer;
use crate::parallel::random::DropoutKey;
use crate::timers::{Phase, StepTimers};

/// What a pass is done with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PassSettings {
    /// Which dropout masks it draws.
    pub dropout: DropoutKey,
    /// What the gradients are multiplied by.
    pub loss_scale: f64,
    /// What is kept for the backward pass.
    pub recompute: Recompute,
}

/// The batch's weighted sum of losses, by part; its gradients times the loss scale go into `gradients`.
///
/// A layer that runs again does so in the time of the backward pass.
///
/// # Panics
///
/// When another rank fails, or a parameter got no gradient; [`launch`](crate::parallel::launch)
/// makes an error of it.
pub fn forward_backward<B, M>(
    model: &M,
    batch: &Batch,
    settings: &PassSettings,
    gradients: &mut GradientBuffer,
    timers: &mut StepTimers,
) -> Losses
where
    B: TrainingBackend,
    M: Objective<B>,
{
    let mut pass = Pass { model, batch, settings, gradients, timers };
    let losses = match settings.recompute {
        Recompute::None => pass.through_one_graph::<B>(),
        Recompute::Layer => pass.layer_by_layer::<B>(),
    };
    gradients.end_micro_batch();
    losses
}

/// A pass under way: what it goes through, and what it leaves.
struct Pass<'a, M> {
    model: &'a M,
    batch: &'a Batch,
    settings: &'a PassSettings,
    gradients: &'a mut GradientBuffer,
    timers: &'a mut StepTimers,
}

impl<M> Pass<'_, M> {
    fn through_one_graph<B>(&mut self) -> Losses
    where
        B: TrainingBackend,
        M: Objective<B>,
    {
        let Self { model, batch, settings, gradients, timers } = self;
        let (loss, values) = timers.run(Phase::Forward, || {
            let losses = model.losses(batch, Some(&settings.dropout));
            let values = numbers(M::LOSSES, &losses);
            (sum(losses), values)
        });
        timers.run(Phase::Backward, || gradients.backward(*model, scaled(loss, settings)));
        values
    }

    fn layer_by_layer<B>(&mut self) -> Losses
    where
        B: TrainingBackend,
        M: Objective<B>,
    {
        let Self { model, batch, settings, gradients, timers } = self;
        let model = *model;
        let dropout = Some(&settings.dropout);
        let forward = timers.start(Phase::Forward);
        let visible = M::visible_keys(batch);
        let embedded = model.embed(batch, dropout);
        let mut inputs = Vec::with_capacity(model.layers().len());
        let mut hidden = embedded.clone().inner();
        for layer in model.layers() {
            let output = layer.without_graph(hidden.clone(), &visible, dropout);
            inputs.push(std::mem::replace(&mut hidden, output));
        }

        let hidden = Tensor::<B, 3>::from_inner(hidden).require_grad();
        let losses = model.head_losses(hidden.clone(), batch, dropout);
        let values = numbers(M::LOSSES, &losses);
        let loss = sum(losses);
        timers.stop(forward);

        let backward = timers.start(Phase::Backward);
        gradients.lend(&[], model);
        let mut found = scaled(loss, settings).backward();
        let mut gradient =
            hidden.grad_remove(&mut found).expect("the loss depends on the last layer");
        let tied = model.tied_weight().map(|tied| {
            let gradient = tied.grad_remove(&mut found);
            (tied, gradient.expect("the loss depends on the tied weight"))
        });
        gradients.add_found(&[], model, found);

        for (index, layer) in model.layers().iter().enumerate().rev() {
            let input = inputs.pop().expect("one input for each layer");
            let input = Tensor::<B, 3>::from_inner(input).require_grad();
            let output = layer.with_graph(input.clone(), &visible, dropout);
            let path = ["layers", &index.to_string()];
            gradients.lend(&path, layer);
            let mut found = with_gradient(output, Tensor::from_inner(gradient)).backward();
            gradient = input.grad_remove(&mut found).expect("a layer depends on its input");
            gradients.add_found(&path, layer, found);
        }

        // The tied weight's gradient of the loss is there before the embedding adds its own to it,
        // as in one graph.
        let embedded = (embedded, Tensor::from_inner(gradient));
        let rest = match tied {
            Some((tied, gradient)) => {
                with_gradients(embedded, (tied, Tensor::from_inner(gradient)))
            }
            None => with_gradient(embedded.0, embedded.1),
        };
        gradients.backward(model, rest);
        timers.stop(backward);
        values
    }
}

fn numbers<B: AutodiffBackend>(names: &'static [&'static str], losses: &[Tensor<B, 1>]) -> Losses {
    let values: Vec<f64> =
        losses.iter().map(|loss| loss.clone().inner().into_scalar().elem()).collect();
    Losses::new(names, &values)
}

/// The sum of the parts of a loss.
fn sum<B: AutodiffBackend>(losses: Vec<Tensor<B, 1>>) -> Tensor<B, 1> {
    losses.into_iter().reduce(|sum, loss| sum + loss).expect("a loss has at least one part")
}

fn scaled<B: AutodiffBackend>(loss: Tensor<B, 1>, settings: &PassSettings) -> Tensor<B, 1> {
    if settings.loss_scale == 1.0 { loss } else { loss * settings.loss_scale }
}
