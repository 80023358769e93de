//! Plans of generated items, from seeds: a short run of the same operations as `examples/alias_campaign.rs` and the
//! fuzz target.

use ringfence_core::testing::campaign::from_seeds;
use ringfence_planner::testing;

#[test]
fn alias_plan() {
    from_seeds(testing::ALL[0]);
}

#[test]
fn alias_heaps() {
    from_seeds(testing::ALL[1]);
}
