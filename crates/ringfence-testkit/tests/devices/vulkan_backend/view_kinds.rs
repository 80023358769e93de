//! One shader reads views of different dimensions in one heap, with every descriptor model.

use std::time::Duration;

use ash::vk;
use ringfence::descriptor::{
    Binding, CpuDescriptorHeap, CpuHeapDesc, DescriptorError, Persistent, ShaderVisibleDesc, View,
};
use ringfence::device::descriptors::{
    BufferView, BufferViewKind, DescriptorModel, Descriptors, HeapKind, PortableView, SamplerDesc, TextureView,
    TextureViewKind, ViewDimension, ViewTypes,
};
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, Dimension, Format, TextureAspect, TextureDesc, TextureUsage,
    Textures,
};
use ringfence::vulkan::{self, Bound, Device, TextureInfo};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, ShaderVisibleHeap, Texture};
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, OpenError, Options};

const BYTES: u64 = 256;
/// Number of slots: the result, a view of each dimension, and the faces of the cube as layers.
const SLOTS: u32 = 8;
const SAMPLERS: u32 = 2;
const PATIENCE: Duration = Duration::from_secs(30);
const FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;

/// The dimension of a view, its number of layers, and the red value of its first layer or slice. Each further layer or
/// slice has a red value that is larger by one.
const VIEWS: [(vk::ImageViewType, u32, u8); 6] = [
    (vk::ImageViewType::TYPE_2D, 1, 10),
    (vk::ImageViewType::TYPE_2D_ARRAY, 2, 20),
    (vk::ImageViewType::CUBE, 6, 30),
    (vk::ImageViewType::TYPE_3D, 1, 40),
    (vk::ImageViewType::TYPE_1D, 1, 50),
    (vk::ImageViewType::CUBE_ARRAY, 12, 60),
];
/// Number of views for which a heap of plain sets has an array by default (see `DeviceDesc::plain_views`).
const USUAL: usize = 4;

/// Returns the views that the shader reads on this device.
fn views(device: &Device) -> &'static [(vk::ImageViewType, u32, u8)] {
    let binding = |view_type| device.descriptor_binding(vk::DescriptorType::SAMPLED_IMAGE, view_type, FORMAT);
    let shown = VIEWS.iter().take_while(|(view_type, ..)| binding(*view_type).is_some()).count();
    assert!(shown >= USUAL);
    &VIEWS[..shown]
}

