//! A test kit for devices of Ringfence. Ringfence tests its own devices with it, and you can test your own device.
//!
//! ```text
//!   rig           an open device with an allocator and a timeline per queue; the final check that all is clean
//!   conformance   the requirements of every device: generic functions, and a #[test] of each by conformance!
//!   faults        runs a scenario once for each of its driver calls, with that call failing
//!   world         seeded random programs under the hazard finder
//!   fixture       a simulated device with the objects that a test needs; counting_allocator counts host allocations
//!      │
//!     Gpu         the trait that they all use: open, submit commands, a gate, messages
//!      │
//!      ├── sim::SimGpu, vulkan::VulkanGpu, d3d12::D3d12Gpu
//!      └── your own device
//! ```
//!
//! Ringfence itself opens no device. It records copies and barriers into command lists of the program, and submits only
//! the page binds of sparse resources. This crate opens devices and submits work in the simplest way: one command list
//! per submission, commands in order, and barriers that wait for everything. It checks that memory is correct; it is
//! not fast.
//!
//! # Your own device
//!
//! Implement the traits of [`ringfence::device`] for it, and [`Gpu`] for the other functions that tests need:
//!
//! | function | a device without it |
//! |---|---|
//! | [`open`](Gpu::open), [`close`](Gpu::close), [`device`](Gpu::device) | required |
//! | [`submit`](Gpu::submit), [`fence`](Gpu::fence), [`wait_idle`](Gpu::wait_idle) | required; each [`Command`] in order |
//! | [`open_gate`](Gpu::open_gate), [`gate_opener`](Gpu::gate_opener) | required; tests control with it which work is complete |
//! | [`take_messages`](Gpu::take_messages), [`validation`](Gpu::validation) | returns no messages, [`Validation::Off`] |
//! | [`submit_descriptor_work`](Gpu::submit_descriptor_work) | returns `false` from [`can_copy_through_descriptors`](Gpu::can_copy_through_descriptors); tests report it and skip |
//! | [`Command::Draw`] | returns `false` from [`can_draw`](Gpu::can_draw) |
//! | [`bind_queue`](Gpu::bind_queue) | returns `None`; sparse resources are not tested |
//! | [`SHARE_KINDS`](Gpu::SHARE_KINDS) | has an empty list; shared memory is not tested |
//! | [`texel_formats`](Gpu::texel_formats), [`describe_texels`](Gpu::describe_texels) | returns an empty list and `None`; the table of formats is not tested |
//!
//! A short test program then runs the suite. In this example, the device is the simulated device in a type of its own:
//!
//! ```
//! use ringfence::device::sharing::ShareKind;
//! use ringfence::device::sparse::Sparse;
//! use ringfence::device::{DeviceError, Driver, TextureDesc, TextureInfo};
//! use ringfence_testkit::descriptor_work::DescriptorWork;
//! use ringfence_testkit::{Command, GateOpener, Gpu, OpenError, Options, Validation, rig, sim::SimGpu};
//!
//! struct OwnGpu(SimGpu);
//!
//! impl Gpu for OwnGpu {
//!     type Device = ringfence::sim::Device;
//!     const NAME: &'static str = "own";
//!     const SHARE_KINDS: &'static [ShareKind] = SimGpu::SHARE_KINDS;
//!
//!     fn open(options: &Options) -> Result<Self, OpenError> {
//!         SimGpu::open(options).map(Self)
//!     }
//!     fn close(self) -> Vec<String> {
//!         self.0.close()
//!     }
//!     fn device(&self) -> Self::Device {
//!         self.0.device()
//!     }
//!     fn queue_count(&self) -> usize {
//!         self.0.queue_count()
//!     }
//!     fn fence(&self, queue: usize) -> <Self::Device as Driver>::Fence {
//!         self.0.fence(queue)
//!     }
//!     fn submit(
//!         &mut self,
//!         queue: usize,
//!         waits: &[(usize, u64)],
//!         commands: &[Command<Self::Device>],
//!         signal: u64,
//!     ) -> Result<(), DeviceError> {
//!         self.0.submit(queue, waits, commands, signal)
//!     }
//!     fn wait_idle(&mut self) -> Result<(), DeviceError> {
//!         self.0.wait_idle()
//!     }
//!     fn open_gate(&mut self, value: u64) -> Result<(), DeviceError> {
//!         self.0.open_gate(value)
//!     }
//!     fn gate_opener(&self) -> GateOpener {
//!         self.0.gate_opener()
//!     }
//!     fn validation(&self) -> Validation {
//!         self.0.validation()
//!     }
//!     fn take_messages(&mut self) -> Vec<String> {
//!         self.0.take_messages()
//!     }
//!     fn bind_queue(&self, queue: usize) -> Option<<Self::Device as Sparse>::BindQueue> {
//!         self.0.bind_queue(queue)
//!     }
//!     // Functions that this device does not support.
//!     fn texel_formats(&self) -> Vec<String> {
//!         Vec::new()
//!     }
//!     fn describe_texels(&self, _: usize, _: &TextureDesc) -> Option<TextureInfo<'static, Self::Device>> {
//!         None
//!     }
//!     fn can_draw(&self) -> bool {
//!         false
//!     }
//!     fn can_copy_through_descriptors(&self) -> bool {
//!         false
//!     }
//!     fn submit_descriptor_work(
//!         &mut self,
//!         _: usize,
//!         _: &[(usize, u64)],
//!         _: DescriptorWork<'_, Self::Device>,
//!         _: u64,
//!     ) -> Result<(), DeviceError> {
//!         Err(DeviceError::unsupported("work through descriptors"))
//!     }
//! }
//!
//! /// Runs a test on a device with three queues, so that concurrent work is tested too.
//! fn own(test: impl FnOnce(&mut rig::Rig<OwnGpu>)) {
//!     rig::run_on(&Options { queues: 3, ..Default::default() }, test);
//! }
//!
//! # #[cfg(feature = "conformance")]
//! mod conformance {
//!     // A #[test] for each function of the suite.
//!     ringfence_testkit::conformance!(super::own);
//! }
//!
//! // Or a single one of them.
//! # #[cfg(feature = "conformance")]
//! own(ringfence_testkit::conformance::memory::a_buffer_in_each_location_holds_what_was_written);
//! ```
//!
//! # Features
//!
//! `conformance` (on by default): the suite and its rig. `vulkan` (on by default) and `d3d12`: Ringfence's own devices
//! for these APIs.

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod counting_allocator;
#[cfg(all(windows, feature = "d3d12"))]
pub mod d3d12;
pub mod descriptor_work;
pub mod faults;
pub mod fixture;
pub mod report;
pub mod rig;
pub mod sim;
pub mod transfers;
#[cfg(feature = "vulkan")]
pub mod vulkan;
pub mod world;

