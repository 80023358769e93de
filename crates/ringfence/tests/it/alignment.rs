//! Ranges that the APIs require to be aligned are aligned in memory too, not only in their buffer. The device aligns
//! buffers to 8 bytes only, whatever views they are for (tight alignment on Direct3D 12).

use std::ops::Deref;

use ringfence::device::descriptors::{BufferViewKind, Descriptors, HeapDesc, HeapKind, ViewTypes};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, Format};
use ringfence::memory::Error;
use ringfence::placement::{BufferRequest, Dynamism, FastConstantsDesc, Placement, PlacementDesc, Strategy};
use ringfence::sim::{BufferId as Raw, BufferRange, Device, Profile, View};
use ringfence::upload::{ConstantsDesc, ReadbackDesc, UploadDesc};
use ringfence::{
    AllocationDesc, Buffer, ConstantBuffers, Dedicated, FastConstants, Location, ReadbackRing, UploadRing,
};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

const CONSTANTS: BufferViewKind = BufferViewKind::Constants;
const WORDS: BufferViewKind = BufferViewKind::Storage { stride: 0, writes: false };
const TEXELS: BufferViewKind = BufferViewKind::Texels { format: Format::Rgba8Unorm, writes: false };

const USAGES: [BufferUsage; 10] = [
    BufferUsage::COPY_SRC,
    BufferUsage::COPY_DST,
    BufferUsage::VERTEX,
    BufferUsage::INDEX,
    BufferUsage::CONSTANT,
    BufferUsage::STORAGE,
    BufferUsage::INDIRECT,
    BufferUsage::DEVICE_ADDRESS,
    BufferUsage::TEXELS,
    BufferUsage::STORAGE_READ,
];

struct Views {
    base: Fixture,
    heap: ringfence::sim::DescriptorHeap,
    /// Buffers that make the next buffer start at an odd offset.
    odd: Vec<Buffer<Device>>,
}

impl Deref for Views {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.base
    }
}

impl Views {
    fn new(profile: Profile) -> Self {
        let base = Fixture::new(FixtureDesc { profile, ..Default::default() });
        let (kind, types, slots) = (HeapKind::Resources, ViewTypes::all(), 1);
        let desc = HeapDesc { kind, types, slots, layout_slots: slots, shader_visible: false, name: "views" };
        let (heap, _) = base.device.make_heap(&desc).expect("it is small");
        Self { base, heap, odd: Vec::new() }
    }

    fn tight() -> Self {
        Self::new(Profile::d3d12_modern())
    }

    /// Allocates a few bytes in each memory that the host or the device uses. The next allocations come after these.
    fn make_odd(&mut self) {
        for location in Location::ALL {
            for size in [8, 24, 104] {
                let desc = BufferDesc { size, usage: BufferUsage::COPY_DST };
                let desc = self.memory.create_buffer(&desc, AllocationDesc { location, ..Default::default() });
                self.odd.push(desc.expect("it is small"));
            }
        }
    }

    /// Checks that a view of the range is valid: the device reports no hazard.
    fn shows(&self, buffer: Raw, offset: u64, size: u64, kind: BufferViewKind) {
        let view = View::Shown(BufferRange::new(buffer, offset, size), kind);
        // SAFETY: the heap has the slot, and the device reports any mistake in the view.
        let written = unsafe { self.device.write_view(&self.heap, 0, &view) };
        let hazards: Vec<String> = self.device.take_hazards().iter().map(ToString::to_string).collect();
        assert!(written.is_ok() && hazards.is_empty(), "{kind:?} at {offset}: {hazards:#?}");
    }
}

