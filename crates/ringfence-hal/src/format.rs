//! Layout of the texels of each format in a buffer, for copies.
//!
//! ```text
//!   a format    block           bytes per block in a copy
//!               across, down    colour   depth   stencil
//!   R8          1 × 1           1        –       –
//!   BC1         4 × 4           8        –       –
//!   ASTC 10×6   10 × 6          16       –       –
//!   D24 S8      1 × 1           –        4       1          each aspect is copied by itself
//! ```

use std::fmt;

/// An aspect of a texel (`VkImageAspectFlagBits`). Each copy between a buffer and a texture copies one aspect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum TextureAspect {
    /// Colour.
    #[default]
    Color,
    /// Depth.
    Depth,
    /// Stencil.
    Stencil,
}

impl TextureAspect {
    /// All aspects.
    pub const ALL: [Self; 3] = [Self::Color, Self::Depth, Self::Stencil];

    /// Returns the set that contains this aspect only.
    #[must_use]
    pub const fn flag(self) -> TextureAspects {
        match self {
            Self::Color => TextureAspects::COLOR,
            Self::Depth => TextureAspects::DEPTH,
            Self::Stencil => TextureAspects::STENCIL,
        }
    }
}

bitflags::bitflags! {
    /// A set of the aspects of a texel.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct TextureAspects: u32 {
        /// Colour.
        const COLOR = 1 << 0;
        /// Depth.
        const DEPTH = 1 << 1;
        /// Stencil.
        const STENCIL = 1 << 2;
    }
}

/// Layout of the texels of a format in a buffer, for copies to and from textures: the size of a block in texels, and
/// the size of a block in bytes, for each aspect. Formats that are not block-compressed have blocks of one texel.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TexelFormat {
    /// Width and height of a block in texels.
    block: [u32; 2],
    /// Bytes of a block, indexed by [`TextureAspect`]; 0 for aspects that the format lacks.
    bytes: [u32; 3],
}

impl TexelFormat {
    /// Returns the layout of a colour format with `texel_bytes` bytes per texel.
    #[must_use]
    pub const fn color(texel_bytes: u32) -> Self {
        Self { block: [1, 1], bytes: [texel_bytes, 0, 0] }
    }

    /// Returns the layout of a block-compressed colour format: blocks of `width` × `height` texels in `block_bytes`
    /// bytes.
    #[must_use]
    pub const fn compressed(width: u32, height: u32, block_bytes: u32) -> Self {
        Self { block: [width, height], bytes: [block_bytes, 0, 0] }
    }

    /// Returns the layout of a format with depth, stencil or both. The arguments are the bytes of a texel in the buffer
    /// of a copy: 4 for 24 bits of depth, 1 for stencil, 0 for a missing aspect.
    #[must_use]
    pub const fn depth_stencil(depth_bytes: u32, stencil_bytes: u32) -> Self {
        Self { block: [1, 1], bytes: [0, depth_bytes, stencil_bytes] }
    }

    /// Returns the layout of a format that the program may use as colour or as depth (a typeless format of Direct3D
    /// 12), with `texel_bytes` bytes per texel in both cases.
    #[must_use]
    pub const fn color_or_depth(texel_bytes: u32) -> Self {
        Self { block: [1, 1], bytes: [texel_bytes, texel_bytes, 0] }
    }

    /// Returns the width and height of a block in texels; `[1, 1]` unless the format is block-compressed.
    #[must_use]
    pub const fn block(self) -> [u32; 2] {
        self.block
    }

    /// Returns the bytes of a block of this aspect in a buffer. Returns `None` if the format lacks the aspect.
    #[must_use]
    pub const fn block_bytes(self, aspect: TextureAspect) -> Option<u32> {
        match self.bytes[aspect as usize] {
            0 => None,
            bytes => Some(bytes),
        }
    }

    /// Iterates over the aspects of the format, in the order colour, depth, stencil.
    pub fn each_aspect(self) -> impl Iterator<Item = TextureAspect> {
        TextureAspect::ALL.into_iter().filter(move |aspect| self.block_bytes(*aspect).is_some())
    }

