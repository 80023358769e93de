//! Plans for several heaps, with pins, preferences and pages, compared with all plans of few items.

use proptest::prelude::*;
use ringfence_planner::{
    Heap, HeapError, HeapItem, HeapOffset, HeapProblem, HeapViolation, Item, plan_heaps, replan_heaps, verify_heaps,
};

/// Returns `true` if two items in the same heap may have these offsets, by comparing every unit.
fn is_apart(page: u64, one: (&HeapItem, HeapOffset), other: (&HeapItem, HeapOffset)) -> bool {
    let alive = |held: &HeapItem, moment: u64| (held.item.lifetime.lower..held.item.lifetime.upper).contains(&moment);
    let both = (0..64).any(|moment| alive(one.0, moment) && alive(other.0, moment));
    let page = if one.0.kind == other.0.kind { 1 } else { page };
    let units = |(held, at): (&HeapItem, HeapOffset)| {
        (at.offset..at.offset + held.item.size).map(|unit| unit / page).collect::<Vec<_>>()
    };
    let (one_units, other_units) = (units(one), units(other));
    !both || one.1.heap != other.1.heap || !one_units.iter().any(|unit| other_units.contains(unit))
}

/// Returns `true` if the location is valid for the item alone.
fn may_lie(heaps: &[Heap], held: &HeapItem, at: HeapOffset) -> bool {
    let Some(heap) = heaps.get(at.heap) else { return false };
    let listed = held.pinned.map_or_else(|| held.classes.contains(&heap.class), |pin| pin == at);
    let aligned = at.offset.is_multiple_of(held.item.alignment) && held.item.alignment <= heap.alignment;
    listed && aligned && at.offset + held.item.size <= heap.capacity
}

fn is_plan(heaps: &[Heap], items: &[HeapItem], offsets: &[HeapOffset]) -> bool {
    let each = items.iter().zip(offsets).all(|(held, &at)| may_lie(heaps, held, at));
    each && (0..items.len()).all(|one| {
        (0..one).all(|other| {
            let page = heaps[offsets[one].heap].granularity;
            is_apart(page, (&items[one], offsets[one]), (&items[other], offsets[other]))
        })
    })
}

/// Returns the fallback bytes, and the sum of the heaps' heights.
fn cost(heaps: &[Heap], items: &[HeapItem], offsets: &[HeapOffset]) -> (u128, u64) {
    let mut heights = vec![0; heaps.len()];
    let mut fallback = 0;
    for (held, at) in items.iter().zip(offsets) {
        heights[at.heap] = at.offset.saturating_add(held.item.size).max(heights[at.heap]);
        let rank = held.classes.iter().position(|class| *class == heaps[at.heap].class).unwrap_or(0);
        fallback += u128::from(held.item.size) * if held.pinned.is_some() { 0 } else { rank as u128 };
    }
    (fallback, heights.iter().sum())
}

/// Returns the least cost of all plans, by trying every location for each item.
fn best(heaps: &[Heap], items: &[HeapItem], offsets: &mut Vec<HeapOffset>) -> Option<(u128, u64)> {
    let place = offsets.len();
    if place == items.len() {
        return Some(cost(heaps, items, offsets));
    }
    let mut least = None;
    for heap in 0..heaps.len() {
        for offset in 0..heaps[heap].capacity {
            let at = HeapOffset { heap, offset };
            offsets.push(at);
            if is_plan(heaps, &items[..=place], offsets) {
                least = [least, best(heaps, items, offsets)].into_iter().flatten().min();
            }
            offsets.pop();
        }
    }
    least
}

fn heap() -> impl Strategy<Value = Heap> {
    (0..2_u32, 1..11_u64, 0..3_u32, 0..3_u32).prop_map(|(class, capacity, alignment, granularity)| Heap {
        class,
        capacity,
        alignment: 1 << alignment,
        granularity: 1 << granularity,
    })
}

