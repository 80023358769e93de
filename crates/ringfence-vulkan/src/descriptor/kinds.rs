//! Kinds of view. Plain sets (descriptor sets that are not updated while they are bound) have a separate array for each
//! kind.
//!
//! If a device has no partially bound arrays, every element of an array must match the shader's declaration, even
//! elements that the shader does not read. A cube view in an array of two-dimensional images is invalid, and so is an
//! integer format in an array of floating-point images.

use ash::vk;

use crate::valid::{self, Numeric};

bitflags::bitflags! {
    /// Kinds of view for which heaps of plain sets have an array: see
    /// [`DeviceDesc::plain_views`](crate::DeviceDesc::plain_views). Heaps always have arrays for constants, storage
    /// buffers and floating-point texel buffers. Normalised formats and depth count as floating-point.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct PlainViews: u32 {
        /// Two-dimensional views of floating-point formats.
        const FLOAT_2D = 1 << 0;
        /// Two-dimensional array views of floating-point formats.
        const FLOAT_2D_ARRAY = 1 << 1;
        /// Cube views of floating-point formats; sampled only.
        const FLOAT_CUBE = 1 << 2;
        /// Three-dimensional views of floating-point formats.
        const FLOAT_3D = 1 << 3;
        /// Cube array views of floating-point formats; sampled only. Needs the device's feature `imageCubeArray`.
        const FLOAT_CUBE_ARRAY = 1 << 4;
        /// One-dimensional views of floating-point formats.
        const FLOAT_1D = 1 << 5;
        /// One-dimensional array views of floating-point formats.
        const FLOAT_1D_ARRAY = 1 << 6;
        /// Two-dimensional views of unsigned integer formats and of stencil.
        const UINT_2D = 1 << 7;
        /// Two-dimensional array views of unsigned integer formats and of stencil.
        const UINT_2D_ARRAY = 1 << 8;
        /// Cube views of unsigned integer formats and of stencil; sampled only.
        const UINT_CUBE = 1 << 9;
        /// Three-dimensional views of unsigned integer formats.
        const UINT_3D = 1 << 10;
        /// Cube array views of unsigned integer formats and of stencil; sampled only.
        const UINT_CUBE_ARRAY = 1 << 11;
        /// One-dimensional views of unsigned integer formats and of stencil.
        const UINT_1D = 1 << 12;
        /// One-dimensional array views of unsigned integer formats and of stencil.
        const UINT_1D_ARRAY = 1 << 13;
        /// Two-dimensional views of signed integer formats.
        const SINT_2D = 1 << 14;
        /// Two-dimensional array views of signed integer formats.
        const SINT_2D_ARRAY = 1 << 15;
        /// Cube views of signed integer formats; sampled only.
        const SINT_CUBE = 1 << 16;
        /// Three-dimensional views of signed integer formats.
        const SINT_3D = 1 << 17;
        /// Cube array views of signed integer formats; sampled only.
        const SINT_CUBE_ARRAY = 1 << 18;
        /// One-dimensional views of signed integer formats.
        const SINT_1D = 1 << 19;
        /// One-dimensional array views of signed integer formats.
        const SINT_1D_ARRAY = 1 << 20;
        /// Texel buffers of unsigned integer formats.
        const UINT_TEXELS = 1 << 21;
        /// Texel buffers of signed integer formats.
        const SINT_TEXELS = 1 << 22;
    }
}

/// View types, in the order of the flags of [`PlainViews`].
const DIMENSIONS: [vk::ImageViewType; 7] = [
    vk::ImageViewType::TYPE_2D,
    vk::ImageViewType::TYPE_2D_ARRAY,
    vk::ImageViewType::CUBE,
    vk::ImageViewType::TYPE_3D,
    vk::ImageViewType::CUBE_ARRAY,
    vk::ImageViewType::TYPE_1D,
    vk::ImageViewType::TYPE_1D_ARRAY,
];

/// Number of kinds of image view.
pub(super) const IMAGE_KINDS: u32 = 21;
/// Number of kinds of texel buffer with a flag: signed and unsigned integers.
const TEXEL_KINDS: u32 = 2;

impl PlainViews {
    /// Kinds that heaps have if [`DeviceDesc::plain_views`](crate::DeviceDesc::plain_views) is empty.
    pub const USUAL: Self = Self::FLOAT_2D.union(Self::FLOAT_2D_ARRAY).union(Self::FLOAT_CUBE).union(Self::FLOAT_3D);

