//! Measures several heaps, pages and replanning after a small change: `cargo run --release --example alias_heaps`.
//!
//! Prints tables of `planner/docs/measured.md`. Every plan is checked by `verify_heaps`.

use std::time::{Duration, Instant};

use ringfence_planner::{
    Heap, HeapItem, HeapOffset, HeapProblem, Item, Problem, plan, plan_heaps, replan_heaps, verify_heaps,
};

/// Number of runs. The least time counts, which excludes other work of the machine.
const RUNS: usize = 200;

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// Generates items of 4 KiB to 1 MiB that live for up to 40 moments, with as many moments as items; a third has another
/// kind.
fn items(many: u64, random: &mut Random) -> Vec<HeapItem> {
    let one = |_| item(many, random);
    (0..many).map(one).collect()
}

fn item(many: u64, random: &mut Random) -> HeapItem {
    let lower = random.below(many);
    let size = (1 + random.below(256)) << 12;
    let item = Item::new(size, lower, lower + 1 + random.below(40)).aligned(256);
    HeapItem::new(item).of_kind(u32::from(random.below(3) == 0)).preferring(&[0, 1])
}

fn heaps(load: u64, percent: u64, granularity: u64) -> [Heap; 2] {
    let capacity = load / 100 * percent;
    [Heap { granularity, ..Heap::new(capacity) }, Heap { class: 1, ..Heap::new(u64::MAX) }]
}

fn load(items: &[HeapItem]) -> u64 {
    let plain: Vec<Item> = items.iter().map(|held| held.item).collect();
    Problem::new(&plain).expect("the items are valid").load()
}

fn again(many: u64, changed: u64, percent: u64, granularity: u64, heap_count: usize) {
    let mut random = Random(7);
    let mut items = items(many, &mut random);
    let heaps = &heaps(load(&items), percent, granularity)[..heap_count];
    let problem = HeapProblem::new(heaps, &items).expect("the items are valid");
    let started = Instant::now();
    let first = plan_heaps(&problem, |_| started.elapsed() < Duration::from_secs(1)).expect("there is a plan");
    let mut last: Vec<Option<HeapOffset>> = first.offsets.iter().copied().map(Some).collect();
    for _ in 0..changed {
        let place = random.below(many) as usize;
        (items[place], last[place]) = (item(many, &mut random), None);
    }
    let (mut whole, mut alone) = (Duration::MAX, Duration::MAX);
    let mut kept = 0;
    let mut heights = Vec::new();
    for _ in 0..RUNS {
        let started = Instant::now();
        let problem = HeapProblem::new(heaps, &items).expect("the items are valid");
        let made = Instant::now();
        let found = replan_heaps(&problem, &last, |_| true).expect("there is a plan");
        (whole, alone) = (whole.min(started.elapsed()), alone.min(made.elapsed()));
        verify_heaps(heaps, &items, &found.plan.offsets).expect("the plan is valid");
        (kept, heights) = (found.kept_count, found.plan.heights);
    }
    let unchanged = last.iter().flatten().count();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "| {many} | {changed} | {heap_count} | {percent} | {granularity} | {kept} of {unchanged} | {:.3} | {:.0} | \
         {:.0} |",
        heights.iter().sum::<u64>() as f64 / problem.lower_bound() as f64,
        micros(alone),
        micros(whole)
    );
}

fn pages(granularity: u64) {
    let items = items(1_000, &mut Random(7));
    let heaps = heaps(load(&items), 200, granularity);
    let problem = HeapProblem::new(&heaps, &items).expect("the items are valid");
    let started = Instant::now();
    let found = plan_heaps(&problem, |_| started.elapsed() < Duration::from_secs(2)).expect("there is a plan");
    verify_heaps(&heaps, &items, &found.offsets).expect("the plan is valid");
    let ratio = found.height() as f64 / problem.lower_bound() as f64;
    println!("| {granularity} | {ratio:.4} | {:.2} |", started.elapsed().as_secs_f64());
}

fn preferred(percent: u64) {
    let items = items(1_000, &mut Random(7));
    let load = load(&items);
    let heaps = heaps(load, percent, 1);
    let problem = HeapProblem::new(&heaps, &items).expect("the items are valid");
    let started = Instant::now();
    let found = plan_heaps(&problem, |_| started.elapsed() < Duration::from_secs(2)).expect("there is a plan");
    verify_heaps(&heaps, &items, &found.offsets).expect("the plan is valid");
    let outside = found.offsets.iter().filter(|at| at.heap == 1).count();
    let bytes = found.fallback_bytes as f64 / items.iter().map(|held| held.item.size).sum::<u64>() as f64;
    println!("| {percent} | {outside} | {:.1} | {:.2} |", 100.0 * bytes, started.elapsed().as_secs_f64());
}

fn main() {
    println!(
        "| items | changed | heaps | the first, % of the load | page | kept | height / bound | again µs | with the \
         problem µs |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (many, changed, percent, granularity, heap_count) in [
        (1_000, 1, 110, 1, 1),
        (1_000, 10, 110, 1, 1),
        (1_000, 100, 110, 1, 1),
        (1_000, 1, 104, 1, 1),
        (1_000, 10, 104, 1, 1),
        (1_000, 10, 80, 1, 2),
        (1_000, 10, 110, 65_536, 1),
        (10_000, 10, 110, 1, 1),
    ] {
        again(many, changed, percent, granularity, heap_count);
    }
    println!("\n| page | height / load | s |\n|--:|--:|--:|");
    [1, 4 << 10, 64 << 10, 256 << 10].into_iter().for_each(pages);
    println!("\n| first heap, % of the load | items in the second | % of all bytes | s |\n|--:|--:|--:|--:|");
    [100, 90, 75, 50].into_iter().for_each(preferred);
    let items: Vec<Item> = items(1_000, &mut Random(7)).iter().map(|held| held.item).collect();
    let started = Instant::now();
    let one = plan(&Problem::new(&items).expect("the items are valid"), |_| started.elapsed() < Duration::from_secs(2));
    println!(
        "\nAll in one heap without kinds: {:.4}, {:.2} s",
        one.height as f64 / one.load as f64,
        started.elapsed().as_secs_f64()
    );
}
