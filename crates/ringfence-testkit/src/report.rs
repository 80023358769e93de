//! Results of a test run besides "ok": skipped tests, and the active validation layers.
//!
//! Rust's test runner has no skipped tests: a test that returns early counts as passed. Such a test calls [`skipped`].
//! If `RINGFENCE_TEST_REPORT` names a file, each event is appended to it as one line with fields that are separated by
//! tabs. `ci/drivers.sh` reads the file.
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

/// Reports that the test of this thread does not apply to the device, and the reason.
pub fn skipped(reason: impl Display) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread without a name");
    print(&format!("skipped: {name}: {reason}"));
    line("skipped", name, &reason.to_string());
}

/// Reports the validation layers that check a device, or the reason why there are none.
pub fn layers(device: &str, what: impl Display) {
    print(&format!("{what} [{device}]"));
    line("layers", device, &what.to_string());
}

/// Prints a line to standard error, past the test runner, which captures the output of passing tests. Prints each line
/// once.
fn print(line: &str) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if PRINTED.lock().is_ok_and(|mut printed| printed.insert(line.to_owned())) {
        // If the stream is closed, the test does not fail. The leading newline separates the line from other output.
        let _ = std::io::stderr().write_all(format!("\n{line}\n").as_bytes());
    }
}

/// Appends one line to the report. Panics if the file cannot be written, because an incomplete report would mislead.
fn line(kind: &str, name: &str, text: &str) {
    let Some(path) = std::env::var_os("RINGFENCE_TEST_REPORT") else { return };
    let text = text.replace(['\t', '\n', '\r'], " ");
    // One write call, so that lines of several threads and processes do not mix.
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(format!("{kind}\t{name}\t{text}\n").as_bytes()));
    if let Err(error) = written {
        panic!("RINGFENCE_TEST_REPORT, {}: {error}", path.display());
    }
}
