//! What a page is made of, out of JSON: a snapshot, a report with its frames, or a dump of the Vulkan Memory Allocator.
//!
//! Of a file that is cut off or damaged, what stands before the damage is read; [`Report::damage`] says where it is. It
//! says too what no memory can be like, as ranges that overlap: the page shows them as they are.

mod salvage;

use std::fmt;

use ringfence_trace::{RangeSnapshot, Snapshot};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Report, Source, import};

/// Why nothing could be read: one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JsonError {
    /// The line where it is, from 1, if it is in one.
    pub line: Option<usize>,
    /// What was expected, and what was found.
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

const EXPECTED: &str = "expected a snapshot or a trace of this library, or a JSON dump of the Vulkan Memory Allocator";

impl Report {
    /// Reads JSON. O(bytes).
    ///
    /// # Errors
    /// It is neither of the three, or of another version; or so little of it is left that no block can be read.
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

/// Counts the blocks of a snapshot that was written before blocks had numbers.
fn number_blocks(snapshot: &mut Snapshot) {
    if snapshot.blocks.iter().all(|block| block.number == 0) {
        (0..).zip(&mut snapshot.blocks).for_each(|(number, block)| block.number = number);
    }
}

/// The first thing that no memory can be like, if there is one: figures of such a snapshot mean nothing.
fn impossible(snapshot: &Snapshot) -> Option<String> {
    let (heaps, types) = (snapshot.heaps.len(), snapshot.types.len());
    if let Some(at) = snapshot.types.iter().position(|held| held.heap as usize >= heaps) {
        return Some(format!("memory type {at} lies in heap {}, of {heaps} heaps", snapshot.types[at].heap));
    }
    for (number, block) in snapshot.blocks.iter().enumerate() {
        if block.memory_type as usize >= types {
            return Some(format!("block {number} is of memory type {}, of {types} types", block.memory_type));
        }
        let mut free_from = 0;
        for (at, range) in block.ranges.iter().enumerate() {
            let end = range.offset.checked_add(range.bytes).filter(|end| *end <= block.bytes);
            let Some(end) = end.filter(|_| range.offset >= free_from) else {
                let (RangeSnapshot { offset, bytes, .. }, size) = (range, block.bytes);
                let range = format!("range {at} of block {number} has {bytes} bytes from byte {offset} on");
                return Some(format!("{range}, where bytes {free_from} to {size} are free to be its"));
            };
            free_from = end;
        }
    }
    None
}

/// Read again from the text, since errors in a value have lost their line.
fn typed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    serde_json::from_slice(bytes).map_err(|error| JsonError::of(&error))
}

/// What stands before the damage, if a block does.
fn part(bytes: &[u8], error: &serde_json::Error) -> Option<Report> {
    let end = if error.is_eof() { bytes.len() } else { byte_of(bytes, error.line(), error.column()) };
    let (mut report, read) = salvage::candidates(&bytes[..end]).find_map(|(text, read)| {
        let value = serde_json::from_slice::<Value>(&text).ok()?;
        let report = of_part(value)?;
        (!report.snapshot.blocks.is_empty()).then_some((report, read))
    })?;
    let what = if error.is_eof() { "cut off" } else { "damaged" };
    number_blocks(&mut report.snapshot);
    report.damage =
        Some(format!("the file is {what} in line {}; what stands before byte {read} could be read", error.line()));
    Some(report)
}

/// Fields that the rest of the file would have held are as in an empty snapshot.
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

/// [`Source::Part`] if the snapshot ends before its last field.
fn source_of_part(snapshot: &Value) -> Option<Source> {
    snapshot.get("calls").is_none().then_some(Source::Part)
}

/// `value`, with the fields of `empty` that it lacks.
fn filled(empty: impl serde::Serialize, value: Value) -> Option<Value> {
    let mut all = serde_json::to_value(empty).ok()?;
    let Value::Object(held) = value else { return None };
    all.as_object_mut()?.extend(held);
    Some(all)
}

/// Where line and column, as the parser counts them, are.
fn byte_of(bytes: &[u8], line: usize, column: usize) -> usize {
    let lines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let start = std::iter::once(0).chain(lines).nth(line.saturating_sub(1)).unwrap_or(0);
    // The column is that of the byte that did not fit.
    (start + column.saturating_sub(1)).min(bytes.len())
}
