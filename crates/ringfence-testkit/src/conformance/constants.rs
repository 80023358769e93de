//! Constant buffers.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Command, Gpu};
use ringfence::device::record::{CopyRegion, Record, TexelRead, TexelRegion, TextureCopy, TextureTarget};
use ringfence::device::{BufferUsage, Device, RawBuffer, RawTexture};
use ringfence::memory::{BlockSnapshot, Error};
use ringfence::upload::{
    BatchFigures, BoundConstants, ConstantFigures, ConstantViews, ConstantsDesc, StaticConstants, UploadError,
};
use ringfence::{Buffer, ConstantBuffers, Location, UploadBatch};

use crate::rig::{PATIENCE, Rig, pattern};

type Constants<G, V = ()> = ConstantBuffers<<G as Gpu>::Device, V>;
type Bound<G, W = ()> = BoundConstants<<G as Gpu>::Device, W>;

/// Describes small pools with a usage for readback.
fn small() -> ConstantsDesc<'static> {
    ConstantsDesc {
        dynamic_slots: 64,
        dynamic_bytes_max: 1 << 20,
        timeout: PATIENCE,
        static_slots: 8,
        usage: BufferUsage::CONSTANT | BufferUsage::COPY_SRC,
        ..Default::default()
    }
}

fn constants<G: Gpu>(rig: &Rig<G>, desc: ConstantsDesc<'_>) -> Constants<G> {
    ConstantBuffers::new(&rig.memory, desc, ()).expect("there is room")
}

/// Returns a command that copies bound constants to offset `at` of a buffer.
fn show<G: Gpu, W>(bound: &Bound<G, W>, to: &Buffer<G::Device>, at: u64, size: u64) -> Command<G::Device> {
    Command::CopyBuffer {
        src: bound.buffer.clone(),
        src_offset: bound.offset,
        dst: to.object().clone(),
        dst_offset: at,
        size,
    }
}

pub fn seed_002_01_slots_of_256_512_and_1024_bytes<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, small());
    let frame = rig.timeline().begin();
    let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
    for (size, slot) in [(1, 256), (256, 256), (257, 512), (512, 512), (513, 1024), (1024, 1024)] {
        let mut dynamic = constants.dynamic(size).expect("a size that is served");
        dynamic.set(0, &[size as u8]).expect("it fits");
        for bound in [
            writer.bind(&dynamic).expect("there is room"),
            constants.create_static(&vec![1; size as usize]).expect("there is room").bound().clone(),
        ] {
            assert_eq!((bound.size, bound.offset % 256, bound.offset % slot), (slot, 0, 0));
        }
    }
    let mut batch = UploadBatch::new();
    assert_eq!(constants.upload_statics(&mut writer, &mut batch), Ok(0), "no dropped constant is uploaded");
    drop(writer);
    rig.submit(frame, &[Command::Upload(Box::new(batch))]);
}

pub fn seed_002_02_larger_constants_have_a_path_of_their_own<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, small());
    let max = Constants::<G>::BYTES_MAX;
    let target = rig.buffer(4 * max, Location::Device, "target");
    let (mut commands, mut expected, mut statics) = (Vec::new(), Vec::new(), Vec::new());
    let frame = rig.timeline().begin();
    let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
    let mut batch = UploadBatch::new();
    for (number, size) in [1028, 5000, max].into_iter().enumerate() {
        let bytes = pattern(number as u64, size as usize);
        let mut dynamic = constants.dynamic(size).expect("a size that is served");
        dynamic.set(0, &bytes).expect("it fits");
        let bound = writer.bind(&dynamic).expect("there is room");
        assert_eq!((bound.size, bound.offset % 256, bound.view), (size.next_multiple_of(256), 0, None));
        commands.push(show::<G, ()>(&bound, &target, expected.len() as u64, size));
        expected.extend(&bytes);
        let held = constants.create_static(&bytes).expect("there is room");
        commands.push(show::<G, ()>(held.bound(), &target, expected.len() as u64, size));
        expected.extend(&bytes);
        statics.push(held);
    }
    assert_eq!(constants.upload_statics(&mut writer, &mut batch), Ok(3));
    commands.insert(0, Command::Upload(Box::new(batch)));
    drop(writer);
    rig.submit(frame, &commands);
    assert_eq!(rig.download(&target, expected.len() as u64), expected);
    for size in [0, max + 1] {
        let error = if size == 0 { UploadError::ZeroSize } else { UploadError::TooLarge { size, capacity: max } };
        assert_eq!(constants.dynamic(size).err(), Some(error));
        assert_eq!(constants.create_static(&vec![0; size as usize]).err(), Some(error));
    }
}

