//! If there are no validation layers, a run reports that, so it does not look like a run without errors. A test of the
//! suite runs in a separate process that finds no layers.
#![cfg(all(feature = "vulkan", not(windows)))]

use std::process::{Command, Output};

/// Runs a test of this program in a process in which the Vulkan loader finds no layers.
fn without_layers(required: bool) -> Output {
    let nowhere = std::env::temp_dir().join(format!("ringfence-no-layers-{}-{required}", std::process::id()));
    std::fs::create_dir_all(&nowhere).expect("a folder for temporary files");
    let mut test = Command::new(std::env::current_exe().expect("this program"));
    test.args(["--exact", "device_suite::vulkan::memory::names_show_in_the_snapshot", "--test-threads", "1"]);
    test.env("VK_LAYER_PATH", &nowhere).env_remove("RINGFENCE_NO_VALIDATION");
    // The report of this run must not mention the layers of that process.
    test.env_remove("RINGFENCE_TEST_REPORT");
    match required {
        true => test.env("RINGFENCE_REQUIRE_VALIDATION", "1"),
        false => test.env_remove("RINGFENCE_REQUIRE_VALIDATION"),
    };
    let output = test.output().expect("it runs");
    std::fs::remove_dir(&nowhere).expect("it is empty");
    output
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect()
}

#[test]
fn a_layer_that_is_absent_is_a_line_of_its_own() {
    let output = without_layers(false);
    let lines = lines(&output);
    if lines.iter().any(|line| line.starts_with("skipped: ")) {
        return crate::device_suite::rig::skipped("there is no Vulkan device");
    }
    assert!(output.status.success(), "{lines:?}");
    let of_validation: Vec<_> = lines.iter().filter(|line| line.starts_with("validation: ")).collect();
    assert!(matches!(of_validation[..], [line] if line.starts_with("validation: absent (")), "{lines:?}");
}

#[test]
fn a_layer_that_is_absent_fails_where_it_is_required() {
    let output = without_layers(true);
    if lines(&output).iter().any(|line| line.starts_with("skipped: ")) {
        return crate::device_suite::rig::skipped("there is no Vulkan device");
    }
    assert!(!output.status.success(), "{:?}", lines(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("RINGFENCE_REQUIRE_VALIDATION: validation: absent ("), "{said}");
}
