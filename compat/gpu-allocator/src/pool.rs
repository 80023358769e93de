//! What both APIs have in common: Ringfence's allocator, and a list of what is alive in it.
//!
//! ```text
//!   the program's Allocation ── number ──▶ Pool.live[number] = Live { ringfence::Allocation, name, … }
//!      │ free                                  └ destroy_now: the bytes are others' from now on
//!      │ dropped                               └ stays: something may have been placed there
//!      ▼
//!   the pool is dropped                        every one goes, then every block, whatever the program still holds
//! ```
//!
//! gpu-allocator's allocations may be dropped without being freed, and may outlive their allocator; neither may give
//! bytes to others under a resource, nor call a device that is gone. So the program holds a number, and the pool the
//! memory.
//!
//! | operation | cost |
//! |---|---|
//! | `allocate`, `free` | Ringfence's, and a copy of the name if it is not the one before |
//! | `report`, `log_leaks` | O(allocations) |
//! | `capacity` | O(memory types) |

use std::backtrace::Backtrace;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence::device::{Device, MemoryProperties, Requirements};
use ringfence::{AllocationDesc, Dedicated};

use crate::{
    AllocationError, AllocationReport, AllocationSizes, AllocatorDebugSettings, AllocatorReport, MemoryBlockReport,
    Result,
};

/// What a request asks for beside its bytes.
pub(crate) struct Wish<'a> {
    pub(crate) name: &'a str,
    pub(crate) needs: Requirements,
    pub(crate) dedicated: bool,
}

/// An allocation as its holder names it: which pool, and which of its allocations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    pool: u64,
    pub(crate) number: NonZeroU64,
}

impl Ticket {
    /// Whether the pool is still there, and with it the memory.
    #[cfg(feature = "vulkan")]
    pub(crate) fn has_pool(self) -> bool {
        pools().contains(&self.pool)
    }
}

/// The pools that are alive.
fn pools() -> MutexGuard<'static, BTreeSet<u64>> {
    static POOLS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
    POOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An allocation that is alive.
struct Live<D: Device> {
    memory: ringfence::Allocation<D>,
    name: Arc<str>,
    trace: Option<Box<Backtrace>>,
}

/// A memory block, for a report.
struct HeldBlock<'a, D: Device> {
    memory_type: u32,
    bytes: u64,
    held: Vec<&'a Live<D>>,
}

/// Ringfence's allocator with a list of what is alive in it. See the [module](self).
pub(crate) struct Pool<D: Device> {
    /// Unlike that of any other pool of the process.
    id: u64,
    /// By number less one.
    live: Vec<Option<Live<D>>>,
    vacant: Vec<NonZeroU64>,
    /// The latest, which the next is likely to be as well: names are labels, and most things have none of their own.
    name: Arc<str>,
    settings: AllocatorDebugSettings,
    memory: ringfence::Allocator<D>,
}

impl<D: Device> Pool<D> {
    pub(crate) fn new(device: D, settings: AllocatorDebugSettings, sizes: AllocationSizes) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if settings.log_memory_information {
            log_memory(&device);
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        pools().insert(id);
        Self {
            id,
            live: Vec::new(),
            vacant: Vec::new(),
            name: Arc::default(),
            settings,
            memory: ringfence::Allocator::over(device, sizes.to_desc()),
        }
    }

    pub(crate) fn device(&self) -> &D {
        self.memory.device()
    }

