//! The rules and the counts, without a device.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::ResourceClass;

const FULL: DeviceError = DeviceError::OutOfDeviceMemory;

fn memory(size: u64, memory_type: u32) -> MemoryDesc<'static> {
    let (class, priority) = (ResourceClass::Buffer, Priority::Normal);
    MemoryDesc { memory_type, size, alignment: 1, class, priority, name: "", share: None }
}

/// Returns the numbers of the calls that fail, of ten calls of `call`.
fn failed_of_ten(rule: Rule, call: Call) -> Vec<usize> {
    let faults = FaultInjector::<()>::default();
    faults.add(rule);
    (0..10).filter(|_| faults.pass(call, None).is_err()).collect()
}

#[test]
fn a_rule_skips_calls_and_then_fails_its_number_of_calls() {
    let any = Rule::new(FULL);
    for (rule, failed) in [
        (any, (0..10).collect::<Vec<_>>()),
        (Rule { skip: 1, ..any }, (1..10).collect()),
        (Rule { skip: 3, count: 2, ..any }, vec![3, 4]),
        (Rule { count: 1, ..any }, vec![0]),
        (Rule { count: 0, ..any }, vec![]),
        (Rule::nth(0, FULL), vec![0]),
        (Rule::nth(4, FULL), vec![4]),
        (Rule::nth(10, FULL), vec![]),
        (Rule { call: Some(Call::Flush), count: 3, ..any }, vec![0, 1, 2]),
        (Rule { call: Some(Call::Wait), ..any }, vec![]),
    ] {
        assert_eq!(failed_of_ten(rule, Call::Flush), failed, "{rule:?}");
    }
}

#[test]
fn bytes_and_memory_types_select_allocations() {
    let any = Rule::new(FULL);
    let small = Rule { bytes_min: 100, ..any };
    let typed = Rule { memory_types: 0b100, ..any };
    for (rule, desc, is_failed) in [
        (small, Some(memory(99, 0)), false),
        (small, Some(memory(100, 0)), true),
        (small, Some(memory(101, 5)), true),
        // A call without memory has 0 bytes, and every type.
        (small, None, false),
        (typed, None, true),
        (typed, Some(memory(1, 2)), true),
        (typed, Some(memory(1, 1)), false),
        (typed, Some(memory(1, 3)), false),
        (Rule { memory_types: 0, ..any }, Some(memory(1, 0)), false),
        (Rule { memory_types: 0b11, ..any }, Some(memory(1, 0)), true),
        (Rule { memory_types: 0b11, ..any }, Some(memory(1, 1)), true),
        (Rule { memory_types: 1 << 31, ..any }, Some(memory(1, 31)), true),
        (Rule { bytes_min: 100, memory_types: 0b100, ..any }, Some(memory(100, 1)), false),
        (Rule { bytes_min: 100, memory_types: 0b100, ..any }, Some(memory(99, 2)), false),
        (Rule { call: Some(Call::Wait), ..any }, Some(memory(1, 0)), false),
    ] {
        let faults = FaultInjector::<()>::default();
        faults.add(rule);
        let expected = if is_failed { Err(FULL) } else { Ok(()) };
        assert_eq!(faults.pass(Call::AllocateMemory, desc.as_ref()), expected, "{rule:?}, {desc:?}");
    }
}

#[test]
fn calls_and_failures_are_counted_for_all_clones_until_the_rules_are_removed() {
    let (device, faults) = FaultInjector::new(7_u8);
    assert_eq!(*device.inner(), 7);
    faults.add(Rule { call: Some(Call::Flush), skip: 1, count: 2, ..Rule::new(DeviceError::Lost) });
    faults.add(Rule { call: Some(Call::Flush), ..Rule::new(FULL) });
    let found = [(); 4].map(|()| device.pass(Call::Flush, None).err());
    let expected = [FULL, DeviceError::Lost, DeviceError::Lost, FULL].map(Some);
    assert_eq!(found, expected, "the first rule that fails the call gives the error");
    assert_eq!(device.pass(Call::Place, None), Ok(()));
    assert_eq!((faults.calls(), faults.injected(), faults.failed(Call::Flush)), (5, 4, 4));
    assert_eq!((device.clone().calls(), device.failed(Call::Place)), (5, 0));
    faults.clear();
    assert_eq!(device.pass(Call::Flush, None), Ok(()));
    assert_eq!((faults.calls(), faults.injected()), (6, 4));
    let other = FaultInjector::with(8_u8, faults.clone());
    faults.add(Rule { call: Some(Call::Place), ..Rule::new(FULL) });
    assert_eq!((*other.inner(), other.pass(Call::Place, None)), (8, Err(FULL)));
    assert_eq!((faults.injected(), faults.failed(Call::Place), faults.failed(Call::Flush)), (5, 1, 4));
}

#[test]
fn the_hook_runs_for_each_failure_and_for_no_other_call() {
    let faults = FaultInjector::<()>::default();
    faults.add(Rule { call: Some(Call::Wait), skip: 1, ..Rule::new(DeviceError::Lost) });
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    faults.set_hook(Some(Box::new(move |call, error| {
        assert_eq!((call, error), (Call::Wait, DeviceError::Lost));
        counted.fetch_add(1, Ordering::Relaxed);
    })));
    let found = [Call::Wait, Call::Flush, Call::Wait, Call::Wait].map(|call| faults.pass(call, None).is_err());
    assert_eq!((found, runs.load(Ordering::Relaxed)), ([false, false, true, true], 2));
    faults.set_hook(None);
    assert_eq!(faults.pass(Call::Wait, None), Err(DeviceError::Lost));
    assert_eq!(runs.load(Ordering::Relaxed), 2, "the hook was removed");
    assert_eq!(Arc::strong_count(&runs), 1, "and dropped");
}

#[test]
fn each_call_has_the_name_of_its_function() {
    assert_eq!((Call::ALL.len(), Call::ALL[0], Call::ALL[23]), (24, Call::AllocateMemory, Call::BindHeap));
    for (call, function) in [
        (Call::AllocateMemoryFor, "allocate_memory_for"),
        (Call::BindTiles, "bind_tiles"),
        (Call::Dedicate, "dedicate"),
        (Call::WriteView, "write_view"),
    ] {
        assert_eq!(call.function(), function);
    }
}
