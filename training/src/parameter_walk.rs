//! Walks a module's parameters next to the table that describes them.
//!
//! burn visits parameters in the order of the module's fields; the table has an order of its own.
//! The parameter's path in the module is what they share.

use std::collections::HashMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::TrainError;
use crate::parameters::ParameterSpec;

/// Finds a parameter's place in its table by its path in the module.
#[derive(Debug, Clone)]
pub(crate) struct ParameterIndex {
    by_path: HashMap<String, usize>,
}

impl ParameterIndex {
    /// The index of the table `specs`.
    pub(crate) fn new(specs: &[ParameterSpec]) -> Self {
        let by_path = specs.iter().enumerate().map(|(index, spec)| (spec.path.clone(), index));
        Self { by_path: by_path.collect() }
    }

    /// Place of the parameter that lies at `path`.
    ///
    /// # Panics
    ///
    /// When the table does not name it: the model was built from the same table.
    pub(crate) fn of(&self, path: &[String]) -> usize {
        let path = path.join(".");
        match self.by_path.get(&path) {
            Some(&index) => index,
            None => panic!("the parameter table does not name {path}"),
        }
    }
}

/// Calls `work` with each parameter of this rank, by its place in the table `specs`; stops at the
/// first failure.
pub(crate) fn for_each_weight<B, M, F>(
    model: &M,
    specs: &[ParameterSpec],
    work: F,
) -> Result<(), TrainError>
where
    B: Backend,
    M: Module<B>,
    F: FnMut(usize, &[f32]) -> Result<(), TrainError>,
{
    let index = ParameterIndex::new(specs);
    let mut visitor = WeightVisitor { index, work, path: Vec::new(), result: Ok(()) };
    model.visit(&mut visitor);
    visitor.result
}

struct WeightVisitor<F> {
    index: ParameterIndex,
    work: F,
    path: Vec<String>,
    result: Result<(), TrainError>,
}

impl<B, F> ModuleVisitor<B> for WeightVisitor<F>
where
    B: Backend,
    F: FnMut(usize, &[f32]) -> Result<(), TrainError>,
{
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if self.result.is_ok() {
            let data = param.val().into_data();
            let values = data.as_slice().expect("parameters are f32");
            self.result = (self.work)(self.index.of(&self.path), values);
        }
    }
}
