//! Traces: the same operations for every allocator, generated from fixed seeds or read from files.
//!
//! An operation frees the range in a slot, or fills the slot. Alignments are powers of two.

use std::collections::BTreeMap;
use std::path::Path;

/// One step of a trace.
#[derive(Clone, Copy)]
pub struct Op {
    /// Units to allocate, or [`Op::FREE`].
    pub size: u64,
    pub slot: u32,
    pub alignment_log2: u32,
}

impl Op {
    pub const FREE: u64 = 0;

    pub const fn allocate(slot: u32, size: u64, alignment: u64) -> Self {
        Self { size, slot, alignment_log2: alignment.trailing_zeros() }
    }

    pub const fn free(slot: u32) -> Self {
        Self { size: Self::FREE, slot, alignment_log2: 0 }
    }

    pub const fn alignment(&self) -> u64 {
        1 << self.alignment_log2
    }
}

/// Kind of a trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Random frees and allocations at a steady number of live ranges.
    Churn,
    /// Published by a peer, regenerated with its generator.
    Peers,
    /// Worst cases.
    Adversarial,
    /// Recorded in a program.
    Real,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Churn => "churn",
            Self::Peers => "peers",
            Self::Adversarial => "adversarial",
            Self::Real => "real",
        }
    }
}

pub struct Trace {
    pub name: String,
    pub kind: Kind,
    pub ops: Vec<Op>,
    /// Number of operations that fill the heap before the clock starts.
    pub warm_up: usize,
    pub slots: usize,
    /// The most live units at one time.
    pub peak: u64,
    /// `true` if refusals are part of the trace (a near miss) and do not depend on the capacity.
    pub refusals_expected: bool,
    /// Capacity of the timed runs; `None` for the default, a multiple of the peak.
    pub capacity: Option<u64>,
}

impl Trace {
    pub fn new(name: impl Into<String>, kind: Kind, ops: Vec<Op>, warm_up: usize) -> Self {
        let slots = ops.iter().map(|op| op.slot as usize + 1).max().unwrap_or(0);
        let (mut sizes, mut sum, mut peak) = (vec![0; slots], 0, 0);
        for op in &ops {
            sum = sum + op.size - std::mem::replace(&mut sizes[op.slot as usize], op.size);
            peak = peak.max(sum);
        }
        Self { name: name.into(), kind, ops, warm_up, slots, peak, refusals_expected: false, capacity: None }
    }
}

/// xorshift64*: the same numbers in every run on every machine.
pub struct Random(pub u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    pub fn log_uniform(&mut self, low: u64, high: u64) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (low as f64 * (high as f64 / low as f64).powf(unit)) as u64
    }
}

/// Fills `live` slots, then `pairs` times frees a random slot and fills it again.
pub fn churn(
    name: &str,
    kind: Kind,
    live: u32,
    pairs: u32,
    mut request: impl FnMut(&mut Random, u32) -> (u64, u64),
) -> Trace {
    let mut random = Random::new(1);
    let mut ops = Vec::new();
    for slot in 0..live {
        let (size, alignment) = request(&mut random, slot);
        ops.push(Op::allocate(slot, size, alignment));
    }
    for number in 0..pairs {
        let slot = random.below(live.into()) as u32;
        let (size, alignment) = request(&mut random, live + number);
        ops.extend([Op::free(slot), Op::allocate(slot, size, alignment)]);
    }
    Trace::new(name, kind, ops, live as usize)
}

/// Returns all generated traces.
pub fn made(scale: u32) -> Vec<Trace> {
    let pairs = 500_000 / scale;
    let mut traces = vec![
        churn("20,000 live, 256 B to 64 KiB", Kind::Churn, 20_000, pairs, |random, _| {
            (random.log_uniform(256, 64 << 10), 1)
        }),
        churn("2,000 live, 256 B to 4 MiB", Kind::Churn, 2_000, pairs, |random, _| {
            (random.log_uniform(256, 4 << 20), 1)
        }),
        churn("100,000 live, 256 B to 1 KiB", Kind::Churn, 100_000, pairs, |random, _| {
            (random.log_uniform(256, 1 << 10), 1)
        }),
        vma_algorithms("VMA's benchmark, given back forwards", Order::Forward),
        vma_algorithms("VMA's benchmark, given back backwards", Order::Backward),
        vma_algorithms("VMA's benchmark, given back at random", Order::Random),
        churn("all 64 KiB", Kind::Adversarial, 20_000, pairs, |_, _| (64 << 10, 1)),
        churn("two sizes in turns", Kind::Adversarial, 10_000, pairs, |_, number| {
            (if number & 1 == 0 { 4096 } else { 4352 }, 1)
        }),
        churn("sizes that differ by one unit", Kind::Adversarial, 10_000, pairs, |random, _| {
            (65_536 + random.below(64), 1)
        }),
        churn("alignments of 1 to 64 KiB", Kind::Adversarial, 10_000, pairs, |random, _| {
            (random.log_uniform(256, 64 << 10), 1 << random.below(17))
        }),
        churn("textures and buffers, 256 and 64 KiB", Kind::Adversarial, 4_000, pairs, |random, number| {
            match number % 4 {
                0 => (random.log_uniform(1, 256) * 65_536, 65_536),
                _ => (random.log_uniform(1, 256) * 256, 256),
            }
        }),
        last_in_first_out(pairs),
        first_in_first_out(pairs),
        comb(pairs),
    ];
    traces.push(near_misses(100_000 / scale));
    traces
}

