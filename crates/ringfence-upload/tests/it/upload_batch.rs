//! Copies that a batch rejects: the error has the numbers, and the batch does not change.

use ringfence::debugging::{DebugDesc, Finding};
use ringfence::device::{
    BufferDesc, BufferUsage, Dimension, Format, Requirements, ResourceClass, TextureDesc, TextureUsage,
};
use ringfence::sim::{Command, Device};
use ringfence::upload::{
    BatchError, ConstantsDesc, ReadbackDesc, Staged, SubmitError, TexelTarget, Texels, TransferQueue, UploadDesc,
};
use ringfence::{
    AllocationDesc, Allocator, AllocatorDesc, Buffer, ConstantBuffers, Frame, ReadbackRing, Texture, UploadBatch,
    UploadRing,
};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

fn buffer(memory: &Allocator<Device>) -> Buffer<Device> {
    let desc = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
    memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room")
}

fn texture(memory: &Allocator<Device>, desc: TextureDesc) -> Texture<Device> {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    memory.create_texture(&TextureDesc { usage, ..desc }, AllocationDesc::default()).expect("there is room")
}

fn bytes(of: &Buffer<Device>, offset: u64, size: u64) -> Staged<Device> {
    Staged::of(of, offset, size).expect("inside")
}

/// Checks that the batch keeps no trace of the rejected copy: it accepts copies of any allocator.
fn assert_empty(batch: &mut UploadBatch<Device>) {
    assert!(batch.is_empty() && batch.targets().0.is_empty() && batch.targets().1.is_empty(), "{batch:?}");
    assert_eq!(batch.figures(), Default::default());
    let other = Fixture::new(FixtureDesc::default()).memory;
    batch.copy(&bytes(&buffer(&other), 0, 4), &buffer(&other), 0).expect("an empty batch belongs to no allocator");
    batch.clear();
}

#[test]
fn texels_beyond_what_is_staged_are_refused_before_any_layer_is_added() {
    let fixture = Fixture::new(FixtureDesc::default());
    let ring = UploadRing::new(&fixture.memory, UploadDesc { capacity: 64 << 10, ..Default::default() }).expect("room");
    let frame = fixture.timelines[0].begin();
    let at = TexelTarget::default();
    let layered = texture(&fixture.memory, TextureDesc { width: 8, height: 8, layers: 6, ..Default::default() });
    let staged = ring.write_texels(&frame, &Texels::new(4, 4, 4, &[1; 128]).layers(2)).expect("there is room");
    let short = ring.write(&[1; 127], 4).expect("there is room");
    let more = [
        Texels { layers: 3, ..staged.clone() },
        Texels { bytes: short, ..staged.clone() },
        Texels { slice_bytes: u64::MAX, ..staged.clone() },
        Texels { slice_bytes: u64::MAX - 100, ..staged.clone() },
    ];
    let mut batch = UploadBatch::new();
    for changed in more {
        let refused = batch.copy_texels(&changed, &layered, at);
        assert!(matches!(refused, Err(BatchError::TexelSize { .. })), "{changed:?}: {refused:?}");
        assert_empty(&mut batch);
    }
    let closer: [fn(&mut Texels<Staged<Device>>); 5] = [
        |texels| (texels.height, texels.slice_bytes) = (8, texels.row_bytes * 4),
        |texels| texels.slice_bytes = 0,
        |texels| texels.row_bytes = 0,
        |texels| texels.row_bytes += 1,
        |texels| texels.row_bytes = u64::MAX / 4 * 4,
    ];
    // The pitch of rows is limited, also of a single row.
    let row = ring.write_texels(&frame, &Texels::new(4, 1, 4, &[1; 16])).expect("there is room");
    let huge = Texels { row_bytes: 1 << 31, ..row.clone() };
    let refused = batch.copy_texels(&huge, &layered, at);
    assert!(matches!(refused, Err(BatchError::TexelPitch { row_bytes: 0x8000_0000, .. })), "{refused:?}");
    batch.copy_texels(&Texels { row_bytes: (1 << 31) - 4, ..row }, &layered, at).expect("the largest pitch");
    batch.clear();
    for change in closer {
        let mut changed = staged.clone();
        change(&mut changed);
        let refused = batch.copy_texels(&changed, &layered, at);
        assert!(matches!(refused, Err(BatchError::TexelPitch { .. })), "{changed:?}: {refused:?}");
        assert_empty(&mut batch);
    }
    batch.copy_texels(&staged, &layered, at).expect("the staged bytes");
    let before = batch.figures();
    assert_eq!((before.copy_count, before.region_count), (1, 2), "a region for each layer");
    let refused = batch.copy_texels(&Texels { layers: 3, ..staged.clone() }, &layered, at);
    assert!(matches!(refused, Err(BatchError::TexelSize { layers: 3, .. })), "{refused:?}");
    assert_eq!((batch.figures(), batch.targets().1.len()), (before, 2));
    frame.discard();
}

