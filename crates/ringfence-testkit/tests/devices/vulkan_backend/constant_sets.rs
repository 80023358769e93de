//! Descriptor sets of constants with dynamic offsets: which constants share a set, which are refused, and when the pools
//! are used again. The picture of draws is checked by the cookbook.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use ash::vk;
use ringfence::descriptor::DescriptorError;
use ringfence::device::{BufferDesc, BufferUsage, Driver};
use ringfence::placement::FastConstantsDesc;
use ringfence::upload::{Staged, UploadDesc};
use ringfence::vulkan::{ConstantSets, Device, DeviceDesc};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, FastConstants, UploadRing};
use ringfence_testkit::Gpu;

use crate::vulkan_backend::bare::with_raw_device;
use crate::vulkan_backend::families::with_queue;

const PATIENCE: Duration = Duration::from_secs(60);

fn constants(memory: &Allocator<Device>) -> FastConstants<Device> {
    FastConstants::new(memory, FastConstantsDesc { page_bytes: 4096, buddy_bytes: 4096, ..Default::default() })
}

#[test]
fn constants_of_one_buffer_and_size_share_a_set_in_their_frame() {
    with_queue(|gpu, memory, timeline, queue| {
        let pages = constants(memory);
        let mut sets = ConstantSets::new(memory, vk::ShaderStageFlags::VERTEX).expect("there is room");
        let layouts = [sets.layout()];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
        // SAFETY: the layout of the sets is alive.
        let layout = unsafe { gpu.device().raw().create_pipeline_layout(&info, None) }.expect("there is room");
        for number in 0..6_u64 {
            let frame = timeline.begin();
            let value = frame.value();
            let mut writer = pages.writer(&frame).expect("its own frame");
            sets.begin(&frame).expect("its own frame");
            let mut known: Vec<((vk::Buffer, u64), vk::DescriptorSet)> = Vec::new();
            queue.submit(None, value, |list| {
                // Some 20 buffers with two sizes each: more sets than a pool has.
                for index in 0..300_u64 {
                    let staged = writer.write(&vec![7; 256 << (index % 2)]).expect("there is room");
                    let (set, offset) = sets.set(&staged).expect("constants of this frame");
                    assert_eq!(u64::from(offset), staged.offset);
                    let key = (staged.buffer, staged.size);
                    match known.iter().find(|(other, _)| *other == key) {
                        Some((_, expected)) => assert_eq!(set, *expected, "{key:?}"),
                        None => {
                            assert!(known.iter().all(|(_, other)| *other != set), "{key:?}");
                            known.push((key, set));
                        }
                    }
                    // SAFETY: the list is recorded by this thread and submitted as the frame; the layout has the sets.
                    unsafe { sets.bind(list, vk::PipelineBindPoint::GRAPHICS, layout, 0, &staged) }.expect("known");
                }
            });
            assert!(known.len() > 32, "{} sets", known.len());
            assert_eq!(format!("{sets:?}"), format!("ConstantSets({} sets in this frame)", known.len()));
            timeline.submitted(frame).expect("in order");
            drop(writer);
            if number % 2 == 1 {
                assert!(timeline.wait(value, PATIENCE).expect("the device is not lost"));
                memory.reclaim();
            }
        }
        // SAFETY: all frames are complete.
        unsafe { gpu.device().raw().destroy_pipeline_layout(layout, None) };
    });
}

#[test]
fn constants_of_another_frame_or_without_a_frame_are_refused() {
    with_queue(|_, memory, timeline, queue| {
        let pages = constants(memory);
        let mut sets = ConstantSets::new(memory, vk::ShaderStageFlags::FRAGMENT).expect("there is room");
        let usage = BufferUsage::CONSTANT | BufferUsage::COPY_SRC;
        let ring = |usage| UploadRing::new(memory, UploadDesc { capacity: 1 << 16, usage, ..Default::default() });
        let (ring, unusable) = (ring(usage).expect("room"), ring(BufferUsage::COPY_SRC).expect("room"));
        let own = memory.create_buffer(&BufferDesc { size: 256, usage }, AllocationDesc::default()).expect("room");
        let frame = timeline.begin();
        let staged = pages.writer(&frame).expect("its own").write(&[1; 64]).expect("room");
        let is_bad = |result: Result<_, DescriptorError>, part: &str| match result {
            Err(DescriptorError::BadView(text)) => assert!(text.contains(part), "{text}"),
            other => panic!("{part}: {other:?}"),
        };
        is_bad(sets.set(&staged), "no frame was begun");
        sets.begin(&frame).expect("its own frame");
        is_bad(sets.set(&Staged::of(&own, 0, 256).expect("inside")), "not written for the frame");
        is_bad(sets.set(&unusable.write_for(&frame, &[1; 64], 256).expect("room")), "without the usage");
        let (first, shifted) = (ring.write_for(&frame, &[1; 64], 256), ring.write_for(&frame, &[1; 64], 4));
        assert!(sets.set(&first.expect("room")).is_ok(), "a ring with the usage");
        let limit = memory.device().capabilities().constant_alignment;
        let shifted = shifted.expect("room");
        let refused = sets.set(&shifted).map(drop);
        let expected = if shifted.offset.is_multiple_of(limit) { Ok(()) } else { Err(()) };
        assert_eq!(refused.as_ref().map_err(|_| ()).copied(), expected, "{refused:?}");
        let (set, _) = sets.set(&staged).expect("its own frame");

        // The next frame has sets of its own, and refuses the constants of the previous one.
        let value = frame.value();
        queue.submit(None, value, |_| {});
        timeline.submitted(frame).expect("in order");
        is_bad(sets.set(&staged), "it is over");
        let next = timeline.begin();
        sets.begin(&next).expect("its own frame");
        is_bad(sets.set(&staged), "not written for the frame");
        let again = pages.writer(&next).expect("its own").write(&[1; 64]).expect("room");
        assert_ne!(sets.set(&again).expect("its own frame").0, set);
        next.discard();
        assert!(timeline.wait(value, PATIENCE).expect("the device is not lost"));

        let other = Allocator::over(memory.device().clone(), AllocatorDesc::default());
        // SAFETY: no work is submitted with this timeline.
        let foreign = unsafe { other.timeline(queue.semaphore) }.expect("the device is not lost");
        let frame = foreign.begin();
        assert_eq!(sets.begin(&frame), Err(DescriptorError::Foreign));
        frame.discard();
    });
}

