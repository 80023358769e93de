//! An aliasing plan as a page: a Gantt chart of time and offset. Resources that share bytes are drawn side by side at
//! the same height.
//!
//! ```text
//!   offset ▲   ┌───b───┐┌────d────┐
//!          │   └───────┘└─────────┘  ┄┄ load: bytes alive at once
//!          │ ┌─────a──────┐ ┌──c──┐
//!          └─┴────────────┴─┴─────┴─▶ time
//! ```
//!
//! A row is a resource, drawn as a rectangle. The page makes no network request. Its script draws all rectangles on a
//! canvas and adds a slider over time. For the selected time, the page lists the live rows with their offsets, and the
//! numbers of used and free bytes. Without JavaScript, the chart is an SVG; the name, size and lifetime of the
//! rectangle under the pointer are shown. A table lists the rows with the largest size × lifetime.

use std::fmt::Write;

use crate::axis;
use crate::html::{fill, script_json, text};
use crate::table::Table;
use crate::units::{bytes, count};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 560.0;
/// Maximum number of rectangles in the SVG, because more rectangles make browsers slow. The rectangles with the largest
/// areas are drawn.
const DRAWN_MAX: usize = 20_000;
/// Maximum number of rows in the table.
const LISTED_MAX: usize = 200;
/// Approximate number of points of the line of the load: there are fewer than twice as many.
const LOAD_POINTS_MAX: usize = 2_000;

/// A resource in a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedRow {
    /// Name of the resource.
    pub name: String,
    /// First moment of its lifetime.
    pub lower: u64,
    /// First moment after its lifetime.
    pub upper: u64,
    /// Size, in bytes.
    pub size: u64,
    /// Offset, in bytes.
    pub offset: u64,
}

/// The content of a plan's page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlanPage {
    /// The page's heading.
    pub title: String,
    /// The resources of the plan, or those to draw if the plan has very many.
    pub rows: Vec<PlannedRow>,
    /// Size of the plan, in bytes.
    pub height: u64,
    /// Lower bound of the size that any plan needs, in bytes.
    pub lower_bound: u64,
    /// Available memory, in bytes; `None` if no limit was given.
    pub capacity: Option<u64>,
    /// Offset at which each heap starts, in ascending order from 0; empty for a plan of one heap. Several heaps are
    /// drawn one above the other. Offsets in the page's texts are relative to their heap.
    pub heaps: Vec<u64>,
    /// Additional lines at the top of the page: label and value.
    pub facts: Vec<(String, String)>,
}

impl PlanPage {
    /// Returns the page as HTML. O(n log n) for n rows. The page has about 50 bytes per row, and 200 more for each of
    /// the 20,000 largest rows.
    #[must_use]
    pub fn to_html(&self) -> String {
        fill(include_str!("page/plan.html"), |slot| match slot {
            "title" => text(&self.title),
            "style" => [include_str!("page/page.css"), include_str!("page/gantt.css")].concat(),
            "facts" => self.facts(),
            "chart" => self.chart(),
            "table" => self.table(),
            "data" => script_json(&PlanData::of(self, &self.scale())),
            "script" => SCRIPTS.concat(),
            _ => unreachable!("the page's template contains an unknown slot: {slot}"),
        })
    }

    fn facts(&self) -> String {
        let fact =
            |(label, value): &(String, String)| format!("<div><dt>{}</dt><dd>{}</dd></div>", text(label), text(value));
        self.facts.iter().map(fact).collect()
    }

