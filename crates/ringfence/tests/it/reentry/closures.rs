//! Closures of the caller, and values with methods of the caller.

use std::fmt;
use std::sync::Arc;

use ringfence::alias::PassUse;
use ringfence::defrag::DefragDesc;
use ringfence::device::fault::FaultInjector;
use ringfence::device::record::{CopyRegion, Record, TexelRead, TexelRegion, TextureCopy, TextureTarget};
use ringfence::device::{BufferDesc, TextureDesc};
use ringfence::memory::Error;
use ringfence::sim::{self, BufferId as Buffer, Device, TextureId as Texture};
use ringfence::transient::{Described, TransientDesc};
use ringfence::upload::{ConstantViews, ConstantsDesc, TransferQueue, UploadDesc, WhenFull};
use ringfence::{AllocationDesc, AllocatorDesc, ConstantBuffers, TransientAllocator, UploadBatch, UploadRing};

use crate::reentry::world::{Inside, place, usage, watched};

/// The step of a view's life in which the caller's code acts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Make,
    View,
    Clone,
    Drop,
    DropOfHeap,
    DropOfAll,
}

struct Views(At, Inside);

struct Heap(At, Inside);

struct View(At, Inside, u32);

impl Clone for View {
    fn clone(&self) -> Self {
        at(At::Clone, self.0, &self.1);
        Self(self.0, self.1.clone(), self.2)
    }
}

impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        self.2 == other.2
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({})", self.2)
    }
}

fn at(here: At, wanted: At, inside: &Inside) {
    if here == wanted {
        inside.run();
    }
}

impl Drop for View {
    fn drop(&mut self) {
        at(At::Drop, self.0, &self.1);
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        at(At::DropOfHeap, self.0, &self.1);
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        at(At::DropOfAll, self.0, &self.1);
    }
}

impl ConstantViews<Device> for Views {
    type Heap = Heap;
    type View = View;

    fn make(&self, _: &ringfence::Buffer<Device>, _: u64, _: u32) -> Result<Heap, Error> {
        at(At::Make, self.0, &self.1);
        Ok(Heap(self.0, self.1.clone()))
    }

    fn view(&self, _: &Heap, slot: u32) -> View {
        at(At::View, self.0, &self.1);
        View(self.0, self.1.clone(), slot)
    }
}

#[test]
fn views_of_constants() {
    for (name, wanted) in [
        ("ConstantViews::make", At::Make),
        ("ConstantViews::view", At::View),
        ("clone of a view", At::Clone),
        ("drop of a view", At::Drop),
        ("drop of a heap of views", At::DropOfHeap),
        ("drop of the maker of views", At::DropOfAll),
    ] {
        place(name, AllocatorDesc::default(), move |world, inside| {
            let desc = ConstantsDesc { dynamic_slots: 32, static_slots: 1, ..Default::default() };
            let views = Views(wanted, inside.clone());
            let buffers = ConstantBuffers::new(&world.memory, desc, views).expect("there is room");
            let frame = world.timeline().begin();
            let mut writer = buffers.writer(&frame).expect("our own");
            let held = Arc::new(buffers.dynamic(256).expect("not too large"));
            let (other, bound, timeline) = (buffers.clone(), Arc::clone(&held), world.timeline().clone());
            inside.also(move |_| {
                let frame = timeline.begin();
                let mut writer = other.writer(&frame).expect("our own");
                let _ = writer.bind(&bound);
                for _ in 0..300 {
                    let mut one = other.dynamic(256).expect("not too large");
                    one.set(0, &[1]).expect("inside");
                    let _ = writer.bind(&one);
                }
                let _ = other.create_static(&[1; 1000]);
                let _ = other.dynamic_pools();
                drop(writer);
                frame.discard();
            });
            for at in 0..300_u32 {
                // Bound twice, it keeps its slot; after a change, there is one more copy.
                drop((writer.bind(&held).expect("there is room"), writer.bind(&held).expect("there is room")));
                let mut one = buffers.dynamic(256).expect("not too large");
                one.set(0, &at.to_le_bytes()).expect("inside");
                writer.bind(&one).expect("there is room");
            }
            let statics: Vec<_> = (0..3).map(|at| buffers.create_static(&[at; 1000]).expect("there is room")).collect();
            let large = buffers.create_static(&[1; 5000]).expect("there is room");
            let mut batch = UploadBatch::new();
            buffers.upload_statics(&mut writer, &mut batch).expect("there is room");
            inside.also(|_| ());
            drop((statics, large, writer, held));
            world.submit(frame);
            world.memory.reclaim();
        });
    }
}

