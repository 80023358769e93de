//! Sparse buffers and images: `vkCreateBuffer` and `vkCreateImage` with sparse residency, `vkQueueBindSparse`.
//!
//! ```text
//!   pages of a buffer   VkSparseMemoryBind of the buffer
//!   tiles of an image   VkSparseImageMemoryBind, one per tile: Vulkan does not define the order of several tiles
//!   pages of a tail     VkSparseMemoryBind, opaque
//! ```

use ash::vk;

use crate::error::failed;

use super::device::Device;
use super::features::Features;
use super::info::{BufferInfo, TextureInfo};
use super::memory::{Memory, requirements};
use super::{image, record, valid};
use ringfence_hal::sparse::{PageBind, Sparse, TextureTiling, TilePlace, UnboundReads};
use ringfence_hal::{DeviceError, Numbers, Requirements, ResourceClass};

// SAFETY: sparse resources, and the memory that is bound to them, are objects of the driver.
unsafe impl Sparse for Device {
    /// A queue of a family with `SPARSE_BINDING`.
    type BindQueue = vk::Queue;

    fn sparse_support(&self) -> Option<UnboundReads> {
        self.has(Features::SPARSE_BUFFERS).then_some(self.unbound_reads())
    }

    fn sparse_texture_support(&self) -> Option<UnboundReads> {
        self.has(Features::SPARSE_TEXTURES).then_some(self.unbound_reads())
    }

    unsafe fn make_sparse(&self, info: &BufferInfo<'_>) -> Result<(vk::Buffer, Requirements), DeviceError> {
        if !self.has(Features::SPARSE_BUFFERS) {
            return Err(DeviceError::unsupported("sparse buffers: the features were not enabled"));
        }
        self.check_buffer(info)?;
        self.check_sparse_bytes(info.raw().size.into())?;
        let flags = vk::BufferCreateFlags::SPARSE_BINDING | vk::BufferCreateFlags::SPARSE_RESIDENCY;
        let info = info.raw().flags(info.raw().flags | flags);
        let device = &self.0.device;
        // SAFETY: the caller promises that `info` is valid, and the features are enabled.
        let raw = unsafe { self.create_buffer(&info) }?;
        // SAFETY: the buffer belongs to this device and is alive.
        let needed = unsafe { device.get_buffer_memory_requirements(raw) };
        let needs = requirements(needed, Default::default(), ResourceClass::Buffer);
        Ok((raw, Requirements { size: needs.size.next_multiple_of(needs.alignment), ..needs }))
    }

