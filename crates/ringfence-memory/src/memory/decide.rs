//! Where a request goes: the one place where that is decided.
//!
//! ```text
//!   request, view ──▶ decide ──▶ Steps ─────┬─▶ placing.rs executes it, step by step, until one is served
//!                        │                  └─▶ plan.rs prints the first step that would be served
//!                        └─ for plain requests, once for each memory type ──▶ plain_types ──▶ placing.rs, without a step
//! ```
//!
//! A decision is the memory types that will do, best first, and for each of them whether the request goes to a block,
//! to memory of its own, or to the first and then to the second. It is a pure function of the request and of what the
//! view says: it takes no lock, makes no driver call and changes nothing. Whether a block has capacity is not decided
//! here: that is true only at the moment at which the range is taken.
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
    pub(crate) is_near_object_limit: bool,
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
    /// In a block, and in no other way.
    Block,
    /// In a block; if that fails, in memory of its own.
    BlockThenDedicated,
    /// In memory of its own.
    Dedicated,
}

impl Way {
    pub(crate) fn tries_block(self) -> bool {
        self != Self::Dedicated
    }

    pub(crate) fn tries_dedicated(self) -> bool {
        self != Self::Block
    }
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
    let types = view.order.candidates_for(view.capabilities, desc, bits);
    of_pool.into_iter().chain(types.map(move |memory_type| step(needs, desc, &view, memory_type)))
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
mod tests;
