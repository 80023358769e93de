//! A caller's code never runs under a lock, may panic, and may call back in: every place where it runs, three ways.
//!
//! | place | caller's code |
//! |---|---|
//! | shortage of memory | eviction callback, asked for by every kind of request: `eviction.rs` |
//! | `set_eviction` | `Drop` of the callback before: `eviction.rs` |
//! | trace | `Write::write`, `Write::flush` and `Drop` of what is written to: `trace.rs` |
//! | constants | `ConstantViews::make` and `view`, `Clone`, `PartialEq` and `Drop` of views, `Drop` of their heaps: `closures.rs` |
//! | `UploadWriter::write_with` | the closure that fills: `closures.rs` |
//! | `TransferQueue::submit` | the closure that submits: `closures.rs` |
//! | `TransientAllocator::plan`, `suggest_order` | the closure that says whether to go on: `closures.rs` |
//! | `DefragPass::record`, `UploadBatch::record` | a `Record` of the caller's: `closures.rs` |
//! | fault injection | `Drop` of the hook before: `closures.rs` |
//! | slow paths, findings | the subscriber of `tracing` (feature `tracing`): `subscriber.rs` |
//!
//! In each place the caller's code (a) calls back in, (b) panics, (c) waits for another thread that calls in. A
//! watchdog ends what hangs. Afterwards the same is done once more without any of it, and at the end nothing is left:
//! as many objects destroyed as made, nothing alive on the device, every structure sound.

mod closures;
mod eviction;
#[cfg(feature = "tracing")]
pub mod listening;
#[cfg(feature = "tracing")]
mod subscriber;
mod trace;
mod world;
