//! Makes plans from bytes, for a fuzzer, tests from seeds and long campaigns, as [`ringfence_core::testing::drive`]
//! does.

use alloc::vec::Vec;

use ringfence_core::testing::drive::{Drive, Feed};

use crate::{
    Heap, HeapItem, HeapOffset, HeapProblem, Item, Policy, Problem, plan, plan_by, plan_heaps, replan_heaps, verify,
    verify_heaps,
};

/// All entry points.
pub const ALL: [Drive; 2] = [("alias_plan", alias_plan), ("alias_heaps", alias_heaps)];

/// Plans lifetimes with some policies and a short search, and checks the plans.
///
/// # Panics
/// A plan is wrong, or lower than a proven bound.
#[must_use]
pub fn alias_plan(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let items = ringfence_alias::testing::items(&mut feed);
    let Ok(problem) = Problem::new(&items) else { return items.len() as u64 };
    let mut steps = 0;
    let best = plan(&problem, |progress| {
        steps += progress.steps;
        steps < 2_000
    });
    verify(&items, &best.offsets, best.height).expect("the plan is valid");
    assert!(best.height >= best.lower_bound && best.lower_bound >= best.load);
    for policy in [Policy::OnlineFirstFit, Policy::BySize] {
        let simple = plan_by(&problem, policy);
        verify(&items, &simple.offsets, simple.height).expect("the plan is valid");
        assert!(
            simple.height >= best.lower_bound,
            "{policy:?} is below what was proven: {simple:?} and {best:?}, {items:?}"
        );
    }
    items.len() as u64
}

/// Plans several heaps with pins and pages, then replans without and with a change, and checks the plans.
///
/// # Panics
/// A plan is wrong, is below its bound, or moves items without a change.
#[must_use]
pub fn alias_heaps(data: &[u8]) -> u64 {
    let mut feed = Feed::new(data);
    let mut heaps = Vec::new();
    for class in 0..2 {
        let (Some(capacity), Some(alignment), Some(granularity)) = (feed.below(4096), feed.below(6), feed.below(8))
        else {
            return 0;
        };
        heaps.push(Heap { class, capacity, alignment: 16 << alignment, granularity: 1 << granularity });
    }
    let mut items = Vec::new();
    while let Some(item) = heap_item(&mut feed).filter(|_| items.len() < 30) {
        items.push(item);
    }
    let Ok(problem) = HeapProblem::new(&heaps, &items) else { return items.len() as u64 };
    let mut steps = 0;
    let found = plan_heaps(&problem, |progress| {
        steps += progress.steps;
        steps < 500
    });
    let Ok(found) = found else { return items.len() as u64 };
    verify_heaps(&heaps, &items, &found.offsets).expect("the plan is valid");
    assert!(found.height() >= found.lower_bound, "{found:?} is below its bound");
    let mut last: Vec<Option<HeapOffset>> = found.offsets.iter().copied().map(Some).collect();
    let same = replan_heaps(&problem, &last, |_| true).expect("it is a plan already");
    assert_eq!((same.kept_count, &same.plan.offsets), (items.len(), &found.offsets), "nothing has changed");
    if let (Some(at), Some(size)) = (feed.below(items.len().max(1) as u64), feed.below(256))
        && let Some(item) = items.get_mut(at as usize)
    {
        item.item.size = size + 1;
        last[at as usize] = None;
        if let Ok(again) = HeapProblem::new(&heaps, &items).and_then(|problem| replan_heaps(&problem, &last, |_| true))
        {
            verify_heaps(&heaps, &items, &again.plan.offsets).expect("the plan is valid");
        }
    }
    items.len() as u64
}

fn heap_item(feed: &mut Feed<'_>) -> Option<HeapItem> {
    let (size, log2, lower, length) = (feed.below(256)?, feed.below(5)?, feed.below(32)?, feed.below(16)?);
    let item = Item::new(size + 1, lower, lower + length + 1).aligned(1 << log2);
    let item = HeapItem::new(item).of_kind(feed.below(3)? as u32);
    let item = item.preferring([&[0][..], &[1], &[0, 1], &[1, 0]][feed.below(4)? as usize]);
    Some(match feed.below(40)? {
        0 => item.pinned_at(feed.below(2)? as usize, feed.below(64)? << log2),
        _ => item,
    })
}
