//! Sparse buffers: binding and unbinding of pages, on every device that supports them. `ci/drivers.sh` runs version 25
//! of Mesa's software driver, which supports them. With version 22, the tests only check that the lack is reported.

use std::ops::Range;

use crate::{Command, Gpu};
use ringfence::defrag::DefragDesc;
use ringfence::device::{BufferDesc, BufferUsage, DeviceError, RawBuffer};
use ringfence::memory::Error;
use ringfence::sparse::{PageRun, Sparse, SparseBuffer, SparseError, UnboundReads};
use ringfence::{AllocationDesc, AllocatorDesc, Location};

use crate::rig::{self, PATIENCE, Rig, skipped};

/// Creates a sparse buffer with `pages` pages. Returns `None` if the device does not support sparse buffers.
fn sparse<G: Gpu>(rig: &Rig<G>, pages: u64) -> Option<SparseBuffer<G::Device>> {
    if rig.gpu.bind_queue(0).is_none() {
        skipped("the device or its queue does not support sparse buffers");
        return None;
    }
    let make = |size: u64| {
        let info = BufferDesc { size, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
        let desc = AllocationDesc { name: "sparse", ..Default::default() };
        SparseBuffer::new(&rig.memory, &info, desc).expect("the device has them")
    };
    // A page has 64 KiB on most devices and 4 KiB on some.
    let page_bytes = make(1).page_bytes();
    Some(make(pages * page_bytes))
}

/// Submits the collected binds to the first queue, in a separate frame.
fn bind<G: Gpu>(rig: &Rig<G>, buffer: &mut SparseBuffer<G::Device>) {
    let queue = rig.gpu.bind_queue(0).expect("it can bind");
    let frame = rig.timeline().begin();
    // SAFETY: the frame is open, and all work is submitted to this one queue, in order.
    unsafe { buffer.submit(&queue, &[], (rig.gpu.fence(0), frame.value())) }.expect("the device is not lost");
    rig.timeline().submitted(frame).expect("in order");
}

fn copy<G: Gpu>(from: (&RawBuffer<G::Device>, u64), to: (&RawBuffer<G::Device>, u64), size: u64) -> Command<G::Device> {
    Command::CopyBuffer { src: from.0.clone(), src_offset: from.1, dst: to.0.clone(), dst_offset: to.1, size }
}

fn write<G: Gpu>(rig: &mut Rig<G>, to: &SparseBuffer<G::Device>, offset: u64, bytes: &[u8]) {
    let size = bytes.len() as u64;
    let mut source = rig.buffer(size, Location::Upload, "source");
    source.write(0, bytes).expect("it is mapped");
    rig.run(&[copy::<G>((source.object(), 0), (to.object(), offset), size)]);
}

fn read<G: Gpu>(rig: &mut Rig<G>, from: &SparseBuffer<G::Device>, bytes: Range<u64>) -> Vec<u8> {
    let size = bytes.end - bytes.start;
    let back = rig.buffer(size, Location::Readback, "back");
    rig.run(&[copy::<G>((from.object(), bytes.start), (back.object(), 0), size)]);
    let mut found = vec![0; size as usize];
    back.read(0, &mut found).expect("it is mapped");
    found
}

pub fn bound_pages_hold_their_bytes_and_unbound_ones_none<G: Gpu>(rig: &mut Rig<G>) {
    let Some(mut buffer) = sparse(rig, 4096) else { return };
    assert_eq!(
        (buffer.bound_count(), rig.memory.statistics().total().used_bytes()),
        (0, 0),
        "addresses cost no memory"
    );
    let page = buffer.page_bytes();
    buffer.bind(3..6).expect("there is room");
    bind(rig, &mut buffer);
    assert_eq!(buffer.bound_count(), 3);
    let used = rig.memory.statistics().total().used_bytes();
    assert!((3 * page..4 * page).contains(&used), "{used} bytes for 3 pages of {page}");
    let expected = rig::pattern(1, 3 * page as usize);
    write(rig, &buffer, 3 * page, &expected);
    assert_eq!(read(rig, &buffer, 3 * page..6 * page), expected);

    // The middle page is unbound, and then bound to other memory.
    buffer.unbind(4..5).expect("it is there");
    bind(rig, &mut buffer);
    assert!(buffer.behind(4).is_none() && buffer.behind(5).is_some());
    let found = read(rig, &buffer, 3 * page..6 * page);
    let (first, second, third) = (0..page as usize, page as usize..2 * page as usize, 2 * page as usize..);
    assert_eq!((&found[first.clone()], &found[third.clone()]), (&expected[first], &expected[third]));
    if rig.memory.device().sparse_support().expect("it has them") == UnboundReads::Zero {
        assert!(found[second.clone()].iter().all(|&byte| byte == 0), "an unbound page reads as zeros");
    }
    write(rig, &buffer, 4 * page, &rig::pattern(9, page as usize));
    buffer.bind(4..5).expect("there is room");
    bind(rig, &mut buffer);
    let again = rig::pattern(2, page as usize);
    write(rig, &buffer, 4 * page, &again);
    assert_eq!(&read(rig, &buffer, 3 * page..6 * page)[second], &again[..]);
}

pub fn pages_are_released_by_sync_points<G: Gpu>(rig: &mut Rig<G>) {
    let Some(mut buffer) = sparse(rig, 16) else { return };
    let page = buffer.page_bytes();
    buffer.bind(0..8).expect("there is room");
    bind(rig, &mut buffer);
    let expected = rig::pattern(5, 8 * page as usize);
    write(rig, &buffer, 0, &expected);
    let back = rig.buffer(8 * page, Location::Readback, "back");
    let frame = rig.timeline().begin();
    rig.submit_behind_gate(1, frame, &[copy::<G>((buffer.object(), 0), (back.object(), 0), 8 * page)]);
    rig.memory.reclaim();
    let before = rig.memory.statistics();
    // The unbind is submitted to the same queue as the copy, which waits for the gate.
    buffer.unbind(0..8).expect("they are there");
    bind(rig, &mut buffer);
    rig.memory.reclaim();
    let held = rig.memory.statistics();
    assert_eq!(held.retired_count, before.retired_count + 8, "pages wait for the copy that reads them");
    assert_eq!(held.total().range_count, before.total().range_count);
    // Memory that is allocated while the copy waits is not the retired memory: filling it leaves the copy intact.
    let mut others: Vec<_> = (0..8).map(|_| rig.buffer(page, Location::Device, "other")).collect();
    rig.gpu.open_gate(1).expect("the device is not lost");
    let fills =
        others.iter().map(|other| Command::FillBuffer { dst: other.object().clone(), offset: 0, size: page, value: 7 });
    let fills: Vec<_> = fills.collect();
    rig.run(&fills);
    rig.memory.reclaim();
    others.clear();
    let mut bytes = vec![0; 8 * page as usize];
    back.read(0, &mut bytes).expect("it is mapped");
    assert_eq!(bytes, expected);
    assert_eq!(rig.memory.statistics().retired_count, 8, "the pages are freed, and the others wait");
}

pub fn a_batch_is_data_until_it_is_submitted<G: Gpu>(rig: &mut Rig<G>) {
    let Some(mut buffer) = sparse(rig, 64) else { return };
    let run = |page, count, is_bound| PageRun { first: page, count, is_bound };
    buffer.bind(2..5).expect("there is room");
    buffer.bind(4..8).expect("there is room");
    buffer.bind(20..21).expect("there is room");
    assert_eq!(buffer.batch(), [run(2, 6, true), run(20, 1, true)]);
    assert!(buffer.is_bound(7) && buffer.behind(7).is_none(), "not yet");
    buffer.unbind(5..21).expect("inside");
    assert_eq!(buffer.batch(), [run(2, 3, true)]);
    assert_eq!(rig.memory.statistics().total().range_count, 3, "pages that were never bound are freed at once");
    bind(rig, &mut buffer);
    assert_eq!(buffer.batch(), []);
    buffer.unbind(3..5).expect("inside");
    buffer.bind(4..6).expect("there is room");
    assert_eq!(buffer.batch(), [run(3, 1, false), run(5, 1, true)], "page 4 keeps its memory");
    bind(rig, &mut buffer);
    let page = buffer.page_bytes();
    assert_eq!((buffer.bound_count(), buffer.pages_of(0..1), buffer.pages_of(page..page + 1)), (3, 0..1, 1..2));
    bind(rig, &mut buffer);
}

pub fn random_bindings_agree_with_a_plain_table<G: Gpu>(rig: &mut Rig<G>) {
    const PAGES: u64 = 40;
    let Some(mut buffer) = sparse(rig, PAGES) else { return };
    let page = buffer.page_bytes();
    let mut twin: Vec<Option<u32>> = vec![None; PAGES as usize];
    let mut dice = 0x1234_5678_9abc_def1_u64;
    let mut roll = |below: u64| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice % below
    };
    for round in 1..40_u32 {
        let mut fresh = Vec::new();
        for _ in 0..roll(4) + 1 {
            let (start, count) = (roll(PAGES), roll(9));
            let pages = start..(start + count).min(PAGES);
            if roll(2) == 0 {
                fresh.extend(pages.clone().filter(|page| twin[*page as usize].is_none()));
                buffer.bind(pages.clone()).expect("there is room");
                pages.for_each(|page| _ = twin[page as usize].get_or_insert(0));
            } else {
                buffer.unbind(pages.clone()).expect("inside");
                pages.for_each(|page| twin[page as usize] = None);
            }
        }
        let bound = twin.iter().flatten().count() as u64;
        assert_eq!(buffer.bound_count(), bound, "round {round}");
        bind(rig, &mut buffer);
        // Newly bound pages have their own bytes. Pages that stayed bound keep their bytes.
        let mut fills = Vec::new();
        for (at, slot) in twin.iter_mut().enumerate().filter(|(_, slot)| slot.is_some()) {
            if *slot == Some(0) || fresh.contains(&(at as u64)) {
                *slot = Some(round << 8 | at as u32);
                let (dst, value) = (buffer.object().clone(), round << 8 | at as u32);
                fills.push(Command::FillBuffer { dst, offset: at as u64 * page, size: page, value: value * 0x0101 });
            }
        }
        if !fills.is_empty() {
            rig.run(&fills);
        }
        rig.memory.reclaim();
        rig.memory.debug().validate().expect("the allocator is sound");
        if round % 8 == 0 {
            let found = read(rig, &buffer, 0..PAGES * page);
            for (at, value) in twin.iter().enumerate().filter_map(|(at, slot)| Some((at, (*slot)?))) {
                let word = value * 0x0101;
                let held = &found[at * page as usize..][..page as usize];
                assert!(held.chunks(4).all(|bytes| bytes == word.to_le_bytes()), "round {round}, page {at}");
            }
        }
    }
}

