//! Progress of long work. It is written to standard error, and only if that is a terminal.
//!
//! ```text
//!   steps     worlds ██████████░░░░░░░░░░ 146 of 400  3s, 5s left
//!   open_end  ⠹ 4915200 operations read, 3s
//! ```

use std::fmt::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// Interval at which the display is updated, even if the work reports no progress.
const TICK: Duration = Duration::from_secs(1);

/// Returns a bar for work of `count` steps. If a message is set, the bar shows it beside the number of steps.
pub fn steps(what: &str, count: u64) -> ProgressBar {
    let template = format!("{what} {{bar:40}} {{pos}} of {{len}} {{msg}} {{elapsed}}{{left}}");
    bar(ProgressBar::new(count), &template)
}

/// Returns a spinner for work of unknown length. Its first message is `what`; the caller replaces the message by the
/// progress.
pub fn open_end(what: &'static str) -> ProgressBar {
    bar(ProgressBar::new_spinner().with_message(what), "{spinner} {msg}, {elapsed}")
}

fn bar(bar: ProgressBar, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the template is fixed").with_key("left", left);
    let bar = bar.with_style(style);
    if !bar.is_hidden() {
        bar.enable_steady_tick(TICK);
    }
    bar
}

/// Writes the estimated remaining time, once the first step is complete.
fn left(state: &ProgressState, line: &mut dyn Write) {
    if state.pos() > 0 {
        // If the write fails, only the estimate is missing.
        let _ = write!(line, ", {}s left", state.eta().as_secs());
    }
}
