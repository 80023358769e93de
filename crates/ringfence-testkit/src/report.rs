//! What a test run has to report beside "ok": tests that do not apply to a device, and which layers listened.
//!
//! Rust's test runner knows no skipped test: one that returns early counts as passed. Such a test calls [`skipped`],
//! and `ci/drivers.sh` reads the file that `RINGFENCE_TEST_REPORT` names, one line an event, fields separated by tabs:
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

/// Reports that the test which runs on this thread does not apply here, and why.
pub fn skipped(reason: impl Display) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread without a name");
    print(&format!("skipped: {name}: {reason}"));
    line("skipped", name, &reason.to_string());
}

/// Reports which validation layers listen to a device; the reason if none does.
pub fn layers(device: &str, what: impl Display) {
    print(&format!("{what} [{device}]"));
    line("layers", device, &what.to_string());
}

/// Prints a line past the test runner, which keeps what passing tests print; each line once.
fn print(line: &str) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if PRINTED.lock().is_ok_and(|mut printed| printed.insert(line.to_owned())) {
        // A closed stream is no fault of the test's. A line of its own, whatever stands before it.
        let _ = std::io::stderr().write_all(format!("\n{line}\n").as_bytes());
    }
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
