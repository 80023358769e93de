//! Descriptions of buffers and images: Vulkan's own structures, with constructors for safe code.

use ash::vk::{self, TaggedStructure};

use super::device::Device;
use super::pnext_chain::structures;
use ringfence_hal::{Buffers, Describe, DeviceError, FormatSet, Textures};

/// Description of a buffer to create.
///
/// `vk::BufferCreateInfo` can contain invalid pointers, so creating a buffer from one is `unsafe`
/// ([`BufferInfo::from_raw`]). Most buffers need only a size and usage flags. [`BufferInfo::new`] is safe for these:
/// the device checks the rules of valid usage before it calls the driver, and the error names the broken rule.
#[derive(Clone, Copy)]
pub struct BufferInfo<'a> {
    raw: vk::BufferCreateInfo<'a>,
    /// `true` if safe code described the buffer. Its usage flags are then checked.
    check: bool,
}

impl BufferInfo<'static> {
    /// Describes a buffer of `size` bytes with exclusive sharing mode.
    ///
    /// Usage flags may be those of Vulkan 1.0, and those of device addresses, acceleration structures, ray tracing
    /// pipelines, transform feedback and conditional rendering if [`DeviceDesc`](super::DeviceDesc) lists that feature
    /// as enabled. With other flags, the creation of the buffer fails with [`DeviceError::InvalidInfo`].
    #[must_use]
    pub fn new(size: u64, usage: vk::BufferUsageFlags) -> Self {
        Self { raw: vk::BufferCreateInfo::default().size(size).usage(usage), check: true }
    }
}

impl<'a> BufferInfo<'a> {
    /// Describes a buffer by Vulkan's own structure.
    ///
    /// # Safety
    /// `vkCreateBuffer` accepts `raw`: all of its pointers are valid, and it breaks no rule of valid usage.
    #[must_use]
    pub const unsafe fn from_raw(raw: vk::BufferCreateInfo<'a>) -> Self {
        Self { raw, check: false }
    }

    /// Returns Vulkan's own structure.
    pub const fn raw(&self) -> &vk::BufferCreateInfo<'a> {
        &self.raw
    }

    /// Returns the usage flags. If a `VkBufferUsageFlags2CreateInfo` is chained, returns the low 32 bits of its flags,
    /// which have the same meaning.
    pub(super) fn usage(&self) -> vk::BufferUsageFlags {
        // SAFETY: safe code chains no structures, and the caller of `from_raw` promises that all pointers are valid.
        let mut chain = unsafe { structures(self.raw.p_next) };
        let wide = chain.find(|structure| structure.s_type == vk::BufferUsageFlags2CreateInfoKHR::STRUCTURE_TYPE);
        let Some(wide) = wide else { return self.raw.usage };
        // SAFETY: the structure has the type that `s_type` names.
        let flags = unsafe { (*std::ptr::from_ref(wide).cast::<vk::BufferUsageFlags2CreateInfoKHR<'_>>()).usage };
        vk::BufferUsageFlags::from_raw(flags.as_raw() as u32)
    }

    /// Returns this description with another size, in bytes.
    pub(super) fn with_size(&self, size: u64) -> Self {
        Self { raw: self.raw.size(size), check: self.check }
    }

    /// Returns `true` if safe code described the buffer. Its usage flags are then checked.
    pub(super) const fn needs_check(&self) -> bool {
        self.check
    }
}

/// Description of an image to create. See [`BufferInfo`].
#[derive(Clone, Copy)]
pub struct TextureInfo<'a> {
    raw: vk::ImageCreateInfo<'a>,
    /// `true` if safe code described or changed the image. It is then checked, and the device's support is queried.
    check: bool,
    /// Further formats of views. If there are any, `raw` has the flag `MUTABLE_FORMAT`.
    view_formats: FormatSet,
}

