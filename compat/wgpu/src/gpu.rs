//! A device, and the operations that all programs share.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// A device with its queue.
pub struct Gpu {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
}

/// Memory of wgpu's allocator, in bytes.
#[derive(Clone, Copy, Default)]
pub struct Memory {
    pub allocated: u64,
    pub reserved: u64,
}

impl Gpu {
    pub fn open(memory_hints: wgpu::MemoryHints) -> Result<Self, String> {
        let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
        desc.backends = wgpu::Backends::VULKAN | wgpu::Backends::DX12;
        desc.flags = desc.flags.with_env();
        let instance = wgpu::Instance::new(desc);
        let adapter = wait(instance.request_adapter(&wgpu::RequestAdapterOptions::default()));
        let adapter = adapter.map_err(|error| format!("no adapter: {error}"))?;
        let required_limits = wgpu::Limits::downlevel_defaults();
        let desc = wgpu::DeviceDescriptor { memory_hints, required_limits, ..Default::default() };
        let opened = wait(adapter.request_device(&desc)).map_err(|error| format!("no device: {error}"))?;
        let (device, queue) = opened;
        log::info!("{:?}", adapter.get_info());
        Ok(Self { device, queue })
    }

    /// Creates a buffer of this size.
    pub fn buffer(&self, label: &str, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let desc = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
        self.device.create_buffer(&desc)
    }

    /// Creates a buffer with these bytes, written through its mapping.
    pub fn buffer_of(&self, label: &str, bytes: &[u8], usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let size = (bytes.len() as u64).next_multiple_of(4);
        let desc = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: true };
        let buffer = self.device.create_buffer(&desc);
        let mut view = buffer.get_mapped_range_mut(..).expect("mapped at creation");
        view.slice(..bytes.len()).copy_from_slice(bytes);
        drop(view);
        buffer.unmap();
        buffer
    }

    /// Creates a two-dimensional texture with eight bits a channel.
    pub fn texture(
        &self,
        label: &str,
        [width, height]: [u32; 2],
        mips: u32,
        usage: wgpu::TextureUsages,
    ) -> wgpu::Texture {
        self.device.create_texture(&wgpu::TextureDescriptor {
            label: Some(label),
            size: wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
            mip_level_count: mips,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: wgpu::TextureFormat::Rgba8Unorm,
            usage,
            view_formats: &[],
        })
    }

    pub fn encoder(&self) -> wgpu::CommandEncoder {
        self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    /// Submits, and waits until the device has finished.
    pub fn finish(&self, encoder: wgpu::CommandEncoder) -> Result<(), String> {
        self.queue.submit([encoder.finish()]);
        self.device.poll(wgpu::PollType::wait_indefinitely()).map(|_| ()).map_err(|error| error.to_string())
    }

    /// Returns the bytes of readback buffers, after the device has finished with them.
    pub fn read(&self, buffers: &[&wgpu::Buffer]) -> Result<Vec<Vec<u8>>, String> {
        for buffer in buffers {
            buffer.map_async(wgpu::MapMode::Read, .., |result| result.expect("a buffer for reading can be mapped"));
        }
        self.device.poll(wgpu::PollType::wait_indefinitely()).map_err(|error| error.to_string())?;
        let bytes = buffers.iter().map(|buffer| {
            let bytes = buffer.get_mapped_range(..).map_err(|error| error.to_string())?.to_vec();
            buffer.unmap();
            Ok(bytes)
        });
        bytes.collect()
    }

    /// Copies a mip level of a texture into a new readback buffer. The row pitch is a multiple of 256 bytes.
    pub fn copy_out(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        texture: &wgpu::Texture,
        mip_level: u32,
    ) -> wgpu::Buffer {
        let (width, height) = ((texture.width() >> mip_level).max(1), (texture.height() >> mip_level).max(1));
        let row = row_bytes(width);
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
        let buffer = self.buffer("texels", u64::from(row * height), usage);
        encoder.copy_texture_to_buffer(
            wgpu::TexelCopyTextureInfo { mip_level, ..texture.as_image_copy() },
            wgpu::TexelCopyBufferInfo {
                buffer: &buffer,
                layout: wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(row), rows_per_image: None },
            },
            wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
        );
        buffer
    }

    /// Returns the memory of the allocator.
    pub fn memory(&self) -> Memory {
        let report = self.device.generate_allocator_report();
        report.map_or(Memory::default(), |report| Memory {
            allocated: report.total_allocated_bytes,
            reserved: report.total_reserved_bytes,
        })
    }
}

/// Returns the row pitch of texels in a buffer, in bytes.
pub fn row_bytes(width: u32) -> u32 {
    (width * 4).next_multiple_of(256)
}

/// Returns the texels without the padding between rows.
pub fn dense(texels: &[u8], width: u32) -> Vec<u8> {
    let rows = texels.chunks(row_bytes(width) as usize);
    rows.flat_map(|row| &row[..width as usize * 4]).copied().collect()
}

/// Polls a future that is ready immediately on all devices except those of a browser.
fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::yield_now();
    }
}

/// Prints a figure.
pub fn figure(program: &str, name: &str, value: impl std::fmt::Display, unit: &str) {
    println!("figure {program} {name} {value} {unit}");
}

static ERRORS: AtomicUsize = AtomicUsize::new(0);

/// The log. An error that contains this text is not counted.
struct Log(Option<&'static str>);

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record<'_>) {
        let is_passed_over = self.0.is_some_and(|text| record.args().to_string().contains(text));
        if record.level() == log::Level::Error && !is_passed_over {
            ERRORS.fetch_add(1, Ordering::Relaxed);
        }
        if self.enabled(record.metadata()) {
            eprintln!("{} {}: {}", record.level(), record.target(), record.args());
        }
    }

    fn flush(&self) {}
}

/// Logs warnings to standard error; `PROGRAMS_LOG` may set another level.
pub fn install_log(passed_over: Option<&'static str>) {
    let level = std::env::var("PROGRAMS_LOG").ok().and_then(|level| level.parse().ok());
    log::set_max_level(level.unwrap_or(log::LevelFilter::Warn));
    log::set_boxed_logger(Box::new(Log(passed_over))).expect("there is no other log");
}

/// Returns the number of logged errors so far: wgpu's and those of validation layers.
pub fn errors_logged() -> usize {
    ERRORS.load(Ordering::Relaxed)
}
