//! How each part is made: one call of a library, and what comes of it.

use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use corpus::race::RaceSplit;
use corpus::{CorpusError, DataFolder, Existing};
use curation::{CurationError, curate};
use evaluation::contamination::{ContaminationPlan, measure};
use evaluation::race::{self, Race};
use evaluation::{PartialScores, evaluate_keeping_scores};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing::{info, warn};
use training::checkpoint::{Checkpoint, CheckpointError, Manifest};
use training::error::NonFinite;
use training::metrics::METRICS_FILE;
use training::{RunOptions, TrainConfig, TrainError, TrainPlan, train};

use super::config::Experiment;
use super::depends::hash;
use super::inputs::{RaceInput, TEXT_FILES, TextInput};
use super::journal::Made;
use super::outputs::OutputFile;
use super::parts::{
    CONTAMINATION_FILE, DATA, Part, REPORT_FILE, TEXT, run_of, score_of, scores_of,
};
use super::report::table3::Task;
use super::work::{Done, Work};
use super::{eval_task, facts};
use crate::exit::Usage;
use crate::machine_text;
use crate::output;

/// The file of a checkpoint that holds its weights.
const WEIGHTS: &str = "model.safetensors";

impl Work<'_> {
    /// Makes a part.
    pub(super) fn make(&self, part: Part) -> anyhow::Result<Done> {
        match part {
            Part::Text => self.text(),
            Part::Corpus => self.corpus(),
            Part::Contamination => self.contamination(),
            Part::Train(size) => self.train(size),
            Part::Eval(size, task) => self.eval(size, task),
            Part::FineTune { size, seed } => self.fine_tune(size, seed),
            Part::Race { size, seed, split } => self.race_score(size, seed, split),
            Part::Page => self.page(),
        }
    }

    /// Reads the text into one file of documents, and the test sets that are held out of it.
    fn text(&self) -> anyhow::Result<Done> {
        let Some(TextInput::Documents { root, request }) = &self.parts.inputs.text else {
            return Err(anyhow!("this experiment reads no text"));
        };
        let folder = self.out(TEXT);
        let text = machine_text::prepare(root, *request, &folder, self.progress)?;
        if request.lambada && text.lambada.is_none() {
            warn!("the text has no passage that ends in a word to guess: LAMBADA is left out");
        }
        let mut files = Vec::new();
        for file in TEXT_FILES {
            if folder.join(file).is_file() {
                files.push(self.output(&format!("{TEXT}/{file}"))?);
            }
        }
        let content = hash(&serde_json::to_value(&files)?);
        let result = serde_json::to_value(&text)?;
        Ok(Done::With(Made { result, files, content: Some(content) }))
    }

    /// Curates the corpus, with all test sets kept out.
    fn corpus(&self) -> anyhow::Result<Done> {
        let folder = self.text_folder()?;
        let test_sets = self.parts.test_sets(&self.journal);
        let test_sets = test_sets.into_iter().map(|set| set.path).collect();
        let config = self.parts.config.curation_config(&folder, test_sets);
        let mut plan = config.validate().context("[data]")?;
        let data = self.out(DATA);
        let report = match curate(&plan, &data, self.progress) {
            // What lies there is this very part's, begun of a text that was read again since.
            Err(CurationError::RunChanged { .. }) => {
                plan.existing = Existing::Replace;
                curate(&plan, &data, self.progress)
            }
            made => made,
        };
        let report = report.context("cannot curate the corpus")?;
        let result = json!({
            "documents_in": report.documents_in,
            "dropped": report.dropped,
            "documents_kept": report.documents_kept,
            "tokens": report.tokens,
            "bytes_in": report.bytes_in,
            "warnings": report.warnings,
        });
        let data = DataFolder::open(&data)?;
        let files = OutputFile::of_data(self.parts.out, DATA, &data, self.progress)?;
        Ok(Done::With(Made { result, files, content: Some(content_of_corpus(&data)) }))
    }

    /// Measures the overlap of the test sets with the corpus as it was found and as it was curated.
    fn contamination(&self) -> anyhow::Result<Done> {
        let sets = self.parts.test_sets(&self.journal);
        let sets: Vec<PathBuf> = sets.into_iter().map(|set| set.path).collect();
        let mut result = Map::new();
        // The raw corpus is what the curation reads, read as it reads it.
        let config = self.parts.config.curation_config(&self.text_folder()?, sets.clone());
        let raw = config.validate().context("[data]")?;
        let corpora =
            [("raw", raw.sources, Vec::new()), ("curated", Vec::new(), vec![self.out(DATA)])];
        for (state, sources, corpora) in corpora {
            let plan = ContaminationPlan {
                sources,
                read_policy: raw.read_policy,
                ngram_words: self.parts.config.contamination.ngram_words.clone(),
                ..ContaminationPlan::new(sets.clone(), corpora)
            };
            let report = measure(&plan, None, self.progress)
                .with_context(|| format!("cannot measure the overlap with the {state} corpus"))?;
            result.insert(state.to_owned(), serde_json::to_value(report.results)?);
        }
        let result = Value::Object(result);
        write_json(&self.out(CONTAMINATION_FILE), &result)?;
        let files = vec![self.output(CONTAMINATION_FILE)?];
        let content = hash(&without_times(&result));
        Ok(Done::With(Made { result, files, content: Some(content) }))
    }

    /// Pre-trains a size.
    fn train(&self, size: usize) -> anyhow::Result<Done> {
        let config = self.parts.config.train_config(&self.parts.config.sizes[size]);
        let options = RunOptions::new(self.out(DATA), self.run_path(Part::Train(size))?);
        self.run_training(Part::Train(size), config, options)
    }

    /// Fine-tunes a size from a seed.
    fn fine_tune(&self, size: usize, seed: usize) -> anyhow::Result<Done> {
        let part = Part::FineTune { size, seed };
        let section = &self.parts.config.sizes[size];
        let config = self.parts.config.fine_tune_config(section, self.parts.seed(seed));
        let config = config.context("nothing is fine-tuned in this experiment")?;
        let options = RunOptions {
            init_from: Some(self.run_path(Part::Train(size))?),
            ..RunOptions::new(self.race()?.path.clone(), self.run_path(part)?)
        };
        self.run_training(part, config, options)
    }

    /// Trains, from the newest checkpoint on where there is one.
    fn run_training(
        &self,
        part: Part,
        config: TrainConfig,
        options: RunOptions,
    ) -> anyhow::Result<Done> {
        let run = self.parts.run_folder(part).context("the part is no training")?;
        let options = RunOptions {
            command: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            ..options
        };
        let plan = config.validate_observed(options, self.progress);
        let plan = plan.context("cannot start training")?;
        let epochs = plan.summary().epochs;
        let report = match train(&plan, self.progress) {
            Err(TrainError::NonFinite { step, found, .. }) if self.may_diverge() => {
                return self.diverged(part, &plan, step, found);
            }
            Err(error) if is_unusable(&error) => {
                let what = format!("{} cannot go on: {}", self.parts.label(part), cause_of(&error));
                if !self.redo {
                    return Err(Usage(anyhow!(
                        "{what}. Put the file back from a copy, or pass --redo to begin the \
                         training again"
                    ))
                    .into());
                }
                warn!("{what}; it begins again");
                let run = self.out(&run);
                fs::remove_dir_all(&run)
                    .with_context(|| format!("cannot remove {}", run.display()))?;
                train(&plan, self.progress)
            }
            trained => trained,
        };
        let report = report.with_context(|| self.cannot_train(part))?;
        if report.stopped {
            return Ok(Done::Stopped);
        }
        let checkpoint = report.checkpoint.file_name().unwrap_or_default();
        let checkpoint = checkpoint.to_string_lossy().into_owned();
        let manifest = Checkpoint::peek(&report.checkpoint)
            .with_context(|| format!("{} cannot be read", report.checkpoint.display()))?;
        let mut files = vec![self.output(&format!("{run}/{METRICS_FILE}"))?];
        let (out, observer) = (self.parts.out, self.progress);
        files.extend(OutputFile::of_checkpoint(out, &run, &checkpoint, &manifest, observer)?);
        let content = content_of_model(&manifest)?;
        let mut result = serde_json::to_value(&report)?;
        result["checkpoint"] = checkpoint.into(); // whatever the folder is called next time
        result["epochs"] = json!(epochs);
        Ok(Done::With(Made { result, files, content: Some(content) }))
    }

    /// What is said before the reason for which a training failed.
    fn cannot_train(&self, part: Part) -> String {
        match part {
            Part::FineTune { seed, .. } => format!(
                "{} failed; a call with a lower finetune.optimizer.lr trains all seeds again, one \
                 without {} in finetune.seeds goes on without it",
                self.parts.label(part),
                self.parts.seed(seed)
            ),
            _ => "training failed".to_owned(),
        }
    }

    /// Whether a model that loses its numbers is a result of the experiment, and not its end.
    fn may_diverge(&self) -> bool {
        self.parts.config.experiment == Experiment::Figure7
    }

    /// What a training came to that has lost its numbers in step `step`: its curve up to there.
    fn diverged(
        &self,
        part: Part,
        plan: &TrainPlan,
        step: u64,
        found: NonFinite,
    ) -> anyhow::Result<Done> {
        warn!("{} diverges: step {step}: {found}", self.parts.label(part));
        let tokens = (step - 1) * plan.tokens_per_step();
        let result = json!({
            "diverged_at": step,
            "steps": step - 1,
            "tokens": tokens,
            "epochs": plan.summary().epochs.map(|epochs| {
                epochs * (step - 1) as f64 / plan.train_steps as f64
            }),
            "tensor_parallel_size": plan.parallel.tensor,
            "data_parallel_size": plan.parallel.data,
            "parameters": plan.architecture.num_parameters_without_padding(),
        });
        let run = self.parts.run_folder(part).context("the part is no training")?;
        let files = vec![self.output(&format!("{run}/{METRICS_FILE}"))?];
        Ok(Done::With(Made { result, files, content: None }))
    }

    /// Scores a size on a test set, from what an earlier call has scored on.
    fn eval(&self, size: usize, task: Task) -> anyhow::Result<Done> {
        let sets = self.parts.test_sets(&self.journal);
        let set = sets.into_iter().find(|it| it.task == task).context("there is no such test")?;
        let score = score_of(self.parts.size(size), task);
        let path = self.out(&score);
        create_parent(&path)?;
        let run = self.out(&run_of(self.parts.size(size)));
        let config = self.parts.config.eval.clone();
        let mut plan = config.validate(run, vec![eval_task(task, set.name, set.path)])?;
        // What lies there is this very part's.
        let scores = self.out(&scores_of(self.parts.size(size), task));
        plan.partial_scores = PartialScores::File { path: scores, replace: true };
        let (report, scores) =
            evaluate_keeping_scores(&plan, self.progress).context("cannot evaluate")?;
        let result = report.results.first().context("the evaluation has no result")?;
        let result = serde_json::to_value(result)?;
        write_json(&path, &report)?;
        scores.forget();
        let files = vec![self.output(&score)?];
        Ok(Done::With(Made { result, files, content: None }))
    }

    /// Has what was fine-tuned answer the questions of a split, from what an earlier call has asked
    /// on.
    fn race_score(&self, size: usize, seed: usize, split: RaceSplit) -> anyhow::Result<Done> {
        let [score, items, scores] = self.parts.race_files(size, seed, split);
        create_parent(&self.out(&score))?;
        let (name, data) = (race::NAME.to_owned(), self.race()?.path.clone());
        let task = evaluation::Task::Race(Race { name, data, split });
        let run = self.run_path(Part::FineTune { size, seed })?;
        let mut plan = self.parts.config.eval.clone().validate(run, vec![task])?;
        // What lies there is this very part's.
        plan.partial_scores = PartialScores::File { path: self.out(&scores), replace: true };
        let (report, scores) =
            evaluate_keeping_scores(&plan, self.progress).context("cannot evaluate")?;
        let result = report.results.first().context("the evaluation has no result")?;
        let answers = result.items.as_ref().context("the evaluation has no answers")?;
        let mut lines = Vec::new();
        answers.write_jsonl(&mut lines).context("cannot write the answers")?;
        output::file(&self.out(&items), &lines)?;
        let result = serde_json::to_value(result)?;
        write_json(&self.out(&score), &report)?;
        scores.forget();
        let files = vec![self.output(&score)?, self.output(&items)?];
        Ok(Done::With(Made { result, files, content: None }))
    }

    /// Puts everything together, beside the paper's.
    fn page(&self) -> anyhow::Result<Done> {
        let report = facts::report(&self.parts, &self.journal, self.name, &self.done_now)?;
        let [csv, page] = [self.parts.csv_file(), self.parts.page_file()];
        write_json(&self.out(REPORT_FILE), &report)?;
        output::file(&self.out(&csv), report.csv().as_bytes())?;
        output::file(&self.out(&page), report.page().as_bytes())?;
        info!("the page: {}", self.out(&page).display());
        let files = [REPORT_FILE, &csv, &page].map(|file| self.output(file));
        let files = files.into_iter().collect::<Result<_, _>>()?;
        Ok(Done::With(Made { result: json!({}), files, content: None }))
    }

    /// A file that a part has written, as it is.
    fn output(&self, path: &str) -> Result<OutputFile, CorpusError> {
        OutputFile::of(self.parts.out, path, self.progress)
    }

    /// The folder of a training.
    fn run_path(&self, part: Part) -> anyhow::Result<PathBuf> {
        Ok(self.out(&self.parts.run_folder(part).context("the part is no training")?))
    }

    /// RACE, which is there by now.
    fn race(&self) -> anyhow::Result<&RaceInput> {
        self.parts.inputs.race.as_ref().context("RACE is not given")
    }

    /// A path in the reproduction's folder.
    fn out(&self, name: &str) -> PathBuf {
        self.parts.out.join(name)
    }

    /// The folder of the documents that are curated.
    fn text_folder(&self) -> anyhow::Result<PathBuf> {
        let input = self.parts.inputs.text.as_ref().context("there is no text")?;
        Ok(input.folder(&self.out(TEXT)).to_owned())
    }
}

