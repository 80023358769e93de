//! The state that all clones of the allocator and all of its objects share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ringfence_core::algorithm::Algorithm;
use ringfence_core::blocks::BlocksDesc;
use ringfence_core::range::Invalid;
use ringfence_core::tlsf::Tlsf;
use ringfence_decision::{AllocatorDesc, Budgets, Classes, Evict, TypeOrder, View, block_sizes, plain_types};
use ringfence_lockfree::delivery::Losses;
use ringfence_lockfree::recycled::Recycled;
use ringfence_lockfree::slots::SLOT_BYTES_MAX;
use ringfence_observe::Observers;
use ringfence_timeline::{Lifetimes, Timed};

use super::box_cache::BoxCache;
use super::descriptor_heaps::DescriptorHeaps;
use super::excess::ExcessWatch;
use super::place::{ArenaRef, Place, PlaceKind, RangeOwner};
use super::pool::PoolState;
use super::recycle::RecycledItems;
use super::retired::Releases;
use super::rings::{ReclaimRing, Rings};
use super::small_buffers::SmallBuffers;
use crate::debugging::Leak;
use crate::device::lock::{Lock, SharedLock, run_unlocked};
use crate::device::{Capabilities, Device, DeviceError, Priority, ResourceClass};
use crate::trace::Event;
use ringfence_arena::Memory;
use ringfence_arena::Residents;
use ringfence_arena::{Arena, ArenaDesc, Wake};

/// An arena of the allocator itself. Its thread caches keep references that keep the allocator alive.
pub(crate) type OwnArena<D> = Arena<D, Tlsf, Arc<Shared<D>>>;

/// The state that all clones of the allocator and all of its objects share.
pub struct Shared<D: Device> {
    /// The device.
    pub device: D,
    pub(crate) lifetimes: Lifetimes<D>,
    pub(crate) descriptor_heaps: DescriptorHeaps<D>,
    pub(crate) rings: Rings,
    pub(crate) order: TypeOrder,
    pub(crate) classes: Classes,
    /// The decision for plain requests: memory types whose blocks serve them without padding, bit n for type n.
    pub(crate) plain_types: u32,
    /// The largest size in bytes, by memory type, for which a request shares a block.
    pub(crate) shared_bytes_max: Box<[u64]>,
    /// The types of `plain_types` in which small requests get slots, bit n for type n.
    pub(crate) slot_types: u32,
    /// One arena for each memory type and class group: see [`Shared::shared_arena_index`]. Heaps of libraries are
    /// counted in the arena of [`Shared::arena_index`].
    pub(crate) arenas: Box<[OwnArena<D>]>,
    pub(crate) custom_pools: SharedLock<Vec<Arc<PoolState<D>>>>,
    pub(crate) pools: Lock<Vec<Arc<dyn RangeOwner<D>>>>,
    pub(crate) small: SmallBuffers<D>,
    pub(crate) budgets: Budgets,
    pub(crate) wake: Arc<Wake>,
    pub(crate) evict: SharedLock<Option<Arc<Evict>>>,
    pub(crate) excess: ExcessWatch,
    pub(crate) desc: AllocatorDesc,
    pub(crate) releases: Releases<D>,
    pub(crate) recycled: RecycledItems<D>,
    pub(crate) boxes: BoxCache<D>,
    pub(crate) lost: AtomicBool,
    pub(crate) memory_objects: AtomicU64,
    pub(crate) observers: Observers<Memory<D>>,
    pub(crate) residents: Residents<D>,
    pub(crate) losses: Arc<Losses<Leak>>,
    /// Called once by a test, between the choice of the objects to evict and the eviction.
    #[cfg(test)]
    pub(crate) between_evictions: Lock<Option<Box<dyn FnOnce() + Send>>>,
}

pub(crate) const CLASSES: [ResourceClass; 3] =
    [ResourceClass::Buffer, ResourceClass::Texture, ResourceClass::RenderTarget];

