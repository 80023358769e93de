//! Drivers of the shared pools: one thread executes generated operations on a pool and on its *twin*, a simple
//! reference implementation. The drivers check the rules of the pools; the `loom` models and the threaded tests check
//! for races.

use std::collections::HashSet;
use std::vec::Vec;

use crate::fixed_pool::FixedPool;
use crate::pool_chain::{KeepPools, PoolAllocation, PoolChain};
use ringfence_core::range::{FreeError, Range, Serial};
use ringfence_core::testing::drive::{Drive, Feed};

/// The drivers of all structures, with the names of their fuzz targets.
pub const ALL: [Drive; 2] = [("fixed_pool", fixed_pool), ("pool_chain", pool_chain)];

/// Drives a [`FixedPool`], and returns the number of operations.
///
/// # Panics
/// If the pool differs from its twin, the list of live ranges.
#[must_use]
pub fn fixed_pool(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let Some(capacity) = feed.below(200) else { return 0 };
    let capacity = capacity as u32 + 1;
    let pool = FixedPool::closed(48, capacity);
    let (mut live, mut dead, mut serials) = (Vec::<Range>::new(), Vec::<Range>::new(), HashSet::new());
    let (mut open, mut count) = (0, 0);
    while let (Some(what), Some(number)) = (feed.below(16), feed.below(256)) {
        let picked = live.get(number as usize % live.len().max(1)).copied();
        match what {
            0..=6 => match pool.allocate_near(number as usize) {
                Some(range) => {
                    assert!(range.slot() < open && live.iter().all(|held| held.slot() != range.slot()));
                    assert_eq!((range.offset(), range.size()), (u64::from(range.slot()) * 48, 48));
                    assert!(serials.insert(range.serial()), "a serial was used twice");
                    live.push(range);
                }
                None => assert_eq!(live.len(), open as usize, "refused, although a block is free"),
            },
            7..=11 => {
                if let Some(gone) = picked {
                    assert_eq!(pool.free_near(number as usize, gone), Ok(()));
                    live.retain(|held| *held != gone);
                    dead.push(gone);
                    dead.drain(..dead.len().saturating_sub(16));
                }
            }
            12 => {
                if let Some(gone) = dead.get(number as usize % dead.len().max(1)) {
                    let stale = FreeError::Stale { offset: gone.offset(), size: gone.size() };
                    assert_eq!(pool.free(*gone), Err(stale));
                }
            }
            13 => {
                if let Some(held) = picked {
                    let serial = Serial::from_u64(held.serial().get() ^ (number + 1)).unwrap_or(held.serial());
                    let forged = Range::new(
                        held.offset(),
                        held.size(),
                        held.slot() ^ u32::from(serial == held.serial()),
                        serial,
                    );
                    assert!(!pool.is_live(&forged) && pool.free(forged).is_err());
                }
            }
            14 => {
                let closes = live.is_empty() && open != 0;
                assert_eq!(pool.close(), closes.then_some(open));
                open = if closes { 0 } else { open };
            }
            _ => {
                let wanted = number as u32 % (capacity + 2);
                let opens = open == 0 && wanted > 0 && wanted <= capacity;
                if wanted > 0 {
                    assert_eq!(pool.open(wanted), opens);
                    open = if opens { wanted } else { open };
                }
            }
        }
        pool.validate().expect("sound");
        assert_eq!((pool.live_count() as usize, pool.block_count()), (live.len(), open));
        assert!(live.iter().all(|held| pool.is_live(held)));
        count += 1;
    }
    count
}

/// Drives a [`PoolChain`], and returns the number of operations.
///
/// # Panics
/// If the chain differs from its twin: the live blocks and the existing heaps.
#[must_use]
pub fn pool_chain(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let Some(pools) = feed.below(6) else { return 0 };
    let chain = PoolChain::<u64>::new(16, pools as u32);
    let mut live: Vec<PoolAllocation> = Vec::new();
    let (mut heaps, mut next_heap, mut count, mut tick) = (HashSet::new(), 0, 0, 0);
    while let (Some(what), Some(number)) = (feed.below(16), feed.below(256)) {
        match what {
            0..=6 => {
                let made = if what == 0 { chain.allocate_thorough() } else { chain.allocate_near(number as usize) };
                match made {
                    Some(made) => {
                        let twice =
                            live.iter().any(|held| (held.pool(), held.offset()) == (made.pool(), made.offset()));
                        assert!(!twice && made.offset() == u64::from(made.block()) * 16 && made.size() == 16);
                        assert!(heaps.contains(chain.heap(&made).expect("the pool exists")));
                        live.push(made);
                    }
                    None if what == 0 => {
                        let blocks = chain.statistics().block_count;
                        assert_eq!(blocks, live.len() as u64, "refused, although a block is free");
                    }
                    None => {}
                }
            }
            7..=11 => {
                if !live.is_empty() {
                    let gone = live.swap_remove(number as usize % live.len());
                    chain.free(gone).expect("the block is live");
                }
            }
            12 => {
                if let Some(reservation) = chain.reserve(number as u32 % 20 + 1) {
                    if number % 5 == 0 {
                        drop(reservation);
                    } else {
                        heaps.insert(next_heap);
                        live.push(reservation.open(next_heap));
                        next_heap += 1;
                    }
                } else {
                    assert_eq!(heaps.len() as u64, pools, "there is room for a pool");
                }
            }
            13 => {
                if let Some(heap) = chain.take_empty() {
                    assert!(heaps.remove(&heap), "a heap was taken out twice");
                }
            }
            _ => {
                tick += number;
                let keep = KeepPools { empty_count: 1, grace_ticks: 3 };
                if let Some(heap) = chain.take_surplus(tick, keep) {
                    assert!(heaps.remove(&heap), "a heap was taken out twice");
                }
            }
        }
        chain.validate().expect("sound");
        assert!(live.iter().all(|held| chain.is_live(held)));
        let mut there = 0;
        chain.for_each_pool(&mut |pool| {
            assert!(heaps.contains(pool.heap()));
            there += 1;
        });
        assert_eq!(there, heaps.len());
        count += 1;
    }
    live.drain(..).for_each(|held| chain.free(held).expect("the block is live"));
    assert_eq!(chain.into_heaps().collect::<HashSet<_>>(), heaps);
    count
}
