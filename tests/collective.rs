//! Ranks that work together, and ranks that come apart.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use training::TrainError;
use training::parallel::collective::{
    CallTotal, CollectiveError, Message, REMEMBERED_CALLS, ReduceOp,
};
use training::parallel::{
    ParallelDims, Rank, RankPlace, Watch, launch, launch_watched, launch_with_timeout,
};

/// How long ranks wait for one that will not come.
const PATIENCE: Duration = Duration::from_secs(1);
/// Far longer than any rank needs, on any machine.
const FOREVER: Duration = Duration::from_secs(60);

#[test]
fn all_reduce_adds_in_rank_order_on_every_rank() {
    // Below and above the size from which ranks share the work, and none at all.
    for numbers in [0, 1, 1000, 50_001] {
        let value = |rank: usize, i: usize| 0.1 * (rank + 1) as f32 + 1e-3 * i as f32;
        let results = launch(ParallelDims::one_replica(4), |rank| {
            let mut sum: Vec<f32> = (0..numbers).map(|i| value(rank.index(), i)).collect();
            let mut max = sum.clone();
            rank.tensor_parallel.all_reduce("sum", &mut sum, ReduceOp::Sum);
            rank.tensor_parallel.all_reduce("max", &mut max, ReduceOp::Max);
            Ok((sum, max))
        });
        for (sum, max) in results.unwrap() {
            for i in 0..numbers {
                let expected = (1..4).fold(value(0, i), |sum, rank| sum + value(rank, i));
                assert_eq!(sum[i].to_bits(), expected.to_bits());
                assert_eq!(max[i], value(3, i));
            }
        }
    }
}

#[test]
fn a_maximum_with_something_that_is_not_a_number_is_not_a_number() {
    for broken in 0..3 {
        let results = launch(ParallelDims::one_replica(3), |rank| {
            let mut value = [if rank.index() == broken { f32::NAN } else { 1.0 }];
            rank.tensor_parallel.all_reduce("max", &mut value, ReduceOp::Max);
            Ok(value[0])
        });
        assert!(results.unwrap().iter().all(|value| value.is_nan()));
    }
}

#[test]
fn gather_and_broadcast_give_every_rank_the_same() {
    for size in [1, 3] {
        let results = launch(ParallelDims::one_replica(size), |rank| {
            let collective = rank.tensor_parallel.collective();
            let own = rank.index() as f32;
            let gathered = collective.all_gather("gather".into(), &[own, own + 0.5])?;
            let mut sent = [own; 2];
            collective.broadcast("broadcast".into(), &mut sent, size - 1)?;
            collective.barrier("barrier")?;
            Ok((gathered, sent))
        });
        let expected: Vec<f32> =
            (0..size).flat_map(|rank| [rank as f32, rank as f32 + 0.5]).collect();
        for (gathered, sent) in results.unwrap() {
            assert_eq!(gathered, expected);
            assert_eq!(sent, [(size - 1) as f32; 2]);
        }
    }
}

#[test]
fn many_calls_of_all_kinds_stay_in_step() {
    let results = launch(ParallelDims::one_replica(3), |rank| {
        let mut total = 0.0;
        for round in 0..500 {
            let mut buffer = vec![(rank.index() + round) as f32; 1 + round * 40];
            rank.tensor_parallel.all_reduce("round", &mut buffer, ReduceOp::Sum);
            assert!(buffer.iter().all(|&sum| sum == (3 + 3 * round) as f32));
            total += buffer[0];
        }
        Ok(total)
    });
    assert_eq!(results.unwrap(), vec![(0..500).map(|i| (3 + 3 * i) as f32).sum::<f32>(); 3]);
}

/// Runs `work` on three ranks that would wait for each other forever; returns the error, which
/// must come at once.
fn failing(work: impl Fn(Rank) -> Result<(), TrainError> + Sync) -> TrainError {
    let started = Instant::now();
    let error = launch_with_timeout(ParallelDims::one_replica(3), FOREVER, work).unwrap_err();
    assert!(started.elapsed() < FOREVER / 2, "the other ranks were not woken");
    error
}

fn reduce(rank: &Rank, name: &str, numbers: usize) {
    rank.tensor_parallel.all_reduce(name, &mut vec![1.0; numbers], ReduceOp::Sum);
}

