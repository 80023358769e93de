//! A floor and a sphere with a texture, lit by one light.

use ash::vk;
use glam::{Mat4, Vec3, Vec4};
use ringfence::AllocationDesc;
use ringfence::commands::Commands;
use ringfence::descriptor::{Binding, BindlessDesc, BindlessEntry, Sampler, SamplerTable, ShaderVisibleDesc, View};
use ringfence::device::descriptors::{HeapKind, SamplerDesc, TextureView, TextureViewKind, ViewLayout, ViewTypes};
use ringfence::device::{Format, TextureDesc, TextureUsage};
use ringfence::upload::{TexelTarget, Texels};
use ringfence::vulkan::{BindlessTable, Device, FastConstants, ShaderVisibleHeap, Texture, UploadBatch, UploadRing};

use crate::gpu::{Failure, Gpu, Work};
use crate::mesh::Mesh;
use crate::pipeline::{Pipeline, PipelineDesc};
use crate::{heap, shapes};

const READ: vk::ImageLayout = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;

/// The objects that the draws need.
pub struct Scene {
    heap: ShaderVisibleHeap,
    samplers: ShaderVisibleHeap,
    /// The slot of the texture.
    board: BindlessEntry<Device>,
    pages: FastConstants,
    floor: Mesh,
    pipeline: Pipeline,
    /// Objects that the slots refer to. A table that is dropped frees all its slots.
    _held: (BindlessTable, Texture, SamplerTable<Device>, Sampler<Device>),
}

/// Creates a texture, uploads its first mip level, and makes the other levels from it.
fn make_texture(gpu: &Gpu, ring: &UploadRing, work: &Work) -> Result<Texture, Failure> {
    let (format, usage) = (Format::Rgba8Unorm, TextureUsage::SAMPLED | TextureUsage::COPY_SRC | TextureUsage::COPY_DST);
    let desc = TextureDesc { width: 64, height: 64, mips: 7, format, usage, ..Default::default() };
    let texture = gpu.memory.create_texture(&desc, AllocationDesc { name: "board", ..Default::default() })?;
    let mut batch = UploadBatch::new();
    let board = shapes::board();
    let staged = ring.write_texels(&work.frame, &Texels::of(format, [64, 64, 1], &board))?;
    batch.copy_texels(&staged, &texture, TexelTarget::default())?;
    let mut recorder = gpu.recorder(work, READ);
    // SAFETY: the command buffer is submitted as this frame. The upload is the first use of the texture and leaves its
    // first mip level in the layout of the recorder. The commands overwrite the other levels.
    unsafe {
        batch.record(&mut recorder)?;
        Commands::new(&gpu.memory, &work.frame, &mut recorder)?.generate_mips(&texture)?;
    }
    Ok(texture)
}

