//! What a test run has to report beside "ok": tests that do not apply to a device, and which layers listened.
//!
//! Rust's test runner knows no skipped test: one that returns early counts as passed. Such a test calls [`skipped`], and
//! `ci/drivers.sh` reads the file that `RINGFENCE_TEST_REPORT` names, one line an event, fields separated by tabs:
//!
//! ```text
//! skipped     NAME OF THE TEST    REASON
//! layers      NAME OF THE DEVICE  WHAT LISTENED
//! ```

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Reports that the test which runs on this thread does not apply here, and why.
pub fn skipped(reason: impl Display) {
    println!("skipped: {reason}");
    let thread = std::thread::current();
    line("skipped", thread.name().unwrap_or("a thread without a name"), &reason.to_string());
}

/// Reports which validation layers listen to a device; the reason if none does.
pub fn layers(device: &str, what: impl Display) {
    line("layers", device, &what.to_string());
}

/// Appends one line. A file that cannot be written fails the test: a report with holes in it is worse than none.
fn line(kind: &str, name: &str, text: &str) {
    let Some(path) = std::env::var_os("RINGFENCE_TEST_REPORT") else { return };
    let text = text.replace(['\t', '\n', '\r'], " ");
    // In one write, so that the lines of several threads and processes do not mix.
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(format!("{kind}\t{name}\t{text}\n").as_bytes()));
    if let Err(error) = written {
        panic!("RINGFENCE_TEST_REPORT, {}: {error}", path.display());
    }
}
