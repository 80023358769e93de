//! Plans of planned frames that are kept, and the working memory of a frame.
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

/// Which group a resource is in, if any.
pub(super) const OWN_MEMORY: u32 = u32::MAX;

/// A resource in a plan that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) key: Option<ObjectKey>,
    pub(super) needs: Requirements,
    /// [`OWN_MEMORY`] for what shares with no other resource.
    pub(super) group: u32,
    pub(super) offset: u64,
    /// The object that it was last; it may have gone since.
    pub(super) object: u32,
}

/// What one heap holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) arena: u32,
    pub(super) height: u64,
    pub(super) lower_bound: u64,
    /// The strictest of its resources.
    pub(super) needs: Requirements,
}

/// A frame's shape and its layout.
pub(super) struct Plan {
    pub(super) hash: u64,
    pub(super) words: Vec<u64>,
    pub(super) resources: Vec<Planned>,
    pub(super) groups: Vec<Group>,
    /// The resources in the order of their first passes.
    pub(super) order: Vec<u32>,
    pub(super) id: u64,
    /// The execution that used it last.
    pub(super) used: u64,
}

/// Plans that are kept, and the working memory of a frame.
#[derive(Default)]
pub(super) struct Plans {
    pub(super) kept: Vec<Plan>,
    /// The plan that was used last; any number if there is none.
    pub(super) last: usize,
    pub(super) made: u64,
    pub(super) words: Vec<u64>,
    pub(super) passes: Vec<Pass>,
    /// Of each resource the object and the acquire.
    pub(super) placed: Vec<(u32, u32)>,
    /// Of each group the heap.
    pub(super) heaps: Vec<u32>,
}

/// Shapes that are kept; the one that was not used for longest goes.
const PLANS_MAX: usize = 16;

impl Plans {
    /// The execution that begins has no plan.
    pub(super) fn forget_frame(&mut self) {
        self.placed.clear();
        self.passes.clear();
    }

    /// The plan of exactly this shape, the last one first.
    pub(super) fn find(&self, words: &[u64]) -> Option<usize> {
        if self.kept.get(self.last).is_some_and(|plan| plan.words == words) {
            return Some(self.last);
        }
        let hash = hash(words);
        self.kept.iter().position(|plan| plan.hash == hash && plan.words == words)
    }

    /// Where resources with these keys lay in the frame before, and how high that frame's heap for the arena was.
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

    /// Keeps a plan in place of the one that was not used for longest, if there are many.
    pub(super) fn keep(&mut self, plan: Plan) -> usize {
        if self.kept.len() < PLANS_MAX {
            self.kept.push(plan);
            return self.kept.len() - 1;
        }
        let oldest = (0..self.kept.len()).min_by_key(|at| self.kept[*at].used).expect("as many as are kept");
        self.kept[oldest] = plan;
        oldest
    }
}

pub(super) fn hash(words: &[u64]) -> u64 {
    let mut hasher = WordHasher::default();
    words.iter().for_each(|word| hasher.write_u64(*word));
    hasher.finish()
}
