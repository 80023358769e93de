//! The render targets of a frame, which share memory: a graph of passes with planned offsets.
//!
//! ```text
//!   queue 0   shadow ─ g-buffer ─────────────▶ light ─ reflect ─ bloom ×3 ─ tone ─ sharpen ─ present ─ (picture)
//!   queue 1                 └──▶ occlusion ──────┘
//! ```
//!
//! The first four targets and the picture are drawn, uploaded or filled. The content of any other target is created
//! from the targets that its pass reads: their texels are concatenated in a transient buffer, and copied to the target.
//! Each target is read back in the last pass that uses it. If its memory was reused too early, the comparison finds
//! wrong bytes.

use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, Device, RawBuffer, RawTexture, TextureDesc, TextureUsage, Textures,
};
use ringfence::lifetime::TimelineId;
use ringfence::transient::{Described, FramePass, FrameResource, TransientDesc, TransientFigures};
use ringfence::upload::Texels;
use ringfence::{Allocator, TransientAllocator, UploadRing};
use ringfence_testkit::{Command, Disc, draw_reference};

use super::checks::{Checker, region};
use super::error::StreamError;
use super::frame::{List, Recording};
use super::world::{PICTURE, World};

/// Maximum number of steps of the planner for a new shape. The limit is not a time, so that equal runs have equal
/// plans.
const PLAN_STEPS_MAX: u64 = 20_000;
/// Maximum number of discs that are drawn into the depth target.
pub const DEPTH_DISCS: usize = 32;

/// The way in which the content of a target is created.
#[derive(Clone, Copy)]
enum Made {
    /// The first discs are drawn, at most this number.
    Drawn(usize),
    /// Bytes of the host are uploaded through the ring.
    Uploaded,
    /// All texels have this value.
    Filled(u32),
    /// The texels of the targets with these indices are concatenated, and cut off at the size of the target.
    From(&'static [usize]),
}

/// A target of the graph, with the number of the pass that creates it.
struct Target {
    name: &'static str,
    pass: usize,
    width: u32,
    height: u32,
    made: Made,
}

impl Target {
    fn bytes(&self) -> usize {
        self.width as usize * self.height as usize * 4
    }
}

const fn target(name: &'static str, pass: usize, width: u32, height: u32, made: Made) -> Target {
    Target { name, pass, width, height, made }
}

/// Number of the pass that runs on the second queue.
const ASIDE_PASS: usize = 2;
const PICTURE_PASS: usize = 11;

/// The targets. Widths are multiples of 64 texels, so that rows need no padding on any device.
const TARGETS: [Target; 14] = [
    target("shadow", 0, 128, 192, Made::Filled(0x3f80_0000)),
    target("depth", 1, 128, 128, Made::Drawn(DEPTH_DISCS)),
    target("albedo", 1, 128, 128, Made::Uploaded),
    target("normals", 1, 128, 128, Made::Filled(0x8080_ff00)),
    target("occlusion", ASIDE_PASS, 128, 128, Made::From(&[1])),
    target("light", 3, 128, 256, Made::From(&[2, 4, 3, 0])),
    target("reflections", 4, 128, 128, Made::From(&[1, 5])),
    target("bloom half", 5, 64, 128, Made::From(&[5])),
    target("bloom quarter", 6, 64, 64, Made::From(&[7])),
    target("bloom", 7, 64, 128, Made::From(&[8, 7])),
    target("tone", 8, 128, 256, Made::From(&[5, 9, 6])),
    target("sharpen", 9, 128, 256, Made::From(&[10])),
    target("present", 10, 128, 256, Made::From(&[11])),
    // The picture is drawn only in some frames.
    target("picture", PICTURE_PASS, PICTURE, PICTURE, Made::Drawn(usize::MAX)),
];

/// Input of [`Targets::record`].
pub struct Input<'f, D: Device> {
    pub discs: &'f [Disc],
    /// Buffer with the discs on the device; `None` if the device cannot draw, or if there are no discs.
    pub drawn_from: Option<RawBuffer<D>>,
    /// `true` if the picture is drawn in this frame.
    pub with_picture: bool,
    pub number: u64,
}

/// Figures of the run.
#[derive(Clone, Copy, Default, Debug)]
pub struct TargetTotals {
    pub frames: u64,
    pub planned: u64,
    pub aliasing_barriers: u64,
    /// Number of driver objects that were created for targets. `hits` is the number of objects that were found in the
    /// caches.
    pub misses: u64,
    pub hits: u64,
    /// Figures of the frame whose targets have the largest total size.
    pub most: TransientFigures,
}

/// The transient allocator of the targets, and their descriptions.
pub struct Targets<D: Device> {
    transient: TransientAllocator<D>,
    queues: (TimelineId, TimelineId),
    infos: Vec<<D as Create<Textures>>::Info<'static>>,
    /// Descriptions of the buffers through which targets are filled or created from other targets.
    scratch: Vec<<D as Create<Buffers>>::Info<'static>>,
    pub totals: TargetTotals,
}

