//! Two of each: shapes of frames, heaps, queues, memory types, allocators and devices' limits; and the barriers after a
//! release.

use ringfence::debugging::DebugDesc;
use ringfence::device::fault::{Call, Rule};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, DeviceError, TextureDesc, TextureUsage};
use ringfence::memory::Error;
use ringfence::sim::{Device, Profile};
use ringfence::trace::{Event, Reader};
use ringfence::transient::{Described, Execution, FramePass, FrameResource, Pass, TransientDesc, TransientError};
use ringfence::{AllocatorDesc, TransientAllocator};
use ringfence_testkit::fixture::{FaultyFixture, Fixture, FixtureDesc, Recording};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn desc() -> TransientDesc<'static> {
    TransientDesc { heap_bytes: MIB, objects_kept: 1, latency_frames: 2, heap_idle_frames: 3, ..Default::default() }
}

fn on(profile: Profile) -> (Fixture, TransientAllocator<Device>) {
    let world = Fixture::new(FixtureDesc { profile, timelines: 2, ..Default::default() });
    let transient = TransientAllocator::new(&world.memory, desc());
    (world, transient)
}

fn buffer(size: u64) -> BufferDesc {
    BufferDesc { size, usage: BufferUsage::STORAGE }
}

fn texture(width: u32, samples: u32) -> TextureDesc {
    let usage = TextureUsage::RENDER_TARGET | TextureUsage::SAMPLED;
    TextureDesc { width, height: 64, samples, usage, ..Default::default() }
}

/// Drops the allocator of the resources, and checks that nothing is leaked.
fn finish(world: Fixture, transient: TransientAllocator<Device>) {
    drop(transient);
    assert!(world.device.run_until_idle());
    world.memory.reclaim();
    world.finish();
}

/// A buffer with its usage, its first and its last pass.
type Life = (u64, BufferUsage, usize, &'static [usize]);

fn plan<'t>(
    transient: &'t mut TransientAllocator<Device>,
    passes: &[FramePass<'_>],
    lives: &[Life],
) -> Result<Execution<'t, Device>, TransientError> {
    let infos: Vec<_> = lives.iter().map(|(size, usage, ..)| BufferDesc { size: *size, usage: *usage }).collect();
    let resource = |(&(_, _, first, last), info): (&Life, _)| FrameResource {
        info: Described::Buffer(info),
        first,
        last,
        name: "",
    };
    let resources: Vec<_> = lives.iter().zip(&infos).map(resource).collect();
    transient.plan(passes, &resources, |_| true)
}

