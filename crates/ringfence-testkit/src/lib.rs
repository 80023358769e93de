//! Tests of a device for Ringfence: with this crate Ringfence tests its own devices, and anyone tests a device of their
//! own.
//!
//! ```text
//!   rig           an open device with an allocator and a timeline a queue; the check at the end that all is clean
//!   conformance   what every device has to do: generic functions, a #[test] of each by conformance!
//!   faults        a scenario runs once for each of its driver calls, with that call failing
//!   world         seeded random programs under the hazard finder
//!   fixture       a simulated device with what a test needs of it; counting_allocator counts what the host allocates
//!      │
//!     Gpu         what all of them ask of a device: open, submit commands, a gate, messages
//!      │
//!      ├── sim::SimGpu, vulkan::VulkanGpu, d3d12::D3d12Gpu
//!      └── a device of your own
//! ```
//!
//! Ringfence itself opens no device. It records copies and barriers into command lists of the program, and submits
//! nothing but the page binds of sparse resources. This crate opens devices and submits work, in the plainest way: one command
//! list a submission, run from its first command to its last, with barriers that wait for everything. It is for showing
//! that memory is right, not for speed.
//!
//! # A device of your own
//!
//! Implement the traits of [`ringfence::device`] for it, and [`Gpu`] for what a test needs besides:
//!
//! | function | what a device without it does |
//! |---|---|
//! | [`open`](Gpu::open), [`close`](Gpu::close), [`device`](Gpu::device) | none: needed |
//! | [`submit`](Gpu::submit), [`fence`](Gpu::fence), [`wait_idle`](Gpu::wait_idle) | none: needed; each [`Command`] in order |
//! | [`open_gate`](Gpu::open_gate), [`gate_opener`](Gpu::gate_opener) | none: needed, tests decide with it what is complete |
//! | [`take_messages`](Gpu::take_messages), [`validation`](Gpu::validation) | no messages, [`Validation::Off`] |
//! | [`submit_through`](Gpu::submit_through) | [`can_copy_through`](Gpu::can_copy_through) is `false`; tests report it and skip |
//! | [`Command::Draw`] | [`can_draw`](Gpu::can_draw) is `false` |
//! | [`bind_queue`](Gpu::bind_queue) | `None`: sparse resources are not tested |
//! | [`SHARE_KINDS`](Gpu::SHARE_KINDS) | empty: shared memory is not tested |
//! | [`texel_formats`](Gpu::texel_formats), [`describe_texels`](Gpu::describe_texels) | empty, `None`: the table of formats is not tested |
//!
//! Then a test program of a few lines runs the suite. Here the device is the simulated one behind a type of one's own:
//!
//! ```
//! use ringfence::device::sharing::ShareKind;
//! use ringfence::device::sparse::Sparse;
//! use ringfence::device::{DeviceError, Driver, TextureDesc, TextureInfo};
//! use ringfence_testkit::through::Through;
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
//!     // What it does not do.
//!     fn texel_formats(&self) -> Vec<String> {
//!         Vec::new()
//!     }
//!     fn describe_texels(&self, _: usize, _: &TextureDesc) -> Option<TextureInfo<'static, Self::Device>> {
//!         None
//!     }
//!     fn can_draw(&self) -> bool {
//!         false
//!     }
//!     fn can_copy_through(&self) -> bool {
//!         false
//!     }
//!     fn submit_through(
//!         &mut self,
//!         _: usize,
//!         _: &[(usize, u64)],
//!         _: Through<'_, Self::Device>,
//!         _: u64,
//!     ) -> Result<(), DeviceError> {
//!         Err(DeviceError::unsupported("work through descriptors"))
//!     }
//! }
//!
//! /// Three queues, so that what runs side by side is tested too.
//! fn own(test: impl FnOnce(&mut rig::Rig<OwnGpu>)) {
//!     rig::run_on(&Options { queues: 3, ..Default::default() }, test);
//! }
//!
//! # #[cfg(feature = "conformance")]
//! mod conformance {
//!     // A #[test] of each function of the suite.
//!     ringfence_testkit::conformance!(super::own);
//! }
//!
//! // Or one of them, by itself.
//! # #[cfg(feature = "conformance")]
//! own(ringfence_testkit::conformance::memory::a_buffer_in_each_location_holds_what_was_written);
//! ```
//!
//! # Features
//!
//! `conformance` (on by default): the suite and its rig. `vulkan` (on by default), `d3d12`: Ringfence's own devices on
//! these APIs.

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod counting_allocator;
#[cfg(all(windows, feature = "d3d12"))]
pub mod d3d12;
pub mod faults;
pub mod fixture;
pub mod report;
pub mod rig;
pub mod sim;
pub mod through;
#[cfg(feature = "vulkan")]
pub mod vulkan;
pub mod world;

