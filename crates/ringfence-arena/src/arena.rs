//! The blocks of one memory type and one resource class.
//!
//! ```text
//!   slots: pools for common small sizes            no lock
//!     │ no free slot: a chunk
//!     ▼
//!   state (one short lock)                         growth (a lock, held while the driver creates a block)
//!   ├ blocks: Blocks<Tlsf, Block>
//!   ├ dedicated: name and size of each
//!   └ counts and high-water marks
//! ```
//!
//! An allocation takes the lock `growth` only if no block has room, so a request that fits never waits for the driver.
//!
//! | operation | cost |
//! |---|---|
//! | allocate or free a slot | O(1), no lock; one short lock if the slot has a name, user data or flags |
//! | allocate in an existing block | O(log blocks), one short lock, no driver call |
//! | allocate in a new block | driver calls, outside the lock of the state |
//! | free a range of a block | like an allocation in an existing block |

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{Thread, ThreadId};

use ringfence_core::algorithm::{Algorithm, Cutter};
use ringfence_core::block_sizes::{BlockSizes, SIZES_MAX};
use ringfence_core::blocks::{BlockAllocation, BlockId, Blocks, BlocksDesc, OldestFirst};
use ringfence_core::empty_blocks::EmptyBlocks;
use ringfence_core::low_water::LowWater;
use ringfence_core::range::Invalid;
use ringfence_core::tlsf::Tlsf;
use ringfence_lockfree::pool_chain::PoolAllocation;
use ringfence_lockfree::slots::{Chunk, Class, Live, Ready, Slots};
use ringfence_trace::{BlockSnapshot, RangeSnapshot, TypeStatistics};
use smallvec::SmallVec;

use crate::block_memory::BlockMemory;
use crate::device::lock::Lock;
use crate::device::sharing::ShareKind;
use crate::device::{Device, MemoryDesc, Priority, ResourceClass};
use crate::memory_object::Memory;
use crate::request::{RangeInfo, Request, range_snapshot};
use ringfence_lockfree::ticket::{Moves, Ticket};

mod compact;
mod surplus;

pub use compact::{BlockFacts, Compact, Destinations, PassLimits, Reserved};

/// A block: memory that is suballocated, and the records of ranges that have a name, user data or flags.
struct Block<D: Device> {
    memory: Arc<Memory<D>>,
    /// The records, by the slot number of the range in the block.
    infos: HashMap<u32, RangeInfo>,
    /// Number of `infos` that have a ticket.
    movable_count: usize,
}

/// The memory of a recycled object. An arena counts it as in use; a snapshot shows it as free.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recycled {
    /// A range of a block.
    Range {
        /// Number of the block in a trace.
        block: u64,
        /// Offset in the block, in bytes.
        offset: u64,
    },
    /// Dedicated memory, by its number in the arena.
    Dedicated {
        /// Number of the dedicated memory in the arena.
        number: u64,
    },
}

/// Description of an arena.
#[derive(Clone, Copy, Debug)]
pub struct ArenaDesc {
    /// Memory type, an index.
    pub memory_type: u32,
    /// Heap of the memory type, an index.
    pub heap: u32,
    /// Class whose group the blocks are for.
    pub class: ResourceClass,
    /// Group of each class. The blocks are for all classes in the group of `class`.
    pub groups: [u8; 3],
    /// Sizes of the blocks.
    pub sizes: BlockSizes,
    /// Limits of the list of blocks.
    pub blocks: BlocksDesc,
    /// Bytes of empty blocks that are kept even if few bytes are live. If it is `u64::MAX`, the bytes of empty blocks
    /// have no limit.
    pub empty_bytes_min: u64,
    /// Maximum number of blocks.
    pub block_count_max: usize,
    /// Algorithm that divides the blocks.
    pub algorithm: Algorithm,
    /// Minimum alignment of the blocks, in bytes.
    pub block_alignment: u64,
    /// Priority of the blocks.
    pub priority: Priority,
    /// `true` if small requests get slots.
    pub has_slots: bool,
    /// `true` if blocks are created before they are needed.
    pub grows_ahead: bool,
    /// Kind of the handles by which the blocks can be shared.
    pub share: Option<ShareKind>,
}

impl ArenaDesc {
    /// Returns `true` if the blocks are for resources of this class.
    pub fn holds(&self, class: ResourceClass) -> bool {
        self.groups[class as usize] == self.groups[self.class as usize]
    }

