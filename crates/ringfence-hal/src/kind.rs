//! Portable descriptions of buffers and textures.

use std::fmt;

use super::capabilities::Capabilities;
use super::error::{DeviceError, Numbers};
use super::format::{Format, FormatSet, TextureParts};
use super::usage::{BufferUsage, TextureUsage};

/// A kind of resource: buffers or textures.
pub trait Kind: Copy + Send + Sync + fmt::Debug + 'static {
    /// The portable description.
    type Desc: Clone + PartialEq + fmt::Debug + Send + Sync + 'static;
    /// The name of the kind in messages.
    const NAME: &'static str;

    /// Checks a portable description against the rules of all devices. If the API does not check these rules itself, a
    /// device calls this first in [`Create::describe`](super::Create::describe).
    ///
    /// # Errors
    /// [`DeviceError::InvalidInfo`] names the broken rule.
    fn check(desc: &Self::Desc) -> Result<(), DeviceError>;

    /// Returns `true` if the usage of the resource includes copies from it and to it.
    fn is_copied(desc: &Self::Desc) -> bool;

    /// Returns the size, subresources and format of a texture. Returns `None` for buffers.
    fn parts(desc: &Self::Desc) -> Option<TextureParts> {
        let _ = desc;
        None
    }

    /// Returns the alignment in memory, in bytes, that the usage requires; 1 for textures. The driver's requirements
    /// may have a smaller alignment. The larger of the two applies.
    fn alignment(desc: &Self::Desc, capabilities: &Capabilities) -> u64 {
        let _ = (desc, capabilities);
        1
    }
}

const fn invalid(rule: &'static str) -> DeviceError {
    DeviceError::invalid(rule)
}

/// The [`Kind`] of buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffers;

impl Kind for Buffers {
    type Desc = BufferDesc;
    const NAME: &'static str = "buffer";

    fn check(desc: &BufferDesc) -> Result<(), DeviceError> {
        invalid("a buffer must have at least one byte").at_least(desc.size, 1)?;
        invalid("a buffer must have at least one usage").at_least(desc.usage.bits().into(), 1)?;
        invalid("an unknown usage flag of a buffer").flags(desc.usage.bits().into(), BufferUsage::all().bits().into())
    }

    fn is_copied(desc: &BufferDesc) -> bool {
        desc.usage.contains(BufferUsage::COPY_SRC | BufferUsage::COPY_DST)
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
        desc.check_view_formats()?;
        for (count, at_least_one) in [
            (width, "a texture must be at least one texel wide"),
            (height, "a texture must be at least one texel high"),
            (depth, "a texture must be at least one texel deep"),
            (layers, "a texture must have at least one array layer"),
            (mips, "a texture must have at least one mip level"),
            (usage.bits(), "a texture must have at least one usage"),
        ] {
            invalid(at_least_one).at_least(count.into(), 1)?;
        }
        let usages = [usage, TextureUsage::all()].map(|usage| usage.bits().into());
        invalid("an unknown usage flag of a texture").flags(usages[0], usages[1])?;
        let [mips, samples] = [mips, samples].map(u64::from);
        if !samples.is_power_of_two() {
            return Err(invalid("the number of samples must be a power of two").with(Numbers::Given(samples)));
        }
        invalid("more mip levels than the size allows").at_most(mips, (desc.longest().ilog2() + 1).into())?;
        if samples > 1 {
            invalid("a texture with several samples must have one mip level").exactly(mips, 1)?;
        }
        check_dimension(desc)
    }

    fn is_copied(desc: &TextureDesc) -> bool {
        desc.usage.contains(TextureUsage::COPY_SRC | TextureUsage::COPY_DST)
    }

    fn parts(desc: &TextureDesc) -> Option<TextureParts> {
        let TextureDesc { width, height, depth, layers, mips, samples, format, .. } = *desc;
        let format = format.texels();
        Some(TextureParts { width, height, depth, layers, mips, samples, format, aspects: format.aspects() })
    }
}

