//! The rules of a defragmentation, in blocks of sixteen units with a known layout.
//!
//! ```text
//!   ".a.bb.##"    a free unit, the range a, a free unit, the range b of two units, a free unit, ranges that stay
//! ```

use ringfence::defrag::{Defrag, DefragDesc, DefragState, DefragStatistics, MoveError, MoveOutcome};
use ringfence::device::{BufferDesc, BufferUsage, ClearValue, TextureDesc, TextureUsage};
use ringfence::memory::{Allocation, PoolDesc};
use ringfence::sim::{Device, Profile};
use ringfence::{AllocationDesc, AllocatorDesc, Frame, Pool};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

use crate::memory::world::{KIB, needs};

const UNIT: u64 = 16 * KIB;
const BLOCK: u64 = 16 * UNIT;

/// A move: the name of the range, its old and new unit, and `true` if both are in one block.
type Moved = (char, u64, u64, bool);

struct World {
    base: Fixture,
    pools: Vec<Pool<Device>>,
    held: Vec<Allocation<Device>>,
}

impl World {
    /// Creates a pool for each list of layouts. Each layout is a block.
    fn new(pools: &[&[&str]]) -> Self {
        let base = Fixture::new(FixtureDesc { profile: Profile::h200(), ..Default::default() });
        let desc = PoolDesc { memory_type: 1, block_bytes: BLOCK, ..Default::default() };
        let (mut held, mut made) = (Vec::new(), Vec::new());
        for blocks in pools {
            let pool = base.memory.create_pool(desc).expect("such a pool");
            let mut holes = Vec::new();
            for layout in *blocks {
                assert_eq!(layout.len() as u64, BLOCK / UNIT, "{layout}");
                let mut at = 0;
                for part in layout.as_bytes().chunk_by(|one, other| one == other) {
                    let (name, size) = (part[0], part.len() as u64 * UNIT);
                    let movable = name.is_ascii_lowercase();
                    let desc = AllocationDesc { movable, user_data: name.into(), ..Default::default() };
                    let range = pool.allocate(needs(size, 256), desc).expect("room");
                    assert_eq!(range.offset(), at * UNIT, "{layout}: in order");
                    at += part.len() as u64;
                    if name == b'.' { &mut holes } else { &mut held }.push(range);
                }
            }
            // SAFETY: no submission uses them.
            holes.into_iter().for_each(|hole| unsafe { hole.destroy_now() });
            made.push(pool);
        }
        Self { base, pools: made, held }
    }

    /// Plans a pass and makes each of its moves. The frame is open until the caller submits it.
    fn pass(&mut self, run: &mut Defrag<Device>) -> (Frame, Vec<Moved>) {
        let frame = self.base.timeline().begin();
        let mut pass = run.begin_pass(&frame).expect("its own frame");
        for range in &mut self.held {
            if let Ok(old) = pass.move_allocation(range) {
                drop(old);
            }
        }
        assert!(pass.moves().iter().all(|planned| planned.outcome == MoveOutcome::Moved));
        let moves = pass.moves().iter().map(|planned| {
            let name = char::from(planned.user_data as u8);
            (name, planned.from_offset / UNIT, planned.to_offset / UNIT, planned.is_inside_block)
        });
        let moves = moves.collect();
        drop(pass);
        (frame, moves)
    }

    fn complete(&self, frame: Frame) {
        self.base.complete(frame);
        self.base.memory.reclaim();
    }

    /// Runs to the end, and returns the moves of each pass that had some, and the figures.
    fn run(&mut self, desc: DefragDesc) -> (Vec<Vec<Moved>>, DefragStatistics) {
        let mut run = self.base.memory.defragment(desc);
        let mut passes = Vec::new();
        for _ in 0..100 {
            let (frame, moves) = self.pass(&mut run);
            self.complete(frame);
            passes.extend((!moves.is_empty()).then_some(moves));
            if run.state() == DefragState::Done {
                break;
            }
        }
        assert_eq!(run.state(), DefragState::Done);
        (passes, run.statistics())
    }

