//! The constants of a frame and of its draws: one range of a page, which shaders read as a storage buffer.

use bytemuck::{Pod, Zeroable};
use glam::{Mat4, Vec3, Vec4};
use ringfence::device::BufferUsage;
use ringfence::placement::{FastConstantsDesc, FastWriter};
use ringfence::upload::Staged;
use ringfence::vulkan::Device;
use ringfence::{FastConstants, Frame};

use crate::Failure;
use crate::gpu::Gpu;
use crate::scene::{Instance, Scene};
use crate::sky::SKY_MIPS;
use crate::targets::SHADOW_SIDE;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct FrameData {
    camera_proj: Mat4,
    camera_inverse: Mat4,
    sun_proj: Mat4,
    camera: Vec4,
    sun: Vec4,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct DrawData {
    model: Mat4,
    colour: Vec4,
    look: Vec4,
}

pub struct Constants {
    pages: FastConstants<Device>,
    writer: Option<FastWriter<Device>>,
}

impl Constants {
    pub fn new(gpu: &Gpu) -> Self {
        let usage = BufferUsage::STORAGE;
        let desc = FastConstantsDesc { page_bytes: 1 << 18, usage, name: "constants", ..Default::default() };
        Self { pages: FastConstants::new(&gpu.memory, desc), writer: None }
    }

    /// Writes the constants of a frame. The index of a draw's constants is the number of its instance.
    pub fn write(
        &mut self,
        scene: &Scene,
        number: u32,
        size: [u32; 2],
        frame: &Frame,
    ) -> Result<Staged<Device>, Failure> {
        let draws: Vec<_> = scene.instances.iter().map(draw_data).collect();
        let bytes = [bytemuck::bytes_of(&frame_data(scene, number, size)), bytemuck::cast_slice(&draws)].concat();
        let writer = match self.writer.take() {
            Some(mut writer) => {
                writer.begin(frame)?;
                writer
            }
            None => self.pages.writer(frame)?,
        };
        Ok(self.writer.insert(writer).write(&bytes)?)
    }
}

fn draw_data(instance: &Instance) -> DrawData {
    let look = Vec4::new(instance.roughness, instance.metallic, instance.repeat, 0.0);
    DrawData { model: instance.transform, colour: instance.colour.extend(1.0), look }
}

fn frame_data(scene: &Scene, number: u32, [width, height]: [u32; 2]) -> FrameData {
    let (eye, target) = scene.camera_at(number);
    let view = Mat4::look_at_rh(eye, target, Vec3::Y);
    let camera_proj = Mat4::perspective_rh(0.82, width as f32 / height as f32, 0.1, 200.0) * view;
    let radius = scene.radius;
    let from_sun = Mat4::look_at_rh(scene.sun * radius * 2.0, Vec3::ZERO, Vec3::Y);
    let sun_proj = Mat4::orthographic_rh(-radius, radius, -radius, radius, 0.1, radius * 4.0) * from_sun;
    FrameData {
        camera_proj,
        camera_inverse: camera_proj.inverse(),
        sun_proj,
        camera: eye.extend((SKY_MIPS - 1) as f32),
        sun: scene.sun.extend(2.0 * radius / SHADOW_SIDE as f32),
    }
}
