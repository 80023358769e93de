//! Random safe descriptions over the whole range of their values. Accepted descriptions break no rule of valid usage
//! (the validation layers are silent). Refused descriptions are refused by name and change nothing. The seed is
//! printed; `RINGFENCE_SEED` sets it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use ash::vk;
use ringfence::device::sharing::ShareKind;
use ringfence::device::sparse::Sparse;
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, Numbers, TextureDesc, TextureUsage, Textures,
};
use ringfence::memory::Error;
use ringfence::vulkan::{BufferInfo, TextureInfo};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc};
use ringfence_testkit::Gpu;

use crate::vulkan_backend::rig::Rig;

const BUFFERS: u32 = 4_000;
const TEXTURES: u32 = 20_000;
/// Maximum size of resources that are also bound to memory, in bytes.
const PLACED_BYTES_MAX: u64 = 1 << 20;

/// Reasons that occur on every device. Reasons that depend on features are left out.
const BUFFER_REASONS: [&str; 4] = [
    "a buffer must have at least one byte",
    "a buffer must have at least one usage",
    "a buffer of this size",
    "usage flags of a buffer that only BufferInfo::from_raw accepts",
];
const TEXTURE_REASONS: [&str; 22] = [
    "a texture must be at least one texel wide",
    "a texture must have at least one mip level",
    "a texture must have at least one array layer",
    "a texture must have at least one usage",
    "usage flags of a texture that only TextureInfo::from_raw accepts",
    "a transient attachment must have only attachment usages",
    "a transient attachment must have an attachment usage",
    "the number of samples must be a power of two",
    "a format that only TextureInfo::from_raw accepts",
    "more mip levels than the size allows",
    "a texture with several samples must have one mip level",
    "storage textures must have one sample",
    "a Y'CbCr texture must have one mip level",
    "a Y'CbCr texture must have one layer",
    "a Y'CbCr texture of halved width must have an even width",
    "a Y'CbCr texture of halved height must have an even height",
    "an attachment of this width",
    "an attachment of this height",
    "a texture of this width",
    "a texture of this height",
    "a texture with this many layers",
    "a texture with this many samples",
];

/// Random numbers that depend only on the seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn seeded() -> Self {
        let set = std::env::var("RINGFENCE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = set.unwrap_or(0x5eed_0021);
        println!("RINGFENCE_SEED={seed}");
        Self(seed)
    }

    fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.any() % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// Returns random bits: mostly some of the `plain` bits; sometimes another bit, or any bits.
    fn bits(&mut self, plain: u32) -> u32 {
        let few = self.any() as u32 & self.any() as u32 & plain;
        match self.below(16) {
            0 => self.any() as u32,
            1 => 1 << self.below(32),
            2 => few | 1 << self.below(32),
            3 => self.any() as u32 & plain,
            4 => 0,
            _ => few | 1,
        }
    }

    fn buffer(&mut self) -> BufferInfo<'static> {
        const SIZES: [u64; 12] = [0, 1, 2, 3, 255, 4096, 1 << 20, u32::MAX as u64, 1 << 32, 1 << 40, 1 << 63, u64::MAX];
        let size = if self.one_in(2) { self.of(&SIZES) } else { 1 + self.below(100_000) };
        BufferInfo::new(size, vk::BufferUsageFlags::from_raw(self.bits(0x1ff)))
    }

    fn format(&mut self) -> vk::Format {
        const EDGES: [i32; 10] =
            [i32::MIN, -1, 0, 185, 1_000_054_000, 1_000_066_000, 1_000_156_034, 1_000_330_000, 1_000_340_000, i32::MAX];
        vk::Format::from_raw(match self.below(12) {
            0 => self.any() as i32,
            1 => self.of(&EDGES),
            2 | 3 => 1_000_156_000 + self.below(34) as i32,
            4..8 => 1 + self.below(184) as i32,
            _ => self.of(&[vk::Format::R8G8B8A8_UNORM, vk::Format::D32_SFLOAT, vk::Format::R32_UINT]).as_raw(),
        })
    }

    fn extent(&mut self) -> u32 {
        const EDGES: [u32; 13] = [0, 1, 2, 3, 5, 255, 4096, 8192, 8193, 16_384, 16_385, 1 << 20, u32::MAX];
        if self.one_in(6) { self.of(&EDGES) } else { 1 + self.below(300) as u32 }
    }

    fn count(&mut self, most: u64) -> u32 {
        match self.below(24) {
            0 => self.of(&[0, 6, 256, 257, 2048, 2049, u32::MAX]),
            1..5 => self.below(most) as u32,
            _ => 1,
        }
    }

    fn samples(&mut self) -> vk::SampleCountFlags {
        vk::SampleCountFlags::from_raw(match self.below(24) {
            0 => self.any() as u32,
            1..5 => self.of(&[0, 2, 3, 4, 8, 16, 32, 64, 128]),
            _ => 1,
        })
    }

    fn texture(&mut self) -> TextureInfo<'static> {
        let (width, height) = (self.extent(), self.extent());
        let height = if self.one_in(3) { width } else { height };
        // Only one in eight may be a transient attachment, because these allow few other usages.
        let plain = if self.one_in(8) { 0xff } else { 0xbf };
        let usage = vk::ImageUsageFlags::from_raw(self.bits(plain));
        let info = TextureInfo::new(self.format(), width, height, usage);
        info.mips(self.count(12)).layers(self.count(9)).samples(self.samples())
    }
}

