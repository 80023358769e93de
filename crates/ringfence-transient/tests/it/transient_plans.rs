//! Planned frames on the simulated device: layouts with few aliasing barriers, advice on the order of passes, and the
//! objects in traces.

use ringfence::TransientAllocator;
use ringfence::alias::{Item, PassError, PassGraph, PassItem, PassUse, transitions, verify, verify_passes};
use ringfence::device::fault::{Call, Rule};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, DeviceError};
use ringfence::memory::Error;
use ringfence::sim::{Command, Device, Profile, SimOptions};
use ringfence::trace::{Event, Reader, State, TraceError};
use ringfence::transient::{Described, Execution, FramePass, FrameResource, TransientDesc, TransientError};
use ringfence_testkit::fixture::{FaultyFixture, Fixture, FixtureDesc, Recording};

fn two_queues() -> Fixture {
    let options = SimOptions { queues: 2, ..Default::default() };
    Fixture::new(FixtureDesc { options, timelines: 2, ..Default::default() })
}

fn buffer(size: u64) -> BufferDesc {
    BufferDesc { size, usage: BufferUsage::STORAGE }
}

/// A frame of buffers: descriptions, first and last passes, and the queue of each pass.
struct Shape {
    infos: Vec<BufferDesc>,
    lives: Vec<(usize, [usize; 1])>,
    queues: Vec<usize>,
}

impl Shape {
    /// Returns `count` buffers of a few sizes in as many passes, similar to the targets of a frame.
    fn random(seed: u64, count: usize, queue_count: usize) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let sizes = [64 << 10, 128 << 10, 256 << 10, 320 << 10, 512 << 10];
        let infos = (0..count).map(|_| buffer(sizes[random(5)])).collect();
        let life = |at: usize, length: usize| (at, [(at + length).min(count - 1)]);
        let queues: Vec<_> = (0..count).map(|at| if at % 7 == 3 { (queue_count - 1).min(1) } else { 0 }).collect();
        Self { infos, lives: (0..count).map(|at| life(at, random(6))).collect(), queues }
    }

    /// Returns the waits: every pass waits for the last pass of the other queue, except each third.
    fn waits(&self) -> Vec<Vec<usize>> {
        let before = |at: usize| (0..at).rev().find(|other| self.queues[*other] != self.queues[at]);
        (0..self.queues.len())
            .map(|at| before(at).filter(|_| at % 3 != 0 || self.ends_here(at)).into_iter().collect())
            .collect()
    }

    /// Returns `true` if a buffer of the other queue ends in the pass, which must then come after the pass that
    /// acquired it.
    fn ends_here(&self, pass: usize) -> bool {
        self.lives.iter().any(|(first, last)| last[0] == pass && self.queues[*first] != self.queues[pass])
    }

    fn plan<'t>(
        &self,
        world: &Fixture,
        transient: &'t mut TransientAllocator<Device>,
    ) -> Result<Execution<'t, Device>, TransientError> {
        let waits = self.waits();
        let pass = |at: usize| FramePass { waits: &waits[at], ..FramePass::on(world.timelines[self.queues[at]].id()) };
        let passes: Vec<_> = (0..self.queues.len()).map(pass).collect();
        let resource = |at: usize| {
            let (first, last) = &self.lives[at];
            FrameResource { info: Described::Buffer(&self.infos[at]), first: *first, last, name: "" }
        };
        let resources: Vec<_> = (0..self.infos.len()).map(resource).collect();
        let mut left = 20;
        transient.plan(&passes, &resources, |_| {
            left -= 1;
            left > 0
        })
    }

    fn offsets(&self, execution: &Execution<'_, Device>) -> Vec<u64> {
        let place = |at| execution.place::<Buffers>(execution.planned(at).expect("a buffer")).expect("of now");
        (0..self.infos.len()).map(|at| place(at).1.start).collect()
    }

    fn items(&self) -> Vec<Item> {
        let life = |(info, (first, last)): (&BufferDesc, &(usize, [usize; 1]))| {
            Item::new(info.size, *first as u64, last[0] as u64 + 1)
        };
        self.infos.iter().zip(&self.lives).map(life).collect()
    }
}

