//! A fixed number of frames on the simulated device, for counting instructions: `ci/callgrind.sh`.

mod frames;

use frames::Renderer;
use ringfence::sim::{Device, Fence, Profile, SimOptions};
use ringfence::{Allocator, AllocatorDesc};

/// Number of frames before the first counted frame, until the caches have reached their sizes.
const WARM_UP: usize = 200;
const FRAMES: usize = 200;

fn play(renderer: &mut Renderer<Device>, device: &Device, fence: Fence, frames: usize) {
    for _ in 0..frames {
        renderer.frame(&mut |value| {
            device.submit(0, &[], Vec::new(), (fence, value)).expect("the device is not lost");
        });
    }
}

#[inline(never)]
fn a_frame(renderer: &mut Renderer<Device>, device: &Device, fence: Fence) {
    play(renderer, device, fence, FRAMES);
}

fn main() {
    let device = Device::new(Profile::h200(), SimOptions::default());
    let fence = device.create_fence(0);
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    // SAFETY: each value is submitted immediately; fences live as long as the device.
    let mut renderer = unsafe { Renderer::new(memory, fence, Box::new(|group| group.clear())) };
    play(&mut renderer, &device, fence, WARM_UP);
    a_frame(&mut renderer, &device, fence);
}
