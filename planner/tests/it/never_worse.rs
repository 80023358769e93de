//! The planner is never worse than the greedy policies, at any stop, and it stops when the closure returns `false`.
//! Tested on generated items, and on every file of `RINGFENCE_CASES`, if that is set.

use proptest::prelude::*;
use ringfence_core::testing::cases;
use ringfence_planner::{GREEDY_WHOLE, Item, Policy, Problem, plan, plan_by, verify};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn item() -> impl Strategy<Value = Item> {
    (1..1_000_u64, 0..7_u32, 0..60_u64, 1..40_u64)
        .prop_map(|(size, log2, lower, length)| Item::new(size, lower, lower + length).aligned(1 << log2))
}

/// Returns the height and the time of each policy, and checks each plan.
fn policies(items: &[Item]) -> Vec<(u64, Duration)> {
    let problem = Problem::new(items).unwrap();
    let height = |policy| {
        let start = Instant::now();
        let plan = plan_by(&problem, policy);
        let time = start.elapsed();
        verify(items, &plan.offsets, plan.height).unwrap();
        (plan.height, time)
    };
    Policy::ALL.map(height).to_vec()
}

fn least(items: &[Item]) -> u64 {
    policies(items).into_iter().map(|(height, _)| height).min().unwrap_or(0)
}

/// Returns the height if the closure returns `false` at its call number `asked`.
fn height_after(items: &[Item], asked: u32) -> u64 {
    let mut left = asked;
    let found = plan(&Problem::new(items).unwrap(), |_| {
        assert!(left > 0, "called again after it returned false");
        left -= 1;
        left > 0
    });
    verify(items, &found.offsets, found.height).unwrap();
    found.height
}

fn height_within(items: &[Item], limit: Duration) -> u64 {
    let start = processor_time();
    let found = plan(&Problem::new(items).unwrap(), |_| processor_time() - start < limit);
    verify(items, &found.offsets, found.height).unwrap();
    found.height
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(200)))]

    #[test]
    fn of_few_items_no_policy_is_lower_whenever_it_is_stopped(
        items in prop::collection::vec(item(), 1..GREEDY_WHOLE), asked in 1..40_u32,
    ) {
        let least = least(&items);
        prop_assert!(height_after(&items, 1) <= least);
        prop_assert!(height_after(&items, asked) <= least);
    }

}

proptest! {
    // Each case takes a tenth of a second.
    #![proptest_config(ProptestConfig::with_cases(cases(200).div_ceil(8)))]

    #[test]
    fn of_more_items_no_policy_is_lower_once_they_have_been_tried(
        items in prop::collection::vec(item(), GREEDY_WHOLE..700), more in 1..40_u32,
    ) {
        // One call for each policy that is lower than those before.
        prop_assert!(height_after(&items, Policy::ALL.len() as u32 + more) <= least(&items));
    }
}

/// A caller who tries the policies one by one gets this part of the time, since other programs take some of the
/// planner's.
const HALF: u32 = 2;

/// Checks at several limits of processor time that the plan is no higher than the policies that a caller could have
/// tried one by one in half of the limit. The system counts processor time in steps of 4 ms.
fn check_limits(name: &str, items: &[Item]) {
    let policies = policies(items);
    for ms in [0, 50, 200, 1_000] {
        let limit = Duration::from_millis(ms);
        let found = height_within(items, limit);
        let mut spent = Duration::ZERO;
        for (place, &(height, time)) in policies.iter().enumerate() {
            spent += time;
            let is_tried = items.len() <= GREEDY_WHOLE || HALF * spent < limit;
            assert!(!is_tried || found <= height, "{name} in {ms} ms: {found}, {:?} {height}", Policy::ALL[place]);
        }
    }
}

