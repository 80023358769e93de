//! A device of the test kit with a fault injector. The library's calls go through the injector's rules; the test's
//! submissions do not.
//!
//! ```text
//!   test ──submit──▶ FaultyGpu<G> ────────────────────────▶ G
//!     └──▶ library ──▶ FaultInjector<G::Device> ──rules──▶ G::Device
//! ```

use ringfence::device::fault::{self, FaultInjector};
use ringfence::device::record::{CopyRegion, Record, TexelRead, TexelRegion, TextureCopy, TextureTarget};
use ringfence::device::sharing::ShareKind;
use ringfence::device::sparse::Sparse;
use ringfence::device::{Device, DeviceError, Driver, RawBuffer, RawTexture, TextureDesc, TextureInfo};

use crate::descriptor_work::DescriptorWork;
use crate::transfers::Transfers;
use crate::{Command, GateOpener, Gpu, OpenError, Options, Validation};

/// A device with driver calls that fail on request.
pub struct FaultyGpu<G: Gpu> {
    inner: G,
    faults: FaultInjector,
}

impl<G: Gpu> FaultyGpu<G> {
    /// Wraps a device. The fault injector between the library and the device has no rules yet.
    #[must_use]
    pub fn over(inner: G) -> Self {
        Self { inner, faults: FaultInjector::default() }
    }

    /// Returns the fault injector, to which rules are added.
    #[must_use]
    pub fn faults(&self) -> &FaultInjector {
        &self.faults
    }

    /// Returns the wrapped device.
    #[must_use]
    pub fn inner(&self) -> &G {
        &self.inner
    }
}

/// Converts recorded copies to commands of the wrapped device.
struct Recorder<D: Device>(Vec<Command<D>>, Vec<TextureTarget<RawTexture<D>>>);

impl<D: Device> Record<FaultInjector<D>> for Recorder<D> {
    unsafe fn begin_copies(&mut self, _: &[RawBuffer<D>], textures: &[TextureTarget<RawTexture<D>>]) {
        self.1 = textures.to_vec();
    }

    unsafe fn copy_buffer(&mut self, src: &RawBuffer<D>, dst: &RawBuffer<D>, regions: &[CopyRegion]) {
        self.0.extend(regions.iter().map(|&CopyRegion { src_offset, dst_offset, size }| Command::CopyBuffer {
            src: src.clone(),
            src_offset,
            dst: dst.clone(),
            dst_offset,
            size,
        }));
    }

    unsafe fn copy_buffer_to_texture(&mut self, src: &RawBuffer<D>, dst: &RawTexture<D>, region: &TexelRegion) {
        let is_it =
            |held: &&TextureTarget<_>| held.texture == *dst && (held.mip, held.layer) == (region.mip, region.layer);
        let mut dst = self.1.iter().find(is_it).cloned().expect("begin_copies listed it");
        self.0.push(Command::CopyBufferToTexels { src: src.clone(), dst: dst.clone(), region: *region });
        // Later copies to the same mip level of the same layer must keep these texels.
        dst.discard = false;
        self.1.retain(|held| !is_it(&held));
        self.1.push(dst);
    }

    unsafe fn read_texels(&mut self, reads: &[TexelRead<RawTexture<D>, RawBuffer<D>>]) {
        self.0.push(Command::ReadTexels(reads.to_vec()));
    }

    unsafe fn copy_textures(&mut self, copies: &[TextureCopy<RawTexture<D>>]) {
        self.0.push(Command::CopyTextures(copies.to_vec()));
    }

    unsafe fn end_copies(&mut self, _: &[RawBuffer<D>], _: &[TextureTarget<RawTexture<D>>]) {}
}

