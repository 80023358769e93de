//! Under memory pressure, unused memory is evicted. It becomes resident with the same bytes, and memory in use is never
//! evicted. On devices that leave residency to the system, no memory is evicted, and the library reports that.
//!
//! A headroom larger than any heap creates the pressure: everything that is evictable and unused is evicted.

use crate::{Command, Gpu};
use ringfence::device::{BufferDesc, BufferUsage, Capabilities, Driver, MemoryPriority, Priority};
use ringfence::lifetime::BufferCopy;
use ringfence::memory::PoolDesc;
use ringfence::residency::{Committed, Residency, ResidencyError};
use ringfence::{AllocationDesc, AllocatorDesc, Buffer, Dedicated, Location};

use crate::rig::{PATIENCE, Rig, copy, pattern};

const SIZE: u64 = 256 << 10;

fn pressed<G: Gpu>(rig: &Rig<G>) -> Residency<G::Device> {
    // SAFETY: the tests list the evictable resources that their submissions use.
    unsafe { rig.memory.residency() }.with_evictions(u64::MAX).with_headroom(u64::MAX / 2)
}

fn evictable(dedicated: Dedicated) -> AllocationDesc<'static> {
    AllocationDesc { name: "evictable", dedicated, evictable: true, ..Default::default() }
}

/// Creates a buffer with its own memory object in device memory.
fn make<G: Gpu>(rig: &Rig<G>) -> Buffer<G::Device> {
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = BufferDesc { size: SIZE, usage };
    rig.memory.create_buffer(&info, evictable(Dedicated::Always)).expect("there is room")
}

/// Returns `true` if memory of this type can be evicted.
fn can_evict(capabilities: &Capabilities, memory_type: u32) -> bool {
    let properties = capabilities.properties(memory_type);
    let mapped = ringfence::device::MemoryProperties::HOST_VISIBLE;
    capabilities.residency && !properties.contains(mapped)
}

