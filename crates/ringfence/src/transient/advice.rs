//! Advice on the order of passes: one in which less is alive at once, so that every layout can be lower.
//!
//! ```text
//!   as recorded   shadows  depth  fog  lit  bloom      load ▁▅██▃
//!   suggested     depth  shadows  lit  fog  bloom      load ▃▅▆▅▃     whoever reads still comes after whoever wrote
//! ```
//!
//! It is a suggestion, for a tool or a log: nothing is laid out by it. Who reads what whom wrote says which passes may be
//! exchanged ([`pass_edges`](ringfence_alias::pass_edges)); what else holds them in order is the caller's to tell. The
//! search is that of [`ringfence_alias::suggest_order`]: O(passes² · uses) a round, for development rather than every frame.

use ringfence_alias::{self as alias, PassGraph, PassItem, PassOrder, PassUse};

use super::allocator::TransientAllocator;
use super::error::TransientError;
use super::planned::Described;
use crate::device::{Device, DeviceError};

/// A resource and every pass that uses it, by its place in today's order.
pub struct UsedResource<'a, 'i, D: Device> {
    /// What it is.
    pub info: Described<'a, 'i, D>,
    /// Its uses, in any order; at least one. The first one writes.
    pub uses: &'a [PassUse],
}

impl<D: Device> TransientAllocator<D> {
    /// An order of the passes of one queue in which the resources need fewer bytes, with what it saves; today's order if
    /// none was found. Passes are named by their places in today's order, `0..pass_count`. `order` holds pairs *(before,
    /// after)* that must stay in order besides those that the uses ask for: a pass that writes a buffer of another
    /// allocator, say. `go_on` is asked before every pass that is tried elsewhere, and told the load reached so far.
    ///
    /// Loads are sums of what the driver says that the resources need, as if all could share one heap. Asks the driver for
    /// what it was not asked before; makes nothing.
    ///
    /// # Errors
    /// A pass that does not exist, a resource without a use, a pair whose passes are not in order today
    /// ([`TransientError::NotPlanned`]); or the driver refuses a description.
    ///
    /// # Example
    /// ```
    /// # use ringfence::device::{Create, TextureDesc, Textures};
    /// # use ringfence::sim;
    /// # use ringfence::transient::{Described, TransientAllocator, TransientDesc, UsedResource};
    /// # use ringfence::{Allocator, AllocatorDesc};
    /// use ringfence::alias::PassUse;
    /// # let gpu = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    /// # let memory = Allocator::over(gpu, AllocatorDesc::default());
    /// # let mut transient = TransientAllocator::new(&memory, TransientDesc::default());
    /// // Today: 0 draws shadows, 1 draws reflections, 2 reads reflections, 3 reads shadows.
    /// let target = TextureDesc { width: 512, height: 512, ..Default::default() };
    /// let shadows = UsedResource { info: Described::Texture(&target), uses: &[PassUse::write(0), PassUse::read(3)] };
    /// let reflections = UsedResource { info: Described::Texture(&target), uses: &[PassUse::write(1), PassUse::read(2)] };
    /// let advice = transient.suggest_order(4, &[shadows, reflections], &[], |_| true)?;
    /// // One after the other, they are never alive together.
    /// assert_eq!(advice.saving(), advice.load_before / 2);
    /// println!("{:?} would save {} bytes", advice.order, advice.saving());
    /// # Ok::<(), ringfence::transient::TransientError>(())
    /// ```
    pub fn suggest_order(
        &mut self,
        pass_count: usize,
        resources: &[UsedResource<'_, '_, D>],
        order: &[(usize, usize)],
        go_on: impl FnMut(u64) -> bool,
    ) -> Result<PassOrder, TransientError> {
        let uses = |resource: &UsedResource<'_, '_, D>| alias::pass_edges(resource.uses);
        let edges: Vec<_> = order.iter().copied().chain(resources.iter().flat_map(uses)).collect();
        let named = resources.iter().flat_map(|held| held.uses).map(|held| held.pass);
        let passes = named.chain(order.iter().flat_map(|(a, b)| [*a, *b]));
        let is_unknown = passes.into_iter().find(|pass| *pass >= pass_count);
        let is_reversed = order.iter().find(|(before, after)| before >= after).map(|(before, _)| *before);
        let is_unused = resources.iter().position(|held| held.uses.is_empty());
        if let Some(place) = is_unknown.or(is_reversed).or(is_unused) {
            return Err(TransientError::NotPlanned { place });
        }
        let graph = PassGraph::new(pass_count, &edges).expect("every pair leads to a later pass");
        let mut items = Vec::with_capacity(resources.len());
        let mut sum = 0_u64;
        for resource in resources {
            let needs = self.measure_any(resource.info)?.1;
            sum = sum.checked_add(needs.size).filter(|sum| *sum < 1 << 63).ok_or_else(too_large)?;
            let passes = resource.uses.iter().map(|held| held.pass).collect();
            items.push(PassItem { size: needs.size, alignment: needs.alignment, passes });
        }
        let today: Vec<usize> = (0..pass_count).collect();
        Ok(alias::suggest_order(&graph, &items, &today, go_on))
    }
}

fn too_large() -> TransientError {
    DeviceError::InvalidInfo("the sizes of the frame's resources add up to 63 bits or more").into()
}
