//! Document 003 rounds every block to 64 KiB, "so that pools stay few". Ringfence has size classes up to 64 KiB, and
//! larger allocations are ranges of a block (rows 003-3, 003-4). This compares both for the same requests.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use ringfence::memory::Allocation;
use ringfence::sim::Profile;
use ringfence::{AllocatorDesc, Dedicated};
use ringfence_core::size_class::SizeClasses;

use crate::memory::world::{Device, KIB, MIB, needs, next, on_device, world};

/// A request, or the release of one.
enum Op {
    Allocate { id: u64, size: u64, alignment: u64 },
    Free { id: u64 },
}

/// Cost of a trace at its peak of requested bytes.
#[derive(Default, Debug)]
struct Cost {
    requested_bytes: u64,
    /// Bytes allocated beyond those, in blocks and ranges.
    ours_lost_bytes: u64,
    document_lost_bytes: u64,
    /// Kinds of pools, over the whole trace.
    our_pools: usize,
    document_pools: usize,
    /// All memory objects that were ever created, and those that pools of 64 MiB, or of a larger block, would have
    /// created.
    our_objects: u64,
    document_objects: u64,
}

fn replay(trace: &[Op]) -> Cost {
    let world = world(Profile::h200(), AllocatorDesc::default());
    let desc = ringfence::AllocationDesc { dedicated: Dedicated::Never, ..on_device() };
    let mut live: HashMap<u64, Allocation<Device>> = HashMap::new();
    let (mut cost, mut asked, mut rounded) = (Cost::default(), 0, 0);
    let (mut ours, mut theirs) = (HashSet::new(), HashMap::<u64, (u64, u64)>::new());
    let document = |size: u64, alignment: u64| size.max(alignment).next_multiple_of(64 * KIB);
    for op in trace {
        match *op {
            Op::Allocate { id, size, alignment } => {
                let made = world.memory.allocate(needs(size, alignment), desc).expect("there is room");
                let block = document(size, alignment);
                (asked, rounded) = (asked + size, rounded + block);
                ours.extend(SizeClasses::FINE.class(size, alignment).ok().filter(|class| *class <= 64 * KIB));
                let blocks = theirs.entry(block).or_default();
                blocks.0 += 1;
                blocks.1 = blocks.1.max(blocks.0);
                live.insert(id, made);
            }
            Op::Free { id } => {
                let gone = live.remove(&id).expect("it lives");
                let block = document(gone.size(), gone.alignment());
                (asked, rounded) = (asked - gone.size(), rounded - block);
                theirs.get_mut(&block).expect("it was counted").0 -= 1;
                // SAFETY: no submission uses it.
                unsafe { gone.destroy_now() };
            }
        }
        if asked > cost.requested_bytes {
            let used = world.memory.statistics().total().used_bytes();
            cost = Cost {
                requested_bytes: asked,
                ours_lost_bytes: used - asked,
                document_lost_bytes: rounded - asked,
                ..cost
            };
        }
    }
    cost.our_pools = ours.len() + 1; // and ranges of any size
    cost.document_pools = theirs.len();
    cost.our_objects = world.memory.statistics().calls.allocate_memory;
    cost.document_objects = theirs.iter().map(|(block, (_, most))| most.div_ceil((64 * MIB / block).max(1))).sum();
    drop(live);
    world.finish();
    cost
}

/// Returns requests with sizes between two powers of two, with small ones as likely as large ones. Now and then a third
/// of the live ones is freed.
fn generated(seed: u64, powers: std::ops::Range<u64>, count: u64) -> Vec<Op> {
    let (mut state, mut live, mut trace) = (seed * 977 + 5, Vec::new(), Vec::new());
    for id in 0..count {
        let power = powers.start + next(&mut state) % (powers.end - powers.start);
        let size = (1 << power) + next(&mut state) % (1 << power);
        let alignment = [16, 256, 256, 4 * KIB][next(&mut state) as usize % 4].min(size.next_power_of_two());
        trace.push(Op::Allocate { id, size, alignment });
        live.push(id);
        if id % 500 == 499 {
            for _ in 0..live.len() / 3 {
                let at = next(&mut state) as usize % live.len();
                trace.push(Op::Free { id: live.swap_remove(at) });
            }
        }
    }
    trace
}

/// Returns a recorded trace from the folder of cases, if it exists: `RINGFENCE_CASES`, or `shared/data` in a parent
/// folder.
fn recorded() -> Option<Vec<Op>> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/data"));
    let mut folders = std::env::var_os("RINGFENCE_CASES").map(PathBuf::from).into_iter().chain(above);
    let text = folders.find_map(|folder| std::fs::read_to_string(folder.join("traces/rmv_valloc.csv")).ok())?;
    let parse = |line: &str| {
        let mut fields = line.split(',');
        let kind = fields.next()?.to_owned();
        let [id, size, alignment] = [(); 3].map(|()| fields.next().and_then(|field| field.parse().ok()).unwrap_or(0));
        Some(if kind == "a" { Op::Allocate { id, size, alignment } } else { Op::Free { id } })
    };
    Some(text.lines().skip(1).filter_map(parse).collect())
}

#[test]
fn seed_003_03_fewer_pools_and_less_waste_than_blocks_of_64_kib() {
    let mut traces = vec![
        ("constants and small meshes", generated(1, 8..14, 6000), 20),
        ("meshes", generated(2, 10..19, 3000), 8),
        ("of all sizes", generated(3, 6..23, 2000), 4),
    ];
    match recorded() {
        Some(trace) => traces.push(("recorded", trace, 1)),
        None => println!("skipped: no recorded trace is here"),
    }
    for (name, trace, times) in traces {
        let cost = replay(&trace);
        println!("{name}: {cost:?}");
        assert!(cost.ours_lost_bytes * times <= cost.document_lost_bytes, "{name}: {cost:?}");
        assert!(cost.our_pools <= 18, "{name}: {cost:?}");
        assert!(cost.our_objects <= cost.document_objects, "{name}: {cost:?}");
        let part = cost.requested_bytes / 3;
        assert!(cost.ours_lost_bytes <= part, "{name}: at most a third is lost: {cost:?}");
    }
}
