//! Sparse textures: binding and unbinding of tiles and mip tails, on every device that supports them. As in
//! `sparse.rs`, Mesa's software driver supports them from version 25 on.

use crate::{Command, Gpu, TextureRegion};
use ringfence::device::{DeviceError, TexelBox, TextureAspect, TextureDesc, TextureUsage};
use ringfence::memory::Error;
use ringfence::sparse::{PageRun, Sparse, SparseError, SparseTexture, TilePlace, UnboundReads};
use ringfence::{AllocationDesc, AllocatorDesc, Location};

use crate::rig::{PATIENCE, Rig, skipped};

const USAGE: TextureUsage = TextureUsage::COPY_SRC.union(TextureUsage::COPY_DST).union(TextureUsage::SAMPLED);

fn desc(width: u32, height: u32, mips: u32, layers: u32) -> TextureDesc {
    TextureDesc { width, height, mips, layers, usage: USAGE, ..Default::default() }
}

/// Creates a sparse texture with all parts in the state for copies. Returns `None` if the device does not support it.
fn sparse<G: Gpu>(rig: &mut Rig<G>, desc: &TextureDesc) -> Option<SparseTexture<G::Device>> {
    if rig.memory.device().sparse_texture_support().is_none() || rig.gpu.bind_queue(0).is_none() {
        skipped("the device or its queue does not support sparse textures");
        return None;
    }
    let texture = SparseTexture::new(&rig.memory, desc, AllocationDesc { name: "sparse", ..Default::default() });
    let texture = texture.expect("the device has them");
    for layer in 0..desc.layers {
        (0..desc.mips).for_each(|mip| write(rig, &texture, (mip, layer), 0, true));
    }
    Some(texture)
}

/// Submits the collected binds to the first queue, in a separate frame.
fn bind<G: Gpu>(rig: &Rig<G>, texture: &mut SparseTexture<G::Device>) {
    let queue = rig.gpu.bind_queue(0).expect("it can bind");
    let frame = rig.timeline().begin();
    // SAFETY: the frame is open, and all work is submitted to this one queue, in order.
    unsafe { texture.submit(&queue, &[], (rig.gpu.fence(0), frame.value())) }.expect("the device is not lost");
    rig.timeline().submitted(frame).expect("in order");
}

fn region<G: Gpu>(rig: &Rig<G>, texture: &SparseTexture<G::Device>, (mip, layer): (u32, u32)) -> TextureRegion {
    let [width, height] = texture.tiling().extent(mip);
    TextureRegion { mip, layer, ..rig.region(width, height, 0) }
}

/// Returns a texel that depends on the seed and the position, so that all texels differ.
fn texel(seed: u32, x: u32, y: u32) -> [u8; 4] {
    (seed << 24 | x << 12 | y).to_le_bytes()
}

/// Writes a whole mip level of a layer, including its unbound tiles.
fn write<G: Gpu>(rig: &mut Rig<G>, to: &SparseTexture<G::Device>, part: (u32, u32), seed: u32, discard: bool) {
    let region = region(rig, to, part);
    let mut bytes = vec![0; (region.row_bytes * u64::from(region.height)) as usize];
    for (y, row) in (0..).zip(bytes.chunks_mut(region.row_bytes as usize)) {
        for x in 0..region.width {
            row[x as usize * 4..][..4].copy_from_slice(&texel(seed, x, y));
        }
    }
    let mut upload = rig.buffer(bytes.len() as u64, Location::Upload, "texels");
    upload.write(0, &bytes).expect("upload memory is mapped");
    let (src, dst) = (upload.object().clone(), to.object().clone());
    rig.run(&[Command::CopyBufferToTexture { src, dst, region, discard }]);
}

