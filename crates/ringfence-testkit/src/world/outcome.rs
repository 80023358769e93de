//! How a step of a world ends: done, without what was refused, with the device lost, or wrong.

use ringfence::device::DeviceError;
use ringfence::sim::Device;
use ringfence::{AccessError, Buffer, Error, UploadError};

/// What ended a step early: something to tell, or the end of the device.
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

/// What the library may refuse without a fault of anybody's: memory is short, a ring is full of what is not submitted.
/// `None` then.
pub fn granted<T>(made: Result<T, Error>) -> Step<Option<T>> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(Error::OutOfMemory { .. } | Error::OverBudget { .. }) => Ok(None),
        Err(Error::Device(error)) if error.is_out_of_memory() => Ok(None),
        Err(Error::Device(error)) => Err(stop(error)),
        Err(other) => Err(wrong(other)),
    }
}

/// As [`granted`], for what goes through a ring.
pub fn staged<T>(made: Result<T, UploadError>) -> Step<Option<T>> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(UploadError::Full { .. } | UploadError::Timeout { .. } | UploadError::TooLarge { .. }) => Ok(None),
        Err(UploadError::Growth(error)) => granted(Err(error)),
        Err(UploadError::Device(error)) => Err(stop(error)),
        Err(other) => Err(wrong(other)),
    }
}

/// Writes a buffer that nothing reads yet, or no more.
pub fn write(buffer: &mut Buffer<Device>, bytes: &[u8]) -> Step {
    buffer.write(0, bytes).map_err(access)
}
