//! Retirement of objects, and the time of their destruction.

use std::time::Duration;

use crate::{Command, Gpu};
use ringfence::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};
use ringfence::lifetime::{BufferCopy, FrameError, ReplaceError, RetireBin, SyncSet};
use ringfence::memory::ShutdownError;
use ringfence::upload::{UploadDesc, UploadError, WhenFull};
use ringfence::{AllocationDesc, AllocatorDesc, Location, Texture, UploadRing};

use crate::rig::{PATIENCE, Rig, buffer, copy, pattern};

pub fn a_dropped_buffer_lives_until_its_frame_is_complete<G: Gpu>(rig: &mut Rig<G>) {
    let bytes = pattern(3, 1024);
    let mut upload = rig.buffer(1024, Location::Upload, "source");
    upload.write(0, &bytes).expect("upload memory is mapped");
    let back = rig.buffer(1024, Location::Readback, "back");
    let frame = rig.timeline().begin();
    let command = copy(&upload, 0, &back, 0, 1024);
    drop(upload);
    assert_eq!(rig.memory.reclaim().objects, 0, "the frame that reads it is not even submitted");
    let value = rig.submit(frame, &[command]);
    rig.memory.reclaim();
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    let mut read = vec![0; 1024];
    back.read(0, &mut read).expect("readback memory is mapped");
    assert_eq!(read, bytes);
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().retired_count, 0);
}

pub fn a_frame_that_is_discarded_holds_nothing_for_ever<G: Gpu>(rig: &mut Rig<G>) {
    let frame = rig.timeline().begin();
    drop(rig.buffer(1024, Location::Device, "in a frame that never comes"));
    assert_eq!(rig.memory.reclaim().objects, 0);
    frame.discard();
    assert_eq!(rig.memory.reclaim().objects, 1);
    // A frame that began after an object was retired does not delay the destruction of the object.
    let frame = rig.timeline().begin();
    let later = rig.timeline().begin();
    drop(rig.buffer(1024, Location::Device, "between two frames"));
    later.discard();
    let value = rig.submit(frame, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    assert_eq!(rig.memory.reclaim().objects, 1);
}

/// After an early return that drops the frame of a pending submission, the submission's resources are kept.
pub fn a_frame_that_is_dropped_after_its_submission_holds_what_it_uses<G: Gpu>(rig: &mut Rig<G>) {
    let bytes = pattern(3, 1024);
    let mut upload = rig.buffer(1024, Location::Upload, "source");
    upload.write(0, &bytes).expect("upload memory is mapped");
    let back = rig.buffer(1024, Location::Readback, "back");
    let frame = rig.timeline().begin();
    let (gate, value) = (rig.gpu.gate(), frame.value());
    let commands = [copy(&upload, 0, &back, 0, 1024)];
    rig.gpu.submit(0, &[(gate, 1)], &commands, value).expect("the device is not lost");
    drop((frame, upload));
    assert_eq!(rig.memory.reclaim().objects, 0, "the GPU reads it");
    assert!(!rig.timeline().wait(value, Duration::ZERO).expect("the device is not lost"));
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    let mut read = vec![0; 1024];
    back.read(0, &mut read).expect("readback memory is mapped");
    assert_eq!(read, bytes);
    assert_eq!(rig.memory.reclaim().objects, 1, "its value is reached");
}

pub fn a_frame_that_a_panic_drops_holds_what_it_uses<G: Gpu>(rig: &mut Rig<G>) {
    let (gate, timeline) = (rig.gpu.gate(), rig.timelines[0].clone());
    let (from, to) = (rig.buffer(1024, Location::Upload, "from"), rig.buffer(1024, Location::Device, "to"));
    let value = std::sync::Mutex::new(0);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let frame = timeline.begin();
        *value.lock().expect("no panic") = frame.value();
        let commands = [copy(&from, 0, &to, 0, 1024)];
        rig.gpu.submit(0, &[(gate, 1)], &commands, frame.value()).expect("the device is not lost");
        std::panic::resume_unwind(Box::new("between the submission and its report"));
    }));
    assert!(unwound.is_err());
    drop((from, to));
    assert_eq!(rig.memory.reclaim().objects, 0, "the GPU uses them");
    rig.gpu.open_gate(1).expect("the device is not lost");
    let value = value.into_inner().expect("no panic");
    assert!(timeline.wait(value, PATIENCE).expect("the device is not lost"));
    assert_eq!(rig.memory.reclaim().objects, 2);
}

