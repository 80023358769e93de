//! Which passes use a resource, and which pass has to wait for which because of it.
//!
//! ```text
//!   writes  1 ──▶ 2, 3   both read what 1 wrote: either first
//!                 2, 3 ──▶ 4   writes anew: after all that read the old content
//! ```
//!
//! From these edges, of all resources together, [`suggest_order`](super::suggest_order) knows what it may exchange.

use alloc::vec::Vec;

/// A pass's use of a resource. Passes are named by their place in today's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PassUse {
    /// The pass.
    pub pass: usize,
    /// Whether it changes what is there. The first use of a resource does, whatever is said here.
    pub writes: bool,
}

impl PassUse {
    /// A pass that reads.
    #[must_use]
    pub const fn read(pass: usize) -> Self {
        Self { pass, writes: false }
    }

    /// A pass that writes, or reads and writes.
    #[must_use]
    pub const fn write(pass: usize) -> Self {
        Self { pass, writes: true }
    }
}

/// Which passes have to come before which, *(before, after)*, for one resource used in this way today. O(uses · log
/// uses): fewer than two edges for each use.
#[must_use]
pub fn pass_edges(uses: &[PassUse]) -> Vec<(usize, usize)> {
    let mut uses = uses.to_vec();
    uses.sort_unstable();
    if let Some(first) = uses.first().map(|first| first.pass) {
        uses.iter_mut().filter(|held| held.pass == first).for_each(|held| held.writes = true);
    }
    let mut edges = Vec::new();
    // The last write before the use.
    let mut from = 0;
    for (at, later) in uses.iter().enumerate() {
        // A pass that reads waits for the write that it reads. A pass that writes waits for those that read the old
        // content, too.
        let waits_for = if later.writes { &uses[from..at] } else { &uses[from..at.min(from + 1)] };
        edges.extend(waits_for.iter().map(|held| (held.pass, later.pass)));
        if later.writes {
            from = at;
        }
    }
    edges.retain(|(before, after)| before != after);
    edges
}
