//! Targets of the passes: transient textures that share memory, planned once for each size.

use std::collections::HashMap;

use ash::vk;
use ringfence::descriptor::{CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc, View};
use ringfence::device::descriptors::{HeapKind, TextureView, TextureViewKind};
use ringfence::lifetime::TimelineId;
use ringfence::transient::{
    Described, FramePass, FrameResource, Suspended, TransientDesc, TransientFigures, TransientId, TransientTexture,
};
use ringfence::vulkan::{Device, TextureInfo};
use ringfence::{SyncPoint, TransientAllocator};

use crate::Failure;
use crate::gpu::Gpu;

/// The passes, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    Shadow,
    Scene,
    Bright,
    Smaller1,
    Smaller2,
    Larger1,
    Larger0,
    Tone,
}

/// Number of passes.
pub const PASSES: usize = 8;

/// The targets. `Lit` has several samples; if the device has one sample only, `Resolved` is drawn to directly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Shadow,
    Depth,
    Resolved,
    Bloom0,
    Bloom1,
    Bloom2,
    Larger1,
    Larger0,
    Lit,
}

pub const DEPTH_FORMAT: vk::Format = vk::Format::D32_SFLOAT;
pub const LIGHT_FORMAT: vk::Format = vk::Format::R16G16B16A16_SFLOAT;
/// Side of the shadow map, in texels.
pub const SHADOW_SIDE: u32 = 2048;

/// Name, first pass, last pass; in the order of [`Target`].
const USES: [(&str, Pass, Pass); 9] = [
    ("shadow", Pass::Shadow, Pass::Scene),
    ("depth", Pass::Scene, Pass::Scene),
    ("resolved", Pass::Scene, Pass::Tone),
    ("bloom 0", Pass::Bright, Pass::Larger0),
    ("bloom 1", Pass::Smaller1, Pass::Larger1),
    ("bloom 2", Pass::Smaller2, Pass::Larger1),
    ("larger 1", Pass::Larger1, Pass::Larger0),
    ("larger 0", Pass::Larger0, Pass::Tone),
    ("lit", Pass::Scene, Pass::Scene),
];

pub struct Targets {
    allocator: TransientAllocator<Device>,
    /// Heaps of attachments: colours and depths.
    heaps: [CpuDescriptorHeap<Device>; 2],
    /// The view of each object, as an attachment and as an input of a later pass.
    views: HashMap<TransientId, CpuDescriptors<Device>>,
    samples: vk::SampleCountFlags,
    pub size: [u32; 2],
}

/// The targets of one frame.
pub struct Planned {
    /// Image and view of each target.
    targets: Vec<(vk::Image, vk::ImageView)>,
    starts: [Start; PASSES],
    suspended: Suspended,
}

/// The barriers at the beginning of a pass.
#[derive(Clone, Default)]
pub struct Start {
    /// `true` if the pass waits for all earlier commands.
    pub depends: bool,
    /// Targets whose layout and contents are undefined.
    pub discards: Vec<vk::Image>,
}

impl Planned {
    pub fn image(&self, target: Target) -> vk::Image {
        self.targets[target as usize].0
    }

    pub fn view(&self, target: Target) -> vk::ImageView {
        self.targets[target as usize].1
    }

    pub fn has(&self, target: Target) -> bool {
        (target as usize) < self.targets.len()
    }

    pub fn start(&self, pass: Pass) -> &Start {
        &self.starts[pass as usize]
    }
}

impl Targets {
    pub fn new(gpu: &Gpu, size: [u32; 2]) -> Result<Self, Failure> {
        let heap = |kind, name| CpuDescriptorHeap::new(&gpu.memory, CpuHeapDesc { kind, name, ..Default::default() });
        let desc = TransientDesc { name: "targets", ..Default::default() };
        Ok(Self {
            allocator: TransientAllocator::new(&gpu.memory, desc),
            heaps: [heap(HeapKind::RenderTargets, "colours")?, heap(HeapKind::DepthStencils, "depths")?],
            views: HashMap::new(),
            samples: gpu.samples,
            size,
        })
    }

    /// Sets the size. The targets of the old size are released once the device has finished with them.
    pub fn resize(&mut self, size: [u32; 2]) {
        self.size = size;
        self.views.clear();
        self.allocator.trim();
    }

    /// Returns the size of a target, in texels.
    pub fn extent(&self, target: Target) -> [u32; 2] {
        let shift = match target {
            Target::Shadow => return [SHADOW_SIDE; 2],
            Target::Depth | Target::Lit | Target::Resolved => 0,
            Target::Bloom0 | Target::Larger0 => 1,
            Target::Bloom1 | Target::Larger1 => 2,
            Target::Bloom2 => 3,
        };
        self.size.map(|side| (side >> shift).max(1))
    }

