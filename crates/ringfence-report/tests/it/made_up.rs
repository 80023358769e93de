//! Generated reports of any size, equal in each run: blocks of several kinds, ranges with gaps between them, hostile
//! names, and a run of frames.

#![allow(dead_code, reason = "each test file uses a part of it")]

use ringfence_report::{
    Compared, DescriptorMoment, FramePlan, FramePlanRow, FrameSample, HeapMoment, History, Lifetime, Moment, Report,
    RingMoment, TransientRow,
};
use ringfence_trace::DescriptorSnapshot;
use ringfence_trace::{
    BlockSnapshot, DriverCalls, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot, TypeStatistics,
};

/// Names that would break a page that does not escape them.
pub const HOSTILE: [&str; 10] = [
    "</script><script>document.documentElement.dataset.hacked = 1</script>",
    "<!--<script>",
    "<img src=x onerror=\"document.documentElement.dataset.hacked = 1\">",
    "]]></style></title></textarea>",
    "quotes \" ' ` and &amp; \\u003c \\",
    "{{data}} {{title}}",
    "\u{202e}turned round\u{202c}",
    "nul \u{0}, bell \u{7}, line\nfeed, \u{2028}",
    "",
    "面 🎨 ünïcödé",
];

const MIB: u64 = 1 << 20;
const CLASSES: [&str; 4] = ["buffers", "textures", "render targets", "all"];
const SUBJECTS: [&str; 6] = ["terrain/tile", "crowd/person", "harbour/ship", "sky/cloud", "ui/glyphs", "water/wave"];
const PARTS: [&str; 5] = ["albedo", "normals", "vertices", "indices", "instances"];

/// A small random number generator (xorshift) with a fixed seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}

/// Returns a report with `block_count` blocks, `range_count` ranges in total, and `frame_count` frames.
pub fn report(block_count: u64, range_count: u64, frame_count: u64) -> Report {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let blocks = blocks(&mut numbers, block_count, range_count);
    let snapshot = snapshot(blocks);
    let frames = frames(&mut numbers, frame_count);
    Report { title: format!("Harbour <scene> & {}", HOSTILE[0]), snapshot, frames, facts: facts(), ..Report::default() }
}

fn blocks(numbers: &mut Numbers, block_count: u64, range_count: u64) -> Vec<BlockSnapshot> {
    let dedicated_count = block_count / 5;
    let shared_count = block_count - dedicated_count;
    let shared_ranges = range_count - dedicated_count;
    let mut blocks = Vec::new();
    for index in 0..shared_count {
        let extra = u64::from(index < shared_ranges % shared_count);
        blocks.push(shared_block(numbers, index, shared_ranges / shared_count + extra));
    }
    blocks.extend((0..dedicated_count).map(|index| dedicated_block(numbers, index)));
    // The block numbers have gaps, as if other blocks had been freed.
    (0..).zip(&mut blocks).for_each(|(index, block)| block.number = 3 + 2 * index);
    blocks
}

fn shared_block(numbers: &mut Numbers, index: u64, range_count: u64) -> BlockSnapshot {
    let bytes = [64, 128, 256][numbers.next(3) as usize] * MIB;
    // Sizes from several powers of two, and gaps after the ranges: few in some blocks, many in others.
    let size = |_| {
        let least = 256 << numbers.next(9);
        least + numbers.next(least)
    };
    let sizes: Vec<u64> = (0..range_count).map(size).collect();
    let looseness = index % 5 * 12;
    let whole: u64 = sizes.iter().sum::<u64>() * (100 + 4 * looseness) / 100;
    let (mut offset, mut ranges) = (0, Vec::new());
    for (place, size) in sizes.into_iter().enumerate() {
        let size = (size as u128 * bytes as u128 / whole as u128) as u64 / 256 * 256;
        offset += if numbers.next(100) < looseness { numbers.next(size * 4) / 256 * 256 } else { 0 };
        if offset + size > bytes {
            offset = bytes;
        }
        let size = size.min(bytes - offset);
        ranges.push(RangeSnapshot { offset, bytes: size, name: name(numbers, place as u64), user_data: 0 });
        offset += size;
    }
    let class = CLASSES[(index % 4) as usize].into();
    BlockSnapshot { memory_type: (index % 3) as u32, class, bytes, ranges, ..Default::default() }
}

fn dedicated_block(numbers: &mut Numbers, index: u64) -> BlockSnapshot {
    let bytes = (8 + numbers.next(90)) * MIB;
    let used = bytes - numbers.next(64 << 10) / 256 * 256;
    let ranges = vec![RangeSnapshot { offset: 0, bytes: used, name: format!("g-buffer/target {index}"), user_data: 0 }];
    BlockSnapshot { class: CLASSES[2].into(), dedicated: true, bytes, ranges, ..Default::default() }
}