pub fn seed_002_03_six_pools<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, small());
    let capacities = constants.dynamic_pools().map(|pool| pool.capacity_bytes);
    assert_eq!(capacities[..3], [64 * 256, 64 * 512, 64 * 1024]);
    assert_eq!(constants.static_pool_count(), 0, "static pools are made when they are needed");
    let frame = rig.timeline().begin();
    let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
    // Two constants in each of the six pools.
    let held = [200, 257, 513, 256, 512, 1024].map(|size| {
        let dynamic = constants.dynamic(size).expect("a size that is served");
        let bound = writer.bind(&dynamic).expect("there is room");
        (bound, constants.create_static(&vec![1; size as usize]).expect("there is room"))
    });
    assert_eq!(constants.static_pool_count(), 3);
    let objects: Vec<_> = held.iter().flat_map(|(bound, fixed)| [&bound.buffer, &fixed.bound().buffer]).collect();
    for (at, object) in objects.iter().enumerate() {
        let same: Vec<_> = (0..12).filter(|other| objects[*other] == *object).collect();
        assert_eq!(same, [at % 6, at % 6 + 6], "pools depend only on size and kind");
    }
    drop(writer);
    rig.submit(frame, &[]);
}

/// Numbers the pools in the order of their creation. The view of a slot is (pool, slot, bytes of a slot).
#[derive(Default)]
struct NumberedViews {
    pools: AtomicU32,
}

impl<D: Device> ConstantViews<D> for NumberedViews {
    /// Number of the pool, bytes of a slot, number of slots.
    type Heap = (u32, u64, u32);
    type View = (u32, u32, u64);

    fn make(&self, buffer: &Buffer<D>, slot_bytes: u64, slot_count: u32) -> Result<Self::Heap, Error> {
        assert!(u64::from(slot_count) * slot_bytes <= buffer.size());
        let number = self.pools.fetch_add(1, Ordering::Relaxed);
        Ok((number, slot_bytes, slot_count))
    }

    fn view(&self, &(pool, slot_bytes, slot_count): &Self::Heap, slot: u32) -> (u32, u32, u64) {
        assert!(slot < slot_count, "slot {slot} of {slot_count}");
        (pool, slot, slot_bytes)
    }
}

pub fn seed_002_04_every_slot_has_a_view<G: Gpu>(rig: &mut Rig<G>) {
    let constants = ConstantBuffers::new(&rig.memory, small(), NumberedViews::default()).expect("there is room");
    let frame = rig.timeline().begin();
    let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
    let (mut pools, mut held) = (std::collections::BTreeSet::new(), Vec::new());
    for number in 0..300_u32 {
        let size = [200, 400, 800][number as usize % 3];
        let mut dynamic = constants.dynamic(size).expect("a size that is served");
        dynamic.set(0, &number.to_le_bytes()).expect("it fits");
        let bound = writer.bind(&dynamic).expect("the pools grow");
        let fixed = constants.create_static(&number.to_le_bytes().repeat(size as usize / 4)).expect("there is room");
        for bound in [&bound, fixed.bound()] {
            let (pool, slot, slot_bytes) = bound.view.expect("a slot of a class has a view");
            assert_eq!((bound.offset, bound.size), (u64::from(slot) * slot_bytes, slot_bytes));
            pools.insert(pool);
        }
        held.push(fixed);
    }
    // 100 constants of each class need 13 static pools of 8 slots, and dynamic pools of 64 and of 128 slots.
    assert_eq!((constants.static_pool_count(), pools.len()), (3 * 13, 3 * 13 + 3 * 2));
    let mut batch = UploadBatch::new();
    assert_eq!(constants.upload_statics(&mut writer, &mut batch), Ok(300));
    drop(writer);
    rig.submit(frame, &[Command::Upload(Box::new(batch))]);
}

pub fn seed_002_05_dynamic_content_is_copied_when_it_is_bound<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, small());
    let target = rig.buffer(4096, Location::Device, "target");
    let mut dynamic = constants.dynamic(200).expect("a size that is served");
    let frame = rig.timeline().begin();
    let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
    let (mut commands, mut expected) = (Vec::new(), Vec::new());
    for number in 0..5_u64 {
        dynamic.set(8 * number, &pattern(number, 40)).expect("it fits");
        assert_eq!(writer.figures().copy_count, number, "setting the content makes no copy");
        let bound = writer.bind(&dynamic).expect("there is room");
        commands.push(show::<G, ()>(&bound, &target, expected.len() as u64, 200));
        expected.extend(dynamic.content());
    }
    let refused = dynamic.set(161, &[1; 40]);
    assert_eq!(refused, Err(UploadError::TooLarge { size: 201, capacity: 200 }));
    assert!(dynamic.set(u64::MAX, &[1]).is_err());
    drop(writer);
    rig.submit(frame, &commands);
    assert_eq!(
        rig.download(&target, expected.len() as u64),
        expected,
        "each draw reads the content that was bound for it"
    );
}