    /// Returns a readable name of the classes that share the arena's blocks.
    pub fn class_name(&self) -> &'static str {
        let [buffer, texture, target] = self.groups;
        match self.class {
            ResourceClass::Buffer if buffer == texture && texture == target => "all",
            ResourceClass::Buffer => "buffers",
            ResourceClass::Texture => "textures",
            ResourceClass::RenderTarget => "render targets",
        }
    }
}

/// Blocks of one memory type and class.
///
/// An arena never calls the driver: it returns a range, or the sizes to request from the driver for a new block, in
/// order. `O` is the type of the owners that its thread caches keep: an owner keeps the allocator alive.
pub struct Arena<D: Device, A = Tlsf, O = ()> {
    /// The description.
    pub desc: ArenaDesc,
    /// The slots for small requests.
    pub slots: Slots<BlockMemory<D>, O>,
    /// Name, user data and flags of the slots that have any, by size class, pool and index of the slot.
    slot_infos: Lock<HashMap<(u32, u32, u32), RangeInfo>>,
    state: Lock<State<D, A>>,
    /// Held while a block is created.
    pub growth: Lock<()>,
    /// Held while a chunk for slots is created: one chunk serves all threads that wait for it. Taken before `growth`.
    pub chunks: Lock<()>,
    /// `true` if a block must be created before it is needed. Set by an allocation if free bytes are below the
    /// low-water mark. Cleared once enough bytes are free, or if the creation of a block fails.
    pub wants_block: AtomicBool,
    /// Number of freed ranges; it wraps around. Written under the lock of the state.
    freed_count: AtomicU64,
    /// The latest tick of [`Arena::take_surplus`].
    tick: AtomicU64,
    wake: Arc<Wake>,
}

/// The threads that create blocks before they are needed, and free empty ones. They sleep until they are woken.
#[derive(Default, Debug)]
pub struct Wake {
    sleepers: Lock<Vec<Thread>>,
    /// Set when the program first creates blocks before they are needed; never cleared.
    pub served: AtomicBool,
    /// Number of threads in `sleepers`.
    pub thread_count: AtomicU32,
    /// `true` if a reclaim has left empty blocks to the threads.
    pub surplus: AtomicBool,
}

impl Wake {
    /// Returns `true` if the program has ever called for blocks to be created before they are needed.
    pub fn is_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// Returns `true` if there is a thread that creates and frees blocks in the background.
    pub fn has_thread(&self) -> bool {
        self.thread_count.load(Ordering::Relaxed) != 0
    }

