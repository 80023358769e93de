//! Exact figures, ages of objects and heaps, and refusals of transient resources.

use ringfence::TransientAllocator;
use ringfence::alias::PassUse;
use ringfence::device::{BufferDesc, BufferUsage, Buffers, TextureDesc, TextureUsage, Textures};
use ringfence::memory::Error;
use ringfence::sim::{Device, Profile};
use ringfence::transient::{
    Described, Execution, FramePass, FrameResource, Pass, TransientBuffer, TransientDesc, TransientError,
    TransientFigures,
};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A heap has 1 MiB, keeps one unused object for two frames, and is kept empty for three frames.
fn desc() -> TransientDesc<'static> {
    TransientDesc { heap_bytes: MIB, objects_kept: 1, latency_frames: 2, heap_idle_frames: 3, ..Default::default() }
}

fn world() -> (Fixture, TransientAllocator<Device>) {
    let world = Fixture::new(FixtureDesc { timelines: 2, ..Default::default() });
    let transient = TransientAllocator::new(&world.memory, desc());
    (world, transient)
}

fn buffer(size: u64) -> BufferDesc {
    BufferDesc { size, usage: BufferUsage::STORAGE }
}

fn target() -> TextureDesc {
    let usage = TextureUsage::RENDER_TARGET | TextureUsage::SAMPLED;
    TextureDesc { width: 64, height: 64, usage, ..Default::default() }
}

/// Runs an execution that acquires buffers of these sizes in one pass, and ends the frame. Returns the number of heaps
/// that the end of the frame has released.
fn frame(world: &Fixture, transient: &mut TransientAllocator<Device>, sizes: &[u64]) -> usize {
    let mut execution = transient.begin();
    let pass = execution.pass(world.timeline().id(), &[]).expect("a queue");
    for size in sizes {
        execution.acquire_buffer(&buffer(*size), pass, "").expect("room");
    }
    execution.finish(&[]);
    transient.end_frame()
}

#[test]
fn figures_count_heaps_objects_and_bytes_of_the_last_execution() {
    let (world, mut transient) = world();
    assert_eq!(transient.figures(), TransientFigures::default());
    let queue = world.timeline().id();
    let mut execution = transient.begin();
    let passes = [(); 3].map(|()| execution.pass(queue, &[]).expect("a queue"));
    let mut acquire = |size: u64, pass: Pass| execution.acquire_buffer(&buffer(size), pass, "").expect("room");
    let (one, two) = (acquire(256 * KIB, passes[0]), acquire(512 * KIB, passes[0]));
    assert_eq!(
        [one, two].map(|handle| execution.place(handle).expect("now")),
        [(Some(0), 0..256 * KIB), (Some(0), 256 * KIB..768 * KIB)]
    );
    execution.discard(two, &[]).expect("in use");
    // 128 KiB over the second buffer, and 900 KiB in another heap.
    let three = execution.acquire_buffer(&buffer(128 * KIB), passes[1], "").expect("room");
    let four = execution.acquire_buffer(&buffer(900 * KIB), passes[2], "").expect("room");
    assert_eq!(execution.place(three), Ok((Some(0), 256 * KIB..384 * KIB)));
    assert_eq!(execution.place(four), Ok((Some(1), 0..900 * KIB)));
    let expected = TransientFigures {
        heap_count: 2,
        heap_bytes: 2 * MIB,
        object_count: 4,
        misses: 4,
        requested_bytes: 1796 * KIB,
        peak_bytes: 1668 * KIB,
        aliasing_count: 1,
        dependency_count: 1,
        ..Default::default()
    };
    assert_eq!(execution.figures(), expected);
    assert_eq!(execution.figures().saved_bytes(), 128 * KIB);
    assert_eq!(execution.finish(&[]), 3, "three were not discarded");
    assert_eq!(transient.figures(), TransientFigures { left_in_use: 3, ..expected });
    // Two of the same again. The execution has its own bytes; the totals go on.
    let mut execution = transient.begin();
    let pass = execution.pass(queue, &[]).expect("a queue");
    execution.acquire_buffer(&buffer(256 * KIB), pass, "").expect("room");
    execution.acquire_buffer(&buffer(900 * KIB), pass, "").expect("room");
    let found = execution.figures();
    assert_eq!((found.hits, found.misses, found.object_count, found.left_in_use), (2, 4, 4, 0));
    assert_eq!((found.requested_bytes, found.peak_bytes), (1156 * KIB, 1156 * KIB));
}