/// Checks the sizes and counts that the dimension of the texture requires.
fn check_dimension(desc: &TextureDesc) -> Result<(), DeviceError> {
    let TextureDesc { dimension, width, .. } = *desc;
    let [wide, height, depth, layers, samples] =
        [width, desc.height, desc.depth, desc.layers, desc.samples].map(u64::from);
    match dimension {
        Dimension::D1 => {
            invalid("a one-dimensional texture must be one texel high").exactly(height, 1)?;
            invalid("a one-dimensional texture must be one texel deep").exactly(depth, 1)?;
            invalid("a one-dimensional texture must have one sample per texel").exactly(samples, 1)
        }
        Dimension::D2 => invalid("a two-dimensional texture must be one texel deep").exactly(depth, 1),
        Dimension::Cube => {
            invalid("the faces of a cube must be one texel deep").exactly(depth, 1)?;
            invalid("the faces of a cube must be as high as they are wide").exactly(height, wide)?;
            invalid("a cube must have six layers, and several cubes six each").multiple_of(layers, 6)?;
            invalid("a cube must have one sample per texel").exactly(samples, 1)
        }
        Dimension::D3 => {
            invalid("a three-dimensional texture must have one array layer").exactly(layers, 1)?;
            invalid("a three-dimensional texture must have one sample per texel").exactly(samples, 1)
        }
    }
}

/// The portable description of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferDesc {
    /// Size in bytes.
    pub size: u64,
    /// The usage flags.
    pub usage: BufferUsage,
}

/// The dimension of a texture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Dimension {
    /// One-dimensional: a row of texels.
    D1,
    /// Two-dimensional.
    #[default]
    D2,
    /// Two-dimensional, with six layers for the faces of each cube.
    Cube,
    /// Three-dimensional.
    D3,
}

/// The portable description of a texture; two-dimensional by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureDesc {
    /// The dimension.
    pub dimension: Dimension,
    /// Width in texels.
    pub width: u32,
    /// Height in texels; 1 for one-dimensional textures.
    pub height: u32,
    /// Depth in texels; 1 unless the texture is three-dimensional.
    pub depth: u32,
    /// Number of array layers; 1 for three-dimensional textures.
    pub layers: u32,
    /// Number of mip levels.
    pub mips: u32,
    /// Number of samples per texel; a power of two.
    pub samples: u32,
    /// The format.
    pub format: Format,
    /// The usage flags.
    pub usage: TextureUsage,
    /// The optimised clear value of a target: on Direct3D 12, clears with this value are faster. Vulkan ignores it.
    pub clear_value: Option<ClearValue>,
    /// Further formats of views: `TextureView::format`. If there are any, devices may store the texture without
    /// lossless compression.
    pub view_formats: FormatSet,
}

/// The clear value of a target. Floating-point numbers are stored as bits, so that the type can be compared and hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClearValue {
    /// Red, green, blue, alpha: see [`ClearValue::color`].
    Color([u32; 4]),
    /// Depth and stencil: see [`ClearValue::depth`].
    DepthStencil {
        /// Depth, as the bits of an `f32`.
        depth: u32,
        /// Stencil.
        stencil: u8,
    },
}

impl ClearValue {
    /// Returns the clear value of a colour target: red, green, blue, alpha.
    #[must_use]
    pub const fn color([red, green, blue, alpha]: [f32; 4]) -> Self {
        Self::Color([red.to_bits(), green.to_bits(), blue.to_bits(), alpha.to_bits()])
    }

    /// Returns the clear value of a depth target, with stencil 0.
    #[must_use]
    pub const fn depth(depth: f32) -> Self {
        Self::DepthStencil { depth: depth.to_bits(), stencil: 0 }
    }

    /// Returns the variant (1 for colour, 2 for depth and stencil) and its bits as words, for keys.
    #[must_use]
    pub const fn words(self) -> [u32; 5] {
        match self {
            Self::Color([red, green, blue, alpha]) => [1, red, green, blue, alpha],
            Self::DepthStencil { depth, stencil } => [2, depth, stencil as u32, 0, 0],
        }
    }
}

impl TextureDesc {
    /// Returns an error if there is a clear value that is neither a colour for a render target nor a depth for a depth
    /// target.
    fn check_clear_value(&self) -> Result<(), DeviceError> {
        let Self { usage, format, .. } = *self;
        let fits = |value| match value {
            ClearValue::Color(_) => usage.contains(TextureUsage::RENDER_TARGET) && !format.is_depth_stencil(),
            ClearValue::DepthStencil { .. } => usage.contains(TextureUsage::DEPTH_STENCIL) && format.is_depth_stencil(),
        };
        if self.clear_value.is_none_or(fits) {
            return Ok(());
        }
        let targets = TextureUsage::RENDER_TARGET | TextureUsage::DEPTH_STENCIL;
        let (given, allowed) = (usage.bits().into(), targets.bits().into());
        Err(invalid("a clear value must be a colour for a render target or a depth for a depth target")
            .with(Numbers::Flags { given, allowed }))
    }

