//! When the next block is made: how many bytes an arena keeps free, and how that adapts to its use and to the driver.
//!
//! ```text
//!   free bytes ─┐
//!               │╲  use           ╱│
//!   mark ───────┼─╲──────────────╱─┼──    a block is ordered here
//!               │  ╲    ┌───────┘  │      and is there after what the driver takes for it
//!               └───╲───┘──────────┘      what was used meanwhile, twice over, is the next mark
//! ```
//!
//! Half of a block is enough for a driver that is quick. A driver that pins host memory takes half a millisecond for
//! each MiB of it, and a frame may use tens of MiB at once: then a block that is ordered with half a block left comes
//! too late. No clock is needed to find out, since what counts is not how long the driver takes but *what is used
//! meanwhile*. That is counted, from the order until the block is there, whether a thread makes it or the program once
//! a frame. An allocation that had to wait stops the use and so hides it: it doubles the mark. The mark falls by a
//! sixteenth with each block, and to the least when empty blocks are freed.
//!
//! | operation | cost |
//! |---|---|
//! | every one | a few instructions, under the arena's lock |

/// The mark of one arena, but for its least height, which follows the block size.
#[derive(Clone, Copy, Default, Debug)]
pub struct LowWater {
    /// Bytes that past use has asked for.
    wanted: u64,
}

impl LowWater {
    /// At most this number of blocks is kept free.
    const BLOCKS_MAX: u64 = 4;

    /// Bytes below which a block is made, when the next one has `block` bytes.
    pub fn mark(self, block: u64) -> u64 {
        (block / 2).max(self.wanted.min(block.saturating_mul(Self::BLOCKS_MAX)))
    }

    /// A block was made ahead. Since it was ordered, `used` bytes more were allocated than freed.
    pub fn made(&mut self, used: u64) {
        self.wanted = (used.saturating_mul(2)).max(self.wanted - self.wanted / 16);
    }

    /// An allocation had to wait for a block, although they are made ahead.
    pub fn missed(&mut self, block: u64) {
        self.wanted = self.mark(block).saturating_mul(2).min(block.saturating_mul(Self::BLOCKS_MAX));
    }

    /// An empty block was freed: less is needed.
    pub fn idle(&mut self) {
        self.wanted = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A program on a clock of its own: every frame uses so much at its start, a few MiB at a time, and a thread makes
    /// blocks one after another, each of which takes the driver so long.
    struct Paced {
        block: u64,
        block_us: u64,
        frame: u64,
        frame_us: u64,
    }

    impl Paced {
        /// How many frames had to wait, of those after the first 20.
        fn waits(&self, frames: u64, adapts: bool) -> usize {
            const STEP: u64 = 4 * MIB;
            let (mut water, mut free) = (LowWater::default(), self.block);
            // When the block that is being made is there, and what was used since it was ordered.
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
                        // It waits for the block that is being made, or makes one.
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
        // Host memory on a large card: 28 ms for 64 MiB, where a frame of 16 ms uses 32 MiB.
        let host = Paced { block: 64 * MIB, block_us: 28_000, frame: 32 * MIB, frame_us: 16_000 };
        assert!(host.waits(1000, false) > 100, "half a block comes too late: {}", host.waits(1000, false));
        assert_eq!(host.waits(1000, true), 0);
        // Memory of the device there: 5.4 ms for 256 MiB. Half a block lasts for two frames.
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