/// Objects that wait for a dropped, unsubmitted frame are released when a later frame is complete.
pub fn a_dropped_frame_is_resolved_by_a_later_one<G: Gpu>(rig: &mut Rig<G>) {
    let frame = rig.timeline().begin();
    let dropped = frame.value();
    drop(rig.buffer(1024, Location::Device, "held by a dropped frame"));
    drop(frame);
    assert_eq!(rig.memory.reclaim().objects, 0, "it may have been submitted");
    let discarded = rig.timeline().begin();
    discarded.discard();
    assert_eq!(rig.memory.reclaim().objects, 0, "a discarded frame does not resolve the previous one");
    rig.run(&[]);
    assert_eq!(rig.memory.reclaim().objects, 1, "a later value is reached");
    assert!(rig.timeline().wait(dropped, PATIENCE).expect("the device is not lost"));
    // The caller can also state that no dropped frame was submitted (`discard_dropped`).
    drop(rig.timeline().begin());
    drop(rig.buffer(1024, Location::Device, "after a dropped frame"));
    assert_eq!(rig.memory.reclaim().objects, 0);
    rig.timeline().discard_dropped();
    assert_eq!(rig.memory.reclaim().objects, 1);
}

pub fn a_frame_that_was_overtaken_comes_back_open<G: Gpu>(rig: &mut Rig<G>) {
    let (first, second) = (rig.timeline().begin(), rig.timeline().begin());
    rig.submit(second, &[]);
    let refused = rig.timeline().submitted(first).expect_err("a later one was submitted");
    let memory = rig.memory.clone();
    rig.gpu.wait_idle().expect("the device is not lost");
    let open = memory.shutdown(Duration::MAX);
    assert!(matches!(open, Err(ShutdownError::OpenFrames { open: 1, waiting: 0, .. })), "{open:?}");
    drop(rig.buffer(1024, Location::Device, "while it is open"));
    let first = refused.into_frame();
    let ring = UploadRing::new(&memory, UploadDesc { capacity: 4096, ..Default::default() }).expect("there is room");
    ring.write_for(&first, &[1; 16], 4).expect("it is open");
    drop((ring, first));
    rig.run(&[]);
    assert_eq!(memory.reclaim().waiting, 0, "the later frame covers the dropped one");
}

