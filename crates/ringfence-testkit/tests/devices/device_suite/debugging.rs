//! Debugging options that are set at run time: guards, fills, leaks, history and names.

use ringfence::debugging::OperationKind::{Made, Moved, Released, Retired};
use ringfence::debugging::{DebugDesc, Finding, MemoryAddress, OperationKind, Side};
use ringfence::defrag::{Defrag, DefragDesc, DefragState};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, Driver, Native, Requirements, ResourceClass};
use ringfence::memory::PoolDesc;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Location};
use ringfence_testkit::{Command, Gpu};

use crate::device_suite::rig::{self, PATIENCE, Rig};

fn debugged() -> AllocatorDesc {
    AllocatorDesc { debug: DebugDesc::everything(), ..Default::default() }
}

/// Returns the requirements of a buffer of `size` bytes in host-visible memory.
fn needs<G: Gpu>(memory: &Allocator<G::Device>, size: u64) -> Requirements {
    let device = memory.device();
    let desc = BufferDesc { size, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
    let info = Create::<Buffers>::describe(device, &desc).expect("a plain buffer");
    // SAFETY: the prepared buffer is discarded and neither placed nor dedicated.
    unsafe {
        let (unplaced, needs) = Create::<Buffers>::prepare(device, &info).expect("a plain buffer");
        Create::<Buffers>::discard(device, unplaced);
        needs
    }
}

pub fn a_planted_overrun_is_found_and_named<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, _timelines) = rig.allocator(debugged());
    let needs = needs::<G>(&memory, 1000);
    let desc = AllocationDesc { name: "vertices", location: Location::Upload, user_data: 7, ..Default::default() };
    let line = line!() + 1;
    let allocation = memory.allocate(needs, desc).expect("there is room");
    let checked = memory.debug().check_guards();
    assert!(checked.overruns.is_empty());
    let Some(mapped) = allocation.mapped() else {
        assert_eq!((checked.checked_count, checked.unchecked_count), (1, 0));
        // Overruns by the device have a test of their own.
        return ringfence_testkit::report::skipped("the device cannot map memory without a resource");
    };
    assert_eq!((checked.checked_count, checked.unchecked_count), (1, 0));
    // SAFETY: the byte is inside the memory object, in a guard that no resource uses.
    unsafe { mapped.as_ptr().add(needs.size as usize + 2).write(0x41) };
    // SAFETY: as above.
    unsafe { mapped.as_ptr().sub(1).write(0x42) };
    let mut overruns = memory.debug().check_guards().overruns;
    let (after, before) = (overruns.pop().expect("two"), overruns.pop().expect("two"));
    assert!(overruns.is_empty());
    assert_eq!((after.side, after.distance_bytes, after.damaged_bytes, after.found), (Side::After, 2, 1, 0x41));
    assert_eq!((before.side, before.distance_bytes, before.damaged_bytes, before.found), (Side::Before, 0, 1, 0x42));
    assert_eq!(
        (&*after.owner.name, after.owner.user_data, after.owner.address),
        ("vertices", 7, allocation.memory_address())
    );
    let made_at = after.owner.made_at.expect("this file allocated it");
    assert_eq!((made_at.file(), made_at.line()), (file!(), line));
    assert!(memory.debug().check_guards().overruns.is_empty(), "a found overrun is repaired");
    let findings = memory.debug().take_findings();
    assert_eq!(findings.len(), 2);
    assert!(findings[1].to_string().contains("\"vertices\"") && findings[1].to_string().contains(file!()));

    // A further overrun is found when the range is released.
    // SAFETY: as above.
    unsafe { mapped.as_ptr().add(needs.size as usize).write(0x43) };
    // SAFETY: no work uses it.
    unsafe { allocation.destroy_now() };
    let findings = memory.debug().take_findings();
    let [Finding::Overrun(overrun)] = &findings[..] else { panic!("one overrun, not {findings:?}") };
    assert!(overrun.at_release && overrun.distance_bytes == 0 && overrun.found == 0x43);
}

