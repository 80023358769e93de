//! Growth off the path: the next block is made before it is needed, so that ordinary allocations wait for no driver.
//!
//! ```text
//!   allocation ── free bytes below the low-water mark? ──▶ the arena wants a block ──▶ wake
//!                                                                                       │
//!   Maintenance (a thread of the library), or the program's own call of maintain()  ◀───┘
//!        └─ for each arena that wants one: the next block, within the budget, into the arena
//! ```
//!
//! How high the mark is, [`LowWater`](ringfence_core::low_water::LowWater) says. A block that was made ahead and is not needed is
//! an empty block like any other: it goes after its grace if there are more of them than are kept.
//!
//! What a program knows beforehand it can announce: [`MemoryBudgets::reserve`](crate::memory::MemoryBudgets::reserve).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use super::request::AllocationDesc;
use super::shared::Shared;
use super::shortage::{Attempt, MemoryBudgets};
use crate::device::{Device, ResourceClass};
use crate::error::Error;

impl<D: Device> Shared<D> {
    /// Makes the blocks that arenas want; says how many.
    pub(crate) fn maintain(&self) -> usize {
        self.wake.served.store(true, Ordering::Relaxed);
        let own = self.arenas.iter().map(|arena| self.grow_ahead(arena)).sum::<usize>();
        let pools = self.custom_pools.read().clone();
        own + pools.iter().map(|pool| self.grow_ahead(&pool.arena)).sum::<usize>()
    }
}

/// The library's thread that makes blocks ahead of need: see [`MemoryBudgets::maintain_in_background`](crate::memory::MemoryBudgets::maintain_in_background).
///
/// Dropping it ends the thread, after the driver call that it may be in.
#[must_use = "the thread ends when this is dropped"]
pub struct Maintenance {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Maintenance {
    pub(crate) fn spawn<D: Device>(shared: &Arc<Shared<D>>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (weak, stopped) = (Arc::downgrade(shared), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("ringfence".into()).spawn(move || run(&weak, &stopped))?;
        *shared.wake.sleeper.lock() = Some(thread.thread().clone());
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

/// Blocks that are made before they are needed.
impl<D: Device> MemoryBudgets<'_, D> {
    /// Announces that the program is going to allocate `bytes` for resources of `class`, where `desc` says: before it
    /// loads a level, say. The blocks for them are made now, a driver call each on this thread, so that what is
    /// allocated then needs none. Says how many bytes were requested of the driver: fewer than announced if empty blocks
    /// are there.
    ///
    /// [`Allocator::reclaim`](crate::Allocator::reclaim) does not free these blocks before as many bytes were allocated there.
    /// [`MemoryBudgets::trim`] and a shortage of memory do: what was announced is void then. Resources that get memory of
    /// their own, for their size or by the driver's wish, find nothing here; and where the ends of blocks are too small
    /// for what comes, the last of it may need a block more.
    ///
    /// Of `desc`, the location, the memory types and properties, `within_budget` and `never_grow` count. The best memory
    /// type is taken and no other tried; where the resources' requirements are known, `memory_types` should name the
    /// types that these allow. No lock is held that an allocation needs: another thread can announce while this one draws.
    ///
    /// # Errors
    /// More than the heap has, no memory type, no memory, over the budget. Nothing has changed then.
    pub fn reserve(&self, class: ResourceClass, bytes: u64, desc: AllocationDesc<'_>) -> Result<u64, Error> {
        let shared = self.0;
        shared.check_lost()?;
        if bytes == 0 {
            return Ok(0);
        }
        let capabilities = shared.device.capabilities();
        let mut types = shared.order.candidates_for(capabilities, &desc, u32::MAX);
        let no_type = Error::NoMemoryType { location: desc.location, memory_type_bits: desc.memory_types };
        let memory_type = types.next().ok_or(no_type)?;
        let max = capabilities.memory_heaps[shared.heap_of(memory_type) as usize].bytes;
        if bytes > max {
            return Err(Error::TooLarge { size: bytes, max });
        }
        let mut attempt = Attempt::at(memory_type, bytes, &desc);
        let arena = &shared.arenas[shared.shared_arena_index(memory_type, class) as usize];
        let made = shared.announce(arena, bytes, &mut attempt);
        made.map_err(|failure| shared.give_up(&attempt, None, failure))
    }

    /// Makes the blocks that are going to be needed soon, so that no allocation waits for them: a driver call each.
    /// Says how many. For programs that have a thread of their own for it; else there is
    /// [`MemoryBudgets::maintain_in_background`](crate::memory::MemoryBudgets::maintain_in_background).
    pub fn maintain(&self) -> usize {
        self.0.maintain()
    }

    /// Starts a thread that makes blocks before they are needed. It sleeps until an arena falls below its low-water
    /// mark; it ends when the value that this returns is dropped.
    ///
    /// The mark is half a block, or more where more is used while the driver makes one: up to four blocks. Where the
    /// program requests more in a second than the driver can make, nothing helps but [`MemoryBudgets::reserve`](crate::memory::MemoryBudgets::reserve).
    ///
    /// The thread may be in a driver call when the allocator is dropped: drop the value that this returns before the
    /// device is destroyed.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn maintain_in_background(&self) -> std::io::Result<Maintenance> {
        Maintenance::spawn(self.0)
    }
}