impl<D: Device> Targets<D> {
    pub fn new(memory: &Allocator<D>, queues: (TimelineId, TimelineId)) -> Result<Self, StreamError> {
        let device = memory.device();
        let describe = |target: &Target| {
            let usage = TextureUsage::RENDER_TARGET | TextureUsage::COPY_DST | TextureUsage::COPY_SRC;
            let usage = if matches!(target.made, Made::Drawn(_)) { usage | TextureUsage::STORAGE } else { usage };
            let Target { width, height, .. } = *target;
            Create::<Textures>::describe(device, &TextureDesc { width, height, usage, ..Default::default() })
        };
        let buffer = |target: &Target| {
            let size = (scratch_bytes(target) as u64).max(4);
            let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
            Create::<Buffers>::describe(device, &BufferDesc { size, usage })
        };
        Ok(Self {
            transient: TransientAllocator::new(memory, TransientDesc { name: "targets", ..Default::default() }),
            queues,
            infos: TARGETS.iter().map(describe).collect::<Result<_, _>>()?,
            scratch: TARGETS.iter().map(buffer).collect::<Result<_, _>>()?,
            totals: TargetTotals::default(),
        })
    }

    pub fn figures(&self) -> TransientFigures {
        self.transient.figures()
    }

    /// Plans and records the targets of a frame, and the comparison of each target.
    pub fn record(
        &mut self,
        world: &mut World,
        recording: &mut Recording<D>,
        ring: &UploadRing<D>,
        checker: &Checker<D>,
        input: &Input<'_, D>,
    ) -> Result<(), StreamError> {
        let targets = if input.with_picture { &TARGETS[..] } else { &TARGETS[..TARGETS.len() - 1] };
        let (textures, buffers) = self.plan(targets, recording)?;
        let mut contents: Vec<Vec<u8>> = Vec::new();
        for (at, target) in targets.iter().enumerate() {
            let mut maker =
                Maker { recording, ring, row_bytes: checker.row_bytes(target.width), list: list_of(target.pass) };
            let content = match target.made {
                Made::Drawn(most) => {
                    maker.draw(target, &textures[at], &input.discs[..most.min(input.discs.len())], input)?
                }
                Made::Uploaded => {
                    let content = world.noise(target.bytes() as u64);
                    maker.upload(target, &textures[at], &content)?;
                    content
                }
                Made::Filled(value) => maker.fill(target, &textures[at], &buffers[at], value),
                Made::From(sources) => {
                    let from: Vec<_> = sources.iter().map(|&at| (&TARGETS[at], &textures[at], &contents[at])).collect();
                    maker.gather(target, &textures[at], &buffers[at], &from)
                }
            };
            contents.push(content);
            for last in (0..=at).filter(|&other| ends_with(other, at)) {
                let held = &TARGETS[last];
                let what = format!("{} of frame {}", held.name, input.number);
                let place = (textures[last].clone(), held.width, held.height);
                let (command, check) = checker.texels(&recording.main_frame, what, place, contents[last].clone())?;
                let check = if last == TARGETS.len() - 1 { check.of_picture() } else { check };
                recording.check(list_of(target.pass), (command, check));
            }
        }
        Ok(())
    }

    /// Plans the frame, and returns the driver objects of its targets and buffers at the planned offsets.
    #[expect(clippy::type_complexity, reason = "two lists, taken apart at once")]
    fn plan(
        &mut self,
        targets: &[Target],
        recording: &Recording<D>,
    ) -> Result<(Vec<RawTexture<D>>, Vec<RawBuffer<D>>), StreamError> {
        let (main, second) = self.queues;
        let passes: Vec<_> = (0..=targets[targets.len() - 1].pass)
            .map(|pass| match pass {
                ASIDE_PASS => FramePass { waits: &[1], ..FramePass::on(second) },
                3 => FramePass { waits: &[ASIDE_PASS], ..FramePass::on(main) },
                _ => FramePass::on(main),
            })
            .collect();
        let uses: Vec<Vec<usize>> = (0..targets.len()).map(users).collect();
        let of_texture = |(at, target): (usize, &Target)| FrameResource {
            info: Described::Texture(&self.infos[at]),
            first: target.pass,
            last: &uses[at],
            name: target.name,
        };
        let of_buffer = |(at, target): (usize, &Target)| FrameResource {
            info: Described::Buffer(&self.scratch[at]),
            first: target.pass,
            last: &[],
            name: "texels between passes",
        };
        let textures = targets.iter().enumerate().map(of_texture);
        let resources: Vec<_> = textures.chain(targets.iter().enumerate().map(of_buffer)).collect();
        let mut steps = 0;
        let execution = self.transient.plan(&passes, &resources, |progress| {
            steps += progress.steps.max(1);
            steps < PLAN_STEPS_MAX
        })?;
        let (mut textures, mut buffers) = (Vec::new(), Vec::new());
        for at in 0..targets.len() {
            textures.push(execution.texture(execution.planned(at)?)?.clone());
            buffers.push(execution.buffer(execution.planned(targets.len() + at)?)?.clone());
        }
        let figures = execution.figures();
        execution.finish(&recording.ends());
        self.transient.end_frame();
        let totals = &mut self.totals;
        totals.frames += 1;
        totals.planned += u64::from(!figures.is_reused);
        (totals.misses, totals.hits) = (figures.misses, figures.hits);
        totals.aliasing_barriers += figures.aliasing_count as u64;
        if figures.requested_bytes > totals.most.requested_bytes {
            totals.most = figures;
        }
        Ok((textures, buffers))
    }
}

