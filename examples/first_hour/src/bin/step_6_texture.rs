//! Step 6: draws with a texture that the shader finds by its slot in a table, lit by one light.

use ash::vk;
use first_hour::gpu::{Failure, Gpu};
use first_hour::mesh::Mesh;
use first_hour::pass::{self, COLOUR, DEPTH, Views};
use first_hour::picture::{Picture, SIZE};
use first_hour::scene::Scene;
use first_hour::shapes;
use ringfence::upload::{ReadbackDesc, UploadDesc};
use ringfence::vulkan::{ReadbackRing, UploadBatch, UploadRing};

fn main() -> Result<(), Failure> {
    let gpu = Gpu::open()?;
    draw(&gpu)?;
    gpu.close()
}

fn draw(gpu: &Gpu) -> Result<(), Failure> {
    let upload = UploadRing::new(&gpu.memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;
    let readback = ReadbackRing::new(&gpu.memory, ReadbackDesc { capacity: 1 << 20, ..Default::default() })?;
    let views = Views::new(gpu)?;
    let (target, depth) = (views.colour(gpu, "target", SIZE)?, views.depth(gpu, "depth", SIZE)?);

    let work = gpu.begin()?;
    let scene = Scene::new(gpu, &upload, &work)?;
    let mut batch = UploadBatch::new();
    let (vertices, indices) = shapes::sphere(0.0);
    let sphere = Mesh::new(gpu, (&upload, &mut batch, &work), "sphere", bytemuck::cast_slice(&vertices), &indices)?;
    // SAFETY: the command buffer is submitted as this frame.
    unsafe { batch.record(&mut gpu.recorder(&work, vk::ImageLayout::GENERAL)) }?;
    pass::change_layout(gpu, &work, target.image(), vk::ImageLayout::UNDEFINED, COLOUR);
    pass::change_layout(gpu, &work, depth.image(), vk::ImageLayout::UNDEFINED, DEPTH);
    pass::begin(gpu, &work, SIZE, target.view(), Some(depth.view()));
    let _binding = scene.draw(gpu, &work, &sphere, 0.3)?;
    pass::end(gpu, &work);
    let read = Picture::record(gpu, &readback, &work, &target.texture, COLOUR)?;
    gpu.submit(work)?;
    scene.retire(gpu);

    let picture = Picture::wait(&read)?;
    picture.check(10, 10, [26, 51, 102])?;
    picture.check(55, 200, [88, 31, 23])?; // the floor
    picture.check(30, 225, [110, 123, 129])?;
    picture.check(60, 82, [100, 82, 82])?; // its small mip levels: both colours, mixed
    picture.write("step_6.png")
}
