//! `pipeline generate`: a prompt that a checkpoint goes on with, through
//! [`training::generation::Generator`].

mod printer;
mod report;

use std::fs;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Args;
use corpus::{Observer, Unit, machine};
use evaluation::ModelIdentity;
use tracing::info;
use training::TrainError;
use training::checkpoint::Checkpoint;
use training::generation::{Finish, GenerationRequest, Generator, Sampling};

use self::printer::Printer;
use self::report::{GenerationPlan, GenerationReport, Prompt};
use crate::dry_run::plan_table;
use crate::exit::Usage;
use crate::numbers::{at_least_0, count, share};
use crate::progress::Progress;
use crate::threads::ThreadArgs;
use crate::{GlobalArgs, output};

const EXAMPLES: &str = "\
Examples:
  Go on with a sentence; the same command gives the same text, another seed another:
    pipeline generate --checkpoint runs/tiny --prompt \"The river\"
    pipeline generate --checkpoint runs/tiny --prompt \"The river\" --seed 7
  Fewer surprises: sharper probabilities, and only the tokens that make up 90% of them:
    pipeline generate --checkpoint runs/tiny --prompt \"The river\" --temperature 0.8 --top-p 0.9
  The most probable token every time; a document from its beginning:
    pipeline generate --checkpoint runs/tiny --prompt \"The river\" --temperature 0
    pipeline generate --checkpoint runs/tiny --max-tokens 300
  Five texts for a program, and what that would take:
    pipeline generate --checkpoint runs/tiny --prompt-file in.txt --num-samples 5 --json
    pipeline generate --checkpoint runs/tiny --prompt-file in.txt --num-samples 5 --dry-run";

/// Let a checkpoint go on with a text.
///
/// Prints the prompt and what the model makes of it, token by token as it comes; speed and settings
/// go to standard error. A text ends with the document, or after --max-tokens. It depends on the
/// weights, the prompt, the sampling and the seed only: not on threads, on the cache, or on how many
/// samples are made at a time.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GenerateArgs {
    /// Run folder, its checkpoints folder, or one checkpoint.
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,

    /// Text to go on with [default: none, a document from its beginning].
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_file")]
    prompt: Option<String>,

    /// File with the text to go on with, taken as it is, line ends included; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,

    /// New tokens at most.
    ///
    /// A text that outgrows what the model sees (its seq_length) goes on from the second half of
    /// that. A prompt that is longer is refused.
    #[arg(long, value_name = "N", default_value = "100", value_parser = count,
          allow_negative_numbers = true)]
    max_tokens: NonZeroUsize,

    /// What logits are divided by: below 1 for fewer surprises, 0 for the most probable token every
    /// time.
    #[arg(long, value_name = "T", default_value = "1", value_parser = at_least_0,
          allow_negative_numbers = true)]
    temperature: f64,

    /// Draw from the N most probable tokens only [default: all].
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    top_k: Option<NonZeroUsize>,

    /// Draw from the fewest tokens that have this share of the probability (of what --top-k leaves)
    /// [default: 1, all].
    #[arg(long, value_name = "P", default_value = "1", hide_default_value = true,
          value_parser = share, allow_negative_numbers = true)]
    top_p: f64,

    /// Another seed, another text.
    #[arg(long, value_name = "N", default_value = "1234", allow_negative_numbers = true)]
    seed: u64,

    /// Texts to make of the prompt, each with draws of its own.
    #[arg(long, value_name = "N", default_value = "1", value_parser = count,
          allow_negative_numbers = true)]
    num_samples: NonZeroUsize,

    /// Go on past the end of the document, into the next.
    #[arg(long)]
    ignore_end: bool,

    /// Tensor-parallel ranks, one thread each.
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    tp: NonZeroUsize,

    #[command(flatten)]
    threads: ThreadArgs,

    /// Compute everything anew for each token: the same text, slowly; to compare.
    #[arg(long)]
    no_cache: bool,

    /// Print what would be made and the memory it takes; write nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(
    args: &GenerateArgs,
    global: &GlobalArgs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    args.threads.start()?;
    let prompt = args.prompt()?;
    let opened = Checkpoint::open_observed(&args.checkpoint, progress);
    let checkpoint = opened.map_err(|error| match error {
        TrainError::Stopped => anyhow!("stopped by a signal before the first token"),
        error => error.into(),
    })?;
    let model = ModelIdentity::new(&checkpoint)?;
    let config = model.gpt2_for("generate")?;
    let request = args.request(&prompt, &model)?;
    let plan = GenerationPlan::of(&request, &model, config, args.tp);
    config.check_tensor_parallel(args.tp.get())?;
    request.validate(config, machine::memory_bytes())?;
    if args.dry_run {
        if global.json {
            output::json(&plan)?;
        } else {
            output::text(&plan_table(&serde_json::to_value(&plan)?))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    info!("{}", plan.settings());
    let mut generator = Generator::new(config, checkpoint, args.tp)?;

    let mut printer = Printer::new(&prompt, &request, &*model.tokenizer, global.json);
    if !printer.is_on_a_terminal() {
        let total = request.num_samples.get().saturating_mul(request.max_tokens.get());
        progress.begin("generate", Some(total as u64), Unit::Tokens);
    }
    printer.begin();
    let (texts, speed) =
        generator.generate(&request, progress, &mut |text, token| printer.token(text, token))?;
    progress.finish();
    let prompt = Prompt { text: &prompt, tokens: &request.prompt };
    let report = GenerationReport::new(plan, prompt, texts, speed, &*model.tokenizer);
    printer.finish(&report)?;
    info!("{}", report.speed_line());
    if progress.stop_requested() && report.has_finish(Finish::Stopped) {
        bail!("stopped by a signal after {} tokens; what is printed is all of them", report.tokens);
    }
    Ok(ExitCode::SUCCESS)
}

impl GenerateArgs {
    /// The text to go on with.
    fn prompt(&self) -> anyhow::Result<String> {
        let Some(path) = &self.prompt_file else {
            return Ok(self.prompt.clone().unwrap_or_default());
        };
        let refuse = |problem: String| {
            anyhow!(Usage(anyhow!("--prompt-file {}: {problem}", path.display())))
        };
        let bytes = read(path).map_err(|error| refuse(error.to_string()))?;
        String::from_utf8(bytes).map_err(|error| {
            let offset = error.utf8_error().valid_up_to();
            refuse(format!("not UTF-8: bad byte at offset {offset}"))
        })
    }

    fn request(&self, prompt: &str, model: &ModelIdentity) -> anyhow::Result<GenerationRequest> {
        let end = model.tokenizer.eod();
        let mut tokens = model.encode(prompt)?;
        if tokens.is_empty() {
            // A document begins behind the end of another.
            tokens.push(end);
        }
        Ok(GenerationRequest {
            sampling: Sampling {
                temperature: self.temperature,
                top_k: self.top_k,
                top_p: self.top_p,
                seed: self.seed,
            },
            num_samples: self.num_samples,
            end: (!self.ignore_end).then_some(end),
            use_cache: !self.no_cache,
            ..GenerationRequest::new(tokens, self.max_tokens)
        })
    }
}

/// The bytes of a file, or of standard input for `-`.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    fs::read(path)
}