/// Fills and empties in layers, last in, first out.
fn last_in_first_out(pairs: u32) -> Trace {
    let mut random = Random::new(2);
    let (mut ops, mut depth) = (Vec::new(), 0);
    for slot in 0..5_000 {
        ops.push(Op::allocate(slot, random.log_uniform(256, 64 << 10), 1));
    }
    while ops.len() < 2 * pairs as usize {
        let layer = 1 + random.below(200) as u32;
        let grows = depth == 0 || (depth + layer < 5_000 && random.next() >> 63 == 0);
        if grows {
            for slot in depth..depth + layer {
                ops.push(Op::allocate(5_000 + slot, random.log_uniform(256, 64 << 10), 1));
            }
            depth += layer;
        } else {
            let down = depth - layer.min(depth);
            ops.extend((down..depth).rev().map(|slot| Op::free(5_000 + slot)));
            depth = down;
        }
    }
    Trace::new("last in, first out", Kind::Adversarial, ops, 5_000)
}

/// Replaces the oldest range with each allocation.
fn first_in_first_out(pairs: u32) -> Trace {
    let mut random = Random::new(3);
    let mut ops: Vec<_> = (0..10_000).map(|slot| Op::allocate(slot, random.log_uniform(256, 64 << 10), 1)).collect();
    for number in 0..pairs {
        let slot = number % 10_000;
        ops.extend([Op::free(slot), Op::allocate(slot, random.log_uniform(256, 64 << 10), 1)]);
    }
    Trace::new("first in, first out", Kind::Adversarial, ops, 10_000)
}

/// Frees every other range, then allocates it again, alternately smaller and larger: merges with no, one and two
/// neighbours.
fn comb(pairs: u32) -> Trace {
    let live = 8_192;
    let mut random = Random::new(4);
    let mut ops: Vec<_> = (0..live).map(|slot| Op::allocate(slot, 4096, 1)).collect();
    while ops.len() < 2 * pairs as usize {
        let (start, step) = (random.below(4) as u32, 2 + random.below(3) as u32);
        let size = 4096 - random.below(3) * 512;
        let teeth = (start..live).step_by(step as usize);
        ops.extend(teeth.clone().map(Op::free));
        ops.extend(teeth.map(|slot| Op::allocate(slot, size, 1)));
    }
    Trace::new("combs: every second to fourth goes", Kind::Adversarial, ops, live as usize)
}

/// Creates 10,000 holes of the request's size class, each slightly too small; then frees and allocates elsewhere
/// between refusals.
/// refusals.
fn near_misses(refusals: u32) -> Trace {
    let mut ops: Vec<_> = (0..20_000).map(|slot| Op::allocate(slot, 4096, 1)).collect();
    ops.extend((0..20_000).step_by(2).map(Op::free));
    let warm_up = ops.len();
    let spare = 20_000;
    for _ in 0..refusals {
        ops.extend([Op::allocate(spare, 4100, 1), Op::free(spare)]);
    }
    let mut trace = Trace::new("refused: 10,000 near misses", Kind::Adversarial, ops, warm_up);
    trace.refusals_expected = true;
    trace.capacity = Some(20_000 * 4096);
    trace
}

/// The generator of VMA's tests: its linear congruence and constants.
struct VmaRandom(u32);

impl VmaRandom {
    const fn step(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(196_314_165).wrapping_add(907_633_515);
        self.0
    }

    const fn next(&mut self) -> u32 {
        let first = self.step();
        first ^ (self.step() >> 7)
    }
}

/// Order in which VMA's benchmark frees its ranges.
#[derive(Clone, Copy)]
enum Order {
    Forward,
    Backward,
    Random,
}

