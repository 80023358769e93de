//! Cells at hand: for each thread a few that are claimed from the chain already and belong to nobody yet.
//!
//! ```text
//!   thread 1 ─▶ stock 0    256: ▒▒▒▒▒    384: ▒▒    512: –   …     owners: ● ● ●
//!   thread 2 ─▶ stock 1    256: ▒▒       …              │ empty: a batch, each time twice as many
//!                            │ full: the older half     │
//!                            ▼                          │
//!                          chain of the class  ◀────────┘
//! ```
//!
//! The chain's cells are lock-free, but threads that all use its first pools take its cache lines from each other. A stock
//! is one thread's, mostly: taking a cell out and putting one in is an exchange on a line that no other thread wants.
//! Nobody waits for a stock: who finds it taken goes to the chain.
//!
//! Each allocation keeps the allocator alive, by a count that all threads share. So a stock keeps these *owners* too, for
//! the next allocation. That is a circle, which [`Stocks::close`] breaks when the last handle of the allocator goes: from
//! then on stocks stay empty.
//!
//! A cell in a stock is live for its chain. Whoever counts live cells takes those off, whoever looks at single cells
//! empties the stocks and holds them meanwhile, and whoever needs memory empties them first.
//!
//! | operation | cost |
//! |---|---|
//! | [`Stocks::take`], [`put`] | O(1): one atomic exchange; a batch of the chain's operations now and then |
//! | [`Stocks::sweep`], [`Stocks::empty`], [`Stocks::count`] | O(stocks × classes), and the chain's for each cell |

use std::num::NonZero;
use std::sync::OnceLock;

use ringfence_core::pool_chain::{PoolAllocation, PoolChain};
use ringfence_core::range::Invalid;

use super::{CLASS_COUNT, Class};
use crate::primitive::{AtomicU64, Ordering, shrunk};
use crate::timeline::{TryCell, thread_place};

/// A shelf holds so many cells at the most,
const SHELF_CELLS_MAX: u64 = shrunk(32, 2);
/// and so many bytes, but for a few cells.
const SHELF_BYTES_MAX: u64 = 256 << 10;
const SHELF_CELLS_MIN: u64 = shrunk(4, 2);
/// Owners that a stock keeps.
const OWNERS_MAX: usize = shrunk(256, 1) as usize;
const STOCKS_MAX: usize = 64;

/// What a pool of cells lies in, as far as a stock has to know it.
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

/// The cells of one class in a stock, the last to be taken first.
#[derive(Default)]
struct Shelf {
    cells: Vec<Ready>,
    /// How many cells it may hold: 0 until it is first used, then [`capacity`].
    room: usize,
    /// How many cells the next batch has.
    batch: u32,
}

pub(super) struct Stock<O> {
    shelves: [Shelf; CLASS_COUNT],
    /// What keeps the allocator alive, for the next allocations.
    owners: Vec<O>,
    /// Since the last sweep.
    is_used: bool,
    /// Nothing comes in any more.
    is_closed: bool,
}

/// A stock on cache lines of its own.
#[repr(align(128))]
struct Apart<O>(TryCell<Stock<O>>);

type Places<O> = Box<[OnceLock<Box<Apart<O>>>]>;

/// The stocks of an arena.
pub(super) struct Stocks<O> {
    /// A power of two of places; a stock is made when its thread first allocates.
    places: OnceLock<Places<O>>,
    /// The tick of the last sweep.
    swept: AtomicU64,
}

/// Cells that a shelf holds at the most.
fn capacity(cell_bytes: u64) -> usize {
    (SHELF_BYTES_MAX / cell_bytes).clamp(SHELF_CELLS_MIN, SHELF_CELLS_MAX) as usize
}

fn places<O>() -> Places<O> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    (0..(threads * 2).clamp(1, STOCKS_MAX).next_power_of_two()).map(|_| OnceLock::new()).collect()
}

impl<O> Stocks<O> {
    pub(super) fn new() -> Self {
        Self { places: OnceLock::new(), swept: AtomicU64::new(0) }
    }

