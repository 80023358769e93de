//! The thread cache of memory: for each thread a few slots of a size class, claimed from the chain already and allocated to
//! nothing yet.
//!
//! ```text
//!   thread 1 ─▶ thread cache 0    256: ▒▒▒▒▒    384: ▒▒    512: –   …     owners: ● ● ●
//!   thread 2 ─▶ thread cache 1    256: ▒▒       …              │ empty: a batch, each time twice as many
//!                            │ full: the older half     │
//!                            ▼                          │
//!                          chain of the class  ◀────────┘
//! ```
//!
//! The chain's cells are lock-free, but threads that all use its first pools take its cache lines from each other. A thread cache
//! is one thread's, mostly: taking a cell out and putting one in is an exchange on a line that no other thread wants.
//! No thread waits for a thread cache: one that finds it taken goes to the chain.
//!
//! Each allocation keeps the allocator alive, by a count that all threads share. So a thread cache keeps these *owners* too, for
//! the next allocation. That is a circle, which [`ThreadCaches::close`] breaks when the last handle of the allocator goes: from
//! then on thread caches stay empty.
//!
//! A cell in a thread cache is live for its chain. Counts of live cells leave those out; what looks at single cells empties
//! the thread caches and holds them meanwhile; a request that finds no memory empties them first.
//!
//! | operation | cost |
//! |---|---|
//! | [`ThreadCaches::take`], [`put`] | O(1): one atomic exchange; a batch of the chain's operations now and then |
//! | [`ThreadCaches::sweep`], [`ThreadCaches::empty`], [`ThreadCaches::count`] | O(thread caches × classes), and the chain's for each cell |

use std::num::NonZero;
use std::sync::OnceLock;

use ringfence_core::pool_chain::{PoolAllocation, PoolChain};
use ringfence_core::range::Invalid;

use super::{CLASS_COUNT, Class};
use crate::primitive::{AtomicU64, Ordering, shrunk};
use crate::timeline::{TryCell, thread_place};

/// A cache holds so many cells at the most,
const CLASS_CELLS_MAX: u64 = shrunk(32, 2);
/// and so many bytes, but for a few cells.
const CLASS_BYTES_MAX: u64 = 256 << 10;
const CLASS_CELLS_MIN: u64 = shrunk(4, 2);
/// Owners that a thread cache keeps.
const OWNERS_MAX: usize = shrunk(256, 1) as usize;
const CACHES_MAX: usize = 64;

/// What a pool of cells lies in, as far as a thread cache has to know it.
pub(super) trait Ground {
    /// Where it begins in its memory.
    fn offset(&self) -> u64;

    /// Whether its memory is away: the slow path brings it back.
    fn is_evicted(&self) -> bool;
}

/// A cell that is claimed, and what an allocation needs to know of it.
pub(crate) struct Ready {
    pub(crate) cell: PoolAllocation,
    /// In its memory.
    pub(crate) offset: u64,
}

/// The chains of an arena, by class.
pub(super) type Chains<G> = [OnceLock<PoolChain<G>>; CLASS_COUNT];

/// The cells of one class in a thread cache, the last to be taken first.
#[derive(Default)]
struct ClassCache {
    cells: Vec<Ready>,
    /// How many cells it may hold: 0 until it is first used, then [`capacity`].
    room: usize,
    /// How many cells the next batch has.
    batch: u32,
}

pub(super) struct ThreadCache<O> {
    classes: [ClassCache; CLASS_COUNT],
    /// What keeps the allocator alive, for the next allocations.
    owners: Vec<O>,
    /// Since the last sweep.
    is_used: bool,
    /// Nothing comes in any more.
    is_closed: bool,
}

/// A thread cache on cache lines of its own.
#[repr(align(128))]
struct Apart<O>(TryCell<ThreadCache<O>>);

type Places<O> = Box<[OnceLock<Box<Apart<O>>>]>;

/// The thread caches of an arena.
pub(super) struct ThreadCaches<O> {
    /// A power of two of places; a thread cache is made when its thread first allocates.
    places: OnceLock<Places<O>>,
    /// The tick of the last sweep.
    swept: AtomicU64,
}

/// Cells that a cache holds at the most.
fn capacity(cell_bytes: u64) -> usize {
    (CLASS_BYTES_MAX / cell_bytes).clamp(CLASS_CELLS_MIN, CLASS_CELLS_MAX) as usize
}

fn places<O>() -> Places<O> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    (0..(threads * 2).clamp(1, CACHES_MAX).next_power_of_two()).map(|_| OnceLock::new()).collect()
}

impl<O> ThreadCaches<O> {
    pub(super) fn new() -> Self {
        Self { places: OnceLock::new(), swept: AtomicU64::new(0) }
    }