    /// Returns the aspects of the format.
    #[must_use]
    pub fn aspects(self) -> TextureAspects {
        self.each_aspect().fold(TextureAspects::empty(), |all, aspect| all | aspect.flag())
    }

    /// Returns the first aspect that the format has, in the order colour, depth, stencil.
    #[must_use]
    pub const fn first_aspect(self) -> TextureAspect {
        match self.bytes {
            [0, 0, _] => TextureAspect::Stencil,
            [0, ..] => TextureAspect::Depth,
            _ => TextureAspect::Color,
        }
    }

    /// Returns `true` if a block has more than one texel.
    #[must_use]
    pub const fn is_compressed(self) -> bool {
        self.block[0] != 1 || self.block[1] != 1
    }

    /// Returns `true` if both formats have the same block size in texels and the same bytes per block in this aspect.
    #[must_use]
    pub const fn is_copied_as(self, other: Self, aspect: TextureAspect) -> bool {
        let index = aspect as usize;
        self.block[0] == other.block[0] && self.block[1] == other.block[1] && self.bytes[index] == other.bytes[index]
    }
}

impl fmt::Debug for TexelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TexelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([width, height], [color, depth, stencil]) = (self.block, self.bytes);
        match (color, depth, stencil) {
            (_, 0, 0) if self.is_compressed() => write!(f, "blocks of {width} × {height} texels in {color} bytes"),
            (_, 0, 0) => write!(f, "texels of {color} bytes"),
            _ => write!(f, "texels of {depth} bytes of depth and {stencil} bytes of stencil"),
        }
    }
}

macro_rules! formats {
    ($(
        $($name:ident $vulkan:literal $dxgi:literal),+:
            $width:literal x $height:literal, $color:literal, $depth:literal, $stencil:literal, $doc:literal;
    )*) => {
        /// The formats of the portable description. A device's own description may use any format of its API.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[doc = $doc] $name,)+)*
        }

        impl Format {
            /// All formats.
            pub const ALL: &'static [Self] = &[$($(Self::$name,)+)*];

            /// Returns the layout of the format's texels in a buffer.
            #[must_use]
            pub const fn texels(self) -> TexelFormat {
                match self {
                    $($(Self::$name)|+ => TexelFormat {
                        block: [$width, $height],
                        bytes: [$color, $depth, $stencil],
                    },)*
                }
            }

            /// Returns the format's number in Vulkan (`VkFormat`).
            #[must_use]
            pub const fn vulkan(self) -> u32 {
                match self {
                    $($(Self::$name => $vulkan,)+)*
                }
            }

            /// Returns the format with this number in Vulkan (`VkFormat`). Returns `None` if the format has no portable
            /// name.
            #[must_use]
            pub const fn of_vulkan(number: u32) -> Option<Self> {
                match number {
                    $($($vulkan => Some(Self::$name),)+)*
                    _ => None,
                }
            }

            /// Returns the format's number in DXGI (`DXGI_FORMAT`). Returns `None` if DXGI does not have the format.
            #[must_use]
            pub const fn dxgi(self) -> Option<u32> {
                let number = match self {
                    $($(Self::$name => $dxgi,)+)*
                };
                if number == 0 { None } else { Some(number) }
            }

            /// Returns the format with this number in DXGI (`DXGI_FORMAT`). Returns `None` if the format has no
            /// portable name, like the typeless formats.
            #[must_use]
            #[allow(unreachable_patterns, reason = "formats that DXGI does not have share the number 0")]
            pub const fn of_dxgi(number: u32) -> Option<Self> {
                match number {
                    0 => None,
                    $($($dxgi => Some(Self::$name),)+)*
                    _ => None,
                }
            }

            /// Returns a number that two formats share if they differ only in the type of their channels: the number of
            /// the first of these formats.
            const fn family(self) -> u32 {
                match self {
                    $($(Self::$name)|+ => [$(Self::$name as u32),+][0],)*
                }
            }
        }
    };
}

