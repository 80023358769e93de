//! Heaps, rings and pipelines with which the rows of the table are run, one submission per row.

use std::collections::HashMap;
use std::time::Duration;

use ash::vk;
use ringfence::commands::{Commands, SubresourceRange};
use ringfence::descriptor::{Binding, DescriptorError, Persistent, ShaderVisibleDesc, View};
use ringfence::device::descriptors::{
    BufferView, BufferViewKind, Descriptors, Filter, HeapKind, SamplerDesc, TextureViewKind, ViewLayout, ViewTypes,
};
use ringfence::device::record::Record;
use ringfence::device::{BufferDesc, BufferUsage, DeviceError, TexelBox, TextureAspect, TextureUsage};
use ringfence::memory::Error;
use ringfence::upload::{Readback, ReadbackDesc, TexelTarget, Texels, UploadDesc};
use ringfence::vulkan::{CopyRecorder, Device, DeviceDesc, DeviceSetup, PlainViews};
use ringfence::{
    AllocationDesc, Allocator, AllocatorDesc, Buffer, Frame, Location, ReadbackRing, ShaderVisibleHeap, Texture,
    Timeline, UploadBatch, UploadRing,
};
use ringfence_testkit::Gpu;
use ringfence_testkit::vulkan::VulkanGpu;

use super::shader::{FIRST_SLOT, FOUND, LEVEL, SLOTS, Shader, VIEW_SLOT, WORDS, WRITTEN};
use super::texel::Channels;
use super::{BUFFER_TEXELS, FIRST_TEXEL, Row, Shown, image_type, number_in_buffer};

const PATIENCE: Duration = Duration::from_secs(30);
/// Size of each ring, in bytes.
const ROOM: u64 = 256 << 10;
const WORDS_BYTES: u64 = 4 * WORDS as u64;

/// A Vulkan device with the features that the shaders need, besides those of the test kit's device.
pub struct OwnDevice {
    raw: ash::Device,
    desc: DeviceDesc,
    /// `true` if shaders can declare storage images with formats beyond those of every device.
    pub has_extended_formats: bool,
    /// `true` if shaders can declare storage images without a format.
    pub has_no_formats: bool,
}

impl OwnDevice {
    /// Creates a device with the physical device, the instance and the features of `gpu`.
    pub fn new(gpu: &VulkanGpu) -> Self {
        let (instance, physical) = (gpu.instance(), gpu.device().physical());
        let priorities = [1.0];
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(gpu.queue_family()).queue_priorities(&priorities)];
        // SAFETY: the physical device belongs to the instance, which was created for Vulkan 1.2. The queue, the
        // extensions and the features exist.
        unsafe {
            let offered = instance.get_physical_device_features(physical);
            let mut setup = DeviceSetup::query(instance, physical, gpu.device().desc().features).expect("Vulkan 1.2");
            setup.core.shader_storage_image_extended_formats = offered.shader_storage_image_extended_formats;
            let no_formats =
                offered.shader_storage_image_read_without_format & offered.shader_storage_image_write_without_format;
            setup.core.shader_storage_image_read_without_format = no_formats;
            setup.core.shader_storage_image_write_without_format = no_formats;
            let (names, desc) = (setup.extension_names(), setup.desc());
            let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
            let raw = instance.create_device(physical, &setup.chain(info), None).expect("a second device");
            let has_extended_formats = offered.shader_storage_image_extended_formats == vk::TRUE;
            Self { raw, desc, has_extended_formats, has_no_formats: no_formats == vk::TRUE }
        }
    }

    /// Wraps the device. Heaps of plain sets have arrays for `plain_views`.
    pub fn wrap(&self, gpu: &VulkanGpu, plain_views: PlainViews) -> Device {
        let desc = DeviceDesc { plain_views, ..self.desc };
        // SAFETY: the device was created from these handles with the features in `desc`. Both outlive the wrapper.
        unsafe { Device::new(gpu.instance(), gpu.device().physical(), self.raw.clone(), desc) }.expect("Vulkan 1.2")
    }
}

impl Drop for OwnDevice {
    fn drop(&mut self) {
        // SAFETY: all objects of the device are destroyed.
        unsafe { self.raw.destroy_device(None) };
    }
}

