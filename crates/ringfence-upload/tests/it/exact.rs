//! Exact regions, bytes, statistics and refusals of uploads, readback and constants.

use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage, Format, TexelBox, TextureAspect, TextureDesc, TextureUsage};
use ringfence::sim::{BufferRange, Command, Device, Profile};
use ringfence::upload::{
    BatchError, BatchFigures, ChainOrder, ConstantFigures, ConstantsDesc, CopyTarget, ReadbackDesc, ReadbackError,
    Staged, TexelTarget, Texels, TransferError, TransferQueue, UploadDesc, UploadError, WhenFull,
};
use ringfence::{
    AllocationDesc, Buffer, ConstantBuffers, Frame, Location, ReadbackRing, Texture, UploadBatch, UploadRing,
};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

fn world(profile: Profile) -> Fixture {
    Fixture::new(FixtureDesc { profile, ..Default::default() })
}

fn ring(world: &Fixture, capacity: u64) -> UploadRing<Device> {
    let desc = UploadDesc { capacity, when_full: WhenFull::Fail, name: "staging", ..Default::default() };
    UploadRing::new(&world.memory, desc).expect("there is room")
}

fn buffer(world: &Fixture, size: u64) -> Buffer<Device> {
    let desc = BufferDesc { size, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
    world.memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room")
}

fn texture(world: &Fixture, desc: TextureDesc) -> Texture<Device> {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    world.memory.create_texture(&TextureDesc { usage, ..desc }, AllocationDesc::default()).expect("there is room")
}

/// Submits commands as `frame` and waits for them.
fn end(world: &Fixture, frame: Frame, commands: Vec<Command>) {
    world.device.submit(0, &[], commands, (world.fence(), frame.value())).expect("the device is not lost");
    world.timeline().submitted(frame).expect("in order");
    assert!(world.device.run_until_idle());
    world.memory.reclaim();
}

fn recorded(batch: &mut UploadBatch<Device>) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    // SAFETY: the commands are submitted as the frame of the batch.
    unsafe { batch.record(&mut commands) }.expect("its frame is open");
    commands
}

fn peek(world: &Fixture, buffer: &Buffer<Device>) -> Vec<u8> {
    world.device.peek(BufferRange::new(*buffer.object(), 0, buffer.size())).expect("the buffer is alive")
}

/// The source has 64 bytes of 1, then 64 bytes of 2, and so on. Copies are given by offset in the source, offset in the
/// destination, and size.
#[test]
fn copies_are_merged_and_later_ones_hide_earlier_ones() {
    type Case<'a> = (&'a [(u64, u64, u64)], u64, u64, &'a [(usize, u8)]);
    // Regions, hidden bytes, and the runs of equal bytes in the destination.
    let cases: [Case<'_>; 12] = [
        (&[(0, 0, 64)], 1, 0, &[(64, 1), (192, 0)]),
        // Adjacent in both buffers.
        (&[(0, 0, 64), (64, 64, 64)], 1, 0, &[(64, 1), (64, 2), (128, 0)]),
        (&[(64, 64, 64), (0, 0, 64)], 1, 0, &[(64, 1), (64, 2), (128, 0)]),
        // Adjacent in the source only, or in the destination only.
        (&[(0, 0, 64), (64, 65, 64)], 2, 0, &[(64, 1), (1, 0), (64, 2), (127, 0)]),
        (&[(0, 0, 32), (64, 32, 64)], 2, 0, &[(32, 1), (64, 2), (160, 0)]),
        (&[(0, 0, 64), (128, 64, 64), (64, 192, 64)], 3, 0, &[(64, 1), (64, 3), (64, 0), (64, 2)]),
        (&[(0, 0, 64), (64, 0, 64)], 1, 64, &[(64, 2), (192, 0)]),
        (&[(0, 0, 64), (64, 32, 64)], 2, 32, &[(32, 1), (64, 2), (160, 0)]),
        (&[(0, 32, 64), (64, 0, 64)], 2, 32, &[(64, 2), (32, 1), (160, 0)]),
        (&[(0, 0, 64), (64, 63, 1)], 2, 1, &[(63, 1), (1, 2), (192, 0)]),
        // The middle of the first copy is hidden.
        (&[(0, 0, 64), (64, 16, 8)], 3, 8, &[(16, 1), (8, 2), (40, 1), (192, 0)]),
        (&[(0, 0, 64), (64, 64, 64), (128, 32, 64)], 3, 64, &[(32, 1), (64, 3), (32, 2), (128, 0)]),
    ];
    let world = world(Profile::h200());
    let (source, target) = (buffer(&world, 256), buffer(&world, 256));
    let fill = |buffer: &Buffer<Device>, offset, size, value| Command::FillBuffer {
        dst: *buffer.object(),
        offset,
        size,
        value,
    };
    let fills = (0..4_u8).map(|part| fill(&source, u64::from(part) * 64, 64, part + 1)).collect();
    end(&world, world.timeline().begin(), fills);
    for (copies, region_count, hidden_bytes, runs) in cases {
        end(&world, world.timeline().begin(), vec![fill(&target, 0, 256, 0)]);
        let (frame, mut batch) = (world.timeline().begin(), UploadBatch::new());
        for &(from, to, size) in copies {
            batch.copy(&Staged::of(&source, from, size).expect("inside"), &target, to).expect("inside");
        }
        let expected = BatchFigures {
            copy_count: copies.len() as u64,
            copy_bytes: copies.iter().map(|(.., size)| size).sum(),
            region_count,
            call_count: 1,
            target_count: 1,
            hidden_bytes,
        };
        assert_eq!(batch.figures(), expected, "{copies:?}");
        let commands = recorded(&mut batch);
        end(&world, frame, commands);
        let expected: Vec<u8> = runs.iter().flat_map(|(count, byte)| vec![*byte; *count]).collect();
        assert_eq!(peek(&world, &target), expected, "{copies:?}");
    }
}

