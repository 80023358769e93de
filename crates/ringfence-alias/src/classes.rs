//! Heap tier 1: separate heaps for render targets, textures and buffers, and their cost.
//!
//! ```text
//!   together   ████████████              one heap, if tier 2 or Vulkan allows it
//!   apart      ███████ + █████ + ██      one heap per class: the sum is never less than the bound of one heap
//! ```
//!
//! Plans all items once together, and once by class.

use super::item::{Item, ItemClass, ItemError};
use super::plan::{AliasPlan, Progress, plan};
use super::problem::Problem;
use alloc::vec::Vec;

/// Plan of one class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassPlan {
    /// The class.
    pub class: ItemClass,
    /// Indices of the class's items in the slice, ascending.
    pub items: Vec<usize>,
    /// Their offsets in the heap of the class, in the order of `items`.
    pub plan: AliasPlan,
}

/// Both plans, for the caller to choose from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassCosts {
    /// Plan of all items in one heap.
    pub together: AliasPlan,
    /// Plans of the classes that occur, each in its own heap.
    pub apart: Vec<ClassPlan>,
}

impl ClassCosts {
    /// Returns the sum of the heights of the classes' heaps, in units.
    #[must_use]
    pub fn apart_height(&self) -> u64 {
        self.apart.iter().map(|class| class.plan.height).sum()
    }

    /// Returns the extra height of separate heaps, in units; 0 if they cost nothing.
    #[must_use]
    pub fn extra(&self) -> u64 {
        self.apart_height().saturating_sub(self.together.height)
    }
}

/// Plans the items in one heap, and in one heap per class. Each plan calls the closure on its own.
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
