//! Pictures of GPU memory: a snapshot, and what a run measured, as one HTML page that needs nothing else.
//!
//! The page holds its styles, its script and its data; it requests nothing from the network. Every figure, every chart
//! over the frames and a table of every block stand in the HTML itself and are there without JavaScript. The script
//! adds the memory map, the search and what a pointer or the arrow keys point at.
//!
//! ```
//! use ringfence_report::{FrameSample, Report};
//!
//! let report = Report {
//!     title: "Harbour scene".into(),
//!     frames: vec![FrameSample { frame: 1, live_count: 12, ..Default::default() }],
//!     facts: vec![("Frames".into(), "1".into())],
//!     ..Default::default()
//! };
//! assert!(report.to_html().contains("Harbour scene"));
//! ```

mod axis;
mod chart;
mod consumers;
mod figures;
mod frames;
mod gantt;
mod history;
mod html;
pub mod import;
mod plot;
mod read;
mod sections;
mod source;
mod table;
mod units;

use ringfence_trace::Snapshot;

pub use consumers::{Consumer, consumers, prefix};
pub use figures::{BlockFigures, Figures};
pub use frames::FrameSample;
pub use gantt::{PlanPage, PlannedRow};
pub use history::{
    DescriptorMoment, FramePlan, FramePlanRow, HeapMoment, History, Lifetime, Moment, RingMoment, TransientRow,
};
pub use read::JsonError;
pub use source::Source;
pub use units::{bytes, count};

/// What a page shows.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// The page's heading.
    pub title: String,
    /// The memory at the end of the run, or at whatever moment is looked at.
    pub snapshot: Snapshot,
    /// Where the snapshot comes from.
    #[serde(default)]
    pub source: Source,
    /// What was measured in each frame, in order; empty if the snapshot is all there is.
    #[serde(default)]
    pub frames: Vec<FrameSample>,
    /// The name of the upload ring that the frames measure; `None` if they measure all rings together.
    #[serde(default)]
    pub ring: Option<String>,
    /// The lines of the table that ends a run: label and value.
    #[serde(default)]
    pub facts: Vec<(String, String)>,
    /// What a trace recorded over time.
    #[serde(default)]
    pub history: Option<History>,
    /// Why only a part of the snapshot's file could be read, or what in it cannot be.
    #[serde(default)]
    pub damage: Option<String>,
    /// A later snapshot to compare with.
    #[serde(default)]
    pub compared: Option<Compared>,
}

/// A snapshot that the page's own is compared with.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Compared {
    /// What it is called.
    pub title: String,
    /// The memory then.
    pub snapshot: Snapshot,
    /// Where the snapshot comes from.
    #[serde(default)]
    pub source: Source,
    /// Why that is not all of it, or what in it cannot be: what was lost looks as if it were freed.
    #[serde(default)]
    pub damage: Option<String>,
}

/// What the page's script is given: the rest stands in the HTML.
#[derive(serde::Serialize)]
struct PageData<'a> {
    title: &'a str,
    snapshot: &'a Snapshot,
    frames: &'a [FrameSample],
}

impl Report {
    /// The page. O(blocks + ranges + frames); its size is about that of the snapshot as JSON.
    #[must_use]
    pub fn to_html(&self) -> String {
        let sections = sections::of(self);
        html::fill(include_str!("page/page.html"), |slot| match slot {
            "title" => html::text(&self.title),
            "device" => html::text(self.device()),
            "style" => include_str!("page/page.css").to_owned(),
            "script" => SCRIPTS.concat(),
            "data" => {
                html::script_json(&PageData { title: &self.title, snapshot: &self.snapshot, frames: &self.frames })
            }
            "headline" => sections::headline(self, &self.figures()),
            "contents" => sections::contents(&sections),
            "sections" => sections.iter().map(sections::Section::html).collect(),
            _ => unreachable!("the page's frame names a slot that nothing fills: {slot}"),
        })
    }

    /// The figures at the head of the page. What a trace knows of the peak is exact; a snapshot's memory types keep no
    /// mark of dedicated memory.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::of(&self.snapshot).known_by(self.source);
        if let Some(most) = self.peak() {
            figures.reserved_bytes_high_water = Some(most.max(figures.reserved_bytes));
        }
        figures
    }

    /// The most that was ever reserved, if a trace tells.
    fn peak(&self) -> Option<u64> {
        self.history.as_ref().map(|history| history.reserved_bytes_high_water).filter(|most| *most > 0)
    }

    /// Every chart as an SVG file of its own, black on white, for papers and slides: name (without an ending) and
    /// content.
    #[must_use]
    pub fn to_svgs(&self) -> Vec<(String, String)> {
        let mut drawings = vec![plot::memory_map(&self.snapshot)];
        drawings.extend(sections::run_drawings(self));
        drawings.extend(self.history.iter().flat_map(sections::history::drawings));
        drawings.into_iter().map(|drawing| (drawing.id.clone(), drawing.file())).collect()
    }

    fn device(&self) -> &str {
        if self.snapshot.device.is_empty() { "unnamed device" } else { &self.snapshot.device }
    }
}

/// The page's scripts, each after those that it uses.
const SCRIPTS: [&str; 11] = [
    include_str!("page/basics.js"),
    include_str!("page/theme.js"),
    include_str!("page/reading.js"),
    include_str!("page/charts.js"),
    include_str!("page/map.js"),
    include_str!("page/map-draw.js"),
    include_str!("page/map-point.js"),
    include_str!("page/map-keys.js"),
    include_str!("page/map-search.js"),
    include_str!("page/ranges.js"),
    include_str!("page/page.js"),
];

#[cfg(test)]
mod tests;
