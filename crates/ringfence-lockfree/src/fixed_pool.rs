//! Equal blocks, allocated and freed by any number of threads at once, without a lock.
//!
//! ```text
//!   cursors   0 0 2 3          for each few threads the group where they were last: there they look first
//!             │     │
//!   groups  [ 0110 ][ 1111 ][ 0000 ][ 0001 ]    a bit for each block: 1 iff it is free; up to 64 in a word,
//!              │                                and each word in a cache line of its own
//!   rooms     1 1 0 1                           a bit for each group: 0 only if it was found full
//!              │                                (cleared by who found it so, set again by who frees there)
//!   serials   6 9 5 4 …                         a number for each block: even iff the block is handed out, and then
//!                                               equal to the serial of its range; odd while it is free
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | [`FixedPool::allocate`] | O(1): one atomic read-modify-write where the thread was last, if there is a block |
//! | – elsewhere | and `rooms`, a word for each 4096 blocks; two writes to it for a group that turns out to be full |
//! | – refused | O(blocks / 64): every group was looked at and had nothing |
//! | [`FixedPool::free`] | O(1): two atomic read-modify-writes, both to lines of the block |
//! | [`FixedPool::is_live`] | O(1): one load |
//! | [`FixedPool::live_count`], [`FixedPool::is_empty`], [`FixedPool::close`] | O(blocks / 64) |
//! | [`FixedPool::for_each_live`], [`FixedPool::validate`] | O(blocks) |
//!
//! No operation allocates on the host; a pool takes its memory when it is made: 12 bytes a block in large pools, 42 a
//! block in one of 64.
//!
//! # Why bitmaps
//!
//! A queue of free offsets, like a stack of them with a tag against ABA, has one head that *every* pair of
//! operations writes twice: its cache line goes from core to core each time, so that more threads get less done. Here
//! a thread starts at a group of its own (from where its stack lies, or from the caller's hint), goes on where it last
//! allocated or freed, and writes that group's line and the serials of its blocks alone. Lines travel only when a
//! block is freed by another thread, when groups are full, or when more threads than groups meet.
//!
//! ABA cannot occur: a block is claimed by clearing *its* bit, which says "free" whatever came before,
//! and no link is followed. Groups are as small as 8 blocks in small pools, so that 16 threads find 16 of them from
//! 128 blocks on. `rooms` is written late: a group loses its mark when it is found full, not when it becomes so, since
//! the next block freed there would bring it back.
//!
//! # Misuse
//!
//! Freeing a range compares and exchanges its block's number, in release builds too: of two threads that free one
//! range, one succeeds; a range that was freed already, or made elsewhere, is refused. Numbers are unique in the
//! process: see [`ringfence_core::range`]. A block draws them in runs, so that they cost no shared counter.
//!
//! # Closing
//!
//! [`FixedPool::close`] claims every block by the same bits that allocations use. So it succeeds iff the pool is empty,
//! nothing can be allocated afterwards, and `allocate` pays nothing for it. While an attempt is under way, and is about
//! to fail, an allocation may be refused that would have fitted.

use crate::primitive::{Apart, AtomicU32, AtomicU64, Ordering, fence_in_model, shrunk, thread_hint};
use crate::serials::SharedSerials;
use ringfence_core::range::{FreeError, Invalid, Range, Serial};
use alloc::boxed::Box;
use core::fmt;

#[allow(unsafe_code, reason = "shared without a lock; it says why")]
pub(crate) mod slot;

/// Blocks of a group, at most: the bits of a word.
const GROUP_LOG2_MAX: u32 = 6;
/// Blocks of a group at the least. As many serials fill a cache line.
const GROUP_LOG2_MIN: u32 = shrunk(3, 1);
/// Groups are made smaller rather than fewer than this: one for each of 16 threads.
const GROUPS_WANTED: u32 = 16;
/// Threads that have a place of their own, if their hints are spread well.
const CURSORS_MAX: u32 = 64;
/// Serials in a cache line.
const LINE: usize = 8;

