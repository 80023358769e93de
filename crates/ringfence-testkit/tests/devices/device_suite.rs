//! The device suite: the same functions on every device of Ringfence.
//!
//! ```text
//!   ringfence_testkit::conformance      generic over Gpu: the requirements of every device
//!   manager::, placement::, trace::, …  generic too: policies and records above the device
//!        │
//!        ├── sim::h200::…, sim::lavapipe::…, sim::d3d12_tier1::…, …      not on Windows
//!        ├── vulkan::…      under core and synchronization validation, silent
//!        └── d3d12::…       on Windows, or Wine
//! ```
//!
//! If a device is absent, its tests are skipped with a note. If `RINGFENCE_REQUIRE_VULKAN` or `RINGFENCE_REQUIRE_D3D12`
//! is set, they fail instead. At the end, each test checks that no object is leaked, and that the hazard finder and the
//! validation layers reported no message. `RINGFENCE_DESCRIPTORS` selects the descriptor model on Vulkan, if the device
//! supports it (`placeholders`: plain sets without null descriptors). `RINGFENCE_NO_VALIDATION` disables the layers.
//!
//! The layers that check a device are printed once, on standard error (`validation: VK_LAYER_KHRONOS_validation
//! 1.3.239, synchronization on [vulkan, …]`, `validation: absent (…) […]`). Each test that does not apply to a device
//! is printed too (`skipped: …`). With `RINGFENCE_REQUIRE_VALIDATION=1`, the tests of a device without layers fail.

mod commands;
mod compaction;
mod contents;
mod debugging;
mod devices;
mod formats;
mod manager;
mod paging;
mod placement;
mod recycled;
mod released;
mod rings;
mod small_uploads;
mod streaming;
mod targets;
mod trace;
mod validation;

use ringfence_testkit::rig;

/// Makes the conformance suite and the tests of the policies above it, for one device.
macro_rules! suite {
    ($open:expr) => {
        ringfence_testkit::conformance!($open);
        suite!(@ $open, manager:
            seed_003_01_a_pool_is_one_memory_object_of_equal_blocks,
            seed_003_02_threads_allocate_and_free_at_once,
            seed_003_03_common_sizes_have_blocks_of_few_exact_sizes,
            seed_003_03_each_block_of_a_pool_has_the_alignment_of_its_request,
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
        suite!(@ $open, small_uploads:
            a_batch_fills_small_buffers_each_at_its_offset,
            buffers_of_the_policy_are_filled_each_at_its_offset,
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
            seed_004_18_a_page_of_a_late_queue_stays_and_delays_no_other,
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
        suite!(@ $open, released:
            what_is_destroyed_is_in_no_set_that_was_bound_later,
            what_is_recycled_is_in_no_set_that_was_bound_later,
            what_is_destroyed_at_once_is_in_no_set_that_is_bound_later,
        );
        suite!(@ $open, rings:
            seed_001_11_every_wait_of_a_write_is_counted,
            a_ring_grows_to_its_cap_and_shrinks_when_it_is_little_used,
            seed_001_11_a_ring_that_was_exchanged_keeps_its_high_water,
        );
        suite!(@ $open, streaming:
            a_volume_keeps_all_slices_when_its_mips_are_swapped,
            a_buffer_is_as_large_as_it_was_described,
            a_cube_is_streamed_and_moved,
            a_buffer_that_may_be_larger_keeps_all_that_it_has,
        );
        suite!(@ $open, formats:
            reported_uses_of_a_format_are_made_and_others_refused,
            textures_are_shown_in_their_view_formats,
            view_formats_are_a_part_of_the_key,
        );
        suite!(@ $open, targets:
            views_of_targets_are_cached_by_their_id,
            views_of_targets_are_refused_by_name,
        );
        suite!(@ $open, compaction:
            blocks_are_emptied_in_the_frames_of_a_program,
        );
        suite!(@ $open, paging:
            a_scene_of_three_times_its_memory_has_the_same_texels,
        );
        suite!(@ $open, contents:
            a_vector_on_the_device_equals_its_model,
            meshes_hold_their_bytes_wherever_they_are_moved,
        );
        suite!(@ $open, commands:
            fills_write_their_words_and_no_byte_more,
            clears_write_all_texels_of_their_subresources,
            depth_and_stencil_are_cleared_together_and_apart,
            boxes_of_textures_and_buffers_are_copied_like_their_model,
            results_of_commands_are_the_bytes_of_their_model,
            whole_textures_are_uploaded_in_one_call,
            commands_stay_within_their_small_buffers,
            resolved_texels_are_averages_of_their_samples,
            mip_levels_are_averages_of_the_previous_level,
        );
        suite!(@ $open, recycled:
            recycled_objects_hold_what_each_owner_writes,
            what_only_the_owner_knows_of_a_texture_is_not_the_next_owners,
        );
        suite!(@ $open, trace:
            a_trace_ends_in_the_state_that_the_allocator_is_in,
            a_trace_of_ranges_with_guards_ends_in_the_state_that_the_allocator_is_in,
            a_trace_that_is_cut_off_is_read_up_to_the_cut,
            a_damaged_trace_is_read_up_to_the_damage,
            a_trace_begins_with_an_allocator_that_made_nothing,
            a_trace_tells_of_rings_names_and_plans,
            a_full_disk_ends_the_recording_and_nothing_else,
        );
        suite!(@ $open, debugging:
            a_planted_overrun_is_found_and_named,
            guards_that_no_one_wrote_are_silent,
            an_overrun_of_the_device_is_found_when_the_range_is_released,
            a_planted_leak_is_found_and_named,
            new_and_released_memory_is_filled,
            a_history_tells_who_had_an_address,
            names_change_after_creation,
            debugging_changes_no_result,
            a_planted_overrun_after_a_move_is_found_and_named,
            moves_between_guards_keep_their_bytes,
        );
    };
    (@ $open:expr, $module:ident: $($name:ident),* $(,)?) => {
        mod $module {
            use super::*;
            $(
                #[test]
                fn $name() {
                    $open(crate::device_suite::$module::$name);
                }
            )*
        }
    };
}

/// The simulated device, once for each profile. It behaves the same on Windows, where its tests are left out: without
/// them, the program builds in a third of the time.
#[cfg(not(windows))]
mod sim {
    /// Makes a module of tests for each profile.
    macro_rules! profile {
        ($module:ident, $profile:literal) => {
            mod $module {
                use crate::device_suite::devices;
                suite!(|test| devices::sim($profile, test));
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
    use crate::device_suite::devices;
    suite!(devices::vulkan);
}

#[cfg(all(windows, feature = "d3d12"))]
mod d3d12 {
    use crate::device_suite::devices;
    suite!(devices::d3d12);
}
