//! Constant buffers: small, of few sizes, static or dynamic, each with a view that is made
//! once.
//!
//! ```text
//!              256      512      1024     larger, up to 64 KiB
//!   dynamic   ring     ring     ring      ring                a copy for each change that is used
//!   static    pools    pools    pools     a buffer each       in device memory; a stable place, staged when changed
//!                │
//!                └─ slot 0 │ slot 1 │ …   one view a slot, made with the pool ([`ConstantViews`])
//! ```
//!
//! - A *dynamic* buffer ([`DynamicConstants`]) keeps its content in host memory. [`ConstantWriter::bind`] copies it to
//!   the ring of its size when it is used, unless the same content was copied in the same frame already and the ring
//!   has not changed its buffer; equal content of one frame shares one copy.
//! - A *static* buffer ([`StaticConstants`]) has one place for its life. New content is collected and staged once a
//!   frame ([`ConstantBuffers::upload_statics`]), with two barriers for each pool that is touched.
//! - The rings lie in device memory that the host writes where there is some, else in upload memory
//!   ([`ConstantsDesc::location`]). With [`ConstantsDesc::promote_reads`], which is off by default, content that was
//!   bound at least that often for each copy in the previous frame is *promoted*: it is copied to device memory, at the
//!   same offset of a buffer as large as the pool, and read there. That helps where the host cannot write to device
//!   memory.
//! - Constants above 1024 bytes have pools of their own, and no views, as they are rare. Data above
//!   [`ConstantBuffers::BYTES_MAX`] belongs in a storage buffer: neither API binds it as constants.
//!
//! | operation | cost |
//! |---|---|
//! | set the content | O(bytes) |
//! | bind, unchanged in this frame | O(1), one short lock of the buffer's own |
//! | bind, changed | O(bytes): a hash, a comparison, a copy; the ring's lock once in 32 slots |
//! | make or drop a static | O(log pools), one short lock; a buffer if all pools are full |
//! | upload statics | O(changed · log changed) |

mod dynamic;
mod pending;
mod pools;
mod share;
mod statics;

use std::fmt;
use std::panic;
use std::sync::Arc;
use std::time::Duration;

use crate::device::lock::Lock;

use super::fill::check_location;
use super::state::RingState;
use super::{UploadBatch, UploadDesc, UploadError, WhenFull, segment};
use crate::device::{BufferUsage, Device, RawBuffer};
use crate::upload::segment::divided_buffer;
use ringfence_memory::lifetime::Frame;
use ringfence_memory::memory::{Location, RingSnapshot};
use ringfence_memory::{Allocator, Buffer, Error};

pub use dynamic::{ConstantWriter, DynamicConstants};
pub use statics::StaticConstants;

/// Sizes of slots, in bytes.
const CLASS_BYTES: [u64; 3] = [256, 512, 1024];
/// The class of what is larger.
const LARGE: usize = CLASS_BYTES.len();
const CLASSES: usize = LARGE + 1;
/// What every place of constants is a multiple of: both APIs' largest demand.
const ALIGNMENT: u64 = 256;
/// Slots that a writer takes of a ring at a time.
const PAGE_SLOTS: u64 = 32;

/// Makes the views of constant buffers: a heap of them for each pool, one view a slot.
///
/// Its functions, and `Clone` and `Drop` of views and heaps, are called with no lock held: they may use the allocator,
/// and if one panics nothing is lost.
///
/// A heap is dropped with its pool. `()` makes no views.
pub trait ConstantViews<D: Device>: Send + Sync + 'static {
    /// The views of one pool.
    type Heap: Send + Sync + 'static;
    /// The view of one slot.
    type View: Clone + PartialEq + fmt::Debug + Send + Sync + 'static;

    /// Makes the views of a new pool: a buffer that is cut into `slot_count` slots of `slot_bytes` each (256, 512 or
    /// 1024).
    ///
    /// # Errors
    /// Then the pool is not made either.
    fn make(&self, pool: &Buffer<D>, slot_bytes: u64, slot_count: u32) -> Result<Self::Heap, Error>;

    /// The view of a slot of those.
    fn view(&self, heap: &Self::Heap, slot: u32) -> Self::View;
}

/// No views: for programs that bind constants by address or by offset.
impl<D: Device> ConstantViews<D> for () {
    type Heap = ();
    type View = ();

    fn make(&self, _: &Buffer<D>, _: u64, _: u32) -> Result<(), Error> {
        Ok(())
    }

