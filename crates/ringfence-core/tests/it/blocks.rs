//! Tests of growable blocks: comparisons with a naive twin, for two kinds of sub-allocators, and tests of the rules of
//! `docs/acceptance.md`, which they are named after.

use crate::common;

use proptest::prelude::*;
use ringfence_core::blocks::{
    BlockAllocation, BlockSource, Blocks, BlocksDesc, GrowError, GrowableBlocks, OldestFirst, Order,
};
use ringfence_core::range::{
    AllocError, Allocate, FreeError, Invalid, Range, RangeAllocator, Serials, Span, align_up, check_request,
};
use ringfence_core::tlsf::Tlsf;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A simple sub-allocator: first fit over a sorted vector. It reserves multiples of `GRAIN` units.
///
/// `probes` counts the calls of `allocate`.
#[derive(Debug)]
struct FirstFit<const GRAIN: u64> {
    capacity: u64,
    live: Vec<Range>,
    serials: Serials,
    probes: Rc<Cell<usize>>,
}

impl<const GRAIN: u64> FirstFit<GRAIN> {
    fn counted(capacity: u64, probes: &Rc<Cell<usize>>) -> Self {
        Self { capacity, live: Vec::new(), serials: Serials::new(), probes: Rc::clone(probes) }
    }

    fn aside(size: u64) -> u64 {
        size.next_multiple_of(GRAIN)
    }

    fn holes(&self) -> Vec<(u64, u64)> {
        let ends = std::iter::once(0).chain(self.live.iter().map(|range| range.offset() + Self::aside(range.size())));
        let starts = self.live.iter().map(Range::offset).chain(std::iter::once(self.capacity));
        ends.zip(starts).filter(|(from, to)| from < to).collect()
    }
}

impl<const GRAIN: u64> Allocate for FirstFit<GRAIN> {
    type Allocation = Range;
    type Error = AllocError;

    fn allocate(&mut self, size: u64, alignment: u64) -> Result<Range, AllocError> {
        self.probes.set(self.probes.get() + 1);
        check_request(size, alignment, self.capacity)?;
        let fitting = self.holes().into_iter().find_map(|(from, to)| {
            let offset = align_up(from, alignment)?;
            (offset + Self::aside(size) <= to).then_some(offset)
        });
        let Some(offset) = fitting else {
            let (free, largest_free) = (self.free_size(), self.largest_free());
            return Err(AllocError::OutOfSpace { size, alignment, free, largest_free });
        };
        let range = Range::new(offset, size, 0, self.serials.draw());
        self.live.insert(self.live.partition_point(|other| other.offset() < offset), range);
        Ok(range)
    }

    fn free(&mut self, range: Range) -> Result<(), FreeError> {
        let at = self.live.iter().position(|live| *live == range).ok_or_else(|| self.serials.refuse(&range))?;
        self.live.remove(at);
        Ok(())
    }
}

impl<const GRAIN: u64> RangeAllocator for FirstFit<GRAIN> {
    fn capacity(&self) -> u64 {
        self.capacity
    }
    fn free_size(&self) -> u64 {
        self.holes().iter().map(|(from, to)| to - from).sum()
    }
    fn largest_free(&self) -> u64 {
        self.holes().iter().map(|(from, to)| (to - from) / GRAIN * GRAIN).max().unwrap_or(0)
    }
    fn live_count(&self) -> usize {
        self.live.len()
    }
    fn is_live(&self, range: &Range) -> bool {
        self.live.contains(range)
    }
    fn for_each_span(&self, _: &mut dyn FnMut(Span)) {
        unimplemented!("the blocks do not call this")
    }
    fn validate(&self) -> Result<(), Invalid> {
        Ok(())
    }
}

/// Creates a sub-allocator for a test.
trait Make: RangeAllocator {
    fn make(capacity: u64, probes: &Rc<Cell<usize>>) -> Self;
}

impl Make for Tlsf {
    fn make(capacity: u64, _: &Rc<Cell<usize>>) -> Self {
        Tlsf::new(capacity)
    }
}

impl<const GRAIN: u64> Make for FirstFit<GRAIN> {
    fn make(capacity: u64, probes: &Rc<Cell<usize>>) -> Self {
        Self::counted(capacity, probes)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NoMemory;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    Works,
    Fails,
    /// Creates a heap whose allocator has fewer units than requested.
    MakesSmall,
}

/// A block source whose heaps are numbers. It records the heaps that exist.
struct Source<A> {
    mood: Mood,
    made: Vec<u64>,
    out: BTreeSet<usize>,
    probes: Rc<Cell<usize>>,
    _makes: std::marker::PhantomData<A>,
}

impl<A> Source<A> {
    fn new() -> Self {
        let (made, out, probes) = (Vec::new(), BTreeSet::new(), Rc::default());
        Self { mood: Mood::Works, made, out, probes, _makes: std::marker::PhantomData }
    }
}

impl<A: Make> BlockSource for Source<A> {
    type Heap = usize;
    type Allocator = A;
    type Error = NoMemory;