    fn finish(self) {
        drop((self.held, self.pools));
        self.base.finish();
    }
}

fn names(passes: &[Vec<Moved>]) -> String {
    passes.iter().flatten().map(|(name, ..)| *name).collect()
}

fn limits(bytes_per_pass_max: u64, moves_per_pass_max: usize) -> DefragDesc {
    DefragDesc { bytes_per_pass_max, moves_per_pass_max, ..Default::default() }
}

/// Each round makes the place for the next range: `a` for `b`, `b` for `c`.
const CHAIN: &str = ".a.bb.ccc.######";

/// A block gets a further round if the last one copied at most the given number of bytes for each byte won. Another
/// cycle tries each block once more.
#[test]
fn a_block_is_compacted_as_long_as_a_round_pays() {
    for (most, moved, won) in [(0, "ab", 2), (1, "abc", 3), (2, "abc", 3), (u32::MAX, "abc", 3)] {
        let mut world = World::new(&[&[CHAIN]]);
        let desc = DefragDesc { bytes_per_byte_won_max: most, ..Default::default() };
        let (passes, figures) = world.run(desc);
        assert_eq!(names(&passes), moved, "{most}");
        assert_eq!(figures.joined_bytes, won * UNIT, "{most}");
        let moves = [('a', 1, 0, true), ('b', 3, 1, true), ('c', 6, 3, true)];
        assert_eq!(passes, moves[..moved.len()].iter().map(|planned| vec![*planned]).collect::<Vec<_>>(), "{most}");
        world.finish();
    }
}

/// Nothing is compacted if the description says so, or if too little is scattered.
#[test]
fn a_block_that_is_not_scattered_is_left_alone() {
    for (layout, compacts) in [(CHAIN, false), (".aaaaaaaaaaaaaaa", true), ("aaaaaaaaaaaaaaa.", true)] {
        let mut world = World::new(&[&[layout]]);
        let (passes, figures) = world.run(DefragDesc { compacts, ..Default::default() });
        assert_eq!((passes.len(), figures.planned_count), (0, 0), "{layout}");
        world.finish();
    }
    // A sixteenth of the block outside of the longest free range is enough.
    let mut world = World::new(&[&[".a..############"]]);
    assert_eq!(names(&world.run(DefragDesc::default()).0), "a");
    world.finish();
}

/// After a compaction the blocks are emptied again, because the compacted blocks have room for larger ranges.
#[test]
fn a_compacted_block_takes_the_ranges_of_other_blocks() {
    for compacted in ["#.a.c.d.e.f.g.h.", "#.a.c.d.e.f.###.", "#.a.c.d.e.######"] {
        let mut world = World::new(&[&[compacted, "bbbb............"]]);
        let (passes, figures) = world.run(DefragDesc::default());
        let last = passes.last().expect("there are moves").last().expect("a move");
        assert_eq!((last.0, last.1, last.3), ('b', 0, false), "{compacted}: {passes:?}");
        assert_eq!((figures.freed_block_count, figures.freed_block_bytes), (1, BLOCK), "{compacted}");
        assert_eq!((figures.block_count, world.pools[0].statistics().block_count), (1, 1), "{compacted}");
        world.finish();
    }
}

/// A block that is not emptied, because one of its ranges fits nowhere else, takes the ranges of the next block.
#[test]
fn a_block_that_stays_takes_ranges_of_other_blocks() {
    let mut world = World::new(&[&["aaaa............", "b..b..b..b..b..b"]]);
    let (passes, figures) = world.run(DefragDesc { compacts: false, ..Default::default() });
    assert_eq!(names(&passes), "bbbbbb");
    assert_eq!((figures.freed_block_count, figures.freed_block_bytes, figures.block_count), (1, BLOCK, 1));
    world.finish();
}

