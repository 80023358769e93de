//! Charts over the frames, as SVG: areas, lines, and constant levels.
//!
//! The drawing has a size of 1,000 by 200 and is stretched to its box, so it contains no text. The labels of the scale
//! are HTML beside the drawing.

use crate::axis;
use crate::frames::{Bucket, FrameSample, buckets};
use crate::html::text;
use crate::units;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 200.0;
/// Maximum number of points that can be distinguished on a screen.
const POINT_COUNT_MAX: usize = 500;
/// Number of marks on the scale above 0: one at each quarter.
const MARK_COUNT: u64 = 4;

/// The unit of a scale.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Count,
    Percent,
}

impl Unit {
    pub fn format(self, value: u64) -> String {
        match self {
            Unit::Bytes => units::bytes(value),
            Unit::Count => units::count(value),
            Unit::Percent => format!("{}\u{a0}%", units::count(value)),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::Percent => "percent",
        }
    }

    /// Returns the smallest end of a scale that is at least `value` and has round numbers at its quarters. Values above
    /// 2^60 count as 2^60.
    pub fn scale_end(self, value: u64) -> u64 {
        let value = value.min(1 << 60);
        let (base, quarters): (u64, &[u64]) = match self {
            Unit::Bytes => (2, &[4, 5, 6, 7]),
            Unit::Percent if value <= 100 => return if value > 60 { 100 } else { value.div_ceil(20).max(1) * 20 },
            Unit::Count | Unit::Percent => (10, &[10, 15, 20, 25, 30, 40, 50, 60, 80]),
        };
        let small = (1..=8u64).map(|quarter| quarter * MARK_COUNT);
        let large = (0..61).map_while(|power| base.checked_pow(power));
        let large = large.flat_map(|power| quarters.iter().map(move |quarter| quarter.saturating_mul(power)));
        let large = large.map(|quarter| quarter.saturating_mul(MARK_COUNT));
        small.chain(large).filter(|end| *end >= value).min().unwrap_or(value)
    }
}

/// The style of a line. Two styles differ not only in their colour, so that they can be distinguished without colours.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// A line over a filled area.
    Area,
    /// A plain line.
    Line,
    /// A dashed line.
    Dashes,
}

impl Look {
    fn class(self) -> &'static str {
        match self {
            Look::Area => "area",
            Look::Line => "line",
            Look::Dashes => "dashes",
        }
    }
}

/// A line of a chart: one value for each frame.
pub(crate) struct Line {
    pub name: &'static str,
    /// The field's name in the page's data.
    pub key: &'static str,
    pub look: Look,
    pub value: fn(&FrameSample) -> u64,
}

/// A horizontal line at a constant value.
pub(crate) struct Level {
    pub name: &'static str,
    pub value: u64,
}

/// A chart with its title, its key and its scale.
pub(crate) struct Chart {
    pub id: &'static str,
    pub title: String,
    pub unit: Unit,
    pub lines: Vec<Line>,
    pub level: Option<Level>,
}

impl Chart {
    /// Returns the chart of `frames`, which must not be empty.
    pub fn html(&self, frames: &[FrameSample]) -> String {
        let most = frames.iter().flat_map(|frame| self.lines.iter().map(|line| (line.value)(frame))).max();
        let most = most.max(self.level.as_ref().map(|level| level.value)).unwrap_or(0);
        let end = self.unit.scale_end(most);
        format!(
            "<figure class=\"chart\" id=\"chart-{id}\" data-unit=\"{unit}\" data-keys=\"{keys}\">\
             <figcaption><h3>{title}</h3><ul class=\"key\">{key}</ul></figcaption>\n\
             <div class=\"plot\"><div class=\"scale\" aria-hidden=\"true\">{scale}</div>\n{svg}</div>\n\
             <div class=\"axis\" aria-hidden=\"true\">{axis}</div>{thinned}</figure>\n",
            id = self.id,
            unit = self.unit.name(),
            keys = self.lines.iter().map(|line| line.key).collect::<Vec<_>>().join(" "),
            title = text(&self.title),
            key = self.key(),
            scale = self.scale(end),
            thinned = thinned(frames.len()),
            svg = self.svg(frames, end),
            axis = axis::html(&labels(frames)),
        )
    }

