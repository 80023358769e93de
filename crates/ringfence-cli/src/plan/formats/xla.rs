//! XLA's buffer assignment and live ranges, as `--xla_dump_to` writes them.
//!
//! ```text
//!   allocation 3: size 4096, preallocated-temp:
//!    value: <12 fusion.1 @0> (size=1024,offset=0): f32[256]{0}
//!   …
//!     BufferLiveRange:
//!       fusion.1{}:3-7                           both ends are included
//! ```
//!
//! XLA packs what is preallocated for temporaries; parameters, results and constants have allocations of their own, and
//! are not planned. Values that XLA lets share their first byte while both are alive are one buffer, worked on in
//! place.

use std::collections::{BTreeMap, HashMap};

use super::{Read, Row};

struct Value {
    id: u64,
    name: String,
    size: u64,
    /// The allocation, and the offset in it.
    at: (u64, u64),
    line: u64,
}

/// The rows, and the size of what XLA preallocates.
pub fn read(text: &str) -> Read {
    let mut values: Vec<Value> = Vec::new();
    let mut ranges: HashMap<&str, (u64, u64)> = HashMap::new();
    let (mut given, mut colors) = (0_u64, Vec::new());
    let (mut temporary, mut is_in_ranges) = (None, false);
    for (line, text) in (1..).zip(text.lines()) {
        let bad = |what: &str| format!(":{line}: expected {what}, found {text:?}");
        let trimmed = text.trim();
        if let Some(rest) = text.strip_prefix("allocation ") {
            let allocation = allocation(rest).ok_or_else(|| bad("allocation NUMBER: size BYTES, …:"))?;
            is_in_ranges = false;
            temporary = allocation.is_temporary.then_some(allocation.number);
            if allocation.is_temporary {
                given = given.saturating_add(allocation.size);
                colors.push(allocation.color);
            }
        } else if let Some(rest) = trimmed.strip_prefix("value: ") {
            if let Some(allocation) = temporary {
                let expected = "value: <NUMBER NAME @N> (size=BYTES,offset=BYTES): SHAPE";
                values.push(value(rest, allocation, line).ok_or_else(|| bad(expected))?);
            }
        } else if trimmed == "BufferLiveRange:" {
            (temporary, is_in_ranges) = (None, true);
        } else if is_in_ranges {
            match range(trimmed) {
                Some((name, first, last)) if first <= last => _ = ranges.insert(name, (first, last)),
                Some(_) => return Err(bad("a range that does not end before it begins")),
                None => is_in_ranges = false,
            }
        } else if !text.starts_with(' ') {
            temporary = None;
        }
    }
    colors.dedup();
    if colors.len() > 1 {
        return Err(format!(": expected temporaries of one memory space, found the colors {colors:?}"));
    }
    if values.is_empty() {
        return Err(": expected preallocated-temp among the allocations: nothing else is packed by XLA".to_owned());
    }
    if ranges.is_empty() {
        return Err(": expected live ranges behind the buffer assignment: the file …-live-range.txt that XLA writes \
                    beside it"
            .to_owned());
    }
    Ok((rows(values, &ranges)?, Some(given)))
}

struct Allocation {
    number: u64,
    size: u64,
    color: u64,
    is_temporary: bool,
}

/// `3: size 4096, color 1, preallocated-temp:`; older dumps have an address before the size.
fn allocation(rest: &str) -> Option<Allocation> {
    let (number, rest) = rest.split_once(": ")?;
    let (_, rest) = rest.split_once("size ")?;
    let flags = rest.strip_suffix(':')?;
    let mut flags = flags.split(", ");
    let size = flags.next()?.parse().ok()?;
    let mut found = Allocation { number: number.parse().ok()?, size, color: 0, is_temporary: false };
    for flag in flags {
        found.is_temporary |= flag == "preallocated-temp";
        if let Some(color) = flag.strip_prefix("color ") {
            found.color = color.parse().ok()?;
        }
    }
    Some(found)
}

/// `<12 fusion.1 @0> (size=1024,offset=0): f32[256]{0}`
fn value(rest: &str, allocation: u64, line: u64) -> Option<Value> {
    let (head, rest) = rest.strip_prefix('<')?.split_once("> (size=")?;
    let (id, name) = head.split_once(' ')?;
    let (name, _) = name.rsplit_once(" @")?;
    // What a loop carries is called so here alone.
    let name = name.strip_suffix(" (phi)").unwrap_or(name);
    let (size, rest) = rest.split_once(",offset=")?;
    let (offset, _) = rest.split_once(')')?;
    let name = if name.ends_with('}') { name.to_owned() } else { format!("{name}{{}}") };
    Some(Value { id: id.parse().ok()?, name, size: size.parse().ok()?, at: (allocation, offset.parse().ok()?), line })
}

/// `fusion.1{}:3-7`
fn range(text: &str) -> Option<(&str, u64, u64)> {
    let (name, range) = text.rsplit_once(':')?;
    let (first, last) = range.split_once('-')?;
    Some((name, first.parse().ok()?, last.parse().ok()?)).filter(|found| found.0.ends_with('}'))
}

/// A row for each buffer: values in the same place that are alive together are one.
fn rows(values: Vec<Value>, ranges: &HashMap<&str, (u64, u64)>) -> Result<Vec<Row>, String> {
    let mut places: BTreeMap<(u64, u64), Vec<Row>> = BTreeMap::new();
    for Value { id, name, size, at, line } in values {
        let Some(&(lower, last)) = ranges.get(name.as_str()) else {
            return Err(format!(":{line}: expected a live range of {name}, found none under BufferLiveRange"));
        };
        let upper = last.checked_add(1).ok_or_else(|| format!(":{line}: expected {name} to end before 2^64-1"))?;
        // Tokens and empty arrays take no bytes.
        if size > 0 {
            places.entry(at).or_default().push(Row { id, lower, upper, size, name, line, ..Row::default() });
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for mut place in places.into_values() {
        place.sort_by_key(|row| (row.lower, row.id));
        let from = rows.len();
        for row in place {
            match rows[from..].last_mut() {
                Some(last) if row.lower < last.upper => {
                    last.upper = last.upper.max(row.upper);
                    last.size = last.size.max(row.size);
                    last.name = format!("{} {}", last.name, row.name);
                }
                _ => rows.push(row),
            }
        }
    }
    rows.sort_by_key(|row| (row.line, row.id));
    Ok(rows)
}
