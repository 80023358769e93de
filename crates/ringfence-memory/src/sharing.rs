//! Memory that is shared with other processes and other APIs.
//!
//! ```text
//!   exporter                                                      importer
//!   create_buffer(info, AllocationDesc { share, .. })
//!   or in a pool of PoolDesc { share, .. }
//!        │ export()
//!        ▼
//!   (Handle, SharedMemory) ── socket, DuplicateHandle … ──▶ unsafe import_buffer(memory, info, handle, &shared, desc)
//!                                                                  │ the same bytes, a second driver object
//!                                                                  ▼
//!                                                           Buffer: retired by sync points, as any other
//! ```
//!
//! | device | kinds |
//! |---|---|
//! | Vulkan on Unix | [`OpaqueFd`](ShareKind::OpaqueFd), [`DmaBuf`](ShareKind::DmaBuf), with their extensions enabled (`vulkan::DeviceDesc`) |
//! | Vulkan on Windows | [`OpaqueWin32`](ShareKind::OpaqueWin32) |
//! | Direct3D 12 | [`D3d12Heap`](ShareKind::D3d12Heap): memory of the type DEFAULT |
//! | simulated | [`Simulated`](ShareKind::Simulated), between allocators on one device |
//!
//! # Duties of the caller
//!
//! Creating a handle is safe. Importing one is `unsafe`: no code can check that a handle matches its description, nor
//! prevent another process from writing while this one reads.
//!
//! The memory object lives as long as any of these: the exporter's resource, a handle, an imported resource. In a pool,
//! the memory object is the block: once the exporter's resource is released, another resource may get its range. A
//! resource that one side retires waits for that side's submissions only. The programs must order the work of both
//! sides, by shared semaphores or by waiting. On Vulkan, they must also transfer the queue family ownership to and from
//! `VK_QUEUE_FAMILY_EXTERNAL`, or `VK_QUEUE_FAMILY_FOREIGN_EXT` if the other side of a dma-buf is another driver,
//! device or API.
//!
//! Exporting a resource in a shared block gives the other process access to *the whole block*: put only resources that
//! the other process may access into such a pool.

mod import;

pub use import::{buffer_support, import_buffer, import_memory, import_texture, texture_support};

pub use crate::device::sharing::{Share, ShareKind, ShareSupport, Tied};
pub use crate::resource::{ShareError, SharedMemory};
