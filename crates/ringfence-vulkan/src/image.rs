//! Textures, which Vulkan calls images: description, creation, requirements, binding.

use ash::vk;
use smallvec::SmallVec;

use crate::error::failed;

use super::device::Device;
use super::external::{NOT_ENABLED, handle_type};
use super::formats::{format, portable_format, texel_format};
use super::image_support::ImageQuery;
use super::info::TextureInfo;
use super::memory::{Memory, Owner, requirements};
use super::plain_heaps::Resource;
use super::pnext_chain;
use super::share_support::{check, tied};
use super::valid;
use ringfence_hal::record::TextureParts;
use ringfence_hal::sharing::{ShareKind, ShareSupport};
use ringfence_hal::{
    Create, DeviceError, Dimension, Format, FormatSet, InfoKey, Kind, MemoryDesc, Numbers, Placed, Requirements,
    ResourceClass, TextureDesc, TextureUsage, Textures,
};

/// Number of words in the key of a description without further view formats.
const OWN_WORDS: usize = 12;

// SAFETY: an image stays bound to its memory, which stays mapped until it is freed.
unsafe impl Create<Textures> for Device {
    type Info<'a> = TextureInfo<'a>;
    type Unplaced = vk::Image;
    type Object = vk::Image;
    type Raw<'a> = vk::Image;

