//! Vulkan devices, opened at run time.
//!
//! ```text
//!   loader (libvulkan) ─▶ Instance + validation ─▶ physical device ─▶ device
//!                              │ messages                               │
//!                              ▼                                        ├─▶ Queue 0: timeline, command buffers
//!                         take_messages()                               ├─▶ Queue 1: …      all of one family
//!                                                                       └─▶ Painter: the pipeline of Draw
//! ```
//!
//! All queues belong to one family, so resources need no queue family ownership transfers. If the family has fewer
//! queues than requested, the device opens with those that it has. After its first use, a texture stays in the layout
//! `GENERAL`.

mod descriptor_work;
mod draw;
mod enumerate;
mod instance;
mod messages;
mod open;
mod queue;
mod record;
mod texels;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;

use ringfence::device::descriptors::HeapKind;
use ringfence::device::sharing::ShareKind;
use ringfence::device::{DeviceError, Driver, TextureDesc};
use ringfence::vulkan::{Device, Features, TextureInfo, device_error};

use crate::descriptor_work::DescriptorWork;
use crate::{Command, GateOpener, Gpu, OpenError, Options, Validation};
use draw::Painter;
pub use enumerate::{DeviceSummary, enumerate};
use instance::Instance;
use queue::Queue;

/// A Vulkan device with its queues. Dropping it waits for all of its work.
pub struct VulkanGpu {
    queues: Vec<Queue>,
    /// The timeline semaphore that the host signals; null until it is created.
    gate: vk::Semaphore,
    /// `None` once the gate is destroyed.
    gate_values: Arc<Mutex<Option<GateValues>>>,
    /// The family of all queues.
    queue_family: u32,
    /// Family for copies. If it differs from `queue_family`, the device has one additional queue of it.
    copy_family: u32,
    /// `Some` if the device supports [`Command::Draw`].
    painter: Option<Painter>,
    pipelines: descriptor_work::Pipelines,
    device: Device,
    /// Declared last, because the device must be destroyed before its instance.
    instance: Instance,
}

/// Value of the gate, and the value that it must reach in the end.
#[derive(Clone, Copy, Default, Debug)]
struct GateValues {
    opened: u64,
    /// The highest value that work waits for.
    awaited: u64,
}

/// Opens the gate up to `value`, or for all work that waits for it if `None`. Does nothing if the gate is already open
/// or is destroyed.
fn open_gate(
    device: &Device,
    gate: vk::Semaphore,
    values: &Mutex<Option<GateValues>>,
    value: Option<u64>,
) -> Result<(), DeviceError> {
    let mut values = values.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(GateValues { opened, awaited }) = values.as_mut() else { return Ok(()) };
    let value = value.unwrap_or(*awaited);
    if value > *opened {
        let info = vk::SemaphoreSignalInfo::default().semaphore(gate).value(value);
        // SAFETY: the gate belongs to this device and is alive, because it has values. Only this function signals it,
        // under the lock.
        unsafe { device.raw().signal_semaphore(&info) }.map_err(|error| device_error(error, "vkSignalSemaphore"))?;
        *opened = value;
    }
    Ok(())
}

impl VulkanGpu {
    /// Returns the device's instance.
    #[must_use]
    pub fn instance(&self) -> &ash::Instance {
        self.instance.raw()
    }

    /// Returns the index of the family of all queues.
    #[must_use]
    pub fn queue_family(&self) -> u32 {
        self.queue_family
    }

    /// Returns the index of another family that can copy, or [`VulkanGpu::queue_family`] if there is none. The device
    /// has a queue of this family (index 0), which the test kit does not use.
    #[must_use]
    pub fn copy_family(&self) -> u32 {
        self.copy_family
    }

    /// Records the highest gate value that work waits for.
    fn note_gate(&mut self, waits: &[(usize, u64)]) {
        let gate = self.gate();
        let mut values = self.gate_values.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(values) = values.as_mut() else { return };
        for &(_, value) in waits.iter().filter(|(queue, _)| *queue == gate) {
            values.awaited = values.awaited.max(value);
        }
    }

    /// Returns the fence of a queue, or of the gate.
    fn fence_of(&self, queue: usize) -> vk::Semaphore {
        self.queues.get(queue).map_or(self.gate, Queue::fence)
    }
}

impl fmt::Debug for VulkanGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = self.queues.len();
        f.debug_struct("VulkanGpu").field("device", &self.device).field("queues", &queues).finish_non_exhaustive()
    }
}

impl Gpu for VulkanGpu {
    type Device = Device;

    const SHARE_KINDS: &'static [ShareKind] = &[ShareKind::OpaqueFd, ShareKind::DmaBuf, ShareKind::OpaqueWin32];