/// Results of an evaluation without the time that they took.
fn without_times(result: &Value) -> Value {
    let mut result = result.clone();
    for state in result.as_object_mut().into_iter().flat_map(|states| states.values_mut()) {
        for result in state.as_array_mut().into_iter().flatten() {
            result.as_object_mut().map(|result| result.remove("seconds"));
        }
    }
    result
}

/// What trainings depend on of a corpus: its tokens, and which of them are whose.
fn content_of_corpus(data: &DataFolder) -> String {
    let manifest = data.manifest();
    let shard = ["corpus.bin", "corpus.idx"].map(|name| {
        let file = manifest.files.iter().find(|file| file.name == name);
        file.map(|file| &file.xxh3_128)
    });
    let (tokenizer, spans) = (&manifest.tokenizer.fingerprint, &manifest.spans);
    hash(&json!({"shard": shard, "tokenizer": tokenizer, "spans": spans}))
}

/// What scores depend on of a training: the model and its weights.
fn content_of_model(manifest: &Manifest) -> anyhow::Result<String> {
    let weights = manifest.files.iter().find(|file| file.name == WEIGHTS);
    let weights = weights.with_context(|| format!("the checkpoint has no {WEIGHTS}"))?;
    Ok(hash(&json!({
        "model": manifest.model,
        "tokenizer": manifest.tokenizer.fingerprint,
        "weights": weights.xxh3_128,
    })))
}

/// Whether an error is that a run has checkpoints of which none is whole.
fn is_unusable(error: &TrainError) -> bool {
    matches!(error, TrainError::Checkpoint(CheckpointError::NoUsableCheckpoint { .. }))
}

/// What is wrong with the newest of these; the rest of the message is of another command's flags.
fn cause_of(error: &TrainError) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

fn create_parent(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Writes `value` as JSON, whole or not at all.
fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value).context("cannot write the result as JSON")?;
    output::file(path, format!("{text}\n").as_bytes())
}