    pub(super) const fn or_usual(self) -> Self {
        if self.is_empty() { Self::USUAL } else { self }
    }

    const fn has(self, kind: u32) -> bool {
        self.bits() >> kind & 1 == 1
    }
}

/// Kind of a view: the view type and numeric type with which shaders declare it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The kind of views with a descriptor type that is not divided into kinds.
    Only,
    /// Number of the kind of image view.
    Image(u32),
    Texels(Numeric),
}

fn rank(numeric: Numeric) -> u32 {
    match numeric {
        Numeric::Float => 0,
        Numeric::Unsigned => 1,
        Numeric::Signed => 2,
    }
}

/// Returns the kind of an image view.
pub(super) fn of_image(view_type: vk::ImageViewType, format: vk::Format, aspects: vk::ImageAspectFlags) -> Kind {
    let is_stencil = aspects == vk::ImageAspectFlags::STENCIL;
    let numeric = if is_stencil { Numeric::Unsigned } else { valid::numeric(format) };
    // The array contains all view types, so the search succeeds.
    let dimension = DIMENSIONS.iter().position(|held| *held == view_type).unwrap_or(0) as u32;
    Kind::Image(rank(numeric) * DIMENSIONS.len() as u32 + dimension)
}

/// Returns the kind of a view with this descriptor type. For images, it depends on the view type and the format; for
/// texel buffers, on the format.
pub(super) fn of(descriptor_type: vk::DescriptorType, view_type: vk::ImageViewType, format: vk::Format) -> Kind {
    match descriptor_type {
        vk::DescriptorType::SAMPLED_IMAGE | vk::DescriptorType::STORAGE_IMAGE => {
            of_image(view_type, format, vk::ImageAspectFlags::COLOR)
        }
        vk::DescriptorType::UNIFORM_TEXEL_BUFFER | vk::DescriptorType::STORAGE_TEXEL_BUFFER => {
            Kind::Texels(valid::numeric(format))
        }
        _ => Kind::Only,
    }
}

/// Returns the view type of a kind of image view, and a format of its numeric type that every device supports for
/// sampled and storage images.
pub(super) fn image_of(kind: u32) -> (vk::ImageViewType, vk::Format) {
    let dimensions = DIMENSIONS.len() as u32;
    (DIMENSIONS[(kind % dimensions) as usize], plain_format(kind / dimensions))
}

/// Returns a format that every device supports for sampled and storage images. `rank` selects its numeric type.
pub(super) fn plain_format(rank: u32) -> vk::Format {
    match rank {
        0 => vk::Format::R8G8B8A8_UNORM,
        1 => vk::Format::R8G8B8A8_UINT,
        _ => vk::Format::R8G8B8A8_SINT,
    }
}

fn is_cube(kind: u32) -> bool {
    [vk::ImageViewType::CUBE, vk::ImageViewType::CUBE_ARRAY].contains(&image_of(kind).0)
}

/// First binding of image views other than two-dimensional floating-point ones.
const IMAGES: u32 = 6;
/// First binding of integer texel buffers.
const TEXELS: u32 = IMAGES + 2 * (IMAGE_KINDS - 1);

/// Returns the binding of sampled views of a kind. Storage views of the same kind have the next binding.
const fn image_binding(kind: u32) -> u32 {
    if kind == 0 { 2 } else { IMAGES + 2 * (kind - 1) }
}

/// Returns the binding of a view in plain sets with arrays for `views`. Returns `None` if the sets have no array for
/// its kind.
pub(super) fn binding_of(descriptor_type: vk::DescriptorType, kind: Kind, views: PlainViews) -> Option<u32> {
    let is_stored =
        [vk::DescriptorType::STORAGE_IMAGE, vk::DescriptorType::STORAGE_TEXEL_BUFFER].contains(&descriptor_type);
    match kind {
        Kind::Only => super::types::binding_of(descriptor_type),
        Kind::Image(kind) if !views.has(kind) || is_stored && is_cube(kind) => None,
        Kind::Image(kind) => Some(image_binding(kind) + u32::from(is_stored)),
        Kind::Texels(Numeric::Float) => super::types::binding_of(descriptor_type),
        Kind::Texels(numeric) => {
            let kind = rank(numeric) - 1;
            views.has(IMAGE_KINDS + kind).then_some(TEXELS + 2 * kind + u32::from(is_stored))
        }
    }
}