use ringfence::UploadBatch;
use ringfence::device::descriptors::{DescriptorModel, Descriptors};
use ringfence::device::record::{TexelRead, TexelRegion, TextureCopy, TextureTarget};
use ringfence::device::sharing::{Share, ShareKind};
use ringfence::device::sparse::Sparse;
use ringfence::device::{Device, DeviceError, Driver, RawBuffer, RawTexture, TextureAspect, TextureDesc, TextureInfo};

use through::Through;

/// See [`Gpu::gate_opener`]. Does nothing once the device is gone.
pub type GateOpener = Box<dyn Fn() + Send + Sync>;

/// How to open a device.
#[derive(Clone, Debug)]
pub struct Options {
    /// Queues wanted; a device with fewer gives what it has, at least one. The first can do everything.
    pub queues: usize,
    /// Whether queues that the device lacks share one that it has: each has a fence of its own then, and what is
    /// submitted to any of them runs in the order in which it was submitted.
    pub shared_queues: bool,
    /// Whether to load the validation layers (core and synchronization) and fail to open without them. Their messages
    /// come through [`Gpu::take_messages`].
    pub validation: bool,
    /// Whether to open without the layers where they are absent, which [`Gpu::validation`] says then.
    pub may_lack_validation: bool,
    /// Part of the device's name to look for; any device if `None`. For the simulated device the name of a profile.
    pub name: Option<String>,
    /// Seed of the simulated device's clock.
    pub seed: u64,
    /// How descriptors are to be kept, on Vulkan, where the device can; its best way if `None`.
    pub descriptors: Option<DescriptorModel>,
    /// Whether slots of plain sets that show nothing are to show placeholders, on Vulkan: null descriptors and
    /// partially bound arrays are not enabled.
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

/// What watches a device for faults.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Validation {
    /// Nothing: it was not asked for.
    Off,
    /// This layer, with what it checks.
    On(String),
    /// It was asked for, and is not there for this reason. That nothing is said then means nothing.
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

/// Why no device was opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such device here; the text says what was looked for and what is missing.
    #[error("{0}")]
    Absent(String),
    /// There is one, and it failed.
    #[error("{what}: {error}")]
    Failed {
        /// What was being done.
        what: &'static str,
        /// What the driver said.
        error: DeviceError,
    },
}

