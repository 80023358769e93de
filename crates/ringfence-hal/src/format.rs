//! Layout of the texels of each format in a buffer, for copies.
//!
//! ```text
//!   a format    block           bytes a block in a copy
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

    /// Returns the bytes of a block of this aspect in a buffer; `None` if the format lacks the aspect.
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
        $($name:ident),+:
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

            /// Returns the number of the first format that differs from this one in the type of its channels only.
            const fn family(self) -> u32 {
                match self {
                    $($(Self::$name)|+ => [$(Self::$name as u32),+][0],)*
                }
            }
        }
    };
}

formats! {
    R8Unorm, R8Snorm, R8Uint, R8Sint: 1 x 1, 1, 0, 0, "One channel of 8 bits.";
    Rg8Unorm, Rg8Snorm, Rg8Uint, Rg8Sint: 1 x 1, 2, 0, 0, "Two channels of 8 bits.";
    Rgba8Unorm, Rgba8UnormSrgb, Rgba8Snorm, Rgba8Uint, Rgba8Sint: 1 x 1, 4, 0, 0, "Four channels of 8 bits.";
    Bgra8Unorm, Bgra8UnormSrgb: 1 x 1, 4, 0, 0, "Four channels of 8 bits, blue first.";
    Abgr8Unorm, Abgr8UnormSrgb, Abgr8Snorm, Abgr8Uint, Abgr8Sint: 1 x 1, 4, 0, 0,
        "Four channels in 32 bits, red lowest: the bytes of `Rgba8` on hosts that keep the lowest byte first. Vulkan only.";
    R16Unorm, R16Snorm, R16Uint, R16Sint, R16Float: 1 x 1, 2, 0, 0, "One channel of 16 bits.";
    Rg16Unorm, Rg16Snorm, Rg16Uint, Rg16Sint, Rg16Float: 1 x 1, 4, 0, 0, "Two channels of 16 bits.";
    Rgba16Unorm, Rgba16Snorm, Rgba16Uint, Rgba16Sint, Rgba16Float: 1 x 1, 8, 0, 0, "Four channels of 16 bits.";
    R32Uint, R32Sint, R32Float: 1 x 1, 4, 0, 0, "One channel of 32 bits.";
    Rg32Uint, Rg32Sint, Rg32Float: 1 x 1, 8, 0, 0, "Two channels of 32 bits.";
    Rgb32Uint, Rgb32Sint, Rgb32Float: 1 x 1, 12, 0, 0, "Three channels of 32 bits.";
    Rgba32Uint, Rgba32Sint, Rgba32Float: 1 x 1, 16, 0, 0, "Four channels of 32 bits.";
    B5g6r5Unorm: 1 x 1, 2, 0, 0, "Three channels in 16 bits, blue lowest.";
    Bgr5a1Unorm: 1 x 1, 2, 0, 0, "Four channels in 16 bits, blue lowest.";
    Rgb10a2Unorm, Rgb10a2Uint: 1 x 1, 4, 0, 0, "Four channels in 32 bits, red lowest.";
    Bgr10a2Unorm, Bgr10a2Uint: 1 x 1, 4, 0, 0, "Four channels in 32 bits, blue lowest. Vulkan only.";
    Rg11b10Float: 1 x 1, 4, 0, 0, "Three channels in 32 bits, red lowest.";
    Rgb9e5Float: 1 x 1, 4, 0, 0, "Three channels with one exponent in 32 bits, red lowest.";
    Bc1Unorm, Bc1UnormSrgb: 4 x 4, 8, 0, 0, "Blocks of 4 × 4 texels in 8 bytes.";
    Bc1RgbUnorm, Bc1RgbUnormSrgb: 4 x 4, 8, 0, 0, "Blocks of 4 × 4 opaque texels in 8 bytes. Vulkan only.";
    Bc2Unorm, Bc2UnormSrgb: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Bc3Unorm, Bc3UnormSrgb: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Bc4Unorm, Bc4Snorm: 4 x 4, 8, 0, 0, "Blocks of 4 × 4 texels in 8 bytes.";
    Bc5Unorm, Bc5Snorm: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Bc6hUfloat, Bc6hFloat: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Bc7Unorm, Bc7UnormSrgb: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Etc2Rgb8Unorm, Etc2Rgb8UnormSrgb: 4 x 4, 8, 0, 0, "Blocks of 4 × 4 texels in 8 bytes.";
    Etc2Rgb8a1Unorm, Etc2Rgb8a1UnormSrgb: 4 x 4, 8, 0, 0, "Blocks of 4 × 4 texels in 8 bytes.";
    Etc2Rgba8Unorm, Etc2Rgba8UnormSrgb: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    EacR11Unorm, EacR11Snorm: 4 x 4, 8, 0, 0, "Blocks of 4 × 4 texels in 8 bytes.";
    EacRg11Unorm, EacRg11Snorm: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Astc4x4Unorm, Astc4x4UnormSrgb: 4 x 4, 16, 0, 0, "Blocks of 4 × 4 texels in 16 bytes.";
    Astc5x4Unorm, Astc5x4UnormSrgb: 5 x 4, 16, 0, 0, "Blocks of 5 × 4 texels in 16 bytes.";
    Astc5x5Unorm, Astc5x5UnormSrgb: 5 x 5, 16, 0, 0, "Blocks of 5 × 5 texels in 16 bytes.";
    Astc6x5Unorm, Astc6x5UnormSrgb: 6 x 5, 16, 0, 0, "Blocks of 6 × 5 texels in 16 bytes.";
    Astc6x6Unorm, Astc6x6UnormSrgb: 6 x 6, 16, 0, 0, "Blocks of 6 × 6 texels in 16 bytes.";
    Astc8x5Unorm, Astc8x5UnormSrgb: 8 x 5, 16, 0, 0, "Blocks of 8 × 5 texels in 16 bytes.";
    Astc8x6Unorm, Astc8x6UnormSrgb: 8 x 6, 16, 0, 0, "Blocks of 8 × 6 texels in 16 bytes.";
    Astc8x8Unorm, Astc8x8UnormSrgb: 8 x 8, 16, 0, 0, "Blocks of 8 × 8 texels in 16 bytes.";
    Astc10x5Unorm, Astc10x5UnormSrgb: 10 x 5, 16, 0, 0, "Blocks of 10 × 5 texels in 16 bytes.";
    Astc10x6Unorm, Astc10x6UnormSrgb: 10 x 6, 16, 0, 0, "Blocks of 10 × 6 texels in 16 bytes.";
    Astc10x8Unorm, Astc10x8UnormSrgb: 10 x 8, 16, 0, 0, "Blocks of 10 × 8 texels in 16 bytes.";
    Astc10x10Unorm, Astc10x10UnormSrgb: 10 x 10, 16, 0, 0, "Blocks of 10 × 10 texels in 16 bytes.";
    Astc12x10Unorm, Astc12x10UnormSrgb: 12 x 10, 16, 0, 0, "Blocks of 12 × 10 texels in 16 bytes.";
    Astc12x12Unorm, Astc12x12UnormSrgb: 12 x 12, 16, 0, 0, "Blocks of 12 × 12 texels in 16 bytes.";
    D16Unorm: 1 x 1, 0, 2, 0, "Depth of 16 bits.";
    X8D24Unorm: 1 x 1, 0, 4, 0, "Depth of 24 bits, copied as 32. Vulkan only.";
    D32Float: 1 x 1, 0, 4, 0, "Depth of 32 bits.";
    D16UnormS8Uint: 1 x 1, 0, 2, 1, "Depth of 16 bits; stencil. Vulkan only.";
    D24UnormS8Uint: 1 x 1, 0, 4, 1, "Depth of 24 bits, copied as 32; stencil.";
    D32FloatS8Uint: 1 x 1, 0, 4, 1, "Depth of 32 bits; stencil.";
    S8Uint: 1 x 1, 0, 0, 1, "Stencil.";
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
    /// Returns `true` if a texture of this format can have views of the other format: their texels have the same size. For
    /// block-compressed formats, only the type of the channels may differ. Depth and stencil have no other views.
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
