//! A scene of three times the memory: a camera moves, and each frame reads the same texels as with all memory.

use std::time::Instant;

use ringfence::AllocatorDesc;
use ringfence::device::{Format, TextureDesc, TextureUsage};
use ringfence::paging::{PageDesc, PageUses, PagedTexture, PagingDesc};
use ringfence::sim::Profile;
use ringfence_core::testing::rng::Rng;

use super::program::Program;

const SIDE: u32 = 64;
const MIPS: u32 = 7;
/// Bytes of a texture with all mip levels: 64², 32², … 1² texels of 4 bytes.
const BYTES: u64 = 21_844;

pub fn desc() -> TextureDesc {
    let usage = TextureUsage::SAMPLED;
    TextureDesc { width: SIDE, height: SIDE, mips: MIPS, format: Format::Rgba8Unorm, usage, ..Default::default() }
}

/// The first bytes of a mip level: different for each texture and level.
pub fn texels(texture: u64, mip: u32) -> Vec<u8> {
    let bytes = u64::from(SIDE >> mip).pow(2) * 4;
    (0..bytes).map(|index| (texture * 31 + u64::from(mip) * 7 + index) as u8).collect()
}

pub fn contents(texture: u64) -> Vec<u8> {
    (0..MIPS).flat_map(|mip| texels(texture, mip)).collect()
}

/// Positions of the camera, one per frame.
fn path(name: &str, frames: u64, count: u64, dice: &mut Rng) -> Vec<u64> {
    let at = |frame: u64| match name {
        "closed" => frame / 4 % count,
        "there and back" => {
            let step = frame / 4 % (2 * count);
            if step < count { step } else { 2 * count - 1 - step }
        }
        _ => unreachable!(),
    };
    match name {
        "walk" => {
            let mut position = 0;
            let mut heading = 1;
            (0..frames)
                .map(|_| {
                    if dice.below(40) == 0 {
                        heading = count - heading;
                    }
                    position = (position + if dice.below(4) == 0 { heading } else { 0 }) % count;
                    position
                })
                .collect()
        }
        _ => (0..frames).map(at).collect(),
    }
}

/// Returns the number of loads of the optimal policy with room for `room` textures: the one whose next use is last leaves.
fn optimal_loads(frames: &[Vec<u64>], room: usize) -> u64 {
    let mut next = std::collections::HashMap::<(usize, u64), usize>::new();
    let mut seen = std::collections::HashMap::new();
    for (at, used) in frames.iter().enumerate().rev() {
        for texture in used {
            next.insert((at, *texture), seen.insert(*texture, at).unwrap_or(usize::MAX));
        }
    }
    let (mut present, mut loads) = (std::collections::HashMap::<u64, usize>::new(), 0);
    for (at, used) in frames.iter().enumerate() {
        for texture in used {
            loads += u64::from(present.insert(*texture, next[&(at, *texture)]).is_none());
        }
        while present.len() > room {
            let idle = present.iter().filter(|(texture, _)| !used.contains(texture));
            let (leaving, _) = idle.max_by_key(|(texture, next)| (**next, **texture)).expect("more room than uses");
            let leaving = *leaving;
            present.remove(&leaving);
        }
    }
    loads
}

