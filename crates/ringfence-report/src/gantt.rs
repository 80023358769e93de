//! An aliasing plan as a page: a Gantt chart of time by offset, in which two that share bytes stand one behind the other.
//!
//! ```text
//!   offset ▲   ┌───b───┐┌────d────┐
//!          │   └───────┘└─────────┘  ┄┄ load: what is alive at once
//!          │ ┌─────a──────┐ ┌──c──┐
//!          └─┴────────────┴─┴─────┴─▶ time
//! ```
//!
//! The page needs neither script nor network; a rectangle's name, bytes and lifetime show when it is pointed at, and a
//! table holds the largest ones.

use std::fmt::Write;

use crate::html::text;
use crate::units::{bytes, count};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 560.0;
/// More rectangles than this make browsers slow; the largest are drawn.
const DRAWN_MAX: usize = 20_000;
/// Rows of the table.
const LISTED_MAX: usize = 200;
/// Points of the load's line.
const LOAD_POINTS_MAX: usize = 2_000;

/// A resource in a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedRow {
    /// What it is called.
    pub name: String,
    /// The first moment of its life.
    pub lower: u64,
    /// The first moment after it.
    pub upper: u64,
    /// Bytes.
    pub size: u64,
    /// Its first byte.
    pub offset: u64,
}

/// A plan to be shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlanPage {
    /// The page's heading.
    pub title: String,
    /// The resources; or, of very many, those that are to be drawn.
    pub rows: Vec<PlannedRow>,
    /// Bytes that the plan needs.
    pub height: u64,
    /// Bytes below which no plan can be.
    pub lower_bound: u64,
    /// What there is, if that was given.
    pub capacity: Option<u64>,
    /// Further lines for the head: label and value.
    pub facts: Vec<(String, String)>,
}

impl PlanPage {
    /// The page. O(n log n).
    #[must_use]
    pub fn to_html(&self) -> String {
        let title = text(&self.title);
        let style = include_str!("page/page.css");
        let own = include_str!("page/gantt.css");
        let facts: String = self
            .facts
            .iter()
            .map(|(label, value)| format!("<div><dt>{}</dt><dd>{}</dd></div>", text(label), text(value)))
            .collect();
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n\
             <style>{style}\n{own}</style></head>\n<body><header><div><h1>{title}</h1></div></header>\n\
             <section><h2>Plan</h2><dl class=\"plan-facts\">{facts}</dl></section>\n\
             <section><h2>Time by offset</h2>{chart}</section>\n\
             <section><h2>Largest</h2>{table}</section></body></html>\n",
            chart = self.chart(),
            table = self.table(),
        )
    }

    /// The rows by what they take on the chart, the largest first.
    fn by_area(&self) -> Vec<&PlannedRow> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        let area = |row: &&PlannedRow| u128::from(row.size) * u128::from(row.upper - row.lower);
        rows.sort_by_key(|row| std::cmp::Reverse(area(row)));
        rows
    }

    fn chart(&self) -> String {
        let begin = self.rows.iter().map(|row| row.lower).min().unwrap_or(0);
        let end = self.rows.iter().map(|row| row.upper).max().unwrap_or(1);
        let top = self.height.max(self.capacity.unwrap_or(0)).max(1);
        let scale = Scale { begin, end: end.max(begin + 1), top };
        let rows = self.by_area();
        let drawn = &rows[..rows.len().min(DRAWN_MAX)];
        let mut svg = String::new();
        for (at, row) in drawn.iter().enumerate() {
            let (x, y) = (scale.x(row.lower), scale.y(row.offset + row.size));
            let (width, height) = (scale.x(row.upper) - x, scale.y(row.offset) - y);
            let _ = write!(
                svg,
                "<rect class=\"h{}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"><title>{}: \
                 {} at {}, {} to {}</title></rect>",
                at % 5,
                text(&row.name),
                bytes(row.size),
                bytes(row.offset),
                row.lower,
                row.upper,
            );
        }
        let level = |class: &str, value: u64| {
            let y = scale.y(value);
            format!("<path class=\"{class}\" d=\"M0 {y:.2}H{WIDTH}\"/>")
        };
        let capacity = self.capacity.map(|value| level("capacity", value)).unwrap_or_default();
        let left_out = match rows.len() - drawn.len() {
            0 => String::new(),
            more => format!("<p class=\"note\">The {} smallest are not drawn.</p>", count(more as u64)),
        };
        format!(
            "<ul class=\"key\"><li><i class=\"load\"></i>alive at once</li><li><i class=\"bound\"></i>lower bound \
             {bound}</li><li><i class=\"peak\"></i>peak {peak}</li></ul>\n\
             <svg class=\"gantt\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"Time by offset: {rows} resources, {peak} high. The table below holds the largest.\">{svg}\
             <path class=\"load\" d=\"{load}\"/>{levels}{capacity}</svg>\n\
             <p class=\"ends\"><span>{begin}</span><span>time; offsets from below</span><span>{end}</span></p>{left_out}",
            bound = bytes(self.lower_bound),
            peak = bytes(self.height),
            rows = count(self.rows.len() as u64),
            load = self.load(&scale),
            levels = level("bound", self.lower_bound) + &level("peak", self.height),
        )
    }

    /// The sum of what is alive, over time, as a stair.
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
        let rows = self.by_area();
        let lines: String = rows
            .iter()
            .take(LISTED_MAX)
            .map(|row| {
                format!(
                    "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                    text(&row.name),
                    bytes(row.size),
                    bytes(row.offset),
                    row.lower,
                    row.upper
                )
            })
            .collect();
        format!(
            "<div class=\"scroll\"><table><thead><tr><th>name</th><th>size</th><th>offset</th><th>from</th><th>to</th>\
             </tr></thead><tbody>{lines}</tbody></table></div>"
        )
    }
}

/// From time and bytes to the drawing.
struct Scale {
    begin: u64,
    end: u64,
    top: u64,
}

impl Scale {
    fn x(&self, time: u64) -> f64 {
        WIDTH * (time - self.begin) as f64 / (self.end - self.begin) as f64
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
            facts: vec![("Peak".into(), "100".into())],
        };
        let html = page.to_html();
        assert_eq!(html.matches("<rect").count(), 3);
        assert!(html.contains("&lt;b&gt;") && !html.contains("<b>"));
        // The largest: half the time, half the capacity's height, at the bottom.
        let place = "x=\"500.00\" y=\"280.00\" width=\"500.00\" height=\"280.00\"";
        assert!(html.contains(place), "{html}");
        assert!(html.contains("class=\"capacity\""));
        assert!(!html.contains("http"), "it requests nothing from the network");
    }

    #[test]
    fn an_empty_plan_and_a_large_one_are_pages_too() {
        assert!(PlanPage::default().to_html().contains("</html>"));
        let rows = (0..DRAWN_MAX as u64 + 7).map(|at| row("x", at, at + 1, 1, 0)).collect();
        let page = PlanPage { rows, height: 1, lower_bound: 1, ..Default::default() };
        let html = page.to_html();
        assert_eq!(html.matches("<rect").count(), DRAWN_MAX);
        assert!(html.contains("The 7 smallest are not drawn"));
    }
}
