//! The simulated device for the test kit. A host closure replaces the shader that draws.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ringfence::device::record::{Record, TexelRegion};
use ringfence::device::sharing::ShareKind;
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, Driver, Format, MemoryDesc, MemoryProperties, ResourceClass,
    TexelFormat, TextureAspect, TextureDesc, TextureUsage, Textures,
};
use ringfence::sim::{
    BufferId as SimBuffer, BufferLayout, BufferRange, Command as SimCommand, DescriptorUse, Device, Fence, Kernel,
    Memory, Profile, SimOptions, TextureId as SimTexture, TextureRegion as SimRegion,
};

use crate::descriptor_work::{DescriptorWork, Job};
use crate::{
    Command, Disc, GateOpener, Gpu, OpenError, Options, Subresource, TextureRegion, Validation, draw_reference,
};

/// Maximum number of texels of a picture.
const PICTURE_TEXELS_MAX: u64 = 1 << 20;

/// A simulated device with queues.
pub struct SimGpu {
    device: Device,
    fences: Vec<Fence>,
    /// The gate. Work on an additional last queue signals it.
    gate: Fence,
    /// The highest gate value that work waits for.
    gate_awaited: Arc<AtomicU64>,
    /// The last value that the fence of each queue will reach.
    submitted: Vec<u64>,
    /// Buffer that the kernel of [`drawing`] writes the picture to. A second command copies the picture to the target
    /// texture.
    canvas: SimBuffer,
    canvas_memory: Option<Memory>,
}

impl SimGpu {
    /// Opens a device with this profile.
    ///
    /// # Errors
    /// The profile has too little memory for the buffer that pictures are drawn in (4 MiB).
    pub fn with_profile(profile: Profile, options: SimOptions) -> Result<Self, OpenError> {
        let queues = options.queues.max(1);
        let device = Device::new(profile, SimOptions { queues: queues + 1, ..options });
        let fences: Vec<_> = (0..queues).map(|_| device.create_fence(0)).collect();
        let gate = device.create_fence(0);
        let failed = |error| OpenError::Failed { what: "creating the canvas of the simulated device", error };
        let (canvas, memory) = canvas(&device).map_err(failed)?;
        let (submitted, gate_awaited) = (vec![0; fences.len()], Arc::default());
        Ok(Self { submitted, device, fences, gate, gate_awaited, canvas, canvas_memory: Some(memory) })
    }

    /// Returns the simulated device, with its clock, hazards and counters.
    #[must_use]
    pub fn sim(&self) -> &Device {
        &self.device
    }

    fn fences_of(&self, waits: &[(usize, u64)]) -> Vec<(Fence, u64)> {
        let fence_of = |&(queue, value): &(usize, u64)| match self.fences.get(queue) {
            Some(fence) => (*fence, value),
            None => {
                self.gate_awaited.fetch_max(value, Ordering::Relaxed);
                (self.gate, value)
            }
        };
        waits.iter().map(fence_of).collect()
    }

