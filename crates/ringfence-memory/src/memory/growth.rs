//! Creating the next block before it is needed, and freeing empty blocks, so that frames do not wait for the driver.
//!
//! ```text
//!   allocation ── free bytes below the low-water mark? ──▶ the arena wants a block ──▶ wake
//!   reclaim ── empty blocks above the limit, or after their grace? ─────────────────▶ wake
//!                                                                                       │
//!   Maintenance (a thread of the library), or the program's own call of maintain()  ◀───┘
//!        ├─ for each arena that wants one: the next block, within the budget, into the arena
//!        └─ the thread only: frees the empty blocks that `reclaim` would free without it
//! ```
//!
//! [`LowWater`](ringfence_core::low_water::LowWater) computes the mark. If a block that was created ahead is not
//! needed, it is freed like any other empty block.
//!
//! A program can announce allocations that it knows beforehand:
//! [`MemoryBudgets::reserve`](crate::memory::MemoryBudgets::reserve).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use super::shared::Shared;
use crate::device::Device;
use crate::device::lock::run_unlocked;
use ringfence_arena::Wake;

impl<D: Device> Shared<D> {
    /// Creates the blocks that arenas want, and returns the number of created blocks.
    pub(crate) fn maintain(&self) -> usize {
        self.wake.served.store(true, Ordering::Relaxed);
        let own = self.arenas.iter().map(|arena| self.grow_ahead(arena)).sum::<usize>();
        let pools = self.custom_pools.read().clone();
        own + pools.iter().map(|pool| self.grow_ahead(&pool.arena)).sum::<usize>()
    }
}

/// The thread that creates blocks before they are needed: see
/// [`MemoryBudgets::maintain_in_background`](crate::memory::MemoryBudgets::maintain_in_background). Dropping this value
/// ends the thread and waits for it. The thread first finishes its present round of creating and freeing blocks.
#[derive(Debug)]
#[must_use = "the thread ends when this is dropped"]
pub struct Maintenance {
    stop: Arc<AtomicBool>,
    wake: Arc<Wake>,
    thread: Option<JoinHandle<()>>,
}

impl Maintenance {
    pub(crate) fn spawn<D: Device>(shared: &Arc<Shared<D>>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (weak, stopped) = (Arc::downgrade(shared), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("ringfence".into()).spawn(move || run(&weak, &stopped))?;
        let wake = Arc::clone(&shared.wake);
        wake.add(thread.thread().clone());
        thread.thread().unpark(); // a block may have been wanted before the thread could be woken
        Ok(Self { stop, wake, thread: Some(thread) })
    }
}

fn run<D: Device>(shared: &Weak<Shared<D>>, stop: &AtomicBool) {
    let work = || {
        let held = shared.upgrade()?;
        let made = held.maintain();
        held.free_left_surplus();
        Some(made)
    };
    repeat(stop, work, std::thread::park);
}

/// Calls `work` until `stop` is set or `work` returns `None`. Calls `sleep` only after a call that created no block,
/// because new blocks may already be used up.
fn repeat(stop: &AtomicBool, mut work: impl FnMut() -> Option<usize>, mut sleep: impl FnMut()) {
    while !stop.load(Ordering::Acquire) {
        let Some(made) = work() else { return };
        if made == 0 {
            sleep();
        }
    }
}

/// Wakes a thread that was notified to stop, and waits until it has ended.
fn end(wake: &Wake, thread: JoinHandle<()>) {
    let id = thread.thread().id();
    wake.remove(id);
    thread.thread().unpark();
    // The thread itself may be the last to drop the owner: it then does not wait for itself. The result is ignored,
    // because the panic hook has already shown a panic of the thread.
    let _ = (id != std::thread::current().id()).then(|| thread.join());
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        let wake = Arc::clone(&self.wake);
        // Without a lock, because the thread may wait for a lock that this thread holds.
        run_unlocked(move || end(&wake, thread));
    }
}

#[cfg(test)]
mod tests;