impl<D: Device> Shared<D> {
    pub(crate) fn new(device: D, desc: AllocatorDesc) -> Self {
        let capabilities = device.capabilities();
        let classes = Classes::new(capabilities);
        let blocks = BlocksDesc {
            destroy_threshold: desc.empty_blocks_kept,
            grace_ticks: desc.empty_block_grace,
            ..Default::default()
        };
        let wake = Arc::<Wake>::default();
        let arenas = (0..).zip(&capabilities.memory_types).flat_map(|(index, held)| {
            let arena = ArenaDesc {
                memory_type: index,
                heap: held.heap,
                class: ResourceClass::Buffer,
                groups: classes.groups,
                sizes: block_sizes(&desc, capabilities, held),
                blocks,
                empty_bytes_min: desc.empty_bytes_min,
                block_count_max: usize::MAX,
                algorithm: Algorithm::Tlsf,
                block_alignment: 1,
                priority: Priority::Normal,
                has_slots: desc.small_slots,
                grows_ahead: desc.empty_blocks_kept > 0,
                share: None,
            };
            CLASSES.map(|class| {
                let block_alignment = memory_alignment(capabilities, class);
                let sizes = arena.sizes.aligned_to(block_alignment);
                Arena::new(ArenaDesc { class, block_alignment, sizes, ..arena }, &wake)
            })
        });
        let (order, arenas) = (TypeOrder::new(capabilities), arenas.collect::<Box<[OwnArena<D>]>>());
        let shared_bytes_max: Box<[u64]> =
            arenas.chunks(CLASSES.len()).map(|held| held[0].shared_bytes_max()).collect();
        let view = View {
            capabilities,
            order: &order,
            classes: &classes,
            shared_bytes_max: &shared_bytes_max,
            margin_bytes: 0,
            preferred_bytes_min: 0,
            pool: None,
        };
        let plain_types = plain_types(view, SLOT_BYTES_MAX);
        Self {
            classes,
            plain_types,
            shared_bytes_max,
            slot_types: if desc.small_slots { plain_types } else { 0 },
            order,
            arenas,
            lifetimes: Lifetimes::default(),
            descriptor_heaps: DescriptorHeaps::new(),
            rings: Rings::default(),
            releases: Releases::new(),
            boxes: BoxCache::new(),
            recycled: Recycled::new(desc.recycled_bytes_max, desc.empty_block_grace),
            lost: AtomicBool::new(false),
            memory_objects: AtomicU64::new(0),
            observers: Observers::new(desc.debug),
            residents: Residents::default(),
            #[cfg(test)]
            between_evictions: Lock::new(None),
            losses: Arc::default(),
            custom_pools: SharedLock::new(Vec::new()),
            pools: Lock::new(Vec::new()),
            small: SmallBuffers::new(),
            budgets: Budgets::new(&device, &desc),
            wake,
            evict: SharedLock::new(None),
            excess: ExcessWatch::new(device.capabilities().memory_heaps.len()),
            desc,
            device,
        }
    }

    /// Returns the arena of a slot. Custom pools have no slots.
    pub(crate) fn slot_arena(&self, arena: &ArenaRef<D>) -> &OwnArena<D> {
        let ArenaRef::Own(index) = arena else { unreachable!("custom pools have no slots") };
        &self.arenas[*index as usize]
    }

    /// Returns the memory object of a place.
    #[inline(always)]
    pub(crate) fn memory_of<'a>(&'a self, place: &'a Place<D>) -> &'a Memory<D> {
        match &place.kind {
            PlaceKind::Range { memory, .. } | PlaceKind::Slot { memory, .. } => memory,
            _ => self.memory_of_other(place),
        }
    }

    /// As [`Shared::memory_of`], for the kinds of allocation that the inlined part does not handle.
    fn memory_of_other<'a>(&'a self, place: &'a Place<D>) -> &'a Memory<D> {
        match &place.kind {
            PlaceKind::Range { memory, .. } | PlaceKind::Slot { memory, .. } => memory,
            PlaceKind::Dedicated { memory, .. } | PlaceKind::Pooled { memory, .. } => memory,
            PlaceKind::Aliased(whole) => self.memory_of(whole),
            PlaceKind::Shared(shared) => self.memory_of(&shared.place),
            PlaceKind::Small { buffer, .. } => self.memory_of(&buffer.place),
        }
    }

    /// Returns the memory object of a place, for an owner that suballocates it. Drop it before the place is freed.
    pub(crate) fn shared_memory_of(&self, place: &Place<D>) -> Arc<Memory<D>> {
        match &place.kind {
            PlaceKind::Range { memory, .. } | PlaceKind::Slot { memory, .. } => memory.share(),
            PlaceKind::Dedicated { memory, .. } | PlaceKind::Pooled { memory, .. } => Arc::clone(memory),
            PlaceKind::Shared(shared) => self.shared_memory_of(&shared.place),
            PlaceKind::Aliased(whole) => self.shared_memory_of(whole),
            PlaceKind::Small { buffer, .. } => self.shared_memory_of(&buffer.place),
        }
    }

