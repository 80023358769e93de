//! The conformance suite: the requirements of every device, as generic functions over [`Gpu`](crate::Gpu).
//!
//! [`conformance!`](crate::conformance!) makes a `#[test]` of each function. A function takes an open
//! [`Rig`](crate::rig::Rig), so it can also be called directly. The crate's front page lists the traits to implement.
//!
//! ```text
//!   memory::, upload::, lifetime:: …   generic over Gpu: the requirements
//!        │
//!        ├── Ringfence's own: five simulated profiles, Vulkan under validation, Direct3D 12   tests/device_suite
//!        └── your own device                                                                   conformance!(…)
//! ```
//!
//! A test that does not apply to a device (without sparse buffers or sharing, for example) reports that and returns. At
//! the end, each test checks that no object is leaked and that the device's checks (the hazard finder, validation
//! layers) have no message.
#![expect(missing_docs, reason = "the name of each function states what must hold")]

pub mod constants;
pub mod defrag;
pub mod descriptor;
pub mod fast_constants;
pub mod gate;
pub mod lifetime;
pub mod memory;
pub mod residency;
pub mod sharing;
pub mod sparse;
pub mod sparse_texture;
pub mod staging;
pub mod texels;
pub mod transient;
pub mod upload;

/// Makes a `#[test]` of each function of the [conformance suite](mod@crate::conformance), with one module for each of
/// its parts.
///
/// The argument runs one test: a closure, or a function that takes any `FnOnce(&mut Rig<G>)`. For each test, it must
/// open a new device, as [`rig::run_on`](crate::rig::run_on) does.
///
/// ```
/// mod own_device {
///     use ringfence_testkit::{Options, rig, sim::SimGpu};
///
///     ringfence_testkit::conformance!(|test| rig::run_on::<SimGpu>(&Options { queues: 3, ..Default::default() }, test));
/// }
/// ```
#[macro_export]
macro_rules! conformance {
    ($open:expr) => {
        $crate::conformance!(@ $open, gate:
            a_gated_test_that_fails_ends,
            a_panic_that_is_caught_leaves_the_gate_closed,
        );
        $crate::conformance!(@ $open, memory:
            a_buffer_in_each_location_holds_what_was_written,
            a_texture_holds_what_was_copied_in,
            large_resources_and_those_that_ask_get_memory_of_their_own,
            many_small_buffers_share_few_blocks,
            multisampled_targets_lie_in_blocks_aligned_for_them,
            bad_descriptions_are_typed_errors_and_change_nothing,
            host_access_is_bounded,
            names_show_in_the_snapshot,
            statistics_snapshot_and_blocks_agree,
        );
        $crate::conformance!(@ $open, lifetime:
            a_dropped_buffer_lives_until_its_frame_is_complete,
            a_frame_that_is_discarded_holds_nothing_for_ever,
            a_frame_that_is_dropped_after_its_submission_holds_what_it_uses,
            a_frame_that_a_panic_drops_holds_what_it_uses,
            a_dropped_frame_is_resolved_by_a_later_one,
            a_frame_that_was_overtaken_comes_back_open,
            a_ring_that_waits_for_a_dropped_frame_names_it,
            shutdown_is_refused_while_a_frame_is_open_or_dropped,
            a_bin_of_two_allocators_releases_nothing_early,
            frames_are_submitted_in_order_on_their_own_timeline,
            precise_release_waits_for_its_own_points_only,
            empty_blocks_go_after_their_grace,
            an_allocator_that_is_dropped_first_waits_for_the_device,
            a_thousand_frames_stream_and_leave_nothing_behind,
            a_resource_in_flight_is_replaced_without_a_wait,
            a_buffer_is_resized_with_its_contents,
            a_chain_of_mips_is_swapped_up_and_down,
            objects_of_the_programs_own_wait_like_resources,
        );
        $crate::conformance!(@ $open, defrag:
            buffers_are_moved_together_with_their_bytes,
            textures_are_moved_with_their_texels,
            what_is_pinned_or_not_movable_stays,
            what_is_dropped_or_pinned_during_a_move_does_the_right_thing,
            the_old_place_is_free_when_its_sync_points_have_passed,
            memory_of_the_host_is_moved_only_if_that_is_allowed,
            memory_without_a_resource_is_moved_by_its_owner,
            a_run_works_on_everything_and_the_trace_tells_of_it,
            a_run_converges_and_another_has_nothing_to_do,
        );
        $crate::conformance!(@ $open, residency:
            unused_memory_is_evicted_under_pressure_and_comes_back_with_its_bytes,
            what_a_submission_uses_is_not_evicted_before_it_is_complete,
            what_is_replaced_is_resident_until_it_is_copied,
            a_block_stays_as_long_as_something_in_it_must_not_go,
            priorities_are_reported_where_the_system_listens,
        );
        $crate::conformance!(@ $open, constants:
            seed_002_01_slots_of_256_512_and_1024_bytes,
            seed_002_02_larger_constants_have_a_path_of_their_own,
            seed_002_03_six_pools,
            seed_002_04_every_slot_has_a_view,
            seed_002_05_dynamic_content_is_copied_when_it_is_bound,
            seed_002_06_a_full_dynamic_pool_gives_way_to_a_larger_one,
            seed_002_07_unchanged_content_is_copied_once_a_frame,
            fault_10_an_earlier_copy_counts_only_in_its_frame_and_its_pool,
            equal_content_of_a_frame_shares_one_copy,
            seed_002_08_static_constants_stay_where_they_are,
            seed_002_08_static_constants_lie_in_device_memory_under_one_handle,
            seed_002_09_a_full_static_pool_gets_a_companion,
            seed_002_10_statics_are_staged_through_the_dynamic_pool,
            seed_002_11_two_barriers_a_pool,
            seed_002_11_barriers_are_recorded_once_around_all_copies,
            a_static_slot_is_not_given_out_before_the_device_is_done,
            what_could_not_be_staged_is_staged_the_next_time,
            a_writer_serves_its_own_constants_and_its_own_frame,
            threads_bind_one_constant_buffer,
            seed_002_12_what_is_read_often_is_read_from_device_memory,
            seed_002_12_promotion_begins_at_the_number_that_is_set,
        );
        $crate::conformance!(@ $open, fast_constants:
            seed_004_07_constants_of_one_frame_are_fast_ones,
            seed_004_14_a_page_that_is_over_retires_and_a_new_one_comes,
            seed_004_18_pages_go_back_as_a_whole_and_out_of_order,
            buddies_that_are_not_needed_for_long_go,
            seed_004_27_constants_of_a_graph_are_fast_constants,
        );
        $crate::conformance!(@ $open, transient:
            seed_004_02_textures_and_buffers_come_from_the_transient_allocator,
            seed_004_02_a_pass_that_is_given_switches_to_its_transient_allocator,
            seed_004_27_the_passes_of_a_graph_read_fast_constants,
            seed_004_24_heaps_at_hand_are_tried_first_else_one_is_got,
            seed_004_25_a_hit_creates_nothing,
            seed_004_26_acquire_marks_in_use_and_discard_records_the_pass,
            seed_004_28_unused_objects_go_beyond_a_number_and_an_age,
            seed_004_28_the_oldest_go_first,
            seed_004_29_empty_heaps_go_to_a_cache_and_then_go,
            seed_004_30_release_is_proven_by_sync_points_not_by_latency,
            classes_share_heaps_where_the_device_lets_them,
            barriers_are_as_few_as_the_sharing_needs,
            memory_is_saved_and_bytes_are_right,
            bytes_are_right_with_several_queues_in_a_partial_order,
            bytes_are_right_in_planned_frames_on_several_queues,
            a_planned_frame_like_the_last_makes_nothing,
            a_plan_needs_less_than_placement_as_it_goes,
            a_planned_frame_almost_like_the_last_keeps_what_it_can,
            planned_classes_have_heaps_of_their_own_only_where_they_must,
            planned_frames_that_overlap_have_heaps_of_their_own,
            bad_planned_frames_are_refused,
            queues_share_bytes_only_where_one_waits_for_the_other,
            what_the_device_has_completed_is_free_for_every_queue,
            what_is_in_use_when_the_allocator_goes_outlives_the_device_work,
            bad_transient_requests_are_typed_errors_and_change_nothing,
        );
        $crate::conformance!(@ $open, upload:
            seed_001_01_one_ring_holds_mixed_data_of_several_frames,
            seed_001_03_alignments_of_vertices_constants_and_texels,
            seed_001_02_and_04_a_submission_is_listed_at_its_first_write_only,
            seed_001_09_a_write_that_fails_moves_nothing,
            seed_001_10_the_fence_advances_after_each_submission,
            seed_001_05_what_is_complete_is_freed_without_waiting,
            seed_001_06_waits_for_the_oldest_submission_only,
            seed_001_06_what_is_not_the_oldest_is_not_waited_for,
            seed_001_06_a_wait_for_the_oldest_ends_at_its_timeout,
            seed_001_07_too_large_fails_before_any_wait,
            seed_001_08_figures_1_to_4,
            seed_001_08_each_figure_shows_in_the_ring,
            seed_001_08_one_allocation_takes_the_space_of_several_submissions,
            seed_001_11_the_ring_reports_its_high_water_and_waits,
            seed_001_11_waits_are_counted_with_their_time_and_the_high_water_stays,
            fault_08_never_waits_for_what_is_not_submitted,
            a_write_without_an_open_frame_is_refused,
            a_fence_that_never_signals_ends_in_a_timeout,
            sixteen_threads_write_into_one_ring,
            a_writer_takes_the_ring_a_page_at_a_time,
            writing_to_a_frame_that_is_over_is_refused,
            frames_of_another_allocator_are_refused,
            an_idle_writer_holds_nothing_up,
            a_writer_of_a_frame_that_was_overtaken_is_refused,
        );
        $crate::conformance!(@ $open, staging:
            copies_of_a_frame_are_merged_and_their_barriers_grouped,
            a_later_copy_of_a_batch_hides_an_earlier_one,
            a_batch_refuses_what_does_not_fit,
            texels_lie_as_the_device_wants_them,
            results_come_back_through_a_ring,
            results_that_are_not_read_are_named_when_the_ring_is_full,
            texels_come_back_without_their_padding,
            uploads_on_a_copy_queue_hand_their_point_to_the_consumer,
            an_upload_that_is_refused_leaves_no_frame_open,
            uploads_that_were_not_submitted_are_discarded,
            what_is_staged_has_an_address_where_buffers_have_one,
        );
        $crate::conformance!(@ $open, texels:
            every_colour_format_keeps_its_texels_in_every_shape,
            every_block_compressed_format_keeps_its_blocks_in_every_shape,
            every_format_of_depth_and_stencil_keeps_its_aspects,
            portable_descriptions_of_every_shape_are_made_or_refused,
            texels_that_a_texture_does_not_have_are_refused,
            texels_beyond_every_number_are_refused,
        );
        $crate::conformance!(@ $open, sharing:
            an_exported_buffer_is_the_importers_too,
            an_imported_buffer_is_released_by_sync_points_and_outlives_its_exporter,
            a_pool_that_shares_shows_its_blocks,
            what_is_moved_in_a_pool_that_shares_is_shared_there,
            an_imported_buffer_is_not_evicted,
            a_shared_texture_holds_the_same_texels,
            what_cannot_be_shared_is_refused_by_name,
        );
        $crate::conformance!(@ $open, sparse:
            bound_pages_hold_their_bytes_and_unbound_ones_none,
            pages_are_released_by_sync_points,
            a_batch_is_data_until_it_is_submitted,
            random_bindings_agree_with_a_plain_table,
            bad_pages_are_typed_errors_and_change_nothing,
            pages_are_neither_evicted_nor_moved,
            a_device_without_sparse_buffers_says_so,
        );
        $crate::conformance!(@ $open, sparse_texture:
            sparse_texture_tiles_hold_their_texels_and_unbound_ones_none,
            sparse_texture_pages_are_released_by_sync_points,
            sparse_texture_batches_are_data_until_they_are_submitted,
            sparse_texture_random_bindings_agree_with_a_plain_table,
            sparse_texture_misuse_is_a_typed_error_and_changes_nothing,
            a_device_without_sparse_textures_says_so,
        );
        $crate::conformance!(@ $open, descriptor:
            seed_000_01_one_shader_visible_heap_a_kind_bound_once_a_list,
            seed_000_02_many_requests_share_few_heaps,
            seed_000_19_handles_are_a_start_and_an_increment,
            seed_000_20_counts_are_checked,
            seed_000_20_by_default_blocks_of_buddies_and_one_free_list,
            seed_000_21_the_algorithm_inside_can_be_swapped,
            work_goes_through_bindless_persistent_and_table_descriptors,
            work_reads_through_a_bindless_index,
            a_view_of_a_range_of_a_shared_buffer_shows_that_range,
            freed_slots_come_back_at_their_sync_points_only,
            an_entry_keeps_its_index_when_it_is_updated,
            identical_tables_of_a_frame_share_one_copy,
            tables_are_refused_with_the_numbers,
            threads_take_chunks_side_by_side,
            two_thousand_requests_for_forty_samplers_use_forty_slots,
            a_heap_grows_at_a_submission_and_keeps_its_indices,
            empty_cpu_heaps_go_after_their_grace,
            every_portable_view_is_written_and_bad_ones_are_refused,
            texels_of_every_format_are_shown_or_refused_by_name,
            anything_may_be_dropped_in_any_order,
            constants_come_with_their_descriptors,
            constants_are_read_where_they_were_bound_after_their_pool_was_exchanged,
            storage_that_is_only_read_lies_in_upload_memory,
            a_trace_tells_of_descriptors_what_a_snapshot_does,
            default_heaps_and_tables_are_made_on_every_device,
            explicit_slots_beyond_the_device_are_refused_with_the_numbers,
        );
    };
    (@ $open:expr, $module:ident: $($name:ident),* $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "the expression may name what its module has")]
            use super::*;
            $(
                #[test]
                fn $name() {
                    $open($crate::conformance::$module::$name);
                }
            )*
        }
    };
}