    unsafe fn bind_pages(
        &self,
        queue: &vk::Queue,
        (buffer, page_bytes): (&vk::Buffer, u64),
        binds: &[PageBind<'_, Memory>],
        waits: &[(vk::Semaphore, u64)],
        signal: (vk::Semaphore, u64),
    ) -> Result<(), DeviceError> {
        let bound = |run: &PageBind<'_, Memory>| bind(run.first * page_bytes, run.count * page_bytes, run.memory);
        let binds: Vec<_> = binds.iter().map(bound).collect();
        let buffers = [vk::SparseBufferMemoryBindInfo::default().buffer(*buffer).binds(&binds)];
        let info = vk::BindSparseInfo::default();
        let info = if binds.is_empty() { info } else { info.buffer_binds(&buffers) };
        // SAFETY: the caller promises that the resource, the memory and the semaphores are alive and that the runs fit.
        unsafe { self.bind_sparse(*queue, info, waits, signal) }
    }

    unsafe fn make_sparse_texture(&self, info: &TextureInfo<'_>) -> Result<(vk::Image, TextureTiling), DeviceError> {
        if !self.has(Features::SPARSE_TEXTURES) {
            return Err(DeviceError::unsupported("sparse textures: the features were not enabled"));
        }
        if info.needs_check() {
            self.check_described(info)?;
        }
        let plain = info.raw();
        image::check_image(plain)?;
        self.check_sparse_format(plain)?;
        let flags = vk::ImageCreateFlags::SPARSE_BINDING | vk::ImageCreateFlags::SPARSE_RESIDENCY;
        let info = plain.flags(plain.flags | flags);
        self.check_supported(&info)?;
        self.check_sparse_bytes(valid::bytes(&info))?;
        // SAFETY: the caller promises that `info` is valid, and the features are enabled.
        let raw = unsafe { self.create_image(&info) }?;
        match self.tiling(raw, &info) {
            Ok(tiling) => Ok((raw, tiling)),
            Err(error) => {
                // SAFETY: the image was created in this function.
                unsafe { self.destroy_image(raw) };
                Err(error)
            }
        }
    }

    unsafe fn bind_tiles(
        &self,
        queue: &vk::Queue,
        (texture, tiling): (&vk::Image, &TextureTiling),
        binds: &[PageBind<'_, Memory, TilePlace>],
        waits: &[(vk::Semaphore, u64)],
        signal: (vk::Semaphore, u64),
    ) -> Result<(), DeviceError> {
        let (mut tiles, mut tails) = (Vec::new(), Vec::new());
        for bind in binds {
            match bind.first {
                TilePlace::Tile { .. } => bind_tiles(tiling, bind, &mut tiles),
                TilePlace::Tail { layer, page } => tails.push(bind_tail(tiling, bind, layer, page)),
            }
        }
        let of_tiles = [vk::SparseImageMemoryBindInfo::default().image(*texture).binds(&tiles)];
        let of_tails = [vk::SparseImageOpaqueMemoryBindInfo::default().image(*texture).binds(&tails)];
        let info = vk::BindSparseInfo::default();
        let info = if tiles.is_empty() { info } else { info.image_binds(&of_tiles) };
        let info = if tails.is_empty() { info } else { info.image_opaque_binds(&of_tails) };
        // SAFETY: the caller promises that the resource, the memory and the semaphores are alive and that the runs fit.
        unsafe { self.bind_sparse(*queue, info, waits, signal) }
    }
}

impl Device {
    fn unbound_reads(&self) -> UnboundReads {
        let strict = self.0.found.reads_zero_where_unbound;
        if strict { UnboundReads::Zero } else { UnboundReads::Undefined }
    }

    /// # Safety
    /// All objects are alive. The queue supports sparse binding, and no other thread uses the queue. All page runs are
    /// inside the resource, and their memory is inside its memory objects.
    unsafe fn bind_sparse(
        &self,
        queue: vk::Queue,
        info: vk::BindSparseInfo<'_>,
        waits: &[(vk::Semaphore, u64)],
        signal: (vk::Semaphore, u64),
    ) -> Result<(), DeviceError> {
        let (fences, values): (Vec<_>, Vec<_>) = waits.iter().copied().unzip();
        let (signalled, signal) = ([signal.0], [signal.1]);
        let mut timeline =
            vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&values).signal_semaphore_values(&signal);
        let info = info.wait_semaphores(&fences).signal_semaphores(&signalled).push_next(&mut timeline);
        // SAFETY: the caller promises that all objects are alive, that no other thread uses the queue, which supports
        // sparse binding, and that the runs and the memory fit.
        unsafe { self.0.device.queue_bind_sparse(queue, &[info], vk::Fence::null()) }
            .map_err(failed("vkQueueBindSparse"))
    }

    /// Refuses resources larger than the device's sparse address space.
    fn check_sparse_bytes(&self, bytes: u128) -> Result<(), DeviceError> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        DeviceError::unsupported("a sparse resource of this size").at_most(bytes, self.0.found.sparse_bytes_max)
    }

    /// Refuses images that the features for two-dimensional sparse images do not cover, and formats without sparse
    /// support.
    fn check_sparse_format(&self, info: &vk::ImageCreateInfo<'_>) -> Result<(), DeviceError> {
        let (kind, tiling) = (info.image_type.as_raw() as u32, info.tiling.as_raw() as u32);
        DeviceError::unsupported("sparse textures of another type than VK_IMAGE_TYPE_2D")
            .exactly(kind.into(), vk::ImageType::TYPE_2D.as_raw() as u64)?;
        DeviceError::unsupported("sparse textures of several samples").exactly(info.samples.as_raw().into(), 1)?;
        DeviceError::unsupported("sparse textures that are not optimally tiled")
            .exactly(tiling.into(), vk::ImageTiling::OPTIMAL.as_raw() as u64)?;
        let plain = info.usage & !vk::ImageUsageFlags::TRANSIENT_ATTACHMENT;
        DeviceError::invalid("a sparse texture must not be a transient attachment")
            .flags(info.usage.as_raw().into(), plain.as_raw().into())?;
        // SAFETY: the physical device belongs to the instance and is alive (see `Device::new`).
        let formats = unsafe {
            self.0.instance.get_physical_device_sparse_image_format_properties(
                self.0.physical,
                info.format,
                info.image_type,
                info.samples,
                info.usage,
                info.tiling,
            )
        };
        let format = Numbers::Given(info.format.as_raw() as u32 as u64);
        let refused = DeviceError::unsupported("sparse textures of this format").with(format);
        if formats.is_empty() { Err(refused) } else { Ok(()) }
    }

