//! Transient memory on the simulated device: hazards for aliased targets that are written too early, and random graphs
//! whose passes wait as declared.

use std::ops::Deref;

use proptest::prelude::*;
use ringfence::device::fault::{Call, Rule};
use ringfence::device::{BufferDesc, BufferUsage, DeviceError, TextureDesc, TextureUsage};
use ringfence::sim::{BufferRange, Command, Device, HazardKind, Kernel, Profile, SimOptions};
use ringfence::transient::{Pass, TransientDesc, TransientError};
use ringfence::{AllocationDesc, Buffer, Location, SyncPoint, Timeline, TransientAllocator};
use ringfence_testkit::fixture::{FaultyFixture, Fixture, FixtureDesc};

/// A simulated device, one timeline per queue, and a transient allocator.
struct Frames {
    base: Fixture,
    transient: TransientAllocator<Device>,
    upload: Buffer<Device>,
}

const SIDE: u32 = 64;
const TEXELS: u64 = SIDE as u64 * SIDE as u64 * 4;

impl Deref for Frames {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.base
    }
}

impl Frames {
    fn new() -> Self {
        let options = SimOptions { queues: 3, seed: 5, ..Default::default() };
        let base = Fixture::new(FixtureDesc { options, timelines: 3, ..Default::default() });
        let desc = TransientDesc { heap_bytes: 1 << 20, ..Default::default() };
        let transient = TransientAllocator::new(&base.memory, desc);
        let info = BufferDesc { size: TEXELS, usage: BufferUsage::COPY_SRC };
        let desc = AllocationDesc { location: Location::Upload, ..Default::default() };
        let mut upload = base.memory.create_buffer(&info, desc).expect("there is room");
        upload.write(0, &[7; TEXELS as usize]).expect("mapped");
        Self { base, transient, upload }
    }

    /// The work of a pass: it writes a whole target.
    fn draw(&self, target: ringfence::sim::TextureId) -> Command {
        let layout = ringfence::sim::BufferLayout { offset: 0, row_bytes: u64::from(SIDE) * 4 };
        let region = ringfence::sim::TextureRegion { mip: 0, layer: 0, x: 0, y: 0, width: SIDE, height: SIDE };
        Command::CopyBufferToTexture { src: *self.upload.object(), layout, dst: target, region }
    }

    fn submit(&self, queue: usize, waits: &[(usize, u64)], commands: Vec<Command>) -> u64 {
        let frame = self.timelines[queue].begin();
        let value = frame.value();
        let waits: Vec<_> = waits.iter().map(|(queue, value)| (self.fences[*queue], *value)).collect();
        self.device.submit(queue, &waits, commands, (self.fences[queue], value)).expect("alive");
        self.timelines[queue].submitted(frame).expect("in order");
        value
    }
}

fn target() -> TextureDesc {
    let usage = TextureUsage::RENDER_TARGET | TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    TextureDesc { width: SIDE, height: SIDE, usage, ..Default::default() }
}

/// A renderer that owns its transient allocator can call its own methods while it records.
#[test]
fn an_execution_is_suspended_while_its_owner_records() {
    let mut world = Frames::new();
    let queue = world.timelines[0].id();
    let mut execution = world.transient.begin();
    let pass = execution.pass(queue, &[]).expect("a queue");
    let first = execution.acquire_texture(&target(), pass, "first").expect("room");
    let suspended = execution.suspend();
    // `world` is not borrowed by an execution here.
    let texture = *world.transient.texture(first).expect("its execution is open");
    let value = world.submit(0, &[], vec![world.draw(texture)]);
    let mut execution = world.transient.resume(suspended).expect("it was suspended");
    execution.discard(first, &[pass]).expect("in use");
    let later = execution.pass(queue, &[]).expect("a queue");
    let second = execution.acquire_texture(&target(), later, "second").expect("room");
    assert_eq!(execution.place(first).expect("now"), execution.place(second).expect("now"), "it continues");
    assert_eq!(execution.finish(&[SyncPoint::new(queue, value)]), 1, "the second was not discarded");
    // An execution that is not resumed ends when the next one begins.
    let lost = world.transient.begin().suspend();
    let open = world.transient.begin().suspend();
    let refused = world.transient.resume(lost).map(drop);
    assert!(matches!(refused, Err(TransientError::NotSuspended { .. })), "{refused:?}");
    let mut other = TransientAllocator::new(&world.memory, TransientDesc::default());
    let foreign = other.begin().suspend();
    let refused = world.transient.resume(foreign).map(drop);
    assert!(matches!(refused, Err(TransientError::NotSuspended { .. })), "{refused:?}");
    world.transient.resume(open).expect("it is the latest").finish(&[]);
    world.transient.validate().expect("sound");
    let Frames { base, transient, upload } = world;
    drop((transient, upload, other));
    base.device.run_until_idle();
    base.finish();
}