type Heap = ShaderVisibleHeap<Device>;
type Slots = Persistent<Device>;

/// Everything that rows share. Fields are dropped in this order.
pub struct Bench {
    /// The slots of the words and of the sampler.
    fixed: [Slots; 2],
    heap: Heap,
    sampler_heap: Heap,
    words: Buffer<Device>,
    ring: UploadRing<Device>,
    results: ReadbackRing<Device>,
    timeline: Timeline<Device>,
    memory: Allocator<Device>,
    raw: Raw,
}

/// Driver objects without the library.
struct Raw {
    device: Device,
    queue: vk::Queue,
    semaphore: vk::Semaphore,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    /// Null before the first submission.
    layout: vk::PipelineLayout,
    pipelines: HashMap<Shader, vk::Pipeline>,
}

/// The resource of a row.
enum Resource {
    Texture(Texture<Device>),
    Buffer(Buffer<Device>),
}

/// The resource of a row, and the slot with its view.
pub struct Written {
    resource: Resource,
    slot: Slots,
}

impl Bench {
    /// Returns the number of slots that a heap of the rows can have.
    pub fn slots_max(device: &Device) -> u32 {
        device.visible_slots_max(HeapKind::Resources, ViewTypes::all())
    }

    /// Creates a bench with heaps that accept these types of view.
    pub fn new(gpu: &VulkanGpu, device: Device, types: ViewTypes) -> Self {
        let memory = Allocator::over(device.clone(), AllocatorDesc::default());
        let raw = Raw::new(device, gpu.queue_family());
        // SAFETY: each submission signals the value of its frame.
        let timeline = unsafe { memory.timeline(raw.semaphore) }.expect("the device is not lost");
        let (types, persistent_slots) = (types | ViewTypes::STORAGE_BUFFER, SLOTS);
        let desc = ShaderVisibleDesc { types, frame_slots: 0, persistent_slots, ..Default::default() };
        let heap = Heap::new(&memory, desc).expect("every device has this many slots");
        let mut first = heap.allocate(1).expect("room");
        let desc = ShaderVisibleDesc { kind: HeapKind::Samplers, ..desc };
        let sampler_heap = Heap::new(&memory, desc).expect("every device has this many samplers");
        let mut samplers = sampler_heap.allocate(1).expect("room");
        let nearest = Filter::Nearest;
        let sampler = SamplerDesc { magnify: nearest, minify: nearest, mip: nearest, ..Default::default() };
        samplers.write(0, &View::sampler(sampler).expect("a plain one")).expect("every device has it");
        let desc = BufferDesc { size: WORDS_BYTES, usage: BufferUsage::STORAGE | BufferUsage::COPY_DST };
        let readable = AllocationDesc { location: Location::Readback, ..Default::default() };
        let words = memory.create_buffer(&desc, readable).expect("there is room");
        let kind = BufferViewKind::Storage { stride: 0, writes: true };
        let view = View::buffer(&words, BufferView { kind, offset: 0, size: WORDS_BYTES }).expect("made for it");
        first.write(0, &view).expect("every device has it");
        assert_eq!([first.start(), samplers.start()], [FIRST_SLOT; 2]);
        let ring = UploadRing::new(&memory, UploadDesc { capacity: ROOM, ..Default::default() });
        let results = ReadbackRing::new(&memory, ReadbackDesc { capacity: ROOM, ..Default::default() });
        let (ring, results) = (ring.expect("there is room"), results.expect("there is room"));
        Self { fixed: [first, samplers], heap, sampler_heap, words, ring, results, timeline, memory, raw }
    }

    /// Drops everything, after all work is complete.
    pub fn close(self) {
        let Self { fixed, heap, sampler_heap, words, ring, results, timeline, memory, raw } = self;
        drop((fixed, heap, sampler_heap, words, ring, results));
        memory.shutdown(PATIENCE).expect("all work is complete");
        drop((timeline, memory, raw));
    }

