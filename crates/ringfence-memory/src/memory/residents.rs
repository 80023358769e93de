//! What is known of memory objects that can be evicted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::residence::Residence;
use crate::device::Device;
use crate::timeline::Passed;

/// What an allocator knows of memory objects that can be evicted.
pub(crate) struct Residents<D: Device> {
    /// Whether the program has promised to declare what it uses.
    pub(crate) is_managed: AtomicBool,
    pub(crate) all: Mutex<Vec<Weak<Residence<D>>>>,
    /// Held while the driver evicts and brings back.
    pub(crate) calls: Mutex<Scratch<D>>,
    /// Counts commits.
    pub(crate) tick: AtomicU64,
    pub(crate) evicted_count: AtomicU64,
    pub(crate) evicted_bytes: AtomicU64,
    pub(crate) returned_count: AtomicU64,
    pub(crate) returned_bytes: AtomicU64,
    /// What a test does between the choice of what is evicted and the eviction.
    #[cfg(test)]
    pub(crate) between: Between,
}

/// Kept so that a steady frame makes nothing.
pub(crate) struct Scratch<D: Device> {
    pub(crate) passed: Passed,
    pub(crate) missing: Vec<Arc<Residence<D>>>,
}

impl<D: Device> Residents<D> {
    pub(crate) fn new() -> Self {
        Self {
            is_managed: AtomicBool::new(false),
            all: Mutex::new(Vec::new()),
            calls: Mutex::new(Scratch { passed: Passed::default(), missing: Vec::new() }),
            tick: AtomicU64::new(0),
            evicted_count: AtomicU64::new(0),
            evicted_bytes: AtomicU64::new(0),
            returned_count: AtomicU64::new(0),
            returned_bytes: AtomicU64::new(0),
            #[cfg(test)]
            between: Default::default(),
        }
    }

    /// Takes new memory in.
    pub(crate) fn enlist(&self, residence: &Arc<Residence<D>>) {
        let mut all = self.all.lock();
        if all.len() == all.capacity() {
            all.retain(|held| held.strong_count() > 0);
        }
        all.push(Arc::downgrade(residence));
    }

    pub(crate) fn each(&self) -> Vec<Arc<Residence<D>>> {
        self.all.lock().iter().filter_map(Weak::upgrade).filter(|held| !held.is_gone()).collect()
    }

    pub(crate) fn count_evicted(&self, objects: &[Arc<Residence<D>>]) -> u64 {
        let bytes = objects.iter().map(|object| object.bytes).sum();
        self.evicted_count.fetch_add(objects.len() as u64, Ordering::Relaxed);
        self.evicted_bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    pub(crate) fn count_returned(&self, objects: &[Arc<Residence<D>>]) -> u64 {
        let bytes = objects.iter().map(|object| object.bytes).sum();
        self.returned_count.fetch_add(objects.len() as u64, Ordering::Relaxed);
        self.returned_bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }
}

#[cfg(test)]
pub(crate) use between::Between;

/// What only the inside can bring about: the order in which two threads take their steps.
#[cfg(test)]
mod between {
    use std::fmt;

    use parking_lot::Mutex;

    type Step = Box<dyn FnOnce() + Send>;

    /// What is done, once, between the choice of what is evicted and the eviction.
    #[derive(Default)]
    pub(crate) struct Between(Mutex<Option<Step>>);

    impl Between {
        pub(crate) fn run(&self) {
            let step = self.0.lock().take();
            if let Some(step) = step {
                step();
            }
        }

        pub(crate) fn set(&self, step: impl FnOnce() + Send + 'static) {
            *self.0.lock() = Some(Box::new(step));
        }
    }

    impl fmt::Debug for Between {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Between")
        }
    }
}