    /// Plans a frame. After the first frame of a size, this is a lookup.
    pub fn plan(&mut self, queue: TimelineId) -> Result<Planned, Failure> {
        let infos: Vec<_> = self.all().map(|target| self.info(target)).collect();
        let lasts = USES.map(|(_, first, last)| if first == last { vec![] } else { vec![last as usize] });
        let resources: Vec<_> = infos
            .iter()
            .zip(USES)
            .zip(&lasts)
            .map(|((info, (name, first, _)), last)| FrameResource {
                info: Described::Texture(info),
                first: first as usize,
                last,
                name,
            })
            .collect();
        let passes = [FramePass::on(queue); PASSES];
        let suspended = self.allocator.plan(&passes, &resources, |_| true)?.suspend();
        let targets: Result<_, Failure> = self.all().map(|target| self.planned(target)).collect();
        Ok(Planned { targets: targets?, starts: self.starts(), suspended })
    }

    /// Ends a frame that was submitted.
    pub fn finish(&mut self, planned: Planned, point: SyncPoint) -> Result<(), Failure> {
        self.allocator.resume(planned.suspended)?.finish(&[point]);
        self.allocator.end_frame();
        Ok(())
    }

    pub fn figures(&self) -> TransientFigures {
        self.allocator.figures()
    }

    fn all(&self) -> impl Iterator<Item = Target> + use<> {
        use Target::*;
        let is_single = self.samples == vk::SampleCountFlags::TYPE_1;
        let targets = [Shadow, Depth, Resolved, Bloom0, Bloom1, Bloom2, Larger1, Larger0, Lit];
        targets.into_iter().filter(move |target| !is_single || *target != Lit)
    }

    fn info(&self, target: Target) -> TextureInfo<'static> {
        use vk::ImageUsageFlags as Usage;
        let [width, height] = self.extent(target);
        let (format, usage) = match target {
            Target::Shadow => (DEPTH_FORMAT, Usage::DEPTH_STENCIL_ATTACHMENT | Usage::SAMPLED),
            Target::Depth => (DEPTH_FORMAT, Usage::DEPTH_STENCIL_ATTACHMENT),
            Target::Lit => (LIGHT_FORMAT, Usage::COLOR_ATTACHMENT),
            _ => (LIGHT_FORMAT, Usage::COLOR_ATTACHMENT | Usage::SAMPLED),
        };
        let info = TextureInfo::new(format, width, height, usage);
        if matches!(target, Target::Depth | Target::Lit) { info.samples(self.samples) } else { info }
    }

    /// Returns the image and the view of a target of the present plan.
    fn planned(&mut self, target: Target) -> Result<(vk::Image, vk::ImageView), Failure> {
        let handle: TransientTexture = self.allocator.planned(target as usize)?;
        let image = *self.allocator.texture(handle)?;
        if !self.views.contains_key(&handle.id()) {
            let view = self.make_view(target, handle)?;
            self.views.insert(handle.id(), view);
        }
        let view = &self.views[&handle.id()];
        Ok((image, view.image_view(0)))
    }

    fn make_view(&self, target: Target, handle: TransientTexture) -> Result<CpuDescriptors<Device>, Failure> {
        let is_depth = matches!(target, Target::Shadow | Target::Depth);
        let kind = if is_depth { TextureViewKind::DepthStencil } else { TextureViewKind::RenderTarget };
        let view = View::target(self.allocator.target(handle)?, TextureView::new(kind, 0..1, 0..1))?;
        let mut slot = self.heaps[usize::from(is_depth)].allocate(1)?;
        slot.write(0, &view)?;
        Ok(slot)
    }

    /// Sorts the barriers of the plan by pass.
    fn starts(&self) -> [Start; PASSES] {
        let pass_of = |barrier: &ringfence::transient::Barrier| {
            (0..PASSES).find(|pass| self.allocator.frame_pass(*pass) == Some(barrier.pass))
        };
        let mut starts: [Start; PASSES] = Default::default();
        for barrier in self.allocator.barriers() {
            let Some(pass) = pass_of(barrier) else { continue };
            starts[pass].depends |= barrier.depends;
            if let (true, Ok(ringfence::memory::RawObject::Texture(image))) =
                (barrier.discards, self.allocator.raw(barrier.after))
            {
                starts[pass].discards.push(*image);
            }
        }
        starts
    }
}