// Each format with its numbers in Vulkan and in DXGI, 0 if DXGI lacks it. Then the size of a block in texels, and the
// bytes of a block in each aspect: colour, depth, stencil.
formats! {
    R8Unorm 9 61, R8Snorm 10 63, R8Uint 13 62, R8Sint 14 64: 1 x 1, 1, 0, 0, "One channel of 8 bits.";
    Rg8Unorm 16 49, Rg8Snorm 17 51, Rg8Uint 20 50, Rg8Sint 21 52: 1 x 1, 2, 0, 0, "Two channels of 8 bits.";
    Rgba8Unorm 37 28, Rgba8UnormSrgb 43 29, Rgba8Snorm 38 31, Rgba8Uint 41 30, Rgba8Sint 42 32:
        1 x 1, 4, 0, 0, "Four channels of 8 bits.";
    Bgra8Unorm 44 87, Bgra8UnormSrgb 50 91: 1 x 1, 4, 0, 0, "Four channels of 8 bits, blue first.";
    Abgr8Unorm 51 0, Abgr8UnormSrgb 57 0, Abgr8Snorm 52 0, Abgr8Uint 55 0, Abgr8Sint 56 0:
        1 x 1, 4, 0, 0, "Four channels in 32 bits, red lowest: the bytes of `Rgba8` on hosts that keep the lowest byte first. Vulkan only.";
    R16Unorm 70 56, R16Snorm 71 58, R16Uint 74 57, R16Sint 75 59, R16Float 76 54:
        1 x 1, 2, 0, 0, "One channel of 16 bits.";
    Rg16Unorm 77 35, Rg16Snorm 78 37, Rg16Uint 81 36, Rg16Sint 82 38, Rg16Float 83 34:
        1 x 1, 4, 0, 0, "Two channels of 16 bits.";
    Rgba16Unorm 91 11, Rgba16Snorm 92 13, Rgba16Uint 95 12, Rgba16Sint 96 14, Rgba16Float 97 10:
        1 x 1, 8, 0, 0, "Four channels of 16 bits.";
    R32Uint 98 42, R32Sint 99 43, R32Float 100 41: 1 x 1, 4, 0, 0, "One channel of 32 bits.";
    Rg32Uint 101 17, Rg32Sint 102 18, Rg32Float 103 16: 1 x 1, 8, 0, 0, "Two channels of 32 bits.";
    Rgb32Uint 104 7, Rgb32Sint 105 8, Rgb32Float 106 6: 1 x 1, 12, 0, 0, "Three channels of 32 bits.";
    Rgba32Uint 107 3, Rgba32Sint 108 4, Rgba32Float 109 2: 1 x 1, 16, 0, 0, "Four channels of 32 bits.";
    B5g6r5Unorm 4 85: 1 x 1, 2, 0, 0, "Three channels in 16 bits, blue lowest.";
    Bgr5a1Unorm 8 86: 1 x 1, 2, 0, 0, "Four channels in 16 bits, blue lowest.";
    Rgb10a2Unorm 64 24, Rgb10a2Uint 68 25: 1 x 1, 4, 0, 0, "Four channels in 32 bits, red lowest.";
    Bgr10a2Unorm 58 0, Bgr10a2Uint 62 0: 1 x 1, 4, 0, 0, "Four channels in 32 bits, blue lowest. Vulkan only.";
    Rg11b10Float 122 26: 1 x 1, 4, 0, 0, "Three channels in 32 bits, red lowest.";
    Rgb9e5Float 123 67: 1 x 1, 4, 0, 0, "Three channels with one exponent in 32 bits, red lowest.";
    Bc1Unorm 133 71, Bc1UnormSrgb 134 72: 4 x 4, 8, 0, 0, "Blocks of 4 × 4 texels in 8 bytes.";
    Bc1RgbUnorm 131 0, Bc1RgbUnormSrgb 132 0: 4 x 4, 8, 0, 0, "Blocks of 4 × 4 opaque texels in 8 bytes. Vulkan only.";
    Bc2Unorm 135 74, Bc2UnormSrgb 136 75: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Bc3Unorm 137 77, Bc3UnormSrgb 138 78: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Bc4Unorm 139 80, Bc4Snorm 140 81: 4 x 4, 8, 0, 0, "Blocks of 4 × 4 texels in 8 bytes.";
    Bc5Unorm 141 83, Bc5Snorm 142 84: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Bc6hUfloat 143 95, Bc6hFloat 144 96: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Bc7Unorm 145 98, Bc7UnormSrgb 146 99: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Etc2Rgb8Unorm 147 0, Etc2Rgb8UnormSrgb 148 0: 4 x 4, 8, 0, 0, "Blocks of 4 × 4 texels in 8 bytes.";
    Etc2Rgb8a1Unorm 149 0, Etc2Rgb8a1UnormSrgb 150 0: 4 x 4, 8, 0, 0, "Blocks of 4 × 4 texels in 8 bytes.";
    Etc2Rgba8Unorm 151 0, Etc2Rgba8UnormSrgb 152 0: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    EacR11Unorm 153 0, EacR11Snorm 154 0: 4 x 4, 8, 0, 0, "Blocks of 4 × 4 texels in 8 bytes.";
    EacRg11Unorm 155 0, EacRg11Snorm 156 0: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Astc4x4Unorm 157 0, Astc4x4UnormSrgb 158 0: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Astc5x4Unorm 159 0, Astc5x4UnormSrgb 160 0: 5 x 4, 16, 0, 0, "Blocks of 5 × 4 texels in 16 bytes.";
    Astc5x5Unorm 161 0, Astc5x5UnormSrgb 162 0: 5 x 5, 16, 0, 0, "Blocks of 5 × 5 texels in 16 bytes.";
    Astc6x5Unorm 163 0, Astc6x5UnormSrgb 164 0: 6 x 5, 16, 0, 0, "Blocks of 6 × 5 texels in 16 bytes.";
    Astc6x6Unorm 165 0, Astc6x6UnormSrgb 166 0: 6 x 6, 16, 0, 0, "Blocks of 6 × 6 texels in 16 bytes.";
    Astc8x5Unorm 167 0, Astc8x5UnormSrgb 168 0: 8 x 5, 16, 0, 0, "Blocks of 8 × 5 texels in 16 bytes.";
    Astc8x6Unorm 169 0, Astc8x6UnormSrgb 170 0: 8 x 6, 16, 0, 0, "Blocks of 8 × 6 texels in 16 bytes.";
    Astc8x8Unorm 171 0, Astc8x8UnormSrgb 172 0: 8 x 8, 16, 0, 0, "Blocks of 8 × 8 texels in 16 bytes.";
    Astc10x5Unorm 173 0, Astc10x5UnormSrgb 174 0: 10 x 5, 16, 0, 0, "Blocks of 10 × 5 texels in 16 bytes.";
    Astc10x6Unorm 175 0, Astc10x6UnormSrgb 176 0: 10 x 6, 16, 0, 0, "Blocks of 10 × 6 texels in 16 bytes.";
    Astc10x8Unorm 177 0, Astc10x8UnormSrgb 178 0: 10 x 8, 16, 0, 0, "Blocks of 10 × 8 texels in 16 bytes.";
    Astc10x10Unorm 179 0, Astc10x10UnormSrgb 180 0: 10 x 10, 16, 0, 0, "Blocks of 10 × 10 texels in 16 bytes.";
    Astc12x10Unorm 181 0, Astc12x10UnormSrgb 182 0: 12 x 10, 16, 0, 0, "Blocks of 12 × 10 texels in 16 bytes.";
    Astc12x12Unorm 183 0, Astc12x12UnormSrgb 184 0: 12 x 12, 16, 0, 0, "Blocks of 12 × 12 texels in 16 bytes.";
    D16Unorm 124 55: 1 x 1, 0, 2, 0, "Depth of 16 bits.";
    X8D24Unorm 125 0: 1 x 1, 0, 4, 0, "Depth of 24 bits, copied as 32. Vulkan only.";
    D32Float 126 40: 1 x 1, 0, 4, 0, "Depth of 32 bits.";
    D16UnormS8Uint 128 0: 1 x 1, 0, 2, 1, "Depth of 16 bits; stencil. Vulkan only.";
    D24UnormS8Uint 129 45: 1 x 1, 0, 4, 1, "Depth of 24 bits, copied as 32; stencil.";
    D32FloatS8Uint 130 20: 1 x 1, 0, 4, 1, "Depth of 32 bits; stencil.";
    S8Uint 127 0: 1 x 1, 0, 0, 1, "Stencil.";
}

