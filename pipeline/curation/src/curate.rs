//! The data stage from its first file to its last: [`curate`].

use std::fs;
use std::path::Path;
use std::time::Instant;

use corpus::reader::Sources;
use corpus::{DataFolder, Existing, Observer, REPORT, TokenizerIdentity};

use crate::contaminated::drop_contaminated;
use crate::decontaminate::Decontamination;
use crate::exact::drop_copies;
use crate::finish::Made;
use crate::input::Input;
use crate::memory::MemoryBudget;
use crate::near_duplicates::{Decided, drop_near_duplicates};
use crate::outcomes::Outcomes;
use crate::read::read;
use crate::report::CurationReport;
use crate::run::Run;
use crate::stages::{FileState, ORIGIN, RunIdentity, StageFolder};
use crate::tokenize::tokenize;
use crate::{CurationError, CurationPlan};

/// Name of the list of records that could not be read.
pub const REJECTS: &str = "rejects.jsonl";

/// Makes a curated corpus of a plan's sources: the data folder `out`, which is there in whole when
/// this returns, and not at all when it fails.
///
/// What was done is kept beside `out` when the process dies or is told to stop, and the same plan
/// goes on from there. A folder that the same plan has made already, of the same files, is left as
/// it is.
///
/// Works on the threads of the current rayon pool. The shard and every verdict are the same for any
/// number of threads, any limit on memory, any division of the input into files of the same order,
/// and any number of deaths on the way.
///
/// # Errors
///
/// Where a source, a test set or the output cannot be used, where nothing is kept, and where the
/// observer asks to stop.
pub fn curate(
    plan: &CurationPlan,
    out: &Path,
    observer: &dyn Observer,
) -> Result<CurationReport, CurationError> {
    let started = Instant::now();

    // What can be refused is refused before the first document is read.
    let Opened { sources, test_sets, identity } = Opened::new(plan, observer)?;
    if let Some(report) = made_before(out, &identity, plan.existing)? {
        StageFolder::remove_leftovers(out, &identity);
        return Ok(report);
    }
    DataFolder::check_place(out, plan.existing)?;
    let memory = MemoryBudget::new(plan.max_memory);
    memory.for_passes(0)?;
    let stages = StageFolder::open(out, &identity, plan.existing, observer)?;
    let mut run = Run::new(stages, observer, memory);

    match make(plan, sources, test_sets.as_ref(), out, &mut run, started) {
        Ok(report) => {
            if let Err(error) = run.stages.remove() {
                tracing::warn!("{error}. The data folder is complete: remove the stages by hand");
            }
            Ok(report)
        }
        Err(CurationError::Stopped { .. }) => {
            Err(CurationError::Stopped { stages: run.stages.resumable() })
        }
        Err(error) if error.outlives_a_remedy() => Err(error),
        Err(error) => {
            // The first error is the one to report.
            let _ = run.stages.remove();
            Err(error)
        }
    }
}

/// Whether [`curate`] would begin to make `out`, or leave it as it is, as far as can be told without
/// making anything.
///
/// # Errors
///
/// Where it would refuse to.
pub fn check_output(
    plan: &CurationPlan,
    out: &Path,
    observer: &dyn Observer,
) -> Result<(), CurationError> {
    let Opened { identity, .. } = Opened::new(plan, observer)?;
    if made_before(out, &identity, plan.existing)?.is_some() {
        return Ok(());
    }
    DataFolder::check_place(out, plan.existing)?;
    MemoryBudget::new(plan.max_memory).for_passes(0)?;
    StageFolder::check(out, &identity, plan.existing)
}

