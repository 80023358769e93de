//! Advice on the order of passes: an order in which fewer bytes are alive at once, so that layouts can be smaller.
//!
//! ```text
//!   as recorded   shadows  depth  fog  lit  bloom      load ▁▅██▃
//!   suggested     depth  shadows  lit  fog  bloom      load ▃▅▆▅▃     each read still comes after its write
//! ```
//!
//! The result is a suggestion for a tool or a log; layouts do not use it. The reads and writes of the passes determine
//! which passes can be exchanged ([`pass_edges`](ringfence_alias::pass_edges)); the caller adds other constraints. The
//! search is [`ringfence_alias::suggest_order`]: O(passes² · uses) per round, meant for development rather than for
//! every frame.

use ringfence_alias::{self as alias, PassGraph, PassItem, PassOrder, PassUse};

use super::error::TransientError;
use super::frame::Described;
use super::state::State;
use crate::device::{Device, DeviceError};

impl<D: Device> State<D> {
    pub(super) fn suggest_order(
        &mut self,
        pass_count: usize,
        resources: &[(Described<'_, '_, D>, &[PassUse])],
        order: &[(usize, usize)],
        go_on: impl FnMut(u64) -> bool,
    ) -> Result<PassOrder, TransientError> {
        let uses = resources.iter().flat_map(|(_, uses)| alias::pass_edges(uses));
        let edges: Vec<_> = order.iter().copied().chain(uses).collect();
        let named = resources.iter().flat_map(|(_, uses)| *uses).map(|held| held.pass);
        let passes = named.chain(order.iter().flat_map(|(a, b)| [*a, *b]));
        let is_unknown = passes.into_iter().find(|pass| *pass >= pass_count);
        let is_reversed = order.iter().find(|(before, after)| before >= after).map(|(before, _)| *before);
        let is_unused = resources.iter().position(|(_, uses)| uses.is_empty());
        if let Some(place) = is_unknown.or(is_reversed).or(is_unused) {
            return Err(TransientError::NotPlanned { place });
        }
        let graph = PassGraph::new(pass_count, &edges).map_err(TransientError::Passes)?;
        let mut items = Vec::with_capacity(resources.len());
        let mut sum = 0_u64;
        for (info, uses) in resources {
            let needs = self.measure_any(*info)?.1;
            sum = sum.checked_add(needs.size).filter(|sum| *sum < 1 << 63).ok_or_else(too_large)?;
            let passes = uses.iter().map(|held| held.pass).collect();
            items.push(PassItem { size: needs.size, alignment: needs.alignment, passes });
        }
        let today: Vec<usize> = (0..pass_count).collect();
        Ok(alias::suggest_order(&graph, &items, &today, go_on))
    }
}

fn too_large() -> TransientError {
    DeviceError::invalid("the sizes of the frame's resources sum up to 2^63 bytes or more").into()
}