#[test]
fn each_pair_of_source_and_destination_is_one_call() {
    let world = world(Profile::h200());
    let buffers = [(); 4].map(|()| buffer(&world, 256));
    let [one, two, three, four] = &buffers;
    let (frame, mut batch) = (world.timeline().begin(), UploadBatch::new());
    let mut copy = |from: &Buffer<Device>, offset, to: &Buffer<Device>, at| {
        batch.copy(&Staged::of(from, offset, 8).expect("inside"), to, at)
    };
    for (from, to, at) in [(one, three, 0), (two, three, 8), (one, four, 0), (one, three, 16), (two, four, 64)] {
        assert_eq!(copy(from, at, to, at), Ok(()));
    }
    // A buffer of the batch is a source or a destination.
    assert_eq!(copy(three, 16, one, 0), Err(BatchError::ReadsTarget { offset: 16, size: 8 }));
    assert_eq!(copy(two, 0, one, 24), Err(BatchError::WritesSource { offset: 24, size: 8 }));
    assert_eq!(copy(two, 0, two, 32), Err(BatchError::WritesSource { offset: 32, size: 8 }));
    assert_eq!(copy(two, 0, four, 249), Err(BatchError::OutOfRange { offset: 249, size: 8, target_size: 256 }));
    assert_eq!(copy(two, 0, four, 248), Ok(()));
    let figures = batch.figures();
    let found = (figures.copy_count, figures.region_count, figures.call_count, figures.target_count);
    assert_eq!(found, (6, 6, 4, 2));
    let mut fresh = UploadBatch::new();
    let itself = fresh.copy(&Staged::of(one, 16, 8).expect("inside"), one, 64);
    assert_eq!(itself, Err(BatchError::ReadsTarget { offset: 16, size: 8 }));
    frame.discard();
}

#[test]
fn sources_are_inside_their_buffer() {
    let world = world(Profile::h200());
    let buffer = buffer(&world, 256);
    for (offset, size, is_inside) in
        [(0, 256, true), (255, 1, true), (0, 257, false), (256, 1, false), (u64::MAX, 1, false)]
    {
        let found = Staged::of(&buffer, offset, size).map(|staged| (staged.offset, staged.size, staged.address));
        let outside = BatchError::OutOfRange { offset, size, target_size: 256 };
        assert_eq!(found, if is_inside { Ok((offset, size, None)) } else { Err(outside) });
    }
    assert_eq!(Staged::of(&buffer, 0, 0).map(drop), Err(BatchError::ZeroSize));
}