/// Returns the texels of a whole mip level of a layer, row by row.
fn read<G: Gpu>(rig: &mut Rig<G>, from: &SparseTexture<G::Device>, part: (u32, u32)) -> Vec<[u8; 4]> {
    let region = region(rig, from, part);
    let size = region.row_bytes * u64::from(region.height);
    let back = rig.buffer(size, Location::Readback, "texels back");
    let (src, dst) = (from.object().clone(), back.object().clone());
    rig.run(&[Command::CopyTextureToBuffer { src, dst, region }]);
    let mut bytes = vec![0; size as usize];
    back.read(0, &mut bytes).expect("readback memory is mapped");
    let rows = bytes.chunks(region.row_bytes as usize);
    let texels = rows.flat_map(|row| row[..region.width as usize * 4].chunks(4));
    texels.map(|texel| texel.try_into().expect("four bytes")).collect()
}

/// Checks each texel of a mip level of a layer. `expected` returns the seed of a tile; `None` if it is unbound.
fn check<G: Gpu>(
    rig: &mut Rig<G>,
    texture: &SparseTexture<G::Device>,
    part: (u32, u32),
    expected: impl Fn(u32, u32) -> Option<u32>,
) {
    let tiling = texture.tiling().clone();
    let zero = rig.memory.device().sparse_texture_support().expect("it has them") == UnboundReads::Zero;
    let [width, _] = tiling.extent(part.0);
    let in_tail = part.0 >= tiling.tail_first_mip;
    for (at, found) in (0..).zip(read(rig, texture, part)) {
        let (x, y) = (at % width, at / width);
        let tile = if in_tail { (0, 0) } else { (x / tiling.tile[0], y / tiling.tile[1]) };
        match expected(tile.0, tile.1) {
            Some(seed) => assert_eq!(found, texel(seed, x, y), "texel {x}, {y} of mip and layer {part:?}"),
            None if zero => assert_eq!(found, [0; 4], "texel {x}, {y} of {part:?} has no memory"),
            None => {}
        }
    }
}

pub fn sparse_texture_tiles_hold_their_texels_and_unbound_ones_none<G: Gpu>(rig: &mut Rig<G>) {
    // Both sides end inside a tile.
    let Some(mut texture) = sparse(rig, &desc(600, 300, 9, 1)) else { return };
    let tiling = texture.tiling().clone();
    let used = |rig: &Rig<G>| rig.memory.statistics().total().used_bytes();
    rig.memory.reclaim();
    assert_eq!((texture.bound_count(), used(rig)), (0, 0), "tiles cost no memory");
    let [columns, rows] = tiling.tiles(0);
    assert!(columns >= 3 && rows >= 2, "{tiling:?}");
    let [tile_width, tile_height] = tiling.tile;
    // The box extends from one tile into the next, in the last row.
    let (x, y) = (tile_width + 1, (rows - 1) * tile_height);
    let some = TexelBox { x, y, width: tile_width, height: 1, ..texture.whole(0, 0) };
    texture.bind(some).expect("there is room");
    let tail_mip = tiling.tail_first_mip;
    if tail_mip < tiling.mips {
        texture.bind(texture.whole(tail_mip, 0)).expect("there is room");
    }
    bind(rig, &mut texture);
    let bound = 2 + tiling.tail_pages;
    assert_eq!(texture.bound_count(), bound);
    assert!((bound * tiling.page_bytes..(bound + 2) * tiling.page_bytes).contains(&used(rig)));
    (0..tiling.mips).for_each(|mip| write(rig, &texture, (mip, 0), 1 + mip, false));
    let is_bound = |column: u32, row: u32| row == rows - 1 && (column == 1 || column == 2);
    check(rig, &texture, (0, 0), |column, row| is_bound(column, row).then_some(1));
    if tail_mip > 1 {
        check(rig, &texture, (1, 0), |_, _| None);
    }
    for mip in tail_mip..tiling.mips {
        check(rig, &texture, (mip, 0), |_, _| Some(1 + mip));
        assert!(texture.is_bound(texture.whole(mip, 0)), "a tail is bound as a whole");
    }

    // One tile is unbound and the others stay bound. Then the whole mip level is bound.
    texture.unbind(TexelBox { x: tile_width, width: 1, ..some }).expect("inside");
    bind(rig, &mut texture);
    check(rig, &texture, (0, 0), |column, row| (is_bound(column, row) && column == 2).then_some(1));
    let place = TilePlace::Tile { mip: 0, layer: 0, column: 1, row: rows - 1 };
    assert!(texture.behind(place).is_none());
    texture.bind(texture.whole(0, 0)).expect("there is room");
    bind(rig, &mut texture);
    assert!(texture.behind(place).is_some() && texture.is_bound(texture.whole(0, 0)));
    write(rig, &texture, (0, 0), 77, false);
    check(rig, &texture, (0, 0), |_, _| Some(77));
    let mips = if tail_mip < tiling.mips { tiling.tail_pages } else { 0 };
    assert_eq!(texture.bound_count(), u64::from(columns * rows) + mips);
}