    /// Adds a thread.
    pub fn add(&self, thread: Thread) {
        self.sleepers.lock().push(thread);
        self.thread_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes the thread with this number.
    pub fn remove(&self, thread: ThreadId) {
        self.thread_count.fetch_sub(1, Ordering::Relaxed);
        self.sleepers.lock().retain(|sleeper| sleeper.id() != thread);
    }

    /// Wakes the threads. Called once when the free bytes of an arena fall below its low-water mark, and after a
    /// reclaim that leaves empty blocks to the threads.
    pub fn wake(&self) {
        self.sleepers.lock().iter().for_each(Thread::unpark);
    }
}

/// Sizes of a block to create, in the order in which they are tried.
pub type Sizes = SmallVec<[u64; 2 * SIZES_MAX]>;

/// The answer of an arena to a request.
pub enum AllocateResult<D: Device> {
    /// A range of a block.
    Granted(InBlock<D>),
    /// No block has room. A new block of any of these sizes would serve the request; they are tried in this order. If
    /// the list is empty, the arena may not have another block that is large enough.
    NeedsBlock(Sizes),
}

/// Memory that an arena allocated for a request.
pub enum Found<D: Device> {
    /// A range of a block.
    Range(InBlock<D>),
    /// A slot of a size class, at an offset of its memory.
    Slot {
        /// Index of the size class.
        class: u32,
        /// `true` if the slot has a record: a name, user data or flags.
        named: bool,
        /// The slot.
        ready: Ready<BlockMemory<D>>,
    },
}

/// The place that a request would get.
pub enum Forecast {
    /// A range or slot of an existing block.
    InBlock {
        /// Offset in the block, in bytes.
        offset: u64,
        /// Size of the range, in bytes.
        bytes: u64,
    },
    /// A new block would be created, of the first of `sizes` that the driver grants, and `bytes` of it would be
    /// allocated.
    NewBlock {
        /// Sizes of the block, in the order in which they are tried.
        sizes: Sizes,
        /// Size of the range, in bytes.
        bytes: u64,
    },
    /// The arena may not have another block.
    Full,
}

struct Dedicated {
    /// The memory object's number in a trace.
    block: u64,
    size: u64,
    info: RangeInfo,
}

struct State<D: Device, A> {
    blocks: Blocks<A, Block<D>, OldestFirst>,
    dedicated: HashMap<u64, Dedicated>,
    dedicated_made: u64,
    counts: TypeStatistics,
    low_water: LowWater,
    sizes: BlockSizes,
    block_count_max: usize,
    /// Size of the next block that is created ahead. Computed from the bytes of all blocks and `announced_block`.
    size_ahead: u64,
    /// The low-water mark; 0 if no block is created ahead. Computed from `low_water`, `size_ahead` and the number of
    /// blocks.
    low_below: u64,
    /// Used bytes when a block was last ordered, or created ahead.
    ordered_at_bytes: u64,
    /// Bytes that the program has announced and not allocated yet. Empty blocks for these bytes are kept.
    announced: u64,
    /// Size of the largest block that was created for announced bytes. Blocks that are created ahead are at least as
    /// large, so that a program that begins with such a block does not continue with blocks of 4 MiB.
    announced_block: u64,
    empty_limits: EmptyBlocks,
    /// High-water mark of `range_bytes` since the last call of [`Arena::take_used_bytes`].
    used_bytes_max: u64,
}

/// A block that is about to be added.
struct NewBlock<D: Device, A> {
    memory: Memory<D>,
    ranges: A,
    tick: u64,
}

/// A range of a block.
pub struct InBlock<D: Device> {
    /// Memory of the block.
    pub memory: BlockMemory<D>,
    /// The range in the list of blocks.
    pub allocation: BlockAllocation,
    /// `Some` if the range may be moved.
    pub ticket: Option<Arc<Ticket>>,
}

impl<D: Device, A: Cutter, O> Arena<D, A, O> {
    /// Takes every lock of the arena. The result holds them until it is dropped. For tests.
    #[doc(hidden)]
    pub fn lock_all(&self) -> impl Sized {
        (self.state.lock(), self.growth.lock(), self.chunks.lock(), self.slot_infos.lock())
    }

    /// Creates an arena without blocks. `wake` has the threads that create blocks in the background.
    pub fn new(desc: ArenaDesc, wake: &Arc<Wake>) -> Self {
        let state = State {
            blocks: Blocks::oldest_first(desc.blocks),
            dedicated: HashMap::new(),
            dedicated_made: 0,
            counts: TypeStatistics::default(),
            low_water: LowWater::default(),
            sizes: desc.sizes,
            block_count_max: desc.block_count_max,
            size_ahead: desc.sizes.present(0),
            low_below: 0,
            ordered_at_bytes: 0,
            announced: 0,
            announced_block: 0,
            empty_limits: EmptyBlocks::new(desc.empty_bytes_min),
            used_bytes_max: 0,
        };
        Self {
            desc,
            slots: Slots::default(),
            slot_infos: Lock::new(HashMap::new()),
            state: Lock::new(state),
            growth: Lock::new(()),
            chunks: Lock::new(()),
            wants_block: AtomicBool::new(false),
            freed_count: AtomicU64::new(0),
            tick: AtomicU64::new(0),
            wake: Arc::clone(wake),
        }
    }

    /// Returns the largest size, in bytes, for which a request shares a block with others.
    pub fn shared_bytes_max(&self) -> u64 {
        self.desc.sizes.max / 2
    }

    /// Returns `true` if a request is small enough to share a block with others.
    pub fn shares(&self, size: u64) -> bool {
        size <= self.shared_bytes_max()
    }

    /// Allocates a slot, or a range of an existing block, without a driver call and without waiting for one. Returns
    /// `None` if no slot or range is free. Also returns `None` if the request has the size of a slot but cannot use
    /// one, or if its size class has no pools yet; [`Self::slot_class`] must then count the request.
    #[inline(always)]
    pub fn allocate_cached(&self, request: Request<'_>) -> Option<Found<D>> {
        if self.desc.has_slots && Class::of(request.size, request.alignment).is_some() {
            let class = self.slot_class(&request, false)?;
            return Some(self.found(class, self.slots.allocate(class)?, &request));
        }
        self.range(request).map(Found::Range)
    }

