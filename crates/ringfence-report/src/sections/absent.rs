//! The section about data that this page does not have, and how to get it.

use super::nothing;
use crate::{Report, Source};

pub(super) fn html(report: &Report) -> String {
    let Report { snapshot, history, compared, source, .. } = report;
    let mut lines: Vec<&str> = Vec::new();
    match source {
        Source::VmaDump => lines.push(
            "A dump of the Vulkan Memory Allocator contains no driver calls, retired objects, high-water marks, \
             upload rings or descriptors.",
        ),
        Source::Part => lines
            .push("The file is truncated: its upload rings, descriptors, retired objects or driver calls are missing."),
        Source::Allocator | Source::Trace => {
            if snapshot.rings.is_empty() {
                lines.push("There are no upload rings.");
            }
            if snapshot.descriptors.is_empty() {
                lines.push("There are no descriptor heaps.");
            }
        }
    }
    if history.is_none() && *source != Source::VmaDump {
        lines.push(
            "Memory over time: record a trace (<code>Allocator::trace</code>, or <code>ringfence demo --trace \
             FILE.rft</code>) and pass it to <code>ringfence report</code>.",
        );
    }
    if compared.is_none() {
        lines.push("A comparison with another snapshot: <code>ringfence report A --compare B</code>.");
    }
    lines.into_iter().map(nothing).collect()
}