pub fn sparse_texture_pages_are_released_by_sync_points<G: Gpu>(rig: &mut Rig<G>) {
    let Some(mut texture) = sparse(rig, &desc(512, 256, 1, 1)) else { return };
    texture.bind(texture.whole(0, 0)).expect("there is room");
    bind(rig, &mut texture);
    let pages = texture.bound_count();
    write(rig, &texture, (0, 0), 9, false);
    let region = region(rig, &texture, (0, 0));
    let size = region.row_bytes * u64::from(region.height);
    let back = rig.buffer(size, Location::Readback, "back");
    let frame = rig.timeline().begin();
    let (src, dst) = (texture.object().clone(), back.object().clone());
    rig.submit_behind_gate(1, frame, &[Command::CopyTextureToBuffer { src, dst, region }]);
    rig.memory.reclaim();
    let before = rig.memory.statistics();
    // The unbind is submitted to the same queue as the copy, which waits for the gate.
    texture.unbind(texture.whole(0, 0)).expect("inside");
    bind(rig, &mut texture);
    rig.memory.reclaim();
    let held = rig.memory.statistics();
    assert_eq!(held.retired_count, before.retired_count + pages, "pages wait for the copy that reads them");
    assert_eq!(held.total().range_count, before.total().range_count);
    rig.gpu.open_gate(1).expect("the device is not lost");
    rig.run(&[]);
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().retired_count, 0);
    let mut bytes = vec![0; size as usize];
    back.read(0, &mut bytes).expect("it is mapped");
    for (y, row) in (0..).zip(bytes.chunks(region.row_bytes as usize)) {
        let texels = (0..).zip(row[..region.width as usize * 4].chunks(4));
        texels.for_each(|(x, found)| assert_eq!(found, texel(9, x, y), "texel {x}, {y}"));
    }
}

pub fn sparse_texture_batches_are_data_until_they_are_submitted<G: Gpu>(rig: &mut Rig<G>) {
    let Some(mut texture) = sparse(rig, &desc(512, 256, 10, 1)) else { return };
    let tiling = texture.tiling().clone();
    let [columns, rows] = tiling.tiles(0);
    rig.memory.reclaim();
    texture.bind(texture.whole(0, 0)).expect("there is room");
    let row = |row: u32| PageRun {
        first: TilePlace::Tile { mip: 0, layer: 0, column: 0, row },
        count: columns.into(),
        is_bound: true,
    };
    assert_eq!(texture.batch(), (0..rows).map(row).collect::<Vec<_>>(), "a run ends with its row");
    assert!(texture.is_bound(texture.whole(0, 0)) && texture.behind(row(0).first).is_none(), "not yet");
    let second = TexelBox { y: tiling.tile[1], height: 1, ..texture.whole(0, 0) };
    texture.unbind(second).expect("inside");
    assert_eq!(texture.batch(), (0..rows).filter(|at| *at != 1).map(row).collect::<Vec<_>>());
    let held = u64::from(columns) * u64::from(rows - 1);
    assert_eq!(rig.memory.statistics().total().range_count, held, "tiles that were never bound are freed at once");
    bind(rig, &mut texture);
    assert_eq!(texture.batch(), []);
    texture.unbind(texture.whole(0, 0)).expect("inside");
    texture.bind(TexelBox { height: 1, ..texture.whole(0, 0) }).expect("there is room");
    let freed = (2..rows).map(|at| PageRun { is_bound: false, ..row(at) }).collect::<Vec<_>>();
    assert_eq!(texture.batch(), freed, "the first row keeps its memory");
    if tiling.tail_first_mip < tiling.mips {
        texture.bind(texture.whole(tiling.mips - 1, 0)).expect("there is room");
        let tail = PageRun { first: TilePlace::Tail { layer: 0, page: 0 }, count: tiling.tail_pages, is_bound: true };
        assert_eq!(texture.batch().last(), Some(&tail));
    }
    bind(rig, &mut texture);
    bind(rig, &mut texture);
}

