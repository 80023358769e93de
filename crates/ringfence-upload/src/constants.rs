//! Static and dynamic constant buffers in a few size classes. Each slot of up to 1024 bytes has a view, which is
//! created with its pool.
//!
//! ```text
//!              256      512      1024     larger, up to 64 KiB
//!   dynamic   ring     ring     ring      ring                a copy for each change that is used
//!   static    pools    pools    pools     a buffer each       in device memory; a fixed location, staged when changed
//!                │
//!                └─ slot 0 │ slot 1 │ …   one view for each slot, created with the pool ([`ConstantViews`])
//! ```
//!
//! - A *dynamic* buffer ([`DynamicConstants`]) keeps its content in host memory. [`ConstantWriter::bind`] copies the
//!   content to the ring of its size class, unless the same content was copied in the same frame and the ring still has
//!   the same buffer. Equal contents of one writer and frame share one copy ([`ConstantsDesc::share_equal`]).
//! - A *static* buffer ([`StaticConstants`]) keeps its location. New content is collected and staged once a frame
//!   ([`ConstantBuffers::upload_statics`]), with two barriers for each affected pool.
//! - The rings are in device memory that the host writes, if the device has such memory, otherwise in upload memory
//!   ([`ConstantsDesc::location`]).
//! - [`ConstantsDesc::promote_reads`] is a number of binds per copy; `None` by default. If a dynamic buffer had at
//!   least this many binds per copy in the previous frame in which it was bound, its content is *promoted*: copied to a
//!   mirror in device memory, where shaders read the content. The content has the same offset in the mirror as in the
//!   pool. Promotion helps if the host cannot write to device memory.
//! - Constants above 1024 bytes have their own pools. They have no views, because they are rare. Put data above
//!   [`ConstantBuffers::BYTES_MAX`] into a storage buffer: Direct3D 12 and many Vulkan devices cannot bind such data as
//!   constants.
//!
//! | operation | cost |
//! |---|---|
//! | set the content | O(bytes) |
//! | bind, unchanged in this frame | O(1), two short locks of the constants |
//! | bind, changed | O(bytes): a hash, a comparison, a copy; the ring's lock once per 32 slots |
//! | create or drop a static buffer | O(log pools + bytes), short locks; a driver buffer if all pools are full |
//! | upload static contents | O(changed · log changed + bytes) |

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
use crate::segment::divided_buffer;
use ringfence_memory::lifetime::Frame;
use ringfence_memory::memory::{Location, RingSnapshot};
use ringfence_memory::{Allocator, Buffer, Error};

pub use dynamic::{ConstantWriter, DynamicConstants};
pub use statics::StaticConstants;

/// Slot size of each class, in bytes.
const CLASS_BYTES: [u64; 3] = [256, 512, 1024];
/// The class of constants above 1024 bytes.
const LARGE: usize = CLASS_BYTES.len();
const CLASSES: usize = LARGE + 1;
/// Alignment of constants, in bytes: the larger requirement of the two APIs.
const ALIGNMENT: u64 = 256;
/// Slots that a writer takes from a ring at a time.
const PAGE_SLOTS: u64 = 32;

/// Creates the views of constant buffers: a heap for each pool, and a view for each slot. `()` creates no views.
///
/// The library holds no lock while it calls these functions, or `Clone` and `Drop` of views and heaps, so they may use
/// the allocator. A panic in one of them leaks no resource. A heap is dropped with its pool.
pub trait ConstantViews<D: Device>: Send + Sync + 'static {
    /// The views of one pool.
    type Heap: Send + Sync + 'static;
    /// The view of one slot.
    type View: Clone + PartialEq + fmt::Debug + Send + Sync + 'static;

    /// Creates the views of a new pool: a buffer that is divided into `slot_count` slots of `slot_bytes` each (256, 512
    /// or 1024). Also called for the mirror of a dynamic pool, if [`ConstantsDesc::promote_reads`] is set.
    ///
    /// # Errors
    /// If this function returns an error, the pool is not created.
    fn make(&self, pool: &Buffer<D>, slot_bytes: u64, slot_count: u32) -> Result<Self::Heap, Error>;

    /// Returns the view of a slot.
    fn view(&self, heap: &Self::Heap, slot: u32) -> Self::View;
}

