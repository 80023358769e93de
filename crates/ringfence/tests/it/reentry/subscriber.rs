//! A subscriber of `tracing`: reports are made without a lock held, and a panic of the subscriber changes nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringfence::debugging::DebugDesc;
use ringfence::device::{BufferDesc, Requirements, ResourceClass};
use ringfence::memory::Allocation;
use ringfence::sim::Device;
use ringfence::upload::{UploadDesc, WhenFull};
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Location, UploadRing};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::reentry::listening::listen;
use crate::reentry::world::{Inside, Limited, Mode, buffer, limited, place, usage, watched};

/// Runs the caller's code whenever the library makes a report with this name.
struct Listener {
    inside: Inside,
    name: &'static str,
    next: AtomicU64,
    /// Ids of the spans with this name.
    wanted: std::sync::Mutex<Vec<u64>>,
}

impl Listener {
    fn is_wanted(&self, id: &Id) -> bool {
        self.wanted.lock().expect("no panic under it").contains(&id.into_u64())
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "ringfence"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        if span.metadata().name() == self.name {
            self.wanted.lock().expect("no panic under it").push(id);
            self.inside.run();
        }
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, _: &Record<'_>) {
        if self.is_wanted(id) {
            self.inside.run();
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            if field.name() == "message" {
                text = format!("{value:?}");
            }
        });
        if text == self.name {
            self.inside.run();
        }
    }

    fn enter(&self, id: &Id) {
        if self.is_wanted(id) {
            self.inside.run();
        }
    }

    fn exit(&self, id: &Id) {
        if self.is_wanted(id) {
            self.inside.run();
        }
    }

    fn try_close(&self, id: Id) -> bool {
        if self.is_wanted(&id) {
            self.inside.run();
        }
        true
    }
}

fn listening(inside: &Inside, name: &'static str, work: impl FnOnce()) {
    let listener =
        Listener { inside: inside.clone(), name, next: AtomicU64::new(1), wanted: std::sync::Mutex::new(Vec::new()) };
    listen(listener, work);
}

/// Returns a description with which blocks are freed as soon as they are empty.
fn hasty() -> AllocatorDesc {
    AllocatorDesc { empty_blocks_kept: 0, empty_block_grace: 0, ..Default::default() }
}

#[test]
fn memory_is_allocated() {
    place("span of a new block", AllocatorDesc::default(), |world, inside| {
        listening(inside, "allocate_memory", || assert!(buffer(&world.memory, 100 << 10, "").is_some()));
    });
    place("span of a block for slots", AllocatorDesc::default(), |world, inside| {
        listening(inside, "allocate_memory", || {
            let held: Vec<_> = (0..20_000).map(|_| buffer(&world.memory, 512, "")).collect();
            assert!(held.iter().all(Option::is_some));
        });
    });
    place("span of memory of a resource's own", AllocatorDesc::default(), |world, inside| {
        listening(inside, "allocate_memory", || {
            let desc = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
            let info = BufferDesc { size: 4096, usage: usage() };
            world.memory.create_buffer(&info, desc).expect("there is room");
        });
    });
    place("span of a ring's new buffer", AllocatorDesc::default(), |world, inside| {
        let desc = UploadDesc { capacity: 4096, when_full: WhenFull::grow(64 << 20), ..Default::default() };
        let ring = UploadRing::new(&world.memory, desc).expect("there is room");
        let frame = world.timeline().begin();
        listening(inside, "allocate_memory", || _ = ring.write(&vec![1; 20 << 20], 4).expect("there is room"));
        drop(ring);
        world.submit(frame);
    });
    place("span of a reserved block", AllocatorDesc::default(), |world, inside| {
        listening(inside, "allocate_memory", || {
            world.memory.budgets().reserve(ResourceClass::Buffer, 1 << 20, Default::default()).expect("room");
        });
    });
}

#[test]
fn memory_is_freed() {
    place("span of a block that a reclaim frees", hasty(), |world, inside| {
        drop(buffer(&world.memory, 100 << 10, ""));
        listening(inside, "free_memory", || _ = world.memory.reclaim());
    });
    place("span of a block that a trim frees", AllocatorDesc::default(), |world, inside| {
        drop(buffer(&world.memory, 100 << 10, ""));
        world.memory.reclaim();
        listening(inside, "free_memory", || _ = world.memory.budgets().trim());
    });
    place("span of a block that the end frees", AllocatorDesc::default(), |world, inside| {
        drop(buffer(&world.memory, 100 << 10, ""));
        listening(inside, "free_memory", || _ = world.memory.shutdown(Duration::MAX).expect("complete"));
    });
    place("span of a block that a shortage frees", limited(), |world, inside| {
        drop(buffer(&world.memory, 9 << 20, ""));
        world.memory.reclaim();
        drop(buffer(&world.memory, 100 << 10, ""));
        world.memory.reclaim();
        let rest = world.hog();
        listening(inside, "free_memory", || _ = buffer(&world.memory, 40 << 20, ""));
        drop(rest);
    });
}

#[test]
fn the_host_waits() {
    place("span of a wait", AllocatorDesc::default(), |world, inside| {
        listening(inside, "wait", || _ = world.memory.shutdown(Duration::MAX).expect("complete"));
    });
}

#[test]
fn there_is_no_memory() {
    place("event of a shortage", AllocatorDesc::default(), |world, inside| {
        listening(inside, "out of memory", || {
            // The driver refuses allocations beyond the size of its heap.
            let held: Vec<_> = (0..8).filter_map(|_| buffer(&world.memory, 1 << 30, "")).collect();
            assert!(held.len() < 8);
        });
    });
}

fn debugged() -> AllocatorDesc {
    AllocatorDesc { debug: DebugDesc::everything(), ..Default::default() }
}

#[test]
fn something_was_found() {
    place("event of a leak", debugged(), |world, inside| {
        let leaked = buffer(&world.memory, 300, "leaked");
        listening(inside, "debugging", || _ = world.memory.shutdown(Duration::MAX).expect("complete"));
        drop(leaked);
    });
    place("event of an overrun", debugged(), |world, inside| {
        let _held = overrun(world);
        listening(inside, "debugging", || assert_eq!(world.memory.debug().check_guards().overruns.len(), 1));
    });
    place("event of an overrun at the release", debugged(), |world, inside| {
        drop(overrun(world));
        listening(inside, "debugging", || _ = world.memory.reclaim());
    });
}

/// Returns memory with an overrun: a byte was written after its end.
fn overrun(world: &Limited) -> Allocation<Device> {
    let needs = Requirements {
        size: 300,
        alignment: 64,
        memory_type_bits: 1,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    };
    let desc = AllocationDesc { location: Location::Upload, ..Default::default() };
    let held = world.memory.allocate(needs, desc).expect("there is room");
    let first = held.mapped().expect("the host sees it");
    // SAFETY: the byte is inside the memory object, in the guard, which no other code uses.
    unsafe { first.add(300).write(0x42) };
    held
}

#[test]
fn the_device_is_lost() {
    watched("event of a lost device", || {
        let world = Limited::new(AllocatorDesc::default());
        let memory = world.memory.clone();
        let inside = Inside::new(Mode::CallsBack, &memory);
        drop(buffer(&memory, 4096, ""));
        world.device.lose_device();
        listening(&inside, "device lost", || assert!(memory.reclaim().device_lost));
        assert!(inside.calls() > 0, "it was reported");
        inside.over();
    });
}