/// A lock-free pool of equal blocks. See the [module](self).
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
    /// Blocks that there is room for: the length of `serials`, in numbers. 1 to [`FixedPool::BLOCKS_MAX`].
    capacity: u32,
    /// Blocks in a group, as an exponent of two: block `b` is bit `b % 2^group_log2` of group `b >> group_log2`.
    group_log2: u32,
    /// A bit is 1 iff its block is free: below `offered`, and neither handed out nor claimed by [`FixedPool::close`].
    groups: Box<[Apart<AtomicU64>]>,
    /// Below the number of groups. Nothing but speed depends on them.
    cursors: Box<[Apart<AtomicU32>]>,
    /// A bit is 0 only if its group was found full since a block was last freed into it when full (or a thread is
    /// about to set it). A 1 says nothing: a look at the group is needed.
    rooms: Box<[Apart<AtomicU64>]>,
    /// The last number of each block. Even iff handed out; then it is the serial of the range. Written only by the
    /// thread that has claimed the block, and by the thread that frees it, in one compare-exchange.
    serials: Box<[Line]>,
    runs: Apart<SharedSerials>,
    /// How many blocks can be handed out, from the first on, those in use included. 0 iff the pool is closed.
    offered: AtomicU32,
}

/// A cache line of serials.
#[derive(Debug)]
#[repr(align(64))]
struct Line([AtomicU64; LINE]);

impl FixedPool {
    /// The most blocks that a pool can have.
    pub const BLOCKS_MAX: u32 = 1 << 24;

    /// A pool of `block_count` free blocks of `block_size` units each.
    ///
    /// # Panics
    /// If `block_size` is 0, `block_count` is not in `1..=BLOCKS_MAX`, or both together pass `u64::MAX` units.
    #[must_use]
    pub fn new(block_size: u64, block_count: u32) -> Self {
        let pool = Self::closed(block_size, block_count);
        assert!(pool.open(block_count), "a new pool can be opened");
        pool
    }

