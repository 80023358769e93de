//! The device suite: the same functions on every device that Ringfence has.
//!
//! ```text
//!   memory::, upload::, lifetime:: …   generic over Gpu: what must hold
//!        │
//!        ├── sim::h200::…, sim::lavapipe::…, sim::d3d12_tier1::…, …
//!        ├── vulkan::…      under core and synchronization validation, silent
//!        └── d3d12::…       on Windows, or Wine
//! ```
//!
//! A device that is not here skips its tests, saying so, unless `RINGFENCE_REQUIRE_VULKAN` or `RINGFENCE_REQUIRE_D3D12`
//! is set: then it fails them. Each test ends with a check that nothing is left behind and that neither the hazard finder
//! nor the validation layers have said anything. `RINGFENCE_DESCRIPTORS` picks how Vulkan keeps descriptors, of what the
//! device has (`placeholders`: plain sets without null descriptors); `RINGFENCE_NO_VALIDATION` does without the layers.
//!
//! What watches a device is a line of its own on the standard error stream, once (`validation: VK_LAYER_KHRONOS_validation
//! 1.3.239, synchronization on [vulkan, …]`, `validation: absent (…) […]`), and so is each test that is not for a device
//! (`skipped: …`). With `RINGFENCE_REQUIRE_VALIDATION=1` a device that nothing watches fails its tests.

mod constants;
mod debugging;
mod defrag;
mod descriptor;
mod fast_constants;
mod gate;
mod lifetime;
mod manager;
mod memory;
mod placement;
mod residency;
mod rig;
mod sharing;
mod sparse;
mod sparse_texture;
mod staging;
mod texels;
mod trace;
mod transient;
mod upload;
mod validation;

