//! Boxes of texels that a copy reads or writes, and their checks against the texture.
//!
//! ```text
//!   mip of 10 × 6 texels, blocks of 4 × 4        ┌────┬────┬──┐   a region begins at a block boundary, and ends at
//!                                                │    │    │▒▒│   a block boundary or at the edge of the mip.
//!                                                ├────┼────┼──┤   Partial blocks (▒) have all bytes in the buffer
//!                                                │▒▒▒▒│▒▒▒▒│▒▒│
//!                                                └────┴────┴──┘
//! ```

use super::format::{TexelFormat, TextureAspect, TextureAspects, TextureParts};

/// A box of texels: one aspect of one mip level, in consecutive array layers of a texture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TexelBox {
    /// The aspect: colour, depth or stencil.
    pub aspect: TextureAspect,
    /// The mip level.
    pub mip: u32,
    /// The first array layer.
    pub layer: u32,
    /// Number of array layers.
    pub layers: u32,
    /// Horizontal offset of the first texel.
    pub x: u32,
    /// Vertical offset of the first texel.
    pub y: u32,
    /// First depth slice.
    pub z: u32,
    /// Width in texels.
    pub width: u32,
    /// Height in texels.
    pub height: u32,
    /// Number of depth slices.
    pub depth: u32,
}

impl TexelBox {
    /// Returns the box of all texels of a mip level, in every layer and depth slice. The aspect is the first one of the
    /// texture's format, in the order colour, depth, stencil.
    #[must_use]
    pub fn mip(parts: &TextureParts, mip: u32) -> Self {
        let [width, height, depth] = parts.extent(mip);
        let (aspect, layers) = (parts.format.first_aspect(), parts.layers);
        Self { aspect, mip, layer: 0, layers, x: 0, y: 0, z: 0, width, height, depth }
    }

    /// Returns `true` if the box contains all texels of its mip level in each of its layers, and its aspect is the only
    /// one of the texture.
    #[must_use]
    pub fn is_whole(&self, parts: &TextureParts) -> bool {
        let is_all = self.first() == [0; 3] && self.extent() == parts.extent(self.mip);
        is_all && parts.aspects == self.aspect.flag()
    }

    /// Returns the offset of the first texel: x, y, z.
    #[must_use]
    pub const fn first(&self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }

    /// Returns the size in texels: width, height, depth.
    #[must_use]
    pub const fn extent(&self) -> [u32; 3] {
        [self.width, self.height, self.depth]
    }
}

