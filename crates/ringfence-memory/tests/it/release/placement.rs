//! The placement policy with three queues that run out of step: ranges are freed and reused for 10,000 frames, and the
//! hazard finder reports nothing.

use ringfence::device::{BufferUsage, TextureDesc, TextureUsage};
use ringfence::placement::{
    BufferLocation, BufferRequest, Dynamism, FastWriter, Placement, PlacementDesc, TextureLocation,
};
use ringfence::sim::{BufferLayout, Command, Device, Profile, SimOptions, TextureRegion};
use ringfence::{Allocator, AllocatorDesc, Timeline};
use ringfence_core::testing::rng::Rng;

use super::world::{QUEUES, set};

const FRAMES: u64 = 10_000;

/// A resource in use, with the last value of each queue that uses it.
struct Held<T> {
    what: T,
    users: [u64; QUEUES],
    is_target: bool,
}

#[test]
fn three_queues_out_of_step_reuse_every_kind_of_place_without_a_hazard() {
    for (profile, seed) in [(Profile::h200(), 1), (Profile::d3d12_tier1(), 2), (Profile::non_coherent(), 3)] {
        run(profile, seed);
    }
}

fn run(profile: Profile, seed: u64) {
    let device = Device::new(profile, SimOptions { seed, queues: QUEUES, ..Default::default() });
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    let fences: Vec<_> = (0..QUEUES).map(|_| device.create_fence(0)).collect();
    // SAFETY: the fences belong to the device, and every submission signals its frame's value.
    let timeline = |&fence| unsafe { memory.timeline(fence) }.expect("the device is not lost");
    let timelines: Vec<Timeline<Device>> = fences.iter().map(timeline).collect();
    // Small blocks and a short lag, so that blocks are created and freed.
    let desc = PlacementDesc {
        small_upload_bytes_max: 4 << 10,
        big_upload_bytes_max: 64 << 10,
        small_block_bytes: 16 << 10,
        big_block_bytes: 128 << 10,
        fast_page_bytes: 4 << 10,
        fast_block_bytes: 16 << 10,
        default_block_bytes: 256 << 10,
        default_buffer_bytes_max: 64 << 10,
        texture_block_bytes: 1 << 20,
        texture_bytes_max: 512 << 10,
        idle_frames: 4,
        ..Default::default()
    };
    let placement = Placement::new(&memory, desc).expect("a sound description");
    let mut dice = Rng::new(seed);
    let (mut buffers, mut textures) =
        (Vec::<Held<BufferLocation<Device>>>::new(), Vec::<Held<TextureLocation<Device>>>::new());
    let target = BufferRequest { size: 1024, usage: BufferUsage::COPY_DST, ..Default::default() };
    let targets: Vec<_> = (0..QUEUES).map(|_| placement.create_buffer(&target).expect("there is room")).collect();
    let mut writer = None;
    let (mut submitted, mut blocks_gone) = ([0_u64; QUEUES], 0);
    for frame in 0..FRAMES {
        let bursts = if frame / 50 % 2 == 0 { 3 } else { 1 };
        for _ in 0..dice.below(bursts + 1) {
            make(&placement, &mut dice, &mut buffers, &mut textures);
        }
        for queue in 0..QUEUES {
            if dice.below(1 + 2 * queue as u64) > 0 {
                continue;
            }
            let begun = timelines[queue].begin();
            let mut commands = Vec::new();
            if !buffers.is_empty() && dice.below(2) == 0 {
                let at = dice.below(buffers.len() as u64) as usize;
                let held = &mut buffers[at];
                held.users[queue] = begun.value();
                let (src, src_offset) = (*held.what.object(), held.what.offset());
                let (dst, dst_offset) = (*targets[queue].object(), targets[queue].offset());
                let size = held.what.size().min(1024);
                commands.push(Command::CopyBuffer { src, src_offset, dst, dst_offset, size });
            }
            // Each page belongs to one frame of one queue.
            let writer = match &mut writer {
                Some(writer) => FastWriter::begin(writer, &begun).map(|()| writer),
                none => placement.fast_constants().writer(&begun).map(|writer| none.insert(writer)),
            };
            let constants = writer.expect("the frame is the allocator's own").write(&[frame as u8; 64]);
            let constants = constants.expect("there is a page");
            let (dst, dst_offset) = (*targets[queue].object(), targets[queue].offset());
            let (src, src_offset) = (constants.buffer, constants.offset);
            commands.push(Command::CopyBuffer { src, src_offset, dst, dst_offset, size: 64 });
            if queue == 0 && !textures.is_empty() {
                // Uses only one queue: this tests the policy, not the program's order between queues.
                let at = dice.below(textures.len() as u64) as usize;
                textures[at].users[queue] = begun.value();
                let texture = *textures[at].what.texture().object();
                let layout = BufferLayout { offset: targets[0].offset().next_multiple_of(512), row_bytes: 256 };
                if textures[at].is_target {
                    commands.push(Command::Discard { texture });
                }
                let region = TextureRegion { mip: 0, layer: 0, x: 0, y: 0, width: 16, height: 1 };
                commands.push(Command::CopyTextureToBuffer { src: texture, region, dst: *targets[0].object(), layout });
            }
            device.submit(queue, &[], commands, (fences[queue], begun.value())).expect("the device is not lost");
            submitted[queue] = begun.value();
            timelines[queue].submitted(begun).expect("in order");
        }
        while buffers.len() > 20 || (!buffers.is_empty() && dice.below(2) == 0) {
            let held = buffers.swap_remove(dice.below(buffers.len() as u64) as usize);
            if dice.below(2) == 0 {
                // SAFETY: exactly these submissions use it.
                unsafe { held.what.retire_after(&set(&timelines, held.users)) };
            }
        }
        if textures.len() > 6 {
            textures.swap_remove(dice.below(textures.len() as u64) as usize);
        }
        blocks_gone += placement.end_frame().blocks;
        device.advance(dice.below(6));
        let hazards: Vec<String> = device.take_hazards().iter().map(ToString::to_string).collect();
        assert!(hazards.is_empty(), "seed {seed}, frame {frame}: {hazards:#?}");
        if frame % 64 == 0 {
            memory.debug().validate().unwrap_or_else(|broken| panic!("seed {seed}, frame {frame}: {broken}"));
        }
        for queue in 0..QUEUES {
            let value = submitted[queue].saturating_sub(3);
            assert!(timelines[queue].wait(value, std::time::Duration::MAX).expect("the device is not lost"));
        }
    }
    assert!(blocks_gone > 100, "blocks come and go: {blocks_gone}");
    drop((buffers, textures, targets, writer, timelines));
    memory.shutdown(std::time::Duration::MAX).expect("the work is complete");
    let left = placement.figures();
    assert_eq!(
        left,
        ringfence::placement::PlacementFigures {
            default_buffers: vec![Default::default(); left.default_buffers.len()],
            ..Default::default()
        }
    );
    drop((placement, memory));
    assert_eq!(device.live(), Default::default());
    assert!(device.take_hazards().is_empty());
}

