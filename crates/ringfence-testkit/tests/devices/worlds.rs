//! Seeded worlds under the hazard finder. Correct programs cause no finding, deliberate bugs are found, and equal seeds
//! produce equal worlds.
//!
//! `RINGFENCE_SEED=N` runs one world, `RINGFENCE_WORLDS=COUNT` runs COUNT worlds in the first test, and
//! `RINGFENCE_THREADED_WORLDS=COUNT` in the second. `ringfence world --seed N` runs a world with a trace.

use ringfence::trace::{Reader, State};
use ringfence_testkit::fixture::Recording;
use ringfence_testkit::world::{Bug, Figures, WorldOptions, run};

/// Number of worlds that CI runs. `ci/campaign.sh` runs 10,000 and more.
const WORLDS: u64 = 4000;
/// Number of worlds with several threads that CI runs.
const THREADED_WORLDS: u64 = 200;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs worlds, half of them on each of two threads. The first finding fails the test and is printed with its seed.
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
    let seeds = match number("RINGFENCE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RINGFENCE_THREADED_WORLDS").unwrap_or(THREADED_WORLDS),
    };
    let figures = run_all(seeds, WorldOptions { threads: 4, ..Default::default() });
    println!("{figures:?}");
}

#[test]
fn equal_seeds_are_equal_worlds() {
    for seed in 0..40 {
        let options = WorldOptions { seed, ..Default::default() };
        assert_eq!(run(&options, None), run(&options, None));
    }
}

/// For any combination of features, each event of a trace is consistent with the events before it.
#[test]
fn traces_of_worlds_are_of_one_piece() {
    for seed in 0..600 {
        let recording = Recording::default();
        let world = run(&WorldOptions { seed, ..Default::default() }, Some(Box::new(recording.clone())));
        world.unwrap_or_else(|finding| panic!("{finding}"));
        let (bytes, mut state) = (recording.bytes(), State::new());
        for event in Reader::new(&bytes[..]).expect("a trace") {
            let event = event.expect("it is whole");
            state.apply(&event);
            assert_eq!(state.odd_count(), 0, "seed {seed}: {event:?}");
        }
    }
}

/// Each deliberate bug is found within a few worlds. Their number is a measure of the hazard finder.
#[test]
fn planted_bugs_are_found_within_few_worlds() {
    Bug::ALL.into_iter().for_each(|bug| is_found(bug, WorldOptions::default()));
}

#[test]
fn planted_bugs_are_found_in_worlds_of_several_threads() {
    Bug::ALL.into_iter().for_each(|bug| is_found(bug, WorldOptions { threads: 4, ..Default::default() }));
}

/// Checks that a bug is found ten times: within 50 worlds each time, and within 10 on average.
fn is_found(bug: Bug, options: WorldOptions) {
    let (mut needed, mut first) = (Vec::new(), 0);
    for _ in 0..10 {
        let find = |seed| Some((seed, run(&WorldOptions { seed, bug: Some(bug), ..options }, None).err()?));
        let found = (first..first + 50).find_map(find);
        let (seed, finding) = found.unwrap_or_else(|| panic!("{bug:?} is not found in 50 worlds from {first} on"));
        assert!(bug.found_by().iter().any(|words| finding.what.contains(words)), "{bug:?}: {finding}");
        needed.push(seed - first + 1);
        first = seed + 1;
    }
    println!("{bug:?} with {} threads: found after {needed:?} worlds", options.threads);
    assert!(needed.iter().sum::<u64>() <= 100, "{bug:?} takes {needed:?} worlds");
}
