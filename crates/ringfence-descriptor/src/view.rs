//! Views that are written into slots, with checks before the driver call.

use std::fmt;

use crate::device::descriptors::{
    BufferView, BufferViewKind, Component, DescriptorSupport, Descriptors, HeapKind, PlacedTexture, PortableView,
    SamplerDesc, TextureView, TextureViewKind, ViewDimension, ViewLayout, ViewTypes,
};
use crate::device::{BufferDesc, Dimension, RawTexture, TextureDesc};
use ringfence_memory::Texture;
use ringfence_memory::extend::Shared;
use ringfence_memory::resource::{AsBufferSlice, BufferSlice};

use super::DescriptorError;

/// A view of a resource, or a sampler.
///
/// The resource must outlive the submissions that use the view, but not the descriptor: a slot may keep a view of a
/// destroyed resource while no shader reads the slot.
pub struct View<'a, D: Descriptors> {
    shown: Shown<'a, D>,
}

enum Shown<'a, D: Descriptors> {
    Portable {
        view: PortableView<'a, D>,
        owner: Option<u32>,
        kind: HeapKind,
        types: ViewTypes,
        /// `true` if the limits of the device were not known when the view of a buffer was created.
        is_unchecked: bool,
    },
    Native {
        view: D::View<'a>,
        kind: HeapKind,
    },
}

/// Error for a resource without a portable description.
const UNDESCRIBED: &str = "the resource has no portable description (its format has no portable name, or its views \
    have fewer usages than the resource): use View::native";

impl<'a, D: Descriptors> View<'a, D> {
    /// Creates a view of a range of a buffer: of a whole [`Buffer`](ringfence_memory::Buffer), a
    /// [`SmallBuffer`](ringfence_memory::SmallBuffer), staged bytes, constants, or a buffer of the placement policy.
    /// The offset of the view is relative to the first byte of `buffer`.
    ///
    /// # Errors
    /// - The buffer was created without the usage for the view.
    /// - The buffer was created from a native description that the library cannot check: use [`View::native`].
    /// - The range is outside the buffer, not aligned, or too long for the device.
    /// - The view is a view of texels, and its format is compressed or a depth-stencil format.
    ///
    /// Staged bytes and constants do not refer to the device. Their usage and alignment, the length of the view and its
    /// format are checked when the view is written.
    pub fn buffer(buffer: &'a impl AsBufferSlice<D>, view: BufferView) -> Result<Self, DescriptorError> {
        let BufferSlice { object, desc, offset, size, owner, shared } = buffer.as_slice();
        let desc = desc.ok_or(DescriptorError::BadView(UNDESCRIBED))?;
        let types = view.kind.view_type();
        if view.offset.checked_add(view.size).is_none_or(|end| end > size) {
            let BufferView { offset, size: viewed, .. } = view;
            let rule = "the size of the buffer in bytes is";
            return Err(DescriptorError::BadRange { offset, size: viewed, rule, limit: size });
        }
        let view = BufferView { offset: offset + view.offset, ..view };
        if let Some(shared) = shared {
            check_buffer(desc, view, &shared.device.descriptor_support())?;
        }
        let (view, kind) = (PortableView::Buffer { object, desc, view }, HeapKind::Resources);
        let (owner, is_unchecked) = (Some(owner), shared.is_none());
        Ok(Self { shown: Shown::Portable { view, owner, kind, types, is_unchecked } })
    }

    /// Creates a view of a whole texture for sampling, in the general layout ([`TextureView::sampled`]).
    ///
    /// # Errors
    /// As [`View::texture`].
    pub fn sampled(texture: &'a Texture<D>) -> Result<Self, DescriptorError> {
        let desc = texture.desc().ok_or(DescriptorError::BadView(UNDESCRIBED))?;
        Self::texture(texture, TextureView::sampled(desc))
    }

    /// Creates a view of subresources of a texture.
    ///
    /// # Errors
    /// [`DescriptorError::BadView`], if one of these is true:
    ///
    /// - The texture has no portable description.
    /// - The texture was created without the usage or the format of the view.
    /// - The texture does not have the mip levels, the layers or the aspect of the view, or does not support its
    ///   dimension.
    /// - The kind of the view does not allow the mip levels, layout, swizzle, aspect or dimension of the view, or the
    ///   samples of the texture.
    pub fn texture(texture: &'a Texture<D>, view: TextureView) -> Result<Self, DescriptorError> {
        let desc = *texture.desc().ok_or(DescriptorError::BadView(UNDESCRIBED))?;
        Self::of_texture(texture.object(), desc, texture.shared().owner(), view)
    }

    /// Creates a view of subresources of a transient target (`TransientAllocator::target`). To cache objects that
    /// belong to the view, use the id of the target's handle as their key: no other object ever has this id.
    ///
    /// # Errors
    /// As [`View::texture`].
    pub fn target(target: PlacedTexture<'a, D>, view: TextureView) -> Result<Self, DescriptorError> {
        Self::of_texture(target.object(), *target.desc(), target.owner(), view)
    }

