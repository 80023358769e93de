//! Constants: views of pools, addresses, promotion, the staging of static contents, and code of the program that panics or
//! binds again.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence::device::BufferUsage;
use ringfence::memory::Error;
use ringfence::sim::{BufferRange, Command, Device};
use ringfence::upload::{BoundConstants, ConstantFigures, ConstantViews, ConstantsDesc, StaticConstants, UploadError};
use ringfence::{Buffer, ConstantBuffers, UploadBatch};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

const READ: BufferUsage = BufferUsage::CONSTANT.union(BufferUsage::COPY_SRC);

thread_local! {
    /// Runs at the next clone of a view on this thread.
    static AT_CLONE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A view: the number of its heap, and its slot.
#[derive(PartialEq, Debug)]
struct View(u32, u32);

impl Clone for View {
    fn clone(&self) -> Self {
        let hook = AT_CLONE.take();
        hook.into_iter().for_each(|hook| hook());
        Self(self.0, self.1)
    }
}

/// Numbers the heaps, and records their slots.
#[derive(Clone, Default)]
struct Views {
    made: Arc<Mutex<Vec<(u64, u32)>>>,
    count: Arc<AtomicU32>,
    panics: Arc<AtomicBool>,
}

impl ConstantViews<Device> for Views {
    type Heap = u32;
    type View = View;

    fn make(&self, pool: &Buffer<Device>, slot_bytes: u64, slot_count: u32) -> Result<u32, Error> {
        assert_eq!(pool.size(), slot_bytes * u64::from(slot_count));
        self.made.lock().expect("no panic").push((slot_bytes, slot_count));
        Ok(self.count.fetch_add(1, Ordering::Relaxed))
    }

    fn view(&self, heap: &u32, slot: u32) -> View {
        if self.panics.load(Ordering::Relaxed) {
            resume_unwind(Box::new("a view"));
        }
        View(*heap, slot)
    }
}

struct World {
    base: Fixture,
    views: Views,
}

impl World {
    fn new() -> Self {
        Self { base: Fixture::new(FixtureDesc::default()), views: Views::default() }
    }

    fn constants(&self, desc: ConstantsDesc<'_>) -> ConstantBuffers<Device, Views> {
        ConstantBuffers::new(&self.base.memory, desc, self.views.clone()).expect("there is room")
    }

    fn made(&self) -> Vec<(u64, u32)> {
        std::mem::take(&mut self.views.made.lock().expect("no panic"))
    }

    /// Stages the static contents and waits for their copies. Returns the number of contents and of copies.
    fn upload(&self, constants: &ConstantBuffers<Device, Views>) -> (u64, u64) {
        let (frame, mut batch) = (self.base.timeline().begin(), UploadBatch::new());
        let mut writer = constants.writer(&frame).expect("its own frame");
        let staged = constants.upload_statics(&mut writer, &mut batch).expect("there is room");
        drop(writer);
        let copies = batch.figures().copy_count;
        let mut commands: Vec<Command> = Vec::new();
        // SAFETY: the commands are submitted as the frame of the batch.
        unsafe { batch.record(&mut commands) }.expect("its frame is open");
        self.base.submit_frame(frame, commands);
        assert!(self.base.device.run_until_idle());
        self.base.memory.reclaim();
        (staged, copies)
    }

    fn read(&self, bound: &BoundConstants<Device, View>) -> Vec<u8> {
        self.base.device.peek(BufferRange::new(bound.buffer, bound.offset, bound.size)).expect("the buffer is alive")
    }
}

/// The views of a pool are made for all of its slots, and those of the promoted copies after those of the pool. A bind has
/// the view of its slot, and the address of its bytes. Large constants have no view.
#[test]
fn each_bind_has_the_view_and_the_address_of_its_slot() {
    for promote_reads in [None, Some(1)] {
        let world = World::new();
        let usage = READ | BufferUsage::DEVICE_ADDRESS;
        let desc = ConstantsDesc { dynamic_slots: 8, static_slots: 4, promote_reads, usage, ..Default::default() };
        let constants = world.constants(desc);
        let classes = [256, 512, 1024];
        let repeat = if promote_reads.is_some() { 2 } else { 1 };
        let expected: Vec<_> = classes.iter().flat_map(|bytes| vec![(*bytes, 8); repeat]).collect();
        assert_eq!(world.made(), expected, "{promote_reads:?}");
        let mut held: Vec<_> = [200, 300, 1000, 2000].map(|size| constants.dynamic(size).expect("small")).into();
        for turn in 0..2_u8 {
            let frame = world.base.timeline().begin();
            let mut writer = constants.writer(&frame).expect("its own frame");
            for (nth, dynamic) in held.iter_mut().enumerate() {
                let is_promoted = promote_reads.is_some() && turn == 1;
                let mut base = None;
                for value in 0..3 {
                    dynamic.set(0, &[10 * turn + value + 1]).expect("inside");
                    let bound = writer.bind(dynamic).expect("there is room");
                    assert_eq!(bound.offset % bound.size, 0);
                    let heap = (nth * repeat + usize::from(is_promoted)) as u32;
                    let view = (nth < 3).then(|| View(heap, (bound.offset / bound.size) as u32));
                    assert_eq!(bound.view, view, "{nth}, {value}");
                    let of_buffer = bound.address.expect("the usage has an address") - bound.offset;
                    assert_eq!(*base.get_or_insert(of_buffer), of_buffer, "{nth}, {value}");
                }
            }
            drop(writer);
            frame.discard();
        }
        // Static slots: two pools of four, and a buffer of its own without views.
        let fixed: Vec<_> = (0..5).map(|_| constants.create_static(&[1; 300]).expect("there is room")).collect();
        let large = constants.create_static(&[1; 2000]).expect("there is room");
        assert_eq!(world.made(), [(512, 4); 2]);
        let first = (3 * repeat) as u32;
        let views: Vec<_> = fixed.iter().map(|held| held.bound().view.as_ref().map(|view| (view.0, view.1))).collect();
        let expected = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)].map(|(heap, slot)| Some((first + heap, slot)));
        assert_eq!((views, &large.bound().view), (expected.to_vec(), &None));
        drop((fixed, large, held));
    }
}