/// Returns `true` if mip levels of sparse arrays may be smaller than a tile. Direct3D 12 refuses that below tier 4.
fn has_packed_arrays<G: Gpu>(rig: &Rig<G>) -> bool {
    let info = desc(400, 260, 9, 2);
    match SparseTexture::new(&rig.memory, &info, AllocationDesc::default()) {
        Ok(_) => true,
        Err(Error::Device(DeviceError::Unsupported(_))) => false,
        Err(error) => panic!("{error}"),
    }
}

pub fn sparse_texture_random_bindings_agree_with_a_plain_table<G: Gpu>(rig: &mut Rig<G>) {
    let layers = if has_packed_arrays(rig) { 2 } else { 1 };
    let desc = desc(400, 260, 9, layers);
    let Some(mut texture) = sparse(rig, &desc) else { return };
    let tiling = texture.tiling().clone();
    // For each page, the seed of its last write; 0 if it was never written, `None` if it is unbound.
    let mut twin: Vec<Option<u32>> = vec![None; tiling.page_count() as usize];
    let seed = 0x1234_5678_9abc_def1_u64;
    let mut dice = seed;
    let mut roll = |below: u32| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        (dice % u64::from(below)) as u32
    };
    let pages_of = |TexelBox { mip, layer, layers, x, y, width, height, .. }| -> Vec<usize> {
        let held = layer..layer + layers;
        let tails = if tiling.is_tail_shared { 0..1 } else { held.clone() };
        let [tile_width, tile_height] = tiling.tile;
        let touched = |place: &TilePlace| match *place {
            TilePlace::Tail { layer, .. } => mip >= tiling.tail_first_mip && tails.contains(&layer),
            TilePlace::Tile { mip: of, layer: its, column, row } => {
                let across = column * tile_width < x + width && x < (column + 1) * tile_width;
                of == mip
                    && held.contains(&its)
                    && across
                    && row * tile_height < y + height
                    && y < (row + 1) * tile_height
            }
        };
        (0..tiling.page_count()).filter(|page| touched(&tiling.place(*page))).map(|page| page as usize).collect()
    };
    for round in 1..=20_u32 {
        for _ in 0..roll(4) + 1 {
            let (mip, layer) = (roll(desc.mips), roll(desc.layers));
            let [across, down] = tiling.extent(mip);
            let (x, y) = (roll(across), roll(down));
            let (width, height, layers) = (roll(across - x) + 1, roll(down - y) + 1, roll(desc.layers - layer) + 1);
            let region = TexelBox { layers, x, y, width, height, ..texture.whole(mip, layer) };
            if roll(5) < 3 {
                texture.bind(region).expect("there is room");
                pages_of(region).into_iter().for_each(|page| _ = twin[page].get_or_insert(0));
            } else {
                texture.unbind(region).expect("inside");
                pages_of(region).into_iter().for_each(|page| twin[page] = None);
            }
        }
        assert_eq!(texture.bound_count(), twin.iter().flatten().count() as u64, "seed {seed:#x}, round {round}");
        bind(rig, &mut texture);
        // One part is written, including its unbound tiles. All other tiles that stayed bound keep their texels.
        let part = (roll(tiling.tail_first_mip.min(desc.mips)), roll(desc.layers));
        write(rig, &texture, part, round, false);
        pages_of(texture.whole(part.0, part.1)).into_iter().for_each(|page| {
            twin[page].iter_mut().for_each(|writer| *writer = round);
        });
        rig.memory.reclaim();
        rig.memory.debug().validate().expect("the allocator is sound");
        if round % 4 != 0 {
            continue;
        }
        let tiled = 0..tiling.tail_first_mip.min(desc.mips);
        for (mip, layer) in tiled.flat_map(|mip| (0..layers).map(move |layer| (mip, layer))) {
            let page = |column, row| tiling.page(TilePlace::Tile { mip, layer, column, row }) as usize;
            let is_of = |at: usize| match tiling.place(at as u64) {
                TilePlace::Tile { mip: of, layer: its, .. } => (of, its) == (mip, layer),
                _ => false,
            };
            let fresh = (0..twin.len()).any(|at| twin[at] == Some(0) && is_of(at));
            // Tiles that were bound but never written have undefined contents.
            if !fresh {
                check(rig, &texture, (mip, layer), |column, row| twin[page(column, row)]);
            }
        }
    }
}

