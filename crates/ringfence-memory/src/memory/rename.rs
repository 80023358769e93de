//! Names that change while a resource lives: in snapshots, in the trace, and on the driver's object.

use super::place::{ArenaRef, Hold, Place};
use super::shared::Shared;
use crate::device::{Create, Device};
use crate::memory::Allocation;
use crate::resource::{Resource, ResourceKind};

impl<D: Device> Shared<D> {
    /// Notes another name. A place that others use too, or that lies in a pool outside the arenas, has none of its own.
    pub(crate) fn rename(&self, place: &mut Place<D>, name: &str) {
        match &mut place.hold {
            Hold::Range { allocation, .. } => match &place.arena {
                ArenaRef::Own(index) => self.arenas[*index as usize].rename(allocation, name),
                ArenaRef::Pool(pool) => pool.arena.rename(allocation, name),
            },
            Hold::Dedicated { number, .. } => match &place.arena {
                ArenaRef::Own(index) => self.arenas[*index as usize].rename_dedicated(*number, name),
                ArenaRef::Pool(pool) => pool.arena.rename_dedicated(*number, name),
            },
            Hold::Cell { class, named, allocation } => {
                *named = true;
                self.arena_cells(&place.arena).rename(*class, allocation, name);
            }
            Hold::Pooled { .. } | Hold::Aliased(_) | Hold::Common(_) | Hold::Small { .. } => return,
        }
        if let Some(debug) = &self.debug
            && let Some(key) = place.key(self)
        {
            debug.named(key, name);
        }
        self.trace.named(place.memory(self).block, place.offset, name);
    }
}

impl<D: Create<K> + Device, K: ResourceKind> Resource<D, K> {
    /// Gives it another name: for debuggers, snapshots and traces. What shares its bytes with others shows there under the
    /// name of the whole. One driver call, one short lock, one host allocation.
    pub fn set_name(&mut self, name: &str) {
        let (shared, placed, place) = self.parts_mut();
        // SAFETY: the object is alive, and `&mut self` keeps other calls on it away.
        unsafe { Create::<K>::set_name(&shared.device, &placed.object, name) };
        shared.rename(place, name);
    }
}

impl<D: Device> Allocation<D> {
    /// Gives it another name, shown in snapshots and traces; once resources alias it, the name stays. One short lock, one
    /// host allocation.
    pub fn set_name(&mut self, name: &str) {
        let (shared, place) = self.parts_mut();
        shared.rename(place, name);
    }
}
