//! Step 5: draws cubes and spheres with a depth target. The constants of all draws are one range of a page.

use ash::vk;
use first_hour::gpu::{Failure, Gpu};
use first_hour::mesh::Mesh;
use first_hour::pass::{self, COLOUR, DEPTH, Views};
use first_hour::picture::{Picture, SIZE};
use first_hour::pipeline::{Pipeline, PipelineDesc};
use first_hour::{heap, shapes};
use glam::{Mat4, Vec3, Vec4};
use ringfence::device::descriptors::ViewTypes;
use ringfence::upload::{ReadbackDesc, UploadDesc};
use ringfence::vulkan::{ReadbackRing, UploadBatch, UploadRing};

fn main() -> Result<(), Failure> {
    let gpu = Gpu::open()?;
    draw(&gpu)?;
    gpu.close()
}

/// Returns the constants of the frame: the camera, then the matrix and the colour of each draw.
fn constants() -> Vec<u8> {
    let camera = Mat4::perspective_rh(0.8, SIZE[0] as f32 / SIZE[1] as f32, 0.1, 50.0)
        * Mat4::look_at_rh(Vec3::new(0.0, 2.5, 6.0), Vec3::ZERO, Vec3::Y);
    let mut bytes = bytemuck::bytes_of(&camera).to_vec();
    let draws = [
        (Mat4::from_rotation_y(0.6), Vec4::new(1.0, 0.55, 0.1, 1.0)),
        (Mat4::from_translation(Vec3::new(1.6, 0.0, -1.0)), Vec4::new(0.2, 0.8, 0.4, 1.0)),
        (Mat4::from_translation(Vec3::new(-1.6, 0.0, 1.0)), Vec4::new(0.3, 0.5, 1.0, 1.0)),
    ];
    for (model, colour) in draws {
        bytes.extend(bytemuck::bytes_of(&model));
        bytes.extend(bytemuck::bytes_of(&colour));
    }
    bytes
}

fn draw(gpu: &Gpu) -> Result<(), Failure> {
    let upload = UploadRing::new(&gpu.memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;
    let readback = ReadbackRing::new(&gpu.memory, ReadbackDesc { capacity: 1 << 20, ..Default::default() })?;
    let views = Views::new(gpu)?;
    let (target, depth) = (views.colour(gpu, "target", SIZE)?, views.depth(gpu, "depth", SIZE)?);

    let heap = heap::make(gpu, ViewTypes::STORAGE_BUFFER)?;
    let pages = heap::make_constants(gpu);
    let device = gpu.memory.device();
    let to = device.descriptor_binding(
        vk::DescriptorType::STORAGE_BUFFER,
        vk::ImageViewType::TYPE_2D,
        vk::Format::UNDEFINED,
    );
    let pipeline = Pipeline::new(
        gpu,
        &PipelineDesc {
            source: include_str!("../shaders/solid.wgsl"),
            attributes: &shapes::ATTRIBUTES,
            has_depth: true,
            sets: &[heap.set_layout()],
            push_bytes: 4,
            bindings: [heap::map(0, 0, to, heap.slots())?].into_iter().collect(),
        },
    )?;

    let work = gpu.begin()?;
    let mut batch = UploadBatch::new();
    let ((cube, cube_indices), (sphere, sphere_indices)) = (shapes::cube(), shapes::sphere(0.0));
    let cube = Mesh::new(gpu, (&upload, &mut batch, &work), "cube", bytemuck::cast_slice(&cube), &cube_indices)?;
    let sphere = bytemuck::cast_slice(&sphere);
    let sphere = Mesh::new(gpu, (&upload, &mut batch, &work), "sphere", sphere, &sphere_indices)?;
    // SAFETY: the command buffer is submitted as this frame.
    unsafe { batch.record(&mut gpu.recorder(&work, vk::ImageLayout::GENERAL)) }?;

    let slot = heap::write_constants(&heap, &pages, &work, &constants())?;
    let mut binding = heap.bind(&work.frame)?;
    pass::change_layout(gpu, &work, target.image(), vk::ImageLayout::UNDEFINED, COLOUR);
    pass::change_layout(gpu, &work, depth.image(), vk::ImageLayout::UNDEFINED, DEPTH);
    pass::begin(gpu, &work, SIZE, target.view(), Some(depth.view()));
    pipeline.bind(gpu, &work);
    heap::set(gpu, &work, &mut binding, pipeline.layout, &[slot])?;
    cube.draw(gpu, &work, 0, 1);
    sphere.draw(gpu, &work, 1, 2); // draws 1 and 2
    pass::end(gpu, &work);
    let read = Picture::record(gpu, &readback, &work, &target.texture, COLOUR)?;
    gpu.submit(work)?;
    pipeline.retire(gpu);

    let picture = Picture::wait(&read)?;
    picture.check(10, 10, [26, 51, 102])?;
    picture.check(180, 140, [153, 84, 15])?; // the cube
    picture.check(225, 85, [153, 84, 15])?; // the cube, in front of a sphere
    picture.check_largest(240, 100, 1)?;
    picture.check_largest(120, 140, 2)?; // the other sphere, in front of the cube
    picture.write("step_5.png")
}
