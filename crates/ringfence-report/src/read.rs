//! Reading the input of a page from JSON: a snapshot, a report with its frames, or a dump of the Vulkan Memory
//! Allocator.
//!
//! If a file is truncated or damaged, the part before the damage is read, and [`Report::damage`] contains the position
//! of the damage. If the data contradicts itself (overlapping ranges, for example), [`Report::damage`] contains the
//! contradiction, and the page shows the data unchanged.

mod salvage;

use std::fmt;

use ringfence_trace::{RangeSnapshot, Snapshot};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Report, Source, import};

/// The reason why JSON could not be read. `Display` prints it on one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JsonError {
    /// Line of the error, from 1; `None` if it has no line.
    pub line: Option<usize>,
    /// Text that names the expected input and the input that was found.
    pub what: String,
}

impl JsonError {
    fn plain(what: impl Into<String>) -> Self {
        Self { line: None, what: what.into() }
    }

    fn of(error: &serde_json::Error) -> Self {
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default();
        Self { line: Some(error.line()), what: format!("{EXPECTED}: {what}") }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for JsonError {}

const EXPECTED: &str = "expected a snapshot or a report of this library, or a JSON dump of the Vulkan Memory Allocator";

impl Report {
    /// Reads a snapshot, a report or a dump of VMA from JSON. O(bytes).
    ///
    /// # Errors
    /// The input is none of these three, has an unknown version, or is damaged before the end of its first block.
    pub fn from_json(bytes: &[u8]) -> Result<Self, JsonError> {
        match serde_json::from_slice::<Value>(bytes) {
            Ok(value) => whole(bytes, &value),
            Err(error) => part(bytes, &error).ok_or_else(|| JsonError::of(&error)),
        }
    }

    fn of_dump(snapshot: Snapshot) -> Self {
        Self { source: Source::VmaDump, ..Self::of_snapshot(snapshot) }
    }

    fn of_snapshot(snapshot: Snapshot) -> Self {
        Self { snapshot, ..Self::default() }
    }
}

fn whole(bytes: &[u8], value: &Value) -> Result<Report, JsonError> {
    if import::is_vma_dump(value) {
        let snapshot = import::vma_dump(value).map_err(|error| JsonError::plain(error.to_string()))?;
        return Ok(Report { damage: impossible(&snapshot), ..Report::of_dump(snapshot) });
    }
    let mut report = if value.get("snapshot").is_some() {
        typed::<Report>(bytes)?
    } else if value.get("blocks").is_some() {
        Report::of_snapshot(typed(bytes)?)
    } else {
        return Err(JsonError::plain(EXPECTED));
    };
    number_blocks(&mut report.snapshot);
    match report.snapshot.version {
        1 => Ok(Report { damage: impossible(&report.snapshot), ..report }),
        version => Err(JsonError::plain(format!("expected version 1 of a snapshot, found {version}"))),
    }
}

/// If all block numbers are 0, numbers the blocks in order from 0: snapshots of older versions have no block numbers.
fn number_blocks(snapshot: &mut Snapshot) {
    if snapshot.blocks.iter().all(|block| block.number == 0) {
        (0..).zip(&mut snapshot.blocks).for_each(|(number, block)| block.number = number);
    }
}

/// Returns the first contradiction in a snapshot, or `None` if there is none. The figures of a snapshot with a
/// contradiction are meaningless.
fn impossible(snapshot: &Snapshot) -> Option<String> {
    let (heaps, types) = (snapshot.heaps.len(), snapshot.types.len());
    if let Some(at) = snapshot.types.iter().position(|held| held.heap as usize >= heaps) {
        return Some(format!("memory type {at} names heap {}, but there are {heaps} heaps", snapshot.types[at].heap));
    }
    for (number, block) in snapshot.blocks.iter().enumerate() {
        if block.memory_type as usize >= types {
            return Some(format!(
                "block {number} names memory type {}, but there are {types} types",
                block.memory_type
            ));
        }
        let mut free_from = 0;
        for (at, range) in block.ranges.iter().enumerate() {
            let end = range.offset.checked_add(range.bytes).filter(|end| *end <= block.bytes);
            let Some(end) = end.filter(|_| range.offset >= free_from) else {
                let (RangeSnapshot { offset, bytes, .. }, size) = (range, block.bytes);
                let range = format!("range {at} of block {number} has {bytes} bytes at offset {offset}");
                return Some(format!("{range}, but only bytes {free_from} to {size} are free there"));
            };
            free_from = end;
        }
    }
    None
}

/// Converts the text again from the start, because an error in an already parsed value has no line number.
fn typed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    serde_json::from_slice(bytes).map_err(|error| JsonError::of(&error))
}

/// Returns the report of the part before the damage, if this part contains a block.
fn part(bytes: &[u8], error: &serde_json::Error) -> Option<Report> {
    let end = if error.is_eof() { bytes.len() } else { byte_of(bytes, error.line(), error.column()) };
    let (mut report, read) = salvage::candidates(&bytes[..end]).find_map(|(text, read)| {
        let value = serde_json::from_slice::<Value>(&text).ok()?;
        let report = of_part(value)?;
        (!report.snapshot.blocks.is_empty()).then_some((report, read))
    })?;
    let what = if error.is_eof() { "cut off" } else { "damaged" };
    number_blocks(&mut report.snapshot);
    report.damage = Some(format!("the file is {what} in line {}; its first {read} bytes could be read", error.line()));
    Some(report)
}

/// Builds a report from a part of a file. Missing fields get the values of an empty snapshot.
fn of_part(value: Value) -> Option<Report> {
    if import::is_vma_dump(&value) {
        return import::vma_dump(&value).ok().map(Report::of_dump);
    }
    let report = if value.get("snapshot").is_some() {
        let source = source_of_part(&value["snapshot"]);
        let mut filled = filled(Report::default(), value)?;
        filled["snapshot"] = self::filled(Snapshot::default(), filled["snapshot"].take())?;
        let report = serde_json::from_value::<Report>(filled).ok()?;
        Report { source: source.unwrap_or(report.source), ..report }
    } else {
        let source = source_of_part(&value).unwrap_or_default();
        let snapshot = serde_json::from_value(filled(Snapshot::default(), value)?).ok()?;
        Report { source, ..Report::of_snapshot(snapshot) }
    };
    (report.snapshot.version == 1).then_some(report)
}

/// Returns [`Source::Part`] if the part does not contain `calls`, the last field of a snapshot.
fn source_of_part(snapshot: &Value) -> Option<Source> {
    snapshot.get("calls").is_none().then_some(Source::Part)
}

/// Returns `value`, with each missing field taken from `empty`. Returns `None` if `value` is not an object.
fn filled(empty: impl serde::Serialize, value: Value) -> Option<Value> {
    let mut all = serde_json::to_value(empty).ok()?;
    let Value::Object(held) = value else { return None };
    all.as_object_mut()?.extend(held);
    Some(all)
}

/// Returns the offset of a line and a column in `bytes`. The parser counts lines and columns from 1.
fn byte_of(bytes: &[u8], line: usize, column: usize) -> usize {
    let lines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let start = std::iter::once(0).chain(lines).nth(line.saturating_sub(1)).unwrap_or(0);
    // The column of an error is the column of the unexpected byte.
    (start + column.saturating_sub(1)).min(bytes.len())
}
