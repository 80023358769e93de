//! `ringfence demo` and `ringfence devices`, started as users start them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn ringfence(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringfence")).args(arguments).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the command prints UTF-8")
}

/// A folder that is deleted when the value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ringfence-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("the path is UTF-8").to_owned()
    }

    fn is_empty(&self) -> bool {
        std::fs::read_dir(&self.0).expect("the folder is there").next().is_none()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SIM: [&str; 4] = ["demo", "--device", "sim", "--frames"];

fn sim<'a>(frames: &'a str, more: &[&'a str]) -> Output {
    ringfence(&[&SIM[..], &[frames], more].concat())
}

#[test]
fn the_simulated_demo_finds_every_byte_right() {
    let output = sim("60", &["--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["wrong_bytes"], 0);
    assert_eq!(json["left"], 0);
    assert_eq!(json["hazards"].as_array().map(Vec::len), Some(0));
    assert!(json["checked_bytes"].as_u64() > Some(1 << 20), "{json}");
    assert!(json["rings"][0]["wait_count"].as_u64() > Some(0), "bursts fill the ring");
    assert!(json["calls_saved"].as_u64() > json["calls_made"].as_u64());
}

/// The demo uses batches, constants and transient targets: their figures are above 0.
#[test]
fn the_demo_uses_batches_constants_and_transient_targets() {
    let output = sim("40", &["--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let figure = |name: &str| json[name].as_u64().unwrap_or_else(|| panic!("{name} is a number in {json}"));
    assert!(figure("copies_avoided") > 0 && figure("copy_calls") <= figure("copy_regions"));
    assert_eq!(figure("copies_asked"), figure("copy_regions") + figure("copies_avoided"));
    assert!(figure("barriers_spared") > figure("copies_asked") / 4, "{json}");
    let spared = figure("constants_unchanged") + figure("constants_shared");
    assert_eq!(figure("constants_bound"), figure("constants_copied") + spared);
    assert!(figure("constants_unchanged") > 0 && figure("constants_shared") > 0);
    assert!(figure("constants_promoted") > 0 && figure("statics_staged") >= 32 && figure("fast_constants") > 0);
    let (apart, shared) = (figure("targets_apart_bytes"), figure("targets_shared_bytes"));
    assert_eq!(apart - shared, figure("targets_saved_bytes"));
    assert!(2 * shared < apart && figure("targets_lower_bound_bytes") == shared, "{json}");
    assert_eq!((figure("plans_made"), figure("plans_reused")), (2, 39), "with the picture and without");
    assert!(figure("aliasing_barriers") > 0);
}

#[test]
fn every_device_gives_the_same_bytes() {
    let digest = |profile| {
        let output = ringfence(&["demo", "--device", profile, "--frames", "20", "--seed", "5", "--json"]);
        assert!(output.status.success(), "{profile}: {}", text(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json["digest"].as_str().expect("a digest").to_owned()
    };
    let profiles = ["sim:h200", "sim:lavapipe", "sim:d3d12-tier1", "sim:d3d12-modern", "sim:non-coherent"];
    let digests = profiles.map(digest);
    assert!(digests.iter().all(|held| *held == digests[0]), "{digests:?}");
}

#[test]
fn a_seed_repeats_to_the_byte_and_another_differs() {
    for profile in ["sim", "sim:d3d12-tier1", "sim:non-coherent"] {
        let run = |seed| ringfence(&["demo", "--device", profile, "--frames", "40", "--seed", seed]).stdout;
        assert_eq!(text(&run("3")), text(&run("3")), "{profile}");
        assert_ne!(text(&run("3")), text(&run("4")), "{profile}");
    }
}

#[test]
fn report_and_image_are_written_whole() {
    let scratch = Scratch::new("files");
    let (report, image) = (scratch.path("run.html"), scratch.path("run.png"));
    let output = sim("20", &["--report", &report, "--image", &image, "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let page = std::fs::read_to_string(report).expect("the page is there");
    let saved = format!("data-figure=\"calls_saved\" data-value=\"{}\"", json["calls_saved"]);
    assert!(page.contains("data-figure=\"reserved_bytes\"") && page.ends_with("</html>\n"), "{saved}");
    for line in ["targets: memory saved", "uploads: barriers grouped", "uploads: waits", "constants: copies avoided"] {
        assert!(page.contains(line), "{line}");
    }
    let image = std::fs::read(image).expect("the picture is there");
    let decoder = png::Decoder::new(std::io::Cursor::new(image));
    let mut reader = decoder.read_info().expect("a PNG");
    let mut texels = vec![0; reader.output_buffer_size().expect("it fits")];
    let info = reader.next_frame(&mut texels).expect("a picture");
    assert_eq!((info.width, info.height), (256, 256));
    assert!(texels.chunks(4).any(|texel| texel != &texels[..4]), "more than one colour");
    assert_eq!(std::fs::read_dir(&scratch.0).expect("the folder is there").count(), 2, "nothing else is left");
}

#[test]
fn bad_input_is_one_line_exit_1_and_nothing_written() {
    let scratch = Scratch::new("bad");
    let beyond = scratch.path("missing/run.html");
    let folder = scratch.0.to_str().expect("UTF-8").to_owned();
    let cases: &[(&[&str], &str)] = &[
        (&["demo", "--device", "toaster"], "unknown device"),
        (&["demo", "--device", "sim:toaster"], "h200"),
        (&["demo", "--device", "sim", "--frames", "0"], "from 1 to"),
        (&["demo", "--device", "sim", "--frames", "99999999999999999999"], "from 1 to"),
        (&["demo", "--device", "sim", "--frames", "-3"], "--help"),
        (&["demo", "--device", "sim", "--frames", "many"], "from 1 to"),
        (&["demo", "--device", "sim", "--seed", "x"], "--help"),
        (&["demo", "--device", "sim", "--report", &beyond], "cannot write"),
        (&["demo", "--device", "sim", "--image", &folder], "cannot write"),
        (&["demo", "--device", "sim", "--report", ""], "--help"),
        (&["frobnicate"], "--help"),
    ];
    for (arguments, expected) in cases {
        let output = ringfence(arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert_eq!(errors.trim_end().lines().count(), 1, "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty() && scratch.is_empty(), "{arguments:?}");
    }
}

#[test]
#[cfg(unix)]
fn without_permission_nothing_is_written() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("permission");
    let existing = scratch.path("kept.html");
    std::fs::write(&existing, "kept").expect("the folder is writable");
    std::fs::set_permissions(&existing, std::fs::Permissions::from_mode(0o444)).expect("the file is ours");
    // The superuser may write to every file, so the test cannot run.
    if std::fs::OpenOptions::new().write(true).open(&existing).is_ok() {
        return eprintln!("skipped: this user may write to everything");
    }
    let output = sim("5", &["--report", &existing]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&existing).expect("the file is there"), "kept");
}

#[test]
fn writing_to_a_device_file_leaves_the_device_file() {
    if Path::new("/dev/null").exists() {
        assert!(sim("2", &["--report", "/dev/null"]).status.success());
        assert!(!std::fs::metadata("/dev/null").expect("still there").is_file());
    }
}

#[test]
fn without_any_driver_the_default_run_is_simulated_and_says_so() {
    let output = Command::new(env!("CARGO_BIN_EXE_ringfence"))
        .args(["demo", "--frames", "5"])
        .env("VK_ICD_FILENAMES", "/nonexistent.json")
        .env("VK_DRIVER_FILES", "/nonexistent.json")
        .output()
        .expect("the command starts");
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("sim device") && errors.contains("no Vulkan device"), "{errors}");
}

#[test]
fn devices_lists_every_profile() {
    let output = ringfence(&["devices", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names: Vec<_> = json.as_array().expect("a list").iter().filter_map(|held| held["device"].as_str()).collect();
    for profile in ["sim:h200", "sim:lavapipe", "sim:d3d12-tier1", "sim:d3d12-modern", "sim:non-coherent"] {
        assert!(names.contains(&profile), "{names:?}");
    }
    assert!(text(&ringfence(&["devices"]).stdout).contains("host_visible"));
}

#[test]
fn help_is_an_answer_not_a_failure() {
    for arguments in [&["--help"][..], &["demo", "--help"], &["devices", "--help"], &["--version"]] {
        let output = ringfence(arguments);
        assert!(output.status.success() && output.stderr.is_empty() && !output.stdout.is_empty(), "{arguments:?}");
    }
}
