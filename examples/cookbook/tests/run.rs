//! Runs each recipe on a Vulkan device and checks its effect. Compares the code of the guide's chapter "Cookbook" with
//! the files of the recipes.

#[path = "run/checks.rs"]
mod checks;
#[path = "run/objects.rs"]
mod objects;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use first_hour::gpu::{Failure, Gpu};

/// Defines a test for each recipe, and the list of their names.
macro_rules! recipes {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            run(checks::$name);
        })*

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

recipes!(
    assert_no_leaks,
    async_compute,
    bindless_texture,
    compressed_texture,
    copy_queue,
    cube_map,
    custom_pool,
    defragment_step,
    draw_constants,
    eviction_callback,
    export_buffer,
    frame_table,
    frame_targets,
    gpu_list,
    grow_buffer,
    memory_growth,
    memory_left,
    own_ranges,
    packed_meshes,
    read_texture,
    resized_targets,
    retire_view,
    shared_sampler,
    simulated_gpu,
    small_buffers,
    snapshot_json,
    static_constants,
    stream_mips,
    stream_within_budget,
    texture_with_mips,
    trace_a_bug,
    vertex_buffer,
    volume_texture,
);

/// Runs a check on a device of its own. `Gpu::close` fails if a resource is left, or if the validation layer has
/// reported anything, also for another check of this process. With `RINGFENCE_REQUIRE_VULKAN`, the device and the
/// validation layer are required.
fn run(check: fn(&Gpu) -> Result<(), Failure>) {
    let is_required = std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_some();
    let gpu = match Gpu::open() {
        Ok(gpu) => gpu,
        Err(error) => {
            assert!(!is_required, "a device is required: {error}");
            eprintln!("skipped: {error}");
            return;
        }
    };
    assert!(gpu.is_validated() || !is_required, "the validation layer is required");
    check(&gpu).unwrap();
    gpu.close().unwrap();
}

#[test]
fn each_file_is_a_module_with_a_test() {
    let tested: BTreeSet<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(files(), tested);
    let (modules, checks) = (include_str!("../src/lib.rs"), include_str!("run/checks.rs"));
    for name in NAMES {
        assert!(modules.contains(&format!("cookbook/{name}.rs\"]\npub mod {name};")), "{name} is not a module");
        assert!(checks.contains(&format!("cookbook::{name}::{name}")), "{name} is not called");
    }
}

#[test]
fn each_recipe_is_one_short_function() {
    for name in NAMES {
        let code = read(name);
        let start = code.find("\npub fn ").unwrap_or_else(|| panic!("{name} has no function"));
        let function = &code[start + 1..];
        assert!(function.starts_with(&format!("pub fn {name}")), "{name} has another name");
        assert!(!function.contains("\n}\n\n"), "{name} has two items");
        let lines = function.lines().count();
        assert!(lines <= 25, "{name} has {lines} lines");
    }
}

#[test]
fn the_chapter_shows_the_files() {
    let chapter = std::fs::read_to_string(guide().join("cookbook.md")).expect("the chapter");
    let blocks: Vec<&str> =
        chapter.split("```rust,no_run\n").skip(1).map(|rest| &rest[..rest.find("```").expect("an end")]).collect();
    assert_eq!(blocks.len(), NAMES.len(), "blocks of the chapter");
    for name in NAMES {
        assert!(blocks.contains(&read(name).as_str()), "the block of {name} differs from its file");
    }
}

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(guide().join(format!("cookbook/{name}.rs"))).expect("a recipe")
}

/// Returns the names of the files of the recipes.
fn files() -> BTreeSet<String> {
    let entries = guide().join("cookbook").read_dir().expect("the folder of the recipes");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    names.map(|name| name.strip_suffix(".rs").expect("only recipes").to_owned()).collect()
}
