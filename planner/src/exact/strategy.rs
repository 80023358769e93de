//! The orders in which the search decides.

use crate::shape::Shape;
use alloc::vec::Vec;
use ringfence_alias::Problem;

/// Choice of the open item that is decided on next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pick {
    /// The lowest item, then by rank.
    Lowest,
    /// By rank, among items whose `low` is below the ends of all open items.
    Ranked,
    /// The lowest item of the section with the least slack; low sections count as tighter.
    Tightest,
}

/// Sort keys of the rank of an item. The first key counts most.
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
    /// Alignment first. Items of the largest alignment then by fullest section and duration, others by least size: they
    /// fill the gaps.
    Aligned,
    /// A product of powers of size, duration and load of the fullest section, with noise.
    Product { size: f64, duration: f64, full: f64, noise: f64 },
}

/// A strategy of the search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Strategy {
    pub pick: Pick,
    /// `true` if the section that failed last comes first.
    pub focus: bool,
    pub keys: Keys,
}

/// Number of [`strategies`] that succeed so often that each has its own turn; the others share one turn.
pub(crate) const LEADING: usize = 5;

/// Returns the strategies that take turns, the most successful first. For mixed alignments, two that only help there
/// come before them.
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
    /// Returns the rank of each item; 0 is the first.
    pub fn ranks<S: Shape>(
        self,
        problem: &Problem,
        shape: &S,
        loads: &[u64],
        mut random: impl FnMut() -> f64,
    ) -> Vec<u32> {
        let bound = problem.lower_bound().max(1) as f64;
        let most = problem.sizes().alignment.iter().copied().max().unwrap_or(1);
        let key = |item: usize, random: &mut dyn FnMut() -> f64| {
            let full = shape.sections(item).map(|section| loads[section]).max().unwrap_or(0) as f64 / bound;
            let size = problem.sizes().size[item] as f64 / bound;
            let sections = shape.sections(item).count() as f64;
            let duration = problem.durations()[item] as f64;
            match self {
                Self::FullDurationArea => [full, duration, size],
                Self::FullSectionsArea => [full, sections, size],
                Self::FullArea => [full, sections * size, sections],
                Self::FullAreaDuration => [full, duration * size, duration],
                Self::Size => [size, sections, 0.0],
                Self::Aligned => match problem.sizes().alignment[item] {
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

/// Returns an approximate logarithm to base 2 for sorting, since `core` has none. Exact at powers of two.
fn log(number: f64) -> f64 {
    let bits = number.to_bits();
    let exponent = (bits >> 52) as f64 - 1023.0;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52) - 1.0;
    // A parabola that is 0 at both ends removes most of the error of the linear interpolation.
    exponent + mantissa + 0.34 * mantissa * (1.0 - mantissa)
}
