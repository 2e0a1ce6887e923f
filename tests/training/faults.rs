//! Faults that are put into a run on purpose: how they are written, and what is no fault.

use training::{Fault, FaultKind, Faults};

fn faults(written: &[&str]) -> Faults {
    written.iter().map(|fault| fault.parse::<Fault>().unwrap()).collect::<Vec<_>>().into()
}

#[test]
fn fault_strikes_the_steps_and_ranks_that_it_names_and_no_others() {
    type Struck = fn(u64, usize) -> bool;
    let cases: [(&str, FaultKind, Struck); 5] = [
        ("nan@7", FaultKind::Nan, |step, _| step == 7),
        ("inf@7-8", FaultKind::Inf, |step, _| step == 7 || step == 8),
        ("inf@7-", FaultKind::Inf, |step, _| step >= 7),
        ("die@2:rank1", FaultKind::Die, |step, rank| step == 2 && rank == 1),
        ("sleep@2-3:rank0", FaultKind::Sleep, |step, rank| (2..=3).contains(&step) && rank == 0),
    ];
    for (written, kind, struck) in cases {
        let faults = faults(&[written]);
        for (step, rank) in (1..12).flat_map(|step| (0..3).map(move |rank| (step, rank))) {
            assert_eq!(faults.strikes(kind, step, rank), struck(step, rank), "{written} {step}");
            let other = if kind == FaultKind::Nan { FaultKind::Inf } else { FaultKind::Nan };
            assert!(!faults.strikes(other, step, rank), "{written}");
        }
        assert_eq!(written.parse::<Fault>().unwrap().to_string(), written);
    }
    let several = faults(&["nan@7", "nan@9", "die@1:rank0"]);
    assert!(several.strikes(FaultKind::Nan, 7, 0) && several.strikes(FaultKind::Nan, 9, 1));
    assert!(!several.strikes(FaultKind::Nan, 8, 0));
    assert!(!Faults::default().strikes(FaultKind::Nan, 1, 0));
}

#[test]
fn what_is_no_fault_is_refused_with_what_would_be() {
    for (written, reason) in [
        ("", "write it as KIND@STEP"),
        ("nan", "write it as KIND@STEP"),
        ("burn@7", "no kind \"burn\"; known are nan, inf, die, sleep"),
        ("nan@", "\"\" is no step"),
        ("nan@0", "\"0\" is no step; the first step is 1"),
        ("nan@-7", "\"\" is no step"),
        ("nan@7-six", "\"six\" is no step"),
        ("inf@8-7", "its last step comes before its first"),
        ("die@7", "say which rank, as die@7:rank1"),
        ("sleep@7:1", "after the colon, a rank is wanted, as rank1"),
        ("sleep@7:rank", "after the colon, a rank is wanted, as rank1"),
    ] {
        let error = written.parse::<Fault>().unwrap_err().to_string();
        assert!(error.contains(reason), "{written}: {error}");
        assert!(error.starts_with(&format!("injected fault {written}: ")), "{error}");
    }
}
