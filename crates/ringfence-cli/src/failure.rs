//! How a task fails.

/// What went wrong, as the one line that is shown.
pub type Failure = Box<dyn std::error::Error>;
