//! The blocks of one memory type and one resource class.
//!
//! ```text
//!   cells: pools for common small sizes            no lock
//!     │ none left: a chunk
//!     ▼
//!   state (one short lock)                         growth (held while the driver makes a block)
//!   ├ blocks: Blocks<Tlsf, Block>                   taken only by who found every block full,
//!   ├ dedicated: name and size of each              so that whoever fits never waits for the driver
//!   └ counts and high-water marks
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | allocate a cell | O(1), no lock |
//! | allocate in a block at hand | O(log blocks), one short lock, no driver call |
//! | allocate that needs a block | driver calls, outside the lock of the state |
//! | free | as allocate at hand |

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use ringfence_core::algorithm::{Algorithm, AnyAllocator};
use ringfence_core::blocks::{BlockAllocation, BlockId, Blocks, BlocksDesc};
use ringfence_core::pool_chain::PoolAllocation;
use ringfence_core::range::{Allocate, Invalid, Peek, Range, RangeAllocator};
use ringfence_core::tlsf::Tlsf;
use smallvec::SmallVec;

use super::block_memory::BlockMemory;
use super::block_sizes::BlockSizes;
use super::cells::{Cells, Chunk, Class};
use super::ladder::{Attempt, Refusal, Terms};
use super::low_water::LowWater;
use super::place::{Hold, Memory};
use super::plan::Forecast;
use super::shared::Shared;
use super::snapshot::class_name;
use super::{BlockSnapshot, Location, RangeSnapshot, TypeStatistics};
use crate::defrag::Ticket;
use crate::device::sharing::ShareKind;
use crate::device::{Device, MemoryDesc, Priority, ResourceClass};
use crate::resource::AllocationDesc;
use crate::telling::Lock;

mod compact;

pub(crate) use compact::{BlockFacts, Compact, Destinations, Reserved};

/// A block: memory that ranges share, and what is noted of those that have a name or user data.
struct Block<D: Device> {
    memory: Arc<Memory<D>>,
    /// By the range's slot.
    notes: HashMap<u32, Note>,
    /// How many of the notes have a ticket.
    movable_count: usize,
}

/// What is noted of a range.
#[derive(Clone, Default, Debug)]
pub(crate) struct Note {
    pub(crate) name: Box<str>,
    pub(crate) user_data: u64,
    evictable: bool,
    /// There iff the range may be moved.
    ticket: Option<Arc<Ticket>>,
}

impl Note {
    /// `None` if there is nothing to note.
    pub(super) fn of(request: &Request<'_>) -> Option<Self> {
        let Request { name, user_data, moves, evictable, .. } = *request;
        let is_noted = !name.is_empty() || user_data != 0 || moves != Moves::Never || evictable;
        is_noted.then(|| Self { name: name.into(), user_data, evictable, ticket: None })
    }
}

/// Whether a range may be moved by a [`Defrag`](crate::defrag::Defrag).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Moves {
    #[default]
    Never,
    /// It is for the device alone.
    Device,
    /// The host reads or writes it too.
    Host,
}

/// A request as an arena sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) size: u64,
    pub(crate) alignment: u64,
    /// From the high end, where the algorithm has one.
    pub(crate) high: bool,
    pub(crate) moves: Moves,
    /// Whether its use is declared, so that its block may be evicted.
    pub(crate) evictable: bool,
    pub(crate) name: &'a str,
    pub(crate) user_data: u64,
}

impl<'a> Request<'a> {
    /// For bytes of this size and alignment, described so.
    pub(super) fn of(desc: &AllocationDesc<'a>, size: u64, alignment: u64) -> Self {
        let AllocationDesc { name, user_data, evictable, .. } = *desc;
        let moves = match (desc.movable, desc.location) {
            (false, _) => Moves::Never,
            (true, Location::Device) => Moves::Device,
            (true, _) => Moves::Host,
        };
        Self { size, alignment, high: false, moves, evictable, name, user_data }
    }
}

/// How an arena cuts its blocks.
pub(crate) trait Cutter: RangeAllocator + Peek {
    fn cut(algorithm: Algorithm, bytes: u64) -> Self;

    /// From the high end, where there is one.
    fn allocate_high(&mut self, size: u64, alignment: u64) -> Option<Range>;

    /// From below a limit, where the algorithm can.
    fn allocate_below(&mut self, size: u64, alignment: u64, limit: u64) -> Option<Range>;

    /// Whether an empty block of so many bytes would grant a request.
    fn would_hold(algorithm: Algorithm, bytes: u64, size: u64, alignment: u64) -> bool;
}