/// An error other than a shortage is returned immediately: no other memory type is tried.
#[test]
fn an_error_that_is_no_shortage_is_not_tried_again_elsewhere() {
    let base = FaultyFixture::faulty(FixtureDesc { profile: Profile::lavapipe(), ..Default::default() });
    for (error, is_served) in [(DeviceError::Other(7), false), (DeviceError::OutOfDeviceMemory, true)] {
        let mut transient = TransientAllocator::new(&base.memory, TransientDesc::default());
        base.faults.add(Rule { call: Some(Call::AllocateMemory), count: 1, ..Rule::new(error) });
        let before = base.faults.failed(Call::AllocateMemory);
        let mut execution = transient.begin();
        let pass = execution.pass(base.timeline().id(), &[]).expect("a queue");
        let made = execution.acquire_texture(&target(), pass, "target");
        assert_eq!(base.faults.failed(Call::AllocateMemory) - before, 1);
        assert_eq!(made.is_ok(), is_served, "{error:?}: {:?}", made.err());
    }
    base.finish();
}

/// A dropped execution ends immediately: the resources that it acquired are free for the queue's next passes.
#[test]
fn a_dropped_execution_is_over() {
    let mut world = Frames::new();
    let queue = world.timelines[0].id();
    let mut dropped = world.transient.begin();
    let pass = dropped.pass(queue, &[]).expect("a queue");
    let first = dropped.acquire_texture(&target(), pass, "first").expect("room");
    let second = dropped.acquire_texture(&target(), pass, "second").expect("room");
    dropped.discard(second, &[pass]).expect("in use");
    drop(dropped);
    assert_eq!(world.transient.figures().left_in_use, 1, "the second was discarded");
    world.transient.validate().expect("sound");
    let mut execution = world.transient.begin();
    assert!(matches!(execution.texture(first), Err(TransientError::Stale { .. })));
    let pass = execution.pass(queue, &[]).expect("a queue");
    let again = execution.acquire_texture(&target(), pass, "again").expect("room");
    assert!(execution.place(again).expect("now").1.start <= TEXELS, "where one of the two was");
    execution.discard(again, &[pass]).expect("in use");
    assert_eq!(execution.finish(&[]), 0);
    let Frames { base, transient, upload } = world;
    drop((transient, upload));
    base.finish();
}

/// Views that a renderer caches by the id of an object must not show the object that gets its number later.
#[test]
fn the_id_of_a_released_object_is_never_used_again() {
    let mut world = Frames::new();
    let queue = world.timelines[0].id();
    let mut ids = Vec::new();
    for round in 0..4 {
        let mut execution = world.transient.begin();
        let pass = execution.pass(queue, &[]).expect("a queue");
        let target = execution.acquire_texture(&target(), pass, "target").expect("room");
        let id = target.id();
        assert_eq!(execution.barriers().last().map(|barrier| barrier.after), Some(id), "round {round}");
        execution.discard(target, &[pass]).expect("in use");
        execution.finish(&[]);
        assert!(world.transient.raw(id).is_ok(), "round {round}");
        world.transient.trim();
        world.memory.reclaim();
        ids.push(id);
        for id in &ids {
            assert!(matches!(world.transient.raw(*id), Err(TransientError::Stale { .. })), "round {round}: {id:?}");
        }
        assert!(ids[..round].iter().all(|other| *other != id), "round {round}: {ids:?}");
    }
    let Frames { base, transient, upload } = world;
    drop((transient, upload));
    base.finish();
}

/// Two targets share bytes because the pass of one waits for the pass of the other. The caller must make it wait.
#[test]
fn aliased_targets_written_too_early_by_another_queue_are_caught() {
    for does_wait in [true, false] {
        let mut world = Frames::new();
        let info = target();
        let wide = TextureDesc { width: SIDE / 2, height: SIDE * 2, ..target() };
        let (graphics, compute) = (world.timelines[0].id(), world.timelines[1].id());
        let mut execution = world.transient.begin();
        let one = execution.pass(graphics, &[]).expect("a queue");
        let two = execution.pass(compute, &[one]).expect("a queue");
        let handle = execution.acquire_texture(&info, one, "first").expect("room");
        let first = *execution.texture(handle).expect("in use");
        execution.discard(handle, &[]).expect("in use");
        let second = execution.acquire_texture(&wide, two, "second").expect("room");
        assert_eq!(execution.place(handle).expect("now"), execution.place(second).expect("now"));
        let second = *execution.texture(second).expect("in use");
        execution.finish(&[]);
        let value = world.submit(0, &[], vec![world.draw(first)]);
        let waits = [(0, value)];
        let layout = ringfence::sim::BufferLayout { offset: 0, row_bytes: u64::from(SIDE) * 2 };
        let region = ringfence::sim::TextureRegion { mip: 0, layer: 0, x: 0, y: 0, width: SIDE / 2, height: SIDE * 2 };
        let draw = Command::CopyBufferToTexture { src: *world.upload.object(), layout, dst: second, region };
        world.submit(1, if does_wait { &waits } else { &[] }, vec![draw]);
        let hazards = world.device.take_hazards();
        if does_wait {
            assert!(hazards.is_empty(), "{hazards:?}");
        } else {
            let [hazard] = hazards.as_slice() else { panic!("one hazard, not {hazards:?}") };
            assert_eq!(hazard.kind, HazardKind::QueueConflict);
            assert_eq!(hazard.queue, Some(1));
            assert_eq!(hazard.pending.map(|pending| (pending.queue, pending.value)), Some((0, value)));
            assert!(hazard.to_string().contains("two queues that no fence orders"), "{hazard}");
        }
    }
}