/// Plays the case of VMA's benchmark of algorithms that starts with a heap in use: seed 16223, sizes of 32 to 1023, a
/// block of 10,000 × 1024. A third of the block is filled, and a random half of that is freed. Then, ten times, 3,333
/// ranges are allocated and freed. C++ leaves the shuffle to its library, so the random order differs from VMA's.
fn vma_algorithms(name: &str, order: Order) -> Trace {
    const BLOCK: u64 = 10_000 * 1024;
    let mut random = VmaRandom(16_223);
    let size = |random: &mut VmaRandom| u64::from(32 + random.next() % (1024 - 32));
    let (mut ops, mut base, mut sum) = (Vec::new(), Vec::new(), 0);
    while sum < BLOCK / 3 {
        let units = size(&mut random);
        let slot = base.len() as u32;
        ops.push(Op::allocate(slot, units, 16));
        base.push(slot);
        sum += units;
    }
    let slots = base.len() as u32;
    for _ in 0..slots / 2 {
        let at = random.next() as usize % base.len();
        ops.push(Op::free(base.remove(at)));
    }
    let warm_up = ops.len();
    for _ in 0..10 {
        let mut taken: Vec<_> = (slots..slots + 3333).collect();
        ops.extend(taken.iter().map(|&slot| Op::allocate(slot, size(&mut random), 16)));
        match order {
            Order::Forward => {}
            Order::Backward => taken.reverse(),
            Order::Random => {
                for end in (1..taken.len()).rev() {
                    taken.swap(end, random.next() as usize % (end + 1));
                }
            }
        }
        ops.extend(taken.into_iter().map(Op::free));
    }
    let mut trace = Trace::new(name, Kind::Peers, ops, warm_up);
    trace.capacity = Some(BLOCK);
    trace
}

/// Returns the traces of the folder in `RINGFENCE_CASES`: `traces/*.csv` and every case of `alias/`.
pub fn real(folder: &Path) -> Vec<Trace> {
    let mut traces = Vec::new();
    let mut files = Vec::new();
    csv_files(folder, &mut files);
    files.sort();
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let name = file.strip_prefix(folder).unwrap_or(&file).with_extension("").display().to_string();
        let header = text.lines().next().unwrap_or_default();
        let ops = match header.split(',').collect::<Vec<_>>()[..] {
            ["op", "id", "size", ..] => from_operations(&text),
            ["id", "lower", "upper", "size", ..] | ["buffer", "lower", "upper", "size", ..] => from_lifetimes(&text),
            _ => continue,
        };
        if let Some(ops) = ops {
            traces.push(Trace::new(name, Kind::Real, ops, 0));
        }
    }
    traces
}

fn csv_files(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            csv_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "csv") {
            files.push(path);
        }
    }
}

/// Maps names to slots. Freed slots are reused.
#[derive(Default)]
struct Slots {
    by_name: BTreeMap<String, u32>,
    spare: Vec<u32>,
    count: u32,
}

impl Slots {
    fn take(&mut self, name: &str) -> u32 {
        let slot = self.spare.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        });
        self.by_name.insert(name.into(), slot);
        slot
    }

    fn give_back(&mut self, name: &str) -> Option<u32> {
        let slot = self.by_name.remove(name)?;
        self.spare.push(slot);
        Some(slot)
    }
}

fn alignment_of(field: Option<&&str>) -> u64 {
    field
        .and_then(|field| field.trim().parse::<u64>().ok())
        .filter(|alignment| alignment.is_power_of_two())
        .unwrap_or(1)
}

/// Reads rows of `op,id,size,alignment`. Returns `None` if a row cannot be read.
fn from_operations(text: &str) -> Option<Vec<Op>> {
    let (mut slots, mut ops) = (Slots::default(), Vec::new());
    for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
        let fields: Vec<_> = line.split(',').collect();
        match fields[..] {
            ["a", id, size, ..] => {
                ops.push(Op::allocate(slots.take(id), size.parse().ok()?, alignment_of(fields.get(3))));
            }
            ["f", id, ..] => ops.push(Op::free(slots.give_back(id)?)),
            _ => return None,
        }
    }
    Some(ops)
}

/// Reads rows of `id,lower,upper,size[,alignment]`: events by time, frees before allocations.
fn from_lifetimes(text: &str) -> Option<Vec<Op>> {
    let mut events = Vec::new();
    for (row, line) in text.lines().skip(1).filter(|line| !line.is_empty()).enumerate() {
        let fields: Vec<_> = line.split(',').map(str::trim).collect();
        let [_, lower, upper, size, ..] = fields[..] else { return None };
        let (lower, upper, size) = (lower.parse::<i64>().ok()?, upper.parse::<i64>().ok()?, size.parse::<u64>().ok()?);
        if lower < upper && size > 0 {
            events.push((lower, 1, row, size, alignment_of(fields.get(4))));
            events.push((upper, 0, row, 0, 1));
        }
    }
    events.sort_unstable();
    let (mut slots, mut ops) = (Slots::default(), Vec::new());
    for (_, _, row, size, alignment) in events {
        let name = row.to_string();
        if size == 0 {
            ops.push(Op::free(slots.give_back(&name)?));
        } else {
            ops.push(Op::allocate(slots.take(&name), size, alignment));
        }
    }
    Some(ops)
}