impl Cutter for Tlsf {
    fn cut(_: Algorithm, bytes: u64) -> Self {
        // Statistics add up the sizes of ranges.
        Self::exact(bytes)
    }

    fn allocate_high(&mut self, size: u64, alignment: u64) -> Option<Range> {
        self.allocate(size, alignment).ok()
    }

    fn allocate_below(&mut self, size: u64, alignment: u64, limit: u64) -> Option<Range> {
        Tlsf::allocate_below(self, size, alignment, limit)
    }

    fn would_hold(_: Algorithm, bytes: u64, size: u64, _alignment: u64) -> bool {
        bytes >= size
    }
}

impl Cutter for AnyAllocator {
    fn cut(algorithm: Algorithm, bytes: u64) -> Self {
        match algorithm {
            Algorithm::Tlsf => Self::Tlsf(Tlsf::cut(algorithm, bytes)),
            _ => Self::new(algorithm, bytes),
        }
    }

    fn allocate_high(&mut self, size: u64, alignment: u64) -> Option<Range> {
        AnyAllocator::allocate_high(self, size, alignment).ok()
    }

    fn allocate_below(&mut self, size: u64, alignment: u64, limit: u64) -> Option<Range> {
        let Self::Tlsf(tlsf) = self else { return None };
        tlsf.allocate_below(size, alignment, limit)
    }

    fn would_hold(algorithm: Algorithm, bytes: u64, size: u64, alignment: u64) -> bool {
        Self::cut(algorithm, bytes).peek(size, alignment).is_some()
    }
}

/// What an arena is made as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArenaDesc {
    pub(crate) memory_type: u32,
    pub(crate) heap: u32,
    /// What its blocks are made for.
    pub(crate) class: ResourceClass,
    /// Classes that share its blocks: those whose number is that of its class.
    pub(crate) groups: [u8; 3],
    pub(crate) sizes: BlockSizes,
    pub(crate) blocks: BlocksDesc,
    pub(crate) block_count_max: usize,
    pub(crate) algorithm: Algorithm,
    /// The least alignment in bytes of its blocks.
    pub(crate) block_alignment: u64,
    pub(crate) priority: Priority,
    /// Whether common small sizes get pools.
    pub(crate) has_cells: bool,
    /// Whether blocks may be made before they are needed.
    pub(crate) grows_ahead: bool,
    /// What handles to its blocks are.
    pub(crate) share: Option<ShareKind>,
}

impl ArenaDesc {
    /// Whether resources of a class may lie in its blocks.
    pub(crate) fn holds(&self, class: ResourceClass) -> bool {
        self.groups[class as usize] == self.groups[self.class as usize]
    }

    /// What lies in its blocks, for people.
    pub(super) fn class_name(&self) -> &'static str {
        class_name(self.groups, self.class)
    }
}

/// Blocks of one memory type and class. See the [module](self).
pub(crate) struct Arena<D: Device, A = Tlsf> {
    pub(crate) desc: ArenaDesc,
    pub(super) cells: Cells<D>,
    state: Mutex<State<D, A>>,
    growth: Lock<()>,
    /// Held by who makes a chunk for cells; taken before the one of growth.
    chunks: Lock<()>,
    /// Set when free bytes fall below the low-water mark, until somebody has seen to it.
    wants_block: AtomicBool,
}

struct State<D: Device, A> {
    blocks: Blocks<A, Block<D>>,
    dedicated: HashMap<u64, (u64, Note)>,
    dedicated_made: u64,
    counts: TypeStatistics,
    low_water: LowWater,
    /// What was in use when less became free than the mark, or when a block was made ahead since.
    ordered_at_bytes: u64,
    /// Bytes that the program has announced and not asked for yet: empty blocks for them stay.
    announced: u64,
    /// The largest block that was made for announced bytes: a program that begins so does not go on in steps of 4 MiB.
    announced_block: u64,
}

/// A block that is about to be put with the others.
struct NewBlock<D: Device, A> {
    memory: Memory<D>,
    ranges: A,
}

/// A range in a block.
struct InBlock<D: Device> {
    memory: BlockMemory<D>,
    allocation: BlockAllocation,
    ticket: Option<Arc<Ticket>>,
}

impl<D: Device> InBlock<D> {
    /// Its offset, and the right to it.
    #[inline]
    fn held(self) -> (u64, Hold<D>) {
        let Self { memory, allocation, ticket } = self;
        (allocation.offset(), Hold::Range { memory, allocation, ticket })
    }
}