#[test]
fn a_rank_that_panics_ends_all_at_once() {
    let error = failing(|rank| {
        reduce(&rank, "first", 3);
        assert!(rank.index() != 2, "out of luck");
        reduce(&rank, "second", 3);
        Ok(())
    });
    assert_eq!(
        error.to_string(),
        "rank 2 panicked: out of luck, after all_reduce(sum) \"first\" (call 0, 3 numbers)"
    );
}

#[test]
fn a_rank_that_returns_an_error_ends_all_at_once() {
    let error = failing(|rank| {
        if rank.index() == 1 {
            return Err(TrainError::UnknownParameter { path: "nowhere".to_owned() });
        }
        reduce(&rank, "never", 3);
        Ok(())
    });
    assert_eq!(error.to_string(), "rank 1: the model has no parameter nowhere");
}

#[test]
fn a_rank_that_hangs_ends_the_others_in_time() {
    let gave_up = Gate::default();
    let result = launch_with_timeout(ParallelDims::one_replica(3), PATIENCE, |rank| {
        reduce(&rank, "layer.mlp.g", 6);
        if rank.index() == 1 {
            gave_up.wait(); // hangs for as long as the others have patience
            return Ok(());
        }
        let mut buffer = [1.0; 24];
        let collective = rank.tensor_parallel.collective();
        let result =
            collective.all_reduce("layer.attention.f".into(), (&mut buffer).into(), ReduceOp::Sum);
        gave_up.open();
        Ok(result?)
    });
    let message = result.unwrap_err().to_string();
    let expected = "waited 1 s in all_reduce(sum) \"layer.attention.f\" (call 1, 24 numbers) \
                    for rank 1";
    assert!(message.contains(expected), "{message}");
}

/// Holds a thread until another opens it.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let closed = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(closed, |is_open| !*is_open).unwrap());
    }
}

#[test]
fn a_rank_that_has_left_is_missed() {
    let result = launch_with_timeout(ParallelDims::one_replica(3), PATIENCE, |rank| {
        if rank.index() != 0 {
            reduce(&rank, "loss.sum", 5);
        }
        Ok(())
    });
    let message = result.unwrap_err().to_string();
    assert!(message.contains("\"loss.sum\" (call 0, 5 numbers) for rank 0"), "{message}");
}

#[test]
fn ranks_that_issue_different_collectives_are_told_apart() {
    type Work = fn(&Rank);
    let pairs: [(Work, Work, [&str; 2]); 3] = [
        (
            |rank| reduce(rank, "layer.mlp.g", 8),
            |rank| reduce(rank, "layer.mlp.f", 8),
            ["all_reduce(sum) \"layer.mlp.g\" (call 0, 8 numbers)", "\"layer.mlp.f\""],
        ),
        (
            |rank| reduce(rank, "grad_norm", 8),
            |rank| reduce(rank, "grad_norm", 9),
            ["(call 0, 8 numbers)", "(call 0, 9 numbers)"],
        ),
        (
            |rank| reduce(rank, "same", 8),
            |rank| drop(rank.tensor_parallel.all_gather("same", &[0.0; 8])),
            ["all_reduce(sum) \"same\"", "all_gather \"same\""],
        ),
    ];
    for (work, other, parts) in pairs {
        let error = failing(|rank| {
            if rank.index() == 1 {
                other(&rank)
            } else {
                work(&rank)
            }
            Ok(())
        });
        let is_mismatch =
            matches!(&error, TrainError::Collective(CollectiveError::Mismatch { .. }));
        assert!(is_mismatch, "{error}");
        for part in parts.into_iter().chain(["rank 1 "]) {
            assert!(error.to_string().contains(part), "{part:?} is not in {error}");
        }
    }
}

#[test]
fn a_group_that_came_apart_in_the_backward_pass_ends() {
    use training::parallel::{Region, copy_to_region};
    type Tensor = burn::tensor::Tensor<training::backend::CpuAutodiff, 1>;
    let error = failing(|rank| {
        let region = Region::new(&rank.tensor_parallel, "layer.mlp");
        let x = Tensor::ones([3], &Default::default()).require_grad();
        let y = copy_to_region(x.clone(), &region).sum();
        assert!(rank.index() != 1, "no backward here");
        y.backward();
        Ok(())
    });
    assert_eq!(error.to_string(), "rank 1 panicked: no backward here");
}

const GRID: ParallelDims = ParallelDims { tensor: 2, data: 2 };