    /// Records the name, user data and flags of a slot, and returns the slot as found memory.
    #[inline(always)]
    pub fn found(&self, class: Class, ready: Ready<BlockMemory<D>>, request: &Request<'_>) -> Found<D> {
        let info = RangeInfo::of(request);
        let named = info.is_some();
        if let Some(info) = info {
            self.slot_infos.lock().insert(key_of(class.index, &ready.slot), info);
        }
        Found::Slot { class: class.index, named, ready }
    }

    /// Returns the request's size class if the request can use a slot and the class has pools. If `count` is `true`,
    /// also counts the request: a class gets pools once enough requests were counted.
    pub fn slot_class(&self, request: &Request<'_>, count: bool) -> Option<Class> {
        // A slot cannot be moved, and its block also contains resources that are not evictable.
        if !self.desc.has_slots || request.moves != Moves::Never || request.evictable {
            return None;
        }
        let class = Class::of(request.size, request.alignment)?;
        self.slots.is_common(class, count).then_some(class)
    }

    /// Creates a chunk for slots from the range that `find` returns, and returns a slot of the chunk. The caller holds
    /// the lock `chunks`.
    pub fn grow_slots(
        &self,
        class: Class,
        find: impl FnOnce(Request<'_>) -> Option<InBlock<D>>,
    ) -> Option<Ready<BlockMemory<D>>> {
        let made = self.slots.grow(class, self.slots.next_count(class), |bytes| {
            let found = find(chunk_request(class, bytes)).ok_or(())?;
            Ok::<_, ()>(Chunk { memory: found.memory, allocation: found.allocation })
        });
        made?.ok()
    }

    /// Takes a range of a block. Returns `None` if no block has room.
    #[inline]
    pub fn range(&self, request: Request<'_>) -> Option<InBlock<D>> {
        let mut state = self.state.lock();
        let found = state.allocate(request);
        self.note_low_water(&mut state);
        found
    }

    /// Allocates a range, or returns the sizes to try for a new block, in order: see `next_sizes`. `growth` is
    /// held.
    pub fn allocate(&self, request: Request<'_>, bytes_min: u64) -> AllocateResult<D> {
        match self.range(request) {
            Some(found) => AllocateResult::Granted(found),
            None => AllocateResult::NeedsBlock(self.sizes_to_create(request, bytes_min)),
        }
    }

    /// Returns the sizes to try for a new block, in order, if no existing block has room for the request.
    pub fn sizes_to_create(&self, request: Request<'_>, bytes_min: u64) -> Sizes {
        let (count, held) = self.state.look(|state| (state.blocks.block_count(), state.counts.block_bytes));
        self.next_sizes((count, held), &request, bytes_min)
    }

    /// Returns a count that increases with each freed range.
    pub fn freed_count(&self) -> u64 {
        self.freed_count.load(Ordering::Relaxed)
    }

    /// Counts a freed range. The lock of the state is held.
    fn count_freed(&self) {
        self.freed_count.store(self.freed_count().wrapping_add(1), Ordering::Relaxed);
    }

    /// Adds the block that was created for a request, and allocates the request from it. `growth` is held.
    pub fn insert(&self, memory: Memory<D>, request: Request<'_>) -> InBlock<D> {
        let block = self.new_block(memory);
        let mut state = self.state.lock();
        let id = state.insert(block);
        let allocation = state.blocks.allocate_in(id, request.size, request.alignment);
        let found = state.count_in(allocation.expect("a new block has room for its request"), request);
        self.note_low_water(&mut state);
        found
    }

    /// Prepares a block. Called without the lock of the state, because it allocates host memory.
    fn new_block(&self, memory: Memory<D>) -> NewBlock<D, A> {
        NewBlock { ranges: A::cut(self.desc.algorithm, memory.size), memory, tick: self.tick.load(Ordering::Relaxed) }
    }

    /// Returns the sizes to request from the driver, in order, if the arena has `count` blocks of `held` bytes
    /// together. The first size is at least `bytes_min`, unless the sizes are fixed; smaller sizes follow, in case the
    /// driver refuses it. Returns no size if the arena may not have more blocks, or if no size would be large enough.
    fn next_sizes(&self, (count, held): (usize, u64), request: &Request<'_>, bytes_min: u64) -> Sizes {
        let ArenaDesc { sizes, block_count_max, algorithm, .. } = self.desc;
        let is_fixed = sizes.halvings == 0;
        if count >= block_count_max || (is_fixed && request.size > sizes.max) {
            return Sizes::new();
        }
        // An algorithm must not be called with a block above its capacity.
        let would_hold = |bytes: &u64| {
            *bytes <= algorithm.capacity_max() && A::would_hold(algorithm, *bytes, request.size, request.alignment)
        };
        sizes.tries_from(held, request.size, bytes_min).filter(would_hold).collect()
    }

    /// Returns the description of a block of `size` bytes, for the driver.
    pub fn block_desc(&self, size: u64, alignment: u64) -> MemoryDesc<'static> {
        let ArenaDesc { memory_type, class, block_alignment, priority, share, .. } = self.desc;
        let alignment = alignment.max(block_alignment);
        MemoryDesc { memory_type, size, alignment, class, priority, name: "", share }
    }

