//! Writes a snapshot in the JSON format of VMA's `vmaBuildStatsString`, for viewers of this format.
//!
//! The members of the JSON object are:
//!
//! - `General` and `Total`;
//! - `MemoryInfo`, by heap and memory type;
//! - `DefaultPools`, by memory type, with the suballocations of each block;
//! - `CustomPools`.
//!
//! Usage flags are not known and are left out. In blocks that contain buffers and textures, the type of a range is
//! `UNKNOWN`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::snapshot::{BlockSnapshot, HeapSnapshot, RangeSnapshot, Snapshot};

/// The counts in the JSON objects `Total` and `Stats`.
#[derive(Default)]
struct Stats {
    blocks: u64,
    block_bytes: u64,
    allocations: u64,
    allocation_bytes: u64,
    unused: u64,
    allocation_extent: Option<(u64, u64)>,
    unused_extent: Option<(u64, u64)>,
}

impl Stats {
    fn add(&mut self, block: &BlockSnapshot) {
        self.blocks += 1;
        self.block_bytes += block.bytes;
        for part in parts(block) {
            match part.range {
                Some(_) => {
                    self.allocations += 1;
                    self.allocation_bytes += part.bytes;
                    widen(&mut self.allocation_extent, part.bytes);
                }
                None => {
                    self.unused += 1;
                    widen(&mut self.unused_extent, part.bytes);
                }
            }
        }
    }

    fn of<'a>(blocks: impl IntoIterator<Item = &'a BlockSnapshot>) -> Self {
        let mut stats = Self::default();
        blocks.into_iter().for_each(|block| stats.add(block));
        stats
    }

    fn write(&self, json: &mut Json) {
        json.number("BlockCount", self.blocks);
        json.number("BlockBytes", self.block_bytes);
        json.number("AllocationCount", self.allocations);
        json.number("AllocationBytes", self.allocation_bytes);
        json.number("UnusedRangeCount", self.unused);
        for (name, extent) in [("AllocationSize", self.allocation_extent), ("UnusedRangeSize", self.unused_extent)] {
            if let Some((least, most)) = extent {
                json.number(&format!("{name}Min"), least);
                json.number(&format!("{name}Max"), most);
            }
        }
    }
}

fn widen(extent: &mut Option<(u64, u64)>, bytes: u64) {
    let (least, most) = extent.unwrap_or((bytes, bytes));
    *extent = Some((least.min(bytes), most.max(bytes)));
}

/// A part of a block: a range, or a gap if `range` is `None`.
struct Part<'a> {
    offset: u64,
    bytes: u64,
    range: Option<&'a RangeSnapshot>,
}

/// Returns the ranges and gaps of a block, in the order of their offsets.
fn parts(block: &BlockSnapshot) -> Vec<Part<'_>> {
    let (mut parts, mut end) = (Vec::with_capacity(block.ranges.len() * 2 + 1), 0);
    for range in &block.ranges {
        if range.offset > end {
            parts.push(Part { offset: end, bytes: range.offset - end, range: None });
        }
        parts.push(Part { offset: range.offset, bytes: range.bytes, range: Some(range) });
        end = range.offset + range.bytes;
    }
    if end < block.bytes {
        parts.push(Part { offset: end, bytes: block.bytes - end, range: None });
    }
    parts
}

/// Writer of JSON.
#[derive(Default)]
struct Json {
    text: String,
    /// For each open list or object: `true` if the next value is its first.
    first: Vec<bool>,
}

impl Json {
    fn separate(&mut self) {
        if let Some(first) = self.first.last_mut()
            && !std::mem::take(first)
        {
            self.text.push(',');
        }
    }

    fn key(&mut self, key: &str) {
        self.separate();
        self.quote(key);
        self.text.push(':');
    }

    fn quote(&mut self, text: &str) {
        self.text.push('"');
        for letter in text.chars() {
            match letter {
                '"' | '\\' => self.text.extend(['\\', letter]),
                control if control < ' ' => _ = write!(self.text, "\\u{:04x}", control as u32),
                letter => self.text.push(letter),
            }
        }
        self.text.push('"');
    }

    fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        let _ = write!(self.text, "{number}");
    }

    fn string(&mut self, key: &str, text: &str) {
        self.key(key);
        self.quote(text);
    }

    fn strings<'a>(&mut self, key: &str, texts: impl Iterator<Item = &'a str>) {
        self.key(key);
        self.nest('[', ']', |json| {
            for text in texts {
                json.separate();
                json.quote(text);
            }
        });
    }

    fn nest(&mut self, open: char, close: char, inner: impl FnOnce(&mut Self)) {
        self.text.push(open);
        self.first.push(true);
        inner(self);
        self.first.pop();
        self.text.push(close);
    }

    fn object(&mut self, key: &str, inner: impl FnOnce(&mut Self)) {
        self.key(key);
        self.nest('{', '}', inner);
    }

    fn list(&mut self, key: &str, inner: impl FnOnce(&mut Self)) {
        self.key(key);
        self.nest('[', ']', inner);
    }
}