#[test]
fn buffers_of_any_size_can_be_shown_as_what_they_are_for() {
    let mut world = Views::tight();
    let kinds = [(BufferUsage::CONSTANT, CONSTANTS), (BufferUsage::STORAGE_READ, WORDS), (BufferUsage::TEXELS, TEXELS)];
    let mut held = Vec::new();
    for size in [100, 256, 100, 20, 1000, 300, 4, 65_540, 100] {
        for location in Location::ALL {
            for dedicated in [Dedicated::Auto, Dedicated::Always] {
                for (usage, kind) in kinds {
                    let desc = AllocationDesc { location, dedicated, ..Default::default() };
                    let buffer = world.memory.create_buffer(&BufferDesc { size, usage }, desc).expect("there is room");
                    world.shows(*buffer.object(), 0, size, kind);
                    held.push(buffer);
                }
            }
        }
        world.make_odd();
    }
    // A buffer without views is placed as densely as the device allows.
    let vertices = BufferDesc { size: 100, usage: BufferUsage::VERTEX };
    let vertices = world.memory.create_buffer(&vertices, AllocationDesc::default()).expect("there is room");
    assert_eq!(vertices.memory_bytes(), 104, "rounded to 8 bytes, not to 256");
}

#[test]
fn small_buffers_can_be_shown_as_what_they_are_for() {
    let mut world = Views::tight();
    let kinds = [(BufferUsage::CONSTANT, CONSTANTS), (BufferUsage::STORAGE, WORDS), (BufferUsage::TEXELS, TEXELS)];
    let mut held = Vec::new();
    for location in Location::ALL {
        world.make_odd();
        for round in 0..5 {
            for (usage, kind) in kinds {
                let size = 100 + round * 52;
                let buffer = world.memory.create_small_buffer(BufferDesc { size, usage }, location).expect("room");
                world.shows(*buffer.object(), buffer.offset(), size, kind);
                held.push(buffer);
            }
        }
    }
}

#[test]
fn small_buffers_are_made_for_every_usage_that_is_asked_for() {
    let world = Views::tight();
    for location in Location::ALL {
        for bits in 1_u32..1 << USAGES.len() {
            let of = |(at, usage): (usize, &BufferUsage)| (bits >> at & 1 == 1).then_some(*usage);
            let usage = USAGES.iter().enumerate().filter_map(of).fold(BufferUsage::empty(), BufferUsage::union);
            let buffer = world.memory.create_small_buffer(BufferDesc { size: 64, usage }, location).expect("room");
            let made = world.device.buffer_desc(*buffer.object()).expect("it is alive").usage;
            assert!(made.contains(usage), "{location:?}: {made:?} lacks some of {usage:?}");
        }
    }
}

#[test]
fn constants_of_every_kind_can_be_shown() {
    let mut world = Views::tight();
    let frame = world.timeline().begin();
    world.make_odd();
    let fast = FastConstants::new(&world.memory, FastConstantsDesc { page_bytes: 1024, ..Default::default() });
    let mut writer = fast.writer(&frame).expect("of this allocator");
    for size in [100, 4, 300, 20, 256, 1000, 100] {
        let staged = writer.write(&vec![1; size]).expect("it fits");
        world.shows(staged.buffer, staged.offset, staged.size, CONSTANTS);
    }
    world.make_odd();
    let constants = ConstantBuffers::new(&world.memory, ConstantsDesc::default(), ()).expect("there is room");
    let mut writer = constants.writer(&frame).expect("of this allocator");
    for size in [100, 4, 300, 20, 256, 1000, 5000] {
        let dynamic = constants.dynamic(size).expect("it is small");
        let bound = writer.bind(&dynamic).expect("there is room");
        world.shows(bound.buffer, bound.offset, bound.size, CONSTANTS);
        let fixed = constants.create_static(&vec![1; size as usize]).expect("there is room");
        let bound = fixed.bound();
        world.shows(bound.buffer, bound.offset, bound.size, CONSTANTS);
        world.make_odd();
    }
}

