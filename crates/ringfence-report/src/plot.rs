//! Charts as SVG with text. The charts of a history are on the page and in SVG files for papers, with different styles.
//! The memory map and the charts of a run are drawn here only for the files.

mod rectangles;

use std::fmt::Write;

pub(crate) use rectangles::{Rectangle, rectangles};

use crate::axis::{Anchor, ticks};
use crate::chart::Unit;
use crate::html::text;
use crate::units;

pub(crate) const WIDTH: f64 = 720.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 30.0;
const HEIGHT: f64 = 260.0;
/// Number of marks on the scale above 0.
const MARK_COUNT: u64 = 4;

/// A drawing: its identifier, its title and its elements.
pub(crate) struct Drawing {
    /// Identifier; part of the file's name.
    pub id: String,
    pub title: String,
    pub height: f64,
    pub elements: String,
    /// For a drawing over frames: its numbers as JSON. The page's script shows them for the frame that the pointer or
    /// the arrow keys select.
    pub series: Option<String>,
}

impl Drawing {
    /// Returns the drawing as an element of the page.
    pub fn inline(&self) -> String {
        let series = self.series.as_ref().map(|series| format!(" data-series=\"{}\"", text(series)));
        let (id, series) = (&self.id, series.unwrap_or_default());
        format!("<figure class=\"drawing\" id=\"drawing-{id}\"{series}>{}</figure>\n", self.svg("role=\"img\"", ""))
    }

    /// Returns the drawing as an SVG file: dark text for a white background, and colours that colour-blind readers can
    /// distinguish.
    pub fn file(&self) -> String {
        let root = format!("xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\"", self.height);
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", self.svg(&root, STYLE))
    }

    fn svg(&self, root: &str, style: &str) -> String {
        let Self { title, height, elements, .. } = self;
        let name = text(title);
        format!(
            "<svg {root} viewBox=\"0 0 {WIDTH} {height}\" aria-label=\"{name}\">{style}\
             <text class=\"title\" x=\"0\" y=\"15\">{name}</text>{elements}</svg>"
        )
    }
}

const STYLE: &str = "<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:14px}\
    .quiet{fill:#555}.end{text-anchor:end}.middle{text-anchor:middle}\
    .tag{font-size:10px;text-anchor:middle;paint-order:stroke;stroke:#fff;stroke-width:3px}.grid{stroke:#ddd}.fill{fill:#0072b2;opacity:.25}\
    .area,.line,.dashes,.dots{fill:none;stroke-width:1.5;stroke:#0072b2}.line{stroke:#d55e00}\
    .dashes{stroke:#222;stroke-dasharray:5 4}.dots{stroke:#009e73;stroke-dasharray:2 3}.life{fill:#0072b2}.tail{fill:#e69f00}\
    .buffers{fill:#0072b2}.textures{fill:#e69f00}.targets{fill:#009e73}.all{fill:#cc79a7}.block{fill:none;stroke:#888}\
    .held{fill-opacity:.35;stroke-width:1}.look-0{fill:#0072b2;stroke:#0072b2}.look-1{fill:#e69f00;stroke:#e69f00}\
    .look-2{fill:#009e73;stroke:#009e73}.look-3{fill:#cc79a7;stroke:#cc79a7}.look-4{fill:#56b4e9;stroke:#56b4e9}\
    </style>";

/// The style of a series. Two styles differ not only in their colour, so that they can be distinguished without
/// colours.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Area,
    Line,
    Dashes,
    Dots,
}

impl Look {
    fn class(self) -> &'static str {
        match self {
            Self::Area => "area",
            Self::Line => "line",
            Self::Dashes => "dashes",
            Self::Dots => "dots",
        }
    }
}

/// One value for each frame; `None` if the value of a frame is unknown.
pub(crate) struct Series {
    pub name: String,
    pub look: Look,
    pub values: Vec<Option<u64>>,
}

/// Draws lines over frames. `frames` contains the frame number of each value of a series.
pub(crate) fn over_frames(id: &str, title: &str, unit: Unit, frames: &[u64], series: &[Series]) -> Drawing {
    let most = series.iter().flat_map(|one| one.values.iter().flatten()).max().copied().unwrap_or(0);
    let end = unit.scale_end(most);
    let scale = Scale::new(frames, end);
    let mut elements = key(series);
    for mark in 0..=MARK_COUNT {
        let value = end / MARK_COUNT * mark;
        let (y, label) = (scale.y(value), unit.format(value));
        let right = WIDTH - RIGHT;
        let _ = write!(
            elements,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>\
             <text class=\"quiet end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 6.0,
            y + 4.0,
            text(&label)
        );
    }
    frame_marks(&mut elements, frames, HEIGHT);
    series.iter().for_each(|one| drawn(&mut elements, one, frames, &scale));
    let series = (!frames.is_empty()).then(|| numbers(unit, frames, series));
    Drawing { id: id.to_owned(), title: title.to_owned(), height: HEIGHT, elements, series }
}