/// Converts a command to one of the wrapped device. Both devices have the same objects.
fn unwrap<D: Device>(command: &Command<FaultInjector<D>>, into: &mut Vec<Command<D>>) {
    into.push(match *command {
        Command::CopyBuffer { ref src, src_offset, ref dst, dst_offset, size } => {
            Command::CopyBuffer { src: src.clone(), src_offset, dst: dst.clone(), dst_offset, size }
        }
        Command::Upload(ref batch) => {
            let mut recorder = Recorder(Vec::new(), Vec::new());
            // SAFETY: the recorder only collects commands. The submitter of the commands keeps the promise.
            unsafe { batch.as_ref().clone().record(&mut recorder) }.expect("its frame is open");
            return into.append(&mut recorder.0);
        }
        Command::CopyTextures(ref copies) => Command::CopyTextures(copies.clone()),
        Command::CopyBufferToTexels { ref src, ref dst, region } => {
            Command::CopyBufferToTexels { src: src.clone(), dst: dst.clone(), region }
        }
        Command::ReadTexels(ref reads) => Command::ReadTexels(reads.clone()),
        Command::Transfers(ref list) => {
            let mut recorder = fault::Recorder(Transfers::default());
            // SAFETY: the recorder only collects commands. The submitter of the commands keeps the promise.
            unsafe { list.replay(&mut recorder) }.expect("collecting does not fail");
            Command::Transfers(recorder.0)
        }
        Command::CopySubresource { ref buffer, ref texture, part, into_texture, discard } => {
            let (buffer, texture) = (buffer.clone(), texture.clone());
            Command::CopySubresource { buffer, texture, part, into_texture, discard }
        }
        Command::FillBuffer { ref dst, offset, size, value } => {
            Command::FillBuffer { dst: dst.clone(), offset, size, value }
        }
        Command::CopyBufferToTexture { ref src, ref dst, region, discard } => {
            Command::CopyBufferToTexture { src: src.clone(), dst: dst.clone(), region, discard }
        }
        Command::CopyTextureToBuffer { ref src, ref dst, region } => {
            Command::CopyTextureToBuffer { src: src.clone(), dst: dst.clone(), region }
        }
        Command::TakeOver { ref buffer } => Command::TakeOver { buffer: buffer.clone() },
        Command::Draw { ref discs, discs_offset, disc_count, ref target, width, height } => {
            let (discs, target) = (discs.clone(), target.clone());
            Command::Draw { discs, discs_offset, disc_count, target, width, height }
        }
    });
}

impl<G: Gpu> Gpu for FaultyGpu<G> {
    type Device = FaultInjector<G::Device>;

    const SHARE_KINDS: &'static [ShareKind] = G::SHARE_KINDS;

    const NAME: &'static str = G::NAME;

    fn open(options: &Options) -> Result<Self, OpenError> {
        G::open(options).map(Self::over)
    }

    fn validation(&self) -> Validation {
        self.inner.validation()
    }

    fn device(&self) -> Self::Device {
        FaultInjector::with(self.inner.device(), self.faults.clone())
    }

    fn queue_count(&self) -> usize {
        self.inner.queue_count()
    }

    fn fence(&self, queue: usize) -> <Self::Device as Driver>::Fence {
        self.inner.fence(queue)
    }

    fn bind_queue(&self, queue: usize) -> Option<<G::Device as Sparse>::BindQueue> {
        self.inner.bind_queue(queue)
    }

    fn texel_formats(&self) -> Vec<String> {
        self.inner.texel_formats()
    }

    fn describe_texels(&self, format: usize, desc: &TextureDesc) -> Option<TextureInfo<'static, Self::Device>> {
        self.inner.describe_texels(format, desc)
    }

    fn subresource_pitch(&self, has_both: bool) -> u64 {
        self.inner.subresource_pitch(has_both)
    }

    fn can_copy_to(&self, memory_type: u32) -> bool {
        self.inner.can_copy_to(memory_type)
    }

    fn can_draw(&self) -> bool {
        self.inner.can_draw()
    }

    fn open_gate(&mut self, value: u64) -> Result<(), DeviceError> {
        self.inner.open_gate(value)
    }

    fn gate_opener(&self) -> GateOpener {
        self.inner.gate_opener()
    }

    fn submit(
        &mut self,
        queue: usize,
        waits: &[(usize, u64)],
        commands: &[Command<Self::Device>],
        signal: u64,
    ) -> Result<(), DeviceError> {
        let mut unwrapped = Vec::with_capacity(commands.len());
        commands.iter().for_each(|command| unwrap(command, &mut unwrapped));
        self.inner.submit(queue, waits, &unwrapped, signal)
    }

    fn can_copy_through_descriptors(&self) -> bool {
        false
    }

    /// Returns an error: a binding belongs to the injected device, but such work would run on the wrapped one.
    fn submit_descriptor_work(
        &mut self,
        _queue: usize,
        _waits: &[(usize, u64)],
        _work: DescriptorWork<'_, Self::Device>,
        _signal: u64,
    ) -> Result<(), DeviceError> {
        Err(DeviceError::unsupported("work through descriptors behind a fault injector"))
    }

    fn wait_idle(&mut self) -> Result<(), DeviceError> {
        self.inner.wait_idle()
    }

    fn close(self) -> Vec<String> {
        self.inner.close()
    }

    fn take_messages(&mut self) -> Vec<String> {
        self.inner.take_messages()
    }
}