#[test]
fn ranks_of_a_grid_meet_in_rows_and_in_columns() {
    let results = launch(GRID, |rank| {
        let own = [rank.index() as f32];
        let replica = rank.tensor_parallel.collective().all_gather("replica".into(), &own)?;
        let part = rank.data_parallel.collective().all_gather("part".into(), &own)?;
        Ok((rank.index(), rank.is_main(), replica, part))
    });
    assert_eq!(
        results.unwrap(),
        [
            (0, true, vec![0.0, 1.0], vec![0.0, 2.0]),
            (1, false, vec![0.0, 1.0], vec![1.0, 3.0]),
            (2, false, vec![2.0, 3.0], vec![0.0, 2.0]),
            (3, false, vec![2.0, 3.0], vec![1.0, 3.0]),
        ]
    );
}

#[test]
fn a_wish_of_any_rank_is_known_to_all() {
    for asking in 0..4 {
        let results = launch(GRID, |rank| Ok(rank.any("stop", rank.index() == asking)?));
        assert_eq!(results.unwrap(), [true; 4]);
    }
    assert_eq!(launch(GRID, |rank| Ok(rank.any("stop", false)?)).unwrap(), [false; 4]);
}

#[test]
fn a_rank_that_fails_ends_the_whole_grid_at_once() {
    let started = Instant::now();
    let error = launch_with_timeout(GRID, FOREVER, |rank| {
        if rank.index() == 3 {
            return Err(TrainError::UnknownParameter { path: "nowhere".to_owned() });
        }
        // Rank 0 waits for rank 2 alone, which waits for rank 3.
        reduce(&rank, "layer.mlp.g", 8);
        let collective = rank.data_parallel.collective();
        collective.all_reduce("gradients".into(), (&mut [0.0]).into(), ReduceOp::Sum)?;
        Ok(())
    });
    let message = error.unwrap_err().to_string();
    assert_eq!(message, "rank 3 (tensor 1 of 2, data 1 of 2): the model has no parameter nowhere");
    assert!(started.elapsed() < FOREVER / 2, "the other ranks were not woken");
}

#[test]
fn ranks_that_come_apart_between_replicas_are_named_by_their_places() {
    let error = launch_with_timeout(GRID, FOREVER, |rank| {
        let numbers = if rank.data_parallel.rank() == 0 { 8 } else { 9 };
        let mut buffer = vec![0.0; numbers];
        let collective = rank.data_parallel.collective();
        collective.all_reduce("gradients".into(), (&mut buffer).into(), ReduceOp::Sum)?;
        Ok(())
    });
    let message = error.unwrap_err().to_string();
    assert!(message.contains("(call 0, 8 numbers)"), "{message}");
    assert!(message.contains("data 0 of 2)") && message.contains("data 1 of 2)"), "{message}");
}

#[test]
fn patience_without_end_is_no_panic() {
    let results = launch_with_timeout(GRID, Duration::MAX, |rank| {
        reduce(&rank, "first", 3);
        Ok(())
    });
    assert!(results.is_ok());
}

#[test]
fn a_barrier_waits_for_as_long_as_every_rank_lives() {
    let came = Gate::default();
    let results = launch_with_timeout(ParallelDims::one_replica(2), Duration::ZERO, |rank| {
        if rank.index() == 0 {
            came.wait();
        } else {
            came.open();
        }
        Ok(rank.tensor_parallel.collective().barrier("checkpoint.written")?)
    });
    assert!(results.is_ok(), "{results:?}");
}

#[test]
fn each_rank_remembers_its_latest_calls_and_counts_all_of_a_step() {
    let numbers = 5;
    let results = launch(GRID, |rank| {
        rank.calls.begin_step(3);
        for _ in 0..100 {
            reduce(&rank, "layer.mlp.g", numbers);
        }
        let message = Message { name: "half", number_bytes: 2 };
        let collective = rank.data_parallel.collective();
        collective.all_reduce(message, (&mut [0.0; 7]).into(), ReduceOp::Sum)?;
        let totals = rank.calls.take_totals();
        assert!(rank.calls.take_totals().is_empty(), "they were taken");
        Ok((rank.calls.recent(), totals, rank.calls.time_spent()))
    });
    for (recent, totals, time_spent) in results.unwrap() {
        assert_eq!(recent.len(), REMEMBERED_CALLS);
        let (last, others) = recent.split_last().unwrap();
        let sequences = others.iter().map(|logged| logged.call.sequence);
        assert!(sequences.eq(100 - others.len() as u64..100));
        assert!(others.iter().all(|logged| logged.group == "tensor"));
        assert_eq!((last.group, last.call.sequence, last.step), ("data", 0, 3));
        assert_eq!(
            last.call.to_string(),
            "all_reduce(sum) \"half\" (call 0, 7 numbers, 2 bytes each)"
        );
        for logged in &recent {
            assert!(logged.ended.unwrap() >= logged.started);
        }
        assert!(time_spent > Duration::ZERO);
        let total = |calls, numbers, bytes| CallTotal { calls, numbers, bytes };
        let expected = [("half", total(1, 7, 14)), ("layer.mlp.g", total(100, 500, 2000))];
        assert_eq!(totals, expected.map(|(name, total)| (name.to_owned(), total)).into());
    }
}

