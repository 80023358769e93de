//! Functions that open each of Ringfence's own devices for the suite.

#[cfg(any(not(windows), feature = "vulkan", feature = "d3d12"))]
use ringfence_testkit::Options;
use ringfence_testkit::rig::Rig;
#[cfg(any(feature = "vulkan", all(windows, feature = "d3d12")))]
use ringfence_testkit::rig::run_where;
#[cfg(not(windows))]
use ringfence_testkit::{rig::run_on, sim::SimGpu};

/// Runs a test on the simulated device with three queues.
#[cfg(not(windows))]
pub fn sim(profile: &str, test: impl FnOnce(&mut Rig<SimGpu>)) {
    let options = Options { queues: 3, seed: 11, name: Some(profile.to_owned()), ..Default::default() };
    run_on(&options, test);
}

/// Runs a test on a Vulkan device with validation.
#[cfg(feature = "vulkan")]
pub fn vulkan(test: impl FnOnce(&mut Rig<ringfence_testkit::vulkan::VulkanGpu>)) {
    use ringfence::device::descriptors::DescriptorModel;
    let required = std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_some();
    // Without layers, the tests still check the results that they can observe.
    let validation = std::env::var_os("RINGFENCE_NO_VALIDATION").is_none();
    let wanted = std::env::var("RINGFENCE_DESCRIPTORS").ok();
    let placeholders = wanted.as_deref() == Some("placeholders");
    let descriptors = wanted.map(|wanted| match wanted.as_str() {
        "buffers" => DescriptorModel::Buffers,
        "update-after-bind" => DescriptorModel::UpdateAfterBind,
        "plain-sets" | "placeholders" => DescriptorModel::PlainSets,
        _ => panic!("RINGFENCE_DESCRIPTORS is buffers, update-after-bind, plain-sets or placeholders, not {wanted}"),
    });
    let options =
        Options { queues: 3, validation, may_lack_validation: true, descriptors, placeholders, ..Default::default() };
    run_where(&options, required, test);
}

/// Runs a test on a Direct3D 12 device.
#[cfg(all(windows, feature = "d3d12"))]
pub fn d3d12(test: impl FnOnce(&mut Rig<ringfence_testkit::d3d12::D3d12Gpu>)) {
    let required = std::env::var_os("RINGFENCE_REQUIRE_D3D12").is_some();
    run_where(&Options { queues: 3, validation: true, ..Default::default() }, required, test);
}
