//! Tests of plans: bounds against the optimum by brute force, the checkers against all pairs, partial orders against
//! the definition, and the promises of each function.

use proptest::prelude::*;
use ringfence_alias::{
    AliasPlan, Item, ItemError, Lifetime, PassError, PassGraph, PassItem, PassUse, Problem, Transition, Violation,
    lower_transitions, pass_edges, plan, plan_keeping, suggest_order, transitions, verify, verify_passes,
};
use ringfence_core::range::align_up;
use ringfence_core::testing::cases;

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

/// Counts the transitions over several queues byte by byte, from the last item that had the byte before.
fn transitions_of_queues(graph: &PassGraph, items: &[PassItem], offsets: &[u64]) -> usize {
    let over = |a: usize, b: usize| {
        let pass_is_before = |&p: &usize| items[b].passes.iter().all(|&q| graph.is_before(p, q));
        items[a].passes.iter().all(pass_is_before)
    };
    let mut pairs = std::collections::BTreeSet::new();
    for byte in 0..items.iter().zip(offsets).map(|(item, offset)| item.size + offset).max().unwrap_or(0) {
        let tenants: Vec<usize> =
            (0..items.len()).filter(|&i| (offsets[i]..offsets[i] + items[i].size).contains(&byte)).collect();
        for &a in &tenants {
            let after = || tenants.iter().copied().filter(move |&b| over(a, b));
            pairs.extend(after().filter(|&b| !after().any(|c| over(c, b))).map(|b| (a, b)));
        }
    }
    pairs.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    #[test]
    fn no_tiny_plan_is_below_the_best_there_is(items in prop::collection::vec(prop_oneof![item(), texture()], 0..7)) {
        let plan = plan_for(&items, 100);
        verify(&items, &plan.offsets, plan.height).unwrap();
        let best = if items.is_empty() { 0 } else { best_of(&items) };
        prop_assert!(plan.load <= plan.lower_bound && plan.lower_bound <= best && best <= plan.height);
        prop_assert_eq!(plan.gap() == 0, plan.is_proven());
    }

    #[test]
    fn plans_hold_repeat_and_end(items in prop::collection::vec(prop_oneof![item(), texture()], 8..40)) {
        let problem = Problem::new(&items).unwrap();
        let mut last = u64::MAX;
        for limit in [1, 2, 5, 20, u32::MAX] {
            let plan = plan_for(&items, limit);
            verify(&items, &plan.offsets, plan.height).unwrap();
            if limit == 20 {
                prop_assert_eq!(&plan, &plan_for(&items, limit), "the same answers, the same plan");
            }
            prop_assert!(plan.height <= last, "more work is never worse");
            last = plan.height;
        }
        let mut shown = u64::MAX;
        let mut is_stopped = false;
        let plan = plan(&problem, |progress| {
            assert!(progress.height <= shown && !is_stopped);
            shown = progress.height;
            is_stopped = progress.height < last + (last - problem.lower_bound()) / 2;
            !is_stopped
        });
        prop_assert!(plan.height <= shown);
    }

    #[test]
    fn plans_over_queues_are_not_below_the_best_there_is(
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
        let plan = plan(&Problem::with_passes(&graph, &items).unwrap(), |_| true);
        verify_passes(&graph, &items, &plan.offsets, plan.height).unwrap();
        let pairs: Vec<_> = items.iter().map(|item| (item.size, item.alignment)).collect();
        let best = brute_force(&pairs, &|a, b| !over(a, b) && !over(b, a));
        prop_assert!(plan.lower_bound <= best && best <= plan.height);
    }

    #[test]
    fn the_checker_agrees_with_every_pair(
        items in prop::collection::vec((item(), 0..60_u64), 0..12),
        capacity in 0..100_u64,
    ) {
        let (items, offsets): (Vec<Item>, Vec<u64>) = items.into_iter().unzip();
        let end = |index: usize| offsets[index] + items[index].size;
        let fits = |index: usize| offsets[index] % items[index].alignment == 0 && end(index) <= capacity;
        let places = (0..items.len()).all(fits);
        let apart = |a: usize, b: usize| {
            end(a) <= offsets[b] || end(b) <= offsets[a] || !items[a].lifetime.overlaps(items[b].lifetime)
        };
        let all_apart = (0..items.len()).all(|a| (0..a).all(|b| apart(a, b)));
        let verdict = verify(&items, &offsets, capacity);
        prop_assert_eq!(verdict.is_ok(), places && all_apart, "{:?}", verdict);
        if let Err(Violation::Overlap { first, second }) = verdict {
            prop_assert!(first < second && !apart(first, second));
        }
    }

    #[test]
    fn the_checker_of_queues_agrees_with_every_pair(
        edges in prop::collection::vec((0..6_usize, 0..6_usize), 0..10),
        items in prop::collection::vec((1..9_u64, prop::collection::vec(0..6_usize, 1..3), 0..20_u64), 1..8),
    ) {
        let edges: Vec<_> = edges.into_iter().filter(|(a, b)| a < b).collect();
        let graph = PassGraph::new(6, &edges).unwrap();
        let before = reach(6, &edges);
        let offsets: Vec<u64> = items.iter().map(|item| item.2).collect();
        let items: Vec<PassItem> =
            items.into_iter().map(|(size, passes, _)| PassItem { size, alignment: 1, passes }).collect();
        let over = |a: &PassItem, b: &PassItem| a.passes.iter().all(|&p| b.passes.iter().all(|&q| before[p][q]));
        let fine = (0..items.len()).all(|a| (0..a).all(|b| {
            let apart = offsets[a] + items[a].size <= offsets[b] || offsets[b] + items[b].size <= offsets[a];
            apart || over(&items[a], &items[b]) || over(&items[b], &items[a])
        }));
        prop_assert_eq!(verify_passes(&graph, &items, &offsets, 100).is_ok(), fine);
    }

    #[test]
    fn transitions_are_those_of_single_bytes(items in prop::collection::vec(item(), 1..12)) {
        let mut plan = plan_for(&items, 20);
        let found = transitions(&items, &plan.offsets);
        prop_assert_eq!(&found, &transitions_by_byte(&items, &plan));
        let height = plan.height;
        let problem = Problem::new(&items).unwrap();
        let (unmoved, lower_bound) = (plan.clone(), plan.lower_bound);
        prop_assert_eq!(lower_transitions(&problem, &mut plan, |_| false, |_| true), found.len());
        prop_assert_eq!(&plan, &unmoved);
        let left = lower_transitions(&problem, &mut plan, |_| true, |_| true);
        prop_assert!(left <= found.len() && (plan.height, plan.lower_bound) == (height, lower_bound));
        prop_assert_eq!(transitions(&items, &plan.offsets).len(), left);
        verify(&items, &plan.offsets, height).unwrap();
    }

    #[test]
    fn lowering_stops_where_it_must_and_moves_only_what_may_move(
        items in prop::collection::vec(item(), 2..14), asked in 1..8_u32, fixed in 0..14_usize,
    ) {
        let before = plan_for(&items, 20);
        let problem = Problem::new(&items).unwrap();
        let lowered = |asked: u32| {
            let (mut plan, mut left) = (before.clone(), asked);
            let may_move = |item: usize| item != fixed % items.len();
            let count = lower_transitions(&problem, &mut plan, may_move, |progress| {
                assert!(progress.steps > 0);
                left -= 1;
                left > 0
            });
            (plan, count)
        };
        let (plan, count) = lowered(asked);
        verify(&items, &plan.offsets, before.height).unwrap();
        prop_assert_eq!(transitions(&items, &plan.offsets).len(), count);
        prop_assert_eq!(plan.offsets[fixed % items.len()], before.offsets[fixed % items.len()]);
        prop_assert_eq!(&lowered(asked), &(plan, count), "the same answers, the same plan");
        prop_assert!(lowered(asked + 1).1 <= count, "more work never leaves more transitions");
    }

    #[test]
    fn over_several_queues_too_lowering_leaves_a_plan_with_fewer_transitions(
        edges in prop::collection::vec((0..8_usize, 0..8_usize), 4..20),
        items in prop::collection::vec((1..9_u64, 0..3_u32, prop::collection::vec(0..8_usize, 1..3)), 1..12),
    ) {
        let edges: Vec<_> = edges.into_iter().filter(|(a, b)| a < b).collect();
        let graph = PassGraph::new(8, &edges).unwrap();
        let items: Vec<PassItem> =
            items.into_iter().map(|(size, log, passes)| PassItem { size, alignment: 1 << log, passes }).collect();
        let problem = Problem::with_passes(&graph, &items).unwrap();
        let mut go_on = calls(20);
        let mut lowered = plan(&problem, |_| go_on());
        let (before, height) = (transitions_of_queues(&graph, &items, &lowered.offsets), lowered.height);
        let left = lower_transitions(&problem, &mut lowered, |_| true, |_| true);
        verify_passes(&graph, &items, &lowered.offsets, height).unwrap();
        prop_assert!(left <= before);
        prop_assert_eq!(transitions_of_queues(&graph, &items, &lowered.offsets), left);
    }

    #[test]
    fn what_lay_well_stays(items in prop::collection::vec(item(), 2..20), gone in 0..20_usize) {
        let before = plan_for(&items, 20);
        let stays = |i: usize| i != gone % items.len();
        let rest: Vec<Item> = items.iter().enumerate().filter(|&(i, _)| stays(i)).map(|(_, &it)| it).collect();
        let last: Vec<Option<u64>> =
            before.offsets.iter().enumerate().filter(|&(i, _)| stays(i)).map(|(_, &o)| Some(o)).collect();
        let problem = Problem::new(&rest).unwrap();
        let kept = plan_keeping(&problem, &last, before.height).unwrap();
        verify(&rest, &kept.plan.offsets, before.height).unwrap();
        prop_assert!(kept.kept.iter().all(|&kept| kept));
        prop_assert_eq!(plan_keeping(&problem, &last, problem.load() - 1), None);
        let moved = plan_keeping(&problem, &vec![None; rest.len()], u64::MAX).unwrap();
        prop_assert!(moved.kept.iter().all(|&kept| !kept));
        verify(&rest, &moved.plan.offsets, moved.plan.height).unwrap();
    }

    #[test]
    fn a_suggested_order_is_allowed_and_no_worse(
        edges in prop::collection::vec((0..8_usize, 0..8_usize), 0..10),
        items in prop::collection::vec((1..50_u64, prop::collection::vec(0..8_usize, 1..4)), 1..8),
    ) {
        let edges: Vec<_> = edges.into_iter().filter(|(a, b)| a < b).collect();
        let graph = PassGraph::new(8, &edges).unwrap();
        let items: Vec<PassItem> =
            items.into_iter().map(|(size, passes)| PassItem { size, alignment: 1, passes }).collect();
        let given: Vec<usize> = (0..8).collect();
        let advice = suggest_order(&graph, &items, &given, |_| true);
        let mut sorted = advice.order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(&sorted, &given);
        let place = |pass: usize| advice.order.iter().position(|&other| other == pass).unwrap();
        prop_assert!(edges.iter().all(|&(a, b)| place(a) < place(b)));
        prop_assert_eq!(advice.load_before, load_in(&items, &given));
        prop_assert_eq!(advice.load_after, load_in(&items, &advice.order));
        prop_assert!(advice.load_after <= advice.load_before && advice.saving() <= advice.load_before);
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

fn load_in(items: &[PassItem], order: &[usize]) -> u64 {
    let place = |pass: usize| order.iter().position(|&other| other == pass).unwrap();
    let alive = |item: &PassItem, at: usize| {
        let places = || item.passes.iter().map(|&pass| place(pass));
        places().min().unwrap() <= at && at <= places().max().unwrap()
    };
    let load = |at: usize| items.iter().filter(|item| alive(item, at)).map(|item| item.size).sum();
    (0..order.len()).map(load).max().unwrap_or(0)
}

fn transitions_by_byte(items: &[Item], plan: &AliasPlan) -> Vec<Transition> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&index| (items[index].lifetime.lower, index));
    let mut owner = vec![None; plan.height as usize];
    let mut found = Vec::new();
    for after in order {
        let bytes = plan.offsets[after] as usize..(plan.offsets[after] + items[after].size) as usize;
        let mut before: Vec<usize> = owner[bytes.clone()].iter().flatten().copied().collect();
        before.sort_unstable();
        before.dedup();
        found.extend(before.into_iter().map(|before| Transition { before, after }));
        owner[bytes].fill(Some(after));
    }
    found
}

