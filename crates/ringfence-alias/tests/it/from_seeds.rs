//! Plans of generated items, from seeds: a short run of the same operations as the fuzz target.

use ringfence_alias::testing;
use ringfence_core::testing::campaign::from_seeds;

#[test]
fn frame_plan() {
    from_seeds(testing::ALL[0]);
}
