//! `TextureData`: files of each format and shape, uploads compared with their texels, damaged and hostile files.

use std::borrow::Cow;

use ringfence::contents::{ColorEncoding, TextureData, TextureDataError};
use ringfence::device::{BufferDesc, BufferUsage, Dimension, Format, TextureDesc, TextureUsage};
use ringfence::sim::{Barrier, BufferLayout, Command, TextureRegion};
use ringfence::upload::ChainOrder;
use ringfence::{AllocationDesc, Location, UploadBatch};
use ringfence_core::testing::rng::Rng;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::program::Program;

/// A KTX 2 file: the header, the index of the levels, an empty data format descriptor, the smallest level first.
fn ktx2(
    format: u32,
    [width, height, depth]: [u32; 3],
    [layers, faces]: [u32; 2],
    scheme: u32,
    levels: &[Vec<u8>],
) -> Vec<u8> {
    let (count, index_bytes) = (levels.len() as u32, 24 * levels.len());
    let mut file = b"\xabKTX 20\xbb\r\n\x1a\n".to_vec();
    for word in [format, 1, width, height, depth, layers, faces, count, scheme] {
        file.extend(word.to_le_bytes());
    }
    let descriptor = 80 + index_bytes as u32;
    for word in [descriptor, 4, descriptor, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend([0; 16]);
    let mut offsets = vec![0; levels.len()];
    let mut data = 4_u32.to_le_bytes().to_vec();
    for (level, bytes) in levels.iter().enumerate().rev() {
        offsets[level] = 80 + index_bytes + data.len();
        data.extend(if scheme == 2 {
            compress_to_vec(bytes.as_slice(), CompressionLevel::Fastest)
        } else {
            bytes.clone()
        });
    }
    // Compressed levels end where the next larger one begins.
    let end = 80 + index_bytes + data.len();
    for (level, bytes) in levels.iter().enumerate() {
        let stored = if level == 0 { end } else { offsets[level - 1] } - offsets[level];
        for word in [offsets[level] as u64, stored as u64, bytes.len() as u64] {
            file.extend(word.to_le_bytes());
        }
    }
    file.extend(data);
    file
}

struct DdsShape {
    extent: [u32; 3],
    mips: u32,
    /// `D3D10_RESOURCE_DIMENSION`.
    dimension: u32,
    is_cube: bool,
    array: u32,
}

/// A DDS file with the header of DXGI.
fn dds(format: u32, shape: &DdsShape, data: &[u8]) -> Vec<u8> {
    let DdsShape { extent: [width, height, depth], mips, dimension, is_cube, array } = *shape;
    let mut file = dds_header([width, height, depth], mips, (4, *b"DX10", [0; 5]), 0);
    for word in [format, dimension, if is_cube { 4 } else { 0 }, array, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(data);
    file
}

/// The header that all DDS files have. `pixels` are the flags, the code, and the bits with their masks.
fn dds_header([width, height, depth]: [u32; 3], mips: u32, pixels: (u32, [u8; 4], [u32; 5]), caps2: u32) -> Vec<u8> {
    let mut file = b"DDS ".to_vec();
    let mut words = vec![124, 0x2_1007 | 0x80_0000, height, width, 0, depth, mips];
    words.extend([0; 11]);
    words.extend([32, pixels.0, u32::from_le_bytes(pixels.1)]);
    words.extend(pixels.2);
    words.extend([0x1000, caps2, 0, 0, 0]);
    words.iter().for_each(|word: &u32| file.extend(word.to_le_bytes()));
    file
}

/// Bytes that differ from level to level.
fn level(bytes: u64, mip: u32) -> Vec<u8> {
    (0..bytes).map(|index| (index * 7 + u64::from(mip) * 101 + index / 256) as u8).collect()
}

/// Bytes of a mip level of one layer, written out for each kind of block.
fn layer_bytes(format: Format, [width, height, depth]: [u32; 3], mip: u32) -> u64 {
    let side = |texels: u32| u64::from((texels >> mip).max(1));
    let [across, down] = format.texels().block().map(u64::from);
    side(width).div_ceil(across) * side(height).div_ceil(down) * side(depth) * format.texel_bytes()
}

fn is_in_files(format: &Format) -> bool {
    !matches!(format, Format::D16UnormS8Uint | Format::D24UnormS8Uint | Format::D32FloatS8Uint)
}

/// Shapes of a file: extent, layers, faces, dimension.
const SHAPES: [([u32; 3], u32, u32, Dimension); 6] = [
    ([20, 12, 0], 0, 1, Dimension::D2),
    ([20, 12, 0], 3, 1, Dimension::D2),
    ([16, 16, 0], 0, 6, Dimension::Cube),
    ([16, 16, 0], 2, 6, Dimension::Cube),
    ([20, 12, 5], 0, 1, Dimension::D3),
    ([20, 0, 0], 2, 1, Dimension::D1),
];

#[test]
fn a_ktx2_file_of_each_format_and_shape_has_its_texels() {
    let mut count = 0;
    for format in Format::ALL.iter().copied().filter(is_in_files) {
        for (extent, layers, faces, dimension) in SHAPES {
            let real = extent.map(|side| side.max(1));
            let all_layers = layers.max(1) * faces;
            let levels: Vec<_> =
                (0..4).map(|mip| level(layer_bytes(format, real, mip) * u64::from(all_layers), mip)).collect();
            for (scheme, mips) in [(0, 4), (0, 1), (2, 3)] {
                let file = ktx2(format.vulkan(), extent, [layers, faces], scheme, &levels[..mips]);
                let data = TextureData::from_ktx2(&file).expect("the file is sound");
                let desc = data.desc(TextureUsage::SAMPLED);
                assert_eq!((desc.dimension, desc.format, desc.mips), (dimension, format, mips as u32));
                assert_eq!([desc.width, desc.height, desc.depth, desc.layers], [real[0], real[1], real[2], all_layers]);
                assert_eq!(desc.usage, TextureUsage::SAMPLED | TextureUsage::COPY_DST);
                assert_eq!((data.bytes(), data.order()), (levels[..mips].concat().as_slice(), ChainOrder::MipByMip));
                count += 1;
            }
        }
    }
    assert_eq!(count, (Format::ALL.len() - 3) * 18);
}

#[test]
fn a_dds_file_of_each_format_and_shape_has_its_texels() {
    let mut count = 0;
    for format in Format::ALL.iter().copied().filter(is_in_files) {
        let Some(number) = format.dxgi() else { continue };
        for (extent, layers, faces, dimension) in SHAPES {
            let real = extent.map(|side| side.max(1));
            let all_layers = layers.max(1) * faces;
            let mips = 3;
            let layer: Vec<u8> = (0..mips).flat_map(|mip| level(layer_bytes(format, real, mip), mip)).collect();
            let bytes = layer.repeat(all_layers as usize);
            let number_of = match dimension {
                Dimension::D1 => 2,
                Dimension::D3 => 4,
                _ => 3,
            };
            let shape =
                DdsShape { extent: real, mips, dimension: number_of, is_cube: faces == 6, array: layers.max(1) };
            let file = dds(number, &shape, &bytes);
            let data = TextureData::from_dds(&file).expect("the file is sound");
            let desc = data.desc(TextureUsage::SAMPLED);
            assert_eq!((desc.dimension, desc.format, desc.mips), (dimension, format, mips));
            assert_eq!([desc.width, desc.height, desc.depth, desc.layers], [real[0], real[1], real[2], all_layers]);
            assert_eq!((data.bytes(), data.order()), (bytes.as_slice(), ChainOrder::LayerByLayer));
            count += 1;
        }
    }
    assert!(count >= 50 * 6, "{count}");
}

#[test]
fn an_old_dds_file_has_the_format_of_its_bytes() {
    let rgb = |bits, masks: [u32; 4]| (0x41, [0; 4], [bits, masks[0], masks[1], masks[2], masks[3]]);
    let code = |code: &[u8; 4]| (4, *code, [0; 5]);
    let number = |number: u32| (4, number.to_le_bytes(), [0; 5]);
    let cases = [
        (rgb(32, [0xff, 0xff00, 0xff_0000, 0xff00_0000]), Format::Rgba8Unorm, 4 * 4 * 4),
        (rgb(32, [0xff_0000, 0xff00, 0xff, 0xff00_0000]), Format::Bgra8Unorm, 4 * 4 * 4),
        (code(b"DXT1"), Format::Bc1Unorm, 8),
        (code(b"DXT3"), Format::Bc2Unorm, 16),
        (code(b"DXT5"), Format::Bc3Unorm, 16),
        (code(b"ATI1"), Format::Bc4Unorm, 8),
        (code(b"ATI2"), Format::Bc5Unorm, 16),
        (number(113), Format::Rgba16Float, 4 * 4 * 8),
        (number(116), Format::Rgba32Float, 4 * 4 * 16),
    ];
    for (pixels, format, bytes) in cases {
        let mut file = dds_header([4, 4, 0], 1, pixels, 0);
        file.extend(level(bytes, 0));
        let data = TextureData::from_dds(&file).expect("the file is sound");
        assert_eq!(data.desc(TextureUsage::SAMPLED).format, format);
        assert_eq!(data.bytes(), level(bytes, 0));
    }
    // Six faces, and less than six.
    let mut cube = dds_header([4, 4, 0], 1, code(b"DXT1"), 0xfe00);
    cube.extend(level(48, 0));
    let desc = TextureData::from_dds(&cube).expect("the file is sound").desc(TextureUsage::SAMPLED);
    assert_eq!((desc.dimension, desc.layers), (Dimension::Cube, 6));
    let mut part = dds_header([4, 4, 0], 1, code(b"DXT1"), 0x600);
    part.extend(level(8, 0));
    let refused = TextureDataError::Unsupported("a cube map without all of its faces");
    assert_eq!(TextureData::from_dds(&part), Err(refused));
}

#[test]
fn an_image_becomes_a_texture_of_its_channels() {
    use image::{DynamicImage, ImageBuffer};
    let eight = |channels: usize| level(6 * channels as u64, 0);
    let cases: Vec<(DynamicImage, Format, Vec<u8>)> = vec![
        (
            ImageBuffer::<image::Luma<u8>, _>::from_raw(3, 2, eight(1)).map(Into::into).expect("fits"),
            Format::R8Unorm,
            eight(1),
        ),
        (
            ImageBuffer::<image::LumaA<u8>, _>::from_raw(3, 2, eight(2)).map(Into::into).expect("fits"),
            Format::Rg8Unorm,
            eight(2),
        ),
        (
            ImageBuffer::<image::Rgb<u8>, _>::from_raw(3, 2, eight(3)).map(Into::into).expect("fits"),
            Format::Rgba8UnormSrgb,
            eight(3).chunks(3).flat_map(|texel| [texel[0], texel[1], texel[2], 255]).collect(),
        ),
        (
            ImageBuffer::<image::Rgba<u8>, _>::from_raw(3, 2, eight(4)).map(Into::into).expect("fits"),
            Format::Rgba8UnormSrgb,
            eight(4),
        ),
        (
            ImageBuffer::<image::Luma<u16>, _>::from_raw(3, 2, vec![0x0201; 6]).map(Into::into).expect("fits"),
            Format::R16Unorm,
            [1, 2].repeat(6),
        ),
        (
            ImageBuffer::<image::Rgb<u16>, _>::from_raw(3, 2, vec![0x0201; 18]).map(Into::into).expect("fits"),
            Format::Rgba16Unorm,
            [1, 2, 1, 2, 1, 2, 255, 255].repeat(6),
        ),
        (
            ImageBuffer::<image::Rgb<f32>, _>::from_raw(3, 2, vec![0.5; 18]).map(Into::into).expect("fits"),
            Format::Rgba32Float,
            [0.5_f32, 0.5, 0.5, 1.0].repeat(6).iter().flat_map(|value| value.to_le_bytes()).collect(),
        ),
    ];
    for (image, format, bytes) in &cases {
        let data = TextureData::from_image(image, ColorEncoding::Srgb).expect("it has texels");
        let desc = data.desc(TextureUsage::SAMPLED);
        assert_eq!((desc.width, desc.height, desc.mips, desc.format), (3, 2, 1, *format));
        assert_eq!(data.bytes(), bytes);
    }
    let linear = TextureData::from_image(&cases[3].0, ColorEncoding::Linear).expect("it has texels");
    assert_eq!(linear.desc(TextureUsage::SAMPLED).format, Format::Rgba8Unorm);
    let empty = DynamicImage::new_rgba8(0, 2);
    assert!(matches!(TextureData::from_image(&empty, ColorEncoding::Srgb), Err(TextureDataError::Damaged(_))));
}

/// A cube with mips from both kinds of file: each face and level is read back from the device.
#[test]
fn the_texels_of_a_file_arrive_at_their_level_and_face() {
    let (format, extent, mips) = (Format::Rgba8Unorm, [8, 8, 1], 3);
    let texels = |mip: u32, face: u32| -> Vec<u8> {
        let bytes = layer_bytes(format, extent, mip);
        (0..bytes).map(|index| (index + u64::from(mip) * 64 + u64::from(face) * 31) as u8).collect()
    };
    let levels: Vec<_> = (0..mips).map(|mip| (0..6).flat_map(|face| texels(mip, face)).collect()).collect();
    let by_mip = ktx2(format.vulkan(), [8, 8, 0], [0, 6], 2, &levels);
    let faces: Vec<u8> = (0..6).flat_map(|face| (0..mips).flat_map(move |mip| texels(mip, face))).collect();
    let shape = DdsShape { extent, mips, dimension: 3, is_cube: true, array: 1 };
    let by_face = dds(format.dxgi().expect("DXGI has it"), &shape, &faces);
    for data in [TextureData::from_ktx2(&by_mip), TextureData::from_dds(&by_face)] {
        let data = data.expect("the file is sound");
        let program = Program::new(3);
        let desc = data.desc(TextureUsage::SAMPLED | TextureUsage::COPY_SRC);
        let texture = program.memory.create_texture(&desc, AllocationDesc::default()).expect("room");
        let (frame, mut batch) = (program.timeline.begin(), UploadBatch::new());
        data.upload(&mut batch, &program.ring, &frame, &texture).expect("the ring has room");
        program.submit(frame, &mut [&mut batch]);
        for (mip, layer) in (0..mips).flat_map(|mip| (0..6).map(move |face| (mip, face))) {
            let expected = texels(mip, layer);
            let buffer = BufferDesc { size: expected.len() as u64, usage: BufferUsage::COPY_DST };
            let how = AllocationDesc { location: Location::Readback, ..Default::default() };
            let back = program.memory.create_buffer(&buffer, how).expect("room");
            let side = 8 >> mip;
            let region = TextureRegion { mip, layer, x: 0, y: 0, width: side, height: side };
            let layout = BufferLayout { offset: 0, row_bytes: u64::from(side) * 4 };
            let copy = Command::CopyTextureToBuffer { src: *texture.object(), region, dst: *back.object(), layout };
            program.run(vec![Command::Barrier(Barrier::All), copy]);
            let mut bytes = vec![0; expected.len()];
            back.read(0, &mut bytes).expect("it is mapped");
            assert_eq!(bytes, expected, "level {mip}, face {layer}");
        }
    }
}

#[test]
fn a_file_with_other_bytes_than_its_texture_is_refused_with_both_numbers() {
    let wrong = |given, needed| Err(TextureDataError::Size { given, needed });
    let desc = TextureDesc { width: 4, height: 4, format: Format::Rgba8Unorm, mips: 2, ..Default::default() };
    for given in [79_usize, 80, 81] {
        let made = TextureData::new(desc, ChainOrder::MipByMip, vec![0; given]).map(drop);
        assert_eq!(made, if given == 80 { Ok(()) } else { wrong(given as u64, 80) });
    }
    // Neither is a texture, whatever its bytes.
    for (wrong, what) in [
        (TextureDesc { width: 0, ..desc }, "no texels"),
        (TextureDesc { mips: u32::MAX, ..desc }, "more mip levels"),
        (TextureDesc { samples: 4, ..desc }, "several samples"),
    ] {
        let refused = TextureData::new(wrong, ChainOrder::MipByMip, vec![0; 80]).map(drop).unwrap_err();
        assert!(refused.to_string().contains(what), "{refused}");
    }
    for (scheme, given) in [(0, 63), (0, 65), (2, 63), (2, 65)] {
        let file = ktx2(Format::Rgba8Unorm.vulkan(), [4, 4, 0], [0, 1], scheme, &[level(given, 0)]);
        assert_eq!(TextureData::from_ktx2(&file).map(drop), wrong(given, 64));
    }
    let shape = DdsShape { extent: [4, 4, 1], mips: 1, dimension: 3, is_cube: false, array: 1 };
    assert_eq!(TextureData::from_dds(&dds(28, &shape, &level(60, 0))).map(drop), wrong(60, 64));
    // A file of a few bytes that states a texture of 2^62 bytes, or one that overflows.
    let huge = ktx2(Format::Rgba8Unorm.vulkan(), [1 << 30, 1 << 30, 0], [0, 1], 2, &[level(64, 0)]);
    assert_eq!(TextureData::from_ktx2(&huge).map(drop), wrong(64, 1 << 62));
    let beyond = ktx2(Format::Rgba8Unorm.vulkan(), [1 << 31, 1 << 31, 1 << 31], [0, 1], 0, &[level(64, 0)]);
    assert_eq!(TextureData::from_ktx2(&beyond).map(drop), wrong(64, u64::MAX));
}

#[test]
fn a_format_without_a_portable_one_is_named() {
    let refused = |file: Vec<u8>| TextureData::from_ktx2(&file).map(drop).unwrap_err().to_string();
    // R8G8B8, which few devices have.
    let three = refused(ktx2(23, [4, 4, 0], [0, 1], 0, &[level(48, 0)]));
    assert!(three.contains("R8G8B8_UNORM"), "{three}");
    let universal = refused(ktx2(0, [4, 4, 0], [0, 1], 0, &[level(16, 0)]));
    assert!(universal.contains("universal"), "{universal}");
    let zlib = refused(ktx2(37, [4, 4, 0], [0, 1], 3, &[level(64, 0)]));
    assert!(zlib.contains("Zstandard"), "{zlib}");
    let both = refused(ktx2(Format::D24UnormS8Uint.vulkan(), [4, 4, 0], [0, 1], 0, &[level(80, 0)]));
    assert!(both.contains("depth and stencil"), "{both}");
    let levels = refused(ktx2(37, [4, 4, 0], [0, 1], 0, &[level(64, 0), level(16, 1), level(4, 2), level(4, 3)]));
    assert!(levels.contains("mip levels"), "{levels}");
    let volumes = refused(ktx2(37, [4, 4, 2], [2, 1], 0, &[level(256, 0)]));
    assert!(volumes.contains("an array of three-dimensional textures"), "{volumes}");
    let shape = DdsShape { extent: [4, 4, 1], mips: 1, dimension: 3, is_cube: false, array: 1 };
    let typeless = TextureData::from_dds(&dds(27, &shape, &level(64, 0))).map(drop).unwrap_err().to_string();
    assert!(typeless.contains("R8G8B8A8_Typeless"), "{typeless}");
}

#[test]
fn a_format_of_the_same_bytes_replaces_the_format() {
    let desc = TextureDesc { width: 4, height: 4, format: Format::Bc1Unorm, ..Default::default() };
    let data = TextureData::new(desc, ChainOrder::MipByMip, Cow::Owned(vec![0; 8])).expect("it has its bytes");
    let srgb = data.clone().with_format(Format::Bc1UnormSrgb).expect("the bytes are the same");
    assert_eq!(srgb.desc(TextureUsage::SAMPLED).format, Format::Bc1UnormSrgb);
    assert!(matches!(data.with_format(Format::Bc4Unorm), Err(TextureDataError::Format(_))));
}

/// Cut and changed files give a texture or an error, and no panic.
#[test]
fn damaged_files_are_refused_or_read() {
    let levels: Vec<_> = (0..3).map(|mip| level(layer_bytes(Format::Bc7Unorm, [12, 12, 1], mip), mip)).collect();
    let shape = DdsShape { extent: [12, 12, 1], mips: 3, dimension: 3, is_cube: false, array: 1 };
    let files = [
        ktx2(Format::Bc7Unorm.vulkan(), [12, 12, 0], [0, 1], 0, &levels),
        ktx2(Format::Bc7Unorm.vulkan(), [12, 12, 0], [0, 1], 2, &levels),
        dds(98, &shape, &levels.concat()),
    ];
    let read = |file: &[u8]| [TextureData::from_ktx2(file).is_ok(), TextureData::from_dds(file).is_ok()];
    let mut dice = Rng::new(5);
    for (index, file) in files.iter().enumerate() {
        assert_eq!(read(file), [index < 2, index == 2]);
        for length in 0..file.len() {
            let cut = read(&file[..length]);
            assert_eq!(cut, [false, false], "file {index}, {length} of {} bytes", file.len());
        }
        for _ in 0..4_000 {
            let mut changed = file.clone();
            for _ in 0..=dice.below(3) {
                let at = dice.below(200.min(changed.len() as u64)) as usize;
                changed[at] = dice.below(256) as u8;
            }
            read(&changed);
        }
    }
}
