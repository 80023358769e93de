//! A handle to a simulated device, and what a test does with it beyond the calls of a driver.

use super::command::{BufferRange, Command};
use super::counts::{CallCounts, Live};
use super::hazard::Hazard;
use super::ids::{Buffer, Fence, Memory, Texture};
use super::objects::Shape;
use super::options::SimOptions;
use super::profile::Profile;
use super::state::State;
use super::step::Address;
use ringfence_hal::lock::Lock;
use ringfence_hal::{BufferDesc, DeviceError, Priority, TextureDesc};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A simulated device. A clone is another handle to the same device.
#[derive(Clone, Debug)]
pub struct Device {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    profile: Arc<Profile>,
    spends_time: bool,
    state: Lock<State>,
}

impl Device {
    /// A device of this profile with nothing allocated.
    #[must_use]
    pub fn new(profile: Profile, options: SimOptions) -> Self {
        let options = SimOptions { queues: options.queues.max(1), ..options };
        let profile = Arc::new(profile);
        let state = Lock::new(State::new(Arc::clone(&profile), &options));
        Self { shared: Arc::new(Shared { profile, spends_time: options.spends_time, state }) }
    }

    /// What it simulates.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.shared.profile
    }

    /// Makes a fence.
    #[must_use]
    pub fn create_fence(&self, initial: u64) -> Fence {
        self.with(|state| state.create_fence(initial))
    }

    /// Gives a queue work: it begins when all of `waits` are reached and the queue's earlier work has ended, and
    /// signals at its end. Commands of one queue never overlap in time; between queues only fences order.
    ///
    /// # Errors
    /// The device is lost, or there is no such queue or fence. A wrong command is not an error but a [`Hazard`]; it is
    /// left out.
    pub fn submit(
        &self,
        queue: usize,
        waits: &[(Fence, u64)],
        commands: Vec<Command>,
        signal: (Fence, u64),
    ) -> Result<(), DeviceError> {
        self.with(|state| state.submit(queue, waits, commands, signal))
    }

    /// Lets the clock go on. The program learns nothing by it: what runs now is still pending until a fence is read.
    pub fn advance(&self, ticks: u64) {
        self.with(|state| (0..ticks).for_each(|_| state.tick()));
    }

    /// Runs all work that can run, and reports its end to the host. Returns whether no work is left: `false` if
    /// some waits for what is never signalled, or its queue is paused.
    pub fn run_until_idle(&self) -> bool {
        self.with(State::run_until_idle)
    }

    /// Stops a queue until [`Device::resume`], to force an order of events.
    pub fn pause(&self, queue: usize) {
        self.with(|state| state.queues.set_paused(queue, true));
    }

    /// Lets a paused queue go on.
    pub fn resume(&self, queue: usize) {
        self.with(|state| state.queues.set_paused(queue, false));
    }

    /// Puts a queue into another family than 0: what its work uses is then that family's until it is released, as with
    /// Vulkan's exclusive sharing ([`Command::Release`]), and [`HazardKind::NotOwned`](super::HazardKind::NotOwned) for
    /// others.
    pub fn set_family(&self, queue: usize, family: u32) {
        self.with(|state| state.queues.set_family(queue, family));
    }

    /// The device is lost: pending work is gone, and calls that can fail return [`DeviceError::Lost`].
    pub fn lose_device(&self) {
        self.with(State::lose);
    }

    /// The hazards found so far, in order (the first 4096).
    #[must_use]
    pub fn hazards(&self) -> Vec<Hazard> {
        self.with(|state| state.hazards.clone())
    }

    /// The hazards found since the last call; they are forgotten here.
    pub fn take_hazards(&self) -> Vec<Hazard> {
        self.with(|state| std::mem::take(&mut state.hazards))
    }

    /// How often each call was made, and what all would have cost.
    #[must_use]
    pub fn calls(&self) -> CallCounts {
        self.with(|state| state.counts)
    }

    /// What is alive.
    #[must_use]
    pub fn live(&self) -> Live {
        self.with(|state| state.live())
    }

    /// Sets what [`Driver::budgets`](ringfence_hal::Driver::budgets) reports of a heap, as when another process takes
    /// memory. `None` sets it back.
    pub fn set_budget(&self, heap: usize, budget_bytes: Option<u64>) {
        self.with(|state| {
            if let Some(held) = state.heap_budget.get_mut(heap) {
                *held = budget_bytes;
            }
        });
    }

    /// Whether memory is evicted; `None` if there is no such memory.
    #[must_use]
    pub fn is_evicted(&self, memory: &Memory) -> Option<bool> {
        self.with(|state| state.memories.get(&memory.0).map(|object| object.is_evicted))
    }

    /// The priority of memory; `None` if there is no such memory.
    #[must_use]
    pub fn priority(&self, memory: &Memory) -> Option<Priority> {
        self.with(|state| state.memories.get(&memory.0).map(|object| object.priority))
    }

    /// What a buffer was made as; `None` if it is not alive.
    #[must_use]
    pub fn buffer_desc(&self, buffer: Buffer) -> Option<BufferDesc> {
        self.with(|state| match state.resources.get(&buffer.0)?.shape {
            Shape::Buffer(desc) => Some(desc),
            Shape::Texture(_) => None,
        })
    }

    /// What a texture was made with, its clear value too, for assertions: no call. `None` if there is no such texture.
    #[must_use]
    pub fn texture_desc(&self, texture: &Texture) -> Option<TextureDesc> {
        self.with(|state| state.texture_desc(*texture))
    }

    /// Bytes of a buffer as the device sees them now, for assertions: no command, no call, no hazard if it is early.
    /// `None` (and a hazard) if the buffer has no such range.
    #[must_use]
    pub fn peek(&self, range: BufferRange) -> Option<Vec<u8>> {
        self.with(|state| {
            let access = state.buffer_access(range, None, false)?;
            Some(state.load(Address::of(&access), range.size))
        })
    }

    /// Does something under the lock, and then takes the time that it costs.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.state.lock();
        let before = state.counts.simulated_ns;
        let result = work(&mut state);
        let cost = state.counts.simulated_ns - before;
        drop(state);
        if self.shared.spends_time {
            spend(Duration::from_nanos(cost));
        }
        result
    }
}

/// Takes this long: asleep where that is exact enough, else busy.
fn spend(time: Duration) {
    const SLEEP_ERROR: Duration = Duration::from_micros(100);
    let start = Instant::now();
    if let Some(asleep) = time.checked_sub(SLEEP_ERROR) {
        std::thread::sleep(asleep);
    }
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}
