//! Death while saving: whatever the moment, a complete checkpoint is left, and the run goes on from
//! there as if nothing had happened.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use training::checkpoint::Checkpoint;

use super::{MICRO, Workbench, logged, logged_samples, micro, steps};
use crate::support::{program, read_json};

/// Longest that the program may take to come to its next save.
const PATIENCE: Duration = Duration::from_secs(20);

/// Steps of the run: more than twenty lives do, as a rule. One that comes to the end begins again.
const STEPS: u64 = 600;

/// A run of many steps, each of which is saved.
struct Killed {
    workbench: Workbench,
    run: PathBuf,
    config: PathBuf,
}

impl Killed {
    fn new() -> Self {
        let workbench = Workbench::new(101);
        let run = workbench.new_run();
        let config = run.with_extension("toml");
        let text = MICRO.replace("train_steps = 10", &format!("train_steps = {STEPS}"));
        let checkpoint = "\n[checkpoint]\ninterval_steps = 1\nkeep_last = 2\n";
        fs::write(&config, format!("{text}{checkpoint}")).unwrap();
        Self { workbench, run, config }
    }

    fn command(&self) -> Command {
        let mut command = program();
        command.args(["train", "--log-samples", "--config"]).arg(&self.config);
        command.arg("--data").arg(self.workbench.data()).arg("--out").arg(&self.run);
        command
    }

    fn start(&self) -> Child {
        self.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn checkpoints(&self) -> PathBuf {
        self.run.join("checkpoints")
    }

    /// Whether a save is under way.
    fn is_saving(&self) -> bool {
        let entries = fs::read_dir(self.checkpoints()).into_iter().flatten().flatten();
        let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.any(|name| name.ends_with(".partial"))
    }

    /// What `latest` says, where it is there.
    fn latest(&self) -> Option<String> {
        Some(fs::read_to_string(self.checkpoints().join("latest")).ok()?.trim().to_owned())
    }
}

/// Waits until `holds`.
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_micros(200));
    }
}

/// Losses and samples of the run that never died.
fn unbroken(workbench: &Workbench, steps_of_run: u64) -> PathBuf {
    let config = micro(|config| config.schedule.train_steps = Some(steps(steps_of_run)));
    workbench.train(config).1
}

#[test]
fn run_that_is_killed_twenty_times_around_its_saves_is_the_run_that_never_was() {
    let killed = Killed::new();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for life in 0..20 {
        // Anywhere in the save that is seen, in the next ones, or between two.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let delay = Duration::from_micros(state % 25_000);
        let last = format!("step-{STEPS}");
        if killed.latest().as_ref() == Some(&last) {
            fs::remove_dir_all(&killed.run).unwrap();
        }
        let before = killed.latest();
        let mut child = killed.start();
        wait_until("a new checkpoint is there", || killed.latest() != before);
        let is_done = || killed.latest().as_ref() == Some(&last);
        wait_until("the next save begins", || killed.is_saving() || is_done());
        thread::sleep(delay);
        child.kill().unwrap();
        child.wait().unwrap();

        let latest = killed.checkpoints().join(killed.latest().unwrap());
        Checkpoint::open(&latest).unwrap_or_else(|error| panic!("life {life}: {error}"));
    }
    // To the end without a save on the way, which would take most of the time.
    let end = killed.command().args(["--set", "checkpoint.interval_steps=1000"]).output().unwrap();
    assert!(end.status.success(), "{}", String::from_utf8_lossy(&end.stderr));
    let unbroken = unbroken(&killed.workbench, STEPS);
    assert_eq!(logged(&killed.run, "loss"), logged(&unbroken, "loss"));
    assert_eq!(logged(&killed.run, "learning_rate"), logged(&unbroken, "learning_rate"));
    assert_eq!(logged_samples(&killed.run), logged_samples(&unbroken));
    let model = format!("checkpoints/step-{STEPS}/model.safetensors");
    assert_eq!(
        fs::read(killed.run.join(&model)).unwrap(),
        fs::read(unbroken.join(&model)).unwrap()
    );
    let entries = fs::read_dir(killed.checkpoints()).unwrap();
    let mut left: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left.len(), 3, "two checkpoints and their pointer: {left:?}");
    assert_eq!(left[0], "latest");
}

/// Damages the newest checkpoint of a finished run by `damage`, has it go on, and returns what the
/// program said.
fn resumed_after(damage: impl FnOnce(&Path, &Path)) -> String {
    let workbench = Workbench::new(101);
    let (_, run) = workbench.train(micro(|config| {
        config.checkpoint.interval_steps = Some(steps(1));
    }));
    let whole = logged(&run, "loss");
    let checkpoints = run.join("checkpoints");
    damage(&checkpoints, &checkpoints.join("step-10"));
    let config = run.with_extension("toml");
    fs::write(&config, MICRO).unwrap();
    let mut command = program();
    command.args(["train", "--config"]).arg(&config);
    command.arg("--data").arg(workbench.data()).arg("--out").arg(&run);
    let output = command.output().unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{messages}");
    assert_eq!(logged(&run, "loss"), whole);
    assert_eq!(Checkpoint::open(&run).unwrap().step(), 10);
    messages
}

#[test]
fn damaged_checkpoints_are_passed_over_with_the_reason() {
    let messages = resumed_after(|_, newest| {
        let file = fs::File::options().write(true).open(newest.join("model.safetensors")).unwrap();
        file.set_len(1000).unwrap();
    });
    assert!(messages.contains("step-10/model.safetensors: bytes: expected "), "{messages}");
    assert!(messages.contains("found 1000"), "{messages}");
    assert!(messages.contains("resuming from ") && messages.contains("step-9"), "{messages}");

    let messages = resumed_after(|_, newest| {
        fs::write(newest.join("optimizer.safetensors"), "").unwrap();
        fs::write(newest.with_file_name("step-9").join("manifest.json"), "").unwrap();
    });
    assert!(messages.contains("optimizer.safetensors: bytes: expected "), "{messages}");
    assert!(messages.contains("step-9/manifest.json: EOF"), "{messages}");
    assert!(messages.contains("step-8"), "{messages}");

    let messages = resumed_after(|checkpoints, newest| {
        fs::rename(newest, checkpoints.join(".step-10.partial")).unwrap();
    });
    assert!(messages.contains(".step-10.partial: it was not finished"), "{messages}");

    // With no pointer there is still a newest.
    let messages = resumed_after(|checkpoints, _| {
        fs::remove_file(checkpoints.join("latest")).unwrap();
    });
    assert!(messages.contains("already at step 10 of 10"), "{messages}");
}

#[test]
fn signal_during_a_save_ends_the_run_when_the_save_is_complete() {
    let killed = Killed::new();
    let mut child = killed.start();
    wait_until("a save begins", || killed.is_saving());
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(75));
    let newest = Checkpoint::open(&killed.run).unwrap();
    assert_eq!(logged(&killed.run, "step").len() as u64, newest.step(), "nothing is lost");
    assert!(!killed.is_saving());
    let state = read_json(&newest.folder().join("state.json"));
    assert_eq!(state["step"], newest.step());
}
