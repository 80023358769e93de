//! Writes and reads of plain values, as bytes of buffers.

use ringfence::memory::AccessError;
use ringfence::{AllocationDesc, Location};

use crate::memory::world::{KIB, MIB, info, on_card};

#[test]
fn a_slice_of_values_has_its_bytes_in_a_buffer() {
    let world = on_card(64 * MIB, 64 * MIB);
    let desc = AllocationDesc { location: Location::Upload, ..Default::default() };
    let mut buffer = world.memory.create_buffer(&info(KIB), desc).expect("room");
    buffer.write(0, &[0xff; 32]).expect("it is mapped");
    buffer.write_slice(8, &[0x0403_0201_u32, 0x0807_0605]).expect("it is mapped");
    let mut bytes = [0; 24];
    buffer.read(0, &mut bytes).expect("it is mapped");
    assert_eq!(bytes[..8], [0xff; 8]);
    assert_eq!(bytes[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes[16..], [0xff; 8]);
    let mut values = [0_u16; 4];
    buffer.read_slice(8, &mut values).expect("it is mapped");
    assert_eq!(values, [0x0201, 0x0403, 0x0605, 0x0807]);
    let beyond = buffer.write_slice(KIB - 4, &[1_u32, 2]);
    assert_eq!(beyond, Err(AccessError::OutOfRange { offset: KIB - 4, size: 8, resource_size: KIB }));
    let beyond = buffer.read_slice(KIB - 4, &mut [0_u32; 2]);
    assert_eq!(beyond, Err(AccessError::OutOfRange { offset: KIB - 4, size: 8, resource_size: KIB }));
    drop(buffer);
    world.finish();
}

#[test]
fn a_slice_of_values_has_its_bytes_in_a_small_buffer() {
    let world = on_card(64 * MIB, 64 * MIB);
    // The first one has the bytes before it.
    let mut small = [(); 2].map(|()| world.memory.create_small_buffer(info(64), Location::Upload).expect("room"));
    small[0].write(0, &[0xee; 64]).expect("it is mapped");
    small[1].write(0, &[0xff; 64]).expect("it is mapped");
    small[1].write_slice(4, &[0x0403_0201_u32]).expect("it is mapped");
    let mut bytes = [0; 12];
    small[1].read(0, &mut bytes).expect("it is mapped");
    assert_eq!(bytes, [0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff]);
    let mut values = [0_u16; 2];
    small[1].read_slice(4, &mut values).expect("it is mapped");
    assert_eq!(values, [0x0201, 0x0403]);
    let mut rest = [0; 64];
    small[0].read(0, &mut rest).expect("it is mapped");
    assert_eq!(rest, [0xee; 64], "the other one keeps its bytes");
    drop(small);
    world.finish();
}
