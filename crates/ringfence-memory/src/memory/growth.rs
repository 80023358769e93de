//! Growth ahead of need: the next block is made before it is needed, so that ordinary allocations do not wait for the
//! driver.
//!
//! ```text
//!   allocation ── free bytes below the low-water mark? ──▶ the arena wants a block ──▶ wake
//!                                                                                       │
//!   Maintenance (a thread of the library), or the program's own call of maintain()  ◀───┘
//!        └─ for each arena that wants one: the next block, within the budget, into the arena
//! ```
//!
//! [`LowWater`](ringfence_core::low_water::LowWater) sets the mark. A block that was made ahead and is not needed is an
//! empty block like any other: it goes after its grace if there are more of them than are kept.
//!
//! What a program knows beforehand it can announce: [`MemoryBudgets::reserve`](crate::memory::MemoryBudgets::reserve).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use super::arena::Wake;
use super::shared::Shared;
use crate::device::Device;
use crate::observe::unlocked::run_unlocked;

impl<D: Device> Shared<D> {
    /// Makes the blocks that arenas want; says how many.
    pub(crate) fn maintain(&self) -> usize {
        self.wake.served.store(true, Ordering::Relaxed);
        let own = self.arenas.iter().map(|arena| self.grow_ahead(arena)).sum::<usize>();
        let pools = self.custom_pools.read().clone();
        own + pools.iter().map(|pool| self.grow_ahead(&pool.arena)).sum::<usize>()
    }
}

/// The thread that makes blocks ahead of need: see
/// [`MemoryBudgets::maintain_in_background`](crate::memory::MemoryBudgets::maintain_in_background).
///
/// Dropping it ends the thread, after the driver call that it may be in.
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
        wake.sleepers.lock().push(thread.thread().clone());
        thread.thread().unpark(); // something may have been wanted before it could be woken
        Ok(Self { stop, wake, thread: Some(thread) })
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

/// Ends a thread that was notified to stop.
fn end(wake: &Wake, thread: JoinHandle<()>) {
    let id = thread.thread().id();
    wake.sleepers.lock().retain(|sleeper| sleeper.id() != id);
    thread.thread().unpark();
    // The thread itself may be the last to drop what owns this: then it ends by itself. A panic of the thread is shown
    // by the panic hook; there is nothing to add here.
    let _ = (id != std::thread::current().id()).then(|| thread.join());
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        let wake = Arc::clone(&self.wake);
        // Not under a lock, which the thread may wait for.
        run_unlocked(move || end(&wake, thread));
    }
}
