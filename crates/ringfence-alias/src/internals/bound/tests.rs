//! The bounds against every section, and against the lowest height of all plans.

use super::super::random::Random;
use super::super::shape::{Intervals, Shape};
use super::super::stacking;
use super::{Effort, SMALL_MAX, mixed, refined};
use crate::item::Item;
use crate::problem::{Problem, Relation};
use alloc::vec::Vec;

fn shape(problem: &Problem) -> &Intervals {
    let Relation::Intervals(shape) = &problem.relation else { panic!("one queue gives intervals") };
    shape
}

fn generated(random: &mut Random, count: u64, length: u64, alignments: [u64; 3]) -> Vec<Item> {
    let mut below = |end: u64| ((random.next() * end as f64) as u64).min(end - 1);
    let mut item = || {
        let lower = below(count);
        let item = Item::new(1 + below(4096), lower, lower + 1 + below(length));
        item.aligned(alignments[below(3) as usize])
    };
    (0..count).map(|_| item()).collect()
}

/// Returns the bound from examining every section.
fn of_every_section(problem: &Problem) -> u64 {
    let (shape, sizes) = (shape(problem), &problem.sizes);
    let loads = shape.loads(&sizes.size);
    let most = |members: &[u32]| members.iter().map(|&item| sizes.alignment[item as usize]).max().unwrap_or(1);
    let waste = |section: usize| {
        let members: Vec<u32> =
            (0..sizes.len()).filter(|&item| shape.is_in(item, section)).map(|item| item as u32).collect();
        let small = members.iter().filter(|&&item| sizes.alignment[item as usize] < most(&members)).count();
        if small > SMALL_MAX {
            return loads[section];
        }
        let stacking = stacking::lowest(sizes, members, u64::MAX, 0, 1 << SMALL_MAX, &mut u64::MAX.clone());
        loads[section] + stacking.map_or(0, |stacking| stacking.waste)
    };
    (0..loads.len()).map(waste).max().unwrap_or(0)
}

#[test]
fn the_sections_that_are_left_out_would_not_raise_the_bound() {
    let mut random = Random(3);
    let mut raised = 0;
    for round in 0..300 {
        let length = [3, 8, 40][round % 3];
        let alignments = [[64, 64, 65536], [1, 65536, 65536], [16, 256, 4096]][round / 3 % 3];
        let problem = Problem::new(&generated(&mut random, 5 + round as u64, length, alignments)).unwrap();
        let loads = shape(&problem).loads(&problem.sizes.size);
        let effort = &mut Effort::first(problem.len());
        let (bound, _) = mixed(shape(&problem), &problem.sizes, &loads, problem.load(), effort);
        assert_eq!(bound, of_every_section(&problem), "round {round}");
        raised += u32::from(bound > problem.load());
    }
    assert!(raised > 100, "{raised}");
}

/// Returns the lowest height of all plans. Some order of the items reaches it, with each item on top of those alive
/// with it.
fn lowest(items: &[Item], tops: &mut Vec<(usize, u64)>, height: u64, best: u64) -> u64 {
    if height >= best || tops.len() == items.len() {
        return height.min(best);
    }
    let mut best = best;
    for (at, item) in items.iter().enumerate() {
        if tops.iter().any(|&(placed, _)| placed == at) {
            continue;
        }
        let below = tops.iter().filter(|&&(placed, _)| items[placed].lifetime.overlaps(item.lifetime));
        let floor = below.map(|&(_, top)| top).max().unwrap_or(0);
        let top = floor.next_multiple_of(item.alignment) + item.size;
        tops.push((at, top));
        best = lowest(items, tops, height.max(top), best);
        tops.pop();
    }
    best
}

#[test]
fn no_bound_of_mixed_alignments_is_above_the_lowest_height() {
    let mut random = Random(17);
    let (mut raised, mut reached) = (0, 0);
    for round in 0..4_000 {
        let mut below = |end: u64| (random.next() * end as f64) as u64;
        let (size_max, log2_max, span) = (1 + below(40), 1 + below(6), 1 + below(6));
        let mut item = || {
            let lower = below(span);
            Item::new(1 + below(size_max), lower, lower + 1 + below(span)).aligned(1 << below(log2_max + 1))
        };
        let items: Vec<Item> = (0..2 + round % 5).map(|_| item()).collect();
        let problem = Problem::new(&items).unwrap();
        let best = lowest(&items, &mut Vec::new(), 0, u64::MAX);
        assert!(problem.lower_bound() <= best, "{} above {best}: {items:?}", problem.lower_bound());
        let (refined, _) = refined(shape(&problem), &problem.sizes, problem.lower_bound());
        assert!(refined <= best, "refined {refined} above {best}: {items:?}");
        raised += u32::from(problem.lower_bound() > problem.load());
        reached += u32::from(problem.lower_bound() == best);
    }
    assert!(raised > 1_000 && reached > 2_000, "{raised} raised, {reached} reached");
}

#[test]
fn many_small_items_do_not_hide_what_the_large_alignments_need() {
    let mut items: Vec<Item> = (0..60).map(|_| Item::new(4096, 0, 1).aligned(2 << 20)).collect();
    items.extend((0..100).map(|_| Item::new(4096, 0, 1).aligned(4096)));
    let plan = crate::plan(&Problem::new(&items).unwrap(), |_| false);
    assert_eq!(plan.height, 59 * (2 << 20) + 4096);
    assert!(plan.is_proven(), "{} above {}", plan.height, plan.lower_bound);
}

#[test]
fn an_alignment_between_the_least_and_the_largest_counts_too() {
    let mut items: Vec<Item> = (0..20).map(|_| Item::new(1, 0, 2).aligned(4096)).collect();
    items.extend((0..20).map(|_| Item::new(1, 1, 3).aligned(1)));
    items.push(Item::new(1, 5, 6).aligned(1 << 16));
    assert_eq!(Problem::new(&items).unwrap().lower_bound(), 19 * 4096 + 1);
}

#[test]
fn sums_of_the_largest_alignments_do_not_overflow() {
    let mut random = Random(1);
    for round in 0..300 {
        let mut items = generated(&mut random, 4 + round % 30, 2 + round % 9, [1, 16, 64]);
        items[0] = items[0].aligned(1 << (62 - round % 4));
        if round % 3 == 0 {
            items[1].size = (1 << (55 + round % 5)) + 1;
        }
        let problem = Problem::new(&items).unwrap();
        let mut steps = 0;
        let plan = crate::plan(&problem, |progress| {
            steps += progress.steps;
            steps < 10_000
        });
        crate::verify(&items, &plan.offsets, plan.height).unwrap();
        assert!(problem.lower_bound() <= plan.height, "round {round}");
    }
}
