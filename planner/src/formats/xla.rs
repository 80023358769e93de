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
//! XLA packs only preallocated temporaries. Parameters, results and constants have their own allocations and are not
//! planned.
//!
//! Several values can be one buffer. If XLA gives two values the same first byte while both are alive, they are one
//! buffer that is updated in place. If a loop or a conditional carries a value, `<85 while.1{0} (phi) @0>`, the value
//! must stay in one buffer although its live ranges have gaps: all values with its offset and size become one row, from
//! the first moment to the last. XLA can use the gaps for other values, so the plan may be higher than XLA's.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Dump, Read, Row};

struct Value {
    id: u64,
    name: String,
    size: u64,
    /// Number of the allocation, and offset in it.
    at: (u64, u64),
    /// `true` if a loop or a conditional carries the value.
    is_phi: bool,
    line: u64,
}

/// Reads the rows, and the size of XLA's allocations of preallocated temporaries.
pub fn read(text: &str) -> Read {
    let mut values: Vec<Value> = Vec::new();
    let mut ranges: HashMap<&str, (u64, u64)> = HashMap::new();
    let (mut given, mut colors) = (0_u64, Vec::new());
    let (mut temporary, mut is_in_ranges) = (None, false);
    // Number of buffer assignments so far, and the number of the assignment with the temporaries.
    let (mut assignments, mut own) = (0_u64, None);
    for (line, text) in (1..).zip(text.lines()) {
        let bad = |what: &str| format!(":{line}: expected {what}, found {text:?}");
        let trimmed = text.trim();
        if let Some(rest) = text.strip_prefix("allocation ") {
            let allocation = allocation(rest).ok_or_else(|| bad("allocation NUMBER: size BYTES, …:"))?;
            is_in_ranges = false;
            temporary = allocation.is_temporary.then_some(allocation.number);
            if allocation.is_temporary {
                if *own.get_or_insert(assignments) != assignments {
                    return Err(bad("the files of one module, with temporaries in one BufferAssignment"));
                }
                given = given.saturating_add(allocation.size);
                colors.push(allocation.color);
            }
        } else if let Some(rest) = trimmed.strip_prefix("value: ") {
            if let Some(allocation) = temporary {
                let expected = "value: <NUMBER NAME @N> (size=BYTES,offset=BYTES): SHAPE";
                values.push(value(rest, allocation, line).ok_or_else(|| bad(expected))?);
            }
        } else if text == "BufferAssignment:" {
            (temporary, is_in_ranges) = (None, false);
            assignments += 1;
        } else if trimmed == "BufferLiveRange:" {
            (temporary, is_in_ranges) = (None, true);
        } else if is_in_ranges {
            match range(trimmed) {
                Some((name, first, last)) if first <= last => {
                    let before = ranges.insert(name, (first, last));
                    if before.is_some_and(|before| before != (first, last)) {
                        return Err(bad(&format!("the files of one module, with one live range of {name}")));
                    }
                }
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
        return Err(": expected preallocated-temp among the allocations: XLA packs only those".to_owned());
    }
    if ranges.is_empty() {
        return Err(": expected live ranges after the buffer assignment: the file …-live-range.txt that XLA writes \
                    beside it"
            .to_owned());
    }
    Ok(Dump { rows: rows(values, &ranges)?, given_bytes: Some(given), heap_bytes: Vec::new() })
}

struct Allocation {
    number: u64,
    size: u64,
    color: u64,
    is_temporary: bool,
}

/// Parses `3: size 4096, color 1, preallocated-temp:`. Older dumps have an address before `size`.
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

/// Parses `<12 fusion.1 @0> (size=1024,offset=0): f32[256]{0}`.
fn value(rest: &str, allocation: u64, line: u64) -> Option<Value> {
    let (head, rest) = rest.strip_prefix('<')?.split_once("> (size=")?;
    let (id, name) = head.split_once(' ')?;
    let (name, _) = name.rsplit_once(" @")?;
    // The mark `(phi)` occurs only here, not in the live ranges.
    let (name, is_phi) = name.strip_suffix(" (phi)").map_or((name, false), |name| (name, true));
    let (size, rest) = rest.split_once(",offset=")?;
    let (offset, _) = rest.split_once(')')?;
    let name = if name.ends_with('}') { name.to_owned() } else { format!("{name}{{}}") };
    let at = (allocation, offset.parse().ok()?);
    Some(Value { id: id.parse().ok()?, name, size: size.parse().ok()?, at, is_phi, line })
}

/// Parses `fusion.1{}:3-7`.
fn range(text: &str) -> Option<(&str, u64, u64)> {
    let (name, range) = text.rsplit_once(':')?;
    let (first, last) = range.split_once('-')?;
    Some((name, first.parse().ok()?, last.parse().ok()?)).filter(|found| found.0.ends_with('}'))
}

/// Values at the same offset that share one buffer.
struct Buffer {
    row: Row,
    sizes: BTreeSet<u64>,
    /// Sizes of the values that a loop or a conditional carries.
    carried: BTreeSet<u64>,
}

impl Buffer {
    /// Joins two buffers: the result is alive from the first moment of both to the last.
    fn join(mut self, other: Self) -> Self {
        let (row, more) = (&mut self.row, other.row);
        (row.lower, row.upper) = (row.lower.min(more.lower), row.upper.max(more.upper));
        row.size = row.size.max(more.size);
        row.name = format!("{} {}", row.name, more.name);
        self.sizes.extend(other.sizes);
        self.carried.extend(other.carried);
        self
    }
}

/// Returns a row for each buffer. Values at the same offset are one buffer if they are alive together, or if a loop
/// carries a value of their size.
fn rows(values: Vec<Value>, ranges: &HashMap<&str, (u64, u64)>) -> Result<Vec<Row>, String> {
    let mut places: BTreeMap<(u64, u64), Vec<Buffer>> = BTreeMap::new();
    for Value { id, name, size, at, is_phi, line } in values {
        let Some(&(lower, last)) = ranges.get(name.as_str()) else {
            return Err(format!(":{line}: expected a live range of {name}, found none under BufferLiveRange"));
        };
        let upper = last.checked_add(1).ok_or_else(|| format!(":{line}: expected {name} to end before 2^64-1"))?;
        // Tokens and empty arrays have no bytes.
        if size > 0 {
            let row = Row { id, lower, upper, size, name, line, ..Row::default() };
            let carried = is_phi.then_some(size).into_iter().collect();
            places.entry(at).or_default().push(Buffer { row, sizes: BTreeSet::from([size]), carried });
        }
    }
    let buffers = places.into_values().flat_map(|place| join_carried(join_overlapping(place)));
    let mut rows: Vec<Row> = buffers.map(|buffer| buffer.row).collect();
    rows.sort_by_key(|row| (row.line, row.id));
    Ok(rows)
}

/// Joins the buffers at an offset that are alive at the same time.
fn join_overlapping(mut place: Vec<Buffer>) -> Vec<Buffer> {
    place.sort_by_key(|buffer| (buffer.row.lower, buffer.row.id));
    let mut joined: Vec<Buffer> = Vec::new();
    for buffer in place {
        let last = joined.pop_if(|last| buffer.row.lower < last.row.upper);
        joined.push(match last {
            Some(last) => last.join(buffer),
            None => buffer,
        });
    }
    joined
}

/// Joins the buffers at an offset that have a value of the same carried size.
fn join_carried(mut place: Vec<Buffer>) -> Vec<Buffer> {
    let carried: BTreeSet<u64> = place.iter().flat_map(|buffer| buffer.carried.iter().copied()).collect();
    for size in carried {
        let (same, others): (Vec<Buffer>, Vec<Buffer>) =
            place.into_iter().partition(|buffer| buffer.sizes.contains(&size));
        place = same.into_iter().reduce(Buffer::join).into_iter().chain(others).collect();
    }
    place
}
