//! Naive strategies, for comparison.

use std::collections::HashMap;

use ringfence::algorithms::range::align_up;

use super::strategy::Strategy;

/// First fit: a list of holes in address order. An allocation takes the lowest hole that is large enough.
pub struct FirstFit {
    /// Offset and size of each hole, ordered by offset. No two holes are adjacent.
    holes: Vec<(u64, u64)>,
    live: Vec<Option<(u64, u64)>>,
    high_water: u64,
}

impl FirstFit {
    pub fn new(capacity: u64, slots: usize) -> Self {
        Self { holes: vec![(0, capacity)], live: vec![None; slots], high_water: 0 }
    }
}

impl Strategy for FirstFit {
    fn allocate(&mut self, slot: u32, size: u64, alignment: u64) -> bool {
        let fit = |&(offset, free): &(u64, u64)| {
            let start = align_up(offset, alignment)?;
            (start + size <= offset + free).then_some(start)
        };
        let found = self.holes.iter().enumerate().find_map(|(at, hole)| Some((at, fit(hole)?)));
        let Some((at, start)) = found else { return false };
        let (offset, free) = self.holes[at];
        let (before, after) = ((offset, start - offset), (start + size, offset + free - start - size));
        let left = [before, after].into_iter().filter(|(_, size)| *size > 0);
        self.holes.splice(at..=at, left);
        self.live[slot as usize] = Some((start, size));
        self.high_water = self.high_water.max(start + size);
        true
    }

    fn free(&mut self, slot: u32) {
        let Some((mut offset, mut size)) = self.live[slot as usize].take() else { return };
        let mut at = self.holes.partition_point(|hole| hole.0 < offset);
        if at < self.holes.len() && offset + size == self.holes[at].0 {
            size += self.holes.remove(at).1;
        }
        if at > 0 && self.holes[at - 1].0 + self.holes[at - 1].1 == offset {
            at -= 1;
            let before = self.holes.remove(at);
            (offset, size) = (before.0, size + before.1);
        }
        self.holes.insert(at, (offset, size));
    }

    fn high_water(&self) -> u64 {
        self.high_water
    }
}

/// Pools of equal blocks: a size is rounded up to a multiple of 64 KiB (or of a larger alignment), and the pool of this
/// size serves it. A pool reserves sixteen blocks at a time, or fewer if sixteen do not fit, and never releases them.
pub struct Pools {
    capacity: u64,
    /// First byte after all pools.
    end: u64,
    free: HashMap<u64, Vec<u64>>,
    live: Vec<Option<(u64, u64)>>,
    high_water: u64,
}

const STEP: u64 = 64 << 10;
const BLOCKS_PER_POOL: u64 = 16;

impl Pools {
    pub fn new(capacity: u64, slots: usize) -> Self {
        Self { capacity, end: 0, free: HashMap::new(), live: vec![None; slots], high_water: 0 }
    }

    /// Reserves up to sixteen blocks of `block` bytes. Returns the offset of one, and adds the others to the list of
    /// free blocks. Returns `None` if not even one fits.
    fn grow(&mut self, block: u64, alignment: u64) -> Option<u64> {
        let start = align_up(self.end, alignment.max(STEP))?;
        let count = (self.capacity.checked_sub(start)? / block).min(BLOCKS_PER_POOL);
        if count == 0 {
            return None;
        }
        self.end = start + count * block;
        self.high_water = self.end;
        let free = self.free.entry(block).or_default();
        free.extend((1..count).rev().map(|index| start + index * block));
        Some(start)
    }
}

impl Strategy for Pools {
    fn allocate(&mut self, slot: u32, size: u64, alignment: u64) -> bool {
        // The block size is a multiple of the alignment, like the pool's start, so every block of the pool is aligned.
        let step = alignment.max(STEP);
        let Some(block) = align_up(size, step) else { return false };
        // A free block of this size may come from a pool with a smaller alignment. If it is misaligned, it is skipped.
        let free = self.free.entry(block).or_default();
        let place = free.iter().rposition(|offset| offset.is_multiple_of(alignment)).map(|at| free.swap_remove(at));
        let Some(offset) = place.or_else(|| self.grow(block, alignment)) else { return false };
        self.live[slot as usize] = Some((offset, block));
        true
    }

    fn free(&mut self, slot: u32) {
        if let Some((offset, block)) = self.live[slot as usize].take() {
            self.free.entry(block).or_default().push(offset);
        }
    }

    fn high_water(&self) -> u64 {
        self.high_water
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes random operations. After each, the live ranges must be disjoint, aligned and inside the heap.
    fn check(seed: u64, first_fit: bool) {
        const CAPACITY: u64 = 64 << 20;
        const SLOTS: usize = 64;
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut first, mut pools) = (FirstFit::new(CAPACITY, SLOTS), Pools::new(CAPACITY, SLOTS));
        let mut sizes = [(0, 1); SLOTS];
        for _ in 0..2_000 {
            let slot = rng.u32(0..SLOTS as u32);
            let strategy: &mut dyn Strategy = if first_fit { &mut first } else { &mut pools };
            strategy.free(slot);
            let (size, alignment) = (rng.u64(1..2 << 20), 1 << rng.u32(0..20));
            sizes[slot as usize] = (size, alignment);
            strategy.allocate(slot, size, alignment);
            let live = if first_fit { &first.live } else { &pools.live };
            let mut placed: Vec<_> =
                live.iter().zip(sizes).filter_map(|(place, size)| Some(((*place)?, size))).collect();
            placed.sort_unstable();
            assert!(placed.iter().all(|((offset, held), (size, alignment))| held >= size && offset % alignment == 0));
            assert!(placed.windows(2).all(|pair| pair[0].0.0 + pair[0].0.1 <= pair[1].0.0), "two share bytes");
            assert!(placed.last().is_none_or(|((offset, held), _)| offset + held <= CAPACITY));
        }
    }

    #[test]
    fn naive_strategies_hand_no_byte_out_twice() {
        for seed in 0..20 {
            check(seed, true);
            check(seed, false);
        }
    }

    #[test]
    fn first_fit_merges_back_to_one_hole() {
        let mut heap = FirstFit::new(1 << 20, 8);
        (0..8).for_each(|slot| assert!(heap.allocate(slot, 1000, 256)));
        [3, 1, 2, 0, 7, 5, 6, 4].into_iter().for_each(|slot| heap.free(slot));
        assert_eq!(heap.holes, [(0, 1 << 20)]);
    }
}
