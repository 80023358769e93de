use std::sync::Weak;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::sim::{self, Profile, SimOptions};
use crate::{Allocator, AllocatorDesc};

/// A heap of the program's own, which calls back from where it is visited.
struct Calling {
    own: Weak<Self>,
    visits: AtomicU32,
}

impl ReclaimHeap<sim::Device> for Calling {
    fn reclaim(&self, shared: &Shared<sim::Device>, _: &Passed, _: bool) -> bool {
        let is_first = self.visits.fetch_add(1, Ordering::Relaxed) == 0;
        _ = shared.descriptor_heaps.snapshot();
        if is_first {
            shared.add_heap(self.own.upgrade().expect("the list has it"));
        }
        false
    }

    fn snapshot(&self, _: &mut Vec<DescriptorSnapshot>) {}

    unsafe fn destroy(&self, _: &Shared<sim::Device>) {}
}

#[test]
fn a_heap_may_call_back_from_where_it_is_visited() {
    let device = sim::Device::new(Profile::h200(), SimOptions::default());
    let memory = Allocator::over(device, AllocatorDesc::default());
    let heap = Arc::new_cyclic(|own| Calling { own: Weak::clone(own), visits: AtomicU32::new(0) });
    memory.shared().add_heap(Arc::clone(&heap) as Arc<dyn ReclaimHeap<_>>);
    memory.reclaim();
    assert!(
        memory.shared().descriptor_heaps.is_empty(),
        "it said that it is closed, both times that it was in the list"
    );
    memory.reclaim();
    assert_eq!(heap.visits.load(Ordering::Relaxed), 1);
}
