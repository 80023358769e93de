//! The bytes of empty blocks that a list of blocks keeps for the next requests.
//!
//! ```text
//!   empty bytes ─┐
//!                │╲  level unloaded
//!   limit ───────┼─╲───────────────────     next block + the larger of `spare` and an eighth of the live bytes
//!                │  ╲___ freed at the next reclaim, the largest block first
//!                │      │
//!   always ──────┼──────└───── grace ──┐    blocks up to the larger of `spare / 4` and the live bytes
//!                └─────────────────────┴──  everything else was empty for the whole grace
//! ```
//!
//! The *grace* is the number of ticks after which a block that stays empty is freed. A block that is freed because its
//! grace is over is *stale*. Up to `destroy_threshold` empty blocks ([`BlocksDesc`](crate::blocks::BlocksDesc)) are
//! kept permanently; the last row of the table is an exception.
//!
//! | empty blocks | are freed |
//! |---|---|
//! | more than `destroy_threshold` blocks, and their bytes exceed the limit | at the next reclaim, the largest first |
//! | more than `destroy_threshold` blocks | after the grace |
//! | larger than `spare / 4` and than all live bytes together | after the grace |
//!
//! A program that frees and allocates the same bytes again and again would pay for new blocks each time. So if a block
//! is created within a grace after blocks were freed because of the limit, the limit rises by the size of the new
//! block, but not by more than the freed bytes. With each grace in which no such block is created, the rise halves, but
//! not below the size of the empty blocks that were used again in that time.
//!
//! The grace adapts too. In a stream whose live bytes rise and fall, blocks are freed after their grace and created
//! again soon. Each call of the driver can then delay a frame. If a block is created within [`REGRET`] graces after a
//! stale block was freed, the grace doubles, up to 16 × its normal length. After 8 graces without such a block, the
//! grace halves. If a block is freed because of the limit, the grace returns to its normal length.
//!
//! | operation | cost |
//! |---|---|
//! | all | a few instructions, under the arena's lock |

/// Empty blocks of up to 1 / `LIVE_SHARE` of the live bytes are kept.
const LIVE_SHARE: u64 = 8;
/// Share of the spare bytes: a block of up to 1 / `STAY_SHARE` of them may stay empty permanently.
const STAY_SHARE: u64 = 4;

/// If a block is created within this number of graces after a stale block was freed, the grace becomes longer.
pub const REGRET: u64 = 4;
/// Maximum number of times that the grace is doubled.
const DOUBLINGS_MAX: u32 = 4;
/// Number of graces without a change after which a longer grace halves.
const HALVING_GRACES: u64 = 8;

/// Limits of the empty blocks of one arena (the blocks of one memory type and resource class).
#[derive(Clone, Copy, Default, Debug)]
pub struct EmptyBlocks {
    /// Bytes of empty blocks that are kept even if few bytes are live.
    spare: u64,
    /// Bytes by which the limit has risen.
    rise: u64,
    /// Bytes that were freed because of the limit, and for which no block was created yet.
    freed: u64,
    /// The tick of the latest change of `rise` or `freed`.
    changed_at: u64,
    /// Bytes of empty blocks that were used again before the rise was last lowered; it wraps around.
    reused_before: u64,
    /// Number of times that the grace is doubled.
    doublings: u32,
    /// The tick at which a stale block was last freed; `None` once a block was created since.
    stale_at: Option<u64>,
    /// The tick of the latest change of `doublings`.
    doubled_at: u64,
}

/// Bytes of an arena.
#[derive(Clone, Copy, Default, Debug)]
pub struct ArenaBytes {
    /// Bytes of live ranges.
    pub live: u64,
    /// Bytes of empty blocks.
    pub empty: u64,
    /// Size of the next regular block.
    pub next_block: u64,
}

impl EmptyBlocks {
    /// Creates the limits of an arena that keeps `spare` bytes even if few bytes are live. If `spare` is `u64::MAX`,
    /// blocks are freed only after their grace.
    #[must_use]
    pub const fn new(spare: u64) -> Self {
        Self { spare, rise: 0, freed: 0, changed_at: 0, reused_before: 0, doublings: 0, stale_at: None, doubled_at: 0 }
    }

    /// Returns the bytes of empty blocks above which blocks are freed without a grace.
    #[must_use]
    pub fn limit(&self, bytes: &ArenaBytes) -> u64 {
        let share = self.spare.max(bytes.live / LIVE_SHARE);
        bytes.next_block.saturating_add(share).saturating_add(self.rise)
    }