    fn of_texture(
        object: &'a RawTexture<D>,
        desc: TextureDesc,
        owner: u32,
        view: TextureView,
    ) -> Result<Self, DescriptorError> {
        check_texture(desc, &view)?;
        let kind = view.kind.heap_kind();
        let types = match view.kind {
            TextureViewKind::Storage => ViewTypes::STORAGE_TEXTURE,
            _ => ViewTypes::SAMPLED_TEXTURE,
        };
        let view = PortableView::Texture { object, desc, view };
        Ok(Self { shown: Shown::Portable { view, owner: Some(owner), kind, types, is_unchecked: false } })
    }

    /// Describes a sampler.
    ///
    /// # Errors
    /// The anisotropy is outside 1..=16; the bias is outside -16.0..16.0; or the levels are not finite or not in
    /// ascending order.
    pub fn sampler(desc: SamplerDesc) -> Result<Self, DescriptorError> {
        check_sampler(&desc)?;
        let (kind, types) = (HeapKind::Samplers, ViewTypes::empty());
        let view = PortableView::Sampler(desc);
        Ok(Self { shown: Shown::Portable { view, owner: None, kind, types, is_unchecked: false } })
    }

    /// Wraps a view in the API's own description, for views that the portable description does not cover.
    ///
    /// # Safety
    /// The view is valid by the API's rules and has this heap kind. Its resource belongs to the device and is alive.
    #[must_use]
    pub const unsafe fn native(view: D::View<'a>, kind: HeapKind) -> Self {
        Self { shown: Shown::Native { view, kind } }
    }

    /// Returns the device's description of the view. Fails if a heap of this kind and these types does not support it.
    pub(super) fn describe(
        &self,
        shared: &Shared<D>,
        heap: HeapKind,
        heap_types: ViewTypes,
    ) -> Result<D::View<'a>, DescriptorError> {
        match &self.shown {
            Shown::Native { view, kind } => {
                check_kind(heap, *kind)?;
                Ok(view.clone())
            }
            Shown::Portable { view, owner, kind, types, is_unchecked } => {
                check_kind(heap, *kind)?;
                if owner.is_some_and(|owner| owner != shared.owner()) {
                    return Err(DescriptorError::Foreign);
                }
                if heap == HeapKind::Resources && !heap_types.contains(*types) {
                    return Err(DescriptorError::WrongType { heap: heap_types, found: *types });
                }
                if let PortableView::Buffer { desc, view, .. } = view
                    && *is_unchecked
                {
                    check_buffer(*desc, *view, &shared.device.descriptor_support())?;
                }
                Ok(shared.device.describe_view(view)?)
            }
        }
    }
}

pub(super) fn check_kind(heap: HeapKind, found: HeapKind) -> Result<(), DescriptorError> {
    if heap == found { Ok(()) } else { Err(DescriptorError::WrongKind { heap, found }) }
}

pub(super) fn check_buffer(
    desc: BufferDesc,
    view: BufferView,
    support: &DescriptorSupport,
) -> Result<(), DescriptorError> {
    let BufferView { kind, offset, size } = view;
    if !kind.is_served_by(desc.usage) {
        return Err(DescriptorError::BadView(
            "the buffer was created without the usage of the view: create it with that usage",
        ));
    }
    if let BufferViewKind::Texels { format, .. } = kind
        && (format.texels().is_compressed() || format.is_depth_stencil())
    {
        return Err(DescriptorError::BadView("texels of a buffer need a colour format without block compression"));
    }
    let bad = |rule, limit| Err(DescriptorError::BadRange { offset, size, rule, limit });
    if size == 0 || offset.checked_add(size).is_none_or(|end| end > desc.size) {
        return bad("the size of the buffer in bytes is", desc.size);
    }
    let (alignment, size_max, count_max) = match kind {
        BufferViewKind::Constants => (support.constant_alignment, support.constant_bytes_max, u64::MAX),
        BufferViewKind::Storage { .. } => {
            (support.storage_alignment, support.storage_bytes_max, support.storage_elements_max)
        }
        BufferViewKind::Texels { .. } => (support.texel_alignment, u64::MAX, support.texel_elements_max),
    };
    let unit = match kind {
        BufferViewKind::Constants | BufferViewKind::Storage { stride: 0, .. } => 4,
        BufferViewKind::Storage { stride, .. } => u64::from(stride),
        BufferViewKind::Texels { format, .. } => format.texel_bytes(),
    };
    if !offset.is_multiple_of(alignment) {
        return bad("the offset must be a multiple of", alignment);
    }
    let is_texels = matches!(kind, BufferViewKind::Texels { .. });
    if !(is_texels || unit.is_multiple_of(4)) || !offset.is_multiple_of(unit) || !size.is_multiple_of(unit) {
        return bad(
            "offset and size must be whole elements (of structures: of a multiple of 4 bytes); the element size is",
            unit,
        );
    }
    if size > size_max {
        return bad("the largest size of a view of this kind in bytes is", size_max);
    }
    if size / unit > count_max {
        return bad("the largest number of elements of a view of this kind is", count_max);
    }
    Ok(())
}

