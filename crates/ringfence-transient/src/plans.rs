//! The cache of plans of planned frames, and the working memory of a frame.
//!
//! ```text
//!   shape, as words ──▶ the same as the last plan's? ── no ──▶ hash ──▶ kept plan with that hash ──▶ the same words?
//! ```
//!
//! A lookup costs O(plans + words), and allocates nothing.

use std::hash::Hasher;

use super::heap::{ObjectKey, WordHasher};
use super::layout::LastLayout;
use super::pass::Pass;
use crate::device::Requirements;

/// Group of a resource with dedicated memory.
pub(super) const OWN_MEMORY: u32 = u32::MAX;

/// A resource in a cached plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) key: Option<ObjectKey>,
    pub(super) needs: Requirements,
    /// [`OWN_MEMORY`] if the resource requires dedicated memory.
    pub(super) group: u32,
    pub(super) offset: u64,
    /// Object of the last use of this resource. It may have been released after that.
    pub(super) object: u32,
}

/// The resources that share one heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) arena: u32,
    pub(super) height: u64,
    pub(super) lower_bound: u64,
    /// Requirements of the group's first resource, with the largest alignment of the group.
    pub(super) needs: Requirements,
}

/// The shape of a frame and its layout.
pub(super) struct Plan {
    pub(super) hash: u64,
    pub(super) words: Vec<u64>,
    pub(super) resources: Vec<Planned>,
    pub(super) groups: Vec<Group>,
    /// The resources in the order of their first passes.
    pub(super) order: Vec<u32>,
    pub(super) id: u64,
    /// Number of the execution that used the plan last.
    pub(super) used: u64,
}

/// The cache of plans, and the working memory of a frame.
#[derive(Default)]
pub(super) struct Plans {
    pub(super) kept: Vec<Plan>,
    /// Index of the plan that was used last; arbitrary if there is none.
    pub(super) last: usize,
    pub(super) made: u64,
    pub(super) words: Vec<u64>,
    pub(super) passes: Vec<Pass>,
    /// For each resource of the frame, the number of its object and of its acquisition; `(u32::MAX, 0)` until it is
    /// placed.
    pub(super) placed: Vec<(u32, u32)>,
    /// Number of the heap of each group.
    pub(super) heaps: Vec<u32>,
}

/// Maximum number of cached shapes. The least recently used one is replaced.
const PLANS_MAX: usize = 16;

impl Plans {
    /// Clears the working memory for an execution without a plan.
    pub(super) fn forget_frame(&mut self) {
        self.placed.clear();
        self.passes.clear();
    }

    /// Returns the index of the plan with exactly this shape. Compares the last plan first.
    pub(super) fn find(&self, words: &[u64]) -> Option<usize> {
        if self.kept.get(self.last).is_some_and(|plan| plan.words == words) {
            return Some(self.last);
        }
        let hash = hash(words);
        self.kept.iter().position(|plan| plan.hash == hash && plan.words == words)
    }

    /// Returns the offsets of resources with these keys in the previous planned frame, and the height of that frame's
    /// layout for the arena.
    pub(super) fn last_offsets(&self, arena: u32, keys: impl Iterator<Item = Option<ObjectKey>>) -> Option<LastLayout> {
        let last = self.kept.iter().max_by_key(|plan| plan.used)?;
        let number = last.groups.iter().position(|group| group.arena == arena)? as u32;
        let members = last.resources.iter().filter(|planned| planned.group == number);
        let mut left: Vec<_> = members.map(|planned| (planned.key, planned.offset)).collect();
        let offsets = keys.map(|key| {
            let at = left.iter().position(|(other, _)| key.is_some() && *other == key)?;
            Some(left.remove(at).1)
        });
        Some(LastLayout { offsets: offsets.collect(), height: last.groups[number as usize].height })
    }

    /// Caches a plan and returns its index. Replaces the least recently used plan if the cache is full.
    pub(super) fn keep(&mut self, plan: Plan) -> usize {
        if self.kept.len() < PLANS_MAX {
            self.kept.push(plan);
            return self.kept.len() - 1;
        }
        let oldest = (0..self.kept.len()).min_by_key(|at| self.kept[*at].used).expect("the cache is full");
        self.kept[oldest] = plan;
        oldest
    }
}