    /// Creates the resource of a row and writes its view. Fails if the device does not support one of both.
    pub fn show(&self, row: &Row) -> Result<Written, DeviceError> {
        let unsupported = |error: DescriptorError| match error {
            DescriptorError::Device(error @ DeviceError::Unsupported(_)) => error,
            error => panic!("{row}: {error}"),
        };
        let made = |error: Error| match error {
            Error::Device(error @ DeviceError::Unsupported(_)) => error,
            error => panic!("{row}: {error}"),
        };
        // Frees the slot of the previous row.
        self.memory.reclaim();
        let mut slot = self.heap.allocate(1).expect("room");
        assert_eq!(slot.start(), VIEW_SLOT);
        match &row.shown {
            Shown::Texture { desc, view } => {
                let texture = self.memory.create_texture(desc, AllocationDesc::default()).map_err(made)?;
                let shown = View::texture(&texture, view.clone()).expect("the texture has such a view");
                slot.write(0, &shown).map_err(unsupported)?;
                Ok(Written { resource: Resource::Texture(texture), slot })
            }
            Shown::Buffer(kind) => {
                let bytes = row.channels().bytes as u64;
                let [offset, size] = [FIRST_TEXEL, BUFFER_TEXELS].map(|texels| u64::from(texels) * bytes);
                let desc = BufferDesc { size: offset + size, usage: kind.usage() | BufferUsage::COPY_DST };
                let location = if row.is_written() { Location::Readback } else { Location::Device };
                let placed = AllocationDesc { location, ..Default::default() };
                let buffer = self.memory.create_buffer(&desc, placed).map_err(made)?;
                let view = BufferView { kind: *kind, offset, size };
                let shown = View::buffer(&buffer, view).expect("the buffer has such a view");
                slot.write(0, &shown).map_err(unsupported)?;
                Ok(Written { resource: Resource::Buffer(buffer), slot })
            }
        }
    }

