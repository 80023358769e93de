//! Placeholders for empty elements of a plain set. They are needed if the device requires every element to be valid:
//! for views if the device has no null descriptors, and for samplers, which cannot be null. Each heap creates its own
//! placeholders: a buffer of 256 bytes, and images of one texel. Shaders must not read them.

use ash::vk;

use crate::error::failed;
use smallvec::SmallVec;

use super::kinds::{self, Kind};
use super::view::Shown;
use crate::device::Device;
use crate::memory::Memory;
use crate::valid::Numeric;
use ringfence_hal::descriptors::{HeapDesc, HeapKind, ViewTypes};
use ringfence_hal::lock::Lock;
use ringfence_hal::{DeviceError, Driver, MemoryProperties, ResourceClass};

/// Size of the buffer, in bytes: at least a texel of any format, and at least the alignment of views.
const BYTES: u64 = 256;
/// Number of numeric types of texels.
const NUMERICS: u32 = 3;

/// The placeholders of a heap.
#[derive(Default)]
pub(super) struct Filler {
    sampler: vk::Sampler,
    buffer: vk::Buffer,
    texels: SmallVec<[vk::BufferView; NUMERICS as usize]>,
    images: SmallVec<[Image; 4]>,
    memories: Lock<SmallVec<[Memory; 4]>>,
}

struct Image {
    kind: u32,
    raw: vk::Image,
    view: vk::ImageView,
}

impl Filler {
    pub(super) fn new(device: &Device, desc: &HeapDesc<'_>) -> Result<Self, DeviceError> {
        let mut filler = Self::default();
        match filler.create_placeholders(device, desc) {
            Ok(()) => Ok(filler),
            Err(error) => {
                // SAFETY: no work uses the placeholders. Null handles are ignored.
                unsafe { filler.destroy(device) };
                Err(error)
            }
        }
    }

    /// Creates the placeholders that the heap needs. On failure, the caller destroys those that exist.
    fn create_placeholders(&mut self, device: &Device, desc: &HeapDesc<'_>) -> Result<(), DeviceError> {
        if desc.kind == HeapKind::Samplers {
            // SAFETY: the description is valid.
            self.sampler = unsafe { device.create_sampler(&vk::SamplerCreateInfo::default()) }?;
            return Ok(());
        }
        let textures = ViewTypes::SAMPLED_TEXTURE | ViewTypes::STORAGE_TEXTURE;
        if !desc.types.difference(textures).is_empty() {
            self.make_buffer(device, desc.name)?;
        }
        let views = device.0.descriptors.desc.plain_views.or_usual();
        let kinds = (0..kinds::IMAGE_KINDS).filter(|kind| views.bits() >> kind & 1 == 1);
        let has_textures = desc.types.intersects(textures);
        kinds.filter(|_| has_textures).try_for_each(|kind| self.make_image(device, kind, desc.name))
    }

    fn make_buffer(&mut self, device: &Device, name: &str) -> Result<(), DeviceError> {
        let usage = vk::BufferUsageFlags::UNIFORM_BUFFER
            | vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER
            | vk::BufferUsageFlags::STORAGE_TEXEL_BUFFER;
        let raw = device.raw();
        // SAFETY: the description is valid.
        self.buffer = unsafe { raw.create_buffer(&vk::BufferCreateInfo::default().size(BYTES).usage(usage), None) }
            .map_err(failed("vkCreateBuffer"))?;
        // SAFETY: the buffer is new.
        let needed = unsafe { raw.get_buffer_memory_requirements(self.buffer) };
        let memory = self.allocate(device, needed, (ResourceClass::Buffer, name))?;
        // SAFETY: the buffer is new and unbound. The memory has an allowed type and is large enough.
        unsafe { raw.bind_buffer_memory(self.buffer, memory, 0) }.map_err(failed("vkBindBufferMemory"))?;
        for rank in 0..NUMERICS {
            let info = vk::BufferViewCreateInfo::default().buffer(self.buffer).range(BYTES);
            let info = info.format(kinds::plain_format(rank));
            // SAFETY: the buffer is bound, and every device supports texels of this format.
            let view = unsafe { raw.create_buffer_view(&info, None) }.map_err(failed("vkCreateBufferView"))?;
            self.texels.push(view);
        }
        Ok(())
    }

