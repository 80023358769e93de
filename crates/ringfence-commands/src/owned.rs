//! The checks that commands have in common: owner, usage, location, range and description of a resource.

use ringfence_hal::{BufferDesc, BufferUsage, RawBuffer, TextureDesc, TextureUsage};
use ringfence_memory::memory::Location;
use ringfence_memory::{Buffer, Texture};
use ringfence_upload::CopyTarget;

use crate::CommandError;
use crate::device::Device;
use crate::device::record::TextureParts;
use crate::device::transfer::SubresourceRange;

/// A command, and the allocator that its resources must belong to.
#[derive(Clone, Copy)]
pub(crate) struct Checked {
    pub(crate) command: &'static str,
    /// Number of the allocator.
    pub(crate) owner: u32,
}

/// The way in which a command uses a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Reads,
    Writes,
}

impl Access {
    const fn usage(self) -> BufferUsage {
        match self {
            Self::Reads => BufferUsage::COPY_SRC,
            Self::Writes => BufferUsage::COPY_DST,
        }
    }

    /// Returns the location that devices cannot access in this way on some APIs.
    const fn refused(self) -> (Location, &'static str) {
        match self {
            Self::Reads => (Location::Readback, "reads"),
            Self::Writes => (Location::Upload, "writes"),
        }
    }
}

impl Checked {
    fn owned(self, owner: u32, kind: &'static str) -> Result<(), CommandError> {
        if owner == self.owner {
            return Ok(());
        }
        Err(CommandError::Foreign { kind, owner, commands_owner: self.owner })
    }

    /// Checks the owner of a buffer.
    pub(crate) fn buffer_owner<D: Device>(self, buffer: &Buffer<D>) -> Result<(), CommandError> {
        self.owned(buffer.shared().owner(), "buffer")
    }

    /// Checks a buffer and a range of it. Returns the driver's buffer, and the offset of the range in it.
    pub(crate) fn buffer<D: Device>(
        self,
        buffer: &impl CopyTarget<D>,
        access: Access,
        (offset, size): (u64, u64),
    ) -> Result<(&RawBuffer<D>, u64), CommandError> {
        let (command, slice) = (self.command, buffer.as_slice());
        self.owned(slice.owner, "buffer")?;
        let BufferDesc { usage: has, .. } = slice.desc.ok_or(CommandError::Undescribed { command, kind: "buffer" })?;
        let needs = access.usage();
        if !has.contains(needs) {
            return Err(CommandError::BufferUsage { command, needs, has });
        }
        let (location, verb) = access.refused();
        if buffer.location() == location {
            return Err(CommandError::Location { command, verb, location });
        }
        let buffer_size = slice.size;
        if size == 0 || offset.checked_add(size).is_none_or(|end| end > buffer_size) {
            return Err(CommandError::BufferRange { offset, size, buffer_size });
        }
        Ok((slice.object, slice.offset + offset))
    }

    /// Checks a texture, and returns its description and subresources.
    pub(crate) fn texture<D: Device>(
        self,
        texture: &Texture<D>,
        needs: TextureUsage,
    ) -> Result<(TextureDesc, TextureParts), CommandError> {
        let (command, kind) = (self.command, "texture");
        self.owned(texture.shared().owner(), kind)?;
        let (Some(&desc), Some(&parts)) = (texture.desc(), texture.parts()) else {
            return Err(CommandError::Undescribed { command, kind });
        };
        if !desc.usage.contains(needs) {
            return Err(CommandError::TextureUsage { command, needs, has: desc.usage });
        }
        Ok((desc, parts))
    }

    pub(crate) fn format(self, desc: &TextureDesc, reason: &'static str) -> CommandError {
        CommandError::Format { command: self.command, format: desc.format, reason }
    }
}

/// Checks that a range is not empty and inside its texture.
pub(crate) fn check_range(range: SubresourceRange, parts: &TextureParts) -> Result<(), CommandError> {
    let inside = |first: u32, count: u32, all: u32| count > 0 && first.checked_add(count).is_some_and(|end| end <= all);
    if inside(range.mip, range.mips, parts.mips) && inside(range.layer, range.layers, parts.layers) {
        return Ok(());
    }
    Err(CommandError::Subresources { range, mips: parts.mips, layers: parts.layers })
}

/// Checks that a number of bytes is a multiple of an alignment.
pub(crate) fn check_aligned(what: &'static str, given: u64, alignment: u64) -> Result<(), CommandError> {
    if given.is_multiple_of(alignment) { Ok(()) } else { Err(CommandError::Unaligned { what, given, alignment }) }
}