    fn view(&self, _heap: &(), _slot: u32) {}
}

/// How constant buffers are set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConstantsDesc<'a> {
    /// Slots that each dynamic pool begins with; the one for large constants begins with as many of 1024 bytes.
    pub dynamic_slots: u32,
    /// The most bytes to which a dynamic pool grows.
    pub dynamic_bytes_max: u64,
    /// How long a bind waits at most if a pool is full and may not grow.
    pub timeout: Duration,
    /// A dynamic pool is halved after this many calls of [`Allocator::reclaim`](crate::Allocator::reclaim) in which it
    /// was at most a quarter full; a static pool is released after as many in which it was empty.
    pub shrink_after: u32,
    /// Slots of each static pool.
    pub static_slots: u32,
    /// Constants that were bound at least this often for each copy in the previous frame are read from device memory:
    /// [`ConstantWriter::promoted`] collects the copies, which are made once, before the frame's draws. `None`, the
    /// default, promotes nothing, since [`ConstantsDesc::location`] is faster on devices that have such memory;
    /// [`ConstantsDesc::PROMOTE_READS`] is the measured number for those that have none.
    pub promote_reads: Option<u32>,
    /// Whether equal content of one frame and writer shares one copy. This costs a hash of the content for each copy.
    pub share_equal: bool,
    /// What the constants may be used for, besides.
    pub usage: BufferUsage,
    /// The location of dynamic constants; by default device memory that the host writes, and upload memory on devices
    /// that have none of that to spare. Measured on an NVIDIA H200 by the example `constants_placement` (512 slots of
    /// 256 bytes, one draw of all): reading there takes 0.55 of the time of upload memory at one read a frame, 0.66 at
    /// 16 and 0.81 at 128, the writes included.
    pub location: Location,
    /// A name for reports and for the drivers' objects.
    pub name: &'a str,
}

impl ConstantsDesc<'_> {
    /// From this number of reads a frame on, a copy to device memory costs less than it saves: 0.97 of the time
    /// of upload memory at 32 reads and 0.93 at 64, and up to 1.1 below, on an NVIDIA H200 by the example
    /// `constants_placement`. Where each draw reads a slot of its own, starting the draws hides all of it.
    pub const PROMOTE_READS: u32 = 32;
}

impl Default for ConstantsDesc<'_> {
    fn default() -> Self {
        Self {
            dynamic_slots: 1024,
            dynamic_bytes_max: 64 << 20,
            timeout: Duration::from_secs(10),
            shrink_after: 600,
            static_slots: 1024,
            promote_reads: None,
            share_equal: true,
            usage: BufferUsage::CONSTANT,
            location: Location::DeviceUpload,
            name: "constants",
        }
    }
}

/// Bound constants: where a shader reads them.
pub struct BoundConstants<D: Device, V> {
    /// The driver's buffer.
    pub buffer: RawBuffer<D>,
    /// The first byte there, a multiple of 256.
    pub offset: u64,
    /// Bytes that shaders may read there: the size of the slot. Those behind the content are 0.
    pub size: u64,
    /// The device address of the first byte, if the buffers were made with one.
    pub address: Option<u64>,
    /// The slot's view; none for constants above 1024 bytes.
    pub view: Option<V>,
}

impl<D: Device, V: Clone> Clone for BoundConstants<D, V> {
    fn clone(&self) -> Self {
        Self { buffer: self.buffer.clone(), view: self.view.clone(), ..*self }
    }
}

impl<D: Device, V: fmt::Debug> fmt::Debug for BoundConstants<D, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { buffer, offset, size, view, .. } = self;
        write!(f, "BoundConstants({buffer:?} from {offset}, {size} bytes, {view:?})")
    }
}

/// How many copies were made for constants, and how many were saved.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ConstantFigures {
    /// Dynamic buffers that were bound.
    pub bind_count: u64,
    /// Copies made for them.
    pub copy_count: u64,
    /// Bytes of those.
    pub copy_bytes: u64,
    /// Binds that needed no copy, since the content was copied in the same frame to the same pool.
    pub unchanged_count: u64,
    /// Binds that found equal content of another buffer, or an earlier one of the same.
    pub shared_count: u64,
    /// Contents of static buffers that were staged.
    pub static_count: u64,
    /// Contents that were promoted to device memory, since they are read often.
    pub promoted_count: u64,
}