fn list_of(pass: usize) -> List {
    match pass {
        0 | 1 => List::Early,
        ASIDE_PASS => List::Aside,
        _ => List::Main,
    }
}

fn reads(target: &Target, at: usize) -> bool {
    matches!(target.made, Made::From(sources) if sources.contains(&at))
}

/// Returns the numbers of the passes that read target `at`, then the number of the pass that creates it.
fn users(at: usize) -> Vec<usize> {
    let mut users: Vec<_> = TARGETS.iter().filter(|target| reads(target, at)).map(|target| target.pass).collect();
    users.push(TARGETS[at].pass);
    users
}

/// Returns `true` if target `last` is the last target that reads target `at`, or is target `at` and no target reads it.
fn ends_with(at: usize, last: usize) -> bool {
    (0..TARGETS.len()).rfind(|&other| other == at || reads(&TARGETS[other], at)) == Some(last)
}

/// Returns the size of the buffer through which a target is created, in bytes. Returns 0 if the target needs no buffer.
fn scratch_bytes(target: &Target) -> usize {
    match target.made {
        Made::From(sources) => sources.iter().map(|&at| TARGETS[at].bytes()).sum(),
        Made::Filled(_) => target.bytes(),
        Made::Drawn(_) | Made::Uploaded => 0,
    }
}

/// Records the commands that create a target.
struct Maker<'r, D: Device> {
    recording: &'r mut Recording<D>,
    ring: &'r UploadRing<D>,
    row_bytes: u64,
    list: List,
}

impl<D: Device> Maker<'_, D> {
    /// Draws the discs into the target: on the device if it can draw and there are discs, else on the host.
    fn draw(
        &mut self,
        target: &Target,
        texture: &RawTexture<D>,
        discs: &[Disc],
        input: &Input<'_, D>,
    ) -> Result<Vec<u8>, StreamError> {
        let content = draw_reference(discs, target.width, target.height);
        match &input.drawn_from {
            Some(buffer) => self.recording.push(
                self.list,
                Command::Draw {
                    discs: buffer.clone(),
                    discs_offset: 0,
                    disc_count: discs.len() as u32,
                    target: texture.clone(),
                    width: target.width,
                    height: target.height,
                },
            ),
            None => self.upload(target, texture, &content)?,
        }
        Ok(content)
    }

    fn upload(&mut self, target: &Target, texture: &RawTexture<D>, content: &[u8]) -> Result<(), StreamError> {
        let texels = Texels::new(target.width, target.height, 4, content);
        let staged = self.ring.write_texels(self.recording.frame(self.list), &texels)?;
        let region = region(target.width, target.height, staged.bytes.offset, staged.row_bytes);
        let (src, dst) = (staged.bytes.buffer.clone(), texture.clone());
        self.recording.push(self.list, Command::CopyBufferToTexture { src, dst, region, discard: true });
        Ok(())
    }

    fn fill(&mut self, target: &Target, texture: &RawTexture<D>, scratch: &RawBuffer<D>, value: u32) -> Vec<u8> {
        let (dst, size) = (scratch.clone(), target.bytes() as u64);
        self.recording.push(self.list, Command::TakeOver { buffer: dst.clone() });
        self.recording.push(self.list, Command::FillBuffer { dst, offset: 0, size, value });
        self.put(target, texture, scratch);
        value.to_le_bytes().repeat(target.bytes() / 4)
    }

    fn gather(
        &mut self,
        target: &Target,
        texture: &RawTexture<D>,
        scratch: &RawBuffer<D>,
        from: &[(&Target, &RawTexture<D>, &Vec<u8>)],
    ) -> Vec<u8> {
        self.recording.push(self.list, Command::TakeOver { buffer: scratch.clone() });
        let mut content = Vec::new();
        for (source, src, texels) in from {
            let row = u64::from(source.width) * 4;
            let region = region(source.width, source.height, content.len() as u64, row);
            let (src, dst) = ((*src).clone(), scratch.clone());
            self.recording.push(self.list, Command::CopyTextureToBuffer { src, dst, region });
            content.extend_from_slice(texels);
        }
        content.truncate(target.bytes());
        self.put(target, texture, scratch);
        content
    }

    /// Records the copy from the buffer to the target.
    fn put(&mut self, target: &Target, texture: &RawTexture<D>, scratch: &RawBuffer<D>) {
        let region = region(target.width, target.height, 0, self.row_bytes);
        let (src, dst) = (scratch.clone(), texture.clone());
        self.recording.push(self.list, Command::CopyBufferToTexture { src, dst, region, discard: true });
    }
}