/// A pass of a random graph: its queue, the earlier passes that it may wait for, the size of its buffer, and the
/// buffer's last pass.
type RandomPass = (usize, Vec<prop::sample::Index>, u64, prop::sample::Index);

fn passes() -> impl Strategy<Value = Vec<RandomPass>> {
    let waits = prop::collection::vec(any::<prop::sample::Index>(), 0..3);
    prop::collection::vec((0..3_usize, waits, 0..5_u64, any::<prop::sample::Index>()), 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No two queues access the same bytes out of order, and sharing saves memory. Buffers of random sizes are used on
    /// three queues, with several frames in flight.
    #[test]
    fn random_graphs_whose_passes_wait_as_they_say_have_no_hazard(graph in passes()) {
        let mut world = Frames::new();
        for _ in 0..3 {
            run_frame(&mut world, &graph)?;
        }
        prop_assert_eq!(world.device.take_hazards(), vec![]);
        prop_assert!(world.device.run_until_idle());
        let figures = world.transient.figures();
        prop_assert!(figures.peak_bytes <= figures.requested_bytes.next_multiple_of(1 << 20) * 3);
    }
}

fn run_frame(world: &mut Frames, graph: &[RandomPass]) -> Result<(), TestCaseError> {
    let timelines: Vec<_> = world.timelines.iter().map(Timeline::id).collect();
    let mut transient =
        std::mem::replace(&mut world.transient, TransientAllocator::new(&world.base.memory, TransientDesc::default()));
    let mut execution = transient.begin();
    let (mut made, mut values) = (Vec::<Pass>::new(), Vec::new());
    // For each buffer: its handle, its object, and the passes that write it; the first of them acquires it.
    let mut live = Vec::new();
    for (number, (queue, waits, size, _)) in graph.iter().enumerate() {
        let waits: Vec<usize> = waits
            .iter()
            .filter(|_| number > 0)
            .map(|index| index.index(number))
            .filter(|at| graph[*at].0 != *queue)
            .collect();
        let needed: Vec<_> = waits.iter().map(|at| made[*at]).collect();
        let pass = execution.pass(timelines[*queue], &needed).expect("three queues");
        made.push(pass);
        let info = BufferDesc { size: 1024 << size, usage: BufferUsage::STORAGE | BufferUsage::COPY_DST };
        let buffer = execution.acquire_buffer(&info, pass, "").expect("room");
        let object = *execution.buffer(buffer).expect("now");
        let write = |object, size| {
            Command::Kernel(Kernel::new(vec![], vec![BufferRange::new(object, 0, size)], |memory| {
                memory.writes[0].fill(1);
            }))
        };
        let mut commands = vec![write(object, 1024 << size)];
        // Every third buffer is also written by the next pass of its queue, the others only by this pass.
        if number % 3 == 0 {
            live.push((buffer, object, *queue, 1024 << size));
        } else {
            execution.discard(buffer, &[]).expect("in use");
        }
        live.retain(|(buffer, object, home, size)| {
            let stays = home != queue || *object == commands_first(&commands) || number % 3 == 0;
            if !stays {
                commands.push(write(*object, *size));
                execution.discard(*buffer, &[pass]).expect("in use");
            }
            stays
        });
        let waits: Vec<_> = waits.iter().map(|at| (graph[*at].0, values[*at])).collect();
        values.push(world.submit(*queue, &waits, commands));
        execution.validate().expect("sound");
    }
    let ends: Vec<_> = world.timelines.iter().map(|timeline| timeline.submitted_value()).collect();
    let ends: Vec<_> =
        timelines.iter().zip(ends).map(|(timeline, value)| ringfence::SyncPoint::new(*timeline, value)).collect();
    execution.finish(&ends);
    transient.end_frame();
    transient.validate().expect("sound");
    world.transient = transient;
    Ok(())
}

/// Returns the buffer that the pass acquired.
fn commands_first(commands: &[Command]) -> ringfence::sim::BufferId {
    match &commands[0] {
        Command::Kernel(kernel) => kernel.writes[0].buffer,
        _ => unreachable!("the first command writes the pass's own buffer"),
    }
}

#[test]
fn a_transient_allocator_goes_from_thread_to_thread() {
    fn is_send<T: Send>() {}
    is_send::<TransientAllocator<Device>>();
}
