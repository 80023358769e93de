//! The interface for libraries that build on the allocator. The rings, descriptor heaps, transient heaps, pools and
//! sparse resources of `ringfence` use it, and other libraries can too.
//!
//! [`Allocator::shared`](crate::Allocator::shared) returns the [`Shared`] state of the allocator, which lives as long
//! as the allocator and every object that was created from it. If each reclaim must visit an object, register the
//! object: a [`ReclaimRing`] with [`Shared::add_ring`], a [`ReclaimHeap`] with [`Shared::add_heap`], a [`RangeOwner`]
//! with [`Shared::add_pool`]. An object that gets its memory page by page is created with [`Shared::make_paged`] and
//! retired with [`Shared::retire_paged`]; [`Shared::allocate_page`] allocates each page.

use std::panic::Location;

use crate::device::{BufferInfo, Device};
use crate::{AllocationDesc, Allocator, Buffer, Error};

pub use crate::device::lock::{Lock, drop_unlocked, is_locked, run_unlocked};
pub use crate::memory::Made;
pub use crate::memory::Shared;
pub use crate::memory::descriptor_heaps::ReclaimHeap;
pub use crate::memory::place::{Backing, RangeOwner};
pub use crate::memory::rings::ReclaimRing;
pub use crate::memory::shortage::retry_after_eviction;
pub use crate::memory::{Memory, Place};
pub use crate::resource::shared_alignment;
pub use ringfence_timeline::{OpenFrame, Passed, WaitError};

/// Creates a buffer from the device's own description, as [`Allocator::create_buffer`] does. Debugging shows `at` as
/// the line that created the buffer.
///
/// # Errors
/// As [`Allocator::create_buffer`].
pub fn create_buffer_at<D: Device>(
    memory: &Allocator<D>,
    info: &BufferInfo<'_, D>,
    desc: AllocationDesc<'_>,
    at: &'static Location<'static>,
) -> Result<Buffer<D>, Error> {
    Buffer::create_at(memory.shared(), info, desc, None, at)
}