    fn make_image(&mut self, device: &Device, kind: u32, name: &str) -> Result<(), DeviceError> {
        let (view_type, format) = kinds::image_of(kind);
        let (image_type, flags, layers) = match view_type {
            vk::ImageViewType::TYPE_1D | vk::ImageViewType::TYPE_1D_ARRAY => (vk::ImageType::TYPE_1D, None, 1),
            vk::ImageViewType::TYPE_3D => (vk::ImageType::TYPE_3D, None, 1),
            vk::ImageViewType::CUBE | vk::ImageViewType::CUBE_ARRAY => {
                (vk::ImageType::TYPE_2D, Some(vk::ImageCreateFlags::CUBE_COMPATIBLE), 6)
            }
            _ => (vk::ImageType::TYPE_2D, None, 1),
        };
        let info = vk::ImageCreateInfo::default()
            .flags(flags.unwrap_or_default())
            .image_type(image_type)
            .format(format)
            .extent(vk::Extent3D { width: 1, height: 1, depth: 1 })
            .mip_levels(1)
            .array_layers(layers)
            .samples(vk::SampleCountFlags::TYPE_1)
            .usage(vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::STORAGE);
        let raw = device.raw();
        // SAFETY: every device supports sampled images and storage images of this format.
        let image = unsafe { raw.create_image(&info, None) }.map_err(failed("vkCreateImage"))?;
        self.images.push(Image { kind, raw: image, view: vk::ImageView::null() });
        // SAFETY: the image is new.
        let needed = unsafe { raw.get_image_memory_requirements(image) };
        let memory = self.allocate(device, needed, (ResourceClass::Texture, name))?;
        // SAFETY: the image is new and unbound. The memory has an allowed type and is large enough.
        unsafe { raw.bind_image_memory(image, memory, 0) }.map_err(failed("vkBindImageMemory"))?;
        let range = vk::ImageSubresourceRange {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            level_count: 1,
            layer_count: layers,
            ..Default::default()
        };
        let info = vk::ImageViewCreateInfo::default().image(image).view_type(view_type).format(format);
        // SAFETY: the image is bound, and its description allows this view.
        let view = unsafe { raw.create_image_view(&info.subresource_range(range), None) }
            .map_err(failed("vkCreateImageView"))?;
        self.images.last_mut().expect("it was pushed above").view = view;
        Ok(())
    }

    /// Allocates memory from the first memory type that has enough, without types that need a feature or have special
    /// rules.
    fn allocate(
        &mut self,
        device: &Device,
        needed: vk::MemoryRequirements,
        (class, name): (ResourceClass, &str),
    ) -> Result<vk::DeviceMemory, DeviceError> {
        let special = MemoryProperties::PROTECTED | MemoryProperties::SPECIAL | MemoryProperties::LAZILY_ALLOCATED;
        let types = (0..)
            .zip(&device.capabilities().memory_types)
            .filter(|(index, held)| needed.memory_type_bits >> index & 1 == 1 && !held.properties.intersects(special));
        let types = types.map(|(index, _)| index);
        let memory = device.allocate_first(types, needed, class, name, "memory for placeholder descriptors")?;
        let raw = memory.raw();
        self.memories.get_mut().push(memory);
        Ok(raw)
    }

    /// Returns the placeholder for a binding of this type and kind.
    pub(super) fn shown(&self, descriptor_type: vk::DescriptorType, kind: Kind) -> Option<Shown> {
        let (buffer, range) = (self.buffer, BYTES);
        let texels = |rank: usize| {
            let (view, format) = (*self.texels.get(rank)?, kinds::plain_format(rank as u32));
            Some(Shown::Texels { view, buffer, format, offset: 0, range })
        };
        match (descriptor_type, kind) {
            (vk::DescriptorType::SAMPLER, _) => {
                Some(Shown::Image(vk::DescriptorImageInfo::default().sampler(self.sampler)))
            }
            (_, Kind::Image(kind)) => {
                let image = self.images.iter().find(|image| image.kind == kind)?;
                let info = vk::DescriptorImageInfo::default().image_view(image.view);
                Some(Shown::Image(info.image_layout(vk::ImageLayout::GENERAL)))
            }
            (_, Kind::Texels(Numeric::Unsigned)) => texels(1),
            (_, Kind::Texels(Numeric::Signed)) => texels(2),
            (vk::DescriptorType::UNIFORM_TEXEL_BUFFER | vk::DescriptorType::STORAGE_TEXEL_BUFFER, _) => texels(0),
            _ => Some(Shown::Buffer { buffer, offset: 0, range }),
        }
    }

    /// # Safety
    /// No pending work uses a set with these placeholders, and no set with them is bound again.
    pub(super) unsafe fn destroy(&self, device: &Device) {
        let raw = device.raw();
        // SAFETY: the caller promises that no work uses the placeholders. Vulkan ignores null handles here.
        unsafe {
            device.destroy_sampler(self.sampler);
            self.texels.iter().for_each(|view| raw.destroy_buffer_view(*view, None));
            raw.destroy_buffer(self.buffer, None);
            for image in &self.images {
                raw.destroy_image_view(image.view, None);
                raw.destroy_image(image.raw, None);
            }
            self.memories.lock().drain(..).for_each(|memory| device.free_memory(memory));
        }
    }
}
