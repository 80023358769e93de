//! The result of a request: a driver object and the bytes in it, with one owner.
//!
//! | kind | on drop | once the device is done with it |
//! |---|---|---|
//! | stand-alone | object and memory on the to-delete list | both are destroyed |
//! | sub-allocated, placed | object and range deferred | the object is destroyed, its range goes back to the pool |
//! | sub-allocated, of a shared buffer | range deferred | the range goes back; the buffer lives as long as its block |
//! | fast | nothing | nothing: the page goes as a whole |
//! | heap-aliased | object on the to-delete list | it is destroyed; the memory stays with its other users |

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use ringfence_core::sync::SyncSet;

use super::desc::{LocationKind, Route, TextureKind};
use super::range_pool::InPool;
use crate::device::{Device, Mapped, Placed, RawBuffer};
use ringfence_memory::extend::Shared;
use ringfence_memory::memory::Location;
use ringfence_memory::{AccessError, Buffer, Resource, Texture};

/// A buffer from the placement policy: a driver buffer of its own, or a range of one that others share.
///
/// Dropping it releases it, deferred until every submission that had begun by then is complete.
pub struct BufferLocation<D: Device> {
    /// Its object is shared with other locations iff `is_range`.
    buffer: ManuallyDrop<Buffer<D>>,
    is_range: bool,
    /// The first byte in the driver's buffer.
    offset: u64,
    size: u64,
    route: Route,
}

impl<D: Device> BufferLocation<D> {
    /// A driver buffer of its own.
    pub(super) fn own(buffer: Buffer<D>, size: u64, route: Route) -> Self {
        Self { buffer: ManuallyDrop::new(buffer), is_range: false, offset: 0, size, route }
    }

    /// `size` bytes of a driver buffer that others share: a range of a pool.
    pub(super) fn in_pool(
        shared: &Arc<Shared<D>>,
        found: InPool<D>,
        size: u64,
        location: Location,
        route: Route,
    ) -> Self {
        let InPool { place, offset, shared_buffer, mapped, .. } = found;
        let object = shared_buffer.expect("a pool of ranges shares buffers");
        // SAFETY: the pool's buffer covers the place, is mapped there as the pool says, and goes with the pool.
        let buffer = unsafe { Resource::new(Arc::clone(shared), Placed { object, mapped }, place, size, location) };
        Self { buffer: ManuallyDrop::new(buffer), is_range: true, offset, size, route }
    }

    /// The buffer, which is not released by this value any more.
    fn into_buffer(self) -> Buffer<D> {
        // SAFETY: the value is neither dropped nor used again.
        unsafe { ManuallyDrop::take(&mut ManuallyDrop::new(self).buffer) }
    }

    /// Frees a range of its pool.
    ///
    /// # Safety
    /// The device is done with it.
    pub(crate) unsafe fn free_range_now(self) {
        debug_assert!(self.is_range, "an object of one's own is destroyed by the allocator");
        let (shared, _, place) = self.into_buffer().into_parts();
        // SAFETY: the range was this value's alone; the rest is the caller's promise.
        unsafe { shared.destroy_place(place) };
    }

    /// The driver's buffer. Bytes outside of [`BufferLocation::offset`]` ..+ `[`BufferLocation::size`] are not this
    /// owner's.
    #[must_use]
    pub fn object(&self) -> &RawBuffer<D> {
        self.buffer.object()
    }

    /// The first byte in the driver's buffer.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The requested bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Which allocator gave it.
    #[must_use]
    pub fn route(&self) -> Route {
        self.route
    }

    /// How it is released.
    #[must_use]
    pub fn kind(&self) -> LocationKind {
        self.route.kind()
    }

    /// The memory type that it lies in.
    #[must_use]
    pub fn memory_type(&self) -> u32 {
        self.buffer.memory_type()
    }

