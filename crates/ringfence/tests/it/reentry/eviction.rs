//! The eviction callback, and the `Drop` of one that is replaced.

use std::sync::{Arc, Mutex, PoisonError};

use ringfence::device::{BufferDesc, BufferUsage, Requirements, ResourceClass, TextureDesc, TextureUsage};
use ringfence::memory::Allocation;
use ringfence::placement::{BufferRequest, Dynamism, Placement, PlacementDesc, Strategy};
use ringfence::sim::Device;
use ringfence::upload::{ConstantsDesc, ReadbackDesc, UploadDesc, WhenFull};
use ringfence::{AllocationDesc, Allocator, ConstantBuffers, Location, ReadbackRing, UploadBatch, UploadRing};

use crate::reentry::world::{Inside, Limited, buffer, limited, place, usage};

/// An allocator without free memory below the limit, until the callback frees it.
struct Starved<'a>(&'a Allocator<Device>);

impl<'a> Starved<'a> {
    fn new(world: &'a Limited, inside: &Inside) -> Self {
        let hog: Arc<Mutex<Vec<Allocation<Device>>>> = Arc::new(Mutex::new(world.hog().into_iter().collect()));
        let inside = inside.clone();
        world.memory.budgets().set_eviction(Some(Box::new(move |_| {
            let held = || hog.lock().unwrap_or_else(PoisonError::into_inner);
            // Another thread that the callback waits for may free the memory.
            let is_helpful = !held().is_empty();
            inside.run();
            let freed = std::mem::take(&mut *held());
            // SAFETY: no resource was ever placed in it.
            freed.into_iter().for_each(|held| unsafe { held.destroy_now() });
            is_helpful
        })));
        Self(&world.memory)
    }
}

impl Drop for Starved<'_> {
    fn drop(&mut self) {
        self.0.budgets().set_eviction(None);
    }
}

#[test]
fn a_buffer() {
    place("eviction for a buffer", limited(), |world, inside| {
        let _starved = Starved::new(world, inside);
        for _ in 0..3 {
            assert!(buffer(&world.memory, 64 << 10, "made after all").is_some());
        }
    });
}

#[test]
fn a_texture() {
    place("eviction for a texture", limited(), |world, inside| {
        let _starved = Starved::new(world, inside);
        let desc = TextureDesc { width: 64, height: 64, usage: TextureUsage::COPY_DST, ..Default::default() };
        world.memory.create_texture(&desc, AllocationDesc::default()).expect("made after all");
    });
}

#[test]
fn an_allocation() {
    place("eviction for an allocation", limited(), |world, inside| {
        let _starved = Starved::new(world, inside);
        let needs = Requirements {
            size: 1000,
            alignment: 256,
            memory_type_bits: 1,
            class: ResourceClass::Texture,
            prefers_dedicated: false,
            requires_dedicated: false,
        };
        world.memory.allocate(needs, AllocationDesc::default()).expect("made after all");
    });
}

#[test]
fn a_small_buffer() {
    place("eviction for a small buffer", limited(), |world, inside| {
        let _starved = Starved::new(world, inside);
        let desc = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC };
        world.memory.create_small_buffer(desc, Location::Upload).expect("made after all");
    });
}

#[test]
fn a_ring_that_grows() {
    place("eviction for a ring", limited(), |world, inside| {
        let when_full = WhenFull::grow(8 << 20);
        let desc = UploadDesc { capacity: 64 << 10, when_full, ..Default::default() };
        let ring = Arc::new(UploadRing::new(&world.memory, desc).expect("there is room"));
        let frame = world.timeline().begin();
        let other = Arc::clone(&ring);
        inside.also(move |_| {
            let _ = other.write(&vec![1; 5 << 20], 4);
            let _ = other.snapshot();
        });
        let starved = Starved::new(world, inside);
        ring.write(&vec![7; 5 << 20], 4).expect("made after all");
        ring.validate().expect("sound");
        drop(starved);
        world.submit(frame);
        inside.also(|_| ());
    });
}

#[test]
fn a_ring_of_results_that_grows() {
    place("eviction for a ring of results", limited(), |world, inside| {
        let desc = ReadbackDesc { capacity: 64 << 10, when_full: WhenFull::grow(8 << 20), ..Default::default() };
        let ring = ReadbackRing::new(&world.memory, desc).expect("there is room");
        let frame = world.timeline().begin();
        let starved = Starved::new(world, inside);
        let held = ring.reserve(&frame, 5 << 20, 4).expect("made after all");
        ring.validate().expect("sound");
        drop((starved, held));
        world.submit(frame);
    });
}

#[test]
fn buffers_by_placement() {
    for (name, dynamism, size, strategy) in [
        ("eviction for small uploads", Dynamism::Dynamic, 256, None),
        ("eviction for big uploads", Dynamism::Dynamic, 300 << 10, None),
        ("eviction for shared buffers", Dynamism::Static, 4096, Some(Strategy::Suballocated)),
        ("eviction for buffers alone", Dynamism::Static, 3 << 20, None),
    ] {
        let run = move |world: &Limited, inside: &Inside| {
            let desc =
                PlacementDesc { default_block_bytes: 1 << 20, default_buffer_bytes_max: 2 << 20, ..Default::default() };
            let placement = Placement::new(&world.memory, desc).expect("no object is created yet");
            let usage = if dynamism == Dynamism::Dynamic { BufferUsage::COPY_SRC } else { usage() };
            let request = BufferRequest { size, usage, dynamism, strategy, ..Default::default() };
            let _starved = Starved::new(world, inside);
            placement.create_buffer(&request).expect("made after all");
        };
        place(name, limited(), run);
    }
}

