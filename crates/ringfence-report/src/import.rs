//! Import of snapshots from other allocators: the JSON dump of the Vulkan Memory Allocator (`vmaBuildStatsString`,
//! detailed, version 3).
//!
//! | in the dump | in the snapshot |
//! |---|---|
//! | `MemoryInfo / Heap n` | a heap, with budget and usage |
//! | `MemoryInfo / Heap n / MemoryPools / Type n` | a memory type |
//! | `DefaultPools` and `CustomPools` `/ Type n / Blocks / n` | a block, with its suballocations in order of offset |
//! | `… / DedicatedAllocations` | a dedicated block for each allocation |

use std::fmt;

use ringfence_trace::{BlockSnapshot, HeapSnapshot, RangeSnapshot, Snapshot, TypeSnapshot};
use serde_json::{Map, Value};

/// The reason why a dump could not be read: the position in the dump, and the value expected there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportError {
    /// Names of the enclosing objects, from the outermost.
    pub place: String,
    /// The missing value.
    pub expected: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.place.is_empty() { "the top" } else { &self.place };
        write!(f, "at {place}: expected {}", self.expected)
    }
}

impl std::error::Error for ImportError {}

/// Returns `true` if `dump` has an object that only dumps of VMA have.
#[must_use]
pub fn is_vma_dump(dump: &Value) -> bool {
    dump.get("MemoryInfo").is_some() || dump.get("DefaultPools").is_some()
}

/// Converts a dump of VMA to a snapshot. O(n log n) for n allocations.
///
/// # Errors
/// The dump does not follow version 3 of the format. The error contains the first position that differs from it.
pub fn vma_dump(dump: &Value) -> Result<Snapshot, ImportError> {
    let top = At::top(dump)?;
    let mut snapshot = Snapshot { version: 1, ..Snapshot::default() };
    if let Some(general) = top.maybe("General")? {
        snapshot.device = general.text("GPU").unwrap_or_default().to_owned();
    }
    heaps(&top.object("MemoryInfo")?, &mut snapshot)?;
    if let Some(pools) = top.maybe("DefaultPools")? {
        for (number, of_type) in pools.numbered("Type ")? {
            pool(&of_type, number, "", &mut snapshot)?;
        }
    }
    if let Some(pools) = top.maybe("CustomPools")? {
        custom_pools(&pools, &mut snapshot)?;
    }
    sum_up(&mut snapshot);
    Ok(snapshot)
}

fn heaps(info: &At<'_>, snapshot: &mut Snapshot) -> Result<(), ImportError> {
    for (number, heap) in info.numbered("Heap ")? {
        let budget = heap.maybe("Budget")?;
        let of_budget = |key| budget.as_ref().and_then(|budget| budget.map.get(key)).and_then(Value::as_u64);
        let held = HeapSnapshot {
            bytes: heap.number("Size")?,
            device_local: heap.texts("Flags").any(|flag| flag == "DEVICE_LOCAL"),
            reserved_bytes: 0,
            usage_bytes: of_budget("UsageBytes"),
            budget_bytes: of_budget("BudgetBytes"),
        };
        *grown(&mut snapshot.heaps, number, &heap)? = held;
        let Some(types) = heap.maybe("MemoryPools")? else { continue };
        for (kind, of_type) in types.numbered("Type ")? {
            let properties = of_type.texts("Flags").map(|flag| flag.replace('_', " ").to_lowercase()).collect();
            *grown(&mut snapshot.types, kind, &of_type)? =
                TypeSnapshot { heap: number as u32, properties, ..TypeSnapshot::default() };
        }
    }
    Ok(())
}

fn custom_pools(pools: &At<'_>, snapshot: &mut Snapshot) -> Result<(), ImportError> {
    for (number, list) in pools.values("Type ")? {
        let place = format!("{} / Type {number}", pools.place);
        let list = list.as_array().ok_or_else(|| At::lacks(&place, "a list of pools"))?;
        for (index, of_pool) in list.iter().enumerate() {
            let of_pool = At::of(of_pool, format!("{place} / {index}"))?;
            let name = of_pool.text("Name").unwrap_or_default();
            pool(&of_pool, number, &format!("pool {name}: "), snapshot)?;
        }
    }
    Ok(())
}

fn pool(pool: &At<'_>, kind: usize, prefix: &str, snapshot: &mut Snapshot) -> Result<(), ImportError> {
    for (_, block) in pool.object("Blocks")?.numbered("")? {
        let mut ranges = Vec::new();
        let mut classes = Classes::default();
        for part in block.list("Suballocations")? {
            if part.text("Type") != Some("FREE") {
                classes.add(part.text("Type"));
                ranges.push(range(&part, part.number("Offset")?, prefix)?);
            }
        }
        ranges.sort_by_key(|range| range.offset);
        let bytes = block.number("TotalBytes")?;
        if let Some(outside) = ranges.iter().find(|range| range.offset.saturating_add(range.bytes) > bytes) {
            let expected = format!("an end of at most {bytes} for the sub-allocation at offset {}", outside.offset);
            return Err(At::lacks(&block.place, &expected));
        }
        if let Some(pair) = ranges.windows(2).find(|pair| pair[0].offset.saturating_add(pair[0].bytes) > pair[1].offset)
        {
            let expected = format!("no sub-allocation that overlaps the one at offset {}", pair[0].offset);
            return Err(At::lacks(&block.place, &expected));
        }
        let class = classes.name().to_owned();
        snapshot.blocks.push(BlockSnapshot {
            number: snapshot.blocks.len() as u64,
            memory_type: kind as u32,
            class,
            pool: String::new(),
            dedicated: false,
            bytes,
            ranges,
        });
    }
    for alone in pool.list("DedicatedAllocations")? {
        let mut classes = Classes::default();
        classes.add(alone.text("Type"));
        let range = range(&alone, 0, prefix)?;
        let (bytes, class) = (range.bytes, classes.name().to_owned());
        snapshot.blocks.push(BlockSnapshot {
            number: snapshot.blocks.len() as u64,
            memory_type: kind as u32,
            class,
            pool: String::new(),
            dedicated: true,
            bytes,
            ranges: vec![range],
        });
    }
    Ok(())
}

