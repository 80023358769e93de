//! A range of Vulkan memory: the program's handle.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::ptr::NonNull;

use ash::vk;
use ringfence::vulkan::Device;

use crate::pool::Ticket;

/// A pointer to mapped memory that can be sent to and shared with other threads. Only accesses through it are `unsafe`.
#[derive(Clone, Copy, Debug)]
struct MappedPtr(NonNull<c_void>);

// SAFETY: mapped memory is not bound to a thread, and using the pointer is `unsafe`.
unsafe impl Send for MappedPtr {}
// SAFETY: as above.
unsafe impl Sync for MappedPtr {}

/// A range of memory. [`Allocator::free`](super::Allocator::free) frees it. If it is dropped instead, it stays
/// allocated until the allocator is dropped, because it may contain a resource.
///
/// # Writing
///
/// [`Allocation::mapped_ptr`] points to its bytes. An allocation is also a [`presser::Slab`]. The helpers of that crate
/// write values with padding, of any alignment, to uninitialised bytes:
///
/// ```
/// # fn write(allocation: &mut gpu_allocator::vulkan::Allocation) -> Result<(), presser::CopyError> {
/// #[repr(C, align(16))]
/// #[derive(Clone, Copy)]
/// struct Vertex([f32; 3]);
///
/// let vertices = [Vertex([0.0; 3]), Vertex([1.0; 3])];
/// let record = presser::copy_from_slice_to_offset(&vertices, allocation, 0)?;
/// assert_eq!(record.copy_start_offset % 16, 0);
/// # Ok(()) }
/// ```
///
/// After the allocator is dropped, no slab can be created, and existing slabs panic when they are used.
///
/// # Safety of writing
///
/// During a write, and while a slice of the slab exists, the program must ensure that the GPU does not use the bytes
/// and that the allocator is not dropped. The library cannot check this.
#[derive(Debug)]
pub struct Allocation {
    /// `None` for a null allocation.
    ticket: Option<Ticket>,
    memory: vk::DeviceMemory,
    offset: u64,
    size: u64,
    flags: vk::MemoryPropertyFlags,
    mapped: Option<MappedPtr>,
    is_dedicated: bool,
}

impl Allocation {
    pub(super) fn new(
        ticket: Ticket,
        held: &ringfence::memory::Allocation<Device>,
        flags: vk::MemoryPropertyFlags,
    ) -> Self {
        Self {
            ticket: Some(ticket),
            memory: held.memory().raw(),
            offset: held.offset(),
            size: held.size(),
            flags,
            mapped: held.mapped().map(|pointer| MappedPtr(pointer.cast())),
            is_dedicated: held.is_dedicated(),
        }
    }

