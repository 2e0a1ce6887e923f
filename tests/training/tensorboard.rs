//! TensorBoard's event files, read here by a reader of their own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use corpus::Silent;
use training::config::{TrainConfig, ValidationConfig};
use training::train;

use super::{StopAfter, Workbench, logged, micro, set_layout, steps};

/// The CRC-32C of `data`, bit by bit, and masked.
fn masked_crc(data: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in data {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    let crc = !crc;
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[test]
fn checksum_of_this_reader_is_crc_32c() {
    // The check value of CRC-32C is 0xe3069283.
    assert_eq!(
        masked_crc(b"123456789"),
        0xe306_9283_u32.rotate_right(15).wrapping_add(0xa282_ead8)
    );
}

/// The records of an event file, lengths and checksums checked.
fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    while !bytes.is_empty() {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert_eq!(number(&bytes[8..]), masked_crc(&bytes[..8]));
        let data = &bytes[12..][..length];
        assert_eq!(number(&bytes[12 + length..]), masked_crc(data));
        records.push(data.to_vec());
        bytes = &bytes[16 + length..];
    }
    records
}

/// A field of a protocol buffer.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

/// The fields of a message by their numbers, in order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let take = |bytes: &mut &[u8], length: usize| {
            let (taken, rest) = bytes.split_at(length);
            *bytes = rest;
            taken.to_vec()
        };
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Bytes(take(&mut bytes, 8)),
            2 => {
                let length = varint(&mut bytes) as usize;
                Field::Bytes(take(&mut bytes, length))
            }
            5 => Field::Bytes(take(&mut bytes, 4)),
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

fn bytes_of(fields: &[(u64, Field)], number: u64) -> Option<&[u8]> {
    fields.iter().find_map(|(found, field)| match field {
        Field::Bytes(bytes) if *found == number => Some(bytes.as_slice()),
        _ => None,
    })
}

fn number_of(fields: &[(u64, Field)], number: u64) -> Option<u64> {
    fields.iter().find_map(|(found, field)| match field {
        Field::Number(value) if *found == number => Some(*value),
        _ => None,
    })
}

fn event_files(run: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(run.join("tensorboard")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// What TensorBoard shows of a run: values by step, by tag. A session's start voids what earlier
/// files say of its step and later ones.
fn scalars(run: &Path) -> BTreeMap<String, Vec<(u64, f32)>> {
    let mut shown: BTreeMap<String, Vec<(u64, f32)>> = BTreeMap::new();
    for file in event_files(run) {
        let records = records(&fs::read(&file).unwrap());
        let first = fields(&records[0]);
        assert_eq!(bytes_of(&first, 3).unwrap(), b"brain.Event:2");
        for record in &records {
            let event = fields(record);
            let wall_time = f64::from_le_bytes(bytes_of(&event, 1).unwrap().try_into().unwrap());
            assert!(wall_time > 1.7e9, "seconds since 1970");
            let step = number_of(&event, 2).unwrap_or(0);
            if let Some(session) = bytes_of(&event, 7) {
                assert_eq!(number_of(&fields(session), 1), Some(1), "a start");
                for values in shown.values_mut() {
                    values.retain(|(shown, _)| *shown < step);
                }
            }
            for (_, value) in fields(bytes_of(&event, 5).unwrap_or_default()) {
                let Field::Bytes(value) = value else { panic!("a value is a message") };
                let value = fields(&value);
                let tag = String::from_utf8(bytes_of(&value, 1).unwrap().to_vec()).unwrap();
                let number = bytes_of(&value, 2).unwrap().try_into().unwrap();
                shown.entry(tag).or_default().push((step, f32::from_le_bytes(number)));
            }
        }
    }
    shown
}

fn config() -> TrainConfig {
    micro(|config| {
        config.checkpoint.interval_steps = Some(steps(2));
        config.validation =
            Some(ValidationConfig { interval_steps: steps(5), batches: Some(steps(1)) });
    })
}

/// Checks that TensorBoard shows what `metrics.jsonl` says, once for each of ten steps.
fn check_shown(run: &Path) {
    let shown = scalars(run);
    let tags: Vec<_> = shown.keys().map(String::as_str).collect();
    let per_step = ["grad_norm", "learning_rate", "loss", "tokens_per_second"];
    assert_eq!(tags, [&per_step[..], &["validation_loss"]].concat());
    for tag in per_step {
        let expected: Vec<_> =
            (1..).zip(logged(run, tag)).map(|(step, value)| (step, value as f32)).collect();
        assert_eq!(expected.len(), 10);
        assert_eq!(shown[tag], expected, "{tag}");
    }
    let validation = logged(run, "validation_loss").into_iter().map(|loss| loss as f32);
    let validation: Vec<_> = [5, 10].into_iter().zip(validation).collect();
    assert_eq!(shown["validation_loss"], validation);
}

#[test]
fn events_say_what_the_metrics_say() {
    let workbench = Workbench::new(101);
    let (_, run) = workbench.train(config());
    assert_eq!(event_files(&run).len(), 1);
    check_shown(&run);
}

#[test]
fn steps_that_are_done_again_show_once() {
    let workbench = Workbench::new(101);
    let run = workbench.new_run();
    let plan = |layout| {
        let mut config = config();
        set_layout(&mut config, layout);
        config.validate(workbench.options(&run)).unwrap()
    };
    train(&plan((1, 1)), &StopAfter::new(3)).unwrap();
    train(&plan((2, 1)), &StopAfter::new(6)).unwrap();
    // As after a death that the newest two checkpoints did not survive.
    for step in [6, 4] {
        fs::remove_dir_all(run.join(format!("checkpoints/step-{step}"))).unwrap();
    }
    train(&plan((1, 1)), &Silent).unwrap();
    assert_eq!(event_files(&run).len(), 3);
    check_shown(&run);
}

#[test]
fn events_are_written_unless_they_are_not_wanted() {
    let workbench = Workbench::new(101);
    let (_, run) = workbench.train(micro(|config| config.logging.tensorboard = false));
    assert!(!run.join("tensorboard").exists());
}

#[test]
fn events_read_in_tensorboard_where_it_is_installed() {
    let workbench = Workbench::new(101);
    let run = workbench.new_run();
    for until in [3, 6, 10] {
        let plan = config().validate(workbench.options(&run)).unwrap();
        train(&plan, &StopAfter::new(until)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/training/read_events.py");
    let Ok(output) = Command::new("python3").arg(script).arg(&run).output() else {
        eprintln!("skipped: there is no python3");
        return;
    };
    if output.status.code() == Some(77) {
        eprintln!("skipped: the Python package tensorboard is not installed");
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let counts = String::from_utf8(output.stdout).unwrap();
    assert!(counts.contains("loss: 10 values") && counts.contains("validation_loss: 2 values"));
}
