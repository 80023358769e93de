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
    /// - The range is outside the buffer, not aligned, or too long for the device. For staged bytes and constants,
    ///   which do not refer to the device, the heap reports this when the view is written.
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
    /// As [`View::buffer`].
    pub fn sampled(texture: &'a Texture<D>) -> Result<Self, DescriptorError> {
        let desc = texture.desc().ok_or(DescriptorError::BadView(UNDESCRIBED))?;
        Self::texture(texture, TextureView::sampled(desc))
    }

    /// Creates a view of subresources of a texture.
    ///
    /// # Errors
    /// As [`View::buffer`].
    pub fn texture(texture: &'a Texture<D>, view: TextureView) -> Result<Self, DescriptorError> {
        let desc = *texture.desc().ok_or(DescriptorError::BadView(UNDESCRIBED))?;
        Self::of_texture(texture.object(), desc, texture.shared().owner(), view)
    }

    /// Creates a view of subresources of a transient target (`TransientAllocator::target`). Programs cache what they create
    /// for the view by the id of the target's handle: no other object ever has this id.
    ///
    /// # Errors
    /// As [`View::buffer`].
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

fn check_buffer(desc: BufferDesc, view: BufferView, support: &DescriptorSupport) -> Result<(), DescriptorError> {
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

/// Fails if the format does not have the view's aspect, or if the view needs an aspect and does not name one.
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
    use crate::device::{BufferUsage, Format, FormatSet, TextureUsage};

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
}
