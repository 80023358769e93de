//! Every driver call of the placement policy and the uploads fails, one after the other. Each failure is a typed error
//! or is handled. Afterwards all data structures are valid, the same call succeeds, the bytes are right, and nothing is
//! leaked.

mod placement;
mod upload;

use ringfence::AllocatorDesc;
use ringfence::device::{DeviceError, RawBuffer};
use ringfence::sim::{Profile, SimOptions};
use ringfence_testkit::faults::{FaultyDevice, Lasting, Outcome, Stage, Table, Walk};
use ringfence_testkit::sim::SimGpu;

/// The simulated device behind an injector of faults.
type Device = FaultyDevice<SimGpu>;
type World = Stage<SimGpu>;
type Command = ringfence_testkit::Command<Device>;

const KIB: u64 = 1 << 10;

/// Errors that a call is made to fail with. `release/lost.rs` tests the loss of a device.
const ERRORS: [DeviceError; 2] = [DeviceError::OutOfDeviceMemory, DeviceError::Other(-7)];

/// Makes every driver call of the scenario fail, on a device that needs a flush after host writes and on one that does
/// not.
fn every_call_fails_once(scenario: impl Fn(&mut World) -> Outcome) {
    for profile in [Profile::h200(), Profile::non_coherent()] {
        let open = || {
            let options = SimOptions { seed: 5, queues: 2, ..Default::default() };
            (SimGpu::with_profile(profile.clone(), options).expect("the profile has room"), None)
        };
        let allocator = AllocatorDesc::default();
        let walk = Walk { errors: &ERRORS, lasting: &[Lasting::Once], allocator, ..Walk::default() };
        let mut table = Table::default();
        let calls = walk.scenario(profile.name, &open, &scenario, &mut table);
        let (name, injected, errors) = (profile.name, table.injected, table.errors_seen);
        assert_eq!(injected, calls * ERRORS.len() as u64, "each call was made to fail");
        assert!(errors > 0 && calls > 5, "{name}: {calls} calls, {errors} errors");
    }
}

fn copy(
    (src, src_offset): (RawBuffer<Device>, u64),
    (dst, dst_offset): (RawBuffer<Device>, u64),
    size: u64,
) -> Command {
    Command::CopyBuffer { src, src_offset, dst, dst_offset, size }
}
