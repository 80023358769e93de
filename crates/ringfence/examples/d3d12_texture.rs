//! A complete Direct3D 12 program: a texture with memory, a frame that uses it, and its release while the GPU may still
//! use it.
//!
//! `cargo run -p ringfence --features d3d12 --example d3d12_texture`, on Windows. On other systems it prints a message.

#[cfg(not(all(windows, feature = "d3d12")))]
fn main() {
    println!("this example needs Windows and the feature d3d12");
}

#[cfg(all(windows, feature = "d3d12"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::time::Duration;

    use ringfence::{AllocationDesc, AllocatorDesc, d3d12};
    use windows::Win32::Graphics::Direct3D::D3D_FEATURE_LEVEL_11_0;
    use windows::Win32::Graphics::Direct3D12::*;
    use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_R8G8B8A8_UNORM, DXGI_SAMPLE_DESC};

    // Every program has these: a device, a queue, and a fence for the queue.
    let mut device: Option<ID3D12Device> = None;
    // SAFETY: plain calls that create objects.
    unsafe { D3D12CreateDevice(None, D3D_FEATURE_LEVEL_11_0, &mut device) }?;
    let device = device.ok_or("there is no device")?;
    // SAFETY: as above.
    let queue: ID3D12CommandQueue = unsafe { device.CreateCommandQueue(&D3D12_COMMAND_QUEUE_DESC::default()) }?;
    // SAFETY: as above.
    let fence: ID3D12Fence = unsafe { device.CreateFence(0, D3D12_FENCE_FLAG_NONE) }?;

    let memory = d3d12::Allocator::new(&device, None, AllocatorDesc::default())?;
    // SAFETY: every submission below signals this fence with the value of its frame.
    let timeline = unsafe { memory.timeline(fence.clone()) }?;

    let desc = D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
        Width: 512,
        Height: 512,
        DepthOrArraySize: 1,
        MipLevels: 10,
        Format: DXGI_FORMAT_R8G8B8A8_UNORM,
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        ..Default::default()
    };
    let albedo = AllocationDesc { name: "albedo", ..Default::default() };
    let texture = memory.create_texture(&d3d12::ResourceInfo::from(desc), albedo)?;
    println!("{} bytes in memory type {} at {}", texture.size(), texture.memory_type(), texture.offset());

    let frame = timeline.begin();
    let value = frame.value();
    let _resource: &ID3D12Resource = texture.raw(); // record with it, execute …
    // SAFETY: both are alive.
    unsafe { queue.Signal(&fence, value) }?;
    timeline.submitted(frame)?;

    drop(texture); // retired: the GPU may still read it
    println!("after the drop: {} object waits for the device", memory.statistics().retired_count);
    assert!(timeline.wait(value, Duration::from_secs(10))?);
    println!("after the frame: {} object destroyed", memory.reclaim().objects);
    memory.shutdown(Duration::from_secs(10))?;
    Ok(())
}
