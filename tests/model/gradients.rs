//! Gradients of a model by the paths of its parameters.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use training::backend::CpuAutodiff;
use training::model::Gpt2;

type Grads = <CpuAutodiff as AutodiffBackend>::Gradients;

/// One gradient for each parameter, by rows.
pub(super) type Gradients = BTreeMap<String, Vec<f32>>;

pub(super) fn gradients_of(model: &Gpt2<CpuAutodiff>, grads: &Grads) -> Gradients {
    let mut collector = Collector { grads, path: Vec::new(), found: Gradients::new() };
    model.visit(&mut collector);
    collector.found
}

struct Collector<'a> {
    grads: &'a Grads,
    path: Vec<String>,
    found: Gradients,
}

impl ModuleVisitor<CpuAutodiff> for Collector<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<CpuAutodiff, D>>) {
        let path = self.path.join(".");
        let gradient = param.val().grad(self.grads).expect("every parameter has a gradient");
        self.found.insert(path, gradient.into_data().to_vec().expect("f32"));
    }

    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }
}