#[test]
fn bad_items_are_named() {
    let good = Item::new(4, 0, 1);
    let check = |bad: Item| Problem::new(&[good, bad]).unwrap_err();
    assert_eq!(check(Item::new(0, 0, 1)), ItemError::ZeroSize { index: 1 });
    let lifetime = Lifetime { lower: 3, upper: 3 };
    assert_eq!(check(Item::new(1, 3, 3)), ItemError::EmptyLifetime { index: 1, lifetime });
    assert_eq!(check(good.aligned(0)), ItemError::BadAlignment { index: 1, alignment: 0 });
    assert_eq!(check(good.aligned(48)), ItemError::BadAlignment { index: 1, alignment: 48 });
    assert_eq!(check(Item::new(u64::MAX, 0, 1)), ItemError::Overflow { index: 1 });
    assert_eq!(check(good.aligned(1 << 63)), ItemError::Overflow { index: 1 });
    assert_eq!(verify(&[Item::new(0, 0, 1)], &[0], 9), Err(Violation::Item(ItemError::ZeroSize { index: 0 })));
    assert!(check(Item::new(1, 3, 2)).to_string().contains("upper must be above lower"));
}

#[test]
fn bad_passes_are_named() {
    assert_eq!(PassGraph::new(2, &[(0, 2)]).unwrap_err(), PassError::UnknownPass { pass: 2 });
    assert_eq!(PassGraph::new(3, &[(0, 1), (1, 2), (2, 1)]).unwrap_err(), PassError::Cycle { pass: 1 });
    let graph = PassGraph::new(2, &[(0, 1)]).unwrap();
    let check = |passes: Vec<usize>| Problem::with_passes(&graph, &[PassItem { size: 1, alignment: 1, passes }]);
    assert_eq!(check(vec![]).unwrap_err(), ItemError::Unused { index: 0 });
    assert_eq!(check(vec![5]).unwrap_err(), ItemError::UnknownPass { index: 0, pass: 5 });
    assert!(graph.is_before(0, 1) && !graph.is_before(1, 0) && !graph.is_before(0, 0));
}