/// The run stops emptying blocks if it has copied more than the given number of bytes for each byte of a block, and has not
/// emptied the block.
#[test]
fn emptying_stops_after_copies_that_freed_no_block() {
    for (most, moved, freed) in [(0, "c", 0), (u32::MAX, "cbbbbbb", 1)] {
        // The range `c` fits into the last block, `a` fits nowhere.
        let mut world = World::new(&[&["aaaac...........", "b..b..b..b..b..b", "#.#.#.#.#.#.#.#."]]);
        let desc = DefragDesc { compacts: false, bytes_per_byte_won_max: most, ..Default::default() };
        let (passes, figures) = world.run(desc);
        assert_eq!((names(&passes).as_str(), figures.freed_block_count), (moved, freed), "{most}");
        world.finish();
    }
}

/// A move reports if it stays inside its block.
#[test]
fn a_move_reports_if_it_stays_inside_its_block() {
    let mut world = World::new(&[&["aaaa............", "bbbbbbbb........"]]);
    let (passes, figures) = world.run(DefragDesc::default());
    assert_eq!(passes, [[('a', 0, 8, false)]], "the emptier block goes");
    assert_eq!((figures.freed_block_count, figures.block_count), (1, 1));
    world.finish();
}

/// The figures of a run count its moves, and describe the blocks at the moment.
#[test]
fn the_figures_of_a_run_are_those_of_its_moves() {
    let mut world = World::new(&[&["aaaa............", "bbbbbbbb........"], &[CHAIN]]);
    let mut run = world.base.memory.defragment(DefragDesc::default());
    let before = run.statistics();
    let now = |used, scattered| DefragStatistics {
        block_count: 3,
        block_bytes: 3 * BLOCK,
        used_bytes: used * UNIT,
        scattered_bytes: scattered * UNIT,
        ..Default::default()
    };
    assert_eq!(before, now(24, 3));
    assert_eq!((before.waste_bytes(), before.waste()), (24 * UNIT, 0.5));
    let (frame, moves) = world.pass(&mut run);
    assert_eq!(moves.iter().map(|(name, ..)| *name).collect::<String>(), "aa");
    let figures = run.statistics();
    assert_eq!((figures.pass_count, figures.planned_count, figures.moved_count), (1, 2, 2));
    assert_eq!((figures.moved_bytes, figures.ignored_count, figures.used_bytes), (5 * UNIT, 0, 29 * UNIT));
    assert!(figures.planning_ns >= figures.planning_ns_max);
    world.complete(frame);
    // A pass whose moves are all ignored counts them.
    let frame = world.base.timeline().begin();
    let mut pass = run.begin_pass(&frame).expect("its own frame");
    assert_eq!(pass.moves().len(), 1);
    pass.ignore(0);
    assert_eq!(pass.moves()[0].outcome, MoveOutcome::Ignored);
    drop(pass);
    let figures = run.statistics();
    assert_eq!((figures.pass_count, figures.planned_count, figures.moved_count, figures.ignored_count), (2, 3, 2, 1));
    assert_eq!((figures.freed_block_count, figures.freed_block_bytes), (1, BLOCK));
    assert_eq!((figures.block_count, figures.block_bytes, figures.used_bytes), (2, 2 * BLOCK, 24 * UNIT));
    let total = world.base.memory.statistics();
    assert_eq!((total.moved_count, total.moved_bytes), (2, 5 * UNIT));
    world.complete(frame);
    drop(run);
    world.finish();
}

