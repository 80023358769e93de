//! Constants of the policy, allocated by their lifetime.
//!
//! ```text
//!   a draw, or a frame ── fast constants: a copy into the writer's page, which is released as a whole
//!   several frames ────── an upload buffer, released like every other buffer
//! ```
//!
//! Constants of a graph live for a frame, so they are fast constants.

use std::fmt;

use super::desc::{BufferRequest, ConstantsLifetime, Dynamism, LocationKind, Route};
use super::fast_constants::FastWriter;
use super::inner::Inner;
use super::location::BufferLocation;
use crate::device::{BufferUsage, Device, DeviceError, RawBuffer};
use ringfence_memory::{AccessError, Error};
use ringfence_upload::{Staged, UploadError};

/// Constants that the placement policy has created, with their content.
pub enum ConstantsLocation<D: Device> {
    /// A range of a page of the writer. Valid for the writer's frame only.
    Fast(Staged<D>),
    /// An upload buffer, which lives until it is dropped.
    Upload(BufferLocation<D>),
}

impl<D: Device> Inner<D> {
    /// See [`Placement::create_constants`](super::Placement::create_constants).
    #[track_caller]
    pub(super) fn create_constants(
        &self,
        content: &[u8],
        lifetime: ConstantsLifetime,
        writer: &mut FastWriter<D>,
        name: &str,
    ) -> Result<ConstantsLocation<D>, UploadError> {
        if content.is_empty() {
            return Err(UploadError::ZeroSize);
        }
        if !writer.is_of(&self.fast) {
            return Err(UploadError::ForeignConstants);
        }
        match lifetime {
            ConstantsLifetime::SingleDraw | ConstantsLifetime::SingleFrame => {
                writer.write(content).map(ConstantsLocation::Fast)
            }
            ConstantsLifetime::MultiFrame => {
                self.create_lasting_constants(content, name).map(ConstantsLocation::Upload)
            }
        }
    }

    #[track_caller]
    fn create_lasting_constants(&self, content: &[u8], name: &str) -> Result<BufferLocation<D>, UploadError> {
        let (size, usage) = (content.len() as u64, BufferUsage::CONSTANT);
        let request = BufferRequest { size, usage, dynamism: Dynamism::Dynamic, name, ..Default::default() };
        let mut buffer = self.create_buffer(&request)?;
        match buffer.write(0, content) {
            Ok(()) => Ok(buffer),
            Err(AccessError::Device(error)) => Err(error.into()),
            Err(_) => Err(Error::from(DeviceError::MapFailed).into()),
        }
    }
}

impl<D: Device> ConstantsLocation<D> {
    /// Returns the driver's buffer.
    #[must_use]
    pub fn object(&self) -> &RawBuffer<D> {
        match self {
            Self::Fast(staged) => &staged.buffer,
            Self::Upload(buffer) => buffer.object(),
        }
    }

    /// Returns the offset of the first byte in the driver's buffer, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match self {
            Self::Fast(staged) => staged.offset,
            Self::Upload(buffer) => buffer.offset(),
        }
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Fast(staged) => staged.size,
            Self::Upload(buffer) => buffer.size(),
        }
    }

    /// Returns the part of the policy that served the request.
    #[must_use]
    pub fn route(&self) -> Route {
        match self {
            Self::Fast(_) => Route::FastPage,
            Self::Upload(buffer) => buffer.route(),
        }
    }

    /// Returns the kind of location, which determines how the constants are released.
    #[must_use]
    pub fn kind(&self) -> LocationKind {
        self.route().kind()
    }
}

impl<D: Device> fmt::Debug for ConstantsLocation<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConstantsLocation({} bytes at {}, {:?})", self.size(), self.offset(), self.route())
    }
}
