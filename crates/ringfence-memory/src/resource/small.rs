//! Small buffers that share a driver's buffer, because a driver object for each would cost more than its contents.
//!
//! ```text
//!   driver's buffer, 1 MiB   ├ a │ b │   c   │ d ├·········free·········┤
//!                              └ SmallBuffer { object, offset, size }
//! ```
//!
//! Small buffers are grouped by *usage class*: buffers that shaders may write never share a driver's buffer with
//! buffers that shaders only read. The reason is that Direct3D 12 states and barriers apply to a driver's buffer as a
//! whole. The location, and the usage `DEVICE_ADDRESS`, are part of the class too. The driver's buffer is created with
//! every usage of its class. The start of a small buffer is aligned for each of its usages, both in the driver's buffer
//! and in memory.
//!
//! | operation | cost |
//! |---|---|
//! | create a recycled one | O(1), no lock |
//! | create a new one | O(log driver's buffers), one short lock; a driver call if no driver's buffer has room |
//! | drop, `destroy_now` | O(1); if the buffer is not recycled, one short lock when its bytes are freed |

use std::fmt;
use std::mem::ManuallyDrop;
use std::panic;
use std::sync::Arc;

use ringfence_core::blocks::BlockAllocation;
use ringfence_core::sync::SyncSet;
use ringfence_core::tlsf::Tlsf;
use ringfence_decision::{Error, grained};

use super::host::AccessError;
use super::host::HostBytes;
use super::{Buffer, shared_alignment};
use crate::device::{BufferDesc, BufferUsage, Buffers, Create, Device, Kind, Native, RawBuffer};
use crate::memory::{
    AllocationDesc, Item, Location, Place, PlaceKind, PlacedSmallBuffer, RawObject, SHARED_BYTES, Shared, SharedBuffer,
    SmallState, UsageClass, retry_after_eviction,
};

const SMALL_BYTES_MAX: u64 = SHARED_BYTES / 4;
/// The largest alignment, in bytes, that a device of Vulkan or Direct3D 12 may require for storage, constants and
/// texels.
const SHADER_ALIGNMENT: u64 = 256;
/// Usages that make a buffer accessible to shaders.
const SHOWN: BufferUsage = BufferUsage::CONSTANT
    .union(BufferUsage::STORAGE)
    .union(BufferUsage::STORAGE_READ)
    .union(BufferUsage::TEXELS)
    .union(BufferUsage::DEVICE_ADDRESS);

/// A buffer that shares a driver's buffer with other small buffers: bytes `offset..offset + size` of that buffer.
///
/// A drop retires the buffer, as for [`Buffer`].
///
/// Use it for many small pieces of data: constants of a material, instances, indirect arguments. It needs no driver
/// object of its own. The program binds [`SmallBuffer::object`] at [`SmallBuffer::offset`].
///
/// # Examples
///
/// A hundred materials in one driver buffer. `device`, `fence`, `memory` and `timeline` are created as in the example
/// of [`Allocator`](crate::Allocator#examples).
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// # let fence = device.create_fence(0);
/// # // SAFETY: each submission below signals the fence with the value of its frame.
/// # let timeline = unsafe { memory.timeline(fence) }?;
/// # use ringfence::AllocationDesc;
/// # use std::time::Duration;
/// use ringfence::Location;
/// use ringfence::device::{BufferDesc, BufferUsage};
///
/// let desc = BufferDesc { size: 192, usage: BufferUsage::CONSTANT | BufferUsage::COPY_SRC };
/// let mut materials = Vec::new();
/// for index in 0..100 {
///     let mut material = memory.create_small_buffer(desc, Location::Upload)?;
///     material.write(0, &[index; 192])?;
///     materials.push(material);
/// }
/// assert!(materials.iter().all(|material| material.object() == materials[0].object()));
///
/// # let back = BufferDesc { size: 192, usage: BufferUsage::COPY_DST };
/// # let back = memory.create_buffer(&back, AllocationDesc { location: Location::Readback, ..Default::default() })?;
/// # let dst = *back.object();
/// let frame = timeline.begin();
/// // A draw with material 42: on Vulkan, bind the object at the offset. Here, a copy reads it.
/// let (src, src_offset) = (*materials[42].object(), materials[42].offset());
/// let draw = sim::Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size: 192 };
/// device.submit(0, &[], vec![draw], (fence, frame.value()))?;
/// let point = timeline.submitted(frame)?;
/// drop(materials); // retired until the draw is complete
///
/// assert!(timeline.wait_for(point, Duration::MAX)?);
/// assert_eq!(memory.reclaim().objects, 100);
/// # let mut bytes = [0; 192];
/// # back.read(0, &mut bytes)?;
/// # assert_eq!(bytes, [42; 192]);
/// # assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SmallBuffer<D: Device> {
    pub(super) shared: ManuallyDrop<Arc<Shared<D>>>,
    bound: ManuallyDrop<Box<PlacedSmallBuffer<D>>>,
}