/// The results of all descriptions.
#[derive(Default)]
struct Outcome {
    taken: u32,
    placed: u32,
    refused: BTreeMap<&'static str, u32>,
    /// Other errors of the driver, such as lack of memory.
    failed: u32,
}

impl Outcome {
    fn note(&mut self, info: &dyn Debug, error: DeviceError) {
        match error {
            DeviceError::InvalidInfo(reason) | DeviceError::Unsupported(reason) => {
                assert!(reason.numbers != Numbers::None, "no number: {error}");
                *self.refused.entry(reason.rule).or_default() += 1;
            }
            error if error.is_out_of_memory() => self.failed += 1,
            error => panic!("{error}: {info:?}"),
        }
    }

    fn check(&self, what: &str, count: u32, reasons: &[&str]) {
        println!("{what}: {} of {count} taken, {} placed, {} failed", self.taken, self.placed, self.failed);
        self.refused.iter().for_each(|(reason, count)| println!("  {count:6} {reason}"));
        assert!(self.taken >= count / 10, "few were taken");
        assert!(self.placed >= count / 20, "few were placed");
        assert!(self.failed <= count / 10, "many failed");
        let missing: Vec<_> = reasons.iter().filter(|reason| !self.refused.contains_key(**reason)).collect();
        assert!(missing.is_empty(), "never refused for: {missing:?}");
    }
}

fn device_error(error: Error) -> DeviceError {
    match error {
        Error::Device(error) => error,
        error => panic!("{error}"),
    }
}

/// A device, an allocator, and the random numbers.
struct Trial {
    /// Declared first, because it must be dropped before its device.
    memory: Allocator<ringfence::vulkan::Device>,
    rig: Rig,
    dice: Dice,
}

impl Trial {
    fn open() -> Option<Self> {
        let rig = Rig::open()?;
        let memory = Allocator::over(rig.gpu.device(), AllocatorDesc::default());
        Some(Self { memory, rig, dice: Dice::seeded() })
    }

    /// Returns the number of live allocations, their bytes, and the number of created objects.
    fn state(&self) -> (u64, u64, u64) {
        let held = self.memory.statistics();
        let total = held.total();
        (total.range_count + total.dedicated_count, total.used_bytes(), held.calls.create_object)
    }

    fn silent(&mut self, info: &dyn Debug) {
        let messages = self.rig.gpu.take_messages();
        assert!(messages.is_empty(), "{info:?}: {messages:#?}");
    }

