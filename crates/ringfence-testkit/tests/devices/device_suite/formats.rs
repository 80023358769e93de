//! The answers of `Allocator::format_support`: each use that is reported is made, every other one is refused by name.

use ringfence::commands::BufferTexels;
use ringfence::descriptor::{CpuDescriptorHeap, CpuHeapDesc, DescriptorError, View};
use ringfence::device::descriptors::{
    BufferView, BufferViewKind, Component, Descriptors, PortableView, TextureView, TextureViewKind,
};
use ringfence::device::transfer::TransferSupport;
use ringfence::device::{
    BufferDesc, BufferUsage, Create, DeviceError, Format, FormatSet, FormatSupport, FormatUses, TexelBox,
    TextureAspect, TextureDesc, TextureUsage, Textures,
};
use ringfence::memory::Error;
use ringfence::{AllocationDesc, Location, ReadbackRing, Texture};
use ringfence_testkit::Gpu;

use crate::device_suite::commands::run;
use crate::device_suite::rig::{Rig, pattern};

pub fn reported_uses_of_a_format_are_made_and_others_refused<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: Descriptors,
{
    for &format in Format::ALL {
        let support = rig.memory.format_support(format);
        for usage in TextureUsage::all().iter() {
            check_texture(rig, format, usage, 1, support.texture_usage().contains(usage));
        }
        check_samples(rig, format, &support);
        let is_texels = !format.is_depth_stencil() && !format.texels().is_compressed();
        for (use_of, writes) in [(FormatUses::TEXELS, false), (FormatUses::STORAGE_TEXELS, true)] {
            assert!(is_texels || !support.has(use_of), "{format:?}: {support:?}");
            if is_texels {
                check_texels(rig, BufferViewKind::Texels { format, writes }, support.has(use_of));
            }
        }
    }
    let color = rig.memory.format_support(Format::Rgba8Unorm);
    let needed = FormatUses::COPY_SRC | FormatUses::COPY_DST | FormatUses::FILTERED | FormatUses::BLENDED;
    assert!(color.has(needed | FormatUses::STORAGE | FormatUses::TEXELS), "every device has them: {color:?}");
    assert!(color.has_samples(4) && !color.has_samples(3), "{color:?}");
    let depth = rig.memory.format_support(Format::D32Float);
    assert!(depth.has(FormatUses::DEPTH_STENCIL | FormatUses::SAMPLED), "every device has them: {depth:?}");
    assert!(!depth.has(FormatUses::RENDER_TARGET) && !color.has(FormatUses::DEPTH_STENCIL));
}

fn check_samples<G: Gpu>(rig: &Rig<G>, format: Format, support: &FormatSupport) {
    let target = if format.is_depth_stencil() { TextureUsage::DEPTH_STENCIL } else { TextureUsage::RENDER_TARGET };
    assert_eq!(support.texture_usage().contains(target), support.has_samples(1), "{format:?}: {support:?}");
    for samples in [2, 4, 8, 16, 32, 64] {
        check_texture(rig, format, target, samples, support.has_samples(samples));
    }
}