/// Only the dynamic pools are rings.
#[test]
fn the_rings_of_constants_are_listed_by_name() {
    let world = World::new();
    let constants = world.constants(ConstantsDesc { name: "scene", ..Default::default() });
    let fixed = constants.create_static(&[1]).expect("there is room");
    let mut names: Vec<_> = world.base.memory.snapshot().rings.into_iter().map(|ring| ring.name).collect();
    names.sort();
    assert_eq!(names, ["1024", "256", "512", "large"].map(|what| format!("scene, dynamic {what}")));
    drop((fixed, constants));
}

/// Usages of the program may contain those that the library adds.
#[test]
fn copies_reach_buffers_whose_usage_names_copies_too() {
    let world = World::new();
    let usage = READ | BufferUsage::COPY_DST;
    let constants = world.constants(ConstantsDesc { usage, promote_reads: Some(1), ..Default::default() });
    let fixed = constants.create_static(&[7; 256]).expect("there is room");
    assert_eq!(world.upload(&constants), (1, 1));
    assert_eq!(world.read(fixed.bound()), [7; 256]);
    let mut dynamic = constants.dynamic(256).expect("small");
    dynamic.set(0, &[5; 256]).expect("inside");
    for _ in 0..2 {
        let frame = world.base.timeline().begin();
        let mut writer = constants.writer(&frame).expect("its own frame");
        let bound = writer.bind(&dynamic).expect("there is room");
        let mut commands: Vec<Command> = Vec::new();
        // SAFETY: the commands are submitted as the frame of the writer.
        unsafe { writer.promoted().record(&mut commands) }.expect("its frame is open");
        drop(writer);
        world.base.submit_frame(frame, commands);
        assert!(world.base.device.run_until_idle());
        assert_eq!(world.read(&bound), [5; 256]);
    }
    assert_eq!(constants.figures().promoted_count, 1);
    assert_eq!(world.base.hazards(), [""; 0]);
    drop(fixed);
}

