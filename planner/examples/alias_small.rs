//! Counts the small problems that are proven within ten milliseconds, by shape and by number of items.
//!
//! ```text
//! cargo run --release -p ringfence-planner --example alias_small [CASES-OF-EACH]
//! ```
//!
//! The time is wall time. It is measured again if it was above the limit, so that the work of other programs does not
//! count.

#[allow(dead_code, reason = "each example uses a part")]
mod shapes;

use ringfence_planner::{AliasPlan, Item, Lifetime, PassGraph, PassItem, Problem, RecurringItem, plan, verify};
use shapes::Random;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_millis(10);
const LAST: Duration = Duration::from_secs(1);

type Shape = (&'static str, fn(usize, &mut Random) -> Vec<Item>);

const SHAPES: [Shape; 5] = [
    ("uniform", shapes::uniform),
    ("tight", shapes::tight),
    ("training", shapes::training),
    ("frame", |count, random| shapes::frame(count, 0, random)),
    ("frame, MSAA", |count, random| shapes::frame(count, 3, random)),
];

fn planned(items: &[Item], limit: Duration) -> (AliasPlan, Duration) {
    let start = Instant::now();
    let problem = Problem::new(items).expect("the items are valid");
    let plan = plan(&problem, |_| start.elapsed() < limit);
    let time = start.elapsed();
    verify(items, &plan.offsets, plan.height).expect("the plan is valid");
    (plan, time)
}

/// Kind of problem.
#[derive(Clone, Copy)]
enum Kind {
    Intervals,
    Recurring,
    Passes,
}

/// Generates 9 to 40 items with up to three lifetimes each, or with one or two of up to 14 passes each.
fn problem(kind: Kind, is_mixed: bool, random: &mut Random) -> Problem {
    let count = 9 + random.below(32) as usize;
    let (span, length) = (2 + random.below(40), 1 + random.below(20));
    let most = [6, 30, 1_000, 1 << 20][random.below(4) as usize];
    let sizes: Vec<u64> = (0..count).map(|_| 1 + random.below(most)).collect();
    let alignments: Vec<u64> = (0..count).map(|_| if is_mixed { 1 << (2 * random.below(3)) } else { 1 }).collect();
    let life = |random: &mut Random| {
        let lower = random.below(span);
        Lifetime { lower, upper: lower + 1 + random.below(length) }
    };
    let each = sizes.into_iter().zip(alignments);
    let problem = match kind {
        Kind::Intervals => Problem::new(
            &each
                .map(|(size, alignment)| Item { lifetime: life(random), ..Item::new(size, 0, 1).aligned(alignment) })
                .collect::<Vec<_>>(),
        ),
        Kind::Recurring => RecurringItem::problem(
            &each
                .map(|(size, alignment)| {
                    let lifetimes = (0..1 + random.below(3)).map(|_| life(random)).collect();
                    RecurringItem { size, alignment, lifetimes }
                })
                .collect::<Vec<_>>(),
        ),
        Kind::Passes => {
            let passes = 3 + random.below(12) as usize;
            let pairs = (0..passes).flat_map(|before| (before + 1..passes).map(move |after| (before, after)));
            let edges: Vec<_> = pairs.filter(|_| random.below(4) == 0).collect();
            let graph = PassGraph::new(passes, &edges).expect("edges go forwards");
            let mut used = || (0..1 + random.below(2)).map(|_| random.below(passes as u64) as usize).collect();
            Problem::with_passes(
                &graph,
                &each.map(|(size, alignment)| PassItem { size, alignment, passes: used() }).collect::<Vec<_>>(),
            )
        }
    };
    problem.expect("the items are valid")
}

/// Prints the number of problems of each kind that are proven in time.
fn kinds(cases: u64) {
    println!("\n| kind | alignments | cases | proven in 10 ms |\n|---|---|--:|--:|");
    let all = [("intervals", Kind::Intervals), ("recurring", Kind::Recurring), ("passes", Kind::Passes)];
    for (name, kind) in all {
        for (alignments, is_mixed) in [("one", false), ("mixed", true)] {
            let is_proven = |seed: &u64| {
                let problem = problem(kind, is_mixed, &mut Random::new(seed + 1));
                // Repeated, so that the work of other programs does not count.
                (0..3).any(|_| {
                    let start = Instant::now();
                    plan(&problem, |_| start.elapsed() < LIMIT).is_proven()
                })
            };
            println!("| {name} | {alignments} | {cases} | {} |", (0..cases).filter(is_proven).count());
        }
    }
}

fn main() {
    let cases = std::env::args().nth(1).map_or(400, |text| text.parse().expect("a number"));
    println!(
        "| shape | items | cases | proven in 10 ms | above the bound by, at most | proven in 1 s | median µs | 99 of \
         100 µs | longest over 10 ms |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (name, shape) in SHAPES {
        for count in [10, 20, 30, 40] {
            let (mut proven, mut later, mut gap, mut over) = (0, 0, 1.0_f64, Duration::ZERO);
            let mut times = Vec::new();
            for seed in 0..cases {
                let items = shape(count, &mut Random::new(seed + 1));
                let (mut plan, mut time) = planned(&items, LIMIT);
                for _ in 0..2 {
                    if !plan.is_proven() || time > LIMIT {
                        let again = planned(&items, LIMIT);
                        (plan, time) = if again.0.is_proven() || !plan.is_proven() { again } else { (plan, time) };
                    }
                }
                times.push(time);
                if plan.is_proven() {
                    proven += 1;
                } else {
                    over = over.max(time.saturating_sub(LIMIT));
                    gap = gap.max(plan.height as f64 / plan.lower_bound as f64);
                    let is_proven = planned(&items, LAST).0.is_proven();
                    later += u32::from(is_proven);
                }
            }
            times.sort();
            let at = |part: usize| times[times.len() * part / 100].as_micros();
            println!(
                "| {name} | {count} | {cases} | {proven} | {gap:.4} | {later} of {} | {} | {} | {over:?} |",
                cases as u32 - proven,
                at(50),
                at(99)
            );
        }
    }
    kinds(4 * cases);
}
