//! A disk without room: the run trains on, says what it would need, keeps the checkpoint that it has,
//! and goes on from there later as if nothing had happened.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use corpus::{Observer, Unit};
use training::backend::Cpu;
use training::checkpoint::{
    Checkpoint, CheckpointError, Retention, Saved, Snapshot, TrainingState, save,
};
use training::config::TrainConfig;
use training::model::Gpt2;
use training::optim::{AdamW, Moments};
use training::parallel::{ParallelDims, launch};
use training::parameters::{KeyedInit, ParameterSpec};
use training::{TrainError, train};

use super::{MICRO, StopAfter, Workbench, logged, micro, number, set_layout, steps};

fn saves_every_third_step(config: &mut TrainConfig) {
    config.batch.micro_batch_size = number(2);
    config.checkpoint.interval_steps = Some(steps(3));
}

/// Writes the same run down for the program.
fn config_file(run: &Path) -> PathBuf {
    let path = run.with_extension("toml");
    let text = MICRO.replace("micro_batch_size = 4", "micro_batch_size = 2");
    fs::write(&path, format!("{text}\n[checkpoint]\ninterval_steps = 3\n")).unwrap();
    path
}

/// Runs `script` by the shell with the command line of the run in `$@`.
fn shell(script: &str, workbench: &Workbench, run: &Path, more: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_pipeline"), "train", "--config"]);
    command.arg(config_file(run)).arg("--data").arg(workbench.data()).arg("--out").arg(run);
    command.args(more).env_remove("RUST_LOG");
    command.output().unwrap()
}

/// A run that was stopped after `done` steps, and is then called again within `script`.
fn stopped_then(done: u64, script: &str, layout: (usize, usize)) -> (Workbench, PathBuf, Output) {
    let workbench = Workbench::new(101);
    let run = workbench.new_run();
    let plan = micro(saves_every_third_step).validate(workbench.options(&run)).unwrap();
    train(&plan, &StopAfter::new(done)).unwrap();
    let (tp, dp) = (layout.0.to_string(), layout.1.to_string());
    let output = shell(script, &workbench, &run, &["--tp", &tp, "--dp", &dp]);
    (workbench, run, output)
}

