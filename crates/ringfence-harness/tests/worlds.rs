//! Seeded worlds under the hazard finder: correct programs are silent and right, wrong ones are found, equal seeds are equal.
//!
//! `RINGFENCE_SEED=N` runs one world, `RINGFENCE_WORLDS=COUNT` so many of the first test; `ringfence world --seed N` does the
//! same with a trace.

use ringfence_harness::world::{Bug, Figures, WorldOptions, run};

/// What CI runs; `ci/campaign.sh` runs 10,000 and more.
const WORLDS: u64 = 4000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs worlds on two threads; the first finding fails the test, with its seed.
fn run_all(seeds: std::ops::Range<u64>, options: WorldOptions) -> Figures {
    let middle = seeds.start + (seeds.end - seeds.start) / 2;
    let part = |seeds: std::ops::Range<u64>| {
        let mut figures = Figures::default();
        for seed in seeds {
            match run(&WorldOptions { seed, ..options }, None) {
                Ok(world) => figures.add(&world),
                Err(finding) => panic!("{finding}\nagain: RINGFENCE_SEED={seed}, or ringfence world --seed {seed}"),
            }
        }
        figures
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| part(seeds.start..middle));
        let mut figures = part(middle..seeds.end);
        figures.add(&first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        figures
    })
}

#[test]
fn worlds_are_silent_and_right() {
    let seeds = match number("RINGFENCE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RINGFENCE_WORLDS").unwrap_or(WORLDS),
    };
    let figures = run_all(seeds, WorldOptions::default());
    println!("{figures:?}");
}

#[test]
fn worlds_of_several_threads_are_silent_and_right() {
    let figures = run_all(0..200, WorldOptions { threads: 4, ..Default::default() });
    println!("{figures:?}");
}

#[test]
fn equal_seeds_are_equal_worlds() {
    for seed in 0..40 {
        let options = WorldOptions { seed, ..Default::default() };
        assert_eq!(run(&options, None), run(&options, None));
    }
}

/// Each bug is planted in worlds until one finds it: how many that takes says how sharp the finder is.
#[test]
fn planted_bugs_are_found_within_few_worlds() {
    for (bug, found_by) in Bug::ALL.into_iter().zip([
        &["destroyed", "placed", "unmapped", "written", "evicted", "wrong bytes"][..],
        &["nothing orders"],
        &["wrong bytes", "beyond its end", "written by the host"],
        &["written by the host", "wrong bytes"],
    ]) {
        let mut needed = Vec::new();
        let mut first = 0;
        for _ in 0..10 {
            let (seed, finding) = (first..first + 50)
                .find_map(|seed| {
                    run(&WorldOptions { seed, bug: Some(bug), ..Default::default() }, None)
                        .err()
                        .map(|found| (seed, found))
                })
                .unwrap_or_else(|| panic!("{bug:?} is not found in 50 worlds from {first} on"));
            assert!(found_by.iter().any(|words| finding.what.contains(words)), "{bug:?}: {finding}");
            needed.push(seed - first + 1);
            first = seed + 1;
        }
        println!("{bug:?}: found after {needed:?} worlds");
        assert!(needed.iter().sum::<u64>() <= 100, "{bug:?} takes {needed:?} worlds");
    }
}
