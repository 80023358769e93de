//! Views with Vulkan's structures, and the driver objects of views.

use std::sync::Arc;

use ash::vk;

use crate::error::failed;

use super::kinds::{self, Kind};
use crate::buffer::texel_usage;
use crate::device::Device;
use crate::features::Features;
use crate::plain_heaps::Resource;
use crate::{formats, record, valid};
use ringfence_hal::descriptors::{
    AddressMode, BorderColor, BufferView, BufferViewKind, Compare, Component, DescriptorModel, Filter, HeapKind,
    PortableView, SamplerDesc, TextureView, TextureViewKind, ViewDimension, ViewLayout,
};
use ringfence_hal::{BufferUsage, DeviceError, Format, Numbers, TextureAspect, TextureDesc};

/// View that is described by Vulkan's structures.
#[derive(Clone, Copy)]
pub enum View {
    /// A uniform or storage buffer.
    Buffer {
        /// `UNIFORM_BUFFER` or `STORAGE_BUFFER`.
        descriptor_type: vk::DescriptorType,
        /// The buffer. With descriptor buffers, it must have the usage `SHADER_DEVICE_ADDRESS`.
        buffer: vk::Buffer,
        /// Offset in bytes.
        offset: u64,
        /// Size in bytes.
        range: u64,
    },
    /// A uniform or storage texel buffer.
    Texels {
        /// `UNIFORM_TEXEL_BUFFER` or `STORAGE_TEXEL_BUFFER`.
        descriptor_type: vk::DescriptorType,
        /// The buffer. With descriptor buffers, it must have the usage `SHADER_DEVICE_ADDRESS`.
        buffer: vk::Buffer,
        /// The format of a texel.
        format: vk::Format,
        /// Offset in bytes.
        offset: u64,
        /// Size in bytes.
        range: u64,
    },
    /// A sampled or storage image.
    Image {
        /// `SAMPLED_IMAGE` or `STORAGE_IMAGE`.
        descriptor_type: vk::DescriptorType,
        /// Description of the image view.
        info: vk::ImageViewCreateInfo<'static>,
        /// Layout of the image while shaders access it.
        layout: vk::ImageLayout,
    },
    /// A colour or depth-stencil attachment.
    Attachment(vk::ImageViewCreateInfo<'static>),
    /// A sampler.
    Sampler(vk::SamplerCreateInfo<'static>),
}

/// Driver object that one or more slots, and plain sets, own. It is destroyed when the last reference is dropped.
pub struct Owned {
    device: Device,
    object: Object,
}

enum Object {
    ImageView(vk::ImageView),
    BufferView(vk::BufferView),
    Sampler(vk::Sampler),
}

impl Owned {
    pub(super) fn image_view(&self) -> vk::ImageView {
        if let Object::ImageView(view) = self.object { view } else { vk::ImageView::null() }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let device = self.device.raw();
        // SAFETY: the object belongs to this device, which outlives all objects that are created through it. No slot
        // owns the object any more, and the caller of `discard_leftover` has waited for all work that used it.
        unsafe {
            match self.object {
                Object::ImageView(view) => device.destroy_image_view(view, None),
                Object::BufferView(view) => device.destroy_buffer_view(view, None),
                Object::Sampler(sampler) => self.device.destroy_sampler(sampler),
            }
        }
    }
}

/// A view with its driver objects.
pub(super) struct Real {
    pub(super) binding: u32,
    pub(super) descriptor_type: vk::DescriptorType,
    pub(super) shown: Shown,
    object: Option<Arc<Owned>>,
    /// Buffer or image of the view, or `None` for samplers.
    resource: Option<Resource>,
}

/// Content of a descriptor.
#[derive(Clone, Copy)]
pub(super) enum Shown {
    Buffer {
        buffer: vk::Buffer,
        offset: u64,
        range: u64,
    },
    /// Contains the view for descriptor sets and the buffer range for descriptor buffers.
    Texels {
        view: vk::BufferView,
        buffer: vk::Buffer,
        format: vk::Format,
        offset: u64,
        range: u64,
    },
    Image(vk::DescriptorImageInfo),
}

/// Content of a slot.
#[derive(Clone, Default)]
pub(super) struct Slot {
    /// The binding of the view's type, or `None` if the slot is empty.
    pub(super) binding: Option<u32>,
    /// Content of the descriptor.
    pub(super) shown: Option<Shown>,
    pub(super) object: Option<Arc<Owned>>,
    /// Buffer or image of the view, or `None` for samplers and empty slots.
    pub(super) resource: Option<Resource>,
}

impl Real {
    /// Creates the driver objects of a view for a heap of this kind.
    pub(super) fn new(device: &Device, heap: HeapKind, view: &View) -> Result<Self, DeviceError> {
        if view.kind(heap) != heap {
            return Err(DeviceError::invalid("the kind of the descriptor differs from the heap's"));
        }
        let descriptor_type = view.descriptor_type();
        let binding = match view {
            View::Attachment(_) => 0,
            _ => device.0.descriptors.binding_of(descriptor_type, view.in_arrays_of()).ok_or(
                DeviceError::unsupported(
                    "a view of this dimension or format in plain sets; add it to DeviceDesc::plain_views",
                ),
            )?,
        };
        let own = |object| Some(Arc::new(Owned { device: device.clone(), object }));
        let raw = device.raw();
        let (object, shown) = match *view {
            View::Buffer { buffer, offset, range, .. } => (None, Shown::Buffer { buffer, offset, range }),
            View::Texels { buffer, format, offset, range, .. } => {
                let info =
                    vk::BufferViewCreateInfo::default().buffer(buffer).format(format).offset(offset).range(range);
                let view = if device.0.descriptors.buffer_api.is_some() {
                    vk::BufferView::null()
                } else {
                    // SAFETY: the caller of `write_view` promises that the `View` is valid, and `describe` returns only
                    // valid views. The buffer is alive.
                    unsafe { raw.create_buffer_view(&info, None) }.map_err(failed("vkCreateBufferView"))?
                };
                let object = if view == vk::BufferView::null() { None } else { own(Object::BufferView(view)) };
                (object, Shown::Texels { view, buffer, format, offset, range })
            }
            View::Image { info, layout, .. } => {
                // SAFETY: the caller of `write_view` promises that the `View` is valid. The image is alive.
                let view = unsafe { raw.create_image_view(&info, None) }.map_err(failed("vkCreateImageView"))?;
                let shown = vk::DescriptorImageInfo::default().image_view(view).image_layout(layout);
                (own(Object::ImageView(view)), Shown::Image(shown))
            }
            View::Attachment(info) => {
                // SAFETY: the caller of `write_view` promises that the `View` is valid. The image is alive.
                let view = unsafe { raw.create_image_view(&info, None) }.map_err(failed("vkCreateImageView"))?;
                let shown = vk::DescriptorImageInfo::default().image_view(view);
                (own(Object::ImageView(view)), Shown::Image(shown))
            }
            View::Sampler(info) => {
                // SAFETY: the caller of `write_view` promises that the `View` is valid.
                let sampler = unsafe { device.create_sampler(&info) }?;
                let shown = vk::DescriptorImageInfo::default().sampler(sampler);
                (own(Object::Sampler(sampler)), Shown::Image(shown))
            }
        };
        let resource = match view {
            View::Buffer { buffer, .. } | View::Texels { buffer, .. } => Some(Resource::Buffer(*buffer)),
            View::Image { info, .. } | View::Attachment(info) => Some(Resource::Image(info.image)),
            View::Sampler(_) => None,
        };
        Ok(Self { binding, descriptor_type, shown, object, resource })
    }

    pub(super) fn into_slot(self) -> Slot {
        let Self { binding, shown, object, resource, .. } = self;
        Slot { binding: Some(binding), shown: Some(shown), object, resource }
    }
}

impl View {
    fn descriptor_type(&self) -> vk::DescriptorType {
        match *self {
            Self::Buffer { descriptor_type, .. }
            | Self::Texels { descriptor_type, .. }
            | Self::Image { descriptor_type, .. } => descriptor_type,
            Self::Attachment(_) => vk::DescriptorType::INPUT_ATTACHMENT,
            Self::Sampler(_) => vk::DescriptorType::SAMPLER,
        }
    }

    /// Returns the kind of the view. In plain sets, each kind has its own arrays.
    fn in_arrays_of(&self) -> Kind {
        match self {
            Self::Image { info, .. } => {
                kinds::of_image(info.view_type, info.format, info.subresource_range.aspect_mask)
            }
            Self::Texels { format, .. } => Kind::Texels(valid::numeric(*format)),
            Self::Buffer { .. } | Self::Attachment(_) | Self::Sampler(_) => Kind::Only,
        }
    }

    /// Returns the kind of heap that accepts the view. Both kinds of attachment heap accept attachments; for these,
    /// returns `heap` if it is one of the two kinds.
    fn kind(&self, heap: HeapKind) -> HeapKind {
        match self {
            Self::Attachment(_) if heap == HeapKind::DepthStencils => HeapKind::DepthStencils,
            Self::Attachment(_) => HeapKind::RenderTargets,
            Self::Sampler(_) => HeapKind::Samplers,
            Self::Buffer { .. } | Self::Texels { .. } | Self::Image { .. } => HeapKind::Resources,
        }
    }
}

/// Returns Vulkan's view for a portable one.
pub(super) fn describe(device: &Device, portable: &PortableView<'_, Device>) -> Result<View, DeviceError> {
    match portable {
        PortableView::Buffer { object, desc, view } => buffer(device, **object, desc.usage, *view),
        PortableView::Texture { desc, view, .. }
            if desc.samples != 1
                && view.kind == TextureViewKind::Sampled
                && device.0.descriptors.model() == DescriptorModel::PlainSets =>
        {
            let (given, wanted) = (desc.samples.into(), 1);
            Err(DeviceError::unsupported("views of several samples in plain sets")
                .with(Numbers::Exactly { given, wanted }))
        }
        PortableView::Texture { object, desc, view } => texture(device, **object, desc, view),
        PortableView::Sampler(desc) => sampler(device, desc),
    }
}

fn buffer(device: &Device, buffer: vk::Buffer, usage: BufferUsage, view: BufferView) -> Result<View, DeviceError> {
    let BufferView { kind, offset, size: range } = view;
    let plain = |descriptor_type| View::Buffer { descriptor_type, buffer, offset, range };
    Ok(match kind {
        BufferViewKind::Constants => plain(vk::DescriptorType::UNIFORM_BUFFER),
        BufferViewKind::Storage { .. } => plain(vk::DescriptorType::STORAGE_BUFFER),
        BufferViewKind::Texels { format, writes } => {
            let raw_format = formats::format(format);
            check_texel_format(device, raw_format, usage)?;
            let (texels, max) = (range / format.texel_bytes(), device.0.descriptors.limits.max_texel_buffer_elements);
            DeviceError::unsupported("a texel buffer of this length").at_most(texels, max.into())?;
            let descriptor_type = if writes {
                vk::DescriptorType::STORAGE_TEXEL_BUFFER
            } else {
                vk::DescriptorType::UNIFORM_TEXEL_BUFFER
            };
            View::Texels { descriptor_type, buffer, format: raw_format, offset, range }
        }
    })
}

/// Refuses a texel format unless the device supports it for all texel usages of the buffer. `vkCreateBufferView`
/// requires this even if shaders only read, or only write, the view.
pub(crate) fn check_texel_format(device: &Device, format: vk::Format, usage: BufferUsage) -> Result<(), DeviceError> {
    let unsupported = DeviceError::unsupported("texels of this format in a buffer of this usage");
    let unsupported = unsupported.with(Numbers::Given(format.as_raw() as u32 as u64));
    if format == vk::Format::UNDEFINED {
        return Err(unsupported);
    }
    // SAFETY: the physical device belongs to the instance and is alive (see `Device::new`).
    let found = unsafe { device.0.instance.get_physical_device_format_properties(device.0.physical, format) };
    let usage = texel_usage(usage | BufferUsage::TEXELS);
    let needed = [
        (vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER, vk::FormatFeatureFlags::UNIFORM_TEXEL_BUFFER),
        (vk::BufferUsageFlags::STORAGE_TEXEL_BUFFER, vk::FormatFeatureFlags::STORAGE_TEXEL_BUFFER),
    ];
    let has = |(of, feature)| !usage.contains(of) || found.buffer_features.contains(feature);
    if needed.into_iter().all(has) { Ok(()) } else { Err(unsupported) }
}

fn texture(device: &Device, image: vk::Image, desc: &TextureDesc, view: &TextureView) -> Result<View, DeviceError> {
    let aspects = view.aspect.map_or(desc.format.texels().aspects(), TextureAspect::flag);
    let range = vk::ImageSubresourceRange {
        aspect_mask: record::aspects(aspects),
        base_mip_level: view.mips.start,
        level_count: view.mips.len() as u32,
        base_array_layer: view.layers.start,
        layer_count: view.layers.len() as u32,
    };
    let mut info = vk::ImageViewCreateInfo::default()
        .image(image)
        .view_type(view_type(device, view.dimension_in(desc.dimension))?)
        .format(formats::format(view.format_in(desc)))
        .components(components(desc, view)?)
        .subresource_range(range);
    let is_plain = view.swizzle == Component::IDENTITY;
    if device.0.found.is_subset && !(is_plain && view.format_in(desc) == desc.format) {
        return Err(DeviceError::unsupported("views with another format or order of channels on a portability subset"));
    }
    if view.format_in(desc) != desc.format {
        check_view_format(device, view.format_in(desc), view.kind)?;
        info.p_next = std::ptr::from_ref(usage_of(view.kind)).cast();
    }
    Ok(match view.kind {
        TextureViewKind::Sampled => View::Image {
            descriptor_type: vk::DescriptorType::SAMPLED_IMAGE,
            info,
            layout: match view.layout {
                ViewLayout::General => vk::ImageLayout::GENERAL,
                ViewLayout::ReadOnly => vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL,
            },
        },
        TextureViewKind::Storage => {
            View::Image { descriptor_type: vk::DescriptorType::STORAGE_IMAGE, info, layout: vk::ImageLayout::GENERAL }
        }
        TextureViewKind::RenderTarget | TextureViewKind::DepthStencil => View::Attachment(info),
    })
}

/// Usage of a view that has another format than its image. The format of the view need not support the other usages of
/// the image.
struct ViewUsage(vk::ImageViewUsageCreateInfo<'static>);

// SAFETY: the structure is constant, and its pointer to further structures is null.
unsafe impl Sync for ViewUsage {}

impl ViewUsage {
    const fn new(usage: vk::ImageUsageFlags) -> Self {
        Self(vk::ImageViewUsageCreateInfo {
            s_type: vk::StructureType::IMAGE_VIEW_USAGE_CREATE_INFO,
            p_next: std::ptr::null(),
            usage,
            _marker: std::marker::PhantomData,
        })
    }
}

/// Returns the usage of a kind of view, as a structure that outlives every view.
fn usage_of(kind: TextureViewKind) -> &'static vk::ImageViewUsageCreateInfo<'static> {
    static SAMPLED: ViewUsage = ViewUsage::new(vk::ImageUsageFlags::SAMPLED);
    static STORAGE: ViewUsage = ViewUsage::new(vk::ImageUsageFlags::STORAGE);
    static COLOR: ViewUsage = ViewUsage::new(vk::ImageUsageFlags::COLOR_ATTACHMENT);
    static DEPTH: ViewUsage = ViewUsage::new(vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT);
    match kind {
        TextureViewKind::Sampled => &SAMPLED.0,
        TextureViewKind::Storage => &STORAGE.0,
        TextureViewKind::RenderTarget => &COLOR.0,
        TextureViewKind::DepthStencil => &DEPTH.0,
    }
}

/// Refuses the format of a view if the device does not support this kind of view for the format.
fn check_view_format(device: &Device, format: Format, kind: TextureViewKind) -> Result<(), DeviceError> {
    let (needed, refused) = match kind {
        TextureViewKind::Sampled => (vk::FormatFeatureFlags::SAMPLED_IMAGE, "sampled views of this format"),
        TextureViewKind::Storage => (vk::FormatFeatureFlags::STORAGE_IMAGE, "storage views of this format"),
        TextureViewKind::RenderTarget => (vk::FormatFeatureFlags::COLOR_ATTACHMENT, "target views of this format"),
        TextureViewKind::DepthStencil => {
            (vk::FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT, "depth views of this format")
        }
    };
    if device.format_features(format).contains(needed) {
        return Ok(());
    }
    Err(DeviceError::unsupported(refused).with(Numbers::Given(formats::format(format).as_raw() as u32 as u64)))
}

/// Returns the sources of the channels. Refuses the constant one in views of depth and stencil, because Vulkan leaves
/// its value undefined there without `VK_KHR_maintenance5`.
fn components(desc: &TextureDesc, view: &TextureView) -> Result<vk::ComponentMapping, DeviceError> {
    if desc.format.is_depth_stencil() && view.swizzle.contains(&Component::One) {
        return Err(DeviceError::unsupported("a view of depth or stencil with a channel of one"));
    }
    let source = |component| match component {
        Component::Red => vk::ComponentSwizzle::R,
        Component::Green => vk::ComponentSwizzle::G,
        Component::Blue => vk::ComponentSwizzle::B,
        Component::Alpha => vk::ComponentSwizzle::A,
        Component::Zero => vk::ComponentSwizzle::ZERO,
        Component::One => vk::ComponentSwizzle::ONE,
    };
    let [r, g, b, a] = view.swizzle.map(source);
    Ok(vk::ComponentMapping { r, g, b, a })
}

fn view_type(device: &Device, dimension: ViewDimension) -> Result<vk::ImageViewType, DeviceError> {
    Ok(match dimension {
        ViewDimension::D1 => vk::ImageViewType::TYPE_1D,
        ViewDimension::D1Array => vk::ImageViewType::TYPE_1D_ARRAY,
        ViewDimension::D2 => vk::ImageViewType::TYPE_2D,
        ViewDimension::D2Array => vk::ImageViewType::TYPE_2D_ARRAY,
        ViewDimension::Cube => vk::ImageViewType::CUBE,
        ViewDimension::CubeArray if device.0.desc.features.contains(Features::IMAGE_CUBE_ARRAY) => {
            vk::ImageViewType::CUBE_ARRAY
        }
        ViewDimension::CubeArray => {
            return Err(DeviceError::unsupported("views of cube arrays without Features::IMAGE_CUBE_ARRAY"));
        }
        ViewDimension::D3 => vk::ImageViewType::TYPE_3D,
    })
}

fn sampler(device: &Device, desc: &SamplerDesc) -> Result<View, DeviceError> {
    let facts = &device.0.descriptors;
    let (bias, max) = (desc.level_bias.abs(), facts.limits.max_sampler_lod_bias);
    if bias > max {
        let numbers = Numbers::AtMostReal { given: bias.to_bits(), max: max.to_bits() };
        return Err(DeviceError::unsupported("a level-of-detail bias of this size").with(numbers));
    }
    let anisotropy = desc.anisotropy.min(facts.support().anisotropy_max);
    let filter = |filter| if filter == Filter::Linear { vk::Filter::LINEAR } else { vk::Filter::NEAREST };
    let mip = match desc.mip {
        Filter::Linear => vk::SamplerMipmapMode::LINEAR,
        Filter::Nearest => vk::SamplerMipmapMode::NEAREST,
    };
    let [across, down, deep] = desc.address.map(address_mode);
    let border = match desc.border {
        BorderColor::Transparent => vk::BorderColor::FLOAT_TRANSPARENT_BLACK,
        BorderColor::Black => vk::BorderColor::FLOAT_OPAQUE_BLACK,
        BorderColor::White => vk::BorderColor::FLOAT_OPAQUE_WHITE,
    };
    let info = vk::SamplerCreateInfo::default()
        .mag_filter(filter(desc.magnify))
        .min_filter(filter(desc.minify))
        .mipmap_mode(mip)
        .address_mode_u(across)
        .address_mode_v(down)
        .address_mode_w(deep)
        .mip_lod_bias(desc.level_bias)
        .anisotropy_enable(anisotropy > 1)
        .max_anisotropy(anisotropy.into())
        .compare_enable(desc.compare.is_some())
        .compare_op(desc.compare.map_or(vk::CompareOp::NEVER, compare_op))
        .min_lod(desc.levels[0])
        .max_lod(desc.levels[1])
        .border_color(border);
    Ok(View::Sampler(info))
}

fn address_mode(mode: AddressMode) -> vk::SamplerAddressMode {
    match mode {
        AddressMode::Repeat => vk::SamplerAddressMode::REPEAT,
        AddressMode::Mirror => vk::SamplerAddressMode::MIRRORED_REPEAT,
        AddressMode::Clamp => vk::SamplerAddressMode::CLAMP_TO_EDGE,
        AddressMode::Border => vk::SamplerAddressMode::CLAMP_TO_BORDER,
    }
}

fn compare_op(compare: Compare) -> vk::CompareOp {
    match compare {
        Compare::Never => vk::CompareOp::NEVER,
        Compare::Less => vk::CompareOp::LESS,
        Compare::Equal => vk::CompareOp::EQUAL,
        Compare::LessEqual => vk::CompareOp::LESS_OR_EQUAL,
        Compare::Greater => vk::CompareOp::GREATER,
        Compare::NotEqual => vk::CompareOp::NOT_EQUAL,
        Compare::GreaterEqual => vk::CompareOp::GREATER_OR_EQUAL,
        Compare::Always => vk::CompareOp::ALWAYS,
    }
}