/// A batch that is not cleared is recorded in a second frame, with another copy to the same buffer.
#[test]
fn a_batch_that_is_recorded_again_reports_the_loss_of_its_second_frame() {
    let fixture = watched();
    let (source, to) = (buffer(&fixture.memory), buffer(&fixture.memory));
    let mut batch = UploadBatch::new();
    let frame = fixture.timeline().begin();
    batch.copy(&bytes(&source, 0, 64), &to, 0).expect("inside");
    let commands = recorded(&mut batch).expect("open");
    submit(&fixture, frame, commands);
    assert!(fixture.device.run_until_idle());
    fixture.memory.reclaim();
    let frame = fixture.timeline().begin();
    batch.copy(&bytes(&source, 0, 64), &to, 64).expect("inside");
    recorded(&mut batch).expect("open");
    assert_eq!(to.gathered_count(), 0, "its copies are recorded");
    frame.discard();
    assert!(to.take_content_lost());
}

/// A ring for constants is a source of copies too, and a readback ring is always a destination.
#[test]
fn rings_of_any_usage_can_be_copied() {
    let fixture = Fixture::new(FixtureDesc::default());
    let desc = UploadDesc { capacity: 4096, usage: BufferUsage::CONSTANT, ..Default::default() };
    let ring = UploadRing::new(&fixture.memory, desc).expect("room");
    let desc = ReadbackDesc { capacity: 4096, usage: BufferUsage::COPY_SRC, ..Default::default() };
    let back = ReadbackRing::new(&fixture.memory, desc).expect("room");
    let to = buffer(&fixture.memory);
    let frame = fixture.timeline().begin();
    let mut batch = UploadBatch::new();
    batch.copy(&ring.write(&[7; 64], 4).expect("room"), &to, 0).expect("inside");
    let mut commands = recorded(&mut batch).expect("open");
    let result = back.reserve(&frame, 64, 4).expect("room");
    let (src, dst, dst_offset) = (*to.object(), *result.buffer(), result.offset());
    commands.push(Command::CopyBuffer { src, src_offset: 0, dst, dst_offset, size: 64 });
    submit(&fixture, frame, commands);
    assert!(fixture.device.run_until_idle());
    assert_eq!(fixture.device.take_hazards(), []);
    assert_eq!(result.to_vec().expect("complete"), [7; 64]);
}

