//! Fills with words, clears, copies of boxes, resolves and mip levels on the simulated device.
//!
//! ```text
//!   recorder   Transition(resource), the command, Transition(resource)    as the barriers of real devices
//!   steps      work on bytes, which the hazard finder checks like copies
//! ```
//!
//! A strict profile has the commands of Direct3D 12: no fills and no blits, and only targets are cleared.

use super::command::{Barrier, BufferRange, Command};
use super::device::Device;
use super::hazard::HazardKind;
use super::ids::{Buffer, Texture, What};
use super::order::Access;
use super::state::State;
use super::step::{Step, Uses};
use super::texel_codec::{TexelCodec, family};
use super::texels::{Part, TexelRows};
use ringfence_hal::record::{CopyRegion, Record, TexelRead, TexelRegion, TextureTarget};
use ringfence_hal::transfer::{
    ClearTexel, MipChain, SubresourceRange, TexelAlignment, TexelOrigin, TextureBoxCopy, TextureClear, TextureResolve,
    Transfer, TransferSupport,
};
use ringfence_hal::{BufferUsage, DeviceError, Driver, Format, TexelFormat, TextureAspect, TextureDesc, TextureUsage};

impl TransferSupport for Device {
    fn has_fill(&self) -> bool {
        !self.profile().strict
    }

    fn clear_usage(&self, format: Format) -> TextureUsage {
        clear_usage(self.profile().strict, format)
    }

    fn check_clear(&self, desc: &TextureDesc, value: &ClearTexel) -> Result<(), DeviceError> {
        match value {
            ClearTexel::Color(_) => codec(desc, "clears of a format with a shared exponent").map(drop),
            ClearTexel::DepthStencil { .. } => Ok(()),
        }
    }

    fn check_copy(&self, src: Format, dst: Format) -> Result<(), DeviceError> {
        let is_depth = src.is_depth_stencil() || dst.is_depth_stencil();
        if src != dst && is_depth {
            return Err(DeviceError::unsupported("copies between different formats of depth or stencil"));
        }
        if self.profile().strict && family(src) != family(dst) {
            return Err(DeviceError::unsupported("copies between formats of different families"));
        }
        Ok(())
    }

    fn check_resolve(&self, desc: &TextureDesc) -> Result<(), DeviceError> {
        codec(desc, "resolves of this format").map(drop)
    }

    fn check_blit(&self, desc: &TextureDesc) -> Result<(), DeviceError> {
        if self.profile().strict {
            return Err(DeviceError::unsupported("blits (Direct3D 12 has none)"));
        }
        codec(desc, "blits of this format").map(drop)
    }

    fn texel_alignment(&self, format: TexelFormat, aspect: TextureAspect) -> TexelAlignment {
        if self.profile().strict {
            return TexelAlignment::of_device(self.capabilities(), format, aspect);
        }
        TexelAlignment::of_blocks(format, aspect)
    }
}

fn codec(desc: &TextureDesc, refused: &'static str) -> Result<TexelCodec, DeviceError> {
    TexelCodec::of(desc.format).ok_or(DeviceError::unsupported(refused))
}

const fn clear_usage(is_strict: bool, format: Format) -> TextureUsage {
    match (is_strict, format.is_depth_stencil()) {
        (false, _) => TextureUsage::COPY_DST,
        (true, false) => TextureUsage::RENDER_TARGET,
        (true, true) => TextureUsage::DEPTH_STENCIL,
    }
}

/// Adds a command between transitions of its resources.
fn between_barriers(commands: &mut Vec<Command>, of: &[super::Resource], command: impl FnOnce(&mut Vec<Command>)) {
    let transitions = || of.iter().map(|&resource| Command::Barrier(Barrier::Transition(resource)));
    commands.extend(transitions());
    command(commands);
    commands.extend(transitions());
}

impl Transfer<Device> for Vec<Command> {
    unsafe fn fill_buffer(&mut self, dst: &Buffer, offset: u64, size: u64, value: u32) -> Result<(), DeviceError> {
        between_barriers(self, &[(*dst).into()], |commands| {
            commands.push(Command::FillWords { dst: *dst, offset, size, value });
        });
        Ok(())
    }