impl<D: Device> SmallBuffer<D> {
    #[track_caller]
    pub(crate) fn new(shared: &Arc<Shared<D>>, desc: BufferDesc, location: Location) -> Result<Self, Error> {
        Buffers::check(&desc)?;
        if desc.size > SMALL_BYTES_MAX {
            return Err(Error::TooLarge { size: desc.size, max: SMALL_BYTES_MAX });
        }
        let class = UsageClass::of(desc.usage, location);
        let (size, alignment) = small_needs(shared, desc);
        let key = shared.recycle_key_of_small(class.index() as u64, size, alignment);
        let wanted = key.as_ref().map(|key| shared.recycled.wanted(key));
        if let Some((mut bound, owner)) = wanted.as_ref().and_then(|wanted| shared.take_recycled_small(wanted)) {
            bound.size = desc.size;
            return Ok(Self { shared: ManuallyDrop::new(owner), bound: ManuallyDrop::new(bound) });
        }
        shared.check_lost()?;
        let state = shared.small.of(class);
        let (buffer, allocation) = small_range(shared, state, class, size, alignment)?;
        let offset = allocation.offset();
        // SAFETY: the range is inside the driver's buffer, which is mapped as a whole if it is mapped.
        let mapped = buffer.mapped.map(|base| unsafe { base.add(offset) });
        let address = buffer.address.map(|address| address + offset);
        let (object, at) = (buffer.object.clone(), buffer.place.offset + offset);
        let arena = buffer.place.arena.clone();
        let kind = PlaceKind::Small { owner: Arc::<SmallState<D>>::clone(state), buffer, allocation };
        let place = Place { offset: at, arena, kind };
        shared.note_small(&place, size, mapped);
        shared.note_handed_out(&place, panic::Location::caller(), address);
        let recycling = wanted.and_then(|wanted| shared.recycling_of_small(&wanted, allocation.size()));
        let owner = shared.recycled.take_owner().unwrap_or_else(|| Arc::clone(shared));
        let bound = shared.boxes.small(PlacedSmallBuffer {
            place,
            object,
            offset,
            size: desc.size,
            mapped,
            address,
            recycling,
        });
        Ok(Self { shared: ManuallyDrop::new(owner), bound: ManuallyDrop::new(bound) })
    }

    /// Returns the driver's buffer, which other small buffers share.
    #[must_use]
    pub fn object(&self) -> &RawBuffer<D> {
        &self.bound.object
    }

    /// Returns the description of the driver's buffer.
    pub(super) fn shared_desc(&self) -> BufferDesc {
        BufferDesc { size: SHARED_BYTES, usage: self.sharing().usage }
    }

    fn sharing(&self) -> &SharedBuffer<D> {
        let PlaceKind::Small { buffer, .. } = &self.bound.place.kind else { unreachable!("it shares a buffer") };
        buffer
    }

    /// Returns the location that was requested.
    #[must_use]
    pub fn location(&self) -> Location {
        self.sharing().location
    }

