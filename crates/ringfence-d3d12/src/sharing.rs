//! Heaps that are shared between processes: `CreateSharedHandle`, `OpenSharedHandle`.
//!
//! As on Vulkan, a process shares memory, not resources: the importing process places its own resources in the heap.
//! Only heaps of the type DEFAULT can be shared. The memory of a committed resource cannot be shared, so a dedicated
//! shared resource is placed alone in a heap.

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

use windows::Win32::Foundation::{GENERIC_ALL, HANDLE};
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::PCWSTR;

use super::device::Device;
use super::error;
use super::memory::{Memory, check_share};
use ringfence_hal::sharing::{Share, ShareKind, Tied};
use ringfence_hal::{DeviceError, MemoryDesc};

/// A handle to a heap.
pub type ShareHandle = OwnedHandle;

// SAFETY: handles are owned values of the standard library, which close when they are dropped.
unsafe impl Share for Device {
    type Handle = OwnedHandle;

    /// Returns the LUID of the adapter. It is the same in every process until the machine restarts.
    fn share_identity(&self) -> [u8; 32] {
        // SAFETY: a call without arguments on a live object.
        let luid = unsafe { self.raw().GetAdapterLuid() };
        let mut identity = [0; 32];
        identity[..4].copy_from_slice(&luid.LowPart.to_le_bytes());
        identity[4..8].copy_from_slice(&luid.HighPart.to_le_bytes());
        identity
    }

    unsafe fn export_memory(&self, memory: &Memory, kind: ShareKind) -> Result<OwnedHandle, DeviceError> {
        check_share(kind)?;
        let heap =
            memory.heap().ok_or(DeviceError::invalid("the memory belongs to a committed resource, not to a heap"))?;
        // SAFETY: the heap is alive; no attributes and no name are given.
        let made = unsafe { self.raw().CreateSharedHandle(heap, None, GENERIC_ALL.0, PCWSTR::null()) };
        let handle =
            made.map_err(error::failed(error::call!("ID3D12Device::CreateSharedHandle", "a shared handle to a heap")))?;
        // SAFETY: the handle is new and belongs to the caller.
        Ok(unsafe { OwnedHandle::from_raw_handle(handle.0) })
    }

    unsafe fn import_memory(
        &self,
        handle: OwnedHandle,
        desc: &MemoryDesc<'_>,
        _: Tied<'_, Self>,
    ) -> Result<Memory, DeviceError> {
        check_share(desc.share.ok_or(DeviceError::invalid("no kind of handle"))?)?;
        let mut heap: Option<ID3D12Heap> = None;
        // SAFETY: the handle is open during the call, and the pointer points to a local.
        let opened = unsafe { self.raw().OpenSharedHandle(HANDLE(handle.as_raw_handle()), &mut heap) };
        let heap = error::made(opened, heap, error::call!("ID3D12Device::OpenSharedHandle", "a shared heap"))?;
        // SAFETY: a call without arguments on a live object.
        let held = unsafe { heap.GetDesc() };
        DeviceError::invalid("a shared heap smaller than its description").at_least(held.SizeInBytes, desc.size)?;
        let pageable = <&ID3D12Pageable>::from(&heap).clone();
        Ok(Memory::new(Some(heap), pageable, desc))
    }
}