#[test]
fn unused_objects_beyond_the_kept_number_are_released_after_the_latency() {
    let (world, mut transient) = world();
    let sizes = [64 * KIB, 128 * KIB, 192 * KIB];
    frame(&world, &mut transient, &sizes);
    // The object count and the number of released objects after each frame.
    let mut counts = Vec::new();
    for _ in 0..4 {
        frame(&world, &mut transient, &[]);
        let TransientFigures { object_count, released, heap_count, .. } = transient.figures();
        counts.push((object_count, released, heap_count));
    }
    // In the second frame after their last use they are two frames old, in the third one three.
    assert_eq!(counts, [(3, 0, 1), (3, 0, 1), (1, 2, 1), (1, 2, 1)]);
    transient.validate().expect("sound");
    let mut execution = transient.begin();
    let pass = execution.pass(world.timeline().id(), &[]).expect("a queue");
    for size in sizes {
        execution.acquire_buffer(&buffer(size), pass, "").expect("room");
    }
    assert_eq!((execution.figures().hits, execution.figures().misses), (1, 5), "one was kept");
}

#[test]
fn the_oldest_objects_are_released_first_and_each_kind_keeps_its_own() {
    let (world, mut transient) = world();
    frame(&world, &mut transient, &[64 * KIB, 128 * KIB]);
    frame(&world, &mut transient, &[128 * KIB]);
    let mut execution = transient.begin();
    let pass = execution.pass(world.timeline().id(), &[]).expect("a queue");
    execution.acquire_texture(&target(), pass, "").expect("room");
    execution.finish(&[]);
    transient.end_frame();
    for released in [1, 1, 1] {
        frame(&world, &mut transient, &[]);
        assert_eq!(transient.figures().released, released, "the smaller buffer, which was used first");
    }
    let mut execution = transient.begin();
    let pass = execution.pass(world.timeline().id(), &[]).expect("a queue");
    execution.acquire_buffer(&buffer(128 * KIB), pass, "").expect("room");
    execution.acquire_texture(&target(), pass, "").expect("room");
    assert_eq!(execution.figures().hits, 1 + 2, "the buffer and the texture were kept");
}

#[test]
fn an_empty_heap_is_kept_for_its_idle_frames_and_used_again_before_that() {
    let (world, _) = world();
    let desc = TransientDesc { objects_kept: 0, latency_frames: 0, ..desc() };
    let mut transient = TransientAllocator::new(&world.memory, desc);
    // Two heaps, of 1 MiB and of 2 MiB.
    frame(&world, &mut transient, &[900 * KIB, 2 * MIB]);
    let heaps = |transient: &TransientAllocator<Device>| {
        let TransientFigures { heap_count, heap_bytes, idle_heap_count, idle_heap_bytes, heaps_cached, .. } =
            transient.figures();
        (heap_count, heap_bytes, idle_heap_count, idle_heap_bytes, heaps_cached)
    };
    assert_eq!(heaps(&transient), (2, 3 * MIB, 0, 0, 0));
    // The objects are released by the next execution, in frame 1. The heaps are idle for 1, 2 and 3 frames, and then
    // released.
    let released: Vec<_> = (0..5).map(|_| (frame(&world, &mut transient, &[]), heaps(&transient))).collect();
    let idle = (0, (0, 0, 2, 3 * MIB, 2));
    assert_eq!(released, [idle, idle, idle, (2, (0, 0, 0, 0, 2)), (0, (0, 0, 0, 0, 2))]);
    frame(&world, &mut transient, &[900 * KIB]);
    frame(&world, &mut transient, &[]);
    assert_eq!(heaps(&transient), (0, 0, 1, MIB, 3));
    frame(&world, &mut transient, &[900 * KIB]);
    assert_eq!(heaps(&transient), (1, MIB, 0, 0, 3), "the empty heap has objects again");
    let idle: Vec<_> = (0..5).map(|_| frame(&world, &mut transient, &[])).collect();
    assert_eq!(idle, [0, 0, 0, 1, 0], "its idle frames are counted anew");
}

