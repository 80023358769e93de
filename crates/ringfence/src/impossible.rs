//! Mistakes that do not compile. Compiled as tests only: each of these has to be refused.

/// How all of them begin.
macro_rules! beginning {
    () => {
        r#"
use ringfence::descriptor::{ShaderVisibleDesc, ShaderVisibleHeap, View};
use ringfence::device::descriptors::{BufferView, BufferViewKind};
use ringfence::device::{BufferDesc, BufferUsage, Placed};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, RawObject, sim};
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

/// What the beginning does when nothing is wrong:
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
    /// Use after it was released:
    UsedAfterRelease = "E0382", "
drop(buffer);
let _ = buffer.object();";

    /// The bytes of a resource freed by hand, which is what libraries do that build on the allocator:
    FreedByHand = "E0133", "
let (shared, _object, place) = buffer.into_parts();
shared.destroy_place(place); // The device may still use them.";

    /// A resource made of parts that are not its own:
    MadeOfParts = "E0133", "
let (shared, RawObject::Buffer(object), place) = buffer.into_parts() else { unreachable!() };
let larger = Buffer::new(shared, Placed { object, mapped: None }, place, 1 << 40, Location::Upload);";

    /// The memory under a place whose allocator may be gone:
    UnderAPlace = "E0133", "
let (shared, _object, place) = buffer.into_parts();
drop(shared);
let _ = memory.shared().memory_under(&place);";

    /// Freed twice:
    FreedTwice = "E0382", "
unsafe { buffer.destroy_now() };
unsafe { buffer.destroy_now() };";

    /// Two owners:
    TwoOwners = "E0599", "let other = buffer.clone();";

    /// Freed at once, during use maybe, without a word of the caller's own that it is not in use:
    FreedAtOnce = "E0133", "buffer.destroy_now();";

    /// A fence without the promise that submissions signal it:
    NoPromise = "E0133", "let other = memory.timeline(device.create_fence(0)).unwrap();";

    /// A frame that is submitted twice:
    SubmittedTwice = "E0382", "
timeline.submitted(frame).unwrap();
timeline.submitted(frame).unwrap();";

    /// Two writers of one buffer at once:
    TwoWriters = "E0499", "
std::thread::scope(|scope| {
    scope.spawn(|| buffer.write(0, &[1]));
    scope.spawn(|| buffer.write(0, &[2]));
});";

    /// Descriptor tables of a frame that is over:
    TablesOfThePast = "E0505", "
let heap = ShaderVisibleHeap::new(&memory, ShaderVisibleDesc::default()).unwrap();
let mut frame_tables = heap.frame_descriptors(&frame).unwrap();
timeline.submitted(frame).unwrap();
let _ = frame_tables.table(&[]);";

    /// A view of what is gone:
    ViewOfNothing = "E0505", "
let kind = BufferViewKind::Storage { stride: 0, writes: false };
let view = View::buffer(&buffer, BufferView { kind, offset: 0, size: 256 }).unwrap();
drop(buffer);
drop(view);";

    /// A block of a pool that is freed twice:
    BlockFreedTwice = "E0382", "
let chain = ringfence::algorithms::pool_chain::PoolChain::<u32>::new(16, 1);
let block = chain.reserve(4).unwrap().open(0);
chain.free(block).unwrap();
chain.free(block).unwrap();";
}