impl<D: Device, A: Cutter> Arena<D, A> {
    pub(crate) fn new(desc: ArenaDesc) -> Self {
        let state = State {
            blocks: Blocks::new(desc.blocks),
            dedicated: HashMap::new(),
            dedicated_made: 0,
            counts: TypeStatistics::default(),
            low_water: LowWater::default(),
            ordered_at_bytes: 0,
            announced: 0,
            announced_block: 0,
        };
        Self {
            desc,
            cells: Cells::new(),
            state: Mutex::new(state),
            growth: Lock::new(()),
            chunks: Lock::new(()),
            wants_block: AtomicBool::new(false),
        }
    }

    /// Whether a request is small enough to share a block with others.
    pub(crate) fn shares(&self, size: u64) -> bool {
        size <= self.desc.sizes.max / 2
    }

    /// A place in a block at hand, or in a new one; and its offset.
    pub(super) fn allocate(
        &self,
        shared: &Shared<D>,
        request: Request<'_>,
        terms: Terms,
        attempt: &mut Attempt,
    ) -> Result<(u64, Hold<D>), Refusal> {
        if let Some(found) = self.allocate_cell(shared, request, terms, attempt) {
            return Ok(found);
        }
        self.allocate_range(shared, request, terms, attempt).map(InBlock::held)
    }

    /// As [`Self::allocate`], without a driver's call and without a wait for one. What may yet become cells is counted by
    /// [`Self::allocate`]: it has none at hand here.
    #[inline]
    pub(super) fn allocate_at_hand(&self, shared: &Shared<D>, request: Request<'_>) -> Option<(u64, Hold<D>)> {
        if self.desc.has_cells && Class::of(request.size, request.alignment).is_some() {
            let class = self.cell_class(&request, false)?;
            return Some(self.held(class, self.cells.allocate(class)?, &request));
        }
        self.range_at_hand(shared, request).map(InBlock::held)
    }

    /// A cell, if the request's class has pools; `None` if it has not, or there is no room for another one.
    fn allocate_cell(
        &self,
        shared: &Shared<D>,
        request: Request<'_>,
        terms: Terms,
        attempt: &mut Attempt,
    ) -> Option<(u64, Hold<D>)> {
        let class = self.cell_class(&request, true)?;
        let cell = self.cells.allocate(class).or_else(|| {
            // Whoever needs a chunk waits for whoever makes one: it will do for both. But not for whoever makes a block.
            let _making = self.chunks.lock();
            let found = self.cells.allocate_thorough(class);
            let found = found.or_else(|| self.grow_cells(class, |request| self.range_at_hand(shared, request)));
            let found = found.or_else(|| self.cells.allocate_recalled(class));
            found
                .or_else(|| self.grow_cells(class, |request| self.allocate_range(shared, request, terms, attempt).ok()))
        })?;
        Some(self.held(class, cell, &request))
    }

    fn held(&self, class: Class, cell: PoolAllocation, request: &Request<'_>) -> (u64, Hold<D>) {
        let named = self.cells.note(class.index, &cell, request);
        let offset = self.cells.offset(class.index, &cell);
        (offset, Hold::Cell { class: class.index, named, allocation: cell })
    }

    fn cell_class(&self, request: &Request<'_>, count: bool) -> Option<Class> {
        // A cell stays where its pool is, and with what else is there.
        if !self.desc.has_cells || request.moves != Moves::Never || request.evictable {
            return None;
        }
        let class = Class::of(request.size, request.alignment)?;
        self.cells.is_common(class, count).then_some(class)
    }