    fn create(&mut self, size: u64) -> Result<(usize, A), NoMemory> {
        if self.mood == Mood::Fails {
            return Err(NoMemory);
        }
        let capacity = if self.mood == Mood::MakesSmall { 1 } else { size };
        self.made.push(size);
        self.out.insert(self.made.len() - 1);
        Ok((self.made.len() - 1, A::make(capacity, &self.probes)))
    }

    fn destroy(&mut self, heap: usize) {
        assert!(self.out.remove(&heap), "heap {heap} is destroyed twice");
    }
}

type Growable<A> = GrowableBlocks<Source<A>>;

fn growable<A: Make>(basic_size: u64, destroy_threshold: usize, grace_ticks: u64) -> Growable<A> {
    GrowableBlocks::new(BlocksDesc { basic_size, destroy_threshold, grace_ticks }, Source::new())
}

// ---- the naive twin ----------------------------------------------------------------------------------------------

/// A block of the twin, in order of creation. The twin always sorts and searches all blocks.
struct TwinBlock<A> {
    heap: usize,
    slot: usize,
    allocator: A,
    empty_since: Option<(u64, usize)>,
}

struct Twin<A> {
    desc: BlocksDesc,
    /// `true` if the lowest slot is tried first, otherwise the fullest block.
    oldest_first: bool,
    blocks: Vec<TwinBlock<A>>,
    /// Slots of removed blocks. The next block gets the last of them.
    vacant: Vec<usize>,
    made: usize,
    now: u64,
    emptied: usize,
}

impl<A: Make> Twin<A> {
    /// Returns the heap and the allocated range; `None` if a new block is needed and `may_grow` is `false`.
    fn allocate(&mut self, size: u64, alignment: u64, may_grow: bool) -> Option<(usize, Range)> {
        let mut order: Vec<_> = (0..self.blocks.len()).collect();
        order.sort_by_key(|&at| {
            let block = &self.blocks[at];
            if self.oldest_first { (0, block.slot) } else { (block.allocator.free_size(), at) }
        });
        for at in order {
            let block = &mut self.blocks[at];
            if block.allocator.largest_free() < size {
                continue;
            }
            if let Ok(range) = block.allocator.allocate(size, alignment) {
                block.empty_since = None;
                return Some((block.heap, range));
            }
        }
        if !may_grow {
            return None;
        }
        let mut allocator = A::make(size.max(self.desc.basic_size), &Rc::default());
        let range = allocator.allocate(size, alignment).unwrap();
        let heap = self.made;
        self.made += 1;
        let slot = self.vacant.pop().unwrap_or(self.blocks.len());
        self.blocks.push(TwinBlock { heap, slot, allocator, empty_since: None });
        Some((heap, range))
    }

    fn free(&mut self, heap: usize, range: Range) {
        self.emptied += 1;
        let emptied = self.emptied;
        let block = self.blocks.iter_mut().find(|block| block.heap == heap).unwrap();
        block.allocator.free(range).unwrap();
        if block.allocator.is_empty() {
            block.empty_since = Some((u64::MAX, emptied));
        }
    }

    fn remove(&mut self, at: usize) {
        self.vacant.push(self.blocks.remove(at).slot);
    }

    fn longest_empty(&self) -> Option<usize> {
        let empty = self.blocks.iter().enumerate().filter(|(_, block)| block.empty_since.is_some());
        empty.min_by_key(|(_, block)| block.empty_since).map(|(at, _)| at)
    }