/// After a resize, the offsets of the old size must not make the heap of the new size larger.
#[test]
fn after_a_trim_a_smaller_frame_is_planned_anew() {
    let world = two_queues();
    let mut transient = TransientAllocator::new(&world.memory, TransientDesc::default());
    let frame = |sizes: &[u64]| Shape {
        infos: sizes.iter().map(|size| buffer(*size)).collect(),
        lives: vec![(0, [1]); sizes.len()],
        queues: vec![0, 0],
    };
    let mut planned = |sizes: &[u64], trims: bool| {
        let execution = frame(sizes).plan(&world, &mut transient).expect("there is room");
        let figures = execution.figures();
        execution.finish(&[]);
        transient.end_frame();
        if trims {
            transient.trim();
        }
        (figures.planned_bytes, figures.lower_bound_bytes)
    };
    // The last two stay the same: one of them is behind the large ones.
    for old in [[8 << 20, 1 << 20, 64 << 10], [1 << 20, 8 << 20, 64 << 10], [64 << 10, 1 << 20, 8 << 20]] {
        assert_eq!(planned(&old, true), (old.iter().sum(), old.iter().sum()));
        for new in [[128 << 10, 1 << 20, 64 << 10], [64 << 10, 128 << 10, 1 << 20]] {
            let all = new.iter().sum::<u64>();
            assert_eq!(planned(&new, true), (all, all), "after {old:?}");
            planned(&old, true);
        }
    }
    drop(transient);
    world.finish();
}

/// Proven properties of a layout: its height, the lower bound, and the number of groups.
type Proof = (u64, u64, usize);

/// Plans three frames of a shape. Returns the offsets, which stay the same, the proof, and the barriers of the last
/// frame.
fn laid_out(world: &Fixture, shape: &Shape, transition_steps: u64) -> (Vec<u64>, Proof, usize) {
    let desc = TransientDesc { transition_steps, ..Default::default() };
    let mut transient = TransientAllocator::new(&world.memory, desc);
    let mut seen: Option<(Vec<u64>, u64)> = None;
    let mut result = None;
    for number in 0..3 {
        let execution = shape.plan(world, &mut transient).expect("there is room");
        let offsets = shape.offsets(&execution);
        let figures = execution.figures();
        let proof = (figures.planned_bytes, figures.lower_bound_bytes, figures.group_count);
        assert_eq!(figures.is_reused, number > 0);
        execution.finish(&[]);
        transient.end_frame();
        transient.validate().expect("sound");
        let (before, misses) = seen.get_or_insert_with(|| (offsets.clone(), figures.misses));
        assert_eq!(&offsets, &*before, "the plan stays");
        // A frame that waits for no pass gets another heap while the other queue's work of the last frame may still
        // run.
        assert!(figures.misses == *misses || shape.queues.contains(&1), "no object is created again");
        result = Some((offsets, proof, figures.aliasing_count));
    }
    result.expect("three frames")
}