pub fn a_ring_that_waits_for_a_dropped_frame_names_it<G: Gpu>(rig: &mut Rig<G>) {
    let when_full = WhenFull::Wait { timeout: Duration::MAX };
    let ring = UploadRing::new(&rig.memory, UploadDesc { capacity: 4096, when_full, ..Default::default() });
    let ring = ring.expect("there is room");
    let dropped = rig.timeline().begin();
    let point = dropped.point();
    ring.write_for(&dropped, &[1; 4096], 4).expect("it is empty");
    drop(dropped);
    let frame = rig.timeline().begin();
    let full = ring.write_for(&frame, &[2; 64], 4).err();
    assert!(matches!(full, Some(UploadError::Full { waits_for: Some(held), .. }) if held == point), "{full:?}");
    let value = rig.submit(frame, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    let frame = rig.timeline().begin();
    ring.write_for(&frame, &[3; 64], 4).expect("a later value is reached");
    rig.submit(frame, &[]);
}

pub fn shutdown_is_refused_while_a_frame_is_open_or_dropped<G: Gpu>(rig: &mut Rig<G>) {
    let frame = rig.timeline().begin();
    let point = frame.point();
    drop(rig.buffer(1024, Location::Device, "in an open frame"));
    drop(rig.buffer(1024, Location::Device, "in an open frame"));
    let refused = rig.memory.shutdown(Duration::MAX);
    assert_eq!(refused, Err(ShutdownError::OpenFrames { frame: point, open: 1, waiting: 2 }));
    drop(frame);
    // With a frame that may never be submitted, a shutdown without a timeout returns an error instead of waiting.
    let refused = rig.memory.shutdown(Duration::MAX);
    assert!(
        matches!(refused, Err(ShutdownError::DroppedFrame { frame, waiting: 2, .. }) if frame == point),
        "{refused:?}"
    );
    assert_eq!(rig.memory.statistics().retired_count, 2, "the waiting objects still wait");
    // The value of the frame is signalled, as if the frame had been submitted.
    rig.gpu.submit(0, &[], &[], point.value).expect("the device is not lost");
    let done = rig.memory.shutdown(PATIENCE).expect("it is complete in time");
    assert_eq!((done.objects, done.waiting), (2, 0));
}

/// A bin of two allocators releases nothing early, although their timelines have equal indices, and one is far ahead.
pub fn a_bin_of_two_allocators_releases_nothing_early<G: Gpu>(rig: &mut Rig<G>) {
    let (other, others) = rig.allocator(AllocatorDesc::default());
    let theirs = &others[0];
    assert_ne!(rig.timeline().id(), theirs.id(), "timeline ids are unique in the process");
    let bin = RetireBin::new();
    let mine = rig.timeline().begin();
    rig.memory.retirement().retire_into(&bin, "mine");
    // The other allocator has no open frame. With separate epochs per allocator, "theirs" would wait for "mine".
    other.retirement().retire_into(&bin, "theirs");
    let mut out = Vec::new();
    other.retirement().collect_from(&bin, usize::MAX, &mut out).expect("the device is not lost");
    assert_eq!(out, ["theirs"]);
    let value = rig.submit(mine, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    other.retirement().collect_from(&bin, usize::MAX, &mut out).expect("the device is not lost");
    assert_eq!(out, ["theirs"], "progress of another allocator does not complete it");
    rig.memory.retirement().collect_from(&bin, usize::MAX, &mut out).expect("the device is not lost");
    assert_eq!(out, ["theirs", "mine"]);
    // A sync point of another allocator is refused if it would control the release of memory.
    let frame = theirs.begin();
    let held = rig.buffer(1024, Location::Device, "for a foreign point");
    let set = SyncSet::from(frame.point());
    // SAFETY: no work uses it.
    let foreign = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unsafe { held.retire_after(&set) }));
    let message = *foreign.expect_err("refused").downcast::<String>().expect("a message");
    assert!(message.contains(&frame.point().to_string()), "{message}");
    assert_eq!(rig.memory.reclaim().objects, 1, "it is released like a dropped one");
    frame.discard();
    drop((others, other));
}

pub fn frames_are_submitted_in_order_on_their_own_timeline<G: Gpu>(rig: &mut Rig<G>) {
    let first = rig.timeline().begin();
    let second = rig.timeline().begin();
    assert!(first.value() < second.value());
    let value = rig.submit(second, &[]);
    let refused = rig.timeline().submitted(first).expect_err("a later one was submitted");
    assert!(matches!(refused, FrameError::OutOfOrder { submitted, .. } if submitted == value), "{refused:?}");
    refused.into_frame().discard();
    if let [one, other, ..] = rig.timelines.as_slice() {
        let refused = other.submitted(one.begin()).expect_err("a frame of another timeline");
        assert!(matches!(refused, FrameError::WrongTimeline { .. }), "{refused:?}");
        // The error contains the frame, which is still open.
        let frame = refused.into_frame();
        let value = frame.value();
        rig.gpu.submit(0, &[], &[], value).expect("the device is not lost");
        assert_eq!(rig.timeline().submitted(frame).expect("its own timeline").value, value);
    }
    rig.run(&[]);
}

pub fn precise_release_waits_for_its_own_points_only<G: Gpu>(rig: &mut Rig<G>) {
    let held = rig.buffer(1024, Location::Device, "used by the first frame");
    let command = Command::FillBuffer { dst: held.object().clone(), offset: 0, size: 1024, value: 7 };
    let first = rig.timeline().begin();
    let point = first.point();
    rig.submit(first, &[command]);
    let open = rig.timeline().begin();
    // SAFETY: only the first frame uses it.
    unsafe { held.retire_after(&SyncSet::from(point)) };
    assert!(rig.timeline().wait(point.value, PATIENCE).expect("the device is not lost"));
    assert_eq!(rig.memory.reclaim().objects, 1, "the open frame does not hold it");
    open.discard();
}