impl Format {
    /// Returns the bytes of a texel in a copy of the first aspect; for block-compressed formats, the bytes of a block.
    #[must_use]
    pub const fn texel_bytes(self) -> u64 {
        let texels = self.texels();
        match texels.block_bytes(texels.first_aspect()) {
            Some(bytes) => bytes as u64,
            None => 0,
        }
    }

    /// Returns `true` if the format has depth or stencil.
    #[must_use]
    pub const fn is_depth_stencil(self) -> bool {
        !matches!(self.texels().first_aspect(), TextureAspect::Color)
    }
}

impl Format {
    /// Returns `true` if a texture of this format can have views of the other format: the texels of both formats have
    /// the same size. Block-compressed formats may differ only in the type of their channels. Returns `false` if a
    /// format has depth or stencil.
    #[must_use]
    pub fn can_be_viewed_as(self, other: Self) -> bool {
        let is_color = !self.is_depth_stencil() && !other.is_depth_stencil();
        let is_compressed = self.texels().is_compressed();
        is_color && if is_compressed { self.family() == other.family() } else { self.texels() == other.texels() }
    }
}

/// A set of formats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FormatSet(u128);

const _: () = assert!(Format::ALL.len() <= u128::BITS as usize, "each format has a bit");

impl FormatSet {
    /// The set without formats.
    pub const EMPTY: Self = Self(0);

