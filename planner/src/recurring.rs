//! Items with several lifetimes and the same offset in each.
//!
//! ```text
//!   space ▲ ┌──w──┐         ┌──w──┐      w is the workspace of a function that is called twice; x can have its bytes
//!         │ └─────┘┌───x───┐└─────┘      between the calls, which one long lifetime of w would not allow
//!         └────────────────────────▶ time
//! ```
//!
//! Three items can clash pairwise without being alive together at any moment. For few items, the set that is alive at a
//! moment is therefore grown to a larger clique of clashing items: the bound is higher, and more plans are proven.

use super::sections;
use super::shape::{Bits, Cliques};
use super::sizes::Sizes;
use crate::cliques::{grow, listed};
use crate::limits::{check_lifetimes, check_relation, check_sizes};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use ringfence_alias::Problem;
use ringfence_alias::internals::Relation;
use ringfence_alias::{Item, ItemError, Lifetime};

/// A buffer with several lifetimes and the same bytes in each.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RecurringItem {
    /// Size in units; at least 1.
    pub size: u64,
    /// Alignment of the offset; a power of two.
    pub alignment: u64,
    /// Lifetimes, in any order; at least one.
    pub lifetimes: Vec<Lifetime>,
}

impl RecurringItem {
    /// Creates the problem of items with several lifetimes. [`verify`](super::verify) can check its plans: pass one
    /// [`Item`] per lifetime, with the offset of the recurring item. O(n² / 64), and O(n²) per section in the worst
    /// case; n² / 8 bytes of host memory, and 8 bytes for each section of each item.
    ///
    /// # Errors
    /// The first item that cannot be planned, or [`ItemError::RelationTooLarge`] if the tables would take more than 1
    /// GiB.
    pub fn problem(items: &[Self]) -> Result<Problem, ItemError> {
        let sizes = Sizes {
            size: items.iter().map(|item| item.size).collect(),
            alignment: items.iter().map(|item| item.alignment).collect(),
        };
        check_sizes(sizes.pairs())?;
        let (mut alive, mut owners) = (Vec::new(), Vec::new());
        for (index, item) in items.iter().enumerate() {
            let one = |&lifetime: &Lifetime| Item { lifetime, ..Item::new(item.size, 0, 1) };
            let own: Vec<Item> = item.lifetimes.iter().map(one).collect();
            check_lifetimes(&own).map_err(|error| match error {
                ItemError::EmptyLifetime { lifetime, .. } => ItemError::EmptyLifetime { index, lifetime },
                error => error,
            })?;
            if own.is_empty() {
                return Err(ItemError::Unused { index });
            }
            owners.resize(owners.len() + own.len(), index as u32);
            alive.extend(own);
        }
        let (spans, section_count) = sections::cut(&alive);
        // Each section of an item is listed by section and by item.
        let listed_count: u64 = spans.iter().map(|span| span.range().len() as u64).sum();
        check_relation(items.len(), Bits::bytes(items.len()).saturating_add(8 * listed_count))?;
        let mut cliques = vec![Vec::new(); section_count];
        for (span, &owner) in spans.iter().zip(&owners) {
            cliques[span.range()].iter_mut().for_each(|members| members.push(owner));
        }
        let mut clashes = Bits::new(items.len());
        for members in &mut cliques {
            // The lifetimes of one item may overlap.
            members.dedup();
            for &a in members.iter() {
                members.iter().for_each(|&b| clashes.set(a as usize, b as usize));
            }
        }
        let begin = |item: &RecurringItem| item.lifetimes.iter().map(|held| held.lower).min().unwrap_or(0);
        let (begins, durations) = (items.iter().map(begin).collect(), items.iter().map(duration).collect());
        let sum = |members: &Vec<u32>| members.iter().map(|&item| sizes.size[item as usize]).sum();
        let load = cliques.iter().map(sum).max().unwrap_or(0);
        if items.len() <= GROWN_MAX {
            cliques = grown(&clashes, &sizes, cliques);
        }
        let shape = Cliques { is_recurring: true, ..listed(clashes, &cliques, items.len()) };
        Ok(Problem::with_relation(sizes, Relation::Cliques(shape), begins, durations).with_load(load))
    }
}

/// Largest number of items for which the cliques are grown, in O(n³ / 64).
const GROWN_MAX: usize = 256;

/// Grows each clique by the largest items that clash with all of its members. Also grows a clique around each item.
fn grown(clashes: &Bits, sizes: &Sizes, mut cliques: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    cliques.extend((0..sizes.len() as u32).map(|item| vec![item]));
    let none = Bits::new(sizes.len());
    for members in &mut cliques {
        let first: Vec<usize> = members.iter().map(|&item| item as usize).collect();
        *members = grow(clashes, &none, sizes, &first, true);
        members.sort_unstable();
    }
    let mut met = BTreeSet::new();
    cliques.retain(|members| met.insert(members.clone()));
    cliques
}

