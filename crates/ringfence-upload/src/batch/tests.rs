//! Tests of the copies in a batch: the roles of their buffers, their barriers, their parts.

use super::*;
use crate::device::{BufferDesc, BufferUsage};
use crate::sim::{Device, Profile, SimOptions};
use ringfence_memory::{AllocationDesc, Allocator, AllocatorDesc};

/// Two buffers may have the same hash: then the other buffer's role is no answer.
#[test]
fn a_buffer_has_its_own_role_although_another_has_its_hash() {
    let memory = Allocator::over(Device::new(Profile::h200(), SimOptions::default()), AllocatorDesc::default());
    let desc = BufferDesc { size: 64, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
    let [source, target, stranger] =
        [(); 3].map(|()| memory.create_buffer(&desc, AllocationDesc::default()).expect("an empty device has room"));
    let mut batch = UploadBatch::new();
    batch.copy(&Staged::of(&source, 0, 16).expect("inside"), &target, 0).expect("it fits");
    let buffers = [&source, &target, &stranger].map(|buffer| *buffer.object());
    for role in [Role::Source(0), Role::Target(0)] {
        batch.known.insert(1, role);
        let roles = buffers.each_ref().map(|buffer| batch.role(buffer, 1));
        assert!(matches!(roles, [Some(Role::Source(0)), Some(Role::Target(0)), None]));
    }
}

#[test]
fn each_destination_has_two_barriers_and_saves_those_of_its_further_copies() {
    for (copy_count, target_count, barriers, spared) in
        [(0, 0, 0, 0), (1, 1, 2, 0), (5, 1, 2, 8), (5, 2, 4, 6), (3, 3, 6, 0), (1, 4, 8, 0)]
    {
        let figures = BatchFigures { copy_count, target_count, ..Default::default() };
        assert_eq!((figures.barrier_count(), figures.barriers_spared()), (barriers, spared), "{figures:?}");
    }
}

#[test]
fn a_part_of_a_copy_begins_as_far_into_its_source() {
    let region = CopyRegion { src_offset: 1000, dst_offset: 100, size: 50 };
    let copy = Copy { target: 3, source: 4, region };
    assert_eq!(copy.end(), 150);
    for (from, to, part) in [
        (0, 1000, Some((1000, 100, 50))),
        (100, 150, Some((1000, 100, 50))),
        (110, 150, Some((1010, 110, 40))),
        (100, 101, Some((1000, 100, 1))),
        (149, 200, Some((1049, 149, 1))),
        (150, 200, None),
        (0, 100, None),
        (120, 120, None),
        (130, 120, None),
    ] {
        let found = copy.part(from, to).map(|part| {
            assert_eq!((part.target, part.source), (3, 4));
            (part.region.src_offset, part.region.dst_offset, part.region.size)
        });
        assert_eq!(found, part, "{from}..{to}");
    }
}
