//! Checks of valid usage for descriptions from safe code.
//!
//! [`BufferInfo::new`](super::BufferInfo::new) and [`TextureInfo::new`](super::TextureInfo::new) accept any numbers.
//! This module checks each rule of `VkBufferCreateInfo` and `VkImageCreateInfo` that these numbers can break, before
//! the driver is called:
//!
//! | rule (VUID of `VkBufferCreateInfo`, `VkImageCreateInfo`) | where |
//! |---|---|
//! | size: 00912; `maxBufferSize`: 06409 | `Device::check_buffer` |
//! | usage: parameter, requiredbitmask; video profiles: 04813 | [`buffer`], [`image`] |
//! | transient attachments: 00963, 00966 | [`image`] |
//! | samples: parameter; with mips: 02257; of storage images: 00968; with layers on a portability subset: 04460 | [`image`] |
//! | format: parameter, 00943 | [`image`] |
//! | extents, layers and mips of 0: 00944 to 00948; mips beyond the size: 00958 | [`image`] |
//! | Y'CbCr: mips 06410, samples 06411, layers 06413, even extents 04712, 04713 | [`image`] |
//! | attachments within `maxFramebufferWidth`, `maxFramebufferHeight`: 00964, 00965 | [`image`] |
//! | what the device supports: 02251 to 02254, 02258, and its largest resource | [`within`] |
//! | sparse: 00915 to 00918, 01924, 01925, and the address space | `sparse.rs` |
//! | external memory: 00920, 00990, 01443, 02395 | `prepare_shared` in `buffer.rs` and `image.rs` |
//!
//! All other rules concern other flags, tilings, queue families and chained structures. Safe code cannot set these:
//! they come from `from_raw`, which is `unsafe`. If safe code then changes a description that has any of them, the
//! description is refused.

use ash::vk;

use super::features::Features;
use super::formats::texel_format;
use ringfence_hal::{DeviceError, Numbers};

/// Usage flags of buffers that every device supports.
const BUFFER_USAGES: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(0x1ff);

/// Returns the buffer usage flags that enabled extensions add without further requirements. Excludes the flags of
/// video, which require a profile, and of descriptor buffers, which use a limited address space.
fn extension_usages(features: Features) -> vk::BufferUsageFlags {
    let conditional = vk::BufferUsageFlags::CONDITIONAL_RENDERING_EXT;
    let feedback = vk::BufferUsageFlags::TRANSFORM_FEEDBACK_BUFFER_EXT
        | vk::BufferUsageFlags::TRANSFORM_FEEDBACK_COUNTER_BUFFER_EXT;
    let structures = vk::BufferUsageFlags::ACCELERATION_STRUCTURE_BUILD_INPUT_READ_ONLY_KHR
        | vk::BufferUsageFlags::ACCELERATION_STRUCTURE_STORAGE_KHR;
    let enabled = [
        (Features::ACCELERATION_STRUCTURE, structures),
        (Features::RAY_TRACING_PIPELINE, vk::BufferUsageFlags::SHADER_BINDING_TABLE_KHR),
        (Features::TRANSFORM_FEEDBACK, feedback),
        (Features::CONDITIONAL_RENDERING, conditional),
    ];
    let enabled = enabled.into_iter().filter(|(feature, _)| features.contains(*feature));
    enabled.fold(vk::BufferUsageFlags::empty(), |all, (_, usages)| all | usages)
}

/// Image usage flags that every device supports for at least one format.
const IMAGE_USAGES: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(0xff);

const ATTACHMENTS: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::COLOR_ATTACHMENT.as_raw()
        | vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT.as_raw()
        | vk::ImageUsageFlags::INPUT_ATTACHMENT.as_raw(),
);

/// Checks the usage flags of a buffer that safe code described.
pub(super) fn buffer(info: &vk::BufferCreateInfo<'_>, features: Features) -> Result<(), DeviceError> {
    let address = vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
    let taken = BUFFER_USAGES | address | extension_usages(features);
    DeviceError::invalid("usage flags of a buffer that only BufferInfo::from_raw accepts")
        .flags(info.usage.as_raw().into(), taken.as_raw().into())
}