    fn key(&self) -> String {
        let entry = |look: &str, name: &str| format!("<li><i class=\"{look}\"></i>{}</li>", text(name));
        let lines = self.lines.iter().map(|line| entry(line.look.class(), line.name));
        let level = self.level.iter().map(|level| {
            let name = format!("{} {}", level.name, self.unit.format(level.value));
            entry("level", &name)
        });
        lines.chain(level).collect()
    }

    fn scale(&self, end: u64) -> String {
        let mark = |quarter: u64| {
            let top = 100.0 - quarter as f64 * 100.0 / MARK_COUNT as f64;
            format!("<span style=\"top:{top}%\">{}</span>", self.unit.format(end / MARK_COUNT * quarter))
        };
        (0..=MARK_COUNT).map(mark).collect()
    }

    fn svg(&self, frames: &[FrameSample], end: u64) -> String {
        let runs = buckets(frames, POINT_COUNT_MAX);
        let lines: String = self.lines.iter().map(|line| drawn(line, &runs, frames.len(), end)).collect();
        let level = self.level.iter().map(|level| {
            let y = height(level.value, end);
            format!("<path class=\"level\" d=\"M0 {y:.1}H{WIDTH}\"/>")
        });
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\
             {lines}{}</svg>",
            text(&format!("{}, frame by frame. The table below contains the numbers.", self.title)),
            level.collect::<String>(),
        )
    }
}

/// If each point stands for several frames, returns a note with their number; otherwise an empty string.
fn thinned(frame_count: usize) -> String {
    match frame_count.div_ceil(POINT_COUNT_MAX) {
        0 | 1 => String::new(),
        length => format!("<p class=\"note\">Each point is the maximum of {length} frames.</p>"),
    }
}

/// Returns the labels of the frame axis: frame numbers, each with its position as a share of the width.
fn labels(frames: &[FrameSample]) -> Vec<(f64, String)> {
    let last = frames.len() - 1;
    let label = |frame: u64| {
        let at = frames.partition_point(|held| held.frame < frame).min(last);
        (at as f64 / last.max(1) as f64, units::count(frame))
    };
    let mut labels: Vec<_> = axis::ticks(frames[0].frame, frames[last].frame).into_iter().map(label).collect();
    labels[0].1.insert_str(0, "frame ");
    labels
}

fn drawn(line: &Line, runs: &[Bucket], frame_count: usize, end: u64) -> String {
    let path = path(line, runs, frame_count, end);
    match line.look {
        Look::Area => {
            format!("<path class=\"fill\" d=\"{path}V{HEIGHT}H0Z\"/><path class=\"area\" d=\"{path}\"/>")
        }
        look => format!("<path class=\"{}\" d=\"{path}\"/>", look.class()),
    }
}

/// Returns the path of a line, from the left edge of the drawing to the right edge.
fn path(line: &Line, runs: &[Bucket], frame_count: usize, end: u64) -> String {
    let step = WIDTH / (frame_count.max(2) - 1) as f64;
    let heights: Vec<f64> = runs.iter().map(|run| height((line.value)(&run.most), end)).collect();
    let mut path = format!("M0 {:.1}", heights[0]);
    for (run, y) in runs.iter().zip(&heights) {
        let x = (run.first + run.last) as f64 / 2.0 * step;
        path.push_str(&format!("L{x:.1} {y:.1}"));
    }
    path.push_str(&format!("L{WIDTH} {:.1}", heights[heights.len() - 1]));
    path
}

fn height(value: u64, end: u64) -> f64 {
    HEIGHT - HEIGHT * value as f64 / end as f64
}

#[cfg(test)]
mod tests {
    use super::Unit;

    #[test]
    fn scales_end_at_round_quarters_that_hold_the_value() {
        assert_eq!(Unit::Bytes.scale_end(64 << 20), 64 << 20);
        assert_eq!(Unit::Bytes.scale_end((64 << 20) + 1), 80 << 20);
        assert_eq!(Unit::Count.scale_end(0), 4);
        assert_eq!(Unit::Count.scale_end(33), 40);
        assert_eq!(Unit::Count.scale_end(1001), 1200);
        assert_eq!([0, 20, 55, 61, 100].map(|value| Unit::Percent.scale_end(value)), [20, 20, 60, 100, 100]);
        for unit in [Unit::Bytes, Unit::Count, Unit::Percent] {
            for value in (0..100_000).step_by(7).chain([1 << 40, u64::MAX]) {
                let end = unit.scale_end(value);
                assert!(end >= value.min(1 << 60) && end.is_multiple_of(4), "{value} ends at {end}");
            }
        }
    }
}