    fn buffer(&mut self, outcome: &mut Outcome) {
        let info = self.dice.buffer();
        let device = self.rig.device.clone();
        let raw = *info.raw();
        Create::<Buffers>::share_support(&device, &info, ShareKind::OpaqueFd);
        // SAFETY: the description is safe, and the created buffer is discarded.
        let made = unsafe {
            Create::<Buffers>::prepare(&device, &info).map(|(raw, needs)| {
                Create::<Buffers>::discard(&device, raw);
                needs.size
            })
        };
        match made {
            Ok(bytes) => {
                outcome.taken += 1;
                if bytes <= PLACED_BYTES_MAX {
                    outcome.placed += 1;
                    drop(self.memory.create_buffer(&info, AllocationDesc::default()).expect("there is room"));
                    self.memory.reclaim();
                }
            }
            Err(error) => {
                outcome.note(&raw, error);
                let before = self.state();
                let refused = self.memory.create_buffer(&info, AllocationDesc::default()).map(drop);
                assert_eq!(refused.map_err(device_error), Err(error), "{raw:?}");
                assert_eq!(self.state(), before, "{raw:?}");
            }
        }
        if device.sparse_support().is_some() {
            // SAFETY: as above.
            if let Ok((raw, _)) = unsafe { device.make_sparse(&info) } {
                // SAFETY: no work uses it.
                unsafe { Create::<Buffers>::discard(&device, raw) };
            }
        }
        self.silent(&raw);
    }

    fn texture(&mut self, outcome: &mut Outcome) {
        let info = self.dice.texture();
        let device = self.rig.device.clone();
        let raw = *info.raw();
        Create::<Textures>::share_support(&device, &info, ShareKind::OpaqueFd);
        // SAFETY: the description is safe, and the created texture is discarded.
        let made = unsafe {
            Create::<Textures>::prepare(&device, &info).map(|(raw, needs)| {
                Create::<Textures>::discard(&device, raw);
                needs.size
            })
        };
        match made {
            Ok(bytes) => {
                outcome.taken += 1;
                if bytes <= PLACED_BYTES_MAX {
                    outcome.placed += 1;
                    drop(self.memory.create_texture(&info, AllocationDesc::default()).expect("there is room"));
                    self.memory.reclaim();
                }
            }
            Err(error) => {
                outcome.note(&raw, error);
                let before = self.state();
                let refused = self.memory.create_texture(&info, AllocationDesc::default()).map(drop);
                assert_eq!(refused.map_err(device_error), Err(error), "{raw:?}");
                assert_eq!(self.state(), before, "{raw:?}");
            }
        }
        if device.sparse_texture_support().is_some() {
            // SAFETY: as above.
            if let Ok((raw, _)) = unsafe { device.make_sparse_texture(&info) } {
                // SAFETY: no work uses it.
                unsafe { Create::<Textures>::discard(&device, raw) };
            }
        }
        self.silent(&raw);
    }

    fn close(self) {
        let Self { rig, memory, .. } = self;
        assert_eq!(memory.statistics().total().range_count, 0);
        drop(memory);
        rig.close();
    }
}

#[test]
fn safe_buffer_descriptions_are_valid_or_refused_by_name() {
    let Some(mut trial) = Trial::open() else { return };
    let mut outcome = Outcome::default();
    (0..BUFFERS).for_each(|_| trial.buffer(&mut outcome));
    outcome.check("buffers", BUFFERS, &BUFFER_REASONS);
    trial.close();
}

#[test]
fn safe_texture_descriptions_are_valid_or_refused_by_name() {
    let Some(mut trial) = Trial::open() else { return };
    let mut outcome = Outcome::default();
    (0..TEXTURES).for_each(|_| trial.texture(&mut outcome));
    outcome.check("textures", TEXTURES, &TEXTURE_REASONS);
    trial.close();
}

