//! How fast each kernel is, beside stock burn's operations and PyTorch's: `cargo bench --bench
//! kernels`.
//!
//! Three tables, at the sizes of a GPT-2 of 6 layers, 384 wide, with 4 x 256 tokens and 50,304 words.
//! The first has the kernels forward and backward: this crate's operation, the same made of burn's
//! own on the same backend, and torch's. The second has the matrix products of a step. The third has
//! kernels by the vector instructions that they run on. Times are medians with the fastest and the
//! slowest; what is compared runs in turn, torch in a process between rounds.
//!
//! ```text
//! cargo bench --bench kernels -- [NAME] [--rounds N] [--python PATH]
//! ```
//!
//! `NAME` is a part of the names of the kernels to run. `TORCH_PYTHON`, or `--python`, names a Python
//! that has torch. `RAYON_NUM_THREADS` says on how many threads all three run.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod kernels {
    pub(crate) mod attention;
    pub(crate) mod head;
    pub(crate) mod instructions;
    pub(crate) mod operation;
    pub(crate) mod operations;
    pub(crate) mod optimizer;
    pub(crate) mod products;
    pub(crate) mod times;
    pub(crate) mod torch;
}
mod table;

use std::env;

use kernels::operation::Operation;
use kernels::times::Times;
use kernels::torch::Torch;
use kernels::{attention, head, instructions, operations, optimizer, products};
use table::Table;

/// Any error: a benchmark only tells it.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// The sizes of the model.
pub(crate) const LAYERS: usize = 6;
pub(crate) const HIDDEN: usize = 384;
pub(crate) const HEADS: usize = 6;
pub(crate) const BATCH: usize = 4;
pub(crate) const SEQ: usize = 256;
/// Tokens of GPT-2's tokenizer; the table of words is padded to 50,304 rows.
pub(crate) const VOCABULARY: usize = 50_257;

/// Calls of a round.
pub(crate) const CALLS: usize = 7;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (mut filter, mut rounds, mut python) = (String::new(), 3, None);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} takes a value"));
        match argument.as_str() {
            "--bench" => {} // cargo's own
            "--rounds" => rounds = value()?.parse()?,
            "--python" => python = Some(value()?),
            _ => filter = argument,
        }
    }
    let mut torch = Torch::find(python);
    let threads = rayon::current_num_threads();
    println!("{threads} threads; {rounds} rounds of {CALLS} calls; median (fastest to slowest)");

    let all = [operations::all(), attention::all(), head::all(), optimizer::all()];
    let mut operations: Vec<Operation> = all.into_iter().flatten().collect();
    operations.retain(|operation| operation.name.contains(&filter));
    let mut products = products::all();
    products.retain(|product| product.name.contains(&filter));
    for _ in 0..rounds {
        torch.run(&filter)?;
        operations.iter_mut().for_each(Operation::run);
        products.iter_mut().for_each(products::Product::run);
    }
    if !operations.is_empty() {
        println!("\nms\n\n{}", kernel_table(&operations, &torch));
    }
    if !products.is_empty() {
        println!("\nGFLOP/s\n\n{}", products::table(&products, &torch));
    }
    instructions::print(&filter);
    println!("torch: {}", torch.describe());
    Ok(())
}

fn kernel_table(operations: &[Operation], torch: &Torch) -> Table {
    let mut table =
        Table::new(["kernel", "forward", "burn's", "torch's", "backward", "burn's", "torch's"]);
    for Operation { name, ours, stock, .. } in operations {
        let peer = torch.times(name);
        let of = |times: &Times| [times.forward.to_string(), times.backward.to_string()];
        let ([ours, ours_back], [stock, stock_back], [peer, peer_back]) =
            (of(ours), of(stock), of(&peer));
        let name = (*name).to_owned();
        table.push([name, ours, stock, peer, ours_back, stock_back, peer_back]);
    }
    table
}