    /// Makes a chunk of what `find` gives. The lock for chunks is held.
    fn grow_cells(&self, class: Class, find: impl FnOnce(Request<'_>) -> Option<InBlock<D>>) -> Option<PoolAllocation> {
        let made = self.cells.grow(class, self.cells.next_count(class), |bytes| {
            let found = find(chunk_request(class, bytes)).ok_or(())?;
            Ok::<_, ()>(Chunk { memory: found.memory, allocation: found.allocation })
        });
        made?.ok()
    }

    fn allocate_range(
        &self,
        shared: &Shared<D>,
        request: Request<'_>,
        terms: Terms,
        attempt: &mut Attempt,
    ) -> Result<InBlock<D>, Refusal> {
        if let Some(found) = self.range_at_hand(shared, request) {
            return Ok(found);
        }
        self.note_wait(shared, terms);
        let _growing = self.growth.lock();
        let at_hand = self.range_at_hand(shared, request);
        at_hand.map_or_else(|| self.grow(shared, request, terms, attempt), Ok)
    }

    /// A range of a block at hand.
    fn range_at_hand(&self, shared: &Shared<D>, request: Request<'_>) -> Option<InBlock<D>> {
        let mut state = self.state.lock();
        let found = state.allocate(request);
        self.note_low_water(shared, &mut state);
        found
    }

    /// Makes a block for a request and allocates there. The growth lock is held.
    fn grow(
        &self,
        shared: &Shared<D>,
        request: Request<'_>,
        terms: Terms,
        attempt: &mut Attempt,
    ) -> Result<InBlock<D>, Refusal> {
        let count = self.state.lock().blocks.block_count();
        let sizes = self.next_sizes(count, &request);
        if sizes.is_empty() {
            return Err(Refusal::PoolFull);
        }
        let memory = shared.make_block(sizes.into_iter(), &self.desc, terms, attempt, |size| {
            self.block_desc(size, request.alignment)
        })?;
        let block = self.new_block(memory);
        let mut state = self.state.lock();
        let found = state.insert_and_allocate(block, request);
        self.note_low_water(shared, &mut state);
        Ok(found)
    }

    /// Made without the lock of the state, as it takes host memory.
    fn new_block(&self, memory: Memory<D>) -> NewBlock<D, A> {
        NewBlock { ranges: A::cut(self.desc.algorithm, memory.size), memory }
    }

    /// What to ask for when `count` blocks are held; nothing if there may be no more, or none that would do.
    fn next_sizes(&self, count: usize, request: &Request<'_>) -> SmallVec<[u64; 4]> {
        let ArenaDesc { sizes, block_count_max, algorithm, .. } = self.desc;
        let is_fixed = sizes.halvings == 0;
        if count >= block_count_max || (is_fixed && request.size > sizes.max) {
            return SmallVec::new();
        }
        let would_hold = |bytes: &u64| A::would_hold(algorithm, *bytes, request.size, request.alignment);
        sizes.tries(count, request.size).filter(would_hold).collect()
    }

    fn block_desc(&self, size: u64, alignment: u64) -> MemoryDesc<'static> {
        let ArenaDesc { memory_type, class, block_alignment, priority, share, .. } = self.desc;
        let alignment = alignment.max(block_alignment);
        MemoryDesc { memory_type, size, alignment, class, priority, name: "", share }
    }

    /// Wakes whoever makes blocks ahead, if little is left.
    fn note_low_water(&self, shared: &Shared<D>, state: &mut State<D, A>) {
        if self.desc.grows_ahead && self.is_low(state) && !self.wants_block.swap(true, Ordering::Relaxed) {
            state.ordered_at_bytes = state.counts.range_bytes;
            shared.growth.wake();
        }
    }

    /// An allocation is about to wait for a block: whoever makes them ahead is to begin earlier.
    fn note_wait(&self, shared: &Shared<D>, terms: Terms) {
        if terms.may_grow && self.desc.grows_ahead && shared.growth.is_served() {
            let mut state = self.state.lock();
            if state.blocks.block_count() != 0 {
                let block = self.size_ahead(&state);
                state.low_water.missed(block);
            }
        }
    }

    /// Whether less is free than the low-water mark. An arena that was never used wants nothing.
    fn is_low(&self, state: &State<D, A>) -> bool {
        let count = state.blocks.block_count();
        let free = state.counts.block_bytes - state.counts.range_bytes;
        let mark = || state.low_water.mark(self.size_ahead(state));
        count != 0 && count < self.desc.block_count_max && free < mark()
    }

    /// How large the next block is that is made before it is needed.
    fn size_ahead(&self, state: &State<D, A>) -> u64 {
        self.desc.sizes.present(state.blocks.block_count()).max(state.announced_block)
    }

    /// Makes blocks until as much is free as the mark wants, within the budget; says how many. Nobody waits for them: an
    /// allocation that finds no room meanwhile waits no longer than if it had to ask itself.
    pub(super) fn grow_ahead(&self, shared: &Shared<D>) -> usize {
        if !self.wants_block.load(Ordering::Relaxed) {
            return 0;
        }
        std::iter::repeat_with(|| self.make_ahead(shared)).take_while(|made| *made).count()
    }

