//! A texture that the queue writes and a compute shader reads, with its rows in reverse order.

use crate::copies::same;
use crate::gpu::Gpu;
use crate::{Settings, compute, random};
use wgpu::{BufferUsages, TextureUsages};

const SHADER: &str = "
@group(0) @binding(0) var source: texture_2d<f32>;
@group(0) @binding(1) var<storage, read_write> turned: array<u32>;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    let size = textureDimensions(source);
    if at.x >= size.x || at.y >= size.y { return; }
    let texel = textureLoad(source, vec2<u32>(at.x, size.y - 1u - at.y), 0);
    turned[at.y * size.x + at.x] = pack4x8unorm(texel);
}
";

pub fn run(gpu: &Gpu, _: &Settings) -> Result<Vec<u8>, String> {
    let [width, height] = [200_u32, 120];
    let row = width as usize * 4;
    let texels = random::bytes(7, row * height as usize);
    let texture = gpu.texture("source", [width, height], 1, TextureUsages::TEXTURE_BINDING | TextureUsages::COPY_DST);
    gpu.queue.write_texture(
        texture.as_image_copy(),
        &texels,
        wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(width * 4), rows_per_image: None },
        texture.size(),
    );
    let size = texels.len() as u64;
    let turned = gpu.buffer("turned", size, BufferUsages::STORAGE | BufferUsages::COPY_SRC);
    let pipeline = compute::pipeline(gpu, SHADER);
    let view = texture.create_view(&Default::default());
    let bindings = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[
            wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::TextureView(&view) },
            wgpu::BindGroupEntry { binding: 1, resource: turned.as_entire_binding() },
        ],
    });
    let back = gpu.buffer("back", size, BufferUsages::COPY_DST | BufferUsages::MAP_READ);
    let mut encoder = gpu.encoder();
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &bindings, &[]);
    pass.dispatch_workgroups(width.div_ceil(8), height.div_ceil(8), 1);
    drop(pass);
    encoder.copy_buffer_to_buffer(&turned, 0, &back, 0, size);
    gpu.finish(encoder)?;
    let found = gpu.read(&[&back])?.concat();
    let expected: Vec<u8> = texels.chunks(row).rev().flatten().copied().collect();
    same(&found, &expected, "the turned texture")?;
    Ok(found)
}
