//! Every driver call of every scenario fails once, with every kind of error: alone, and with all that follow.
//!
//! ```text
//!   for each scenario ── for each k ── for each error
//!        the k-th call fails          ▶ typed error ▶ validate ▶ the same call again ▶ the scenario ends well, bytes right
//!        all calls from k on fail     ▶ typed error ▶ validate ▶ the fault ends      ▶ the scenario, again, ends well
//!        the device is lost at call k ▶ typed error ▶ validate ▶ everything goes     ▶ nothing waits for ever
//!   and then: nothing left on the device, nothing released twice (the hazard finder, the validation layers)
//! ```
//!
//! The table of calls is checked: each function of the contract that can fail did so in this very run. To add a scenario,
//! write a function over any [`Gpu`](ringfence_harness::Gpu) and list it below. A failure names the scenario, the call and
//! the error; `RINGFENCE_FAULT='scenario, profile,k'` runs it
//! alone (`'scenario,k'` on Vulkan).

mod contract;
mod descriptors;
mod foreign;
mod frames;
mod looking;
mod memory;
mod moving;
mod stage;
mod upload;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ringfence::Timeline;
use ringfence::device::DeviceError;
use ringfence::device::fault::{Call, Rule};
use ringfence::sim::{Profile, SimOptions};
use ringfence_harness::Gpu;
use ringfence_harness::sim::SimGpu;

use stage::{Outcome, Stage};

/// What a scenario does.
type Scenario<G> = fn(&mut Stage<G>) -> Outcome;

/// What makes a device lose itself for real, when a call says that it is lost; `None` if nothing can.
type Lose = Option<Box<dyn Fn() + Send + Sync>>;

/// The scenarios, for one kind of device.
fn scenarios<G: Gpu>() -> Vec<(&'static str, Scenario<G>)> {
    vec![
        ("buffers", memory::buffers),
        ("textures", memory::textures),
        ("growth of blocks", memory::growth),
        ("dedicated", memory::dedicated),
        ("aliasing", memory::aliasing),
        ("memory for a resource", memory::memory_for_a_resource),
        ("small buffers", memory::small_buffers),
        ("pools", memory::pools),
        ("eviction", memory::eviction),
        ("plans", memory::plans),
        ("ring that waits", upload::ring_that_waits),
        ("ring that grows", upload::ring_that_grows),
        ("texels", upload::texels),
        ("transfer queue", upload::transfer_queue),
        ("constants", upload::constants),
        ("fast constants", upload::fast_constants),
        ("cpu heaps", descriptors::cpu_heaps),
        ("tables and bindless", descriptors::tables_and_bindless),
        ("heap that grows", descriptors::heap_that_grows),
        ("samplers", descriptors::samplers),
        ("transient", frames::transient),
        ("planned frames", frames::planned_frames),
        ("placement", frames::placement),
        ("replaced and resized", frames::replaced_and_resized),
        ("shared memory", foreign::shared_memory),
        ("sparse pages", foreign::sparse_pages),
        ("sparse tiles", foreign::sparse_tiles),
        ("defragmentation", moving::defragmentation),
        ("residency", moving::residency),
        ("debugging", looking::debugging),
        ("teardown", frames::teardown),
        ("progress", frames::progress),
    ]
}

const ERRORS: [DeviceError; 6] = [
    DeviceError::OutOfHostMemory,
    DeviceError::OutOfDeviceMemory,
    DeviceError::TooManyObjects,
    DeviceError::MapFailed,
    DeviceError::Lost,
    DeviceError::Other(-7),
];

/// How long a fault lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lasting {
    Once,
    FromThenOn,
}

/// What came of all runs.
#[derive(Default)]
struct Table {
    runs: u64,
    /// By call: made to fail, by error.
    failed: BTreeMap<Call, BTreeMap<String, u64>>,
}

fn open_sim(profile: &Profile) -> SimGpu {
    let options = SimOptions { seed: 11, queues: 2, ..Default::default() };
    SimGpu::with_profile(profile.clone(), options).expect("the profile has room")
}

