//! Each memory heap as a bar. The length of a bar is the size of the heap. Its parts are bytes used by resources, other
//! bytes of blocks, and bytes used by the rest of the process; a tick shows the driver's budget.

use ringfence_trace::{HeapSnapshot, Snapshot};

use super::{nothing, part};
use crate::figures::{BlockFigures, percent};
use crate::table::Table;
use crate::units::bytes;

pub(super) fn html(snapshot: &Snapshot) -> String {
    if snapshot.heaps.is_empty() {
        return nothing("The snapshot contains no heaps.");
    }
    let used = used_bytes(snapshot);
    let heaps = || snapshot.heaps.iter().zip(&used).enumerate();
    let bars: String = heaps().map(|(index, (heap, used))| bar(index, heap, *used)).collect();
    let rows = heaps().map(|(index, (heap, used))| row(index, heap, *used)).collect();
    let table = Table {
        caption: "Heaps as a table",
        headings: &["Heap", "Where", "Size", "Reserved", "Used", "Process", "Budget"],
        numbers: &[false, false, true, true, true, true, true],
        rows,
    };
    format!("{KEY}<div class=\"heaps\">\n{bars}</div>\n{}", table.folded())
}

const KEY: &str = "<ul class=\"key\"><li><i class=\"used\"></i>used</li><li><i class=\"free\"></i>free in blocks</li>\
    <li><i class=\"others\"></i>rest of the process</li><li><i class=\"budget\"></i>budget</li></ul>\n";

/// Returns the total size of the ranges in each heap, in bytes.
fn used_bytes(snapshot: &Snapshot) -> Vec<u64> {
    let mut used = vec![0_u64; snapshot.heaps.len()];
    for block in &snapshot.blocks {
        let heap = snapshot.types.get(block.memory_type as usize).map(|kind| kind.heap as usize);
        if let Some(bytes) = heap.and_then(|heap| used.get_mut(heap)) {
            *bytes = bytes.saturating_add(BlockFigures::of(block).used_bytes);
        }
    }
    used
}

fn bar(index: usize, heap: &HeapSnapshot, used: u64) -> String {
    let whole = heap.bytes.max(heap.reserved_bytes).max(heap.usage_bytes.unwrap_or(0));
    let others = heap.usage_bytes.unwrap_or(0).saturating_sub(heap.reserved_bytes);
    let budget = heap.budget_bytes.filter(|budget| *budget <= whole).map(|budget| {
        let left = percent(budget, whole);
        format!("<b class=\"budget\" style=\"left:{left:.3}%\"></b>")
    });
    format!(
        "<div class=\"heap\" data-heap=\"{index}\" data-reserved=\"{}\"><p><strong>Heap {index}</strong> {}</p>\
         <p class=\"figure\">{}</p><div class=\"bar\" role=\"img\" aria-label=\"{}\">{}{}{}{}</div></div>\n",
        heap.reserved_bytes,
        place(heap),
        summary(heap, used),
        summary(heap, used),
        part("used", percent(used, whole)),
        part("free", percent(heap.reserved_bytes.saturating_sub(used), whole)),
        part("others", percent(others, whole)),
        budget.unwrap_or_default(),
    )
}

fn place(heap: &HeapSnapshot) -> &'static str {
    if heap.device_local { "on the device" } else { "on the host" }
}

fn summary(heap: &HeapSnapshot, used: u64) -> String {
    let reserved = format!("{} used, {} reserved of {}", bytes(used), bytes(heap.reserved_bytes), bytes(heap.bytes));
    heap.budget_bytes.map_or(reserved.clone(), |budget| format!("{reserved}, budget {}", bytes(budget)))
}

fn row(index: usize, heap: &HeapSnapshot, used: u64) -> Vec<String> {
    let maybe = |value: Option<u64>| value.map_or("unknown".into(), bytes);
    vec![
        index.to_string(),
        place(heap).into(),
        bytes(heap.bytes),
        bytes(heap.reserved_bytes),
        bytes(used),
        maybe(heap.usage_bytes),
        maybe(heap.budget_bytes),
    ]
}