pub fn guards_that_no_one_wrote_are_silent<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, timelines) = rig.allocator(debugged());
    for round in 0..3 {
        let frame = timelines[0].begin();
        let mut held = Vec::new();
        for step in 0..40_u64 {
            let size = 4 << (step % 17);
            let location = Location::ALL[step as usize % 4];
            let usage = if location == Location::Readback { BufferUsage::COPY_DST } else { BufferUsage::COPY_SRC };
            let mut buffer = rig::buffer(&memory, size, usage, location, "silent");
            if buffer.is_mapped() && location != Location::Readback {
                buffer.write(0, &rig::pattern(step, size as usize)).expect("it is mapped");
            }
            held.push(buffer);
            held.truncate(30);
        }
        assert!(memory.debug().check_guards().overruns.is_empty(), "round {round}");
        memory.debug().validate().expect("the allocator is sound");
        drop(held);
        frame.discard();
        memory.reclaim();
    }
    memory.shutdown(PATIENCE).expect("no work was submitted");
    assert_eq!(memory.debug().take_findings(), []);
    assert_eq!(memory.debug().live(), []);
}

pub fn an_overrun_of_the_device_is_found_when_the_range_is_released<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, _timelines) = rig.allocator(debugged());
    // The device fills a buffer that is larger than its allocation, as in a program that computes a wrong size. The
    // buffer covers the range and its guard.
    let small = needs::<G>(&memory, 4096);
    let desc = AllocationDesc { name: "counts", location: Location::Readback, ..Default::default() };
    let counts = memory.allocate(small, desc).expect("there is room");
    assert_eq!(memory.debug().check_guards().checked_count, 1, "host-visible memory has guards everywhere");
    let usage = BufferUsage::COPY_DST;
    let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size: small.size + 16, usage });
    // SAFETY: the memory exists and has the allocation's type while the placed buffer exists. The buffer extends into
    // the guard, which no resource uses. It is destroyed before the allocation.
    let placed = unsafe {
        let (unplaced, _) = Create::<Buffers>::prepare(memory.device(), &info.expect("plain")).expect("plain");
        memory.device().note_aliasing(counts.memory(), counts.offset(), small.size + 16, true);
        Create::<Buffers>::place(memory.device(), &unplaced, counts.memory(), counts.offset()).expect("it fits")
    };
    let dst = placed.object.clone();
    rig.run(&[Command::FillBuffer { dst, offset: 0, size: small.size + 16, value: 0x5151_5151 }]);
    // SAFETY: the work is complete.
    unsafe { Create::<Buffers>::destroy(memory.device(), placed.object) };
    memory.device().note_aliasing(counts.memory(), counts.offset(), small.size + 16, false);
    drop(counts);
    memory.reclaim();
    let findings = memory.debug().take_findings();
    let [Finding::Overrun(overrun)] = &findings[..] else { panic!("one overrun, not {findings:?}") };
    assert_eq!((&*overrun.owner.name, overrun.side, overrun.found), ("counts", Side::After, 0x51));
    assert_eq!((overrun.distance_bytes, overrun.damaged_bytes, overrun.at_release), (0, 16, true));
}

