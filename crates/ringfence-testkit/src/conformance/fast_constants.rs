//! Fast constants.

use crate::rig::{PATIENCE, Rig, pattern};
use crate::{Command, Gpu};
use ringfence::device::{BufferUsage, Driver};
use ringfence::placement::{FastConstantsDesc, FastWriter};
use ringfence::upload::UploadError;
use ringfence::{FastConstants, Frame, Location};

/// Runs a frame that copies its constants out, and compares them. Returns the number of pages that they are in.
fn fast_frame<G: Gpu>(
    rig: &mut Rig<G>,
    frame: Frame,
    writer: &mut FastWriter<G::Device>,
    count: u64,
    seed: u64,
) -> usize {
    let target = rig.buffer(count * 256, Location::Device, "target");
    let (mut commands, mut expected, mut pages) = (Vec::new(), Vec::new(), Vec::new());
    let alignment = rig.memory.device().capabilities().constant_alignment;
    for number in 0..count {
        let bytes = pattern(seed + number, 256);
        let staged = writer.write(&bytes).expect("there is a page");
        assert_eq!(staged.offset % alignment, 0);
        commands.push(Command::CopyBuffer {
            src: staged.buffer.clone(),
            src_offset: staged.offset,
            dst: target.object().clone(),
            dst_offset: number * 256,
            size: 256,
        });
        let page = (staged.buffer.clone(), staged.offset / (64 << 10));
        if pages.last() != Some(&page) {
            pages.push(page);
        }
        expected.extend(bytes);
    }
    rig.submit(frame, &commands);
    assert_eq!(rig.download(&target, count * 256), expected);
    pages.len()
}

pub fn seed_004_07_constants_of_one_frame_are_fast_ones<G: Gpu>(rig: &mut Rig<G>) {
    let fast = FastConstants::new(&rig.memory, FastConstantsDesc { usage: COPIED, ..Default::default() });
    let first = rig.timeline().begin();
    let mut writer = fast.writer(&first).expect("the frame is the allocator's own");
    fast_frame(rig, first, &mut writer, 10, 0);
    let over = writer.write(&[1; 4]).err();
    assert!(matches!(over, Some(UploadError::FrameOver { .. })), "the writer belongs to the old frame: {over:?}");
    let next = rig.timeline().begin();
    writer.begin(&next).expect("the frame is the allocator's own");
    fast_frame(rig, next, &mut writer, 10, 100);
    let last = rig.timeline().begin();
    assert_eq!(writer.begin(&last), Ok(()));
    last.discard();
}

const COPIED: BufferUsage = BufferUsage::CONSTANT.union(BufferUsage::COPY_SRC);

pub fn seed_004_14_a_page_that_is_over_retires_and_a_new_one_comes<G: Gpu>(rig: &mut Rig<G>) {
    let fast = FastConstants::new(&rig.memory, FastConstantsDesc { usage: COPIED, ..Default::default() });
    let frame = rig.timeline().begin();
    let mut writer = fast.writer(&frame).expect("the frame is the allocator's own");
    assert_eq!(fast.snapshot().capacity_bytes, 0, "no page before the first write");
    let pages = fast_frame(rig, frame, &mut writer, 600, 0);
    assert_eq!(pages, 3, "a page of 64 KiB contains 256 writes");
    let figures = fast.snapshot();
    assert_eq!((figures.used_bytes, figures.capacity_bytes), (3 * (64 << 10), 1 << 20), "all pages are in one buddy");
    // Later frames reuse the pages of complete frames.
    for number in 0..10 {
        rig.memory.reclaim();
        let frame = rig.timeline().begin();
        writer.begin(&frame).expect("the frame is the allocator's own");
        fast_frame(rig, frame, &mut writer, 600, number);
    }
    let figures = fast.snapshot();
    assert!(figures.high_water_bytes <= 6 * (64 << 10), "{figures:?}");
    assert_eq!(figures.capacity_bytes, 1 << 20);
    let open = rig.timeline().begin();
    writer.begin(&open).expect("the frame is the allocator's own");
    let refused = writer.write(&vec![1; (64 << 10) + 1]).err();
    assert!(matches!(refused, Some(UploadError::TooLarge { capacity: 65536, .. })), "{refused:?}");
    assert_eq!(writer.write(&[]).err(), Some(UploadError::ZeroSize));
    writer.write(&vec![1; 64 << 10]).expect("a whole page");
    drop(writer);
    rig.submit(open, &[]);
}