/// Two frames have one plan only if all of this is equal: the passes with their queues and waits, and the resources with
/// their descriptions and passes.
#[test]
fn each_difference_of_two_frames_makes_another_plan() {
    let (world, mut transient) = on(Profile::h200());
    let [one, two] = [0, 1].map(|nth| FramePass::on(world.timelines[nth].id()));
    let waits = FramePass { waits: &[0], ..two };
    let (storage, vertex) = (BufferUsage::STORAGE, BufferUsage::VERTEX);
    let small: Life = (64 * KIB, storage, 0, &[]);
    let frames: [(&str, Vec<FramePass<'_>>, Vec<Life>); 10] = [
        ("the first", vec![one, one, one], vec![small, small]),
        ("fewer passes", vec![one, one], vec![small, small]),
        ("another queue", vec![two, two, two], vec![small, small]),
        ("two queues", vec![one, two, one], vec![small, small]),
        ("a wait", vec![one, waits, one], vec![small, small]),
        ("fewer resources", vec![one, one, one], vec![small]),
        ("another size", vec![one, one, one], vec![small, (128 * KIB, storage, 0, &[])]),
        ("another usage", vec![one, one, one], vec![small, (64 * KIB, vertex, 0, &[])]),
        ("a later first pass", vec![one, one, one], vec![small, (64 * KIB, storage, 1, &[])]),
        ("a later last pass", vec![one, one, one], vec![small, (64 * KIB, storage, 0, &[1])]),
    ];
    for is_reused in [false, true, true] {
        for (name, passes, lives) in &frames {
            let execution = plan(&mut transient, passes, lives).expect("room");
            assert_eq!(execution.figures().is_reused, is_reused, "{name}");
            execution.finish(&[]);
        }
    }
    finish(world, transient);
}

/// A new shape keeps the offsets of the previous frame, so the objects that exist are found again.
#[test]
fn a_new_shape_keeps_the_objects_of_the_previous_frame() {
    let (world, mut transient) = on(Profile::h200());
    let passes = [FramePass::on(world.timeline().id()); 2];
    let life = |size: u64| -> Life { (size * KIB, BufferUsage::STORAGE, 0, &[1]) };
    plan(&mut transient, &passes, &[life(128)]).expect("room").finish(&[]);
    // Planned anew, the largest buffer would come first.
    let execution = plan(&mut transient, &passes, &[life(128), life(512)]).expect("room");
    let figures = execution.figures();
    assert_eq!((figures.is_reused, figures.planned_bytes), (false, 640 * KIB));
    let offset =
        |number| execution.place::<Buffers>(execution.planned(number).expect("a buffer")).expect("of now").1.start;
    assert_eq!([offset(0), offset(1)], [0, 128 * KIB]);
    execution.finish(&[]);
    finish(world, transient);
}

/// Frames of compute that do not wait for one another overlap, so each of two has a heap. A frame takes the heap that its
/// plan has laid out before, with the objects in it, and its resources are in that heap.
#[test]
fn frames_that_overlap_have_heaps_of_their_own_and_find_them_again() {
    let (world, mut transient) = on(Profile::h200());
    let [graphics, compute] = [0, 1].map(|nth| FramePass::on(world.timelines[nth].id()));
    let life = |size: u64| -> Life { (size * KIB, BufferUsage::STORAGE, 0, &[]) };
    let mut values = [0; 2];
    // By frame: the queue, the size, and if the device completes all work first. Expected are the heap and the objects
    // that were created so far.
    let frames = [
        (0, 512, false, (0, 1)),
        (1, 512, true, (0, 1)),
        // Compute still works in the first heap, whose object is not the one of the second heap.
        (0, 512, false, (1, 2)),
        // Both plans find their heaps again.
        (1, 512, true, (0, 2)),
        (0, 512, true, (1, 2)),
        (0, 512, true, (1, 2)),
        (1, 512, true, (0, 2)),
        // Another shape fits into the first heap that is free.
        (0, 256, true, (0, 3)),
        (0, 512, true, (1, 3)),
    ];
    for (nth, (queue, size, is_complete, expected)) in frames.into_iter().enumerate() {
        if is_complete {
            assert!(world.device.run_until_idle());
            world.memory.reclaim();
        }
        let frame = world.timelines[queue].begin();
        let execution = plan(&mut transient, &[[graphics, compute][queue]], &[life(size)]).expect("room");
        let place = execution.place::<Buffers>(execution.planned(0).expect("a buffer")).expect("of now");
        assert_eq!(place.1, 0..size * KIB, "frame {nth}");
        let figures = execution.figures();
        assert_eq!((place.0.expect("a heap"), figures.misses), expected, "frame {nth}");
        assert_eq!(figures.hits + figures.misses, nth as u64 + 1, "frame {nth}");
        execution.finish(&[frame.point()]);
        values[queue] = frame.value();
        world.device.submit(queue, &[], vec![], (world.fences[queue], values[queue])).expect("not lost");
        world.timelines[queue].submitted(frame).expect("in order");
    }
    finish(world, transient);
}

/// Empty heaps in the cache serve planned and other executions. After that they belong to the executions of that kind.
#[test]
fn a_cached_heap_serves_executions_of_either_kind() {
    for is_planned_first in [true, false] {
        let world = Fixture::new(FixtureDesc::default());
        let desc = TransientDesc { objects_kept: 0, latency_frames: 0, heap_idle_frames: 100, ..desc() };
        let mut transient = TransientAllocator::new(&world.memory, desc);
        let queue = world.timeline().id();
        let run = |transient: &mut TransientAllocator<Device>, is_planned: bool| {
            if is_planned {
                plan(transient, &[FramePass::on(queue)], &[(MIB, BufferUsage::STORAGE, 0, &[])])
                    .expect("room")
                    .finish(&[]);
            } else {
                let mut execution = transient.begin();
                let pass = execution.pass(queue, &[]).expect("a queue");
                execution.acquire_buffer(&buffer(MIB), pass, "").expect("room");
                execution.finish(&[]);
            }
            transient.end_frame();
            transient.figures()
        };
        let first = run(&mut transient, is_planned_first);
        assert_eq!((first.heap_count, first.misses), (1, 1));
        // Nothing is kept, so the heap becomes empty.
        transient.begin().finish(&[]);
        transient.end_frame();
        assert_eq!((transient.figures().heap_count, transient.figures().idle_heap_count), (0, 1));
        for round in 0..3 {
            let found = run(&mut transient, !is_planned_first);
            assert_eq!((found.heap_count, found.idle_heap_count), (1, 0), "{is_planned_first}");
            assert_eq!((found.hits, found.misses), (round, 2), "{is_planned_first}");
        }
        // The other kind does not share it: it is empty after this.
        let found = run(&mut transient, is_planned_first);
        assert_eq!((found.heap_count, found.idle_heap_count, found.misses), (1, 1, 3), "{is_planned_first}");
        finish(world, transient);
    }
}

/// Unused objects count for each heap and kind; those of this execution do not. Their age is counted from their last use,
/// and the object that was used first goes first.
#[test]
fn only_unused_objects_count_and_the_oldest_goes_first() {
    let (world, mut transient) = on(Profile::h200());
    let queue = world.timeline().id();
    let frame = |transient: &mut TransientAllocator<Device>, sizes: &[u64]| {
        let mut execution = transient.begin();
        let pass = execution.pass(queue, &[]).expect("a queue");
        for size in sizes {
            execution.acquire_buffer(&buffer(size * KIB), pass, "").expect("room");
        }
        execution.finish(&[]);
        transient.end_frame();
        (transient.figures().object_count, transient.figures().released)
    };
    for _ in 0..5 {
        assert_eq!(frame(&mut transient, &[]), (0, 0), "the age does not count from the start");
    }
    assert_eq!(frame(&mut transient, &[64, 128]), (2, 0));
    assert_eq!([(); 2].map(|()| frame(&mut transient, &[])), [(2, 0); 2], "two frames old at most");
    for _ in 0..6 {
        assert_eq!(frame(&mut transient, &[64]), (2, 0), "one unused object is kept");
    }
    // The second object was used last before the first.
    assert_eq!([(); 2].map(|()| frame(&mut transient, &[])), [(1, 1); 2], "the second is old");
    assert_eq!(frame(&mut transient, &[64]), (1, 1));
    assert_eq!(transient.figures().misses, 2, "the first was kept");
    finish(world, transient);
}

/// Debugging knows a resource with dedicated memory by its name, and the heaps by that of the allocator.
#[test]
fn live_memory_has_the_names_of_the_program() {
    let profile = Profile { dedicated_required_bytes: MIB, ..Profile::h200() };
    let debug = DebugDesc { leaks: true, ..Default::default() };
    let allocator = AllocatorDesc { debug, ..Default::default() };
    let world = Fixture::new(FixtureDesc { profile, allocator, ..Default::default() });
    let mut transient = TransientAllocator::new(&world.memory, TransientDesc { name: "frame", ..desc() });
    let mut execution = transient.begin();
    let pass = execution.pass(world.timeline().id(), &[]).expect("a queue");
    execution.acquire_buffer(&buffer(64 * KIB), pass, "small").expect("room");
    execution.acquire_texture(&texture(8192, 1), pass, "large").expect("room");
    let mut names: Vec<_> = world.memory.debug().live().iter().map(|live| live.name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["frame", "large"]);
    execution.finish(&[]);
    finish(world, transient);
}

/// Heaps that were idle for too long are freed.
#[test]
fn a_released_heap_is_freed() {
    let (world, _) = on(Profile::h200());
    let desc = TransientDesc { objects_kept: 0, latency_frames: 0, heap_bytes: 64 * MIB, ..desc() };
    let mut transient = TransientAllocator::new(&world.memory, desc);
    let mut execution = transient.begin();
    let pass = execution.pass(world.timeline().id(), &[]).expect("a queue");
    execution.acquire_buffer(&buffer(64 * KIB), pass, "").expect("room");
    execution.finish(&[]);
    let held = || world.memory.statistics().total().used_bytes();
    assert!(held() >= 64 * MIB);
    for _ in 0..6 {
        transient.end_frame();
        transient.begin().finish(&[]);
        world.memory.reclaim();
    }
    assert_eq!((held(), transient.figures().idle_heap_count), (0, 0));
    finish(world, transient);
}

/// A buffer is used again after a texture that had its bytes was released: its barrier names no object, because the
/// texture does not exist any more. Objects beside it, and those of another heap, need no such barrier.
#[test]
fn bytes_of_a_released_object_need_a_barrier_without_a_name() {
    for is_complete in [true, false] {
        let (world, mut transient) = on(Profile::d3d12_modern());
        let queue = world.timeline().id();
        let acquire = |execution: &mut Execution<'_, Device>, size, pass| {
            execution.acquire_buffer(&buffer(size * KIB), pass, "").expect("room")
        };
        let target = |execution: &mut Execution<'_, Device>, width, pass| {
            execution.acquire_texture(&texture(width, 1), pass, "").expect("room")
        };
        let end = |execution: Execution<'_, Device>| {
            let frame = world.timeline().begin();
            execution.finish(if is_complete { vec![frame.point()] } else { vec![] }.as_slice());
            world.submit_frame(frame, vec![]);
            assert!(world.device.run_until_idle());
            world.memory.reclaim();
        };
        // Buffers of 64, 128 and 192 KiB, and one in another heap. Then two textures: one over the second buffer, and one
        // behind all.
        let mut execution = transient.begin();
        let passes = [(); 2].map(|()| execution.pass(queue, &[]).expect("a queue"));
        let held = [64, 128, 192, 900].map(|size| acquire(&mut execution, size, passes[0]));
        let places = held.map(|handle| execution.place(handle).expect("now"));
        assert_eq!(places[1], (Some(0), 64 * KIB..192 * KIB));
        assert_eq!(places[3].0, Some(1));
        execution.discard(held[1], &[]).expect("in use");
        let over = target(&mut execution, 512, passes[1]);
        assert_eq!(execution.place(over), Ok((Some(0), 64 * KIB..192 * KIB)));
        end(execution);
        transient.end_frame();
        // The textures are not used for some frames, and the second one more recently.
        for round in 0..5 {
            let mut execution = transient.begin();
            let pass = execution.pass(queue, &[]).expect("a queue");
            let beside = [64, 192, 900].map(|size| acquire(&mut execution, size, pass).id());
            if round == 0 {
                target(&mut execution, 1024, pass);
            }
            let mut barriers = execution.barriers().iter();
            assert!(!barriers.any(|barrier| barrier.aliases && beside.contains(&barrier.after)), "round {round}");
            end(execution);
            transient.end_frame();
        }
        assert_eq!(transient.figures().released, 1, "the texture that was used first");
        let mut execution = transient.begin();
        let pass = execution.pass(queue, &[]).expect("a queue");
        let again = [64, 128, 192, 900].map(|size| acquire(&mut execution, size, pass));
        assert_eq!(again.map(|handle| execution.place(handle).expect("now")), places);
        let aliases: Vec<_> = again
            .iter()
            .map(|handle| {
                let barriers = execution.barriers().iter().filter(|barrier| barrier.after == handle.id());
                barriers.filter(|barrier| barrier.aliases).map(|barrier| barrier.before).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(aliases, [vec![], vec![None], vec![], vec![]], "{is_complete}");
        end(execution);
        transient.validate().expect("sound");
        finish(world, transient);
    }
}

