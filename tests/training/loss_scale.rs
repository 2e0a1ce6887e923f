//! The dynamic loss scale against traces of the original implementation.

use std::fs;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;

use serde_json::Value;
use training::optim::{DynamicLossScaler, LossScaleConfig};

use super::steps;

/// The traces: a configuration, which steps overflow, and the scale of each step and the one after.
fn traces() -> Vec<Value> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/training/loss_scaler.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn config(trace: &Value) -> LossScaleConfig {
    let number = |key: &str| trace["args"][key].as_f64().unwrap();
    LossScaleConfig {
        initial: number("init_scale"),
        window: NonZeroU64::new(number("scale_window") as u64).unwrap(),
        hysteresis: NonZeroU32::new(number("delayed_shift") as u32).unwrap(),
        min: number("min_scale"),
        ..LossScaleConfig::default()
    }
}

#[test]
fn scale_follows_the_original_step_by_step_and_over_a_resumption_at_each() {
    let traces = traces();
    assert!(traces.len() >= 4);
    for trace in &traces {
        let overflows = trace["overflow"].as_array().unwrap();
        let scales = trace["scale_used"].as_array().unwrap();
        let mut scaler = DynamicLossScaler::new(config(trace));
        for (step, overflow) in overflows.iter().enumerate() {
            assert_eq!(scaler.scale(), scales[step].as_f64().unwrap(), "{trace}, step {step}");
            // As a checkpoint keeps it.
            let kept = serde_json::to_string(&scaler.state()).unwrap();
            scaler =
                DynamicLossScaler::resumed(config(trace), serde_json::from_str(&kept).unwrap());
            scaler.update(overflow.as_u64().unwrap() == 1);
        }
        assert_eq!(scaler.scale(), scales[overflows.len()].as_f64().unwrap(), "{trace}, end");
    }
}

#[test]
fn run_is_stuck_after_so_many_overflows_in_a_row_at_the_floor() {
    let config = LossScaleConfig {
        initial: 4.0,
        hysteresis: NonZeroU32::MIN,
        max_skipped: steps(3),
        ..LossScaleConfig::default()
    };
    let mut scaler = DynamicLossScaler::new(config);
    let stuck_after = |scaler: &mut DynamicLossScaler, overflows: &[bool]| {
        overflows
            .iter()
            .map(|&overflow| {
                scaler.update(overflow);
                scaler.stuck()
            })
            .collect::<Vec<_>>()
    };
    // From 4 to 2 to 1, and then twice at the floor; a clean step begins the count anew.
    assert_eq!(stuck_after(&mut scaler, &[true, true, true, true, false]), [None; 5]);
    assert_eq!(scaler.scale(), 1.0);
    assert_eq!(stuck_after(&mut scaler, &[true, true, true]), [None, None, Some(3)]);
}