    /// Returns the set of these formats.
    #[must_use]
    pub const fn of(formats: &[Format]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < formats.len() {
            bits |= 1 << formats[index] as u32;
            index += 1;
        }
        Self(bits)
    }

    /// Returns `true` if the set has no format.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns `true` if the set has this format.
    #[must_use]
    pub const fn contains(self, format: Format) -> bool {
        self.0 >> format as u32 & 1 != 0
    }

    /// Iterates over the formats of the set.
    pub fn iter(self) -> impl Iterator<Item = Format> {
        Format::ALL.iter().copied().filter(move |format| self.contains(*format))
    }

    /// Returns the set as words, for keys.
    #[must_use]
    pub const fn words(self) -> [u32; 4] {
        [self.0 as u32, (self.0 >> 32) as u32, (self.0 >> 64) as u32, (self.0 >> 96) as u32]
    }
}

impl fmt::Debug for FormatSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The type of the channels of a colour format, as shaders and clears see them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChannelKind {
    /// Floating-point, normalized and sRGB.
    Float,
    /// Signed integers.
    Sint,
    /// Unsigned integers.
    Uint,
}

impl Format {
    /// Returns the type of the channels of a colour format. Depth is [`ChannelKind::Float`], stencil alone is
    /// [`ChannelKind::Uint`].
    #[must_use]
    pub const fn channels(self) -> ChannelKind {
        match self {
            Self::R8Uint | Self::Rg8Uint | Self::Rgba8Uint | Self::Abgr8Uint => ChannelKind::Uint,
            Self::R16Uint | Self::Rg16Uint | Self::Rgba16Uint => ChannelKind::Uint,
            Self::R32Uint | Self::Rg32Uint | Self::Rgb32Uint | Self::Rgba32Uint => ChannelKind::Uint,
            Self::Rgb10a2Uint | Self::Bgr10a2Uint | Self::S8Uint => ChannelKind::Uint,
            Self::R8Sint | Self::Rg8Sint | Self::Rgba8Sint | Self::Abgr8Sint => ChannelKind::Sint,
            Self::R16Sint | Self::Rg16Sint | Self::Rgba16Sint => ChannelKind::Sint,
            Self::R32Sint | Self::Rg32Sint | Self::Rgb32Sint | Self::Rgba32Sint => ChannelKind::Sint,
            _ => ChannelKind::Float,
        }
    }
}

impl From<Format> for TexelFormat {
    fn from(format: Format) -> Self {
        format.texels()
    }
}

