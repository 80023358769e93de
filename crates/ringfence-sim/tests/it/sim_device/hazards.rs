//! Each hazard is found and named; the same calls in the right order cause none.

use super::gpu::{Gpu, Owned, Point, copy, fill};
use ringfence::device::{Create, Driver, MemoryProperties, TextureDesc, Textures};
use ringfence::sim::{
    Barrier, BufferId as Buffer, BufferRange, Command, DescriptorUse, Device, Hazard, HazardKind, Kernel, Profile,
    SimOptions,
};

/// Submits a copy from a host buffer `source` to a host buffer `target` on queue 1.
fn copying() -> (Gpu, Owned, Owned, Point) {
    let mut gpu = Gpu::h200();
    let (source, target) = (gpu.host_buffer("source", 64), gpu.host_buffer("target", 64));
    gpu.write(source, 0, &[7; 64]);
    let point = gpu.submit(1, &[], vec![copy(source.buffer, target.buffer, 64)]);
    gpu.no_hazard();
    (gpu, source, target, point)
}

/// Does `deed` too early, which must cause a hazard of this kind; then in time on another device, which must cause
/// none.
#[track_caller]
fn early_and_in_time(kind: HazardKind, name: &str, writes: bool, deed: impl Fn(&Gpu, Owned, Owned)) -> Hazard {
    let (gpu, source, target, point) = copying();
    // The work may run in the meantime: a hazard depends on the program's knowledge.
    gpu.device.advance(1000);
    deed(&gpu, source, target);
    let hazard = gpu.only_hazard(kind);
    assert_eq!(hazard.resource.name.as_deref(), Some(name));
    assert_eq!(hazard.range, 0..64);
    let pending = hazard.pending.expect("pending work");
    assert_eq!((pending.queue, (pending.fence, pending.value), pending.writes), (1, point, writes));
    let (gpu, source, target, point) = copying();
    gpu.wait(point);
    deed(&gpu, source, target);
    gpu.no_hazard();
    hazard
}

#[test]
fn destroyed_while_pending() {
    let hazard = early_and_in_time(HazardKind::DestroyedWhilePending, "source", false, |gpu, source, _| {
        gpu.destroy(source.buffer);
    });
    let pending = hazard.pending.unwrap();
    let expected = format!(
        "buffer 'source' (bytes 0..64 of memory 'memory of source') was destroyed, \
         while work on queue 1 may still read it; wait until {} reaches 1",
        pending.fence
    );
    assert_eq!(hazard.to_string(), expected);
}

#[test]
fn host_write_while_pending() {
    // Writes over bytes that are read, and over bytes that are written.
    early_and_in_time(HazardKind::HostWriteWhilePending, "source", false, |gpu, source, _| {
        gpu.write(source, 0, &[1; 64]);
    });
    early_and_in_time(HazardKind::HostWriteWhilePending, "target", true, |gpu, _, target| {
        gpu.write(target, 0, &[1; 64]);
    });
}

#[test]
fn read_back_while_pending() {
    early_and_in_time(HazardKind::ReadBackWhilePending, "target", true, |gpu, _, target| {
        let _ = gpu.read(target, 0, 64);
    });
    let (gpu, source, ..) = copying();
    assert_eq!(gpu.read(source, 0, 64), [7; 64]);
    gpu.no_hazard();
}

#[test]
fn freed_while_pending() {
    let (gpu, source, _, _) = copying();
    gpu.destroy(source.buffer);
    let _ = gpu.only_hazard(HazardKind::DestroyedWhilePending);
    gpu.free(source.memory);
    let hazard = gpu.only_hazard(HazardKind::FreedWhilePending);
    assert_eq!(hazard.resource.name.as_deref(), Some("source"));
    assert_eq!(hazard.memory.unwrap().name.as_deref(), Some("memory of source"));
    assert!(gpu.device.run_until_idle(), "work on freed memory is done on nothing");

    let (gpu, source, _, point) = copying();
    gpu.wait(point);
    gpu.destroy(source.buffer);
    gpu.free(source.memory);
    gpu.no_hazard();
}

#[test]
fn placed_while_pending() {
    let (gpu, source, _, _) = copying();
    gpu.destroy(source.buffer);
    let _ = gpu.only_hazard(HazardKind::DestroyedWhilePending);
    gpu.place("heir", 64, source.memory, 0);
    assert_eq!(gpu.only_hazard(HazardKind::PlacedWhilePending).resource.name.as_deref(), Some("source"));

    let (gpu, source, _, point) = copying();
    gpu.wait(point);
    gpu.destroy(source.buffer);
    gpu.place("heir", 64, source.memory, 0);
    gpu.no_hazard();
}

