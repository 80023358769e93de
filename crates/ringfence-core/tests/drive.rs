//! Every structure beside its naive twin, from seeds: the short run of what `examples/campaign.rs` does for hours and the
//! fuzz targets do with inputs that they look for. One test a structure, so that one can be run alone.

use ringfence_core::testing::drive::{ALL, fill};

/// Drives the structure of this name from 60 seeds.
fn agrees(wanted: &str) {
    let (_, drive) = ALL.iter().find(|(name, _)| *name == wanted).expect("the list names it");
    let (mut bytes, mut operations) = ([0; 1024], 0);
    for seed in 0..60 {
        fill(seed, &mut bytes);
        let run = std::panic::catch_unwind(|| drive(&bytes));
        operations += run.unwrap_or_else(|_| panic!("{wanted}, seed {seed}"));
    }
    assert!(operations > 1000, "{wanted} did {operations} operations");
}

macro_rules! agrees_with_its_twin_over_seeded_operations {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                agrees(stringify!($name));
            }
        )*

        #[test]
        fn every_structure_is_tested() {
            assert_eq!(ALL.map(|(name, _)| name), [$(stringify!($name)),*]);
        }
    };
}

agrees_with_its_twin_over_seeded_operations! {
    buddy free_list tlsf tlsf_parked linear_ranges blocks virtual_allocator fixed_pool pool_chain ring linear size_class
    retire sync_set alias_plan
}
