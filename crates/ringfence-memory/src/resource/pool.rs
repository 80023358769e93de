//! Custom pools: blocks of one memory type, with their own block sizes, limits and algorithm.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_core::algorithm::Algorithm;
use ringfence_core::block_sizes::BlockSizes;
use ringfence_core::blocks::BlocksDesc;
use ringfence_decision::{Error, aligned, block_sizes};

use super::{Allocation, Buffer, Resource, Texture};
use crate::device::lock::run_unlocked;
use crate::device::sharing::ShareKind;
use crate::device::{
    Buffers, Describe, Device, DeviceError, MemoryProperties, Numbers, Priority, Requirements, ResourceClass, Textures,
};
use crate::memory::{
    AllocationDesc, Arena, ArenaDesc, ArenaRef, Bytes, CLASSES, Handle, PlacementRequest, Plan, PoolState, Shared,
    TypeStatistics, memory_alignment,
};

/// Description of a custom pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolDesc<'a> {
    /// The memory type, an index into [`memory_types`](crate::device::Capabilities::memory_types). See
    /// [`Planner::memory_type`](crate::memory::Planner::memory_type).
    pub memory_type: u32,
    /// The class of the resources that will be placed in the pool. It matters on devices that separate classes.
    pub class: ResourceClass,
    /// Size of each block in bytes; 0 for block sizes that grow with use. No block may exceed
    /// [`Algorithm::capacity_max`].
    pub block_bytes: u64,
    /// Number of blocks that are created with the pool; as long as the pool exists, it keeps at least so many blocks.
    /// At most `block_count_max`.
    pub block_count_min: usize,
    /// Maximum number of blocks.
    pub block_count_max: usize,
    /// The algorithm that suballocates blocks. [`Algorithm::Linear`] with one block is a stack, a double stack or a
    /// ring. [`Algorithm::Equal`] divides each block into slots of one size. Each allocation and each free in the pool
    /// takes the pool's lock for a short time; small requests outside of custom pools take no lock.
    pub algorithm: Algorithm,
    /// Minimum alignment of the blocks, in bytes. If the class requires a larger alignment, that one is used.
    pub block_alignment: u64,
    /// Residency priority of the pool's blocks.
    pub priority: Priority,
    /// Name in snapshots.
    pub name: &'a str,
    /// Kind of the handles by which the pool's blocks, and so all resources in them, can be shared
    /// ([`Resource::export`](crate::Resource::export)).
    pub share: Option<ShareKind>,
}

impl Default for PoolDesc<'_> {
    /// Buffers in memory type 0, with block sizes that grow with use, without a limit on the number of blocks.
    fn default() -> Self {
        Self {
            memory_type: 0,
            class: ResourceClass::Buffer,
            block_bytes: 0,
            block_count_min: 0,
            block_count_max: usize::MAX,
            algorithm: Algorithm::Tlsf,
            block_alignment: 1,
            priority: Priority::Normal,
            name: "",
            share: None,
        }
    }
}

/// A custom pool. Resources may outlive their pool: after the drop of the pool, a block is freed after its last
/// resource.
///
/// Use it to limit the memory of one kind of resource, to choose the algorithm that divides the blocks, or to create
/// the blocks before the first frame. Without these needs,
/// [`Allocator::create_buffer`](crate::Allocator::create_buffer) is simpler and takes no lock for small buffers.
///
/// # Examples
///
/// A pool with room for four tiles of a terrain. `memory` is an [`Allocator`](crate::Allocator#examples).
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// use ringfence::AllocationDesc;
/// use ringfence::algorithms::algorithm::Algorithm;
/// use ringfence::device::{BufferDesc, BufferUsage, ResourceClass};
/// use ringfence::memory::{Error, PoolDesc};
///
/// let tile = BufferDesc { size: 1 << 20, usage: BufferUsage::VERTEX | BufferUsage::COPY_DST };
/// let pool = memory.create_pool(PoolDesc {
///     memory_type: memory.plan().buffer(&tile, AllocationDesc::default())?.memory_type,
///     class: ResourceClass::Buffer,
///     algorithm: Algorithm::Equal { block_size: tile.size },
///     block_bytes: 4 * tile.size,
///     block_count_max: 1,
///     name: "terrain",
///     ..Default::default()
/// })?;
///
/// let create = || pool.create_buffer(&tile, AllocationDesc::default());
/// let tiles = [create()?, create()?, create()?, create()?];
/// assert!(matches!(create(), Err(Error::PoolFull { .. })));
/// assert_eq!(pool.statistics().range_count, 4);
///
/// drop(tiles); // retired
/// assert_eq!(memory.reclaim().objects, 4); // no submission uses them
/// create()?; // the pool has room again
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool<D: Device> {
    shared: Arc<Shared<D>>,
    /// Keeps the allocator in use while the pool exists.
    _handle: Arc<Handle<D>>,
    state: Arc<PoolState<D>>,
}