/// Returns the time in which the item is alive; overlapping lifetimes count once.
fn duration(item: &RecurringItem) -> u64 {
    let mut lifetimes = item.lifetimes.clone();
    lifetimes.sort_unstable();
    let (mut duration, mut end) = (0, 0);
    for held in lifetimes {
        duration += held.upper.saturating_sub(end.max(held.lower));
        end = end.max(held.upper);
    }
    duration
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::super::{Policy, plan, plan_by, verify};
    use super::*;

    /// Returns one item per lifetime, with its offset.
    fn one_by_one(items: &[RecurringItem], offsets: &[u64]) -> (Vec<Item>, Vec<u64>) {
        let each = items.iter().zip(offsets).flat_map(|(item, &offset)| {
            let one =
                move |&lifetime| (Item { lifetime, alignment: item.alignment, ..Item::new(item.size, 0, 1) }, offset);
            item.lifetimes.iter().map(one)
        });
        each.unzip()
    }

    #[test]
    fn what_is_alive_twice_lends_its_bytes_between() {
        let item = |size, lives: &[(u64, u64)]| {
            let lifetimes = lives.iter().map(|&(lower, upper)| Lifetime { lower, upper }).collect();
            RecurringItem { size, alignment: 1, lifetimes }
        };
        let items = [item(8, &[(6, 8), (0, 2)]), item(8, &[(2, 6)]), item(4, &[(1, 3)]), item(4, &[(5, 7)])];
        let plan = plan(&RecurringItem::problem(&items).unwrap(), |_| true);
        assert_eq!((plan.height, plan.load, plan.offsets[0]), (12, 12, plan.offsets[1]));
        let unused = RecurringItem::problem(&[items[0].clone(), item(1, &[])]);
        assert_eq!(unused.unwrap_err(), ItemError::Unused { index: 1 });
        let empty = RecurringItem::problem(&[items[0].clone(), item(1, &[(1, 2), (5, 5)])]);
        assert!(matches!(empty, Err(ItemError::EmptyLifetime { index: 1, .. })));
    }

    #[test]
    fn lifetimes_that_overlap_up_to_the_last_moment_count_once() {
        let item = |lives: &[(u64, u64)]| {
            let lifetimes = lives.iter().map(|&(lower, upper)| Lifetime { lower, upper }).collect();
            RecurringItem { size: 2, alignment: 1, lifetimes }
        };
        assert_eq!(duration(&item(&[(5, 9), (0, 2), (8, 12), (6, 7)])), 9);
        let items = [item(&[(7, u64::MAX), (0, u64::MAX)]), item(&[(3, u64::MAX), (5, u64::MAX - 1)]), item(&[(0, 1)])];
        assert_eq!((duration(&items[0]), duration(&items[1])), (u64::MAX, u64::MAX - 3));
        let problem = RecurringItem::problem(&items).unwrap();
        assert_eq!(plan(&problem, |_| true).height, 4);
        assert!(Policy::ALL.iter().all(|&policy| plan_by(&problem, policy).height == 4));
    }

    #[test]
    fn three_of_which_every_two_meet_are_bounded_by_all_three() {
        let item = |lives: [(u64, u64); 2]| {
            let lifetimes = lives.iter().map(|&(lower, upper)| Lifetime { lower, upper }).collect();
            RecurringItem { size: 5, alignment: 1, lifetimes }
        };
        let items = [item([(0, 1), (4, 5)]), item([(0, 1), (2, 3)]), item([(2, 3), (4, 5)])];
        let problem = RecurringItem::problem(&items).unwrap();
        assert_eq!((problem.load(), problem.lower_bound()), (10, 15));
        assert!(plan(&problem, |_| true).is_proven());
    }

    #[test]
    fn plans_are_right_at_every_lifetime_and_as_low_as_those_of_one_lifetime() {
        let mut random = Random(23);
        for round in 0..200 {
            let mut below = |end: u64| (random.next() * end as f64) as u64;
            let mut life = || {
                let lower = below(30);
                Lifetime { lower, upper: lower + 1 + below(6) }
            };
            let mut lives: Vec<Vec<Lifetime>> = (0..12 + round % 9).map(|_| vec![life()]).collect();
            if round % 2 == 0 {
                // Far from the first lifetime.
                let again = |held: Lifetime| Lifetime { lower: held.lower + 50, upper: held.upper + 50 };
                lives.iter_mut().step_by(3).for_each(|held| held.push(again(held[0])));
            }
            let item = |lifetimes| RecurringItem { size: 1 + below(20), alignment: 1 << below(3), lifetimes };
            let items: Vec<RecurringItem> = lives.into_iter().map(item).collect();
            let mut steps = 0;
            let go_on = |steps: &mut u64, more| {
                *steps += more;
                *steps < 100_000
            };
            let found = plan(&RecurringItem::problem(&items).unwrap(), |progress| go_on(&mut steps, progress.steps));
            let (alive, offsets) = one_by_one(&items, &found.offsets);
            verify(&alive, &offsets, found.height).unwrap();
            if round % 2 == 1 {
                let once = plan(&Problem::new(&alive).unwrap(), |_| true);
                assert_eq!((found.load, found.height), (once.load, once.height), "round {round}");
            }
        }
    }
}
