//! The work: each part in its turn, once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow};
use corpus::{CorpusError, DataFolder, Existing, Observer, machine};
use curation::{CurationError, curate};
use evaluation::contamination::{ContaminationPlan, measure};
use evaluation::{EvalError, PartialScores, evaluate_keeping_scores};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tracing::{info, warn};
use training::checkpoint::{Checkpoint, Manifest};
use training::metrics::METRICS_FILE;
use training::{RunOptions, TrainError, train};

use super::depends::{Depends, hash};
use super::inputs::{TEXT_FILES, TextInput};
use super::journal::{Journal, Made, Spent, State};
use super::outputs::{Fault, OutputFile};
use super::parts::{
    CONTAMINATION_FILE, CSV_FILE, DATA, PAGE_FILE, Part, Parts, REPORT_FILE, TEXT, run_of,
    score_of, scores_of,
};
use super::pulse::with_pulse;
use super::report::{ReproductionReport, Task};
use super::{eval_task, facts};
use crate::machine_text;
use crate::output;
use crate::progress::Progress;

/// The file of a checkpoint that holds its weights.
const WEIGHTS: &str = "model.safetensors";

/// A reproduction at work.
pub(super) struct Work<'a> {
    parts: Parts<'a>,
    journal: Journal,
    name: &'a str,
    progress: &'a Progress,
    /// Whether trainings may be thrown away.
    redo: bool,
    /// Keys of the parts that this call has done.
    done_now: Vec<String>,
}

/// How a call ended.
pub(super) enum Outcome {
    /// All is done.
    Done(Box<ReproductionReport>),
    /// A signal stopped it.
    Stopped {
        /// The part that was at work.
        part: String,
        /// Parts that are done.
        done: usize,
        /// Parts in all.
        of: usize,
    },
}