/// A mip level of a layer is one destination, however many boxes of it are copied and in whatever order, also if other
/// textures share its memory.
#[test]
fn each_part_of_a_texture_is_one_destination() {
    let fixture = Fixture::new(FixtureDesc::default());
    let ring = UploadRing::new(&fixture.memory, UploadDesc { capacity: 64 << 10, ..Default::default() }).expect("room");
    let frame = fixture.timelines[0].begin();
    let desc = TextureDesc { width: 8, height: 8, layers: 5, mips: 3, ..Default::default() };
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let needs = Requirements {
        size: 1 << 16,
        alignment: 1 << 16,
        memory_type_bits: fixture.device.profile().texture_types,
        class: ResourceClass::Texture,
        prefers_dedicated: false,
        requires_dedicated: false,
    };
    let mut shared = fixture.memory.allocate_mixed(needs, AllocationDesc::default()).expect("there is room");
    let [first, second] =
        [(); 2].map(|()| shared.create_aliasing_texture(&TextureDesc { usage, ..desc }, 0, "").expect("it fits"));
    let texels = ring.write_texels(&frame, &Texels::new(1, 1, 4, &[1; 4])).expect("there is room");
    let mut batch = UploadBatch::new();
    for (x, order) in [(0, 1), (1, 7)] {
        for step in 0..15_u32 {
            let part = step * order % 15;
            let at = TexelTarget { x, mip: part % 3, layer: part / 3, ..Default::default() };
            let at = if at.mip == 2 { TexelTarget { y: x, ..at } } else { at };
            for texture in [&first, &second] {
                batch.copy_texels(&texels, texture, at).expect("inside");
            }
        }
    }
    assert_eq!((batch.figures().copy_count, batch.figures().target_count), (60, 30));
    let mut seen: Vec<_> =
        batch.targets().1.iter().map(|part| (part.texture == *first.object(), part.mip, part.layer)).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 30);
    batch.clear();
    batch.copy_texels(&texels, &first, TexelTarget::default()).expect("inside");
    assert_eq!(batch.figures().target_count, 1, "a cleared batch knows no part");
    frame.discard();
}

#[test]
fn blocks_and_slices_count_as_they_were_staged() {
    let fixture = Fixture::new(FixtureDesc::default());
    let ring = UploadRing::new(&fixture.memory, UploadDesc { capacity: 64 << 10, ..Default::default() }).expect("room");
    let frame = fixture.timelines[0].begin();
    let (at, mut batch) = (TexelTarget::default(), UploadBatch::new());
    let blocks =
        texture(&fixture.memory, TextureDesc { width: 32, height: 32, format: Format::Bc1Unorm, ..Default::default() });
    let staged = ring.write_texels(&frame, &Texels::of(Format::Bc1Unorm, [8, 8, 1], &[1; 32])).expect("there is room");
    for (width, height) in [(8, 12), (8, 32)] {
        let changed = Texels { width, height, ..staged.clone() };
        let refused = batch.copy_texels(&changed, &blocks, at);
        let given = staged.bytes.size;
        assert!(
            matches!(refused, Err(BatchError::TexelSize { given: has, needed, .. }) if has == given && needed > has)
        );
    }
    let desc = TextureDesc { dimension: Dimension::D3, width: 8, height: 8, depth: 8, ..Default::default() };
    let volume = texture(&fixture.memory, desc);
    let slices = ring.write_texels(&frame, &Texels::of(desc.format, [4, 4, 2], &[1; 128])).expect("there is room");
    let refused = batch.copy_texels(&Texels { depth: 3, ..slices.clone() }, &volume, at);
    assert!(matches!(refused, Err(BatchError::TexelSize { .. })), "{refused:?}");
    let apart = Texels { slice_bytes: slices.slice_bytes * 2, ..slices.clone() };
    let refused = batch.copy_texels(&apart, &volume, at);
    assert!(matches!(refused, Err(BatchError::TexelPitch { .. })), "slices follow one another: {refused:?}");
    assert_empty(&mut batch);
    batch.copy_texels(&staged, &blocks, at).expect("the staged bytes");
    batch.copy_texels(&slices, &volume, at).expect("the staged bytes");
    frame.discard();
}

#[test]
fn a_copy_of_no_bytes_is_refused() {
    let Fixture { memory, .. } = &Fixture::new(FixtureDesc::default());
    assert_eq!(Staged::of(&buffer(memory), 0, 0).err(), Some(BatchError::ZeroSize));
}

