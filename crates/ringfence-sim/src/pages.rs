//! Copies and fills of sparse buffers, cut into parts that use one page of each buffer.
//!
//! ```text
//!   buffer #9, pages   │ memory 3 + 64 Ki │ none │ memory 3 │
//!   a copy of 100 KiB at 32 KiB ──▶ a part a page ──▶ steps over addresses, as of any buffer
//! ```
//!
//! Pages are looked up when work is submitted, as binding comes before it in its queue. The addresses outlive the
//! binding, so that memory which is used again too early is found.

use super::command::{BufferRange, Command};
use super::ids::Buffer;
use super::state::State;
use super::step::{Step, Uses};
use ringfence_hal::sparse::UnboundReads;

/// A part of a copy or a fill that touches one page of each buffer.
pub(super) enum Part {
    Copy { src: BufferRange, dst: BufferRange },
    Fill { dst: BufferRange, value: u8 },
}

impl State {
    /// The parts of a copy or a fill of sparse buffers; any other command as it is.
    pub(super) fn by_page(&self, command: Command) -> Result<Vec<Part>, Command> {
        match command {
            Command::CopyBuffer { src, src_offset, dst, dst_offset, size }
                if self.is_sparse(src) || self.is_sparse(dst) =>
            {
                let cut = |at: u64| {
                    let left = self.left_of_page(src, src_offset + at).min(self.left_of_page(dst, dst_offset + at));
                    left.min(size - at)
                };
                let part = |at: u64, size: u64| Part::Copy {
                    src: BufferRange::new(src, src_offset + at, size),
                    dst: BufferRange::new(dst, dst_offset + at, size),
                };
                Ok(parts(size, cut, part))
            }
            Command::FillBuffer { dst, offset, size, value } if self.is_sparse(dst) => {
                let cut = |at: u64| self.left_of_page(dst, offset + at).min(size - at);
                let part = |at: u64, size: u64| Part::Fill { dst: BufferRange::new(dst, offset + at, size), value };
                Ok(parts(size, cut, part))
            }
            command => Err(command),
        }
    }

    /// Bytes from here to the end of the page; as many as there may be where there are no pages.
    fn left_of_page(&self, buffer: Buffer, offset: u64) -> u64 {
        let page_bytes = self.profile.page_bytes;
        if self.is_sparse(buffer) { page_bytes - offset % page_bytes } else { u64::MAX }
    }

    /// The step of a part. What is written to a page without memory is lost; what is read there is zeros, or on devices
    /// that promise less, poison.
    pub(super) fn check_part(&mut self, part: Part, uses: &mut Uses) -> Option<Step> {
        match part {
            Part::Fill { dst, value } => self.fill_step(dst, value, uses),
            Part::Copy { src, dst } if self.is_unbound(src) => {
                let zero = self.profile.sparse == Some(UnboundReads::Zero);
                self.fill_step(dst, if zero { 0 } else { self.poison }, uses)
            }
            Part::Copy { dst, .. } if self.is_unbound(dst) => None,
            Part::Copy { src, dst } => self.copy_step(src, dst, uses),
        }
    }
}

/// Cuts `size` bytes into parts.
fn parts(size: u64, cut: impl Fn(u64) -> u64, part: impl Fn(u64, u64) -> Part) -> Vec<Part> {
    let (mut at, mut found) = (0, Vec::new());
    while at < size {
        let length = cut(at);
        found.push(part(at, length));
        at += length;
    }
    found
}
