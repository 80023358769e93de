//! Runs the driver of every structure with some seeds; long campaigns and the fuzz targets run the same drivers. There
//! is one test per structure, so that each can be run alone.

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
