//! The memory map's table: every block. The map itself is drawn by `page/map.js`.

use ringfence_trace::{BlockSnapshot, Snapshot};

use super::nothing;
use crate::BlockFigures;
use crate::table::Table;
use crate::units::{bytes, count};

pub(super) fn html(snapshot: &Snapshot) -> String {
    if snapshot.blocks.is_empty() {
        return nothing("The allocator holds no block.");
    }
    let table = Table {
        caption: "Blocks as a table",
        headings: &["Block", "Memory type", "Properties", "Holds", "Size", "Used", "Free", "Largest free", "Ranges"],
        numbers: &[true, true, false, false, true, true, true, true, true],
        rows: snapshot.blocks.iter().enumerate().map(|(index, block)| row(snapshot, index, block)).collect(),
    };
    table.folded()
}

fn row(snapshot: &Snapshot, index: usize, block: &BlockSnapshot) -> Vec<String> {
    let figures = BlockFigures::of(block);
    let properties = snapshot.types.get(block.memory_type as usize).map(|kind| kind.properties.join(", "));
    vec![
        index.to_string(),
        block.memory_type.to_string(),
        properties.unwrap_or_default(),
        if block.dedicated { format!("{}, dedicated", block.class) } else { block.class.clone() },
        bytes(block.bytes),
        bytes(figures.used_bytes),
        bytes(figures.free_bytes),
        bytes(figures.free_bytes_largest),
        count(block.ranges.len() as u64),
    ]
}