    const NAME: &'static str = "vulkan";

    fn open(options: &Options) -> Result<Self, OpenError> {
        open::open(options)
    }

    fn validation(&self) -> Validation {
        self.instance.validation().clone()
    }

    fn device(&self) -> Device {
        self.device.clone()
    }

    fn queue_count(&self) -> usize {
        self.queues.len()
    }

    fn fence(&self, queue: usize) -> <Device as Driver>::Fence {
        self.queues[queue].fence()
    }

    fn bind_queue(&self, queue: usize) -> Option<vk::Queue> {
        let sparse = Features::SPARSE_BUFFERS | Features::SPARSE_TEXTURES;
        self.device.desc().features.intersects(sparse).then(|| self.queues[queue].raw())
    }

    fn texel_formats(&self) -> Vec<String> {
        texels::formats().iter().map(|format| format!("{format:?}")).collect()
    }

    fn describe_texels(&self, format: usize, desc: &TextureDesc) -> Option<TextureInfo<'static>> {
        let format = *texels::formats().get(format)?;
        texels::describe(self.instance.raw(), self.device.physical(), format, desc)
    }

    fn can_draw(&self) -> bool {
        self.painter.is_some()
    }

    fn open_gate(&mut self, value: u64) -> Result<(), DeviceError> {
        open_gate(&self.device, self.gate, &self.gate_values, Some(value))
    }

    fn gate_opener(&self) -> GateOpener {
        let (device, gate, values) = (self.device.clone(), self.gate, Arc::clone(&self.gate_values));
        // Fails only if the device is lost; no work waits then.
        Box::new(move || _ = open_gate(&device, gate, &values, None))
    }

    fn submit(
        &mut self,
        queue: usize,
        waits: &[(usize, u64)],
        commands: &[Command<Device>],
        signal: u64,
    ) -> Result<(), DeviceError> {
        self.note_gate(waits);
        let waits: Vec<_> = waits.iter().map(|&(queue, value)| (self.fence_of(queue), value)).collect();
        let (raw, painter) = (self.device.raw(), self.painter.as_ref());
        self.queues[queue].submit(raw, &waits, signal, |batch| record::commands(raw, painter, commands, batch))
    }

    fn can_copy_through_descriptors(&self) -> bool {
        true
    }

    fn submit_descriptor_work(
        &mut self,
        queue: usize,
        waits: &[(usize, u64)],
        work: DescriptorWork<'_, Device>,
        signal: u64,
    ) -> Result<(), DeviceError> {
        let missing = DeviceError::invalid("a binding without a heap of resource views");
        let bound = *work.binding.bound(HeapKind::Resources).ok_or(missing)?;
        let raw = self.device.raw();
        self.pipelines
            .prepare(raw, &bound, (work.slots, work.jobs))
            .map_err(|error| device_error(error, "creating pipelines"))?;
        self.note_gate(waits);
        let waits: Vec<_> = waits.iter().map(|&(queue, value)| (self.fence_of(queue), value)).collect();
        let (raw, device, pipelines) = (self.device.raw(), &self.device, &self.pipelines);
        self.queues[queue].submit(raw, &waits, signal, |batch| pipelines.record(device, batch, work))
    }

    fn wait_idle(&mut self) -> Result<(), DeviceError> {
        // SAFETY: `&mut self` prevents other uses of the device's queues.
        unsafe { self.device.raw().device_wait_idle() }.map_err(|error| device_error(error, "vkDeviceWaitIdle"))
    }

    fn close(self) -> Vec<String> {
        let messages = self.instance.messages();
        drop(self);
        messages.take()
    }

    fn take_messages(&mut self) -> Vec<String> {
        self.instance.messages().take()
    }
}

impl Drop for VulkanGpu {
    fn drop(&mut self) {
        // Work that still waits for the gate must end.
        let _ = open_gate(&self.device, self.gate, &self.gate_values, None);
        *self.gate_values.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // A lost device has no pending work either.
        let _ = self.wait_idle();
        let _one = instance::ONE_AT_A_TIME.lock();
        let device = self.device.raw();
        // SAFETY: no work is pending. Each object belongs to this device and is destroyed once.
        unsafe {
            self.queues.drain(..).for_each(|queue| queue.destroy(device));
            std::mem::take(&mut self.pipelines).destroy(device);
            if let Some(painter) = self.painter.take() {
                painter.destroy(device);
            }
            device.destroy_semaphore(self.gate, None);
            device.destroy_device(None);
        }
    }
}

/// Returns a function that converts an error of the step `what` to an [`OpenError`].
fn failed(what: &'static str) -> impl Fn(vk::Result) -> OpenError {
    move |result| OpenError::Failed { what, error: device_error(result, "a Vulkan command") }
}
