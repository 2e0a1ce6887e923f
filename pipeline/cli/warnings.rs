//! The warnings of the libraries, kept beside being printed, for who tells them again later.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The crates whose warnings are of the work; those of the program itself are of how it was called.
const LIBRARIES: [&str; 4] = ["corpus", "curation", "training", "evaluation"];

/// Warnings so far, each once, in their order. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// The warnings since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let target = event.metadata().target();
        let library = target.split("::").next().unwrap_or_default();
        if *event.metadata().level() != Level::WARN || !LIBRARIES.contains(&library) {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let line = line.text();
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&line) {
            warnings.push(line);
        }
    }
}

/// An event as it is printed: its message, then its values.
#[derive(Default)]
struct Line {
    message: String,
    values: String,
}

impl Line {
    fn text(self) -> String {
        format!("{}{}", self.message, self.values)
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // A string takes all text.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.values, " {name}={value:?}"),
        };
    }
}