#[test]
fn what_a_ring_aligns_is_aligned_in_memory() {
    let mut world = Views::tight();
    world.make_odd();
    let frame = world.timeline().begin();
    let usage = BufferUsage::CONSTANT | BufferUsage::COPY_SRC | BufferUsage::DEVICE_ADDRESS | BufferUsage::TEXELS;
    let desc = UploadDesc { usage, capacity: 300 << 10, ..Default::default() };
    let ring = UploadRing::new(&world.memory, desc).expect("there is room");
    for (size, alignment) in [(100, 256), (4, 16), (60, 64), (100, 4096), (700, 512), (1, 1), (100, 65_536)] {
        let staged = ring.write_for(&frame, &vec![1; size], alignment).expect("it fits");
        assert_eq!(staged.address.expect("it has one") % alignment, 0, "the address at {alignment}");
        if alignment >= 256 {
            world.shows(staged.buffer, staged.offset, staged.size, CONSTANTS);
        }
    }
    world.make_odd();
    let usage = BufferUsage::STORAGE | BufferUsage::COPY_DST;
    let desc = ReadbackDesc { usage, capacity: 1 << 10, ..Default::default() };
    let ring = ReadbackRing::new(&world.memory, desc).expect("there is room");
    for (size, alignment) in [(100, 16), (24, 256), (60, 16)] {
        let room = ring.reserve(&frame, size, alignment).expect("it fits");
        world.shows(*room.buffer(), room.offset(), size, WORDS);
    }
}

#[test]
fn a_placement_gives_ranges_that_can_be_shown() {
    let mut world = Views::tight();
    let placement = Placement::new(&world.memory, PlacementDesc::default()).expect("the default");
    let kinds = [(BufferUsage::CONSTANT, CONSTANTS), (BufferUsage::STORAGE_READ, WORDS), (BufferUsage::TEXELS, TEXELS)];
    let mut held = Vec::new();
    for size in [100, 20, 3000, 100_000, 100] {
        for dynamism in [Dynamism::Static, Dynamism::Dynamic] {
            for strategy in [None, Some(Strategy::Placed), Some(Strategy::Suballocated)] {
                for (usage, kind) in kinds {
                    for alignment in [0, 1024] {
                        let request =
                            BufferRequest { size, usage, dynamism, alignment, strategy, ..Default::default() };
                        let location = placement.create_buffer(&request).expect("there is room");
                        world.shows(*location.object(), location.offset(), size, kind);
                        held.push(location);
                        world.make_odd();
                    }
                }
            }
        }
    }
}

#[test]
fn a_buffer_lies_at_the_alignment_that_is_asked_for() {
    for profile in Profile::all() {
        let mut world = Views::new(profile);
        for alignment in [0, 1, 64, 256, 4096, 1 << 16, 1 << 21] {
            for dedicated in [Dedicated::Auto, Dedicated::Always] {
                world.make_odd();
                let desc = BufferDesc { size: 100, usage: BufferUsage::STORAGE };
                let asked = AllocationDesc { alignment, dedicated, ..Default::default() };
                let buffer = world.memory.create_buffer(&desc, asked).expect("there is room");
                assert_eq!(buffer.offset() % alignment.max(1), 0);
                world.odd.push(buffer);
            }
        }
        for alignment in [3, 100, u64::MAX] {
            let desc = BufferDesc { size: 100, usage: BufferUsage::STORAGE };
            let asked = AllocationDesc { alignment, ..Default::default() };
            let before = world.memory.statistics();
            let refused = world.memory.create_buffer(&desc, asked).map(drop);
            assert_eq!(refused, Err(Error::BadAlignment { alignment }));
            assert_eq!(world.memory.statistics(), before, "nothing has changed");
        }
    }
}

#[test]
fn a_mirror_of_a_device_that_asks_for_nothing_stays_as_it_is() {
    let world = Views::new(Profile::lavapipe());
    let desc = BufferDesc { size: 100, usage: BufferUsage::VERTEX };
    // SAFETY: the description is valid for the device, and the prepared object is discarded.
    let needs = unsafe {
        let (unplaced, needs) = Create::<Buffers>::prepare(&world.device, &desc).expect("it is plain");
        Create::<Buffers>::discard(&world.device, unplaced);
        needs
    };
    let buffer = world.memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room");
    assert_eq!((buffer.size(), buffer.memory_bytes()), (100, needs.size));
}