    /// Runs a row. Returns a description of each wrong texel.
    pub fn run(&mut self, row: &Row, Written { resource, slot }: Written, shader: &Shader) -> Vec<String> {
        let frame = self.timeline.begin();
        let value = frame.value();
        let mut binding =
            self.heap.bind(&frame).and_then(|binding| binding.and(&self.sampler_heap)).expect("the heaps are bound");
        let mut batch = UploadBatch::new();
        self.stage(&frame, row, &resource, &mut batch);
        let pipeline = self.raw.pipeline(&binding, shader);
        let raw = self.raw.device.raw().clone();
        let mut results = Vec::new();
        // SAFETY: all objects belong to the device and are alive; no other thread uses the queue or the command buffer,
        // and its last submission is complete. It is submitted as this frame.
        unsafe {
            let commands = self.raw.commands;
            raw.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default()).expect("an empty one");
            let mut recorder = CopyRecorder::new(&raw, commands).texture_layout(layout(row));
            batch.record(&mut recorder).expect("its frame is open");
            self.clear(&frame, row, &resource, &mut recorder);
            raw.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline);
            let (point, layout) = (vk::PipelineBindPoint::COMPUTE, self.raw.layout);
            binding.set(&self.raw.device, commands, point, layout, 0).expect("set once");
            raw.cmd_dispatch(commands, 1, 1, 1);
            let all = vk::PipelineStageFlags::ALL_COMMANDS;
            let read = vk::AccessFlags::HOST_READ | vk::AccessFlags::TRANSFER_READ;
            let barrier =
                [vk::MemoryBarrier::default().src_access_mask(vk::AccessFlags::SHADER_WRITE).dst_access_mask(read)];
            let to = all | vk::PipelineStageFlags::HOST;
            raw.cmd_pipeline_barrier(commands, all, to, Default::default(), &barrier, &[], &[]);
            if let Resource::Texture(texture) = &resource
                && row.is_written()
            {
                results = self.reserve(&frame, texture);
                let reads: Vec<_> = results.iter().flat_map(|result| result.reads().to_vec()).collect();
                recorder.read_texels(&reads);
            }
            raw.end_command_buffer(commands).expect("it is whole");
        }
        self.raw.submit(value);
        self.timeline.submitted(frame).expect("in order");
        drop((binding, slot));
        assert!(self.timeline.wait(value, PATIENCE).expect("the device is not lost"), "{row}");
        let mut wrong: Vec<_> = self.compare_found(row).into_iter().collect();
        match &resource {
            Resource::Texture(texture) => wrong.extend(compare_texture(row, texture, &results)),
            Resource::Buffer(buffer) if row.is_written() => wrong.extend(compare_buffer(row, buffer)),
            Resource::Buffer(_) => {}
        }
        wrong
    }

    /// Adds the words and the texels of the resource to the batch.
    fn stage(&self, frame: &Frame, row: &Row, resource: &Resource, batch: &mut UploadBatch<Device>) {
        let channels = row.channels();
        let mut words = [0; WORDS as usize];
        words[..row.at.len()].copy_from_slice(&row.at);
        words[LEVEL as usize] = row.level;
        let written = channels.numbers_of(row.written());
        for (index, number) in (WRITTEN as usize..).zip(written) {
            words[index] = channels.to_word(number);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let staged = self.ring.write_for(frame, &bytes, 4).expect("there is room");
        batch.copy(&staged, &self.words, 0).expect("it fits");
        match (resource, &row.shown) {
            (Resource::Buffer(buffer), _) => {
                let staged = self.ring.write_for(frame, &buffer_content(&channels), 4).expect("there is room");
                batch.copy(&staged, buffer, 0).expect("it fits");
            }
            (Resource::Texture(texture), Shown::Texture { desc, .. }) if desc.samples == 1 => {
                for mip in 0..desc.mips {
                    for aspect in TextureAspect::ALL {
                        if desc.format.texels().block_bytes(aspect).is_none() {
                            continue;
                        }
                        let bytes = row.texture_content(mip, aspect);
                        let extent = texture.parts().expect("a plain format").extent(mip);
                        let texels = Texels::of(desc.format, extent, &bytes).layers(desc.layers).aspect(aspect);
                        let staged = self.ring.write_texels(frame, &texels).expect("there is room");
                        let target = TexelTarget { mip, discard: true, ..Default::default() };
                        batch.copy_texels(&staged, texture, target).expect("it fits");
                    }
                }
            }
            _ => {}
        }
    }

    /// Clears each layer of a multisampled texture to its texel, because copies cannot write several samples.
    ///
    /// # Safety
    /// The recorder's commands are submitted as this frame.
    unsafe fn clear(&self, frame: &Frame, row: &Row, resource: &Resource, recorder: &mut CopyRecorder<'_>) {
        let (Resource::Texture(texture), Shown::Texture { desc, .. }) = (resource, &row.shown) else { return };
        if desc.samples == 1 {
            return;
        }
        let channels = row.channels();
        // SAFETY: the caller promises that the commands are submitted as this frame.
        let mut commands = unsafe { Commands::new(&self.memory, frame, recorder) }.expect("its own frame");
        for layer in 0..desc.layers {
            let color = channels.numbers_of(channels.texel(layer)).map(|number| number as f32);
            commands.clear_color(texture, SubresourceRange::one(0, layer), color).expect("made for copies");
        }
    }

    /// Reserves room for every mip level of a texture.
    fn reserve(&self, frame: &Frame, texture: &Texture<Device>) -> Vec<Readback<Device>> {
        let parts = texture.parts().expect("a plain format");
        let boxes = (0..parts.mips).map(|mip| TexelBox { layers: parts.layers, ..TexelBox::mip(parts, mip) });
        boxes.map(|texels| self.results.reserve_box(frame, texture, &texels).expect("there is room")).collect()
    }

    /// Compares the numbers that the shader has found with the numbers of the row's texel.
    fn compare_found(&self, row: &Row) -> Option<String> {
        let channels = row.channels();
        let mut bytes = [0; WORDS_BYTES as usize];
        self.words.read(0, &mut bytes).expect("it is mapped");
        let words: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let expected = row.numbers();
        let found: Vec<_> = words[FOUND as usize..][..4].iter().map(|word| channels.of_word(*word)).collect();
        // Of depth and stencil, shaders may see any other number in the other channels.
        let count = if row.aspect() == TextureAspect::Color { 4 } else { row.single_channels() };
        let is_close =
            found.iter().zip(expected).take(count).all(|(found, expected)| channels.is_close(*found, expected));
        (!is_close).then(|| format!("{row}: the shader found {found:?} instead of {expected:?}"))
    }
}

/// Returns the layout of the row's texture while the shader reads it.
fn layout(row: &Row) -> vk::ImageLayout {
    match &row.shown {
        Shown::Texture { view, .. } if view.layout == ViewLayout::ReadOnly => vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL,
        _ => vk::ImageLayout::GENERAL,
    }
}

