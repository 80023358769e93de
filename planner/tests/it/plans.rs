//! Tests of plans: against the optimum by brute force, and the promises of each function.

use std::time::Instant;

use proptest::prelude::*;
use ringfence_core::range::align_up;
use ringfence_core::testing::cases;
use ringfence_planner::{
    AliasPlan, Item, ItemError, Lifetime, PassGraph, PassItem, Policy, Problem, RecurringItem, lower_transitions, plan,
    plan_by, plan_keeping, verify, verify_passes,
};

/// Returns the least height, by trying every order with each item as low as possible on top of those before it. Each
/// canonical plan is one of these.
fn brute_force(pairs: &[(u64, u64)], clash: &dyn Fn(usize, usize) -> bool) -> u64 {
    fn go(
        pairs: &[(u64, u64)],
        clash: &dyn Fn(usize, usize) -> bool,
        placed: &mut Vec<(usize, u64)>,
        height: u64,
        best: &mut u64,
    ) {
        if height >= *best {
            return;
        }
        if placed.len() == pairs.len() {
            *best = height;
            return;
        }
        for item in (0..pairs.len()).filter(|item| placed.iter().all(|&(other, _)| other != *item)).collect::<Vec<_>>()
        {
            let (size, alignment) = pairs[item];
            let below = placed.iter().filter(|&&(other, _)| clash(item, other));
            let floor = below.map(|&(other, offset)| offset + pairs[other].0).max().unwrap_or(0);
            let offset = align_up(floor, alignment).unwrap();
            placed.push((item, offset));
            go(pairs, clash, placed, height.max(offset + size), best);
            placed.pop();
        }
    }
    let mut best = u64::MAX;
    go(pairs, clash, &mut Vec::new(), 0, &mut best);
    best
}

fn best_of(items: &[Item]) -> u64 {
    let pairs: Vec<_> = items.iter().map(|item| (item.size, item.alignment)).collect();
    brute_force(&pairs, &|a, b| items[a].lifetime.overlaps(items[b].lifetime))
}

/// Returns a closure that returns `false` after `count` calls.
fn calls(mut count: u32) -> impl FnMut() -> bool {
    move || {
        count = count.saturating_sub(1);
        count > 0
    }
}

fn plan_for(items: &[Item], limit: u32) -> AliasPlan {
    let mut go_on = calls(limit);
    plan(&Problem::new(items).unwrap(), |_| go_on())
}

fn item() -> impl Strategy<Value = Item> {
    (1..40_u64, 0..4_u32, 0..12_u64, 1..8_u64)
        .prop_map(|(size, log2, lower, length)| Item::new(size, lower, lower + length).aligned(1 << log2))
}