pub fn empty_blocks_go_after_their_grace<G: Gpu>(rig: &mut Rig<G>) {
    let desc = AllocatorDesc { empty_blocks_kept: 0, empty_block_grace: 3, ..Default::default() };
    let (memory, timelines) = rig.allocator(desc);
    drop(buffer(&memory, 4096, BufferUsage::COPY_DST, Location::Device, ""));
    assert_eq!(memory.reclaim().objects, 1);
    let went = (1..=10).find(|_| memory.reclaim().blocks > 0);
    assert_eq!(went, Some(3), "the block is freed after its grace, not at once");
    assert_eq!(memory.statistics().total().reserved_bytes(), 0);
    drop(timelines);
}

pub fn an_allocator_that_is_dropped_first_waits_for_the_device<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, timelines) = rig.allocator(AllocatorDesc::default());
    let usage = BufferUsage::COPY_DST;
    let held = buffer(&memory, 1 << 16, usage, Location::Device, "filled");
    let fill = Command::FillBuffer { dst: held.object().clone(), offset: 0, size: 1 << 16, value: 1 };
    // Both allocators have a timeline for the same queue, so the submission is reported to both.
    let (frame, theirs) = (rig.timeline().begin(), timelines[0].begin());
    assert_eq!(frame.value(), theirs.value());
    let value = rig.submit(frame, &[fill]);
    timelines[0].submitted(theirs).expect("in order");
    drop((memory, timelines, held));
    assert!(rig.timeline().wait(value, Duration::ZERO).expect("the device is not lost"), "it waited for the work");
}

pub fn a_thousand_frames_stream_and_leave_nothing_behind<G: Gpu>(rig: &mut Rig<G>) {
    let mut upload = rig.buffer(4096, Location::Upload, "source");
    let bytes = pattern(5, 4096);
    upload.write(0, &bytes).expect("upload memory is mapped");
    let mut in_flight = std::collections::VecDeque::new();
    for number in 0..1000_u64 {
        if in_flight.len() == 3 {
            let value = in_flight.pop_front().expect("three are in flight");
            assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
        }
        let frame = rig.timeline().begin();
        let target = rig.buffer(256 + number % 7 * 512, Location::Device, "");
        let commands = [copy(&upload, 0, &target, 0, 256)];
        drop(target);
        in_flight.push_back(rig.submit(frame, &commands));
        rig.memory.reclaim();
        assert!(rig.memory.statistics().retired_count <= 4, "at most the buffers in flight");
    }
    rig.memory.debug().validate().expect("the allocator is sound");
}

