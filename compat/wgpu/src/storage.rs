//! A picture that a compute shader writes into a storage texture: the escape times of points of the Mandelbrot set, in
//! integers, so that every device computes the same.

use crate::Settings;
use crate::compute;
use crate::copies::same;
use crate::gpu::{Gpu, dense};
use wgpu::TextureUsages;

const SHADER: &str = "
@group(0) @binding(0) var picture: texture_storage_2d<rgba8unorm, write>;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    let size = textureDimensions(picture);
    if at.x >= size.x || at.y >= size.y { return; }
    let real = i32(at.x) * 48 - 8192;
    let imaginary = i32(at.y) * 48 - 4608;
    var x = 0;
    var y = 0;
    var count = 0;
    while count < 255 && x * x + y * y < 67108864 {
        let next = (x * x - y * y) / 4096 + real;
        y = x * y / 2048 + imaginary;
        x = next;
        count += 1;
    }
    textureStore(picture, at.xy, vec4<f32>(f32(count), f32(at.x % 256u), f32(at.y % 256u), 255.0) / 255.0);
}
";

const SIZE: [u32; 2] = [256, 192];

pub fn run(gpu: &Gpu, _: &Settings) -> Result<Vec<u8>, String> {
    let picture = gpu.texture("picture", SIZE, 1, TextureUsages::STORAGE_BINDING | TextureUsages::COPY_SRC);
    let pipeline = compute::pipeline(gpu, SHADER);
    let view = picture.create_view(&Default::default());
    let bindings = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::TextureView(&view) }],
    });
    let mut encoder = gpu.encoder();
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &bindings, &[]);
    pass.dispatch_workgroups(SIZE[0] / 8, SIZE[1] / 8, 1);
    drop(pass);
    let back = gpu.copy_out(&mut encoder, &picture, 0);
    gpu.finish(encoder)?;
    let found = dense(&gpu.read(&[&back])?[0], SIZE[0]);
    let expected: Vec<u8> = (0..SIZE[1])
        .flat_map(|y| (0..SIZE[0]).flat_map(move |x| [escape(x as i32, y as i32), x as u8, y as u8, 255]))
        .collect();
    same(&found, &expected, "the picture")?;
    Ok(found)
}

/// Computes one texel in the same way as the shader.
fn escape(across: i32, down: i32) -> u8 {
    let (real, imaginary) = (across * 48 - 8192, down * 48 - 4608);
    let (mut x, mut y, mut count) = (0, 0, 0);
    while count < 255 && x * x + y * y < 67_108_864 {
        (x, y) = ((x * x - y * y) / 4096 + real, x * y / 2048 + imaginary);
        count += 1;
    }
    count
}