    fn translate(&self, command: &Command<Device>, into: &mut Vec<SimCommand>) {
        match *command {
            // SAFETY: the simulated device checks the commands.
            Command::Upload(ref batch) => unsafe { batch.as_ref().clone().record(into) }.expect("its frame is open"),
            // SAFETY: as above.
            Command::CopyTextures(ref copies) => unsafe { Record::copy_textures(into, copies) },
            // SAFETY: as above.
            Command::CopyBufferToTexels { src, ref dst, region } => unsafe {
                Record::copy_buffer_to_texture(into, &src, &dst.texture, &region);
            },
            // SAFETY: as above.
            Command::ReadTexels(ref reads) => unsafe { Record::read_texels(into, reads) },
            // SAFETY: as above.
            Command::Transfers(ref list) => unsafe { list.replay(into) }.expect("the device has the commands"),
            Command::CopySubresource { buffer, texture, ref part, into_texture, .. } => {
                let one_by_one = !self.device.profile().strict && part.aspect == TextureAspect::Color;
                into.extend(rows(part, one_by_one).map(|region| match into_texture {
                    true => SimCommand::CopyBufferToTexels { src: buffer, dst: texture, region },
                    false => SimCommand::CopyTexelsToBuffer { src: texture, dst: buffer, region },
                }));
            }
            Command::TakeOver { .. } => {}
            Command::CopyBuffer { src, src_offset, dst, dst_offset, size } => {
                into.push(SimCommand::CopyBuffer { src, src_offset, dst, dst_offset, size });
            }
            Command::FillBuffer { dst, offset, size, value } => {
                let range = BufferRange::new(dst, offset, size);
                into.push(SimCommand::Kernel(Kernel::new(vec![], vec![range], move |memory| {
                    for word in memory.writes[0].chunks_exact_mut(4) {
                        word.copy_from_slice(&value.to_le_bytes());
                    }
                })));
            }
            Command::CopyBufferToTexture { src, dst, region, .. } => {
                let (layout, region) = split(region);
                into.push(SimCommand::CopyBufferToTexture { src, layout, dst, region });
            }
            Command::CopyTextureToBuffer { src, dst, region } => {
                let (layout, region) = split(region);
                into.push(SimCommand::CopyTextureToBuffer { src, region, dst, layout });
            }
            Command::Draw { discs, discs_offset, disc_count, target, width, height } => {
                let discs = BufferRange::new(discs, discs_offset, u64::from(disc_count) * 16);
                into.extend(drawing(discs, self.canvas, target, (width, height)));
            }
        }
    }
}

/// Returns commands that draw discs on a canvas of `width` × `height` texels, then copy it to a texture of that size.
pub(crate) fn drawing(
    discs: BufferRange,
    canvas: SimBuffer,
    target: SimTexture,
    (width, height): (u32, u32),
) -> [SimCommand; 2] {
    let drawn = BufferRange::new(canvas, 0, u64::from(width) * u64::from(height) * 4);
    let kernel = Kernel::new(vec![discs], vec![drawn], move |memory| {
        let discs: Vec<Disc> = memory.reads[0].chunks_exact(16).filter_map(Disc::from_bytes).collect();
        memory.writes[0] = draw_reference(&discs, width, height);
    });
    let layout = BufferLayout { offset: 0, row_bytes: u64::from(width) * 4 };
    let region = SimRegion { mip: 0, layer: 0, x: 0, y: 0, width, height };
    [SimCommand::Kernel(kernel), SimCommand::CopyBufferToTexture { src: canvas, layout, dst: target, region }]
}

/// Returns a kernel that does the job of a shader. It accesses memory only through descriptors.
fn kernel(job: &Job<Device>, uses: &impl Fn(u32, bool) -> DescriptorUse) -> Kernel {
    match *job {
        Job::Fill { ref to, words, value } => Kernel {
            reads: vec![],
            writes: vec![],
            descriptors: vec![uses(to.index, true)],
            run: Box::new(move |memory| {
                for word in memory.descriptors[0].chunks_exact_mut(4).take(words as usize) {
                    word.copy_from_slice(&value.to_le_bytes());
                }
            }),
        },
        Job::Copy { ref from, ref to, words, .. } => Kernel {
            reads: vec![],
            writes: vec![],
            descriptors: vec![uses(from.index, false), uses(to.index, true)],
            run: Box::new(move |memory| {
                let (from, to) = memory.descriptors.split_at_mut(1);
                let bytes = (words as usize * 4).min(from[0].len()).min(to[0].len());
                to[0][..bytes].copy_from_slice(&from[0][..bytes]);
            }),
        },
    }
}

