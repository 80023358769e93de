//! Tables of the usages, types and dimensions of views.

use super::*;

const COMPONENTS: [Component; 4] = [Component::One, Component::Zero, Component::Alpha, Component::Red];

fn buffer_kinds() -> [BufferViewKind; 5] {
    let format = Format::R32Uint;
    [
        BufferViewKind::Constants,
        BufferViewKind::Storage { stride: 0, writes: false },
        BufferViewKind::Storage { stride: 16, writes: true },
        BufferViewKind::Texels { format, writes: false },
        BufferViewKind::Texels { format, writes: true },
    ]
}

#[test]
fn two_kinds_of_heap_can_be_shader_visible() {
    assert_eq!(HeapKind::ALL.map(HeapKind::can_be_shader_visible), [true, true, false, false]);
    let names = HeapKind::ALL.map(|kind| kind.to_string());
    assert_eq!(names, ["resources", "samplers", "render targets", "depth-stencils"]);
    let regions = [Region::Persistent, Region::Frame].map(|region| region.to_string());
    assert_eq!(regions, ["persistent region", "frame region"]);
}

#[test]
fn only_plain_sets_are_snapshots() {
    for (model, is_snapshot) in [
        (DescriptorModel::Heaps, false),
        (DescriptorModel::Buffers, false),
        (DescriptorModel::UpdateAfterBind, false),
        (DescriptorModel::PlainSets, true),
    ] {
        let support = DescriptorSupport {
            model,
            constant_alignment: 1,
            storage_alignment: 1,
            texel_alignment: 1,
            constant_bytes_max: 1,
            storage_bytes_max: 1,
            storage_elements_max: 1,
            texel_elements_max: 1,
            slots_own_objects: false,
            anisotropy_max: 1,
        };
        assert_eq!(support.is_snapshot(), is_snapshot, "{model:?}");
    }
}

#[test]
fn each_kind_of_buffer_view_needs_its_usage_and_its_type() {
    let expected = [
        (BufferUsage::CONSTANT, ViewTypes::CONSTANTS),
        (BufferUsage::STORAGE_READ, ViewTypes::STORAGE_BUFFER),
        (BufferUsage::STORAGE, ViewTypes::STORAGE_BUFFER),
        (BufferUsage::TEXELS, ViewTypes::SAMPLED_TEXELS),
        (BufferUsage::TEXELS | BufferUsage::STORAGE, ViewTypes::STORAGE_TEXELS),
    ];
    assert_eq!(buffer_kinds().map(|kind| (kind.usage(), kind.view_type())), expected);
}

#[test]
fn a_buffer_for_writes_also_serves_reads_of_words_and_of_nothing_else() {
    let storage = BufferUsage::STORAGE;
    // In the order constants, words for reads, words for writes, texels for reads, texels for writes.
    for (usage, served) in [
        (BufferUsage::empty(), [false, false, false, false, false]),
        (BufferUsage::CONSTANT, [true, false, false, false, false]),
        (BufferUsage::STORAGE_READ, [false, true, false, false, false]),
        (storage, [false, true, true, false, false]),
        (BufferUsage::TEXELS, [false, false, false, true, false]),
        (BufferUsage::TEXELS | BufferUsage::STORAGE_READ, [false, true, false, true, false]),
        (BufferUsage::TEXELS | storage, [false, true, true, true, true]),
        (BufferUsage::all(), [true; 5]),
    ] {
        assert_eq!(buffer_kinds().map(|kind| kind.is_served_by(usage)), served, "{usage:?}");
    }
}

#[test]
fn each_kind_of_texture_view_needs_its_usage_and_its_heap() {
    for (kind, usage, heap) in [
        (TextureViewKind::Sampled, TextureUsage::SAMPLED, HeapKind::Resources),
        (TextureViewKind::Storage, TextureUsage::STORAGE, HeapKind::Resources),
        (TextureViewKind::RenderTarget, TextureUsage::RENDER_TARGET, HeapKind::RenderTargets),
        (TextureViewKind::DepthStencil, TextureUsage::DEPTH_STENCIL, HeapKind::DepthStencils),
    ] {
        assert_eq!((kind.usage(), kind.heap_kind()), (usage, heap));
    }
}