    fn raw(object: &Self::Object) -> Self::Raw<'_> {
        *object
    }

    fn describe(&self, desc: &TextureDesc) -> Result<TextureInfo<'static>, DeviceError> {
        Textures::check(desc)?;
        let info = TextureInfo::described(create_info(desc));
        let info = if desc.view_formats.is_empty() { info } else { info.view_formats(desc.view_formats) };
        self.check_described(&info).map(|()| info)
    }

    fn portable(&self, info: &TextureInfo<'_>) -> Option<TextureDesc> {
        Some(TextureDesc { view_formats: info.further_formats(), ..portable(info.raw())? })
    }

    fn parts(&self, info: &TextureInfo<'_>) -> Option<TextureParts> {
        parts(info.raw())
    }

    /// Checks Vulkan's flags, because images of formats without a portable name can be copied too.
    fn is_copied(&self, info: &TextureInfo<'_>) -> bool {
        info.raw().usage.contains(vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST)
    }

    fn key(&self, info: &TextureInfo<'_>) -> Option<InfoKey> {
        let (info, views) = (info.raw(), info.further_formats());
        let (kinds, extent) = ([info.image_type.as_raw(), info.format.as_raw(), info.tiling.as_raw()], info.extent);
        let [image_type, format, tiling] = kinds.map(|kind| kind as u32);
        let [one, two, three, four] = views.words();
        let own = [
            info.flags.as_raw(),
            image_type,
            format,
            extent.width,
            extent.height,
            extent.depth,
            info.mip_levels,
            info.array_layers,
            info.samples.as_raw(),
            tiling,
            info.usage.as_raw(),
            info.initial_layout.as_raw() as u32,
            one,
            two,
            three,
            four,
        ];
        let own = if views.is_empty() { &own[..OWN_WORDS] } else { &own };
        let families = (info.queue_family_index_count, info.p_queue_family_indices);
        // SAFETY: descriptions from safe code have no chained structures and no list of families. For other
        // descriptions, the caller of `from_raw` promises that both are valid.
        unsafe { pnext_chain::key(own, info.p_next, info.sharing_mode, families) }
    }

    /// Returns `None` for images with the initial layout `PREINITIALIZED`, because an image cannot return to that
    /// layout. All other images have the initial layout `UNDEFINED`, which is also valid for a recycled image.
    fn recycle_key(&self, info: &TextureInfo<'_>) -> Option<InfoKey> {
        let is_undefined = info.raw().initial_layout == vk::ImageLayout::UNDEFINED;
        is_undefined.then(|| Create::<Textures>::key(self, info)).flatten()
    }

    #[inline]
    unsafe fn prepare(&self, info: &TextureInfo<'_>) -> Result<(vk::Image, Requirements), DeviceError> {
        self.check_whole()?;
        if info.needs_check() { self.check_described(info) } else { check_image(info.raw()) }?;
        let formats: SmallVec<[_; 4]> = info.further_formats().iter().map(format).chain([info.raw().format]).collect();
        let mut list = vk::ImageFormatListCreateInfo::default().view_formats(&formats);
        let raw = if formats.len() > 1 { info.raw().push_next(&mut list) } else { *info.raw() };
        let (info, device) = (&raw, &self.0.device);
        // SAFETY: the caller promises that `info` is valid.
        let raw = unsafe { self.create_image(info) }?;
        let mut dedicated = vk::MemoryDedicatedRequirements::default();
        let mut needed = vk::MemoryRequirements2::default().push_next(&mut dedicated);
        let of = vk::ImageMemoryRequirementsInfo2::default().image(raw);
        // SAFETY: the image belongs to this device, is alive, and is not disjoint.
        unsafe { device.get_image_memory_requirements2(&of, &mut needed) };
        let needed = needed.memory_requirements;
        // With a DRM format modifier, the driver may use linear or optimal tiling, but `class` always returns the class
        // for optimal tiling. A memory object of its own keeps the image apart from other resources.
        if info.tiling == vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT {
            dedicated.requires_dedicated_allocation = vk::TRUE;
        }
        Ok((raw, requirements(needed, dedicated, class(info))))
    }

    fn share_support(&self, info: &TextureInfo<'_>, kind: ShareKind) -> ShareSupport {
        if info.needs_check() && self.check_plain(info).is_err() {
            return ShareSupport::default();
        }
        self.shared_image(info.raw(), kind).0
    }

    unsafe fn prepare_shared(
        &self,
        info: &TextureInfo<'_>,
        kind: ShareKind,
    ) -> Result<(vk::Image, Requirements), DeviceError> {
        if !self.0.sharing.has(kind) {
            return Err(NOT_ENABLED);
        }
        if info.needs_check() {
            self.check_described(info)?;
        }
        let (given, undefined) = (info.raw().initial_layout, vk::ImageLayout::UNDEFINED);
        DeviceError::invalid("a shared texture must have the initial layout UNDEFINED")
            .exactly(given.as_raw() as u64, undefined.as_raw() as u64)?;
        let (support, most) = self.shared_image(info.raw(), kind);
        check(support)?;
        valid::within(info.raw(), &most)?;
        let mut external = vk::ExternalMemoryImageCreateInfo::default().handle_types(handle_type(kind)?);
        let raw = info.raw().push_next(&mut external);
        // SAFETY: the caller promises that `info` is valid, and the device can share the image.
        let (object, needs) = unsafe { Create::<Textures>::prepare(self, &info.with_checked(raw)) }?;
        Ok((object, tied(needs, support)))
    }

    unsafe fn discard(&self, unplaced: vk::Image) {
        // SAFETY: the caller promises that the image is unused.
        unsafe { self.destroy_image(unplaced) }
    }

    unsafe fn place(
        &self,
        unplaced: &vk::Image,
        memory: &Memory,
        offset: u64,
    ) -> Result<Placed<vk::Image>, DeviceError> {
        // SAFETY: the caller promises that the image is unbound and that its requirements allow this memory.
        unsafe { self.0.device.bind_image_memory(*unplaced, memory.raw(), offset) }
            .map_err(failed("vkBindImageMemory"))?;
        // SAFETY: the caller promises that the offset is inside the memory.
        Ok(unsafe { memory.placed(*unplaced, offset) })
    }

    unsafe fn dedicate(
        &self,
        unplaced: &vk::Image,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<vk::Image>, Memory), DeviceError> {
        // SAFETY: the caller promises that the image is unbound and that its requirements allow `desc`.
        let memory = unsafe { self.allocate(desc, Some(Owner::Image(*unplaced)), None) }?;
        // SAFETY: the caller promises that the resource is unbound. The memory was allocated for it.
        let placed = unsafe { Create::<Textures>::place(self, unplaced, &memory, 0) };
        // SAFETY: the memory is new and contains only `placed`.
        unsafe { self.with_memory(placed, memory) }
    }

    unsafe fn allocate_memory_for(&self, unplaced: &vk::Image, desc: &MemoryDesc<'_>) -> Result<Memory, DeviceError> {
        // SAFETY: the caller promises that the image is unbound and that its requirements allow `desc`.
        unsafe { self.allocate(desc, Some(Owner::Image(*unplaced)), None) }
    }

    #[inline]
    fn note_retired(&self, object: &vk::Image) {
        self.clear_slots_of(Resource::Image(*object));
    }

    unsafe fn destroy(&self, object: vk::Image) {
        self.clear_slots_of(Resource::Image(object));
        // SAFETY: the caller promises that the image is alive and unused.
        unsafe { self.destroy_image(object) }
    }

    unsafe fn set_name(&self, object: &vk::Image, name: &str) {
        // SAFETY: the caller promises that the image belongs to this device and is alive.
        unsafe { self.name(*object, name) }
    }
}

