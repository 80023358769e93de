//! Numbers as text for readers. `page/basics.js` writes the same texts; a test in a browser compares the two.

/// Returns a number of bytes in binary units, rounded to three digits, or to a whole number from 1,000 on. Examples:
/// `17 B`, `64 MiB`, `1.25 GiB`. The space is a non-breaking one.
#[must_use]
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut scaled, mut unit) = (value as f64, 0);
    // A value that would be rounded to 1024 of a unit is shown as 1 of the next unit.
    while scaled >= 1023.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{}\u{a0}{}", three_digits(scaled), UNITS[unit])
}

/// Returns a number rounded to three digits, or to a whole number if it is 1,000 or more. Halves are rounded up.
fn three_digits(value: f64) -> String {
    if value.round() >= 1000.0 {
        return count(value.round() as u64);
    }
    let decimals: usize = match value {
        _ if value.fract() == 0.0 || value >= 100.0 => 0,
        _ if value >= 10.0 => 1,
        _ => 2,
    };
    let ten = 10f64.powi(decimals as i32);
    format!("{:.decimals$}", (value * ten).round() / ten)
}

/// Returns a number with its digits in groups of three: `3,000`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a percentage with one decimal: `12.5 %`.
pub(crate) fn percent(value: f64) -> String {
    format!("{value:.1}\u{a0}%")
}

/// Returns a duration with its unit: `1.3 ms`.
pub(crate) fn nanoseconds(value: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    match UNITS.iter().find(|(size, _)| value as f64 >= *size) {
        Some((size, unit)) => format!("{:.1}\u{a0}{unit}", value as f64 / size),
        None => format!("{value}\u{a0}ns"),
    }
}

/// Returns a count with its noun: `1 block`, `2 blocks`.
pub(crate) fn plural(value: u64, one: &str) -> String {
    format!("{}\u{a0}{one}{}", count(value), if value == 1 { "" } else { "s" })
}
