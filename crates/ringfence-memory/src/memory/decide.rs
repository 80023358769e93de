//! Where a request goes: the one place where that is decided.
//!
//! ```text
//!   request, view ──▶ decide ──▶ Steps ─────┬─▶ placing.rs executes it, step by step, until one is served
//!                        │                  └─▶ plan.rs prints the first step that would be served
//!                        └─ for plain requests, once for each memory type ──▶ plain_types ──▶ placing.rs, without a step
//! ```
//!
//! A decision is a list of steps: a memory type, and whether the request goes to a block there or to memory of its own.
//! It is a pure function of the request and of what the
//! view says: it takes no lock, makes no driver call and changes nothing. Whether a block has capacity is not decided
//! here: that is true only at the moment at which the range is taken.
//!
//! | what | rule |
//! |---|---|
//! | memory type | those of the location whose heap is large enough, best first; a pool has one |
//! | size, alignment | whole atoms in non-coherent memory, whole pages where classes share blocks, guards around it |
//! | its own memory | if the driver requires it, the request says so or is shared, it is too large for a block |
//! | its own memory, then a block, before the next type | if the driver prefers it and memory objects are not scarce |
//! | a block of each type, then its own memory in each | everything else, unless the request says never |
//!
//! Memory of its own comes after the blocks of every type, because a memory object for each small resource that no longer
//! fits into a full heap would use up the device's memory objects.

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
    /// A resource of fewer bytes does not get the memory of its own that the driver prefers, as memory objects are scarce.
    pub(crate) preferred_bytes_min: u64,
    pub(crate) pool: Option<PoolView>,
}

/// What a decision needs to know of a custom pool.
#[derive(Clone, Copy)]
pub(crate) struct PoolView {
    pub(crate) memory_type: u32,
    /// Whether its ranges are all of one size, so that guards do not fit.
    pub(crate) is_equal: bool,
}

/// A memory type that a request may go to, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) memory_type: u32,
    /// As this memory type needs it, guards included.
    pub(crate) needs: Requirements,
    pub(crate) margins: Margins,
    pub(crate) way: Way,
}

/// How a request gets memory of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// In a block.
    Block,
    /// In memory of its own.
    Dedicated,
}

/// The ways in which a request may get memory of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ways {
    /// In this one alone.
    Only(Way),
    /// In memory of its own; if that fails, in a block.
    DedicatedThenBlock,
    /// In a block; once that has failed in every type, in memory of its own.
    BlockThenDedicated,
}

/// Where the request goes: the steps in the order in which they are tried, each worked out when its turn comes. None,
/// if no memory type will do.
pub(crate) fn decide<'a>(
    needs: Requirements,
    desc: &'a AllocationDesc<'_>,
    view: View<'a>,
) -> impl Iterator<Item = Step> + 'a {
    let of_pool = view.pool.map(|pool| pool_step(needs, &view, pool));
    // A pool has one type, and no other is tried.
    let bits = if view.pool.is_some() { 0 } else { needs.memory_type_bits };
    let holds = move |memory_type: &u32| needs.size <= view.capabilities.object_bytes_max(*memory_type);
    let types = view.order.candidates_for(view.capabilities, desc, bits).filter(holds);
    let at = move |memory_type, way| Step { way, ..step(needs, desc, &view, memory_type) };
    let ways = move |memory_type| ways(around(needs, &view, memory_type).0, desc, &view, memory_type);
    let first = types.clone().flat_map(move |memory_type| {
        let (first, second) = match ways(memory_type) {
            Ways::Only(way) => (way, None),
            Ways::DedicatedThenBlock => (Way::Dedicated, Some(Way::Block)),
            Ways::BlockThenDedicated => (Way::Block, None),
        };
        std::iter::once(first).chain(second).map(move |way| at(memory_type, way))
    });
    let last = types.filter(move |memory_type| ways(*memory_type) == Ways::BlockThenDedicated);
    of_pool.into_iter().chain(first).chain(last.map(move |memory_type| at(memory_type, Way::Dedicated)))
}

/// Whether a request takes memory like any other: what is decided for it depends on its location, memory types, class
/// and size alone.
#[inline]
pub(crate) fn is_plain(needs: &Requirements, desc: &AllocationDesc<'_>) -> bool {
    desc.share.is_none()
        && desc.dedicated != Dedicated::Always
        && (desc.required | desc.preferred).is_empty()
        && !needs.prefers_dedicated
        && !needs.requires_dedicated
}

/// What is decided for plain requests, a bit a memory type: set where one of up to `bytes` goes to a block first, at
/// the size and alignment that [`Classes::range_of`] gives it. The view has no guards.
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
            step.way == Way::Block
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
    let (needs, margins) = around(needs, view, memory_type);
    let way = match ways(needs, desc, view, memory_type) {
        Ways::Only(way) => way,
        Ways::DedicatedThenBlock => Way::Dedicated,
        Ways::BlockThenDedicated => Way::Block,
    };
    Step { memory_type, needs, margins, way }
}

/// What a memory type needs for the request, guards included.
fn around(needs: Requirements, view: &View<'_>, memory_type: u32) -> (Requirements, Margins) {
    let padded = view.classes.apart(padded(needs, view.capabilities, memory_type));
    let margins = margins(&padded, view, memory_type);
    (margins.around(padded), margins)
}

fn ways(needs: Requirements, desc: &AllocationDesc<'_>, view: &View<'_>, memory_type: u32) -> Ways {
    let wish = if desc.share.is_some() { Dedicated::Always } else { desc.dedicated };
    match wish {
        _ if needs.requires_dedicated => Ways::Only(Way::Dedicated),
        Dedicated::Always => Ways::Only(Way::Dedicated),
        Dedicated::Never => Ways::Only(Way::Block),
        Dedicated::Auto if needs.size > view.shared_bytes_max[memory_type as usize] => Ways::Only(Way::Dedicated),
        Dedicated::Auto if needs.prefers_dedicated && needs.size >= view.preferred_bytes_min => {
            Ways::DedicatedThenBlock
        }
        Dedicated::Auto => Ways::BlockThenDedicated,
    }
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
mod tests;