impl ConstantFigures {
    fn add(&mut self, more: &Self) {
        self.bind_count += more.bind_count;
        self.copy_count += more.copy_count;
        self.copy_bytes += more.copy_bytes;
        self.unchanged_count += more.unchanged_count;
        self.shared_count += more.shared_count;
        self.static_count += more.static_count;
        self.promoted_count += more.promoted_count;
    }
}

/// What goes with a dynamic pool, slot by slot.
struct Paired<D: Device, H> {
    /// None for large constants.
    heap: Option<H>,
    /// There iff constants are promoted.
    mirror: Option<Mirror<D, H>>,
}

/// A buffer in device memory of the same size as the pool: what is promoted lies at the same offset there, so that it
/// comes and goes with its slot.
struct Mirror<D: Device, H> {
    buffer: Buffer<D>,
    address: Option<u64>,
    heap: Option<H>,
}

/// Constant buffers of an allocator: static and dynamic ones of 256, 512 and 1024 bytes, and larger ones up to 64 KiB.
/// All methods may be called from any thread.
///
/// Cheap to clone; every clone is the same. It lives as long as the buffers that it made.
pub struct ConstantBuffers<D: Device, V: ConstantViews<D> = ()> {
    shared: Arc<Shared<D, V>>,
}

struct Shared<D: Device, V: ConstantViews<D>> {
    memory: Allocator<D>,
    desc: ConstantsDesc<'static>,
    name: String,
    /// The line of the program that made it.
    at: &'static panic::Location<'static>,
    views: Arc<V>,
    /// One a class.
    dynamic: [Arc<RingState<D>>; CLASSES],
    statics: Arc<statics::Statics<D, V>>,
    figures: Lock<ConstantFigures>,
}

impl<D: Device, V: ConstantViews<D>> ConstantBuffers<D, V> {
    /// The largest constants, in bytes: the limit of Direct3D 12, and of most Vulkan devices.
    pub const BYTES_MAX: u64 = 64 << 10;

    /// Makes an owner of constant buffers, static and dynamic. `views` makes the views of their pools; `()` makes none.
    ///
    /// # Errors
    /// As `UploadRing::new`, and those of `views`.
    #[track_caller]
    pub fn new(memory: &Allocator<D>, desc: ConstantsDesc<'_>, views: V) -> Result<Self, Error> {
        check_location(desc.location)?;
        let views = Arc::new(views);
        let at = panic::Location::caller();
        let ring = |class: usize| dynamic_ring(memory, &desc, &views, class, at);
        let dynamic = [ring(0)?, ring(1)?, ring(2)?, ring(LARGE)?];
        let shared = Arc::new(Shared {
            memory: memory.clone(),
            name: desc.name.to_owned(),
            at,
            statics: statics::Statics::new(memory, desc.shrink_after),
            desc: ConstantsDesc { name: "", ..desc },
            views,
            dynamic,
            figures: Lock::default(),
        });
        Ok(Self { shared })
    }

    /// Makes a dynamic buffer of `size` bytes, all 0. It takes no device memory until it is bound.
    ///
    /// # Errors
    /// [`UploadError::ZeroSize`]; [`UploadError::TooLarge`] above [`ConstantBuffers::BYTES_MAX`].
    pub fn dynamic(&self, size: u64) -> Result<DynamicConstants<D, V>, UploadError> {
        DynamicConstants::new(self, size)
    }

    /// Makes a static buffer with this content, which is on the device after the next
    /// [`ConstantBuffers::upload_statics`].
    ///
    /// # Errors
    /// [`UploadError::ZeroSize`]; [`UploadError::TooLarge`] above [`ConstantBuffers::BYTES_MAX`]; no memory for one
    /// more pool. Nothing has changed then.
    pub fn create_static(&self, content: &[u8]) -> Result<StaticConstants<D, V>, UploadError> {
        StaticConstants::new(self, content)
    }

    /// Stages the new contents of static buffers since the last call, in the dynamic pools, and adds the copies to
    /// `batch`; returns for how many buffers. Record the batch before anything that uses them, in the frame of
    /// `writer`. If that frame is discarded or dropped, the next call stages its contents again.
    ///
    /// # Errors
    /// As [`UploadWriter::write`](super::UploadWriter::write); [`UploadError::ForeignConstants`] if the writer is of
    /// other [`ConstantBuffers`], or the batch of another allocator. Contents that were staged by then are in the
    /// batch; the others are staged by the next call.
    pub fn upload_statics(
        &self,
        writer: &mut ConstantWriter<D, V>,
        batch: &mut UploadBatch<D>,
    ) -> Result<u64, UploadError> {
        if !writer.is_of(&self.shared) || !batch.takes(self.shared.memory.shared().owner()) {
            return Err(UploadError::ForeignConstants);
        }
        self.shared.statics.upload(writer, batch)
    }