impl<D: Device> Pool<D> {
    pub(crate) fn new(handle: &Arc<Handle<D>>, desc: PoolDesc<'_>) -> Result<Self, Error> {
        let shared = &handle.0;
        let capabilities = shared.device.capabilities();
        let held = capabilities.memory_types.get(desc.memory_type as usize);
        let held = held.ok_or(Error::UnknownMemoryType {
            memory_type: desc.memory_type,
            memory_type_count: capabilities.memory_types.len() as u32,
        })?;
        if held.properties.contains(MemoryProperties::REFUSED) {
            let refused = DeviceError::unsupported("a pool of a memory type that the device refuses");
            return Err(refused.with(Numbers::Given(desc.memory_type.into())).into());
        }
        if !desc.block_alignment.is_power_of_two() {
            return Err(Error::BadAlignment { alignment: desc.block_alignment });
        }
        if let Algorithm::Buddy { granule } = desc.algorithm
            && !granule.is_power_of_two()
        {
            return Err(Error::BadAlignment { alignment: granule });
        }
        if desc.algorithm == (Algorithm::Equal { block_size: 0 }) {
            return Err(Error::ZeroSize);
        }
        let heap_bytes = capabilities.memory_heaps[held.heap as usize].bytes;
        let max = capabilities.memory_object_bytes_max.min(heap_bytes);
        if desc.block_bytes > max {
            return Err(Error::TooLarge { size: desc.block_bytes, max });
        }
        if desc.block_count_min > desc.block_count_max {
            let numbers = Numbers::AtMost { given: desc.block_count_min as u64, max: desc.block_count_max as u64 };
            return Err(DeviceError::invalid("block_count_min exceeds block_count_max").with(numbers).into());
        }
        let block_alignment = desc.block_alignment.max(memory_alignment(capabilities, desc.class));
        let sizes = match desc.block_bytes {
            0 => block_sizes(&shared.desc, capabilities, held).aligned_to(block_alignment),
            bytes => BlockSizes::fixed(bytes),
        };
        if sizes.max > desc.algorithm.capacity_max() {
            return Err(Error::TooLarge { size: sizes.max, max: desc.algorithm.capacity_max() });
        }
        let kept = desc.block_count_min.max(shared.desc.empty_blocks_kept);
        let desc_of_arena = ArenaDesc {
            memory_type: desc.memory_type,
            heap: held.heap,
            class: CLASSES[usize::from(capabilities.class_groups[desc.class as usize])],
            groups: capabilities.class_groups,
            sizes,
            blocks: BlocksDesc {
                destroy_threshold: kept,
                grace_ticks: shared.desc.empty_block_grace,
                ..Default::default()
            },
            empty_bytes_min: u64::MAX,
            block_count_max: desc.block_count_max,
            algorithm: desc.algorithm,
            block_alignment,
            priority: desc.priority,
            has_slots: false,
            grows_ahead: false,
            share: desc.share,
        };
        let arena = Arena::new(desc_of_arena, &shared.wake);
        let state = Arc::new(PoolState {
            name: desc.name.into(),
            arena,
            block_count_min: desc.block_count_min,
            is_closed: AtomicBool::new(false),
        });
        let pool = Self { shared: Arc::clone(shared), _handle: Arc::clone(handle), state };
        shared.custom_pools.write().push(Arc::clone(&pool.state));
        // If this fails, dropping the pool frees the blocks that were created.
        shared.preallocate(&pool.state.arena, desc.block_count_min)?;
        Ok(pool)
    }

    /// Creates a buffer in the pool. The memory type is the pool's, even if the location in `desc` would choose another
    /// one.
    ///
    /// # Errors
    /// As [`Allocator::create_buffer`](crate::Allocator::create_buffer); or the pool is full ([`Error::PoolFull`]), or
    /// has a memory type or class that the buffer cannot use.
    #[track_caller]
    pub fn create_buffer(
        &self,
        info: &impl Describe<D, Buffers>,
        desc: AllocationDesc<'_>,
    ) -> Result<Buffer<D>, Error> {
        Resource::create(&self.shared, info, desc, Some(&self.state))
    }

    /// Creates a texture in the pool.
    ///
    /// # Errors
    /// As [`Pool::create_buffer`].
    #[track_caller]
    pub fn create_texture(
        &self,
        info: &impl Describe<D, Textures>,
        desc: AllocationDesc<'_>,
    ) -> Result<Texture<D>, Error> {
        Resource::create(&self.shared, info, desc, Some(&self.state))
    }

    /// Allocates memory of the pool without a resource: see [`Allocator::allocate`](crate::Allocator::allocate).
    ///
    /// # Errors
    /// As [`Pool::create_buffer`].
    #[track_caller]
    pub fn allocate(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Allocation<D>, Error> {
        let request = PlacementRequest::of_pool(&self.state, aligned(&desc, needs)?, &desc)?;
        Allocation::new(&self.shared, &Bytes, request, false)
    }

    /// Returns the decision of [`Pool::allocate`], without allocating: see [`Allocator::plan`](crate::Allocator::plan).
    ///
    /// # Errors
    /// The errors of [`Pool::allocate`] that are known beforehand.
    pub fn plan(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Plan, Error> {
        self.shared.plan(&PlacementRequest::of_pool(&self.state, aligned(&desc, needs)?, &desc)?)
    }

    /// Returns the kind of the handles by which the pool's blocks can be shared.
    #[must_use]
    pub fn share(&self) -> Option<ShareKind> {
        self.state.arena.desc.share
    }

    /// Returns the pool's arena, for a defragmentation.
    pub(crate) fn arena(&self) -> (&Arc<Shared<D>>, ArenaRef<D>) {
        (&self.shared, ArenaRef::Pool(Arc::clone(&self.state)))
    }

    /// Returns the statistics of the pool's memory. One short lock.
    #[must_use]
    pub fn statistics(&self) -> TypeStatistics {
        self.state.arena.statistics()
    }
}

impl<D: Device> Drop for Pool<D> {
    fn drop(&mut self) {
        self.state.is_closed.store(true, Ordering::Release);
        let shared = Arc::clone(&self.shared);
        run_unlocked(move || shared.collect_closed_pools());
    }
}

impl<D: Device> fmt::Debug for Pool<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({:?}, {:?})", self.state.name, self.state.arena.desc)
    }
}
