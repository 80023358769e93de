//! Results of a test run besides "ok": tests that do not apply to a device, and the active validation layers.
//!
//! Rust's test runner has no skipped tests: a test that returns early counts as passed. Such a test calls [`skipped`].
//! `ci/drivers.sh` reads the file that `RINGFENCE_TEST_REPORT` names, with one line per event and fields separated by
//! tabs:
//!
//! ```text
//! skipped     NAME OF THE TEST    REASON
//! layers      NAME OF THE DEVICE  WHAT LISTENED
//! ```

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Mutex;

/// Reports that the test on this thread does not apply here, and the reason.
pub fn skipped(reason: impl Display) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread without a name");
    print(&format!("skipped: {name}: {reason}"));
    line("skipped", name, &reason.to_string());
}

/// Reports which validation layers check a device, or why no layer does.
pub fn layers(device: &str, what: impl Display) {
    print(&format!("{what} [{device}]"));
    line("layers", device, &what.to_string());
}

/// Prints a line directly to standard error, because the test runner captures the output of passing tests. Each line is
/// printed once.
fn print(line: &str) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if PRINTED.lock().is_ok_and(|mut printed| printed.insert(line.to_owned())) {
        // A closed stream is not the test's fault. The leading newline starts a new line after any other output.
        let _ = std::io::stderr().write_all(format!("\n{line}\n").as_bytes());
    }
}

/// Appends one line to the report. If the file cannot be written, the test fails, because an incomplete report would
/// mislead.
fn line(kind: &str, name: &str, text: &str) {
    let Some(path) = std::env::var_os("RINGFENCE_TEST_REPORT") else { return };
    let text = text.replace(['\t', '\n', '\r'], " ");
    // A single write: lines of several threads and processes must not mix.
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(format!("{kind}\t{name}\t{text}\n").as_bytes()));
    if let Err(error) = written {
        panic!("RINGFENCE_TEST_REPORT, {}: {error}", path.display());
    }
}
