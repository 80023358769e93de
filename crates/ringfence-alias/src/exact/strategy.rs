//! In which order the search decides.

use crate::problem::Problem;
use crate::shape::Shape;
use alloc::vec::Vec;

/// Which open item is decided on next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pick {
    /// The lowest, then by rank.
    Lowest,
    /// By rank, among those below which nothing more fits.
    Ranked,
    /// Of the section with least slack, where low sections count as if they had less.
    Tightest,
}

/// What the rank of an item is made of; of a tuple, the first counts most.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Keys {
    /// Fullest section, duration, area.
    FullDurationArea,
    /// Fullest section, sections, area in sections.
    FullSectionsArea,
    /// Fullest section, area in sections, sections.
    FullArea,
    /// Fullest section, area, duration.
    FullAreaDuration,
    /// Size, sections.
    Size,
    /// Alignment; of the largest one fullest section and duration, of others the least size: it fills the gaps.
    Aligned,
    /// A product of powers: of size, of duration, and of how full the fullest section is; and how much noise.
    Product { size: f64, duration: f64, full: f64, noise: f64 },
}

/// A way to search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Strategy {
    pub pick: Pick,
    /// Whether the section that failed last goes first.
    pub focus: bool,
    pub keys: Keys,
}

/// How many of [`strategies`] have succeeded so often that they take every turn; the others share one.
pub(crate) const LEADING: usize = 5;

/// The ways that take turns, the most successful first. Where alignments are mixed, one goes before them that is of no
/// use elsewhere.
pub(crate) fn strategies(is_mixed: bool) -> impl Iterator<Item = Strategy> {
    const MIXED: [(Pick, bool, Keys); 2] = [(Pick::Ranked, false, Keys::Aligned), (Pick::Lowest, false, Keys::Aligned)];
    const PRODUCT: Keys = Keys::Product { size: 0.0, duration: 1.0, full: 20.0, noise: 0.0 };
    const NOISY: Keys = Keys::Product { size: 0.3, duration: 1.0, full: 10.0, noise: 1.0 };
    const WAYS: [(Pick, bool, Keys); 11] = [
        (Pick::Lowest, false, Keys::FullDurationArea),
        (Pick::Lowest, false, PRODUCT),
        (Pick::Ranked, false, Keys::FullDurationArea),
        (Pick::Lowest, false, Keys::FullArea),
        (Pick::Tightest, true, Keys::FullArea),
        (Pick::Lowest, false, Keys::FullAreaDuration),
        (Pick::Ranked, false, Keys::FullSectionsArea),
        (Pick::Lowest, true, Keys::Size),
        (Pick::Lowest, false, NOISY),
        (Pick::Ranked, true, PRODUCT),
        (Pick::Ranked, false, Keys::Size),
    ];
    let ways = is_mixed.then_some(MIXED).into_iter().flatten().chain(WAYS);
    ways.map(|(pick, focus, keys)| Strategy { pick, focus, keys })
}

impl Keys {
    /// Of each item its rank: 0 is the first.
    pub fn ranks<S: Shape>(
        self,
        problem: &Problem,
        shape: &S,
        loads: &[u64],
        mut random: impl FnMut() -> f64,
    ) -> Vec<u32> {
        let bound = problem.lower_bound().max(1) as f64;
        let most = problem.sizes.alignment.iter().copied().max().unwrap_or(1);
        let key = |item: usize, random: &mut dyn FnMut() -> f64| {
            let full = shape.sections(item).map(|section| loads[section]).max().unwrap_or(0) as f64 / bound;
            let size = problem.sizes.size[item] as f64 / bound;
            let sections = shape.sections(item).count() as f64;
            let duration = problem.durations[item] as f64;
            match self {
                Self::FullDurationArea => [full, duration, size],
                Self::FullSectionsArea => [full, sections, size],
                Self::FullArea => [full, sections * size, sections],
                Self::FullAreaDuration => [full, duration * size, duration],
                Self::Size => [size, sections, 0.0],
                Self::Aligned => match problem.sizes.alignment[item] {
                    alignment if alignment == most => [alignment as f64, full, duration],
                    alignment => [alignment as f64, -size, full],
                },
                Self::Product { size: a, duration: b, full: c, noise } => {
                    let product = a * log(size) + b * log(duration) + c * log(full);
                    [product + noise * (random() - 0.5), 0.0, 0.0]
                }
            }
        };
        let keys: Vec<[f64; 3]> = (0..problem.len()).map(|item| key(item, &mut random)).collect();
        let mut order: Vec<u32> = (0..problem.len() as u32).collect();
        let reversed = |a: &u32, b: &u32| keys[*b as usize].partial_cmp(&keys[*a as usize]).expect("keys are numbers");
        order.sort_by(reversed);
        let mut ranks = alloc::vec![0; order.len()];
        for (rank, &item) in order.iter().enumerate() {
            ranks[item as usize] = rank as u32;
        }
        ranks
    }
}

/// The logarithm to base 2, near enough to sort by; `core` has none. Exact at powers of two, linear between.
fn log(number: f64) -> f64 {
    let bits = number.to_bits();
    let exponent = (bits >> 52) as f64 - 1023.0;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52) - 1.0;
    // A parabola through both ends takes most of the error away.
    exponent + mantissa + 0.34 * mantissa * (1.0 - mantissa)
}