/// Ids and handles belong to one allocator, one execution and one object, although their numbers are equal elsewhere.
#[test]
fn ids_and_handles_of_others_with_equal_numbers_are_stale() {
    let (world, mut one) = on(Profile::h200());
    let mut two = TransientAllocator::new(&world.memory, desc());
    let queue = world.timeline().id();
    let acquire = |execution: &mut Execution<'_, Device>| {
        let pass: Pass = execution.pass(queue, &[]).expect("a queue");
        execution.acquire_buffer(&buffer(64 * KIB), pass, "").expect("room")
    };
    let (mut first, mut second) = (one.begin(), two.begin());
    let handles = [acquire(&mut first), acquire(&mut second)];
    let stale = handles.map(|handle| Err(TransientError::Stale { id: handle.id() }));
    assert_eq!((first.discard(handles[1], &[]), second.discard(handles[0], &[])), (stale[1], stale[0]));
    assert!(first.raw(handles[1].id()).is_err() && second.raw(handles[0].id()).is_err());
    assert!(first.raw(handles[0].id()).is_ok() && second.raw(handles[1].id()).is_ok());
    assert_eq!((first.discard(handles[0], &[]), second.discard(handles[1], &[])), (Ok(()), Ok(())));
    assert_eq!(first.discard(handles[0], &[]), stale[0], "twice");
    first.finish(&[]);
    second.finish(&[]);
    let mut later = one.begin();
    let again = acquire(&mut later);
    assert_eq!(again.id(), handles[0].id(), "the same object");
    assert_eq!(later.discard(handles[0], &[]), stale[0], "of an earlier execution");
    later.finish(&[]);
    one.trim();
    let mut last = one.begin();
    let other = acquire(&mut last);
    assert!(last.raw(again.id()).is_err() && last.raw(other.id()).is_ok(), "another object of the same number");
    drop(last);
    drop(two);
    finish(world, one);
}

