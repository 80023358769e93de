//! Locations: a driver object and the range of bytes in it, with one owner.
//!
//! | kind | on drop | once the device no longer uses it |
//! |---|---|---|
//! | stand-alone | object and memory retired | both are destroyed |
//! | sub-allocated, placed | object and range retired | the object is destroyed, its range is freed in the pool |
//! | sub-allocated, of a shared buffer | range retired | the range is freed; the buffer lives as long as its block |
//! | fast | nothing | nothing: the page is freed as a whole |
//! | heap-aliased | object retired | the object is destroyed; the memory is kept for its other users |

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use ringfence_core::sync::SyncSet;

use super::desc::{LocationKind, Route, TextureKind};
use super::range_pool::InPool;
use crate::device::{BufferDesc, Device, Mapped, Placed, RawBuffer};
use ringfence_memory::extend::Shared;
use ringfence_memory::memory::Location;
use ringfence_memory::resource::{AsBufferSlice, BufferSlice};
use ringfence_memory::{AccessError, Buffer, Resource, Texture};
use ringfence_upload::CopyTarget;

/// A buffer from the placement policy: a separate driver buffer, or a range of a shared one.
///
/// Dropping it releases the range or the driver buffer once every submission that had begun at the drop is complete.
pub struct BufferLocation<D: Device> {
    /// If `is_range` is `true`, other locations share the driver's object.
    buffer: ManuallyDrop<Buffer<D>>,
    is_range: bool,
    /// Offset of the first byte in the driver's buffer, in bytes.
    offset: u64,
    size: u64,
    route: Route,
    /// Description of the driver's buffer.
    desc: Option<BufferDesc>,
}

// SAFETY: the range belongs to this value, which keeps the buffer.
unsafe impl<D: Device> AsBufferSlice<D> for BufferLocation<D> {
    fn as_slice(&self) -> BufferSlice<'_, D> {
        let Self { buffer, offset, size, desc, .. } = self;
        BufferSlice { desc: *desc, offset: *offset, size: *size, ..buffer.as_slice() }
    }
}

// SAFETY: the range belongs to this value, whose drop retires it; the driver's buffer lives as long as its ranges.
unsafe impl<D: Device> CopyTarget<D> for BufferLocation<D> {
    fn resource(&self) -> Option<&Buffer<D>> {
        (!self.is_range).then_some(&*self.buffer)
    }

    fn location(&self) -> Location {
        self.buffer.location()
    }
}

impl<D: Device> BufferLocation<D> {
    /// Wraps a separate driver buffer.
    pub(super) fn own(buffer: Buffer<D>, size: u64, route: Route) -> Self {
        let desc = buffer.desc().copied();
        Self { buffer: ManuallyDrop::new(buffer), is_range: false, offset: 0, size, route, desc }
    }

    /// Wraps `size` bytes of a shared driver buffer: a range of a pool.
    pub(super) fn in_pool(
        shared: &Arc<Shared<D>>,
        found: InPool<D>,
        size: u64,
        location: Location,
        route: Route,
    ) -> Self {
        let InPool { place, offset, shared_buffer, mapped, desc, .. } = found;
        let object = shared_buffer.expect("a pool of ranges shares buffers");
        // SAFETY: the pool's buffer covers the range, is mapped there if the pool has a pointer, and is destroyed with
        // the pool.
        let buffer = unsafe { Resource::new(Arc::clone(shared), Placed { object, mapped }, place, size, location) };
        Self { buffer: ManuallyDrop::new(buffer), is_range: true, offset, size, route, desc }
    }

    /// Returns the buffer without releasing it.
    fn into_buffer(self) -> Buffer<D> {
        // SAFETY: the value is neither dropped nor used again.
        unsafe { ManuallyDrop::take(&mut ManuallyDrop::new(self).buffer) }
    }

    /// Frees the range in its pool immediately.
    ///
    /// # Safety
    /// The device no longer uses the range.
    pub(crate) unsafe fn free_range_now(self) {
        debug_assert!(self.is_range, "the allocator destroys a separate object");
        let (shared, _, place) = self.into_buffer().into_parts();
        // SAFETY: only this value used the range; the rest is the caller's promise.
        unsafe { shared.destroy_place(place) };
    }

    /// Returns the driver's buffer. The owner may use only [`BufferLocation::size`] bytes from
    /// [`BufferLocation::offset`] on.
    #[must_use]
    pub fn object(&self) -> &RawBuffer<D> {
        self.buffer.object()
    }

    /// Returns the description of a buffer that locations share.
    pub(super) fn shared_desc(&self) -> BufferDesc {
        self.desc.expect("the policy described the buffer")
    }

