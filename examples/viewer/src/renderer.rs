//! The frame: uploads, constants, passes, submission.

use ash::vk;
use ringfence::contents::{Mesh, MeshArena, MeshArenaDesc, MeshDraw};
use ringfence::descriptor::{Binding, CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc, View};
use ringfence::device::descriptors::{HeapKind, TextureView, TextureViewKind};
use ringfence::device::record::Record;
use ringfence::device::{Format, TexelBox, TextureAspect, TextureDesc, TextureUsage};
use ringfence::upload::{Readback, ReadbackDesc, UploadDesc, WhenFull};
use ringfence::vulkan::{CopyRecorder, Device, Texture, UploadRing};
use ringfence::{AllocationDesc, Frame, ReadbackRing, UploadBatch};

use crate::Failure;
use crate::constants::Constants;
use crate::gpu::Gpu;
use crate::heap::Heap;
use crate::pipelines::{Kind, Pipelines, Push};
use crate::recorder::{Attachment, COLOUR, Recorder, Shown};
use crate::scene::{FLOOR, Instance, Scene, Vertex};
use crate::slot::{IN_FLIGHT, Slot, WAIT};
use crate::targets::{Pass, Planned, SHADOW_SIDE, Target, Targets};
use crate::textures::{Textures, Upload};

/// The picture, and its view as a target.
struct Picture {
    texture: Texture,
    view: CpuDescriptors<Device>,
}

/// Optional parts of a frame.
#[derive(Clone, Copy, Default)]
pub struct Also {
    /// `true` to copy the picture to the host.
    pub read: bool,
    pub show: Option<Shown>,
}

pub struct Renderer {
    slots: Vec<Slot>,
    ring: UploadRing,
    readback: ReadbackRing<Device>,
    constants: Constants,
    arena: MeshArena<Device, Vertex>,
    meshes: Vec<Mesh<Device>>,
    textures: Option<Textures>,
    targets: Targets,
    picture: Picture,
    picture_views: CpuDescriptorHeap<Device>,
    pipelines: Pipelines,
    heap: Heap,
    budget: u64,
}

impl Renderer {
    pub fn new(gpu: &Gpu, size: [u32; 2], budget: u64) -> Result<Self, Failure> {
        let memory = &gpu.memory;
        let when_full = WhenFull::grow(256 << 20);
        let desc = UploadDesc { capacity: 8 << 20, when_full, name: "uploads", ..Default::default() };
        let ring = UploadRing::new(memory, desc)?;
        let desc = ReadbackDesc { capacity: 1 << 20, when_full, name: "pictures", ..Default::default() };
        let readback = ReadbackRing::new(memory, desc)?;
        let arena = MeshArena::new(memory, MeshArenaDesc { name: "meshes", ..Default::default() });
        let desc = CpuHeapDesc { kind: HeapKind::RenderTargets, name: "picture", ..Default::default() };
        let picture_views = CpuDescriptorHeap::new(memory, desc)?;
        let heap = Heap::new(gpu)?;
        Ok(Self {
            slots: (0..IN_FLIGHT).map(|_| Slot::new(gpu)).collect::<Result<_, _>>()?,
            ring,
            readback,
            constants: Constants::new(gpu),
            arena,
            meshes: Vec::new(),
            textures: None,
            targets: Targets::new(gpu, size)?,
            picture: make_picture(gpu, &picture_views, size)?,
            picture_views,
            pipelines: Pipelines::new(gpu, &heap)?,
            heap,
            budget,
        })
    }

    /// Changes the size of all targets. Frames that use the old ones may be in flight.
    pub fn resize(&mut self, gpu: &Gpu, size: [u32; 2]) -> Result<(), Failure> {
        self.targets.resize(size);
        self.picture = make_picture(gpu, &self.picture_views, size)?;
        Ok(())
    }

