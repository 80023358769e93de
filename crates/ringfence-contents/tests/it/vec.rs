//! `GpuVec`: generated changes, growth, lost frames, bounded updates, and views.

use ringfence::UploadBatch;
use ringfence::contents::{ContentsError, GpuVec, GpuVecDesc};
use ringfence::memory::AsBufferSlice;
use ringfence::sim::Device;
use ringfence::upload::UploadError;
use ringfence_core::testing::rng::Rng;

use super::program::{Program, ring};

type Vector = GpuVec<Device, u32>;

fn vector_of(program: &Program, update_bytes_max: u64) -> Vector {
    GpuVec::new(&program.memory, GpuVecDesc { name: "elements", update_bytes_max, ..Default::default() })
}

/// Updates the vector in a frame, which is submitted unless `is_lost`. Returns the number of elements that wait.
fn update(program: &Program, vector: &mut Vector, is_lost: bool) -> usize {
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let updated = vector.update(&program.ring, &mut batch, &frame).expect("the ring has room");
    vector.validate().expect("sound");
    if is_lost {
        drop(batch);
        frame.discard();
    } else {
        program.submit(frame, &mut [&mut batch]);
    }
    updated.waiting
}

/// Reads the elements back from the device.
fn read(program: &Program, vector: &Vector) -> Vec<u32> {
    let Some(buffer) = vector.buffer().filter(|_| !vector.is_empty()) else { return Vec::new() };
    let bytes = program.read(buffer, 0, vector.len() as u64 * 4);
    bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect()
}

/// One step of a generated test: the same change to the vector and to the model.
fn change(dice: &mut Rng, vector: &mut Vector, model: &mut Vec<u32>) {
    let value = dice.below(1 << 32) as u32;
    let at = if model.is_empty() { 0 } else { dice.below(model.len() as u64) as usize };
    match dice.below(10) {
        0..=2 => {
            vector.push(value);
            model.push(value);
        }
        3 => {
            let more: Vec<u32> = (0..dice.below(300) as u32).map(|step| value ^ step).collect();
            vector.extend_from_slice(&more);
            model.extend(more);
        }
        4 if !model.is_empty() => assert_eq!(vector.swap_remove(at), model.swap_remove(at)),
        5 if !model.is_empty() => assert_eq!(vector.remove(at), model.remove(at)),
        6 => {
            vector.insert(at, value);
            model.insert(at, value);
        }
        7 if dice.below(20) == 0 => {
            vector.truncate(at);
            model.truncate(at);
        }
        8 if !model.is_empty() => {
            let end = (at + 9).min(model.len());
            vector.slice_mut(at..end).fill(value);
            model[at..end].fill(value);
        }
        _ if !model.is_empty() => assert_eq!(vector.set(at, value), std::mem::replace(&mut model[at], value)),
        _ => {}
    }
}

#[test]
fn generated_changes_arrive_on_the_device() {
    for seed in 0..4 {
        let (program, mut dice, mut model) = (Program::new(seed), Rng::new(seed + 70), Vec::new());
        let mut vector = vector_of(&program, 1 << 20);
        let mut buffers = 0;
        for frame in 0..700 {
            let before = vector.object().copied();
            for _ in 0..dice.below(8) {
                change(&mut dice, &mut vector, &mut model);
            }
            assert_eq!(vector.as_slice(), model);
            let is_lost = dice.below(6) == 0;
            assert_eq!(update(&program, &mut vector, is_lost), 0);
            buffers += usize::from(vector.object().copied() != before);
            if !is_lost && frame % 7 == 0 {
                assert_eq!(read(&program, &vector), model, "seed {seed}, frame {frame}");
            }
        }
        update(&program, &mut vector, false);
        assert_eq!(read(&program, &vector), model);
        assert!((2..20).contains(&buffers), "{buffers} buffers: capacities double");
        assert_eq!(program.device.hazards(), []);
    }
}

