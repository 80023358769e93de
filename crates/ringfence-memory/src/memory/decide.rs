//! Where a request goes: the one place where that is decided.
//!
//! ```text
//!   request, view ──▶ decide ──▶ Decision ──┬─▶ fallback.rs executes it, step by step, until one is served
//!                        │                  └─▶ plan.rs prints the first step that would be served
//!                        └─ for plain requests, once for each memory type ──▶ plain_types ──▶ cached.rs
//! ```
//!
//! A decision is the memory types that will do, best first, and for each of them whether the request goes to a block, to
//! memory of its own, or to the first and then to the second. It is a pure function of the request and of what the view
//! says: it takes no lock, makes no driver call and changes nothing. Whether a block has room is not decided here: that
//! is true only at the moment at which the range is taken.
//!
//! | what | rule |
//! |---|---|
//! | memory type | those of the location, best first; a pool has one |
//! | size, alignment | whole atoms in non-coherent memory, whole pages where classes share blocks, guards around it |
//! | its own memory | if the driver requires it, the request says so or is shared, it is too large for a block; or the driver prefers it and memory objects are not scarce |
//! | a block first, then its own memory | everything else, unless the request says never |

use super::classes::Classes;
use super::request::{AllocationDesc, Dedicated};
use super::types::TypeOrder;
use crate::debugging::Margins;
use crate::device::{Capabilities, Requirements, ResourceClass};

/// What a decision needs to know of the allocator.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) capabilities: &'a Capabilities,
    pub(crate) order: &'a TypeOrder,
    pub(crate) classes: &'a Classes,
    /// The largest request in bytes that shares a block, by memory type.
    pub(crate) shared_bytes_max: &'a [u64],
    /// Bytes of guard on each side of a range; 0 for none.
    pub(crate) margin_bytes: u32,
    /// Whether the device has few memory objects left.
    pub(crate) is_near_object_limit: bool,
    /// The pool that the request is for, if it is for one.
    pub(crate) pool: Option<PoolView>,
}

/// What a decision needs to know of a custom pool.
#[derive(Clone, Copy)]
pub(crate) struct PoolView {
    pub(crate) memory_type: u32,
    /// Whether its ranges are all of one size, so that there is no room for guards.
    pub(crate) is_equal: bool,
}

/// A memory type that a request may go to, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) memory_type: u32,
    /// As this memory type needs it, guards included.
    pub(crate) needs: Requirements,
    /// The guards.
    pub(crate) margins: Margins,
    pub(crate) way: Way,
}

/// How a request gets memory of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// In a block, and in no other way.
    Block,
    /// In a block; if that fails, in memory of its own.
    BlockThenDedicated,
    /// In memory of its own.
    Dedicated,
}

impl Way {
    /// Whether a block is tried.
    pub(crate) fn tries_block(self) -> bool {
        self != Self::Dedicated
    }

    /// Whether memory of its own is tried, first or after a block.
    pub(crate) fn tries_dedicated(self) -> bool {
        self != Self::Block
    }
}

/// Where the request goes: the steps in the order in which they are tried, each worked out when its turn comes. None, if
/// no memory type will do.
pub(crate) fn decide<'a>(
    needs: Requirements,
    desc: &'a AllocationDesc<'_>,
    view: View<'a>,
) -> impl Iterator<Item = Step> + 'a {
    let of_pool = view.pool.map(|pool| pool_step(needs, &view, pool));
    // A pool has one type, and no other is tried.
    let bits = if view.pool.is_some() { 0 } else { needs.memory_type_bits };
    let types = view.order.candidates_for(view.capabilities, desc, bits);
    of_pool.into_iter().chain(types.map(move |memory_type| step(needs, desc, &view, memory_type)))
}

/// Whether a request takes memory like any other: what is decided for it depends on its location, memory types, class and
/// size alone.
#[inline]
pub(crate) fn is_plain(needs: &Requirements, desc: &AllocationDesc<'_>) -> bool {
    desc.share.is_none()
        && desc.dedicated != Dedicated::Always
        && (desc.required | desc.preferred).is_empty()
        && !needs.prefers_dedicated
        && !needs.requires_dedicated
}

/// What is decided for plain requests, a bit a memory type: set where one of up to `bytes` goes to a block first, at the
/// size and alignment that [`Classes::range_of`] gives it. The view has no guards.
pub(crate) fn plain_types(view: View<'_>, bytes: u64) -> u32 {
    let desc = AllocationDesc::default();
    let is_served = |memory_type: &u32| {
        let needs = |size| Requirements {
            size,
            alignment: 1,
            memory_type_bits: 1 << memory_type,
            class: ResourceClass::Texture,
            prefers_dedicated: false,
            requires_dedicated: false,
        };
        // The smallest shows whether anything is padded, the largest whether it shares a block.
        [1, bytes].into_iter().map(needs).all(|needs| {
            let step = step(needs, &desc, &view, *memory_type);
            step.way.tries_block()
                && step.needs == view.classes.apart(needs)
                && view.order.always_serves(needs.size, needs.memory_type_bits)
        })
    };
    (0..view.capabilities.memory_types.len() as u32).filter(is_served).fold(0, |bits, index| bits | 1 << index)
}