    /// Makes the next block if little is left.
    fn make_ahead(&self, shared: &Shared<D>) -> bool {
        let _growing = self.growth.lock();
        let (is_low, size) = {
            let state = self.state.lock();
            let is_low = self.is_low(&state);
            // Under the lock under which it is set: an order that comes now is not lost.
            self.wants_block.store(is_low, Ordering::Relaxed);
            (is_low, self.size_ahead(&state))
        };
        if !is_low {
            return false;
        }
        let sizes = std::iter::once(size);
        let terms = Terms { within_budget: true, may_grow: true, may_trim: false };
        let made =
            shared.make_block(sizes, &self.desc, terms, &mut Attempt::default(), |size| self.block_desc(size, 1));
        let Ok(memory) = made else {
            // The next allocation orders it again.
            self.wants_block.store(false, Ordering::Relaxed);
            return false;
        };
        let block = self.new_block(memory);
        let mut state = self.state.lock();
        let now = state.counts.range_bytes;
        let used = now.saturating_sub(std::mem::replace(&mut state.ordered_at_bytes, now));
        state.low_water.made(used);
        state.insert(block);
        true
    }

    /// Makes blocks until so many bytes more than were announced before lie in empty ones, and says how many bytes those
    /// blocks have. They stay until as much was allocated.
    pub(super) fn announce(
        &self,
        shared: &Shared<D>,
        bytes: u64,
        terms: Terms,
        attempt: &mut Attempt,
    ) -> Result<u64, Refusal> {
        let _growing = self.growth.lock();
        let (missing, count) = {
            let state = self.state.lock();
            let wanted = state.announced.saturating_add(bytes);
            (wanted.saturating_sub(state.empty_bytes()), state.blocks.block_count())
        };
        let (mut blocks, mut made) = (Vec::new(), 0);
        while made < missing {
            let sizes = self.desc.sizes.to_hold(count + blocks.len(), missing - made);
            match shared.make_block(sizes, &self.desc, terms, attempt, |size| self.block_desc(size, 1)) {
                Ok(memory) => {
                    made += memory.size;
                    blocks.push(self.new_block(memory));
                }
                Err(refusal) => {
                    blocks.into_iter().for_each(|block| shared.free_memory(block.memory));
                    return Err(refusal);
                }
            }
        }
        let mut state = self.state.lock();
        for block in blocks {
            state.announced_block = state.announced_block.max(block.memory.size);
            state.insert(block);
        }
        state.announced = state.announced.saturating_add(bytes);
        Ok(made)
    }

    /// Makes blocks until there are `count`, for a pool that is to have them from the start.
    pub(super) fn preallocate(&self, shared: &Shared<D>, count: usize) -> Result<(), Refusal> {
        let _growing = self.growth.lock();
        while self.state.lock().blocks.block_count() < count {
            let sizes = std::iter::once(self.desc.sizes.max);
            let terms = Terms { within_budget: false, may_grow: true, may_trim: true };
            let made = shared
                .make_block(sizes, &self.desc, terms, &mut Attempt::default(), |size| self.block_desc(size, 1))?;
            let block = self.new_block(made);
            self.state.lock().insert(block);
        }
        Ok(())
    }

    /// What [`Self::allocate`] would do now, or (if `trimmed`) with its empty blocks given back.
    pub(super) fn forecast(&self, request: Request<'_>, trimmed: bool) -> Forecast {
        let Some(class) = self.cell_class(&request, false) else { return self.forecast_range(request, trimmed) };
        if let Some(offset) = self.cells.peek(class) {
            return Forecast::InBlock { offset, bytes: class.bytes };
        }
        let chunk = chunk_request(class, self.cells.next_count(class) * class.bytes);
        match self.forecast_range(chunk, trimmed) {
            Forecast::InBlock { offset, .. } => Forecast::InBlock { offset, bytes: class.bytes },
            Forecast::NewBlock { sizes, .. } => Forecast::NewBlock { sizes, bytes: class.bytes },
            other => other,
        }
    }

    fn forecast_range(&self, request: Request<'_>, trimmed: bool) -> Forecast {
        let state = self.state.lock();
        let Request { size, alignment, .. } = request;
        let found = match trimmed {
            false => state.blocks.peek(size, alignment),
            true => state.blocks.peek_beside_live(size, alignment),
        };
        if let Some((_, offset)) = found {
            return Forecast::InBlock { offset, bytes: request.size };
        }
        let gone = if trimmed { state.blocks.empty_count() } else { 0 };
        let count = state.blocks.block_count() - gone;
        let sizes = self.next_sizes(count, &request);
        if sizes.is_empty() { Forecast::Full } else { Forecast::NewBlock { sizes, bytes: request.size } }
    }