#[test]
fn an_update_copies_changed_elements_only_and_grows_on_the_device() {
    let program = Program::new(1);
    let mut vector = vector_of(&program, 1 << 20);
    vector.extend(0..1000_u32);
    let frame = program.timeline.begin();
    let mut batch = UploadBatch::new();
    let first = vector.update(&program.ring, &mut batch, &frame).expect("room");
    assert_eq!((first.staged_bytes, first.kept_bytes, first.is_moved), (4000, 0, true));
    vector.set(500, 7);
    let second = vector.update(&program.ring, &mut batch, &frame).expect("room");
    assert_eq!((second.staged_bytes, second.is_moved), (4, false));
    frame.discard();
    drop(batch);
    update(&program, &mut vector, false);
    // The capacity is 1,024 elements, so this grows: the first 1,000 are copied on the device.
    vector.extend(0..500);
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let grown = vector.update(&program.ring, &mut batch, &frame).expect("room");
    assert_eq!((grown.staged_bytes, grown.kept_bytes, grown.is_moved), (2000, 4000, true));
    // A second growth in the same batch cannot read the buffer that the batch writes: it uploads everything.
    vector.extend(0..5000);
    let again = vector.update(&program.ring, &mut batch, &frame).expect("room");
    assert_eq!((again.staged_bytes, again.kept_bytes, again.is_moved), (26_000, 0, true));
    program.submit(frame, &mut [&mut batch]);
    let expected: Vec<u32> =
        (0..1000).map(|value| if value == 500 { 7 } else { value }).chain(0..500).chain(0..5000).collect();
    assert_eq!(read(&program, &vector), expected);
    assert_eq!(program.device.hazards(), []);
}

/// The vector grows while copies to its old buffer are not submitted.
#[test]
fn growth_keeps_copies_that_are_still_under_way() {
    for order in ["recorded after the growth", "dropped", "discarded after the growth"] {
        let (program, mut values) = (Program::new(21), Vec::from_iter(0..2000_u32));
        let mut vector = vector_of(&program, 1 << 16);
        vector.extend_from_slice(&values);
        update(&program, &mut vector, false);
        vector.set(7, 1 << 20);
        values[7] = 1 << 20;
        let (frame, mut first) = (program.timeline.begin(), UploadBatch::new());
        vector.update(&program.ring, &mut first, &frame).expect("the ring has room");
        let mut recorded = Vec::new();
        if order == "discarded after the growth" {
            // SAFETY: the commands are never submitted; the frame is discarded.
            unsafe { first.record(&mut recorded) }.expect("the destination is there");
        }
        let (later, mut second) = (program.timeline.begin(), UploadBatch::new());
        vector.extend_from_slice(&values.clone());
        values.extend_from_within(..);
        assert!(vector.update(&program.ring, &mut second, &later).expect("the ring has room").is_moved);
        match order {
            "recorded after the growth" => {
                program.submit(frame, &mut [&mut second, &mut first]);
                program.submit(later, &mut []);
            }
            "dropped" => {
                drop(first);
                program.submit(frame, &mut []);
                program.submit(later, &mut [&mut second]);
            }
            _ => {
                frame.discard();
                program.submit(later, &mut [&mut second]);
            }
        }
        program.idle();
        update(&program, &mut vector, false);
        assert!(read(&program, &vector) == values, "{order}");
    }
}

/// The frame of a growth is lost while a later frame is open and submitted.
#[test]
fn growth_is_lost_with_its_own_frame() {
    let (program, mut values) = (Program::new(22), Vec::from_iter(0..2000_u32));
    let mut vector = vector_of(&program, 1 << 16);
    vector.extend_from_slice(&values);
    update(&program, &mut vector, false);
    vector.extend_from_slice(&values.clone());
    values.extend_from_within(..);
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    let later = program.timeline.begin();
    assert!(vector.update(&program.ring, &mut batch, &frame).expect("the ring has room").is_moved);
    // SAFETY: the commands are never submitted; the frame is discarded.
    unsafe { batch.record(&mut Vec::new()) }.expect("the destinations are there");
    frame.discard();
    program.submit(later, &mut []);
    program.idle();
    update(&program, &mut vector, false);
    assert!(read(&program, &vector) == values);
}

/// A growth that fails changes nothing: the next one is filled from the old buffer, with its losses.
#[test]
fn a_growth_with_a_foreign_batch_leaves_the_losses_of_the_old_buffer() {
    let (program, mut values) = (Program::new(23), Vec::from_iter(0..2000_u32));
    let (other, mut foreign) = (Program::new(24), UploadBatch::new());
    let mut vector = vector_of(&program, 1 << 16);
    vector.extend_from_slice(&values);
    let (frame, mut first) = (program.timeline.begin(), UploadBatch::new());
    vector.update(&program.ring, &mut first, &frame).expect("the ring has room");
    // SAFETY: the commands are never submitted; the frame is discarded.
    unsafe { first.record(&mut Vec::new()) }.expect("the destinations are there");
    vector.extend_from_slice(&values.clone());
    values.extend_from_within(..);
    let theirs = other.timeline.begin();
    let staged = other.ring.write_for(&theirs, &[1; 16], 16).expect("there is room");
    let target = other.memory.create_buffer(
        &ringfence::device::BufferDesc { size: 16, usage: ringfence::device::BufferUsage::COPY_DST },
        ringfence::AllocationDesc::default(),
    );
    foreign.copy(&staged, &target.expect("there is room"), 0).expect("their own");
    let (later, mut second) = (program.timeline.begin(), UploadBatch::new());
    assert!(vector.update(&program.ring, &mut foreign, &later).is_err());
    vector.update(&program.ring, &mut second, &later).expect("its own batch");
    frame.discard();
    program.submit(later, &mut [&mut second]);
    program.idle();
    update(&program, &mut vector, false);
    assert!(read(&program, &vector) == values);
    theirs.discard();
}

