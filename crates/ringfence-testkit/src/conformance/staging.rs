//! Functions on top of the rings: merged copies, uploads and readbacks of texels, and a copy queue.

use crate::{Command, Gpu};
use ringfence::device::{BufferUsage, Driver};
use ringfence::placement::FastConstantsDesc;
use ringfence::upload::{
    BatchError, BatchFigures, ReadbackDesc, ReadbackError, SubmitError, TexelTarget, Texels, TransferError,
    TransferQueue, UploadDesc, UploadError,
};
use ringfence::{FastConstants, Location, ReadbackRing, UploadBatch, UploadRing};

use super::upload::{WAIT, ring};
use crate::rig::{PATIENCE, Rig, pattern};

pub fn copies_of_a_frame_are_merged_and_their_barriers_grouped<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 64 << 10, WAIT);
    let targets = ["first", "second"].map(|name| rig.buffer(8 << 10, Location::Device, name));
    let mut expected = [vec![0; 8 << 10], vec![0; 8 << 10]];
    let mut batch = UploadBatch::new();
    let frame = rig.timeline().begin();
    let mut writer = ring.writer(&frame).expect("the frame is the allocator's own");
    // Two adjacent ranges, interleaved with another destination, are added from the middle outwards.
    for (target, offset) in [(0, 1024), (0, 2048), (1, 512), (0, 0), (1, 4096)] {
        let bytes = pattern(offset + target, 1024);
        let staged = writer.write(&bytes, 4).expect("there is room");
        batch.copy(&staged, &targets[target as usize], offset).expect("it fits");
        expected[target as usize][offset as usize..][..1024].copy_from_slice(&bytes);
    }
    let clear = targets.each_ref().map(|target| Command::FillBuffer {
        dst: target.object().clone(),
        offset: 0,
        size: 8 << 10,
        value: 0,
    });
    let figures = batch.figures();
    let wanted = BatchFigures {
        copy_count: 5,
        copy_bytes: 5 << 10,
        region_count: 4,
        call_count: 2,
        target_count: 2,
        hidden_bytes: 0,
    };
    assert_eq!(figures, wanted, "1024 and 2048 are adjacent in source and destination");
    assert_eq!((figures.barrier_count(), figures.barriers_spared()), (4, 6));
    let [first, second] = clear;
    rig.submit(frame, &[first, second, Command::Upload(Box::new(batch.clone()))]);
    for (target, expected) in targets.iter().zip(&expected) {
        assert_eq!(rig.download(target, 8 << 10), *expected);
    }
    batch.clear();
    assert!(batch.is_empty() && batch.figures() == BatchFigures::default());
}

pub fn a_later_copy_of_a_batch_hides_an_earlier_one<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 64 << 10, WAIT);
    let target = rig.buffer(4096, Location::Device, "target");
    let mut expected = vec![0; 4096];
    let mut batch = UploadBatch::new();
    let frame = rig.timeline().begin();
    for (number, (offset, size)) in
        [(0, 4096), (1000, 2000), (500, 1000), (1200, 100), (2900, 300), (0, 4)].into_iter().enumerate()
    {
        let bytes = pattern(number as u64, size);
        let staged = ring.write(&bytes, 4).expect("there is room");
        batch.copy(&staged, &target, offset as u64).expect("it fits");
        expected[offset..][..size].copy_from_slice(&bytes);
    }
    let figures = batch.figures();
    assert_eq!(figures.copy_bytes - figures.hidden_bytes, 4096, "each byte is copied once: {figures:?}");
    rig.submit(frame, &[Command::Upload(Box::new(batch))]);
    assert_eq!(rig.download(&target, 4096), expected);
}

pub fn a_batch_refuses_what_does_not_fit<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 64 << 10, WAIT);
    let target = rig.buffer(4096, Location::Device, "target");
    let size = target.size();
    let frame = rig.timeline().begin();
    let staged = ring.write(&[1; 512], 4).expect("there is room");
    let mut batch = UploadBatch::new();
    for offset in [size - 511, size, u64::MAX] {
        let refused = BatchError::OutOfRange { offset, size: 512, target_size: size };
        assert_eq!(batch.copy(&staged, &target, offset), Err(refused));
    }
    assert!(batch.is_empty());
    rig.submit(frame, &[Command::Upload(Box::new(batch))]);
}

