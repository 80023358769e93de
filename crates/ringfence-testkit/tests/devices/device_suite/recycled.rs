//! Recycled objects on every device. An object contains only the writes of its current owner.

use std::collections::VecDeque;
use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage, ClearValue, TextureDesc, TextureUsage};
use ringfence::{AllocationDesc, Buffer, Location, SmallBuffer};
use ringfence_testkit::{Command, Gpu};

use crate::device_suite::rig::{Rig, copy, pattern};

const SIDE: u32 = 32;
const FRAMES: u64 = 40;

/// A frame in flight, with its readback buffers and their expected contents.
struct Pending<G: Gpu> {
    value: u64,
    seed: u64,
    back: [Buffer<G::Device>; 3],
}

/// Writes a pattern to a texture (through a buffer), a buffer and a small buffer, and copies all of them to readback
/// buffers. Drops the three before the device has begun.
fn frame<G: Gpu>(rig: &mut Rig<G>, seed: u64) -> Pending<G> {
    let region = rig.region(SIDE, SIDE, 0);
    let bytes = region.row_bytes * u64::from(SIDE);
    let frame = rig.timeline().begin();
    let mut upload = rig.buffer(bytes, Location::Upload, "upload");
    let texels = pattern(seed, bytes as usize);
    upload.write(0, &texels).expect("upload memory is mapped");
    let texture = rig.texture(SIDE, SIDE, if seed.is_multiple_of(3) { "third" } else { "texture" });
    let middle = rig.buffer(bytes, Location::Device, "middle");
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let small: SmallBuffer<G::Device> =
        rig.memory.create_small_buffer(BufferDesc { size: 1024, usage }, Location::Device).expect("there is room");
    let back = std::array::from_fn(|_| rig.buffer(bytes, Location::Readback, "back"));
    let [of_texture, of_buffer, of_small] = &back;
    let object = |buffer: &Buffer<G::Device>| buffer.object().clone();
    let commands = [
        Command::CopyBufferToTexture { src: object(&upload), dst: texture.object().clone(), region, discard: true },
        Command::CopyTextureToBuffer { src: texture.object().clone(), dst: object(of_texture), region },
        copy(&upload, 0, &middle, 0, bytes),
        copy(&middle, 0, of_buffer, 0, bytes),
        Command::CopyBuffer {
            src: object(&upload),
            src_offset: 0,
            dst: small.object().clone(),
            dst_offset: small.offset(),
            size: 1024,
        },
        Command::CopyBuffer {
            src: small.object().clone(),
            src_offset: small.offset(),
            dst: object(of_small),
            dst_offset: 0,
            size: 1024,
        },
    ];
    let value = rig.submit(frame, &commands);
    drop((upload, texture, middle, small));
    rig.memory.reclaim();
    Pending { value, seed, back }
}

/// Compares the bytes that were read back, and drops their buffers.
fn check<G: Gpu>(rig: &Rig<G>, Pending { value, seed, back }: Pending<G>) {
    assert!(rig.timeline().wait(value, Duration::from_secs(60)).expect("the device is not lost"));
    let row_bytes = rig.region(SIDE, SIDE, 0).row_bytes as usize;
    let expected = pattern(seed, row_bytes * SIDE as usize);
    let [of_texture, of_buffer, of_small] = back.map(|back| {
        let mut bytes = vec![0; expected.len()];
        back.read(0, &mut bytes).expect("readback memory is mapped");
        bytes
    });
    let texels =
        |bytes: &[u8]| bytes.chunks(row_bytes).flat_map(|row| row[..SIDE as usize * 4].to_vec()).collect::<Vec<_>>();
    assert_eq!(texels(&of_texture), texels(&expected), "frame {seed}: the texture");
    assert_eq!(of_buffer, expected, "frame {seed}: the buffer");
    assert_eq!(of_small[..1024], expected[..1024], "frame {seed}: the small buffer");
}

pub fn recycled_objects_hold_what_each_owner_writes<G: Gpu>(rig: &mut Rig<G>) {
    let mut pending = VecDeque::new();
    for seed in 0..FRAMES {
        pending.push_back(frame(rig, seed));
        if pending.len() == 3 {
            let oldest = pending.pop_front().expect("three are under way");
            check(rig, oldest);
        }
    }
    pending.into_iter().for_each(|last| check(rig, last));
    let calls = rig.memory.statistics().calls;
    assert!(calls.recycled > FRAMES * 3, "at least the buffers were recycled: {calls:?}");
    rig.memory.debug().validate().expect("sound");
    rig.memory.reclaim();
    assert!(rig.memory.statistics().recycled_count > 0);
    rig.memory.budgets().trim();
    assert_eq!(rig.memory.statistics().recycled_count, 0);
}

/// A recycled texture does not inherit the clear value of its previous owner. Vulkan images have no clear value, so
/// textures with equal images can have different clear values.
pub fn what_only_the_owner_knows_of_a_texture_is_not_the_next_owners<G: Gpu>(rig: &mut Rig<G>) {
    let plain = TextureDesc { width: 64, height: 64, usage: TextureUsage::RENDER_TARGET, ..TextureDesc::default() };
    let cleared = TextureDesc { clear_value: Some(ClearValue::color([0.5; 4])), ..plain };
    for round in 0..4 {
        let info = plain;
        let mut texture = rig.memory.create_texture(&info, AllocationDesc::default()).expect("there is room");
        assert_eq!(texture.desc().expect("it is portable").clear_value, None, "round {round}");
        let frame = rig.timeline().begin();
        texture.swap_mips(&frame, &cleared, AllocationDesc::default()).expect("there is room");
        assert_eq!(texture.desc(), Some(&cleared), "round {round}");
        drop(texture);
        let value = rig.submit(frame, &[]);
        assert!(rig.timeline().wait(value, Duration::from_secs(60)).expect("the device is not lost"));
        rig.memory.reclaim();
    }
}
