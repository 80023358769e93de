//! The low-water mark of an arena: if fewer bytes are free than the mark, the next block is created before it is
//! needed. The mark adapts to the use of the arena and to the speed of the driver.
//!
//! ```text
//!   free bytes ─┐
//!               │╲  use           ╱│
//!   mark ───────┼─╲──────────────╱─┼──    a block is ordered here
//!               │  ╲    ┌───────┘  │      and exists after the time that the driver takes
//!               └───╲───┘──────────┘      the next mark is twice the bytes that were used meanwhile
//! ```
//!
//! For a fast driver, a mark of half a block is enough. But if a driver pins host memory, creating a block can take
//! half a millisecond per MiB, and a frame can use tens of MiB at once. A block that is ordered when half a block is
//! free is then created too late. The right mark depends on *the number of bytes that are used while the driver creates
//! a block*. These bytes are counted from the order of a block until it exists, so no clock is needed. The count is
//! valid in both modes: if the library's maintenance thread creates the block, and if the program calls `maintain` once
//! per frame.
//!
//! If an allocation has to wait for a block, the program cannot use further bytes meanwhile, and the count is too low.
//! The mark is then doubled, up to four blocks. Each block that is created in time sets the mark to twice the counted
//! bytes, but lowers the mark by at most a sixteenth. When an empty block is freed, the mark falls to its minimum of
//! half a block.
//!
//! Free bytes can be *unusable*: in holes that are too small for the requests. If a request finds no room although more
//! bytes are free than the mark, the free bytes count as unusable and are added to the mark. Each block that is created
//! in time lowers the unusable bytes by a sixteenth, and each empty block that is freed halves them.
//!
//! | operation | cost |
//! |---|---|
//! | all | a few instructions, under the arena's lock |

/// Low-water mark of one arena.
#[derive(Clone, Copy, Default, Debug)]
pub struct LowWater {
    /// The mark that past use suggests, in bytes; 0 without past use. [`LowWater::mark`] clamps it.
    wanted: u64,
    /// Free bytes that a request could not use; they are added to the mark.
    unusable: u64,
}

impl LowWater {
    /// Upper limit of the mark, in blocks.
    const BLOCKS_MAX: u64 = 4;

    /// Returns the mark, in bytes, for a next block of `block` bytes. If fewer bytes are free than the mark, the caller
    /// creates the block.
    pub fn mark(self, block: u64) -> u64 {
        self.usable_mark(block).saturating_add(self.unusable)
    }

    fn usable_mark(self, block: u64) -> u64 {
        (block / 2).max(self.wanted.min(block.saturating_mul(Self::BLOCKS_MAX)))
    }

    /// Records that a block was created before it was needed. `used` is the number of bytes that were allocated, minus
    /// the number that were freed, between the order of the block and its creation.
    pub fn made(&mut self, used: u64) {
        self.wanted = (used.saturating_mul(2)).max(self.wanted - self.wanted / 16);
        self.unusable -= self.unusable.div_ceil(16);
    }

    /// Records that an allocation had to wait for a block, because the mark was too low. `block` is the size of a
    /// block, `free` the number of free bytes that the allocation could not use.
    pub fn missed(&mut self, block: u64, free: u64) {
        if free > self.usable_mark(block) {
            self.unusable = self.unusable.max(free);
        } else {
            self.wanted = self.usable_mark(block).saturating_mul(2).min(block.saturating_mul(Self::BLOCKS_MAX));
        }
    }

    /// Records that an empty block was freed: resets the mark to its minimum, and halves the unusable bytes.
    pub fn idle(&mut self) {
        self.wanted = 0;
        self.unusable /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A simulated program: every frame uses `frame` bytes at its start, 4 MiB at a time. A thread creates blocks of
    /// `block` bytes one after another; each takes `block_us`.
    struct Paced {
        block: u64,
        block_us: u64,
        frame: u64,
        frame_us: u64,
    }

    impl Paced {
        /// Returns the number of frames that had to wait, without the first 20 frames.
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
                            water.missed(self.block, free);
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
    fn free_bytes_that_a_request_could_not_use_raise_the_mark() {
        let mut water = LowWater::default();
        // 400 MiB in holes: the next block is ordered when fewer than 400 MiB and half a block are free.
        water.missed(64 * MIB, 400 * MIB);
        assert_eq!(water.mark(64 * MIB), 432 * MIB);
        water.missed(64 * MIB, 300 * MIB);
        assert_eq!(water.mark(64 * MIB), 432 * MIB, "of two misses, the larger counts");
        water.made(MIB);
        assert_eq!(water.mark(64 * MIB), 407 * MIB);
        (0..400).for_each(|_| water.made(MIB));
        assert_eq!(water.mark(64 * MIB), 32 * MIB);
        // A freed empty block halves the unusable bytes, so that the same block is not created and freed again and
        // again.
        water.missed(64 * MIB, 400 * MIB);
        water.idle();
        assert_eq!(water.mark(64 * MIB), 232 * MIB);
    }

    #[test]
    fn a_mark_is_bounded_and_falls_when_it_is_not_needed() {
        let mut water = LowWater::default();
        assert_eq!(water.mark(64 * MIB), 32 * MIB);
        for _ in 0..10 {
            water.missed(64 * MIB, 0);
        }
        assert_eq!(water.mark(64 * MIB), 256 * MIB);
        water.made(u64::MAX);
        assert_eq!(water.mark(64 * MIB), 256 * MIB, "however much was used");
        water.missed(64 * MIB, 0);
        for _ in 0..60 {
            water.made(MIB);
        }
        assert_eq!(water.mark(64 * MIB), 32 * MIB);
        water.missed(64 * MIB, 0);
        water.idle();
        assert_eq!(water.mark(64 * MIB), 32 * MIB);
    }
}
