//! Memory that other processes and other APIs see too.
//!
//! ```text
//!   exporter                                                      importer
//!   create_buffer(info, AllocationDesc { share, .. })
//!   or in a pool of PoolDesc { share, .. }
//!        │ export()
//!        ▼
//!   (Handle, SharedMemory) ── socket, DuplicateHandle … ──▶ unsafe import_buffer(memory, info, handle, &shared, desc)
//!                                                                  │ the same bytes, another driver's object
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
//! # Who answers for what
//!
//! Making a handle is safe: it is a right to the bytes, and using it is what takes care. Importing is `unsafe`: no code
//! can check that a handle is what its description says, nor keep another process from writing while this one reads.
//!
//! The bytes live as long as one of these exists: the exporter's resource, a handle, or something imported. What one
//! side retires waits for that side's submissions only, and the order of work on both sides is the programs' to see to,
//! by shared semaphores or by waiting; on Vulkan with a transfer of ownership to and from `VK_QUEUE_FAMILY_EXTERNAL`.
//!
//! A resource in a shared block shows the other process *the whole block*: a pool that shares is for what may all be
//! seen.

mod import;

pub use import::{buffer_support, import_buffer, import_memory, import_texture, texture_support};

pub use crate::device::sharing::{Share, ShareKind, ShareSupport, Tied};
pub use crate::resource::{ShareError, SharedMemory};