fn range(of: &At<'_>, offset: u64, prefix: &str) -> Result<RangeSnapshot, ImportError> {
    let name = of.text("Name").or_else(|| of.text("CustomData")).unwrap_or_default();
    let name = if name.is_empty() { String::new() } else { format!("{prefix}{name}") };
    Ok(RangeSnapshot { offset, bytes: of.number("Size")?, name, user_data: 0 })
}

/// The kinds of resources that were found in a block.
#[derive(Default)]
struct Classes {
    buffers: bool,
    textures: bool,
    others: bool,
}

impl Classes {
    fn add(&mut self, kind: Option<&str>) {
        match kind {
            Some("BUFFER") => self.buffers = true,
            Some(kind) if kind.starts_with("IMAGE") => self.textures = true,
            _ => self.others = true,
        }
    }

    fn name(&self) -> &'static str {
        match (self.buffers, self.textures, self.others) {
            (true, false, false) => "buffers",
            (false, true, false) => "textures",
            _ => "all",
        }
    }
}

/// Fills in the statistics of the heaps and the memory types from the blocks.
fn sum_up(snapshot: &mut Snapshot) {
    for block in &snapshot.blocks {
        let Some(kind) = snapshot.types.get_mut(block.memory_type as usize) else { continue };
        let figures = &mut kind.statistics;
        if block.dedicated {
            figures.dedicated_count += 1;
            figures.dedicated_bytes = figures.dedicated_bytes.saturating_add(block.bytes);
        } else {
            figures.block_count += 1;
            figures.block_bytes = figures.block_bytes.saturating_add(block.bytes);
            figures.range_count += block.ranges.len() as u64;
            figures.range_bytes = figures.range_bytes.saturating_add(block.bytes - block.free_bytes());
        }
        if let Some(heap) = snapshot.heaps.get_mut(kind.heap as usize) {
            heap.reserved_bytes = heap.reserved_bytes.saturating_add(block.bytes);
        }
    }
}

/// Maximum number of heaps or memory types in a dump. No device has as many.
const NUMBER_MAX: usize = 64;

fn grown<'a, T: Default>(list: &'a mut Vec<T>, number: usize, at: &At<'_>) -> Result<&'a mut T, ImportError> {
    if number >= NUMBER_MAX {
        return Err(At::lacks(&at.place, &format!("a number below {NUMBER_MAX}")));
    }
    while list.len() <= number {
        list.push(T::default());
    }
    Ok(&mut list[number])
}

/// An object of the dump, and its position.
struct At<'a> {
    map: &'a Map<String, Value>,
    place: String,
}

impl<'a> At<'a> {
    fn top(value: &'a Value) -> Result<Self, ImportError> {
        Self::of(value, String::new())
    }

    fn of(value: &'a Value, place: String) -> Result<Self, ImportError> {
        match value.as_object() {
            Some(map) => Ok(Self { map, place }),
            None => Err(Self::lacks(&place, "an object")),
        }
    }

    fn lacks(place: &str, expected: &str) -> ImportError {
        ImportError { place: place.to_owned(), expected: expected.to_owned() }
    }

    fn under(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{} / {key}", self.place) }
    }

    fn maybe(&self, key: &str) -> Result<Option<At<'a>>, ImportError> {
        self.map.get(key).map(|value| At::of(value, self.under(key))).transpose()
    }

    fn object(&self, key: &str) -> Result<At<'a>, ImportError> {
        self.maybe(key)?.ok_or_else(|| Self::lacks(&self.place, &format!("an object {key:?}")))
    }

    fn number(&self, key: &str) -> Result<u64, ImportError> {
        let value = self.map.get(key).and_then(Value::as_u64);
        value.ok_or_else(|| Self::lacks(&self.place, &format!("a number {key:?}")))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.map.get(key).and_then(Value::as_str)
    }

    fn texts(&self, key: &str) -> impl Iterator<Item = &'a str> {
        self.map.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns the objects of the list `key`. If there is no such list, returns an empty one.
    fn list(&self, key: &str) -> Result<Vec<At<'a>>, ImportError> {
        let Some(value) = self.map.get(key) else { return Ok(Vec::new()) };
        let list = value.as_array().ok_or_else(|| Self::lacks(&self.under(key), "a list"))?;
        list.iter().enumerate().map(|(index, value)| At::of(value, format!("{} / {index}", self.under(key)))).collect()
    }

    /// Returns the values that have `prefix` and a number as their key, ordered by the number.
    fn values(&self, prefix: &str) -> Result<Vec<(usize, &'a Value)>, ImportError> {
        let number = |key: &str| key.strip_prefix(prefix).and_then(|digits| digits.parse().ok());
        let mut values: Vec<(usize, &Value)> =
            self.map.iter().filter_map(|(key, value)| Some((number(key)?, value))).collect();
        values.sort_by_key(|(number, _)| *number);
        Ok(values)
    }

    fn numbered(&self, prefix: &str) -> Result<Vec<(usize, At<'a>)>, ImportError> {
        let values = self.values(prefix)?;
        let at = |(number, value)| Ok((number, At::of(value, self.under(&format!("{prefix}{number}")))?));
        values.into_iter().map(at).collect()
    }
}