    /// Returns `true` if the empty blocks exceed the limit.
    #[must_use]
    pub fn is_exceeded(&self, bytes: &ArenaBytes) -> bool {
        bytes.empty > self.limit(bytes)
    }

    /// Returns `true` if a block of this size may stay empty permanently.
    #[must_use]
    pub fn may_stay(&self, block: u64, live: u64) -> bool {
        block <= (self.spare / STAY_SHARE).max(live)
    }

    /// Returns the present grace, in ticks. `grace` is its normal length.
    #[must_use]
    pub const fn grace(&self, grace: u64) -> u64 {
        grace.saturating_mul(1 << self.doublings)
    }

    /// Records that a stale block was freed.
    pub fn freed_stale(&mut self, tick: u64) {
        self.stale_at = Some(tick);
    }

    /// Records that a block was freed because of the limit.
    pub fn freed(&mut self, block: u64, tick: u64) {
        self.doublings = 0;
        self.freed = self.freed.saturating_add(block);
        self.changed_at = tick;
    }

    /// Records that a block was created. If blocks were freed because of the limit within the last `grace` ticks, the
    /// limit rises. If a stale block was freed within the last [`REGRET`] graces, the grace doubles.
    pub fn created(&mut self, block: u64, tick: u64, grace: u64) {
        if let Some(at) = self.stale_at.take()
            && tick.saturating_sub(at) <= self.grace(grace).saturating_mul(REGRET)
        {
            (self.doublings, self.doubled_at) = ((self.doublings + 1).min(DOUBLINGS_MAX), tick);
        }
        if self.freed != 0 && tick.saturating_sub(self.changed_at) <= grace {
            let missed = block.min(self.freed);
            self.freed -= missed;
            self.rise = self.rise.saturating_add(missed);
            self.changed_at = tick;
        }
    }

    /// Records that a reclaim took place. After each grace without a change, the rise falls. After eight graces without
    /// a change, a longer grace halves. `reused` is the total size of the empty blocks that were used again so far; it
    /// may wrap around.
    pub fn passed(&mut self, tick: u64, grace: u64, reused: u64) {
        if self.doublings != 0
            && tick.saturating_sub(self.doubled_at) > self.grace(grace).saturating_mul(HALVING_GRACES)
        {
            (self.doublings, self.doubled_at) = (self.doublings - 1, tick);
        }
        if (self.rise | self.freed) != 0 && tick.saturating_sub(self.changed_at) > grace {
            let used = reused.wrapping_sub(self.reused_before);
            self.rise = (self.rise / 2).max(used.min(self.rise));
            (self.freed, self.changed_at, self.reused_before) = (0, tick, reused);
        }
    }
}

/// Detects that a level was unloaded: after a reclaim, most of the live bytes are gone. Objects and slots that are kept
/// for reuse are then freed at once, because a few of them can keep many blocks alive.
#[derive(Clone, Copy, Default, Debug)]
pub struct LivePeak {
    /// Peak of the live bytes. Each reclaim lowers it by a 64th, but not below the live bytes.
    peak: u64,
}

impl LivePeak {
    /// Records a reclaim: the bytes that are live after it, and the largest number of live bytes since the last
    /// reclaim. Returns `true`, and sets the peak to `live`, if all of these hold:
    ///
    /// - `may_act` is `true`. If not, a later call can detect the same fall.
    /// - At most half of the peak is live.
    /// - The peak exceeds `live` by more than `spare`.
    pub fn has_fallen(&mut self, live: u64, live_max: u64, spare: u64, may_act: bool) -> bool {
        self.peak = self.peak.max(live_max);
        let has_fallen = may_act && live <= self.peak / 2 && self.peak - live > spare;
        self.peak = if has_fallen { live } else { live.max(self.peak - self.peak / 64) };
        has_fallen
    }
}

/// Decides after which reclaims recycled objects and slots (those that are kept for reuse) are freed, because most of
/// the live bytes are gone.
#[derive(Clone, Copy, Default, Debug)]
pub struct Unloads {
    peak: LivePeak,
    /// Bytes of recycled objects at the last reclaim.
    recycled: u64,
    /// Tick of the last reclaim after which recycled objects and slots were freed.
    last: Option<u64>,
}