#[test]
fn what_a_batch_writes_it_does_not_read() {
    let Fixture { memory, .. } = &Fixture::new(FixtureDesc::default());
    let [a, b, c] = [(); 3].map(|()| buffer(memory));
    let mut batch = UploadBatch::new();
    let to_itself = batch.copy(&bytes(&a, 8, 64), &a, 128);
    assert_eq!(to_itself, Err(BatchError::ReadsTarget { offset: 8, size: 64 }), "copies to the source itself");
    assert_empty(&mut batch);
    batch.copy(&bytes(&a, 0, 64), &b, 0).expect("it fits");
    let before = batch.figures();
    let reads = batch.copy(&bytes(&b, 32, 16), &c, 0);
    assert_eq!(reads, Err(BatchError::ReadsTarget { offset: 32, size: 16 }));
    let writes = batch.copy(&bytes(&c, 0, 16), &a, 100);
    assert_eq!(writes, Err(BatchError::WritesSource { offset: 100, size: 16 }));
    let back = batch.copy(&bytes(&b, 0, 16), &a, 0);
    assert_eq!(back, Err(BatchError::ReadsTarget { offset: 0, size: 16 }));
    let small = texture(memory, TextureDesc { width: 4, height: 4, ..Default::default() });
    let texels = |of| {
        let Texels { width, height, depth, layers, format, aspect, .. } = Texels::new(4, 4, 4, &[0; 64]);
        Texels { width, height, depth, layers, format, aspect, row_bytes: 16, slice_bytes: 64, bytes: bytes(of, 0, 64) }
    };
    let at = TexelTarget::default();
    let reads = batch.copy_texels(&texels(&b), &small, at);
    assert_eq!(reads, Err(BatchError::ReadsTarget { offset: 0, size: 64 }));
    assert_eq!((batch.figures(), batch.targets().1.len()), (before, 0));
    batch.copy_texels(&texels(&c), &small, at).expect("no copy writes it");
    assert_eq!(batch.copy(&bytes(&a, 0, 8), &c, 0), Err(BatchError::WritesSource { offset: 0, size: 8 }));
    batch.clear();
    batch.copy(&bytes(&b, 0, 64), &a, 0).expect("the previous batch is cleared");
}

/// Each buffer is found among thousands, whichever was used last.
#[test]
fn a_buffer_is_found_among_many() {
    let Fixture { memory, .. } = &Fixture::new(FixtureDesc::default());
    let [from, to] = [(); 2].map(|()| (0..1000).map(|_| buffer(memory)).collect::<Vec<_>>());
    let mut batch = UploadBatch::new();
    for round in 0..2 {
        for (from, to) in from.iter().zip(&to) {
            batch.copy(&bytes(from, round * 64, 64), to, round * 64).expect("it fits");
        }
    }
    let figures = batch.figures();
    assert_eq!((figures.region_count, figures.call_count, figures.target_count), (1000, 1000, 1000));
    for (from, to) in from.iter().zip(&to) {
        assert!(matches!(
            batch.copy(&bytes(to, 0, 4), from, 0),
            Err(BatchError::WritesSource { .. } | BatchError::ReadsTarget { .. })
        ));
    }
}

/// An overlap costs only its own copies. Comparing all pairs would take minutes.
#[test]
fn an_overlap_does_not_slow_down_the_others() {
    const COUNT: u64 = 200_000;
    let Fixture { memory, .. } = &Fixture::new(FixtureDesc::default());
    let large = |usage| {
        let desc = BufferDesc { size: 16 << 20, usage };
        memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room")
    };
    let (from, apart) = (large(BufferUsage::COPY_SRC), large(BufferUsage::COPY_DST));
    let (twice, chain) = (buffer(memory), large(BufferUsage::COPY_DST));
    let mut batch = UploadBatch::new();
    for number in 0..COUNT {
        batch.copy(&bytes(&from, number * 64, 32), &apart, number * 64).expect("it fits");
    }
    for offset in [0, 32] {
        batch.copy(&bytes(&from, 0, 64), &twice, offset).expect("it fits");
    }
    let figures = batch.figures();
    assert_eq!((figures.region_count, figures.hidden_bytes), (COUNT + 2, 32));
    // Each copy overwrites the second half of the previous one.
    for number in 0..COUNT {
        batch.copy(&bytes(&from, 0, 64), &chain, number * 32).expect("it fits");
    }
    let figures = batch.figures();
    assert_eq!((figures.region_count, figures.hidden_bytes), (2 * COUNT + 2, 32 + (COUNT - 1) * 32));
}