use ringfence::UploadBatch;
use ringfence::device::descriptors::{DescriptorModel, Descriptors};
use ringfence::device::record::{TexelRead, TexelRegion, TextureCopy, TextureTarget};
use ringfence::device::sharing::{Share, ShareKind};
use ringfence::device::sparse::Sparse;
use ringfence::device::{Device, DeviceError, Driver, RawBuffer, RawTexture, TextureAspect, TextureDesc, TextureInfo};

use descriptor_work::DescriptorWork;
use transfers::Transfers;

/// A function that opens the gate; see [`Gpu::gate_opener`]. Once the device is destroyed, it does nothing.
pub type GateOpener = Box<dyn Fn() + Send + Sync>;

/// Options with which a device is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of queues. If the device has fewer queues, it opens with the queues that it has. The first queue supports
    /// all commands.
    pub queues: usize,
    /// If `true`, the device has this number of queues, even if several of them share one queue of the driver. Each has
    /// its own fence. Submissions to a shared queue run in the order of submission.
    pub shared_queues: bool,
    /// If `true`, loads the validation layers (core and synchronization); opening fails if they are absent.
    /// [`Gpu::take_messages`] returns their messages.
    pub validation: bool,
    /// If `true`, opening succeeds although the layers are absent; [`Gpu::validation`] reports that they are.
    pub may_lack_validation: bool,
    /// Part of the device's name; `None` for any device. For the simulated device: the name of a profile.
    pub name: Option<String>,
    /// Seed of the simulated device's clock.
    pub seed: u64,
    /// Descriptor model to use on Vulkan if the device supports it; `None` for the best model of the device.
    pub descriptors: Option<DescriptorModel>,
    /// If `true`, empty slots of plain sets contain placeholders on Vulkan: null descriptors and partially bound arrays
    /// are not enabled.
    pub placeholders: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queues: 1,
            shared_queues: false,
            validation: false,
            may_lack_validation: false,
            name: None,
            seed: 0,
            descriptors: None,
            placeholders: false,
        }
    }
}

/// State of a device's validation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Validation {
    /// No checks were requested.
    Off,
    /// The layer is active. The text names it and its kinds of checks.
    On(String),
    /// Checks were requested, but the layer is absent, for this reason. No messages then prove nothing.
    Absent(String),
}

