//! Traces and snapshots of GPU memory, as plain data without a graphics API.
//!
//! A trace is a compact file of the events of an allocator. If the program crashes, the trace can be read up to its
//! last whole chunk. A snapshot is the state of an allocator's memory at one moment.
//!
//! ```text
//!   Event ──▶ Chunk ──▶ Writer ──▶ length, count, checksum, events ──▶ any `io::Write`
//!                                                  │
//!   Reader ◀───────────────────────────────────────┘   event by event; an error reports how much was read
//!       │
//!   State: the memory after each event ──▶ Snapshot
//! ```
//!
//! The allocator of the crate `ringfence` records traces (`Recording::start`) and takes snapshots
//! (`Allocator::snapshot`). A tool that reads traces or snapshots needs only this crate. `docs/trace-format.md`
//! specifies the format of traces byte by byte. The commands `ringfence replay` and `ringfence report` read traces.
//!
//! ```
//! use ringfence_trace::{Chunk, Event, Reader, State, Writer};
//!
//! let mut chunk = Chunk::default();
//! let class = "buffers";
//! chunk.push(&Event::BlockMade { block: 1, memory_type: 0, dedicated: false, bytes: 1 << 20, class });
//! chunk.push(&Event::Allocated { block: 1, offset: 0, bytes: 4096, alignment: 256, name: "vertices" });
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file);
//! writer.write(&chunk)?;
//! writer.end()?;
//!
//! let mut state = State::new();
//! for event in Reader::new(&file[..])? {
//!     state.apply(&event?);
//! }
//! assert_eq!(state.live(1, 0).map(|range| range.name.as_str()), Some("vertices"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod descriptors;
mod event;
mod finding;
mod format;
mod reader;
mod recorder;
mod snapshot;
mod state;
mod statistics;
mod vma_json;
mod writer;

pub use descriptors::{DescriptorUse, HEAP_KINDS};
pub use event::{Event, PlannedRange};
pub use finding::{Finding, GuardCheck, Leak, MemoryAddress, Operation, OperationKind, Overrun, Side};
pub use format::{MAGIC, VERSION, VERSION_MIN};
pub use reader::{Reader, TraceError};
pub use recorder::Recorder;
pub use snapshot::{
    BlockSnapshot, DescriptorSnapshot, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot, region,
};
pub use state::{Live, State, TransientObject};
pub use statistics::{DriverCalls, Statistics, TypeStatistics};
pub use writer::{Chunk, TraceSummary, Writer};

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
