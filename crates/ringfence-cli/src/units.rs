//! Numbers as text for readers, and the parsing of such texts.

/// Returns a number of bytes as text, as the pages write it, but with a plain blank.
pub fn bytes(count: u64) -> String {
    ringfence_report::bytes(count).replace('\u{a0}', " ")
}

/// Returns a number as text with its digits in groups of three, as the pages write it.
pub fn count(number: u64) -> String {
    ringfence_report::count(number)
}

/// Parses a number of bytes from 1 to 2^62, with or without a binary unit: `65536`, `64KiB`, `4 GiB`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u32); 8] =
        [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("K", 10), ("M", 20), ("G", 30), ("T", 40)];
    let unit = UNITS.iter().find_map(|(unit, power)| Some((text.strip_suffix(unit)?, *power)));
    let (digits, power) = unit.unwrap_or((text, 0));
    let number: Option<u64> = digits.trim_end().parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(1 << power)).filter(|bytes| (1..=1 << 62).contains(bytes));
    bytes.ok_or_else(|| "expected a number of bytes from 1 to 2^62, such as 65536, 64KiB or 4GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_the_unit_that_suits_them() {
        let cases = [(0, "0 B"), (1023, "1,023 B"), (1024, "1 KiB"), (1536, "1.50 KiB"), ((1 << 20) - 16, "1.00 MiB")];
        for (count, text) in cases {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn bytes_are_read_with_their_unit_and_nonsense_is_refused() {
        assert_eq!(parse_bytes("65536"), Ok(65536));
        assert_eq!(parse_bytes("64KiB"), Ok(65536));
        assert_eq!(parse_bytes("4 GiB"), Ok(4 << 30));
        assert_eq!(parse_bytes("2M"), Ok(2 << 20));
        for nonsense in ["", "0", "-1", "1.5", "12 parsecs", "99999999999TiB", "KiB"] {
            assert!(parse_bytes(nonsense).is_err(), "{nonsense}");
        }
    }
}