#[test]
fn queues_in_conflict() {
    let (mut gpu, source, target, point) = copying();
    // Two reads do not conflict, and neither do two uses on the same queue.
    let third = gpu.device_buffer("third", 64);
    gpu.submit(2, &[], vec![copy(source.buffer, third.buffer, 64)]);
    gpu.submit(1, &[], vec![fill(target.buffer, 64, 1)]);
    gpu.no_hazard();
    // A wait for the first submission does not order the work after the second one.
    gpu.submit(0, &[point], vec![fill(target.buffer, 32, 1)]);
    let hazard = gpu.only_hazard(HazardKind::QueueConflict);
    assert_eq!((hazard.resource.name.as_deref(), hazard.range.clone(), hazard.queue), (Some("target"), 0..32, Some(0)));
    assert_eq!(hazard.pending.map(|pending| pending.value), Some(2));
}

#[test]
fn queues_in_order_are_silent() {
    let (mut gpu, source, target, point) = copying();
    gpu.submit(0, &[point], vec![fill(target.buffer, 64, 1)]);
    // Ordered through a third queue, and through the host.
    let relay = gpu.submit(2, &[gpu.last(0)], vec![]);
    let end = gpu.submit(1, &[relay], vec![copy(source.buffer, target.buffer, 64)]);
    gpu.wait(end);
    gpu.submit(2, &[], vec![fill(target.buffer, 64, 2), fill(source.buffer, 64, 3)]);
    gpu.no_hazard();
}

#[test]
fn a_wait_before_its_signal_orders_too() {
    for is_ordered in [true, false] {
        let mut gpu = Gpu::h200();
        let buffer = gpu.host_buffer("shared", 64);
        let late = gpu.device.create_fence(0);
        gpu.submit(0, &[(late, 5)], vec![fill(buffer.buffer, 64, 2)]);
        let writer = gpu.submit(1, &[], vec![fill(buffer.buffer, 64, 1)]);
        gpu.no_hazard();
        let waits: &[Point] = if is_ordered { &[writer] } else { &[] };
        gpu.device.submit(2, waits, vec![], (late, 5)).unwrap();
        if is_ordered {
            gpu.no_hazard();
            gpu.wait(gpu.last(0));
            assert_eq!(gpu.read(buffer, 0, 64), [2; 64]);
        } else {
            let _ = gpu.only_hazard(HazardKind::QueueConflict);
        }
    }
}

#[test]
fn overlap_of_living_resources() {
    let gpu = Gpu::h200();
    let memory = gpu.memory("block", 1, 4096);
    let first = gpu.place("first", 512, memory, 0).object;
    gpu.place("beside", 256, memory, 512);
    gpu.no_hazard();
    gpu.place("over", 512, memory, 256);
    let found = gpu.device.take_hazards();
    let others: Vec<_> = found.iter().map(|hazard| hazard.other.as_ref().unwrap().name.as_deref().unwrap()).collect();
    assert_eq!(others, ["first", "beside"]);
    assert!(found.iter().all(|hazard| hazard.kind == HazardKind::Overlap));
    assert_eq!(found[0].range, 256..512);

    // Declared aliasing causes no hazard, and neither does aliasing a destroyed buffer.
    gpu.device.note_aliasing(&memory, 2048, 1024, true);
    gpu.place("one", 1024, memory, 2048);
    gpu.place("other", 512, memory, 2304);
    gpu.no_hazard();
    gpu.device.note_aliasing(&memory, 2048, 1024, false);
    gpu.place("late", 256, memory, 2048);
    let _ = gpu.only_hazard(HazardKind::Overlap);
    gpu.destroy(first);
    gpu.place("heir", 256, memory, 0);
    gpu.no_hazard();
}

#[test]
fn buffers_and_textures_too_close() {
    let gpu = Gpu::new(Profile::non_coherent(), 1);
    let desc = TextureDesc { width: 4, height: 4, ..Default::default() };
    for (offset, is_close) in [(4096, true), (65_280, true), (65_536, false)] {
        let memory = gpu.memory("block", 0, 1 << 20);
        // SAFETY: the description holds no pointer.
        let (texture, needs) = unsafe { Create::<Textures>::prepare(&gpu.device, &desc) }.unwrap();
        assert_eq!(needs.size, 4096);
        // SAFETY: just prepared; the range is inside the memory and aligned.
        unsafe { Create::<Textures>::place(&gpu.device, &texture, &memory, 0) }.unwrap();
        gpu.place("neighbour", 256, memory, offset);
        if is_close {
            assert_eq!(gpu.only_hazard(HazardKind::TooClose).other.map(|other| other.id), Some(texture.id()));
        } else {
            gpu.no_hazard();
        }
    }
}