/// The texels of every mip level and layer arrive, and are read back without padding.
#[test]
fn a_whole_texture_arrives_in_both_orders_and_is_read_back() {
    for profile in [Profile::h200(), Profile::d3d12_tier1(), Profile::lavapipe()] {
        let world = world(profile);
        let ring = ring(&world, 1 << 20);
        let desc = ReadbackDesc { capacity: 64 << 10, when_full: WhenFull::Fail, ..Default::default() };
        let back = ReadbackRing::new(&world.memory, desc).expect("there is room");
        let desc = TextureDesc { width: 5, height: 3, mips: 2, layers: 2, ..Default::default() };
        // 5 × 3 and 2 × 1 texels of 4 bytes in two layers.
        let bytes: Vec<u8> = (0..136_u8).collect();
        let parts = |ranges: &[std::ops::Range<usize>]| {
            ranges.iter().flat_map(|range| bytes[range.clone()].to_vec()).collect::<Vec<_>>()
        };
        for (order, first, second) in [
            (ChainOrder::MipByMip, parts(&[0..60, 60..120]), parts(&[120..128, 128..136])),
            (ChainOrder::LayerByLayer, parts(&[0..60, 68..128]), parts(&[60..68, 128..136])),
        ] {
            let texture = texture(&world, desc);
            for wrong in [135, 137] {
                let (frame, mut batch) = (world.timeline().begin(), UploadBatch::new());
                let refused = batch.upload_texture(&ring, &frame, (&vec![0; wrong], order), &texture);
                let is_it = |given: u64, needed: u64| (given, needed) == (wrong as u64, 136);
                assert!(
                    matches!(refused, Err(TransferError::Upload(UploadError::TexelSize { given, needed, .. }))
                        if is_it(given, needed)),
                    "{refused:?}"
                );
                frame.discard();
            }
            let (frame, mut batch) = (world.timeline().begin(), UploadBatch::new());
            batch.upload_texture(&ring, &frame, (&bytes, order), &texture).expect("there is room");
            let mut places: Vec<_> =
                batch.targets().1.iter().map(|target| (target.mip, target.layer, target.discard)).collect();
            places.sort_unstable();
            assert_eq!(places, [(0, 0, true), (0, 1, true), (1, 0, true), (1, 1, true)]);
            let mut commands = recorded(&mut batch);
            let texels = |mip| TexelBox::mip(texture.parts().expect("a texture"), mip);
            let [large, small] = [0, 1].map(|mip| back.reserve_box(&frame, &texture, &texels(mip)).expect("room"));
            for result in [&large, &small] {
                // SAFETY: the commands are submitted as the frame of the result.
                unsafe { ringfence::device::record::Record::<Device>::read_texels(&mut commands, result.reads()) };
            }
            assert_eq!(large.to_vec(), Err(ReadbackError::NotReady { point: frame.point() }));
            end(&world, frame, commands);
            assert_eq!((large.to_vec(), small.to_vec()), (Ok(first), Ok(second)), "{order:?}");
            assert_eq!(large.read(&mut [0; 119]), Err(ReadbackError::Size { requested: 119, size: 120 }));
            let mut read = [0; 120];
            assert_eq!((large.read(&mut read), large.to_vec()), (Ok(()), Ok(read.to_vec())));
        }
        assert_eq!(world.device.hazards(), []);
    }
}

