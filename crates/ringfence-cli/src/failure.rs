//! The error type of the subcommands.

/// An error of a subcommand. Its text is one line.
pub type Failure = Box<dyn std::error::Error>;