/// A device with queues to run [`Command`]s on.
pub trait Gpu: Sized + Send + 'static {
    /// Ringfence's side of the device.
    type Device: Descriptors + Share + Sparse;

    /// What handles to shared memory are here, in the order in which tests try them.
    const SHARE_KINDS: &'static [ShareKind];

    /// What the command line calls this kind of device.
    const NAME: &'static str;

    /// Opens a device.
    ///
    /// # Errors
    /// There is none, or it failed.
    fn open(options: &Options) -> Result<Self, OpenError>;

    /// What watches the device: whether an empty [`Gpu::take_messages`] says anything.
    fn validation(&self) -> Validation;

    /// Ringfence's side of the device, to make an allocator over. Everything made through it has to be gone before
    /// `self` is dropped: keep the `Gpu` alive longest.
    fn device(&self) -> Self::Device;

    /// How many queues there are.
    fn queue_count(&self) -> usize;

    /// The fence that submissions to `queue` signal.
    fn fence(&self, queue: usize) -> <Self::Device as Driver>::Fence;

    /// The queue as pages are bound on it; `None` if it cannot. What is bound signals the queue's fence, as a
    /// submission.
    fn bind_queue(&self, queue: usize) -> Option<<Self::Device as Sparse>::BindQueue>;

    /// The names of all formats that the API has for textures of one plane, whether or not the device has them.
    fn texel_formats(&self) -> Vec<String>;

    /// A texture of one of [`Gpu::texel_formats`], by its index, of the size and shape that `desc` says, to be copied
    /// to and from; `None` if the device has no such texture, or does not copy to and from it.
    fn describe_texels(&self, format: usize, desc: &TextureDesc) -> Option<TextureInfo<'static, Self::Device>>;

    /// What rows in a buffer are multiples of, in bytes, where [`Command::CopySubresource`] copies them; `has_both` of a
    /// texture with depth and stencil.
    fn subresource_pitch(&self, has_both: bool) -> u64 {
        let _ = has_both;
        1
    }

    /// Whether the device may copy to buffers in memory of this type.
    fn can_copy_to(&self, memory_type: u32) -> bool {
        let _ = memory_type;
        true
    }

    /// Whether [`Command::Draw`] works here.
    fn can_draw(&self) -> bool;

    /// What stands for the *gate* among the queues that a submission waits for: a fence that the host signals. A
    /// submission that waits for it is held back until [`Gpu::open_gate`], so that a test decides what is complete.
    fn gate(&self) -> usize {
        self.queue_count()
    }

    /// Signals the gate with a value above those before.
    ///
    /// # Errors
    /// Device lost.
    fn open_gate(&mut self, value: u64) -> Result<(), DeviceError>;

    /// What opens the gate for all that was submitted behind it so far: from any thread, while the device is in use
    /// elsewhere. For a program that fails while work is held back, so that what waits for that work ends.
    fn gate_opener(&self) -> GateOpener;

    /// Submits `commands` to `queue`: they begin once the fences of `waits` (queue, value) have come so far, run in
    /// order, each after the one before it is complete, and then the queue's fence is signalled with `signal`.
    ///
    /// # Errors
    /// Device lost, out of memory.
    fn submit(
        &mut self,
        queue: usize,
        waits: &[(usize, u64)],
        commands: &[Command<Self::Device>],
        signal: u64,
    ) -> Result<(), DeviceError>;

    /// Whether [`through::Job::Copy`] works here.
    fn can_copy_through(&self) -> bool;

    /// As [`Gpu::submit`], for work that goes through descriptors.
    ///
    /// # Errors
    /// Device lost, out of memory, or a job that the device cannot do.
    fn submit_through(
        &mut self,
        queue: usize,
        waits: &[(usize, u64)],
        through: Through<'_, Self::Device>,
        signal: u64,
    ) -> Result<(), DeviceError>;

    /// Waits until all that was submitted is complete.
    ///
    /// # Errors
    /// Device lost.
    fn wait_idle(&mut self) -> Result<(), DeviceError>;

    /// Destroys the device, all that was made with it being gone, and says what [`Gpu::take_messages`] would have said
    /// up to the end: objects that were left over show only then.
    fn close(self) -> Vec<String>;

    /// What validation layers (Vulkan) or the hazard finder (simulated) have said since the last call; each is a
    /// defect.
    fn take_messages(&mut self) -> Vec<String>;
}

/// Work for the device.
#[derive(Clone, Debug)]
pub enum Command<D: Device> {
    /// Copies bytes from one buffer to another (or within one, without overlap).
    CopyBuffer {
        /// Copied from.
        src: RawBuffer<D>,
        /// First byte there.
        src_offset: u64,
        /// Copied to.
        dst: RawBuffer<D>,
        /// First byte there.
        dst_offset: u64,
        /// Bytes, a multiple of 4.
        size: u64,
    },
    /// Plays a batch, through the library's own recorder for the device.
    Upload(Box<UploadBatch<D>>),
    /// Copies textures as a whole, through the library's own recorder for the device.
    CopyTextures(Vec<TextureCopy<RawTexture<D>>>),
    /// Copies a box of texels to a texture, through the library's own recorder for the device.
    CopyBufferToTexels {
        /// Copied from.
        src: RawBuffer<D>,
        /// Copied to.
        dst: TextureTarget<RawTexture<D>>,
        /// Which texels.
        region: TexelRegion,
    },
    /// Copies texels from textures, through the library's own recorder for the device.
    ReadTexels(Vec<TexelRead<RawTexture<D>, RawBuffer<D>>>),
    /// Copies all of a subresource in the plainest way that the API has, without the library.
    CopySubresource {
        /// The buffer.
        buffer: RawBuffer<D>,
        /// The texture.
        texture: RawTexture<D>,
        /// Which subresource, and how it lies in the buffer.
        part: Subresource,
        /// Whether the texture is copied to; else from.
        into_texture: bool,
        /// Whether the texture's previous contents, in all aspects, may be discarded.
        discard: bool,
    },
    /// The buffer's bytes were another resource's up to here (transient memory): the aliasing barrier of Direct3D 12.
    /// Nothing elsewhere, where each command waits for those before anyway.
    TakeOver {
        /// Whose the bytes are from here on.
        buffer: RawBuffer<D>,
    },
    /// Fills a buffer with a value.
    FillBuffer {
        /// Filled.
        dst: RawBuffer<D>,
        /// First byte, a multiple of 4.
        offset: u64,
        /// Bytes, a multiple of 4.
        size: u64,
        /// Repeated over the range.
        value: u32,
    },
    /// Copies texels from a buffer to the whole of a texture's subresource.
    CopyBufferToTexture {
        /// Copied from.
        src: RawBuffer<D>,
        /// Copied to. What it held before is lost if `discard`.
        dst: RawTexture<D>,
        /// How the texels lie in the buffer and in the texture.
        region: TextureRegion,
        /// Whether the texture's previous contents may be discarded (as on its first use).
        discard: bool,
    },
    /// Copies texels from the whole of a texture's subresource to a buffer.
    CopyTextureToBuffer {
        /// Copied from.
        src: RawTexture<D>,
        /// Copied to.
        dst: RawBuffer<D>,
        /// How the texels lie in the buffer and in the texture.
        region: TextureRegion,
    },
    /// Draws discs into a texture, as [`draw_reference`] does.
    Draw {
        /// [`Disc`]s, four 32-bit numbers each, at a multiple of 256.
        discs: RawBuffer<D>,
        /// First byte there.
        discs_offset: u64,
        /// How many.
        disc_count: u32,
        /// Drawn to: an RGBA8 texture with storage usage. What it held before is lost.
        target: RawTexture<D>,
        /// Texels across.
        width: u32,
        /// Texels down.
        height: u32,
    },
}

