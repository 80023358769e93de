//! Small buffers that share the driver's buffers: a driver object for each of them would cost more than they hold.
//!
//! ```text
//!   driver's buffer, 1 MiB   ├ a │ b │   c   │ d ├·········free·········┤
//!                              └ SmallBuffer { object, offset, size }
//! ```
//!
//! *Safe by usage class*: buffers that shaders may write never share with those that they only read, since a driver's
//! buffer is in one state as a whole (Direct3D 12) and barriers name it as a whole. Within a class the driver's buffer
//! is made for every usage of the class. Each start is aligned for every usage that the small buffer has, in the driver's
//! buffer and in its memory.
//!
//! | operation | cost |
//! |---|---|
//! | make | O(1), one short lock; a driver's buffer once a MiB |
//! | drop, give back | O(1), one short lock |

use std::fmt;
use std::mem::ManuallyDrop;
use std::panic;
use std::sync::Arc;

use parking_lot::Mutex;
use ringfence_core::blocks::{BlockAllocation, Blocks, BlocksDesc};
use ringfence_core::range::Invalid;
use ringfence_core::tlsf::Tlsf;

use super::place::{Hold, Place};
use super::shared::Shared;
use super::shortage;
use super::{Allocator, Location};
use crate::debugging::{Margins, NewRange};
use crate::device::{BufferDesc, BufferUsage, Buffers, Create, Device, Kind, Mapped, RawBuffer};
use crate::error::{AccessError, Error};
use crate::resource::{AllocationDesc, Buffer, RawObject, shared_alignment};
use crate::telling::Lock;

/// Bytes of a driver's buffer that small ones share.
const SHARED_BYTES: u64 = 1 << 20;
/// The largest small buffer in bytes.
const SMALL_BYTES_MAX: u64 = SHARED_BYTES / 4;
/// The strictest alignment in bytes that Vulkan and Direct3D 12 let a device ask for storage, constants and texels.
const SHADER_ALIGNMENT: u64 = 256;
/// What shaders see a buffer as.
const SHOWN: BufferUsage = BufferUsage::CONSTANT
    .union(BufferUsage::STORAGE)
    .union(BufferUsage::STORAGE_READ)
    .union(BufferUsage::TEXELS)
    .union(BufferUsage::DEVICE_ADDRESS);

/// Usages that only read, but for copies.
const READ_ONLY: BufferUsage = BufferUsage::COPY_SRC
    .union(BufferUsage::COPY_DST)
    .union(BufferUsage::VERTEX)
    .union(BufferUsage::INDEX)
    .union(BufferUsage::CONSTANT)
    .union(BufferUsage::INDIRECT)
    .union(BufferUsage::TEXELS)
    .union(BufferUsage::STORAGE_READ);

/// What may share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct UsageClass {
    location: Location,
    is_written: bool,
    has_address: bool,
}

impl UsageClass {
    const COUNT: usize = Location::ALL.len() * 4;

    fn of(usage: BufferUsage, location: Location) -> Self {
        let is_written = usage.contains(BufferUsage::STORAGE);
        Self { location, is_written, has_address: usage.contains(BufferUsage::DEVICE_ADDRESS) }
    }

    fn index(self) -> usize {
        self.location as usize * 4 + usize::from(self.is_written) * 2 + usize::from(self.has_address)
    }

    /// What the driver's buffer is made for: whatever a buffer of the class may be for.
    fn usage(self) -> BufferUsage {
        let mut usage = READ_ONLY;
        if self.is_written {
            usage = usage | BufferUsage::STORAGE;
        }
        if self.has_address { usage | BufferUsage::DEVICE_ADDRESS } else { usage }
    }
}

/// A driver's buffer that small ones share.
pub(super) struct Backing<D: Device> {
    object: RawBuffer<D>,
    mapped: Option<Mapped>,
    address: Option<u64>,
    pub(super) place: Place<D>,
}

/// The buffers of one usage class.
pub(super) struct SmallState<D: Device> {
    blocks: Mutex<Blocks<Tlsf, Arc<Backing<D>>>>,
    growth: Lock<()>,
}

/// The buffers of every usage class.
pub(super) struct SmallBuffers<D: Device>([Arc<SmallState<D>>; UsageClass::COUNT]);