    /// Makes a writer for one thread, for the submission of `frame`: it binds dynamic buffers. Keep it for later
    /// frames: [`ConstantWriter::begin`].
    ///
    /// # Errors
    /// The frame is of another allocator.
    pub fn writer(&self, frame: &Frame) -> Result<ConstantWriter<D, V>, UploadError> {
        ConstantWriter::new(self, frame)
    }

    /// The figures of all frames. What writers did since their frame began is not included.
    #[must_use]
    pub fn figures(&self) -> ConstantFigures {
        *self.shared.figures.lock()
    }

    /// The dynamic pools' figures, by class: 256, 512, 1024 and larger.
    #[must_use]
    pub fn dynamic_pools(&self) -> [RingSnapshot; 4] {
        self.shared.dynamic.each_ref().map(|ring| ring.shown())
    }

    /// How many static pools there are; large constants count one each.
    #[must_use]
    pub fn static_pool_count(&self) -> usize {
        self.shared.statics.pool_count()
    }
}

impl<D: Device, V: ConstantViews<D>> Clone for ConstantBuffers<D, V> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<D: Device, V: ConstantViews<D>> fmt::Debug for ConstantBuffers<D, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConstantBuffers").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

/// The class for a size, and the bytes that it takes there.
fn classify(size: u64, max: u64) -> Result<(usize, u64), UploadError> {
    match size {
        0 => Err(UploadError::ZeroSize),
        _ if size > max => Err(UploadError::TooLarge { size, capacity: max }),
        _ => Ok(match CLASS_BYTES.iter().position(|bytes| size <= *bytes) {
            Some(class) => (class, CLASS_BYTES[class]),
            None => (LARGE, size.next_multiple_of(ALIGNMENT)),
        }),
    }
}

fn dynamic_ring<D: Device, V: ConstantViews<D>>(
    memory: &Allocator<D>,
    desc: &ConstantsDesc<'_>,
    views: &Arc<V>,
    class: usize,
    at: &'static panic::Location<'static>,
) -> Result<Arc<RingState<D>>, Error> {
    let slot_bytes = CLASS_BYTES[class.min(LARGE - 1)];
    let what = ["256", "512", "1024", "large"][class];
    let capacity = u64::from(desc.dynamic_slots.max(1)) * slot_bytes;
    let name = format!("{}, dynamic {what}", desc.name);
    let ring = UploadDesc {
        // The largest constants fit even into the smallest ring.
        capacity: if class == LARGE { capacity.max(64 << 10) } else { capacity },
        usage: desc.usage | BufferUsage::COPY_SRC,
        when_full: WhenFull::Grow {
            capacity_max: desc.dynamic_bytes_max,
            timeout: desc.timeout,
            shrink_after: desc.shrink_after,
        },
        location: desc.location,
        page_bytes: PAGE_SLOTS * slot_bytes,
        name: &name,
    };
    let (views, memory_too, promotes) = (Arc::clone(views), memory.clone(), desc.promote_reads.is_some());
    let (mirror_name, mirror_usage) = (format!("{}, promoted {what}", desc.name), desc.usage | BufferUsage::COPY_DST);
    let pair = move |buffer: &Buffer<D>, capacity: u64| -> Result<segment::Paired, Error> {
        let heap = |buffer: &Buffer<D>| -> Result<Option<V::Heap>, Error> {
            let slots = (capacity / slot_bytes) as u32;
            (class != LARGE).then(|| views.make(buffer, slot_bytes, slots)).transpose()
        };
        let mirror = || -> Result<Mirror<D, V::Heap>, Error> {
            let (location, named) = (Location::Device, (&*mirror_name, at));
            let buffer = divided_buffer(&memory_too, capacity, mirror_usage, location, named)?;
            Ok(Mirror { address: buffer.device_address(), heap: heap(&buffer)?, buffer })
        };
        Ok(Box::new(Paired { heap: heap(buffer)?, mirror: promotes.then(mirror).transpose()? }))
    };
    let pair: segment::Pair<D> = Box::new(pair);
    RingState::new(memory, ring, true, Some(pair), at)
}
