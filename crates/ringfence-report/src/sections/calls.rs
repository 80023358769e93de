//! Driver calls: the calls that were made, and the calls that a program without Ringfence would have made too.

use ringfence_trace::DriverCalls;

use super::part;
use crate::figures::percent;
use crate::table::Table;
use crate::units::count;
use crate::{Report, Source};

pub(super) fn html(report: &Report) -> String {
    let calls = &report.snapshot.calls;
    let until = match report.source {
        // The allocator's own objects, and objects that several ranges share, are not recorded as events.
        Source::Trace => "to the end of the trace, from its events: one object per range",
        Source::Allocator => "until the snapshot was taken",
        Source::VmaDump | Source::Part => return String::new(),
    };
    let (made, saved) = (calls.made(), calls.saved());
    let whole = made.saturating_add(saved);
    format!(
        "<p class=\"note\">Counted {until}.</p>\n{KEY}<div class=\"calls\">\n{}{}</div>\n{}",
        bar("With Ringfence", "calls_made", made, &part("used", percent(made, whole))),
        bar(
            "Without Ringfence: one memory object per resource, one buffer per write",
            "calls_without",
            whole,
            &format!("{}{}", part("used", percent(made, whole)), part("saved", percent(saved, whole))),
        ),
        table(calls, report.source),
    )
}

const KEY: &str = "<ul class=\"key\"><li><i class=\"used\"></i>made</li><li><i class=\"saved\"></i>saved</li></ul>\n";

fn bar(label: &str, name: &str, value: u64, parts: &str) -> String {
    format!(
        "<div class=\"heap\"><p>{label}</p><p class=\"figure\" data-figure=\"{name}\" data-value=\"{value}\">{} calls\
         </p><div class=\"bar\" aria-hidden=\"true\">{parts}</div></div>\n",
        count(value)
    )
}

fn table(calls: &DriverCalls, source: Source) -> String {
    let wait = (source != Source::Trace).then_some(calls.wait);
    let rows = [
        ("Memory objects allocated", Some(calls.allocate_memory)),
        ("Memory objects freed", Some(calls.free_memory)),
        ("Buffers and textures created", Some(calls.create_object)),
        ("Buffers and textures destroyed", Some(calls.destroy_object)),
        ("Waits for the device", wait),
        ("Resources placed in a block", Some(calls.placed)),
        ("Writes to an upload ring", Some(calls.staged)),
    ];
    let row = |(name, value): &(&str, Option<u64>)| {
        vec![(*name).to_owned(), value.map_or("not in a trace".to_owned(), count)]
    };
    let table = Table {
        caption: "Calls as a table",
        headings: &["Call", "Count"],
        numbers: &[false, true],
        rows: rows.iter().map(row).collect(),
    };
    table.folded()
}