#[test]
fn memory_freed_under_a_resource() {
    let gpu = Gpu::h200();
    let buffer = gpu.device_buffer("left behind", 64);
    gpu.free(buffer.memory);
    let hazard = gpu.only_hazard(HazardKind::FreedUnderResource);
    assert_eq!(hazard.other.unwrap().name.as_deref(), Some("left behind"));
    let buffer = gpu.device_buffer("taken along", 64);
    gpu.destroy(buffer.buffer);
    gpu.free(buffer.memory);
    gpu.no_hazard();
}

#[test]
fn descriptor_overwritten_while_pending() {
    for waits in [false, true] {
        let mut gpu = Gpu::h200();
        let (right, wrong) = (gpu.host_buffer("right", 4), gpu.host_buffer("wrong", 4));
        let result = gpu.host_buffer("result", 4);
        gpu.write(right, 0, &[1; 4]);
        gpu.write(wrong, 0, &[2; 4]);
        let heap = gpu.device.create_descriptor_heap(8, "bindless");
        gpu.device.write_descriptor(heap, 3, Some(right.range(0, 4)));
        gpu.device.pause(0);
        let kernel = Kernel {
            descriptors: vec![DescriptorUse { heap, slot: 3, writes: false }],
            ..Kernel::new(vec![], vec![result.range(0, 4)], |memory| {
                memory.writes[0].copy_from_slice(&memory.descriptors[0]);
            })
        };
        let point = gpu.submit(0, &[], vec![Command::Kernel(kernel)]);
        // Another slot may change.
        gpu.device.write_descriptor(heap, 4, Some(wrong.range(0, 4)));
        gpu.no_hazard();
        if waits {
            gpu.device.resume(0);
            gpu.wait(point);
        }
        gpu.device.write_descriptor(heap, 3, Some(wrong.range(0, 4)));
        if waits {
            gpu.no_hazard();
        } else {
            let hazard = gpu.only_hazard(HazardKind::DescriptorWhilePending);
            assert_eq!((hazard.resource.name.as_deref(), hazard.range), (Some("bindless"), 3..4));
            gpu.device.resume(0);
            gpu.wait(point);
        }
        assert_eq!(gpu.read(result, 0, 4), if waits { [1; 4] } else { [2; 4] });
    }
}

#[test]
fn flushes_of_part_of_an_atom() {
    let gpu = Gpu::new(Profile::non_coherent(), 1);
    let buffer = gpu.host_buffer("staging", 1000);
    gpu.flush(buffer, 256, 512);
    gpu.flush(buffer, 768, 256);
    gpu.no_hazard();
    gpu.flush(buffer, 256, 100);
    let _ = gpu.only_hazard(HazardKind::Unaligned);
    gpu.flush(buffer, 4, 252);
    let _ = gpu.only_hazard(HazardKind::Unaligned);
    // Coherent memory has no atoms.
    let gpu = Gpu::h200();
    let buffer = gpu.host_buffer("staging", 1000);
    gpu.flush(buffer, 4, 3);
    gpu.no_hazard();
}

#[test]
fn reuse_too_early_gives_wrong_bytes() {
    for waits in [false, true] {
        let mut gpu = Gpu::h200();
        let (staging, target) = (gpu.host_buffer("staging", 64), gpu.host_buffer("target", 64));
        gpu.write(staging, 0, &[1; 64]);
        gpu.device.pause(0);
        let point = gpu.submit(0, &[], vec![copy(staging.buffer, target.buffer, 64)]);
        if waits {
            gpu.device.resume(0);
            gpu.wait(point);
        }
        // The memory gets a new owner, which fills it.
        gpu.destroy(staging.buffer);
        let heir = gpu.place("heir", 64, staging.memory, 0);
        let heir = Owned { buffer: heir.object, mapped: heir.mapped, ..staging };
        gpu.write(heir, 0, &[2; 64]);
        gpu.device.resume(0);
        gpu.wait(point);
        assert_eq!(gpu.read(target, 0, 64), if waits { [1; 64] } else { [2; 64] });
        assert_eq!(gpu.device.take_hazards().is_empty(), waits);
    }
}

