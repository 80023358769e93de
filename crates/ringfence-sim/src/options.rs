//! The options of a simulated device.

/// Options of a simulated device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimOptions {
    /// Seed of the clock's random numbers.
    pub seed: u64,
    /// Number of queues; 0 counts as 1.
    pub queues: usize,
    /// Average number of ticks until a queue runs next. With 1, every ready queue runs at every tick.
    pub lateness: u32,
    /// Simulated duration of one tick of a wait, in nanoseconds.
    pub tick_ns: u64,
    /// Value of each byte of new memory, as the device sees it.
    pub poison: u8,
    /// `true` if calls take the time that the profile defines; `false` if this time is only counted.
    pub spends_time: bool,
    /// `true` if the device checks barriers: if two commands of one submission use the same bytes and one of them
    /// writes, a [`Command::Barrier`](super::Command::Barrier) must then separate them. Copies and fills of one
    /// resource need no barrier between them.
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
