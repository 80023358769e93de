//! The low-water mark of an arena: if fewer bytes are free, the next block is created ahead of need. The mark adapts to
//! the use and to the driver.
//!
//! ```text
//!   free bytes ─┐
//!               │╲  use           ╱│
//!   mark ───────┼─╲──────────────╱─┼──    a block is ordered here
//!               │  ╲    ┌───────┘  │      and exists after the time that the driver takes
//!               └───╲───┘──────────┘      twice the bytes used meanwhile are the next mark
//! ```
//!
//! For a fast driver, a mark of half a block is enough. A driver that pins host memory takes half a millisecond for
//! each MiB of it, and a frame can use tens of MiB at once. Then a block that is ordered with half a block left comes
//! too late. No clock is needed to detect this, because the relevant quantity is not the driver's time but *the bytes
//! that are used during it*. They are counted from the order until the block exists, whether a thread creates it or the
//! program does once a frame. An allocation that had to wait stops the use, which hides part of it, so it doubles the
//! mark. The mark decreases by a sixteenth with each block, and to the minimum when an empty block is freed.
//!
//! | operation | cost |
//! |---|---|
//! | all | a few instructions, under the arena's lock |

/// Low-water mark of one arena. Its minimum follows from the block size.
#[derive(Clone, Copy, Default, Debug)]
pub struct LowWater {
    /// Mark that past use requires, in bytes.
    wanted: u64,
}

impl LowWater {
    /// Upper limit of the mark, in blocks.
    const BLOCKS_MAX: u64 = 4;

    /// Returns the mark, in bytes, if the next block has `block` bytes. If fewer bytes are free, the block is created.
    pub fn mark(self, block: u64) -> u64 {
        (block / 2).max(self.wanted.min(block.saturating_mul(Self::BLOCKS_MAX)))
    }

    /// Records that a block was created ahead. `used` is the number of bytes allocated minus those freed since its
    /// order.
    pub fn made(&mut self, used: u64) {
        self.wanted = (used.saturating_mul(2)).max(self.wanted - self.wanted / 16);
    }

    /// Records that an allocation had to wait for a block, although blocks are created ahead.
    pub fn missed(&mut self, block: u64) {
        self.wanted = self.mark(block).saturating_mul(2).min(block.saturating_mul(Self::BLOCKS_MAX));
    }

    /// Records that an empty block was freed, which resets the mark to its minimum.
    pub fn idle(&mut self) {
        self.wanted = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A simulated program: every frame uses `frame` bytes at its start, a few MiB at a time. A thread creates blocks
    /// one after another; each takes `block_us`.
    struct Paced {
        block: u64,
        block_us: u64,
        frame: u64,
        frame_us: u64,
    }

    impl Paced {
        /// Returns the number of frames after the first 20 that had to wait.
        fn waits(&self, frames: u64, adapts: bool) -> usize {
            const STEP: u64 = 4 * MIB;
            let (mut water, mut free) = (LowWater::default(), self.block);
            // Completion time of the block that is being created, and the bytes used since its order.
            let mut making: Option<(u64, u64)> = None;
            let mut wait_in = |number: u64| {
                let (mut now, mut waited) = (number * self.frame_us, false);
                for _ in 0..self.frame / STEP {
                    while let Some((done, used)) = making
                        && done <= now
                    {
                        free += self.block;
                        if adapts {
                            water.made(used);
                        }
                        making = (free < water.mark(self.block)).then_some((done + self.block_us, 0));
                    }
                    if free < STEP {
                        waited = true;
                        // Waits for the block that is being created, or creates one.
                        now = making.take().map_or(now + self.block_us, |(done, _)| done);
                        free += self.block;
                        if adapts {
                            water.missed(self.block);
                        }
                    }
                    free -= STEP;
                    if let Some((_, used)) = &mut making {
                        *used += STEP;
                    } else if free < water.mark(self.block) {
                        making = Some((now + self.block_us, 0));
                    }
                }
                waited
            };
            (0..frames).map(|number| wait_in(number) && number >= 20).filter(|waited| *waited).count()
        }
    }

    #[test]
    fn a_mark_that_adapts_keeps_up_wherever_the_driver_can() {
        // Host memory on a large card: 28 ms for 64 MiB, while a frame of 16 ms uses 32 MiB.
        let host = Paced { block: 64 * MIB, block_us: 28_000, frame: 32 * MIB, frame_us: 16_000 };
        assert!(host.waits(1000, false) > 100, "half a block comes too late: {}", host.waits(1000, false));
        assert_eq!(host.waits(1000, true), 0);
        // Device memory of that card: 5.4 ms for 256 MiB. Half a block lasts for two frames.
        let device = Paced { block: 256 * MIB, block_us: 5_400, frame: 64 * MIB, frame_us: 4_000 };
        assert_eq!((device.waits(1000, false), device.waits(1000, true)), (0, 0));
        // A frame that uses more than half a block at once.
        let burst = Paced { block: 256 * MIB, block_us: 5_400, frame: 200 * MIB, frame_us: 8_000 };
        assert!(burst.waits(1000, false) > 100);
        assert_eq!(burst.waits(1000, true), 0);
    }

    #[test]
    fn a_mark_is_bounded_and_falls_when_it_is_not_needed() {
        let mut water = LowWater::default();
        assert_eq!(water.mark(64 * MIB), 32 * MIB);
        for _ in 0..10 {
            water.missed(64 * MIB);
        }
        assert_eq!(water.mark(64 * MIB), 256 * MIB);
        water.made(u64::MAX);
        assert_eq!(water.mark(64 * MIB), 256 * MIB, "however much was used");
        water.missed(64 * MIB);
        for _ in 0..60 {
            water.made(MIB);
        }
        assert_eq!(water.mark(64 * MIB), 32 * MIB);
        water.missed(64 * MIB);
        water.idle();
        assert_eq!(water.mark(64 * MIB), 32 * MIB);
    }
}