pub fn a_planted_leak_is_found_and_named<G: Gpu>(rig: &mut Rig<G>) {
    let desc = DebugDesc { leaks: true, ..Default::default() };
    let (memory, _timelines) = rig.allocator(AllocatorDesc { debug: desc, ..Default::default() });
    let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size: 300, usage: BufferUsage::COPY_SRC });
    let info = info.expect("a plain buffer");
    let desc = AllocationDesc { name: "gone", ..Default::default() };
    drop(memory.create_buffer(&Native(&info), desc).expect("there is room"));
    let desc = AllocationDesc { name: "forgotten", user_data: 99, ..Default::default() };
    let line = line!() + 1;
    let forgotten = memory.create_buffer(&Native(&info), desc).expect("there is room");
    let small = memory.create_small_buffer(BufferDesc { size: 64, usage: BufferUsage::VERTEX }, Location::Upload);
    memory.shutdown(PATIENCE).expect("no work was submitted");
    let findings = memory.debug().take_findings();
    let leaks = findings.iter().filter_map(|finding| match finding {
        Finding::Leak(leak) => Some(leak),
        _ => None,
    });
    let leaks: Vec<_> = leaks.collect();
    let named = leaks.iter().find(|leak| &*leak.name == "forgotten").expect("the planted leak");
    let made_at = named.made_at.expect("a line of this file");
    assert_eq!((made_at.file(), made_at.line(), named.user_data), (file!(), line, 99));
    assert_eq!(
        (named.size, named.address, named.is_retired),
        (forgotten.memory_bytes(), forgotten.memory_address(), false)
    );
    assert!(
        leaks.iter().any(|leak| &*leak.name == "small buffer" && leak.made_at.is_some_and(|at| at.file() == file!()))
    );
    assert!(!leaks.iter().any(|leak| &*leak.name == "gone"), "a released range is not a leak: {leaks:?}");
    drop((forgotten, small));
    memory.shutdown(PATIENCE).expect("no work was submitted");
    assert_eq!(memory.debug().take_findings(), [], "a leak is reported once, and this range is no longer leaked");
}

pub fn new_and_released_memory_is_filled<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, _timelines) = rig.allocator(debugged());
    let fresh = rig::buffer(&memory, 5000, BufferUsage::COPY_DST, Location::Readback, "fresh");
    let mut bytes = vec![0; 5000];
    fresh.read(0, &mut bytes).expect("it is mapped");
    assert!(bytes.iter().all(|&byte| byte == 0xcd), "new memory is filled");
    drop(fresh);

    let needs = needs::<G>(&memory, 600);
    let desc =
        AllocationDesc { location: Location::Upload, dedicated: ringfence::Dedicated::Never, ..Default::default() };
    let neighbour = memory.allocate(needs, desc).expect("there is room");
    let mut freed = memory.allocate(needs, desc).expect("there is room");
    let Some(mapped) = freed.mapped() else {
        return ringfence_testkit::report::skipped("the device cannot map memory without a resource");
    };
    freed.write(0, &[1; 600]).expect("it is mapped");
    // SAFETY: no work uses it.
    unsafe { freed.destroy_now() };
    // SAFETY: the block is alive and mapped, because the neighbour is in it, and no resource uses these bytes.
    let after: Vec<u8> = (0..600).map(|at| unsafe { mapped.as_ptr().add(at).read() }).collect();
    assert!(after.iter().all(|&byte| byte == 0xdd), "released memory is filled");
    drop(neighbour);
}

pub fn a_history_tells_who_had_an_address<G: Gpu>(rig: &mut Rig<G>) {
    let debug = DebugDesc { history_count: 8, ..Default::default() };
    let (memory, _timelines) = rig.allocator(AllocatorDesc { debug, ..Default::default() });
    let first = rig::buffer(&memory, 1 << 20, BufferUsage::COPY_DST, Location::Device, "first");
    let address = first.memory_address();
    drop(first);
    memory.reclaim();
    let second = rig::buffer(&memory, 1 << 20, BufferUsage::COPY_DST, Location::Device, "second");
    assert_eq!(second.memory_address(), address, "the same bytes");
    let MemoryAddress::Block { block, offset } = address else { panic!("the resource is in a block") };
    let recorded = memory.debug().history_of(MemoryAddress::Block { block, offset: offset + 1000 });
    let recorded: Vec<_> = recorded.iter().map(|operation| (&*operation.subject.name, operation.kind)).collect();
    assert_eq!(
        recorded,
        [
            ("first", OperationKind::Made),
            ("first", OperationKind::Retired),
            ("first", OperationKind::Released),
            ("second", OperationKind::Made)
        ]
    );
    assert_eq!(memory.debug().history_of(MemoryAddress::Block { block, offset: offset + (1 << 30) }), []);
    if let Some(address) = second.device_address() {
        let recorded = memory.debug().history_of(MemoryAddress::Device(address + 5));
        assert_eq!(recorded.last().map(|operation| &*operation.subject.name), Some("second"));
    }
    for _ in 0..10 {
        drop(rig::buffer(&memory, 256, BufferUsage::COPY_DST, Location::Device, "more"));
    }
    assert_eq!(memory.debug().history().len(), 8, "no more than was asked for");
    assert!(memory.debug().history().windows(2).all(|pair| pair[0].number < pair[1].number));
}

