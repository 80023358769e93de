//! The table of all cases: bound, simple policies, ours, and how long the planner took.
//!
//! ```text
//! RINGFENCE_CASES=../shared/data cargo run --release -p ringfence-core --example alias_cases [SECONDS [NAME…]]
//! ```
//!
//! Reads every `alias/*/*.csv` of that folder (`id,lower,upper,size[,alignment[,…]]`) whose path holds one of the names.
//! Where the folder is absent it says so, and plans generated items instead.

use ringfence_core::alias::{
    AliasPlan, Item, ItemClass, PlanCache, Policy, Problem, class_costs, lower_transitions, plan, plan_by, transitions,
    verify,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(2.0, |text| text.parse().expect("seconds, a number"));
    let names: Vec<String> = arguments.collect();
    let folder = PathBuf::from(std::env::var_os("RINGFENCE_CASES").unwrap_or("../shared/data".into())).join("alias");
    println!(
        "{:<28} {:>6} {:>13} {:>8} {:>8} {:>8} {:>13} {:>13} {:>10} {:>10} {:>10}",
        "case", "n", "bound", "online", "by size", "ours", "height", "proven", "first ms", "best ms", "proof ms"
    );
    let cases = cases(&folder);
    if cases.is_empty() {
        println!("no cases in {}: generated items only", folder.display());
    }
    for count in [1_000, 100_000, 1_000_000] {
        let name = format!("generated {count}");
        if cases.is_empty() || names.iter().any(|wanted| name.contains(wanted.as_str())) {
            show(&name, &generated(count), seconds);
        }
    }
    let name = |path: &Path| path.strip_prefix(&folder).unwrap_or(path).display().to_string();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| name.contains(wanted.as_str()));
    for path in cases.iter().filter(|path| wanted(&name(path))) {
        show(&name(path), &read(path), seconds);
    }
    println!(
        "\n{:<34} {:>10} {:>10} {:>12} {:>12} {:>10}",
        "frame", "apart", "lookup ns", "transitions", "fewer", "fewer ms"
    );
    for path in cases.iter().filter(|path| name(path).starts_with("frames") && wanted(&name(path))) {
        show_frame(&name(path), &read(path));
    }
}

/// What a frame costs by class, looked up again, and in barriers.
fn show_frame(name: &str, items: &[Item]) {
    let steps = |limit: u32| {
        let mut left = limit;
        move || {
            left = left.saturating_sub(1);
            left > 0
        }
    };
    let mut go_on = steps(200);
    let costs = class_costs(items, |_| go_on()).expect("items that can be planned");
    let mut cache = PlanCache::new(8);
    cache.insert(items, costs.together.clone());
    let start = Instant::now();
    const ROUNDS: u32 = 100_000;
    for _ in 0..ROUNDS {
        std::hint::black_box(cache.get(std::hint::black_box(items)));
    }
    let lookup = start.elapsed() / ROUNDS;
    let mut fewer = costs.together.clone();
    let before = transitions(items, &fewer.offsets).len();
    let start = Instant::now();
    let after = lower_transitions(items, &mut fewer, |_| true);
    let elapsed = start.elapsed();
    println!(
        "{name:<34} {:>10.4} {:>10} {before:>12} {after:>12} {:>10.2}",
        costs.apart_height() as f64 / costs.together.height as f64,
        lookup.as_nanos(),
        1000.0 * elapsed.as_secs_f64(),
    );
}

fn cases(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default()
    };
    let mut cases: Vec<PathBuf> = entries(folder).iter().flat_map(|folder| entries(folder)).collect();
    cases.retain(|path| path.extension().is_some_and(|extension| extension == "csv"));
    cases.sort();
    cases
}

fn read(path: &Path) -> Vec<Item> {
    let text = std::fs::read_to_string(path).expect("the case can be read");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("a head line");
    let column = |name: &str| head.iter().position(|&column| column == name);
    let (lower, upper) = (column("lower").expect("lower"), column("upper").expect("upper"));
    let (size, alignment) = (column("size").expect("size"), column("alignment"));
    let category = column("category");
    let item = |cells: Vec<&str>| {
        let number = |column: usize| cells[column].parse::<u64>().expect("a number");
        let class = match category.map(|column| cells[column]) {
            Some("rtds") => ItemClass::RenderTarget,
            Some("tex") => ItemClass::Texture,
            _ => ItemClass::Buffer,
        };
        Item { class, ..Item::new(number(size), number(lower), number(upper)).aligned(alignment.map_or(1, number)) }
    };
    lines.map(item).collect()
}

fn generated(count: u64) -> Vec<Item> {
    let mut state = 1_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut item = || {
        let lower = random(count);
        Item::new(1 + random(1 << 20), lower, lower + 1 + random(40))
    };
    (0..count).map(|_| item()).collect()
}

/// When what was reached, since the start.
struct Times {
    first: Duration,
    best: Duration,
}

fn timed(items: &[Item], seconds: f64) -> (AliasPlan, Times, Duration) {
    let start = Instant::now();
    let problem = Problem::new(items).expect("items that can be planned");
    let mut times: Option<Times> = None;
    let mut height = u64::MAX;
    let plan = plan(&problem, |progress| {
        let now = start.elapsed();
        if progress.height < height {
            height = progress.height;
            times = Some(Times { first: times.as_ref().map_or(now, |times| times.first), best: now });
        }
        now.as_secs_f64() < seconds
    });
    let end = start.elapsed();
    (plan, times.unwrap_or(Times { first: end, best: end }), end)
}

fn show(name: &str, items: &[Item], seconds: f64) {
    let problem = Problem::new(items).expect("items that can be planned");
    let bound = problem.load();
    // The simple policies are quadratic.
    let simple = |policy| if items.len() > 50_000 { 0 } else { plan_by(&problem, policy).height };
    let (online, by_size) = (simple(Policy::OnlineFirstFit), simple(Policy::BySize));
    let (plan, times, end) = timed(items, seconds);
    verify(items, &plan.offsets, plan.height).expect("the plan is one");
    let ratio = |height: u64| height as f64 / bound as f64;
    let ms = |time: Duration| format!("{:.3}", 1000.0 * time.as_secs_f64());
    let proof = if plan.is_proven() { ms(end) } else { "-".into() };
    println!(
        "{name:<28} {:>6} {bound:>13} {:>8.4} {:>8.4} {:>8.5} {:>13} {:>13} {:>10} {:>10} {proof:>10}",
        items.len(),
        ratio(online),
        ratio(by_size),
        ratio(plan.height),
        plan.height,
        plan.lower_bound,
        ms(times.first),
        ms(times.best),
    );
}
