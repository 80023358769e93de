//! The answers of `Allocator::format_support`: each use that is reported is made, every other one is refused by name.

use ringfence::AllocationDesc;
use ringfence::descriptor::View;
use ringfence::device::descriptors::{BufferView, BufferViewKind, Descriptors, PortableView};
use ringfence::device::{
    BufferDesc, BufferUsage, DeviceError, Format, FormatSupport, FormatUses, TextureDesc, TextureUsage,
};
use ringfence::memory::Error;
use ringfence_testkit::Gpu;

use crate::device_suite::rig::Rig;

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