#[test]
fn wrong_plans_are_named() {
    let items = [Item::new(4, 0, 2).aligned(4), Item::new(4, 1, 3)];
    assert_eq!(verify(&items, &[0], 8), Err(Violation::Count { items: 2, offsets: 1 }));
    let misaligned = Violation::Misaligned { index: 0, offset: 2, alignment: 4 };
    assert_eq!(verify(&items, &[2, 6], 10), Err(misaligned));
    let beyond = Violation::BeyondCapacity { index: 1, offset: 6, size: 4, capacity: 8 };
    assert_eq!(verify(&items, &[0, 6], 8), Err(beyond));
    let overflowing = verify(&items, &[0, u64::MAX - 1], u64::MAX);
    assert!(matches!(overflowing, Err(Violation::BeyondCapacity { index: 1, .. })));
    assert_eq!(verify(&items, &[0, 3], 8), Err(Violation::Overlap { first: 0, second: 1 }));
    assert_eq!(verify(&items, &[0, 4], 8), Ok(()));
}

#[test]
fn nothing_to_plan_is_a_plan() {
    let plan = plan_for(&[], 10);
    assert_eq!((plan.height, plan.lower_bound, plan.is_proven()), (0, 0, true));
    assert!(transitions(&[], &[]).is_empty());
    let graph = PassGraph::new(0, &[]).unwrap();
    assert!(Problem::with_passes(&graph, &[]).unwrap().is_empty());
    assert_eq!(suggest_order(&graph, &[], &[], |_| true).saving(), 0);
}

