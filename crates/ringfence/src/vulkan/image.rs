//! Textures, which Vulkan calls images: described, made, measured, bound.

use ash::vk;
use ash::vk::Handle;

use super::Device;
use super::info::TextureInfo;
use super::memory::{Memory, Owner, requirements};
use super::valid;
use crate::device::record::{TextureAspects, TextureParts};
use crate::device::sharing::{ShareKind, ShareSupport};
use crate::device::{
    Create, DeviceError, Format, InfoKey, MemoryDesc, Placed, Requirements, ResourceClass, TextureDesc, TextureUsage,
    Textures,
};

// SAFETY: an image lies where it was bound, in memory that stays mapped until it is freed.
unsafe impl Create<Textures> for Device {
    type Info<'a> = TextureInfo<'a>;
    type Unplaced = vk::Image;
    type Object = vk::Image;

    fn describe(&self, desc: &TextureDesc) -> Result<TextureInfo<'static>, DeviceError> {
        let info = TextureInfo::new(format(desc.format), desc.width, desc.height, image_usage(desc.usage))
            .mips(desc.mips)
            .layers(desc.layers)
            .samples(vk::SampleCountFlags::from_raw(desc.samples));
        self.check_described(info.raw()).map(|()| info)
    }

    fn portable(&self, info: &TextureInfo<'_>) -> Option<TextureDesc> {
        portable(info.raw())
    }

    fn parts(&self, info: &TextureInfo<'_>) -> Option<TextureParts> {
        parts(info.raw())
    }

    /// Chained structures and lists of families are behind pointers: no key.
    fn key(&self, info: &TextureInfo<'_>) -> Option<InfoKey> {
        let info = info.raw();
        let plain = info.p_next.is_null() && info.sharing_mode == vk::SharingMode::EXCLUSIVE;
        let (kinds, extent) = ([info.image_type.as_raw(), info.format.as_raw(), info.tiling.as_raw()], info.extent);
        let [image_type, format, tiling] = kinds.map(|kind| kind as u32);
        plain.then(|| {
            InfoKey::new(&[
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
            ])
        })
    }

    unsafe fn prepare(&self, info: &TextureInfo<'_>) -> Result<(vk::Image, Requirements), DeviceError> {
        self.check_whole()?;
        if info.is_unchecked() {
            self.check_described(info.raw())?;
        }
        let info = info.raw();
        check_image(info)?;
        let device = &self.0.device;
        // SAFETY: the caller promises that `info` is valid.
        let raw = unsafe { device.create_image(info, None) }?;
        let mut dedicated = vk::MemoryDedicatedRequirements::default();
        let mut needed = vk::MemoryRequirements2::default().push_next(&mut dedicated);
        let of = vk::ImageMemoryRequirementsInfo2::default().image(raw);
        // SAFETY: the image is this device's, alive, and not disjoint.
        unsafe { device.get_image_memory_requirements2(&of, &mut needed) };
        let needed = needed.memory_requirements;
        Ok((raw, requirements(needed, dedicated, class(info))))
    }

    fn share_support(&self, info: &TextureInfo<'_>, kind: ShareKind) -> ShareSupport {
        if info.is_unchecked() && self.check_plain(info.raw()).is_err() {
            return ShareSupport::default();
        }
        self.image_share_support(info.raw(), kind)
    }

    unsafe fn prepare_shared(
        &self,
        info: &TextureInfo<'_>,
        kind: ShareKind,
    ) -> Result<(vk::Image, Requirements), DeviceError> {
        // SAFETY: the caller promises what is asked.
        unsafe { self.prepare_shared_image(info, kind) }
    }

    unsafe fn discard(&self, unplaced: vk::Image) {
        // SAFETY: the caller promises that the image was not used.
        unsafe { self.0.device.destroy_image(unplaced, None) }
    }

    unsafe fn place(
        &self,
        unplaced: &vk::Image,
        memory: &Memory,
        offset: u64,
    ) -> Result<Placed<vk::Image>, DeviceError> {
        // SAFETY: the caller promises that the image is unbound and that its requirements allow this memory.
        unsafe { self.0.device.bind_image_memory(*unplaced, memory.raw(), offset) }?;
        // SAFETY: the caller promises that the offset lies inside the memory.
        Ok(unsafe { memory.placed(*unplaced, offset) })
    }

    unsafe fn dedicate(
        &self,
        unplaced: &vk::Image,
        desc: &MemoryDesc<'_>,
    ) -> Result<(Placed<vk::Image>, Memory), DeviceError> {
        // SAFETY: the caller promises that the image is unbound and that its requirements allow `desc`.
        let memory = unsafe { self.allocate(desc, Some(Owner::Image(*unplaced)), None) }?;
        // SAFETY: as above, and the memory was made for it.
        let placed = unsafe { Create::<Textures>::place(self, unplaced, &memory, 0) };
        // SAFETY: the memory is new, and nothing but `placed` lies in it.
        unsafe { self.with_memory(placed, memory) }
    }

    unsafe fn allocate_memory_for(&self, unplaced: &vk::Image, desc: &MemoryDesc<'_>) -> Result<Memory, DeviceError> {
        // SAFETY: the caller promises that the image is unbound and that its requirements allow `desc`.
        unsafe { self.allocate(desc, Some(Owner::Image(*unplaced)), None) }
    }

    unsafe fn destroy(&self, object: vk::Image) {
        self.forget_resource(object.as_raw());
        // SAFETY: the caller promises that the image is alive and unused.
        unsafe { self.0.device.destroy_image(object, None) }
    }

    unsafe fn set_name(&self, object: &vk::Image, name: &str) {
        // SAFETY: the caller promises that the image is this device's and alive.
        unsafe { self.name(*object, name) }
    }
}

