//! In every scenario, every driver call fails with every kind of error: once alone, and once with all later calls
//! ([`ringfence_testkit::faults`]).
//!
//! The table of calls is checked at the end: each fallible function of the contract must have failed. To add a
//! scenario, write a function over any [`Gpu`](ringfence_testkit::Gpu) and list it below. A failure names the scenario,
//! the call and the error; `RINGFENCE_FAULT='scenario, profile,k'` runs only that one (`'scenario,k'` on Vulkan).

mod contract;
mod descriptors;
mod foreign;
mod frames;
mod looking;
mod memory;
mod moving;
mod upload;

use ringfence::device::BufferUsage;
use ringfence::device::transfer::TransferSupport;
use ringfence::sim::{Profile, SimOptions};
use ringfence_testkit::Gpu;
use ringfence_testkit::faults::{FaultyDevice, Lose, Outcome, Stage, Table, Walk};
use ringfence_testkit::sim::SimGpu;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const COPIED: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);

/// The function of a scenario.
type Scenario<G> = fn(&mut Stage<G>) -> Outcome;

/// Returns the scenarios for one kind of device.
fn scenarios<G: Gpu>() -> Vec<(&'static str, Scenario<G>)>
where
    FaultyDevice<G>: TransferSupport,
{
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
        ("paging", moving::paging),
        ("debugging", looking::debugging),
        ("teardown", frames::teardown),
        ("progress", frames::progress),
    ]
}

fn open_sim(profile: &Profile) -> SimGpu {
    let options = SimOptions { seed: 11, queues: 2, ..Default::default() };
    SimGpu::with_profile(profile.clone(), options).expect("the profile has room")
}

#[test]
fn every_driver_call_fails_once_and_always_and_nothing_is_lost_or_leaked() {
    let mut table = Table::default();
    for profile in [Profile::h200(), Profile::d3d12_tier1(), Profile::non_coherent()] {
        // On one profile, every call fails; on the others, every third. The profiles differ in memory types, classes
        // and flushes.
        let walk = Walk { step: if profile.name == "h200" { 1 } else { 3 }, ..Walk::default() };
        for (name, scenario) in scenarios::<SimGpu>() {
            let open = || {
                let gpu = open_sim(&profile);
                let device = gpu.sim().clone();
                let lose: Lose = Some(Box::new(move || device.lose_device()));
                (gpu, lose)
            };
            walk.scenario(&format!("{name}, {}", profile.name), &open, &scenario, &mut table);
        }
    }
    table.print();
    table.check(&Walk::ERRORS);
}

/// If a driver call panics, the objects that were created before it are freed during unwinding, the counts stay
/// correct, and later work succeeds.
#[test]
fn a_driver_call_that_panics_leaks_nothing() {
    use ringfence::device::DeviceError;
    use ringfence_testkit::faults::Lasting;
    let mut table = Table::default();
    let errors = &[DeviceError::OutOfDeviceMemory];
    for profile in [Profile::h200(), Profile::d3d12_tier1()] {
        let walk = Walk { errors, lasting: &[Lasting::Once], unwinds: true, ..Walk::default() };
        for (name, scenario) in scenarios::<SimGpu>() {
            let open = || (open_sim(&profile), None);
            walk.scenario(&format!("{name}, {}", profile.name), &open, &scenario, &mut table);
        }
    }
    table.print();
    table.check(errors);
}

/// A real driver under validation survives every fault except a lost device, which it cannot be made to have.
#[cfg(feature = "vulkan")]
#[test]
fn real_vulkan_survives_faults_of_every_call() {
    use ringfence::device::DeviceError;
    use ringfence_testkit::OpenError;
    use ringfence_testkit::vulkan::VulkanGpu;
    let required = std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_some();
    let options = ringfence_testkit::Options { queues: 2, validation: true, ..Default::default() };
    match VulkanGpu::open(&options) {
        Ok(gpu) => drop(gpu.close()),
        Err(OpenError::Absent(what)) if !required => return ringfence_testkit::report::skipped(what),
        Err(error) => panic!("no Vulkan device: {error}"),
    }
    let mut table = Table::default();
    let walk = Walk { errors: &[DeviceError::OutOfDeviceMemory], step: 9, ..Walk::default() };
    for (name, scenario) in scenarios::<VulkanGpu>() {
        let open = || (VulkanGpu::open(&options).expect("it opened before"), None);
        walk.scenario(name, &open, &scenario, &mut table);
    }
    println!("{} runs on Vulkan", table.runs);
    assert!(table.runs > 0 || std::env::var_os("RINGFENCE_FAULT").is_some());
}