/// Commits a buffer, and copies it to another buffer, in a separate frame.
fn use_one<G: Gpu>(
    rig: &mut Rig<G>,
    residency: &Residency<G::Device>,
    from: &Buffer<G::Device>,
    to: &Buffer<G::Device>,
) -> Committed {
    let frame = rig.timeline().begin();
    let mut list = residency.list();
    list.add(from);
    list.add(to);
    list.add(from);
    let committed = residency.commit(&list, &frame).expect("there is room for two");
    let value = rig.submit(frame, &[copy(from, 0, to, 0, SIZE)]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    committed
}

pub fn unused_memory_is_evicted_under_pressure_and_comes_back_with_its_bytes<G: Gpu>(rig: &mut Rig<G>) {
    let held: Vec<_> = (0..6).map(|_| make(rig)).collect();
    let has = can_evict(rig.memory.device().capabilities(), held[0].memory_type());
    // SAFETY: the tests list the evictable resources that their submissions use.
    let residency = unsafe { rig.memory.residency() };
    let mut upload = rig.buffer(SIZE, Location::Upload, "upload");
    for (number, buffer) in held.iter().enumerate() {
        upload.write(0, &pattern(number as u64, SIZE as usize)).expect("upload memory is mapped");
        use_one(rig, &residency, &upload, buffer);
    }
    let objects = if has { 6 } else { 0 };
    assert_eq!((residency.object_count() >= objects, residency.absent_bytes()), (true, 0), "{residency:?}");
    let pressed = pressed(rig);
    let back = rig.buffer(SIZE, Location::Readback, "back");
    for round in 0..3 {
        for (number, buffer) in held.iter().enumerate() {
            let committed = use_one(rig, &pressed, buffer, &back);
            let mut bytes = vec![0; SIZE as usize];
            back.read(0, &mut bytes).expect("a readback buffer is mapped");
            assert!(bytes == pattern(number as u64, SIZE as usize), "round {round}: bytes of {number}");
            if has && (round, number) > (0, 0) {
                assert_eq!((committed.returned_count, committed.returned_bytes), (1, held[number].size()));
                assert_eq!(committed.evicted_bytes, held[number].size(), "the buffer that was used before is evicted");
            }
            let absent = pressed.absent_bytes();
            assert_eq!(absent >= 5 * SIZE, has, "all buffers except the used one are evicted: {absent}");
        }
    }
    if !has {
        assert_eq!(pressed.totals().evicted_count, 0);
    }
    // Evicted buffers can be dropped, and the others become resident again.
    drop(held);
    rig.memory.reclaim();
    rig.memory.debug().validate().expect("the allocator is sound");
    assert_eq!(pressed.absent_bytes(), 0, "{pressed:?}");
}

pub fn what_a_submission_uses_is_not_evicted_before_it_is_complete<G: Gpu>(rig: &mut Rig<G>) {
    let (first, second) = (make(rig), make(rig));
    let has = can_evict(rig.memory.device().capabilities(), first.memory_type());
    let pressed = pressed(rig);
    let back = rig.buffer(SIZE, Location::Readback, "back");
    let frame = rig.timeline().begin();
    let mut list = pressed.list();
    list.add(&first);
    let expected = usize::from(has);
    assert_eq!((list.len(), list.is_empty()), (expected, !has));
    pressed.commit(&list, &frame).expect("there is room");
    rig.submit_behind_gate(1, frame, &[copy(&first, 0, &back, 0, SIZE)]);
    // The next frame does not use the buffer. The first frame has not run yet.
    let frame = rig.timeline().begin();
    list.clear();
    list.add(&second);
    pressed.commit(&list, &frame).expect("there is room");
    assert_eq!(pressed.absent_bytes(), 0, "both are in use");
    rig.gpu.open_gate(1).expect("the device is not lost");
    let value = rig.submit(frame, &[copy(&second, 0, &back, 0, SIZE)]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    let frame = rig.timeline().begin();
    list.clear();
    let committed = pressed.commit(&list, &frame).expect("no memory has to become resident");
    rig.submit(frame, &[]);
    assert_eq!(committed.evicted_bytes >= 2 * SIZE, has);
    let (_, theirs) = rig.allocator(AllocatorDesc::default());
    assert_eq!(pressed.commit(&list, &theirs[0].begin()), Err(ResidencyError::ForeignFrame));
    let (other, _) = rig.allocator(AllocatorDesc::default());
    // SAFETY: no submission uses any of its resources.
    let other = unsafe { other.residency() }.list();
    let frame = rig.timeline().begin();
    assert_eq!(pressed.commit(&other, &frame), Err(ResidencyError::ForeignList));
    frame.discard();
}

/// A replaced resource cannot be added to a use list, but the copy to its successor can still read it.
pub fn what_is_replaced_is_resident_until_it_is_copied<G: Gpu>(rig: &mut Rig<G>) {
    let mut held = make(rig);
    let expected = pattern(5, SIZE as usize);
    let mut upload = rig.buffer(SIZE, Location::Upload, "upload");
    upload.write(0, &expected).expect("upload memory is mapped");
    let has = can_evict(rig.memory.device().capabilities(), held.memory_type());
    let pressed = pressed(rig);
    use_one(rig, &pressed, &upload, &held);
    let mut list = pressed.list();
    let frame = rig.timeline().begin();
    pressed.commit(&list, &frame).expect("no memory has to become resident");
    rig.submit(frame, &[]);
    assert_eq!(pressed.absent_bytes() >= SIZE, has, "the buffer is unused");

    let frame = rig.timeline().begin();
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = BufferDesc { size: 2 * SIZE, usage };
    let copy = held.resize(&frame, &info, SIZE, evictable(Dedicated::Always)).expect("there is room");
    let BufferCopy { src, src_offset, dst, dst_offset, size } = copy.expect("some memory must be kept");
    list.add(&held);
    pressed.commit(&list, &frame).expect("there is room");
    assert_eq!(pressed.absent_bytes(), 0, "{pressed:?}");
    let value = rig.submit(frame, &[Command::CopyBuffer { src, src_offset, dst, dst_offset, size }]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    let back = rig.buffer(SIZE, Location::Readback, "back");
    use_one(rig, &pressed, &held, &back);
    let mut bytes = vec![0; SIZE as usize];
    back.read(0, &mut bytes).expect("a readback buffer is mapped");
    assert_eq!(bytes, expected);
}

pub fn a_block_stays_as_long_as_something_in_it_must_not_go<G: Gpu>(rig: &mut Rig<G>) {
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = BufferDesc { size: SIZE, usage };
    let measured = rig.memory.create_buffer(&info, AllocationDesc::default()).expect("there is room");
    let has = can_evict(rig.memory.device().capabilities(), measured.memory_type());
    let desc = PoolDesc {
        memory_type: measured.memory_type(),
        block_bytes: 4 * measured.size(),
        priority: Priority::Low,
        ..Default::default()
    };
    let pool = rig.memory.create_pool(desc).expect("there is such a type");
    let bytes = pattern(5, SIZE as usize);
    let mut upload = rig.buffer(SIZE, Location::Upload, "upload");
    upload.write(0, &bytes).expect("upload memory is mapped");
    let mut held: Vec<_> =
        (0..3).map(|_| pool.create_buffer(&info, evictable(Dedicated::Auto)).expect("there is room")).collect();
    let stays = pool.create_buffer(&info, AllocationDesc::default()).expect("there is room");
    let pressed = pressed(rig);
    use_one(rig, &pressed, &upload, &held[0]);
    let nothing = |rig: &mut Rig<G>| {
        let frame = rig.timeline().begin();
        let committed = pressed.commit(&pressed.list(), &frame).expect("no memory has to become resident");
        rig.submit(frame, &[]);
        committed.evicted_bytes
    };
    assert_eq!(nothing(rig), 0, "one of its four buffers is not evictable");
    drop(stays);
    rig.gpu.wait_idle().expect("the device is not lost");
    rig.memory.reclaim();
    assert_eq!(nothing(rig), if has { 4 * measured.size() } else { 0 }, "the whole block is evicted");
    // A buffer that is not evictable makes its whole block resident.
    let stays = pool.create_buffer(&info, AllocationDesc::default()).expect("there is room");
    assert_eq!(stays.offset(), 3 * measured.size(), "it is in the same block");
    assert_eq!(pressed.absent_bytes(), 0);
    rig.run(&[copy(&upload, 0, &stays, 0, SIZE)]);
    assert!(rig.download(&held[0], SIZE) == bytes && rig.download(&stays, SIZE) == bytes);
    held.clear();
}

pub fn priorities_are_reported_where_the_system_listens<G: Gpu>(rig: &mut Rig<G>) {
    let held = make(rig);
    for priority in Priority::ALL {
        assert!(held.set_priority(priority), "it has its own memory");
    }
    let placed = rig.buffer(SIZE, Location::Device, "placed");
    assert_eq!(placed.set_priority(Priority::High), placed.is_dedicated(), "a block has the priority of its pool");
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = BufferDesc { size: SIZE, usage };
    for priority in Priority::ALL {
        let desc = AllocationDesc { dedicated: Dedicated::Always, priority, ..Default::default() };
        drop(rig.memory.create_buffer(&info, desc).expect("there is room"));
    }
    assert!(rig.memory.device().capabilities().memory_priority <= MemoryPriority::AtAnyTime);
}
