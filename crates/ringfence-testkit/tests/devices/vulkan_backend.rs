//! Tests of the Vulkan backend on a real driver (Mesa's software driver is enough), with core and synchronization
//! validation.
//!
//! If Vulkan or the validation layer is absent, these tests print a note and pass. If `RINGFENCE_REQUIRE_VULKAN` is
//! set, they fail instead.

mod altered;
mod bare;
mod chained;
mod commands;
mod constant_sets;
mod families;
mod formats;
mod plain_sets;
mod planes;
mod priorities;
mod refused;
mod rig;
mod transient;
mod transient_barriers;
mod valid_usage;
mod view_kinds;
mod view_table;
mod volumes;

use std::time::Duration;

use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, Driver, Format, MemoryDesc, MemoryProperties, ResourceClass,
    TextureDesc, TextureUsage, Textures,
};
use ringfence::vulkan::{BufferInfo, Features};
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Command, Disc, Gpu, OpenError, Options, draw_reference};

use rig::{Rig, pattern};

#[test]
fn every_memory_type_holds_what_is_copied_to_it() {
    let Some(mut rig) = Rig::open() else { return };
    let host = rig.host_type(u32::MAX).expect("Vulkan always has a host-visible type");
    let sent = pattern(100_000, 1);
    let mut tried = 0;
    for memory_type in rig.plain_types() {
        let upload = rig.buffer(100_000, BufferUsage::COPY_SRC, Some(host));
        let held = rig.buffer(100_000, BufferUsage::COPY_DST | BufferUsage::COPY_SRC, Some(memory_type));
        let readback = rig.buffer(100_000, BufferUsage::COPY_DST, Some(host));
        let (Some(upload), Some(held), Some(readback)) = (upload, held, readback) else { continue };
        rig.write(upload, &sent);
        let copy = |src, dst| Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: 100_000 };
        rig.run(&[copy(upload.raw, held.raw), copy(held.raw, readback.raw)]);
        assert!(rig.read(readback, 100_000) == sent, "memory type {memory_type}");
        tried += 1;
    }
    assert!(tried > 0);
    rig.close();
}

#[test]
fn resources_that_share_a_memory_keep_apart() {
    let Some(mut rig) = Rig::open() else { return };
    let usage = BufferUsage::COPY_DST | BufferUsage::COPY_SRC;
    let shared = rig.buffers_in_one_memory(&[4096, 300, 65_536, 4], usage);
    let fills: Vec<_> = (1..)
        .zip(&shared)
        .map(|(value, buffer)| Command::FillBuffer { dst: buffer.raw, offset: 0, size: buffer.size, value })
        .collect();
    rig.run(&fills);
    for (value, buffer) in (1_u32..).zip(&shared) {
        assert_eq!(rig.read(*buffer, buffer.size), value.to_ne_bytes().repeat(buffer.size as usize / 4));
    }
    rig.close();
}

#[test]
fn textures_come_back_as_they_were_sent() {
    let Some(mut rig) = Rig::open() else { return };
    let desc = TextureDesc {
        width: 37,
        height: 23,
        layers: 2,
        mips: 3,
        format: Format::Rgba16Float,
        usage: TextureUsage::COPY_DST | TextureUsage::COPY_SRC,
        ..TextureDesc::default()
    };
    for dedicated in [false, true] {
        let texture = rig.texture(&desc, dedicated);
        let region = rig.region(desc.width >> 1, desc.height >> 1, 8, 1, 1);
        let bytes = region.row_bytes * u64::from(region.height);
        let upload = rig.host_buffer(bytes, BufferUsage::COPY_SRC);
        let readback = rig.host_buffer(bytes, BufferUsage::COPY_DST);
        let sent = pattern(bytes as usize, 7);
        rig.write(upload, &sent);
        rig.run(&[
            Command::CopyBufferToTexture { src: upload.raw, dst: texture, region, discard: true },
            Command::CopyTextureToBuffer { src: texture, dst: readback.raw, region },
        ]);
        let came = rig.read(readback, bytes);
        let rows = |bytes: &[u8]| -> Vec<Vec<u8>> {
            bytes.chunks(region.row_bytes as usize).map(|row| row[..region.width as usize * 8].to_vec()).collect()
        };
        assert!(rows(&came) == rows(&sent), "dedicated: {dedicated}");
    }
    rig.close();
}

