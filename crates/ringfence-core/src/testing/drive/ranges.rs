//! Drivers of range allocators, and of growable blocks of them.

use std::vec::Vec;

use super::Feed;
use crate::algorithm::{Algorithm, virtual_allocator as virtual_blocks};
use crate::blocks::{BlockAllocation, BlocksDesc};
use crate::buddy::Buddy;
use crate::free_list::FreeList;
use crate::linear_ranges::LinearRanges;
use crate::range::{Allocate, Range, RangeAllocator};
use crate::testing::{Op, Twin, step};
use crate::tlsf::Tlsf;

/// Returns a capacity that a few requests fill, so that requests often fail and spans are often merged.
fn capacity(feed: &mut Feed<'_>) -> Option<u64> {
    Some(match feed.below(8)? {
        0..=3 => 1 + feed.below(64)?,
        4..=5 => 1 + feed.below(1 << 12)?,
        6 => 1 << feed.below(40)?,
        _ => feed.any()?.max(1) & (u64::MAX >> 1),
    })
}

fn op(feed: &mut Feed<'_>, capacity: u64) -> Option<Op> {
    Some(match feed.below(16)? {
        0..=5 => Op::Allocate { size: feed.below(capacity / 8 + 2)?, alignment_log2: feed.below(5)? as u8 },
        6 => Op::Allocate { size: feed.below(capacity.saturating_add(2))?, alignment_log2: 0 },
        7 => Op::Allocate { size: feed.any()?, alignment_log2: feed.byte()? },
        8..=13 => Op::Free(feed.below(1 << 16)? as u32),
        14 => Op::FreeAgain(feed.below(256)? as u32),
        _ => Op::FreeForged(feed.below(256)? as u32),
    })
}

fn drive(feed: &mut Feed<'_>, allocator: &mut dyn RangeAllocator, exact: bool) -> u64 {
    let (mut twin, mut count, capacity) = (Twin::default(), 0, allocator.capacity());
    while let Some(op) = op(feed, capacity) {
        step(allocator, &mut twin, op, exact).unwrap_or_else(|what| panic!("operation {count}, {op:?}: {what}"));
        count += 1;
    }
    count
}

/// Applies the operations encoded in `data` to a [`Buddy`], and returns their number.
///
/// # Panics
/// If the allocator differs from its reference implementation ([`Twin`]).
#[must_use]
pub fn buddy(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    // The validation reads the whole tree, so small trees permit more operations in the same time.
    let Some(levels) = feed.below(12) else { return 0 };
    let Some(capacity) = feed.below(1 << levels) else { return 0 };
    let Some(granule) = feed.below(5) else { return 0 };
    drive(&mut feed, &mut Buddy::new(capacity + 1, 1 << granule), false)
}

/// Applies the operations encoded in `data` to a [`FreeList`], and returns their number.
///
/// # Panics
/// If the allocator differs from its reference implementation ([`Twin`]).
#[must_use]
pub fn free_list(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let Some(capacity) = capacity(&mut feed) else { return 0 };
    drive(&mut feed, &mut FreeList::new(capacity), true)
}

/// Applies the operations encoded in `data` to a [`Tlsf`], and returns their number.
///
/// # Panics
/// If the allocator differs from its reference implementation ([`Twin`]).
#[must_use]
pub fn tlsf(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let Some(capacity) = capacity(&mut feed) else { return 0 };
    drive(&mut feed, &mut Tlsf::new(capacity), false)
}

/// Applies the operations encoded in `data` to a [`Tlsf`] that defers frees, and returns their number. The allocator
/// had 1,100 ranges, of which 100 remain, and most of its space is free. Occasional large requests make it merge the
/// deferred spans.
///
/// # Panics
/// If the allocator differs from its reference implementation ([`Twin`]).
#[must_use]
pub fn tlsf_deferred(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let capacity = 1 << 17;
    let (mut tlsf, mut twin, mut count) = (Tlsf::new(capacity), Twin::default(), 0);
    for number in 0..1100 {
        let range = tlsf.allocate(20 + number % 41, 1).expect("there is room");
        twin.live.push(range);
    }
    let mut count_down = 0;
    twin.live.retain(|range| {
        count_down = if count_down == 0 { 10 } else { count_down - 1 };
        count_down == 0 || tlsf.free(*range).is_err()
    });
    assert!(!std::format!("{tlsf:?}").contains("deferred: 0,"), "it defers: {tlsf:?}");
    while let Some(what) = feed.below(32) {
        let op = match what {
            0..=12 => feed.below(80).map(|size| Op::Allocate { size: size + 1, alignment_log2: (what / 4) as u8 }),
            13..=15 => feed.below(4000).map(|size| Op::Allocate { size, alignment_log2: 0 }),
            16 => feed.below(capacity).map(|size| Op::Allocate { size, alignment_log2: 0 }),
            _ => op(&mut feed, 640),
        };
        let Some(op) = op else { break };
        step(&mut tlsf, &mut twin, op, false).unwrap_or_else(|what| panic!("operation {count}, {op:?}: {what}"));
        count += 1;
    }
    count
}