pub fn bad_pages_are_typed_errors_and_change_nothing<G: Gpu>(rig: &mut Rig<G>) {
    let Some(mut buffer) = sparse(rig, 8) else { return };
    let outside = SparseError::OutOfRange { first: 6, end: 9, page_count: 8 };
    assert_eq!(buffer.bind(6..9), Err(outside));
    assert_eq!(buffer.unbind(6..9), Err(outside));
    assert_eq!(buffer.batch(), []);
    // The budget is enough for some pages only.
    let page = buffer.page_bytes();
    drop(buffer);
    let limit = AllocatorDesc { heap_bytes_max: [5 * page; 16], ..Default::default() };
    let (memory, _timelines) = rig.allocator(limit);
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = BufferDesc { size: 64 * page, usage };
    let mut buffer = SparseBuffer::new(&memory, &info, AllocationDesc::default()).expect("address space is plentiful");
    buffer.bind(0..2).expect("there is room for two");
    let held = memory.statistics().total().range_count;
    let batch = buffer.batch();
    assert!(matches!(buffer.bind(1..64), Err(SparseError::Memory(Error::OverBudget { .. }))));
    assert_eq!((buffer.batch(), memory.statistics().total().range_count), (batch, held), "nothing has changed");
    drop(buffer);
    memory.shutdown(PATIENCE).expect("nothing was submitted");
    memory.debug().validate().expect("the allocator is sound");
}

