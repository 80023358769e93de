//! Failures of the driver. A failed command records nothing.

use ringfence::commands::{CommandError, Commands};
use ringfence::device::fault::{Call, FaultInjector, Recorder, Rule};
use ringfence::device::{BufferDesc, BufferUsage, DeviceError};
use ringfence::memory::Error;
use ringfence::sim::{Device, Profile, SimOptions};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Location};

/// On a device without fills, the buffer with the value cannot be created. A recorder of the fault injector records the
/// commands of the inner one.
#[test]
fn a_fill_without_memory_records_nothing() {
    let device = Device::new(Profile::d3d12_tier1(), SimOptions::default());
    let (faulty, faults) = FaultInjector::new(device.clone());
    let memory = Allocator::over(faulty, AllocatorDesc::default());
    // SAFETY: no frame is submitted.
    let timeline = unsafe { memory.timeline(device.create_fence(0)) }.expect("the device is not lost");
    let desc = BufferDesc { size: 4 << 20, usage: BufferUsage::COPY_DST };
    let how = AllocationDesc { location: Location::Device, ..Default::default() };
    let buffer = memory.create_buffer(&desc, how).expect("there is room");
    let (frame, mut list) = (timeline.begin(), Recorder(Vec::new()));
    faults.add(Rule { call: Some(Call::AllocateMemory), ..Rule::new(DeviceError::OutOfDeviceMemory) });
    faults.add(Rule { call: Some(Call::Dedicate), ..Rule::new(DeviceError::OutOfDeviceMemory) });
    // SAFETY: the list is not submitted.
    let mut commands = unsafe { Commands::new(&memory, &frame, &mut list) }.expect("its own frame");
    let refused = commands.fill_buffer(&buffer, 0..desc.size, 3).expect_err("there is no memory");
    assert!(matches!(refused, CommandError::Memory(Error::OutOfMemory { .. } | Error::Device(_))), "{refused}");
    assert!(faults.injected() > 0);
    faults.clear();
    commands.fill_buffer(&buffer, 0..desc.size, 3).expect("there is memory again");
    assert_eq!(list.0.len(), 64 + 4, "64 copies of 64 KiB, between two pairs of barriers");
    frame.discard();
}
