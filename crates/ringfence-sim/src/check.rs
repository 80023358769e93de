//! Converts the commands of a submission to steps over addresses, and checks them.
//!
//! An invalid command is reported and skipped. Each valid command becomes [`Step`]s, which contain memory objects and
//! offsets. A step stays as it is when the resource of its command is destroyed, like an address in recorded GPU work.

use super::command::{BufferLayout, BufferRange, Command, Kernel};
use super::state::State;
use super::step::{Step, Uses};
use super::texels::{Part, TexelCopy};
use ringfence_hal::record::TexelRegion;

impl State {
    /// Returns the steps of a command. Commands on several pages, slices or subresources have several steps. Invalid
    /// commands, and commands that take effect at submission, have none.
    pub(super) fn steps(&mut self, command: Command, uses: &mut Uses) -> Vec<Step> {
        let layout = |region: &TexelRegion| BufferLayout { offset: region.buffer_offset, row_bytes: region.row_bytes };
        match command {
            Command::CopyBuffer { src, src_offset, dst, dst_offset, size } => {
                self.copy_steps(BufferRange::new(src, src_offset, size), BufferRange::new(dst, dst_offset, size), uses)
            }
            Command::FillBuffer { dst, offset, size, value } => {
                self.fill_steps(BufferRange::new(dst, offset, size), value, uses)
            }
            Command::FillWords { dst, offset, size, value } => {
                self.word_steps(BufferRange::new(dst, offset, size), value, uses)
            }
            Command::CopyBufferToTexture { src, layout, dst, region } => {
                let part = self.texture_desc(dst).map(|desc| Part::flat(&region, &desc));
                let copy = TexelCopy { buffer: src, layout, texture: dst, into_texture: true };
                self.texel_copy_steps(&copy, part, uses)
            }
            Command::CopyTextureToBuffer { src, region, dst, layout } => {
                let part = self.texture_desc(src).map(|desc| Part::flat(&region, &desc));
                let copy = TexelCopy { buffer: dst, layout, texture: src, into_texture: false };
                self.texel_copy_steps(&copy, part, uses)
            }
            Command::CopyBufferToTexels { src, dst, region } => {
                let copy = TexelCopy { buffer: src, layout: layout(&region), texture: dst, into_texture: true };
                self.texel_copy_steps(&copy, Some(Part::of(&region)), uses)
            }
            Command::CopyTexelsToBuffer { src, dst, region } => {
                let copy = TexelCopy { buffer: dst, layout: layout(&region), texture: src, into_texture: false };
                self.texel_copy_steps(&copy, Some(Part::of(&region)), uses)
            }
            Command::CopyTexture { src, dst, mip, layer } => {
                self.texture_copy_steps((src, dst), (mip, layer), uses).unwrap_or_default()
            }
            Command::ClearTexels { texture, range, value } => {
                self.clear_texel_steps(texture, range, value, uses).unwrap_or_default()
            }
            Command::CopyTexels(ref copy) => self.box_steps(copy, uses).unwrap_or_default(),
            Command::ResolveTexels(ref resolve) => self.resolve_steps(resolve, uses).unwrap_or_default(),
            Command::BlitMip { texture, mip } => self.blit_steps(texture, mip, uses).unwrap_or_default(),
            Command::Clear { texture, value } => self.clear_step(texture, Some(value), uses).into_iter().collect(),
            Command::Discard { texture } => self.clear_step(texture, None, uses).into_iter().collect(),
            Command::Kernel(kernel) => self.check_kernel(kernel, uses).into_iter().collect(),
            // Releases, acquires and barriers take effect at submission.
            Command::Release { .. } | Command::Acquire { .. } | Command::Barrier(_) => Vec::new(),
        }
    }

    /// Returns the step of a kernel and adds its accesses to `uses`. If the kernel is invalid, reports a hazard and
    /// returns `None`.
    fn check_kernel(&mut self, kernel: Kernel, uses: &mut Uses) -> Option<Step> {
        let Kernel { reads, writes, descriptors, run } = kernel;
        let reads: Option<Vec<_>> = reads.into_iter().map(|range| self.buffer_access(range, None, false)).collect();
        let writes: Option<Vec<_>> = writes.into_iter().map(|range| self.buffer_access(range, None, true)).collect();
        let shown: Option<Vec<_>> = descriptors.iter().map(|&held| self.descriptor_accesses(held)).collect();
        let (reads, writes, shown) = (reads?, writes?, shown?);
        shown.iter().flatten().try_for_each(|access| self.check_shown(access).ok_or(())).ok()?;
        uses.extend(reads.iter().chain(&writes).chain(shown.iter().flatten()).cloned());
        Some(Step::Kernel { reads, writes, descriptors, run })
    }
}
