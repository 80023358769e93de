//! Slots at hand: for each thread a few single slots that are taken already and belong to nobody yet.
//!
//! ```text
//!   thread 1 ─▶ stock 0   ▢▢▢▢▢      take, put: a pop, a push
//!   thread 2 ─▶ stock 1   ▢▢            │ empty: a batch, each time twice as many
//!                                       │ full: the older half
//!                                       ▼
//!                                     the slots of the heap, under its lock
//! ```
//!
//! A stock is one thread's, mostly: to take a slot out and to put one in is an exchange on a line that no other thread
//! wants. Nobody waits for a stock: who finds it taken goes to the lock.
//!
//! What lies in a stock keeps the heap alive, as each descriptor does, so that neither costs a count that all threads
//! share. That is a circle, which [`Stocks::close`] breaks when the last handle of the heap goes: from then on stocks
//! stay empty.
//!
//! | operation | cost |
//! |---|---|
//! | [`Stocks::take`], [`put`] | O(1): one atomic exchange |
//! | [`Stocks::sweep`], [`Stocks::close`], [`Stocks::len`] | O(stocks), and what is given back |

use std::num::NonZero;
use std::sync::OnceLock;

use ringfence_core::range::Invalid;
use smallvec::SmallVec;

use ringfence_memory::extend::{TryCell, thread_place};

/// So many items a stock holds at the most.
const ROOM: usize = 64;
const STOCKS_MAX: usize = 64;

/// What is moved at once: at the most all of a stock.
pub(super) type Batch<T> = SmallVec<[T; ROOM]>;

/// What one thread has at hand.
pub(super) struct Stock<T> {
    /// The last goes first.
    items: Vec<T>,
    /// How many may lie here: [`ROOM`], and 0 once nothing comes in any more.
    room: usize,
    /// How many the next batch has.
    batch: usize,
    /// Since the last sweep.
    is_used: bool,
}

/// A stock on cache lines of its own.
#[repr(align(128))]
struct Apart<T>(TryCell<Stock<T>>);

/// The stocks of a heap.
pub(super) struct Stocks<T> {
    /// A power of two of places; a stock is made when its thread first allocates.
    places: Box<[OnceLock<Box<Apart<T>>>]>,
}

