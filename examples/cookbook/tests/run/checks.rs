//! The check of each recipe. A check returns an error if the recipe has another effect than the chapter says.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use ash::vk;
use first_hour::gpu::{Failure, Gpu};
use first_hour::pass::{self, COLOUR, Views};
use first_hour::pipeline::{Pipeline, PipelineDesc};
use ringfence::algorithms::tlsf::Tlsf;
use ringfence::commands::{Commands, SubresourceRange};
use ringfence::contents::{GpuVec, GpuVecDesc, MeshArena, MeshArenaDesc};
use ringfence::defrag::{Defrag, DefragDesc, DefragState};
use ringfence::descriptor::{BindlessDesc, SamplerTable, ShaderVisibleDesc};
use ringfence::device::descriptors::{AddressMode, HeapKind, ViewTypes};
use ringfence::device::{BufferDesc, BufferUsage, Driver, Format, TextureDesc, TextureUsage};
use ringfence::lifetime::RetireBin;
use ringfence::memory::{Error, PoolDesc};
use ringfence::placement::FastConstantsDesc;
use ringfence::sharing::{self, ShareKind};
use ringfence::sim::HazardKind;
use ringfence::transient::{TransientDesc, VulkanFirstUse};
use ringfence::upload::{ConstantsDesc, ReadbackDesc, TexelTarget, Texels, TransferQueue};
use ringfence::vulkan::{
    self, BindlessTable, ConstantBuffers, ConstantSets, CopyRecorder, FastConstants, ReadbackRing,
};
use ringfence::vulkan::{ShaderVisibleHeap, TextureInfo, TransientAllocator, UploadBatch};
use ringfence::{AllocationDesc, Location};

use crate::objects::{Queues, ensure, read_buffer, read_mip, read_mip_in, submit, upload_ring};

/// Usages for copies from and to a buffer.
const COPIED: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);

