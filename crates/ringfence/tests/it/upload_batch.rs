//! What a batch refuses: the error has the numbers, and the batch is as before.

use ringfence::device::{BufferDesc, BufferUsage, Dimension, Format, TextureDesc, TextureUsage};
use ringfence::sim::Device;
use ringfence::{
    AllocationDesc, Allocator, BatchError, Buffer, Staged, TexelTarget, Texels, Texture, UploadBatch, UploadDesc,
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

/// That the batch has no trace of what was refused: it takes copies of any allocator.
fn assert_empty(batch: &mut UploadBatch<Device>) {
    assert!(batch.is_empty() && batch.targets().0.is_empty() && batch.targets().1.is_empty(), "{batch:?}");
    assert_eq!(batch.figures(), Default::default());
    let other = Fixture::new(FixtureDesc::default()).memory;
    batch.copy(&bytes(&buffer(&other), 0, 4), &buffer(&other), 0).expect("an empty batch is of no allocator");
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
    let more: [fn(&mut Texels<Staged<Device>>); 5] = [
        |texels| texels.layers = 3,
        |texels| texels.bytes.size -= 1,
        |texels| texels.slice_bytes = u64::MAX,
        |texels| texels.slice_bytes = u64::MAX - 100,
        |texels| texels.bytes.offset = u64::MAX - 100,
    ];
    let mut batch = UploadBatch::new();
    for change in more {
        let mut changed = staged.clone();
        change(&mut changed);
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
    for change in closer {
        let mut changed = staged.clone();
        change(&mut changed);
        let refused = batch.copy_texels(&changed, &layered, at);
        assert!(matches!(refused, Err(BatchError::TexelPitch { .. })), "{changed:?}: {refused:?}");
        assert_empty(&mut batch);
    }
    batch.copy_texels(&staged, &layered, at).expect("as it was staged");
    let before = batch.figures();
    assert_eq!((before.copy_count, before.region_count), (1, 2), "a region for each layer");
    let refused = batch.copy_texels(&Texels { layers: 3, ..staged.clone() }, &layered, at);
    assert!(matches!(refused, Err(BatchError::TexelSize { layers: 3, .. })), "{refused:?}");
    assert_eq!((batch.figures(), batch.targets().1.len()), (before, 2));
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
    batch.copy_texels(&staged, &blocks, at).expect("as it was staged");
    batch.copy_texels(&slices, &volume, at).expect("as it was staged");
    frame.discard();
}

#[test]
fn a_copy_of_no_bytes_is_refused() {
    let Fixture { memory, .. } = &Fixture::new(FixtureDesc::default());
    let (from, to, mut batch) = (buffer(memory), buffer(memory), UploadBatch::new());
    assert_eq!(Staged::of(&from, 0, 0).err(), Some(BatchError::ZeroSize));
    let mut none = bytes(&from, 0, 4);
    none.size = 0;
    assert_eq!(batch.copy(&none, &to, 0), Err(BatchError::ZeroSize));
    assert_empty(&mut batch);
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
    batch.copy_texels(&texels(&c), &small, at).expect("nothing writes it");
    assert_eq!(batch.copy(&bytes(&a, 0, 8), &c, 0), Err(BatchError::WritesSource { offset: 0, size: 8 }));
    batch.clear();
    batch.copy(&bytes(&b, 0, 64), &a, 0).expect("the batch before is forgotten");
}

/// Each buffer is found again among thousands, whichever was used last.
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

/// One overlap costs no more than its own copies: done by looking at all pairs, this takes minutes.
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
    // Each goes over half of the one before, which leaves its first half.
    for number in 0..COUNT {
        batch.copy(&bytes(&from, 0, 64), &chain, number * 32).expect("it fits");
    }
    let figures = batch.figures();
    assert_eq!((figures.region_count, figures.hidden_bytes), (2 * COUNT + 2, 32 + (COUNT - 1) * 32));
}