/// Memory types are tried in order, but only after a shortage.
#[test]
fn another_memory_type_is_tried_only_after_a_shortage() {
    for (error, tries) in [(DeviceError::OutOfDeviceMemory, 2), (DeviceError::Other(7), 1), (DeviceError::Lost, 1)] {
        let world = FaultyFixture::faulty(FixtureDesc::default());
        let mut transient = TransientAllocator::new(&world.memory, desc());
        // Fails the first memory type for buffers on this device.
        world.faults.add(Rule { call: Some(Call::AllocateMemory), memory_types: 1 << 1, ..Rule::new(error) });
        let mut execution = transient.begin();
        let pass = execution.pass(world.timeline().id(), &[]).expect("a queue");
        let made = execution.acquire_buffer(&buffer(64 * KIB), pass, "");
        assert_eq!(made.is_ok(), tries == 2, "{error:?}: {:?}", made.err());
        assert_eq!(execution.figures().heap_count, usize::from(tries == 2), "{error:?}");
        drop(execution);
        drop(transient);
        world.memory.reclaim();
        world.faults.clear();
        if error != DeviceError::Lost {
            world.finish();
        }
    }
}

/// A resource of exactly the largest memory object is served, one page more is not.
#[test]
fn a_resource_may_be_as_large_as_a_memory_object() {
    let max = 4 * MIB;
    let mut profile = Profile::h200();
    profile.capabilities.memory_object_bytes_max = max;
    let (world, mut transient) = on(profile);
    for (size, refused) in [(max, false), (max + 64 * KIB, true)] {
        let expected = refused.then_some(TransientError::Memory(Error::TooLarge { size, max }));
        let mut execution = transient.begin();
        let pass = execution.pass(world.timeline().id(), &[]).expect("a queue");
        assert_eq!(execution.acquire_buffer(&buffer(size), pass, "").err(), expected, "{size}");
        execution.finish(&[]);
        let life: Life = (size, BufferUsage::STORAGE, 0, &[]);
        assert_eq!(plan(&mut transient, &[FramePass::on(world.timeline().id())], &[life]).err(), expected, "{size}");
    }
    finish(world, transient);
}

