//! What every clone of the allocator and everything that it made share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use ringfence_core::algorithm::Algorithm;
use ringfence_core::blocks::BlocksDesc;
use ringfence_core::range::Invalid;

use super::arena::{Arena, ArenaDesc};
use super::block_sizes::BlockSizes;
use super::budget::Budgets;
use super::cells::Cells;
use super::classes::Classes;
use super::descriptor_heaps::DescriptorHeaps;
use super::growth::Growth;
use super::ladder::Evict;
use super::place::{ArenaRef, Memory, Place};
use super::pool::PoolState;
use super::quick::quick_types;
use super::release::{RangeOwner, Releases};
use super::rings::{ReclaimRing, Rings};
use super::small::SmallBuffers;
use super::statistics::{Calls, Moved};
use super::types::TypeOrder;
use super::{AllocatorDesc, Budget};
use crate::device::{Capabilities, Device, DeviceError, MemoryProperties, Priority, ResourceClass};
use crate::observe::Trace;
use crate::observe::debugging::Debugger;
use crate::observe::trace::{StartTraceError, TraceSummary};
use crate::residency::Residents;
use crate::timeline::Lifetimes;

/// What every clone of the allocator and everything that it made share.
pub struct Shared<D: Device> {
    pub device: D,
    pub lifetimes: Lifetimes<D>,
    pub descriptor_heaps: DescriptorHeaps<D>,
    pub(super) rings: Rings,
    pub order: TypeOrder,
    pub(crate) classes: Classes,
    /// The memory types whose arenas serve plain requests the short way, a bit each.
    pub(super) quick_types: u32,
    /// Those of them whose small requests get cells.
    pub(super) cell_types: u32,
    /// One for each memory type and class group: see [`Shared::shared_arena_index`]; heaps are counted by [`Shared::arena_index`].
    pub(super) arenas: Box<[Arena<D>]>,
    pub(super) custom_pools: RwLock<Vec<Arc<PoolState<D>>>>,
    /// Owners of ranges outside the arenas.
    pub(super) pools: Mutex<Vec<Arc<dyn RangeOwner<D>>>>,
    pub(super) small: SmallBuffers<D>,
    pub(super) budgets: Budgets,
    pub(super) growth: Growth,
    pub(super) evict: RwLock<Option<Arc<Evict>>>,
    pub(super) desc: AllocatorDesc,
    pub(super) releases: Releases<D>,
    pub(super) lost: AtomicBool,
    pub(super) memory_objects: AtomicU64,
    pub(super) calls: Calls,
    pub(crate) moved: Moved,
    pub trace: Trace,
    /// There iff something is looked for.
    pub(crate) debug: Option<Box<Debugger<Memory<D>>>>,
    pub(crate) residents: Residents<D>,
}

pub(super) const CLASSES: [ResourceClass; 3] =
    [ResourceClass::Buffer, ResourceClass::Texture, ResourceClass::RenderTarget];

