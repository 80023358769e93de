//! Drivers of rings, bump pages, retire queues and sync sets, and of the size classes.

use std::collections::{BTreeMap, VecDeque};
use std::vec::Vec;

use super::Feed;
use crate::linear::Linear;
use crate::retire::RetireQueue;
use crate::ring::Ring;
use crate::size_class::SizeClasses;
use crate::sync::{Progress, SyncPoint, SyncSet, TimelineId};

/// Applies the operations encoded in `data` to a [`Ring`], and returns their number. Compares the ring with a twin that
/// records the tag of each unit in use.
///
/// # Panics
/// If the ring differs from its twin.
#[must_use]
pub fn ring(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let Some(capacity) = feed.below(96) else { return 0 };
    let capacity = capacity as usize + 1;
    let mut ring = Ring::<u64>::new(capacity as u64);
    let mut owner = std::vec![None; capacity];
    let mut entries: VecDeque<(u64, u64)> = VecDeque::new();
    let (mut next, mut tag, mut count) = (0, 0, 0);
    while let (Some(what), Some(number)) = (feed.below(16), feed.below(256)) {
        match what {
            0..=8 => {
                let alignment = 1 << (what % 4);
                let size = number as usize % (capacity + 2);
                // The twin allocates at the first aligned, contiguous position from `next` on that is reached over free
                // units only.
                let free = (0..capacity).take_while(|step| owner[(next + step) % capacity].is_none()).count();
                let fits = |skip: &usize| {
                    let at = (next + skip) % capacity;
                    at.is_multiple_of(alignment) && at + size <= capacity
                };
                let skip = (0..capacity).find(fits).filter(|skip| size > 0 && skip + size <= free);
                match (ring.allocate(size as u64, alignment as u64, &tag), skip) {
                    (Ok(range), Some(skip)) => {
                        assert_eq!(range.offset() as usize, (next + skip) % capacity);
                        assert!(ring.is_live(&range));
                        (0..skip + size).for_each(|step| owner[(next + step) % capacity] = Some(tag));
                        match entries.back_mut() {
                            Some((newest, units)) if *newest == tag => *units += (skip + size) as u64,
                            _ => entries.push_back((tag, (skip + size) as u64)),
                        }
                        next = (next + skip + size) % capacity;
                    }
                    (Err(_), None) => {}
                    (got, wanted) => panic!("{got:?}, but the twin expects {wanted:?}"),
                }
            }
            9..=11 => tag += 1,
            _ => {
                let expected = entries.pop_front();
                assert_eq!(ring.release_oldest(), expected);
                if let Some((gone, _)) = expected {
                    owner.iter_mut().filter(|held| **held == Some(gone)).for_each(|held| *held = None);
                }
                if entries.is_empty() {
                    next = 0;
                }
            }
        }
        ring.validate().expect("sound");
        assert_eq!(ring.used(), owner.iter().flatten().count() as u64);
        assert_eq!(ring.submissions(), entries.len());
        count += 1;
    }
    count
}

/// Applies the operations encoded in `data` to a [`Linear`], and returns their number.
///
/// # Panics
/// If the page's number of used units or a result differs from a direct computation.
#[must_use]
pub fn linear(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let Some(capacity) = feed.any() else { return 0 };
    let mut page = Linear::new(capacity);
    let (mut used, mut resets, mut marks, mut count) = (0_u64, 0, Vec::new(), 0);
    while let (Some(what), Some(number)) = (feed.below(8), feed.below(256)) {
        match what {
            0..=4 => {
                let size = if what == 4 { feed.any().unwrap_or(1) } else { number };
                let alignment = 1_u64 << (number % if what == 3 { 64 } else { 6 });
                let start = used.checked_next_multiple_of(alignment);
                let fitting =
                    start.filter(|start| size > 0 && start.checked_add(size).is_some_and(|end| end <= capacity));
                let got = page.allocate(size, alignment).ok();
                assert_eq!(got, fitting);
                used = fitting.map_or(used, |start| start + size);
            }
            5 => marks.push((page.mark(), used, resets)),
            6 => {
                if let Some((mark, at, then)) = marks.pop() {
                    let fits = then == resets && at <= used;
                    assert_eq!(page.rewind(mark).ok(), fits.then(|| used - at));
                    used = if fits { at } else { used };
                }
            }
            _ => {
                page.reset();
                (used, resets) = (0, resets + 1);
            }
        }
        assert_eq!((page.used(), page.remaining(), page.is_empty()), (used, capacity - used, used == 0));
        assert_eq!(page.capacity(), capacity);
        count += 1;
    }
    count
}

