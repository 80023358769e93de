//! The most important figures.

use crate::units::{bytes, count, percent, plural};
use crate::{Figures, Source};

/// A figure: its name in the page, its label, its value, its text, and a note under it.
struct Figure {
    name: &'static str,
    label: &'static str,
    value: String,
    text: String,
    note: String,
}

/// Returns the figures as HTML. `is_exact` is `true` if the peak of reserved bytes comes from a trace. Otherwise the
/// peak counts only the current dedicated memory, and the page says so.
pub(super) fn html(figures: &Figures, source: Source, is_exact: bool) -> String {
    let all = memory(figures, is_exact).into_iter().chain(objects(figures, source));
    format!("<dl class=\"figures\">\n{}</dl>\n", all.map(|figure| figure.html()).collect::<String>())
}

fn memory(of: &Figures, is_exact: bool) -> [Figure; 4] {
    let in_bytes = |name, label, value: u64, note: String| Figure {
        name,
        label,
        value: value.to_string(),
        text: bytes(value),
        note,
    };
    let without = if is_exact { "" } else { ", with the current dedicated memory" };
    let most = of.reserved_bytes_high_water.map(|most| format!("at most {} so far{without}", bytes(most)));
    let most = most.unwrap_or_else(|| "the maximum so far is unknown".into());
    [
        in_bytes("reserved_bytes", "Reserved", of.reserved_bytes, most),
        in_bytes("used_bytes", "Used", of.used_bytes, "by resources".into()),
        in_bytes("free_bytes", "Free in blocks", of.free_bytes, "reserved but unused".into()),
        Figure {
            name: "waste_percent",
            label: "Waste",
            value: format!("{:.3}", of.waste_percent),
            text: percent(of.waste_percent),
            note: "unused share of the reserved bytes".into(),
        },
    ]
}

fn objects(of: &Figures, source: Source) -> [Figure; 4] {
    let counted = |name, label, value: u64, note: String| Figure {
        name,
        label,
        value: value.to_string(),
        text: count(value),
        note,
    };
    let dedicated = format!("{} of them dedicated", count(of.dedicated_count));
    let maybe = |name, label, value: Option<u64>, note: String| match value {
        Some(value) => counted(name, label, value, note),
        None => Figure { name, label, value: String::new(), text: "unknown".into(), note: source.lacks().into() },
    };
    let saved = of.calls_made.map(|made| format!("{} made", plural(made, "call"))).unwrap_or_default();
    [
        counted("block_count", "Blocks", of.block_count, dedicated),
        counted("allocation_count", "Allocations", of.allocation_count, "ranges in use".into()),
        maybe("retired_count", "Retired", of.retired_count, "wait for the device".into()),
        maybe("calls_saved", "Driver calls saved", of.calls_saved, saved),
    ]
}

impl Figure {
    fn html(&self) -> String {
        let Self { name, label, value, text, note } = self;
        format!(
            "<div><dt>{label}</dt><dd id=\"figure-{name}\" data-figure=\"{name}\" data-value=\"{value}\">{text}</dd>\
             <dd class=\"note\">{note}</dd></div>\n"
        )
    }
}