impl<D: Device> Shared<D> {
    pub(super) fn new(device: D, desc: AllocatorDesc) -> Self {
        let capabilities = device.capabilities();
        let classes = Classes::new(capabilities);
        let blocks = BlocksDesc {
            destroy_threshold: desc.empty_blocks_kept,
            grace_ticks: desc.empty_block_grace,
            ..Default::default()
        };
        let arenas = (0..).zip(&capabilities.memory_types).flat_map(|(index, held)| {
            let heap_bytes = capabilities.memory_heaps[held.heap as usize].bytes;
            let host = held.properties.contains(MemoryProperties::HOST_VISIBLE);
            let wanted = if host { desc.host_block_bytes_max } else { desc.device_block_bytes_max };
            let arena = ArenaDesc {
                memory_type: index,
                heap: held.heap,
                class: ResourceClass::Buffer,
                groups: classes.groups,
                sizes: BlockSizes::for_heap(heap_bytes, capabilities.memory_object_bytes_max, wanted),
                blocks,
                block_count_max: usize::MAX,
                algorithm: Algorithm::Tlsf,
                block_alignment: 1,
                priority: Priority::Normal,
                has_cells: desc.cells,
                grows_ahead: desc.empty_blocks_kept > 0,
                share: None,
            };
            CLASSES.map(|class| {
                let block_alignment = memory_alignment(capabilities, class);
                let sizes = arena.sizes.aligned_to(block_alignment);
                Arena::new(ArenaDesc { class, block_alignment, sizes, ..arena })
            })
        });
        let (order, arenas) = (TypeOrder::new(capabilities), arenas.collect::<Box<[_]>>());
        let shares = |memory_type: u32, bytes| {
            let mut of_type = arenas.iter().filter(|arena: &&Arena<D>| arena.desc.memory_type == memory_type);
            of_type.all(|arena| arena.shares(bytes))
        };
        let quick_types = quick_types(capabilities, &order, shares);
        Self {
            classes,
            quick_types,
            cell_types: if desc.cells { quick_types } else { 0 },
            order,
            arenas,
            lifetimes: Lifetimes::new(),
            descriptor_heaps: DescriptorHeaps::new(),
            rings: Rings::default(),
            releases: Releases::new(),
            lost: AtomicBool::new(false),
            memory_objects: AtomicU64::new(0),
            calls: Calls::default(),
            moved: Moved::default(),
            trace: Trace::new(),
            debug: Debugger::new(desc.debug),
            residents: Residents::new(),
            custom_pools: RwLock::new(Vec::new()),
            pools: Mutex::new(Vec::new()),
            small: SmallBuffers::new(),
            budgets: Budgets::new(&device, &desc),
            growth: Growth::default(),
            evict: RwLock::new(None),
            desc,
            device,
        }
    }

    /// The cells of an arena. Custom pools have none.
    pub(super) fn arena_cells(&self, arena: &ArenaRef<D>) -> &Cells<D> {
        let ArenaRef::Own(index) = arena else { unreachable!("custom pools have no cells") };
        &self.arenas[*index as usize].cells
    }

    /// Bytes of blocks of a heap in which nothing lives.
    pub(super) fn empty_bytes(&self, heap: u32) -> u64 {
        let own = self.arenas.iter().filter(|arena| arena.desc.heap == heap).map(Arena::empty_bytes).sum::<u64>();
        let pools = self.custom_pools.read();
        own + pools.iter().filter(|pool| pool.arena.desc.heap == heap).map(|pool| pool.arena.empty_bytes()).sum::<u64>()
    }

    /// Gives empty blocks of some heaps back until this allocator holds no more than `target_bytes` of all heaps;
    /// says how many, and their bytes. A custom pool keeps the blocks that it was made with.
    pub(super) fn free_empty_blocks(&self, heaps: impl Fn(u32) -> bool, target_bytes: u64) -> (usize, u64) {
        let held = || self.budgets.all().map(|budget| budget.reserved_bytes).sum::<u64>();
        let (mut blocks, mut bytes) = (0, 0);
        let mut free = |memory: Memory<D>| {
            blocks += 1;
            bytes += memory.size;
            self.free_memory(memory);
        };
        for arena in self.arenas.iter().filter(|arena| heaps(arena.desc.heap)) {
            while held() > target_bytes
                && let Some(memory) = arena.take_empty()
            {
                free(memory);
            }
        }
        let pools = self.custom_pools.read().clone();
        for pool in pools.iter().filter(|pool| heaps(pool.arena.desc.heap)) {
            while held() > target_bytes
                && let Some(memory) = pool.take_empty()
            {
                free(memory);
            }
        }
        (blocks, bytes)
    }

    /// Makes host writes at `offset..offset + size` of the place visible to the device, where that needs a call.
    pub(crate) fn flush(&self, place: &Place<D>, offset: u64, size: u64) -> Result<(), DeviceError> {
        if size == 0 {
            return Ok(());
        }
        self.flush_range(place.memory(self), place.offset + offset, place.offset + offset + size)
    }