    pub(super) fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }

    /// Returns the allocation as a slab to write to; `None` if the allocation is null, not mapped or larger than
    /// `isize::MAX` bytes, or if its allocator was dropped. See the [note on safety](Self#safety-of-writing).
    pub fn try_as_mapped_slab(&mut self) -> Option<MappedAllocationSlab<'_>> {
        let start = self.start()?;
        let size = slab_size(self.size)?;
        Some(MappedAllocationSlab { allocation: PhantomData, ticket: self.ticket?, start, size })
    }

    /// Returns the number of the allocation; `None` if it is null.
    #[must_use]
    pub fn chunk_id(&self) -> Option<NonZeroU64> {
        self.ticket.map(|ticket| ticket.number)
    }

    /// Returns the property flags of its memory type.
    #[must_use]
    pub fn memory_properties(&self) -> vk::MemoryPropertyFlags {
        self.flags
    }

    /// Returns the memory object of the allocation, which other allocations may share.
    ///
    /// # Safety
    /// Resources are bound to the object at [`Allocation::offset`]. They are destroyed before the allocation is freed
    /// and before the allocator is dropped. The caller neither frees nor maps the object.
    #[must_use]
    pub unsafe fn memory(&self) -> vk::DeviceMemory {
        self.memory
    }

    /// Returns `true` if no other allocation shares the memory object.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.is_dedicated
    }

    /// Returns the offset of the first byte in the memory object.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the host pointer to the first byte; `None` if the memory is not host-visible. Valid until the allocation
    /// is freed.
    #[must_use]
    pub fn mapped_ptr(&self) -> Option<NonNull<c_void>> {
        self.mapped.map(|MappedPtr(pointer)| pointer)
    }

    /// Returns the bytes of the allocation; `None` if the allocation is null, not mapped or larger than `isize::MAX`
    /// bytes, or if its allocator was dropped. Available with the feature `mapped-slice`; the signature is that of the
    /// original crate.
    ///
    /// Prefer [`Allocation::try_as_mapped_slab`]: this function is safe to call, but relies on conditions that it
    /// cannot check. While the slice exists, neither the GPU nor a copy of [`Allocation::mapped_ptr`] may write to the
    /// bytes, and the allocator must not be dropped; otherwise the behaviour is undefined. Bytes that were never
    /// written have arbitrary values. Reads of memory that the host does not cache are slow: some hundred MB/s.
    #[cfg(feature = "mapped-slice")]
    #[must_use]
    pub fn mapped_slice(&self) -> Option<&[u8]> {
        let (start, size) = (self.start()?, slab_size(self.size)?);
        // SAFETY: the pool is alive, so `size` bytes from `start` are mapped, and only this allocation uses them. They
        // come from the driver, so they are initialised. The program, which requested the feature, must ensure that the
        // GPU does not write to them.
        Some(unsafe { std::slice::from_raw_parts(start, size) })
    }

    /// Returns the bytes of the allocation, for writes; `None` as for [`Allocation::mapped_slice`]. The same conditions
    /// hold. In addition, the GPU must not read the bytes while the slice exists.
    #[cfg(feature = "mapped-slice")]
    #[must_use]
    pub fn mapped_slice_mut(&mut self) -> Option<&mut [u8]> {
        let (start, size) = (self.start()?, slab_size(self.size)?);
        // SAFETY: as above, and the allocation is borrowed mutably.
        Some(unsafe { std::slice::from_raw_parts_mut(start, size) })
    }

    /// Returns the host pointer to the first byte, if the allocator is alive.
    fn start(&self) -> Option<*mut u8> {
        self.ticket.filter(|ticket| ticket.has_pool())?;
        self.mapped.map(|MappedPtr(pointer)| pointer.cast().as_ptr())
    }

    /// Returns `true` if the allocation is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.ticket.is_none()
    }
}

impl Default for Allocation {
    /// Returns a null allocation.
    fn default() -> Self {
        Self {
            ticket: None,
            memory: vk::DeviceMemory::null(),
            offset: 0,
            size: 0,
            flags: vk::MemoryPropertyFlags::empty(),
            mapped: None,
            is_dedicated: false,
        }
    }
}

/// Returns the size as a slice length, if a slice can have it.
fn slab_size(size: u64) -> Option<usize> {
    usize::try_from(size).ok().filter(|size| isize::try_from(*size).is_ok())
}

/// A mapped allocation to write to. Created by [`Allocation::try_as_mapped_slab`]. Uses after the allocator is dropped
/// panic.
pub struct MappedAllocationSlab<'a> {
    allocation: PhantomData<&'a mut Allocation>,
    /// For a check on each use: the slab borrows the allocation but not the allocator.
    ticket: Ticket,
    start: *mut u8,
    size: usize,
}

impl MappedAllocationSlab<'_> {
    fn start(&self) -> *mut u8 {
        assert!(self.ticket.has_pool(), "{NO_SLAB}");
        self.start
    }
}

// SAFETY: the pool is alive, so the bytes are mapped, and only the borrowed allocation uses them. The program must
// ensure that the GPU does not use them, as the allocation's documentation requires.
unsafe impl presser::Slab for MappedAllocationSlab<'_> {
    fn base_ptr(&self) -> *const u8 {
        self.start()
    }

    fn base_ptr_mut(&mut self) -> *mut u8 {
        self.start()
    }

    fn size(&self) -> usize {
        self.size
    }
}

const NO_SLAB: &str = "the slab's allocation is not mapped, or its allocator was dropped";

/// Panics if the allocation is not mapped, if it is larger than a slice can be, or if its allocator is dropped.
// SAFETY: as above.
unsafe impl presser::Slab for Allocation {
    fn base_ptr(&self) -> *const u8 {
        self.start().expect(NO_SLAB)
    }

    fn base_ptr_mut(&mut self) -> *mut u8 {
        self.start().expect(NO_SLAB)
    }

    fn size(&self) -> usize {
        slab_size(self.size).expect("the slab's allocation is larger than a slice can be")
    }
}
