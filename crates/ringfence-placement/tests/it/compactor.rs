//! Tests of compaction that is left on.

use std::collections::HashMap;
use std::time::Duration;

use ringfence::defrag::{BeginPassError, DefragDesc};
use ringfence::device::{BufferDesc, BufferUsage};

use ringfence::placement::{Compactor, CompactorDesc, CompactorStep};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Timeline, sim};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SIZE: u64 = 96 * KIB;

/// Movable buffers of [`SIZE`] bytes, each filled with its own byte.
struct World {
    gpu: sim::Device,
    fence: sim::Fence,
    memory: Allocator<sim::Device>,
    timeline: Timeline<sim::Device>,
    buffers: HashMap<u64, Buffer<sim::Device>>,
    compactor: Compactor<sim::Device>,
}

fn desc() -> CompactorDesc {
    CompactorDesc { waste_bytes_min: MIB, rest_steps: 5, time_max: Duration::MAX, ..Default::default() }
}

impl World {
    fn new(count: u64, desc: CompactorDesc) -> Self {
        let gpu = sim::Device::new(sim::Profile::h200(), Default::default());
        let allocator = AllocatorDesc { device_block_bytes_max: 4 * MIB, empty_block_grace: 1, ..Default::default() };
        let memory = Allocator::over(gpu.clone(), allocator);
        let fence = gpu.create_fence(0);
        // SAFETY: each submission below signals it.
        let timeline = unsafe { memory.timeline(fence) }.unwrap();
        let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        let info = BufferDesc { size: SIZE, usage };
        let make = |number| {
            let desc = AllocationDesc { movable: true, user_data: number, ..Default::default() };
            (number, memory.create_buffer(&info, desc).unwrap())
        };
        let buffers = (0..count).map(make).collect();
        let compactor = Compactor::new(&memory, desc);
        let mut world = Self { gpu, fence, memory, timeline, buffers, compactor };
        let fills: Vec<_> = world.buffers.iter().map(|(number, buffer)| fill(buffer, *number as u8)).collect();
        world.submit(fills);
        world
    }

    fn submit(&mut self, commands: Vec<sim::Command>) {
        let frame = self.timeline.begin();
        self.gpu.submit(0, &[], commands, (self.fence, frame.value())).unwrap();
        self.timeline.submitted(frame).unwrap();
        self.finish();
    }

    fn finish(&mut self) {
        self.gpu.run_until_idle();
        self.memory.reclaim();
    }

    fn step(&mut self) -> CompactorStep {
        let frame = self.timeline.begin();
        let mut recorder = Vec::new();
        let Self { compactor, buffers, .. } = self;
        // SAFETY: the list is submitted as `frame`, and uses nothing else.
        let step = unsafe {
            compactor.step(&frame, &mut recorder, |pass, index| {
                let number = pass.moves()[index].user_data;
                pass.copy_buffer(buffers.get_mut(&number).unwrap()).map(drop)
            })
        };
        self.gpu.submit(0, &[], recorder, (self.fence, frame.value())).unwrap();
        self.timeline.submitted(frame).unwrap();
        self.finish();
        step.unwrap()
    }

    fn block_count(&self) -> u64 {
        self.memory.statistics().total().block_count
    }

    /// Drops three of four buffers.
    fn fragment(&mut self) {
        self.buffers.retain(|number, _| number % 4 == 0);
        self.finish();
    }

    /// Checks the bytes of every buffer, and that no hazard was found.
    fn check(&mut self) {
        for (number, buffer) in &self.buffers {
            let bytes = self.gpu.peek(sim::BufferRange::new(*buffer.object(), 0, SIZE)).unwrap();
            assert!(bytes.iter().all(|byte| *byte == *number as u8), "buffer {number}");
        }
        assert!(self.gpu.take_hazards().is_empty());
        assert_eq!(self.memory.debug().validate(), Ok(()));
    }
}

fn fill(buffer: &Buffer<sim::Device>, byte: u8) -> sim::Command {
    sim::Command::FillBuffer { dst: *buffer.object(), offset: 0, size: SIZE, value: byte }
}

#[test]
fn blocks_that_waste_memory_are_emptied_and_no_byte_is_lost() {
    let mut world = World::new(400, desc());
    world.fragment();
    let before = world.block_count();
    let mut steps = 0;
    while world.step() != CompactorStep::default() || world.compactor.is_moving() {
        steps += 1;
        assert!(steps < 200, "the run ends");
    }
    world.check();
    let statistics = world.compactor.statistics();
    assert_eq!(statistics.freed_block_count, before - world.block_count());
    // 100 buffers of 96 KiB need three blocks of 4 MiB.
    assert!(world.block_count() <= 4, "{before} blocks before, {} after", world.block_count());
    assert!(statistics.moved_count > 0 && statistics.ignored_count == 0);
}