/// On Direct3D 12, texels are at multiples of 512 bytes and rows at multiples of 256.
#[test]
fn results_have_the_offsets_and_pitches_of_the_device() {
    let world = world(Profile::d3d12_tier1());
    let desc = ReadbackDesc { capacity: 64 << 10, when_full: WhenFull::Fail, name: "results", ..Default::default() };
    let ring = ReadbackRing::new(&world.memory, desc).expect("there is room");
    let texture = texture(&world, TextureDesc { width: 5, height: 3, layers: 3, ..Default::default() });
    let frame = world.timeline().begin();
    let bytes = ring.reserve(&frame, 100, 4).expect("room");
    assert_eq!((bytes.offset(), bytes.size(), bytes.read_bytes(), bytes.row_bytes()), (0, 100, 100, 100));
    assert!(bytes.reads().is_empty());
    let texels = TexelBox { layer: 1, layers: 2, x: 1, width: 4, ..TexelBox::mip(texture.parts().expect("one"), 0) };
    let result = ring.reserve_box(&frame, &texture, &texels).expect("room");
    // Rows of 16 bytes. The first layer has 256 · 2 + 16 bytes, and the second one begins 1024 bytes behind its start.
    assert_eq!((result.offset(), result.size(), result.read_bytes(), result.row_bytes()), (512, 1552, 96, 256));
    let regions: Vec<_> = result
        .reads()
        .iter()
        .map(|read| (read.region.buffer_offset, read.region.layer, read.region.row_bytes, read.region.x))
        .collect();
    assert_eq!(regions, [(512, 1, 256, 1), (1536, 2, 256, 1)]);
    assert!(result.reads().iter().all(|read| read.dst == *result.buffer() && read.src == *texture.object()));
    // 12 bytes a texel: the first one is at a multiple of 1536.
    let wide = ring.reserve_texels(&frame, 2, 2, 12).expect("room");
    assert_eq!((wide.offset(), wide.size(), wide.read_bytes(), wide.row_bytes()), (3072, 792, 48, 768));
    let snapshot = ring.snapshot();
    assert_eq!((snapshot.name.as_str(), snapshot.capacity_bytes, snapshot.submission_count), ("results", 64 << 10, 1));
    assert_eq!(ring.reserve(&frame, 0, 4).map(drop), Err(UploadError::ZeroSize));
    assert_eq!(ring.reserve(&frame, 4, 12).map(drop), Err(UploadError::BadAlignment { alignment: 12 }));
    let too_large = UploadError::TooLarge { size: 65_537, capacity: 65_536 };
    assert_eq!(ring.reserve(&frame, 65_537, 1).map(drop), Err(too_large));
    frame.discard();
}

#[test]
fn staged_texels_end_at_their_last_row() {
    let world = world(Profile::d3d12_tier1());
    let ring = ring(&world, 64 << 10);
    let texture = texture(&world, TextureDesc { width: 16, height: 16, layers: 4, ..Default::default() });
    let frame = world.timeline().begin();
    // Rows of 16 bytes, 256 bytes apart: 784 bytes in a layer, two layers 1024 bytes apart.
    let staged = ring.write_texels(&frame, &Texels::new(4, 4, 4, &[1; 128]).layers(2)).expect("room");
    assert_eq!((staged.row_bytes, staged.slice_bytes, staged.bytes.size), (256, 1024, 1808));
    let copy = |changed: Texels<Staged<Device>>| {
        let mut batch = UploadBatch::new();
        batch
            .copy_texels(&changed, &texture, TexelTarget::default())
            .map(|()| batch.targets().1.iter().map(|target| (target.layer, target.discard)).collect::<Vec<_>>())
    };
    let of = |change: &dyn Fn(&mut Texels<Staged<Device>>)| {
        let mut changed = staged.clone();
        change(&mut changed);
        copy(changed)
    };
    assert_eq!(of(&|_| {}), Ok(vec![(0, false), (1, false)]));
    assert_eq!(of(&|texels| texels.slice_bytes = 784), Ok(vec![(0, false), (1, false)]), "layers that touch");
    let size = |extent, layers, needed| {
        Err(BatchError::TexelSize { extent, layers, format: Format::Rgba8Unorm.texels(), given: 1808, needed })
    };
    assert_eq!(of(&|texels| texels.layers = 3), size([4, 4, 1], 3, 2832));
    assert_eq!(of(&|texels| texels.height = 5), Err(pitch(256, 1024, 16, 1040)));
    assert_eq!(
        of(&|texels| (texels.layers, texels.height) = (1, 8)),
        size([4, 8, 1], 1, 1808).or(Ok(vec![(0, false)]))
    );
    assert_eq!(of(&|texels| (texels.layers, texels.height) = (1, 9)), size([4, 9, 1], 1, 2064));
    assert_eq!(of(&|texels| texels.slice_bytes = 783), Err(pitch(256, 783, 16, 784)));
    assert_eq!(of(&|texels| (texels.layers, texels.row_bytes) = (1, 16)), Ok(vec![(0, false)]), "rows that touch");
    assert_eq!(of(&|texels| (texels.layers, texels.row_bytes) = (1, 12)), Err(pitch(12, 1024, 16, 52)));
    assert_eq!(of(&|texels| (texels.layers, texels.row_bytes) = (1, 258)), Err(pitch(258, 1024, 16, 790)));
    let mut batch = UploadBatch::new();
    let at = TexelTarget { layer: 2, x: 4, y: 12, discard: true, ..Default::default() };
    batch.copy_texels(&staged, &texture, at).expect("the last rows");
    let found: Vec<_> = batch.targets().1.iter().map(|target| (target.layer, target.discard)).collect();
    assert_eq!(found, [(2, true), (3, true)]);
    frame.discard();
}