impl Device {
    /// Refuses what safe code described and Vulkan forbids, without a call of the driver.
    pub(super) fn check_plain(&self, info: &vk::ImageCreateInfo<'_>) -> Result<(), DeviceError> {
        check_image(info)?;
        valid::image(info, self.0.found.image_limits)
    }

    /// Refuses what safe code described and Vulkan forbids or this device has no image for.
    pub(super) fn check_described(&self, info: &vk::ImageCreateInfo<'_>) -> Result<(), DeviceError> {
        self.check_plain(info)?;
        self.check_supported(info)
    }

    /// Refuses what is beyond the device's limits for that format and usage.
    pub(super) fn check_supported(&self, info: &vk::ImageCreateInfo<'_>) -> Result<(), DeviceError> {
        // SAFETY: the physical device is the instance's and alive (see `Device::new`).
        let most = unsafe {
            self.0.instance.get_physical_device_image_format_properties(
                self.0.physical,
                info.format,
                info.image_type,
                info.tiling,
                info.usage,
                info.flags,
            )
        }?;
        valid::within(info, &most)
    }
}

/// Refuses what would be undefined behaviour or cannot be placed.
pub(super) fn check_image(info: &vk::ImageCreateInfo<'_>) -> Result<(), DeviceError> {
    let extent = info.extent;
    if [extent.width, extent.height, extent.depth, info.mip_levels, info.array_layers].contains(&0) {
        return Err(DeviceError::InvalidInfo("a texture has at least one texel, mip level and layer"));
    }
    if info.flags.intersects(vk::ImageCreateFlags::SPARSE_BINDING) {
        return Err(DeviceError::InvalidInfo("sparse textures are not placed in one memory"));
    }
    if info.flags.intersects(vk::ImageCreateFlags::DISJOINT) {
        return Err(DeviceError::InvalidInfo("disjoint textures are not placed in one memory"));
    }
    Ok(())
}

/// Which class an image is of. Vulkan parts linear resources (buffers, images with linear tiling) from all others.
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

/// Vulkan's format for the portable one.
pub(super) fn format(format: Format) -> vk::Format {
    match format {
        Format::Rgba8Unorm => vk::Format::R8G8B8A8_UNORM,
        Format::Rgba16Float => vk::Format::R16G16B16A16_SFLOAT,
        Format::R32Float => vk::Format::R32_SFLOAT,
        Format::D32Float => vk::Format::D32_SFLOAT,
    }
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

/// What an image's description says portably; `None` for other shapes and formats.
fn portable(info: &vk::ImageCreateInfo<'_>) -> Option<TextureDesc> {
    let format = [Format::Rgba8Unorm, Format::Rgba16Float, Format::R32Float, Format::D32Float]
        .into_iter()
        .find(|portable| format(*portable) == info.format)?;
    let plain = info.image_type == vk::ImageType::TYPE_2D && info.extent.depth == 1;
    let usages = USAGES.into_iter().filter(|(_, equal)| info.usage.contains(*equal));
    plain.then(|| TextureDesc {
        width: info.extent.width,
        height: info.extent.height,
        layers: info.array_layers,
        mips: info.mip_levels,
        samples: info.samples.as_raw(),
        format,
        usage: usages.fold(TextureUsage::empty(), |all, (usage, _)| all | usage),
    })
}

/// What all of an image is; `None` for formats of several planes, whose planes have sizes of their own.
pub(super) fn parts(info: &vk::ImageCreateInfo<'_>) -> Option<TextureParts> {
    const DEPTH: [vk::Format; 3] = [vk::Format::D16_UNORM, vk::Format::X8_D24_UNORM_PACK32, vk::Format::D32_SFLOAT];
    const BOTH: [vk::Format; 3] =
        [vk::Format::D16_UNORM_S8_UINT, vk::Format::D24_UNORM_S8_UINT, vk::Format::D32_SFLOAT_S8_UINT];
    let aspects = match info.format {
        format if DEPTH.contains(&format) => TextureAspects::DEPTH,
        format if BOTH.contains(&format) => TextureAspects::DEPTH | TextureAspects::STENCIL,
        vk::Format::S8_UINT => TextureAspects::STENCIL,
        // Those of YCbCr, of which most have planes, are numbered by the extension that brought them.
        format if (1_000_156_000..1_000_157_000).contains(&format.as_raw()) => return None,
        format if (1_000_330_000..1_000_331_000).contains(&format.as_raw()) => return None,
        _ => TextureAspects::COLOR,
    };
    let vk::Extent3D { width, height, depth } = info.extent;
    Some(TextureParts { width, height, depth, layers: info.array_layers, mips: info.mip_levels, aspects })
}

/// Vulkan's usage flags for the portable ones.
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
        let of = |format| parts(&vk::ImageCreateInfo::default().format(format)).map(|parts| parts.aspects);
        assert_eq!(of(vk::Format::BC7_SRGB_BLOCK), Some(TextureAspects::COLOR));
        assert_eq!(of(vk::Format::D32_SFLOAT), Some(TextureAspects::DEPTH));
        assert_eq!(of(vk::Format::D24_UNORM_S8_UINT), Some(TextureAspects::DEPTH | TextureAspects::STENCIL));
        assert_eq!(of(vk::Format::G8_B8R8_2PLANE_420_UNORM), None);
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