    /// This thread's thread cache, if there is one.
    #[inline]
    pub(super) fn mine(&self) -> Option<&TryCell<ThreadCache<O>>> {
        let places = self.places.get()?;
        Some(&places[thread_place() & (places.len() - 1)].get()?.0)
    }

    #[cold]
    fn make_mine(&self) -> &TryCell<ThreadCache<O>> {
        let places = self.places.get_or_init(places);
        let thread_cache = || Box::new(Apart(TryCell::new(ThreadCache::new())));
        &places[thread_place() & (places.len() - 1)].get_or_init(thread_cache).0
    }

    /// A cell from this thread's thread cache, or a batch from the chain; and an owner, if one is cached.
    ///
    /// Only while a handle of the allocator lives: it makes thread caches.
    #[inline]
    pub(super) fn take<G: Ground>(&self, class: Class, chains: &Chains<G>) -> Option<(Ready, Option<O>)> {
        let thread_cache = self.mine().unwrap_or_else(|| self.make_mine());
        thread_cache.try_take()?.with(|thread_cache| {
            thread_cache.is_used = true;
            let ready = match thread_cache.classes[class.index as usize].cells.pop() {
                Some(ready) => ready,
                None => thread_cache.refill(class, chains[class.index as usize].get()?)?,
            };
            Some((ready, thread_cache.owners.pop()))
        })
    }

    /// A cell from this thread's thread cache, without an owner; no batch is taken.
    pub(super) fn take_cell(&self, class: u32) -> Option<PoolAllocation> {
        let taken = self.mine()?.try_take()?;
        taken.with(|thread_cache| thread_cache.classes[class as usize].cells.pop()).map(|ready| ready.cell)
    }

    /// The offset of the cell that [`Self::take_cell`] would give.
    pub(super) fn peek(&self, class: u32) -> Option<u64> {
        let taken = self.mine()?.try_take()?;
        taken.with(|thread_cache| thread_cache.classes[class as usize].cells.last().map(|ready| ready.offset))
    }

    /// Gives the cells of thread caches back that no thread has used since the last tick. Once a tick.
    pub(super) fn sweep<G>(&self, tick: u64, chains: &Chains<G>) {
        if self.swept.swap(tick, Ordering::Relaxed) == tick {
            return;
        }
        for thread_cache in self.each() {
            // One that is taken is in use.
            let Some(taken) = thread_cache.try_take() else { continue };
            taken.with(|thread_cache| {
                if !std::mem::take(&mut thread_cache.is_used) {
                    thread_cache.empty(chains);
                }
            });
        }
    }

    /// Gives the cells of all thread caches back.
    pub(super) fn empty<G>(&self, chains: &Chains<G>) {
        self.each().for_each(|thread_cache| thread_cache.take().with(|thread_cache| thread_cache.empty(chains)));
    }

    /// Does something while the thread caches are empty and stay so.
    pub(super) fn while_empty<G>(&self, chains: &Chains<G>, work: &mut dyn FnMut()) {
        fn hold<O, G>(
            thread_caches: &mut dyn Iterator<Item = &TryCell<ThreadCache<O>>>,
            chains: &Chains<G>,
            work: &mut dyn FnMut(),
        ) {
            let Some(thread_cache) = thread_caches.next() else { return work() };
            thread_cache.take().with(|thread_cache| {
                thread_cache.empty(chains);
                hold(thread_caches, chains, work);
            });
        }
        hold(&mut self.each(), chains, work);
    }

    /// Gives everything back, and lets nothing in any more. The caller keeps the allocator alive.
    pub(super) fn close<G>(&self, chains: &Chains<G>) {
        for thread_cache in self.each() {
            let owners = thread_cache.take().with(|thread_cache| {
                thread_cache.is_closed = true;
                thread_cache.empty(chains);
                std::mem::take(&mut thread_cache.owners)
            });
            drop(owners);
        }
    }

    /// Cells of a class that are in thread caches.
    pub(super) fn count(&self, class: u32) -> u64 {
        let count = |thread_cache: &TryCell<ThreadCache<O>>| {
            thread_cache.take().with(|thread_cache| thread_cache.classes[class as usize].cells.len())
        };
        self.each().map(|thread_cache| count(thread_cache) as u64).sum()
    }

    pub(super) fn validate<G: Ground>(&self, chains: &Chains<G>) -> Result<(), Invalid> {
        self.each().try_for_each(|thread_cache| thread_cache.take().with(|thread_cache| thread_cache.validate(chains)))
    }

    fn each(&self) -> impl Iterator<Item = &TryCell<ThreadCache<O>>> {
        let places = self.places.get().into_iter().flatten();
        places.filter_map(|place| place.get().map(|thread_cache| &thread_cache.0))
    }
}