const fn pitch(row_bytes: u64, slice_bytes: u64, row_needed: u64, slice_needed: u64) -> BatchError {
    BatchError::TexelPitch { row_bytes, slice_bytes, block_bytes: 4, row_needed, slice_needed }
}

#[test]
fn a_ring_counts_bytes_in_use_with_their_padding() {
    let world = world(Profile::h200());
    let ring = ring(&world, 4096);
    let frame = world.timeline().begin();
    let offsets = [(10, 1), (10, 64), (100, 16)]
        .map(|(size, alignment)| ring.write_for(&frame, &vec![1; size], alignment).expect("room").offset);
    assert_eq!((offsets, ring.high_water(), ring.capacity()), ([0, 64, 80], 180, 4096));
    let snapshot = ring.snapshot();
    assert_eq!((snapshot.used_bytes, snapshot.high_water_bytes, snapshot.written_bytes), (180, 180, 120));
    assert_eq!((snapshot.name.as_str(), snapshot.grow_count, snapshot.wait_count), ("staging", 0, 0));
    assert_eq!(
        ring.write_for(&frame, &[0; 4097], 1).map(drop),
        Err(UploadError::TooLarge { size: 4097, capacity: 4096 })
    );
    let full = ring.write_for(&frame, &[0; 3917], 1).map(drop);
    assert!(matches!(full, Err(UploadError::Full { size: 3917, free: 3916, capacity: 4096, .. })), "{full:?}");
    assert!(ring.write_for(&frame, &[0; 3916], 1).is_ok(), "the last bytes");
    assert_eq!(ring.high_water(), 4096);
    end(&world, frame, vec![]);
    assert_eq!((ring.snapshot().used_bytes, ring.high_water()), (0, 4096));
    let refused = ring.write_for(&world.timeline().begin(), &[], 1).map(drop);
    assert_eq!(refused, Err(UploadError::ZeroSize));
    world.timeline().discard_dropped();
}

/// A page has an eighth of the ring: 512 bytes.
#[test]
fn a_writer_fills_a_page_before_it_takes_the_next_one() {
    let world = world(Profile::h200());
    let ring = ring(&world, 4096);
    let frame = world.timeline().begin();
    let mut writer = ring.writer(&frame).expect("its own frame");
    let mut write = |size, alignment| writer.write(&vec![7; size], alignment).map(|staged| staged.offset);
    let offsets = [(100, 4), (10, 64), (374, 1), (1, 1), (512, 1), (513, 1), (4, 4)]
        .map(|(size, alignment)| write(size, alignment).expect("room"));
    // The page ends at 512. A write of a whole page is a page, and a larger one has its own bytes. Pages are at multiples
    // of 512.
    assert_eq!(offsets, [0, 128, 138, 512, 1024, 1536, 2560]);
    assert_eq!(write(0, 1), Err(UploadError::ZeroSize));
    assert_eq!(write(1, 0), Err(UploadError::BadAlignment { alignment: 0 }));
    assert_eq!(write(1, 6), Err(UploadError::BadAlignment { alignment: 6 }));
    assert_eq!(write(4097, 1), Err(UploadError::TooLarge { size: 4097, capacity: 4096 }));
    let point = writer.point();
    assert_eq!(point, frame.point());
    drop(writer);
    assert_eq!(ring.snapshot().written_bytes, 1514, "counted when the writer is dropped at the latest");
    let mut writer = ring.writer(&frame).expect("its own frame");
    frame.discard();
    assert_eq!(writer.write(&[1], 1).map(drop), Err(UploadError::FrameOver { frame: point }));
}

#[test]
fn locations_of_destinations_are_those_of_their_memory() {
    let world = world(Profile::h200());
    for location in [Location::Device, Location::Upload, Location::Readback] {
        let desc = BufferDesc { size: 256, usage: BufferUsage::COPY_DST };
        let how = AllocationDesc { location, ..Default::default() };
        let buffer = world.memory.create_buffer(&desc, how).expect("room");
        assert_eq!(CopyTarget::location(&buffer), location);
        assert!(CopyTarget::resource(&buffer).is_some_and(|found| std::ptr::eq(found, &buffer)));
        let small = world.memory.create_small_buffer(desc, location).expect("room");
        assert_eq!(CopyTarget::location(&small), location);
    }
}