/// Applies the operations encoded in `data` to both ends of a [`LinearRanges`], and returns their number. Compares it
/// with a list of the live ranges, without free spans, because the space of a range that is freed between live ranges
/// is not free yet.
///
/// # Panics
/// If two ranges overlap, a range is lost, or a second free succeeds.
#[must_use]
pub fn linear_ranges(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let Some(capacity) = feed.below(512) else { return 0 };
    let mut rows = LinearRanges::new(capacity + 1);
    let (mut live, mut dead, mut count) = (Vec::<Range>::new(), Vec::<Range>::new(), 0);
    while let (Some(what), Some(number)) = (feed.below(16), feed.below(256)) {
        match what {
            0..=7 => {
                let (size, alignment) = (number % (capacity / 4 + 2), 1 << (what % 4));
                let made = if what < 6 { rows.allocate(size, alignment) } else { rows.allocate_high(size, alignment) };
                if let Ok(made) = made {
                    let apart = |held: &Range| held.end() <= made.offset() || made.end() <= held.offset();
                    assert!(live.iter().all(apart) && made.end() <= capacity + 1, "{made:?} overlaps");
                    assert!(made.offset().is_multiple_of(alignment) && made.size() == size && size > 0);
                    live.push(made);
                }
            }
            8..=13 => {
                // The oldest and the youngest ranges are freed most often, as in a ring and a stack.
                let at = [0, live.len().saturating_sub(1), number as usize][what as usize % 3];
                if !live.is_empty() {
                    let gone = live.remove(at % live.len());
                    rows.free(gone).expect("the range is live");
                    dead.push(gone);
                    dead.drain(..dead.len().saturating_sub(16));
                }
            }
            _ => {
                if let Some(gone) = dead.get(number as usize % dead.len().max(1)) {
                    assert!(rows.free(*gone).is_err(), "a second free succeeds");
                }
            }
        }
        rows.validate().expect("sound");
        assert_eq!(rows.live_count(), live.len());
        assert!(live.iter().all(|held| rows.is_live(held)) && dead.iter().all(|gone| !rows.is_live(gone)));
        assert!(!live.is_empty() || rows.free_size() == capacity + 1, "without live ranges, all units are free");
        count += 1;
    }
    count
}

fn grow(feed: &mut Feed<'_>, algorithm: Algorithm) -> u64 {
    let Some(basic_log2) = feed.below(8) else { return 0 };
    let basic_size = 1 << basic_log2;
    let desc = BlocksDesc { basic_size, destroy_threshold: 1, grace_ticks: 2 };
    let mut blocks = virtual_blocks(algorithm, desc);
    let mut live: Vec<BlockAllocation> = Vec::new();
    let mut dead: Vec<BlockAllocation> = Vec::new();
    let (mut count, mut now) = (0, 0);
    while let Some(what) = feed.below(16) {
        let Some(number) = feed.below(256) else { break };
        let picked = live.get(number as usize % live.len().max(1)).copied();
        match what {
            // The check compares all pairs of allocations, so their number is limited to permit more operations.
            0..=6 if live.len() < 32 => {
                let size = if what == 6 { number * 3 } else { number % (basic_size + 1) };
                let Some(log2) = feed.below(4) else { break };
                let (peeked, before) = (blocks.blocks().peek(size, 1 << log2), blocks.blocks().block_count());
                if let Ok(made) = blocks.allocate(size, 1 << log2) {
                    let is_new = blocks.blocks().block_count() > before;
                    assert!(
                        peeked.map_or(is_new, |place| place == (made.block(), made.offset())),
                        "{peeked:?}, {made:?}"
                    );
                    assert!(size > 0 && made.size() >= size && made.offset().is_multiple_of(1 << log2));
                    let apart = |held: &BlockAllocation| {
                        held.block() != made.block()
                            || held.range().end() <= made.offset()
                            || made.range().end() <= held.offset()
                    };
                    assert!(live.iter().all(apart), "{made:?} overlaps another");
                    assert!(blocks.heap(&made).is_some());
                    live.push(made);
                } else {
                    // Algorithms that round sizes up cannot serve every size from a block of the same size.
                    assert!(
                        size == 0 || log2 > 0 || matches!(algorithm, Algorithm::Equal { .. } | Algorithm::Buddy { .. })
                    );
                }
            }
            0..=12 => {
                if let Some(gone) = picked {
                    blocks.free(gone).expect("the range is live");
                    live.retain(|held| *held != gone);
                    dead.push(gone);
                    dead.drain(..dead.len().saturating_sub(16));
                }
            }
            13 => {
                if let Some(gone) = dead.get(number as usize % dead.len().max(1)) {
                    assert!(blocks.free(*gone).is_err(), "a second free succeeds");
                }
            }
            14 => {
                now += number;
                blocks.destroy_surplus(now);
            }
            _ => {
                blocks.trim();
            }
        }
        blocks.blocks().validate().expect("sound");
        let figures = blocks.blocks().statistics();
        assert_eq!(figures.live_count, live.len());
        assert!(live.iter().all(|held| blocks.blocks().is_live(held)));
        assert!(dead.iter().all(|gone| !blocks.blocks().is_live(gone)));
        count += 1;
    }
    count
}

/// Applies the operations encoded in `data` to [`Blocks`](crate::blocks::Blocks) with [`Tlsf`] allocators, and returns
/// their number.
///
/// # Panics
/// If two ranges overlap, a range is lost, or a second free succeeds.
#[must_use]
pub fn blocks(data: &[u8]) -> u64 {
    grow(&mut Feed::new(data), Algorithm::Tlsf)
}

/// Applies the operations encoded in `data` to a [`VirtualAllocator`](crate::algorithm::VirtualAllocator), and returns
/// their number. `data` also selects the algorithm.
///
/// # Panics
/// If two ranges overlap, a range is lost, or a second free succeeds.
#[must_use]
pub fn virtual_allocator(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let Some(number) = feed.below(5) else { return 0 };
    let algorithm = match number {
        0 => Algorithm::Tlsf,
        1 => Algorithm::Buddy { granule: 4 },
        2 => Algorithm::FreeList,
        3 => Algorithm::Linear,
        _ => Algorithm::Equal { block_size: 8 },
    };
    grow(&mut feed, algorithm)
}
