//! Descriptors: each region of slots as a bar, and all regions as a table. The length of a bar is the size of the
//! region. Its parts are the slots in use and the slots that wait for the device; a tick shows the high-water mark.

use ringfence_trace::DescriptorSnapshot;

use super::part;
use crate::figures::percent;
use crate::html;
use crate::table::Table;
use crate::units::count;

pub(super) fn html(regions: &[DescriptorSnapshot]) -> String {
    if regions.is_empty() {
        return String::new();
    }
    let bars: String = regions.iter().enumerate().map(|(index, region)| bar(index, region)).collect();
    let table = Table {
        caption: "Descriptors as a table",
        headings: &[
            "Heap",
            "Shows",
            "Region",
            "Slots",
            "In use",
            "Waiting",
            "High-water",
            "Longest free run",
            "Driver heaps",
            "Tables copied",
            "Tables shared",
        ],
        numbers: &[false, false, false, true, true, true, true, true, true, true, true],
        rows: regions.iter().map(row).collect(),
    };
    format!("{KEY}<div class=\"heaps\" id=\"descriptors\">\n{bars}</div>\n{}", table.folded())
}

const KEY: &str = "<ul class=\"key\"><li><i class=\"used\"></i>in use</li><li><i class=\"others\"></i>waiting for the \
    device</li><li><i class=\"free\"></i>free</li><li><i class=\"budget\"></i>high-water</li></ul>\n";

fn bar(index: usize, region: &DescriptorSnapshot) -> String {
    let DescriptorSnapshot { slot_count, used_count, waiting_count, high_water, .. } = region;
    let waiting = (*waiting_count).min(*used_count);
    let mark = high_water.map(|mark| {
        let left = percent(mark, *slot_count).min(100.0);
        format!("<b class=\"budget\" style=\"left:{left:.3}%\"></b>")
    });
    let summary = summary(region);
    format!(
        "<div class=\"heap\" data-region=\"{index}\" data-slots=\"{slot_count}\" data-used=\"{used_count}\">\
         <p><strong>{}</strong> {}, {}</p><p class=\"figure\">{summary}</p>\
         <div class=\"bar\" role=\"img\" aria-label=\"{summary}\">{}{}{}</div></div>\n",
        html::text(name(region)),
        html::text(&region.kind),
        html::text(&region.region),
        part("used", percent(used_count - waiting, *slot_count)),
        part("others", percent(waiting, *slot_count)),
        mark.unwrap_or_default(),
    )
}

fn name(region: &DescriptorSnapshot) -> &str {
    if region.name.is_empty() { "unnamed heap" } else { &region.name }
}

fn summary(region: &DescriptorSnapshot) -> String {
    let used = format!("{} of {} slots in use", count(region.used_count), count(region.slot_count));
    if region.waiting_count == 0 { used } else { format!("{used}, {} of them waiting", count(region.waiting_count)) }
}

fn row(region: &DescriptorSnapshot) -> Vec<String> {
    vec![
        name(region).into(),
        region.kind.clone(),
        region.region.clone(),
        count(region.slot_count),
        count(region.used_count),
        count(region.waiting_count),
        region.high_water.map_or("not counted".into(), count),
        count(region.largest_free),
        count(region.heap_count),
        count(region.tables_made),
        count(region.tables_shared),
    ]
}