pub fn sparse_texture_misuse_is_a_typed_error_and_changes_nothing<G: Gpu>(rig: &mut Rig<G>) {
    let Some(mut texture) = sparse(rig, &desc(512, 512, 2, 1)) else { return };
    let whole = texture.whole(0, 0);
    let outside = [
        TexelBox { mip: 2, ..whole },
        TexelBox { layer: 1, ..whole },
        TexelBox { layers: 2, ..whole },
        TexelBox { layers: 0, ..whole },
        TexelBox { z: 1, ..whole },
        TexelBox { depth: 2, ..whole },
        TexelBox { aspect: TextureAspect::Stencil, ..whole },
        TexelBox { x: 1, ..whole },
        TexelBox { y: u32::MAX, ..whole },
        TexelBox { width: 0, ..whole },
    ];
    for region in outside {
        let refused = SparseError::OutsideTexture { region, mips: 2, layers: 1 };
        assert_eq!((texture.bind(region), texture.unbind(region)), (Err(refused), Err(refused)));
        assert!(!texture.is_bound(region));
    }
    assert_eq!(texture.batch(), []);
    // The budget is enough for some tiles only.
    let page = texture.tiling().page_bytes;
    drop(texture);
    let limit = AllocatorDesc { heap_bytes_max: [5 * page; 16], ..Default::default() };
    let (memory, _timelines) = rig.allocator(limit);
    let info = desc(2048, 2048, 1, 1);
    let mut texture = SparseTexture::new(&memory, &info, AllocationDesc::default()).expect("tiles cost nothing");
    texture.bind(TexelBox { width: 1, height: 1, ..texture.whole(0, 0) }).expect("there is room for one");
    let (batch, held) = (texture.batch(), memory.statistics().total().range_count);
    let refused = texture.bind(texture.whole(0, 0));
    assert!(matches!(refused, Err(SparseError::Memory(Error::OverBudget { .. }))), "{refused:?}");
    assert_eq!((texture.batch(), memory.statistics().total().range_count), (batch, held), "nothing has changed");
    drop(texture);
    memory.shutdown(PATIENCE).expect("nothing was submitted");
    memory.debug().validate().expect("the allocator is sound");
}

pub fn a_device_without_sparse_textures_says_so<G: Gpu>(rig: &mut Rig<G>) {
    let device = rig.memory.device();
    let refused = if device.sparse_texture_support().is_none() {
        desc(256, 256, 1, 1)
    } else {
        // No tested device supports sparse textures with several samples.
        let samples = TextureUsage::RENDER_TARGET | TextureUsage::SAMPLED;
        TextureDesc { samples: 4, usage: samples, ..desc(256, 256, 1, 1) }
    };
    let info = refused;
    let refused = SparseTexture::new(&rig.memory, &info, AllocationDesc::default());
    assert!(matches!(refused, Err(Error::Device(DeviceError::Unsupported(_)))), "{refused:?}");
}