/// The reason why texels cannot be copied. A copy that fails with this error has changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TexelError {
    /// The region contains no texels.
    #[error("the copy is empty: {extent:?} texels in {layers} layers")]
    Empty {
        /// Width, height and depth in texels.
        extent: [u32; 3],
        /// Number of array layers.
        layers: u32,
    },
    /// The texture's format has several planes, or the library does not know the format.
    #[error("the texture's format has several planes or is unknown, so its texels have no known layout in a buffer")]
    UnknownFormat,
    /// The texture is multisampled. No device copies multisampled texels to or from a buffer.
    #[error("a texture with {samples} samples per texel cannot be copied to or from a buffer; resolve it first")]
    Multisampled {
        /// Samples per texel.
        samples: u32,
    },
    /// The texture has no such aspect.
    #[error("the texture has no {aspect:?} aspect, only {has:?}")]
    NoAspect {
        /// The requested aspect.
        aspect: TextureAspect,
        /// The aspects of the texture.
        has: TextureAspects,
    },
    /// The layout of the texels that were passed for the copy differs from the layout of the texture's format in the
    /// copied aspect.
    #[error("the given layout ({given}) does not match the texture's ({has})")]
    OtherFormat {
        /// The layout of the passed texels.
        given: TexelFormat,
        /// The layout of the texture's texels.
        has: TexelFormat,
    },
    /// The texture has no such mip level.
    #[error("mip level {mip} is out of range: the texture has {mips} mip levels")]
    NoMip {
        /// The requested mip level.
        mip: u32,
        /// Mip levels of the texture.
        mips: u32,
    },
    /// The texture does not have all of the requested array layers.
    #[error("{count} layers from layer {layer} are out of range: the texture has {layers} layers")]
    NoLayers {
        /// The first requested layer.
        layer: u32,
        /// Number of requested layers.
        count: u32,
        /// Array layers of the texture.
        layers: u32,
    },
    /// Some of the texels are outside of the mip level.
    #[error("{extent:?} texels at {first:?} are not inside the mip level of {size:?} texels")]
    Outside {
        /// Offset of the first texel: x, y, z.
        first: [u32; 3],
        /// Width, height and depth in texels.
        extent: [u32; 3],
        /// Size of the mip level in texels.
        size: [u32; 3],
    },
    /// The region cuts a block: it must begin at a block boundary, and end at a block boundary or at the edge of the
    /// mip level.
    #[error(
        "{extent:?} texels at {first:?} in a mip level of {size:?} texels are not whole blocks of {block:?} texels"
    )]
    PartOfBlock {
        /// Offset of the first texel: x, y, z.
        first: [u32; 3],
        /// Width, height and depth in texels.
        extent: [u32; 3],
        /// Size of the mip level in texels.
        size: [u32; 3],
        /// Width and height of a block in texels.
        block: [u32; 2],
    },
    /// The region is a part of a mip level of depth or stencil. The device copies only whole mip levels of these
    /// aspects (Direct3D 12).
    #[error(
        "the device copies depth and stencil as whole mip levels ({size:?} texels), not {extent:?} texels at {first:?}"
    )]
    PartOfDepth {
        /// Offset of the first texel: x, y, z.
        first: [u32; 3],
        /// Width, height and depth in texels.
        extent: [u32; 3],
        /// Size of the mip level in texels.
        size: [u32; 3],
    },
    /// The region cuts a unit of the queue (`minImageTransferGranularity`): it must begin at a unit boundary, and end
    /// at a unit boundary or at the edge of the mip level.
    #[error("{extent:?} texels at {first:?} in a mip level of {size:?} are not whole units of the queue ({unit:?})")]
    PartOfUnit {
        /// Offset of the first texel: x, y, z.
        first: [u32; 3],
        /// Width, height and depth in texels.
        extent: [u32; 3],
        /// Size of the mip level in texels.
        size: [u32; 3],
        /// Size of a unit in texels; 0 if the queue copies whole mip levels only.
        unit: [u32; 3],
    },
}

/// Returns `true` if, on each axis, a region begins at a multiple of `unit` and ends at a multiple of `unit` or at the
/// edge of the mip level. If `unit` is 0 on an axis, the region must contain the whole axis.
fn is_whole(first: [u32; 3], extent: [u32; 3], size: [u32; 3], unit: [u32; 3]) -> bool {
    (0..3).all(|axis| {
        let (first, count, size, unit) = (first[axis], extent[axis], size[axis], unit[axis]);
        let ends = first.saturating_add(count) == size;
        match unit {
            0 => first == 0 && ends,
            1 => true,
            _ => first % unit == 0 && (ends || count % unit == 0),
        }
    })
}

/// Checks a box of texels against a texture and the rules of copies. Returns `parts`: the size, subresources and format
/// of the texture.
///
/// `parts` is `None` if the format has several planes or is unknown. `given` is the layout of the caller's texels; if
/// it is `None`, the layout is not checked. Two rules depend on the queue and the device:
///
/// - `unit` is the granularity of the queue, in blocks: width, height, depth. If it is 0 on an axis, the box must
///   contain the whole axis.
/// - `partial_depth` is `true` if the device copies parts of a mip level of depth or stencil
///   ([`Capabilities::partial_depth_copies`](super::Capabilities::partial_depth_copies)).
///
/// # Errors
/// [`TexelError`] names the first rule that the box breaks.
pub fn check(
    parts: Option<&TextureParts>,
    region: &TexelBox,
    given: Option<TexelFormat>,
    unit: [u32; 3],
    partial_depth: bool,
) -> Result<TextureParts, TexelError> {
    let parts = parts.ok_or(TexelError::UnknownFormat)?;
    let TextureParts { format: has, samples, mips, layers, .. } = *parts;
    let (first, extent, aspect) = (region.first(), region.extent(), region.aspect);
    if samples != 1 {
        return Err(TexelError::Multisampled { samples });
    }
    if has.block_bytes(aspect).is_none() {
        return Err(TexelError::NoAspect { aspect, has: has.aspects() });
    }
    if let Some(given) = given.filter(|given| !has.is_copied_as(*given, aspect)) {
        return Err(TexelError::OtherFormat { given, has });
    }
    if extent.contains(&0) || region.layers == 0 {
        return Err(TexelError::Empty { extent, layers: region.layers });
    }
    if region.mip >= mips {
        return Err(TexelError::NoMip { mip: region.mip, mips });
    }
    if region.layer.checked_add(region.layers).is_none_or(|end| end > layers) {
        return Err(TexelError::NoLayers { layer: region.layer, count: region.layers, layers });
    }
    check_extent(has, parts.extent(region.mip), (first, extent, aspect), unit, partial_depth)?;
    Ok(*parts)
}

