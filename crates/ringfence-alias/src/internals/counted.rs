//! Counting sort, for keys that are small numbers.
//!
//! ```text
//!   key       0   1   2          items   c b a d, with the keys 2 0 2 1
//!   places    0   1   2          number of items with smaller keys: the order is b d c a
//! ```

use alloc::vec;
use alloc::vec::Vec;

/// Returns the numbers below `count` by ascending key. Keys are below `end`. O(count + end).
pub fn counted(count: usize, end: usize, key: impl Fn(usize) -> u32) -> Vec<u32> {
    let mut places = places(count, end, &key);
    let mut order = vec![0; count];
    for item in 0..count {
        let place = &mut places[key(item) as usize];
        order[*place as usize] = item as u32;
        *place += 1;
    }
    order
}

/// Returns, for each key, the position of the first number with that key.
pub fn places(count: usize, end: usize, key: impl Fn(usize) -> u32) -> Vec<u32> {
    // The number of items with smaller keys.
    let mut places = vec![0_u32; end + 1];
    (0..count).for_each(|item| places[key(item) as usize + 1] += 1);
    (1..=end).for_each(|key| places[key] += places[key - 1]);
    places
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    #[test]
    fn counting_orders_as_a_stable_sort_does() {
        let mut random = Random(5);
        for (count, end) in [(0, 0), (0, 3), (1, 1), (7, 1), (100, 9), (1_000, 50_000)] {
            let keys: Vec<u32> = (0..count).map(|_| (random.next() * end as f64) as u32).collect();
            let mut expected: Vec<u32> = (0..count as u32).collect();
            expected.sort_by_key(|&item| keys[item as usize]);
            assert_eq!(counted(count, end, |item| keys[item]), expected);
        }
    }
}