/// Limits of the device for images.
#[derive(Clone, Copy)]
pub(super) struct ImageLimits {
    pub(super) attachment_width_max: u32,
    pub(super) attachment_height_max: u32,
    /// `true` if images may have several samples and several layers. Only some portability-subset devices forbid this.
    pub(super) multisample_arrays: bool,
}

/// Checks an image that safe code described. Makes no driver call.
pub(super) fn image(info: &vk::ImageCreateInfo<'_>, limits: ImageLimits) -> Result<(), DeviceError> {
    check_shape(info)?;
    check_usage(info.usage)?;
    let samples = info.samples.as_raw();
    if !samples.is_power_of_two() || info.samples > vk::SampleCountFlags::TYPE_64 {
        let (given, max) = (samples.into(), vk::SampleCountFlags::TYPE_64.as_raw().into());
        return Err(
            DeviceError::invalid("the number of samples must be a power of two").with(Numbers::AtMost { given, max })
        );
    }
    if !is_known(info.format) {
        let format = Numbers::Given(info.format.as_raw() as u32 as u64);
        return Err(DeviceError::invalid("a format that only TextureInfo::from_raw accepts").with(format));
    }
    let longest = info.extent.width.max(info.extent.height).max(info.extent.depth);
    let mips_max = longest.checked_ilog2().map_or(0, |log| log + 1);
    DeviceError::invalid("more mip levels than the size allows").at_most(info.mip_levels.into(), mips_max.into())?;
    check_samples(info, limits)?;
    check_ycbcr(info)?;
    let attached = info.usage.intersects(ATTACHMENTS | vk::ImageUsageFlags::TRANSIENT_ATTACHMENT);
    if attached {
        let vk::Extent3D { width, height, .. } = info.extent;
        DeviceError::unsupported("an attachment of this width")
            .at_most(width.into(), limits.attachment_width_max.into())?;
        DeviceError::unsupported("an attachment of this height")
            .at_most(height.into(), limits.attachment_height_max.into())?;
    }
    Ok(())
}

/// Refuses settings that neither [`TextureInfo::new`](super::TextureInfo::new) nor a portable description can have:
/// they occur only in raw descriptions that safe code has changed. Also refuses sizes that are invalid for the type of
/// image.
fn check_shape(info: &vk::ImageCreateInfo<'_>) -> Result<(), DeviceError> {
    if !info.p_next.is_null() {
        return Err(DeviceError::invalid("a raw description changed by safe code must not have chained structures"));
    }
    let numbers = [
        (
            info.tiling.as_raw(),
            vk::ImageTiling::OPTIMAL.as_raw(),
            "a raw description changed by safe code must have optimal tiling",
        ),
        (
            info.sharing_mode.as_raw(),
            vk::SharingMode::EXCLUSIVE.as_raw(),
            "a raw description changed by safe code must have exclusive sharing mode",
        ),
        (
            info.initial_layout.as_raw(),
            vk::ImageLayout::UNDEFINED.as_raw(),
            "a raw description changed by safe code must have the initial layout UNDEFINED",
        ),
    ];
    for (given, wanted, changed) in numbers {
        DeviceError::invalid(changed).exactly(given as u32 as u64, wanted as u32 as u64)?;
    }
    let cube = vk::ImageCreateFlags::CUBE_COMPATIBLE;
    let allowed = if info.image_type == vk::ImageType::TYPE_2D { cube } else { vk::ImageCreateFlags::empty() };
    DeviceError::invalid("a raw description changed by safe code must not have these flags")
        .flags(info.flags.as_raw().into(), allowed.as_raw().into())?;
    if info.flags.contains(cube) { check_cube(info) } else { check_dimensions(info) }
}

