//! A lock-free pool of blocks of one size. Any number of threads can allocate and free blocks concurrently.
//!
//! ```text
//!   cursors   0 0 2 3          shared by a few threads each: the group that they used last and try first
//!             │     │
//!   groups  [ 0110 ][ 1111 ][ 0000 ][ 0001 ]    a bit for each block: 1 if it is free; up to 64 in a word,
//!              │                                and each word in its own cache line
//!   rooms     1 1 0 1                           a bit for each group: 0 only if the group was found full
//!              │                                (cleared by a thread that finds it full, set by a free into it)
//!   serials   6 9 5 4 …                         a number for each block: while the block is allocated, the serial of
//!                                               its range, an even number; while it is free, an odd number
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | [`FixedPool::allocate`] | O(1): one atomic read-modify-write if the thread's last group has a free block |
//! | … in another group | also reads `rooms`, a word for each 64 groups, and writes to it for each group found full |
//! | … that fails | O(groups): every group is checked; a group has 8 to 64 blocks |
//! | [`FixedPool::free`] | O(1): two atomic read-modify-writes, of the block's serial and its group |
//! | … into a full group | also reads `rooms`, and writes to it if the group's bit is 0 |
//! | [`FixedPool::is_live`] | O(1): one load |
//! | [`FixedPool::live_count`], [`FixedPool::is_empty`], [`FixedPool::close`] | O(groups) |
//! | [`FixedPool::for_each_live`], [`FixedPool::validate`] | O(blocks) |
//!
//! A pool allocates its host memory when it is created: 10 bytes per block if it is very large, 12 with 4096 blocks, 42
//! with 64 blocks. No other operation allocates host memory.
//!
//! # Bitmaps instead of a queue
//!
//! A queue or a tagged stack of free offsets has one head, which each allocation and each free writes. The head's cache
//! line moves between cores each time, so throughput falls as threads are added. In this pool, a thread has a cursor,
//! which is chosen by the address of its stack or by the caller's hint. The thread starts at the cursor's group: the
//! group in which it last allocated or freed a block. As long as this group does not change, the thread writes only the
//! cache line of the group and the serials of its blocks. A line moves between cores only if another thread frees a
//! block of the group, if groups are full, or if threads share a cursor or a group.
//!
//! ABA cannot occur: a thread claims a block by clearing the block's own bit, which is 1 whenever the block is free,
//! and follows no link. Groups of small pools have as few as 8 blocks, so that different threads can use different
//! groups. A pool of 128 blocks or more has at least 9 groups, or 16 if the number of blocks is a power of two. The bit
//! of a group in `rooms` is cleared when the group is found full, not when it becomes full, because the next freed
//! block would set the bit again.
//!
//! # Misuse
//!
//! A free compares and exchanges the serial of the range's block, in release builds too. If two threads free the same
//! range, exactly one of them succeeds. A range that was freed already, or belongs to another allocator, is refused.
//! Serials are unique in the process ([`ringfence_core::range`]). A block draws them in runs, so most allocations
//! access no shared counter.
//!
//! # Closing
//!
//! [`FixedPool::close`] claims every block by clearing its bit, as an allocation does. So `close` succeeds only if the
//! pool is empty, later allocations fail, and `allocate` has no additional cost. During a call of `close` that fails,
//! an allocation can fail although a block is free.

use crate::primitive::{AtomicU32, AtomicU64, CachePadded, Ordering, fence_in_model, shrunk, thread_hint};
use crate::serials::SharedSerials;
use alloc::boxed::Box;
use core::fmt;
use ringfence_core::range::{FreeError, Invalid, Range, Serial};

#[allow(unsafe_code, reason = "shared without a lock; SAFETY comments give the proofs")]
pub(crate) mod slot;

/// Maximum number of blocks in a group, as an exponent of two: one per bit of a word.
const GROUP_LOG2_MAX: u32 = 6;
/// Minimum number of blocks in a group, as an exponent of two: the number of serials in a cache line.
const GROUP_LOG2_MIN: u32 = shrunk(3, 1);
/// Number of groups that a pool should have: one for each of 16 threads. Small pools have smaller groups for this
/// reason. The size of a group is rounded up to a power of two, so a pool can have fewer groups.
const GROUPS_WANTED: u32 = 16;
/// Maximum number of cursors. If hints are distributed evenly, each of this many threads has its own cursor.
const CURSORS_MAX: u32 = 64;
/// Number of serials in a cache line.
const LINE: usize = 8;