/// A pass copies at most the given bytes and makes at most the given moves, but always one.
#[test]
fn a_pass_keeps_to_its_limits() {
    for (bytes, moves, count) in [
        (u64::MAX, 9, 2),
        (2 * UNIT, 9, 2),
        (2 * UNIT - 1, 9, 1),
        (UNIT, 9, 1),
        (UNIT - 1, 9, 1),
        (0, 9, 1),
        (u64::MAX, 2, 2),
        (u64::MAX, 1, 1),
        (u64::MAX, 0, 1),
    ] {
        let mut world = World::new(&[&[".a.b.c.d.#######"]]);
        let mut run = world.base.memory.defragment(limits(bytes, moves));
        let (frame, planned) = world.pass(&mut run);
        assert_eq!(planned.len(), count, "{bytes} bytes, {moves} moves");
        assert_eq!(planned[0].0, 'd', "the last range first");
        world.complete(frame);
        drop(run);
        world.finish();
    }
}

/// The next pass goes on in the pool in which the last one reached its limit, of moves or of bytes, so that no pool is
/// starved by one before it.
#[test]
fn a_pass_begins_where_the_last_one_reached_its_limit() {
    for desc in [limits(u64::MAX, 1), limits(1, usize::MAX)] {
        let mut world = World::new(&[&[CHAIN], &[".x.yy.zzz.######"]]);
        let mut run = world.base.memory.defragment(desc);
        world.base.device.pause(0);
        let mut order = String::new();
        let mut open = Vec::new();
        for _ in 0..2 {
            let (frame, moves) = world.pass(&mut run);
            open.push(world.base.submit_frame(frame, vec![]));
            order.extend(moves.iter().map(|(name, ..)| *name));
        }
        assert_eq!(order, "ax", "the first pool waits for the device");
        assert_eq!(run.state(), DefragState::Waiting);
        world.base.device.resume(0);
        assert!(world.base.device.run_until_idle());
        world.base.memory.reclaim();
        while run.state() != DefragState::Done {
            let (frame, moves) = world.pass(&mut run);
            order.extend(moves.iter().map(|(name, ..)| *name));
            world.complete(frame);
        }
        assert_eq!(order, "axyzbc", "{desc:?}");
        drop(run);
        world.finish();
    }
}

/// While a round has ranges left to try, a run is at work, even if the device has not completed its last move. Without,
/// it waits for the device.
#[test]
fn a_run_waits_only_when_its_round_is_planned() {
    let mut world = World::new(&[&[".a.b.c.d.#######"]]);
    let mut run = world.base.memory.defragment(limits(u64::MAX, 1));
    assert_eq!(run.state(), DefragState::Working);
    let (first, moves) = world.pass(&mut run);
    assert_eq!(moves.len(), 1);
    assert_eq!(run.state(), DefragState::Working, "three ranges of the round are not tried yet");
    let (second, moves) = world.pass(&mut run);
    assert_eq!(moves.len(), 1);
    let (third, moves) = world.pass(&mut run);
    assert_eq!((moves.len(), run.state()), (0, DefragState::Waiting), "the others have no lower place");
    [first, second, third].into_iter().for_each(|frame| world.complete(frame));
    assert_eq!(run.state(), DefragState::Working, "the round can be judged");
    drop(run);
    world.finish();
}

