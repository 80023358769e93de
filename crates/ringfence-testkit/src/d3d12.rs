//! Direct3D 12 devices: the first adapter that supports feature level 11.0, hardware before software.
//!
//! ```text
//!   queue 0   direct     supports all commands except draws, which this test kit does not implement
//!   queue 1   copy
//!   queue 2   compute    further queues repeat: direct, copy, compute
//! ```

mod queue;
mod record;
mod texels;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringfence::d3d12::{Device, ResourceInfo};
use ringfence::device::sharing::ShareKind;
use ringfence::device::{Api, ApiResult, DeviceError, Driver, TextureDesc};
use windows::Win32::Graphics::Direct3D::D3D_FEATURE_LEVEL_11_0;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::{
    CreateDXGIFactory1, DXGI_ADAPTER_FLAG_SOFTWARE, IDXGIAdapter, IDXGIAdapter1, IDXGIFactory1,
};
use windows::core::Interface;

use self::queue::Queue;
use crate::descriptor_work::DescriptorWork;
use crate::{Command, GateOpener, Gpu, OpenError, Options, Validation};

/// Time for which dropping a device waits for its work. After that, the device is released although work may still run.
const DROP_WAIT: Duration = Duration::from_secs(10);

/// A Direct3D 12 device with its queues.
pub struct D3d12Gpu {
    device: Device,
    queues: Vec<Queue>,
    /// The fence that the host signals.
    gate: ID3D12Fence,
    /// The highest gate value that work waits for.
    gate_awaited: Arc<AtomicU64>,
    /// Message queue of the debug layer; `None` if the layer is not active.
    messages: Option<ID3D12InfoQueue>,
    validation: Validation,
}

/// Returns all devices, hardware before software.
///
/// # Errors
/// DXGI is not available, or no adapter supports Direct3D 12 with feature level 11.0.
pub fn enumerate() -> Result<Vec<Device>, OpenError> {
    let devices: Vec<Device> = adapters()?.iter().filter_map(|adapter| create(adapter).ok()).collect();
    if devices.is_empty() { Err(absent("no adapter with feature level 11.0")) } else { Ok(devices) }
}

fn absent(what: &str) -> OpenError {
    OpenError::Absent(format!("no Direct3D 12 device: {what}"))
}

fn failed(what: &'static str) -> impl Fn(windows::core::Error) -> OpenError {
    move |error| OpenError::Failed { what, error: device_error(&error) }
}

fn device_error(error: &windows::core::Error) -> DeviceError {
    DeviceError::Api(ApiResult { api: Api::Direct3d12, code: error.code().0, call: "a call of the test kit" })
}

fn adapters() -> Result<Vec<IDXGIAdapter1>, OpenError> {
    // SAFETY: a call without arguments.
    let factory: IDXGIFactory1 = unsafe { CreateDXGIFactory1() }.map_err(|_| absent("no DXGI factory"))?;
    // SAFETY: the factory is alive. For an index beyond the last adapter, the call returns an error.
    let mut adapters: Vec<_> = (0..).map_while(|index| unsafe { factory.EnumAdapters1(index) }.ok()).collect();
    adapters.sort_by_key(is_software);
    Ok(adapters)
}

fn is_software(adapter: &IDXGIAdapter1) -> bool {
    // SAFETY: a call without arguments on a live object.
    let desc = unsafe { adapter.GetDesc1() };
    desc.is_ok_and(|desc| desc.Flags & DXGI_ADAPTER_FLAG_SOFTWARE.0 as u32 != 0)
}

fn create(adapter: &IDXGIAdapter1) -> Result<Device, OpenError> {
    let mut device: Option<ID3D12Device> = None;
    // SAFETY: the pointer points to a local that lives through the call.
    unsafe { D3D12CreateDevice(adapter, D3D_FEATURE_LEVEL_11_0, &mut device) }.map_err(failed("D3D12CreateDevice"))?;
    let device = device.ok_or_else(|| absent("D3D12CreateDevice returned no device"))?;
    let adapter = adapter.cast::<IDXGIAdapter>().ok();
    let what = "wrapping the device";
    Device::new(&device, adapter.as_ref()).map_err(|error| OpenError::Failed { what, error })
}

/// Enables the debug layer for all devices that are created later. Returns an error if it is not installed.
fn enable_debug_layer() -> windows::core::Result<()> {
    let mut debug: Option<ID3D12Debug> = None;
    // SAFETY: the pointer points to a local that lives through the call. The test kit has no open device yet.
    unsafe { D3D12GetDebugInterface(&mut debug) }?;
    if let Some(debug) = debug {
        // SAFETY: a call without arguments on a live object.
        unsafe { debug.EnableDebugLayer() };
    }
    Ok(())
}

