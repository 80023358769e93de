//! The run, frame by frame: upload rings, memory, retired objects and live objects.

use ringfence_trace::RingSnapshot;

use crate::chart::{Chart, Level, Line, Look as ChartLook, Unit};
use crate::frames::buckets;
use crate::plot::{Drawing, Look, Series, over_frames};
use crate::table::Table;
use crate::units::{bytes, count};
use crate::{FrameSample, Report};

/// Maximum number of rows, because longer tables are hard to read. In a longer run, each row stands for several frames.
const ROW_COUNT_MAX: usize = 100;
/// Maximum number of points that a reader can distinguish.
const POINT_COUNT_MAX: usize = 500;

pub(super) fn html(report: &Report) -> String {
    if report.frames.is_empty() {
        return String::new();
    }
    let charts = [ring(report), memory(), retired(&report.frames), live()];
    let charts: String = charts.iter().map(|chart| chart.html(&report.frames)).collect();
    format!("<div class=\"charts\">\n{charts}</div>\n{}", table(&report.frames))
}

fn ring(report: &Report) -> Chart {
    let seen = report.frames.iter().map(|frame| frame.ring_used_bytes).max().unwrap_or(0);
    let level = match measured(report) {
        Some(ring) => Level { name: "high-water", value: ring.high_water_bytes.max(seen) },
        // Several rings reach their high-water marks at different times, so the sum of the marks would mean nothing.
        None => Level { name: "maximum at the end of a frame", value: seen },
    };
    Chart {
        id: "ring",
        title: ring_title(report),
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
        level: Some(level),
    }
}

/// Returns the ring that the frames measure, if they measure a single one.
fn measured(report: &Report) -> Option<&RingSnapshot> {
    match (&report.ring, &report.snapshot.rings[..]) {
        (Some(name), rings) => rings.iter().find(|ring| ring.name == *name),
        (None, [ring]) => Some(ring),
        (None, _) => None,
    }
}

fn ring_title(report: &Report) -> String {
    match &report.ring {
        Some(name) => format!("Upload ring: {name}"),
        None if report.snapshot.rings.len() > 1 => "Upload rings".to_owned(),
        None => "Upload ring".to_owned(),
    }
}

fn memory() -> Chart {
    Chart {
        id: "memory",
        title: "Memory".into(),
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
        title: "Retired, waiting for the device".into(),
        unit: Unit::Count,
        lines: vec![Line {
            name: "retired objects",
            key: "retired_count",
            look: ChartLook::Area,
            value: |frame| frame.retired_count,
        }],
        level: Some(Level { name: "maximum", value: most }),
    }
}

fn live() -> Chart {
    Chart {
        id: "live",
        title: "Live objects".into(),
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

fn table(frames: &[FrameSample]) -> String {
    let runs = buckets(frames, ROW_COUNT_MAX);
    let caption = match frames.len().div_ceil(ROW_COUNT_MAX) {
        0 | 1 => "Frames as a table".to_owned(),
        each => format!("Frames as a table: each row shows the maximum of {each} frames"),
    };
    let table = Table {
        caption: &caption,
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

/// Returns the charts with their text, for files.
pub(crate) fn drawings(report: &Report) -> Vec<Drawing> {
    let Report { frames, .. } = report;
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
        over_frames("upload-ring", &ring_title(report), Unit::Bytes, &numbers, &ring),
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
