//! A range of Vulkan memory, as its holder sees it.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::ptr::NonNull;

use ash::vk;
use ringfence::vulkan::Device;

use crate::pool::Ticket;

/// A pointer into mapped memory: a number until a thread uses it.
#[derive(Clone, Copy, Debug)]
struct MappedPtr(NonNull<c_void>);

// SAFETY: mapped memory belongs to no thread, and using the pointer is `unsafe`.
unsafe impl Send for MappedPtr {}
// SAFETY: as above.
unsafe impl Sync for MappedPtr {}

/// A range of memory. It goes back by [`Allocator::free`](super::Allocator::free); one that is dropped stays allocated
/// until the allocator is dropped, as a resource may lie in it.
///
/// # Writing to it
///
/// [`Allocation::mapped_ptr`] points to its bytes. An allocation is a [`presser::Slab`] too, whose helpers write values
/// with padding and of any alignment into bytes that need not be initialised:
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
/// Once its allocator is dropped there is no slab, and one made before panics when it is used.
///
/// # Safety of doing so
///
/// No thread can check that the GPU does not use the bytes meanwhile, nor that the allocator is not dropped during a
/// write or under a slice of the slab: that is for the program to see to.
#[derive(Debug)]
pub struct Allocation {
    /// `None` for one that holds nothing.
    ticket: Option<Ticket>,
    memory: vk::DeviceMemory,
    offset: u64,
    size: u64,
    flags: vk::MemoryPropertyFlags,
    mapped: Option<MappedPtr>,
    is_dedicated: bool,
}

impl Allocation {
    pub(super) fn new(ticket: Ticket, held: &ringfence::Allocation<Device>, flags: vk::MemoryPropertyFlags) -> Self {
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

    /// The allocation as a slab to write to; `None` if it is not mapped, or larger than any slice may be. See the note
    /// on safety [above](Self#safety-of-doing-so).
    pub fn try_as_mapped_slab(&mut self) -> Option<MappedAllocationSlab<'_>> {
        let start = self.start()?;
        let size = slab_size(self.size)?;
        Some(MappedAllocationSlab { allocation: PhantomData, ticket: self.ticket?, start, size })
    }

    /// The number of the allocation while it is alive; `None` if it holds nothing.
    #[must_use]
    pub fn chunk_id(&self) -> Option<NonZeroU64> {
        self.ticket.map(|ticket| ticket.number)
    }

    /// What its memory type is.
    #[must_use]
    pub fn memory_properties(&self) -> vk::MemoryPropertyFlags {
        self.flags
    }

    /// The memory object that it lies in, which others may lie in as well.
    ///
    /// # Safety
    /// Resources are bound to it at [`Allocation::offset`], and destroyed before the allocation is freed and before the
    /// allocator is dropped. The object is neither freed nor mapped.
    #[must_use]
    pub unsafe fn memory(&self) -> vk::DeviceMemory {
        self.memory
    }

    /// Whether the memory object is its own.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.is_dedicated
    }

    /// Its first byte in the memory object.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where the host sees its first byte; `None` if its memory is not host-visible. Valid until it is freed.
    #[must_use]
    pub fn mapped_ptr(&self) -> Option<NonNull<c_void>> {
        self.mapped.map(|MappedPtr(pointer)| pointer)
    }

    /// The bytes of the allocation; `None` if it is not mapped, larger than any slice may be, or its allocator is gone. The
    /// signature is gpu-allocator's, with the feature `mapped-slice`.
    ///
    /// Prefer [`Allocation::try_as_mapped_slab`]: this function is safe to call, and nothing checks what it relies on. While
    /// the slice lives, neither the GPU nor a copy of [`Allocation::mapped_ptr`] may write to the bytes, and the allocator
    /// may not be dropped; otherwise the behaviour is undefined. Bytes that were never written have any value. Memory that
    /// the host does not cache is read slowly: some hundred MB/s.
    #[cfg(feature = "mapped-slice")]
    #[must_use]
    pub fn mapped_slice(&self) -> Option<&[u8]> {
        let (start, size) = (self.start()?, slab_size(self.size)?);
        // SAFETY: `size` bytes from `start` are mapped and this allocation's own, as its pool is there, and they came from the
        // driver, so that they are initialised. That the GPU leaves them alone is for the program to see to, which asked for
        // this by the feature.
        Some(unsafe { std::slice::from_raw_parts(start, size) })
    }

    /// The bytes of the allocation, to write to; `None` as for [`Allocation::mapped_slice`], whose note on what nothing checks
    /// holds here too: while the slice lives, the GPU may not read the bytes either.
    #[cfg(feature = "mapped-slice")]
    #[must_use]
    pub fn mapped_slice_mut(&mut self) -> Option<&mut [u8]> {
        let (start, size) = (self.start()?, slab_size(self.size)?);
        // SAFETY: as above, and the allocation is borrowed mutably.
        Some(unsafe { std::slice::from_raw_parts_mut(start, size) })
    }

    /// Where the host sees its first byte, if its allocator is still there.
    fn start(&self) -> Option<*mut u8> {
        self.ticket.filter(|ticket| ticket.has_pool())?;
        self.mapped.map(|MappedPtr(pointer)| pointer.cast().as_ptr())
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.ticket.is_none()
    }
}

impl Default for Allocation {
    /// One that holds nothing.
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

/// Bytes that a slice may have.
fn slab_size(size: u64) -> Option<usize> {
    usize::try_from(size).ok().filter(|size| isize::try_from(*size).is_ok())
}

/// An allocation that is mapped, to write to. From [`Allocation::try_as_mapped_slab`]. Panics when it is used and the
/// allocator is gone.
pub struct MappedAllocationSlab<'a> {
    allocation: PhantomData<&'a mut Allocation>,
    /// It borrows the allocation and not the allocator, which may go before it.
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

// SAFETY: the bytes are mapped and the borrowed allocation's own, as its pool is there; that the GPU leaves them alone is for the program to
// see to, as the allocation's documentation says.
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

const NO_SLAB: &str = "an allocation that is not mapped, or whose allocator is gone, was used as a slab";

/// Panics for an allocation that is not mapped or larger than any slice may be, and if its allocator is gone.
// SAFETY: as above.
unsafe impl presser::Slab for Allocation {
    fn base_ptr(&self) -> *const u8 {
        self.start().expect(NO_SLAB)
    }

    fn base_ptr_mut(&mut self) -> *mut u8 {
        self.start().expect(NO_SLAB)
    }

    fn size(&self) -> usize {
        slab_size(self.size).expect("an allocation larger than any slice was used as a slab")
    }
}