impl Device {
    /// Refuses descriptions from safe code that Vulkan forbids. Makes no driver call.
    pub(super) fn check_plain(&self, info: &TextureInfo<'_>) -> Result<(), DeviceError> {
        let plain = info.without_views();
        check_image(&plain)?;
        valid::image(&plain, self.0.found.image_limits)?;
        check_view_formats(info)
    }

    /// Refuses descriptions from safe code that Vulkan forbids or the device does not support.
    pub(super) fn check_described(&self, info: &TextureInfo<'_>) -> Result<(), DeviceError> {
        self.check_plain(info)?;
        self.check_supported(info.raw())
    }

    /// Refuses descriptions that exceed the device's limits for their format and usage.
    pub(super) fn check_supported(&self, info: &vk::ImageCreateInfo<'_>) -> Result<(), DeviceError> {
        let ask = |query: &ImageQuery| {
            let ImageQuery { format, image_type, tiling, usage, flags } = *query;
            let (instance, physical) = (&self.0.instance, self.0.physical);
            // SAFETY: the physical device belongs to the instance and is alive (see `Device::new`).
            unsafe {
                instance.get_physical_device_image_format_properties(physical, format, image_type, tiling, usage, flags)
            }
        };
        let supported = self.0.image_support.of(ImageQuery::of(info), ask);
        let most = supported
            .map_err(failed("vkGetPhysicalDeviceImageFormatProperties"))
            .map_err(|error| error.with(Numbers::Given(info.format.as_raw() as u32 as u64)))?;
        valid::within(info, &most)
    }
}

/// Refuses view formats that the format of the image does not permit (`Format::can_be_viewed_as`).
fn check_view_formats(info: &TextureInfo<'_>) -> Result<(), DeviceError> {
    let own = portable_format(info.raw().format);
    let is_wrong = |view: &Format| !own.is_some_and(|own| own.can_be_viewed_as(*view));
    match info.further_formats().iter().find(is_wrong) {
        Some(view) => Err(DeviceError::invalid("a view format whose texels have another size than the texture's")
            .with(Numbers::Given(format(view).as_raw() as u32 as u64))),
        None => Ok(()),
    }
}