/// Creates a resource of a random kind, with content if the host can write it.
fn make(
    placement: &Placement<Device>,
    dice: &mut Rng,
    buffers: &mut Vec<Held<BufferLocation<Device>>>,
    textures: &mut Vec<Held<TextureLocation<Device>>>,
) {
    let size_log2 = 4 + dice.below(14);
    let size = 4 + dice.below(1 << size_log2) / 4 * 4;
    let dynamic = |usage| BufferRequest { size, usage, dynamism: Dynamism::Dynamic, ..Default::default() };
    let request = match dice.below(5) {
        0 | 1 => dynamic(BufferUsage::COPY_SRC),
        2 => dynamic(BufferUsage::COPY_SRC | BufferUsage::CONSTANT),
        3 => BufferRequest { size, usage: BufferUsage::COPY_SRC | BufferUsage::VERTEX, ..Default::default() },
        _ => BufferRequest { size, usage: BufferUsage::COPY_SRC | BufferUsage::STORAGE, ..Default::default() },
    };
    let mut what = placement.create_buffer(&request).expect("there is room");
    if request.dynamism == Dynamism::Dynamic {
        // The hazard finder reports a host write to bytes that pending work reads, which shows a range that was reused
        // too early.
        what.write(0, &vec![1; size as usize]).expect("an upload is mapped");
    }
    buffers.push(Held { what, users: [0; QUEUES], is_target: false });
    if dice.below(4) == 0 {
        let usage = [TextureUsage::SAMPLED, TextureUsage::RENDER_TARGET, TextureUsage::STORAGE][dice.below(3) as usize];
        let side = 16 << dice.below(5);
        let desc =
            TextureDesc { width: side, height: side, usage: usage | TextureUsage::COPY_SRC, ..Default::default() };
        let what = placement.create_texture(&desc, "").expect("there is room");
        textures.push(Held { what, users: [0; QUEUES], is_target: usage == TextureUsage::RENDER_TARGET });
    }
}