    /// Returns the offset of the first byte in the driver's buffer, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the requested size, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the part of the policy that served the request.
    #[must_use]
    pub fn route(&self) -> Route {
        self.route
    }

    /// Returns the kind of location, which determines how the buffer is released.
    #[must_use]
    pub fn kind(&self) -> LocationKind {
        self.route.kind()
    }

    /// Returns the index of the location's memory type.
    #[must_use]
    pub fn memory_type(&self) -> u32 {
        self.buffer.memory_type()
    }

    /// Returns `true` if the host can access the location's bytes.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.buffer.is_mapped()
    }

    /// If the host can write to the location without flushes, returns a pointer to the first byte. Otherwise returns
    /// `None`.
    pub(crate) fn plainly_mapped(&self) -> Option<Mapped> {
        let capabilities = self.buffer.shared().device.capabilities();
        self.buffer.mapped_base().filter(|_| !capabilities.needs_flush(self.memory_type()))
    }

    /// Writes bytes as [`Buffer::write`] does; `offset` is relative to the location's first byte, in bytes.
    ///
    /// # Errors
    /// As [`Buffer::write`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.check(offset, bytes.len())?;
        self.buffer.write(offset, bytes)
    }

    /// Reads bytes as [`Buffer::read`] does; `offset` is relative to the location's first byte, in bytes.
    ///
    /// # Errors
    /// As [`Buffer::read`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.check(offset, into.len())?;
        self.buffer.read(offset, into)
    }

    /// Returns `true` if the location belongs to this allocator.
    pub(super) fn is_of(&self, shared: &Arc<Shared<D>>) -> bool {
        Arc::ptr_eq(self.buffer.shared(), shared)
    }

    /// Fails for an access outside the requested size, even if the driver has rounded the size up.
    fn check(&self, offset: u64, len: usize) -> Result<(), AccessError> {
        let size = len as u64;
        match offset.checked_add(size) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(AccessError::OutOfRange { offset, size, resource_size: self.size }),
        }
    }

    /// Destroys the location immediately: a separate driver buffer with its memory, or the range of a shared buffer.
    ///
    /// # Safety
    /// No pending submission uses the location.
    pub unsafe fn destroy_now(self) {
        if self.is_range {
            // SAFETY: by the caller's promise.
            return unsafe { self.free_range_now() };
        }
        // SAFETY: by the caller's promise; only its owner uses a buffer that is not a range.
        unsafe { self.into_buffer().destroy_now() };
    }

    /// Releases the location once `points` have passed, regardless of other pending submissions.
    ///
    /// # Panics
    /// If a point is not on a timeline of this allocator. The location is released as by a drop in this case.
    ///
    /// # Safety
    /// All submissions that use the location are complete when these points have passed.
    pub unsafe fn retire_after(self, points: &SyncSet) {
        let is_range = self.is_range;
        let (shared, object, place) = self.into_buffer().into_parts();
        // SAFETY: only this value used both; the rest is the caller's promise.
        unsafe { shared.retire_after(points, (!is_range).then_some(object), place) };
    }
}

impl<D: Device> Drop for BufferLocation<D> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and the field is not read afterwards.
        let buffer = unsafe { ManuallyDrop::take(&mut self.buffer) };
        if self.is_range {
            let (shared, _, place) = buffer.into_parts();
            // SAFETY: only this value used the range, and it is being dropped.
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

/// A texture from the placement policy.
pub struct TextureLocation<D: Device> {
    pub(super) texture: Texture<D>,
    pub(super) texture_kind: TextureKind,
    pub(super) route: Route,
}

impl<D: Device> TextureLocation<D> {
    /// Returns the texture.
    #[must_use]
    pub fn texture(&self) -> &Texture<D> {
        &self.texture
    }

    /// Returns the texture by value. The drop of the texture releases it, like the drop of the location.
    #[must_use]
    pub fn into_texture(self) -> Texture<D> {
        self.texture
    }

    /// Destroys the texture immediately. If its memory is dedicated, destroys the memory too.
    ///
    /// # Safety
    /// No pending submission uses the texture.
    pub unsafe fn destroy_now(self) {
        // SAFETY: by the caller's promise.
        unsafe { self.texture.destroy_now() };
    }

    /// Returns the kind of the texture, which depends on its usage and, except in an aliased heap, on its measured
    /// size.
    #[must_use]
    pub fn texture_kind(&self) -> TextureKind {
        self.texture_kind
    }

    /// Returns the part of the policy that served the request.
    #[must_use]
    pub fn route(&self) -> Route {
        self.route
    }

    /// Returns the kind of location, which determines how the texture is released.
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