    /// Returns an error unless the texture can have views of each view format ([`Format::can_be_viewed_as`]).
    fn check_view_formats(&self) -> Result<(), DeviceError> {
        let rule =
            "a view format must be a colour format whose texels have the same size (of blocks: the same channels)";
        let wrong = self.view_formats.iter().find(|format| !self.format.can_be_viewed_as(*format));
        wrong.map_or(Ok(()), |format| Err(invalid(rule).with(Numbers::Given(format as u64))))
    }

    /// Returns the width, height and depth of a mip level in texels, each at least 1.
    #[must_use]
    pub fn extent(&self, mip: u32) -> [u32; 3] {
        [self.width, self.height, self.depth].map(|side| side.checked_shr(mip).unwrap_or(0).max(1))
    }

    /// Returns the first mip level that two textures have in common as parts of one mip chain: its number in `self` and
    /// in `other`. Returns `None` if there is no such level, if a texture has more mip levels than its size allows, or
    /// if the textures differ in dimension, format, layers or samples. A cube counts as two-dimensional.
    #[must_use]
    pub fn common_mip(&self, other: &Self) -> Option<(u32, u32)> {
        let is_chain = |desc: &Self| {
            let side = desc.longest();
            side > 0 && (1..=side.ilog2() + 1).contains(&desc.mips)
        };
        // A cube is an array of its faces; not every API distinguishes the two after creation.
        let dimension = |desc: &Self| if desc.dimension == Dimension::Cube { Dimension::D2 } else { desc.dimension };
        let kind = |desc: &Self| (dimension(desc), desc.format, desc.layers, desc.samples);
        if !is_chain(self) || !is_chain(other) || kind(self) != kind(other) {
            return None;
        }
        let level = |large: &Self, small: &Self| (0..large.mips).find(|mip| large.extent(*mip) == small.extent(0));
        level(self, other).map(|level| (level, 0)).or_else(|| level(other, self).map(|level| (0, level)))
    }

    /// Returns the largest of width, height and depth, in texels.
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
            view_formats: FormatSet::EMPTY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for each broken rule of a portable description contains the given and the allowed number.
    #[test]
    fn what_a_description_breaks_is_said_with_its_numbers() {
        let valid = TextureDesc { width: 64, height: 64, ..Default::default() };
        let d1 = TextureDesc { dimension: Dimension::D1, height: 1, ..valid };
        let cube = TextureDesc { dimension: Dimension::Cube, layers: 6, ..valid };
        let d3 = TextureDesc { dimension: Dimension::D3, depth: 4, ..valid };
        for valid in [valid, d1, cube, d3] {
            assert_eq!(Textures::check(&valid), Ok(()));
        }
        let clear_value = Some(ClearValue::depth(1.0));
        let table = [
            (TextureDesc { width: 0, ..valid }, "wide (0, at least 1)"),
            (TextureDesc { height: 0, ..valid }, "high (0, at least 1)"),
            (TextureDesc { depth: 0, ..valid }, "deep (0, at least 1)"),
            (TextureDesc { layers: 0, ..valid }, "layer (0, at least 1)"),
            (TextureDesc { mips: 0, ..valid }, "level (0, at least 1)"),
            (TextureDesc { usage: TextureUsage::empty(), ..valid }, "usage (0, at least 1)"),
            (TextureDesc { usage: TextureUsage::from_bits_retain(0x43), ..valid }, "texture (0x43, of 0x3f)"),
            (TextureDesc { samples: 3, ..valid }, "power of two (3)"),
            (TextureDesc { mips: 8, ..valid }, "allows (8, at most 7)"),
            (TextureDesc { samples: 4, mips: 2, ..valid }, "one mip level (2, only 1)"),
            (TextureDesc { depth: 2, ..valid }, "one texel deep (2, only 1)"),
            (TextureDesc { height: 5, ..d1 }, "one texel high (5, only 1)"),
            (TextureDesc { depth: 6, ..d1 }, "one texel deep (6, only 1)"),
            (TextureDesc { samples: 2, ..d1 }, "one sample per texel (2, only 1)"),
            (TextureDesc { depth: 2, ..cube }, "one texel deep (2, only 1)"),
            (TextureDesc { height: 32, ..cube }, "as they are wide (32, only 64)"),
            (TextureDesc { layers: 7, ..cube }, "six each (7, a multiple of 6)"),
            (TextureDesc { samples: 8, ..cube }, "one sample per texel (8, only 1)"),
            (TextureDesc { layers: 9, ..d3 }, "one array layer (9, only 1)"),
            (TextureDesc { samples: 2, ..d3 }, "one sample per texel (2, only 1)"),
            (TextureDesc { clear_value, ..valid }, "depth target (0x6, of 0x30)"),
            (TextureDesc { view_formats: FormatSet::of(&[Format::R8Unorm]), ..valid }, "the same channels) (0)"),
        ];
        for (broken, numbers) in table {
            let error = Textures::check(&broken).expect_err(numbers).to_string();
            assert!(error.ends_with(numbers), "{error}: {numbers}");
        }
        let usage = BufferUsage::COPY_SRC;
        let error = Buffers::check(&BufferDesc { size: 0, usage }).expect_err("no bytes").to_string();
        assert!(error.ends_with("byte (0, at least 1)"), "{error}");
        let error = Buffers::check(&BufferDesc { size: 4, usage: BufferUsage::empty() }).expect_err("no usage");
        assert!(error.to_string().ends_with("usage (0, at least 1)"), "{error}");
        let unknown = BufferDesc { size: 4, usage: BufferUsage::from_bits_retain(1 << 31) };
        assert!(Buffers::check(&unknown).expect_err("an unknown usage").to_string().contains("unknown usage flag"));
    }

