//! Whole runs through `train`: what may change a loss and what must not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use corpus::{Observer, Silent, Unit};
use training::config::ValidationConfig;
use training::error::NonFinite;
use training::plan::Resume;
use training::{TrainError, TrainReport, train};

use super::{
    StopAfter, Workbench, logged, logged_samples, micro, number, relative_difference, set_dropout,
    set_layout, steps,
};

/// Metrics hold a loss as text, which comes back to the last bit or the one before.
fn check_close(loss: Option<f64>, logged: f64) {
    let loss = loss.unwrap();
    assert!((loss - logged).abs() <= 1e-15 * logged, "{loss} and {logged}");
}

/// A resumed run has its earlier losses from its metrics.
fn check_same_losses(left: &TrainReport, right: &TrainReport) {
    check_close(left.first_loss, right.first_loss.unwrap());
    check_close(left.final_loss, right.final_loss.unwrap());
}

/// Losses and gradient norms of 100 steps at tensor-parallel sizes 1, 2 and 4.
fn check_tensor_parallel(vocab_size: usize, dropout: f64) {
    let workbench = Workbench::new(vocab_size);
    let train = |tensor_parallel_size| {
        let (_, run) = workbench.train(micro(|config| {
            config.schedule.train_steps = Some(steps(100));
            config.parallel.tensor_parallel_size = number(tensor_parallel_size);
            set_dropout(config, dropout);
        }));
        (logged(&run, "loss"), logged(&run, "grad_norm"))
    };
    let (whole, whole_norms) = train(1);
    assert!(whole[99] < whole[0] - 0.3, "nothing was learned: {} to {}", whole[0], whole[99]);
    for size in [2, 4] {
        // Sums over ranks round differently: f32, 100 steps of Adam.
        let (losses, norms) = train(size);
        let difference = relative_difference(&losses, &whole);
        assert!(difference < 1e-5, "size {size}: {difference:e}");
        // A norm that counted a parameter twice, or a rank not at all, would be off by tens of
        // percent.
        let difference = relative_difference(&norms, &whole_norms);
        assert!(difference < 1e-3, "gradient norm at size {size}: {difference:e}");
    }
}

#[test]
fn tensor_parallel_sizes_train_alike_with_a_vocabulary_that_needs_padding() {
    check_tensor_parallel(101, 0.0);
}

#[test]
fn tensor_parallel_sizes_train_alike_with_a_vocabulary_that_needs_no_padding_at_size_one() {
    check_tensor_parallel(128, 0.0);
}

#[test]
fn tensor_parallel_sizes_draw_the_same_dropout() {
    check_tensor_parallel(101, 0.1);
    check_tensor_parallel(128, 0.1);
}

#[test]
fn accumulation_equals_one_large_batch() {
    let workbench = Workbench::new(101);
    let losses = |micro_batch_size| {
        workbench.losses(micro(|config| {
            config.batch.micro_batch_size = number(micro_batch_size);
            set_dropout(config, 0.1);
        }))
    };
    let whole = losses(4);
    for micro_batch_size in [1, 2] {
        // The same sum in another order, over ten steps.
        let difference = relative_difference(&losses(micro_batch_size), &whole);
        assert!(difference < 1e-6, "micro-batches of {micro_batch_size}: {difference:e}");
    }
}

#[test]
fn same_seed_gives_the_same_run_and_another_seed_another() {
    let workbench = Workbench::new(101);
    let losses = |seed| workbench.losses(micro(|config| config.seed = seed));
    assert_eq!(losses(1), losses(1));
    assert_ne!(losses(1), losses(2));
}

#[test]
fn small_model_learns_a_small_corpus_by_heart() {
    let documents = vec![(0..64).map(|place| place * 37 % 89).collect()];
    let (report, _) = Workbench::with_documents(101, &documents).train(micro(|config| {
        config.data.split = "1,0,0".parse().unwrap();
        config.schedule.train_steps = Some(steps(150));
        config.optimizer.lr = 1e-2;
    }));
    assert!(report.first_loss.unwrap() > 4.0, "{report:?}");
    assert!(report.final_loss.unwrap() < 0.1, "{report:?}");
}