pub fn seed_002_06_a_full_dynamic_pool_gives_way_to_a_larger_one<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, small());
    let target = rig.buffer(512 * 256, Location::Device, "target");
    let frame = rig.timeline().begin();
    let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
    let (mut commands, mut expected) = (Vec::new(), Vec::new());
    for number in 0..400_u64 {
        let mut dynamic = constants.dynamic(256).expect("a size that is served");
        dynamic.set(0, &pattern(number, 256)).expect("it fits");
        let bound = writer.bind(&dynamic).expect("the pool grows");
        commands.push(show::<G, ()>(&bound, &target, expected.len() as u64, 256));
        expected.extend(dynamic.content());
    }
    assert!(constants.dynamic_pools()[0].grow_count >= 2);
    drop(writer);
    rig.memory.reclaim();
    let live = |rig: &Rig<G>| (rig.memory.statistics().total().range_count, rig.memory.statistics().retired_count);
    let (before, retired) = live(rig);
    assert_eq!(retired, 0, "earlier pools are kept while the frame may bind them");
    let value = rig.submit(frame, &commands);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    rig.memory.reclaim();
    rig.memory.reclaim();
    let (after, retired) = live(rig);
    assert!(retired == 0 && after <= before - 2, "they are freed after it: {before}, then {after}");
    assert_eq!(rig.download(&target, expected.len() as u64), expected);
}

pub fn seed_002_07_unchanged_content_is_copied_once_a_frame<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, ConstantsDesc { share_equal: false, ..small() });
    let mut buffers: Vec<_> = (0..10).map(|_| constants.dynamic(100).expect("a size that is served")).collect();
    let mut copies = 0;
    for number in 0..6_u8 {
        let frame = rig.timeline().begin();
        let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
        let firsts: Vec<_> = buffers.iter().map(|buffer| writer.bind(buffer).expect("there is room").offset).collect();
        copies += 10; // a new frame: each once
        for (buffer, first) in buffers.iter().zip(&firsts) {
            for _ in 0..7 {
                assert_eq!(writer.bind(buffer).expect("no space is needed").offset, *first, "the same location");
            }
        }
        let changed = &mut buffers[3];
        let version = changed.version();
        assert_eq!(changed.set(4, &[number + 1]), Ok(true));
        assert_eq!(changed.set(4, &[number + 1]), Ok(false), "the same bytes again are no change");
        assert_eq!(changed.version(), version + 1);
        assert_ne!(writer.bind(changed).expect("there is room").offset, firsts[3], "earlier draws keep their copy");
        copies += 1;
        writer.bind(changed).expect("no space is needed");
        drop(writer);
        rig.submit(frame, &[]);
        rig.memory.reclaim();
    }
    let wanted = ConstantFigures {
        bind_count: 6 * (10 + 70 + 2),
        copy_count: copies,
        copy_bytes: copies * 100,
        unchanged_count: 6 * (70 + 1),
        shared_count: 0,
        static_count: 0,
        promoted_count: 0,
    };
    assert_eq!(constants.figures(), wanted);
}

pub fn fault_10_an_earlier_copy_counts_only_in_its_frame_and_its_pool<G: Gpu>(rig: &mut Rig<G>) {
    for share_equal in [false, true] {
        let constants = constants(rig, ConstantsDesc { share_equal, ..small() });
        let buffer = constants.dynamic(64).expect("a size that is served");
        let frame = rig.timeline().begin();
        let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
        let first = writer.bind(&buffer).expect("there is room");
        // The pool is replaced within the frame.
        for number in 1..100_u32 {
            let mut other = constants.dynamic(64).expect("a size that is served");
            other.set(0, &number.to_le_bytes()).expect("it fits");
            writer.bind(&other).expect("the pool grows");
        }
        assert!(constants.dynamic_pools()[0].grow_count >= 1);
        let before = writer.figures().copy_count;
        let second = writer.bind(&buffer).expect("there is room");
        assert!(second.buffer != first.buffer, "the copy is in the new pool");
        assert_eq!(writer.figures().copy_count, before + 1);
        writer.bind(&buffer).expect("there is room");
        assert_eq!(writer.figures().copy_count, before + 1);
        rig.submit(frame, &[]);
        // The next frame copies again, although the pool is the same.
        let frame = rig.timeline().begin();
        writer.begin(&frame).expect("the frame is the allocator's own");
        writer.bind(&buffer).expect("there is room");
        assert_eq!(writer.figures().copy_count, 1);
        drop(writer);
        rig.submit(frame, &[]);
    }
}

