//! Overlapping windows.

use evaluation::windows::OverlapWindows;
use proptest::prelude::*;

use super::positive;

proptest! {
    #[test]
    fn every_target_is_scored_exactly_once_and_token_0_never(
        num_tokens in 0_usize..400, window in 1_usize..80, overlap in 1_usize..80,
    ) {
        let overlap = overlap.min(window);
        let tokens: Vec<u32> = (0..num_tokens as u32).collect();
        let windows = OverlapWindows::new(&tokens, window, positive(overlap));
        let mut times_scored = vec![0; num_tokens];
        for window_of_text in windows.scoring() {
            prop_assert!(window_of_text.tokens.len() <= window + 1);
            for position in window_of_text.scored {
                times_scored[window_of_text.tokens[position + 1] as usize] += 1;
            }
        }
        prop_assert!(times_scored.iter().take(1).all(|&times| times == 0));
        prop_assert!(times_scored.iter().skip(1).all(|&times| times == 1));
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
