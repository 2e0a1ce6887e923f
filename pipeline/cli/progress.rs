//! What the user sees while work goes on: log lines, and a bar with amount, rate and time left.
//!
//! On a terminal a stage is a bar, and log lines are printed above it; elsewhere a stage is a plain
//! line now and then. All of it goes to standard error. [`Progress`] also carries SIGINT and
//! SIGTERM into the libraries, which ask [`Observer::stop_requested`] in every long loop.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use corpus::{Observer, Unit};
use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::iterator::Signals;
use tracing::{Level, info, warn};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;

use crate::exit;
use crate::warnings::Warnings;

/// Time between two plain progress lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// The program's [`Observer`].
pub(crate) struct Progress {
    bars: MultiProgress,
    style: Style,
    stage: Mutex<Option<Stage>>,
    stop: Arc<AtomicBool>,
    warnings: Warnings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Bar,
    Lines,
    Nothing,
}

/// The stage that is running.
struct Stage {
    name: String,
    unit: Unit,
    total: Option<u64>,
    done: AtomicU64,
    /// What of it an earlier process did.
    skipped: AtomicU64,
    bar: Option<ProgressBar>,
    began: Instant,
    last_line: Mutex<Instant>,
}

impl Progress {
    /// Sets up logging and the handlers of SIGINT and SIGTERM.
    ///
    /// `RUST_LOG` overrides what `verbose` and `quiet` choose.
    pub(crate) fn start(verbose: u8, quiet: bool) -> Self {
        let style = match (quiet, io::stderr().is_terminal()) {
            (true, _) => Style::Nothing,
            (false, true) => Style::Bar,
            (false, false) => Style::Lines,
        };
        let bars = MultiProgress::with_draw_target(match style {
            Style::Bar => ProgressDrawTarget::stderr(),
            Style::Lines | Style::Nothing => ProgressDrawTarget::hidden(),
        });
        let level = match (quiet, verbose) {
            (true, _) => Level::WARN,
            (false, 0) => Level::INFO,
            (false, 1) => Level::DEBUG,
            (false, _) => Level::TRACE,
        };
        let warnings = Warnings::default();
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| {
                let own = ["pipeline", "corpus", "curation", "training", "evaluation"];
                let directives: Vec<_> = own.iter().map(|name| format!("{name}={level}")).collect();
                // ptr_hash, on which the tokenizer is built, warns of its own tries.
                EnvFilter::new(format!("warn,ptr_hash=off,{}", directives.join(",")))
            }))
            .with_writer(AboveBars(bars.clone()))
            .with_ansi(style == Style::Bar)
            .with_target(false)
            .without_time()
            // Else a line that cannot be written is a panic: a full disk under a log would end the work.
            .log_internal_errors(false)
            .finish()
            .with(warnings.clone())
            .init();
        ignore_file_size_signal();
        Self { bars, style, stage: Mutex::new(None), stop: stop_flag(), warnings }
    }

    /// The warnings of the libraries since the last call.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        self.warnings.take()
    }

    /// Prints one line, above the bar where there is one.
    pub(crate) fn error(&self, message: &str) {
        self.finish();
        // Nothing can be done when standard error is gone: the exit code still tells.
        let _ = writeln!(AboveBars(self.bars.clone()), "{message}");
    }
}

/// The signals that stop the work.
const STOP_SIGNALS: [i32; 2] = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];

/// Has a write beyond the limit on the size of files (`ulimit -f`) fail like one on a full disk: by
/// default the signal that comes with it ends the process.
fn ignore_file_size_signal() {
    let unread = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, unread) {
        warn!(%error, "cannot catch SIGXFSZ: a file beyond the limit on sizes would end the program");
    }
}

/// A flag that the first SIGINT or SIGTERM sets, which is said at once; a second ends the process
/// with its default action.
fn stop_flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in STOP_SIGNALS {
        let registered = signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)));
        if let Err(error) = registered {
            warn!(signal, %error, "cannot catch the signal: it will end the program at once");
        }
    }
    // The work may see the flag only after a while; who sent the signal is told now.
    if let Ok(mut signals) = Signals::new(STOP_SIGNALS) {
        thread::spawn(move || {
            if signals.forever().next().is_some() {
                warn!(
                    "stopping as soon as the work at hand allows it; \
                     a second signal ends the program at once"
                );
            }
        });
    }
    stop
}

