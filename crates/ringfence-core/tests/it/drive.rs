//! Runs the driver of every structure with some seeds. `campaign.rs` of `ringfence-lockfree/examples` runs the drivers
//! for hours, and the fuzz targets run them with inputs of the fuzzer. There is one test per structure, so that each
//! can be run alone.

use ringfence_core::testing::campaign::from_seeds;
use ringfence_core::testing::drive::ALL;

/// Runs the driver of this name.
fn agrees(wanted: &str) {
    from_seeds(*ALL.iter().find(|(name, _)| *name == wanted).expect("the list names it"));
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
    buddy free_list tlsf tlsf_deferred linear_ranges blocks virtual_allocator ring linear
    size_class retire sync_set
}