/// Checks the dimensions that must be 1 for the type of image.
fn check_dimensions(info: &vk::ImageCreateInfo<'_>) -> Result<(), DeviceError> {
    let [height, depth, layers] = [info.extent.height, info.extent.depth, info.array_layers].map(u64::from);
    let samples = info.samples.as_raw().into();
    match info.image_type {
        vk::ImageType::TYPE_1D => {
            DeviceError::invalid("a one-dimensional texture must be one texel high").exactly(height, 1)?;
            DeviceError::invalid("a one-dimensional texture must be one texel deep").exactly(depth, 1)?;
            DeviceError::invalid("a one-dimensional texture must have one sample per texel").exactly(samples, 1)
        }
        vk::ImageType::TYPE_2D => DeviceError::invalid("a two-dimensional texture must have depth 1").exactly(depth, 1),
        vk::ImageType::TYPE_3D => {
            DeviceError::invalid("a three-dimensional texture must have one array layer").exactly(layers, 1)?;
            DeviceError::invalid("a three-dimensional texture must have one sample per texel").exactly(samples, 1)
        }
        other => Err(DeviceError::invalid("an unknown image type in a raw description")
            .with(Numbers::Given(other.as_raw() as u32 as u64))),
    }
}

fn check_cube(info: &vk::ImageCreateInfo<'_>) -> Result<(), DeviceError> {
    let vk::Extent3D { width, height, depth } = info.extent;
    DeviceError::invalid("the faces of a cube must be square").exactly(height.into(), width.into())?;
    DeviceError::invalid("the faces of a cube must be one texel deep").exactly(depth.into(), 1)?;
    DeviceError::invalid("a cube must have at least six faces").at_least(info.array_layers.into(), 6)?;
    DeviceError::invalid("a cube must have one sample per texel").exactly(info.samples.as_raw().into(), 1)
}

fn check_usage(usage: vk::ImageUsageFlags) -> Result<(), DeviceError> {
    let number = |usage: vk::ImageUsageFlags| u64::from(usage.as_raw());
    DeviceError::invalid("a texture must have at least one usage").at_least(number(usage), 1)?;
    DeviceError::invalid("usage flags of a texture that only TextureInfo::from_raw accepts")
        .flags(number(usage), number(IMAGE_USAGES))?;
    let transient = vk::ImageUsageFlags::TRANSIENT_ATTACHMENT;
    if usage.contains(transient) {
        DeviceError::invalid("a transient attachment must have only attachment usages")
            .flags(number(usage), number(ATTACHMENTS | transient))?;
    }
    if usage == transient {
        let (given, allowed) = (number(usage), number(ATTACHMENTS | transient));
        return Err(DeviceError::invalid("a transient attachment must have an attachment usage")
            .with(Numbers::Flags { given, allowed }));
    }
    Ok(())
}

fn check_samples(info: &vk::ImageCreateInfo<'_>, limits: ImageLimits) -> Result<(), DeviceError> {
    if info.samples == vk::SampleCountFlags::TYPE_1 {
        return Ok(());
    }
    DeviceError::invalid("a texture with several samples must have one mip level")
        .exactly(info.mip_levels.into(), 1)?;
    // The feature `shaderStorageImageMultisample` would allow more samples.
    if info.usage.contains(vk::ImageUsageFlags::STORAGE) {
        DeviceError::invalid("storage textures must have one sample").exactly(info.samples.as_raw().into(), 1)?;
    }
    if !limits.multisample_arrays {
        DeviceError::unsupported("a texture with several samples and layers").at_most(info.array_layers.into(), 1)?;
    }
    Ok(())
}

fn check_ycbcr(info: &vk::ImageCreateInfo<'_>) -> Result<(), DeviceError> {
    let Some(of) = ycbcr(info.format) else { return Ok(()) };
    if of.is_converted {
        let (given, flat) = (info.image_type.as_raw() as u32, vk::ImageType::TYPE_2D.as_raw() as u32);
        DeviceError::invalid("a Y'CbCr texture must have two dimensions").exactly(given.into(), flat.into())?;
        DeviceError::invalid("a Y'CbCr texture must have one mip level").exactly(info.mip_levels.into(), 1)?;
        DeviceError::invalid("a Y'CbCr texture must have one layer").exactly(info.array_layers.into(), 1)?;
        DeviceError::invalid("a Y'CbCr texture must have one sample").exactly(info.samples.as_raw().into(), 1)?;
    }
    let [width, height] = [info.extent.width, info.extent.height].map(u64::from);
    if of.halves_width {
        DeviceError::invalid("a Y'CbCr texture of halved width must have an even width").multiple_of(width, 2)?;
    }
    if of.halves_height {
        DeviceError::invalid("a Y'CbCr texture of halved height must have an even height").multiple_of(height, 2)?;
    }
    Ok(())
}

