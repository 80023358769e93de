//! Measures the planner on all cases: bound, simple policies, the planner's plan, and the times. Prints
//! `planner/docs/measured.md`.
//!
//! ```text
//! RINGFENCE_CASES=../shared/data cargo run --release -p ringfence-planner --example alias_cases [SECONDS [NAME…]]
//! ```
//!
//! If `RINGFENCE_SVG` names a file, the picture of the page is written to it.
//!
//! Reads every `alias/*/*.csv` of that folder (`id,lower,upper,size[,alignment[,…]]`) that contains one of the names in
//! its path. If the folder is absent, it prints a message and plans only generated items. The planner uses one thread.
//! A case of less than 50 ms is planned 21 times, and the shortest wall time is printed. For a longer case it is the
//! processor time of one run if the system reports it, else wall time.

#[path = "alias_cases/scaling.rs"]
mod scaling;
#[allow(dead_code, reason = "each example uses a part")]
mod shapes;

use ringfence_planner::{AliasPlan, Item, Policy, Problem, lower_transitions, plan, plan_by, transitions, verify};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Text around the tables.
const HEAD: &str = include_str!("alias_cases/head.md");
const FRAMES: &str = include_str!("alias_cases/frames.md");
const FIRST: &str = include_str!("alias_cases/first.md");
const SCALING: &str = include_str!("alias_cases/scaling.md");
const LIMITS: &str = include_str!("alias_cases/limits.md");
// Results of other examples; the text names them.
const LARGE_AND_SMALL: &str = include_str!("alias_cases/large_and_small.md");
const HEAPS: &str = include_str!("alias_cases/heaps.md");
const TVM: &str = include_str!("alias_cases/tvm.md");

/// A case that takes less than `SHORT` is planned `ROUNDS` times more, to time it.
const SHORT: Duration = Duration::from_millis(50);
const ROUNDS: u32 = 20;
/// Largest number of items for the policies, which are quadratic.
const COMPARED_MAX: usize = 50_000;
/// Calls of the closure in planning one frame's classes.
const CLASS_STEPS: u32 = 200;
/// Steps of lowering transitions within a frame: the default of a transient allocator.
const FRAME_STEPS: u64 = 6_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(10.0, |text| text.parse().expect("seconds, a number"));
    let names: Vec<String> = arguments.collect();
    let folder = PathBuf::from(std::env::var_os("RINGFENCE_CASES").unwrap_or("../shared/data".into())).join("alias");
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| name.contains(wanted.as_str()));
    let mut cases: Vec<Case> = files(&folder).iter().map(|path| Case::read(&folder, path)).collect();
    if cases.is_empty() {
        eprintln!("no cases in {}: generated ones only", folder.display());
    }
    cases.extend([1_000, 10_000, 100_000, 1_000_000].map(Case::generated));
    cases.retain(|case| wanted(&case.name));
    print!("{HEAD}");
    show(&TABLE_HEAD.map(String::from));
    let mut challenge = Duration::ZERO;
    for case in &cases {
        let times = case.show(seconds);
        if case.is_challenge() {
            challenge += times.good;
        }
    }
    if cases.iter().filter(|case| case.is_challenge()).count() == 7 {
        println!(
            "\nThe seven challenge cases are at their best known heights after {} ms all together.",
            ms(challenge)
        );
    }
    print!("{FRAMES}");
    show(&FRAME_HEAD.map(String::from));
    cases.iter().filter(|case| case.name.starts_with("frames")).for_each(Case::show_frame);
    print!("{FIRST}");
    show(&["resources", "first plan µs"].map(String::from));
    let frames = cases.iter().filter(|case| case.name.starts_with("frames"));
    frames.chain(&[Case::generated(55), Case::generated(1_000)]).for_each(Case::show_first);
    print!("{SCALING}");
    let points = if names.is_empty() { scaling::points() } else { Vec::new() };
    scaling::table(&points);
    if let Some(path) = std::env::var_os("RINGFENCE_SVG").filter(|_| names.is_empty()) {
        std::fs::write(path, scaling::svg(&points)).expect("the picture can be written");
    }
    print!("{LIMITS}");
    if names.is_empty() {
        scaling::limits();
    }
    print!("{LARGE_AND_SMALL}");
    print!("{HEAPS}");
    print!("{TVM}");
}

const TABLE_HEAD: [&str; 10] =
    ["case", "items", "load", "bound", "first-fit", "by size", "ours", "first ms", "best ms", "proof ms"];

