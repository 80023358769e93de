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
    /// [`OWN_MEMORY`] if it shares memory with no other resource.
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
    /// Strictest requirements of the group's resources.
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

    /// Returns the offsets of resources with these keys in the previous frame, and the height of that frame's heap for
    /// the arena.
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