    /// As [`Shared::flush`], for bytes `start..end` of a memory object.
    pub(crate) fn flush_range(&self, memory: &Memory<D>, start: u64, end: u64) -> Result<(), DeviceError> {
        let capabilities = self.device.capabilities();
        if !capabilities.needs_flush(memory.memory_type) {
            return Ok(());
        }
        let atom =
            if capabilities.is_non_coherent(memory.memory_type) { capabilities.non_coherent_atom_bytes } else { 1 };
        let start = start / atom * atom;
        let end = end.div_ceil(atom).saturating_mul(atom).min(memory.size);
        // SAFETY: the range lies in this device's memory, which is mapped as long as it exists, and is atom-aligned.
        unsafe { self.device.flush(&memory.object, start, end - start) }
    }

    /// Notes a ring, to be told of progress and for snapshots.
    pub fn add_ring(&self, ring: &Arc<dyn ReclaimRing>) {
        self.rings.add(ring, &self.trace);
    }

    /// Notes a memory object in the trace.
    pub(super) fn trace_block(&self, memory: &Memory<D>, class: &'static str, dedicated: bool) {
        self.trace.block_made(memory.block, memory.memory_type, dedicated, memory.size, class);
    }

    /// Notes a memory object that is a resource's own, or a heap's: of the arena that counts it, as in a snapshot.
    pub(super) fn trace_dedicated(&self, memory: &Memory<D>, arena: &ArenaDesc) {
        self.trace_block(memory, arena.class_name(), true);
    }

    pub(super) fn start_trace(&self, to: Box<dyn std::io::Write + Send>) -> Result<(), StartTraceError> {
        match self.memory_objects.load(Ordering::Relaxed) {
            0 if !self.descriptor_heaps.is_empty() => Err(StartTraceError::DescriptorHeaps),
            0 => {
                self.rings.forget_told();
                self.trace.start(to, self.device.capabilities())
            }
            memory_objects => Err(StartTraceError::NotEmpty { memory_objects }),
        }
    }

    pub(crate) fn heap_count(&self) -> u32 {
        self.device.capabilities().memory_heaps.len() as u32
    }

    pub(crate) fn budget(&self, heap: u32) -> Budget {
        self.budgets.heap(heap)
    }

    /// Counts bytes that were evicted, or brought back.
    pub(crate) fn count_absent(&self, heap: u32, bytes: u64, evicted: bool) {
        if evicted {
            self.budgets.add_absent(heap, bytes);
        } else {
            self.budgets.remove_absent(heap, bytes);
        }
    }

    /// Asks the driver how heaps stand.
    pub(crate) fn refresh_budgets(&self) {
        self.budgets.refresh(&self.device);
    }

    /// Ends the recording with how the rings are.
    pub(super) fn stop_trace(&self) -> Option<std::io::Result<TraceSummary>> {
        let seen = self.rings.all();
        self.rings.tell(&seen, &self.trace);
        self.rings.look_after(seen);
        self.trace.stop()
    }

    /// Counts writes to rings.
    pub fn count_staged(&self, writes: u64, bytes: u64) {
        self.calls.staged.add(writes);
        self.trace.staged(writes, bytes);
    }

    pub fn check_lost(&self) -> Result<(), DeviceError> {
        if self.lost.load(Ordering::Relaxed) { Err(DeviceError::Lost) } else { Ok(()) }
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.arenas.iter().try_for_each(Arena::validate)?;
        self.custom_pools.read().iter().try_for_each(|pool| pool.arena.validate())?;
        self.pools.lock().iter().try_for_each(|pool| pool.validate())?;
        self.small.validate()?;
        self.releases.validate()
    }
}

/// With what alignment blocks are made for a class: render targets may come to lie in those of their group.
pub(super) fn memory_alignment(capabilities: &Capabilities, class: ResourceClass) -> u64 {
    let group = |class: ResourceClass| capabilities.class_groups[class as usize];
    let holds_targets = group(class) == group(ResourceClass::RenderTarget);
    if holds_targets { capabilities.target_memory_alignment } else { 1 }
}
