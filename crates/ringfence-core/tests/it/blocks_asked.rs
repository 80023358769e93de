//! Tests of the choice of the blocks that are tried for a request, and of the values that blocks report.

use ringfence_core::blocks::{BlockAllocation, BlockId, BlockSource, Blocks, BlocksDesc, BlocksStatistics, GrowError};
use ringfence_core::range::{AllocError, Allocate, FreeError, Invalid, Range, RangeAllocator, Span};
use ringfence_core::tlsf::Tlsf;
use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::rc::Rc;

/// An allocator that counts the calls of `allocate`.
struct Counted(Tlsf, Rc<Cell<u32>>);

impl Allocate for Counted {
    type Allocation = Range;
    type Error = AllocError;

    fn allocate(&mut self, size: u64, alignment: u64) -> Result<Range, AllocError> {
        self.0.allocate(size, alignment)
    }

    fn free(&mut self, range: Range) -> Result<(), FreeError> {
        self.0.free(range)
    }
}

impl RangeAllocator for Counted {
    fn capacity(&self) -> u64 {
        self.0.capacity()
    }
    fn free_size(&self) -> u64 {
        self.0.free_size()
    }
    fn largest_free(&self) -> u64 {
        self.0.largest_free()
    }
    fn may_hold(&self, size: u64) -> bool {
        self.1.set(self.1.get() + 1);
        self.0.may_hold(size)
    }
    fn live_count(&self) -> usize {
        self.0.live_count()
    }
    fn is_live(&self, range: &Range) -> bool {
        self.0.is_live(range)
    }
    fn for_each_span(&self, visit: &mut dyn FnMut(Span)) {
        self.0.for_each_span(visit);
    }
    fn validate(&self) -> Result<(), Invalid> {
        self.0.validate()
    }
}

struct Ours {
    blocks: Blocks<Counted, ()>,
    asked: Rc<Cell<u32>>,
}

impl Ours {
    fn new() -> Self {
        let desc = BlocksDesc { basic_size: 1, destroy_threshold: 0, grace_ticks: 0 };
        Self { blocks: Blocks::new(desc), asked: Rc::default() }
    }

    /// Adds a block with free spans of these sizes, which are freed in this order. A used unit follows each span.
    fn add(&mut self, free: &[u64]) -> BlockId {
        let capacity = free.iter().map(|size| size + 1).sum();
        let id = self.blocks.insert((), Counted(Tlsf::new(capacity), Rc::clone(&self.asked)));
        let mut held = Vec::new();
        for &size in free {
            held.push(self.blocks.allocate_in(id, size, 1).unwrap());
            self.blocks.allocate_in(id, 1, 1).unwrap();
        }
        held.iter().for_each(|held| self.blocks.free(held).unwrap());
        id
    }

    /// Returns the number of blocks that were tried, and the allocation.
    fn allocate(&mut self, size: u64) -> (u32, Option<BlockAllocation>) {
        self.asked.set(0);
        let made = self.blocks.try_allocate(size, 1).ok();
        assert_eq!(self.blocks.validate(), Ok(()));
        (self.asked.get(), made)
    }
}

#[test]
fn a_block_that_refused_a_size_is_not_asked_for_it_again_wherever_it_goes_in_the_order() {
    let mut ours = Ours::new();
    let tens = ours.add(&[10; 5]);
    ours.add(&[5; 9]);
    assert_eq!(ours.allocate(30), (2, None), "both have enough units, but not contiguous");
    assert_eq!(ours.allocate(30), (0, None));
    let (asked, made) = ours.allocate(10);
    assert_eq!(
        (asked, made.map(|made| made.block())),
        (2, Some(tens)),
        "the other block has less free space and is tried first"
    );
    // The block has 40 free units, so it is before the block with 45.
    assert_eq!(ours.allocate(31), (0, None));
    let (asked, made) = ours.allocate(9);
    assert_eq!((asked, made.map(|made| made.block())), (1, Some(tens)));
}

/// An allocator reads only a few spans of a size class. After it has granted a range, a longer span of the class can be
/// among them.
#[test]
fn a_block_that_grants_something_is_asked_again_up_to_the_end_of_the_class_that_it_refused() {
    let mut ours = Ours::new();
    // One class covers 992 to 1007 units; the longest span is last in its list.
    ours.add(&[&[1007][..], &[1000; 36]].concat());
    assert_eq!(ours.allocate(1005), (1, None));
    assert_eq!(ours.allocate(1005), (0, None));
    assert_eq!(ours.allocate(1000).0, 1);
    assert_eq!(ours.allocate(1008), (0, None));
    assert_eq!(ours.allocate(1007), (1, None));
}

