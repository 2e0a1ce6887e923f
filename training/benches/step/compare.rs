//! Programs that train the same model in turn, and the table of their steps.

use crate::step::model::Model;
use crate::step::steps::{COLUMNS, Steps};
use crate::step::torch;
use crate::table::Table;
use crate::{Failure, printed, this_program};

/// A program with its way to train.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entrant {
    /// This one, by the name of a variant.
    Ours(&'static str),
    /// PyTorch, by the name of an attention.
    Torch(&'static str),
}

/// Runs `rounds` processes of each of `entrants` with each number of `threads`, one after the other,
/// and prints the table.
pub(crate) fn table(
    model: &Model,
    threads: &[usize],
    entrants: &[Entrant],
    rounds: usize,
    torch: &Result<String, String>,
) -> Result<(), Failure> {
    let mut table = Table::new(["in ms"].into_iter().chain(COLUMNS).chain(["to torch"]));
    for &threads in threads {
        let results = measure(model, threads, entrants, rounds, torch)?;
        let peers = results.iter().filter(|result| matches!(result.entrant, Entrant::Torch(_)));
        // The better of torch's attentions; infinity where there is none.
        let peer = peers.map(|result| result.steps.seconds()).fold(f64::INFINITY, f64::min);
        for Measured { entrant, steps, version } in results {
            let name = match entrant {
                Entrant::Ours(variant) => variant.to_owned(),
                Entrant::Torch(attention) => format!("torch {version}, {attention}"),
            };
            let ratio = peer / steps.seconds();
            let ratio = if ratio.is_finite() { format!("{ratio:.2}") } else { "-".to_owned() };
            let plural = if threads == 1 { "" } else { "s" };
            let name = format!("{name}, {threads} thread{plural}");
            table.push([name].into_iter().chain(steps.cells(model.tokens())).chain([ratio]));
        }
    }
    let count = rounds * (model.steps - 1);
    println!("\nGPT-2 of {}; medians of {count} steps\n\n{table}", model.describe());
    if let Err(reason) = torch {
        println!("torch: {reason}");
    }
    Ok(())
}

/// What one program took over all rounds.
struct Measured {
    entrant: Entrant,
    steps: Steps,
    /// Of torch.
    version: String,
}

fn measure(
    model: &Model,
    threads: usize,
    entrants: &[Entrant],
    rounds: usize,
    torch: &Result<String, String>,
) -> Result<Vec<Measured>, Failure> {
    let mut results: Vec<Measured> = entrants
        .iter()
        .filter(|entrant| torch.is_ok() || matches!(entrant, Entrant::Ours(_)))
        .map(|&entrant| Measured { entrant, steps: Steps::default(), version: String::new() })
        .collect();
    for _ in 0..rounds {
        for Measured { entrant, steps, version } in &mut results {
            match (*entrant, torch) {
                (Entrant::Ours(variant), _) => {
                    let mut command = this_program()?;
                    command.args(["--steps", model.name, variant]);
                    // The size of the pool of threads that all kernels share.
                    command.env("RAYON_NUM_THREADS", threads.to_string());
                    steps.add(&printed(command.output(), variant)?)?;
                }
                (Entrant::Torch(attention), Ok(python)) => {
                    *version = torch::add_steps(python, model, threads, attention, steps)?;
                }
                (Entrant::Torch(_), Err(_)) => {}
            }
        }
    }
    Ok(results)
}
