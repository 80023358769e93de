//! Errors of commands.

use ringfence_core::sync::SyncPoint;
use ringfence_hal::{BufferUsage, ChannelKind, DeviceError, Dimension, Format, TexelError, TextureUsage};
use ringfence_memory::lifetime::ReplaceError;
use ringfence_memory::memory::Location;
use ringfence_memory::{AccessError, Error};
use ringfence_upload::UploadError;

use crate::device::record::TextureAspects;
use crate::device::transfer::SubresourceRange;

/// Error of a command. Nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The frame belongs to a timeline of another allocator.
    #[error("the frame with {frame} belongs to another allocator's timeline")]
    ForeignFrame {
        /// The point that the frame signals.
        frame: SyncPoint,
    },
    /// A buffer or texture belongs to another allocator than the frame, so the frame would not keep it alive.
    #[error("the {kind} belongs to allocator {owner}, the commands to allocator {commands_owner}: use one allocator")]
    Foreign {
        /// `buffer` or `texture`.
        kind: &'static str,
        /// Number of the resource's allocator.
        owner: u32,
        /// Number of the allocator of the commands.
        commands_owner: u32,
    },
    /// The resource was created from a native description that has no portable form, so the command cannot be checked.
    #[error("the {kind} has no portable description, so {command} cannot be checked: record the API's own command")]
    Undescribed {
        /// The command.
        command: &'static str,
        /// `buffer` or `texture`.
        kind: &'static str,
    },
    /// The buffer lacks a usage.
    #[error("{command} needs a buffer with the usage {needs:?}; this one has {has:?}")]
    BufferUsage {
        /// The command.
        command: &'static str,
        /// The missing usage.
        needs: BufferUsage,
        /// The usages of the buffer.
        has: BufferUsage,
    },
    /// The texture lacks a usage.
    #[error("{command} needs a texture with the usage {needs:?}; this one has {has:?}")]
    TextureUsage {
        /// The command.
        command: &'static str,
        /// The needed usages.
        needs: TextureUsage,
        /// The usages of the texture.
        has: TextureUsage,
    },
    /// A buffer in this location cannot be the source or destination: the device only reads upload memory, and only
    /// writes readback memory.
    #[error("{command} {verb} a buffer in {location:?}, which the device does not do on every API")]
    Location {
        /// The command.
        command: &'static str,
        /// `reads` or `writes`.
        verb: &'static str,
        /// The location of the buffer.
        location: Location,
    },
    /// The range is empty, or not inside the buffer.
    #[error("{size} bytes at {offset} are empty or outside the buffer of {buffer_size} bytes")]
    BufferRange {
        /// Offset in bytes.
        offset: u64,
        /// Size in bytes.
        size: u64,
        /// Size of the buffer in bytes.
        buffer_size: u64,
    },
    /// An offset, size or row pitch does not have the alignment that the command needs.
    #[error("{what} of {given} bytes is not a multiple of {alignment}")]
    Unaligned {
        /// The offset, size or pitch.
        what: &'static str,
        /// The value, in bytes.
        given: u64,
        /// The alignment, in bytes.
        alignment: u64,
    },
    /// Rows or layers of texels in a buffer overlap.
    #[error("{what} of {given} bytes is too small: {needed} bytes are needed")]
    Pitch {
        /// The row pitch or layer pitch.
        what: &'static str,
        /// The value, in bytes.
        given: u64,
        /// The smallest value, in bytes.
        needed: u64,
    },
    /// A row of texels in a buffer is longer than both APIs allow.
    #[error("a row pitch of {given} bytes is too large: at most {max} bytes are possible")]
    LargePitch {
        /// The row pitch, in bytes.
        given: u64,
        /// The largest row pitch, in bytes.
        max: u64,
    },
    /// Source and destination are ranges of one buffer of the driver. Two small buffers or meshes can share such a
    /// buffer.
    #[error(
        "a copy of {size} bytes within one driver's buffer, which has one state at a time: copy through another one"
    )]
    SameBuffer {
        /// Size in bytes.
        size: u64,
    },
    /// Source and destination have a subresource in common.
    #[error("a copy within mip level {mip} of a texture's layer {layer}: copy through another texture")]
    SameSubresource {
        /// The mip level.
        mip: u32,
        /// The first common layer.
        layer: u32,
    },
    /// The texture does not have all of these subresources, or there are none.
    #[error("{range:?} is empty or outside of the texture, which has {mips} mip levels and {layers} layers")]
    Subresources {
        /// The requested range.
        range: SubresourceRange,
        /// Mip levels of the texture.
        mips: u32,
        /// Layers of the texture.
        layers: u32,
    },
    /// The format cannot be used by the command.
    #[error("{command} of {format:?}: {reason}")]
    Format {
        /// The command.
        command: &'static str,
        /// The format of the texture.
        format: Format,
        /// The reason.
        reason: &'static str,
    },
    /// The colour has another type than the channels of the format.
    #[error("a colour of type {given:?} for {format:?}, whose channels have the type {needs:?}")]
    ColorType {
        /// The format of the texture.
        format: Format,
        /// The type of the colour.
        given: ChannelKind,
        /// The type of the channels.
        needs: ChannelKind,
    },
    /// The clear writes an aspect that the texture does not have, or none.
    #[error("a clear of {given:?}, but the texture has {has:?}")]
    Aspects {
        /// The cleared aspects.
        given: TextureAspects,
        /// The aspects of the texture.
        has: TextureAspects,
    },
    /// The depth is not from 0 to 1.
    #[error("a depth of {depth} is not from 0 to 1")]
    Depth {
        /// The given depth.
        depth: f32,
    },
    /// The formats of the two textures do not allow the copy or resolve.
    #[error("{command} from {src:?} to {dst:?}: {reason}")]
    Formats {
        /// The command.
        command: &'static str,
        /// Format of the source.
        src: Format,
        /// Format of the destination.
        dst: Format,
        /// The reason.
        reason: &'static str,
    },
    /// The box is not inside a texture, or cannot be copied.
    #[error(transparent)]
    Texels(#[from] TexelError),
    /// The numbers of samples do not allow the command.
    #[error("{command} with {src} and {dst} samples per texel: {needs}")]
    Samples {
        /// The command.
        command: &'static str,
        /// Samples of the source.
        src: u32,
        /// Samples of the destination.
        dst: u32,
        /// The numbers that the command needs.
        needs: &'static str,
    },
    /// Source and destination of a resolve have different sizes.
    #[error("a resolve of {src:?} texels to a mip level of {dst:?} texels: the sizes must be equal")]
    Sizes {
        /// Width and height of the source.
        src: [u32; 2],
        /// Width and height of the destination's mip level.
        dst: [u32; 2],
    },
    /// The two textures of a copy have different dimensions. A cube is two-dimensional.
    #[error("a copy from a texture of the dimension {src:?} to one of {dst:?}: copy through a buffer")]
    Dimensions {
        /// Dimension of the source.
        src: Dimension,
        /// Dimension of the destination.
        dst: Dimension,
    },
    /// The command needs a texture of another dimension.
    #[error("{command} of a texture of the dimension {dimension:?}")]
    Dimension {
        /// The command.
        command: &'static str,
        /// The dimension of the texture.
        dimension: Dimension,
    },
    /// The device cannot make mip levels of this format.
    #[error("mip levels of {format:?} cannot be generated: {error}; upload them, or render each level with a shader")]
    NoMips {
        /// The format of the texture.
        format: Format,
        /// The missing feature.
        error: DeviceError,
    },
    /// The device does not support the command, or the driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// On an API without fills: the buffer with the value could not be created.
    #[error("the buffer that a fill copies from: {0}")]
    Memory(#[from] Error),
    /// The resource could not be replaced.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// The readback ring has no room for the result, or belongs to another allocator.
    #[error("the bytes of a readback: {0}")]
    Readback(#[from] UploadError),
    /// On an API without fills: the value could not be written.
    #[error("the buffer that a fill copies from: {0}")]
    Access(#[from] AccessError),
}