#[test]
fn report_and_metrics_tell_the_same_run() {
    let workbench = Workbench::new(101);
    let (report, run) = workbench.train(micro(|config| {
        config.schedule.train_steps = Some(steps(12));
        config.validation = Some(ValidationConfig { interval_steps: steps(5), batches: None });
    }));
    let losses = logged(&run, "loss");
    assert_eq!(losses.len(), 12);
    check_close(report.first_loss, losses[0]);
    check_close(report.final_loss, losses[2..].iter().sum::<f64>() / 10.0);
    let validation = logged(&run, "validation_loss");
    assert_eq!(validation.len(), 3, "after steps 5, 10 and 12");
    check_close(report.validation_loss, validation[2]);
    assert_eq!(report.tokens, 12 * 4 * 16);
    assert!(!report.stopped);
    assert!(report.checkpoint.ends_with("checkpoints/step-12"));

    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    for key in [
        "step",
        "loss",
        "grad_norm",
        "learning_rate",
        "loss_scale",
        "skipped",
        "tokens",
        "tokens_per_second",
        "milliseconds",
    ] {
        assert!(line.get(key).is_some(), "{key} is missing in {line}");
    }
    assert_eq!(logged(&run, "learning_rate")[0], 5e-4);
}

#[test]
fn validation_does_not_depend_on_batches_or_ranks() {
    let workbench = Workbench::new(101);
    let loss = |micro_batch_size, layout| {
        let (_, run) = workbench.train(micro(|config| {
            config.schedule.train_steps = Some(steps(1));
            config.batch.micro_batch_size = number(micro_batch_size);
            set_layout(config, layout);
            config.validation = Some(ValidationConfig { interval_steps: steps(1), batches: None });
        }));
        (logged(&run, "validation_loss")[0], logged(&run, "targets")[0])
    };
    let (whole, targets) = loss(4, (1, 1));
    // 17 samples, which do not split evenly.
    assert_eq!(targets, 17.0 * 16.0);
    for (micro_batch_size, layout) in [(1, (1, 1)), (4, (2, 1)), (1, (1, 2)), (1, (2, 4))] {
        let (split, split_targets) = loss(micro_batch_size, layout);
        // f32 losses of some hundred targets, added in f64.
        assert!((split - whole).abs() < 1e-6 * whole, "{layout:?}: {split}, not {whole}");
        assert_eq!(split_targets, targets, "{layout:?}");
    }
}

#[test]
fn stopped_run_goes_on_bit_for_bit_wherever_it_stopped() {
    // 330 tokens make 20 samples: an epoch is five steps, and twelve steps end in the third.
    let documents =
        [330, 50].map(|length: u32| (0..length - 1).map(|place| place * place % 97).collect());
    let workbench = Workbench::with_documents(101, &documents);
    let config = |layout| {
        micro(|config| {
            config.schedule.train_steps = Some(steps(12));
            config.batch.micro_batch_size = number(2);
            config.data.split = "1,1,0".parse().unwrap();
            config.validation = Some(ValidationConfig { interval_steps: steps(4), batches: None });
            set_layout(config, layout);
            set_dropout(config, 0.1);
        })
    };
    for layout in [(1, 1), (2, 1), (1, 2), (2, 2)] {
        let (whole, unbroken) = workbench.train(config(layout));
        let out = workbench.new_run();
        for stop in [0, 1, 4, 5, 6, 9, 10, 11] {
            let plan = config(layout).validate(workbench.options(&out)).unwrap();
            let report = train(&plan, &StopAfter::new(stop)).unwrap();
            assert_eq!((report.steps, report.stopped), (stop, true));
        }
        let resumed = workbench.train_into(&out, config(layout));
        assert_eq!(resumed.steps, 12);
        check_same_losses(&resumed, &whole);
        check_same_run(&out, &unbroken, 12);
    }
}

#[test]
fn run_stopped_between_the_micro_batches_of_a_step_drops_them_and_goes_on_bit_for_bit() {
    let workbench = Workbench::new(101);
    let config = |layout| {
        micro(|config| {
            config.schedule.train_steps = Some(steps(4));
            config.batch.micro_batch_size = number(1);
            config.batch.global_batch_size = number(8);
            set_layout(config, layout);
            set_dropout(config, 0.1);
        })
    };
    for (layout, ranks, micro_batches) in [((1, 1), 1, 8), ((2, 2), 4, 4)] {
        let (_, unbroken) = workbench.train(config(layout));
        let out = workbench.new_run();
        // A question before each micro-batch, of one rank or of four: in the midst of the first
        // step, then one step further and in the midst of the next, and so on.
        for questions in [3, ranks * micro_batches + 3, 2, ranks * micro_batches + 5] {
            let plan = config(layout).validate(workbench.options(&out)).unwrap();
            let report = train(&plan, &StopAtQuestion::new(questions)).unwrap();
            assert!(report.stopped && report.steps < 4, "{report:?}");
            assert_eq!(logged(&out, "loss").len() as u64, report.steps);
        }
        workbench.train_into(&out, config(layout));
        check_same_run(&out, &unbroken, 4);
    }
}

