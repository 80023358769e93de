//! The allocator: creates resources, allocates their memory, and frees both once the GPU is done with them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ringfence_decision::Error;
use ringfence_timeline::{Lifetimes, Timeline};

use crate::defrag::{Defrag, DefragDesc};
use crate::device::{
    BufferDesc, Buffers, Capabilities, Create, Describe, Device, DeviceError, Format, FormatSupport, Kind,
    Requirements, Textures,
};
use crate::memory::{
    AllocationDesc, AllocatorDesc, Debug, Handle, Location, MemoryBudgets, Planner, Reclaimed, Recording, Retirement,
    Shared, ShutdownError, Snapshot, Statistics,
};
use crate::residency::Residency;
use crate::resource::{Allocation, Buffer, Pool, PoolDesc, SmallBuffer, Texture};

/// Creates buffers and textures with memory, and frees them once the GPU is done with them.
///
/// Cheap to clone; all clones are the same allocator. All methods may be called from any thread. The allocator lives
/// until its last clone and every object that it created are dropped. If retired objects or descriptor heaps are left,
/// the last drop waits until all submissions are complete. If a value that [`Timeline::submitted`] declared is never
/// signalled, the last drop waits without limit ([`Allocator::shutdown`] has a timeout). Then it waits at most one
/// second for frames that were dropped without being submitted or discarded. If the device may use an object or a
/// descriptor heap even after that, or if the driver cannot wait, the last drop leaks the object or heap, and all
/// blocks.
///
/// # Examples
///
/// Creates a buffer that the GPU writes, and drops it while the GPU is busy:
///
/// ```
/// use std::time::Duration;
///
/// use ringfence::device::{BufferDesc, BufferUsage};
/// use ringfence::{AllocationDesc, Allocator, AllocatorDesc, sim};
///
/// let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// // On Vulkan: `vulkan::Allocator::new(&instance, physical, device, AllocatorDesc::default())?`, in an unsafe block
/// let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// let fence = device.create_fence(0); // on Vulkan, a timeline semaphore
/// // SAFETY: the one submission below signals the fence with the value of its frame.
/// let timeline = unsafe { memory.timeline(fence) }?;
///
/// let desc = BufferDesc { size: 4096, usage: BufferUsage::VERTEX | BufferUsage::COPY_DST };
/// let vertices = memory.create_buffer(&desc, AllocationDesc { name: "vertices", ..Default::default() })?;
/// # device.pause(0);
/// let frame = timeline.begin();
/// let fill = sim::Command::FillBuffer { dst: *vertices.object(), offset: 0, size: 4096, value: 1 };
/// device.submit(0, &[], vec![fill], (fence, frame.value()))?;
/// let point = timeline.submitted(frame)?;
///
/// drop(vertices); // retired: the GPU still writes it
/// assert_eq!(memory.reclaim().objects, 0);
/// # device.resume(0);
/// assert!(timeline.wait_for(point, Duration::MAX)?);
/// assert_eq!(memory.reclaim().objects, 1); // call it once a frame; it does not wait
/// assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Allocator<D: Device> {
    shared: Arc<Shared<D>>,
    /// Dropped with the last clone or pool.
    handle: Arc<Handle<D>>,
}

impl<D: Device> Allocator<D> {
    /// Creates an allocator over a device. The `Allocator` types of `ringfence` also have a `new`, which takes the
    /// API's own objects.
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

