//! The section of the memory map: an empty map that `page/map.js` draws, and a table of all blocks.

use ringfence_trace::{BlockSnapshot, Snapshot};

use super::nothing;
use crate::table::Table;
use crate::units::{bytes, count};
use crate::{BlockFigures, html};

pub(super) fn html(snapshot: &Snapshot) -> String {
    // The elements exist even if there is nothing to draw, because the script looks them up.
    html::fill(include_str!("../page/map.html"), |_| table(snapshot))
}

fn table(snapshot: &Snapshot) -> String {
    if snapshot.blocks.is_empty() {
        return nothing("The allocator has no blocks.");
    }
    let mut blocks: Vec<_> = snapshot.blocks.iter().collect();
    blocks.sort_by_key(|block| block.number);
    let table = Table {
        caption: "Blocks as a table",
        headings: &["Block", "Memory type", "Properties", "Holds", "Size", "Used", "Free", "Largest free", "Ranges"],
        numbers: &[true, true, false, false, true, true, true, true, true],
        rows: blocks.iter().map(|block| row(snapshot, block)).collect(),
    };
    table.folded()
}

fn row(snapshot: &Snapshot, block: &BlockSnapshot) -> Vec<String> {
    let figures = BlockFigures::of(block);
    let properties = snapshot.types.get(block.memory_type as usize).map(|kind| kind.properties.join(", "));
    vec![
        format!("#{}", count(block.number)),
        block.memory_type.to_string(),
        properties.unwrap_or_default(),
        if block.dedicated { format!("{}, dedicated", class(block)) } else { class(block).to_owned() },
        bytes(block.bytes),
        bytes(figures.used_bytes),
        bytes(figures.free_bytes),
        bytes(figures.free_bytes_largest),
        count(block.ranges.len() as u64),
    ]
}

/// Returns the class of a block's resources as text. `page/map.js` writes the same text.
fn class(block: &BlockSnapshot) -> &str {
    if block.class == "all" { "any kind" } else { &block.class }
}
