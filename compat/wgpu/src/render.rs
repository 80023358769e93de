//! Triangles drawn into a texture that is read back: vertices, constants, a depth buffer, four samples a texel.

use crate::Settings;
use crate::gpu::{Gpu, dense};
use crate::random::Random;
use wgpu::{BufferUsages, TextureUsages};

const SHADER: &str = "
struct Constants { scale: vec4<f32>, tint: vec4<f32> }
@group(0) @binding(0) var<uniform> constants: Constants;

struct Corner { @builtin(position) position: vec4<f32>, @location(0) colour: vec4<f32> }

@vertex
fn place(@location(0) position: vec3<f32>, @location(1) colour: vec4<f32>) -> Corner {
    return Corner(vec4<f32>(position, 1.0) * constants.scale, colour);
}

@fragment
fn paint(corner: Corner) -> @location(0) vec4<f32> {
    return corner.colour * constants.tint;
}
";

const SIZE: [u32; 2] = [320, 200];
const TRIANGLES: usize = 400;
const FLOATS: usize = 7;

pub fn run(gpu: &Gpu, _: &Settings) -> Result<Vec<u8>, String> {
    let bytes = |floats: Vec<f32>| floats.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
    let vertices = gpu.buffer_of("vertices", &bytes(vertices()), BufferUsages::VERTEX);
    let constants = bytes(vec![0.9, 0.8, 1.0, 1.0, 1.0, 0.9, 0.8, 1.0]);
    let constants = gpu.buffer_of("constants", &constants, BufferUsages::UNIFORM);
    let target = gpu.texture("target", SIZE, 1, TextureUsages::RENDER_ATTACHMENT | TextureUsages::COPY_SRC);
    let [samples, depth] = [wgpu::TextureFormat::Rgba8Unorm, wgpu::TextureFormat::Depth32Float].map(|format| {
        let texture = gpu.device.create_texture(&wgpu::TextureDescriptor {
            label: Some("samples"),
            size: target.size(),
            mip_level_count: 1,
            sample_count: 4,
            dimension: wgpu::TextureDimension::D2,
            format,
            usage: TextureUsages::RENDER_ATTACHMENT,
            view_formats: &[],
        });
        texture.create_view(&Default::default())
    });
    let pipeline = pipeline(gpu);
    let bindings = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: constants.as_entire_binding() }],
    });
    let mut encoder = gpu.encoder();
    let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
        color_attachments: &[Some(wgpu::RenderPassColorAttachment {
            view: &samples,
            depth_slice: None,
            resolve_target: Some(&target.create_view(&Default::default())),
            ops: wgpu::Operations { load: wgpu::LoadOp::Clear(wgpu::Color::BLUE), store: wgpu::StoreOp::Discard },
        })],
        depth_stencil_attachment: Some(wgpu::RenderPassDepthStencilAttachment {
            view: &depth,
            depth_ops: Some(wgpu::Operations { load: wgpu::LoadOp::Clear(1.0), store: wgpu::StoreOp::Discard }),
            stencil_ops: None,
        }),
        ..Default::default()
    });
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &bindings, &[]);
    pass.set_vertex_buffer(0, vertices.slice(..));
    pass.draw(0..TRIANGLES as u32 * 3, 0..1);
    drop(pass);
    let back = gpu.copy_out(&mut encoder, &target, 0);
    gpu.finish(encoder)?;
    let texels = dense(&gpu.read(&[&back])?[0], SIZE[0]);
    let colours: std::collections::BTreeSet<&[u8]> = texels.chunks(4).collect();
    let corner = &texels[..4];
    if corner != [0, 0, 255, 255] || colours.len() < 1000 {
        return Err(format!("the picture has {} colours, {corner:?} in its corner", colours.len()));
    }
    Ok(texels)
}

fn vertices() -> Vec<f32> {
    let mut random = Random::new(3);
    let mut unit = || (random.next() >> 40) as f32 / (1_u64 << 24) as f32;
    let mut floats = Vec::with_capacity(TRIANGLES * 3 * FLOATS);
    for _ in 0..TRIANGLES {
        let (x, y, depth) = (unit() * 1.8 - 0.9, unit() * 1.8 - 0.9, unit());
        for _ in 0..3 {
            floats.extend([x + unit() * 0.3 - 0.15, y + unit() * 0.3 - 0.15, depth, unit(), unit(), unit(), 1.0]);
        }
    }
    floats
}

fn pipeline(gpu: &Gpu) -> wgpu::RenderPipeline {
    let source = wgpu::ShaderSource::Wgsl(SHADER.into());
    let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
    let attributes = wgpu::vertex_attr_array![0 => Float32x3, 1 => Float32x4];
    let layout = wgpu::VertexBufferLayout {
        array_stride: FLOATS as u64 * 4,
        step_mode: wgpu::VertexStepMode::Vertex,
        attributes: &attributes,
    };
    gpu.device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
        label: None,
        layout: None,
        vertex: wgpu::VertexState {
            module: &module,
            entry_point: Some("place"),
            compilation_options: Default::default(),
            buffers: &[Some(layout)],
        },
        primitive: Default::default(),
        depth_stencil: Some(wgpu::DepthStencilState {
            format: wgpu::TextureFormat::Depth32Float,
            depth_write_enabled: Some(true),
            depth_compare: Some(wgpu::CompareFunction::Less),
            stencil: Default::default(),
            bias: Default::default(),
        }),
        multisample: wgpu::MultisampleState { count: 4, ..Default::default() },
        fragment: Some(wgpu::FragmentState {
            module: &module,
            entry_point: Some("paint"),
            compilation_options: Default::default(),
            targets: &[Some(wgpu::TextureFormat::Rgba8Unorm.into())],
        }),
        multiview_mask: None,
        cache: None,
    })
}