#[test]
fn a_new_shape_is_laid_out_with_fewer_transitions_at_the_same_height() {
    let world = two_queues();
    let (mut found, mut in_frame, mut in_the_end) = (0, 0, 0);
    for seed in 0..20 {
        let shape = Shape::random(seed, 40, 1);
        let items = shape.items();
        let default = TransientDesc::default().transition_steps;
        let [plain, lowered, most] = [0, default, 10_000_000].map(|steps| {
            let (offsets, proof, _) = laid_out(&world, &shape, steps);
            let (height, lower_bound, _) = proof;
            verify(&items, &offsets, height).expect("the checker proves it");
            assert!(height >= lower_bound);
            (transitions(&items, &offsets).len(), proof)
        });
        assert_eq!((plain.1, lowered.1), (lowered.1, most.1), "the proof does not change");
        assert!(most.0 <= lowered.0 && lowered.0 <= plain.0, "seed {seed}");
        (found, in_frame, in_the_end) = (found + plain.0, in_frame + lowered.0, in_the_end + most.0);
    }
    println!("transitions of twenty frames: {found}, {in_frame} by default, {in_the_end} in the end");
    assert!(
        in_frame * 10 < found * 9 && in_the_end < in_frame,
        "a tenth less at least: {found} {in_frame} {in_the_end}"
    );
}

#[test]
fn on_several_queues_every_layout_with_fewer_transitions_is_proven() {
    let world = two_queues();
    for seed in 0..20 {
        let shape = Shape::random(seed, 30, 2);
        let waits = shape.waits();
        let before = |at: usize| (0..at).rev().find(|other| shape.queues[*other] == shape.queues[at]);
        let queue_edges = (0..30).filter_map(|at| Some((before(at)?, at)));
        let wait_edges = waits.iter().enumerate().flat_map(|(at, waits)| waits.iter().map(move |wait| (*wait, at)));
        let edges: Vec<_> = queue_edges.chain(wait_edges).collect();
        let graph = PassGraph::new(30, &edges).expect("every edge leads to a later pass");
        let item = |(info, (first, last)): (&BufferDesc, &(usize, [usize; 1]))| PassItem {
            size: info.size,
            alignment: 1,
            passes: vec![*first, last[0]],
        };
        let items: Vec<_> = shape.infos.iter().zip(&shape.lives).map(item).collect();
        let [plain, lowered] = [0, 100_000].map(|steps| {
            let (offsets, proof, _) = laid_out(&world, &shape, steps);
            verify_passes(&graph, &items, &offsets, proof.0).expect("the checker proves it");
            proof
        });
        assert_eq!(plain, lowered);
    }
}

#[test]
fn advice_saves_what_it_says_and_keeps_what_is_to_stay_in_order() {
    let world = two_queues();
    let mut transient = TransientAllocator::new(&world.memory, TransientDesc::default());
    let info = buffer(1 << 20);
    let pair = |uses| (Described::Buffer(&info), uses);
    let resources = || {
        const OUTER: [PassUse; 2] = [PassUse::write(0), PassUse::read(3)];
        const INNER: [PassUse; 2] = [PassUse::write(1), PassUse::read(2)];
        [pair(&OUTER[..]), pair(&INNER[..])]
    };
    let advice = transient.suggest_order(4, &resources(), &[], |_| true).expect("plain buffers");
    assert_eq!((advice.load_before, advice.load_after), (2 << 20, 1 << 20));
    let place = |pass: usize| advice.order.iter().position(|other| *other == pass).expect("every pass");
    assert!(place(0) < place(3) && place(1) < place(2), "who reads comes after who wrote: {:?}", advice.order);
    // No passes can be exchanged if the last pass must follow the third.
    let held = transient.suggest_order(4, &resources(), &[(0, 1), (2, 3)], |_| true).expect("plain buffers");
    assert_eq!((held.order, held.load_after), (vec![0, 1, 2, 3], 2 << 20));
    let mut refused = |count, resources: &[(Described<'_, '_, Device>, &[PassUse])], order: &[(usize, usize)]| {
        transient.suggest_order(count, resources, order, |_| true).expect_err("a bad frame")
    };
    assert_eq!(refused(3, &resources(), &[]), TransientError::NotPlanned { place: 3 });
    assert_eq!(refused(4, &resources(), &[(2, 1)]), TransientError::NotPlanned { place: 2 });
    assert_eq!(refused(4, &[pair(&[][..])], &[]), TransientError::NotPlanned { place: 0 });
    // The table of the order of passes would have one bit for each two passes.
    for (count, bytes) in [(1 << 20, 1 << 37), (1 << 40, u64::MAX)] {
        let many = PassError::TooMany { count, bytes, bytes_max: 1 << 30 };
        assert_eq!(refused(count, &resources(), &[]), TransientError::Passes(many));
    }
    assert_eq!(world.memory.statistics().calls.create_object, 0, "no object was created");
}