pub fn names_change_after_creation<G: Gpu>(rig: &mut Rig<G>) {
    let mut buffer = rig.buffer(4096, Location::Device, "before");
    let mut texture = rig.texture(64, 64, "");
    buffer.set_name("after");
    texture.set_name("painted");
    let class = ResourceClass::Buffer;
    let needs = Requirements { class, ..needs::<G>(&rig.memory, 300) };
    // These are enough allocations that some are slots of a pool.
    let mut held: Vec<_> =
        (0..40).map(|_| rig.memory.allocate(needs, AllocationDesc::default()).expect("there is room")).collect();
    held.iter_mut().for_each(|allocation| allocation.set_name("one of forty"));
    let names = |rig: &Rig<G>| -> Vec<String> {
        rig.memory.snapshot().blocks.into_iter().flat_map(|block| block.ranges).map(|range| range.name).collect()
    };
    let all = names(rig);
    let count = |name: &str| all.iter().filter(|held| *held == name).count();
    assert_eq!((count("before"), count("after"), count("painted"), count("one of forty")), (0, 1, 1, 40));
    held.iter_mut().for_each(|allocation| allocation.set_name(""));
    assert!(!names(rig).iter().any(|name| name == "one of forty"));
    rig.memory.debug().validate().expect("the allocator is sound");
}

pub fn debugging_changes_no_result<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, timelines) = rig.allocator(debugged());
    let expected = rig::pattern(3, 70_000);
    let both = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let mut source = rig::buffer(&memory, 70_000, both, Location::Upload, "source");
    let middle = rig::buffer(&memory, 70_000, both, Location::Device, "middle");
    let back = rig::buffer(&memory, 70_000, BufferUsage::COPY_DST, Location::Readback, "back");
    source.write(0, &expected).expect("it is mapped");
    // The two timelines use one fence. A frame of each keeps their values equal.
    let frame = rig.timeline().begin();
    let own = timelines[0].begin();
    assert_eq!(frame.value(), own.value());
    let commands = [rig::copy(&source, 0, &middle, 0, 70_000), rig::copy(&middle, 0, &back, 0, 70_000)];
    let value = rig.submit(frame, &commands);
    timelines[0].submitted(own).expect("in order");
    drop((source, middle));
    assert!(timelines[0].wait(value, PATIENCE).expect("the device is not lost"));
    let mut bytes = vec![0; 70_000];
    back.read(0, &mut bytes).expect("it is mapped");
    assert_eq!(bytes, expected);
    drop(back);
    memory.shutdown(PATIENCE).expect("all is complete");
    assert_eq!(memory.debug().take_findings(), []);
}