static MADE: AtomicU64 = AtomicU64::new(0);
static ALIVE: AtomicI64 = AtomicI64::new(0);
static CREATE: OnceLock<vk::PFN_vkCreateDescriptorPool> = OnceLock::new();
static DESTROY: OnceLock<vk::PFN_vkDestroyDescriptorPool> = OnceLock::new();

unsafe extern "system" fn create(
    device: vk::Device,
    info: *const vk::DescriptorPoolCreateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    pool: *mut vk::DescriptorPool,
) -> vk::Result {
    MADE.fetch_add(1, Ordering::Relaxed);
    ALIVE.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the driver's own function, with the caller's arguments.
    unsafe { CREATE.get().expect("set before")(device, info, callbacks, pool) }
}

unsafe extern "system" fn destroy(
    device: vk::Device,
    pool: vk::DescriptorPool,
    callbacks: *const vk::AllocationCallbacks<'_>,
) {
    ALIVE.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { DESTROY.get().expect("set before")(device, pool, callbacks) }
}

#[test]
fn pools_are_used_again_once_their_frame_is_complete() {
    let mut features = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
    let info = vk::DeviceCreateInfo::default().push_next(&mut features);
    with_raw_device(vk::API_VERSION_1_2, info, |instance, physical, raw| {
        let mut table = raw.fp_v1_0().clone();
        CREATE.get_or_init(|| table.create_descriptor_pool);
        DESTROY.get_or_init(|| table.destroy_descriptor_pool);
        (table.create_descriptor_pool, table.destroy_descriptor_pool) = (create, destroy);
        let (one, two, three) = (raw.fp_v1_1().clone(), raw.fp_v1_2().clone(), raw.fp_v1_3().clone());
        let raw = ash::Device::from_parts_1_3(raw.handle(), table, one, two, three);
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let semaphore = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the handles belong together and outlive the objects that are created from them.
        let (device, semaphore) = unsafe {
            let device = Device::new(instance, physical, raw.clone(), DeviceDesc::default()).expect("Vulkan 1.2");
            (device, raw.create_semaphore(&semaphore, None).expect("a semaphore"))
        };
        let memory = Allocator::over(device, AllocatorDesc::default());
        // SAFETY: the host signals the values in order.
        let timeline = unsafe { memory.timeline(semaphore) }.expect("the device is not lost");
        let pages = constants(&memory);
        let mut sets = ConstantSets::new(&memory, vk::ShaderStageFlags::FRAGMENT).expect("there is room");
        // A discarded frame, then frames of which two are in flight: three pools for any number of frames.
        let mut signalled = 0;
        for number in 0..40_u64 {
            let frame = timeline.begin();
            sets.begin(&frame).expect("its own frame");
            let staged = pages.writer(&frame).expect("its own").write(&[1; 64]).expect("room");
            sets.set(&staged).expect("its own frame");
            if number % 8 == 0 {
                frame.discard();
            } else {
                let signal = frame.value();
                timeline.submitted(frame).expect("in order");
                if number % 2 == 1 {
                    let info = vk::SemaphoreSignalInfo::default().semaphore(semaphore).value(signal);
                    // SAFETY: the value is larger than the last one.
                    unsafe { raw.signal_semaphore(&info) }.expect("the device is not lost");
                    signalled = signal;
                }
            }
            memory.reclaim();
        }
        assert!(signalled > 30 && MADE.load(Ordering::Relaxed) <= 3, "{MADE:?} pools for 40 frames");
        drop(sets);
        memory.reclaim();
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0, "the last frame is complete");
        drop(pages);
        memory.shutdown(PATIENCE).expect("all work is complete");
        drop((timeline, memory));
        // SAFETY: the allocator is gone.
        unsafe { raw.destroy_semaphore(semaphore, None) };
    });
}
