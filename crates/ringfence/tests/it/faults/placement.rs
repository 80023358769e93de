//! The placement policy: each kind of placement, and each way to release it.

use ringfence::device::{BufferUsage, TextureDesc, TextureUsage};
use ringfence::placement::{
    BufferLocation, BufferRequest, Dynamism, LocationKind, Placement, PlacementDesc, Route, Strategy, TextureKind,
};

use ringfence_testkit::faults::pattern;

use super::{Device, KIB, World, copy, every_call_fails_once};

const COPIED: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);

fn policy(world: &World) -> Placement<Device> {
    let desc = PlacementDesc {
        small_upload_bytes_max: 4 * KIB,
        big_upload_bytes_max: 16 * KIB,
        default_buffer_bytes_max: 32 * KIB,
        texture_bytes_max: 64 * KIB,
        small_texture_bytes_max: 16 * KIB,
        small_block_bytes: 16 * KIB,
        big_block_bytes: 32 * KIB,
        fast_page_bytes: 4 * KIB,
        fast_block_bytes: 8 * KIB,
        default_block_bytes: 64 * KIB,
        texture_block_bytes: 256 * KIB,
        idle_frames: 1,
        ..Default::default()
    };
    Placement::new(&world.memory, desc).expect("a sound description")
}

fn end(placement: Placement<Device>) {
    (0..3).for_each(|_| _ = placement.end_frame());
}

fn raw(of: &BufferLocation<Device>) -> (ringfence::device::RawBuffer<Device>, u64) {
    (*of.object(), of.offset())
}

#[test]
fn uploads_of_every_size_and_default_buffers_of_both_strategies() {
    every_call_fails_once(|world| {
        let placement = policy(world);
        let bytes = pattern(1, 2 * KIB);
        let mut held = Vec::new();
        for size in [2 * KIB, 4 * KIB + 1, 16 * KIB + 1] {
            let request = BufferRequest {
                size,
                usage: COPIED,
                dynamism: Dynamism::Dynamic,
                name: "upload",
                ..Default::default()
            };
            let request = BufferRequest { usage: BufferUsage::COPY_SRC, ..request };
            let mut made = world.step(|| placement.create_buffer(&request));
            world.step(|| made.write(0, &bytes));
            held.push(made);
        }
        for (size, strategy) in
            [(2 * KIB, Strategy::Placed), (2 * KIB, Strategy::Suballocated), (40 * KIB, Strategy::Placed)]
        {
            let request =
                BufferRequest { size, usage: COPIED, strategy: Some(strategy), name: "default", ..Default::default() };
            held.push(world.step(|| placement.create_buffer(&request)));
        }
        // Copy through all of them, one after the other.
        let hops = held[2..].windows(2);
        let commands: Vec<_> = hops.map(|pair| copy(raw(&pair[0]), raw(&pair[1]), 2 * KIB)).collect();
        let frame = world.timelines[0].begin();
        world.submit(frame, &commands)?;
        for made in &held {
            world.expect_at(raw(made), &bytes)?;
        }
        let alone = held.iter().filter(|made| made.kind() == LocationKind::StandAlone).count();
        assert!((2..=4).contains(&alone), "a buffer that did not fit into its pool has its own buffer: {alone}");
        drop(held);
        end(placement);
        Ok(())
    });
}

#[test]
fn textures_of_every_kind_aliased_ones_and_their_readback() {
    every_call_fails_once(|world| {
        let placement = policy(world);
        let texture = |side, usage| TextureDesc { width: side, height: side, usage, ..Default::default() };
        let usages = [TextureUsage::SAMPLED, TextureUsage::RENDER_TARGET, TextureUsage::STORAGE];
        let mut held: Vec<_> = usages
            .iter()
            .map(|&usage| world.step(|| placement.create_texture(&texture(100, usage), "pooled")))
            .collect();
        held.push(world.step(|| placement.create_texture(&texture(32, TextureUsage::SAMPLED), "small")));
        held.push(world.step(|| placement.create_texture(&texture(256, TextureUsage::SAMPLED), "alone")));
        assert_eq!(held[4].route(), Route::StandAlone);
        assert_eq!(held[3].texture_kind(), TextureKind::SmallSampled);
        let heap = world.step(|| placement.aliased_heap(&texture(64, TextureUsage::RENDER_TARGET), 256 * KIB, "turns"));
        let turn = || world.step(|| heap.create_texture(&texture(64, TextureUsage::RENDER_TARGET), 0, "turn"));
        drop(turn());
        let second = turn();
        let back = world.step(|| placement.create_readback_texture(&texture(16, TextureUsage::SAMPLED), "back"));
        drop((heap, held, second, back));
        end(placement);
        Ok(())
    });
}

#[test]
fn buffers_that_are_resized_with_their_bytes_and_fast_constants() {
    every_call_fails_once(|world| {
        let placement = policy(world);
        let constants = pattern(3, 256);
        let request = |size| BufferRequest { size, usage: COPIED, name: "resized", ..Default::default() };
        let mut held = world.step(|| placement.create_buffer(&request(4 * KIB)));
        let frame = world.timelines[0].begin();
        let mut writer = placement.fast_constants().writer(&frame).expect("the frame is the allocator's own");
        let mut commands = Vec::new();
        for number in 0..24_u64 {
            // Writes more than a page and more than a buddy.
            let staged = world.step(|| writer.write(&constants));
            let to = (*held.object(), held.offset() + number % 16 * 256);
            commands.push(copy((staged.buffer, staged.offset), to, 256));
        }
        assert_eq!(placement.figures().fast_pages.range_count, 2, "a buffer that could not be flushed takes no space");
        drop(writer);
        world.submit(frame, &commands)?;
        for size in [8 * KIB, 48 * KIB, 4 * KIB] {
            let frame = world.timelines[0].begin();
            let kept = world.step(|| placement.resize_buffer(&mut held, &frame, &request(size), 4 * KIB));
            let kept = kept.expect("there are bytes to keep");
            let ringfence::lifetime::BufferCopy { src, src_offset, dst, dst_offset, size, .. } = kept;
            world.submit(frame, &[copy((src, src_offset), (dst, dst_offset), size)])?;
            placement.end_frame();
        }
        world.expect_at(raw(&held), &constants.repeat(16))?;
        drop(held);
        end(placement);
        Ok(())
    });
}
