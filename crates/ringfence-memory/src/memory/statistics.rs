//! Figures that are cheap enough to read each frame: O(memory types), one short lock of each.

use std::sync::atomic::{AtomicU64, Ordering};

use super::arena::Arena;
use super::shared::{CLASSES, Shared};
use crate::device::Device;
use crate::timeline::thread_place;

pub use ringfence_trace::{DriverCalls, TypeStatistics};

/// Use of the allocator as a whole.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Statistics {
    /// By memory type.
    pub types: Vec<TypeStatistics>,
    /// Objects that wait for the device before they are destroyed.
    pub retired_count: u64,
    /// Calls to the driver.
    pub calls: DriverCalls,
    /// Resources that were given another place by a [`Defrag`](crate::defrag::Defrag).
    #[cfg_attr(feature = "serde", serde(default))]
    pub moved_count: u64,
    /// Bytes of those.
    #[cfg_attr(feature = "serde", serde(default))]
    pub moved_bytes: u64,
}

impl Statistics {
    /// The sum over all memory types. High-water marks add up to at least the true one.
    #[must_use]
    pub fn total(&self) -> TypeStatistics {
        let mut total = TypeStatistics::default();
        self.types.iter().for_each(|held| total.add(held));
        total
    }
}

/// The counters of moves.
#[derive(Default)]
pub(crate) struct Moved {
    pub(crate) count: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// The counters behind [`DriverCalls`].
#[derive(Default)]
pub(super) struct Calls {
    pub(super) allocate_memory: Counter,
    pub(super) free_memory: Counter,
    pub(super) create_object: Counter,
    pub(super) destroy_object: Counter,
    pub(super) placed: Counter,
    pub(super) staged: Counter,
    pub(super) wait: Counter,
}

/// Lines of a counter.
const LINES: usize = 16;

/// A counter that threads do not take from one another: each adds to a line of its own, mostly.
#[derive(Default)]
pub(super) struct Counter(Box<[Line; LINES]>);

#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

impl Counter {
    /// Relaxed: the figures order nothing.
    #[inline]
    pub(super) fn add(&self, count: u64) {
        self.0[thread_place() % LINES].0.fetch_add(count, Ordering::Relaxed);
    }

    /// O([`LINES`]).
    fn get(&self) -> u64 {
        self.0.iter().map(|line| line.0.load(Ordering::Relaxed)).sum()
    }
}

/// One more.
#[inline]
pub(super) fn count(counter: &Counter) {
    counter.add(1);
}

impl<D: Device> Shared<D> {
    fn type_statistics(&self) -> Vec<TypeStatistics> {
        let sum = |arenas: &[Arena<D>]| {
            let mut sum = TypeStatistics::default();
            arenas.iter().for_each(|arena| sum.add(&arena.statistics()));
            sum
        };
        let mut types: Vec<_> = self.arenas.chunks(CLASSES.len()).map(sum).collect();
        for pool in self.custom_pools.read().iter() {
            types[pool.arena.desc.memory_type as usize].add(&pool.arena.statistics());
        }
        types
    }

    pub(super) fn reserved_bytes(&self, heap: u32) -> u64 {
        self.budgets.heap(heap).reserved_bytes
    }

    pub(super) fn statistics(&self) -> Statistics {
        Statistics {
            types: self.type_statistics(),
            retired_count: self.releases.retired_count(),
            calls: self.driver_calls(),
            moved_count: self.moved.count.load(Ordering::Relaxed),
            moved_bytes: self.moved.bytes.load(Ordering::Relaxed),
        }
    }

    fn driver_calls(&self) -> DriverCalls {
        let get = Counter::get;
        DriverCalls {
            allocate_memory: get(&self.calls.allocate_memory),
            free_memory: get(&self.calls.free_memory),
            create_object: get(&self.calls.create_object),
            destroy_object: get(&self.calls.destroy_object),
            placed: get(&self.calls.placed),
            staged: get(&self.calls.staged),
            wait: get(&self.calls.wait),
        }
    }
}