/// The stages, in order. Each has the documents that those before it left.
fn make(
    plan: &CurationPlan,
    sources: Sources,
    test_sets: Option<&Decontamination>,
    out: &Path,
    run: &mut Run<'_>,
    started: Instant,
) -> Result<CurationReport, CurationError> {
    // 1. Read every document, in the order that all results follow, and judge it by itself.
    let (documents, input) = read(plan, sources, run)?;
    let mut outcomes = Outcomes::of_reading(&documents)?;

    // 2. Drop all but the first of equal texts.
    if plan.exact_duplicates {
        drop_copies(&documents, &mut outcomes, run)?;
    }

    // 3. Drop test data; before near-duplicates, so that a contaminated document takes no clean
    //    neighbor with it.
    let contamination = match test_sets {
        Some(test_sets) => Some(drop_contaminated(test_sets, &documents, &mut outcomes, run)?),
        None => None,
    };

    // 4. Drop near-duplicates of what is kept.
    let decided = match &plan.near_duplicates {
        Some(rule) => drop_near_duplicates(rule, &documents, &mut outcomes, run)?,
        None => Decided::default(),
    };
    if outcomes.num_kept() == 0 {
        return Err(nothing_kept(&outcomes, &input));
    }

    // 5. Write what is left as tokens.
    let (shard, cuts) = tokenize(plan, &documents, &outcomes, run)?;

    // 6. Write what became of every document, and last the manifest, which makes the folder whole.
    let made =
        Made { plan, test_sets, documents, outcomes, input, contamination, decided, shard, cuts };
    made.finish(out, run, started)
}

/// What a plan names, listed and read before the first document is.
struct Opened {
    sources: Sources,
    test_sets: Option<Decontamination>,
    identity: RunIdentity,
}

impl Opened {
    fn new(plan: &CurationPlan, observer: &dyn Observer) -> Result<Self, CurationError> {
        let sources = Sources::open(&plan.sources, plan.read_policy)?;
        let test_sets = plan.decontamination.as_ref();
        let test_sets =
            test_sets.map(|config| Decontamination::open(config, observer)).transpose()?;
        let identity = identity(plan, &sources, test_sets.as_ref());
        Ok(Self { sources, test_sets, identity })
    }
}

/// What decides the content of the data folder that a plan makes.
fn identity(
    plan: &CurationPlan,
    sources: &Sources,
    test_sets: Option<&Decontamination>,
) -> RunIdentity {
    let inputs = sources.files().map(|file| {
        let state = FileState { bytes: file.bytes, stamp: file.modified_ns.to_string() };
        (file.path.display().to_string(), state)
    });
    let test_files = test_sets.iter().flat_map(|it| it.files()).map(|(path, file)| {
        let state = FileState { bytes: file.bytes, stamp: file.xxh3_128.clone() };
        (path.display().to_string(), state)
    });
    RunIdentity::new(
        config_value(plan),
        TokenizerIdentity::of(plan.tokenizer.as_ref()),
        inputs.collect(),
        test_files.collect(),
    )
}

/// The config of a plan, for manifests.
pub(crate) fn config_value(plan: &CurationPlan) -> serde_json::Value {
    serde_json::to_value(&plan.config)
        .expect("a config is made of strings, numbers and tables, which JSON has")
}

/// The report of the data folder `out`, if this plan has made it of these files.
fn made_before(
    out: &Path,
    identity: &RunIdentity,
    existing: Existing,
) -> Result<Option<CurationReport>, CurationError> {
    if existing == Existing::Replace {
        return Ok(None);
    }
    let Some(earlier) = RunIdentity::read(&out.join(ORIGIN))? else { return Ok(None) };
    if earlier != *identity {
        return Err(CurationError::RunChanged {
            out: out.to_owned(),
            holds: "a data folder",
            changes: identity.changes_since(&earlier),
        });
    }
    DataFolder::open(out)?;
    let path = out.join(REPORT);
    let text = fs::read(&path).map_err(CurationError::io("read", &path))?;
    let report = serde_json::from_slice(&text)
        .map_err(|source| CurationError::Journal { path: path.clone(), source })?;
    tracing::info!("{}: complete already, of this configuration and these files", out.display());
    Ok(Some(report))
}

fn nothing_kept(outcomes: &Outcomes, input: &Input) -> CurationError {
    CurationError::NothingKept {
        documents_in: u64::from(outcomes.len()),
        dropped: outcomes.dropped(),
        rejected: input.rejected.values().sum(),
    }
}
