#![no_main]
//! Reads an untrusted snapshot or report, and renders it as a page.

use ringfence_report::{Figures, Report};
use ringfence_trace::Snapshot;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(snapshot) = serde_json::from_slice::<Snapshot>(data) {
        let _ = Figures::of(&snapshot);
        let _ = snapshot.to_vma_json();
        let report = Report { snapshot, ..Report::default() };
        let _ = (report.to_html(), report.to_svgs());
    }
    if let Ok(report) = serde_json::from_slice::<Report>(data) {
        let _ = (report.to_html(), report.to_svgs());
    }
    ringfence_fuzz::count(1);
});