/// Creates no views: for programs that bind constants by address or by offset.
impl<D: Device> ConstantViews<D> for () {
    type Heap = ();
    type View = ();

    fn make(&self, _: &Buffer<D>, _: u64, _: u32) -> Result<(), Error> {
        Ok(())
    }

    fn view(&self, _heap: &(), _slot: u32) {}
}

/// Description of constant buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConstantsDesc<'a> {
    /// Initial number of slots of each dynamic pool. The pool of large constants initially has the size of this many
    /// slots of 1024 bytes, but at least 64 KiB.
    pub dynamic_slots: u32,
    /// Largest size of a dynamic pool, in bytes.
    pub dynamic_bytes_max: u64,
    /// Longest wait of a bind if its pool is full and cannot grow.
    pub timeout: Duration,
    /// A dynamic pool is halved after this many consecutive calls of
    /// [`Allocator::reclaim`](ringfence_memory::Allocator::reclaim) during which at most a quarter of the pool was in
    /// use. A static pool is released after the same number of calls during which it was empty.
    pub shrink_after: u32,
    /// Number of slots of each static pool.
    pub static_slots: u32,
    /// Threshold of promotion, in binds per copy. If constants were bound at least this often per copy in the previous
    /// frame, shaders read them from device memory. [`ConstantWriter::promoted`] returns the copies to device memory,
    /// which the program records before the frame's draws. `None`, the default, promotes no constants, because
    /// [`ConstantsDesc::location`] is faster on devices with host-visible device memory.
    /// [`ConstantsDesc::PROMOTE_READS`] is the measured threshold for the other devices.
    pub promote_reads: Option<u32>,
    /// `true` if equal contents of one frame and writer share one copy. This costs a hash of the content per copy.
    pub share_equal: bool,
    /// Usages of the buffers. The library adds the usages for copies: from dynamic buffers, and to static buffers and
    /// to the mirrors of promoted constants.
    pub usage: BufferUsage,
    /// Location of dynamic constants. The default is device memory that the host writes, or upload memory if the device
    /// does not have enough of such memory. The example `constants_placement` measures the time to write and read
    /// constants (512 slots of 256 bytes, one draw reads all slots). On an NVIDIA H200, the time with device memory is
    /// 0.55 of the time with upload memory at one read per frame, 0.66 at 16 reads, and 0.81 at 128 reads.
    pub location: Location,
    /// Name for reports and for the drivers' objects.
    pub name: &'a str,
}

impl ConstantsDesc<'_> {
    /// Recommended value of [`ConstantsDesc::promote_reads`]: with at least this many reads per frame, a copy to device
    /// memory saves more time than it costs. The example `constants_placement` measures the time to write and read the
    /// constants. On an NVIDIA H200, at 32 reads, the time with a copy to device memory is 0.97 of the time with upload
    /// memory; at 64 reads, it is 0.93. At fewer than 32 reads, the factor is up to 1.1. If each draw reads a different
    /// slot, the cost of starting the draws hides the difference.
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