/// Portable descriptions are valid or refused by name, like native ones.
#[test]
fn portable_descriptions_are_valid_or_refused_by_name() {
    use ringfence::device::{Dimension, Format};
    const PLAIN: [Format; 4] = [Format::Rgba8Unorm, Format::Rgba16Float, Format::R32Float, Format::D32Float];
    const DIMENSIONS: [Dimension; 4] = [Dimension::D1, Dimension::D2, Dimension::Cube, Dimension::D3];
    const USAGES: [TextureUsage; 6] = [
        TextureUsage::COPY_SRC,
        TextureUsage::COPY_DST,
        TextureUsage::SAMPLED,
        TextureUsage::STORAGE,
        TextureUsage::RENDER_TARGET,
        TextureUsage::DEPTH_STENCIL,
    ];
    let Some(mut trial) = Trial::open() else { return };
    let mut taken = [0; DIMENSIONS.len()];
    for _ in 0..2_000 {
        let dice = &mut trial.dice;
        let mut usage = TextureUsage::empty();
        USAGES.into_iter().for_each(|flag| usage = if dice.one_in(3) { usage | flag } else { usage });
        let format = if dice.one_in(2) { dice.of(&PLAIN) } else { dice.of(Format::ALL) };
        let dimension = if dice.one_in(2) { Dimension::D2 } else { dice.of(&DIMENSIONS) };
        // Half of the descriptions have the extent that their dimension requires; most others are refused.
        let fits = dice.one_in(2);
        let (width, mut height, mut depth) = (dice.extent(), dice.extent(), if fits { 1 } else { dice.count(9) });
        let (mips, mut layers, samples) = (dice.count(12), dice.count(9), dice.samples().as_raw());
        match dimension {
            Dimension::D1 if fits => height = 1,
            Dimension::Cube if fits => (height, layers) = (width, 6),
            Dimension::D3 if fits => (depth, layers) = (dice.count(9), 1),
            _ => {}
        }
        let desc =
            TextureDesc { dimension, width, height, depth, layers, mips, samples, format, usage, ..Default::default() };
        let device = trial.rig.device.clone();
        let made = Create::<Textures>::describe(&device, &desc)
            // SAFETY: the device described it, and the created texture is discarded.
            .and_then(|info| unsafe { Create::<Textures>::prepare(&device, &info) });
        if let Ok((raw, _)) = made {
            taken[dimension as usize] += 1;
            // SAFETY: no work uses it.
            unsafe { Create::<Textures>::discard(&device, raw) };
        }
        trial.silent(&desc);
    }
    assert!(taken.iter().all(|&taken| taken > 5) && taken.iter().sum::<u32>() > 200, "{taken:?}");
    let desc = BufferDesc { size: 64, usage: BufferUsage::COPY_SRC | BufferUsage::TEXELS | BufferUsage::INDIRECT };
    let info = Create::<Buffers>::describe(&trial.rig.device, &desc).expect("every device has it");
    drop(trial.memory.create_buffer(&info, AllocationDesc::default()).expect("there is room"));
    trial.memory.reclaim();
    trial.silent(&desc);
    trial.close();
}

/// A description from `from_raw` that safe code changes afterwards is checked like a safe one.
#[test]
fn a_raw_description_that_safe_code_changes_is_checked() {
    let Some(mut trial) = Trial::open() else { return };
    let of = |samples| {
        let raw = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(vk::Format::R8G8B8A8_UNORM)
            .extent(vk::Extent3D { width: 16, height: 16, depth: 1 })
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .usage(vk::ImageUsageFlags::SAMPLED);
        // SAFETY: it is valid, except for the change below.
        unsafe { TextureInfo::from_raw(raw) }.samples(vk::SampleCountFlags::from_raw(samples))
    };
    let refused = trial.memory.create_texture(&of(3), AllocationDesc::default()).map(drop);
    assert_eq!(
        refused,
        Err(Error::Device(
            DeviceError::invalid("the number of samples must be a power of two")
                .with(Numbers::AtMost { given: 3, max: 64 })
        ))
    );
    trial.memory.create_texture(&of(1), AllocationDesc::default()).map(drop).expect("it is still valid");
    trial.memory.reclaim();
    trial.silent(&"from_raw");
    trial.close();
}
