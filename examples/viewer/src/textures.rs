//! Textures: the sky, the volume, and paged pictures. The small mips of a picture stay in memory; its larger mips come
//! within a budget.

use glam::Vec3;
use ringfence::descriptor::BindlessEntry;
use ringfence::device::{Dimension, Format, TextureDesc, TextureUsage};
use ringfence::memory::Error;
use ringfence::paging::{PageDesc, PageUses, PagedTexture, PagingDesc, WhenAway};
use ringfence::upload::{TexelTarget, Texels};
use ringfence::vulkan::{CopyRecorder, Device, Paging, Texture, UploadRing};
use ringfence::{AllocationDesc, Frame, UploadBatch};

use crate::Failure;
use crate::gpu::Gpu;
use crate::heap::Heap;
use crate::pictures::{Chain, Picture};
use crate::sky;

/// Number of mips that always stay in memory: those with a side of at most 64.
const KEPT_MIPS: u32 = 7;
/// Limit of the bytes of larger mips that a frame brings. A single picture may exceed it.
const COMMIT_BYTES: u64 = 256 << 10;

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

/// A picture. Some of its mips can be missing from device memory.
struct Paged {
    texture: PagedTexture,
    entry: BindlessEntry<Device>,
    /// The generation of the texture that the entry shows.
    generation: u64,
}

pub struct Textures {
    sky: Fixed,
    grading: Fixed,
    paging: Paging,
    pictures: Vec<Paged>,
    uses: PageUses,
}

impl Textures {
    pub fn new(
        upload: &mut Upload<'_>,
        heap: &Heap,
        pictures: &[Picture],
        sun: Vec3,
        budget: u64,
        recorder: &mut CopyRecorder<'_>,
    ) -> Result<Self, Failure> {
        let sky = make_sky(upload, heap, sun)?;
        let grading = make_grading(upload, heap)?;
        let limits = PagingDesc { device_bytes_max: budget, bytes_per_commit_max: COMMIT_BYTES, ..Default::default() };
        // SAFETY: each frame is committed before it is submitted.
        let mut paging = unsafe { Paging::new(&upload.gpu.memory, limits) };
        let mut uses = PageUses::new();
        let added: Result<Vec<_>, Failure> = pictures
            .iter()
            .map(|picture| {
                let texture = add(&mut paging, &picture.encode(upload.gpu.has_bc))?;
                uses.add(&texture);
                Ok(texture)
            })
            .collect();
        // The first commit brings the small mips.
        // SAFETY: the recorder's list is submitted as this frame, on the only queue.
        unsafe { paging.commit(&PageUses::new(), upload.frame, recorder) }?;
        let shown = added?.into_iter().map(|texture| {
            let (present, _) = paging.texture(&texture).ok_or("the budget has no room for small mips")?;
            Ok(Paged { entry: heap.insert(present)?, generation: paging.generation(&texture), texture })
        });
        let pictures = shown.collect::<Result<_, Failure>>()?;
        Ok(Self { sky, grading, paging, pictures, uses })
    }

    /// Brings larger mips, a few in each frame, and shows them.
    pub fn page(&mut self, frame: &Frame, recorder: &mut CopyRecorder<'_>, heap: &Heap) -> Result<(), Failure> {
        // SAFETY: the recorder's list is submitted as this frame, on the only queue. Shaders only read the pictures.
        unsafe { self.paging.commit(&self.uses, frame, recorder) }?;
        for picture in &mut self.pictures {
            let generation = self.paging.generation(&picture.texture);
            if picture.generation != generation {
                let (texture, _) = self.paging.texture(&picture.texture).ok_or("its small mips stay")?;
                heap.exchange(&mut picture.entry, texture)?;
                picture.generation = generation;
            }
        }
        Ok(())
    }

    /// Returns the bytes of the pictures on the device.
    pub fn bytes(&self) -> u64 {
        self.paging.totals().device_bytes
    }

    /// Returns the slots of the sky and of the volume.
    pub fn fixed_slots(&self) -> [u32; 2] {
        [self.sky.entry.slot(), self.grading.entry.slot()]
    }

    pub fn slot(&self, picture: usize) -> u32 {
        self.pictures[picture].entry.slot()
    }
}

const USAGE: TextureUsage = TextureUsage::SAMPLED.union(TextureUsage::COPY_DST);

/// Adds a picture. It is away until a commit uses it, except for its small mips.
fn add(paging: &mut Paging, chain: &Chain) -> Result<PagedTexture, Failure> {
    let (side, format, mips) = (chain.side, chain.format, chain.mips.len() as u32);
    let usage = TextureUsage::SAMPLED;
    let desc = TextureDesc { width: side, height: side, mips, format, usage, ..Default::default() };
    let when_away = WhenAway::MayBeAway { kept_mips: KEPT_MIPS };
    Ok(paging.add_texture(
        &desc,
        &chain.mips.concat(),
        PageDesc { name: &chain.name, when_away, ..Default::default() },
    )?)
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
