//! The allocator that users hold: creates resources, allocates their memory, and frees both once the GPU is done with
//! them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::defrag::{Defrag, DefragDesc};
use crate::device::{BufferDesc, BufferInfo, Create, Device, DeviceError, Kind, Requirements, TextureInfo};
use crate::error::Error;
use crate::memory::{
    AllocationDesc, AllocatorDesc, Debug, Handle, Location, MemoryBudgets, Planner, Reclaimed, Recording, Retirement,
    Shared, ShutdownError, Snapshot, Statistics,
};
use crate::residency::Residency;
use crate::resource::{Allocation, Buffer, Pool, PoolDesc, SmallBuffer, Texture};
use crate::timeline::Timeline;

/// Creates buffers and textures with memory, and frees them once the GPU is done with them.
///
/// Cheap to clone; every clone is the same allocator. All methods may be called from any thread. The allocator lives
/// until the last clone and every object that it created are dropped. The last drop waits until all submissions are
/// complete, without limit if a value that [`Timeline::submitted`] declared is never signalled; [`Allocator::shutdown`]
/// waits with a timeout. For a dropped frame the last drop waits one second, then leaks the objects that the frame may
/// use.
pub struct Allocator<D: Device> {
    shared: Arc<Shared<D>>,
    /// Shared by the clones only.
    handle: Arc<Handle<D>>,
}

impl<D: Device> Allocator<D> {
    /// Creates an allocator over a device. Each backend has a `new` that takes the API's own objects.
    #[must_use]
    pub fn over(device: D, desc: AllocatorDesc) -> Self {
        let shared = Arc::new(Shared::new(device, desc));
        Self { handle: Arc::new(Handle(Arc::clone(&shared))), shared }
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.shared.device
    }

    /// Adds a timeline, which is the progress of a queue. Objects that are retired from now on wait for this timeline
    /// too.
    ///
    /// # Errors
    /// [`DeviceError::Lost`]; [`DeviceError::InvalidInfo`] if the fence's value is 2⁶³ or more.
    ///
    /// # Safety
    /// The fence belongs to this allocator's device (on Vulkan it is a timeline semaphore). It outlives the allocator
    /// and every object that the allocator creates, dropped timelines included. During that time, the whole program
    /// keeps these rules:
    ///
    /// 1. Each submission that uses an object of the allocator is begun with [`Timeline::begin`] *before* any of its
    ///    commands that use the object is recorded, and before the host writes the object for it. While the submission
    ///    is recorded, the program owns each object that it uses, or has dropped the object since the frame began.
    /// 2. The submission signals this fence with [`Frame::value`](crate::Frame::value) once all of its commands are
    ///    complete. Submissions of one timeline are made to one queue, in the order of their values: if a value is
    ///    reached, all work with lower values is complete. Only these submissions signal the fence.
    /// 3. The frame stays open until the submission is made: [`Timeline::submitted`] is called, or the frame is
    ///    dropped, only after the submission. After either, no command is added to the submission.
    /// 4. A frame that is [discarded](crate::Frame::discard) was not submitted and never will be. When
    ///    [`Timeline::discard_dropped`] is called, no work of the frames that were dropped on the timeline is under
    ///    way, and none will be submitted.
    ///
    /// Dropping a frame declares nothing: it may have been submitted or not, and both are sound. This also covers a
    /// frame that an early return or a panic drops between the submission and [`Timeline::submitted`].
    pub unsafe fn timeline(&self, fence: D::Fence) -> Result<Timeline<D>, DeviceError> {
        Timeline::new(Arc::<Shared<D>>::clone(&self.shared), fence)
    }

