#![no_main]
//! Reads an untrusted dump of another allocator, and renders it as a page.

use ringfence_report::Report;
use ringfence_report::import::{is_vma_dump, vma_dump};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(dump) = serde_json::from_slice::<serde_json::Value>(data)
        && is_vma_dump(&dump)
        && let Ok(snapshot) = vma_dump(&dump)
    {
        let _ = Report { snapshot, ..Report::default() }.to_html();
    }
    ringfence_fuzz::count(1);
});