    #[test]
    fn a_cube_is_one_chain_with_the_array_that_it_is_on_some_devices() {
        let usage = TextureUsage::SAMPLED;
        let size = TextureDesc { width: 64, height: 64, layers: 6, mips: 7, usage, ..Default::default() };
        let cube = TextureDesc { dimension: Dimension::Cube, ..size };
        let faces = TextureDesc { dimension: Dimension::D2, ..cube };
        let smaller = |of: TextureDesc| TextureDesc { width: 32, height: 32, mips: 6, ..of };
        for (present, wanted) in [(cube, cube), (faces, cube), (cube, faces)] {
            assert_eq!(present.common_mip(&smaller(wanted)), Some((1, 0)));
            assert_eq!(smaller(present).common_mip(&wanted), Some((0, 1)));
        }
        let volume = TextureDesc { dimension: Dimension::D3, ..cube };
        assert_eq!(volume.common_mip(&smaller(faces)), None);
    }

    #[test]
    fn buffers_need_a_byte_and_known_usages() {
        let copy = BufferUsage::COPY_SRC;
        let known = BufferUsage::all();
        assert_eq!(known.bits(), 0x3ff);
        let all_and_one = BufferUsage::from_bits_retain(0x400 | copy.bits());
        for (size, usage, error) in [
            (1, copy, Ok(())),
            (u64::MAX, known, Ok(())),
            (0, copy, invalid("a buffer must have at least one byte").at_least(0, 1)),
            (1, BufferUsage::empty(), invalid("a buffer must have at least one usage").at_least(0, 1)),
            (1, all_and_one, invalid("an unknown usage flag of a buffer").flags(0x401, 0x3ff)),
        ] {
            assert_eq!(Buffers::check(&BufferDesc { size, usage }), error, "{size} bytes, {usage:?}");
        }
    }

    #[test]
    fn the_largest_side_limits_the_mip_levels() {
        for ([width, height, depth], dimension, longest, mips) in [
            ([1, 1, 1], Dimension::D2, 1, 1),
            ([2, 1, 1], Dimension::D1, 2, 2),
            ([3, 1, 1], Dimension::D1, 3, 2),
            ([4, 7, 1], Dimension::D2, 7, 3),
            ([4, 8, 1], Dimension::D2, 8, 4),
            ([9, 8, 1], Dimension::D2, 9, 4),
            ([2, 4, 16], Dimension::D3, 16, 5),
            ([32, 4, 16], Dimension::D3, 32, 6),
        ] {
            let desc = TextureDesc { dimension, width, height, depth, mips, ..Default::default() };
            assert_eq!(desc.longest(), longest, "{desc:?}");
            assert_eq!(Textures::check(&desc), Ok(()), "{desc:?}");
            let refused = Textures::check(&TextureDesc { mips: mips + 1, ..desc });
            let (given, max) = (u64::from(mips) + 1, u64::from(mips));
            let numbers = Numbers::AtMost { given, max };
            assert_eq!(refused, Err(invalid("more mip levels than the size allows").with(numbers)), "{desc:?}");
        }
    }