/// Size, subresources and format of a texture that is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureParts {
    /// Width in texels.
    pub width: u32,
    /// Height in texels.
    pub height: u32,
    /// Depth in texels; 1 unless the texture is three-dimensional.
    pub depth: u32,
    /// Number of array layers.
    pub layers: u32,
    /// Number of mip levels.
    pub mips: u32,
    /// Samples per texel.
    pub samples: u32,
    /// Layout of the texture's texels in a buffer.
    pub format: TexelFormat,
    /// The aspects of the texture.
    pub aspects: TextureAspects,
}

impl TextureParts {
    /// Returns the width, height and depth of a mip level in texels, each at least 1.
    #[must_use]
    pub fn extent(&self, mip: u32) -> [u32; 3] {
        [self.width, self.height, self.depth].map(|side| side.checked_shr(mip).unwrap_or(0).max(1))
    }

    /// Returns the bytes of one layer of a mip level in one aspect, tightly packed; 0 if the format lacks the aspect.
    /// The result saturates.
    #[must_use]
    pub fn layer_bytes(&self, mip: u32, aspect: TextureAspect) -> u64 {
        let ([width, height, depth], [across, down]) = (self.extent(mip), self.format.block());
        let blocks = [width.div_ceil(across), height.div_ceil(down), depth];
        let block = u64::from(self.format.block_bytes(aspect).unwrap_or(0));
        blocks.iter().fold(block, |bytes, blocks| bytes.saturating_mul((*blocks).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_layer_count_whole_blocks() {
        let parts = |format: Format| TextureParts {
            width: 10,
            height: 6,
            depth: 3,
            layers: 4,
            mips: 4,
            samples: 1,
            format: format.texels(),
            aspects: format.texels().aspects(),
        };
        let cases = [
            (Format::Rgba8Unorm, TextureAspect::Color, [10 * 6 * 3 * 4, 5 * 3 * 4, 2 * 4, 4]),
            (Format::Bc1Unorm, TextureAspect::Color, [3 * 2 * 3 * 8, 2 * 8, 8, 8]),
            (Format::D24UnormS8Uint, TextureAspect::Depth, [10 * 6 * 3 * 4, 5 * 3 * 4, 2 * 4, 4]),
            (Format::D24UnormS8Uint, TextureAspect::Stencil, [10 * 6 * 3, 5 * 3, 2, 1]),
            (Format::R8Unorm, TextureAspect::Depth, [0; 4]),
        ];
        for (format, aspect, bytes) in cases {
            assert_eq!([0, 1, 2, 3].map(|mip| parts(format).layer_bytes(mip, aspect)), bytes, "{format:?} {aspect:?}");
        }
        let huge = TextureParts { width: u32::MAX, height: u32::MAX, depth: u32::MAX, ..parts(Format::R8Unorm) };
        assert_eq!(huge.layer_bytes(0, TextureAspect::Color), u64::MAX);
    }

    #[test]
    fn every_format_has_an_aspect_and_bytes_in_it() {
        for format in Format::ALL {
            let texels = format.texels();
            assert!(!texels.aspects().is_empty(), "{format:?}");
            assert!(format.texel_bytes() > 0, "{format:?}");
            assert!(texels.is_copied_as(texels, texels.first_aspect()));
            let is_plain = !texels.is_compressed();
            assert!(is_plain || texels.aspects() == TextureAspects::COLOR, "{format:?}");
        }
    }

    #[test]
    fn constructors_give_blocks_and_bytes_of_each_aspect() {
        use TextureAspect::{Color, Depth, Stencil};
        for (format, block, bytes, aspects, is_compressed) in [
            (TexelFormat::color(12), [1, 1], [Some(12), None, None], &[Color][..], false),
            (TexelFormat::compressed(4, 4, 8), [4, 4], [Some(8), None, None], &[Color], true),
            (TexelFormat::compressed(10, 6, 16), [10, 6], [Some(16), None, None], &[Color], true),
            // One direction is enough.
            (TexelFormat::compressed(4, 1, 8), [4, 1], [Some(8), None, None], &[Color], true),
            (TexelFormat::compressed(1, 4, 8), [1, 4], [Some(8), None, None], &[Color], true),
            (TexelFormat::depth_stencil(4, 1), [1, 1], [None, Some(4), Some(1)], &[Depth, Stencil], false),
            (TexelFormat::depth_stencil(2, 0), [1, 1], [None, Some(2), None], &[Depth], false),
            (TexelFormat::depth_stencil(0, 1), [1, 1], [None, None, Some(1)], &[Stencil], false),
            (TexelFormat::color_or_depth(4), [1, 1], [Some(4), Some(4), None], &[Color, Depth], false),
        ] {
            assert_eq!(format.block(), block, "{format}");
            assert_eq!(TextureAspect::ALL.map(|aspect| format.block_bytes(aspect)), bytes, "{format}");
            assert_eq!(format.each_aspect().collect::<Vec<_>>(), aspects, "{format}");
            assert_eq!(format.first_aspect(), aspects[0], "{format}");
            assert_eq!(format.is_compressed(), is_compressed, "{format}");
        }
    }

    #[test]
    fn each_aspect_has_its_own_flag() {
        let flags = [TextureAspects::COLOR, TextureAspects::DEPTH, TextureAspects::STENCIL];
        assert_eq!(TextureAspect::ALL.map(TextureAspect::flag), flags);
        for (format, bits) in [
            (Format::Rgba8Unorm, 0b1),
            (Format::D16Unorm, 0b10),
            (Format::S8Uint, 0b100),
            (Format::D32FloatS8Uint, 0b110),
        ] {
            assert_eq!(format.texels().aspects().bits(), bits, "{format:?}");
        }
    }

    #[test]
    fn copies_need_equal_blocks_and_equal_bytes_in_the_aspect() {
        let both = TexelFormat::depth_stencil(4, 1);
        for (other, aspect, is_equal) in [
            (TexelFormat::compressed(4, 4, 8), TextureAspect::Color, true),
            (TexelFormat::compressed(5, 4, 8), TextureAspect::Color, false),
            (TexelFormat::compressed(4, 5, 8), TextureAspect::Color, false),
            (TexelFormat::compressed(4, 4, 16), TextureAspect::Color, false),
        ] {
            assert_eq!(TexelFormat::compressed(4, 4, 8).is_copied_as(other, aspect), is_equal, "{other}");
        }
        assert!(both.is_copied_as(TexelFormat::depth_stencil(4, 0), TextureAspect::Depth));
        assert!(!both.is_copied_as(TexelFormat::depth_stencil(4, 0), TextureAspect::Stencil));
        assert!(!both.is_copied_as(TexelFormat::depth_stencil(2, 1), TextureAspect::Depth));
        assert!(both.is_copied_as(TexelFormat::depth_stencil(2, 1), TextureAspect::Stencil));
    }

    #[test]
    fn bytes_of_a_texel_are_those_of_the_first_aspect() {
        for (format, bytes, is_depth_stencil) in [
            (Format::R8Unorm, 1, false),
            (Format::B5g6r5Unorm, 2, false),
            (Format::Rgb32Float, 12, false),
            (Format::Rgba32Uint, 16, false),
            (Format::Bc1Unorm, 8, false),
            (Format::Astc12x12Unorm, 16, false),
            (Format::D16UnormS8Uint, 2, true),
            (Format::D24UnormS8Uint, 4, true),
            (Format::S8Uint, 1, true),
        ] {
            assert_eq!((format.texel_bytes(), format.is_depth_stencil()), (bytes, is_depth_stencil), "{format:?}");
            assert_eq!(TexelFormat::from(format), format.texels(), "{format:?}");
        }
    }

    #[test]
    fn a_mip_level_halves_each_side_down_to_one_texel() {
        let format = Format::R8Unorm.texels();
        let aspects = TextureAspects::COLOR;
        let parts = TextureParts { width: 13, height: 6, depth: 3, layers: 2, mips: 4, samples: 1, format, aspects };
        for (mip, extent) in
            [(0, [13, 6, 3]), (1, [6, 3, 1]), (2, [3, 1, 1]), (3, [1, 1, 1]), (31, [1, 1, 1]), (32, [1, 1, 1])]
        {
            assert_eq!(parts.extent(mip), extent, "mip {mip}");
        }
    }

    #[test]
    fn words_of_a_set_have_a_bit_at_the_number_of_each_format() {
        for (number, words) in [
            (0, [1, 0, 0, 0]),
            (31, [1 << 31, 0, 0, 0]),
            (32, [0, 1, 0, 0]),
            (63, [0, 1 << 31, 0, 0]),
            (64, [0, 0, 1, 0]),
        ] {
            let set = FormatSet::of(&[Format::ALL[number]]);
            assert_eq!((set.words(), set.is_empty()), (words, false), "format {number}");
        }
        assert_eq!(FormatSet::of(&[Format::ALL[96]]).words(), [0, 0, 0, 1]);
        assert_eq!(FormatSet::of(&[Format::ALL[1], Format::ALL[33], Format::ALL[1]]).words(), [2, 2, 0, 0]);
        assert_eq!((FormatSet::EMPTY.words(), FormatSet::default()), ([0; 4], FormatSet::of(&[])));
    }

    #[test]
    fn the_channels_of_a_format_are_those_of_its_name() {
        for format in Format::ALL {
            let name = format!("{format:?}");
            let expected = match (name.ends_with("Uint"), name.ends_with("Sint")) {
                (true, _) if format.texels().block_bytes(TextureAspect::Depth).is_none() => ChannelKind::Uint,
                (_, true) => ChannelKind::Sint,
                _ => ChannelKind::Float,
            };
            assert_eq!(format.channels(), expected, "{name}");
        }
    }

    #[test]
    fn the_facts_read_as_a_sentence() {
        assert_eq!(Format::Bc1Unorm.texels().to_string(), "blocks of 4 × 4 texels in 8 bytes");
        assert_eq!(Format::Rgba8Unorm.texels().to_string(), "texels of 4 bytes");
        let both = Format::D24UnormS8Uint.texels().to_string();
        assert_eq!(both, "texels of 4 bytes of depth and 1 bytes of stencil");
        assert_eq!(TexelFormat::color_or_depth(4).aspects(), TextureAspects::COLOR | TextureAspects::DEPTH);
    }

    /// Returns the name of a format without the type of its channels.
    fn family(format: Format) -> String {
        let name = format!("{format:?}");
        let types = ["UnormSrgb", "Unorm", "Snorm", "Uint", "Sint", "Ufloat", "Float"];
        types.iter().find_map(|kind| name.strip_suffix(kind)).unwrap_or(&name).to_owned()
    }

    #[test]
    fn textures_are_viewed_in_formats_with_texels_of_their_size() {
        for (own, view) in Format::ALL.iter().flat_map(|own| Format::ALL.iter().map(move |view| (*own, *view))) {
            let expected = match (own.texels().is_compressed(), own.is_depth_stencil() || view.is_depth_stencil()) {
                (_, true) => false,
                (true, _) => family(own) == family(view),
                (false, _) => own.texels().is_copied_as(view.texels(), TextureAspect::Color),
            };
            assert_eq!(own.can_be_viewed_as(view), expected, "{own:?} as {view:?}");
        }
        assert!(Format::Rgba8Unorm.can_be_viewed_as(Format::R32Uint));
        assert!(!Format::Bc1Unorm.can_be_viewed_as(Format::Bc4Unorm), "blocks of equal size, but other channels");
    }

    #[test]
    fn a_set_has_the_formats_that_it_was_made_of() {
        assert!(FormatSet::EMPTY.is_empty());
        let last = *Format::ALL.last().expect("there are formats");
        let formats = [Format::ALL[0], Format::Rgba8Unorm, Format::Bc7Unorm, last];
        let set = FormatSet::of(&formats);
        assert_eq!(set.iter().collect::<Vec<_>>(), formats);
        assert_eq!(Format::ALL.iter().filter(|format| set.contains(**format)).count(), 4);
        assert_eq!(set.words().iter().map(|word| word.count_ones()).sum::<u32>(), 4);
        let each: std::collections::HashSet<_> = Format::ALL.iter().map(|format| FormatSet::of(&[*format])).collect();
        assert_eq!(each.len(), Format::ALL.len());
    }
}
