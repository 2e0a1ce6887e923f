//! Numbers as people read them.

/// A number with commas between its thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number in three figures and the letter of its size, as the paper names its models: `355M`.
pub(crate) fn short(number: f64) -> String {
    let units = [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")];
    // 999,600 is 1.00M: what rounds up to the next unit is in it.
    match units.into_iter().find(|(unit, _)| number >= unit * 0.9995) {
        Some((unit, letter)) => format!("{}{letter}", figures(number / unit)),
        None => figures(number),
    }
}

/// Three figures: `1.23`, `12.3`, `123`; more before the point where there are more.
pub(crate) fn figures(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() {
        "-".to_owned()
    } else if size >= 1e9 {
        scientific(number)
    } else if size >= 99.95 {
        grouped_signed(number)
    } else if size >= 9.995 {
        format!("{number:.1}")
    } else {
        format!("{number:.2}")
    }
}

/// A number of which only the first three figures matter: `4,740,000`.
pub(crate) fn rounded(number: f64) -> String {
    if !(1e3..1e12).contains(&number) {
        return figures(number);
    }
    let unit = 10_f64.powf(number.log10().floor() - 2.0);
    grouped(((number / unit).round() * unit).round() as u64)
}

/// A perplexity: two decimals, one from 1,000 on, none from 10,000 on.
pub(crate) fn perplexity(number: f64) -> String {
    let decimals = |places: usize| {
        let text = format!("{number:.places$}");
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        format!("{}.{fraction}", whole.parse().map_or_else(|_| whole.to_owned(), grouped))
    };
    if !number.is_finite() {
        "-".to_owned()
    } else if number < 999.995 {
        format!("{number:.2}")
    } else if number < 9_999.95 {
        decimals(1)
    } else if number < 1e12 {
        grouped_signed(number)
    } else {
        scientific(number)
    }
}

fn grouped_signed(number: f64) -> String {
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}", grouped(number.abs().round() as u64))
}

/// `4.85 × 10⁸`.
pub(crate) fn scientific(number: f64) -> String {
    let text = format!("{number:.2e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let raised = exponent.chars().map(|digit| match digit.to_digit(10) {
        Some(digit) => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize],
        None => '⁻',
    });
    format!("{mantissa} × 10{}", raised.collect::<String>())
}

/// One number divided by another, in three figures: `1.05×`, `0.00123×`.
pub(crate) fn ratio(number: f64) -> String {
    if number > 0.0 && number < 0.995 {
        let places = (2.0 - number.log10().floor()).min(12.0) as usize;
        return format!("{number:.places$}×");
    }
    format!("{}×", figures(number))
}

/// A loss in nats.
pub(crate) fn loss(number: f64) -> String {
    if number.is_finite() { format!("{number:.3}") } else { "-".to_owned() }
}

/// A share in percent with two decimals; with two figures where it is smaller than they show.
pub(crate) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if !percent.is_finite() {
        "-".to_owned()
    } else if percent == 0.0 || percent.abs() >= 0.01 {
        format!("{percent:.2}%")
    } else {
        let places = (1.0 - percent.abs().log10().floor()).min(12.0) as usize;
        format!("{percent:.places$}%")
    }
}

/// A part of a whole in percent.
pub(crate) fn share(part: u64, whole: u64) -> String {
    format!("{:.1}%", 100.0 * part as f64 / whole.max(1) as f64)
}

/// A time by its two largest units: `4 min 5 s`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        _ if !seconds.is_finite() => "-".to_owned(),
        0..10 => format!("{seconds:.1} s"),
        10..60 => format!("{whole} s"),
        60..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        3_600..86_400 => format!("{} h {} min", whole / 3_600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / 86_400, whole / 3_600 % 24),
    }
}

/// An amount of memory or text: `1.50 GB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.into_iter().find(|(unit, _)| bytes as f64 >= unit * 0.9995) {
        Some((unit, name)) => format!("{} {name}", figures(bytes as f64 / unit)),
        None => format!("{bytes} B"),
    }
}

/// A learning rate: `0.0006`, `1.5e-5`.
pub(crate) fn rate(number: f64) -> String {
    if number != 0.0 && number.abs() < 1e-4 { format!("{number:e}") } else { number.to_string() }
}

/// The number, or a dash where there is none.
pub(crate) fn or_dash<T>(number: Option<T>, text: impl FnOnce(T) -> String) -> String {
    number.map_or_else(|| "-".to_owned(), text)
}