    /// Returns the rows ordered by their area on the chart (size × lifetime), the largest first.
    fn by_area(&self) -> Vec<&PlannedRow> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        let area = |row: &&PlannedRow| u128::from(row.size) * u128::from(row.upper.saturating_sub(row.lower));
        rows.sort_by_key(|row| std::cmp::Reverse(area(row)));
        rows
    }

    fn scale(&self) -> Scale {
        let begin = self.rows.iter().map(|row| row.lower).min().unwrap_or(0);
        let end = self.rows.iter().map(|row| row.upper).max().unwrap_or(1);
        let top = self.height.max(self.capacity.unwrap_or(0)).max(1);
        Scale { begin, end: end.max(begin.saturating_add(1)), top }
    }

    fn chart(&self) -> String {
        let scale = self.scale();
        let rows = self.by_area();
        let drawn = &rows[..rows.len().min(DRAWN_MAX)];
        let level = |class: &str, value: u64| {
            let y = scale.y(value);
            format!("<path class=\"{class}\" d=\"M0 {y:.2}H{WIDTH}\"/>")
        };
        let capacity = self.capacity.map(|value| level("capacity", value)).unwrap_or_default();
        let capacity_key =
            self.capacity.map(|value| format!("<li><i class=\"capacity\"></i>capacity {}</li>", bytes(value)));
        let left_out = match rows.len() - drawn.len() {
            0 => String::new(),
            more => {
                format!("<noscript><p class=\"note\">The {} smallest are not drawn.</p></noscript>", count(more as u64))
            }
        };
        let box_of = format!("class=\"gantt\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\"");
        format!(
            "<ul class=\"key\"><li><i class=\"load\"></i>alive at once</li><li><i class=\"bound\"></i>lower bound \
             {bound}</li><li><i class=\"peak\"></i>peak {peak}</li>{capacity_key}</ul>\n\
             <div class=\"gantt-frame\"><div class=\"scale\" aria-hidden=\"true\">{marks}</div>\n\
             <div id=\"gantt\" role=\"img\" aria-label=\"Time by offset: {rows} resources, {peak} high. The table below \
             lists the largest.\"><canvas id=\"rows\" hidden></canvas>\n\
             <noscript><svg {box_of}>{rectangles}</svg></noscript>\n\
             <svg {box_of} id=\"lines\"><path class=\"load\" d=\"{load}\"/>{levels}{capacity}\
             <path id=\"cross\" d=\"\"/></svg></div></div>\n\
             <div class=\"axis\" id=\"time-marks\" aria-hidden=\"true\">{times}</div>\
             <p class=\"quiet gantt-note\">Time runs to the right, offsets run upwards. Colours only \
             distinguish neighbours. Point at a rectangle to see its name, size and lifetime.</p>{left_out}\n",
            bound = bytes(self.lower_bound),
            peak = bytes(self.height),
            capacity_key = capacity_key.unwrap_or_default(),
            marks = scale.marks(),
            times = scale.times(),
            rows = count(self.rows.len() as u64),
            rectangles = rectangles(self, &scale, drawn),
            load = self.load(&scale),
            levels = self.levels(&level),
        )
    }

    /// Returns the lines of the lower bound and of the peak, and the lines between the heaps, as SVG.
    fn levels(&self, level: &dyn Fn(&str, u64) -> String) -> String {
        let heaps = self.heaps.iter().skip(1).map(|&begin| level("heap", begin));
        heaps.chain([level("bound", self.lower_bound), level("peak", self.height)]).collect()
    }

    /// Returns a row's offset as rounded text, with the heap if there are several.
    fn place(&self, offset: u64) -> String {
        match self.heaps.partition_point(|&begin| begin <= offset) {
            0 | 1 if self.heaps.len() < 2 => bytes(offset),
            after => {
                let heap = after.saturating_sub(1);
                format!("heap {heap}, {}", bytes(offset - self.heaps[heap]))
            }
        }
    }

    /// Returns a row's offset as text with all digits, with the heap if there are several. The script writes the same
    /// text in the table of a moment.
    fn exact_place(&self, offset: u64) -> String {
        if self.heaps.len() < 2 {
            return count(offset);
        }
        let heap = self.heaps.partition_point(|&begin| begin <= offset).saturating_sub(1);
        format!("heap {heap}, {}", count(offset - self.heaps[heap]))
    }

    /// Returns the path of the load over time. The load is the total size of the live rows.
    fn load(&self, scale: &Scale) -> String {
        let mut events: Vec<(u64, bool, u64)> = Vec::with_capacity(2 * self.rows.len());
        for row in &self.rows {
            events.extend([(row.lower, true, row.size), (row.upper, false, row.size)]);
        }
        events.sort_unstable();
        let step = (events.len() / LOAD_POINTS_MAX).max(1);
        let (mut alive, mut most, mut path) = (0_u64, 0, format!("M0 {:.2}", scale.y(0)));
        for (number, chunk) in events.chunk_by(|a, b| a.0 == b.0).enumerate() {
            for &(_, begins, size) in chunk {
                alive = if begins { alive.saturating_add(size) } else { alive.saturating_sub(size) };
            }
            most = alive.max(most);
            if number % step == 0 {
                let _ = write!(path, "H{:.2}V{:.2}", scale.x(chunk[0].0), scale.y(most));
                most = 0;
            }
        }
        path.push_str(&format!("H{WIDTH}"));
        path
    }

    fn table(&self) -> String {
        let row = |row: &&PlannedRow| {
            let PlannedRow { name, lower, upper, size, offset } = row;
            vec![name.clone(), self.exact_place(*offset), bytes(*size), count(*lower), count(*upper)]
        };
        let rows = self.by_area();
        let caption = match rows.len().saturating_sub(LISTED_MAX) {
            0 => "All rows, by size × time".to_owned(),
            more => format!("By size × time; {} smaller are not listed", count(more as u64)),
        };
        let table = Table {
            caption: &caption,
            headings: &["Name", "Offset", "Size", "From", "To"],
            numbers: &[false, true, true, true, true],
            rows: rows.iter().take(LISTED_MAX).map(row).collect(),
        };
        table.html()
    }
}