/// A lock-free pool of blocks of one size. Any number of threads can allocate and free blocks concurrently.
///
/// ```
/// # use ringfence_lockfree::fixed_pool::FixedPool;
/// # use ringfence_core::range::FreeError;
/// let pool = FixedPool::new(64 << 10, 16);
/// let block = pool.allocate().expect("16 blocks are free");
/// assert_eq!((block.size(), block.offset() % (64 << 10)), (64 << 10, 0));
/// assert_eq!(pool.free(block), Ok(()));
/// assert!(matches!(pool.free(block), Err(FreeError::Stale { .. })));
/// ```
pub struct FixedPool {
    block_size: u64,
    /// Maximum number of blocks, from 1 to [`FixedPool::BLOCKS_MAX`]; also the number of serials.
    capacity: u32,
    /// Blocks in a group, as an exponent of two: block `b` is bit `b % 2^group_log2` of group `b >> group_log2`.
    group_log2: u32,
    /// The groups: words with a bit for each block. A bit is 1 if and only if its block is free: below `offered`, and
    /// neither allocated nor claimed by [`FixedPool::close`].
    groups: Box<[CachePadded<AtomicU64>]>,
    /// Indices of the groups at which searches start. They affect only speed.
    cursors: Box<[CachePadded<AtomicU32>]>,
    /// A bit for each group. A bit is 0 only if its group is full, or if a thread is about to set the bit. If a bit is
    /// 1, its group can have a free block or be full.
    rooms: Box<[CachePadded<AtomicU64>]>,
    /// A number for each block. While the block is allocated, the number is the serial of the block's range, and even;
    /// while the block is free, the number is odd. The thread that has claimed the block writes the number. The thread
    /// that frees the block changes it in one compare-exchange.
    serials: Box<[Line]>,
    runs: CachePadded<SharedSerials>,
    /// Number of blocks of the open pool, allocated ones included: the blocks `0..offered`. 0 if and only if the pool
    /// is closed.
    offered: AtomicU32,
}

/// A cache line of serials.
#[derive(Debug)]
#[repr(align(64))]
struct Line([AtomicU64; LINE]);

impl FixedPool {
    /// Maximum number of blocks of a pool.
    pub const BLOCKS_MAX: u32 = 1 << 24;

    /// Creates a pool of `block_count` free blocks of `block_size` units each.
    ///
    /// # Panics
    /// If `block_size` is 0, if `block_count` is not in `1..=BLOCKS_MAX`, or if their product exceeds `u64::MAX`.
    #[must_use]
    pub fn new(block_size: u64, block_count: u32) -> Self {
        let pool = Self::closed(block_size, block_count);
        assert!(pool.open(block_count), "a new pool can be opened");
        pool
    }

    /// Creates a closed pool with a capacity of `capacity` blocks. Allocations fail until [`FixedPool::open`].
    ///
    /// # Panics
    /// If `block_size` is 0, if `capacity` is not in `1..=BLOCKS_MAX`, or if their product exceeds `u64::MAX`.
    #[must_use]
    pub fn closed(block_size: u64, capacity: u32) -> Self {
        assert!(block_size != 0, "the block size is 0");
        assert!((1..=Self::BLOCKS_MAX).contains(&capacity), "{capacity} blocks are not in 1..={}", Self::BLOCKS_MAX);
        assert!(block_size.checked_mul(u64::from(capacity)).is_some(), "{capacity} blocks of {block_size} overflow");
        let wanted = (capacity / GROUPS_WANTED).max(1).next_power_of_two().trailing_zeros();
        let group_log2 = wanted.clamp(GROUP_LOG2_MIN, GROUP_LOG2_MAX);
        let groups = capacity.div_ceil(1 << group_log2);
        let cursors = groups.min(CURSORS_MAX);
        let word = || CachePadded(AtomicU64::new(0));
        let runs = SharedSerials::new(capacity);
        let serials = (0..capacity.div_ceil(LINE as u32)).map(|line| {
            let number = |at: usize| runs.first_of(line * LINE as u32 + at as u32) + 1;
            Line(core::array::from_fn(|at| AtomicU64::new(number(at))))
        });
        Self {
            block_size,
            capacity,
            group_log2,
            groups: (0..groups).map(|_| word()).collect(),
            cursors: (0..cursors).map(|cursor| CachePadded(AtomicU32::new(cursor * (groups / cursors)))).collect(),
            rooms: (0..groups.div_ceil(64)).map(|_| word()).collect(),
            serials: serials.collect(),
            runs: CachePadded(runs),
            offered: AtomicU32::new(0),
        }
    }