/// Constants are promoted from three binds for each copy of the previous frame.
#[test]
fn reads_are_counted_for_each_copy() {
    for (binds, is_promoted) in [
        (vec![3], true),
        (vec![2], false),
        (vec![5, 1], true),
        (vec![3, 2], false),
        (vec![1, 1, 6], false),
        (vec![4, 4, 1], true),
    ] {
        let world = World::new();
        let desc = ConstantsDesc { promote_reads: Some(3), share_equal: false, usage: READ, ..Default::default() };
        let constants = world.constants(desc);
        let mut dynamic = constants.dynamic(100).expect("small");
        let frame = world.base.timeline().begin();
        let mut writer = constants.writer(&frame).expect("its own frame");
        for (value, count) in (1..).zip(&binds) {
            // Each new content is a copy.
            dynamic.set(0, &[value]).expect("inside");
            (0..*count).for_each(|_| _ = writer.bind(&dynamic).expect("there is room"));
        }
        let total = binds.iter().sum::<u64>();
        let figures = ConstantFigures {
            bind_count: total,
            copy_count: binds.len() as u64,
            copy_bytes: 100 * binds.len() as u64,
            unchanged_count: total - binds.len() as u64,
            ..Default::default()
        };
        assert_eq!(writer.figures(), figures, "{binds:?}");
        drop(writer);
        frame.discard();
        let frame = world.base.timeline().begin();
        let mut writer = constants.writer(&frame).expect("its own frame");
        writer.bind(&dynamic).expect("there is room");
        assert_eq!(writer.figures().promoted_count, u64::from(is_promoted), "{binds:?}");
        drop(writer);
        frame.discard();
    }
}

/// A pool that grows has another buffer, so unchanged constants are copied into it once, and shared contents too.
#[test]
fn a_pool_that_grew_is_bound_with_its_new_buffer() {
    for share_equal in [false, true] {
        let world = World::new();
        let desc = ConstantsDesc { dynamic_slots: 8, share_equal, usage: READ, ..Default::default() };
        let constants = world.constants(desc);
        let dynamic = constants.dynamic(256).expect("small");
        let frame = world.base.timeline().begin();
        let mut writer = constants.writer(&frame).expect("its own frame");
        let before = writer.bind(&dynamic).expect("there is room").buffer;
        let others: Vec<_> = (0..9_u8)
            .map(|value| {
                let mut other = constants.dynamic(256).expect("small");
                other.set(0, &[value + 1]).expect("inside");
                writer.bind(&other).expect("the pool grows");
                other
            })
            .collect();
        assert_eq!(constants.dynamic_pools()[0].grow_count, 1);
        let after = [(); 3].map(|()| writer.bind(&dynamic).expect("there is room").buffer);
        assert!(after.iter().all(|buffer| *buffer != before && *buffer == after[0]), "{share_equal}");
        assert_eq!((writer.figures().copy_count, writer.figures().unchanged_count), (11, 2), "{share_equal}");
        drop((writer, others));
        frame.discard();
    }
}

/// Contents are staged in the order of their slots. If their frame is not submitted, they come back, and the latest
/// content of each slot is staged, in whatever order the slots were updated.
#[test]
fn contents_that_come_back_are_those_of_their_slots() {
    let world = World::new();
    let constants = world.constants(ConstantsDesc { static_slots: 4, usage: READ, ..Default::default() });
    let sizes = [2000, 1000, 300, 100, 100, 100];
    let mut held: Vec<_> = sizes.iter().map(|size| constants.create_static(&vec![1; *size]).expect("room")).collect();
    let stage = |expected| {
        let frame = world.base.timeline().begin();
        let mut writer = constants.writer(&frame).expect("its own frame");
        assert_eq!(constants.upload_statics(&mut writer, &mut UploadBatch::new()), Ok(expected));
        drop(writer);
        frame.discard();
    };
    stage(6);
    // Each is updated in another order than the slots are.
    for (value, nth) in (10..).zip([5, 0, 3]) {
        held[nth].update(&[value; 64]).expect("it fits");
    }
    drop(held.remove(1));
    stage(5);
    held[1].update(&[20; 64]).expect("it fits");
    stage(5);
    drop(held.remove(2));
    assert_eq!(world.upload(&constants).0, 4);
    let firsts: Vec<_> = held.iter().map(|held: &StaticConstants<Device, Views>| world.read(held.bound())[0]).collect();
    assert_eq!(firsts, [11, 20, 1, 10]);
    assert_eq!(world.upload(&constants), (0, 0));
}