    /// Wakes the thread that creates blocks ahead, if free bytes are below the low-water mark.
    fn note_low_water(&self, state: &mut State<D, A>) {
        if self.desc.grows_ahead && state.is_low() && !self.wants_block.swap(true, Ordering::Relaxed) {
            state.ordered_at_bytes = state.counts.range_bytes;
            self.wake.wake();
        }
    }

    /// Records that an allocation is about to wait for a block, which raises the low-water mark.
    pub fn note_wait(&self, size: u64) {
        if self.desc.grows_ahead && self.wake.is_served() {
            let mut state = self.state.lock();
            // A block that is created ahead is too small for a larger request.
            if state.blocks.block_count() != 0 && size <= state.size_ahead {
                let block = state.size_ahead;
                let free = state.counts.block_bytes - state.counts.range_bytes;
                state.low_water.missed(block, free);
                state.update_ahead();
            }
        }
    }

    /// Returns the size of the block to create ahead, at least `bytes_min`. Returns `None` unless the free bytes are
    /// below the low-water mark. An arena without blocks, or with the maximum number of blocks, has no such mark.
    /// `growth` is held.
    pub fn wanted_ahead(&self, bytes_min: u64) -> Option<u64> {
        let state = self.state.lock();
        let is_low = state.is_low();
        // Stored under the lock that also protects setting it, so no concurrent order for a block is lost.
        self.wants_block.store(is_low, Ordering::Relaxed);
        is_low.then(|| state.size_ahead.max(bytes_min))
    }

    /// Adds a block that was created ahead. `growth` is held.
    pub fn insert_ahead(&self, memory: Memory<D>) {
        let block = self.new_block(memory);
        let mut state = self.state.lock();
        let now = state.counts.range_bytes;
        let used = now.saturating_sub(std::mem::replace(&mut state.ordered_at_bytes, now));
        state.low_water.made(used);
        state.insert(block);
    }

    /// Returns the number of bytes that the empty blocks lack for `bytes` further announced bytes, and the total size
    /// of all blocks. `growth` is held.
    pub fn missing_for(&self, bytes: u64) -> (u64, u64) {
        let state = self.state.lock();
        let wanted = state.announced.saturating_add(bytes);
        (wanted.saturating_sub(state.empty_bytes()), state.counts.block_bytes)
    }

    /// Announces `bytes`, and adds blocks for them. Empty blocks for these bytes are kept until the bytes were
    /// allocated.
    pub fn insert_announced(&self, bytes: u64, blocks: Vec<Memory<D>>) {
        let blocks: Vec<_> = blocks.into_iter().map(|memory| self.new_block(memory)).collect();
        let mut state = self.state.lock();
        for block in blocks {
            state.announced_block = state.announced_block.max(block.memory.size);
            state.insert(block);
        }
        state.announced = state.announced.saturating_add(bytes);
    }

    /// Returns the bytes of live ranges, those of recycled objects and chunks included, and their high-water mark since
    /// the last call. Both are 0 if no range was ever freed.
    pub fn take_used_bytes(&self) -> (u64, u64) {
        if self.freed_count() == 0 {
            return (0, 0);
        }
        self.state.look(|state| {
            state.counts.range_bytes_high_water = state.high_water();
            let used = state.counts.range_bytes;
            (used, std::mem::replace(&mut state.used_bytes_max, used))
        })
    }

    /// Returns the number of blocks.
    pub fn block_count(&self) -> usize {
        self.state.lock().blocks.block_count()
    }

    /// Adds a block without an allocation in it. `growth` is held.
    pub fn insert_empty(&self, memory: Memory<D>) {
        let block = self.new_block(memory);
        self.state.lock().insert(block);
    }

