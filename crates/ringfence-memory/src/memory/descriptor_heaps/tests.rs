use std::sync::Weak;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::sim::{self, Profile, SimOptions};
use crate::{Allocator, AllocatorDesc};

/// A heap of the program that calls the allocator from its `reclaim`.
struct Calling {
    own: Weak<Self>,
    visits: AtomicU32,
}

impl ReclaimHeap<sim::Device> for Calling {
    fn reclaim(&self, shared: &Shared<sim::Device>, _: &Passed, _: bool, _: bool) -> bool {
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
        "it has reported that it is closed, both times that it was in the list"
    );
    memory.reclaim();
    assert_eq!(heap.visits.load(Ordering::Relaxed), 1);
}

/// A closed heap whose destruction is slow, so that another thread reclaims at the same time.
struct Slow {
    begun: std::sync::Barrier,
    visits: AtomicU32,
    other_is_done: AtomicU32,
}

impl ReclaimHeap<sim::Device> for Slow {
    fn reclaim(&self, _: &Shared<sim::Device>, _: &Passed, _: bool, _: bool) -> bool {
        if self.visits.fetch_add(1, Ordering::Relaxed) == 0 {
            self.begun.wait();
            while self.other_is_done.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
        }
        false
    }

    fn snapshot(&self, _: &mut Vec<DescriptorSnapshot>) {}

    unsafe fn destroy(&self, _: &Shared<sim::Device>) {}
}

#[test]
fn a_heap_is_visited_by_one_thread_at_a_time_and_never_again_once_it_is_closed() {
    let device = sim::Device::new(Profile::h200(), SimOptions::default());
    let memory = Allocator::over(device, AllocatorDesc::default());
    let (visits, other_is_done) = (AtomicU32::new(0), AtomicU32::new(0));
    let heap = Arc::new(Slow { begun: std::sync::Barrier::new(2), visits, other_is_done });
    memory.shared().add_heap(Arc::clone(&heap) as Arc<dyn ReclaimHeap<_>>);
    std::thread::scope(|scope| {
        scope.spawn(|| memory.reclaim());
        heap.begun.wait();
        memory.shutdown(std::time::Duration::ZERO).expect("nothing is under way");
        heap.other_is_done.store(1, Ordering::Release);
    });
    assert_eq!(heap.visits.load(Ordering::Relaxed), 1);
    assert!(memory.shared().descriptor_heaps.is_empty());
}