#[test]
fn a_trace_tells_of_every_object_in_a_transient_heap() {
    let world = two_queues();
    let recording = Recording::default();
    world.memory.trace().start(recording.clone()).expect("no object was created");
    let mut transient = TransientAllocator::new(&world.memory, TransientDesc { name: "targets", ..Default::default() });
    let (info, queue) = (buffer(100_000), world.timelines[0].id());
    let resource = |first, name| FrameResource { info: Described::Buffer(&info), first, last: &[], name };
    let resources = [resource(0, "depth"), resource(0, "normals"), resource(2, "bloom")];
    for _ in 0..3 {
        let execution = transient.plan(&[FramePass::on(queue); 3], &resources, |_| true).expect("there is room");
        let lit = execution.place::<Buffers>(execution.planned(2).expect("a buffer")).expect("of now").1;
        assert!(lit.start < 200_000, "bloom has the range of another resource");
        execution.finish(&[]);
        world.memory.reclaim();
    }
    transient.trim();
    world.memory.reclaim();
    drop(transient);
    world.memory.reclaim();
    world.memory.trace().stop().expect("memory can be written");
    let bytes = recording.bytes();

    let (mut state, mut made, mut most) = (State::new(), Vec::new(), (0, 0));
    let mut events = Vec::new();
    for event in Reader::new(&bytes[..]).expect("a trace") {
        let event = event.expect("it is whole");
        state.apply(&event);
        assert_eq!(state.odd_count(), 0, "{event:?}");
        most = most.max((state.transient_objects().len(), state.transient_bytes()));
        if let Event::TransientMade { block, offset, bytes, name, .. } = &event {
            assert_eq!(state.live(*block, 0).map(|live| live.name.as_str()), Some("targets"), "the heap is a range");
            made.push((name.clone(), *offset, *bytes));
        }
        events.push(event);
    }
    let names: Vec<_> = made.iter().map(|(name, ..)| name.as_str()).collect();
    // If bloom has the same offset as one of the other buffers, it reuses that buffer.
    assert!(names.starts_with(&["depth", "normals"]) && names.len() <= 3, "{names:?}");
    assert!(made.iter().all(|(_, offset, bytes)| *bytes >= 100_000 && *offset <= 2 * bytes));
    assert_eq!(most, (made.len(), made.iter().map(|(.., bytes)| bytes).sum()));
    assert!(state.transient_objects().is_empty() && state.transient_bytes() == 0, "all were released");
    let at = |wanted: &dyn Fn(&Event) -> bool| events.iter().rposition(wanted).expect("there is one");
    let last_released = at(&|event| matches!(event, Event::TransientReleased { .. }));
    assert!(last_released < at(&|event| matches!(event, Event::BlockFreed { .. })), "before the heap");

    // An older trace version cannot contain such events: a reader of that version reports damage, and so does this one.
    let mut old = bytes.clone();
    old[8..12].copy_from_slice(&1_u32.to_le_bytes());
    let ends: Vec<_> = Reader::new(&old[..]).expect("version 1 is read").filter_map(Result::err).collect();
    assert!(matches!(ends[..], [TraceError::Corrupted { .. }]), "{ends:?}");
    // Without such events it reads the trace as before.
    let empty = Recording::default();
    let other = two_queues();
    other.memory.trace().start(empty.clone()).expect("no object was created");
    other.memory.trace().stop().expect("memory can be written");
    let mut old = empty.bytes();
    old[8..12].copy_from_slice(&1_u32.to_le_bytes());
    assert!(Reader::new(&old[..]).expect("version 1 is read").all(|event| event.is_ok()));
}