fn check_extent(
    format: TexelFormat,
    size: [u32; 3],
    (first, extent, aspect): ([u32; 3], [u32; 3], TextureAspect),
    unit: [u32; 3],
    partial_depth: bool,
) -> Result<(), TexelError> {
    let inside = |axis: usize| first[axis].checked_add(extent[axis]).is_some_and(|end| end <= size[axis]);
    if !(0..3).all(inside) {
        return Err(TexelError::Outside { first, extent, size });
    }
    let block @ [across, down] = format.block();
    if !is_whole(first, extent, size, [across, down, 1]) {
        return Err(TexelError::PartOfBlock { first, extent, size, block });
    }
    let is_depth = aspect != TextureAspect::Color;
    if is_depth && !partial_depth && !is_whole(first, extent, size, [0, 0, 0]) {
        return Err(TexelError::PartOfDepth { first, extent, size });
    }
    let [x, y, z] = unit;
    let unit = [x.saturating_mul(across), y.saturating_mul(down), z];
    if !is_whole(first, extent, size, unit) {
        return Err(TexelError::PartOfUnit { first, extent, size, unit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    const ANY: [u32; 3] = [1; 3];

    fn parts(format: Format, [width, height, depth]: [u32; 3]) -> TextureParts {
        let (format, mips, layers, samples) = (format.texels(), 3, 2, 1);
        TextureParts { width, height, depth, layers, mips, samples, format, aspects: format.aspects() }
    }

    fn region(first: [u32; 3], extent: [u32; 3]) -> TexelBox {
        let ([x, y, z], [width, height, depth]) = (first, extent);
        TexelBox { aspect: TextureAspect::Color, mip: 0, layer: 0, layers: 1, x, y, z, width, height, depth }
    }

    #[test]
    fn blocks_are_copied_whole_and_the_last_ones_as_far_as_the_mip_goes() {
        let parts = parts(Format::Bc1Unorm, [10, 6, 1]);
        let check = |first, extent| check(Some(&parts), &region(first, extent), None, ANY, true).map(drop);
        for (first, extent) in [([0; 3], [10, 6, 1]), ([4, 0, 0], [4, 4, 1]), ([8, 4, 0], [2, 2, 1])] {
            assert_eq!(check(first, extent), Ok(()));
        }
        let size = [10, 6, 1];
        for (first, extent) in
            [([2, 0, 0], [4, 4, 1]), ([0; 3], [2, 2, 1]), ([0; 3], [9, 6, 1]), ([8, 4, 0], [1, 2, 1])]
        {
            let refused = TexelError::PartOfBlock { first, extent, size, block: [4, 4] };
            assert_eq!(check(first, extent), Err(refused));
        }
        for (first, extent) in [([8, 0, 0], [4, 4, 1]), ([0, 0, 1], [4, 4, 1]), ([u32::MAX, 0, 0], [4, 4, 1])] {
            assert_eq!(check(first, extent), Err(TexelError::Outside { first, extent, size }));
        }
        let small = TexelBox { mip: 2, ..region([0; 3], [2, 1, 1]) };
        assert!(super::check(Some(&parts), &small, None, ANY, true).is_ok(), "a mip smaller than a block");
        let mip = TexelBox::mip(&parts, 1);
        assert_eq!((mip.extent(), mip.layers), ([5, 3, 1], 2));
        assert!(super::check(Some(&parts), &mip, None, ANY, true).is_ok());
    }

    #[test]
    fn what_a_texture_does_not_have_is_refused_with_numbers() {
        let color = parts(Format::Rgba8Unorm, [8, 8, 1]);
        let whole = region([0; 3], [8, 8, 1]);
        let refused =
            |region: &TexelBox| check(Some(&color), region, None, ANY, true).expect_err("it has no such part");
        assert_eq!(refused(&TexelBox { mip: 3, ..whole }), TexelError::NoMip { mip: 3, mips: 3 });
        let layers = TexelError::NoLayers { layer: 1, count: 2, layers: 2 };
        assert_eq!(refused(&TexelBox { layer: 1, layers: 2, ..whole }), layers);
        assert!(matches!(refused(&TexelBox { layer: u32::MAX, ..whole }), TexelError::NoLayers { .. }));
        assert!(matches!(refused(&TexelBox { width: 0, ..whole }), TexelError::Empty { .. }));
        assert!(matches!(refused(&TexelBox { layers: 0, ..whole }), TexelError::Empty { .. }));
        let stencil = TexelBox { aspect: TextureAspect::Stencil, ..whole };
        assert!(matches!(refused(&stencil), TexelError::NoAspect { aspect: TextureAspect::Stencil, .. }));
        let wide = Some(Format::Rgba16Float.texels());
        assert!(matches!(check(Some(&color), &whole, wide, ANY, true), Err(TexelError::OtherFormat { .. })));
        let same = Some(Format::R32Float.texels());
        assert!(check(Some(&color), &whole, same, ANY, true).is_ok(), "bytes are bytes");
        assert_eq!(check(None, &whole, None, ANY, true), Err(TexelError::UnknownFormat));
        let samples = TextureParts { samples: 4, ..color };
        assert_eq!(check(Some(&samples), &whole, None, ANY, true), Err(TexelError::Multisampled { samples: 4 }));
    }

    #[test]
    fn depth_is_whole_where_the_device_says_so_and_units_are_kept() {
        let depth = parts(Format::D32Float, [8, 8, 1]);
        let corner = TexelBox { aspect: TextureAspect::Depth, ..region([0; 3], [4, 4, 1]) };
        assert!(check(Some(&depth), &corner, None, ANY, true).is_ok());
        assert!(matches!(check(Some(&depth), &corner, None, ANY, false), Err(TexelError::PartOfDepth { .. })));
        assert!(check(Some(&depth), &TexelBox::mip(&depth, 1), None, ANY, false).is_ok());
        let color = parts(Format::Bc7Unorm, [24, 24, 1]);
        let units = [2, 2, 1];
        assert!(check(Some(&color), &region([8, 8, 0], [16, 8, 1]), None, units, true).is_ok());
        let odd = check(Some(&color), &region([4, 8, 0], [16, 8, 1]), None, units, true);
        assert!(matches!(odd, Err(TexelError::PartOfUnit { unit: [8, 8, 1], .. })), "{odd:?}");
        let all = [0; 3];
        assert!(check(Some(&color), &region([0; 3], [24, 24, 1]), None, all, true).is_ok());
        assert!(check(Some(&color), &region([0; 3], [24, 8, 1]), None, all, true).is_err());
    }

    #[test]
    fn a_box_is_whole_if_it_has_every_texel_of_the_only_aspect() {
        let parts = parts(Format::R8Unorm, [8, 6, 4]);
        let whole = TexelBox { layers: 2, ..region([0; 3], [8, 6, 4]) };
        assert!(whole.is_whole(&parts));
        assert!(TexelBox { mip: 1, ..region([0; 3], [4, 3, 2]) }.is_whole(&parts));
        for part in [
            TexelBox { x: 1, ..whole },
            TexelBox { y: 1, ..whole },
            TexelBox { z: 1, ..whole },
            TexelBox { width: 7, ..whole },
            TexelBox { height: 5, ..whole },
            TexelBox { depth: 3, ..whole },
            TexelBox { mip: 1, ..whole },
            TexelBox { aspect: TextureAspect::Depth, ..whole },
        ] {
            assert!(!part.is_whole(&parts), "{part:?}");
        }
        let both = TextureParts { aspects: TextureAspects::DEPTH | TextureAspects::STENCIL, ..parts };
        let depth = TextureParts { aspects: TextureAspects::DEPTH, ..parts };
        let of_depth = TexelBox { aspect: TextureAspect::Depth, ..whole };
        assert_eq!((of_depth.is_whole(&depth), of_depth.is_whole(&both)), (true, false));
    }

    #[test]
    fn the_box_of_a_mip_has_its_extent_its_layers_and_the_first_aspect() {
        let volume = parts(Format::R8Unorm, [8, 6, 5]);
        let mip = TexelBox::mip(&volume, 2);
        let expected = TexelBox {
            aspect: TextureAspect::Color,
            mip: 2,
            layer: 0,
            layers: 2,
            x: 0,
            y: 0,
            z: 0,
            width: 2,
            height: 1,
            depth: 1,
        };
        assert_eq!(mip, expected);
        for (format, aspect) in
            [(Format::D24UnormS8Uint, TextureAspect::Depth), (Format::S8Uint, TextureAspect::Stencil)]
        {
            assert_eq!(TexelBox::mip(&parts(format, [4, 4, 1]), 0).aspect, aspect, "{format:?}");
        }
        let moved = region([1, 2, 3], [4, 5, 6]);
        assert_eq!((moved.first(), moved.extent()), ([1, 2, 3], [4, 5, 6]));
    }

    #[test]
    fn every_axis_is_inside_the_mip_level_to_the_last_texel() {
        let parts = parts(Format::R8Unorm, [8, 6, 4]);
        let size = [8, 6, 4];
        for (first, extent, is_inside) in [
            ([0, 0, 0], [8, 6, 4], true),
            ([7, 5, 3], [1, 1, 1], true),
            ([3, 2, 1], [5, 4, 3], true),
            ([0, 0, 0], [9, 6, 4], false),
            ([0, 0, 0], [8, 7, 4], false),
            ([0, 0, 0], [8, 6, 5], false),
            ([8, 0, 0], [1, 1, 1], false),
            ([0, 6, 0], [1, 1, 1], false),
            ([0, 0, 4], [1, 1, 1], false),
            ([0, u32::MAX, 0], [1, 1, 1], false),
            ([0, 0, 1], [1, 1, u32::MAX], false),
        ] {
            let found = check(Some(&parts), &region(first, extent), None, ANY, true);
            let expected = if is_inside { Ok(parts) } else { Err(TexelError::Outside { first, extent, size }) };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn each_refusal_has_the_numbers_of_the_box_and_of_the_texture() {
        let parts = parts(Format::D24UnormS8Uint, [8, 8, 1]);
        let whole = TexelBox { aspect: TextureAspect::Depth, ..region([0; 3], [8, 8, 1]) };
        let has = TextureAspects::DEPTH | TextureAspects::STENCIL;
        let format = Format::D24UnormS8Uint.texels();
        let given = Format::D16Unorm.texels();
        let found = |part: TexelBox, given| check(Some(&parts), &part, given, ANY, true);
        for (part, given, error) in [
            (
                TexelBox { aspect: TextureAspect::Color, ..whole },
                None,
                TexelError::NoAspect { aspect: TextureAspect::Color, has },
            ),
            (whole, Some(given), TexelError::OtherFormat { given, has: format }),
            (TexelBox { width: 0, ..whole }, None, TexelError::Empty { extent: [0, 8, 1], layers: 1 }),
            (TexelBox { height: 0, ..whole }, None, TexelError::Empty { extent: [8, 0, 1], layers: 1 }),
            (TexelBox { depth: 0, ..whole }, None, TexelError::Empty { extent: [8, 8, 0], layers: 1 }),
            (TexelBox { layers: 0, ..whole }, None, TexelError::Empty { extent: [8, 8, 1], layers: 0 }),
            (TexelBox { mip: 3, ..whole }, None, TexelError::NoMip { mip: 3, mips: 3 }),
            (TexelBox { layers: 3, ..whole }, None, TexelError::NoLayers { layer: 0, count: 3, layers: 2 }),
            (TexelBox { layer: 2, ..whole }, None, TexelError::NoLayers { layer: 2, count: 1, layers: 2 }),
            (
                TexelBox { layer: u32::MAX, ..whole },
                None,
                TexelError::NoLayers { layer: u32::MAX, count: 1, layers: 2 },
            ),
        ] {
            assert_eq!(found(part, given), Err(error));
        }
        for part in [
            TexelBox { layers: 2, ..whole },
            TexelBox { layer: 1, ..whole },
            TexelBox { mip: 2, ..region([0; 3], [2, 2, 1]) },
        ] {
            let part = TexelBox { aspect: TextureAspect::Stencil, ..part };
            assert_eq!(found(part, Some(format)), Ok(parts), "the last layer and the last mip");
        }
        let samples = TextureParts { samples: 2, ..parts };
        assert_eq!(check(Some(&samples), &whole, None, ANY, true), Err(TexelError::Multisampled { samples: 2 }));
    }

    #[test]
    fn whole_mip_levels_of_depth_and_stencil_are_required_of_devices_without_partial_copies() {
        let parts = parts(Format::D24UnormS8Uint, [8, 6, 1]);
        let size = [8, 6, 1];
        for aspect in [TextureAspect::Depth, TextureAspect::Stencil] {
            for (first, extent, is_whole) in [
                ([0, 0, 0], [8, 6, 1], true),
                ([0, 0, 0], [7, 6, 1], false),
                ([0, 0, 0], [8, 5, 1], false),
                ([1, 0, 0], [7, 6, 1], false),
                ([0, 1, 0], [8, 5, 1], false),
            ] {
                let part = TexelBox { aspect, ..region(first, extent) };
                assert_eq!(check(Some(&parts), &part, None, ANY, true), Ok(parts), "{part:?}");
                let strict = if is_whole { Ok(parts) } else { Err(TexelError::PartOfDepth { first, extent, size }) };
                assert_eq!(check(Some(&parts), &part, None, ANY, false), strict);
            }
        }
        let color = self::parts(Format::R8Unorm, [8, 6, 1]);
        assert!(
            check(Some(&color), &region([1, 1, 0], [2, 2, 1]), None, ANY, false).is_ok(),
            "colour has no such rule"
        );
    }

    #[test]
    fn units_of_the_queue_are_blocks_on_each_axis() {
        let color = parts(Format::R8Unorm, [10, 10, 10]);
        let size = [10, 10, 10];
        let unit = [4, 2, 3];
        for (first, extent, is_whole) in [
            ([0, 0, 0], [4, 2, 3], true),
            ([4, 2, 3], [4, 4, 6], true),
            ([8, 8, 9], [2, 2, 1], true),
            ([2, 2, 3], [4, 2, 3], false),
            ([4, 1, 3], [4, 2, 3], false),
            ([4, 2, 1], [4, 2, 3], false),
            ([4, 2, 3], [5, 2, 3], false),
            ([4, 2, 3], [4, 3, 3], false),
            ([4, 2, 3], [4, 2, 4], false),
            ([7, 2, 3], [3, 2, 3], false),
        ] {
            let error = TexelError::PartOfUnit { first, extent, size, unit };
            let expected = if is_whole { Ok(color) } else { Err(error) };
            assert_eq!(check(Some(&color), &region(first, extent), None, unit, true), expected);
        }
        let blocks = parts(Format::Astc10x6Unorm, [40, 24, 2]);
        let found = check(Some(&blocks), &region([10, 0, 0], [10, 6, 1]), None, [2, 3, 2], true);
        let (first, extent) = ([10, 0, 0], [10, 6, 1]);
        let error = TexelError::PartOfUnit { first, extent, size: [40, 24, 2], unit: [20, 18, 2] };
        assert_eq!(found, Err(error));
        let fits = region([20, 18, 0], [20, 6, 2]);
        assert_eq!(check(Some(&blocks), &fits, None, [2, 3, 2], true), Ok(blocks));
        for (first, extent) in [([0, 0, 0], [10, 10, 9]), ([0, 0, 1], [10, 10, 9]), ([1, 0, 0], [9, 10, 10])] {
            let unit = [0; 3];
            let error = TexelError::PartOfUnit { first, extent, size, unit };
            assert_eq!(check(Some(&color), &region(first, extent), None, unit, true), Err(error));
        }
    }
}