/// Resources of two classes are in two heaps if the device keeps them apart. A heap for targets has the alignment of
/// multisampled targets, so that it serves them too.
#[test]
fn a_heap_holds_the_resources_of_its_classes() {
    for (profile, heaps) in [(Profile::d3d12_tier1(), 2), (Profile::d3d12_modern(), 1)] {
        let name = profile.name;
        let world = Fixture::new(FixtureDesc { profile, ..Default::default() });
        let mut transient = TransientAllocator::new(&world.memory, TransientDesc { heap_bytes: 64 * MIB, ..desc() });
        let mut execution = transient.begin();
        let pass = execution.pass(world.timeline().id(), &[]).expect("a queue");
        let small = execution.acquire_buffer(&buffer(64 * KIB), pass, "").expect("room");
        let plain = execution.acquire_texture(&texture(64, 1), pass, "").expect("room");
        let sampled = execution.acquire_texture(&texture(64, 4), pass, "").expect("room");
        let found = [execution.place(small), execution.place(plain), execution.place(sampled)];
        let numbers = found.map(|place| place.expect("of now").0.expect("in a heap"));
        assert_eq!((numbers[1], numbers[2]), (heaps - 1, heaps - 1), "{name}: {numbers:?}");
        assert_eq!(execution.figures().heap_count, heaps as usize, "{name}");
        execution.finish(&[]);
        finish(world, transient);
    }
}