    /// Returns the offset of the small buffer's first byte in [`SmallBuffer::object`], in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.bound.offset
    }

    /// Returns the size of the buffer in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.bound.size
    }

    /// Returns `true` if the memory of the buffer is mapped.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.bound.mapped.is_some()
    }

    /// Returns the device address of the small buffer's first byte, if it has one: on Vulkan with the usage
    /// `DEVICE_ADDRESS`, on Direct3D 12 always.
    #[must_use]
    pub fn device_address(&self) -> Option<u64> {
        self.bound.address
    }

    /// Copies bytes into the buffer, as [`Buffer::write`] does.
    ///
    /// # Errors
    /// As [`Buffer::write`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        // SAFETY: the bytes belong to this buffer alone, and `&mut self` excludes other access.
        unsafe { self.host().write(offset, bytes) }
    }

    /// As [`SmallBuffer::write`], for plain values: writes `values` from byte `offset` on.
    ///
    /// # Errors
    /// As [`SmallBuffer::write`].
    #[cfg(feature = "bytemuck")]
    pub fn write_slice<T: bytemuck::NoUninit>(&mut self, offset: u64, values: &[T]) -> Result<(), AccessError> {
        self.write(offset, bytemuck::cast_slice(values))
    }

    /// Copies bytes out of the buffer, as [`Buffer::read`] does.
    ///
    /// # Errors
    /// As [`Buffer::read`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.host().read(offset, into)
    }

    /// As [`SmallBuffer::read`], for plain values: fills `into` from byte `offset` on.
    ///
    /// # Errors
    /// As [`SmallBuffer::read`].
    #[cfg(feature = "bytemuck")]
    pub fn read_slice<T: bytemuck::Pod>(&self, offset: u64, into: &mut [T]) -> Result<(), AccessError> {
        self.read(offset, bytemuck::cast_slice_mut(into))
    }

    /// Releases the buffer at once: keeps it for recycling, or frees its bytes.
    ///
    /// # Safety
    /// No submission under way uses the buffer.
    pub unsafe fn destroy_now(self) {
        let (owner, bound) = self.into_bound();
        // SAFETY: the caller promises that the device does not use it, and it has one owner.
        unsafe { Shared::destroy_now(owner, Item::Small(bound)) };
    }

    /// Retires the buffer. It is released once all of `points` have passed; other submissions do not delay this.
    ///
    /// # Panics
    /// If a point belongs to no timeline of this allocator. The buffer is then retired as if it were dropped.
    ///
    /// # Safety
    /// Every submission that uses the buffer is complete once `points` have passed.
    pub unsafe fn retire_after(self, points: &SyncSet) {
        let (owner, bound) = self.into_bound();
        Shared::retire_item_after(owner, points, Item::Small(bound));
    }

    fn into_bound(self) -> (Arc<Shared<D>>, Box<PlacedSmallBuffer<D>>) {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: `held` is never dropped or used again.
        unsafe { held.take() }
    }

    /// # Safety
    /// The value is not used or dropped afterwards.
    unsafe fn take(&mut self) -> (Arc<Shared<D>>, Box<PlacedSmallBuffer<D>>) {
        // SAFETY: as the caller promises.
        unsafe { (ManuallyDrop::take(&mut self.shared), ManuallyDrop::take(&mut self.bound)) }
    }

    fn host(&self) -> HostBytes<'_, D> {
        HostBytes { shared: &self.shared, place: &self.bound.place, base: self.bound.mapped, size: self.bound.size }
    }
}

impl<D: Device> Drop for SmallBuffer<D> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once.
        let (owner, bound) = unsafe { self.take() };
        Shared::retire_item(owner, Item::Small(bound));
    }
}

impl<D: Device> fmt::Debug for SmallBuffer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlacedSmallBuffer { object, size, offset, .. } = &**self.bound;
        write!(f, "SmallBuffer({object:?}, {size} bytes from {offset})")
    }
}

/// Returns the size and the alignment, in bytes, that satisfy every usage of the buffer.
fn small_needs<D: Device>(shared: &Shared<D>, desc: BufferDesc) -> (u64, u64) {
    let capabilities = shared.device.capabilities();
    let atom = capabilities.non_coherent_atom_bytes;
    let mut alignment = atom.max(16);
    if desc.usage.intersects(SHOWN) {
        alignment = alignment.max(SHADER_ALIGNMENT);
    }
    alignment = alignment.max(capabilities.range_alignment(desc.usage));
    // Rounded, so buffers of nearly the same size can be recycled for one another.
    (grained(desc.size).next_multiple_of(atom), alignment)
}

#[track_caller]
fn small_range<D: Device>(
    shared: &Arc<Shared<D>>,
    state: &SmallState<D>,
    class: UsageClass,
    size: u64,
    alignment: u64,
) -> Result<(Arc<SharedBuffer<D>>, BlockAllocation), Error> {
    if let Some(found) = state.allocate(size, alignment) {
        return Ok(found);
    }
    retry_after_eviction(|| {
        let _growing = state.growth.lock();
        if let Some(found) = state.allocate(size, alignment) {
            return Ok(found);
        }
        let buffer = Arc::new(shared_buffer(shared, class)?);
        let mut blocks = state.blocks.lock();
        let id = blocks.insert(Arc::clone(&buffer), Tlsf::exact(SHARED_BYTES));
        let allocation = blocks.allocate_in(id, size, alignment).expect("a new block has room for a small buffer");
        Ok((buffer, allocation))
    })
}

/// Creates the driver's buffer that the small buffers of a class share.
#[track_caller]
fn shared_buffer<D: Device>(shared: &Arc<Shared<D>>, class: UsageClass) -> Result<SharedBuffer<D>, Error> {
    let (device, usage) = (&shared.device, class.usage());
    let info = Create::<Buffers>::describe(device, &BufferDesc { size: SHARED_BYTES, usage })?;
    let has_address = Create::<Buffers>::has_address(device, &info);
    let alignment = shared_alignment(device.capabilities(), usage, SHARED_BYTES, has_address);
    let (name, location) = ("small buffers", class.location);
    let allocation = AllocationDesc { name, location, alignment, ..Default::default() };
    let made: Buffer<D> = Buffer::create(shared, &Native(&info), allocation, None)?;
    let (mapped, address) = (made.mapped_base(), made.device_address());
    let (_, object, place) = made.into_parts();
    let RawObject::Buffer(object) = object else { unreachable!("a buffer's object is a buffer") };
    Ok(SharedBuffer { object, mapped, address, place, usage, location })
}
