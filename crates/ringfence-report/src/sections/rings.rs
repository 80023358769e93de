//! The upload rings when the snapshot was taken: use, high-water mark and waits.

use ringfence_trace::RingSnapshot;

use crate::table::Table;
use crate::units::{bytes, count, nanoseconds};

pub(super) fn html(rings: &[RingSnapshot]) -> String {
    if rings.is_empty() {
        return String::new();
    }
    let table = Table {
        caption: "Upload rings when the snapshot was taken",
        headings: &["Ring", "Capacity", "In use", "High-water", "Submissions", "Written", "Waits", "Waited"],
        numbers: &[false, true, true, true, true, true, true, true],
        rows: rings.iter().enumerate().map(|(index, ring)| row(index, ring)).collect(),
    };
    table.html()
}

fn row(index: usize, ring: &RingSnapshot) -> Vec<String> {
    vec![
        if ring.name.is_empty() { format!("ring {index}") } else { ring.name.clone() },
        bytes(ring.capacity_bytes),
        bytes(ring.used_bytes),
        bytes(ring.high_water_bytes),
        count(ring.submission_count),
        bytes(ring.written_bytes),
        count(ring.wait_count),
        match (ring.wait_count, ring.wait_ns) {
            // On the simulated device, waits take no time.
            (1.., 0) => "not measured".into(),
            (_, time) => nanoseconds(time),
        },
    ]
}