pub(super) fn hash(words: &[u64]) -> u64 {
    let mut hasher = WordHasher::default();
    words.iter().for_each(|word| hasher.write_u64(*word));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::device::{Buffers, InfoKey, ResourceClass};

    fn plan(words: &[u64], used: u64) -> Plan {
        let needs = Requirements {
            size: 64,
            alignment: 1,
            memory_type_bits: 1,
            class: ResourceClass::Buffer,
            prefers_dedicated: false,
            requires_dedicated: false,
        };
        let planned = |word: u32, group, offset| {
            let key = Some(ObjectKey::new::<Buffers>(InfoKey::new(&[word])));
            Planned { key, needs, group, offset, object: u32::MAX }
        };
        let group = |arena, height| Group { arena, height, lower_bound: 0, needs };
        Plan {
            hash: hash(words),
            words: words.to_vec(),
            resources: vec![planned(1, 0, 0), planned(2, 0, 64), planned(1, 0, 128), planned(1, 1, 256)],
            groups: vec![group(5, 192), group(6, 320)],
            order: Vec::new(),
            id: 0,
            used,
        }
    }

    #[test]
    fn a_plan_is_found_by_its_words_alone() {
        let mut plans = Plans::default();
        assert_eq!(plans.find(&[1]), None);
        assert_eq!([[1, 2], [3, 4], [5, 6]].map(|words| plans.keep(plan(&words, 0))), [0, 1, 2]);
        for last in 0..3 {
            plans.last = last;
            assert_eq!([[1, 2], [3, 4], [5, 6]].map(|words| plans.find(&words)), [Some(0), Some(1), Some(2)]);
            assert_eq!((plans.find(&[1]), plans.find(&[1, 2, 0]), plans.find(&[2, 1])), (None, None, None));
        }
        // Another shape with the hash of the second plan.
        plans.kept[1].hash = hash(&[7, 7]);
        plans.last = 0;
        assert_eq!(plans.find(&[7, 7]), None);
    }

    #[test]
    fn the_least_recently_used_of_sixteen_plans_is_replaced() {
        let mut plans = Plans::default();
        for number in 0..16 {
            let used = if number == 9 { 1 } else { 100 + number };
            assert_eq!(plans.keep(plan(&[number], used)), number as usize);
        }
        assert_eq!(plans.keep(plan(&[16], 200)), 9);
        assert_eq!((plans.find(&[9]), plans.find(&[16]), plans.kept.len()), (None, Some(9), 16));
        assert_eq!(plans.keep(plan(&[17], 201)), 0, "the next one");
    }

    #[test]
    fn offsets_of_the_previous_frame_are_those_of_equal_resources_in_the_same_arena() {
        let mut plans = Plans::default();
        let key = |word: u32| Some(ObjectKey::new::<Buffers>(InfoKey::new(&[word])));
        assert!(plans.last_offsets(5, std::iter::empty()).is_none(), "there is no plan");
        plans.keep(plan(&[1], 7));
        let mut older = plan(&[2], 3);
        older.resources.iter_mut().for_each(|planned| planned.offset += 1000);
        plans.keep(older);
        let found = plans.last_offsets(5, [key(2), key(1), key(1), key(1), key(3), None].into_iter());
        let found = found.expect("the arena is in the plan that was used last");
        // Each of the two equal resources is found once, in the order of the plan.
        assert_eq!(found.offsets, [Some(64), Some(0), Some(128), None, None, None]);
        assert_eq!(found.height, 192);
        let found = plans.last_offsets(6, [key(1)].into_iter()).expect("the second group");
        assert_eq!((found.offsets, found.height), (vec![Some(256)], 320));
        assert!(plans.last_offsets(7, [key(1)].into_iter()).is_none(), "another arena");
    }

    #[test]
    fn an_execution_without_a_plan_has_no_places_and_passes() {
        let mut plans =
            Plans { placed: vec![(1, 2)], passes: vec![Pass { owner: 1, queue: 0, number: 1 }], ..Default::default() };
        plans.forget_frame();
        assert!(plans.placed.is_empty() && plans.passes.is_empty());
    }
}