/// The possible ends of a frame.
const ENDS: [fn(&Fixture, Frame); 3] = [
    |fixture, frame| {
        fixture.complete(frame);
        fixture.memory.reclaim();
    },
    |_, frame| frame.discard(),
    |_, frame| drop(frame),
];

fn ring(fixture: &Fixture) -> UploadRing<Device> {
    UploadRing::new(&fixture.memory, UploadDesc { capacity: 64 << 10, ..Default::default() }).expect("there is room")
}

/// Records the batch into a list.
fn recorded(batch: &mut UploadBatch<Device>) -> Result<Vec<Command>, BatchError> {
    let mut commands = Vec::new();
    // SAFETY: the simulated device reports mistakes in the commands.
    unsafe { batch.record(&mut commands) }.map(|()| commands)
}

/// Submits commands in a frame.
fn submit(fixture: &Fixture, frame: Frame, commands: Vec<Command>) {
    fixture.submit_frame(frame, commands);
    assert!(fixture.device.run_until_idle());
}

#[test]
fn bytes_of_a_frame_that_is_over_are_refused() {
    for end in ENDS {
        let fixture = Fixture::new(FixtureDesc::default());
        let (ring, to) = (ring(&fixture), buffer(&fixture.memory));
        let small = texture(&fixture.memory, TextureDesc { width: 4, height: 4, ..Default::default() });
        let frame = fixture.timeline().begin();
        let point = frame.point();
        let mut writer = ring.writer(&frame).expect("of this allocator");
        let all = [ring.write(&[1; 64], 4), ring.write_for(&frame, &[2; 64], 4), writer.write(&[3; 64], 4)];
        let texels = ring.write_texels(&frame, &Texels::new(4, 4, 4, &[1; 64])).expect("there is room");
        let mut gathered = UploadBatch::new();
        gathered.copy(all[0].as_ref().expect("there is room"), &to, 0).expect("the frame is open");
        end(&fixture, frame);
        let next = fixture.timeline().begin();
        let mut batch = UploadBatch::new();
        for staged in all {
            let refused = batch.copy(&staged.expect("there is room"), &to, 0);
            assert_eq!(refused, Err(BatchError::FrameOver { frame: point, size: 64 }));
        }
        let refused = batch.copy_texels(&texels, &small, TexelTarget::default());
        assert!(matches!(refused, Err(BatchError::FrameOver { frame, .. }) if frame == point), "{refused:?}");
        assert_empty(&mut batch);
        // Copies that were added for it are not recorded in the next frame either.
        assert_eq!(recorded(&mut gathered).err(), Some(BatchError::FrameOver { frame: point, size: 64 }));
        assert!(!gathered.is_empty(), "unchanged");
        batch.copy(&ring.write(&[4; 64], 4).expect("there is room"), &to, 0).expect("the next frame is open");
        submit(&fixture, next, recorded(&mut batch).expect("its frame is open"));
        assert!(fixture.device.take_hazards().is_empty());
    }
}

#[test]
fn bytes_for_several_frames_are_taken_while_one_is_open() {
    let fixture = Fixture::new(FixtureDesc { timelines: 2, ..Default::default() });
    let (ring, to, mut batch) = (ring(&fixture), buffer(&fixture.memory), UploadBatch::new());
    let [one, other] = [0, 1].map(|queue: usize| fixture.timelines[queue].begin());
    let staged = ring.write(&[1; 64], 4).expect("there is room");
    batch.copy(&staged, &to, 0).expect("both are open");
    one.discard();
    batch.copy(&staged, &to, 64).expect("one is open");
    assert!(recorded(&mut batch).is_ok());
    let point = other.point();
    other.discard();
    assert_eq!(batch.copy(&staged, &to, 0), Err(BatchError::FrameOver { frame: point, size: 64 }));
    assert_eq!(recorded(&mut batch).err(), Some(BatchError::FrameOver { frame: point, size: 128 }));
}

