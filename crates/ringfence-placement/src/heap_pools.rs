//! Pools in which each request gets a separate driver object, placed in a heap of the pool.
//!
//! The memory type and the class of an object are known only after the driver has measured it. A pool therefore has a
//! part for each combination. On most devices only one part is used. Objects that need a larger alignment than
//! [`COMMON_ALIGNMENT`] have separate parts, because on Direct3D 12 the heap itself must be aligned for multisampled
//! objects.

use std::panic;
use std::sync::{Arc, OnceLock};

use ringfence_core::tlsf::Tlsf;

use super::default_pool::tlsf_pool;
use super::range_pool::{Block, PoolFigures, RangePool};
use crate::device::{Create, Device, Requirements};
use ringfence_memory::extend::{Backing, Made, Shared};
use ringfence_memory::memory::Location;
use ringfence_memory::{Error, ResourceKind};

/// Minimum alignment of every heap, in bytes.
const COMMON_ALIGNMENT: u64 = 64 << 10;

/// The heaps of one memory type and class, for small or for large alignments.
type MemoryTypePool<D> = Arc<RangePool<D, Tlsf>>;

/// A pool of heaps, in parts by memory type, class and alignment.
pub(super) struct HeapPools<D: Device> {
    name: &'static str,
    /// The line of the program that created the policy.
    at: &'static panic::Location<'static>,
    block_bytes: u64,
    idle_frames: u64,
    /// Two parts for each arena (a memory type and a class): for alignments up to [`COMMON_ALIGNMENT`], and for larger
    /// ones.
    parts: Box<[OnceLock<MemoryTypePool<D>>]>,
}

impl<D: Device> HeapPools<D> {
    /// Creates pools without heaps.
    pub(super) fn new(
        shared: &Shared<D>,
        name: &'static str,
        block_bytes: u64,
        idle_frames: u64,
        at: &'static panic::Location<'static>,
    ) -> Self {
        let types = shared.device.capabilities().memory_types.len();
        let parts = (0..types * 3 * 2).map(|_| OnceLock::new()).collect();
        Self { name, at, block_bytes, idle_frames, parts }
    }

    /// Returns the part for an arena's memory type and class, and for an alignment.
    fn part(&self, shared: &Shared<D>, arena: u32, alignment: u64) -> &MemoryTypePool<D> {
        let index = arena as usize * 2 + usize::from(alignment > COMMON_ALIGNMENT);
        self.parts[index].get_or_init(|| tlsf_pool(shared, self.block_bytes, self.idle_frames))
    }

    /// Places a measured object in a heap of the pool, in the best memory type that has space.
    pub(super) fn place<K>(
        &self,
        shared: &Shared<D>,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        location: Location,
    ) -> Result<Made<D, K>, Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let none = Error::NoMemoryType { location, memory_type_bits: needs.memory_type_bits };
        let mut result = Err(none);
        for memory_type in shared.candidates(location, needs.memory_type_bits) {
            result = self.place_in_type::<K>(shared, unplaced, needs, memory_type);
            match &result {
                Err(error) if error.may_fit_elsewhere() => {}
                _ => break,
            }
        }
        result
    }

    fn place_in_type<K>(
        &self,
        shared: &Shared<D>,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        memory_type: u32,
    ) -> Result<Made<D, K>, Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let arena = shared.arena_index(memory_type, needs.class);
        let part = self.part(shared, arena, needs.alignment);
        let make = |bytes| self.make_heap(shared, arena, bytes, needs);
        let found = part.allocate(needs.size, needs.alignment, make)?;
        // SAFETY: the part's heaps have this memory type and class, and the range is aligned.
        Ok(unsafe { shared.place_at::<K>(unplaced, found.place) }?)
    }

    /// Creates a heap in the driver.
    fn make_heap(&self, shared: &Shared<D>, arena: u32, bytes: u64, needs: Requirements) -> Result<Block<D>, Error> {
        let alignment = needs.alignment.max(COMMON_ALIGNMENT);
        let backing = shared.make_heap(arena, bytes, alignment, self.name, self.at)?;
        let Backing::Heap { memory, .. } = &backing else { unreachable!("a heap was requested") };
        let memory = Arc::clone(memory);
        Ok(Block { backing, memory, base: 0, mapped: None, address: None, desc: None })
    }

    pub(super) fn each_part(&self) -> impl Iterator<Item = &MemoryTypePool<D>> {
        self.parts.iter().filter_map(OnceLock::get)
    }

    pub(super) fn figures(&self) -> PoolFigures {
        let mut sum = PoolFigures::default();
        self.each_part().for_each(|part| sum.add(part.figures()));
        sum
    }
}
