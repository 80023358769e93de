//! The strategies of a replay: the library's range allocators, and two naive ones for comparison.

use ringfence::algorithms::buddy::Buddy;
use ringfence::algorithms::free_list::FreeList;
use ringfence::algorithms::range::{Range, RangeAllocator};
use ringfence::algorithms::tlsf::Tlsf;

use super::naive::{FirstFit, Pools};
use super::spool::Spool;

/// Maximum number of granules of a buddy allocator, because it needs host memory for each of them.
const GRANULE_COUNT_MAX: u64 = 1 << 21;

/// A strategy: a way to place allocations in one heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Tlsf,
    Buddy,
    FreeList,
    FirstFit,
    Pools,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Tlsf, Self::Buddy, Self::FreeList, Self::FirstFit, Self::Pools];

    pub fn name(self) -> &'static str {
        match self {
            Self::Tlsf => "tlsf",
            Self::Buddy => "buddy",
            Self::FreeList => "free-list",
            Self::FirstFit => "first-fit",
            Self::Pools => "pools",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns `true` if ranges have the same offsets in every heap that is large enough. Then the high-water mark is
    /// the smallest capacity. This is true for first fit, which reaches the end of the heap only if every hole is too
    /// small.
    pub fn is_alike_in_larger(self) -> bool {
        self == Self::FirstFit
    }

    /// Returns a description of the strategy on one line.
    pub fn about(self, capacity: u64, spool: &Spool) -> String {
        match self {
            Self::Tlsf => "two-level bitmaps, good fit".into(),
            Self::Buddy => format!("powers of two, granule of {} bytes", granule(capacity, spool)),
            Self::FreeList => "exact best fit, in address order".into(),
            Self::FirstFit => "naive: the lowest hole that fits, found by a linear search".into(),
            Self::Pools => "naive: pools of equal blocks by size in steps of 64 KiB, never freed".into(),
        }
    }

    /// Executes `pass` on an empty heap of this strategy with `capacity` bytes.
    pub fn run<P: Pass>(self, capacity: u64, spool: &Spool, pass: P) -> P::Output {
        let slots = spool.slot_count();
        match self {
            Self::Tlsf => pass.run(Ranges::new(Tlsf::new(capacity), slots)),
            Self::Buddy => pass.run(Ranges::new(Buddy::new(capacity, granule(capacity, spool)), slots)),
            Self::FreeList => pass.run(Ranges::new(FreeList::new(capacity), slots)),
            Self::FirstFit => pass.run(FirstFit::new(capacity, slots)),
            Self::Pools => pass.run(Pools::new(capacity, slots)),
        }
    }
}

/// Returns the granule of a buddy allocator, in bytes: the largest power of two up to the smallest size, at most 64
/// KiB, or a larger one if there would be more than [`GRANULE_COUNT_MAX`] granules.
fn granule(capacity: u64, spool: &Spool) -> u64 {
    let by_size = 1 << spool.size_min().max(1).ilog2();
    let by_count = capacity.div_ceil(GRANULE_COUNT_MAX).next_power_of_two();
    by_count.max(by_size.min(1 << 16))
}

/// A run of a trace on a heap of any strategy.
pub trait Pass {
    type Output;
    fn run<S: Strategy>(self, strategy: S) -> Self::Output;
}

/// A heap that places allocations. A slot is alive if its last allocation succeeded and was not freed.
pub trait Strategy {
    /// Places an allocation for a slot. Returns `true` if there was room.
    fn allocate(&mut self, slot: u32, size: u64, alignment: u64) -> bool;

    /// Frees the range of a slot. Does nothing if its allocation failed.
    fn free(&mut self, slot: u32);

    /// Returns the largest end of a range so far, in bytes.
    fn high_water(&self) -> u64;
}

/// A heap of any of the library's range allocators.
struct Ranges<A> {
    allocator: A,
    live: Vec<Option<Range>>,
    high_water: u64,
}

impl<A: RangeAllocator> Ranges<A> {
    fn new(allocator: A, slots: usize) -> Self {
        Self { allocator, live: vec![None; slots], high_water: 0 }
    }
}

impl<A: RangeAllocator> Strategy for Ranges<A> {
    #[inline]
    fn allocate(&mut self, slot: u32, size: u64, alignment: u64) -> bool {
        let Ok(range) = self.allocator.allocate(size, alignment) else { return false };
        self.high_water = self.high_water.max(range.end());
        self.live[slot as usize] = Some(range);
        true
    }

    #[inline]
    fn free(&mut self, slot: u32) {
        if let Some(range) = self.live[slot as usize].take() {
            self.allocator.free(range).expect("a live range is taken back");
        }
    }

    fn high_water(&self) -> u64 {
        self.high_water
    }
}