/// Returns the state of validation. `enabled` is the result of [`enable_debug_layer`].
fn validation(options: &Options, enabled: windows::core::Result<()>, messages: Option<&ID3D12InfoQueue>) -> Validation {
    match (options.validation, enabled, messages) {
        (false, ..) => Validation::Off,
        (true, Err(error), _) => {
            Validation::Absent(format!("D3D12GetDebugInterface failed with {:#010x}", error.code().0))
        }
        (true, Ok(()), None) => Validation::Absent("the device has no ID3D12InfoQueue".to_owned()),
        (true, Ok(()), Some(_)) => Validation::On("the Direct3D 12 debug layer".to_owned()),
    }
}

impl Gpu for D3d12Gpu {
    type Device = Device;

    const SHARE_KINDS: &'static [ShareKind] = &[ShareKind::D3d12Heap];

    const NAME: &'static str = "d3d12";

    /// Succeeds without the debug layer, unlike on other APIs: the layer is an optional part of Windows, and Wine has
    /// none. In that case [`Gpu::take_messages`] returns nothing, and [`Gpu::validation`] reports the layer as absent.
    fn open(options: &Options) -> Result<Self, OpenError> {
        let enabled = if options.validation { enable_debug_layer() } else { Ok(()) };
        let mut devices = enumerate()?.into_iter();
        let wanted = options.name.as_deref().unwrap_or_default().to_lowercase();
        let device = devices
            .find(|device| device.capabilities().name.to_lowercase().contains(&wanted))
            .ok_or_else(|| absent(&format!("no adapter with {wanted:?} in its name")))?;
        let messages = if options.validation { device.raw().cast().ok() } else { None };
        let validation = validation(options, enabled, messages.as_ref());
        let queues = queues(&device, options.queues.max(1))?;
        // SAFETY: a call with numbers on a live object.
        let gate =
            unsafe { device.raw().CreateFence(0, D3D12_FENCE_FLAG_NONE) }.map_err(failed("creating the gate"))?;
        Ok(Self { device, queues, gate, gate_awaited: Arc::default(), messages, validation })
    }

    fn validation(&self) -> Validation {
        self.validation.clone()
    }

    fn device(&self) -> Device {
        self.device.clone()
    }

    fn queue_count(&self) -> usize {
        self.queues.len()
    }

    fn fence(&self, queue: usize) -> ID3D12Fence {
        self.queues[queue].fence().clone()
    }

    fn bind_queue(&self, queue: usize) -> Option<ID3D12CommandQueue> {
        let device = self.device();
        ringfence::device::sparse::Sparse::sparse_support(&device).map(|_| self.queues[queue].raw().clone())
    }

    fn texel_formats(&self) -> Vec<String> {
        texels::FORMATS.iter().map(|(name, _)| name.trim_start_matches("DXGI_FORMAT_").to_owned()).collect()
    }

    fn describe_texels(&self, format: usize, desc: &TextureDesc) -> Option<ResourceInfo> {
        texels::describe(&self.device, format, desc)
    }

    fn subresource_pitch(&self, has_both: bool) -> u64 {
        let capabilities = self.device.capabilities();
        if has_both { capabilities.depth_stencil_copy_row_alignment } else { D3D12_TEXTURE_DATA_PITCH_ALIGNMENT.into() }
    }

    /// Copies to upload heaps are impossible: their buffers are permanently in a state for reads.
    fn can_copy_to(&self, memory_type: u32) -> bool {
        self.device.heap_type(memory_type) != Some(D3D12_HEAP_TYPE_UPLOAD)
    }

    fn can_draw(&self) -> bool {
        false
    }

    fn open_gate(&mut self, value: u64) -> Result<(), DeviceError> {
        // SAFETY: a call with a number on a live object.
        unsafe { self.gate.Signal(value) }.map_err(|error| device_error(&error))
    }

    fn gate_opener(&self) -> GateOpener {
        let (gate, awaited) = (self.gate.clone(), Arc::clone(&self.gate_awaited));
        Box::new(move || {
            let value = awaited.load(Ordering::Relaxed);
            // SAFETY: calls with numbers on a live object.
            unsafe {
                if gate.GetCompletedValue() < value {
                    // Fails only if the device is removed; no work waits then.
                    let _ = gate.Signal(value);
                }
            }
        })
    }

