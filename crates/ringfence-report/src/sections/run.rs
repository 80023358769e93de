//! The run, frame by frame: the rings, the memory, what waits for the device, what is alive.

use super::nothing;
use crate::chart::{Chart, Level, Line, Look as ChartLook, Unit};
use crate::frames::buckets;
use crate::plot::{Drawing, Look, Series, over_frames};
use crate::table::Table;
use crate::units::{bytes, count};
use crate::{FrameSample, Report};

/// A longer table is not read; its rows then stand for several frames each.
const ROW_COUNT_MAX: usize = 100;
/// More points cannot be distinguished.
const POINT_COUNT_MAX: usize = 500;

pub(super) fn charts(report: &Report) -> String {
    if report.frames.is_empty() {
        return nothing("No frames were recorded.");
    }
    let charts = [ring(report), memory(), retired(&report.frames), live()];
    let charts: String = charts.iter().map(|chart| chart.html(&report.frames)).collect();
    format!("<div class=\"charts\">\n{charts}</div>\n")
}

fn ring(report: &Report) -> Chart {
    let seen = report.frames.iter().map(|frame| frame.ring_used_bytes).max().unwrap_or(0);
    let marks = report.snapshot.rings.iter().map(|ring| ring.high_water_bytes).fold(0, u64::saturating_add);
    let mark = if report.snapshot.rings.len() == 1 { marks.max(seen) } else { seen };
    Chart {
        id: "ring",
        title: "Upload ring",
        unit: Unit::Bytes,
        lines: vec![
            Line {
                name: "in use",
                key: "ring_used_bytes",
                look: ChartLook::Area,
                value: |frame| frame.ring_used_bytes,
            },
            Line {
                name: "capacity",
                key: "ring_capacity_bytes",
                look: ChartLook::Dashes,
                value: |frame| frame.ring_capacity_bytes,
            },
        ],
        level: Some(Level { name: "high-water", value: mark }),
    }
}

fn memory() -> Chart {
    Chart {
        id: "memory",
        title: "Memory",
        unit: Unit::Bytes,
        lines: vec![
            Line { name: "used", key: "used_bytes", look: ChartLook::Area, value: |frame| frame.used_bytes },
            Line {
                name: "reserved",
                key: "reserved_bytes",
                look: ChartLook::Line,
                value: |frame| frame.reserved_bytes,
            },
        ],
        level: None,
    }
}

fn retired(frames: &[FrameSample]) -> Chart {
    let most = frames.iter().map(|frame| frame.retired_count).max().unwrap_or(0);
    Chart {
        id: "retired",
        title: "Retired, waiting for the device",
        unit: Unit::Count,
        lines: vec![Line {
            name: "retired objects",
            key: "retired_count",
            look: ChartLook::Area,
            value: |frame| frame.retired_count,
        }],
        level: Some(Level { name: "most", value: most }),
    }
}

fn live() -> Chart {
    Chart {
        id: "live",
        title: "Live objects",
        unit: Unit::Count,
        lines: vec![Line {
            name: "live objects",
            key: "live_count",
            look: ChartLook::Area,
            value: |frame| frame.live_count,
        }],
        level: None,
    }
}

pub(super) fn table(frames: &[FrameSample]) -> String {
    if frames.is_empty() {
        return String::new();
    }
    let runs = buckets(frames, ROW_COUNT_MAX);
    let whole = runs.len() == frames.len();
    let table = Table {
        caption: if whole { "Frames as a table" } else { "Frames as a table: the most of each few" },
        headings: &["Frame", "Ring in use", "Ring capacity", "Used", "Reserved", "Retired", "Live"],
        numbers: &[true; 7],
        rows: runs.iter().map(|run| row(frames[run.first].frame, frames[run.last].frame, &run.most)).collect(),
    };
    table.folded()
}

fn row(first: u64, last: u64, most: &FrameSample) -> Vec<String> {
    vec![
        if first == last { count(first) } else { format!("{}–{}", count(first), count(last)) },
        bytes(most.ring_used_bytes),
        bytes(most.ring_capacity_bytes),
        bytes(most.used_bytes),
        bytes(most.reserved_bytes),
        count(most.retired_count),
        count(most.live_count),
    ]
}

/// The charts with their text, for files of their own.
pub(crate) fn drawings(frames: &[FrameSample]) -> Vec<Drawing> {
    if frames.is_empty() {
        return Vec::new();
    }
    let runs = buckets(frames, POINT_COUNT_MAX);
    let numbers: Vec<u64> = runs.iter().map(|run| run.most.frame).collect();
    let series = |name: &str, look, value: fn(&FrameSample) -> u64| Series {
        name: name.into(),
        look,
        values: runs.iter().map(|run| Some(value(&run.most))).collect(),
    };
    let ring = [
        series("in use", Look::Area, |frame| frame.ring_used_bytes),
        series("capacity", Look::Dashes, |frame| frame.ring_capacity_bytes),
    ];
    let memory = [
        series("used", Look::Area, |frame| frame.used_bytes),
        series("reserved", Look::Line, |frame| frame.reserved_bytes),
    ];
    vec![
        over_frames("upload-ring", "Upload ring", Unit::Bytes, &numbers, &ring),
        over_frames("memory", "Memory", Unit::Bytes, &numbers, &memory),
        over_frames(
            "retired",
            "Retired, waiting for the device",
            Unit::Count,
            &numbers,
            &[series("retired objects", Look::Area, |frame| frame.retired_count)],
        ),
        over_frames(
            "live",
            "Live objects",
            Unit::Count,
            &numbers,
            &[series("live objects", Look::Area, |frame| frame.live_count)],
        ),
    ]
}
