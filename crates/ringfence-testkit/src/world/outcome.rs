//! Results of a step: done (possibly without a part that was refused), stopped by a lost device, or wrong.

use ringfence::Buffer;
use ringfence::device::DeviceError;
use ringfence::memory::{AccessError, Error};
use ringfence::sim::Device;
use ringfence::upload::UploadError;

/// Reason why a step ended early: an error to report, or a lost device.
#[derive(Debug)]
pub enum Stop {
    Wrong(String),
    Lost,
}

pub type Step<T = ()> = Result<T, Stop>;

pub fn wrong(error: impl std::fmt::Display) -> Stop {
    Stop::Wrong(error.to_string())
}

pub fn stop(error: DeviceError) -> Stop {
    if error == DeviceError::Lost { Stop::Lost } else { wrong(error) }
}

pub fn access(error: AccessError) -> Stop {
    match error {
        AccessError::Device(error) => stop(error),
        other => wrong(other),
    }
}

/// Returns `None` if memory is short, which is not an error of the library.
pub fn granted<T>(made: Result<T, Error>) -> Step<Option<T>> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(Error::OutOfMemory { .. } | Error::OverBudget { .. }) => Ok(None),
        Err(Error::Device(error)) if error.is_out_of_memory() => Ok(None),
        Err(Error::Device(error)) => Err(stop(error)),
        Err(other) => Err(wrong(other)),
    }
}

/// [`granted`] for uploads through a ring. The ring may also be full of data that is not submitted.
pub fn staged<T>(made: Result<T, UploadError>) -> Step<Option<T>> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(UploadError::Full { .. } | UploadError::Timeout { .. } | UploadError::TooLarge { .. }) => Ok(None),
        Err(UploadError::Growth(error)) => granted(Err(error)),
        Err(UploadError::Device(error)) => Err(stop(error)),
        Err(other) => Err(wrong(other)),
    }
}

/// Writes a buffer. No work may read it during the call.
pub fn write(buffer: &mut Buffer<Device>, bytes: &[u8]) -> Step {
    buffer.write(0, bytes).map_err(access)
}
