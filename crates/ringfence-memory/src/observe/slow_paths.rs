//! What slow paths report to a subscriber of the crate `tracing`, if the feature of that name is on. Without it, nothing is
//! compiled in. Target: `ringfence`.
//!
//! | span or event | level | when |
//! |---|---|---|
//! | `allocate_memory` | debug span | the driver makes a memory object: milliseconds, on some drivers |
//! | `free_memory` | debug span | the driver frees one |
//! | `wait` | debug span | the host waits for the device |
//! | `out of memory` | warning | no memory type had room, or the driver refused |
//! | `debugging` | error | a guard was written, or something is left at the end |
//! | `device lost` | error | a `reclaim` saw it |
//!
//! A subscriber is the program's code: see [`unlocked`](super::unlocked). A span of what happened under a lock is entered and
//! left afterwards; its field `took_ns` says how long it took.

#[cfg(feature = "tracing")]
pub(crate) mod later {
    //! What is reported once no lock is held.

    use std::time::Instant;

    use tracing::Span;

    use super::super::unlocked::{contain, defer, is_locked};

    /// Reports now, or once this thread holds no lock.
    pub(crate) fn report(report: impl FnOnce() + 'static) {
        if is_locked() {
            defer(Box::new(report));
        } else {
            contain(report);
        }
    }

    /// A span: entered, or to be reported once no lock is held.
    pub(crate) struct SlowPath<F: FnOnce() -> Span + 'static> {
        started: Instant,
        /// There iff it is to be reported later.
        make: Option<F>,
        entered: Option<Span>,
    }

    impl<F: FnOnce() -> Span + 'static> SlowPath<F> {
        pub(crate) fn new(make: F) -> Self {
            let is_later = is_locked();
            let (make, entered) = if is_later { (Some(make), None) } else { (None, enter(make)) };
            Self { started: Instant::now(), make, entered }
        }
    }

    impl<F: FnOnce() -> Span + 'static> Drop for SlowPath<F> {
        fn drop(&mut self) {
            let took_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if let Some(make) = self.make.take() {
                defer(Box::new(move || leave(enter(make), took_ns)));
            } else {
                leave(self.entered.take(), took_ns);
            }
        }
    }

    // One step after the other, each contained: a span that is dropped while a panic is under way would end the program.

    fn enter(make: impl FnOnce() -> Span) -> Option<Span> {
        let span = contain(make)?;
        contain(|| span.with_subscriber(|(id, subscriber)| subscriber.enter(id)));
        Some(span)
    }

    fn leave(span: Option<Span>, took_ns: u64) {
        let Some(span) = span else { return };
        contain(|| _ = span.record("took_ns", took_ns));
        contain(|| span.with_subscriber(|(id, subscriber)| subscriber.exit(id)));
        contain(|| drop(span));
    }
}

/// A span until the end of the block.
macro_rules! span {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => {
        #[cfg(feature = "tracing")]
        let _span = {
            $(
                #[allow(clippy::redundant_locals)] // owned by the closure, under the field's name
                let $field = $value;
            )*
            crate::observe::slow_paths::later::SlowPath::new(move || {
                tracing::debug_span!(target: "ringfence", $name, $($field,)* took_ns = tracing::field::Empty)
            })
        };
    };
}

/// An event of a level: `warn` or `error`. Fields are named, and owned.
macro_rules! report {
    ($level:ident, $text:literal $(, $field:ident = $value:expr)* $(,)?) => {
        #[cfg(feature = "tracing")]
        {
            $(
                #[allow(clippy::redundant_locals)] // owned by the closure, under the field's name
                let $field = $value;
            )*
            crate::observe::slow_paths::later::report(move || tracing::$level!(target: "ringfence", { $($field),* }, $text));
        }
    };
}

pub(crate) use {report, span};
