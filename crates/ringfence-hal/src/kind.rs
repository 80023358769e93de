//! Buffers and textures, described portably: what every device can make.

use std::fmt;

use super::capabilities::Capabilities;
use super::error::DeviceError;
use super::format::{Format, TextureParts};
use super::usage::{BufferUsage, TextureUsage};

/// Buffers or textures.
pub trait Kind: Copy + Send + Sync + fmt::Debug + 'static {
    /// The portable description.
    type Desc: Clone + fmt::Debug + Send + Sync + 'static;
    /// What a message calls one.
    const NAME: &'static str;

    /// Refuses a portable description that no device has: what `describe` begins with, where the API would not refuse
    /// it.
    ///
    /// # Errors
    /// [`DeviceError::InvalidInfo`] with the rule that is broken.
    fn check(desc: &Self::Desc) -> Result<(), DeviceError>;

    /// What all of a texture is; `None` for buffers.
    fn parts(desc: &Self::Desc) -> Option<TextureParts> {
        let _ = desc;
        None
    }

    /// The alignment in memory, in bytes, that its usage needs, whatever the driver measures; 1 for textures.
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
        let TextureDesc { width, height, depth, layers, mips, samples, usage, .. } = *desc;
        desc.check_clear_value()?;
        rule(
            ![width, height, depth, layers, mips].contains(&0),
            "a texture has at least one texel, mip level and layer",
        )?;
        rule(usage != TextureUsage::empty(), "a texture is for something")?;
        rule(samples.is_power_of_two(), "samples come in powers of two")?;
        rule(mips <= desc.longest().ilog2() + 1, "more mip levels than the size allows")?;
        rule(mips == 1 || samples == 1, "a texture with several samples has one mip level")?;
        check_dimension(desc)
    }

    fn parts(desc: &TextureDesc) -> Option<TextureParts> {
        let TextureDesc { width, height, depth, layers, mips, samples, format, .. } = *desc;
        let format = format.texels();
        Some(TextureParts { width, height, depth, layers, mips, samples, format, aspects: format.aspects() })
    }
}

/// What each dimension leaves open.
fn check_dimension(desc: &TextureDesc) -> Result<(), DeviceError> {
    let TextureDesc { dimension, width, height, depth, layers, samples, .. } = *desc;
    match dimension {
        Dimension::D1 => {
            rule(height == 1 && depth == 1, "a one-dimensional texture is one texel high and deep")?;
            rule(samples == 1, "a one-dimensional texture has one sample a texel")
        }
        Dimension::D2 => rule(depth == 1, "a two-dimensional texture is one texel deep"),
        Dimension::Cube => {
            rule(depth == 1 && width == height, "the faces of a cube are squares, one texel deep")?;
            rule(layers.is_multiple_of(6), "a cube has six layers, several cubes have six each")?;
            rule(samples == 1, "a cube has one sample a texel")
        }
        Dimension::D3 => {
            rule(layers == 1, "a three-dimensional texture has one array layer")?;
            rule(samples == 1, "a three-dimensional texture has one sample a texel")
        }
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

/// How many dimensions a texture has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Dimension {
    /// One: a row of texels.
    D1,
    /// Two.
    #[default]
    D2,
    /// Two, six layers at a time being the faces of a cube.
    Cube,
    /// Three.
    D3,
}

/// A texture, described portably: one of two dimensions, by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureDesc {
    /// How many dimensions it has.
    pub dimension: Dimension,
    /// Texels across.
    pub width: u32,
    /// Texels down; 1 of one dimension.
    pub height: u32,
    /// Texels deep; 1 unless it has three dimensions.
    pub depth: u32,
    /// Array layers; 1 of three dimensions.
    pub layers: u32,
    /// Mip levels.
    pub mips: u32,
    /// Samples a texel.
    pub samples: u32,
    /// The format.
    pub format: Format,
    /// What it is for.
    pub usage: TextureUsage,
    /// What it is cleared to as a rule, if it is drawn to: on Direct3D 12 clearing to that is fast. Vulkan knows of no
    /// such value.
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
    #[must_use]
    pub const fn words(self) -> [u32; 5] {
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
            ClearValue::Color(_) => usage.contains(TextureUsage::RENDER_TARGET) && !format.is_depth_stencil(),
            ClearValue::DepthStencil { .. } => usage.contains(TextureUsage::DEPTH_STENCIL) && format.is_depth_stencil(),
        };
        rule(
            self.clear_value.is_none_or(fits),
            "a clear value is a colour for a render target, a depth for a depth target",
        )
    }
}

impl TextureDesc {
    /// The longest side in texels.
    #[must_use]
    pub const fn longest(&self) -> u32 {
        let flat = if self.width > self.height { self.width } else { self.height };
        if self.depth > flat { self.depth } else { flat }
    }
}

impl Default for TextureDesc {
    fn default() -> Self {
        Self {
            dimension: Dimension::D2,
            width: 1,
            height: 1,
            depth: 1,
            layers: 1,
            mips: 1,
            samples: 1,
            format: Format::Rgba8Unorm,
            usage: TextureUsage::COPY_DST.union(TextureUsage::SAMPLED),
            clear_value: None,
        }
    }
}