fn constants() -> ConstantsDesc<'static> {
    ConstantsDesc {
        dynamic_slots: 16,
        dynamic_bytes_max: 8 << 20,
        static_slots: 4096,
        share_equal: false,
        ..Default::default()
    }
}

#[test]
fn constants_that_grow() {
    place("eviction for constants", limited(), |world, inside| {
        let buffers = ConstantBuffers::new(&world.memory, constants(), ()).expect("there is room");
        let frame = world.timeline().begin();
        let mut writer = buffers.writer(&frame).expect("our own");
        let held = Arc::new(buffers.dynamic(64 << 10).expect("not too large"));
        let (other, bound) = (buffers.clone(), Arc::clone(&held));
        let timeline = world.timeline().clone();
        inside.also(move |_| {
            let frame = timeline.begin();
            let mut writer = other.writer(&frame).expect("our own");
            let _ = writer.bind(&bound);
            drop(writer);
            frame.discard();
        });
        let starved = Starved::new(world, inside);
        for _ in 0..70 {
            let mut one = buffers.dynamic(64 << 10).expect("not too large");
            one.set(0, &[1]).expect("inside");
            writer.bind(&one).expect("bound after all");
            writer.bind(&held).expect("bound after all");
        }
        inside.also(|_| ());
        drop((starved, writer));
        world.submit(frame);
    });
}

#[test]
fn static_constants() {
    place("eviction for static constants", limited(), |world, inside| {
        let buffers = ConstantBuffers::new(&world.memory, constants(), ()).expect("there is room");
        let other = buffers.clone();
        inside.also(move |_| drop(other.create_static(&[1; 1024])));
        let starved = Starved::new(world, inside);
        let held: Vec<_> = (0..2).map(|at| buffers.create_static(&[at; 1024]).expect("made after all")).collect();
        inside.also(|_| ());
        drop((starved, held));
    });
}

/// The contents of static buffers are staged once, whatever happens during the staging.
#[test]
fn static_constants_that_are_staged() {
    place("eviction while static constants are staged", limited(), |world, inside| {
        let buffers = ConstantBuffers::new(&world.memory, constants(), ()).expect("there is room");
        let held: Vec<_> =
            (0..80).map(|at| buffers.create_static(&vec![at; 64 << 10]).expect("there is room")).collect();
        let frame = world.timeline().begin();
        let mut writer = buffers.writer(&frame).expect("our own");
        let (other, timeline) = (buffers.clone(), world.timeline().clone());
        inside.also(move |_| {
            let frame = timeline.begin();
            let mut writer = other.writer(&frame).expect("our own");
            let _ = other.upload_statics(&mut writer, &mut UploadBatch::new());
            drop(writer);
            frame.discard();
        });
        let starved = Starved::new(world, inside);
        let mut batch = UploadBatch::new();
        let staged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            buffers.upload_statics(&mut writer, &mut batch).expect("staged after all")
        }));
        if staged.is_err() {
            // All of them were staged.
            inside.disarm();
            buffers.upload_statics(&mut writer, &mut batch).expect("there is room");
        }
        assert_eq!(batch.figures().copy_bytes, 80 * (64 << 10), "each was staged once");
        inside.also(|_| ());
        drop((starved, writer, batch, held));
        world.submit(frame);
    });
}

/// A value that calls in when it is dropped.
struct AtDrop(Inside);

impl Drop for AtDrop {
    fn drop(&mut self) {
        self.0.run();
    }
}

fn with_drop(inside: &Inside) -> Option<Box<ringfence::memory::Evict>> {
    let at_drop = AtDrop(inside.clone());
    Some(Box::new(move |_| {
        let _ = &at_drop;
        false
    }))
}

#[test]
fn a_callback_that_is_replaced_or_taken_away() {
    place("drop of the eviction callback, replaced", limited(), |world, inside| {
        world.memory.budgets().set_eviction(with_drop(inside));
        inside.also(|memory| memory.budgets().set_eviction(None));
        world.memory.budgets().set_eviction(Some(Box::new(|_| false)));
        inside.also(|_| ());
        world.memory.budgets().set_eviction(None);
    });
    place("drop of the eviction callback, taken away", limited(), |world, inside| {
        world.memory.budgets().set_eviction(with_drop(inside));
        inside.also(|memory| memory.budgets().set_eviction(Some(Box::new(|_| false))));
        world.memory.budgets().set_eviction(None);
        inside.also(|_| ());
        world.memory.budgets().set_eviction(None);
    });
}

#[test]
fn a_callback_that_takes_itself_away() {
    place("an eviction callback that takes itself away", limited(), |world, inside| {
        inside.also(|memory| memory.budgets().set_eviction(None));
        let _starved = Starved::new(world, inside);
        let _ = buffer(&world.memory, 64 << 10, "");
        inside.also(|_| ());
    });
}
