//! What slow paths tell a subscriber of `tracing`. Runs with the feature of that name.
#![cfg(feature = "tracing")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, sim};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Writes down every span and event of the library.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<(Level, String)>>>);

impl Listener {
    fn heard(&self, metadata: &Metadata<'_>, name: &str) {
        self.0.lock().expect("nobody panicked").push((*metadata.level(), name.to_owned()));
    }

    fn count(&self, name: &str) -> usize {
        self.0.lock().expect("nobody panicked").iter().filter(|(_, held)| held == name).count()
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

#[test]
fn slow_paths_are_told_and_fast_ones_are_not() {
    let listener = Listener::default();
    tracing::subscriber::with_default(listener.clone(), || {
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
        memory.shutdown(Duration::ZERO).expect("nothing was submitted");
        assert_eq!((listener.count("free_memory"), listener.count("wait")), (1, 1));
        device.lose_device();
        // SAFETY: nothing is submitted.
        let _ = unsafe { memory.timeline(device.create_fence(0)) };
    });
    assert!(listener.0.lock().expect("nobody panicked").len() < 10, "nothing for each buffer");
}
