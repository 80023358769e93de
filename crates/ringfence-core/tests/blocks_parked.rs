//! What growable blocks park: the rule of `blocks/shelf.rs`, one test for each part of it.

use ringfence_core::blocks::{BlockAllocation, BlockId, Blocks, BlocksDesc};
use ringfence_core::range::{AllocError, Allocate, FreeError, RangeAllocator};
use ringfence_core::tlsf::Tlsf;

const BLOCK: u64 = 1 << 14;

type Ours = Blocks<Tlsf, ()>;

/// So many blocks, and in each as many ranges of 40 units as fill `used` units.
fn blocks_with(used: &[u64]) -> (Ours, Vec<Vec<BlockAllocation>>) {
    blocks_of(BLOCK, used)
}

/// The same with blocks of `capacity` units, whatever the basic size is.
fn blocks_of(capacity: u64, used: &[u64]) -> (Ours, Vec<Vec<BlockAllocation>>) {
    let mut blocks = Blocks::new(BlocksDesc { basic_size: BLOCK, destroy_threshold: 0, grace_ticks: 0 });
    let ids: Vec<_> = used.iter().map(|_| blocks.insert((), Tlsf::new(capacity))).collect();
    let fill = |(id, used): (&BlockId, &u64)| (0..used / 40).map(|_| blocks.allocate_in(*id, 40, 1).unwrap()).collect();
    let held = ids.iter().zip(used).map(fill).collect();
    // The table is made by an allocation that finds its place in a block.
    let first = blocks.try_allocate(40, 1).unwrap();
    blocks.free(&first).unwrap();
    (blocks, held)
}

fn parked(blocks: &Ours) -> u64 {
    blocks.iter().map(|(_, _, ranges)| ranges.parked_size()).sum()
}

#[test]
fn what_is_given_back_goes_to_the_next_request_like_it_in_whatever_block() {
    let (mut blocks, held) = blocks_with(&[15_000, 12_000, 10_000]);
    let before = parked(&blocks);
    let gone = held[1][100];
    blocks.free(&gone).unwrap();
    assert_eq!((parked(&blocks), blocks.validate()), (before + 40, Ok(())));
    let peeked = blocks.peek(39, 1);
    let again = blocks.try_allocate(39, 1).unwrap();
    assert_eq!(
        (again.block(), again.offset(), again.size()),
        (gone.block(), gone.offset(), 40),
        "whole, and not the fullest block"
    );
    assert_eq!(peeked, Some((again.block(), again.offset())));
    assert_eq!((parked(&blocks), blocks.validate()), (before, Ok(())));
    blocks.free(&again).unwrap();
    assert_eq!(blocks.try_allocate(41, 1).unwrap().block(), held[0][0].block(), "it is too short for this");
}

#[test]
fn a_parked_range_is_stale_and_its_units_count_as_free() {
    let (mut blocks, held) = blocks_with(&[15_000, 10_000]);
    let before = blocks.statistics();
    let gone = held[0][7];
    blocks.free(&gone).unwrap();
    assert!(parked(&blocks) > 0 && !blocks.is_live(&gone));
    assert_eq!(blocks.free(&gone), Err(FreeError::Stale { offset: gone.offset(), size: 40 }));
    let after = blocks.statistics();
    assert_eq!((after.free_size, after.live_count), (before.free_size + 40, before.live_count - 1));
    let again = blocks.try_allocate(40, 1).unwrap();
    assert_eq!(again.offset(), gone.offset());
    assert!(blocks.free(&gone).is_err() && blocks.is_live(&again), "another range has it now");
}

#[test]
fn the_alignment_is_kept() {
    let (mut blocks, held) = blocks_with(&[15_000, 10_000]);
    let odd = held[0].iter().find(|held| held.offset() % 64 != 0).unwrap();
    blocks.free(odd).unwrap();
    let aligned = blocks.try_allocate(40, 64).unwrap();
    assert_eq!(aligned.offset() % 64, 0);
    assert_ne!(aligned.offset(), odd.offset());
    assert_eq!(blocks.try_allocate(40, 1).unwrap().offset(), odd.offset());
}