#[test]
fn alignment_that_all_share_raises_the_bound() {
    let items = [Item::new(5, 0, 1).aligned(8), Item::new(6, 0, 1).aligned(8), Item::new(7, 0, 1).aligned(16)];
    let plan = plan_for(&items, 1_000);
    assert_eq!((plan.load, plan.height), (18, 21));
    assert!(plan.is_proven());
}

#[test]
fn readers_wait_for_the_writer_and_the_next_writer_for_all_of_them() {
    let mut uses =
        [(4, true), (2, false), (3, false), (1, false), (5, false)].map(|(pass, writes)| PassUse { pass, writes });
    for _ in 0..2 {
        let mut edges = pass_edges(&uses);
        edges.sort_unstable();
        assert_eq!(edges, [(1, 2), (1, 3), (1, 4), (2, 4), (3, 4), (4, 5)]);
        uses.reverse();
    }
    assert!(pass_edges(&[PassUse::write(7)]).is_empty());
    assert_eq!(pass_edges(&[PassUse::read(1), PassUse::write(1), PassUse::read(2)]).last(), Some(&(1, 2)));
}

#[test]
fn a_pass_that_can_wait_is_moved() {
    // Pass 0 writes for pass 3, pass 1 for pass 2: interleaved, both items are alive together; one after the other,
    // they are not.
    let graph = PassGraph::new(4, &[(0, 3), (1, 2)]).unwrap();
    let uses = |passes: [usize; 2]| PassItem { size: 100, alignment: 1, passes: passes.to_vec() };
    let advice = suggest_order(&graph, &[uses([0, 3]), uses([1, 2])], &[0, 1, 2, 3], |_| true);
    assert_eq!((advice.load_before, advice.load_after, advice.saving()), (200, 100, 100));
    let stopped = suggest_order(&graph, &[], &[0, 1, 2, 3], |_| false);
    assert_eq!(stopped.order, [0, 1, 2, 3]);
    let mut calls = 0;
    let _ = suggest_order(&graph, &[], &[0, 1, 2, 3], |_| {
        calls += 1;
        false
    });
    assert_eq!(calls, 1, "it was stopped");
}