pub fn equal_content_of_a_frame_shares_one_copy<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, small());
    let frame = rig.timeline().begin();
    let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
    let mut offsets = std::collections::BTreeSet::new();
    for number in 0..40_u8 {
        let mut buffer = constants.dynamic(128).expect("a size that is served");
        buffer.set(0, &[number % 4; 128]).expect("it fits");
        offsets.insert(writer.bind(&buffer).expect("there is room").offset);
    }
    // Copies of contents with different sizes are not shared, even if their bytes are equal.
    let mut longer = constants.dynamic(132).expect("a size that is served");
    longer.set(0, &[1; 132]).expect("it fits");
    offsets.insert(writer.bind(&longer).expect("there is room").offset);
    let figures = writer.figures();
    assert_eq!((offsets.len(), figures.copy_count, figures.shared_count), (5, 5, 36));
    rig.submit(frame, &[]);
    let frame = rig.timeline().begin();
    writer.begin(&frame).expect("the frame is the allocator's own");
    writer.bind(&longer).expect("there is room");
    assert_eq!(writer.figures().shared_count, 0, "copies are not shared with the previous frame");
    drop(writer);
    rig.submit(frame, &[]);
}

/// Uploads the pending static constants in a separate frame.
fn upload<G: Gpu>(rig: &mut Rig<G>, constants: &Constants<G>) -> BatchFigures {
    let frame = rig.timeline().begin();
    let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
    let mut batch = UploadBatch::new();
    constants.upload_statics(&mut writer, &mut batch).expect("there is room");
    let figures = batch.figures();
    drop(writer);
    rig.submit(frame, &[Command::Upload(Box::new(batch))]);
    figures
}

/// Reads back the contents of static constants from the device.
fn contents<G: Gpu>(rig: &mut Rig<G>, held: &[StaticConstants<G::Device, ()>], size: u64) -> Vec<u8> {
    let target = rig.buffer(held.len() as u64 * size, Location::Device, "target");
    let at = (0..).step_by(size as usize);
    let commands: Vec<_> =
        held.iter().zip(at).map(|(held, at)| show::<G, ()>(held.bound(), &target, at, size)).collect();
    rig.run(&commands);
    rig.download(&target, held.len() as u64 * size)
}

pub fn seed_002_08_static_constants_stay_where_they_are<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, small());
    let mut held: Vec<_> =
        (0..20).map(|number| constants.create_static(&pattern(number, 300)).expect("there is room")).collect();
    let places: Vec<_> = held.iter().map(|held| (held.bound().buffer.clone(), held.bound().offset)).collect();
    upload(rig, &constants);
    let expected: Vec<u8> = (0..20).flat_map(|number| pattern(number, 300)).collect();
    assert_eq!(contents(rig, &held, 300), expected);
    // Each is updated twice before the upload: the last content counts, and the location stays.
    for (number, held) in (100..).zip(&mut held) {
        held.update(&pattern(7, 512)).expect("it fits");
        held.update(&pattern(number, 300)).expect("it fits");
    }
    let figures = upload(rig, &constants);
    assert_eq!(figures.copy_bytes, 20 * 512, "each slot is copied once: {figures:?}");
    let expected: Vec<u8> = (100..120).flat_map(|number| pattern(number, 300)).collect();
    assert_eq!(contents(rig, &held, 300), expected);
    assert!(
        held.iter()
            .zip(&places)
            .all(|(held, place)| (&held.bound().buffer, held.bound().offset) == (&place.0, place.1))
    );
    assert_eq!(held[0].update(&[0; 513]), Err(UploadError::TooLarge { size: 513, capacity: 512 }));
    assert_eq!(held[0].update(&[]), Err(UploadError::ZeroSize));
    assert_eq!(upload(rig, &constants), BatchFigures::default(), "nothing is pending");
}

/// Returns the memory types of the blocks that contain buffers with this name. Each pool names its buffers.
fn memory_type_of<G: Gpu>(rig: &Rig<G>, name: &str) -> Vec<u32> {
    let blocks = rig.memory.snapshot().blocks;
    let has = |block: &BlockSnapshot| block.ranges.iter().any(|range| range.name == name);
    blocks.iter().filter(|block| has(block)).map(|block| block.memory_type).collect()
}

