//! Custom pools: blocks of one memory type for what should lie together, with sizes, limits and an algorithm of their
//! own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_core::algorithm::{Algorithm, AnyAllocator};
use ringfence_core::blocks::BlocksDesc;

use super::TypeStatistics;
use super::arena::{Arena, ArenaDesc};
use super::block_sizes::BlockSizes;
use super::ladder::Ask;
use super::place::{ArenaRef, Memory};
use super::plan::Plan;
use super::shared::{CLASSES, Shared, memory_alignment};
use super::{Allocation, Allocator};
use crate::defrag::{Defrag, DefragDesc};
use crate::device::sharing::ShareKind;
use crate::device::{BufferInfo, Device, Priority, Requirements, ResourceClass, TextureInfo};
use crate::error::Error;
use crate::resource::{AllocationDesc, Buffer, Texture};

/// How a custom pool is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolDesc<'a> {
    /// The memory type, an index into [`memory_types`](crate::device::Capabilities::memory_types). See
    /// [`Allocator::memory_type_for`].
    pub memory_type: u32,
    /// What will be placed in it, where the device keeps classes apart.
    pub class: ResourceClass,
    /// Bytes of each block; 0 for blocks that grow with use.
    pub block_bytes: u64,
    /// Blocks that are made at once and kept for good.
    pub block_count_min: usize,
    /// The largest number of blocks.
    pub block_count_max: usize,
    /// How blocks are cut. [`Algorithm::Linear`] with one block is a stack, a double stack or a ring.
    /// [`Algorithm::Equal`] has the equal blocks of document 003, under the pool's own short lock; small requests outside of
    /// custom pools get theirs without a lock.
    pub algorithm: Algorithm,
    /// The least alignment in bytes of the blocks, where the class asks for less.
    pub block_alignment: u64,
    /// How much its blocks matter.
    pub priority: Priority,
    /// Shown in reports.
    pub name: &'a str,
    /// What handles to its blocks are: everything in it can be shared then ([`Resource::export`](crate::Resource::export)).
    pub share: Option<ShareKind>,
}

impl Default for PoolDesc<'_> {
    /// Buffers in memory type 0, blocks that grow with use, as many as it takes.
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

/// What a pool and everything in it share.
pub(crate) struct PoolState<D: Device> {
    pub(super) name: Box<str>,
    pub(super) arena: Arena<D, AnyAllocator>,
    /// Blocks that are kept while there is a handle.
    pub(super) block_count_min: usize,
    /// Set when its handle is dropped: empty blocks go at once then.
    pub(super) is_closed: AtomicBool,
}

impl<D: Device> PoolState<D> {
    /// An empty block beyond those that the pool keeps, while it has a handle.
    pub(super) fn take_empty(&self) -> Option<Memory<D>> {
        if self.may_give_back() { self.arena.take_empty() } else { None }
    }

    /// Whether it has more blocks than it keeps.
    pub(super) fn may_give_back(&self) -> bool {
        let held = self.arena.statistics().block_count;
        let kept = if self.is_closed.load(Ordering::Acquire) { 0 } else { self.block_count_min as u64 };
        held > kept
    }

    pub(super) fn full(&self, size: u64) -> Error {
        let ArenaDesc { block_count_max, sizes, .. } = self.arena.desc;
        Error::PoolFull { size, block_count_max, block_bytes: sizes.max }
    }
}

/// A custom pool. What was made in it may outlive it: the blocks go with the last of it.
pub struct Pool<D: Device> {
    memory: Allocator<D>,
    state: Arc<PoolState<D>>,
}

impl<D: Device> Pool<D> {
    pub(super) fn new(memory: &Allocator<D>, desc: PoolDesc<'_>) -> Result<Self, Error> {
        let shared = memory.shared();
        let capabilities = shared.device.capabilities();
        let held = capabilities.memory_types.get(desc.memory_type as usize);
        let held = held.ok_or(Error::UnknownMemoryType {
            memory_type: desc.memory_type,
            memory_type_count: capabilities.memory_types.len() as u32,
        })?;
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
        let sizes = match desc.block_bytes {
            0 => BlockSizes::for_heap(heap_bytes, max, shared.desc.device_block_bytes_max),
            bytes => BlockSizes::fixed(bytes),
        };
        let kept = desc.block_count_min.max(shared.desc.empty_blocks_kept);
        let arena = Arena::new(ArenaDesc {
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
            block_count_max: desc.block_count_max,
            algorithm: desc.algorithm,
            block_alignment: desc.block_alignment.max(memory_alignment(capabilities, desc.class)),
            priority: desc.priority,
            has_cells: false,
            grows_ahead: false,
            share: desc.share,
        });
        let state = Arc::new(PoolState {
            name: desc.name.into(),
            arena,
            block_count_min: desc.block_count_min,
            is_closed: AtomicBool::new(false),
        });
        let pool = Self { memory: memory.clone(), state };
        shared.custom_pools.write().push(Arc::clone(&pool.state));
        // Should this fail, dropping the pool gives back what was made.
        let made = pool.state.arena.preallocate(shared, desc.block_count_min);
        made.map_err(|refusal| shared.refused(refusal, desc.block_bytes, desc.memory_type))?;
        Ok(pool)
    }

