//! The allocator that users hold: makes resources, gives them memory, and takes back what the GPU is done with.

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

/// Makes buffers and textures with memory, and takes them back once the GPU is done with them.
///
/// Cheap to clone; every clone is the same allocator. All methods may be called from any thread. The allocator lives
/// until the last clone and everything that it made are dropped. The last drop waits until all submissions are
/// complete, without limit if a value that [`Timeline::submitted`] declared is never signalled; [`Allocator::shutdown`]
/// waits with a timeout. For a dropped frame the last drop waits one second, then leaks what that frame may use.
pub struct Allocator<D: Device> {
    shared: Arc<Shared<D>>,
    /// Shared by the clones, and by nothing else.
    handle: Arc<Handle<D>>,
}

impl<D: Device> Allocator<D> {
    /// An allocator over a device. Each backend has a `new` that takes the API's own objects.
    #[must_use]
    pub fn over(device: D, desc: AllocatorDesc) -> Self {
        let shared = Arc::new(Shared::new(device, desc));
        Self { handle: Arc::new(Handle(Arc::clone(&shared))), shared }
    }

    /// The device underneath.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.shared.device
    }

    /// Adds a timeline, which is the progress of a queue: what is retired from now on waits for this timeline too.
    ///
    /// # Errors
    /// [`DeviceError::Lost`]; [`DeviceError::InvalidInfo`] where the fence shows 2⁶³ or more.
    ///
    /// # Safety
    /// The fence is of this allocator's device (on Vulkan a timeline semaphore) and outlives the allocator and all that
    /// it makes, dropped timelines included. For as long as that, the whole program keeps these rules:
    ///
    /// 1. Each submission that touches what the allocator made is begun with [`Timeline::begin`] *before* any command
    ///    of it that uses such an object is recorded, and before the object is written for it. While it records, the
    ///    program holds the objects or has dropped them since the frame began.
    /// 2. The submission signals this fence with [`Frame::value`](crate::Frame::value) once it is complete, with all of
    ///    its commands. Submissions of one timeline go to one queue, in the order of their values, so that a value that
    ///    is reached means that all work with lower values is complete. Nothing else signals the fence.
    /// 3. The frame stays open until the submission is made: [`Timeline::submitted`] is called after it, and neither
    ///    that nor dropping the frame comes before the submission. After either, no command is added for it.
    /// 4. A frame that is [discarded](crate::Frame::discard) was not submitted and never will be. When
    ///    [`Timeline::discard_dropped`] is called, no work of the frames that were dropped on the timeline is under way
    ///    or comes later.
    ///
    /// A frame that is dropped says nothing: it may have been submitted or not, and both are sound. That holds for one
    /// that is dropped by an early return or a panic between the submission and [`Timeline::submitted`], too.
    pub unsafe fn timeline(&self, fence: D::Fence) -> Result<Timeline<D>, DeviceError> {
        Timeline::new(Arc::<Shared<D>>::clone(&self.shared), fence)
    }

    /// Makes a buffer, or gives one that the device is done with to its next owner.
    ///
    /// A slot of a size class (up to 64 KiB) is O(1); a range of a block O(log blocks), and a look at each block that
    /// has the bytes but not in one piece. The driver's object is a driver call, unless one is recycled; a new block or
    /// dedicated memory is one that may take milliseconds.
    ///
    /// # Recycled objects
    ///
    /// A request with the same description as an earlier one gets an object that its owner has released and the device
    /// is done with, if there is one: no driver call, no search for a range. The object was created with the same
    /// parameters; its name and user data are the new ones. Its contents are undefined, and a texture is in the layout
    /// `UNDEFINED`, as a new one. [`AllocatorDesc::recycled_bytes_max`] bounds how much is kept. Kept objects count as
    /// free memory. They are destroyed when memory is short, when their description was not requested for some time,
    /// and by [`MemoryBudgets::trim`].
    ///
    /// A view, a descriptor or a copied handle that is used after its resource was released accesses the next owner's
    /// bytes. That is an error without recycling too: with [`AllocationDesc::recycle`] off, validation layers report it
    /// as a use of a destroyed object. The simulated device reports it in either case. Nothing is recycled while a
    /// trace is recorded or debugging is on. What is shared, imported, sparse, movable, evictable, in a custom pool, or
    /// found no room in the best memory type never is; on Direct3D 12 a texture only if it allows simultaneous access,
    /// or its description says that its owner returns it to its initial state.
    ///
    /// # Errors
    /// No memory, no memory type for the location, or the driver refuses the description. Nothing has changed then.
    #[track_caller]
    pub fn create_buffer(&self, info: &BufferInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Buffer<D>, Error> {
        Buffer::create(&self.shared, info, desc, None)
    }

    /// Makes a texture, or gives one that the device is done with to its next owner: see [`Allocator::create_buffer`].
    ///
    /// # Errors
    /// As [`Allocator::create_buffer`].
    #[track_caller]
    pub fn create_texture(&self, info: &TextureInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Texture<D>, Error> {
        Texture::create(&self.shared, info, desc, None)
    }

    /// Makes a small buffer in a driver's buffer that others share. Costs what [`Allocator::allocate`] costs: no driver
    /// object is made for it alone.
    ///
    /// The shared buffer is bound, transitioned and synchronised as one object; buffers that shaders write never share
    /// one with buffers that they only read. Small buffers have no names of their own.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above 256 KiB; else as [`Allocator::create_buffer`].
    #[track_caller]
    pub fn create_small_buffer(&self, desc: BufferDesc, location: Location) -> Result<SmallBuffer<D>, Error> {
        SmallBuffer::new(&self.shared, desc, location)
    }

    /// Makes a custom pool.
    ///
    /// # Errors
    /// No such memory type, blocks larger than the device allows, an alignment that is not a power of two; or the
    /// blocks that it is to have from the start could not be made.
    pub fn create_pool(&self, desc: PoolDesc<'_>) -> Result<Pool<D>, Error> {
        Pool::new(&self.handle, desc)
    }

    /// Memory for a requirement, without a resource: for one that the program makes and places itself, or for several
    /// that share its bytes ([`Allocation::create_aliasing_texture`]).
    ///
    /// The class of the requirements says which kind of resource will be bound to it; if that is not known, or there
    /// will be several, use [`Allocator::allocate_mixed`]. Costs what [`Allocator::create_buffer`] costs, without the
    /// driver's object.
    ///
    /// # Errors
    /// Size 0, an alignment that is not a power of two, no memory type, more than any heap has, no memory. Nothing has
    /// changed then.
    #[track_caller]
    #[inline]
    pub fn allocate(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Allocation<D>, Error> {
        Allocation::allocate(&self.shared, needs, desc)
    }

    /// As [`Allocator::allocate`], for resources of every class. Where the device requires a distance between buffers
    /// and textures (`bufferImageGranularity`), the range is aligned to it and rounded up to a multiple of it.
    /// Between resources in the range the program keeps that distance.
    ///
    /// # Errors
    /// [`Error::MixedClasses`] on devices that never let classes share a memory object (Direct3D 12, heap tier 1); else
    /// as [`Allocator::allocate`].
    #[track_caller]
    pub fn allocate_mixed(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Allocation<D>, Error> {
        Allocation::allocate_mixed(&self.shared, needs, desc)
    }

    /// As [`Allocator::allocate`], for the resource `unplaced`, which the program places itself: if it gets memory of
    /// its own, the driver is given the resource.
    ///
    /// # Errors
    /// As [`Allocator::allocate`].
    ///
    /// # Safety
    /// `unplaced` is this device's, alive, and not placed; `needs` are its requirements.
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
    /// that have been empty for long. Call it once a frame. Never waits for the GPU. A driver call for each timeline,
    /// each object destroyed and each block freed, at most one for the budgets, and those of descriptor heaps and of
    /// rings that shrink. While a trace is recorded it may write to its file.
    ///
    /// Any number of threads may call it. While one thread is in the call, a call on another thread destroys only what
    /// that thread has dropped, by the progress that was read last. A call from inside another `reclaim` on the same
    /// thread returns at once. Where threads drop faster than `reclaim` destroys, their drops destroy objects too: of
    /// what each thread has dropped, at most 1,280 objects that the GPU is done with wait.
    pub fn reclaim(&self) -> Reclaimed {
        self.shared.reclaim(usize::MAX)
    }

    /// Waits until all that was submitted is complete, at most for `timeout`, then destroys what waits for it. After
    /// `Ok` nothing waits, and the eviction callback is removed: it may own the allocator.
    ///
    /// Objects that the device is done with are released first, so that an error counts those that really wait. Frames
    /// that were dropped may have been submitted: if something waits for them, they are waited for as well, at most for
    /// a second, as the value of a submission that failed is never signalled. With a timeout of zero it only checks. With
    /// [`Duration::MAX`] it waits without limit for submissions, and not at all for dropped frames. After a device loss
    /// nothing is waited for, and everything is destroyed at once.
    ///
    /// Leaks are reported ([`DebugDesc::leaks`](crate::DebugDesc::leaks)) also if it fails.
    ///
    /// # Errors
    /// A frame is open, or was dropped and is not complete; the timeout has passed; or the driver failed for another
    /// reason than device loss. What waits for the device still waits.
    pub fn shutdown(&self, timeout: Duration) -> Result<Reclaimed, ShutdownError> {
        let reclaimed = self.shared.shutdown(timeout)?;
        self.budgets().set_eviction(None);
        Ok(reclaimed)
    }

    /// Figures of memory and of driver calls, cheap enough for each frame: O(memory types + recycled objects).
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// Every block, range and resource, as plain data. O(ranges): not for each frame.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// Begins a defragmentation of all memory, custom pools included: see [`defrag`](crate::defrag). Nothing is moved
    /// yet.
    #[must_use]
    pub fn defragment(&self, desc: DefragDesc) -> Defrag<D> {
        Defrag::of_all(&self.shared, desc)
    }

    /// Says what a call would do, without doing it: which memory type, which block, what it would request of the
    /// driver.
    #[must_use]
    pub fn plan(&self) -> Planner<'_, D> {
        Planner(&self.shared)
    }

    /// Usage and limits of memory heaps; functions to make blocks before they are needed and to free empty ones; the
    /// eviction callback.
    #[must_use]
    pub fn budgets(&self) -> MemoryBudgets<'_, D> {
        MemoryBudgets(&self.shared)
    }

    /// Deferred free for objects of the program's own: they wait for the device as resources do.
    #[must_use]
    pub fn retirement(&self) -> Retirement<'_, D> {
        Retirement(&self.shared)
    }

    /// Debugging: leaks, overruns and the history of operations.
    #[must_use]
    pub fn debug(&self) -> Debug<'_, D> {
        Debug(&self.shared)
    }

    /// Recording of traces.
    #[must_use]
    pub fn trace(&self) -> Recording<'_, D> {
        Recording(&self.shared)
    }

    /// What libraries build on: see [`extend`](crate::extend).
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
