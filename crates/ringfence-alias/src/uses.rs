//! The passes that use a resource, and the dependencies between them.
//!
//! ```text
//!   writes  1 ──▶ 2, 3   both read the output of 1, in any order
//!                 2, 3 ──▶ 4   writes again: after all passes that read the old content
//! ```
//!
//! A [`PassGraph`](super::PassGraph) of these edges, for all resources together, limits the orders that
//! [`suggest_order`](super::suggest_order) tries.

use alloc::vec::Vec;

/// A pass's use of a resource. Passes are identified by their position in the present order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PassUse {
    /// Position of the pass.
    pub pass: usize,
    /// `true` if the pass changes the content. The first use of a resource is always treated as a write.
    pub writes: bool,
}

impl PassUse {
    /// Creates the use of a pass that reads.
    #[must_use]
    pub const fn read(pass: usize) -> Self {
        Self { pass, writes: false }
    }

    /// Creates the use of a pass that writes, or reads and writes.
    #[must_use]
    pub const fn write(pass: usize) -> Self {
        Self { pass, writes: true }
    }
}

/// Returns the dependencies *(before, after)* that follow from the uses of one resource in the present order. O(uses ·
/// log uses): fewer than two edges per use.
#[must_use]
pub fn pass_edges(uses: &[PassUse]) -> Vec<(usize, usize)> {
    let mut uses = uses.to_vec();
    uses.sort_unstable();
    if let Some(first) = uses.first().map(|first| first.pass) {
        uses.iter_mut().filter(|held| held.pass == first).for_each(|held| held.writes = true);
    }
    let mut edges = Vec::new();
    // Index of the last write before the use.
    let mut from = 0;
    for (at, later) in uses.iter().enumerate() {
        // A reader waits for the write that it reads. A writer also waits for the readers of the old content.
        let waits_for = if later.writes { &uses[from..at] } else { &uses[from..at.min(from + 1)] };
        edges.extend(waits_for.iter().map(|held| (held.pass, later.pass)));
        if later.writes {
            from = at;
        }
    }
    edges.retain(|(before, after)| before != after);
    edges
}
