//! Heap tier 1: render targets, textures and buffers in heaps of their own, and what that costs.
//!
//! ```text
//!   together   ████████████              one heap: where tier 2, or Vulkan, allows it
//!   apart      ███████ + █████ + ██      a heap to each class: the sum is never less than the bound of all together
//! ```
//!
//! The cost is that of planning all items once together and once by class.

use super::item::{Item, ItemClass, ItemError};
use super::plan::{AliasPlan, Progress, plan};
use super::problem::Problem;
use alloc::vec::Vec;

/// The heap of one class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassPlan {
    /// What lies in it.
    pub class: ItemClass,
    /// The items of the class, by their place in the slice, ascending.
    pub items: Vec<usize>,
    /// Their offsets in the class's own heap, in the order of `items`.
    pub plan: AliasPlan,
}

/// Both ways, for the caller to choose from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassCosts {
    /// All items in one heap.
    pub together: AliasPlan,
    /// The classes that occur, each in its own heap.
    pub apart: Vec<ClassPlan>,
}

impl ClassCosts {
    /// What the heaps of the classes need together, in units.
    #[must_use]
    pub fn apart_height(&self) -> u64 {
        self.apart.iter().map(|class| class.plan.height).sum()
    }

    /// What keeping the classes apart costs, in units; 0 where it costs nothing.
    #[must_use]
    pub fn extra(&self) -> u64 {
        self.apart_height().saturating_sub(self.together.height)
    }
}

/// Plans the items in one heap and in a heap to each class. Each plan asks the closure by itself.
///
/// # Errors
/// The first item that cannot be planned.
pub fn class_costs(items: &[Item], mut go_on: impl FnMut(&Progress) -> bool) -> Result<ClassCosts, ItemError> {
    let together = plan(&Problem::new(items)?, &mut go_on);
    let mut apart = Vec::new();
    for class in [ItemClass::Buffer, ItemClass::Texture, ItemClass::RenderTarget] {
        let places: Vec<usize> = (0..items.len()).filter(|&place| items[place].class == class).collect();
        if places.is_empty() {
            continue;
        }
        let chosen: Vec<Item> = places.iter().map(|&place| items[place]).collect();
        apart.push(ClassPlan { class, items: places, plan: plan(&Problem::new(&chosen)?, &mut go_on) });
    }
    Ok(ClassCosts { together, apart })
}