/// An update may be larger or smaller than the content that was not staged yet, and changes no other content.
#[test]
fn an_update_before_the_staging_changes_its_own_content_only() {
    let world = World::new();
    let constants = world.constants(ConstantsDesc { static_slots: 4, usage: READ, ..Default::default() });
    let mut held: Vec<_> = (1..=3).map(|value| constants.create_static(&[value; 64]).expect("room")).collect();
    for (nth, value, size) in [(0, 11, 200), (1, 12, 10), (0, 13, 256), (2, 14, 65)] {
        held[nth].update(&vec![value; size]).expect("it fits");
    }
    assert_eq!(world.upload(&constants), (3, 1));
    for (held, value, size) in [(&held[0], 13, 256), (&held[1], 12, 10), (&held[2], 14, 65)] {
        let mut expected = vec![value; size];
        expected.resize(256, 0);
        assert_eq!(world.read(held.bound()), expected, "{value}");
    }
}

/// Adjacent slots are staged together: at most 8 KiB with one copy.
#[test]
fn a_run_of_static_contents_is_limited() {
    for (size, count, copies) in [(256, 32, 1), (256, 33, 2), (256, 64, 2), (1024, 8, 1), (1024, 9, 2), (9000, 2, 2)] {
        let world = World::new();
        let constants = world.constants(ConstantsDesc { static_slots: 64, usage: READ, ..Default::default() });
        let held: Vec<_> =
            (0..count).map(|value| constants.create_static(&vec![value as u8; size]).expect("there is room")).collect();
        assert_eq!(world.upload(&constants), (count, copies), "{count} of {size} bytes");
        for (value, held) in held.iter().enumerate() {
            assert_eq!(world.read(held.bound())[..size], vec![value as u8; size], "{count} of {size} bytes");
        }
    }
}

/// A run that does not fit into the ring is staged in parts. The rest is staged in later frames.
#[test]
fn a_run_that_does_not_fit_is_staged_in_parts() {
    // By the number of slots of the ring: the contents staged by each frame, and the copies.
    for (slots, staged) in [
        (1, vec![(1, 1); 8]),
        (2, vec![(2, 1), (2, 2), (2, 1), (2, 1)]),
        (3, vec![(3, 2), (3, 2), (2, 1)]),
        (5, vec![(5, 2), (3, 1)]),
        (7, vec![(7, 3), (1, 1)]),
        (8, vec![(8, 1)]),
    ] {
        let world = World::new();
        let bytes = 256 * u64::from(slots);
        let desc = ConstantsDesc {
            dynamic_slots: slots,
            dynamic_bytes_max: bytes,
            timeout: Duration::ZERO,
            static_slots: 8,
            usage: READ,
            ..Default::default()
        };
        let constants = world.constants(desc);
        let held: Vec<_> =
            (1..=8).map(|value| constants.create_static(&[value; 256]).expect("there is room")).collect();
        let mut rest = 8;
        for (count, copies) in staged {
            let (frame, mut batch) = (world.base.timeline().begin(), UploadBatch::new());
            let mut writer = constants.writer(&frame).expect("its own frame");
            rest -= count;
            match constants.upload_statics(&mut writer, &mut batch) {
                Ok(all) => assert_eq!((all, rest), (count, 0), "{slots} slots"),
                Err(error) => {
                    assert!(matches!(error, UploadError::Full { .. }) && rest > 0, "{slots} slots: {error:?}")
                }
            }
            assert_eq!((writer.figures().static_count, batch.figures().copy_count), (count, copies), "{slots} slots");
            drop(writer);
            let mut commands: Vec<Command> = Vec::new();
            // SAFETY: the commands are submitted as the frame of the batch.
            unsafe { batch.record(&mut commands) }.expect("its frame is open");
            world.base.submit_frame(frame, commands);
            assert!(world.base.device.run_until_idle());
        }
        assert_eq!(rest, 0, "{slots} slots");
        for (value, held) in (1..).zip(&held) {
            assert_eq!(world.read(held.bound()), [value; 256], "{slots} slots");
        }
    }
}