/// A buffer is replaced while gated work reads the old buffer. The new buffer is used before that work has run.
pub fn a_resource_in_flight_is_replaced_without_a_wait<G: Gpu>(rig: &mut Rig<G>) {
    let old_bytes = pattern(1, 1024);
    let mut source = rig.buffer(1024, Location::Upload, "old");
    source.write(0, &old_bytes).expect("upload memory is mapped");
    let backs = ["old", "new"].map(|name| rig.buffer(1024, Location::Readback, name));
    let frame = rig.timeline().begin();
    let (gate, value) = (rig.gpu.gate(), frame.value());
    rig.gpu.submit(0, &[(gate, 1)], &[copy(&source, 0, &backs[0], 0, 1024)], value).expect("the device is not lost");
    rig.timeline().submitted(frame).expect("in order");
    let waits = rig.memory.statistics().calls.wait;
    let info = BufferDesc { size: 2048, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
    let allocation = AllocationDesc { name: "new", location: Location::Upload, ..Default::default() };
    source.replace(&info, allocation).expect("there is room");
    let new_bytes = pattern(2, 1024);
    source.write(1024, &new_bytes).expect("upload memory is mapped");
    assert_eq!(rig.memory.statistics().calls.wait, waits, "no thread waited");
    assert_eq!(rig.memory.reclaim().objects, 0, "the old buffer is still going to be read");
    rig.gpu.open_gate(1).expect("the device is not lost");
    rig.run(&[copy(&source, 1024, &backs[1], 0, 1024)]);
    for (back, bytes) in backs.iter().zip([old_bytes, new_bytes]) {
        let mut read = vec![0; 1024];
        back.read(0, &mut read).expect("readback memory is mapped");
        assert_eq!(read, bytes);
    }
    assert_eq!(rig.memory.reclaim().objects, 1);
    // A replacement that fails changes nothing.
    let held = (format!("{:?}", source.object()), source.offset());
    assert!(source.replace(&BufferDesc { size: 1 << 50, ..info }, allocation).is_err());
    assert_eq!((format!("{:?}", source.object()), source.offset()), held);
}

pub fn a_buffer_is_resized_with_its_contents<G: Gpu>(rig: &mut Rig<G>) {
    let bytes = pattern(3, 4096);
    let mut upload = rig.buffer(4096, Location::Upload, "upload");
    upload.write(0, &bytes).expect("upload memory is mapped");
    let mut held = rig.buffer(4096, Location::Device, "grows");
    rig.run(&[copy(&upload, 0, &held, 0, 4096)]);
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let allocation = AllocationDesc { name: "grown", ..Default::default() };
    for (size, keep) in [(64 << 10, 4096), (8192, 4096), (1024, 1024)] {
        let info = BufferDesc { size, usage };
        let frame = rig.timeline().begin();
        let moved = held.resize(&frame, &info, keep, allocation).expect("there is room").expect("there are bytes");
        let BufferCopy { src, src_offset, dst, dst_offset, size } = moved;
        // Several buffers in a row, without a wait: each old buffer waits for its own frame.
        rig.submit(frame, &[Command::CopyBuffer { src, src_offset, dst, dst_offset, size }]);
        rig.memory.reclaim();
    }
    assert_eq!(rig.download(&held, 1024), bytes[..1024]);
    let info = BufferDesc { size: 1 << 20, usage };
    let frame = rig.timeline().begin();
    let refused = held.resize(&frame, &info, 1 << 20, allocation).map(drop);
    assert!(matches!(refused, Err(ReplaceError::TooMuchToKeep { keep_bytes: 0x10_0000, .. })), "{refused:?}");
    let (_, theirs) = rig.allocator(AllocatorDesc::default());
    assert_eq!(held.resize(&theirs[0].begin(), &info, 0, allocation).map(drop), Err(ReplaceError::ForeignFrame));
    assert!(held.resize(&frame, &info, 0, allocation).expect("there is room").is_none(), "nothing to copy");
    frame.discard();
}

/// A texture with a side of 16 is replaced by one of 32, then by one of 8. Common mip levels keep their texels.
pub fn a_chain_of_mips_is_swapped_up_and_down<G: Gpu>(rig: &mut Rig<G>) {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let chain = |side: u32, mips| TextureDesc { width: side, height: side, mips, usage, ..Default::default() };
    let allocation = AllocationDesc { name: "streamed", ..Default::default() };
    let mut present = chain(16, 2);
    let info = present;
    let mut texture = rig.memory.create_texture(&info, allocation).expect("there is room");
    for mip in 0..2 {
        fill_mip(rig, &texture, mip, 16 >> mip, 16 >> mip);
    }
    for (wanted, copied, to_fill) in
        [(chain(32, 6), vec![(0, 1), (1, 2)], vec![0, 3, 4, 5]), (chain(8, 3), vec![(2, 0), (3, 1), (4, 2)], vec![])]
    {
        let frame = rig.timeline().begin();
        let swap = texture.swap_mips(&frame, &wanted, allocation).expect("there is room");
        assert_eq!(swap.copies.iter().map(|copy| (copy.src_mip, copy.dst_mip)).collect::<Vec<_>>(), copied);
        assert_eq!(swap.to_fill, to_fill);
        let mut bounces = Vec::new();
        let mut commands = Vec::new();
        for copy in &swap.copies {
            let mut region = rig.region(copy.width, copy.height, 0);
            let bounce = rig.buffer(region.row_bytes * u64::from(copy.height), Location::Device, "bounce");
            (region.mip, region.texel_bytes) = (copy.src_mip, 4);
            let (src, dst) = (copy.src.clone(), bounce.object().clone());
            commands.push(Command::CopyTextureToBuffer { src, dst, region });
            let region = crate::TextureRegion { mip: copy.dst_mip, ..region };
            let (src, dst) = (bounce.object().clone(), copy.dst.clone());
            commands.push(Command::CopyBufferToTexture { src, dst, region, discard: true });
            bounces.push(bounce);
        }
        rig.submit(frame, &commands);
        drop(bounces);
        rig.memory.reclaim();
        for &mip in &swap.to_fill {
            fill_mip(rig, &texture, mip, wanted.width >> mip, wanted.width >> mip);
        }
        present = wanted;
        for mip in 0..present.mips {
            let side = present.width >> mip;
            assert_eq!(
                read_mip(rig, &texture, mip, side),
                pattern(u64::from(side), (side * side * 4) as usize),
                "{mip}"
            );
        }
    }
    let frame = rig.timeline().begin();
    for wrong in [chain(24, 1), TextureDesc { layers: 2, ..chain(8, 3) }, TextureDesc { mips: 9, ..chain(8, 3) }] {
        let refused = texture.swap_mips(&frame, &wrong, allocation).map(drop);
        assert!(matches!(refused, Err(ReplaceError::NotOneChain { present: ([8, 8, 1], 3), .. })), "{refused:?}");
    }
    frame.discard();
}

/// Writes a square mip level with a pattern that depends on its side.
fn fill_mip<G: Gpu>(rig: &mut Rig<G>, texture: &Texture<G::Device>, mip: u32, side: u32, seed: u32) {
    let region = crate::TextureRegion { mip, ..rig.region(side, side, 0) };
    let texels = pattern(u64::from(seed), (side * side * 4) as usize);
    let mut upload = rig.buffer(region.row_bytes * u64::from(side), Location::Upload, "mip");
    for (row, bytes) in texels.chunks(side as usize * 4).enumerate() {
        upload.write(row as u64 * region.row_bytes, bytes).expect("upload memory is mapped");
    }
    let (src, dst) = (upload.object().clone(), texture.object().clone());
    rig.run(&[Command::CopyBufferToTexture { src, dst, region, discard: true }]);
}

fn read_mip<G: Gpu>(rig: &mut Rig<G>, texture: &Texture<G::Device>, mip: u32, side: u32) -> Vec<u8> {
    let region = crate::TextureRegion { mip, ..rig.region(side, side, 0) };
    let back = rig.buffer(region.row_bytes * u64::from(side), Location::Readback, "mip back");
    let (src, dst) = (texture.object().clone(), back.object().clone());
    rig.run(&[Command::CopyTextureToBuffer { src, dst, region }]);
    let mut bytes = vec![0; (region.row_bytes * u64::from(side)) as usize];
    back.read(0, &mut bytes).expect("readback memory is mapped");
    bytes.chunks(region.row_bytes as usize).flat_map(|row| row[..side as usize * 4].to_vec()).collect()
}

pub fn objects_of_the_programs_own_wait_like_resources<G: Gpu>(rig: &mut Rig<G>) {
    let bin = RetireBin::new();
    let first = rig.timeline().begin();
    let point = first.point();
    rig.memory.retirement().retire_into(&bin, "a view that the first frame uses");
    let second = rig.timeline().begin();
    rig.memory.retirement().retire_into(&bin, "a view that both use");
    bin.retire(&SyncSet::from(point), "a sampler of the first frame alone");
    let mut passed = Vec::new();
    assert_eq!(rig.memory.retirement().collect_from(&bin, usize::MAX, &mut passed), Ok(0));
    let value = rig.submit(first, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    assert_eq!(rig.memory.retirement().collect_from(&bin, usize::MAX, &mut passed), Ok(2));
    passed.sort_unstable();
    assert_eq!(passed, ["a sampler of the first frame alone", "a view that the first frame uses"]);
    let value = rig.submit(second, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    assert_eq!(rig.memory.retirement().collect_from(&bin, usize::MAX, &mut passed), Ok(1));
    assert!(bin.is_empty());
}