const FRAME_HEAD: [&str; 9] =
    ["frame", "together", "apart", "apart / together", "transitions", "in a frame", "µs", "in the end", "ms"];

/// Prints a row of a table, and a rule below a heading.
fn show(cells: &[String]) {
    let mut line = String::from("|");
    for (at, cell) in cells.iter().enumerate() {
        let _ = if at == 0 { write!(line, " {cell:<18} |") } else { write!(line, " {cell:>13} |") };
    }
    println!("{line}");
    if ["case", "frame", "resources"].contains(&cells[0].as_str()) {
        let rule = cells.iter().enumerate().map(|(at, _)| if at == 0 { "---|" } else { "--:|" });
        println!("|{}", rule.collect::<String>());
    }
}

fn ms(time: Duration) -> String {
    let ms = 1000.0 * time.as_secs_f64();
    if ms < 10.0 { format!("{ms:.3}") } else { format!("{ms:.0}") }
}

/// Processor time of this thread if the system reports it, else wall time.
#[derive(Clone, Copy)]
struct Clock {
    wall: Instant,
    processor: Option<Duration>,
}

impl Clock {
    fn start() -> Self {
        // Reading the processor time takes microseconds, which must not count.
        let processor = processor();
        Self { wall: Instant::now(), processor }
    }

    /// Returns the wall time if it is short, since the system counts processor time in whole ticks of the scheduler.
    fn elapsed(&self) -> Duration {
        let wall = self.wall.elapsed();
        if wall < SHORT {
            return wall;
        }
        match (self.processor, processor()) {
            (Some(before), Some(now)) => wall.min(now - before),
            _ => wall,
        }
    }
}

fn processor() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}

/// Items with a name.
struct Case {
    name: String,
    items: Vec<Item>,
    /// Class of each item: on Direct3D 12 heap tier 1, each class has heaps of its own.
    classes: Vec<Class>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Buffer,
    Texture,
    RenderTarget,
}

/// Times at which plans were found.
#[derive(Clone, Copy)]
struct Times {
    first: Duration,
    best: Duration,
    /// Time at which the best known height was reached, or the end.
    good: Duration,
    end: Duration,
}

impl Case {
    fn read(folder: &Path, path: &Path) -> Self {
        let name = path.strip_prefix(folder).unwrap_or(path).with_extension("").display().to_string();
        let (items, classes) = read(path);
        Self { name, items, classes }
    }

    fn generated(count: u64) -> Self {
        let mut state = 1_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut item = || {
            let lower = random(count);
            Item::new(1 + random(1 << 20), lower, lower + 1 + random(40))
        };
        let items = (0..count).map(|_| item()).collect();
        Self { name: format!("generated/{count}"), items, classes: vec![Class::Buffer; count as usize] }
    }

    /// Returns `true` for the cases that MiniMalloc's paper calls challenging.
    fn is_challenge(&self) -> bool {
        self.name.starts_with("minimalloc/") && self.name.ends_with("1048576")
    }

    /// Returns the lowest height that was known before.
    fn known(&self) -> u64 {
        let open = [("minimalloc/D.", 1_024_000)];
        open.iter().find(|(name, _)| self.name.starts_with(name)).map_or(0, |(_, height)| *height)
    }

    fn problem(&self) -> Problem {
        Problem::new(&self.items).expect("the items are valid")
    }

    /// Returns the plan, and the times at which plans were found.
    fn plan(&self, seconds: f64) -> (AliasPlan, Times) {
        let start = Clock::start();
        let problem = self.problem();
        let (mut first, mut best, mut good) = (None, Duration::ZERO, None);
        let mut height = u64::MAX;
        let known = self.known().max(problem.lower_bound());
        let plan = plan(&problem, |progress| {
            let improved = progress.height < height;
            if improved {
                let now = start.elapsed();
                height = progress.height;
                best = now;
                first.get_or_insert(now);
                if height <= known {
                    good.get_or_insert(now);
                }
            }
            // Processor time costs more to read, so it is only read once the wall time is over.
            start.wall.elapsed().as_secs_f64() < seconds || start.elapsed().as_secs_f64() < seconds
        });
        let end = start.elapsed();
        (plan, Times { first: first.unwrap_or(end), best, good: good.unwrap_or(end), end })
    }

    /// Returns the least times of several runs if the case is short.
    fn timed(&self, seconds: f64) -> (AliasPlan, Times) {
        let (plan, mut times) = self.plan(seconds);
        let rounds = if times.end < SHORT { ROUNDS } else { 0 };
        for _ in 0..rounds {
            let again = self.plan(seconds).1;
            times.first = times.first.min(again.first);
            times.best = times.best.min(again.best);
            times.good = times.good.min(again.good);
            times.end = times.end.min(again.end);
        }
        (plan, times)
    }

