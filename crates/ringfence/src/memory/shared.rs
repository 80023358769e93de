//! What every clone of the allocator and everything that it made share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use ringfence_core::blocks::{BlockAllocation, BlocksDesc};
use ringfence_core::range::Invalid;

use super::AllocatorDesc;
use super::arena::{Arena, BlockSizes, Memory};
use super::release::Releases;
use super::statistics::{Calls, count};
use super::types::TypeOrder;
use crate::descriptor::Rooms;
use crate::device::{Device, DeviceError, MemoryProperties, ResourceClass};
use crate::lifetime::Lifetimes;
use crate::upload::RingState;

/// Where a resource's bytes are.
pub(crate) struct Place<D: Device> {
    pub(crate) memory: Arc<Memory<D>>,
    pub(crate) offset: u64,
    pub(super) arena: u32,
    pub(super) hold: Hold,
}

/// By what right.
pub(super) enum Hold {
    Range(BlockAllocation),
    /// Memory of its own, and the number under which the arena knows it.
    Dedicated(u64),
}

/// What every clone of the allocator and everything that it made share.
pub(crate) struct Shared<D: Device> {
    pub(crate) device: D,
    pub(crate) lifetimes: Lifetimes<D>,
    pub(crate) rooms: Rooms<D>,
    pub(super) rings: Mutex<Vec<Weak<RingState>>>,
    pub(super) order: TypeOrder,
    /// One for each memory type and class group: see [`Shared::arena_index`].
    pub(super) arenas: Box<[Arena<D>]>,
    pub(super) releases: Releases<D>,
    pub(super) lost: AtomicBool,
    pub(super) memory_objects: AtomicU64,
    pub(super) calls: Calls,
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
            CLASSES.map(|class| Arena::new(index, class, sizes, blocks))
        });
        Self {
            order: TypeOrder::new(capabilities),
            arenas: arenas.collect(),
            lifetimes: Lifetimes::new(),
            rooms: Rooms::new(),
            rings: Mutex::new(Vec::new()),
            releases: Releases::new(),
            lost: AtomicBool::new(false),
            memory_objects: AtomicU64::new(0),
            calls: Calls::default(),
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

    /// Notes a ring, for snapshots.
    pub(crate) fn add_ring(&self, ring: &Arc<RingState>) {
        let mut rings = self.rings.lock();
        rings.retain(|held| held.strong_count() > 0);
        rings.push(Arc::downgrade(ring));
    }

    pub(crate) fn count_staged(&self) {
        count(&self.calls.staged);
    }

    pub(crate) fn check_lost(&self) -> Result<(), DeviceError> {
        if self.lost.load(Ordering::Relaxed) { Err(DeviceError::Lost) } else { Ok(()) }
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.arenas.iter().try_for_each(Arena::validate)?;
        self.releases.validate()
    }
}
