//! A caller's code never runs under a lock, may panic, and may call back in. Each place where it runs is tested in
//! three ways.
//!
//! | place | caller's code |
//! |---|---|
//! | shortage of memory | the eviction callback, for every kind of request: `eviction.rs` |
//! | `set_eviction` | `Drop` of the previous callback: `eviction.rs` |
//! | trace | `Write::write`, `Write::flush` and `Drop` of the writer: `trace.rs` |
//! | constants | `ConstantViews::make` and `view`, `Clone`, `PartialEq` and `Drop` of views, `Drop` of their heaps: `closures.rs` |
//! | `UploadWriter::write_with` | the closure that fills the bytes: `closures.rs` |
//! | `TransferQueue::submit` | the closure that submits: `closures.rs` |
//! | `TransientAllocator::plan`, `suggest_order` | the closure that decides whether to continue: `closures.rs` |
//! | `DefragPass::record`, `UploadBatch::record` | the caller's `Record`: `closures.rs` |
//! | fault injection | `Drop` of the previous hook: `closures.rs` |
//! | slow paths, findings | the subscriber of `tracing` (feature `tracing`): `subscriber.rs` |
//!
//! In each place the caller's code (a) calls back in, (b) panics, (c) waits for another thread that calls in. A
//! watchdog ends a test that hangs. Afterwards the same operation is repeated without the caller's action, and at the
//! end nothing is leaked: as many objects were destroyed as created, the device has no live object, and all data
//! structures are valid.

mod closures;
mod eviction;
#[cfg(feature = "tracing")]
pub mod listening;
#[cfg(feature = "tracing")]
mod subscriber;
mod trace;
mod world;