fn item() -> impl Strategy<Value = HeapItem> {
    let pinned = prop::option::weighted(0.2, (0..2_usize, 0..6_u64));
    let classes = prop::sample::select(vec![vec![0], vec![1], vec![0, 1], vec![1, 0], vec![0, 0, 1]]);
    (1..6_u64, 0..3_u32, 0..5_u64, 1..5_u64, 0..2_u32, classes, pinned).prop_map(
        |(size, alignment, lower, length, kind, classes, pinned)| HeapItem {
            item: Item::new(size, lower, lower + length).aligned(1 << alignment),
            kind,
            classes,
            pinned: pinned.map(|(heap, offset)| HeapOffset { heap, offset }),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn few_items_have_the_best_plan_there_is_or_a_true_refusal(
        heaps in prop::collection::vec(heap(), 1..3),
        items in prop::collection::vec(item(), 0..5),
    ) {
        let least = best(&heaps, &items, &mut Vec::new());
        let found = HeapProblem::new(&heaps, &items).and_then(|problem| plan_heaps(&problem, |_| true));
        match found {
            Ok(plan) => {
                prop_assert_eq!(verify_heaps(&heaps, &items, &plan.offsets), Ok(()));
                prop_assert!(is_plan(&heaps, &items, &plan.offsets));
                prop_assert_eq!(Some((plan.fallback_bytes, plan.height())), least);
                prop_assert_eq!(cost(&heaps, &items, &plan.offsets), (plan.fallback_bytes, plan.height()));
                prop_assert!(plan.is_proven && plan.lower_bound <= plan.height());
            }
            Err(error) => {
                prop_assert_eq!(least, None, "{}", error);
                let proven = !matches!(error, HeapError::NotFound { is_proven: false, .. });
                prop_assert!(proven, "{}", error);
            }
        }
    }

    #[test]
    fn the_checker_accepts_what_a_comparison_of_all_pairs_accepts(
        heaps in prop::collection::vec(heap(), 1..3),
        items in prop::collection::vec(item(), 0..7),
        at in prop::collection::vec((0..3_usize, 0..8_u64), 7),
    ) {
        let wild = |(held, &(heap, offset)): (&HeapItem, &(usize, u64))| {
            // Pinned items are at their pins, or no plan would be valid.
            held.pinned.unwrap_or(HeapOffset { heap: heap % (heaps.len() + usize::from(offset == 7)), offset })
        };
        let offsets: Vec<HeapOffset> = items.iter().zip(&at).map(wild).collect();
        prop_assert_eq!(verify_heaps(&heaps, &items, &offsets).is_ok(), is_plan(&heaps, &items, &offsets));
    }

    #[test]
    fn many_items_have_a_plan_that_the_checker_accepts(
        items in prop::collection::vec(item(), 10..120),
        granularity in 0..4_u32,
    ) {
        let mut items = items;
        items.iter_mut().for_each(|held| (held.classes, held.pinned) = (vec![0, 1], None));
        let first = Heap { granularity: 1 << granularity, ..Heap::new(40) };
        let heaps = [first, Heap { class: 1, ..Heap::new(u64::MAX) }];
        let problem = HeapProblem::new(&heaps, &items).unwrap();
        let mut asked = 0;
        let plan = plan_heaps(&problem, |_| { asked += 1; asked < 20 }).unwrap();
        prop_assert_eq!(verify_heaps(&heaps, &items, &plan.offsets), Ok(()));
        // Replanned after a change: items that were not changed stay.
        let mut last: Vec<_> = plan.offsets.iter().copied().map(Some).collect();
        let same = replan_heaps(&problem, &last, |_| true).unwrap();
        prop_assert_eq!((same.kept_count, &same.plan.offsets), (items.len(), &plan.offsets));
        last[3] = None;
        items[5].item.size += 3;
        items[7].kind += 1;
        let problem = HeapProblem::new(&heaps, &items).unwrap();
        let again = replan_heaps(&problem, &last, |_| true).unwrap();
        prop_assert_eq!(verify_heaps(&heaps, &items, &again.plan.offsets), Ok(()));
        let kept = again.plan.offsets.iter().zip(&last).filter(|(now, then)| Some(**now) == **then).count();
        prop_assert_eq!(kept, again.kept_count);
    }
}

fn at(heap: usize, offset: u64) -> HeapOffset {
    HeapOffset { heap, offset }
}

fn held(size: u64, lower: u64, upper: u64) -> HeapItem {
    HeapItem::new(Item::new(size, lower, upper))
}

#[test]
fn what_cannot_be_is_refused_with_its_numbers() {
    let heap = [Heap { alignment: 16, ..Heap::new(100) }];
    let why = |heaps: &[Heap], items: &[HeapItem]| {
        HeapProblem::new(heaps, items).and_then(|problem| plan_heaps(&problem, |_| true)).unwrap_err()
    };
    assert_eq!(
        why(&[Heap { granularity: 3, ..heap[0] }], &[]),
        HeapError::BadHeap { heap: 0, alignment: 16, granularity: 3 }
    );
    assert_eq!(
        why(&heap, &[held(8, 0, 1).pinned_at(2, 0)]),
        HeapError::UnknownHeap { index: 0, heap: 2, heap_count: 1 }
    );
    assert_eq!(
        why(&heap, &[held(8, 0, 1), HeapItem::new(Item::new(8, 0, 1).aligned(32))]),
        HeapError::NoHeap { index: 1, size: 8, alignment: 32, capacity: 100, heap_alignment: 16 }
    );
    assert_eq!(
        why(&heap, &[held(101, 0, 1)]),
        HeapError::NoHeap { index: 0, size: 101, alignment: 1, capacity: 100, heap_alignment: 16 }
    );
    assert_eq!(
        why(&heap, &[HeapItem::new(Item::new(8, 0, 1).aligned(8)).pinned_at(0, 12)]),
        HeapError::PinMisaligned { index: 0, offset: 12, alignment: 8, heap_alignment: 16 }
    );
    assert_eq!(
        why(&heap, &[held(8, 0, 1).pinned_at(0, 96)]),
        HeapError::PinBeyondCapacity { index: 0, offset: 96, size: 8, capacity: 100 }
    );
    assert_eq!(
        why(&heap, &[held(8, 0, 2).pinned_at(0, 0), held(8, 1, 3).pinned_at(0, 4)]),
        HeapError::PinsClash { first: 0, second: 1, heap: 0, granularity: 1 }
    );
    assert_eq!(
        why(&heap, &[held(60, 0, 9), held(50, 7, 8), held(1, 8, 9)]),
        HeapError::Overload { moment: 7, load: 110, capacity: 100 }
    );
    // By their sum, two of 35 fit beside the pinned item in the middle; but they do not fit the two halves.
    let halves = [held(20, 0, 1).pinned_at(0, 30), held(35, 0, 1), held(35, 0, 1)];
    let HeapError::NotFound { size: 35, heap: 0, end: 120, capacity: 100, is_proven: true, .. } = why(&heap, &halves)
    else {
        panic!("{:?}", why(&heap, &halves));
    };
    // Linear and optimal items do not share a page, so the sum of the sizes is not enough.
    let pages = [Heap { granularity: 64, ..Heap::new(128) }];
    let kinds = [held(64, 0, 1), held(32, 0, 1).of_kind(1), held(32, 0, 1)];
    assert!(matches!(why(&pages, &kinds), HeapError::NotFound { is_proven: true, .. }));
    assert!(plan_heaps(&HeapProblem::new(&pages, &kinds[..2]).unwrap(), |_| true).is_ok());
}

#[test]
fn what_a_heap_cannot_hold_falls_back_to_the_next_in_the_list_and_the_least_of_it() {
    let heaps = [Heap::new(100), Heap { class: 7, ..Heap::new(100) }];
    let items = [
        held(60, 0, 2).preferring(&[0, 7]),
        held(50, 0, 2).preferring(&[0, 7]),
        held(40, 0, 2).preferring(&[0]),
        held(100, 2, 3).preferring(&[7, 0]),
    ];
    let plan = plan_heaps(&HeapProblem::new(&heaps, &items).unwrap(), |_| true).unwrap();
    verify_heaps(&heaps, &items, &plan.offsets).unwrap();
    assert_eq!((plan.fallback_bytes, plan.offsets[1].heap, plan.offsets[3]), (50, 1, at(1, 0)));
    assert!(plan.is_proven);
    // A heap for render targets that need 4 MiB, and one of 64 KiB: an item with a small alignment is placed in the
    // heap with the smaller alignment.
    let two = [Heap { alignment: 4 << 20, ..Heap::new(8 << 20) }, Heap { alignment: 64 << 10, ..Heap::new(8 << 20) }];
    let targets = [64 << 10, 4 << 20].map(|alignment| HeapItem::new(Item::new(1 << 20, 0, 1).aligned(alignment)));
    let plan = plan_heaps(&HeapProblem::new(&two, &targets).unwrap(), |_| true).unwrap();
    assert_eq!([plan.offsets[0].heap, plan.offsets[1].heap], [1, 0]);
}

#[test]
fn the_checker_names_what_is_wrong() {
    let heaps = [Heap { granularity: 16, ..Heap::new(100) }, Heap { class: 1, ..Heap::new(8) }];
    let items = [held(8, 0, 2), held(8, 1, 3).of_kind(1), held(8, 2, 4)];
    let check = |offsets: [HeapOffset; 3]| verify_heaps(&heaps, &items, &offsets);
    assert_eq!(check([at(0, 0), at(0, 16), at(0, 0)]), Ok(()));
    assert_eq!(
        check([at(0, 0), at(0, 8), at(0, 32)]),
        Err(HeapViolation::SharedPage { first: 0, second: 1, heap: 0, page: 0 })
    );
    assert_eq!(check([at(0, 0), at(0, 7), at(0, 32)]), Err(HeapViolation::Overlap { first: 0, second: 1, heap: 0 }));
    assert_eq!(check([at(0, 0), at(0, 16), at(1, 0)]), Err(HeapViolation::WrongHeap { index: 2, heap: 1 }));
    assert_eq!(check([at(0, 0), at(0, 16), at(2, 0)]), Err(HeapViolation::WrongHeap { index: 2, heap: 2 }));
    assert_eq!(
        check([at(0, 0), at(0, 16), at(0, 93)]),
        Err(HeapViolation::BeyondCapacity { index: 2, at: at(0, 93), size: 8, capacity: 100 })
    );
    assert_eq!(verify_heaps(&heaps, &items, &[]), Err(HeapViolation::Count { items: 3, offsets: 0 }));
    let pinned = [held(8, 0, 1).pinned_at(0, 8)];
    assert_eq!(
        verify_heaps(&heaps, &pinned, &[at(0, 0)]),
        Err(HeapViolation::NotPinned { index: 0, at: at(0, 0), pinned: at(0, 8) })
    );
}

#[test]
fn a_full_heap_is_planned_again_by_displacing_little() {
    // Ten adjacent items of 10. The first grows, and the heap has room only at its end.
    let heaps = [Heap::new(104)];
    let mut items: Vec<HeapItem> = (0..10).map(|_| held(10, 0, 1)).collect();
    let last: Vec<_> = (0..10).map(|place| Some(at(0, place * 10))).collect();
    items[0].item.size = 14;
    let problem = HeapProblem::new(&heaps, &items).unwrap();
    let again = replan_heaps(&problem, &last, |_| true).unwrap();
    verify_heaps(&heaps, &items, &again.plan.offsets).unwrap();
    assert_eq!((again.kept_count, again.plan.height()), (8, 104), "{:?}", again.plan);
}

#[test]
fn pins_and_offsets_at_the_end_of_what_64_bits_hold_are_refused_or_planned() {
    let heaps = [Heap { granularity: 1 << 32, ..Heap::new(u64::MAX) }];
    let end = i64::MAX as u64;
    let pin = held(1, 0, 9).pinned_at(0, end - 1);
    let other = HeapItem::new(Item::new(1 << 60, 0, 9).aligned(1 << 61)).of_kind(1);
    let items = [pin.clone(), other.clone()];
    let plan = plan_heaps(&HeapProblem::new(&heaps, &items).unwrap(), |_| true).unwrap();
    verify_heaps(&heaps, &items, &plan.offsets).unwrap();
    assert_eq!(plan.offsets[1], at(0, 0));
    let beyond = held(2, 0, 9).pinned_at(0, u64::MAX - 1);
    assert!(matches!(HeapProblem::new(&heaps, &[beyond]), Err(HeapError::PinBeyondCapacity { .. })));
    let low = held(1, 0, 9).pinned_at(0, 0);
    let big = held(end - (1 << 61), 0, 9).of_kind(1);
    let full = HeapProblem::new(&heaps, &[pin, low, big]).and_then(|problem| plan_heaps(&problem, |_| true));
    assert!(full.is_ok() || matches!(full, Err(HeapError::NotFound { .. })), "{full:?}");
}

#[test]
fn a_crowded_moment_moves_what_lives_around_it_alone() {
    let mut state = 7_u64;
    let mut below = move |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let mut item = || {
        let lower = below(1_000);
        let size = 4096 + below(1 << 20);
        HeapItem::new(Item::new(size, lower, lower + 1 + below(40)).aligned(256))
    };
    let mut items: Vec<HeapItem> = (0..1_000).map(|_| item()).collect();
    let mut last: Vec<Option<HeapOffset>> = vec![None; 1_000];
    let mut kept = Vec::new();
    for step in 0..24 {
        let bound = HeapProblem::new(&[Heap::new(u64::MAX)], &items).unwrap().lower_bound();
        let heaps = [Heap::new(bound + bound / 50)];
        let problem = HeapProblem::new(&heaps, &items).unwrap();
        let mut questions = 0;
        let again = replan_heaps(&problem, &last, |progress| {
            questions += 1;
            assert!(progress.steps < 10_000, "{} steps without a question", progress.steps);
            true
        });
        let again = again.unwrap();
        verify_heaps(&heaps, &items, &again.plan.offsets).unwrap();
        // It can be stopped at any call.
        for stop in [questions / 3, questions - 1].into_iter().filter(|&stop| stop > 0) {
            let mut asked = 0;
            let stopped = replan_heaps(&problem, &last, |_| {
                asked += 1;
                asked < stop
            });
            let is_stopped = stopped == Err(HeapError::Stopped { items: 1_000 });
            assert!(asked == stop && (is_stopped || stopped.is_ok()), "{asked} of {questions} questions");
        }
        kept.push(again.kept_count);
        last = again.plan.offsets.into_iter().map(Some).collect();
        for place in (0..20).map(|place| (step * 20 + place) % 1_000) {
            (items[place], last[place]) = (item(), None);
        }
    }
    // There is nothing to keep in the first step. After that, only one step keeps fewer than 600 of 980.
    assert!(kept.iter().filter(|&&count| count < 600).count() <= 2, "{kept:?}");
}

/// Generates short-lived items of one or two kinds; the first may be pinned.
fn many(count: u64, is_pinned: bool) -> Vec<HeapItem> {
    let one = |place: u64| {
        let drawn = (place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (place * place * 0x2545_f491);
        let (lower, size) = ((drawn >> 40) % count, 1 + (drawn >> 20) % 4096);
        let item = held(size, lower, lower + 1 + (drawn >> 9) % 40).of_kind(place.is_multiple_of(3).into());
        if is_pinned && place == 0 { item.pinned_at(0, 4096) } else { item.preferring(&[0, 1]) }
    };
    (0..count).map(one).collect()
}

#[test]
fn of_many_items_the_closure_is_asked_within_an_order() {
    for (granularity, is_pinned, capacity) in
        [(1, false, u64::MAX), (1, true, u64::MAX), (64, false, u64::MAX), (1, false, 30_000)]
    {
        let items = many(8_000, is_pinned);
        let heaps = [Heap { granularity, ..Heap::new(capacity) }, Heap { class: 1, ..Heap::new(u64::MAX) }];
        let problem = HeapProblem::new(&heaps, &items).unwrap();
        let (mut questions, mut most) = (0, 0);
        let plan = plan_heaps(&problem, |progress| {
            assert_ne!(progress.height, u64::MAX, "asked before there is a plan");
            questions += 1;
            most = progress.steps.max(most);
            questions < 30
        });
        verify_heaps(&heaps, &items, &plan.unwrap().offsets).unwrap();
        // An order takes twice as many steps.
        assert!(questions > 1 && most <= 8_000, "{questions} questions, one after {most} steps");
    }
}

#[test]
fn nearly_full_heaps_are_given_up_when_the_closure_says_so() {
    let items = many(6_000, false);
    let all = HeapProblem::new(&[Heap::new(u64::MAX)], &items).unwrap();
    let problem = HeapProblem::new(&[Heap::new(all.lower_bound())], &items).unwrap();
    let mut questions = 0;
    let found = plan_heaps(&problem, |_| {
        questions += 1;
        false
    });
    assert!(found.is_ok() || matches!(found, Err(HeapError::NotFound { is_proven: false, .. })), "{found:?}");
    assert_eq!(questions, 1);
}

#[test]
fn planning_again_takes_no_longer_than_the_closure_allows() {
    let (mut items, heaps) = (many(3_000, false), [Heap::new(u64::MAX)]);
    let problem = HeapProblem::new(&heaps, &items).unwrap();
    let mut steps = 0;
    let first = plan_heaps(&problem, |progress| {
        steps += progress.steps;
        steps < 300_000
    });
    let mut last: Vec<_> = first.unwrap().offsets.into_iter().map(Some).collect();
    // One in four items is replaced, and only an optimal plan fits the heap.
    for place in (0..3_000).step_by(4) {
        items[place].item.lifetime = items[(place + 1_501) % 3_000].item.lifetime;
        last[place] = None;
    }
    let full = [Heap::new(HeapProblem::new(&heaps, &items).unwrap().lower_bound())];
    let problem = HeapProblem::new(&full, &items).unwrap();
    let (mut questions, mut most) = (0, 0);
    let found = replan_heaps(&problem, &last, |progress| {
        questions += 1;
        most = progress.steps.max(most);
        questions < 3
    });
    let found = found.map(|again| again.kept_count);
    assert_eq!(found, Err(HeapError::Stopped { items: 3_000 }));
    assert!(questions == 3 && most < 1_000, "{questions} questions, one after {most} steps");
    // Without a limit, it finds a plan or reports that it found none.
    match replan_heaps(&problem, &last, |_| true) {
        Ok(again) => verify_heaps(&full, &items, &again.plan.offsets).unwrap(),
        Err(error) => assert!(matches!(error, HeapError::NotFound { .. }), "{error}"),
    }
}

#[test]
fn a_plan_that_was_made_again_says_whether_most_of_it_was_kept() {
    let heaps = [Heap::new(100)];
    let last = [Some(at(0, 0)), Some(at(0, 40)), None];
    let replan = |items: &[HeapItem], last: &[Option<HeapOffset>]| {
        replan_heaps(&HeapProblem::new(&heaps, items).unwrap(), last, |_| true).unwrap()
    };
    let again = replan(&[held(40, 0, 1), held(40, 0, 1), held(20, 0, 1)], &last);
    assert_eq!((again.kept_count, again.placed_count, again.has_kept_most()), (2, 2, true));
    // They only fit adjacent to one another, but their old offsets are spread over the heap.
    let apart = [Some(at(0, 30)), Some(at(0, 60)), Some(at(0, 90)), None];
    let again = replan(&[held(10, 0, 1), held(10, 0, 1), held(10, 0, 1), held(70, 0, 1)], &apart);
    assert_eq!((again.kept_count, again.placed_count, again.has_kept_most()), (1, 3, false));
}

#[test]
fn of_very_many_items_in_a_nearly_full_heap_the_first_order_is_stopped_too() {
    let items = many(50_000, true);
    let all = HeapProblem::new(&[Heap::new(u64::MAX)], &items).unwrap();
    let problem = HeapProblem::new(&[Heap::new(all.lower_bound() + 1_000)], &items).unwrap();
    let (mut questions, mut most) = (0, 0);
    let found = plan_heaps(&problem, |progress| {
        questions += 1;
        most = progress.steps.max(most);
        questions < 10
    });
    assert!(matches!(found, Err(HeapError::Stopped { items: 50_000 })), "{found:?}");
    // An order takes 600,000 steps.
    assert!(questions == 10 && most < 100_000, "{questions} questions, one after {most} steps");
}

#[test]
fn a_plan_for_heaps_that_had_more_time_is_never_worse() {
    for (count, granularity, percent) in [(200, 1 << 10, 90), (700, 1 << 12, 200), (1_600, 1 << 8, 90)] {
        let items = many(count, false);
        let all = HeapProblem::new(&[Heap::new(u64::MAX), Heap { class: 1, ..Heap::new(u64::MAX) }], &items).unwrap();
        let first = Heap { granularity, ..Heap::new(all.lower_bound() / 100 * percent) };
        let heaps = [first, Heap { class: 1, ..Heap::new(u64::MAX) }];
        let problem = HeapProblem::new(&heaps, &items).unwrap();
        let mut before = (u128::MAX, u64::MAX);
        for stop in (1..20).chain((20..200).step_by(30)) {
            let mut asked = 0;
            let plan = plan_heaps(&problem, |_| {
                asked += 1;
                asked < stop
            });
            let plan = plan.unwrap();
            verify_heaps(&heaps, &items, &plan.offsets).unwrap();
            let cost = (plan.fallback_bytes, plan.height());
            assert!(cost <= before, "{count} items, stopped at {stop}: {cost:?} after {before:?}");
            before = cost;
        }
    }
}

/// Plans until there is a plan, for at most `most` steps. Returns the height.
fn first_within(heaps: &[Heap], items: &[HeapItem], most: u64) -> Result<u64, HeapError> {
    let problem = HeapProblem::new(heaps, items)?;
    let mut steps = 0;
    let plan = plan_heaps(&problem, |progress| {
        steps += progress.steps;
        progress.height == u64::MAX && steps < most
    })?;
    verify_heaps(heaps, items, &plan.offsets).unwrap();
    Ok(plan.height())
}

#[test]
fn a_heap_as_high_as_a_plan_without_end_and_a_larger_one_are_planned() {
    for (count, granularity) in [(60, 1 << 10), (150, 1 << 10), (60, 1), (300, 1 << 8)] {
        let items = many(count, false);
        let problem = HeapProblem::new(&[Heap { granularity, ..Heap::new(u64::MAX) }], &items).unwrap();
        let mut steps = 0;
        let without_end = plan_heaps(&problem, |progress| {
            steps += progress.steps;
            steps < 10_000
        });
        let height = without_end.unwrap().height();
        for permille in [1_000, 1_001, 1_003, 1_010, 1_030] {
            let heap = Heap { granularity, ..Heap::new(height * permille / 1_000) };
            let found = first_within(&[heap], &items, 400_000);
            assert!(found.is_ok(), "{count} items, pages of {granularity}, {permille} ‰: {found:?}");
            assert_eq!(found, first_within(&[heap], &items, 400_000), "the same answers, the same plan");
        }
    }
}

#[test]
fn while_there_is_no_plan_it_goes_on_until_the_closure_says_no() {
    // Adjacent, with pages between them, they need more than the heap has; for so many items that is not proven.
    let items: Vec<HeapItem> = (0..50).map(|place| held(60 + place % 9, 0, 1).of_kind(place as u32 % 5)).collect();
    let heaps = [Heap { granularity: 64, ..Heap::new(3_190) }];
    let problem = HeapProblem::new(&heaps, &items).unwrap();
    let mut steps = 0;
    let found = plan_heaps(&problem, |progress| {
        steps += progress.steps;
        steps < 100_000
    });
    assert!(matches!(found, Err(HeapError::NotFound { is_proven: false, .. })), "{found:?}");
    assert!(steps >= 100_000, "{steps}");
    // The first item finds no room beside the pins, wherever the others are.
    let pins = (0..60).map(|place| held(32, 0, 1).pinned_at(0, 58 * place));
    let items: Vec<HeapItem> = items.iter().take(1).cloned().chain(pins).collect();
    let found = HeapProblem::new(&[Heap::new(3_500)], &items).and_then(|problem| plan_heaps(&problem, |_| true));
    assert!(matches!(found, Err(HeapError::NotFound { is_proven: true, .. })), "{found:?}");
}

#[test]
fn nothing_is_proven_where_a_plan_might_end_beyond_63_bits() {
    let heaps = [Heap::new(u64::MAX)];
    let pins = (1..4).map(|place| held(1, 0, 1).pinned_at(0, place << 61));
    let rest = [(1 << 61) - 1, (1 << 61) + 5, (1 << 61) + 5].map(|size| held(size, 0, 1));
    let items: Vec<HeapItem> = pins.chain(rest).collect();
    let found = HeapProblem::new(&heaps, &items).and_then(|problem| plan_heaps(&problem, |_| true));
    let Err(HeapError::NotFound { capacity, is_proven, .. }) = found else { panic!("{found:?}") };
    assert_eq!((capacity, is_proven), (i64::MAX as u64, false));
    // In a heap that ends at 2^63 - 1 it is proven.
    let heaps = [Heap::new(i64::MAX as u64)];
    let found = HeapProblem::new(&heaps, &items).and_then(|problem| plan_heaps(&problem, |_| true));
    assert!(matches!(found, Err(HeapError::NotFound { is_proven: true, .. })), "{found:?}");
}

#[test]
fn very_many_pins_are_checked_against_what_is_alive_on_their_pages() {
    let pinned = |place: u64, offset| held(4_096, place, place + 50).pinned_at(0, offset).of_kind(place as u32 % 3);
    // Adjacent items in turns, in an order that is not the order of their offsets.
    let mut items: Vec<HeapItem> =
        (0..200_000_u64).map(|place| pinned(place, place.wrapping_mul(77) % 211 * 4_096)).collect();
    items.extend((0..50).map(|place| held(100, place, place + 9)));
    let heaps = [Heap { granularity: 1_024, ..Heap::new(u64::MAX) }];
    let before = std::time::Instant::now();
    let problem = HeapProblem::new(&heaps, &items).unwrap();
    // A quarter of a second. Comparing all pairs of pins took a minute.
    assert!(before.elapsed() < std::time::Duration::from_secs(15), "{:?}", before.elapsed());
    assert_eq!(problem.lower_bound(), 211 * 4_096);
    items[49_000].pinned = items[48_990].pinned;
    let clash = HeapProblem::new(&heaps, &items).unwrap_err();
    assert_eq!(clash, HeapError::PinsClash { first: 48_990, second: 49_000, heap: 0, granularity: 1_024 });
}