impl TextureInfo<'static> {
    /// Describes a two-dimensional image with one mip level, one layer, one sample, and optimal tiling.
    ///
    /// The format may be one of Vulkan 1.0 or a Y'CbCr format of Vulkan 1.1; the usage flags may be those of Vulkan
    /// 1.0.
    ///
    /// The creation of the image fails with [`DeviceError::InvalidInfo`] for other formats or flags, or if the
    /// description breaks a rule of valid usage. It fails with [`DeviceError::Unsupported`] if the device does not
    /// support the image.
    #[must_use]
    pub fn new(format: vk::Format, width: u32, height: u32, usage: vk::ImageUsageFlags) -> Self {
        let raw = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(format)
            .extent(vk::Extent3D { width, height, depth: 1 })
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .tiling(vk::ImageTiling::OPTIMAL)
            .usage(usage)
            .initial_layout(vk::ImageLayout::UNDEFINED);
        Self { raw, check: true, view_formats: FormatSet::EMPTY }
    }

    /// Describes a one-dimensional image; otherwise as [`TextureInfo::new`].
    #[must_use]
    pub fn d1(format: vk::Format, width: u32, usage: vk::ImageUsageFlags) -> Self {
        let described = Self::new(format, width, 1, usage);
        Self { raw: described.raw.image_type(vk::ImageType::TYPE_1D), ..described }
    }

    /// Describes a three-dimensional image of `[width, height, depth]` texels; otherwise as [`TextureInfo::new`].
    #[must_use]
    pub fn d3(format: vk::Format, [width, height, depth]: [u32; 3], usage: vk::ImageUsageFlags) -> Self {
        let described = Self::new(format, width, height, usage);
        let extent = vk::Extent3D { width, height, depth };
        Self { raw: described.raw.image_type(vk::ImageType::TYPE_3D).extent(extent), ..described }
    }

    /// Describes a cube whose faces have `size` × `size` texels; otherwise as [`TextureInfo::new`]. It has six layers.
    /// For an array of cubes, set a multiple of six with [`TextureInfo::layers`].
    #[must_use]
    pub fn cube(format: vk::Format, size: u32, usage: vk::ImageUsageFlags) -> Self {
        let described = Self::new(format, size, size, usage).layers(6);
        Self { raw: described.raw.flags(vk::ImageCreateFlags::CUBE_COMPATIBLE), ..described }
    }

    /// Sets the number of mip levels.
    ///
    /// This method, [`TextureInfo::layers`] and [`TextureInfo::samples`] are for descriptions from the safe
    /// constructors. After a change, a description from [`TextureInfo::from_raw`] is refused if safe code could not
    /// have described the result.
    #[must_use]
    pub const fn mips(mut self, mips: u32) -> Self {
        self.raw.mip_levels = mips;
        self.check = true;
        self
    }

    /// Sets further formats of views. If `formats` is not empty, the image is created with `MUTABLE_FORMAT` and a
    /// `VkImageFormatListCreateInfo`.
    #[must_use]
    pub fn view_formats(mut self, formats: FormatSet) -> Self {
        let flags = self.without_views().flags;
        let mutable = vk::ImageCreateFlags::MUTABLE_FORMAT;
        self.raw.flags = if formats.is_empty() { flags } else { flags | mutable };
        (self.view_formats, self.check) = (formats, true);
        self
    }

    /// Sets the number of array layers.
    #[must_use]
    pub const fn layers(mut self, layers: u32) -> Self {
        self.raw.array_layers = layers;
        self.check = true;
        self
    }

    /// Sets the number of samples per texel.
    #[must_use]
    pub const fn samples(mut self, samples: vk::SampleCountFlags) -> Self {
        self.raw.samples = samples;
        self.check = true;
        self
    }
}

impl<'a> TextureInfo<'a> {
    /// Describes an image by Vulkan's own structure.
    ///
    /// # Safety
    /// `vkCreateImage` accepts `raw`: all of its pointers are valid, and it breaks no rule of valid usage.
    #[must_use]
    pub const unsafe fn from_raw(raw: vk::ImageCreateInfo<'a>) -> Self {
        Self { raw, check: false, view_formats: FormatSet::EMPTY }
    }

    /// Describes an image that was converted from a portable description. The device's support is queried before the
    /// image is created.
    pub(super) const fn described(raw: vk::ImageCreateInfo<'a>) -> Self {
        Self { raw, check: true, view_formats: FormatSet::EMPTY }
    }

    /// Returns the same description with another structure, which has passed the checks.
    pub(super) const fn with_checked<'b>(&self, raw: vk::ImageCreateInfo<'b>) -> TextureInfo<'b> {
        TextureInfo { raw, check: false, view_formats: self.view_formats }
    }

    /// Returns further formats of views.
    pub(super) const fn further_formats(&self) -> FormatSet {
        self.view_formats
    }

    /// Returns the structure without the flag that [`TextureInfo::view_formats`] sets.
    pub(super) fn without_views(&self) -> vk::ImageCreateInfo<'a> {
        let mut raw = self.raw;
        raw.flags &= if self.view_formats.is_empty() { raw.flags } else { !vk::ImageCreateFlags::MUTABLE_FORMAT };
        raw
    }

    /// Returns Vulkan's own structure.
    pub const fn raw(&self) -> &vk::ImageCreateInfo<'a> {
        &self.raw
    }

    /// Returns `true` if safe code described or changed the image. It is then checked, and the device's support is
    /// queried.
    pub(super) const fn needs_check(&self) -> bool {
        self.check
    }
}

impl Describe<Device, Buffers> for BufferInfo<'_> {
    #[inline]
    fn with_info<R>(&self, _: &Device, then: impl FnOnce(&Self) -> R) -> Result<R, DeviceError> {
        Ok(then(self))
    }
}

impl Describe<Device, Textures> for TextureInfo<'_> {
    #[inline]
    fn with_info<R>(&self, _: &Device, then: impl FnOnce(&Self) -> R) -> Result<R, DeviceError> {
        Ok(then(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_flags_that_are_chained_stand_in_place_of_the_structures_own() {
        let flags = vk::BufferUsageFlags2KHR::TRANSFER_SRC | vk::BufferUsageFlags2KHR::SHADER_DEVICE_ADDRESS;
        let mut wide = vk::BufferUsageFlags2CreateInfoKHR::default().usage(flags);
        let mut external = vk::ExternalMemoryBufferCreateInfo::default();
        let own = vk::BufferCreateInfo::default().size(16).usage(vk::BufferUsageFlags::VERTEX_BUFFER);
        let chained = own.push_next(&mut external).push_next(&mut wide);
        // SAFETY: no driver sees the descriptions, and everything that they point to is alive.
        let (own, chained) = unsafe { (BufferInfo::from_raw(own), BufferInfo::from_raw(chained)) };
        assert_eq!(own.usage(), vk::BufferUsageFlags::VERTEX_BUFFER);
        let expected = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        assert_eq!(chained.usage(), expected);
    }
}