impl<D: Device> SmallBuffers<D> {
    pub(super) fn new() -> Self {
        let desc = BlocksDesc { basic_size: SHARED_BYTES, ..Default::default() };
        let state = || SmallState { blocks: Mutex::new(Blocks::new(desc)), growth: Lock::new(()) };
        Self(std::array::from_fn(|_| Arc::new(state())))
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.0.iter().try_for_each(|state| state.blocks.lock().validate())
    }
}

/// A buffer that shares the driver's object with others: bytes `offset..offset + size` of it.
///
/// Dropping it retires it, as a [`Buffer`] is.
pub struct SmallBuffer<D: Device> {
    shared: Arc<Shared<D>>,
    place: ManuallyDrop<Place<D>>,
    object: RawBuffer<D>,
    /// In the driver's buffer.
    offset: u64,
    size: u64,
    mapped: Option<Mapped>,
    address: Option<u64>,
}

impl<D: Device> SmallBuffer<D> {
    /// The driver's buffer, which others share.
    #[must_use]
    pub fn object(&self) -> &RawBuffer<D> {
        &self.object
    }

    /// Its first byte in [`SmallBuffer::object`].
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the host can reach its bytes.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// The address of its first byte in shaders, if it was made with [`BufferUsage::DEVICE_ADDRESS`] or the API gives
    /// every buffer one.
    #[must_use]
    pub fn device_address(&self) -> Option<u64> {
        self.address
    }

    /// As [`Buffer::write`].
    ///
    /// # Errors
    /// As [`Buffer::write`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let mapped = self.mapped_at(offset, bytes.len() as u64)?;
        // SAFETY: the destination is inside the mapping and this buffer's alone; `&mut self` keeps other access away.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapped.as_ptr(), bytes.len()) };
        Ok(self.shared.flush(&self.place, offset, bytes.len() as u64)?)
    }

    /// As [`Buffer::read`].
    ///
    /// # Errors
    /// As [`Buffer::read`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        let mapped = self.mapped_at(offset, into.len() as u64)?;
        let memory = &self.place.memory(&self.shared).object;
        // SAFETY: the range is inside this buffer's bytes, which are mapped there.
        Ok(unsafe { self.shared.device.read_back(memory, self.place.offset + offset, mapped, into) }?)
    }

    fn mapped_at(&self, offset: u64, size: u64) -> Result<Mapped, AccessError> {
        let base = self.mapped.ok_or(AccessError::NotMapped)?;
        if offset.checked_add(size).is_none_or(|end| end > self.size) {
            return Err(AccessError::OutOfRange { offset, size, resource_size: self.size });
        }
        // SAFETY: the offset lies inside the buffer, whose bytes are all mapped.
        Ok(unsafe { base.add(offset) })
    }
}

impl<D: Device> Drop for SmallBuffer<D> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads the field afterwards.
        let place = unsafe { ManuallyDrop::take(&mut self.place) };
        self.shared.retire(None, place);
    }
}

impl<D: Device> fmt::Debug for SmallBuffer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmallBuffer({:?}, {} bytes from {})", self.object, self.size, self.offset)
    }
}

impl<D: Device> Allocator<D> {
    /// Makes a small buffer in one that others share: as cheap as an allocation without a driver's object.
    ///
    /// What it shares is bound, transitioned and synchronised as one object; buffers that shaders write and those that
    /// they only read never share. Small buffers have no names of their own.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above 256 KiB; else as [`Allocator::create_buffer`].
    #[track_caller]
    pub fn create_small_buffer(&self, desc: BufferDesc, location: Location) -> Result<SmallBuffer<D>, Error> {
        Buffers::check(&desc)?;
        if desc.size > SMALL_BYTES_MAX {
            return Err(Error::TooLarge { size: desc.size, max: SMALL_BYTES_MAX });
        }
        let shared = self.shared();
        shared.check_lost()?;
        let class = UsageClass::of(desc.usage, location);
        let state = &shared.small.0[class.index()];
        let (size, alignment) = self.small_needs(desc);
        let (backing, allocation) = self.small_range(state, class, size, alignment)?;
        let offset = allocation.offset();
        // SAFETY: the range lies inside the backing buffer, which is mapped as a whole if it is mapped.
        let mapped = backing.mapped.map(|base| unsafe { base.add(offset) });
        let address = backing.address.map(|address| address + offset);
        let (object, at) = (backing.object.clone(), backing.place.offset + offset);
        let arena = backing.place.arena.clone();
        let hold = Hold::Small { state: Arc::clone(state), backing, allocation };
        let place = ManuallyDrop::new(Place { offset: at, arena, hold });
        if let Some(debug) = &shared.debug
            && let Some(key) = place.key(shared)
        {
            let memory = place.shared_memory(shared);
            let (margins, name, user_data) = (Margins::default(), "small buffer", 0);
            debug.made(shared, NewRange { key, memory, size, name, user_data, margins, host: mapped });
            debug.handed_out(key, panic::Location::caller(), address);
        }
        Ok(SmallBuffer { shared: Arc::clone(shared), place, object, offset, size: desc.size, mapped, address })
    }