fn check_texture(desc: TextureDesc, view: &TextureView) -> Result<(), DescriptorError> {
    if !desc.usage.contains(view.kind.usage()) {
        return Err(DescriptorError::BadView(
            "the texture was created without the usage of the view: create it with that usage",
        ));
    }
    let inside = |range: &std::ops::Range<u32>, count| range.start < range.end && range.end <= count;
    if !inside(&view.mips, desc.mips) || !inside(&view.layers, desc.layers) {
        return Err(DescriptorError::BadView("the texture does not have the mip levels or layers of the view"));
    }
    if view.kind != TextureViewKind::Sampled && view.mips.len() != 1 {
        return Err(DescriptorError::BadView("a view for writes has exactly one mip level"));
    }
    if view.kind == TextureViewKind::Storage && desc.samples != 1 {
        return Err(DescriptorError::BadView("a storage view needs a texture with one sample"));
    }
    if view.kind != TextureViewKind::Sampled && view.layout != ViewLayout::General {
        return Err(DescriptorError::BadView("only sampled views may have a read-only layout"));
    }
    let format = view.format_in(&desc);
    if format != desc.format && !desc.view_formats.contains(format) {
        return Err(DescriptorError::BadView(
            "the texture was created without the format of the view: list it in TextureDesc::view_formats",
        ));
    }
    if view.kind != TextureViewKind::Sampled && view.swizzle != Component::IDENTITY {
        return Err(DescriptorError::BadView("only sampled views may change the order of the channels"));
    }
    check_aspect(desc, view)?;
    check_dimension(desc, view)
}

/// Fails if the format does not have the view's aspect, or if a target view names an aspect. Also fails if the format
/// has several aspects and a view for shaders names none.
fn check_aspect(desc: TextureDesc, view: &TextureView) -> Result<(), DescriptorError> {
    let is_target = matches!(view.kind, TextureViewKind::RenderTarget | TextureViewKind::DepthStencil);
    let has = desc.format.texels().aspects();
    match view.aspect {
        Some(_) if is_target => Err(DescriptorError::BadView("targets have all aspects: do not set an aspect")),
        Some(aspect) if !has.contains(aspect.flag()) => {
            Err(DescriptorError::BadView("the texture's format does not have the aspect of the view"))
        }
        None if !is_target && has.bits().count_ones() > 1 => {
            Err(DescriptorError::BadView("a shader reads depth or stencil, not both: set TextureView::aspect"))
        }
        _ => Ok(()),
    }
}

/// Fails if the texture or the kind of view does not support the view's dimension or number of layers.
fn check_dimension(desc: TextureDesc, view: &TextureView) -> Result<(), DescriptorError> {
    let (dimension, layers) = (view.dimension_in(desc.dimension), view.layers.len());
    let of_texture = match dimension {
        ViewDimension::D1 | ViewDimension::D1Array => desc.dimension == Dimension::D1,
        ViewDimension::D2 | ViewDimension::D2Array => matches!(desc.dimension, Dimension::D2 | Dimension::Cube),
        ViewDimension::Cube | ViewDimension::CubeArray => desc.dimension == Dimension::Cube,
        ViewDimension::D3 => desc.dimension == Dimension::D3,
    };
    if !of_texture {
        return Err(DescriptorError::BadView("a texture of this dimension does not support views of this dimension"));
    }
    let has_layers = match dimension {
        ViewDimension::D1 | ViewDimension::D2 | ViewDimension::D3 => layers == 1,
        ViewDimension::Cube => layers == 6,
        ViewDimension::CubeArray => layers.is_multiple_of(6),
        ViewDimension::D1Array | ViewDimension::D2Array => true,
    };
    if !has_layers {
        return Err(DescriptorError::BadView("the number of layers does not fit the dimension of the view"));
    }
    let is_flat = matches!(dimension, ViewDimension::D2 | ViewDimension::D2Array);
    match view.kind {
        TextureViewKind::RenderTarget | TextureViewKind::DepthStencil if !is_flat => {
            Err(DescriptorError::BadView("portable targets are two-dimensional"))
        }
        TextureViewKind::Storage if matches!(dimension, ViewDimension::Cube | ViewDimension::CubeArray) => {
            Err(DescriptorError::BadView("cubes can only be sampled: for storage, use an array view of the faces"))
        }
        _ => Ok(()),
    }
}

fn check_sampler(desc: &SamplerDesc) -> Result<(), DescriptorError> {
    let [finest, coarsest] = desc.levels;
    let ordered = finest <= coarsest && finest.is_finite() && coarsest.is_finite();
    if !ordered || !(-16.0..16.0).contains(&desc.level_bias) || !(1..=16).contains(&desc.anisotropy) {
        return Err(DescriptorError::BadView("the sampler's levels, bias or anisotropy are out of range"));
    }
    Ok(())
}

