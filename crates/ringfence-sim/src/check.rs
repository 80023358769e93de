//! Turns the commands of a submission into steps over addresses, and finds what is wrong with them.
//!
//! A command with a mistake is reported and left out. Of the others, [`Step`]s are made, which name memory and offset:
//! like the addresses in recorded GPU work, they outlive the objects that they come from.

use super::command::{BufferRange, Command, Kernel};
use super::state::State;
use super::step::{Step, Uses};

impl State {
    /// The steps of a command: one, except copies and fills of sparse resources (one a page) and copies of texels (one
    /// a slice).
    pub(super) fn steps(&mut self, command: Command, uses: &mut Uses) -> Vec<Step> {
        let command = match self.by_tile(command, uses) {
            Ok(steps) => return steps,
            Err(command) => command,
        };
        let command = match self.by_slice(command, uses) {
            Ok(steps) => return steps,
            Err(command) => command,
        };
        match self.by_page(command) {
            Ok(parts) => parts.into_iter().filter_map(|part| self.check_part(part, uses)).collect(),
            Err(command) => self.check(command, uses).into_iter().collect(),
        }
    }

    /// The step of a command, its uses added to `uses`; `None` if it is wrong, which is then reported.
    fn check(&mut self, command: Command, uses: &mut Uses) -> Option<Step> {
        match command {
            Command::CopyBuffer { src, src_offset, dst, dst_offset, size } => {
                self.copy_step(BufferRange::new(src, src_offset, size), BufferRange::new(dst, dst_offset, size), uses)
            }
            Command::FillBuffer { dst, offset, size, value } => {
                self.fill_step(BufferRange::new(dst, offset, size), value, uses)
            }
            Command::Kernel(kernel) => self.check_kernel(kernel, uses),
            // Texels were copied slice by slice; the others are carried out with the submission.
            Command::CopyBufferToTexture { .. }
            | Command::CopyTextureToBuffer { .. }
            | Command::CopyBufferToTexels { .. }
            | Command::CopyTexelsToBuffer { .. }
            | Command::CopyTexture { .. }
            | Command::Release { .. }
            | Command::Acquire { .. }
            | Command::Barrier(_) => None,
        }
    }

    fn check_kernel(&mut self, kernel: Kernel, uses: &mut Uses) -> Option<Step> {
        let Kernel { reads, writes, descriptors, run } = kernel;
        let reads: Option<Vec<_>> = reads.into_iter().map(|range| self.buffer_access(range, None, false)).collect();
        let writes: Option<Vec<_>> = writes.into_iter().map(|range| self.buffer_access(range, None, true)).collect();
        let shown: Option<Vec<_>> = descriptors.iter().map(|&held| self.descriptor_accesses(held)).collect();
        let (reads, writes, shown) = (reads?, writes?, shown?);
        uses.extend(reads.iter().chain(&writes).chain(shown.iter().flatten()).cloned());
        Some(Step::Kernel { reads, writes, descriptors, run })
    }
}