/// Opens a device with this descriptor model. If the device lacks it, reports that and returns `None`.
pub(super) fn open(model: DescriptorModel, placeholders: bool) -> Option<VulkanGpu> {
    let options = Options { descriptors: Some(model), placeholders, ..crate::vulkan_backend::rig::Rig::options() };
    match VulkanGpu::open(&options) {
        Ok(gpu) if gpu.device().descriptor_support().model == model => Some(gpu),
        Ok(gpu) => {
            println!("skipped: {model:?}: the device has {:?}", gpu.device().descriptor_support().model);
            None
        }
        Err(OpenError::Absent(what)) if std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_none() => {
            println!("skipped: {what}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn views_of_every_dimension_are_read_side_by_side_from_descriptor_buffers() {
    read_all(DescriptorModel::Buffers, false);
}

#[test]
fn views_of_every_dimension_are_read_side_by_side_from_sets_that_are_written_while_bound() {
    read_all(DescriptorModel::UpdateAfterBind, false);
}

#[test]
fn views_of_every_dimension_are_read_side_by_side_from_plain_sets() {
    read_all(DescriptorModel::PlainSets, false);
}

#[test]
fn views_of_every_dimension_are_read_side_by_side_from_plain_sets_with_placeholders() {
    read_all(DescriptorModel::PlainSets, true);
}

#[test]
fn plain_sets_refuse_views_without_an_array_by_name() {
    let Some(gpu) = open(DescriptorModel::PlainSets, false) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let (heap, mut run) = heap(&memory);
    let image = image(&memory, vk::ImageViewType::TYPE_2D, 1, vk::Format::R32_UINT);
    let view = view(&image, vk::ImageViewType::TYPE_2D, 1, vk::Format::R32_UINT);
    let refused = run.write(5, &view);
    assert!(matches!(refused, Err(DescriptorError::Device(DeviceError::Unsupported(_)))), "{refused:?}");
    assert_eq!(
        gpu.device().descriptor_binding(vk::DescriptorType::SAMPLED_IMAGE, vk::ImageViewType::CUBE, FORMAT),
        Some(8)
    );
    drop((view, image, run, heap));
    memory.reclaim();
    drop(memory);
    assert_eq!(gpu.close(), Vec::<String>::new());
}

/// For any number of layers of the texture, several layers are shown as an array, and a single layer as a plain view.
/// Six layers of a cube are shown as a cube if they are sampled.
#[test]
fn the_natural_view_of_a_cube_is_a_cube_and_of_other_layers_an_array() {
    let Some(gpu) = open(DescriptorModel::PlainSets, false) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let usage = TextureUsage::SAMPLED | TextureUsage::STORAGE | TextureUsage::RENDER_TARGET;
    for (dimension, count) in [(Dimension::D2, 1), (Dimension::D2, 3), (Dimension::Cube, 6)] {
        let desc = TextureDesc { width: 4, height: 4, layers: count, dimension, usage, ..Default::default() };
        let info = Create::<Textures>::describe(memory.device(), &desc).expect("every device has it");
        let texture = memory.create_texture(&info, AllocationDesc::default()).expect("there is room");
        for layers in [0..1, count - 1..count, 0..count] {
            for kind in [TextureViewKind::Sampled, TextureViewKind::Storage, TextureViewKind::RenderTarget] {
                let expected = match (layers.len(), dimension, kind) {
                    (1, ..) => vk::ImageViewType::TYPE_2D,
                    (_, Dimension::Cube, TextureViewKind::Sampled) => vk::ImageViewType::CUBE,
                    _ => vk::ImageViewType::TYPE_2D_ARRAY,
                };
                let range = TextureView::new(kind, 0..1, layers.clone());
                let view = PortableView::Texture { object: texture.object(), desc, view: range.clone() };
                let found = match gpu.device().describe_view(&view).expect("it was made for it") {
                    vulkan::View::Image { info, .. } | vulkan::View::Attachment(info) => info.view_type,
                    _ => panic!("an image"),
                };
                assert_eq!(found, expected, "{kind:?} of {layers:?} of {count}");
                let cpu = CpuHeapDesc { kind: kind.heap_kind(), ..Default::default() };
                let cpu = CpuDescriptorHeap::new(&memory, cpu).expect("small");
                let mut slot = cpu.allocate(1).expect("room");
                slot.write(0, &View::texture(&texture, range).expect("made for it")).expect("there is an array for it");
            }
        }
    }
    memory.reclaim();
    drop(memory);
    assert_eq!(gpu.close(), Vec::<String>::new());
}

/// Views that do not match their texture are refused by name, on every device.
#[test]
fn views_that_a_texture_does_not_have_are_refused_by_name() {
    let Some(gpu) = open(DescriptorModel::PlainSets, false) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST;
    let make = |desc: TextureDesc| {
        let info = Create::<Textures>::describe(memory.device(), &desc).expect("every device has it");
        memory.create_texture(&info, AllocationDesc::default()).expect("there is room")
    };
    let square = TextureDesc { width: 4, height: 4, usage, ..Default::default() };
    let cube = make(TextureDesc { dimension: Dimension::Cube, layers: 12, ..square });
    let layers = make(TextureDesc { layers: 6, ..square });
    let volume = make(TextureDesc { dimension: Dimension::D3, depth: 4, ..square });
    let both = make(TextureDesc { format: Format::D32FloatS8Uint, usage: TextureUsage::SAMPLED, ..square });
    let sampled = |layers| TextureView::new(TextureViewKind::Sampled, 0..1, layers);
    for (of, view) in [
        (&layers, sampled(0..6).dimension(ViewDimension::Cube)),
        (&layers, sampled(0..1).dimension(ViewDimension::D3)),
        (&layers, sampled(0..1).dimension(ViewDimension::D1)),
        (&layers, sampled(0..2).dimension(ViewDimension::D2)),
        (&cube, sampled(0..5).dimension(ViewDimension::Cube)),
        (&cube, sampled(0..7).dimension(ViewDimension::CubeArray)),
        (&volume, sampled(0..1).dimension(ViewDimension::D2)),
        (&both, sampled(0..1)),
        (&layers, sampled(0..1).aspect(TextureAspect::Depth)),
    ] {
        let refused = View::texture(of, view.clone()).err();
        assert!(matches!(refused, Some(DescriptorError::BadView(_))), "{view:?}: {refused:?}");
    }
    View::sampled(&both).expect("the depth");
    for aspect in [TextureAspect::Depth, TextureAspect::Stencil] {
        View::texture(&both, sampled(0..1).aspect(aspect)).expect("one of both");
    }
    drop((cube, layers, volume, both));
    memory.reclaim();
    drop(memory);
    assert_eq!(gpu.close(), Vec::<String>::new());
}

type Heap = ShaderVisibleHeap<Device>;
type Run = Persistent<Device>;

fn heap(memory: &Allocator<Device>) -> (Heap, Run) {
    let desc = ShaderVisibleDesc {
        types: ViewTypes::STORAGE_BUFFER | ViewTypes::SAMPLED_TEXTURE,
        frame_slots: 0,
        persistent_slots: SLOTS,
        ..Default::default()
    };
    let heap = ShaderVisibleHeap::new(memory, desc).expect("every device has this many slots");
    let run = heap.allocate(SLOTS).expect("all of them");
    (heap, run)
}

fn image(memory: &Allocator<Device>, view_type: vk::ImageViewType, layers: u32, format: vk::Format) -> Texture<Device> {
    let is_volume = view_type == vk::ImageViewType::TYPE_3D;
    let is_row = view_type == vk::ImageViewType::TYPE_1D;
    let is_cube = matches!(view_type, vk::ImageViewType::CUBE | vk::ImageViewType::CUBE_ARRAY);
    let info = vk::ImageCreateInfo::default()
        .flags(if is_cube { vk::ImageCreateFlags::CUBE_COMPATIBLE } else { vk::ImageCreateFlags::empty() })
        .image_type(match (is_row, is_volume) {
            (true, _) => vk::ImageType::TYPE_1D,
            (_, true) => vk::ImageType::TYPE_3D,
            _ => vk::ImageType::TYPE_2D,
        })
        .format(format)
        .extent(vk::Extent3D { width: 4, height: if is_row { 1 } else { 4 }, depth: if is_volume { 2 } else { 1 } })
        .mip_levels(1)
        .array_layers(layers)
        .samples(vk::SampleCountFlags::TYPE_1)
        .usage(vk::ImageUsageFlags::TRANSFER_DST | vk::ImageUsageFlags::SAMPLED);
    // SAFETY: the description is valid, and every device supports such images.
    let info = unsafe { TextureInfo::from_raw(info) };
    memory.create_texture(&info, AllocationDesc::default()).expect("there is room")
}

fn range(first: u32, count: u32) -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        base_mip_level: 0,
        level_count: 1,
        base_array_layer: first,
        layer_count: count,
    }
}

fn view(of: &Texture<Device>, view_type: vk::ImageViewType, layers: u32, format: vk::Format) -> View<'static, Device> {
    let info = vk::ImageViewCreateInfo::default()
        .image(*of.object())
        .view_type(view_type)
        .format(format)
        .subresource_range(range(0, layers));
    let layout = vk::ImageLayout::GENERAL;
    let view = vulkan::View::Image { descriptor_type: vk::DescriptorType::SAMPLED_IMAGE, info, layout };
    // SAFETY: the image is alive while the view is used, and its description allows the view.
    unsafe { View::native(view, HeapKind::Resources) }
}