#[test]
fn tables_of_gigabytes_are_refused_and_say_their_bytes() {
    let bytes_max = 1 << 30;
    for (count, bytes) in [(1 << 20, 1 << 37), (1 << 40, u64::MAX), (92_700, 1_074_578_400)] {
        let refused = PassGraph::new(count, &[]).expect_err("the table would be too large");
        let PassError::TooMany { count: named, bytes: needed, bytes_max: most } = refused else { panic!("{refused}") };
        assert_eq!((named, most), (count, bytes_max));
        assert!(needed >= bytes && needed <= bytes.saturating_add(bytes / 100), "{refused}");
    }
    // Two matrices of 66,000 rows.
    let graph = PassGraph::new(1, &[]).unwrap();
    let used = vec![PassItem { size: 1, alignment: 1, passes: vec![0] }; 66_000];
    let refused = Problem::with_passes(&graph, &used).expect_err("it would take gigabytes");
    let is_so = matches!(refused, ItemError::RelationTooLarge { count: 66_000, bytes, bytes_max: most }
        if bytes > most && most == bytes_max);
    assert!(is_so, "{refused}");
}

#[test]
fn transitions_of_too_many_columns_stay_as_they_are() {
    // A staircase: each item spans 10,000 columns.
    let items: Vec<Item> = (0..10_000).map(|at| Item::new(10_000, at, at + 1)).collect();
    let problem = Problem::new(&items).unwrap();
    let offsets: Vec<u64> = (0..10_000).collect();
    let mut plan = AliasPlan { offsets: offsets.clone(), height: 20_000, load: problem.load(), lower_bound: 10_000 };
    let mut calls = 0;
    let left = lower_transitions(
        &problem,
        &mut plan,
        |_| true,
        |_| {
            calls += 1;
            true
        },
    );
    assert_eq!((left, calls), (transitions(&items, &offsets).len(), 0));
    assert_eq!(plan.offsets, offsets);
}

