//! What every clone of the allocator and everything that it made share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use ringfence_core::blocks::{BlockAllocation, BlocksDesc};
use ringfence_core::range::Invalid;

use super::AllocatorDesc;
use super::arena::{Arena, BlockSizes, Memory};
use super::release::{RangeOwner, Releases};
use super::snapshot::class_name;
use super::statistics::Calls;
use super::types::TypeOrder;
use crate::descriptor::Rooms;
use crate::device::{Capabilities, Device, DeviceError, MemoryProperties, ResourceClass};
use crate::lifetime::Lifetimes;
use crate::trace::{StartTraceError, Trace};
use crate::upload::Recycle;

/// Where a resource's bytes are.
pub(crate) struct Place<D: Device> {
    pub(crate) memory: Arc<Memory<D>>,
    pub(crate) offset: u64,
    pub(super) arena: u32,
    pub(super) hold: Hold<D>,
}

impl<D: Device> Place<D> {
    /// A range of a pool outside the arenas.
    pub(crate) fn in_pool(
        memory: Arc<Memory<D>>,
        offset: u64,
        pool: Arc<dyn RangeOwner<D>>,
        allocation: BlockAllocation,
    ) -> Self {
        Self { memory, offset, arena: 0, hold: Hold::Pooled(pool, allocation) }
    }

    /// A heap that no arena cuts, known there by its number.
    pub(crate) fn heap(memory: Arc<Memory<D>>, arena: u32, number: u64) -> Self {
        Self { memory, offset: 0, arena, hold: Hold::Dedicated(number) }
    }

    /// Some bytes of `whole`, which others may use as well.
    pub(crate) fn aliased(whole: &Arc<Self>, offset: u64) -> Self {
        let hold = Hold::Aliased(Arc::clone(whole));
        Self { memory: Arc::clone(&whole.memory), offset: whole.offset + offset, arena: 0, hold }
    }

    /// How many bytes are held, rounding left out.
    pub(super) fn size(&self) -> u64 {
        match &self.hold {
            Hold::Range(allocation) | Hold::Pooled(_, allocation) => allocation.size(),
            Hold::Dedicated(_) => self.memory.size,
            Hold::Aliased(_) => 0,
        }
    }
}

/// By what right.
pub(super) enum Hold<D: Device> {
    Range(BlockAllocation),
    /// Memory of its own, and the number under which the arena knows it.
    Dedicated(u64),
    /// A range of a pool outside the arenas.
    Pooled(Arc<dyn RangeOwner<D>>, BlockAllocation),
    /// Somebody else's memory; the last one to let go of it gives it back.
    Aliased(Arc<Place<D>>),
}

/// What every clone of the allocator and everything that it made share.
pub(crate) struct Shared<D: Device> {
    pub(crate) device: D,
    pub(crate) lifetimes: Lifetimes<D>,
    pub(crate) rooms: Rooms<D>,
    pub(super) rings: Mutex<Vec<Weak<dyn Recycle>>>,
    pub(crate) order: TypeOrder,
    /// One for each memory type and class group: see [`Shared::arena_index`].
    pub(super) arenas: Box<[Arena<D>]>,
    pub(super) releases: Releases<D>,
    /// Owners of ranges outside the arenas.
    pub(super) pools: Mutex<Vec<Arc<dyn RangeOwner<D>>>>,
    pub(super) lost: AtomicBool,
    pub(super) memory_objects: AtomicU64,
    pub(super) calls: Calls,
    pub(crate) trace: Trace,
}

pub(super) const CLASSES: [ResourceClass; 3] =
    [ResourceClass::Buffer, ResourceClass::Texture, ResourceClass::RenderTarget];