impl std::fmt::Display for Validation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => f.write_str("validation: off"),
            Self::On(layer) => write!(f, "validation: {layer}"),
            Self::Absent(reason) => write!(f, "validation: absent ({reason})"),
        }
    }
}

/// Reason why no device was opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// This machine has no such device. The text names the requested device and the missing part.
    #[error("{0}")]
    Absent(String),
    /// The device exists, but opening it failed.
    #[error("{what}: {error}")]
    Failed {
        /// The step that failed.
        what: &'static str,
        /// The driver's error.
        error: DeviceError,
    },
}

/// A device with queues that run [`Command`]s.
pub trait Gpu: Sized + Send + 'static {
    /// Ringfence's device.
    type Device: Descriptors + Share + Sparse;

    /// Kinds of handles to shared memory, in the order in which tests try them.
    const SHARE_KINDS: &'static [ShareKind];

    /// Name of this kind of device on the command line.
    const NAME: &'static str;

    /// Opens a device.
    ///
    /// # Errors
    /// The device does not exist, or opening it failed.
    fn open(options: &Options) -> Result<Self, OpenError>;

    /// Returns the state of the device's validation. Without a layer, an empty [`Gpu::take_messages`] proves nothing.
    fn validation(&self) -> Validation;

    /// Returns Ringfence's device, for an allocator. All of its objects must be destroyed before `self` is dropped.
    fn device(&self) -> Self::Device;

    /// Returns the number of queues.
    fn queue_count(&self) -> usize;

    /// Returns the fence that submissions to `queue` signal.
    fn fence(&self, queue: usize) -> <Self::Device as Driver>::Fence;

    /// Returns the queue for page binds. Like submissions, page binds signal the queue's fence. Returns `None` if the
    /// queue does not support them.
    fn bind_queue(&self, queue: usize) -> Option<<Self::Device as Sparse>::BindQueue>;

    /// Returns the names of all single-plane texture formats of the API, also of unsupported ones.
    fn texel_formats(&self) -> Vec<String>;

    /// Describes a texture for copies. `format` is an index into [`Gpu::texel_formats`]; `desc` has the size and shape.
    /// Returns `None` if the device does not support such a texture, or cannot copy to and from it.
    fn describe_texels(&self, format: usize, desc: &TextureDesc) -> Option<TextureInfo<'static, Self::Device>>;

    /// Returns the alignment of rows in a buffer for [`Command::CopySubresource`], in bytes. `has_both` is `true` for a
    /// texture with depth and stencil.
    fn subresource_pitch(&self, has_both: bool) -> u64 {
        let _ = has_both;
        1
    }

    /// Returns `true` if the device may copy to buffers in memory of this type.
    fn can_copy_to(&self, memory_type: u32) -> bool {
        let _ = memory_type;
        true
    }

    /// Returns `true` if the device supports [`Command::Draw`].
    fn can_draw(&self) -> bool;

    /// Returns the index that stands for the *gate* in a list of queues to wait for. The gate is a fence that the host
    /// signals: a submission that waits for it starts only after [`Gpu::open_gate`]. A test thereby controls which work
    /// is complete.
    fn gate(&self) -> usize {
        self.queue_count()
    }

    /// Signals the gate with `value`, which must be larger than all earlier values.
    ///
    /// # Errors
    /// The device is lost.
    fn open_gate(&mut self, value: u64) -> Result<(), DeviceError>;

    /// Returns a function that opens the gate for all work that waits for it when the function is called. The returned
    /// function may be called on any thread, while the device is in use. If a test fails while work waits for the gate,
    /// the rig calls the function. Otherwise, dropping the allocator would wait for that work forever.
    fn gate_opener(&self) -> GateOpener;

    /// Submits `commands` to `queue`. They start once the fences of `waits` (queue, value) have reached their values.
    /// Each command starts when the previous one is complete. At the end, the queue's fence is signalled with `signal`.
    ///
    /// # Errors
    /// The device is lost, or memory ran out.
    fn submit(
        &mut self,
        queue: usize,
        waits: &[(usize, u64)],
        commands: &[Command<Self::Device>],
        signal: u64,
    ) -> Result<(), DeviceError>;

    /// Returns `true` if the device supports [`descriptor_work::Job::Copy`].
    fn can_copy_through_descriptors(&self) -> bool;

    /// [`Gpu::submit`] for work that uses descriptors.
    ///
    /// # Errors
    /// The device is lost, memory ran out, or the device does not support a job.
    fn submit_descriptor_work(
        &mut self,
        queue: usize,
        waits: &[(usize, u64)],
        work: DescriptorWork<'_, Self::Device>,
        signal: u64,
    ) -> Result<(), DeviceError>;

    /// Waits until all submitted work is complete.
    ///
    /// # Errors
    /// The device is lost.
    fn wait_idle(&mut self) -> Result<(), DeviceError>;

    /// Destroys the device, whose objects must already be destroyed. Returns the remaining messages of
    /// [`Gpu::take_messages`], including messages about leaked objects, which are reported only then.
    fn close(self) -> Vec<String>;

    /// Returns the messages since the last call: of the validation layers (Vulkan), the debug layer (Direct3D 12) or
    /// the hazard finder (simulated). Each message is a defect.
    fn take_messages(&mut self) -> Vec<String>;
}

