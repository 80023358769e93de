//! The test programs for the mutants of each crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A run of a test program. `package` and `target` identify the program (`lib`: the unit tests). `filters` are its
/// arguments: name filters and `--skip=…`. If there are no filters, all tests run.
pub struct Stage {
    pub package: &'static str,
    pub target: &'static str,
    pub filters: &'static [&'static str],
}

const fn stage(package: &'static str, target: &'static str, filters: &'static [&'static str]) -> Stage {
    Stage { package, target, filters }
}

/// Stages for the crates without a list of their own, from fast to slow. Those of the crate itself run first. All of them
/// use the simulated device.
const ABOVE: &[Stage] = &[
    stage("ringfence-memory", "it", &["--skip=there_is_no_memory", "--skip=_campaign::"]),
    stage("ringfence", "it", &["--skip=there_is_no_memory"]),
    stage("ringfence-sparse", "it", &[]),
    stage("ringfence-upload", "it", &["--skip=a_million", "--skip=upload_generated::"]),
    stage("ringfence-contents", "it", &[]),
    stage("ringfence-commands", "it", &[]),
    stage("ringfence-paging", "it", &[]),
    stage("ringfence-descriptor", "it", &[]),
    stage("ringfence-transient", "it", &[]),
    stage("ringfence-placement", "it", &[]),
    stage("ringfence-sim", "it", &[]),
    stage(
        "ringfence-testkit",
        "devices",
        &["device_suite::sim::", "steady_state::a_steady_frame_makes_no_driver", "worlds::"],
    ),
    stage("ringfence-memory", "it", &["there_is_no_memory", "_campaign::"]),
    stage("ringfence", "it", &["there_is_no_memory"]),
    stage("ringfence-upload", "it", &["a_million", "upload_generated::"]),
    stage("ringfence-testkit", "devices", &["faults::every", "faults::contract"]),
    stage("ringfence", "reentrant_allocator", &[]),
    stage("ringfence-cli", "it", &["demo_and_devices::", "world::", "trace::", "soak::"]),
];

const CORE: &[Stage] = &[
    stage("ringfence-core", "it", &["drive::"]),
    stage("ringfence-core", "lib", &[]),
    stage("ringfence-core", "it", &[]),
];

const LOCKFREE: &[Stage] = &[
    stage("ringfence-lockfree", "it", &["drive::"]),
    stage("ringfence-lockfree", "lib", &[]),
    stage("ringfence-lockfree", "it", &[]),
];

const ALIAS: &[Stage] = &[
    stage("ringfence-alias", "it", &["from_seeds::"]),
    stage("ringfence-alias", "lib", &[]),
    stage("ringfence-alias", "it", &[]),
];

const PLANNER: &[Stage] = &[
    stage("ringfence-planner", "it", &["from_seeds::"]),
    stage("ringfence-planner", "lib", &[]),
    stage("ringfence-planner", "it", &[]),
];

const VULKAN: &[Stage] = &[
    stage("ringfence-vulkan", "lib", &[]),
    stage("ringfence-testkit", "devices", &["vulkan_backend::", "two_processes::", "no_host_allocation::"]),
    stage("ringfence-testkit", "devices", &["device_suite::vulkan::"]),
    stage("ringfence-testkit", "devices", &["faults::real_vulkan"]),
];

const TOOLS: &[Stage] =
    &[stage("ringfence-report", "lib", &[]), stage("ringfence-report", "it", &[]), stage("ringfence-cli", "it", &[])];

/// Returns the folder of a crate in the repository.
pub fn folder(name: &str) -> PathBuf {
    if name == "ringfence-planner" { "planner".into() } else { Path::new("crates").join(name) }
}