/// Creates the canvas: a buffer with its own memory.
fn canvas(device: &Device) -> Result<(SimBuffer, Memory), DeviceError> {
    let usage = BufferUsage::COPY_SRC | BufferUsage::STORAGE;
    let info = Create::<Buffers>::describe(device, &BufferDesc { size: PICTURE_TEXELS_MAX * 4, usage })?;
    // SAFETY: the description comes from the device.
    let (unplaced, needs) = unsafe { Create::<Buffers>::prepare(device, &info) }?;
    let fits = |index: &usize| {
        let held = device.capabilities().memory_types[*index].properties;
        needs.memory_type_bits & (1 << index) != 0 && held.contains(MemoryProperties::DEVICE_LOCAL)
    };
    let types = device.capabilities().memory_types.len();
    let memory_type = (0..types).find(fits).unwrap_or(0) as u32;
    let desc = MemoryDesc {
        share: None,
        priority: Default::default(),
        memory_type,
        size: needs.size,
        alignment: needs.alignment,
        class: ResourceClass::Buffer,
        name: "canvas",
    };
    // SAFETY: the requirements allow the memory type, and `unplaced` is not placed.
    let (placed, memory) = unsafe { Create::<Buffers>::dedicate(device, &unplaced, &desc) }?;
    Ok((placed.object, memory))
}

/// Splits a subresource into rows of blocks if `one_by_one`. Otherwise returns it whole, for devices that cannot copy
/// parts of a subresource or that restrict the offsets of rows.
fn rows(part: &Subresource, one_by_one: bool) -> impl Iterator<Item = TexelRegion> {
    let Subresource { buffer_offset, row_bytes, mip, layer, aspect, extent, block, block_bytes, .. } = *part;
    let [width, height, depth] = extent;
    let format = match aspect {
        TextureAspect::Color => TexelFormat::compressed(block[0], block[1], block_bytes),
        TextureAspect::Depth => TexelFormat::depth_stencil(block_bytes, 0),
        TextureAspect::Stencil => TexelFormat::depth_stencil(0, block_bytes),
    };
    let [rows, slices] = if one_by_one { [height.div_ceil(block[1]), depth] } else { [1, 1] };
    let [down, deep] = if one_by_one { [block[1], 1] } else { [height, depth] };
    let each = (0..slices).flat_map(move |z| (0..rows).map(move |row| (z, row)));
    each.map(move |(z, row)| {
        let buffer_offset = buffer_offset + u64::from(z * rows + row) * row_bytes;
        let (y, height) = (row * down, down.min(height - row * down));
        TexelRegion { buffer_offset, row_bytes, format, aspect, mip, layer, x: 0, y, z, width, height, depth: deep }
    })
}

fn split(region: TextureRegion) -> (BufferLayout, SimRegion) {
    let TextureRegion { buffer_offset, row_bytes, mip, layer, width, height, .. } = region;
    (BufferLayout { offset: buffer_offset, row_bytes }, SimRegion { mip, layer, x: 0, y: 0, width, height })
}

impl Gpu for SimGpu {
    type Device = Device;

    const SHARE_KINDS: &'static [ShareKind] = &[ShareKind::Simulated];
    const NAME: &'static str = "sim";

    fn open(options: &Options) -> Result<Self, OpenError> {
        let profile = match &options.name {
            None => Profile::h200(),
            Some(name) => Profile::by_name(name).ok_or_else(|| {
                let known: Vec<_> = Profile::all().iter().map(|profile| profile.name).collect();
                OpenError::Absent(format!("there is no profile '{name}'; the profiles are {}", known.join(", ")))
            })?,
        };
        Self::with_profile(profile, SimOptions { seed: options.seed, queues: options.queues, ..Default::default() })
    }

    fn validation(&self) -> Validation {
        Validation::On("the hazard finder".to_owned())
    }

    fn device(&self) -> Device {
        self.device.clone()
    }

    fn queue_count(&self) -> usize {
        self.fences.len()
    }

    fn fence(&self, queue: usize) -> Fence {
        self.fences[queue]
    }

    fn bind_queue(&self, queue: usize) -> Option<usize> {
        self.device.profile().sparse.map(|_| queue)
    }

    fn texel_formats(&self) -> Vec<String> {
        Format::ALL.iter().map(|format| format!("{format:?}")).collect()
    }

    fn describe_texels(&self, format: usize, desc: &TextureDesc) -> Option<TextureDesc> {
        let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
        let info =
            Create::<Textures>::describe(&self.device, &TextureDesc { format: Format::ALL[format], usage, ..*desc });
        let info = info.ok()?;
        // SAFETY: the description comes from the device, and the prepared resource is discarded.
        let (unplaced, _) = unsafe { Create::<Textures>::prepare(&self.device, &info) }.ok()?;
        // SAFETY: as above.
        unsafe { Create::<Textures>::discard(&self.device, unplaced) };
        Some(info)
    }