impl Observer for Progress {
    fn begin(&self, stage: &str, total: Option<u64>, unit: Unit) {
        self.finish();
        let bar = (self.style == Style::Bar).then(|| self.draw_bar(stage, total, unit));
        if self.style == Style::Lines {
            info!(
                "{stage}: {}",
                total.map_or_else(|| "started".into(), |total| amount(total, unit))
            );
        }
        let now = Instant::now();
        let stage = Stage {
            name: stage.to_owned(),
            unit,
            total,
            done: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            bar,
            began: now,
            last_line: Mutex::new(now),
        };
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Some(stage);
    }

    fn hangs(&self, message: &str) {
        self.error(&format!("error: {message}"));
        std::process::exit(i32::from(exit::FAILED));
    }

    fn advance(&self, amount: u64) {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stage) = stage.as_ref() else { return };
        let done = stage.done.fetch_add(amount, Ordering::Relaxed) + amount;
        match (&stage.bar, self.style) {
            (Some(bar), _) => bar.set_position(done),
            (None, Style::Lines) => stage.line_when_due(done),
            (None, _) => {}
        }
    }

    fn skip(&self, amount: u64) {
        if let Some(stage) = &*self.stage.lock().unwrap_or_else(PoisonError::into_inner) {
            let done = stage.done.fetch_add(amount, Ordering::Relaxed) + amount;
            stage.skipped.fetch_add(amount, Ordering::Relaxed);
            if let Some(bar) = &stage.bar {
                bar.set_position(done);
                bar.reset_eta();
            }
        }
    }

    fn finish(&self) {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(bar) = stage.and_then(|stage| stage.bar) {
            bar.finish_and_clear();
            self.bars.remove(&bar);
        }
    }

    fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Progress {
    fn draw_bar(&self, stage: &str, total: Option<u64>, unit: Unit) -> ProgressBar {
        let (amount, rate) = match unit {
            Unit::Bytes => ("{bytes}/{total_bytes}", "{bytes_per_sec}"),
            _ => ("{human_pos}/{human_len}", "{per_sec}"),
        };
        let template = match total {
            Some(_) => format!("{{prefix:>24}} {{wide_bar}} {amount}, {rate}, {{eta}} left"),
            None => format!("{{prefix:>24}} {{spinner}} {{human_pos}} {}, {rate}", plural(unit)),
        };
        let style =
            ProgressStyle::with_template(&template).expect("the templates are constant and valid");
        let bar = self.bars.add(ProgressBar::no_length());
        if let Some(total) = total {
            bar.set_length(total);
        }
        bar.set_style(style);
        bar.set_prefix(stage.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        bar
    }
}

impl Stage {
    fn line_when_due(&self, done: u64) {
        let mut last = self.last_line.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() < LINE_INTERVAL {
            return;
        }
        *last = Instant::now();
        let seconds = self.began.elapsed().as_secs_f64();
        let here = done - self.skipped.load(Ordering::Relaxed);
        let rate = here as f64 / seconds.max(1e-9);
        let rate_text = rate_of(rate, self.unit);
        match self.total {
            Some(total) if done <= total && here > 0 => {
                let left = Duration::try_from_secs_f64((total - done) as f64 / rate);
                let left = left.unwrap_or(Duration::MAX);
                let percent = 100.0 * done as f64 / total.max(1) as f64;
                info!(
                    "{}: {percent:.0}% of {}, {rate_text}/s, {} left",
                    self.name,
                    amount(total, self.unit),
                    HumanDuration(left)
                );
            }
            _ => info!("{}: {}, {rate_text}/s", self.name, amount(done, self.unit)),
        }
    }
}

fn amount(count: u64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => format!("{}", indicatif::HumanBytes(count)),
        _ => format!("{} {}", indicatif::HumanCount(count), plural(unit)),
    }
}

/// A rate per second, with decimals where it is low.
fn rate_of(rate: f64, unit: Unit) -> String {
    if rate < 10.0 { format!("{rate:.1} {}", plural(unit)) } else { amount(rate as u64, unit) }
}

fn plural(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Documents => "documents",
        Unit::Tokens => "tokens",
        Unit::Steps => "steps",
        Unit::Windows => "windows",
        Unit::Examples => "examples",
        Unit::Samples => "samples",
    }
}

/// A writer to standard error that lifts the bars while a log line is printed, so that neither
/// tears the other.
#[derive(Clone)]
struct AboveBars(MultiProgress);

impl Write for AboveBars {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().lock().write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl<'a> MakeWriter<'a> for AboveBars {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