#[test]
fn another_call_of_the_allocator_meets_each_block_with_the_space() {
    let mut ours = Ours::new();
    let (small, large) = (ours.add(&[10]), ours.add(&[50]));
    let mut met = Vec::new();
    let made = ours.blocks.try_allocate_by(5, |ranges| {
        met.push(ranges.capacity());
        if ranges.capacity() > 20 { ranges.0.allocate_below(5, 1, 40) } else { None }
    });
    assert_eq!((met, made.map(|made| made.block())), (vec![11, 51], Some(large)));
    assert_eq!(ours.blocks.try_allocate_by(11, |ranges| ranges.0.allocate_below(100, 1, 1000)), None);
    assert_eq!(ours.blocks.get(small).map(|(_, ranges)| ranges.free_size()), Some(10));
    assert_eq!(ours.blocks.validate(), Ok(()));
}

#[test]
fn blocks_are_counted_and_their_heaps_can_be_changed() {
    let mut blocks = Blocks::new(BlocksDesc { basic_size: 100, destroy_threshold: 0, grace_ticks: 0 });
    let ids = ["first", "second", "third"].map(|heap| blocks.insert(heap, Tlsf::new(100)));
    blocks.allocate_in(ids[1], 30, 1).unwrap();
    let expected = BlocksStatistics {
        block_count: 3,
        empty_count: 2,
        capacity: 300,
        free_size: 270,
        largest_free: 100,
        live_count: 1,
    };
    assert_eq!(blocks.statistics(), expected);
    *blocks.heap_mut(ids[1]).unwrap() = "another";
    assert_eq!(blocks.get(ids[1]).map(|(heap, _)| *heap), Some("another"));
    assert!(blocks.remove_empty(ids[0]).is_some() && blocks.heap_mut(ids[0]).is_none());
}

/// An empty block is removed after the same number of ticks for every first tick.
#[test]
fn the_grace_is_a_number_of_ticks_and_not_a_tick() {
    for first in [0, 1, 7, 1000, u64::MAX - 100] {
        let mut blocks = Blocks::new(BlocksDesc { basic_size: 100, destroy_threshold: 0, grace_ticks: 5 });
        blocks.insert((), Tlsf::new(100));
        let gone = (first..first + 20).find(|tick| blocks.take_surplus(*tick).is_some());
        assert_eq!(gone, Some(first + 5));
    }
}

#[derive(Debug)]
struct NoMemory;

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no memory")
    }
}

impl Error for NoMemory {}

struct NoSource;

impl BlockSource for NoSource {
    type Heap = ();
    type Allocator = Tlsf;
    type Error = NoMemory;

    fn create(&mut self, _: u64) -> Result<((), Tlsf), NoMemory> {
        Err(NoMemory)
    }

    fn destroy(&mut self, (): ()) {}
}

#[test]
fn an_error_names_its_cause() {
    let mut blocks = Blocks::new(BlocksDesc::default());
    let error = blocks.allocate_with(10, 1, &mut NoSource).unwrap_err();
    assert!(matches!(error, GrowError::Create { .. }));
    assert!(error.source().is_some_and(|cause| cause.is::<NoMemory>()));
    let error = blocks.allocate_with(0, 1, &mut NoSource).unwrap_err();
    assert!(error.source().is_some_and(|cause| cause.is::<AllocError>()));
}

/// An allocator can be inserted while it has deferred spans and ranges with rounded sizes.
#[test]
fn an_allocator_that_deferred_frees_may_come_in_late() {
    let mut alone = Tlsf::new(1 << 17);
    let held: Vec<_> = (0..1100).map(|number| alone.allocate(70 + number % 41, 1).unwrap()).collect();
    held[..1000].iter().for_each(|range| alone.free(*range).unwrap());
    let held: Vec<_> = (0..40).map(|number| alone.allocate(69 + number % 41, 1).unwrap()).collect();
    assert!(alone.deferred_size() > 0);
    let mut blocks = Blocks::new(BlocksDesc { basic_size: 1 << 17, destroy_threshold: 0, grace_ticks: 0 });
    let id = blocks.insert((), alone);
    for range in held {
        blocks.free(&BlockAllocation::new(id, range)).unwrap();
        assert_eq!(blocks.validate(), Ok(()));
        let peeked = blocks.peek(100, 4).unwrap();
        let made = blocks.try_allocate(100, 4).unwrap();
        assert_eq!((made.block(), made.offset()), peeked);
    }
}
