//! A queue, its fence, and its command lists. A list is used again once the fence has reached its value.

use ringfence::d3d12::Device;
use ringfence::device::{DeviceError, Driver};
use windows::Win32::Graphics::Direct3D12::*;
use windows::core::Interface;

use super::device_error;
use super::record::Recorder;
use crate::Command;
use crate::descriptor_work::DescriptorWork;

pub(super) struct Queue {
    raw: ID3D12CommandQueue,
    kind: D3D12_COMMAND_LIST_TYPE,
    fence: ID3D12Fence,
    /// Value that the last submission signals.
    submitted: u64,
    lists: Vec<List>,
}

/// A command list, and the memory of its commands.
struct List {
    allocator: ID3D12CommandAllocator,
    raw: ID3D12GraphicsCommandList,
    /// Value of the fence from which on the list is unused.
    busy_until: u64,
    /// Resources that only this list uses. They are kept alive until the list is used again.
    kept: Vec<ID3D12Resource>,
}

impl Queue {
    pub(super) fn new(device: &Device, kind: D3D12_COMMAND_LIST_TYPE) -> windows::core::Result<Self> {
        let desc = D3D12_COMMAND_QUEUE_DESC { Type: kind, ..Default::default() };
        // SAFETY: the description lives through the call.
        let raw = unsafe { device.raw().CreateCommandQueue(&desc) }?;
        // SAFETY: the object is alive.
        let fence = unsafe { device.raw().CreateFence(0, D3D12_FENCE_FLAG_NONE) }?;
        Ok(Self { raw, kind, fence, submitted: 0, lists: Vec::new() })
    }

    pub(super) fn raw(&self) -> &ID3D12CommandQueue {
        &self.raw
    }

    pub(super) fn fence(&self) -> &ID3D12Fence {
        &self.fence
    }

    pub(super) fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Makes later submissions wait until `fence` has reached `value`.
    pub(super) fn wait_for(&self, fence: &ID3D12Fence, value: u64) -> Result<(), DeviceError> {
        // SAFETY: both objects are alive and belong to one device.
        unsafe { self.raw.Wait(fence, value) }.map_err(|error| device_error(&error))
    }

    pub(super) fn submit(
        &mut self,
        device: &Device,
        commands: &[Command<Device>],
        signal: u64,
    ) -> Result<(), DeviceError> {
        if commands.is_empty() {
            return self.signal(signal);
        }
        self.submit_list(device, signal, |recorder| commands.iter().try_for_each(|command| recorder.record(command)))
    }

    pub(super) fn submit_descriptor_work(
        &mut self,
        device: &Device,
        work: DescriptorWork<'_, Device>,
        signal: u64,
    ) -> Result<(), DeviceError> {
        self.submit_list(device, signal, |recorder| recorder.record_descriptor_work(work))
    }

    fn submit_list(
        &mut self,
        device: &Device,
        signal: u64,
        record: impl FnOnce(&mut Recorder<'_>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut list = self.free_list(device)?;
        list.record(device, record)?;
        let raw = list.raw.cast().map_err(|error| device_error(&error))?;
        // SAFETY: the list is closed, and is kept until the fence has reached its value.
        unsafe { self.raw.ExecuteCommandLists(&[Some(raw)]) };
        list.busy_until = signal;
        self.lists.push(list);
        self.signal(signal)
    }

    fn signal(&mut self, signal: u64) -> Result<(), DeviceError> {
        // SAFETY: both objects are alive and belong to one device.
        unsafe { self.raw.Signal(&self.fence, signal) }.map_err(|error| device_error(&error))?;
        self.submitted = signal;
        Ok(())
    }

    /// Returns a list that the device no longer uses, or a new list.
    fn free_list(&mut self, device: &Device) -> Result<List, DeviceError> {
        // SAFETY: the fence belongs to this device and is alive.
        let completed = unsafe { device.completed(&self.fence) }?;
        match self.lists.iter().position(|list| list.busy_until <= completed) {
            Some(index) => Ok(self.lists.swap_remove(index)),
            None => List::new(device, self.kind).map_err(|error| device_error(&error)),
        }
    }
}

impl List {
    fn new(device: &Device, kind: D3D12_COMMAND_LIST_TYPE) -> windows::core::Result<Self> {
        // SAFETY: all objects are alive. The new list is closed, as `record` expects.
        unsafe {
            let allocator: ID3D12CommandAllocator = device.raw().CreateCommandAllocator(kind)?;
            let raw: ID3D12GraphicsCommandList = device.raw().CreateCommandList(0, kind, &allocator, None)?;
            raw.Close()?;
            Ok(Self { allocator, raw, busy_until: 0, kept: Vec::new() })
        }
    }

    fn record(
        &mut self,
        device: &Device,
        record: impl FnOnce(&mut Recorder<'_>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.kept.clear();
        // SAFETY: the list is closed, and the device no longer uses it.
        unsafe { self.allocator.Reset().and_then(|()| self.raw.Reset(&self.allocator, None)) }
            .map_err(|error| device_error(&error))?;
        let mut recorder = Recorder::new(device, &self.raw, &mut self.kept);
        record(&mut recorder)?;
        // SAFETY: the list is open.
        unsafe { self.raw.Close() }.map_err(|error| device_error(&error))
    }
}