fn name(numbers: &mut Numbers, place: u64) -> String {
    if place == 7 {
        return HOSTILE[numbers.next(HOSTILE.len() as u64) as usize].into();
    }
    let (subject, part) = (SUBJECTS[numbers.next(6) as usize], PARTS[numbers.next(5) as usize]);
    format!("{subject} {}/{part}", numbers.next(400))
}

fn snapshot(blocks: Vec<BlockSnapshot>) -> Snapshot {
    let properties: [&[&str]; 3] =
        [&["device local"], &["host visible", "host coherent"], &["device local", "host visible", HOSTILE[2]]];
    let types: Vec<TypeSnapshot> = properties
        .iter()
        .zip([0, 1, 0])
        .enumerate()
        .map(|(index, (names, heap))| TypeSnapshot {
            heap,
            properties: names.iter().map(|name| (*name).into()).collect(),
            statistics: statistics(blocks.iter().filter(|block| block.memory_type == index as u32)),
        })
        .collect();
    let heap = |index: u32, bytes: u64| {
        let held: u64 =
            types.iter().filter(|kind| kind.heap == index).map(|kind| kind.statistics.reserved_bytes()).sum();
        let bytes = bytes.max(held * 2);
        HeapSnapshot {
            bytes,
            device_local: index == 0,
            reserved_bytes: held,
            usage_bytes: Some(held + 700 * MIB),
            budget_bytes: (index == 0).then_some(bytes / 5 * 4),
        }
    };
    let heaps = vec![heap(0, 8192 * MIB), heap(1, 16384 * MIB)];
    Snapshot {
        version: 1,
        device: "Simulated GPU <8 GiB>".into(),
        heaps,
        types,
        rings: vec![ring()],
        descriptors: descriptors(),
        retired_count: 37,
        calls: calls(&blocks),
        blocks,
    }
}

fn descriptors() -> Vec<DescriptorSnapshot> {
    let region = |region: &str, slot_count, used_count| DescriptorSnapshot {
        name: "scene <descriptors>".into(),
        kind: "resources".into(),
        region: region.into(),
        slot_count,
        used_count,
        largest_free: (slot_count - used_count) / 2,
        heap_count: 1,
        ..Default::default()
    };
    let frame = DescriptorSnapshot { high_water: Some(9_000), tables_made: 12, ..region("frame", 16_384, 5_120) };
    let bindless = DescriptorSnapshot { waiting_count: 300, ..region("bindless", 4096, 2_300) };
    vec![region("CPU-only", 2048, 700), region("persistent", 49_152, 4_400), frame, bindless]
}

fn statistics<'a>(blocks: impl Iterator<Item = &'a BlockSnapshot>) -> TypeStatistics {
    let mut sums = TypeStatistics::default();
    for block in blocks {
        let used = block.bytes - block.free_bytes();
        if block.dedicated {
            sums.dedicated_count += 1;
            sums.dedicated_bytes += block.bytes;
        } else {
            sums.block_count += 1;
            sums.block_bytes += block.bytes;
            sums.range_count += block.ranges.len() as u64;
            sums.range_bytes += used;
        }
    }
    sums.block_bytes_high_water = sums.block_bytes / 8 * 9;
    sums.range_bytes_high_water = sums.range_bytes / 8 * 9;
    sums
}

fn calls(blocks: &[BlockSnapshot]) -> DriverCalls {
    let ranges: usize = blocks.iter().map(|block| block.ranges.len()).sum();
    DriverCalls {
        allocate_memory: blocks.len() as u64 + 6,
        free_memory: 6,
        create_object: ranges as u64 + 420,
        destroy_object: 383,
        recycled: 1733,
        placed: ranges as u64,
        staged: 4200,
        wait: 3,
    }
}

fn ring() -> RingSnapshot {
    RingSnapshot {
        name: "upload".into(),
        capacity_bytes: 64 * MIB,
        used_bytes: 11 * MIB,
        high_water_bytes: 51 * MIB,
        submission_count: 2,
        wait_count: 3,
        wait_ns: 4_310_000,
        written_bytes: 7351 * MIB,
        ..Default::default()
    }
}