#[test]
fn nothing_moves_while_little_is_wasted() {
    let mut world = World::new(400, desc());
    for _ in 0..100 {
        assert_eq!(world.step(), CompactorStep::default());
    }
    // A tenth of the bytes is below the limit, although it is more than the minimum of 1 MiB.
    world.buffers.retain(|number, _| number % 10 != 0);
    world.finish();
    assert_eq!(world.step(), CompactorStep::default());
    // The share is above the limit, but not the bytes.
    let desc = CompactorDesc { waste_bytes_min: 100 * MIB, ..desc() };
    let mut world = World::new(400, desc);
    world.fragment();
    assert_eq!(world.step(), CompactorStep::default());
    assert_eq!(world.compactor.statistics().planned_count, 0);
}

#[test]
fn a_step_ends_when_its_time_is_over_but_makes_one_move() {
    let mut world = World::new(400, CompactorDesc { time_max: Duration::ZERO, ..desc() });
    world.fragment();
    let step = world.step();
    assert_eq!(step.moved_count, 1);
    assert_eq!(step.moved_bytes, SIZE);
    assert!(step.left_count > 0);
    // Later frames continue with the same block: 100 buffers are left, and each step moves one of them.
    let before = world.block_count();
    (0..100).for_each(|_| _ = world.step());
    assert!(world.block_count() <= 5, "{before} blocks before, {} after", world.block_count());
    assert!(world.compactor.statistics().moved_count <= 101);
    world.check();
}

#[test]
fn a_step_keeps_to_its_bytes() {
    let defrag = DefragDesc { bytes_per_pass_max: 3 * SIZE, compacts: false, ..Default::default() };
    let mut world = World::new(400, CompactorDesc { defrag, ..desc() });
    world.fragment();
    assert_eq!(world.step().moved_count, 3);
}

#[test]
fn after_a_run_the_compactor_rests_and_longer_if_it_freed_nothing() {
    let mut world = World::new(400, desc());
    world.fragment();
    // The program moves nothing, so runs free nothing.
    let mut begun = Vec::new();
    let mut was_moving = false;
    for at in 0..600_u32 {
        let frame = world.timeline.begin();
        let mut recorder = Vec::<sim::Command>::new();
        // SAFETY: the list is empty.
        let step = unsafe { world.compactor.step(&frame, &mut recorder, |_, _| Ok(())) }.unwrap();
        assert_eq!((step.moved_count, recorder.len()), (0, 0));
        world.gpu.submit(0, &[], recorder, (world.fence, frame.value())).unwrap();
        world.timeline.submitted(frame).unwrap();
        world.finish();
        if step.left_count > 0 && !was_moving {
            begun.push(at);
        }
        was_moving = world.compactor.is_moving();
    }
    let gaps: Vec<_> = begun.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() >= 5, "{gaps:?}");
    let run = gaps[0] - 10;
    assert_eq!(gaps[..4].iter().map(|gap| gap - run).collect::<Vec<_>>(), [10, 20, 40, 80]);
    assert!(gaps[4..].iter().all(|gap| *gap == 80 + run), "{gaps:?}");
    world.check();
}

#[test]
fn moves_before_a_panic_are_recorded() {
    let mut world = World::new(400, desc());
    world.fragment();
    let frame = world.timeline.begin();
    let mut recorder = Vec::<sim::Command>::new();
    let World { compactor, buffers, .. } = &mut world;
    let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: the list is submitted as `frame`.
        unsafe {
            compactor.step(&frame, &mut recorder, |pass, index| {
                assert!(index < 3, "the fourth move panics");
                let number = pass.moves()[index].user_data;
                pass.copy_buffer(buffers.get_mut(&number).unwrap()).map(drop)
            })
        }
    }));
    assert!(step.is_err());
    world.gpu.submit(0, &[], recorder, (world.fence, frame.value())).unwrap();
    world.timeline.submitted(frame).unwrap();
    world.finish();
    world.check();
    // The next step begins anew.
    assert!(world.step().moved_count > 0);
    world.check();
}

#[test]
fn errors_of_the_program_and_foreign_frames_are_reported() {
    let mut world = World::new(400, desc());
    world.fragment();
    let other = World::new(1, desc());
    let foreign = other.timeline.begin();
    // SAFETY: nothing is recorded.
    let refused = unsafe { world.compactor.step(&foreign, &mut Vec::<sim::Command>::new(), |_, _| Ok(())) };
    assert_eq!(refused, Err(BeginPassError::ForeignFrame));
    assert!(!world.compactor.is_moving(), "a refused call begins no run");
    let frame = world.timeline.begin();
    let mut wrong = world.memory.create_buffer(
        &BufferDesc { size: SIZE, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST },
        AllocationDesc::default(),
    );
    let wrong = wrong.as_mut().unwrap();
    let mut recorder = Vec::<sim::Command>::new();
    // SAFETY: nothing is recorded.
    let step = unsafe { world.compactor.step(&frame, &mut recorder, |pass, _| pass.copy_buffer(wrong).map(drop)) };
    assert!(step.unwrap().failed.is_some() && recorder.is_empty());
    frame.discard();
    foreign.discard();
    world.check();
}