/// Generates sizes and alignments with a large common factor, as textures have.
fn texture() -> impl Strategy<Value = Item> {
    (1..12_u64, 0..2_u32, 0..8_u64, 1..6_u64).prop_map(|(size, log4, lower, length)| {
        Item::new(size << 16, lower, lower + length).aligned(65536 << (2 * log4))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    #[test]
    fn tiny_plans_are_the_best_there_are(items in prop::collection::vec(prop_oneof![item(), texture()], 0..7)) {
        let plan = plan_for(&items, 100_000);
        verify(&items, &plan.offsets, plan.height).unwrap();
        let best = if items.is_empty() { 0 } else { best_of(&items) };
        prop_assert_eq!(plan.height, best);
        prop_assert!(plan.is_proven());
        prop_assert!(plan.load <= plan.lower_bound && plan.lower_bound <= best);
        prop_assert_eq!(plan.gap(), 0);
    }

    #[test]
    fn a_bound_that_is_proven_early_is_no_lie(items in prop::collection::vec(texture(), 1..7), limit in 1..40_u32) {
        let plan = plan_for(&items, limit);
        verify(&items, &plan.offsets, plan.height).unwrap();
        let best = best_of(&items);
        prop_assert!(plan.lower_bound <= best && best <= plan.height);
    }

    #[test]
    fn middling_plans_hold_and_repeat(items in prop::collection::vec(prop_oneof![item(), texture()], 8..40)) {
        let plan = plan_for(&items, 20);
        verify(&items, &plan.offsets, plan.height).unwrap();
        prop_assert!(plan.lower_bound <= plan.height);
        for policy in [Policy::OnlineFirstFit, Policy::BySize] {
            let simple = plan_by(&Problem::new(&items).unwrap(), policy);
            verify(&items, &simple.offsets, simple.height).unwrap();
            prop_assert!(plan.lower_bound <= simple.height);
        }
        prop_assert_eq!(plan_for(&items, 20), plan);
    }

    #[test]
    fn plans_over_queues_are_the_best_there_are(
        edges in prop::collection::vec((0..7_usize, 0..7_usize), 0..12),
        items in prop::collection::vec((1..20_u64, 0..3_u32, prop::collection::vec(0..7_usize, 1..3)), 1..6),
    ) {
        let edges: Vec<_> = edges.into_iter().filter(|(a, b)| a != b).map(|(a, b)| (a.min(b), a.max(b))).collect();
        let graph = PassGraph::new(7, &edges).unwrap();
        let items: Vec<PassItem> = items
            .into_iter()
            .map(|(size, log2, passes)| PassItem { size, alignment: 1 << log2, passes })
            .collect();
        let before = reach(7, &edges);
        let over = |a: usize, b: usize| {
            items[a].passes.iter().all(|&first| items[b].passes.iter().all(|&second| before[first][second]))
        };
        let mut go_on = calls(100_000);
        let plan = plan(&Problem::with_passes(&graph, &items).unwrap(), |_| go_on());
        verify_passes(&graph, &items, &plan.offsets, plan.height).unwrap();
        let pairs: Vec<_> = items.iter().map(|item| (item.size, item.alignment)).collect();
        prop_assert_eq!(plan.height, brute_force(&pairs, &|a, b| !over(a, b) && !over(b, a)));
        prop_assert!(plan.is_proven());
    }

    #[test]
    fn one_queue_is_the_same_as_intervals(items in prop::collection::vec(item(), 1..7)) {
        let edges: Vec<_> = (1..30).map(|pass| (pass - 1, pass)).collect();
        let graph = PassGraph::new(30, &edges).unwrap();
        let on_passes = |item: &Item| {
            let passes = vec![item.lifetime.lower as usize, item.lifetime.upper as usize - 1];
            PassItem { size: item.size, alignment: item.alignment, passes }
        };
        let passes: Vec<PassItem> = items.iter().map(on_passes).collect();
        let mut go_on = calls(100_000);
        let over_passes = plan(&Problem::with_passes(&graph, &passes).unwrap(), |_| go_on());
        verify(&items, &over_passes.offsets, over_passes.height).unwrap();
        prop_assert_eq!(over_passes.height, best_of(&items));
        prop_assert_eq!(over_passes.load, Problem::new(&items).unwrap().load());
    }

    #[test]
    fn a_frame_is_planned_by_size_as_the_policy_does(items in prop::collection::vec(prop_oneof![item(), texture()], 0..30)) {
        let problem = Problem::new(&items).unwrap();
        let simple = plan_by(&problem, Policy::BySize);
        prop_assert_eq!(&ringfence_alias::plan(&problem, |_| false), &simple);
        let repaired = ringfence_alias::plan(&problem, |_| true);
        prop_assert!(repaired.height <= simple.height && repaired.height >= plan_for(&items, 20).lower_bound);
        verify(&items, &repaired.offsets, repaired.height).unwrap();
    }
}

fn reach(count: usize, edges: &[(usize, usize)]) -> Vec<Vec<bool>> {
    let mut before = vec![vec![false; count]; count];
    edges.iter().for_each(|&(a, b)| before[a][b] = true);
    for via in 0..count {
        for a in 0..count {
            for b in 0..count {
                before[a][b] |= before[a][via] && before[via][b];
            }
        }
    }
    before
}

fn generated(count: u64, moments: u64, length_max: u64, seed: u64) -> Vec<Item> {
    let mut state = seed;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut item = || {
        let lower = random(moments);
        Item::new(1 + random(1 << 20), lower, lower + 1 + random(length_max)).aligned(1 << random(9))
    };
    (0..count).map(|_| item()).collect()
}

#[test]
fn large_sets_are_planned() {
    for (count, moments, length, limit) in [(3_000, 1_000, 40, 3), (32_000, 32_000, 30, 1), (60_000, 60_000, 30, 2)] {
        let items = generated(count, moments, length, count);
        let plan = plan_for(&items, limit);
        verify(&items, &plan.offsets, plan.height).unwrap();
        assert!(plan.height < 2 * plan.lower_bound, "{count}: {} of {}", plan.height, plan.lower_bound);
    }
}

/// With too many items for the search, the search plans the fullest moments and the other items fit around them.
#[test]
fn thousands_are_planned_around_the_fullest_moments() {
    let loose = |item: Item| Item { alignment: 1, ..item };
    let items: Vec<Item> = generated(4_000, 4_000, 40, 9).into_iter().map(loose).collect();
    let [greedy, best, again] = [10, 3_000, 3_000].map(|limit| plan_for(&items, limit));
    verify(&items, &best.offsets, best.height).unwrap();
    assert!(best.is_proven() && !greedy.is_proven(), "{} of {}", best.height, best.lower_bound);
    assert_eq!(best, again, "the same calls give the same plan");
}

/// Very many short-lived items are proven, although local repair alone fails at one place in time.
#[test]
fn very_many_short_lived_items_are_proven() {
    for count in [81_000, 150_000] {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let item = |_| {
            let lower = random(count);
            Item::new(1 + random(1 << 20), lower, lower + 1 + random(40))
        };
        let items: Vec<Item> = (0..count).map(item).collect();
        let mut steps = 0;
        let plan = plan(&Problem::new(&items).unwrap(), |progress| {
            steps += progress.steps;
            steps < 3_000_000
        });
        verify(&items, &plan.offsets, plan.height).unwrap();
        assert!(plan.is_proven(), "{count} items: {} above {} after {steps} steps", plan.gap(), plan.load);
    }
}

/// Greedy plans of items on several queues are repaired locally.
#[test]
fn thousands_on_several_queues_are_repaired() {
    let passes = 400;
    let edges: Vec<_> =
        (2..passes).map(|pass| (pass - 2, pass)).chain((8..passes).map(|pass| (pass - 7, pass))).collect();
    let graph = PassGraph::new(passes, &edges).unwrap();
    let items: Vec<PassItem> = generated(1_600, passes as u64 - 12, 12, 4)
        .iter()
        .map(|item| PassItem {
            size: item.size,
            alignment: item.alignment,
            passes: vec![item.lifetime.lower as usize, item.lifetime.upper as usize - 1],
        })
        .collect();
    let problem = Problem::with_passes(&graph, &items).unwrap();
    let [greedy, repaired] = [16, 400].map(|limit| {
        let mut go_on = calls(limit);
        plan(&problem, |_| go_on())
    });
    verify_passes(&graph, &items, &repaired.offsets, repaired.height).unwrap();
    assert!(repaired.height < greedy.height, "{} {}", repaired.height, greedy.height);
}

#[test]
fn the_deepest_search_fits_the_stack_of_a_thread() {
    // Nearly all items are alive at once, and no greedy order reaches the bound: the search places 1,500 levels deep.
    let items = generated(1_500, 30, 28, 5);
    let mut asked = 0;
    let plan = plan(&Problem::new(&items).unwrap(), |progress| {
        assert!(progress.height >= progress.lower_bound);
        asked += 1;
        asked < 45
    });
    verify(&items, &plan.offsets, plan.height).unwrap();
    assert!(asked > 30, "the search was at work");
}

#[test]
fn a_set_that_no_greedy_order_packs_is_packed() {
    // Two towers that only fit together if the short items are divided correctly between them.
    let items: Vec<Item> = [(4, 0, 3), (3, 0, 2), (5, 2, 5), (2, 3, 6), (3, 3, 4), (4, 4, 7), (4, 5, 7), (2, 2, 3)]
        .iter()
        .map(|&(size, lower, upper)| Item::new(size, lower, upper))
        .collect();
    let plan = plan_for(&items, 10_000);
    verify(&items, &plan.offsets, plan.height).unwrap();
    assert!(plan.is_proven());
}

/// Places each item in the given order in the lowest gap, or the tightest one. The code is independent of the planner.
fn greedy_height(items: &[Item], order: &[usize], is_best_fit: bool) -> u64 {
    let mut placed: Vec<(u64, u64, Lifetime)> = Vec::new();
    for &at in order {
        let Item { size, alignment, lifetime, .. } = items[at];
        let (mut floor, mut found) = (0_u64, None::<(u64, u64)>);
        for &(offset, end, _) in placed.iter().filter(|other| other.2.overlaps(lifetime)) {
            let start = floor.next_multiple_of(alignment);
            let left = offset.checked_sub(floor + size).filter(|_| start + size <= offset);
            if let Some(left) = left.filter(|&left| found.is_none_or(|(least, _)| is_best_fit && left < least)) {
                found = Some((left, start));
            }
            floor = floor.max(end);
        }
        let offset = found.map_or(floor.next_multiple_of(alignment), |(_, start)| start);
        let place = placed.partition_point(|other| other.0 < offset);
        placed.insert(place, (offset, offset + size, lifetime));
    }
    placed.iter().map(|placed| placed.1).max().unwrap_or(0)
}

#[test]
fn thousands_of_long_lived_items_are_planned_no_worse_than_by_any_known_order() {
    for seed in 1..4 {
        let mut items = generated(1_700, 900, 4, seed);
        // One in six items has a long lifetime.
        items.iter_mut().step_by(6).for_each(|item| item.lifetime.upper += 400 * (1 + item.size % 2));
        let length = |at: usize| items[at].lifetime.upper - items[at].lifetime.lower;
        let size = |at: usize| items[at].size;
        let sorted = |key: &dyn Fn(usize) -> (u64, u64, u64)| {
            let mut order: Vec<usize> = (0..items.len()).collect();
            order.sort_by_key(|&at| key(at));
            order
        };
        let orders = [
            sorted(&|at| (u64::MAX - size(at), u64::MAX - length(at), 0)),
            sorted(&|at| (u64::MAX - length(at), u64::MAX - size(at), 0)),
            sorted(&|at| (u64::MAX - size(at) * length(at), u64::MAX - size(at), 0)),
            sorted(&|at| (items[at].lifetime.lower, u64::MAX - length(at), u64::MAX - size(at))),
        ];
        let anchors = orders.iter().flat_map(|order| [false, true].map(|fit| greedy_height(&items, order, fit)));
        let anchor = anchors.min().unwrap();
        let (mut steps, mut height) = (0, u64::MAX);
        let found = plan(&Problem::new(&items).unwrap(), |progress| {
            assert!(progress.height <= height, "no plan is given up for a higher one");
            height = progress.height;
            steps += progress.steps;
            steps < 60_000
        });
        verify(&items, &found.offsets, found.height).unwrap();
        assert!(found.height <= anchor, "{} rather than {anchor}", found.height);
    }
}

#[test]
fn a_frame_of_forty_with_two_alignments_keeps_its_bound_and_its_plan() {
    for seed in 1..30 {
        let mut items = generated(40, 30, 9, seed);
        for (at, item) in items.iter_mut().enumerate() {
            item.alignment = if at % 3 == 0 { 4 << 20 } else { 64 << 10 };
            item.size = (item.size << 16).next_multiple_of(64 << 10);
        }
        let bound = Problem::new(&items).unwrap().lower_bound();
        let found = plan_for(&items, 40);
        verify(&items, &found.offsets, found.height).unwrap();
        assert!(bound <= found.lower_bound && found.lower_bound <= found.height);
        // A plan that is found later is not lower than the proven bound.
        assert!(found.lower_bound <= plan_for(&items, 400).height);
    }
}

#[test]
fn small_frames_of_two_alignments_are_proven() {
    for seed in 1..25 {
        let mut items = generated(20, 24, 8, seed);
        for (at, item) in items.iter_mut().enumerate() {
            item.alignment = if at % 3 == 0 { 4 << 20 } else { 64 << 10 };
            item.size = ((item.size % 200) << 16).max(1 << 16);
        }
        let mut steps = 0;
        let found = plan(&Problem::new(&items).unwrap(), |progress| {
            steps += progress.steps;
            steps < 100_000
        });
        verify(&items, &found.offsets, found.height).unwrap();
        assert!(found.is_proven(), "seed {seed}: {} of {}", found.height, found.lower_bound);
    }
}

#[test]
fn greed_that_keeps_may_find_nothing_where_there_is_a_plan() {
    let items = [Item::new(5, 0, 1), Item::new(2, 0, 3), Item::new(2, 1, 2), Item::new(4, 1, 2)];
    let problem = Problem::new(&items).unwrap();
    assert_eq!((plan_keeping(&problem, &[None; 4], 8), plan(&problem, |_| true).height), (None, 8));
}

/// Returns one item per lifetime, with the offset of its recurring item.
fn by_lifetime(items: &[RecurringItem], offsets: &[u64]) -> (Vec<Item>, Vec<u64>) {
    let each = items.iter().zip(offsets).flat_map(|(item, &offset)| {
        item.lifetimes
            .iter()
            .map(move |life| (Item::new(item.size, life.lower, life.upper).aligned(item.alignment), offset))
    });
    each.unzip()
}

#[test]
fn items_alive_several_times_are_lowered_and_kept_without_an_overlap() {
    let mut lowered = 0;
    for seed in 0..3_000_u64 {
        let mut drawn = generated(9 * 3, 12, 6, seed).into_iter();
        let mut lives = |many: u64| {
            let mut lives: Vec<Lifetime> = Vec::new();
            for life in drawn.by_ref().take(many as usize).map(|item| item.lifetime) {
                // The checker treats each lifetime as an item of its own.
                if !lives.iter().any(|other| other.overlaps(life)) {
                    lives.push(life);
                }
            }
            lives
        };
        let item = |place: u64| RecurringItem {
            size: 1 + (seed + 7 * place) % 20,
            alignment: 1 << (place % 3),
            lifetimes: lives(1 + (seed + place) % 3),
        };
        let items: Vec<RecurringItem> = (0..2 + seed % 8).map(item).collect();
        let problem = RecurringItem::problem(&items).unwrap();
        let mut go_on = calls(3);
        let before = plan(&problem, |_| go_on());
        let mut after = before.clone();
        let left = lower_transitions(&problem, &mut after, |_| true, |_| true);
        let (alive, offsets) = by_lifetime(&items, &after.offsets);
        verify(&alive, &offsets, before.height).unwrap_or_else(|error| panic!("seed {seed}, {left} left: {error}"));
        lowered += u32::from(after != before);
        let last: Vec<_> = (0..).zip(&before.offsets).map(|(at, &held)| (at % 4 != seed % 4).then_some(held)).collect();
        if let Some(kept) = plan_keeping(&problem, &last, u64::MAX) {
            let (alive, offsets) = by_lifetime(&items, &kept.plan.offsets);
            verify(&alive, &offsets, kept.plan.height).unwrap();
        }
    }
    assert!(lowered > 1_000, "{lowered}");
}

#[test]
fn of_many_items_alive_several_times_the_first_plan_is_not_a_greedy_one() {
    let again = |life: Lifetime| Lifetime { lower: life.lower + 20_000, upper: life.upper + 20_000 };
    let items: Vec<RecurringItem> = generated(10_000, 10_000, 20, 4)
        .into_iter()
        .map(|item| RecurringItem {
            size: item.size,
            alignment: item.alignment,
            lifetimes: vec![item.lifetime, again(item.lifetime)],
        })
        .collect();
    let problem = RecurringItem::problem(&items).unwrap();
    let started = Instant::now();
    let first = plan(&problem, |_| false);
    let took = started.elapsed();
    let (alive, offsets) = by_lifetime(&items, &first.offsets);
    verify(&alive, &offsets, first.height).unwrap();
    assert!(first.height < 2 * first.lower_bound, "{} of {}", first.height, first.lower_bound);
    let started = Instant::now();
    let _ = plan_by(&problem, Policy::BySize);
    assert!(4 * took < started.elapsed(), "{took:?}, by size {:?}", started.elapsed());
    // Repair comes first, and calls the closure.
    let mut steps = 0;
    let better = plan(&problem, |progress| {
        steps += progress.steps;
        steps < 100_000
    });
    assert!(better.height < first.height && steps < 150_000, "{steps}, {} of {}", better.height, first.height);
}

#[test]
fn tables_of_gigabytes_are_refused_and_say_their_bytes() {
    // A matrix of 93,000 rows, and lists of 30,000 items with 15,000 alive at once.
    let held = |count: u64, length: u64| -> Vec<RecurringItem> {
        let one =
            |lower| RecurringItem { size: 1, alignment: 1, lifetimes: vec![Lifetime { lower, upper: lower + length }] };
        (0..count).map(one).collect()
    };
    for (items, length) in [(93_000, 1), (30_000, 15_000)] {
        let refused = RecurringItem::problem(&held(items, length)).expect_err("it would take gigabytes");
        let is_so = matches!(refused, ItemError::RelationTooLarge { count, bytes, bytes_max }
            if count as u64 == items && bytes > bytes_max && bytes_max == 1 << 30);
        assert!(is_so, "{refused}");
    }
}