#[test]
fn a_transfer_queue_keeps_its_uploads_until_they_are_submitted_or_discarded() {
    let world = world(Profile::h200());
    let other = self::world(Profile::h200());
    let ring = ring(&world, 64 << 10);
    let target = buffer(&world, 256);
    let image = texture(&world, TextureDesc { width: 4, height: 4, ..Default::default() });
    let fence = world.device.create_fence(0);
    // SAFETY: the fence belongs to the device, and every submission below signals it.
    let timeline = unsafe { world.memory.timeline(fence) }.expect("the device is not lost");
    let mut queue = TransferQueue::new(timeline, ring);
    let foreign = buffer(&other, 256);
    assert!(matches!(queue.upload(&[1], &foreign, 0), Err(TransferError::ForeignDestination)));
    let foreign = texture(&other, TextureDesc { width: 4, height: 4, ..Default::default() });
    let texels = Texels::new(4, 4, 4, &[3; 64]);
    let refused = queue.upload_texels(&texels, &foreign, TexelTarget::default());
    assert!(matches!(refused, Err(TransferError::ForeignDestination)));
    let mut values = Vec::new();
    let mut submit = |queue: &mut TransferQueue<Device>| {
        let submitted = queue.submit::<()>(|batch, value| {
            values.push((value, batch.figures().copy_count, batch.targets().1.len()));
            let commands = recorded(batch);
            world.device.submit(0, &[], commands, (fence, value)).expect("the device is not lost");
            Ok(())
        });
        submitted.expect("in order").map(|point| point.value)
    };
    assert_eq!(submit(&mut queue), None, "there are no uploads");
    queue.upload(&[1; 64], &target, 0).expect("room");
    queue.upload(&[2; 64], &target, 64).expect("room");
    queue.upload_texels(&texels, &image, TexelTarget::default()).expect("room");
    assert_eq!(submit(&mut queue), Some(1));
    assert_eq!(submit(&mut queue), None, "they were submitted");
    queue.upload(&[9; 64], &target, 0).expect("room");
    queue.discard();
    assert_eq!(submit(&mut queue), None, "they were discarded");
    queue.upload(&[5; 64], &target, 128).expect("room");
    let last = submit(&mut queue);
    assert!(last.is_some_and(|value| value > 1));
    assert_eq!(values.iter().map(|(_, copies, textures)| (*copies, *textures)).collect::<Vec<_>>(), [(3, 1), (1, 0)]);
    assert!(world.device.run_until_idle());
    assert_eq!(peek(&world, &target)[..192], [[1; 64], [2; 64], [5; 64]].concat());
    assert!(target.take_content_lost(), "the discarded copy is reported");
    // The rings of the allocator, which is one.
    let staged = || world.memory.snapshot().rings.iter().map(|ring| ring.used_bytes).sum::<u64>();
    // A queue that is dropped with uploads discards them, so their bytes come back.
    queue.upload(&[7; 64], &target, 0).expect("room");
    world.memory.reclaim();
    assert!(staged() > 0);
    drop(queue);
    world.memory.reclaim();
    assert_eq!(staged(), 0);
}

fn constants(world: &Fixture, desc: ConstantsDesc<'_>) -> ConstantBuffers<Device> {
    ConstantBuffers::new(&world.memory, desc, ()).expect("there is room")
}