/// Graphics gets bytes only after compute's work on them is over, even if a frame that would have waited for that work
/// failed: no part of that frame was submitted. It fails because a heap is missing, or when one of its resources is
/// placed.
#[test]
fn a_frame_that_is_refused_orders_nothing() {
    for (refused, skip, sizes) in [(Call::AllocateMemory, 0, &[32 << 20][..]), (Call::Place, 1, &[1 << 20; 2])] {
        let world = FaultyFixture::faulty(FixtureDesc { timelines: 2, ..Default::default() });
        let mut transient = TransientAllocator::new(&world.memory, TransientDesc::default());
        let described = |size| BufferDesc { size, usage: BufferUsage::COPY_DST };
        let run = |queue: usize, size, transient: &mut TransientAllocator<_>| {
            let info = described(size);
            let resources = [FrameResource { info: Described::Buffer(&info), first: 0, last: &[], name: "" }];
            let passes = [FramePass::on(world.timelines[queue].id())];
            let execution = transient.plan(&passes, &resources, |_| true).expect("there is room");
            let handle = execution.planned::<Buffers>(0).expect("it is planned");
            let dst = *execution.buffer(handle).expect("it belongs to this execution");
            let frame = world.timelines[queue].begin();
            let fill = Command::FillBuffer { dst, offset: 0, size: info.size, value: 1 };
            world.device.submit(queue, &[], vec![fill], (world.fences[queue], frame.value())).expect("alive");
            execution.finish(&[world.timelines[queue].submitted(frame).expect("in order")]);
        };
        world.device.pause(1);
        run(1, 16 << 20, &mut transient);
        let [graphics, compute] = [0, 1].map(|queue| world.timelines[queue].id());
        let passes = [FramePass::on(compute), FramePass { queue: graphics, waits: &[0], waits_before: &[] }];
        let infos: Vec<_> = sizes.iter().map(|size| described(*size)).collect();
        let resource = |info| FrameResource { info: Described::Buffer(info), first: 1, last: &[], name: "" };
        let resources: Vec<_> = infos.iter().map(resource).collect();
        let error = DeviceError::OutOfDeviceMemory;
        world.faults.add(Rule { call: Some(refused), skip, count: u64::MAX, ..Rule::new(error) });
        transient.plan(&passes, &resources, |_| true).map(drop).expect_err("it is refused");
        world.faults.clear();
        run(0, 1 << 20, &mut transient);
        world.device.resume(1);
        world.device.run_until_idle();
        assert_eq!(world.device.take_hazards(), [], "{refused:?}");
        drop(transient);
        world.finish();
    }
}

/// The same without a plan: the execution is dropped before its passes are submitted.
#[test]
fn an_execution_that_is_dropped_orders_nothing() {
    let world = Fixture::new(FixtureDesc { timelines: 2, ..Default::default() });
    let mut transient = TransientAllocator::new(&world.memory, TransientDesc::default());
    let info = BufferDesc { size: 1 << 20, usage: BufferUsage::COPY_DST };
    let run = |queue: usize, transient: &mut TransientAllocator<_>| {
        let mut execution = transient.begin();
        let pass = execution.pass(world.timelines[queue].id(), &[]).expect("a queue of its own");
        let handle = execution.acquire_buffer(&info, pass, "").expect("there is room");
        let dst = *execution.buffer(handle).expect("it belongs to this execution");
        execution.discard(handle, &[]).expect("it is in use");
        let frame = world.timelines[queue].begin();
        let fill = Command::FillBuffer { dst, offset: 0, size: info.size, value: 1 };
        world.device.submit(queue, &[], vec![fill], (world.fences[queue], frame.value())).expect("alive");
        let place = execution.place(handle).expect("it belongs to this execution");
        execution.finish(&[world.timelines[queue].submitted(frame).expect("in order")]);
        (pass, place)
    };
    world.device.pause(1);
    let (running, place) = run(1, &mut transient);
    let mut dropped = transient.begin();
    let pass = dropped.pass(world.timelines[0].id(), &[running]).expect("a queue of its own");
    let handle = dropped.acquire_buffer(&info, pass, "").expect("there is room");
    assert_eq!(dropped.place(handle), Ok(place.clone()), "it waits for the work that uses them");
    dropped.discard(handle, &[]).expect("it is in use");
    drop(dropped);
    assert_ne!(run(0, &mut transient).1, place);
    world.device.resume(1);
    world.device.run_until_idle();
    assert_eq!(world.device.take_hazards(), []);
    drop(transient);
    world.finish();
}