#[test]
fn a_group_of_one_exchanges_nothing() {
    let results = launch(ParallelDims::one_replica(1), |rank| {
        reduce(&rank, "layer.mlp.g", 5);
        rank.any("stop", false)?;
        Ok((rank.calls.recent().len(), rank.calls.take_totals().len()))
    });
    assert_eq!(results.unwrap(), [(0, 0)]);
}

#[test]
fn a_failure_is_told_with_what_every_rank_was_waiting_in() {
    let (seen, gave_up) = (Mutex::new(Vec::new()), Gate::default());
    let on_failure = |ranks: &[Rank], error: &TrainError| {
        let latest = |rank: &Rank| rank.calls.recent().last().cloned();
        seen.lock()
            .unwrap()
            .push((error.to_string(), ranks.iter().map(latest).collect::<Vec<_>>()));
    };
    let watch = Watch { timeout: PATIENCE, on_failure: &on_failure, ..Watch::default() };
    let result = launch_watched(ParallelDims::one_replica(3), &watch, |rank| {
        reduce(&rank, "first", 3);
        if rank.index() == 1 {
            gave_up.wait();
            return Ok(());
        }
        let collective = rank.tensor_parallel.collective();
        let result = collective.all_reduce("second".into(), (&mut [1.0; 4]).into(), ReduceOp::Sum);
        gave_up.open();
        Ok(result?)
    });
    let seen = seen.into_inner().unwrap();
    let [(message, latest)] = seen.as_slice() else { panic!("told once: {seen:?}") };
    assert_eq!(*message, result.unwrap_err().to_string());
    for (rank, logged) in latest.iter().enumerate() {
        let logged = logged.as_ref().unwrap();
        let (name, is_pending) = if rank == 1 { ("first", false) } else { ("second", true) };
        assert_eq!((logged.call.name.as_str(), logged.ended.is_none()), (name, is_pending));
    }
}

#[test]
fn vectors_and_slices_get_the_same_sums() {
    // Below and above the size from which ranks share the work, more numbers than before and fewer.
    let sizes = [40_000, 3, 20_000, 50_001, 17_000];
    let results = launch(ParallelDims::one_replica(3), |rank| {
        let mut sums = Vec::new();
        for size in sizes {
            let own = |i: usize| 0.1 * (rank.index() + 1) as f32 + 1e-3 * i as f32;
            let mut vector: Vec<f32> = (0..size).map(own).collect();
            let mut slice = vector.clone();
            rank.tensor_parallel.all_reduce("vector", &mut vector, ReduceOp::Sum);
            rank.tensor_parallel.all_reduce("slice", slice.as_mut_slice(), ReduceOp::Sum);
            assert_eq!((vector.len(), &vector), (size, &slice));
            sums.push(vector);
        }
        Ok(sums)
    });
    let results = results.unwrap();
    assert!(results[1..].iter().all(|sums| *sums == results[0]));
}

#[test]
fn a_rank_that_does_not_return_after_a_failure_is_told() {
    let (told, was_told) = (Mutex::new(Vec::new()), Gate::default());
    let on_hang = |failure: &TrainError, places: &[RankPlace]| {
        let ranks: Vec<_> = places.iter().map(|place| place.rank()).collect();
        told.lock().unwrap().push((failure.to_string(), ranks));
        was_told.open();
    };
    let patience = Duration::from_millis(50);
    let watch = Watch { timeout: patience, on_hang: &on_hang, ..Watch::default() };
    let error = launch_watched(ParallelDims::one_replica(3), &watch, |rank| {
        if rank.index() == 1 {
            was_told.wait(); // would be for ever
            return Ok(());
        }
        Err(TrainError::UnknownParameter { path: "nowhere".to_owned() })
    });
    let message = error.map(|_: Vec<()>| ()).unwrap_err().to_string();
    assert_eq!(*told.lock().unwrap(), [(message, vec![1])], "once");
}