/// Returns the bindings of a descriptor type in plain sets with arrays for `views`.
pub(super) fn bindings_of(descriptor_type: vk::DescriptorType, views: PlainViews) -> impl Iterator<Item = u32> + Clone {
    let is_image = [vk::DescriptorType::SAMPLED_IMAGE, vk::DescriptorType::STORAGE_IMAGE].contains(&descriptor_type);
    let is_texels =
        [vk::DescriptorType::UNIFORM_TEXEL_BUFFER, vk::DescriptorType::STORAGE_TEXEL_BUFFER].contains(&descriptor_type);
    let only = (!is_image).then_some(Kind::Only);
    let images = (0..if is_image { IMAGE_KINDS } else { 0 }).map(Kind::Image);
    let texels =
        [Numeric::Unsigned, Numeric::Signed].into_iter().take(if is_texels { TEXEL_KINDS as usize } else { 0 });
    let kinds = only.into_iter().chain(images).chain(texels.map(Kind::Texels));
    kinds.filter_map(move |kind| binding_of(descriptor_type, kind, views))
}

/// Returns the kind of the views in a binding.
pub(super) fn kind_at(binding: u32) -> Kind {
    match binding {
        2 | 3 => Kind::Image(0),
        IMAGES..TEXELS => Kind::Image((binding - IMAGES) / 2 + 1),
        TEXELS.. => Kind::Texels(if binding < TEXELS + 2 { Numeric::Unsigned } else { Numeric::Signed }),
        _ => Kind::Only,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_binding_of_its_own_that_depends_on_nothing_else() {
        let all = PlainViews::all();
        let mut seen = std::collections::BTreeMap::new();
        for descriptor_type in [
            vk::DescriptorType::UNIFORM_BUFFER,
            vk::DescriptorType::STORAGE_BUFFER,
            vk::DescriptorType::SAMPLED_IMAGE,
            vk::DescriptorType::STORAGE_IMAGE,
            vk::DescriptorType::UNIFORM_TEXEL_BUFFER,
            vk::DescriptorType::STORAGE_TEXEL_BUFFER,
        ] {
            for binding in bindings_of(descriptor_type, all) {
                assert_eq!(seen.insert(binding, descriptor_type), None, "{binding}");
                let kind = kind_at(binding);
                assert_eq!(binding_of(descriptor_type, kind, all), Some(binding), "{kind:?}");
            }
        }
        // Two buffer types; sampled and storage images of 21 kinds each, except that the 6 cube kinds have no storage
        // images; two texel-buffer types of three kinds each.
        assert_eq!(seen.len(), 2 + 2 * 21 - 6 + 2 * 3);
        let usual: Vec<_> = bindings_of(vk::DescriptorType::SAMPLED_IMAGE, PlainViews::USUAL).collect();
        assert_eq!(usual, [2, 6, 8, 10]);
        let usual: Vec<_> = bindings_of(vk::DescriptorType::STORAGE_IMAGE, PlainViews::USUAL).collect();
        assert_eq!(usual, [3, 7, 11]);
    }

    #[test]
    fn views_differ_by_dimension_and_numbers() {
        let colour = vk::ImageAspectFlags::COLOR;
        let of = |view_type, format| of_image(view_type, format, colour);
        assert_eq!(of(vk::ImageViewType::TYPE_2D, vk::Format::BC7_SRGB_BLOCK), Kind::Image(0));
        assert_eq!(of(vk::ImageViewType::CUBE, vk::Format::R16_SFLOAT), Kind::Image(2));
        assert_eq!(of(vk::ImageViewType::TYPE_2D, vk::Format::R32_UINT), Kind::Image(7));
        let stencil =
            of_image(vk::ImageViewType::TYPE_2D, vk::Format::D32_SFLOAT_S8_UINT, vk::ImageAspectFlags::STENCIL);
        assert_eq!(stencil, Kind::Image(7));
        for kind in 0..IMAGE_KINDS {
            let (view_type, format) = image_of(kind);
            assert_eq!(of(view_type, format), Kind::Image(kind));
        }
    }
}