/// Returns the SVG rectangles of `drawn`, which must be ordered by area, the largest first.
fn rectangles(page: &PlanPage, scale: &Scale, drawn: &[&PlannedRow]) -> String {
    let mut svg = String::new();
    for (at, row) in drawn.iter().enumerate() {
        let (x, y) = (scale.x(row.lower), scale.y(row.offset.saturating_add(row.size)));
        let (width, height) = (scale.x(row.upper) - x, scale.y(row.offset) - y);
        let _ = write!(
            svg,
            "<rect class=\"h{}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"><title>{}: \
             {} at {}, from {} to {}</title></rect>",
            at % 5,
            text(&row.name),
            bytes(row.size),
            page.place(row.offset),
            count(row.lower),
            count(row.upper),
        );
    }
    svg
}

/// The page's scripts, in the order of their dependencies.
const SCRIPTS: [&str; 5] = [
    include_str!("page/basics.js"),
    include_str!("page/theme.js"),
    include_str!("page/plan-chart.js"),
    include_str!("page/plan-moment.js"),
    include_str!("page/plan.js"),
];

/// The data of the page's script: one list for each column of the rows. `lower` and `upper` contain indices into
/// `moments`.
#[derive(serde::Serialize)]
struct PlanData<'a> {
    width: f64,
    height: f64,
    end: u64,
    top: u64,
    peak: u64,
    moments: Vec<Time>,
    name: Vec<&'a str>,
    lower: Vec<u32>,
    upper: Vec<u32>,
    size: Vec<u64>,
    offset: Vec<u64>,
    heaps: &'a [u64],
}

/// A moment. A number that JavaScript would round is a text.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Time {
    Exact(u64),
    Text(String),
}

/// The largest number up to which JavaScript represents all integers exactly.
const SCRIPT_EXACT_MAX: u64 = 1 << 53;