#[test]
fn a_view_has_the_properties_that_were_set() {
    let new = TextureView::new(TextureViewKind::Storage, 1..2, 3..5);
    let expected = TextureView {
        kind: TextureViewKind::Storage,
        mips: 1..2,
        layers: 3..5,
        dimension: None,
        aspect: None,
        layout: ViewLayout::General,
        format: None,
        swizzle: [Component::Red, Component::Green, Component::Blue, Component::Alpha],
    };
    assert_eq!(new, expected);
    let set = new
        .dimension(ViewDimension::D2Array)
        .aspect(TextureAspect::Stencil)
        .layout(ViewLayout::ReadOnly)
        .format(Format::R32Uint)
        .swizzle(COMPONENTS);
    let expected = TextureView {
        dimension: Some(ViewDimension::D2Array),
        aspect: Some(TextureAspect::Stencil),
        layout: ViewLayout::ReadOnly,
        format: Some(Format::R32Uint),
        swizzle: COMPONENTS,
        ..expected
    };
    assert_eq!(set, expected);
    let texture = TextureDesc { format: Format::Rgba8Unorm, ..Default::default() };
    assert_eq!(set.format_in(&texture), Format::R32Uint);
    assert_eq!(TextureView::sampled(&texture).format_in(&texture), Format::Rgba8Unorm);
}

#[test]
fn a_view_for_sampling_has_every_subresource_and_the_depth_of_two_aspects() {
    for (format, aspect) in [
        (Format::Rgba8Unorm, None),
        (Format::D32Float, None),
        (Format::S8Uint, None),
        (Format::D24UnormS8Uint, Some(TextureAspect::Depth)),
    ] {
        let view = TextureView::sampled(&TextureDesc { format, mips: 5, layers: 7, ..Default::default() });
        let expected = TextureView { aspect, ..TextureView::new(TextureViewKind::Sampled, 0..5, 0..7) };
        assert_eq!(view, expected, "{format:?}");
    }
}

#[test]
fn the_natural_dimension_follows_the_texture_the_kind_and_the_layers() {
    use TextureViewKind::{RenderTarget, Sampled, Storage};
    for (kind, texture, layers, dimension) in [
        (Sampled, Dimension::D1, 0..1, ViewDimension::D1),
        (Sampled, Dimension::D1, 4..6, ViewDimension::D1Array),
        (Sampled, Dimension::D2, 3..4, ViewDimension::D2),
        (Sampled, Dimension::D2, 3..5, ViewDimension::D2Array),
        (Sampled, Dimension::D2, 0..6, ViewDimension::D2Array),
        (Sampled, Dimension::D3, 0..1, ViewDimension::D3),
        (Sampled, Dimension::Cube, 0..6, ViewDimension::Cube),
        (Sampled, Dimension::Cube, 6..12, ViewDimension::Cube),
        (Sampled, Dimension::Cube, 0..12, ViewDimension::CubeArray),
        (Sampled, Dimension::Cube, 6..24, ViewDimension::CubeArray),
        (Sampled, Dimension::Cube, 3..9, ViewDimension::D2Array),
        (Sampled, Dimension::Cube, 0..5, ViewDimension::D2Array),
        (Sampled, Dimension::Cube, 6..7, ViewDimension::D2),
        (Storage, Dimension::Cube, 0..6, ViewDimension::D2Array),
        (RenderTarget, Dimension::Cube, 0..12, ViewDimension::D2Array),
        (RenderTarget, Dimension::Cube, 5..6, ViewDimension::D2),
    ] {
        let view = TextureView::new(kind, 0..1, layers);
        assert_eq!(view.dimension_in(texture), dimension, "{view:?} of {texture:?}");
        let set = view.dimension(ViewDimension::D1Array);
        assert_eq!(set.dimension_in(texture), ViewDimension::D1Array, "the dimension that was set");
    }
}

#[test]
fn the_default_sampler_is_linear_repeats_and_has_every_level() {
    let expected = SamplerDesc {
        magnify: Filter::Linear,
        minify: Filter::Linear,
        mip: Filter::Linear,
        address: [AddressMode::Repeat; 3],
        level_bias: 0.0,
        levels: [0.0, 1000.0],
        anisotropy: 1,
        compare: None,
        border: BorderColor::Transparent,
    };
    assert_eq!(SamplerDesc::default(), expected);
}

#[test]
fn each_error_says_its_numbers() {
    let full = DescriptorError::Full { region: Region::Frame, need: 5, free: 4, largest_free: 3 };
    for (error, text) in [
        (DescriptorError::TooMany { count: 9, max: 8 }, "9 descriptors were requested, but at most 8 are possible"),
        (
            full,
            "the frame region has no room for 5 descriptors: 4 are free, at most 3 of them in a row; release some or \
             create a larger heap",
        ),
        (DescriptorError::OutOfRange { index: 4, count: 3 }, "descriptor 4 is out of range: there are 3"),
        (DescriptorError::BadAlignment { alignment: 3 }, "an alignment of 3 slots is not a power of two"),
        (DescriptorError::Stale { slot: 4, generation: 7 }, "entry 4 of generation 7 is not in the table"),
        (
            DescriptorError::BadRange { offset: 4, size: 8, rule: "the limit is", limit: 11 },
            "a view of bytes 4..4+8 is not possible: the limit is 11",
        ),
        (DescriptorError::from(DeviceError::Lost), "the device is lost"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