    /// Predicts the result of an allocation. If `trimmed`, all empty blocks count as freed.
    pub fn forecast(&self, request: Request<'_>, trimmed: bool, bytes_min: u64) -> Forecast {
        let of_range = |request| self.forecast_range(request, trimmed, bytes_min);
        let Some(class) = self.slot_class(&request, false) else { return of_range(request) };
        if let Some(offset) = self.slots.peek(class) {
            return Forecast::InBlock { offset, bytes: class.bytes };
        }
        let chunk = chunk_request(class, self.slots.next_count(class) * class.bytes);
        match of_range(chunk) {
            Forecast::InBlock { offset, .. } => Forecast::InBlock { offset, bytes: class.bytes },
            Forecast::NewBlock { sizes, .. } => Forecast::NewBlock { sizes, bytes: class.bytes },
            other => other,
        }
    }

    fn forecast_range(&self, request: Request<'_>, trimmed: bool, bytes_min: u64) -> Forecast {
        let state = self.state.lock();
        let Request { size, alignment, high, .. } = request;
        let found = state.blocks.peek_by(size, |ranges| match trimmed && ranges.is_empty() {
            true => None,
            false if high => ranges.peek_high(size, alignment),
            false => ranges.peek(size, alignment),
        });
        if let Some((_, offset)) = found {
            return Forecast::InBlock { offset, bytes: request.size };
        }
        let gone = if trimmed { (state.blocks.empty_count(), state.empty_bytes()) } else { (0, 0) };
        let left = (state.blocks.block_count() - gone.0, state.counts.block_bytes - gone.1);
        let sizes = self.next_sizes(left, &request, bytes_min);
        if sizes.is_empty() { Forecast::Full } else { Forecast::NewBlock { sizes, bytes: request.size } }
    }

    /// Frees a range. The caller must have dropped its references to the block's memory. If empty blocks have no grace
    /// and more of them exist than are kept, takes an empty block out and returns its memory: the caller frees it. No
    /// block is taken out that is needed for announced bytes.
    #[must_use]
    pub fn free(&self, allocation: BlockAllocation) -> Option<Memory<D>> {
        let BlocksDesc { destroy_threshold, grace_ticks, .. } = self.desc.blocks;
        let mut state = self.state.lock();
        state.free(allocation);
        self.count_freed();
        if grace_ticks != 0 || state.blocks.empty_count() <= destroy_threshold || state.keeps_empty(self.desc.sizes.max)
        {
            return None;
        }
        let (_, block) = state.blocks.take_empty()?;
        Some(state.count_removed(block))
    }

    /// Frees a chunk to its block. The block stays even if it is now empty: callers look for empty blocks later.
    fn free_chunk(&self, Chunk { allocation, .. }: Chunk<BlockMemory<D>>) {
        let mut state = self.state.lock();
        state.free(allocation);
        self.count_freed();
    }

    /// Adds dedicated memory, and returns its number.
    pub fn add_dedicated(&self, block: u64, request: &Request<'_>) -> u64 {
        let mut state = self.state.lock();
        state.dedicated_made += 1;
        let number = state.dedicated_made;
        let info = RangeInfo::of(request).unwrap_or_default();
        state.dedicated.insert(number, Dedicated { block, size: request.size, info });
        state.counts.dedicated_count += 1;
        state.counts.dedicated_bytes += request.size;
        number
    }

    /// Removes the record of dedicated memory.
    pub fn remove_dedicated(&self, number: u64) {
        let mut state = self.state.lock();
        if let Some(Dedicated { size, .. }) = state.dedicated.remove(&number) {
            state.counts.dedicated_count -= 1;
            state.counts.dedicated_bytes -= size;
        }
    }

    /// Changes the record of a range. Adds a record if the range has none.
    pub fn change_info(&self, allocation: &BlockAllocation, change: &dyn Fn(&mut RangeInfo)) {
        if let Some(block) = self.state.lock().blocks.heap_mut(allocation.block()) {
            change(block.infos.entry(allocation.range().slot()).or_default());
        }
    }

    /// Changes the record of a slot; adds it if the slot has none. Freeing the slot must then remove the record.
    pub fn change_slot_info(&self, class: u32, slot: &PoolAllocation, change: &dyn Fn(&mut RangeInfo)) {
        change(self.slot_infos.lock().entry(key_of(class, slot)).or_default());
    }

