//! Copies of bytes through the memory that the facade allocates.

use gpu_allocator::MemoryLocation;

use crate::rig::Rig;

#[test]
fn bytes_written_through_a_slab_come_back_through_the_pointer() {
    let Some(mut rig) = Rig::open() else { return };
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let size = bytes.len() as u64;
    let buffers = [(); 3].map(|()| rig.buffer(size));
    let locations = [MemoryLocation::CpuToGpu, MemoryLocation::GpuOnly, MemoryLocation::GpuToCpu];
    let mut index = 0;
    let mut held = locations.map(|location| {
        let allocation = rig.allocate_for(buffers[index], location).expect("memory");
        rig.bind(buffers[index], &allocation);
        index += 1;
        allocation
    });
    let record = presser::copy_from_slice_to_offset(&bytes, &mut held[0], 0).expect("it is mapped");
    assert_eq!((record.copy_start_offset, record.copy_end_offset), (0, bytes.len()));
    rig.copy(buffers[0], buffers[1], size);
    rig.copy(buffers[1], buffers[2], size);
    let pointer = held[2].mapped_ptr().expect("it is mapped").cast::<u8>();
    // SAFETY: the device has written all bytes and has finished.
    let back = unsafe { std::slice::from_raw_parts(pointer.as_ptr(), bytes.len()) };
    assert!(back == bytes);
    buffers.into_iter().for_each(|buffer| rig.destroy(buffer));
    held.into_iter().for_each(|allocation| rig.allocator().free(allocation).expect("it is this allocator's"));
    rig.finish();
}
