//! Time by the number of items, as a table and as a picture.

use super::shapes::{self, Random};
use super::{Case, show};
use ringfence_planner::{Item, Problem, plan, verify};
use std::fmt::Write;
use std::time::{Duration, Instant};

const COUNTS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
const LIMIT: Duration = Duration::from_secs(4);
const ROUNDS: usize = 3;
/// A height near the load, divided by the load.
const NEAR: f64 = 1.01;

/// Milliseconds from the items to plans, including the creation of the problem, for one kind and number of items.
pub struct Point {
    is_long: bool,
    count: usize,
    /// Time to the first plan, to a plan within 1 % of the load, and to the proof.
    ms: [Option<f64>; 3],
    first: f64,
    best: f64,
}

/// Measures all points, in half a minute.
pub fn points() -> Vec<Point> {
    let point = |(is_long, count): (bool, usize)| {
        let items =
            if is_long { shapes::long_lived(count, &mut Random::new(3)) } else { Case::generated(count as u64).items };
        let mut point = Point { is_long, count, ms: [None; 3], first: 0.0, best: f64::MAX };
        for round in 0..ROUNDS {
            // A case that is not proven runs up to the limit only once.
            let is_settled = round > 0 && point.ms[1].is_some() && point.ms[2].is_none();
            point.measure(&items, if is_settled { NEAR } else { 0.0 });
        }
        point
    };
    [false, true].into_iter().flat_map(|is_long| COUNTS.map(|count| point((is_long, count)))).collect()
}

impl Point {
    /// Plans once, until the height divided by the load is `enough`. Keeps the least times.
    fn measure(&mut self, items: &[Item], enough: f64) {
        let start = Instant::now();
        let problem = Problem::new(items).expect("the items are valid");
        let (mut height, mut ms) = (u64::MAX, [None; 3]);
        let now = || 1000.0 * start.elapsed().as_secs_f64();
        let ratio = |height: u64| height as f64 / problem.load() as f64;
        let found = plan(&problem, |progress| {
            if progress.height < height {
                height = progress.height;
                if ms[0].is_none() {
                    (ms[0], self.first) = (Some(now()), ratio(height));
                }
                if ratio(height) <= NEAR {
                    ms[1].get_or_insert(now());
                }
            }
            ratio(height) > enough && start.elapsed() < LIMIT
        });
        ms[2] = found.is_proven().then(now);
        verify(items, &found.offsets, found.height).expect("the plan is valid");
        self.best = self.best.min(ratio(found.height));
        for (least, ms) in self.ms.iter_mut().zip(ms) {
            *least = match (*least, ms) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }
}

/// Prints the table.
pub fn table(points: &[Point]) {
    let head = ["items, lives", "first ms", "its height", "within 1 % ms", "proof ms", "height in the end"];
    show(&head.map(String::from));
    println!("|---|--:|--:|--:|--:|--:|");
    for point in points {
        let [first, near, proof] = point.ms.map(|ms| match ms {
            Some(ms) if ms < 10.0 => format!("{ms:.1}"),
            Some(ms) => format!("{ms:.0}"),
            None => "–".to_owned(),
        });
        let name = format!("{}, {}", point.count, if point.is_long { "long" } else { "short" });
        let best = if point.ms[2].is_some() { "1".to_owned() } else { format!("{:.4}", point.best) };
        show(&[name, first, format!("{:.4}", point.first), near, proof, best]);
    }
}

/// Prints the time at which the plan of a million items was available, for short limits.
pub fn limits() {
    let count = COUNTS[COUNTS.len() - 1];
    let kinds = [Case::generated(count as u64).items, shapes::long_lived(count, &mut Random::new(3))];
    let head = ["limit ms", "short lives: there after ms", "height", "long lives: there after ms", "height"];
    show(&head.map(String::from));
    println!("|---|--:|--:|--:|--:|");
    for limit in [1, 100, 200, 300, 500, 1_000] {
        let mut cells = vec![limit.to_string()];
        for items in &kinds {
            let rounds = (0..ROUNDS).map(|_| planned_within(items, Duration::from_millis(limit)));
            let (time, height) = rounds.min_by_key(|round| round.0).expect("at least one round");
            cells.extend([format!("{:.0}", 1000.0 * time.as_secs_f64()), format!("{height:.4}")]);
        }
        show(&cells);
    }
}

/// Returns the time, and the height divided by the load.
fn planned_within(items: &[Item], limit: Duration) -> (Duration, f64) {
    let start = Instant::now();
    let problem = Problem::new(items).expect("the items are valid");
    let found = plan(&problem, |_| start.elapsed() < limit);
    let time = start.elapsed();
    verify(items, &found.offsets, found.height).expect("the plan is valid");
    (time, found.height as f64 / found.load as f64)
}

const COLORS: [&str; 2] = ["#0072b2", "#d55e00"];
const KINDS: [&str; 2] = ["short lives", "long lives"];
const MEASURES: [&str; 3] = ["first plan", "within 1 % of the load", "proven the best"];
const DASHES: [&str; 3] = ["none", "7 4", "2 4"];
/// Corners of the plot, and the decades of items and of milliseconds at them.
const CORNERS: [[f64; 2]; 2] = [[70.0, 370.0], [530.0, 50.0]];
const DECADES: [[f64; 2]; 2] = [[3.0, -1.0], [6.0, 4.0]];

/// Returns the position of a number of items and a time.
fn place(items: f64, ms: f64) -> [f64; 2] {
    let along = |axis: usize, value: f64| {
        let ([from, to], [low, high]) = ([CORNERS[0][axis], CORNERS[1][axis]], [DECADES[0][axis], DECADES[1][axis]]);
        from + (to - from) * (value.log10() - low) / (high - low)
    };
    [along(0, items), along(1, ms)]
}

/// Returns the picture. Both axes are logarithmic.
pub fn svg(points: &[Point]) -> String {
    let mut out = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 780 430\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"780\" height=\"430\" fill=\"#fff\"/>\n\
         <text x=\"70\" y=\"28\" font-size=\"16\">Time to a plan, by number of items (one thread)</text>\n",
    );
    axes(&mut out);
    for (measure, name) in MEASURES.iter().enumerate() {
        for kind in 0..KINDS.len() {
            let of_kind = points.iter().filter(|point| usize::from(point.is_long) == kind);
            let at = |point: &Point| Some(place(point.count as f64, point.ms[measure]?));
            // The line is interrupted at a point without a time.
            let places: Vec<Option<[f64; 2]>> = of_kind.map(at).collect();
            line(&mut out, &places, kind, measure);
            let row = 90.0 + 130.0 * kind as f64 + 26.0 * measure as f64;
            line(&mut out, &[Some([560.0, row]), Some([600.0, row])], kind, measure);
            text(&mut out, [610.0, row + 4.0], "start", name);
        }
    }
    for (kind, name) in KINDS.iter().enumerate() {
        let y = 68.0 + 130.0 * kind as f64;
        let _ = writeln!(out, "<text x=\"560\" y=\"{y}\" font-weight=\"bold\" fill=\"{}\">{name}</text>", COLORS[kind]);
    }
    out + "</svg>\n"
}

