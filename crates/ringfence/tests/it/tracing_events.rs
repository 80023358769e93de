//! Events that slow paths send to a subscriber of `tracing`. Needs the feature `tracing`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create};
use ringfence::sim;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::reentry::listening::listen;

/// Records every span and event of the library.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<(Level, String)>>>);

impl Listener {
    fn heard(&self, metadata: &Metadata<'_>, name: &str) {
        self.0.lock().expect("no thread panicked").push((*metadata.level(), name.to_owned()));
    }

    fn count(&self, name: &str) -> usize {
        self.0.lock().expect("no thread panicked").iter().filter(|(_, held)| held == name).count()
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "ringfence"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.heard(span.metadata(), span.metadata().name());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            if field.name() == "message" {
                text = format!("{value:?}");
            }
        });
        self.heard(event.metadata(), &text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A dropped frame that never completes holds resources that were released while it was open, but not those released
/// before.
#[test]
fn what_is_leaked_at_the_end_is_reported_and_nothing_else() {
    for leaks in [true, false] {
        let listener = Listener::default();
        listen(listener.clone(), || {
            let base = Fixture::new(FixtureDesc::default());
            let buffer = base.buffer(256, AllocationDesc::default()).expect("there is room");
            let mut buffer = Some(buffer);
            let before = base.timeline().begin();
            if !leaks {
                drop(buffer.take());
            }
            base.submit_frame(before, vec![]);
            base.device.run_until_idle();
            let frame = base.timeline().begin();
            base.device.pause(0);
            base.device.submit(0, &[], vec![], (base.fence(), frame.value())).expect("the device is not lost");
            drop((buffer, frame));
            let device = base.device.clone();
            drop(base);
            assert_eq!(device.live().buffers, u64::from(leaks));
        });
        let reports = listener.count("objects of a dropped frame are leaked");
        assert_eq!(reports, usize::from(leaks));
    }
}

#[test]
fn slow_paths_are_reported_and_fast_ones_are_not() {
    let listener = Listener::default();
    listen(listener.clone(), || {
        let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
        let memory = Allocator::over(device.clone(), AllocatorDesc::default());
        let info = |size| {
            let desc = BufferDesc { size, usage: BufferUsage::COPY_DST };
            Create::<Buffers>::describe(memory.device(), &desc).expect("a plain buffer")
        };
        let buffers: Vec<_> = (0..100)
            .map(|_| memory.create_buffer(&info(256), AllocationDesc::default()).expect("there is room"))
            .collect();
        assert_eq!(listener.count("allocate_memory"), 1, "one block for all of them");
        assert!(memory.create_buffer(&info(1 << 45), AllocationDesc::default()).is_err());
        drop(buffers);
        memory.shutdown(Duration::ZERO).expect("there was no submission");
        assert_eq!((listener.count("free_memory"), listener.count("wait")), (1, 1));
        device.lose_device();
        // SAFETY: there are no submissions.
        let _ = unsafe { memory.timeline(device.create_fence(0)) };
    });
    assert!(listener.0.lock().expect("no thread panicked").len() < 10, "no event per buffer");
}

/// A subscriber that uses every operation of the allocator that reports to it.
struct Nosy(Arc<Mutex<Option<Allocator<sim::Device>>>>);

impl Subscriber for Nosy {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "ringfence"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        // Only once, because its own operations cause more reports.
        let memory = self.0.lock().expect("no panic").take();
        if let Some(memory) = memory
            && *event.metadata().level() == Level::ERROR
        {
            memory.reclaim();
            memory.shutdown(Duration::MAX).expect("the device is lost");
            memory.budgets().trim();
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A subscriber that is notified of a device loss in the middle of a reclaim may shut the allocator down immediately.
#[test]
fn a_subscriber_may_shut_the_allocator_down_that_tells_it_of_a_loss() {
    let (done, is_done) = std::sync::mpsc::channel();
    let running = std::thread::spawn(move || {
        let held = Arc::new(Mutex::new(None));
        listen(Nosy(Arc::clone(&held)), || {
            let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
            let memory = Allocator::over(device.clone(), AllocatorDesc::default());
            // SAFETY: there are no submissions.
            let timeline = unsafe { memory.timeline(device.create_fence(0)) }.expect("the device is not lost");
            let info = BufferDesc { size: 256, usage: BufferUsage::COPY_DST };
            let frame = timeline.begin();
            (0..10).for_each(|_| drop(memory.create_buffer(&info, AllocationDesc::default()).expect("there is room")));
            device.lose_device();
            *held.lock().expect("no panic") = Some(memory.clone());
            let done = memory.reclaim();
            assert!(done.device_lost && done.waiting == 0, "{done:?}");
            assert!(held.lock().expect("no panic").is_none(), "it was notified");
            drop(frame);
        });
        _ = done.send(());
    });
    match is_done.recv_timeout(Duration::from_secs(120)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it waits for itself"),
        _ => running.join().expect("no panic"),
    }
}