    /// Frees a slot, bypassing the thread caches.
    pub fn free_slot(&self, class: u32, named: bool, slot: PoolAllocation) {
        if named {
            self.slot_infos.lock().remove(&key_of(class, &slot));
        }
        self.slots.free(class, slot);
    }

    /// Changes the record of dedicated memory.
    pub fn change_dedicated_info(&self, number: u64, change: &dyn Fn(&mut RangeInfo)) {
        if let Some(Dedicated { info, .. }) = self.state.lock().dedicated.get_mut(&number) {
            change(info);
        }
    }

    /// Returns the statistics of the arena.
    pub fn statistics(&self) -> TypeStatistics {
        let mut counts =
            self.state.look(|state| TypeStatistics { range_bytes_high_water: state.high_water(), ..state.counts });
        let slots = self.slots.counts();
        counts.range_count = (counts.range_count + slots.live_count).saturating_sub(slots.chunk_count);
        counts.range_bytes = (counts.range_bytes + slots.live_bytes).saturating_sub(slots.chunk_bytes);
        counts
    }

    /// Appends the blocks and dedicated memory to a snapshot. `is_free` returns `true` for memory of recycled objects,
    /// which is shown as free.
    pub fn snapshot(&self, pool: &str, is_free: &dyn Fn(Recycled) -> bool, into: &mut Vec<BlockSnapshot>) {
        let mut chunks = HashMap::new();
        let infos = self.slot_infos.lock();
        self.slots.for_each_chunk(|chunk, live| {
            let info_of = |slot: &Live| infos.get(&(slot.class, slot.pool, slot.block));
            let ranges = live.iter().map(|slot| range_snapshot(slot.offset, slot.bytes, info_of(slot)));
            chunks.insert((chunk.block(), chunk.range().slot()), ranges.collect::<Vec<_>>());
        });
        drop(infos);
        let state = self.state.lock();
        let snapshot = |number: u64, dedicated: bool, bytes: u64, ranges: Vec<RangeSnapshot>| BlockSnapshot {
            number,
            memory_type: self.desc.memory_type,
            class: self.desc.class_name().to_owned(),
            pool: pool.to_owned(),
            dedicated,
            bytes,
            ranges,
        };
        for (id, block, ranges) in state.blocks.iter() {
            let mut held = Vec::with_capacity(ranges.live_count());
            ranges.for_each_span(&mut |span| {
                let Some(slot) = span.slot else { return };
                match (chunks.remove(&(id, slot)), ranges.taken(slot, span.size)) {
                    (Some(slots), _) => held.extend(slots),
                    (None, 0) => {} // freed, and not free space yet
                    (None, size) => held.push(range_snapshot(span.offset, size, block.infos.get(&slot))),
                }
            });
            held.retain(|range| !is_free(Recycled::Range { block: block.memory.block, offset: range.offset }));
            into.push(snapshot(block.memory.block, false, block.memory.size, held));
        }
        let mut dedicated: Vec<_> = state.dedicated.iter().collect();
        dedicated.sort_by_key(|(number, _)| **number);
        into.extend(dedicated.into_iter().map(|(number, Dedicated { block, size, info })| {
            let is_used = !is_free(Recycled::Dedicated { number: *number });
            let range = is_used.then(|| range_snapshot(0, *size, Some(info)));
            snapshot(*block, is_used, *size, range.into_iter().collect())
        }));
    }

    /// Checks the blocks and the counts against each other.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.slots.validate()?;
        let state = self.state.lock();
        state.blocks.validate()?;
        let (counts, rule) = (&state.counts, Invalid::unless);
        let (mut bytes, mut used, mut count) = (0, 0, 0);
        for (_, block, ranges) in state.blocks.iter() {
            let movable = block.infos.values().filter(|info| info.ticket.is_some()).count();
            rule(block.movable_count == movable, "movable_count counts the tickets", movable as u64)?;
            bytes += block.memory.size;
            ranges.for_each_span(&mut |span| used += span.slot.map_or(0, |slot| ranges.taken(slot, span.size)));
            count += ranges.live_count() as u64;
        }
        rule(counts.block_bytes == bytes, "block_bytes is the sum of the blocks", bytes)?;
        rule(counts.range_bytes == used, "range_bytes is the sum of the used spans", used)?;
        rule(counts.range_count == count, "range_count counts the live ranges", count)?;
        rule(counts.block_count == state.blocks.block_count() as u64, "block_count counts the blocks", bytes)
    }
}