#[test]
fn copies_to_what_was_exchanged_are_not_recorded() {
    let fixture = Fixture::new(FixtureDesc::default());
    let (ring, usage) = (ring(&fixture), BufferUsage::COPY_SRC | BufferUsage::COPY_DST);
    let desc = AllocationDesc { user_data: 7, ..Default::default() };
    let small = BufferDesc { size: 256, usage };
    let exchanges: [fn(&mut Buffer<Device>, &Frame, &BufferDesc); 2] = [
        |buffer, frame, desc| _ = buffer.resize(frame, desc, 16, AllocationDesc::default()).expect("there is room"),
        |buffer, _, desc| buffer.replace(desc, AllocationDesc::default()).expect("there is room"),
    ];
    for exchange in exchanges {
        let mut to = fixture.memory.create_buffer(&small, desc).expect("there is room");
        let (frame, mut batch) = (fixture.timeline().begin(), UploadBatch::new());
        let staged = ring.write_for(&frame, &[5; 64], 4).expect("there is room");
        batch.copy(&staged, &to, 0).expect("it fits");
        exchange(&mut to, &frame, &BufferDesc { size: 512, usage });
        for _ in 0..2 {
            assert_eq!(recorded(&mut batch).err(), Some(BatchError::Exchanged { user_data: 7 }));
        }
        batch.clear();
        batch.copy(&staged, &to, 0).expect("it fits");
        assert_eq!(recorded(&mut batch).map(|commands| commands.len()), Ok(1));
        frame.discard();
    }
    let whole = TextureDesc { width: 8, height: 8, mips: 2, ..Default::default() };
    let mut to = texture(&fixture.memory, whole);
    let (frame, mut batch) = (fixture.timeline().begin(), UploadBatch::new());
    let texels = ring.write_texels(&frame, &Texels::new(4, 4, 4, &[1; 64])).expect("there is room");
    batch.copy_texels(&texels, &to, TexelTarget { mip: 1, ..Default::default() }).expect("it fits");
    let half = TextureDesc { width: 4, height: 4, mips: 1, usage: to.desc().expect("portable").usage, ..whole };
    to.swap_mips(&frame, &half, AllocationDesc::default()).expect("there is room");
    assert_eq!(recorded(&mut batch).err(), Some(BatchError::Exchanged { user_data: 0 }));
    // A dropped destination stays alive until its frame is complete, so copies to it are no hazard.
    batch.clear();
    batch.copy_texels(&texels, &to, TexelTarget::default()).expect("it fits");
    drop(to);
    submit(&fixture, frame, recorded(&mut batch).expect("its frame is open"));
    assert!(fixture.device.take_hazards().is_empty());
}