impl<D: Device> Shared<D> {
    pub(super) fn new(device: D, desc: AllocatorDesc) -> Self {
        let capabilities = device.capabilities();
        let blocks = BlocksDesc {
            destroy_threshold: desc.empty_blocks_kept,
            grace_ticks: desc.empty_block_grace,
            ..Default::default()
        };
        let arenas = (0..).zip(&capabilities.memory_types).flat_map(|(index, held)| {
            let heap = capabilities.memory_heaps[held.heap as usize].bytes;
            let host = held.properties.contains(MemoryProperties::HOST_VISIBLE);
            let wanted = if host { desc.host_block_bytes_max } else { desc.device_block_bytes_max };
            let sizes = BlockSizes::for_heap(heap, capabilities.memory_object_bytes_max, wanted);
            CLASSES.map(|class| Arena::new(index, class, memory_alignment(capabilities, class), sizes, blocks))
        });
        Self {
            order: TypeOrder::new(capabilities),
            arenas: arenas.collect(),
            lifetimes: Lifetimes::new(),
            rooms: Rooms::new(),
            rings: Mutex::new(Vec::new()),
            releases: Releases::new(),
            pools: Mutex::new(Vec::new()),
            lost: AtomicBool::new(false),
            memory_objects: AtomicU64::new(0),
            calls: Calls::default(),
            trace: Trace::new(),
            device,
        }
    }

    /// Makes host writes at `offset..offset + size` of the place visible to the device, where that needs a call.
    pub(crate) fn flush(&self, place: &Place<D>, offset: u64, size: u64) -> Result<(), DeviceError> {
        let memory = &place.memory;
        let capabilities = self.device.capabilities();
        if size == 0 || !capabilities.needs_flush(memory.memory_type) {
            return Ok(());
        }
        let atom =
            if capabilities.is_non_coherent(memory.memory_type) { capabilities.non_coherent_atom_bytes } else { 1 };
        let start = (place.offset + offset) / atom * atom;
        let end = (place.offset + offset + size).div_ceil(atom).saturating_mul(atom).min(memory.size);
        // SAFETY: the range lies in this device's memory, which is mapped as long as it exists, and is atom-aligned.
        unsafe { self.device.flush(&memory.object, start, end - start) }
    }

    /// Notes a ring, to be told of progress and for snapshots.
    pub(crate) fn add_ring(&self, ring: &Arc<dyn Recycle>) {
        let mut rings = self.rings.lock();
        rings.retain(|held| held.strong_count() > 0);
        rings.push(Arc::downgrade(ring));
    }

    /// Notes a memory object in the trace: one of an arena, or a resource's own.
    pub(super) fn trace_block(&self, memory: &Memory<D>, class: ResourceClass, dedicated: bool) {
        let class = class_name(self.device.capabilities().class_groups, class);
        self.trace.block_made(memory.block, memory.memory_type, dedicated, memory.size, class);
    }

    pub(super) fn start_trace(&self, to: Box<dyn std::io::Write + Send>) -> Result<(), StartTraceError> {
        match self.memory_objects.load(Ordering::Relaxed) {
            0 => self.trace.start(to, self.device.capabilities()),
            memory_objects => Err(StartTraceError::NotEmpty { memory_objects }),
        }
    }

    /// Counts writes to rings.
    pub(crate) fn count_staged(&self, writes: u64, bytes: u64) {
        self.calls.staged.fetch_add(writes, Ordering::Relaxed);
        self.trace.staged(writes, bytes);
    }

    pub(crate) fn check_lost(&self) -> Result<(), DeviceError> {
        if self.lost.load(Ordering::Relaxed) { Err(DeviceError::Lost) } else { Ok(()) }
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.arenas.iter().try_for_each(Arena::validate)?;
        self.pools.lock().iter().try_for_each(|pool| pool.validate())?;
        self.releases.validate()
    }
}

/// With what alignment blocks are made for a class: render targets may come to lie in those of their group.
fn memory_alignment(capabilities: &Capabilities, class: ResourceClass) -> u64 {
    let group = |class: ResourceClass| capabilities.class_groups[class as usize];
    let holds_targets = group(class) == group(ResourceClass::RenderTarget);
    if holds_targets { capabilities.target_memory_alignment } else { 1 }
}