pub fn texels_lie_as_the_device_wants_them<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 256 << 10, WAIT);
    let capabilities = rig.memory.device().capabilities().clone();
    for (number, (width, height)) in [(1, 1), (17, 9), (64, 64), (100, 3)].into_iter().enumerate() {
        let texture = rig.texture(width, height, "texture");
        let row = width as usize * 4;
        let bytes = pattern(number as u64, row * height as usize);
        let frame = rig.timeline().begin();
        ring.write_for(&frame, &[1; 5], 1).expect("there is room"); // the next write is then not aligned by chance
        let texels = Texels::new(width, height, 4, &bytes);
        let staged = if number % 2 == 0 {
            ring.write_texels(&frame, &texels)
        } else {
            ring.writer(&frame).expect("the frame is the allocator's own").write_texels(&texels)
        };
        let staged = staged.expect("there is room");
        assert_eq!(staged.row_bytes % capabilities.texture_copy_row_alignment, 0);
        assert_eq!(staged.bytes.offset % capabilities.texture_copy_offset_alignment, 0);
        let mut batch = UploadBatch::new();
        batch.copy_texels(&staged, &texture, TexelTarget { discard: true, ..Default::default() }).expect("it fits");
        let region = rig.region(width, height, 0);
        let back = rig.buffer(region.row_bytes * u64::from(height), Location::Readback, "back");
        let download =
            Command::CopyTextureToBuffer { src: texture.object().clone(), dst: back.object().clone(), region };
        let value = rig.submit(frame, &[Command::Upload(Box::new(batch)), download]);
        assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
        let mut read = vec![0; region.row_bytes as usize * height as usize];
        back.read(0, &mut read).expect("readback memory is mapped");
        let rows = read.chunks(region.row_bytes as usize).flat_map(|padded| &padded[..row]).copied();
        assert_eq!(rows.collect::<Vec<_>>(), bytes, "{width} × {height}");
    }
    let frame = rig.timeline().begin();
    let refused = ring.write_texels(&frame, &Texels::new(4, 4, 4, &[0; 60])).err();
    assert!(matches!(refused, Some(UploadError::TexelSize { given: 60, needed: 64, .. })), "{refused:?}");
    rig.submit(frame, &[]);
}

pub fn results_come_back_through_a_ring<G: Gpu>(rig: &mut Rig<G>) {
    let results =
        ReadbackRing::new(&rig.memory, ReadbackDesc { capacity: 16 << 10, ..Default::default() }).expect("room");
    let upload = ring(rig, 64 << 10, WAIT);
    for number in 0..20 {
        let frame = rig.timeline().begin();
        let mut work = Vec::new();
        let (mut commands, point) = (Vec::new(), frame.point());
        for part in 0..3 {
            let bytes = pattern(number * 3 + part, 1000 + 300 * part as usize);
            let staged = upload.write(&bytes, 4).expect("there is room, maybe after a wait");
            let result = results.reserve(&frame, bytes.len() as u64, 64).expect("there is room, maybe after a wait");
            assert_eq!((result.offset() % 64, result.point()), (0, point));
            commands.push(Command::CopyBuffer {
                src: staged.buffer.clone(),
                src_offset: staged.offset,
                dst: result.buffer().clone(),
                dst_offset: result.offset(),
                size: result.size(),
            });
            work.push((result, bytes));
        }
        let early = work[0].0.read(&mut vec![0; 1000]);
        assert_eq!(early, Err(ReadbackError::NotReady { point }));
        assert_eq!(work[0].0.wait(PATIENCE), Err(ReadbackError::NotReady { point }), "the frame is not submitted");
        rig.submit(frame, &commands);
        for (result, bytes) in &work {
            result.wait(PATIENCE).expect("the device is not lost");
            assert!(result.is_ready().expect("the device is not lost"));
            let mut read = vec![0; bytes.len()];
            result.read(&mut read).expect("it is there");
            assert_eq!(read, *bytes);
            assert!(matches!(result.read(&mut read[1..]), Err(ReadbackError::Size { .. })));
        }
        results.validate().expect("the ring is sound");
    }
}

pub fn results_that_are_not_read_are_named_when_the_ring_is_full<G: Gpu>(rig: &mut Rig<G>) {
    let results =
        ReadbackRing::new(&rig.memory, ReadbackDesc { capacity: 4 << 10, ..Default::default() }).expect("room");
    let frame = rig.timeline().begin();
    let held = results.reserve(&frame, 3000, 4).expect("there is room");
    rig.submit(
        frame,
        &[Command::FillBuffer { dst: held.buffer().clone(), offset: held.offset(), size: 3000, value: 0x0101_0101 }],
    );
    let frame = rig.timeline().begin();
    let refused = results.reserve(&frame, 3000, 4).err();
    assert!(matches!(refused, Some(UploadError::Unread { capacity: 4096, .. })), "{refused:?}");
    let mut read = vec![0; 3000];
    held.read(&mut read).expect("it is there");
    assert_eq!(read, [1; 3000], "an unread result is not overwritten");
    drop(held);
    let next = results.reserve(&frame, 3000, 4).expect("the space is free");
    drop(next);
    rig.submit(frame, &[]);
}

