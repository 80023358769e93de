//! Uploads to small buffers.

use ringfence::device::transfer::TransferSupport;
use ringfence::device::{BufferDesc, BufferUsage, RawBuffer};
use ringfence::placement::{BufferRequest, Placement, PlacementDesc, Strategy};
use ringfence::upload::{BatchError, UploadDesc};
use ringfence::{Location, ReadbackRing, UploadBatch, UploadRing};
use ringfence_testkit::rig::pattern;
use ringfence_testkit::{Command, Gpu};

use crate::device_suite::commands::run;
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
    let mut shared: Vec<RawBuffer<G::Device>> = Vec::new();
    for object in small.iter().map(|small| small.object()).chain([whole.object()]) {
        if !shared.contains(object) {
            shared.push(object.clone());
        }
    }
    // Small buffers in one driver's buffer have one barrier.
    assert_eq!(batch.figures().target_count, shared.len() as u64);
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

/// Buffers of the placement policy are destinations of batches and of commands: ranges of a shared buffer, and separate
/// ones.
pub fn buffers_of_the_policy_are_filled_each_at_its_offset<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: TransferSupport,
{
    let placement = Placement::new(&rig.memory, PlacementDesc::default()).expect("a sound description");
    let ring = UploadRing::new(&rig.memory, UploadDesc { capacity: 64 << 10, ..Default::default() }).expect("room");
    let usage = BufferUsage::VERTEX | BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let strategies = [Strategy::Suballocated, Strategy::Placed, Strategy::Suballocated, Strategy::Suballocated];
    let placed = strategies.map(|strategy| {
        let request = BufferRequest { size: 768, usage, strategy: Some(strategy), ..Default::default() };
        placement.create_buffer(&request).expect("there is room")
    });
    let (frame, mut batch) = (rig.timeline().begin(), UploadBatch::new());
    let contents: Vec<_> = (0..placed.len() as u64).map(|number| pattern(20 + number, 768)).collect();
    for (to, bytes) in placed.iter().zip(&contents) {
        batch.copy(&ring.write_for(&frame, bytes, 4).expect("room"), to, 0).expect("it fits");
    }
    let behind = batch.copy(&ring.write_for(&frame, &[1; 16], 4).expect("room"), &placed[0], 760);
    assert_eq!(behind, Err(BatchError::OutOfRange { offset: 760, size: 16, target_size: 768 }));
    let mut shared: Vec<RawBuffer<G::Device>> = Vec::new();
    for object in placed.iter().map(|placed| placed.object()) {
        if !shared.contains(object) {
            shared.push(object.clone());
        }
    }
    assert!(shared.len() < placed.len(), "some share a buffer");
    assert_eq!(batch.figures().target_count, shared.len() as u64);
    rig.submit(frame, &[Command::Upload(Box::new(batch))]);
    let back = ReadbackRing::new(&rig.memory, Default::default()).expect("there is room");
    let results = run(rig, |commands| {
        commands.fill_buffer(&placed[2], 4..8, 0)?;
        placed.iter().map(|placed| commands.read_buffer(&back, placed, 0..768)).collect::<Result<Vec<_>, _>>()
    });
    for (number, (result, mut expected)) in results.iter().zip(contents).enumerate() {
        if number == 2 {
            expected[4..8].fill(0);
        }
        assert!(result.to_vec().expect("the frame is complete") == expected, "buffer {number}");
    }
}