impl<D: Descriptors> fmt::Debug for View<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shown {
            Shown::Portable { view: PortableView::Buffer { view, .. }, .. } => write!(f, "View({view:?})"),
            Shown::Portable { view: PortableView::Texture { view, .. }, .. } => write!(f, "View({view:?})"),
            Shown::Portable { view: PortableView::Sampler(desc), .. } => write!(f, "View({desc:?})"),
            Shown::Native { kind, .. } => write!(f, "View(native, {kind})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::descriptors::DescriptorModel;
    use crate::device::{BufferUsage, Format, FormatSet, TextureAspect, TextureUsage};

    /// Limits as on Direct3D 12, which limits elements but not bytes.
    const COUNTED: DescriptorSupport = DescriptorSupport {
        model: DescriptorModel::Heaps,
        constant_alignment: 256,
        storage_alignment: 16,
        texel_alignment: 16,
        constant_bytes_max: 64 << 10,
        storage_bytes_max: 1 << 40,
        storage_elements_max: 1 << 27,
        texel_elements_max: 1 << 27,
        slots_own_objects: false,
        anisotropy_max: 16,
    };

    #[test]
    fn what_is_counted_in_elements_is_limited_in_elements() {
        let desc = BufferDesc { size: 8 << 30, usage: BufferUsage::STORAGE_READ | BufferUsage::TEXELS };
        let check = |kind, size| check_buffer(desc, BufferView { kind, offset: 0, size }, &COUNTED);
        let structures = |stride| BufferViewKind::Storage { stride, writes: false };
        assert_eq!(check(structures(16), 160 << 20), Ok(()), "ten million structures");
        let texels = BufferViewKind::Texels { format: Format::Rgba8Unorm, writes: false };
        for (kind, element) in [(structures(0), 4), (structures(16), 16), (structures(48), 48), (texels, 4)] {
            let most = element << 27;
            assert_eq!(check(kind, most), Ok(()), "{kind:?}");
            let refused = check(kind, most + element);
            assert!(matches!(refused, Err(DescriptorError::BadRange { limit, .. }) if limit == 1 << 27), "{refused:?}");
        }
    }

    #[test]
    fn texels_of_one_and_two_bytes_are_shown_from_any_whole_texel_on() {
        let desc = BufferDesc { size: 4096, usage: BufferUsage::TEXELS };
        let check = |format, offset, size| {
            let kind = BufferViewKind::Texels { format, writes: false };
            check_buffer(desc, BufferView { kind, offset, size }, &COUNTED)
        };
        assert_eq!(check(Format::R8Unorm, 16, 5), Ok(()));
        assert_eq!(check(Format::Rg8Unorm, 16, 6), Ok(()));
        let refused = check(Format::Rg8Unorm, 16, 5);
        assert!(matches!(refused, Err(DescriptorError::BadRange { limit: 2, .. })), "{refused:?}");
    }

    #[test]
    fn formats_and_channels_of_views_are_checked() {
        let views = FormatSet::of(&[Format::Rgba8UnormSrgb]);
        let usage = TextureUsage::SAMPLED | TextureUsage::STORAGE;
        let desc = TextureDesc { usage, view_formats: views, ..Default::default() };
        let view = |kind| TextureView::new(kind, 0..1, 0..1);
        let (sampled, storage) = (TextureViewKind::Sampled, TextureViewKind::Storage);
        for format in [Format::Rgba8Unorm, Format::Rgba8UnormSrgb] {
            assert_eq!(check_texture(desc, &view(sampled).format(format)), Ok(()), "{format:?}");
        }
        let rule = |view: &TextureView| match check_texture(desc, view) {
            Err(DescriptorError::BadView(rule)) => rule,
            other => panic!("{view:?}: {other:?}"),
        };
        assert!(rule(&view(sampled).format(Format::Rgba8Uint)).contains("TextureDesc::view_formats"));
        let swizzle = [Component::Alpha, Component::Red, Component::One, Component::Zero];
        assert_eq!(check_texture(desc, &view(sampled).swizzle(swizzle)), Ok(()));
        assert!(rule(&view(storage).swizzle(swizzle)).contains("only sampled views"));
        assert_eq!(check_texture(desc, &view(storage).swizzle(Component::IDENTITY)), Ok(()));
    }

    #[test]
    fn what_is_only_read_needs_no_right_to_write() {
        let of = |usage| BufferDesc { size: 4096, usage };
        let view = |writes| BufferView { kind: BufferViewKind::Storage { stride: 0, writes }, offset: 0, size: 256 };
        for (usage, reads, writes) in [
            (BufferUsage::STORAGE_READ, true, false),
            (BufferUsage::STORAGE, true, true),
            (BufferUsage::CONSTANT, false, false),
        ] {
            assert_eq!(check_buffer(of(usage), view(false), &COUNTED).is_ok(), reads, "{usage:?} is read");
            assert_eq!(check_buffer(of(usage), view(true), &COUNTED).is_ok(), writes, "{usage:?} is written");
        }
    }

    /// Small limits that differ from each other.
    const SUPPORT: DescriptorSupport = DescriptorSupport {
        model: DescriptorModel::Heaps,
        constant_alignment: 256,
        storage_alignment: 16,
        texel_alignment: 64,
        constant_bytes_max: 65_536,
        storage_bytes_max: 1_048_576,
        storage_elements_max: 1000,
        texel_elements_max: 500,
        slots_own_objects: false,
        anisotropy_max: 16,
    };
    const WHOLE: &str =
        "offset and size must be whole elements (of structures: of a multiple of 4 bytes); the element size is";

    /// Checks a view of a buffer of 2 MiB. Returns the violated rule and its limit, if there is one.
    fn check(kind: BufferViewKind, offset: u64, size: u64) -> Option<(&'static str, u64)> {
        let desc = BufferDesc { size: 2_097_152, usage: BufferUsage::all() };
        match check_buffer(desc, BufferView { kind, offset, size }, &SUPPORT) {
            Ok(()) => None,
            Err(DescriptorError::BadRange { offset: at, size: of, rule, limit }) if (at, of) == (offset, size) => {
                Some((rule, limit))
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn constants_are_aligned_words_up_to_the_limit_of_the_device() {
        let most = "the largest size of a view of this kind in bytes is";
        for (offset, size, refused) in [
            (0, 4, None),
            (256, 256, None),
            (0, 65_536, None),
            (0, 65_540, Some((most, 65_536))),
            (128, 4, Some(("the offset must be a multiple of", 256))),
            (0, 6, Some((WHOLE, 4))),
            (0, 0, Some(("the size of the buffer in bytes is", 2_097_152))),
        ] {
            assert_eq!(check(BufferViewKind::Constants, offset, size), refused, "{size} bytes at {offset}");
        }
    }

    #[test]
    fn words_and_structures_are_aligned_to_the_device_and_to_their_stride() {
        let elements = "the largest number of elements of a view of this kind is";
        let bytes = "the largest size of a view of this kind in bytes is";
        let aligned = "the offset must be a multiple of";
        for (stride, offset, size, refused) in [
            (0, 16, 4, None),
            (0, 8, 4, Some((aligned, 16))),
            (0, 0, 4000, None),
            (0, 0, 4004, Some((elements, 1000))),
            (0, 0, 7, Some((WHOLE, 4))),
            (12, 48, 24, None),
            (12, 16, 24, Some((WHOLE, 12))),
            (12, 48, 20, Some((WHOLE, 12))),
            (12, 0, 12_000, None),
            (12, 0, 12_012, Some((elements, 1000))),
            (6, 0, 12, Some((WHOLE, 6))),
            (4096, 0, 1_048_576, None),
            (4096, 0, 1_052_672, Some((bytes, 1_048_576))),
        ] {
            for writes in [false, true] {
                let kind = BufferViewKind::Storage { stride, writes };
                assert_eq!(check(kind, offset, size), refused, "{size} bytes at {offset}, stride {stride}");
            }
        }
    }

    #[test]
    fn texels_are_whole_and_at_most_the_number_of_the_device() {
        let elements = "the largest number of elements of a view of this kind is";
        let aligned = "the offset must be a multiple of";
        for (format, offset, size, refused) in [
            (Format::R8Unorm, 64, 3, None),
            (Format::R8Unorm, 0, 500, None),
            (Format::R8Unorm, 0, 501, Some((elements, 500))),
            (Format::Rgba16Float, 64, 8, None),
            (Format::Rgba16Float, 32, 8, Some((aligned, 64))),
            (Format::Rgba16Float, 0, 4000, None),
            (Format::Rgba16Float, 0, 4008, Some((elements, 500))),
            (Format::Rgba16Float, 0, 12, Some((WHOLE, 8))),
            (Format::Rgb32Float, 192, 12, None),
            (Format::Rgb32Float, 64, 12, Some((WHOLE, 12))),
            (Format::Rgb32Float, 0, 16, Some((WHOLE, 12))),
        ] {
            for writes in [false, true] {
                let kind = BufferViewKind::Texels { format, writes };
                assert_eq!(check(kind, offset, size), refused, "{size} bytes of {format:?} at {offset}");
            }
        }
    }

    #[test]
    fn a_view_ends_inside_its_buffer() {
        let kind = BufferViewKind::Storage { stride: 0, writes: false };
        let small = BufferDesc { size: 64, usage: BufferUsage::all() };
        for (offset, size, is_inside) in [
            (0, 64, true),
            (48, 16, true),
            (0, 68, false),
            (48, 20, false),
            (64, 4, false),
            (64, 0, false),
            (u64::MAX - 3, 4, false),
        ] {
            let rule = "the size of the buffer in bytes is";
            let refused = DescriptorError::BadRange { offset, size, rule, limit: 64 };
            let expected = if is_inside { Ok(()) } else { Err(refused) };
            assert_eq!(check_buffer(small, BufferView { kind, offset, size }, &SUPPORT), expected);
        }
    }

    #[test]
    fn a_buffer_needs_the_usage_of_its_view_and_a_plain_colour_format() {
        let texels = |format| BufferViewKind::Texels { format, writes: false };
        let (usage, format) = ("the buffer was created without the usage", "texels of a buffer need a colour format");
        let read = BufferViewKind::Storage { stride: 0, writes: false };
        let write = BufferViewKind::Storage { stride: 0, writes: true };
        for (kind, of, refused) in [
            (BufferViewKind::Constants, BufferUsage::CONSTANT, None),
            (BufferViewKind::Constants, BufferUsage::STORAGE, Some(usage)),
            (read, BufferUsage::STORAGE_READ, None),
            (read, BufferUsage::STORAGE, None),
            (write, BufferUsage::STORAGE_READ, Some(usage)),
            (texels(Format::R8Unorm), BufferUsage::TEXELS, None),
            (texels(Format::R8Unorm), BufferUsage::STORAGE, Some(usage)),
            (texels(Format::Bc1Unorm), BufferUsage::TEXELS, Some(format)),
            (texels(Format::D32Float), BufferUsage::TEXELS, Some(format)),
            (texels(Format::S8Uint), BufferUsage::TEXELS, Some(format)),
        ] {
            let view = BufferView { kind, offset: 0, size: 16 };
            let found = check_buffer(BufferDesc { size: 64, usage: of }, view, &SUPPORT);
            assert!(is_rule(&found, refused), "{kind:?} of {of:?}: {found:?}");
        }
    }

    /// Returns `true` if a check has succeeded, or has failed with a rule that starts with this text.
    fn is_rule(found: &Result<(), DescriptorError>, rule: Option<&str>) -> bool {
        match (found, rule) {
            (Ok(()), None) => true,
            (Err(DescriptorError::BadView(found)), Some(rule)) => found.starts_with(rule),
            _ => false,
        }
    }

    /// A texture with 4 mip levels, 8 layers and every usage.
    fn texture() -> TextureDesc {
        let view_formats = FormatSet::of(&[Format::Rgba8UnormSrgb]);
        let usage = TextureUsage::all();
        TextureDesc { width: 16, height: 16, mips: 4, layers: 8, usage, view_formats, ..Default::default() }
    }

    #[test]
    fn a_texture_needs_the_usage_of_its_view() {
        let rule = "the texture was created without the usage of the view";
        for (kind, usage) in [
            (TextureViewKind::Sampled, TextureUsage::SAMPLED),
            (TextureViewKind::Storage, TextureUsage::STORAGE),
            (TextureViewKind::RenderTarget, TextureUsage::RENDER_TARGET),
            (TextureViewKind::DepthStencil, TextureUsage::DEPTH_STENCIL),
        ] {
            let view = TextureView::new(kind, 0..1, 0..1);
            assert_eq!(check_texture(TextureDesc { usage, ..texture() }, &view), Ok(()), "{kind:?}");
            let others = TextureUsage::all().difference(usage);
            let found = check_texture(TextureDesc { usage: others, ..texture() }, &view);
            assert!(is_rule(&found, Some(rule)), "{kind:?}: {found:?}");
        }
    }

    #[test]
    fn a_view_has_mips_and_layers_of_its_texture() {
        let rule = "the texture does not have the mip levels or layers of the view";
        let reversed = |from, to| std::ops::Range { start: from, end: to };
        for (mips, layers, is_inside) in [
            (0..4, 0..8, true),
            (3..4, 7..8, true),
            (0..5, 0..8, false),
            (4..5, 0..8, false),
            (0..4, 0..9, false),
            (0..4, 8..9, false),
            (0..0, 0..8, false),
            (2..2, 0..8, false),
            (0..4, 3..3, false),
            (reversed(2, 1), 0..8, false),
            (0..4, reversed(5, 4), false),
        ] {
            let view = TextureView::new(TextureViewKind::Sampled, mips, layers);
            let found = check_texture(texture(), &view);
            assert!(is_rule(&found, (!is_inside).then_some(rule)), "{view:?}: {found:?}");
        }
    }

    #[test]
    fn a_view_for_writes_has_one_mip_the_general_layout_and_its_own_channels() {
        use TextureViewKind::{DepthStencil, RenderTarget, Sampled, Storage};
        let swizzle = [Component::Green, Component::Green, Component::Blue, Component::Alpha];
        for kind in [Sampled, Storage, RenderTarget, DepthStencil] {
            let view = TextureView::new(kind, 1..2, 0..2);
            assert_eq!(check_texture(texture(), &view), Ok(()), "{kind:?}");
            let is_write = kind != Sampled;
            for (changed, rule) in [
                (TextureView { mips: 1..3, ..view.clone() }, "a view for writes has exactly one mip level"),
                (view.clone().layout(ViewLayout::ReadOnly), "only sampled views may have a read-only layout"),
                (view.clone().swizzle(swizzle), "only sampled views may change the order of the channels"),
            ] {
                let found = check_texture(texture(), &changed);
                assert!(is_rule(&found, is_write.then_some(rule)), "{changed:?}: {found:?}");
            }
            let samples = TextureDesc { samples: 4, mips: 1, ..texture() };
            let view = TextureView { mips: 0..1, ..view };
            let rule = "a storage view needs a texture with one sample";
            let found = check_texture(samples, &view);
            assert!(is_rule(&found, (kind == Storage).then_some(rule)), "{kind:?}: {found:?}");
        }
    }

    #[test]
    fn other_formats_are_listed_at_the_creation_of_the_texture() {
        let view = TextureView::new(TextureViewKind::Sampled, 0..1, 0..1);
        for (format, is_listed) in [
            (None, true),
            (Some(Format::Rgba8Unorm), true),
            (Some(Format::Rgba8UnormSrgb), true),
            (Some(Format::Rgba8Snorm), false),
        ] {
            let view = TextureView { format, ..view.clone() };
            let rule = "the texture was created without the format of the view";
            let found = check_texture(texture(), &view);
            assert!(is_rule(&found, (!is_listed).then_some(rule)), "{format:?}: {found:?}");
        }
    }

    #[test]
    fn an_aspect_is_needed_of_two_refused_of_targets_and_must_exist() {
        use TextureAspect::{Color, Depth, Stencil};
        use TextureViewKind::{DepthStencil, RenderTarget, Sampled, Storage};
        let (target, lacks, both) = (
            "targets have all aspects",
            "the texture's format does not have the aspect of the view",
            "a shader reads depth or stencil, not both",
        );
        for (kind, format, aspect, refused) in [
            (Sampled, Format::Rgba8Unorm, None, None),
            (Sampled, Format::Rgba8Unorm, Some(Color), None),
            (Sampled, Format::Rgba8Unorm, Some(Depth), Some(lacks)),
            (Storage, Format::Rgba8Unorm, Some(Stencil), Some(lacks)),
            (Sampled, Format::D32Float, None, None),
            (Sampled, Format::D32Float, Some(Depth), None),
            (Sampled, Format::D32Float, Some(Stencil), Some(lacks)),
            (Sampled, Format::D24UnormS8Uint, None, Some(both)),
            (Sampled, Format::D24UnormS8Uint, Some(Depth), None),
            (Sampled, Format::D24UnormS8Uint, Some(Stencil), None),
            (Sampled, Format::D24UnormS8Uint, Some(Color), Some(lacks)),
            (DepthStencil, Format::D24UnormS8Uint, None, None),
            (DepthStencil, Format::D24UnormS8Uint, Some(Depth), Some(target)),
            (DepthStencil, Format::D32Float, Some(Depth), Some(target)),
            (RenderTarget, Format::Rgba8Unorm, Some(Color), Some(target)),
            (RenderTarget, Format::Rgba8Unorm, None, None),
        ] {
            let desc = TextureDesc { format, view_formats: FormatSet::EMPTY, ..texture() };
            let view = TextureView { aspect, ..TextureView::new(kind, 0..1, 0..1) };
            let found = check_texture(desc, &view);
            assert!(is_rule(&found, refused), "{kind:?} of {format:?}, {aspect:?}: {found:?}");
        }
    }

    #[test]
    fn dimensions_of_views_fit_the_texture_the_layers_and_the_kind() {
        use TextureViewKind::{DepthStencil, RenderTarget, Sampled, Storage};
        use ViewDimension::{Cube, CubeArray, D1, D1Array, D2, D2Array, D3};
        let of = "a texture of this dimension does not support views of this dimension";
        let count = "the number of layers does not fit the dimension of the view";
        let flat = "portable targets are two-dimensional";
        let sampled = "cubes can only be sampled";
        for (dimension, kind, view, layers, refused) in [
            (Dimension::D1, Sampled, D1, 1, None),
            (Dimension::D1, Sampled, D1Array, 1, None),
            (Dimension::D1, Sampled, D1Array, 5, None),
            (Dimension::D1, Sampled, D1, 2, Some(count)),
            (Dimension::D1, Sampled, D2, 1, Some(of)),
            (Dimension::D1, Storage, D1, 1, None),
            (Dimension::D1, RenderTarget, D1, 1, Some(flat)),
            (Dimension::D1, DepthStencil, D1Array, 2, Some(flat)),
            (Dimension::D2, Sampled, D2, 1, None),
            (Dimension::D2, Sampled, D2, 2, Some(count)),
            (Dimension::D2, Sampled, D2Array, 2, None),
            (Dimension::D2, RenderTarget, D2, 1, None),
            (Dimension::D2, RenderTarget, D2Array, 8, None),
            (Dimension::D2, DepthStencil, D2Array, 8, None),
            (Dimension::D2, Sampled, D1, 1, Some(of)),
            (Dimension::D2, Sampled, D1Array, 1, Some(of)),
            (Dimension::D2, Sampled, Cube, 6, Some(of)),
            (Dimension::D2, Sampled, CubeArray, 6, Some(of)),
            (Dimension::D2, Sampled, D3, 1, Some(of)),
            (Dimension::Cube, Sampled, Cube, 6, None),
            (Dimension::Cube, Sampled, Cube, 7, Some(count)),
            (Dimension::Cube, Sampled, Cube, 12, Some(count)),
            (Dimension::Cube, Sampled, CubeArray, 6, None),
            (Dimension::Cube, Sampled, CubeArray, 12, None),
            (Dimension::Cube, Sampled, CubeArray, 8, Some(count)),
            (Dimension::Cube, Sampled, D2, 1, None),
            (Dimension::Cube, Sampled, D2Array, 5, None),
            (Dimension::Cube, Storage, D2Array, 6, None),
            (Dimension::Cube, Storage, Cube, 6, Some(sampled)),
            (Dimension::Cube, Storage, CubeArray, 12, Some(sampled)),
            (Dimension::Cube, RenderTarget, Cube, 6, Some(flat)),
            (Dimension::Cube, RenderTarget, D2Array, 6, None),
            (Dimension::Cube, Sampled, D3, 1, Some(of)),
            (Dimension::D3, Sampled, D3, 1, None),
            (Dimension::D3, Storage, D3, 1, None),
            (Dimension::D3, Sampled, D2, 1, Some(of)),
            (Dimension::D3, RenderTarget, D3, 1, Some(flat)),
        ] {
            let desc = TextureDesc { dimension, layers: 12, ..texture() };
            let view = TextureView::new(kind, 0..1, 0..layers).dimension(view);
            let found = check_texture(desc, &view);
            assert!(is_rule(&found, refused), "{view:?} of {dimension:?}: {found:?}");
        }
    }

    #[test]
    fn numbers_of_samplers_have_limits() {
        let desc = SamplerDesc::default();
        let rule = "the sampler's levels, bias or anisotropy are out of range";
        for (desc, is_valid) in [
            (desc, true),
            (SamplerDesc { levels: [2.0, 2.0], ..desc }, true),
            (SamplerDesc { levels: [2.5, 2.0], ..desc }, false),
            (SamplerDesc { levels: [f32::NEG_INFINITY, 2.0], ..desc }, false),
            (SamplerDesc { levels: [0.0, f32::INFINITY], ..desc }, false),
            (SamplerDesc { levels: [f32::NAN, 2.0], ..desc }, false),
            (SamplerDesc { levels: [0.0, f32::NAN], ..desc }, false),
            (SamplerDesc { level_bias: -16.0, ..desc }, true),
            (SamplerDesc { level_bias: -16.1, ..desc }, false),
            (SamplerDesc { level_bias: 15.9, ..desc }, true),
            (SamplerDesc { level_bias: 16.0, ..desc }, false),
            (SamplerDesc { level_bias: f32::NAN, ..desc }, false),
            (SamplerDesc { anisotropy: 0, ..desc }, false),
            (SamplerDesc { anisotropy: 16, ..desc }, true),
            (SamplerDesc { anisotropy: 17, ..desc }, false),
        ] {
            let found = check_sampler(&desc);
            assert!(is_rule(&found, (!is_valid).then_some(rule)), "{desc:?}: {found:?}");
        }
    }

    #[test]
    fn a_heap_accepts_its_own_kind() {
        for heap in HeapKind::ALL {
            for found in HeapKind::ALL {
                let expected = if heap == found { Ok(()) } else { Err(DescriptorError::WrongKind { heap, found }) };
                assert_eq!(check_kind(heap, found), expected);
            }
        }
    }

    /// Bytes 256..768 of a buffer.
    struct Part<'a>(&'a ringfence_memory::Buffer<crate::sim::Device>);

    // SAFETY: the range is in the buffer.
    unsafe impl AsBufferSlice<crate::sim::Device> for Part<'_> {
        fn as_slice(&self) -> BufferSlice<'_, crate::sim::Device> {
            BufferSlice { offset: 256, size: 512, ..self.0.as_slice() }
        }
    }

    #[test]
    fn the_offset_of_a_view_is_counted_from_the_first_byte_of_its_range() {
        use crate::sim::{Device, Profile, SimOptions};
        use ringfence_memory::{AllocationDesc, Allocator, AllocatorDesc};
        let memory = Allocator::over(Device::new(Profile::h200(), SimOptions::default()), AllocatorDesc::default());
        let desc = BufferDesc { size: 1024, usage: BufferUsage::STORAGE };
        let buffer = memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room");
        let (part, kind) = (Part(&buffer), BufferViewKind::Storage { stride: 0, writes: true });
        for (offset, size, shown) in [
            (0, 512, Some(256)),
            (128, 384, Some(384)),
            (496, 16, Some(752)),
            (0, 516, None),
            (496, 20, None),
            (512, 4, None),
        ] {
            let found = View::buffer(&part, BufferView { kind, offset, size }).map(|view| match view.shown {
                Shown::Portable { view: PortableView::Buffer { view, .. }, types, is_unchecked, .. } => {
                    assert_eq!((view.size, types, is_unchecked), (size, ViewTypes::STORAGE_BUFFER, false));
                    view.offset
                }
                _ => panic!("a view of a buffer"),
            });
            let rule = "the size of the buffer in bytes is";
            let outside = DescriptorError::BadRange { offset, size, rule, limit: 512 };
            assert_eq!(found, shown.ok_or(outside), "{size} bytes at {offset}");
        }
        let usage = TextureUsage::SAMPLED | TextureUsage::STORAGE;
        let desc = TextureDesc { width: 8, height: 8, usage, ..Default::default() };
        let texture = memory.create_texture(&desc, AllocationDesc::default()).expect("there is room");
        for (kind, expected) in [
            (TextureViewKind::Sampled, ViewTypes::SAMPLED_TEXTURE),
            (TextureViewKind::Storage, ViewTypes::STORAGE_TEXTURE),
        ] {
            let view = View::texture(&texture, TextureView::new(kind, 0..1, 0..1)).expect("it has the usage");
            let Shown::Portable { types, kind: heap, .. } = view.shown else { panic!("a portable view") };
            assert_eq!((types, heap), (expected, HeapKind::Resources), "{kind:?}");
        }
    }
}