/// Returns the bytes of a buffer.
fn buffer_content(channels: &Channels) -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in 0..FIRST_TEXEL + BUFFER_TEXELS {
        channels.append(channels.texel(number_in_buffer(index)), &mut bytes);
    }
    bytes
}

/// Compares a storage texture with its texels after the write.
fn compare_texture(row: &Row, texture: &Texture<Device>, results: &[Readback<Device>]) -> Option<String> {
    let parts = texture.parts().expect("a plain format");
    results.iter().zip(0..parts.mips).find_map(|(result, mip)| {
        let mut found = vec![0; result.read_bytes() as usize];
        result.read(&mut found).expect("the frame is complete");
        let mut expected = row.texture_content(mip, TextureAspect::Color);
        if mip == row.texel.mip {
            replace(&row.channels(), &mut expected, row.index_in_mip(), row.written());
        }
        first_difference(row, &found, &expected).map(|wrong| format!("{wrong} of mip level {mip}"))
    })
}

/// Compares a storage texel buffer with its texels after the write.
fn compare_buffer(row: &Row, buffer: &Buffer<Device>) -> Option<String> {
    let channels = row.channels();
    let mut expected = buffer_content(&channels);
    replace(&channels, &mut expected, FIRST_TEXEL + row.texel.x, row.written());
    let mut found = vec![0; expected.len()];
    buffer.read(0, &mut found).expect("it is mapped");
    first_difference(row, &found, &expected)
}

fn replace(channels: &Channels, bytes: &mut [u8], index: u32, texel: u128) {
    let mut one = Vec::new();
    channels.append(texel, &mut one);
    bytes[index as usize * channels.bytes..][..channels.bytes].copy_from_slice(&one);
}

fn first_difference(row: &Row, found: &[u8], expected: &[u8]) -> Option<String> {
    let bytes = row.channels().bytes;
    let at = found.chunks(bytes).zip(expected.chunks(bytes)).position(|(found, expected)| found != expected)?;
    let [found, expected] = [found, expected].map(|texels| &texels[at * bytes..][..bytes]);
    Some(format!("{row}: after the write, texel {at} is {found:?} instead of {expected:?}"))
}

impl Raw {
    fn new(device: Device, family: u32) -> Self {
        let raw = device.raw();
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let timeline = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is alive and has a queue of the family; the infos are valid.
        unsafe {
            let pool = raw.create_command_pool(&info, None).expect("a pool");
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
            let commands = raw.allocate_command_buffers(&info).expect("a command buffer")[0];
            let semaphore = raw.create_semaphore(&timeline, None).expect("a timeline");
            let (queue, layout) = (raw.get_device_queue(family, 0), vk::PipelineLayout::null());
            Self { queue, semaphore, pool, commands, layout, pipelines: HashMap::new(), device }
        }
    }

    fn submit(&self, value: u64) {
        let (values, semaphores, commands) = ([value], [self.semaphore], [self.commands]);
        let mut signal = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let submit = vk::SubmitInfo::default().command_buffers(&commands).signal_semaphores(&semaphores);
        let submit = submit.push_next(&mut signal);
        // SAFETY: the command buffer is recorded, and no other thread uses the queue.
        unsafe { self.device.raw().queue_submit(self.queue, &[submit], vk::Fence::null()) }.expect("it is submitted");
    }

