//! Several threads: the result is the same for any number of them, and planning stops when the closure returns `false`.

use ringfence_planner::{AliasPlan, Item, PlanDesc, Policy, Problem, plan_by, plan_with, verify};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

fn generated(count: u64, long: u64, log2_max: u64, seed: u64) -> Vec<Item> {
    let mut state = seed;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let item = |at: u64| {
        let (lower, size) = (random(count), 1 + random(1 << 12));
        let length = if at.is_multiple_of(long) { 1 + random(count / 2) } else { 1 + random(12) };
        Item::new(size, lower, lower + length).aligned(1 << (random(1 + log2_max) * random(2)))
    };
    (0..count).map(item).collect()
}

fn planned(items: &[Item], threads: usize, seed: u64, steps_max: u64) -> AliasPlan {
    let desc = PlanDesc { threads: NonZeroUsize::new(threads).unwrap(), seed };
    let mut steps = 0;
    let found = plan_with(&Problem::new(items).unwrap(), &desc, |progress| {
        steps += progress.steps;
        steps < steps_max
    });
    verify(items, &found.offsets, found.height).unwrap();
    assert!(found.lower_bound <= found.height);
    found
}

#[test]
fn any_number_of_threads_gives_the_same_plan() {
    for (count, long, log2, steps) in
        [(40, 5, 12, 200_000), (150, 4, 0, 400_000), (150, 4, 8, 200_000), (2_500, 9, 0, 1_500_000)]
    {
        let items = generated(count, long, log2, count);
        for seed in [0, 7] {
            let [one, two, five] = [1, 2, 5].map(|threads| planned(&items, threads, seed, steps));
            assert!(one == two && two == five, "{count} items: {} {} {}", one.height, two.height, five.height);
            let problem = Problem::new(&items).unwrap();
            if count < 256 {
                assert!(Policy::ALL.iter().all(|&policy| plan_by(&problem, policy).height >= one.height));
            }
        }
    }
}

#[test]
fn a_clock_ends_it_within_a_round() {
    for count in [60, 1_000, 4_000] {
        let items = generated(count, 3, 0, 5);
        let desc = PlanDesc { threads: NonZeroUsize::new(3).unwrap(), ..PlanDesc::default() };
        let start = Instant::now();
        let problem = Problem::new(&items).unwrap();
        let found = plan_with(&problem, &desc, |_| start.elapsed() < Duration::from_millis(200));
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        verify(&items, &found.offsets, found.height).unwrap();
    }
}

#[test]
fn nothing_and_what_greedy_proves_need_no_worker() {
    assert_eq!(planned(&[], 4, 0, 1).height, 0);
    assert!(planned(&[Item::new(3, 0, 1), Item::new(4, 0, 1)], 4, 0, 1).is_proven());
}

#[test]
fn a_closure_that_panics_ends_the_workers() {
    let problem = Problem::new(&generated(300, 5, 6, 1)).unwrap();
    for threads in [1, 3, 20] {
        let desc = PlanDesc { threads: NonZeroUsize::new(threads).unwrap(), ..PlanDesc::default() };
        let mut asked = 0;
        let planned = catch_unwind(AssertUnwindSafe(|| {
            plan_with(&problem, &desc, |_| {
                asked += 1;
                assert!(asked < 10, "enough");
                true
            })
        }));
        assert!(planned.is_err() && asked == 10, "{threads}: asked {asked} times");
    }
}
