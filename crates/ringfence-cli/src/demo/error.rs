//! Errors that end a run of the demo.

use std::io;
use std::time::Duration;

use ringfence::device::DeviceError;
use ringfence::lifetime::FrameError;
use ringfence::memory::{Error, ShutdownError};
use ringfence::trace::StartTraceError;
use ringfence::transient::TransientError;
use ringfence::upload::{BatchError, ReadbackError, UploadError};

/// Maximum time of a wait for a frame or for the shutdown. If the device takes longer, the run fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An error that ends the run.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error(transparent)]
    Memory(#[from] Error),
    #[error(transparent)]
    Upload(#[from] UploadError),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Readback(#[from] ReadbackError),
    #[error(transparent)]
    Targets(#[from] TransientError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Shutdown(#[from] ShutdownError),
    #[error(transparent)]
    StartTrace(#[from] StartTraceError),
    #[error("the trace cannot be written: {0}")]
    Trace(io::Error),
    #[error("frame {0} was not complete after {wait} s", wait = PATIENCE.as_secs())]
    Stuck(u64),
}
