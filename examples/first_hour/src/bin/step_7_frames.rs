//! Step 7: draws 60 frames, three of them in flight at a time.

use first_hour::frames::Renderer;
use first_hour::gpu::{Failure, Gpu};
use first_hour::picture::Picture;

const FRAMES: u32 = 60;

fn main() -> Result<(), Failure> {
    let gpu = Gpu::open()?;
    draw(&gpu)?;
    gpu.close()
}

fn draw(gpu: &Gpu) -> Result<(), Failure> {
    let mut renderer = Renderer::new(gpu)?;
    let (mut picture, mut retired_max) = (None, 0);
    for number in 0..FRAMES {
        picture = renderer.frame(gpu, number, number + 1 == FRAMES)?;
        retired_max = retired_max.max(gpu.memory.statistics().retired_count);
    }
    let (targets, uploads) = (renderer.targets(), renderer.upload.high_water());
    renderer.retire(gpu);

    println!("objects that waited for the GPU: at most {retired_max}");
    println!("upload ring: at most {uploads} bytes in use");
    println!("targets: {} bytes in the place of {}", targets.peak_bytes, targets.requested_bytes);
    if targets.saved_bytes() == 0 || !targets.is_reused {
        return Err("the targets share no memory, or each frame is planned again".into());
    }
    let picture = Picture::wait(&picture.ok_or("the last frame is read")?)?;
    picture.check(10, 10, [26, 51, 102])?;
    picture.check(55, 200, [88, 31, 23])?;
    picture.check(30, 225, [110, 123, 129])?;
    picture.write("step_7.png")
}