/// Work for the device.
#[derive(Clone, Debug)]
pub enum Command<D: Device> {
    /// Copies bytes from one buffer to another, or within one buffer if the ranges do not overlap.
    CopyBuffer {
        /// Source buffer.
        src: RawBuffer<D>,
        /// Offset in the source, in bytes.
        src_offset: u64,
        /// Destination buffer.
        dst: RawBuffer<D>,
        /// Offset in the destination, in bytes.
        dst_offset: u64,
        /// Size in bytes, a multiple of 4.
        size: u64,
    },
    /// Records an upload batch with the library's recorder for the device.
    Upload(Box<UploadBatch<D>>),
    /// Copies whole textures with the library's recorder for the device.
    CopyTextures(Vec<TextureCopy<RawTexture<D>>>),
    /// Copies a box of texels to a texture with the library's recorder for the device.
    CopyBufferToTexels {
        /// Source buffer.
        src: RawBuffer<D>,
        /// Destination texture.
        dst: TextureTarget<RawTexture<D>>,
        /// The texels to copy.
        region: TexelRegion,
    },
    /// Copies texels from textures with the library's recorder for the device.
    ReadTexels(Vec<TexelRead<RawTexture<D>, RawBuffer<D>>>),
    /// Records transfer commands with the library's recorder for the device.
    Transfers(Transfers<D>),
    /// Copies a whole subresource without the library, in the simplest way that the API has.
    CopySubresource {
        /// The buffer.
        buffer: RawBuffer<D>,
        /// The texture.
        texture: RawTexture<D>,
        /// The subresource, and its layout in the buffer.
        part: Subresource,
        /// `true` to copy to the texture, `false` to copy from it.
        into_texture: bool,
        /// `true` if the previous contents of all aspects of the texture may be discarded.
        discard: bool,
    },
    /// Makes the buffer the owner of bytes of another resource (transient memory): the aliasing barrier of Direct3D 12.
    /// Does nothing on other APIs, where each command waits for the previous ones anyway.
    TakeOver {
        /// The new owner of the bytes.
        buffer: RawBuffer<D>,
    },
    /// Fills a buffer with a value.
    FillBuffer {
        /// Destination buffer.
        dst: RawBuffer<D>,
        /// Offset in bytes, a multiple of 4.
        offset: u64,
        /// Size in bytes, a multiple of 4.
        size: u64,
        /// The 32-bit value that is repeated over the range.
        value: u32,
    },
    /// Copies texels from a buffer to a whole colour subresource of a texture.
    CopyBufferToTexture {
        /// Source buffer.
        src: RawBuffer<D>,
        /// Destination texture.
        dst: RawTexture<D>,
        /// Layout of the texels in the buffer and in the texture.
        region: TextureRegion,
        /// `true` if the texture's previous contents may be discarded, for example on its first use.
        discard: bool,
    },
    /// Copies texels from a whole colour subresource of a texture to a buffer.
    CopyTextureToBuffer {
        /// Source texture.
        src: RawTexture<D>,
        /// Destination buffer.
        dst: RawBuffer<D>,
        /// Layout of the texels in the buffer and in the texture.
        region: TextureRegion,
    },
    /// Draws discs into a texture. The texels equal those of [`draw_reference`].
    Draw {
        /// Buffer of [`Disc`]s, four 32-bit numbers each.
        discs: RawBuffer<D>,
        /// Offset of the first disc in bytes, a multiple of 256.
        discs_offset: u64,
        /// Number of discs.
        disc_count: u32,
        /// Target: an RGBA8 texture with storage usage. Its previous contents are discarded.
        target: RawTexture<D>,
        /// Width, in texels.
        width: u32,
        /// Height, in texels.
        height: u32,
    },
}