    /// Draws a frame. Returns the picture, if it was requested.
    pub fn frame(
        &mut self,
        gpu: &Gpu,
        scene: &Scene,
        number: u32,
        also: Also,
    ) -> Result<Option<Readback<Device>>, Failure> {
        let at = number as usize % IN_FLIGHT;
        self.slots[at].reset(gpu)?;
        let frame = gpu.timeline.begin();
        let recorder = Recorder { device: gpu.raw(), commands: self.slots[at].commands };
        self.upload(gpu, scene, &frame, recorder)?;
        let push = self.write_constants(scene, number, &frame)?;
        let planned = self.targets.plan(gpu.timeline.id())?;
        // The binding is made after the uploads, so that it has the textures of this frame.
        let mut binding = self.heap.bind(&frame)?;
        // SAFETY: the command buffer is being recorded, and the layout begins with the set layouts of the heaps.
        unsafe {
            let (device, point) = (gpu.memory.device(), vk::PipelineBindPoint::GRAPHICS);
            binding.set(device, recorder.commands, point, self.pipelines.layout, 0)?;
        }
        self.draw(scene, recorder, at, &planned, push)?;
        let read = if also.read { Some(self.read(gpu, &frame, recorder)?) } else { None };
        if let Some(shown) = also.show {
            recorder.show(*self.picture.texture.object(), self.targets.size, shown);
        }
        self.submit(gpu, at, frame, (planned, binding), also.show)?;
        Ok(read)
    }

    /// Submits the frame, and frees memory that earlier frames have released.
    fn submit(
        &mut self,
        gpu: &Gpu,
        at: usize,
        frame: Frame,
        (planned, binding): (Planned, Binding<Device>),
        show: Option<Shown>,
    ) -> Result<(), Failure> {
        let commands = self.slots[at].commands;
        // SAFETY: the command buffer is being recorded.
        unsafe { gpu.raw().end_command_buffer(commands) }?;
        let (wait, signal) = (show.map(|shown| shown.wait), show.map(|shown| shown.signal));
        let point = gpu.timeline.submit(frame, |value| Ok::<_, Failure>(gpu.submit(commands, value, wait, signal)?))?;
        drop(binding);
        self.slots[at].value = point.value;
        self.targets.finish(planned, point)?;
        self.arena.reclaim()?;
        gpu.memory.reclaim();
        Ok(())
    }

    /// Uploads meshes and small mips in the first frame, and some larger mips in each later frame.
    fn upload(&mut self, gpu: &Gpu, scene: &Scene, frame: &Frame, recorder: Recorder<'_>) -> Result<(), Failure> {
        let mut batch = UploadBatch::new();
        if self.textures.is_none() {
            for mesh in &scene.meshes {
                let mesh = self.arena.insert(&mesh.vertices, &mesh.indices, &self.ring, &mut batch, frame)?;
                self.meshes.push(mesh);
            }
        }
        let mut upload = Upload { gpu, ring: &self.ring, batch: &mut batch, frame };
        // SAFETY: the command buffer belongs to the device, and is submitted as this frame. No pass has begun.
        let copies = unsafe { CopyRecorder::new(recorder.device, recorder.commands) };
        let mut copies = copies.texture_layout(vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL);
        match &mut self.textures {
            Some(textures) => textures.page(frame, &mut copies, &self.heap)?,
            None => {
                let (pictures, sun, budget) = (&scene.pictures, scene.sun, self.budget);
                let made = Textures::new(&mut upload, &self.heap, pictures, sun, budget, &mut copies)?;
                self.textures = Some(made);
            }
        }
        // SAFETY: as above.
        unsafe { batch.record(&mut copies) }?;
        Ok(())
    }

    /// Writes the constants of the frame and of all draws. Returns the slots that shaders need.
    fn write_constants(&mut self, scene: &Scene, number: u32, frame: &Frame) -> Result<Push, Failure> {
        let staged = self.constants.write(scene, number, self.targets.size, frame)?;
        let [sky, grading] = self.textures().fixed_slots();
        Ok(Push { frame: self.heap.frame_slot(frame, &staged)?, sky, grading, ..Default::default() })
    }

    fn textures(&self) -> &Textures {
        self.textures.as_ref().expect("the first frame uploads them")
    }