impl<'a> PlanData<'a> {
    fn of(page: &'a PlanPage, scale: &Scale) -> Self {
        let rows = &page.rows;
        let mut moments: Vec<u64> = rows.iter().flat_map(|row| [row.lower, row.upper]).collect();
        moments.sort_unstable();
        moments.dedup();
        let place = |time: u64| moments.partition_point(|&moment| moment < time) as u32;
        let time = |&moment: &u64| {
            if moment <= SCRIPT_EXACT_MAX { Time::Exact(moment) } else { Time::Text(moment.to_string()) }
        };
        Self {
            width: WIDTH,
            height: HEIGHT,
            end: scale.end,
            top: scale.top,
            peak: page.height,
            moments: moments.iter().map(time).collect(),
            name: rows.iter().map(|row| row.name.as_str()).collect(),
            lower: rows.iter().map(|row| place(row.lower)).collect(),
            upper: rows.iter().map(|row| place(row.upper)).collect(),
            size: rows.iter().map(|row| row.size).collect(),
            offset: rows.iter().map(|row| row.offset).collect(),
            heaps: &page.heaps,
        }
    }
}

/// Converts moments and bytes to positions in the drawing.
struct Scale {
    begin: u64,
    end: u64,
    top: u64,
}

impl Scale {
    fn x(&self, time: u64) -> f64 {
        WIDTH * time.saturating_sub(self.begin) as f64 / (self.end - self.begin) as f64
    }

    /// Returns the labels of the byte scale, one at each quarter.
    fn marks(&self) -> String {
        let mark = |quarter: u64| {
            let offset = (u128::from(self.top) * u128::from(quarter) / 4) as u64;
            format!("<span style=\"top:{}%\">{}</span>", 100 - 25 * quarter, bytes(offset))
        };
        (0..=4).map(mark).collect()
    }

    /// Returns the labels of the time axis. The function `ticks` of `page/plan-chart.js` computes the same labels.
    fn times(&self) -> String {
        let label = |time: u64| (self.x(time) / WIDTH, count(time));
        axis::html(&axis::ticks(self.begin, self.end).into_iter().map(label).collect::<Vec<_>>())
    }

    fn y(&self, offset: u64) -> f64 {
        HEIGHT - HEIGHT * offset.min(self.top) as f64 / self.top as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, lower: u64, upper: u64, size: u64, offset: u64) -> PlannedRow {
        PlannedRow { name: name.into(), lower, upper, size, offset }
    }

    #[test]
    fn every_row_is_a_rectangle_at_its_place_and_names_are_harmless() {
        let page = PlanPage {
            title: "a <plan>".into(),
            rows: vec![row("<b>", 0, 10, 50, 0), row("c", 10, 20, 100, 0), row("d", 0, 10, 50, 50)],
            height: 100,
            lower_bound: 100,
            capacity: Some(200),
            heaps: Vec::new(),
            facts: vec![("Peak".into(), "100".into())],
        };
        let html = page.to_html();
        assert_eq!(html.matches("<rect").count(), 3);
        assert!(html.contains("&lt;b&gt;") && !html.contains("<b>"));
        // The largest row takes half of the time and half of the capacity, at the bottom.
        let place = "x=\"500.00\" y=\"280.00\" width=\"500.00\" height=\"280.00\"";
        assert!(html.contains(place), "{html}");
        assert!(html.contains("class=\"capacity\""));
        let times = html.split_once("id=\"time-marks\"").expect("an axis").1.split_once("</div>").expect("it ends").0;
        for time in [">0<", ">5<", ">10<", ">15<", ">20<"] {
            assert!(times.contains(time), "{time}: {times}");
        }
        // All of the page except the element that forbids network access.
        let rest = html.replacen("http-equiv=\"Content-Security-Policy\"", "", 1);
        assert!(!rest.contains("http"), "it requests nothing from the network");
    }

    #[test]
    fn an_empty_plan_and_a_large_one_are_pages_too() {
        assert!(PlanPage::default().to_html().contains("</html>"));
        let rows = (0..DRAWN_MAX as u64 + 7).map(|at| row("x", at, at + 1, 1, 0)).collect();
        let page = PlanPage { rows, height: 1, lower_bound: 1, ..Default::default() };
        let html = page.to_html();
        assert_eq!(html.matches("<rect").count(), DRAWN_MAX);
        assert!(html.contains("The 7 smallest are not drawn"));
        assert!(html.contains("19,807 smaller are not listed") && html.contains(">20,007<"), "one style of numbers");
    }
}