/// Refuses an image that exceeds the limits that the device reports for its format and usage.
pub(super) fn within(info: &vk::ImageCreateInfo<'_>, most: &vk::ImageFormatProperties) -> Result<(), DeviceError> {
    let (extent, most_extent) = (info.extent, most.max_extent);
    for (given, max, refused) in [
        (extent.width, most_extent.width, "a texture of this width"),
        (extent.height, most_extent.height, "a texture of this height"),
        (extent.depth, most_extent.depth, "a texture of this depth"),
        (info.array_layers, most.max_array_layers, "a texture with this many layers"),
        (info.mip_levels, most.max_mip_levels, "a texture with this many mip levels"),
    ] {
        DeviceError::unsupported(refused).at_most(given.into(), max.into())?;
    }
    DeviceError::unsupported("a texture with this many samples")
        .flags(info.samples.as_raw().into(), most.sample_counts.as_raw().into())?;
    let bytes = u64::try_from(bytes(info)).unwrap_or(u64::MAX);
    DeviceError::unsupported("a texture of this many bytes").at_most(bytes, most.max_resource_size)
}

/// Returns the total size of all texels in bytes, without the driver's overhead; 0 for formats that Vulkan 1.2 lacks.
pub(super) fn bytes(info: &vk::ImageCreateInfo<'_>) -> u128 {
    let Some((block_bytes, across, down)) = block(info.format) else { return 0 };
    let level = |mip: u32| {
        let [width, height, depth] =
            [info.extent.width, info.extent.height, info.extent.depth].map(|texels| (texels >> mip).max(1));
        let blocks = u128::from(width.div_ceil(across)) * u128::from(height.div_ceil(down)) * u128::from(depth);
        blocks * u128::from(block_bytes)
    };
    let layer: u128 = (0..info.mip_levels.min(u32::BITS)).map(level).sum();
    layer * u128::from(info.array_layers) * u128::from(info.samples.as_raw())
}

/// Returns `true` for the formats of Vulkan 1.0 and the Y'CbCr formats of Vulkan 1.1.
fn is_known(format: vk::Format) -> bool {
    block(format).is_some()
}

/// Number of the first Y'CbCr format.
const YCBCR: i32 = 1_000_156_000;

/// Requirements of a Y'CbCr format.
struct Ycbcr {
    /// `true` if shaders read the format through a Y'CbCr conversion.
    is_converted: bool,
    halves_width: bool,
    halves_height: bool,
}

fn ycbcr(format: vk::Format) -> Option<Ycbcr> {
    let number = format.as_raw().checked_sub(YCBCR).filter(|number| (0..=33).contains(number))?;
    let is_converted = ![7, 8, 17, 18].contains(&number);
    let halves_height = [2, 3, 12, 13, 22, 23, 29, 30].contains(&number);
    let halves_width = is_converted && ![6, 9, 16, 19, 26, 33].contains(&number);
    Some(Ycbcr { is_converted, halves_width, halves_height })
}

/// Returns the size of a texel block in bytes, and its width and height in texels. Returns `None` for formats that
/// Vulkan 1.2 lacks. For formats with several planes, the size is an upper bound of the bytes per texel.
fn block(format: vk::Format) -> Option<(u32, u32, u32)> {
    match format.as_raw() {
        // Depth and stencil are copied separately, but each texel contains both.
        128 | 129 => Some((4, 1, 1)),
        130 => Some((8, 1, 1)),
        1..=184 => {
            let texels = texel_format(format)?;
            let [across, down] = texels.block();
            Some((texels.block_bytes(texels.first_aspect())?, across, down))
        }
        _ => ycbcr(format).map(|_| (8, 1, 1)),
    }
}

/// Numeric type with which a shader must declare images of a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Numeric {
    Float,
    Unsigned,
    Signed,
}

