//! Mistakes that do not compile. This module is compiled only for tests, which check that each mistake is rejected.

/// Expands to the beginning of all examples.
macro_rules! beginning {
    () => {
        r#"
use ringfence::descriptor::{ShaderVisibleDesc, View};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, ShaderVisibleHeap, sim};
use ringfence::device::descriptors::{BufferView, BufferViewKind};
use ringfence::device::{BufferDesc, BufferUsage, Placed};
use ringfence::memory::RawObject;
let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
let memory = Allocator::over(device.clone(), AllocatorDesc::default());
// SAFETY: nothing is submitted.
let timeline = unsafe { memory.timeline(device.create_fence(0)) }.unwrap();
let info = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC };
let mut buffer = memory.create_buffer(&info, AllocationDesc::default()).unwrap();
let frame = timeline.begin();
"#
    };
}

/// The beginning compiles and runs if the rest has no mistake:
#[doc = concat!("```\n", beginning!(), "timeline.submitted(frame).unwrap();\ndrop(buffer);\n```")]
struct Possible;

macro_rules! refused {
    ($($(#[$why:meta])+ $name:ident = $error:literal, $code:literal;)*) => {
        $($(#[$why])+
        #[doc = concat!("```compile_fail,", $error, "\n", beginning!(), $code, "\n```")]
        struct $name;)*
    };
}

refused! {
    /// Staged bytes whose offset in the buffer is changed:
    StagedBytesMoved = "E0594", "
let mut staged = ringfence::upload::Staged::of(&buffer, 0, 4).unwrap();
staged.offset = 1000;";

    /// Use of a resource after its release:
    UsedAfterRelease = "E0382", "
drop(buffer);
let _ = buffer.object();";

    /// Freeing the bytes of a resource without `unsafe`, which only libraries on top of the allocator need:
    FreedByHand = "E0133", "
let (shared, _object, place) = buffer.into_parts();
shared.destroy_place(place); // The device may still use the bytes.";

    /// Building a resource from parts that do not belong to it:
    MadeOfParts = "E0133", "
let (shared, RawObject::Buffer(object), place) = buffer.into_parts() else { unreachable!() };
let larger = Buffer::new(shared, Placed { object, mapped: None }, place, 1 << 40, Location::Upload);";

    /// Access to the memory of a `Place`, whose allocator may have been dropped:
    UnderAPlace = "E0133", "
let (shared, _object, place) = buffer.into_parts();
drop(shared);
let _ = memory.shared().memory_under(&place);";

    /// Freeing a resource twice:
    FreedTwice = "E0382", "
unsafe { buffer.destroy_now() };
unsafe { buffer.destroy_now() };";

    /// Two owners of a resource:
    TwoOwners = "E0599", "let other = buffer.clone();";

    /// Freeing a resource immediately, without the caller's promise that it is not in use:
    FreedAtOnce = "E0133", "buffer.destroy_now();";

    /// Using a fence without the promise that submissions signal it:
    NoPromise = "E0133", "let other = memory.timeline(device.create_fence(0)).unwrap();";

    /// Submitting a frame twice:
    SubmittedTwice = "E0382", "
timeline.submitted(frame).unwrap();
timeline.submitted(frame).unwrap();";

    /// Two simultaneous writers of one buffer:
    TwoWriters = "E0499", "
std::thread::scope(|scope| {
    scope.spawn(|| buffer.write(0, &[1]));
    scope.spawn(|| buffer.write(0, &[2]));
});";

    /// Using descriptor tables of a frame that is over:
    TablesOfThePast = "E0505", "
let heap = ShaderVisibleHeap::new(&memory, ShaderVisibleDesc::default()).unwrap();
let mut frame_tables = heap.frame_descriptors(&frame).unwrap();
timeline.submitted(frame).unwrap();
let _ = frame_tables.table(&[]);";

    /// Using a view of a dropped resource:
    ViewOfNothing = "E0505", "
let kind = BufferViewKind::Storage { stride: 0, writes: false };
let view = View::buffer(&buffer, BufferView { kind, offset: 0, size: 256 }).unwrap();
drop(buffer);
drop(view);";

    /// Freeing a block of a pool twice:
    BlockFreedTwice = "E0382", "
let chain = ringfence_lockfree::pool_chain::PoolChain::<u32>::new(16, 1);
let block = chain.reserve(4).unwrap().open(0);
chain.free(block).unwrap();
chain.free(block).unwrap();";
}
