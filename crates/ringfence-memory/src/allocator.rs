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
/// Cheap to clone; every clone is the same allocator. All methods may be called from any thread. The allocator lives as
/// long as something that it made. What goes last waits for all that was submitted, for ever if a value that was
/// declared by [`Timeline::submitted`] is never signalled: [`Allocator::shutdown`] waits for as long as it is allowed
/// to. For a frame that was dropped it waits one second, and leaks what that may use.
pub struct Allocator<D: Device> {
    shared: Arc<Shared<D>>,
    /// What all clones have together, and nothing else.
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

    /// Adds a queue's progress: what is released from now on waits for this timeline too.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    ///
    /// # Safety
    /// The fence is of this allocator's device (on Vulkan a timeline semaphore) and outlives the allocator and all that
    /// it makes, dropped timelines included. For as long as that, the
    /// caller sees to it, in the whole program, that:
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
    /// O(1) while a block has capacity; a new block or memory of its own is a driver call that may take milliseconds.
    ///
    /// # Recycled objects
    ///
    /// A description that was asked for before is served by an object that its owner has released and the device is
    /// done with, if there is one: no driver call, no search for a range. Everything that the driver was asked is the
    /// same; name and user data are the new ones. What it holds is undefined, and a texture is in the layout
    /// `UNDEFINED`, as a new one. [`AllocatorDesc::recycled_bytes_max`] bounds what is kept; it counts as free memory
    /// and goes when memory is short, when its description has not been asked for in a while, and with
    /// [`MemoryBudgets::trim`].
    ///
    /// A view, a descriptor or a copied handle that outlives its resource shows the next owner's bytes. It was an error
    /// to use it before, too; with [`AllocationDesc::recycle`] off, validation layers find it as a use of a destroyed
    /// object. The simulated device finds it in either case. While a trace is recorded or something is debugged nothing
    /// is recycled, nor is what is shared, imported, sparse, movable, evictable or in a custom pool; on Direct3D 12
    /// textures are those for simultaneous access, and those whose description says that their owner returns them to
    /// their initial state.
    ///
    /// # Errors
    /// No memory, no memory type for the location, or the driver refuses the description. Nothing has changed then.
    #[track_caller]
    pub fn create_buffer(&self, info: &BufferInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Buffer<D>, Error> {
        Buffer::create(&self.shared, info, desc, None)
    }

    /// Makes a texture, or gives one that the device is done with to its next owner, as [`Allocator::create_buffer`]
    /// does.
    ///
    /// # Errors
    /// As [`Allocator::create_buffer`].
    #[track_caller]
    pub fn create_texture(&self, info: &TextureInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Texture<D>, Error> {
        Texture::create(&self.shared, info, desc, None)
    }

    /// Makes a small buffer in one that others share: as cheap as an allocation without a driver's object.
    ///
    /// What it shares is bound, transitioned and synchronised as one object; buffers that shaders write and those that
    /// they only read never share. Small buffers have no names of their own.
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
    /// The class of the requirements says what will lie in it; where that is not known, or several will, there is
    /// [`Allocator::allocate_mixed`]. Costs what [`Allocator::create_buffer`] costs less the driver's object.
    ///
    /// # Errors
    /// Size 0, an alignment that is not a power of two, no memory type, more than any heap has, no memory. Nothing has
    /// changed then.
    #[track_caller]
    #[inline]
    pub fn allocate(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Allocation<D>, Error> {
        Allocation::allocate(&self.shared, needs, desc)
    }

    /// As [`Allocator::allocate`], for resources of every class. Where the device wants buffers and textures apart, the
    /// range is aligned and rounded to that distance, so that whatever lies beside it keeps it.
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

    /// Keeps evictable memory within its budget from now on: see [`residency`](crate::residency). On a device that has
    /// no such thing it does nothing.
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

    /// Destroys what every timeline has passed, and frees blocks that have been empty for long. Call it once a
    /// frame. Never waits for the GPU; one driver call a timeline, and one for each object that goes.
    ///
    /// Any number of threads may call it. While one is at it, another releases what it has dropped itself, by what the
    /// device was last seen to have completed; what a thread that calls this has dropped is left to it for a few calls.
    /// A call from inside another `reclaim` on the same thread returns at once. Threads that drop faster than others
    /// destroy help: of what each has dropped at most 1,280 objects wait that the GPU is done with.
    pub fn reclaim(&self) -> Reclaimed {
        self.shared.reclaim(usize::MAX)
    }

    /// Waits until all that was submitted is complete, at most for `timeout`, then destroys what waits for it. After
    /// `Ok` nothing waits.
    ///
    /// Frames that were dropped may have been submitted, and are waited for as well. With a timeout of zero it is a
    /// question, with [`Duration::MAX`] it waits for however long it takes, but for dropped frames not at all, as these
    /// may never come. After a device loss nothing is waited for, and everything is destroyed at once.
    ///
    /// # Errors
    /// A frame is open, or was dropped and is not complete; the time is over; or the driver failed for another reason
    /// than device loss. What was waiting still waits.
    pub fn shutdown(&self, timeout: Duration) -> Result<Reclaimed, ShutdownError> {
        self.shared.shutdown(timeout)
    }

    /// Figures that are cheap enough for each frame: O(memory types, and objects that are kept to be recycled).
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// Everything that is in memory. O(ranges): not for each frame.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// Begins to bring together what is in memory, that of custom pools too: see [`defrag`](crate::defrag). Nothing is
    /// moved yet.
    #[must_use]
    pub fn defragment(&self, desc: DefragDesc) -> Defrag<D> {
        Defrag::of_all(&self.shared, desc)
    }

    /// What a call would do: which memory type, in which block, what would be requested of the driver.
    #[must_use]
    pub fn plan(&self) -> Planner<'_, D> {
        Planner(&self.shared)
    }

    /// Use and limits of memory heaps; making blocks before they are needed and freeing empty ones; the eviction
    /// callback.
    #[must_use]
    pub fn budgets(&self) -> MemoryBudgets<'_, D> {
        MemoryBudgets(&self.shared)
    }

    /// Objects of the program's own that wait for the device as resources do.
    #[must_use]
    pub fn retirement(&self) -> Retirement<'_, D> {
        Retirement(&self.shared)
    }

    /// What is looked for while the program runs, and what was found.
    #[must_use]
    pub fn debug(&self) -> Debug<'_, D> {
        Debug(&self.shared)
    }

    /// Recording what happens to memory.
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