/// Creates the buffer that the shader writes to.
fn result(memory: &Allocator<Device>) -> Buffer<Device> {
    let desc = BufferDesc { size: BYTES, usage: BufferUsage::STORAGE };
    let info = Create::<Buffers>::describe(memory.device(), &desc).expect("every device has it");
    let desc = AllocationDesc { location: Location::Readback, ..Default::default() };
    memory.create_buffer(&info, desc).expect("there is room")
}

fn read_all(model: DescriptorModel, placeholders: bool) {
    let Some(gpu) = open(model, placeholders) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    // SAFETY: the only submission below signals it, and the test waits for it.
    let timeline = unsafe { memory.timeline(gpu.fence(0)) }.expect("the device is not lost");
    let (heap, mut run) = heap(&memory);
    let desc = ShaderVisibleDesc {
        kind: HeapKind::Samplers,
        frame_slots: 0,
        persistent_slots: SAMPLERS,
        ..Default::default()
    };
    let sampler_heap = Heap::new(&memory, desc).expect("every device has this many samplers");
    let mut samplers = sampler_heap.allocate(1).expect("room");
    samplers.write(0, &View::sampler(SamplerDesc::default()).expect("a plain one")).expect("every device has it");

    let back = result(&memory);
    let words = BufferView { kind: BufferViewKind::Storage { stride: 0, writes: true }, offset: 0, size: BYTES };
    run.write(0, &View::buffer(&back, words).expect("made for it")).expect("every device has it");
    let views = views(&gpu.device());
    let images: Vec<_> =
        views.iter().map(|(view_type, layers, _)| image(&memory, *view_type, *layers, FORMAT)).collect();
    for (slot, image) in (1..).zip(&images) {
        run.write(slot, &View::sampled(image).expect("made for it")).expect("there is an array for it");
    }
    let faces = TextureView::new(TextureViewKind::Sampled, 0..1, 0..6).dimension(ViewDimension::D2Array);
    run.write(7, &View::texture(&images[2], faces).expect("faces are layers")).expect("there is an array for it");

    let frame = timeline.begin();
    let mut binding = heap.bind(&frame).expect("room").and(&sampler_heap).expect("another kind");
    let bound = *binding.bound(HeapKind::Resources).expect("it is bound");
    assert_eq!(heap.set_layout(), bound.set_layout());
    assert_eq!(heap.needs_descriptor_buffer_pipelines(), bound.needs_descriptor_buffer_pipelines());
    let value = frame.value();
    let made = submit(&gpu, &mut binding, &images, value);
    timeline.submitted(frame).expect("in order");
    assert!(timeline.wait(value, PATIENCE).expect("the device is not lost"));
    // SAFETY: the work is complete.
    unsafe { made.destroy(gpu.device().raw()) };
    let mut bytes = [0; 32];
    back.read(0, &mut bytes).expect("it is mapped");
    let found: Vec<_> = bytes.chunks_exact(4).map(|word| word[0]).collect();
    assert_eq!(found[..6], [10, 21, 30, 35, 40, 33], "{model:?}");
    // The red values of the one-dimensional view, and of face -z of the second cube.
    let expected: &[u8] = if views.len() == VIEWS.len() { &[50, 71] } else { &[] };
    assert_eq!(found[6..6 + expected.len()], *expected, "{model:?}");
    drop((binding, run, samplers, heap, sampler_heap, images, back));
    memory.shutdown(PATIENCE).expect("all work is complete");
    drop((timeline, memory));
    assert_eq!(gpu.close(), Vec::<String>::new(), "{model:?}");
}

