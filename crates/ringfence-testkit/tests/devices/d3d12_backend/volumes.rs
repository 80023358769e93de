//! Three-dimensional textures from the API's own descriptions, in the pools of the placement policy. Clear values of
//! targets.

use ringfence::d3d12::ResourceInfo;
use ringfence::device::{ClearValue, Create, Format, TextureDesc, TextureUsage, Textures};
use ringfence::placement::{LocationKind, Placement, PlacementDesc, Route, TextureKind};
use ringfence::{Allocator, AllocatorDesc};
use ringfence_testkit::Gpu;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

fn volume(side: u16, flags: D3D12_RESOURCE_FLAGS) -> ResourceInfo {
    ResourceInfo::from(D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE3D,
        Alignment: 0,
        Width: side.into(),
        Height: side.into(),
        DepthOrArraySize: side,
        MipLevels: 1,
        Format: DXGI_FORMAT_R8G8B8A8_UNORM,
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        Layout: D3D12_TEXTURE_LAYOUT_UNKNOWN,
        Flags: flags,
    })
}

#[test]
fn seed_004_06_textures_of_three_dimensions_have_the_same_pools() {
    let Some(mut gpu) = super::open(1) else { return };
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let placement = Placement::new(&memory, PlacementDesc::default()).expect("a sound description");
    let table = [
        (8, D3D12_RESOURCE_FLAG_NONE, TextureKind::Sampled, TextureKind::SmallSampled),
        (64, D3D12_RESOURCE_FLAG_NONE, TextureKind::Sampled, TextureKind::Sampled),
        (64, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS, TextureKind::Storage, TextureKind::Storage),
    ];
    let made = table.map(|(side, flags, kind, measured)| {
        let texture = placement.create_texture_as(kind, &volume(side, flags), "volume").expect("there is room");
        assert_eq!((texture.route(), texture.kind()), (Route::Textures(measured), LocationKind::Suballocated));
        texture
    });
    assert_eq!(placement.figures().textures.map(|pool| pool.range_count), [1, 1, 0, 1]);
    drop(made);
    assert_eq!(placement.end_frame().objects, 3);
    drop((placement, memory));
    super::assert_silent(&mut gpu);
}

/// The API has no call that returns a clear value, so the test checks the description that is passed to the driver.
#[test]
fn seed_004_04_the_drivers_description_has_the_clear_value() {
    let Some(gpu) = super::open(1) else { return };
    let device = gpu.device();
    let usage = TextureUsage::RENDER_TARGET | TextureUsage::SAMPLED;
    let color = [0.25, 0.5, 0.75, 1.0];
    for (format, native) in [
        (Format::Rgba8Unorm, DXGI_FORMAT_R8G8B8A8_UNORM),
        (Format::Rgba16Float, DXGI_FORMAT_R16G16B16A16_FLOAT),
        (Format::R32Float, DXGI_FORMAT_R32_FLOAT),
    ] {
        let desc = TextureDesc { format, usage, clear_value: Some(ClearValue::color(color)), ..Default::default() };
        let info: ResourceInfo = Create::<Textures>::describe(&device, &desc).expect("a render target");
        assert_eq!(info.clear_value, Some((native, ClearValue::color(color))));
        let portable = Create::<Textures>::portable(&device, &info).expect("a portable texture");
        assert_eq!(portable.clear_value, desc.clear_value, "a recreated texture has the same");
    }
    // If shaders also read the texture, its format is typeless. The clear value always has a typed format.
    for usage in [TextureUsage::DEPTH_STENCIL, TextureUsage::DEPTH_STENCIL | TextureUsage::SAMPLED] {
        let clear_value = Some(ClearValue::depth(0.5));
        let desc = TextureDesc { format: Format::D32Float, usage, clear_value, ..Default::default() };
        let info: ResourceInfo = Create::<Textures>::describe(&device, &desc).expect("a depth target");
        assert_eq!(info.clear_value, Some((DXGI_FORMAT_D32_FLOAT, ClearValue::depth(0.5))));
        assert_eq!(Create::<Textures>::portable(&device, &info).expect("portable").clear_value, clear_value);
    }
    let plain = TextureDesc { usage, ..Default::default() };
    let info: ResourceInfo = Create::<Textures>::describe(&device, &plain).expect("a render target");
    assert!(info.clear_value.is_none(), "no clear value if none was requested");
}