    pub(super) fn ask<'a, 'd>(
        &'a self,
        needs: Requirements,
        desc: &'a AllocationDesc<'d>,
    ) -> Result<Ask<'a, 'd, D>, Error> {
        let arena = &self.state.arena.desc;
        let ArenaDesc { memory_type, class, share, .. } = *arena;
        if desc.share.is_some() && desc.share != share {
            return Err(Error::WrongShare { wanted: desc.share, pool: share });
        }
        if needs.memory_type_bits >> memory_type & 1 == 0 {
            return Err(Error::WrongMemoryType { memory_type, memory_type_bits: needs.memory_type_bits });
        }
        if !arena.holds(needs.class) {
            return Err(Error::WrongClass { class: needs.class, block_class: class });
        }
        Ok(Ask { needs, desc, pool: Some(&self.state), high: desc.from_the_end })
    }

    fn shared(&self) -> &Arc<Shared<D>> {
        self.memory.shared()
    }

    /// Makes a buffer in the pool. Its memory type is the pool's, whatever the location says.
    ///
    /// # Errors
    /// As [`Allocator::create_buffer`]; the pool is full ([`Error::PoolFull`]), or of a memory type or class that the
    /// buffer cannot use.
    #[track_caller]
    pub fn create_buffer(&self, info: &BufferInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Buffer<D>, Error> {
        self.memory.create(info, desc, Some(self))
    }

    /// Makes a texture in the pool.
    ///
    /// # Errors
    /// As [`Pool::create_buffer`].
    #[track_caller]
    pub fn create_texture(&self, info: &TextureInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Texture<D>, Error> {
        self.memory.create(info, desc, Some(self))
    }

    /// Memory of the pool without a resource: see [`Allocator::allocate`].
    ///
    /// # Errors
    /// As [`Pool::create_buffer`].
    #[track_caller]
    pub fn allocate(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Allocation<D>, Error> {
        let ask = self.ask(desc.aligned(needs)?, &desc)?;
        Allocation::new(self.shared(), &super::subject::Bytes, &ask, false)
    }

    /// What [`Pool::allocate`] would do: see [`Allocator::plan`].
    ///
    /// # Errors
    /// Those of [`Pool::allocate`] that can be foreseen.
    pub fn plan(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Plan, Error> {
        self.shared().plan(&self.ask(desc.aligned(needs)?, &desc)?)
    }

    /// What handles to its blocks are.
    #[must_use]
    pub fn share(&self) -> Option<ShareKind> {
        self.state.arena.desc.share
    }

    /// Begins to bring what is in the pool together: see [`defrag`](crate::defrag).
    #[must_use]
    pub fn defragment(&self, desc: DefragDesc) -> Defrag<D> {
        Defrag::new(Arc::clone(self.shared()), vec![ArenaRef::Pool(Arc::clone(&self.state))], desc)
    }

    /// Its figures. One short lock.
    #[must_use]
    pub fn statistics(&self) -> TypeStatistics {
        self.state.arena.statistics()
    }
}

impl<D: Device> Drop for Pool<D> {
    fn drop(&mut self) {
        self.state.is_closed.store(true, Ordering::Release);
        self.shared().collect_closed_pools();
    }
}

impl<D: Device> fmt::Debug for Pool<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({:?}, {:?})", self.state.name, self.state.arena.desc)
    }
}

impl<D: Device> Shared<D> {
    /// Gives the empty blocks of pools back whose handle is gone, and forgets those that have none left.
    pub(super) fn collect_closed_pools(&self) {
        let closed: Vec<_> = {
            let pools = self.custom_pools.read();
            if !pools.iter().any(|pool| pool.is_closed.load(Ordering::Acquire)) {
                return;
            }
            pools.iter().filter(|pool| pool.is_closed.load(Ordering::Acquire)).cloned().collect()
        };
        for pool in &closed {
            while let Some(memory) = pool.take_empty() {
                self.free_memory(memory);
            }
        }
        let is_over = |pool: &Arc<PoolState<D>>| {
            let statistics = pool.arena.statistics();
            pool.is_closed.load(Ordering::Acquire) && statistics.block_count + statistics.dedicated_count == 0
        };
        self.custom_pools.write().retain(|pool| !is_over(pool));
    }
}