fn random(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Generates items with short lifetimes; every item number `long` has a long one.
fn generated(count: u64, long: u64, seed: u64) -> Vec<Item> {
    let mut random = random(seed);
    let item = |at: u64| {
        let (lower, size) = (random(count), 1 + random(1 << 20));
        let length = if at.is_multiple_of(long) { 1 + random(count / 3) } else { 1 + random(40) };
        Item::new(size, lower, lower + length)
    };
    (0..count).map(item).collect()
}

#[test]
fn generated_items_are_planned_no_worse_than_by_any_policy_at_any_limit() {
    for (count, long) in [
        (40, 5),
        (200, 9),
        (600, 3),
        (900, 7),
        (1_600, 5),
        (2_000, u64::MAX),
        (5_000, 20),
        (20_000, 3),
        (20_000, u64::MAX),
        // Repaired before the policies have a turn.
        (85_000, u64::MAX),
    ] {
        check_limits(&format!("{count} items"), &generated(count, long, count));
    }
}

/// Checks that a stopped planner returns the plan that it reported at the call, so that more time is never worse.
#[track_caller]
fn check_stops(name: &str, items: &[Item], questions: usize, samples: usize) {
    let problem = Problem::new(items).unwrap();
    let mut reported = Vec::new();
    let whole = plan(&problem, |progress| {
        reported.push(progress.height);
        reported.len() < questions
    });
    assert!(reported.is_sorted_by(|before, after| before >= after), "{name}: reported heights go up");
    assert_eq!(Some(&whole.height), reported.last(), "{name}");
    // The samples include the heights that last longest, and the calls right after a change.
    let mut stops: Vec<usize> = (0..samples).map(|sample| sample * reported.len() / samples).collect();
    stops.extend((1..reported.len()).filter(|&at| reported[at] < reported[at - 1]).flat_map(|at| [at - 1, at]));
    stops.dedup();
    for stop in stops.into_iter().filter(|&stop| stop < reported.len()) {
        let mut asked = 0;
        let found = plan(&problem, |_| {
            asked += 1;
            asked <= stop
        });
        verify(items, &found.offsets, found.height).unwrap();
        assert_eq!(found.height, reported[stop], "{name}, stopped at question {stop} of {}", reported.len());
    }
}

#[test]
fn a_plan_that_had_more_time_is_never_worse() {
    for (count, long, questions) in [
        (300, 5, 300),
        (900, 7, 300),
        (2_000, u64::MAX, 200),
        (20_000, 20, 60),
        // The search plans the fullest moments first.
        (81_000, u64::MAX, 60),
    ] {
        check_stops(&format!("{count} items, {long}"), &generated(count, long, 1), questions, 6);
    }
}

#[test]
fn of_very_many_short_lived_items_policies_take_turns_with_repair() {
    // A policy places these items optimally, and local repair does not come near it.
    let item = |at: u64| Item::new(1 + at % 37 * 1_000, at, at + 1 + at * 7 % 40);
    let items: Vec<Item> = (0..81_000).map(item).collect();
    let problem = Problem::new(&items).unwrap();
    let mut steps = 0;
    let found = plan(&problem, |progress| {
        steps += progress.steps;
        steps < 1_500_000
    });
    verify(&items, &found.offsets, found.height).unwrap();
    assert!(found.height <= least(&items), "{} of {}", found.height, found.load);
}

#[test]
fn the_cases_are_planned_no_worse_than_by_any_policy_at_any_limit() {
    let folder = std::env::var_os("RINGFENCE_CASES").map_or_else(beside_the_checkout, PathBuf::from).join("alias");
    let files = files(&folder);
    if files.is_empty() {
        eprintln!("no cases in {}: generated ones only", folder.display());
    }
    files.iter().for_each(|file| check_limits(&file.display().to_string(), &read(file)));
}

#[test]
fn a_closure_that_says_no_is_asked_soon_and_obeyed() {
    // Limit as a multiple of the time of reading the items, which scales with the speed of the machine. The longest
    // time between two calls is three or four times that.
    const TIMES: u32 = 40;
    for long in [u64::MAX, 300] {
        let items = generated(200_000, long, 3);
        let start = processor_time();
        let problem = Problem::new(&items).unwrap();
        let patience = TIMES * (processor_time() - start).max(Duration::from_millis(5));
        for limit in [1, 300, 1_500].map(Duration::from_millis) {
            let (mut start, mut last) = (None, None::<Duration>);
            let found = plan(&problem, |_| {
                let now = processor_time();
                let since = last.map_or(Duration::ZERO, |last| now.saturating_sub(last));
                assert!(since < patience, "the last question was {since:?} ago, {long}");
                last = Some(now);
                now - *start.get_or_insert(now) < limit
            });
            let since = last.map_or(Duration::ZERO, |last| processor_time().saturating_sub(last));
            assert!(since < patience, "the answer was no, {since:?} ago");
            verify(&items, &found.offsets, found.height).unwrap();
        }
    }
}

#[test]
fn the_first_plan_of_many_items_is_there_soon() {
    const TIMES: u32 = 4;
    for long in [u64::MAX, 300] {
        let items = generated(300_000, long, 3);
        let taken = |work: &dyn Fn()| {
            let start = processor_time();
            work();
            processor_time() - start
        };
        let problem = Problem::new(&items).unwrap();
        let read = (0..3).map(|_| taken(&|| _ = Problem::new(&items))).min().unwrap();
        let first = (0..3).map(|_| taken(&|| _ = plan(&problem, |_| false))).min().unwrap();
        assert!(first < TIMES * read, "{first:?} after {read:?} for the problem, {long}");
        let found = plan(&problem, |_| false);
        verify(&items, &found.offsets, found.height).unwrap();
        assert!(2 * found.load > found.height, "{} of {}", found.height, found.load);
    }
}

#[test]
fn mixed_alignments_are_bounded_in_a_few_times_the_time_of_one() {
    const COUNT: u64 = 200_000;
    let taken = |items: &[Item]| {
        let once = |_| {
            let start = processor_time();
            Problem::new(items).unwrap();
            processor_time() - start
        };
        (0..3).map(once).min().unwrap()
    };
    for (long, alignments) in [(2_000, [64, 64, 65536]), (2, [64, 65536, 65536]), (2_000, [65536; 3])] {
        let mut below = random(9);
        let mut item = || {
            let lower = below(COUNT);
            let item = Item::new(1 + below(4096), lower, lower + 1 + below(long));
            item.aligned(alignments[below(3) as usize])
        };
        let mut items: Vec<Item> = (0..COUNT).map(|_| item()).collect();
        // A few small items among large ones, so that every section is examined.
        items.extend((0..COUNT).step_by(5_000).map(|lower| Item::new(1, lower, lower + 6_000)));
        let one: Vec<Item> = items.iter().map(|item| item.aligned(64)).collect();
        let (mixed, one) = (taken(&items), taken(&one));
        assert!(mixed < 60 * one, "{long}, {alignments:?}: {mixed:?}, of one alignment {one:?}");
    }
}

/// Returns the processor time of this thread if the system reports it, so that other programs do not count; else the
/// wall time.
fn processor_time() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = text.and_then(|text| text.split_whitespace().next()?.parse().ok()).map(Duration::from_nanos);
    spent.unwrap_or_else(|| START.get_or_init(Instant::now).elapsed())
}

fn beside_the_checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data")
}

/// Returns the CSV files in the folder's folders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default()
    };
    let mut files: Vec<PathBuf> = entries(folder).iter().flat_map(|folder| entries(folder)).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "csv"));
    files.sort();
    files
}

fn read(path: &Path) -> Vec<Item> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let column = |name: &str| head.iter().position(|&column| column == name);
    let [lower, upper, size] = ["lower", "upper", "size"].map(|name| column(name).unwrap());
    let alignment = column("alignment");
    let item = |cells: Vec<&str>| {
        let number = |column: usize| cells[column].parse::<u64>().unwrap();
        Item::new(number(size), number(lower), number(upper)).aligned(alignment.map_or(1, number))
    };
    lines.map(item).collect()
}