impl Scene {
    pub fn new(gpu: &Gpu, ring: &UploadRing, work: &Work) -> Result<Self, Failure> {
        let heap = heap::make(gpu, ViewTypes::STORAGE_BUFFER | ViewTypes::SAMPLED_TEXTURE)?;
        let texture = make_texture(gpu, ring, work)?;
        let table = BindlessTable::new(&gpu.memory, &heap, BindlessDesc::default())?;
        let view = TextureView::new(TextureViewKind::Sampled, 0..7, 0..1).layout(ViewLayout::ReadOnly);
        let board = table.insert(&View::texture(&texture, view)?)?;

        let (kind, name) = (HeapKind::Samplers, "samplers");
        let desc = ShaderVisibleDesc { kind, frame_slots: 0, persistent_slots: 4, name, ..Default::default() };
        let samplers = ShaderVisibleHeap::new(&gpu.memory, desc)?;
        let desc = BindlessDesc { capacity: 4, ..Default::default() };
        let sampler_table = SamplerTable::new(&gpu.memory, &samplers, desc)?;
        let sampler = sampler_table.get(SamplerDesc::default())?;

        // Without the feature, the shader contains the number of the slot.
        let index = if gpu.can_index_textures { "push.texture".into() } else { format!("{}u", board.slot()) };
        let source = include_str!("shaders/lit.wgsl")
            .replace("TEXTURE", &index)
            .replace("SAMPLER", &format!("{}u", sampler.slot()));
        let device = gpu.memory.device();
        let binding = |kind, format| device.descriptor_binding(kind, vk::ImageViewType::TYPE_2D, format);
        let buffers = binding(vk::DescriptorType::STORAGE_BUFFER, vk::Format::UNDEFINED);
        let textures = binding(vk::DescriptorType::SAMPLED_IMAGE, vk::Format::R8G8B8A8_UNORM);
        let bindings = [
            heap::map(0, 0, buffers, heap.slots())?,
            heap::map(0, 1, textures, heap.slots())?,
            heap::map(1, 0, Some(0), samplers.slots())?,
        ];
        let pipeline = Pipeline::new(
            gpu,
            &PipelineDesc {
                source: &source,
                attributes: &shapes::ATTRIBUTES,
                has_depth: true,
                sets: &[heap.set_layout(), samplers.set_layout()],
                push_bytes: 8,
                bindings: bindings.into_iter().collect(),
            },
        )?;

        let mut batch = UploadBatch::new();
        let (vertices, indices) = shapes::cube();
        let floor = Mesh::new(gpu, (ring, &mut batch, work), "floor", bytemuck::cast_slice(&vertices), &indices)?;
        // SAFETY: the command buffer is submitted as this frame.
        unsafe { batch.record(&mut gpu.recorder(work, READ)) }?;
        let pages = heap::make_constants(gpu);
        let held = (table, texture, sampler_table, sampler);
        Ok(Self { heap, samplers, board, pages, floor, pipeline, _held: held })
    }

    /// Draws the floor and the sphere. A pass has begun. `turn` is the angle of the sphere. The caller keeps the returned
    /// binding until the frame is submitted.
    pub fn draw(&self, gpu: &Gpu, work: &Work, sphere: &Mesh, turn: f32) -> Result<Binding<Device>, Failure> {
        let slot = heap::write_constants(&self.heap, &self.pages, work, &constants(turn))?;
        let mut binding = self.heap.bind(&work.frame)?.and(&self.samplers)?;
        self.pipeline.bind(gpu, work);
        heap::set(gpu, work, &mut binding, self.pipeline.layout, &[slot, self.board.slot()])?;
        self.floor.draw(gpu, work, 0, 1);
        sphere.draw(gpu, work, 1, 1);
        Ok(binding)
    }

    /// Destroys the pipeline once the GPU has finished with it. All other objects are retired by their drops.
    pub fn retire(self, gpu: &Gpu) {
        self.pipeline.retire(gpu);
    }
}

/// Returns the constants of a frame: the camera, the light, the matrix and the look of each draw.
fn constants(turn: f32) -> Vec<u8> {
    let camera = Mat4::perspective_rh(0.8, 4.0 / 3.0, 0.1, 50.0)
        * Mat4::look_at_rh(Vec3::new(0.0, 1.2, 4.5), Vec3::new(0.0, -0.1, 0.0), Vec3::Y);
    let light = Vec3::new(0.6, 0.7, 0.5).normalize().extend(0.0);
    let floor = Mat4::from_translation(Vec3::new(0.0, -1.6, 0.0)) * Mat4::from_scale(Vec3::new(12.0, 0.5, 12.0));
    let mut bytes = bytemuck::bytes_of(&camera).to_vec();
    bytes.extend(bytemuck::bytes_of(&light));
    for (model, look) in
        [(floor, Vec4::new(0.6, 0.7, 0.8, 5.0)), (Mat4::from_rotation_y(turn), Vec4::new(1.0, 1.0, 1.0, 2.0))]
    {
        bytes.extend(bytemuck::bytes_of(&model));
        bytes.extend(bytemuck::bytes_of(&look));
    }
    bytes
}