fn frames(numbers: &mut Numbers, count: u64) -> Vec<FrameSample> {
    let wave = |frame: u64, length: f64| (frame as f64 / length).sin().mul_add(0.5, 0.5);
    let sample = |frame: u64| FrameSample {
        frame: frame + 1,
        ring_used_bytes: (wave(frame, 23.0) * 38e6) as u64 + numbers.next(12_000_000),
        ring_capacity_bytes: 64 * MIB,
        retired_count: 20 + (wave(frame, 11.0) * 60.0) as u64 + numbers.next(12),
        reserved_bytes: (4096 + 128 * (frame * 12 / count)) * MIB,
        used_bytes: 3000 * MIB + (wave(frame, 70.0) * 1.1e9) as u64,
        live_count: 2600 + frame * 400 / count + numbers.next(40),
    };
    (0..count).map(sample).collect()
}

fn facts() -> Vec<(String, String)> {
    [
        ("Device", "Simulated GPU <8 GiB>"),
        ("Frames", "300"),
        ("Time of a frame, median", "1.42 ms"),
        ("Bytes checked", "7.18 GiB"),
        ("Bytes wrong", "0"),
        ("Seed", "42"),
        ("Name", HOSTILE[0]),
    ]
    .map(|(label, value)| (label.to_owned(), value.to_owned()))
    .into()
}

/// Returns a history like one from a trace: moments of frames, and lifetimes, some with hostile names.
pub fn history(frame_count: u64, lifetime_count: u64) -> History {
    let mut numbers = Numbers(77);
    let moment = |frame: u64| Moment {
        frame,
        elapsed_ns: frame * 16_000_000,
        heaps: vec![
            HeapMoment {
                used_bytes: frame * MIB,
                reserved_bytes: (frame + 9) * MIB,
                budget_bytes: Some(500 * MIB),
                away_bytes: 0,
            },
            HeapMoment::default(),
        ],
        fragmentation_percent: (frame % 100) as f64,
        free_percent: 30.0,
        live_count: frame * 3,
        retired_count: frame % 7,
        rings: vec![RingMoment { used_bytes: frame % 61 * MIB, capacity_bytes: 64 * MIB }],
        descriptors: vec![DescriptorMoment { used_count: 90 + frame % 800, frame_count: frame % 90, slot_count: 1000 }],
        transient_count: 2 + frame % 5,
        transient_bytes: (2 + frame % 5) * 8 * MIB,
    };
    let mut lifetime = |index: u64| {
        let born = 1 + numbers.next(frame_count);
        let retired = (!index.is_multiple_of(10)).then(|| born + numbers.next(frame_count - born + 1));
        let name = name(&mut numbers, index % 9);
        let freed = retired.filter(|_| index % 10 > 1).map(|frame| (frame + 2).min(frame_count));
        Lifetime { name, memory_type: 0, bytes: 256 << numbers.next(12), born, retired, freed }
    };
    let lifetimes: Vec<_> = (0..lifetime_count).map(&mut lifetime).collect();
    let left = || lifetimes.iter().filter(|one| one.retired.is_none() && one.freed.is_none());
    History {
        left_count: left().count() as u64,
        left_bytes: left().map(|one| one.bytes).sum(),
        oldest_left: left().take(50).cloned().collect(),
        moments: (1..=frame_count.min(1000)).map(moment).collect(),
        lifetimes,
        left_out_count: 5,
        elapsed_ns: 4_000_000_000,
        reserved_bytes_high_water: 0,
        frame_count,
        event_count: 12_345,
        rings: vec![HOSTILE[2].into()],
        descriptors: vec![HOSTILE[3].into()],
        transient_made_count: 9,
        transient_count: 1,
        transients: vec![TransientRow { name: HOSTILE[1].into(), block: 3, offset: MIB, bytes: 8 * MIB, born: 2 }],
        plans: vec![plan()],
        plan_count: 3,
        move_count: 2,
        moved_bytes: 5 * MIB,
        damage: Some(HOSTILE[0].into()),
    }
}

/// Returns a plan of ten resources in twelve passes. Each resource reuses the bytes of the resource two before it.
fn plan() -> FramePlan {
    let row = |at: u64| FramePlanRow {
        name: HOSTILE[at as usize].into(),
        first_pass: at,
        end_pass: at + 2,
        offset: at % 2 * 8 * MIB,
        bytes: 8 * MIB,
    };
    let rows = (0..10).map(row).collect();
    let (height_bytes, lower_bound_bytes) = (16 * MIB, 16 * MIB);
    FramePlan { frame: 1, plan: 1, heap: 0, height_bytes, lower_bound_bytes, pass_count: 12, rows }
}

/// Returns a snapshot for the comparison with that of [`report`].
pub fn compared() -> Compared {
    Compared { title: HOSTILE[2].into(), snapshot: report(10, 500, 0).snapshot, ..Compared::default() }
}