#[test]
fn binds_count_copies_shared_and_unchanged_contents() {
    let world = world(Profile::h200());
    for share_equal in [true, false] {
        let constants = constants(&world, ConstantsDesc { share_equal, ..Default::default() });
        let frame = world.timeline().begin();
        let mut writer = constants.writer(&frame).expect("its own frame");
        let [mut one, mut two] = [100, 100].map(|size| constants.dynamic(size).expect("small"));
        let large = constants.dynamic(3000).expect("at most 64 KiB");
        assert_eq!((one.set(0, &[1; 100]), two.set(0, &[1; 100]), two.version()), (Ok(true), Ok(true), 1));
        let places = [writer.bind(&one), writer.bind(&one), writer.bind(&two), writer.bind(&large)]
            .map(|bound| bound.map(|bound| (bound.offset, bound.size)).expect("room"));
        let expected = if share_equal { [0, 0, 0] } else { [0, 0, 256] };
        assert_eq!([places[0], places[1], places[2]], expected.map(|offset| (offset, 256)));
        assert_eq!(places[3].1, 3072, "the next multiple of 256");
        // The same content, one changed byte, and the first content again.
        assert_eq!((one.set(99, &[1]), one.version()), (Ok(false), 1));
        writer.bind(&one).expect("room");
        assert_eq!((one.set(99, &[2]), one.version(), one.content()[98..].to_vec()), (Ok(true), 2, vec![1, 2]));
        writer.bind(&one).expect("room");
        assert_eq!(one.set(99, &[1, 2]), Err(UploadError::TooLarge { size: 101, capacity: 100 }));
        assert_eq!((one.set(99, &[1]), one.version()), (Ok(true), 3));
        writer.bind(&one).expect("room");
        let expected = if share_equal {
            ConstantFigures { copy_count: 3, copy_bytes: 3200, shared_count: 2, ..Default::default() }
        } else {
            ConstantFigures { copy_count: 5, copy_bytes: 3400, ..Default::default() }
        };
        let expected = ConstantFigures { bind_count: 7, unchanged_count: 2, ..expected };
        assert_eq!(writer.figures(), expected, "equal contents are shared: {share_equal}");
        assert_eq!(constants.figures(), ConstantFigures::default(), "the writer has its own figures");
        drop(writer);
        assert_eq!(constants.figures(), expected, "and adds them when it is dropped");
        frame.discard();
    }
}

#[test]
fn constants_are_promoted_from_their_reads_per_copy_on() {
    let world = world(Profile::h200());
    let desc = ConstantsDesc {
        promote_reads: Some(3),
        usage: BufferUsage::CONSTANT | BufferUsage::COPY_SRC,
        ..Default::default()
    };
    let constants = constants(&world, desc);
    let [mut often, mut seldom] = [256, 256].map(|size| constants.dynamic(size).expect("small"));
    often.set(0, &[5; 256]).expect("inside");
    seldom.set(0, &[6; 256]).expect("inside");
    let mut promoted = Vec::new();
    for _ in 0..3 {
        let frame = world.timeline().begin();
        let mut writer = constants.writer(&frame).expect("its own frame");
        let bound = [(); 3].map(|()| writer.bind(&often).expect("room"));
        let other = [(); 2].map(|()| writer.bind(&seldom).expect("room"));
        let figures = writer.figures();
        promoted.push((figures.promoted_count, bound[0].buffer != other[0].buffer));
        let commands = recorded(writer.promoted());
        end(&world, frame, commands);
        let place = BufferRange::new(bound[2].buffer, bound[2].offset, 256);
        assert_eq!(world.device.peek(place), Some(vec![5; 256]));
    }
    assert_eq!(promoted, [(0, false), (1, true), (1, true)], "the first frame has no previous one");
}

#[test]
fn static_contents_are_staged_once_for_each_update() {
    let world = world(Profile::h200());
    let desc =
        ConstantsDesc { static_slots: 4, usage: BufferUsage::CONSTANT | BufferUsage::COPY_SRC, ..Default::default() };
    let constants = constants(&world, desc);
    let mut held: Vec<_> = (1..=5_u8).map(|n| constants.create_static(&[n; 200]).expect("room")).collect();
    assert_eq!(constants.static_pool_count(), 2, "four slots in a pool");
    let upload = |expected: u64, copies: u64| {
        let (frame, mut batch) = (world.timeline().begin(), UploadBatch::new());
        let mut writer = constants.writer(&frame).expect("its own frame");
        assert_eq!(constants.upload_statics(&mut writer, &mut batch), Ok(expected));
        assert_eq!((writer.figures().static_count, batch.figures().copy_count), (expected, copies));
        drop(writer);
        let commands = recorded(&mut batch);
        end(&world, frame, commands);
    };
    // Adjacent slots are one copy: four in the first pool, one in the second.
    upload(5, 2);
    upload(0, 0);
    held[1].update(&[9; 256]).expect("a whole slot");
    held[3].update(&[8]).expect("shorter");
    assert_eq!(held[0].update(&[]), Err(UploadError::ZeroSize));
    assert_eq!(held[0].update(&[1; 257]), Err(UploadError::TooLarge { size: 257, capacity: 256 }));
    upload(2, 2);
    held[2].update(&[7; 3]).expect("shorter");
    held[3].update(&[6; 2]).expect("shorter");
    upload(2, 1);
    for (number, start) in [(0, vec![1; 200]), (1, vec![9; 256]), (2, vec![7; 3]), (3, vec![6; 2]), (4, vec![5; 200])] {
        let bound = held[number].bound();
        let mut expected = start;
        expected.resize(256, 0);
        let place = BufferRange::new(bound.buffer, bound.offset, 256);
        assert_eq!(world.device.peek(place), Some(expected), "content {number}");
        assert_eq!(bound.size, 256);
    }
    assert_eq!(constants.create_static(&[]).map(drop), Err(UploadError::ZeroSize));
    let too_large = UploadError::TooLarge { size: 65_537, capacity: 65_536 };
    assert_eq!(constants.create_static(&[0; 65_537]).map(drop), Err(too_large));
    assert_eq!(constants.dynamic(0).map(drop), Err(UploadError::ZeroSize));
    assert_eq!(constants.dynamic(65_537).map(drop), Err(too_large));
    assert_eq!(constants.dynamic(65_536).map(|held| held.content().len()), Ok(65_536));
}