#[test]
fn a_trim_releases_every_object_and_heap() {
    let (world, mut transient) = world();
    assert_eq!(transient.trim(), 0);
    frame(&world, &mut transient, &[64 * KIB, 128 * KIB, 2 * MIB]);
    assert_eq!(transient.trim(), 3);
    let found = transient.figures();
    assert_eq!((found.object_count, found.heap_count, found.idle_heap_count, found.released), (0, 0, 0, 3));
    assert_eq!(found.heaps_cached, 2);
    transient.validate().expect("sound");
    frame(&world, &mut transient, &[64 * KIB]);
    assert_eq!((transient.figures().misses, transient.trim(), transient.figures().released), (4, 1, 4));
}

#[test]
fn a_resource_above_the_size_of_a_heap_gets_a_heap_of_its_size() {
    let (world, mut transient) = world();
    for (size, heap_bytes) in [(MIB, MIB), (MIB + 64 * KIB, MIB + 64 * KIB), (3 * MIB, 3 * MIB)] {
        transient.trim();
        frame(&world, &mut transient, &[size]);
        let found = transient.figures();
        assert_eq!((found.heap_count, found.heap_bytes, found.peak_bytes), (1, heap_bytes, size));
    }
    // The largest memory object of this device has 4094 MiB.
    let max = 4094 * MIB;
    let mut execution = transient.begin();
    let pass = execution.pass(world.timeline().id(), &[]).expect("a queue");
    let refused = execution.acquire_buffer(&buffer(max + 64 * KIB), pass, "");
    assert_eq!(refused, Err(TransientError::Memory(Error::TooLarge { size: max + 64 * KIB, max })));
}

/// From 1 MiB on, this device requires dedicated memory.
#[test]
fn resources_with_dedicated_memory_are_cached_by_themselves() {
    let profile = Profile { dedicated_required_bytes: MIB, ..Profile::h200() };
    let world = Fixture::new(FixtureDesc { profile, ..Default::default() });
    let mut transient = TransientAllocator::new(&world.memory, desc());
    let queue = world.timeline().id();
    let mut execution = transient.begin();
    let pass = execution.pass(queue, &[]).expect("a queue");
    let [one, two] = [(); 2].map(|()| execution.acquire_texture(&large(), pass, "").expect("room"));
    let bytes = execution.place(one).expect("now").1.end;
    assert!(bytes >= MIB && one.id() != two.id());
    assert_eq!([one, two].map(|handle| execution.place(handle)), [Ok((None, 0..bytes)), Ok((None, 0..bytes))]);
    let found = execution.figures();
    assert_eq!((found.heap_count, found.object_count, found.hits, found.misses), (0, 2, 0, 2));
    assert_eq!((found.requested_bytes, found.peak_bytes), (2 * bytes, 2 * bytes));
    execution.discard(one, &[]).expect("in use");
    // The second is in use; the first is free for a later pass.
    let later = execution.pass(queue, &[]).expect("a queue");
    let again = execution.acquire_texture(&large(), later, "").expect("room");
    assert_eq!((again.id(), execution.figures().hits, execution.figures().peak_bytes), (one.id(), 1, 2 * bytes));
    execution.finish(&[]);
    transient.end_frame();
    // One is kept, the other one is released after the latency. An execution without them uses none of their bytes.
    for (object_count, released) in [(2, 0), (2, 0), (1, 1)] {
        frame(&world, &mut transient, &[]);
        let found = transient.figures();
        assert_eq!((found.object_count, found.released, found.peak_bytes), (object_count, released, 0));
    }
}