    /// Records all passes.
    fn draw(
        &mut self,
        scene: &Scene,
        recorder: Recorder<'_>,
        at: usize,
        planned: &Planned,
        push: Push,
    ) -> Result<(), Failure> {
        let depths = [planned.image(Target::Shadow), planned.image(Target::Depth)];
        let draws = self.mesh_draws(scene)?;

        recorder.start(planned.start(Pass::Shadow), &depths);
        recorder.begin([SHADOW_SIDE; 2], None, Some(kept(planned, Target::Shadow)));
        self.draw_all(recorder, Kind::Shadow, scene, &draws, push)?;
        recorder.end();
        recorder.read(depths[0], true);

        recorder.start(planned.start(Pass::Scene), &depths);
        self.bind_inputs(recorder, at, Pass::Scene, planned)?;
        recorder.begin(self.targets.size, Some(lit(planned)), Some(dropped(planned, Target::Depth)));
        self.draw_all(recorder, Kind::Scene, scene, &draws, push)?;
        recorder.pipeline(self.pipelines.get(Kind::Sky, push_sky(push))?, self.pipelines.layout, &push);
        recorder.cover();
        recorder.end();
        recorder.read(planned.image(Target::Resolved), false);

        for (pass, kind, target) in [
            (Pass::Bright, Kind::Bright, Target::Bloom0),
            (Pass::Smaller1, Kind::Smaller, Target::Bloom1),
            (Pass::Smaller2, Kind::Smaller, Target::Bloom2),
            (Pass::Larger1, Kind::Larger, Target::Larger1),
            (Pass::Larger0, Kind::Larger, Target::Larger0),
        ] {
            recorder.start(planned.start(pass), &depths);
            let extent = self.targets.extent(target);
            self.cover(recorder, (at, pass, kind), planned, (extent, kept(planned, target)), Push::default())?;
            recorder.read(planned.image(target), false);
        }

        recorder.start(planned.start(Pass::Tone), &depths);
        let picture = self.picture.attachment();
        recorder.change(picture.image, vk::ImageLayout::UNDEFINED, COLOUR);
        let only = Push { grading: push.grading, ..Default::default() };
        self.cover(recorder, (at, Pass::Tone, Kind::Tone), planned, (self.targets.size, picture), only)
    }

    /// Records a pass that covers its target with one triangle.
    fn cover(
        &mut self,
        recorder: Recorder<'_>,
        (at, pass, kind): (usize, Pass, Kind),
        planned: &Planned,
        (extent, target): ([u32; 2], Attachment),
        push: Push,
    ) -> Result<(), Failure> {
        self.bind_inputs(recorder, at, pass, planned)?;
        recorder.begin(extent, Some(target), None);
        recorder.pipeline(self.pipelines.get(kind, push)?, self.pipelines.layout, &push);
        recorder.cover();
        recorder.end();
        Ok(())
    }

    fn bind_inputs(&self, recorder: Recorder<'_>, at: usize, pass: Pass, planned: &Planned) -> Result<(), Failure> {
        let set = self.slots[at].inputs.set(self.pipelines.inputs, pass, planned)?;
        let (point, layout) = (vk::PipelineBindPoint::GRAPHICS, self.pipelines.layout);
        // SAFETY: the layout has the inputs at set 2, and the set is alive until the frame is complete.
        unsafe { recorder.device.cmd_bind_descriptor_sets(recorder.commands, point, layout, 2, &[set], &[]) };
        Ok(())
    }

    /// Returns the draw of each instance with its number, sorted by block of the arena and by material.
    fn mesh_draws(&self, scene: &Scene) -> Result<Vec<(usize, MeshDraw)>, Failure> {
        let draws = scene.instances.iter().map(|instance| self.arena.draw(&self.meshes[instance.mesh]));
        let mut draws: Vec<_> = draws.collect::<Result<Vec<_>, _>>()?.into_iter().enumerate().collect();
        draws.sort_by_key(|(number, draw)| (draw.block, scene.instances[*number].material));
        Ok(draws)
    }

    /// Draws all instances. The number of the instance is the index of its constants.
    fn draw_all(
        &mut self,
        recorder: Recorder<'_>,
        kind: Kind,
        scene: &Scene,
        draws: &[(usize, MeshDraw)],
        push: Push,
    ) -> Result<(), Failure> {
        let (mut block, mut material) = (None, None);
        for (number, draw) in draws {
            let instance = &scene.instances[*number];
            if block != Some(draw.block) {
                let (vertices, indices) = self.arena.block(draw.block).ok_or("a mesh has a block")?;
                recorder.meshes(vertices.raw(), indices.raw());
                block = Some(draw.block);
            }
            if material != Some(instance.material) && (kind == Kind::Scene || material.is_none()) {
                let push = if kind == Kind::Scene { self.push_material(scene, instance, push) } else { push };
                let key = if kind == Kind::Scene { Push { grading: 0, ..push } } else { Push::default() };
                recorder.pipeline(self.pipelines.get(kind, key)?, self.pipelines.layout, &push);
                material = Some(instance.material);
            }
            recorder.draw_indexed(draw.indirect(1, *number as u32));
        }
        Ok(())
    }