/// Returns the data for the page's script as JSON: the values, and the left and right end of the plot as shares of the
/// drawing's width.
fn numbers(unit: Unit, frames: &[u64], series: &[Series]) -> String {
    let one = |one: &Series| serde_json::json!({ "name": one.name, "values": one.values });
    serde_json::json!({
        "unit": unit.name(),
        "frames": frames,
        "series": series.iter().map(one).collect::<Vec<_>>(),
        "left": LEFT / WIDTH,
        "right": (WIDTH - RIGHT) / WIDTH,
    })
    .to_string()
}

fn frame_marks(elements: &mut String, frames: &[u64], height: f64) {
    let (first, last) = (frames.first().copied().unwrap_or(0), frames.last().copied().unwrap_or(0));
    let scale = Scale::new(frames, 1);
    axis_labels(elements, "frame", height, &ticks(first, last), |frame| scale.x(frame));
}

/// Draws the labels under a drawing: the numbers `at`, with `unit` before the first, and a tick above each.
fn axis_labels(elements: &mut String, unit: &str, height: f64, at: &[u64], x: impl Fn(u64) -> f64) {
    let (y, line) = (height - 8.0, height - BOTTOM);
    for (place, number) in at.iter().enumerate() {
        let (x, class) = (x(*number), Anchor::of(place, at.len()).class());
        let (unit, blank) = if place == 0 { (unit, " ") } else { ("", "") };
        let _ = write!(
            elements,
            "<path class=\"grid\" d=\"M{x:.1} {line:.1}v5\"/>\
             <text class=\"{class}\" x=\"{x:.1}\" y=\"{y}\">{unit}{blank}{}</text>",
            units::count(*number)
        );
    }
}

/// Converts frames and values to positions in the drawing.
struct Scale {
    first: u64,
    span: f64,
    end: u64,
}

impl Scale {
    fn new(frames: &[u64], end: u64) -> Self {
        let (first, last) = (frames.first().copied().unwrap_or(0), frames.last().copied().unwrap_or(0));
        Self { first, span: last.saturating_sub(first).max(1) as f64, end }
    }

    fn x(&self, frame: u64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (frame.saturating_sub(self.first) as f64 / self.span).min(1.0)
    }

    fn y(&self, value: u64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value as f64 / self.end as f64
    }
}

fn key(series: &[Series]) -> String {
    let mut x = LEFT;
    let mut elements = String::new();
    for one in series {
        let class = one.look.class();
        let _ = write!(
            elements,
            "<path class=\"{class}\" d=\"M{x:.0} 32h22\"/><text x=\"{:.0}\" y=\"36\">{}</text>",
            x + 28.0,
            text(&one.name)
        );
        x += 44.0 + 7.0 * one.name.chars().count() as f64;
    }
    elements
}

fn drawn(elements: &mut String, series: &Series, frames: &[u64], scale: &Scale) {
    let mut line = String::new();
    let (mut first, mut last) = (None, None);
    for (frame, value) in frames.iter().zip(&series.values) {
        let Some(value) = value else { continue };
        let x = scale.x(*frame);
        let _ = write!(line, "{}{x:.1} {:.1}", if first.is_none() { 'M' } else { 'L' }, scale.y(*value));
        first.get_or_insert(x);
        last = Some(x);
    }
    let (Some(first), Some(last)) = (first, last) else { return };
    if series.look == Look::Area {
        let bottom = scale.y(0);
        let _ = write!(elements, "<path class=\"fill\" d=\"{line}L{last:.1} {bottom}L{first:.1} {bottom}Z\"/>");
    }
    let _ = write!(elements, "<path class=\"{}\" d=\"{line}\"/>", series.look.class());
}

/// A bar of a Gantt chart: a part for the time in use, then a part for the time until the device has finished with the
/// range.
pub(crate) struct Bar {
    pub name: String,
    pub note: String,
    pub from: u64,
    pub retired: u64,
    pub to: u64,
}

