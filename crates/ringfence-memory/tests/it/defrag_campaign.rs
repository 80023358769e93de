//! Random programs on the simulated device while all resources are being moved. Each use of a buffer compares its bytes
//! on the device, and there must be no hazard.
//!
//! ```text
//!   queue 0   creates, fills, uses, moves          every frame signals its timeline
//!   queue 1   uses, some frames late: waits for queue 0, so that old ranges are read while new ones are in use
//! ```
//!
//! `RINGFENCE_DEFRAG_OPS` sets the number of operations; the ignored test runs a million.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use ringfence::algorithms::algorithm::Algorithm;
use ringfence::defrag::{Defrag, DefragDesc, DefragState};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, Requirements, ResourceClass};
use ringfence::memory::PoolDesc;
use ringfence::sim::{self, BufferRange, Command, Kernel};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Pool, Timeline};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

const BLOCK_BYTES: u64 = 256 << 10;
const LIVE_MAX: usize = 160;

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 16
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn once_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }
}

/// Returns a word of the content of buffer `number`.
fn word(number: u64, at: usize) -> [u8; 8] {
    (number ^ (at as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

struct Held {
    buffer: Buffer<sim::Device>,
    size: u64,
    number: u64,
}

/// Counts of the operations of a campaign, to check that all of them happened.
#[derive(Default, Debug)]
struct Counts {
    operations: u64,
    uses: u64,
    moves: u64,
    moved_bytes: u64,
    ignored: u64,
    dropped_during_move: u64,
    blocks_freed: u64,
    runs: u64,
}

struct Campaign {
    device: sim::Device,
    memory: Allocator<sim::Device>,
    pools: Vec<Pool<sim::Device>>,
    timelines: Vec<Timeline<sim::Device>>,
    fences: Vec<sim::Fence>,
    held: Vec<Option<Held>>,
    free: Vec<usize>,
    commands: Vec<Command>,
    /// Uses by the second queue that are not submitted yet.
    late: Vec<Command>,
    wrong: Arc<AtomicU64>,
    rng: Rng,
    made: u64,
    submitted: VecDeque<u64>,
    run: Option<Defrag<sim::Device>>,
    counts: Counts,
}

impl Campaign {
    fn new(seed: u64) -> Self {
        let profiles = sim::Profile::all();
        let profile = profiles[seed as usize % profiles.len()].clone();
        let small = AllocatorDesc {
            device_block_bytes_max: BLOCK_BYTES,
            host_block_bytes_max: BLOCK_BYTES,
            empty_block_grace: 4,
            ..Default::default()
        };
        let options = sim::SimOptions { seed, ..Default::default() };
        let desc = FixtureDesc { profile, options, allocator: small, timelines: 2 };
        let Fixture { device, memory, timelines, fences, .. } = Fixture::new(desc);
        let info = BufferDesc { size: 64, usage: usage() };
        let memory_type = memory.create_buffer(&info, AllocationDesc::default()).expect("there is room").memory_type();
        let pool = |algorithm| {
            let desc = PoolDesc { memory_type, block_bytes: BLOCK_BYTES, algorithm, ..Default::default() };
            memory.create_pool(desc).expect("there is such a type")
        };
        let pools = vec![pool(Algorithm::Tlsf), pool(Algorithm::Buddy { granule: 256 }), pool(Algorithm::FreeList)];
        Self {
            pools,
            timelines,
            fences,
            held: Vec::new(),
            free: Vec::new(),
            commands: Vec::new(),
            late: Vec::new(),
            wrong: Arc::default(),
            rng: Rng(seed),
            made: 0,
            submitted: VecDeque::new(),
            run: None,
            counts: Counts::default(),
            device,
            memory,
        }
    }

    /// Creates a buffer, usually movable, and fills it on the device.
    fn make(&mut self) {
        let bits = self.rng.below(8);
        let size = (256 << bits) + (self.rng.next() % (256 << bits)).next_multiple_of(8);
        let number = self.made;
        self.made += 1;
        let slot = self.free.pop().unwrap_or(self.held.len());
        let movable = !self.rng.once_in(24);
        let desc = AllocationDesc { movable, user_data: slot as u64 + 1, ..Default::default() };
        let info = BufferDesc { size, usage: usage() };
        let buffer = match self.rng.below(self.pools.len() + 2) {
            at if at < self.pools.len() => self.pools[at].create_buffer(&info, desc),
            _ => self.memory.create_buffer(&info, desc),
        };
        let buffer = buffer.expect("there is room");
        let range = BufferRange::new(*buffer.object(), 0, size);
        self.commands.push(Command::Kernel(Kernel::new(vec![], vec![range], move |memory| {
            for (at, bytes) in memory.writes[0].chunks_exact_mut(8).enumerate() {
                bytes.copy_from_slice(&word(number, at));
            }
        })));
        if slot == self.held.len() {
            self.held.push(None);
        }
        self.held[slot] = Some(Held { buffer, size, number });
    }

    /// Returns a use on the device that compares every byte.
    fn use_of(&self, held: &Held) -> Command {
        let (number, wrong) = (held.number, Arc::clone(&self.wrong));
        let range = BufferRange::new(*held.buffer.object(), 0, held.size);
        Command::Kernel(Kernel::new(vec![range], vec![], move |memory| {
            let differs = memory.reads[0].chunks_exact(8).enumerate().any(|(at, bytes)| bytes != word(number, at));
            wrong.fetch_add(u64::from(differs), Ordering::Relaxed);
        }))
    }

    fn use_one(&mut self) {
        let slot = self.rng.below(self.held.len().max(1));
        let Some(Some(held)) = self.held.get(slot) else { return };
        let command = self.use_of(held);
        self.counts.uses += 1;
        if self.rng.once_in(3) { self.late.push(command) } else { self.commands.push(command) }
    }

    fn drop_one(&mut self) {
        let slot = self.rng.below(self.held.len().max(1));
        if let Some(held) = self.held.get_mut(slot)
            && held.take().is_some()
        {
            self.free.push(slot);
        }
    }

    fn pin_one(&mut self) {
        let (slot, pinned) = (self.rng.below(self.held.len().max(1)), self.rng.once_in(4));
        if let Some(Some(held)) = self.held.get(slot) {
            held.buffer.set_pinned(pinned);
        }
    }

    /// Runs a pass with every possible outcome of a move.
    fn pass(&mut self, frame: &ringfence::Frame) {
        let desc = DefragDesc {
            bytes_per_pass_max: 1 << (12 + self.rng.below(8)),
            moves_per_pass_max: 1 + self.rng.below(24),
            ..Default::default()
        };
        let whole = self.rng.once_in(2);
        let run = self.run.get_or_insert_with(|| match whole {
            true => self.memory.defragment(desc),
            false => Defrag::of_pool(&self.pools[0], desc),
        });
        let mut pass = run.begin_pass(frame).expect("the frame is ours");
        for index in 0..pass.moves().len() {
            let slot = pass.moves()[index].user_data as usize - 1;
            let fate = self.rng.below(20);
            match (fate, &mut self.held[slot]) {
                (0, _) => pass.ignore(index),
                (1, held) => {
                    self.counts.dropped_during_move += u64::from(held.take().is_some());
                    self.free.push(slot);
                }
                (2, held) => {
                    pass.discard(held.take().expect("a dropped buffer is not moved").buffer);
                    self.counts.dropped_during_move += 1;
                    self.free.push(slot);
                }
                (3, _) => {}
                (4, Some(held)) => held.buffer.set_pinned(true),
                (_, Some(held)) => drop(pass.copy_buffer(&mut held.buffer).expect("the room is there")),
                (_, None) => unreachable!("a dropped buffer is not moved"),
            }
        }
        // SAFETY: the commands are submitted as this frame.
        unsafe { pass.record(&mut self.commands) };
        drop(pass);
        if run.state() == DefragState::Done {
            self.end_run();
        }
    }

    fn end_run(&mut self) {
        let Some(run) = self.run.take() else { return };
        let done = run.statistics();
        self.counts.runs += 1;
        self.counts.moves += done.moved_count;
        self.counts.moved_bytes += done.moved_bytes;
        self.counts.ignored += done.ignored_count;
        self.counts.blocks_freed += done.freed_block_count;
    }

    fn frame(&mut self) {
        let (frame, late) = (self.timelines[0].begin(), self.timelines[1].begin());
        for _ in 0..24 {
            self.counts.operations += 1;
            let live = self.held.len() - self.free.len();
            // The number of live buffers rises and falls, so that blocks are created and freed.
            let wanted = LIVE_MAX * (1 + (self.made as usize / 400) % 3) / 3;
            match self.rng.below(10) {
                0..=3 if live < wanted => self.make(),
                0..=4 => self.drop_one(),
                9 if self.rng.once_in(4) => self.pin_one(),
                _ => self.use_one(),
            }
        }
        if !self.rng.once_in(3) {
            self.pass(&frame);
        }
        let value = frame.value();
        let commands = std::mem::take(&mut self.commands);
        self.device.submit(0, &[], commands, (self.fences[0], value)).expect("the device is not lost");
        self.timelines[0].submitted(frame).expect("frames are submitted in order");
        self.submit_late(late, value);
        self.submitted.push_back(value);
        if self.submitted.len() > 2 {
            let oldest = self.submitted.pop_front().expect("there are some");
            assert!(self.timelines[0].wait(oldest, Duration::MAX).expect("the device is not lost"));
        }
        if self.rng.once_in(2) {
            self.memory.reclaim();
        }
    }

    /// Submits the late uses to the second queue. They wait for value `after` of the first queue.
    fn submit_late(&mut self, frame: ringfence::Frame, after: u64) {
        let commands = std::mem::take(&mut self.late);
        let signal = (self.fences[1], frame.value());
        self.device.submit(1, &[(self.fences[0], after)], commands, signal).expect("the device is not lost");
        self.timelines[1].submitted(frame).expect("frames are submitted in order");
    }

    fn finish(mut self) -> Counts {
        let frame = self.timelines[0].begin();
        let commands = self.held.iter().flatten().map(|held| self.use_of(held)).collect();
        self.device.submit(0, &[], commands, (self.fences[0], frame.value())).expect("the device is not lost");
        self.timelines[0].submitted(frame).expect("frames are submitted in order");
        assert!(self.device.run_until_idle());
        self.held.clear();
        self.end_run();
        self.memory.reclaim();
        self.memory.debug().validate().expect("the allocator is sound");
        let hazards = self.device.hazards();
        assert!(hazards.is_empty(), "{} hazards, the first: {}", hazards.len(), hazards[0]);
        assert_eq!(self.wrong.load(Ordering::Relaxed), 0, "uses that found wrong bytes");
        assert_eq!(self.memory.statistics().total().range_count, 0);
        self.counts
    }
}

fn usage() -> BufferUsage {
    BufferUsage::COPY_SRC | BufferUsage::COPY_DST | BufferUsage::STORAGE
}

fn campaign(seed: u64, operations: u64, validate_every: u64) -> Counts {
    let mut world = Campaign::new(seed);
    let mut frames = 0;
    while world.counts.operations < operations {
        world.frame();
        frames += 1;
        if frames % validate_every == 0 {
            world.memory.debug().validate().unwrap_or_else(|invalid| panic!("seed {seed}, frame {frames}: {invalid}"));
            assert!(world.device.hazards().is_empty(), "seed {seed}, frame {frames}: {}", world.device.hazards()[0]);
        }
    }
    let counts = world.finish();
    assert!(counts.moves > operations / 200, "seed {seed}: {counts:?}");
    assert!(counts.dropped_during_move > 0 && counts.ignored > 0, "seed {seed}: {counts:?}");
    counts
}

fn operations(default: u64) -> u64 {
    std::env::var("RINGFENCE_DEFRAG_OPS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_programs_find_their_bytes_while_everything_moves() {
    let counts: Vec<_> = (0..5).map(|seed| campaign(seed, operations(20_000) / 5, 1)).collect();
    assert!(counts.iter().any(|counts| counts.blocks_freed > 0), "{counts:?}");
}

#[test]
#[ignore = "half a minute"]
fn a_million_operations_find_their_bytes_while_everything_moves() {
    for seed in 100..105 {
        println!("seed {seed}: {:?}", campaign(seed, operations(1_000_000) / 5, 64));
    }
}

/// While threads allocate and free and another one plans and executes moves, no ranges overlap (the simulated device
/// would report it), and the allocator stays valid.
#[test]
fn threads_allocate_and_free_beside_a_defragmentation() {
    let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    let fence = device.create_fence(0);
    // SAFETY: every frame signals the fence.
    let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
    let describe = |size| Create::<Buffers>::describe(&device, &BufferDesc { size, usage: usage() }).expect("plain");
    let first = memory.create_buffer(&describe(64), AllocationDesc::default()).expect("there is room");
    let desc = PoolDesc { memory_type: first.memory_type(), block_bytes: BLOCK_BYTES, ..Default::default() };
    let pool = memory.create_pool(desc).expect("there is such a type");
    let mut ours: Vec<_> = (0..200_u64)
        .map(|number| {
            let desc = AllocationDesc { movable: true, user_data: number, ..Default::default() };
            Some(pool.create_buffer(&describe(4096 + 512 * (number % 16)), desc).expect("there is room"))
        })
        .collect();
    ours.iter_mut().enumerate().filter(|(number, _)| number % 3 != 0).for_each(|(_, buffer)| *buffer = None);
    let (over, working) = (AtomicBool::new(false), RwLock::new(()));
    std::thread::scope(|scope| {
        // The other threads end however this one ends.
        let _end = Ends(&over);
        // In the first round no other thread uses the pool, so its moves do not depend on the timing of the threads.
        let mut alone = Some(working.write().expect("no thread fails"));
        for thread in 0..3 {
            let (pool, over, working, describe) = (&pool, &over, &working, &describe);
            scope.spawn(move || {
                let (mut rng, mut held) = (Rng(thread), Vec::new());
                while !over.load(Ordering::Relaxed) {
                    let _works = working.read().expect("no thread fails");
                    if held.len() < 40 && rng.once_in(2) {
                        let desc = AllocationDesc { movable: rng.once_in(2), ..Default::default() };
                        held.push(pool.create_buffer(&describe(256 << rng.below(7)), desc).expect("there is room"));
                    } else if !held.is_empty() {
                        drop(held.swap_remove(rng.below(held.len())));
                    }
                }
            });
        }
        for _ in 0..40 {
            let mut run = Defrag::of_pool(&pool, DefragDesc { moves_per_pass_max: 16, ..Default::default() });
            for _ in 0..20 {
                let frame = timeline.begin();
                let mut pass = run.begin_pass(&frame).expect("the frame is ours");
                for buffer in ours.iter_mut().flatten() {
                    if pass.has(buffer) {
                        pass.copy_buffer(buffer).expect("the room is there");
                    }
                }
                let mut commands = Vec::new();
                // SAFETY: the commands are submitted as this frame.
                unsafe { pass.record(&mut commands) };
                drop(pass);
                device.submit(0, &[], commands, (fence, frame.value())).expect("the device is not lost");
                timeline.submitted(frame).expect("frames are submitted in order");
                memory.reclaim();
            }
            if alone.is_some() {
                let moved = run.statistics().moved_count;
                assert!(moved > 0, "two of three were dropped, so that some of the rest can move");
            }
            let no_thread_works = alone.take().unwrap_or_else(|| working.write().expect("no thread fails"));
            memory.debug().validate().expect("the allocator is sound");
            drop(no_thread_works);
        }
    });
    assert!(device.run_until_idle());
    drop(ours);
    memory.reclaim();
    memory.debug().validate().expect("the allocator is sound");
    assert_eq!(pool.statistics().range_count, 0);
    let hazards = device.hazards();
    assert!(hazards.is_empty(), "{}", hazards[0]);
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the time to plan one pass, in nanoseconds, and its number of moves. Every other range of the blocks is free.
fn plan_all(blocks: u64) -> (u64, u64) {
    const RANGES: u64 = 16;
    let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    let fence = device.create_fence(0);
    // SAFETY: there are no submissions.
    let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
    let needs = Requirements {
        size: 4096,
        alignment: 4096,
        memory_type_bits: u32::MAX,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    };
    let measured = memory.allocate(needs, AllocationDesc::default()).expect("there is room");
    let desc = PoolDesc { memory_type: measured.memory_type(), block_bytes: RANGES * 4096, ..Default::default() };
    let pool = memory.create_pool(desc).expect("there is such a type");
    let needs = Requirements { memory_type_bits: 1 << measured.memory_type(), ..needs };
    let movable = AllocationDesc { movable: true, ..Default::default() };
    let held: Vec<_> = (0..blocks * RANGES).map(|_| pool.allocate(needs, movable).expect("there is room")).collect();
    let (_kept, gone): (Vec<_>, Vec<_>) = (0..).zip(held).partition(|(number, _)| number % 2 == 0);
    // SAFETY: no submission uses them.
    gone.into_iter().for_each(|(_, one)| unsafe { one.destroy_now() });
    let bounds = DefragDesc { bytes_per_pass_max: u64::MAX, moves_per_pass_max: usize::MAX, ..Default::default() };
    let mut run = Defrag::of_pool(&pool, bounds);
    let frame = timeline.begin();
    drop(run.begin_pass(&frame).expect("the frame is ours"));
    (run.statistics().planning_ns_max, run.statistics().planned_count)
}

/// With four times as many blocks, planning takes about four times as long. It would take 16 times as long if each
/// block were examined for each range, or each move for each block. Both sizes exceed the processor's cache, because
/// the cache has more effect than anything else (0.3 us per move if everything fits, otherwise 3).
#[test]
fn planning_does_not_grow_with_the_square_of_anything() {
    let plan = |blocks: u64| {
        let (ns, moves) = plan_all(blocks);
        assert_eq!(moves, blocks * 4, "half of the blocks are emptied");
        ns
    };
    // Other programs may use the processor during one plan only. So the test compares the minima of up to 16 runs. With
    // quadratic cost, more runs do not help.
    let (mut small, mut large) = (u64::MAX, u64::MAX);
    for _ in 0..16 {
        (small, large) = (small.min(plan(2048)), large.min(plan(8192)));
        println!("2048 blocks: {} us, 8192 blocks: {} us", small / 1000, large / 1000);
        if large < 10 * small {
            return;
        }
    }
    panic!("{small} ns became {large} ns");
}