    fn submit(
        &mut self,
        queue: usize,
        waits: &[(usize, u64)],
        commands: &[Command<Device>],
        signal: u64,
    ) -> Result<(), DeviceError> {
        self.wait_for(queue, waits)?;
        self.queues[queue].submit(&self.device, commands, signal)
    }

    fn can_copy_through_descriptors(&self) -> bool {
        false
    }

    fn submit_descriptor_work(
        &mut self,
        queue: usize,
        waits: &[(usize, u64)],
        work: DescriptorWork<'_, Device>,
        signal: u64,
    ) -> Result<(), DeviceError> {
        self.wait_for(queue, waits)?;
        self.queues[queue].submit_descriptor_work(&self.device, work, signal)
    }

    fn wait_idle(&mut self) -> Result<(), DeviceError> {
        self.wait_all(Duration::MAX)
    }

    fn close(mut self) -> Vec<String> {
        let _ = self.wait_all(DROP_WAIT);
        self.take_messages()
    }

    fn take_messages(&mut self) -> Vec<String> {
        self.messages.as_ref().map_or_else(Vec::new, take_messages)
    }
}

impl D3d12Gpu {
    fn wait_for(&self, queue: usize, waits: &[(usize, u64)]) -> Result<(), DeviceError> {
        for (other, value) in waits {
            if *other == self.gate() {
                self.gate_awaited.fetch_max(*value, Ordering::Relaxed);
            }
            let fence = self.queues.get(*other).map_or(&self.gate, Queue::fence).clone();
            self.queues[queue].wait_for(&fence, *value)?;
        }
        Ok(())
    }

    fn wait_all(&self, timeout: Duration) -> Result<(), DeviceError> {
        for queue in &self.queues {
            // SAFETY: the fence belongs to this device and is alive.
            unsafe { self.device.wait(queue.fence(), queue.submitted(), timeout) }?;
        }
        Ok(())
    }
}

impl Drop for D3d12Gpu {
    fn drop(&mut self) {
        // Work that still waits for the gate must end.
        let _ = self.open_gate(u64::MAX - 1);
        let _ = self.wait_all(DROP_WAIT);
    }
}

/// Creates up to `count` queues, which must be at least 1. If a queue after the first one cannot be created, returns
/// the queues before it.
fn queues(device: &Device, count: usize) -> Result<Vec<Queue>, OpenError> {
    const KINDS: [D3D12_COMMAND_LIST_TYPE; 3] =
        [D3D12_COMMAND_LIST_TYPE_DIRECT, D3D12_COMMAND_LIST_TYPE_COPY, D3D12_COMMAND_LIST_TYPE_COMPUTE];
    let first = Queue::new(device, KINDS[0]).map_err(failed("CreateCommandQueue"))?;
    let more = KINDS.into_iter().cycle().skip(1).take(count - 1);
    let more = more.map_while(|kind| Queue::new(device, kind).ok());
    Ok(std::iter::once(first).chain(more).collect())
}

/// Returns the debug layer's warnings and errors since the last call.
fn take_messages(queue: &ID3D12InfoQueue) -> Vec<String> {
    // SAFETY: a call without arguments on a live object.
    let count = unsafe { queue.GetNumStoredMessages() };
    let messages = (0..count).filter_map(|index| message(queue, index)).collect();
    // SAFETY: a call without arguments on a live object.
    unsafe { queue.ClearStoredMessages() };
    messages
}

fn message(queue: &ID3D12InfoQueue, index: u64) -> Option<String> {
    let mut bytes = 0;
    // SAFETY: without a buffer, the call only returns the message's size.
    unsafe { queue.GetMessage(index, None, &mut bytes) }.ok()?;
    // A buffer of 64-bit words is aligned for a message.
    let mut buffer = vec![0_u64; bytes.div_ceil(size_of::<u64>())];
    let message = buffer.as_mut_ptr().cast::<D3D12_MESSAGE>();
    // SAFETY: the buffer has the requested size and the alignment of a message.
    unsafe { queue.GetMessage(index, Some(message), &mut bytes) }.ok()?;
    // SAFETY: the call has initialised it.
    let message = unsafe { &*message };
    let harmless = [D3D12_MESSAGE_SEVERITY_INFO, D3D12_MESSAGE_SEVERITY_MESSAGE].contains(&message.Severity);
    if harmless || message.pDescription.is_null() {
        return None;
    }
    // SAFETY: the description is inside the buffer and has this length.
    let text = unsafe { std::slice::from_raw_parts(message.pDescription, message.DescriptionByteLength) };
    Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned())
}
