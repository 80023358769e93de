//! How a simulated device behaves, chosen when it is made.

/// How a simulated device behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimOptions {
    /// Seed of the clock's random numbers.
    pub seed: u64,
    /// Queues, at least 1.
    pub queues: usize,
    /// A queue runs once in this number of ticks, on average.
    pub lateness: u32,
    /// What a wait passes of its timeout with each tick, in nanoseconds.
    pub tick_ns: u64,
    /// What every byte of fresh memory is, as the device sees it.
    pub poison: u8,
    /// Whether calls take the time that the profile says; else it is only counted.
    pub spends_time: bool,
    /// Whether commands of one submission that use the same bytes have to be kept apart by
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
