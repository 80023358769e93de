//! Step 2: uploads bytes through a ring into a buffer on the device, and reads them back.

use ash::vk;
use first_hour::gpu::{Failure, Gpu};
use ringfence::commands::Commands;
use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::upload::UploadDesc;
use ringfence::vulkan::{UploadBatch, UploadRing};
use ringfence::{AllocationDesc, Location};

fn main() -> Result<(), Failure> {
    let gpu = Gpu::open()?;
    copy_there_and_back(&gpu)?;
    gpu.close()
}

fn copy_there_and_back(gpu: &Gpu) -> Result<(), Failure> {
    let upload = UploadRing::new(&gpu.memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;
    let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let size = bytes.len() as u64;

    let desc = BufferDesc { size, usage: BufferUsage::COPY_DST | BufferUsage::COPY_SRC };
    let numbers = gpu.memory.create_buffer(&desc, AllocationDesc { name: "numbers", ..Default::default() })?;
    let desc = BufferDesc { size, usage: BufferUsage::COPY_DST };
    let location = Location::Readback;
    let back = gpu.memory.create_buffer(&desc, AllocationDesc { name: "back", location, ..Default::default() })?;

    let work = gpu.begin()?;
    let mut batch = UploadBatch::new();
    batch.copy(&upload.write_for(&work.frame, &bytes, 16)?, &numbers, 0)?;
    let mut recorder = gpu.recorder(&work, vk::ImageLayout::GENERAL);
    // SAFETY: the command buffer is submitted as this frame, and nothing else uses the buffers.
    unsafe { batch.record(&mut recorder) }?;
    // SAFETY: as above.
    let mut commands = unsafe { Commands::new(&gpu.memory, &work.frame, &mut recorder) }?;
    commands.copy_buffer((&numbers, 0), (&back, 0), size)?;
    drop(numbers); // retired: the copies are not even submitted yet

    let point = gpu.submit(work)?;
    gpu.wait(point)?;
    let mut returned = vec![0; bytes.len()];
    back.read(0, &mut returned)?;
    if returned != bytes {
        return Err("the bytes have changed on the way".into());
    }
    println!("{size} bytes uploaded and read back");
    println!("objects that were destroyed: {}", gpu.memory.reclaim().objects);
    Ok(())
}