#[test]
fn dedicated_buffers_are_mapped_and_hold_bytes() {
    let Some(mut rig) = Rig::open() else { return };
    let upload = rig.dedicated_buffer(12_345, BufferUsage::COPY_SRC | BufferUsage::STORAGE);
    let readback = rig.dedicated_buffer(12_345, BufferUsage::COPY_DST | BufferUsage::STORAGE);
    let sent = pattern(12_344, 3);
    rig.write(upload, &sent);
    let (src, dst) = (upload.raw, readback.raw);
    rig.run(&[Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: 12_344 }]);
    assert!(rig.read(readback, 12_344) == sent);
    rig.close();
}

#[test]
fn discs_are_drawn_as_the_host_draws_them() {
    let Some(mut rig) = Rig::open() else { return };
    if !rig.gpu.can_draw() {
        ringfence_testkit::report::skipped("the device cannot draw");
        return;
    }
    let (width, height) = (61, 45);
    let usage = TextureUsage::STORAGE | TextureUsage::COPY_SRC;
    let target = rig.texture(&TextureDesc { width, height, usage, ..TextureDesc::default() }, false);
    let discs = rig.host_buffer(64 << 10, BufferUsage::STORAGE);
    let region = rig.region(width, height, 4, 0, 0);
    let readback = rig.host_buffer(region.row_bytes * u64::from(height), BufferUsage::COPY_DST);
    let scenes: Vec<Vec<Disc>> = (0..40).map(scene).collect();
    let mut bytes = vec![0; 64 << 10];
    let mut draws = Vec::new();
    for (scene, discs_offset) in scenes.iter().zip((0..).step_by(1024)) {
        let packed: Vec<u8> = scene.iter().flat_map(|disc| disc.to_bytes()).collect();
        bytes[discs_offset..][..packed.len()].copy_from_slice(&packed);
        let (discs_offset, disc_count) = (discs_offset as u64, scene.len() as u32);
        draws.push(Command::Draw { discs: discs.raw, discs_offset, disc_count, target, width, height });
    }
    rig.write(discs, &bytes);
    let copy = Command::CopyTextureToBuffer { src: target, dst: readback.raw, region };
    // Forty draws in one submission need several descriptor pools. The texture contains the picture of the last draw.
    for drawn in [40, 2, 1] {
        let commands: Vec<_> = draws[..drawn].iter().chain([&copy]).cloned().collect();
        rig.run(&commands);
        let came = rig.read(readback, region.row_bytes * u64::from(height));
        let expected = draw_reference(&scenes[drawn - 1], width, height);
        let row_bytes = width as usize * 4;
        let rows = came.chunks(region.row_bytes as usize).map(|row| &row[..row_bytes]);
        assert!(rows.eq(expected.chunks(row_bytes)), "scene {}", drawn - 1);
    }
    rig.close();
}

/// Returns discs that overlap or are partly outside; some are empty. The first scene has no discs.
fn scene(seed: i32) -> Vec<Disc> {
    let disc = |i: i32| Disc {
        x: (i * 17 + seed * 5) % 70 - 4,
        y: (i * 29 + seed * 11) % 50 - 3,
        radius: (i * 7 + seed) % 19 - 1,
        color: (i as u32 + 1).wrapping_mul(0x9e37_79b9 ^ seed as u32),
    };
    (0..seed.min(30)).map(disc).collect()
}

