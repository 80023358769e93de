//! Memory requirements of a resource, the description of a memory object, and pointers to mapped memory.

use std::ptr::NonNull;

use super::capabilities::{Priority, ResourceClass};

/// Memory requirements of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirements {
    /// Size in bytes.
    pub size: u64,
    /// Alignment of the resource's offset in the memory object, in bytes; a power of two.
    pub alignment: u64,
    /// Bit i is set if and only if the resource may be placed in memory type i.
    pub memory_type_bits: u32,
    /// The class of the resource. It decides which resources may share a block with this one.
    pub class: ResourceClass,
    /// `true` if the driver prefers dedicated memory for the resource.
    pub prefers_dedicated: bool,
    /// `true` if the driver requires dedicated memory for the resource.
    pub requires_dedicated: bool,
}

/// Description of a memory object to allocate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryDesc<'a> {
    /// Index into [`Capabilities::memory_types`](super::Capabilities::memory_types).
    pub memory_type: u32,
    /// Size in bytes.
    pub size: u64,
    /// The largest alignment, in bytes, of the resources that will be placed in the memory.
    pub alignment: u64,
    /// The class of the resources that will be placed in the memory. It matters only if
    /// [`Capabilities::class_groups`](super::Capabilities::class_groups) separates classes.
    pub class: ResourceClass,
    /// Priority of the memory when device-local memory is short.
    pub priority: Priority,
    /// A name for debuggers; empty for no name.
    pub name: &'a str,
    /// The kind of handle that the memory is exported to or imported from; `None` if the memory is not shared.
    pub share: Option<ShareKind>,
}

/// A resource that is bound to its memory.
#[derive(Clone, Debug)]
pub struct Placed<O> {
    /// The driver's object.
    pub object: O,
    /// Pointer to the first byte of the resource; `None` if the device does not map the resource.
    pub mapped: Option<Mapped>,
}

/// A pointer into mapped memory.
///
/// Storing or sending the pointer is safe, because it is only an address. Accesses through the pointer are `unsafe`;
/// the library accesses only ranges that have one exclusive owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped(NonNull<u8>);

// SAFETY: mapped memory is not bound to a thread. Dereferencing the pointer is `unsafe`, and the code that does it
// ensures exclusive access.
unsafe impl Send for Mapped {}
// SAFETY: a shared `Mapped` only yields an address. Dereferencing it is `unsafe` and requires exclusive access.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Wraps a pointer that the driver returned.
    #[must_use]
    pub const fn new(pointer: NonNull<u8>) -> Self {
        Self(pointer)
    }

    /// Returns the pointer.
    #[must_use]
    pub const fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// Returns the pointer advanced by `offset` bytes.
    ///
    /// # Safety
    /// The result must be inside the mapped memory, or one past its end.
    #[must_use]
    pub const unsafe fn add(self, offset: u64) -> Self {
        // SAFETY: the caller promises that the result stays inside the mapping.
        Self(unsafe { self.0.add(offset as usize) })
    }
}

/// The type of a handle to shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ShareKind {
    /// A file descriptor that only the same driver on the same device understands (`OPAQUE_FD`).
    OpaqueFd,
    /// A file descriptor of a Linux dma-buf, which other drivers and APIs understand (`DMA_BUF_EXT`).
    DmaBuf,
    /// A Windows handle that only the same driver on the same device understands (`OPAQUE_WIN32`).
    OpaqueWin32,
    /// A Windows handle to a heap of Direct3D 12.
    D3d12Heap,
    /// A handle of the simulated device.
    Simulated,
}

impl ShareKind {
    const ALL: [Self; 5] = [Self::OpaqueFd, Self::DmaBuf, Self::OpaqueWin32, Self::D3d12Heap, Self::Simulated];

    /// Returns a number that identifies the kind, so that the kind can be sent to another process.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the kind with this number. Returns `None` if no kind has it.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// The device's support of shared memory for a resource.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ShareSupport {
    /// `true` if a handle to the resource's memory can be exported.
    pub can_export: bool,
    /// `true` if memory for the resource can be imported from a handle.
    pub can_import: bool,
    /// `true` if exports and imports require memory that is dedicated to the resource. The resource then cannot be
    /// placed in a block with others.
    pub needs_dedicated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_handles_have_the_numbers_that_other_processes_know() {
        let kinds = [
            (0, ShareKind::OpaqueFd),
            (1, ShareKind::DmaBuf),
            (2, ShareKind::OpaqueWin32),
            (3, ShareKind::D3d12Heap),
            (4, ShareKind::Simulated),
        ];
        for (number, kind) in kinds {
            assert_eq!((kind.number(), ShareKind::from_number(number)), (number, Some(kind)));
        }
        assert_eq!((ShareKind::from_number(5), ShareKind::from_number(255)), (None, None));
    }

    #[test]
    fn a_pointer_advances_by_bytes() {
        let mut bytes = [1_u8, 2, 3, 4];
        let first = Mapped::new(NonNull::new(bytes.as_mut_ptr()).expect("an array has an address"));
        assert_eq!(first.as_ptr(), bytes.as_mut_ptr());
        // SAFETY: byte 3 is in the array.
        let last = unsafe { first.add(3) };
        // SAFETY: the array is alive, and no other access overlaps.
        assert_eq!(unsafe { last.as_ptr().read() }, 4);
    }
}