    /// Bytes and alignment for every usage that the buffer has.
    fn small_needs(&self, desc: BufferDesc) -> (u64, u64) {
        let capabilities = self.device().capabilities();
        let atom = capabilities.non_coherent_atom_bytes;
        let mut alignment = atom.max(16);
        if desc.usage.intersects(SHOWN) {
            alignment = alignment.max(SHADER_ALIGNMENT);
        }
        alignment = alignment.max(capabilities.range_alignment(desc.usage));
        (desc.size.next_multiple_of(atom), alignment)
    }

    fn small_range(
        &self,
        state: &SmallState<D>,
        class: UsageClass,
        size: u64,
        alignment: u64,
    ) -> Result<(Arc<Backing<D>>, BlockAllocation), Error> {
        if let Some(found) = state.allocate(size, alignment) {
            return Ok(found);
        }
        shortage::asking(|| {
            let _growing = state.growth.lock();
            if let Some(found) = state.allocate(size, alignment) {
                return Ok(found);
            }
            let backing = Arc::new(self.backing(class)?);
            let mut blocks = state.blocks.lock();
            let id = blocks.insert(Arc::clone(&backing), Tlsf::exact(SHARED_BYTES));
            let allocation = blocks.allocate_in(id, size, alignment).expect("a new block holds a small buffer");
            Ok((backing, allocation))
        })
    }

    fn backing(&self, class: UsageClass) -> Result<Backing<D>, Error> {
        let (device, usage) = (self.device(), class.usage());
        let info = Create::<Buffers>::describe(device, &BufferDesc { size: SHARED_BYTES, usage })?;
        let has_address = Create::<Buffers>::has_address(device, &info);
        let alignment = shared_alignment(device.capabilities(), usage, SHARED_BYTES, has_address);
        let (name, location) = ("small buffers", class.location);
        let allocation = AllocationDesc { name, location, alignment, ..Default::default() };
        let buffer: Buffer<D> = self.create_buffer(&info, allocation)?;
        let (mapped, address) = (buffer.mapped_base(), buffer.device_address());
        let (_, object, place) = buffer.into_parts();
        let RawObject::Buffer(object) = object else { unreachable!("a buffer's object is a buffer") };
        Ok(Backing { object, mapped, address, place })
    }
}

impl<D: Device> SmallState<D> {
    fn allocate(&self, size: u64, alignment: u64) -> Option<(Arc<Backing<D>>, BlockAllocation)> {
        let mut blocks = self.blocks.lock();
        let allocation = blocks.try_allocate(size, alignment).ok()?;
        let (backing, _) = blocks.get(allocation.block())?;
        Some((Arc::clone(backing), allocation))
    }

    /// Takes a range back; and a buffer out that is empty then, if another one is.
    pub(super) fn free(&self, allocation: BlockAllocation) -> Option<Arc<Backing<D>>> {
        let mut blocks = self.blocks.lock();
        blocks.free(&allocation).expect("a small buffer's range is live until it is given back");
        if blocks.empty_count() > 1 { blocks.take_empty().map(|(_, backing)| backing) } else { None }
    }
}

impl<D: Device> Shared<D> {
    /// Destroys a buffer that small ones shared, the device being done with all of them.
    pub(super) fn destroy_backing(&self, backing: Arc<Backing<D>>) {
        let backing = Arc::into_inner(backing).expect("whoever frees the last range lets go of the buffer first");
        // SAFETY: each small buffer in it was given back, which is when the device is done with it.
        unsafe { Create::<Buffers>::destroy(&self.device, backing.object) };
        super::statistics::count(&self.calls.destroy_object);
        self.give_back(backing.place);
    }

    /// Destroys the shared buffers in which nothing lives.
    pub(super) fn trim_small_buffers(&self) {
        for state in &self.small.0 {
            loop {
                let taken = state.blocks.lock().take_empty();
                let Some((_, backing)) = taken else { break };
                self.destroy_backing(backing);
            }
        }
    }
}