/// A trace has an event for each heap of a new plan, with the resources of that heap.
#[test]
fn a_trace_has_each_new_plan() {
    let world = Fixture::new(FixtureDesc { profile: Profile::d3d12_tier1(), ..Default::default() });
    let recording = Recording::default();
    world.memory.trace().start(recording.clone()).expect("no object was created");
    let mut transient = TransientAllocator::new(&world.memory, desc());
    let passes = [FramePass::on(world.timeline().id()); 4];
    let (small, large, image) = (buffer(64 * KIB), buffer(128 * KIB), texture(64, 1));
    let frame = |transient: &mut TransientAllocator<Device>, count: usize| {
        let resources = [
            FrameResource { info: Described::Buffer(&small), first: 0, last: &[2, 1], name: "small" },
            FrameResource { info: Described::Texture(&image), first: 1, last: &[], name: "image" },
            FrameResource { info: Described::Buffer(&large), first: 3, last: &[], name: "large" },
        ];
        transient.plan(&passes, &resources[..count], |_| true).expect("room").finish(&[]);
    };
    frame(&mut transient, 3);
    frame(&mut transient, 3);
    frame(&mut transient, 1);
    world.memory.trace().stop().expect("memory can be written");
    let mut plans = Vec::new();
    for event in Reader::new(&recording.bytes()[..]).expect("a trace") {
        if let Event::Planned { plan, height_bytes, lower_bound_bytes, pass_count, resources } = event.expect("whole") {
            assert_eq!(pass_count, 4);
            let list = resources.into_iter().map(|held| (held.name.to_string(), held.first_pass, held.end_pass));
            plans.push((plan, [height_bytes / KIB, lower_bound_bytes / KIB], list.collect::<Vec<_>>()));
        }
    }
    let named = |name: &str, first, end| (name.to_owned(), first, end);
    let expected = [
        (1, [128, 128], vec![named("small", 0, 3), named("large", 3, 4)]),
        (1, [64, 64], vec![named("image", 1, 2)]),
        // It keeps its offset.
        (2, [128, 64], vec![named("small", 0, 3)]),
    ];
    assert_eq!(plans, expected);
    finish(world, transient);
}