#[test]
fn a_block_that_is_more_than_half_free_parks_nothing_so_that_it_can_drain() {
    let (mut blocks, held) = blocks_with(&[15_000, 7_000]);
    let before = parked(&blocks);
    blocks.free(&held[1][3]).unwrap();
    assert_eq!(parked(&blocks), before);
    let (mut alone, held) = blocks_with(&[7_000]);
    let before = parked(&alone);
    alone.free(&held[0][3]).unwrap();
    assert_eq!(parked(&alone), before + 40, "there is no other that it could drain into");
}

#[test]
fn at_most_an_eighth_of_what_is_free_is_parked() {
    let (mut full, held) = blocks_with(&[16_300, 16_300]);
    full.free(&held[1][3]).unwrap();
    assert_eq!(parked(&full), 0, "40 are more than an eighth of 168");
    let (mut blocks, held) = blocks_with(&[15_000, 15_000]);
    for held in held.iter().flatten().step_by(3) {
        blocks.free(held).unwrap();
        let at_hand = blocks.statistics().free_size - parked(&blocks);
        assert!(parked(&blocks) <= at_hand / 8 && blocks.validate() == Ok(()));
    }
    assert_eq!(parked(&blocks), 320, "8 of one size class");
}

#[test]
fn a_few_ranges_are_never_parked() {
    let mut blocks = Ours::new(BlocksDesc { basic_size: BLOCK, destroy_threshold: 0, grace_ticks: 0 });
    blocks.insert((), Tlsf::new(BLOCK));
    let held: Vec<_> = (0..63).map(|_| blocks.try_allocate(40, 1).unwrap()).collect();
    for held in &held {
        blocks.free(held).unwrap();
        assert_eq!(parked(&blocks), 0);
    }
}

/// Of two blocks, of which the other one is fuller: a range of `given` units is given back, and one of `wanted` asked for.
/// Says whether it was parked, and whether it is what comes.
fn parked_and_taken(capacity: u64, given: u64, wanted: u64) -> (bool, bool) {
    let (mut blocks, held) = blocks_of(capacity, &[capacity / 8 * 7, capacity / 8 * 5]);
    let gone = blocks.allocate_in(held[1][0].block(), given, 1).unwrap();
    let before = parked(&blocks);
    blocks.free(&gone).unwrap();
    let is_parked = parked(&blocks) == before + given;
    let made = blocks.try_allocate(wanted, 1).unwrap();
    assert_eq!(blocks.validate(), Ok(()));
    (is_parked, (made.block(), made.offset(), made.size()) == (gone.block(), gone.offset(), given))
}

#[test]
fn a_request_takes_what_is_parked_of_its_own_class_and_of_two_above() {
    // A class of this length holds two sizes.
    for (given, wanted, is_taken) in [
        (100, 100, true),
        (100, 101, false),
        (102, 101, true),
        (104, 101, true),
        (106, 101, false),
        (102, 100, true),
        (104, 100, false),
    ] {
        assert_eq!(parked_and_taken(BLOCK, given, wanted), (true, is_taken), "{given} for {wanted}");
    }
}

/// In a block of the basic size what is shorter than a 64th of it; in larger ones up to the class of that.
#[test]
fn a_64th_of_a_basic_block_is_parked_and_taken_and_more_is_not() {
    for (capacity, size, is_parked) in [
        (BLOCK, 247, true),
        (BLOCK, 255, true),
        (BLOCK, 256, false),
        (2 * BLOCK, 255, true),
        (2 * BLOCK, 256, true),
        (2 * BLOCK, 263, true),
        (2 * BLOCK, 264, false),
        (2 * BLOCK, 280, false),
    ] {
        assert_eq!(parked_and_taken(capacity, size, size), (is_parked, is_parked), "{size} of {capacity}");
    }
}

