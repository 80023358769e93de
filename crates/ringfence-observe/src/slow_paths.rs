//! Reports of slow paths to a subscriber of the crate `tracing`, if the feature of that name is on. Without the
//! feature, no code is compiled in. The target of the spans and events is `ringfence`.
//!
//! | span or event | level | when |
//! |---|---|---|
//! | `allocate_memory` | debug span | the driver allocates a memory object: milliseconds, on some drivers |
//! | `free_memory` | debug span | the driver frees a memory object |
//! | `wait` | debug span | the host waits for the device |
//! | `out of memory` | warning | a request failed: no memory type had room, or the driver refused the memory |
//! | `debugging` | error | a guard was overwritten, copies were lost, or a leak was found at the end |
//! | `device lost` | error | a `reclaim` found that the device is lost |
//! | `… are leaked` | error | the allocator ended, and leaks objects that the device may still use |
//!
//! A subscriber is the program's code: see [`ringfence_hal::lock`]. If the work is done under a lock, its span is
//! entered and exited after the lock is released, and the span's field `took_ns` contains the duration.

#![expect(missing_docs, reason = "the names of the fields describe them")]

use std::fmt;

use crate::debugging::Finding;
use crate::device::DeviceError;

/// A slow operation, which is reported as a span.
#[derive(Clone, Copy)]
pub enum SlowPath {
    /// The driver allocates a memory object.
    AllocateMemory { bytes: u64, memory_type: u32, dedicated: bool },
    /// The driver frees a memory object.
    FreeMemory { bytes: u64, memory_type: u32 },
    /// The host waits for the device.
    Wait,
}

/// A failure or a finding, which is reported as an event.
pub enum Warning<'a> {
    /// No memory type had room, or the driver refused the memory.
    OutOfMemory { bytes: u64, location: &'a dyn fmt::Debug, tried_type_bits: u32, cause: &'a DeviceError },
    /// A finding of debugging.
    Found(&'a Finding),
    /// A reclaim found that the device is lost.
    DeviceLost,
    /// The driver cannot wait for the device: objects that the device may use are leaked.
    CannotWait { objects: usize },
    /// A frame was dropped that may have been submitted: objects that it may use are leaked.
    Leaked { error: &'a dyn fmt::Display, objects: usize },
}

#[inline]
pub(crate) fn warn(_warning: &Warning<'_>) {
    #[cfg(feature = "tracing")]
    later::warn(_warning);
}

/// Reports the lifetime of the returned value as a span.
#[inline]
pub(crate) fn during(_path: SlowPath) -> impl Sized {
    #[cfg(feature = "tracing")]
    return later::Span::new(_path);
}

#[cfg(feature = "tracing")]
mod later {
    //! Reports that wait until no lock is held.

    use std::time::Instant;

    use tracing::{debug_span, error, field::Empty, warn};

    use super::{SlowPath, Warning};
    use crate::device::lock::{contain, defer, is_locked};

    /// Reports the warning now, or once this thread holds no lock. The report owns its data.
    pub(super) fn warn(warning: &Warning<'_>) {
        match *warning {
            Warning::OutOfMemory { bytes, location, tried_type_bits, cause } => {
                let (location, cause) = (format!("{location:?}"), cause.to_string());
                report(
                    move || warn!(target: "ringfence", { bytes, location, tried_type_bits, cause }, "out of memory"),
                );
            }
            Warning::Found(finding) => {
                let finding = finding.to_string();
                report(move || error!(target: "ringfence", { finding }, "debugging"));
            }
            Warning::DeviceLost => report(|| error!(target: "ringfence", "device lost")),
            Warning::CannotWait { objects } => report(move || {
                error!(target: "ringfence", { objects }, "the driver cannot wait: objects in use are leaked");
            }),
            Warning::Leaked { error, objects } => {
                let error = error.to_string();
                report(
                    move || error!(target: "ringfence", { error, objects }, "objects of a dropped frame are leaked"),
                );
            }
        }
    }

    fn report(report: impl FnOnce() + 'static) {
        if is_locked() {
            defer(report);
        } else {
            contain(report);
        }
    }

    fn span_of(path: SlowPath) -> tracing::Span {
        match path {
            SlowPath::AllocateMemory { bytes, memory_type, dedicated } => {
                debug_span!(target: "ringfence", "allocate_memory", bytes, memory_type, dedicated, took_ns = Empty)
            }
            SlowPath::FreeMemory { bytes, memory_type } => {
                debug_span!(target: "ringfence", "free_memory", bytes, memory_type, took_ns = Empty)
            }
            SlowPath::Wait => debug_span!(target: "ringfence", "wait", took_ns = Empty),
        }
    }

    /// A span that is entered, or that will be reported once no lock is held.
    pub(super) struct Span {
        started: Instant,
        /// `Some` if the span is reported later.
        later: Option<SlowPath>,
        entered: Option<tracing::Span>,
    }

    impl Span {
        pub(super) fn new(path: SlowPath) -> Self {
            let is_later = is_locked();
            let (later, entered) = if is_later { (Some(path), None) } else { (None, enter(path)) };
            Self { started: Instant::now(), later, entered }
        }
    }

    impl Drop for Span {
        fn drop(&mut self) {
            let took_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if let Some(path) = self.later.take() {
                defer(move || leave(enter(path), took_ns));
            } else {
                leave(self.entered.take(), took_ns);
            }
        }
    }

    // Each step catches its own panics, because a span that is dropped during a panic would abort the program.

    fn enter(path: SlowPath) -> Option<tracing::Span> {
        let span = contain(|| span_of(path))?;
        contain(|| span.with_subscriber(|(id, subscriber)| subscriber.enter(id)));
        Some(span)
    }

    fn leave(span: Option<tracing::Span>, took_ns: u64) {
        let Some(span) = span else { return };
        contain(|| _ = span.record("took_ns", took_ns));
        contain(|| span.with_subscriber(|(id, subscriber)| subscriber.exit(id)));
        contain(|| drop(span));
    }
}
