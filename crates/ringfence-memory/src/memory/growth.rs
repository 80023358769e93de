//! Growth off the path: the next block is made before it is needed, so that ordinary allocations wait for no driver.
//!
//! ```text
//!   allocation ── free bytes below the low-water mark? ──▶ the arena wants a block ──▶ wake
//!                                                                                       │
//!   Maintenance (a thread of the library), or the program's own call of maintain()  ◀───┘
//!        └─ for each arena that wants one: the next block, within the budget, into the arena
//! ```
//!
//! How high the mark is, [`LowWater`](super::low_water::LowWater) says. A block that was made ahead and is not needed is
//! an empty block like any other: it goes after its grace if there are more of them than are kept.
//!
//! What a program knows beforehand it can announce: [`Allocator::reserve`](super::Allocator::reserve).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{JoinHandle, Thread};

use parking_lot::Mutex;

use super::ladder::{Attempt, Terms};
use super::shared::Shared;
use crate::device::{Device, ResourceClass};
use crate::error::Error;
use crate::resource::AllocationDesc;

/// Whoever makes blocks ahead, asleep until there is something to do.
#[derive(Default)]
pub(super) struct Growth {
    sleeper: Mutex<Option<Thread>>,
    /// Set for good when somebody makes blocks ahead for the first time.
    served: AtomicBool,
}

impl Growth {
    /// Whether there is anybody who makes blocks ahead.
    pub(super) fn is_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// Called once when an arena's free bytes fall below its mark.
    pub(super) fn wake(&self) {
        if let Some(thread) = &*self.sleeper.lock() {
            thread.unpark();
        }
    }
}

impl<D: Device> Shared<D> {
    /// Makes the blocks that arenas want; says how many.
    pub(super) fn maintain(&self) -> usize {
        self.growth.served.store(true, Ordering::Relaxed);
        let own = self.arenas.iter().map(|arena| arena.grow_ahead(self)).sum::<usize>();
        let pools = self.custom_pools.read().clone();
        own + pools.iter().map(|pool| pool.arena.grow_ahead(self)).sum::<usize>()
    }

    /// Makes blocks for `bytes` that are announced, in the best memory type for them.
    pub(super) fn reserve(&self, class: ResourceClass, bytes: u64, desc: &AllocationDesc<'_>) -> Result<u64, Error> {
        self.check_lost()?;
        if bytes == 0 {
            return Ok(0);
        }
        let capabilities = self.device.capabilities();
        let mut types = self.order.candidates_for(capabilities, desc, u32::MAX);
        let no_type = Error::NoMemoryType { location: desc.location, memory_type_bits: desc.memory_types };
        let memory_type = types.next().ok_or(no_type)?;
        let max = capabilities.memory_heaps[self.heap_of(memory_type) as usize].bytes;
        if bytes > max {
            return Err(Error::TooLarge { size: bytes, max });
        }
        let mut attempt = Attempt::at(memory_type);
        let arena = &self.arenas[self.shared_arena_index(memory_type, class) as usize];
        let made = arena.announce(self, bytes, Terms::of(desc), &mut attempt);
        made.map_err(|refusal| self.give_up_on(bytes, desc.location, memory_type, &attempt, refusal))
    }
}

/// The library's thread that makes blocks ahead of need: see [`Allocator::maintain_in_background`].
///
/// Dropping it ends the thread, after the driver call that it may be in.
///
/// [`Allocator::maintain_in_background`]: super::Allocator::maintain_in_background
#[must_use = "the thread ends when this is dropped"]
pub struct Maintenance {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Maintenance {
    pub(super) fn spawn<D: Device>(shared: &Arc<Shared<D>>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (weak, stopped) = (Arc::downgrade(shared), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("ringfence".into()).spawn(move || run(&weak, &stopped))?;
        *shared.growth.sleeper.lock() = Some(thread.thread().clone());
        thread.thread().unpark(); // something may have been wanted before it could be woken
        Ok(Self { stop, thread: Some(thread) })
    }
}

fn run<D: Device>(shared: &Weak<Shared<D>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        let Some(held) = shared.upgrade() else { return };
        let made = held.maintain();
        drop(held);
        // A block may be used up while the next one was made: look again before sleeping.
        if made == 0 {
            std::thread::park();
        }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread is shown by the panic hook; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Maintenance")
    }
}
