//! The device suite: the same functions on every device that Ringfence has.
//!
//! ```text
//!   memory::, upload::, lifetime:: …   generic over Gpu: what must hold
//!        │
//!        ├── sim::h200::…, sim::d3d12_tier1::…, sim::non_coherent::…, sim::lavapipe::…
//!        ├── vulkan::…      under core and synchronization validation, silent
//!        └── d3d12::…       on Windows, or Wine
//! ```
//!
//! A device that is not here skips its tests, saying so, unless `RINGFENCE_REQUIRE_VULKAN` or `RINGFENCE_REQUIRE_D3D12`
//! is set: then it fails them. Each test ends with a check that nothing is left behind and that neither the hazard
//! finder nor the validation layers have said anything.

mod descriptor;
mod lifetime;
mod memory;
mod rig;
mod upload;

/// Lists the tests of the suite, for one device.
macro_rules! suite {
    ($open:expr) => {
        suite!(@ $open, memory:
            a_buffer_in_each_location_holds_what_was_written,
            a_texture_holds_what_was_copied_in,
            large_resources_and_those_that_ask_get_memory_of_their_own,
            many_small_buffers_share_few_blocks,
            bad_descriptions_are_typed_errors_and_change_nothing,
            host_access_is_bounded,
            names_show_in_the_snapshot,
            statistics_snapshot_and_blocks_agree,
        );
        suite!(@ $open, lifetime:
            a_dropped_buffer_lives_until_its_frame_is_complete,
            a_frame_that_is_dropped_holds_nothing_for_ever,
            frames_are_submitted_in_order_on_their_own_timeline,
            precise_release_waits_for_its_own_points_only,
            empty_blocks_go_after_their_grace,
            an_allocator_that_is_dropped_first_waits_for_the_device,
            a_thousand_frames_stream_and_leave_nothing_behind,
        );
        suite!(@ $open, upload:
            seed_001_01_one_ring_holds_mixed_data_of_several_frames,
            seed_001_03_alignments_of_vertices_constants_and_texels,
            seed_001_05_what_is_complete_is_freed_without_waiting,
            seed_001_06_waits_for_the_oldest_submission_only,
            seed_001_07_too_large_fails_before_any_wait,
            seed_001_08_figures_1_to_4,
            seed_001_11_the_ring_reports_its_high_water_and_waits,
            fault_08_never_waits_for_what_is_not_submitted,
            a_write_without_an_open_frame_is_refused,
            a_fence_that_never_signals_ends_in_a_timeout,
        );
        suite!(@ $open, descriptor:
            seed_000_01_one_shader_visible_heap_a_kind_bound_once_a_list,
            seed_000_02_many_requests_share_few_heaps,
            seed_000_19_handles_are_a_start_and_an_increment,
            seed_000_20_counts_are_checked,
            seed_000_21_the_algorithm_inside_can_be_swapped,
            work_goes_through_bindless_persistent_and_table_descriptors,
            work_reads_through_a_bindless_index,
            freed_slots_come_back_at_their_sync_points_only,
            an_entry_keeps_its_index_when_it_is_updated,
            identical_tables_of_a_frame_share_one_copy,
            tables_are_refused_with_the_numbers,
            threads_lease_chunks_side_by_side,
            two_thousand_requests_for_forty_samplers_use_forty_slots,
            a_heap_grows_at_a_submission_and_keeps_its_indices,
            empty_cpu_heaps_go_after_their_grace,
            every_portable_view_is_written_and_bad_ones_are_refused,
            anything_may_be_dropped_in_any_order,
        );
    };
    (@ $open:expr, $module:ident: $($name:ident),* $(,)?) => {
        mod $module {
            use super::*;
            $(
                #[test]
                fn $name() {
                    $open(crate::$module::$name);
                }
            )*
        }
    };
}

/// The simulated device, once a profile.
mod sim {
    /// A module of tests for each profile.
    macro_rules! profile {
        ($module:ident, $profile:literal) => {
            mod $module {
                use crate::rig;
                suite!(|test| rig::sim($profile, test));
            }
        };
    }
    profile!(h200, "h200");
    profile!(lavapipe, "lavapipe");
    profile!(d3d12_tier1, "d3d12-tier1");
    profile!(non_coherent, "non-coherent");
}

#[cfg(feature = "vulkan")]
mod vulkan {
    use crate::rig;
    suite!(rig::vulkan);
}

#[cfg(all(windows, feature = "d3d12"))]
mod d3d12 {
    use crate::rig;
    suite!(rig::d3d12);
}