/// A colour subresource of a texture, and the layout of its texels in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureRegion {
    /// Offset in the buffer, in bytes.
    pub buffer_offset: u64,
    /// Distance between rows in the buffer, in bytes.
    pub row_bytes: u64,
    /// Mip level.
    pub mip: u32,
    /// Array layer.
    pub layer: u32,
    /// Width of the mip level, in texels.
    pub width: u32,
    /// Height of the mip level, in texels.
    pub height: u32,
    /// Bytes per texel.
    pub texel_bytes: u32,
}

/// One aspect of one mip level of one array layer, and its layout in a buffer: rows of blocks, slice after slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subresource {
    /// Offset in the buffer, in bytes.
    pub buffer_offset: u64,
    /// Distance between rows of blocks, in bytes: the size of a row, rounded up to a multiple of
    /// [`Gpu::subresource_pitch`]. On Vulkan it is exactly the size of a row.
    pub row_bytes: u64,
    /// Mip level.
    pub mip: u32,
    /// Array layer.
    pub layer: u32,
    /// The aspect.
    pub aspect: TextureAspect,
    /// `true` if the texture has both depth and stencil.
    pub has_both: bool,
    /// Width, height and depth of the mip level, in texels.
    pub extent: [u32; 3],
    /// Width and height of a block, in texels.
    pub block: [u32; 2],
    /// Size of a block of the aspect, in bytes.
    pub block_bytes: u32,
}

/// A disc of one colour; see [`Command::Draw`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disc {
    /// Horizontal centre, in texels.
    pub x: i32,
    /// Vertical centre, in texels.
    pub y: i32,
    /// Radius, in texels.
    pub radius: i32,
    /// RGBA8 colour: red in the lowest byte, then green, blue, alpha.
    pub color: u32,
}

impl Disc {
    /// Returns the bytes of the disc in the buffer of [`Command::Draw`].
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0..4].copy_from_slice(&self.x.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.y.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.radius.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.color.to_le_bytes());
        bytes
    }

    /// Reads a disc from the first 16 bytes. Returns `None` if there are fewer than 16.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
        Some(Self {
            x: i32::from_le_bytes(word(0)?),
            y: i32::from_le_bytes(word(4)?),
            radius: i32::from_le_bytes(word(8)?),
            color: u32::from_le_bytes(word(12)?),
        })
    }
}

/// RGBA8 colour of texels outside of all discs.
pub const BACKGROUND: u32 = 0xff20_1810;

/// Draws the image of [`Command::Draw`] on the host: RGBA8, rows without padding. A texel has the colour of the last
/// disc that covers it. All arithmetic uses integers, so every device produces the same bytes. Accepts any disc: a
/// planted bug can put other bytes in place of the discs.
#[must_use]
pub fn draw_reference(discs: &[Disc], width: u32, height: u32) -> Vec<u8> {
    let mut image: Vec<u8> = BACKGROUND.to_le_bytes().repeat(width as usize * height as usize);
    for disc in discs {
        let [left, top, radius] = [disc.x, disc.y, disc.radius].map(i64::from);
        let span = |center: i64, end: u32| (center - radius).max(0)..(center + radius + 1).min(end.into());
        for y in span(top, height) {
            for x in span(left, width) {
                let (dx, dy) = (x - left, y - top);
                if (dx * dx).saturating_add(dy * dy) <= radius * radius {
                    let at = (y as usize * width as usize + x as usize) * 4;
                    image[at..at + 4].copy_from_slice(&disc.color.to_le_bytes());
                }
            }
        }
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discs_of_any_numbers_are_drawn() {
        let extremes = [i32::MIN, -1, 0, 1, i32::MAX];
        for (x, y) in extremes.into_iter().flat_map(|x| extremes.map(|y| (x, y))) {
            for radius in extremes {
                let image = draw_reference(&[Disc { x, y, radius, color: 0 }], 2, 2);
                let covers = |x: i64, y: i64| radius >= 0 && x * x + y * y <= i64::from(radius).pow(2);
                let covered = image.chunks(4).next().is_some_and(|texel| texel == [0; 4]);
                // Both products fit: the coordinates have at most 32 bits.
                let expected = (x, y) != (i32::MIN, i32::MIN) && covers(x.into(), y.into());
                assert_eq!(covered, expected, "{x} {y} {radius}");
            }
        }
    }
}

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