/// Refuses descriptions that would cause undefined behaviour or cannot be placed.
pub(super) fn check_image(info: &vk::ImageCreateInfo<'_>) -> Result<(), DeviceError> {
    let extent = info.extent;
    for (count, at_least_one) in [
        (extent.width, "a texture must be at least one texel wide"),
        (extent.height, "a texture must be at least one texel high"),
        (extent.depth, "a texture must be at least one texel deep"),
        (info.mip_levels, "a texture must have at least one mip level"),
        (info.array_layers, "a texture must have at least one array layer"),
    ] {
        DeviceError::invalid(at_least_one).at_least(count.into(), 1)?;
    }
    let flags = |without: vk::ImageCreateFlags| (info.flags.as_raw().into(), (info.flags & !without).as_raw().into());
    let (given, allowed) = flags(vk::ImageCreateFlags::SPARSE_BINDING);
    DeviceError::invalid("a sparse texture cannot be placed in one memory object").flags(given, allowed)?;
    let (given, allowed) = flags(vk::ImageCreateFlags::DESCRIPTOR_BUFFER_CAPTURE_REPLAY_EXT);
    DeviceError::unsupported("textures whose descriptors are captured and replayed").flags(given, allowed)?;
    let (given, allowed) = flags(vk::ImageCreateFlags::DISJOINT);
    DeviceError::invalid("a disjoint texture cannot be placed in one memory object").flags(given, allowed)
}

/// Returns the class of an image. Vulkan separates linear resources (buffers, images with linear tiling) from all
/// others.
pub(super) fn class(info: &vk::ImageCreateInfo<'_>) -> ResourceClass {
    let attachment = vk::ImageUsageFlags::COLOR_ATTACHMENT
        | vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT
        | vk::ImageUsageFlags::TRANSIENT_ATTACHMENT;
    if info.tiling == vk::ImageTiling::LINEAR {
        ResourceClass::Buffer
    } else if info.usage.intersects(attachment) {
        ResourceClass::RenderTarget
    } else {
        ResourceClass::Texture
    }
}

/// Returns Vulkan's description for a portable one that has passed [`Textures::check`].
fn create_info(desc: &TextureDesc) -> vk::ImageCreateInfo<'static> {
    let TextureDesc { dimension, width, height, depth, layers, mips, samples, .. } = *desc;
    let (image_type, flags) = match dimension {
        Dimension::D1 => (vk::ImageType::TYPE_1D, vk::ImageCreateFlags::empty()),
        Dimension::D2 => (vk::ImageType::TYPE_2D, vk::ImageCreateFlags::empty()),
        Dimension::Cube => (vk::ImageType::TYPE_2D, vk::ImageCreateFlags::CUBE_COMPATIBLE),
        Dimension::D3 => (vk::ImageType::TYPE_3D, vk::ImageCreateFlags::empty()),
    };
    vk::ImageCreateInfo::default()
        .flags(flags)
        .image_type(image_type)
        .format(format(desc.format))
        .extent(vk::Extent3D { width, height, depth })
        .mip_levels(mips)
        .array_layers(layers)
        .samples(vk::SampleCountFlags::from_raw(samples))
        .tiling(vk::ImageTiling::OPTIMAL)
        .usage(image_usage(desc.usage))
        .initial_layout(vk::ImageLayout::UNDEFINED)
}

/// Portable usages and Vulkan's.
const USAGES: [(TextureUsage, vk::ImageUsageFlags); 6] = [
    (TextureUsage::COPY_SRC, vk::ImageUsageFlags::TRANSFER_SRC),
    (TextureUsage::COPY_DST, vk::ImageUsageFlags::TRANSFER_DST),
    (TextureUsage::SAMPLED, vk::ImageUsageFlags::SAMPLED),
    (TextureUsage::STORAGE, vk::ImageUsageFlags::STORAGE),
    (TextureUsage::RENDER_TARGET, vk::ImageUsageFlags::COLOR_ATTACHMENT),
    (TextureUsage::DEPTH_STENCIL, vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT),
];

