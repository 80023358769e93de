//! `ringfence doctor`, started as users start it.

use std::collections::BTreeSet;
use std::process::{Command, Output};

fn doctor(arguments: &[&str], drivers: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
    command.arg("doctor").args(arguments);
    if let Some(drivers) = drivers {
        command.env("VK_DRIVER_FILES", drivers).env("VK_ICD_FILENAMES", drivers);
    }
    command.output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the command prints UTF-8")
}

/// The parts of a device are those that `ringfence devices` lists, each once; the text has every name.
#[test]
fn each_device_is_opened_and_its_parts_are_named_once() {
    let output = doctor(&["--json"], None);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let devices = json["devices"].as_array().expect("a list");
    if devices.is_empty() {
        assert!(std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_none(), "no Vulkan device: {json}");
        println!("skipped: {json}");
        return;
    }
    let page = text(&doctor(&[], None).stdout);
    for device in devices {
        assert!(device["unusable"].is_null(), "{device}");
        let parts = device["parts"].as_array().expect("a list");
        let names: BTreeSet<_> = parts.iter().map(|part| part["name"].as_str().expect("a name")).collect();
        assert_eq!(names.len(), parts.len(), "{device}");
        assert!(names.iter().all(|name| page.contains(name)), "{page}");
        let has = |name: &str| parts.iter().any(|part| part["name"] == name && part["available"] == true);
        assert!(has("bufferDeviceAddress"), "{device}");
        assert!(page.contains(device["device"].as_str().expect("a name")), "{page}");
        if std::env::var_os("RINGFENCE_REQUIRE_VALIDATION").is_some() {
            assert!(device["validation"].as_str().expect("text").contains("synchronization on"), "{device}");
        }
    }
}

#[test]
fn without_a_driver_the_page_names_the_missing_package() {
    let output = doctor(&[], Some("/nonexistent"));
    let page = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(page.contains("No real device can be used") && page.contains("--device sim"), "{page}");
    // Without the loader, the page names the loader.
    assert!(page.contains("mesa-vulkan-drivers"), "{page}");
}
