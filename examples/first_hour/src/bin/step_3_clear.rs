//! Step 3: creates two textures, clears them, copies one into the other, and writes the result as a picture.

use ash::vk;
use first_hour::gpu::{Failure, Gpu};
use first_hour::picture::{Picture, SIZE};
use ringfence::AllocationDesc;
use ringfence::commands::{Commands, SubresourceRange, TexelOrigin};
use ringfence::device::{Format, TextureDesc, TextureUsage};
use ringfence::upload::ReadbackDesc;
use ringfence::vulkan::{ReadbackRing, Texture};

fn main() -> Result<(), Failure> {
    let gpu = Gpu::open()?;
    clear(&gpu)?;
    gpu.close()
}

fn texture(gpu: &Gpu, name: &str, [width, height]: [u32; 2]) -> Result<Texture, Failure> {
    let usage = TextureUsage::RENDER_TARGET | TextureUsage::COPY_DST | TextureUsage::COPY_SRC;
    let desc = TextureDesc { width, height, format: Format::Rgba8Unorm, usage, ..Default::default() };
    Ok(gpu.memory.create_texture(&desc, AllocationDesc { name, ..Default::default() })?)
}

fn clear(gpu: &Gpu) -> Result<(), Failure> {
    let readback = ReadbackRing::new(&gpu.memory, ReadbackDesc { capacity: 1 << 20, ..Default::default() })?;
    let target = texture(gpu, "target", SIZE)?;
    let stamp = texture(gpu, "stamp", [160, 120])?;

    let work = gpu.begin()?;
    let layout = vk::ImageLayout::GENERAL;
    let mut recorder = gpu.recorder(&work, layout);
    // SAFETY: the command buffer is submitted as this frame. The clears are the first use of the textures and leave
    // them in the layout of the recorder.
    let mut commands = unsafe { Commands::new(&gpu.memory, &work.frame, &mut recorder) }?;
    let all = SubresourceRange::one(0, 0);
    commands.clear_color(&target, all, [0.1, 0.2, 0.4, 1.0])?;
    commands.clear_color(&stamp, all, [1.0, 0.6, 0.0, 1.0])?;
    let whole = stamp.mip_box(0)?;
    commands.copy_box(&stamp, &whole, &target, TexelOrigin { x: 80, y: 60, ..Default::default() })?;
    let read = Picture::record(gpu, &readback, &work, &target, layout)?;
    gpu.submit(work)?;

    let picture = Picture::wait(&read)?;
    picture.check(10, 10, [26, 51, 102])?;
    picture.check(160, 120, [255, 153, 0])?;
    picture.write("step_3.png")
}