#[test]
fn a_fill() {
    place("UploadWriter::write_with", AllocatorDesc::default(), |world, inside| {
        let desc = UploadDesc { capacity: 64 << 10, when_full: WhenFull::Fail, ..Default::default() };
        let ring = Arc::new(UploadRing::new(&world.memory, desc).expect("there is room"));
        let frame = world.timeline().begin();
        let mut writer = ring.writer(&frame).expect("our own");
        let other = Arc::clone(&ring);
        inside.also(move |_| {
            let _ = other.write(&[1; 64], 4);
            let _ = (other.snapshot(), other.validate());
        });
        let fill = |to: &mut [std::mem::MaybeUninit<u8>]| {
            inside.run();
            to.fill(std::mem::MaybeUninit::new(9));
        };
        writer.write_with(64, 4, fill).expect("there is room");
        inside.also(|_| ());
        drop(writer);
        world.submit(frame);
        world.memory.reclaim();
        assert_eq!(ring.snapshot().used_bytes, 0, "no byte of the ring is lost");
        ring.validate().expect("sound");
    });
}

/// After a panic, as after an error, all added copies are kept, and the ring reuses none of their bytes.
#[test]
fn a_submission() {
    place("TransferQueue::submit", AllocatorDesc::default(), |world, inside| {
        let desc = UploadDesc { capacity: 4096, when_full: WhenFull::Fail, ..Default::default() };
        let ring = UploadRing::new(&world.memory, desc).expect("there is room");
        let to = world.memory.create_buffer(&BufferDesc { size: 1024, usage: usage() }, AllocationDesc::default());
        let to = to.expect("there is room");
        let mut queue = TransferQueue::new(world.timeline().clone(), ring);
        queue.upload(&[1; 300], &to, 0).expect("there is room");
        let submit = |queue: &mut TransferQueue<Device>, inside: Option<&Inside>| {
            queue.submit(|batch, value| {
                inside.into_iter().for_each(Inside::run);
                let mut commands = Vec::new();
                // SAFETY: the frame is open, and submitted below.
                unsafe { batch.record(&mut commands) }.expect("its frame is open");
                world.device.submit(0, &[], commands, (world.fence(), value))
            })
        };
        let first = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| submit(&mut queue, Some(inside))));
        if first.is_err() {
            world.memory.reclaim();
            // Later writes get other bytes.
            let frame = world.timeline().begin();
            queue.ring().write_for(&frame, &[2; 300], 4).expect("there is room");
            frame.discard();
            submit(&mut queue, None).expect("not lost").expect("it was kept");
        }
        assert!(world.device.run_until_idle());
        let seen = world.device.peek(sim::BufferRange::new(*to.object(), 0, 300)).expect("alive");
        assert_eq!(seen, [1; 300], "the bytes that were sent");
        world.memory.reclaim();
        assert_eq!(queue.ring().snapshot().used_bytes, 0, "no byte of the ring is lost");
    });
}

#[test]
fn planning() {
    place("TransientAllocator::suggest_order", AllocatorDesc::default(), |world, inside| {
        let desc = TransientDesc { heap_bytes: 1 << 20, ..Default::default() };
        let mut transient = TransientAllocator::new(&world.memory, desc);
        let target = TextureDesc { width: 64, height: 64, ..Default::default() };
        let uses: Vec<_> = (0..6).map(|at| [PassUse::write(at), PassUse::read(11 - at)]).collect();
        let resources: Vec<_> = uses.iter().map(|uses| (Described::Texture(&target), &uses[..])).collect();
        let advice = transient.suggest_order(12, &resources, &[], |_| {
            inside.run();
            true
        });
        advice.expect("there is an order");
        transient.validate().expect("sound");
    });
}