    /// Returns the pipeline of a shader. Creates it at its first use.
    fn pipeline(&mut self, binding: &Binding<Device>, shader: &Shader) -> vk::Pipeline {
        let raw = self.device.raw();
        let bounds = [HeapKind::Resources, HeapKind::Samplers].map(|kind| binding.bound(kind).expect("both are bound"));
        if self.layout == vk::PipelineLayout::null() {
            let layouts = bounds.map(|bound| bound.set_layout());
            let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
            // SAFETY: the set layouts belong to the device and are alive.
            self.layout = unsafe { raw.create_pipeline_layout(&info, None) }.expect("a layout");
        }
        let (layout, is_of_buffers) = (self.layout, bounds[0].needs_descriptor_buffer_pipelines());
        *self.pipelines.entry(*shader).or_insert_with(|| {
            let code = shader.assemble();
            let info = vk::ShaderModuleCreateInfo::default().code(&code);
            let buffers = vk::PipelineCreateFlags::DESCRIPTOR_BUFFER_EXT;
            let flags = if is_of_buffers { buffers } else { vk::PipelineCreateFlags::empty() };
            // SAFETY: the layers check the shader. The layout has its bindings, each an array of the same length.
            unsafe {
                let module = raw.create_shader_module(&info, None).expect("a module");
                let compute = vk::ShaderStageFlags::COMPUTE;
                let stage = vk::PipelineShaderStageCreateInfo::default().stage(compute).module(module).name(c"run");
                let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout).flags(flags)];
                let made = raw.create_compute_pipelines(vk::PipelineCache::null(), &info, None).expect("a pipeline");
                raw.destroy_shader_module(module, None);
                made[0]
            }
        })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let raw = self.device.raw();
        // SAFETY: each object belongs to the device and is destroyed once, after all work.
        unsafe {
            raw.device_wait_idle().expect("the device is not lost");
            self.pipelines.values().for_each(|pipeline| raw.destroy_pipeline(*pipeline, None));
            raw.destroy_pipeline_layout(self.layout, None);
            raw.destroy_semaphore(self.semaphore, None);
            raw.destroy_command_pool(self.pool, None);
        }
    }
}

/// Returns `true` if the device supports the texture of a row, as Vulkan reports it.
pub fn supports(gpu: &VulkanGpu, row: &Row) -> bool {
    let (instance, physical) = (gpu.instance(), gpu.device().physical());
    // SAFETY: the physical device belongs to the instance, which is alive.
    unsafe {
        match &row.shown {
            Shown::Buffer(BufferViewKind::Texels { format, writes }) => {
                let found =
                    instance.get_physical_device_format_properties(physical, ringfence::vulkan::format(*format));
                let mut needed = vk::FormatFeatureFlags::UNIFORM_TEXEL_BUFFER;
                if *writes {
                    needed |= vk::FormatFeatureFlags::STORAGE_TEXEL_BUFFER;
                }
                found.buffer_features.contains(needed)
            }
            Shown::Buffer(_) => true,
            Shown::Texture { desc, view } => {
                let usages = [
                    (TextureUsage::COPY_SRC, vk::ImageUsageFlags::TRANSFER_SRC),
                    (TextureUsage::COPY_DST, vk::ImageUsageFlags::TRANSFER_DST),
                    (TextureUsage::SAMPLED, vk::ImageUsageFlags::SAMPLED),
                    (TextureUsage::STORAGE, vk::ImageUsageFlags::STORAGE),
                ];
                let held = usages.into_iter().filter(|(usage, _)| desc.usage.contains(*usage));
                let usage = held.fold(vk::ImageUsageFlags::empty(), |all, (_, flag)| all | flag);
                let (image_type, mut flags) = image_type(desc.dimension);
                if !desc.view_formats.is_empty() {
                    flags |= vk::ImageCreateFlags::MUTABLE_FORMAT;
                }
                let (format, tiling) = (ringfence::vulkan::format(desc.format), vk::ImageTiling::OPTIMAL);
                let found = instance
                    .get_physical_device_image_format_properties(physical, format, image_type, tiling, usage, flags);
                let has = |found: vk::ImageFormatProperties| {
                    let samples = vk::SampleCountFlags::from_raw(desc.samples);
                    found.max_array_layers >= desc.layers
                        && found.max_mip_levels >= desc.mips
                        && found.sample_counts.contains(samples)
                };
                found.is_ok_and(has) && supports_view(gpu, view.format_in(desc), view.kind)
            }
        }
    }
}

/// Returns `true` if the device supports this kind of view of a format.
fn supports_view(gpu: &VulkanGpu, format: ringfence::device::Format, kind: TextureViewKind) -> bool {
    let raw = ringfence::vulkan::format(format);
    // SAFETY: the physical device belongs to the instance, which is alive.
    let found = unsafe { gpu.instance().get_physical_device_format_properties(gpu.device().physical(), raw) };
    found.optimal_tiling_features.contains(match kind {
        TextureViewKind::Storage => vk::FormatFeatureFlags::STORAGE_IMAGE,
        _ => vk::FormatFeatureFlags::SAMPLED_IMAGE,
    })
}
