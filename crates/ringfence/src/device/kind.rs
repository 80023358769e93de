//! Buffers and textures, described portably: what every device can make.

use std::fmt;

use super::record::{TextureAspects, TextureParts};
use super::{Capabilities, DeviceError, flags};

/// Buffers or textures.
pub trait Kind: Copy + Send + Sync + fmt::Debug + 'static {
    /// The portable description.
    type Desc: Clone + fmt::Debug + Send + Sync + 'static;
    /// What a message calls one.
    const NAME: &'static str;

    /// Refuses a portable description that no device has: what `describe` begins with, where the API would not refuse it.
    ///
    /// # Errors
    /// [`DeviceError::InvalidInfo`] with the rule that is broken.
    fn check(desc: &Self::Desc) -> Result<(), DeviceError>;

    /// What all of a texture is; `None` for buffers.
    fn parts(desc: &Self::Desc) -> Option<TextureParts> {
        let _ = desc;
        None
    }

    /// The alignment in memory, in bytes, that its usage asks for, whatever the driver measures; 1 for textures.
    fn alignment(desc: &Self::Desc, capabilities: &Capabilities) -> u64 {
        let _ = (desc, capabilities);
        1
    }
}

/// `Ok` if the rule holds.
const fn rule(holds: bool, broken: &'static str) -> Result<(), DeviceError> {
    if holds { Ok(()) } else { Err(DeviceError::InvalidInfo(broken)) }
}

/// The [`Kind`] of buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffers;

impl Kind for Buffers {
    type Desc = BufferDesc;
    const NAME: &'static str = "buffer";

    fn check(desc: &BufferDesc) -> Result<(), DeviceError> {
        rule(desc.size != 0, "a buffer has at least one byte")?;
        rule(desc.usage != BufferUsage::empty(), "a buffer is for something")
    }

    fn alignment(desc: &BufferDesc, capabilities: &Capabilities) -> u64 {
        capabilities.buffer_alignment(desc.usage)
    }
}

/// The [`Kind`] of textures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Textures;

impl Kind for Textures {
    type Desc = TextureDesc;
    const NAME: &'static str = "texture";

    fn check(desc: &TextureDesc) -> Result<(), DeviceError> {
        let TextureDesc { width, height, layers, mips, samples, usage, .. } = *desc;
        desc.check_clear_value()?;
        rule(![width, height, layers, mips].contains(&0), "a texture has at least one texel, mip level and layer")?;
        rule(usage != TextureUsage::empty(), "a texture is for something")?;
        rule(samples.is_power_of_two(), "samples come in powers of two")?;
        rule(mips <= width.max(height).ilog2() + 1, "more mip levels than the size allows")?;
        rule(mips == 1 || samples == 1, "a texture with several samples has one mip level")
    }

    fn parts(desc: &TextureDesc) -> Option<TextureParts> {
        let TextureDesc { width, height, layers, mips, format, .. } = *desc;
        let aspects = if format == Format::D32Float { TextureAspects::DEPTH } else { TextureAspects::COLOR };
        Some(TextureParts { width, height, depth: 1, layers, mips, aspects })
    }
}

/// A buffer, described portably.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferDesc {
    /// Bytes.
    pub size: u64,
    /// What it is for.
    pub usage: BufferUsage,
}

/// A two-dimensional texture, described portably.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureDesc {
    /// Texels across.
    pub width: u32,
    /// Texels down.
    pub height: u32,
    /// Array layers.
    pub layers: u32,
    /// Mip levels.
    pub mips: u32,
    /// Samples a texel.
    pub samples: u32,
    /// The format.
    pub format: Format,
    /// What it is for.
    pub usage: TextureUsage,
    /// What it is cleared to as a rule, if it is drawn to: on Direct3D 12 clearing to that is fast. Vulkan knows of no such
    /// value.
    pub clear_value: Option<ClearValue>,
}

