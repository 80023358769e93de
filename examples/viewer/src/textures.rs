//! Textures: the sky, the volume, and pictures that are streamed: small mips first, larger ones within a budget.

use glam::Vec3;
use ringfence::descriptor::BindlessEntry;
use ringfence::device::{Dimension, Format, TextureDesc, TextureUsage};
use ringfence::memory::Error;
use ringfence::upload::{TexelTarget, Texels};
use ringfence::vulkan::{Device, Texture, UploadRing};
use ringfence::{AllocationDesc, Frame, UploadBatch};

use crate::Failure;
use crate::gpu::Gpu;
use crate::heap::Heap;
use crate::pictures::{Chain, Picture};
use crate::sky;

/// Side of the largest mip that is loaded at the start.
const FIRST_SIDE: u32 = 64;

/// The frame, ring and batch of an upload.
pub struct Upload<'a> {
    pub gpu: &'a Gpu,
    pub ring: &'a UploadRing,
    pub batch: &'a mut UploadBatch<Device>,
    pub frame: &'a Frame,
}

impl Upload<'_> {
    fn create(&self, desc: &TextureDesc, name: &str) -> Result<Texture, Error> {
        let allocation = AllocationDesc { name, within_budget: true, ..Default::default() };
        self.gpu.memory.create_texture(desc, allocation)
    }

    /// Adds the copy of one mip level, with all layers and slices.
    fn fill(&mut self, texture: &Texture, mip: u32, bytes: &[u8]) -> Result<(), Failure> {
        let desc = texture.desc().ok_or("the texture has no portable description")?;
        let size = [desc.width, desc.height, desc.depth].map(|side| (side >> mip).max(1));
        let texels = Texels::of(desc.format, size, bytes).layers(desc.layers);
        let staged = self.ring.write_texels(self.frame, &texels)?;
        Ok(self.batch.copy_texels(&staged, texture, TexelTarget { mip, discard: true, ..Default::default() })?)
    }
}

/// A texture whose contents never change.
struct Fixed {
    entry: BindlessEntry<Device>,
    _texture: Texture,
}

/// A picture, of which only the mips from `top` on are in memory.
struct Streamed {
    chain: Chain,
    top: usize,
    entry: BindlessEntry<Device>,
    texture: Texture,
}

impl Streamed {
    /// Returns the bytes of the loaded mips.
    fn bytes(&self) -> u64 {
        self.chain.mips[self.top..].iter().map(|mip| mip.len() as u64).sum()
    }
}

pub struct Textures {
    sky: Fixed,
    grading: Fixed,
    streamed: Vec<Streamed>,
    budget: u64,
}

impl Textures {
    pub fn new(
        upload: &mut Upload<'_>,
        heap: &Heap,
        pictures: &[Picture],
        sun: Vec3,
        budget: u64,
    ) -> Result<Self, Failure> {
        let sky = make_sky(upload, heap, sun)?;
        let grading = make_grading(upload, heap)?;
        let streamed: Result<_, Failure> = pictures
            .iter()
            .map(|picture| {
                let chain = picture.encode(upload.gpu.has_bc);
                let top = (0..chain.mips.len()).find(|mip| chain.side >> mip <= FIRST_SIDE).unwrap_or(0);
                let texture = load(upload, &chain, top)?;
                Ok(Streamed { top, entry: heap.insert(&texture)?, texture, chain })
            })
            .collect();
        Ok(Self { sky, grading, streamed: streamed?, budget })
    }

    /// Loads one more mip of the picture that has the fewest, if the budget allows it. Returns `true` if it did.
    pub fn stream(&mut self, upload: &mut Upload<'_>, heap: &Heap) -> Result<bool, Failure> {
        let used = self.bytes();
        let fits = |picture: &&mut Streamed| {
            picture.top > 0 && used + picture.chain.mips[picture.top - 1].len() as u64 <= self.budget
        };
        let smallest = |picture: &&mut Streamed| picture.chain.side >> picture.top;
        let Some(picture) = self.streamed.iter_mut().filter(fits).min_by_key(smallest) else { return Ok(false) };
        let texture = match load(upload, &picture.chain, picture.top - 1) {
            Ok(texture) => texture,
            Err(error) if matches!(error.downcast_ref(), Some(Error::OverBudget { .. })) => return Ok(false),
            Err(error) => return Err(error),
        };
        heap.exchange(&mut picture.entry, &texture)?;
        // The old texture is dropped here, while frames that read it are in flight.
        picture.texture = texture;
        picture.top -= 1;
        Ok(true)
    }

    /// Returns the bytes of the streamed pictures.
    pub fn bytes(&self) -> u64 {
        self.streamed.iter().map(Streamed::bytes).sum()
    }

    /// Returns the slots of the sky and of the volume.
    pub fn fixed_slots(&self) -> [u32; 2] {
        [self.sky.entry.slot(), self.grading.entry.slot()]
    }

    pub fn slot(&self, picture: usize) -> u32 {
        self.streamed[picture].entry.slot()
    }
}

const USAGE: TextureUsage = TextureUsage::SAMPLED.union(TextureUsage::COPY_DST);

/// Creates a texture with the mips of a chain from `top` on.
fn load(upload: &mut Upload<'_>, chain: &Chain, top: usize) -> Result<Texture, Failure> {
    let (side, mips) = (chain.side >> top, &chain.mips[top..]);
    let (count, format) = (mips.len() as u32, chain.format);
    let desc = TextureDesc { width: side, height: side, mips: count, format, usage: USAGE, ..Default::default() };
    let texture = upload.create(&desc, &chain.name)?;
    for (mip, bytes) in mips.iter().enumerate() {
        upload.fill(&texture, mip as u32, bytes)?;
    }
    Ok(texture)
}

fn make_sky(upload: &mut Upload<'_>, heap: &Heap, sun: Vec3) -> Result<Fixed, Failure> {
    let desc = TextureDesc {
        dimension: Dimension::Cube,
        width: sky::SKY_SIDE,
        height: sky::SKY_SIDE,
        layers: 6,
        mips: sky::SKY_MIPS,
        format: Format::Rgba16Float,
        usage: USAGE,
        ..Default::default()
    };
    let texture = upload.create(&desc, "sky")?;
    for mip in 0..sky::SKY_MIPS {
        upload.fill(&texture, mip, &sky::faces(mip, sun))?;
    }
    Ok(Fixed { entry: heap.insert(&texture)?, _texture: texture })
}

fn make_grading(upload: &mut Upload<'_>, heap: &Heap) -> Result<Fixed, Failure> {
    let side = sky::GRADING_SIDE;
    let desc = TextureDesc {
        dimension: Dimension::D3,
        width: side,
        height: side,
        depth: side,
        format: Format::Rgba8Unorm,
        usage: USAGE,
        ..Default::default()
    };
    let texture = upload.create(&desc, "grading")?;
    upload.fill(&texture, 0, &sky::grading())?;
    Ok(Fixed { entry: heap.insert(&texture)?, _texture: texture })
}
