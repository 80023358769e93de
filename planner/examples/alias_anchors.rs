//! Compares the planner with plain greedy orders on large inputs of long lifetimes. The greedy code here is independent
//! of the planner.
//!
//! ```text
//! RINGFENCE_CASES=../shared/data cargo run --release -p ringfence-planner --example alias_anchors [SECONDS [COUNT…]]
//! ```

#[allow(dead_code, reason = "each example uses a part")]
mod shapes;

use ringfence_planner::{Item, Problem, plan, verify};
use shapes::Random;
use std::cmp::Reverse;
use std::time::Instant;

/// Largest number of items for the greedy orders, which are quadratic.
const ANCHORED_MAX: usize = 70_000;
/// Times at which the best plan so far is recorded, in milliseconds.
const MOMENTS: [u128; 6] = [500, 1_000, 2_000, 5_000, 20_000, 60_000];

/// Places each item in the given order in the lowest gap, or the tightest one, among the placed items that are alive
/// with it.
fn greedy(items: &[Item], order: &[usize], best_fit: bool) -> Vec<u64> {
    let mut placed: Vec<(u64, u64, u64, u64)> = Vec::new();
    let mut offsets = vec![0; items.len()];
    for &at in order {
        let Item { size, alignment, lifetime, .. } = items[at];
        let (mut floor, mut found) = (0_u64, None::<(u64, u64)>);
        for &(offset, end, lower, upper) in &placed {
            if lower >= lifetime.upper || lifetime.lower >= upper {
                continue;
            }
            let start = floor.next_multiple_of(alignment);
            if start + size <= offset && found.is_none_or(|(left, _)| offset - floor - size < left) {
                found = Some((offset - floor - size, start));
                if !best_fit {
                    break;
                }
            }
            floor = floor.max(end);
        }
        let offset = found.map_or(floor.next_multiple_of(alignment), |(_, start)| start);
        offsets[at] = offset;
        let place = placed.partition_point(|other| other.0 < offset);
        placed.insert(place, (offset, offset + size, lifetime.lower, lifetime.upper));
    }
    offsets
}

/// Returns known orders: by size, by duration, by area and by start, descending.
fn orders(items: &[Item]) -> [(&'static str, Vec<usize>); 4] {
    let length = |at: usize| items[at].lifetime.upper - items[at].lifetime.lower;
    let by = |key: &dyn Fn(usize) -> Reverse<u128>| {
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by_key(|&at| key(at));
        order
    };
    let size = |at: usize| u128::from(items[at].size);
    let mut by_start: Vec<usize> = (0..items.len()).collect();
    by_start.sort_by_key(|&at| (items[at].lifetime.lower, Reverse(items[at].lifetime.upper)));
    [
        ("size", by(&|at| Reverse(size(at) << 64 | u128::from(length(at))))),
        ("lifetime", by(&|at| Reverse(u128::from(length(at)) << 64 | size(at)))),
        ("area", by(&|at| Reverse(size(at) * u128::from(length(at))))),
        ("start", by_start),
    ]
}

fn show(name: &str, items: &[Item], seconds: f64) {
    let problem = Problem::new(items).expect("the items are valid");
    let bound = problem.lower_bound();
    let ratio = |height: u64| height as f64 / bound as f64;
    println!("{name}: {} items", items.len());
    if items.len() <= ANCHORED_MAX && seconds > 0.0 && std::env::var_os("NO_ANCHORS").is_none() {
        for (order, sorted) in orders(items) {
            for best_fit in [false, true] {
                let start = Instant::now();
                let offsets = greedy(items, &sorted, best_fit);
                let time = start.elapsed();
                let height = offsets.iter().zip(items).map(|(offset, item)| offset + item.size).max().unwrap_or(0);
                verify(items, &offsets, height).expect("the plan is valid");
                println!(
                    "  by {order}, {} fit: {:.5} in {time:?}",
                    if best_fit { "best" } else { "first" },
                    ratio(height)
                );
            }
        }
    }
    let start = Instant::now();
    let problem = Problem::new(items).expect("the items are valid");
    let (mut height, mut moment) = (u64::MAX, 0);
    println!("  problem in {:?}", start.elapsed());
    let mut trail = Vec::new();
    let found = plan(&problem, |progress| {
        let now = start.elapsed();
        while moment < MOMENTS.len() && now.as_millis() > MOMENTS[moment] {
            print!("  after {} ms {:.5}", MOMENTS[moment], if height == u64::MAX { 0.0 } else { ratio(height) });
            moment += 1;
        }
        if progress.height < height {
            height = progress.height;
            trail.push((now.as_millis(), ratio(height)));
        }
        now.as_secs_f64() < seconds
    });
    verify(items, &found.offsets, found.height).expect("the plan is valid");
    println!("\n  planner: {:.5} in {:?}, proven: {}", ratio(found.height), start.elapsed(), found.is_proven());
    let shown: Vec<String> = trail.iter().map(|(ms, ratio)| format!("{ms}:{ratio:.5}")).collect();
    println!(
        "  {}",
        if shown.len() > 16 {
            format!("{} … {}", shown[..12].join(" "), shown[shown.len() - 4..].join(" "))
        } else {
            shown.join(" ")
        }
    );
}

fn read(path: &std::path::Path) -> Option<Vec<Item>> {
    let text = std::fs::read_to_string(path).ok()?;
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let item = |line: &str| {
        let cells: Vec<u64> = line.split(',').skip(1).take(3).map(number).collect();
        Item::new(cells[2], cells[0], cells[1])
    };
    Some(text.lines().skip(1).map(item).collect())
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(20.0, |text| text.parse().expect("seconds, a number"));
    let counts: Vec<usize> = arguments.map(|text| text.parse().expect("a number")).collect();
    let folder = std::path::PathBuf::from(std::env::var_os("RINGFENCE_CASES").unwrap_or("../shared/data".into()));
    if let Some(items) = read(&folder.join("alias/idealloc/S_1.csv")) {
        show("idealloc/S_1", &items, seconds);
        // The same items twice, the second set starting in the middle of the first.
        let end = items.iter().map(|item| item.lifetime.upper).max().unwrap_or(0);
        let later = items.iter().map(|item| {
            Item::new(item.size + item.size / 7, item.lifetime.lower + end / 2, item.lifetime.upper + end / 2)
        });
        show("idealloc/S_1 twice", &items.iter().copied().chain(later).collect::<Vec<_>>(), seconds);
    } else {
        println!("no cases in {}: generated ones only", folder.display());
    }
    let counts = if counts.is_empty() { vec![62_185] } else { counts };
    for count in counts {
        show("long-lived", &shapes::long_lived(count, &mut Random::new(3)), seconds);
    }
}