/// Returns the portable description of an image. Returns `None` for formats without a portable name, and for images
/// with `EXTENDED_USAGE`, because their views may not support all usages of the image.
fn portable(info: &vk::ImageCreateInfo<'_>) -> Option<TextureDesc> {
    if info.flags.contains(vk::ImageCreateFlags::EXTENDED_USAGE) {
        return None;
    }
    let format = portable_format(info.format)?;
    let is_cube = info.flags.contains(vk::ImageCreateFlags::CUBE_COMPATIBLE);
    let dimension = match info.image_type {
        vk::ImageType::TYPE_1D => Dimension::D1,
        vk::ImageType::TYPE_3D => Dimension::D3,
        _ if is_cube && info.array_layers.is_multiple_of(6) => Dimension::Cube,
        _ => Dimension::D2,
    };
    let usages = USAGES.into_iter().filter(|(_, equal)| info.usage.contains(*equal));
    Some(TextureDesc {
        dimension,
        width: info.extent.width,
        height: info.extent.height,
        depth: info.extent.depth,
        layers: info.array_layers,
        mips: info.mip_levels,
        samples: info.samples.as_raw(),
        format,
        usage: usages.fold(TextureUsage::empty(), |all, (usage, _)| all | usage),
        clear_value: None,
        view_formats: FormatSet::EMPTY,
    })
}

/// Returns the size, subresources and format of an image. Returns `None` for formats with several planes, because their
/// planes have different sizes, and for formats that [`texel_format`] does not know.
pub(super) fn parts(info: &vk::ImageCreateInfo<'_>) -> Option<TextureParts> {
    let format = texel_format(info.format)?;
    let vk::Extent3D { width, height, depth } = info.extent;
    let (layers, mips, samples) = (info.array_layers, info.mip_levels, info.samples.as_raw());
    Some(TextureParts { width, height, depth, layers, mips, samples, format, aspects: format.aspects() })
}

/// Returns Vulkan's usage flags for the portable ones.
fn image_usage(usage: TextureUsage) -> vk::ImageUsageFlags {
    let present = USAGES.into_iter().filter(|(flag, _)| usage.contains(*flag));
    present.fold(vk::ImageUsageFlags::empty(), |all, (_, equal)| all | equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_images_are_of_the_buffers_class() {
        let info = vk::ImageCreateInfo::default().usage(vk::ImageUsageFlags::COLOR_ATTACHMENT);
        assert_eq!(class(&info), ResourceClass::RenderTarget);
        assert_eq!(class(&info.tiling(vk::ImageTiling::LINEAR)), ResourceClass::Buffer);
        assert_eq!(class(&vk::ImageCreateInfo::default().usage(vk::ImageUsageFlags::SAMPLED)), ResourceClass::Texture);
    }

    #[test]
    fn every_format_but_those_of_planes_has_parts() {
        use ringfence_hal::record::TextureAspects;
        let of = |format| parts(&vk::ImageCreateInfo::default().format(format)).map(|parts| parts.aspects);
        assert_eq!(of(vk::Format::BC7_SRGB_BLOCK), Some(TextureAspects::COLOR));
        assert_eq!(of(vk::Format::D32_SFLOAT), Some(TextureAspects::DEPTH));
        assert_eq!(of(vk::Format::D24_UNORM_S8_UINT), Some(TextureAspects::DEPTH | TextureAspects::STENCIL));
        assert_eq!(of(vk::Format::G8_B8R8_2PLANE_420_UNORM), None);
        assert_eq!(of(vk::Format::G8B8G8R8_422_UNORM), None);
        assert_eq!(of(vk::Format::UNDEFINED), None);
    }

    #[test]
    fn sparse_disjoint_and_empty_images_are_refused() {
        let extent = vk::Extent3D { width: 4, height: 4, depth: 1 };
        let valid = vk::ImageCreateInfo::default().extent(extent).mip_levels(1).array_layers(1);
        assert_eq!(check_image(&valid), Ok(()));
        assert!(check_image(&valid.flags(vk::ImageCreateFlags::SPARSE_BINDING)).is_err());
        assert!(check_image(&valid.flags(vk::ImageCreateFlags::DISJOINT)).is_err());
        assert!(check_image(&valid.mip_levels(0)).is_err());
    }
}