    /// Memory of one type. `make` makes it, of the allocator and a description.
    pub(crate) fn allocate(
        &mut self,
        wish: &Wish<'_>,
        memory_type: u32,
        make: impl FnOnce(
            &ringfence::Allocator<D>,
            AllocationDesc<'_>,
        ) -> Result<ringfence::Allocation<D>, ringfence::Error>,
    ) -> Result<(Ticket, &ringfence::Allocation<D>)> {
        let desc = AllocationDesc {
            memory_types: 1 << memory_type,
            required: unusual(self.device().capabilities().properties(memory_type)),
            dedicated: if wish.dedicated { Dedicated::Always } else { Dedicated::Auto },
            ..Default::default()
        };
        let memory = make(&self.memory, desc)?;
        let trace = self.settings.stores_traces().then(|| Box::new(Backtrace::force_capture()));
        let live = Live { memory, name: self.named(wish.name), trace };
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.live.push(None);
            NonZeroU64::MIN.saturating_add(self.live.len() as u64 - 1)
        });
        let held = self.live[index(number)].insert(live);
        Ok((Ticket { pool: self.id, number }, &held.memory))
    }

    fn named(&mut self, name: &str) -> Arc<str> {
        if *self.name != *name {
            self.name = name.into();
        }
        Arc::clone(&self.name)
    }

    pub(crate) fn log_allocation(&self, wish: &Wish<'_>) {
        if self.settings.log_allocations {
            let Requirements { size, alignment, .. } = wish.needs;
            log::debug!("allocating {:?}: {size} bytes, aligned to {alignment}", wish.name);
            self.log_trace();
        }
    }

    pub(crate) fn log_free(&self, name: &str) {
        if self.settings.log_frees {
            log::debug!("freeing {name:?}");
            self.log_trace();
        }
    }

    /// Gives an allocation back.
    ///
    /// # Safety
    /// Nothing uses what was placed in it.
    pub(crate) unsafe fn free(&mut self, ticket: Ticket) -> Result<()> {
        let entry = self.entry(ticket)?;
        let Some(live) = entry.take() else { return Err(foreign()) };
        self.vacant.push(ticket.number);
        self.log_free(&live.name);
        // SAFETY: the caller promises that nothing uses it.
        unsafe { live.memory.destroy_now() };
        Ok(())
    }

    pub(crate) fn rename(&mut self, ticket: Ticket, name: &str) -> Result<()> {
        self.entry(ticket)?.as_mut().ok_or_else(foreign)?.name = name.into();
        Ok(())
    }

    fn entry(&mut self, ticket: Ticket) -> Result<&mut Option<Live<D>>> {
        let entry = if ticket.pool == self.id { self.live.get_mut(index(ticket.number)) } else { None };
        entry.ok_or_else(foreign)
    }

    fn log_trace(&self) {
        if self.settings.logs_traces() {
            log::debug!("at {}", Backtrace::force_capture());
        }
    }

    fn live(&self) -> impl Iterator<Item = &Live<D>> {
        self.live.iter().flatten()
    }

    pub(crate) fn log_leaks(&self, level: log::Level) {
        for Live { memory, name, trace } in self.live() {
            let (size, memory_type, offset) = (memory.size(), memory.memory_type(), memory.offset());
            log::log!(level, "not freed: {name:?}, {size} bytes at {offset} of a block of memory type {memory_type}");
            if let Some(trace) = trace {
                log::log!(level, "{name:?} was allocated at {trace}");
            }
        }
    }

    /// Bytes of all blocks.
    pub(crate) fn capacity(&self) -> u64 {
        self.memory.statistics().total().reserved_bytes()
    }

    /// Everything that is held. `bytes_of` tells the size of a memory object.
    pub(crate) fn report(&self, bytes_of: impl Fn(&D::Memory) -> u64) -> AllocatorReport {
        // One memory object, one address, as long as something lives in it.
        let mut blocks: BTreeMap<usize, HeldBlock<'_, D>> = BTreeMap::new();
        for live in self.live() {
            let (object, memory_type) = (live.memory.memory(), live.memory.memory_type());
            let block = blocks.entry(std::ptr::from_ref(object).addr());
            let new = || HeldBlock { memory_type, bytes: bytes_of(object), held: Vec::new() };
            block.or_insert_with(new).held.push(live);
        }
        let empty = self.memory.snapshot().blocks.into_iter().filter(|block| block.ranges.is_empty());
        let empty =
            empty.map(|block| HeldBlock { memory_type: block.memory_type, bytes: block.bytes, held: Vec::new() });
        let mut blocks: Vec<_> = blocks.into_values().chain(empty).collect();
        blocks.sort_by_key(|block| block.memory_type);
        let mut report = AllocatorReport {
            allocations: Vec::new(),
            blocks: Vec::with_capacity(blocks.len()),
            total_allocated_bytes: self.live().map(|live| live.memory.size()).sum(),
            total_capacity_bytes: self.capacity(),
        };
        for HeldBlock { bytes, mut held, .. } in blocks {
            held.sort_by_key(|live| live.memory.offset());
            let first = report.allocations.len();
            report.allocations.extend(held.into_iter().map(|Live { memory, name, .. }| AllocationReport {
                name: name.to_string(),
                offset: memory.offset(),
                size: memory.size(),
            }));
            report.blocks.push(MemoryBlockReport { size: bytes, allocations: first..report.allocations.len() });
        }
        report
    }
}

impl<D: Device> Drop for Pool<D> {
    fn drop(&mut self) {
        if self.settings.log_leaks_on_shutdown {
            self.log_leaks(log::Level::Warn);
        }
        pools().remove(&self.id);
        for live in self.live.drain(..).flatten() {
            // SAFETY: gpu-allocator's contract as well is that the memory of all allocations ends with their allocator.
            unsafe { live.memory.destroy_now() };
        }
    }
}

fn index(number: NonZeroU64) -> usize {
    (number.get() - 1) as usize
}

fn foreign() -> AllocationError {
    AllocationError::Internal("the allocation is of another allocator".into())
}

/// Those properties of a type that a request has to name.
fn unusual(held: MemoryProperties) -> MemoryProperties {
    let near_or_far = MemoryProperties::DEVICE_LOCAL | MemoryProperties::HOST_VISIBLE;
    held.difference(near_or_far | MemoryProperties::HOST_COHERENT | MemoryProperties::HOST_CACHED)
}

fn log_memory<D: Device>(device: &D) {
    let capabilities = device.capabilities();
    for (index, held) in capabilities.memory_types.iter().enumerate() {
        log::debug!("memory type {index}: heap {}, {:?}", held.heap, held.properties);
    }
    for (index, heap) in capabilities.memory_heaps.iter().enumerate() {
        log::debug!("memory heap {index}: {} MiB, device-local: {}", heap.bytes >> 20, heap.device_local);
    }
}
