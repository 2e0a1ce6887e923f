//! Sums of gradients that a backward pass adds to in place.
//!
//! burn hands out a new gradient for each parameter after each backward pass. Adding them up over
//! the micro-batches of a step would hold every gradient twice, and go over all of them once more.
//! Instead the sum so far is lent for the length of a pass: a backward step whose kernel can add to
//! it takes it and registers the new sum as the parameter's gradient. What no step has taken is
//! still there afterwards.
//!
//! A pass runs on one thread, and parameters are told apart by their nodes in the graph, whose
//! numbers no two tensors share.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;

thread_local! {
    /// By the parameter's node.
    static LENT: RefCell<HashMap<u64, Box<dyn Any>>> = RefCell::new(HashMap::new());
}

/// Lends `sum` for the parameter whose node is `node`.
pub(super) fn lend<T: 'static>(node: u64, sum: T) {
    LENT.with_borrow_mut(|lent| lent.insert(node, Box::new(sum)));
}

/// The sum that is lent for the parameter whose node is `node`, which then is no longer.
///
/// # Panics
///
/// When it was lent as another type: that of another backend.
pub(super) fn take<T: 'static>(node: u64) -> Option<T> {
    let sum = LENT.with_borrow_mut(|lent| lent.remove(&node))?;
    Some(*sum.downcast().expect("a sum of the same backend"))
}
