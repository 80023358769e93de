use super::*;

/// A failure of a heap that is large enough for the request is more informative than `TooLarge`, and than an earlier
/// `NoType`. Otherwise the last failure counts.
#[test]
fn the_most_informative_failure_is_reported() {
    let out = Failure::Driver(DeviceError::OutOfDeviceMemory);
    let (small, smaller) = (Failure::TooLarge { max: 2 }, Failure::TooLarge { max: 1 });
    let plain = [out, Failure::Refused, Failure::OverBudget, Failure::MayNotGrow, Failure::PoolFull, Failure::NoType];
    for next in plain {
        assert_eq!(Failure::NoType.then(next), next);
        assert_eq!(small.then(next), next);
    }
    assert_eq!(Failure::NoType.then(small), small);
    assert_eq!(small.then(smaller), smaller);
    for first in [out, Failure::Refused, Failure::OverBudget, Failure::MayNotGrow, Failure::PoolFull] {
        assert_eq!(first.then(small), first);
        for next in plain {
            assert_eq!(first.then(next), next);
        }
    }
}

/// The eviction callback is called for a shortage, and every heap is trimmed only if memory objects are short.
#[test]
fn a_failure_is_a_shortage_or_not() {
    let driver = [DeviceError::OutOfDeviceMemory, DeviceError::OutOfHostMemory, DeviceError::TooManyObjects];
    for error in driver {
        let failure = Failure::Driver(error);
        assert!(failure.may_go_on() && failure.is_shortage(), "{error}");
        assert_eq!(failure.is_of_every_heap(), error == DeviceError::TooManyObjects, "{error}");
    }
    for error in [DeviceError::Lost, DeviceError::Other(-1), DeviceError::unsupported("it")] {
        assert!(!Failure::Driver(error).may_go_on(), "{error}");
    }
    for (failure, is_shortage) in [
        (Failure::Refused, true),
        (Failure::OverBudget, true),
        (Failure::TooLarge { max: 1 }, false),
        (Failure::MayNotGrow, false),
        (Failure::PoolFull, false),
        (Failure::NoType, false),
    ] {
        assert_eq!((failure.may_go_on(), failure.is_shortage()), (true, is_shortage), "{failure:?}");
        assert!(!failure.is_of_every_heap());
    }
}
