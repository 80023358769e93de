//! Every structure beside its naive twin, from seeds: the short run of what `examples/campaign.rs` does for hours and the
//! fuzz targets do with inputs that they look for. One test a structure, so that one can be run alone.

use ringfence_core::testing::drive::{ALL, fill};

/// From how many seeds; `RINGFENCE_DRIVE_SEEDS` says it otherwise, for mutation testing.
const SEEDS: u64 = 60;

/// Drives the structure of this name.
fn agrees(wanted: &str) {
    let seeds = std::env::var("RINGFENCE_DRIVE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let (_, drive) = ALL.iter().find(|(name, _)| *name == wanted).expect("the list names it");
    let (mut bytes, mut operations) = ([0; 1024], 0);
    for seed in 0..seeds {
        fill(seed, &mut bytes);
        let run = std::panic::catch_unwind(|| drive(&bytes));
        operations += run.unwrap_or_else(|_| panic!("{wanted}, seed {seed}"));
    }
    assert!(operations > 16 * seeds, "{wanted} did {operations} operations");
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
    buddy free_list tlsf tlsf_deferred linear_ranges blocks virtual_allocator fixed_pool pool_chain ring linear
    size_class retire sync_set alias_plan
}