/// Counts the recorded commands; the caller's code runs in each call.
struct Recorder<'a> {
    inside: &'a Inside,
    commands: Vec<sim::Command>,
    at: &'static str,
}

impl Record<Device> for Recorder<'_> {
    unsafe fn begin_copies(&mut self, _: &[Buffer], _: &[TextureTarget<Texture>]) {
        if self.at == "begin" {
            self.inside.run();
        }
    }

    unsafe fn copy_buffer(&mut self, src: &Buffer, dst: &Buffer, regions: &[CopyRegion]) {
        if self.at == "copy" {
            self.inside.run();
        }
        // SAFETY: the caller makes the same promise.
        unsafe { self.commands.copy_buffer(src, dst, regions) };
    }

    unsafe fn copy_buffer_to_texture(&mut self, src: &Buffer, dst: &Texture, region: &TexelRegion) {
        // SAFETY: the caller makes the same promise.
        unsafe { self.commands.copy_buffer_to_texture(src, dst, region) };
    }

    unsafe fn read_texels(&mut self, reads: &[TexelRead<Texture, Buffer>]) {
        // SAFETY: the caller makes the same promise.
        unsafe { self.commands.read_texels(reads) };
    }

    unsafe fn copy_textures(&mut self, copies: &[TextureCopy<Texture>]) {
        if self.at == "textures" {
            self.inside.run();
        }
        // SAFETY: the caller makes the same promise.
        unsafe { self.commands.copy_textures(copies) };
    }

    unsafe fn end_copies(&mut self, _: &[Buffer], _: &[TextureTarget<Texture>]) {
        if self.at == "end" {
            self.inside.run();
        }
    }
}

/// Copies that a recorder did not record completely because it panicked are recorded by the next one.
#[test]
fn recording_of_moves() {
    for at in ["begin", "copy", "end"] {
        let desc =
            AllocatorDesc { device_block_bytes_max: 256 << 10, host_block_bytes_max: 256 << 10, ..Default::default() };
        place("DefragPass::record", desc, move |world, inside| {
            let make = |user_data| {
                let desc = AllocationDesc { movable: true, user_data, ..Default::default() };
                world.memory.create_buffer(&BufferDesc { size: 60 << 10, usage: usage() }, desc).expect("there is room")
            };
            let mut held: Vec<_> = (0..32).map(|at| Some(make(at))).collect();
            held.iter_mut().enumerate().filter(|(at, _)| at % 4 != 0).for_each(|(_, one)| drop(one.take()));
            world.memory.reclaim();
            let mut run = world.memory.defragment(DefragDesc { host_memory: true, ..Default::default() });
            let frame = world.timeline().begin();
            let mut pass = run.begin_pass(&frame).expect("our own frame");
            assert!(!pass.moves().is_empty());
            for buffer in held.iter_mut().flatten() {
                let _ = pass.copy_buffer(buffer);
            }
            let count = pass.copies().len();
            let mut record = || {
                let mut recorder = Recorder { inside, commands: Vec::new(), at };
                // SAFETY: the list is submitted as the pass's frame.
                unsafe { pass.record(&mut recorder) };
                recorder.commands
            };
            let first = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut record));
            let commands = first.unwrap_or_else(|_| record());
            assert_eq!(commands.len(), count, "each copy is recorded");
            assert!(record().is_empty(), "and once");
            drop(pass);
            world.device.submit(0, &[], commands, (world.fence(), frame.value())).expect("the device is not lost");
            world.timeline().submitted(frame).expect("in order");
            assert!(world.device.run_until_idle());
        });
    }
}

/// The previous hook of a fault injector is dropped outside of the injector's lock.
#[test]
fn the_hook_of_an_injector() {
    struct AtDrop(FaultInjector);
    impl Drop for AtDrop {
        fn drop(&mut self) {
            self.0.clear();
            let _ = self.0.injected();
        }
    }
    watched("drop of an injector's hook", || {
        let device = Device::new(sim::Profile::h200(), sim::SimOptions::default());
        let (_device, faults) = FaultInjector::new(device);
        for _ in 0..2 {
            let at_drop = AtDrop(faults.clone());
            faults.set_hook(Some(Box::new(move |_, _| _ = &at_drop)));
        }
        faults.set_hook(None);
    });
}