    fn tick(&mut self, by: u64) {
        self.now += by;
        for since in self.blocks.iter_mut().filter_map(|block| block.empty_since.as_mut()) {
            since.0 = since.0.min(self.now);
        }
        while let Some(at) = self.longest_empty() {
            let count = self.blocks.iter().filter(|block| block.empty_since.is_some()).count();
            let idle = self.now - self.blocks[at].empty_since.unwrap().0;
            if count <= self.desc.destroy_threshold || idle == 0 || idle < self.desc.grace_ticks {
                return;
            }
            self.remove(at);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Allocate { size: u64, alignment_log2: u8, mood: Mood },
    Free(usize),
    FreeAgain(usize),
    FreeElsewhere(usize),
    Tick(u64),
    Trim,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let moods = prop_oneof![8 => Just(Mood::Works), 1 => Just(Mood::Fails), 1 => Just(Mood::MakesSmall)];
    let step = prop_oneof![
        8 => (2_u64..60, 0_u8..5, moods)
            .prop_map(|(size, alignment_log2, mood)| Step::Allocate { size, alignment_log2, mood }),
        1 => (60_u64..300, 0_u8..9)
            .prop_map(|(size, alignment_log2)| Step::Allocate { size, alignment_log2, mood: Mood::Works }),
        8 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::FreeAgain),
        1 => any::<usize>().prop_map(Step::FreeElsewhere),
        2 => (0_u64..4).prop_map(Step::Tick),
        1 => Just(Step::Trim),
    ];
    prop::collection::vec(step, 1..150)
}

fn agrees_with_the_twin<A: Make>(desc: BlocksDesc, steps: &[Step]) -> Result<(), TestCaseError> {
    agrees_in_order::<A, _>(GrowableBlocks::new, desc, false, steps)?;
    agrees_in_order::<A, _>(GrowableBlocks::oldest_first, desc, true, steps)
}

fn agrees_in_order<A: Make, O: Order>(
    new: impl Fn(BlocksDesc, Source<A>) -> GrowableBlocks<Source<A>, O>,
    desc: BlocksDesc,
    oldest_first: bool,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let (mut ours, mut elsewhere) = (new(desc, Source::new()), new(desc, Source::new()));
    let mut twin =
        Twin::<A> { desc, oldest_first, blocks: Vec::new(), vacant: Vec::new(), made: 0, now: 0, emptied: 0 };
    let (mut live, mut dead): (Vec<(BlockAllocation, usize, Range)>, Vec<BlockAllocation>) = Default::default();
    for step in steps {
        match *step {
            Step::Allocate { size, alignment_log2, mood } => {
                let before = (ours.blocks().statistics(), ours.source().out.clone());
                ours.source_mut().mood = mood;
                let granted = ours.allocate(size, 1 << alignment_log2);
                match twin.allocate(size, 1 << alignment_log2, mood == Mood::Works) {
                    Some((heap, range)) => {
                        let granted = granted.map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
                        prop_assert_eq!(ours.heap(&granted), Some(&heap));
                        prop_assert_eq!((granted.offset(), granted.size()), (range.offset(), range.size()));
                        prop_assert!(ours.blocks().is_live(&granted));
                        live.push((granted, heap, range));
                    }
                    None => {
                        let is_due = match granted {
                            Err(GrowError::Create { error: NoMemory, .. }) => mood == Mood::Fails,
                            Err(GrowError::FirstAllocation { .. }) => mood == Mood::MakesSmall,
                            _ => false,
                        };
                        prop_assert!(is_due, "{:?}", granted);
                        prop_assert_eq!((ours.blocks().statistics(), &ours.source().out), (before.0, &before.1));
                        twin.made = ours.source().made.len();
                    }
                }
            }
            Step::Free(number) if !live.is_empty() => {
                let (allocation, heap, range) = live.swap_remove(number % live.len());
                prop_assert_eq!(ours.free(allocation), Ok(()));
                twin.free(heap, range);
                dead.push(allocation);
            }
            Step::FreeAgain(number) if !dead.is_empty() => {
                let allocation = dead[number % dead.len()];
                let stale = FreeError::Stale { offset: allocation.offset(), size: allocation.size() };
                prop_assert!(!ours.blocks().is_live(&allocation));
                prop_assert_eq!(ours.free(allocation), Err(stale));
            }
            Step::FreeElsewhere(number) if !live.is_empty() => {
                let (allocation, ..) = live[number % live.len()];
                elsewhere.allocate(allocation.size(), 1).unwrap();
                let foreign = FreeError::Foreign { offset: allocation.offset(), size: allocation.size() };
                prop_assert_eq!(elsewhere.free(allocation), Err(foreign));
            }
            Step::Tick(by) => {
                twin.tick(by);
                ours.destroy_surplus(twin.now);
            }
            Step::Trim => {
                while let Some(at) = twin.longest_empty() {
                    twin.remove(at);
                }
                ours.trim();
            }
            _ => {}
        }
        prop_assert_eq!(ours.blocks().validate(), Ok(()));
        let heaps: BTreeSet<_> = twin.blocks.iter().map(|block| block.heap).collect();
        prop_assert_eq!(&ours.source().out, &heaps);
        prop_assert_eq!(ours.blocks().statistics().live_count, live.len());
        prop_assert_eq!(ours.blocks().block_count(), heaps.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(common::cases(192)))]

    #[test]
    fn agrees_with_the_twin_over_tlsf(threshold in 0_usize..4, grace_ticks in 0_u64..4, steps in steps()) {
        let desc = BlocksDesc { basic_size: 100, destroy_threshold: threshold, grace_ticks };
        agrees_with_the_twin::<Tlsf>(desc, &steps)?;
    }

    #[test]
    fn agrees_with_the_twin_over_first_fit(threshold in 0_usize..4, grace_ticks in 0_u64..4, steps in steps()) {
        let desc = BlocksDesc { basic_size: 100, destroy_threshold: threshold, grace_ticks };
        agrees_with_the_twin::<FirstFit<1>>(desc, &steps)?;
    }
}

// ---- the rows ----------------------------------------------------------------------------------------------------

#[test]
fn seed_000_04_size_zero_and_bad_alignments_are_refused_as_values() {
    let mut ours = growable::<Tlsf>(100, 0, 0);
    assert_eq!(ours.allocate(0, 1), Err(GrowError::Request(AllocError::ZeroSize)));
    assert_eq!(ours.allocate(1, 6), Err(GrowError::Request(AllocError::BadAlignment { alignment: 6 })));
    assert_eq!(ours.source().made, [] as [u64; 0], "no heap is created for an invalid request");
}

#[test]
fn seed_000_13_blocks_come_on_demand_and_a_result_is_heap_start_and_length() {
    let mut ours = growable::<Tlsf>(100, 0, 0);
    assert_eq!(ours.blocks().block_count(), 0);
    let first = ours.allocate(60, 1).unwrap();
    assert_eq!((ours.source().made.len(), ours.blocks().block_count()), (1, 1), "one request creates one block");
    let second = ours.allocate(50, 1).unwrap();
    let third = ours.allocate(30, 1).unwrap();
    assert_eq!((ours.heap(&first), first.offset(), first.size()), (Some(&0), 0, 60));
    assert_eq!((ours.heap(&second), second.offset(), second.size()), (Some(&1), 0, 50));
    assert_eq!((ours.heap(&third), third.offset(), third.size()), (Some(&0), 60, 30));
    assert_eq!((first.block(), first.block() == second.block()), (third.block(), false));
    let ids: Vec<_> = ours.blocks().iter().map(|(id, &heap, allocator)| (id, heap, allocator.live_count())).collect();
    assert_eq!(ids, [(first.block(), 0, 2), (second.block(), 1, 1)]);
    assert_eq!(ours.source().made, [100, 100], "no block is created for a request that fits");
    // Requests with an alignment, and one above the basic size.
    let results = [(20, 64), (150, 32), (50, 64)].map(|(size, alignment)| {
        let allocation = ours.allocate(size, alignment).unwrap();
        (*ours.heap(&allocation).unwrap(), allocation.offset(), allocation.size())
    });
    assert_eq!(results, [(1, 64, 20), (2, 0, 150), (3, 0, 50)]);
    assert_eq!((ours.source().made.as_slice(), ours.blocks().block_count()), ([100, 100, 150, 100].as_slice(), 4));
    assert!(size_of::<BlockAllocation>() <= 40);
}

/// Creates a block of 100 units for each element of `used`, which is the number of its used units. The heaps are 0, 1,
/// 2, … Also returns the counter of the calls of `allocate`.
fn blocks_with<const GRAIN: u64>(
    used: &[u64],
) -> (Blocks<FirstFit<GRAIN>, usize>, Vec<BlockAllocation>, Rc<Cell<usize>>) {
    let probes = Rc::new(Cell::new(0));
    let mut blocks = Blocks::new(BlocksDesc { basic_size: 100, destroy_threshold: 0, grace_ticks: 0 });
    let mut held = Vec::new();
    for (heap, &used) in used.iter().enumerate() {
        let id = blocks.insert(heap, FirstFit::counted(100, &probes));
        if used > 0 {
            held.push(blocks.allocate_in(id, used, 1).unwrap());
        }
    }
    probes.set(0);
    (blocks, held, probes)
}

fn heap_of<const GRAIN: u64>(
    blocks: &Blocks<FirstFit<GRAIN>, usize, impl Order>,
    allocation: &BlockAllocation,
) -> usize {
    *blocks.get(allocation.block()).unwrap().0
}

#[test]
fn seed_000_14_blocks_are_tried_in_ascending_order_of_free_size_then_age() {
    let (mut blocks, _held, probes) = blocks_with::<1>(&[30, 70, 50, 70]);
    let heaps = [25, 25, 35, 30, 30, 15].map(|size| {
        let allocation = blocks.try_allocate(size, 1).unwrap();
        assert_eq!(blocks.validate(), Ok(()));
        heap_of(&blocks, &allocation)
    });
    // Free units of the four blocks after each step: 70 30 50 30; 70 5 50 30; 70 5 50 5; 70 5 15 5; 40 5 15 5; 10 5 15
    // 5; 10 5 0 5.
    assert_eq!(heaps, [1, 3, 2, 0, 0, 2]);
    assert_eq!(probes.get(), 6, "blocks with too little space were not tried");
}

#[test]
fn the_oldest_block_is_tried_first_and_one_that_refuses_is_passed_over() {
    let desc = BlocksDesc { basic_size: 100, destroy_threshold: 0, grace_ticks: 0 };
    let (mut blocks, probes) = (Blocks::oldest_first(desc), Rc::default());
    let ids = [0, 1, 2].map(|heap| blocks.insert(heap, FirstFit::<1>::counted(100, &probes)));
    let mut heaps = Vec::new();
    let mut allocate = |blocks: &mut Blocks<_, usize, OldestFirst>, size| {
        let made = blocks.try_allocate(size, 1).unwrap();
        assert_eq!(blocks.validate(), Ok(()));
        heaps.push(heap_of(blocks, &made));
        made
    };
    let first = allocate(&mut blocks, 90);
    allocate(&mut blocks, 20);
    allocate(&mut blocks, 10);
    allocate(&mut blocks, 1);
    // The oldest block has more room than the fullest one.
    blocks.free(&first).unwrap();
    allocate(&mut blocks, 70);
    allocate(&mut blocks, 75);
    // A block in the slot of a removed one is as old as that slot.
    let third = allocate(&mut blocks, 85);
    blocks.free(&third).unwrap();
    assert_eq!(blocks.remove_empty(ids[2]), Some(2));
    blocks.insert(3, FirstFit::counted(100, &probes));
    blocks.insert(4, FirstFit::counted(100, &probes));
    allocate(&mut blocks, 90);
    assert_eq!(heaps, [0, 1, 0, 1, 0, 1, 2, 3]);
    let high = blocks.try_allocate_by(90, |ranges| ranges.allocate(90, 1).ok());
    assert_eq!(high.map(|made| heap_of(&blocks, &made)), Some(4));
}

/// The order follows the current free sizes, and a block in a reused slot does not count as older.
#[test]
fn seed_000_14_the_order_holds_after_a_free() {
    let (mut blocks, held, probes) = blocks_with::<1>(&[60, 40, 20]);
    let more = [(0, 20), (1, 20), (2, 40)].map(|(at, size)| blocks.allocate_in(held[at].block(), size, 1).unwrap());
    // Free units of the three blocks: 20 40 40, then 80 40 40, 80 60 40, 80 60 60 and 80 60 100.
    let heaps = [&held[0], &more[1], &held[2], &more[2]].map(|freed| {
        blocks.free(freed).unwrap();
        let next = blocks.try_allocate(20, 1).unwrap();
        let heap = heap_of(&blocks, &next);
        blocks.free(&next).unwrap();
        assert_eq!(blocks.validate(), Ok(()));
        heap
    });
    assert_eq!(heaps, [1, 2, 1, 1]);
    // Block 2 is empty. Another block takes its slot, and is younger than a fourth block of the same size.
    assert_eq!(blocks.remove_empty(held[2].block()), Some(2));
    probes.set(0);
    let [third, _] = [3, 4].map(|heap| blocks.insert(heap, FirstFit::counted(70, &probes)));
    assert_eq!(blocks.remove_empty(third), Some(3));
    blocks.insert(5, FirstFit::counted(70, &probes));
    let heaps = [70, 70, 60].map(|size| {
        let next = blocks.try_allocate(size, 1).unwrap();
        heap_of(&blocks, &next)
    });
    assert_eq!((heaps, probes.get()), ([4, 5, 1], 3));
}

#[test]
fn seed_000_14_a_block_that_refuses_is_passed_over() {
    let (mut blocks, held, probes) = blocks_with::<1>(&[61, 50, 0]);
    let allocation = blocks.try_allocate(30, 64).unwrap();
    // The span 61..100 fits the 30 units at offset 64, as does the span 50..100. The next request fits in neither.
    assert_eq!((heap_of(&blocks, &allocation), allocation.offset()), (0, 64));
    probes.set(0);
    let allocation = blocks.try_allocate(40, 64).unwrap();
    assert_eq!((heap_of(&blocks, &allocation), allocation.offset()), (2, 0));
    assert_eq!(probes.get(), 2, "block 1 has 50 contiguous units, but misaligned");
    // A block that refused a request is tried again after a free.
    blocks.free(&held[1]).unwrap();
    blocks.free(&allocation).unwrap();
    let _keep = blocks.allocate_in(held[1].block(), 1, 1).unwrap();
    let allocation = blocks.try_allocate(90, 1).unwrap();
    assert_eq!((heap_of(&blocks, &allocation), allocation.offset()), (1, 1));
}

#[test]
fn seed_000_15_a_new_block_has_the_basic_size_or_that_of_a_larger_request() {
    let mut ours = growable::<Tlsf>(100, 0, 0);
    ours.allocate(1, 1).unwrap();
    ours.allocate(100, 1).unwrap();
    let large = ours.allocate(101, 1).unwrap();
    assert_eq!((ours.source().made.as_slice(), large.offset()), ([100, 100, 101].as_slice(), 0));
    // No alignment needs a larger block, because offset 0 is a multiple of every alignment.
    for alignment_log2 in 0..64 {
        let aligned = ours.allocate(1001, 1 << alignment_log2).unwrap();
        assert_eq!((ours.source().made.last(), aligned.offset()), (Some(&1001), 0));
    }
}

#[test]
fn seed_000_16_the_caller_supplies_heaps_and_allocators() {
    /// A block source whose heaps are words. Each allocator has one unit per letter.
    struct Words(Vec<&'static str>);
    impl BlockSource for Words {
        type Heap = &'static str;
        type Allocator = FirstFit<1>;
        type Error = ();
        fn create(&mut self, _: u64) -> Result<(&'static str, FirstFit<1>), ()> {
            let word = self.0.pop().ok_or(())?;
            Ok((word, FirstFit::make(word.len() as u64, &Rc::default())))
        }
        fn destroy(&mut self, heap: &'static str) {
            self.0.push(heap);
        }
    }
    let mut ours =
        GrowableBlocks::new(BlocksDesc { basic_size: 1, ..Default::default() }, Words(vec!["heap", "block"]));
    let (first, second) = (ours.allocate(5, 1).unwrap(), ours.allocate(4, 1).unwrap());
    assert_eq!((ours.heap(&first), ours.heap(&second)), (Some(&"block"), Some(&"heap")));
    assert_eq!(ours.allocate(1, 1), Err(GrowError::Create { block_size: 1, error: () }));
    ours.free(first).unwrap();
    ours.trim();
    assert_eq!(ours.source().0, ["block"]);
}

#[test]
fn seed_000_17_a_full_block_leaves_the_index_and_a_free_brings_it_back() {
    let (mut blocks, held, probes) = blocks_with::<1>(&[100, 40, 100]);
    let id = held[0].block();
    assert_eq!(blocks.validate(), Ok(()), "no full block is in the index");
    assert_eq!(blocks.free_and_initial_size(id), Some((0, 100)));
    assert_eq!(blocks.free_and_initial_size(held[1].block()), Some((60, 100)));
    let rest = blocks.try_allocate(60, 1).unwrap();
    assert_eq!((probes.replace(0), heap_of(&blocks, &rest), blocks.validate()), (1, 1, Ok(())));
    // Inserts a full block, and fills a block with `allocate_in_by`.
    let mut full = FirstFit::counted(100, &Rc::default());
    full.allocate(100, 1).unwrap();
    blocks.insert(3, full);
    let id_by = blocks.insert(4, FirstFit::counted(100, &probes));
    blocks.allocate_in_by(id_by, |ranges| ranges.allocate(100, 1).ok()).unwrap();
    probes.set(0);
    assert!(blocks.try_allocate(1, 1).is_err());
    assert!(blocks.try_allocate_by(0, |_| panic!("it is full")).is_none());
    assert_eq!((probes.get(), blocks.validate()), (0, Ok(())), "all are full, none is tried");
    blocks.free(&held[0]).unwrap();
    assert_eq!((blocks.free_and_initial_size(id), blocks.validate()), (Some((100, 100)), Ok(())));
    let again = blocks.try_allocate(1, 1).unwrap();
    assert_eq!(heap_of(&blocks, &again), 0);
}

#[test]
fn seed_000_18_empty_blocks_are_kept_up_to_the_threshold_and_the_excess_goes() {
    let mut ours = growable::<Tlsf>(100, 2, 0);
    let all = [(); 5].map(|()| ours.allocate(100, 1).unwrap());
    for allocation in all {
        ours.free(allocation).unwrap();
    }
    assert_eq!((ours.blocks().empty_count(), ours.source().out.len()), (5, 5), "no block is removed within the tick");
    let reused = ours.allocate(100, 1).unwrap();
    assert_eq!((ours.heap(&reused), ours.blocks().empty_count()), (Some(&0), 4), "a reused block is not empty");
    assert_eq!((ours.destroy_surplus(1), ours.destroy_surplus(2)), (0, 2));
    assert_eq!(ours.source().out, BTreeSet::from([0, 3, 4]), "the longest empty blocks were destroyed");
    assert_eq!((ours.destroy_surplus(100), ours.blocks().empty_count()), (0, 2), "the threshold is kept permanently");
    assert_eq!((ours.trim(), ours.source().out.len()), (2, 1), "unless memory runs short");
    assert_eq!(ours.blocks().validate(), Ok(()));
}

/// Growable blocks implement the same contract as their sub-allocators.
const fn keeps_the_contract<T: Allocate<Allocation = BlockAllocation>>() {}
const _: () = keeps_the_contract::<Growable<Tlsf>>();
const _: () = keeps_the_contract::<Growable<FirstFit<1>>>();

#[test]
fn fault_01_a_threshold_of_0_does_not_make_a_heap_at_each_pair() {
    let mut ours = growable::<Tlsf>(100, 0, 0);
    for tick in 0..10 {
        for _ in 0..100 {
            let allocation = ours.allocate(100, 1).unwrap();
            ours.free(allocation).unwrap();
            assert_eq!(ours.destroy_surplus(tick), 0, "not within the tick in which it became empty");
        }
    }
    assert_eq!(ours.source().made.len(), 1, "a heap in use every tick is made once");
    assert_eq!((ours.destroy_surplus(10), ours.source().out.len()), (1, 0), "a tick without use ends it");
}

#[test]
fn fault_01_the_longest_empty_goes_first_and_only_after_its_grace() {
    let mut ours = growable::<Tlsf>(100, 1, 10);
    let all = [(); 4].map(|()| ours.allocate(100, 1).unwrap());
    for (tick, at) in [(1, 2), (3, 0), (3, 3), (5, 1)] {
        ours.free(all[at]).unwrap();
        ours.destroy_surplus(tick);
    }
    let mut gone = Vec::new();
    for tick in 5..30 {
        let before = ours.source().out.clone();
        ours.destroy_surplus(tick);
        gone.extend(before.difference(&ours.source().out).map(|&heap| (tick, heap)));
        assert_eq!(ours.blocks().validate(), Ok(()));
    }
    assert_eq!(gone, [(11, 2), (13, 0), (13, 3)]);
    assert_eq!(ours.source().out, BTreeSet::from([1]));
}

/// The free size excludes all reserved units: three requests of 20 units reserve 3 × 32 of the 100 units.
#[test]
fn fault_02_free_size_is_true_to_rounding() {
    let (mut blocks, held, probes) = blocks_with::<32>(&[20]);
    let id = held[0].block();
    blocks.try_allocate(20, 1).unwrap();
    blocks.try_allocate(20, 1).unwrap();
    assert_eq!(blocks.free_and_initial_size(id), Some((4, 100)));
    probes.set(0);
    assert!(blocks.try_allocate(20, 1).is_err());
    assert_eq!(probes.get(), 0, "it is not tried for 20 units with 4 left");
}

#[test]
fn fault_02_a_block_without_a_long_enough_span_is_not_asked_again_and_again() {
    let (mut blocks, _held, probes) = blocks_with::<1>(&[0]);
    let tens: Vec<_> = (0..10).map(|_| blocks.try_allocate(10, 1).unwrap()).collect();
    for allocation in tens.iter().step_by(2) {
        blocks.free(allocation).unwrap();
    }
    probes.set(0);
    let error = AllocError::OutOfSpace { size: 20, alignment: 1, free: 50, largest_free: 10 };
    for _ in 0..100 {
        assert_eq!(blocks.try_allocate(20, 1), Err(error), "50 are free, but only 10 contiguous");
    }
    assert_eq!(probes.get(), 0);
    blocks.free(&tens[1]).unwrap();
    assert_eq!(
        blocks.try_allocate(20, 1).map(|allocation| allocation.offset()),
        Ok(0),
        "now there are 30 contiguous units"
    );
}

#[test]
fn fault_03_a_failed_heap_is_an_error_and_changes_nothing() {
    let mut ours = growable::<Tlsf>(100, 0, 0);
    let held = ours.allocate(60, 1).unwrap();
    let before = ours.blocks().statistics();
    ours.source_mut().mood = Mood::Fails;
    assert_eq!(ours.allocate(50, 1), Err(GrowError::Create { block_size: 100, error: NoMemory }));
    assert_eq!(ours.allocate(500, 1), Err(GrowError::Create { block_size: 500, error: NoMemory }));
    assert_eq!((ours.blocks().statistics(), ours.blocks().validate()), (before, Ok(())));
    assert!(ours.allocate(40, 1).is_ok(), "a request that needs no heap still succeeds");
    assert!(ours.blocks().is_live(&held));
}

#[test]
fn fault_03_a_refused_first_allocation_gives_the_heap_back() {
    let mut ours = growable::<Tlsf>(100, 0, 0);
    ours.allocate(60, 1).unwrap();
    let before = ours.blocks().statistics();
    ours.source_mut().mood = Mood::MakesSmall;
    let error = AllocError::TooLarge { size: 50, capacity: 1 };
    assert_eq!(ours.allocate(50, 1), Err(GrowError::FirstAllocation { block_size: 100, error }));
    assert_eq!(ours.source().made.len(), 2, "a heap was created");
    assert_eq!(ours.source().out, BTreeSet::from([0]), "and destroyed");
    assert_eq!((ours.blocks().statistics(), ours.blocks().validate()), (before, Ok(())));
}

// ---- stale, foreign, forged --------------------------------------------------------------------------------------

#[test]
fn seed_000_03_a_stale_allocation_is_refused_when_its_slot_holds_another_block() {
    let mut ours = growable::<Tlsf>(100, 0, 0);
    let old = ours.allocate(100, 1).unwrap();
    ours.free(old).unwrap();
    assert_eq!(ours.free(old), Err(FreeError::Stale { offset: 0, size: 100 }), "its block exists");
    ours.trim();
    assert_eq!(ours.free(old), Err(FreeError::Stale { offset: 0, size: 100 }), "its block was removed");
    let new = ours.allocate(100, 1).unwrap();
    assert_eq!(ours.free(old), Err(FreeError::Stale { offset: 0, size: 100 }), "its slot holds another block");
    assert_ne!(old.block(), new.block());
    assert_eq!((ours.heap(&old), ours.heap(&new)), (None, Some(&1)));
    assert!(ours.blocks().is_live(&new) && !ours.blocks().is_live(&old));
    assert_eq!(ours.free(new), Ok(()));
}

#[test]
fn seed_000_03_foreign_and_forged_allocations_are_refused() {
    let (mut ours, mut theirs) = (growable::<Tlsf>(100, 0, 0), growable::<Tlsf>(100, 0, 0));
    let (mine, other) = (ours.allocate(100, 1).unwrap(), ours.allocate(100, 1).unwrap());
    let foreign = theirs.allocate(100, 1).unwrap();
    assert_eq!(ours.free(foreign), Err(FreeError::Foreign { offset: 0, size: 100 }));
    for forged in [
        BlockAllocation::new(mine.block(), other.range()),
        BlockAllocation::new(foreign.block(), mine.range()),
        BlockAllocation::new(mine.block(), foreign.range()),
    ] {
        assert!(!ours.blocks().is_live(&forged));
        assert!(ours.free(forged).is_err());
        assert_eq!(ours.blocks().validate(), Ok(()));
    }
    assert!(ours.free(mine).is_ok() && ours.free(other).is_ok() && theirs.free(foreign).is_ok());
}

// ---- two phases, for callers with a lock -------------------------------------------------------------------------

#[test]
fn a_heap_made_outside_of_the_lock_comes_in_with_its_first_allocation() {
    let mut blocks = Blocks::<Tlsf, &str>::new(BlocksDesc { basic_size: 100, ..Default::default() });
    assert!(matches!(blocks.try_allocate(60, 16), Err(AllocError::OutOfSpace { .. })));
    let mut allocator = Tlsf::new(blocks.new_block_size(60));
    let range = allocator.allocate(60, 16).unwrap();
    let id = blocks.insert("heap", allocator);
    let allocation = BlockAllocation::new(id, range);
    assert!(blocks.is_live(&allocation));
    assert_eq!((blocks.block_count(), blocks.empty_count()), (1, 0));
    assert_eq!(blocks.remove_empty(id), None, "it has a live range");
    blocks.free(&allocation).unwrap();
    assert_eq!((blocks.validate(), blocks.empty_count()), (Ok(()), 1));
    assert_eq!(blocks.remove_empty(id), Some("heap"));
    assert!(blocks.get(id).is_none() && blocks.remove_empty(id).is_none());
    let gone = AllocError::TooLarge { size: 1, capacity: 0 };
    assert_eq!(blocks.allocate_in(id, 1, 1), Err(gone));
    assert_eq!(blocks.validate(), Ok(()));
}

#[test]
fn teardown_gives_every_heap_back() {
    let (mut blocks, held, _probes) = blocks_with::<1>(&[10, 0, 100]);
    let heaps: Vec<_> = blocks.drain().map(|(_, heap)| heap).collect();
    assert_eq!((heaps, blocks.block_count(), blocks.validate()), (vec![0, 1, 2], 0, Ok(())));
    assert_eq!(blocks.free(&held[0]), Err(FreeError::Stale { offset: 0, size: 10 }));

    /// Records the number of existing heaps when it is dropped: after the blocks have destroyed their heaps.
    struct Counted(Rc<Cell<usize>>);
    impl BlockSource for Counted {
        type Heap = ();
        type Allocator = Tlsf;
        type Error = ();
        fn create(&mut self, size: u64) -> Result<((), Tlsf), ()> {
            self.0.set(self.0.get() + 1);
            Ok(((), Tlsf::new(size)))
        }
        fn destroy(&mut self, (): ()) {
            self.0.set(self.0.get() - 1);
        }
    }
    let out = Rc::new(Cell::new(0));
    let mut ours = GrowableBlocks::new(BlocksDesc { basic_size: 10, ..Default::default() }, Counted(Rc::clone(&out)));
    for _ in 0..5 {
        ours.allocate(7, 1).unwrap();
    }
    assert_eq!(out.get(), 5);
    drop(ours);
    assert_eq!(out.get(), 0);
}