impl<T> Stocks<T> {
    pub(super) fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let places = (threads * 2).clamp(1, STOCKS_MAX).next_power_of_two();
        Self { places: (0..places).map(|_| OnceLock::new()).collect() }
    }

    fn place(&self) -> &OnceLock<Box<Apart<T>>> {
        &self.places[thread_place() & (self.places.len() - 1)]
    }

    /// This thread's stock, if there is one.
    #[inline]
    pub(super) fn mine(&self) -> Option<&TryCell<Stock<T>>> {
        self.place().get().map(|stock| &stock.0)
    }

    /// An item of this thread's stock.
    #[inline]
    pub(super) fn take(&self) -> Option<T> {
        self.mine()?.try_take()?.with(|stock| {
            stock.is_used = true;
            stock.items.pop()
        })
    }

    /// How many items this thread's stock, which is empty, should be given; it is made if need be. Only while a handle of
    /// the heap lives.
    #[cold]
    pub(super) fn wanted(&self) -> usize {
        let stock = self.place().get_or_init(|| Box::new(Apart(TryCell::new(Stock::new()))));
        let taken = stock.0.try_take();
        taken.map_or(0, |taken| taken.with(Stock::next_batch))
    }

    /// Puts items into this thread's stock; leaves those that do not fit, or all if it is taken.
    #[cold]
    pub(super) fn fill(&self, items: &mut Batch<T>) {
        let Some(taken) = self.mine().and_then(TryCell::try_take) else { return };
        taken.with(|stock| {
            let free = stock.room.saturating_sub(stock.items.len());
            stock.items.extend(items.drain(..free.min(items.len())));
        });
    }

    /// Takes the older half out of this thread's stock, if it is full.
    #[cold]
    pub(super) fn older(&self) -> Batch<T> {
        let Some(taken) = self.mine().and_then(TryCell::try_take) else { return Batch::new() };
        taken.with(|stock| {
            let older = if stock.items.len() < stock.room { 0 } else { stock.items.len() / 2 };
            stock.items.drain(..older).collect()
        })
    }

    /// Takes out what lies in stocks that nobody has used since the last time.
    pub(super) fn sweep(&self, mut each: impl FnMut(T)) {
        for stock in self.each() {
            // One that is taken is in use.
            let Some(taken) = stock.try_take() else { continue };
            let mut idle =
                taken.with(|stock| if std::mem::take(&mut stock.is_used) { Batch::new() } else { stock.empty() });
            idle.drain(..).for_each(&mut each);
        }
    }

    /// Takes everything out.
    pub(super) fn empty(&self, mut each: impl FnMut(T)) {
        self.each().for_each(|stock| stock.take().with(Stock::empty).drain(..).for_each(&mut each));
    }

    /// Takes everything out, and lets nothing in any more.
    pub(super) fn close(&self, mut each: impl FnMut(T)) {
        for stock in self.each() {
            let mut all = stock.take().with(|stock| {
                stock.room = 0;
                stock.empty()
            });
            all.drain(..).for_each(&mut each);
        }
    }

    /// Items in all stocks.
    pub(super) fn len(&self) -> usize {
        self.each().map(|stock| stock.take().with(|stock| stock.items.len())).sum()
    }

    /// Looks at each item.
    pub(super) fn validate(&self, mut check: impl FnMut(&T) -> Result<(), Invalid>) -> Result<(), Invalid> {
        self.each().try_for_each(|stock| {
            stock.take().with(|stock| {
                let held = stock.items.len();
                Invalid::unless(held <= stock.room, "a stock holds no more than its room", held as u64)?;
                stock.items.iter().try_for_each(&mut check)
            })
        })
    }

    fn each(&self) -> impl Iterator<Item = &TryCell<Stock<T>>> {
        self.places.iter().filter_map(|place| place.get().map(|stock| &stock.0))
    }
}

/// Puts an item into a stock; gives it back if the stock is taken, full or closed.
///
/// # Safety
/// `item` keeps the stock alive: as long as it lies there, and wherever else it is.
#[inline]
pub(super) unsafe fn put<T>(stock: *const TryCell<Stock<T>>, item: T) -> Result<(), T> {
    // SAFETY: the item keeps the stock until it lies in it. From then on the taken flag does: whoever takes the item out,
    // and with it what may be the last to keep the stock, takes the flag first. Nothing follows the giving back.
    let Some(taken) = (unsafe { &*stock }).try_take() else { return Err(item) };
    taken.with(|stock| {
        if stock.items.len() >= stock.room {
            return Err(item);
        }
        stock.is_used = true;
        stock.items.push(item);
        Ok(())
    })
}

impl<T> Stock<T> {
    fn new() -> Self {
        Self { items: Vec::with_capacity(ROOM), room: ROOM, batch: 0, is_used: true }
    }

    /// None for the first item that a thread takes: it may stay the only one.
    fn next_batch(&mut self) -> usize {
        let next = (self.batch * 2).clamp(1, ROOM / 2);
        std::mem::replace(&mut self.batch, next)
    }