    #[test]
    fn samples_are_a_power_of_two_and_exclude_mip_levels() {
        let desc = TextureDesc { width: 8, height: 8, ..Default::default() };
        for (samples, mips, is_valid) in
            [(0, 1, false), (1, 1, true), (1, 2, true), (2, 1, true), (2, 2, false), (6, 1, false), (64, 1, true)]
        {
            let found = Textures::check(&TextureDesc { samples, mips, ..desc }).is_ok();
            assert_eq!(found, is_valid, "{samples} samples, {mips} mip levels");
        }
    }

    #[test]
    fn each_dimension_has_its_own_extents_layers_and_samples() {
        use Dimension::{Cube, D1, D2, D3};
        for (dimension, [width, height, depth], layers, samples, is_valid) in [
            (D1, [8, 1, 1], 5, 1, true),
            (D1, [8, 2, 1], 1, 1, false),
            (D1, [8, 1, 2], 1, 1, false),
            (D1, [8, 1, 1], 1, 2, false),
            (D2, [8, 4, 1], 5, 4, true),
            (D2, [8, 4, 2], 1, 1, false),
            (Cube, [8, 8, 1], 6, 1, true),
            (Cube, [8, 8, 1], 12, 1, true),
            (Cube, [8, 8, 1], 5, 1, false),
            (Cube, [8, 8, 1], 8, 1, false),
            (Cube, [8, 4, 1], 6, 1, false),
            (Cube, [8, 8, 2], 6, 1, false),
            (Cube, [8, 8, 1], 6, 2, false),
            (D3, [8, 4, 2], 1, 1, true),
            (D3, [8, 4, 2], 2, 1, false),
            (D3, [8, 4, 2], 1, 2, false),
        ] {
            let desc = TextureDesc { dimension, width, height, depth, layers, samples, ..Default::default() };
            assert_eq!(Textures::check(&desc).is_ok(), is_valid, "{desc:?}");
        }
    }

    #[test]
    fn a_clear_value_fits_the_usage_and_the_format_of_its_target() {
        let color = ClearValue::color([0.0, 0.5, 1.0, 2.0]);
        let depth = ClearValue::depth(1.0);
        assert_eq!(color.words(), [1, 0, 0x3f00_0000, 0x3f80_0000, 0x4000_0000]);
        assert_eq!(depth.words(), [2, 0x3f80_0000, 0, 0, 0]);
        assert_eq!(ClearValue::DepthStencil { depth: 7, stencil: 9 }.words(), [2, 7, 9, 0, 0]);
        let (target, sampled) = (TextureUsage::RENDER_TARGET, TextureUsage::SAMPLED);
        let depth_target = TextureUsage::DEPTH_STENCIL;
        for (value, usage, format, is_valid) in [
            (None, sampled, Format::Rgba8Unorm, true),
            (Some(color), target, Format::Rgba8Unorm, true),
            (Some(color), target | sampled, Format::Rgba8Unorm, true),
            (Some(color), sampled, Format::Rgba8Unorm, false),
            (Some(color), target, Format::D32Float, false),
            (Some(color), depth_target, Format::D32Float, false),
            (Some(depth), depth_target, Format::D32Float, true),
            (Some(depth), depth_target, Format::Rgba8Unorm, false),
            (Some(depth), sampled, Format::D32Float, false),
            (Some(depth), target, Format::Rgba8Unorm, false),
        ] {
            let desc = TextureDesc { clear_value: value, usage, format, ..Default::default() };
            assert_eq!(Textures::check(&desc).is_ok(), is_valid, "{desc:?}");
        }
    }

    #[test]
    fn both_usages_of_copies_are_needed_to_move_a_resource() {
        let (src, dst) = (BufferUsage::COPY_SRC, BufferUsage::COPY_DST);
        for (usage, is_copied) in
            [(src, false), (dst, false), (src | dst, true), (src | dst | BufferUsage::INDEX, true)]
        {
            assert_eq!(Buffers::is_copied(&BufferDesc { size: 4, usage }), is_copied, "{usage:?}");
        }
        let (src, dst) = (TextureUsage::COPY_SRC, TextureUsage::COPY_DST);
        for (usage, is_copied) in
            [(src, false), (dst, false), (src | dst, true), (src | dst | TextureUsage::SAMPLED, true)]
        {
            assert_eq!(Textures::is_copied(&TextureDesc { usage, ..Default::default() }), is_copied, "{usage:?}");
        }
    }