    unsafe fn clear_texture(&mut self, clear: &TextureClear<Texture>) -> Result<(), DeviceError> {
        let &TextureClear { texture, range, value, .. } = clear;
        between_barriers(self, &[texture.into()], |commands| {
            commands.push(Command::ClearTexels { texture, range, value });
        });
        Ok(())
    }

    unsafe fn copy_buffer_regions(&mut self, src: &Buffer, dst: &Buffer, regions: &[CopyRegion]) {
        between_barriers(self, &[(*src).into(), (*dst).into()], |commands| {
            // SAFETY: this device checks the commands.
            unsafe { Record::copy_buffer(commands, src, dst, regions) };
        });
    }

    unsafe fn copy_buffer_to_box(&mut self, src: &Buffer, targets: &[TextureTarget<Texture>], regions: &[TexelRegion]) {
        let Some(&TextureTarget { texture: dst, .. }) = targets.first() else { return };
        between_barriers(self, &[(*src).into(), dst.into()], |commands| {
            commands.extend(regions.iter().map(|&region| Command::CopyBufferToTexels { src: *src, dst, region }));
        });
    }

    unsafe fn copy_box_to_buffer(&mut self, reads: &[TexelRead<Texture, Buffer>]) {
        let of: Vec<_> = reads.iter().flat_map(|read| [read.src.into(), read.dst.into()]).collect();
        between_barriers(self, &of, |commands| {
            // SAFETY: this device checks the commands.
            unsafe { Record::read_texels(commands, reads) };
        });
    }

    unsafe fn copy_texture_box(&mut self, copy: &TextureBoxCopy<Texture>) {
        between_barriers(self, &[copy.src.into(), copy.dst.into()], |commands| {
            commands.push(Command::CopyTexels(*copy));
        });
    }

    unsafe fn resolve_texture(&mut self, resolve: &TextureResolve<Texture>) {
        between_barriers(self, &[resolve.src.into(), resolve.dst.into()], |commands| {
            commands.push(Command::ResolveTexels(*resolve));
        });
    }

    unsafe fn blit_mips(&mut self, chain: &MipChain<Texture>) -> Result<(), DeviceError> {
        let &MipChain { texture, parts } = chain;
        between_barriers(self, &[texture.into()], |commands| {
            commands.extend((1..parts.mips).map(|mip| Command::BlitMip { texture, mip }));
        });
        Ok(())
    }
}

impl State {
    /// Returns the step that fills a range of a buffer with words. In a sparse buffer, the range is inside one page.
    pub(super) fn word_step(&mut self, dst: BufferRange, value: u32, uses: &mut Uses) -> Option<Step> {
        if self.is_unbound(dst) {
            return None;
        }
        if !dst.offset.is_multiple_of(4) || !dst.size.is_multiple_of(4) {
            let label = self.label_of(What::Buffer, dst.buffer.0);
            return self.refuse(HazardKind::Unaligned, label, "a fill that is not whole words");
        }
        let access = self.buffer_access(dst, Some(BufferUsage::COPY_DST), true)?;
        uses.push(access.clone());
        Some(Step::filled(access, value.to_le_bytes().to_vec()))
    }

    /// Returns the steps of a clear. If the clear is invalid, reports a hazard and returns `None`.
    pub(super) fn clear_texel_steps(
        &mut self,
        texture: Texture,
        range: SubresourceRange,
        value: ClearTexel,
        uses: &mut Uses,
    ) -> Option<Vec<Step>> {
        let desc = self.desc_of(texture)?;
        if range.mips == 0 || range.layers == 0 {
            return self.misuse(texture, "a clear of no subresource");
        }
        let mut steps = Vec::new();
        let usage = clear_usage(self.profile.strict, desc.format);
        let aspects = TextureAspect::ALL.into_iter().filter(|aspect| value.aspects().contains(aspect.flag()));
        for aspect in aspects {
            let Some(texel) = texel(&desc, aspect, value) else {
                return self.misuse(texture, "a clear of a format to a value of another type");
            };
            let texel = texel.repeat(desc.samples as usize);
            for (mip, layer) in range.each() {
                let part = Part::whole(&desc, mip, layer, aspect);
                let rows = self.texel_rows(texture, part, usage)?;
                self.initialize(texture, (mip, layer, aspect));
                let access = rows.all(true);
                uses.push(access.clone());
                steps.push(Step::filled(access, texel.clone()));
            }
        }
        Some(steps)
    }