pub fn seed_002_08_static_constants_lie_in_device_memory_under_one_handle<G: Gpu>(rig: &mut Rig<G>) {
    let desc = ConstantsDesc { name: "held on the device", ..small() };
    let constants = ConstantBuffers::new(&rig.memory, desc, NumberedViews::default()).expect("there is room");
    let create = |seed: u64| constants.create_static(&pattern(seed, 300)).expect("there is room");
    let mut held: Vec<_> = (0..8).map(create).collect();
    // Only the buffers of static pools have this name.
    let like = crate::rig::buffer(&rig.memory, 4096, desc.usage | BufferUsage::COPY_DST, Location::Device, "like");
    assert_eq!(memory_type_of(rig, desc.name), [like.memory_type()], "the memory that the device reads fastest");
    let place = |held: &StaticConstants<G::Device, NumberedViews>| {
        let bound = held.bound();
        (bound.buffer.clone(), bound.offset, bound.address, bound.view)
    };
    let places: Vec<_> = held.iter().map(place).collect();
    for (slot, place) in places.iter().enumerate() {
        assert!(places[..slot].iter().all(|other| other.3 != place.3), "each slot has its own view");
    }
    let frame_of = |rig: &mut Rig<G>, seed: u64, held: &mut [StaticConstants<G::Device, NumberedViews>]| {
        held.iter_mut().for_each(|held| held.update(&pattern(seed, 300)).expect("it fits"));
        let frame = rig.timeline().begin();
        let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
        let mut batch = UploadBatch::new();
        constants.upload_statics(&mut writer, &mut batch).expect("there is room");
        drop(writer);
        rig.submit(frame, &[Command::Upload(Box::new(batch))])
    };
    for seed in 0..3 {
        frame_of(rig, seed, &mut held);
        rig.memory.reclaim();
        assert!(held.iter().map(place).eq(places.iter().cloned()), "updates and uploads do not move constants");
    }
    // A slot is free again once the device has completed all uses of it. The other constants do not move.
    drop(held.remove(3));
    let frame = rig.timeline().begin();
    let value = rig.submit_behind_gate(1, frame, &[]);
    drop(held.remove(4));
    rig.memory.reclaim();
    let elsewhere = create(20);
    assert!(!places.contains(&place(&elsewhere)) || place(&elsewhere) == places[3], "the frame may read the other");
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    rig.memory.reclaim();
    let pools = constants.static_pool_count();
    let missing = if place(&elsewhere) == places[3] { 1 } else { 2 };
    let again: Vec<_> = (0..missing).map(|seed| create(30 + seed)).chain([elsewhere]).collect();
    for freed in [3, 5] {
        assert!(
            again.iter().any(|again| place(again) == places[freed]),
            "slot {freed} is used again, under its handle"
        );
    }
    assert_eq!(constants.static_pool_count(), pools, "the existing pools had room");
    drop((again, held));
    let frame = rig.timeline().begin();
    let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
    assert_eq!(
        constants.upload_statics(&mut writer, &mut UploadBatch::new()),
        Ok(0),
        "destroyed constants are not uploaded"
    );
    drop(writer);
    rig.submit(frame, &[]);
}

pub fn seed_002_09_a_full_static_pool_gets_a_companion<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, small());
    let first: Vec<_> = (0..8).map(|_| constants.create_static(&[1; 64]).expect("there is room")).collect();
    assert_eq!(constants.static_pool_count(), 1);
    let more = constants.create_static(&[2; 64]).expect("there is room");
    assert_eq!(constants.static_pool_count(), 2);
    assert!(more.bound().buffer != first[0].bound().buffer);
    upload(rig, &constants);
    drop(first);
    for _ in 0..3 {
        rig.run(&[]);
        rig.memory.reclaim();
    }
    assert_eq!(constants.static_pool_count(), 2, "existing pools stay");
    let again: Vec<_> = (0..15).map(|_| constants.create_static(&[3; 64]).expect("there is room")).collect();
    assert_eq!((constants.static_pool_count(), again.len()), (2, 15), "their slots are used again");
}

