//! What buffers and images are described with: Vulkan's own structures, behind constructors that safe code may call.

use ash::vk::{self, TaggedStructure};

use super::chained::structures;

/// A buffer to be made.
///
/// `vk::BufferCreateInfo` can hold any pointer, so that handing one on is `unsafe` ([`BufferInfo::from_raw`]). Most
/// buffers need no more than a size and usage flags, which is safe ([`BufferInfo::new`]): the device refuses what
/// breaks a rule of valid usage, by name, before the driver sees it.
#[derive(Clone, Copy)]
pub struct BufferInfo<'a> {
    raw: vk::BufferCreateInfo<'a>,
    /// Whether safe code described it, so that its usage flags are to be checked.
    check: bool,
}

impl BufferInfo<'static> {
    /// A buffer of `size` bytes that one queue family at a time uses.
    ///
    /// Taken are the usage flags of Vulkan 1.0 and those of the features and extensions that
    /// [`DeviceDesc`](super::DeviceDesc) names as enabled. Any other is refused with
    /// [`DeviceError::InvalidInfo`](ringfence_hal::DeviceError::InvalidInfo) when the buffer is made.
    #[must_use]
    pub fn new(size: u64, usage: vk::BufferUsageFlags) -> Self {
        Self { raw: vk::BufferCreateInfo::default().size(size).usage(usage), check: true }
    }
}

impl<'a> BufferInfo<'a> {
    /// A buffer described by Vulkan's own structure.
    ///
    /// # Safety
    /// `vkCreateBuffer` accepts it: all that it points to is valid, and it breaks no rule of valid usage.
    #[must_use]
    pub const unsafe fn from_raw(raw: vk::BufferCreateInfo<'a>) -> Self {
        Self { raw, check: false }
    }

    /// Vulkan's own structure.
    pub const fn raw(&self) -> &vk::BufferCreateInfo<'a> {
        &self.raw
    }

    /// The usage flags: those of a chained `VkBufferUsageFlags2CreateInfo` stand in place of the structure's own, and
    /// its low half means the same.
    pub(super) fn usage(&self) -> vk::BufferUsageFlags {
        // SAFETY: safe code chains nothing, and who calls `from_raw` promises that all that is pointed to is valid.
        let mut chain = unsafe { structures(self.raw.p_next) };
        let wide = chain.find(|structure| structure.s_type == vk::BufferUsageFlags2CreateInfoKHR::STRUCTURE_TYPE);
        let Some(wide) = wide else { return self.raw.usage };
        // SAFETY: its type says what it is.
        let flags = unsafe { (*std::ptr::from_ref(wide).cast::<vk::BufferUsageFlags2CreateInfoKHR<'_>>()).usage };
        vk::BufferUsageFlags::from_raw(flags.as_raw() as u32)
    }

    /// The same of another size.
    pub(super) fn with_size(&self, size: u64) -> Self {
        Self { raw: self.raw.size(size), check: self.check }
    }

    /// Whether its usage flags are to be checked: safe code described it.
    pub(super) const fn needs_check(&self) -> bool {
        self.check
    }
}

/// An image to be made. See [`BufferInfo`].
#[derive(Clone, Copy)]
pub struct TextureInfo<'a> {
    raw: vk::ImageCreateInfo<'a>,
    /// Whether safe code described it, so that it is checked, and support by the device queried.
    check: bool,
}

impl TextureInfo<'static> {
    /// A two-dimensional image with one mip level, layer and sample, optimally tiled.
    ///
    /// Taken are the formats of Vulkan 1.0 and those of Y'CbCr that 1.1 brought, and the usage flags of 1.0. Anything
    /// else, and whatever breaks a rule of valid usage, is refused when the image is made, with
    /// [`DeviceError::InvalidInfo`](ringfence_hal::DeviceError::InvalidInfo); what the device does not have, with
    /// [`DeviceError::Unsupported`](ringfence_hal::DeviceError::Unsupported).
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
        Self { raw, check: true }
    }

    /// With `mips` mip levels. Like [`TextureInfo::layers`] and [`TextureInfo::samples`] for what [`TextureInfo::new`]
    /// describes: other raw descriptions are refused once they have been changed.
    #[must_use]
    pub const fn mips(mut self, mips: u32) -> Self {
        self.raw.mip_levels = mips;
        self.check = true;
        self
    }

    /// With `layers` array layers.
    #[must_use]
    pub const fn layers(mut self, layers: u32) -> Self {
        self.raw.array_layers = layers;
        self.check = true;
        self
    }

    /// With `samples` samples a texel.
    #[must_use]
    pub const fn samples(mut self, samples: vk::SampleCountFlags) -> Self {
        self.raw.samples = samples;
        self.check = true;
        self
    }
}

impl<'a> TextureInfo<'a> {
    /// An image described by Vulkan's own structure.
    ///
    /// # Safety
    /// `vkCreateImage` accepts it: all that it points to is valid, and it breaks no rule of valid usage.
    #[must_use]
    pub const unsafe fn from_raw(raw: vk::ImageCreateInfo<'a>) -> Self {
        Self { raw, check: false }
    }

    /// An image as the portable description says: support by the device is queried before it is made.
    pub(super) const fn described(raw: vk::ImageCreateInfo<'a>) -> Self {
        Self { raw, check: true }
    }

    /// Vulkan's own structure.
    pub const fn raw(&self) -> &vk::ImageCreateInfo<'a> {
        &self.raw
    }

    /// Whether it is to be checked, and support by the device queried: safe code described it, or changed it.
    pub(super) const fn needs_check(&self) -> bool {
        self.check
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
        // SAFETY: no driver sees them, and what they point to is alive.
        let (own, chained) = unsafe { (BufferInfo::from_raw(own), BufferInfo::from_raw(chained)) };
        assert_eq!(own.usage(), vk::BufferUsageFlags::VERTEX_BUFFER);
        let expected = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        assert_eq!(chained.usage(), expected);
    }
}