#[test]
fn a_missing_flush_gives_wrong_bytes() {
    for profile in Profile::all() {
        let gpu = Gpu::new(profile, 1);
        let buffer = gpu.buffer("written", MemoryProperties::HOST_VISIBLE, 256);
        gpu.write_unflushed(buffer, 0, &[9; 256]);
        assert_eq!(gpu.read(buffer, 0, 256), [0xcd; 256]);
        gpu.flush(buffer, 0, 256);
        assert_eq!(gpu.read(buffer, 0, 256), [9; 256]);
        assert_eq!(gpu.device.peek(BufferRange::new(buffer.buffer, 250, 6)), Some(vec![9; 6]));
        gpu.no_hazard();
    }
}

/// Returns two buffers of 4 KiB in one memory object; the second begins in the middle of the first.
fn aliased() -> (Gpu, Buffer, Buffer, Buffer) {
    let options = SimOptions { watches_barriers: true, ..Default::default() };
    let gpu = Gpu::over(Device::new(Profile::h200(), options));
    let target = gpu.device_buffer("target", 4096).buffer;
    let memory = gpu.memory("heap", gpu.memory_type(MemoryProperties::DEVICE_LOCAL), 8192);
    gpu.device.note_aliasing(&memory, 0, 8192, true);
    let (one, two) = (gpu.place("one", 4096, memory, 0).object, gpu.place("two", 4096, memory, 2048).object);
    (gpu, one, two, target)
}

fn activate(before: Buffer, after: Buffer) -> Command {
    Command::Barrier(Barrier::Aliasing { before: Some(before.into()), after: after.into() })
}

#[test]
fn contents_that_another_resource_was_written_over() {
    let all = || Command::Barrier(Barrier::All);
    let (mut gpu, one, two, target) = aliased();
    gpu.submit(
        0,
        &[],
        vec![fill(one, 4096, 1), activate(one, two), fill(two, 4096, 2), all(), copy(one, target, 4096)],
    );
    let hazard = gpu.only_hazard(HazardKind::Overwritten);
    assert_eq!((hazard.resource.name.as_deref(), hazard.range.clone()), (Some("one"), 2048..4096));
    assert_eq!(hazard.other.as_ref().and_then(|other| other.name.as_deref()), Some("two"));
    assert_eq!(
        hazard.to_string(),
        "buffer 'one' (bytes 2048..4096 of memory 'heap') was read, but another resource was written over its \
         contents: buffer 'two', by work on queue 0"
    );
    // The half that only it uses, and the whole buffer after it is written again.
    let own = Command::CopyBuffer { src: one, src_offset: 0, dst: target, dst_offset: 0, size: 2048 };
    gpu.submit(0, &[], vec![own]);
    gpu.submit(0, &[], vec![activate(two, one), fill(one, 4096, 3), copy(one, target, 4096)]);
    gpu.no_hazard();
    gpu.submit(0, &[], vec![copy(two, target, 4096)]);
    let hazard = gpu.only_hazard(HazardKind::Overwritten);
    assert_eq!((hazard.resource.name.as_deref(), hazard.range), (Some("two"), 2048..4096));
}

#[test]
fn an_activation_takes_contents_and_so_does_work_that_the_reader_waits_for() {
    let (mut gpu, one, two, target) = aliased();
    gpu.submit(0, &[], vec![fill(one, 4096, 1), activate(one, two)]);
    gpu.submit(0, &[], vec![copy(one, target, 4096)]);
    let _ = gpu.only_hazard(HazardKind::Overwritten);
    let (mut gpu, one, two, target) = aliased();
    let filled = gpu.submit(0, &[], vec![fill(one, 4096, 1)]);
    let taken = gpu.submit(1, &[filled], vec![fill(two, 4096, 2)]);
    gpu.submit(2, &[taken], vec![copy(one, target, 4096)]);
    let _ = gpu.only_hazard(HazardKind::Overwritten);
    // Submitted before the owner that reuses its bytes, and run before it, whatever the order of the calls.
    let (mut gpu, one, two, target) = aliased();
    gpu.submit(0, &[], vec![fill(one, 4096, 1)]);
    let read = gpu.submit(0, &[], vec![copy(one, target, 4096)]);
    gpu.submit(1, &[read], vec![fill(two, 4096, 2)]);
    gpu.no_hazard();
    // An alias that was never written contains another buffer's bytes on purpose.
    let (mut gpu, one, two, target) = aliased();
    gpu.submit(0, &[], vec![fill(one, 4096, 1)]);
    gpu.submit(0, &[], vec![copy(two, target, 4096)]);
    gpu.no_hazard();
}