/// Returns `count` bytes that differ from their neighbours.
fn pattern(count: usize, seed: u8) -> Vec<u8> {
    (0..count).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// Creates a buffer of the device with contents.
fn filled(gpu: &Gpu, desc: &BufferDesc, request: AllocationDesc<'_>, value: u32) -> Result<vulkan::Buffer, Failure> {
    let buffer = gpu.memory.create_buffer(desc, request)?;
    submit(gpu, |work, recorder| {
        // SAFETY: the commands are submitted as this frame, and nothing else uses the buffer.
        let mut commands = unsafe { Commands::new(&gpu.memory, &work.frame, recorder) }?;
        Ok(commands.fill_buffer(&buffer, 0..desc.size, value)?)
    })?;
    Ok(buffer)
}

/// Creates a texture of one colour, in `LAYOUT`.
fn coloured(gpu: &Gpu, side: u32, mips: u32, colour: [f32; 4]) -> Result<vulkan::Texture, Failure> {
    let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST | TextureUsage::COPY_SRC;
    let desc = TextureDesc { width: side, height: side, mips, usage, ..Default::default() };
    let texture = gpu.memory.create_texture(&desc, AllocationDesc { name: "coloured", ..Default::default() })?;
    submit(gpu, |work, recorder| {
        // SAFETY: the commands are submitted as this frame, and nothing else uses the texture.
        let mut commands = unsafe { Commands::new(&gpu.memory, &work.frame, recorder) }?;
        Ok(commands.clear_color(&texture, SubresourceRange { mip: 0, mips, layer: 0, layers: 1 }, colour)?)
    })?;
    Ok(texture)
}

pub fn vertex_buffer(gpu: &Gpu) -> Result<(), Failure> {
    let (upload, vertices) = (upload_ring(&gpu.memory)?, pattern(36, 1));
    let buffer = submit(gpu, |work, recorder| {
        cookbook::vertex_buffer::vertex_buffer(&gpu.memory, &upload, &work.frame, recorder, &vertices)
    })?;
    ensure(read_buffer(gpu, *buffer.object(), 0, 36)? == vertices, "the vertices differ")
}

pub fn texture_with_mips(gpu: &Gpu) -> Result<(), Failure> {
    let upload = upload_ring(&gpu.memory)?;
    let pixels: Vec<u8> = (0..8).flat_map(|texel| [if texel % 4 < 2 { 0 } else { 200 }; 4]).collect();
    let texture = submit(gpu, |work, recorder| {
        let size = [4, 2];
        cookbook::texture_with_mips::texture_with_mips(&gpu.memory, &upload, &work.frame, recorder, size, &pixels)
    })?;
    ensure(read_mip(gpu, &texture, 0)? == pixels, "mip level 0 differs")?;
    let last = read_mip(gpu, &texture, 2)?;
    ensure(last.len() == 4 && last.iter().all(|channel| channel.abs_diff(100) <= 2), "the last mip level is no mean")
}

pub fn cube_map(gpu: &Gpu) -> Result<(), Failure> {
    let (upload, faces) = (upload_ring(&gpu.memory)?, [0x00, 0x3c].repeat(6 * 4 * 4));
    let sky = submit(gpu, |work, recorder| {
        cookbook::cube_map::cube_map(&gpu.memory, &upload, &work.frame, recorder, 2, &faces)
    })?;
    ensure(read_mip(gpu, &sky, 0)? == faces, "the faces differ")
}

pub fn volume_texture(gpu: &Gpu) -> Result<(), Failure> {
    let (upload, density) = (upload_ring(&gpu.memory)?, pattern(4 * 3 * 2, 5));
    let fog = submit(gpu, |work, recorder| {
        cookbook::volume_texture::volume_texture(&gpu.memory, &upload, &work.frame, recorder, [4, 3, 2], &density)
    })?;
    ensure(read_mip(gpu, &fog, 0)? == density, "the texels differ")
}

pub fn compressed_texture(gpu: &Gpu) -> Result<(), Failure> {
    // Mips of 8 × 8 and 4 × 4 texels.
    let (upload, blocks, texels) = (upload_ring(&gpu.memory)?, pattern(5 * 16, 7), pattern(80 * 4, 9));
    let encodings: [(Format, &[u8]); 3] =
        [(Format::Astc12x12Unorm, &blocks[..2 * 16]), (Format::Bc7Unorm, &blocks), (Format::Rgba8Unorm, &texels)];
    let texture = submit(gpu, |work, recorder| {
        let (frame, size) = (&work.frame, ([8, 8], 2));
        cookbook::compressed_texture::compressed_texture(&gpu.memory, &upload, frame, recorder, size, &encodings)
    })?;
    let format = texture.desc().ok_or("a portable description")?.format;
    let (_, bytes) = encodings.iter().find(|(encoding, _)| *encoding == format).ok_or("one of the encodings")?;
    let read = [read_mip(gpu, &texture, 0)?, read_mip(gpu, &texture, 1)?].concat();
    ensure(read == *bytes, "the blocks differ")
}

pub fn read_texture(gpu: &Gpu) -> Result<(), Failure> {
    let ring = ReadbackRing::new(&gpu.memory, ReadbackDesc { capacity: 1 << 16, ..Default::default() })?;
    let texture = coloured(gpu, 4, 1, [1.0, 0.0, 0.0, 1.0])?;
    let mut waiting = VecDeque::new();
    let mut frame = || {
        submit(gpu, |work, recorder| {
            // SAFETY: the commands are submitted as this frame, and the texture is in the layout of the recorder.
            let mut commands = unsafe { Commands::new(&gpu.memory, &work.frame, recorder) }?;
            cookbook::read_texture::read_texture(&ring, &mut waiting, &mut commands, &texture)
        })
    };
    ensure(frame()?.is_none(), "the copy of this frame cannot be complete")?;
    ensure(frame()? == Some([255, 0, 0, 255].repeat(16)), "the texels of the first frame")
}

const CONSTANTS_SHADER: &str = "
    struct Draw { colour: vec4<f32> }
    @group(0) @binding(0) var<uniform> draw: Draw;
    @vertex fn place(@location(0) at: vec2<f32>) -> @builtin(position) vec4<f32> { return vec4(at, 0.0, 1.0); }
    @fragment fn shade() -> @location(0) vec4<f32> { return draw.colour; }
";

/// Draws with constants: the left half of the target with the first, the right half with the second.
pub fn draw_constants(gpu: &Gpu) -> Result<(), Failure> {
    let constants = FastConstants::new(&gpu.memory, FastConstantsDesc::default());
    let target = Views::new(gpu)?.colour(gpu, "target", [8, 8])?;
    let device = &gpu.device;
    let mut constant_sets = ConstantSets::new(&gpu.memory, vk::ShaderStageFlags::FRAGMENT)?;
    let sets = [constant_sets.layout()];
    let desc = PipelineDesc { source: CONSTANTS_SHADER, attributes: &[2], sets: &sets, ..Default::default() };
    let pipeline = Pipeline::new(gpu, &desc)?;
    let draws = [[1.0_f32, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0]].map(|colour| {
        let mut bytes = [0; 64];
        bytes[..16].copy_from_slice(&colour.map(f32::to_le_bytes).concat());
        bytes
    });
    let upload = upload_ring(&gpu.memory)?;
    submit(gpu, |work, recorder| {
        let corners: Vec<u8> = [-1.0_f32, -1.0, 3.0, -1.0, -1.0, 3.0].iter().flat_map(|at| at.to_le_bytes()).collect();
        let (memory, frame) = (&gpu.memory, &work.frame);
        let vertices = cookbook::vertex_buffer::vertex_buffer(memory, &upload, frame, recorder, &corners)?;
        pass::change_layout(gpu, work, target.image(), vk::ImageLayout::UNDEFINED, COLOUR);
        pass::begin(gpu, work, [8, 8], target.view(), None);
        pipeline.bind(gpu, work);
        // SAFETY: the pipeline reads these vertices, and the buffer is retired after this frame.
        unsafe { device.cmd_bind_vertex_buffers(work.commands, 0, &[*vertices.object()], &[0]) };
        let draw = |number| {
            let half = vk::Rect2D {
                offset: vk::Offset2D { x: number as i32 * 4, y: 0 },
                extent: vk::Extent2D { width: 4, height: 8 },
            };
            // SAFETY: a pass has begun, and the pipeline is bound.
            unsafe {
                device.cmd_set_scissor(work.commands, 0, &[half]);
                device.cmd_draw(work.commands, 3, 1, 0, 0);
            }
        };
        let at = (work.commands, pipeline.layout);
        cookbook::draw_constants::draw_constants(&constants, &mut constant_sets, frame, at, &draws, draw)?;
        pass::end(gpu, work);
        Ok(())
    })?;
    pipeline.retire(gpu);
    drop(constant_sets);
    let row = [[255, 0, 0, 255].repeat(4), [0, 255, 0, 255].repeat(4)].concat();
    ensure(read_mip_in(gpu, COLOUR, &target.texture, 0)? == row.repeat(8), "the colours of the draws")
}

pub fn static_constants(gpu: &Gpu) -> Result<(), Failure> {
    let usage = BufferUsage::CONSTANT | COPIED;
    let constants = ConstantBuffers::new(&gpu.memory, ConstantsDesc { usage, ..Default::default() }, ())?;
    let mut material = constants.create_static(&[0; 64])?;
    let mut places = BTreeSet::new();
    for seed in [1, 2] {
        let content = pattern(64, seed);
        let (buffer, offset) = submit(gpu, |work, recorder| {
            let material = &mut material;
            cookbook::static_constants::static_constants(&constants, material, &content, &work.frame, recorder)
        })?;
        ensure(read_buffer(gpu, buffer, offset, 64)? == content, "the content differs")?;
        places.insert((buffer, offset));
    }
    ensure(places.len() == 1, "the constants have moved")
}

/// Creates a heap of few slots, which every device has.
fn heap(gpu: &Gpu, kind: HeapKind, types: ViewTypes) -> Result<ShaderVisibleHeap, Failure> {
    let (frame_slots, persistent_slots) = (if kind == HeapKind::Samplers { 0 } else { 4 }, 4);
    let desc = ShaderVisibleDesc { kind, types, frame_slots, persistent_slots, chunk_slots: 1, ..Default::default() };
    Ok(ShaderVisibleHeap::new(&gpu.memory, desc)?)
}

pub fn bindless_texture(gpu: &Gpu) -> Result<(), Failure> {
    let heap = heap(gpu, HeapKind::Resources, ViewTypes::SAMPLED_TEXTURE)?;
    let table = BindlessTable::new(&gpu.memory, &heap, BindlessDesc { capacity: 4, ..Default::default() })?;
    let [red, green] = [[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0]].map(|colour| coloured(gpu, 4, 2, colour));
    let (red, green) = (red?, green?);
    let mut entry = None;
    let first = cookbook::bindless_texture::bindless_texture(&table, &mut entry, &red)?;
    let old = entry.as_ref().ok_or("an entry")?.index();
    submit(gpu, |work, _| {
        let _binding = heap.bind(&work.frame)?;
        let second = cookbook::bindless_texture::bindless_texture(&table, &mut entry, &green)?;
        ensure(first != second, "the frame still reads the first slot")?;
        ensure(!table.is_live(old) && table.live_count() == 1, "the first entry was replaced")
    })
}

pub fn shared_sampler(gpu: &Gpu) -> Result<(), Failure> {
    let heap = heap(gpu, HeapKind::Samplers, ViewTypes::empty())?;
    let samplers = SamplerTable::new(&gpu.memory, &heap, BindlessDesc { capacity: 4, ..Default::default() })?;
    let get = |address| cookbook::shared_sampler::shared_sampler(&gpu.memory, &samplers, address);
    let [first, second, other] = [AddressMode::Repeat, AddressMode::Repeat, AddressMode::Clamp].map(get);
    let (first, second, other) = (first?, second?, other?);
    ensure(first.slot() == second.slot() && first.slot() != other.slot(), "equal samplers share a slot")?;
    ensure(samplers.distinct_count() == 2, "two samplers")
}

pub fn frame_table(gpu: &Gpu) -> Result<(), Failure> {
    let heap = heap(gpu, HeapKind::Resources, ViewTypes::STORAGE_BUFFER)?;
    let desc = BufferDesc { size: 64, usage: BufferUsage::STORAGE };
    let [first, second] = [0; 2].map(|_| gpu.memory.create_buffer(&desc, AllocationDesc::default()));
    let buffers = [&first?, &second?];
    submit(gpu, |work, _| {
        let slot = cookbook::frame_table::frame_table(&heap, &work.frame, &buffers)?;
        let _binding = heap.bind(&work.frame)?;
        ensure(slot + 2 <= heap.slots(), "the table is inside the heap")?;
        ensure(heap.statistics().tables_made == 1 && heap.statistics().frame_used >= 2, "a table of two slots")
    })
}

pub fn frame_targets(gpu: &Gpu) -> Result<(), Failure> {
    let mut transient =
        TransientAllocator::new(&gpu.memory, TransientDesc { heap_bytes: 1 << 20, ..Default::default() });
    let (source, destination) = (vk::ImageUsageFlags::TRANSFER_SRC, vk::ImageUsageFlags::TRANSFER_DST);
    let target = TextureInfo::new(vk::Format::R8G8B8A8_UNORM, 64, 64, source | destination);
    let (to, aspects) = (vk::ImageLayout::TRANSFER_DST_OPTIMAL, vk::ImageAspectFlags::COLOR);
    let range =
        vk::ImageSubresourceRange { aspect_mask: aspects, level_count: 1, layer_count: 1, ..Default::default() };
    let desc = BufferDesc { size: 64 * 64 * 4, usage: BufferUsage::COPY_DST };
    let request = AllocationDesc { name: "back", location: Location::Readback, ..Default::default() };
    let back = gpu.memory.create_buffer(&desc, request)?;
    let images = RefCell::new(Vec::new());
    for _ in 0..2 {
        let work = gpu.begin()?;
        let draw = |number, image| {
            images.borrow_mut().push(image);
            let colour = vk::ClearColorValue { float32: [number as f32 / 2.0, 0.0, 0.0, 1.0] };
            // SAFETY: the command buffer is being recorded, and the image is in this layout.
            unsafe { gpu.device.cmd_clear_color_image(work.commands, image, to, &colour, &[range]) };
        };
        let first_use = VulkanFirstUse { layout: to, aspects };
        let (target, commands) = ((&target, first_use), work.commands);
        let execution = cookbook::frame_targets::frame_targets(&mut transient, &gpu.timeline, target, commands, draw)?;
        let picture = *images.borrow().last().ok_or("three targets")?;
        pass::change_layout(gpu, &work, picture, to, vk::ImageLayout::TRANSFER_SRC_OPTIMAL);
        let layers = vk::ImageSubresourceLayers { aspect_mask: aspects, layer_count: 1, ..Default::default() };
        let image_extent = vk::Extent3D { width: 64, height: 64, depth: 1 };
        let copy = vk::BufferImageCopy { image_subresource: layers, image_extent, ..Default::default() };
        let from = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
        // SAFETY: the image is in this layout, and the buffer has a byte for each of the copied bytes.
        unsafe { gpu.device.cmd_copy_image_to_buffer(work.commands, picture, from, *back.object(), &[copy]) };
        let point = gpu.submit(work)?;
        execution.finish(&[point]);
        transient.end_frame();
        gpu.wait(point)?;
        gpu.memory.reclaim();
    }
    let mut texels = vec![0; 64 * 64 * 4];
    back.read(0, &mut texels)?;
    ensure(texels == [255, 0, 0, 255].repeat(64 * 64), "the picture of the last pass")?;
    let figures = transient.figures();
    ensure(
        figures.saved_bytes() > 0 && figures.is_reused,
        "targets share bytes, and the second frame reuses the plan",
    )?;
    let images = images.into_inner();
    ensure(images[..3] == images[3..], "both frames have the same images")
}

pub fn resized_targets(gpu: &Gpu) -> Result<(), Failure> {
    let mut transient = TransientAllocator::new(&gpu.memory, TransientDesc::default());
    let mut history = coloured(gpu, 16, 1, [0.0; 4])?;
    let resize =
        |transient: &mut _, history: &mut _, size| cookbook::resized_targets::resized_targets(transient, history, size);
    ensure(!resize(&mut transient, &mut history, [16, 16])?, "the size is the same")?;
    let work = gpu.begin()?;
    ensure(resize(&mut transient, &mut history, [32, 24])?, "the size differs")?;
    ensure(gpu.memory.statistics().retired_count >= 1, "the old target waits for the frame")?;
    gpu.wait(gpu.submit(work)?)?;
    gpu.memory.reclaim();
    ensure(history.desc().is_some_and(|desc| [desc.width, desc.height] == [32, 24]), "the new size")
}

/// A texture of 1 MiB.
const MIB: TextureDesc = TextureDesc {
    dimension: ringfence::device::Dimension::D2,
    width: 512,
    height: 512,
    depth: 1,
    layers: 1,
    mips: 1,
    samples: 1,
    format: Format::Rgba8Unorm,
    usage: TextureUsage::SAMPLED,
    clear_value: None,
    view_formats: ringfence::device::FormatSet::EMPTY,
};

/// Returns `true` if this many textures of 1 MiB can be in heaps of at most 8 MiB each. A request may use every heap.
fn within_budgets(memory: &vulkan::Allocator, textures: usize) -> bool {
    let heaps = memory.device().capabilities().memory_heaps.len();
    (2..=8 * heaps).contains(&textures)
}

pub fn stream_within_budget(gpu: &Gpu) -> Result<(), Failure> {
    let queues = Queues::new(gpu, 8 << 20)?;
    let mut cache = VecDeque::new();
    let stream =
        |cache: &mut VecDeque<_>| cookbook::stream_within_budget::stream_within_budget(&queues.memory, cache, &MIB);
    let mut refused = 0;
    for _ in 0..96 {
        let held = cache.len();
        match stream(&mut cache)? {
            Some(texture) => cache.push_back(texture),
            None => {
                ensure(cache.len() == held - 1, "a texture was dropped")?;
                refused += 1;
            }
        }
        queues.memory.reclaim();
    }
    ensure(refused > 4 && within_budgets(&queues.memory, cache.len()), "the cache has the size of the budget")?;
    cache.clear();
    queues.close()
}

pub fn eviction_callback(gpu: &Gpu) -> Result<(), Failure> {
    let queues = Queues::new(gpu, 8 << 20)?;
    let cache = Arc::new(Mutex::new(VecDeque::new()));
    cookbook::eviction_callback::eviction_callback(&queues.memory, &cache);
    for _ in 0..96 {
        let texture = queues.memory.create_texture(&MIB, AllocationDesc { name: "cached", ..Default::default() })?;
        cache.lock().map_err(|_| "a panic")?.push_back(texture);
    }
    let held = cache.lock().map_err(|_| "a panic")?.len();
    ensure(within_budgets(&queues.memory, held), "the cache has the size of the budget")?;
    queues.memory.budgets().set_eviction(None);
    cache.lock().map_err(|_| "a panic")?.clear();
    queues.close()
}

pub fn memory_left(gpu: &Gpu) -> Result<(), Failure> {
    let queues = Queues::new(gpu, 8 << 20)?;
    let before = cookbook::memory_left::memory_left(&queues.memory);
    let texture = queues.memory.create_texture(&MIB, AllocationDesc::default())?;
    let after = cookbook::memory_left::memory_left(&queues.memory);
    ensure(before <= 8 << 24 && after + (1 << 20) <= before, "the texture reduces the rest")?;
    drop(texture);
    queues.close()
}

pub fn gpu_list(gpu: &Gpu) -> Result<(), Failure> {
    let upload = upload_ring(&gpu.memory)?;
    let mut list = GpuVec::new(&gpu.memory, GpuVecDesc { name: "particles", ..Default::default() });
    list.extend((0..100).map(|number| [number as f32; 4]));
    for (round, is_new) in [(0, true), (1, false)] {
        list.set(50, [round as f32; 4]);
        let list = &mut list;
        let updated = submit(gpu, |work, recorder| cookbook::gpu_list::gpu_list(list, &upload, &work.frame, recorder))?;
        let (buffer, is_moved) = updated.ok_or("the list has elements")?;
        ensure(is_moved == is_new, "only the first update creates a buffer")?;
        let expected: Vec<u8> = list.as_slice().iter().flatten().flat_map(|float| float.to_le_bytes()).collect();
        ensure(read_buffer(gpu, buffer, 0, 1600)? == expected, "the elements differ")?;
    }
    Ok(())
}

pub fn grow_buffer(gpu: &Gpu) -> Result<(), Failure> {
    let desc = BufferDesc { size: 1024, usage: BufferUsage::STORAGE | COPIED };
    let mut buffer = filled(gpu, &desc, AllocationDesc::default(), 0x0707_0707)?;
    let old = *buffer.object();
    submit(gpu, |work, recorder| {
        // SAFETY: the commands are submitted as this frame.
        let mut commands = unsafe { Commands::new(&gpu.memory, &work.frame, recorder) }?;
        cookbook::grow_buffer::grow_buffer(&mut buffer, 4096, &mut commands)
    })?;
    ensure(buffer.size() == 4096 && *buffer.object() != old, "a larger buffer")?;
    ensure(read_buffer(gpu, *buffer.object(), 0, 1024)? == [7; 1024], "the contents differ")
}

pub fn stream_mips(gpu: &Gpu) -> Result<(), Failure> {
    let mut texture = coloured(gpu, 8, 2, [0.0, 0.0, 1.0, 1.0])?;
    let upload = upload_ring(&gpu.memory)?;
    let to_fill = submit(gpu, |work, recorder| {
        // SAFETY: the commands are submitted as this frame.
        let mut commands = unsafe { Commands::new(&gpu.memory, &work.frame, recorder) }?;
        let to_fill = cookbook::stream_mips::stream_mips(&mut texture, true, &mut commands)?;
        let texels = pattern(16 * 16 * 4, 0);
        let staged = upload.write_texels(&work.frame, &Texels::new(16, 16, 4, &texels))?;
        let mut batch = UploadBatch::new();
        batch.copy_texels(&staged, &texture, TexelTarget::default())?;
        // SAFETY: the commands are submitted as this frame.
        unsafe { batch.record(recorder) }?;
        Ok(to_fill)
    })?;
    ensure(to_fill == [0], "only the new mip level is filled")?;
    ensure(read_mip(gpu, &texture, 1)? == [0, 0, 255, 255].repeat(64), "the first old mip level")?;
    ensure(read_mip(gpu, &texture, 2)? == [0, 0, 255, 255].repeat(16), "the second old mip level")?;
    let to_fill = submit(gpu, |work, recorder| {
        // SAFETY: the commands are submitted as this frame.
        let mut commands = unsafe { Commands::new(&gpu.memory, &work.frame, recorder) }?;
        cookbook::stream_mips::stream_mips(&mut texture, false, &mut commands)
    })?;
    ensure(to_fill.is_empty() && texture.desc().is_some_and(|desc| desc.mips == 2), "the largest mip level is gone")?;
    ensure(read_mip(gpu, &texture, 0)? == [0, 0, 255, 255].repeat(64), "the first remaining mip level")
}

pub fn small_buffers(gpu: &Gpu) -> Result<(), Failure> {
    let upload = upload_ring(&gpu.memory)?;
    let contents: Vec<Vec<u8>> = (1..=100).map(|number| pattern(number * 4, number as u8)).collect();
    let slices: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    let buffers = submit(gpu, |work, recorder| {
        cookbook::small_buffers::small_buffers(&gpu.memory, &upload, &work.frame, recorder, &slices)
    })?;
    let objects: BTreeSet<_> = buffers.iter().map(|buffer| *buffer.object()).collect();
    ensure(objects.len() == 1, "the buffers share a driver buffer")?;
    for number in [0, 99] {
        let (buffer, content) = (&buffers[number], &contents[number]);
        ensure(read_buffer(gpu, *buffer.object(), buffer.offset(), content.len())? == *content, "a content differs")?;
    }
    Ok(())
}

const MESH_SHADER: &str = "
    @vertex fn place(@location(0) at: vec3<f32>) -> @builtin(position) vec4<f32> { return vec4(at, 1.0); }
    @fragment fn shade() -> @location(0) vec4<f32> { return vec4(1.0, 1.0, 1.0, 1.0); }
";

/// Draws two meshes: the left and the right half of the target.
pub fn packed_meshes(gpu: &Gpu) -> Result<(), Failure> {
    let (upload, mut batch) = (upload_ring(&gpu.memory)?, UploadBatch::new());
    let mut arena = MeshArena::new(&gpu.memory, MeshArenaDesc { block_vertices: 64, ..Default::default() });
    let target = Views::new(gpu)?.colour(gpu, "target", [8, 8])?;
    let desc = PipelineDesc { source: MESH_SHADER, attributes: &[3], ..Default::default() };
    let pipeline = Pipeline::new(gpu, &desc)?;
    let meshes = submit(gpu, |work, recorder| {
        let quad = |left: f32| [[left, -1.0, 0.0], [left + 1.0, -1.0, 0.0], [left, 1.0, 0.0], [left + 1.0, 1.0, 0.0]];
        let indices = [0, 1, 2, 2, 1, 3];
        let meshes = [-1.0, 0.0].map(|left| arena.insert(&quad(left), &indices, &upload, &mut batch, &work.frame));
        let [left, right] = meshes;
        let meshes = [left?, right?];
        // SAFETY: the commands are submitted as this frame.
        unsafe { batch.record(recorder) }?;
        pass::change_layout(gpu, work, target.image(), vk::ImageLayout::UNDEFINED, COLOUR);
        pass::begin(gpu, work, [8, 8], target.view(), None);
        pipeline.bind(gpu, work);
        cookbook::packed_meshes::packed_meshes(&arena, &meshes, &gpu.device, work.commands)?;
        pass::end(gpu, work);
        Ok(meshes)
    })?;
    pipeline.retire(gpu);
    ensure(read_mip_in(gpu, COLOUR, &target.texture, 0)? == [255; 8 * 8 * 4], "the meshes cover the target")?;
    ensure(arena.figures().block_count == 1, "both meshes are in one block")?;
    drop(meshes);
    Ok(())
}

pub fn custom_pool(gpu: &Gpu) -> Result<(), Failure> {
    let desc = BufferDesc { size: 24 << 20, usage: BufferUsage::STORAGE | COPIED };
    let pool = cookbook::custom_pool::custom_pool(&gpu.memory, &desc)?;
    let make = || pool.create_buffer(&desc, AllocationDesc { name: "pooled", ..Default::default() });
    let held = [make()?, make()?];
    ensure(matches!(make(), Err(Error::PoolFull { .. })), "the pool has 64 MiB")?;
    ensure(pool.statistics().block_count == 1 && pool.statistics().range_count == 2, "one block with two buffers")?;
    drop(held);
    gpu.memory.reclaim();
    drop(make()?);
    Ok(())
}

pub fn defragment_step(gpu: &Gpu) -> Result<(), Failure> {
    let desc = BufferDesc { size: 16 << 10, usage: BufferUsage::STORAGE | COPIED };
    let memory_type = gpu.memory.plan().buffer(&desc, AllocationDesc::default())?.memory_type;
    let pool = gpu.memory.create_pool(PoolDesc { memory_type, block_bytes: 128 << 10, ..Default::default() })?;
    let (mut buffers, mut others) = (Vec::new(), Vec::new());
    for number in 0..32_u32 {
        let request = AllocationDesc { movable: true, user_data: buffers.len() as u64, ..Default::default() };
        let buffer = pool.create_buffer(&desc, request)?;
        if number % 4 == 0 { buffers.push(buffer) } else { others.push(buffer) }
    }
    submit(gpu, |work, recorder| {
        // SAFETY: the commands are submitted as this frame, and nothing else uses the buffers.
        let mut commands = unsafe { Commands::new(&gpu.memory, &work.frame, recorder) }?;
        for (number, buffer) in (0..).zip(&buffers) {
            commands.fill_buffer(buffer, 0..desc.size, number)?;
        }
        Ok(())
    })?;
    drop(others);
    gpu.memory.reclaim();
    let (mut run, mut moved) = (Defrag::of_pool(&pool, DefragDesc::default()), BTreeSet::new());
    for _ in 0..100 {
        moved.extend(submit(gpu, |work, recorder| {
            cookbook::defragment_step::defragment_step(&mut run, &mut buffers, &work.frame, recorder)
        })?);
        if run.state() == DefragState::Done {
            break;
        }
    }
    gpu.memory.reclaim();
    ensure(!moved.is_empty() && pool.statistics().block_count == 1, "the buffers are in one block")?;
    for (number, buffer) in (0_u32..).zip(&buffers) {
        let expected = number.to_ne_bytes().repeat(4);
        ensure(read_buffer(gpu, *buffer.object(), 0, 16)? == expected, "the contents have moved too")?;
    }
    Ok(())
}

pub fn export_buffer(gpu: &Gpu) -> Result<(), Failure> {
    let kind = if cfg!(windows) { ShareKind::OpaqueWin32 } else { ShareKind::OpaqueFd };
    let desc = BufferDesc { size: 4096, usage: BufferUsage::STORAGE | COPIED };
    if !sharing::buffer_support(&gpu.memory, &desc, kind).can_export {
        eprintln!("the device does not export buffers");
        return Ok(());
    }
    let (buffer, handle, shared) = cookbook::export_buffer::export_buffer(&gpu.memory, 4096, kind)?;
    submit(gpu, |work, recorder| {
        // SAFETY: the commands are submitted as this frame, and nothing else uses the buffer.
        let mut commands = unsafe { Commands::new(&gpu.memory, &work.frame, recorder) }?;
        Ok(commands.fill_buffer(&buffer, 0..4096, 0x0505_0505)?)
    })?;
    let request = AllocationDesc { name: "imported", ..Default::default() };
    // SAFETY: the handle belongs to `shared`, and the buffer was created with this description.
    let imported = unsafe { sharing::import_buffer(&gpu.memory, &desc, handle, &shared, request) }?;
    drop(buffer);
    ensure(read_buffer(gpu, *imported.object(), 0, 4096)? == [5; 4096], "both buffers have the same bytes")
}

pub fn retire_view(gpu: &Gpu) -> Result<(), Failure> {
    let (texture, bin) = (coloured(gpu, 4, 1, [0.0; 4])?, RetireBin::new());
    let view = || {
        let range = vk::ImageSubresourceRange {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            level_count: 1,
            layer_count: 1,
            ..Default::default()
        };
        let info = vk::ImageViewCreateInfo::default()
            .image(*texture.object())
            .view_type(vk::ImageViewType::TYPE_2D)
            .format(vk::Format::R8G8B8A8_UNORM)
            .subresource_range(range);
        // SAFETY: the image is alive.
        unsafe { gpu.device.create_image_view(&info, None) }
    };
    let retire = |view| cookbook::retire_view::retire_view(&gpu.memory, &bin, &gpu.device, view);
    let work = gpu.begin()?;
    ensure(retire(view()?)? == 0, "the frame may use the view")?;
    gpu.wait(gpu.submit(work)?)?;
    ensure(retire(view()?)? >= 1, "the first view is destroyed")?;
    // SAFETY: no frame is under way.
    bin.release_all(|view| unsafe { gpu.device.destroy_image_view(view, None) });
    Ok(())
}

pub fn async_compute(gpu: &Gpu) -> Result<(), Failure> {
    let queues = Queues::new(gpu, u64::MAX)?;
    let desc = BufferDesc { size: 256, usage: BufferUsage::STORAGE | COPIED };
    let buffer = queues.memory.create_buffer(&desc, AllocationDesc { name: "light list", ..Default::default() })?;
    let request = AllocationDesc { name: "back", location: Location::Readback, ..Default::default() };
    let back = queues.memory.create_buffer(&BufferDesc { usage: BufferUsage::COPY_DST, ..desc }, request)?;

    let (graphics, commands) = (queues.timelines[0].begin(), queues.commands()?);
    // SAFETY: the commands are submitted as these frames, which the semaphore orders.
    unsafe {
        let mut recorder = CopyRecorder::new(&gpu.device, commands);
        Commands::new(&queues.memory, &graphics, &mut recorder)?.fill_buffer(&buffer, 0..256, 0x0909_0909)?;
    }
    let written = queues.timelines[0].submit(graphics, |value| {
        queues.submit(0, commands, value)?;
        Ok::<_, Failure>(())
    })?;

    let (frame, commands) = (queues.timelines[1].begin(), queues.commands()?);
    // SAFETY: as above.
    unsafe {
        let mut recorder = CopyRecorder::new(&gpu.device, commands);
        Commands::new(&queues.memory, &frame, &mut recorder)?.copy_buffer((&buffer, 0), (&back, 0), 256)?;
        gpu.device.end_command_buffer(commands)?;
    }
    let compute = (&queues.timelines[1], queues.queue);
    let (semaphores, work) = (queues.semaphores, (frame, commands));
    let point = cookbook::async_compute::async_compute(&gpu.device, compute, semaphores, work, written, buffer)?;
    ensure(queues.memory.statistics().retired_count == 1, "the buffer waits for the queues")?;
    queues.wait(1, point)?;
    let mut bytes = [0; 256];
    back.read(0, &mut bytes)?;
    ensure(bytes == [9; 256], "the compute queue reads the bytes of the graphics queue")?;
    queues.memory.reclaim();
    ensure(queues.memory.statistics().retired_count == 0, "the buffer is destroyed")?;
    drop(back);
    queues.close()
}

pub fn copy_queue(gpu: &Gpu) -> Result<(), Failure> {
    let queues = Queues::new(gpu, u64::MAX)?;
    let mut uploads = TransferQueue::new(queues.timelines[1].clone(), upload_ring(&queues.memory)?);
    let desc = BufferDesc { size: 64, usage: BufferUsage::VERTEX | COPIED };
    let make = || queues.memory.create_buffer(&desc, AllocationDesc { name: "mesh", ..Default::default() });
    let (buffers, contents) = ([make()?, make()?], [pattern(64, 1), pattern(64, 2)]);
    let pairs = [(&buffers[0], contents[0].as_slice()), (&buffers[1], &contents[1])];
    let commands = queues.commands()?;
    let submit = |value| queues.submit(1, commands, value);
    let point = cookbook::copy_queue::copy_queue(&mut uploads, &pairs, &gpu.device, commands, submit)?;
    queues.wait(1, point.ok_or("there were uploads")?)?;
    for (buffer, bytes) in pairs {
        ensure(read_buffer(gpu, *buffer.object(), 0, 64)? == bytes, "the contents differ")?;
    }
    drop((uploads, buffers));
    queues.close()
}

pub fn snapshot_json(gpu: &Gpu) -> Result<(), Failure> {
    let (_buffer, json) = cookbook::snapshot_json::snapshot_json(&gpu.memory, 7)?;
    let json: serde_json::Value = serde_json::from_str(&json)?;
    let blocks = json["blocks"].as_array().ok_or("a list of blocks")?;
    let mut ranges = blocks.iter().filter_map(|block| block["ranges"].as_array()).flatten();
    ensure(ranges.any(|range| range["name"] == "terrain/tile 7" && range["user_data"] == 7), "the buffer is listed")
}

pub fn trace_a_bug(gpu: &Gpu) -> Result<(), Failure> {
    let queues = Queues::new(gpu, u64::MAX)?;
    let path = std::env::temp_dir().join(format!("cookbook-{}.rft", std::process::id()));
    let events = cookbook::trace_a_bug::trace_a_bug(&queues.memory, &path, |memory| {
        drop(memory.create_texture(&MIB, AllocationDesc { name: "traced", ..Default::default() })?);
        Ok(())
    })?;
    ensure(events > 2 && path.metadata()?.len() > 32, "the file has the events")?;
    queues.close()?;
    let queues = Queues::new(gpu, u64::MAX)?;
    let failed = cookbook::trace_a_bug::trace_a_bug(&queues.memory, &path, |_| Err("the bug".into()));
    ensure(failed.is_err_and(|error| error.to_string() == "the bug"), "the error of the part")?;
    std::fs::remove_file(path)?;
    queues.close()
}

pub fn assert_no_leaks(gpu: &Gpu) -> Result<(), Failure> {
    let queues = Queues::new(gpu, u64::MAX)?;
    let texture = queues.memory.create_texture(&MIB, AllocationDesc { name: "forgotten", ..Default::default() })?;
    let leak = cookbook::assert_no_leaks::assert_no_leaks(&queues.memory).err().ok_or("a leak")?;
    ensure(leak.to_string().contains("forgotten"), "the name of the leak")?;
    drop(texture);
    cookbook::assert_no_leaks::assert_no_leaks(&queues.memory)?;
    queues.close()
}

pub fn memory_growth(gpu: &Gpu) -> Result<(), Failure> {
    let (mut held, desc) = (Vec::new(), BufferDesc { size: 64 << 10, usage: BufferUsage::STORAGE });
    let mut grow = |is_leaking: bool| {
        cookbook::memory_growth::memory_growth(&gpu.memory, 12, 4096, |_| {
            let buffer = gpu.memory.create_buffer(&desc, AllocationDesc::default())?;
            if is_leaking {
                held.push(buffer);
            }
            submit(gpu, |_, _| Ok(()))
        })
    };
    grow(false)?;
    ensure(grow(true).is_err(), "the growth is found")
}

pub fn own_ranges(gpu: &Gpu) -> Result<(), Failure> {
    let (mut ranges, retired) = (Tlsf::new(1024), RetireBin::new());
    let mut next = |released| {
        let ranges = &mut ranges;
        cookbook::own_ranges::own_ranges(&gpu.memory, ranges, &retired, released, 600)
    };
    let work = gpu.begin()?;
    let first = next(None)?;
    ensure(first.offset() % 256 == 0 && next(Some(first)).is_err(), "the frame may use the range")?;
    gpu.wait(gpu.submit(work)?)?;
    ensure(next(None)?.offset() == first.offset(), "the range is free again")
}

pub fn simulated_gpu(_: &Gpu) -> Result<(), Failure> {
    ensure(cookbook::simulated_gpu::simulated_gpu(false)?.is_empty(), "no hazard")?;
    let hazards = cookbook::simulated_gpu::simulated_gpu(true)?;
    let is_named = |hazard: &ringfence::sim::Hazard| hazard.to_string().contains("particles");
    let hazard = hazards.iter().find(|hazard| is_named(hazard)).ok_or("a hazard with the name of the buffer")?;
    ensure(hazard.kind == HazardKind::DestroyedWhilePending, "the buffer was destroyed too early")
}