pub fn seed_002_10_statics_are_staged_through_the_dynamic_pool<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, small());
    let held: Vec<_> = (0..6).map(|number| constants.create_static(&pattern(number, 1000)).expect("room")).collect();
    assert_eq!(constants.dynamic_pools()[2].written_bytes, 0, "updates are collected until the frame uploads them");
    let figures = upload(rig, &constants);
    let pools = constants.dynamic_pools();
    assert_eq!(pools.map(|pool| pool.written_bytes), [0, 0, 6 * 1024, 0]);
    assert_eq!((figures.copy_bytes, figures.region_count), (6 * 1024, 1), "adjacent slots are merged into one copy");
    let expected: Vec<u8> = (0..6).flat_map(|number| pattern(number, 1000)).collect();
    assert_eq!(contents(rig, &held, 1000), expected);
    assert_eq!(constants.figures().static_count, 6);
}

pub fn seed_002_11_two_barriers_a_pool<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, small());
    let mut held: Vec<_> = (0..24_usize)
        .map(|number| constants.create_static(&[1; 1024][..[200, 500, 1000][number % 3]]).expect("there is room"))
        .collect();
    let figures = upload(rig, &constants);
    assert_eq!((figures.target_count, figures.barrier_count()), (3, 6), "24 buffers in 3 pools: {figures:?}");
    // Only the pools that changed get barriers, not the other pools of their class.
    held.extend((0..20).map(|_| constants.create_static(&[2; 200]).expect("there is room")));
    let figures = upload(rig, &constants);
    assert_eq!((figures.target_count, figures.barrier_count()), (3, 6), "20 buffers in 3 pools: {figures:?}");
    held[30].update(&[3; 200]).expect("it fits");
    let figures = upload(rig, &constants);
    assert_eq!((figures.target_count, figures.barrier_count()), (1, 2), "one buffer: {figures:?}");
}

/// Calls that a command list would receive.
struct Recorded<D: Device> {
    calls: Vec<Call>,
    region_count: usize,
    /// Buffers of the barriers before the copies.
    targets: Vec<RawBuffer<D>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    /// Barriers before the copies, with the number of buffers.
    Begin(usize),
    Copy,
    End(usize),
}

impl<D: Device> Record<D> for Recorded<D> {
    unsafe fn begin_copies(&mut self, buffers: &[RawBuffer<D>], textures: &[TextureTarget<RawTexture<D>>]) {
        assert!(textures.is_empty() && (1..buffers.len()).all(|at| !buffers[..at].contains(&buffers[at])));
        self.calls.push(Call::Begin(buffers.len()));
        self.targets = buffers.to_vec();
    }

    unsafe fn copy_buffer(&mut self, _: &RawBuffer<D>, to: &RawBuffer<D>, regions: &[CopyRegion]) {
        assert!(self.targets.contains(to));
        self.calls.push(Call::Copy);
        self.region_count += regions.len();
    }

    unsafe fn copy_buffer_to_texture(&mut self, _: &RawBuffer<D>, _: &RawTexture<D>, _: &TexelRegion) {
        panic!("constants are no texels");
    }

    unsafe fn read_texels(&mut self, _: &[TexelRead<RawTexture<D>, RawBuffer<D>>]) {
        panic!("constants are no texels");
    }

    unsafe fn copy_textures(&mut self, _: &[TextureCopy<RawTexture<D>>]) {
        panic!("constants are no textures");
    }

    unsafe fn end_copies(&mut self, buffers: &[RawBuffer<D>], textures: &[TextureTarget<RawTexture<D>>]) {
        assert!(textures.is_empty() && buffers == self.targets);
        self.calls.push(Call::End(buffers.len()));
    }
}

/// Barriers are recorded once around all copies. Each class has two pools; every other slot is copied to.
pub fn seed_002_11_barriers_are_recorded_once_around_all_copies<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, small());
    let all: Vec<_> = (0..48_usize)
        .map(|number| constants.create_static(&pattern(number as u64, [200, 500, 1000][number % 3])).expect("room"))
        .collect();
    let (held, gone): (Vec<_>, Vec<_>) = (0..).zip(all).partition(|(number, _)| number / 3 % 2 == 0);
    drop(gone);
    let frame = rig.timeline().begin();
    let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
    let mut batch = UploadBatch::new();
    assert_eq!(constants.upload_statics(&mut writer, &mut batch), Ok(24));
    drop(writer);
    let mut recorded = Recorded { calls: Vec::new(), region_count: 0, targets: Vec::new() };
    // SAFETY: the recorded commands are not submitted.
    unsafe { batch.record(&mut recorded) }.expect("its frame is open");
    assert_eq!(recorded.calls, [&[Call::Begin(6)][..], &[Call::Copy; 6], &[Call::End(6)]].concat());
    assert_eq!(recorded.region_count, 24, "each slot is one copy without a separate barrier");
    assert!(held.iter().all(|(_, held)| recorded.targets.contains(&held.bound().buffer)));
    assert_eq!(batch.figures().barrier_count(), 12);
    rig.submit(frame, &[Command::Upload(Box::new(batch))]);
    for (number, held) in held {
        let size = [200, 500, 1000][number % 3];
        assert_eq!(contents(rig, &[held], size as u64), pattern(number as u64, size));
    }
}