#[test]
fn waits_end_at_the_value_or_at_the_timeout() {
    let Some(mut rig) = Rig::open() else { return };
    let fence = rig.gpu.fence(0);
    let device = rig.device.clone();
    rig.gpu.submit(0, &[], &[], 5).expect("an empty submission");
    // SAFETY: the fence belongs to this device, and the rig is alive.
    unsafe {
        assert_eq!(device.wait(&fence, 5, Duration::from_secs(60)), Ok(true));
        assert_eq!(device.completed(&fence), Ok(5));
        assert_eq!(device.wait(&fence, 3, Duration::ZERO), Ok(true));
        assert_eq!(device.wait(&fence, 6, Duration::from_millis(5)), Ok(false));
        assert_eq!(device.wait(&fence, 6, Duration::ZERO), Ok(false));
    }
    rig.close();
}

#[test]
fn queues_wait_for_each_other() {
    let Some(mut rig) = Rig::open_with(&Options { queues: 3, ..Rig::options() }) else { return };
    let queues = rig.gpu.queue_count();
    assert!((1..=3).contains(&queues));
    let buffer = rig.host_buffer(1 << 20, BufferUsage::COPY_DST);
    let mut last = None;
    for step in 1..=30_u32 {
        let (queue, signal) = (step as usize % queues, 1000 + u64::from(step));
        let fill = Command::FillBuffer { dst: buffer.raw, offset: 0, size: 1 << 20, value: step };
        rig.gpu.submit(queue, last.as_slice(), &[fill], signal).expect("a submission");
        last = Some((queue, signal));
    }
    rig.gpu.wait_idle().expect("the device is not lost");
    assert_eq!(rig.read(buffer, 1 << 20), 30_u32.to_ne_bytes().repeat(1 << 18));
    rig.close();
}

#[test]
fn validation_messages_are_collected_and_carry_names() {
    let Some(mut rig) = Rig::open() else { return };
    let wrong = rig.host_buffer(64, BufferUsage::COPY_DST);
    let right = rig.host_buffer(64, BufferUsage::COPY_DST);
    rig.name(wrong, "not a copy source");
    rig.name(right, &"long names are cut nowhere ".repeat(9));
    let (src, dst) = (wrong.raw, right.raw);
    rig.run(&[Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: 64 }]);
    let messages = rig.gpu.take_messages();
    assert!(messages.iter().any(|message| message.contains("not a copy source")), "{messages:?}");
    rig.close();
}

#[test]
fn synchronization_is_validated_too() {
    let Some(mut rig) = Rig::open() else { return };
    let buffer = rig.host_buffer(64, BufferUsage::COPY_SRC | BufferUsage::COPY_DST);
    rig.unsynchronized_copies(buffer);
    let messages = rig.gpu.take_messages();
    assert!(messages.iter().any(|message| message.contains("SYNC-HAZARD")), "{messages:?}");
    rig.close();
}

#[test]
fn what_cannot_be_made_is_refused_and_leaves_nothing() {
    let Some(rig) = Rig::open() else { return };
    let device = &rig.device;
    let buffer = |size, usage| Create::<Buffers>::describe(device, &BufferDesc { size, usage }).map(|_| ());
    assert!(matches!(buffer(0, BufferUsage::COPY_SRC), Err(DeviceError::InvalidInfo(_))));
    assert!(matches!(buffer(4, BufferUsage::empty()), Err(DeviceError::InvalidInfo(_))));
    let texture = |desc| Create::<Textures>::describe(device, &desc).map(|_| ());
    let valid = TextureDesc::default();
    assert_eq!(texture(valid), Ok(()));
    assert!(matches!(texture(TextureDesc { width: 0, ..valid }), Err(DeviceError::InvalidInfo(_))));
    assert!(matches!(texture(TextureDesc { mips: 2, ..valid }), Err(DeviceError::InvalidInfo(_))));
    assert!(matches!(texture(TextureDesc { samples: 3, ..valid }), Err(DeviceError::InvalidInfo(_))));
    assert!(matches!(texture(TextureDesc { width: u32::MAX, ..valid }), Err(DeviceError::Unsupported(_))));
    let odd = TextureDesc { format: Format::D32Float, usage: TextureUsage::RENDER_TARGET, ..valid };
    assert!(matches!(texture(odd), Err(DeviceError::Unsupported(_))));
    let memory = |size| MemoryDesc {
        share: None,
        priority: Default::default(),
        memory_type: 0,
        size,
        alignment: 1,
        class: ResourceClass::Buffer,
        name: "",
    };
    // SAFETY: every device has a memory type 0.
    let allocated = [0, u64::MAX].map(|size| unsafe { device.allocate_memory(&memory(size)) }.map(|_| ()));
    assert!(matches!(allocated[0], Err(DeviceError::InvalidInfo(_))));
    assert_eq!(allocated[1], Err(DeviceError::OutOfDeviceMemory));
    rig.close();
}