    /// A closed pool: room for `capacity` blocks, of which none can be allocated until [`FixedPool::open`].
    ///
    /// # Panics
    /// As [`FixedPool::new`].
    #[must_use]
    pub fn closed(block_size: u64, capacity: u32) -> Self {
        assert!(block_size != 0, "blocks of size 0");
        assert!((1..=Self::BLOCKS_MAX).contains(&capacity), "{capacity} blocks are not in 1..={}", Self::BLOCKS_MAX);
        assert!(block_size.checked_mul(u64::from(capacity)).is_some(), "{capacity} blocks of {block_size} overflow");
        let wanted = (capacity / GROUPS_WANTED).max(1).next_power_of_two().trailing_zeros();
        let group_log2 = wanted.clamp(GROUP_LOG2_MIN, GROUP_LOG2_MAX);
        let groups = capacity.div_ceil(1 << group_log2);
        let cursors = groups.min(CURSORS_MAX);
        let word = || Apart(AtomicU64::new(0));
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
            cursors: (0..cursors).map(|cursor| Apart(AtomicU32::new(cursor * (groups / cursors)))).collect(),
            rooms: (0..groups.div_ceil(64)).map(|_| word()).collect(),
            serials: serials.collect(),
            runs: Apart(runs),
            offered: AtomicU32::new(0),
        }
    }

    /// Units of a block.
    #[must_use]
    pub const fn block_size(&self) -> u64 {
        self.block_size
    }

    /// Blocks that the pool was made for.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Blocks that the pool was opened with; 0 while it is closed.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        self.offered.load(Ordering::Relaxed)
    }

    /// A free block, if there is one. `None` means that every group was seen without one during the call.
    #[must_use = "a block that is not freed stays taken"]
    pub fn allocate(&self) -> Option<Range> {
        self.allocate_near(thread_hint())
    }

    /// [`FixedPool::allocate`], beginning where this hint was last: threads that always pass numbers of their own, here
    /// and to [`FixedPool::free_near`], stay out of each other's way.
    #[must_use = "a block that is not freed stays taken"]
    pub fn allocate_near(&self, hint: usize) -> Option<Range> {
        let block = self.claim_near(hint).or_else(|| self.claim_anywhere())?;
        Some(self.hand_out(block))
    }

    /// [`FixedPool::allocate_near`], but `None` says little: a block may be overlooked that was freed a moment ago.
    pub(crate) fn allocate_cached(&self, hint: usize) -> Option<Range> {
        self.claim_near(hint).map(|block| self.hand_out(block))
    }

    /// Frees a range.
    ///
    /// # Errors
    /// The range was freed already or was made elsewhere; nothing has changed then.
    pub fn free(&self, range: Range) -> Result<(), FreeError> {
        self.free_near(thread_hint(), range)
    }

    /// [`FixedPool::free`]: the next [`FixedPool::allocate_near`] with this hint looks here first.
    ///
    /// # Errors
    /// As [`FixedPool::free`].
    pub fn free_near(&self, hint: usize, range: Range) -> Result<(), FreeError> {
        self.release(hint, &range).map(|_| ())
    }

    /// [`FixedPool::free_near`]; says whether the range's group was full until then.
    pub(crate) fn release(&self, hint: usize, range: &Range) -> Result<bool, FreeError> {
        let (block, serial) = (range.slot(), range.serial().get());
        if block >= self.capacity || !serial.is_multiple_of(2) {
            return Err(self.refuse(range));
        }
        // Relaxed: of all that try, one succeeds, whatever the order; and what it did before is published below.
        let taken_back = self.serial(block).compare_exchange(serial, serial + 1, Ordering::Relaxed, Ordering::Relaxed);
        if taken_back.is_err() {
            return Err(self.refuse(range));
        }
        let (group, bit) = self.place(block);
        move_cursor(self.cursor(hint), group);
        Ok(self.give(group, bit))
    }

    /// Whether this very range is handed out now.
    #[must_use]
    pub fn is_live(&self, range: &Range) -> bool {
        // Relaxed: the thread that was given the range also sees its number, or a later one.
        let serial = range.serial().get();
        serial.is_multiple_of(2)
            && range.slot() < self.capacity
            && self.serial(range.slot()).load(Ordering::Relaxed) == serial
    }

    /// The number of allocated blocks. Exact if no other thread uses the pool.
    #[must_use]
    pub fn live_count(&self) -> u32 {
        let free: u32 = self.groups.iter().map(|group| group.0.load(Ordering::Relaxed).count_ones()).sum();
        self.block_count().saturating_sub(free)
    }

    /// Whether no block is allocated. As exact as [`FixedPool::live_count`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let count = self.block_count();
        self.groups.iter().zip(0..).all(|(word, group)| word.0.load(Ordering::Relaxed) == self.mask(group, count))
    }

    /// Closes the pool iff it is empty: nothing can be allocated in it any more. Says how many blocks it was opened
    /// with; `None` if it is not empty, if it is closed already, or if another thread is closing it just now.
    #[must_use = "no other thread knows that the pool is closed"]
    pub fn close(&self) -> Option<u32> {
        let count = self.offered.load(Ordering::Relaxed);
        if count == 0 || !self.is_empty() {
            return None;
        }
        let groups = self.groups_of(count);
        let claimed = (0..groups).take_while(|group| self.claim_all(*group, self.mask(*group, count))).count();
        // With the first group claimed no other thread can close, so that `offered` stands still: it is as it was read
        // above, unless the pool was closed and opened in between, and then what was claimed may be a part.
        // Release: the thread that opens the pool next finds it closed altogether.
        if claimed == groups && self.offered.compare_exchange(count, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
            return Some(count);
        }
        (0..claimed).for_each(|group| _ = self.give(group, self.mask(group, count)));
        None
    }

    /// Opens a closed pool with `block_count` free blocks. `false` if the pool is open, or if this is 0 or more than
    /// its capacity.
    #[must_use]
    pub fn open(&self, block_count: u32) -> bool {
        let opened = self.begin_opening(block_count);
        if opened {
            self.offer(block_count, 0);
        }
        opened
    }

    /// [`FixedPool::open`], and allocates the first block for the caller, even if other threads wait for one.
    #[must_use = "a block that is not freed stays taken"]
    pub fn open_and_allocate(&self, block_count: u32) -> Option<Range> {
        self.begin_opening(block_count).then(|| {
            let range = self.hand_out(0);
            self.offer(block_count, 1);
            range
        })
    }

    /// Shows every range that is handed out, in order of offsets. With other threads at work, each is shown as it was
    /// at some moment of the call.
    pub fn for_each_live(&self, visit: &mut dyn FnMut(Range)) {
        for block in 0..self.block_count() {
            let serial = self.serial(block).load(Ordering::Relaxed);
            if serial.is_multiple_of(2) {
                visit(self.range(block, serial));
            }
        }
    }

    /// Checks every rule of the pool, while no other thread is at work here.
    ///
    /// # Errors
    /// The first rule that does not hold.
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
        let (group, bit) = self.place(block);
        let free = self.groups[group].0.load(Ordering::Relaxed) & bit != 0;
        let live = self.serial(block).load(Ordering::Relaxed).is_multiple_of(2);
        let holds = if block < count { free != live } else { !free && !live };
        Invalid::unless(holds, "an offered block is free or handed out, any other neither", u64::from(block))
    }

    /// Whether some group has a free block.
    pub(crate) fn has_room(&self) -> bool {
        // Sequentially consistent for the chain, which does with pools as `note_full` does with groups.
        self.groups.iter().any(|group| group.0.load(Ordering::SeqCst) != 0)
    }

    fn begin_opening(&self, block_count: u32) -> bool {
        // Acquire: of the closing, so that its bits are gone; and one of two that open at once is refused.
        (1..=self.capacity).contains(&block_count)
            && self.offered.compare_exchange(0, block_count, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Frees the first `count` blocks of a pool that is being opened, but the first `taken` of them (0 or 1).
    fn offer(&self, count: u32, taken: u32) {
        for group in 0..self.groups_of(count) {
            let taken = if group == 0 { u64::from(taken) } else { 0 };
            let mask = self.mask(group, count) & !taken;
            if mask != 0 {
                self.give(group, mask);
            }
        }
    }

    /// Frees blocks of a group that are the caller's and have no range any more; says whether the group was full.
    fn give(&self, group: usize, mask: u64) -> bool {
        // The bits are 0, being the caller's: so adding is the same as setting, and one instruction where that is not.
        // Release: what was done with the blocks, and their numbers, or before an opening, comes before what their next
        // owners do. Sequentially consistent, at no cost on x86: see `note_room`.
        let before = self.groups[group].0.fetch_add(mask, Ordering::SeqCst);
        debug_assert!(before & mask == 0, "a block was freed twice");
        let was_full = before == 0;
        if was_full {
            self.note_room(group);
        }
        was_full
    }

    /// Claims a block where the hint was last, or else in a group that is marked.
    fn claim_near(&self, hint: usize) -> Option<u32> {
        let cursor = self.cursor(hint);
        let start = cursor.load(Ordering::Relaxed) as usize;
        self.claim_in(start).or_else(|| {
            let block = self.claim_by_rooms(start)?;
            move_cursor(cursor, self.place(block).0);
            Some(block)
        })
    }

    fn claim_by_rooms(&self, start: usize) -> Option<u32> {
        let words = self.rooms.len();
        (0..words).find_map(|step| {
            let index = (start / 64 + step) % words;
            let turn = if step == 0 { start as u32 % 64 } else { 0 };
            self.claim_in_word(index, turn)
        })
    }

    /// Tries the groups of a word of `rooms`, from bit `turn` upwards and around.
    fn claim_in_word(&self, index: usize, turn: u32) -> Option<u32> {
        let mut left = self.rooms[index].0.load(Ordering::Relaxed).rotate_right(turn);
        while left != 0 {
            let group = index * 64 + ((left.trailing_zeros() + turn) % 64) as usize;
            left &= left - 1;
            let claimed = self.claim_in(group);
            if claimed.is_some() {
                return claimed;
            }
            self.note_full(group);
        }
        None
    }

    /// The last resort: `rooms` may be behind for a moment.
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
            // Acquire: with the release of the thread that freed the block. If the bit is 0 by now, another was faster
            // and nothing has changed; so some thread always comes further.
            if word.fetch_and(!(1 << at), Ordering::Acquire) & (1 << at) != 0 {
                return Some(((group as u32) << self.group_log2) + at);
            }
        }
    }

    /// Claims the blocks of `mask` iff they are what is free in the group.
    fn claim_all(&self, group: usize, mask: u64) -> bool {
        // Acquire: all that was done with the blocks comes before what the closer does next.
        self.groups[group].0.compare_exchange(mask, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives a claimed block its next number.
    fn hand_out(&self, block: u32) -> Range {
        let number = self.serial(block);
        // Relaxed: the block is this thread's alone, and claiming it showed what its last owner wrote. The range goes
        // to other threads only by what the caller does, which orders it.
        let mut serial = number.load(Ordering::Relaxed) + 1;
        if serial.is_multiple_of(SharedSerials::RUN) {
            serial = self.runs.0.draw_run();
        }
        number.store(serial, Ordering::Relaxed);
        self.range(block, serial)
    }

    /// Clears the group's bit in `rooms`, unless a thread frees there at this moment.
    ///
    /// Clearing and then looking at the group meets freeing and then looking at the bit ([`Self::note_room`]). All
    /// four are sequentially consistent, so that one of the two threads sees the other.
    fn note_full(&self, group: usize) {
        let (word, bit) = self.room_bit(group);
        word.fetch_and(!bit, Ordering::SeqCst);
        fence_in_model();
        if self.groups[group].0.load(Ordering::SeqCst) != 0 {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Sets the group's bit in `rooms`, where it is not: after blocks were freed there.
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

    /// The cursor that threads of this hint share: all cursors equally often.
    fn cursor(&self, hint: usize) -> &AtomicU32 {
        let mixed = (hint as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.cursors[((mixed * self.cursors.len() as u64) >> 32) as usize].0
    }

    /// The group of a block, and its bit there.
    fn place(&self, block: u32) -> (usize, u64) {
        ((block >> self.group_log2) as usize, 1 << (block & ((1 << self.group_log2) - 1)))
    }

    /// The bits of a group whose blocks are among the first `count`.
    fn mask(&self, group: usize, count: u32) -> u64 {
        let blocks = count.saturating_sub((group as u32) << self.group_log2).min(1 << self.group_log2);
        if blocks == 0 { 0 } else { u64::MAX >> (64 - blocks) }
    }

    /// Groups that the first `count` blocks lie in.
    const fn groups_of(&self, count: u32) -> usize {
        count.div_ceil(1 << self.group_log2) as usize
    }

    fn serial(&self, block: u32) -> &AtomicU64 {
        &self.serials[block as usize / LINE].0[block as usize % LINE]
    }

    fn range(&self, block: u32, serial: u64) -> Range {
        let serial = Serial::from_u64(serial).expect("blocks of numbers are counted from 1");
        Range::new(u64::from(block) * self.block_size, self.block_size, block, serial)
    }

    /// The error for a range that is not live.
    #[cold]
    pub(crate) fn refuse(&self, range: &Range) -> FreeError {
        let (offset, size) = (range.offset(), range.size());
        // A block that is seldom used may still count through a run of an earlier block of numbers.
        let held = |block| Serial::from_u64(self.serial(block).load(Ordering::Relaxed));
        let of_slot = |block| held(block).is_some_and(|held| held.block() == range.serial().block());
        let ours = self.runs.0.drew(range.serial()) || (range.slot() < self.capacity && of_slot(range.slot()));
        if ours { FreeError::Stale { offset, size } } else { FreeError::Foreign { offset, size } }
    }
}

/// Read first: a line that is only read need not travel.
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
        assert_eq!(pool.runs.0.draw_run(), pool.runs.0.first_of(4), "none was drawn");
    }

    /// A pool that lives long draws numbers from a new block, and a block of it that is seldom used keeps those of an
    /// old one.
    #[test]
    fn a_number_of_an_earlier_block_is_stale_of_a_seldom_used_block_and_else_foreign() {
        let mut pool = FixedPool::new(1, 8);
        let range = pool.allocate_near(0).expect("it is empty");
        pool.free(range).expect("live");
        pool.runs = Apart(SharedSerials::new(1));
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
