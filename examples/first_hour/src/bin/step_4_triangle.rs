//! Step 4: draws a triangle from a vertex buffer and an index buffer.

use ash::vk;
use first_hour::gpu::{Failure, Gpu};
use first_hour::mesh::Mesh;
use first_hour::pass::{self, COLOUR, Views};
use first_hour::picture::{Picture, SIZE};
use first_hour::pipeline::{Pipeline, PipelineDesc};
use ringfence::upload::{ReadbackDesc, UploadDesc};
use ringfence::vulkan::{ReadbackRing, UploadBatch, UploadRing};

/// Position and colour of each corner.
const CORNERS: [[f32; 5]; 3] = [[-0.8, -0.8, 1.0, 0.1, 0.1], [0.8, -0.8, 0.1, 1.0, 0.1], [0.0, 0.8, 0.1, 0.1, 1.0]];

fn main() -> Result<(), Failure> {
    let gpu = Gpu::open()?;
    draw(&gpu)?;
    gpu.close()
}

fn draw(gpu: &Gpu) -> Result<(), Failure> {
    let upload = UploadRing::new(&gpu.memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;
    let readback = ReadbackRing::new(&gpu.memory, ReadbackDesc { capacity: 1 << 20, ..Default::default() })?;
    let target = Views::new(gpu)?.colour(gpu, "target", SIZE)?;
    let source = include_str!("../shaders/triangle.wgsl");
    let pipeline = Pipeline::new(gpu, &PipelineDesc { source, attributes: &[2, 3], ..Default::default() })?;

    let work = gpu.begin()?;
    let mut batch = UploadBatch::new();
    let vertices = bytemuck::cast_slice(&CORNERS);
    let triangle = Mesh::new(gpu, (&upload, &mut batch, &work), "triangle", vertices, &[0, 1, 2])?;
    // SAFETY: the command buffer is submitted as this frame.
    unsafe { batch.record(&mut gpu.recorder(&work, vk::ImageLayout::GENERAL)) }?;

    pass::change_layout(gpu, &work, target.image(), vk::ImageLayout::UNDEFINED, COLOUR);
    pass::begin(gpu, &work, SIZE, target.view(), None);
    pipeline.bind(gpu, &work);
    triangle.draw(gpu, &work, 0, 1);
    pass::end(gpu, &work);
    let read = Picture::record(gpu, &readback, &work, &target.texture, COLOUR)?;
    gpu.submit(work)?;
    pipeline.retire(gpu);

    let picture = Picture::wait(&read)?;
    picture.check(10, 10, [26, 51, 102])?;
    for (x, y, channel) in [(45, 210, 0), (275, 210, 1), (160, 35, 2)] {
        picture.check_largest(x, y, channel)?;
    }
    picture.write("step_4.png")
}