/// Puts a cell into a thread cache of its arena, with the owner that its allocation had; gives both back if the thread cache is taken
/// or closed.
///
/// # Safety
/// The thread cache is of the allocator of `owner`, and the cell of one of `chains`, which are those of the thread cache's arena.
#[inline]
pub(super) unsafe fn put<O, G, R: FnOnce() -> Ready>(
    thread_cache: *const TryCell<ThreadCache<O>>,
    chains: *const Chains<G>,
    class: u32,
    ready: R,
    owner: O,
) -> Result<(), (R, O)> {
    // SAFETY: the owner keeps the allocator, and with it its thread caches, until it lies in the thread cache. From then on the taken
    // flag does: the thread that empties the thread cache, and may then be the last owner, takes it first. Nothing follows the giving
    // back.
    let Some(taken) = (unsafe { &*thread_cache }).try_take() else { return Err((ready, owner)) };
    taken.with(move |thread_cache| {
        if thread_cache.is_closed {
            return Err((ready, owner));
        }
        thread_cache.is_used = true;
        let class_cache = &mut thread_cache.classes[class as usize];
        if class_cache.cells.len() == class_cache.room {
            // SAFETY: as above.
            class_cache.make_room(unsafe { &*chains }[class as usize].get());
        }
        class_cache.cells.push(ready());
        thread_cache.put_owner(owner);
        Ok(())
    })
}

impl<O> ThreadCache<O> {
    fn new() -> Self {
        Self { classes: Default::default(), owners: Vec::with_capacity(OWNERS_MAX), is_used: false, is_closed: false }
    }

    /// Takes a batch from the chain; its first cell is the caller's.
    #[cold]
    fn refill<G: Ground>(&mut self, class: Class, chain: &PoolChain<G>) -> Option<Ready> {
        let class_cache = &mut self.classes[class.index as usize];
        if class_cache.room == 0 {
            class_cache.furnish(capacity(class.bytes));
        }
        let batch = class_cache.batch.max(1);
        class_cache.batch = (batch * 2).min(class_cache.room as u32 / 2);
        let next = || {
            let cell = chain.allocate_near(thread_place())?;
            Ready::of(chain, cell)
        };
        let first = next()?;
        class_cache.cells.extend((1..batch).map_while(|_| next()));
        class_cache.cells.reverse();
        Some(first)
    }

    #[inline]
    fn put_owner(&mut self, owner: O) {
        if self.owners.len() < OWNERS_MAX {
            self.owners.push(owner);
        }
        // Else others lie in the thread cache, so that this is not the last one: only the count falls.
    }

    fn empty<G>(&mut self, chains: &Chains<G>) {
        for (class_cache, chain) in self.classes.iter_mut().zip(chains) {
            if let Some(chain) = chain.get() {
                class_cache.cells.drain(..).for_each(|ready| give(chain, ready.cell));
            }
            class_cache.batch = 0;
        }
    }

    fn validate<G: Ground>(&self, chains: &Chains<G>) -> Result<(), Invalid> {
        for (class_cache, chain) in self.classes.iter().zip(chains) {
            let (chain, held) = (chain.get(), class_cache.cells.len());
            Invalid::unless(held <= class_cache.room, "a class_cache holds no more than its room", held as u64)?;
            for ready in &class_cache.cells {
                let heap = chain.and_then(|chain| chain.heap(&ready.cell));
                let offset = heap.map(|ground| ground.offset() + ready.cell.offset());
                Invalid::unless(
                    offset == Some(ready.offset),
                    "a cell in a thread_cache is live in its chain",
                    ready.offset,
                )?;
            }
        }
        let is_empty = self.owners.is_empty() && self.classes.iter().all(|class_cache| class_cache.cells.is_empty());
        Invalid::unless(!self.is_closed || is_empty, "a closed thread_cache is empty", 0)
    }
}

impl ClassCache {
    fn furnish(&mut self, room: usize) {
        self.room = room;
        self.cells.reserve_exact(room);
    }

    /// Gives the older half back to the chain.
    #[cold]
    fn make_room<G>(&mut self, chain: Option<&PoolChain<G>>) {
        let chain = chain.expect("a cell that is held has a chain");
        if self.room == 0 {
            self.furnish(capacity(chain.block_size()));
        } else {
            self.cells.drain(..self.room / 2).for_each(|ready| give(chain, ready.cell));
        }
    }
}

impl Ready {
    /// `None` if its memory is evicted: the slow path brings that back.
    fn of<G: Ground>(chain: &PoolChain<G>, cell: PoolAllocation) -> Option<Self> {
        let ground = chain.heap(&cell).expect("a cell that is held lies in its chain");
        if ground.is_evicted() {
            give(chain, cell);
            return None;
        }
        let offset = ground.offset() + cell.offset();
        Some(Self { cell, offset })
    }
}

fn give<G>(chain: &PoolChain<G>, cell: PoolAllocation) {
    chain.free_near(thread_place(), cell).expect("the owner of a cell is move-only: it is live");
}

#[cfg(all(test, any(loom, miri)))]
mod models;
