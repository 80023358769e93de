//! Decodes items from bytes, plans them and checks the plans, for a fuzzer, tests from seeds and long campaigns. Works
//! like [`ringfence_core::testing::drive`].

use alloc::vec::Vec;

use ringfence_core::testing::drive::{Drive, Feed};

use crate::{Item, Problem, lower_transitions, plan, plan_keeping, transitions, verify};

/// The drivers of this crate, with their names.
pub const ALL: [Drive; 1] = [("frame_plan", frame_plan)];

/// Plans the items that are decoded from `data`, lowers the transitions, plans again with the resulting offsets, and
/// checks the plans. Returns the number of items.
///
/// # Panics
/// If a plan is invalid or below its bound, or if planning an unchanged problem again moves items.
#[must_use]
pub fn frame_plan(data: &[u8]) -> u64 {
    let items = items(&mut Feed::new(data));
    let Ok(problem) = Problem::new(&items) else { return items.len() as u64 };
    let mut steps = 0;
    let found = plan(&problem, |progress| {
        steps += progress.steps;
        steps < 2_000
    });
    verify(&items, &found.offsets, found.height).expect("the plan is valid");
    assert!(found.height >= found.lower_bound && found.lower_bound >= found.load);
    let mut lowered = found.clone();
    let left = lower_transitions(&problem, &mut lowered, |_| true, |_| false);
    verify(&items, &lowered.offsets, found.height).expect("the plan is valid");
    assert_eq!(left, transitions(&items, &lowered.offsets).len());
    let last: Vec<Option<u64>> = lowered.offsets.iter().copied().map(Some).collect();
    let kept = plan_keeping(&problem, &last, found.height).expect("it is a plan already");
    assert_eq!(kept.plan.offsets, lowered.offsets, "nothing has changed");
    items.len() as u64
}

/// Decodes up to 40 items. Some of them may be invalid.
#[must_use]
pub fn items(feed: &mut Feed<'_>) -> Vec<Item> {
    let mut items = Vec::new();
    let Some(many) = feed.below(40) else { return items };
    while items.len() < many as usize + 1 {
        let (Some(size), Some(log2), Some(lower), Some(length)) =
            (feed.any(), feed.below(8), feed.below(64), feed.below(32))
        else {
            break;
        };
        items.push(Item::new(size & 0xff_ffff, lower, lower + length).aligned(1 << log2));
    }
    items
}
