//! Consumers of memory: the ranges whose names have the same prefix, with the sum of their sizes.

use std::collections::HashMap;

use ringfence_trace::Snapshot;

/// All ranges with the same name prefix.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Consumer {
    /// The prefix; empty for ranges without a name.
    pub prefix: String,
    /// Total size of the ranges, in bytes.
    pub bytes: u64,
    /// Number of ranges.
    pub count: u64,
    /// Size of the largest range, in bytes.
    pub largest_bytes: u64,
}

/// Returns the prefix of a name: the part before the first `/`, `:`, `.`, `#` or digit, without blanks, `_`, `-`, `[`
/// and `(` at its end. If this part is empty, returns the whole name.
#[must_use]
pub fn prefix(name: &str) -> &str {
    let end = name.find(|letter: char| matches!(letter, '/' | ':' | '.' | '#') || letter.is_ascii_digit());
    let prefix = name[..end.unwrap_or(name.len())].trim_end_matches([' ', '_', '-', '[', '(']);
    if prefix.is_empty() { name } else { prefix }
}

/// Returns the consumers of a snapshot, one for each prefix, ordered by bytes, the largest first. O(n log n) for n
/// ranges.
#[must_use]
pub fn consumers(snapshot: &Snapshot) -> Vec<Consumer> {
    let mut by_prefix: HashMap<&str, Consumer> = HashMap::new();
    for range in snapshot.blocks.iter().flat_map(|block| &block.ranges) {
        let consumer = by_prefix.entry(prefix(&range.name)).or_default();
        consumer.bytes = consumer.bytes.saturating_add(range.bytes);
        consumer.count += 1;
        consumer.largest_bytes = consumer.largest_bytes.max(range.bytes);
    }
    let named = |(prefix, consumer): (&str, Consumer)| Consumer { prefix: prefix.to_owned(), ..consumer };
    let mut all: Vec<_> = by_prefix.into_iter().map(named).collect();
    all.sort_by(|one, other| (other.bytes, &one.prefix).cmp(&(one.bytes, &other.prefix)));
    all
}

#[cfg(test)]
mod tests {
    use super::prefix;

    #[test]
    fn a_prefix_is_what_a_name_belongs_to() {
        let cases = [
            ("terrain/tile 3/albedo", "terrain"),
            ("thing 123", "thing"),
            ("ui::glyphs", "ui"),
            ("shadow_map_2", "shadow_map"),
            ("vertices", "vertices"),
            ("", ""),
            ("7 of 9", "7 of 9"),
            ("面/1", "面"),
        ];
        for (name, expected) in cases {
            assert_eq!(prefix(name), expected);
        }
    }
}
