//! Traces: what an allocator did, event by event, in a compact file that can be read however it ended.
//!
//! ```text
//!   allocator ── hooks: one load each while nothing is recorded
//!       │ events, a few bytes each, appended under one short lock
//!       ▼
//!   buffer ──(once a frame, when there is enough)──▶ chunk: length, count, checksum, events ──▶ any `io::Write`
//!                                                       │
//!   Reader ◀────────────────────────────────────────────┘   event by event; stops with an error that says how far it came
//!       │
//!   State: the memory as it was after any event, as a [`Snapshot`](crate::memory::Snapshot)
//! ```
//!
//! Recording is started with [`Recording::start`](crate::memory::Recording::start), on an allocator that has not
//! made anything yet, and ended with [`Recording::stop`](crate::memory::Recording::stop) or with the allocator. The
//! format is described byte by byte in `docs/trace-format.md`. `ringfence replay` and `ringfence report` read it.
//!
//! | operation | cost |
//! |---|---|
//! | a hook while nothing is recorded | one relaxed load |
//! | an event | one short lock, 5 to 30 bytes; no system call, but once in 64 events a reading of the clock |
//! | [`Allocator::reclaim`](crate::Allocator::reclaim) | one write, if 64 KiB have gathered or a quarter of a second has passed |
//!
//! An event is written before the bytes that it frees can be handed out again, and after the bytes that it allocates
//! were: so no part of a trace, cut off wherever it is, shows two ranges in the same place, whatever the threads did.

mod descriptors;
mod event;
mod format;
mod reader;
pub(crate) mod recorder;
mod state;

pub use descriptors::DescriptorUse;
pub use event::{Event, PlannedRange};
pub use reader::{Reader, TraceError};
pub(crate) use recorder::Trace;
pub use recorder::{StartTraceError, TraceSummary};
pub use state::{Live, State, TransientObject};

pub use format::{MAGIC, VERSION, VERSION_MIN};