    fn empty(&mut self) -> Batch<T> {
        self.batch = 0;
        self.items.drain(..).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn put_mine(stocks: &Stocks<u32>, item: u32) -> Result<(), u32> {
        let stock = std::ptr::from_ref(stocks.mine().expect("it was made"));
        // SAFETY: `stocks` is borrowed all the time.
        unsafe { put(stock, item) }
    }

    #[test]
    fn a_stock_is_filled_in_growing_batches_and_gives_its_last_first() {
        let stocks = Stocks::new();
        assert!(stocks.mine().is_none() && stocks.take().is_none());
        let wanted: Vec<_> = (0..8).map(|_| stocks.wanted()).collect();
        assert_eq!(wanted, [0, 1, 2, 4, 8, 16, 32, 32]);
        let mut batch: Batch<u32> = (0..32).collect();
        stocks.fill(&mut batch);
        assert!(batch.is_empty());
        assert_eq!((stocks.len(), stocks.take(), stocks.take()), (32, Some(31), Some(30)));
    }

    #[test]
    fn a_full_stock_refuses_and_hands_its_older_half_over() {
        let stocks = Stocks::new();
        stocks.wanted();
        (0..ROOM as u32).for_each(|item| put_mine(&stocks, item).expect("room"));
        assert_eq!(put_mine(&stocks, 99), Err(99));
        let older = stocks.older();
        assert_eq!(older.as_slice(), (0..ROOM as u32 / 2).collect::<Vec<_>>());
        let mut too_many: Batch<u32> = (100..140).collect();
        stocks.fill(&mut too_many);
        assert_eq!((too_many.len(), stocks.len()), (8, ROOM));
        stocks.validate(|_| Ok(())).expect("sound");
    }

    #[test]
    fn a_stock_is_swept_when_it_was_idle_and_a_closed_one_stays_empty() {
        let stocks = Stocks::new();
        stocks.wanted();
        put_mine(&stocks, 1).expect("room");
        let mut out = Vec::new();
        stocks.sweep(|item| out.push(item));
        assert_eq!(out, Vec::<u32>::new(), "it was used since the last time");
        stocks.sweep(|item| out.push(item));
        assert_eq!(out, [1]);
        put_mine(&stocks, 2).expect("room");
        stocks.close(|item| out.push(item));
        assert_eq!((out.as_slice(), put_mine(&stocks, 3)), ([1, 2].as_slice(), Err(3)));
        stocks.fill(&mut [4].into_iter().collect());
        assert_eq!((stocks.len(), stocks.take()), (0, None));
    }

    /// What lies in a stock is all that keeps it, as with descriptors: threads put and take, and one closes.
    #[test]
    fn whoever_closes_ends_the_circle_whatever_threads_do() {
        struct Item(Arc<Stocks<Item>>);
        for _ in 0..200 {
            let stocks = Arc::new(Stocks::new());
            let gone = Arc::downgrade(&stocks);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    let stocks = Arc::clone(&stocks);
                    scope.spawn(move || {
                        stocks.wanted();
                        let mut held: Vec<_> = (0..20).map(|_| Item(Arc::clone(&stocks))).collect();
                        drop(stocks);
                        while let Some(item) = held.pop() {
                            let stock = item.0.mine().map(std::ptr::from_ref);
                            // SAFETY: the item keeps the stocks.
                            drop(stock.and_then(|stock| unsafe { put(stock, item) }.err()));
                        }
                    });
                }
                stocks.close(drop);
            });
            // A stock that was made after the closing: in a heap nobody makes one without a handle.
            stocks.close(drop);
            drop(stocks);
            assert!(gone.upgrade().is_none());
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// All that keeps the stocks, as a descriptor keeps its heap: `loom` finds one that is never dropped, and a stock that
    /// is used after.
    struct Item(Arc<Stocks<Item>>);

    fn put_back(item: Item) {
        let stock = item.0.mine().map(std::ptr::from_ref);
        // SAFETY: the item keeps the stocks.
        drop(stock.and_then(|stock| unsafe { put(stock, item) }.err()));
    }

    #[test]
    fn whoever_closes_ends_the_circle_whatever_the_other_does() {
        loom::model(|| {
            let stocks = Arc::new(Stocks::new());
            stocks.wanted();
            let item = Item(Arc::clone(&stocks));
            let other = thread::spawn(move || put_back(item));
            put_back(Item(Arc::clone(&stocks)));
            stocks.close(drop);
            drop(stocks);
            other.join().unwrap();
        });
    }

    #[test]
    fn an_item_is_had_by_one_at_a_time() {
        loom::model(|| {
            let stocks = Arc::new(Stocks::new());
            stocks.wanted();
            stocks.fill(&mut [1_u32].into_iter().collect());
            let theirs = Arc::clone(&stocks);
            let other = thread::spawn(move || theirs.take());
            let mut found = Vec::new();
            found.extend(stocks.take());
            stocks.sweep(|item| found.push(item));
            found.extend(other.join().unwrap());
            stocks.empty(|item| found.push(item));
            assert_eq!(found, [1]);
        });
    }
}
