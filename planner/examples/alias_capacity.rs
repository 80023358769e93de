//! Measures the time until there is a plan within a capacity, on one thread and on several, and the lowest plan in a
//! given time.
//!
//! ```text
//! cargo run --release -p ringfence-planner --features threads --example alias_capacity CAPACITY THREADS SECONDS FILE…
//! cargo run --release -p ringfence-planner --features threads --example alias_capacity check CAPACITY FILE…
//! ```
//!
//! A capacity of 0 stands for the load, which is a lower bound. `check` verifies finished plans of any planner: files
//! with a column `offset`. Every plan is verified by the checker, which shares no code with the planners.

use ringfence_planner::{AliasPlan, Item, PlanDesc, Problem, plan, plan_with, verify};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// A case that takes less than `SHORT` is planned `ROUNDS` times more, and the least time counts.
const SHORT: Duration = Duration::from_millis(500);
const ROUNDS: usize = 6;

/// Returns the named columns of each row.
fn columns<const N: usize>(path: &str, names: [&str; N]) -> Vec<[u64; N]> {
    let text = std::fs::read_to_string(path).expect("the case can be read");
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().expect("a header line").split(',').collect();
    let places = names.map(|name| head.iter().position(|&column| column == name).expect("the column"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        places.map(|place| cells[place].parse().expect("a number"))
    };
    lines.map(row).collect()
}

fn items(path: &str) -> Vec<Item> {
    let rows = columns(path, ["lower", "upper", "size"]);
    rows.into_iter().map(|[lower, upper, size]| Item::new(size, lower, upper)).collect()
}

/// Returns a plan within the capacity, or the lowest plan within the time limit, and the time at which it was found.
fn planned(items: &[Item], capacity: u64, threads: usize, limit: Duration) -> (AliasPlan, Duration) {
    let start = Instant::now();
    let problem = Problem::new(items).expect("the items are valid");
    let (capacity, mut height, mut reached) = (capacity.max(problem.load()), u64::MAX, Duration::ZERO);
    let go_on = |progress: &ringfence_planner::Progress| {
        let now = start.elapsed();
        if progress.height < height {
            (height, reached) = (progress.height, now);
        }
        height > capacity && now < limit
    };
    let found = match NonZeroUsize::new(threads).filter(|threads| threads.get() > 1) {
        Some(threads) => plan_with(&problem, &PlanDesc { threads, seed: 0 }, go_on),
        None => plan(&problem, go_on),
    };
    if found.height <= capacity && found.height < height {
        reached = start.elapsed();
    }
    verify(items, &found.offsets, found.height).expect("the plan is valid");
    (found, reached)
}

/// Returns the height divided by the capacity, and the time, as cells of a table.
fn cells(items: &[Item], capacity: u64, threads: usize, limit: Duration) -> String {
    let capacity = capacity.max(Problem::new(items).expect("the items are valid").load());
    let (found, mut time) = planned(items, capacity, threads, limit);
    for _ in 0..if time < SHORT && found.height <= capacity { ROUNDS } else { 0 } {
        time = time.min(planned(items, capacity, threads, limit).1);
    }
    let ratio = found.height as f64 / capacity as f64;
    let met = if found.height <= capacity { "" } else { " (not met)" };
    format!("{} | {ratio:.4}{met} | {:.1}", found.height, 1000.0 * time.as_secs_f64())
}

fn check(path: &str, capacity: u64) {
    let items = items(path);
    let offsets: Vec<u64> = columns(path, ["offset"]).into_iter().map(|[offset]| offset).collect();
    let height = items.iter().zip(&offsets).map(|(item, offset)| item.size + offset).max().unwrap_or(0);
    let answer = match verify(&items, &offsets, height) {
        Ok(()) if height <= capacity => "a plan within the capacity".to_owned(),
        Ok(()) => "a plan above the capacity".to_owned(),
        Err(violation) => format!("NO PLAN: {violation}"),
    };
    println!("{path}: {height}, {answer}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok()).expect("a number");
    if arguments.first().is_some_and(|first| first == "check") {
        arguments[2..].iter().for_each(|path| check(path, number(1)));
        return;
    }
    let (capacity, threads, limit) = (number(0), number(1) as usize, Duration::from_secs(number(2)));
    println!("| case | items | load | height | over the capacity | ms, {threads} at a time |");
    println!("|---|--:|--:|--:|--:|--:|");
    for path in &arguments[3..] {
        let items = items(path);
        let name = std::path::Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
        let load = Problem::new(&items).expect("the items are valid").load();
        println!("| {name} | {} | {load} | {} |", items.len(), cells(&items, capacity, threads, limit));
    }
}