    /// Whether the host can reach its bytes.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.buffer.is_mapped()
    }

    /// Its first byte, if the host writes it without flushes.
    pub(crate) fn plainly_mapped(&self) -> Option<Mapped> {
        let capabilities = self.buffer.shared().device.capabilities();
        self.buffer.mapped_base().filter(|_| !capabilities.needs_flush(self.memory_type()))
    }

    /// As [`Buffer::write`], `offset` being counted from the location's first byte.
    ///
    /// # Errors
    /// As there.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.check(offset, bytes.len())?;
        self.buffer.write(offset, bytes)
    }

    /// As [`Buffer::read`], `offset` being counted from the location's first byte.
    ///
    /// # Errors
    /// As there.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.check(offset, into.len())?;
        self.buffer.read(offset, into)
    }

    /// Whether it is of this allocator.
    pub(super) fn is_of(&self, shared: &Arc<Shared<D>>) -> bool {
        Arc::ptr_eq(self.buffer.shared(), shared)
    }

    /// Not what the driver rounded up.
    fn check(&self, offset: u64, len: usize) -> Result<(), AccessError> {
        let size = len as u64;
        match offset.checked_add(size) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(AccessError::OutOfRange { offset, size, resource_size: self.size }),
        }
    }

    /// Destroys it at once: its own driver object with the memory, or its range of the shared buffer.
    ///
    /// # Safety
    /// No submission that is under way uses it.
    pub unsafe fn destroy_now(self) {
        if self.is_range {
            // SAFETY: the caller promises the same.
            return unsafe { self.free_range_now() };
        }
        // SAFETY: the caller promises the same, and a buffer that is no range is its owner's alone.
        unsafe { self.into_buffer().destroy_now() };
    }

    /// Releases it once `points` have passed, whichever other submissions are under way.
    ///
    /// # Panics
    /// If a point is on a timeline of another allocator, or of none. It is released as if it were dropped then.
    ///
    /// # Safety
    /// Only submissions that complete with these points use it.
    pub unsafe fn retire_after(self, points: &SyncSet) {
        let is_range = self.is_range;
        let (shared, object, place) = self.into_buffer().into_parts();
        // SAFETY: both were this value's alone; the rest is the caller's promise.
        unsafe { shared.retire_after(points, (!is_range).then_some(object), place) };
    }
}

impl<D: Device> Drop for BufferLocation<D> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads the field afterwards.
        let buffer = unsafe { ManuallyDrop::take(&mut self.buffer) };
        if self.is_range {
            let (shared, _, place) = buffer.into_parts();
            // SAFETY: the range was this value's alone, which goes.
            unsafe { shared.retire(None, place) };
        }
    }
}

impl<D: Device> fmt::Debug for BufferLocation<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, size, route, .. } = self;
        write!(f, "BufferLocation({size} bytes at {offset} of {:?}, {route:?})", self.object())
    }
}

/// A texture that the placement policy gave.
pub struct TextureLocation<D: Device> {
    pub(super) texture: Texture<D>,
    pub(super) texture_kind: TextureKind,
    pub(super) route: Route,
}

impl<D: Device> TextureLocation<D> {
    /// The texture.
    #[must_use]
    pub fn texture(&self) -> &Texture<D> {
        &self.texture
    }

    /// The texture itself, which is released in the same way.
    #[must_use]
    pub fn into_texture(self) -> Texture<D> {
        self.texture
    }

    /// Destroys it at once, with its memory if that is its own.
    ///
    /// # Safety
    /// No submission that is under way uses it.
    pub unsafe fn destroy_now(self) {
        // SAFETY: the caller promises the same.
        unsafe { self.texture.destroy_now() };
    }

    /// Which kind it was measured to be.
    #[must_use]
    pub fn texture_kind(&self) -> TextureKind {
        self.texture_kind
    }

    /// Which allocator gave it.
    #[must_use]
    pub fn route(&self) -> Route {
        self.route
    }

    /// How it is released.
    #[must_use]
    pub fn kind(&self) -> LocationKind {
        self.route.kind()
    }
}

impl<D: Device> fmt::Debug for TextureLocation<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TextureLocation({:?}, {:?})", self.texture, self.route)
    }
}