#[test]
fn at_most_a_16th_of_all_units_is_parked() {
    let (mut alone, held) = blocks_with(&[3_000]);
    let sizes = [64, 72, 80, 88, 96].into_iter().flat_map(|size| [size; 8]);
    let made: Vec<_> = sizes.map(|size| alone.allocate_in(held[0][0].block(), size, 1).unwrap()).collect();
    made.iter().for_each(|made| alone.free(made).unwrap());
    let at_hand = alone.statistics().free_size - parked(&alone);
    assert!(at_hand / 8 > BLOCK / 16 + 96, "an eighth of what is free would be more");
    assert!((BLOCK / 16 - 96..=BLOCK / 16).contains(&parked(&alone)), "{}", parked(&alone));
}

#[test]
fn an_eighth_of_what_is_free_is_parked_to_the_unit() {
    for (more, is_parked) in [(0, true), (1, false)] {
        let (mut alone, held) = blocks_with(&[15_000]);
        alone.try_allocate(40, 1).unwrap();
        assert_eq!(parked(&alone), 0, "what was parked is taken");
        let filler = alone.statistics().free_size - 8 * 40 + more;
        alone.allocate_in(held[0][0].block(), filler, 1).unwrap();
        alone.free(&held[0][5]).unwrap();
        assert_eq!(parked(&alone), if is_parked { 40 } else { 0 });
    }
}

#[test]
fn at_most_1024_spans_are_parked() {
    let mut blocks = Ours::new(BlocksDesc { basic_size: 1 << 23, destroy_threshold: 0, grace_ticks: 0 });
    blocks.insert((), Tlsf::new(1 << 23));
    // One size of each class, and nine ranges of it: one more than are parked of a class.
    let sizes: Vec<u64> = (0..160).map(|class| (32 + class % 32) << (1 + class / 32)).collect();
    let held: Vec<Vec<_>> =
        sizes.iter().map(|size| (0..9).map(|_| blocks.try_allocate(*size, 1).unwrap()).collect()).collect();
    held[..128].iter().flat_map(|held| &held[..8]).for_each(|held| blocks.free(held).unwrap());
    let all = 8 * sizes[..128].iter().sum::<u64>();
    assert_eq!(parked(&blocks), all);
    blocks.free(&held[128][0]).unwrap();
    assert_eq!(parked(&blocks), all, "of a class with room");
    blocks.free(&held[3][8]).unwrap();
    assert_eq!((parked(&blocks), blocks.validate()), (all, Ok(())), "of a class without room");
}

#[test]
fn a_block_alone_parks_full_or_not_and_goes_empty() {
    for used in [15_000, 7_000] {
        let (mut blocks, held) = blocks_with(&[used, 0]);
        assert!(blocks.take_empty().is_some(), "the other one");
        let before = parked(&blocks);
        blocks.free(&held[0][3]).unwrap();
        assert_eq!(parked(&blocks), before + 40);
        // There is a place for the last one, which is of another class.
        let last = blocks.allocate_in(held[0][0].block(), 60, 1).unwrap();
        for held in held[0].iter().filter(|other| **other != held[0][3]).chain([&last]) {
            blocks.free(held).unwrap();
        }
        assert_eq!((parked(&blocks), blocks.empty_count(), blocks.validate()), (0, 1, Ok(())));
    }
}

#[test]
fn a_refusal_with_nothing_parked_is_no_reason_to_park_nothing() {
    let (mut blocks, held) = blocks_with(&[15_000, 10_000]);
    blocks.try_allocate(40, 1).unwrap();
    assert_eq!(parked(&blocks), 0);
    assert!(blocks.try_allocate(9_000, 1).is_err());
    blocks.free(&held[0][3]).unwrap();
    assert_eq!(parked(&blocks), 40);
}

#[test]
fn after_4096_allocations_something_is_parked_again() {
    let (mut blocks, held) = blocks_with(&[15_000, 10_000]);
    blocks.free(&held[0][3]).unwrap();
    assert!(blocks.try_allocate(9_000, 1).is_err());
    let mut pair = || {
        let made = blocks.try_allocate(40, 1).unwrap();
        blocks.free(&made).unwrap();
        parked(&blocks)
    };
    assert_eq!((1..4096).map(|_| pair()).max(), Some(0));
    assert_eq!(pair(), 40);
}