pub fn a_static_slot_is_not_given_out_before_the_device_is_done<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, ConstantsDesc { static_slots: 1, ..small() });
    let held = constants.create_static(&pattern(1, 64)).expect("there is room");
    let target = rig.buffer(64, Location::Device, "target");
    upload(rig, &constants);
    let place = (held.bound().buffer.clone(), held.bound().offset);
    let frame = rig.timeline().begin();
    let command = show::<G, ()>(held.bound(), &target, 0, 64);
    drop(held);
    let value = rig.submit_behind_gate(1, frame, &[command]);
    rig.memory.reclaim();
    let other = constants.create_static(&pattern(2, 64)).expect("there is room");
    assert!((other.bound().buffer.clone(), other.bound().offset) != place, "the frame still reads it");
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    rig.memory.reclaim();
    let again = constants.create_static(&pattern(3, 64)).expect("there is room");
    assert!((again.bound().buffer.clone(), again.bound().offset) == place);
    upload(rig, &constants);
    assert_eq!(rig.download(&target, 64), pattern(1, 64));
    assert_eq!(contents(rig, &[other, again], 64), [pattern(2, 64), pattern(3, 64)].concat());
}

pub fn what_could_not_be_staged_is_staged_the_next_time<G: Gpu>(rig: &mut Rig<G>) {
    let desc = ConstantsDesc { dynamic_slots: 8, dynamic_bytes_max: 8 * 256, static_slots: 64, ..small() };
    let constants = constants(rig, desc);
    let mut held: Vec<_> =
        (0..20).map(|number| constants.create_static(&pattern(number, 256)).expect("there is room")).collect();
    let dropped = held.split_off(16);
    let mut frames = 0;
    loop {
        let frame = rig.timeline().begin();
        let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
        let mut blocker = constants.dynamic(256).expect("a size that is served");
        blocker.set(0, &[frames + 1]).expect("it fits");
        writer.bind(&blocker).expect("there is room for one");
        let mut batch = UploadBatch::new();
        let staged = constants.upload_statics(&mut writer, &mut batch);
        drop(writer);
        rig.submit(frame, &[Command::Upload(Box::new(batch))]);
        frames += 1;
        match staged {
            Ok(_) => break,
            Err(UploadError::Full { waits_for: Some(_), .. } | UploadError::TooLarge { .. }) => {
                held[15].update(&pattern(99, 256)).expect("it fits");
            }
            Err(error) => panic!("{error}"),
        }
        assert!(frames < 40, "the loop ends");
    }
    drop(dropped);
    let expected: Vec<u8> =
        (0..15).chain([if frames > 1 { 99 } else { 15 }]).flat_map(|seed| pattern(seed, 256)).collect();
    assert_eq!(contents(rig, &held, 256), expected);
}

pub fn a_writer_serves_its_own_constants_and_its_own_frame<G: Gpu>(rig: &mut Rig<G>) {
    let [one, other] = [(); 2].map(|()| constants(rig, small()));
    let frame = rig.timeline().begin();
    let mut writer = one.writer(&frame).expect("the frame is the allocator's own");
    let (own, foreign) = (one.dynamic(4).expect("served"), other.dynamic(4).expect("served"));
    assert_eq!(writer.bind(&foreign).err(), Some(UploadError::ForeignConstants));
    assert_eq!(other.upload_statics(&mut writer, &mut UploadBatch::new()).err(), Some(UploadError::ForeignConstants));
    writer.bind(&own).expect("there is room");
    let point = frame.point();
    rig.submit(frame, &[]);
    assert_eq!(
        writer.bind(&own).err(),
        Some(UploadError::FrameOver { frame: point }),
        "earlier copies are refused too"
    );
    let frame = rig.timeline().begin();
    writer.begin(&frame).expect("the frame is the allocator's own");
    writer.bind(&own).expect("there is room");
    rig.submit(frame, &[]);
}