fn large() -> TextureDesc {
    TextureDesc { width: 1024, height: 1024, ..target() }
}

#[test]
fn handles_are_of_one_acquire_of_one_execution() {
    let (world, mut transient) = world();
    let (queue, mut other) = (world.timeline().id(), TransientAllocator::new(&world.memory, desc()));
    let mut execution = transient.begin();
    let passes = [(); 2].map(|()| execution.pass(queue, &[]).expect("a queue"));
    assert_eq!(passes.map(|pass| pass.number()), [1, 2]);
    let first: TransientBuffer = execution.acquire_buffer(&buffer(64 * KIB), passes[0], "").expect("room");
    let copy = first;
    execution.discard(first, &[]).expect("in use");
    let second = execution.acquire_buffer(&buffer(64 * KIB), passes[1], "").expect("room");
    assert!(first == copy && first != second && first.id() == second.id(), "one object, acquired twice");
    let taken = TransientError::Taken { id: first.id(), by: second.id() };
    assert_eq!(execution.buffer(first), Err(taken));
    assert!(execution.buffer(second).is_ok());
    assert_eq!(execution.discard(first, &[]), Err(TransientError::Stale { id: first.id() }), "it was discarded");
    let id = second.id();
    execution.finish(&[]);
    assert!(transient.raw(id).is_ok());
    let foreign = other.begin();
    assert!(matches!(foreign.raw(id), Err(TransientError::Stale { id: found }) if found == id));
    assert_eq!(foreign.buffer(second), Err(TransientError::Stale { id }));
    drop(foreign);
    let execution = transient.begin();
    assert_eq!(execution.buffer(second), Err(TransientError::Stale { id }), "of an earlier execution");
    assert_eq!(execution.place(second), Err(TransientError::Stale { id }));
}

#[test]
fn passes_acquire_in_order_and_belong_to_their_execution() {
    let (world, mut transient) = world();
    let (graphics, compute) = (world.timelines[0].id(), world.timelines[1].id());
    let mut execution = transient.begin();
    let [one, two] = [(); 2].map(|()| execution.pass(graphics, &[]).expect("a queue"));
    let side = execution.pass(compute, &[]).expect("a queue");
    let acquire = |execution: &mut Execution<'_, Device>, pass| execution.acquire_buffer(&buffer(64 * KIB), pass, "");
    let handle = acquire(&mut execution, two).expect("room");
    assert!(acquire(&mut execution, two).is_ok(), "the same pass");
    assert_eq!(acquire(&mut execution, one), Err(TransientError::OutOfOrder { pass: one, latest: 2 }));
    assert!(acquire(&mut execution, side).is_ok(), "another queue");
    let discard = |execution: &mut Execution<'_, Device>, last: &[Pass]| execution.discard(handle, last);
    let after = |last| Err(TransientError::NotAfter { first: two, last });
    assert_eq!(discard(&mut execution, &[one]), after(one));
    assert_eq!(discard(&mut execution, &[side]), after(side), "it does not wait");
    let waits = execution.pass(compute, &[two]).expect("a queue");
    assert_eq!(discard(&mut execution, &[two, waits]), Ok(()));
    execution.finish(&[]);
    let mut execution = transient.begin();
    assert_eq!(acquire(&mut execution, two), Err(TransientError::UnknownPass { pass: two }), "of an earlier execution");
    let next = execution.pass(graphics, &[two, waits]).expect("earlier passes may be waited for");
    assert_eq!(next.number(), 3);
    let handle = acquire(&mut execution, next).expect("room");
    assert_eq!(execution.discard(handle, &[two]), Err(TransientError::UnknownPass { pass: two }));
    let mut other = TransientAllocator::new(&world.memory, desc());
    let mut foreign = other.begin();
    assert_eq!(foreign.pass(graphics, &[next]), Err(TransientError::UnknownPass { pass: next }));
    let stranger = Fixture::new(FixtureDesc::default());
    let queue = stranger.timeline().id();
    assert_eq!(foreign.pass(queue, &[]), Err(TransientError::ForeignQueue { queue }));
}