/// What a texture that is drawn to is cleared to. Numbers are kept by their bits, so that equal values are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClearValue {
    /// Red, green, blue, alpha: see [`ClearValue::color`].
    Color([u32; 4]),
    /// See [`ClearValue::depth`].
    DepthStencil {
        /// Depth.
        depth: u32,
        /// Stencil.
        stencil: u8,
    },
}

impl ClearValue {
    /// Red, green, blue, alpha.
    #[must_use]
    pub const fn color([red, green, blue, alpha]: [f32; 4]) -> Self {
        Self::Color([red.to_bits(), green.to_bits(), blue.to_bits(), alpha.to_bits()])
    }

    /// A depth, and 0 for the stencil.
    #[must_use]
    pub const fn depth(depth: f32) -> Self {
        Self::DepthStencil { depth: depth.to_bits(), stencil: 0 }
    }

    /// Its kind and its bits, none of them all 0: for keys.
    pub(crate) const fn words(self) -> [u32; 5] {
        match self {
            Self::Color([red, green, blue, alpha]) => [1, red, green, blue, alpha],
            Self::DepthStencil { depth, stencil } => [2, depth, stencil as u32, 0, 0],
        }
    }
}

impl TextureDesc {
    /// Whether the clear value is one of what the texture is drawn to as.
    pub(crate) fn check_clear_value(&self) -> Result<(), DeviceError> {
        let Self { usage, format, .. } = *self;
        let fits = |value| match value {
            ClearValue::Color(_) => usage.contains(TextureUsage::RENDER_TARGET) && format != Format::D32Float,
            ClearValue::DepthStencil { .. } => {
                usage.contains(TextureUsage::DEPTH_STENCIL) && format == Format::D32Float
            }
        };
        rule(
            self.clear_value.is_none_or(fits),
            "a clear value is a colour for a render target, a depth for a depth target",
        )
    }
}

impl Default for TextureDesc {
    fn default() -> Self {
        Self {
            width: 1,
            height: 1,
            layers: 1,
            mips: 1,
            samples: 1,
            format: Format::Rgba8Unorm,
            usage: TextureUsage::COPY_DST.union(TextureUsage::SAMPLED),
            clear_value: None,
        }
    }
}

/// The formats that the portable description knows; a device's own description knows all of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Format {
    /// Four bytes a texel.
    Rgba8Unorm,
    /// Eight bytes a texel.
    Rgba16Float,
    /// Four bytes a texel.
    R32Float,
    /// Depth, four bytes a texel.
    D32Float,
}

impl Format {
    /// Bytes a texel.
    #[must_use]
    pub const fn texel_bytes(self) -> u64 {
        match self {
            Self::Rgba8Unorm | Self::R32Float | Self::D32Float => 4,
            Self::Rgba16Float => 8,
        }
    }
}

flags! {
    /// What a buffer is for.
    BufferUsage {
        /// Copied from.
        COPY_SRC = 0;
        /// Copied to.
        COPY_DST = 1;
        /// Vertices.
        VERTEX = 2;
        /// Indices.
        INDEX = 3;
        /// Constants.
        CONSTANT = 4;
        /// Read and written by shaders.
        STORAGE = 5;
        /// Arguments of indirect draws.
        INDIRECT = 6;
        /// Reached by its address in shaders: see [`Buffer::device_address`](crate::Buffer::device_address).
        DEVICE_ADDRESS = 7;
        /// Shown to shaders as texels; with `STORAGE` too where they write.
        TEXELS = 8;
        /// Read by shaders as words or structures, and never written by them. `STORAGE` is for that too, but on Direct3D 12
        /// what shaders write cannot lie in memory that the host sees, which this can.
        STORAGE_READ = 9;
    }
}

flags! {
    /// What a texture is for.
    TextureUsage {
        /// Copied from.
        COPY_SRC = 0;
        /// Copied to.
        COPY_DST = 1;
        /// Read by shaders.
        SAMPLED = 2;
        /// Written by shaders.
        STORAGE = 3;
        /// Drawn to.
        RENDER_TARGET = 4;
        /// Depth and stencil.
        DEPTH_STENCIL = 5;
    }
}