    /// Gives a range back. Its block's memory must not be held by the caller any more. If empty blocks have no grace, and
    /// there is one too many now, it is taken out to be freed.
    #[must_use]
    pub(crate) fn free(&self, allocation: BlockAllocation) -> Option<Memory<D>> {
        let BlocksDesc { destroy_threshold, grace_ticks, .. } = self.desc.blocks;
        let mut state = self.state.lock();
        state.free(allocation);
        if grace_ticks != 0 || state.blocks.empty_count() <= destroy_threshold || state.keeps_empty(self.desc.sizes.max)
        {
            return None;
        }
        let (_, block) = state.blocks.take_empty()?;
        Some(state.taken_out(block))
    }

    /// An empty block stays for whoever closes chunks to find.
    fn free_chunk(&self, Chunk { allocation, .. }: Chunk<D>) {
        self.state.lock().free(allocation);
    }

    /// Notes memory of a resource's own; the number finds it again.
    pub(crate) fn add_dedicated(&self, request: &Request<'_>) -> u64 {
        let mut state = self.state.lock();
        state.dedicated_made += 1;
        let number = state.dedicated_made;
        state.dedicated.insert(number, (request.size, Note::of(request).unwrap_or_default()));
        state.counts.dedicated_count += 1;
        state.counts.dedicated_bytes += request.size;
        number
    }

    /// Forgets memory of a resource's own.
    pub(crate) fn remove_dedicated(&self, number: u64) {
        let mut state = self.state.lock();
        if let Some((size, _)) = state.dedicated.remove(&number) {
            state.counts.dedicated_count -= 1;
            state.counts.dedicated_bytes -= size;
        }
    }

    /// Another name for a range. What else is noted of it stays.
    pub(super) fn rename(&self, allocation: &BlockAllocation, name: &str) {
        if let Some(block) = self.state.lock().blocks.heap_mut(allocation.block()) {
            block.notes.entry(allocation.range().slot()).or_default().name = name.into();
        }
    }

    /// Another name for memory of a resource's own.
    pub(super) fn rename_dedicated(&self, number: u64, name: &str) {
        if let Some((_, note)) = self.state.lock().dedicated.get_mut(&number) {
            note.name = name.into();
        }
    }

    /// An empty block that has been so for long enough, taken out to be freed. Those that the program has announced use
    /// for stay, and the time that they wait is no part of their grace.
    pub(crate) fn take_surplus(&self, tick: u64) -> Option<Memory<D>> {
        while let Some(chunk) = self.cells.take_surplus(tick, self.desc.blocks.grace_ticks) {
            self.free_chunk(chunk);
        }
        let mut state = self.state.lock();
        if state.keeps_empty(self.desc.sizes.max) {
            return None;
        }
        let (_, block) = state.blocks.take_surplus(tick)?;
        state.low_water.idle();
        state.announced_block = 0;
        Some(state.taken_out(block))
    }

    /// Gives chunks without a live cell back to their blocks: no driver call.
    pub(super) fn free_empty_chunks(&self) {
        while let Some(chunk) = self.cells.take_empty() {
            self.free_chunk(chunk);
        }
    }

    /// An empty block, however short it has been so, taken out to be freed. What was announced is void then.
    pub(crate) fn take_empty(&self) -> Option<Memory<D>> {
        self.free_empty_chunks();
        let mut state = self.state.lock();
        let (_, block) = state.blocks.take_empty()?;
        (state.announced, state.announced_block) = (0, 0);
        Some(state.taken_out(block))
    }

    /// Bytes of blocks in which nothing lives.
    pub(crate) fn empty_bytes(&self) -> u64 {
        self.free_empty_chunks();
        self.state.lock().empty_bytes()
    }

    pub(crate) fn statistics(&self) -> TypeStatistics {
        let mut counts = self.state.lock().counts;
        let cells = self.cells.counts();
        counts.range_count = (counts.range_count + cells.live_count).saturating_sub(cells.chunk_count);
        counts.range_bytes = (counts.range_bytes + cells.live_bytes).saturating_sub(cells.chunk_bytes);
        counts
    }

