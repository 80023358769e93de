//! How far long work has come: on standard error, and only if that is a terminal.
//!
//! ```text
//!   steps     worlds ██████████░░░░░░░░░░ 146 of 400  3s, 5s left
//!   open_end  ⠹ 4915200 operations read, 3s
//! ```

use std::fmt::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// How often the clock of work that reports nothing itself moves on.
const TICK: Duration = Duration::from_secs(1);

/// Work of `count` steps; the message, if it is set, says which one it is at.
pub fn steps(what: &str, count: u64) -> ProgressBar {
    let template = format!("{what} {{bar:40}} {{pos}} of {{len}} {{msg}} {{elapsed}}{{left}}");
    bar(ProgressBar::new(count), &template)
}

/// Work of unknown extent; the message says what was done, at first `what` is done.
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

/// Nothing before the first step is done: there is nothing to guess from.
fn left(state: &ProgressState, line: &mut dyn Write) {
    if state.pos() > 0 {
        // A line that cannot be written is a line that no one sees.
        let _ = write!(line, ", {}s left", state.eta().as_secs());
    }
}
