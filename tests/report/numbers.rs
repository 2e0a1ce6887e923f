//! Numbers as the table and the page write them.

use super::told::numerals::{
    bytes, duration, figures, grouped, loss, percent, perplexity, rate, ratio, rounded, short,
};

#[test]
fn amounts_are_short_and_keep_three_figures() {
    let cases = [
        (0.0, "0.00"),
        (999.0, "999"),
        (999.6, "1.00K"),
        (1_234.0, "1.23K"),
        (354_871_296.0, "355M"),
        (999_999_999.0, "1.00B"),
        (8_317_040_640.0, "8.32B"),
        (157_286_400_000.0, "157B"),
        (2.5e13, "25.0T"),
    ];
    for (number, text) in cases {
        assert_eq!(short(number), text);
    }
    assert_eq!(short(1e30), "1.00 × 10¹⁸T");
}

#[test]
fn numbers_are_written_in_their_own_way() {
    assert_eq!(grouped(0), "0");
    assert_eq!(grouped(1_000), "1,000");
    assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    assert_eq!([9.999, 99.96, 1e12].map(figures), ["10.0", "100", "1.00 × 10¹²"]);
    assert_eq!(
        [19.31, 999.999, 1_912.4, 12_345.6].map(perplexity),
        ["19.31", "1,000.0", "1,912.4", "12,346"]
    );
    assert_eq!(perplexity(20_f64.exp()), "485,165,195");
    assert_eq!(perplexity(1e200), "1.00 × 10²⁰⁰");
    assert_eq!(
        [0.4518, 0.0, 1.0, 5.324e-5, 1e-4].map(percent),
        ["45.18%", "0.00%", "100.00%", "0.0053%", "0.01%"]
    );
    assert_eq!(
        [0.98, 1.05, 99.04, 0.000_429].map(ratio),
        ["0.980×", "1.05×", "99.0×", "0.000429×"]
    );
    assert_eq!([0.5, 247.3, 4_738_492.0].map(rounded), ["0.50", "247", "4,740,000"]);
    assert_eq!([0.003, 1.5e-4, 1e-5].map(rate), ["0.003", "0.00015", "1e-5"]);
    assert_eq!(
        [1.25, 59.4, 257.0, 7_300.0, 200_000.0].map(duration),
        ["1.2 s", "59 s", "4 min 17 s", "2 h 1 min", "2 d 7 h"]
    );
    assert_eq!(
        [0, 999, 1_000, 98_765_432, 16_000_000_000].map(bytes),
        ["0 B", "999 B", "1.00 kB", "98.8 MB", "16.0 GB"]
    );
}

#[test]
fn what_is_no_number_is_a_dash() {
    for write in [figures, perplexity, loss, percent, duration, short, ratio] {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let text = write(number);
            assert!(text.starts_with('-') && !text.contains("inf"), "{text}");
        }
    }
}