/// A frame of one queue: buffers with their size, first and last pass.
fn plan<'t>(
    world: &Fixture,
    transient: &'t mut TransientAllocator<Device>,
    pass_count: usize,
    lives: &[(u64, usize, &[usize])],
) -> Result<Execution<'t, Device>, TransientError> {
    let passes = vec![FramePass::on(world.timeline().id()); pass_count];
    let infos: Vec<_> = lives.iter().map(|(size, ..)| buffer(*size)).collect();
    let resource = |(&(_, first, last), info)| FrameResource { info: Described::Buffer(info), first, last, name: "" };
    let resources: Vec<_> = lives.iter().zip(&infos).map(resource).collect();
    transient.plan(&passes, &resources, |_| true)
}

#[test]
fn a_planned_frame_has_its_passes_its_handles_and_its_bytes() {
    let (world, mut transient) = world();
    // Two buffers that are alive together, and one after them.
    let lives = [(256 * KIB, 0, &[1][..]), (128 * KIB, 1, &[]), (320 * KIB, 2, &[2])];
    let mut expected = TransientFigures {
        heap_count: 1,
        heap_bytes: 384 * KIB,
        object_count: 3,
        misses: 3,
        requested_bytes: 704 * KIB,
        peak_bytes: 384 * KIB,
        planned_bytes: 384 * KIB,
        lower_bound_bytes: 384 * KIB,
        group_count: 1,
        ..Default::default()
    };
    for round in 0..3 {
        let execution = plan(&world, &mut transient, 3, &lives).expect("room");
        let found = execution.figures();
        expected = TransientFigures {
            hits: 3 * round,
            is_reused: round > 0,
            aliasing_count: found.aliasing_count,
            dependency_count: found.dependency_count,
            ..expected
        };
        assert_eq!(found, expected, "round {round}");
        let numbers = [0, 1, 2].map(|place| execution.frame_pass(place).map(|pass| pass.number()));
        assert_eq!(numbers, [1, 2, 3].map(|number| Some(3 * round + number)));
        assert_eq!(execution.frame_pass(3), None);
        let handles = [0, 1, 2].map(|place| execution.planned::<Buffers>(place).expect("a buffer"));
        let sizes = handles.map(|handle| execution.place(handle).map(|(heap, range)| (heap, range.end - range.start)));
        assert_eq!(sizes, [256, 128, 320].map(|size| Ok((Some(0), size * KIB))));
        for place in [3, usize::MAX] {
            assert_eq!(execution.planned::<Buffers>(place), Err(TransientError::NotPlanned { place }));
        }
        assert_eq!(execution.planned::<Textures>(1), Err(TransientError::NotPlanned { place: 1 }), "a buffer");
        execution.finish(&[]);
        transient.end_frame();
    }
    let execution = transient.begin();
    assert_eq!(execution.frame_pass(0), None, "this execution has no plan");
    assert_eq!(execution.planned::<Buffers>(0), Err(TransientError::NotPlanned { place: 0 }));
}

#[test]
fn a_planned_frame_needs_passes_in_order() {
    let (world, mut transient) = world();
    let not_planned = |place| Some(TransientError::NotPlanned { place });
    for (lives, refused) in [
        (&[(64 * KIB, 2, &[][..])][..], None),
        (&[(64 * KIB, 3, &[])], not_planned(3)),
        (&[(64 * KIB, 0, &[2])], None),
        (&[(64 * KIB, 0, &[1, 3])], not_planned(3)),
        (&[(64 * KIB, 0, &[]), (64 * KIB, 9, &[])], not_planned(9)),
    ] {
        assert_eq!(plan(&world, &mut transient, 3, lives).err(), refused, "{lives:?}");
    }
    let reversed = plan(&world, &mut transient, 3, &[(64 * KIB, 2, &[1])]).map(drop);
    assert!(
        matches!(reversed, Err(TransientError::NotAfter { first, last }) if first.number() == last.number() + 1),
        "{reversed:?}"
    );
    let (graphics, compute) = (world.timelines[0].id(), world.timelines[1].id());
    for (waits, refused) in [(&[0][..], None), (&[1], not_planned(1)), (&[0, 2], not_planned(2))] {
        let passes = [FramePass::on(graphics), FramePass { waits, ..FramePass::on(compute) }];
        assert_eq!(transient.plan(&passes, &[], |_| true).err(), refused, "{waits:?}");
    }
    transient.validate().expect("sound");
}

