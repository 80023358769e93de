//! A replacement of a resource is created like any other: with its user data, its address, and its record in debugging.

use std::time::Duration;

use ringfence::debugging::DebugDesc;
use ringfence::device::{BufferDesc, BufferUsage, TexelError, TextureDesc, TextureUsage};
use ringfence::sim::{Barrier, BufferRange, Command};
use ringfence::{AllocationDesc, AllocatorDesc};
use ringfence_testkit::fixture::{FaultyFixture, Fixture, FixtureDesc};

use crate::memory::world::Device;

fn fixture() -> FaultyFixture {
    let allocator = AllocatorDesc { debug: DebugDesc::everything(), ..Default::default() };
    Fixture::faulty(FixtureDesc { allocator, ..Default::default() })
}

fn addressed(size: u64) -> BufferDesc {
    BufferDesc { size, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST | BufferUsage::DEVICE_ADDRESS }
}

/// Checks that debugging knows one live resource of this name, with its user data and a line of this file.
#[track_caller]
fn check_known(world: &Fixture<Device>, name: &str, user_data: u64) {
    let known: Vec<_> = world.memory.debug().live().into_iter().filter(|held| &*held.name == name).collect();
    let [held] = known.as_slice() else { panic!("{name}: {known:?}") };
    assert_eq!((held.user_data, held.is_retired), (user_data, false), "{name}");
    let made_at = held.made_at.map(std::panic::Location::file);
    assert!(made_at.is_some_and(|file| file.ends_with("replace.rs")), "{name}: {made_at:?}");
}

#[test]
fn a_buffer_that_is_replaced_or_resized_has_its_address_and_user_data() {
    let world = fixture();
    let old = AllocationDesc { name: "old", user_data: 1, ..Default::default() };
    let mut buffer = world.memory.create_buffer(&addressed(256), old).expect("there is room");
    assert!(buffer.device_address().is_some());

    let replaced = AllocationDesc { name: "replaced", user_data: 2, ..Default::default() };
    buffer.replace(&addressed(512), replaced).expect("there is room");
    assert!(buffer.device_address().is_some(), "after replace");
    assert_eq!((buffer.user_data(), buffer.size()), (2, 512));
    check_known(&world, "replaced", 2);

    let resized = AllocationDesc { name: "resized", user_data: 3, ..Default::default() };
    let frame = world.timeline().begin();
    let copy = buffer.resize(&frame, &addressed(1024), 512, resized).expect("there is room");
    assert_eq!(copy.expect("bytes are kept").size, 512);
    assert!(buffer.device_address().is_some(), "after resize");
    assert_eq!((buffer.user_data(), buffer.size()), (3, 1024));
    check_known(&world, "resized", 3);
    world.complete(frame);
    drop(buffer);
    world.finish();
}

/// The recorded copy fills the first bytes of the new buffer.
#[test]
fn a_resized_buffer_has_the_bytes_that_its_copy_keeps() {
    let world = Fixture::new(FixtureDesc::default());
    let mut buffer = world.memory.create_buffer(&addressed(256), AllocationDesc::default()).expect("there is room");
    let frame = world.timeline().begin();
    let dst = *buffer.object();
    let fill = |value, size| Command::FillBuffer { dst, offset: 0, size, value };
    let mut commands = vec![fill(7, 256), Command::Barrier(Barrier::All)];
    let copy = buffer.resize(&frame, &addressed(512), 128, AllocationDesc::default()).expect("there is room");
    // SAFETY: the commands are submitted as this frame.
    unsafe { copy.expect("bytes are kept").record(&mut commands) };
    world.device.submit(0, &[], commands, (world.fence(), frame.value())).expect("the device is not lost");
    world.timeline().submitted(frame).expect("in order");
    assert!(world.device.run_until_idle());
    let contents = world.device.peek(BufferRange { buffer: *buffer.object(), offset: 0, size: 128 }).expect("alive");
    assert_eq!(contents, [7; 128]);
    assert_eq!(world.device.take_hazards(), []);
    drop(buffer);
    world.memory.shutdown(Duration::ZERO).expect("all work is complete");
}

#[test]
fn the_box_of_a_mip_has_its_extent_and_a_missing_mip_is_an_error() {
    let world = Fixture::new(FixtureDesc::default());
    let usage = TextureUsage::COPY_SRC;
    let desc = TextureDesc { width: 60, height: 20, layers: 3, mips: 4, usage, ..Default::default() };
    let texture = world.memory.create_texture(&desc, AllocationDesc::default()).expect("there is room");
    let found = texture.mip_box(3).expect("the last mip level");
    assert_eq!((found.mip, found.layers, [found.width, found.height, found.depth]), (3, 3, [7, 2, 1]));
    assert_eq!(texture.mip_box(4), Err(TexelError::NoMip { mip: 4, mips: 4 }));
    drop(texture);
    world.memory.shutdown(Duration::ZERO).expect("all work is complete");
}

#[test]
fn a_texture_that_has_other_mips_has_its_user_data() {
    let world = fixture();
    let usage = TextureUsage::SAMPLED | TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let whole = TextureDesc { width: 64, height: 64, mips: 3, usage, ..Default::default() };
    let half = TextureDesc { width: 32, height: 32, mips: 2, ..whole };
    let old = AllocationDesc { name: "half", user_data: 1, ..Default::default() };
    let mut texture = world.memory.create_texture(&half, old).expect("there is room");

    let streamed = AllocationDesc { name: "whole", user_data: 2, ..Default::default() };
    let frame = world.timeline().begin();
    let swap = texture.swap_mips(&frame, &whole, streamed).expect("there is room");
    assert_eq!((swap.copies.len(), swap.to_fill), (2, vec![0]));
    assert_eq!(texture.user_data(), 2);
    assert!(texture.parts().is_some(), "its mips and aspects are known");
    check_known(&world, "whole", 2);
    world.complete(frame);
    drop(texture);
    world.finish();
}