    fn show(&self, seconds: f64) -> Times {
        let problem = self.problem();
        let load = problem.load();
        let (plan, times) = self.timed(seconds);
        verify(&self.items, &plan.offsets, plan.height).expect("the plan is valid");
        let ratio = |height: u64| format!("{:.4}", height as f64 / plan.lower_bound as f64);
        let simple = |policy| match self.items.len() {
            ..=COMPARED_MAX => ratio(plan_by(&problem, policy).height),
            _ => "–".to_owned(),
        };
        let proof = if plan.is_proven() { ms(times.end) } else { "–".into() };
        let ours = if plan.is_proven() { "1".into() } else { ratio(plan.height) };
        let bound = if plan.lower_bound == load { "= load".into() } else { plan.lower_bound.to_string() };
        show(&[
            self.name.clone(),
            self.items.len().to_string(),
            load.to_string(),
            bound,
            simple(Policy::OnlineFirstFit),
            simple(Policy::BySize),
            ours,
            ms(times.first),
            ms(times.best),
            proof,
        ]);
        times
    }

    /// Prints the cost of a frame by class, and its barriers.
    fn show_frame(&self) {
        let mut left = CLASS_STEPS;
        let problem = self.problem();
        let together = plan(&problem, |_| countdown(&mut left));
        let mut apart = 0;
        for class in [Class::Buffer, Class::Texture, Class::RenderTarget] {
            let of_class = self.items.iter().zip(&self.classes).filter(|(_, other)| **other == class);
            let items: Vec<Item> = of_class.map(|(item, _)| *item).collect();
            let problem = Problem::new(&items).expect("the items are valid");
            apart += plan(&problem, |_| countdown(&mut left)).height;
        }
        let before = transitions(&self.items, &together.offsets).len();
        let lower = |steps_max: u64| {
            let (start, mut plan, mut steps) = (Instant::now(), together.clone(), 0);
            let left = lower_transitions(
                &problem,
                &mut plan,
                |_| true,
                |progress| {
                    steps += progress.steps;
                    steps < steps_max
                },
            );
            verify(&self.items, &plan.offsets, together.height).expect("the plan is valid");
            (left, start.elapsed(), steps)
        };
        let least =
            |steps_max| (0..ROUNDS).map(|_| lower(steps_max)).min_by_key(|run| run.1).expect("at least one run");
        let (in_frame, time, _) = least(FRAME_STEPS);
        let (after, long, steps) = least(u64::MAX);
        eprintln!("{}: {steps} steps", self.name);
        show(&[
            self.name.clone(),
            together.height.to_string(),
            apart.to_string(),
            format!("{:.3}", apart as f64 / together.height as f64),
            before.to_string(),
            in_frame.to_string(),
            format!("{:.0}", 1e6 * time.as_secs_f64()),
            after.to_string(),
            ms(long),
        ]);
    }

    /// Prints the time of the first plan of a new frame.
    fn show_first(&self) {
        let first = (0..ROUNDS).map(|_| self.plan(0.0).1.first).min().unwrap_or_default();
        let name = format!("{} ({})", self.name, self.items.len());
        show(&[name, format!("{:.1}", 1e6 * first.as_secs_f64())]);
    }
}

fn countdown(left: &mut u32) -> bool {
    *left = left.saturating_sub(1);
    *left > 0
}

/// Returns the CSV files in the folder's folders, in order.
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

fn read(path: &Path) -> (Vec<Item>, Vec<Class>) {
    let text = std::fs::read_to_string(path).expect("the case can be read");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("a header line");
    let column = |name: &str| head.iter().position(|&column| column == name);
    let (lower, upper) = (column("lower").expect("lower"), column("upper").expect("upper"));
    let (size, alignment) = (column("size").expect("size"), column("alignment"));
    let category = column("category");
    let item = |cells: Vec<&str>| {
        let number = |column: usize| cells[column].parse::<u64>().expect("a number");
        let class = match category.map(|column| cells[column]) {
            Some("rtds") => Class::RenderTarget,
            Some("tex") => Class::Texture,
            _ => Class::Buffer,
        };
        (Item::new(number(size), number(lower), number(upper)).aligned(alignment.map_or(1, number)), class)
    };
    lines.map(item).unzip()
}