/// Returns the numeric type of a format of Vulkan 1.0, and `Float` for other formats.
pub(super) fn numeric(format: vk::Format) -> Numeric {
    match format.as_raw() {
        13 | 20 | 27 | 34 | 41 | 48 | 55 | 62 | 68 | 74 | 81 | 88 | 95 | 98 | 101 | 104 | 107 | 110 | 113 | 116
        | 119 | 127 => Numeric::Unsigned,
        14 | 21 | 28 | 35 | 42 | 49 | 56 | 63 | 69 | 75 | 82 | 89 | 96 | 99 | 102 | 105 | 108 | 111 | 114 | 117
        | 120 => Numeric::Signed,
        _ => Numeric::Float,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ImageLimits =
        ImageLimits { attachment_width_max: 4096, attachment_height_max: 4096, multisample_arrays: true };

    fn plain() -> vk::ImageCreateInfo<'static> {
        *super::super::TextureInfo::new(vk::Format::R8G8B8A8_UNORM, 64, 64, vk::ImageUsageFlags::SAMPLED).raw()
    }

    /// Returns the known formats with the names that `ash` gives them.
    fn named() -> impl Iterator<Item = (vk::Format, String)> {
        let known = (1..=184).chain(YCBCR..YCBCR + 34).map(vk::Format::from_raw);
        known.map(|format| (format, format!("{format:?}")))
    }

    #[test]
    fn formats_are_as_their_names_say() {
        for (format, name) in named() {
            let (bytes, across, down) = block(format).expect("it is known");
            let numbers = match numeric(format) {
                Numeric::Unsigned => "UINT",
                Numeric::Signed => "SINT",
                Numeric::Float => "",
            };
            assert!(name.contains(numbers), "{name}");
            let is_integer = name.contains("UINT") || name.contains("SINT");
            // Stencil next to depth is a separate aspect.
            assert!(!is_integer || numeric(format) != Numeric::Float || name.starts_with('D'), "{name}");
            if let Some(size) = name.strip_prefix("ASTC_") {
                assert!(size.starts_with(&format!("{across}X{down}_")), "{name}");
            }
            assert_eq!(across > 1, name.contains("BLOCK"), "{name}");
            if let Some(of) = ycbcr(format) {
                assert_eq!(of.halves_width, name.contains("_422_") || name.contains("_420_"), "{name}");
                assert_eq!(of.halves_height, name.contains("_420_"), "{name}");
                let is_plain = name.starts_with("R10X6_") || name.starts_with("R12X4_") || name.contains("2PACK16");
                assert_eq!(of.is_converted, !is_plain, "{name}");
            } else if across == 1 && !name.contains("PACK") && !name.starts_with('D') {
                let bits = name.split('_').next().expect("it is not empty");
                let numbers = bits.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| !digits.is_empty());
                let bits: u32 = numbers.map(|digits| digits.parse::<u32>().expect("digits")).sum();
                assert_eq!(bits, 8 * bytes, "{name}");
            }
        }
        for unknown in [i32::MIN, -1, 0, 185, YCBCR - 1, YCBCR + 34, i32::MAX] {
            assert!(!is_known(vk::Format::from_raw(unknown)), "{unknown}");
        }
    }

    #[test]
    fn each_rule_is_refused_by_its_name() {
        let usage = |usage| plain().usage(usage);
        let (sampled, transient) = (vk::ImageUsageFlags::SAMPLED, vk::ImageUsageFlags::TRANSIENT_ATTACHMENT);
        let four = vk::SampleCountFlags::TYPE_4;
        let video = vk::ImageUsageFlags::VIDEO_DECODE_DST_KHR;
        let cube = plain().flags(vk::ImageCreateFlags::CUBE_COMPATIBLE).array_layers(12);
        let volume = plain().image_type(vk::ImageType::TYPE_3D).mip_levels(8);
        let volume = volume.extent(vk::Extent3D { width: 1, height: 2, depth: 128 });
        let row = plain().image_type(vk::ImageType::TYPE_1D).extent(vk::Extent3D { width: 9, height: 1, depth: 1 });
        for valid in [plain(), cube, volume, row] {
            assert_eq!(image(&valid, LIMITS), Ok(()));
        }
        for (refused, reason) in [
            (usage(vk::ImageUsageFlags::empty()), "at least one usage"),
            (usage(sampled | video), "from_raw accepts"),
            (usage(vk::ImageUsageFlags::from_raw(1 << 31)), "from_raw accepts"),
            (usage(transient | sampled), "only attachment usages"),
            (usage(transient), "must have an attachment usage"),
            (usage(vk::ImageUsageFlags::STORAGE).samples(four), "one sample"),
            (plain().samples(four).mip_levels(2), "one mip level"),
            (plain().samples(vk::SampleCountFlags::from_raw(128)), "power of two"),
            (plain().format(vk::Format::UNDEFINED), "a format"),
            (plain().mip_levels(8), "more mip levels"),
            (plain().tiling(vk::ImageTiling::LINEAR), "raw description"),
            (plain().flags(vk::ImageCreateFlags::MUTABLE_FORMAT), "raw description"),
            (plain().flags(vk::ImageCreateFlags::CUBE_COMPATIBLE), "six faces"),
            (plain().image_type(vk::ImageType::TYPE_1D), "one texel high"),
            (plain().image_type(vk::ImageType::TYPE_3D).array_layers(2), "one array layer"),
            (plain().image_type(vk::ImageType::TYPE_3D).samples(four), "one sample"),
            (plain().image_type(vk::ImageType::from_raw(7)), "image type"),
        ] {
            let refused = image(&refused, LIMITS);
            assert!(matches!(refused, Err(DeviceError::InvalidInfo(of)) if of.rule.contains(reason)), "{refused:?}");
        }
        let subset = ImageLimits { multisample_arrays: false, ..LIMITS };
        assert!(matches!(image(&plain().samples(four).array_layers(2), subset), Err(DeviceError::Unsupported(_))));
        let wide =
            usage(vk::ImageUsageFlags::COLOR_ATTACHMENT).extent(vk::Extent3D { width: 4097, height: 1, depth: 1 });
        assert!(matches!(image(&wide, LIMITS), Err(DeviceError::Unsupported(_))));
    }

    /// The error for each broken rule contains the given and the allowed number.
    #[test]
    fn each_rule_is_refused_with_its_numbers() {
        let (of, usage) = (|format| plain().format(format), |usage| plain().usage(usage));
        let extent = |width, height| vk::Extent3D { width, height, depth: 1 };
        let [sampled, transient, storage, target] = [
            vk::ImageUsageFlags::SAMPLED,
            vk::ImageUsageFlags::TRANSIENT_ATTACHMENT,
            vk::ImageUsageFlags::STORAGE,
            vk::ImageUsageFlags::COLOR_ATTACHMENT,
        ];
        let (four, planes) = (vk::SampleCountFlags::TYPE_4, vk::Format::G8_B8_R8_3PLANE_420_UNORM);
        let subset = ImageLimits { multisample_arrays: false, ..LIMITS };
        let table = [
            (usage(vk::ImageUsageFlags::empty()), "(0, at least 1)"),
            (usage(vk::ImageUsageFlags::from_raw(1 << 31)), "(0x80000000, of 0xff)"),
            (usage(transient | sampled), "(0x44, of 0xf0)"),
            (usage(transient), "(0x40, of 0xf0)"),
            (plain().samples(vk::SampleCountFlags::from_raw(3)), "(3, at most 64)"),
            (plain().samples(vk::SampleCountFlags::from_raw(128)), "(128, at most 64)"),
            (of(vk::Format::from_raw(999)), "(999)"),
            (plain().mip_levels(8), "(8, at most 7)"),
            (plain().samples(four).mip_levels(2), "(2, only 1)"),
            (usage(storage).samples(four), "(4, only 1)"),
            (plain().samples(four).array_layers(3), "(3, at most 1)"),
            (of(planes).mip_levels(5), "(5, only 1)"),
            (of(planes).array_layers(6), "(6, only 1)"),
            (of(planes).samples(four), "(4, only 1)"),
            (of(planes).extent(extent(63, 64)), "(63, a multiple of 2)"),
            (of(planes).extent(extent(64, 61)), "(61, a multiple of 2)"),
            (usage(target).extent(extent(4097, 1)), "(4097, at most 4096)"),
            (usage(target).extent(extent(1, 5000)), "(5000, at most 4096)"),
            (plain().flags(vk::ImageCreateFlags::MUTABLE_FORMAT), "(0x8, of 0x10)"),
            (plain().image_type(vk::ImageType::TYPE_3D).array_layers(3), "(3, only 1)"),
            (plain().flags(vk::ImageCreateFlags::CUBE_COMPATIBLE).array_layers(5), "(5, at least 6)"),
            (plain().extent(vk::Extent3D { width: 64, height: 64, depth: 9 }), "(9, only 1)"),
            (plain().tiling(vk::ImageTiling::LINEAR), "(1, only 0)"),
            (plain().sharing_mode(vk::SharingMode::CONCURRENT), "(1, only 0)"),
            (plain().initial_layout(vk::ImageLayout::PREINITIALIZED), "(8, only 0)"),
        ];
        for (broken, numbers) in table {
            let error = image(&broken, subset).expect_err(numbers).to_string();
            assert!(error.ends_with(numbers), "{error}: {numbers}");
        }
        let video = vk::BufferCreateInfo::default().size(4).usage(vk::BufferUsageFlags::VIDEO_DECODE_SRC_KHR);
        let error = buffer(&video, Features::empty()).expect_err("video").to_string();
        assert!(error.contains("(0x2000, of 0x"), "{error}");
    }

    /// The error for each exceeded limit of the device contains the given number and the limit.
    #[test]
    fn each_limit_is_refused_with_its_numbers() {
        let most = vk::ImageFormatProperties {
            max_extent: vk::Extent3D { width: 16_384, height: 8192, depth: 2048 },
            max_mip_levels: 15,
            max_array_layers: 2047,
            sample_counts: vk::SampleCountFlags::TYPE_1 | vk::SampleCountFlags::TYPE_4,
            max_resource_size: 1 << 31,
        };
        let extent = |width, height, depth| plain().extent(vk::Extent3D { width, height, depth });
        assert_eq!(within(&plain(), &most), Ok(()));
        for (broken, numbers) in [
            (extent(20_000, 1, 1), "(20000, at most 16384)"),
            (extent(1, 8193, 1), "(8193, at most 8192)"),
            (extent(1, 1, 2049), "(2049, at most 2048)"),
            (plain().array_layers(2048), "(2048, at most 2047)"),
            (plain().mip_levels(16), "(16, at most 15)"),
            (plain().samples(vk::SampleCountFlags::TYPE_8), "(0x8, of 0x5)"),
            (extent(16_384, 8192, 5), "(2684354560, at most 2147483648)"),
        ] {
            let error = within(&broken, &most).expect_err(numbers).to_string();
            assert!(error.ends_with(numbers), "{error}: {numbers}");
        }
    }

    #[test]
    fn the_bytes_of_a_texture_are_those_of_its_blocks() {
        assert_eq!(bytes(&plain()), 64 * 64 * 4);
        assert_eq!(bytes(&plain().mip_levels(7)), (4096 + 1024 + 256 + 64 + 16 + 4 + 1) * 4);
        let compressed = plain().format(vk::Format::BC1_RGB_UNORM_BLOCK).array_layers(3);
        assert_eq!(bytes(&compressed), 16 * 16 * 8 * 3);
        let huge = vk::Extent3D { width: u32::MAX, height: u32::MAX, depth: 1 };
        let huge = plain().extent(huge).array_layers(u32::MAX).mip_levels(u32::MAX);
        assert!(bytes(&huge) > u128::from(u64::MAX), "no overflow");
    }

    #[test]
    fn only_what_the_extensions_brought_is_taken_of_a_buffers_usage() {
        let info = |usage| vk::BufferCreateInfo::default().size(4).usage(usage);
        let rays = vk::BufferUsageFlags::ACCELERATION_STRUCTURE_STORAGE_KHR;
        let with_rays = Features::ACCELERATION_STRUCTURE;
        assert!(buffer(&info(BUFFER_USAGES), Features::empty()).is_ok());
        assert!(buffer(&info(rays), Features::empty()).is_err());
        assert!(buffer(&info(rays), with_rays).is_ok());
        assert!(buffer(&info(vk::BufferUsageFlags::VIDEO_DECODE_SRC_KHR), with_rays).is_err());
        assert!(buffer(&info(vk::BufferUsageFlags::RESOURCE_DESCRIPTOR_BUFFER_EXT), with_rays).is_err());
    }
}
