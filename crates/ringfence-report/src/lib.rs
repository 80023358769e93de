//! Reports about GPU memory: one self-contained HTML page for a snapshot, for a snapshot with the measurements of a
//! run, or for a trace. [`PlanPage`] is a page for an aliasing plan.
//!
//! The page contains its styles, its scripts and its data, and makes no network request. All figures, the charts over
//! the frames, and a table of all blocks are HTML and need no JavaScript. The scripts add the memory map, the search,
//! and details of the item that the pointer or the arrow keys select.
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

/// The content of a page.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// The page's heading.
    pub title: String,
    /// The memory at the end of the run, or at any other moment.
    pub snapshot: Snapshot,
    /// The origin of the snapshot.
    #[serde(default)]
    pub source: Source,
    /// The measurements of each frame, in order; empty for a snapshot without a run.
    #[serde(default)]
    pub frames: Vec<FrameSample>,
    /// Name of the upload ring whose measurements `frames` contains; `None` if the measurements are sums over all
    /// rings.
    #[serde(default)]
    pub ring: Option<String>,
    /// Rows of the table of final figures: label and value.
    #[serde(default)]
    pub facts: Vec<(String, String)>,
    /// The history from a trace, if there is a trace.
    #[serde(default)]
    pub history: Option<History>,
    /// The reason why only a part of the snapshot's file could be read, or the first contradiction in it; `None` if
    /// there is neither.
    #[serde(default)]
    pub damage: Option<String>,
    /// A later snapshot to compare with.
    #[serde(default)]
    pub compared: Option<Compared>,
}

/// A later snapshot that a page compares with [`Report::snapshot`].
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Compared {
    /// Title of the later snapshot.
    pub title: String,
    /// The later snapshot.
    pub snapshot: Snapshot,
    /// The origin of the snapshot.
    #[serde(default)]
    pub source: Source,
    /// The reason why the snapshot is incomplete, or the first contradiction in it; `None` if there is neither. Ranges
    /// that could not be read are listed as freed.
    #[serde(default)]
    pub damage: Option<String>,
}

/// The data of the page's script. All other content is in the HTML.
#[derive(serde::Serialize)]
struct PageData<'a> {
    title: &'a str,
    snapshot: &'a Snapshot,
    frames: &'a [FrameSample],
}

impl Report {
    /// Returns the page as HTML. O(n log n) for n blocks, ranges and frames. The page is about as large as the JSON of
    /// the snapshot and the frames.
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
            _ => unreachable!("the page's template contains an unknown slot: {slot}"),
        })
    }

    /// Returns the figures at the top of the page. If there is a trace, the peak of reserved bytes comes from the
    /// trace, because a snapshot has no peak of dedicated memory.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::of(&self.snapshot).known_by(self.source);
        if let Some(most) = self.peak() {
            figures.reserved_bytes_high_water = Some(most.max(figures.reserved_bytes));
        }
        figures
    }

    /// Returns the peak of reserved bytes in the trace, if there is one.
    fn peak(&self) -> Option<u64> {
        self.history.as_ref().map(|history| history.reserved_bytes_high_water).filter(|most| *most > 0)
    }

    /// Returns each chart as an SVG file for papers and slides on a white background: its name without an extension,
    /// and its content.
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

/// The page's scripts, in the order of their dependencies.
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

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