#[test]
fn copy_queues_overlap_unless_they_are_ordered() {
    // Two queues: 0 → 1 and 2 → 3. With a sync point from 1 to 2, all passes are ordered.
    let item = |passes: [usize; 2]| PassItem { size: 64, alignment: 1, passes: passes.to_vec() };
    let items = [item([0, 1]), item([2, 3])];
    let height = |edges: &[(usize, usize)]| {
        let graph = PassGraph::new(4, edges).unwrap();
        plan(&Problem::with_passes(&graph, &items).unwrap(), |_| true).height
    };
    assert_eq!(height(&[(0, 1), (2, 3)]), 128);
    assert_eq!(height(&[(0, 1), (2, 3), (1, 2)]), 64);
    assert_eq!(height(&[(0, 1), (2, 3), (0, 2)]), 128);
}

#[test]
fn an_item_that_is_put_again_where_it_lay_is_kept() {
    let items = [Item::new(2, 0, 2), Item::new(2, 1, 2)];
    // The first item cannot stay. Both are placed anew, and the second gets its old offset.
    let again = plan_keeping(&Problem::new(&items).unwrap(), &[Some(1), Some(2)], 4).unwrap();
    assert_eq!((again.plan.offsets, again.kept), (vec![0, 2], vec![false, true]));
}

#[test]
fn what_lay_at_the_end_of_64_bits_is_kept_or_put_elsewhere() {
    let mut items = vec![Item::new((1 << 62) - 100, 0, 1)];
    items.extend((1..8).map(|_| Item::new(1, 0, 1)));
    items.push(Item::new(4, 0, 1));
    let mut last = vec![None];
    last.extend((1..8).map(|place| Some(place << 61)));
    last.push(Some(u64::MAX - 4));
    let aligned = [Item::new(10, 0, 1), Item::new(5, 0, 1).aligned(4096)];
    let at_the_end = [Some(0), Some(u64::MAX - 4095)];
    let low = [Some((1 << 63) - 11), None];
    for (items, last) in [(&items[..], &last[..]), (&aligned, &at_the_end), (&aligned, &low)] {
        let again = plan_keeping(&Problem::new(items).unwrap(), last, u64::MAX).unwrap();
        verify(items, &again.plan.offsets, again.plan.height).unwrap();
        assert!(again.kept.iter().any(|&kept| kept) && again.plan.height < 1 << 63, "{again:?}");
    }
}

#[test]
#[should_panic(expected = "the item ends below 2^64")]
fn transitions_of_offsets_beyond_64_bits_panic() {
    let _ = transitions(&[Item::new(2, 0, 1)], &[u64::MAX]);
}

#[test]
fn making_columns_counts_as_steps_and_is_stopped() {
    // Each large item has 400 columns, because 400 adjacent items are alive before them.
    let items: Vec<Item> =
        (0..400).flat_map(|place| [Item::new(1 << 20, place + 1, place + 2), Item::new(1_000 + place, 0, 1)]).collect();
    let problem = Problem::new(&items).unwrap();
    let before = plan(&problem, |_| false);
    let found = transitions(&items, &before.offsets).len();
    let lowered = |most: u32| {
        let (mut plan, mut asked, mut steps) = (before.clone(), 0, 0);
        let left = lower_transitions(
            &problem,
            &mut plan,
            |item| item == 0,
            |progress| {
                asked += 1;
                steps += progress.steps;
                assert!(progress.transitions <= found && progress.steps < 1 << 16, "{progress:?}");
                asked < most
            },
        );
        verify(&items, &plan.offsets, before.height).unwrap();
        assert_eq!(transitions(&items, &plan.offsets).len(), left);
        (asked, steps)
    };
    assert_eq!(lowered(1).0, 1);
    assert!(lowered(u32::MAX).1 >= 400 * 400, "{:?}", lowered(u32::MAX));
}