    /// Creates a buffer with memory, or reuses a recycled one.
    ///
    /// A slot of a size class (up to 64 KiB) takes O(1). A range of a block takes O(log blocks), plus a check of each
    /// block that has enough free bytes but not in one range. Creating the driver's object is a driver call, unless one
    /// is recycled. A new block or dedicated memory is a driver call that may take milliseconds.
    ///
    /// # Recycled objects
    ///
    /// If the allocator has an object that matches the description, was released by its owner and is no longer used by
    /// the device, the request gets that object, without a driver call and without a search for a range. The object was
    /// created with the same parameters; its name and user data are replaced. Its contents are undefined, and a texture
    /// is in the layout `UNDEFINED`, as a new one. [`AllocatorDesc::recycled_bytes_max`] bounds the bytes of recycled
    /// objects. They count as free memory. They are destroyed if memory is short, if their description was not
    /// requested for some time, and by [`MemoryBudgets::trim`].
    ///
    /// A view, a descriptor or a copied handle that is used after its resource was released accesses the next owner's
    /// bytes. That is an error without recycling too: with [`AllocationDesc::recycle`] off, validation layers report it
    /// as a use of a destroyed object. The simulated device reports it in either case.
    ///
    /// Objects are not recycled while a trace is recorded or debugging is on. These are never recycled:
    ///
    /// - shared, imported, sparse, movable and evictable resources,
    /// - resources in a custom pool,
    /// - resources that found no room in the best memory type,
    /// - on Direct3D 12, textures that do not allow simultaneous access, unless their description says that their owner
    ///   returns them to their initial state.
    ///
    /// # Errors
    /// There is no memory, or no memory type for the location, or the driver refuses the description. Nothing has
    /// changed then.
    #[track_caller]
    pub fn create_buffer(&self, info: &BufferInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Buffer<D>, Error> {
        Buffer::create(&self.shared, info, desc, None)
    }

    /// Creates a texture with memory, or reuses a recycled one: see [`Allocator::create_buffer`].
    ///
    /// # Errors
    /// As [`Allocator::create_buffer`].
    #[track_caller]
    pub fn create_texture(&self, info: &TextureInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Texture<D>, Error> {
        Texture::create(&self.shared, info, desc, None)
    }

    /// Creates a small buffer inside a driver buffer that small buffers share. It costs as much as
    /// [`Allocator::allocate`], because no driver object is created for it alone.
    ///
    /// The shared buffer is bound, transitioned and synchronised as one object. Buffers that shaders write never share
    /// a driver buffer with buffers that shaders only read. Small buffers have no names of their own.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above 256 KiB; otherwise as [`Allocator::create_buffer`].
    #[track_caller]
    pub fn create_small_buffer(&self, desc: BufferDesc, location: Location) -> Result<SmallBuffer<D>, Error> {
        SmallBuffer::new(&self.shared, desc, location)
    }

    /// Creates a custom pool.
    ///
    /// # Errors
    /// The memory type does not exist, the blocks are larger than the device allows, the alignment is not a power of
    /// two, or the pool's initial blocks could not be created.
    pub fn create_pool(&self, desc: PoolDesc<'_>) -> Result<Pool<D>, Error> {
        Pool::new(&self.handle, desc)
    }

    /// Allocates memory for requirements, without a resource: for a resource that the program creates and binds itself,
    /// or for several resources that alias the bytes ([`Allocation::create_aliasing_texture`]).
    ///
    /// The class of the requirements is the kind of resource that will be bound to the memory. If that is not known, or
    /// if there will be several kinds, use [`Allocator::allocate_mixed`]. It costs as much as
    /// [`Allocator::create_buffer`], without the driver's object.
    ///
    /// # Errors
    /// The size is 0, the alignment is not a power of two, no memory type fits, the size exceeds every heap, or there
    /// is no memory. Nothing has changed then.
    #[track_caller]
    #[inline]
    pub fn allocate(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Allocation<D>, Error> {
        Allocation::allocate(&self.shared, needs, desc)
    }

    /// Allocates memory as [`Allocator::allocate`] does, for resources of every class. If the device requires a
    /// distance between buffers and textures (`bufferImageGranularity`), the range is aligned to it and rounded up to a
    /// multiple of it. The program must keep that distance between the resources in the range.
    ///
    /// # Errors
    /// [`Error::MixedClasses`] on devices that never let classes share a memory object (Direct3D 12, heap tier 1);
    /// otherwise as [`Allocator::allocate`].
    #[track_caller]
    pub fn allocate_mixed(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Allocation<D>, Error> {
        Allocation::allocate_mixed(&self.shared, needs, desc)
    }

    /// Allocates memory as [`Allocator::allocate`] does, for the resource `unplaced`, which the program binds itself.
    /// If the memory is dedicated, the driver is given the resource.
    ///
    /// # Errors
    /// As [`Allocator::allocate`].
    ///
    /// # Safety
    /// `unplaced` belongs to this device, is alive and is not bound; `needs` are its requirements.
    #[track_caller]
    pub unsafe fn allocate_for<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
    ) -> Result<Allocation<D>, Error>
    where
        K: Kind,
        D: Create<K>,
    {
        // SAFETY: the caller promises the same.
        unsafe { Allocation::allocate_for::<K>(&self.shared, unplaced, needs, desc) }
    }

    /// Returns the residency manager, which keeps evictable memory within the budget: see
    /// [`residency`](crate::residency). On a device without
    /// [`Capabilities::residency`](crate::device::Capabilities::residency) it does nothing.
    ///
    /// # Safety
    /// Each submission that touches an [`evictable`](crate::AllocationDesc::evictable) resource lists it in a
    /// [`UseList`](crate::residency::UseList), and is submitted only after [`Residency::commit`] has succeeded for that
    /// list and the submission's frame.
    #[must_use]
    pub unsafe fn residency(&self) -> Residency<D> {
        // SAFETY: the caller promises the same.
        unsafe { Residency::new(&self.shared) }
    }

    /// Releases retired resources that the device is done with: each is kept for recycling, or destroyed. Frees blocks
    /// that have been empty for long. Call it once a frame. It never waits for the GPU. It makes one driver call for
    /// each timeline, each destroyed object and each freed block, at most one for the budgets, and those for descriptor
    /// heaps and for rings that shrink. While a trace is recorded, the call may write to the trace's file.
    ///
    /// Any number of threads may call it. While one thread is in the call, a call on another thread destroys only
    /// objects that that thread has dropped, by the progress that was read last. A call from inside another `reclaim`
    /// on the same thread returns at once. If threads drop objects faster than `reclaim` destroys them, their drops
    /// destroy objects too: at most 1,280 objects that each thread has dropped and the GPU is done with stay retired.
    pub fn reclaim(&self) -> Reclaimed {
        self.shared.reclaim(usize::MAX)
    }

    /// Waits until all submissions are complete, at most for `timeout`, then destroys the objects that were retired.
    /// After `Ok` no retired object is left, and the eviction callback is removed, because it may own the allocator.
    ///
    /// Objects that the device is done with are released first, so an error counts only objects that are still in use.
    /// Frames that were dropped may have been submitted: if objects wait for such frames, the call waits for the frames
    /// too, at most for a second, because the value of a submission that failed is never signalled. With a timeout of
    /// zero it only checks. With [`Duration::MAX`] it waits without limit for submissions, and not at all for dropped
    /// frames. After a device loss it does not wait, and destroys everything at once.
    ///
    /// Leaks are reported ([`DebugDesc::leaks`](crate::DebugDesc::leaks)) also if the call fails.
    ///
    /// # Errors
    /// A frame is open, or was dropped and is not complete; the timeout has passed; or the driver failed for another
    /// reason than device loss. The objects that wait for the device stay retired.
    pub fn shutdown(&self, timeout: Duration) -> Result<Reclaimed, ShutdownError> {
        let reclaimed = self.shared.shutdown(timeout)?;
        self.budgets().set_eviction(None);
        Ok(reclaimed)
    }

    /// Returns figures of memory and of driver calls, cheap enough for each frame: O(memory types + recycled objects).
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// Returns every block, range and resource as plain data. O(ranges): not for each frame.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// Begins a defragmentation of all memory, custom pools included: see [`defrag`](crate::defrag). This call moves
    /// nothing yet.
    #[must_use]
    pub fn defragment(&self, desc: DefragDesc) -> Defrag<D> {
        Defrag::of_all(&self.shared, desc)
    }

    /// Returns a planner, which reports the memory type, the block and the driver calls that a request would use,
    /// without executing the request.
    #[must_use]
    pub fn plan(&self) -> Planner<'_, D> {
        Planner(&self.shared)
    }

    /// Returns access to the usage and limits of memory heaps, functions to create blocks before they are needed and to
    /// free empty ones, and the eviction callback.
    #[must_use]
    pub fn budgets(&self) -> MemoryBudgets<'_, D> {
        MemoryBudgets(&self.shared)
    }

    /// Returns access to deferred free for the program's own objects: they wait for the device as resources do.
    #[must_use]
    pub fn retirement(&self) -> Retirement<'_, D> {
        Retirement(&self.shared)
    }

    /// Returns access to debugging: leaks, overruns and the history of operations.
    #[must_use]
    pub fn debug(&self) -> Debug<'_, D> {
        Debug(&self.shared)
    }

    /// Returns access to the recording of traces.
    #[must_use]
    pub fn trace(&self) -> Recording<'_, D> {
        Recording(&self.shared)
    }

    /// Returns the interface for libraries that build on the allocator: see [`extend`](crate::extend).
    #[inline]
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared<D>> {
        &self.shared
    }
}

impl<D: Device> Clone for Allocator<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), handle: Arc::clone(&self.handle) }
    }
}

impl<D: Device> fmt::Debug for Allocator<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Allocator({})", self.shared.device.capabilities().name)
    }
}