    fn subresource_pitch(&self, has_both: bool) -> u64 {
        let capabilities = self.device.capabilities();
        match (self.device.profile().strict, has_both) {
            (false, _) => 1,
            (true, false) => capabilities.texture_copy_row_alignment,
            (true, true) => capabilities.depth_stencil_copy_row_alignment,
        }
    }

    fn can_draw(&self) -> bool {
        true
    }

    fn open_gate(&mut self, value: u64) -> Result<(), DeviceError> {
        self.device.submit(self.fences.len(), &[], vec![], (self.gate, value))?;
        // SAFETY: the fence belongs to this device.
        unsafe { self.device.wait(&self.gate, value, Duration::MAX) }.map(drop)
    }

    fn gate_opener(&self) -> GateOpener {
        let (device, gate, awaited) = (self.device.clone(), self.gate, Arc::clone(&self.gate_awaited));
        let queue = self.fences.len();
        Box::new(move || {
            let value = awaited.load(Ordering::Relaxed);
            // SAFETY: the fence belongs to this device.
            if unsafe { device.completed(&gate) }.is_ok_and(|opened| opened < value) {
                // Fails only if the device is lost; no work waits then.
                let _ = device.submit(queue, &[], vec![], (gate, value));
            }
        })
    }

    fn submit(
        &mut self,
        queue: usize,
        waits: &[(usize, u64)],
        commands: &[Command<Device>],
        signal: u64,
    ) -> Result<(), DeviceError> {
        let waits = self.fences_of(waits);
        let mut translated = Vec::with_capacity(commands.len());
        commands.iter().for_each(|command| self.translate(command, &mut translated));
        self.device.submit(queue, &waits, translated, (self.fences[queue], signal))?;
        self.submitted[queue] = signal;
        Ok(())
    }

    fn can_copy_through_descriptors(&self) -> bool {
        true
    }

    fn submit_descriptor_work(
        &mut self,
        queue: usize,
        waits: &[(usize, u64)],
        work: DescriptorWork<'_, Device>,
        signal: u64,
    ) -> Result<(), DeviceError> {
        let bound = work.binding.set_once().ok().and_then(|mut bound| bound.next().copied());
        let heap = bound.ok_or(DeviceError::invalid("a binding that is empty or already set on another list"))?;
        let uses = |slot: u32, writes| DescriptorUse { heap, slot, writes };
        let commands = work.jobs.iter().map(|job| SimCommand::Kernel(kernel(job, &uses))).collect();
        let waits = self.fences_of(waits);
        self.device.submit(queue, &waits, commands, (self.fences[queue], signal))?;
        self.submitted[queue] = signal;
        Ok(())
    }

    fn wait_idle(&mut self) -> Result<(), DeviceError> {
        for (fence, value) in self.fences.iter().zip(&self.submitted) {
            // SAFETY: the fence belongs to this device.
            unsafe { self.device.wait(fence, *value, Duration::MAX) }?;
        }
        Ok(())
    }

    fn close(self) -> Vec<String> {
        let device = self.device.clone();
        drop(self);
        let mut messages: Vec<_> = device.take_hazards().iter().map(ToString::to_string).collect();
        let left = device.live();
        if left != Default::default() {
            messages.push(format!("left over: {left:?}"));
        }
        messages
    }

    fn take_messages(&mut self) -> Vec<String> {
        self.device.take_hazards().iter().map(ToString::to_string).collect()
    }
}

impl Drop for SimGpu {
    fn drop(&mut self) {
        let _ = self.wait_idle();
        // SAFETY: all submitted work is complete (or the device is lost), and each object is destroyed once.
        unsafe {
            Create::<Buffers>::destroy(&self.device, self.canvas);
            if let Some(memory) = self.canvas_memory.take() {
                self.device.free_memory(memory);
            }
        }
    }
}
