//! Traces: the events of an allocator in a compact file. The file is readable even if the recording was cut off.
//!
//! ```text
//!   allocator ── hooks: one load each while nothing is recorded
//!       │ events, a few bytes each, appended under one short lock
//!       ▼
//!   Chunk ──(once a frame, when there is enough)──▶ Writer: length, count, checksum, events ──▶ any `io::Write`
//!                                                       │
//!   Reader ◀────────────────────────────────────────────┘   event by event; an error says where it stopped
//!       │
//!   State: the memory as it was after any event, as a `Snapshot`
//! ```
//!
//! A recording is started with `Recording::start`, on an allocator that has not created anything yet. The recording
//! ends with `Recording::stop` or with the allocator. `Allocator::trace` returns the `Recording`. The crate
//! `ringfence-trace` defines the format; tools that only read traces need no other crate. `docs/trace-format.md`
//! describes the format byte by byte. `ringfence replay` and `ringfence report` read it.
//!
//! | operation | cost |
//! |---|---|
//! | a hook while nothing is recorded | one relaxed load |
//! | an event | one short lock, 5 to 30 bytes; no system call, except one reading of the clock every 64 events |
//! | `Allocator::reclaim` | one write, if 64 KiB have gathered or the last write was at least 250 ms ago |
//!
//! The event of a free is recorded before the freed bytes can be allocated again, and the event of an allocation after
//! its bytes were allocated. So no prefix of a trace shows two overlapping ranges, even if many threads allocate.

pub use crate::recorder::StartTraceError;
pub use ringfence_trace::{
    Chunk, DescriptorUse, Event, HEAP_KINDS, Live, MAGIC, PlannedRange, Reader, State, TraceError, TraceSummary,
    TransientObject, VERSION, VERSION_MIN, Writer,
};