/// Location of bound constants for shaders.
pub struct BoundConstants<D: Device, V> {
    /// The driver's buffer.
    pub buffer: RawBuffer<D>,
    /// Offset of the first byte in the buffer, in bytes. A multiple of 256.
    pub offset: u64,
    /// Number of bytes that shaders may read: the size of the slot. The bytes after the content are 0.
    pub size: u64,
    /// Device address of the first byte, if the buffer has one.
    pub address: Option<u64>,
    /// View of the slot; `None` for constants above 1024 bytes.
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

/// Statistics of constants: binds, copies, and copies that were avoided.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ConstantFigures {
    /// Number of binds of dynamic buffers.
    pub bind_count: u64,
    /// Number of copies of content for these binds.
    pub copy_count: u64,
    /// Total size of these copies, in bytes.
    pub copy_bytes: u64,
    /// Number of binds without a copy, because the content was copied in the same frame to the same pool.
    pub unchanged_count: u64,
    /// Number of binds without a copy, because equal content was already copied in the frame, for another buffer or
    /// earlier for the same buffer.
    pub shared_count: u64,
    /// Number of contents of static buffers that were staged.
    pub static_count: u64,
    /// Number of contents that were promoted to device memory.
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

/// Companion of the buffer of a dynamic pool: the views of its slots and the mirror.
struct Paired<D: Device, H> {
    /// `None` for large constants.
    heap: Option<H>,
    /// `None` if promotion is off.
    mirror: Option<Mirror<D, H>>,
}

/// A buffer in device memory that has the size of the pool. Promoted content has the same offset in the mirror as its
/// slot in the pool, and lives as long as the slot. So promoted content needs no allocation of its own.
struct Mirror<D: Device, H> {
    buffer: Buffer<D>,
    address: Option<u64>,
    heap: Option<H>,
}

/// Constant buffers of an allocator: static and dynamic buffers of 256, 512 and 1024 bytes, and larger ones up to 64
/// KiB. All threads may call all methods.
///
/// Cheap to clone; clones share one state, which lives as long as the buffers that were created from it.
///
/// # Examples
///
/// Constants of the camera, which change in some frames. `device`, `fence`, `memory` and `timeline` are created as in
/// the example of [`Allocator`](ringfence_memory::Allocator#examples).
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// # let fence = device.create_fence(0);
/// # // SAFETY: each submission below signals the fence with the value of its frame.
/// # let timeline = unsafe { memory.timeline(fence) }?;
/// # use ringfence::device::{BufferDesc, BufferUsage};
/// # use ringfence::{AllocationDesc, Location};
/// # let desc = BufferDesc { size: 64, usage: BufferUsage::COPY_DST };
/// # let back = memory.create_buffer(&desc, AllocationDesc { location: Location::Readback, ..Default::default() })?;
/// # let dst = *back.object();
/// # use std::time::Duration;
/// use ringfence::ConstantBuffers;
/// use ringfence::upload::ConstantsDesc;
///
/// let constants = ConstantBuffers::new(&memory, ConstantsDesc::default(), ())?;
/// let mut camera = constants.dynamic(64)?;
/// camera.set(0, &[5; 64])?;
///
/// let frame = timeline.begin();
/// let mut writer = constants.writer(&frame)?; // one for each thread; later frames reuse it with `begin`
/// let bound = writer.bind(&camera)?; // copies the content, because it has changed
/// let again = writer.bind(&camera)?; // does not copy it
/// assert_eq!(bound.offset, again.offset);
/// // On Vulkan: bind `bound.buffer` with the dynamic offset `bound.offset`. Here, a copy reads the constants.
/// let (src, src_offset) = (bound.buffer, bound.offset);
/// let draw = sim::Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size: 64 };
/// device.submit(0, &[], vec![draw], (fence, frame.value()))?;
/// let point = timeline.submitted(frame)?;
///
/// camera.set(0, &[6; 64])?; // for later binds: the draw keeps its bytes
/// assert!(timeline.wait_for(point, Duration::MAX)?);
/// let mut bytes = [0; 64];
/// back.read(0, &mut bytes)?;
/// assert_eq!(bytes, [5; 64]);
/// # assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ConstantBuffers<D: Device, V: ConstantViews<D> = ()> {
    shared: Arc<Shared<D, V>>,
}

struct Shared<D: Device, V: ConstantViews<D>> {
    memory: Allocator<D>,
    desc: ConstantsDesc<'static>,
    name: String,
    /// The line of the program that created the constant buffers.
    at: &'static panic::Location<'static>,
    views: Arc<V>,
    /// Rings of the dynamic pools, by class.
    dynamic: [Arc<RingState<D>>; CLASSES],
    statics: Arc<statics::Statics<D, V>>,
    figures: Lock<ConstantFigures>,
}

impl<D: Device, V: ConstantViews<D>> ConstantBuffers<D, V> {
    /// Largest size of constants, in bytes: the limit of Direct3D 12, and of many Vulkan devices.
    pub const BYTES_MAX: u64 = 64 << 10;

    /// Creates the dynamic pools. A static pool is created when a static buffer finds no free slot. `views` creates the
    /// views of the slots; `()` creates no views.
    ///
    /// # Errors
    /// As `UploadRing::new`, and the errors of `views`.
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

