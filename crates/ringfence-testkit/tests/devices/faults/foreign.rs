//! Scenarios of shared memory and of sparse memory.

use ringfence::device::{BufferDesc, Buffers, Create, Native, ResourceClass, TextureDesc, TextureUsage, Textures};
use ringfence::memory::PoolDesc;
use ringfence::sparse::{Sparse, SparseBuffer, SparseTexture};
use ringfence::{AllocationDesc, Location, sharing};
use ringfence_testkit::{Command, Gpu};

use crate::faults::{COPIED, KIB, MIB};
use ringfence_testkit::faults::{Outcome, Stage, copy, pattern};

/// Exports and imports a buffer with its own memory and a buffer in a block of a pool. Both sides have the same bytes.
pub fn shared_memory<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let bytes = pattern(31, 4 * KIB);
    let source = stage.filled(&bytes)?;
    let info = stage.trial().run(|| {
        let desc = BufferDesc { size: 4 * KIB, usage: COPIED };
        Create::<Buffers>::describe(stage.memory.device(), &desc)
    })?;
    let share = G::SHARE_KINDS.iter().copied().find(|kind| {
        let support = sharing::buffer_support(&stage.memory, &Native(&info), *kind);
        support.can_export && support.can_import && !support.needs_dedicated
    });
    if share.is_none() {
        return Ok(());
    }
    let desc = AllocationDesc { name: "shared", share, ..Default::default() };
    let exported = stage.buffer_for(4 * KIB, COPIED, desc)?;
    let imported = stage.trial().run(|| {
        let (handle, shared) = exported.export()?;
        // SAFETY: the handle was just exported; the host does not access the bytes through it.
        unsafe { sharing::import_buffer(&stage.memory, &Native(&info), handle, &shared, AllocationDesc::default()) }
    })?;
    stage.run(&[copy::<G>(&source, &exported, 4 * KIB)])?;
    drop(exported);
    stage.memory.reclaim();
    stage.expect(&imported, &bytes)?;

    let pool_desc = PoolDesc { memory_type: imported.memory_type(), block_bytes: MIB, share, ..Default::default() };
    let pool = stage.trial().run(|| stage.memory.create_pool(pool_desc))?;
    let held = stage.trial().run(|| pool.create_buffer(&Native(&info), AllocationDesc::default()))?;
    let mut block = stage.trial().run(|| {
        let (handle, shared) = held.export()?;
        // SAFETY: as above.
        unsafe {
            sharing::import_memory(&stage.memory, handle, &shared, ResourceClass::Buffer, AllocationDesc::default())
        }
    })?;
    let seen = stage.trial().run(|| block.create_aliasing_buffer(&Native(&info), held.offset(), "seen"))?;
    stage.run(&[copy::<G>(&source, &held, 4 * KIB)])?;
    stage.expect(&seen, &bytes)
}

/// Binds, writes and unbinds pages.
pub fn sparse_pages<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let info = stage.trial().run(|| {
        let desc = BufferDesc { size: 8 * MIB, usage: COPIED };
        Create::<Buffers>::describe(stage.memory.device(), &desc)
    })?;
    let Some(queue) = stage.gpu.bind_queue(0).filter(|_| stage.memory.device().sparse_support().is_some()) else {
        return Ok(());
    };
    let desc = AllocationDesc { name: "sparse", ..Default::default() };
    let mut sparse = stage.trial().run(|| SparseBuffer::new(&stage.memory, &Native(&info), desc))?;
    let page = sparse.page_bytes();
    for (round, (bound, gone)) in [(0..6, 0..0), (6..9, 1..3), (1..3, 4..8)].into_iter().enumerate() {
        stage.trial().run(|| sparse.bind(bound.clone()))?;
        sparse.unbind(gone)?;
        let frame = stage.timelines[0].begin();
        let signal = (stage.gpu.fence(0), frame.value());
        // SAFETY: the frame is open, and all work is submitted to this one queue, in order.
        stage.trial().run(|| unsafe { sparse.submit(&queue, &[], signal.clone()) })?;
        stage.timelines[0].submitted(frame)?;
        let bytes = pattern(40 + round as u64, page);
        let (source, back) = (stage.filled(&bytes)?, stage.buffer(page, Location::Readback)?);
        let (src, dst) = (source.object().clone(), sparse.object().clone());
        let offset = bound.start * page;
        stage.run(&[
            Command::CopyBuffer { src, src_offset: 0, dst: dst.clone(), dst_offset: offset, size: page },
            Command::CopyBuffer { src: dst, src_offset: offset, dst: back.object().clone(), dst_offset: 0, size: page },
        ])?;
        stage.expect_back(&back, &bytes)?;
        stage.memory.reclaim();
    }
    Ok(())
}

/// Binds, writes and unbinds tiles and a mip tail.
pub fn sparse_tiles<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST | TextureUsage::SAMPLED;
    let info = stage.trial().run(|| {
        let desc = TextureDesc { width: 256, height: 256, mips: 9, usage, ..Default::default() };
        Create::<Textures>::describe(stage.memory.device(), &desc)
    })?;
    let Some(queue) = stage.gpu.bind_queue(0).filter(|_| stage.memory.device().sparse_texture_support().is_some())
    else {
        return Ok(());
    };
    let desc = AllocationDesc { name: "sparse", ..Default::default() };
    let mut sparse = stage.trial().run(|| SparseTexture::new(&stage.memory, &Native(&info), desc))?;
    let (whole, tail) = (sparse.whole(0, 0), sparse.whole(8, 0));
    let right = ringfence::device::TexelBox { x: 255, width: 1, ..whole };
    for (round, (bound, gone)) in [(whole, right), (tail, tail), (right, tail)].into_iter().enumerate() {
        stage.trial().run(|| sparse.bind(bound))?;
        sparse.unbind(gone)?;
        if round == 1 {
            stage.trial().run(|| sparse.bind(tail))?;
        }
        let frame = stage.timelines[0].begin();
        let signal = (stage.gpu.fence(0), frame.value());
        // SAFETY: the frame is open, and all work is submitted to this one queue, in order.
        stage.trial().run(|| unsafe { sparse.submit(&queue, &[], signal.clone()) })?;
        stage.timelines[0].submitted(frame)?;
        stage.memory.reclaim();
    }
    let region = stage.region(256, 256, 0);
    let bytes = pattern(50, region.row_bytes * 256);
    let (source, back) = (stage.filled(&bytes)?, stage.buffer(bytes.len() as u64, Location::Readback)?);
    let (texture, dst) = (sparse.object().clone(), back.object().clone());
    stage.run(&[
        Command::CopyBufferToTexture { src: source.object().clone(), dst: texture.clone(), region, discard: true },
        Command::CopyTextureToBuffer { src: texture, dst, region },
    ])?;
    stage.expect_back(&back, &bytes)
}