#[test]
fn elements_before_a_panic_of_an_iterator_are_uploaded() {
    let program = Program::new(25);
    let mut vector = vector_of(&program, 1 << 16);
    let panicking = (0..10).map(|value| if value == 5 { panic!("the program's iterator") } else { value });
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| vector.extend(panicking)));
    assert!(ended.is_err() && vector.as_slice() == [0, 1, 2, 3, 4]);
    update(&program, &mut vector, false);
    assert_eq!(read(&program, &vector), [0, 1, 2, 3, 4]);
}

#[test]
fn large_changes_arrive_over_several_updates() {
    let program = Program::new(2);
    let mut vector = vector_of(&program, 4096);
    vector.extend(0..3000_u32);
    assert_eq!(update(&program, &mut vector, false), 3000 - 1024);
    assert_eq!(update(&program, &mut vector, false), 3000 - 2048);
    assert_eq!(update(&program, &mut vector, false), 0);
    assert_eq!(read(&program, &vector), (0..3000).collect::<Vec<_>>());
}

#[test]
fn many_scattered_changes_are_copied_in_few_ranges() {
    let program = Program::new(7);
    let mut vector = vector_of(&program, 1 << 20);
    vector.extend(0..20_000_u32);
    update(&program, &mut vector, false);
    for step in 0..200 {
        vector.set((step * 7919) % 20_000, step as u32);
        vector.validate().expect("sound");
    }
    let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
    vector.update(&program.ring, &mut batch, &frame).expect("room");
    assert!(batch.figures().copy_count <= 64, "{:?}", batch.figures());
    program.submit(frame, &mut [&mut batch]);
    assert_eq!(read(&program, &vector), vector.as_slice());
}

#[test]
fn a_view_contains_exactly_the_elements() {
    let program = Program::new(3);
    let mut vector = vector_of(&program, 1 << 20);
    assert!(vector.slice().is_none() && vector.buffer().is_none());
    vector.extend(0..10_u32);
    assert!(vector.slice().is_none(), "not uploaded yet");
    update(&program, &mut vector, false);
    let slice = vector.slice().expect("there are elements");
    assert_eq!((slice.as_slice().offset, slice.as_slice().size), (0, 40));
    vector.clear();
    assert!(vector.slice().is_none());
    assert_eq!(vector.capacity(), 1024, "the buffer is kept");
}

#[test]
fn a_foreign_frame_is_refused_and_nothing_is_lost() {
    let (program, other) = (Program::new(4), Program::new(5));
    let mut vector = vector_of(&program, 1 << 20);
    vector.extend(0..10_u32);
    let frame = other.timeline.begin();
    let refused = vector.update(&program.ring, &mut UploadBatch::new(), &frame);
    assert!(matches!(refused, Err(ContentsError::Upload(UploadError::ForeignFrame { .. }))), "{refused:?}");
    assert!(vector.buffer().is_none());
    frame.discard();
    update(&program, &mut vector, false);
    assert_eq!(read(&program, &vector), (0..10).collect::<Vec<_>>());
}

#[test]
fn an_update_that_the_ring_has_no_room_for_continues_later() {
    let mut program = Program::new(6);
    program.ring = ring(&program.memory, 1 << 16);
    let mut vector = vector_of(&program, 1 << 20);
    vector.extend(0..50_000_u32);
    let frame = program.timeline.begin();
    let refused = vector.update(&program.ring, &mut UploadBatch::new(), &frame);
    assert!(matches!(refused, Err(ContentsError::Upload(_))), "{refused:?}");
    vector.validate().expect("sound");
    frame.discard();
    program.ring = ring(&program.memory, 1 << 20);
    update(&program, &mut vector, false);
    assert_eq!(read(&program, &vector), (0..50_000).collect::<Vec<_>>());
}