    #[test]
    fn only_buffers_add_to_the_alignment_and_only_textures_have_parts() {
        let capabilities = crate::capabilities::tests::capabilities();
        let buffer = |usage| BufferDesc { size: 4, usage };
        assert_eq!(Buffers::alignment(&buffer(BufferUsage::CONSTANT), &capabilities), 256);
        assert_eq!(Buffers::alignment(&buffer(BufferUsage::VERTEX), &capabilities), 1);
        assert_eq!(Buffers::parts(&buffer(BufferUsage::CONSTANT)), None);
        let (format, usage) = (Format::D24UnormS8Uint, TextureUsage::STORAGE);
        let size = TextureDesc { width: 5, height: 6, depth: 7, layers: 8, mips: 9, samples: 10, ..Default::default() };
        let desc = TextureDesc { format, usage, ..size };
        assert_eq!(Textures::alignment(&desc, &capabilities), 1);
        let parts = TextureParts {
            width: 5,
            height: 6,
            depth: 7,
            layers: 8,
            mips: 9,
            samples: 10,
            format: crate::TexelFormat::depth_stencil(4, 1),
            aspects: crate::record::TextureAspects::DEPTH | crate::record::TextureAspects::STENCIL,
        };
        assert_eq!(Textures::parts(&desc), Some(parts));
    }

    #[test]
    fn a_mip_level_halves_each_side_down_to_one_texel() {
        let desc = TextureDesc { width: 13, height: 6, depth: 3, ..Default::default() };
        for (mip, extent) in
            [(0, [13, 6, 3]), (1, [6, 3, 1]), (2, [3, 1, 1]), (3, [1, 1, 1]), (31, [1, 1, 1]), (32, [1, 1, 1])]
        {
            assert_eq!(desc.extent(mip), extent, "mip {mip}");
        }
    }

    #[test]
    fn parts_of_one_chain_have_a_first_common_mip() {
        let of = |width: u32, height: u32, mips: u32| TextureDesc { width, height, mips, ..Default::default() };
        let whole = of(64, 16, 7);
        for (other, common) in [
            (of(64, 16, 7), Some((0, 0))),
            (of(64, 16, 1), Some((0, 0))),
            (of(32, 8, 6), Some((1, 0))),
            (of(1, 1, 1), Some((6, 0))),
            // The third level has 16 × 4 texels.
            (of(16, 8, 1), None),
            (of(128, 32, 8), Some((0, 1))),
            (of(128, 32, 1), None),
            (of(65, 16, 7), None),
            // These are no chains.
            (of(64, 16, 0), None),
            (of(64, 16, 8), None),
            (TextureDesc { depth: 0, ..of(0, 0, 1) }, None),
        ] {
            assert_eq!(whole.common_mip(&other), common, "{other:?}");
            let swapped = common.map(|(own, of_other)| (of_other, own));
            assert_eq!(other.common_mip(&whole), swapped, "{other:?}");
        }
        let two_mips = of(64, 16, 2);
        assert_eq!(two_mips.common_mip(&of(32, 8, 1)), Some((1, 0)));
        assert_eq!(two_mips.common_mip(&of(16, 4, 1)), None, "the third level is not there");
        let others = [
            TextureDesc { dimension: Dimension::D3, ..whole },
            TextureDesc { format: Format::Rgba8Snorm, ..whole },
            TextureDesc { layers: 2, ..whole },
            TextureDesc { samples: 2, ..whole },
        ];
        assert_eq!(others.map(|other| whole.common_mip(&other)), [None; 4]);
    }

    #[test]
    fn the_default_texture_has_one_texel_that_is_uploaded_and_sampled() {
        let desc = TextureDesc::default();
        let TextureDesc { dimension, width, height, depth, layers, mips, samples, .. } = desc;
        assert_eq!((dimension, [width, height, depth, layers, mips, samples]), (Dimension::D2, [1; 6]));
        assert_eq!((desc.format, desc.usage.bits()), (Format::Rgba8Unorm, 0b110));
        assert_eq!((desc.clear_value, desc.view_formats.is_empty()), (None, true));
        assert_eq!((Buffers::NAME, Textures::NAME), ("buffer", "texture"));
    }
}