    /// Creates a dynamic buffer of `size` bytes, all 0. It uses no device memory until it is bound.
    ///
    /// # Errors
    /// [`UploadError::ZeroSize`]; [`UploadError::TooLarge`] above [`ConstantBuffers::BYTES_MAX`].
    pub fn dynamic(&self, size: u64) -> Result<DynamicConstants<D, V>, UploadError> {
        DynamicConstants::new(self, size)
    }

    /// Creates a static buffer with this content. The next [`ConstantBuffers::upload_statics`] stages the content, and
    /// adds the copy to its batch.
    ///
    /// # Errors
    /// [`UploadError::ZeroSize`]; [`UploadError::TooLarge`] above [`ConstantBuffers::BYTES_MAX`]; or there is no memory
    /// for another pool. After an error, the pools are unchanged.
    pub fn create_static(&self, content: &[u8]) -> Result<StaticConstants<D, V>, UploadError> {
        StaticConstants::new(self, content)
    }

    /// Stages all contents of static buffers that were set since the last call, adds the copies to `batch`, and returns
    /// the number of staged contents. The contents are staged in the dynamic pools. Record the batch in the frame of
    /// `writer`, before any use of the buffers. If that frame is discarded or dropped, the next call stages the
    /// contents again.
    ///
    /// # Errors
    /// As [`UploadWriter::write`](super::UploadWriter::write); or [`UploadError::ForeignConstants`] if the writer
    /// belongs to other [`ConstantBuffers`], or the batch to another allocator. After an error, the batch keeps the
    /// contents that were staged before the error, and the next call stages the remaining ones.
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

    /// Creates a writer that binds dynamic buffers, for one thread and for `frame`. Reuse the writer for later frames
    /// with [`ConstantWriter::begin`].
    ///
    /// # Errors
    /// The frame belongs to another allocator.
    pub fn writer(&self, frame: &Frame) -> Result<ConstantWriter<D, V>, UploadError> {
        ConstantWriter::new(self, frame)
    }

    /// Returns the statistics of all writers. The numbers of a writer are added when it begins its next frame or is
    /// dropped.
    #[must_use]
    pub fn figures(&self) -> ConstantFigures {
        *self.shared.figures.lock()
    }

    /// Returns the statistics of the dynamic pools, one for each class: 256, 512 and 1024 bytes, and larger.
    #[must_use]
    pub fn dynamic_pools(&self) -> [RingSnapshot; 4] {
        self.shared.dynamic.each_ref().map(|ring| ring.shown())
    }

    /// Returns the number of static pools. Each large static buffer counts as one.
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

/// Returns the class of a size, and the size of its slot in bytes. Fails for 0 and above `max`.
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
        // The smallest ring must hold the largest constants.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_have_the_smallest_slot_that_holds_them() {
        for (size, expected) in [
            (0, Err(UploadError::ZeroSize)),
            (1, Ok((0, 256))),
            (256, Ok((0, 256))),
            (257, Ok((1, 512))),
            (512, Ok((1, 512))),
            (513, Ok((2, 1024))),
            (1024, Ok((2, 1024))),
            (1025, Ok((3, 1280))),
            (1280, Ok((3, 1280))),
            (1281, Ok((3, 1536))),
            (65_536, Ok((3, 65_536))),
            (65_537, Err(UploadError::TooLarge { size: 65_537, capacity: 65_536 })),
        ] {
            assert_eq!(classify(size, 65_536), expected, "{size} bytes");
        }
        assert_eq!(classify(65_537, u64::MAX), Ok((3, 65_792)));
    }

    #[test]
    fn figures_add_up_field_by_field() {
        let figures = |first: u64| ConstantFigures {
            bind_count: first,
            copy_count: first + 1,
            copy_bytes: first + 2,
            unchanged_count: first + 3,
            shared_count: first + 4,
            static_count: first + 5,
            promoted_count: first + 6,
        };
        let mut sum = figures(10);
        sum.add(&figures(100));
        let expected = ConstantFigures {
            bind_count: 110,
            copy_count: 112,
            copy_bytes: 114,
            unchanged_count: 116,
            shared_count: 118,
            static_count: 120,
            promoted_count: 122,
        };
        assert_eq!(sum, expected);
    }
}