/// Requests the sizes encoded in `data` from the [`SizeClasses`], and returns their number.
///
/// # Panics
/// If a class does not fit its request, or a larger request gets a smaller class.
#[must_use]
pub fn size_class(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let mut count = 0;
    while let (Some(size), Some(more), Some(log2)) = (feed.any(), feed.below(4096), feed.byte()) {
        let alignment = 1_u64 << (log2 % 64);
        for classes in [SizeClasses::COARSE, SizeClasses::FINE] {
            let (small, large) = (classes.class(size, alignment), classes.class(size.saturating_add(more), alignment));
            if let Ok(class) = small {
                assert!(size > 0 && class >= size && class.is_multiple_of(alignment));
                assert_eq!(classes.class(class, alignment), Ok(class), "a class maps to itself");
                assert!(
                    large.is_ok_and(|large| large >= class) || large.is_err(),
                    "{size} and {more} more: {small:?} and {large:?}"
                );
                let waste = class - size.max(alignment);
                assert!(waste < size.max(256) || waste < (64 << 10), "{class} for {size}");
            }
        }
        count += 2;
    }
    count
}

/// Applies the operations encoded in `data` to a [`RetireQueue`], and returns their number. Compares the queue with a
/// list of items and their sets.
///
/// # Panics
/// If an item is released too early, too late, twice or never.
#[must_use]
pub fn retire(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let mut queue = RetireQueue::<u64>::new();
    let (mut twin, mut next, mut count) = (Vec::<(SyncSet, u64)>::new(), 0, 0);
    let mut completed = std::vec![10_u64; 6];
    while let (Some(what), Some(number)) = (feed.below(16), feed.below(256)) {
        let mut out = Vec::new();
        let passed = twin.iter().filter(|(set, _)| completed.passed_all(set)).count();
        match what {
            0..=6 => {
                let mut set = SyncSet::new();
                for _ in 0..what {
                    let (Some(timeline), Some(ahead)) = (feed.below(6), feed.below(6)) else { break };
                    let value = completed[timeline as usize] + ahead;
                    set.insert(SyncPoint::new(TimelineId::new(timeline as u32), value - 2));
                }
                let items = next..next + 1 + number % 3;
                twin.extend(items.clone().map(|item| (set.clone(), item)));
                next = items.end;
                if number.is_multiple_of(2) {
                    queue.retire_batch(&set, items);
                } else {
                    items.for_each(|item| queue.retire(&set, item));
                }
            }
            7..=11 => completed[number as usize % 6] += number % 4,
            12..=13 => assert_eq!(queue.reclaim(&completed, |item| out.push(item)), passed),
            14 => {
                let most = number as usize % 5;
                assert_eq!(queue.reclaim_at_most(&completed, most, |item| out.push(item)), passed.min(most));
            }
            _ if number < 16 => {
                assert_eq!(queue.release_all(|item| out.push(item)), twin.len());
                assert_eq!(out.len(), twin.len());
                twin.clear();
                out.clear();
            }
            _ => {}
        }
        for item in out {
            let at = twin.iter().position(|(_, held)| *held == item).expect("released once, and retired before");
            assert!(completed.passed_all(&twin.remove(at).0), "{item} was released too early");
        }
        queue.validate().expect("sound");
        assert_eq!(queue.len(), twin.len());
        count += 1;
    }
    count
}

/// Applies the operations encoded in `data` to a [`SyncSet`], and returns their number. Compares the set with a map.
///
/// # Panics
/// If the set differs from the map.
#[must_use]
pub fn sync_set(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let (mut set, mut twin, mut count) = (SyncSet::new(), BTreeMap::<u32, u64>::new(), 0);
    while let (Some(what), Some(number)) = (feed.below(16), feed.below(256)) {
        let point = (number as u32 % 11, number / 11);
        match what {
            0..=11 => {
                set.insert(SyncPoint::new(TimelineId::new(point.0), point.1));
                let held = twin.entry(point.0).or_default();
                *held = point.1.max(*held);
            }
            12..=14 => {
                let other: SyncSet =
                    (0..number % 7).map(|at| SyncPoint::new(TimelineId::new(at as u32), number + at)).collect();
                set.union(&other);
                for at in 0..number % 7 {
                    let held = twin.entry(at as u32).or_default();
                    *held = (number + at).max(*held);
                }
            }
            _ => {
                set.clear();
                twin.clear();
            }
        }
        // A point with the value 0 has always passed, so the set may omit it.
        let wanted: Vec<_> =
            twin.iter().map(|(at, value)| (*at as usize, *value)).filter(|(_, value)| *value > 0).collect();
        let mut held: Vec<_> = set.iter().map(|point| (point.timeline.index(), point.value)).collect();
        held.retain(|(_, value)| *value > 0);
        held.sort_unstable();
        assert_eq!(held, wanted);
        count += 1;
    }
    count
}
