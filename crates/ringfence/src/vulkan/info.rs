//! What buffers and images are described with: Vulkan's own structures, behind constructors that safe code may call.

use ash::vk;

/// A buffer to be made.
///
/// `vk::BufferCreateInfo` can hold any pointer, so that handing one on is `unsafe` ([`BufferInfo::from_raw`]). Most
/// buffers need no more than a size and usage flags, which is safe ([`BufferInfo::new`]).
#[derive(Clone, Copy)]
pub struct BufferInfo<'a> {
    raw: vk::BufferCreateInfo<'a>,
}

impl BufferInfo<'static> {
    /// A buffer of `size` bytes that one queue family at a time uses. The usage flags must be ones that the device's
    /// enabled extensions know.
    #[must_use]
    pub fn new(size: u64, usage: vk::BufferUsageFlags) -> Self {
        Self { raw: vk::BufferCreateInfo::default().size(size).usage(usage) }
    }
}

impl<'a> BufferInfo<'a> {
    /// A buffer as described in Vulkan's own words.
    ///
    /// # Safety
    /// `vkCreateBuffer` accepts it: all that it points to is valid, and it breaks no rule of valid usage.
    #[must_use]
    pub const unsafe fn from_raw(raw: vk::BufferCreateInfo<'a>) -> Self {
        Self { raw }
    }

    /// The description in Vulkan's own words.
    pub const fn raw(&self) -> &vk::BufferCreateInfo<'a> {
        &self.raw
    }
}

/// An image to be made. See [`BufferInfo`].
#[derive(Clone, Copy)]
pub struct TextureInfo<'a> {
    raw: vk::ImageCreateInfo<'a>,
    /// Whether the device has yet to be asked if it has such images.
    check: bool,
}

impl TextureInfo<'static> {
    /// A two-dimensional image with one mip level, layer and sample, optimally tiled.
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

    /// With so many mip levels.
    #[must_use]
    pub const fn mips(mut self, mips: u32) -> Self {
        self.raw.mip_levels = mips;
        self
    }

    /// With so many array layers.
    #[must_use]
    pub const fn layers(mut self, layers: u32) -> Self {
        self.raw.array_layers = layers;
        self
    }

    /// With so many samples a texel.
    #[must_use]
    pub const fn samples(mut self, samples: vk::SampleCountFlags) -> Self {
        self.raw.samples = samples;
        self
    }
}

impl<'a> TextureInfo<'a> {
    /// An image as described in Vulkan's own words.
    ///
    /// # Safety
    /// `vkCreateImage` accepts it: all that it points to is valid, and it breaks no rule of valid usage.
    #[must_use]
    pub const unsafe fn from_raw(raw: vk::ImageCreateInfo<'a>) -> Self {
        Self { raw, check: false }
    }

    /// An image as the portable description says: the device is asked before it is made.
    pub(super) const fn described(raw: vk::ImageCreateInfo<'a>) -> Self {
        Self { raw, check: true }
    }

    /// The description in Vulkan's own words.
    pub const fn raw(&self) -> &vk::ImageCreateInfo<'a> {
        &self.raw
    }

    /// Whether the device is to be asked if it has such images: it was not, where safe code described one.
    pub(super) const fn is_unchecked(&self) -> bool {
        self.check
    }
}