    /// Returns the driver's division of an image into pages.
    fn tiling(&self, raw: vk::Image, info: &vk::ImageCreateInfo<'_>) -> Result<TextureTiling, DeviceError> {
        // SAFETY: the image belongs to this device, is alive, and is sparse.
        let (needed, parts) = unsafe {
            let needed = self.0.device.get_image_memory_requirements(raw);
            (needed, self.0.device.get_image_sparse_memory_requirements(raw))
        };
        let format = Numbers::Given(info.format.as_raw() as u32 as u64);
        let of_planes = DeviceError::unsupported("sparse textures of several planes").with(format);
        let aspects = image::parts(info).ok_or(of_planes)?.aspects;
        let [part] = parts[..] else {
            let (given, wanted) = (parts.len() as u64, 1);
            return Err(DeviceError::unsupported("sparse textures with separate pages for their aspects")
                .with(Numbers::Exactly { given, wanted }));
        };
        let (properties, page_bytes) = (part.format_properties, needed.alignment);
        let has_tail = part.image_mip_tail_first_lod < info.mip_levels && part.image_mip_tail_size > 0;
        let granularity = properties.image_granularity;
        Ok(TextureTiling {
            page_bytes,
            memory_type_bits: needed.memory_type_bits,
            class: image::class(info),
            aspects,
            size: [info.extent.width, info.extent.height],
            tile: [granularity.width, granularity.height],
            layers: info.array_layers,
            mips: info.mip_levels,
            tail_first_mip: if has_tail { part.image_mip_tail_first_lod } else { info.mip_levels },
            tail_pages: if has_tail { part.image_mip_tail_size.div_ceil(page_bytes) } else { 0 },
            is_tail_shared: properties.flags.contains(vk::SparseImageFormatFlags::SINGLE_MIPTAIL),
            tail_offset: part.image_mip_tail_offset,
            tail_stride: part.image_mip_tail_stride,
        })
    }
}

/// A run of pages of a texture.
type Tiles<'a> = PageBind<'a, Memory, TilePlace>;

fn bind(offset: u64, size: u64, memory: Option<(&Memory, u64)>) -> vk::SparseMemoryBind {
    let bind = vk::SparseMemoryBind::default().resource_offset(offset).size(size);
    match memory {
        Some((memory, offset)) => bind.memory(memory.raw()).memory_offset(offset),
        None => bind,
    }
}

/// Adds one bind for each tile of a run, or one unbind for the whole run.
fn bind_tiles(tiling: &TextureTiling, run: &Tiles<'_>, into: &mut Vec<vk::SparseImageMemoryBind>) {
    let TilePlace::Tile { mip, layer, column, row } = run.first else { return };
    let [across, down] = tiling.extent(mip);
    let (x, y) = (column * tiling.tile[0], row * tiling.tile[1]);
    let aspect_mask = record::aspects(tiling.aspects);
    // The last tile ends at the edge of the mip level.
    let tiles = |x: u32, count: u32| {
        vk::SparseImageMemoryBind::default()
            .subresource(vk::ImageSubresource { aspect_mask, mip_level: mip, array_layer: layer })
            .offset(vk::Offset3D { x: x as i32, y: y as i32, z: 0 })
            .extent(vk::Extent3D {
                width: (count * tiling.tile[0]).min(across - x),
                height: tiling.tile[1].min(down - y),
                depth: 1,
            })
    };
    let count = run.count as u32;
    match run.memory {
        None => into.push(tiles(x, count)),
        Some((memory, offset)) => into.extend((0..count).map(|step| {
            let bind = tiles(x + step * tiling.tile[0], 1);
            bind.memory(memory.raw()).memory_offset(offset + u64::from(step) * tiling.page_bytes)
        })),
    }
}

fn bind_tail(tiling: &TextureTiling, run: &Tiles<'_>, layer: u32, page: u64) -> vk::SparseMemoryBind {
    let offset = tiling.tail_offset + u64::from(layer) * tiling.tail_stride + page * tiling.page_bytes;
    bind(offset, run.count * tiling.page_bytes, run.memory)
}