/// A subresource of a texture and the same texels in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureRegion {
    /// First byte in the buffer.
    pub buffer_offset: u64,
    /// Bytes from one row to the next in the buffer.
    pub row_bytes: u64,
    /// Mip level.
    pub mip: u32,
    /// Array layer.
    pub layer: u32,
    /// Texels across, of that mip.
    pub width: u32,
    /// Texels down, of that mip.
    pub height: u32,
    /// Bytes a texel.
    pub texel_bytes: u32,
}

/// One aspect of one mip level of one array layer, and how it lies in a buffer: rows of whole blocks, slices after each
/// other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subresource {
    /// First byte in the buffer.
    pub buffer_offset: u64,
    /// Bytes from one row of blocks to the next: those of the blocks, up to a multiple of [`Gpu::subresource_pitch`];
    /// on Vulkan no more than those of the blocks.
    pub row_bytes: u64,
    /// Mip level.
    pub mip: u32,
    /// Array layer.
    pub layer: u32,
    /// Which aspect.
    pub aspect: TextureAspect,
    /// Whether the texture has depth and stencil.
    pub has_both: bool,
    /// Texels across, down and deep, of that mip.
    pub extent: [u32; 3],
    /// Texels of a block, across and down.
    pub block: [u32; 2],
    /// Bytes of a block of that aspect.
    pub block_bytes: u32,
}

/// What [`Command::Draw`] draws: a disc of one colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disc {
    /// Centre, in texels.
    pub x: i32,
    /// Centre, in texels.
    pub y: i32,
    /// Radius, in texels.
    pub radius: i32,
    /// Red in the lowest byte, then green, blue, alpha.
    pub colour: u32,
}

impl Disc {
    /// As it lies in the buffer.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0..4].copy_from_slice(&self.x.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.y.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.radius.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.colour.to_le_bytes());
        bytes
    }

    /// From the first 16 of these bytes; `None` if there are fewer.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
        Some(Self {
            x: i32::from_le_bytes(word(0)?),
            y: i32::from_le_bytes(word(4)?),
            radius: i32::from_le_bytes(word(8)?),
            colour: u32::from_le_bytes(word(12)?),
        })
    }
}

/// The colour where no disc lies.
pub const BACKGROUND: u32 = 0xff20_1810;

/// The image that [`Command::Draw`] makes, drawn by the host: RGBA8, rows without padding. A texel has the colour of
/// the last disc that covers it, in whole numbers throughout, so that every device gives the same bytes.
#[must_use]
pub fn draw_reference(discs: &[Disc], width: u32, height: u32) -> Vec<u8> {
    let mut image: Vec<u8> = BACKGROUND.to_le_bytes().repeat(width as usize * height as usize);
    for disc in discs {
        let rows = (disc.y - disc.radius).max(0)..(disc.y + disc.radius + 1).min(height as i32);
        for y in rows {
            let columns = (disc.x - disc.radius).max(0)..(disc.x + disc.radius + 1).min(width as i32);
            for x in columns {
                let (dx, dy) = (x - disc.x, y - disc.y);
                if dx * dx + dy * dy <= disc.radius * disc.radius {
                    let at = (y as usize * width as usize + x as usize) * 4;
                    image[at..at + 4].copy_from_slice(&disc.colour.to_le_bytes());
                }
            }
        }
    }
    image
}
