//! What slow paths report to a subscriber of the crate `tracing`, if the feature of that name is on. Without it,
//! nothing is compiled in. Target: `ringfence`.
//!
//! | span or event | level | when |
//! |---|---|---|
//! | `allocate_memory` | debug span | the driver makes a memory object: milliseconds, on some drivers |
//! | `free_memory` | debug span | the driver frees one |
//! | `wait` | debug span | the host waits for the device |
//! | `out of memory` | warning | no memory type had room, or the driver refused |
//! | `debugging` | error | a guard was written, or something is left at the end |
//! | `device lost` | error | a `reclaim` saw it |
//! | `… is leaked` | error | at the end of the allocator: the device may still use it, and that cannot be waited for |
//!
//! A subscriber is the program's code: see [`unlocked`](super::unlocked). A span of what happened under a lock is
//! entered and left afterwards; its field `took_ns` says how long it took.

use std::fmt;

use super::debugging::Finding;
use crate::device::DeviceError;

#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "read by subscribers of `tracing` alone"))]
#[derive(Clone, Copy)]
pub(crate) enum SlowPath {
    /// The driver makes a memory object.
    AllocateMemory { bytes: u64, memory_type: u32, dedicated: bool },
    /// The driver frees one.
    FreeMemory { bytes: u64, memory_type: u32 },
    /// The host waits for the device.
    Wait,
}

#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "read by subscribers of `tracing` alone"))]
pub(crate) enum Warning<'a> {
    /// No memory type had room, or the driver refused.
    OutOfMemory { bytes: u64, location: &'a dyn fmt::Debug, tried_type_bits: u32, cause: &'a DeviceError },
    /// Debugging found it.
    Found(&'a Finding),
    /// A reclaim saw it.
    DeviceLost,
    /// The driver cannot wait for the device: what it may use is leaked.
    CannotWait { objects: usize },
    /// A frame was dropped that may have been submitted: what it may use is leaked.
    Leaked { error: &'a dyn fmt::Display, objects: usize },
}

#[inline]
pub(super) fn warn(_warning: &Warning<'_>) {
    #[cfg(feature = "tracing")]
    later::warn(_warning);
}

/// Reports how long this lives.
#[inline]
pub(super) fn during(_path: SlowPath) -> impl Sized {
    #[cfg(feature = "tracing")]
    return later::Span::new(_path);
}

#[cfg(feature = "tracing")]
mod later {
    //! What is reported once no lock is held.

    use std::time::Instant;

    use tracing::{debug_span, error, field::Empty, warn};

    use super::super::unlocked::{contain, defer, is_locked};
    use super::{SlowPath, Warning};

    /// Reports now, or once this thread holds no lock: what is reported is owned.
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
                error!(target: "ringfence", { objects }, "the driver cannot wait: what it may use is leaked");
            }),
            Warning::Leaked { error, objects } => {
                let error = error.to_string();
                report(
                    move || error!(target: "ringfence", { error, objects }, "what a dropped frame may use is leaked"),
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

    /// A span: entered, or to be reported once no lock is held.
    pub(super) struct Span {
        started: Instant,
        /// There iff it is to be reported later.
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

    // One step after the other, each contained: a span that is dropped while a panic is under way would end the
    // program.

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