fn pool_step(needs: Requirements, view: &View<'_>, pool: PoolView) -> Step {
    let padded = padded(needs, view.capabilities, pool.memory_type);
    // Equal blocks are as large as the caller counted on.
    let margins = if pool.is_equal { Margins::default() } else { margins(&padded, view, pool.memory_type) };
    Step { memory_type: pool.memory_type, needs: margins.around(padded), margins, way: Way::Block }
}

fn step(needs: Requirements, desc: &AllocationDesc<'_>, view: &View<'_>, memory_type: u32) -> Step {
    let padded = view.classes.apart(padded(needs, view.capabilities, memory_type));
    let margins = margins(&padded, view, memory_type);
    let needs = margins.around(padded);
    let wish = if desc.share.is_some() { Dedicated::Always } else { desc.dedicated };
    let way = match wish {
        _ if needs.requires_dedicated => Way::Dedicated,
        Dedicated::Always => Way::Dedicated,
        Dedicated::Never => Way::Block,
        Dedicated::Auto if needs.size > view.shared_bytes_max[memory_type as usize] => Way::Dedicated,
        Dedicated::Auto if needs.prefers_dedicated && !view.is_near_object_limit => Way::Dedicated,
        Dedicated::Auto => Way::BlockThenDedicated,
    };
    Step { memory_type, needs, margins, way }
}

/// The guards of a range that is padded already.
fn margins(padded: &Requirements, view: &View<'_>, memory_type: u32) -> Margins {
    Margins::of(view.margin_bytes, padded, atom_bytes(view.capabilities, memory_type))
}

/// Host-visible memory that is not coherent is flushed in whole atoms: no two resources may share one.
pub(crate) fn padded(needs: Requirements, capabilities: &Capabilities, memory_type: u32) -> Requirements {
    let atom = atom_bytes(capabilities, memory_type);
    let (size, alignment) = (needs.size.div_ceil(atom).saturating_mul(atom), needs.alignment.max(atom));
    Requirements { size, alignment, ..needs }
}

fn atom_bytes(capabilities: &Capabilities, memory_type: u32) -> u64 {
    if capabilities.is_non_coherent(memory_type) { capabilities.non_coherent_atom_bytes } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::MemoryProperties;
    use crate::device::sharing::ShareKind;
    use crate::memory::Location;
    use crate::sim::Profile;

    const MIB: u64 = 1 << 20;

    /// An allocator as far as a decision sees it: requests of up to 32 MiB share a block.
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
                is_near_object_limit: false,
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

    /// On a device with types 0 host, 1 device, 2 coherent, 3 coherent and cached, 4 device and coherent.
    #[test]
    fn a_request_goes_to_these_types_in_these_ways() {
        use Way::{Block, BlockThenDedicated, Dedicated as Own};
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
            (
                "device",
                needs(1),
                plain,
                vec![
                    (1, BlockThenDedicated),
                    (4, BlockThenDedicated),
                    (0, BlockThenDedicated),
                    (2, BlockThenDedicated),
                    (3, BlockThenDedicated),
                ],
            ),
            (
                "upload",
                needs(1),
                at(Location::Upload),
                vec![(2, BlockThenDedicated), (3, BlockThenDedicated), (4, BlockThenDedicated)],
            ),
            (
                "readback",
                needs(1),
                at(Location::Readback),
                vec![(3, BlockThenDedicated), (2, BlockThenDedicated), (4, BlockThenDedicated)],
            ),
            (
                "device upload",
                needs(1),
                at(Location::DeviceUpload),
                vec![(4, BlockThenDedicated), (2, BlockThenDedicated), (3, BlockThenDedicated)],
            ),
            ("one type", needs(1), only(0b10), vec![(1, BlockThenDedicated)]),
            ("half a block", needs(32 * MIB), only(0b10), vec![(1, BlockThenDedicated)]),
            ("more than half a block", large, only(0b10), vec![(1, Own)]),
            ("more than half a block, never its own", large, never, vec![(1, Block)]),
            ("preferred by the driver", preferring, only(0b10), vec![(1, Own)]),
            ("preferred by the driver, never its own", preferring, never, vec![(1, Block)]),
            ("required by the driver, never its own", requiring, never, vec![(1, Own)]),
            ("always its own", needs(1), always, vec![(1, Own)]),
            ("shared", needs(1), shared, vec![(1, Own)]),
            ("cached", needs(1), required, vec![(3, BlockThenDedicated)]),
            ("no type", needs(1), only(0), vec![]),
        ];
        for (name, needs, desc, expected) in table {
            assert_eq!(decided(needs, desc, world.view()), expected, "{name}");
        }
        let scarce = View { is_near_object_limit: true, ..world.view() };
        assert_eq!(decided(preferring, only(0b10), scarce), [(1, BlockThenDedicated)], "few memory objects are left");
        let pool = Some(PoolView { memory_type: 4, is_equal: false });
        assert_eq!(decided(requiring, always, View { pool, ..world.view() }), [(4, Block)], "a pool has blocks alone");
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

    /// What is cached for plain requests is what is decided for each of them.
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
                            assert_eq!(step.way, Way::BlockThenDedicated);
                        }
                    }
                }
            }
        }
    }
}