/// Lists the tests of the suite, for one device.
macro_rules! suite {
    ($open:expr) => {
        suite!(@ $open, gate:
            a_gated_test_that_fails_ends,
            a_panic_that_is_caught_leaves_the_gate_closed,
        );
        suite!(@ $open, memory:
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
        suite!(@ $open, manager:
            seed_003_01_a_pool_is_one_memory_object_of_equal_blocks,
            seed_003_02_threads_allocate_and_free_at_once,
            seed_003_03_common_sizes_have_blocks_of_few_exact_sizes,
            seed_003_04_an_exact_key_keeps_types_classes_and_sizes_apart,
            seed_003_04_pools_are_of_one_memory_type_class_and_size,
            seed_003_05_a_full_pool_leads_to_the_next_one,
            seed_003_05_the_chain_is_followed_to_what_was_freed,
            seed_003_06_limits_and_budgets_are_obeyed,
            seed_003_07_memory_and_offset_or_a_typed_failure,
            aliasing_resources_share_bytes_until_the_last_is_gone,
            a_plan_says_what_the_call_does,
            small_buffers_share_and_hold_their_bytes,
            custom_pools_hold_resources_and_go_with_them,
            blocks_made_ahead_serve_what_comes,
            what_is_announced_is_there_when_it_is_asked_for,
            threads_make_and_drop_buffers_while_frames_end,
        );
        suite!(@ $open, lifetime:
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
        suite!(@ $open, defrag:
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
        suite!(@ $open, residency:
            unused_memory_is_evicted_under_pressure_and_comes_back_with_its_bytes,
            what_a_submission_uses_is_not_evicted_before_it_is_complete,
            a_block_stays_as_long_as_something_in_it_must_not_go,
            priorities_are_told_where_the_system_listens,
        );
        suite!(@ $open, placement:
            seed_004_01_dynamic_buffers_are_uploads_and_others_default_on_one_path,
            seed_004_09_small_uploads_end_at_65_536_bytes_or_where_it_is_set,
            seed_004_10_big_uploads_end_at_64_mib_or_where_it_is_set,
            default_buffers_end_where_it_is_set_whatever_their_strategy,
            what_goes_where_on_both_sides_of_the_other_thresholds,
            seed_004_03_default_buffers_go_to_the_first_pool_that_supports_them,
            seed_004_04_a_texture_is_planned_without_memory_and_a_clear_value_only_for_targets,
            seed_004_04_a_clear_value_reaches_the_driver_of_targets_alone,
            seed_004_05_readback_buffers_lie_where_the_host_reads,
            seed_004_05_readback_textures_are_stand_alone_buffers,
            seed_004_06_textures_have_four_pools_by_kind,
            seed_004_07_constants_of_several_frames_are_uploads_and_others_fast,
            seed_004_07_constants_go_where_their_lifetime_says,
            seed_004_08_uploads_have_three_allocators,
            seed_004_11_a_multi_buddy_tries_each_buddy_and_else_adds_one,
            seed_004_12_placed_and_suballocated,
            seed_004_13_a_location_remembers_its_allocator,
            seed_004_14_a_full_page_of_fast_constants_is_let_go_of_and_another_comes,
            seed_004_18_letting_go_of_a_fast_location_does_nothing,
            seed_004_15_four_kinds_of_location_each_let_go_of_in_its_way,
            seed_004_16_stand_alone_and_aliased_are_deleted_later_and_aliased_memory_with_its_last_user,
            seed_004_16_what_stands_alone_is_destroyed_at_once_where_that_is_asked_for,
            seed_004_17_ranges_of_pools_and_buddies_never_come_back_at_once,
            seed_004_19_deleted_after_the_submitted_work_of_all_queues,
            seed_004_19_deleted_whichever_of_several_queues_is_the_last,
            seed_004_20_the_end_of_a_frame_cleans_every_allocator,
            seed_004_23_an_empty_block_goes_after_a_lag_of_frames_without_use,
            seed_004_21_freed_only_when_the_fence_of_its_frame_is_complete,
            seed_004_22_a_placed_resource_is_released_and_a_shared_one_lives_as_long_as_its_block,
            a_placement_that_is_dropped_first_leaves_its_locations_alone,
            bad_placement_requests_are_typed_errors_and_change_nothing,
            a_buffer_is_resized_across_routes_with_its_bytes,
        );
        suite!(@ $open, constants:
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
        suite!(@ $open, fast_constants:
            seed_004_07_constants_of_one_frame_are_fast_ones,
            seed_004_14_a_page_that_is_over_retires_and_a_new_one_comes,
            seed_004_18_pages_go_back_as_a_whole_and_out_of_order,
            buddies_that_are_not_needed_for_long_go,
            seed_004_27_constants_of_a_graph_are_fast_constants,
        );
        suite!(@ $open, transient:
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
        suite!(@ $open, upload:
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
            a_ring_grows_to_its_cap_and_shrinks_when_it_is_calm,
            a_writer_of_a_frame_that_was_overtaken_is_refused,
        );
        suite!(@ $open, staging:
            copies_of_a_frame_are_merged_and_their_barriers_grouped,
            a_later_copy_of_a_batch_hides_an_earlier_one,
            a_batch_refuses_what_does_not_fit,
            texels_lie_as_the_device_wants_them,
            results_come_back_through_a_ring,
            results_that_are_not_read_are_named_when_the_ring_is_full,
            texels_come_back_without_their_padding,
            uploads_on_a_copy_queue_hand_their_point_to_the_consumer,
            what_is_staged_has_an_address_where_buffers_have_one,
        );
        suite!(@ $open, texels:
            every_colour_format_keeps_its_texels_in_every_shape,
            every_block_compressed_format_keeps_its_blocks_in_every_shape,
            every_format_of_depth_and_stencil_keeps_its_aspects,
            portable_descriptions_of_every_shape_are_made_or_refused,
            texels_that_a_texture_does_not_have_are_refused,
            texels_beyond_every_number_are_refused,
        );
        suite!(@ $open, trace:
            a_trace_ends_in_the_state_that_the_allocator_is_in,
            a_trace_that_is_cut_off_is_read_up_to_the_cut,
            a_damaged_trace_is_read_up_to_the_damage,
            a_trace_begins_with_an_allocator_that_made_nothing,
            a_trace_tells_of_rings_names_and_plans,
            a_full_disk_ends_the_recording_and_nothing_else,
        );
        suite!(@ $open, debugging:
            a_planted_overrun_is_found_and_named,
            guards_that_nobody_wrote_are_silent,
            an_overrun_of_the_device_is_found_when_the_range_is_released,
            a_planted_leak_is_found_and_named,
            new_and_released_memory_is_filled,
            a_history_tells_who_had_an_address,
            names_change_after_creation,
            debugging_changes_no_result,
            a_planted_overrun_after_a_move_is_found_and_named,
            moves_between_guards_keep_their_bytes,
        );
        suite!(@ $open, sharing:
            an_exported_buffer_is_the_importers_too,
            an_imported_buffer_is_released_by_sync_points_and_outlives_its_exporter,
            a_pool_that_shares_shows_its_blocks,
            a_shared_texture_holds_the_same_texels,
            what_cannot_be_shared_is_refused_by_name,
        );
        suite!(@ $open, sparse:
            bound_pages_hold_their_bytes_and_unbound_ones_none,
            pages_are_released_by_sync_points,
            a_batch_is_data_until_it_is_submitted,
            random_bindings_agree_with_a_plain_table,
            bad_pages_are_typed_errors_and_change_nothing,
            a_device_without_sparse_buffers_says_so,
        );
        suite!(@ $open, sparse_texture:
            sparse_texture_tiles_hold_their_texels_and_unbound_ones_none,
            sparse_texture_pages_are_released_by_sync_points,
            sparse_texture_batches_are_data_until_they_are_submitted,
            sparse_texture_random_bindings_agree_with_a_plain_table,
            sparse_texture_misuse_is_a_typed_error_and_changes_nothing,
            a_device_without_sparse_textures_says_so,
        );
        suite!(@ $open, descriptor:
            seed_000_01_one_shader_visible_heap_a_kind_bound_once_a_list,
            seed_000_02_many_requests_share_few_heaps,
            seed_000_19_handles_are_a_start_and_an_increment,
            seed_000_20_counts_are_checked,
            seed_000_20_by_default_blocks_of_buddies_and_one_free_list,
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
            constants_come_with_their_descriptors,
            storage_that_is_only_read_lies_in_upload_memory,
            a_trace_tells_of_descriptors_what_a_snapshot_does,
            default_heaps_and_tables_are_made_on_every_device,
            explicit_slots_beyond_the_device_are_refused_with_the_numbers,
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
    profile!(d3d12_modern, "d3d12-modern");
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
