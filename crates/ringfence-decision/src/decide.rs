//! The placement decision of a request. No other code decides where memory is placed.
//!
//! ```text
//!   request, view ──▶ decide ──▶ Steps ─────┬─▶ placing.rs executes it, step by step, until one is served
//!                        │                  └─▶ plan.rs prints the first step that would be served
//!                        └─ for plain requests, once for each memory type ──▶ plain_types ──▶ placing.rs, no step
//! ```
//!
//! A decision is a list of steps: a memory type, and either a block or dedicated memory. It is a pure function of the
//! request and the view: it takes no lock, makes no driver call and changes nothing. It does not check if a block has
//! room, because that is known only when the range is allocated.
//!
//! | part | rule |
//! |---|---|
//! | memory type | the location's types with a large enough heap, best first; a custom pool has one |
//! | size, alignment | whole atoms in non-coherent memory, whole pages if classes share blocks, guards added |
//! | a block only | in a custom pool, or if the request forbids dedicated memory that is not required |
//! | dedicated memory only | if the driver requires it, the request demands it or shares its memory, or is too large |
//! | dedicated memory, then a block, before the next type | if the driver prefers it and the size is large enough |
//! | a block of each type, then dedicated memory in each | all other requests |
//!
//! Dedicated memory comes after the blocks of every type. Otherwise, in a full heap, each small resource would use up
//! one of the device's memory objects.

use ringfence_observe::Margins;

use crate::classes::Classes;
use crate::device::{Capabilities, Requirements, ResourceClass};
use crate::request::{AllocationDesc, Dedicated};
use crate::types::TypeOrder;

/// The state of the allocator that a decision depends on.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Capabilities of the device.
    pub capabilities: &'a Capabilities,
    /// Memory types of the device, in the order of preference for each location.
    pub order: &'a TypeOrder,
    /// The classes that share blocks.
    pub classes: &'a Classes,
    /// The largest size in bytes, by memory type, for which a request shares a block.
    pub shared_bytes_max: &'a [u64],
    /// Size of the guard on each side of a range, in bytes; 0 for no guards.
    pub margin_bytes: u32,
    /// Minimum size of a resource that gets dedicated memory because the driver prefers it, in bytes. Above 0 if memory
    /// objects are scarce.
    pub preferred_bytes_min: u64,
    /// The custom pool that must serve the request, if any.
    pub pool: Option<PoolView>,
}

/// The state of a custom pool that a decision depends on.
#[derive(Clone, Copy)]
pub struct PoolView {
    /// Memory type of the pool.
    pub memory_type: u32,
    /// `true` if all of its ranges have one size, so that there is no room for guards.
    pub is_equal: bool,
}

/// One step of a decision: a memory type and the kind of allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The memory type.
    pub memory_type: u32,
    /// The requirements of a range of a block in this memory type, guards included. Dedicated memory has no guards, so
    /// it uses the requirements of the request instead.
    pub needs: Requirements,
    /// The guards that `needs` includes.
    pub margins: Margins,
    /// Block or dedicated memory.
    pub way: Way,
}

/// The kind of allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A range of a block.
    Block,
    /// Dedicated memory.
    Dedicated,
}

/// The kinds of allocation that are tried in a memory type, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ways {
    /// Only this one.
    Only(Way),
    /// Dedicated memory; if that fails, a block.
    DedicatedThenBlock,
    /// A block; if blocks have failed in every type, dedicated memory.
    BlockThenDedicated,
}

/// Returns the steps of a request in the order in which they are tried. If the request is not for a pool and no memory
/// type is suitable and large enough, there are no steps.
#[inline]
pub fn decide<'a>(
    needs: Requirements,
    desc: &'a AllocationDesc<'_>,
    view: View<'a>,
) -> impl Iterator<Item = Step> + 'a {
    let of_pool = view.pool.map(|pool| pool_step(needs, &view, pool));
    // A pool has one memory type, so no other is tried.
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

/// Returns `true` if the first step of a request that is small enough for a block depends only on its location, memory
/// types, class, size and alignment.
#[inline]
#[must_use]
pub fn is_plain(needs: &Requirements, desc: &AllocationDesc<'_>) -> bool {
    desc.share.is_none()
        && desc.dedicated != Dedicated::Always
        && (desc.required | desc.preferred).is_empty()
        && !needs.prefers_dedicated
        && !needs.requires_dedicated
}

/// Returns the memory types in which a plain request ([`is_plain`]) of up to `bytes` tries a block first, with the size
/// and alignment of [`Classes::range_of`]: bit n for type n. The view must have no guards.
#[must_use]
pub fn plain_types(view: View<'_>, bytes: u64) -> u32 {
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
        // The smallest size shows if requests are padded, the largest if they share a block.
        [1, bytes].into_iter().map(needs).all(|needs| {
            let step = step(needs, &desc, &view, *memory_type);
            step.way == Way::Block
                && step.needs == view.classes.apart(needs)
                && view.order.always_serves(needs.size, needs.memory_type_bits)
        })
    };
    (0..view.capabilities.memory_types.len() as u32).filter(is_served).fold(0, |bits, index| bits | 1 << index)
}

#[inline]
fn pool_step(needs: Requirements, view: &View<'_>, pool: PoolView) -> Step {
    let padded = padded(needs, view.capabilities, pool.memory_type);
    // Equal slots have exactly the size that the caller expects, so they have no guards.
    let margins = if pool.is_equal { Margins::default() } else { margins(&padded, view, pool.memory_type) };
    Step { memory_type: pool.memory_type, needs: margins.around(padded), margins, way: Way::Block }
}

#[inline]
fn step(needs: Requirements, desc: &AllocationDesc<'_>, view: &View<'_>, memory_type: u32) -> Step {
    let (needs, margins) = around(needs, view, memory_type);
    let way = match ways(needs, desc, view, memory_type) {
        Ways::Only(way) => way,
        Ways::DedicatedThenBlock => Way::Dedicated,
        Ways::BlockThenDedicated => Way::Block,
    };
    Step { memory_type, needs, margins, way }
}

/// Returns the requirements of the request in a memory type, guards included.
#[inline]
fn around(needs: Requirements, view: &View<'_>, memory_type: u32) -> (Requirements, Margins) {
    let padded = view.classes.apart(padded(needs, view.capabilities, memory_type));
    let margins = margins(&padded, view, memory_type);
    (margins.around(padded), margins)
}

#[inline]
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

/// Returns the guards of a range with these padded requirements.
#[inline]
fn margins(padded: &Requirements, view: &View<'_>, memory_type: u32) -> Margins {
    Margins::of(view.margin_bytes, padded, atom_bytes(view.capabilities, memory_type))
}

/// Pads requirements to whole atoms if the memory type is host-visible and not coherent. Such memory is flushed in
/// whole atoms, so two resources must not share an atom.
#[inline]
#[must_use]
pub fn padded(needs: Requirements, capabilities: &Capabilities, memory_type: u32) -> Requirements {
    let atom = atom_bytes(capabilities, memory_type);
    let (size, alignment) = (needs.size.div_ceil(atom).saturating_mul(atom), needs.alignment.max(atom));
    Requirements { size, alignment, ..needs }
}

#[inline]
fn atom_bytes(capabilities: &Capabilities, memory_type: u32) -> u64 {
    if capabilities.is_non_coherent(memory_type) { capabilities.non_coherent_atom_bytes } else { 1 }
}

#[cfg(test)]
mod tests;