#[test]
fn run_over_three_epochs_takes_the_same_samples_wherever_it_stopped() {
    let documents = [330].map(|length: u32| (0..length - 1).map(|place| place * 5 % 97).collect());
    let workbench = Workbench::with_documents(101, &documents);
    let config = || {
        micro(|config| {
            config.schedule.train_steps = Some(steps(60));
            config.batch.micro_batch_size = number(1);
            config.batch.global_batch_size = number(1);
            config.data.split = "1,0,0".parse().unwrap();
        })
    };
    let (_, unbroken) = workbench.train(config());
    let samples = logged_samples(&unbroken).concat();
    for epoch in samples.chunks(20) {
        let mut epoch = epoch.to_vec();
        epoch.sort_unstable();
        assert_eq!(epoch, (0..20).collect::<Vec<u64>>(), "each sample once");
    }
    // At the start, around both boundaries, before the end; and twice in one epoch.
    for stops in [&[0][..], &[1], &[19], &[20], &[21], &[39], &[40], &[59], &[24, 31]] {
        let out = workbench.new_run();
        for &stop in stops {
            let plan = config().validate(workbench.options(&out)).unwrap();
            assert_eq!(train(&plan, &StopAfter::new(stop)).unwrap().steps, stop);
        }
        workbench.train_into(&out, config());
        check_same_run(&out, &unbroken, 60);
    }
}

/// Checks that two runs of `steps` steps logged the same bits and left the same checkpoint.
fn check_same_run(left: &Path, right: &Path, steps: u64) {
    for key in ["loss", "grad_norm", "learning_rate", "validation_loss"] {
        assert_eq!(logged(left, key), logged(right, key), "{key}");
    }
    assert_eq!(logged_samples(left), logged_samples(right));
    for file in ["model.safetensors", "optimizer.safetensors"] {
        let read =
            |run: &Path| fs::read(run.join(format!("checkpoints/step-{steps}/{file}"))).unwrap();
        assert!(read(left) == read(right), "{file}");
    }
}

#[test]
fn steps_logged_after_the_last_checkpoint_are_done_again() {
    let workbench = Workbench::new(101);
    let config = || micro(|config| config.checkpoint.interval_steps = Some(steps(4)));
    let (_, unbroken) = workbench.train(config());
    let (_, killed) = workbench.train(config());
    // As if killed in step 10: its last checkpoint is step 8's.
    fs::remove_dir_all(killed.join("checkpoints/step-10")).unwrap();
    workbench.train_into(&killed, config());
    assert_eq!(logged(&killed, "loss"), logged(&unbroken, "loss"));
}