fn key_of(class: u32, slot: &PoolAllocation) -> (u32, u32, u32) {
    (class, slot.pool(), slot.block())
}

fn chunk_request(class: Class, bytes: u64) -> Request<'static> {
    Request { size: bytes, alignment: class.alignment(), ..Default::default() }
}

impl<D: Device, A: Cutter> State<D, A> {
    fn allocate(&mut self, request: Request<'_>) -> Option<InBlock<D>> {
        let Request { size, alignment, high, .. } = request;
        let allocation = match high {
            false => self.blocks.try_allocate(size, alignment).ok(),
            true => self.blocks.try_allocate_by(size, |ranges| ranges.allocate_high(size, alignment)),
        }?;
        Some(self.count_in(allocation, request))
    }

    /// Returns the high-water mark of `range_bytes`.
    fn high_water(&self) -> u64 {
        self.counts.range_bytes_high_water.max(self.used_bytes_max)
    }

    fn insert(&mut self, NewBlock { memory, ranges, tick }: NewBlock<D, A>) -> BlockId {
        let size = memory.size;
        self.counts.block_count += 1;
        self.counts.block_bytes += size;
        self.counts.block_bytes_high_water = self.counts.block_bytes_high_water.max(self.counts.block_bytes);
        self.update_ahead();
        self.empty_limits.created(size, tick, self.blocks.desc().grace_ticks);
        let block = Block { memory: Arc::new(memory), infos: HashMap::new(), movable_count: 0 };
        self.blocks.insert(block, ranges)
    }

    fn count_in(&mut self, allocation: BlockAllocation, request: Request<'_>) -> InBlock<D> {
        let (block, ranges) = self.blocks.get_mut(allocation.block()).expect("the block of an allocation exists");
        self.counts.range_count += 1;
        self.counts.range_bytes += ranges.taken(allocation.range().slot(), allocation.size());
        self.used_bytes_max = self.used_bytes_max.max(self.counts.range_bytes);
        self.announced = self.announced.saturating_sub(allocation.size());
        let mut ticket = None;
        if !request.evictable {
            block.memory.pin();
        }
        if let Some(mut info) = RangeInfo::of(&request) {
            if request.moves != Moves::Never {
                ticket = Some(Arc::new(Ticket::new(allocation, request.alignment, request.user_data, request.moves)));
                info.ticket.clone_from(&ticket);
                block.movable_count += 1;
            }
            block.infos.insert(allocation.range().slot(), info);
        }
        // SAFETY: a range is live in the block as long as copies of this reference are used.
        InBlock { memory: unsafe { BlockMemory::new(&block.memory) }, allocation, ticket }
    }

    fn free(&mut self, allocation: BlockAllocation) {
        let slot = allocation.range().slot();
        if let Some((block, ranges)) = self.blocks.get_mut(allocation.block()) {
            self.counts.range_bytes -= ranges.taken(slot, allocation.size());
            let info = if block.infos.is_empty() { None } else { block.infos.remove(&slot) };
            if info.as_ref().is_none_or(|info| !info.evictable) {
                block.memory.unpin();
            }
            block.movable_count -= usize::from(info.is_some_and(|info| info.ticket.is_some()));
        }
        // The owner is move-only, so its range is live: a failure is a defect of this library.
        self.blocks.free(&allocation).expect("a resource's range is live until it is freed");
        self.counts.range_count -= 1;
    }

    /// Returns `true` if free bytes are below the low-water mark. An arena without blocks is never low.
    fn is_low(&self) -> bool {
        self.counts.block_bytes - self.counts.range_bytes < self.low_below
    }

    /// Updates the size of the next block and the low-water mark.
    fn update_ahead(&mut self) {
        self.size_ahead = self.sizes.present(self.counts.block_bytes).max(self.announced_block);
        let may_grow = (1..self.block_count_max as u64).contains(&self.counts.block_count);
        self.low_below = if may_grow { self.low_water.mark(self.size_ahead) } else { 0 };
    }

    /// Counts a block that was taken out, and returns its memory.
    fn count_removed(&mut self, block: Block<D>) -> Memory<D> {
        self.counts.block_count -= 1;
        self.counts.block_bytes -= block.memory.size;
        self.update_ahead();
        Arc::into_inner(block.memory).expect("the memory is dropped before its last range is freed")
    }
}
