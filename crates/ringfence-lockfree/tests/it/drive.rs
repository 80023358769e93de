//! Every structure beside its naive twin, from seeds: the short run of the campaign and of the fuzz targets. One test for each
//! structure, so that each can be run alone.

use ringfence_core::testing::campaign::from_seeds;
use ringfence_lockfree::testing::ALL;

#[test]
fn fixed_pool() {
    from_seeds(ALL[0]);
}

#[test]
fn pool_chain() {
    from_seeds(ALL[1]);
}