    /// Returns the size of a block, in units.
    #[must_use]
    pub const fn block_size(&self) -> u64 {
        self.block_size
    }

    /// Returns the maximum number of blocks that the pool can be opened with.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns the number of blocks that the pool was opened with; 0 while it is closed.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        self.offered.load(Ordering::Relaxed)
    }

    /// Allocates a block. Returns `None` if each group had no free block at some moment of the call.
    #[must_use = "a block that is not freed stays allocated"]
    pub fn allocate(&self) -> Option<Range> {
        self.allocate_near(thread_hint())
    }

    /// Does the same as [`FixedPool::allocate`], but starts at the group in which this hint was last used. If each
    /// thread passes its own number as the hint here and in [`FixedPool::free_near`], threads rarely contend.
    #[must_use = "a block that is not freed stays allocated"]
    pub fn allocate_near(&self, hint: usize) -> Option<Range> {
        let block = self.claim_near(hint).or_else(|| self.claim_anywhere())?;
        Some(self.range_of_claimed(block))
    }

    /// Does the same as [`FixedPool::allocate_near`], but does not check every group: it can miss a block that was
    /// freed just before.
    pub(crate) fn allocate_cached(&self, hint: usize) -> Option<Range> {
        self.claim_near(hint).map(|block| self.range_of_claimed(block))
    }

    /// Frees a range.
    ///
    /// # Errors
    /// The range was freed already, or belongs to another allocator. A failed call changes nothing.
    pub fn free(&self, range: Range) -> Result<(), FreeError> {
        self.free_near(thread_hint(), range)
    }

    /// Does the same as [`FixedPool::free`]. The next call of [`FixedPool::allocate_near`] with this hint starts at the
    /// group of this range.
    ///
    /// # Errors
    /// The errors of [`FixedPool::free`].
    pub fn free_near(&self, hint: usize, range: Range) -> Result<(), FreeError> {
        self.release(hint, &range).map(|_| ())
    }

    /// Does the same as [`FixedPool::free_near`]. Returns `true` if the range's group was full before.
    pub(crate) fn release(&self, hint: usize, range: &Range) -> Result<bool, FreeError> {
        let (block, serial) = (range.slot(), range.serial().get());
        if block >= self.capacity || !serial.is_multiple_of(2) {
            return Err(self.refuse(range));
        }
        // Relaxed: of several concurrent frees, exactly one succeeds in any memory order, and `free_blocks` publishes
        // the earlier writes.
        let freed = self.serial(block).compare_exchange(serial, serial + 1, Ordering::Relaxed, Ordering::Relaxed);
        if freed.is_err() {
            return Err(self.refuse(range));
        }
        let (group, bit) = self.group_and_bit(block);
        move_cursor(self.cursor(hint), group);
        Ok(self.free_blocks(group, bit))
    }

    /// Returns `true` if this range was allocated from this pool and is not freed.
    #[must_use]
    pub fn is_live(&self, range: &Range) -> bool {
        // Relaxed: a thread that received the range also sees its serial, or a later one.
        let serial = range.serial().get();
        serial.is_multiple_of(2)
            && range.slot() < self.capacity
            && self.serial(range.slot()).load(Ordering::Relaxed) == serial
    }

    /// Returns the number of allocated blocks. It is exact if no other thread uses the pool.
    #[must_use]
    pub fn live_count(&self) -> u32 {
        let free: u32 = self.groups.iter().map(|group| group.0.load(Ordering::Relaxed).count_ones()).sum();
        self.block_count().saturating_sub(free)
    }

    /// Returns `true` if no block is allocated. The result is exact if no other thread uses the pool.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let count = self.block_count();
        self.groups.iter().zip(0..).all(|(word, group)| word.0.load(Ordering::Relaxed) == self.mask(group, count))
    }

    /// If no block is allocated, closes the pool and returns the number of blocks that the pool was opened with.
    /// Allocations then fail until [`FixedPool::open`]. Returns `None` if a block is allocated, or if the pool is
    /// already closed or is being closed by another thread.
    #[must_use = "only the caller learns that the pool is closed"]
    pub fn close(&self) -> Option<u32> {
        let count = self.offered.load(Ordering::Relaxed);
        if count == 0 || !self.is_empty() {
            return None;
        }
        let groups = self.groups_of(count);
        let claimed = (0..groups).take_while(|group| self.claim_all(*group, self.mask(*group, count))).count();
        // Once the first group is claimed, no other thread can close the pool, so `offered` does not change. If the
        // pool was closed and reopened before that, `offered` can differ from the value read above. In this case not
        // all blocks may be claimed, and the exchange fails. Release: the thread that opens the pool next finds all
        // bits clear.
        if claimed == groups && self.offered.compare_exchange(count, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
            return Some(count);
        }
        (0..claimed).for_each(|group| _ = self.free_blocks(group, self.mask(group, count)));
        None
    }

    /// Opens a closed pool with `block_count` free blocks. Returns `false` if the pool is open, or if `block_count` is
    /// 0 or exceeds the capacity.
    #[must_use]
    pub fn open(&self, block_count: u32) -> bool {
        let opened = self.begin_opening(block_count);
        if opened {
            self.offer(block_count, 0);
        }
        opened
    }

    /// Opens a closed pool with `block_count` free blocks, like [`FixedPool::open`], and allocates the first block for
    /// the caller before other threads can. Returns `None` if [`FixedPool::open`] would return `false`.
    #[must_use = "a block that is not freed stays allocated"]
    pub fn open_and_allocate(&self, block_count: u32) -> Option<Range> {
        self.begin_opening(block_count).then(|| {
            let range = self.range_of_claimed(0);
            self.offer(block_count, 1);
            range
        })
    }

    /// Visits every allocated range in order of offsets. If other threads use the pool meanwhile, each reported range
    /// was allocated at some moment of the call.
    pub fn for_each_live(&self, visit: &mut dyn FnMut(Range)) {
        for block in 0..self.block_count() {
            let serial = self.serial(block).load(Ordering::Relaxed);
            if serial.is_multiple_of(2) {
                visit(self.range(block, serial));
            }
        }
    }

    /// Checks all rules of the pool. No other thread may use the pool during the call.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self) -> Result<(), Invalid> {
        let count = self.block_count();
        for group in 0..self.groups.len() {
            let word = self.groups[group].0.load(Ordering::Relaxed);
            let rule = "a group has bits for offered blocks only";
            Invalid::unless(word & !self.mask(group, count) == 0, rule, group as u64)?;
            let rule = "a group with a free block is marked in rooms";
            Invalid::unless(word == 0 || self.has_room_bit(group), rule, group as u64)?;
        }
        (0..self.capacity).try_for_each(|block| self.validate_block(block, count))
    }

    fn validate_block(&self, block: u32, count: u32) -> Result<(), Invalid> {
        let (group, bit) = self.group_and_bit(block);
        let free = self.groups[group].0.load(Ordering::Relaxed) & bit != 0;
        let live = self.serial(block).load(Ordering::Relaxed).is_multiple_of(2);
        let holds = if block < count { free != live } else { !free && !live };
        Invalid::unless(
            holds,
            "a block below `offered` is either free or allocated, others are neither",
            u64::from(block),
        )
    }

    /// Returns `true` if some group has a free block.
    pub(crate) fn has_room(&self) -> bool {
        // Sequentially consistent, because `PoolChain::note_full` needs it.
        self.groups.iter().any(|group| group.0.load(Ordering::SeqCst) != 0)
    }

    fn begin_opening(&self, block_count: u32) -> bool {
        // Acquire, with the release in `close`: all bits are clear. If two threads open the pool at the same time, one
        // of them fails.
        (1..=self.capacity).contains(&block_count)
            && self.offered.compare_exchange(0, block_count, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Frees the first `count` blocks of a pool that is being opened. If `taken` is 1, leaves out the first block;
    /// otherwise, `taken` is 0.
    fn offer(&self, count: u32, taken: u32) {
        for group in 0..self.groups_of(count) {
            let taken = if group == 0 { u64::from(taken) } else { 0 };
            let mask = self.mask(group, count) & !taken;
            if mask != 0 {
                self.free_blocks(group, mask);
            }
        }
    }

    /// Sets the bits of claimed blocks of a group that have no live range, which frees the blocks. Returns `true` if
    /// the group was full.
    fn free_blocks(&self, group: usize, mask: u64) -> bool {
        // The bits are 0, because the caller owns the blocks. So an addition sets them, and it compiles to one
        // instruction. Release: earlier uses of the blocks, writes to their serials and the opening of the pool happen
        // before the accesses of their next owners. Sequentially consistent, because `note_room` needs it; this costs
        // nothing on x86.
        let before = self.groups[group].0.fetch_add(mask, Ordering::SeqCst);
        debug_assert!(before & mask == 0, "a block was freed twice");
        let was_full = before == 0;
        if was_full {
            self.note_room(group);
        }
        was_full
    }

    /// Claims a block in the group in which the hint was last used. If this group is full, claims a block in another
    /// group whose bit in `rooms` is set. Returns `None` if all these groups are full.
    fn claim_near(&self, hint: usize) -> Option<u32> {
        let cursor = self.cursor(hint);
        let start = cursor.load(Ordering::Relaxed) as usize;
        self.claim_in(start).or_else(|| {
            let block = self.claim_by_rooms(start)?;
            move_cursor(cursor, self.group_and_bit(block).0);
            Some(block)
        })
    }

    fn claim_by_rooms(&self, start: usize) -> Option<u32> {
        let words = self.rooms.len();
        (0..words).find_map(|step| {
            let index = (start / 64 + step) % words;
            let first_bit = if step == 0 { start as u32 % 64 } else { 0 };
            self.claim_in_word(index, first_bit)
        })
    }

    /// Claims a block in a group that has a set bit in one word of `rooms`. Tries the bits from `first_bit` up to the
    /// last bit, then from bit 0 on.
    fn claim_in_word(&self, index: usize, first_bit: u32) -> Option<u32> {
        let mut left = self.rooms[index].0.load(Ordering::Relaxed).rotate_right(first_bit);
        while left != 0 {
            let group = index * 64 + ((left.trailing_zeros() + first_bit) % 64) as usize;
            left &= left - 1;
            let claimed = self.claim_in(group);
            if claimed.is_some() {
                return claimed;
            }
            self.note_full(group);
        }
        None
    }

    /// Tries every group. Called if no group with its bit set in `rooms` has a free block, because a bit may be about
    /// to be set.
    fn claim_anywhere(&self) -> Option<u32> {
        (0..self.groups.len()).find_map(|group| self.claim_in(group))
    }

    /// Claims the lowest free block of a group.
    fn claim_in(&self, group: usize) -> Option<u32> {
        let word = &self.groups[group].0;
        loop {
            let free = word.load(Ordering::Relaxed);
            if free == 0 {
                return None;
            }
            let at = free.trailing_zeros();
            // Acquire, with the release of the thread that freed the block. If the bit is already 0, another thread has
            // claimed the block, and this call has changed nothing. So some thread always makes progress.
            if word.fetch_and(!(1 << at), Ordering::Acquire) & (1 << at) != 0 {
                return Some(((group as u32) << self.group_log2) + at);
            }
        }
    }

    /// Claims the blocks of `mask` if they are exactly the free blocks of the group; otherwise, returns `false`.
    fn claim_all(&self, group: usize, mask: u64) -> bool {
        // Acquire: all uses of the blocks happen before later accesses of the thread that closes the pool.
        self.groups[group].0.compare_exchange(mask, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Draws the next serial of a block that this thread has claimed, and returns the block's range.
    fn range_of_claimed(&self, block: u32) -> Range {
        let number = self.serial(block);
        // Relaxed: this thread owns the block, and its claim of the block has made the writes of the previous owner
        // visible. Other threads get the range only from the caller, who must synchronize with them.
        let mut serial = number.load(Ordering::Relaxed) + 1;
        if serial.is_multiple_of(SharedSerials::RUN) {
            serial = self.runs.0.draw_run();
        }
        number.store(serial, Ordering::Relaxed);
        self.range(block, serial)
    }

    /// Clears the bit of a full group in `rooms`, unless a thread frees a block of the group concurrently.
    ///
    /// This thread clears the bit and then reads the group. A thread that frees a block changes the group and then
    /// reads the bit ([`Self::note_room`]). All four accesses are sequentially consistent, so at least one of the two
    /// threads sees the change of the other, and sets the bit.
    fn note_full(&self, group: usize) {
        let (word, bit) = self.room_bit(group);
        word.fetch_and(!bit, Ordering::SeqCst);
        fence_in_model();
        if self.groups[group].0.load(Ordering::SeqCst) != 0 {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Sets the group's bit in `rooms` if it is clear. Called after blocks of the group were freed.
    fn note_room(&self, group: usize) {
        fence_in_model();
        if !self.has_room_bit(group) {
            let (word, bit) = self.room_bit(group);
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    fn has_room_bit(&self, group: usize) -> bool {
        let (word, bit) = self.room_bit(group);
        word.load(Ordering::SeqCst) & bit != 0
    }

    fn room_bit(&self, group: usize) -> (&AtomicU64, u64) {
        (&self.rooms[group / 64].0, 1 << (group % 64))
    }

    /// Returns the cursor for a hint. Hints are distributed evenly over the cursors.
    fn cursor(&self, hint: usize) -> &AtomicU32 {
        let mixed = (hint as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.cursors[((mixed * self.cursors.len() as u64) >> 32) as usize].0
    }

    /// Returns the index of a block's group, and the bit of the block in the group.
    fn group_and_bit(&self, block: u32) -> (usize, u64) {
        ((block >> self.group_log2) as usize, 1 << (block & ((1 << self.group_log2) - 1)))
    }

    /// Returns the bits of the blocks of a group that are below block `count`.
    fn mask(&self, group: usize, count: u32) -> u64 {
        let blocks = count.saturating_sub((group as u32) << self.group_log2).min(1 << self.group_log2);
        if blocks == 0 { 0 } else { u64::MAX >> (64 - blocks) }
    }

    /// Returns the number of groups that contain the first `count` blocks.
    const fn groups_of(&self, count: u32) -> usize {
        count.div_ceil(1 << self.group_log2) as usize
    }

    fn serial(&self, block: u32) -> &AtomicU64 {
        &self.serials[block as usize / LINE].0[block as usize % LINE]
    }

    fn range(&self, block: u32, serial: u64) -> Range {
        let serial = Serial::from_u64(serial).expect("serials are not 0");
        Range::new(u64::from(block) * self.block_size, self.block_size, block, serial)
    }

    /// Returns the error for a range that is not live.
    #[cold]
    pub(crate) fn refuse(&self, range: &Range) -> FreeError {
        let (offset, size) = (range.offset(), range.size());
        // A rarely used block may still have a serial from an earlier block of numbers than the run that was drawn
        // last.
        let held = |block| Serial::from_u64(self.serial(block).load(Ordering::Relaxed));
        let of_slot = |block| held(block).is_some_and(|held| held.block() == range.serial().block());
        let ours = self.runs.0.drew(range.serial()) || (range.slot() < self.capacity && of_slot(range.slot()));
        if ours { FreeError::Stale { offset, size } } else { FreeError::Foreign { offset, size } }
    }
}

/// Sets a cursor. Writes only a changed value, because a cache line that is only read stays in every core's cache.
fn move_cursor(cursor: &AtomicU32, group: usize) {
    if cursor.load(Ordering::Relaxed) != group as u32 {
        cursor.store(group as u32, Ordering::Relaxed);
    }
}

impl fmt::Debug for FixedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FixedPool({} of {} blocks of {} live)", self.live_count(), self.block_count(), self.block_size)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_block_counts_through_the_run_that_was_set_aside_for_it() {
        let pool = FixedPool::new(1, 4);
        for _ in 0..SharedSerials::RUN / 2 - 1 {
            let held: [_; 4] = core::array::from_fn(|_| pool.allocate_near(0).expect("four are free"));
            held.into_iter().for_each(|range| pool.free_near(0, range).expect("live"));
        }
        assert_eq!(pool.runs.0.draw_run(), pool.runs.0.first_of(4), "no run was drawn");
    }

    /// A long-lived pool draws serials from a new block of numbers, while its rarely used blocks keep serials of an old
    /// one.
    #[test]
    fn a_number_of_an_earlier_block_is_stale_of_a_seldom_used_block_and_else_foreign() {
        let mut pool = FixedPool::new(1, 8);
        let range = pool.allocate_near(0).expect("it is empty");
        pool.free(range).expect("live");
        pool.runs = CachePadded(SharedSerials::new(1));
        let (offset, size) = (range.offset(), range.size());
        assert_eq!(pool.free(range), Err(FreeError::Stale { offset, size }));
        let of_another = FixedPool::new(1, 9).allocate_near(0).expect("it is empty").serial();
        for slot in [0, 7, 8, 9, u32::MAX] {
            let foreign = Range::new(offset, size, slot, of_another);
            assert!(!pool.is_live(&foreign));
            assert_eq!(pool.free(foreign), Err(FreeError::Foreign { offset, size }), "slot {slot}");
        }
    }
}