pub fn threads_bind_one_constant_buffer<G: Gpu>(rig: &mut Rig<G>) {
    let constants = constants(rig, ConstantsDesc { share_equal: false, ..small() });
    let target = rig.buffer(8 * 256, Location::Device, "target");
    let mut camera = constants.dynamic(64).expect("a size that is served");
    camera.set(0, &pattern(5, 64)).expect("it fits");
    let frame = rig.timeline().begin();
    let bind = || constants.writer(&frame).expect("the allocator's own").bind(&camera).expect("there is room");
    let bound: Vec<Bound<G>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(bind)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread fails")).collect()
    });
    assert!(bound.iter().all(|held| held.offset == bound[0].offset), "one copy serves all");
    assert_eq!(constants.figures().copy_count, 1);
    let commands: Vec<_> = (0..).zip(&bound).map(|(at, held)| show::<G, ()>(held, &target, at * 64, 64)).collect();
    rig.submit(frame, &commands);
    assert_eq!(rig.download(&target, 8 * 64), pattern(5, 64).repeat(8));
}

pub fn seed_002_12_what_is_read_often_is_read_from_device_memory<G: Gpu>(rig: &mut Rig<G>) {
    for share_equal in [false, true] {
        let desc = ConstantsDesc { promote_reads: Some(4), share_equal, dynamic_slots: 8, ..small() };
        let constants = ConstantBuffers::new(&rig.memory, desc, NumberedViews::default()).expect("there is room");
        let target = rig.buffer(4096, Location::Device, "target");
        let mut often = constants.dynamic(256).expect("a size that is served");
        let mut seldom = constants.dynamic(256).expect("a size that is served");
        let mut promoted = Vec::new();
        // `often` is bound five times in each of three frames, then once.
        for (number, binds) in [5, 5, 5, 1, 1].into_iter().enumerate() {
            often.set(0, &pattern(number as u64, 256)).expect("it fits");
            seldom.set(0, &pattern(100 + number as u64, 256)).expect("it fits");
            let frame = rig.timeline().begin();
            let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
            let plain = writer.bind(&seldom).expect("there is room");
            let bound: Vec<_> = (0..binds).map(|_| writer.bind(&often).expect("there is room")).collect();
            assert!(bound.iter().all(|held| (held.offset, held.view) == (bound[0].offset, bound[0].view)));
            promoted.push(bound[0].buffer != plain.buffer);
            assert_eq!(bound[0].view.map(|view| view.0) != plain.view.map(|view| view.0), promoted[number]);
            assert_eq!(writer.figures().promoted_count, u64::from(promoted[number]));
            let copies = Command::Upload(Box::new(writer.promoted().clone()));
            let shown = [show::<G, _>(&bound[0], &target, 0, 256), show::<G, _>(&plain, &target, 256, 256)];
            let commands: Vec<_> = std::iter::once(copies).chain(shown).collect();
            drop(writer);
            rig.submit(frame, &commands);
            let expected = [pattern(number as u64, 256), pattern(100 + number as u64, 256)].concat();
            assert_eq!(rig.download(&target, 512), expected, "frame {number}");
            rig.memory.reclaim();
        }
        assert_eq!(promoted, [false, true, true, true, false], "promotion depends on the previous frame");
    }
}

/// Constants are promoted if the previous frame read a copy of them at least `promote_reads` times.
pub fn seed_002_12_promotion_begins_at_the_number_that_is_set<G: Gpu>(rig: &mut Rig<G>) {
    for share_equal in [false, true] {
        let desc = ConstantsDesc { promote_reads: Some(4), share_equal, ..small() };
        let constants = constants(rig, desc);
        let mut buffer = constants.dynamic(256).expect("a size that is served");
        let mut seed = 0;
        // For each frame: the number of binds of each copy, and `true` if the frame's copies are promoted.
        let frames: [(&[u64], bool); 8] = [
            (&[3], false),
            (&[4], false),
            (&[3], true),
            (&[4, 3], false),
            (&[5, 3], false),
            (&[1, 1], true),
            (&[4], false),
            (&[1], true),
        ];
        for (number, (binds, promoted)) in frames.into_iter().enumerate() {
            let frame = rig.timeline().begin();
            let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
            for &count in binds {
                seed += 1;
                buffer.set(0, &pattern(seed, 256)).expect("it fits");
                (0..count).for_each(|_| _ = writer.bind(&buffer).expect("there is room"));
            }
            let copies = binds.len() as u64;
            let wanted = if promoted { copies } else { 0 };
            assert_eq!(
                (writer.figures().copy_count, writer.figures().promoted_count),
                (copies, wanted),
                "frame {number}"
            );
            let batch = Command::Upload(Box::new(writer.promoted().clone()));
            drop(writer);
            rig.submit(frame, &[batch]);
            rig.memory.reclaim();
        }
    }
}