pub fn texels_come_back_without_their_padding<G: Gpu>(rig: &mut Rig<G>) {
    let results =
        ReadbackRing::new(&rig.memory, ReadbackDesc { capacity: 64 << 10, ..Default::default() }).expect("room");
    let ring = ring(rig, 64 << 10, WAIT);
    let texture = rig.texture(17, 9, "texture");
    let bytes = pattern(3, 17 * 9 * 4);
    let frame = rig.timeline().begin();
    let staged = ring.write_texels(&frame, &Texels::new(17, 9, 4, &bytes)).expect("there is room");
    let mut batch = UploadBatch::new();
    batch.copy_texels(&staged, &texture, TexelTarget::default()).expect("it fits");
    let result = results.reserve_texels(&frame, 17, 9, 4).expect("there is room");
    let mut region = rig.region(17, 9, result.offset());
    region.row_bytes = result.row_bytes();
    let (src, dst) = (texture.object().clone(), result.buffer().clone());
    rig.submit(frame, &[Command::Upload(Box::new(batch)), Command::CopyTextureToBuffer { src, dst, region }]);
    result.wait(PATIENCE).expect("the device is not lost");
    let mut read = vec![0; bytes.len()];
    result.read(&mut read).expect("it is there");
    assert_eq!(read, bytes);
}

/// Uploads run on the second queue, if there is one. The first queue waits for their sync point and uses the data.
pub fn uploads_on_a_copy_queue_hand_their_point_to_the_consumer<G: Gpu>(rig: &mut Rig<G>) {
    let queue = usize::from(rig.gpu.queue_count() > 1);
    let mut transfer = TransferQueue::new(rig.timelines[queue].clone(), ring(rig, 256 << 10, WAIT));
    let nothing = transfer.submit(|_, _| -> Result<(), ()> { unreachable!("nothing was gathered") });
    assert!(matches!(nothing, Ok(None)), "{nothing:?}");
    for number in 0..8 {
        let target = rig.buffer(8 << 10, Location::Device, "target");
        let copied = rig.buffer(8 << 10, Location::Readback, "copied");
        let bytes = pattern(number, 8 << 10);
        for part in 0..4 {
            let part = part * 2048..(part + 1) * 2048;
            transfer.upload(&bytes[part.clone()], &target, part.start as u64).expect("there is room");
        }
        let failed = transfer.submit(|_, _| Err("the queue was busy"));
        assert!(matches!(failed, Err(SubmitError::Submit(_))), "{failed:?}");
        let point = transfer.submit(|batch, value| {
            assert_eq!(batch.figures().region_count, 1, "all uploads are still pending, and merged");
            rig.gpu.submit(queue, &[], &[Command::Upload(Box::new(batch.clone()))], value)
        });
        let point = point.expect("the device is not lost").expect("something was gathered");
        assert_eq!(point.timeline, rig.timelines[queue].id());
        let frame = rig.timeline().begin();
        let value = frame.value();
        let commands = [crate::rig::copy(&target, 0, &copied, 0, 8 << 10)];
        rig.gpu.submit(0, &[(queue, point.value)], &commands, value).expect("the device is not lost");
        rig.timelines[0].submitted(frame).expect("in order");
        assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
        let mut read = vec![0; 8 << 10];
        copied.read(0, &mut read).expect("readback memory is mapped");
        assert_eq!(read, bytes);
        drop(target);
        rig.memory.reclaim();
    }
    let target = rig.buffer(64, Location::Device, "target");
    let outside = transfer.upload(&[1; 4], &target, u64::MAX);
    assert!(matches!(outside, Err(TransferError::Batch(BatchError::OutOfRange { .. }))), "{outside:?}");
    transfer.abandon();
}