#[test]
fn a_scene_of_three_times_the_memory_reads_the_same_texels_on_every_path() {
    const COUNT: u64 = 120;
    const SEEN: u64 = 8;
    for name in ["closed", "there and back", "walk"] {
        let room = COUNT / 3;
        // The memory of a texture is a little larger than its texels.
        let mut program = Program::limited(room * (BYTES + 2000));
        let textures: Vec<PagedTexture> = (0..COUNT)
            .map(|index| {
                program.paging.add_texture(&desc(), &contents(index), PageDesc::default()).expect("host memory")
            })
            .collect();
        let (mut uses, mut seen, mut times) = (PageUses::new(), Vec::new(), Vec::new());
        let mut on_device_max = 0;
        for position in path(name, 10_000, COUNT, &mut Rng::new(3)) {
            let visible: Vec<u64> = (0..SEEN).map(|step| (position + step) % COUNT).collect();
            uses.clear();
            visible.iter().for_each(|index| uses.add(&textures[*index as usize]));
            let (frame, mut commands) = (program.timeline.begin(), Vec::new());
            let started = Instant::now();
            let step = program.commit(&uses, &frame, &mut commands).expect("no allocation is refused");
            times.push(started.elapsed().as_nanos() as u64);
            assert_eq!(step.away_count, 0);
            on_device_max = on_device_max.max(step.device_bytes);
            let at = seen.len() as u64;
            let looked = visible[(at % SEEN) as usize];
            let mip = (at % 3) as u32;
            let expected = texels(looked, mip)[..(SIDE >> mip) as usize * 4].to_vec();
            program.look(&frame, &mut commands, &textures[looked as usize], mip, expected);
            seen.push(visible);
            program.submit(frame, commands);
            program.pace(2);
        }
        let totals = program.paging.totals();
        assert!(on_device_max <= room * (BYTES + 2000));
        assert_eq!(totals.written_back_bytes, 0, "textures that are only read need no copy to the host");
        let (loads, optimal) = (totals.brought_bytes / BYTES, optimal_loads(&seen, room as usize));
        times.sort_unstable();
        println!(
            "{name}: {loads} loads, the optimal policy {optimal}, ratio {:.3}; a commit p50 {} ns, p99 {} ns",
            loads as f64 / optimal as f64,
            times[times.len() / 2],
            times[times.len() * 99 / 100]
        );
        assert!(loads * 10 <= optimal * 12, "{name}: {loads} loads, the optimal policy {optimal}");
        drop(textures);
        program.end();
    }
}

#[test]
fn a_limited_heap_serves_a_scene_of_three_times_its_bytes() {
    const COUNT: u64 = 300;
    // The heap is the device's; textures share it with the other allocations of the program.
    let mut heap_bytes_max = [u64::MAX; 16];
    heap_bytes_max[0] = COUNT / 3 * BYTES;
    let allocator = AllocatorDesc { heap_bytes_max, device_block_bytes_max: 256 << 10, ..Default::default() };
    let desc = PagingDesc { reserve_bytes: 256 << 10, ..Default::default() };
    let mut program = Program::new(Profile::h200(), allocator, desc);
    let textures: Vec<PagedTexture> = (0..COUNT)
        .map(|index| program.paging.add_texture(&desc_of(index), &contents_of(index), PageDesc::default()))
        .map(|added| added.expect("host memory"))
        .collect();
    let mut uses = PageUses::new();
    for step in 0..3_000_u64 {
        uses.clear();
        let visible: Vec<u64> = (0..12).map(|seen| (step / 3 + seen) % COUNT).collect();
        visible.iter().for_each(|index| uses.add(&textures[*index as usize]));
        let (frame, mut commands) = (program.timeline.begin(), Vec::new());
        program.commit(&uses, &frame, &mut commands).expect("no allocation is refused");
        let looked = visible[step as usize % 12];
        let first_mip = looked as u32 % 3;
        let expected = texels(looked, first_mip)[..(SIDE >> first_mip) as usize * 4].to_vec();
        program.look(&frame, &mut commands, &textures[looked as usize], 0, expected);
        program.submit(frame, commands);
        program.pace(2);
    }
    assert!(program.memory.budgets().heap(0).reserved_bytes <= COUNT / 3 * BYTES);
    drop(textures);
    program.end();
}

/// Textures of three sizes.
fn desc_of(index: u64) -> TextureDesc {
    let first = (index % 3) as u32;
    TextureDesc { width: SIDE >> first, height: SIDE >> first, mips: MIPS - first, ..desc() }
}

fn contents_of(index: u64) -> Vec<u8> {
    let first = (index % 3) as u32;
    (first..MIPS).flat_map(|mip| texels(index, mip)).collect()
}