impl Snapshot {
    /// Returns the snapshot in the JSON format of VMA's `vmaBuildStatsString`, including the detailed map of all
    /// blocks. O(ranges).
    #[must_use]
    pub fn to_vma_json(&self) -> String {
        let mut json = Json::default();
        json.nest('{', '}', |json| {
            json.object("General", |json| self.write_general(json));
            json.object("Total", |json| Stats::of(&self.blocks).write(json));
            json.object("MemoryInfo", |json| {
                for (index, heap) in (0..).zip(&self.heaps) {
                    json.object(&format!("Heap {index}"), |json| self.write_heap(index, heap, json));
                }
            });
            json.object("DefaultPools", |json| {
                for memory_type in 0..self.types.len() as u32 {
                    self.write_pool(memory_type, "", &format!("Type {memory_type}"), json);
                }
            });
            json.object("CustomPools", |json| self.write_custom_pools(json));
        });
        json.text
    }

    fn write_general(&self, json: &mut Json) {
        json.string("API", "Ringfence");
        json.string("GPU", &self.device);
        json.number("memoryHeapCount", self.heaps.len() as u64);
        json.number("memoryTypeCount", self.types.len() as u64);
    }

    fn write_heap(&self, index: u32, heap: &HeapSnapshot, json: &mut Json) {
        let is_here = |memory_type: u32| self.types.get(memory_type as usize).is_some_and(|held| held.heap == index);
        json.strings("Flags", heap.device_local.then_some("DEVICE_LOCAL").into_iter());
        json.number("Size", heap.bytes);
        json.object("Budget", |json| {
            json.number("BudgetBytes", heap.budget_bytes.unwrap_or(heap.bytes / 5 * 4));
            json.number("UsageBytes", heap.usage_bytes.unwrap_or(heap.reserved_bytes));
        });
        json.object("Stats", |json| {
            Stats::of(self.blocks.iter().filter(|block| is_here(block.memory_type))).write(json);
        });
        json.object("MemoryPools", |json| {
            for memory_type in (0..self.types.len() as u32).filter(|memory_type| is_here(*memory_type)) {
                json.object(&format!("Type {memory_type}"), |json| {
                    json.strings("Flags", self.types[memory_type as usize].properties.iter().map(String::as_str));
                    let blocks = self.blocks.iter().filter(|block| block.memory_type == memory_type);
                    json.object("Stats", |json| Stats::of(blocks).write(json));
                });
            }
        });
    }

    fn write_custom_pools(&self, json: &mut Json) {
        let mut pools: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for block in self.blocks.iter().filter(|block| !block.pool.is_empty()) {
            let names = pools.entry(block.memory_type).or_default();
            if !names.contains(&block.pool.as_str()) {
                names.push(&block.pool);
            }
        }
        for (memory_type, names) in pools {
            json.list(&format!("Type {memory_type}"), |json| {
                for name in names {
                    json.separate();
                    json.nest('{', '}', |json| {
                        json.string("Name", name);
                        self.write_pool_body(memory_type, name, json);
                    });
                }
            });
        }
    }

    fn write_pool(&self, memory_type: u32, name: &str, key: &str, json: &mut Json) {
        json.object(key, |json| self.write_pool_body(memory_type, name, json));
    }

    fn write_pool_body(&self, memory_type: u32, name: &str, json: &mut Json) {
        let blocks = || self.blocks.iter().filter(|block| block.memory_type == memory_type && block.pool == name);
        let largest = blocks().filter(|block| !block.dedicated).map(|block| block.bytes).max();
        json.number("PreferredBlockSize", largest.unwrap_or(0));
        json.object("Blocks", |json| {
            for (index, block) in blocks().filter(|block| !block.dedicated).enumerate() {
                json.object(&index.to_string(), |json| write_block(block, json));
            }
        });
        json.list("DedicatedAllocations", |json| {
            for block in blocks().filter(|block| block.dedicated) {
                for range in &block.ranges {
                    json.separate();
                    json.nest('{', '}', |json| write_range(block, range, json));
                }
            }
        });
    }
}

fn write_block(block: &BlockSnapshot, json: &mut Json) {
    let parts = parts(block);
    let unused = parts.iter().filter(|part| part.range.is_none());
    json.number("MapRefCount", 0);
    json.number("TotalBytes", block.bytes);
    json.number("UnusedBytes", unused.clone().map(|part| part.bytes).sum());
    json.number("Allocations", block.ranges.len() as u64);
    json.number("UnusedRanges", unused.count() as u64);
    json.list("Suballocations", |json| {
        for part in parts {
            json.separate();
            json.nest('{', '}', |json| {
                json.number("Offset", part.offset);
                match part.range {
                    Some(range) => write_range(block, range, json),
                    None => {
                        json.string("Type", "FREE");
                        json.number("Size", part.bytes);
                    }
                }
            });
        }
    });
}

fn write_range(block: &BlockSnapshot, range: &RangeSnapshot, json: &mut Json) {
    json.string("Type", kind(&block.class));
    json.number("Size", range.bytes);
    json.number("Usage", 0);
    if range.user_data != 0 {
        json.string("CustomData", &format!("{:016X}", range.user_data));
    }
    if !range.name.is_empty() {
        json.string("Name", &range.name);
    }
}

/// Returns the name that VMA uses for the type of the ranges in a block of this class.
fn kind(class: &str) -> &'static str {
    match class {
        "buffers" => "BUFFER",
        "textures" | "render targets" => "IMAGE_OPTIMAL",
        _ => "UNKNOWN",
    }
}