    /// This thread's stock, if there is one.
    #[inline]
    pub(super) fn mine(&self) -> Option<&TryCell<Stock<O>>> {
        let places = self.places.get()?;
        Some(&places[thread_place() & (places.len() - 1)].get()?.0)
    }

    #[cold]
    fn make_mine(&self) -> &TryCell<Stock<O>> {
        let places = self.places.get_or_init(places);
        let stock = || Box::new(Apart(TryCell::new(Stock::new())));
        &places[thread_place() & (places.len() - 1)].get_or_init(stock).0
    }

    /// A cell from this thread's stock, or a batch from the chain; and an owner, if one is at hand.
    ///
    /// Only while a handle of the allocator lives: it makes stocks.
    #[inline]
    pub(super) fn take<G: Ground>(&self, class: Class, chains: &Chains<G>) -> Option<(Ready, Option<O>)> {
        let stock = self.mine().unwrap_or_else(|| self.make_mine());
        stock.try_take()?.with(|stock| {
            stock.is_used = true;
            let ready = match stock.shelves[class.index as usize].cells.pop() {
                Some(ready) => ready,
                None => stock.refill(class, chains[class.index as usize].get()?)?,
            };
            Some((ready, stock.owners.pop()))
        })
    }

    /// A cell from this thread's stock, without an owner; no batch is taken.
    pub(super) fn take_cell(&self, class: u32) -> Option<PoolAllocation> {
        let taken = self.mine()?.try_take()?;
        taken.with(|stock| stock.shelves[class as usize].cells.pop()).map(|ready| ready.cell)
    }

    /// The offset of the cell that [`Self::take_cell`] would give.
    pub(super) fn peek(&self, class: u32) -> Option<u64> {
        let taken = self.mine()?.try_take()?;
        taken.with(|stock| stock.shelves[class as usize].cells.last().map(|ready| ready.offset))
    }

    /// Gives the cells of stocks back that nobody has used since the last tick. Once a tick.
    pub(super) fn sweep<G>(&self, tick: u64, chains: &Chains<G>) {
        if self.swept.swap(tick, Ordering::Relaxed) == tick {
            return;
        }
        for stock in self.each() {
            // One that is taken is in use.
            let Some(taken) = stock.try_take() else { continue };
            taken.with(|stock| {
                if !std::mem::take(&mut stock.is_used) {
                    stock.empty(chains);
                }
            });
        }
    }

    /// Gives the cells of all stocks back.
    pub(super) fn empty<G>(&self, chains: &Chains<G>) {
        self.each().for_each(|stock| stock.take().with(|stock| stock.empty(chains)));
    }

    /// Does something while the stocks are empty and stay so.
    pub(super) fn while_empty<G>(&self, chains: &Chains<G>, work: &mut dyn FnMut()) {
        fn hold<O, G>(
            stocks: &mut dyn Iterator<Item = &TryCell<Stock<O>>>,
            chains: &Chains<G>,
            work: &mut dyn FnMut(),
        ) {
            let Some(stock) = stocks.next() else { return work() };
            stock.take().with(|stock| {
                stock.empty(chains);
                hold(stocks, chains, work);
            });
        }
        hold(&mut self.each(), chains, work);
    }

    /// Gives everything back, and lets nothing in any more. The caller keeps the allocator alive.
    pub(super) fn close<G>(&self, chains: &Chains<G>) {
        for stock in self.each() {
            let owners = stock.take().with(|stock| {
                stock.is_closed = true;
                stock.empty(chains);
                std::mem::take(&mut stock.owners)
            });
            drop(owners);
        }
    }

    /// Cells of a class that are in stocks.
    pub(super) fn count(&self, class: u32) -> u64 {
        let count = |stock: &TryCell<Stock<O>>| stock.take().with(|stock| stock.shelves[class as usize].cells.len());
        self.each().map(|stock| count(stock) as u64).sum()
    }