    pub(crate) fn snapshot(&self, pool: &str, into: &mut Vec<BlockSnapshot>) {
        let mut chunks = HashMap::new();
        self.cells.snapshot(&mut chunks);
        let state = self.state.lock();
        let snapshot = |dedicated: bool, bytes: u64, ranges: Vec<RangeSnapshot>| BlockSnapshot {
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
                match chunks.remove(&(id, slot)) {
                    Some(cells) => held.extend(cells),
                    None => held.push(RangeSnapshot::new(span.offset, span.size, block.notes.get(&slot))),
                }
            });
            into.push(snapshot(false, block.memory.size, held));
        }
        let mut dedicated: Vec<_> = state.dedicated.iter().collect();
        dedicated.sort_by_key(|(number, _)| **number);
        into.extend(
            dedicated
                .into_iter()
                .map(|(_, (size, note))| snapshot(true, *size, vec![RangeSnapshot::new(0, *size, Some(note))])),
        );
    }

    /// Checks the blocks and the counts against each other.
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        self.cells.validate()?;
        let state = self.state.lock();
        state.blocks.validate()?;
        let (mut bytes, mut used, mut count) = (0, 0, 0);
        for (_, block, ranges) in state.blocks.iter() {
            bytes += block.memory.size;
            used += ranges.capacity() - ranges.free_size();
            count += ranges.live_count() as u64;
        }
        let counts = &state.counts;
        let rule = Invalid::unless;
        let linear = self.desc.algorithm == Algorithm::Linear;
        let buddy = matches!(self.desc.algorithm, Algorithm::Buddy { .. });
        rule(counts.block_bytes == bytes, "block_bytes is the sum of the blocks", bytes)?;
        // A buddy rounds up, and a linear block still counts what it cannot use again yet.
        rule(
            counts.range_bytes == used || linear || buddy,
            "range_bytes is the sum of the used spans, less what classes add",
            used,
        )?;
        rule(counts.range_count == count, "range_count counts the live ranges", count)?;
        rule(counts.block_count == state.blocks.block_count() as u64, "block_count counts the blocks", bytes)
    }
}

fn chunk_request(class: Class, bytes: u64) -> Request<'static> {
    Request {
        size: bytes,
        alignment: class.alignment(),
        high: false,
        moves: Moves::Never,
        evictable: false,
        name: "",
        user_data: 0,
    }
}

impl<D: Device, A: Cutter> State<D, A> {
    fn allocate(&mut self, request: Request<'_>) -> Option<InBlock<D>> {
        if request.high {
            return self.allocate_high(request);
        }
        let allocation = self.blocks.try_allocate(request.size, request.alignment).ok()?;
        Some(self.count_in(allocation, request))
    }

    /// Bytes of blocks in which nothing lives. O(blocks).
    fn empty_bytes(&self) -> u64 {
        let empty = self.blocks.iter().filter(|(_, _, ranges)| ranges.is_empty());
        empty.map(|(_, block, _)| block.memory.size).sum()
    }

    /// Whether what was announced would miss an empty block of up to `block` bytes.
    fn keeps_empty(&self, block: u64) -> bool {
        self.announced != 0 && self.empty_bytes() < self.announced.saturating_add(block)
    }

    fn insert(&mut self, NewBlock { memory, ranges }: NewBlock<D, A>) -> BlockId {
        let size = memory.size;
        self.counts.block_count += 1;
        self.counts.block_bytes += size;
        self.counts.block_bytes_high_water = self.counts.block_bytes_high_water.max(self.counts.block_bytes);
        let block = Block { memory: Arc::new(memory), notes: HashMap::new(), movable_count: 0 };
        self.blocks.insert(block, ranges)
    }
}

impl<D: Device, A: Cutter> State<D, A> {
    fn allocate_high(&mut self, request: Request<'_>) -> Option<InBlock<D>> {
        let Request { size, alignment, .. } = request;
        let allocation = self.blocks.try_allocate_by(size, |ranges| ranges.allocate_high(size, alignment))?;
        Some(self.count_in(allocation, request))
    }

    fn insert_and_allocate(&mut self, block: NewBlock<D, A>, request: Request<'_>) -> InBlock<D> {
        let id = self.insert(block);
        let allocation = self.blocks.allocate_in(id, request.size, request.alignment);
        self.count_in(allocation.expect("a new block holds what it was made for"), request)
    }

    fn count_in(&mut self, allocation: BlockAllocation, request: Request<'_>) -> InBlock<D> {
        self.counts.range_count += 1;
        self.counts.range_bytes += allocation.size();
        self.counts.range_bytes_high_water = self.counts.range_bytes_high_water.max(self.counts.range_bytes);
        self.announced = self.announced.saturating_sub(allocation.size());
        let block = self.blocks.heap_mut(allocation.block()).expect("an allocation's block is held");
        let mut ticket = None;
        if !request.evictable {
            block.memory.pin();
        }
        if let Some(mut note) = Note::of(&request) {
            if request.moves != Moves::Never {
                ticket = Some(Arc::new(Ticket::new(allocation, &request)));
                note.ticket.clone_from(&ticket);
                block.movable_count += 1;
            }
            block.notes.insert(allocation.range().slot(), note);
        }
        // SAFETY: a range is live in the block as long as somebody holds what is made of this.
        InBlock { memory: unsafe { BlockMemory::new(&block.memory) }, allocation, ticket }
    }

