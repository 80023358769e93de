//! Bytes in, plans out: what a fuzzer, a test from seeds and a long campaign run, as those of [`ringfence_core::testing::drive`].

use alloc::vec::Vec;

use ringfence_core::testing::drive::{Drive, Feed};

use crate::{Item, Policy, Problem, plan, plan_by, verify};

/// What there is to run.
pub const ALL: [Drive; 1] = [("alias_plan", alias_plan)];

/// Plans of lifetimes: those of every policy and of a short search.
///
/// # Panics
/// If a plan is wrong, or one is lower than a bound that was proven.
#[must_use]
pub fn alias_plan(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let mut items = Vec::new();
    let Some(many) = feed.below(40) else { return 0 };
    while items.len() < many as usize + 1 {
        let (Some(size), Some(log2), Some(lower), Some(length)) =
            (feed.any(), feed.below(8), feed.below(64), feed.below(32))
        else {
            break;
        };
        let item = Item::new(size & 0xff_ffff, lower, lower + length).aligned(1 << log2);
        items.push(item);
    }
    let Ok(problem) = Problem::new(&items) else { return items.len() as u64 };
    let mut steps = 0;
    let best = plan(&problem, |progress| {
        steps += progress.steps;
        steps < 2_000
    });
    verify(&items, &best.offsets, best.height).expect("the plan is right");
    assert!(best.height >= best.lower_bound && best.lower_bound >= best.load);
    for policy in [Policy::OnlineFirstFit, Policy::BySize] {
        let simple = plan_by(&problem, policy);
        verify(&items, &simple.offsets, simple.height).expect("the plan is right");
        assert!(
            simple.height >= best.lower_bound,
            "{policy:?} is below what was proven: {simple:?} and {best:?}, {items:?}"
        );
    }
    items.len() as u64
}