    /// Returns the properties and limits of the device, which never change.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        self.shared.device.capabilities()
    }

    /// Returns the uses of a format that the device supports. Makes some driver calls.
    #[must_use]
    pub fn format_support(&self, format: Format) -> FormatSupport {
        self.shared.device.format_support(format)
    }

    /// Adds a timeline, which tracks the progress of a queue. Objects that are retired from now on also wait for the
    /// frames of this timeline.
    ///
    /// # Errors
    /// [`DeviceError::InvalidInfo`] if the fence's value is 2⁶³ or more; [`DeviceError::Lost`], or another error of the
    /// driver.
    ///
    /// # Safety
    /// The fence (on Vulkan, a timeline semaphore) must belong to this allocator's device. It must outlive the
    /// allocator and every object that the allocator creates, even if the timeline is dropped earlier. As long as any
    /// of these exists, the whole program keeps these rules:
    ///
    /// 1. Each submission that uses an object of the allocator is begun with [`Timeline::begin`]. It is begun *before*
    ///    a command that uses the object is recorded, and before the host writes data into the object for the
    ///    submission. While the submission is recorded, the program owns the object, or has dropped it only after the
    ///    frame began.
    /// 2. The submission signals this fence with [`Frame::value`](crate::Frame::value) once all of its commands are
    ///    complete. Submissions of one timeline are made to one queue, in the order of their values: if a value is
    ///    reached, all work with lower values is complete. Only these submissions signal the fence.
    /// 3. The frame stays open until the submission is made: [`Timeline::submitted`] is called, or the frame is
    ///    dropped, only after the submission. From then on, no command is added to the submission.
    /// 4. A frame that is [discarded](crate::Frame::discard) was not submitted and never will be. When
    ///    [`Timeline::discard_dropped`] is called, no work of its dropped frames is under way, and none will be
    ///    submitted.
    ///
    /// Dropping a frame declares nothing, and is sound whether or not its work was submitted. So an early return or a
    /// panic between the submission and [`Timeline::submitted`] is sound too.
    pub unsafe fn timeline(&self, fence: D::Fence) -> Result<Timeline<D>, DeviceError> {
        // SAFETY: the caller promises the same.
        unsafe { Lifetimes::timeline(Arc::<Shared<D>>::clone(&self.shared), fence) }
    }

    /// Creates a buffer with memory, or reuses a recycled one.
    ///
    /// The memory is a slot of a size class (up to 64 KiB) in O(1), or a range of a block in O(log blocks). Each block
    /// that has enough free bytes but no range that fits costs one more attempt. Creating the driver's object is a
    /// driver call. A new block or dedicated memory is a further driver call, which may take milliseconds.
    ///
    /// # Recycled objects
    ///
    /// If an object matches the description, was released by its owner and is no longer used by the device, the request
    /// gets this object without a search, with the request's name and user data. The only driver call sets the name, if
    /// name or user data have changed. The contents are undefined, and a texture is in the layout `UNDEFINED`. Recycled
    /// objects count as free memory; [`AllocatorDesc::recycled_bytes_max`] limits their bytes. They are destroyed:
    ///
    /// - after `empty_block_grace` to `empty_block_grace + 32` calls of `reclaim` without a request for their
    ///   description ([`AllocatorDesc::empty_block_grace`]),
    /// - earlier, if objects of other descriptions need the room, if memory is short, or after most of the memory was
    ///   freed,
    /// - by [`MemoryBudgets::trim`], and when a defragmentation begins a pass.
    ///
    /// A view, a descriptor or a copied handle that is used after its resource was released accesses the next owner's
    /// bytes, which is an error with or without recycling. The simulated device always reports it. Validation layers
    /// report it only if [`AllocationDesc::recycle`] is `false`, because the object is then destroyed.
    ///
    /// Objects are not recycled while a trace is recorded or debugging is on. These are never recycled:
    ///
    /// - shared, imported, sparse, aliasing, movable and evictable resources, and those in a custom pool,
    /// - resources that are not in the best memory type for their request, because that type had no room,
    /// - on Direct3D 12, textures that do not allow simultaneous access, unless their description says that their owner
    ///   returns them to their initial state.
    ///
    /// # Errors
    /// There is no memory, or no memory type for the location; the alignment is not a power of two; the device is lost;
    /// or the driver refuses the description. An error creates nothing.
    #[doc(alias("vmaCreateBuffer", "CreateResource"))]
    #[track_caller]
    pub fn create_buffer(
        &self,
        info: &impl Describe<D, Buffers>,
        desc: AllocationDesc<'_>,
    ) -> Result<Buffer<D>, Error> {
        Buffer::create(&self.shared, info, desc, None)
    }

    /// Creates a texture with memory, or reuses a recycled one: see [`Allocator::create_buffer`].
    ///
    /// # Errors
    /// As [`Allocator::create_buffer`].
    #[doc(alias("vmaCreateImage", "create_image"))]
    #[track_caller]
    pub fn create_texture(
        &self,
        info: &impl Describe<D, Textures>,
        desc: AllocationDesc<'_>,
    ) -> Result<Texture<D>, Error> {
        Texture::create(&self.shared, info, desc, None)
    }

    /// Creates a small buffer, which shares a driver buffer with other small buffers, or reuses a recycled one in O(1).
    /// A new small buffer costs O(log driver buffers) and one short lock, and a driver call if no driver buffer has
    /// room.
    ///
    /// The shared buffer is bound, transitioned and synchronised as one object. A buffer that shaders may write never
    /// shares a driver buffer with a buffer that shaders only read. Small buffers have no names.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the size exceeds 256 KiB; otherwise as [`Allocator::create_buffer`].
    ///
    /// # Examples
    /// ```
    /// # use ringfence::{Allocator, AllocatorDesc, sim};
    /// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    /// use ringfence::Location;
    /// use ringfence::device::{BufferDesc, BufferUsage};
    ///
    /// let desc = BufferDesc { size: 80, usage: BufferUsage::CONSTANT };
    /// let mut lamp = memory.create_small_buffer(desc, Location::Upload)?;
    /// lamp.write(0, &[1; 80])?;
    /// let other = memory.create_small_buffer(desc, Location::Upload)?;
    /// assert_eq!(lamp.object(), other.object()); // one driver buffer: bind it at `offset()`
    /// assert_ne!(lamp.offset(), other.offset());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn create_small_buffer(&self, desc: BufferDesc, location: Location) -> Result<SmallBuffer<D>, Error> {
        SmallBuffer::new(&self.shared, desc, location)
    }

    /// Creates a custom pool.
    ///
    /// # Errors
    /// The description is invalid, the device lacks or refuses the memory type, the blocks are too large for the device
    /// or the algorithm, or the initial blocks could not be created.
    #[doc(alias = "vmaCreatePool")]
    pub fn create_pool(&self, desc: PoolDesc<'_>) -> Result<Pool<D>, Error> {
        Pool::new(&self.handle, desc)
    }

    /// Allocates memory without a resource: for a resource that the program creates and binds itself, or for several
    /// resources that alias the bytes ([`Allocation::create_aliasing_texture`]).
    ///
    /// `needs.class` must be the class of the resource that will be bound. For several or unknown classes, use
    /// [`Allocator::allocate_mixed`].
    ///
    /// # Errors
    /// The size is 0, or exceeds the largest memory object of every allowed memory type; the alignment is not a power
    /// of two; the device is lost; or there is no memory, or no memory type for the request.
    #[doc(alias = "vmaAllocateMemory")]
    #[track_caller]
    #[inline]
    pub fn allocate(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Allocation<D>, Error> {
        Allocation::allocate(&self.shared, needs, desc)
    }

    /// Allocates memory as [`Allocator::allocate`] does, for resources of every class. If the device separates the
    /// classes, offset and size are multiples of `bufferImageGranularity`. Inside the memory, the program must place
    /// buffers and textures in different pages of `bufferImageGranularity` bytes.
    ///
    /// # Errors
    /// As [`Allocator::allocate`]; [`Error::MixedClasses`] on Direct3D 12 with heap tier 1.
    #[track_caller]
    pub fn allocate_mixed(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Allocation<D>, Error> {
        Allocation::allocate_mixed(&self.shared, needs, desc)
    }

    /// Allocates memory for the resource `unplaced`, which the program binds itself. The memory may be dedicated to
    /// this resource.
    ///
    /// # Errors
    /// As [`Allocator::allocate`].
    ///
    /// # Safety
    /// `unplaced` belongs to this device, is alive and is not bound; `needs` are its requirements.
    #[track_caller]
    pub unsafe fn allocate_for<K: Kind>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
    ) -> Result<Allocation<D>, Error>
    where
        D: Create<K>,
    {
        // SAFETY: the caller promises the same.
        unsafe { Allocation::allocate_for::<K>(&self.shared, unplaced, needs, desc) }
    }

    /// Returns the manager of [evictable memory](crate::residency). On devices without [`Capabilities::residency`], the
    /// manager evicts nothing.
    ///
    /// # Safety
    /// Each submission that touches an [`evictable`](crate::AllocationDesc::evictable) resource lists the resource in a
    /// [`UseList`](crate::residency::UseList), and follows a successful [`Residency::commit`] of this list and the
    /// submission's frame.
    #[must_use]
    pub unsafe fn residency(&self) -> Residency<D> {
        // SAFETY: the caller promises the same.
        unsafe { Residency::new(&self.shared) }
    }

    /// Releases retired resources that the device is done with: recycles or destroys each. Frees empty blocks that are
    /// above the limit of [`EmptyBlocks`](ringfence_core::empty_blocks::EmptyBlocks), or empty for longer than
    /// [`AllocatorDesc::empty_block_grace`]. The thread of [`MemoryBudgets::maintain_in_background`], if there is one,
    /// frees them instead. Call `reclaim` once a frame. It never waits for the GPU. It calls the driver for timelines,
    /// destroyed objects, freed blocks, budgets, descriptor heaps and rings, and may write a trace.
    ///
    /// Any number of threads may call it. While one thread is in the call, a call on a second thread releases only
    /// objects that the second thread has dropped. A call from inside `reclaim` returns at once. If a thread drops
    /// objects faster than `reclaim` releases them, its drops release objects too: at most 1,280 of its objects that
    /// the device is done with stay retired.
    pub fn reclaim(&self) -> Reclaimed {
        self.shared.reclaim(usize::MAX)
    }

    /// Waits until all submissions are complete, at most for `timeout`. Then destroys the retired objects, frees the
    /// empty blocks, removes the callbacks (which may own the allocator), and reports leaks
    /// ([`DebugDesc`](crate::DebugDesc)).
    ///
    /// Objects that the device is done with are released first. The call waits for dropped frames at most one second,
    /// because the value of a frame that was not submitted is never signalled. With a timeout of zero, the call does
    /// not wait. With [`Duration::MAX`], it waits for submissions without limit. After a device loss, the call destroys
    /// the retired objects without waiting.
    ///
    /// # Errors
    /// A frame is open, or was dropped and is not complete; the timeout has passed; or the driver failed, other than by
    /// a device loss. The objects that wait for the device stay retired, and the callbacks stay set. Leaks are
    /// reported anyway.
    pub fn shutdown(&self, timeout: Duration) -> Result<Reclaimed, ShutdownError> {
        let reclaimed = self.shared.shutdown(timeout)?;
        self.budgets().set_eviction(None);
        self.budgets().set_excess_callback(None);
        Ok(reclaimed)
    }

    /// Returns statistics of memory and of driver calls. O(memory types + custom pools + recycled objects): cheap
    /// enough for each frame.
    #[doc(alias = "vmaCalculateStatistics")]
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// Returns every block, range and resource as plain data. O(ranges): too slow for each frame.
    #[doc(alias("vmaBuildStatsString", "generate_report"))]
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// Begins a defragmentation of all memory, custom pools included: see [`defrag`](crate::defrag). Moves nothing yet.
    #[doc(alias = "vmaBeginDefragmentation")]
    #[must_use]
    pub fn defragment(&self, desc: DefragDesc) -> Defrag<D> {
        Defrag::of_all(&self.shared, desc)
    }

    /// Returns a planner, which reports the memory type, the kind of placement and the requested bytes of a request
    /// without making the request.
    #[must_use]
    pub fn plan(&self) -> Planner<'_, D> {
        Planner(&self.shared)
    }

    /// Returns the interface to memory heaps: usage, limits, early creation of blocks, trimming, eviction callback.
    #[must_use]
    pub fn budgets(&self) -> MemoryBudgets<'_, D> {
        MemoryBudgets(&self.shared)
    }

    /// Returns the interface for deferred free of the program's own objects.
    #[must_use]
    pub fn retirement(&self) -> Retirement<'_, D> {
        Retirement(&self.shared)
    }

    /// Returns the interface to debugging: leaks, overruns and the history of operations.
    #[must_use]
    pub fn debug(&self) -> Debug<'_, D> {
        Debug(&self.shared)
    }

    /// Returns the interface for recording traces.
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