#[test]
fn a_copy_queue_does_not_submit_copies_to_what_was_resized() {
    let fixture = Fixture::new(FixtureDesc::default());
    let mut to = buffer(&fixture.memory);
    let mut queue = TransferQueue::new(fixture.timeline().clone(), ring(&fixture));
    let all = |queue: &mut TransferQueue<Device>| {
        queue.submit(|batch, value| {
            let commands = recorded(batch)?;
            fixture.device.submit(0, &[], commands, (fixture.fence(), value)).expect("alive");
            Ok::<(), BatchError>(())
        })
    };
    queue.upload(&[1; 64], &to, 0).expect("there is room");
    let frame = fixture.timeline().begin();
    let larger = BufferDesc { size: 512, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
    to.resize(&frame, &larger, 0, AllocationDesc::default()).expect("there is room");
    frame.discard();
    let refused = all(&mut queue);
    assert!(matches!(refused, Err(SubmitError::Submit(BatchError::Exchanged { user_data: 0 }))), "{refused:?}");
    queue.discard();
    queue.upload(&[1; 64], &to, 0).expect("there is room");
    assert!(all(&mut queue).expect("its frame is open").is_some());
    assert!(fixture.device.run_until_idle() && fixture.device.take_hazards().is_empty());
    assert!(!to.take_content_lost());
    queue.upload(&[2; 64], &to, 0).expect("there is room");
    queue.abandon();
    assert!(to.take_content_lost());
}

fn watched() -> Fixture {
    let allocator = AllocatorDesc { debug: DebugDesc::everything(), ..Default::default() };
    Fixture::new(FixtureDesc { allocator, ..Default::default() })
}

/// Returns the names of the resources with contents that debugging reports as lost.
fn lost(fixture: &Fixture) -> Vec<String> {
    let findings = fixture.memory.debug().take_findings().into_iter();
    let name = |finding| if let Finding::LostContent(owner) = finding { Some(owner.name.to_string()) } else { None };
    findings.filter_map(name).collect()
}

/// Checks whether the loss of contents is reported, by the resource and by debugging, once each.
#[track_caller]
fn check_lost(fixture: &Fixture, to: &Buffer<Device>, is_lost: bool, how: &str) {
    fixture.memory.reclaim();
    assert_eq!(lost(fixture).len(), usize::from(is_lost), "{how}");
    assert_eq!((to.take_content_lost(), to.take_content_lost()), (is_lost, false), "{how}");
    assert!(lost(fixture).is_empty(), "{how}");
}

#[test]
fn contents_that_never_arrived_are_said_to_be_lost() {
    type End = fn(&Fixture, Frame, UploadBatch<Device>);
    let ends: [(&str, bool, End); 8] = [
        ("submitted", false, |fixture, frame, mut batch| submit(fixture, frame, recorded(&mut batch).expect("open"))),
        ("a clone submitted", false, |fixture, frame, batch| {
            let commands = recorded(&mut batch.clone()).expect("open");
            submit(fixture, frame, commands);
            drop(batch);
        }),
        ("recorded and discarded", true, |_, frame, mut batch| {
            assert!(recorded(&mut batch).is_ok());
            frame.discard();
        }),
        ("recorded, cleared and dropped", true, |_, frame, mut batch| {
            assert!(recorded(&mut batch).is_ok());
            batch.clear();
            drop(frame);
        }),
        ("discarded before it was recorded", true, |_, frame, batch| {
            frame.discard();
            drop(batch);
        }),
        ("cleared", true, |fixture, frame, mut batch| {
            batch.clear();
            submit(fixture, frame, vec![]);
        }),
        ("dropped", true, |fixture, frame, batch| {
            drop(batch);
            submit(fixture, frame, vec![]);
        }),
        ("submitted without it", true, |fixture, frame, mut batch| {
            submit(fixture, frame, vec![]);
            batch.clear();
        }),
    ];
    for (how, is_lost, end) in ends {
        let fixture = watched();
        let (ring, to) = (ring(&fixture), buffer(&fixture.memory));
        let (frame, mut batch) = (fixture.timeline().begin(), UploadBatch::new());
        let staged = ring.write(&[5; 64], 4).expect("there is room");
        batch.copy(&staged, &to, 0).expect("it fits");
        batch.copy(&staged, &to, 128).expect("it fits");
        assert!(!to.take_content_lost(), "not yet");
        end(&fixture, frame, batch);
        check_lost(&fixture, &to, is_lost, how);
        // The contents of a dropped resource are not reported as lost.
        let (frame, mut batch) = (fixture.timeline().begin(), UploadBatch::new());
        batch.copy(&ring.write(&[5; 64], 4).expect("there is room"), &to, 0).expect("it fits");
        drop(to);
        drop((frame, batch));
        fixture.memory.reclaim();
        assert!(lost(&fixture).is_empty(), "{how}");
    }
}

/// Copies to a buffer are lost after the buffer was replaced by one that was filled from it.
#[test]
fn a_loss_follows_the_contents_into_a_resized_buffer() {
    for (is_kept, is_lost) in [(true, true), (true, false), (false, true)] {
        let fixture = watched();
        let (ring, mut to) = (ring(&fixture), buffer(&fixture.memory));
        let (frame, mut batch) = (fixture.timeline().begin(), UploadBatch::new());
        batch.copy(&ring.write(&[5; 64], 4).expect("there is room"), &to, 0).expect("it fits");
        let commands = recorded(&mut batch).expect("open");
        let later = fixture.timeline().begin();
        for size in [512, 1024] {
            let larger = BufferDesc { size, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
            let kept = if is_kept { size / 2 } else { 0 };
            to.resize(&later, &larger, kept, AllocationDesc::default()).expect("there is room");
        }
        assert!(!to.take_content_lost(), "the first frame is open");
        if is_lost {
            frame.discard()
        } else {
            submit(&fixture, frame, commands)
        }
        submit(&fixture, later, vec![]);
        fixture.memory.reclaim();
        assert_eq!((to.take_content_lost(), to.take_content_lost()), (is_kept && is_lost, false));
    }
}

#[test]
fn a_texture_says_that_it_shows_what_it_held_before() {
    let fixture = watched();
    let ring = ring(&fixture);
    let desc = AllocationDesc { name: "atlas", ..Default::default() };
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let shape = TextureDesc { width: 4, height: 4, usage, ..Default::default() };
    let atlas = fixture.memory.create_texture(&shape, desc).expect("there is room");
    let mut batch = UploadBatch::new();
    for is_submitted in [true, false, true] {
        let frame = fixture.timeline().begin();
        let texels = ring.write_texels(&frame, &Texels::new(4, 4, 4, &[1; 64])).expect("there is room");
        batch.copy_texels(&texels, &atlas, TexelTarget::default()).expect("it fits");
        let commands = recorded(&mut batch).expect("its frame is open");
        if is_submitted {
            submit(&fixture, frame, commands);
        } else {
            frame.discard();
        }
        batch.clear();
        assert_eq!(lost(&fixture), if is_submitted { vec![] } else { vec!["atlas".to_owned()] });
        assert_eq!(atlas.take_content_lost(), !is_submitted);
    }
}

/// Copies that a resize, a swap of mips or a move records in a frame are lost with the frame too.
#[test]
fn contents_that_were_to_be_kept_are_lost_with_their_frame() {
    for is_submitted in [true, false] {
        let fixture = watched();
        let (mut buffer, usage) = (buffer(&fixture.memory), BufferUsage::COPY_SRC | BufferUsage::COPY_DST);
        let whole = TextureDesc { width: 8, height: 8, mips: 2, ..Default::default() };
        let mut texture = texture(&fixture.memory, whole);
        let half =
            TextureDesc { width: 4, height: 4, mips: 1, usage: texture.desc().expect("portable").usage, ..whole };
        let frame = fixture.timeline().begin();
        let larger = BufferDesc { size: 512, usage };
        assert!(buffer.resize(&frame, &larger, 64, AllocationDesc::default()).expect("there is room").is_some());
        texture.swap_mips(&frame, &half, AllocationDesc::default()).expect("there is room");
        if is_submitted {
            submit(&fixture, frame, vec![])
        } else {
            frame.discard()
        }
        assert_eq!((buffer.take_content_lost(), texture.take_content_lost()), (!is_submitted, !is_submitted));
        assert_eq!(lost(&fixture).len(), if is_submitted { 0 } else { 2 });
    }
}

/// Static constants are staged again: they are lost only if the copies that stage them are not recorded in a frame that
/// is submitted.
#[test]
fn constants_that_are_staged_again_are_not_lost() {
    let fixture = watched();
    let constants = ConstantBuffers::new(&fixture.memory, ConstantsDesc::default(), ()).expect("there is room");
    let held = constants.create_static(&[1; 64]).expect("there is room");
    let stage = |is_recorded: bool, end: fn(&Fixture, Frame, Vec<Command>)| {
        let (frame, mut batch) = (fixture.timeline().begin(), UploadBatch::new());
        let mut writer = constants.writer(&frame).expect("of this allocator");
        let count = constants.upload_statics(&mut writer, &mut batch).expect("there is room");
        drop(writer);
        let commands = if is_recorded { recorded(&mut batch).expect("its frame is open") } else { vec![] };
        end(&fixture, frame, commands);
        drop(batch);
        fixture.memory.reclaim();
        (count, lost(&fixture).len())
    };
    assert_eq!(stage(true, |_, frame, _| frame.discard()), (1, 0));
    assert_eq!(stage(false, |_, frame, _| frame.discard()), (1, 0), "again");
    assert_eq!(stage(true, submit), (1, 0), "and again");
    assert_eq!(stage(true, submit), (0, 0));
    drop(held);
}
