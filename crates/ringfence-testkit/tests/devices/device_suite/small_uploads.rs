//! Uploads to small buffers.

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::upload::{BatchError, UploadDesc};
use ringfence::{Location, UploadBatch, UploadRing};
use ringfence_testkit::rig::pattern;
use ringfence_testkit::{Command, Gpu};

use crate::device_suite::rig::{PATIENCE, Rig};

/// The small buffers share a driver's buffer, so each copy must stay within its own.
pub fn a_batch_fills_small_buffers_each_at_its_offset<G: Gpu>(rig: &mut Rig<G>) {
    const BYTES: u64 = 768;
    let ring = UploadRing::new(&rig.memory, UploadDesc { capacity: 64 << 10, ..Default::default() }).expect("room");
    let desc = BufferDesc { size: BYTES, usage: BufferUsage::VERTEX | BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
    let small: Vec<_> =
        (0..5).map(|_| rig.memory.create_small_buffer(desc, Location::Device).expect("there is room")).collect();
    let whole = rig.buffer(BYTES, Location::Device, "whole");
    let back = rig.buffer(6 * BYTES, Location::Readback, "back");
    let frame = rig.timeline().begin();
    let mut batch = UploadBatch::new();
    let mut expected = Vec::new();
    for (number, to) in (0..).zip(&small) {
        let bytes = pattern(number, BYTES as usize);
        let parts = bytes.split_at(256);
        // Two parts, the second one first.
        batch.copy(&ring.write(parts.1, 4).expect("room"), to, 256).expect("it fits");
        batch.copy(&ring.write(parts.0, 4).expect("room"), to, 0).expect("it fits");
        expected.extend(bytes);
    }
    let bytes = pattern(9, BYTES as usize);
    batch.copy(&ring.write(&bytes, 4).expect("room"), &whole, 0).expect("it fits");
    expected.extend(bytes);
    // The driver's buffer is larger, but the bytes behind belong to others.
    let refused = BatchError::OutOfRange { offset: 513, size: 256, target_size: BYTES };
    assert_eq!(batch.copy(&ring.write(&[1; 256], 4).expect("room"), &small[0], 513), Err(refused));
    let mut commands = vec![Command::Upload(Box::new(batch))];
    let sources = small.iter().map(|small| (small.object().clone(), small.offset()));
    for (number, (src, src_offset)) in (0..).zip(sources.chain([(whole.object().clone(), 0)])) {
        let (dst, dst_offset) = (back.object().clone(), number * BYTES);
        commands.push(Command::CopyBuffer { src, src_offset, dst, dst_offset, size: BYTES });
    }
    let value = rig.submit(frame, &commands);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"), "the work completes");
    let mut bytes = vec![0; expected.len()];
    back.read(0, &mut bytes).expect("the host reads it");
    assert!(bytes == expected, "the bytes of another buffer");
}
