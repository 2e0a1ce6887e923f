//! Overlapping windows.

use evaluation::windows::{self, OverlapWindows};
use proptest::prelude::*;
use training::inference::Window;

use super::positive;

/// The targets that windows of the tokens 0, 1, 2, ... score, in the order of the windows.
fn scored_targets(windows: &[Window<'_>]) -> Vec<u32> {
    let of = |window: &Window<'_>| -> Vec<u32> {
        window.scored.clone().map(|position| window.tokens[position + 1]).collect()
    };
    windows.iter().flat_map(of).collect()
}

proptest! {
    #[test]
    fn every_target_is_scored_exactly_once_and_token_0_never(
        num_tokens in 0_usize..400, window in 1_usize..80, overlap in 1_usize..80,
    ) {
        let overlap = overlap.min(window);
        let tokens: Vec<u32> = (0..num_tokens as u32).collect();
        let windows = OverlapWindows::new(&tokens, window, positive(overlap));
        // All windows, also those that the original counts and that score nothing.
        let all: Vec<_> = (0..windows.num_windows()).map(|index| windows.window(index)).collect();
        prop_assert_eq!(scored_targets(&all), (1..num_tokens as u32).collect::<Vec<_>>());
        prop_assert!(all.iter().all(|one| one.tokens.len() <= window + 1));
        let scoring: Vec<_> = windows.scoring().collect();
        prop_assert_eq!(scored_targets(&scoring), scored_targets(&all));
        prop_assert!(scoring.iter().all(|one| one.scored.len() <= overlap || one.tokens[0] == 0));
    }

    #[test]
    fn rolling_windows_score_every_target_once_and_are_full_but_for_a_short_text(
        num_tokens in 0_usize..400, window in 1_usize..80,
    ) {
        let tokens: Vec<u32> = (0..num_tokens as u32).collect();
        let rolling: Vec<_> = windows::rolling(&tokens, window).collect();
        prop_assert_eq!(scored_targets(&rolling), (1..num_tokens as u32).collect::<Vec<_>>());
        let num_targets = num_tokens.saturating_sub(1);
        prop_assert_eq!(rolling.len(), num_targets.div_ceil(window));
        let full = window.min(num_targets);
        for (index, one) in rolling.iter().enumerate() {
            prop_assert_eq!(one.tokens.len(), full + 1);
            // Only the last one sees what another has scored.
            prop_assert!(one.scored.start == 0 || index + 1 == rolling.len());
            prop_assert_eq!(one.scored.end, full);
        }
    }

    #[test]
    fn all_windows_but_the_first_see_at_least_window_minus_overlap_tokens(
        num_tokens in 2_usize..400, window in 1_usize..80, overlap in 1_usize..80,
    ) {
        let overlap = overlap.min(window);
        let tokens = vec![0; num_tokens];
        let windows = OverlapWindows::new(&tokens, window, positive(overlap));
        prop_assert!(windows.scoring().skip(1).all(|later| later.scored.start == window - overlap));
    }
}

#[test]
fn window_counts_are_the_originals() {
    let tokens = vec![0; 270_330];
    let count = |overlap| OverlapWindows::new(&tokens, 1024, positive(overlap)).num_windows();
    assert_eq!([count(32), count(1024), count(512)], [8_448, 264, 528]);
    let one = OverlapWindows::new(&tokens[..2], 1024, positive(32));
    assert_eq!((one.num_windows(), one.scoring().count()), (1, 1));
}

#[test]
fn trailing_windows_that_score_nothing_are_counted_but_not_computed() {
    let tokens = vec![0; 270_330];
    let windows = OverlapWindows::new(&tokens, 1024, positive(32));
    // 1,024 targets in the first window, 32 in each later one.
    assert_eq!(windows.scoring().count(), 1 + (270_329_usize - 1_024).div_ceil(32));
}

#[test]
fn the_last_rolling_window_is_filled_up_from_before() {
    let tokens: Vec<u32> = (0..11).collect();
    let rolling: Vec<_> = windows::rolling(&tokens, 4).collect();
    let seen: Vec<_> =
        rolling.iter().map(|one| (one.tokens.to_vec(), one.scored.clone())).collect();
    assert_eq!(
        seen,
        [(vec![0, 1, 2, 3, 4], 0..4), (vec![4, 5, 6, 7, 8], 0..4), (vec![6, 7, 8, 9, 10], 2..4),]
    );
}