/// After a move, an overrun by the device is found at the new location. It is reported with the name and source line of
/// the allocation.
pub fn a_planted_overrun_after_a_move_is_found_and_named<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, timelines) = rig.allocator(debugged());
    let needs = needs::<G>(&memory, 64 << 10);
    let location = Location::Readback;
    let measured = memory.allocate(needs, AllocationDesc { location, ..Default::default() }).expect("there is room");
    let block_bytes = 8 * (needs.size + needs.alignment.max(64) + 64);
    let pool = PoolDesc { memory_type: measured.memory_type(), block_bytes, ..Default::default() };
    drop(measured);
    let pool = memory.create_pool(pool).expect("there is such a type");
    let line = line!() + 3;
    let make = |number| {
        let desc = AllocationDesc { name: "counts", location, user_data: number, movable: true, ..Default::default() };
        pool.allocate(needs, desc).expect("there is room")
    };
    let mut held: Vec<_> = (0..21).map(|number| Some(make(number))).collect();
    held.iter_mut().enumerate().filter(|(number, _)| number % 3 != 0).for_each(|(_, one)| *one = None);
    memory.reclaim();
    let before: Vec<_> = held.iter().map(|one| one.as_ref().map(|one| one.memory_address())).collect();
    let mut run = Defrag::of_pool(&pool, DefragDesc { host_memory: true, compacts: false, ..Default::default() });
    while run.state() != DefragState::Done {
        let (frame, own) = (rig.timeline().begin(), timelines[0].begin());
        let mut pass = run.begin_pass(&own).expect("the frame is ours");
        for index in 0..pass.moves().len() {
            let number = pass.moves()[index].user_data as usize;
            let one = held[number].as_mut().expect("dropped buffers are not moved");
            drop(pass.move_allocation(one).expect("it is in the pass"));
        }
        drop(pass);
        let value = rig.submit(frame, &[]);
        timelines[0].submitted(own).expect("in order");
        assert!(timelines[0].wait(value, PATIENCE).expect("the device is not lost"));
        memory.reclaim();
        memory.debug().validate().expect("the allocator is sound");
    }
    assert!(run.statistics().moved_count >= 2, "{run:?}");
    let checked = memory.debug().check_guards();
    assert_eq!(
        (checked.overruns, checked.checked_count),
        (vec![], 7),
        "guarded at their new places, and not at the old"
    );
    assert_eq!(memory.debug().live().len(), 7);
    let moved =
        (0..held.len()).find(|&at| held[at].as_ref().is_some_and(|one| Some(one.memory_address()) != before[at]));
    let moved = moved.expect("some were moved");
    let (one, was) = (held[moved].take().expect("it was moved"), before[moved].expect("it was held"));
    let recorded = memory.debug().history_of(one.memory_address());
    assert_eq!(
        recorded.last().map(|operation| operation.kind),
        Some(OperationKind::Moved { from: was }),
        "{recorded:?}"
    );
    let recorded: Vec<_> =
        memory.debug().history_of(was).into_iter().filter(|held| held.subject.user_data == moved as u64).collect();
    let kinds: Vec<_> = recorded.iter().map(|operation| operation.kind).collect();
    let [Made, Moved { from: _ }, Retired, Released] = kinds[..] else { panic!("not the life of a range: {kinds:?}") };
    assert!(recorded[1].to_string().contains("moved by") && recorded[1].to_string().contains(&was.to_string()));

    // The device fills more bytes than the range has.
    let usage = BufferUsage::COPY_DST;
    let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size: needs.size + 16, usage });
    // SAFETY: the memory exists and has the allocation's type while the placed buffer exists. The buffer extends into
    // the guard, which no resource uses. It is destroyed before the allocation.
    let placed = unsafe {
        let (unplaced, _) = Create::<Buffers>::prepare(memory.device(), &info.expect("plain")).expect("plain");
        memory.device().note_aliasing(one.memory(), one.offset(), needs.size + 16, true);
        Create::<Buffers>::place(memory.device(), &unplaced, one.memory(), one.offset()).expect("it fits")
    };
    let (dst, size) = (placed.object.clone(), needs.size + 16);
    rig.run(&[Command::FillBuffer { dst, offset: 0, size, value: 0x6161_6161 }]);
    // SAFETY: the work is complete.
    unsafe { Create::<Buffers>::destroy(memory.device(), placed.object) };
    memory.device().note_aliasing(one.memory(), one.offset(), needs.size + 16, false);
    let address = one.memory_address();
    // SAFETY: no work uses it.
    unsafe { one.destroy_now() };
    let findings = memory.debug().take_findings();
    let [Finding::Overrun(overrun)] = &findings[..] else { panic!("one overrun, not {findings:?}") };
    assert_eq!(
        (overrun.side, overrun.distance_bytes, overrun.damaged_bytes, overrun.found),
        (Side::After, 0, 16, 0x61)
    );
    let owner = &overrun.owner;
    assert_eq!(
        (&*owner.name, owner.user_data, owner.address, owner.size),
        ("counts", moved as u64, address, needs.size)
    );
    assert_eq!(owner.made_at.map(|at| (at.file(), at.line())), Some((file!(), line)));
}