#[test]
fn constants_of_other_buffers_are_refused() {
    let world = world(Profile::h200());
    let (own, other) = (constants(&world, ConstantsDesc::default()), constants(&world, ConstantsDesc::default()));
    let stranger = self::world(Profile::h200());
    let frame = world.timeline().begin();
    let mut writer = own.writer(&frame).expect("its own frame");
    let foreign = other.dynamic(16).expect("small");
    assert_eq!(writer.bind(&foreign).map(drop), Err(UploadError::ForeignConstants));
    assert_eq!(other.upload_statics(&mut writer, &mut UploadBatch::new()), Err(UploadError::ForeignConstants));
    let [source, target] = [(); 2].map(|()| buffer(&stranger, 256));
    let mut batch = UploadBatch::new();
    batch.copy(&Staged::of(&source, 0, 4).expect("inside"), &target, 0).expect("of one allocator");
    assert_eq!(own.upload_statics(&mut writer, &mut batch), Err(UploadError::ForeignConstants));
    assert_eq!(own.upload_statics(&mut writer, &mut UploadBatch::new()), Ok(0));
    assert_eq!(writer.figures(), ConstantFigures::default(), "a refused bind is not counted");
    drop(writer);
    frame.discard();
}

/// The initial capacities are 8 slots of 256, 512 and 1024 bytes, and 64 KiB for larger constants.
#[test]
fn pools_of_each_class_have_their_number_of_slots() {
    let world = world(Profile::h200());
    let desc = ConstantsDesc { dynamic_slots: 8, name: "scene", ..Default::default() };
    let constants = constants(&world, desc);
    let pools = constants.dynamic_pools();
    assert_eq!(pools.each_ref().map(|pool| pool.capacity_bytes), [2048, 4096, 8192, 65_536]);
    let names = ["256", "512", "1024", "large"].map(|what| format!("scene, dynamic {what}"));
    assert_eq!(pools.map(|pool| pool.name), names);
    let more = self::constants(&world, ConstantsDesc { dynamic_slots: 100, ..desc });
    assert_eq!(more.dynamic_pools().map(|pool| pool.capacity_bytes), [25_600, 51_200, 102_400, 102_400]);
}

#[test]
fn a_wait_ends_at_its_frame_or_its_timeout() {
    let world = world(Profile::h200());
    let desc = ReadbackDesc { capacity: 4096, when_full: WhenFull::Fail, ..Default::default() };
    let ring = ReadbackRing::new(&world.memory, desc).expect("there is room");
    let frame = world.timeline().begin();
    let (result, point) = (ring.reserve(&frame, 8, 4).expect("room"), frame.point());
    assert_eq!((result.point(), result.wait(Duration::ZERO)), (point, Err(ReadbackError::NotReady { point })));
    let fill = Command::FillBuffer { dst: *result.buffer(), offset: result.offset(), size: 8, value: 4 };
    end(&world, frame, vec![fill]);
    assert_eq!((result.wait(Duration::ZERO), result.is_ready(), result.to_vec()), (Ok(()), Ok(true), Ok(vec![4; 8])));
    assert_eq!(TextureAspect::default(), TextureAspect::Color);
}
