//! What happened, for those who watch: traces, debugging, and the crate `tracing`. It knows no other part of the allocator:
//! numbers, names and bytes come in, or what a trait of its own says.
//!
//! ```text
//!   memory, resource, timeline ──┬── Event ─────────▶ Trace        a file, while one is recorded
//!                                ├── ranges ────────▶ debugging    guards, fills, leaks, history; where it is asked for
//!                                └── span!, report! ▶ slow_paths   subscribers of `tracing`, by feature
//! ```

pub mod debugging;
mod recorder;
pub(crate) mod slow_paths;
pub(crate) mod unlocked;

pub use debugging::DebugDesc;
pub use recorder::Trace;
pub(crate) use slow_paths::{report, span};

pub mod trace {
    //! Traces: what an allocator did, event by event, in a compact file that can be read however it ended.
    //!
    //! ```text
    //!   allocator ── hooks: one load each while nothing is recorded
    //!       │ events, a few bytes each, appended under one short lock
    //!       ▼
    //!   Chunk ──(once a frame, when there is enough)──▶ Writer: length, count, checksum, events ──▶ any `io::Write`
    //!                                                       │
    //!   Reader ◀────────────────────────────────────────────┘   event by event; stops with an error that says how far it came
    //!       │
    //!   State: the memory as it was after any event, as a [`Snapshot`](crate::memory::Snapshot)
    //! ```
    //!
    //! Recording is started with `Allocator::start_trace`, on an allocator that has not
    //! made anything yet, and ended with `Allocator::stop_trace` or with the allocator. The
    //! format is the crate `ringfence-trace`'s, which a tool that only reads traces can use alone; it is described byte by
    //! byte in `docs/trace-format.md`. `ringfence replay` and `ringfence report` read it.
    //!
    //! | operation | cost |
    //! |---|---|
    //! | a hook while nothing is recorded | one relaxed load |
    //! | an event | one short lock, 5 to 30 bytes; no system call, but once in 64 events a reading of the clock |
    //! | [`Allocator::reclaim`](crate::Allocator::reclaim) | one write, if 64 KiB have gathered or a quarter of a second has passed |
    //!
    //! An event is written before the bytes that it frees can be handed out again, and after the bytes that it allocates
    //! were: so no part of a trace, cut off wherever it is, shows two ranges in the same place, whatever the threads did.

    pub use super::recorder::StartTraceError;
    pub use ringfence_trace::{
        Chunk, DescriptorUse, Event, HEAP_KINDS, Live, MAGIC, PlannedRange, Reader, State, TraceError, TraceSummary,
        TransientObject, VERSION, VERSION_MIN, Writer,
    };
}
