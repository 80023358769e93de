//! Compute shaders: steps to 1 of the 3n+1 problem, and sums over a workgroup's shared memory.

use crate::Settings;
use crate::copies::same;
use crate::gpu::Gpu;
use wgpu::BufferUsages;

const SHADER: &str = "
@group(0) @binding(0) var<storage, read> given: array<u32>;
@group(0) @binding(1) var<storage, read_write> steps: array<u32>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;
var<workgroup> held: array<u32, 64>;

fn steps_to_one(start: u32) -> u32 {
    var n = start;
    var count = 0u;
    while n > 1u {
        if n % 2u == 0u { n = n / 2u; } else { n = 3u * n + 1u; }
        count += 1u;
    }
    return count;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_index) queue: u32,
        @builtin(workgroup_id) group: vec3<u32>) {
    let count = steps_to_one(given[at.x]);
    steps[at.x] = count;
    held[queue] = count;
    workgroupBarrier();
    if queue == 0u {
        var sum = 0u;
        for (var i = 0u; i < 64u; i++) { sum += held[i]; }
        sums[group.x] = sum;
    }
}
";

const COUNT: usize = 64 * 500;

pub fn run(gpu: &Gpu, _: &Settings) -> Result<Vec<u8>, String> {
    let given: Vec<u32> = (1..=COUNT as u32).collect();
    let given_bytes: Vec<u8> = given.iter().flat_map(|number| number.to_le_bytes()).collect();
    let result = BufferUsages::STORAGE | BufferUsages::COPY_SRC;
    let source = gpu.buffer_of("given", &given_bytes, BufferUsages::STORAGE);
    let results = [COUNT, COUNT / 64].map(|count| gpu.buffer("result", count as u64 * 4, result));
    let pipeline = pipeline(gpu, SHADER);
    let bindings = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[
            wgpu::BindGroupEntry { binding: 0, resource: source.as_entire_binding() },
            wgpu::BindGroupEntry { binding: 1, resource: results[0].as_entire_binding() },
            wgpu::BindGroupEntry { binding: 2, resource: results[1].as_entire_binding() },
        ],
    });
    let backs =
        results.each_ref().map(|of| gpu.buffer("back", of.size(), BufferUsages::COPY_DST | BufferUsages::MAP_READ));
    let mut encoder = gpu.encoder();
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &bindings, &[]);
    pass.dispatch_workgroups(COUNT as u32 / 64, 1, 1);
    drop(pass);
    for (of, back) in results.iter().zip(&backs) {
        encoder.copy_buffer_to_buffer(of, 0, back, 0, of.size());
    }
    gpu.finish(encoder)?;
    let read = gpu.read(&backs.each_ref())?;
    let steps: Vec<u32> = given.iter().map(|&number| steps_to_one(number)).collect();
    let sums: Vec<u32> = steps.chunks(64).map(|held| held.iter().sum()).collect();
    for (found, expected) in read.iter().zip([steps, sums]) {
        let expected: Vec<u8> = expected.into_iter().flat_map(u32::to_le_bytes).collect();
        same(found, &expected, "a result")?;
    }
    Ok(read.concat())
}

fn steps_to_one(start: u32) -> u32 {
    let next = |n: &u32| (*n > 1).then(|| if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 });
    std::iter::successors(Some(start), next).count() as u32 - 1
}

/// Creates a compute pipeline for the function `main` of a shader.
pub fn pipeline(gpu: &Gpu, shader: &str) -> wgpu::ComputePipeline {
    let source = wgpu::ShaderSource::Wgsl(shader.into());
    let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
    gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: Default::default(),
        cache: None,
    })
}