/// Evicted blocks are neither emptied nor compacted: a move would make them resident.
#[test]
fn evicted_blocks_are_left_alone() {
    let base = Fixture::new(FixtureDesc { profile: Profile::d3d12_modern(), ..Default::default() });
    // SAFETY: no submission uses the memory, except the copies of a pass.
    let residency = unsafe { base.memory.residency() };
    let desc = PoolDesc { memory_type: 0, block_bytes: BLOCK, ..Default::default() };
    let pool = base.memory.create_pool(desc).expect("such a pool");
    let desc = AllocationDesc { movable: true, evictable: true, ..Default::default() };
    let held = (0..16).map(|_| pool.allocate(needs(2 * UNIT, 256), desc).expect("room"));
    let held: Vec<_> = held.collect::<Vec<_>>().into_iter().skip(1).step_by(2).collect();
    base.memory.reclaim();
    let planned = || {
        let mut run = base.memory.defragment(DefragDesc::default());
        let mut count = 0;
        for _ in 0..4 {
            let frame = base.timeline().begin();
            let pass = run.begin_pass(&frame).expect("its own frame");
            count += pass.moves().len();
            drop(pass);
            base.complete(frame);
        }
        (count, run.statistics().planned_count)
    };
    let commit = |list: &ringfence::residency::UseList<Device>| {
        let frame = base.timeline().begin();
        residency.commit(list, &frame).expect("the heap has room");
        base.complete(frame);
    };
    base.device.set_budget(0, Some(0));
    base.memory.reclaim();
    commit(&residency.list());
    assert_eq!(residency.absent_bytes(), 2 * BLOCK);
    assert_eq!(planned(), (0, 0));
    assert_eq!(residency.absent_bytes(), 2 * BLOCK, "the blocks stay evicted");
    base.device.set_budget(0, None);
    let mut list = residency.list();
    held.iter().for_each(|range| list.add_allocation(range));
    commit(&list);
    assert_eq!(residency.absent_bytes(), 0);
    assert!(planned().0 > 0, "resident blocks are defragmented");
    drop((held, pool, list, residency));
    base.finish();
}

const COPIED: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);

/// A buffer of exactly its described size is moved with exactly that description: one that would be rounded up to it is
/// another one. A target may be described with any clear value, because only its owner knows that.
#[test]
fn a_move_takes_the_description_of_the_resource_but_for_the_clear_value() {
    let allocator = AllocatorDesc { device_block_bytes_max: 4096 * KIB, ..Default::default() };
    let world = Fixture::new(FixtureDesc { allocator, ..Default::default() });
    let desc = AllocationDesc { movable: true, ..Default::default() };
    let info = BufferDesc { size: 320 * KIB, usage: COPIED };
    let usage = TextureUsage::RENDER_TARGET | TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let clear_value = Some(ClearValue::color([0.0, 0.0, 0.0, 1.0]));
    let shape = TextureDesc { width: 256, height: 256, usage, clear_value, ..Default::default() };
    let buffers = (0..60).map(|_| world.memory.create_buffer(&info, desc).expect("room"));
    let mut buffers: Vec<_> = buffers.collect::<Vec<_>>().into_iter().step_by(3).collect();
    let textures = (0..60).map(|_| world.memory.create_texture(&shape, desc).expect("room"));
    let mut textures: Vec<_> = textures.collect::<Vec<_>>().into_iter().step_by(3).collect();
    world.complete(world.timeline().begin());
    world.memory.reclaim();
    let mut run = world.memory.defragment(DefragDesc::default());
    let frame = world.timeline().begin();
    let mut pass = run.begin_pass(&frame).expect("its own frame");
    let buffer = buffers.iter_mut().find(|buffer| pass.has(*buffer)).expect("two thirds are freed");
    let smaller = BufferDesc { size: 320 * KIB - 4, ..info };
    assert_eq!(pass.copy_buffer_as(buffer, &smaller).map(drop), Err(MoveError::AnotherDescription));
    assert_eq!(pass.copy_buffer_as(buffer, &info).map(|copy| copy.size), Ok(320 * KIB));
    let mut textures = textures.iter_mut().filter(|texture| pass.has(*texture)).collect::<Vec<_>>();
    assert!(textures.len() >= 2, "two thirds are freed");
    for (texture, clear_value) in textures.iter_mut().zip([None, Some(ClearValue::color([1.0; 4]))]) {
        let other = TextureDesc { format: ringfence::device::Format::R8Unorm, ..shape };
        assert_eq!(pass.copy_texture_as(texture, &other).map(drop), Err(MoveError::AnotherDescription));
        let same = TextureDesc { clear_value, ..shape };
        assert_eq!(pass.copy_texture_as(texture, &same).map(|copies| copies.len()), Ok(1));
    }
    drop(pass);
    world.complete(frame);
    drop((textures, run));
    drop(buffers);
}