/// Buffers keep their bytes when they are moved between guards, and debugging reports no finding.
pub fn moves_between_guards_keep_their_bytes<G: Gpu>(rig: &mut Rig<G>) {
    const SIZE: u64 = 64 << 10;
    let (memory, timelines) = rig.allocator(debugged());
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size: SIZE, usage }).expect("a plain buffer");
    let measured = memory.create_buffer(&Native(&info), AllocationDesc::default()).expect("there is room");
    let desc = PoolDesc { memory_type: measured.memory_type(), block_bytes: 24 * SIZE, ..Default::default() };
    drop(measured);
    let pool = memory.create_pool(desc).expect("there is such a type");
    let mut upload = rig.buffer(SIZE, Location::Upload, "upload");
    let mut held = Vec::new();
    for number in 0..24_u64 {
        let desc = AllocationDesc { name: "moves", user_data: number, movable: true, ..Default::default() };
        let buffer = pool.create_buffer(&Native(&info), desc).expect("there is room");
        upload.write(0, &rig::pattern(number, SIZE as usize)).expect("upload memory is mapped");
        let own = timelines[0].begin();
        rig.run(&[rig::copy(&upload, 0, &buffer, 0, SIZE)]);
        timelines[0].submitted(own).expect("in order");
        held.push(Some(buffer));
    }
    held.iter_mut().enumerate().filter(|(number, _)| number % 3 != 2).for_each(|(_, buffer)| *buffer = None);
    memory.reclaim();
    let mut run = Defrag::of_pool(&pool, DefragDesc::default());
    while run.state() != DefragState::Done {
        let (frame, own) = (rig.timeline().begin(), timelines[0].begin());
        let mut pass = run.begin_pass(&own).expect("the frame is ours");
        let mut commands = Vec::new();
        for index in 0..pass.moves().len() {
            let number = pass.moves()[index].user_data as usize;
            let moved =
                pass.copy_buffer_as(held[number].as_mut().expect("it is held"), &Native(&info)).expect("there is room");
            let (src, dst) = (moved.src, moved.dst);
            commands.push(Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: SIZE });
        }
        drop(pass);
        let value = rig.submit(frame, &commands);
        timelines[0].submitted(own).expect("in order");
        assert!(timelines[0].wait(value, PATIENCE).expect("the device is not lost"));
        memory.reclaim();
        memory.debug().validate().expect("the allocator is sound");
    }
    assert_eq!(pool.statistics().block_count, 1, "{run:?}");
    assert_eq!(memory.debug().check_guards().overruns, []);
    for (number, buffer) in held.iter().enumerate() {
        if let Some(buffer) = buffer {
            let own = timelines[0].begin();
            assert!(rig.download(buffer, SIZE) == rig::pattern(number as u64, SIZE as usize), "bytes of {number}");
            timelines[0].submitted(own).expect("in order");
        }
    }
    drop(held);
    memory.reclaim();
    assert_eq!(memory.debug().take_findings(), []);
}