    fn free(&mut self, allocation: BlockAllocation) {
        if let Some(block) = self.blocks.heap_mut(allocation.block()) {
            let slot = allocation.range().slot();
            let note = if block.notes.is_empty() { None } else { block.notes.remove(&slot) };
            if note.as_ref().is_none_or(|note| !note.evictable) {
                block.memory.unpin();
            }
            block.movable_count -= usize::from(note.is_some_and(|note| note.ticket.is_some()));
        }
        // The owner is move-only, so that its range is live: a refusal is a defect of this library.
        self.blocks.free(&allocation).expect("a resource's range is live until it is given back");
        self.counts.range_count -= 1;
        self.counts.range_bytes -= allocation.size();
    }

    fn taken_out(&mut self, block: Block<D>) -> Memory<D> {
        self.counts.block_count -= 1;
        self.counts.block_bytes -= block.memory.size;
        Arc::into_inner(block.memory).expect("whoever frees the last range lets go of the memory first")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use crate::device::{Driver, Requirements, ResourceClass};
    use crate::memory::{Allocator, AllocatorDesc};
    use crate::resource::AllocationDesc;
    use crate::sim::{self, Profile, SimOptions};

    fn needs(size: u64) -> Requirements {
        Requirements {
            size,
            alignment: 16,
            memory_type_bits: u32::MAX,
            class: ResourceClass::Buffer,
            prefers_dedicated: false,
            requires_dedicated: false,
        }
    }

    fn allocator(profile: Profile) -> Allocator<sim::Device> {
        Allocator::over(sim::Device::new(profile, SimOptions::default()), AllocatorDesc::default())
    }

    /// Were a lock of an arena needed, the other thread would wait for as long as it is held here.
    #[test]
    fn seed_003_02_blocks_are_taken_and_freed_while_every_lock_of_the_arenas_is_held() {
        let memory = allocator(Profile::h200());
        let allocate = |memory: &Allocator<sim::Device>| {
            memory.allocate(needs(1000), AllocationDesc::default()).expect("there is room")
        };
        // So many that the class has pools with room.
        let held: Vec<_> = (0..400).map(|_| allocate(&memory)).collect();
        // SAFETY: nothing uses them.
        held.into_iter().for_each(|held| unsafe { held.free_now() });
        let arenas = memory.shared().arenas.iter();
        let locks: Vec<_> =
            arenas.map(|arena| (arena.state.lock(), arena.growth.lock(), arena.chunks.lock())).collect();
        let (sender, receiver) = channel();
        let other = memory.clone();
        let worker = thread::spawn(move || {
            for _ in 0..100 {
                let held: Vec<_> = (0..100).map(|_| allocate(&other)).collect();
                // SAFETY: nothing uses them.
                held.into_iter().for_each(|held| unsafe { held.free_now() });
            }
            sender.send(()).expect("it is waited for");
        });
        receiver.recv_timeout(Duration::from_secs(60)).expect("no lock is waited for");
        drop(locks);
        worker.join().expect("it has not failed");
        memory.validate().expect("the allocator is sound");
    }

    /// The first part of a chain's key: an arena is of one memory type, and of classes that may lie in one block. It is found
    /// by an index: O(1), whatever there is.
    #[test]
    fn seed_003_04_an_arena_is_of_one_memory_type_and_one_group_of_classes() {
        for profile in Profile::all() {
            let memory = allocator(profile);
            let shared = memory.shared();
            let capabilities = shared.device.capabilities();
            let mut keys = HashMap::new();
            for memory_type in 0..capabilities.memory_types.len() as u32 {
                for class in [ResourceClass::Buffer, ResourceClass::Texture, ResourceClass::RenderTarget] {
                    let group = shared.classes.groups[class as usize];
                    let index = shared.shared_arena_index(memory_type, class);
                    let arena = &shared.arenas[index as usize];
                    assert_eq!(arena.desc.memory_type, memory_type);
                    assert_eq!(
                        *keys.entry(index).or_insert((memory_type, group)),
                        (memory_type, group),
                        "one key each"
                    );
                }
            }
            let mut distinct: Vec<_> = keys.values().collect();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), keys.len(), "and one arena for each key");
        }
    }
}