#[test]
fn before_a_refusal_everything_is_merged_and_then_nothing_is_parked_for_a_while() {
    let (mut blocks, held) = blocks_with(&[15_000, 10_000]);
    // 8 of a size class are parked, side by side: merged, they are 320 in a row.
    let row = &held[0][100..108];
    row.iter().for_each(|held| blocks.free(held).unwrap());
    assert!(parked(&blocks) >= 320 - 40);
    let rest = blocks.statistics();
    let refused =
        AllocError::OutOfSpace { size: 9_000, alignment: 1, free: rest.free_size, largest_free: rest.largest_free };
    assert_eq!(blocks.try_allocate(9_000, 1), Err(refused));
    assert_eq!((parked(&blocks), blocks.validate()), (0, Ok(())));
    blocks.free(&held[0][3]).unwrap();
    assert_eq!(parked(&blocks), 0, "not yet again");
    blocks.insert((), Tlsf::new(BLOCK));
    blocks.free(&held[0][5]).unwrap();
    assert_eq!(parked(&blocks), 40, "a new block is room enough");
}

#[test]
fn a_request_that_only_merging_serves_is_served() {
    let (mut blocks, held) = blocks_with(&[15_000, 10_000]);
    let (first, last) = (blocks.try_allocate(1_300, 1).unwrap(), blocks.try_allocate(6_300, 1).unwrap());
    assert_ne!(first.block(), last.block(), "both are full but for a little");
    // Nothing is parked now, as so little is free; at last there is a row of holes.
    held[0][50..80].iter().for_each(|held| blocks.free(held).unwrap());
    assert_eq!(blocks.try_allocate(1_200, 1).unwrap().offset(), held[0][50].offset());
    assert_eq!(blocks.validate(), Ok(()));
}

#[test]
fn an_empty_block_has_nothing_parked() {
    let (mut blocks, held) = blocks_with(&[15_000, 12_000]);
    for held in &held[1] {
        blocks.free(held).unwrap();
        assert_eq!(blocks.validate(), Ok(()));
    }
    assert_eq!(blocks.empty_count(), 1);
    assert!(blocks.remove_empty(held[1][0].block()).is_some());
    assert_eq!(blocks.validate(), Ok(()));
    assert!(blocks.try_allocate(40, 1).is_ok_and(|made| made.block() == held[0][0].block()));
}

/// Defragmentation asks one block: what is parked there is merged first.
#[test]
fn a_block_that_is_asked_alone_is_merged() {
    let (mut blocks, held) = blocks_with(&[15_000, 12_000]);
    held[0][20..24].iter().chain(&held[1][20..24]).for_each(|held| blocks.free(held).unwrap());
    let before = parked(&blocks);
    let id = held[0][0].block();
    let below = blocks.allocate_in_by(id, |ranges| ranges.allocate_below(150, 1, 8_000)).unwrap();
    assert_eq!(below.offset(), held[0][20].offset());
    assert!(blocks.get(id).unwrap().1.parked_size() == 0 && parked(&blocks) < before);
    assert_eq!(blocks.validate(), Ok(()));
}

/// An allocator comes in with what it has parked and rounded up by itself.
#[test]
fn an_allocator_that_parked_by_itself_may_come_in_late() {
    let mut alone = Tlsf::new(1 << 17);
    let held: Vec<_> = (0..1100).map(|number| alone.allocate(70 + number % 41, 1).unwrap()).collect();
    held[..1000].iter().for_each(|range| alone.free(*range).unwrap());
    let held: Vec<_> = (0..40).map(|number| alone.allocate(69 + number % 41, 1).unwrap()).collect();
    assert!(alone.parked_size() > 0);
    let mut blocks = Ours::new(BlocksDesc { basic_size: 1 << 17, destroy_threshold: 0, grace_ticks: 0 });
    let id = blocks.insert((), alone);
    assert_eq!((parked(&blocks), blocks.validate()), (0, Ok(())));
    for range in held {
        blocks.free(&BlockAllocation::new(id, range)).unwrap();
        assert_eq!(blocks.validate(), Ok(()));
    }
}