impl Unloads {
    /// Records a reclaim: the used bytes, the largest number of used bytes since the last reclaim, and the bytes of
    /// recycled objects, which are used but not live. Returns `true` if recycled objects and slots must be freed now.
    /// This happens at most once in `grace` ticks.
    pub fn are_seen(&mut self, [used, used_max, recycled]: [u64; 3], spare: u64, tick: u64, grace: u64) -> bool {
        // `used_max` was reached before this reclaim, so the recycled bytes of the last reclaim are subtracted from it.
        let before = core::mem::replace(&mut self.recycled, recycled);
        let (live, live_max) = (used.saturating_sub(recycled), used_max.saturating_sub(before));
        let may_act = self.last.is_none_or(|last| tick.saturating_sub(last) >= grace);
        let is_due = self.peak.has_fallen(live, live_max, spare, may_act);
        self.last = if is_due { Some(tick) } else { self.last };
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SPARE: u64 = 64 * MIB;

    fn bytes(live: u64, empty: u64, next_block: u64) -> ArenaBytes {
        ArenaBytes { live: live * MIB, empty: empty * MIB, next_block: next_block * MIB }
    }

    /// The policy as a table: the bytes of an arena in MiB (live, empty, next block), and the answers.
    #[test]
    fn empty_blocks_are_limited_by_the_live_bytes() {
        let table = [
            // Few live bytes: one block and 64 MiB.
            (bytes(0, 72, 8), 72, false),
            (bytes(0, 73, 8), 72, true),
            (bytes(0, 6_140, 256), 320, true),
            (bytes(512, 320, 256), 320, false),
            (bytes(512, 321, 256), 320, true),
            // Many live bytes: an eighth of them.
            (bytes(8_192, 1_280, 256), 1_280, false),
            (bytes(8_192, 1_281, 256), 1_280, true),
        ];
        let limits = EmptyBlocks::new(SPARE);
        for (bytes, limit, is_exceeded) in table {
            assert_eq!(limits.limit(&bytes), limit * MIB, "{bytes:?}");
            assert_eq!(limits.is_exceeded(&bytes), is_exceeded, "{bytes:?}");
        }
    }

    /// The live bytes of consecutive reclaims in MiB, and whether most of them are gone.
    #[test]
    fn an_unload_is_found_when_half_of_the_bytes_are_gone() {
        let table = [
            (0, false),
            (1_000, false),
            (600, false),
            (480, true),
            // The peak begins anew.
            (260, false),
            (236, true),
            (118, true),
            // At most half, but a difference of 64 MiB is not enough.
            (54, false),
            (0, true),
            (0, false),
        ];
        let mut peak = LivePeak::default();
        for (nth, (live, has_fallen)) in table.into_iter().enumerate() {
            assert_eq!(peak.has_fallen(live * MIB, live * MIB, SPARE, true), has_fallen, "reclaim {nth}: {live} MiB");
        }
        // A level that was loaded and unloaded between two reclaims.
        assert!(LivePeak::default().has_fallen(100 * MIB, 200 * MIB, SPARE, true));
        assert!(!LivePeak::default().has_fallen(101 * MIB, 200 * MIB, SPARE, true));
        // If a fall is not reported because `may_act` is `false`, a later call reports it.
        let mut peak = LivePeak::default();
        assert!(!peak.has_fallen(0, 200 * MIB, SPARE, false));
        assert!(peak.has_fallen(0, 0, SPARE, true));
        // A slow fall is not an unload.
        let mut peak = LivePeak::default();
        assert!((0..2_000).all(|nth| !peak.has_fallen((2_000 - nth) * MIB, 0, SPARE, true)));
    }

    #[test]
    fn a_block_may_stay_if_it_is_small_or_much_is_live() {
        let limits = EmptyBlocks::new(SPARE);
        for (block, live, may_stay) in [(16, 0, true), (17, 0, false), (256, 255, false), (256, 256, true)] {
            assert_eq!(limits.may_stay(block * MIB, live * MIB), may_stay, "{block} MiB empty, {live} MiB live");
        }
    }

    #[test]
    fn with_the_largest_spare_nothing_is_above_the_limit() {
        let limits = EmptyBlocks::new(u64::MAX);
        let all = ArenaBytes { live: 0, empty: u64::MAX, next_block: MIB };
        assert!(!limits.is_exceeded(&all) && limits.may_stay(u64::MAX / 4, 0));
    }

    /// Simulates a program that frees 1 GiB and allocates it again, every `period` ticks. Returns the number of blocks
    /// that it creates.
    fn created_by_a_loop(period: u64, rounds: u64) -> u64 {
        const GRACE: u64 = 48;
        const BLOCK: u64 = 256 * MIB;
        let (mut limits, mut empty, mut created, mut reused) = (EmptyBlocks::new(SPARE), 0, 0, 0);
        for round in 0..rounds {
            let tick = round * period;
            for _ in 0..4 {
                if empty > 0 {
                    empty -= 1;
                    reused += BLOCK;
                } else {
                    limits.created(BLOCK, tick, GRACE);
                    created += 1;
                }
            }
            empty = 4;
            for tick in tick + 1..tick + period {
                limits.passed(tick, GRACE, reused);
                let bytes = |empty| ArenaBytes { live: 0, empty, next_block: BLOCK };
                while limits.is_exceeded(&bytes(empty * BLOCK)) {
                    limits.freed(BLOCK, tick);
                    empty -= 1;
                }
            }
        }
        created
    }

    #[test]
    fn a_loop_that_frees_and_allocates_pays_for_its_blocks_twice() {
        // Four blocks at first, and the three that were freed once.
        assert_eq!(created_by_a_loop(10, 100), 7);
        assert_eq!(created_by_a_loop(48, 100), 7);
        // After a longer pause, the blocks are freed each time: they are not kept for a rare load.
        assert!(created_by_a_loop(200, 100) > 200);
    }

    #[test]
    fn recycled_bytes_are_not_live_and_an_unload_counts_once_in_a_grace() {
        let mut unloads = Unloads::default();
        let mut reclaim = |used: u64, max: u64, recycled: u64, tick| {
            unloads.are_seen([used * MIB, max * MIB, recycled * MIB], SPARE, tick, 48)
        };
        // Two thirds of the bytes are released, and recycled from then on.
        assert!(reclaim(300, 300, 200, 1));
        assert!((2..100).all(|tick| !reclaim(300, 300, 200, tick)));
        // A level is dropped: a quarter of it is recycled.
        assert!(!reclaim(1_000, 1_000, 200, 100));
        assert!(reclaim(300, 1_000, 256, 101));
        assert!(!reclaim(44, 44, 0, 102));
        // The next level is dropped less than a grace later, so its unload is reported after the grace.
        assert!(!reclaim(256, 1_000, 256, 120));
        assert!(!reclaim(256, 256, 256, 148));
        assert!(reclaim(256, 256, 256, 149));
    }

    /// The grace after each event, by tick: a stale block is freed (`true`), or a block is created.
    #[test]
    fn the_grace_doubles_while_stale_blocks_are_missed() {
        const GRACE: u64 = 48;
        let mut limits = EmptyBlocks::new(SPARE);
        let table = [
            (100, true, 48),
            (292, false, 96), // four graces later
            (300, false, 96), // no block was freed since
            (400, true, 96),
            (785, false, 96), // one tick after four graces of 96
            (800, true, 96),
            (810, false, 192),
            (820, true, 192),
            (830, false, 384),
            (840, true, 384),
            (850, false, 768),
            (860, true, 768),
            (870, false, 768),
        ];
        for (tick, is_freed, grace) in table {
            if is_freed {
                limits.freed_stale(tick);
            } else {
                limits.created(256 * MIB, tick, GRACE);
            }
            assert_eq!(limits.grace(GRACE), grace, "tick {tick}");
        }
        // Eight graces without a miss halve the grace.
        limits.passed(870 + 8 * 768, GRACE, 0);
        assert_eq!(limits.grace(GRACE), 768);
        limits.passed(871 + 8 * 768, GRACE, 0);
        assert_eq!(limits.grace(GRACE), 384);
        // A block that is freed because of the limit resets the grace.
        limits.freed(256 * MIB, 10_000);
        assert_eq!(limits.grace(GRACE), 48);
    }

    #[test]
    fn the_rise_halves_with_each_grace() {
        let mut limits = EmptyBlocks::new(SPARE);
        let empty = ArenaBytes::default();
        limits.freed(256 * MIB, 10);
        limits.created(100 * MIB, 58, 48);
        assert_eq!(limits.limit(&empty), 164 * MIB);
        limits.passed(106, 48, 0);
        assert_eq!(limits.limit(&empty), 164 * MIB);
        limits.passed(107, 48, 0);
        assert_eq!(limits.limit(&empty), 114 * MIB);
        // The freed bytes are forgotten too.
        limits.created(100 * MIB, 108, 48);
        assert_eq!(limits.limit(&empty), 114 * MIB);
        // Blocks that are used again keep the rise.
        limits.passed(156, 48, 40 * MIB);
        assert_eq!(limits.limit(&empty), 104 * MIB);
        limits.passed(300, 48, 41 * MIB);
        assert_eq!(limits.limit(&empty), 84 * MIB);
    }
}