    /// Returns the index of the arena for a memory type and a class. Classes that the device allows in one memory
    /// object have the same arena.
    pub fn arena_index(&self, memory_type: u32, class: ResourceClass) -> u32 {
        let group = self.device.capabilities().class_groups[class as usize];
        memory_type * CLASSES.len() as u32 + u32::from(group)
    }

    /// Returns the index of the arena whose blocks serve a memory type and a class. [`Classes`] defines which classes
    /// share blocks.
    pub(crate) fn shared_arena_index(&self, memory_type: u32, class: ResourceClass) -> u32 {
        memory_type * CLASSES.len() as u32 + u32::from(self.classes.groups[class as usize])
    }

    pub(crate) fn heap_of(&self, memory_type: u32) -> u32 {
        self.device.capabilities().memory_types[memory_type as usize].heap
    }

    /// Returns the total size of the empty blocks of a heap, in bytes.
    pub(crate) fn empty_bytes(&self, heap: u32) -> u64 {
        let own =
            self.arenas.iter().filter(|arena| arena.desc.heap == heap).map(|arena| arena.empty_bytes(0)).sum::<u64>();
        let pools = self.custom_pools.read();
        let pools = pools.iter().filter(|pool| pool.arena.desc.heap == heap);
        own + pools.map(|pool| pool.arena.empty_bytes(pool.block_count_min)).sum::<u64>()
    }

    /// Makes host writes to bytes `offset..offset + size` visible to the device, with a driver call if needed.
    pub(crate) fn flush(&self, place: &Place<D>, offset: u64, size: u64) -> Result<(), DeviceError> {
        if size == 0 {
            return Ok(());
        }
        let start = place.offset + offset;
        self.memory_of(place).flush(&self.device, start, start + size)
    }

    /// Registers a ring, which reclaims visit and snapshots contain.
    pub fn add_ring(&self, ring: &Arc<dyn ReclaimRing>) {
        self.rings.add(ring, &self.observers);
    }

    /// Returns an error if the device is known to be lost. One load.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    pub fn check_lost(&self) -> Result<(), DeviceError> {
        if self.lost.load(Ordering::Relaxed) { Err(DeviceError::Lost) } else { Ok(()) }
    }

    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        self.arenas.iter().try_for_each(Arena::validate)?;
        self.custom_pools.read().iter().try_for_each(|pool| pool.arena.validate())?;
        self.pools.lock().iter().try_for_each(|pool| pool.validate())?;
        self.small.validate()?;
        self.recycled.validate()?;
        self.releases.retired.validate()
    }
}

/// Owned by all clones of an allocator and by its pools. The last of them drops it.
pub(crate) struct Handle<D: Device>(pub(crate) Arc<Shared<D>>);

impl<D: Device> Drop for Handle<D> {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.0);
        run_unlocked(move || {
            // From now on, cached objects must not keep the allocator alive.
            shared.recycled.close(|item| shared.destroy_item(item));
            shared.arenas.iter().for_each(|arena| arena.slots.close_thread_caches());
        });
    }
}

// SAFETY: the fields are never replaced, and `Allocator::timeline` adds only fences of this device.
unsafe impl<D: Device> Timed<D> for Shared<D> {
    fn device(&self) -> &D {
        &self.device
    }

    fn lifetimes(&self) -> &Lifetimes<D> {
        &self.lifetimes
    }

    fn record(&self, event: Event<&str>) {
        Shared::record(self, || event);
    }

    fn keep(self: Arc<Self>) -> Arc<dyn Send + Sync> {
        self
    }
}

/// Returns the minimum alignment of blocks for a class, in bytes: that of render targets if they share the blocks.
pub(crate) fn memory_alignment(capabilities: &Capabilities, class: ResourceClass) -> u64 {
    let group = |class: ResourceClass| capabilities.class_groups[class as usize];
    let holds_targets = group(class) == group(ResourceClass::RenderTarget);
    if holds_targets { capabilities.target_memory_alignment } else { 1 }
}

#[cfg(test)]
mod tests;