    /// Returns the steps of a copy between textures. If the copy is invalid, reports a hazard and returns `None`.
    pub(super) fn box_steps(&mut self, copy: &TextureBoxCopy<Texture>, uses: &mut Uses) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        for layer in 0..copy.layers {
            let part = |origin: &TexelOrigin| Part {
                mip: origin.mip,
                layer: origin.layer.saturating_add(layer),
                aspect: copy.aspect,
                first: [origin.x, origin.y, origin.z],
                extent: copy.extent,
            };
            let (from, to) = (part(&copy.from), part(&copy.to));
            self.single_sample(copy.src)?;
            self.single_sample(copy.dst)?;
            let src = self.texel_rows(copy.src, from, TextureUsage::COPY_SRC)?;
            let dst = self.texel_rows(copy.dst, to, TextureUsage::COPY_DST)?;
            if src.row_bytes != dst.row_bytes || src.count != dst.count {
                return self.misuse(copy.dst, "a copy between texels of different sizes");
            }
            self.check_initialized(copy.src, (from.mip, from.layer, copy.aspect), &src.label)?;
            self.write_part(copy.dst, to, &dst)?;
            for slice in 0..src.slices {
                uses.extend([src.access(slice, false), dst.access(slice, true)]);
                let (row_bytes, rows) = (src.row_bytes, src.count);
                steps.push(Step::Copy { src: src.slice(slice), dst: dst.slice(slice), row_bytes, rows });
            }
        }
        Some(steps)
    }

    /// Returns the steps of a resolve. If the resolve is invalid, reports a hazard and returns `None`.
    pub(super) fn resolve_steps(&mut self, resolve: &TextureResolve<Texture>, uses: &mut Uses) -> Option<Vec<Step>> {
        let (from, to) = (self.desc_of(resolve.src)?, self.desc_of(resolve.dst)?);
        let Some(codec) = TexelCodec::of(from.format).filter(|_| from.samples > 1 && to.samples == 1) else {
            return self.misuse(resolve.src, "a resolve of a texture with one sample, or of this format");
        };
        let mut steps = Vec::new();
        for layer in 0..resolve.layers {
            let color = TextureAspect::Color;
            let [first, into] = [resolve.src_layer, resolve.dst_layer].map(|first| first.saturating_add(layer));
            let source = Part::whole(&from, 0, first, color);
            let target = Part::whole(&to, resolve.dst_mip, into, color);
            let src = self.texel_rows(resolve.src, source, TextureUsage::COPY_SRC)?;
            let dst = self.texel_rows(resolve.dst, target, TextureUsage::COPY_DST)?;
            if source.extent != target.extent || from.format != to.format {
                return self.misuse(resolve.dst, "a resolve between textures of different sizes or formats");
            }
            self.check_initialized(resolve.src, (0, source.layer, color), &src.label)?;
            self.write_part(resolve.dst, target, &dst)?;
            let (codec, samples) = (codec.clone(), from.samples as usize);
            let run = move |bytes: &[u8]| {
                let texels = bytes.chunks_exact(codec.bytes() * samples);
                texels.flat_map(|samples| codec.resolve(samples)).collect()
            };
            steps.push(Step::converted(src.all(false), dst.all(true), run, uses));
        }
        Some(steps)
    }

    /// Returns the steps that make a mip level from the previous one. If the command is invalid, reports a hazard and
    /// returns `None`.
    pub(super) fn blit_steps(&mut self, texture: Texture, mip: u32, uses: &mut Uses) -> Option<Vec<Step>> {
        let desc = self.desc_of(texture)?;
        let Some(codec) = TexelCodec::of(desc.format).filter(|_| desc.samples == 1 && mip > 0) else {
            return self.misuse(texture, "a blit of a multisampled texture, or of this format");
        };
        let mut steps = Vec::new();
        for layer in 0..desc.layers {
            let part = |mip| Part::whole(&desc, mip, layer, TextureAspect::Color);
            let (source, target) = (part(mip - 1), part(mip));
            let src = self.texel_rows(texture, source, TextureUsage::COPY_SRC)?;
            let dst = self.texel_rows(texture, target, TextureUsage::COPY_DST)?;
            self.check_initialized(texture, (mip - 1, layer, TextureAspect::Color), &src.label)?;
            self.write_part(texture, target, &dst)?;
            let (codec, from, to) = (codec.clone(), source.extent, target.extent);
            let run = move |bytes: &[u8]| codec.blit(bytes, from, to);
            steps.push(Step::converted(src.all(false), dst.all(true), run, uses));
        }
        Some(steps)
    }

    /// Marks the subresource of the part as initialised. If the part does not contain the whole subresource, the
    /// subresource must be initialised already.
    fn write_part(&mut self, texture: Texture, part: Part, rows: &TexelRows) -> Option<()> {
        let place = (part.mip, part.layer, part.aspect);
        if !rows.is_whole {
            self.check_initialized(texture, place, &rows.label)?;
        }
        self.initialize(texture, place);
        Some(())
    }

    fn desc_of(&mut self, texture: Texture) -> Option<TextureDesc> {
        let desc = self.texture_desc(texture);
        if desc.is_none() {
            self.report_stale(What::Texture, texture.0, "");
        }
        desc
    }

    fn single_sample(&mut self, texture: Texture) -> Option<()> {
        match self.desc_of(texture)?.samples {
            1 => Some(()),
            _ => self.misuse(texture, "a copy of a box of a multisampled texture"),
        }
    }

    fn misuse<T>(&mut self, texture: Texture, detail: &'static str) -> Option<T> {
        let label = self.label_of(What::Texture, texture.0);
        self.refuse(HazardKind::Misuse, label, detail)
    }
}

