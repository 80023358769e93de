//! The part that both APIs share: Ringfence's allocator, and a list of its live allocations.
//!
//! ```text
//!   the program's Allocation ── number ──▶ Pool.live[number] = Live { ringfence::memory::Allocation, name, … }
//!      │ free                                  └ destroy_now: the bytes may be reused immediately
//!      │ dropped                               └ stays allocated: it may contain a resource
//!      ▼
//!   the pool is dropped                        frees all allocations, then all blocks, even if the program has handles
//! ```
//!
//! gpu-allocator's allocations may be dropped without being freed, and may outlive their allocator. Neither may hand
//! out the bytes under a resource again, nor call a device that is destroyed. So the program has a number, and the pool
//! owns the memory.
//!
//! | operation | cost |
//! |---|---|
//! | `allocate`, `free` | as in Ringfence, and a copy of the name unless it equals the previous one |
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

/// The parts of a request other than the memory type.
pub(crate) struct Wish<'a> {
    pub(crate) name: &'a str,
    pub(crate) needs: Requirements,
    pub(crate) dedicated: bool,
}

/// Identifies an allocation: its pool, and its number in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    pool: u64,
    pub(crate) number: NonZeroU64,
}

impl Ticket {
    /// Returns `true` if the pool, and therefore the memory, is alive.
    #[cfg(feature = "vulkan")]
    pub(crate) fn has_pool(self) -> bool {
        pools().contains(&self.pool)
    }
}

/// Returns the ids of the live pools.
fn pools() -> MutexGuard<'static, BTreeSet<u64>> {
    static POOLS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
    POOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A live allocation.
struct Live<D: Device> {
    memory: ringfence::memory::Allocation<D>,
    name: Arc<str>,
    trace: Option<Box<Backtrace>>,
}

/// A memory block, for a report.
struct HeldBlock<'a, D: Device> {
    memory_type: u32,
    bytes: u64,
    held: Vec<&'a Live<D>>,
}

/// Ringfence's allocator with a list of its live allocations. See the [module](self).
pub(crate) struct Pool<D: Device> {
    /// Unique in the process.
    id: u64,
    /// Live allocations; the index is the number less one.
    live: Vec<Option<Live<D>>>,
    vacant: Vec<NonZeroU64>,
    /// Name of the last allocation. The next one often has the same, because names are labels and many objects share
    /// one.
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

    /// Allocates memory of one type. `make` allocates it from the allocator and a description.
    pub(crate) fn allocate(
        &mut self,
        wish: &Wish<'_>,
        memory_type: u32,
        make: impl FnOnce(
            &ringfence::Allocator<D>,
            AllocationDesc<'_>,
        ) -> Result<ringfence::memory::Allocation<D>, ringfence::memory::Error>,
    ) -> Result<(Ticket, &ringfence::memory::Allocation<D>)> {
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

    /// Frees an allocation.
    ///
    /// # Safety
    /// No resource in the allocation is used any more.
    pub(crate) unsafe fn free(&mut self, ticket: Ticket) -> Result<()> {
        let entry = self.entry(ticket)?;
        let Some(live) = entry.take() else { return Err(foreign()) };
        self.vacant.push(ticket.number);
        self.log_free(&live.name);
        // SAFETY: by the caller's promise.
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

    /// Returns the size of all blocks, in bytes.
    pub(crate) fn capacity(&self) -> u64 {
        self.memory.statistics().total().reserved_bytes()
    }

    /// Returns a report of all allocations and blocks. `bytes_of` returns the size of a memory object.
    pub(crate) fn report(&self, bytes_of: impl Fn(&D::Memory) -> u64) -> AllocatorReport {
        // A memory object has a constant address while it has an allocation.
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
            // SAFETY: as in gpu-allocator, all allocations end with their allocator.
            unsafe { live.memory.destroy_now() };
        }
    }
}

fn index(number: NonZeroU64) -> usize {
    (number.get() - 1) as usize
}

fn foreign() -> AllocationError {
    AllocationError::Internal("the allocation belongs to another allocator".into())
}

/// Returns the properties of a type that a request must name explicitly.
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
