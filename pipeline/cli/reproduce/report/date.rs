//! A point in time as people and programs write it.

use std::time::{SystemTime, UNIX_EPOCH};

/// `time` in UTC by RFC 3339, to the second: `2026-11-30T20:17:54Z`. A time before 1970 counts as
/// 1970.
pub(crate) fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let [hour, minute, second] = [seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60];
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// What [`utc`] wrote, for people: `2026-11-30 20:17 UTC`. Anything else as it is.
pub(super) fn readable(date: &str) -> String {
    match date.strip_suffix('Z').and_then(|it| it.split_once('T')) {
        Some((day, time)) if time.len() == 8 && time.is_ascii() => {
            format!("{day} {} UTC", &time[..5])
        }
        _ => date.to_owned(),
    }
}

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    let mut left = days;
    while left >= days_of(year) {
        left -= days_of(year);
        year += 1;
    }
    let february = days_of(year) - 337;
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= months[month] {
        left -= months[month];
        month += 1;
    }
    (year, month as u64 + 1, left + 1)
}

fn days_of(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    if is_leap { 366 } else { 365 }
}