pub fn seed_004_18_pages_go_back_as_a_whole_and_out_of_order<G: Gpu>(rig: &mut Rig<G>) {
    let desc = FastConstantsDesc { usage: COPIED, pages_max: 2, ..Default::default() };
    let fast = FastConstants::new(&rig.memory, desc);
    let frame = rig.timeline().begin();
    let mut writer = fast.writer(&frame).expect("the frame is the allocator's own");
    let first = writer.write(&[1; 256]).expect("there is a page");
    for _ in 0..511 {
        drop(writer.write(&[1; 256]).expect("there is a page")); // dropping it has no effect
    }
    let refused = writer.write(&[1; 256]).err();
    assert!(matches!(refused, Some(UploadError::Full { .. })), "both pages are in use: {refused:?}");
    let value = rig.submit_behind_gate(1, frame, &[]);
    let next = rig.timeline().begin();
    writer.begin(&next).expect("the frame is the allocator's own");
    assert!(writer.write(&[1; 256]).is_err(), "the previous frame is not complete");
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    let again = writer.write(&[1; 256]).expect("its pages are free now, without a reclaim");
    assert_eq!((again.buffer.clone(), fast.snapshot().capacity_bytes), (first.buffer.clone(), 1 << 20));
    drop(writer);
    rig.submit(next, &[]);
}

pub fn buddies_that_are_not_needed_for_long_go<G: Gpu>(rig: &mut Rig<G>) {
    let desc = FastConstantsDesc { usage: COPIED, shrink_after: 4, buddy_bytes: 128 << 10, ..Default::default() };
    let fast = FastConstants::new(&rig.memory, desc);
    let frame = rig.timeline().begin();
    let mut writer = fast.writer(&frame).expect("the frame is the allocator's own");
    fast_frame(rig, frame, &mut writer, 1200, 0);
    assert_eq!(fast.snapshot().capacity_bytes, 3 * (128 << 10), "five pages need three buddies");
    for number in 0..20 {
        let frame = rig.timeline().begin();
        writer.begin(&frame).expect("the frame is the allocator's own");
        fast_frame(rig, frame, &mut writer, 4, number);
        rig.memory.reclaim();
    }
    assert_eq!(fast.snapshot().capacity_bytes, 128 << 10, "{:?}", fast.snapshot());
    drop(writer);
    (0..10).for_each(|_| _ = rig.memory.reclaim());
    assert_eq!(fast.snapshot().capacity_bytes, 0, "{:?}", fast.snapshot());
}

/// Several threads record the passes of a graph. All of their constants are fast constants.
pub fn seed_004_27_constants_of_a_graph_are_fast_constants<G: Gpu>(rig: &mut Rig<G>) {
    const PASSES: u64 = 6;
    let fast = FastConstants::new(&rig.memory, FastConstantsDesc { usage: COPIED, ..Default::default() });
    let target = rig.buffer(PASSES * 20 * 64, Location::Device, "target");
    for execution in 0..4 {
        let frame = rig.timeline().begin();
        let record = |pass: u64| {
            let mut writer = fast.writer(&frame).expect("the frame is the allocator's own");
            let draw = |draw| writer.write(&pattern(execution * 1000 + pass * 20 + draw, 64)).expect("there is a page");
            (0..20).map(draw).collect::<Vec<_>>()
        };
        let constants: Vec<_> = std::thread::scope(|scope| {
            let record = &record;
            let passes: Vec<_> = (0..PASSES).map(|pass| scope.spawn(move || record(pass))).collect();
            passes.into_iter().flat_map(|pass| pass.join().expect("no thread fails")).collect()
        });
        let copies = (0..).zip(constants).map(|(number, staged)| Command::CopyBuffer {
            src: staged.buffer.clone(),
            src_offset: staged.offset,
            dst: target.object().clone(),
            dst_offset: number * 64,
            size: 64,
        });
        let commands: Vec<_> = copies.collect();
        rig.submit(frame, &commands);
        let expected: Vec<u8> = (0..PASSES * 20).flat_map(|number| pattern(execution * 1000 + number, 64)).collect();
        assert_eq!(rig.download(&target, PASSES * 20 * 64), expected);
        rig.memory.reclaim();
    }
    assert!(fast.snapshot().high_water_bytes <= 2 * PASSES * (64 << 10), "pages are used again");
}