/// Use lists do not accept sparse resources, and defragmentation does not move their pages.
pub fn pages_are_neither_evicted_nor_moved<G: Gpu>(rig: &mut Rig<G>) {
    if sparse(rig, 1).is_none() {
        return;
    }
    // SAFETY: only the sparse buffer is described as evictable, which sparse resources ignore.
    let residency = unsafe { rig.memory.residency() }.with_evictions(u64::MAX).with_headroom(u64::MAX / 2);
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = BufferDesc { size: 8 << 20, usage };
    let desc = AllocationDesc { name: "sparse", evictable: true, movable: true, ..Default::default() };
    let mut buffer = SparseBuffer::new(&rig.memory, &info, desc).expect("the device has them");
    let (page, count) = (buffer.page_bytes(), buffer.page_count());
    buffer.bind(0..count).expect("there is room");
    bind(rig, &mut buffer);
    let expected = rig::pattern(3, page as usize);
    write(rig, &buffer, 0, &expected);
    // Every other page is unbound, which leaves holes that a defragmentation would fill.
    (0..count).step_by(2).skip(1).for_each(|page| buffer.unbind(page..page + 1).expect("it is there"));
    bind(rig, &mut buffer);
    rig.memory.shutdown(PATIENCE).expect("no frame is open");
    let frame = rig.timeline().begin();
    residency.commit(&residency.list(), &frame).expect("no memory has to become resident");
    assert_eq!(residency.absent_bytes(), 0, "{residency:?}");
    let mut run = rig.memory.defragment(DefragDesc::default());
    assert_eq!(run.begin_pass(&frame).expect("the frame is the allocator's own").moves(), []);
    rig.submit(frame, &[]);
    assert_eq!(read(rig, &buffer, 0..page), expected);
}

pub fn a_device_without_sparse_buffers_says_so<G: Gpu>(rig: &mut Rig<G>) {
    if rig.memory.device().sparse_support().is_some() {
        return crate::report::skipped("the device supports sparse buffers, so they are not refused");
    }
    let info = BufferDesc { size: 1 << 20, usage: BufferUsage::COPY_DST };
    let refused = SparseBuffer::new(&rig.memory, &info, AllocationDesc::default());
    assert!(matches!(refused, Err(Error::Device(DeviceError::Unsupported(_)))), "{refused:?}");
}
