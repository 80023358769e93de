//! Options of a simulated device, chosen when it is created.

/// Options of a simulated device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimOptions {
    /// Seed of the clock's random numbers.
    pub seed: u64,
    /// Number of queues, at least 1.
    pub queues: usize,
    /// Average number of ticks between two times at which a queue runs.
    pub lateness: u32,
    /// Simulated time that a tick of a wait takes, in nanoseconds.
    pub tick_ns: u64,
    /// Value of every byte of new memory in the device's view.
    pub poison: u8,
    /// `true` if calls take the real time that the profile defines; `false` if the time is only counted.
    pub spends_time: bool,
    /// `true` if commands of one submission that use the same bytes must be separated by
    /// [`Command::Barrier`](super::Command::Barrier).
    pub watches_barriers: bool,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            queues: 3,
            lateness: 4,
            tick_ns: 1_000,
            poison: 0xcd,
            spends_time: false,
            watches_barriers: false,
        }
    }
}
