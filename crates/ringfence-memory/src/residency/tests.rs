//! Orders of the steps of two threads that only a unit test can produce.

use std::time::Duration;

use parking_lot::Mutex;

use super::Residency;
use crate::Allocator;
use crate::defrag::DefragDesc;
use crate::device::{BufferDesc, BufferUsage, Driver};
use crate::memory::{AllocationDesc, AllocatorDesc};
use crate::resource::{Buffer, PoolDesc};
use crate::sim;

const BLOCK: u64 = 256 << 10;
const SIZE: u64 = 32 << 10;

/// Evictable memory in blocks of a pool. Every second buffer is dropped, so a defragmentation can move the others.
struct World {
    device: sim::Device,
    fence: sim::Fence,
    memory: Allocator<sim::Device>,
    residency: Residency<sim::Device>,
    held: Vec<Buffer<sim::Device>>,
}

fn world() -> World {
    let device = sim::Device::new(sim::Profile::d3d12_modern(), sim::SimOptions::default());
    let fence = device.create_fence(0);
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    // SAFETY: the memory of each submission is committed before it, or kept resident by a pass.
    let residency = unsafe { memory.residency() };
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = BufferDesc { size: SIZE, usage };
    let memory_type = memory.create_buffer(&info, AllocationDesc::default()).expect("there is room").memory_type();
    memory.shutdown(Duration::MAX).expect("nothing is under way");
    let desc = PoolDesc { memory_type, block_bytes: BLOCK, ..Default::default() };
    let pool = memory.create_pool(desc).expect("there is such a type");
    let desc = AllocationDesc { movable: true, evictable: true, ..Default::default() };
    let held: Vec<_> = (0..24).map(|_| pool.create_buffer(&info, desc).expect("there is room")).collect();
    let held = held.into_iter().enumerate().filter(|(at, _)| at % 2 == 0).map(|(_, buffer)| buffer).collect();
    memory.reclaim();
    World { device, fence, memory, residency, held }
}

/// Makes all moves of a pass, and submits the copies.
fn move_all(
    memory: &Allocator<sim::Device>,
    timeline: &crate::Timeline<sim::Device>,
    (device, fence): (&sim::Device, sim::Fence),
    held: &mut [Buffer<sim::Device>],
) -> usize {
    let mut run = memory.defragment(DefragDesc::default());
    let frame = timeline.begin();
    let mut pass = run.begin_pass(&frame).expect("the frame belongs to the allocator");
    for buffer in held {
        let _ = pass.copy_buffer(buffer);
    }
    let mut commands = Vec::new();
    // SAFETY: the list is submitted as the pass's frame.
    unsafe { pass.record(&mut commands) };
    drop(pass);
    let count = commands.len();
    device.submit(0, &[], commands, (fence, frame.value())).expect("the device is not lost");
    timeline.submitted(frame).expect("in order");
    count
}

/// If a pass of a defragmentation begins just after the manager has chosen the memory to evict, the source and
/// destination memory of its moves is not evicted.
#[test]
fn eviction_takes_no_block_that_a_pass_has_taken_since_it_was_chosen() {
    let World { device, fence, memory, residency, mut held } = world();
    // SAFETY: every frame signals the fence.
    let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
    let other_fence = device.create_fence(0);
    // SAFETY: as above.
    let other = unsafe { memory.timeline(other_fence) }.expect("the device is not lost");
    device.pause(0);
    let used = device.budgets().expect("the device reports budgets")[0].usage_bytes;
    device.set_budget(0, Some(used / 4));
    memory.reclaim();
    let (moving, clock, driver) = (memory.clone(), timeline.clone(), device.clone());
    let count = std::sync::Arc::new(Mutex::new(0));
    let counted = std::sync::Arc::clone(&count);
    memory.shared().between_evictions.lock().replace(Box::new(move || {
        *counted.lock() = move_all(&moving, &clock, (&driver, fence), &mut held);
        drop(held);
    }));
    let frame = other.begin();
    residency.commit(&residency.list(), &frame).expect("no memory must be made resident");
    assert!(*count.lock() > 0, "the pass had moves");
    device.resume(0);
    device.submit(0, &[], vec![], (other_fence, frame.value())).expect("the device is not lost");
    other.submitted(frame).expect("in order");
    assert!(device.run_until_idle());
    assert_eq!(device.take_hazards(), [], "nothing was evicted under a copy");
}

/// Memory that is freed just after it was chosen is not evicted, and the counters stay correct.
#[test]
fn eviction_takes_no_memory_that_is_freed_since_it_was_chosen() {
    let World { device, fence, memory, residency, held } = world();
    // SAFETY: every frame signals the fence.
    let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
    let used = device.budgets().expect("the device reports budgets")[0].usage_bytes;
    device.set_budget(0, Some(used / 4));
    memory.reclaim();
    let freeing = memory.clone();
    memory.shared().between_evictions.lock().replace(Box::new(move || {
        for buffer in held {
            // SAFETY: no submission has used it.
            unsafe { buffer.destroy_now() };
        }
        freeing.budgets().trim();
    }));
    let frame = timeline.begin();
    let done = residency.commit(&residency.list(), &frame).expect("no memory must be made resident");
    assert_eq!((done.evicted_bytes, residency.absent_bytes()), (0, 0));
    frame.discard();
    memory.reclaim();
    let budget = memory.budgets().heap(0);
    assert_eq!(
        (budget.reserved_bytes, budget.usage_bytes),
        (0, device.budgets().expect("the device reports budgets")[0].usage_bytes)
    );
    assert_eq!(device.take_hazards(), []);
}

/// Memory that was freed after it was listed is not made resident.
#[test]
fn what_is_listed_and_freed_is_left_alone() {
    let World { device, fence, memory, residency, held } = world();
    // SAFETY: every frame signals the fence.
    let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
    let mut list = residency.list();
    held.iter().for_each(|buffer| list.add(buffer));
    let used = device.budgets().expect("the device reports budgets")[0].usage_bytes;
    device.set_budget(0, Some(used / 4));
    memory.reclaim();
    let frame = timeline.begin();
    residency.commit(&residency.list(), &frame).expect("no memory must be made resident");
    assert!(residency.absent_bytes() > 0);
    frame.discard();
    drop(held);
    memory.reclaim();
    memory.budgets().trim();
    assert_eq!(device.live().memories, 0);
    let frame = timeline.begin();
    let done = residency.commit(&list, &frame).expect("the listed memory is freed");
    assert_eq!(done.returned_count, 0);
    assert_eq!(device.take_hazards(), []);
}