/// Objects that the submission needs until it is complete.
struct Made {
    pool: vk::CommandPool,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

impl Made {
    /// # Safety
    /// The work must be complete.
    unsafe fn destroy(self, device: &ash::Device) {
        // SAFETY: the caller promises that the work is complete; each object is destroyed once.
        unsafe {
            device.destroy_pipeline(self.pipeline, None);
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_command_pool(self.pool, None);
        }
    }
}

fn submit(gpu: &VulkanGpu, binding: &mut Binding<Device>, images: &[Texture<Device>], value: u64) -> Made {
    let device = gpu.device();
    let raw = device.raw();
    let bounds = [HeapKind::Resources, HeapKind::Samplers].map(|kind| *binding.bound(kind).expect("both are bound"));
    let (layout, pipeline) = pipeline(&device, &bounds);
    let point = vk::PipelineBindPoint::COMPUTE;
    // SAFETY: all objects belong to the device and are alive. The layout has the heaps' set layouts at 0 and 1. No
    // other thread uses the queue.
    unsafe {
        let family = vk::CommandPoolCreateInfo::default().queue_family_index(gpu.queue_family());
        let pool = raw.create_command_pool(&family, None).expect("a pool");
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        let commands = raw.allocate_command_buffers(&info).expect("a command buffer")[0];
        raw.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default()).expect("an empty one");
        for (image, (_, layers, red)) in images.iter().zip(views(&device)) {
            clear(raw, commands, (*image.object(), *layers), *red);
        }
        raw.cmd_bind_pipeline(commands, point, pipeline);
        binding.set(&device, commands, point, layout, 0).expect("set once");
        raw.cmd_dispatch(commands, 1, 1, 1);
        let (shader, host) = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::PipelineStageFlags::HOST);
        let (write, read) = (vk::AccessFlags::SHADER_WRITE, vk::AccessFlags::HOST_READ);
        let barrier = [vk::MemoryBarrier::default().src_access_mask(write).dst_access_mask(read)];
        raw.cmd_pipeline_barrier(commands, shader, host, Default::default(), &barrier, &[], &[]);
        raw.end_command_buffer(commands).expect("it is whole");
        let (values, semaphores, commands) = ([value], [gpu.fence(0)], [commands]);
        let mut signal = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let submit = vk::SubmitInfo::default().command_buffers(&commands).signal_semaphores(&semaphores);
        let queue = raw.get_device_queue(gpu.queue_family(), 0);
        raw.queue_submit(queue, &[submit.push_next(&mut signal)], vk::Fence::null()).expect("it is submitted");
        Made { pool, layout, pipeline }
    }
}