/// On a device with small memory objects, each resource fits, but a plan of all of them does not.
#[test]
fn a_plan_that_is_higher_than_any_memory_object_is_refused() {
    let mut profile = Profile::h200();
    profile.capabilities.memory_object_bytes_max = 8 << 20;
    let world = Fixture::new(FixtureDesc { profile, ..Default::default() });
    let mut transient = TransientAllocator::new(&world.memory, TransientDesc::default());
    let info = buffer(5 << 20);
    let passes = [FramePass::on(world.timelines[0].id())];
    let resource = || FrameResource { info: Described::Buffer(&info), first: 0, last: &[0], name: "" };
    let refused = transient.plan(&passes, &[resource(), resource()], |_| false).map(drop);
    assert!(
        matches!(refused, Err(TransientError::Memory(Error::TooLarge { max, .. })) if max == 8 << 20),
        "{refused:?}"
    );
    drop(transient);
    world.finish();
}

/// If an execution is dropped or leaked, its barriers are not recorded: the next use requires its dependencies and
/// activations again.
#[test]
fn the_barriers_of_a_dropped_execution_are_needed_again() {
    for is_forgotten in [false, true] {
        let world = Fixture::new(FixtureDesc::default());
        let mut transient = TransientAllocator::new(&world.memory, TransientDesc::default());
        let (small, large) = (buffer(64 << 10), buffer(128 << 10));
        let run = |infos: &[&BufferDesc], transient: &mut TransientAllocator<_>, end: Option<bool>| {
            let mut execution = transient.begin();
            let pass = execution.pass(world.timelines[0].id(), &[]).expect("a queue of its own");
            for info in infos {
                let handle = execution.acquire_buffer(*info, pass, "").expect("there is room");
                execution.discard(handle, &[pass]).expect("it is in use");
            }
            let barriers: Vec<_> =
                execution.barriers().iter().map(|barrier| (barrier.depends, barrier.aliases)).collect();
            match end {
                None => _ = execution.finish(&[]),
                Some(false) => drop(execution),
                Some(true) => std::mem::forget(execution),
            }
            barriers
        };
        // Dependencies: two buffers side by side; then only the first one in a dropped execution; then only the second
        // one.
        assert_eq!(run(&[&small, &large], &mut transient, None), []);
        assert_eq!(run(&[&small], &mut transient, Some(is_forgotten)), [(true, false)]);
        assert_eq!(run(&[&large], &mut transient, None), [(true, false)], "forgotten: {is_forgotten}");
        drop(transient);
        // Activations: another object takes the bytes in a dropped execution; then the first object is acquired again.
        let mut transient = TransientAllocator::new(&world.memory, TransientDesc::default());
        assert_eq!(run(&[&large], &mut transient, None), []);
        assert_eq!(run(&[&small], &mut transient, Some(is_forgotten)), [(true, true)]);
        assert_eq!(run(&[&small], &mut transient, None), [(true, true)], "forgotten: {is_forgotten}");
        assert_eq!(run(&[&small], &mut transient, None), [(true, false)]);
        drop(transient);
        world.finish();
    }
}
