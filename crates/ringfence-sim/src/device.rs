//! The handle to a simulated device, with functions that tests need in addition to the driver calls.

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

/// A simulated device. Clones refer to the same device.
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
    /// Creates a device with this profile. It has no allocations.
    #[must_use]
    pub fn new(profile: Profile, options: SimOptions) -> Self {
        let options = SimOptions { queues: options.queues.max(1), ..options };
        let profile = Arc::new(profile);
        let state = Lock::new(State::new(Arc::clone(&profile), &options));
        Self { shared: Arc::new(Shared { profile, spends_time: options.spends_time, state }) }
    }

    /// Returns the profile of the device.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.shared.profile
    }

    /// Creates a fence with the value `initial`.
    #[must_use]
    pub fn create_fence(&self, initial: u64) -> Fence {
        self.with(|state| state.create_fence(initial))
    }

    /// Submits work to a queue. The work begins once all of `waits` are reached and the queue's earlier work has ended.
    /// When it ends, it signals `signal`. Commands of one queue never overlap in time. Work of different queues is
    /// ordered only by fences.
    ///
    /// # Errors
    /// The device is lost, or the queue or a fence does not exist. An invalid command is not an error: the device
    /// reports a [`Hazard`] and skips the command.
    pub fn submit(
        &self,
        queue: usize,
        waits: &[(Fence, u64)],
        commands: Vec<Command>,
        signal: (Fence, u64),
    ) -> Result<(), DeviceError> {
        self.with(|state| state.submit(queue, waits, commands, signal))
    }

    /// Advances the clock by `ticks` ticks, so that work may run. The work stays pending until the host reads a fence,
    /// because until then the host does not know that the work has run.
    pub fn advance(&self, ticks: u64) {
        self.with(|state| (0..ticks).for_each(|_| state.tick()));
    }

    /// Runs all work that can run. The host then knows that this work has ended. Returns `true` if no work is left;
    /// `false` if work waits for a value that is never signalled, or if its queue is paused.
    pub fn run_until_idle(&self) -> bool {
        self.with(State::run_until_idle)
    }

    /// Pauses a queue until [`Device::resume`]. Tests use this to force an order of events.
    pub fn pause(&self, queue: usize) {
        self.with(|state| state.queues.set_paused(queue, true));
    }

    /// Resumes a paused queue.
    pub fn resume(&self, queue: usize) {
        self.with(|state| state.queues.set_paused(queue, false));
    }

    /// Sets the queue family of a queue; the default is 0. Resources that the queue's work uses belong to that family
    /// until they are released ([`Command::Release`]), as with Vulkan's exclusive sharing mode. A use by another family
    /// is reported as [`HazardKind::NotOwned`](super::HazardKind::NotOwned), unless it overwrites the whole resource.
    pub fn set_family(&self, queue: usize, family: u32) {
        self.with(|state| state.queues.set_family(queue, family));
    }

    /// Loses the device. Its pending work is discarded. Later submissions, and later calls of the driver's traits that
    /// wait, access memory, or create or place an object, return [`DeviceError::Lost`].
    pub fn lose_device(&self) {
        self.with(State::lose);
    }

    /// Returns all hazards that were found and not taken, in order (at most the first 4096).
    #[must_use]
    pub fn hazards(&self) -> Vec<Hazard> {
        self.with(|state| state.hazards.clone())
    }

    /// Returns the hazards that were found since the last call of this function, and removes them.
    pub fn take_hazards(&self) -> Vec<Hazard> {
        self.with(|state| std::mem::take(&mut state.hazards))
    }

    /// Returns the number of calls of each kind, and their total simulated cost.
    #[must_use]
    pub fn calls(&self) -> CallCounts {
        self.with(|state| state.counts)
    }

    /// Returns the number of live objects.
    #[must_use]
    pub fn live(&self) -> Live {
        self.with(|state| state.live())
    }

    /// Sets the budget of a memory heap, in bytes, which [`Driver::budgets`](ringfence_hal::Driver::budgets) reports.
    /// Tests use this to simulate another process that allocates memory. `None` restores the default, the size of the
    /// heap.
    pub fn set_budget(&self, heap: usize, budget_bytes: Option<u64>) {
        self.with(|state| {
            if let Some(held) = state.heap_budget.get_mut(heap) {
                *held = budget_bytes;
            }
        });
    }

    /// Returns `true` if the memory is evicted, and `false` if it is resident. Returns `None` if the memory does not
    /// exist.
    #[must_use]
    pub fn is_evicted(&self, memory: &Memory) -> Option<bool> {
        self.with(|state| state.memories.get(&memory.0).map(|object| object.is_evicted))
    }

    /// Returns the priority of memory. Returns `None` if the memory does not exist.
    #[must_use]
    pub fn priority(&self, memory: &Memory) -> Option<Priority> {
        self.with(|state| state.memories.get(&memory.0).map(|object| object.priority))
    }

    /// Returns the description of a buffer. Returns `None` if the buffer is not alive.
    #[must_use]
    pub fn buffer_desc(&self, buffer: Buffer) -> Option<BufferDesc> {
        self.with(|state| match state.resources.get(&buffer.0)?.shape {
            Shape::Buffer(desc) => Some(desc),
            Shape::Texture(_) => None,
        })
    }

    /// Returns the description of a texture, including its clear value. Returns `None` if the texture is not alive. For
    /// assertions: the call is not counted in [`Device::calls`].
    #[must_use]
    pub fn texture_desc(&self, texture: &Texture) -> Option<TextureDesc> {
        self.with(|state| state.texture_desc(*texture))
    }

    /// Returns the current bytes of a buffer range in the device's view. If the buffer has no such range, reports a
    /// hazard and returns `None`. For assertions: the call is not counted in [`Device::calls`], and pending work is no
    /// hazard.
    #[must_use]
    pub fn peek(&self, range: BufferRange) -> Option<Vec<u8>> {
        self.with(|state| {
            let access = state.buffer_access(range, None, false)?;
            Some(state.load(Address::of(&access), range.size))
        })
    }

    /// Runs `work` under the lock. Then, with [`SimOptions::spends_time`], waits for as long as the calls in `work`
    /// cost.
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

/// Waits for this time: sleeps until 100 µs before the end, because a sleep can last about that much too long, then
/// spins.
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
