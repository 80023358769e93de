//! Every structure beside its naive twin, from seeds: the short run of what `examples/campaign.rs` does for hours and the
//! fuzz targets do with inputs that they look for.

use ringfence_core::testing::drive::{ALL, fill};

#[test]
fn every_structure_agrees_with_its_twin_over_seeded_operations() {
    let mut bytes = [0; 1024];
    for (name, drive) in ALL {
        let mut operations = 0;
        for seed in 0..60 {
            fill(seed, &mut bytes);
            let run = std::panic::catch_unwind(|| drive(&bytes));
            operations += run.unwrap_or_else(|_| panic!("{name}, seed {seed}"));
        }
        assert!(operations > 1000, "{name} did {operations} operations");
    }
}