    pub(super) fn validate<G: Ground>(&self, chains: &Chains<G>) -> Result<(), Invalid> {
        self.each().try_for_each(|stock| stock.take().with(|stock| stock.validate(chains)))
    }

    fn each(&self) -> impl Iterator<Item = &TryCell<Stock<O>>> {
        let places = self.places.get().into_iter().flatten();
        places.filter_map(|place| place.get().map(|stock| &stock.0))
    }
}

/// Puts a cell into a stock of its arena, with the owner that its allocation had; gives both back if the stock is taken
/// or closed.
///
/// # Safety
/// The stock is of the allocator of `owner`, and the cell of one of `chains`, which are those of the stock's arena.
#[inline]
pub(super) unsafe fn put<O, G, R: FnOnce() -> Ready>(
    stock: *const TryCell<Stock<O>>,
    chains: *const Chains<G>,
    class: u32,
    ready: R,
    owner: O,
) -> Result<(), (R, O)> {
    // SAFETY: the owner keeps the allocator, and with it its stocks, until it lies in the stock. From then on the taken
    // flag does: whoever empties the stock, and may then be the last owner, takes it first. Nothing follows the giving
    // back.
    let Some(taken) = (unsafe { &*stock }).try_take() else { return Err((ready, owner)) };
    taken.with(move |stock| {
        if stock.is_closed {
            return Err((ready, owner));
        }
        stock.is_used = true;
        let shelf = &mut stock.shelves[class as usize];
        if shelf.cells.len() == shelf.room {
            // SAFETY: as above.
            shelf.make_room(unsafe { &*chains }[class as usize].get());
        }
        shelf.cells.push(ready());
        stock.put_owner(owner);
        Ok(())
    })
}

impl<O> Stock<O> {
    fn new() -> Self {
        Self { shelves: Default::default(), owners: Vec::with_capacity(OWNERS_MAX), is_used: false, is_closed: false }
    }

    /// Takes a batch from the chain; its first cell is the caller's.
    #[cold]
    fn refill<G: Ground>(&mut self, class: Class, chain: &PoolChain<G>) -> Option<Ready> {
        let shelf = &mut self.shelves[class.index as usize];
        if shelf.room == 0 {
            shelf.furnish(capacity(class.bytes));
        }
        let batch = shelf.batch.max(1);
        shelf.batch = (batch * 2).min(shelf.room as u32 / 2);
        let next = || {
            let cell = chain.allocate_near(thread_place())?;
            Ready::of(chain, cell)
        };
        let first = next()?;
        shelf.cells.extend((1..batch).map_while(|_| next()));
        shelf.cells.reverse();
        Some(first)
    }

    #[inline]
    fn put_owner(&mut self, owner: O) {
        if self.owners.len() < OWNERS_MAX {
            self.owners.push(owner);
        }
        // Else others lie in the stock, so that this is not the last one: only the count falls.
    }

    fn empty<G>(&mut self, chains: &Chains<G>) {
        for (shelf, chain) in self.shelves.iter_mut().zip(chains) {
            if let Some(chain) = chain.get() {
                shelf.cells.drain(..).for_each(|ready| give(chain, ready.cell));
            }
            shelf.batch = 0;
        }
    }

    fn validate<G: Ground>(&self, chains: &Chains<G>) -> Result<(), Invalid> {
        for (shelf, chain) in self.shelves.iter().zip(chains) {
            let (chain, held) = (chain.get(), shelf.cells.len());
            Invalid::unless(held <= shelf.room, "a shelf holds no more than its room", held as u64)?;
            for ready in &shelf.cells {
                let heap = chain.and_then(|chain| chain.heap(&ready.cell));
                let offset = heap.map(|ground| ground.offset() + ready.cell.offset());
                Invalid::unless(offset == Some(ready.offset), "a cell in a stock is live in its chain", ready.offset)?;
            }
        }
        let is_empty = self.owners.is_empty() && self.shelves.iter().all(|shelf| shelf.cells.is_empty());
        Invalid::unless(!self.is_closed || is_empty, "a closed stock is empty", 0)
    }
}

impl Shelf {
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