/// One run. Says how many calls could have failed.
fn run<G: Gpu>(
    name: &str,
    gpu: G,
    lose: Lose,
    scenario: Scenario<G>,
    fault: Option<(u64, DeviceError, Lasting)>,
    table: &mut Table,
) -> u64 {
    let mut stage = Stage::new(gpu);
    let Some((nth, error, lasting)) = fault else {
        let before = stage.faults.calls();
        scenario(&mut stage).expect("nothing fails unasked");
        let calls = stage.faults.calls() - before;
        assert_eq!(stage.finish(), Vec::<String>::new(), "hazards, messages or leaks");
        return calls;
    };
    let lost = error == DeviceError::Lost;
    if let Some(lose) = lose.filter(|_| lost) {
        stage.faults.set_hook(Some(Box::new(move |_, _| lose())));
    }
    let count = if lasting == Lasting::Once { 1 } else { u64::MAX };
    stage.faults.add(Rule { count, ..Rule::nth(nth, error) });
    let outcome = scenario(&mut stage);
    stage.memory.debug().validate().expect("sound after the fault");
    let injected = stage.faults.injected();
    // How often a real device is asked for its progress is a matter of luck.
    assert!(injected > 0 || G::NAME != "sim", "the call is made again");
    stage.faults.clear();
    match (lasting, lost) {
        (_, true) => {
            drop(outcome);
            // Whatever is asked of a lost device ends, and well.
            (0..2).for_each(|_| _ = stage.memory.reclaim());
            drop(scenario(&mut stage));
        }
        (Lasting::Once, false) => outcome.expect("what fails once succeeds the next time"),
        (Lasting::FromThenOn, false) => {
            // A shader-visible heap lives until its frames are complete, and there is one a kind.
            stage.gpu.wait_idle().expect("the device itself is well");
            // The scenario ended early, and its frame with it: nothing of it was submitted.
            stage.timelines.iter().for_each(Timeline::discard_dropped);
            (0..2).for_each(|_| _ = stage.memory.reclaim());
            scenario(&mut stage).expect("the fault is over, and work goes on");
        }
    }
    for text in stage.seen() {
        let named = text.contains(&error.to_string());
        let summed_up = error.is_out_of_memory() && (text.contains("out of memory") || text.contains("budget"));
        assert!(named || summed_up, "the error does not say what happened: {text}");
    }
    for tally in stage.faults.tallies() {
        *table.failed.entry(tally.call).or_default().entry(error.to_string()).or_default() += tally.failed;
    }
    table.runs += 1;
    // The end of an allocator's life has nobody to tell that the driver will not wait: what work may still use is left
    // alone then. That is the one leak there is.
    let waits = stage.faults.tallies()[Call::Wait as usize].failed;
    let may_leak = name.starts_with("teardown") && lasting == Lasting::FromThenOn && waits >= 3;
    let mut said = stage.finish();
    said.retain(|text| !(may_leak && text.starts_with("left over")));
    assert_eq!(said, Vec::<String>::new(), "hazards, messages or leaks");
    0
}

/// Runs every fault of a scenario; a failure says which.
fn all_faults<G: Gpu>(
    name: &str,
    open: &dyn Fn() -> (G, Lose),
    scenario: Scenario<G>,
    errors: &[DeviceError],
    step: usize,
    table: &mut Table,
) {
    let only = std::env::var("RINGFENCE_FAULT").ok();
    let only = only.as_deref().and_then(|only| only.rsplit_once(','));
    if only.is_some_and(|(wanted, _)| wanted != name) {
        return;
    }
    let (gpu, lose) = open();
    let calls = run(name, gpu, lose, scenario, None, table);
    assert!(calls > 0, "{name} asks the driver for something");
    for nth in (0..calls).step_by(step) {
        if only.is_some_and(|(_, wanted)| wanted != nth.to_string()) {
            continue;
        }
        for &error in errors {
            for lasting in [Lasting::Once, Lasting::FromThenOn] {
                let (gpu, lose) = open();
                let result = catch_unwind(AssertUnwindSafe(|| {
                    run(name, gpu, lose, scenario, Some((nth, error, lasting)), table)
                }));
                assert!(result.is_ok(), "scenario '{name}', call {nth} of {calls}, {error:?}, {lasting:?}");
            }
        }
    }
}

/// Prints the table and checks that each function of the contract failed.
fn check(table: &Table) {
    println!("{} runs; calls that were made to fail:", table.runs);
    for (call, errors) in &table.failed {
        let total: u64 = errors.values().sum();
        println!("  {:<22} {total:>8}", call.function());
    }
    if std::env::var_os("RINGFENCE_FAULT").is_some() {
        return;
    }
    for call in Call::ALL {
        let errors = table.failed.get(&call);
        let missing = ERRORS
            .iter()
            .find(|error| errors.and_then(|errors| errors.get(&error.to_string())).copied().unwrap_or(0) == 0);
        assert_eq!(missing, None, "{} never failed with this", call.function());
    }
}

#[test]
fn every_driver_call_fails_once_and_for_good_and_nothing_is_lost_or_leaked() {
    let mut table = Table::default();
    for profile in [Profile::h200(), Profile::d3d12_tier1(), Profile::non_coherent()] {
        // One profile tries every call, the others every third: they differ in types, classes and flushes.
        let step = if profile.name == "h200" { 1 } else { 3 };
        for (name, scenario) in scenarios::<SimGpu>() {
            let open = || {
                let gpu = open_sim(&profile);
                let device = gpu.sim().clone();
                (gpu, Some(Box::new(move || device.lose_device()) as Box<dyn Fn() + Send + Sync>))
            };
            all_faults(&format!("{name}, {}", profile.name), &open, scenario, &ERRORS, step, &mut table);
        }
    }
    check(&table);
}

/// On a real driver, under validation: faults that the driver could have. (It cannot be made to lose its device.)
#[cfg(feature = "vulkan")]
#[test]
fn real_vulkan_survives_faults_of_every_call() {
    use ringfence_harness::OpenError;
    use ringfence_harness::vulkan::VulkanGpu;
    let required = std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_some();
    let options = ringfence_harness::Options { queues: 2, validation: true, ..Default::default() };
    match VulkanGpu::open(&options) {
        Ok(gpu) => drop(gpu.close()),
        Err(OpenError::Absent(what)) if !required => return ringfence_harness::report::skipped(what),
        Err(error) => panic!("no Vulkan device: {error}"),
    }
    let mut table = Table::default();
    for (name, scenario) in scenarios::<VulkanGpu>() {
        let open = || (VulkanGpu::open(&options).expect("it opened before"), None);
        all_faults(name, &open, scenario, &[DeviceError::OutOfDeviceMemory], 9, &mut table);
    }
    println!("{} runs on Vulkan", table.runs);
    assert!(table.runs > 0 || std::env::var_os("RINGFENCE_FAULT").is_some());
}