/// Clears layer `i` of an image to the level `red + i`. The image is in the layout `GENERAL` afterwards, and shaders
/// may read it.
///
/// # Safety
/// The command buffer must be in the recording state, and the image must belong to the device.
unsafe fn clear(raw: &ash::Device, commands: vk::CommandBuffer, (image, layers): (vk::Image, u32), red: u8) {
    let (top, transfer) = (vk::PipelineStageFlags::TOP_OF_PIPE, vk::PipelineStageFlags::TRANSFER);
    let shader = vk::PipelineStageFlags::COMPUTE_SHADER;
    let all = range(0, layers);
    let (write, read) = (vk::AccessFlags::TRANSFER_WRITE, vk::AccessFlags::SHADER_READ);
    let general = vk::ImageLayout::GENERAL;
    let barrier = vk::ImageMemoryBarrier::default()
        .image(image)
        .subresource_range(all)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .new_layout(general);
    let before = [barrier.old_layout(vk::ImageLayout::UNDEFINED).dst_access_mask(write)];
    let after = [barrier.old_layout(general).src_access_mask(write).dst_access_mask(read)];
    // SAFETY: the caller promises that the commands are being recorded and that the image belongs to the device.
    unsafe {
        raw.cmd_pipeline_barrier(commands, top, transfer, Default::default(), &[], &[], &before);
        for layer in 0..layers {
            let level = f32::from(red + layer as u8) / 255.0;
            let colour = vk::ClearColorValue { float32: [level, 0.0, 0.0, 1.0] };
            raw.cmd_clear_color_image(commands, image, general, &colour, &[range(layer, 1)]);
        }
        raw.cmd_pipeline_barrier(commands, transfer, shader, Default::default(), &[], &[], &after);
    }
}

fn pipeline(device: &Device, bounds: &[Bound; 2]) -> (vk::PipelineLayout, vk::Pipeline) {
    let raw = device.raw();
    let code = shader(device);
    let layouts = [bounds[0].set_layout(), bounds[1].set_layout()];
    let flags = match bounds[0].needs_descriptor_buffer_pipelines() {
        true => vk::PipelineCreateFlags::DESCRIPTOR_BUFFER_EXT,
        false => vk::PipelineCreateFlags::empty(),
    };
    // SAFETY: naga has validated the shader; the layouts have its bindings, each with an array of the same length.
    unsafe {
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
        let layout = raw.create_pipeline_layout(&info, None).expect("a layout");
        let info = vk::ShaderModuleCreateInfo::default().code(&code);
        let module = raw.create_shader_module(&info, None).expect("a module");
        let compute = vk::ShaderStageFlags::COMPUTE;
        let stage = vk::PipelineShaderStageCreateInfo::default().stage(compute).module(module).name(c"run");
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout).flags(flags)];
        let made = raw.create_compute_pipelines(vk::PipelineCache::null(), &info, None).expect("a pipeline");
        raw.destroy_shader_module(module, None);
        (layout, made[0])
    }
}

/// Compiles the shader to SPIR-V, with the bindings of the device.
fn shader(device: &Device) -> Vec<u32> {
    use naga::valid::{Capabilities, ValidationFlags, Validator};
    let source = include_str!("view_kinds.wgsl").replace("SLOTS", &SLOTS.to_string());
    let source = source.replace("SAMPLERS", &SAMPLERS.to_string());
    let views = views(device);
    let is_shown = |line: &&str| views.len() == VIEWS.len() || !line.contains("// beyond the usual");
    let source: String = source.lines().filter(is_shown).flat_map(|line| [line, "\n"]).collect();
    let module = naga::front::wgsl::parse_str(&source).expect("it is WGSL");
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).expect("it is valid");
    let options = naga::back::spv::Options { lang_version: (1, 3), ..Default::default() };
    let mut code = naga::back::spv::write_vec(&module, &info, &options, None).expect("it is within SPIR-V");
    let binding = |view_type| device.descriptor_binding(vk::DescriptorType::SAMPLED_IMAGE, view_type, FORMAT);
    let bindings: Vec<_> =
        views.iter().map(|(view_type, ..)| binding(*view_type).expect("there is an array")).collect();
    // `OpDecorate target Binding number`: four words.
    let mut at = 5;
    while at < code.len() {
        let (length, opcode) = ((code[at] >> 16) as usize, code[at] & 0xffff);
        if opcode == 71 && code[at + 2] == 33 && code[at + 3] >= 200 {
            code[at + 3] = bindings[code[at + 3] as usize - 200];
        }
        at += length;
    }
    code
}
