//! Kinds of view, of which plain sets have an array each.
//!
//! Every element of an array that a shader names has to be what the shader says of the array, read or not, unless
//! arrays may be partially bound: a cube among two-dimensional images is a fault there, and so are whole numbers among
//! floats.

use ash::vk;

use crate::valid::{self, Numeric};

bitflags::bitflags! {
    /// The kinds of view that a heap of plain sets has an array for, beside constants, buffers and texels of floats:
    /// see [`DeviceDesc::plain_views`](crate::DeviceDesc::plain_views). Normalized formats and depth are floats.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
    pub struct PlainViews: u32 {
        /// Two-dimensional.
        const FLOAT_2D = 1 << 0;
        /// Layers of two dimensions.
        const FLOAT_2D_ARRAY = 1 << 1;
        /// Cubes, which are sampled only.
        const FLOAT_CUBE = 1 << 2;
        /// Three-dimensional.
        const FLOAT_3D = 1 << 3;
        /// Layers of cubes, which are sampled only, and take the device's feature `imageCubeArray`.
        const FLOAT_CUBE_ARRAY = 1 << 4;
        /// One-dimensional.
        const FLOAT_1D = 1 << 5;
        /// Layers of one dimension.
        const FLOAT_1D_ARRAY = 1 << 6;
        /// Of whole numbers, as is stencil.
        const UINT_2D = 1 << 7;
        /// As [`PlainViews::UINT_2D`], in layers.
        const UINT_2D_ARRAY = 1 << 8;
        /// As [`PlainViews::UINT_2D`], cubes.
        const UINT_CUBE = 1 << 9;
        /// As [`PlainViews::UINT_2D`], three-dimensional.
        const UINT_3D = 1 << 10;
        /// As [`PlainViews::UINT_2D`], layers of cubes.
        const UINT_CUBE_ARRAY = 1 << 11;
        /// As [`PlainViews::UINT_2D`], one-dimensional.
        const UINT_1D = 1 << 12;
        /// As [`PlainViews::UINT_2D`], layers of one dimension.
        const UINT_1D_ARRAY = 1 << 13;
        /// Of whole numbers with a sign.
        const SINT_2D = 1 << 14;
        /// As [`PlainViews::SINT_2D`], in layers.
        const SINT_2D_ARRAY = 1 << 15;
        /// As [`PlainViews::SINT_2D`], cubes.
        const SINT_CUBE = 1 << 16;
        /// As [`PlainViews::SINT_2D`], three-dimensional.
        const SINT_3D = 1 << 17;
        /// As [`PlainViews::SINT_2D`], layers of cubes.
        const SINT_CUBE_ARRAY = 1 << 18;
        /// As [`PlainViews::SINT_2D`], one-dimensional.
        const SINT_1D = 1 << 19;
        /// As [`PlainViews::SINT_2D`], layers of one dimension.
        const SINT_1D_ARRAY = 1 << 20;
        /// Texels of whole numbers in buffers.
        const UINT_TEXELS = 1 << 21;
        /// Texels of whole numbers with a sign in buffers.
        const SINT_TEXELS = 1 << 22;
    }
}

/// View types in the order of the flags.
const DIMENSIONS: [vk::ImageViewType; 7] = [
    vk::ImageViewType::TYPE_2D,
    vk::ImageViewType::TYPE_2D_ARRAY,
    vk::ImageViewType::CUBE,
    vk::ImageViewType::TYPE_3D,
    vk::ImageViewType::CUBE_ARRAY,
    vk::ImageViewType::TYPE_1D,
    vk::ImageViewType::TYPE_1D_ARRAY,
];

/// Kinds of image view.
pub(super) const IMAGE_KINDS: u32 = 21;
/// Kinds of texels in buffers that have a flag: all but floats.
const TEXEL_KINDS: u32 = 2;

impl PlainViews {
    /// What heaps have where nothing is said.
    pub const USUAL: Self = Self::FLOAT_2D.union(Self::FLOAT_2D_ARRAY).union(Self::FLOAT_CUBE).union(Self::FLOAT_3D);

    pub(super) const fn or_usual(self) -> Self {
        if self.is_empty() { Self::USUAL } else { self }
    }

    const fn has(self, kind: u32) -> bool {
        self.bits() >> kind & 1 == 1
    }
}

/// What a view is of, as far as shaders say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Anything of its descriptor type.
    Only,
    /// The number of a kind of image view.
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

/// The kind of an image view.
pub(super) fn of_image(view_type: vk::ImageViewType, format: vk::Format, aspects: vk::ImageAspectFlags) -> Kind {
    let is_stencil = aspects == vk::ImageAspectFlags::STENCIL;
    let numeric = if is_stencil { Numeric::Unsigned } else { valid::numeric(format) };
    // Every view type is among them.
    let dimension = DIMENSIONS.iter().position(|held| *held == view_type).unwrap_or(0) as u32;
    Kind::Image(rank(numeric) * DIMENSIONS.len() as u32 + dimension)
}

/// The kind of a view of this descriptor type. View types are of meaning for images, formats for images and texels.
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

/// The view type of a kind, and a format of its numbers that every device samples and stores.
pub(super) fn image_of(kind: u32) -> (vk::ImageViewType, vk::Format) {
    let dimensions = DIMENSIONS.len() as u32;
    (DIMENSIONS[(kind % dimensions) as usize], plain_format(kind / dimensions))
}

/// A format of numbers of this rank that every device takes for everything that is sampled or stored.
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

/// First binding of the images that are not float and two-dimensional.
const IMAGES: u32 = 6;
/// First binding of texels that are no floats.
const TEXELS: u32 = IMAGES + 2 * (IMAGE_KINDS - 1);

/// The binding of what is sampled, of a kind; what is stored has the next.
const fn image_binding(kind: u32) -> u32 {
    if kind == 0 { 2 } else { IMAGES + 2 * (kind - 1) }
}

/// The binding of a view in plain sets with arrays for these views; `None` if there is no such array.
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

/// The bindings of a descriptor type in plain sets with arrays for these views.
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

/// The kind of the views in a binding.
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
        // All but stored cubes, two kinds of three numbers.
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