    fn push_material(&self, scene: &Scene, instance: &Instance, push: Push) -> Push {
        let material = scene.materials[instance.material];
        let [albedo, normal] = [material.albedo, material.normal].map(|picture| self.textures().slot(picture));
        Push { albedo, normal, floor: self.textures().slot(FLOOR), ..push }
    }

    /// Records the copy of the picture to the readback ring. The host can read it once the frame is complete.
    fn read(&self, gpu: &Gpu, frame: &Frame, recorder: Recorder<'_>) -> Result<Readback<Device>, Failure> {
        let [width, height] = self.targets.size;
        let whole = TexelBox {
            aspect: TextureAspect::Color,
            mip: 0,
            layer: 0,
            layers: 1,
            x: 0,
            y: 0,
            z: 0,
            width,
            height,
            depth: 1,
        };
        let read = self.readback.reserve_box(frame, &self.picture.texture, &whole)?;
        // SAFETY: the reads are those of the ring, and the picture is a target.
        unsafe {
            let mut copies = CopyRecorder::new(gpu.raw(), recorder.commands).texture_layout(COLOUR);
            copies.read_texels(read.reads());
        }
        Ok(read)
    }

    pub fn ring(&self) -> &UploadRing {
        &self.ring
    }

    /// Returns facts about the memory, for the report.
    pub fn figures(&self) -> Vec<(String, String)> {
        let targets = self.targets.figures();
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        vec![
            ("targets, side by side".into(), mib(targets.requested_bytes)),
            ("targets, sharing memory".into(), mib(targets.peak_bytes)),
            ("paged textures".into(), mib(self.textures().bytes())),
            ("upload ring, most in use".into(), mib(self.ring.high_water())),
            ("meshes".into(), format!("{} in {} blocks", self.meshes.len(), self.arena.figures().block_count)),
        ]
    }

    /// Destroys the program's own Vulkan objects. Ringfence's objects are retired when they are dropped.
    pub fn destroy(self, gpu: &Gpu) {
        let last = self.slots.iter().map(|slot| slot.value).max().unwrap_or(0);
        let _ = gpu.timeline.wait(last, WAIT);
        self.slots.into_iter().for_each(|slot| slot.destroy(gpu));
        self.pipelines.destroy();
    }
}

impl Picture {
    fn attachment(&self) -> Attachment {
        let view = self.view.image_view(0);
        Attachment { image: *self.texture.object(), view, resolve: None, is_kept: true }
    }
}

fn make_picture(gpu: &Gpu, views: &CpuDescriptorHeap<Device>, [width, height]: [u32; 2]) -> Result<Picture, Failure> {
    let usage = TextureUsage::RENDER_TARGET | TextureUsage::COPY_SRC;
    let desc = TextureDesc { width, height, format: Format::Rgba8Unorm, usage, ..Default::default() };
    let texture = gpu.memory.create_texture(&desc, AllocationDesc { name: "picture", ..Default::default() })?;
    let mut view = views.allocate(1)?;
    view.write(0, &View::texture(&texture, TextureView::new(TextureViewKind::RenderTarget, 0..1, 0..1))?)?;
    Ok(Picture { texture, view })
}

fn kept(planned: &Planned, target: Target) -> Attachment {
    Attachment { image: planned.image(target), view: planned.view(target), resolve: None, is_kept: true }
}

fn dropped(planned: &Planned, target: Target) -> Attachment {
    Attachment { is_kept: false, ..kept(planned, target) }
}

/// Returns the target of the scene: multisampled and resolved, or with one sample.
fn lit(planned: &Planned) -> Attachment {
    match planned.has(Target::Lit) {
        true => Attachment { resolve: Some(planned.view(Target::Resolved)), ..dropped(planned, Target::Lit) },
        false => kept(planned, Target::Resolved),
    }
}

/// Returns the slots that the sky's shader uses.
fn push_sky(push: Push) -> Push {
    Push { sky: push.sky, ..Default::default() }
}
