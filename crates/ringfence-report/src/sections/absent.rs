//! What a page of this kind can show and this one does not: why, and how to have it.

use super::nothing;
use crate::{Report, Source};

pub(super) fn html(report: &Report) -> String {
    let Report { snapshot, history, compared, source, .. } = report;
    let mut lines: Vec<&str> = Vec::new();
    match source {
        Source::VmaDump => lines.push(
            "A dump of the Vulkan Memory Allocator holds no calls to the driver, no retired objects, no high-water \
             marks, no upload rings and no descriptors.",
        ),
        Source::Part => lines.push(
            "The file ends before its upload rings, its descriptors, its retired objects or its calls to the driver.",
        ),
        Source::Allocator | Source::Trace => {
            if snapshot.rings.is_empty() {
                lines.push("There is no upload ring.");
            }
            if snapshot.descriptors.is_empty() {
                lines.push("There are no descriptor heaps.");
            }
        }
    }
    if history.is_none() && *source != Source::VmaDump {
        lines.push(
            "Memory over time: record a trace (<code>Allocator::trace</code>, or <code>ringfence demo --trace \
             FILE.rft</code>) and give that to <code>ringfence report</code>.",
        );
    }
    if compared.is_none() {
        lines.push("A comparison with another snapshot: <code>ringfence report A --compare B</code>.");
    }
    lines.into_iter().map(nothing).collect()
}