/// Returns the stages of a crate in the order in which they run. If `only_own` is set, stages of other crates are omitted.
/// Those of `ringfence-vulkan` include the suites that run on the driver of `VK_DRIVER_FILES`.
pub fn of_crate(name: &str, only_own: bool) -> Vec<&'static Stage> {
    let own: &[Stage] = match name {
        "ringfence-upload" => &const { [stage("ringfence-upload", "lib", &[])] },
        "ringfence-descriptor" => &const { [stage("ringfence-descriptor", "lib", &[])] },
        "ringfence-transient" => &const { [stage("ringfence-transient", "lib", &[])] },
        "ringfence-memory" => &const { [stage("ringfence-memory", "lib", &[])] },
        "ringfence-decision" => &const { [stage("ringfence-decision", "lib", &[])] },
        "ringfence-observe" => &const { [stage("ringfence-observe", "lib", &[])] },
        "ringfence-paging" => &const { [stage("ringfence-paging", "lib", &[])] },
        "ringfence-hal" => &const { [stage("ringfence-hal", "lib", &[])] },
        "ringfence-sim" => &const { [stage("ringfence-sim", "lib", &[])] },
        "ringfence-trace" => &const { [stage("ringfence-trace", "lib", &[]), stage("ringfence-report", "it", &[])] },
        _ => &[],
    };
    let rest = match name {
        "ringfence-core" => CORE,
        "ringfence-lockfree" => LOCKFREE,
        "ringfence-alias" => ALIAS,
        "ringfence-planner" => PLANNER,
        "ringfence-vulkan" => VULKAN,
        "ringfence-report" | "ringfence-cli" => TOOLS,
        _ => ABOVE,
    };
    // The tests of the crate itself are the likeliest to fail.
    let (near, far): (Vec<_>, Vec<_>) = rest.iter().partition(|stage| stage.package == name);
    let is_wanted = |stage: &Stage| !only_own || stage.package == name || name == "ringfence-vulkan";
    own.iter().chain(near).chain(far).filter(|stage| is_wanted(stage)).collect()
}

/// Paths of the programs, by package and target.
pub type Programs = BTreeMap<(String, String), PathBuf>;

/// Returns the command that builds all programs of `stages`: with the features of the workspace, or if `only_own` is set,
/// only the packages of the stages.
pub fn build_command(stages: &[&Stage], only_own: bool) -> Vec<String> {
    let mut command: Vec<String> =
        ["cargo", "test", "--no-run", "--offline", "--message-format=json"].map(str::to_owned).into();
    if only_own {
        let packages: BTreeSet<&str> = stages.iter().map(|stage| stage.package).collect();
        command.extend(packages.iter().flat_map(|package| ["--package", package]).map(str::to_owned));
    } else {
        command.extend(["--workspace", "--bins"].map(str::to_owned));
    }
    let mut targets: Vec<&str> = stages.iter().map(|stage| stage.target).collect();
    targets.sort_unstable();
    targets.dedup();
    for target in targets {
        match target {
            "lib" => command.push("--lib".to_owned()),
            test => command.extend(["--test".to_owned(), test.to_owned()]),
        }
    }
    command
}

/// Repeats the build to list the paths of its programs.
pub fn find(command: &[String], root: &str) -> Programs {
    let output = Command::new(&command[0]).args(&command[1..]).current_dir(root).stderr(Stdio::null()).output();
    let output = output.expect("the build ran before");
    let mut programs = Programs::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let (Some(path), Some(id)) = (value["executable"].as_str(), value["package_id"].as_str()) else { continue };
        // path+file:///…/crates/NAME#VERSION, or path+file:///…/planner#NAME@VERSION
        let (place, named) = id.split_once('#').unwrap_or((id, ""));
        let folder = place.rsplit('/').next().unwrap_or_default();
        let package = named.split_once('@').map_or(folder, |(name, _)| name);
        let target = match value["target"]["kind"][0].as_str() {
            Some("lib") => "lib",
            Some("test") => value["target"]["name"].as_str().unwrap_or_default(),
            _ => continue,
        };
        programs.insert((package.to_owned(), target.to_owned()), PathBuf::from(path));
    }
    programs
}