#[test]
fn sixteen_shapes_are_kept_and_the_least_recently_used_is_planned_anew() {
    let (world, mut transient) = world();
    let mut is_reused = |count: u64| {
        let life = (count * 64 * KIB, 0, &[][..]);
        let execution = plan(&world, &mut transient, 1, &[life]).expect("room");
        let is_reused = execution.figures().is_reused;
        execution.finish(&[]);
        is_reused
    };
    assert!((1..=16).all(|count| !is_reused(count)));
    assert!((1..=16).all(&mut is_reused));
    assert!(is_reused(1), "used last");
    assert!(!is_reused(17), "replaces the second shape");
    assert!(is_reused(1) && is_reused(3) && is_reused(17) && !is_reused(2));
}

#[test]
fn each_class_of_a_tier_1_device_is_a_group_with_its_own_heap() {
    for (profile, group_count) in [(Profile::d3d12_tier1(), 2), (Profile::d3d12_modern(), 1)] {
        let world = Fixture::new(FixtureDesc { profile, ..Default::default() });
        let mut transient = TransientAllocator::new(&world.memory, desc());
        let passes = [FramePass::on(world.timeline().id()); 2];
        // Never alive together.
        let (buffer, texture) = (buffer(256 * KIB), target());
        let info = |at| if at == 0 { Described::Buffer(&buffer) } else { Described::Texture(&texture) };
        let resources = [0, 1].map(|at| FrameResource { info: info(at), first: at, last: &[], name: "" });
        let execution = transient.plan(&passes, &resources, |_| true).expect("room");
        let found = execution.figures();
        assert_eq!((found.group_count, found.heap_count), (group_count, group_count));
        assert_eq!(found.planned_bytes < found.requested_bytes, group_count == 1, "{found:?}");
    }
}

#[test]
fn an_order_is_suggested_with_its_loads_and_refused_with_the_wrong_pass() {
    let (_world, mut transient) = world();
    let (one, two) = (buffer(128 * KIB), buffer(256 * KIB));
    let uses = |first, last| [PassUse::write(first), PassUse::read(last)];
    let (outer, inner) = (uses(0, 3), uses(1, 2));
    let resources = [(Described::Buffer(&one), &outer[..]), (Described::Buffer(&two), &inner[..])];
    let advice = transient.suggest_order(4, &resources, &[], |_| true).expect("small");
    assert_eq!((advice.load_before, advice.saving()), (384 * KIB, 128 * KIB));
    let bound = transient.suggest_order(4, &resources, &[(0, 1), (2, 3)], |_| true).expect("small");
    assert_eq!((bound.order, bound.load_before, bound.load_after), (vec![0, 1, 2, 3], 384 * KIB, 384 * KIB));
    let refused = |place| Some(TransientError::NotPlanned { place });
    for (count, order, expected) in
        [(3, &[][..], refused(3)), (4, &[(0, 4)], refused(4)), (4, &[(2, 1)], refused(2)), (4, &[(2, 2)], refused(2))]
    {
        assert_eq!(transient.suggest_order(count, &resources, order, |_| true).err(), expected, "{order:?}");
    }
    let unused = [resources[0], (Described::Buffer(&two), &[][..])];
    assert_eq!(transient.suggest_order(4, &unused, &[], |_| true).err(), refused(1));
}