/// If the driver refuses an upload, its frame is discarded, and no object waits for it. If the driver's answer is
/// unknown, the frame is abandoned, and dropped objects wait for a later value of its timeline.
pub fn uploads_that_were_not_submitted_are_discarded<G: Gpu>(rig: &mut Rig<G>) {
    let mut transfer = TransferQueue::new(rig.timeline().clone(), ring(rig, 64 << 10, WAIT));
    let target = rig.buffer(64, Location::Device, "target");
    for is_known in [true, false] {
        transfer.upload(&[1; 64], &target, 0).expect("there is room");
        transfer.submit(|_, _| Err(())).expect_err("the driver refuses it");
        if is_known {
            transfer.discard()
        } else {
            transfer.abandon()
        }
        drop(rig.buffer(64, Location::Device, "made later"));
        rig.memory.reclaim();
        assert_eq!(rig.memory.statistics().retired_count, u64::from(!is_known));
    }
    rig.timeline().discard_dropped();
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().retired_count, 0);
}

/// A refused upload leaves no frame open: an open frame would delay the release of all dropped objects.
pub fn an_upload_that_is_refused_leaves_no_frame_open<G: Gpu>(rig: &mut Rig<G>) {
    let mut transfer = TransferQueue::new(rig.timeline().clone(), ring(rig, 64 << 10, WAIT));
    let target = rig.buffer(64, Location::Device, "target");
    let texture = rig.texture(4, 4, "texture");
    let never_fits = transfer.upload(&vec![1; 1 << 20], &target, 0);
    assert!(matches!(never_fits, Err(TransferError::Upload(UploadError::TooLarge { .. }))), "{never_fits:?}");
    let outside = transfer.upload(&[1; 4], &target, 64);
    assert!(matches!(outside, Err(TransferError::Batch(BatchError::OutOfRange { .. }))), "{outside:?}");
    let short = transfer.upload_texels(&Texels::new(4, 4, 4, &[1; 63]), &texture, TexelTarget::default());
    assert!(matches!(short, Err(TransferError::Upload(UploadError::TexelSize { .. }))), "{short:?}");
    let at = TexelTarget { x: 1, ..Default::default() };
    let outside = transfer.upload_texels(&Texels::new(4, 4, 4, &[1; 64]), &texture, at);
    assert!(matches!(outside, Err(TransferError::Batch(BatchError::Texels(_)))), "{outside:?}");
    let nothing = transfer.submit(|_, _| -> Result<(), ()> { unreachable!("nothing was gathered") });
    assert!(matches!(nothing, Ok(None)), "{nothing:?}");
    drop((target, texture));
    rig.memory.shutdown(PATIENCE).expect("no frame is open");
    // Uploads before and after a refused upload are in one submission.
    let target = rig.buffer(64, Location::Device, "target");
    for part in 0..4_u8 {
        transfer.upload(&[part; 16], &target, u64::from(part) * 16).expect("there is room");
        transfer.upload(&[9; 4], &target, 64).expect_err("it is out of range");
    }
    let submit =
        |batch: &mut UploadBatch<_>, value| rig.gpu.submit(0, &[], &[Command::Upload(Box::new(batch.clone()))], value);
    let point = transfer.submit(submit).expect("the device is not lost").expect("something was gathered");
    assert!(rig.timeline().wait(point.value, PATIENCE).expect("the device is not lost"));
    let expected: Vec<_> = (0..64).map(|at| at / 16).collect();
    assert_eq!(rig.download(&target, 64), expected);
}

pub fn what_is_staged_has_an_address_where_buffers_have_one<G: Gpu>(rig: &mut Rig<G>) {
    let usage = BufferUsage::COPY_SRC | BufferUsage::CONSTANT | BufferUsage::DEVICE_ADDRESS;
    let desc = UploadDesc { capacity: 64 << 10, usage, ..Default::default() };
    // Devices without buffer addresses refuse this ring.
    let Ok(ring) = UploadRing::new(&rig.memory, desc) else { return };
    let fast = FastConstants::new(&rig.memory, FastConstantsDesc { usage, ..Default::default() });
    let frame = rig.timeline().begin();
    let mut writer = ring.writer(&frame).expect("the frame is the allocator's own");
    let mut constants = fast.writer(&frame).expect("the frame is the allocator's own");
    let staged = [(); 3].map(|()| writer.write(&[1; 300], 256).expect("there is room"));
    let fast = [(); 3].map(|()| constants.write(&[1; 300]).expect("there is a page"));
    for staged in [staged, fast] {
        let bases = staged.each_ref().map(|staged| staged.address.map(|address| address - staged.offset));
        assert!(bases.iter().all(|base| *base == bases[0]), "{bases:?}");
        assert!(bases[0] != Some(0));
    }
    drop((writer, constants));
    rig.submit(frame, &[]);
}