/// Whether the run goes on from step `kept` to the end with the losses of one that never failed.
fn check_goes_on(workbench: &Workbench, run: &Path, kept: u64, layout: (usize, usize)) {
    let checkpoint = Checkpoint::open(run).unwrap();
    assert_eq!(checkpoint.step(), kept, "what `latest` names");
    let names: Vec<_> = fs::read_dir(run.join("checkpoints"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.iter().all(|name| !name.starts_with('.')), "nothing half written: {names:?}");
    let config = || {
        micro(|config| {
            saves_every_third_step(config);
            set_layout(config, layout);
        })
    };
    workbench.train_into(run, config());
    // The first steps of the other were done in another layout.
    let whole = workbench.losses(config());
    assert!(super::relative_difference(&logged(run, "loss"), &whole) < 1e-5);
}

#[test]
fn file_that_may_not_grow_further_costs_no_training_on_any_rank() {
    // 150 KiB: the file of the weights has 117, that of the moments 234.
    for layout in [(1, 1), (2, 2)] {
        let (workbench, run, output) = stopped_then(4, "ulimit -f 300; exec \"$@\"", layout);
        let messages = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{messages}");
        for part in [
            "step 6 is not saved: cannot write ",
            "optimizer.safetensors: File too large",
            " bytes are needed and ",
            " are free; the checkpoint of step 4 is kept, and training goes on",
            "2 saves in a row have failed",
            "step 10 is not saved: ",
            "the limit on the size of files (ulimit -f), then call again: \
             the run goes on from step 4, which is kept",
        ] {
            assert!(messages.contains(part), "no {part:?} in\n{messages}");
        }
        assert_eq!(messages.matches("step 6 is not saved: ").count(), 1, "told once: {messages}");
        assert_eq!(logged(&run, "step").len(), 10, "all steps were done, and are on the disk");
        check_goes_on(&workbench, &run, 4, layout);
    }
}

#[test]
fn lines_that_a_full_disk_does_not_take_wait_and_end_no_run() {
    let (workbench, run, output) = stopped_then(2, "ulimit -f 2; exec \"$@\"", (1, 1));
    let messages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(
        messages.contains("metrics.jsonl: File too large (os error 27); what it would hold waits"),
        "{messages}"
    );
    assert!(messages.contains("step 10 is not saved: cannot write "), "{messages}");
    check_goes_on(&workbench, &run, 2, (1, 1));
}

/// Everywhere, for it needs no disk of its own: a checkpoint of more than any disk has.
#[test]
fn checkpoint_that_cannot_fit_is_not_begun_and_latest_keeps_its_name() {
    let workbench = Workbench::new(101);
    let plan = micro(|_| {}).validate(workbench.options(&workbench.new_run())).unwrap();
    let config = plan.architecture.gpt2().unwrap();
    let checkpoints = workbench.new_run().join("checkpoints");
    for ranks in [(1, 1), (2, 2)] {
        let save = |step: u64, specs: &[ParameterSpec]| {
            let dims = ParallelDims { tensor: ranks.0, data: ranks.1 };
            let saved = launch(dims, |rank| {
                let (group, table) = (&rank.tensor_parallel, config.parameters());
                let source = KeyedInit { seed: plan.seed };
                let model = Gpt2::<Cpu>::init(config, &source, group, &Default::default())?;
                let moments = Moments::start(&table, group.rank(), group.size());
                let snapshot = Snapshot {
                    state: TrainingState {
                        step,
                        updates: step,
                        samples_consumed: 4 * step,
                        seed: plan.seed,
                        loss_scaler: None,
                    },
                    architecture: &plan.architecture,
                    tokenizer: &plan.tokenizer,
                    config: &plan.config,
                    data: &plan.data,
                    init_from: None,
                    specs,
                    model: &model,
                    optimizer: &AdamW::new(plan.optimizer.clone(), &table, moments, step),
                };
                save(&snapshot, &checkpoints, Retention::default(), &rank, || Ok(()))
            });
            saved.unwrap()
        };
        let table = config.parameters();
        for saved in save(3, &table) {
            assert!(matches!(saved, Saved::Whole(_)), "{saved:?}");
        }
        let mut huge = table.clone();
        huge[0].shape[0] = 1 << 44;
        let failed = save(6, &huge);
        assert_eq!(failed.len(), ranks.0 * ranks.1);
        let mut causes = Vec::new();
        for saved in failed {
            let Saved::Failed { cause, room } = saved else { panic!("{saved:?}") };
            assert!(room.free.is_some_and(|free| free < room.needed), "{room}");
            causes.extend(cause);
        }
        assert!(
            matches!(causes[..], [TrainError::Checkpoint(CheckpointError::NoRoom { .. })]),
            "told once: {causes:?}"
        );
        let latest = fs::read_to_string(checkpoints.join("latest")).unwrap();
        assert_eq!(latest, "step-3\n");
        assert!(!checkpoints.join("step-6").exists());
        assert!(!checkpoints.join(".step-6.partial").exists());
        assert_eq!(Checkpoint::open(&checkpoints).unwrap().step(), 3);
    }
}

#[test]
fn disk_without_room_is_known_before_anything_is_written() {
    let workbench = Workbench::new(101);
    let disk = workbench.new_run();
    fs::create_dir(&disk).unwrap();
    // Room for one checkpoint of 352 kB, not for the next beside it. What is left is told from
    // within: the disk goes with the processes that see it.
    let script = format!(
        "mount -t tmpfs -o size=700k none {0} || exit 99\n\
         \"$@\"\n\
         echo code $?\n\
         ls -A {0}/run/checkpoints\n\
         cat {0}/run/checkpoints/latest\n\
         wc -l < {0}/run/metrics.jsonl",
        disk.display()
    );
    let run = disk.join("run");
    fs::write(disk.with_extension("sh"), script).unwrap();
    let script = format!("unshare -Urm sh {} \"$@\"", disk.with_extension("sh").display());
    fs::create_dir_all(&disk).unwrap();
    let config = config_file(&disk);
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_pipeline"), "train", "--config"]);
    command.arg(config).arg("--data").arg(workbench.data()).arg("--out").arg(&run);
    command.args(["--set", "checkpoint.keep_last=1"]);
    let output = command.output().unwrap();
    let (told, messages) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    if !told.contains("code ") {
        // The check itself is tested above; this is the real thing.
        println!("skipped: this user mounts no disk: {messages}");
        return;
    }
    assert_eq!(
        told.split_whitespace().collect::<Vec<_>>(),
        ["code", "1", "latest", "step-3", "step-3", "10"]
    );
    for part in [
        "step 6 is not saved: ",
        "run/checkpoints has no room for a checkpoint; ",
        "the checkpoint of step 3 is kept, and training goes on",
        "step 10 is not saved: ",
        "make room on the disk",
    ] {
        assert!(messages.contains(part), "no {part:?} in\n{messages}");
    }
}

/// Moves the run's folder away once some steps are done.
struct MovesAway<'a> {
    from: &'a Path,
    to: &'a Path,
    steps: StopAfter,
}

impl Observer for MovesAway<'_> {
    fn begin(&self, stage: &str, total: Option<u64>, unit: Unit) {
        self.steps.begin(stage, total, unit);
    }

    fn advance(&self, amount: u64) {
        self.steps.advance(amount);
        if self.steps.stop_requested() && self.from.exists() {
            fs::rename(self.from, self.to).unwrap();
        }
    }

    fn finish(&self) {}
}

#[test]
fn run_whose_folder_is_moved_away_says_so_and_saves_nothing_beside_it() {
    let workbench = Workbench::new(101);
    let (out, away) = (workbench.new_run(), workbench.new_run());
    let plan = micro(|config| config.checkpoint.interval_steps = Some(steps(3)))
        .validate(workbench.options(&out))
        .unwrap();
    let observer = MovesAway { from: &out, to: &away, steps: StopAfter::new(4) };
    let error = train(&plan, &observer).unwrap_err().to_string();
    assert!(
        error.contains("metrics.jsonl was moved or deleted while the run writes it"),
        "{error}"
    );
    assert!(!out.exists(), "no second run folder is begun");
    // Moved back, the run goes on.
    fs::rename(&away, &out).unwrap();
    assert_eq!(workbench.train_into(&out, micro(|_| {})).steps, 10);
}
