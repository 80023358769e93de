//! The decisions for a table of requests.

use super::*;
use crate::device::MemoryProperties;
use crate::device::sharing::ShareKind;
use crate::location::Location;
use crate::sim::Profile;

const MIB: u64 = 1 << 20;

/// The state of an allocator that a decision depends on: requests of up to 32 MiB share a block.
struct World {
    capabilities: Capabilities,
    order: TypeOrder,
    classes: Classes,
    shared_bytes_max: Vec<u64>,
}

impl World {
    fn of(profile: Profile) -> Self {
        let capabilities = profile.capabilities;
        let (order, classes) = (TypeOrder::new(&capabilities), Classes::new(&capabilities));
        let shared_bytes_max = vec![32 * MIB; capabilities.memory_types.len()];
        Self { capabilities, order, classes, shared_bytes_max }
    }

    fn view(&self) -> View<'_> {
        View {
            capabilities: &self.capabilities,
            order: &self.order,
            classes: &self.classes,
            shared_bytes_max: &self.shared_bytes_max,
            margin_bytes: 0,
            preferred_bytes_min: 0,
            pool: None,
        }
    }
}

fn needs(size: u64) -> Requirements {
    Requirements {
        size,
        alignment: 256,
        memory_type_bits: u32::MAX,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    }
}

fn decided(needs: Requirements, desc: AllocationDesc<'_>, view: View<'_>) -> Vec<(u32, Way)> {
    decide(needs, &desc, view).map(|step| (step.memory_type, step.way)).collect()
}

/// Each request gets the steps of the table. The device has the types 0 host, 1 device, 2 coherent, 3 coherent and
/// cached, 4 device and coherent.
#[test]
fn a_request_goes_to_these_types_in_these_ways() {
    use Way::{Block, Dedicated as Own};
    // Blocks of each type, then dedicated memory in each.
    let each = |types: &[u32]| [Block, Own].iter().flat_map(|way| types.iter().map(|held| (*held, *way))).collect();
    let world = World::of(Profile::h200());
    let plain = AllocationDesc::default();
    let at = |location| AllocationDesc { location, ..Default::default() };
    let large = needs(32 * MIB + 1);
    let preferring = Requirements { prefers_dedicated: true, ..needs(1) };
    let requiring = Requirements { requires_dedicated: true, ..needs(1) };
    let only = |memory_types| AllocationDesc { memory_types, ..plain };
    let always = AllocationDesc { dedicated: Dedicated::Always, ..only(0b10) };
    let never = AllocationDesc { dedicated: Dedicated::Never, ..only(0b10) };
    let shared = AllocationDesc { share: Some(ShareKind::OpaqueFd), ..never };
    let required = AllocationDesc { required: MemoryProperties::HOST_CACHED, ..plain };
    let table = [
        ("device", needs(1), plain, each(&[1, 4, 0, 2, 3])),
        ("upload", needs(1), at(Location::Upload), each(&[2, 3, 4])),
        ("readback", needs(1), at(Location::Readback), each(&[3, 2, 4])),
        ("device upload", needs(1), at(Location::DeviceUpload), each(&[4, 2, 3])),
        ("one type", needs(1), only(0b10), each(&[1])),
        ("half a block", needs(32 * MIB), only(0b10), each(&[1])),
        ("more than half a block", large, only(0b10), vec![(1, Own)]),
        ("more than half a block, never dedicated", large, never, vec![(1, Block)]),
        ("preferred by the driver", preferring, only(0b11), vec![(1, Own), (1, Block), (0, Own), (0, Block)]),
        ("preferred by the driver, never dedicated", preferring, never, vec![(1, Block)]),
        ("required by the driver, never dedicated", requiring, never, vec![(1, Own)]),
        ("always dedicated", needs(1), always, vec![(1, Own)]),
        ("shared", needs(1), shared, vec![(1, Own)]),
        ("cached", needs(1), required, each(&[3])),
        ("no type", needs(1), only(0), vec![]),
    ];
    for (name, needs, desc, expected) in table {
        assert_eq!(decided(needs, desc, world.view()), expected, "{name}");
    }
    let scarce = View { preferred_bytes_min: 2, ..world.view() };
    let blocks = decided(preferring, only(0b10), scarce);
    assert_eq!(blocks, [(1, Block), (1, Own)], "memory objects are scarce, and the resource is small");
    let larger = Requirements { size: 2, ..preferring };
    assert_eq!(decided(larger, only(0b10), scarce), [(1, Own), (1, Block)]);
    let device_bytes = world.capabilities.memory_heaps[0].bytes;
    let beyond = decided(needs(device_bytes + 1), plain, world.view());
    assert_eq!(beyond, [], "larger than the largest memory object");
    let pool = Some(PoolView { memory_type: 4, is_equal: false });
    assert_eq!(decided(requiring, always, View { pool, ..world.view() }), [(4, Block)], "a pool has only blocks");
}

#[test]
fn a_step_has_room_for_atoms_and_guards() {
    let world = World::of(Profile::non_coherent());
    let atom = world.capabilities.non_coherent_atom_bytes;
    let desc = AllocationDesc { location: Location::Upload, ..Default::default() };
    let guarded = View { margin_bytes: 16, ..world.view() };
    let mut seen = 0;
    for (bare, with) in decide(needs(atom + 1), &desc, world.view()).zip(decide(needs(atom + 1), &desc, guarded)) {
        let is_padded = world.capabilities.is_non_coherent(bare.memory_type);
        seen += u32::from(is_padded);
        assert_eq!(bare.needs.size, if is_padded { 2 * atom } else { atom + 1 });
        assert_eq!(with.needs.size, bare.needs.size + with.margins.front + with.margins.back);
        assert!(with.margins.front >= 16 && with.margins.back >= 16);
    }
    assert_ne!(seen, 0, "some type is not coherent");
    let pool = Some(PoolView { memory_type: 0, is_equal: true });
    let equal = decide(needs(100), &desc, View { pool, ..guarded }).next().expect("a pool has one step");
    assert_eq!(equal.margins, Margins::default(), "ranges of one size have no room for guards");
}

/// The memory types that were computed beforehand match the decision for each plain request.
#[test]
fn plain_requests_go_where_a_decision_sends_them() {
    for profile in Profile::all() {
        let world = World::of(profile);
        let (view, bytes) = (world.view(), 64 << 10);
        let types = plain_types(view, bytes);
        for location in Location::ALL {
            for class in [ResourceClass::Buffer, ResourceClass::Texture, ResourceClass::RenderTarget] {
                for (size, alignment) in [(1, 1), (300, 16), (4096, 4096), (bytes, 256)] {
                    let needs = Requirements { size, alignment, class, ..needs(size) };
                    let desc = AllocationDesc { location, ..Default::default() };
                    assert!(is_plain(&needs, &desc));
                    let Some(memory_type) = world.order.first(location, u32::MAX) else { continue };
                    let step = decide(needs, &desc, view).next().expect("the location has a type");
                    assert_eq!(step.memory_type, memory_type);
                    if types >> memory_type & 1 == 1 {
                        let range = (step.needs.size, step.needs.alignment);
                        assert_eq!(range, world.classes.range_of(&needs));
                        assert_eq!(step.way, Way::Block);
                    }
                }
            }
        }
    }
}
