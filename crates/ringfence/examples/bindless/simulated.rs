//! The shader as a closure, on the simulated device.

use ringfence::descriptor::Binding;
use ringfence::device::descriptors::HeapKind;
use ringfence::sim::{Command, DescriptorUse, Device, Fence, Kernel, Profile, SimOptions};

use crate::{Draw, Failure, Gpu, PICKS};

pub struct Simulated {
    device: Device,
    fence: Fence,
}

impl Simulated {
    pub fn new() -> Self {
        let device = Device::new(Profile::h200(), SimOptions::default());
        let fence = device.create_fence(0);
        Self { device, fence }
    }
}

impl Gpu for Simulated {
    type Device = Device;

    fn device(&self) -> Device {
        self.device.clone()
    }

    fn fence(&self) -> Fence {
        self.fence
    }

    fn submit(&mut self, binding: &mut Binding<Device>, _: u32, draw: Draw, value: u64) -> Result<(), Failure> {
        let heap = *binding.bound(HeapKind::Resources).ok_or("no heap of resources is bound")?;
        let read = draw.from.map(|slot| DescriptorUse { heap, slot, writes: false });
        let descriptors = read.into_iter().chain([DescriptorUse { heap, slot: draw.to, writes: true }]).collect();
        let run = Box::new(|memory: &mut ringfence::sim::KernelMemory| {
            let (from, to) = memory.descriptors.split_at_mut(PICKS);
            for (from, to) in from.iter().zip(to[0].chunks_exact_mut(4)) {
                to.copy_from_slice(&from[..4]);
            }
        });
        let kernel = Kernel { reads: vec![], writes: vec![], descriptors, run };
        self.device.submit(0, &[], vec![Command::Kernel(kernel)], (self.fence, value))?;
        Ok(())
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.device.run_until_idle();
        assert_eq!(self.device.take_hazards(), [], "no slot was written while a frame could read it");
    }
}