fn axes(out: &mut String) {
    let [[left, bottom], [right, top]] = CORNERS;
    for (decade, label) in [(-1, "0.1 ms"), (0, "1 ms"), (1, "10 ms"), (2, "0.1 s"), (3, "1 s"), (4, "10 s")] {
        let y = place(1e3, 10_f64.powi(decade))[1];
        let _ = writeln!(out, "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/>");
        text(out, [left - 8.0, y + 4.0], "end", label);
    }
    for (decade, label) in [(3, "1,000"), (4, "10,000"), (5, "100,000"), (6, "1,000,000")] {
        let x = place(10_f64.powi(decade), 1.0)[0];
        let _ = writeln!(out, "<path d=\"M{x:.1} {bottom}V{top}\" stroke=\"#ddd\"/>");
        text(out, [x, bottom + 20.0], "middle", label);
    }
    text(out, [(left + right) / 2.0, bottom + 44.0], "middle", "items");
}

fn text(out: &mut String, [x, y]: [f64; 2], anchor: &str, text: &str) {
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#333\">{text}</text>");
}

/// Draws a line in the colour of its kind, with the dashes and marks of its measure.
fn line(out: &mut String, places: &[Option<[f64; 2]>], kind: usize, measure: usize) {
    let (mut path, mut is_begun) = (String::new(), false);
    for place in places {
        if let Some([x, y]) = place {
            let _ = write!(path, "{}{x:.1} {y:.1}", if is_begun { 'L' } else { 'M' });
        }
        is_begun = place.is_some();
    }
    let (color, dash) = (COLORS[kind], DASHES[measure]);
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>"
    );
    for [x, y] in places.iter().flatten() {
        let mark = match measure {
            0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{color}\"/>"),
            1 => format!(
                "<path d=\"M{:.1} {:.1}h8v8h-8z\" fill=\"#fff\" stroke=\"{color}\" stroke-width=\"1.5\"/>",
                x - 4.0,
                y - 4.0
            ),
            _ => format!("<path d=\"M{x:.1} {:.1}l5 9h-10z\" fill=\"{color}\"/>", y - 6.0),
        };
        let _ = writeln!(out, "{mark}");
    }
}
