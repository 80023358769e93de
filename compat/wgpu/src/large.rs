//! Large buffers with dedicated memory: written by a compute shader, added to by another pass, and read back
//! completely.

use crate::gpu::Gpu;
use crate::{Settings, compute, random};
use wgpu::BufferUsages;

const SHADER: &str = "
@group(0) @binding(0) var<storage, read_write> first: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> second: array<vec4<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    first[at.x] += vec4<u32>(at.x, at.x * 3u, at.x * 5u, 7u);
    second[at.x] += first[at.x] * 2654435761u;
}
";

/// Larger than the initial blocks of both allocators.
const BYTES: u64 = 96 << 20;
const PASSES: usize = 2;

pub fn run(gpu: &Gpu, _: &Settings) -> Result<Vec<u8>, String> {
    let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC;
    let buffers = ["first", "second"].map(|label| gpu.buffer(label, BYTES, usage));
    let backs = [(); 2].map(|()| gpu.buffer("back", BYTES, BufferUsages::COPY_DST | BufferUsages::MAP_READ));
    let pipeline = compute::pipeline(gpu, SHADER);
    let bindings = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[0, 1]
            .map(|binding| wgpu::BindGroupEntry { binding, resource: buffers[binding as usize].as_entire_binding() }),
    });
    let mut encoder = gpu.encoder();
    for _ in 0..PASSES {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &bindings, &[]);
        pass.dispatch_workgroups((BYTES / 16 / 256) as u32, 1, 1);
    }
    for (buffer, back) in buffers.iter().zip(&backs) {
        encoder.copy_buffer_to_buffer(buffer, 0, back, 0, BYTES);
    }
    gpu.finish(encoder)?;
    crate::gpu::figure("large", "reserved", gpu.memory().reserved, "bytes");
    let read = gpu.read(&backs.each_ref())?;
    for at in 0..(BYTES / 16) as usize {
        let found = [0, 1].map(|buffer| words(&read[buffer][at * 16..][..16]));
        if found != expected(at as u32) {
            return Err(format!("element {at} is {found:?} instead of {:?}", expected(at as u32)));
        }
    }
    Ok(read.iter().fold(0, |digest, bytes| random::digest(digest, bytes)).to_le_bytes().to_vec())
}

fn words(bytes: &[u8]) -> [u32; 4] {
    std::array::from_fn(|at| u32::from_le_bytes(bytes[at * 4..][..4].try_into().expect("four bytes")))
}

/// Returns the element of both buffers after all passes. The buffers start as zero.
fn expected(at: u32) -> [[u32; 4]; 2] {
    let (mut first, mut second) = ([0_u32; 4], [0_u32; 4]);
    for _ in 0..PASSES {
        let step = [at, at.wrapping_mul(3), at.wrapping_mul(5), 7];
        first = std::array::from_fn(|queue| first[queue].wrapping_add(step[queue]));
        second = std::array::from_fn(|queue| second[queue].wrapping_add(first[queue].wrapping_mul(2_654_435_761)));
    }
    [first, second]
}