/// Draws lifetimes as bars, one below the other.
pub(crate) fn gantt(id: &str, title: &str, last: u64, bars: &[Bar]) -> Drawing {
    const ROW: f64 = 16.0;
    const NAMES: f64 = 190.0;
    let frames = [1, last.max(2)];
    let height = TOP + ROW * bars.len() as f64 + BOTTOM;
    let x = |frame: u64| {
        let share = frame.saturating_sub(1) as f64 / (frames[1] - 1) as f64;
        NAMES + (WIDTH - NAMES - RIGHT) * share.min(1.0)
    };
    let mut elements = format!(
        "<rect class=\"life\" x=\"{NAMES}\" y=\"26\" width=\"22\" height=\"10\"/><text x=\"{}\" y=\"36\">in use</text>\
         <rect class=\"tail\" x=\"{}\" y=\"28\" width=\"22\" height=\"6\"/>\
         <text x=\"{}\" y=\"36\">retired, waiting for the device</text>",
        NAMES + 28.0,
        NAMES + 90.0,
        NAMES + 118.0
    );
    for (row, bar) in bars.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let (from, retired, to) = (x(bar.from), x(bar.retired), x(bar.to));
        let _ = write!(
            elements,
            "<g><title>{}</title><text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <rect class=\"life\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"10\"/>\
             <rect class=\"tail\" x=\"{retired:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"6\"/></g>",
            text(&format!("{}: {}", bar.name, bar.note)),
            NAMES - 6.0,
            y + 10.0,
            text(&shortened(&bar.name)),
            y + 1.0,
            (retired - from).max(1.0),
            y + 3.0,
            (to - retired).max(0.0),
        );
    }
    axis_labels(&mut elements, "frame", height, &ticks(frames[0], frames[1]), x);
    Drawing { id: id.to_owned(), title: title.to_owned(), height, elements, series: None }
}

fn shortened(name: &str) -> String {
    const LONGEST: usize = 26;
    if name.chars().count() <= LONGEST {
        return if name.is_empty() { "(no name)".to_owned() } else { name.to_owned() };
    }
    name.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// Draws a memory map of the largest blocks for an SVG file, one row per block.
pub(crate) fn memory_map(snapshot: &ringfence_trace::Snapshot) -> Drawing {
    const ROW: f64 = 18.0;
    const ROW_COUNT_MAX: usize = 60;
    const SIZES: f64 = 70.0;
    let mut blocks: Vec<_> = snapshot.blocks.iter().collect();
    blocks.sort_by_key(|block| (std::cmp::Reverse(block.bytes), block.number));
    blocks.truncate(ROW_COUNT_MAX);
    let mut elements = String::new();
    let width = WIDTH - LEFT - SIZES;
    for (row, block) in blocks.iter().enumerate() {
        let (y, number) = (TOP + ROW * row as f64, block.number);
        let _ = write!(
            elements,
            "<text class=\"quiet end\" x=\"{:.1}\" y=\"{:.1}\">#{number}</text>\
             <text class=\"quiet end\" x=\"{WIDTH}\" y=\"{:.1}\">{}</text>\
             <path class=\"{}\" d=\"",
            LEFT - 6.0,
            y + 11.0,
            y + 11.0,
            text(&units::bytes(block.bytes)),
            class(&block.class)
        );
        // Ranges that are less than a third of a point apart are drawn as one.
        let mut run: Option<(f64, f64)> = None;
        let place = |byte: u64| LEFT + width * byte as f64 / block.bytes.max(1) as f64;
        let put = |(left, right): (f64, f64), into: &mut String| {
            let _ = write!(into, "M{left:.2} {y:.1}H{:.2}v14H{left:.2}Z", right.max(left + 0.3));
        };
        for range in &block.ranges {
            let (left, right) = (place(range.offset), place(range.offset.saturating_add(range.bytes)));
            run = match run {
                Some((start, end)) if left - end < 0.3 => Some((start, right.max(end))),
                held => {
                    held.into_iter().for_each(|held| put(held, &mut elements));
                    Some((left, right))
                }
            };
        }
        run.into_iter().for_each(|held| put(held, &mut elements));
        let _ =
            write!(elements, "\"/><rect class=\"block\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width}\" height=\"14\"/>");
    }
    key_of_classes(&mut elements, &blocks);
    let left_out = snapshot.blocks.len() - blocks.len();
    let title = match left_out {
        0 => "Memory map".to_owned(),
        _ => format!("Memory map: the largest {} of {} blocks", blocks.len(), snapshot.blocks.len()),
    };
    Drawing { id: "memory-map".to_owned(), title, height: TOP + ROW * blocks.len() as f64, elements, series: None }
}

fn key_of_classes(elements: &mut String, blocks: &[&ringfence_trace::BlockSnapshot]) {
    let names: std::collections::BTreeSet<&str> = blocks.iter().map(|block| block.class.as_str()).collect();
    let mut x = LEFT;
    for name in names {
        let _ = write!(
            elements,
            "<rect class=\"{}\" x=\"{x:.0}\" y=\"26\" width=\"12\" height=\"12\"/><text x=\"{:.0}\" y=\"36\">{}</text>",
            class(name),
            x + 18.0,
            text(if name == "all" { "any kind" } else { name })
        );
        x += 40.0 + 7.0 * name.chars().count() as f64;
    }
}

fn class(name: &str) -> &'static str {
    match name {
        "buffers" => "buffers",
        "textures" => "textures",
        "render targets" => "targets",
        _ => "all",
    }
}
