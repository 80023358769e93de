//! The gate, a fence that work waits for and that the host signals. If a test fails while work waits for the gate, the
//! test must end, instead of waiting forever for that work.

use std::panic::catch_unwind;
use std::sync::mpsc::channel;
use std::thread;

use crate::Gpu;
use ringfence::device::BufferUsage;
use ringfence::{AllocatorDesc, Frame, Location, Timeline};

use crate::rig::{PATIENCE, Rig, buffer, caught, run_on};

/// Submits an empty frame of this timeline to the first queue. The work waits for the gate.
fn hold_back<G: Gpu>(rig: &mut Rig<G>, timeline: &Timeline<G::Device>, frame: Frame) -> u64 {
    let (gate, value) = (rig.gpu.gate(), frame.value());
    rig.gpu.submit(0, &[(gate, 1)], &[], value).expect("the device is not lost");
    timeline.submitted(frame).expect("frames are submitted in order");
    value
}

/// Fails while work waits for the gate. Owns a second allocator, which waits for the device when it is dropped.
fn fail_behind_the_gate<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, timelines) = rig.allocator(AllocatorDesc::default());
    let held = buffer(&memory, 64, BufferUsage::COPY_DST, Location::Device, "held");
    let frame = timelines[0].begin();
    hold_back(rig, &timelines[0], frame);
    drop(held);
    panic!("planted");
}

/// If a test fails while its work waits for the gate, the test ends. It runs on a thread, so that a hang is reported.
pub fn a_gated_test_that_fails_ends<G: Gpu>(rig: &mut Rig<G>) {
    let options = rig.options.clone();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let failed = catch_unwind(|| run_on::<G>(&options, fail_behind_the_gate)).expect_err("it fails");
        sender.send(failed.downcast_ref().copied()).expect("the test ends in time");
    });
    let failure: Option<&str> = receiver.recv_timeout(PATIENCE).expect("a test that fails behind the gate ends");
    assert_eq!(failure, Some("planted"), "the reported failure is the test's own");
}

pub fn a_panic_that_is_caught_leaves_the_gate_closed<G: Gpu>(rig: &mut Rig<G>) {
    let timeline = rig.timelines[0].clone();
    let frame = timeline.begin();
    let value = hold_back(rig, &timeline, frame);
    caught(|| panic!("planted")).expect_err("it panics");
    assert!(timeline.completed().expect("the device is not lost") < value, "the work is still held back");
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(timeline.wait(value, PATIENCE).expect("the device is not lost"));
}