/// Returns the bytes of one aspect of a cleared texel. Returns `None` if the value does not fit the format.
fn texel(desc: &TextureDesc, aspect: TextureAspect, value: ClearTexel) -> Option<Vec<u8>> {
    desc.format.texels().block_bytes(aspect)?;
    match (value, aspect) {
        (ClearTexel::Color(color), TextureAspect::Color) => {
            let codec = TexelCodec::of(desc.format).filter(|_| desc.format.channels() == color.channels())?;
            Some(codec.clear(color))
        }
        (ClearTexel::DepthStencil { stencil, .. }, TextureAspect::Stencil) => Some(vec![stencil?]),
        (ClearTexel::DepthStencil { depth, .. }, TextureAspect::Depth) => Some(depth_bytes(desc.format, depth?)),
        _ => None,
    }
}

fn depth_bytes(format: Format, depth: f32) -> Vec<u8> {
    let scaled = |max: u32| (f64::from(depth) * f64::from(max)).round() as u32;
    match format {
        Format::D16Unorm | Format::D16UnormS8Uint => (scaled(u16::MAX.into()) as u16).to_le_bytes().to_vec(),
        Format::X8D24Unorm | Format::D24UnormS8Uint => scaled(0xff_ffff).to_le_bytes().to_vec(),
        _ => depth.to_le_bytes().to_vec(),
    }
}

impl Step {
    /// Returns the step that fills bytes with a repeated pattern.
    fn filled(access: Access, pattern: Vec<u8>) -> Self {
        let run = move |memory: &mut super::KernelMemory| {
            for chunk in memory.writes[0].chunks_mut(pattern.len()) {
                chunk.copy_from_slice(&pattern[..chunk.len()]);
            }
        };
        Self::Kernel { reads: vec![], writes: vec![access], descriptors: vec![], run: Box::new(run) }
    }

    /// Returns the step that computes the bytes of `dst` from those of `src`, and adds both to `uses`.
    fn converted(
        src: Access,
        dst: Access,
        run: impl FnOnce(&[u8]) -> Vec<u8> + Send + 'static,
        uses: &mut Uses,
    ) -> Self {
        uses.extend([src.clone(), dst.clone()]);
        let run = move |memory: &mut super::KernelMemory| memory.writes[0] = run(&memory.reads[0]);
        Self::Kernel { reads: vec![src], writes: vec![dst], descriptors: vec![], run: Box::new(run) }
    }
}