#[test]
fn log_of_a_killed_run_loses_its_half_line_and_no_whole_one() {
    let workbench = Workbench::new(101);
    let config = || micro(|config| config.checkpoint.interval_steps = Some(steps(4)));
    let (_, unbroken) = workbench.train(config());
    let (_, killed) = workbench.train(config());
    fs::remove_dir_all(killed.join("checkpoints/step-10")).unwrap();
    let log = killed.join("metrics.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, format!("{text}{{\"step\":7,\"lo")).unwrap();
    workbench.train_into(&killed, config());
    assert_eq!(logged(&killed, "loss"), logged(&unbroken, "loss"));

    // A line that no run wrote is not dropped with all that follows it.
    fs::remove_dir_all(killed.join("checkpoints/step-10")).unwrap();
    let text = fs::read_to_string(&log).unwrap();
    let broken = text.replacen("{\"step\":3,", "step 3:", 1);
    fs::write(&log, &broken).unwrap();
    let plan = config().validate(workbench.options(&killed)).unwrap();
    let error = train(&plan, &Silent).unwrap_err().to_string();
    assert!(error.contains("metrics.jsonl:3: no log line of a step"), "{error}");
    assert_eq!(fs::read_to_string(&log).unwrap(), broken);
}

#[test]
fn log_of_samples_is_written_on_request_and_goes_on_once_begun() {
    let workbench = Workbench::new(101);
    let out = workbench.new_run();
    let train_until = |stop, log_samples| {
        let mut options = workbench.options(&out);
        options.log_samples = log_samples;
        let plan = micro(|_| {}).validate(options).unwrap();
        train(&plan, &StopAfter::new(stop)).unwrap()
    };
    train_until(2, false);
    assert!(!out.join("samples.jsonl").exists());
    train_until(3, true);
    train_until(7, false);
    let samples = logged_samples(&out);
    assert_eq!((samples.len(), samples[0].len()), (7, 4), "the first two steps are there too");
    let (_, unbroken) = workbench.train(micro(|_| {}));
    assert_eq!(samples, logged_samples(&unbroken)[..7]);
}

/// Leaves the first `count` lines of a file.
fn cut(path: &Path, count: usize) {
    let text = fs::read_to_string(path).unwrap();
    let kept: Vec<&str> = text.lines().take(count).collect();
    fs::write(path, kept.join("\n") + "\n").unwrap();
}

#[test]
fn log_of_samples_that_lost_lines_gets_them_back() {
    let workbench = Workbench::new(101);
    let config = || micro(|config| config.checkpoint.interval_steps = Some(steps(4)));
    let (_, unbroken) = workbench.train(config());
    let (_, killed) = workbench.train(config());
    fs::remove_dir_all(killed.join("checkpoints/step-10")).unwrap();
    let log = killed.join("samples.jsonl");
    cut(&log, 5);
    workbench.train_into(&killed, config());
    assert_eq!(logged_samples(&killed), logged_samples(&unbroken));

    // A line in the middle, of a run that is finished.
    let text = fs::read_to_string(&log).unwrap();
    let gap: Vec<&str> = text.lines().filter(|line| !line.starts_with("{\"step\":6,")).collect();
    assert_eq!(gap.len(), 9);
    fs::write(&log, gap.join("\n") + "\n").unwrap();
    workbench.train_into(&killed, config());
    assert_eq!(logged_samples(&killed), logged_samples(&unbroken));
}

#[test]
fn metrics_that_lost_lines_go_on_behind_them() {
    let workbench = Workbench::new(101);
    let config = || micro(|config| config.checkpoint.interval_steps = Some(steps(4)));
    let (_, killed) = workbench.train(config());
    fs::remove_dir_all(killed.join("checkpoints/step-10")).unwrap();
    cut(&killed.join("metrics.jsonl"), 5);
    workbench.train_into(&killed, config());
    assert_eq!(logged(&killed, "step"), [1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 10.0]);
}

/// Asks to stop from its `at`-th question on, counted over all ranks from 1, once training begins:
/// a checkpoint is read to its end before.
struct StopAtQuestion {
    at: usize,
    asked: AtomicUsize,
    trains: AtomicBool,
}

impl StopAtQuestion {
    fn new(at: usize) -> Self {
        Self { at, asked: AtomicUsize::new(0), trains: AtomicBool::new(false) }
    }
}

impl Observer for StopAtQuestion {
    fn begin(&self, _stage: &str, _total: Option<u64>, unit: Unit) {
        self.trains.store(unit == Unit::Steps, Ordering::SeqCst);
    }

    fn advance(&self, _amount: u64) {}

    fn finish(&self) {}

    fn stop_requested(&self) -> bool {
        let trains = self.trains.load(Ordering::SeqCst);
        trains && self.asked.fetch_add(1, Ordering::SeqCst) + 1 >= self.at
    }
}

#[test]
fn validation_stops_when_asked_to_and_is_taken_first_when_the_run_goes_on() {
    let workbench = Workbench::new(101);
    for (layout, interval, micro_batch_size) in
        [((1, 1), 4, 4), ((2, 1), 4, 4), ((2, 2), 4, 2), ((1, 2), 10, 1)]
    {
        let config = || {
            micro(|config| {
                config.batch.micro_batch_size = number(micro_batch_size);
                config.validation =
                    Some(ValidationConfig { interval_steps: steps(interval), batches: None });
                set_layout(config, layout);
            })
        };
        let (whole, unbroken) = workbench.train(config());
        let out = workbench.new_run();
        let plan = config().validate(workbench.options(&out)).unwrap();
        // Every rank asks before each micro-batch and before each batch of a validation: this is
        // the second batch.
        let micro_batches = 4 / (micro_batch_size * layout.1);
        let at = (interval as usize * micro_batches + 1) * layout.0 * layout.1 + 1;
        let stopped = train(&plan, &StopAtQuestion::new(at)).unwrap();
        assert_eq!((stopped.steps, stopped.stopped), (interval, true), "{layout:?}");
        assert_eq!(stopped.validation_loss, None);
        assert!(stopped.checkpoint.ends_with(format!("checkpoints/step-{interval}")));
        // Stopped in the first batch of the validation that is missing, it leaves it missing.
        let stopped = train(&plan, &StopAtQuestion::new(1)).unwrap();
        assert_eq!((stopped.steps, stopped.stopped), (interval, true), "{layout:?}");

        let resumed = workbench.train_into(&out, config());
        assert!(!resumed.stopped);
        check_close(resumed.validation_loss, whole.validation_loss.unwrap());
        check_same_run(&out, &unbroken, 10);
    }
}

#[test]
fn finished_run_in_a_folder_that_cannot_be_written_is_told() {
    let workbench = Workbench::new(101);
    let (first, out) = workbench.train(micro(|_| {}));
    let set_mode = |mode| {
        fs::set_permissions(&out, fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::remove_file(out.join(".lock")).unwrap();
    set_mode(0o555);
    if fs::write(out.join("probe"), "").is_ok() {
        set_mode(0o755);
        println!("skipped: this user may write everywhere");
        return;
    }
    let again = train(&micro(|_| {}).validate(workbench.options(&out)).unwrap(), &Silent);
    let longer = micro(|config| config.schedule.train_steps = Some(steps(11)));
    let refused = train(&longer.validate(workbench.options(&out)).unwrap(), &Silent);
    set_mode(0o755);
    check_same_losses(&again.unwrap(), &first);
    assert!(refused.is_err());
}

#[test]
fn finished_run_is_left_as_it_is() {
    let workbench = Workbench::new(101);
    let (first, out) = workbench.train(micro(|config| set_layout(config, (2, 1))));
    // Asked for in another layout, it still tells the one that it was trained in.
    let again = workbench.train_into(&out, micro(|config| set_layout(config, (4, 1))));
    assert_eq!((again.steps, again.stopped), (10, false));
    check_same_losses(&again, &first);
    assert_eq!(again.checkpoint, first.checkpoint);
    assert!(first.tokens_per_second.unwrap() > 0.0);
    assert_eq!(again.tokens_per_second, None, "no step was done");
    assert_eq!((again.tensor_parallel_size, again.data_parallel_size), (2, 1));
    assert_eq!(again.parameters, first.parameters);
    assert_eq!(logged(&out, "loss").len(), 10);
}

#[test]
fn folder_that_another_process_trains_into_is_refused() {
    let workbench = Workbench::new(101);
    let (_, out) = workbench.train(micro(|_| {}));
    let lock = fs::File::open(out.join(".lock")).unwrap();
    lock.lock().unwrap();
    let plan = micro(|_| {}).validate(workbench.options(&out)).unwrap();
    let error = train(&plan, &Silent).unwrap_err().to_string();
    assert!(error.contains("is in use: another process is training into it"), "{error}");
    drop(lock);
    assert_eq!(train(&plan, &Silent).unwrap().steps, 10);
}

#[test]
fn model_that_the_memory_cannot_hold_is_refused_with_both_sizes() {
    let plan = Workbench::new(101)
        .validate(micro(|config| {
            config.batch.micro_batch_size = number(1);
            set_layout(config, (2, 2));
        }))
        .unwrap();
    let bytes = plan.summary().bytes_per_rank;
    // Two micro-batches: a pass holds a gradient of the vocabulary's 128 rows per rank beside the sum.
    let table = 4 * 128 * 32;
    let rank = bytes.weights + bytes.gradients + bytes.optimizer + bytes.activations + table;
    assert_eq!(bytes.total, rank, "what the planner shows");
    let needed = 4 * rank;
    plan.check_memory(Some(needed)).unwrap();
    plan.check_memory(None).unwrap();
    let error = plan.check_memory(Some(needed - 1)).unwrap_err().to_string();
    assert!(error.contains("on 4 ranks, and this machine has 0.0 GiB"), "{error}");
    assert!(error.contains("choose fewer copies of the model (--dp), recompute"), "{error}");
}

#[test]
fn used_folder_is_refused_and_left_alone() {
    let workbench = Workbench::new(101);
    let (_, out) = workbench.train(micro(|_| {}));
    let before = fs::read(out.join("metrics.jsonl")).unwrap();

    let other =
        micro(|config| config.optimizer.lr = 2e-3).validate(workbench.options(&out)).unwrap();
    let error = train(&other, &Silent).unwrap_err().to_string();
    assert!(error.contains("it holds another run: optimizer.lr was 0.001 and is 0.002"), "{error}");
    assert!(error.contains("or pass --overwrite"), "{error}");

    let mut options = workbench.options(&out);
    options.resume = Resume::Never;
    let error = train(&micro(|_| {}).validate(options).unwrap(), &Silent).unwrap_err();
    assert!(matches!(error, TrainError::RunFolderUsed { .. }), "{error}");

    let foreign = workbench.new_run();
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("notes.txt"), "mine").unwrap();
    let plan = micro(|_| {}).validate(workbench.options(&foreign)).unwrap();
    assert!(matches!(train(&plan, &Silent), Err(TrainError::RunFolderUsed { .. })));
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);
    assert_eq!(fs::read(out.join("metrics.jsonl")).unwrap(), before);
}

#[test]
fn overwriting_deletes_a_run_and_nothing_else() {
    let workbench = Workbench::new(101);
    let (_, out) = workbench.train(micro(|_| {}));
    fs::write(out.join("notes.txt"), "mine").unwrap();
    let mut options = workbench.options(&out);
    options.resume = Resume::Overwrite;
    let other = micro(|config| {
        config.schedule.train_steps = Some(steps(3));
        config.seed = 8;
    });
    let report = train(&other.validate(options.clone()).unwrap(), &Silent).unwrap();
    assert_eq!((report.steps, logged(&out, "loss").len()), (3, 3));
    assert!(!out.join("checkpoints/step-10").exists());
    assert_eq!(fs::read_to_string(out.join("notes.txt")).unwrap(), "mine");

    // What holds no run is not overwritten.
    let foreign = workbench.new_run();
    fs::create_dir_all(foreign.join("checkpoints")).unwrap();
    options.out = foreign.clone();
    let error = train(&micro(|_| {}).validate(options).unwrap(), &Silent).unwrap_err();
    assert!(matches!(error, TrainError::RunFolderUsed { .. }), "{error}");
    assert!(foreign.join("checkpoints").exists());
}

#[test]
fn loss_that_is_no_number_ends_the_run_and_names_the_step() {
    let workbench = Workbench::new(101);
    let plan = micro(|config| {
        config.optimizer.lr = 1e30;
        config.optimizer.min_lr = 1e30;
        config.schedule.warmup_steps = Some(0);
        config.parallel.tensor_parallel_size = number(2);
    })
    .validate(workbench.options(&workbench.new_run()))
    .unwrap();
    let error = train(&plan, &Silent).unwrap_err();
    assert!(matches!(error, TrainError::NonFinite { step: 2.., .. }), "{error}");
}

#[test]
fn weights_and_validation_losses_that_are_no_numbers_end_the_run_and_are_not_saved() {
    let workbench = Workbench::new(101);
    for validates in [false, true] {
        let run = workbench.new_run();
        // The one update moves each weight by more than an f32 holds.
        let plan = micro(|config| {
            config.optimizer.lr = 1e200;
            config.optimizer.min_lr = 1e200;
            config.schedule.warmup_steps = Some(0);
            config.schedule.train_steps = Some(steps(1));
            config.validation =
                validates.then_some(ValidationConfig { interval_steps: steps(1), batches: None });
            set_layout(config, (2, 1));
        })
        .validate(workbench.options(&run))
        .unwrap();
        let error = train(&plan, &Silent).unwrap_err();
        let TrainError::NonFinite { step: 1, found, .. } = error else { panic!("{error}") };
        match found {
            NonFinite::Validation { loss } => assert!(validates && !loss.is_finite()),
            NonFinite::Weights => assert!(!validates),
            NonFinite::Step { .. } | NonFinite::Stuck { .. } => panic!("{error}"),
        }
        assert!(!run.join("checkpoints").exists());
    }
}