fn check_texture<G: Gpu>(rig: &Rig<G>, format: Format, usage: TextureUsage, samples: u32, is_supported: bool) {
    let [width, height] = format.texels().block().map(|side| 2 * side);
    let desc = TextureDesc { width, height, samples, format, usage, ..Default::default() };
    let what = format!("{format:?}, {usage:?}, {samples} samples");
    match rig.memory.create_texture(&desc, AllocationDesc::default()) {
        Ok(_) => assert!(is_supported, "{what}: made, although it is not reported"),
        Err(Error::Device(DeviceError::Unsupported(_) | DeviceError::InvalidInfo(_))) => {
            assert!(!is_supported, "{what}: refused, although it is reported");
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Plain sets have further limits, so no slot is written.
fn check_texels<G: Gpu>(rig: &Rig<G>, kind: BufferViewKind, is_supported: bool)
where
    G::Device: Descriptors,
{
    let desc = BufferDesc { size: 768, usage: kind.usage() | BufferUsage::COPY_DST };
    let buffer = rig.memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room");
    let view = BufferView { kind, offset: 0, size: 768 };
    View::buffer(&buffer, view).expect("a range of whole texels");
    match rig.memory.device().describe_view(&PortableView::Buffer { object: buffer.object(), desc, view }) {
        Ok(_) => assert!(is_supported, "{kind:?}: made, although it is not reported"),
        Err(DeviceError::Unsupported(reason)) => {
            assert!(!is_supported, "{kind:?}: refused, although it is reported: {reason:?}");
        }
        Err(error) => panic!("{kind:?}: {error}"),
    }
}

/// The format of a texture, the format of its views, and usages that both have on every device.
const CAST: [(Format, Format, TextureUsage); 4] = [
    (Format::Rgba8Unorm, Format::Rgba8UnormSrgb, TextureUsage::RENDER_TARGET),
    (Format::Rgba8UnormSrgb, Format::Rgba8Unorm, TextureUsage::RENDER_TARGET),
    (Format::R32Float, Format::R32Uint, TextureUsage::STORAGE),
    (Format::Bc1Unorm, Format::Bc1UnormSrgb, TextureUsage::empty()),
];

fn cast_desc(format: Format, views: &[Format], usage: TextureUsage) -> TextureDesc {
    let usage = usage | TextureUsage::SAMPLED | TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let view_formats = FormatSet::of(views);
    TextureDesc { width: 16, height: 8, mips: 2, format, usage, view_formats, ..Default::default() }
}

pub fn textures_are_shown_in_their_view_formats<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: Descriptors + TransferSupport,
{
    for (own, shown, usage) in CAST {
        let desc = cast_desc(own, &[shown], usage);
        if !rig.memory.format_support(own).texture_usage().contains(desc.usage) {
            continue;
        }
        let texture = rig.memory.create_texture(&desc, AllocationDesc::default()).expect("one family of formats");
        assert_eq!(texture.desc().map(|desc| (desc.format, desc.view_formats)), Some((own, desc.view_formats)));
        for kind in [TextureViewKind::Sampled, TextureViewKind::Storage, TextureViewKind::RenderTarget] {
            if desc.usage.contains(kind.usage()) {
                for format in [own, shown] {
                    check_view(rig, &texture, TextureView::new(kind, 0..1, 0..1).format(format));
                }
            }
        }
        let other = if own == Format::R32Uint { Format::R32Sint } else { Format::R32Uint };
        let view = View::texture(&texture, TextureView::new(TextureViewKind::Sampled, 0..1, 0..1).format(other));
        assert!(own == Format::R32Float || matches!(view, Err(DescriptorError::BadView(_))), "{own:?} as {other:?}");
        check_texels_of(rig, &texture);
    }
    let narrow = cast_desc(Format::Rgba8Unorm, &[Format::R8Unorm], TextureUsage::empty());
    let refused = rig.memory.create_texture(&narrow, AllocationDesc::default()).map(drop);
    assert!(matches!(refused, Err(Error::Device(DeviceError::InvalidInfo(_)))), "{refused:?}");
}

/// Writes the view into a slot of a CPU-only heap, without a message of the device.
fn check_view<G: Gpu>(rig: &Rig<G>, texture: &Texture<G::Device>, view: TextureView)
where
    G::Device: Descriptors,
{
    let desc = CpuHeapDesc { kind: view.kind.heap_kind(), block_slots: 16, ..Default::default() };
    let heap = CpuDescriptorHeap::new(&rig.memory, desc).expect("a small heap");
    let mut slot = heap.allocate(1).expect("a free slot");
    let swizzle = [Component::Blue, Component::One, Component::Zero, Component::Red];
    let swizzled = view.clone().swizzle(swizzle);
    let orders = if view.kind == TextureViewKind::Sampled { vec![view, swizzled] } else { vec![view] };
    for view in orders {
        let shown = View::texture(texture, view.clone()).expect("the texture was created for it");
        match slot.write(0, &shown) {
            Ok(()) => {}
            // Plain sets have no array for integers by default.
            Err(DescriptorError::Device(DeviceError::Unsupported(reason))) if reason.rule.contains("plain sets") => {}
            Err(error) => panic!("{view:?}: {error}"),
        }
    }
}

/// Copies to the texture and from it keep the bytes.
fn check_texels_of<G: Gpu>(rig: &mut Rig<G>, texture: &Texture<G::Device>)
where
    G::Device: TransferSupport,
{
    let parts = *texture.parts().expect("a plain format");
    let texels = TexelBox::mip(&parts, 1);
    let alignment = rig.memory.device().texel_alignment(parts.format, TextureAspect::Color);
    let [across, down] = parts.format.block();
    let row =
        u64::from(texels.width.div_ceil(across) * parts.format.block_bytes(TextureAspect::Color).expect("colour"));
    let (rows, row_bytes) = (u64::from(texels.height.div_ceil(down)), row.next_multiple_of(alignment.row));
    let mut upload = rig.buffer(rows * row_bytes, Location::Upload, "texels");
    let bytes = pattern(7, (rows * row_bytes) as usize);
    upload.write(0, &bytes).expect("it is mapped");
    let ring = ReadbackRing::new(&rig.memory, Default::default()).expect("there is room");
    let layout = BufferTexels { offset: 0, row_bytes, layer_bytes: 0 };
    let result = run(rig, |commands| {
        commands.copy_buffer_to_box(&upload, layout, texture, &texels)?;
        commands.read_texels(&ring, texture, &texels)
    });
    let expected: Vec<u8> =
        bytes.chunks(row_bytes as usize).flat_map(|bytes| &bytes[..row as usize]).copied().collect();
    assert!(result.to_vec().expect("the frame is complete") == expected, "{:?}", texture.desc());
}

/// Objects with other view formats are not recycled for each other.
pub fn view_formats_are_a_part_of_the_key<G: Gpu>(rig: &mut Rig<G>) {
    let views: [&[Format]; 4] =
        [&[], &[Format::Rgba8UnormSrgb], &[Format::Rgba8Uint], &[Format::Rgba8UnormSrgb, Format::Rgba8Uint]];
    let device = rig.memory.device();
    let describe =
        |views| Create::<Textures>::describe(device, &cast_desc(Format::Rgba8Unorm, views, TextureUsage::empty()));
    let keys: Vec<_> =
        views.map(|views| Create::<Textures>::key(device, &describe(views).expect("one family"))).into_iter().collect();
    for (one, key) in keys.iter().enumerate() {
        let equal = keys.iter().filter(|other| *other == key).count();
        assert!(key.is_some() && equal == 1, "the key of {:?}", views[one]);
    }
    let again = Create::<Textures>::key(device, &describe(views[1]).expect("one family"));
    assert_eq!(again, keys[1]);
}
