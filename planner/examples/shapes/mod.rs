//! Generated items in shapes that are typical of compilers and renderers; the same for the same seed.

use ringfence_planner::Item;

/// Pseudo-random numbers from a seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Generates items of any size and lifetime.
pub fn uniform(count: usize, random: &mut Random) -> Vec<Item> {
    let end = count as u64;
    let item = |_| {
        let lower = random.below(end);
        Item::new(1 + random.below(1 << 20), lower, lower + 1 + random.below(end.div_ceil(3)))
    };
    (0..count).map(item).collect()
}

/// Generates items of few sizes and with short lifetimes.
pub fn tight(count: usize, random: &mut Random) -> Vec<Item> {
    let item = |_| {
        let lower = random.below(count as u64);
        Item::new(1 + random.below(12), lower, lower + 1 + random.below(8))
    };
    (0..count).map(item).collect()
}

/// Generates a network in training: the first result is kept longest, and each step has its own work space.
pub fn training(count: usize, random: &mut Random) -> Vec<Item> {
    let steps = count as u64;
    let item = |at: usize| {
        let begin = at as u64 / 2;
        let size = (1 + random.below(64)) << random.below(10);
        let is_kept = at.is_multiple_of(2);
        let length = if is_kept { 2 * steps - 2 * begin - random.below(2) } else { 1 + random.below(3) };
        let lower = if is_kept { begin } else { random.below(2 * steps) };
        Item::new(256 * size, lower, lower + length).aligned(256)
    };
    (0..count).map(item).collect()
}

/// Generates a frame: targets of a few formats and scales, alive for a few passes, aligned to 64 KiB, one in `every` to
/// 4 MiB.
pub fn frame(count: usize, every: u64, random: &mut Random) -> Vec<Item> {
    let passes = count as u64 + 4;
    let item = |_| {
        let lower = random.below(passes);
        let scale = random.below(4);
        let pixels = (1920 * 1080) >> (2 * scale);
        let is_msaa = every != 0 && random.below(every) == 0;
        let texel = random.one_of(&[1, 2, 4, 8]) * if is_msaa { 4 } else { 1 };
        let alignment = if is_msaa { 4 << 20 } else { 64 << 10 };
        let size = (pixels * texel as u64).next_multiple_of(64 << 10);
        Item::new(size, lower, lower + 1 + random.below(passes / 3)).aligned(alignment)
    };
    (0..count).map(item).collect()
}

/// Generates very many tensors of about a hundred sizes over six powers of ten: most live for some ticks, one in ten
/// for thousands.
pub fn long_lived(count: usize, random: &mut Random) -> Vec<Item> {
    let sizes: Vec<u64> = (0..100).map(|_| (1 + random.below(32)) << random.below(24)).collect();
    let end = 3 * count as u64 / 2;
    let item = |_| {
        // Small ones are frequent.
        let place = random.below(100) * random.below(100) / 100;
        let lower = random.below(end);
        let length = match random.below(20) {
            0 => end * 3 / 5,
            1 => end / 6 + random.below(end / 4),
            2..5 => 9 + random.below(60),
            _ => 2 + random.below(3),
        };
        let lower = if length > end / 8 { lower * 2 / 5 } else { lower };
        Item::new(sizes[place as usize] + 1, lower, lower + length)
    };
    (0..count).map(item).collect()
}
