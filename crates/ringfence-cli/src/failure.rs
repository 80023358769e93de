//! The error type of tasks.

/// An error of a task; its text is one line.
pub type Failure = Box<dyn std::error::Error>;