/// What a part came to.
enum Done {
    /// It is done, and came to this.
    With(Made),
    /// It was stopped, and goes on with another call.
    Stopped,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        parts: Parts<'a>,
        journal: Journal,
        name: &'a str,
        progress: &'a Progress,
        redo: bool,
    ) -> Self {
        Self { parts, journal, name, progress, redo, done_now: Vec::new() }
    }

    /// Does all parts that are not done, in their order.
    ///
    /// # Errors
    ///
    /// Where one fails, or a training would be thrown away that may not be; what was done before it
    /// stays.
    pub(super) fn run(&mut self) -> anyhow::Result<Outcome> {
        self.journal.settle(self.parts.out)?;
        let mut index = 0;
        loop {
            // The text tells which test sets there are, and so which parts.
            let all = self.parts.all(&self.journal);
            let Some(&part) = all.get(index) else { break };
            let of = all.len();
            let label = format!("{}/{of} {}", index + 1, self.parts.label(part));
            self.put_back(part, &label)?;
            self.judge(part)?;
            if self.parts.is_done(part, &self.journal)? {
                info!("{label}: done before");
            } else if self.progress.stop_requested() || !self.part(part, &label)? {
                return Ok(Outcome::Stopped { part: self.parts.label(part), done: index, of });
            }
            index += 1;
        }
        let path = self.parts.out.join(REPORT_FILE);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let report = serde_json::from_slice(&bytes).map_err(|error| {
            anyhow!("{}: {error}; delete it to have it made again", path.display())
        })?;
        Ok(Outcome::Done(Box::new(report)))
    }

    /// Does one part, and notes how far it came. Returns whether it is done.
    fn part(&mut self, part: Part, label: &str) -> anyhow::Result<bool> {
        let key = self.parts.key(part);
        let depends = self
            .parts
            .depends(part, &self.journal)?
            .with_context(|| format!("{key} comes before what it needs"))?;
        self.clear(part, &depends, label)?;
        self.journal.begin(&key, depends, self.parts.outputs(part));
        self.journal.write(self.parts.out)?;
        info!("{label}: {}", self.parts.describe(part, &self.journal));

        machine::reset_peak_rss();
        self.progress.take_warnings(); // what came before is of no part
        let started = Instant::now();
        let done = with_pulse(&self.journal, &key, self.parts.out, started, || self.make(part));
        let done = match done {
            Err(error) if is_stop(&error) => Ok(Done::Stopped),
            done => done,
        };
        let made = match &done {
            Ok(Done::With(made)) => Some(made.clone()),
            _ => None,
        };
        let is_done = made.is_some();
        let spent = Spent {
            seconds: started.elapsed().as_secs_f64(),
            peak_rss_bytes: machine::peak_rss_bytes(),
            warnings: self.progress.take_warnings(),
        };
        self.journal.note(&key, spent, made);
        self.journal.write(self.parts.out)?;
        done?;
        if is_done {
            self.done_now.push(key);
        }
        Ok(is_done)
    }

    /// Puts back what was set aside of a part, where that is what this call wants.
    fn put_back(&mut self, part: Part, label: &str) -> anyhow::Result<()> {
        let key = self.parts.key(part);
        let Some(fingerprint) = self.parts.fingerprint(part, &self.journal)? else { return Ok(()) };
        let is_wanted = |entry: &super::journal::Entry| entry.fingerprint == fingerprint;
        if self.parts.is_done(part, &self.journal)?
            || !self.journal.aside(&key).is_some_and(is_wanted)
        {
            return Ok(());
        }
        if self.journal.put_back(&key, self.parts.out, self.progress)? {
            info!("{label}: what was set aside is what is wanted again");
        }
        Ok(())
    }

    /// Refuses to go on where a training would be thrown away that may not be. Behind the corpus
    /// all is known of it, and nothing needs to be set aside any more.
    fn judge(&mut self, part: Part) -> anyhow::Result<()> {
        if !self.redo {
            self.parts.spare(&self.parts.losses(&self.journal)?)?;
        }
        match part {
            Part::Text | Part::Corpus => Ok(()),
            _ => self.journal.drop_aside(self.parts.out),
        }
    }

    /// Removes what an earlier call left of a part, unless the part goes on from it, or trainings
    /// rest on it. With a changed training or score, the page no longer tells what is there.
    fn clear(&mut self, part: Part, depends: &Depends, label: &str) -> anyhow::Result<()> {
        let key = self.parts.key(part);
        let Some(entry) = self.journal.entry(&key) else {
            // What lies there without the journal knowing of it is somebody else's.
            return self.parts.check_free(part);
        };
        let has_changed = entry.fingerprint != depends.fingerprint(&key);
        if !has_changed && entry.state == State::Begun {
            info!("{label}: goes on where it was broken off");
            return Ok(());
        }
        if has_changed {
            let changes = self.parts.changes(part, &self.journal)?;
            let changes = match changes.is_empty() {
                true => "what it depends on has changed".to_owned(),
                false => changes.join("; "),
            };
            warn!("{label}: is done again: {changes}");
        } else {
            let fault = self.journal.fault(&key).map(Fault::sentence).unwrap_or_default();
            warn!("{label}: is done again: {fault}");
        }
        let is_early = matches!(part, Part::Text | Part::Corpus);
        if has_changed && is_early && self.is_to_be_kept(&key) {
            return self.journal.set_aside(&key, self.parts.out);
        }
        let mut stale = vec![key];
        if has_changed && part.size().is_some() {
            stale.push(self.parts.key(Part::Page));
        }
        for key in stale {
            if let Some(entry) = self.journal.entry(&key) {
                entry.remove_outputs(self.parts.out)?;
                self.journal.forget(&key);
            }
        }
        Ok(())
    }

    /// Whether the output of an early part is to be set aside: trainings rest on it, and it is not
    /// yet known whether they still hold.
    fn is_to_be_kept(&self, key: &str) -> bool {
        let is_whole = self.journal.entry(key).is_some_and(|entry| entry.state == State::Done)
            && self.journal.fault(key).is_none();
        let all = self.parts.all(&self.journal);
        !self.redo
            && is_whole
            && self.journal.aside(key).is_none()
            && all.into_iter().any(|part| self.parts.has_trained(part, &self.journal))
    }

    fn make(&self, part: Part) -> anyhow::Result<Done> {
        match part {
            Part::Text => self.text(),
            Part::Corpus => self.corpus(),
            Part::Contamination => self.contamination(),
            Part::Train(size) => self.train(size),
            Part::Eval(size, task) => self.eval(size, task),
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

    /// Trains a size, from its newest checkpoint on where it has one.
    fn train(&self, size: usize) -> anyhow::Result<Done> {
        let config = self.parts.config.train_config(&self.parts.config.sizes[size]);
        let run = run_of(self.parts.size(size));
        let options = RunOptions {
            command: std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect(),
            ..RunOptions::new(self.out(DATA), self.out(&run))
        };
        let plan = config.validate_observed(options, self.progress);
        let plan = plan.context("cannot start training")?;
        let epochs = plan.summary().epochs;
        let report = train(&plan, self.progress).context("training failed")?;
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

    /// Puts everything together, beside the paper's.
    fn page(&self) -> anyhow::Result<Done> {
        let found = facts::gather(&self.parts, &self.journal, self.name, &self.done_now)?;
        let report = ReproductionReport::of(found);
        write_json(&self.out(REPORT_FILE), &report)?;
        output::file(&self.out(CSV_FILE), report.csv().as_bytes())?;
        output::file(&self.out(PAGE_FILE), report.page().as_bytes())?;
        info!("the page: {}", self.out(PAGE_FILE).display());
        let files = [REPORT_FILE, CSV_FILE, PAGE_FILE].map(|file| self.output(file));
        let files = files.into_iter().collect::<Result<_, _>>()?;
        Ok(Done::With(Made { result: json!({}), files, content: None }))
    }

    /// A file that a part has written, as it is.
    fn output(&self, path: &str) -> Result<OutputFile, CorpusError> {
        OutputFile::of(self.parts.out, path, self.progress)
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

/// Whether an error is that a signal has stopped the work.
pub(super) fn is_stop(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(CorpusError::Stopped))
            || matches!(cause.downcast_ref(), Some(CurationError::Stopped { .. }))
            || matches!(cause.downcast_ref(), Some(TrainError::Stopped))
            || matches!(
                cause.downcast_ref(),
                Some(EvalError::Stopped | EvalError::StoppedWithScores { .. })
            )
    })
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
