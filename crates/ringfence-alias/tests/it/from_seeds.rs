//! Plans of generated items, from seeds: the short run of what `examples/alias_campaign.rs` does for hours and the fuzz
//! target does with inputs that it looks for.

use ringfence_alias::testing;
use ringfence_core::testing::campaign::from_seeds;

#[test]
fn alias_plan() {
    from_seeds(testing::ALL[0]);
}

#[test]
fn alias_heaps() {
    from_seeds(testing::ALL[1]);
}