#[test]
fn device_addresses_work_where_the_device_has_them() {
    let Some(mut rig) = Rig::open() else { return };
    if !rig.device.desc().features.contains(Features::BUFFER_DEVICE_ADDRESS) {
        ringfence_testkit::report::skipped("the device has no buffer device addresses");
        return;
    }
    let usage = ash::vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS | ash::vk::BufferUsageFlags::STORAGE_BUFFER;
    let info = BufferInfo::new(256, usage);
    for dedicated in [false, true] {
        let buffer = rig.buffer_from(&info, dedicated);
        let of = ash::vk::BufferDeviceAddressInfo::default().buffer(buffer.raw);
        // SAFETY: the buffer belongs to this device, is bound, and has the usage for addresses.
        assert_ne!(unsafe { rig.device.raw().get_buffer_device_address(&of) }, 0);
    }
    rig.close();
}

#[test]
fn flushes_of_any_range_are_widened_to_whole_atoms() {
    let Some(mut rig) = Rig::open() else { return };
    let buffer = rig.host_buffer(1000, BufferUsage::COPY_SRC);
    let memory = rig.memory_of(buffer);
    for (offset, size) in [(0, 0), (3, 10), (63, 2), (0, memory.size()), (memory.size() - 1, 1)] {
        // SAFETY: the memory belongs to this device and is mapped; the range is inside it.
        assert_eq!(unsafe { rig.device.flush(memory, offset, size) }, Ok(()), "{offset}, {size}");
    }
    rig.close();
}

#[test]
fn host_visible_types_and_only_those_are_mapped() {
    let Some(rig) = Rig::open() else { return };
    let (size, class) = (64 << 10, ResourceClass::Buffer);
    for memory_type in rig.plain_types() {
        let desc = MemoryDesc {
            share: None,
            priority: Default::default(),
            memory_type,
            size,
            alignment: size,
            class,
            name: "block",
        };
        // SAFETY: the memory type exists.
        let memory = unsafe { rig.device.allocate_memory(&desc) }.expect("64 KiB of any type");
        let properties = rig.device.capabilities().properties(memory_type);
        let visible = properties.contains(MemoryProperties::HOST_VISIBLE);
        assert_eq!(memory.mapped().is_some(), visible, "memory type {memory_type}");
        assert_eq!((memory.size(), memory.memory_type()), (size, memory_type));
        // SAFETY: the memory contains no resources.
        unsafe { rig.device.free_memory(memory) };
    }
    rig.close();
}

#[test]
fn devices_are_listed_or_their_absence_explained() {
    let devices = match ringfence_testkit::vulkan::enumerate() {
        Ok(devices) => devices,
        Err(error) => return rig::skip(&error),
    };
    assert!(!devices.is_empty());
    for device in devices {
        println!("{device:#?}");
        let Ok(capabilities) = &device.capabilities else { continue };
        assert_eq!(capabilities.name, device.name);
        let heaps = capabilities.memory_heaps.len();
        assert!(capabilities.memory_types.iter().all(|memory_type| (memory_type.heap as usize) < heaps));
        assert!(device.budgets.is_none_or(|budgets| budgets.len() == heaps));
    }
}

#[test]
fn a_device_that_is_not_there_is_absent_with_a_reason() {
    let name = Some("no device is called this".to_owned());
    match VulkanGpu::open(&Options { name, ..Options::default() }) {
        Err(OpenError::Absent(reason)) => println!("{reason}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("opened a device of that name"),
    }
}
