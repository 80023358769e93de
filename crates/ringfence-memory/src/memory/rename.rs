//! Names that change while a resource lives: in snapshots, in the trace, and on the driver's object.

use super::place::{ArenaRef, Hold, Place};
use super::shared::Shared;
use crate::device::Device;

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
            && let Some(key) = self.key_of(place)
        {
            debug.named(key, name);
        }
        self.trace.named(self.memory_of(place).block, place.offset, name);
    }
}
