//! First fit, for comparison: the rows are placed in the order of their starts, each in the lowest gap that is large
//! enough. O(n²) at worst for n rows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ringfence_planner::Item;

/// Returns the height of the plan, in bytes. Returns `None` if `go_on` returned `false`.
pub fn height(items: &[Item], mut go_on: impl FnMut() -> bool) -> Option<u64> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&number| items[number].lifetime.lower);
    // `alive` has the offset and the end offset of each live item, the lowest first. `ends` has the time at which each
    // of them ends, with its offset.
    let mut alive: Vec<(u64, u64)> = Vec::new();
    let mut ends: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let mut height = 0;
    for number in order {
        if !go_on() {
            return None;
        }
        let item = &items[number];
        while let Some(&Reverse((_, offset))) = ends.peek().filter(|held| held.0.0 <= item.lifetime.lower) {
            ends.pop();
            alive.remove(alive.partition_point(|held| held.0 < offset));
        }
        let (place, offset) = lowest(&alive, item);
        let end = offset + item.size;
        alive.insert(place, (offset, end));
        ends.push(Reverse((item.lifetime.upper, offset)));
        height = height.max(end);
    }
    Some(height)
}

/// Finds the lowest gap that is large enough for an item. Returns the index at which to insert the item in `alive`, and
/// its offset.
fn lowest(alive: &[(u64, u64)], item: &Item) -> (usize, u64) {
    let mut offset = 0_u64;
    for (place, &(begin, end)) in alive.iter().enumerate() {
        if offset + item.size <= begin {
            return (place, offset);
        }
        offset = end.next_multiple_of(item.alignment);
    }
    (alive.len(), offset)
}

#[cfg(test)]
mod tests {
    use ringfence_planner::{Item, Policy, Problem, plan_by};

    use super::height;

    #[test]
    fn it_is_as_high_as_the_policy_of_the_planner_and_can_be_stopped() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..300 {
            let one = |_| {
                let lower = random.u64(0..60);
                Item::new(random.u64(1..100), lower, lower + random.u64(1..30)).aligned(1 << random.u32(0..5))
            };
            let items: Vec<Item> = (0..80).map(one).collect();
            let problem = Problem::new(&items).expect("they are sound");
            assert_eq!(height(&items, || true), Some(plan_by(&problem, Policy::OnlineFirstFit).height), "{items:?}");
            let mut steps = 0;
            let stopped = height(&items, || {
                steps += 1;
                steps < 40
            });
            assert_eq!(stopped, None);
        }
    }
}