/// Bound bytes are for the writer's frame, so an unchanged content is not bound after its end.
#[test]
fn nothing_is_bound_after_the_frame() {
    let world = World::new();
    let constants = world.constants(ConstantsDesc { usage: READ, ..Default::default() });
    let dynamic = constants.dynamic(64).expect("small");
    let frame = world.base.timeline().begin();
    let mut writer = constants.writer(&frame).expect("its own frame");
    let point = frame.point();
    writer.bind(&dynamic).expect("there is room");
    frame.discard();
    assert_eq!(writer.bind(&dynamic).map(drop), Err(UploadError::FrameOver { frame: point }));
    assert_eq!(writer.figures().bind_count, 1, "a refused bind is not counted");
}

/// If the program's code panics while it makes a view, the slot is free again, and nothing is counted.
#[test]
fn a_view_that_panics_takes_no_slot() {
    let world = World::new();
    let constants = world.constants(ConstantsDesc { static_slots: 2, usage: READ, ..Default::default() });
    let create = || catch_unwind(AssertUnwindSafe(|| constants.create_static(&[1; 64]).expect("there is room")));
    let first = create().expect("no panic");
    world.views.panics.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        assert!(create().is_err());
    }
    world.views.panics.store(false, Ordering::Relaxed);
    assert_eq!(constants.static_pool_count(), 1);
    let second = create().expect("no panic");
    assert_eq!((constants.static_pool_count(), second.bound().offset), (1, 256));
    let large = constants.create_static(&[1; 2000]).expect("there is room");
    assert_eq!(constants.static_pool_count(), 2);
    drop(large);
    assert_eq!(constants.static_pool_count(), 1);
    assert_eq!(world.upload(&constants), (2, 1));
    drop((first, second));
}

/// The program's code, here the clone of a view, may bind the same constants again. That bind has a copy of its own.
#[test]
fn a_bind_during_a_bind_has_a_copy_of_its_own() {
    let world = World::new();
    let desc = ConstantsDesc { share_equal: false, usage: READ, ..Default::default() };
    let constants = Arc::new(world.constants(desc));
    let frame = world.base.timeline().begin();
    let dynamic = Arc::new(constants.dynamic(64).expect("small"));
    let mut writer = constants.writer(&frame).expect("its own frame");
    let inner = RefCell::new(constants.writer(&frame).expect("its own frame"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (again, into) = (Arc::clone(&dynamic), Arc::clone(&seen));
    AT_CLONE.set(Some(Box::new(move || {
        let bound = inner.borrow_mut().bind(&again).expect("there is room");
        into.lock().expect("no panic").push(bound.offset);
    })));
    let outer = writer.bind(&dynamic).expect("there is room").offset;
    let nested = std::mem::take(&mut *seen.lock().expect("no panic"));
    assert_eq!(nested.len(), 1, "the view is cloned once");
    assert_ne!(nested[0], outer);
    assert_eq!(writer.bind(&dynamic).map(|bound| bound.offset), Ok(outer), "the outer bind is the last one");
    drop(writer);
    let figures =
        ConstantFigures { bind_count: 3, copy_count: 2, copy_bytes: 128, unchanged_count: 1, ..Default::default() };
    assert_eq!(constants.figures(), figures);
    frame.discard();
}
